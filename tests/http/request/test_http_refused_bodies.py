"""Request bodies that are refused while they are read: the error_page of the place answers, and one line is logged."""

import pytest

from harness import Server
from harness.h2 import H2

HTTP = """
client_max_body_size 10;
server {
    listen 127.0.0.1:@PORT@; http2 on; root html;
    error_page 413 /large; error_page 400 /bad;
    location = /large { return 200 "too large, $request_method"; }
    location = /bad { return 200 "bad, $request_method"; }
    location = /backend { return 200 "backend"; }
    location /proxy { proxy_pass http://127.0.0.1:@PORT@/backend; }
    location /stream { proxy_request_buffering off; proxy_pass http://127.0.0.1:@PORT@/backend; }
    location /lua { content_by_lua_block { ngx.req.read_body() ngx.say("read") } }
    location /echo { echo_read_request_body; echo read; }
    location /dav { dav_methods PUT; root dav; }
    location /equal { error_page 413 =200 /large; error_page 400 =202 /bad; proxy_pass http://127.0.0.1:@PORT@/backend; }
    location /named { error_page 400 413 = @named; proxy_pass http://127.0.0.1:@PORT@/backend; }
    location @named { return 201 "named"; }
    location /away { error_page 400 413 =307 http://a/x; proxy_pass http://127.0.0.1:@PORT@/backend; }
    location /passed { error_page 400 413 /passes; proxy_pass http://127.0.0.1:@PORT@/backend; }
    location = /passes { proxy_pass http://127.0.0.1:@PORT@/backend; }
}
"""

LARGE, BAD = (413, "too large, GET"), (400, "bad, GET")
PLACES = {"/proxy": (LARGE, BAD), "/lua": (LARGE, BAD), "/echo": (LARGE, BAD), "/dav": (LARGE, BAD), "/stream": (LARGE, BAD),
          "/equal": ((200, LARGE[1]), (202, BAD[1])), "/named": ((201, "named"), (201, "named")),
          "/passed": ((413, "backend"), (400, "backend"))}
BODIES = {"large": b"14\r\n" + b"x" * 20 + b"\r\n0\r\n\r\n", "two pieces": (b"8\r\n" + b"x" * 8 + b"\r\n") * 2 + b"0\r\n\r\n",
          "bad size": b"zz\r\nabc\r\n0\r\n\r\n", "bad end": b"3\r\nabcX\r\n0\r\n\r\n"}


@pytest.fixture(scope="module")
def site():
    with Server(HTTP, files={"dav/x": ""}) as server:
        yield server


def head(place, *more):
    return "%s %s HTTP/1.1\r\nHost: a\r\n%s\r\n" % ("PUT" if place == "/dav" else "POST", place,
                                                  "".join(line + "\r\n" for line in more))


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("kind", BODIES)
def test_chunked_bodies_have_error_pages(site, place, kind):
    before = len(site.lines("error.log"))
    with site.client() as client:
        client.send(head(place, "Transfer-Encoding: chunked").encode() + BODIES[kind])
        response = client.response()
        assert (response.status, response.text) == PLACES[place][kind.startswith("bad")]
        assert response.closes
        assert client.rest_or_reset() == b""
    lines = [line for line in site.lines("error.log")[before:] if "[error]" in line]
    assert len(lines) == 1, lines


def test_redirects(site):
    for kind, body in BODIES.items():
        with site.client() as client:
            client.send(head("/away", "Transfer-Encoding: chunked").encode() + body)
            response = client.response()
            assert (response.status, response.header("Location")) == (307, "http://a/x"), kind


@pytest.mark.parametrize("place", PLACES)
def test_what_is_too_large_is_not_waited_for(site, place):
    """No 100 goes before the page, whatever the status that error_page gives it."""
    with site.client() as client:
        client.send(head(place, "Content-Length: 20", "Expect: 100-continue"))
        response = client.response()
        assert (response.status, response.text) == PLACES[place][0]
        assert response.interim == [] and response.closes


@pytest.mark.parametrize("place", ["/proxy", "/lua", "/equal", "/named"])
def test_streams_have_error_pages(site, place):
    with H2(site.port) as h2:
        answer = h2.get(place, method="POST", body=b"x" * 20)
        assert (answer.status, answer.body.decode()) == PLACES[place][0]
