"""auto/gdb_fibers.py shows in a core where each fiber waits."""

import os
import resource
import shutil
import signal
import socket
import subprocess
import time

import pytest

from harness import binaries

SCRIPT = os.path.abspath(os.path.join(os.path.dirname(__file__), "../../auto/gdb_fibers.py"))

CONF = """
daemon off;
master_process off;
user root;
events { }
http {
    access_log off;
    server {
        listen 127.0.0.1:%d;
        location / { proxy_pass http://127.0.0.1:%d; }
    }
}
"""


def can_dump():
    with open("/proc/sys/kernel/core_pattern", encoding="ascii") as file:
        pattern = file.read().strip()
    return pattern == "core" and resource.getrlimit(resource.RLIMIT_CORE)[1] == resource.RLIM_INFINITY


def allow_core():
    resource.setrlimit(resource.RLIMIT_CORE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def connect(port):
    for _ in range(100):
        try:
            return socket.create_connection(("127.0.0.1", port))
        except ConnectionRefusedError:
            time.sleep(0.05)
    raise AssertionError("nobody listens")


@pytest.fixture(name="core")
def dumped(tmp_path):
    """A server that ended while a request waited for a backend that says nothing."""
    if shutil.which("gdb") is None or not can_dump():
        pytest.skip("no gdb, or cores go elsewhere")
    if "Portunus" not in binaries.version_text(binaries.under_test()):
        pytest.skip("not ours")
    backend = socket.create_server(("127.0.0.1", 0))
    port = free_port()
    (tmp_path / "logs").mkdir()
    (tmp_path / "nginx.conf").write_text(CONF % (port, backend.getsockname()[1]))
    server = subprocess.Popen([binaries.under_test(), "-p", "%s/" % tmp_path, "-c", "nginx.conf", "-e", "stderr"],
                              cwd=str(tmp_path), stderr=subprocess.DEVNULL, preexec_fn=allow_core)
    try:
        client = connect(port)
        client.sendall(b"GET /waits-for-ever HTTP/1.1\r\nHost: a\r\n\r\n")
        link, _ = backend.accept()
        link.recv(1)
    finally:
        server.send_signal(signal.SIGABRT)
        server.wait()
    found = list(tmp_path.glob("core*"))
    if not found:
        pytest.skip("no core was written")   # AddressSanitizer forbids it
    return str(found[0])


def test_fibers_are_listed_with_backtraces(core):
    done = subprocess.run(["gdb", "-batch", "-nx", "-iex", "set debuginfod enabled off", "-x", SCRIPT,
                           binaries.under_test(), core, "-ex", "fibers bt", "-ex", "fiber 0", "-ex", "bt",
                           "-ex", "fiber off", "-ex", "bt"],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120, check=False)
    listed, _, chosen = done.stdout.partition("1 fibers")
    assert "request_run: waits" in listed and "GET /waits-for-ever HTTP/1.1" in listed, done.stdout
    assert "exchange_run" in listed
    assert "epoll_wait_for_events" not in listed
    with_fiber, _, without = chosen.partition("fiber_switch_start")
    assert "exchange_run" in with_fiber
    assert "exchange_run" not in without and "loop_run" in without
