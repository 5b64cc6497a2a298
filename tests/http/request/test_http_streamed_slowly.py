"""Time limits while a body is passed on as it comes: the read timeout of a backend runs once it has the whole request, and a
backend that shows itself has not run out of it."""

import itertools
import socket
import threading
import time

import pytest

import h2_backend as h2
import streamed_backends as backends
from harness import Closed, Server
from harness.h2 import H2
from request.test_http_streamed_bodies import BODY, SENDERS, params, words

READ_TIMEOUT = 0.25
PLACE = " location /%(name)s/ { %(pass)s; } "
UPGRADE = """ location /proxy/upgrade/ { %(pass)s; proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection upgrade; } """
FAMILIES = ("proxy", "fastcgi", "uwsgi", "scgi", "grpc")


class Site:
    def __init__(self):
        self.backends = {one.name: one for one in (kind() for kind in backends.ALL)}
        places = [words(one) for one in self.backends.values()]
        self.server = Server(
            "http2 on;"
            + " ".join("%s_read_timeout %dms;" % (family, READ_TIMEOUT * 1000) for family in FAMILIES)
            + " ".join("%s_request_buffering off;" % family for family in FAMILIES if family != "grpc")
            + " ".join(params(family) for family in FAMILIES)
            + "server { listen 127.0.0.1:@PORT@;" + "".join(PLACE % place for place in places) + UPGRADE % places[0]
            + "}").start()

    def close(self):
        for one in self.backends.values():
            one.close()
        self.server.close()


@pytest.fixture(name="site", scope="module")
def _site():
    site = Site()
    yield site
    site.close()


PROTOCOLS = [kind.name for kind in backends.ALL]
STREAMED = [(protocol, sender) for protocol, sender in itertools.product(PROTOCOLS, SENDERS)
            if protocol not in ("uwsgi", "scgi") or "Untold" not in sender.__name__ and sender.__name__ != "Chunked"]


@pytest.mark.parametrize("path", ["later", "early-head"])
@pytest.mark.parametrize("protocol, sender", STREAMED)
def test_slow_client(site, protocol, sender, path):
    """The client takes longer than the backend may: whether it has begun to answer or not."""
    backend = site.backends[protocol]
    since = len(backend.seen)
    client = sender(site.server, "/%s/%s" % (protocol, path))
    client.first()
    backend.wait(lambda seen: len(seen) > since and seen[since].body)
    time.sleep(READ_TIMEOUT * 2)
    client.rest()
    assert client.answer() == 200
    backend.wait(lambda seen: seen[since].outcome)
    assert seen_whole(backend.seen[since])
    client.close()


def seen_whole(seen):
    return seen.outcome == "whole" and seen.body == BODY


@pytest.mark.parametrize("protocol", [name for name in PROTOCOLS if name not in ("uwsgi", "scgi")])
def test_backend_that_says_nothing_after_it_has_all(site, protocol):
    """... is given up after the read timeout, which begins with the last byte."""
    backend = site.backends[protocol]
    since = len(backend.seen)
    speak, backend.speak = backend.speak, lambda *_: None
    try:
        client = SENDERS[0](site.server, "/%s/silent" % protocol)
        client.first()
        backend.wait(lambda seen: len(seen) > since and seen[since].body)
        client.rest()
        assert client.answer() == 504
        backend.wait(lambda seen: seen[since].outcome == "whole")
    finally:
        backend.speak = speak
    client.close()


@pytest.mark.parametrize("sender", SENDERS[:2])
def test_upgrade_before_the_body_has_come(site, sender):
    backend = site.backends["proxy"]
    since = len(backend.seen)
    client = sender(site.server, "/proxy/upgrade/early-101")
    client.first()
    assert client.client.head().status == 101
    time.sleep(READ_TIMEOUT * 2)
    client.rest()
    client.client.send(b"hello")
    assert client.client.rest() == b"HELLO"
    assert seen_whole(backend.seen[since])
    client.close()


class Deaf:
    """A backend that reads nothing after its first bytes."""

    def __init__(self):
        self.listener = socket.socket()
        self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self.listener.bind(("127.0.0.1", 0))
        self.listener.listen(4)
        self.port = self.listener.getsockname()[1]
        self.conns = []
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        while True:
            try:
                conn = self.listener.accept()[0]
            except OSError:
                return
            conn.recv(100)
            self.conns.append(conn)

    def close(self):
        self.listener.close()
        for conn in self.conns:
            conn.close()


@pytest.mark.parametrize("way", ["proxy_pass http://127.0.0.1:%d;", "fastcgi_pass 127.0.0.1:%d;"])
def test_backend_that_stops_reading(serve, way):
    """... while the client would send on: the send timeout holds, not the read timeout."""
    deaf = Deaf()
    server = serve("""proxy_request_buffering off; fastcgi_request_buffering off; client_max_body_size 0;
        proxy_send_timeout 300ms; fastcgi_send_timeout 300ms; proxy_socket_sndbuf 4k; fastcgi_socket_sndbuf 4k;
        server { listen 127.0.0.1:@PORT@; location / { %s } }""" % way % deaf.port)
    with server.client() as client:
        client.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10000000\r\n\r\n")
        client.send(bytes(400000))
        assert client.response().status == 504
    assert "upstream timed out" in server.error_log
    deaf.close()


# ---- backends that speak HTTP/2 ----

SIGNS = {
    "ping": h2.frame(h2.PING, 0, 0, bytes(8)),
    "settings": h2.frame(h2.SETTINGS, 0, 0),
    "window": h2.frame(h2.WINDOW, 0, 0, h2.u32(1)),
    "window of the stream": None,
}


@pytest.mark.parametrize("begins", [False, True], ids=["before the head", "in the body"])
@pytest.mark.parametrize("sign", list(SIGNS))
@pytest.mark.parametrize("way", ["grpc_pass 127.0.0.1:%d;", "proxy_pass http://127.0.0.1:%d; proxy_http_version 2;"])
def test_backend_that_shows_itself(serve, way, sign, begins):
    """A server that has nothing to say, and whose library tells that it is there."""
    def script(conn):
        request = conn.request()
        head = h2.frame(h2.HEADERS, h2.END_HEADERS, request.stream, h2.block((":status", "200")))
        if begins:
            conn.send(head)
        for _ in range(20):
            time.sleep(0.1)
            conn.send(SIGNS[sign] or h2.frame(h2.WINDOW, 0, request.stream, h2.u32(1)))
        conn.send((b"" if begins else head) + h2.frame(h2.DATA, h2.END_STREAM, request.stream, b"at last"))
        while True:
            conn.read()

    back = h2.H2Backend(script)
    server = serve("""server { listen 127.0.0.1:@PORT@; http2 on; grpc_read_timeout 1s; proxy_read_timeout 1s;
        location / { %s } }""" % way % back.port)
    with H2(server.port) as client:
        answer = client.get("/")
        assert (answer.status, answer.body, answer.is_whole) == (200, b"at last", True)
    back.close()


@pytest.mark.parametrize("shows", [False, True])
@pytest.mark.parametrize("buffering", ["on", "off"])
@pytest.mark.parametrize("way", ["grpc_pass 127.0.0.1:%d;", "proxy_pass http://127.0.0.1:%d; proxy_http_version 2;"])
def test_backend_whose_window_stays_closed(serve, way, buffering, shows):
    """It takes nothing of the body for longer than the send timeout; whether it is alive it says itself."""
    def script(conn):
        request = conn.request()
        for _ in range(20):
            time.sleep(0.1)
            conn.send(h2.frame(h2.PING, 0, 0, bytes(8)) if shows else b"")
        conn.send(h2.frame(h2.HEADERS, h2.END_HEADERS, request.stream, h2.block((":status", "200")))
                  + h2.frame(h2.DATA, h2.END_STREAM, request.stream, b"enough"))
        while True:
            conn.read()

    back = h2.H2Backend(script)
    server = serve("""server { listen 127.0.0.1:@PORT@; client_body_buffer_size 1m; proxy_request_buffering %s;
        grpc_read_timeout 1s; proxy_read_timeout 1s; grpc_send_timeout 1s; proxy_send_timeout 1s; location / { %s } }
        """ % (buffering, way % back.port))
    with server.client() as client:
        client.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 200000\r\n\r\n" + bytes(200000))
        answer = client.response()
        assert (answer.status, answer.text) == (200, "enough") if shows else answer.status == 504
    if not shows:
        server.wait_log("upstream timed out .* while sending request to upstream")
    back.close()


def test_backend_whose_interim_answers_show_it(serve, backend):
    def slowly(conn, _):
        for _ in range(20):
            time.sleep(0.1)
            conn.sendall(b"HTTP/1.1 102 Processing\r\n\r\n")
        conn.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")

    server = serve("""server { listen 127.0.0.1:@PORT@; proxy_read_timeout 1s;
        location / { proxy_pass http://127.0.0.1:%d; } }""" % backend([slowly]).port)
    try:
        assert server.get("/").text == "ok"
    except Closed:
        pytest.fail("the answer was cut")
