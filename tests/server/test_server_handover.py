"""Idle connections that pass to the next generation: the one that gave them away has nothing to do with them any more."""

import os
import re
import signal
import socket
import sys
import time

import pytest

from harness import proc, until
from harness.client import Client, Closed
from harness.workers import wait_workers

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "http"))
import certificates  # noqa: E402

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


def test_connections_that_wait_for_their_turn_are_served(serve):
    """A worker gives its connections away in pieces: all of them go on, and so do those that speak meanwhile."""
    server = serve("server { listen 127.0.0.1:@PORT@; return 200 $pid; }",
                   main="worker_processes 1;", events="worker_connections 4096;")
    old, = wait_workers(server, 1)
    clients = [server.client() for _ in range(600)]
    for client in clients:
        assert client.request("/").text == str(old)
    server.signal("reload")
    answers = set()
    while not answers - {str(old)}:
        answers |= {client.request("/").text for client in clients}
    new, = until(lambda: server.children()[-1:] if old not in server.children() else None, "the old worker's end")
    assert answers <= {str(old), str(new)}
    assert {client.request("/").text for client in clients} == {str(new)}
    for client in clients:
        client.close()


def test_quit_while_the_successor_stands_still(serve, mute):
    """The walk over the connections begins anew while it waits for its next turn."""
    server = serve(HTTP % mute.getsockname()[1], main="worker_processes 1;", events="worker_connections 8192;")
    old, = wait_workers(server, 1)
    clients = [server.client() for _ in range(3000)]
    for client in clients:
        assert client.request("/").text == str(old)
    busy = request_under_way(server, mute)
    server.signal("reload")
    new, = until(lambda: [pid for pid in server.children() if pid != old], "a new worker")
    until(lambda: proc.title(old) == "nginx: worker process is shutting down", "the old one to go")
    os.kill(new, signal.SIGSTOP)
    os.kill(old, signal.SIGQUIT)
    os.kill(new, signal.SIGCONT)
    for client in clients[::20]:
        assert client.request("/").text in (str(old), str(new))
    answer(*busy)
    until(lambda: server.children() == [new], "the old worker's end")
    for client in clients:
        assert client.request("/").text == str(new)
        client.close()


def wakes(pid, seconds):
    """How often a process was woken in this time."""
    before = int(proc.status(pid, "voluntary_ctxt_switches"))
    time.sleep(seconds)
    return int(proc.status(pid, "voluntary_ctxt_switches")) - before


def test_a_worker_rests_while_its_successor_stands_still(serve):
    """It is told when there is room for more connections, and does not ask again and again."""
    server = serve("server { listen 127.0.0.1:@PORT@; return 200 $pid; }", main="worker_processes 1;", events="worker_connections 8192;")
    old, = wait_workers(server, 1)
    clients = [server.client() for _ in range(4000)]
    for client in clients:
        assert client.request("/").text == str(old)
    os.kill(old, signal.SIGSTOP)
    server.signal("reload")
    new, = until(lambda: [pid for pid in server.children() if pid != old], "a new worker")
    until(lambda: server.get("/").text == str(new), "an answer of the new worker")
    os.kill(new, signal.SIGSTOP)
    os.kill(old, signal.SIGCONT)
    until(lambda: proc.title(old) == "nginx: worker process is shutting down", "the old one to go")
    until(lambda: wakes(old, 0.5) < 20, "the old one to rest")
    os.kill(new, signal.SIGCONT)
    until(lambda: server.children() == [new], "the old worker's end")
    for client in clients:
        assert client.request("/").text == str(new)
        client.close()


def test_connections_run_out(serve):
    """A successor that may have fewer connections takes what it can, says so and counts."""
    http = "server { listen 127.0.0.1:@PORT@; return 200 $pid; } server { listen 127.0.0.1:@PORT1@; return 200 $limits_reached; }"
    server = serve(http, main="worker_processes 1;", events="worker_connections 512;")
    old, = wait_workers(server, 1)
    clients = [server.client() for _ in range(200)]
    for client in clients:
        assert client.request("/").text == str(old)
    before = int(server.get("/", port=server.port_of("PORT1")).text)
    server.configure(http, main="worker_processes 1;", events="worker_connections 60;")
    server.signal("reload")
    server.wait_log(r"\[crit\] .* 60 worker_connections are not enough, idle connections of an older worker are closed")
    until(lambda: old not in server.children(), "the old worker's end")
    new, = server.children()
    served = [client for client in clients if is_served(client, new)]
    assert 20 < len(served) <= 60
    for client in clients:
        client.close()
    assert int(server.get("/", port=server.port_of("PORT1")).text) - before >= 200 - 60


PAIR = certificates.own("handover")
UNLIKE = {
    "ssl": "listen 127.0.0.1:@PORT@ ssl; ssl_certificate %s; ssl_certificate_key %s;" % (PAIR.crt, PAIR.key),
    "proxy_protocol": "listen 127.0.0.1:@PORT@ proxy_protocol;",
}


@pytest.mark.parametrize("now", UNLIKE)
def test_address_that_speaks_otherwise_now(serve, now):
    """What came to a plain address has no place at one with TLS or the PROXY protocol: it gets a last answer where it is."""
    server = serve("server { listen 127.0.0.1:@PORT@; return 200 $pid; }", main="worker_processes 1;")
    old, = wait_workers(server, 1)
    with server.client() as idle:
        assert idle.request("/").text == str(old)
        server.configure("server { %s return 200 $pid; }" % UNLIKE[now], main="worker_processes 1;")
        server.signal("reload")
        until(lambda: "signal 1 (SIGHUP)" in server.error_log and
              proc.title(old) == "nginx: worker process is shutting down", "the old one to go")
        last = idle.request("/")
        assert (last.status, last.text, last.closes) == (200, str(old), True)


def test_descriptors_run_out(serve):
    """A successor that may have fewer: it takes what it can, says so, counts, and serves."""
    http = "server { listen 127.0.0.1:@PORT@; return 200 $pid; } server { listen 127.0.0.1:@PORT1@; return 200 $limits_reached; }"
    server = serve(http, main="worker_processes 1; worker_rlimit_nofile 1000;")
    old, = wait_workers(server, 1)
    clients = [server.client() for _ in range(200)]
    for client in clients:
        assert client.request("/").text == str(old)
    server.configure(http, main="worker_processes 1; worker_rlimit_nofile 60;")
    server.signal("reload")
    server.wait_log(r"\[crit\] .*\d+ idle connections of an older worker are closed \(24: Too many open files\)")
    until(lambda: old not in server.children(), "the old worker's end")
    new, = server.children()
    served = [client for client in clients if is_served(client, new)]
    assert 20 < len(served) < 60
    for client in clients:
        client.close()
    assert server.get("/").text == str(new)
    assert int(server.get("/", port=server.port_of("PORT1")).text) >= len(clients) - len(served)


def is_served(client, pid):
    try:
        return client.request("/").text == str(pid)
    except Closed:
        return False
