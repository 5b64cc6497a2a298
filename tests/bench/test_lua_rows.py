"""The rows of Lua: what they serve, what their workers are, and who counts those that wait."""

import contextlib
import os
import sys
import time
from types import SimpleNamespace

import pytest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import backends         # noqa: E402  pylint: disable=wrong-import-position
import bench            # noqa: E402  pylint: disable=wrong-import-position
import loads            # noqa: E402  pylint: disable=wrong-import-position
import lua_rows         # noqa: E402  pylint: disable=wrong-import-position
import rows             # noqa: E402  pylint: disable=wrong-import-position
from servers import Server, free_port   # noqa: E402  pylint: disable=wrong-import-position

BINARY = os.environ.get("TEST_NGINX_BINARY", os.path.join(bench.HERE, "../../objs/nginx"))
ROW = {row.name: row for row in lua_rows.ROWS}

pytestmark = pytest.mark.skipif("ngx_http_lua_module" not in bench.modules_of(BINARY), reason="without Lua")


@pytest.fixture(scope="module", name="root")
def fixture_root(tmp_path_factory):
    """The files that the rows serve."""
    root = str(tmp_path_factory.mktemp("bench") / "html")
    rows.make_files(root)
    os.chmod(os.path.dirname(root), 0o755)
    return root


@pytest.fixture(scope="module", name="programs")
def fixture_programs(tmp_path_factory):
    """Where the compiled programs are."""
    directory = str(tmp_path_factory.mktemp("programs"))
    backends.build(directory)
    return directory


@pytest.fixture(name="start")
def fixture_start(tmp_path, root, programs):
    """Starts the server of a row, and what stands behind it."""
    @contextlib.contextmanager
    def start(row, side="portunus", **settings):
        with contextlib.ExitStack() as stack:
            address = ""
            if row.backend:
                address = stack.enter_context(backends.started(
                    row.backend, str(tmp_path), programs, os.sched_getaffinity(0), 1024)).address
            port = free_port()
            text = rows.configuration(row, root, port, side == "reference", backend=address, **settings)
            yield stack.enter_context(Server(BINARY, str(tmp_path), text, port, os.sched_getaffinity(0)))
    os.chmod(tmp_path, 0o755)
    return start


@pytest.mark.parametrize("name", sorted(set(ROW) - {"lua-sleep"}))
def test_each_row_is_served(start, name):
    """With as many bytes as the row says; twice, for the second finds connections and caches."""
    row = ROW[name]
    if row.backend == ("redis",) and not os.access(backends.REDIS, os.X_OK):
        pytest.skip("no redis-server")
    with start(row) as server:
        for uri in (row.uris[0], row.uris[-1]) * 2:
            status, body = server.get(row, uri)
            assert (status, len(body)) == (200, row.body_size)


def test_access_asks_for_the_token(start):
    """Else the row would be one of a check that checks nothing."""
    bare = lua_rows.Row(**{**vars(ROW["lua-access"]), "headers": ()})
    with start(bare) as server:
        assert server.get(bare, bare.uris[0])[0] == 403


def test_a_row_beside_our_own_has_no_lua_on_that_side(root):
    """And loads nothing, as it is ours."""
    for name in ("access", "set", "log", "header-filter"):
        row = ROW[f"lua-{name}-own"]
        assert "by_lua_block" in rows.configuration(row, root, 1, False)
        other = rows.configuration(row, root, 1, True)
        assert "by_lua" not in other and "load_module" not in other


def test_the_reference_loads_the_module(root):
    """And what it needs, in that order."""
    text = rows.configuration(ROW["lua-hello"], root, 1, True)
    assert 0 < text.index("ndk_http_module.so;") < text.index("ngx_http_lua_module.so;")


def test_two_workers_are_two(tmp_path, root, programs):
    """Each on a CPU of its own where there are two; one process under a tool that counts."""
    fake = SimpleNamespace(client=SimpleNamespace(cpus=[os.sched_getaffinity(0)]), directory=str(tmp_path),
                           programs=programs, descriptors=1024, root=root, certificates="",
                           binaries={"portunus": BINARY}, server_cpu=min(os.sched_getaffinity(0)))
    os.chmod(tmp_path, 0o755)
    row = ROW["lua-site-small-2"]
    with bench.Bench.server(fake, row, "portunus") as server:
        pids, wanted = server.wait_for_workers(2), {(cpu,) for cpu in sorted(os.sched_getaffinity(0))[:2]}
        end = time.monotonic() + 15         # each binds itself when it begins
        while {tuple(os.sched_getaffinity(pid)) for pid in pids} != wanted:
            assert time.monotonic() < end
            time.sleep(0.01)
    with bench.Bench.server(fake, row, "portunus", wrapper=("env",)) as server:
        assert server.workers() == [server.process.pid]


def test_who_sleeps_is_counted(tmp_path, start):
    """By the script, where nothing stands behind it."""
    row = lua_rows.Row(**{**vars(ROW["lua-sleep"]), "waiting": 20})
    client = loads.Client(loads.build(str(tmp_path / "programs")), [os.sched_getaffinity(0)], str(tmp_path))
    servers = SimpleNamespace(client=client, server=lambda row, side: start(row, "portunus"))
    found = bench.measure_waiting(servers, row)
    assert found["what"] == "each of 20 requests that wait in ngx.sleep" and found["portunus"] > 0
    with start(row) as server:
        assert bench.waiting_count(server, row) == 0
