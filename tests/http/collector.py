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

METHOD = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"

# Of opentelemetry-proto 1.x: common, resource, trace, collector/trace.
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
        self.answers = []  # what the next exports get: a status, or None for success; then success
        self.partial = None

    def take(self, body, metadata):
        request = CLASSES["Request"].FromString(body)
        with self.changed:
            says = self.answers.pop(0) if self.answers else None
            self.exports.append((request, dict(metadata)))
            if says is None:
                self.spans += [span for one in request.resource_spans for scope in one.scope_spans for span in scope.spans]
            self.changed.notify_all()
        return says

    def wait(self, count, patience=15):
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.spans) >= count, patience), "%d of %d spans" % (len(self.spans), count)
            return list(self.spans)

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
            if details.method != METHOD:
                return None
            return grpc.unary_unary_rpc_method_handler(self.export)

        def export(self, body, context):
            says = self.collector.take(body, context.invocation_metadata())
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
                status = collector.take(body, {name.lower(): value for name, value in self.headers.items()}) or 200
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
