"""HTTP/2 on plain sockets by prior knowledge: requests, heads, bodies of responses, windows."""

import re
import socket
import struct

import hpack
import pytest

from h2_site import BIG, _site  # noqa: F401
from harness import h2, run_binary
from harness.h2 import CANCEL, END_HEADERS, END_STREAM, H2, HEADERS, RST_STREAM

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


@pytest.mark.parametrize("fields, is_taken", [
    ([("cookie", "a" * 13107)], True), ([("cookie", "a" * 13108)], False),
    ([("x-foo", "~" * 5041)], True), ([("x-foo", "~" * 5042)], False),
    ([("x" * 9362, "a" * 9362)], True), ([("x" * 9363, "a")], False),
    ([("x-%d" % i, "a" * 1000) for i in range(32)], True), ([("x-%d" % i, "a" * 1000) for i in range(40)], False)])
def test_names_and_values_count_as_they_were_sent(site, fields, is_taken):
    """Each may have as many coded bytes as a buffer of large_client_header_buffers, 8192; all together as many as there are in clear."""
    with H2(site().port) as client:
        never_indexed = [hpack.NeverIndexedHeaderTuple(*field) for field in fields]
        assert client.get("/a.txt", headers=never_indexed).status == (200 if is_taken else 400)


def test_too_large_heads(site):
    server = site(server="large_client_header_buffers 2 1k; client_header_buffer_size 1k; max_headers 20;")
    with H2(server.port) as client:
        assert client.get("/a.txt", headers=[("x", "y" * 1200)]).status == 400
        assert client.get("/a.txt", headers=[("x%d" % i, "y" * 500) for i in range(7)]).status == 400
        assert client.get("/a.txt", headers=[("x", "y")] * 21).status == 400
        assert client.get("/a.txt", headers=[("x", "y")] * 20).status == 200    # pseudo-fields do not count
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


def test_what_is_left_of_a_chunk_is_no_frame_of_its_own(site):
    """The first window ends a byte before a chunk does: that byte goes with what follows it."""
    server = site("""proxy_cache_path cache keys_zone=one:1m; log_format uri $uri;
        server { listen 127.0.0.1:@PORT1@; root html; access_log logs/back.log uri; }""",
                  """location /proxied/ { proxy_pass http://127.0.0.1:@PORT1@/; }
                     location /cached/ { proxy_pass http://127.0.0.1:@PORT1@/; proxy_cache one; proxy_cache_valid 1h; }""",
                  files={"html/file": b"x" * (65536 + 80)})
    asked_behind = 0
    for path in ("/file", "/proxied/file", "/cached/file", "/cached/file"):
        with H2(server.port) as client:
            stream = client.request(path)
            while sum(client.answers.get(stream, h2.Answer()).frames) < 65535:
                client.read()
            if "ed/" in path and asked_behind < 2:
                asked_behind += 1
                server.wait_lines("logs/back.log", asked_behind)  # all of it is on its way
            assert client.is_alive() and client.is_alive()
            client.window(1000, stream)
            client.window(1000)
            frames = client.answer(stream).frames
            assert sum(frames) == 65536 + 80 and 81 in frames, path


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


# the configuration

def test_rows(tmp_path):
    for text, words in (
            ("http2_streams_index_size 33;", "must be a power of two"),
            ("http2_body_preread_size 4g;", "invalid value|the maximum body preread buffer size is"),
            ("http2 maybe;", "invalid value"),
            ("http2_push /x;", r'the "http2_push" directive is obsolete'),
            ("http2_push_preload on;", r'the "http2_push_preload" directive is obsolete'),
            ("http2_max_concurrent_pushes 3;", r'the "http2_max_concurrent_pushes" directive is obsolete'),
            ("http2_recv_timeout 3s;", 'obsolete, use the "client_header_timeout" directive instead in'),
            ("http2_idle_timeout 3s;", 'obsolete, use the "keepalive_timeout" directive instead in'),
            ("http2_max_requests 3;", 'obsolete, use the "keepalive_requests" directive instead in'),
            ("http2_max_field_size 3k;", 'obsolete, use the "large_client_header_buffers" directive instead in'),
            ("http2_max_header_size 3k;", 'obsolete, use the "large_client_header_buffers" directive instead in'),
            ("server { listen 127.0.0.1:1 http2; }", 'the "listen ... http2" directive is deprecated')):
        conf = tmp_path / "n.conf"
        conf.write_text("pid %s/x; error_log stderr; events {} http { access_log off; %s }" % (tmp_path, text))
        got = run_binary("-t", "-p", str(tmp_path), "-c", str(conf))
        assert re.search(words, got.stderr), got.stderr
        assert got.stderr.count("[warn]") + got.stderr.count("[emerg]") == 1, got.stderr


def test_listen_parameter(serve):
    server = serve("server { listen 127.0.0.1:@PORT@ http2; return 200 $http2; }")
    with H2(server.port) as client:
        assert client.get("/").body == b"h2c"
    assert server.get("/").text == ""
