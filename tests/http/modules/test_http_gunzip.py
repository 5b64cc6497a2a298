"""gunzip: clear text of compressed answers, of files and of backends; what is broken, and what expands too much."""

import gzip
import random
import threading

import pytest

from harness.h2 import H2

TEXT = b"".join(b"%d line of text\n" % (i * 7919 % 100003) for i in range(4000))
GZIP = "Accept-Encoding: gzip"
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Encoding: gzip\r\n"


def packed(data):
    return gzip.compress(data, mtime=0)


def chunked(data, size=1000):
    return b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in
                    (data[at:at + size] for at in range(0, len(data), size))) + b"0\r\n\r\n"


def answer(body, extra=b""):
    return HEAD + extra + b"Content-Length: %d\r\n\r\n" % len(body) + body


def site(port, settings="", more=""):
    return """
        types { text/html html; } gunzip on; proxy_cache_path cache keys_zone=one:1m; %s
        server { listen 127.0.0.1:@PORT@; root html; location / { proxy_pass http://127.0.0.1:%d; %s } %s }
    """ % ("", port, settings, more)


@pytest.mark.parametrize("settings", ["", "proxy_buffering off;", "gunzip_buffers 1 512;", "proxy_cache one;",
                                      "gunzip_buffers 100 64k;", "proxy_buffer_size 1k; proxy_buffers 4 1k;"])
def test_bodies_of_a_backend(serve, backend, settings):
    body = packed(TEXT)
    back = backend([answer(body), HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + chunked(body)])
    server = serve(site(back.port, settings))
    for _ in range(3):
        response = server.get("/")
        assert response.body == TEXT and response.header("Content-Encoding") is None
        assert response.header("Content-Length") is None and response.header("Accept-Ranges") is None


@pytest.mark.parametrize("size", [1, 2, 17, 4096])
def test_bodies_in_small_pieces(serve, backend, size):
    body = packed(TEXT[:5000]) + packed(b"second member")
    back = backend([HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + chunked(body, size)])
    server = serve(site(back.port, "proxy_buffering off;"))
    assert server.get("/").body == TEXT[:5000] + b"second member"


def test_clients_that_take_gzip_get_it(serve, backend):
    body = packed(TEXT)
    back = backend([answer(body, b'ETag: "x"\r\n')])
    server = serve(site(back.port, "gzip_vary on;"))
    first, second = server.get("/", GZIP), server.get("/")
    assert first.body == body and first.header("ETag") == '"x"'
    assert first.header("Content-Length") == str(len(body))
    assert second.body == TEXT and second.header("ETag") == 'W/"x"'
    assert first.all("Vary") == second.all("Vary") == ["Accept-Encoding"]


def test_what_is_stored_is_the_compressed_body(serve, backend):
    """One entry of the cache serves both kinds of clients."""
    body = packed(TEXT)
    back = backend([answer(body, b"Cache-Control: max-age=60\r\n")])
    server = serve(site(back.port, "proxy_cache one;"))
    for _ in range(2):
        assert server.get("/").body == TEXT
        assert server.get("/", GZIP).body == body
    assert len(back.requests) == 1


@pytest.mark.parametrize("body", [
    packed(TEXT)[:-4], packed(TEXT)[:1000], b"", b"no gzip at all", packed(TEXT) + b"garbage",
    packed(TEXT)[:2000] + b"\xff" * 500 + packed(TEXT)[2500:]],
    ids=["no trailer", "half", "empty", "text", "tail", "wrong inside"])
@pytest.mark.parametrize("framing", ["length", "chunked"])
def test_what_is_broken_is_never_ended(serve, backend, body, framing):
    """The client must not take a part for the whole."""
    back = backend([answer(body) if framing == "length" else
                    HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + (chunked(body) if body else b"0\r\n\r\n")])
    server = serve(site(back.port))
    with server.client() as client:
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        assert not client.rest_or_reset().endswith(b"0\r\n\r\n")
    server.wait_log(r"\[error\] .*inflate\(\) (failed|returned -?[05] on response end)")
    assert server.get("/", GZIP).body == body


def test_a_backend_that_ends_too_early(serve, backend):
    body = packed(TEXT)
    back = backend([HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body[:len(body) // 2]])
    server = serve(site(back.port))
    with server.client() as client:
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        assert not client.rest_or_reset().endswith(b"0\r\n\r\n")
    server.wait_log("prematurely closed")


def test_a_bomb_is_broken_off(serve, backend):
    """A thousand times its size: beyond a megabyte the ratio counts. Others are served, and it is counted."""
    bomb = packed(b"\0" * 30000000)
    back = backend([answer(bomb)])
    server = serve(site(back.port, "", """
        location /free/ { gunzip_max_ratio 0; proxy_pass http://127.0.0.1:%d; }
        location /status { return 200 $limits_reached; }""" % back.port))
    with server.client() as client:
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        got = client.rest_or_reset()
        assert 500000 < len(got) < 3000000
    server.wait_log("response expands more than gunzip_max_ratio allows")
    assert server.get("/status").text == "1"
    assert len(server.get("/free/").body) == 30000000
    assert server.get("/", GZIP).body == bomb


def test_text_that_repeats_is_no_bomb(serve, backend):
    """Below a megabyte nothing is, and what the ratio allows is none either."""
    words = random.Random(1)
    page = b"".join(b"<tr><td>%d</td><td class='wide'></td></tr>\n" % words.randrange(100) for _ in range(50000))
    back = backend([answer(packed(b" " * 1000000)), answer(packed(page))])
    server = serve(site(back.port))
    assert server.get("/").body == b" " * 1000000
    assert server.get("/").body == page


@pytest.mark.parametrize("status, field", [(b"206 Partial Content", b"Content-Range: bytes 0-9/100\r\n"),
                                           (b"200 OK", b"Cache-Control: no-transform\r\n"),
                                           (b"200 OK", b"X-Replaced: br\r\n")])
def test_left_alone(serve, backend, status, field):
    """Parts of a body, what may not be changed, and what has another coding, too."""
    body = packed(TEXT)
    head = answer(body, field).split(b"\r\n", 1)[1].replace(b"gzip\r\nX-Replaced: br", b"gzip, br")
    back = backend([b"HTTP/1.1 " + status + b"\r\n" + head])
    server = serve(site(back.port))
    assert server.get("/").body == body


@pytest.mark.parametrize("method, length", [("HEAD", 5000), ("GET", 0)])
def test_answers_without_a_body(serve, backend, method, length):
    status = b"HTTP/1.1 200 OK" if method == "HEAD" else b"HTTP/1.1 304 Not Modified"
    back = backend([status + HEAD.split(b"\r\n", 1)[1].join([b"\r\n", b""])
                    + b'ETag: "x"\r\nContent-Length: %d\r\n\r\n' % length])
    server = serve(site(back.port))
    with server.client() as client:
        response = client.request("/", method=method)
        assert response.body == b""
        if method == "HEAD":
            assert response.header("Content-Encoding") is None and response.header("Content-Length") is None
        else:
            assert response.status == 304


def test_into_pages_of_ssi(serve, backend):
    """A subrequest's answer is unpacked whoever the client is; the page is compressed as one."""
    back = backend([answer(packed(b"included"))])
    server = serve(site(back.port, "", """
        location /page/ { ssi on; gzip on; gzip_min_length 0; alias html/; }"""),
        files={"html/a.html": 'one <!--#include virtual="/x" --> two'})
    assert server.get("/page/a.html").body == b"one included two"
    response = server.get("/page/a.html", GZIP)
    assert response.all("Content-Encoding") == ["gzip"]
    assert gzip.decompress(response.body) == b"one included two"


@pytest.mark.parametrize("filters, text", [
    ("sub_filter_once off; sub_filter line word;", TEXT.replace(b"line", b"word")),
    ("add_after_body /more/;", TEXT + b"more"), ("charset koi8-r; source_charset utf-8;", TEXT)])
def test_filters_behind_it_see_clear_text(serve, backend, filters, text):
    back = backend([answer(packed(TEXT))])
    server = serve("charset_map koi8-r utf-8 { C0 D18E; }" + site(back.port, filters, """
        location /more/ { return 200 more; }"""))
    assert server.get("/").body == text


def test_other_codings_for_those_that_take_them(serve, backend):
    """The client takes brotli, the backend has gzip: both ways in one answer."""
    brotli = pytest.importorskip("brotli")
    back = backend([answer(packed(TEXT))])
    server = serve(site(back.port, "brotli on; gzip_vary on;"))
    response = server.get("/", "Accept-Encoding: br")
    assert response.all("Content-Encoding") == ["br"] and response.all("Vary") == ["Accept-Encoding"]
    assert brotli.decompress(response.body) == TEXT


def test_what_came_so_far_goes_on(serve, backend):
    """Without buffering, a backend that pauses does not keep its beginning back."""
    asked = threading.Event()
    body = packed(TEXT)

    def slowly(conn, request):
        conn.sendall(HEAD + b"\r\n" + body[:len(body) // 2])
        assert asked.wait(10)
        conn.sendall(body[len(body) // 2:])

    back = backend([slowly])
    server = serve(site(back.port, "proxy_buffering off;"))
    with server.client() as client:
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        client.head()
        assert client.recv(1)
        asked.set()
        assert client.recv(1)


def test_over_http2(serve, backend):
    """Broken bodies end the stream with an error, not as if they were whole."""
    back = backend([answer(packed(TEXT[:20000])), answer(packed(TEXT[:20000])[:-1])])
    server = serve("http2 on;" + site(back.port))
    with H2(server.port) as h2:
        response = h2.get("/")
        assert response.body == TEXT[:20000] and "content-encoding" not in response.headers
        stream = h2.request("/")
        assert h2.answer(stream).reset is not None
    server.wait_log("on response end")


def test_a_reload_under_way(serve):
    server = serve("types { text/html html; } gunzip on; gzip_static always; server { listen 127.0.0.1:@PORT@; root html; }",
                   files={"html/a.html.gz": packed(TEXT)})
    assert server.get("/a.html").body == TEXT
    server.reload()
    assert server.get("/a.html").body == TEXT
