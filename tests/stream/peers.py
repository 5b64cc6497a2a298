"""Backends of TCP and UDP for tests of stream groups: each says something to whoever comes."""

import socket
import threading

from harness.wait import until


class Peer:
    """Says its text to whoever connects, and closes; with `holds` when the client has closed. What comes first is kept."""

    def __init__(self, text=b"", host="127.0.0.1", port=0, holds=False, listens=True):
        self.text, self.host, self.port, self.holds = text, host, port, holds
        self.received = []
        self.count = 0
        self.listener = None
        self.address = None
        if listens:
            self.up()
        else:
            with socket.socket() as probe:
                probe.bind((host, port))
                self.port = probe.getsockname()[1]

    def up(self):
        self.listener = socket.socket()
        self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.listener.bind((self.host, self.port))
        self.port = self.listener.getsockname()[1]
        self.listener.listen(64)
        threading.Thread(target=self._serve, args=(self.listener,), daemon=True).start()

    def down(self):
        listener, self.listener = self.listener, None
        if listener is not None:
            listener.shutdown(socket.SHUT_RDWR)
            listener.close()

    close = down

    def _serve(self, listener):
        while True:
            try:
                conn = listener.accept()[0]
            except OSError:
                return
            threading.Thread(target=self._talk, args=(conn,), daemon=True).start()

    def _talk(self, conn):
        with conn:
            try:
                conn.settimeout(10)
                self.count += 1
                conn.sendall(self.text)
                while self.holds:
                    data = conn.recv(65536)
                    if not data:
                        return
                    self.received.append(data)
                    self.answer(conn, data)
            except OSError:
                pass

    def answer(self, conn, data):
        """For those that hold."""

    def wait_more(self, more=2):
        count = self.count
        until(lambda: self.count >= count + more, "%d more connections" % more)


class DatagramPeer:
    """Answers each datagram with what `answer` gives for it; None is silence."""

    def __init__(self, answer=lambda data: data):
        self.answer = answer
        self.received = []
        self.port = 0
        self.socket = None
        self.up()

    def up(self):
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("127.0.0.1", self.port))
        self.port = self.socket.getsockname()[1]
        threading.Thread(target=self._serve, args=(self.socket,), daemon=True).start()

    def down(self):
        sock, self.socket = self.socket, None
        if sock is not None:
            wake = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            with wake:
                self.ending = True
                wake.sendto(b"end", ("127.0.0.1", self.port))
                self.thread_ended.wait(10)
            sock.close()

    close = down

    def _serve(self, sock):
        self.ending = False
        self.thread_ended = threading.Event()
        while True:
            data, sender = sock.recvfrom(65536)
            if self.ending:
                self.thread_ended.set()
                return
            self.received.append(data)
            answer = self.answer(data)
            if answer is not None:
                sock.sendto(answer, sender)


def ask(port, source="127.0.0.1", send=b""):
    """One session: all that was said; b"" where nobody served it."""
    with socket.socket() as sock:
        sock.settimeout(10)
        sock.bind((source, 0))
        sock.connect(("127.0.0.1", port))
        text = b""
        try:
            if send:
                sock.sendall(send)
            while True:
                data = sock.recv(65536)
                if not data:
                    return text
                text += data
        except ConnectionResetError:
            return text


def hold(port):
    """A session that goes on; gives its socket and what was said first."""
    sock = socket.create_connection(("127.0.0.1", port), timeout=10)
    return sock, sock.recv(100)
