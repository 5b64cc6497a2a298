"""Backends of every protocol for test_http_streamed_bodies.py. They take requests apart to the last byte of what was
announced, answer when a script says, and note whether each body came whole or was cut."""

import re
import socket
import struct
import threading

import fastcgi_backends as fcgi
import h2_backend as h2


class Cut(Exception):
    """The request ended before what was announced had come."""


class Seen:
    """A request as a backend saw it. outcome: "whole", "cut", "garbage", or None while it comes."""

    def __init__(self, protocol, uri, announced, is_second):
        self.protocol, self.uri, self.announced, self.is_second = protocol, uri, announced, is_second
        self.body = b""
        self.outcome = None
        self.early = None           # what is to be answered before the body is whole
        self.is_answered = False
        self.is_upgraded = False
        self.has_begun = False      # … by a part

    def __repr__(self):
        return "%s %s announced=%s got=%d %s" % (self.protocol, self.uri, self.announced, len(self.body), self.outcome)


# What is answered before the body has come, by a word of the URI: status, fields, body. "early-…" at once, "mid-…"
# when some of the body is there.
EARLY = {
    "200": (200, [], b"early"),
    "404": (404, [], b"nothing"),
    "503": (503, [], b"busy"),
    "accel": (200, [("X-Accel-Redirect", "/@/second/here")], b""),
    "101": (101, [("Upgrade", "x"), ("Connection", "upgrade")], b""),
    "named": (200, [("X-Accel-Redirect", "@second_@")], b""),
    "head": (200, [("X-More", "to come")], None),           # a part of the answer; the rest when the body was whole
}


class Backend:
    """One protocol on two ports; the second is the one to be asked next, and answers nothing early."""

    name = None

    def __init__(self):
        self.seen = []
        self.changed = threading.Condition()
        self.listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
        self.port, self.next_port = [one.getsockname()[1] for one in self.listeners]
        for number, listener in enumerate(self.listeners):
            threading.Thread(target=self._accept, args=(listener, number), daemon=True).start()

    def _accept(self, listener, number):
        while True:
            try:
                conn = listener.accept()[0]
            except OSError:
                return
            threading.Thread(target=self._run, args=(conn, number), daemon=True).start()

    def _run(self, conn, number):
        with conn:
            try:
                self.talk(conn, number)
            except (OSError, EOFError, Cut):
                pass

    def close(self):
        for listener in self.listeners:
            listener.shutdown(socket.SHUT_RDWR)
            listener.close()

    # notes

    def begin(self, uri, announced, is_second, number=0):
        seen = Seen(self.name, uri, announced, is_second)
        when, _, what = uri.rpartition("/")[2].partition("-")
        if number == 0 and not is_second and when in ("early", "mid"):
            seen.early = (when, *EARLY[what])
            seen.is_upgraded = what == "101"
        with self.changed:
            self.seen.append(seen)
            self.changed.notify_all()
        return seen

    def end(self, seen, outcome):
        with self.changed:
            seen.outcome = seen.outcome or outcome
            self.changed.notify_all()

    def wait(self, condition):
        """Waits until condition(all that was seen) is true, and gives that."""
        with self.changed:
            assert self.changed.wait_for(lambda: condition(self.seen), 10), self.seen
            return condition(self.seen)

    def speak(self, seen, *where):
        """Answers what is to be answered by now."""
        if seen.early is not None and (seen.early[0] == "early" or seen.body):
            _, status, fields, body = seen.early
            seen.early = None
            seen.is_answered, seen.has_begun = body is not None, True
            fields = [(key, value.replace("/@", "/" + self.name).replace("_@", "_" + self.name))
                      for key, value in fields]
            self.send(*where, status, fields, body)
        elif seen.outcome == "whole" and not seen.is_answered:
            seen.is_answered = True
            self.send(*where, 200, [], b"got %d" % len(seen.body), is_rest=seen.has_begun)

    def got(self, seen, more, *where):
        with self.changed:
            seen.body += more
            self.changed.notify_all()
        self.speak(seen, *where)


class Stream(Backend):
    """Those that have a connection for themselves: one request after the other is read from a file."""

    def talk(self, conn, number):
        stream = conn.makefile("rb")
        while True:
            seen = self.head(stream, number)
            if seen is None:
                return
            try:
                self.speak(seen, conn)
                self.body(stream, seen, conn)
            except (Cut, OSError):
                self.end(seen, "cut")
                return
            self.end(seen, "whole")
            self.speak(seen, conn)
            if seen.is_upgraded:
                conn.sendall(stream.read1(100).upper())
                return
            if not self.keeps:
                return

    keeps = False

    @staticmethod
    def take(stream, size):
        data = stream.read(size)
        if len(data) < size:
            raise Cut
        return data

    def body(self, stream, seen, conn):
        while len(seen.body) < seen.announced:
            more = stream.read1(seen.announced - len(seen.body))
            if not more:
                raise Cut
            self.got(seen, more, conn)

    @staticmethod
    def send(conn, status, fields, body, is_rest=False):
        head = "".join("%s: %s\r\n" % field for field in [("Status", str(status)), *fields])
        head = (head + "\r\n").encode() if not is_rest else b""
        conn.sendall(head + (body if body is not None else b"first "))
        if body is not None:
            conn.shutdown(socket.SHUT_WR)


class Http(Stream):
    name = "proxy"
    keeps = True

    def head(self, stream, number):
        line = stream.readline()
        if not line:
            return None
        match = re.fullmatch(rb"(GET|POST) (/\S*) HTTP/1\.1\r\n", line)
        if match is None:
            self.end(self.begin(repr(line), None, False), "garbage")
            raise Cut
        fields = {}
        while line != b"\r\n":
            line = stream.readline()
            name, _, value = line.partition(b":")
            fields[name.lower()] = value.strip()
        self.is_chunked = fields.get(b"transfer-encoding") == b"chunked"
        announced = None if self.is_chunked else int(fields.get(b"content-length", 0))
        return self.begin(match.group(2).decode(), announced, b"x-second" in fields, number)

    def body(self, stream, seen, conn):
        if seen.announced is not None:
            super().body(stream, seen, conn)
            return
        while True:
            line = stream.readline()
            if not re.fullmatch(rb"[0-9a-f]+\r\n", line):
                raise Cut
            size = int(line, 16)
            data = self.take(stream, size + 2)
            assert data.endswith(b"\r\n")
            self.got(seen, data[:-2], conn)
            if size == 0:
                return

    @staticmethod
    def send(conn, status, fields, body, is_rest=False):
        if is_rest:
            conn.sendall(b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body))
            return
        lines = "HTTP/1.1 %d Some\r\n" % status + "".join("%s: %s\r\n" % field for field in fields)
        if status == 101:
            conn.sendall((lines + "\r\n").encode())
        elif body is None:
            conn.sendall((lines + "Transfer-Encoding: chunked\r\n\r\n6\r\nfirst \r\n").encode())
        else:
            conn.sendall((lines + "Content-Length: %d\r\n\r\n" % len(body)).encode() + body)


class Scgi(Stream):
    name = "scgi"

    def head(self, stream, number):
        digits = b""
        while not digits.endswith(b":"):
            byte = stream.read(1)
            if not byte:
                return None
            digits += byte
        words = self.take(stream, int(digits[:-1])).decode().split("\0")
        self.take(stream, 1)
        params = dict(zip(words[::2], words[1::2]))
        return self.begin(params["REQUEST_URI"], int(params["CONTENT_LENGTH"] or 0), "SECOND" in params, number)


class Uwsgi(Stream):
    name = "uwsgi"

    def head(self, stream, number):
        head = stream.read(4)
        if not head:
            return None
        packet, words, at = self.take(stream, struct.unpack("<BHB", head)[1]), [], 0
        while at < len(packet):
            size = struct.unpack_from("<H", packet, at)[0]
            words.append(packet[at + 2:at + 2 + size].decode())
            at += 2 + size
        params = dict(zip(words[::2], words[1::2]))
        return self.begin(params["REQUEST_URI"], int(params["CONTENT_LENGTH"] or 0), "SECOND" in params, number)


class Fastcgi(Stream):
    """Keeps connections. A body is whole only by the empty record at its end, and cut only by an abort."""

    name = "fastcgi"
    keeps = True

    def head(self, stream, number):
        params = b""
        while True:
            found = fcgi.read_record(stream)
            if found is None:
                return None
            kind, _, content = found
            if kind == fcgi.STDIN:     # of a request that was answered and let go
                continue
            if kind == fcgi.PARAMS and not content:
                break
            params += content if kind == fcgi.PARAMS else b""
        params = dict(fcgi.pairs(params))
        length = params["CONTENT_LENGTH"]
        return self.begin(params["REQUEST_URI"], int(length) if length else None, "SECOND" in params, number)

    def body(self, stream, seen, conn):
        while True:
            found = fcgi.read_record(stream)
            if found is None:
                if not seen.is_answered:
                    self.end(seen, "whole")     # so it looks to an application
                raise Cut
            kind, _, content = found
            if kind == fcgi.ABORT:
                raise Cut
            assert kind == fcgi.STDIN
            if not content:
                return
            self.got(seen, content, conn)

    @staticmethod
    def send(conn, status, fields, body, is_rest=False):
        head = "".join("%s: %s\r\n" % field for field in [("Status", str(status)), *fields])
        data = (b"" if is_rest else head.encode() + b"\r\n") + (b"first " if body is None else body)
        conn.sendall(fcgi.record(fcgi.STDOUT, data) + (b"" if body is None else fcgi.record(fcgi.STDOUT) + fcgi.end()))


class Http2(Backend):
    name = "proxy2"

    def talk(self, conn, number):
        link = h2.Connection(conn, 0)
        link.send(h2.frame(h2.SETTINGS, 0, 0))
        streams = {}
        try:
            while True:
                kind, flags, stream, payload = link.read()
                if kind == h2.HEADERS:
                    fields = dict(h2.decode_block(payload))
                    length = fields.get("content-length")
                    seen = streams[stream] = self.begin(fields[":path"], None if length is None else int(length),
                                                        "x-second" in fields, number)
                    self.speak(seen, link, stream)
                elif kind == h2.DATA and stream in streams:
                    if payload:
                        link.send(h2.frame(h2.WINDOW, 0, 0, h2.u32(len(payload))))
                    self.got(streams[stream], payload, link, stream)
                elif kind == h2.RST and stream in streams:
                    self.end(streams[stream], "cut")
                else:
                    continue
                if kind in (h2.HEADERS, h2.DATA) and flags & h2.END_STREAM:
                    seen = streams[stream]
                    self.end(seen, "whole")
                    self.speak(seen, link, stream)
        finally:
            for seen in streams.values():
                self.end(seen, "cut")

    @staticmethod
    def send(link, stream, status, fields, body, is_rest=False):
        lines = [(":status", str(status))] + [(name.lower(), value) for name, value in fields]
        head = b"" if is_rest else h2.frame(h2.HEADERS, h2.END_HEADERS, stream, h2.block(*lines))
        last = 0 if body is None else h2.END_STREAM
        link.send(head + h2.frame(h2.DATA, last, stream, b"first " if body is None else body))


class Grpc(Http2):
    name = "grpc"


ALL = [Http, Http2, Grpc, Fastcgi, Uwsgi, Scgi]
