"""TLS by hand, as far as the server's first answer: a ClientHello of any kind, what ServerHello or alert came of it
(RFC 8446, 4.1; RFC 5246, 7.4.1)."""

import os
import socket
import struct

SSL3, TLS10, TLS11, TLS12, TLS13 = 0x300, 0x301, 0x302, 0x303, 0x304
HANDSHAKE, ALERT, APPLICATION_DATA, HEARTBEAT = 22, 21, 23, 24
NAME, OCSP, GROUPS, FORMATS, SIGNATURES, HEARTBEATS, ALPN, EXTENDED_SECRET, TICKET, VERSIONS, PSK_MODES, SHARES, \
    RENEGOTIATION = 0, 5, 10, 11, 13, 15, 16, 23, 35, 43, 45, 51, 0xff01
# Descriptions of alerts
UNEXPECTED_MESSAGE, RECORD_OVERFLOW, HANDSHAKE_FAILURE, ILLEGAL_PARAMETER, DECODE_ERROR, PROTOCOL_VERSION, \
    INAPPROPRIATE_FALLBACK, UNRECOGNIZED_NAME, NO_APPLICATION_PROTOCOL = 10, 22, 40, 47, 50, 70, 86, 112, 120

SUITES_13 = [0x1301, 0x1302, 0x1303]
SUITES_12 = [0xc02b, 0xc02f, 0xc02c, 0xc030, 0xcca9, 0xcca8]    # ECDHE with AEAD
FALLBACK = 0x5600


def vector(size, data):
    """Bytes with their length in front, of `size` bytes."""
    return len(data).to_bytes(size, "big") + data


def extension(number, data=b""):
    return struct.pack("!H", number) + vector(2, data)


def name(text):
    return extension(NAME, vector(2, b"\0" + vector(2, text.encode("latin-1"))))


def alpn(*names):
    return extension(ALPN, vector(2, b"".join(vector(1, one.encode()) for one in names)))


def versions(*numbers):
    return extension(VERSIONS, vector(1, struct.pack("!%dH" % len(numbers), *numbers)))


def usual(version):
    """The extensions that every client sends."""
    made = (extension(GROUPS, vector(2, struct.pack("!3H", 29, 23, 24))) + extension(FORMATS, b"\1\0")
            + extension(SIGNATURES, vector(2, bytes.fromhex("0403080404010503080505010806060102010203"))))
    if version >= TLS13:
        made += (versions(TLS13) + extension(PSK_MODES, b"\1\1")
                 + extension(SHARES, vector(2, struct.pack("!H", 29) + vector(2, b"\x09" + bytes(31)))))
    return made


def hello(version=TLS12, suites=None, more=b"", extensions=None, session=b"", compressions=b"\0"):
    """The handshake message. extensions: all of them, instead of the usual ones and `more`."""
    if suites is None:
        suites = SUITES_13 if version >= TLS13 else SUITES_12
    if extensions is None:
        extensions = usual(version) + more
    body = (struct.pack("!H", min(version, TLS12)) + os.urandom(32) + vector(1, session)
            + vector(2, struct.pack("!%dH" % len(suites), *suites)) + vector(1, compressions))
    if version > SSL3:
        body += vector(2, extensions)
    return b"\1" + vector(3, body)


def record(payload, kind=HANDSHAKE, version=TLS10):
    return struct.pack("!BH", kind, version) + vector(2, payload)


class Answer:
    """alert: its description, or None. version, suite, compression, session, extensions: of ServerHello; version is
    None when there was none. data: every byte that came."""

    def __init__(self, data):
        self.data = data
        self.alert = self.version = self.suite = self.compression = self.session = None
        self.extensions = {}
        messages = b""
        for kind, payload in records(data):
            if kind == ALERT and len(payload) == 2 and self.alert is None:
                self.alert = payload[1]
            elif kind == HANDSHAKE:
                messages += payload
        if messages[:1] == b"\2":
            self._server_hello(messages[4:4 + int.from_bytes(messages[1:4], "big")])

    def _server_hello(self, body):
        self.version = int.from_bytes(body[:2], "big")
        at = 35 + body[34]
        self.session = body[35:at]
        self.suite, self.compression = struct.unpack("!HB", body[at:at + 3])
        at += 5
        while at < len(body):
            number, size = struct.unpack("!HH", body[at:at + 4])
            self.extensions[number] = body[at + 4:at + 4 + size]
            at += 4 + size
        if VERSIONS in self.extensions:
            self.version = int.from_bytes(self.extensions[VERSIONS], "big")


def records(data):
    """Kind and payload of each whole record."""
    while len(data) >= 5 and len(data) >= 5 + int.from_bytes(data[3:5], "big"):
        size = int.from_bytes(data[3:5], "big")
        yield data[0], data[5:5 + size]
        data = data[5 + size:]


def send(port, *parts, timeout=10):
    """Sends the parts, each in a packet of its own, the second after the first was answered; then, that no more comes.
    Gives all that the server sends until it closes."""
    got = b""
    with socket.create_connection(("127.0.0.1", port), timeout=timeout) as link:
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            for number, part in enumerate(parts):
                if number == 1:
                    got += link.recv(65536)
                link.sendall(part)
            link.shutdown(socket.SHUT_WR)
        except OSError as error:
            if isinstance(error, socket.timeout):
                raise
        # What has come is there even after a reset, up to it.
        try:
            while True:
                part = link.recv(65536)
                if not part:
                    break
                got += part
        except ConnectionError:
            pass
    return got


def offer(port, *args, **how):
    """The server's answer to a ClientHello."""
    return Answer(send(port, record(hello(*args, **how))))
