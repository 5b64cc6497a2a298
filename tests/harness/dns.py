"""Name servers for tests: one in this process that says what a test wants, and dnsmasq.

    dns = NameServer({"www.example": ["127.0.0.1", "::1"], "gone.example": NXDOMAIN})
    dns.records["www.example"] = ["127.0.0.2"]      # from the next question on
    dns.asked                                       # [("www.example", "A"), ...]
    dns.close()
"""

import ipaddress
import os
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import threading

from . import ports
from .wait import until

TYPES = {"A": 1, "CNAME": 5, "SOA": 6, "PTR": 12, "AAAA": 28, "SRV": 33}
_names = {number: name for name, number in TYPES.items()}


class Rcode(int):
    """In place of records: the answer is this error."""


class _Silence:
    """In place of records: there is no answer at all."""


FORMERR, SERVFAIL, NXDOMAIN, NOTIMP, REFUSED = (Rcode(n) for n in range(1, 6))
SILENCE = _Silence()


class Raw:
    """In place of records: the datagrams that a function of the question makes of it, as they are."""

    def __init__(self, make):
        self.make = make


class Alias(str):
    """A record: the name is an alias of this one."""


class Pointer(str):
    """A record: the address that the name stands for has this name."""


class Service(tuple):
    """A record: Service((priority, weight, port, target))."""


def encode_name(name):
    """A name as messages have it."""
    labels = [label.encode("latin-1") for label in name.rstrip(".").split(".") if label]
    return b"".join(bytes([len(label)]) + label for label in labels) + b"\0"


def _decode_name(message, at):
    labels = []
    while message[at]:
        labels.append(message[at + 1:at + 1 + message[at]].decode("latin-1"))
        at += 1 + message[at]
    return ".".join(labels), at + 1


def _data(record):
    """(type, data) of a record."""
    if isinstance(record, Alias):
        return "CNAME", encode_name(record)
    if isinstance(record, Pointer):
        return "PTR", encode_name(record)
    if isinstance(record, Service):
        return "SRV", struct.pack(">3H", *record[:3]) + encode_name(record[3])
    address = ipaddress.ip_address(record)
    return ("A" if address.version == 4 else "AAAA"), address.packed


class NameServer:
    """A name server on 127.0.0.1, over UDP and TCP, in threads of this process.

    records: for each name (lower case) a list of addresses, Alias, Pointer and Service; or an Rcode, Raw, or
    SILENCE. A name that is not there is NXDOMAIN. The key may be (name, "A") for one type alone, and
    the value a function of (name, type) that gives such a value.
    """

    def __init__(self, records=None, ttl=3600, port=None):
        self.records = dict(records or {})
        self.ttl = ttl
        self.asked = []
        self.truncates = False  # over UDP all answers are cut short
        self._port = None if port else ports.take()
        self.port = port or self._port.number
        self._udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._udp.bind(("127.0.0.1", self.port))
        self._tcp = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self._tcp.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._tcp.bind(("127.0.0.1", self.port))
        self._tcp.listen(5)
        self._ends = False
        self._threads = [threading.Thread(target=run, daemon=True)
                         for run in (self._serve_udp, self._serve_tcp)]
        for thread in self._threads:
            thread.start()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()

    @property
    def address(self):
        return "127.0.0.1:%d" % self.port

    def count(self, name, kind=None):
        """How often the name (of this type) was asked for."""
        return sum(name == asked[0] and kind in (None, asked[1]) for asked in list(self.asked))

    def close(self):
        if self._ends:
            return
        self._ends = True
        for kind in (socket.SOCK_DGRAM, socket.SOCK_STREAM):  # wakes the threads
            with socket.socket(socket.AF_INET, kind) as waker:
                waker.connect(("127.0.0.1", self.port))
                if kind == socket.SOCK_DGRAM:
                    waker.send(b"")
        for thread in self._threads:
            thread.join(15)
        self._udp.close()
        self._tcp.close()
        if self._port:
            self._port.close()

    def _serve_udp(self):
        while not self._ends:
            message, asker = self._udp.recvfrom(65535)
            if self._ends:
                return
            answer = self._answer(message, self.truncates)
            if answer is not None:
                self._udp.sendto(answer, asker)

    def _serve_tcp(self):
        while not self._ends:
            connection, _ = self._tcp.accept()
            with connection:
                if self._ends:
                    return
                connection.settimeout(15)
                try:
                    self._serve_connection(connection)
                except OSError:
                    pass  # the asker has left

    def _serve_connection(self, connection):
        with connection.makefile("rb") as source:
            while True:
                head = source.read(2)
                if len(head) < 2:
                    return
                answer = self._answer(source.read(struct.unpack(">H", head)[0]), False)
                if answer is None:
                    return
                connection.sendall(struct.pack(">H", len(answer)) + answer)

    def _records_of(self, name, kind):
        for key in ((name, kind), name):
            if key in self.records:
                value = self.records[key]
                return value(name, kind) if callable(value) else value
        return NXDOMAIN

    def _answer(self, message, truncates):
        if len(message) < 17:
            return None
        name, end = _decode_name(message, 12)
        kind, _ = struct.unpack_from(">HH", message, end)
        kind = _names.get(kind, str(kind))
        self.asked.append((name.lower(), kind))
        found = self._records_of(name.lower(), kind)
        if found is SILENCE:
            return None
        if isinstance(found, Raw):
            return found.make(message)
        question = message[12:end + 4]
        if truncates:
            return message[:2] + struct.pack(">5H", 0x8380, 1, 0, 0, 0) + question
        if isinstance(found, Rcode):
            return message[:2] + struct.pack(">5H", 0x8180 | found, 1, 0, 0, 0) + question
        answers = [_data(record) for record in found]
        wanted = [answer for answer in answers if answer[0] in (kind, "CNAME")]
        return (message[:2] + struct.pack(">5H", 0x8180, 1, len(wanted), 0, 0) + question +
                b"".join(b"\xc0\x0c" + struct.pack(">HHIH", TYPES[of], 1, self.ttl, len(data)) + data
                         for of, data in wanted))


def ask(address, name, kind="A", timeout=0.2):
    """Sends one question over UDP and gives the answer's rcode, or None when there is none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asker:
        asker.settimeout(timeout)
        asker.connect(address)
        try:
            asker.send(struct.pack(">6H", 7, 0x0100, 1, 0, 0, 0) + encode_name(name) +
                       struct.pack(">HH", TYPES[kind], 1))
            return asker.recv(65535)[3] & 15
        except OSError:
            return None


class Dnsmasq:
    """dnsmasq on a port of 127.0.0.1, with the lines of its configuration that give records, such as
    "host-record=www.example,127.0.0.1", "cname=a.example,b.example",
    "srv-host=_http._tcp.example,one.example,8080,1,10". It knows nothing else and asks nobody."""

    binary = shutil.which("dnsmasq") or "/usr/sbin/dnsmasq"

    def __init__(self, *lines, ttl=3600):
        self._port = ports.take()
        self.port = self._port.number
        self.lines = list(lines)
        self.ttl = ttl
        self._dir = tempfile.mkdtemp(prefix="portunus-dns-")
        self.process = None
        self.start()

    @classmethod
    def is_there(cls):
        return os.access(cls.binary, os.X_OK)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()

    @property
    def address(self):
        return "127.0.0.1:%d" % self.port

    def start(self):
        path = os.path.join(self._dir, "dnsmasq.conf")
        with open(path, "w", encoding="ascii") as conf:
            conf.write("\n".join([
                "port=%d" % self.port, "listen-address=127.0.0.1", "bind-interfaces", "no-resolv",
                "no-hosts", "no-poll", "cache-size=0", "local-ttl=%d" % self.ttl, "local=/#/",
                "keep-in-foreground", "user=", "pid-file="] + self.lines) + "\n")
        with open(os.path.join(self._dir, "log"), "ab") as log:
            self.process = subprocess.Popen(
                [self.binary, "--conf-file=" + path, "--log-facility=-"],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        until(self._is_up, lambda: "dnsmasq: " + self.log())

    def _is_up(self):
        assert self.process.poll() is None, "dnsmasq ended: " + self.log()
        return ask(("127.0.0.1", self.port), "portunus.invalid") is not None

    def log(self):
        with open(os.path.join(self._dir, "log"), encoding="utf-8", errors="replace") as log:
            return log.read()

    def restart(self, *lines):
        """With other records."""
        self.stop()
        self.lines = list(lines)
        self.start()

    def stop(self):
        if self.process is not None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(15)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait(15)
            self.process = None

    def close(self):
        self.stop()
        self._port.close()
        shutil.rmtree(self._dir, ignore_errors=True)
