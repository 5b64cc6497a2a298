"""HTTP/2: each way to make the server work for nothing ends with ENHANCE_YOUR_CALM, a line in the log that names the
client, a counter that moved, and a server that did not grow."""

import os
import struct

import pytest

from harness import binaries, h2, proc, until
from harness.h2 import (ACK, CALM, COMPRESSION_ERROR, CONTINUATION, DATA, END_HEADERS, END_STREAM, H2, HEADERS, PING,
                        PRIORITY, PRIORITY_UPDATE, RST_STREAM, SETTINGS, WINDOW_UPDATE)

FILES = {"html/a.txt": "hello\n", "html/big": bytes(300000)}


@pytest.fixture(name="server")
def _server(serve):
    def start(text="", timeouts=""):
        running = serve("http2 on; keepalive_requests 1000000; %s server { listen 127.0.0.1:@PORT@; location / { root html; }"
                        "location = /limits { return 200 $limits_reached; } location /p { proxy_pass http://127.0.0.1:@PORT1@; } %s }"
                        "server { listen 127.0.0.1:@PORT1@; location / { limit_rate 1; return 200 "
                        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa; } }" % (timeouts, text),
                        files=FILES, main="worker_processes 1;")
        assert running.get("/limits").text == "0"
        running.size_before = resident(running)
        return running
    return start


GROWTH_MAX = 16 * 1024  # kB; of a server that is asked for too much


def resident(running):
    return proc.resident_kb(until(running.children, "a worker")[0])


def flood(client, frames, rounds=100):
    """Sends until the server has had enough, or the rounds are over."""
    try:
        for _ in range(rounds):
            client.socket.sendall(frames)
    except OSError:
        pass


def expect_calm(server, client, words):
    try:
        client.expect_goaway(CALM)
    except h2.hpack.HPACKError:
        pass
    line = server.wait_log(words + r".*, client: 127\.0\.0\.1, server: 127\.0\.0\.1:")
    assert line
    assert server.get("/a.txt").status == 200
    assert int(server.get("/limits").text) >= 1
    assert resident(server) - server.size_before < binaries.resident_limit(GROWTH_MAX)


@pytest.mark.parametrize("frame, words", [
    (H2.frame(PING, 0, 0, b"12345678"), "PING frames"),
    (H2.frame(PING, ACK, 0, b"12345678"), "PING frames"),
    (H2.frame(SETTINGS), "SETTINGS frames"),
    (H2.frame(SETTINGS, ACK), "SETTINGS frames"),
    (H2.frame(SETTINGS, 0, 0, struct.pack("!HI", 4, 65535) * 100), "SETTINGS frames"),
    (H2.frame(PRIORITY, 0, 1, b"\0\0\0\0\1"), "PRIORITY frames"),
    (H2.frame(PRIORITY_UPDATE, 0, 0, b"\0\0\0\1u=1"), "PRIORITY frames"),
    (H2.frame(PRIORITY_UPDATE, 0, 0, struct.pack("!I", 0x7fffffff) + b"u=1"), "PRIORITY frames"),
    (H2.frame(0xfa, 0, 0, b"x"), "frames of unknown types"),
    (H2.frame(0xfa, 0, 0, bytes(20000)), "frames of unknown types"),
])
def test_control_floods(server, frame, words):
    running = server()
    with H2(running.port) as client:
        flood(client, frame * 100)
        expect_calm(running, client, "client sent too many " + words)


def test_window_update_flood(server):
    running = server()
    with H2(running.port) as client:
        flood(client, H2.frame(WINDOW_UPDATE, 0, 0, struct.pack("!I", 1)) * 1000)
        expect_calm(running, client, "client sent too many WINDOW_UPDATE frames")


def test_empty_data_flood(server):
    running = server("location /e { client_body_timeout 60s; proxy_pass http://127.0.0.1:@PORT1@; }")
    with H2(running.port) as client:
        stream = client.request("/e", "POST", ends=False)
        flood(client, H2.frame(DATA, 0, stream) * 100)
        expect_calm(running, client, "client sent too many empty frames")


def test_rapid_reset(server):
    """CVE-2023-44487."""
    running = server()
    with H2(running.port) as client:
        frames = b""
        for stream in range(1, 2001, 2):
            frames += H2.frame(HEADERS, END_HEADERS | END_STREAM, stream, client.block("/p"))
            frames += H2.frame(RST_STREAM, 0, stream, struct.pack("!I", 8))
        flood(client, frames, 1)
        # Streams that are refused while the cancelled ones end count as errors.
        expect_calm(running, client, "client sent too many streams (that it cancelled|with errors)")


def test_resets_of_what_is_over(server):
    """The same stream, again and again."""
    running = server()
    with H2(running.port) as client:
        stream = client.request("/p")
        flood(client, H2.frame(RST_STREAM, 0, stream, struct.pack("!I", 8)) * 100)
        expect_calm(running, client, "client sent too many streams that it cancelled")


# Each makes the server reset the stream, which costs the client no RST_STREAM of its own.
PROVOCATIONS = {
    "no increment": lambda client, stream: H2.frame(WINDOW_UPDATE, 0, stream, struct.pack("!I", 0)),
    "window too large": lambda client, stream: H2.frame(WINDOW_UPDATE, 0, stream, struct.pack("!I", 0x7fffffff)),
    "PRIORITY of wrong size": lambda client, stream: H2.frame(PRIORITY, 0, stream, b"\0\0\0\1"),
    "DATA after the end": lambda client, stream: H2.frame(DATA, 0, stream, b"x"),
    "HEADERS after the end": lambda client, stream: H2.frame(HEADERS, END_HEADERS | END_STREAM, stream,
                                                             client.encoder.encode([("x", "y")])),
}


@pytest.mark.parametrize("kind", PROVOCATIONS)
def test_made_you_reset(server, kind):
    """The same as rapid reset, by errors that make the server reset (CVE-2025-8671)."""
    running = server()
    with H2(running.port) as client:
        frames = b""
        for stream in range(1, 4001, 2):
            frames += H2.frame(HEADERS, END_HEADERS | END_STREAM, stream, client.block("/p"))
            frames += PROVOCATIONS[kind](client, stream)
        flood(client, frames, 1)
        expect_calm(running, client, "client sent too many streams with errors")


@pytest.mark.parametrize("announced, sent", [(5, b"abcdef"), (5, b"abc")])
def test_made_you_reset_by_bodies(server, announced, sent):
    """Bodies unlike their length."""
    running = server()
    with H2(running.port) as client:
        frames = b""
        for stream in range(1, 4001, 2):
            block = client.block("/p", "POST", headers=[("content-length", str(announced))])
            frames += H2.frame(HEADERS, END_HEADERS, stream, block) + H2.frame(DATA, END_STREAM, stream, sent)
        flood(client, frames, 1)
        expect_calm(running, client, "client sent too many streams with errors")


def test_malformed_requests_flood(server):
    running = server()
    with H2(running.port) as client:
        frames = b"".join(H2.frame(HEADERS, END_HEADERS | END_STREAM, stream, client.block("/", headers=[("", "")]))
                          for stream in range(1, 2001, 2))
        flood(client, frames, 1)
        expect_calm(running, client, "client sent too many streams with errors")


def test_refused_streams_flood(server):
    """Far more than http2_max_concurrent_streams, which are refused one by one."""
    running = server()
    with H2(running.port) as client:
        frames = b"".join(H2.frame(HEADERS, END_HEADERS | END_STREAM, stream, client.block("/p"))
                          for stream in range(1, 4001, 2))
        flood(client, frames, 1)
        expect_calm(running, client, "client sent too many streams with errors")


def test_a_browser_may_cancel(server):
    running = server()
    with H2(running.port) as client:
        for _ in range(20):
            streams = [client.request("/p") for _ in range(5)]
            for stream in streams:
                client.send(RST_STREAM, 0, stream, struct.pack("!I", 8))
            assert client.get("/a.txt").status == 200


@pytest.mark.parametrize("size", [0, 1, 16000])
def test_continuation_flood(server, size):
    running = server()
    with H2(running.port) as client:
        client.send(HEADERS, END_STREAM, 1, client.block("/a.txt"))
        flood(client, H2.frame(CONTINUATION, 0, 1, bytes(size)) * 100, 3)
        expect_calm(running, client, "client sent too many (CONTINUATION frames|bytes in a header block)")


def test_hpack_bomb(server):
    """A field of the table, again and again."""
    running = server()
    with H2(running.port) as client:
        block = client.block("/a.txt") + b"\x40\x01x\x7f" + bytes([0x80 | (3900 - 127) & 0x7f, (3900 - 127) >> 7])
        client.send(HEADERS, END_HEADERS | END_STREAM, 1, block + b"y" * 3900 + b"\xbe" * 8000)
        expect_calm(running, client, "client sent too many bytes in compressed headers")


@pytest.mark.parametrize("field, count", [
    (b"\x00\x01\x00\x00", 8000),  # a name of a byte, nothing else
    (b"\x00\x80\x80", 8000),      # names and values of nothing, packed
    (b"\x82", 30000),              # the shortest that there is
])
def test_fields_without_end(server, field, count):
    """Fields that have next to no bytes, and cost memory each."""
    running = server()
    with H2(running.port) as client:
        kind, block = HEADERS, client.block("/a.txt") + field * count
        while block:
            client.send(kind, END_HEADERS if len(block) <= 16384 else 0, 1, block[:16384])
            kind, block = CONTINUATION, block[16384:]
        expect_calm(running, client, "client sent too many bytes in compressed headers")


def test_header_block_in_one_long_frame(server):
    """It is not read when it is longer than a head may be."""
    running = server()
    with H2(running.port) as client:
        assert client.is_alive()
        client.socket.sendall(H2.frame(HEADERS, END_HEADERS, 1, bytes(1000000))[:100])
        expect_calm(running, client, "client sent too many bytes in a header block")


def test_many_small_answers_held(server):
    """A window of zero in each of many streams costs no more than the streams that may be."""
    running = server(timeouts="send_timeout 300ms;")
    with H2(running.port, {4: 0}) as client:
        for _ in range(120):
            client.request("/big")
        expect_calm(running, client, "client does not open its windows")


def test_window_held_at_zero(server):
    running = server(timeouts="send_timeout 300ms;")
    with H2(running.port, {4: 0}) as client:
        client.request("/big")
        expect_calm(running, client, "client does not open its windows")


def test_connection_window_held(server):
    running = server(timeouts="send_timeout 300ms;")
    with H2(running.port, {4: 2 ** 20}) as client:
        client.request("/big")
        client.request("/big")
        expect_calm(running, client, "client does not open its windows")


def test_one_stream_held_others_served(server):
    """The stream ends alone while others move."""
    running = server(timeouts="send_timeout 1s;")
    with H2(running.port) as client:
        client.send_settings({4: 0})
        assert client.is_alive()
        held = client.request("/big")
        client.send_settings({4: 65535})
        client.window(2 ** 30)
        while client.answers.get(held, h2.Answer()).reset is None:
            assert client.get("/a.txt").status == 200
        assert client.get("/a.txt").status == 200


def test_tiny_windows(server):
    """Many streams at a time, so that it is soon, however slow we are."""
    running = server()
    with H2(running.port, {4: 1}) as client:
        streams = [client.request("/big") for _ in range(100)]
        client.window(2 ** 30)
        one_byte_each = b"".join(H2.frame(WINDOW_UPDATE, 0, stream, struct.pack("!I", 1)) for stream in streams)
        try:
            while not client.is_closed and client.goaway is None:
                client.socket.sendall(one_byte_each)
                for _ in streams:
                    if client.read() is None or client.goaway is not None:
                        break
        except OSError:
            pass
        expect_calm(running, client, "client sent too many windows of a few bytes")


def test_slow_header_block(server):
    """First the stream is lost, then, when the block goes on to hold up all others, the connection."""
    running = server(timeouts="client_header_timeout 1s;")
    with H2(running.port, timeout=20) as client:
        assert client.is_alive()
        client.send(HEADERS, END_STREAM, 1, client.block("/a.txt"))
        client.until(lambda frame: frame.kind == RST_STREAM)
        assert client.answers[1].reset == h2.PROTOCOL_ERROR
        expect_calm(running, client, "client sent too many seconds for a frame")


def test_slow_header_block_that_ends(server):
    running = server(timeouts="client_header_timeout 1s;")
    with H2(running.port, timeout=20) as client:
        assert client.is_alive()
        block = client.block("/a.txt", headers=[("x-late", "1")])
        client.send(HEADERS, END_STREAM, 1, block[:5])
        client.until(lambda frame: frame.kind == RST_STREAM)
        client.send(CONTINUATION, END_HEADERS, 1, block[5:])
        client.next_stream = 3
        assert client.get("/a.txt", headers=[("x-late", "1")]).status == 200


def test_silent_after_preface_parts(server):
    running = server(timeouts="client_header_timeout 1s;")
    with running.client() as client:
        client.send(h2.PREFACE[:10])
        client.expect_closed()


def test_client_that_does_not_read(server):
    """PINGs below the guard's rate, whose answers nobody takes, do not pile up; and answers do not, either."""
    running = server(timeouts="send_timeout 300ms;")
    with H2(running.port, {4: 2 ** 30}) as client:
        client.window(2 ** 30)
        pid = until(running.children, "a worker")[0]
        for _ in range(100):
            client.request("/big")
        running.wait_log("client timed out")
        with open("/proc/%d/statm" % pid, encoding="ascii") as source:
            pages = int(source.read().split()[1])
        assert pages * os.sysconf("SC_PAGESIZE") < 400 * 1024 * 1024


def test_broken_tables_end_the_connection(server):
    running = server()
    with H2(running.port) as client:
        client.send(HEADERS, END_HEADERS | END_STREAM, 1, b"\xff\xff\xff\xff\xff\xff\xff\xff")
        client.expect_goaway(COMPRESSION_ERROR)
