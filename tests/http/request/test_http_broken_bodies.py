"""A body filter that fails in the middle of a response: nothing of it follows, and no client or cache takes a part for the whole."""

import gzip

import pytest

from harness import Closed, Server
from harness.h2 import H2

FAILS = """body_filter_by_lua_block {
    if ngx.arg[1]:find("piece 5", 1, true) then %s end
}"""

HTTP = """
access_log access.log;
log_format end "$uri $status $request_completion";
proxy_cache_path cache keys_zone=one:1m;
types { text/html html; }
server {
    listen 127.0.0.1:@PORT@; http2 on; root html; default_type text/html;
    location = /pieces { content_by_lua_block {
        for i = 1, 10 do
            ngx.print("piece ", i, ";")
            ngx.flush(true)
        end
    } }
    location = /errs { %(errs)s content_by_lua_block {
        for i = 1, 10 do
            local ok, why = ngx.print("piece ", i, ";")
            if not ok then ngx.log(ngx.WARN, "piece ", i, ": ", why) end
            ngx.flush(true)
        end
    } }
    location = /says { %(says)s content_by_lua_block {
        for i = 1, 10 do ngx.print("piece ", i, ";") ngx.flush(true) end
    } }
    location = /coded { %(errs)s gzip on; gzip_min_length 0; proxy_pass http://127.0.0.1:@PORT@/pieces; proxy_buffering off; }
    location = /buffered { %(errs)s proxy_pass http://127.0.0.1:@PORT@/pieces; proxy_http_version 1.1; }
    location = /file { %(errs)s alias html/ten.html; }
    location = /ssi { ssi on; alias html/ssi.html; }
    location = /before { add_before_body /errs; alias html/short.html; }
    location = /after { add_after_body /errs; alias html/short.html; }
    location = /echo { echo a; echo_location /errs; echo b; }
    location = /capture { content_by_lua_block {
        local got = ngx.location.capture("/errs")
        ngx.say("got ", got.status, #got.body)
    } }
    location = /endless { body_filter_by_lua_block { ngx.arg[2] = false } content_by_lua_block { ngx.print("all of it") } }
    location = /captured { content_by_lua_block {
        local got = ngx.location.capture("/endless")
        ngx.say(got.body, ", truncated: ", got.truncated)
    } }
    location /cached/ {
        proxy_cache one; proxy_cache_valid any 1h; add_header X-Cache $upstream_cache_status;
        location /cached/1.0/ { proxy_pass http://127.0.0.1:@PORT@/; proxy_http_version 1.0; }
        location /cached/1.1/ { proxy_pass http://127.0.0.1:@PORT@/; proxy_http_version 1.1; }
    }
}
""" % {"errs": FAILS % "error('on purpose')", "says": FAILS % "return ngx.ERROR"}

FILES = {"html/ten.html": "".join("piece %d;" % i for i in range(1, 11)), "html/short.html": "<short>",
         "html/ssi.html": "<begin><!--#include virtual='/errs' --><!--#echo var='uri' --><end>"}

PATHS = ["/errs", "/says", "/coded", "/buffered", "/file", "/ssi", "/before", "/after", "/echo", "/capture"]


@pytest.fixture(scope="module")
def site():
    with Server(HTTP, files=FILES) as server:
        yield server


@pytest.mark.parametrize("path", PATHS)
def test_chunks_do_not_end(site, path):
    with site.client() as client:
        client.send("GET %s HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\n\r\n" % path)
        got = client.rest_or_reset()
    assert b"piece 5" not in got and b"piece 6" not in got and b"got" not in got
    assert not got.endswith(b"\r\n0\r\n\r\n") and b"<end>" not in got


@pytest.mark.parametrize("path", ["/errs", "/buffered", "/ssi", "/after", "/echo"])
def test_a_body_that_ends_with_the_connection_is_reset(site, path):
    """The content script of /errs gathers for HTTP/1.0; its answer has a length."""
    with site.client() as client:
        client.send("GET %s HTTP/1.0\r\nHost: a\r\n\r\n" % path)
        try:
            got = client.rest()
        except Closed as closed:
            assert closed.reset
        else:
            head, _, body = got.partition(b"\r\n\r\n")
            assert body == b"" and (head == b"" or b"Content-Length" in head), got


@pytest.mark.parametrize("path", PATHS)
def test_streams_are_reset(site, path):
    with H2(site.port) as h2:
        answer = h2.get(path)
        assert not answer.is_whole and answer.reset is not None
        assert b"piece 6" not in answer.body
        assert h2.get("/pieces").is_whole


@pytest.mark.parametrize("path", ["errs", "file", "ssi", "after"])
@pytest.mark.parametrize("version", ["1.0", "1.1"])
def test_a_cache_in_front_stores_nothing(site, path, version):
    for _ in range(2):
        with site.client() as client:
            client.send("GET /cached/%s/%s HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n" % (version, path))
            assert b"HIT" not in client.rest_or_reset()


def test_the_script_learns_it(site):
    with site.client() as client:
        client.send("GET /errs HTTP/1.1\r\nHost: a\r\n\r\n")
        client.rest_or_reset()
    for piece in (5, 6, 10):
        site.wait_log(r"piece %d: nginx output filter error" % piece)


@pytest.mark.parametrize("body, holds", [(gzip.compress(b"clear text " * 300, mtime=0)[:-12], b"clear text"), (b"", b"")])
def test_what_a_cut_gzip_body_holds_is_given(serve, backend, body, holds):
    """… as far as it was right; the end is missing."""
    back = backend([b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(body) + body])
    server = serve("""gunzip on; server { listen 127.0.0.1:@PORT@; http2 on;
                      location / { proxy_pass http://127.0.0.1:%d; } }""" % back.port)
    with server.client() as client:
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        got = client.rest_or_reset()
    assert holds in got and not got.endswith(b"0\r\n\r\n")
    with H2(server.port) as h2:
        answer = h2.get("/")
        assert not answer.is_whole and answer.reset is not None and holds in answer.body
    server.wait_log(r"inflate\(\) returned -5 on response end")


def test_an_end_that_is_taken_away(site):
    """`ngx.arg[2] = false` on the last piece: the response has no end, and scripts that capture it hear of that."""
    assert site.get("/captured").text == "all of it, truncated: true\n"
    with site.client() as client:
        client.send("GET /endless HTTP/1.1\r\nHost: a\r\n\r\n")
        assert not client.rest_or_reset().endswith(b"0\r\n\r\n")
    with H2(site.port) as h2:
        assert not h2.get("/endless").is_whole
