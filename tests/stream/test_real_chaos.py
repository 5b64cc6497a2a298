"""Sessions of stream when backends die, stand still or reset, workers come, go and are killed, and the service reloads."""

import os
import re
import select
import signal
import socket
import struct
import subprocess
import sys

import pytest

from harness import Server, binaries, proc, until
from harness.workers import wait_workers

FRAME = """
pid nginx.pid; error_log error.log info; daemon off; worker_processes %d; %s
events { worker_connections 4096; }
stream { log_format line '$status $pid'; access_log access.log line; %s }
"""

SERVERS = """
    proxy_connect_timeout 10s;
    server { listen 127.0.0.1:@PORT@ backlog=2048; proxy_pass 127.0.0.1:%d; %s }
    server { listen 127.0.0.1:@PORT1@ backlog=2048; return "$pid\\n"; }
"""

# A backend in a process of its own, that can be stopped and killed: gives back what it gets.
ECHO = """
import selectors, socket
listener = socket.create_server(("127.0.0.1", 0), backlog=4096)
print(listener.getsockname()[1], flush=True)
selector = selectors.DefaultSelector()
selector.register(listener, selectors.EVENT_READ)
while True:
    for key, _ in selector.select():
        if key.fileobj is listener:
            selector.register(listener.accept()[0], selectors.EVENT_READ)
            continue
        try:
            data = key.fileobj.recv(65536)
            key.fileobj.sendall(data)
        except OSError:
            data = b""
        if not data:
            selector.unregister(key.fileobj)
            key.fileobj.close()
"""


class Echo:
    def __init__(self):
        self.process = subprocess.Popen([sys.executable, "-c", ECHO], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        self.port = int(self.process.stdout.readline())

    def close(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


@pytest.fixture(name="echo")
def make_echo():
    made = Echo()
    yield made
    made.close()


def conf(workers, port, main="", more=""):
    return FRAME % (workers, main, SERVERS % (port, more))


def begin(port, count):
    """So many sessions, each of which has had an answer."""
    clients = [socket.create_connection(("127.0.0.1", port), timeout=20) for _ in range(count)]
    speak(clients, b"hello")
    return clients


def speak(clients, text):
    """All say this, and all hear it."""
    for client in clients:
        client.sendall(text)
    for client in clients:
        heard = b""
        while len(heard) < len(text):
            more = client.recv(len(text) - len(heard))
            assert more, "a session was lost after %r" % heard
            heard += more
        assert heard == text


def close(clients):
    for client in clients:
        client.close()


def hear_all(client):
    """What comes until the end; a reset is one."""
    text = b""
    try:
        while True:
            more = client.recv(65536)
            if not more:
                return text
            text += more
    except ConnectionResetError:
        return text


def is_readable(client):
    """Is there something, or the end? (Descriptors may be too large for select().)"""
    poll = select.poll()
    poll.register(client, select.POLLIN)
    return bool(poll.poll(0))


def is_ended(client):
    """Has it been told that it is over?"""
    if not is_readable(client):
        return False
    try:
        return client.recv(1) == b""
    except ConnectionResetError:
        return True


def pid_of(server):
    """Who answers a new connection."""
    with socket.create_connection(("127.0.0.1", server.port_of("PORT1")), timeout=20) as client:
        text = hear_all(client)
    assert re.fullmatch(rb"\d+\n", text), "a connection was lost: %r" % text
    return int(text)


# ---- backends

def test_a_killed_backend_ends_its_sessions(serve, echo):
    server = serve(conf=conf(2, echo.port))
    clients = begin(server.port, 200)
    echo.close()
    assert [hear_all(client) for client in clients] == [b""] * 200
    close(clients)
    assert len(server.wait_lines("access.log", 200)) == 200


def test_a_backend_that_stands_still_loses_nothing(serve, echo):
    server = serve(conf=conf(1, echo.port))
    clients = begin(server.port, 50)
    echo.process.send_signal(signal.SIGSTOP)
    for client in clients:
        client.sendall(b"while it stands")
    late = socket.create_connection(("127.0.0.1", server.port), timeout=20)  # the kernel connects it
    late.sendall(b"late")
    assert pid_of(server) in server.children()  # others are served
    echo.process.send_signal(signal.SIGCONT)
    for client in clients:
        assert client.recv(100) == b"while it stands"
    assert late.recv(100) == b"late"
    close(clients + [late])


def test_a_backend_that_stands_still_is_left_in_time(serve, echo):
    server = serve(conf=conf(1, echo.port, more="proxy_timeout 300ms;"))
    echo.process.send_signal(signal.SIGSTOP)
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as client:
        client.sendall(b"hello")
        assert hear_all(client) == b""
    server.wait_log("connection timed out")
    echo.process.send_signal(signal.SIGCONT)


def test_a_backend_that_resets_after_its_last_words(serve):
    """What it said before is delivered, though a client wrote to it meanwhile."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = serve(conf=conf(1, listener.getsockname()[1]))
        with socket.create_connection(("127.0.0.1", server.port), timeout=20) as client:
            backend = listener.accept()[0]
            client.sendall(b"unread" * 1000)
            until(lambda: is_readable(backend), "the client's bytes")
            backend.sendall(b"last words")
            backend.close()  # with bytes unread: a reset
            assert hear_all(client) == b"last words"
        with socket.create_connection(("127.0.0.1", server.port), timeout=20) as client:
            backend = listener.accept()[0]
            backend.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            backend.close()
            assert hear_all(client) == b""


def test_a_client_that_resets_ends_its_backends_session(serve):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = serve(conf=conf(1, listener.getsockname()[1]))
        client = socket.create_connection(("127.0.0.1", server.port), timeout=20)
        backend = listener.accept()[0]
        backend.settimeout(20)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.close()
        with backend:
            assert hear_all(backend) == b""


# ---- reloads and workers

def change(server, workers, port):
    """A reload to so many workers; gives those that now serve, besides the old ones."""
    old = set(server.children())
    server.configure(conf=conf(workers, port))
    server.signal("reload")
    until(lambda: len(set(server.children()) - old) == workers and all(
        proc.title(pid) == "nginx: worker process is shutting down" for pid in old & set(server.children())),
          lambda: "the change of workers: " + server.evidence())
    return set(server.children()) - old


def test_a_reload_under_a_thousand_sessions(serve, echo):
    server = serve(conf=conf(2, echo.port))
    old = set(wait_workers(server, 2))
    clients = begin(server.port, 1000)
    new = change(server, 2, echo.port)
    speak(clients, b"after the reload")
    assert {pid_of(server) for _ in range(20)} <= new
    close(clients)
    until(lambda: set(server.children()) == new, "the end of the old workers")
    lines = server.wait_lines("access.log", 1000)
    assert sum(line in ["200 %d" % pid for pid in old] for line in lines) == 1000


@pytest.mark.skipif("--with-sanitizer" in binaries.version_text(binaries.under_test()), reason="takes long, and its memory says nothing")
def test_ten_thousand_idle_sessions(serve, echo):
    """Two kilobytes each, both connections together; a reload keeps all of them, and they cost no time."""
    count, text = 10000, conf(2, echo.port).replace("worker_connections 4096", "worker_connections 16384")
    server = serve(conf=text)
    workers = wait_workers(server, 2)
    clients = []

    def begin_half():
        """A few at a time: those that begin need more memory, which the allocator keeps for a while."""
        for _ in range(count // 2 // 50):
            clients.extend(begin(server.port, 50))

    try:
        begin_half()
        before = sum(map(proc.resident_kb, workers))
        begin_half()
        assert (sum(map(proc.resident_kb, workers)) - before) * 1024 / (count // 2) < 2560
        server.signal("reload")
        until(lambda: len(server.children()) == 4 and all(
            proc.title(pid) == "nginx: worker process is shutting down" for pid in workers), server.evidence)
        speak(clients, b"there are many of us")
    finally:
        close(clients)
    until(lambda: not set(server.children()) & set(workers), server.evidence)
    assert len(server.wait_lines("access.log", count)) == count


def test_growing_and_shrinking_lose_no_session(serve, echo):
    server = serve(conf=conf(1, echo.port))
    wait_workers(server, 1)
    clients = begin(server.port, 100)
    for workers in (4, 2, 3, 1):
        new = change(server, workers, echo.port)
        assert {pid_of(server) for _ in range(50)} <= new
        clients += begin(server.port, 50)
        speak(clients, b"with %d" % workers)
    until(lambda: proc.listening(server.port) == 1, "one socket")
    close(clients)
    until(lambda: set(server.children()) == new, "the end of the old workers")


def test_a_killed_worker_costs_its_own_sessions_only(serve, echo):
    server = serve(conf=conf(2, echo.port), allow=["exited on signal 9"])
    wait_workers(server, 2)
    clients = begin(server.port, 200)
    first, second = server.children()
    os.kill(first, signal.SIGSTOP)  # what comes now is the other's
    clients += begin(server.port, 5)
    os.kill(first, signal.SIGKILL)
    until(lambda: first not in server.children() and len(server.children()) == 2, "the next worker")
    workers = wait_workers(server, 2, without=[first])
    until(lambda: any(is_ended(client) for client in clients), "the end of its sessions")
    lost = [client for client in clients if is_ended(client)]
    kept = [client for client in clients if client not in lost]
    assert 5 <= len(kept) < len(clients)
    assert {client.fileno() for client in clients[-5:]} <= {client.fileno() for client in kept}
    speak(kept, b"still here")
    assert {pid_of(server) for _ in range(20)} <= set(workers) and second in workers
    close(kept)
    # The other worker has ended all of its own, and logs as many as were kept.
    until(lambda: server.lines("access.log").count("200 %d" % second) >= len(kept), "the lines of those that were kept")
    close(lost)


def test_worker_shutdown_timeout_ends_sessions(serve, echo):
    server = serve(conf=conf(1, echo.port, "worker_shutdown_timeout 200ms;"))
    old = wait_workers(server, 1)
    clients = begin(server.port, 100)
    server.signal("reload")
    assert [hear_all(client) for client in clients] == [b""] * 100
    until(lambda: not set(old) & set(server.children()), "the end of the old worker")
    close(clients)
    assert len(server.wait_lines("access.log", 100)) == 100
    speak(begin(server.port, 1), b"new")
