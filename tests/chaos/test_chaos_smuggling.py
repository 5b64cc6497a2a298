"""Requests that try to become two, or to bring parameters of their own, on the way to uwsgi, SCGI and FastCGI servers: each packet is whole by
its own lengths, holds what the configuration and the head say, and the body is what was announced."""

import os
import random
import socket
import struct
import threading

import pytest

from harness import Client, Closed, ProtocolError
from harness.h2 import H2

HTTP = """
    underscores_in_headers on; ignore_invalid_headers off; large_client_header_buffers 8 32k; client_max_body_size 10m;
    server {
        listen 127.0.0.1:@PORT@; http2 on;
        set_unescape_uri $raw $arg_raw;
        location / {
            %(name)s_pass 127.0.0.1:%(port)d; %(name)s_request_buffering %(buffering)s; %(name)s_read_timeout 5s;
            %(name)s_param REQUEST_METHOD $request_method; %(name)s_param REQUEST_URI $request_uri; %(name)s_param RAW $raw;
            %(name)s_param CONTENT_LENGTH $content_length; %(name)s_param PATH_INFO $uri; %(name)s_param MARK mark;
        }
    }
"""
OURS = {"REQUEST_METHOD", "REQUEST_URI", "RAW", "CONTENT_LENGTH", "PATH_INFO", "MARK", "SCGI"}


class Torn(Exception):
    pass


def exactly(stream, size):
    data = stream.read(size)
    if len(data) != size:
        raise Torn("%d bytes of %d" % (len(data), size))
    return data


def with_body(stream, pairs):
    """The body as far as it comes, and what comes after it."""
    return pairs, stream.read(int(dict(pairs).get(b"CONTENT_LENGTH") or b"0")) + stream.read()


def read_scgi(stream):
    digits = b""
    while not digits.endswith(b":"):
        digits += exactly(stream, 1)
    block = exactly(stream, int(digits[:-1]))
    assert exactly(stream, 1) == b"," and block.endswith(b"\0")
    words = block[:-1].split(b"\0")
    assert len(words) % 2 == 0 and words[0] == b"CONTENT_LENGTH"
    return with_body(stream, list(zip(words[::2], words[1::2])))


def read_uwsgi(stream):
    kind, size, more = struct.unpack("<BHB", exactly(stream, 4))
    packet, pairs, at = exactly(stream, size), [], 0
    assert (kind, more) == (0, 0)
    while at < size:
        words = []
        for _ in range(2):
            length = struct.unpack_from("<H", packet, at)[0]
            assert at + 2 + length <= size
            words.append(packet[at + 2:at + 2 + length])
            at += 2 + length
        pairs.append(tuple(words))
    return with_body(stream, pairs)


def read_fastcgi(stream):
    params, body, ended = b"", b"", set()
    while 5 not in ended:
        version, kind, number, size, padding, _ = struct.unpack(">BBHHBB", exactly(stream, 8))
        content = exactly(stream, size + padding)[:size]
        if kind == 2:
            raise Torn("the request was aborted")
        assert version == 1 and number == 1 and kind in (1, 4, 5) and kind not in ended
        if kind == 1:
            assert content[:2] == b"\0\1"
        elif size == 0:
            ended.add(kind)
        elif kind == 4:
            params += content
        else:
            assert 4 in ended
            body += content
    pairs, at = [], 0
    while at < len(params):
        sizes = []
        for _ in range(2):
            sizes.append(params[at])
            if sizes[-1] & 128:
                sizes[-1] = struct.unpack_from(">I", params, at)[0] & 0x7fffffff
            at += 4 if sizes[-1] > 127 else 1
        assert at + sum(sizes) <= len(params)
        pairs.append((params[at:at + sizes[0]], params[at + sizes[0]:at + sum(sizes)]))
        at += sum(sizes)
    return pairs, body


READERS = {"uwsgi": read_uwsgi, "scgi": read_scgi, "fastcgi": read_fastcgi}


class Strict:
    """Reads each connection by the letter; what is not as it should be is kept in `faults`."""

    def __init__(self, name):
        self.read, self.name = READERS[name], name
        self.faults, self.packets = [], []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        while True:
            try:
                conn = self.listener.accept()[0]
            except OSError:
                return
            threading.Thread(target=self._talk, args=(conn,), daemon=True).start()

    def _talk(self, conn):
        with conn:
            conn.settimeout(10)
            stream = Until(conn)
            try:
                packet = self.read(stream)
                self.packets.append(packet)
                self._answer(conn)
            except Torn:
                pass            # the client has left
            except Exception as fault:      # noqa: BLE001
                self.faults.append(repr(fault))

    def _answer(self, conn):
        head = b"Status: 200 OK\r\n\r\nfine"
        if self.name == "fastcgi":
            conn.sendall(struct.pack(">BBHHBB", 1, 6, 1, len(head), 0, 0) + head + struct.pack(">BBHHBB", 1, 3, 1, 8, 0, 0) + bytes(8))
        else:
            conn.sendall(head)

    def close(self):
        self.listener.close()


class Until:
    """read(n) of a socket; read() gives what comes until nothing has come for a moment."""

    def __init__(self, conn):
        self.conn, self.data = conn, b""

    def read(self, size=None):
        while size is None or len(self.data) < size:
            try:
                if size is None:
                    self.conn.settimeout(0.05)
                more = self.conn.recv(65536)
            except socket.timeout:
                break
            if not more:
                break
            self.data += more
        size = len(self.data) if size is None else size
        found, self.data = self.data[:size], self.data[size:]
        return found


NAMES = ["X-A", "x_a", "X.A", "Content_Length", "Content-length2", "HTTP_PROXY", "Proxy", "Transfer-Encoding2", "X", "-", "_", "A" * 3000,
         "Cookie", "Accept", "Content-Type", "REQUEST_METHOD", "Remote-User", "Status", "Upgrade", "TE", "Expect2", "X!#$%&'*+^`|~"]
VALUES = ["1", "", " ", "\xff" * 40, "a=b; c", "%00", "\t x \t", "x" * 30000, "CONTENT_LENGTH", "0", "chunked", "GET /evil HTTP/1.1", "x" * 255, "x" * 128]
TARGETS = ["/", "/a?raw=%00HTTPS%00on", "/a?raw=%0d%0a%0d%0aGET", "/?raw=" + "%00" * 50, "//evil/", "/a%2f..%2fb", "/?raw=" + "y" * 20000, "/%ff%fe", "/a+b"]


def head_of(chance):
    """A method, a target, fields and a body, with its framing."""
    fields = [(chance.choice(NAMES), chance.choice(VALUES)) for _ in range(chance.randrange(6))]
    body = bytes(chance.randrange(256) for _ in range(chance.choice((0, 0, 1, 5, 300))))
    if chance.randrange(8) == 0:
        body = body * 700
    return chance.choice(["GET", "POST", "PUT", "HEAD"]), chance.choice(TARGETS), fields, body


def raw_request(chance):
    method, target, fields, body = head_of(chance)
    lines = ["%s %s HTTP/1.1" % (method, target), "Host: a"] + ["%s: %s" % field for field in fields]
    if body and chance.randrange(2):
        lines.append("Transfer-Encoding: chunked")
        pieces, rest = [], body
        while rest:
            size = chance.randrange(1, len(rest) + 1)
            pieces.append(b"%x\r\n%s\r\n" % (size, rest[:size]))
            rest = rest[size:]
        data = b"".join(pieces) + b"0\r\n" + chance.choice([b"\r\n", b"X-Trailer: 1\r\n\r\n", b"Content-Length: 3\r\n\r\n"])
    else:
        lines.append("Content-Length: %d" % len(body))
        data = body
    if chance.randrange(6) == 0:
        lines.append(chance.choice(["Content-Length: 3", "Content-Length: +3", "Transfer-Encoding: gzip", "Transfer-Encoding: chunked, chunked", "content-length:0x3"]))
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1") + data, body


def check(strict, bodies, is_cut=False):
    """All packets are of requests that were sent, with nothing in them that was not asked for."""
    assert strict.faults == []
    for pairs, body in strict.packets:
        names = {name.decode("latin-1") for name, _ in pairs}
        assert all(name in OURS or name.startswith("HTTP_") for name in names), names
        values = dict(pairs)
        assert values[b"MARK"] == b"mark" and [name for name, _ in pairs].count(b"MARK") == 1
        # FastCGI frames a body: one that is still coming may have no length.
        if strict.name != "fastcgi" or values.get(b"CONTENT_LENGTH"):
            # A body that was refused on its way ends early, and with it the connection.
            length = int(values[b"CONTENT_LENGTH"] or b"0")
            assert len(body) == length or len(body) < length and is_cut, (length, len(body))
        assert body in bodies or is_cut and any(whole.startswith(body) for whole in bodies)
    assert len(strict.packets) > ROUNDS // 4


ROUNDS = 100


@pytest.mark.parametrize("seed", os.environ.get("TEST_SEEDS", "a").split())
@pytest.mark.parametrize("buffering", ["on", "off"])
@pytest.mark.parametrize("name", READERS)
def test_http1(serve, name, buffering, seed):
    strict = Strict(name)
    server = serve(HTTP % {"name": name, "port": strict.port, "buffering": buffering}, allow=["uwsgi request is too big"])
    chance, bodies = random.Random(seed), set([b""])
    for _ in range(ROUNDS):
        data, body = raw_request(chance)
        bodies.add(body)
        with Client(server.port) as client:
            try:
                client.send(data)
                client.response(data.split(b" ", 1)[0].decode())
            except (Closed, ProtocolError, OSError):
                pass
    check(strict, bodies)
    assert server.get("/fine").text == "fine"
    strict.close()


@pytest.mark.parametrize("name", READERS)
def test_http2(serve, name):
    """Without a Content-Length, with a wrong one, in frames of any size."""
    strict = Strict(name)
    server = serve(HTTP % {"name": name, "port": strict.port, "buffering": "off"}, allow=["uwsgi request is too big"])
    chance, bodies = random.Random("h2" + name), set([b""])
    for _ in range(ROUNDS // 2):
        _, target, fields, body = head_of(chance)
        fields = [(field.lower(), value.strip()) for field, value in fields if field.lower() not in ("te", "upgrade") and len(value) < 3000]
        if chance.randrange(2):
            fields.append(("content-length", str(len(body) + chance.choice((0, 0, 0, 1, -1)))))
        bodies.add(body)
        try:
            with H2(server.port) as client:
                client.get(target, method="POST", body=body, headers=fields)
        except Exception:       # noqa: BLE001: the server may refuse any of them in any way
            pass
    check(strict, bodies, is_cut=True)
    strict.close()
