"""What the log says of streams that end badly: the lines are those of HTTP/2."""

import pytest

from h2_site import _echo  # noqa: F401
from h3_site import _site  # noqa: F401
from harness import h3
from harness.h3 import H3

RESETS = {h3.REQUEST_CANCELLED: "canceled stream 0", h3.REQUEST_REJECTED: "refused stream 0",
          h3.INTERNAL_ERROR: "terminated stream 0 due to internal error", 0x4242: "terminated stream 0 with status 16962"}


@pytest.mark.parametrize("code", RESETS)
def test_a_stream_that_the_client_resets(site, echo, code):
    server = site(server="location /p { proxy_pass http://127.0.0.1:%d; }" % echo)
    with H3(server.port) as client:
        stream = client.send("/p", "POST", headers=[("expect", "100-continue")], end=False)
        client.turn_until(lambda: client.answer(stream).heads)  # the request is worked on
        client.quic.reset_stream(stream, code)
        client.flush()
        server.wait_log("client %s, client: 127.0.0.1" % RESETS[code])


def test_a_body_that_ends_early(site, echo):
    server = site(server="location /p { proxy_pass http://127.0.0.1:%d; }" % echo)
    with H3(server.port) as client:
        assert client.get("/p", "POST", body=b"abcd", headers=[("content-length", "9")]).status == 400
    server.wait_log("client prematurely closed stream: only 4 out of 9 bytes of request body received")


def test_a_value_with_a_zero(site):
    """The line has what stands before it, and says which byte it was."""
    server = site()
    with H3(server.port) as client:
        assert client.get("/a.txt", headers=[("x-a", "b\0c")]).status == 400
    server.wait_log(r'client sent header with invalid value: "x-a: b\\x00\.\.\." while reading client request headers')


def test_too_large_trailers(site, echo):
    """They cost that request alone."""
    server = site(server="location /p { proxy_pass http://127.0.0.1:%d; }" % echo)
    with H3(server.port) as client:
        stream = client.send("/p", "POST", body=b"abcd", end=False)
        client.raw(stream, h3.frame(h3.HEADERS, client.section([(b"x-sum", b"1" * 40000)])), end=True)
        assert client.wait(stream).reset == h3.EXCESSIVE_LOAD
        assert client.get("/a.txt").status == 200
    server.wait_log('client sent too large request, .*request: "POST /p HTTP/3.0"')


def test_a_head_that_is_refused_unread_belongs_to_the_server_of_the_handshake(site):
    server = site("log_format who '$server_name $status'; access_log logs/access.log who;",
                  "server_name first; } server { listen 127.0.0.1:@PORT@ quic; server_name localhost;")
    with H3(server.port) as client:
        assert client.get("/a.txt", headers=[("x-long", "~" * 40000)]).status == 400
    assert server.wait_lines("logs/access.log") == ["localhost 400"]
