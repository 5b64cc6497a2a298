"""backtrace (Tengine's): the frames of a worker that crashes."""

import os
import signal

import pytest

from harness.workers import wait_workers
from harness import binaries, run_binary, until

pytestmark = pytest.mark.skipif("sanitize" in binaries.version_text(binaries.under_test()), reason="the sanitizer takes these signals first")

SITE = "server { listen 127.0.0.1:@PORT@; return 200; }"
FRAME = r"worker process\(.*\)\[0x[0-9a-f]+\]"


def crash(server, number=signal.SIGSEGV):
    assert server.get("/").status == 200
    victim = server.children()[0]
    os.kill(victim, number)
    until(lambda: victim not in server.children(), "the end of the worker")


def start(serve, main=""):
    return serve(SITE, main=main, allow=["crashed by signal", "exited on signal"])


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT, signal.SIGFPE, signal.SIGILL])
def test_frames_in_the_error_log(serve, number):
    server = start(serve)
    crash(server, number)
    server.wait_log("crashed by signal %d " % number)
    server.wait_log(FRAME)
    server.wait_log("exited on signal %d" % number)
    until(lambda: server.children(), "the next worker")


def test_names_of_functions(serve):
    server = start(serve)
    crash(server)
    server.wait_log(r"worker process\((loop_run|worker_run|main|epoll)")


def test_a_file_of_its_own(serve):
    server = start(serve, "backtrace_log logs/crashes;")
    crash(server)
    server.wait_log(FRAME, "logs/crashes")
    assert "worker process(" not in server.read("error.log")
    server.signal("reopen")
    crash(server)
    until(lambda: server.read("logs/crashes").count("main") >= 2, "the second crash")


def test_the_number_of_frames(serve):
    server = start(serve, "backtrace_log logs/crashes; backtrace_max_stack_size 2;")
    crash(server)
    assert len(server.wait_lines("logs/crashes", 2)) == 2


def test_none(serve):
    server = start(serve, "backtrace_max_stack_size 0;")
    crash(server)
    server.wait_log("exited on signal 11")
    assert "worker process(" not in server.read("error.log")


def test_a_reload_takes_another_file(serve):
    server = start(serve, "backtrace_log logs/one;")
    server.configure(SITE, main="backtrace_log logs/two;")
    old = server.children()
    server.reload()
    wait_workers(server, 1, without=old)
    crash(server)
    server.wait_log(FRAME, "logs/two")
    assert server.read("logs/one") == ""


@pytest.mark.parametrize("text", ["backtrace_max_stack_size x;", "backtrace_max_stack_size 1000;", "backtrace_log;", "backtrace_log a; backtrace_log b;",
                                  "http { backtrace_log a; }"])
def test_faults(tmp_path, text):
    (tmp_path / "c").write_text("pid p; error_log stderr; events { }\n%s\n" % text)
    assert run_binary("-p", str(tmp_path), "-c", "c", "-t", "-e", "stderr").returncode == 1
