"""The table of handshakes: all of them are full ones, with as many tickets as were asked for."""

import argparse
import os

import pytest

import handshakes
from servers import BenchError


@pytest.fixture(name="bench")
def fixture_bench(tmp_path):
    return handshakes.Handshakes(argparse.Namespace(binary=os.environ.get("TEST_NGINX_BINARY", "objs/nginx")), str(tmp_path))


@pytest.mark.parametrize("side", ["minimal, no ticket", "minimal, two tickets"])
def test_handshakes_are_full(bench, side):
    with bench.server(side) as server:
        answer = bench.load(server, requests=8)
    assert (answer["requests"], answer["handshakes"], answer["resumed"]) == (8, 8, 0)


def test_a_resumed_handshake_is_an_error(bench, monkeypatch):
    monkeypatch.setattr(handshakes, "ROW", handshakes.Row("resumed", "", "", options=("-T", "-s", "-R", "-c", "1")))
    with bench.server("minimal, one ticket") as server, pytest.raises(BenchError, match="resumed a session"):
        bench.load(server, requests=8)
