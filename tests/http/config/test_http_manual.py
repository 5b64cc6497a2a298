"""Examples of the manual at work: blocks of docs/*.md as they stand there, but for addresses and folders."""

import os
import re

import pytest

import fastcgi_backends
from fastcgi_backends import TOP

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nAccept-Ranges: bytes\r\nLast-Modified: Mon, 28 Sep 1970 06:00:00 GMT\r\n\r\nok"


def example(page, mark, **places):
    """The first block of the page that holds the mark; places: what stands there, and what is to stand there."""
    with open(os.path.join(TOP, "docs", page + ".md"), encoding="utf-8") as file:
        blocks = re.findall(r"^```nginx\n(.*?)^```$", file.read(), re.S | re.M)
    text = next(block for block in blocks if mark in block)
    text = re.sub(r"\blisten \d+;", "listen 127.0.0.1:@PORT@;", text)
    text = text.replace("/var/cache/nginx/", "@DIR@/cache-")
    for before, after in places.get("replace", ()):
        assert before in text
        text = text.replace(before, after)
    return text


def serve_php(serve, text):
    """The files that lie beside nginx.conf are there."""
    files = {}
    for name in ("fastcgi.conf", "fastcgi_params"):
        with open(os.path.join(TOP, "conf", name), encoding="utf-8") as file:
            files[name] = file.read()
    return serve(text, files=files)


def proxied(backend, page, mark, *more):
    return example(page, mark, replace=[("127.0.0.1:3000", "127.0.0.1:%d" % backend.port), *more])


# ---- fastcgi.md

@pytest.fixture(name="php", scope="module")
def _php():
    backend = fastcgi_backends.Fpm({
        "index.php": "<?php echo 'index ', $_SERVER['PATH_INFO'] ?? '-', ' ', $_SERVER['QUERY_STRING'], ' ', "
                     "$_SERVER['SCRIPT_NAME'];",
        "news/page.php": "<?php echo 'page ', $_SERVER['PATH_INFO'] ?? '-', ' ', $_SERVER['HTTP_X_A'] ?? '-';",
        "plain.txt": "text\n",
    })
    yield backend
    backend.close()


def php_site(php, mark):
    return example("fastcgi", mark, replace=[("unix:/run/php/php8.2-fpm.sock", "unix:" + php.address)])


def test_a_php_site_in_ten_lines(serve, php):
    text = php_site(php, "try_files $uri $uri/ /index.php").replace("/srv/www", php.root)
    assert len(text.strip().split("\n")) == 10
    server = serve_php(serve, text)
    with server.client() as client:
        assert client.request("/plain.txt").text == "text\n"
        assert client.request("/").text == "index -  /index.php"
        assert client.request("/no/such?a=b").text == "index - a=b /index.php"
        assert client.request("/news/page.php", "X-A: b").text == "page - b"
        assert client.request("/missing.php").status == 404
        assert client.request("/plain.txt/x.php").status == 404


def test_path_info(serve, php):
    server = serve_php(serve, "server { listen 127.0.0.1:@PORT@; root %s; %s }"
                       % (php.root, php_site(php, "fastcgi_split_path_info")))
    with server.client() as client:
        assert client.request("/index.php/a/b?q").text == "index /a/b q /index.php"
        assert client.request("/news/page.php").text == "page  -"
        assert client.request("/news/page.php/1", "X-A: b").text == "page /1 b"
        assert client.request("/missing.php/1").status == 404


# ---- proxying.md

def test_websocket(serve, backend):
    def answer(conn, request):
        is_asked = b"\r\nUpgrade: websocket\r\n" in request and b"\r\nConnection: upgrade\r\n" in request
        conn.sendall(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n"
                     + (b"hello" if is_asked else b"what"))
    back = backend([answer], [OK])
    server = serve(proxied(back, "proxying", "$connection_upgrade"))
    with server.client() as client:
        client.send("GET /ws HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n")
        client.socket.settimeout(10)
        got = b""
        while not got.endswith((b"hello", b"what")):
            got += client.socket.recv(100)
        assert got.startswith(b"HTTP/1.1 101 ") and got.endswith(b"hello")
    assert server.get("/ws").text == "ok"
    assert b"Connection:" not in back.requests[1] and b"Upgrade:" not in back.requests[1]


def test_the_first_example(serve, backend):
    back = backend([OK, OK])
    server = serve(proxied(back, "proxying", "server_name example.org;"))
    for _ in range(2):
        assert server.get("/a%20b?c").status == 200
    assert back.connections == 1
    request = back.requests[0].decode()
    assert request.startswith("GET /a%20b?c HTTP/1.1\r\n")
    assert "\r\nX-Forwarded-For: 127.0.0.1\r\nX-Forwarded-Proto: http\r\n" in request


# ---- load-balancing.md

def test_sticky_cookie(serve, backend):
    servers = [backend(*[[b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n%d" % n] * 9]) for n in range(2)]
    server = serve(example("load-balancing", "sticky cookie", replace=[
        ("10.0.0.1%d:8080" % (n + 1), "127.0.0.1:%d" % servers[n].port) for n in range(2)]))
    with server.client() as client:
        first = client.request("/")
        cookie = first.header("Set-Cookie").split(";")[0]
        assert cookie == "srv=" + "ab"[int(first.text)]
        assert {client.request("/", "Cookie: " + cookie).text for _ in range(5)} == {first.text}
        assert {client.request("/").text for _ in range(4)} == {"0", "1"}


# ---- caching.md

def test_the_cache(serve, backend):
    back = backend([OK] * 9)
    server = serve(proxied(back, "caching", "proxy_cache_background_update"))
    with server.client() as client:
        assert [client.request("/a").header("X-Cache") for _ in range(2)] == ["MISS", "HIT"]
        assert client.request("/b").header("X-Cache") == "MISS"
        assert client.request("/a", "If-Modified-Since: Mon, 28 Sep 1970 06:00:00 GMT").status == 304
        assert client.request("/a", "Range: bytes=1-").text == "k"
    assert len(back.requests) == 2


@pytest.mark.parametrize("mark, method, uri, status", [
    ("map $request_method $purges", "PURGE", "/a", 204), ("PURGE from 127.0.0.1", "PURGE", "/a", 200),
    ("proxy_cache_purge site $1", "GET", "/purge/a", 200)], ids=["predicate", "method", "place"])
def test_purging(serve, backend, mark, method, uri, status):
    keep = OK.replace(b"\r\n\r\n", b"\r\nCache-Control: max-age=1000\r\n\r\n")
    back = backend([keep] * 9)
    server = serve(proxied(back, "caching", mark))
    with server.client() as client:
        for known in (1, 1, 2):
            if known == 2:
                assert client.request(uri, method=method).status == status
                assert client.request(uri, method=method).status == 404
            assert client.request("/a").text == "ok"
            assert len(back.requests) == known


def test_slices(serve, backend):
    content = bytes(range(256)) * 8192 + b"end"

    def part(conn, request):
        first, last = map(int, re.search(rb"\r\nRange: bytes=(\d+)-(\d+)\r\n", request).groups())
        last = min(last, len(content) - 1)
        conn.sendall(b"HTTP/1.1 206 Partial Content\r\nContent-Range: bytes %d-%d/%d\r\nContent-Length: %d\r\n\r\n"
                     % (first, last, len(content), last - first + 1) + content[first:last + 1])
    back = backend([part] * 9)
    server = serve(proxied(back, "caching", "slice 1m"))
    with server.client() as client:
        response = client.request("/video/a", "Range: bytes=2097150-")
        assert response.status == 206 and response.body == content[2097150:]
        assert len(back.requests) == 2
        assert client.request("/video/a").body == content
        assert len(back.requests) == 3


def test_storing(serve, backend):
    back = backend([OK] * 9)
    server = serve(proxied(back, "caching", "proxy_store on", ("/srv/mirror", "@DIR@/mirror")),
                   files={"mirror/here": "here"})
    os.chmod(server.path("mirror"), 0o777)
    with server.client() as client:
        assert client.request("/here").text == "here"
        assert client.request("/a").text == "ok"
        response = client.request("/a")
        assert response.text == "ok" and response.header("Last-Modified") == "Mon, 28 Sep 1970 06:00:00 GMT"
    assert len(back.requests) == 1
    assert os.stat(server.path("mirror/a")).st_mode & 0o777 == 0o644
