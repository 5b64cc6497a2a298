"""Few connections and descriptors: idle ones give way, nothing spins, the numbers are right."""

import os
import re

from harness import Closed, until


def status_of(text):
    found = re.match(r"Active connections: (\d+) \nserver accepts handled requests\n"
                     r" (\d+) (\d+) (\d+) \n"
                     r"Reading: (\d+) Writing: (\d+) Waiting: (\d+) \n\Z", text)
    assert found, text
    return dict(zip("active accepts handled requests reading writing waiting".split(),
                    map(int, found.groups())))


STATUS = """
    server { listen 127.0.0.1:@PORT@; root html; location /status { stub_status; }
             location /x { return 200 "x"; } }
"""


def test_status_counts_idle_connections(serve):
    server = serve(STATUS)
    idle = [server.client() for _ in range(10)]
    for client in idle:
        client.request("/x")
    with server.client() as client:
        numbers = status_of(client.request("/status").text)
        assert numbers == {"active": 11, "accepts": 11, "handled": 11, "requests": 11,
                           "reading": 0, "writing": 1, "waiting": 10}
        for old in idle[:4]:
            old.close()
        until(lambda: status_of(client.request("/status").text)["active"] == 7, "7 connections")
        assert status_of(client.request("/status").text)["waiting"] == 6
    for old in idle:
        old.close()


def test_status_counts_reading_and_writing(serve):
    server = serve("""
        server { listen 127.0.0.1:@PORT@ sndbuf=16k; root html; location /status { stub_status; } }
    """, files={"html/big": bytes(4 << 20)})
    reading = [server.client() for _ in range(3)]
    for client in reading:
        client.send("GET /big HTTP/1.1\r\nHost")
    writing = [server.client(rcvbuf=4096) for _ in range(2)]
    for client in writing:
        client.send("GET /big HTTP/1.1\r\nHost: a\r\n\r\n")
    with server.client() as client:
        def seen():
            numbers = status_of(client.request("/status").text)
            return (numbers["reading"], numbers["writing"], numbers["waiting"]) == (3, 3, 0)
        until(seen, lambda: "3 reading, 3 writing: " + client.request("/status").text)
    for client in reading + writing:
        client.close()


def test_status_adds_up_over_workers(serve):
    server = serve(STATUS, main="worker_processes 4;")
    idle = [server.client() for _ in range(40)]
    for client in idle:
        client.request("/x")
    # A client that has its answer counts as waiting once its worker has seen to it.
    with server.client() as asking:
        def seen():
            numbers = status_of(asking.request("/status").text)
            return (numbers["active"], numbers["waiting"]) == (41, 40) and numbers["requests"] > 40
        until(seen, lambda: "40 waiting: " + asking.request("/status").text)
    for client in idle:
        client.close()


def test_idle_connections_give_way_to_new_clients(serve):
    """More clients than worker_connections: the longest idle ones are closed for them."""
    server = serve(STATUS, events="worker_connections 20;", allow=["worker_connections"])
    idle = []
    for _ in range(60):
        client = server.client()
        assert client.request("/x").status == 200
        idle.append(client)
    alive = 0
    for client in idle:
        try:
            client.request("/x")
            alive += 1
        except (Closed, OSError):
            pass
        client.close()
    assert 1 <= alive <= 20


def test_busy_connections_are_not_given_up(serve):
    """Only idle ones give way; a request under way goes on."""
    server = serve("""
        server { listen 127.0.0.1:@PORT@ sndbuf=16k; root html; location /x { return 200 "x"; } }
    """, events="worker_connections 20;", files={"html/big": bytes(4 << 20)},
                   allow=["worker_connections"])
    busy = [server.client(rcvbuf=4096) for _ in range(5)]
    for client in busy:
        client.send("GET /big HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        assert client.head().status == 200
    others = []
    for _ in range(40):
        client = server.client()
        client.request("/x")
        others.append(client)
    for client in busy:
        got = len(client.buffer)
        client.buffer = b""
        while True:
            data = client.socket.recv(1 << 20)
            if not data:
                break
            got += len(data)
        assert got == 4 << 20
    for client in busy + others:
        client.close()


def test_out_of_descriptors(serve):
    """With few descriptors idle connections give way as well, and accepting goes on."""
    server = serve(STATUS, main="worker_rlimit_nofile 40;", events="worker_connections 200;",
                   allow=["Too many open files", "worker_connections", "24:"])
    clients = []
    for _ in range(100):
        client = server.client()
        assert client.request("/x").status == 200
        clients.append(client)
    for client in clients:
        client.close()
    assert server.get("/x").status == 200


def test_out_of_connections_does_not_spin(serve):
    """All connections busy and more waiting: the worker sleeps until one is free."""
    server = serve("""
        server { listen 127.0.0.1:@PORT@ sndbuf=16k; root html; location /x { return 200 "x"; } }
    """, events="worker_connections 12;", files={"html/big": bytes(4 << 20)},
                   allow=["worker_connections"])
    busy = [server.client(rcvbuf=4096) for _ in range(12)]
    for client in busy:
        client.send("GET /big HTTP/1.1\r\nHost: a\r\n\r\n")
    waiting = server.client()
    waiting.send("GET /x HTTP/1.1\r\nHost: a\r\n\r\n")
    waiting.readable(0.3)
    before = processor_time(server.children()[0])
    waiting.readable(0.5)
    spent = processor_time(server.children()[0]) - before
    assert spent < 0.25, "the worker spent %gs of 0.5s" % spent
    for client in busy:
        client.reset()
    try:
        served = waiting.response().status == 200
    except Closed:
        served = False  # nginx closes what it cannot hold
    waiting.close()

    def is_served():
        try:
            return server.get("/x").status == 200
        except Closed:
            return False  # the worker has not seen yet that the others left
    assert served or until(is_served, "an answer after the others left")


def processor_time(pid):
    """Seconds of CPU that a process has used."""
    with open("/proc/%d/stat" % pid, encoding="ascii") as source:
        fields = source.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_thousand_idle_connections(serve):
    server = serve(STATUS, main="worker_rlimit_nofile 4096;", events="worker_connections 2048;")
    idle = [server.client() for _ in range(1000)]
    for client in idle:
        client.send("GET /x HTTP/1.1\r\nHost: a\r\n\r\n")
    for client in idle:
        assert client.response().status == 200
    assert status_of(server.get("/status").text)["waiting"] == 1000
    for client in idle:
        client.close()
    until(lambda: status_of(server.get("/status").text)["active"] == 1, "all gone")


def test_connection_serials_and_requests(serve):
    server = serve("""
        server { listen 127.0.0.1:@PORT@;
                 location / { return 200 "$connection $connection_requests"; } }
    """)
    with server.client() as first, server.client() as second:
        one, two = first.request().text.split(), second.request().text.split()
        assert one[1] == two[1] == "1" and one[0] != two[0]
        assert first.request().text.split() == [one[0], "2"]
