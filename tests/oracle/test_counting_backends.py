"""$upstream_response_length and $upstream_bytes_received count the same bytes of each protocol towards backends as the reference: all
that came, and of it what came after the head, with what frames it."""

import contextlib
import socket

import pytest

import cgi_backends as cgi
import fastcgi_backends as fcgi
import h2_backend as h2
from harness import Server, binaries
from harness.backend import talk_to_each

BODY = b"hello world"
OK = b"HTTP/1.1 200 OK\r\n"
OUT, ERR, END = fcgi.STDOUT, fcgi.STDERR, fcgi.record(fcgi.STDOUT) + fcgi.end()
SETTINGS = h2.frame(4, 0, 0) + h2.frame(4, 1, 0)
GRPC_HEAD = h2.frame(1, 4, 1, h2.block((":status", "200"), ("content-type", "application/grpc")))
TRAILERS = h2.frame(1, 5, 1, h2.block(("grpc-status", "0")))
PING = h2.frame(6, 0, 0, b"12345678")


def data(payload, flags=0):
    return h2.frame(0, flags, 1, payload)


# What a backend sends, in parts.
ANSWERS = {
    "proxy": [
        [OK + b"Content-Length: 11\r\n\r\n" + BODY],
        [OK + b"Content-Length: 11\r\n\r\n" + BODY + b"more"],
        [OK + b"Transfer-Encoding: chunked\r\n\r\nb\r\n", BODY + b"\r\n0\r\nX: y\r\n\r\n"],
        [OK + b"Connection: close\r\n\r\n", BODY],
        [b"HTTP/1.1 204 No\r\nContent-Length: 3\r\n\r\nabc"],
        [b"HTTP/1.1 304 Not\r\n\r\n"],
    ],
    "fastcgi": [
        [fcgi.answer()],
        [fcgi.record(OUT, fcgi.HEAD), fcgi.record(OUT, BODY), END],
        [fcgi.record(OUT, fcgi.HEAD + BODY, padding=5) + END],
        [fcgi.record(OUT, fcgi.HEAD, padding=5) + fcgi.record(OUT, BODY, padding=5) + END],
        [fcgi.record(OUT, fcgi.HEAD[:5], padding=2), fcgi.record(OUT, fcgi.HEAD[5:9]), fcgi.record(OUT, fcgi.HEAD[9:] + BODY) + END],
        [fcgi.record(ERR, b"problem") + fcgi.record(OUT, fcgi.HEAD + BODY), fcgi.record(ERR, b"problem") + END],
        [fcgi.record(OUT, fcgi.HEAD) + END],
        [fcgi.record(OUT, b"Content-Length: 5\r\n" + fcgi.HEAD + BODY) + END],
        [fcgi.record(OUT, b"Status: 404 x\r\n" + fcgi.HEAD + BODY) + END],
        [fcgi.record(OUT, fcgi.HEAD + b"x" * 5000)] + [fcgi.record(OUT, b"x" * 8000)] * 20 + [END],
    ],
    "uwsgi": [[OK + b"Content-Length: 5\r\n\r\n" + BODY], [OK + b"\r\n", BODY]],
    "scgi": [[b"Status: 200 OK\r\nContent-Length: 5\r\n\r\n" + BODY], [b"Status: 200 OK\r\n\r\n", BODY]],
    "memcached": [[b"VALUE k 0 11\r\n" + BODY + b"\r\nEND\r\n"], [b"END\r\n"]],
    "grpc": [
        [SETTINGS + GRPC_HEAD + data(BODY) + TRAILERS],
        [SETTINGS, GRPC_HEAD, data(BODY), TRAILERS],
        [SETTINGS + GRPC_HEAD + PING + data(b"\3" + BODY + b"123", flags=8), PING + TRAILERS],
        [SETTINGS + GRPC_HEAD + data(BODY, flags=1)],
        [SETTINGS + GRPC_HEAD + data(b"x" * 4000) * 8 + TRAILERS],
        [SETTINGS + h2.frame(1, 5, 1, h2.block((":status", "200"), ("content-type", "application/grpc"), ("grpc-status", "3")))],
    ],
}
LINES = {"proxy": "proxy_pass http://%s; proxy_http_version 1.1;", "fastcgi": "fastcgi_pass %s; fastcgi_param A b;", "uwsgi": "uwsgi_pass %s;",
         "scgi": "scgi_pass %s;", "memcached": "set $memcached_key k; memcached_pass %s;", "grpc": "grpc_pass grpc://%s;"}


def read_h2(stream):
    """A request without a body, up to the frame that ends it."""
    stream.read(24)
    while True:
        head = stream.read(9)
        stream.read(int.from_bytes(head[:3], "big"))
        if head[3] == 1 and head[4] & 1:
            return


def read_lines(stream):
    while stream.readline().strip():
        pass


READERS = {"proxy": read_lines, "fastcgi": fcgi.read_request, "uwsgi": cgi.read_uwsgi, "scgi": cgi.read_scgi,
           "memcached": lambda stream: stream.readline(), "grpc": read_h2}


def backend(protocol, parts):
    def talk(conn):
        with conn.makefile("rb") as stream, contextlib.suppress(OSError):  # who has left
            READERS[protocol](stream)
            for part in parts:
                conn.sendall(part)
            if protocol != "grpc":      # which ends with its last frame
                conn.shutdown(socket.SHUT_WR)
            stream.read()
    return talk_to_each(talk)


@pytest.mark.parametrize("protocol", ANSWERS)
def test_bytes_of_responses(protocol):
    listeners = [backend(protocol, parts) for parts in ANSWERS[protocol]]
    places = "".join("location /%d { %s } " % (number, LINES[protocol] % ("127.0.0.1:%d" % listener.getsockname()[1]))
                     for number, listener in enumerate(listeners))
    sizes = []
    for binary in binaries.reference(), binaries.under_test():
        with Server("log_format n '$uri $status $upstream_response_length $upstream_bytes_received'; access_log access.log n; proxy_set_header Connection close;"
                    + "server { listen 127.0.0.1:@PORT@; " + places + "}", binary=binary) as server:
            for number in range(len(listeners)):
                with server.client() as client:
                    client.send("GET /%d HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n" % number)
                    client.rest_or_reset()
            sizes.append(server.wait_lines("access.log", len(listeners)))
    for listener in listeners:
        listener.close()
    assert sizes[0] == sizes[1]
    received = [int(line.split()[3]) for line in sizes[1]]
    assert received == [sum(map(len, parts)) for parts in ANSWERS[protocol]]
