"""The strict parser: what could mean two things is refused, and nothing behind it is answered."""

import re

import pytest

SMUGGLED = b"GET /smuggled HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"

# Each starts a request that must be answered with 400 and the end of the connection.
HEADS = {
    "two equal lengths": b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n"
                         b"Content-Length: 4\r\n\r\nabcd",
    "two different lengths": b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n"
                             b"Content-Length: 0\r\n\r\nabcd",
    "length list": b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4, 4\r\n\r\nabcd",
    "length with chunked": b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n"
                           b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "chunked with length": b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n"
                           b"Content-Length: 4\r\n\r\n0\r\n\r\n",
    "chunked twice": b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n"
                     b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "chunked and identity": b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n"
                            b"Transfer-Encoding: identity\r\n\r\n0\r\n\r\n",
    "chunked in HTTP/1.0": b"POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n"
                           b"Connection: keep-alive\r\n\r\n0\r\n\r\n",
    "negative length": b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n",
    "signed length": b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +4\r\n\r\nabcd",
    "hexadecimal length": b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0x4\r\n\r\nabcd",
    "length with blank": b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1 0\r\n\r\nabcd",
    "length with letters": b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4a\r\n\r\nabcd",
    "empty length": b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length:\r\n\r\n",
    "length of 20 digits": b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 18446744073709551620"
                           b"\r\n\r\nabcd",
    "length of 2^64": b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 18446744073709551616"
                      b"\r\n\r\n",
    "length of 2^63": b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9223372036854775808\r\n\r\n",
    "length of 2^32 zeros": b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4" + b"0" * 40
                            + b"\r\n\r\nabcd",
    "space before colon": b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length : 4\r\n\r\nabcd",
    "tab before colon": b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length\t: 4\r\n\r\nabcd",
    "space before chunked's colon": b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding : chunked"
                                    b"\r\nContent-Length: 4\r\n\r\n0\r\n\r\n",
    "folded line": b"GET / HTTP/1.1\r\nHost: a\r\nX: a\r\n b\r\n\r\n",
    "folded with tab": b"GET / HTTP/1.1\r\nHost: a\r\nX: a\r\n\tb\r\n\r\n",
    "folded coding": b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding:\r\n chunked\r\n"
                     b"Content-Length: 4\r\n\r\n0\r\n\r\n",
    "blank before the first field": b"GET / HTTP/1.1\r\n Host: a\r\n\r\n",
    "bare CR in value": b"GET / HTTP/1.1\r\nHost: a\r\nX: a\rContent-Length: 4\r\n\r\n",
    "bare CR at the end": b"GET / HTTP/1.1\r\nHost: a\r\nX: a\r\r\n\r\n",
    "bare CR in name": b"GET / HTTP/1.1\r\nHost: a\r\nX\rY: a\r\n\r\n",
    "bare CR in request line": b"GET /\r HTTP/1.1\r\nHost: a\r\n\r\n",
    "bare CR after version": b"GET / HTTP/1.1\r\r\nHost: a\r\n\r\n",
    "bare CR as line end": b"GET / HTTP/1.1\rHost: a\r\r",
    "NUL in value": b"GET / HTTP/1.1\r\nHost: a\r\nX: a\x00b\r\n\r\n",
    "NUL in name": b"GET / HTTP/1.1\r\nHost: a\r\nX\x00: a\r\n\r\n",
    "NUL in target": b"GET /\x00 HTTP/1.1\r\nHost: a\r\n\r\n",
    "NUL in method": b"G\x00ET / HTTP/1.1\r\nHost: a\r\n\r\n",
    "NUL in host": b"GET / HTTP/1.1\r\nHost: a\x00b\r\n\r\n",
    "control in value": b"GET / HTTP/1.1\r\nHost: a\r\nX: a\x01b\r\n\r\n",
    "escape in value": b"GET / HTTP/1.1\r\nHost: a\r\nX: a\x1bb\r\n\r\n",
    "DEL in value": b"GET / HTTP/1.1\r\nHost: a\r\nX: a\x7fb\r\n\r\n",
    "control in name": b"GET / HTTP/1.1\r\nHost: a\r\nX\x08: a\r\n\r\n",
    "control in target": b"GET /\x08 HTTP/1.1\r\nHost: a\r\n\r\n",
    "control in query": b"GET /?\x1f HTTP/1.1\r\nHost: a\r\n\r\n",
    "DEL in target": b"GET /\x7f HTTP/1.1\r\nHost: a\r\n\r\n",
    "no colon": b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length 4\r\n\r\nabcd",
    "empty name": b"GET / HTTP/1.1\r\nHost: a\r\n: a\r\n\r\n",
    "space in name": b"GET / HTTP/1.1\r\nHost: a\r\nX Y: a\r\n\r\n",
    "two hosts": b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
    "no host": b"GET / HTTP/1.1\r\nX: y\r\n\r\n",
    "host with slash": b"GET / HTTP/1.1\r\nHost: a/b\r\n\r\n",
    "host with user": b"GET http://a@b/ HTTP/1.1\r\nHost: b\r\n\r\n",
    "host with a byte from 0x80": b"GET / HTTP/1.1\r\nHost: b\xc3\xbc\r\n\r\n",
    "target's host with a byte from 0x80": b"GET http://\x80/ HTTP/1.1\r\nHost: a\r\n\r\n",
    "host with two dots in brackets": b"GET / HTTP/1.1\r\nHost: [ab..cd::1]\r\n\r\n",
    "empty host beside an absolute target": b"GET http://a/ HTTP/1.1\r\nHost:\r\n\r\n",
    "fragment": b"GET /a#b HTTP/1.1\r\nHost: a\r\n\r\n",
    "fragment behind arguments": b"GET /a?b#c HTTP/1.1\r\nHost: a\r\n\r\n",
    "fragment of a host": b"GET http://a#b HTTP/1.1\r\nHost: a\r\n\r\n",
    "fragment of a host with arguments": b"GET http://a?b#c HTTP/1.1\r\nHost: a\r\n\r\n",
    "tab in request line": b"GET\t/\tHTTP/1.1\r\nHost: a\r\n\r\n",
    "vertical tab in request line": b"GET\x0b/ HTTP/1.1\r\nHost: a\r\n\r\n",
    "lower case version": b"GET / http/1.1\r\nHost: a\r\n\r\n",
    "broken percent": b"GET /%zz HTTP/1.1\r\nHost: a\r\n\r\n",
    "encoded NUL": b"GET /%00 HTTP/1.1\r\nHost: a\r\n\r\n",
    "above the root": b"GET /../etc/passwd HTTP/1.1\r\nHost: a\r\n\r\n",
    "encoded above the root": b"GET /%2e%2e/etc/passwd HTTP/1.1\r\nHost: a\r\n\r\n",
    "CRLF inside a name": b"GET / HTTP/1.1\r\nHost: a\r\nX\r\nY: a\r\n\r\n",
    "binary": bytes(range(128, 256)) + b"\r\n\r\n",
    "TLS hello": b"\x16\x03\x01\x00\xa5\x01\x00\x00\xa1\x03\x03\r\n\r\n",
}

# Bodies behind `Transfer-Encoding: chunked` that must be refused likewise.
CHUNKED = {
    "no size": b"\r\nabcd\r\n0\r\n\r\n",
    "size of letters": b"xyz\r\nabcd\r\n0\r\n\r\n",
    "negative size": b"-4\r\nabcd\r\n0\r\n\r\n",
    "signed size": b"+4\r\nabcd\r\n0\r\n\r\n",
    "prefixed size": b"0x4\r\nabcd\r\n0\r\n\r\n",
    "size with blank before": b" 4\r\nabcd\r\n0\r\n\r\n",
    "size of 17 digits": b"10000000000000004\r\nabcd\r\n0\r\n\r\n",
    "size of 2^64 - 1": b"ffffffffffffffff\r\nabcd\r\n0\r\n\r\n",
    "size of 2^63": b"8000000000000000\r\nabcd\r\n0\r\n\r\n",
    "size too small": b"3\r\nabcd\r\n0\r\n\r\n",
    "no CRLF after data": b"4\r\nabcd0\r\n\r\n",
    "LF after size": b"4\nabcd\r\n0\r\n\r\n",
    "LF after data": b"4\r\nabcd\n0\r\n\r\n",
    "bare CR after size": b"4\rabcd\r\n0\r\n\r\n",
    "control in extension": b"4;a=\x01\r\nabcd\r\n0\r\n\r\n",
    "NUL in extension": b"4;a=\x00\r\nabcd\r\n0\r\n\r\n",
    "LF in extension": b"4;a=\nabcd\r\n0\r\n\r\n",
    "bare CR in extension": b"4;a=\rb\r\nabcd\r\n0\r\n\r\n",
    "trailer with NUL": b"4\r\nabcd\r\n0\r\nX: \x00\r\n\r\n",
    "trailer with blank before colon": b"4\r\nabcd\r\n0\r\nX : y\r\n\r\n",
    "folded trailer": b"4\r\nabcd\r\n0\r\nX: y\r\n z\r\n\r\n",
    "trailer without colon": b"4\r\nabcd\r\n0\r\nX\r\n\r\n",
    "trailer with bare CR": b"4\r\nabcd\r\n0\r\nX: a\rb\r\n\r\n",
    "trailer with bare LF": b"4\r\nabcd\r\n0\r\nX: a\n\r\n",
    "bare LF as end": b"4\r\nabcd\r\n0\r\n\n",
}

CONF = """
    log_format plain '$status $request_uri';
    access_log logs/access.log plain;
    server {
        listen 127.0.0.1:@PORT@;
        server_name localhost;
        location / { return 200 "answered $uri\\n"; }
    }
"""


def pieces(data, size):
    return [data[at:at + size] for at in range(0, len(data), size)]


def refused(server, data, size=None):
    """Sends data with a second request behind it and checks that only a refusal comes back."""
    with server.client() as client:
        for piece in pieces(data + SMUGGLED, size) if size else [data + SMUGGLED]:
            client.send(piece)
        first = client.response("GET")
        assert first.status == 400, first
        assert client.rest_or_reset() == b"", "something was answered behind the refusal"
    assert b"smuggled" not in first.body


@pytest.fixture(scope="module")
def server():
    from harness import Server
    with Server(CONF) as running:
        yield running


@pytest.mark.parametrize("name", HEADS)
def test_head_is_refused(server, name):
    refused(server, HEADS[name])


@pytest.mark.parametrize("name", [
    "two different lengths", "length with chunked", "bare CR in value", "NUL in value",
    "folded line", "space before colon"])
def test_head_is_refused_byte_by_byte(server, name):
    refused(server, HEADS[name], size=1)


@pytest.mark.parametrize("name", CHUNKED)
def test_chunked_body_is_refused(server, name):
    """The body stands in the same piece as the head, so it is seen before the answer."""
    data = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" + CHUNKED[name]
    with server.client() as client:
        client.send(data + SMUGGLED)
        first = client.response()
        assert first.status == 400, first
        assert client.rest_or_reset() == b""


@pytest.mark.parametrize("name", CHUNKED)
def test_bad_chunked_body_after_the_answer_closes(server, name):
    """The answer may be on its way when the fault shows; nothing behind it may be answered."""
    with server.client() as client:
        client.send(b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nab")
        client.send(b"cd\r\n" + CHUNKED[name] + SMUGGLED)
        data = client.rest_or_reset()
    assert data.count(b"HTTP/1.1 ") == 1, data
    assert b"smuggled" not in data


def test_nothing_smuggled_was_logged(server):
    """Runs last in this file: of all the requests above not one smuggled one was served."""
    server.get("/mark")
    server.wait_log(r"200 /mark", "logs/access.log")
    assert "200 /smuggled" not in server.read("logs/access.log")


@pytest.mark.parametrize("line, shown", [
    (b"  folded", r"\x20..."), (b"A b: c", r"A\x20..."), (b": c", r"\x3a..."), (b"A: b\0c", r"A: b\x00..."),
    (b"A\x01: b", r"A\x01..."), (b"no colon", r"no\x20..."), (b"colonless", "colonless"),
])
def test_the_log_shows_where_a_header_line_went_wrong(server, line, shown):
    with server.client() as client:
        client.send(b"GET /wrong HTTP/1.1\r\nHost: a\r\n" + line + b"\r\n\r\n")
        assert client.response().status == 400
    server.wait_log(re.escape('client sent invalid header line: "%s" while reading client request headers, client: 127.0.0.1' % shown)
                    + '.*request: "GET /wrong HTTP/1.1"')


def test_many_empty_lines_before_a_request(server):
    with server.client() as client:
        client.send(b"\r\n" * 6000 + b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        assert client.response().status == 200


def test_length_of_zeros_is_a_number(server):
    """Leading zeros are digits; the request behind is the next one."""
    with server.client() as client:
        client.send(b"POST /one HTTP/1.1\r\nHost: a\r\nContent-Length: 0004\r\n\r\nabcd" + SMUGGLED)
        assert client.response().text == "answered /one\n"
        assert client.response().text == "answered /smuggled\n"


def test_head_in_single_bytes(server):
    with server.client() as client:
        for byte in pieces(b"POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc", 1):
            client.send(byte)
        assert client.response().text == "answered /x\n"
        assert client.request("/y").text == "answered /y\n"


def test_chunked_in_single_bytes(server):
    with server.client() as client:
        for byte in pieces(b"POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
                           b"4;e=\"x\"\r\nabcd\r\n10\r\n0123456789abcdef\r\n0\r\nT: t\r\n\r\n", 1):
            client.send(byte)
        assert client.response().text == "answered /x\n"
        assert client.request("/y").text == "answered /y\n"


def test_client_that_leaves_in_the_middle(server):
    """Closing or resetting at every byte of a request harms nobody."""
    data = (b"POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
            b"4\r\nabcd\r\n0\r\n\r\n")
    for end in range(0, len(data), 3):
        client = server.client()
        client.send(data[:end])
        if end % 2:
            client.reset()
        else:
            client.close()
    assert server.get("/after").text == "answered /after\n"


def test_each_invalid_header_line_is_logged_up_to_four(serve):
    server = serve("server { listen 127.0.0.1:@PORT@; return 200 ok; }")
    lines = ["a_b: 1", "c.d: 2", "e_f: 3", "g_h: 4", "i_j: 5"]
    assert server.get("/", *lines).text == "ok"
    for line in lines[:4]:
        server.wait_log('client sent invalid header line: "%s" while reading client request headers' % line)
    assert "i_j" not in server.error_log
