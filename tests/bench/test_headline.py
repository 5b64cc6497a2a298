"""The headline table: figures from rounds, and what is said to be missed."""

import http.client
import os
import socket

import pytest

import headline
import minimal
from headline import MINIMAL, OURS, Row


def rounds(rps, cpu_us, p99_us, client_busy=0.5):
    return [{"rps": rps, "cpu_us": cpu_us, "p99_us": p99_us, "client_busy": client_busy}] * 3


ONE = Row("one", "one worker", 100)
TWO = Row("two", "two workers", 100, workers=2)
HEAVY = Row("heavy", "light beside heavy", 16, workers=4, is_heavy=True)


def test_ratio_is_to_the_best_of_nginx():
    found = {OURS: rounds(110, 8, 300), "mutex": rounds(100, 10, 400), "shared": rounds(50, 20, 200)}
    assert headline.ratio(found, "rps") == pytest.approx(1.1)
    assert headline.ratio(found, "cpu_us") == pytest.approx(0.8)
    assert headline.ratio(found, "p99_us") == pytest.approx(1.5)


@pytest.mark.parametrize("row,mine,missed", [
    (ONE, rounds(110, 8, 100), ""),
    (ONE, rounds(110, 9.5, 100), "CPU ≤ 0.90"),
    (ONE, rounds(90, 8, 100), "rate ≥ 1.0"),
    (ONE, rounds(90, 8, 100, 0.95), "rate ≥ 1.0 (the client is the limit)"),
    (TWO, rounds(104, 8, 100), "rate ≥ 1.05"),
    (TWO, rounds(106, 12, 100), ""),
    (HEAVY, rounds(100, 12, 109), ""),
    (HEAVY, rounds(99, 12, 111), "p99 ≤ 1.1, rate ≥ 1.0"),
])
def test_what_is_missed(row, mine, missed):
    found = {OURS: mine, "nginx": rounds(100, 10, 100)}
    assert headline.target_missed(row, found) == missed
    assert (missed or "met") in headline.line_of(row, found)


def test_the_least_program_has_a_line_and_is_no_nginx():
    found = {OURS: rounds(110, 8, 300), MINIMAL[0]: rounds(200, 4, 300), "nginx": rounds(100, 10, 400)}
    assert headline.ratio(found, "cpu_us") == pytest.approx(0.8)
    line = headline.line_of(ONE, found, MINIMAL[0])
    assert line.startswith("| one worker (minimal) | 200 | 2.00 |") and line.endswith(" | nginx 100 |  |")


@pytest.mark.parametrize("name", MINIMAL)
def test_the_least_program_keeps_a_connection_or_ends_it(tmp_path, name):
    if name == minimal.URING and not minimal.has_io_uring():
        pytest.skip("no io_uring here")
    with minimal.Minimal(minimal.build(headline.PROGRAMS, name), str(tmp_path), os.sched_getaffinity(0)) as server:
        sockets = []
        kept = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
        for _ in range(2):
            kept.request("GET", "/")
            answer = kept.getresponse()
            assert (answer.status, len(answer.read())) == (200, 43)
            sockets.append(kept.sock)
        assert sockets[0] is sockets[1]
        kept.close()
        with socket.create_connection(("127.0.0.1", server.port), 20) as short:
            short.sendall(b"GET / HTTP/1.0\r\n\r\n")
            assert short.makefile("rb").read().startswith(b"HTTP/1.1 200 OK\r\n")


def test_names_of_rows_differ():
    names = [row.name for row in headline.ROWS]
    assert len(names) == len(set(names))
