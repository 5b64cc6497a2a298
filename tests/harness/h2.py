"""A small HTTP/2 client: frames by hand, so that wrong ones can be sent, too. Header blocks by python3-hpack."""

import socket
import struct

import hpack

DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, \
    CONTINUATION = range(10)
PRIORITY_UPDATE = 0x10
END_STREAM, ACK, END_HEADERS, PADDED, WITH_PRIORITY = 1, 1, 4, 8, 0x20
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
NO_ERROR, PROTOCOL_ERROR, INTERNAL_ERROR, FLOW_CONTROL_ERROR, SETTINGS_TIMEOUT, STREAM_CLOSED, \
    FRAME_SIZE_ERROR, REFUSED_STREAM, CANCEL, COMPRESSION_ERROR, CONNECT_ERROR, CALM = range(12)


class Frame:
    def __init__(self, kind, flags, stream, payload):
        self.kind, self.flags, self.stream, self.payload = kind, flags, stream, payload

    def __repr__(self):
        return "Frame(%d, %d, %d, %r)" % (self.kind, self.flags, self.stream, self.payload[:40])

    @property
    def code(self):
        """The error code of RST_STREAM and GOAWAY."""
        return struct.unpack("!I", self.payload[4:8] if self.kind == GOAWAY else self.payload[:4])[0]


class Answer:
    """What came for a stream."""

    def __init__(self):
        self.heads = []       # lists of pairs, interim ones and trailers, too
        self.body = b""
        self.reset = None     # the code of RST_STREAM
        self.is_whole = False
        self.frames = []      # sizes of DATA frames

    @property
    def interim(self):
        return [head for head in self.heads if dict(head).get(":status", "")[:1] == "1"]

    @property
    def final(self):
        return [head for head in self.heads if dict(head).get(":status", "1")[:1] != "1"][0]

    @property
    def status(self):
        return int(dict(self.final)[":status"])

    @property
    def headers(self):
        return dict(self.final)

    @property
    def trailers(self):
        return [head for head in self.heads if ":status" not in dict(head)]


class H2:
    """A connection. settings: {id: value} of the first SETTINGS; acknowledges: that of the server, at once."""

    def __init__(self, port, settings=None, before=b"", sock=None, timeout=30):
        self.socket = sock or socket.create_connection(("127.0.0.1", port))
        self.socket.settimeout(timeout)
        self.encoder = hpack.Encoder()
        self.decoder = hpack.Decoder()
        self.answers = {}
        self.next_stream = 1
        self.buffer = b""
        self.goaway = None
        self.is_closed = False
        self.others = []      # frames of the connection that nobody waited for
        self.settings = {}    # the server's
        self.acknowledges = True
        self.resets = 0       # RST_STREAM frames that came
        self.socket.sendall(before + PREFACE)
        self.send_settings(settings or {})

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    # sending

    def send(self, kind, flags=0, stream=0, payload=b""):
        self.socket.sendall(self.frame(kind, flags, stream, payload))

    @staticmethod
    def frame(kind, flags=0, stream=0, payload=b""):
        return struct.pack("!I", len(payload))[1:] + struct.pack("!BBI", kind, flags, stream) + payload

    def send_settings(self, settings):
        self.send(SETTINGS, 0, 0, b"".join(struct.pack("!HI", *pair) for pair in settings.items()))

    def block(self, path="/", method="GET", headers=(), authority="localhost", scheme="http", pseudo=None):
        fields = [(":method", method), (":scheme", scheme), (":path", path), (":authority", authority)]
        return self.encoder.encode((fields if pseudo is None else pseudo) + list(headers))

    def request(self, path="/", method="GET", headers=(), body=None, ends=True, **more):
        """HEADERS, and DATA when there is a body. Gives the stream."""
        stream = self.next_stream
        self.next_stream += 2
        is_last = body is None and ends
        block = self.block(path, method, headers, **more)
        kind, flags = HEADERS, END_STREAM if is_last else 0
        while len(block) > 16384:
            self.send(kind, flags, stream, block[:16384])
            kind, flags, block = CONTINUATION, 0, block[16384:]
        self.send(kind, flags | END_HEADERS, stream, block)
        if body is not None:
            self.data(stream, body, ends)
        return stream

    def data(self, stream, body, ends=True):
        for at in range(0, max(len(body), 1), 16384):
            part = body[at:at + 16384]
            is_last = ends and at + 16384 >= len(body)
            self.send(DATA, END_STREAM if is_last else 0, stream, part)

    def window(self, by, stream=0):
        self.send(WINDOW_UPDATE, 0, stream, struct.pack("!I", by))

    def ping(self, payload=b"12345678"):
        self.send(PING, 0, 0, payload)

    # receiving

    def read(self):
        """The next frame, or None at the end of the connection."""
        while len(self.buffer) < 9 or len(self.buffer) < 9 + int.from_bytes(self.buffer[:3], "big"):
            try:
                got = self.socket.recv(65536)
            except ConnectionError:
                got = b""
            if not got:
                self.is_closed = True
                return None
            self.buffer += got
        size = int.from_bytes(self.buffer[:3], "big")
        kind, flags, stream = struct.unpack("!BBI", self.buffer[3:9])
        frame = Frame(kind, flags, stream, self.buffer[9:9 + size])
        self.buffer = self.buffer[9 + size:]
        self.take(frame)
        return frame

    def take(self, frame):
        answer = self.answers.setdefault(frame.stream, Answer()) if frame.stream else None
        if frame.kind == HEADERS:
            block = frame.payload
            while not frame.flags & END_HEADERS:
                more = self.read()
                assert more.kind == CONTINUATION and more.stream == frame.stream, more
                block += more.payload
                frame.flags |= more.flags & END_HEADERS
            answer.heads.append([(pair[0], pair[1]) for pair in self.decoder.decode(block)])
        elif frame.kind == DATA:
            answer.body += frame.payload
            answer.frames.append(len(frame.payload))
        elif frame.kind == RST_STREAM:
            answer.reset = frame.code
            self.resets += 1
        elif frame.kind == GOAWAY:
            self.goaway = frame
        elif frame.kind == SETTINGS and not frame.flags & ACK:
            for at in range(0, len(frame.payload), 6):
                number, value = struct.unpack("!HI", frame.payload[at:at + 6])
                self.settings[number] = value
            if self.acknowledges:
                self.send(SETTINGS, ACK)
        else:
            self.others.append(frame)
        if frame.kind in (HEADERS, DATA) and frame.flags & END_STREAM:
            answer.is_whole = True

    def until(self, wanted):
        """Reads until wanted(frame) is true and gives that frame; None: the connection ended before."""
        while True:
            frame = self.read()
            if frame is None or wanted(frame):
                return frame

    def answer(self, stream):
        """Reads until the stream is answered or reset."""
        while True:
            answer = self.answers.get(stream)
            if answer is not None and (answer.is_whole or answer.reset is not None):
                return answer
            assert self.read() is not None, "the connection ended: %r" % self.goaway

    def get(self, path="/", method="GET", headers=(), body=None, **more):
        return self.answer(self.request(path, method, headers, body, **more))

    def is_alive(self):
        """Does a PING come back?"""
        self.ping(b"are you?")
        return self.until(lambda f: f.kind == PING and f.flags & ACK) is not None

    def expect_goaway(self, code):
        """Reads to the end of the connection; it has to have said why."""
        while self.read() is not None:
            pass
        assert self.goaway is not None and self.goaway.code == code, self.goaway
