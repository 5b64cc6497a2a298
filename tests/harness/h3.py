"""A client of HTTP/3 for tests: aioquic (auto/aioquic) on a socket of its own, without an event loop."""

import os
import select
import socket
import ssl
import sys
import time

_PLACE = os.path.join(os.path.dirname(__file__), "..", "..", "objs-tools", "aioquic")
sys.path.insert(0, _PLACE)  # with what it needs, which may be newer than Debian's

try:
    from aioquic.buffer import encode_uint_var
    from aioquic.h3 import events as h3_events
    from aioquic.h3.connection import H3Connection
    from aioquic.quic import events as quic_events
    from aioquic.quic.configuration import QuicConfiguration
    from aioquic.quic.connection import QuicConnection
    from aioquic.tls import Epoch
    HAS_AIOQUIC = True
except ImportError:
    HAS_AIOQUIC = False
sys.path.remove(_PLACE)

DATA, HEADERS, CANCEL_PUSH, SETTINGS, PUSH_PROMISE, GOAWAY, MAX_PUSH_ID = 0, 1, 3, 4, 5, 7, 13
PRIORITY_UPDATE = 0xf0700
NO_ERROR, GENERAL_PROTOCOL_ERROR, INTERNAL_ERROR, STREAM_CREATION_ERROR, CLOSED_CRITICAL_STREAM = range(0x100, 0x105)
FRAME_UNEXPECTED, FRAME_ERROR, EXCESSIVE_LOAD, ID_ERROR, SETTINGS_ERROR, MISSING_SETTINGS = range(0x105, 0x10b)
REQUEST_REJECTED, REQUEST_CANCELLED, REQUEST_INCOMPLETE, MESSAGE_ERROR = range(0x10b, 0x10f)
QPACK_DECOMPRESSION_FAILED, QPACK_ENCODER_STREAM_ERROR, QPACK_DECODER_STREAM_ERROR = range(0x200, 0x203)

if HAS_AIOQUIC:
    class _Http(H3Connection):
        def _check_content_length(self, stream):
            """It would have answers to HEAD, and 304, bring their bodies."""

PATIENCE = 20  # seconds for all that a test waits for


def frame(kind, payload=b""):
    return encode_uint_var(kind) + encode_uint_var(len(payload)) + payload


class Answer:
    """What came on a stream: heads in order, body, trailers, how it ended."""

    def __init__(self):
        self.heads, self.body, self.trailers = [], b"", None
        self.ended, self.reset, self.stopped = False, None, None

    @property
    def status(self):
        return int(self.final[b":status"]) if self.heads else None

    @property
    def final(self):
        return dict(self.heads[-1])

    @property
    def headers(self):
        return {name.decode(): value.decode() for name, value in self.heads[-1]}

    @property
    def is_over(self):
        return self.ended or self.reset is not None


class H3:
    """One connection. What is raw_* goes past aioquic's HTTP/3, to send what no client should."""

    def __init__(self, port, host="127.0.0.1", name="localhost", alpn=("h3",), connect=True, **more):
        settings = QuicConfiguration(is_client=True, alpn_protocols=list(alpn), server_name=name,
                                     verify_mode=ssl.CERT_NONE, **more)
        self.address = (host, port)
        self.socket = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.setblocking(False)
        self.quic = QuicConnection(configuration=settings)
        self.http = None
        self.answers = {}
        self.closed = None   # (code, reason) of the end
        self.established = False
        self.goaway = None
        if connect:
            self.connect()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def connect(self):
        self.quic.connect(self.address, now=time.time())
        self.shake_hands()

    def shake_hands(self):
        """What follows the first packets."""
        self.turn_until(lambda: self.established or self.closed)
        if self.established and self.quic.tls.alpn_negotiated == "h3":
            self.http = _Http(self.quic)
            self.flush()

    def close(self):
        if self.closed is None:
            self.quic.close(error_code=NO_ERROR)
            self.flush()
        self.socket.close()

    # packets

    def flush(self):
        for data, address in self.quic.datagrams_to_send(now=time.time()):
            self.socket.sendto(data, address)

    def turn(self, wait=0.0):
        """Sends what there is, and takes what came within `wait` seconds."""
        self.flush()
        timer = self.quic.get_timer()
        if timer is not None:
            wait = max(0.0, min(wait, timer - time.time()))
        if select.select([self.socket], [], [], wait)[0]:
            while True:
                try:
                    data, address = self.socket.recvfrom(65536)
                except (BlockingIOError, ConnectionRefusedError):
                    break
                self.quic.receive_datagram(data, address[:2], now=time.time())
        if timer is not None and time.time() >= timer:
            self.quic.handle_timer(now=time.time())
        self.take_events()
        self.flush()

    def turn_until(self, condition, patience=PATIENCE):
        end = time.time() + patience
        while not condition():
            assert time.time() < end, "nothing came in time"
            self.turn(0.2)

    def take_events(self):
        event = self.quic.next_event()
        while event is not None:
            self.take_event(event)
            event = self.quic.next_event()

    def take_event(self, event):
        if isinstance(event, quic_events.ConnectionTerminated):
            self.closed = (event.error_code, event.reason_phrase)
        elif isinstance(event, quic_events.HandshakeCompleted):
            self.established = True
        elif isinstance(event, quic_events.StreamReset):
            self.answer(event.stream_id).reset = event.error_code
        elif isinstance(event, quic_events.StopSendingReceived):
            self.answer(event.stream_id).stopped = event.error_code
        elif self.http is None and isinstance(event, quic_events.StreamDataReceived):
            answer = self.answer(event.stream_id)
            answer.body += event.data
            answer.ended |= event.end_stream
        if self.http is not None:
            for told in self.http.handle_event(event):
                self.take_told(told)

    def take_told(self, event):
        answer = self.answer(event.stream_id)
        if isinstance(event, h3_events.HeadersReceived):
            if answer.heads and not answer.final[b":status"].startswith(b"1"):
                answer.trailers = dict(event.headers)
            else:
                answer.heads.append(event.headers)
        elif isinstance(event, h3_events.DataReceived):
            answer.body += event.data
        answer.ended |= event.stream_ended

    def answer(self, stream):
        return self.answers.setdefault(stream, Answer())

    # requests

    @staticmethod
    def head(path="/", method="GET", authority="localhost", headers=(), scheme="https"):
        pseudo = [(b":method", method.encode()), (b":scheme", scheme.encode()),
                  (b":authority", authority.encode()), (b":path", path.encode())]
        return pseudo + [(name.encode(), value.encode()) for name, value in headers]

    def send(self, path="/", method="GET", body=None, end=True, **more):
        """A request; gives its stream."""
        return self.send_head(self.head(path, method, **more), body, end)

    def send_head(self, head, body=None, end=True):
        stream = self.quic.get_next_available_stream_id()
        self.http.send_headers(stream, head, end_stream=end and body is None)
        if body is not None:
            self.http.send_data(stream, body, end_stream=end)
        self.flush()
        return stream

    def send_body(self, stream, data, end=False):
        self.http.send_data(stream, data, end_stream=end)
        self.flush()

    def wait(self, stream):
        """The whole answer on a stream, or how it ended."""
        self.turn_until(lambda: self.answer(stream).is_over or self.closed)
        return self.answer(stream)

    def get(self, path="/", method="GET", body=None, **more):
        return self.wait(self.send(path, method, body, **more))

    # what no client should send

    def section(self, head):
        """A field section with literals only."""
        block = b"\0\0"
        for name, value in head:
            block += self._integer(0x20, 3, len(name)) + name + self._integer(0, 7, len(value)) + value
        return block

    @staticmethod
    def _integer(first, bits, value):
        most = (1 << bits) - 1
        if value < most:
            return bytes([first | value])
        out = bytes([first | most])
        value -= most
        while value >= 128:
            out += bytes([value & 127 | 128])
            value >>= 7
        return out + bytes([value])

    def raw(self, stream, data, end=False):
        self.quic.send_stream_data(stream, data, end)
        self.flush()

    def raw_stream(self, data=b"", end=False, one_way=False):
        stream = self.quic.get_next_available_stream_id(is_unidirectional=one_way)
        self.raw(stream, data, end)
        return stream

    def raw_packets(self, payload, count):
        """So many packets with these frames, sent together: aioquic knows nothing of them."""
        packets = []
        for _ in range(count):
            head = bytes([0x43]) + self.quic._peer_cid.cid + self.quic._packet_number.to_bytes(4, "big")
            packets.append(self.quic._cryptos[Epoch.ONE_RTT].encrypt_packet(head, payload, self.quic._packet_number))
            self.quic._packet_number += 1
        for packet in packets:
            self.socket.sendto(packet, self.address)

    def wait_closed(self):
        """The code with which the server has closed the connection."""
        self.turn_until(lambda: self.closed)
        return self.closed[0]
