"""Counts what does not depend on the clock: system calls (strace), instructions (callgrind)."""

import os
import re
import shutil
import signal
import subprocess
import time

from servers import BenchError

ATTACH_SECONDS = 20

# Calls that one turn of the worker's loop makes for all the requests in it.
TURN_CALLS = frozenset({"epoll_wait", "epoll_pwait", "epoll_pwait2"})
SHARED_BELOW = 0.2      # and any call made less often than this for each request


def missing_tools():
    """The programs that the counting needs and that are not here."""
    return [name for name in ("strace", "valgrind") if shutil.which(name) is None]


def wait_for_tracer(pid):
    """Returns when all threads of a process are traced."""
    end = time.monotonic() + ATTACH_SECONDS
    while time.monotonic() < end:
        traced = []
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/status", encoding="ascii") as file:
                traced.append(re.search(r"TracerPid:\s*([1-9])", file.read()) is not None)
        if all(traced):
            return
        time.sleep(0.01)
    raise BenchError("strace did not attach (is ptrace allowed?)")


def strace_counts(server, client, row, requests, name):
    """The number of each system call of the workers during a number of requests."""
    pids = server.wait_for_workers(row.workers) if row.workers > 1 else [server.worker()]
    process = subprocess.Popen(
        ["strace", "-f", "-c", "-U", "calls,name", "-o", name, *(f"-p{pid}" for pid in pids)],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for pid in pids:
            wait_for_tracer(pid)
        client.run(server, row, requests=requests)
    finally:
        process.send_signal(signal.SIGINT)
        process.wait()
    counts = {}
    with open(name, encoding="ascii") as file:
        for line in file:
            words = line.split()
            if len(words) == 2 and words[0].isdigit() and words[1] != "total":
                counts[words[1]] = int(words[0])
    return counts


def count_syscalls(server, client, row):
    """System calls for each request, by name: the difference of two runs, so that what happens
    once (opening the kept connections) is not in it."""
    few, many = row.counted
    name = f"{server.prefix}/strace"
    first = strace_counts(server, client, row, few, name)
    second = strace_counts(server, client, row, many, name)
    counts = {call: (second.get(call, 0) - first.get(call, 0)) / (many - few)
              for call in {*first, *second}}
    ordered = sorted(counts.items(), key=lambda item: (-round(item[1], 1), item[0]))
    return {call: count for call, count in ordered if count >= 0.005}


def time_wait_count(port):
    """The TCP connections of 127.0.0.1 in TIME_WAIT that have this port at one end."""
    text, count = f":{port:04X}", 0
    with open("/proc/net/tcp", encoding="ascii") as file:
        for line in file:
            words = line.split()
            if words[3] == "06" and (words[1].endswith(text) or words[2].endswith(text)):
                count += 1
    return count


def own_syscalls(counts):
    """The calls that a request makes for itself: without those that a turn of the loop shares."""
    return sum(count for call, count in counts.items()
               if call not in TURN_CALLS and count >= SHARED_BELOW)


def callgrind(name):
    """The words before a command line that have it counted into a file."""
    return ("valgrind", "-q", "--tool=callgrind", f"--callgrind-out-file={name}")


def callgrind_summary(name):
    """The instructions that were counted."""
    with open(name, encoding="ascii", errors="replace") as file:
        for line in file:
            if line.startswith(("summary:", "totals:")):
                return int(line.split()[1])
    raise BenchError("callgrind wrote no summary")


def callgrind_total(start_server, client, row, requests, name):
    """User instructions of a server from its start to its end, with a number of requests."""
    with start_server(callgrind(name)) as server:
        client.run(server, row, requests=requests)
        server.stop()
        if server.process.returncode != 0:
            raise BenchError(f"callgrind: the server ended with {server.process.returncode}: "
                             f"{server.last_words()}")
    return callgrind_summary(name)


def count_instructions(start_server, client, row, directory):
    """User instructions for each request: the difference of two runs, so that start and end of
    the server are not in it."""
    few, many = row.counted
    totals = [callgrind_total(start_server, client, row, requests,
                              f"{directory}/callgrind.{requests}")
              for requests in (few, many)]
    return (totals[1] - totals[0]) / (many - few)
