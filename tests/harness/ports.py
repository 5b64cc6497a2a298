"""Free ports that no other test run takes: one locked byte of a file per port, then a trial bind."""

import fcntl
import os
import random
import socket
import tempfile

# Below Linux's ephemeral range, so that no outgoing connection can take one meanwhile.
FIRST, LAST = 10000, 31999

# The byte at a port's number is locked by the process that uses the port. One descriptor for the
# whole process: closing any other of the same file would drop its locks.
_locks = os.open(os.path.join(tempfile.gettempdir(), "portunus-test-ports-%d" % os.getuid()),
                 os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
_taken = set()


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

    def __init__(self, number):
        self.number = number

    def close(self):
        if self.number in _taken:
            _taken.remove(self.number)
            fcntl.lockf(_locks, fcntl.LOCK_UN, 1, self.number)


def take():
    """Gives a Port that is free for TCP and UDP, on IPv4 and IPv6."""
    for _ in range(1000):
        number = random.randint(FIRST, LAST)
        if number in _taken:
            continue
        try:
            fcntl.lockf(_locks, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, number)
        except OSError:
            continue
        _taken.add(number)
        port = Port(number)
        if _can_bind(number):
            return port
        port.close()
    raise AssertionError("no free port between %d and %d" % (FIRST, LAST))
