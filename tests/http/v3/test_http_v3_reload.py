"""HTTP/3 and the generations of workers: connections outlive a reload, another number of workers and an upgrade of the binary."""

import os
import select
import signal
import socket
import struct
import subprocess
import time

import pytest

import certificates
from h3_site import BIG, _site  # noqa: F401
from harness import h3, proc, until
from harness.daemon import Adopted, Daemon, follow_upgrade, upgrade
from harness.h3 import H3, NO_ERROR, REQUEST_REJECTED
from harness.server import Server

SLOW = "location /slow { root html; rewrite ^/slow(.*) $1 break; limit_rate 300k; }"
IDLE = "lingering_close off; "  # a connection is idle at once
WHO = "location /who { return 200 $pid; }"


def begin(client, path="/slow/big"):
    """A request of which a part has come."""
    stream = client.send(path)
    client.turn_until(lambda: client.answer(stream).body)
    return stream


def wait_all(clients, streams, are_closed=False):
    """Answers of all, which take their packets by turns."""
    def is_over():
        for client in clients:
            client.turn()
        return all(client.closed or (not are_closed and client.answer(stream).is_over)
                   for client, stream in zip(clients, streams))

    until(is_over, "all answers")
    return [client.answer(stream).body for client, stream in zip(clients, streams)]


def reload(server, count):
    """Until `count` workers were told to leave."""
    server.reload()
    until(lambda: server.error_log.count("gracefully shutting down") >= count, server.evidence)


@pytest.mark.parametrize("workers", [1, 2])
def test_reload_in_a_response(site, workers):
    """The client takes a part, the server is reloaded, the rest comes; the next connection is the new worker's."""
    server = site(main="worker_processes %d;" % workers)
    with H3(server.port) as client:
        stream = begin(client, "/big")
        server.reload()
        answer = client.wait(stream)
        assert answer.body == BIG
        assert client.wait_closed() == NO_ERROR
    with H3(server.port) as client:
        assert client.get("/a.txt").status == 200


@pytest.mark.parametrize("main", ["worker_processes 1;", "worker_processes 2;"])
@pytest.mark.parametrize("events", ["", "reuse_port off;"])
def test_idle_connection_survives_a_reload(site, main, events):
    """Its next response comes from the worker that has it, and is the last one; a new connection is a newer worker's."""
    server = site(main=main, events=events, server=IDLE + WHO)
    with H3(server.port) as client:
        former = client.get("/who").body
        reload(server, 1)
        answer = client.get("/who")
        assert (answer.status, answer.body) == (200, former)
        assert client.wait_closed() == NO_ERROR
    with H3(server.port) as client:
        assert client.get("/who").body != former


def test_connection_in_use_moves_at_a_reload(site):
    """Where the last response was read within lingering_timeout, GOAWAY comes at once, as nginx has it."""
    server = site(server="lingering_timeout 1m;")
    with H3(server.port) as client:
        assert client.get("/a.txt").status == 200
        reload(server, 1)
        assert client.get("/a.txt").reset == REQUEST_REJECTED and client.closed is None


def test_retry_of_a_worker_that_was_replaced(site):
    """The next packet names that worker, which takes no new connections: it is for the one that reads the socket now."""
    server = site("quic_retry on;", IDLE + WHO)
    with H3(server.port) as kept, H3(server.port, connect=False) as client:
        former = kept.get("/who").body
        client.quic.connect(client.address, now=time.time())
        client.flush()
        assert select.select([client.socket], [], [], h3.PATIENCE)[0]  # the Retry packet
        reload(server, 1)
        client.shake_hands()
        assert client.get("/who").body != former
        assert kept.get("/who").body == former


def test_client_hello_in_two_packets_around_a_reload(site):
    """After a Retry: the worker that sent it has begun with the first one, its successor reads the other one and begins nothing. The
    client has heard of nobody in between, so that it continues with the id of the Retry."""
    server = site("quic_retry on;", IDLE + 'location /who { return 200 "$pid $connection"; }')
    long = ["h3"] + ["%d" % number + "x" * 200 for number in range(6)]
    with H3(server.port) as kept, H3(server.port, connect=False, alpn=long) as client:
        former, first_number = kept.get("/who").body.split()
        client.quic.connect(client.address, now=time.time())
        client.flush()
        assert select.select([client.socket], [], [], h3.PATIENCE)[0]
        client.quic.receive_datagram(client.socket.recv(2000), client.address, now=time.time())  # the Retry packet
        first, *others = client.quic.datagrams_to_send(now=time.time())
        assert others
        client.socket.sendto(*first)
        assert select.select([client.socket], [], [], h3.PATIENCE)[0]
        client.socket.recv(2000)  # its acknowledgement, which gets lost
        reload(server, 1)
        for other in others:
            client.socket.sendto(*other)
        client.shake_hands()
        assert client.get("/who").body.split() == [former, b"%d" % (int(first_number) + 1)]
        with H3(server.port) as later:
            assert later.get("/who").body.split()[1] == b"%d" % (int(first_number) + 2)


def test_address_of_quic_that_becomes_one_of_udp():
    """The socket counts what it had no room for, which only QUIC asks for."""
    if not h3.HAS_AIOQUIC:
        pytest.skip("without aioquic: see auto/aioquic")
    pair = certificates.own("localhost")
    conf = "pid nginx.pid; error_log error.log info; daemon off; worker_processes 1; events {} "
    quic = "http { ssl_certificate %s; ssl_certificate_key %s; server { listen @PORT@ quic rcvbuf=4k; } }" % (pair.crt, pair.key)
    with Server(conf=conf + quic) as server, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        def fill():
            worker, = server.children()
            os.kill(worker, signal.SIGSTOP)
            try:
                until(lambda: proc.status(worker, "State").startswith("T"), "the worker to stop")
                for _ in range(100):
                    sender.sendto(bytes(1200), ("127.0.0.1", server.port))
            finally:
                os.kill(worker, signal.SIGCONT)

        with H3(server.port) as client:
            client.get("/")
        fill()
        server.configure(conf=conf + "stream { server { listen @PORT@ udp; return answer; } }")
        reload(server, 1)
        until(lambda: len(server.children()) == 1, "the former worker to end")
        sender.settimeout(h3.PATIENCE)
        sender.sendto(b"question", ("127.0.0.1", server.port))
        assert sender.recv(100) == b"answer"


def test_idle_connection_is_closed_when_the_server_quits(site):
    server = site()
    with H3(server.port) as client:
        assert client.get("/a.txt").status == 200
        server.signal("quit")
        assert client.wait_closed() == NO_ERROR


def test_idle_connection_of_a_replaced_worker_is_closed_when_the_server_quits(site):
    server = site(server=IDLE)
    with H3(server.port) as client:
        assert client.get("/a.txt").status == 200
        reload(server, 1)
        server.signal("quit")
        assert client.wait_closed() == 0  # by the transport: nothing reads the sockets any more


def test_quit_in_a_request(site):
    """A request that was begun before the server quits is answered."""
    server = site(server=SLOW)
    with H3(server.port) as client:
        stream = begin(client)
        server.signal("quit")
        assert client.wait(stream).body == BIG


def test_transfers_over_reloads_with_other_numbers_of_workers(site):
    """Six reloads with 4, 1 and 4 workers in turn: each transfer goes on where it was."""
    server = site(main="worker_processes 4;", server=SLOW)
    clients = [H3(server.port) for _ in range(12)]
    streams = [begin(client) for client in clients]
    gone = 0
    for now, then in [(4, 1), (1, 4), (4, 4), (4, 1), (1, 4), (4, 4)]:
        server.configure(conf=server.conf.replace("worker_processes %d;" % now, "worker_processes %d;" % then))
        gone += now
        reload(server, gone)
        for client in clients:
            client.turn()
    assert wait_all(clients, streams) == [BIG] * 12
    for client in clients:
        client.close()


# workers that are blocked, or die

def client_of(server):
    """The worker that serves a new client."""
    with H3(server.port) as client:
        return int(client.get("/who").body)


def all_serve(server):
    """Two workers, after both have served a client."""
    seen = set()

    def have_served():
        seen.add(client_of(server))
        return len(server.children()) == 2 and seen >= set(server.children())

    until(have_served, server.evidence)
    return server.children()


def test_new_connections_go_around_a_blocked_worker(site):
    """Half of the new clients are steered to a worker that does not run: the other one serves them."""
    server = site(main="worker_processes 2;", server=WHO)
    blocked = all_serve(server)[0]
    os.kill(blocked, signal.SIGSTOP)
    try:
        for _ in range(8):
            assert client_of(server) != blocked
        assert "worker process %d is blocked" % blocked in server.error_log
    finally:
        os.kill(blocked, signal.SIGCONT)
    server.wait_log("worker process %d runs again" % blocked)
    all_serve(server)


def test_new_connections_after_a_worker_was_killed(site):
    server = site(main="worker_processes 2;", server=WHO, allow=["exited on signal 9"])
    victim = all_serve(server)[0]
    os.kill(victim, signal.SIGKILL)
    until(lambda: victim not in server.children(), server.evidence)
    assert victim not in all_serve(server)


def wait_reset(client):
    """Until a stateless reset has come (RFC 9000, 10.3), which aioquic does not look for."""
    token = client.quic._peer_cid.stateless_reset_token
    assert len(token) == 16
    client.socket.setblocking(True)
    client.socket.settimeout(h3.PATIENCE)
    while not client.socket.recv(65536).endswith(token):
        pass
    client.socket.setblocking(False)


def test_worker_killed_under_load(site):
    """Transfers of the other worker continue; clients of the dead one hear of it with their next packet; new ones are served."""
    server = site(main="worker_processes 2;", server=SLOW + WHO, allow=["exited on signal 9"])
    victim = all_serve(server)[0]
    clients = {True: [], False: []}  # by whether they are the victim's
    while min(len(some) for some in clients.values()) < 3:
        client = H3(server.port)
        clients[int(client.get("/who").body) == victim].append(client)
    lost, others = clients[True], clients[False]
    for client in lost:
        begin(client)
    streams = [begin(client) for client in others]
    os.kill(victim, signal.SIGKILL)
    for _ in range(4):
        assert client_of(server) != victim
    for client in lost:
        client.send("/a.txt")
        wait_reset(client)
    assert wait_all(others, streams) == [BIG] * len(others)
    for client in lost + others:
        client.close()


# upgrades of the binary

@pytest.fixture(name="daemon")
def _daemon():
    if not h3.HAS_AIOQUIC:
        pytest.skip("without aioquic: see auto/aioquic")
    pair = certificates.own("localhost")
    server = Daemon("ssl_certificate %s; ssl_certificate_key %s; lingering_timeout 50ms; server { listen 127.0.0.1:@PORT@ quic; %s %s "
                    "location / { root html; } }" % (pair.crt, pair.key, SLOW, IDLE + WHO),
                    main="worker_processes 2;", files={"html/a.txt": "hello\n", "html/big": BIG})
    server.configure(conf=server.conf.replace("daemon off;", "daemon on;"))
    server.start()
    yield server
    left = Adopted(int(server.read("nginx.pid") or 0) or server.pid)
    server.close()
    if left.poll() is None:
        os.kill(left.pid, signal.SIGTERM)
        left.wait()


def upgrade_to_the_end(server):
    upgrade(server)
    os.kill(server.pid, signal.SIGQUIT)


def test_upgrade_in_a_response(daemon):
    """Connections that transfer go on in the old binary, whose sockets the new one reads; new ones are the new binary's."""
    clients = [H3(daemon.port) for _ in range(6)]
    streams = [begin(client) for client in clients]
    old = daemon.pid
    upgrade_to_the_end(daemon)
    with H3(daemon.port) as client:
        assert client.get("/a.txt").status == 200
    assert wait_all(clients, streams, are_closed=True) == [BIG] * 6
    for client in clients:
        assert client.closed[0] == NO_ERROR
        client.close()
    assert follow_upgrade(daemon) != old


def test_idle_connection_survives_an_upgrade(daemon):
    with H3(daemon.port) as client:
        former = client.get("/who").body
        upgrade_to_the_end(daemon)
        until(lambda: daemon.error_log.count("gracefully shutting down") == 2, daemon.evidence)
        assert client.get("/who").body == former
        assert client.wait_closed() == NO_ERROR
    follow_upgrade(daemon)
    with H3(daemon.port) as client:
        assert client.get("/who").body != former


def test_two_binaries_serve_their_connections_at_one_time(daemon):
    """Both read the sockets; each passes on what is the other's. The new one gives up, then a newer one takes over."""
    with H3(daemon.port) as former:
        worker = former.get("/who").body
        new = upgrade(daemon)
        clients = [H3(daemon.port) for _ in range(8)]
        for _ in range(3):
            for client in clients:
                assert client.get("/who").status == 200
            assert former.get("/who").body == worker
        streams = [begin(client) for client in clients]
        os.kill(new, signal.SIGQUIT)
        assert wait_all(clients, streams) == [BIG] * 8
        for client in clients:
            client.close()
        until(lambda: daemon.read("nginx.pid") == "%d\n" % daemon.pid, daemon.evidence)
        upgrade_to_the_end(daemon)
        assert former.get("/who").body == worker
    follow_upgrade(daemon)


def test_two_upgrades_in_a_row(daemon):
    """The third binary has what the second one was handed, and passes on the packets of the second."""
    masters = {daemon.pid}
    for _ in range(2):
        with H3(daemon.port) as client:
            stream = begin(client)
            upgrade_to_the_end(daemon)
            assert client_of(daemon) != 0
            assert wait_all([client], [stream], are_closed=True) == [BIG]
        masters.add(follow_upgrade(daemon))
    assert len(masters) == 3


# ---- what a new binary is handed

FORM = 0x90c7d000 + 1


@pytest.mark.parametrize("numbers", [[0], [1], [1, 1], [0x8001, 1]])
def test_forged_mailboxes(numbers):
    """The environment may say anything: a descriptor that is no mailbox is left alone, here the one that the server listens on."""
    pair = certificates.own("localhost")
    server = Server("ssl_certificate %s; ssl_certificate_key %s; server { listen 127.0.0.1:@PORT@; listen 127.0.0.1:@PORT1@ quic; "
                    "location / { return 204; } }" % (pair.crt, pair.key))
    with socket.socket() as given:
        given.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        given.bind(("127.0.0.1", server.port))
        given.listen()
        memory = os.memfd_create("forged", os.MFD_ALLOW_SEALING)
        os.write(memory, struct.pack("<I", FORM) + bytes(32)
                 + b"".join(struct.pack("<Ii", number, given.fileno()) for number in numbers))
        server._stderr = open(server.path("stderr.txt"), "ab")
        server.process = subprocess.Popen(
            server.command(), stdin=subprocess.DEVNULL, stdout=server._stderr, stderr=server._stderr, cwd=server.dir,
            start_new_session=True, pass_fds=[given.fileno(), memory],
            env={**os.environ, "NGINX": "%d;" % given.fileno(), "PORTUNUS_QUIC": str(memory)})
        os.close(memory)
        server.wait_ready()
    assert server.get("/").status == 204
    server.signal("reload")
    server.wait_log("gracefully shutting down")
    assert server.get("/").status == 204
    server.close()
