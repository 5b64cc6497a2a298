"""Traces of OpenTelemetry: contexts, what a span says, and how spans get to a collector."""

import re
import socket
import time

import pytest

import certificates
from collector import Collector, HttpCollector, attributes, grpc
from harness import h3
from harness.h2 import H2
from harness.server import run_binary
from harness.wait import until

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
PARENT = "traceparent: 00-%s-%s-01" % (TRACE, SPAN)
EXPORTER = "otel_exporter { endpoint 127.0.0.1:%d; %s } "
SITE = "otel_trace on; server { listen 127.0.0.1:@PORT@; %s }"
SHOW = "return 200 '$http_traceparent|$http_tracestate';"


@pytest.fixture
def collector():
    made = Collector()
    yield made
    made.close()


@pytest.fixture
def http_collector():
    made = HttpCollector()
    yield made
    made.close()


def start(serve, collector, site, more="interval 50ms;", **kwargs):
    return serve(EXPORTER % (collector.port, more) + site, **kwargs)


def spans_of(server, collector, count):
    """All spans: the worker ends, and what it has left comes."""
    assert server.quit() == 0
    spans = collector.wait(count)
    assert len(spans) == count
    return spans


# ---- what a span says

def test_a_span_says_what_the_request_was(serve, collector):
    server = start(serve, collector, "otel_service_name shop; otel_resource_attr region 'eu 1';"
                   + SITE % "server_name s; location /a { otel_span_attr who $arg_who; otel_span_attr fixed 1; return 201 four; }",
                   "interval 1h; header X-Key geheim;")
    before = time.time_ns()
    with server.client() as client:
        client.request("/a?who=me", "User-Agent: test/1", host="s", method="POST", body=b"12345")
        port = client.port
    span, = spans_of(server, collector, 1)
    found = attributes(span)
    assert found == {
        "http.method": "POST", "http.target": "/a?who=me", "http.route": "/a", "http.scheme": "http", "http.flavor": "1.1",
        "http.user_agent": "test/1", "http.request_content_length": 5, "http.response_content_length": 4, "http.status_code": 201,
        "net.host.name": "s", "net.host.port": server.port, "net.sock.peer.addr": "127.0.0.1", "net.sock.peer.port": port,
        "who": "me", "fixed": "1"}
    assert (span.name, span.kind, span.flags & 1) == ("/a", 2, 1) and not span.HasField("status")
    assert len(span.trace_id) == 16 and len(span.span_id) == 8 and not span.parent_span_id and not span.trace_state
    assert before - 10**9 < span.start <= span.end < time.time_ns() + 10**9
    (request, metadata), = collector.exports
    resource, = request.resource_spans
    assert attributes(resource.resource) == {"service.name": "shop", "region": "eu 1"}
    assert resource.scope_spans[0].scope.name == "nginx" and resource.scope_spans[0].scope.version
    assert metadata["x-key"] == "geheim"


def test_names_and_errors(serve, collector):
    site = SITE % """location /named { otel_span_name "$request_method $uri"; return 200; }
                     location /bad { return 503; } location ~ x$ { return 404; }"""
    server = start(serve, collector, site)
    for path in ("/named/it", "/bad", "/x"):
        server.get(path)
    named, bad, regex = spans_of(server, collector, 3)
    assert named.name == "GET /named/it" and attributes(named)["http.route"] == "/named"
    assert bad.status.code == 2 and attributes(bad)["http.status_code"] == 503
    assert regex.name == "x$" and not regex.HasField("status")
    assert attributes(collector.exports[0][0].resource_spans[0].resource) == {"service.name": "unknown_service:nginx"}


def test_text_is_utf_8_and_has_an_end(serve, collector):
    server = start(serve, collector, "large_client_header_buffers 4 32k;" + SITE % "location / { otel_span_attr a $http_a; return 200; }")
    server.get("/" + "y" * 9000, "User-Agent: " + "z" * 5000, "A: \xff\xfeend")
    found = attributes(spans_of(server, collector, 1)[0])
    assert found["a"] == "\ufffd\ufffdend" and found["http.target"] == "/" + "y" * 4095 and found["http.user_agent"] == "z" * 1024


def test_text_of_any_length(serve, collector):
    """Short texts are copied by words, and longer ones have lengths of several bytes."""
    server = start(serve, collector, "keepalive_requests 1000; large_client_header_buffers 4 16k;" + SITE % "location / { otel_span_attr a $arg_a; return 200; }", "interval 1h;")
    sizes = [*range(0, 34), *range(95, 135), 250, 255, 256, 1023, 1024, 4095]
    texts = ["".join(chr(97 + i % 26) for i in range(size)) for size in sizes]
    with server.client() as client:
        for text in texts:
            client.request("/" + text + "?a=" + text[:4000], "User-Agent: %s\xe9" % text)
    spans = spans_of(server, collector, len(texts))
    for text, found in zip(texts, map(attributes, spans)):
        assert found["http.target"] == ("/" + text + "?a=" + text[:4000])[:4096] and found["a"] == text[:4000]
        assert found["http.user_agent"] == (text + "\ufffd" if len(text) < 1000 else text[:1024])


def test_a_span_has_the_ids_that_its_own_texts_show(serve, collector):
    server = start(serve, collector, SITE % """location /attr { otel_span_attr ids "$otel_trace_id $otel_span_id"; return 200; }
                   location /name { otel_span_name "$otel_trace_id $otel_span_id"; return 200; }""", "interval 1h;")
    server.get("/attr")
    server.get("/name")
    attr, name = spans_of(server, collector, 2)
    assert attributes(attr)["ids"] == "%s %s" % (attr.trace_id.hex(), attr.span_id.hex())
    assert name.name == "%s %s" % (name.trace_id.hex(), name.span_id.hex())


def test_one_share_for_all(serve, collector):
    """It is decided when a request is logged: each for itself, subrequests and what is no request left out."""
    server = start(serve, collector, "keepalive_requests 1000; otel_trace 50%; log_subrequest on; server { listen 127.0.0.1:@PORT@; location / { auth_request /auth; root html; }"
                   "location /auth { return 200; } location /id { return 200 $otel_span_id; } location /named { otel_span_name 'n $uri'; return 200; } }", "interval 1h;")
    with server.client() as client:
        for path in ("/", "/id", "/named"):
            texts = [client.request(path).text for _ in range(100)]
            ids = texts if path == "/id" else ids if path == "/named" else []
    for _ in range(20):
        with server.client() as client:
            client.send(b"GET /bad\x01 HTTP/1.1\r\n\r\n")
            assert client.response().status == 400
    assert server.quit() == 0
    spans = collector.wait(60)
    names = [span.name for span in spans]
    assert all(20 < names.count(name) < 80 for name in ("/", "/id", "n /named")) and len(set(names)) == 3
    assert len({span.trace_id for span in spans}) == len(spans) and {span.span_id.hex() for span in spans if span.name == "/id"} < set(ids)
    assert all(span.flags & 1 for span in spans)


def test_one_span_for_each_request_of_a_client(serve, collector):
    """Redirects inside, error pages, subrequests, what is answered before a location is found, and what is not traced at the end."""
    site = SITE % """
        error_page 404 /404; if ($arg_early) { return 302 /; }
        location / { try_files /none @app; } location @app { return 200 app; }
        location /gone { return 404; } location /404 { otel_trace off; return 200 page; }
        location /auth { auth_request /check; root html; error_page 404 =204 @empty; } location @empty { return 204; } location /check { return 204; }
        location /r { rewrite ^ /to last; } location /to { return 200; } location /off { otel_trace off; return 200; }"""
    server = start(serve, collector, site)
    for path in ("/", "/gone", "/auth", "/r", "/off", "/?early=1"):
        server.get(path)
    spans = spans_of(server, collector, 5)
    assert [(attributes(span).get("http.route"), attributes(span)["http.status_code"]) for span in spans] == \
        [("@app", 200), ("/404", 404), ("@empty", 204), ("/to", 200), (None, 302)]
    assert len({span.trace_id for span in spans}) == 5 and spans[4].name == "GET"


def test_every_version_of_http(serve, collector):
    server = start(serve, collector, SITE % "http2 on; location / { return 200; }")
    with server.client() as client:
        client.send(b"GET /ten HTTP/1.0\r\n\r\n")
        assert client.response().status == 200
    with server.client() as client:
        client.send(b"GET /bad\x01 HTTP/1.1\r\n\r\n")
        assert client.response().status == 400
    with H2(server.port) as client:
        assert client.get("/two").status == 200
    flavors = [attributes(span)["http.flavor"] for span in spans_of(server, collector, 2)]
    assert flavors == ["1.0", "2.0"]  # what is no request has no span


# ---- contexts

@pytest.mark.parametrize("mode,sees", [
    ("ignore", "theirs"), ("extract", "theirs"), ("inject", "own"), ("propagate", "child")])
@pytest.mark.parametrize("traced", ["on", "off"])
def test_what_backends_are_told(serve, collector, mode, sees, traced):
    server = start(serve, collector, "server { listen 127.0.0.1:@PORT1@; location / { %s } }" % SHOW
                   + "server { listen 127.0.0.1:@PORT@; otel_trace %s; otel_trace_context %s;" % (traced, mode)
                   + "add_header Ids '$otel_trace_id $otel_span_id $otel_parent_id $otel_parent_sampled' always;"
                   + "location / { proxy_pass http://127.0.0.1:@PORT1@; } } server { listen 127.0.0.1:@PORT2@; otel_trace on; }")
    answer = server.get("/", PARENT, "tracestate: a=1", "tracestate: b=2")
    trace, span, parent, sampled = answer.header("Ids").split(" ")
    told, state = answer.text.split("|")
    flag = "01" if traced == "on" else "00"
    if sees == "theirs":
        assert (told, state) == (PARENT.split()[1], "a=1, b=2")
    else:
        assert told == "00-%s-%s-%s" % (trace, span, flag)
        assert state == ("a=1, b=2" if sees == "child" else "")
    if mode in ("extract", "propagate"):
        assert (trace, parent, sampled) == (TRACE, SPAN, "1")
    else:
        assert trace != TRACE and (parent, sampled) == ("", "0")
    spans = spans_of(server, collector, 1 if traced == "on" else 0)
    if spans:
        assert (spans[0].trace_id.hex(), spans[0].span_id.hex(), spans[0].parent_span_id.hex()) == (trace, span, parent)
        assert spans[0].trace_state == ("a=1, b=2" if parent else "")


def test_what_is_no_context_begins_a_trace(serve, collector):
    server = start(serve, collector, SITE % "otel_trace_context extract; location / { return 200 $otel_parent_id; }")
    for fields in ([], ["traceparent: junk"], [PARENT, PARENT], ["traceparent: 00-%s-%s-01" % ("0" * 32, SPAN)]):
        assert server.get("/", *fields).text == ""
    assert server.get("/", PARENT, "tracestate: no state").text == SPAN
    spans = spans_of(server, collector, 5)
    assert len({span.trace_id for span in spans}) == 5 and [span.trace_state for span in spans] == [""] * 5


def test_a_chain_of_two_servers(serve, collector):
    front = start(serve, collector, "otel_service_name front; otel_trace_context propagate;" + SITE % "location / { proxy_pass http://127.0.0.1:@PORT1@; }"
                  + "otel_trace_context propagate; server { listen 127.0.0.1:@PORT1@; location / { return 200 $otel_parent_id; } }".replace("otel_trace_context propagate; ", ""))
    assert re.fullmatch("[0-9a-f]{16}", front.get("/", PARENT).text)
    inner, outer = spans_of(front, collector, 2)
    assert inner.trace_id.hex() == outer.trace_id.hex() == TRACE
    assert outer.parent_span_id.hex() == SPAN and inner.parent_span_id == outer.span_id and inner.span_id != outer.span_id


def test_attempts_at_backends(serve, collector):
    server = start(serve, collector, "upstream group { server 127.0.0.1:1; server 127.0.0.1:@PORT1@ backup; } server { listen 127.0.0.1:@PORT1@; return 200 yes; }"
                   "server { listen 127.0.0.1:@PORT@; otel_trace on; location / { otel_upstream_spans on; proxy_pass http://group; } location /none { otel_upstream_spans on; return 200; } }")
    assert server.get("/").text == "yes" and server.get("/none").status == 200
    request, failed, served, _ = spans_of(server, collector, 4)
    for span, status in ((failed, 502), (served, 200)):
        found = attributes(span)
        assert span.trace_id == request.trace_id and span.parent_span_id == request.span_id and span.kind == 3 and span.name == "group"
        assert request.start <= span.start <= span.end <= request.end and found.get("http.status_code") == status and found["upstream.name"] == "group"
    assert attributes(failed)["upstream.addr"] == "127.0.0.1:1" and failed.status.code == 2 and not served.HasField("status")
    assert attributes(served)["upstream.bytes_received"] > 3 and len({failed.span_id, served.span_id, request.span_id}) == 3


def test_what_a_request_goes_through(serve, collector):
    """Parts are children of the request's span, within its time. Others may observe the request as well."""
    server = start(serve, collector, "proxy_cache_path cache keys_zone=zone:1m; debug_request way.json header=X-Debug:sesamesesamesesame; otel_internal_spans on;"
                   "server { listen 127.0.0.1:@PORT1@; location / { return 200 yes; } location /no { return 403; } }"
                   "server { listen 127.0.0.1:@PORT@; otel_trace on; location / { auth_request /auth; proxy_cache zone; proxy_cache_valid 1m; proxy_pass http://127.0.0.1:@PORT1@; }"
                   "  location = /auth { internal; proxy_pass http://127.0.0.1:@PORT1@; } location = /deny { internal; return 403; } location /denied { auth_request /deny; }"
                   "  location /lua { rewrite_by_lua_block { ngx.sleep(0.005) } access_by_lua_block { return } content_by_lua_block { ngx.say(1) } }"
                   "  location /many { content_by_lua_block { for i = 1, 70 do ngx.location.capture('/deny') end } } location /off { otel_internal_spans off; return 204; } }")

    noise = re.compile("(rewrite rewrite|preaccess|precontent|content) ?.+")  # where a machine is so slow that these take a millisecond

    def check(target, expected, *headers):
        before = len(collector.spans)
        server.get(target, *headers)
        until(lambda: len(collector.spans) > before + len(expected), lambda: "the spans of %s: %s" % (target, [span.name for span in collector.spans[before:]]))
        request, *found = [span for span in collector.spans[before:] if not noise.fullmatch(span.name)]
        for span in found:
            assert span.trace_id == request.trace_id and span.parent_span_id == request.span_id and span.kind == 1
            assert request.start <= span.start <= span.end <= request.end
        assert [(span.name, attributes(span)) for span in found] == expected, [span.name for span in found]

    def subrequest(target, status):
        return "subrequest", {"http.target": target, "http.status_code": status}

    check("/a", [subrequest("/auth", 200), ("access auth_request", {}), ("cache", {"cache.status": "MISS"}), ("content", {"http.route": "/"})],
          "X-Debug: sesamesesamesesame")
    assert len(server.wait_lines("way.json")) == 1
    check("/a", [subrequest("/auth", 200), ("access auth_request", {}), ("cache", {"cache.status": "HIT"}), ("content", {"http.route": "/"})])
    check("/denied", [subrequest("/deny", 403), ("access auth_request", {})])
    check("/lua", [("rewrite lua", {}), ("access lua", {}), ("content", {"http.route": "/lua"})])
    check("/many", 64 * [subrequest("/deny", 403)])
    check("/off", [])


def test_the_client_or_chance_decides(serve, collector):
    server = start(serve, collector, "split_clients $otel_trace_id $half { 50% on; * off; }"
                   "server { listen 127.0.0.1:@PORT@; location / { otel_trace $otel_parent_sampled; otel_trace_context extract; return 200; }"
                   "  location /half { otel_trace $half; return 200 $half; } location /share { otel_trace 50%; rewrite ^ /empty last; } location /empty { otel_trace 50%; return 200; } }")
    server.get("/", PARENT)
    server.get("/", PARENT.replace("-01", "-00"))
    server.get("/")
    with server.client() as client:
        on = sum(client.request("/half").text == "on" for _ in range(100))
    assert 20 < on < 80
    with server.client() as client:
        for _ in range(100):
            assert client.request("/share").status == 200
    assert server.quit() == 0
    names = [span.name for span in collector.wait(1 + on + 20)]
    assert names.count("/") == 1 and names.count("/half") == on and 20 < names.count("/empty") < 80 and len(set(names)) == 3


# ---- the way to the collector

def test_a_full_batch_leaves_at_once_and_the_rest_at_the_end(serve, collector):
    server = start(serve, collector, SITE % "location / { return 200; }", "interval 1h; batch_size 3;")
    with server.client() as client:
        for _ in range(3):
            client.request("/")
        assert len(collector.wait(3)) == 3
        client.request("/")
    assert len(spans_of(server, collector, 4)) == 4 and len(collector.exports) == 2


def test_a_reload_loses_nothing(serve, collector):
    server = start(serve, collector, SITE % "location / { return 200; }", "interval 1h;", main="worker_processes 2;")
    for _ in range(3):
        server.get("/")
    server.reload()
    collector.wait(3)
    server.get("/")
    spans_of(server, collector, 4)


def test_large_batches_obey_the_windows(serve, collector):
    server = start(serve, collector, "keepalive_requests 1000; large_client_header_buffers 4 16k;" + SITE % "location / { return 200; }", "interval 1h; batch_size 200;")
    with server.client() as client:
        for _ in range(400):
            client.request("/" + "p" * 4000)
    spans = spans_of(server, collector, 400)
    assert all(len(attributes(span)["http.target"]) == 4001 for span in spans[::50])


def test_what_may_be_tried_again_is(serve, collector):
    collector.answers = [grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.INVALID_ARGUMENT]
    server = start(serve, collector, SITE % "location / { return 200; }", "interval 20ms; batch_size 1;")
    server.get("/")
    server.wait_log(r"OTel export failure: gRPC status 14 \"says the test\" of collector 127")
    server.wait_log(r"OTel export failure: gRPC status 3")
    server.get("/kept")
    assert attributes(collector.wait(1)[0])["http.target"] == "/kept" and len(collector.exports) == 3
    server.wait_log("1 spans were dropped")


def test_a_collector_that_refuses_some(serve, collector):
    collector.partial = (2, "of no use")
    server = start(serve, collector, SITE % "location / { return 200; }")
    server.get("/")
    server.wait_log(r'the collector 127.0.0.1:\d+ has refused 2 spans: "of no use"')


def metric(server, result):
    return int(re.search(r'trace_spans_total\{result="%s"\} (\d+)' % result, server.get("/metrics").text).group(1))


def test_a_collector_that_is_down_costs_spans_only(serve):
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        server = serve(EXPORTER % (closed.getsockname()[1], "interval 10ms; batch_size 2; batch_count 2;")
                       + SITE % "location / { return 200; } location /metrics { otel_trace off; metrics; }")
        with server.client() as client:
            for _ in range(50):
                assert client.request("/").status == 200
        server.wait_log(r"OTel export failure: connection of collector 127.0.0.1:\d+ \(111: ")
        until(lambda: metric(server, "dropped") >= 46, "dropped spans")
        assert metric(server, "sent") == 0
        assert server.quit() == 0
    assert re.search(r"\d+ spans were dropped: the collector", server.error_log)


def test_a_silent_collector_does_not_hold_a_worker(serve):
    """Neither by the batch that is on its way, nor by those that wait."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        server = serve(EXPORTER % (silent.getsockname()[1], "interval 1ms; timeout 1h; batch_size 1; batch_count 64;")
                       + SITE % "location / { return 200; }")
        server.get("/")
        with silent.accept()[0]:
            for _ in range(7):
                server.get("/")
            assert server.quit() == 0
    assert sum(int(n) for n in re.findall(r"(\d+) spans were dropped", server.error_log)) == 8


@pytest.mark.parametrize("says", [b"HTTP/1.1 400 Bad\r\n\r\n", b"\0\0\0\4\0\0\0\0\0" + b"\xff" * 200, b"", None], ids=["http1", "frames", "end", "silence"])
@pytest.mark.parametrize("protocol", ["grpc", "http/protobuf"])
def test_what_is_no_collector(serve, backend, says, protocol):
    def answer(conn, _request):
        conn.sendall(says)
    quiet = socket.socket()
    quiet.bind(("127.0.0.1", 0))
    quiet.listen(8)
    port = quiet.getsockname()[1] if says is None else backend([answer]).port
    server = serve(EXPORTER % (port, "interval 10ms; timeout 300ms; protocol %s;" % protocol) + SITE % "location / { return 200; }")
    assert server.get("/").status == 200
    server.wait_log("OTel export failure: ")
    assert server.get("/").status == 200
    assert server.quit() == 0
    quiet.close()


def test_by_http(serve, http_collector):
    http_collector.answers = [503]
    server = serve("otel_exporter { endpoint http://127.0.0.1:%d; protocol http/protobuf; interval 20ms; batch_size 1; header authorization 'Bearer x'; }" % http_collector.port
                   + SITE % "location / { return 200; }")
    server.get("/1")
    server.wait_log("OTel export failure: status code 503")
    server.get("/2")
    spans = http_collector.wait(2)
    assert [attributes(span)["http.target"] for span in spans] == ["/1", "/2"]
    assert set(http_collector.paths) == {"/v1/traces"}
    metadata = http_collector.exports[0][1]
    assert metadata["content-type"] == "application/x-protobuf" and metadata["authorization"] == "Bearer x"
    server.get("/3")
    http_collector.wait(3)
    assert len(http_collector.connections) == 1


def test_a_path_of_the_collector(serve, http_collector):
    server = serve("otel_exporter { endpoint 127.0.0.1:%d/in/here; protocol http/protobuf; }" % http_collector.port + SITE % "location / { return 200; }")
    server.get("/")
    assert server.quit() == 0 and http_collector.wait(1) and http_collector.paths == ["/in/here"]


def test_over_tls(serve):
    pair, other = certificates.own("localhost"), certificates.own("other")
    with open(pair.key, "rb") as key, open(pair.crt, "rb") as crt:
        collector = Collector(grpc.ssl_server_credentials([(key.read(), crt.read())]))
    block = "otel_exporter { endpoint https://localhost:%d; interval 20ms; trusted_certificate %s; }"
    server = serve(block % (collector.port, pair.crt) + SITE % "location / { return 200; }")
    server.get("/")
    collector.wait(1)
    server = serve(block % (collector.port, other.crt) + SITE % "location / { return 200; }")
    server.get("/")
    server.wait_log("OTel export failure: connection of collector localhost")
    assert len(collector.spans) == 1
    collector.close()


@pytest.mark.parametrize("text,says", [
    ("otel_trace on;", '"otel_exporter" block is missing'),
    ("otel_exporter { }", '"otel_exporter" requires "endpoint"'),
    ("otel_trace maybe;", 'invalid value "maybe" in "otel_trace" directive'),
    ("otel_trace 101%;", 'invalid value "101%" in "otel_trace" directive'),
    ("otel_resource_attr '' x;", 'invalid attribute name ""'),
    ("otel_trace_context both;", 'invalid value "both"'),
    ("otel_exporter { endpoint a:1; batch_size 0; }", '"batch_size" directive value must be between 1 and'),
    ("otel_exporter { endpoint a:1; interval 0; }", '"interval" directive value must be between 1 and'),
    ("otel_exporter { endpoint 127.0.0.1:1; header a:b c; }", 'invalid header name "a:b"'),
    ("otel_exporter { endpoint 127.0.0.1:1; header a 'b\nc'; }", 'invalid value of header "a"'),
    ("otel_exporter { endpoint 127.0.0.1:1/x; }", 'a path in the "endpoint" of an exporter by gRPC'),
    ("otel_exporter { endpoint 127.0.0.1:1; } otel_exporter { endpoint 127.0.0.1:1; }", '"otel_exporter" directive is duplicate'),
    ("otel_exporter { endpoint https://127.0.0.1:1; trusted_certificate /nowhere; }", "/nowhere"),
])
def test_configurations_that_are_none(tmp_path, text, says):
    (tmp_path / "nginx.conf").write_text("events {} http { %s server { } }" % text)
    result = run_binary("-t", "-p", str(tmp_path), "-c", "nginx.conf")
    assert result.returncode == 1 and says in result.stderr, result.stderr


def test_over_http_3(serve, collector):
    if not h3.HAS_AIOQUIC:
        pytest.skip("without aioquic: see auto/aioquic")
    pair = certificates.own("localhost")
    server = start(serve, collector, "ssl_certificate %s; ssl_certificate_key %s; otel_trace on; server { listen 127.0.0.1:@PORT@ quic; server_name localhost;"
                   " otel_trace_context extract; location / { return 200 $otel_parent_id; } }" % (pair.crt, pair.key))
    with h3.H3(server.port) as client:
        answer = client.get("/three", headers=[("traceparent", PARENT.split()[1])])
        assert answer.body.decode() == SPAN
    found = attributes(spans_of(server, collector, 1)[0])
    assert (found["http.flavor"], found["http.scheme"], found["http.target"]) == ("3.0", "https", "/three")


def test_the_context_is_that_of_the_client(serve, collector):
    """Whatever handlers make of the field later: they change what backends receive."""
    other = "traceparent: 00-11111111111111111111111111111111-2222222222222222-01"
    server = serve("otel_exporter { endpoint 127.0.0.1:%d; interval 30ms; } otel_trace on; otel_trace_context extract; server { listen 127.0.0.1:@PORT@;"
                   " location / { more_set_input_headers '%s'; root /nowhere; } location /cleared { more_clear_input_headers traceparent; root /nowhere; } }" % (collector.port, other))
    for path, *fields in (("/", "traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"), ("/",),
                          ("/cleared", "traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")):
        assert server.get(path, *fields).status == 404
    assert server.quit() == 0
    assert [span.parent_span_id.hex() for span in collector.wait(3)] == ["b7ad6b7169203331", "", "b7ad6b7169203331"]
