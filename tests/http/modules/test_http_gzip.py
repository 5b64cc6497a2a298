"""gzip: bodies of every size and kind unpack to what they were; flushes, aborts, configurations."""

import gzip
import random
import re
import subprocess
import threading
import zlib

import pytest

from harness import binaries

ACCEPT = "Accept-Encoding: gzip"


def text(size):
    """Text that compresses as text does."""
    words = random.Random(size)
    out = []
    length = 0
    while length < size:
        word = "%x " % words.randrange(5000)
        out.append(word)
        length += len(word)
    return "".join(out)[:size].encode()


def noise(size):
    return random.Random(size).randbytes(size)


SITE = """
    types { text/html html; } default_type text/html; gzip on; gzip_min_length 0; %s
    server { listen 127.0.0.1:@PORT@; root html; %s }
"""


def unpacked(response):
    assert response.header("Content-Encoding") == "gzip", response
    assert response.header("Content-Length") is None
    return gzip.decompress(response.body)


SIZES = [1, 100, 511, 512, 4095, 4096, 4097, 32768, 65536, 100000, 1000003]


@pytest.mark.parametrize("settings", [
    "", "sendfile on;", "aio threads;", "gzip_comp_level 9;", "gzip_window 512; gzip_hash 512;",
    "gzip_buffers 1 512;", "gzip_buffers 100 64k;", "postpone_gzipping 10k;", "gzip_no_buffer on;",
    "output_buffers 1 512;", "limit_rate 100m;", "gzip_comp_level 6;", "gzip_comp_level 6; gzip_buffers 1 512;",
    "gzip_comp_level 6; output_buffers 1 512;", "gzip_comp_level 6; gzip_window 512;",
    "gzip_comp_level 6; gzip_no_buffer on;", "gzip_comp_level 6; postpone_gzipping 10k;"])
def test_bodies_unpack(serve, settings):
    """Of each size, on one connection: compressors are used again."""
    files = {"html/t%d.html" % size: text(size) for size in SIZES}
    files.update({"html/n%d.html" % size: noise(size) for size in SIZES})
    server = serve(SITE % (settings, ""), files=files)
    with server.client() as client:
        for size in SIZES:
            for kind, make in (("t", text), ("n", noise)):
                response = client.request("/%s%d.html" % (kind, size), ACCEPT)
                assert unpacked(response) == make(size), (kind, size)


def test_old_clients_see_the_end_of_the_connection(serve):
    server = serve(SITE % ("gzip_http_version 1.0;", ""), files={"html/a.html": text(100000)})
    with server.client() as client:
        response = client.request("/a.html", ACCEPT, version="1.0")
        assert response.framing == "close" and unpacked(response) == text(100000)


def test_many_at_once(serve):
    """More responses side by side than compressors are kept for."""
    body = text(300000)
    server = serve(SITE % ("", ""), files={"html/a.html": body})
    clients = [server.client() for _ in range(20)]
    for client in clients:
        client.send("GET /a.html HTTP/1.1\r\nHost: a\r\n%s\r\n\r\n" % ACCEPT)
    for client in reversed(clients):
        assert unpacked(client.response()) == body
        client.socket.close()


def test_client_leaves_in_the_middle(serve):
    """Its compressor serves the next one."""
    body = noise(4000000)
    server = serve(SITE.replace("@PORT@", "@PORT@ sndbuf=16k") % ("", ""),
                   files={"html/a.html": body, "html/b.html": text(50000)})
    for _ in range(12):
        with server.client(rcvbuf=8192) as client:
            client.send("GET /a.html HTTP/1.1\r\nHost: a\r\n%s\r\n\r\n" % ACCEPT)
            client.head()
            client.reset()
    assert unpacked(server.get("/b.html", ACCEPT)) == text(50000)


def test_error_page_after_a_response_was_described(serve):
    """The page is compressed, and nothing else of it is."""
    server = serve(SITE % ("", "location /x { return 404; error_page 404 /e.html; }"),
                   files={"html/e.html": text(5000)})
    response = server.get("/x", ACCEPT)
    assert response.status == 404 and unpacked(response) == text(5000)


def test_conditions_and_weak_tags(serve):
    """The weak tag of a compressed answer finds the file unchanged; ranges are not served."""
    server = serve(SITE % ("", ""), files={"html/a.html": text(5000)})
    first = server.get("/a.html", ACCEPT)
    tag = first.header("ETag")
    assert tag.startswith('W/"') and first.header("Accept-Ranges") is None
    again = server.get("/a.html", ACCEPT, "If-None-Match: " + tag)
    assert again.status == 304 and again.body == b""
    assert server.get("/a.html", ACCEPT, "Range: bytes=0-9").status == 200


def test_clear_etag(serve):
    server = serve(SITE % ("gzip_clear_etag on;", ""), files={"html/a.html": text(5000)})
    response = server.get("/a.html", ACCEPT)
    assert response.header("ETag") is None and response.header("Last-Modified") is not None
    assert server.get("/a.html").header("ETag") is not None


# ---- backends ----

def proxied(port, settings=""):
    return SITE % ("", "location /p/ { proxy_pass http://127.0.0.1:%d; %s }" % (port, settings))


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\n"


@pytest.mark.parametrize("buffering", ["on", "off"])
def test_body_of_a_backend(serve, backend, buffering):
    """Of known length, and in chunks."""
    body = text(700000)
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in
                      (body[at:at + 5000] for at in range(0, len(body), 5000)))
    back = backend([HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body,
                    HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + chunks + b"0\r\n\r\n"])
    server = serve(proxied(back.port, "proxy_buffering %s;" % buffering))
    for _ in range(2):
        response = server.get("/p/", ACCEPT)
        assert unpacked(response) == body
        assert response.header("Content-Type") == "text/html; charset=utf-8"


def test_what_came_so_far_can_be_unpacked(serve, backend):
    """Without buffering, a backend that pauses does not keep its beginning back."""
    asked = threading.Event()

    def slowly(conn, request):
        conn.sendall(HEAD + b"\r\nfirst part,")
        assert asked.wait(10)
        conn.sendall(b" second part")

    back = backend([slowly])
    server = serve(proxied(back.port, "proxy_buffering off;"))
    with server.client() as client:
        client.send("GET /p/ HTTP/1.1\r\nHost: a\r\n%s\r\n\r\n" % ACCEPT)
        head = client.head()
        assert head.header("Content-Encoding") == "gzip"
        unpacker = zlib.decompressobj(31)
        got = b""
        while got != b"first part,":
            got += unpacker.decompress(chunk(client))
        asked.set()
        for part in iter(lambda: chunk(client), b""):
            got += unpacker.decompress(part)
        assert got == b"first part, second part" and unpacker.eof


def take(client, count):
    data = b""
    while len(data) < count:
        more = client.recv(count - len(data))
        assert more, "the connection ended after %r" % data
        data += more
    return data


def chunk(client):
    """The data of the next chunk."""
    line = b""
    while not line.endswith(b"\r\n"):
        line += take(client, 1)
    return take(client, int(line, 16) + 2)[:-2]


def test_broken_body_is_not_ended(serve, backend):
    """A backend that dies in the middle: the client must not take it for the whole."""
    back = backend([HEAD + b"Content-Length: 100000\r\n\r\n" + text(50000)])
    server = serve(proxied(back.port), allow=["upstream"])
    with server.client() as client:
        client.send("GET /p/ HTTP/1.1\r\nHost: a\r\n%s\r\n\r\n" % ACCEPT)
        head = client.head()
        assert head.header("Transfer-Encoding") == "chunked"
        assert not client.rest_or_reset().endswith(b"0\r\n\r\n")


def test_cached_answer_is_compressed_for_each_client(serve, backend):
    """What is stored is the backend's own."""
    body = text(20000)
    back = backend([HEAD + b"Content-Length: %d\r\nCache-Control: max-age=60\r\n\r\n" % len(body)
                    + body])
    server = serve("proxy_cache_path cache keys_zone=one:1m;"
                   + proxied(back.port, "proxy_cache one;"))
    for _ in range(2):
        assert unpacked(server.get("/p/", ACCEPT)) == body
        assert server.get("/p/").body == body
    assert len(back.requests) == 1


# ---- configurations ----

def check(tmp_path, directives):
    (tmp_path / "logs").mkdir()
    conf = tmp_path / "nginx.conf"
    conf.write_text("error_log stderr;\nevents { }\nhttp {\naccess_log off;\n%s\n"
                    "server { listen 127.0.0.1:1; }\n}\n" % directives)
    got = subprocess.run([binaries.under_test(), "-t", "-p", str(tmp_path), "-c", str(conf)],
                         capture_output=True, text=True, check=False)
    return re.sub(r" in \S+:(\d+)", r" in line \1", re.sub(r"\d+#\d+: ", "", got.stderr))


@pytest.mark.parametrize("directive, message", [
    ("gzip_comp_level 10;", "value must be between 1 and 9"),
    ("gzip_comp_level 0;", "value must be between 1 and 9"),
    ("gzip_window 1000;",
     '"gzip_window" directive must be 512, 1k, 2k, 4k, 8k, 16k, or 32k'),
    ("gzip_hash 256k;",
     '"gzip_hash" directive must be 512, 1k, 2k, 4k, 8k, 16k, 32k, 64k, or 128k'),
    ("gzip_http_version 1.2;", 'invalid value "1.2"'),
    ("gzip_proxied foo;", 'invalid value "foo"'),
    ("gzip_min_length x;", '"gzip_min_length" directive invalid value'),
    ('gzip_disable "(";', 'pcre2_compile() failed: missing closing parenthesis in "("'),
])
def test_refused(tmp_path, directive, message):
    assert "[emerg] %s in line 5" % message in check(tmp_path, directive)


def test_warned(tmp_path):
    told = check(tmp_path, "gzip_types text/html a/b a/B;\ngzip_types a/b c/d;")
    assert '[warn] duplicate MIME type "text/html" in line 5' in told
    assert told.count('[warn] duplicate MIME type "a/b"') == 2
    assert "test is successful" in told


def test_types_of_a_level_replace_those_above(serve):
    server = serve("""
        types { text/html html; a/b b; c/d d; } gzip on; gzip_min_length 0; gzip_types a/b;
        server { listen 127.0.0.1:@PORT@; root html;
                 location /own/ { gzip_types c/d; alias html/; } }
    """, files={"html/x.html": "x", "html/x.b": "x", "html/x.d": "x"})

    def packed(target):
        return server.get(target, ACCEPT).header("Content-Encoding") == "gzip"
    assert [packed("/x." + end) for end in ("html", "b", "d")] == [True, True, False]
    assert [packed("/own/x." + end) for end in ("html", "b", "d")] == [True, False, True]


def test_reload_keeps_serving(serve):
    server = serve(SITE % ("", ""), files={"html/a.html": text(50000)})
    with server.client() as client:
        assert unpacked(client.request("/a.html", ACCEPT)) == text(50000)
        server.configure(SITE % ("gzip_comp_level 9; gzip_buffers 4 1k;", ""))
        server.reload()
        assert unpacked(server.get("/a.html", ACCEPT)) == text(50000)
