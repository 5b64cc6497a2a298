"""What rests survives reloads; what is silent does not hold an old worker."""

import re
import signal
import os
import time

from harness import Closed, proc, until
from harness.workers import wait_workers
from test_chaos_shards import change, main, wait_new_binary

HTTP = """
    keepalive_requests 100000;
    server {
        listen 127.0.0.1:@PORT@ backlog=1024;
        location / { return 200 "$pid\\n"; }
        location /files/ { root .; }
    }
"""

IDLE = 384
RELOADS = 6


def post(client):
    """POST on a kept connection: a client may not repeat it by itself when it fails."""
    try:
        answer = client.request("/", method="POST", body="data")
    except Closed as closed:
        return repr(closed)
    return None if answer.status == 200 else repr(answer)


def test_six_reloads_with_384_idle_connections(serve):
    server = serve(HTTP, main=main(2), events="worker_connections 1024;")
    clients = [server.client() for _ in range(IDLE)]
    for client in clients:
        assert client.request("/").status == 200
    for _ in range(RELOADS):
        new = change(server, 2, events="worker_connections 1024;", http=HTTP)
        failures = [failure for failure in map(post, clients) if failure]
        assert not failures, "%d of %d: %s" % (len(failures), IDLE, failures[:3])
    assert {int(client.request("/").text) for client in clients} <= set(new)
    print("%d POSTs on idle connections over %d reloads, none failed" % (IDLE * RELOADS, RELOADS))


def test_posts_while_the_reload_goes_on(serve):
    """The same without waiting for the reload: some connections are on their way meanwhile."""
    server = serve(HTTP, main=main(2), events="worker_connections 1024;")
    clients = [server.client() for _ in range(IDLE)]
    for client in clients:
        assert client.request("/").status == 200
    sent = 0
    for _ in range(RELOADS):
        before = server.error_log.count("start worker process ")
        server.signal("reload")
        while server.error_log.count("start worker process ") < before + 2:
            failures = [failure for failure in map(post, clients) if failure]
            assert not failures, failures[:3]
            sent += len(clients)
    wait_workers(server, 2)
    failures = [failure for failure in map(post, clients) if failure]
    assert not failures, failures[:3]
    print("%d POSTs while reloads went on, none failed" % sent)


def test_hundred_reloads_in_a_row(serve):
    """Signals that come faster than workers start, with connections at rest throughout."""
    server = serve(HTTP, main=main(2))
    clients = [server.client() for _ in range(50)]
    for client in clients:
        client.request("/")
    for _ in range(100):
        server.signal("reload")
        time.sleep(0.005)
    failures = [failure for failure in map(post, clients) if failure]
    assert not failures, "%d: %s" % (len(failures), failures[:3])
    wait_workers(server, 2)


def test_fresh_connections_survive_a_reload(serve):
    """Connected, and not one byte sent: whoever has accepted it answers, then it goes over."""
    server = serve(HTTP, main=main(2))
    old = wait_workers(server, 2)
    clients = [server.client() for _ in range(20)]
    server.reload()
    until(lambda: server.error_log.count("gracefully") == 2, server.evidence)
    first = {int(client.request("/").text) for client in clients}
    new = wait_workers(server, 2, without=old)
    assert first <= set(old) | set(new)
    assert {int(client.request("/").text) for client in clients} <= set(new)


def test_connection_of_a_removed_listener_gets_a_last_answer(serve):
    server = serve(HTTP + "server { listen 127.0.0.1:@PORT1@; location / { return 200 bye; } }",
                   main=main(2))
    client = server.client(server.port_of("PORT1"))
    assert client.request("/").status == 200
    old = set(server.children())
    server.configure(HTTP, main=main(2))
    server.reload()
    until(lambda: server.error_log.count("gracefully shutting down") == 2, server.evidence)
    answer = client.request("/", method="POST", body="x")
    assert answer.text == "bye"
    assert answer.closes, answer.head
    wait_workers(server, 2)


def test_plain_quit_closes_what_rests(serve):
    server = serve(HTTP, main=main(2))
    clients = [server.client() for _ in range(20)]
    for client in clients:
        client.request("/")
    server.signal("quit")
    for client in clients:
        client.expect_closed()
    assert server.wait_end() == 0


def test_quit_after_a_reload_ends_the_old_workers_as_well(serve):
    """A connection that could not be handed over does not hold the whole service's end."""
    server = serve(HTTP + "server { listen 127.0.0.1:@PORT1@; location / { return 200 bye; } }",
                   main=main(1))
    client = server.client(server.port_of("PORT1"))
    client.request("/")
    server.configure(HTTP, main=main(1))
    server.reload()
    until(lambda: len(server.children()) == 2 and "gracefully" in server.error_log, server.evidence)
    server.signal("quit")
    client.expect_closed()
    assert server.wait_end() == 0


def test_kept_connections_live_on_at_an_upgrade(serve):
    """No request is lost: the old binary answers what comes on its idle connections, or the new one to which it gave them."""
    server = serve(HTTP, main=main(2))
    clients = [server.client() for _ in range(50)]
    for client in clients:
        client.request("/")
    server.signal("upgrade")
    new = wait_new_binary(server)
    try:
        assert [post(client) for client in clients] == [None] * 50
        server.signal("quit")
        assert [post(client) for client in clients] == [None] * 50
        assert server.wait_end() == 0
    finally:
        os.kill(new, signal.SIGTERM)
        until(lambda: not proc.is_alive(new), "the end of the new binary")


SLOW_START = """
init_worker_by_lua_block {
    while io.open("slow") and not io.open("go") do end
}
""" + HTTP


def test_quit_before_the_new_binary_serves(serve):
    """QUIT waits until somebody can take the idle connections: the old workers serve meanwhile."""
    server = serve(SLOW_START, main=main(2))
    clients = [server.client() for _ in range(20)]
    assert [post(client) for client in clients] == [None] * 20
    server.write("slow", "")
    server.signal("upgrade")
    new = wait_new_binary(server)
    try:
        server.signal("quit")
        server.wait_log(r"signal 3 \(SIGQUIT\) received")
        assert [post(client) for client in clients] == [None] * 20
        server.write("go", "")
        assert server.wait_end() == 0
        assert [post(client) for client in clients] == [None] * 20
    finally:
        os.kill(new, signal.SIGTERM)
        until(lambda: not proc.is_alive(new), "the end of the new binary")


# ---- silent clients

SILENT = {
    "nothing": b"",
    "half a line": b"GET / HT",
    "half a head": b"GET / HTTP/1.1\r\nHost: a\r\nX-Long: ",
    "half a body": b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nhalf",
    "half a chunk": b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nff\r\nhalf",
    "reads nothing": b"GET /files/big HTTP/1.1\r\nHost: a\r\n\r\n",
}


def open_silent(server):
    clients = []
    for data in SILENT.values():
        client = server.client(rcvbuf=4096)
        client.send(data)
        clients.append(client)
    return clients


def test_silent_clients_do_not_hold_an_old_worker(serve):
    """worker_shutdown_timeout is the longest that it stays. The big file is beyond what the kernel
    buffers."""
    server = serve(HTTP, main=main(1) + "worker_shutdown_timeout 1s;",
                   files={"files/big": b"x" * (32 << 20)})
    old, = wait_workers(server, 1)
    before = len(proc.sockets(old))
    clients = open_silent(server)
    until(lambda: len(proc.sockets(old)) == before + len(clients), "the connections")
    server.configure(HTTP, main=main(1) + "worker_shutdown_timeout 1s;")
    server.reload()
    until(lambda: "shutting down" in proc.title(old), "the old worker's end to begin")
    began = time.monotonic()
    assert server.get("/").status == 200
    until(lambda: not proc.is_alive(old), "the old worker's end\n" + server.evidence(), limit=10)
    print("the old worker ended %.2f s after it was told" % (time.monotonic() - began))
    assert not re.search(r"open socket", server.error_log)
    for client in clients:
        client.rest_or_reset()


def test_silent_clients_do_not_hold_the_end(serve):
    server = serve(HTTP, main=main(2) + "worker_shutdown_timeout 500ms;",
                   files={"files/big": b"x" * (32 << 20)})
    wait_workers(server, 2)
    clients = open_silent(server)
    server.signal("quit")
    assert server.wait_end(10) == 0
    for client in clients:
        client.rest_or_reset()
