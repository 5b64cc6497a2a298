#!/usr/bin/python3
"""UDP through stream's proxy: CPU of the worker and system calls for each datagram, beside Debian's nginx, round by round.

    tests/bench/datagrams.py [--rounds 5] [--datagrams 200000] [--binary objs/nginx]
"""

import argparse
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__))))
import loads  # noqa: E402
from servers import prepare_child  # noqa: E402

REFERENCE = "/usr/sbin/nginx"
MODULE = "/usr/lib/nginx/modules/ngx_stream_module.so"
# name, what is measured, options of the server, the share of the reference's CPU that is to be reached
ROWS = (("echo", "1,000 flows, 64 bytes there and back", "proxy_timeout 10m;", 0.4),
        ("dns", "a session for each question of 64 bytes", "proxy_responses 1;", 0.5))
DATAGRAMS_A_SECOND = 50000      # about as many as a worker takes
CONF = """%(load)s daemon off; pid %(dir)s/pid; error_log %(dir)s/error.log; worker_processes 1;
events { worker_connections 10000; } worker_rlimit_nofile 20000;
stream { server { listen 127.0.0.1:%(port)d udp reuseport rcvbuf=4m; proxy_pass 127.0.0.1:%(backend)d; %(options)s } }
"""


def free_port():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def cpu_seconds(pid):
    with open("/proc/%d/stat" % pid, encoding="ascii") as file:
        fields = file.read().rsplit(") ", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def worker_of(master):
    for _ in range(500):
        with open("/proc/%d/task/%d/children" % (master, master), encoding="ascii") as file:
            found = file.read().split()
        if found:
            time.sleep(0.2)     # it begins to read
            return int(found[0])
        time.sleep(0.01)
    raise SystemExit("no worker")


def measure(binary, program, row, datagrams, trace=False, cpus=(None, None)):
    """(microseconds of CPU, lost ones in a thousand, system calls by name, seconds) for each datagram of a client. cpus: of
    the server and of the client, as sets; or None."""
    server_cpus, client_cpus = (cpu or os.sched_getaffinity(0) for cpu in cpus)
    with tempfile.TemporaryDirectory() as directory:
        port, backend = free_port(), free_port()
        load = "load_module %s;" % MODULE if binary == REFERENCE else ""
        with open(directory + "/conf", "w", encoding="ascii") as file:
            file.write(CONF % {"load": load, "dir": directory, "port": port, "backend": backend,
                               "options": row[2]})
        with subprocess.Popen([binary, "-c", directory + "/conf", "-e", directory + "/error.log"],
                              preexec_fn=prepare_child(server_cpus, 20000)) as server:
            try:
                worker = worker_of(server.pid)
                words = [program, str(port), str(backend), "1000", "200"]
                subprocess.run([*words, "5000", "64"], check=True, stdout=subprocess.DEVNULL,
                               preexec_fn=prepare_child(client_cpus, 20000))
                tracer = None
                if trace:
                    tracer = subprocess.Popen(["strace", "-c", "-f", "-p", str(worker), "-o",
                                               directory + "/trace"], stderr=subprocess.DEVNULL)
                    time.sleep(0.5)
                before = cpu_seconds(worker)
                out = subprocess.run([*words, str(datagrams), "64"], check=True, text=True,
                                     preexec_fn=prepare_child(client_cpus, 20000),
                                     stdout=subprocess.PIPE).stdout.split()
                used = cpu_seconds(worker) - before
                calls = {}
                if tracer is not None:
                    tracer.send_signal(2)
                    tracer.wait()
                    with open(directory + "/trace", encoding="ascii") as file:
                        for line in file:
                            words = line.split()
                            if len(words) > 3 and words[3].isdigit() and words[-1] != "total":
                                calls[words[-1]] = int(words[3]) / int(out[0])
                return used * 1e6 / int(out[0]), 1000 * int(out[1]) / datagrams, calls, int(out[2]) / 1e6
            finally:
                server.terminate()


def measure_row(bench, row, sides):
    """A row of bench.py: its load and its system calls, for each datagram of a client, in servers of their own each."""
    program = loads.compile_program(bench.programs, "datagram_load", ("datagram_load.c",))
    kind = next(one for one in ROWS if one[2] == row.server)
    cpus = ({bench.server_cpu}, set().union(*bench.client.cpus))
    result, measures = {}, set(bench.options.measure) & row.measures
    count = int(DATAGRAMS_A_SECOND * bench.options.seconds)
    if "syscalls" in measures:
        result["syscalls"] = {side: measure(bench.binaries[side], program, kind, 5000, True, cpus)[2]
                              for side in sides}
    if "load" in measures:
        result["load"] = {side: [] for side in sides}
        for turn in range(bench.options.rounds):
            for side in sides if turn % 2 == 0 else reversed(sides):
                cost, _, _, seconds = measure(bench.binaries[side], program, kind, count, cpus=cpus)
                result["load"][side].append({"rps": count / seconds, "cpu_us": cost, "waited": 0,
                                             "busy": cost * count / seconds / 1e6})
    return result


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--datagrams", type=int, default=200000)
    parser.add_argument("--binary", default="objs/nginx")
    parser.add_argument("--calls", action="store_true", help="system calls, by strace")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        program = loads.compile_program(directory, "datagram_load", ("datagram_load.c",))
        for row in ROWS:
            costs = {args.binary: [], REFERENCE: []}
            lost = dict.fromkeys(costs, 0.0)
            for _ in range(args.rounds):
                for binary, list_of in costs.items():
                    cost, gone = measure(binary, program, row, args.datagrams)[:2]
                    list_of.append(cost)
                    lost[binary] = max(lost[binary], gone)
            ours, theirs = (statistics.median(costs[name]) for name in (args.binary, REFERENCE))
            print("%-5s %-42s %6.2f us, reference %6.2f us: %.2f (at most %.2f); lost %.1f, %.1f of 1,000"
                  % (row[0], row[1], ours, theirs, ours / theirs, row[3], lost[args.binary],
                     lost[REFERENCE]), flush=True)
            if args.calls:
                for binary in costs:
                    calls = measure(binary, program, row, 5000, trace=True)[2]
                    print("      %-16s %5.2f calls: %s" % (os.path.basename(os.path.dirname(binary)),
                          sum(calls.values()), " ".join("%s %.2f" % (name, count) for name, count in sorted(
                              calls.items(), key=lambda item: -item[1]) if count >= 0.01)))


if __name__ == "__main__":
    main()
