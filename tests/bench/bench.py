#!/usr/bin/env python3
"""make bench: Portunus and a reference server side by side, on the same configuration.

docs/performance.md says what the rows are and how far to trust the figures."""

import argparse
import contextlib
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

import backends
import beside
import codings
import datagrams
import loads
import modes
import haproxy
import probes
import report
import rows
from servers import BenchError, Server, descriptor_limit, free_port

HERE = os.path.dirname(os.path.abspath(__file__))
SIDES = ("portunus", "reference")
DESCRIPTORS = 60000
SPARE_DESCRIPTORS = 100     # a server's own, beside those of held connections
HUGE = 1048576              # worker_connections of the row worker-memory
SLICE_SECONDS = 0.25
TIME_WAIT_REQUESTS = 100000
WAITING_SECONDS = 20        # for all requests of measure_waiting to arrive


def siblings(cpu):
    """The CPUs that share a core with this one."""
    name = f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list"
    try:
        with open(name, encoding="ascii") as file:
            text = file.read().strip()
    except OSError:
        return {cpu}
    found = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return found


def choose_cpus():
    """The CPU of the server and that of the client: of two cores, if there are two."""
    allowed = sorted(os.sched_getaffinity(0))
    server = allowed[0]
    others = [cpu for cpu in allowed if cpu not in siblings(server)] or allowed[1:] or allowed
    return server, others[0]


def modules_of(binary):
    """The modules of a server of ours, as `-m` lists them."""
    done = subprocess.run([binary, "-m"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, check=False)
    return {line.split()[0] for line in done.stdout.splitlines() if "(static)" in line}


class Bench:
    """The two servers, the client, and where they put their files."""

    def __init__(self, options, directory):
        self.options, self.directory = options, directory
        self.binaries = {haproxy.NAME: haproxy.HAPROXY, "portunus": os.path.abspath(options.binary),
                         "before": options.before, "reference": options.reference}
        self.modes = [mode for mode in modes.MODES if mode.name in options.modes]
        self.server_cpu, self.client_cpu = choose_cpus()
        self.descriptors = descriptor_limit(DESCRIPTORS)
        self.programs = os.path.join(HERE, "../../objs/bench")
        program = loads.build(self.programs)
        backends.build(self.programs)
        modes.build(self.programs)
        codings.build(self.programs)
        self.own_modules = modules_of(self.binaries["portunus"])
        self.client = loads.Client(program, [{self.client_cpu}], directory, options.connections,
                                   self.descriptors, options.busy)
        self.root = f"{directory}/html"
        rows.make_files(self.root)
        self.certificates = f"{directory}/tls"
        if any(row.tls or row.tls_behind for row in rows.ROWS if row.name in options.rows):
            rows.make_certificates(self.certificates)
        os.chmod(directory, 0o755)

    @contextlib.contextmanager
    def server(self, row, side, wrapper=(), cpus=None, **settings):
        """A server for a row, with a backend of its own where the row has one."""
        port = free_port()
        with contextlib.ExitStack() as stack:
            backend = None
            if row.backend:
                backend = stack.enter_context(backends.started(
                    row.backend, self.directory, self.programs, set().union(*self.client.cpus),
                    self.descriptors))
            settings.setdefault("is_single", bool(wrapper))
            if row.workers > 1:
                settings.setdefault("workers", row.workers)
                cpus = cpus or modes.choose_cpus()[0]
            text = rows.configuration(row, self.root, port, side == "reference",
                                      backend=backend.address if backend else "",
                                      tls_directory=self.certificates, **settings)
            ours = side == "reference" and row.is_against_itself
            kind = Server
            if side == haproxy.NAME:
                kind = haproxy.Haproxy
                text = haproxy.configuration(row, port, backend.address, self.certificates,
                                           self.descriptors // 2 - SPARE_DESCRIPTORS)
            server = stack.enter_context(
                kind(self.binaries["portunus" if ours else side], f"{self.directory}/{side}", text, port,
                       cpus or {self.server_cpu}, self.descriptors, wrapper))
            server.backend = backend
            yield server

    @contextlib.contextmanager
    def both(self, row, order=SIDES):
        """Both servers of a row, as a dictionary; or ours, where the reference has nothing like it."""
        order = order[:1] if row.is_alone else order
        with contextlib.ExitStack() as stack:
            yield {side: stack.enter_context(self.server(row, side)) for side in order}

    @contextlib.contextmanager
    def client_on(self, cpus):
        """A block in which the client has other CPUs: one process for each set of them."""
        before, self.client.cpus = self.client.cpus, cpus
        try:
            yield
        finally:
            self.client.cpus = before

    def idle_count(self, row):
        """How many connections to hold: as the row says, or as many as the machine allows."""
        wanted = 1000 if self.options.quick and row.idle else row.idle
        each = 2 if row.is_stream else 1    # a session has two
        return min(wanted, self.descriptors // each - self.options.connections - SPARE_DESCRIPTORS)


def check_answers(row, servers):
    """Both must answer the first and the last URI, alike, and by the protocol of the row; else the
    race is void."""
    for uri in (row.uris[0], row.uris[-1]):
        answers = {side: server.get(row, uri) for side, server in servers.items()}
        for side, (status, body) in answers.items():
            if status != 200 or row.body_size not in (None, len(body)):
                raise BenchError(f"{servers[side].binary}: {uri} gives status {status} and "
                                 f"{len(body)} bytes")
        if row.body_size is not None and not row.is_alone and answers["portunus"][1] != answers["reference"][1]:
            raise BenchError(f"{uri}: the two servers give different bodies")


def measure_slice(bench, row, server, seconds):
    """Some load on one server: what it did and what it used."""
    cpu, delay = server.cpu_ns(), server.run_delay_ns()
    answer = bench.client.run(server, row, seconds=seconds)
    cpu, delay = server.cpu_ns() - cpu, server.run_delay_ns() - delay
    return {"rps": answer["rps"], "cpu_us": cpu / 1000 / answer["requests"],
            "busy": cpu / 1e9 / answer["seconds"], "waited": delay / 1e9 / answer["seconds"],
            "client_busy": answer["client_cpu"] / answer["seconds"],
            "latency_us": answer["latency_us"]}


def sum_round(slices):
    """The figures of one round of one server, from its slices."""
    def mean(key):
        return statistics.fmean(one[key] for one in slices)

    cpu = sum(one["cpu_us"] * one["rps"] for one in slices)
    return {"cpu_us": cpu / sum(one["rps"] for one in slices), "rps": mean("rps"),
            "busy": mean("busy"), "waited": mean("waited"), "client_busy": mean("client_busy"),
            "latency_us": {key: statistics.median(one["latency_us"][key] for one in slices)
                           for key in slices[0]["latency_us"]}}


def measure_round(bench, row, servers, order):
    """One round: the servers take turns in short slices, so that whatever else the machine does
    meets both; who goes first alternates. Gives the figures of each side."""
    taken = {side: [] for side in servers}
    slices = max(1, round(bench.options.seconds / SLICE_SECONDS))
    for server in servers.values():     # caches, branch predictors, memory of the allocator
        bench.client.run(server, row, requests=row.counted[1])
    for turn in range(slices):
        for side in order if turn % 2 == 0 else reversed(order):
            taken[side].append(measure_slice(bench, row, servers[side],
                                             bench.options.seconds / slices))
    return {side: sum_round(slices) for side, slices in taken.items()}


def measure_held_round(bench, row, servers, order):
    """A round while idle connections are held; and the memory that each of them takes: what the
    second half of them adds, for the first finds what earlier ones have left behind."""
    count = bench.idle_count(row)
    first = count // 2
    sizes = {}
    with contextlib.ExitStack() as stack:
        holders = []
        for side, server in servers.items():
            bench.client.run(server, row, requests=row.counted[1])
            for part in (first, count - first):
                before = server.resident_bytes()
                holders.append(stack.enter_context(
                    loads.Holder(bench.client, server, row, part)))
            sizes[side] = (server.resident_bytes() - before) / (count - first)
        figures = measure_round(bench, row, servers, order)
        lost = sum(holder.release() for holder in holders)
    if lost:
        raise BenchError(f"{lost} idle connections were closed while they were held")
    for side, size in sizes.items():
        figures[side]["bytes"] = size
    return figures


def check_passed(row, servers):
    """Where few requests may reach the backend: they were few."""
    for server in servers.values() if row.most_passed is not None else ():
        passed = server.backend.counts()["requests"]
        if passed > row.most_passed:
            raise BenchError(f"{server.binary}, row {row.name}: {passed} requests were passed on")


def measure_load(bench, row):
    """Rounds. Each has servers of its own, because where a process happens to lie in memory makes
    a tenth of difference; which of them is started first alternates. Gives lists by side."""
    sides = (*SIDES, haproxy.NAME) if haproxy.can_play(row) else SIDES
    found = {side: [] for side in sides}
    measure = measure_held_round if row.idle else measure_round
    for turn in range(bench.options.rounds):
        order = sides if turn % 2 == 0 else sides[::-1]
        with bench.both(row, order) as servers:
            for side, figures in measure(bench, row, servers, order).items():
                found[side].append(figures)
            check_passed(row, servers)
    return found


def measure_time_wait(bench, row):
    """How many connections to the backend are in TIME_WAIT after TIME_WAIT_REQUESTS requests. The
    reference may run out of ports meanwhile; then its requests are those that were answered."""
    found = {}
    requests = TIME_WAIT_REQUESTS // (20 if bench.options.quick else 1)
    for side in SIDES:
        with bench.server(row, side) as server:
            server.get(row, row.uris[0])
            before = probes.time_wait_count(server.backend.port)
            bench.client.run(server, row, requests=requests, may_fail=side == "reference")
            found[side] = probes.time_wait_count(server.backend.port) - before
    return {**found, "what": row.title.replace("100,000", f"{requests:,}")}


def measure_worker_memory(bench, row):
    """Resident memory of a worker with room for a million connections and none to serve."""
    size = {"what": row.title}
    for side in SIDES:
        with bench.server(row, side, worker_connections=HUGE) as server:
            server.get(row, row.uris[0])       # now the worker is there, and ready
            size[side] = server.resident_bytes()
    return size


def waiting_count(server, row):
    """How many requests wait: whoever the row says counts them."""
    if row.waiting_count:
        return int(server.get(row, row.waiting_count)[1])
    return server.backend.counts()["requests"]


def measure_waiting(bench, row):
    """Resident memory of a request that waits, all its connections included."""
    size = {"what": f"each of {row.waiting:,} requests that wait {'in ' + row.title if row.title else 'for a backend'}"}
    for side in SIDES:
        with bench.server(row, side) as server:
            if row.waiting_count:
                waiting_count(server, row)      # what it needs is there before
            before = server.resident_bytes()
            with bench.client.waiting(server, row, row.waiting):
                end = time.monotonic() + WAITING_SECONDS
                while (count := waiting_count(server, row)) < row.waiting:
                    if time.monotonic() > end:
                        raise BenchError(f"{server.binary}: {count} of {row.waiting} requests wait")
                    time.sleep(0.01)
                size[side] = (server.resident_bytes() - before) / row.waiting
    return size


def measure_instructions(bench, row):
    """Instructions of both; a server that callgrind cannot run gets none, and a warning."""
    found = {}
    for side in SIDES[:1] if row.is_alone else SIDES:
        try:
            found[side] = probes.count_instructions(
                lambda wrapper, side=side: bench.server(row, side, wrapper=wrapper),
                bench.client, row, bench.directory)
        except BenchError as error:
            print(f"bench: {row.name}: {side}: {error}", file=sys.stderr)
    return found


def measure_row(bench, row):
    """All that the row and the options ask for."""
    measures = set(bench.options.measure)
    result = {"name": row.name, "title": row.title, "targets": row.targets}
    if row.is_datagram:
        return {**result, **datagrams.measure_row(bench, row, SIDES)}
    if "memory" in row.measures:
        if "memory" in measures:
            measure = measure_waiting if row.waiting else measure_worker_memory
            result["bytes"] = measure(bench, row)
        return result
    if "timewait" in measures & row.measures:
        result["timewait"] = measure_time_wait(bench, row)
    with bench.both(row) as servers:
        check_answers(row, servers)
        if "syscalls" in measures & row.measures:
            result["syscalls"] = {side: probes.count_syscalls(server, bench.client, row)
                                  for side, server in servers.items()}
        if row.coding:
            result["coding"] = {"bytes": {side: server.get_by_curl(row, row.uris[0])[2]
                                          for side, server in servers.items()}}
    if "modes" in measures & row.measures:
        result["modes"] = modes.measure(bench, row)
    if "beside" in measures & row.measures:
        result["beside"] = beside.measure(bench, row)
    if "load" in measures & row.measures:
        result["load"] = measure_load(bench, row)
        if row.idle:
            result["bytes"] = {side: statistics.median(one["bytes"] for one in rounds)
                               for side, rounds in result["load"].items()}
            result["bytes"]["what"] = f"each of {bench.idle_count(row):,} idle " \
                f"{'TLS ' if row.tls else ''}connections"
    if "instructions" in measures & row.measures:
        result["instructions"] = measure_instructions(bench, row)
        if row.library:
            result["coding"]["library"] = codings.count_library(bench, row)
    return result


def measure_row_again(bench, row):
    """The same; once more after a failure, which it tells: a machine that is busy with other things
    may stand still for as long as a slice of load takes."""
    try:
        return measure_row(bench, row)
    except BenchError as error:
        print(f"bench: {row.name}: {error}; once more", file=sys.stderr)
    return measure_row(bench, row)


def parse_options(arguments):
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--binary", default=os.environ.get(
        "TEST_NGINX_BINARY", os.path.join(HERE, "../../objs/nginx")),
        help="the server to judge (TEST_NGINX_BINARY, objs/nginx)")
    parser.add_argument("--reference", default="/usr/sbin/nginx", help="the server to judge it by")
    parser.add_argument("--rounds", type=int, default=8,
                        help="rounds, each with new processes (8)")
    parser.add_argument("--seconds", type=float, default=1,
                        help="of load on each server in a round (1)")
    parser.add_argument("--connections", type=int, default=32, help="at a time (32)")
    parser.add_argument("--rows", type=lambda text: text.split(","), help="names of rows, a,b")
    parser.add_argument("--measure", type=lambda text: text.split(","),
                        default=["load", "syscalls", "instructions", "memory", "timewait", "modes",
                                 "beside"],
                        help="of load,syscalls,instructions,memory,timewait,modes,beside")
    parser.add_argument("--modes", type=lambda text: text.split(","),
                        help="of the rows that compare modes: " +
                        ",".join(mode.name for mode in modes.MODES))
    parser.add_argument("--before", metavar="BINARY",
                        help="another build of ours, for the modes before-on and before-off")
    parser.add_argument("--quick", action="store_true",
                        help="one short round, 1,000 idle connections: does it work at all")
    parser.add_argument("--busy", action="store_true",
                        help="a client that never sleeps, for a machine with nothing else to do")
    parser.add_argument("--write", metavar="FILE", help="puts the tables between its markers")
    parser.add_argument("--json", metavar="FILE", help="writes all that was measured")
    parser.add_argument("--strict", action="store_true", help="exit status 1 for a missed target")
    parser.add_argument("--list", action="store_true", help="prints the names of the rows")
    options = parser.parse_args(arguments)
    names = [row.name for row in rows.ROWS]
    if options.list:
        print("\n".join(f"{row.name:16} {row.title}" for row in rows.ROWS))
        sys.exit(0)
    if options.quick:
        options.rounds, options.seconds = 1, 0.5
    options.rows = options.rows or names
    unknown = set(options.rows) - set(names)
    if unknown:
        parser.error(f"no such row: {', '.join(sorted(unknown))}")
    known = [mode.name for mode in modes.MODES if mode.side != "before" or options.before]
    options.modes = options.modes or known
    if set(options.modes) - set(known):
        parser.error(f"--modes: of {','.join(known)}")
    for name in filter(None, (options.binary, options.before, options.reference)):
        if shutil.which(name) is None:
            parser.error(f"{name} is not there, or is not executable")
    return options


def run_rows(bench):
    """Measures row after row. A row that fails is reported and left out."""
    results, failures = [], 0
    for row in rows.ROWS:
        if row.name in bench.options.rows:
            lacking = set(row.needs) - bench.own_modules
            if lacking:
                print(f"bench: {row.name}: left out, since {bench.binaries['portunus']} has no "
                      f"{', '.join(sorted(lacking))}", file=sys.stderr)
                continue
            print(f"bench: {row.name}", file=sys.stderr)
            try:
                results.append(measure_row_again(bench, row))
            except BenchError as error:
                print(f"bench: {row.name}: {error}", file=sys.stderr)
                failures += 1
    return results, failures


def main(arguments):
    """Gives the exit status: 0, 1 if a row failed (or with --strict missed its target)."""
    options = parse_options(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))     # and so end the servers
    tools = probes.missing_tools()
    if tools:
        print(f"bench: without {' and '.join(tools)}: those columns stay empty", file=sys.stderr)
        lacking = {"strace": "syscalls", "valgrind": "instructions"}
        options.measure = [name for name in options.measure
                           if name not in {lacking[tool] for tool in tools}]
    with tempfile.TemporaryDirectory(prefix="portunus-bench-") as directory:
        bench = Bench(options, directory)
        results, failures = run_rows(bench)
        text = report.document(
            report.setting(options, bench.binaries, bench.server_cpu, bench.client_cpu, results),
            results)
    print(text)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(results, file, indent=1)
    if options.write:
        report.write_between_markers(options.write, text)
    return int(bool(failures) or (options.strict and report.missed(results) > 0))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
