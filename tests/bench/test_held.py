"""Held connections: the client that holds them, and what is made of its figures."""

import contextlib
import itertools
import json
import os
import subprocess
import sys
import threading

import pytest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import held     # noqa: E402  pylint: disable=wrong-import-position
import memory   # noqa: E402  pylint: disable=wrong-import-position
from scripted import ScriptedServer     # noqa: E402  pylint: disable=wrong-import-position
from servers import BenchError  # noqa: E402  pylint: disable=wrong-import-position

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"


@pytest.fixture(scope="module", name="program")
def fixture_program(tmp_path_factory):
    """The compiled client."""
    return held.build(str(tmp_path_factory.mktemp("bench")))


@contextlib.contextmanager
def holding(program, serve, parts, floor=0, seconds=30):
    """Clients that hold connections of a server that answers by script."""
    server = ScriptedServer(serve)
    try:
        with held.Holders(program, server.port, parts, held.Watch(floor, seconds), 1024) as holders:
            yield holders, server
    finally:
        server.listener.close()


def serve_all(server, connection):
    """Answers every request, in two pieces."""
    for _ in server.read_heads(connection):
        connection.sendall(OK[:-3])
        connection.sendall(OK[-3:])


def test_connections_are_held_and_asked(program):
    """All of them answered once; then a sample; none lost."""
    with holding(program, serve_all, [5, 4]) as (holders, server):
        opened = holders.lines("opening")
        assert [line["held"] for line in opened] in ([5, 4], [4, 5])
        assert len(server.heads) == 9
        sample = holders.ask(4, "asking")
        assert (sample["asked"], sample["answered"], len(server.heads)) == (4, 4, 13)
        assert 0 < sample["p50_us"] <= sample["p99_us"] <= sample["max_us"]
        assert holders.lost() == 0


def test_the_sources_of_two_clients_differ(program):
    """Each client has addresses of its own: ports of one would not do for all."""
    seen = []

    def serve(server, connection):
        seen.append(connection.getpeername()[0])
        serve_all(server, connection)

    with holding(program, serve, [2, 2]) as (holders, _):
        holders.lines("opening")
    assert sorted(seen) == ["127.0.0.2"] * 2 + ["127.0.0.3"] * 2


def test_what_the_server_closes_is_lost(program):
    """One closed while it was held, one instead of an answer."""
    numbers, are_open = itertools.count(), threading.Event()

    def serve(server, connection):
        heads = server.read_heads(connection)
        next(heads)
        connection.sendall(OK)
        if next(numbers) == 0:
            are_open.wait()
        else:
            next(heads, None)   # and leaves without an answer

    with holding(program, serve, [2]) as (holders, _):
        assert holders.lines("opening")[0]["held"] == 2
        are_open.set()
        sample = holders.ask(2, "asking")
        assert sample["answered"] == 0
        assert holders.lost() == 2
        assert holders.ask(2, "asking again")["asked"] == 0


def test_a_server_that_refuses_leaves_nothing_held(program):
    """Another status is no answer, and nor is one of unknown length."""
    for answer in (OK.replace(b"200", b"503"), b"HTTP/1.1 200 OK\r\n\r\n", OK + b"more"):
        def serve(server, connection, answer=answer):
            next(server.read_heads(connection))
            connection.sendall(answer)
            connection.recv(1)

        with holding(program, serve, [3]) as (holders, _):
            line = holders.lines("opening")[0]
            assert (line["held"], line["failed"]) == (0, 3)


def test_a_client_that_ends_is_an_error(program):
    """Whatever made it end."""
    with holding(program, serve_all, [1]) as (holders, _):
        holders.lines("opening")
        holders.tell("dance")
        with pytest.raises(BenchError, match="a client ended while dancing"):
            holders.lines("dancing")


def test_a_step_has_limits(program):
    """Of time, and of the machine's memory; it is told at how many connections."""
    def serve(server, connection):
        connection.recv(1)
        server.listener.accept()

    with holding(program, serve, [1], seconds=0.2) as (holders, _):
        with pytest.raises(BenchError, match="opening took longer than 0.2 s, at [0-9,]+ connec"):
            holders.lines("opening")
    with holding(program, serve, [1], floor=1 << 60) as (holders, _):
        with pytest.raises(BenchError, match="memory gave out while opening, at "):
            holders.lines("opening")


@pytest.mark.parametrize("words", [["-p", "1"], ["-p", "1", "-i", "1", "-T"], ["-i", "1"]])
def test_wrong_command_lines(program, words):
    """No number, TLS, no port."""
    done = subprocess.run([program, *words], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE,
                          check=False)
    assert done.returncode == 2 and done.stderr


def test_clients_and_workers_by_descriptors():
    """As many as are needed, at least what is asked for; a worker has some room for chance."""
    assert held.parts_of(300000, 20000, 2) == [18750] * 16
    assert held.parts_of(10, 20000, 3) == [4, 3, 3]
    options = held.parse_options(["--count", "300000", "--reference-count", "1000",
                                  "--binary", "/bin/sh"])
    assert held.workers_of(options, "portunus", 20000) == 18
    assert held.workers_of(options, "reference", 20000) == 4


def test_samples_of_all_clients_are_one():
    """Ranks are those of all of them together."""
    lines = [{"asked": 3, "stalled": 1, "us": [1.0, 9.0]}, {"asked": 1, "stalled": 0, "us": [5.0]}]
    assert held.sum_sample(lines) == {"asked": 4, "answered": 3, "stalled": 1, "p50_us": 5.0, "p99_us": 9.0,
                                      "max_us": 9.0}
    assert held.sum_sample([])["p50_us"] is None


def test_memory_is_read():
    """Our own, which both kinds count; and the kernel's for sockets, where root asks."""
    mine = memory.of_processes([os.getpid()])
    assert mine["Rss"] >= mine["Pss"] > 1 << 20
    assert memory.available() > 1 << 20
    assert memory.growth({"a": 1}, {"a": 3, "b": 2}) == {"a": 2, "b": 2}
    if os.geteuid() == 0:
        assert memory.slabs()["TCP"] >= 0


def test_the_table_tells_as_far_as_it_came():
    """A run that ended early has dashes, and says why."""
    whole = {"count": 9, "workers": 4, "least": 1 << 30, "held": 9, "seconds": 1.5,
             "base": {"Pss": 1 << 20, "Rss": 1 << 20}, "server": {"Pss": 2 << 20, "Rss": 2 << 20},
             "grown": {"Pss": 4500, "Rss": 4509}, "used": 72000, "sockets": 63000,
             "slabs": {"TCP": 45000, "x": 0}, "after": {"Pss": 3 << 20, "Rss": 1},
             "reload": {"seconds": 4.25, "lost": 9, "meanwhile": held.sum_sample([])},
             "sample": held.sum_sample([{"asked": 1, "stalled": 0, "us": [50.0]}]),
             "again": held.sum_sample([])}
    short = {"count": 9, "workers": 4, "least": 1 << 20, "error": "memory gave out"}
    text = held.document({"portunus": whole, "reference": short})
    assert "| workers and master, bytes a connection (PSS) | 500 | – |" in text
    assert "| kernel's caches of sockets, bytes a connection, both ends | 7,000 | – |" in text
    assert "| reload: connections closed | 9 | – |" in text
    assert "portunus: the kernel's caches that grew most, in bytes a connection: TCP 5,000" in text
    assert "reference: memory gave out." in text


@pytest.mark.skipif(os.geteuid() != 0, reason="a network namespace needs root")
def test_a_run_from_end_to_end(tmp_path):
    """A few hundred connections: all held, none lost by a reload of ours."""
    name = f"{tmp_path}/out.json"
    binary = os.environ.get("TEST_NGINX_BINARY", os.path.join(held.HERE, "../../objs/nginx"))
    if not os.path.exists(binary):
        pytest.skip("no server was built")
    done = subprocess.run([sys.executable, f"{held.HERE}/held.py", "--count", "300", "--workers",
                           "2", "--sides", "portunus", "--sample", "20", "--floor", "0", "--binary",
                           binary, "--json", name], stdout=subprocess.PIPE, text=True, check=False,
                          timeout=300)
    assert done.returncode == 0, done.stdout
    with open(name, encoding="utf-8") as file:
        found = json.load(file)["portunus"]
    assert (found["held"], found["reload"]["lost"], found["lost"]) == (300, 0, 0)
    assert found["sample"]["answered"] == found["again"]["answered"] == 20
    assert "error" not in found and "held connections | portunus" in done.stdout
