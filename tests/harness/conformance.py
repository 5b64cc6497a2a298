"""Tables of conformance: what a client sends, piece by piece, and what has to come of it. Header blocks are made
by hand, without a table, so that each row is bytes alone."""

import socket
import ssl
import struct

import pytest

from . import h2
from .h2 import DATA, END_HEADERS, END_STREAM, GOAWAY, H2, HEADERS, RST_STREAM, SETTINGS, WINDOW_UPDATE
from .server import Server

frame = H2.frame


# what is sent

def integer(value, bits=7, first=0):
    """RFC 7541, 5.1: `first` holds the bits in front of the prefix."""
    most = (1 << bits) - 1
    if value < most:
        return bytes([first | value])
    out, value = bytearray([first | most]), value - most
    while value >= 128:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes(out) + bytes([value])


def string(text):
    data = text if isinstance(text, bytes) else text.encode("latin-1")
    return integer(len(data)) + data


def literal(*pairs, first=0):
    """Fields with names in full, by default not for the table (RFC 7541, 6.2.2)."""
    return b"".join(bytes([first]) + string(name) + string(value) for name, value in pairs)


def request(path="/a.txt", method="GET", *more):
    """The block of a request."""
    return literal((":method", method), (":scheme", "http"), (":path", path), (":authority", "localhost"), *more)


def headers(stream=1, block=None, flags=END_HEADERS | END_STREAM):
    return frame(HEADERS, flags, stream, request() if block is None else block)


def post(stream=1, *more):
    """A request that has a body to come: the stream is open."""
    return headers(stream, request("/p", "POST", *more), END_HEADERS)


def data(stream=1, payload=b"x", flags=END_STREAM):
    return frame(DATA, flags, stream, payload)


def settings(*pairs):
    return frame(SETTINGS, 0, 0, b"".join(struct.pack("!HI", *pair) for pair in pairs))


def number(value):
    """A payload of four bytes: an error code, or what a window grows by."""
    return struct.pack("!I", value)


def reset(stream=1, code=8):
    return frame(RST_STREAM, 0, stream, number(code))


def window(by, stream=0):
    return frame(WINDOW_UPDATE, 0, stream, number(by))


def answered(stream):
    """A step: wait for the whole answer."""
    def wait(client):
        assert client.answer(stream).reset is None, client.answers[stream].reset
    return wait


def was_reset(stream):
    """A step: wait until the server has reset the stream."""
    return lambda client: client.until(lambda got: got.kind == RST_STREAM and got.stream == stream)


def heard(client):
    """A step: the server has taken all that was sent so far."""
    assert client.is_alive(), client.goaway


# what has to come

class Ends:
    """A connection error: GOAWAY with one of these codes, then the end (RFC 9113, 5.4.1)."""

    def __init__(self, *codes, last=None):
        self.codes = codes
        self.last = last        # the last stream that GOAWAY has to name, or None

    def check(self, client):
        while client.read() is not None:
            pass
        assert client.goaway is not None, "closed without GOAWAY"
        assert client.goaway.code in self.codes, client.goaway.code
        if self.last is not None:
            assert struct.unpack("!I", client.goaway.payload[:4])[0] == self.last


class Resets:
    """A stream error: RST_STREAM with one of these codes, and nothing else ends (5.4.2). lives: a new request is
    answered then."""

    def __init__(self, *codes, stream=1, lives=True):
        self.codes = codes
        self.stream = stream
        self.lives = lives

    def check(self, client):
        seen = client.until(lambda got: got.kind == RST_STREAM and got.stream == self.stream)
        assert seen is not None, "the connection ended: %r" % client.goaway
        assert seen.code in self.codes, seen.code
        if self.lives:
            _lives_on(client)


class Malformed(Resets):
    """RFC 9113, 8.1.1: a stream error; an answer of 400 may stand before it, no other."""

    def __init__(self, stream=1):
        super().__init__(h2.PROTOCOL_ERROR, stream=stream)

    def check(self, client):
        super().check(client)
        answer = client.answers[self.stream]
        assert not answer.heads or answer.status == 400, answer.heads


class Refuses:
    """The stream or the connection ends, as suits the server (5.4), with one of these codes."""

    def __init__(self, *codes, stream=1):
        self.codes = codes
        self.stream = stream

    def check(self, client):
        seen = client.until(lambda got: got.kind == GOAWAY or got.kind == RST_STREAM and got.stream == self.stream)
        assert seen is not None, "closed without GOAWAY"
        assert seen.code in self.codes, seen


class Answers:
    """The stream is answered, whole, and the connection lives."""

    def __init__(self, status=200, stream=1, body=None, lives=True):
        self.status = status
        self.stream = stream
        self.body = body
        self.lives = lives

    def check(self, client):
        answer = client.answer(self.stream)
        assert answer.reset is None, answer.reset
        assert answer.status == self.status
        assert self.body is None or answer.body == self.body, answer.body
        if self.lives:
            _lives_on(client)


class Ignores:
    """Nothing comes of it. resets: streams that the row knows to have been reset."""

    def __init__(self, resets=0):
        self.resets = resets

    def check(self, client):
        _lives_on(client)
        assert client.resets == self.resets


def _lives_on(client):
    """A new request on the same connection is answered, by a head alone: windows may be empty."""
    assert client.goaway is None, client.goaway
    stream = 2001
    client.socket.sendall(headers(stream, request("/a.txt", "HEAD")))
    assert client.answer(stream).status == 200


class Row:
    """steps: bytes to send, or functions of the client. first: the client's first SETTINGS."""

    def __init__(self, section, name, steps, expected, first=None):
        self.name = "%s: %s" % (section, name)
        self.steps = [steps] if isinstance(steps, bytes) or callable(steps) else steps
        self.expected = expected
        self.first = first

    def play(self, client):
        try:
            for step in self.steps:
                if callable(step):
                    step(client)
                else:
                    client.socket.sendall(step)
        except (BrokenPipeError, ConnectionResetError, ssl.SSLEOFError):
            pass    # the server has ended it in the middle of a row: reading tells why
        self.expected.check(client)


def table(rows):
    """The rows as parameters of a test, each under its own name."""
    names = [row.name for row in rows]
    assert len(set(names)) == len(names), [name for name in names if names.count(name) > 1]
    return pytest.mark.parametrize("row", rows, ids=names)


# the server

CONF = """
    http2 on; client_header_timeout 10s; lingering_timeout 200ms; keepalive_requests 100000;
    server {
        listen 127.0.0.1:@PORT@; listen 127.0.0.1:@PORT2@ ssl; %s
        location / { root html; }
        location /p { proxy_pass http://127.0.0.1:@PORT1@; }
        location /v { return 200 "$http_x_a"; }
    }
    server { listen 127.0.0.1:@PORT1@; return 200 "got $content_length"; }
    server {
        listen 127.0.0.1:@PORT@; listen 127.0.0.1:@PORT2@ ssl; server_name tunnel; %s
        location / { tunnel_pass; }
    }
"""
BIG = bytes(range(256)) * 400
FILES = {"html/a.txt": "hello\n", "html/big": BIG, "html/index.html": "hello\n"}


def server_of(pair):
    """The server of the tables; pair: its certificate, with crt and key."""
    words = "ssl_certificate %s; ssl_certificate_key %s;" % (pair.crt, pair.key)
    return Server(CONF % (words, words), files=FILES)


def plug(server, transport):
    """A socket to the server: "h2c" in the clear, "h2" by TLS and ALPN."""
    port = server.port if transport == "h2c" else server.port_of("PORT2")
    raw = socket.create_connection(("127.0.0.1", port), timeout=10)
    raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if transport == "h2c":
        return raw
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    return context.wrap_socket(raw, suppress_ragged_eofs=True)


def connect(server, transport, first=None):
    return H2(None, first, sock=plug(server, transport))
