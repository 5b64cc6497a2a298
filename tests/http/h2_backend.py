"""A backend that speaks HTTP/2 frame by frame, as a test's script says; sends what RFC 9113 forbids as readily."""

import socket
import threading

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, PRIORITY, RST, SETTINGS, PUSH, PING, GOAWAY, WINDOW, CONTINUATION = range(10)
END_STREAM, ACK, END_HEADERS = 1, 1, 4

STATIC = [None, (":authority", ""), (":method", "GET"), (":method", "POST"), (":path", "/"),
          (":path", "/index.html"), (":scheme", "http"), (":scheme", "https")] + \
    [(":status", code) for code in "200 204 206 304 400 404 500".split()] + \
    [(name, "") for name in
     "accept-charset accept-encoding accept-language accept-ranges accept "
     "access-control-allow-origin age allow authorization cache-control content-disposition "
     "content-encoding content-language content-length content-location content-range "
     "content-type cookie date etag expect expires from host if-match if-modified-since "
     "if-none-match if-range if-unmodified-since last-modified link location max-forwards "
     "proxy-authenticate proxy-authorization range referer refresh retry-after server set-cookie "
     "strict-transport-security transfer-encoding user-agent vary via www-authenticate".split()]

# Lengths of the codes of bytes 0 to 255 and of the end (RFC 7541, appendix B).
CODE_BITS = [int(text) for text in (
    "13 23 28 28 28 28 28 28 28 24 30 28 28 30 28 28 28 28 28 28 28 28 30 28 28 28 28 28 28 28 28 28 "
    "6 10 10 12 13 6 8 11 10 10 8 11 8 6 6 6 5 5 5 6 6 6 6 6 6 6 7 8 15 6 12 10 "
    "13 6 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 8 7 8 13 19 13 14 6 "
    "15 5 6 5 6 5 6 6 6 5 7 7 6 6 6 5 6 7 6 5 5 6 7 7 7 7 7 15 11 14 13 28 "
    "20 22 20 20 22 22 22 23 22 23 23 23 23 23 24 23 24 24 22 23 24 23 23 23 23 21 22 23 22 23 23 24 "
    "22 21 20 22 22 23 23 21 23 22 22 24 21 22 23 23 21 21 22 21 23 22 23 23 20 22 22 22 23 22 22 23 "
    "26 26 20 19 22 23 22 25 26 26 26 27 27 26 24 25 19 21 26 27 27 26 27 24 21 21 26 26 28 27 27 27 "
    "20 24 20 21 22 21 21 23 22 22 25 25 24 24 26 23 26 27 26 26 27 27 27 27 27 28 27 27 27 27 27 26 "
    "30").split()]


def _codes():
    codes, code = {}, 0
    for bits in range(1, 31):
        code <<= 1
        for symbol, length in enumerate(CODE_BITS):
            if length == bits:
                codes[(bits, code)] = symbol
                code += 1
    return codes


CODES = _codes()


def unpack_text(data):
    out, code, bits = bytearray(), 0, 0
    for byte in data:
        for shift in range(7, -1, -1):
            code, bits = code << 1 | byte >> shift & 1, bits + 1
            if (bits, code) in CODES:
                out.append(CODES[(bits, code)])
                code = bits = 0
    assert bits < 8 and code == (1 << bits) - 1, "padding"
    return bytes(out)


def _integer(data, at, bits):
    value = data[at] & (1 << bits) - 1
    at += 1
    if value == (1 << bits) - 1:
        shift = 0
        while True:
            byte = data[at]
            at += 1
            value += (byte & 127) << shift
            shift += 7
            if byte < 128:
                break
    return value, at


def _string(data, at):
    packed = data[at] & 128
    length, at = _integer(data, at, 7)
    text = data[at:at + length]
    assert len(text) == length
    return (unpack_text(text) if packed else bytes(text)).decode("latin-1"), at + length


def decode_block(data, table=None):
    """[(name, value)]; table is the dynamic one, newest first, where there may be one."""
    at, fields = 0, []

    def known(index):
        return STATIC[index] if index < len(STATIC) else table[index - len(STATIC)]

    while at < len(data):
        if data[at] & 128:
            index, at = _integer(data, at, 7)
            fields.append(known(index))
        elif data[at] & 0xe0 == 0x20:
            _, at = _integer(data, at, 5)
        else:
            inserted = bool(data[at] & 0x40)
            assert not inserted or table is not None
            index, at = _integer(data, at, 6 if inserted else 4)
            if index:
                name = known(index)[0]
            else:
                name, at = _string(data, at)
            value, at = _string(data, at)
            fields.append((name, value))
            if inserted:
                table.insert(0, (name, value))
    return fields


def _put_integer(first, bits, value):
    most = (1 << bits) - 1
    if value < most:
        return bytes([first | value])
    out = bytearray([first | most])
    value -= most
    while value >= 128:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def block(*fields):
    """Literals without indexing, not packed."""
    out = b""
    for name, value in fields:
        name, value = name.encode("latin-1"), value.encode("latin-1")
        out += b"\0" + _put_integer(0, 7, len(name)) + name + _put_integer(0, 7, len(value)) + value
    return out


def frame(kind, flags, stream, payload=b""):
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


def u32(number):
    return number.to_bytes(4, "big")


class Request:
    def __init__(self, stream, fields, ended):
        self.stream, self.fields, self.ended = stream, fields, ended

    def __getitem__(self, name):
        values = [value for key, value in self.fields if key == name]
        assert len(values) < 2, values
        return values[0] if values else None


class Connection:
    """One accepted connection. `frames` holds all that came: (type, flags, stream, payload)."""

    def __init__(self, sock, number):
        self.socket, self.number = sock, number
        self.frames = []
        self.settings_sent = 0
        sock.settimeout(10)
        assert self._take(24) == PREFACE

    def _take(self, size):
        data = b""
        while len(data) < size:
            more = self.socket.recv(size - len(data))
            if not more:
                raise EOFError
            data += more
        return data

    def send(self, *frames):
        self.socket.sendall(b"".join(frames))

    def read(self):
        head = self._take(9)
        got = (head[3], head[4], int.from_bytes(head[5:], "big"), self._take(int.from_bytes(head[:3], "big")))
        self.frames.append(got)
        return got

    def wait(self, kind, stream=None, flags=None):
        """The next frame of that kind."""
        while True:
            got = self.read()
            if got[0] == kind and stream in (None, got[2]) and flags in (None, got[1]):
                return got

    def settings(self, payload):
        self.settings_sent += 1
        self.send(frame(SETTINGS, 0, 0, payload))

    def wait_settled(self):
        """Waits until the peer has acknowledged all settings; it may have done so before what was read last."""
        while sum(got[:2] == (SETTINGS, ACK) for got in self.frames) < self.settings_sent:
            self.read()

    def request(self):
        """The next header block, as a Request."""
        _, flags, stream, payload = self.wait(HEADERS)
        ended = flags & END_STREAM
        while not flags & END_HEADERS:
            _, flags, _, more = self.wait(CONTINUATION)
            payload += more
        return Request(stream, decode_block(payload), bool(ended))

    def body(self, request, most=None):
        """The request's body to its end, or `most` bytes of it."""
        data = b""
        while not request.ended and (most is None or len(data) < most):
            _, flags, _, payload = self.wait(DATA, request.stream)
            data += payload
            request.ended = bool(flags & END_STREAM)
        return data

    def answer(self, request, body=b"", fields=(), status="200", trailers=None):
        head = frame(HEADERS, END_HEADERS | (END_STREAM if not body and trailers is None else 0),
                     request.stream, block((":status", status), *fields))
        parts = [head]
        if body or trailers is not None:
            for at in range(0, max(len(body), 1), 16384):
                last = at + 16384 >= len(body) and trailers is None
                parts.append(frame(DATA, END_STREAM if last else 0, request.stream, body[at:at + 16384]))
        if trailers is not None:
            parts.append(frame(HEADERS, END_HEADERS | END_STREAM, request.stream, block(*trailers)))
        self.send(*parts)


class H2Backend:
    """Each connection is given to script(connection); its failures are in `problems`."""

    def __init__(self, script, settings=b""):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.script, self.settings = script, settings
        self.connections = []
        self.problems = []
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        while True:
            try:
                sock = self.listener.accept()[0]
            except OSError:
                return
            threading.Thread(target=self._talk, args=(sock,), daemon=True).start()

    def _talk(self, sock):
        with sock:
            try:
                conn = Connection(sock, len(self.connections) + 1)
                self.connections.append(conn)
                if self.settings is not None:
                    conn.settings(self.settings)
                self.script(conn)
            except (EOFError, OSError):
                pass
            except AssertionError as problem:
                self.problems.append(problem)

    def close(self):
        self.listener.close()
        assert not self.problems, self.problems


def each(answer):
    """A script: answer(connection, request) for request after request."""
    def script(conn):
        while True:
            answer(conn, conn.request())
    return script
