"""flv with files that change, larger ones and HTTP/2. What a place comes to is in tests/oracle/tables/streaming.py."""

import pytest

from harness.h2 import H2

HEADER = b"FLV\1\5\0\0\0\x09\0\0\0\0"
SMALL, BIG = HEADER + bytes(range(250)), HEADER + b"0123456789abcdef" * 30000
CONF = """
    types { video/x-flv flv; }
    server {
        listen 127.0.0.1:@PORT@; http2 on; root html; flv_here
        location / { flv; }
        location /direct/ { alias html/; flv; directio 512; }
        location /cached/ { alias html/; flv; open_file_cache max=10; }
        location /aio/ { alias html/; flv; aio threads; sendfile off; }
        location /limited/ { alias html/; flv; limit_except GET { deny all; } }
    }""".replace(" flv_here", "")


@pytest.fixture
def site(serve):
    return serve(CONF, files={"html/a.flv": SMALL, "html/b.flv": BIG, "html/dir/x": "x"})


@pytest.mark.one_server
@pytest.mark.parametrize("place", ["", "/direct", "/cached", "/aio"])
@pytest.mark.parametrize("start", [1, 13, 100, 262, 5000, 479999])
def test_from_a_place_on(site, place, start):
    for name, data in (("a", SMALL), ("b", BIG)):
        for _ in range(2):
            response = site.get("%s/%s.flv?start=%d" % (place, name, start))
            expected = HEADER + data[start:] if start < len(data) else data
            assert response.body == expected
            assert response.header("Content-Length") == str(len(expected)) and response.header("Content-Type") == "video/x-flv"


def test_ranges_over_header_and_file(site):
    whole = HEADER + BIG[100000:]
    for first, last in ((0, 5), (5, 20), (12, 13), (13, 13), (200000, 300000), (len(whole) - 1, len(whole) - 1)):
        response = site.get("/b.flv?start=100000", "Range: bytes=%d-%d" % (first, last))
        assert response.status == 206 and response.body == whole[first:last + 1]


def test_each_start_has_its_own_tag(site):
    tags = {site.get("/a.flv?start=%d" % start).header("ETag") for start in (0, 5, 100, 200)}
    assert len(tags) == 4
    tag = site.get("/a.flv?start=100").header("ETag")
    assert site.get("/a.flv?start=100", "If-None-Match: " + tag).status == 304
    assert site.get("/a.flv?start=101", "If-None-Match: " + tag).status == 200
    assert site.get("/a.flv?start=100", "If-Range: " + tag, "Range: bytes=0-2").body == b"FLV"


def test_head_and_keepalive(site):
    with site.client() as client:
        for _ in range(2):
            assert client.request("/a.flv?start=100", method="HEAD").header("Content-Length") == str(len(HEADER) + len(SMALL) - 100)
            assert client.request("/a.flv?start=100").body == HEADER + SMALL[100:]
            assert client.request("/none.flv").status == 404
            assert client.request("/dir").status == 301


def test_http2(site):
    with H2(site.port) as client:
        assert client.get("/a.flv?start=100").body == HEADER + SMALL[100:]
        assert client.get("/a.flv?start=100", headers=[("range", "bytes=10-15")]).body == (HEADER + SMALL[100:])[10:16]


def test_file_that_becomes_shorter(site):
    assert site.get("/a.flv?start=200").body == HEADER + SMALL[200:]
    site.write("html/a.flv", SMALL[:50], mtime=None)
    assert site.get("/a.flv?start=200").body == SMALL[:50]


def test_client_that_leaves(site):
    with site.client() as client:
        client.send("GET /b.flv?start=10 HTTP/1.1\r\nHost: a\r\n\r\n")
        client.recv(100)
    assert site.get("/a.flv?start=100").status == 200


def test_limit_except(site):
    assert site.get("/limited/a.flv?start=100").body == HEADER + SMALL[100:]
    assert site.get("/limited/a.flv", method="POST").status == 403


def test_long_arguments(site):
    for start in ("0" * 5000, "9" * 5000, "%31", "1e2", "+5", "0x10"):
        assert site.get("/a.flv?start=" + start).body == SMALL
