"""Masters that are no children of ours: daemons, and what an upgrade left."""

import os
import re
import subprocess
import time

from . import proc
from .server import Server
from .wait import until


class Adopted:
    """Stands for subprocess.Popen; of a stranger no exit code is known, so it is 0."""

    def __init__(self, pid):
        self.pid = pid
        self.returncode = None

    def poll(self):
        if self.returncode is None and not proc.is_alive(self.pid):
            self.returncode = 0
        return self.returncode

    def wait(self, timeout=15):
        end = time.monotonic() + timeout
        while self.poll() is None:
            if time.monotonic() > end:
                raise subprocess.TimeoutExpired("process %d" % self.pid, timeout)
            time.sleep(0.005)
        return self.returncode


class Daemon(Server):
    """A server that goes to the background by itself; conf must say `daemon on;`."""

    def start(self, wait=True):
        self._stderr = open(self.path("stderr.txt"), "ab")
        done = subprocess.run(self.command(), stdin=subprocess.DEVNULL, stdout=self._stderr,
                              stderr=self._stderr, env=self.env, cwd=self.dir, timeout=30,
                              check=False)
        assert done.returncode == 0, self.read("stderr.txt") + self.error_log
        # The pid file is there when the command has ended.
        self.process = Adopted(int(self.read("nginx.pid")))
        return self


def follow_upgrade(server):
    """The old master has ended: from now on the server is the new one, which this gives."""
    server.process.wait(15)
    new = int(until(lambda: server.read("nginx.pid"), "the new pid file"))
    assert proc.is_alive(new)
    server.process = Adopted(new)
    return new


def swap_binary(path, binary):
    """Puts another program in the place of one that may be running."""
    with open(binary, "rb") as source, open(path + ".new", "wb") as target:
        target.write(source.read())
    os.chmod(path + ".new", 0o755)
    os.replace(path + ".new", path)


def children(pid):
    done = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], stdout=subprocess.PIPE,
                          check=False, encoding="ascii")
    return [int(word) for word in done.stdout.split()]


def workers_of(pid):
    return [child for child in children(pid)
            if re.search("nginx: worker process$", proc.title(child))]


def upgrade(server, count=2):
    """USR2; gives the new master when it has its workers."""
    server.signal("upgrade")
    until(lambda: server.read("nginx.pid.oldbin") == "%d\n" % server.pid, server.evidence)
    new = int(until(lambda: server.read("nginx.pid"), server.evidence))
    until(lambda: len(workers_of(new)) == count, server.evidence)
    return new
