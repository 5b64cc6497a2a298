"""A raw HTTP/1.x client: sends exactly the bytes it is given, reads with a strict parser."""

import re
import select
import socket
import time

# Seconds that one read may take before it counts as an answer that never comes.
READ_LIMIT = 30.0

_status_line = re.compile(rb"HTTP/(1\.[01]) ([1-9][0-9][0-9])(?: ([\x20-\x7e]*))?\Z")
_header_line = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):(?: (.*))?\Z", re.DOTALL)
_chunk_line = re.compile(rb"([0-9a-fA-F]{1,16})\Z")


class ProtocolError(AssertionError):
    """The server sent something that is not HTTP/1.x."""


class Closed(AssertionError):
    """The server closed the connection where an answer was expected. `rest` holds what came."""

    def __init__(self, rest=b"", reset=False):
        super().__init__("connection %s after %r" % ("reset" if reset else "closed", rest[-200:]))
        self.rest = rest
        self.reset = reset


class Timeout(AssertionError):
    """Nothing came in time. `rest` holds what had come before."""

    def __init__(self, rest=b""):
        super().__init__("no answer in time, after %r" % rest[-200:])
        self.rest = rest


class Response:
    """One parsed response.

    version "1.1", status 200, reason "OK", headers [(name, value)] in order as latin-1 text,
    body bytes (decoded), head bytes as received, trailers [(name, value)], chunks [size] or None
    when not chunked, interim [Response] for the 1xx before it, framing "length", "chunked",
    "close" or "none".
    """

    def __init__(self, version, status, reason, headers, head):
        self.version = version
        self.status = status
        self.reason = reason
        self.headers = headers
        self.head = head
        self.body = b""
        self.trailers = []
        self.chunks = None
        self.interim = []
        self.framing = "none"

    def all(self, name):
        """Every value of that header, in order."""
        return [value for key, value in self.headers if key.lower() == name.lower()]

    def header(self, name, default=None):
        """The value of that header; AssertionError when it is there twice."""
        values = self.all(name)
        assert len(values) < 2, "%s stands %d times: %r" % (name, len(values), values)
        return values[0] if values else default

    @property
    def text(self):
        return self.body.decode("latin-1")

    @property
    def closes(self):
        """True when the head says that the connection ends after this response."""
        tokens = [token.strip().lower() for value in self.all("Connection")
                  for token in value.split(",")]
        if "close" in tokens or self.framing == "close":
            return True
        return self.version == "1.0" and "keep-alive" not in tokens

    def __repr__(self):
        return "<%d %s %r %r>" % (self.status, self.reason, self.headers, self.body[:200])


class Client:
    """One connection. address is a port on 127.0.0.1, (host, port), or a unix socket's path."""

    def __init__(self, address, limit=READ_LIMIT, source=None, rcvbuf=None):
        self.limit = limit
        self.buffer = b""
        self.eof = False
        if isinstance(address, int):
            address = ("127.0.0.1", address)
        if isinstance(address, str):
            self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        else:
            family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
            self.socket = socket.socket(family, socket.SOCK_STREAM)
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if rcvbuf is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, rcvbuf)
        if source is not None:
            self.socket.bind(source)
        self.socket.settimeout(limit)
        try:
            self.socket.connect(address)
        except OSError:
            self.socket.close()
            raise

    # sending

    def send(self, data):
        """Sends bytes (or latin-1 text). A peer that has gone is no error: reading tells."""
        if isinstance(data, str):
            data = data.encode("latin-1")
        try:
            self.socket.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            pass
        return self

    def request(self, target="/", *headers, method="GET", version="1.1", host="localhost",
                body=None, close=False):
        """Sends one ordinary request and reads its response."""
        lines = ["%s %s HTTP/%s" % (method, target, version)]
        if host is not None:
            lines.append("Host: " + host)
        if close:
            lines.append("Connection: close")
        lines.extend(headers)
        data = b""
        if body is not None:
            data = body.encode("latin-1") if isinstance(body, str) else body
            lines.append("Content-Length: %d" % len(data))
        self.send("\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + data)
        return self.response(method)

    # reading

    def _fill(self, end):
        """Reads more into the buffer; False at the end of the stream."""
        if self.eof:
            return False
        left = end - time.monotonic()
        if left <= 0:
            raise Timeout(self.buffer)
        self.socket.settimeout(left)
        try:
            data = self.socket.recv(262144)
        except socket.timeout:
            raise Timeout(self.buffer) from None
        except ConnectionResetError:
            self.eof = True
            raise Closed(self.buffer, reset=True) from None
        if not data:
            self.eof = True
            return False
        self.buffer += data
        return True

    def _take(self, count, end):
        while len(self.buffer) < count:
            if not self._fill(end):
                raise Closed(self.buffer)
        data, self.buffer = self.buffer[:count], self.buffer[count:]
        return data

    def _take_line(self, end, most=262144):
        while True:
            at = self.buffer.find(b"\r\n")
            if at >= 0:
                line, self.buffer = self.buffer[:at], self.buffer[at + 2:]
                return line
            if len(self.buffer) > most:
                raise ProtocolError("line of over %d bytes" % most)
            if not self._fill(end):
                raise Closed(self.buffer)

    def _header_lines(self, end):
        headers, raw = [], b""
        while True:
            line = self._take_line(end)
            raw += line + b"\r\n"
            if not line:
                return headers, raw
            match = _header_line.match(line)
            if not match:
                raise ProtocolError("bad header line %r" % line)
            value = match.group(2) or b""
            if re.search(rb"[\x00-\x08\x0a-\x1f\x7f]", value):
                raise ProtocolError("control byte in header line %r" % line)
            headers.append((match.group(1).decode("latin-1"), value.decode("latin-1")))

    def head(self, end=None):
        """Reads a response head alone and gives a Response without a body."""
        end = end or time.monotonic() + self.limit
        line = self._take_line(end)
        match = _status_line.match(line)
        if not match:
            raise ProtocolError("bad status line %r" % line)
        headers, raw = self._header_lines(end)
        return Response(match.group(1).decode(), int(match.group(2)),
                        (match.group(3) or b"").decode("latin-1"), headers, line + b"\r\n" + raw)

    def response(self, method="GET"):
        """Reads the next final response, with the 1xx ones before it in .interim."""
        end = time.monotonic() + self.limit
        interim = []
        while True:
            response = self.head(end)
            if response.status >= 200 or response.status == 101:
                break
            interim.append(response)
        response.interim = interim
        self._body(response, method, end)
        return response

    def _body(self, response, method, end):
        length = response.all("Content-Length")
        coding = response.all("Transfer-Encoding")
        if len(length) > 1 or len(coding) > 1 or (length and coding):
            raise ProtocolError("ambiguous framing in %r" % response.head)
        if length and not re.fullmatch(r"[0-9]{1,19}", length[0]):
            raise ProtocolError("bad length in %r" % response.head)
        if coding and coding[0] != "chunked":
            raise ProtocolError("unknown transfer coding in %r" % response.head)
        if method == "HEAD" or response.status in (204, 304):
            if response.status == 204 and (length or coding):
                raise ProtocolError("framing headers in a 204: %r" % response.head)
            return
        if coding:
            response.framing = "chunked"
            self._chunked(response, end)
        elif length:
            response.framing = "length"
            response.body = self._take(int(length[0]), end)
        else:
            response.framing = "close"
            response.body = self.rest()

    def _chunked(self, response, end):
        response.chunks = []
        pieces = []
        while True:
            line = self._take_line(end)
            match = _chunk_line.match(line)
            if not match:
                raise ProtocolError("bad chunk line %r" % line)
            size = int(match.group(1), 16)
            if size == 0:
                response.trailers, _ = self._header_lines(end)
                break
            response.chunks.append(size)
            pieces.append(self._take(size, end))
            if self._take(2, end) != b"\r\n":
                raise ProtocolError("chunk without CRLF at its end")
        response.body = b"".join(pieces)

    def rest(self):
        """Reads until the server closes and gives every byte. Raises Timeout if it does not."""
        end = time.monotonic() + self.limit
        while self._fill(end):
            pass
        data, self.buffer = self.buffer, b""
        return data

    def rest_or_reset(self):
        """As rest(), but a reset is an end too."""
        try:
            return self.rest()
        except Closed as closed:
            self.buffer = b""
            return closed.rest

    def expect_closed(self):
        """Waits for the server to close; nothing may come before that."""
        data = self.rest_or_reset()
        assert data == b"", "bytes before the close: %r" % data[:300]

    def readable(self, seconds):
        """True when bytes, or the end, came within so many seconds."""
        return bool(self.buffer) or bool(select.select([self.socket], [], [], seconds)[0])

    def recv(self, count=65536):
        """One plain read (buffer first)."""
        if self.buffer:
            data, self.buffer = self.buffer[:count], self.buffer[count:]
            return data
        self.socket.settimeout(self.limit)
        return self.socket.recv(count)

    # the socket

    @property
    def port(self):
        """The local port of this connection."""
        return self.socket.getsockname()[1]

    def half_close(self):
        self.socket.shutdown(socket.SHUT_WR)

    def reset(self):
        """Closes with RST."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        self.socket.close()

    def close(self):
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
