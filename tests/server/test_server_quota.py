"""`worker_processes auto` counts what the process may use."""

import os
import re

import pytest

from harness import binaries, until
from harness.workers import wait_workers

pytestmark = pytest.mark.skipif(
    "Portunus" not in binaries.version_text(binaries.under_test()), reason="ours alone")


def is_removed(path):
    """Removes a control group, which takes the end of its last process."""
    try:
        os.rmdir(path)
    except OSError:
        return False
    return True


@pytest.fixture
def cpu_group():
    """A control group with 0.9 of a CPU; skips where none can be made."""
    for root, name, text in (("/sys/fs/cgroup/cpu", "cpu.cfs_quota_us", "90000"),
                             ("/sys/fs/cgroup", "cpu.max", "90000 100000")):
        path = "%s/portunus-test-%d" % (root, os.getpid())
        try:
            os.mkdir(path)
            with open("%s/%s" % (path, name), "w", encoding="ascii") as file:
                file.write(text)
        except OSError:
            if os.path.isdir(path):
                os.rmdir(path)
            continue
        yield path
        until(lambda path=path: is_removed(path), "the group's end")
        return
    pytest.skip("no control group with a CPU quota can be made here")


def test_auto_goes_by_the_cpu_quota(cpu_group, serve):
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("one CPU")
    with open("%s/cgroup.procs" % cpu_group, "w", encoding="ascii") as file:
        file.write(str(os.getpid()))
    try:
        server = serve("server { listen 127.0.0.1:@PORT@; return 200; }", main="worker_processes auto; error_log error.log notice;")
    finally:
        with open(os.path.dirname(cpu_group) + "/cgroup.procs", "w", encoding="ascii") as file:
            file.write(str(os.getpid()))
    wait_workers(server, 1)
    assert re.search(r'\[notice\] .*"worker_processes auto" is 1 of \d+ CPUs, by the CPU quota of the control group',
                     server.error_log)
    server.quit()
