"""What goes along with a connection that another worker takes, and what keeps a connection where it is."""

import os
import re
import socket
import sys

import pytest

from harness import binaries, proc, until
from harness.client import Client
from harness.workers import wait_workers
from mail.stage import conf as mail_conf
from test_server_lending import PLAIN, stopped
from test_server_placement import COSTLY, TEXT, Requests, all_on_one

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "chaos"))
sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "http/exchange"))
from test_http_logins import Domain, GROUP, log_in  # noqa: E402
from traffic import Traffic  # noqa: E402

pytestmark = pytest.mark.skipif(
    "Portunus" not in binaries.version_text(binaries.under_test()), reason="ours alone")


def replace_workers(server, count=1):
    """A reload: idle connections go to the new workers. Gives these."""
    old = server.children()
    server.reload()
    return wait_workers(server, count, without=old)


def requests_of(server, client, count):
    """So many requests; the last answer."""
    for _ in range(count):
        last = client.request("/")
        assert last.status == 200
    return last


@pytest.mark.parametrize("reloads", [1, 3])
def test_keepalive_requests_counts_over_workers(serve, reloads):
    server = serve('keepalive_requests 10; log_format counts "$connection $connection_requests"; '
                   'server { listen 127.0.0.1:@PORT@; access_log counts.log counts; return 200 "$connection $connection_requests"; }',
                   main="worker_processes 1;")
    wait_workers(server, 1)
    with server.client() as client:
        number = requests_of(server, client, 1).text.split()[0]
        for _ in range(reloads):
            assert not requests_of(server, client, 2).closes
            replace_workers(server)
        for count in range(2 + 2 * reloads, 11):
            answer = client.request("/")
            assert answer.text == "%s %d" % (number, count)
            assert answer.closes == (count == 10)
        client.expect_closed()
    assert server.wait_lines("counts.log", 10) == ["%s %d" % (number, count) for count in range(1, 11)]


def test_keepalive_requests_counts_over_workers_of_one_generation(serve):
    """The count is what `keepalive_requests` is compared with."""
    server = serve(COSTLY.replace("$connection;", "$connection_requests;"), main="worker_processes 2;")
    server.write("text.txt", TEXT)
    workers = wait_workers(server, 2)
    clients = all_on_one(server, workers, 24)
    counts = [[1] for _ in clients]

    class Counted(Requests):
        def answered(self, number, answer):
            counts[number].append(int(answer.header("X-Number")))

    with Counted(clients) as requests:
        until(lambda: workers[1] in requests.pids or requests.failures, "the other worker's share")
    assert not requests.failures
    assert counts == [list(range(1, len(seen) + 1)) for seen in counts]


LIMIT = """
    limit_conn_zone $server_port zone=all:64k;
    server {
        listen 127.0.0.1:@PORT@;
        limit_conn all 1;
        location / { empty_gif; add_header X-Pid $pid; }
        location /slow { proxy_pass http://127.0.0.1:%d; }
    }
"""


def test_limit_conn_counts_what_runs_in_an_older_worker(serve, backend):
    """An idle connection that goes over takes no count with it, a request that the older worker still answers keeps its own."""
    late = backend([lambda conn, request: until(lambda: go, "leave to answer") and conn.sendall(
        b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\nConnection: close\r\n\r\nlate")])
    go = []
    server = serve(LIMIT % late.port, main="worker_processes 1;", allow=["limiting connections"])
    old, = wait_workers(server, 1)
    with server.client() as idle, server.client() as busy:
        assert idle.request("/").header("X-Pid") == str(old)
        busy.send("GET /slow HTTP/1.1\r\nHost: a\r\n\r\n")
        late.wait_requests(1)
        assert idle.request("/").status == 503
        server.signal("reload")
        new, = until(lambda: [pid for pid in server.children() if pid != old], "a new worker")
        until(lambda: proc.title(old) == "nginx: worker process is shutting down", "the old worker to be told")
        assert idle.request("/").status == 503
        go.append(True)
        assert busy.response().text == "late"
        until(lambda: server.children() == [new], "the old worker's end")
        for _ in range(3):
            assert idle.request("/").header("X-Pid") == str(new)
            assert busy.request("/").header("X-Pid") == str(new)


def test_limit_conn_leaks_nothing_between_workers(serve):
    server = serve("limit_conn_zone $server_port zone=all:64k; limit_conn all 24;" + COSTLY, main="worker_processes 2;")
    server.write("text.txt", TEXT)
    workers = wait_workers(server, 2)
    clients = all_on_one(server, workers, 24)
    with Requests(clients) as requests:
        until(lambda: workers[1] in requests.pids or requests.failures, "the other worker's share")
    assert not requests.failures
    assert {client.request("/text.txt").status for client in clients} == {200}
    for client in clients:
        client.close()
    assert "limiting connections" not in server.error_log


ADDRESSES = """
    set_real_ip_from 127.0.0.0/8;
    server { listen 127.0.0.1:@PORT@; real_ip_header X-Real-IP; return 200 "$remote_addr $realip_remote_addr $pid"; }
    server { listen 127.0.0.1:@PORT1@ proxy_protocol; real_ip_header proxy_protocol;
             return 200 "$remote_addr $proxy_protocol_addr $proxy_protocol_port $pid"; }
"""


def test_real_ip_is_that_of_the_request(serve):
    server = serve(ADDRESSES, main="worker_processes 1;")
    old, = wait_workers(server, 1)
    with server.client() as client:
        assert client.request("/", "X-Real-IP: 192.0.2.1").text == "192.0.2.1 127.0.0.1 %d" % old
        new, = replace_workers(server)
        assert client.request("/").text == "127.0.0.1 127.0.0.1 %d" % new
        assert client.request("/", "X-Real-IP: 192.0.2.2").text == "192.0.2.2 127.0.0.1 %d" % new


def test_a_connection_with_a_proxy_header_keeps_its_worker_and_its_address(serve):
    server = serve(ADDRESSES, main="worker_processes 1;")
    old, = wait_workers(server, 1)
    with server.client(port=server.port_of("PORT1")) as client:
        client.send("PROXY TCP4 192.0.2.7 192.0.2.8 1111 80\r\n")
        assert client.request("/").text == "192.0.2.7 192.0.2.7 1111 %d" % old
        server.signal("reload")
        until(lambda: proc.title(old) == "nginx: worker process is shutting down", "the old worker to be told")
        last = client.request("/")
        assert last.text == "192.0.2.7 192.0.2.7 1111 %d" % old
        assert last.closes
    until(lambda: old not in server.children(), "the old worker's end")


def test_a_busy_worker_gives_no_connection_with_a_proxy_header(serve):
    server = serve(COSTLY.replace("127.0.0.1:@PORT@;", "127.0.0.1:@PORT@; listen 127.0.0.1:@PORT1@ proxy_protocol;")
                  , main="worker_processes 2;")
    server.write("text.txt", TEXT)
    workers = wait_workers(server, 2)
    plain = all_on_one(server, workers, 16)
    with stopped(workers[1]):
        headed = [server.client(port=server.port_of("PORT1")) for _ in range(8)]
        for client in headed:
            client.send("PROXY TCP4 192.0.2.7 192.0.2.8 1111 80\r\n")
            assert client.request("/text.txt").header("X-Pid") == str(workers[0])
    with Requests(plain + headed) as requests:
        until(lambda: workers[1] in requests.pids[:16] or requests.failures, "the other worker's share")
    assert not requests.failures
    assert set(requests.pids[16:]) == {workers[0]}


def test_a_login_that_holds_for_a_connection_ends_with_its_worker(serve, backend):
    """The backend's connection is closed: the client is nobody, and logs in again on the connection that it has."""
    domain = Domain(backend, 1)
    server = serve(GROUP % ("server 127.0.0.1:%d;" % domain.ports[0], "", "u"), main="worker_processes 1;")
    wait_workers(server, 1)
    with server.client() as alice:
        log_in(alice, "alice")
        replace_workers(server)
        assert alice.request("/").text == "nobody"
        log_in(alice, "alice")
        assert alice.request("/").text == "alice"


# ---- addresses that all workers share, and another protocol

UNIX = "listen unix:@DIR@/http.sock; "


def test_busy_connections_of_a_unix_socket_spread_over_workers(serve):
    server = serve(COSTLY.replace("listen 127.0.0.1:@PORT@;", "listen 127.0.0.1:@PORT@; " + UNIX), main="worker_processes 2;")
    server.write("text.txt", TEXT)
    workers = wait_workers(server, 2)
    with stopped(workers[1]):
        clients = [Client(server.path("http.sock")) for _ in range(24)]
        for client in clients:
            assert client.request("/text.txt").header("X-Pid") == str(workers[0])
    numbers = [client.request("/text.txt").header("X-Number") for client in clients]
    with Requests(clients) as requests:
        until(lambda: workers[1] in requests.pids or requests.failures, "the other worker's share")
    assert not requests.failures
    assert [client.request("/text.txt").header("X-Number") for client in clients] == numbers


def test_a_unix_socket_while_workers_stand_by_and_stand_still(serve):
    """All workers have the same socket: whichever of them accept, one that turns takes what comes."""
    server = serve(PLAIN.replace("listen 127.0.0.1:@PORT@;", "listen 127.0.0.1:@PORT@; " + UNIX), main="worker_processes 3;")
    workers = wait_workers(server, 3)
    with Traffic(server.port, short=4, kept=0) as traffic:
        traffic.wait_for(500)
        for still in (workers[:2], workers[1:], workers[::2]):
            with stopped(*still):
                for _ in range(30):
                    with Client(server.path("http.sock")) as client:
                        assert int(client.request("/", close=True).text) not in still
            traffic.wait_for(200)
    traffic.assert_nothing_lost()


def greeting(address):
    """What a mail server says first."""
    family = socket.AF_UNIX if isinstance(address, str) else socket.AF_INET
    with socket.socket(family) as client:
        client.settimeout(15)
        client.connect(address)
        return client.recv(100)


def test_mail_while_workers_stand_by_and_stand_still(serve):
    text = mail_conf("auth_http 127.0.0.1:9; server { listen 127.0.0.1:@PORT1@; protocol imap; } "
                     "server { listen unix:@DIR@/imap.sock; protocol imap; }", main="worker_processes 3;")
    server = serve(conf=re.sub(r"\Z", "http { %s }" % PLAIN, text), allow=["is blocked, other workers"])
    workers = wait_workers(server, 3)
    with Traffic(server.port, short=4, kept=0) as traffic:
        traffic.wait_for(500)
        for still in ((), workers[:2], workers[1:], workers[::2]):
            with stopped(*still):
                for _ in range(20):
                    assert greeting(("127.0.0.1", server.port_of("PORT1"))).startswith(b"* OK")
                    assert greeting(server.path("imap.sock")).startswith(b"* OK")
            traffic.wait_for(200)
    traffic.assert_nothing_lost()
