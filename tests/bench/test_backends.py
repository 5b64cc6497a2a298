"""What stands behind the servers of the benchmark does what the rows expect."""

import os
import socket
import struct
import sys
import time

import pytest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import backends     # noqa: E402  pylint: disable=wrong-import-position
import probes       # noqa: E402  pylint: disable=wrong-import-position

HEAD = b"GET /x HTTP/1.1\r\nHost: a\r\n\r\n"


@pytest.fixture(scope="module", name="programs")
def fixture_programs(tmp_path_factory):
    """Where the compiled programs are."""
    directory = str(tmp_path_factory.mktemp("programs"))
    backends.build(directory)
    return directory


@pytest.fixture(name="start")
def fixture_start(programs, tmp_path):
    """Gives a function that makes a backend, for a with statement."""
    (tmp_path / "html").mkdir()
    return lambda *kind: backends.started(kind, str(tmp_path), programs,
                                          os.sched_getaffinity(0), 1024)


def connect(backend):
    """A connection to a backend, TCP or unix."""
    if backend.port is None:
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        sock.settimeout(10)
        sock.connect(backend.address[5:])
        return sock
    return socket.create_connection(("127.0.0.1", backend.port), 10)


def read_answers(sock, count, size):
    """Reads answers with bodies of a size, and nothing else; gives the heads."""
    data, heads = bytearray(), []
    while len(heads) < count:
        more = sock.recv(1 << 20)
        assert more, f"closed after {bytes(data[:100])!r}"
        data += more
        while (end := data.find(b"\r\n\r\n", 0, 1000)) != -1 and len(data) >= end + 4 + size:
            heads.append(bytes(data[:end]))
            del data[:end + 4 + size]
    assert not data
    return heads


def test_http_backend_keeps_connections_and_takes_bodies(start):
    """Requests in one segment, in pieces, and with bodies that look like requests."""
    with start("http", "-b", "1000") as backend, connect(backend) as sock:
        sock.sendall(HEAD)
        head, = read_answers(sock, 1, 1000)
        assert b"Content-Length: 1000" in head and b"Connection: keep-alive" in head
        sock.sendall(HEAD * 5 + HEAD[:9])
        read_answers(sock, 5, 1000)
        sock.sendall(HEAD[9:])
        read_answers(sock, 1, 1000)
        sock.sendall(b"POST / HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % len(HEAD) + HEAD + HEAD)
        read_answers(sock, 2, 1000)
        assert backend.counts() == {"connections": 1, "requests": 9}


def test_http_backend_counts_who_waits(start):
    """With -w there is no answer."""
    with start("http", "-w") as backend, connect(backend) as sock:
        sock.sendall(HEAD * 3)
        while backend.counts()["requests"] < 3:
            pass
        sock.setblocking(False)
        with pytest.raises(BlockingIOError):
            sock.recv(1)


def test_http_backend_closes_when_told(start):
    """After each answer, and says so."""
    with start("http", "-c") as backend:
        for _ in range(3):
            with connect(backend) as sock:
                sock.sendall(HEAD)
                head, = read_answers(sock, 1, 13)
                assert b"Connection: close" in head
                assert sock.recv(1) == b""
        assert backend.counts() == {"connections": 3, "requests": 3}


def test_http_backend_sends_large_answers_to_a_slow_reader(start):
    """More than the socket takes at a time."""
    with start("http", "-b", "20000000") as backend, connect(backend) as sock:
        sock.sendall(HEAD * 2)
        read_answers(sock, 2, 20000000)


def h2_frame(kind, flags, stream, payload=b""):
    """A frame of HTTP/2."""
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def read_h2_frame(file):
    """The next one: kind, flags, stream, payload."""
    size, kind, flags, stream = struct.unpack(">IBBI", b"\0" + file.read(9))
    return kind, flags, stream, file.read(size)


H2_START = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + h2_frame(4, 0, 0)


def test_grpc_backend_echoes(start):
    """Two calls whose messages come in turns, the second without one; all sent byte by byte."""
    with start("grpc") as backend, connect(backend) as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in H2_START + h2_frame(1, 4, 1, b"ignored") + h2_frame(0, 0, 1, b"hel") \
                + h2_frame(1, 5, 3, b"too") + h2_frame(6, 0, 0, b"12345678") \
                + h2_frame(0, 1, 1, b"lo"):
            sock.sendall(bytes([byte]))
        file = sock.makefile("rb")
        frames = [read_h2_frame(file) for _ in range(10)]
        assert [frame[0] for frame in frames[:4]] == [4, 8, 4, 1]
        assert frames[4:6] == [(0, 0, 3, b""), (1, 5, 3, b"\x00\x0bgrpc-status\x010")]
        assert frames[6] == (6, 1, 0, b"12345678")
        assert frames[7][:3] == (1, 4, 1) and frames[7][3].startswith(b"\x88")
        assert frames[8] == (0, 0, 1, b"hello")
        assert frames[9][:3] == (1, 5, 1)
        assert backend.counts() == {"connections": 1, "requests": 2}


@pytest.mark.parametrize("frames", [
    h2_frame(1, 4, 1) + h2_frame(0, 0, 1, bytes(5000)),     # a message too long
    h2_frame(1, 0, 1),                                      # CONTINUATION would follow
    h2_frame(1, 4, 1) + h2_frame(0, 8, 1, bytes(5)),        # padding
    h2_frame(0, 0, 1, bytes(20000)),                        # a frame too long
], ids=["message", "continuation", "padding", "frame"])
def test_grpc_backend_ends_what_it_does_not_know(start, frames):
    """The connection is closed, and others are served."""
    with start("grpc") as backend:
        with connect(backend) as sock:
            sock.sendall(H2_START + frames)
            with pytest.raises(ConnectionResetError):
                while sock.recv(65536):
                    pass
                raise ConnectionResetError
        with connect(backend) as sock:
            sock.sendall(H2_START + h2_frame(1, 5, 1))
            file = sock.makefile("rb")
            assert [read_h2_frame(file)[0] for _ in range(6)] == [4, 8, 4, 1, 0, 1]


def fastcgi_request(script, keep):
    """One request as FastCGI records."""
    def record(kind, content):
        return struct.pack(">BBHHBB", 1, kind, 1, len(content), 0, 0) + content

    params = b"".join(
        struct.pack(">BB", len(name), len(value)) + name + value
        for name, value in ((b"REQUEST_METHOD", b"GET"), (b"SCRIPT_FILENAME", script.encode())))
    return record(1, struct.pack(">HB5x", 1, keep)) + record(4, params) + record(4, b"") \
        + record(5, b"")


def read_fastcgi(sock):
    """The standard output of a request, up to its END_REQUEST."""
    stream, out = sock.makefile("rb"), b""
    while True:
        _, kind, _, size, padding = struct.unpack(">BBHHBx", stream.read(8))
        content = stream.read(size + padding)[:size]
        if kind == 6:
            out += content
        elif kind == 3:
            return out


@pytest.mark.parametrize("kind", [("responder", "-l"), ("responder", "unix", "-l"), ("libfcgi",),
                                  ("php",)])
def test_fastcgi_backends_say_hello(start, tmp_path, kind):
    """On a connection that ends, and on one that is kept."""
    script = f"{tmp_path}/html/hello.php"
    with start(*kind) as backend:
        for keep in (0, 1):
            with connect(backend) as sock:
                sock.sendall(fastcgi_request(script, keep))
                head, _, body = read_fastcgi(sock).partition(b"\r\n\r\n")
                assert b"Content-Length: 13" in head or b"Content-length: 13" in head
                assert body == backends.HELLO


def test_the_chain_asks_its_service(start):
    """Once for each request, on few connections; and says so when it has gone."""
    with start("chain") as backend:
        for _ in range(20):
            with connect(backend) as sock:
                sock.sendall(fastcgi_request("/x", 0))
                assert read_fastcgi(sock).endswith(b"\r\n\r\nThe quick bro")
        counts = backend.counts()
        assert counts["requests"] == 20
        assert counts["connections"] <= backends.PROCESSES
        backend.processes[0].kill()
        backend.processes[0].wait()
        with connect(backend) as sock:
            sock.sendall(fastcgi_request("/x", 0))
            assert read_fastcgi(sock).startswith(b"Status: 502")


def test_a_backend_ends_with_its_block(start):
    """All of its processes."""
    for kind in ("http", "responder", "libfcgi", "chain", "php"):
        with start(kind) as backend:
            pids = [process.pid for process in backend.processes]
            assert pids
        for pid in pids:
            with pytest.raises(ProcessLookupError):
                os.kill(pid, 0)


def test_time_wait_is_counted_by_port(start):
    """It stays with who closes first; the other end is not in it."""
    with start("http", "-c") as backend:
        before = probes.time_wait_count(backend.port)
        for _ in range(5):
            with connect(backend) as sock:
                sock.sendall(HEAD)
                read_answers(sock, 1, 13)
                assert sock.recv(1) == b""
        end = time.monotonic() + 10     # the last ACK may be under way on a busy machine
        while probes.time_wait_count(backend.port) - before < 5 and time.monotonic() < end:
            time.sleep(0.01)
        assert probes.time_wait_count(backend.port) - before == 5
