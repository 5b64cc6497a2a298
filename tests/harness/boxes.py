"""Servers in boxes: a mount or network namespace of their own, which only root can make."""

import contextlib
import ctypes
import os
import shlex

import pytest

from .server import Server

_libc = ctypes.CDLL(None, use_errno=True)

needs_root = pytest.mark.skipif(os.getuid() != 0, reason="needs root, to make a namespace")


class BoxedServer(Server):
    """A server that starts after `setup`, a piece of shell, in new namespaces (words for unshare:
    "-m", "-n"). @DIR@ in setup is the directory. The number of the process is the server's own."""

    def __init__(self, *args, box, setup, **kwargs):
        self._box = box
        self._setup = setup
        super().__init__(*args, **kwargs)

    def command(self):
        server = " ".join(shlex.quote(word) for word in super().command())
        script = "set -e; %s; exec %s" % (self._setup.replace("@DIR@", self.dir), server)
        return ["unshare", *self._box, "sh", "-c", script]

    def inside(self, *parts):
        """Path of a file as the server sees it."""
        return os.path.join("/proc/%d/root" % self.pid, self.dir.lstrip("/"), *parts)

    @contextlib.contextmanager
    def network(self):
        """Sockets made within this with statement, by this thread, are in the server's network."""
        with open("/proc/self/ns/net", "rb") as ours, \
                open("/proc/%d/ns/net" % self.pid, "rb") as theirs:
            _enter(theirs)
            try:
                yield
            finally:
                _enter(ours)


def _enter(namespace):
    if _libc.setns(namespace.fileno(), 0) != 0:
        raise OSError(ctypes.get_errno(), "setns")


def boxes(request):
    """A function that starts BoxedServers, which end with their checks."""
    servers = []

    def start(*args, **kwargs):
        server = BoxedServer(*args, **kwargs)
        servers.append(server)
        return server.start()

    def end():
        for server in reversed(servers):
            server.close()

    request.addfinalizer(end)
    return start


serve_boxed = pytest.fixture(boxes, name="serve_boxed")
