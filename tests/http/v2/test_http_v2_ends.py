"""HTTP/2: limits of a connection, and its end: by count, by age, at rest, by reload and quit, behind PROXY protocol."""

import socket
import ssl
import struct

import pytest

import certificates
from h2_site import BIG, _echo, _site  # noqa: F401
from harness import h2
from harness.h2 import GOAWAY, H2, NO_ERROR, PROTOCOL_ERROR, REFUSED_STREAM


def test_too_many_streams(site, echo):
    server = site("http2_max_concurrent_streams 2;", "location /p { proxy_pass http://127.0.0.1:%d; }" % echo)
    with H2(server.port) as client:
        streams = [client.request("/p", "POST", ends=False) for _ in range(3)]
        assert client.answer(streams[2]).reset == REFUSED_STREAM
        assert client.settings[3] == 2
        client.data(streams[0], b"a")
        client.data(streams[1], b"bc")
        assert client.answer(streams[0]).status == client.answer(streams[1]).status == 200
        assert client.get("/a.txt").status == 200


def test_keepalive_requests(site):
    server = site("keepalive_requests 3;")
    with H2(server.port) as client:
        for _ in range(3):
            assert client.get("/a.txt").status == 200
        client.expect_goaway(NO_ERROR)
        assert struct.unpack("!I", client.goaway.payload[:4])[0] == 5


@pytest.mark.parametrize("text, server", [("keepalive_timeout 0;", ""), ("", "location /big { root html; keepalive_timeout 0; }")])
def test_one_request_a_connection(site, text, server):
    """keepalive_timeout 0: GOAWAY with the first request, which is answered whole, however late it comes."""
    server = site(text, server)
    with H2(server.port) as client:
        assert client.is_alive()  # it rests, and is not closed for that
        stream = client.request("/big")
        client.until(lambda frame: frame.kind == GOAWAY if text else frame.kind == h2.DATA)
        client.window(2 ** 20)
        client.window(2 ** 20, stream)
        assert client.answer(stream).body == BIG
        client.expect_goaway(NO_ERROR)
        assert struct.unpack("!I", client.goaway.payload[:4])[0] == stream


def test_streams_above_goaway_are_overlooked(site, echo):
    """Whatever comes of them: a request that is worked on is answered, and nothing counts against the client."""
    server = site("keepalive_requests 1;", "location /p { proxy_pass http://127.0.0.1:%d; }" % echo)
    with H2(server.port) as client:
        stream = client.request("/p", "POST", ends=False)
        client.until(lambda frame: frame.kind == GOAWAY)
        for _ in range(250):
            late = client.request("/p", "POST", body=b"abc", ends=False)
            client.window(0, late)
            client.send(h2.HEADERS, h2.END_HEADERS | h2.END_STREAM, late, client.encoder.encode([("x-trailer", "a")]))
            client.send(h2.RST_STREAM, 0, late, struct.pack("!I", h2.CANCEL))
        client.data(stream, b"abc")
        assert client.answer(stream).status == 200
        client.expect_goaway(NO_ERROR)
        assert client.resets == 0


def test_client_that_asks_for_nothing_is_closed(site):
    server = site("client_header_timeout 100ms;")
    with H2(server.port) as client:
        client.expect_goaway(NO_ERROR)


def test_idle_connection_is_closed(site):
    server = site("keepalive_timeout 200ms;")
    with H2(server.port) as client:
        assert client.get("/a.txt").status == 200
        client.expect_goaway(NO_ERROR)


def test_reload_ends_connections_gently(site):
    server = site()
    with H2(server.port) as idle, H2(server.port) as busy:
        assert idle.get("/a.txt").status == 200
        stream = busy.request("/big")
        while not busy.answers.get(stream, h2.Answer()).frames:
            busy.read()
        server.reload()
        idle.expect_goaway(NO_ERROR)
        busy.until(lambda frame: frame.kind == GOAWAY)
        busy.window(2 ** 20)
        busy.window(2 ** 20, stream)
        assert busy.answer(stream).body == BIG
        busy.expect_goaway(NO_ERROR)
    assert server.get("/a.txt").status == 200


def test_proxy_protocol_before(serve):
    server = serve("server { listen 127.0.0.1:@PORT@ proxy_protocol; http2 on; return 200 $proxy_protocol_addr; }")
    with H2(server.port, before=b"PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n") as client:
        assert client.get("/").body == b"192.0.2.1"


def test_idle_ones_give_way(serve):
    server = serve("http2 on; server { listen 127.0.0.1:@PORT@; return 200 ok; }",
                   events="worker_connections 12;", main="worker_processes 1;")
    clients = []
    try:
        for _ in range(30):
            clients.append(H2(server.port))
            assert clients[-1].get("/").status == 200
    finally:
        for client in clients:
            client.socket.close()


def proxy_v2(source, port):
    """A header of version 2 of the PROXY protocol."""
    address = socket.inet_aton(source) + socket.inet_aton("192.0.2.2") + struct.pack("!HH", port, 80)
    return b"\r\n\r\n\0\r\nQUIT\n\x21\x11" + struct.pack("!H", len(address)) + address


def in_tls(port, before=b""):
    """A socket that speaks TLS behind the bytes in front, with h2 agreed on."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["h2", "http/1.1"])
    plain = socket.create_connection(("127.0.0.1", port))
    plain.sendall(before)
    secure = context.wrap_socket(plain, server_hostname="localhost")
    assert secure.selected_alpn_protocol() == "h2"
    return secure


HEADS = {"v1": b"PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n", "v2": proxy_v2("192.0.2.1", 1)}


@pytest.mark.parametrize("version", HEADS)
@pytest.mark.parametrize("pieces", [False, True])
def test_proxy_protocol_of_each_kind(serve, version, pieces):
    """Preface and first frames come with it, or piece by piece."""
    server = serve("server { listen 127.0.0.1:@PORT@ proxy_protocol; http2 on; "
                   "return 200 '$proxy_protocol_addr:$proxy_protocol_port'; }")
    sock = socket.create_connection(("127.0.0.1", server.port))
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    before = HEADS[version]
    if pieces:
        for at in range(len(before) - 1):
            sock.sendall(before[at:at + 1])
        before = before[-1:]
    with H2(server.port, sock=sock, before=before) as client:
        assert client.get("/").body == b"192.0.2.1:1"


@pytest.mark.parametrize("version", HEADS)
def test_proxy_protocol_before_tls(serve, version):
    pair = certificates.own("localhost")
    server = serve("server { listen 127.0.0.1:@PORT@ ssl proxy_protocol; http2 on; ssl_certificate %s; "
                   "ssl_certificate_key %s; return 200 '$proxy_protocol_addr $http2'; }" % (pair.crt, pair.key))
    with H2(server.port, sock=in_tls(server.port, HEADS[version])) as client:
        assert client.get("/", scheme="https").body == b"192.0.2.1 h2"


def test_keepalive_time(site):
    """An old connection is ended with the answer that it is asked for."""
    server = site("keepalive_time 1ms;")
    with H2(server.port) as client:
        assert client.is_alive()
        while client.goaway is None:
            assert client.get("/a.txt").status == 200
        client.expect_goaway(NO_ERROR)


def test_quit_waits_for_streams(site, echo):
    """QUIT: GOAWAY at once, what is open is answered, then the server ends."""
    server = site(server="location /p { proxy_pass http://127.0.0.1:%d; }" % echo)
    with H2(server.port) as client:
        stream = client.request("/p", "POST", ends=False)
        assert client.is_alive()
        server.signal("quit")
        client.until(lambda frame: frame.kind == GOAWAY)
        assert struct.unpack("!II", client.goaway.payload) == (stream, NO_ERROR)
        late = client.request("/a.txt")
        client.data(stream, b"abc")
        assert client.answer(stream).body.startswith(b"3 ")
        client.expect_goaway(NO_ERROR)
        assert late not in client.answers
    assert server.wait_end() == 0


def test_reload_ends_tls_connections_gently(serve):
    pair = certificates.own("localhost")
    server = serve("server { listen 127.0.0.1:@PORT@ ssl; http2 on; ssl_certificate %s; ssl_certificate_key %s; "
                   "return 200 ok; }" % (pair.crt, pair.key))
    with H2(server.port, sock=in_tls(server.port)) as client:
        assert client.get("/", scheme="https").body == b"ok"
        server.reload()
        client.expect_goaway(NO_ERROR)


def test_lingering(site):
    """The error is read by a client that goes on sending: it is not met by a reset."""
    server = site("lingering_timeout 2s;")
    with H2(server.port) as client:
        assert client.is_alive()
        client.send(h2.DATA, 0, 99, b"of no stream")
        try:
            for _ in range(50):
                client.socket.sendall(bytes(10000))
        except OSError:
            pytest.fail("the connection was reset")
        client.expect_goaway(PROTOCOL_ERROR)


def test_goaway_of_the_client(site):
    """No new streams are its word about ours, which do not exist; the open ones end, then the connection does."""
    server = site()
    with H2(server.port) as client:
        stream = client.request("/big")
        while not client.answers.get(stream, h2.Answer()).frames:
            client.read()
        client.send(GOAWAY, 0, 0, bytes(8) + b"going" * 5000)
        client.window(2 ** 20)
        client.window(2 ** 20, stream)
        assert client.answer(stream).body == BIG
        assert client.read() is None
