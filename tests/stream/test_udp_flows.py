"""UDP: a client's datagrams reach its session, whatever becomes of workers, their number and their configuration."""

import ctypes
import os
import re
import signal
import socket
import struct

import pytest

from harness import proc, until
from harness.daemon import Daemon, follow_upgrade
from harness.server import run_binary
from harness.workers import is_working, wait_workers

CONF = """
daemon off; pid nginx.pid; error_log error.log info; worker_processes %(workers)s; %(user)s
events { worker_connections 2000; }
stream {
    proxy_timeout 1h;
    server { listen 127.0.0.1:@PORT1@; return $pid; }
    server { listen 127.0.0.1:@PORT2@ udp; return $pid; }
    %(more)s
}
"""
PASS = "server { listen 127.0.0.1:@PORT@ udp; proxy_pass 127.0.0.1:%d; }"
USER = "user root;" if os.getuid() == 0 else ""


class Backend:
    """A socket that answers when it is told to."""

    def __init__(self):
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        self.socket.bind(("127.0.0.1", 0))
        self.socket.settimeout(15)
        self.port = self.socket.getsockname()[1]

    def take(self):
        return self.socket.recvfrom(65536)

    def answer(self, data, to):
        self.socket.sendto(data, to)


def client_of(port, host="127.0.0.1"):
    client = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    client.settimeout(15)
    client.connect((host, port))
    return client


class Flows:
    """Clients with a session each; `check` tells by the backend's side that these are the ones of before."""

    def __init__(self, server, backend, count):
        self.backend = backend
        self.clients = [client_of(server.port) for _ in range(count)]
        self.rounds = 0
        self.ends = self._round()
        assert len(set(self.ends)) == count

    def _round(self):
        """Everybody asks, then everybody is answered: the ports of their sessions."""
        self.rounds += 1
        ends = [None] * len(self.clients)
        for number, client in enumerate(self.clients):
            client.send(b"%d of %d" % (number, self.rounds))
        for _ in self.clients:
            data, address = self.backend.take()
            assert data.split()[2] == b"%d" % self.rounds
            ends[int(data.split()[0])] = address
        for number, address in enumerate(ends):
            self.backend.answer(b"answer %d of %d" % (number, self.rounds), address)
        for number, client in enumerate(self.clients):
            assert client.recv(100) == b"answer %d of %d" % (number, self.rounds)
        return ends

    def check(self):
        assert self._round() == self.ends

    def close(self):
        for client in self.clients:
            client.close()
        self.backend.socket.close()


def configure(server, backend, workers, more=None):
    text = CONF % {"workers": workers, "user": USER,
                   "more": PASS % backend.port if more is None else more}
    server.configure(conf=text)


@pytest.fixture
def start(serve):
    made = []

    def start_with(workers, count=40, **more):
        backend = Backend()
        server = serve(conf=CONF % {"workers": workers, "user": USER, "more": PASS % backend.port},
                       **more)
        wait_workers(server, workers)
        flows = Flows(server, backend, count)
        made.append(flows)
        return server, flows
    yield start_with
    for flows in made:
        flows.close()


def served_by(server):
    with client_of(server.port_of("PORT2")) as client:
        client.send(b"?")
        return int(client.recv(100))


def reload_to(server, backend, workers, old):
    """Older workers with sessions stay. Gives the new ones."""
    configure(server, backend, workers)
    server.reload()

    def fresh():
        return [pid for pid in server.children() if pid not in old]

    def settled():
        try:
            titles = {pid: proc.title(pid) for pid in server.children()}
        except OSError:
            return False
        return (len(fresh()) == workers and all(map(is_working, fresh())) and
                all(titles[pid] == "nginx: worker process is shutting down"
                    for pid in old if pid in titles))
    until(settled, server.evidence)
    return fresh()


@pytest.mark.parametrize("before, after", [(1, 1), (4, 4), (4, 1), (1, 4), (2, 3)])
def test_sessions_survive_a_reload(start, before, after):
    server, flows = start(before)
    old = server.children()
    fresh = reload_to(server, flows.backend, after, old)
    flows.check()
    flows.check()
    assert {served_by(server) for _ in range(20)} <= set(fresh)
    more = Flows(server, flows.backend, 20)
    flows.check()
    more.check()
    assert not set(more.ends) & set(flows.ends)
    for client in more.clients:
        client.close()


def test_sessions_survive_many_changes(start):
    server, flows = start(4)
    older = []
    for workers in (1, 3, 2, 4):
        older += [pid for pid in server.children() if pid not in older]
        reload_to(server, flows.backend, workers, older)
        flows.check()


def test_all_workers_serve_again_after_shrinking_and_growing(start):
    server, flows = start(4)
    old = server.children()
    reload_to(server, flows.backend, 1, old)
    until(lambda: udp_sockets(server.port) == 1, lambda: "one socket, %d" % udp_sockets(server.port))
    old = server.children()
    fresh = reload_to(server, flows.backend, 4, old)
    until(lambda: {served_by(server) for _ in range(20)} == set(fresh), server.evidence)
    flows.check()


def udp_sockets(port):
    with open("/proc/net/udp", encoding="ascii") as table:
        return sum(line.split()[1].endswith(":%04X" % port) for line in list(table)[1:])


def test_a_client_stays_with_its_worker(start):
    server, flows = start(4)
    assert {served_by(server) for _ in range(60)} == set(server.children())
    flows.check()


def test_an_address_that_goes_ends_its_sessions(start):
    server, flows = start(2, count=4)
    old = server.children()
    configure(server, flows.backend, 2, more="")
    server.reload()
    until(lambda: not set(server.children()) & set(old), server.evidence)
    assert server.read("error.log").count("disconnected on shutdown") == 4
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        other.bind(("127.0.0.1", server.port))


def test_quit_ends_sessions_at_once(start):
    server, flows = start(2, count=4)
    server.quit()
    server.wait_end()
    assert server.read("error.log").count("disconnected on shutdown") == 4


def test_a_worker_that_is_killed_is_followed(start):
    server, flows = start(2, allow=["exited on signal 9"])
    old = server.children()
    for pid in old:
        os.kill(pid, signal.SIGKILL)
    wait_workers(server, 2, without=old)
    with client_of(server.port) as client:
        client.send(b"hello")
        data, address = flows.backend.take()
        flows.backend.answer(b"there", address)
        assert (data, client.recv(100)) == (b"hello", b"there")
    flows.ends = flows._round()
    flows.check()


def test_those_who_never_came_back_give_way(serve):
    backend = Backend()
    text = (CONF % {"workers": 1, "user": USER, "more": PASS % backend.port}).replace("2000", "30")
    server = serve(conf=text, allow=["worker_connections are not enough"])
    wait_workers(server, 1)
    flows = Flows(server, backend, 5)
    flows.check()
    flood = [client_of(server.port) for _ in range(60)]     # all at once: no port is used twice
    for number, client in enumerate(flood):
        client.send(b"flood %d" % number)
        assert backend.take()[0] == b"flood %d" % number
    flows.check()
    assert server.read("error.log").count("udp session was closed to free space for others") == 60 - 25
    for client in flood:
        client.close()
    server.wait_log("30 worker_connections are not enough, the oldest unproved udp clients give way")
    flows.close()


DROPPED = "datagrams are dropped: the worker that has their flows does not read"


def waiting_at(port):
    """Bytes that nobody has read of the sockets of a port."""
    with open("/proc/net/udp", encoding="ascii") as table:
        rows = [line.split() for line in list(table)[1:]]
    return sum(int(row[4].split(":")[1], 16) for row in rows if row[1].endswith(":%04X" % port))


def test_a_worker_that_reads_no_mail_costs_nobody_else(start):
    """A flow of an older worker that stands still: what is passed on to it has a bound, and others are served."""
    server, flows = start(1, count=2, allow=[DROPPED])
    (old,) = server.children()
    (fresh,) = reload_to(server, flows.backend, 1, [old])
    flows.check()
    speaker, piece, total = flows.clients[0], b"x" * 1400, 4000
    os.kill(old, signal.SIGSTOP)
    try:
        before = proc.resident_kb(fresh)
        for number in range(0, total, 50):
            for _ in range(50):
                speaker.send(piece)
            until(lambda: waiting_at(server.port) == 0, server.evidence)
            if number % 1000 == 0:
                assert served_by(server) == fresh
        more = Flows(server, flows.backend, 5)
        assert proc.resident_kb(fresh) - before < 2048
    finally:
        os.kill(old, signal.SIGCONT)
    flows.backend.socket.settimeout(0.2)
    came = sent = 0

    def is_through():
        """The mailbox has room again, since the worker reads. In order: behind the last one nothing is under way."""
        nonlocal came, sent
        sent += 1
        speaker.send(b"number %d" % sent)
        try:
            while True:
                data, address = flows.backend.take()
                came += data == piece
                if data == b"number %d" % sent:
                    return address == flows.ends[0]
        except TimeoutError:
            return False
    until(is_through, server.evidence)
    assert 0 < came < total
    server.wait_log(DROPPED)
    flows.backend.socket.settimeout(15)
    more.check()
    flows.check()
    for client in more.clients:
        client.close()


def test_sockets_pass_to_a_new_binary():
    text = CONF % {"workers": 2, "user": USER, "more": ""}
    with Daemon(conf=text.replace("daemon off;", "daemon on;")) as server:
        wait_workers(server, 2)
        old = server.pid
        workers = set(server.children())
        server.signal("upgrade")
        until(lambda: server.read("nginx.pid.oldbin") == "%d\n" % old, server.evidence)
        until(lambda: served_by(server) not in workers, server.evidence)
        os.kill(old, signal.SIGQUIT)
        follow_upgrade(server)
        wait_workers(server, 2)
        until(lambda: {served_by(server) for _ in range(20)} == set(server.children()), server.evidence)
        assert udp_sockets(server.port_of("PORT2")) == 2


def test_a_test_of_the_configuration_binds_nothing(start):
    server, flows = start(1, count=1)
    done = run_binary("-p", server.dir + "/", "-c", "nginx.conf", "-t")
    assert done.returncode == 0 and "test is successful" in done.stderr
    flows.check()


def test_a_foreign_socket_keeps_its_port(tmp_path):
    conf = tmp_path / "nginx.conf"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        other.bind(("127.0.0.1", 0))
        port = other.getsockname()[1]
        conf.write_text("daemon off; error_log stderr; pid %s; events {} stream { server { listen "
                        "127.0.0.1:%d udp; return x; } }" % (tmp_path / "pid", port))
        done = run_binary("-e", "stderr", "-c", str(conf))
    assert done.returncode == 1
    assert "bind() to 127.0.0.1:%d failed (98: Address already in use)" % port in done.stderr


@pytest.mark.parametrize("listen, host, family", [
    ("@PORT3@ udp", "127.0.0.5", socket.AF_INET), ("[::]:@PORT3@ udp", "::1", socket.AF_INET6),
    ("[::]:@PORT3@ udp ipv6only=off", "127.0.0.6", socket.AF_INET)])
def test_answers_come_from_the_address_that_was_asked(serve, listen, host, family):
    server = serve(conf=CONF % {"workers": 2, "user": USER, "more":
                                "server { listen %s; return $server_addr; }" % listen})
    wait_workers(server, 2)
    with socket.socket(family, socket.SOCK_DGRAM) as client:
        client.settimeout(15)
        client.sendto(b"?", (host, server.port_of("PORT3")))
        data, address = client.recvfrom(100)
    assert address[0] == host and data.decode().replace("::ffff:", "") == host


@pytest.mark.parametrize("word", ["ssl", "proxy_protocol", "backlog=5", "so_keepalive=on", "fastopen=5",
                                  "deferred"])
def test_words_that_mean_nothing_for_udp_are_refused(tmp_path, word):
    conf = tmp_path / "nginx.conf"
    conf.write_text("events {} stream { server { listen 127.0.0.1:1 udp %s; return x; } }" % word)
    done = run_binary("-t", "-c", str(conf), "-e", "stderr")
    assert done.returncode == 1
    if word == "ssl" and "requires" in done.stderr:
        return
    assert re.search(r'"listen" directive "%s" parameter is incompatible with "udp"'
                     % word.split("=")[0], done.stderr)


def test_a_client_is_gone_in_the_middle_of_a_batch(serve):
    """The batch was full, its first datagrams failed, and so the session ended that was adding to it."""
    backend = Backend()
    server = serve(conf=CONF % {"workers": 1, "user": USER, "more":
                                "server { listen unix:@DIR@/udp.sock udp; proxy_pass 127.0.0.1:%d; }" % backend.port})
    worker = until(server.children, "the worker")[0]

    def say(ends, count):
        """Each in a message of its own, since they grow; the worker finds all of them at once."""
        os.kill(worker, signal.SIGSTOP)
        for end in ends:
            for size in range(count):
                backend.answer(b"x" * (1 + size), end)
        os.kill(worker, signal.SIGCONT)

    clients = [socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) for _ in range(12)]
    for number, client in enumerate(clients):
        client.settimeout(15)
        client.bind(server.path("client%d" % number))
        client.connect(server.path("udp.sock"))
        client.send(b"hello")
    ends = [backend.take()[1] for _ in clients]
    say(ends, 5)  # from now on these backends are read in batches
    for client in clients:
        assert [len(client.recv(100)) for _ in range(5)] == [1, 2, 3, 4, 5]
    for client in clients:
        client.close()
    say(ends, 7)
    server.wait_log(r"\*\d+ sendmsg\(\) failed")
    assert server.children() == [worker]
    backend.socket.close()


def test_a_unix_client_with_the_longest_path(serve):
    """Its address was a byte longer than addresses are: no answer left."""
    server = serve(conf=CONF % {"workers": 1, "user": USER,
                                "more": "server { listen unix:@DIR@/udp.sock udp; return found; }"})
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as client:
        client.settimeout(15)
        name = struct.pack("H", socket.AF_UNIX) + server.path("").encode().ljust(108, b"c")
        assert ctypes.CDLL(None).bind(client.fileno(), name, len(name)) == 0
        client.connect(server.path("udp.sock"))
        client.send(b"hello")
        assert client.recv(100) == b"found"
