"""The load generator counts what it should: against a server that answers by script."""

import itertools
import json
import os
import resource
import socket
import ssl
import subprocess
import sys
import threading

import pytest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import loads    # noqa: E402  pylint: disable=wrong-import-position
import rows     # noqa: E402  pylint: disable=wrong-import-position
from scripted import ScriptedServer  # noqa: E402  pylint: disable=wrong-import-position

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.fixture(scope="module", name="program")
def fixture_program(tmp_path_factory):
    """The compiled load generator."""
    return loads.build(str(tmp_path_factory.mktemp("bench")))


@pytest.fixture(scope="module", name="context")
def fixture_context(tmp_path_factory):
    """What a server needs for TLS. It remembers the names that clients ask for."""
    directory = f"{tmp_path_factory.mktemp('tls')}/tls"
    rows.make_certificates(directory)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(f"{directory}/ecdsa.crt", f"{directory}/ecdsa.key")
    context.names = []
    context.sni_callback = lambda _socket, name, _context: context.names.append(name)
    return context


def run(program, serve, *arguments, body_bytes=None, context=None):
    """One run: exit status, JSON, server."""
    server = ScriptedServer(serve, context)
    try:
        done = subprocess.run([program, "-p", str(server.port), *arguments], timeout=60,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=False)
    finally:
        server.listener.close()
    lines = done.stdout.decode().splitlines()
    answer = json.loads(lines[-1])
    assert body_bytes is None or answer["bytes"] == body_bytes
    return done.returncode, answer, server


def errors_of(answer):
    """The kinds that occurred."""
    return {kind: count for kind, count in answer["errors"].items() if count}


def test_kept_connections_are_used_again(program):
    """Twenty requests on two connections, each answered once, with the URIs in turn."""
    def serve(server, connection):
        for _ in server.read_heads(connection):
            connection.sendall(OK)

    status, answer, server = run(program, serve, "-c", "2", "-n", "20", "-h", "a.example",
                                 "-H", "X-One: 1", "-H", "X-Two: 2", "/a", "/b", body_bytes=100)
    assert (status, answer["requests"], answer["connections"]) == (0, 20, 2)
    assert errors_of(answer) == {}
    assert sorted(set(server.heads)) == [
        b"GET /%c HTTP/1.1\r\nHost: a.example\r\nX-One: 1\r\nX-Two: 2" % name for name in b"ab"]
    assert [head[5:6] for head in server.heads].count(b"a") == 10


def test_short_connections(program):
    """One request on each connection, whoever closes it."""
    def serve(server, connection):
        next(server.read_heads(connection))
        connection.sendall(OK)

    status, answer, server = run(program, serve, "-s", "-c", "3", "-n", "30")
    assert (status, answer["requests"], answer["connections"]) == (0, 30, 30)
    assert len(server.heads) == 30


def test_pipelining_sends_a_batch_at_once(program):
    """The server answers only when all four heads are there."""
    def serve(server, connection):
        heads = server.read_heads(connection)
        while True:
            for _ in range(4):
                if next(heads, None) is None:
                    return
            connection.sendall(OK * 4)

    status, answer, _ = run(program, serve, "-P", "4", "-c", "2", "-n", "40", body_bytes=200)
    assert (status, answer["requests"], answer["connections"]) == (0, 40, 2)


def test_an_answer_in_pieces(program):
    """Each byte sent on its own, two pipelined answers."""
    def serve(server, connection):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for _ in server.read_heads(connection):
            for byte in OK:
                connection.sendall(bytes([byte]))

    status, answer, _ = run(program, serve, "-P", "2", "-c", "1", "-n", "4", body_bytes=20)
    assert (status, answer["requests"]) == (0, 4)


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_chunked_bodies(program, size):
    """In pieces of any size, with extensions and trailers, and the connection is used again; the
    bytes that count are those of the body."""
    body = b"5;a=b\r\nhello\r\n00A \r\n0123456789\r\n0\r\nX: y\r\n\r\n"

    def serve(server, connection):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for _ in server.read_heads(connection):
            answer = CHUNKED + body
            for start in range(0, len(answer), size):
                connection.sendall(answer[start:start + size])

    status, answer, _ = run(program, serve, "-P", "2", "-c", "2", "-n", "8", body_bytes=8 * 15)
    assert (status, answer["requests"], answer["connections"]) == (0, 8, 2)


def test_a_long_body_is_counted(program):
    """A megabyte, most of it thrown away unread."""
    def serve(server, connection):
        for _ in server.read_heads(connection):
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1048576\r\n\r\n")
            connection.sendall(bytes(1048576))

    status, answer, _ = run(program, serve, "-c", "2", "-n", "6", body_bytes=6 * 1048576)
    assert (status, answer["requests"], answer["connections"]) == (0, 6, 2)


def test_a_body_until_the_end(program):
    """No length: the end of the connection is the end of the body."""
    def serve(server, connection):
        next(server.read_heads(connection))
        connection.sendall(b"HTTP/1.1 200 OK\r\n\r\nhello")

    status, answer, _ = run(program, serve, "-c", "2", "-n", "6", body_bytes=30)
    assert (status, answer["requests"], answer["connections"]) == (0, 6, 6)


def test_announced_close_is_no_error(program):
    """What a closing server left unanswered of a batch is asked again."""
    def serve(server, connection):
        next(server.read_heads(connection))
        connection.sendall(OK.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
        connection.shutdown(socket.SHUT_WR)
        while connection.recv(65536):
            pass

    status, answer, _ = run(program, serve, "-P", "4", "-c", "1", "-n", "8")
    assert (status, answer["requests"], answer["connections"]) == (0, 8, 8)
    assert errors_of(answer) == {}


@pytest.mark.parametrize("answer_bytes, kind", [
    (b"HTTP/1.1 500 No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", "status"),
    (b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nhello", "early_close"),
    (b"HTTP/1.1 200 OK\r\nContent-Le", "early_close"),
    (b"", "early_close"),
    (b"HTTP/1.1 200 OK\r\nContent-Length: 5x\r\n\r\nhello", "syntax"),
    (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n0\r\n\r\n", "syntax"),
    (CHUNKED + b"5\r\nhelloX\r\n0\r\n\r\n", "syntax"),
    (CHUNKED + b"\r\n0\r\n\r\n", "syntax"),
    (CHUNKED + b"ffffffffffffffffff\r\n", "syntax"),
    (CHUNKED + b"5\r\nhello\r\n0\r\n", "early_close"),
    (CHUNKED + b"0\r\n\r\n0", "syntax"),
    (b"SSH-2.0-OpenSSH\r\n\r\n and more text", "syntax"),
    (OK + b"more", "syntax"),
    (b"HTTP/1.1 200 OK\r\nX: " + b"y" * 20000, "syntax"),
], ids=["500", "short_body", "short_head", "nothing", "length", "coding", "chunk_end",
        "no_size", "huge_chunk", "short_chunks", "after_chunks", "ssh", "surplus",
        "long_head"])
def test_failures_have_their_kind(program, answer_bytes, kind):
    """Five requests that fail are five errors of that kind, and the exit status tells."""
    def serve(server, connection):
        next(server.read_heads(connection))
        connection.sendall(answer_bytes)

    status, answer, _ = run(program, serve, "-c", "2", "-n", "5")
    assert (status, answer["requests"], errors_of(answer)) == (1, 0, {kind: 5})


def test_the_status_that_counts_may_be_another(program):
    """-x 404."""
    def serve(server, connection):
        for _ in server.read_heads(connection):
            connection.sendall(b"HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n")

    status, answer, _ = run(program, serve, "-x", "404", "-n", "9")
    assert (status, answer["requests"]) == (0, 9)


def test_refused_connections_are_counted(program):
    """Nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    done = subprocess.run([program, "-p", str(port), "-c", "2", "-n", "2"], check=False,
                          stdout=subprocess.PIPE, timeout=60)
    assert done.returncode == 1
    assert errors_of(json.loads(done.stdout)) == {"connect": 2}


def test_a_silent_server_is_an_error_of_a_timed_run(program):
    """Half a second without an answer: every connection's request has stalled."""
    def serve(server, connection):
        for _ in server.read_heads(connection):
            pass

    status, answer, _ = run(program, serve, "-c", "3", "-t", "0.5")
    assert (status, answer["requests"], errors_of(answer)) == (1, 0, {"stalled": 3})


def test_hold_keeps_connections_and_tells_of_lost_ones(program):
    """Ten are held from 127.0.0.2; the server closes four of them."""
    peers, release, gone = [], threading.Event(), threading.Semaphore(0)
    numbers = itertools.count()     # next() is one step: no two connections have the same

    def serve(server, connection):
        number = next(numbers)
        peers.append(connection.getpeername()[0])
        heads = server.read_heads(connection)
        next(heads)
        connection.sendall(OK)
        if number < 4:
            release.wait()
            connection.shutdown(socket.SHUT_WR)
        next(heads, None)
        gone.release()

    server = ScriptedServer(serve)
    with subprocess.Popen([program, "-p", str(server.port), "-i", "10"], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, text=True) as holder:
        assert json.loads(holder.stdout.readline()) == {"held": 10}
        release.set()
        for _ in range(4):
            assert gone.acquire(timeout=30)     # the client closed what the server had closed
        holder.stdin.close()
        assert errors_of(json.loads(holder.stdout.read())) == {"lost": 4}
    server.listener.close()
    assert peers == ["127.0.0.2"] * 10


def serve_all(server, connection):
    """Answers each request."""
    for _ in server.read_heads(connection):
        connection.sendall(OK)


def test_tls_connections_are_kept(program, context):
    """Two handshakes for twenty requests; the name of the Host header is asked for."""
    status, answer, server = run(program, serve_all, "-T", "-c", "2", "-n", "20", "-h",
                                 "a.example", context=context, body_bytes=100)
    assert (status, answer["requests"], answer["connections"]) == (0, 20, 2)
    assert (answer["handshakes"], answer["resumed"]) == (2, 0)
    assert len(server.heads) == 20
    assert context.names[-2:] == ["a.example"] * 2


def test_tls_handshakes_are_full_ones(program, context):
    """A connection for each request, none resumed; and they are TLS 1.3."""
    versions = []

    def serve(server, connection):
        versions.append(connection.version())
        next(server.read_heads(connection))
        connection.sendall(OK)
        connection.unwrap()

    status, answer, _ = run(program, serve, "-T", "-s", "-c", "3", "-n", "30", context=context)
    assert (status, answer["requests"]) == (0, 30)
    assert (answer["handshakes"], answer["resumed"]) == (30, 0)
    assert versions == ["TLSv1.3"] * 30


def test_tls_sessions_are_resumed(program, context):
    """All but the first, which is alone until it has a session."""
    reused = []

    def serve(server, connection):
        reused.append(connection.session_reused)
        next(server.read_heads(connection))
        connection.sendall(OK.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
        connection.unwrap()

    status, answer, _ = run(program, serve, "-T", "-R", "-s", "-c", "5", "-n", "30",
                            context=context)
    assert (status, answer["requests"]) == (0, 30)
    assert (answer["handshakes"], answer["resumed"]) == (30, 29)
    assert reused == [False] + [True] * 29


def test_tls_records_and_answers_need_not_agree(program, context):
    """An answer byte by byte; many answers in one record; a body of many records."""
    def serve(server, connection):
        for number, _ in enumerate(server.read_heads(connection)):
            if number == 0:
                for byte in OK:
                    connection.sendall(bytes([byte]))
            elif number == 3:
                connection.sendall(OK * 3)
            elif number == 4:
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n"
                                   + bytes(1000000) + OK * 3)

    status, answer, _ = run(program, serve, "-T", "-P", "4", "-c", "1", "-n", "8",
                            context=context, body_bytes=1000000 + 7 * 5)
    assert (status, answer["requests"], answer["handshakes"]) == (0, 8, 1)


def test_tls_that_fails_is_an_error(program):
    """Plain text instead of a handshake."""
    status, answer, _ = run(program, lambda _server, connection: connection.sendall(OK),
                            "-T", "-c", "2", "-n", "5")
    assert (status, answer["requests"], errors_of(answer)) == (1, 0, {"tls": 5})


def test_tls_tells_a_body_that_was_cut_from_one_that_ended(program, context):
    """Without a length, only close_notify says that it is whole."""
    ends = itertools.cycle((True, False))

    def serve(server, connection):
        next(server.read_heads(connection))
        connection.sendall(b"HTTP/1.1 200 OK\r\n\r\nhello")
        if next(ends):
            connection.unwrap()
        else:
            connection.shutdown(socket.SHUT_WR)     # the socket's, not TLS's
            socket.socket.recv(connection, 1000)

    status, answer, _ = run(program, serve, "-T", "-c", "1", "-n", "10", context=context)
    assert (status, answer["requests"]) == (1, 5)
    assert sum(errors_of(answer).values()) == 5 and set(errors_of(answer)) <= {"reset", "tls"}


def test_tls_connections_are_held(program, context):
    """Ten, until the end of input, and none is lost."""
    server = ScriptedServer(serve_all, context)
    with subprocess.Popen([program, "-p", str(server.port), "-T", "-i", "10"],
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert json.loads(holder.stdout.readline()) == {"held": 10}
        holder.stdin.close()
        answer = json.loads(holder.stdout.read())
    server.listener.close()
    assert answer["handshakes"] == 10 and errors_of(answer) == {}


def test_wrong_command_lines(program):
    """Usage, exit status 2."""
    for arguments in ([], ["-p", "0"], ["-p", "80", "-s", "-P", "2"], ["-p", "80", "-c", "0"],
                      ["-p", "80", "-a", "nowhere"], ["-p", "80", "-R"], ["-Z"]):
        done = subprocess.run([program, *arguments], stderr=subprocess.PIPE, check=False)
        assert done.returncode == 2
        assert done.stderr.startswith(b"usage:") or b"usage:" in done.stderr


def test_clean_under_its_own_limits(program):
    """More connections than descriptors: one clear line, no crash."""
    def limit():
        resource.setrlimit(resource.RLIMIT_NOFILE, (16, 16))

    with socket.create_server(("127.0.0.1", 0), backlog=128) as listener:
        done = subprocess.run([program, "-p", str(listener.getsockname()[1]), "-c", "64"],
                              preexec_fn=limit, stderr=subprocess.PIPE, check=False)
    assert done.returncode == 2
    assert done.stderr == b"load: socket: Too many open files\n"
