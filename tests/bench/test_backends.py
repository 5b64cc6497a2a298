"""What stands behind the servers of the benchmark does what the rows expect."""

import os
import socket
import struct
import sys

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


def test_a_backend_ends_with_its_block(start):
    """All of its processes."""
    for kind in ("http", "responder", "libfcgi", "php"):
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
        assert probes.time_wait_count(backend.port) - before == 5
