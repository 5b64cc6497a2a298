"""A backend that speaks HTTP/2 goes away: what it has not looked at goes elsewhere, what it has is answered, and the next
request uses the connection that is kept."""

import threading

import pytest

from h2_backend import DATA, GOAWAY, H2Backend, RST, frame, u32
from harness.h2 import H2

WAYS = ["grpc_pass u;", "proxy_pass http://u; proxy_http_version 2;",
        "proxy_pass http://u; proxy_http_version 2; proxy_request_buffering off;"]
LEAVES = {"goaway": lambda stream: frame(GOAWAY, 0, 0, u32(stream - 2) + u32(0)),
          "refused": lambda stream: frame(RST, 0, stream, u32(7))}


@pytest.fixture(name="place")
def _place(serve):
    made = []

    def place(script, way, more=""):
        made.append(H2Backend(script))
        server = serve("""upstream u { server 127.0.0.1:%d; %s }
            server { listen 127.0.0.1:@PORT@; http2 on; location / { %s } }""" % (made[-1].port, more, way))
        return made[-1], server
    yield place
    for backend in made:
        backend.close()


@pytest.mark.parametrize("how", list(LEAVES))
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("method, body", [("GET", None), ("POST", b""), ("POST", b"hello"), ("PUT", b"h" * 10000)])
def test_what_was_not_looked_at_goes_elsewhere(place, way, how, method, body):
    """... with its body, which was sent: nobody has seen it."""
    def script(conn):
        while True:
            request = conn.request()
            got = conn.body(request)
            if conn.number == 1 and request.stream == 3:
                conn.send(LEAVES[how](3))
                continue
            conn.answer(request, b"%d %s" % (conn.number, got[:9]))

    backend, server = place(script, way)
    text = (body or b"")[:9]
    with H2(server.port) as client:
        assert client.get("/").body == b"1 "
        for _ in range(3):
            answer = client.get("/", method, body=body)
            assert (answer.status, answer.body) == (200, b"2 " + text)
    assert len(backend.connections) == 2


@pytest.mark.parametrize("how, words", [("goaway", "upstream sent goaway with error 0"), ("refused", "upstream rejected request with error 7")])
@pytest.mark.parametrize("way", WAYS[:2])
def test_the_log_says_why_it_was_not_looked_at(place, way, how, words):
    """As nginx says it, and once for each attempt; nothing of a connection that was closed."""
    def script(conn):
        request = conn.request()
        conn.send(frame(GOAWAY, 0, 0, u32(0) + u32(0)) if how == "goaway" else LEAVES[how](request.stream))
        conn.request()

    backend, server = place(script, way)
    assert server.get("/").status == 502
    lines = [line for line in server.lines("error.log") if "[error]" in line]
    assert len(lines) == len(backend.connections) and all(words + " while reading response header from upstream" in line for line in lines)


def test_body_that_is_still_coming(place):
    """Its beginning went to the backend that left; the next one has all of it."""
    gone = threading.Event()

    def script(conn):
        while True:
            request = conn.request()
            if conn.number == 1 and request.stream == 3:
                conn.wait(DATA, 3)
                conn.send(LEAVES["goaway"](3))
                gone.set()
                continue
            conn.answer(request, conn.body(request) or b"none")

    _, server = place(script, WAYS[0])
    with H2(server.port) as client:
        assert client.get("/").body == b"none"
        stream = client.request("/", "POST", body=b"first ", ends=False)
        assert gone.wait(10)
        client.data(stream, b"second")
        assert client.answer(stream).body == b"first second"


def test_body_that_nobody_has_any_more(place):
    """Too long to be kept: it is not sent in part."""
    def script(conn):
        while True:
            request = conn.request()
            if conn.number == 1 and request.stream == 3:
                conn.body(request, 40000)
                conn.send(LEAVES["goaway"](3))
                continue
            conn.answer(request, b"%d" % len(conn.body(request)))

    backend, server = place(script, WAYS[0] + "client_body_buffer_size 16k;")
    with H2(server.port) as client:
        assert client.get("/").body == b"0"
        assert client.answer(client.request("/", "POST", body=b"x" * 60000)).status == 502
        assert client.get("/").body == b"0"
    assert [frames for conn in backend.connections[1:] for frames in conn.frames if frames[0] == DATA] == []


@pytest.mark.parametrize("way", WAYS)
def test_what_was_looked_at_is_answered(place, way):
    """A stream below the number finishes on the connection that ends; the next request has a new one, which is kept."""
    def script(conn):
        request = conn.request()
        if conn.number == 1:
            conn.send(frame(GOAWAY, 0, 0, u32(1) + u32(0)))
        conn.answer(request, b"%d" % conn.number)
        while True:
            conn.answer(conn.request(), b"%d" % conn.number)

    backend, server = place(script, way)
    with H2(server.port) as client:
        assert [client.get("/").body for _ in range(4)] == [b"1", b"2", b"2", b"2"]
    assert len(backend.connections) == 2


@pytest.mark.parametrize("way", WAYS)
def test_goaway_while_the_connection_is_idle(place, way):
    def script(conn):
        conn.answer(conn.request(), b"%d" % conn.number)
        if conn.number == 1:
            conn.send(frame(GOAWAY, 0, 0, u32(1) + u32(0)))
            ended.set()
        while True:
            conn.answer(conn.request(), b"%d" % conn.number)

    ended = threading.Event()
    _, server = place(script, way)
    with H2(server.port) as client:
        assert client.get("/").body == b"1"
        assert ended.wait(10)
        assert [client.get("/", "POST", body=b"a").body for _ in range(3)] == [b"2", b"2", b"2"]
