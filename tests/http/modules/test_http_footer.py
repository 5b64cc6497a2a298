"""Tengine's footer: a text behind the bodies of responses."""

import gzip

import pytest

from harness.h2 import H2

BIG = b"0123456789abcdef" * 20000
FILES = {"html/a.html": "page\n", "html/a.txt": "text\n", "html/big.html": BIG, "html/empty.html": "", "html/z.html.gz": gzip.compress(b"zipped"),
         "html/page.html": "[<!--#include virtual=\"/a.html\" -->]", "html/dir/index.html": "index"}
CONF = """
    types { text/html html; text/plain txt; }
    footer "<!-- $server_name $arg_x -->";
    server {
        listen 127.0.0.1:@PORT@; http2 on; root html; server_name me;
        location / { }
        location /off/ { alias html/; footer ""; }
        location /text/ { alias html/; footer_types text/plain; footer "F"; }
        location /all/ { alias html/; footer_types *; footer "F"; }
        location /after/ { alias html/; footer "[$sent_http_content_type $uri]"; location /after/in/ { alias html/; } }
        location /read/ { alias html/; sendfile off; }
        location /ssi/ { alias html/; ssi on; footer "<!--#echo var=\\"uri\\" -->"; }
        location /sub/ { alias html/; sub_filter page leaf; sub_filter_once off; footer " a page"; }
        location /zip/ { alias html/; gzip on; gzip_min_length 1; gzip_types text/html; }
        location /static/ { alias html/; gzip_static on; }
        location /204 { return 204; }
        location /301 { return 301 /x; }
        location /200 { default_type text/html; return 200 "said"; }
        location /proxied/ { proxy_pass http://127.0.0.1:@PORT@/off/; }
        location /chunked/ { add_trailer X-T t; proxy_pass http://127.0.0.1:@PORT@/off/ssi/; }
        location /off/ssi/ { alias html/; footer ""; ssi on; }
        location /none { root none; error_page 404 /off/a.html; }
        location /if { default_type text/html; if ($arg_x) { return 200 "if"; } return 200 "no if"; }
    }"""


@pytest.fixture
def site(serve):
    return serve(CONF, files=FILES)


FOOT = "<!-- me  -->"


@pytest.mark.one_server
@pytest.mark.parametrize("target, text", [
    ("/a.html", "page\n" + FOOT), ("/a.html?x=1", "page\n<!-- me 1 -->"), ("/a.txt", "text\n"), ("/off/a.html", "page\n"), ("/empty.html", FOOT),
    ("/text/a.txt", "text\nF"), ("/text/a.html", "page\nF"), ("/all/a.txt", "text\nF"), ("/after/a.html", "page\n[text/html /after/a.html]"),
    ("/after/in/a.html", "page\n[text/html /after/in/a.html]"), ("/read/a.html", "page\n" + FOOT), ("/ssi/a.html", "page\n/ssi/a.html"),
    ("/sub/a.html", "leaf\n a leaf"), ("/200", "said" + FOOT), ("/proxied/a.html", "page\n" + FOOT), ("/dir/", "index" + FOOT),
    ("/none", "page\n"), ("/if?x=1", "if<!-- me 1 -->"), ("/if", "no if" + FOOT)])
def test_what_it_comes_to(site, target, text):
    response = site.get(target)
    assert response.text == text
    assert response.header("Accept-Ranges") is None or text in ("text\n", "page\n")


def test_length_grows(site):
    assert site.get("/a.html").header("Content-Length") == str(5 + len(FOOT))
    assert site.get("/a.html", method="HEAD").header("Content-Length") == str(5 + len(FOOT))
    assert site.get("/a.html").header("ETag").startswith("W/")


def test_no_ranges(site):
    response = site.get("/a.html", "Range: bytes=0-1")
    assert (response.status, response.text) == (200, "page\n" + FOOT)


def test_answers_without_body(site):
    with site.client() as client:
        assert client.request("/204").body == b""
        modified = client.request("/a.html").header("Last-Modified")
        assert client.request("/a.html", "If-Modified-Since: " + modified).status == 304
        assert client.request("/a.html", method="HEAD").body == b""
        assert client.request("/a.html").text == "page\n" + FOOT


@pytest.mark.parametrize("place", ["", "/read", "/proxied", "/chunked"])
def test_large_bodies(site, place):
    assert site.get(place + "/big.html").body == BIG + FOOT.encode()


def test_redirects_and_errors_get_it_too(site):
    assert site.get("/301").text.endswith("</html>\r\n" + FOOT)
    assert site.get("/nothing.html").text.endswith("</html>\r\n" + FOOT)


def test_gzip_comes_after(site):
    response = site.get("/zip/a.html", "Accept-Encoding: gzip")
    assert gzip.decompress(response.body).decode() == "page\n" + FOOT


def test_what_was_encoded_before_is_left_alone(site):
    response = site.get("/static/z.html", "Accept-Encoding: gzip")
    assert response.header("Content-Encoding") == "gzip"
    assert gzip.decompress(response.body) == b"zipped"


def test_parts_of_a_page_get_none(site):
    assert site.get("/ssi/page.html").text == "[page\n]/ssi/page.html"


def test_chunked_keeps_its_trailers(site):
    with site.client() as client:
        response = client.request("/chunked/a.html")
        assert response.text == "page\n" + FOOT and response.header("Transfer-Encoding") == "chunked"
        assert client.request("/a.html").text == "page\n" + FOOT


def test_http10(site):
    with site.client() as client:
        response = client.request("/chunked/a.html", version="1.0")
        assert response.text == "page\n" + FOOT


def test_http2(site):
    with H2(site.port) as client:
        for target in ("/a.html", "/chunked/a.html", "/200"):
            answer = client.get(target)
            assert answer.body.decode().endswith(FOOT)
        assert client.get("/204").body == b""
