"""A backend by script, for tests of what passes requests on."""

import socket
import threading


class Backend:
    """A server of one script: each accepted connection gets the next list of answers, one for each request. An
    answer is bytes, or a function of (connection, request). The last bytes of a connection and its end leave in one
    segment, so that no server takes the connection for an idle one in between."""

    def __init__(self, *connections, address=("127.0.0.1", 0), family=socket.AF_INET):
        self.listener = socket.socket(family, socket.SOCK_STREAM)
        self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.listener.bind(address)
        self.listener.listen(16)
        self.port = self.listener.getsockname()[1] if family == socket.AF_INET else None
        self.requests = []          # bytes of each request, in order
        self.connections = 0        # accepted so far
        self.scripts = list(connections)
        self.problems = []
        self.changed = threading.Condition()
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    def _serve(self):
        while True:
            try:
                conn = self.listener.accept()[0]
            except OSError:
                return
            conn.settimeout(10)
            with self.changed:
                script = self.scripts[min(self.connections, len(self.scripts) - 1)]
                self.connections += 1
                self.changed.notify_all()
            threading.Thread(target=self._talk, args=(conn, script), daemon=True).start()

    def _talk(self, conn, script):
        with conn:
            try:
                for number, answer in enumerate(script):
                    request = read_request(conn)
                    if request is None:
                        return
                    with self.changed:
                        self.requests.append(request)
                        self.changed.notify_all()
                    if callable(answer):
                        answer(conn, request)
                    else:
                        if number + 1 == len(script) and conn.family != socket.AF_UNIX:
                            conn.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 1)
                        conn.sendall(answer)
            except OSError as error:
                self.problems.append(error)

    def wait_requests(self, count):
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.requests) >= count, 10), self.requests
            return self.requests

    def close(self):
        self.listener.close()


class RawBackend(Backend):
    """Each connection gets these answers, or lists of pieces of one, one for each thing that is sent; what came is kept raw."""

    def _talk(self, conn, script):
        with conn:
            try:
                for answer in script:
                    data = conn.recv(1000000)
                    if not data:
                        return
                    with self.changed:
                        self.requests.append(data)
                        self.changed.notify_all()
                    for piece in answer if isinstance(answer, list) else [answer]:
                        conn.sendall(piece)
            except OSError as error:
                self.problems.append(error)


def talk_to_each(talk):
    """A listener; talk(connection) runs on a thread of its own for each that it accepts, and the connection ends with it."""
    listener = socket.create_server(("127.0.0.1", 0))

    def run(conn):
        with conn:
            talk(conn)

    def accept():
        while True:
            try:
                conn = listener.accept()[0]
            except OSError:
                return
            threading.Thread(target=run, args=(conn,), daemon=True).start()
    threading.Thread(target=accept, daemon=True).start()
    return listener


def send_back_in_capitals(conn):
    """To its end."""
    while data := conn.recv(65536):
        conn.sendall(data.upper())


def receive(conn):
    """What comes next of a body that is not whole yet; an OSError where it ends."""
    more = conn.recv(65536)
    if not more:
        raise ConnectionAbortedError("the body of a request was cut short")
    return more


def read_request(conn):
    """Head and body of one request; None at the end."""
    data = b""
    while b"\r\n\r\n" not in data:
        more = conn.recv(65536)
        if not more:
            return None
        data += more
    head, _, body = data.partition(b"\r\n\r\n")
    lower = head.lower()
    if b"content-length:" in lower:
        length = int(lower.split(b"content-length:")[1].split(b"\r\n")[0])
        while len(body) < length:
            body += receive(conn)
    elif b"transfer-encoding: chunked" in lower:
        while not body.endswith(b"0\r\n\r\n"):
            body += receive(conn)
    return head + b"\r\n\r\n" + body
