"""Fields of responses that scripts and more_set_headers set: lengths, dates, answers without a body; names of locations without their slash."""

import pytest

from harness import Server
from harness.h2 import H2

DATE = "Tue, 14 Nov 2023 22:13:20 GMT"
SET = {"more": 'more_set_headers -s "200 204 205 404" "%s: %s";', "lua": "header_filter_by_lua_block { ngx.header['%s'] = '%s' }"}

PLACES = "".join("""
    location /%s/length/ { %s
        location /%s/length/text { return 200 "hello"; }
        location /%s/length/script { content_by_lua_block { ngx.print("hel") ngx.print("lo") } }
        location /%s/length/file { try_files /f =404; }
        location /%s/length/back { proxy_pass http://127.0.0.1:@PORT@/text; }
        location /%s/length/none { return 204; }
    }
    location /%s/type/ { %s
        location /%s/type/none { return 204; }
        location /%s/type/script { content_by_lua_block { ngx.exit(204) } }
    }""" % ((how, line % ("Content-Length", "3")) + (how,) * 6 + (line % ("Content-Type", "text/x"),) + (how,) * 2)
                 for how, line in SET.items())

HTTP = """
server {
    listen 127.0.0.1:@PORT@; http2 on; root html;
    location = /text { return 200 "hello"; }
    location = /preflight { more_set_headers "Content-Length: 0" "Content-Type: text/plain"; return 204; }
    location = /long { content_by_lua_block { ngx.header["Content-Length"] = 10 ngx.print("hello") } }
    location = /before { content_by_lua_block { ngx.header["Content-Length"] = 3 ngx.print("abcdef") } }
    location = /dated { content_by_lua_block { ngx.header["Last-Modified"] = "%s" ngx.say("dated") } }
    location = /moved { content_by_lua_block { ngx.header["Last-Modified"] = "%s" ngx.redirect("/dated") } }
    location = /listed { content_by_lua_block {
        ngx.header["Last-Modified"] = "%s"
        ngx.say(ngx.header["Last-Modified"], "|", ngx.resp.get_headers()["Last-Modified"], "|", ngx.var.sent_http_last_modified)
    } }
    location = /tagged { content_by_lua_block { ngx.header["ETag"] = '"x"' ngx.say("tagged") } }
    location = /undated { content_by_lua_block { ngx.header["Last-Modified"] = "yesterday" ngx.say("undated") } }
    %s
    location = /exact/ { proxy_pass http://127.0.0.1:1; add_header X-Place exact always; more_set_headers "X-More: exact"; }
    location /prefix/ { fastcgi_pass 127.0.0.1:1; add_header X-Place prefix always; header_filter_by_lua_block { ngx.header.X_Lua = "prefix" } }
    location ^~ /first/ { proxy_pass http://127.0.0.1:1; }
    location ~ ^/(exact|first) { return 200 "regex"; }
    location = /inner/ { internal; proxy_pass http://127.0.0.1:1; }
    location /both/ { proxy_pass http://127.0.0.1:1; }
    location /both { return 200 "both"; }
}
""" % (DATE, DATE, DATE, PLACES)


@pytest.fixture(scope="module")
def site():
    with Server(HTTP, files={"html/f": "hello"}) as server:
        yield server


@pytest.mark.parametrize("how", SET)
@pytest.mark.parametrize("what", ["text", "script", "file", "back"])
def test_a_length_shortens_the_body(site, how, what):
    """The connection goes on behind it."""
    with site.client() as client:
        for _ in range(2):
            response = client.request("/%s/length/%s" % (how, what))
            assert (response.status, response.header("Content-Length"), response.body) == (200, "3", b"hel")
    with H2(site.port) as h2:
        answer = h2.get("/%s/length/%s" % (how, what))
        assert answer.is_whole and answer.headers["content-length"] == "3" and answer.body == b"hel"


def test_lengths_before_the_head(site):
    with site.client() as client:
        assert client.request("/before").body == b"abc"
        assert client.request("/text").body == b"hello"
    with site.client() as client:
        client.send("GET /long HTTP/1.1\r\nHost: a\r\n\r\n")
        assert client.rest_or_reset().endswith(b"hello")      # the rest of what was announced is not waited for


def head_of(site, path):
    with site.client() as client:
        client.send("GET %s HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n" % path)
        return client.rest()


@pytest.mark.parametrize("how", SET)
def test_no_content_has_a_length_and_no_type(site, how):
    for path in "/%s/type/none" % how, "/%s/type/script" % how:
        head = head_of(site, path)
        assert head.startswith(b"HTTP/1.1 204") and b"Content-Type" not in head
    assert b"\r\nContent-Length: 3\r\n" in head_of(site, "/%s/length/none" % how)


def test_preflight(site):
    """As browsers get it before a request to another origin."""
    head = head_of(site, "/preflight")
    assert head.startswith(b"HTTP/1.1 204") and b"\r\nContent-Length: 0\r\n" in head and b"Content-Type" not in head
    with H2(site.port) as h2:
        answer = h2.get("/preflight")
        assert answer.is_whole and answer.headers["content-length"] == "0" and "content-type" not in answer.headers


@pytest.mark.parametrize("path, field, status", [
    ("/dated", "If-Modified-Since: " + DATE, 304), ("/dated", "If-Modified-Since: Mon, 13 Nov 2023 00:00:00 GMT", 200),
    ("/dated", "If-Unmodified-Since: Mon, 13 Nov 2000 00:00:00 GMT", 412), ("/tagged", 'If-None-Match: "x"', 304),
    ("/tagged", 'If-None-Match: "y"', 200), ("/tagged", 'If-Match: "y"', 412), ("/undated", "If-Modified-Since: yesterday", 200)])
def test_conditions_see_what_scripts_set(site, path, field, status):
    response = site.get(path, field)
    assert response.status == status
    if path != "/tagged" and status != 412:
        assert response.header("Last-Modified") == (DATE if path == "/dated" else "yesterday")


def test_scripts_see_the_date_that_they_set(site):
    response = site.get("/listed")
    assert response.text == "|".join([DATE] * 3) + "\n" and response.all("Last-Modified") == [DATE]
    response = site.get("/moved")
    assert response.status == 302 and response.header("Last-Modified") is None


@pytest.mark.parametrize("path, fields", [("/exact", {"X-Place": "exact", "X-More": "exact"}),
                                          ("/prefix", {"X-Place": "prefix", "X-Lua": "prefix"}), ("/first", {})])
def test_names_without_their_slash(site, path, fields):
    """… are answered by the location with it, whatever expressions match."""
    response = site.get(path + "?a=b")
    assert response.status == 301 and response.header("Location") == "http://localhost:%d%s/?a=b" % (site.port, path)
    assert {name: response.header(name) for name in fields} == fields


def test_names_without_their_slash_that_mean_others(site):
    assert site.get("/both").text == "both"
    assert site.get("/inner").status == 404
