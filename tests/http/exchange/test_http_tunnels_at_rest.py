"""Tunnels of HTTP/1 clients hold no fiber: what becomes of their requests."""

import socket
import struct
import threading

import pytest

SWITCH = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"
ASK = b"GET / HTTP/1.1\r\nHost: a\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"
PLACE = """log_format t '$status $request_length $bytes_sent $upstream_bytes_sent $upstream_bytes_received $upstream_response_length';
           access_log logs/access.log t;
           server { listen 127.0.0.1:@PORT@; %s location / { proxy_pass http://127.0.0.1:%d; proxy_http_version 1.1;
                    proxy_set_header Upgrade x; proxy_set_header Connection upgrade; %s } location = /other { return 200 other; } }"""


class Backend:
    """Switches, with `first` right behind, and then leaves the connection to `talk`; by default sends back what it gets."""

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.first = b""
        self.talk = self.echo
        threading.Thread(target=self.accept, daemon=True).start()

    @staticmethod
    def echo(conn):
        while data := conn.recv(65536):
            conn.sendall(data)

    @staticmethod
    def reset(conn):
        conn.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    def run(self, conn):
        got = b""
        with conn:
            while b"\r\n\r\n" not in got:
                got += conn.recv(65536)
            conn.sendall(SWITCH + self.first)
            try:
                self.talk(conn)
            except OSError:
                pass

    def accept(self):
        while True:
            try:
                conn = self.listener.accept()[0]
            except OSError:
                return
            threading.Thread(target=self.run, args=(conn,), daemon=True).start()


@pytest.fixture(name="backend")
def _backend():
    backend = Backend()
    yield backend
    backend.listener.close()


def opened(server, more=b""):
    """A client whose connection was switched."""
    client = server.client()
    client.send(ASK + more)
    assert client.head().status == 101
    return client


def exactly(client, size):
    got = b""
    while len(got) < size:
        data = client.recv(size - len(got))
        assert data, "closed after %d bytes" % len(got)
        got += data
    return got


def test_more_tunnels_than_requests_at_work(serve, backend):
    """Each would take a place, and a stack, if a fiber worked on it."""
    server = serve(PLACE % ("", backend.port, ""), events="worker_requests 2;")
    clients = [opened(server) for _ in range(12)]
    with server.client() as other:
        assert other.request("/other").text == "other"
    for number, client in enumerate(clients):
        client.send(b"number %02d" % number)
    for number, client in enumerate(clients):
        assert exactly(client, 9) == b"number %02d" % number
        client.close()
    assert {line.split()[0] for line in server.wait_lines("logs/access.log", 13)} == {"101", "200"}


def test_counts(serve, backend):
    """What goes through the tunnel is no part of the request, nor of the backend's response, as with nginx."""
    backend.first = b"welcome"
    server = serve(PLACE % ("", backend.port, ""))
    with opened(server, b"with it, ") as client:
        assert exactly(client, 16) == b"welcomewith it, "
        client.send(b"later")
        assert exactly(client, 5) == b"later"
        client.half_close()
        assert client.rest() == b""
    status, length, sent, up, down, body = map(int, server.wait_lines("logs/access.log")[0].split())
    assert (status, length) == (101, len(ASK))
    assert sent > 21 and up > 14
    assert (down, body) == (len(SWITCH) + 21, 0)


@pytest.mark.parametrize("speed", ["", "limit_rate 100m;"])
def test_large_both_ways(serve, backend, speed):
    server = serve(PLACE % ("", backend.port, speed))
    data = bytes(range(251)) * 20000
    with opened(server) as client:
        sender = threading.Thread(target=client.send, args=(data,), daemon=True)
        sender.start()
        assert exactly(client, len(data)) == data
        sender.join()
    assert server.wait_lines("logs/access.log")[0].split()[4] == str(len(SWITCH) + len(data))


def test_resets_end_it(serve, backend):
    server = serve(PLACE % ("", backend.port, ""))
    client = opened(server)
    client.reset()
    server.wait_lines("logs/access.log", 1)
    backend.talk = backend.reset
    with opened(server) as client:
        assert client.rest_or_reset() == b""
    server.wait_lines("logs/access.log", 2)


def test_silence_is_told(serve, backend):
    server = serve(PLACE % ("", backend.port, "proxy_read_timeout 200ms;"))
    with opened(server, b"x") as client:
        assert client.rest() == b"x"
    server.wait_log(r"upstream timed out \(110: Connection timed out\) while proxying upgraded connection, client: 127.0.0.1")


def test_post_action_follows(serve, backend):
    server = serve(PLACE % ("location = /after { access_log logs/after.log; return 204; }", backend.port, "post_action /after;"))
    with opened(server, b"x") as client:
        assert exactly(client, 1) == b"x"
    assert server.wait_lines("logs/after.log")


def test_a_worker_that_stops_ends_them(serve, backend):
    server = serve(PLACE % ("", backend.port, ""))
    with opened(server, b"x") as client:
        assert exactly(client, 1) == b"x"
        server.stop()
        client.rest_or_reset()
    assert server.lines("logs/access.log")[0].startswith("101 ")


def test_a_worker_that_quits_waits_for_them(serve, backend):
    server = serve(PLACE % ("", backend.port, ""))
    with opened(server, b"x") as client:
        assert exactly(client, 1) == b"x"
        server.signal("quit")
        server.wait_log("gracefully shutting down")
        client.send(b"still there")
        assert exactly(client, 11) == b"still there"
    assert server.wait_end() == 0


def test_worker_shutdown_timeout_ends_them(serve, backend):
    server = serve(PLACE % ("", backend.port, ""), main="worker_shutdown_timeout 200ms;")
    with opened(server, b"x") as client:
        assert exactly(client, 1) == b"x"
        assert server.quit() == 0
        client.rest_or_reset()
    assert server.lines("logs/access.log")[0].startswith("101 ")


def test_a_subrequest_is_not_switched(serve, backend):
    server = serve(PLACE % ("location = /asks { auth_request /; }", backend.port, ""))
    with server.client() as client:
        client.send(b"GET /asks HTTP/1.1\r\nHost: a\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n")
        assert client.response().status == 500
    server.wait_log("upstream switched protocols in a subrequest")
