"""Workers lend each other a hand: a connection does not wait for a worker that is busy."""

import os
import re
import signal
import socket
import ssl
import sys

import pytest

from harness import binaries, proc, until
from harness.workers import clients_of_all, wait_workers

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "http"))
import certificates  # noqa: E402

pytestmark = pytest.mark.skipif(
    "Portunus" not in binaries.version_text(binaries.under_test()), reason="ours alone")

HTTP = ('server { listen 127.0.0.1:@PORT@%s; location / { return 200 "$pid\\n"; } '
        'location = /shards { stub_status shards; } }')
PLAIN = HTTP % ""


def shards(server):
    """What the page says: accepts of all, then of each slot (own, taken, adopted, in vain)."""
    text = server.get("/shards").text
    assert re.match(r"Active connections: \d+ \nserver accepts handled requests\n \d+ \d+ \d+ \n"
                    r"Reading: \d+ Writing: \d+ Waiting: \d+ \nSteered: \d+\n"
                    r"slot own taken adopted in_vain\n(\d+ \d+ \d+ \d+ \d+\n)+$", text), text
    lines = text.split("\n")
    slots = [list(map(int, line.split())) for line in lines[6:-1]]
    assert [one[0] for one in slots] == list(range(len(slots)))
    return int(lines[2].split()[0]), [one[1:] for one in slots]


class stopped:
    """Workers that stand still (SIGSTOP) within a with statement."""

    def __init__(self, *pids):
        self.pids = pids

    def __enter__(self):
        for pid in self.pids:
            os.kill(pid, signal.SIGSTOP)
        for pid in self.pids:
            until(lambda pid=pid: proc.status(pid, "State")[0] == "T", "the stop")

    def __exit__(self, *_):
        for pid in self.pids:
            os.kill(pid, signal.SIGCONT)


def test_each_accept_is_counted_at_the_slot_of_its_socket(serve):
    server = serve(PLAIN, main="worker_processes 3;")
    workers = wait_workers(server, 3)
    clients_of_all(server, workers)

    def is_each_used():     # the kernel's hash chooses
        accepts, slots = shards(server)
        assert len(slots) == 3
        assert sum(own + taken + adopted for own, taken, adopted, _ in slots) == accepts
        return all(own + taken for own, taken, _, _ in slots)
    until(is_each_used, "a connection to each slot")


@pytest.mark.parametrize("still", [1, 2, 3])
def test_siblings_take_what_workers_that_stand_still_would_get(serve, still):
    server = serve(PLAIN, main="worker_processes 4;")
    workers = wait_workers(server, 4)
    with stopped(*workers[:still]):
        answers = [int(server.get("/").text) for _ in range(80)]
        assert set(answers) <= set(workers[still:])
        accepts, slots = shards(server)
        # Each slot gets its part of the connections, whoever serves them.
        assert all(taken > 0 for _, taken, _, _ in slots[:still]), slots
        assert accepts == sum(own + taken for own, taken, _, _ in slots)
    until(lambda: shards(server)[0] > accepts, "the next one")


def test_tls_handshakes_do_not_wait_for_a_worker_that_stands_still(serve):
    pair = certificates.own("lending")
    server = serve(HTTP % " ssl" + "ssl_certificate %s; ssl_certificate_key %s;" % (pair.crt, pair.key),
                   main="worker_processes 2;")
    workers = wait_workers(server, 2)
    context = ssl._create_unverified_context()
    with stopped(workers[1]):
        for _ in range(20):
            with socket.create_connection(("127.0.0.1", server.port), 10) as plain, \
                    context.wrap_socket(plain) as tls:
                tls.sendall(b"GET / HTTP/1.0\r\n\r\n")
                assert tls.recv(4096).endswith(b"\r\n\r\n%d\n" % workers[0])


@pytest.mark.parametrize("where", ["unix:@DIR@/http.sock", "[::1]:@PORT1@"])
def test_every_kind_of_address(serve, where):
    server = serve(PLAIN + 'server { listen %s; location / { return 200 "$pid\\n"; } }' % where,
                   main="worker_processes 3;")
    workers = wait_workers(server, 3)
    with stopped(*workers[1:]):
        for _ in range(20):
            if where.startswith("unix"):
                client = socket.socket(socket.AF_UNIX)
                client.settimeout(10)
                client.connect(server.path("http.sock"))
            else:
                client = socket.create_connection(("::1", server.port_of("PORT1")), 10)
            with client:
                client.sendall(b"GET / HTTP/1.0\r\n\r\n")
                assert client.recv(4096).endswith(b"%d\n" % workers[0])


def test_sockets_of_a_listen_line_with_reuseport(serve):
    server = serve(HTTP % " reuseport", main="worker_processes 3;", events="reuse_port off;")
    workers = wait_workers(server, 3)
    with stopped(*workers[1:]):
        assert {int(server.get("/").text) for _ in range(30)} == {workers[0]}


def test_nobody_is_refused_while_a_sibling_has_room(serve):
    """Three workers of 24 connections each, and 60 clients that stay: no idle one has to give way."""
    server = serve(PLAIN, main="worker_processes 3;", events="worker_connections 24;")
    wait_workers(server, 3)
    clients = [server.client() for _ in range(60)]
    for _ in range(3):
        for client in clients:
            assert client.request("/").status == 200
    assert "worker_connections are not enough" not in server.error_log
    for client in clients:
        client.close()
    until(lambda: server.get("/").status == 200, "an answer after the flood")


def test_all_full_is_told_and_idle_ones_give_way(serve):
    server = serve(PLAIN, main="worker_processes 2;", events="worker_connections 16;",
                   allow=["worker_connections are not enough"])
    wait_workers(server, 2)
    clients = []
    for _ in range(80):
        clients.append(server.client())
        assert clients[-1].request("/").status == 200
    assert "16 worker_connections are not enough, reusing connections" in server.error_log


def test_a_worker_that_was_killed_is_back_at_its_sockets(serve):
    server = serve(PLAIN, main="worker_processes 3;", allow=["exited on signal 9"])
    victim = wait_workers(server, 3)[1]
    os.kill(victim, signal.SIGKILL)
    until(lambda: not proc.is_alive(victim), "its end")
    workers = wait_workers(server, 3)
    clients_of_all(server, workers)


@pytest.mark.parametrize("change", ["reload", "grow", "shrink"])
def test_lending_goes_on_after(serve, change):
    server = serve(PLAIN, main="worker_processes 3;")
    old = wait_workers(server, 3)
    count = {"reload": 3, "grow": 5, "shrink": 2}[change]
    server.configure(PLAIN, main="worker_processes %d;" % count)
    server.signal("reload")
    workers = wait_workers(server, count, without=old)
    until(lambda: proc.listening(server.port) == count, "%d sockets" % count)
    assert len(shards(server)[1]) == count
    with stopped(*workers[1:]):
        assert {int(server.get("/").text) for _ in range(40)} == {workers[0]}


def test_the_log_tells_of_steering(serve):
    server = serve(PLAIN, main="worker_processes 4;")
    old = wait_workers(server, 4)
    server.configure(PLAIN, main="worker_processes 2;")
    server.signal("reload")
    wait_workers(server, 2, without=old)
    until(lambda: "new connections go to 2 of 4 sockets" in server.error_log, server.evidence)


def test_a_worker_says_at_its_end_what_its_slot_has_seen(serve):
    server = serve(PLAIN, main="worker_processes 2;")
    wait_workers(server, 2)
    for _ in range(10):
        server.get("/")
    server.signal("quit")
    assert server.wait_end() == 0
    told = re.findall(r"slot (\d): accepted (\d+), taken by siblings (\d+), adopted 0, in vain \d+",
                      server.error_log)
    assert sorted(slot for slot, _, _ in told) == ["0", "1"], server.error_log
    # Which of the two ended last has seen them all.
    assert sum(int(own) + int(taken) for _, own, taken in told) == 10
