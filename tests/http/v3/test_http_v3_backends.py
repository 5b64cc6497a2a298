"""HTTP/3 in, another protocol out: bodies of requests, tunnels, early hints, trailers."""

import hashlib

import pytest

from h2_site import _echo  # noqa: F401
from h3_site import BIG, _site  # noqa: F401
from harness.backend import send_back_in_capitals, talk_to_each
from harness.h2 import H2
from harness.h3 import H3, MESSAGE_ERROR
from tls_client import connect


@pytest.mark.parametrize("buffering", ["on", "off"])
@pytest.mark.parametrize("size", [0, 1, 5000, 65536, 300000, 2000000])
def test_request_bodies(site, echo, buffering, size):
    """Larger than any window: what is read opens it."""
    server = site("client_max_body_size 0;", "location /p { proxy_http_version 1.1; proxy_request_buffering %s; "
                  "proxy_pass http://127.0.0.1:%d; }" % (buffering, echo))
    body = bytes(i * 31 % 251 for i in range(size % 100000)) * max(1, size // 100000)
    with H3(server.port) as client:
        for announced in (True, False):
            headers = [("content-length", str(len(body)))] if announced else []
            answer = client.get("/p", "POST", body=body, headers=headers)
            assert answer.body == b"%d %s" % (len(body), hashlib.md5(body).hexdigest().encode())


def test_body_in_pieces(site, echo):
    server = site(server="location /p { proxy_http_version 1.1; proxy_pass http://127.0.0.1:%d; }" % echo)
    with H3(server.port) as client:
        stream = client.send("/p", "POST", end=False)
        for byte in b"in pieces":
            client.send_body(stream, bytes([byte]))
            client.turn(0.01)
        client.send_body(stream, b"", end=True)
        assert client.wait(stream).body.startswith(b"9 ")


@pytest.mark.parametrize("length", ["3", "5"])
def test_body_of_another_length(site, echo, length):
    """Fewer bytes than announced, or more: 400, and nothing is passed on."""
    server = site(server="location /p { proxy_pass http://127.0.0.1:%d; }" % echo)
    with H3(server.port) as client:
        answer = client.get("/p", "POST", body=b"abcd", headers=[("content-length", length)])
        assert answer.status == 400 or answer.reset == MESSAGE_ERROR
        assert client.get("/a.txt").status == 200


def _backend(answer):
    """A backend that gives this answer to each request, once its head has come. Gives the listener and what came."""
    got = []

    def talk(conn):
        head = b""
        while b"\r\n\r\n" not in head:
            head += conn.recv(65536)
        got.append(head)
        conn.sendall(answer)
        send_back_in_capitals(conn)

    return talk_to_each(talk), got


def test_websocket(site):
    """Extended CONNECT (RFC 9220)."""
    listener, heads = _backend(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: upgrade\r\n"
                               b"Sec-WebSocket-Accept: x\r\n\r\nwelcome")
    server = site(server="""location /ws { proxy_pass http://127.0.0.1:%d; proxy_http_version 1.1;
        proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection "upgrade"; }""" % listener.getsockname()[1])
    with H3(server.port) as client:
        stream = client.send_head([(b":method", b"CONNECT"), (b":protocol", b"websocket"), (b":scheme", b"https"),
                                   (b":path", b"/ws"), (b":authority", b"localhost"), (b"sec-websocket-version", b"13")],
                                  end=False)
        answer = client.answer(stream)
        client.turn_until(lambda: answer.body == b"welcome")
        assert answer.status == 200 and b"Upgrade: websocket" in heads[0]
        client.send_body(stream, b"hello")
        client.turn_until(lambda: answer.body == b"welcomeHELLO")
        client.send_body(stream, b"", end=True)
        assert client.wait(stream).is_over
    listener.close()


def test_early_hints(site):
    listener, _ = _backend(b"HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\n"
                           b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nbody")
    server = site(server="location /h { early_hints 1; proxy_http_version 1.1; proxy_pass http://127.0.0.1:%d; }"
                  % listener.getsockname()[1])
    with H3(server.port) as client:
        answer = client.get("/h")
        assert [dict(head)[b":status"] for head in answer.heads] == [b"103", b"200"]
        assert dict(answer.heads[0])[b"link"] == b"</a.css>" and answer.body == b"body"
    listener.close()


def test_large_answer_of_a_backend(site):
    listener, _ = _backend(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(BIG) + BIG)
    port = listener.getsockname()[1]
    server = site(server="location /on { proxy_pass http://127.0.0.1:%d; } location /off { proxy_buffering off; "
                  "proxy_pass http://127.0.0.1:%d; }" % (port, port))
    with H3(server.port) as client:
        for path in "/on", "/off":
            assert client.get(path).body == BIG
    listener.close()


def test_trailers(site):
    server = site(server='location /t { add_trailer X-Sum $body_bytes_sent; root html; } location = /t/a.txt { add_trailer X-Sum 7; '
                  'alias html/a.txt; }')
    with H3(server.port) as client:
        answer = client.get("/t/a.txt")
        assert answer.body == b"hello\n" and answer.trailers == {b"x-sum": b"7"}


@pytest.mark.parametrize("version", [2, 3])
def test_fields_of_a_connection_stay_behind(site, backend, version):
    """TE is one of them (RFC 9113, 8.2.2), though a request may have it: clients take a response with it for malformed."""
    back = backend([b"HTTP/1.1 200 OK\r\nTE: trailers\r\nKeep-Alive: timeout=1\r\nProxy-Connection: close\r\nX-A: b\r\n"
                    b"Content-Length: 2\r\n\r\nok"])
    server = site("http2 on;", "location /p { proxy_pass http://127.0.0.1:%d; }" % back.port)
    if version == 2:
        with connect(server.port, alpn=["h2"]) as secure, H2(0, sock=secure) as client:
            names = set(client.get("/p").headers)
    else:
        with H3(server.port) as client:
            names = set(client.get("/p").headers)
    assert "x-a" in names and not names & {"te", "keep-alive", "proxy-connection"}
