"""pytest settings shared by every test: the command line, the server fixture, the final report."""

import os
import pathlib
import signal
import sys
import tempfile

import pytest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

# First: a cryptography of Debian's, which other tests import, is too old for aioquic, and a process has one of them.
from harness import h3  # noqa: E402,F401
from harness import Server, binaries  # noqa: E402
from harness.backend import Backend  # noqa: E402
from harness.redis import REDIS, Redis  # noqa: E402

# A shell starts what runs in its background with SIGINT ignored, and so would every program of the tests be.
signal.signal(signal.SIGINT, signal.default_int_handler)

ID_MOST = 48  # bytes of one parameter in a test's name


def pytest_report_header(config):
    return [
        "under test: %s (%s)" % (binaries.under_test(), binaries.version(binaries.under_test())),
        "reference:  %s (%s)" % (binaries.reference(), binaries.version(binaries.reference())),
    ]


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    """pytest-rerunfailures does not run a test again whose server did something wrong (a crash, an alert, a sanitizer's
    report, a leak): that fails when the server is ended."""
    outcome = yield
    if outcome.get_result().failed and call.when != "call":
        item.add_marker(pytest.mark.flaky(condition=False), append=False)


def pytest_terminal_summary(terminalreporter):
    """Tests are deterministic, so a failure that goes away when the test is run again is a bug too: it is printed whole."""
    for report in terminalreporter.stats.get("rerun", []):
        terminalreporter.section("run again, after it failed: %s" % report.nodeid)
        report.toterminal(terminalreporter._tw)


def pytest_make_parametrize_id(val):
    """A long parameter is cut in the name of its test, which is for reading and for the shell."""
    if not isinstance(val, (str, bytes)) or len(val) <= ID_MOST:
        return None
    text = val if isinstance(val, str) else val.decode("latin-1")
    return text[:ID_MOST].encode("unicode_escape").decode("ascii") + "..."


@pytest.fixture
def open_path():
    """A folder that workers may look into, too. Those of tmp_path pytest takes from others whenever another run of it begins."""
    with tempfile.TemporaryDirectory(prefix="portunus-open-") as folder:
        os.chmod(folder, 0o755)
        yield pathlib.Path(folder)


def pytest_configure(config):
    config.addinivalue_line("markers", "one_server: the cases of a test share each server that they start with the same arguments; "
                            "for tests that only send requests and leave nothing behind")


def close_all(servers):
    """Ends servers, the last one first, with their checks."""
    failures = []
    for server in reversed(list(servers)):
        try:
            server.close()
        except AssertionError as failure:
            failures.append(str(failure))
    assert not failures, "\n".join(failures)


@pytest.fixture(scope="module")
def shared_servers():
    """Those of tests with the mark one_server: (name of the test, arguments) -> Server. They end with the file."""
    servers = {}
    yield servers
    close_all(servers.values())


@pytest.fixture
def serve(request, shared_servers):
    """A function that starts servers and ends them, with their checks, when the test is over.

    serve(http="...", files={...}) gives a started Server; the arguments are those of Server.
    """
    servers = []
    is_shared = request.node.get_closest_marker("one_server") is not None

    def start(*args, **kwargs):
        key = (request.node.originalname, repr((args, sorted(kwargs.items()))))
        if is_shared and key in shared_servers:
            return shared_servers[key]
        server = Server(*args, **kwargs)
        if is_shared:
            shared_servers[key] = server
        else:
            servers.append(server)
        return server.start()

    yield start
    close_all(servers)


@pytest.fixture
def backend():
    """A function that makes backends by script (harness.backend) and closes them after the test."""
    made = []

    def make(*connections, **how):
        made.append(Backend(*connections, **how))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture(name="redis")
def fixture_redis():
    """A function that starts a Redis with these lines in its configuration."""
    if REDIS is None:
        pytest.skip("redis-server is not installed")
    servers = []

    def start(*lines, **how):
        servers.append(Redis(*lines, **how))
        return servers[-1].start()

    yield start
    for server in servers:
        server.stop()
