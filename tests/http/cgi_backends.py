"""Backends that speak SCGI and uwsgi's protocol, by a script or for real, and memcached: for test_http_scgi.py and
its kin."""

import os
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import threading

import pytest

from harness import ports
from harness.wait import until


def _read_exactly(stream, size):
    data = stream.read(size)
    if len(data) != size:
        raise EOFError("%d bytes of %d" % (len(data), size))
    return data


def read_scgi(stream):
    """One SCGI request: its headers in order as pairs, and its body."""
    digits = b""
    while not digits.endswith(b":"):
        digits += _read_exactly(stream, 1)
    block = _read_exactly(stream, int(digits[:-1]))
    assert _read_exactly(stream, 1) == b","
    assert block.endswith(b"\0")
    words = [word.decode("latin-1") for word in block[:-1].split(b"\0")]
    pairs = list(zip(words[::2], words[1::2]))
    assert pairs[0][0] == "CONTENT_LENGTH"
    return pairs, _read_exactly(stream, int(pairs[0][1]))


def read_uwsgi(stream):
    """One uwsgi packet: its parameters as pairs, and the body; modifiers are pairs, too."""
    modifier1, size, modifier2 = struct.unpack("<BHB", _read_exactly(stream, 4))
    packet = _read_exactly(stream, size)
    pairs = [("modifier1", modifier1), ("modifier2", modifier2)]
    at = 0
    while at < size:
        words = []
        for _ in range(2):
            length = struct.unpack_from("<H", packet, at)[0]
            words.append(packet[at + 2:at + 2 + length].decode("latin-1"))
            at += 2 + length
        pairs.append(tuple(words))
    length = dict(pairs).get("CONTENT_LENGTH") or 0
    return pairs, _read_exactly(stream, int(length))


class Scripted:
    """A backend whose answers are `answer(pairs, body, connection)`: bytes, or None when it has sent them itself. One
    request a connection. `requests` holds (pairs, body)."""

    def __init__(self, answer, read=read_scgi, path=None):
        family = socket.AF_INET if path is None else socket.AF_UNIX
        self.listener = socket.socket(family, socket.SOCK_STREAM)
        self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.listener.bind(path or ("127.0.0.1", 0))
        if path is not None:
            os.chmod(path, 0o777)
        self.listener.listen(16)
        self.port = None if path is not None else self.listener.getsockname()[1]
        self.requests = []
        self.answer = answer
        self.read = read
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        while True:
            try:
                conn = self.listener.accept()[0]
            except OSError:
                return
            conn.settimeout(10)
            threading.Thread(target=self._talk, args=(conn,), daemon=True).start()

    def _talk(self, conn):
        with conn:
            try:
                pairs, body = self.read(conn.makefile("rb"))
                self.requests.append((pairs, body))
                answer = self.answer(pairs, body, conn)
                if answer is not None:
                    conn.sendall(answer)
            except (OSError, EOFError):
                pass

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()


class Program:
    """A program that listens on a free port of 127.0.0.1 until close()."""

    def __init__(self, name, *args, files=None):
        if shutil.which(name) is None:
            pytest.skip("%s is not installed" % name)
        self.directory = tempfile.mkdtemp(prefix="portunus-backend-")
        os.chmod(self.directory, 0o755)
        for path, text in (files or {}).items():
            with open(os.path.join(self.directory, path), "w") as file:
                file.write(text)
        self._port = ports.take()
        self.port = self._port.number
        words = [word.replace("@PORT@", str(self.port)) for word in args]
        self._log = open(os.path.join(self.directory, "log"), "wb")
        self._process = subprocess.Popen([name, *words], cwd=self.directory, stdout=self._log,
                                         stderr=self._log, start_new_session=True)
        until(self._listens, lambda: "%s to listen: %s" % (name, self.log()))

    def log(self):
        with open(os.path.join(self.directory, "log"), errors="replace") as file:
            return file.read()

    def _listens(self):
        assert self._process.poll() is None, self.log()
        with socket.socket() as trial:
            return trial.connect_ex(("127.0.0.1", self.port)) == 0

    def close(self):
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._log.close()
        self._port.close()
        shutil.rmtree(self.directory)
