"""What the rows that compare modes count, and how they judge it."""

import json
import os
import shutil
import subprocess
import sys
import threading

import pytest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import ab       # noqa: E402  pylint: disable=wrong-import-position
import modes    # noqa: E402  pylint: disable=wrong-import-position
import modes_report     # noqa: E402  pylint: disable=wrong-import-position
import report   # noqa: E402  pylint: disable=wrong-import-position
import rows     # noqa: E402  pylint: disable=wrong-import-position
from scripted import ScriptedServer     # noqa: E402  pylint: disable=wrong-import-position
from servers import BenchError, free_port   # noqa: E402  pylint: disable=wrong-import-position

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello"


@pytest.fixture(scope="module", name="programs")
def fixture_programs(tmp_path_factory):
    """The folder of the compiled programs."""
    directory = str(tmp_path_factory.mktemp("bench"))
    modes.build(directory)
    return directory


def pace_at(programs, serve, rate, seconds, **settings):
    """A client that goes by the clock, after its end; and the server."""
    server = ScriptedServer(serve)
    try:
        with modes.Pace(programs, server.port, rate, seconds, "/", **settings) as pace:
            pass
    finally:
        server.listener.close()
    return pace, server


def test_the_clock_waits_for_no_answer(programs):
    """Nobody is answered before all twenty have asked: who takes turns would stand still."""
    asked = threading.Barrier(20)

    def serve(server, connection):
        next(server.read_heads(connection))
        asked.wait()
        connection.sendall(OK)

    pace, server = pace_at(programs, serve, 100, 0.2, header="X-One: 1")
    assert (len(pace.times), pace.failed, len(server.heads)) == (20, 0, 20)
    assert server.heads[0] == b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nX-One: 1"
    began = [one for one, _, _ in pace.times]
    assert began == sorted(began)
    assert all(0 < connected < answered for _, connected, answered in pace.times)


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n",
                                    b"HTTP/1.1 2"])
def test_the_clock_tells_what_was_not_answered(programs, answer):
    """An end without an answer, another status, half a line."""
    def serve(server, connection):
        next(server.read_heads(connection))
        connection.sendall(answer)

    pace, _ = pace_at(programs, serve, 50, 0.1)
    assert pace.failed == 5
    assert [answered for _, _, answered in pace.times] == [None] * 5


def test_the_clock_tells_of_refused_connections(programs):
    """Nobody listens."""
    with modes.Pace(programs, free_port(), 50, 0.1, "/") as pace:
        pass
    assert pace.failed == 5


def test_the_clock_wants_a_rate(programs):
    """And a port, and a time."""
    for words in ((), ("-p", "1", "-r", "0", "-t", "1"), ("-p", "1", "-r", "10", "-t", "0"),
                  ("-q",)):
        done = subprocess.run([f"{programs}/pace", *words], stderr=subprocess.PIPE, check=False)
        assert done.returncode == 2
        assert b"usage: pace" in done.stderr


TURNS_SCRIPT = """
import select, socket
def listen():
    one = socket.create_server(("127.0.0.1", 0))
    one.setblocking(False)
    return one
asked, other = listen(), listen()
loop = select.epoll()
loop.register(asked, select.EPOLLIN)
clients = [socket.create_connection(asked.getsockname()) for _ in range(2)]
loop.poll(1)            # a turn that accepts, and tries once too often
one, _ = asked.accept()
two, _ = asked.accept()
try: asked.accept()
except BlockingIOError: pass
loop.poll(0.001)        # the time is over
three = socket.create_connection(asked.getsockname())
loop.poll(1)            # a turn for nothing
try: other.accept()
except BlockingIOError: pass
loop.poll(1)            # a turn that only looks
loop.poll(1)            # a turn that reads, and accepts nothing
clients[0].sendall(b"x")
one.recv(1)
try: other.accept()
except BlockingIOError: pass
loop.poll(0)            # not waited for; and it has events
"""


def test_turns_for_nothing_are_counted(programs, tmp_path):
    """What was accepted or received was not for nothing; nor is a turn that tries too often."""
    name = f"{tmp_path}/turns"
    subprocess.run([sys.executable, "-c", TURNS_SCRIPT], check=True, timeout=60,
                   env={**os.environ, "LD_PRELOAD": f"{programs}/turns.so", "TURNS_FILE": name})
    assert modes.read_turns(name) == {"turns": 5, "timeouts": 1, "accepts": 2, "refused": 3,
                                      "empty": 1, "idle": 1}


def test_waits_are_told_apart_by_when_they_began():
    """Before the stop, across it, after it; one never answered; after the worker went on."""
    ms = 1000000
    times = [(0, 1, 2 * ms), (9 * ms, 1, 8 * ms), (10 * ms, 1, 31 * ms), (11 * ms, 1, 3 * ms),
             (20 * ms, None, None), (30 * ms, 1, 99 * ms)]
    assert modes.sum_stopped(times, 10 * ms, 30 * ms) == {
        "calm_ms": 2, "new": 3, "longest_ms": float("inf"), "late": 2, "under_way": 1,
        "under_way_ms": 8}
    assert modes.sum_stopped(times[:4], 10 * ms, 30 * ms)["longest_ms"] == 31


AB = """\
Time taken for tests:   0.500 seconds
Complete requests:      1000
Failed requests:        0
Requests per second:    2000.00 [#/sec] (mean)
Percentage of the requests served within a certain time (ms)
  50%     12
  99%     40
 100%     41 (longest request)
"""


def test_the_summary_of_ab_is_read():
    """Rate, and latencies in microseconds."""
    assert ab.read_summary(AB, 1000) == {"requests": 1000, "rps": 2000.0, "seconds": 0.5,
                                         "latency_us": {"p50": 12000.0, "p99": 40000.0}}


@pytest.mark.parametrize("text", [
    AB.replace("Failed requests:        0", "Failed requests:        3"),
    AB.replace("Failed", "Non-2xx responses:      7\nFailed"), AB.replace("1000", "999"), ""])
def test_what_ab_was_not_answered_well_is_an_error(text):
    """Failures, another status, fewer than asked for, no summary."""
    with pytest.raises(BenchError, match="ab: "):
        ab.read_summary(text, 1000)


def test_ab_asks_a_server():
    """Each request on a connection of its own."""
    def serve(server, connection):
        for _ in server.read_heads(connection):  # ab may leave connections without a request
            connection.sendall(OK)
            return

    server = ScriptedServer(serve)
    try:
        answer = ab.run(server.port, "/a", 20, 4, os.sched_getaffinity(0))
    finally:
        server.listener.close()
    assert answer["requests"] == len(server.heads) == 20
    assert answer["rps"] > 0 and answer["client_cpu"] > 0


def costs(rps, p99=1.0, cpu=10.0):
    """The figures of one round."""
    return {"rps": rps, "p50_ms": 1.0, "p99_ms": p99, "cpu_us": cpu, "switches": 1.0,
            "heavy_cpu_ms": 60, "heavy_p50_ms": 70}


def result_of(name, **found):
    """A result of a row."""
    return {"name": name, "title": "the row", "targets": {}, "modes": found}


def test_beside_heavy_requests_both_tail_and_rate_count():
    """The tail of reuse_port off, the rate of the best of all."""
    found = {"on": [costs(96, 1.4)], "off": [costs(90, 1.0)], "nginx-mutex": [costs(100, 9.0)]}
    assert [met for _, met in report.wanted_and_met(result_of("heavy", **found))] == [True, True]
    found["on"] = [costs(94, 1.6)]
    assert report.missed([result_of("heavy", **found)]) == 2
    assert report.missed([result_of("heavy", on=found["on"])]) == 0


def test_a_crowd_is_judged_by_the_best_mode_of_the_reference():
    """In the same rounds: the median of 1.2, 0.9 and 1.1 although the medians alone say 1."""
    found = {"on": [costs(120), costs(90), costs(110)],
             "nginx-mutex": [costs(100), costs(100), costs(100)], "nginx-shared": [costs(50)] * 3}
    assert report.missed([result_of("crowd", **found)]) == 0
    found["nginx-shared"] = [costs(121)] * 3
    assert report.missed([result_of("crowd", **found)]) == 1


def test_calm_is_judged_where_there_is_a_build_before():
    """By CPU time."""
    assert report.wanted_and_met(result_of("calm", on=[costs(1)])) == []
    before = [costs(1, cpu=9.0)]
    assert report.missed([result_of("calm", **{"on": [costs(1)], "before-on": before})]) == 1
    assert report.missed([result_of("calm", **{"on": before, "before-on": before})]) == 0


def test_the_worst_round_of_a_stopped_worker_counts():
    """Two good ones do not make up for it."""
    good = modes.sum_stopped([(0, 1, 10), (20, 1, 30)], 15, 40)
    assert report.missed([result_of("stopped", on=[good] * 3)]) == 0
    assert report.missed([result_of("stopped", on=[good, {**good, "longest_ms": 31}, good])]) == 1


def test_wakeups_are_judged_with_little_and_much_to_do():
    """Whichever is worse."""
    one = {"light_empty": 0.01, "light_turns": 2, "timeouts": 0, "loaded_empty": 0.0,
           "loaded_turns": 1}
    assert report.missed([result_of("wakeups", on=[one])]) == 0
    assert report.missed([result_of("wakeups", on=[{**one, "loaded_empty": 0.011}])]) == 1


def test_the_table_has_a_line_for_each_mode():
    """And what is to be reached below."""
    text = report.document("heading", [result_of("calm", **{
        "on": [costs(1000)], "before-on": [costs(900)], "nginx-mutex": [costs(2000)]})])
    assert "| the row | requests/s | p50 ms | p99 ms |" in text
    assert "| Portunus, reuse_port on | 1,000 | 1.00 | 1.00 | 10.00 | 1.00 |\n" \
        "| before, reuse_port on | 900 |" in text
    assert "| nginx, accept_mutex on | 2,000 |" in text
    assert "To reach: CPU ≤ 1.02 of the build before: yes." in text


def test_every_mode_is_a_configuration_that_differs():
    """In the events block, and for nginx's own sockets in the listen line."""
    row = next(row for row in rows.ROWS if row.name == "crowd")
    texts = {mode.name: rows.configuration(row, "/files", 1001, mode.side == "reference", workers=2,
                                           events=mode.events, listen=mode.listen)
             for mode in modes.MODES if mode.side != "before"}
    assert len(set(texts.values())) == len(texts) == 5
    assert "reuse_port on;" in texts["on"] and "reuseport;" in texts["nginx-reuseport"]


def test_rows_of_modes_have_all_that_belongs_to_them():
    """A measure, a number of workers, columns, a judge."""
    names = {row.name for row in rows.ROWS if "modes" in row.measures}
    assert names == set(modes.MEASURES) == set(modes.WORKERS) == set(modes_report.COLUMNS) \
        == set(modes_report.JUDGES)


def test_the_heavy_text_compresses():
    """It is text: what level 9 searches long in, and it becomes smaller."""
    text = modes.heavy_text()
    assert len(text) > 100000
    assert len(modes.zlib.compress(text, 1)) < len(text) / 2


BINARY = os.environ.get("TEST_NGINX_BINARY",
                        os.path.join(os.path.dirname(__file__), "../../objs/nginx"))


@pytest.mark.skipif(shutil.which(BINARY) is None or shutil.which("/usr/sbin/nginx") is None,
                    reason="needs both servers")
def test_rows_of_modes_from_end_to_end(tmp_path):
    """A worker stops and goes on, and what is counted inside a server is there."""
    name = f"{tmp_path}/out.json"
    done = subprocess.run(
        [sys.executable, os.path.join(os.path.dirname(__file__), "bench.py"), "--quick", "--rows",
         "stopped,wakeups", "--modes", "off,nginx-shared", "--binary", BINARY, "--json", name],
        stdout=subprocess.PIPE, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout
    with open(name, encoding="utf-8") as file:
        stopped, wakeups = (row["modes"] for row in json.load(file))
    for mode in ("off", "nginx-shared"):
        assert stopped[mode][0]["new"] > 0
        assert stopped[mode][0]["longest_ms"] > 0
        assert wakeups[mode][0]["light_turns"] > 0
    assert "| Portunus, reuse_port off |" in done.stdout
