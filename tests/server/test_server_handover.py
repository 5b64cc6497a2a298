"""Idle connections that pass to the next generation: the one that gave them away has nothing to do with them any more."""

import os
import re
import socket

import pytest

from harness import proc, until
from harness.client import Client
from harness.workers import wait_workers

HTTP = """
    server { listen 127.0.0.1:@PORT@; return 200 $pid; }
    server { listen 127.0.0.1:@PORT1@; location / { proxy_pass http://127.0.0.1:%d; } }
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


@pytest.fixture
def mute():
    """A backend that takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener


def request_under_way(server, mute):
    """A request that keeps its generation in use: gives the client and the backend's end."""
    client = Client(server.port_of("PORT1"))
    client.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    return client, mute.accept()[0]


def answer(client, backend):
    backend.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nlate")
    assert client.response().text == "late"
    backend.close()
    client.close()


def test_from_worker_to_worker(serve, mute):
    """The old worker lives on for a request; an idle connection is the new one's."""
    server = serve(HTTP % mute.getsockname()[1], main="worker_processes 1;")
    old, = wait_workers(server, 1)
    with server.client() as idle:
        assert idle.request("/").text == str(old)
        busy = request_under_way(server, mute)
        server.signal("reload")
        new, = until(lambda: [pid for pid in server.children() if pid != old], "a new worker")
        until(lambda: proc.title(old) == "nginx: worker process is shutting down",
              "the old worker to be told")
        for _ in range(3):
            assert idle.request("/").text == str(new)
        assert stale(old) == []
        answer(*busy)
    until(lambda: server.children() == [new], "the old worker's end")


def test_from_generation_to_generation(serve, mute):
    """Without a master: one event loop for all, and connections of every generation are met at each reload."""
    server = serve(HTTP % mute.getsockname()[1], main="master_process off;")
    with server.client() as idle:
        busy = []
        for reloads in range(1, 6):
            assert idle.request("/").status == 200
            busy.append(request_under_way(server, mute))
            server.signal("reload")
            until(lambda: server.read("error.log").count(": reconfiguring") == reloads, "a reload")
            for _ in range(3):
                assert idle.request("/").text == str(server.pid)
            assert stale(server.pid) == []
            if reloads > 2:
                answer(*busy.pop(0))
        while busy:
            answer(*busy.pop())
        assert idle.request("/").status == 200
    assert stale(server.pid) == []
