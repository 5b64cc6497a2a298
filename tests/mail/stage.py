"""What a mail proxy stands between: an authentication server, backends by script, and clients that speak line by line."""

import base64
import re
import socket
import ssl
import threading

from harness import binaries
from harness.server import worker_user

PROTOCOLS = ("pop3", "imap", "smtp")
LIMIT = 10  # seconds; only decides how soon a failure shows


def b64(text):
    """A text or bytes in base64, as bytes."""
    return base64.b64encode(text.encode("latin-1") if isinstance(text, str) else text)


def plain(login, password):
    return b64("\0%s\0%s" % (login, password))


class Listener:
    """A server in threads of this process: `talk` is called with each connection."""

    def __init__(self, family=socket.AF_INET, address=("127.0.0.1", 0)):
        self.socket = socket.socket(family)
        self.socket.bind(address)
        self.socket.listen(64)
        self.port = self.socket.getsockname()[1] if family == socket.AF_INET else None
        self.changed = threading.Condition()
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        while True:
            try:
                conn = self.socket.accept()[0]
            except OSError:
                return
            threading.Thread(target=self._guard, args=(conn,), daemon=True).start()

    def _guard(self, conn):
        with conn:
            try:
                self.talk(conn)
            except OSError:
                pass

    def wait(self, condition):
        with self.changed:
            assert self.changed.wait_for(condition, LIMIT), vars(self)

    def note(self, items, item):
        with self.changed:
            items.append(item)
            self.changed.notify_all()

    def close(self):
        self.socket.close()


class AuthServer(Listener):
    """answer(fields) gives a dict of fields, or bytes to send as they are, or None: silence."""

    def __init__(self, answer, **where):
        self.answer = answer
        self.requests = []  # the text of each
        super().__init__(**where)

    def talk(self, conn):
        head = b""
        while b"\r\n\r\n" not in head:
            more = conn.recv(65536)
            if not more:
                return
            head += more
        text = head.decode("latin-1")
        fields = dict(line.split(": ", 1) for line in text.split("\r\n")[1:] if ": " in line)
        self.note(self.requests, text)
        answer = self.answer(fields)
        if answer is None:
            conn.recv(1)
        elif isinstance(answer, bytes):
            conn.sendall(answer)
        else:
            lines = "".join("%s: %s\r\n" % field for field in answer.items())
            conn.sendall(("HTTP/1.0 200 OK\r\n%s\r\n" % lines).encode("latin-1"))

    def fields(self, number=-1):
        """What the request said, by name."""
        lines = self.requests[number].split("\r\n")[1:]
        return dict(line.split(": ", 1) for line in lines if ": " in line)


class MailBackend(Listener):
    """Greets, then answers line by line: answer(line) gives bytes, or None to close."""

    def __init__(self, greeting, answer):
        self.greeting = greeting
        self.answer = answer
        self.lines = []   # all that was said, of all connections; b"" at the end of each
        super().__init__()

    def _without_header(self, said):
        """Notes a whole header of the PROXY protocol, version 2, which nobody answers."""
        size = 16 + int.from_bytes(said[14:16], "big")
        if not said.startswith(PROXY_V2) or len(said) < max(size, 17):
            return said
        self.note(self.lines, said[:size])
        return said[size:]

    def talk(self, conn):
        conn.sendall(self.greeting)
        rest = b""
        while True:
            try:
                more = conn.recv(65536)
            except ConnectionError:
                more = b""
            if not more:
                self.note(self.lines, b"")
                return
            rest = self._without_header(rest + more)
            *lines, rest = rest.split(b"\n") if not rest.startswith(PROXY_V2) else (rest,)
            for line in lines:
                self.note(self.lines, line + b"\n")
                answer = self.answer(line + b"\n")
                if answer is None:
                    return
                conn.sendall(answer)


PROXY_V2 = b"\r\n\r\n\0\r\nQUIT\n"     # what a header of the PROXY protocol begins with


def name_of(line):
    """The name of a command, "" where there is none."""
    words = line.split()
    return words[0].decode("latin-1") if words else ""


def pop3_backend(**special):
    return MailBackend(b"+OK backend\r\n", lambda line: special.get(name_of(line), b"+OK fine\r\n"))


def smtp_backend(**special):
    usual = {"AUTH": b"235 welcome\r\n", "DATA": b"354 go on\r\n"}
    return MailBackend(b"220 backend\r\n",
                       lambda line: {**usual, **special}.get(name_of(line), b"250 fine\r\n"))


def imap_backend(**special):
    state = {"tag": b"a"}

    def answer(line):
        words = line.split()
        if line.rstrip().endswith(b"}"):
            if b"LOGIN" in line:
                state["tag"] = words[0]
            return special.get("literal", b"+ go on\r\n")
        if len(words) < 2 or words[1] not in (b"NOOP", b"LOGOUT", b"CAPABILITY"):
            return special.get("login", b"%s OK welcome\r\n").replace(b"%s", state["tag"])
        return words[0] + b" OK done\r\n"

    return MailBackend(b"* OK backend\r\n", answer)


def endless(protocol):
    """A backend whose answer to the login has one more line, always."""
    line = {"imap": b"* more\r\n", "smtp": b"250-more\r\n"}[protocol] * 100
    backend = imap_backend() if protocol == "imap" else smtp_backend()
    usual = backend.answer

    def talk(conn):
        conn.sendall(backend.greeting)
        while True:
            said = conn.recv(65536)
            if protocol == "imap" and said.endswith(b"}\r\n"):
                conn.sendall(usual(said))
                continue
            while True:
                conn.sendall(line)

    backend.talk = talk
    return backend


# ---- clients

_complete = {
    "pop3": re.compile(rb"\+OK (?:Capability|methods).*?\r\n\.\r\n|(?:\+OK|-ERR|\+ )[^\r]*\r\n", re.S),
    "imap": re.compile(rb"(?:\+ |\* (?:OK|BAD)|(?!\*)[^ ]* (?:OK|NO|BAD))[^\r]*\r\n"),
    "smtp": re.compile(rb"(?:\d{3}-[^\r]*\r\n)*\d{3} [^\r]*\r\n"),
}


class MailClient:
    """Speaks with a server; what it says is read reply by reply."""

    def __init__(self, protocol, port, host="127.0.0.1", raw=b"", context=None):
        self.protocol = protocol
        self.socket = socket.create_connection((host, port), LIMIT)
        self.heard = b""
        if raw:
            self.socket.sendall(raw)
        if context:
            self.secure(context)

    def secure(self, context=None):
        """The handshake of TLS."""
        if context is None:
            context = ssl.create_default_context()
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        self.socket = context.wrap_socket(self.socket, server_hostname="mx.example")

    def read(self, replies=1):
        """So many replies, or what came to the end; None: all to the end."""
        data = self.heard
        while True:
            found = list(_complete[self.protocol].finditer(data)) if replies is not None else []
            if replies is not None and len(found) >= replies:
                end = found[replies - 1].end()
                self.heard = data[end:]
                return data[:end]
            try:
                more = self.socket.recv(65536)
            except ConnectionError:
                more = b""
            if not more:
                self.heard = b""
                return data + b"<end>"
            data += more

    def say(self, data, replies=1):
        try:
            self.socket.sendall(data)
        except OSError:
            pass
        return self.read(replies)

    def close(self):
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def conf(mail, binary=None, main=""):
    """A whole configuration with this mail block, for either binary."""
    load = binaries.load_module("ngx_mail_module", binary) if binary else ""
    return "%s\ndaemon off;\n%s\npid nginx.pid;\nerror_log error.log info;\n%s\nevents {}\nmail {\n%s\n}\n" % (
        load, worker_user(), main, mail)
