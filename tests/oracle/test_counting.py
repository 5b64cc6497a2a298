"""Variables that count bytes and requests say the same of each kind of request as the reference, over HTTP/1 and HTTP/2."""

import pytest

from harness import Server, binaries
from harness.h2 import H2

COUNTING = ("status", "bytes_sent", "body_bytes_sent", "request_length", "connection_requests", "pipe", "request_completion",
            "upstream_response_length", "upstream_bytes_received", "upstream_bytes_sent", "upstream_status", "http2", "msie",
            "modern_browser", "ancient_browser", "sent_http_content_length", "sent_http_transfer_encoding")

HTTP = """
log_format counts '%s';
access_log access.log counts;
proxy_http_version 1.1; proxy_set_header Connection ""; client_body_buffer_size 1k; proxy_next_upstream off;
ancient_browser "old"; modern_browser unlisted;
server {
    listen 127.0.0.1:@PORT@; listen 127.0.0.1:@PORT1@ http2; root html; log_subrequest on;
    location /text { return 200 "hello"; }
    location /none { return 204; }
    location /away { return 301 /x; }
    location /drop { return 444; }
    location /page { error_page 403 =200 /text; return 403; }
    location /ssi.html { ssi on; }
    location /back { proxy_pass http://127.0.0.1:%%d; }
    location /bare { proxy_buffering off; proxy_pass http://127.0.0.1:%%d; }
    location /wait { proxy_request_buffering off; proxy_pass http://127.0.0.1:%%d; }
    location /raise { proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection upgrade; proxy_pass http://127.0.0.1:%%d; }
    location /dead { proxy_pass http://127.0.0.1:1; }
}
""" % "|".join("%s=$%s" % (name, name) for name in COUNTING)

FILES = {"html/a.txt": "x" * 1000, "html/big.txt": "y" * 40000, "html/empty.txt": "",
         "html/ssi.html": "<!--#include virtual='/text' -->end"}

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"
CLOSED = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhello"
NOT_MODIFIED = b"HTTP/1.1 304 Not Modified\r\n\r\n"
UPGRADED = b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\nhello"
REFUSED = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 5\r\n\r\nhello"

CLOSE = "Connection: close\r\n"


def ask(target, fields="", method="GET", body="", version="1.1"):
    return "%s %s HTTP/%s\r\nHost: a\r\n%s%s\r\n%s" % (method, target, version, CLOSE, fields, body)


def length(size):
    return {"fields": "Content-Length: %d\r\n" % size, "method": "POST", "body": "b" * size}


# What the client sends, in parts, and what the backend answers.
ROWS = [(ask(target, version=version, method=method), OK)
        for target in ("/a.txt", "/big.txt", "/empty.txt", "/ssi.html", "/text", "/none", "/away", "/page", "/missing", "/dead", "/back",
                       "/bare")
        for version in ("1.0", "1.1") for method in ("GET", "HEAD")] + [
    (ask("/drop"), OK),
    (ask("/a.txt", "Range: bytes=0-99\r\n"), OK),
    (ask("/a.txt", "Range: bytes=0-9,20-29\r\n"), OK),
    (ask("/a.txt", "Range: bytes=5000-\r\n"), OK),
    (ask("/a.txt", "If-Modified-Since: Tue, 14 Nov 2023 22:13:20 GMT\r\n"), OK),
    (ask("/text", "User-Agent: Mozilla/4.0 (compatible; MSIE 6.0; Windows)\r\n"), OK),
    (ask("/text", "User-Agent: old\r\n"), OK),
    (ask("/text", **length(10)), OK), (ask("/text", **length(20000)), OK), (ask("/a.txt", **length(10)), OK),
    (ask("/back", **length(10)), OK), (ask("/back", **length(0)), OK), (ask("/back", **length(20000)), OK),
    (ask("/wait", **length(10)), OK), (ask("/dead", **length(10)), OK),
    (ask("/back", "Transfer-Encoding: chunked\r\n", "POST", "5\r\nhello\r\n0\r\nTrailer: x\r\n\r\n"), OK),
    (ask("/back"), CHUNKED), (ask("/bare"), CHUNKED), (ask("/back", version="1.0"), CHUNKED),
    (ask("/back"), CLOSED), (ask("/bare"), CLOSED), (ask("/back"), NOT_MODIFIED), (ask("/back"), REFUSED),
    ("GET /text\r\n", OK), ("garbage\r\n\r\n", OK), ("GET / HTTP/1.1\r\n\r\n", OK),
    ("GET /%s HTTP/1.1\r\nHost: a\r\n\r\n" % ("a" * 9000), OK),
    (["GET /text HTTP/1.1\r\nHost: a\r\n\r\nGET /text HTTP/1.1\r\nHost: a\r\n\r\n" + ask("/a.txt", method="HEAD")], OK),
    (["\r\n\r\n" + ask("/text")], OK),
    ([ask("/back", "Content-Length: 10\r\nExpect: 100-continue\r\n", "POST"), "b" * 10], OK),
    (["GET /raise HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n", "said by the client"], UPGRADED),
    (["GET /raise HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n", ask("/text")], REFUSED),
    (["GET /raise HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n", ask("/text")], OK),
]

STREAMS = [("/a.txt", {}), ("/big.txt", {}), ("/empty.txt", {}), ("/text", {}), ("/none", {}), ("/missing", {}), ("/back", {}),
           ("/bare", {}), ("/a.txt", {"method": "HEAD"}), ("/a.txt", {"headers": [("range", "bytes=0-9")]}),
           ("/back", {"method": "POST", "body": b"x" * 10}), ("/back", {"method": "POST", "body": b"x" * 20000})]


def answer_upgraded(conn, _):
    conn.sendall(UPGRADED)
    conn.recv(100)
    conn.close()


def site(binary, port):
    return Server(HTTP % (port, port, port, port), files=FILES, binary=binary)


def talk(server, parts):
    """Sends the parts, each after something was answered to the one before; gives the log lines."""
    before = len(server.lines("access.log"))
    parts = [parts] if isinstance(parts, str) else parts
    with server.client() as client:
        for number, part in enumerate(parts):
            if number != 0:
                assert client.readable(5)
                if "Expect" not in parts[0]:
                    client.head()
                    client.readable(1)
            client.send(part)
        client.rest_or_reset()
    text = "".join(parts)
    return server.wait_lines("access.log", before + max(text.count("HTTP/1."), 1) + ("GET /ssi" in text))[before:]


@pytest.mark.parametrize("body", ["Content-Length: 10", "Transfer-Encoding: chunked"])
def test_an_interim_response_that_none_follows(body):
    """The body is not sent: 100 (Continue) was, and counts."""
    lines = []
    for binary in binaries.reference(), binaries.under_test():
        with Server("log_format n '$status|$body_bytes_sent|$bytes_sent|$request_length'; access_log access.log n; client_body_timeout 200ms;"
                    "server { listen 127.0.0.1:@PORT@; location / { proxy_pass http://127.0.0.1:@PORT1@; } }", binary=binary) as server:
            with server.client() as client:
                client.send("POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n%s\r\n\r\n" % body)
                client.rest_or_reset()
            lines.append(server.wait_lines("access.log", 1))
    assert lines[0] == lines[1]
    assert lines[1][0].startswith("408|25|25|")


@pytest.mark.parametrize("row", range(len(ROWS)), ids=lambda row: repr(ROWS[row][0])[:60])
def test_requests(backend, row):
    parts, answer = ROWS[row]
    answers = [answer_upgraded] if answer is UPGRADED else [answer]
    back = backend(answers, address=("127.0.0.1", 0))
    lines = []
    for binary in binaries.reference(), binaries.under_test():
        with site(binary, back.port) as server:
            lines.append([line.split("|") for line in talk(server, parts)])
    assert lines[0] == lines[1]


def test_streams(backend):
    """Requests of one connection, one after the other, then three at one time. Each server packs heads in its own way: $bytes_sent differs."""
    back = backend([OK] * 8)
    lines = []
    for binary in binaries.reference(), binaries.under_test():
        with site(binary, back.port) as server:
            with H2(server.port_of("PORT1")) as h2:
                for path, how in STREAMS:
                    h2.get(path, **how)
                for stream in [h2.request("/a.txt") for _ in range(3)]:
                    h2.answer(stream)
            lines.append([[part for part in line.split("|") if not part.startswith("bytes_sent")]
                          for line in server.wait_lines("access.log", len(STREAMS) + 3)])
    assert lines[0] == lines[1]
