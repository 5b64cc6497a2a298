"""proxy_session_drop: sessions end when their backend is none of the group any more, or is unhealthy."""

import socket

import pytest

from harness.dns import NameServer
from harness.wait import until

from peers import DatagramPeer, Peer


class Echo(Peer):
    """Says a greeting, then what it hears."""

    def answer(self, conn, data):
        conn.sendall(data)


@pytest.fixture(name="echo")
def _echo():
    peer = Echo(b"hello", holds=True)
    yield peer
    peer.close()


def begin(port):
    client = socket.create_connection(("127.0.0.1", port), timeout=10)
    assert client.recv(100) == b"hello"
    return client


def echoed(client):
    """What comes for a word; b"" once the session is over."""
    try:
        client.sendall(b"word")
        return client.recv(100)
    except (ConnectionResetError, BrokenPipeError):
        return b""


CHECKED = """stream {
    log_format status "$status";
    upstream group { zone group 64k; server 127.0.0.1:%(port)d; }
    server { listen 127.0.0.1:@PORT@; proxy_pass group; health_check interval=50ms; access_log dropped.log status; proxy_session_drop on; }
    server { listen 127.0.0.1:@PORT1@; proxy_pass group; }
}"""


def test_sessions_of_an_unhealthy_server(serve, echo):
    server = serve("", main=CHECKED % {"port": echo.port})
    dropped, kept = begin(server.port_of("PORT")), begin(server.port_of("PORT1"))
    with dropped, kept:
        assert echoed(dropped) == echoed(kept) == b"word"
        echo.down()
        server.wait_log("peer is unhealthy")
        assert echoed(dropped) == b""
        server.wait_log("upstream server is gone, session dropped while proxying connection")
        server.wait_log(r"session dropped, upstream disconnected, bytes from/to client:4/9, bytes from/to upstream:9/4")
        assert server.wait_lines("dropped.log") == ["502"]
        assert echoed(kept) == b"word"    # off by default


def test_what_the_backend_says_ends_it_as_well(serve):
    talkers = []

    class Talker(Peer):
        def answer(self, conn, data):
            talkers.append(conn)
            conn.sendall(data)

    peer = Talker(b"hello", holds=True)
    server = serve("", main=CHECKED % {"port": peer.port})
    with begin(server.port_of("PORT")) as client:
        assert echoed(client) == b"word"
        peer.down()
        server.wait_log("peer is unhealthy")
        talkers[-1].sendall(b"more")
        assert client.recv(100) == b""


NAMED = """stream {
    resolver %s ipv6=off valid=1s; resolver_timeout 1s;
    upstream group { zone group 256k; server app.example:%d resolve; }
    proxy_session_drop on;
    server { listen 127.0.0.1:@PORT@%s; proxy_pass group; }
    server { listen 127.0.0.1:@PORT1@; proxy_session_drop off; proxy_pass group; }
}"""


def test_an_address_that_the_name_has_no_more(serve):
    peer = Echo(b"hello", host="127.0.0.2", holds=True)
    with NameServer() as dns:
        dns.records["app.example"] = ["127.0.0.2"]
        server = serve("", main=NAMED % (dns.address, peer.port, ""))
        with begin(server.port_of("PORT")) as dropped, begin(server.port_of("PORT1")) as kept:
            dns.records["app.example"] = ["127.0.0.2", "127.0.0.3"]
            count = dns.count("app.example")
            until(lambda: dns.count("app.example") > count + 1, "the name is asked twice more")
            assert echoed(dropped) == b"word"    # the list is another one, the server is in it
            dns.records["app.example"] = ["127.0.0.3"]
            until(lambda: echoed(dropped) == b"", "the session is dropped")
            assert echoed(kept) == b"word"
    peer.close()


def test_datagrams(serve):
    peer = DatagramPeer()
    with NameServer() as dns:
        dns.records["app.example"] = ["127.0.0.1"]
        server = serve("", main=NAMED % (dns.address, peer.port, " udp"))
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
            client.settimeout(10)
            client.connect(("127.0.0.1", server.port_of("PORT")))
            client.send(b"one")
            assert client.recv(100) == b"one"
            dns.records["app.example"] = ["127.0.0.3"]

            def dropped():
                client.send(b"more")
                return "udp session dropped, packets from/to client:" in server.error_log
            until(dropped, "the session is dropped")
    peer.close()
