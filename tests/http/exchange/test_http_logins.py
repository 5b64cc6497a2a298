"""Logins that hold for a connection (NTLM, Negotiate): nobody else may have the backend's connection that carried one."""

import threading

import pytest

from harness import until
from harness.h2 import H2


class Domain:
    """Backends that know a client by its connection, once it has logged in by three messages."""

    def __init__(self, backend, servers=1, offer=b"WWW-Authenticate", accept=b"authorization", status=401):
        self.offer, self.accept, self.status = offer, accept, status
        self.connections = 0
        self.lock = threading.Lock()
        self.ports = [backend(self.talk()).port for _ in range(servers)]

    def talk(self):
        """One script for each connection: it does not end."""
        domain = self

        class Script:
            def __iter__(self):
                with domain.lock:
                    domain.connections += 1
                state = {"user": b"nobody"}
                while True:
                    yield lambda conn, request: domain.answer(conn, request, state)
        return Script()

    def answer(self, conn, request, state):
        fields = dict(line.split(b": ", 1) for line in request.split(b"\r\n")[1:] if b": " in line)
        word = {name.lower(): value for name, value in fields.items()}.get(self.accept, b"")
        status, more = 200, b""
        if word.endswith(b" hello"):
            state["challenged"] = True
            status, more = self.status, b"%s: NTLM challenge\r\n" % self.offer
        elif b" I am " in word and state.pop("challenged", False):
            state["user"] = word.split(b" I am ")[1]
        elif word or (b"/secret" in request and state["user"] == b"nobody"):
            status, more = self.status, b"%s: Basic realm=\"a, b\", NTLM\r\n" % self.offer
        conn.sendall(b"HTTP/1.1 %d X\r\nContent-Length: %d\r\n%s\r\n%s"
                     % (status, len(state["user"]), more, state["user"]))


GROUP = "upstream u { %s %s } server { listen 127.0.0.1:@PORT@; location / { proxy_pass http://%s; } }"


def log_in(client, name, field="Authorization", scheme="NTLM", status=401):
    assert client.request("/secret").status == status
    assert client.request("/secret", "%s: %s hello" % (field, scheme)).status == status
    assert client.request("/secret", "%s: %s I am %s" % (field, scheme, name)).text == name


@pytest.mark.parametrize("target, settings, servers", [
    ("127.0.0.1:%d", "", 1), ("u", "", 1), ("u", "keepalive 1;", 3), ("u", "keepalive 0; ntlm;", 2)])
def test_a_login_is_the_clients_own(serve, backend, target, settings, servers):
    domain = Domain(backend, servers)
    lines = "".join("server 127.0.0.1:%d; " % port for port in domain.ports)
    server = serve(GROUP % (lines, settings, target % domain.ports[0] if "%" in target else target))
    with server.client() as alice, server.client() as bob, server.client() as carol:
        log_in(alice, "alice")
        for _ in range(4):
            assert bob.request("/").text == "nobody"
        log_in(bob, "bob")
        for _ in range(4):
            assert carol.request("/").text == "nobody"
            assert alice.request("/secret").text == "alice"
            assert bob.request("/").text == "bob"
    assert server.get("/").text == "nobody"


@pytest.mark.parametrize("scheme", ["ntlm", "Negotiate"])
def test_proxies_ask_as_well(serve, backend, scheme):
    domain = Domain(backend, 1, b"Proxy-Authenticate", b"proxy-authorization", 407)
    server = serve(GROUP % ("server 127.0.0.1:%d;" % domain.ports[0], "", "u"))
    with server.client() as alice, server.client() as bob:
        log_in(alice, "alice", "Proxy-Authorization", scheme, 407)
        assert bob.request("/").text == "nobody"
        assert alice.request("/").text == "alice"


def test_a_login_that_nobody_asked_for(serve, backend):
    """By the request alone: the backend's connection was another's before, and is not afterwards."""
    conns = []

    def who(conn, _):
        if conn not in conns:
            conns.append(conn)
        conn.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n%02d" % conns.index(conn))
    back = backend([who] * 9)
    server = serve(GROUP % ("server 127.0.0.1:%d;" % back.port, "", "u"))
    with server.client() as alice, server.client() as bob:
        assert bob.request("/").text == "00"
        assert alice.request("/", "Authorization: Negotiate abc").text == "00"
        assert bob.request("/").text == "01"
        assert alice.request("/").text == "00"
        assert bob.request("/", "Authorization: Basic abc").text == "01"
        assert server.get("/").text == "01"


def test_http2_clients_have_their_own(serve, backend):
    domain = Domain(backend)
    server = serve(("http2 on; " + GROUP) % ("server 127.0.0.1:%d;" % domain.ports[0], "keepalive 4;", "u"))
    with H2(server.port) as alice, H2(server.port) as bob:
        for word, status in [("NTLM hello", 401), ("NTLM I am alice", 200)]:
            assert alice.get("/secret", headers=[("authorization", word)]).status == status
        assert bob.get("/").body == b"nobody"
        assert alice.get("/secret").body == b"alice"
        assert bob.get("/").body == b"nobody"


def test_the_connection_ends_with_the_clients(serve, backend):
    ended = threading.Event()

    def wait_for_the_end(conn, _):
        conn.sendall(b"HTTP/1.1 401 X\r\nContent-Length: 0\r\nWWW-Authenticate: NTLM\r\n\r\n")
        if conn.recv(1) == b"":
            ended.set()
    back = backend([wait_for_the_end])
    server = serve(GROUP % ("server 127.0.0.1:%d;" % back.port, "", "u"))
    with server.client() as client:
        assert client.request("/").status == 401
        assert not ended.is_set()
    assert ended.wait(10)


def test_resting_logins_have_a_bound(serve, backend):
    """A quarter of worker_connections: then the one that rested longest ends."""
    domain = Domain(backend)
    server = serve(GROUP % ("server 127.0.0.1:%d;" % domain.ports[0], "", "u"),
                   events="worker_connections 32;")
    clients = [server.client() for _ in range(9)]
    for number, client in enumerate(clients):
        assert client.request("/secret", "Authorization: NTLM hello").status == 401, number
    server.wait_log("idle upstream connections belong to clients that logged in on them, closing the oldest")
    for client in clients:
        client.close()
    until(lambda: server.get("/").text == "nobody", "an answer")
