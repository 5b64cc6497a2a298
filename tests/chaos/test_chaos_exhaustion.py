"""Out of connections or descriptors: who rests gives way, nothing spins, accepting goes on at once."""

import re

import pytest

from harness import Client, Closed, Timeout, proc, until
from harness.workers import wait_workers

HTTP = """
    keepalive_timeout 60s;
    server {
        listen 127.0.0.1:@PORT@ backlog=256;
        client_body_early_read 1;
        location / { return 200 fine; }
        location = /status { stub_status; }
    }
"""

# Two ways to run short: main and events lines that leave room for about 20 clients.
SHORT = {
    "connections": ("", "worker_connections 24;"),
    "descriptors": ("worker_rlimit_nofile 40;", "worker_connections 1000;"),
}
ALLOW = [r"worker_connections are not enough", r"Too many open files"]


@pytest.fixture(params=sorted(SHORT))
def short(serve, request):
    """A server of one worker that is about to run short."""
    main, events = SHORT[request.param]
    return serve(HTTP, main="worker_processes 1;" + main, events=events, allow=ALLOW)


def is_closed(client):
    return client.readable(0)


def fill_with_kept(server, count=60):
    clients = []
    for _ in range(count):
        client = server.client()
        assert client.request("/").text == "fine"
        clients.append(client)
    return clients


def test_kept_connections_give_way_oldest_first(short):
    clients = fill_with_kept(short)
    closed = [is_closed(client) for client in clients]
    assert closed[0] and not closed[-1]
    assert closed == sorted(closed, reverse=True), "not the longest idle ones gave way"
    for client, gone in zip(clients, closed):
        if gone:
            client.expect_closed()  # with FIN, or RST: nothing was sent on it
        else:
            assert client.request("/").text == "fine"


@pytest.mark.parametrize("sent", [b"", b"GET / HTTP/1.1\r\nHo"], ids=["nothing", "half"])
def test_silent_clients_give_way(short, sent):
    silent = []
    for _ in range(60):
        client = short.client()
        client.send(sent)
        silent.append(client)
    for _ in range(5):
        assert short.get("/").text == "fine"
    for client in silent:
        client.close()


def ask_with_body(server):
    """A client whose request is being worked on once it is served, since its body is under way: it never gives way."""
    client = server.client()
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n"
                "Expect: 100-continue\r\n\r\n")
    return client


def begin_body(client):
    """Waits until it is served; gives the client, or None when there is no room for it."""
    try:
        assert client.head().status == 100
    except Closed:
        client.close()
        return None
    client.send("half ")
    return client


def is_served(server):
    try:
        return server.get("/").text == "fine"
    except Closed:
        return False  # found no room


def fill_with_busy(server):
    """Busy clients until there is no room for the next one, which the log says at once; gives them."""
    clients = []
    while True:
        client = ask_with_body(server)
        until(lambda: client.readable(0) or any(re.search(words, server.error_log) for words in ALLOW),
              "an answer, or a word about why there is none")
        if not client.readable(0):
            client.close()
            break
        clients.append(begin_body(client))
        assert len(clients) < 60
    assert len(clients) > 5
    return clients


def test_accepting_goes_on_as_soon_as_there_is_room(short):
    worker, = wait_workers(short, 1)
    clients = fill_with_busy(short)

    def is_prompt():
        late = short.client()
        late.send("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        if late.readable(0.1):
            # Nobody had left for half a second: who finds no room is closed for a while, as nginx does it.
            assert late.rest_or_reset() == b"" and "not enough" in short.error_log
            clients.pop().close()
            until(lambda: is_served(short), "service as soon as there is room")
            in_time = False
        else:
            clients.pop().close()
            # nginx looks again only half a second after it ran short.
            in_time = late.readable(0.25)
            assert late.response().text == "fine"
            late.rest()
        late.close()
        clients.append(until(lambda: begin_body(ask_with_body(short)), "the place that was left"))
        return in_time
    until(is_prompt, "service at once when somebody leaves", limit=60)
    assert proc.is_idle(worker), "the worker spins"
    for client in clients:
        client.close()
    until(lambda: is_served(short), "service afterwards")


def test_nothing_spins_when_nobody_can_give_way(short):
    worker, = wait_workers(short, 1)
    clients = fill_with_busy(short)
    waiting = [short.client() for _ in range(20)]
    for client in waiting:
        client.send("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
    assert proc.is_idle(worker, 1.0), "the worker spins"
    assert short.error_log.count("not enough") + short.error_log.count("Too many open") < 10
    for client in clients:
        client.close()
    # Without connections they were closed when nobody had left for half a second; without descriptors they cannot be.
    if "not enough" in short.error_log:
        assert all(client.rest_or_reset() == b"" for client in waiting)
        until(lambda: is_served(short), "room")
        accepts, handled, _ = map(int, short.get("/status").text.split("\n")[2].split())
        assert accepts - handled >= len(waiting), "who was closed was accepted, not handled"
    else:
        for client in waiting:
            assert client.response().text == "fine"
    until(lambda: is_served(short), "service afterwards")


def test_busy_clients_are_served_to_their_end(short):
    clients = fill_with_busy(short)
    for client in clients:
        client.send("more!")
        assert client.response("POST").text == "fine"


def test_one_worker_runs_short_and_others_go_on(serve):
    """Each slot has its own queue: the connections of the one that is full wait for it alone."""
    server = serve(HTTP, main="worker_processes 2;", events="worker_connections 24;", allow=ALLOW)
    clients = [Client(server.port) for _ in range(120)]
    answered = 0
    for client in clients:
        try:
            answered += client.request("/").text == "fine"
        except (AssertionError, Timeout):
            pass
    assert server.get("/").text == "fine"
    assert answered >= 40
