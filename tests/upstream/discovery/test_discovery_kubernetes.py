"""`server kubernetes:NAMESPACE/SERVICE[:PORT]`: list and watch of EndpointSlices at a scripted API server."""

import json
import os
import time

import pytest

from harness import until
from harness.certificates import Authority

WHERE = """server { listen 127.0.0.1:@PORT@; location = /metrics { metrics; } location / { proxy_pass http://u; } }
    server { listen 0.0.0.0:@PORT1@; return 200 "$server_addr"; }
    server { listen 0.0.0.0:@PORT2@; return 200 "$server_addr admin"; }"""


def http(server="kubernetes:shop/web:http"):
    return "upstream u { server %s; } %s" % (server, WHERE)


def main(engine, more=""):
    return "worker_processes 1; discovery main { type kubernetes; server %s; %s }" % (engine.url, more)


def put(server, engine, name, *hosts, unready=(), namespace="shop", service="web"):
    engine.put(namespace, name, service, [("127.0.0.%d" % host, True) for host in hosts] + [("127.0.0.%d" % host, False) for host in unready],
               [("admin", server.port_of("PORT2")), ("http", server.port_of("PORT1"))])


def answers(server, count=12):
    return {server.get("/").text for _ in range(count)}


def wait_hosts(server, *hosts, text="127.0.0.%d"):
    until(lambda: answers(server) == {text % host for host in hosts}, "the hosts %s" % (hosts,))


def lists(engine):
    return sum("watch=1" not in target for target in engine.asked)


def test_slices_come_and_go(serve, kubernetes):
    engine = kubernetes()
    server = serve(http(), main=main(engine))
    put(server, engine, "web-1", 2, 3, unready=(9,))
    wait_hosts(server, 2, 3)
    put(server, engine, "other-1", 8, service="other")
    put(server, engine, "web-1", 8, namespace="other")
    put(server, engine, "web-2", 4)
    wait_hosts(server, 2, 3, 4)
    put(server, engine, "web-1", 3, unready=(2,))
    wait_hosts(server, 3, 4)
    engine.drop("shop", "web-1")
    wait_hosts(server, 4)
    assert lists(engine) == 1                           # all the rest came by the watch


@pytest.mark.parametrize("name,text", [("kubernetes:shop/web:admin", "127.0.0.%d admin"), ("kubernetes:shop/web:@PORT1@", "127.0.0.%d"),
                                       ("kubernetes:shop/web", "127.0.0.%d admin")])
def test_port_by_name_number_or_the_first(serve, kubernetes, name, text):
    engine = kubernetes()
    server = serve(http(name), main=main(engine))
    put(server, engine, "web-1", 2)
    wait_hosts(server, 2, text=text)


def test_lists_of_many_pages(serve, kubernetes):
    engine = kubernetes()
    engine.page = 2
    fake = serve(WHERE.replace("http://u", "http://127.0.0.1:@PORT1@"))
    for number in range(5):
        put(fake, engine, "web-%d" % number, 2 + number)
    server = serve("upstream u { server kubernetes:shop/web:http; } server { listen 127.0.0.1:@PORT@; location / { proxy_pass http://u; } }",
                   main=main(engine))
    wait_hosts(server, 2, 3, 4, 5, 6)
    assert ["continue=2" in engine.asked[1], "continue=4" in engine.asked[2]] == [True, True]


@pytest.mark.parametrize("in_stream", [False, True])
def test_a_version_that_is_gone_is_listed_again(serve, kubernetes, in_stream):
    """410, as the status of a watch or as an event in it."""
    engine = kubernetes()
    engine.in_stream = in_stream
    server = serve(http(), main=main(engine, "watch_time 1s;"))
    put(server, engine, "web-1", 2)
    wait_hosts(server, 2)

    def expire():
        engine.version += 10
        engine.oldest = engine.version
        engine.slices["shop", "web-1"]["endpoints"][0]["addresses"] = ["127.0.0.3"]

    engine.change(expire)
    wait_hosts(server, 3)
    assert lists(engine) >= 2


def test_bookmarks_spare_lists(serve, kubernetes):
    """The next watch begins at the version of the bookmark."""
    engine = kubernetes()
    server = serve(http(), main=main(engine, "watch_time 1s;"))
    put(server, engine, "web-1", 2)
    wait_hosts(server, 2)
    engine.bookmark()
    until(lambda: "resourceVersion=%d&" % engine.version in engine.asked[-1], "the next watch")
    put(server, engine, "web-1", 3)
    wait_hosts(server, 3)
    assert lists(engine) == 1


def test_token_rotates(serve, kubernetes, tmp_path):
    """With the token and the authority that a pod has; the file is read again for each request."""
    authority = Authority(tmp_path)
    authority.issue("api", "IP:127.0.0.1")
    engine = kubernetes(tls=(authority.path("api.crt"), authority.path("api.key")))
    server = serve(http(), main=main(engine, "token_file token; watch_time 1s; ssl_trusted_certificate %s;" % authority.path("root.crt")),
                   files={"token": "one"})
    put(server, engine, "web-1", 2)
    wait_hosts(server, 2)
    assert set(engine.tokens) == {"Bearer one"}
    server.write("token.new", "two")
    os.replace(server.path("token.new"), server.path("token"))
    until(lambda: engine.tokens[-1] == "Bearer two", "the new token")


def test_a_pod_needs_no_more(serve, kubernetes):
    """In a pod the API server is in the environment."""
    engine = kubernetes()
    server = serve(http(), main="worker_processes 1; discovery main { type kubernetes; ssl_verify off; token_file token; }",
                   files={"token": "one"}, env=dict(os.environ, KUBERNETES_SERVICE_HOST="127.0.0.1", KUBERNETES_SERVICE_PORT=str(engine.port)))
    server.wait_log(r"discovery \"main\": 127.0.0.1:%d could not be connected" % engine.port)    # it speaks no TLS


def slice_of(count):
    return {"metadata": {"name": "web-1", "resourceVersion": "999"}, "ports": [{"name": "http", "port": 1}],
            "endpoints": [{"addresses": ["10.%d.%d.1" % (number >> 8, number & 255)]} for number in range(count)]}


def flood(handler):
    """A stream without an end, of one event."""
    handler.stream()
    while True:
        handler.chunk(b'{"type":"ADDED","object":{"a":"' + b"x" * 65536)


def event(text):
    def answer(handler):
        handler.stream()
        handler.chunk(text + b"\n")
        handler.chunk(b"")
    return answer


FAULTS = {
    "endless": (flood, "sent an event above answer_max"),
    "garbage": (event(b"hello"), "sent an answer that is no event"),
    "no version": (event(b'{"type":"ADDED","object":{"metadata":{"name":"x"}}}'), "sent an answer that is no event"),
    "unknown type": (event(b'{"type":"X","object":{"metadata":{"name":"x","resourceVersion":"1"}}}'), "sent an answer that is no event"),
    "error": (event(b'{"type":"ERROR","object":{"code":500}}'), "sent an event of type ERROR"),
    "too many": (event(json.dumps({"type": "MODIFIED", "object": slice_of(2000)}).encode()), "or one above endpoints_max"),
    "not allowed": (lambda handler: handler.reply(403, {"message": "forbidden"}), "answered with status 403: {\"message\": \"forbidden\"}"),
}


@pytest.mark.parametrize("name", list(FAULTS))
def test_a_hostile_watch(serve, kubernetes, name):
    fault, line = FAULTS[name]
    engine = kubernetes()
    server = serve(http(), main=main(engine, "answer_max 512k; watch_time 1s;"))
    put(server, engine, "web-1", 2)
    wait_hosts(server, 2)
    engine.fault = lambda handler: fault(handler) if "watch=1" in handler.path else engine.answer(handler)
    server.wait_log(line.replace("{", r"\{").replace("}", r"\}"))
    assert answers(server) == {"127.0.0.2"}
    engine.fault = None
    put(server, engine, "web-1", 3)
    wait_hosts(server, 3)


def test_a_list_without_an_end(serve, kubernetes):
    """An API server that always has one page more: the memory of a round is bounded."""
    engine = kubernetes()
    server = serve(http(), main=main(engine, "endpoints_max 8; watch_time 1s;"))
    put(server, engine, "web-1", 2)
    wait_hosts(server, 2)
    engine.fault = lambda handler: (handler.reply(410, {}) if "watch=1" in handler.path else
                                    handler.reply(200, {"metadata": {"resourceVersion": "1", "continue": "more"}, "items": []}))
    server.wait_log("sent an answer that has more pages than endpoints_max")
    engine.fault = None
    put(server, engine, "web-1", 3)
    wait_hosts(server, 3)


@pytest.mark.parametrize("code", [500, 410])
def test_pauses_grow_while_only_the_list_comes(serve, kubernetes, code):
    """It was listed and watched again each 100 ms, with two lines in the log; each 20 ms for 410."""
    engine = kubernetes()
    times = []

    def fault(handler):
        if "watch=1" in handler.path:
            times.append(time.monotonic())
            return event(b'{"type":"ERROR","object":{"code":%d}}' % code)(handler)
        return engine.answer(handler)

    engine.fault = fault
    serve(http(), main=main(engine))
    until(lambda: len(times) == 4, "four watches")
    assert times[3] - times[2] > 0.29                   # 400 ms, and up to a quarter less


def test_a_hundred_thousand_endpoints(serve, kubernetes):
    """They are refused, and what was known stays."""
    engine = kubernetes()
    server = serve(http(), main=main(engine, "answer_max 16m;"))
    put(server, engine, "web-1", 2)
    wait_hosts(server, 2)
    body = json.dumps({"metadata": {"resourceVersion": "1"}, "items": [slice_of(50000), slice_of(50000)]}).encode()
    engine.fault = lambda handler: handler.reply(200, body)
    old = server.children()
    server.reload()
    server.wait_log("is no list of EndpointSlices, or one above endpoints_max")
    until(lambda: not set(old) & set(server.children()), "the next generation")
    assert answers(server) == {"127.0.0.2"}
