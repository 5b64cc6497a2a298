"""Load that notices everything: short connections and kept ones, each with its time and its end.

    with Traffic(port) as traffic:
        ...                             # whatever is to be survived
    traffic.assert_nothing_lost()

The server under it must answer "PID\\n" (return 200 "$pid\\n").
"""

import socket
import threading
import time

_SHORT = b"GET /short HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
_KEPT = b"GET /kept HTTP/1.1\r\nHost: localhost\r\n\r\n"

# Seconds after which an answer counts as never coming. Longer than any stop in these tests.
_LIMIT = 12


class Exchange:
    """One request. began: monotonic seconds; wait: seconds from connect() (or from sending, on a
    kept connection) to the whole answer; pid: who answered, None with an error; error: text."""

    __slots__ = ("kind", "began", "wait", "pid", "error")

    def __init__(self, kind, began, pid, error):
        self.kind = kind
        self.began = began
        self.wait = time.monotonic() - began
        self.pid = pid
        self.error = error

    def __repr__(self):
        return "<%s at %.3f, %.1f ms, %s>" % (self.kind, self.began, self.wait * 1000,
                                              self.error or "by %d" % self.pid)


class _Broken(Exception):
    pass


def _read_answer(sock):
    """Reads one answer with a Content-Length: (pid, whether the server will close)."""
    data = b""
    while True:
        head, end, body = data.partition(b"\r\n\r\n")
        if end:
            lower = head.lower()
            length = int(lower.partition(b"content-length:")[2].split(b"\r\n")[0])
            if len(body) >= length:
                break
        try:
            more = sock.recv(4096)
        except socket.timeout:
            raise _Broken("no answer") from None
        except ConnectionResetError:
            raise _Broken("reset after %d bytes" % len(data)) from None
        if not more:
            raise _Broken("closed after %d bytes" % len(data))
        data += more
    if not head.startswith(b"HTTP/1.1 200"):
        raise _Broken("answered %r" % head[:40])
    return int(body[:length]), b"connection: close" in lower


class Traffic:
    """short: threads that open a connection for each request; kept: threads with `each`
    connections that they keep, and use one after the other."""

    def __init__(self, address, short=3, kept=1, each=8, pause=0.0):
        self.address = ("127.0.0.1", address) if isinstance(address, int) else address
        self.exchanges = []
        self._each = each
        self._pause = pause
        self._over = threading.Event()
        self._threads = [threading.Thread(target=self._run_short, daemon=True)
                         for _ in range(short)]
        self._threads += [threading.Thread(target=self._run_kept, daemon=True)
                          for _ in range(kept)]

    # the two kinds of clients

    def _connect(self):
        sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        sock.settimeout(_LIMIT)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            sock.connect(self.address)
        except OSError as error:
            sock.close()
            raise _Broken("connect: %s" % error) from None
        return sock

    def _ask(self, kind, sock, request):
        """One exchange on a connection, or on a new one for None. Gives the connection, or None
        when it is over."""
        began = time.monotonic()
        pid, error, closes = None, None, True
        try:
            sock = sock or self._connect()
            try:
                sock.sendall(request)
            except OSError as failure:
                raise _Broken("send: %s" % failure) from None
            pid, closes = _read_answer(sock)
            if request is _SHORT:
                self._expect_end(sock)
        except _Broken as failure:
            error = str(failure)
        self.exchanges.append(Exchange(kind, began, pid, error))
        if closes and sock is not None:
            sock.close()
            return None
        return sock

    @staticmethod
    def _expect_end(sock):
        try:
            if sock.recv(100) != b"":
                raise _Broken("bytes after the answer")
        except ConnectionResetError:
            raise _Broken("reset after the answer") from None
        except socket.timeout:
            raise _Broken("not closed after the answer") from None

    def _run_short(self):
        while not self._over.is_set():
            self._ask("short", None, _SHORT)
            if self._pause:
                time.sleep(self._pause)

    def _run_kept(self):
        socks = [None] * self._each
        while not self._over.is_set():
            for i in range(self._each):
                kind = "first" if socks[i] is None else "kept"
                socks[i] = self._ask(kind, socks[i], _KEPT)
                time.sleep(0.001)
        for sock in socks:
            if sock is not None:
                sock.close()

    # beginning and end

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self._over.set()
        for thread in self._threads:
            thread.join(_LIMIT + 3)
            assert not thread.is_alive(), "a client does not end"

    def wait_for(self, count):
        """Waits until so many more exchanges are done."""
        goal = len(self.exchanges) + count
        end = time.monotonic() + 30
        while len(self.exchanges) < goal:
            assert time.monotonic() < end, "load stands still"
            time.sleep(0.005)

    # what was seen

    def failures(self):
        return [one for one in self.exchanges if one.error is not None]

    def since(self, moment):
        """What began after that moment (time.monotonic())."""
        return [one for one in self.exchanges if one.began >= moment]

    def pids(self, moment=0.0):
        return {one.pid for one in self.since(moment) if one.pid is not None}

    def worst_new(self, moment=0.0):
        """The longest wait in seconds among connections begun since."""
        waits = [one.wait for one in self.since(moment) if one.kind != "kept"]
        return max(waits, default=0.0)

    def figures(self):
        waits = sorted(one.wait for one in self.exchanges if one.kind != "kept")
        kept = sum(1 for one in self.exchanges if one.kind == "kept")
        return "%d connections (median %.1f ms, 99.9%% %.1f ms, worst %.1f ms), %d kept requests, " \
            "%d failed" % (len(waits), waits[len(waits) // 2] * 1000,
                           waits[len(waits) * 999 // 1000] * 1000, waits[-1] * 1000, kept,
                           len(self.failures()))

    def assert_nothing_lost(self, least=200):
        """No request failed, and there were enough to say so."""
        print(self.figures())
        failures = self.failures()
        assert not failures, "%d of %d failed: %s" % (len(failures), len(self.exchanges),
                                                      failures[:10])
        assert len(self.exchanges) >= least, "too little load to tell: %d" % len(self.exchanges)
