"""The rows of single modules: what they serve, what a body with a coding costs, what waits beside others."""

import dataclasses
import os
import socket
import subprocess
import sys
from types import SimpleNamespace

import pytest

from harness import until

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import backends         # noqa: E402  pylint: disable=wrong-import-position
import bench            # noqa: E402  pylint: disable=wrong-import-position
import codings          # noqa: E402  pylint: disable=wrong-import-position
import module_rows      # noqa: E402  pylint: disable=wrong-import-position
import report           # noqa: E402  pylint: disable=wrong-import-position
import rows             # noqa: E402  pylint: disable=wrong-import-position
from servers import BenchError, Server, free_port   # noqa: E402  pylint: disable=wrong-import-position

BINARY = os.environ.get("TEST_NGINX_BINARY", os.path.join(bench.HERE, "../../objs/nginx"))
ROW = {row.name: row for row in rows.ROWS}


@pytest.fixture(scope="module", name="root")
def fixture_root(tmp_path_factory):
    """The files that the rows serve."""
    root = str(tmp_path_factory.mktemp("bench") / "html")
    module_rows.make_files(root)
    os.chmod(os.path.dirname(root), 0o755)
    return root


@pytest.fixture(name="start")
def fixture_start(tmp_path, root):
    """Starts the server of a row."""
    def start(row):
        port = free_port()
        text = rows.configuration(row, root, port, False)
        return Server(BINARY, str(tmp_path), text, port, os.sched_getaffinity(0))
    os.chmod(tmp_path, 0o755)
    return start


@pytest.mark.parametrize("name", ["gzip-1", "gzip-6", "brotli", "zstd", "gzip-static",
                                  "static-absent", "static-absent-3", "sub", "ssi",
                                  "auth-request", "limit-req", "map", "geo", "bcrypt"])
def test_each_row_is_served(start, name):
    """With as many bytes, in clear text, as the row says."""
    row = ROW[name]
    if set(row.needs) - bench.modules_of(BINARY):
        pytest.skip(f"without {row.needs}")
    with start(row) as server:
        for uri in (row.uris[0], row.uris[-1]):
            status, body = server.get(row, uri)
            assert (status, len(body)) == (200, row.body_size)
        if row.beside:
            assert server.get(row, row.beside) == (200, b"ok\n")
            assert server.get(dataclasses.replace(row, headers=()), row.beside)[0] == 401
        if row.coding:
            assert 0 < server.get_by_curl(row, row.uris[0])[2] < row.body_size / 2


@pytest.mark.parametrize("name", ["limit-req-sync", "limit-req-strict"])
def test_shared_limits_use_the_store(tmp_path, name):
    """And those on the other side do not."""
    if not os.access(backends.REDIS, os.X_OK):
        pytest.skip("no redis-server")
    row, port = ROW[name], free_port()
    os.chmod(tmp_path, 0o755)
    with backends.started(row.backend, str(tmp_path), "", os.sched_getaffinity(0), 1024) as backend:
        text = rows.configuration(row, "", port, False, backend=backend.address)
        with Server(BINARY, str(tmp_path), text, port, os.sched_getaffinity(0)) as server:
            assert server.get(row, row.uris[0])[0] == 200
            host, store = backend.address.split(":")
            with socket.create_connection((host, int(store)), 10) as sock:
                until(lambda: sock.sendall(b"DBSIZE\r\n") or sock.recv(100) == b":2\r\n", "the key of the limit")
    assert "sync" not in rows.configuration(row, "", port, True, backend="127.0.0.1:1")


def test_a_body_without_its_coding_is_no_answer_for_its_row(start):
    """A race against a server that sends clear text would be void."""
    with start(ROW["static-absent"]) as server:
        row = dataclasses.replace(ROW["static-absent"], coding="gzip")
        with pytest.raises(BenchError, match="no Content-Encoding: gzip"):
            server.get(row, row.uris[0])


def test_rows_whose_module_is_not_there_are_left_out(capsys):
    """A line says so; they do not fail."""
    row = ROW["zstd"]
    fake = SimpleNamespace(options=SimpleNamespace(rows=[row.name]), own_modules=set(),
                           binaries={"portunus": "/bin/nginx"})
    assert bench.run_rows(fake) == ([], 0)
    assert "zstd: left out, since /bin/nginx has no ngx_http_zstd_filter_module" \
        in capsys.readouterr().err


def test_modules_are_known_by_their_names():
    """Those that are linked in."""
    assert {"ngx_http_core_module", "ngx_http_map_module"} <= bench.modules_of(BINARY)


@pytest.mark.parametrize("coding, level", [("gzip", "1"), ("gzip", "6"), ("br", "6"), ("zstd", "1")])
def test_the_library_alone(tmp_path, root, coding, level):
    """The program encodes the text, and says how many bytes came of it."""
    programs = str(tmp_path)
    codings.build(programs)
    row = dataclasses.replace(ROW["gzip-1"], library=(coding, level))
    said = codings.run(SimpleNamespace(programs=programs, root=root), row, 3)
    assert 4000 < said["bytes"] < 8000 and said["cpu_us"] > 0
    with pytest.raises(BenchError, match="usage"):
        codings.run(SimpleNamespace(programs=programs, root="/nowhere"), row, 3)


def test_a_coding_may_be_judged_by_its_library():
    """Instructions of the whole request to those of the library; sizes stand beside them."""
    result = {"title": "x", "targets": {"library": 1.1},
              "coding": {"bytes": {"portunus": 5000, "reference": 5100},
                         "library": {"instructions": 1000.0, "bytes": 5001}},
              "instructions": {"portunus": 1100.0}}
    assert report.wanted_and_met(result) == [("library + 10%", True)]
    assert report.coding_table([result]).endswith("| x | 5,000 | 5,100 | 5,001 | 1,000 | 1.100 |")
    result["instructions"]["portunus"] = 1101.0
    assert report.missed([result]) == 1
    del result["coding"]["library"]
    assert report.wanted_and_met(result) == []


def test_what_waits_beside_others_has_a_table():
    """The 99th percentile may grow by so many ms."""
    def rounds(alone, beside):
        return [{"alone": {"p50": 1, "p99": alone, "max": 9},
                 "beside": {"p50": 1, "p99": beside, "max": 9}}]

    result = {"title": "x", "targets": {"p99_more_ms": 2},
              "beside": {"portunus": rounds(1, 3), "reference": rounds(1, 100)}}
    lines = report.beside_table([result]).splitlines()
    assert lines[2].endswith("| p99 ≤ 2 ms more: yes |") and lines[3].endswith("| 100.00 | 9.00 | – |")
    result["beside"]["portunus"] = rounds(1, 3.5)
    assert report.missed([result]) == 1


def test_the_lists_are_as_long_as_their_titles_say(root):
    """And what is asked for is in them."""
    for name, count in (("map.conf", 10000), ("geo.conf", 100000)):
        with open(f"{root}/modules/{name}", encoding="ascii") as file:
            lines = file.read().splitlines()
        assert len(lines) == len(set(lines)) == count
    assert len(set(module_rows.LIMITED)) == 100000
    assert subprocess.run(["gzip", "-t", f"{root}/modules/small.txt.gz"], check=False).returncode == 0
