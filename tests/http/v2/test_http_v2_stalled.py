"""HTTP/2: clients that open no window hold what they asked for, and leave the worker to all others."""

import pytest

from harness import until
from harness.h2 import (CALM, CANCEL, END_HEADERS, END_STREAM, GOAWAY, H2, HEADERS, NO_ERROR, REFUSED_STREAM,
                        RST_STREAM, Answer)

CLOSED = {4: 0}  # SETTINGS: no stream has a window


def ask(client, path, count):
    """So many requests in one packet."""
    frames = b""
    for _ in range(count):
        frames += client.frame(HEADERS, END_HEADERS | END_STREAM, client.next_stream, client.block(path))
        client.next_stream += 2
    client.socket.sendall(frames)


def settle(client, count):
    """Reads until each stream has a head or is refused; gives how many were refused."""
    client.until(lambda _: sum(bool(a.heads) or a.reset is not None for a in client.answers.values()) == count)
    return sum(a.reset == REFUSED_STREAM for a in client.answers.values())


@pytest.fixture(name="stalling")
def _stalling(serve, backend):
    """A server whose answers are longer than what leaves with a head, each kind at a place of its own."""
    def start(events="", main="", **more):
        return serve("http2 on; ssi on; ssi_types *; keepalive_requests 100000; server { listen 127.0.0.1:@PORT@;"
                     "location / { root html; ssi off; } location /ssi { alias html/; }"
                     "location /buffered { proxy_pass http://127.0.0.1:@PORT1@/a; ssi off; }"
                     "location /unbuffered { proxy_buffering off; proxy_pass http://127.0.0.1:@PORT1@/a; ssi off; }"
                     "location = /limits { return 200 $limits_reached; } }"
                     "server { listen 127.0.0.1:@PORT1@; location / { root html; } }",
                     files={"html/a": "a" * 20000, "html/page": "<!--# include virtual=\"/a\" -->" * 3},
                     main="worker_processes 1;" + main, events=events, **more)
    return start


def test_seventeen_connections_leave_the_worker_to_others(stalling):
    server = stalling()
    clients = [H2(server.port, CLOSED) for _ in range(18)]
    try:
        for client in clients:
            ask(client, "/a", 128)
        for client in clients:
            assert settle(client, 128) == 0
        assert server.get("/a").text == "a" * 20000
        clients[0].window(100000, 1)
        assert clients[0].answer(1).body == b"a" * 20000
    finally:
        for client in clients:
            client.socket.close()


@pytest.mark.parametrize("path", ["/a", "/ssi/page", "/buffered", "/unbuffered"])
def test_shares_and_reserve(stalling, path):
    """Forty places, half of them kept for connections that have none."""
    server = stalling(events="worker_requests 40; worker_connections 1000;")
    clients = [H2(server.port, CLOSED) for _ in range(4)]
    try:
        refused = []
        for client in clients:
            ask(client, path, 30)
            refused.append(settle(client, 30))
        assert 0 < refused[0] < refused[1] < refused[3] < 30
        for _ in range(3):
            assert server.get("/a").text == "a" * 20000
        with H2(server.port) as another:
            assert another.get("/a").body == b"a" * 20000
        lines = server.wait_log("worker_requests are not enough for the streams of this client")
        assert lines
        assert int(server.get("/limits").text) >= 40
    finally:
        for client in clients:
            client.socket.close()


BIG = bytes(range(256)) * 3000
HELD = {"html/big": BIG, "html/page": "<!--# include virtual=\"/big\" -->"}


@pytest.fixture(name="holding")
def _holding(serve):
    def start(more="", **settings):
        return serve("http2 on; access_log logs/access.log; %s server { listen 127.0.0.1:@PORT@; location / { root html; }"
                     "location /memory { return 200 %s; }"
                     "location /buffered { proxy_buffers 4 8k; proxy_buffer_size 8k; proxy_pass http://127.0.0.1:@PORT1@/big; }"
                     "location /unbuffered { proxy_buffering off; proxy_pass http://127.0.0.1:@PORT1@/big; }"
                     "location /ssi { ssi on; ssi_types *; alias html/page; } location /slow { limit_rate 10m; alias html/big; } }"
                     "server { listen 127.0.0.1:@PORT1@; location / { root html; } }" % (more, "m" * 3000),
                     files=HELD, main="worker_processes 1;", **settings)
    return start


@pytest.mark.parametrize("path", ["/big", "/memory", "/buffered", "/unbuffered", "/ssi", "/slow"])
def test_what_is_held_comes_as_windows_open(holding, path):
    """Of the stream and of the connection, in steps of any size, several streams at a time."""
    server, body = holding(), b"m" * 3000 if path == "/memory" else BIG
    with H2(server.port, CLOSED) as client:
        ask(client, path, 3)
        assert settle(client, 3) == 0 and client.is_alive()
        for step in (1, 100, 5000, 20000, 1000000):
            for stream in (1, 3, 5):
                client.window(step, stream)
            client.is_alive()
        assert not all(client.answers[stream].is_whole for stream in (1, 3, 5)) or len(body) < 65535 / 3
        client.window(10 ** 7)
        for stream in (1, 3, 5):
            assert client.answer(stream).body == body
    # The backends are of this server, too: their lines may come first.
    until(lambda: sum("GET %s HTTP/2.0\" 200 " % path in line
                      for line in server.lines("logs/access.log")) == 3, "lines of three answers")


@pytest.mark.parametrize("path", ["/big", "/buffered", "/ssi"])
def test_what_is_held_is_given_up(holding, path):
    """By RST_STREAM, and with its connection: its places are free again, and it is logged."""
    server = holding(events="worker_requests 40; worker_connections 1000;")
    with H2(server.port, CLOSED) as client:
        ask(client, path, 10)
        assert settle(client, 10) == 0
        for stream in range(1, 21, 2):
            client.send(RST_STREAM, 0, stream, bytes([0, 0, 0, CANCEL]))
        until(lambda: server.read("logs/access.log").count("HTTP/2.0") == 10, "the log")
        ask(client, path, 10)
        assert settle(client, 20) == 0
    until(lambda: server.read("logs/access.log").count("HTTP/2.0") == 20, "the log")
    with H2(server.port, CLOSED) as client:
        ask(client, path, 10)
        assert settle(client, 10) == 0


def test_what_is_held_has_send_timeout(holding):
    server = holding("send_timeout 200ms;")
    with H2(server.port, CLOSED) as client:
        stream = client.request("/big")
        client.expect_goaway(CALM)
        assert not client.answers[stream].is_whole
    assert server.wait_log("client timed out .* while sending to client")
    with H2(server.port, CLOSED) as client:
        stream, other = client.request("/big"), client.request("/big")
        client.window(10 ** 7)
        while client.answers.get(stream, Answer()).reset is None:
            client.window(5000, other)
            client.until(lambda frame: frame.stream in (stream, other))
        assert client.answers[stream].reset == CANCEL
        client.window(10 ** 7, other)
        assert client.answer(other).body == BIG


def test_what_is_held_is_sent_by_a_worker_that_quits(holding):
    server = holding()
    with H2(server.port, CLOSED) as client:
        streams = [client.request("/big"), client.request("/buffered")]
        assert settle(client, 2) == 0
        server.reload()
        client.until(lambda frame: frame.kind == GOAWAY)
        client.window(10 ** 7)
        for stream in streams:
            client.window(10 ** 7, stream)
            assert client.answer(stream).body == BIG
        client.expect_goaway(NO_ERROR)
