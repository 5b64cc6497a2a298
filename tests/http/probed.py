"""Servers that are probed by the tests of health checks, and what those wait for."""

import socketserver
import threading

import pytest

from harness import Server
from harness.server import run_binary
from harness.wait import until


class Backend:
    """A server that counts what it is asked, and answers what it is told to.

    answer  bytes of the answer to each request; None: closes without a word
    greets  bytes sent at once after accept
    """

    def __init__(self, answer=b"", greets=b"", keeps=False):
        self.answer = answer
        self.greets = greets
        self.keeps = keeps
        self.requests = []       # heads as received
        self.connections = 0
        self.lock = threading.Lock()
        self.server = None
        self.port = None
        self.up()

    def up(self):
        backend = self

        class Handler(socketserver.BaseRequestHandler):
            def handle(self):
                backend.serve(self.request)

        class Server(socketserver.ThreadingTCPServer):
            allow_reuse_address = True
            daemon_threads = True
            request_queue_size = 64

        self.server = Server(("127.0.0.1", self.port or 0), Handler)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    def down(self):
        self.server.shutdown()
        self.server.server_close()

    def serve(self, connection):
        with self.lock:
            self.connections += 1
        connection.settimeout(20)
        try:
            if self.greets:
                connection.sendall(self.greets)
            while True:
                head = b""
                while not self.is_whole(head):
                    part = connection.recv(65536)
                    if not part:
                        return
                    head += part
                with self.lock:
                    self.requests.append(head)
                if self.answer is None:
                    return
                connection.sendall(self.answer(head) if callable(self.answer) else self.answer)
                if not self.keeps:
                    return
        except OSError:
            pass

    def is_whole(self, head):
        return head.endswith(b"\r\n\r\n")

    def count(self):
        with self.lock:
            return len(self.requests)

    def wait_more(self, more=2):
        """Waits until so many further requests came: what was told to the server is known by then."""
        before = self.count()
        until(lambda: self.count() >= before + more, "%d more probes" % more)


def ok(body=b"ok", status=b"200 OK", headers=b""):
    return (b"HTTP/1.1 " + status + b"\r\n" + headers +
            b"Content-Length: %d\r\n\r\n" % len(body) + body)


class FastcgiBackend(Backend):
    def is_whole(self, head):
        return head.endswith(b"\x01\x05\x00\x01\x00\x00\x00\x00")


def fastcgi_answer(output, status=0):
    def record(kind, content):
        return bytes([1, kind, 0, 1, len(content) >> 8, len(content) & 255, 0, 0]) + content
    return record(6, output) + record(6, b"") + record(3, bytes([0, 0, 0, 0, status, 0, 0, 0]))


@pytest.fixture
def backends():
    made = []

    def make(*args, kind=Backend, **kwargs):
        backend = kind(*args, **kwargs)
        made.append(backend)
        return backend

    yield make
    for backend in made:
        backend.down()


def wait_up(server, backend):
    server.wait_log(r"enable check peer: 127\.0\.0\.1:%d\b" % backend.port)


def wait_down(server, backend):
    server.wait_log(r"disable check peer: 127\.0\.0\.1:%d\b" % backend.port)


def refusal(text):
    """What -t says of a configuration."""
    server = Server(http=text)
    try:
        done = run_binary("-p", server.dir + "/", "-c", "nginx.conf", "-e", "stderr", "-t")
        return done.stderr
    finally:
        server.close(check=False)
