"""Idle connections that pass to the next generation: the one that gave them away has nothing to do with them any more."""

import os
import re

import pytest

from harness import until
from harness.client import Client
from harness.workers import wait_workers

HTTP = """
    server { listen 127.0.0.1:@PORT@; return 200 $pid; }
    server { listen 127.0.0.1:@PORT1@; location / { proxy_pass http://127.0.0.1:@PORT2@; } }
"""


def stale(pid):
    """What the event loop of a process watches though the process has no descriptor of it: the kernel goes on telling about
    a file that another process, or another descriptor, holds open."""
    files, loops = {}, []
    for name in os.listdir("/proc/%d/fd" % pid):
        try:
            link = os.readlink("/proc/%d/fd/%s" % (pid, name))
        except OSError:
            continue
        files[int(name)] = link
        if link == "anon_inode:[eventpoll]":
            loops.append(name)
    assert loops
    found = []
    for name in loops:
        with open("/proc/%d/fdinfo/%s" % (pid, name), encoding="ascii") as file:
            for fd, inode in re.findall(r"^tfd:\s*(\d+) .*\bino:([0-9a-f]+)", file.read(), re.M):
                link = files.get(int(fd))
                if link is None or (link.startswith("socket:")
                                    and link != "socket:[%d]" % int(inode, 16)):
                    found.append((int(fd), link))
    return found


def request_under_way(server, mute):
    """A request that keeps its generation in use."""
    client = Client(server.port_of("PORT1"))
    client.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    mute.accept()
    return client


@pytest.fixture
def mute(serve):
    """A server, and a backend of its that takes connections and says nothing."""
    import socket
    listener = socket.socket()
    yield listener
    listener.close()


def test_of_an_old_worker(serve):
    pass
