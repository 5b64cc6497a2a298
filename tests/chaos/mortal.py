"""Backends that can be killed at any moment and started again, and the load that notices what was lost.

    with Mortal("http") as first, Mortal("http") as second, Callers(port) as callers:
        first.kill()
        ...
        first.start()

Every request has a URI of its own; its answer must name it. A backend writes down each POST when it has all of it,
before it answers, so that one that came twice is seen.
"""

import asyncio
import http.client
import itertools
import os
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time

# Seconds that a backend takes for an answer, so that something is under way whenever it is killed.
DELAY = 0.004

# What the kinds of FastCGI backends say of themselves.
FACTS = {"fastcgi": {}, "fastcgi-kept": {"FCGI_MAX_CONNS": "64"},
         "fastcgi-mux": {"FCGI_MPXS_CONNS": "1"}}

# Seconds after which an answer counts as never coming.
_LIMIT = 20


class Mortal:
    """One backend at a port of its own. Each of its lives is a fork of a process that has imported all there is to import, so that
    it is back at once."""

    def __init__(self, kind):
        from harness import ports       # not there when this file runs as the backend
        self.kind = kind
        self.deaths = []                # (before the signal, after the end), monotonic seconds
        self._port = ports.take()
        self.port = self._port.number
        self._record = tempfile.NamedTemporaryFile(prefix="portunus-mortal-")
        self._parent = subprocess.Popen(
            [sys.executable, __file__, self.kind, str(self.port), self._record.name],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._pid = None

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        if self._pid is not None:
            self.kill()
        self._parent.stdin.close()
        self._parent.wait()
        self._parent.stdout.close()
        self._record.close()
        self._port.close()

    def start(self):
        """Returns when it listens."""
        self._parent.stdin.write(b"live\n")
        self._parent.stdin.flush()
        self._pid = int(self._parent.stdout.readline())

    def kill(self):
        """Returns when it is dead, and its sockets with it."""
        before = time.monotonic()
        os.kill(self._pid, signal.SIGKILL)
        assert self._parent.stdout.readline() == b"dead\n"
        self._pid = None
        self.deaths.append((before, time.monotonic()))

    def posts(self):
        """The URIs of all POSTs that came, in order."""
        with open(self._record.name, encoding="ascii") as file:
            return file.read().split()


class Call:
    """One request. began, ended: monotonic seconds; error: None when all was well."""

    __slots__ = ("method", "uri", "caller", "began", "ended", "error")

    def __init__(self, method, uri, caller, began, error):
        self.method, self.uri, self.caller = method, uri, caller
        self.began, self.ended = began, time.monotonic()
        self.error = error

    def __repr__(self):
        return "<%s %s by %d at %.3f to %.3f: %s>" % (self.method, self.uri, self.caller,
                                                      self.began, self.ended, self.error)


class Callers:
    """Threads that ask without a pause, each over a connection that it keeps: for GETs, and for POSTs."""

    def __init__(self, port, gets=4, posts=4):
        self.calls = []
        self._port = port
        self._numbers = itertools.count()
        self._over = threading.Event()
        self._latest = {}               # caller: when the request that it finished last began
        self._threads = [
            threading.Thread(target=self._run, args=("GET" if number < gets else "POST", number),
                             daemon=True)
            for number in range(gets + posts)]

    def _ask(self, connection, method):
        """Gives the URI, and what went wrong."""
        uri = "/%s%d" % (method.lower(), next(self._numbers))
        try:
            connection.request(method, uri, body=None if method == "GET" else uri)
            answer = connection.getresponse()
            text = answer.read().decode("latin-1")
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            return uri, repr(error)
        if answer.status != 200:
            return uri, "status %d" % answer.status
        return uri, None if text == uri else "answered %r" % text

    def _run(self, method, number):
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=_LIMIT)
        while not self._over.is_set():
            began = time.monotonic()
            uri, error = self._ask(connection, method)
            self.calls.append(Call(method, uri, number, began, error))
            self._latest[number] = began
        connection.close()

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self._over.set()
        for thread in self._threads:
            thread.join(_LIMIT + 5)
            assert not thread.is_alive(), "a client does not end"

    def wait_for_all(self, times=1):
        """Waits until each of the callers has finished a request that it began from now on; that many times."""
        from harness import until
        for _ in range(times):
            moment = time.monotonic()
            until(lambda: all(self._latest.get(number, 0) > moment
                              for number in range(len(self._threads))),
                  "an answer for each client", limit=_LIMIT)

    def failures(self, method):
        """The calls of a method that failed."""
        return [call for call in self.calls if call.method == method and call.error is not None]


# ---- the backend, as a program ----

async def read_http(reader):
    """(method, URI) of a request whose body has come."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    length = 0
    for line in head.split("\r\n")[1:]:
        name, _, value = line.partition(":")
        if name.lower() == "content-length":
            length = int(value)
    await reader.readexactly(length)
    return head.split()[:2]


async def serve_http(reader, writer, work):
    """A connection with one request after the other."""
    while True:
        method, uri = await read_http(reader)
        body = await work(method, uri)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
        await writer.drain()


def fastcgi_record(kind, number, content):
    """One record without padding."""
    return struct.pack(">BBHHBB", 1, kind, number, len(content), 0, 0) + content


def fastcgi_pairs(data):
    """Names and values of a PARAMS stream."""
    at, words = 0, []
    while at < len(data):
        sizes = []
        for _ in range(2):
            if data[at] < 128:
                sizes.append(data[at])
                at += 1
            else:
                sizes.append(struct.unpack_from(">I", data, at)[0] & 0x7fffffff)
                at += 4
        for size in sizes:
            words.append(data[at:at + size].decode("latin-1"))
            at += size
    return dict(zip(words[::2], words[1::2]))


async def answer_fastcgi(writer, number, params, keeps, work):
    """Answers one request; the others on its connection do not wait."""
    body = await work(params["REQUEST_METHOD"], params["REQUEST_URI"])
    writer.write(fastcgi_record(6, number, b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
                 + fastcgi_record(6, number, b"") + fastcgi_record(3, number, bytes(8)))
    if not keeps:
        writer.close()


async def serve_fastcgi(reader, writer, work, facts):
    """A connection with requests side by side."""
    params, keeps, tasks = {}, {}, set()
    while True:
        _, kind, number, size, padding = struct.unpack(">BBHHBx", await reader.readexactly(8))
        content = (await reader.readexactly(size + padding))[:size]
        if kind == 1:
            params[number], keeps[number] = b"", content[2] & 1
        elif kind == 4:
            params[number] += content
        elif kind == 5 and size == 0:
            task = asyncio.create_task(answer_fastcgi(
                writer, number, fastcgi_pairs(params.pop(number)), keeps.pop(number), work))
            tasks.add(task)
            task.add_done_callback(tasks.discard)
        elif kind == 9:
            writer.write(fastcgi_record(10, 0, b"".join(
                struct.pack(">BB", len(name), len(value)) + name.encode() + value.encode()
                for name, value in facts.items())))


async def serve(kind, port, record):
    """Until it is killed."""
    async def work(method, uri):
        if method == "POST":
            os.write(record, uri.encode() + b"\n")
        await asyncio.sleep(DELAY)
        return uri.encode()

    async def connected(reader, writer):
        try:
            if kind == "http":
                await serve_http(reader, writer, work)
            else:
                await serve_fastcgi(reader, writer, work, FACTS[kind])
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_server(connected, "127.0.0.1", port, backlog=1024)
    print(os.getpid(), flush=True)      # it listens
    await server.serve_forever()


def breed(kind, port, record):
    """A backend for each line that comes, one at a time; says when it has died."""
    for _ in sys.stdin:
        pid = os.fork()
        if pid == 0:
            asyncio.run(serve(kind, port, record))
        os.waitpid(pid, 0)
        print("dead", flush=True)


if __name__ == "__main__":
    breed(sys.argv[1], int(sys.argv[2]), os.open(sys.argv[3], os.O_WRONLY | os.O_APPEND))
