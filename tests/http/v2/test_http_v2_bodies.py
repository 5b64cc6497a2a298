"""HTTP/2: bodies of requests, within their windows, as they come."""

import hashlib
import socket
import struct
import time

import pytest

from h2_site import _echo, _site  # noqa: F401
from harness import h2
from harness.h2 import (ACK, DATA, END_HEADERS, END_STREAM, FRAME_SIZE_ERROR, H2, HEADERS,
                        NO_ERROR, PADDED, PROTOCOL_ERROR, RST_STREAM, SETTINGS, WINDOW_UPDATE)


@pytest.mark.parametrize("buffering", ["on", "off"])
@pytest.mark.parametrize("size", [0, 1, 5000, 65536, 300000, 2000000])
@pytest.mark.parametrize("preread", ["0", "1k", "64k"])
def test_request_bodies(site, echo, buffering, size, preread):
    server = site("http2_body_preread_size %s; client_max_body_size 0;" % preread,
                  "location /p { proxy_http_version 1.1; proxy_request_buffering %s; "
                  "proxy_pass http://127.0.0.1:%d; }" % (buffering, echo))
    body = bytes(i * 31 % 251 for i in range(size % 100000)) * max(1, size // 100000)
    with H2(server.port) as client:
        for announced in (True, False):
            client.is_alive()
            stream = client.request("/p", "POST", ends=False, headers=[
                ("content-length", str(len(body)))] if announced else [])
            window = client.settings[4]
            at = 0
            while at < len(body):
                part = body[at:at + min(window, 16384)]
                if part:
                    client.send(DATA, 0, stream, part)
                    at += len(part)
                    window -= len(part)
                while window == 0 and at < len(body):
                    frame = client.until(lambda f: f.kind == WINDOW_UPDATE and f.stream == stream)
                    window += struct.unpack("!I", frame.payload)[0]
            client.send(DATA, END_STREAM, stream)
            answer = client.answer(stream)
            assert answer.body == b"%d %s" % (len(body), hashlib.md5(body).hexdigest().encode())


def test_padded_body_and_trailers(site, echo):
    server = site(server="location /p { proxy_pass http://127.0.0.1:%d; }" % echo)
    with H2(server.port) as client:
        stream = client.request("/p", "POST", ends=False)
        client.send(DATA, 8, stream, b"\x05abc" + b"\0" * 5)
        client.send(HEADERS, END_HEADERS | END_STREAM, stream, client.encoder.encode([("x-t", "1")]))
        assert client.answer(stream).body.startswith(b"3 ")


def test_100_continue(site, echo):
    server = site(server="location /p { proxy_pass http://127.0.0.1:%d; }" % echo)
    with H2(server.port) as client:
        stream = client.request("/p", "POST", [("expect", "100-continue")], ends=False)
        client.until(lambda frame: frame.kind == HEADERS)
        assert [dict(head)[":status"] for head in client.answers[stream].interim] == ["100"]
        client.data(stream, b"abc")
        assert client.answer(stream).body.startswith(b"3 ")


def test_early_answer(site):
    """413 without the body being read; then the client is told that the rest is not wanted."""
    server = site(server="client_max_body_size 10;")
    with H2(server.port) as client:
        stream = client.request("/p", "POST", [("content-length", "100000")], ends=False)
        assert client.answer(stream).status == 413
        assert client.is_alive()
        assert client.answers[stream].reset == NO_ERROR, "at once, since the window has no room for the body"
        client.send(DATA, 0, stream, b"late")
        assert client.get("/a.txt").status == 200


def test_early_answer_before_windows_are_known(site):
    """What the client sends of a body that nobody reads is counted against the window that it knew when it sent it."""
    server = site(server="http2_body_preread_size 100000;")
    with H2(server.port) as client:
        client.acknowledges = False
        stream = client.request("/a.txt", "POST", ends=False)
        assert client.answer(stream).status == 405
        client.send(SETTINGS, ACK)
        client.data(stream, bytes(90000))
        assert client.is_alive()
        assert client.answers[stream].reset in (None, NO_ERROR)


def test_more_than_the_window(site):
    server = site("http2_body_preread_size 1k;", "location /p { proxy_pass http://127.0.0.1:1; }")
    with H2(server.port) as client:
        assert client.is_alive()
        stream = client.request("/a.txt", "POST", ends=False)
        client.data(stream, bytes(5000), ends=False)
        client.until(lambda frame: frame.kind == RST_STREAM)
        assert client.answers[stream].reset == h2.FLOW_CONTROL_ERROR
        assert client.get("/a.txt").status == 200


def test_body_timeout(site, echo):
    server = site("client_body_timeout 200ms;", "location /p { proxy_pass http://127.0.0.1:%d; }" % echo)
    with H2(server.port) as client:
        stream = client.request("/p", "POST", ends=False)
        assert client.answer(stream).reset == PROTOCOL_ERROR
        assert client.get("/a.txt").status == 200
    server.wait_log("client timed out .* while reading client request body")


def test_body_timeout_within_a_frame(site, echo):
    """Stream and frame come to their ends in the same millisecond: the reset that waits to leave then is no client that does not read."""
    server = site("client_body_timeout 200ms; send_timeout 200ms;", "location /p { proxy_pass http://127.0.0.1:%d; }" % echo)
    for _ in range(5):
        with H2(server.port) as client:
            assert client.is_alive()
            stream = client.request("/p", "POST", ends=False)
            frame = H2.frame(DATA, END_STREAM, stream, b"TEST")
            client.socket.sendall(frame[:10])
            assert client.answer(stream).reset == PROTOCOL_ERROR
            client.socket.sendall(frame[10:])
            assert client.get("/a.txt").status == 200


# frames of any size

@pytest.mark.parametrize("size", [16385, 65550, 131072])
def test_long_data_frames(site, echo, size):
    """Up to SETTINGS_MAX_FRAME_SIZE, within the window; taken as they come."""
    server = site("http2_body_preread_size 256k; client_max_body_size 0;",
                  "location /p { proxy_pass http://127.0.0.1:%d; }" % echo)
    body = bytes(i * 31 % 251 for i in range(size))
    with H2(server.port) as client:
        assert client.is_alive() and client.settings[5] == 1024 * 1024
        for padding in (None, 200):
            stream = client.request("/p", "POST", ends=False)
            if padding is None:
                client.send(DATA, END_STREAM, stream, body)
            else:
                client.send(DATA, END_STREAM | PADDED, stream, bytes([padding]) + body + bytes(padding))
            assert client.answer(stream).body == b"%d %s" % (size, hashlib.md5(body).hexdigest().encode())


def test_data_frame_by_bytes(site, echo):
    """One frame, with padding, of which every byte comes alone."""
    server = site(server="location /p { proxy_pass http://127.0.0.1:%d; }" % echo)
    with H2(server.port) as client:
        client.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        stream = client.request("/p", "POST", ends=False)
        for byte in client.frame(DATA, END_STREAM | PADDED, stream, b"\x03" + b"abcdefgh" * 20 + bytes(3)):
            client.socket.sendall(bytes([byte]))
        assert client.answer(stream).body.startswith(b"160 ")


def test_too_long_a_frame(site):
    with H2(site("http2_body_preread_size 4m;").port) as client:
        stream = client.request("/a.txt", "POST", ends=False)
        client.socket.sendall(H2.frame(DATA, 0, stream, bytes(1024 * 1024 + 1))[:1000])
        client.expect_goaway(FRAME_SIZE_ERROR)


def test_long_frame_goes_on_as_it_comes(site):
    """The backend gets the first part of a frame whose end is not sent yet."""
    listener = socket.create_server(("127.0.0.1", 0))
    server = site(server="location /p { proxy_request_buffering off; proxy_http_version 1.1; "
                         "proxy_pass http://127.0.0.1:%d; }" % listener.getsockname()[1])
    with H2(server.port) as client:
        assert client.is_alive()
        stream = client.request("/p", "POST", [("content-length", "60000")], ends=False)
        frame = H2.frame(DATA, END_STREAM, stream, b"x" * 60000)
        client.socket.sendall(frame[:20000])
        backend = listener.accept()[0]
        backend.settimeout(10)
        got = b""
        while got.count(b"x") < 19000:
            part = backend.recv(65536)
            assert part
            got += part
        client.socket.sendall(frame[20000:])
        while got.count(b"x") < 60000:
            part = backend.recv(65536)
            assert part
            got += part
        backend.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        assert client.answer(stream).body == b"ok"
        backend.close()
    listener.close()


def test_stream_that_ends_within_its_frame(site):
    """The answer does not wait for the frame; what is left of it hurts nobody."""
    server = site(server="client_max_body_size 100k; location /none { return 404; }")
    with H2(server.port) as client:
        assert client.is_alive()
        stream = client.request("/none", "POST", ends=False)
        frame = H2.frame(DATA, 0, stream, b"x" * 40000)
        client.socket.sendall(frame[:20000])
        assert client.answer(stream).status == 404
        client.until(lambda got: got.kind == RST_STREAM)
        assert client.answers[stream].reset == NO_ERROR
        client.socket.sendall(frame[20000:])
        assert client.get("/a.txt").status == 200


def test_frame_that_stays_open(site):
    """A frame of DATA that does not go on ends the connection, which it holds up."""
    server = site("client_body_timeout 300ms; lingering_timeout 200ms;")
    with H2(server.port, timeout=20) as client:
        assert client.is_alive()
        stream = client.request("/a.txt", "POST", ends=False)
        client.socket.sendall(H2.frame(DATA, 0, stream, bytes(10000))[:3000])
        client.expect_goaway(h2.CALM)
    server.wait_log("client sent too many seconds for a frame.*client: 127.0.0.1")


def test_frame_that_comes_slowly(site, echo):
    """It may take longer than client_body_timeout when it keeps coming."""
    server = site("client_body_timeout 1s; client_header_timeout 1s;",
                  "location /p { proxy_pass http://127.0.0.1:%d; }" % echo)
    with H2(server.port, timeout=20) as client:
        assert client.is_alive()
        stream = client.request("/p", "POST", ends=False)
        frame = H2.frame(DATA, END_STREAM, stream, bytes(30000))
        begun = time.monotonic()
        for at in range(0, len(frame), 2000):
            client.socket.sendall(frame[at:at + 2000])
            time.sleep(0.12)
        assert time.monotonic() - begun > 1.5
        assert client.answer(stream).body.startswith(b"30000 ")


def test_trailers_do_not_end_too_early(site, echo):
    """Trailers that are malformed: the request is, too."""
    server = site(server="location /p { proxy_pass http://127.0.0.1:%d; }" % echo)
    with H2(server.port) as client:
        for flags, fields in ((END_HEADERS | END_STREAM, [(":path", "/")]), (END_HEADERS, [("x", "y")])):
            stream = client.request("/p", "POST", ends=False)
            client.data(stream, b"abc", ends=False)
            client.send(HEADERS, flags, stream, client.encoder.encode(fields))
            client.until(lambda got: got.kind == RST_STREAM)
            assert client.answers[stream].reset == PROTOCOL_ERROR
        assert client.get("/a.txt").status == 200
