"""Free ports that no other test run takes: one locked file per port, then a trial bind."""

import fcntl
import os
import random
import socket
import tempfile

# Below Linux's ephemeral range, so that no outgoing connection can take one meanwhile.
FIRST, LAST = 10000, 31999

_directory = os.path.join(tempfile.gettempdir(), "portunus-test-ports-%d" % os.getuid())


def _can_bind(port):
    for family, address in ((socket.AF_INET, "0.0.0.0"), (socket.AF_INET6, "::")):
        for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
            with socket.socket(family, kind) as trial:
                if family == socket.AF_INET6:
                    trial.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                if kind == socket.SOCK_STREAM:
                    trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                try:
                    trial.bind((address, port))
                except OSError as error:
                    if family == socket.AF_INET6 and error.errno in (97, 99):
                        continue  # no IPv6 here
                    return False
    return True


class Port:
    """A port number that is held by a lock until close()."""

    def __init__(self, number, lock):
        self.number = number
        self._lock = lock

    def close(self):
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def take():
    """Gives a Port that is free for TCP and UDP, on IPv4 and IPv6."""
    os.makedirs(_directory, exist_ok=True)
    for _ in range(1000):
        number = random.randint(FIRST, LAST)
        lock = os.open(os.path.join(_directory, str(number)), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC,
                       0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(lock)
            continue
        if _can_bind(number):
            return Port(number, lock)
        os.close(lock)
    raise AssertionError("no free port between %d and %d" % (FIRST, LAST))
