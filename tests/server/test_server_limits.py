"""What the configuration says about processes, seen in /proc: limits, priority, processors, memory."""

import os
import resource

import pytest

from harness import Server, binaries, proc, until
from harness.daemon import swap_binary
from harness.workers import wait_workers

HTTP = 'server { listen 127.0.0.1:@PORT@; location / { return 200 "$pid\\n"; } }'

ALLOWED = sorted(os.sched_getaffinity(0))

needs_root = pytest.mark.skipif(os.getuid() != 0, reason="needs root")
needs_two = pytest.mark.skipif(len(ALLOWED) < 2, reason="needs two processors")


def processors(pid):
    """The processors that a process may use."""
    return sorted(os.sched_getaffinity(pid))


def test_worker_rlimit_nofile(serve):
    server = serve(HTTP, main="worker_rlimit_nofile 777;")
    worker, = wait_workers(server, 1)
    assert proc.limit(worker, "Max open files") == ("777", "777")
    assert proc.limit(server.pid, "Max open files") != ("777", "777")


@pytest.mark.parametrize("text, size", [("64k", 65536), ("0", 0), ("3m", 3 << 20)])
def test_worker_rlimit_core(serve, text, size):
    hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
    if os.getuid() != 0 and hard != resource.RLIM_INFINITY and hard < size:
        pytest.skip("the hard limit of cores is lower, and only root can raise it")
    server = serve(HTTP, main="worker_rlimit_core %s;" % text)
    worker, = wait_workers(server, 1)
    assert proc.limit(worker, "Max core file size") == (str(size), str(size))


@pytest.mark.parametrize("priority", ["5", "19"])
def test_worker_priority(serve, priority):
    server = serve(HTTP, main="worker_priority %s;" % priority)
    worker, = wait_workers(server, 1)
    assert proc.nice(worker) == int(priority)
    assert proc.nice(server.pid) == 0


@needs_root
def test_negative_worker_priority(serve):
    server = serve(HTTP, main="worker_priority -5;")
    worker, = wait_workers(server, 1)
    assert proc.nice(worker) == -5


def test_working_directory(serve):
    server = serve(HTTP, main="working_directory @DIR@/work;", files={"work": None})
    worker, = wait_workers(server, 1)
    assert proc.directory(worker) == server.path("work")
    assert proc.directory(server.pid) == server.dir


# ---- processors

def affinities(server, count):
    """Of the workers, in the order of their slots, which is that of their start."""
    return [processors(pid) for pid in wait_workers(server, count)]


def test_affinity_is_left_alone(serve):
    for line in ("", "worker_cpu_affinity off;"):
        if line and binaries.is_nginx_before(binaries.under_test(), 99):
            continue
        server = serve(HTTP, main="worker_processes 2;" + line)
        assert affinities(server, 2) == [ALLOWED, ALLOWED]


@needs_two
def test_affinity_auto_pins_worker_n_to_processor_n(serve):
    count = len(ALLOWED)
    server = serve(HTTP, main="worker_processes auto; worker_cpu_affinity auto;")
    assert affinities(server, count) == [[cpu] for cpu in ALLOWED]


@needs_two
def test_affinity_auto_goes_round(serve):
    server = serve(HTTP, main="worker_processes %d; worker_cpu_affinity auto;"
                   % (len(ALLOWED) + 1))
    assert affinities(server, len(ALLOWED) + 1) == [[cpu] for cpu in ALLOWED + ALLOWED[:1]]


@needs_two
def test_affinity_auto_counts_only_what_is_allowed(serve):
    """As in a container with a part of the machine: the one processor is 1, not 0."""
    os.sched_setaffinity(0, {ALLOWED[1]})
    try:
        server = serve(HTTP, main="worker_processes auto; worker_cpu_affinity auto;")
        assert affinities(server, 1) == [[ALLOWED[1]]]
    finally:
        os.sched_setaffinity(0, ALLOWED)


@needs_two
@pytest.mark.skipif(ALLOWED[:2] != [0, 1], reason="needs processors 0 and 1")
def test_affinity_masks(serve):
    server = serve(HTTP, main="worker_processes 3; worker_cpu_affinity 10 01 11;")
    assert affinities(server, 3) == [[1], [0], [0, 1]]
    server = serve(HTTP, main="worker_processes 3; worker_cpu_affinity 01 10;")
    assert affinities(server, 3) == [[0], [1], [1]]
    assert 'the number of "worker_processes" is not equal to the number of "worker_cpu_affinity" ' \
        "masks, using last mask for remaining worker processes" in server.error_log
    server = serve(HTTP, main="worker_processes 2; worker_cpu_affinity auto 10;")
    assert affinities(server, 2) == [[1], [1]]
    server = serve(HTTP, main="worker_processes 2; worker_cpu_affinity auto 0011;")
    assert affinities(server, 2) == [[0], [1]]


@needs_two
def test_affinity_stays_with_the_slot(serve):
    server = serve(HTTP, main="worker_processes 2; worker_cpu_affinity auto;",
                   allow=["exited on signal 9"])
    victim = wait_workers(server, 2)[0]
    lost = processors(victim)
    os.kill(victim, 9)
    until(lambda: not proc.is_alive(victim), "the end of the victim")
    new = wait_workers(server, 2)[1]
    assert processors(new) == lost


def test_worker_processes_auto(serve):
    server = serve(HTTP, main="worker_processes auto;")
    wait_workers(server, len(ALLOWED))


# ---- memory

def test_a_million_connections_cost_nothing_until_they_come(serve):
    """A seed has that line: memory is for connections that exist."""
    server = serve(HTTP, main="worker_processes 2;", events="worker_connections 1048576;")
    for worker in wait_workers(server, 2):
        resident = proc.resident_kb(worker)
        print("idle worker with a million worker_connections: %d KB resident" % resident)
        assert resident < binaries.resident_limit(16 * 1024)


# ---- the environment

def test_env_reaches_a_new_binary():
    """A new binary shows it: here it is a script that writes down what it got."""
    environment = dict(os.environ, GIVEN="one", HIDDEN="two", TZ="UTC", OTHER="three")
    server = Server(HTTP, main="env GIVEN; env OTHER=changed; env ADDED=four; env ABSENT;",
                    env=environment)
    binary = server.path("nginx")
    swap_binary(binary, server.binary)
    server.binary = binary
    with server:
        server.write("script", '#!/bin/sh\n/usr/bin/env > "%s"\nexec /bin/false\n'
                     % server.path("seen"))
        swap_binary(binary, server.path("script"))
        server.signal("upgrade")
        server.wait_log("new binary process [0-9]+ exited with code 1")
        seen = dict(line.split("=", 1) for line in server.lines("seen"))
        assert seen["GIVEN"] == "one"
        assert seen["OTHER"] == "changed"
        assert seen["ADDED"] == "four"
        assert seen["TZ"] == "UTC"
        assert seen["NGINX"].endswith(";")
        assert "HIDDEN" not in seen and "ABSENT" not in seen
        until(lambda: server.read("nginx.pid") == "%d\n" % server.pid, "the pid file's old name")
        assert server.get("/").status == 200


def test_less_address_space_than_stacks_want(serve, tmp_path):
    """Fewer requests at one time, none of which lacks a stack for its subrequests."""
    if "--with-sanitizer" in binaries.version_text(binaries.under_test()):
        pytest.skip("a sanitizer needs more address space")
    wrapper = tmp_path / "nginx"
    wrapper.write_text('#!/bin/sh\nulimit -v 2000000\nexec %s "$@"\n' % binaries.under_test(), encoding="ascii")
    wrapper.chmod(0o755)
    server = serve("server { listen 127.0.0.1:@PORT@; location / { auth_request /ask; root html; }"
                   " location /ask { proxy_pass http://127.0.0.1:@PORT@/yes; } location /yes { return 204; } }",
                   events="worker_connections 40000;", files={"html/a.txt": "hello"}, binary=str(wrapper))
    server.wait_log(r"\[warn\] .*address space for the stacks of [0-9]+ fibers only: [0-9]+ requests at one time")
    assert server.get("/a.txt").text == "hello"
