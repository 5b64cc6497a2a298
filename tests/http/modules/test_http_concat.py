"""Tengine's concat: /dir/??a.css,b.css."""

import email.utils
import gzip
import os

import pytest

from harness.h2 import H2
from harness.server import run_binary

BIG = bytes(range(256)) * 4000
FILES = {"html/a.css": "a{}\n", "html/b.css": "b{}\n", "html/sub/c.css": "c{}", "html/empty.css": "", "html/x.js": "x;", "html/y.txt": "plain",
         "html/big.css": BIG, "html/dir.css/z": "", "html/a b,c.css": "odd", "html/index.html": "the index", "html/none": "no extension",
         "html/a..b.css": "dots"}
CONF = """
    types { text/css css; application/javascript js; text/plain txt; text/html html; }
    log_format sizes '$status $body_bytes_sent'; access_log logs/sizes.log sizes;
    server {
        listen 127.0.0.1:@PORT@; http2 on; root html;
        location / { concat on; }
        location /off/ { alias html/; }
        location /alias/ { alias html/; concat on; }
        location ~ ^/regex/ { alias html/; concat on; }
        location /mixed/ { alias html/; concat on; concat_unique off; }
        location /text/ { alias html/; concat on; concat_types text/plain; concat_unique off; }
        location /all/ { alias html/; concat on; concat_types *; concat_unique off; }
        location /two/ { alias html/; concat on; concat_max_files 2;
            location /two/off/ { alias html/; concat off; } }
        location /lines/ { alias html/; concat on; concat_delimiter "\\n"; concat_max_files 100; }
        location /lax/ { alias html/; concat on; concat_ignore_file_error on; concat_delimiter "|"; }
        location /zipped/ { alias html/; concat on; gzip on; gzip_types text/css; gzip_min_length 1; }
        location /read/ { alias html/; concat on; sendfile off; }
        location /direct/ { alias html/; concat on; directio 512; }
        location /cached/ { alias html/; concat on; open_file_cache max=10; }
        location /page { ssi on; ssi_types *; }
        location /error/ { alias html/; concat on; error_page 400 404 /error.txt; }
        location = /error.txt { return 200 "sorry\\n"; }
    }"""
FILES["html/page"] = "[<!--#include virtual=\"/??a.css,b.css\" -->]"


@pytest.fixture
def site(serve):
    return serve(CONF, files=FILES)


def test_two_files(site):
    response = site.get("/??a.css,b.css")
    assert (response.status, response.text) == (200, "a{}\nb{}\n")
    assert response.header("Content-Length") == "8" and response.header("Content-Type") == "text/css"
    assert response.header("ETag") is None and response.header("Accept-Ranges") is None


@pytest.mark.one_server
@pytest.mark.parametrize("target, text", [
    ("/??a.css", "a{}\n"), ("/??a.css,sub/c.css", "a{}\nc{}"), ("/sub/??c.css", "c{}"), ("/alias/??sub/c.css,a.css", "c{}a{}\n"),
    ("/regex/??a.css,b.css", "a{}\nb{}\n"), ("/??a.css?v=1,b.css?v=3", "a{}\nb{}\n"), ("/??a.css,b.css?v=1", "a{}\nb{}\n"),
    ("/??,a.css,,b.css,", "a{}\nb{}\n"), ("/??a%20b%2Cc.css", "odd"), ("/??/a.css", "a{}\n"), ("/??a..b.css", "dots"), ("/??./a.css", "a{}\n"),
    ("/mixed/??a.css,x.js", "a{}\nx;"), ("/text/??y.txt,x.js", "plainx;"), ("/all/??y.txt,none,a.css", "plainno extensiona{}\n"),
    ("/lines/??a.css,b.css", "a{}\n\nb{}\n"), ("/lines/??a.css", "a{}\n"), ("/lines/??a.css,empty.css,b.css", "a{}\n\nb{}\n"),
    ("/lines/??empty.css,a.css", "a{}\n"), ("/??empty.css", ""), ("/??empty.css,empty.css", ""),
    ("/lax/??a.css,nothing.css,b.css", "a{}\n|b{}\n"), ("/lax/??nothing.css", ""), ("/lax/??dir.css,a.css", "a{}\n"),
    ("/cached/??a.css,a.css,b.css", "a{}\na{}\nb{}\n")])
def test_what_is_served(site, target, text):
    for _ in range(2):
        response = site.get(target)
        assert (response.status, response.text) == (200, text)
        assert response.header("Content-Length") == str(len(text))


@pytest.mark.one_server
@pytest.mark.parametrize("target, status", [
    ("/??a.css,x.js", 400), ("/??y.txt", 400), ("/text/??y.txt,a.css", 400), ("/two/??a.css,b.css,a.css", 400), ("/??../html/a.css", 400),
    ("/sub/??../a.css", 400), ("/??a.css,..", 400), ("/??%2e%2e/a.css", 400), ("/??a.css%00.txt", 400), ("/???v", 400), ("/??,", 400), ("/??,,,", 400), ("/??nothing.css", 404),
    ("/??a.css,nothing.css", 404), ("/??dir.css", 404), ("/lax/??a.css,..", 400), ("/lax/??y.txt", 400), ("/nodir/??a.css", 404),
    ("/??" + "a.css," * 11, 400)])
def test_what_is_refused(site, target, status):
    assert site.get(target).status == status
    assert site.get("/??a.css").status == 200


def test_what_it_leaves_to_others(site):
    assert site.get("/??").text == "the index"
    assert site.get("/?a.css").text == "the index"
    assert site.get("/").text == "the index"
    assert site.get("/off/??a.css").text == "the index"
    assert site.get("/two/off/??a.css").text == "the index"
    assert site.get("/a.css??b.css").text == "a{}\n"
    assert site.get("/??a.css", method="POST").status == 405


def test_type_is_the_last_one_and_date_the_newest(site):
    os.utime(site.path("html/a.css"), (1700000000, 1700000000))
    os.utime(site.path("html/x.js"), (1600000000, 1600000000))
    response = site.get("/mixed/??a.css,x.js")
    assert response.header("Content-Type") == "application/javascript"
    newest = email.utils.formatdate(1700000000, usegmt=True)
    assert response.header("Last-Modified") == newest
    assert site.get("/mixed/??a.css,x.js", "If-Modified-Since: " + newest).status == 304


def test_ranges_are_not_served(site):
    response = site.get("/??a.css,b.css", "Range: bytes=0-1")
    assert (response.status, response.text) == (200, "a{}\nb{}\n")


def test_head_and_keepalive(site):
    with site.client() as client:
        assert client.request("/??a.css,b.css", method="HEAD").header("Content-Length") == "8"
        assert client.request("/??a.css,b.css", version="1.0", host="a", close=False).text == "a{}\nb{}\n"
    with site.client() as client:
        for target, status in (("/??a.css,b.css", 200), ("/??nothing.css", 404), ("/??b.css", 200), ("/??y.txt", 400)):
            assert client.request(target).status == status


@pytest.mark.one_server
@pytest.mark.parametrize("place", ["", "/read", "/direct", "/lines"])
def test_large_and_small_together(site, place):
    delimiter = b"\n" if place == "/lines" else b""
    body = site.get(place + "/??a.css,big.css,b.css,big.css,sub/c.css").body
    assert body == delimiter.join((b"a{}\n", BIG, b"b{}\n", BIG, b"c{}"))


def test_files_that_change(site):
    for n in range(5):
        site.write("html/a.css", "new %d;" % n, mtime=None)
        assert site.get("/??a.css,b.css").text == "new %d;b{}\n" % n


def test_gzip(site):
    response = site.get("/zipped/??a.css,big.css", "Accept-Encoding: gzip")
    assert response.header("Content-Encoding") == "gzip"
    assert gzip.decompress(response.body) == b"a{}\n" + BIG


def test_http2(site):
    with H2(site.port) as client:
        assert client.get("/??a.css,sub/c.css,b.css").body == b"a{}\nc{}b{}\n"
        assert client.get("/??nothing.css").status == 404


def test_part_of_a_page(site):
    assert site.get("/page").text == "[a{}\nb{}\n]"


def test_error_page(site):
    assert site.get("/error/??a.css,nothing.css").text == "sorry\n"
    assert site.get("/error/??y.txt").text == "sorry\n"


def test_log_says_why(site):
    site.get("/??a.css,x.js")
    site.wait_log('concat: another type than the files before it: "x.js"')


def test_client_that_leaves_half_way(site):
    for _ in range(3):
        with site.client() as client:
            client.send("GET /lines/??%s HTTP/1.1\r\nHost: a\r\n\r\n" % ("big.css," * 90))
            client.recv(1000)
    assert site.get("/??a.css").text == "a{}\n"


@pytest.mark.parametrize("line, message", [
    ("concat yes;", 'invalid value "yes"'), ("concat on; concat on;", '"concat" directive is duplicate'), ("concat_max_files x;", "invalid number"),
    ("concat_types;", "invalid number of arguments")])
def test_wrong_lines(tmp_path, line, message):
    path = tmp_path / "nginx.conf"
    path.write_text("events {} http { server { location / { %s } } }" % line)
    done = run_binary("-t", "-p", str(tmp_path), "-c", str(path), "-e", "stderr")
    assert done.returncode == 1 and message in done.stderr
