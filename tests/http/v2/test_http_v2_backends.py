"""HTTP/2 in, another protocol out: what must not become of a request on its way to a backend, and of an answer on its
way back."""

import select
import socket
import struct
import threading
import time

import pytest

from h2_backend import H2Backend, each
from h2_site import _echo, _site  # noqa: F401
from harness import until
from harness.conformance import literal, string
from harness.h2 import (CANCEL, DATA, END_HEADERS, END_STREAM, GOAWAY, H2, HEADERS, PROTOCOL_ERROR, PUSH_PROMISE,
                        RST_STREAM)


class Listener:
    """A backend that says nothing: it keeps what one connection brings, to its end."""

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.got = b""
        self.ended = threading.Event()
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self):
        try:
            with self.listener.accept()[0] as conn:
                while more := conn.recv(65536):
                    self.got += more
        except OSError:
            pass
        self.ended.set()

    def until(self, text):
        until(lambda: text in self.got, "%r at the backend" % text)

    def close(self):
        self.listener.close()


@pytest.fixture
def listener():
    made = Listener()
    yield made
    made.close()


def upload(listener):
    return ("location /p { proxy_pass http://127.0.0.1:%d; proxy_request_buffering off; proxy_http_version 1.1; }"
            % listener.port)


def pseudo(path="/", method="GET", scheme="http", authority="localhost"):
    return (":method", method), (":scheme", scheme), (":path", path), (":authority", authority)


def ask(server, *fields, body=None):
    with H2(server.port) as client:
        client.send(HEADERS, END_HEADERS | (END_STREAM if body is None else 0), 1, literal(*fields))
        if body is not None:
            client.send(DATA, END_STREAM, 1, body)
        return client.answer(1)


# bodies that break off


@pytest.mark.parametrize("last", [
    H2.frame(RST_STREAM, 0, 1, struct.pack("!I", CANCEL)),
    H2.frame(PUSH_PROMISE, END_HEADERS, 1, bytes(4)),
], ids=["reset", "failed connection"])
def test_upload_that_is_cancelled_is_not_ended(site, listener, last):
    """Bytes that come together with their stream's end by error are no whole body."""
    server = site("", upload(listener))
    with H2(server.port) as client:
        client.request("/p", "POST", ends=False)
        client.data(1, b"first", ends=False)
        listener.until(b"first")
        client.socket.sendall(H2.frame(DATA, 0, 1, b"second") + last)
        assert listener.ended.wait(10)
    assert b"\r\n0\r\n" not in listener.got


def test_upload_of_http1_that_is_cancelled_is_not_ended(site, listener):
    server = site("", upload(listener))
    with socket.create_connection(("127.0.0.1", server.port)) as client:
        client.sendall(b"POST /p HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n")
        listener.until(b"first")
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.sendall(b"6\r\nsecond\r\n")
    assert listener.ended.wait(10)
    assert b"\r\n0\r\n" not in listener.got


# lines and fields


@pytest.mark.parametrize("fields", [
    pseudo("/a b"), pseudo("/a?b HTTP/1.1"), pseudo("/ "), pseudo("/a\tb"), pseudo("/a\x7f"),
    pseudo(scheme="ht tp"), pseudo(scheme="http://b"), pseudo(scheme="1a"), pseudo(scheme="a\x01"),
], ids=lambda fields: "%s %s" % (fields[1][1], fields[2][1]))
def test_what_would_break_a_line(site, listener, fields):
    server = site("", "location ~ . { proxy_pass http://127.0.0.1:%d; }" % listener.port)
    answer = ask(server, *fields)
    assert (answer.status, answer.reset) == (400, None) or answer.reset == PROTOCOL_ERROR
    assert listener.got == b""


def test_odd_schemes_are_let_pass(site):
    server = site()
    for scheme in ("https", "HTTP", "coap+tcp", "a-1.b"):
        assert ask(server, *pseudo("/a.txt", scheme=scheme)).status == 200


def test_blanks_around_values(site):
    """They go as they do with HTTP/1, so that all on the way see the same value."""
    server = site("", 'location = /v { return 200 "[$http_x][$http_te]"; }')
    fields = pseudo("/v") + (("x", " \ta b\t "), ("te", "trailers"))
    assert ask(server, *fields).body == b"[a b][trailers]"


def test_blanks_around_values_of_a_backend(site):
    backend = H2Backend(each(lambda conn, request: conn.answer(request, b"ok", [("x-a", " b\t")])))
    try:
        server = site("", "location /p { proxy_pass http://127.0.0.1:%d; proxy_http_version 2; }" % backend.port)
        assert ask(server, *pseudo("/p")).headers["x-a"] == "b"
    finally:
        backend.close()


def test_one_key_of_a_websocket(site):
    server = site("", "location = /w { return 200 $http_sec_websocket_key; }")
    fields = ((":method", "CONNECT"), (":protocol", "websocket")) + pseudo("/w")[1:]
    with H2(server.port) as client:
        client.send(HEADERS, END_HEADERS, 1, literal(*fields, ("sec-websocket-key", "mine")))
        assert client.answer(1).body == b"mine"


# the connection


def busy_ticks(server):
    """Hundredths of a second that the worker has used."""
    with open("/proc/%d/stat" % until(server.children, "a worker")[0], encoding="ascii") as stat:
        fields = stat.read().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def test_goaway_tells_no_more_later(site, echo):
    """Requests that came after GOAWAY are overlooked, with their bodies; another GOAWAY does not promise them."""
    server = site("keepalive_requests 1;", "location /p { proxy_pass http://127.0.0.1:%d; }" % echo)
    with H2(server.port) as client:
        client.request("/p", "POST", ends=False)
        client.until(lambda frame: frame.kind == GOAWAY)
        client.request("/p", "POST", ends=False)
        client.data(3, b"abc")
        assert client.is_alive()
        assert 3 not in client.answers
        client.send(PUSH_PROMISE, END_HEADERS, 1, bytes(4))
        client.expect_goaway(PROTOCOL_ERROR)
        assert struct.unpack("!I", client.goaway.payload[:4])[0] == 1


def test_answers_that_nobody_reads_are_few(serve):
    """Each holds its request, whose head is large here and a few bytes on the wire."""
    server = serve("http2 on; keepalive_requests 100000; server { listen 127.0.0.1:@PORT@ sndbuf=4096;"
                   "location / { root html; } location = /none { return 204; }"
                   "location = /status { stub_status; } }", files={"html/big": bytes(300000)})

    def taken():
        return int(server.get("/status").text.split()[9])

    small = b"\x82\x86\x04" + string("/none") + b"\x01" + string("a") + b"\xbe" * 7
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
    sock.connect(("127.0.0.1", server.port))
    with H2(server.port, settings={4: 2 ** 31 - 1}, sock=sock) as client:
        # The first answer fills the socket, and what may wait for it.
        client.send(HEADERS, END_HEADERS | END_STREAM, 1,
                    literal(*pseudo("/big")) + b"\x40" + string("x-a") + string("v" * 3900))
        client.socket.sendall(b"".join(H2.frame(HEADERS, END_HEADERS | END_STREAM, stream, small)
                                       for stream in range(3, 3003, 2)))
        until(lambda: taken() >= 100, "some of the small ones")
        # What is taken at all is taken in one go: long before the status has been asked for so often.
        before = busy_ticks(server)
        started = time.monotonic()
        for _ in range(30):
            assert taken() < 400
        # … and while they wait there is nothing to be done.
        while time.monotonic() < started + 1:
            select.select([], [], [], 0.1)
        assert busy_ticks(server) - before < 60


def test_requests_that_had_to_wait_are_answered(serve):
    """A client that sends far ahead and reads slowly gets all of its answers."""
    server = serve("http2 on; keepalive_requests 100000; server { listen 127.0.0.1:@PORT@ sndbuf=4096;"
                   "location / { root html; } location = /none { return 204; } }", files={"html/big": bytes(300000)})
    count = 2000
    small = b"\x82\x86\x04" + string("/none") + b"\x01" + string("a")
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
    sock.connect(("127.0.0.1", server.port))
    with H2(server.port, settings={4: 2 ** 31 - 1}, sock=sock) as client:
        client.window(2 ** 30)
        big = literal(*pseudo("/big"))
        client.socket.sendall(b"".join(H2.frame(HEADERS, END_HEADERS | END_STREAM, stream, big if stream % 400 == 1 else small)
                                       for stream in range(1, 2 * count, 2)))
        for stream in range(1, 2 * count, 2):
            assert client.answer(stream).status == (200 if stream % 400 == 1 else 204)
