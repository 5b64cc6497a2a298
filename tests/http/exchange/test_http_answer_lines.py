"""Lines in the heads of backends that are no fields, and fields that mean nothing where they stand."""

import pytest

import fastcgi_backends as fcgi
from harness.h2 import H2

HEADS = [
    b"HTTP/1.1 404 Nope\r\nX-A: 1\r\nContent-Length: 2",
    b"X-A: 1\r\nHTTP/1.0: 404 Nope\r\nContent-Length: 2",
    b"X-A: 1\r\nHTTP/\r\nContent-Length: 2",
    b"X-A: 1\r\nHTTP/1.1 200 OK\nHTTP/1.1 200 OK\r\nContent-Length: 2",
]
BAD = {
    b"X-A: 1\r\nhttp/1.0 404 Nope\r\nContent-Length: 2": r'upstream sent invalid header: "http/1\.0\\x20\.\.\."',
    b"X-A: 1\r\nHTTPS/1.1 200 OK\r\nContent-Length: 2": r'upstream sent invalid header: "HTTPS/1\.1\\x20\.\.\."',
    b"X-A: 1\r\nSome words\r\nContent-Length: 2": r'upstream sent invalid header: "Some\\x20\.\.\."',
}
PLACE = "server { listen 127.0.0.1:@PORT@; location / { proxy_pass http://127.0.0.1:%d; } }"
ODD = [b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n", b"Content-Length: x\r\n", b"Transfer-Encoding: gzip, x\r\n",
       b"Content-Length: 1\r\nContent-Length: 2\r\n"]


@pytest.mark.parametrize("head", HEADS)
def test_status_lines_among_the_fields(serve, backend, head):
    """A script prints one of its own, IIS did so: it is ignored, as by nginx."""
    back = backend([b"HTTP/1.1 200 OK\r\n" + head + b"\r\n\r\nok"] * 3)
    server = serve(PLACE % back.port)
    for _ in range(2):      # the second time the block is known
        answer = server.get("/")
        assert (answer.status, answer.header("X-A"), answer.text) == (200, "1", "ok")


@pytest.mark.parametrize("head", HEADS)
def test_status_lines_of_fastcgi(serve, head):
    with fcgi.Scripted(fcgi.answer(b"ok", head + b"\r\n\r\n")) as back:
        server = serve("server { listen 127.0.0.1:@PORT@; location / { fastcgi_pass 127.0.0.1:%d; } }" % back.port)
        answer = server.get("/")
        assert (answer.status, answer.header("X-A"), answer.text) == (200, "1", "ok")


@pytest.mark.parametrize("head", list(BAD))
def test_lines_that_are_none(serve, backend, head):
    server = serve(PLACE % backend([b"HTTP/1.1 200 OK\r\n" + head + b"\r\n\r\nok"]).port)
    assert server.get("/").status == 502
    server.wait_log(BAD[head])


@pytest.mark.parametrize("odd", ODD)
def test_framing_of_an_interim_answer(serve, backend, odd):
    """It has no body: what says how long one is goes, and the answer stays."""
    back = backend([b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n" + odd
                    + b"\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"] * 2)
    server = serve("http2 on; early_hints 1;" + PLACE % back.port)
    with server.client() as client:
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        hints = client.head()
        assert hints.status == 103 and [name.lower() for name, _ in hints.headers] == ["link"]
        assert client.response().text == "ok"
    with H2(server.port) as client:
        answer = client.get("/")
        assert answer.heads[0] == [(":status", "103"), ("link", "</a>")] and answer.body == b"ok"
