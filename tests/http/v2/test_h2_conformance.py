"""HTTP/2 frames and streams: a row for each rule of RFC 9113, sections 3.4 to 6.10, in the clear and over TLS.

Rules that are checked elsewhere: response windows of single bytes, more body than the window, bodies unlike their
length (test_http_v2.py), floods (test_http_v2_guards.py), messages and header compression
(test_h2_conformance_messages.py)."""

import struct

import pytest

import certificates
from harness import h2
from harness.conformance import (BIG, Answers, Ends, Ignores, Refuses, Resets,
                                 Row, answered, connect, data, frame, headers, heard, number, plug, post,
                                 request, reset, settings, server_of, table, was_reset, window)
from harness.h2 import (ACK, COMPRESSION_ERROR, CONTINUATION, DATA, END_HEADERS, END_STREAM,
                        FLOW_CONTROL_ERROR, FRAME_SIZE_ERROR, GOAWAY, HEADERS, PADDED, PING, PRIORITY,
                        PROTOCOL_ERROR, PUSH_PROMISE, REFUSED_STREAM, RST_STREAM, SETTINGS, STREAM_CLOSED,
                        WINDOW_UPDATE, WITH_PRIORITY)

INITIAL_WINDOW, MAX_FRAME, ENABLE_PUSH, NO_PRIORITIES = 4, 5, 2, 9
BLOCK = request()
MOST = 2 ** 31 - 1
FRAME_MOST = 2 ** 20            # the server's SETTINGS_MAX_FRAME_SIZE
HELD = {INITIAL_WINDOW: 0}      # nothing of a body comes: streams stay half-closed


@pytest.fixture(name="server", scope="module")
def _server():
    with server_of(certificates.own("h2")).start() as server:
        yield server



def _head(kind, stream, length):
    """The head of a frame, and nothing of what it announces."""
    return struct.pack("!I", length)[1:] + struct.pack("!BBI", kind, 0, stream)


FRAMES = [
    Row("4.1", "a frame of an unknown type is ignored", [frame(0xf7, 0, 0, b"what"), headers()], Answers()),
    Row("4.1", "one on a stream that is idle, too", [frame(0xf7, 0xff, 5, b"what"), headers()], Answers()),
    Row("4.1", "flags without a meaning are ignored", [frame(PING, 0xf6, 0, b"12345678"), headers()], Answers()),
    Row("4.1", "flags without a meaning at HEADERS", headers(flags=END_HEADERS | END_STREAM | 0xd2), Answers()),
    Row("4.1", "the reserved bit is ignored", frame(HEADERS, 5, 0x80000001, BLOCK), Answers()),
    Row("4.1", "the reserved bit of PING's stream", [frame(PING, 0, 0x80000000, b"12345678"), headers()], Answers()),
    Row("4.2", "16,384 bytes are not too large", [post(), data(1, b"x" * 16384)], Answers(body=b"got 16384")),
    Row("4.2", "DATA as large as the server allows", [
        post(), heard, data(1, b"x" * 60000, 0), heard, frame(0xf7, 0, 0, bytes(FRAME_MOST)), data(1, b"x" * 5000)],
        Answers(body=b"got 65000")),
    *[Row("4.2", "a frame that is too large by a byte: %s" % name, [post(), _head(kind, stream, FRAME_MOST + 1)],
          Refuses(FRAME_SIZE_ERROR)) for name, kind, stream in (
              ("DATA", DATA, 1), ("HEADERS", HEADERS, 3), ("CONTINUATION", HEADERS, 3), ("SETTINGS", SETTINGS, 0),
              ("of an unknown type", 0xf7, 0))],
    Row("4.2", "length of 2^24-1 and silence", _head(DATA, 1, 2 ** 24 - 1), Ends(FRAME_SIZE_ERROR)),
    Row("4.2", "HEADERS of 20,000 bytes", headers(block=request("/a.txt", "GET", *[
        ("x-%d" % part, "y" * 5000) for part in range(4)])), Answers()),
    Row("4.3", "a block that does not decode", headers(block=b"\x40"), Ends(COMPRESSION_ERROR)),
    Row("4.3", "a block that ends in the middle of a field", headers(block=BLOCK[:-1]), Ends(COMPRESSION_ERROR)),
    Row("4.3", "a block in pieces of one byte", [headers(1, BLOCK[:1], END_STREAM)] + [
        frame(CONTINUATION, 0, 1, BLOCK[at:at + 1]) for at in range(1, len(BLOCK))] + [
            frame(CONTINUATION, END_HEADERS, 1)], Answers()),
    Row("4.3", "PRIORITY inside of a block", [headers(1, BLOCK, END_STREAM), frame(PRIORITY, 0, 1, b"\0\0\0\0\1")],
        Ends(PROTOCOL_ERROR)),
    Row("4.3", "PING inside of a block", [headers(1, BLOCK, END_STREAM), frame(PING, 0, 0, b"12345678")],
        Ends(PROTOCOL_ERROR)),
    Row("4.3", "HEADERS of another stream inside of a block", [headers(1, BLOCK, END_STREAM), headers(3)],
        Ends(PROTOCOL_ERROR)),
    Row("4.3", "HEADERS of the same stream inside of a block", [headers(1, BLOCK, END_STREAM), headers(1)],
        Ends(PROTOCOL_ERROR)),
    Row("4.3", "a field of the table from a stream that was refused", [
        headers(1, b"\x40\x03x-a\x03abc", 5), was_reset(1), headers(3, request("/v") + b"\xbe")],
        Answers(stream=3, body=b"abc")),
]

STREAMS = [
    Row("5.1", "DATA on an idle stream", data(), Ends(PROTOCOL_ERROR)),
    Row("5.1", "RST_STREAM on an idle stream", reset(), Ends(PROTOCOL_ERROR)),
    Row("5.1", "WINDOW_UPDATE on an idle stream", window(100, 1), Ends(PROTOCOL_ERROR)),
    Row("5.1", "CONTINUATION on an idle stream", frame(CONTINUATION, END_HEADERS, 1, BLOCK), Ends(PROTOCOL_ERROR)),
    Row("5.1", "PRIORITY on an idle stream", [frame(PRIORITY, 0, 1, b"\0\0\0\0\1"), headers(3)], Answers(stream=3)),
    Row("5.1", "DATA on a half-closed stream", [headers(1, request("/big")), data()], Resets(STREAM_CLOSED), HELD),
    Row("5.1", "HEADERS on a half-closed stream", [headers(1, request("/big")), headers()],
        Resets(STREAM_CLOSED), HELD),
    Row("5.1", "CONTINUATION on a half-closed stream", [
        headers(1, request("/big")), frame(CONTINUATION, END_HEADERS, 1, BLOCK)], Ends(PROTOCOL_ERROR), HELD),
    Row("5.1", "WINDOW_UPDATE on a half-closed stream", [
        headers(1, request("/big")), heard, window(2 ** 20, 1), window(2 ** 20)], Answers(body=BIG), HELD),
    Row("5.1", "PRIORITY on a half-closed stream", [
        headers(1, request("/big")), frame(PRIORITY, 0, 1, b"\0\0\0\0\1"), window(2 ** 20, 1), window(2 ** 20)],
        Answers(body=BIG), HELD),
    Row("5.1", "RST_STREAM on a half-closed stream", [headers(1, request("/big")), heard, reset()], Ignores(), HELD),
    Row("5.1", "DATA after the client's RST_STREAM", [headers(), answered(1), reset(), data()], Refuses(STREAM_CLOSED)),
    Row("5.1", "HEADERS after the client's RST_STREAM", [headers(), answered(1), reset(), headers()],
        Ends(STREAM_CLOSED)),
    Row("5.1", "CONTINUATION after the client's RST_STREAM", [
        post(), reset(), frame(CONTINUATION, END_HEADERS, 1, BLOCK)], Ends(PROTOCOL_ERROR)),
    Row("5.1", "WINDOW_UPDATE after the client's RST_STREAM", [post(), reset(), window(9, 1)], Ignores()),
    Row("5.1", "PRIORITY after the client's RST_STREAM", [
        post(), reset(), frame(PRIORITY, 0, 1, b"\0\0\0\0\1")], Ignores()),
    Row("5.1", "DATA on a closed stream", [headers(), answered(1), data()], Refuses(STREAM_CLOSED)),
    Row("5.1", "HEADERS on a closed stream", [headers(), answered(1), headers()], Ends(PROTOCOL_ERROR, STREAM_CLOSED)),
    Row("5.1", "CONTINUATION on a closed stream", [
        headers(), answered(1), frame(CONTINUATION, END_HEADERS, 1, BLOCK)], Ends(PROTOCOL_ERROR)),
    Row("5.1", "WINDOW_UPDATE on a closed stream", [headers(), answered(1), window(9, 1)], Ignores()),
    Row("5.1", "PRIORITY on a closed stream", [
        headers(), answered(1), frame(PRIORITY, 0, 1, b"\0\0\0\0\1")], Ignores()),
    Row("5.1", "RST_STREAM on a closed stream", [headers(), answered(1), reset()], Ignores()),
    Row("5.1", "what was under way to a stream that the server has reset", [
        post(), window(0, 1), was_reset(1), data(flags=0), data(), window(5, 1), reset()], Ignores(resets=1)),
    Row("5.1.1", "an even stream", headers(2), Ends(PROTOCOL_ERROR)),
    Row("5.1.1", "a lower stream than before", [headers(5), answered(5), headers(3)],
        Ends(PROTOCOL_ERROR, STREAM_CLOSED)),
    Row("5.1.1", "streams that were left out are closed", [headers(5), answered(5), data(3)],
        Refuses(PROTOCOL_ERROR, STREAM_CLOSED, stream=3)),
    Row("5.1.1", "the highest of all streams", headers(MOST), Answers(stream=MOST, lives=False)),
    Row("5.1.2", "one stream too many", [post(stream) for stream in range(1, 259, 2)],
        Resets(REFUSED_STREAM, stream=257, lives=False)),
    Row("5.3.1", "HEADERS that depend on their own stream", headers(1, b"\0\0\0\1\1" + BLOCK, 0x25),
        Refuses(PROTOCOL_ERROR)),
    Row("5.3.1", "PRIORITY that depends on its own stream", [post(), frame(PRIORITY, 0, 1, b"\0\0\0\1\1")],
        Refuses(PROTOCOL_ERROR)),
    Row("5.4.1", "GOAWAY names the last stream", [headers(3), answered(3), frame(PING, 0, 1, b"12345678")],
        Ends(PROTOCOL_ERROR, last=3)),
    Row("5.4.1", "GOAWAY before any stream", frame(PING, 0, 1, b"12345678"), Ends(PROTOCOL_ERROR, last=0)),
    Row("5.5", "an unknown frame inside of a block", [headers(1, BLOCK, END_STREAM), frame(0xf7, 0, 1, b"x")],
        Ends(PROTOCOL_ERROR)),
]

KINDS = [
    Row("6.1", "DATA on stream 0", data(0), Ends(PROTOCOL_ERROR)),
    Row("6.1", "padding as long as the payload", [post(), frame(DATA, PADDED | END_STREAM, 1, b"\x05abcd")],
        Ends(PROTOCOL_ERROR)),
    Row("6.1", "padding of no length", [post(), frame(DATA, PADDED | END_STREAM, 1)],
        Ends(FRAME_SIZE_ERROR, PROTOCOL_ERROR)),
    Row("6.1", "padding alone", [post(), frame(DATA, PADDED | END_STREAM, 1, b"\x04abcd")], Answers(body=b"got 0")),
    Row("6.2", "HEADERS on stream 0", headers(0), Ends(PROTOCOL_ERROR)),
    Row("6.2", "padding as long as the payload", frame(HEADERS, PADDED | 5, 1, b"\xff" + BLOCK),
        Ends(PROTOCOL_ERROR)),
    Row("6.2", "padding of no length", frame(HEADERS, PADDED | 5, 1), Ends(FRAME_SIZE_ERROR, PROTOCOL_ERROR)),
    Row("6.2", "padding and priority", frame(HEADERS, PADDED | WITH_PRIORITY | 5, 1,
                                             b"\x03\0\0\0\0\x0f" + BLOCK + b"\0\0\0"), Answers()),
    Row("6.2", "too short for its priority", frame(HEADERS, WITH_PRIORITY | 5, 1, b"\0\0\0"),
        Ends(FRAME_SIZE_ERROR, PROTOCOL_ERROR)),
    Row("6.3", "PRIORITY on stream 0", frame(PRIORITY, 0, 0, b"\0\0\0\0\1"), Ends(PROTOCOL_ERROR)),
    Row("6.3", "PRIORITY of four bytes", [post(), frame(PRIORITY, 0, 1, b"\0\0\0\1")], Resets(FRAME_SIZE_ERROR)),
    Row("6.4", "RST_STREAM on stream 0", reset(0), Ends(PROTOCOL_ERROR)),
    Row("6.4", "RST_STREAM of three bytes", [post(), frame(RST_STREAM, 0, 1, b"\0\0\0")], Ends(FRAME_SIZE_ERROR)),
    Row("6.4", "an unknown error code", [post(), reset(1, 0xfefefefe)], Ignores()),
    Row("6.5", "SETTINGS on a stream", frame(SETTINGS, 0, 1), Ends(PROTOCOL_ERROR)),
    Row("6.5", "acknowledgement with a payload", frame(SETTINGS, ACK, 0, bytes(6)), Ends(FRAME_SIZE_ERROR)),
    Row("6.5", "SETTINGS of seven bytes", frame(SETTINGS, 0, 0, bytes(7)), Ends(FRAME_SIZE_ERROR)),
    Row("6.5.2", "ENABLE_PUSH of 2", settings((ENABLE_PUSH, 2)), Ends(PROTOCOL_ERROR)),
    Row("6.5.2", "INITIAL_WINDOW_SIZE of 2^31", settings((INITIAL_WINDOW, 2 ** 31)), Ends(FLOW_CONTROL_ERROR)),
    Row("6.5.2", "MAX_FRAME_SIZE of 16,383", settings((MAX_FRAME, 16383)), Ends(PROTOCOL_ERROR)),
    Row("6.5.2", "MAX_FRAME_SIZE of 2^24", settings((MAX_FRAME, 2 ** 24)), Ends(PROTOCOL_ERROR)),
    Row("6.5.2", "an unknown setting", [settings((0xff, 1), (0, 7)), headers()], Answers()),
    Row("6.5.2", "NO_RFC7540_PRIORITIES of 2 (RFC 9218, 2.1)", settings((NO_PRIORITIES, 2)), Ends(PROTOCOL_ERROR)),
    Row("6.5.3", "the last of several values is in force", [
        settings((INITIAL_WINDOW, 1), (INITIAL_WINDOW, 0), (INITIAL_WINDOW, 300)), headers(1, request("/big")),
        lambda client: client.until(lambda got: got.kind == DATA),
        lambda client: _is(client.answers[1].frames, [300])], Ignores()),
    Row("6.6", "PUSH_PROMISE of a client", frame(PUSH_PROMISE, END_HEADERS, 1, number(2) + BLOCK),
        Ends(PROTOCOL_ERROR)),
    Row("6.7", "PING on a stream", frame(PING, 0, 1, b"12345678"), Ends(PROTOCOL_ERROR)),
    Row("6.7", "PING of six bytes", frame(PING, 0, 0, b"123456"), Ends(FRAME_SIZE_ERROR)),
    Row("6.7", "an answer to no PING", frame(PING, ACK, 0, b"12345678"), Ignores()),
    Row("6.8", "GOAWAY on a stream", frame(GOAWAY, 0, 1, bytes(8)), Ends(PROTOCOL_ERROR)),
    Row("6.8", "GOAWAY of seven bytes", frame(GOAWAY, 0, 0, bytes(7)), Ends(FRAME_SIZE_ERROR)),
    Row("6.9", "WINDOW_UPDATE by 0 of the connection", window(0), Ends(PROTOCOL_ERROR)),
    Row("6.9", "WINDOW_UPDATE by 0 of a stream", [post(), window(0, 1)], Resets(PROTOCOL_ERROR)),
    Row("6.9", "WINDOW_UPDATE of three bytes", frame(WINDOW_UPDATE, 0, 0, b"\0\0\1"), Ends(FRAME_SIZE_ERROR)),
    Row("6.9", "the reserved bit of WINDOW_UPDATE", [window(0x80000001), headers()], Answers()),
    Row("6.9.1", "a window of the connection over 2^31-1", [window(MOST), window(MOST)], Ends(FLOW_CONTROL_ERROR)),
    Row("6.9.1", "a window of a stream over 2^31-1", [post(), window(MOST, 1), window(MOST, 1)],
        Resets(FLOW_CONTROL_ERROR)),
    Row("6.9.2", "a setting that makes a window pass 2^31-1", [
        headers(1, request("/big")), window(MOST, 1), settings((INITIAL_WINDOW, 2 ** 20))],
        Ends(FLOW_CONTROL_ERROR), HELD),
    Row("6.10", "CONTINUATION on stream 0", [headers(1, BLOCK, END_STREAM), frame(CONTINUATION, END_HEADERS, 0)],
        Ends(PROTOCOL_ERROR)),
    Row("6.10", "CONTINUATION of another stream", [
        headers(1, BLOCK, END_STREAM), frame(CONTINUATION, END_HEADERS, 3)], Ends(PROTOCOL_ERROR)),
    Row("6.10", "several CONTINUATION frames", [headers(1, b"", END_STREAM), frame(CONTINUATION, 0, 1, BLOCK[:9]),
                                                frame(CONTINUATION, 0, 1), frame(CONTINUATION, 4, 1, BLOCK[9:])],
        Answers()),
    Row("6.10", "CONTINUATION after the end of a block", [post(), frame(CONTINUATION, END_HEADERS, 1, BLOCK)],
        Ends(PROTOCOL_ERROR)),
    Row("6.10", "CONTINUATION after the last CONTINUATION", [
        headers(1, BLOCK[:9], 0), frame(CONTINUATION, END_HEADERS, 1, BLOCK[9:]), frame(CONTINUATION, 4, 1, BLOCK)],
        Ends(PROTOCOL_ERROR)),
    Row("6.10", "DATA inside of a block", [headers(1, BLOCK, END_STREAM), data()], Ends(PROTOCOL_ERROR)),
]


def _is(got, wanted):
    assert got == wanted, got


@pytest.mark.parametrize("transport", ["h2c", "h2"])
@table(FRAMES + STREAMS + KINDS)
def test_frames(server, transport, row):
    with connect(server, transport, row.first) as client:
        row.play(client)


# 3.4: the preface, which goes before the rows

@pytest.mark.parametrize("transport", ["h2c", "h2"])
def test_the_first_frame_is_settings(server, transport):
    with connect(server, transport) as client:
        first = client.read()
        assert first.kind == SETTINGS and not first.flags & ACK
        assert client.settings[MAX_FRAME] == FRAME_MOST
        assert client.until(lambda got: got.kind == SETTINGS and got.flags & ACK) is not None


@pytest.mark.parametrize("transport", ["h2c", "h2"])
def test_a_client_may_forget_its_settings(server, transport):
    """RFC 9113, 3.4 wants PROTOCOL_ERROR; nginx answers such clients, and so it stays."""
    with plug(server, transport) as sock:
        client = _without_preface(sock)
        sock.sendall(h2.PREFACE + frame(PING, 0, 0, b"12345678") + headers())
        assert client.answer(1).status == 200


def _without_preface(sock):
    """A client that has sent nothing so far."""
    class Muted:
        def __getattr__(self, name):
            return getattr(sock, name)

        def sendall(self, _):
            pass
    client = h2.H2(None, sock=Muted())
    client.socket = sock
    return client


INVALID = [b"INVALID CONNECTION PREFACE\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\nxxxxxxxx", b"\0" * 24]


@pytest.mark.parametrize("invalid", INVALID)
def test_invalid_preface_over_tls(server, invalid):
    """The connection ends."""
    with plug(server, "h2") as sock:
        client = _without_preface(sock)
        sock.sendall(invalid)
        while client.read() is not None:
            pass
        assert client.goaway is None or client.goaway.code == PROTOCOL_ERROR


@pytest.mark.parametrize("invalid", INVALID)
def test_invalid_preface_in_the_clear(server, invalid):
    """It may be a request of HTTP/1.x on such a port, and is answered as such: 400, as nginx does. (h2spec wants
    no answer there, its case 3.5/2.)"""
    with server.client() as client:
        client.send(invalid)
        answer = client.response()
        assert answer.status == 400 and answer.closes
        client.rest()


# what takes more than a row

@pytest.mark.parametrize("transport", ["h2c", "h2"])
def test_ping_comes_back_as_it_was(server, transport):
    with connect(server, transport) as client:
        for payload in (b"\0" * 8, b"\xff" * 8, b"a.b-c/d:"):
            client.ping(payload)
            assert client.until(lambda got: got.kind == PING).payload == payload


@pytest.mark.parametrize("transport", ["h2c", "h2"])
def test_every_settings_frame_is_acknowledged_once(server, transport):
    with connect(server, transport) as client:
        for _ in range(4):
            client.send_settings({3: 100})
        client.ping()
        acks = []
        client.until(lambda got: acks.append(got.kind == SETTINGS and got.flags & ACK) or got.kind == PING)
        assert sum(map(bool, acks)) == 5


@pytest.mark.parametrize("transport", ["h2c", "h2"])
def test_negative_window(server, transport):
    """6.9.2: what a smaller INITIAL_WINDOW_SIZE takes away has to be given back before more is sent."""
    with connect(server, transport, {INITIAL_WINDOW: 1000}) as client:
        stream = client.request("/big")
        while sum(client.answers.get(stream, h2.Answer()).frames) < 1000:
            client.read()
        client.send_settings({INITIAL_WINDOW: 300})
        client.window(700, stream)
        heard(client)
        assert sum(client.answers[stream].frames) == 1000
        client.window(1, stream)
        while sum(client.answers[stream].frames) < 1001:
            client.read()
        client.window(2 ** 20)
        client.window(2 ** 20, stream)
        assert client.answer(stream).body == BIG


@pytest.mark.parametrize("transport", ["h2c", "h2"])
def test_frames_as_large_as_the_client_allows(server, transport):
    """4.2: not one byte more than SETTINGS_MAX_FRAME_SIZE, whatever the windows are."""
    with connect(server, transport, {INITIAL_WINDOW: 2 ** 24, MAX_FRAME: 16384}) as client:
        client.window(2 ** 24)
        answer = client.get("/big")
        assert answer.body == BIG and max(answer.frames) <= 16384


@pytest.mark.parametrize("transport", ["h2c", "h2"])
def test_goaway_of_the_client(server, transport):
    """6.8: what it asked for before is answered, and the connection ends then."""
    with connect(server, transport) as client:
        stream = client.request("/big")
        client.send(GOAWAY, 0, 0, struct.pack("!II", 0, 0) + b"enough")
        client.window(2 ** 20)
        client.window(2 ** 20, stream)
        assert client.answer(stream).body == BIG
        while client.read() is not None:
            pass


@pytest.mark.parametrize("transport", ["h2c", "h2"])
def test_no_reset_answers_a_reset(server, transport):
    """5.4.2."""
    with connect(server, transport, HELD) as client:
        for _ in range(5):
            stream = client.request("/big")
            client.send(RST_STREAM, 0, stream, number(h2.CANCEL))
        heard(client)
        assert all(answer.reset is None for answer in client.answers.values())
