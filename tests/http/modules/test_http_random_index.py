"""random_index where there is a choice. What it leaves out is in tests/oracle/tables/choosing.py."""

import os

import pytest

from harness.h2 import H2

CONF = """
    log_format uris '$request_uri $uri'; access_log logs/uris.log uris;
    server {
        listen 127.0.0.1:@PORT@; http2 on; root html; default_type text/plain;
        location / { random_index on; }
        location /cached/ { random_index on; open_file_cache max=10; }
        location /page { ssi on; ssi_types *; }
        location /limited/ { random_index on; limit_except GET { deny all; } }
        location /gone/ { random_index on; error_page 403 = @none; }
        location @none { return 200 "nothing there\\n"; }
        location /loop/ { random_index on; rewrite ^(.*/)x$ $1 last; }
    }"""
FILES = {"html/dir/%d" % n: "file %d" % n for n in range(4)}
FILES.update({"html/dir/.hidden": "hidden", "html/dir/sub/x": "below", "html/page": "<!--#include virtual=\"/dir/\" -->", "html/gone": None,
              "html/cached/a": "a", "html/cached/b": "b", "html/limited/a": "a", "html/loop/x": "x"})
TEXTS = {"file %d" % n for n in range(4)}


@pytest.fixture
def site(serve):
    return serve(CONF, files=FILES)


def test_each_file_is_chosen_and_nothing_else(site):
    seen = {}
    with site.client() as client:
        for _ in range(400):
            text = client.request("/dir/").text
            seen[text] = seen.get(text, 0) + 1
    assert set(seen) == TEXTS
    # 100 are expected of each; the chance of so many or few is one in a billion.
    assert all(40 < count < 165 for count in seen.values())


def test_file_is_its_own_type_and_length(serve):
    server = serve(CONF, files={"html/dir/a.gif": b"GIF89a" + b"x" * 20000})
    response = server.get("/dir/")
    assert response.header("Content-Length") == "20006"
    assert response.header("ETag") and response.header("Accept-Ranges") == "bytes"


def test_log_tells_which(site):
    site.get("/dir/?a=b")
    line, = site.wait_lines("logs/uris.log", 1)
    assert line.split()[0] == "/dir/?a=b" and line.split()[1] in {"/dir/%d" % n for n in range(4)}


def test_http2(site):
    with H2(site.port) as client:
        assert client.get("/dir/").body.decode() in TEXTS
        assert client.get("/gone/").body == b"nothing there\n"


def test_part_of_a_page(site):
    assert site.get("/page").text in TEXTS


def test_files_that_come_and_go(site):
    for n in range(3):
        os.unlink(site.path("html/dir/%d" % n))
    assert {site.get("/dir/").text for _ in range(10)} == {"file 3"}
    os.unlink(site.path("html/dir/3"))
    assert site.get("/dir/").status == 403
    site.write("html/dir/new", "new one")
    assert site.get("/dir/").text == "new one"


def test_open_file_cache(site):
    assert {site.get("/cached/").text for _ in range(60)} == {"a", "b"}


def test_nothing_there_has_an_error_page(site):
    assert site.get("/gone/").text == "nothing there\n"


def test_limit_except_holds(site):
    assert site.get("/limited/").text == "a"
    assert site.get("/limited/", method="POST").status == 403


def test_a_loop_ends(site):
    assert site.get("/loop/").status == 500
    site.wait_log("rewrite or internal redirection cycle")


def test_name_as_long_as_names_can_be(serve):
    name = "n" * 255
    server = serve(CONF, files={"html/dir/" + name: "long"})
    assert server.get("/dir/").text == "long"


def test_large_directory_takes_no_memory(serve):
    server = serve(CONF.replace("root html;", "root html; request_memory_limit 128k;"), files={"html/dir/%0200d" % n: "" for n in range(5000)})
    assert server.get("/dir/").status == 200
