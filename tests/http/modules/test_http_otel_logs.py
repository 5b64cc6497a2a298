"""Log records and metrics of OpenTelemetry: what they say, and how they get to a collector."""

import re
import socket
import time

import pytest

from collector import Collector, HttpCollector, attributes, grpc
from harness.server import run_binary
from harness.wait import until

EXPORTER = "otel_exporter { endpoint 127.0.0.1:%d; %s } "
PARENT = "traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture
def collector():
    made = Collector()
    yield made
    made.close()


def start(serve, collector, site, more="interval 30ms;", **kwargs):
    return serve(EXPORTER % (collector.port, more) + site, **kwargs)


# ---- log records

def test_a_request_is_a_record(serve, collector):
    """The record has the attributes of a span, and its trace where there is one."""
    server = start(serve, collector, "otel_access_log on; otel_trace_context extract; server { listen 127.0.0.1:@PORT@; location / { return 200 four; }"
                   "  location /traced { otel_trace on; return 201; } location /off { otel_access_log off; return 200; } }")
    before = time.time_ns()
    for path in ("/off", "/a", "/traced"):
        server.get(path, PARENT)
    assert server.quit() == 0
    plain, traced = collector.wait_for(lambda it: len(it.records) >= 2 and it.records)
    assert plain.body.string_value == '127.0.0.1 "GET /a HTTP/1.1" 200 4'
    assert (plain.severity, plain.severity_text, plain.event_name) == (9, "info", "nginx.access")
    assert before - 10**9 < plain.time == plain.observed < time.time_ns() + 10**9
    found = attributes(plain)
    assert (found["http.method"], found["http.target"], found["http.status_code"]) == ("GET", "/a", 200)
    assert not plain.trace_id and not plain.span_id
    span, = collector.wait(1)
    assert (traced.trace_id, traced.span_id, traced.flags) == (span.trace_id, span.span_id, 1)
    assert span.trace_id.hex() == PARENT[16:48] and attributes(traced) == attributes(span)


def test_the_text_of_a_record(serve, collector):
    """Variables of the location where the request ends; an empty text is no record; what is no UTF-8 is replaced, what is long cut."""
    server = start(serve, collector, "large_client_header_buffers 4 16k; map $status $lost { ~^5 $request_uri; default ''; } server { listen 127.0.0.1:@PORT@;"
                   " otel_access_log $lost; location / { return 200; } location /bad { return 503; } location /text { otel_access_log '$http_a$arg_n'; return 200; } }")
    for path, *headers in (("/",), ("/bad",), ("/text?n=1", "A: \xff"), ("/text?n=" + 5000 * "n",)):
        server.get(path, *headers)
    assert server.quit() == 0
    records = collector.wait_for(lambda it: len(it.records) >= 3 and it.records)
    assert [record.body.string_value for record in records] == ["/bad", "\ufffd1", 4096 * "n"]


def test_lines_of_the_error_log(serve, collector):
    server = start(serve, collector, "otel_error_log warn; server { listen 127.0.0.1:@PORT@; location / { root /nowhere; } location /lua { content_by_lua_block {"
                   " ngx.log(ngx.WARN, 'a warning') ngx.log(ngx.NOTICE, 'a notice') ngx.log(ngx.CRIT, 'critical') } } }")
    server.get("/x")
    server.get("/lua")
    assert server.quit() == 0
    records = collector.wait_for(lambda it: len(it.records) >= 3 and it.records)
    assert [(record.severity, record.severity_text, record.event_name) for record in records] == \
        [(17, "error", "nginx.error"), (13, "warn", "nginx.error"), (18, "crit", "nginx.error")]
    assert re.fullmatch(r'\*\d+ open\(\) "/nowhere/x" failed \(2: No such file or directory\), client: 127.0.0.1, server: .*, request: "GET /x HTTP/1.1".*',
                        records[0].body.string_value)
    pid = re.search(r"\[error\] (\d+)#(\d+): ", server.error_log)
    assert attributes(records[0]) == {"process.pid": int(pid.group(1)), "thread.id": int(pid.group(2))}
    assert "a warning" in records[1].body.string_value and "critical" in records[2].body.string_value


def test_more_lines_than_there_is_room_for(serve, collector):
    """They are dropped, counted, and the worker says so; what is said about the collector is not sent to it."""
    server = start(serve, collector, "otel_error_log error; server { listen 127.0.0.1:@PORT@; location /metrics { metrics; }"
                   " location / { content_by_lua_block { for i = 1, 200 do ngx.log(ngx.ERR, string.rep('x', 2000)) end } } }", "interval 50ms; batch_size 10; batch_count 64;")
    assert server.get("/").status == 200
    server.wait_log(r"\[warn\] .* \d+ log records were dropped: the collector 127.0.0.1:\d+ does not accept them")

    def counts():
        return [int(count) for count in re.findall(r'log_records_total\{result="(?:sent|dropped)"\} (\d+)', server.get("/metrics").text)]
    until(lambda: sum(counts()) == 200, lambda: "200 records: %s" % counts())
    assert 100 < counts()[0] < 200 and len(counts()) == 2
    assert server.quit() == 0
    assert not any("dropped" in record.body.string_value for record in collector.records)


def test_a_collector_that_is_down_gets_no_lines_about_itself(serve):
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        server = serve(EXPORTER % (closed.getsockname()[1], "interval 10ms; batch_size 1; batch_count 2;")
                       + "otel_error_log debug; otel_access_log on; server { listen 127.0.0.1:@PORT@; location / { return 200; } location /metrics { otel_access_log off; metrics; } }")
        with server.client() as client:
            for _ in range(20):
                assert client.request("/").status == 200
        server.wait_log(r"OTel export failure: connection of collector 127.0.0.1:\d+, log records \(111: ")
        until(lambda: re.search(r'log_records_total\{result="dropped"\} 1[89]', server.get("/metrics").text), "dropped records")
        assert server.quit() == 0


# ---- metrics

def points(metric):
    """{values of attributes: point}"""
    return {tuple(attributes(point).values()): point for data in (metric.gauge, metric.sum, metric.histogram) for point in data.points}


def test_metrics(serve, collector):
    """The numbers of `metrics`, by the same names, without a location that shows them."""
    server = start(serve, collector, "otel_metrics on interval=100ms; otel_resource_attr region eu; server { listen 127.0.0.1:@PORT@; server_name s; status_zone shop;"
                   "  location / { return 200 four; } location /no { return 404; } }", main="worker_processes 2;")
    before = time.time_ns()
    for path in ("/", "/", "/no"):
        server.get(path)
    found = collector.wait_for(lambda it: next((export for export in it.metrics if ("shop", "404") in points(export.get("portunus_server_requests", ())) or ()), None)
                               if it.metrics and "portunus_server_requests" in it.metrics[-1] else None)
    requests = found["portunus_server_requests"]
    assert requests.sum.is_monotonic and requests.sum.temporality == 2 and not requests.unit
    by_code = points(requests)
    assert {key: point.as_int for key, point in by_code.items()} == {("shop", "200"): 2, ("shop", "404"): 1}
    assert before - 60 * 10**9 < by_code["shop", "200"].start < by_code["shop", "200"].time < time.time_ns() + 10**9
    workers = found["portunus_workers"]
    assert workers.gauge.points[0].as_int == 2 and not workers.gauge.points[0].start
    assert (found["portunus_server_sent_bytes"].unit, found["portunus_server_request_duration_seconds"].unit) == ("By", "s")
    times = found["portunus_server_request_duration_seconds"].histogram
    one, = times.points
    assert times.temporality == 2 and one.count == sum(one.bucket_counts) == 3 and len(one.bucket_counts) == len(one.bounds) + 1
    assert list(one.bounds) == sorted(one.bounds) and one.sum < 3
    assert attributes(collector.exports[0][0].resources[0].resource)["region"] == "eu"
    exports = len(collector.metrics)
    assert server.quit() == 0
    collector.wait_for(lambda it: len(it.metrics) > exports)  # once more at the end


def test_counters_continue_over_a_reload(serve, collector):
    server = start(serve, collector, "otel_metrics on interval=100ms; server { listen 127.0.0.1:@PORT@; location / { return 200; } }")

    def first():
        collector.wait_for(lambda it: it.metrics and "portunus_server_requests" in it.metrics[-1])
        return collector.metrics[-1]["portunus_server_requests"].sum.points[0]
    server.get("/")
    before = first()
    server.reload()
    server.get("/")
    collector.wait_for(lambda it: it.metrics[-1]["portunus_server_requests"].sum.points[0].as_int == 2)
    assert first().start == before.start and server.quit() == 0


def test_metrics_that_are_not_taken(serve, collector):
    collector.answers = [grpc.StatusCode.INVALID_ARGUMENT]
    server = start(serve, collector, "otel_metrics on interval=100ms; server { listen 127.0.0.1:@PORT@; location / { metrics; } }")
    server.wait_log("OTel export failure: gRPC status 3 .*, metrics")
    collector.wait_for(lambda it: it.metrics)
    assert "portunus_metric_exports_dropped_total 1" in server.get("/").text


# ---- the way

def test_by_http(serve):
    collector = HttpCollector()
    server = serve(("otel_exporter { endpoint http://127.0.0.1:%d/base/v1/traces; protocol http/protobuf; interval 20ms; }" % collector.port)
                   + "otel_trace on; otel_access_log on; otel_metrics on interval=100ms; server { listen 127.0.0.1:@PORT@; location / { return 200; } }")
    server.get("/")
    collector.wait_for(lambda it: it.spans and it.records and it.metrics)
    assert set(collector.paths) == {"/base/v1/traces", "/base/v1/logs", "/base/v1/metrics"}
    assert server.quit() == 0
    collector.close()


def test_a_reload_loses_no_record(serve, collector):
    server = start(serve, collector, "otel_access_log $uri; otel_error_log error; server { listen 127.0.0.1:@PORT@; location / { root /nowhere; } }", "interval 1h;", main="worker_processes 2;")
    for number in range(4):
        server.get("/%d" % number)
    server.reload()
    collector.wait_for(lambda it: len(it.records) >= 8)
    server.get("/4")
    assert server.quit() == 0
    assert sorted(record.body.string_value for record in collector.wait_for(lambda it: len(it.records) >= 10 and it.records) if record.event_name == "nginx.access") == \
        ["/%d" % number for number in range(5)]


@pytest.mark.parametrize("text,says", [
    ("otel_access_log on;", '"otel_exporter" block is missing'),
    ("otel_error_log warn;", '"otel_exporter" block is missing'),
    ("otel_metrics on;", '"otel_exporter" block is missing'),
    ("otel_error_log loud;", 'invalid value "loud"'),
    ("otel_metrics maybe;", 'invalid value "maybe" in "otel_metrics" directive'),
    ("otel_metrics off interval=1s;", 'invalid value "interval=1s" in "otel_metrics" directive'),
    ("otel_metrics on interval=1ms;", 'invalid parameter "interval=1ms"'),
    ("otel_metrics on every=1s;", 'invalid parameter "every=1s"'),
    ("otel_access_log $nothing_at_all;", 'unknown "nothing_at_all" variable'),
    ("otel_exporter { endpoint 127.0.0.1:1/own; protocol http/protobuf; } otel_metrics on;", '"otel_metrics" needs an "endpoint" without a path'),
])
def test_configurations_that_are_refused(tmp_path, text, says):
    (tmp_path / "nginx.conf").write_text("events {} http { %s server { } }" % text)
    result = run_binary("-t", "-p", str(tmp_path), "-c", "nginx.conf")
    assert result.returncode == 1 and says in result.stderr, result.stderr
