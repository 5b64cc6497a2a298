"""101 while the request's body is still being sent: what is left of the body goes first, then the new protocol."""

import socket
import threading

import pytest

PLACES = ("access_log logs/access.log; server { listen 127.0.0.1:@PORT@; proxy_http_version 1.1; proxy_request_buffering off;"
          "proxy_set_header Upgrade x; proxy_set_header Connection upgrade; location / { proxy_pass http://127.0.0.1:%d; } }")
SWITCH = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"


class Switching:
    """A backend that switches as soon as it has the head, and keeps all that comes up to "end" behind it."""

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.body = b""
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        with self.listener, self.listener.accept()[0] as conn:
            got = b""
            while b"\r\n\r\n" not in got:
                got += conn.recv(65536)
            self.body = got.partition(b"\r\n\r\n")[2]
            conn.sendall(SWITCH)
            while not self.body.endswith(b"end"):
                more = conn.recv(65536)
                if not more:
                    return
                self.body += more
            conn.sendall(b"bye")


@pytest.fixture(name="switched")
def _switched(serve):
    """switched(framing, first) gives a client that got 101 with so much of its body sent, backend and server."""
    def start(framing, first):
        backend = Switching()
        server = serve(PLACES % backend.port)
        client = server.client()
        client.send(b"POST / HTTP/1.1\r\nHost: a\r\nUpgrade: x\r\nConnection: upgrade\r\n" + framing + b"\r\n\r\n" + first)
        assert client.head().status == 101
        return client, backend, server
    return start


@pytest.mark.parametrize("framing, first, second", [
    (b"Content-Length: 10", b"12345", b"67890"),
    (b"Transfer-Encoding: chunked", b"5\r\n12345\r\n", b"5\r\n67890\r\n0\r\n\r\n"),
])
def test_switched_before_the_body_was_sent(switched, framing, first, second):
    client, backend, server = switched(framing, first)
    with client:
        client.send(second + b"the end")
        assert client.rest() == b"bye"
    backend.thread.join()
    assert backend.body == first + second + b"the end"
    assert "rule" not in server.error_log


def test_client_leaves_in_the_body(switched):
    client, backend, server = switched(b"Content-Length: 10", b"12345")
    client.close()
    assert '" 101 ' in server.wait_lines("logs/access.log")[0]
    backend.thread.join()
    assert backend.body == b"12345"
