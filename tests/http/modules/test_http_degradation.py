"""degradation: what is answered when a worker takes more memory than is named. Debian's nginx is built without it."""

import gzip

import pytest

from harness.h2 import H2
from harness.server import run_binary
from harness.workers import wait_workers

CONF = """
    degradation sbrk=%s;
    server {
        listen 127.0.0.1:@PORT@; http2 on; root html; gzip on; gzip_min_length 1; gzip_types text/plain; default_type text/plain;
        location / { return 200 "served\\n"; }
        location /204 { degrade 204; return 200 "served\\n"; location /204/off { degrade off; } root html; }
        location /444 { degrade 444; root html; error_page 404 =200 /; }
        location /file { degrade 204; }
        location /if { degrade 204; if ($arg_x) { set $a 1; } }
        location /posted { degrade 204; proxy_pass http://127.0.0.1:@PORT@/; }
        location /zipped { gzip_disable degradation; root html; }
        location /zipped/agent { gzip_disable degradation odd; root html; }
        location /page { ssi on; ssi_types *; }
        error_page 404 /;
    }"""
FILES = {"html/file": "a file", "html/444": "a file", "html/zipped/a": "text " * 100, "html/zipped/agent/a": "text " * 100,
         "html/page": "<!--#include virtual=\"/file\" -->", "html/if": "x", "html/204/off": "x"}


@pytest.fixture
def low(serve):
    """Any worker takes more than that."""
    return serve(CONF % "1k", files=FILES)


@pytest.fixture
def high(serve):
    return serve(CONF % "64000m", files=FILES)


def test_nothing_happens_below(high):
    assert high.get("/file").text == "a file"
    assert high.get("/444").text == "a file"
    assert "degraded" not in high.read("error.log")


def test_204(low):
    response = low.get("/file")
    assert (response.status, response.body, response.header("Content-Type")) == (204, b"", None)
    assert low.get("/").text == "served\n"
    assert low.get("/204/off").status == 200
    assert low.get("/if?x=1").status == 204


def test_return_comes_before(low):
    """rewrite is asked before the phase in which this stands, as in nginx."""
    assert low.get("/204").text == "served\n"


def test_444_closes(low):
    with low.client() as client:
        client.send("GET /444 HTTP/1.1\r\nHost: a\r\n\r\n")
        client.expect_closed()


def test_log_tells_once(low):
    for _ in range(5):
        low.get("/file")
    lines = [line for line in low.lines("error.log") if "degraded" in line]
    assert len(lines) == 1 and "degraded: the worker takes" in lines[0] and "the limit is 1024" in lines[0]


def test_keepalive_head_and_bodies(low):
    with low.client() as client:
        for method, body in (("GET", None), ("HEAD", None), ("POST", b"x" * 5000), ("GET", None)):
            assert client.request("/posted", method=method, body=body).status == 204


def test_http2(low):
    with H2(low.port) as client:
        assert client.get("/file").status == 204
        assert client.get("/").body == b"served\n"


def test_parts_of_a_page_are_served(low):
    assert low.get("/page").text == "a file"


def test_gzip_disable(low, high):
    for server, coding in ((low, None), (high, "gzip")):
        response = server.get("/zipped/a", "Accept-Encoding: gzip")
        assert response.header("Content-Encoding") == coding
        assert (gzip.decompress(response.body) if coding else response.body) == b"text " * 100
        assert server.get("/zipped/agent/a", "Accept-Encoding: gzip", "User-Agent: odd").header("Content-Encoding") is None


def test_zero_is_no_limit(serve):
    server = serve(CONF % "0", files=FILES)
    assert server.get("/file").status == 200


def test_reload_changes_the_limit(high):
    old = high.children()
    assert high.get("/file").status == 200
    high.configure(CONF % "1k")
    high.reload()
    wait_workers(high, 1, without=old)
    assert high.get("/file").status == 204


@pytest.mark.parametrize("lines, message", [
    ("degradation 10m;", 'invalid parameter "10m"'), ("degradation sbrk=x;", 'invalid sbrk size "sbrk=x"'),
    ("degradation sbrk=;", 'invalid sbrk size "sbrk="'), ("degradation;", "invalid number of arguments"),
    ("degrade 200;", 'invalid value "200"'), ("degrade 204; degrade 444;", '"degrade" directive is duplicate'),
    ("server { degradation sbrk=1m; }", '"degradation" directive is not allowed here')])
def test_wrong_lines(tmp_path, lines, message):
    path = tmp_path / "nginx.conf"
    path.write_text("events {} http { %s }" % lines)
    done = run_binary("-t", "-p", str(tmp_path), "-c", str(path), "-e", "stderr")
    assert done.returncode == 1 and message in done.stderr
