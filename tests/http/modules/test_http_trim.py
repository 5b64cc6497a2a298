"""Tengine's trim: pages without white space and comments. What is trimmed how is in test_trim.c."""

import gzip
import shutil
import subprocess

import pytest

from harness.h2 import H2

PAGE = """<!DOCTYPE   html>
<html>\t\t<!-- gone -->


<head><script>\n  var a = 1; // gone\n  b  = 2;\n</script>
<style type="text/css">\n p  { color:  red }\n</style>
<body>   <pre>  kept  \n\n </pre>   text   text
</html>
"""
HTML = """<!DOCTYPE html>
<html> 
<head><script>\n  var a = 1; // gone\n  b  = 2;\n</script>
<style type="text/css">\n p  { color:  red }\n</style>
<body> <pre>  kept  \n\n </pre> text text
</html>
"""
ALL = """<!DOCTYPE html>
<html> 
<head><script>var a =1;b =2;</script>
<style type="text/css">p{color:red}</style>
<body> <pre>  kept  \n\n </pre> text text
</html>
"""
BIG = "<p>  a  </p><!-- b -->\n\n\n" * 20000
FILES = {"html/a.html": PAGE, "html/a.txt": "a   b", "html/big.html": BIG, "html/empty.html": "", "html/blank.html": "<!-- x -->",
         "html/z.html.gz": gzip.compress(PAGE.encode()), "html/part.html": "x    y<!-- -->",
         "html/ssi.html": "<p>   <!--#include virtual=\"/part.html\" -->   <!-- gone -->   </p>"}
CONF = """
    types { text/html html; text/plain txt; }
    log_format sizes '$trim_original_bytes $trim_bytes'; access_log logs/sizes.log sizes;
    trim on; trim_js off;
    server {
        listen 127.0.0.1:@PORT@; http2 on; root html;
        location / { }
        location /off/ { alias html/; trim off; location /off/on/ { trim on; alias html/; } }
        location /all/ { alias html/; trim_js on; trim_css on; }
        location /asked/ { alias html/; trim $arg_trim; trim_css $arg_css; }
        location /text/ { alias html/; trim_types text/plain; }
        location /ssi/ { alias html/; ssi on; }
        location /ssi.html { ssi on; }
        location /zip/ { alias html/; gzip on; gzip_min_length 1; gzip_types text/html; }
        location /static/ { alias html/; gzip_static on; }
        location /footed/ { alias html/; footer "<!-- f  f -->"; }
        location /sub/ { alias html/; sub_filter "text text" "word"; }
        location /proxied/ { proxy_pass http://127.0.0.1:@PORT@/off/; proxy_buffering off; }
        location /said { default_type text/html; return 200 "a   b"; }
        location /none { root none; error_page 404 =200 /a.html; }
    }"""


@pytest.fixture
def site(serve):
    return serve(CONF, files=FILES)


@pytest.mark.one_server
@pytest.mark.parametrize("target, text", [
    ("/a.html", HTML), ("/a.txt", "a   b"), ("/off/a.html", PAGE), ("/off/on/a.html", HTML), ("/all/a.html", ALL), ("/text/a.txt", "a b"),
    ("/a.html?http_trim=off", PAGE), ("/a.html?x&http_trim=off&y", PAGE), ("/a.html?http_trim=on", HTML), ("/a.html?xhttp_trim=off", HTML),
    ("/asked/a.html?trim=on", HTML), ("/asked/a.html?trim=off", PAGE), ("/asked/a.html", PAGE), ("/empty.html", ""), ("/blank.html", ""),
    ("/ssi.html", "<p> x y </p>"), ("/footed/a.html", HTML + "<!-- f  f -->"), ("/sub/a.html", HTML.replace("text text", "word")),
    ("/proxied/a.html", HTML), ("/said", "a b"), ("/none", HTML)])
def test_what_it_comes_to(site, target, text):
    response = site.get(target)
    assert (response.status, response.text) == (200, text)


def test_lengths_ranges_and_validators(site):
    response = site.get("/a.html", "Range: bytes=0-3")
    assert response.status == 200 and response.header("Content-Length") is None and response.header("Accept-Ranges") is None
    assert response.header("ETag").startswith("W/")
    assert site.get("/a.html", "If-None-Match: " + response.header("ETag")).status == 304
    assert site.get("/off/a.html", "Range: bytes=0-3").status == 206


def test_head_and_keepalive(site):
    with site.client() as client:
        for _ in range(2):
            assert client.request("/a.html", method="HEAD").header("Content-Length") is None
            assert client.request("/a.html").text == HTML
            assert client.request("/blank.html").text == ""


def test_http10(site):
    with site.client() as client:
        assert client.request("/a.html", version="1.0").text == HTML


@pytest.mark.parametrize("place", ["", "/proxied", "/all"])
def test_large(site, place):
    assert site.get(place + "/big.html").text == "<p> a </p>\n" * 20000


def test_bytes_in_the_log(site):
    site.get("/a.html")
    site.get("/a.txt")
    site.get("/big.html")
    assert site.wait_lines("logs/sizes.log", 3) == ["%d %d" % (len(PAGE), len(HTML)), "- -", "%d %d" % (len(BIG), 20000 * 11)]


def test_gzip_comes_after(site):
    response = site.get("/zip/a.html", "Accept-Encoding: gzip")
    assert gzip.decompress(response.body).decode() == HTML


def test_what_was_encoded_before_is_left_alone(site):
    response = site.get("/static/z.html", "Accept-Encoding: gzip")
    assert gzip.decompress(response.body).decode() == PAGE


def test_errors_are_not_trimmed(site):
    assert "\r\n" in site.get("/nothing.html").text


def test_http2(site):
    with H2(site.port) as client:
        assert client.get("/a.html").body.decode() == HTML
        assert client.get("/blank.html").body == b""


def test_unfinished_things(serve):
    for text in ("<", "<!", "<!-", "<!--", "<!--[if", "<a href='", "<script>'", "<script>/", "<pre", "</", "<style>/*", "<script>/[", "\\" * 100):
        server = serve(CONF, files={"html/a.html": text})
        assert server.get("/all/a.html").status == 200


@pytest.mark.skipif(shutil.which("node") is None, reason="no node")
def test_scripts_do_the_same(site):
    code = "var s = '';\nfor (var i = 0; i < 3; i++) {\n  s += i / 1 // a\n}\nvar r = /a  [/] b/.test('a  / b')\nconsole.log(s, r)\n"
    site.write("html/code.html", "<script>%s</script>" % code)
    trimmed = site.get("/all/code.html").text[8:-9]
    outputs = [subprocess.run(["node", "-e", text], stdout=subprocess.PIPE, timeout=60, check=True).stdout for text in (code, trimmed)]
    assert outputs[0] == outputs[1]
