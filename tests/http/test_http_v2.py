"""HTTP/2 on plain sockets by prior knowledge: requests, bodies, windows, priorities, the end of connections."""

import socket
import struct
import subprocess
import threading

import pytest

from harness import h2
from harness.h2 import (CANCEL, DATA, END_HEADERS, END_STREAM, GOAWAY, H2, HEADERS, NO_ERROR,
                        PRIORITY_UPDATE, PROTOCOL_ERROR, REFUSED_STREAM, RST_STREAM, WINDOW_UPDATE)

BIG = bytes(range(256)) * 1200


@pytest.fixture(name="site")
def _site(serve):
    def start(text="", server="", files=None, **more):
        tree = {"html/a.txt": "hello\n", "html/big": BIG, "html/empty": ""}
        tree.update(files or {})
        return serve("http2 on; %s server { listen 127.0.0.1:@PORT@; %s location / { root html; } }"
                     % (text, server), files=tree, **more)
    return start


# what is asked and answered

def test_get_and_variables(site):
    server = site("log_format f '$request|$status|$http2|$server_protocol|$host'; access_log logs/access.log f;")
    with H2(server.port) as client:
        answer = client.get("/a.txt", authority="Example.com:81")
        assert answer.status == 200 and answer.body == b"hello\n"
        assert answer.headers["content-length"] == "6" and answer.headers["content-type"] == "text/plain"
        assert "connection" not in answer.headers and "transfer-encoding" not in answer.headers
        assert [name for name, _ in answer.final][:3] == [":status", "server", "date"]
    assert server.wait_lines("logs/access.log") == ["GET /a.txt HTTP/2.0|200|h2c|HTTP/2.0|example.com"]


def test_both_protocols_on_one_port(site):
    server = site()
    assert server.get("/a.txt").text == "hello\n"
    for start in ("P", "PR", "PRI * HTTP"):
        with server.client() as client:
            client.send(start)
            client.send("OST /a.txt HTTP/1.1\r\nHost: a\r\n\r\n" if start == "P" else " / HTTP/1.1\r\n\r\n")
            assert client.response().status in (400, 405)
    with server.client() as client:
        client.send("PUT /a.txt HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n")
        assert client.response().status == 405


def test_without_http2_the_preface_is_no_request(serve):
    server = serve("server { listen 127.0.0.1:@PORT@; }")
    with server.client() as client:
        client.send(h2.PREFACE)
        assert client.response().status in (400, 505)


def test_preface_in_pieces(site):
    server = site()
    sock = socket.create_connection(("127.0.0.1", server.port))
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for byte in h2.PREFACE[:-1]:
        sock.sendall(bytes([byte]))
    client = H2.__new__(H2)
    with client:
        real = h2.PREFACE
        try:
            h2.PREFACE = real[-1:]
            client.__init__(server.port, sock=sock)
        finally:
            h2.PREFACE = real
        assert client.get("/a.txt").body == b"hello\n"


def test_frames_in_pieces(site):
    server = site()
    with H2(server.port) as client:
        client.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in client.frame(HEADERS, END_HEADERS | END_STREAM, 1, client.block("/a.txt")):
            client.socket.sendall(bytes([byte]))
        assert client.answer(1).body == b"hello\n"


def test_head_empty_and_missing(site):
    with H2(site().port) as client:
        answer = client.get("/big", "HEAD")
        assert answer.headers["content-length"] == str(len(BIG)) and answer.frames == []
        answer = client.get("/empty")
        assert answer.status == 200 and answer.frames == []
        assert client.get("/none").status == 404
        etag = client.get("/a.txt").headers["etag"]
        answer = client.get("/a.txt", headers=[("if-none-match", etag)])
        assert answer.status == 304 and answer.frames == []
        assert client.get("/big", headers=[("range", "bytes=5-9")]).body == BIG[5:10]


def test_header_repeated_over_many_answers(site):
    """The table of the server's encoder fills, and what the client decodes stays right."""
    server = site("map $arg_n $long { default $arg_n$arg_n$arg_n$arg_n; }",
                  "location /h { add_header X-Long $long; add_header X-N $arg_n; return 200; }")
    with H2(server.port) as client:
        for i in range(300):
            text = ("%d" % (i % 37)) * (1 + i % 23)
            headers = client.get("/h?n=" + text).headers
            assert headers["x-n"] == text and headers["x-long"] == text * 4


def test_large_response_head(site):
    server = site(server="location /h { add_header X-A $http_x_a; return 200 ok; }"
                         "large_client_header_buffers 8 32k;")
    value = "".join("%x" % (i * 7919 % 16) for i in range(30000))
    with H2(server.port) as client:
        answer = client.get("/h", headers=[("x-a", value)])
        assert answer.headers["x-a"] == value and answer.body == b"ok"


def test_cookies_are_joined(site):
    server = site(server="location /c { return 200 '$http_cookie|$cookie_b'; }")
    with H2(server.port) as client:
        answer = client.get("/c", headers=[("cookie", "a=1"), ("x", "y"), ("cookie", "b=2")])
        assert answer.body == b"a=1; b=2|2"


@pytest.mark.parametrize("extra", [
    [("Upper", "x")], [("connection", "close")], [("keep-alive", "5")], [("proxy-connection", "x")],
    [("transfer-encoding", "chunked")], [("upgrade", "h2c")], [("te", "gzip")], [(":path", "/")],
    [(":what", "x")], [(":status", "200")], [("host", "other.example")], [("content-length", "5")],
    [("content-length", "x")], [("x y", "z")], [("x", "a\nb")], [("x", "a\0b")], [("", "x")],
    [("a:b", "c")],
])
def test_malformed_fields(site, extra):
    """400, and the stream ends with PROTOCOL_ERROR (RFC 9113, 8.1.1); the connection lives on."""
    server = site()
    with H2(server.port) as client:
        client.encoder.header_table_size = 0
        stream = client.request("/a.txt", headers=extra)
        assert client.answer(stream).status == 400
        client.until(lambda frame: frame.kind == RST_STREAM)
        assert client.answers[stream].reset == PROTOCOL_ERROR
        assert client.get("/a.txt").status == 200


@pytest.mark.parametrize("pseudo", [
    [(":scheme", "http"), (":path", "/"), (":authority", "a")],
    [(":method", "GET"), (":path", "/"), (":authority", "a")],
    [(":method", "GET"), (":scheme", "http"), (":authority", "a")],
    [(":method", "GET"), (":scheme", "http"), (":path", ""), (":authority", "a")],
    [(":method", "GET"), (":scheme", "http"), (":path", "a"), (":authority", "a")],
    [(":method", "GET"), (":scheme", "http"), (":path", "/../.."), (":authority", "a")],
    [(":method", "GET"), (":scheme", "http"), (":path", "/")],
    [(":method", "GET"), (":scheme", "http"), (":path", "/"), (":authority", "a b")],
    [(":method", "G T"), (":scheme", "http"), (":path", "/"), (":authority", "a")],
    [("a", "b"), (":method", "GET"), (":scheme", "http"), (":path", "/"), (":authority", "a")],
])
def test_malformed_requests(site, pseudo):
    server = site()
    with H2(server.port) as client:
        assert client.answer(client.request(pseudo=pseudo)).status == 400
        assert client.get("/a.txt").status == 200


def test_te_trailers_and_host_alone(site):
    server = site(server="location /h { return 200 '$host $http_host'; }")
    with H2(server.port) as client:
        pseudo = [(":method", "GET"), (":scheme", "http"), (":path", "/h")]
        answer = client.answer(client.request(pseudo=pseudo, headers=[("host", "b.c:8"), ("te", "trailers")]))
        assert answer.body == b"b.c b.c:8"
        assert client.get("/h", authority="d.e").body == b"d.e d.e"


def test_servers_by_name(serve):
    server = serve("""
        server { listen 127.0.0.1:@PORT@; http2 on; server_name a; return 200 first; }
        server { listen 127.0.0.1:@PORT@; server_name b *.b; return 200 second; }""")
    with H2(server.port) as client:
        for _ in range(3):
            assert client.get(authority="a").body == b"first"
            assert client.get(authority="x.b:80").body == b"second"
            assert client.get(authority="B").body == b"second"


def test_too_large_heads(site):
    server = site(server="large_client_header_buffers 2 1k; client_header_buffer_size 1k; max_headers 20;")
    with H2(server.port) as client:
        assert client.get("/a.txt", headers=[("x", "y" * 1100)]).status == 400
        assert client.get("/a.txt", headers=[("x%d" % i, "y" * 500) for i in range(7)]).status == 400
        assert client.get("/a.txt", headers=[("x", "y")] * 30).status == 400
        assert client.get("/a.txt").status == 200


# bodies of responses

@pytest.mark.parametrize("chunk", ["1", "100", "8k", "16k", "1m"])
def test_chunk_size(site, chunk):
    server = site("http2_chunk_size %s;" % chunk)
    size = {"1": 1, "100": 100, "8k": 8192, "16k": 16384, "1m": 16384}[chunk]
    path = "/big" if size > 1 else "/a.txt"
    with H2(server.port, {4: 2 ** 30}) as client:
        client.window(2 ** 30)
        answer = client.get(path)
        assert answer.body == (BIG if size > 1 else b"hello\n")
        assert max(answer.frames) == size and len(answer.frames) < len(answer.body) / size * 1.1 + 8


def test_windows(site):
    """Not a byte more than both windows let go, and all of it in the end."""
    server = site()
    with H2(server.port) as client:
        stream = client.request("/big")
        while sum(client.answers.get(stream, h2.Answer()).frames) < 65535:
            client.read()
        assert client.is_alive()
        assert sum(client.answers[stream].frames) == 65535
        client.window(2 ** 20)
        assert client.is_alive() and sum(client.answers[stream].frames) == 65535
        client.window(10, stream)
        client.window(7, stream)
        while sum(client.answers[stream].frames) < 65552:
            client.read()
        assert client.is_alive() and sum(client.answers[stream].frames) == 65552
        client.send_settings({4: 2 ** 24})
        assert client.answer(stream).body == BIG


def test_window_of_one_byte(site):
    with H2(site().port, {4: 1}) as client:
        stream = client.request("/a.txt")
        for i in range(6):
            while sum(client.answers.get(stream, h2.Answer()).frames) <= i:
                client.read()
            client.window(1, stream)
        answer = client.answer(stream)
        assert answer.body == b"hello\n" and answer.frames[:6] == [1] * 6


def test_many_streams_share_the_window(site):
    server = site()
    with H2(server.port, {4: 2 ** 24}) as client:
        streams = [client.request("/big") for _ in range(10)]
        client.window(2 ** 30)
        for stream in streams:
            assert client.answer(stream).body == BIG


def test_urgent_before_others(site):
    """What waits for the connection's window goes by urgency (RFC 9218, 10)."""
    server = site()
    with H2(server.port, {4: 2 ** 24}) as client:
        first = client.request("/big", headers=[("priority", "u=7")])
        while sum(client.answers.get(first, h2.Answer()).frames) < 65535:
            client.read()
        late = client.request("/big", headers=[("priority", "u=5")])
        urgent = client.request("/big", headers=[("priority", "u=0")])
        updated = client.request("/big")
        client.send(PRIORITY_UPDATE, 0, 0, struct.pack("!I", 9) + b"u=1")
        urgent_too = client.request("/big", headers=[("priority", "u=2")])
        assert updated == 7 and urgent_too == 9 and client.is_alive()
        client.window(4 * len(BIG))
        order = []
        while len(order) < 4:
            frame = client.read()
            if frame.kind == DATA and frame.flags & END_STREAM:
                order.append(frame.stream)
        assert order[0] == urgent and order.index(urgent_too) < order.index(late)
        client.window(2 ** 20)
        assert client.answer(first).body == BIG


def test_incremental_ones_take_turns(site):
    server = site()
    with H2(server.port, {4: 2 ** 24}) as client:
        first = client.request("/big")
        while sum(client.answers.get(first, h2.Answer()).frames) < 65535:
            client.read()
        pair = [client.request("/big", headers=[("priority", "u=2, i")]) for _ in range(2)]
        assert client.is_alive()
        client.window(2 ** 17)
        assert client.is_alive()
        sizes = [sum(client.answers[stream].frames) for stream in pair]
        assert min(sizes) > 32768, sizes


def test_cancelled_stream(site):
    server = site("log_format f '$request_uri $status'; access_log logs/access.log f;")
    with H2(server.port) as client:
        stream = client.request("/big")
        while stream not in client.answers:
            client.read()
        client.send(RST_STREAM, 0, stream, struct.pack("!I", CANCEL))
        client.window(2 ** 20)
        client.window(2 ** 20, stream)
        assert client.get("/a.txt").status == 200
    assert any(line.startswith("/big ") for line in server.wait_lines("logs/access.log", 2))


def test_trailers_of_a_response(site):
    server = site(server="location /t { add_trailer X-T $status; add_header Trailer X-T; return 200 body; }"
                         "location /e { add_trailer X-T $status; return 200 ''; }")
    with H2(server.port) as client:
        answer = client.get("/t")
        assert answer.body == b"body" and answer.trailers == [[("x-t", "200")]]


def test_limit_rate(site):
    server = site(server="location /slow { limit_rate 40k; alias html/big; }")
    with H2(server.port, {4: 2 ** 20}) as client:
        stream = client.request("/slow")
        while not client.answers.get(stream, h2.Answer()).frames:
            client.read()
        assert client.is_alive() and not client.answers[stream].is_whole
        assert sum(client.answers[stream].frames) <= 2 * 40960


# bodies of requests

@pytest.fixture(name="echo")
def _echo():
    """A backend that answers with the length and a checksum of the body it got."""
    import hashlib
    import http.server

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self):
            body = b""
            if "content-length" in self.headers:
                body = self.rfile.read(int(self.headers["content-length"]))
            else:
                while True:
                    size = int(self.rfile.readline(), 16)
                    body += self.rfile.read(size)
                    self.rfile.readline()
                    if size == 0:
                        break
            text = ("%d %s" % (len(body), hashlib.md5(body).hexdigest())).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_):
            pass

    backend = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=backend.serve_forever, daemon=True).start()
    yield backend.server_address[1]
    backend.shutdown()
    backend.server_close()


@pytest.mark.parametrize("buffering", ["on", "off"])
@pytest.mark.parametrize("size", [0, 1, 5000, 65536, 300000, 2000000])
@pytest.mark.parametrize("preread", ["0", "1k", "64k"])
def test_request_bodies(site, echo, buffering, size, preread):
    import hashlib
    server = site("http2_body_preread_size %s; client_max_body_size 0;" % preread,
                  "location /p { proxy_http_version 1.1; proxy_request_buffering %s; "
                  "proxy_pass http://127.0.0.1:%d; }" % (buffering, echo))
    body = bytes(i * 31 % 251 for i in range(size % 100000)) * max(1, size // 100000)
    with H2(server.port) as client:
        for announced in (True, False):
            client.is_alive()
            stream = client.request("/p", "POST", ends=False, headers=[
                ("content-length", str(len(body)))] if announced else [])
            window = client.settings[4]
            at = 0
            while at < len(body):
                part = body[at:at + min(window, 16384)]
                if part:
                    client.send(DATA, 0, stream, part)
                    at += len(part)
                    window -= len(part)
                while window == 0 and at < len(body):
                    frame = client.until(lambda f: f.kind == WINDOW_UPDATE and f.stream == stream)
                    window += struct.unpack("!I", frame.payload)[0]
            client.send(DATA, END_STREAM, stream)
            answer = client.answer(stream)
            assert answer.body == b"%d %s" % (len(body), hashlib.md5(body).hexdigest().encode())


def test_padded_body_and_trailers(site, echo):
    server = site(server="location /p { proxy_pass http://127.0.0.1:%d; }" % echo)
    with H2(server.port) as client:
        stream = client.request("/p", "POST", ends=False)
        client.send(DATA, 8, stream, b"\x05abc" + b"\0" * 5)
        client.send(HEADERS, END_HEADERS | END_STREAM, stream, client.encoder.encode([("x-t", "1")]))
        assert client.answer(stream).body.startswith(b"3 ")


def test_100_continue(site, echo):
    server = site(server="location /p { proxy_pass http://127.0.0.1:%d; }" % echo)
    with H2(server.port) as client:
        stream = client.request("/p", "POST", [("expect", "100-continue")], ends=False)
        client.until(lambda frame: frame.kind == HEADERS)
        assert [dict(head)[":status"] for head in client.answers[stream].interim] == ["100"]
        client.data(stream, b"abc")
        assert client.answer(stream).body.startswith(b"3 ")


@pytest.mark.parametrize("sent, announced", [(b"abc", 5), (b"abcdef", 5)])
def test_body_unlike_its_length(site, echo, sent, announced):
    server = site(server="location /p { proxy_pass http://127.0.0.1:%d; }" % echo)
    with H2(server.port) as client:
        stream = client.request("/p", "POST", [("content-length", str(announced))], body=sent)
        answer = client.answer(stream)
        assert answer.reset == PROTOCOL_ERROR or answer.status == 400
        client.until(lambda frame: frame.kind == RST_STREAM) if answer.reset is None else None
        assert client.answers[stream].reset == PROTOCOL_ERROR
        assert client.get("/a.txt").status == 200


def test_early_answer(site):
    """413 without the body being read; then the client is told that the rest is not wanted."""
    server = site(server="client_max_body_size 10;")
    with H2(server.port) as client:
        stream = client.request("/p", "POST", [("content-length", "100000")], ends=False)
        assert client.answer(stream).status == 413
        client.until(lambda frame: frame.kind == RST_STREAM)
        assert client.answers[stream].reset == NO_ERROR
        client.send(DATA, 0, stream, b"late")
        assert client.get("/a.txt").status == 200


def test_more_than_the_window(site):
    server = site("http2_body_preread_size 1k;", "location /p { proxy_pass http://127.0.0.1:1; }")
    with H2(server.port) as client:
        assert client.is_alive()
        stream = client.request("/a.txt", "POST", ends=False)
        client.data(stream, bytes(5000), ends=False)
        client.until(lambda frame: frame.kind == RST_STREAM)
        assert client.answers[stream].reset == h2.FLOW_CONTROL_ERROR
        assert client.get("/a.txt").status == 200


def test_body_timeout(site, echo):
    server = site("client_body_timeout 200ms;", "location /p { proxy_pass http://127.0.0.1:%d; }" % echo)
    with H2(server.port) as client:
        stream = client.request("/p", "POST", ends=False)
        assert client.answer(stream).reset == PROTOCOL_ERROR
        assert client.get("/a.txt").status == 200
    server.wait_log("client timed out .* while reading client request body")


# limits and the end of connections

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


# tunnels

def websocket_backend():
    """Accepts an upgrade, then sends back what it gets in capitals. Gives port and the heads it got."""
    listener = socket.create_server(("127.0.0.1", 0))
    heads = []

    def talk(conn):
        with conn:
            got = b""
            while b"\r\n\r\n" not in got:
                got += conn.recv(65536)
            heads.append(got)
            if b"refuse" in got:
                conn.sendall(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno")
                return
            conn.sendall(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: upgrade\r\n"
                         b"Sec-WebSocket-Accept: x\r\n\r\nwelcome")
            while True:
                data = conn.recv(65536)
                if not data:
                    return
                conn.sendall(data.upper())

    def accept():
        while True:
            try:
                conn = listener.accept()[0]
            except OSError:
                return
            threading.Thread(target=talk, args=(conn,), daemon=True).start()
    threading.Thread(target=accept, daemon=True).start()
    return listener, heads


def extended(path, protocol="websocket"):
    return [(":method", "CONNECT"), (":protocol", protocol), (":scheme", "http"), (":path", path),
            (":authority", "localhost")]


def test_websocket(site):
    """Extended CONNECT (RFC 8441)."""
    listener, heads = websocket_backend()
    server = site(server="""location /ws { proxy_pass http://127.0.0.1:%d; proxy_http_version 1.1;
        proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection "upgrade"; }""" % listener.getsockname()[1])
    with H2(server.port) as client:
        assert client.is_alive() and client.settings[8] == 1
        stream = client.request(pseudo=extended("/ws"), headers=[("sec-websocket-version", "13")], ends=False)
        while client.answers.get(stream, h2.Answer()).body != b"welcome":
            client.read()
        answer = client.answers[stream]
        assert answer.status == 200 and "upgrade" not in answer.headers and "connection" not in answer.headers
        assert client.get("/a.txt").body == b"hello\n"
        client.data(stream, b"hello", ends=False)
        while answer.body != b"welcomeHELLO":
            client.read()
        big = b"x" * 40000
        client.data(stream, big, ends=False)
        while len(answer.body) < 12 + len(big):
            client.read()
        client.send(DATA, END_STREAM, stream)
        assert client.answer(stream).is_whole
        assert b"GET /ws HTTP/1.1" in heads[0] and b"sec-websocket-key: " in heads[0].lower()
        stream = client.request(pseudo=extended("/ws/refuse"), ends=False)
        assert client.answer(stream).status == 403
        assert client.answer(client.request(pseudo=extended("/a.txt"), ends=False)).status == 501
        assert client.answer(client.request(pseudo=extended("/ws", "foo"), ends=False)).status == 501
    listener.close()


def test_connect(serve):
    listener, _ = websocket_backend()
    server = serve("http2 on; server { listen 127.0.0.1:@PORT@; location / { tunnel_pass; } }")
    with H2(server.port) as client:
        target = "127.0.0.1:%d" % listener.getsockname()[1]
        stream = client.request(pseudo=[(":method", "CONNECT"), (":authority", target)], ends=False)
        while not client.answers.get(stream, h2.Answer()).heads:
            client.read()
        assert client.answers[stream].status == 200
        client.data(stream, b"GET / HTTP/1.1\r\n\r\n", ends=False)
        while not client.answers[stream].body.endswith(b"welcome"):
            client.read()
        client.send(RST_STREAM, 0, stream, struct.pack("!I", CANCEL))
        assert client.is_alive()
    listener.close()


# other people's clients

def test_curl_and_nghttp(site):
    server = site()
    url = "http://127.0.0.1:%d/big" % server.port
    for command in (["curl", "-sS", "--http2-prior-knowledge", url], ["nghttp", "--no-dep", url]):
        got = subprocess.run(command, stdout=subprocess.PIPE, timeout=30, check=True)
        assert got.stdout == BIG


def test_h2load(site):
    server = site("keepalive_requests 100000;")
    got = subprocess.run(["h2load", "-n", "3000", "-c", "3", "-m", "50", "http://127.0.0.1:%d/a.txt" % server.port],
                         stdout=subprocess.PIPE, timeout=30, check=True).stdout
    assert b"3000 succeeded, 0 failed" in got


# the configuration

def test_rows(serve, tmp_path):
    from harness import run_binary
    for text, words in (
            ("http2_streams_index_size 33;", "must be a power of two"),
            ("http2_body_preread_size 4g;", "invalid value|the maximum body preread buffer size is"),
            ("http2 maybe;", "invalid value"),
            ("http2_recv_timeout 3s;", "obsolete|deprecated"),
            ("http2_push /x;", "obsolete"),
            ("server { listen 127.0.0.1:1 http2; }", 'the "listen ... http2" directive is deprecated')):
        conf = tmp_path / "n.conf"
        conf.write_text("pid %s/x; error_log stderr; events {} http { %s }" % (tmp_path, text))
        got = run_binary("-t", "-p", str(tmp_path), "-c", str(conf))
        import re
        assert re.search(words, got.stderr), got.stderr


def test_listen_parameter(serve):
    server = serve("server { listen 127.0.0.1:@PORT@ http2; return 200 $http2; }")
    with H2(server.port) as client:
        assert client.get("/").body == b"h2c"
    assert server.get("/").text == ""
