"""What the logs say of streams: lines as those of nginx, and requests that were not answered whole."""

import struct

import pytest

from harness import h2, until
from harness.h2 import H2

SITE = """
    log_format ends "$uri|$status|$request_completion|$request_length|$sent_http_content_length";
    access_log access.log ends;
    http2 on;
    server {
        listen 127.0.0.1:@PORT@;
        location /text { return 200 "hello"; }
        location /read { proxy_pass http://127.0.0.1:1; }
        location /gone { return 444; }
        location /trailer { add_trailer X-T t; return 200 hello; }
        location /empty { add_trailer X-T t; return 200 ""; }
    }
"""


@pytest.fixture(scope="module")
def site():
    from harness import Server
    with Server(SITE) as server:
        yield server


def u32(*numbers):
    return struct.pack("!%dI" % len(numbers), *numbers)


def setting(number, value):
    return (h2.SETTINGS, 0, 0, struct.pack("!HI", number, value))


WHOLE = h2.END_HEADERS | h2.END_STREAM

LINES = [
    ((h2.HEADERS, WHOLE, 2, b""), "sent HEADERS frame with incorrect identifier 2, the last was 0"),
    ((h2.HEADERS, WHOLE, 0, b""), "sent HEADERS frame with incorrect identifier"),
    ((h2.HEADERS, WHOLE | h2.PADDED, 1, b"\xffabc"), "sent padded HEADERS frame with incorrect length: 4, padding: 255"),
    ((h2.HEADERS, WHOLE | h2.WITH_PRIORITY, 1, b"abc"), "sent HEADERS frame with incorrect length 3"),
    ((h2.HEADERS, WHOLE | h2.WITH_PRIORITY, 1, u32(1) + b"\1"), "sent HEADERS frame for stream 1 with incorrect dependency"),
    ((h2.DATA, h2.PADDED, 1, b"\x05abc"), "sent padded DATA frame with incorrect length: 4, padding: 5"),
    ((h2.DATA, h2.PADDED, 1, b""), "sent padded DATA frame with incorrect length: 0"),
    ((h2.DATA, 0, 1, b"x"), "sent DATA frame of idle stream 1"),
    ((h2.CONTINUATION, h2.END_HEADERS, 1, b""), "sent unexpected CONTINUATION frame"),
    ((h2.PRIORITY, 0, 1, u32(1) + b"\1"), "sent PRIORITY frame for stream 1 with incorrect dependency"),
    ((h2.RST_STREAM, 0, 1, b"abc"), "sent RST_STREAM frame with incorrect length 3"),
    ((h2.RST_STREAM, 0, 1, u32(8)), "sent RST_STREAM frame of idle stream 1"),
    ((h2.SETTINGS, h2.ACK, 0, b"abcdef"), "sent SETTINGS frame with the ACK flag and nonzero length"),
    ((h2.SETTINGS, 0, 1, b""), "sent SETTINGS frame with incorrect identifier"),
    (setting(2, 2), "sent SETTINGS frame with incorrect ENABLE_PUSH value 2"),
    (setting(4, 1 << 31), "sent SETTINGS frame with incorrect INITIAL_WINDOW_SIZE value 2147483648"),
    (setting(5, 100), "sent SETTINGS frame with incorrect MAX_FRAME_SIZE value 100"),
    (setting(8, 2), "sent SETTINGS frame with incorrect value 2 of setting 8"),
    ((h2.PUSH_PROMISE, h2.END_HEADERS, 1, u32(2)), "sent PUSH_PROMISE frame"),
    ((h2.PING, 0, 0, b"abc"), "sent PING frame with incorrect length 3"),
    ((h2.GOAWAY, 0, 1, u32(0, 0)), "sent GOAWAY frame with incorrect identifier"),
    ((h2.WINDOW_UPDATE, 0, 0, u32(0)), "sent WINDOW_UPDATE frame with incorrect window increment 0"),
    ((h2.WINDOW_UPDATE, 0, 0, u32(0x7fffffff)),
     "violated connection flow control: received WINDOW_UPDATE frame with window increment 2147483647 not allowed for window 65535"),
]


@pytest.mark.parametrize("frame, line", LINES, ids=[line for _, line in LINES])
def test_a_frame_that_ends_the_connection(site, frame, line):
    before = len(site.error_log)
    with H2(site.port) as client:
        client.send(*frame)
        assert client.until(lambda f: f.kind == h2.GOAWAY) is not None
    assert "[info] " in site.error_log[before:]
    assert "client %s while processing HTTP/2 connection, client: 127.0.0.1" % line in site.error_log[before:]


RESETS = {2: "terminated stream 1 due to internal error", 7: "refused stream 1", 8: "canceled stream 1",
          77: "terminated stream 1 with status 77"}


@pytest.mark.parametrize("code", RESETS)
def test_a_stream_that_the_client_resets(site, code):
    before = len(site.error_log)
    with H2(site.port) as client:
        client.request("/read", "POST", [("content-length", "5")], ends=False)
        client.send(h2.RST_STREAM, 0, 1, u32(code))
        assert client.is_alive()
    assert "client " + RESETS[code] in site.error_log[before:]


HEADS = [
    (dict(method="get"), 'client sent invalid method: "get"'),
    (dict(method=""), "client sent empty :method header"),
    (dict(scheme=""), "client sent empty :scheme header"),
    (dict(scheme="h t"), 'client sent invalid :scheme header: "h t"'),
    (dict(path=""), "client sent empty :path header"),
    (dict(path="x"), 'client sent invalid :path header: "x"'),
    (dict(path="/a b"), 'client sent invalid :path header: "/a b"'),
    (dict(headers=[("X-Upper", "y")]), 'client sent invalid header name: "X-Upper"'),
    (dict(headers=[("content-length", "x")]), 'client sent invalid "Content-Length" header'),
    (dict(headers=[("if-range", "a"), ("if-range", "b")]), 'client sent duplicate header line: "if-range: b"'),
]


@pytest.mark.parametrize("head, line", HEADS, ids=[line for _, line in HEADS])
def test_a_head_that_is_refused(site, head, line):
    before = len(site.error_log)
    with H2(site.port) as client:
        assert client.get(**head).status == 400
    assert line + " while reading client request headers" in site.error_log[before:]


def test_a_body_that_ends_early(site):
    with H2(site.port) as client:
        assert client.get("/read", "POST", [("content-length", "5")], b"abc").status == 400
    site.wait_log("client prematurely closed stream: only 3 out of 5 bytes of request body received")


def text_lines(site):
    """The lines of /text alone: those of earlier tests may come late."""
    return [line for line in site.lines("access.log") if line.startswith("/text|")]


def last_line(site, count):
    until(lambda: len(text_lines(site)) >= count, lambda: "%d lines of /text, of %r" % (count, site.lines("access.log")))
    return text_lines(site)[-1]


def test_a_body_that_the_client_has_no_window_for_is_not_complete(site):
    count = len(text_lines(site))
    with H2(site.port, {4: 2}) as client:
        stream = client.request("/text")
        client.until(lambda f: f.kind == h2.DATA and f.stream == stream)
    assert last_line(site, count + 1).startswith("/text|200||")
    with H2(site.port, {4: 5}) as client:
        assert client.get("/text").body == b"hello"
    assert last_line(site, count + 2).startswith("/text|200|OK|")


def test_padding_is_not_part_of_the_length_of_a_request(site):
    lengths = []
    for padding in 0, 7:
        count = len(text_lines(site))
        with H2(site.port) as client:
            stream = client.request("/text", "POST", ends=False)
            client.send(h2.DATA, h2.PADDED | h2.END_STREAM, stream, bytes([padding]) + b"abc" + bytes(padding))
            assert client.answer(stream).status == 200
        lengths.append(last_line(site, count + 1).split("|")[3])
    assert lengths[0] == lengths[1]


def test_444_resets_the_stream_as_nginx_does(site):
    with H2(site.port) as client:
        assert client.get("/gone").reset == h2.PROTOCOL_ERROR
        assert client.is_alive()


def test_trailers_follow_a_body_of_announced_length(site):
    with H2(site.port) as client:
        answer = client.get("/trailer")
        assert (answer.headers["content-length"], answer.body, answer.trailers) == ("5", b"hello", [[("x-t", "t")]])
        answer = client.get("/empty")
        assert (answer.body, answer.trailers) == (b"", [[("x-t", "t")]])
