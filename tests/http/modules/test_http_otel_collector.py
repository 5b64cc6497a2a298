"""Traces, log records and metrics as the OpenTelemetry Collector reads them (auto/otelcol builds it)."""

import json
import os
import re

import pytest

from harness.ports import take
from harness.programs import Program, connects, home
from harness.wait import until

COLLECTOR = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../objs-tools/otelcol")
PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"

pytestmark = pytest.mark.skipif(not os.path.exists(COLLECTOR), reason="objs-tools/otelcol is not there: auto/otelcol builds it")


@pytest.fixture
def collector():
    """Gives its ports, by gRPC and by HTTP, and what it has printed so far."""
    directory, ports = home("otelcol"), [take(), take()]
    grpc, http = ("127.0.0.1:%d" % port.number for port in ports)
    pipeline = {"receivers": ["otlp"], "exporters": ["debug"]}
    config = {"receivers": {"otlp": {"protocols": {"grpc": {"endpoint": grpc}, "http": {"endpoint": http}}}},
              "exporters": {"debug": {"verbosity": "detailed"}},
              "service": {"telemetry": {"metrics": {"level": "none"}}, "pipelines": {name: pipeline for name in ("traces", "logs", "metrics")}}}
    with Program([COLLECTOR, "--config", "yaml:" + json.dumps(config)], directory, ready=lambda: connects(ports[0].number) and connects(ports[1].number)) as program:
        yield grpc, http, program.log
    for port in ports:
        port.close()


def spans(printed):
    """{service and name: (trace, parent, id)}"""
    found = {}
    for resource in printed.split("ResourceSpans #")[1:]:
        service = re.search(r"service.name: Str\((.*)\)", resource).group(1)
        for trace, parent, own, name in re.findall(r"Trace ID +: (\w*)\n +Parent ID +: (\w*)\n +ID +: (\w*)\n +Name +: (.*)\n", resource):
            found[service, name] = trace, parent, own
    return found


SITE = """otel_exporter { endpoint %s; protocol %s; interval 20ms; } otel_service_name %s; otel_trace on; otel_trace_context propagate; otel_access_log on;
    otel_error_log warn; otel_metrics on interval=100ms; server { listen 127.0.0.1:@PORT@; location /%s { %s } }"""


@pytest.mark.parametrize("protocol", ["grpc", "http/protobuf"])
def test_a_chain_of_two_servers(serve, collector, protocol):
    endpoint, printed = collector[protocol != "grpc"], collector[2]
    back = serve(SITE % (endpoint, protocol, "back", "b", "root /nowhere;"))
    front = serve(SITE % (endpoint, protocol, "front", "", "proxy_pass http://127.0.0.1:%d/b;" % back.port))
    assert front.get("/", "traceparent: 00-%s-%s-01" % PARENT).status == 404
    wanted = [r"service.name: Str\(%s\)" % name for name in ("front", "back")] + [
        r"Body: Str\(127.0.0.1 \"GET /b HTTP/1.[01]\" 404 \d+\)\n", r"SeverityText: error\n(.*\n)*?Body: Str\(\*\d+ open\(\) \"/nowhere/b\" failed",
        r"-> Name: portunus_server_requests\n(.*\n)*? +-> IsMonotonic: true\n +-> AggregationTemporality: Cumulative\n(.*\n)*? +-> code: Str\(404\)\n(.*\n)*?Value: 1\n",
        r"-> Name: portunus_server_request_duration_seconds\n(.*\n)*? +-> Unit: s\n +-> DataType: Histogram\n(.*\n)*?Count: 1\n"]
    until(lambda: len(spans(printed())) == 2 and all(re.search(one, printed()) for one in wanted), lambda: "all signals in: " + printed()[-20000:])
    outer, inner = spans(printed())["front", "/"], spans(printed())["back", "/b"]
    assert outer[:2] == PARENT and inner[:2] == (PARENT[0], outer[2])
    records = re.findall(r"Body: Str\(127.0.0.1 \"GET (\S+) .*\n(?:.*\n)*?Trace ID: (\w+)\nSpan ID: (\w+)\n", printed())
    assert sorted(records) == [("/", PARENT[0], outer[2]), ("/b", PARENT[0], inner[2])]
    assert front.quit() == back.quit() == 0
