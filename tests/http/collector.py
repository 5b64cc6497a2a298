"""A collector of OpenTelemetry for tests: by gRPC's own library, or by HTTP, what it gets is read by Google's protobuf."""

import concurrent.futures
import http.server
import os
import threading

import pytest

os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
grpc = pytest.importorskip("grpc")
import protobuf_classes  # noqa: E402  pylint: disable=wrong-import-position

SERVICES = {"trace.v1.TraceService": "traces", "logs.v1.LogsService": "logs", "metrics.v1.MetricsService": "metrics"}
METHODS = {"/opentelemetry.proto.collector.%s/Export" % service: signal for service, signal in SERVICES.items()}

# Of opentelemetry-proto 1.x: common, resource, trace, logs, metrics, collector.
MESSAGES = {
    "AnyValue": "1 string_value string, 2 bool_value bool, 3 int_value int64, 4 double_value double",
    "KeyValue": "1 key string, 2 value AnyValue",
    "Resource": "1 *attributes KeyValue",
    "Scope": "1 name string, 2 version string",
    "Status": "2 message string, 3 code int32",
    "Span": "1 trace_id bytes, 2 span_id bytes, 3 trace_state string, 4 parent_span_id bytes, 5 name string, 6 kind int32, 7 start fixed64, 8 end fixed64,"
            " 9 *attributes KeyValue, 15 status Status, 16 flags fixed32",
    "ScopeSpans": "1 scope Scope, 2 *spans Span",
    "ResourceSpans": "1 resource Resource, 2 *scope_spans ScopeSpans",
    "Request": "1 *resource_spans ResourceSpans",
    "LogRecord": "1 time fixed64, 2 severity int32, 3 severity_text string, 5 body AnyValue, 6 *attributes KeyValue, 8 flags fixed32, 9 trace_id bytes,"
                 " 10 span_id bytes, 11 observed fixed64, 12 event_name string",
    "ScopeLogs": "1 scope Scope, 2 *records LogRecord",
    "ResourceLogs": "1 resource Resource, 2 *scopes ScopeLogs",
    "LogsRequest": "1 *resources ResourceLogs",
    "NumberPoint": "2 start fixed64, 3 time fixed64, 4 as_double double, 6 as_int sfixed64, 7 *attributes KeyValue",
    "HistogramPoint": "2 start fixed64, 3 time fixed64, 4 count fixed64, 5 sum double, 6 *bucket_counts fixed64, 7 *bounds double, 9 *attributes KeyValue",
    "Gauge": "1 *points NumberPoint",
    "Sum": "1 *points NumberPoint, 2 temporality int32, 3 is_monotonic bool",
    "Histogram": "1 *points HistogramPoint, 2 temporality int32",
    "Metric": "1 name string, 2 description string, 3 unit string, 5 gauge Gauge, 7 sum Sum, 9 histogram Histogram",
    "ScopeMetrics": "1 scope Scope, 2 *metrics Metric",
    "ResourceMetrics": "1 resource Resource, 2 *scopes ScopeMetrics",
    "MetricsRequest": "1 *resources ResourceMetrics",
    "Partial": "1 rejected_spans int64, 2 error_message string",
    "Response": "1 partial_success Partial",
}
CLASSES = protobuf_classes.make("otlp", MESSAGES)


def attributes(message):
    """{key: value}; each key once."""
    found = {}
    for pair in message.attributes:
        assert pair.key not in found
        which = [name for name, _ in pair.value.ListFields()]
        assert len(pair.value.ListFields()) == 1, which
        found[pair.key] = pair.value.ListFields()[0][1]
    return found


def unknown(message):
    """Are there fields that the tables do not have?"""
    return message.SerializeToString() != type(message).FromString(message.SerializeToString()).SerializeToString()


class Gathering:
    """What came: exports as (request, metadata), spans in order."""

    def __init__(self):
        self.exports, self.spans, self.changed = [], [], threading.Condition()
        self.records, self.metrics = [], []  # LogRecord; of each export {name: Metric}
        self.answers = []  # what the next exports get: a status, or None for success; then success
        self.partial = None

    def take(self, signal, body, metadata):
        request = CLASSES[{"traces": "Request", "logs": "LogsRequest", "metrics": "MetricsRequest"}[signal]].FromString(body)
        with self.changed:
            says = self.answers.pop(0) if self.answers else None
            self.exports.append((request, dict(metadata)))
            if says is None and signal == "logs":
                self.records += [record for one in request.resources for scope in one.scopes for record in scope.records]
            elif says is None and signal == "metrics":
                self.metrics.append({metric.name: metric for one in request.resources for scope in one.scopes for metric in scope.metrics})
            elif says is None:
                self.spans += [span for one in request.resource_spans for scope in one.scope_spans for span in scope.spans]
            self.changed.notify_all()
        return says

    def wait(self, count, patience=15):
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.spans) >= count, patience), "%d of %d spans" % (len(self.spans), count)
            return list(self.spans)

    def wait_for(self, what, patience=15):
        """Until what(self) is true; gives that."""
        with self.changed:
            assert self.changed.wait_for(lambda: what(self), patience), "%d records, %d exports of metrics" % (len(self.records), len(self.metrics))
            return what(self)

    def wait_exports(self, count, patience=15):
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.exports) >= count, patience), "%d of %d exports" % (len(self.exports), count)

    def response(self):
        message = CLASSES["Response"]()
        if self.partial:
            message.partial_success.rejected_spans, message.partial_success.error_message = self.partial
        return message.SerializeToString()


class Collector(Gathering):
    """By gRPC. `credentials`: TLS."""

    class _Service(grpc.GenericRpcHandler):
        def __init__(self, collector):
            self.collector = collector

        def service(self, details):
            signal = METHODS.get(details.method)
            return signal and grpc.unary_unary_rpc_method_handler(lambda body, context: self.export(signal, body, context))

        def export(self, signal, body, context):
            says = self.collector.take(signal, body, context.invocation_metadata())
            if says is not None:
                context.abort(says, "says the test")
            return self.collector.response()

    def __init__(self, credentials=None, address="127.0.0.1:0"):
        super().__init__()
        self.server = grpc.server(concurrent.futures.ThreadPoolExecutor(4))
        self.server.add_generic_rpc_handlers((self._Service(self),))
        self.port = self.server.add_secure_port(address, credentials) if credentials else self.server.add_insecure_port(address)
        self.server.start()

    def close(self):
        self.server.stop(0).wait()


class HttpCollector(Gathering):
    """By HTTP: POST requests with a message as their body."""

    def __init__(self):
        super().__init__()
        collector, self.paths, self.connections = self, [], set()

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                collector.connections.add(self.client_address)
                collector.paths.append(self.path)
                signal = self.path.rsplit("/", 1)[-1]
                status = collector.take(signal if signal in SERVICES.values() else "traces", body, {name.lower(): value for name, value in self.headers.items()}) or 200
                answer = collector.response() if status == 200 else b"no"
                self.send_response(status)
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *args):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()
