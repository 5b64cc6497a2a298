"""HTTP/2 load is counted as it should be, and an answer that is wrong is told of."""

import dataclasses
import os
import sys
from types import SimpleNamespace

import pytest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import backends     # noqa: E402  pylint: disable=wrong-import-position
import fetch        # noqa: E402  pylint: disable=wrong-import-position
import rows         # noqa: E402  pylint: disable=wrong-import-position
from h2load import H2load, read_summary     # noqa: E402  pylint: disable=wrong-import-position
from servers import BenchError, Server      # noqa: E402  pylint: disable=wrong-import-position

SUMMARY = """\
finished in 2.21s, 45334.74 req/s, 5.79MB/s
requests: 1000 total, 1000 started, 1000 done, 1000 succeeded, 0 failed, 0 errored, 0 timeout
status codes: 1000 2xx, 0 3xx, 0 4xx, 0 5xx
traffic: 12.78MB (13400049) total, 6.96MB (7300000) headers (space savings 47.86%), 1KB (43000) data
                     min         max         mean         sd        +/- sd
time for request:       44us     35.50ms       681us      1.15ms    94.54%
"""
GRPC = next(row for row in rows.ROWS if row.message)


def test_the_summary_is_read():
    """Requests by its own clock."""
    assert read_summary(SUMMARY, 1000, 43) == {
        "requests": 1000, "seconds": 2.21, "rps": 1000 / 2.21,
        "latency_us": {"mean": pytest.approx(681)}}
    assert read_summary(SUMMARY.replace("2.21s", "250.5ms"), 1000, None)["seconds"] \
        == pytest.approx(0.2505)


@pytest.mark.parametrize("text, requests", [
    (SUMMARY.replace("1000 succeeded", "999 succeeded"), 1000),
    (SUMMARY.replace("1000 2xx, 0 3xx", "999 2xx, 1 3xx"), 1000),
    (SUMMARY.replace("(43000) data", "(42999) data"), 1000),
    (SUMMARY, 1001),
    ("could not connect to host", 1000),
    ("", 1000)], ids=["failed", "3xx", "size", "too few", "words", "nothing"])
def test_what_was_not_answered_well_is_an_error(text, requests):
    """A single request, a single byte."""
    with pytest.raises(BenchError):
        read_summary(text, requests, 43)


@pytest.fixture(scope="module", name="programs")
def fixture_programs(tmp_path_factory):
    """Where the compiled programs are."""
    directory = str(tmp_path_factory.mktemp("programs"))
    backends.build(directory)
    return directory


@pytest.fixture(name="start")
def fixture_start(programs, tmp_path):
    """Gives a function that makes a backend, for a with statement."""
    return lambda *kind: backends.started(kind, str(tmp_path), programs,
                                          os.sched_getaffinity(0), 1024)


@pytest.fixture(name="client")
def fixture_client(tmp_path):
    """h2load, with two connections where the row does not say."""
    return H2load({min(os.sched_getaffinity(0))}, str(tmp_path), 2, 1024)


def test_calls_are_made_and_answered(start, client):
    """On one connection, as the row says: first a number of them, then for a time, which becomes a
    number by what was seen before."""
    with start("grpc") as backend:
        server = SimpleNamespace(binary="echo", port=backend.port)
        answer = client.run(server, GRPC, requests=500)
        assert answer["requests"] == 500 and answer["client_cpu"] >= 0
        assert backend.counts() == {"connections": 1, "requests": 500}
        again = client.run(server, GRPC, seconds=0.01)
        assert again["requests"] == max(GRPC.streams, round(0.01 * answer["rps"]))
        assert backend.counts() == {"connections": 2, "requests": 500 + again["requests"]}
        client.run(server, dataclasses.replace(GRPC, connections=None), requests=100)
        assert backend.counts()["connections"] == 4
        with pytest.raises(BenchError, match="echo, row grpc: .*bodies of 1$"):
            client.run(server, dataclasses.replace(GRPC, body_size=1), requests=100)


def test_a_server_without_http2_is_an_error(start, client):
    """It answers, but not so."""
    with start("http") as backend, pytest.raises(BenchError):
        client.run(SimpleNamespace(binary="plain", port=backend.port), GRPC, requests=100)


def test_one_answer_is_fetched_by_the_protocol_of_the_row(start):
    """With the message that was sent; and HTTP/1.1 will not do."""
    with start("grpc") as backend:
        server = SimpleNamespace(binary="echo", port=backend.port)
        assert Server.get(server, GRPC, "/a.B/C") == (200, GRPC.message)
    with start("http") as backend:
        server = SimpleNamespace(binary="plain", port=backend.port)
        with pytest.raises(fetch.FetchError):
            fetch.by_curl(GRPC, "/a.B/C", backend.port)
        with pytest.raises(BenchError, match="plain, row grpc: /a.B/C: curl"):
            Server.get(server, GRPC, "/a.B/C")
