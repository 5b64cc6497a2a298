"""Time limits while a body is passed on as it comes: the read timeout of a backend runs once it has the whole request, and a
backend that shows itself has not run out of it."""

import contextlib
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

READ_TIMEOUT = 1.0
PLACE = " location /%(name)s/ { %(pass)s; } "
UPGRADE = """ location ~ ^/proxy/.*/upgrade/ { %(pass)s; proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection upgrade; } """
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


class Uploads:
    """Requests at one time, each by (protocol, sender, path) and with a URI of its own, of which the first halves have come. They
    wait together for as long as each of them would have to."""

    def __init__(self, site, kinds):
        self.site, self.clients = site, []
        for number, (protocol, sender, path) in enumerate(kinds):
            uri = "/%s/%d/%s" % (protocol, number, path)
            client = sender(site.server, uri)
            client.first()
            self.clients.append((client, protocol, uri))
        for _, protocol, uri in self.clients:
            site.backends[protocol].wait(lambda seen, uri=uri: any(one.uri == uri and one.body for one in seen))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for client, *_ in self.clients:
            client.close()

    def finish_later(self):
        """Each client takes longer than the backend may. Gives (client, uri) one after the other, when its body is whole."""
        time.sleep(READ_TIMEOUT * 1.2)
        for client, _, uri in self.clients:
            client.rest()
            yield client, uri

    def assert_whole(self):
        for _, protocol, uri in self.clients:
            one, = self.site.backends[protocol].wait(lambda seen, uri=uri: [one for one in seen if one.uri == uri and one.outcome])
            assert one.outcome == "whole" and one.body == BODY, one


@pytest.mark.parametrize("path", ["later", "early-head"])
def test_slow_client(site, path):
    """The client takes longer than the backend may: whether it has begun to answer or not."""
    with Uploads(site, [(protocol, sender, path) for protocol, sender in STREAMED]) as uploads:
        for client, uri in uploads.finish_later():
            assert client.answer() == 200, uri
        uploads.assert_whole()


def test_backend_that_says_nothing_after_it_has_all(site):
    """... is given up after the read timeout, which begins with the last byte."""
    protocols = [name for name in PROTOCOLS if name not in ("uwsgi", "scgi")]
    speaks = {name: site.backends[name].speak for name in protocols}
    with Uploads(site, [(protocol, SENDERS[0], "silent") for protocol in protocols]) as uploads:
        try:
            for protocol in protocols:
                site.backends[protocol].speak = lambda *_: None
            for client, *_ in uploads.clients:
                client.rest()
            for client, _, uri in uploads.clients:
                assert client.answer() == 504, uri
            uploads.assert_whole()
        finally:
            for protocol, speak in speaks.items():
                site.backends[protocol].speak = speak


def test_upgrade_before_the_body_has_come(site):
    with Uploads(site, [("proxy", sender, "upgrade/early-101") for sender in SENDERS[:2]]) as uploads:
        for client, *_ in uploads.clients:
            assert client.client.head().status == 101
        for client, _ in uploads.finish_later():
            client.client.send(b"hello")
            assert client.client.rest() == b"HELLO"
        uploads.assert_whole()


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


WAYS = {"grpc": "grpc_pass 127.0.0.1:%d;", "proxy": "proxy_pass http://127.0.0.1:%d; proxy_http_version 2;"}
WAITS = 20      # of a tenth of a second: twice as long as the timeouts below


@contextlib.contextmanager
def h2_backends(script, cases):
    """A backend with script(conn, case) for each case, and the locations that pass to it: /0 is that of the first."""
    backs = [h2.H2Backend(lambda conn, case=case: script(conn, case)) for case in cases]
    try:
        yield "".join("location /%d { %s }" % (number, WAYS[case[0]] % back.port)
                      for number, (case, back) in enumerate(zip(cases, backs)))
    finally:
        for back in backs:
            back.close()


def test_backends_that_show_themselves(serve):
    """Servers that have nothing to say, and whose library tells that they are there: before the head, and in the body."""
    def script(conn, case):
        _, sign, begins = case
        request = conn.request()
        head = h2.frame(h2.HEADERS, h2.END_HEADERS, request.stream, h2.block((":status", "200")))
        if begins:
            conn.send(head)
        for _ in range(WAITS):
            time.sleep(0.1)
            conn.send(SIGNS[sign] or h2.frame(h2.WINDOW, 0, request.stream, h2.u32(1)))
        conn.send((b"" if begins else head) + h2.frame(h2.DATA, h2.END_STREAM, request.stream, b"at last"))
        while True:
            conn.read()

    cases = list(itertools.product(WAYS, SIGNS, (False, True)))
    with h2_backends(script, cases) as locations:
        server = serve("server { listen 127.0.0.1:@PORT@; http2 on; grpc_read_timeout 1s; proxy_read_timeout 1s; %s }" % locations)
        with H2(server.port) as client:
            streams = [client.request("/%d" % number) for number in range(len(cases))]
            for stream, case in zip(streams, cases):
                answer = client.answer(stream)
                assert (answer.status, answer.body, answer.is_whole) == (200, b"at last", True), case


def test_backends_whose_window_stays_closed(serve):
    """They take nothing of the body for longer than the send timeout; whether they are alive they say themselves."""
    def script(conn, case):
        request = conn.request()
        for _ in range(WAITS):
            time.sleep(0.1)
            conn.send(h2.frame(h2.PING, 0, 0, bytes(8)) if case[2] else b"")
        conn.send(h2.frame(h2.HEADERS, h2.END_HEADERS, request.stream, h2.block((":status", "200")))
                  + h2.frame(h2.DATA, h2.END_STREAM, request.stream, b"enough"))
        while True:
            conn.read()

    cases = list(itertools.product(WAYS, ("on", "off"), (False, True)))
    with h2_backends(script, cases) as locations, contextlib.ExitStack() as clients:
        for number, (_, buffering, _) in enumerate(cases):
            locations = locations.replace("/%d { " % number, "/%d { proxy_request_buffering %s; " % (number, buffering))
        server = serve("""server { listen 127.0.0.1:@PORT@; client_body_buffer_size 1m;
            grpc_read_timeout 1s; proxy_read_timeout 1s; grpc_send_timeout 1s; proxy_send_timeout 1s; %s }""" % locations)
        asked = []
        for number, case in enumerate(cases):
            asked.append((clients.enter_context(server.client()), case))
            asked[-1][0].send(b"POST /%d HTTP/1.1\r\nHost: a\r\nContent-Length: 200000\r\n\r\n" % number + bytes(200000))
        for client, case in asked:
            answer = client.response()
            assert (answer.status, answer.text) == (200, "enough") if case[2] else answer.status == 504, case
    for number, (*_, shows) in enumerate(cases):
        if not shows:
            server.wait_log('upstream timed out .* while sending request to upstream.* "POST /%d ' % number)


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
