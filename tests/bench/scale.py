#!/usr/bin/env python3
"""How rates grow with workers: 1, 2, 4, 8 and 16 of them, pinned, beside Debian's nginx.

docs/performance.md says what is measured, and how far to trust it."""

import argparse
import concurrent.futures
import json
import os
import shutil
import signal
import statistics
import sys
import tempfile
from dataclasses import dataclass

import ab
import bench as benchmark
import modes
import report
import rows
from servers import BenchError

WORKERS = (1, 2, 4, 8, 16)
AB_RATE = 8000              # reckoned requests a second of one ab: its amount is a number
SIDES = benchmark.SIDES


@dataclass(frozen=True)
class Way:
    """How both servers share new connections, each in its own words."""

    name: str
    title: str
    events: tuple           # of Portunus, and of the reference
    listen: str = ""        # of the reference, behind the address


MUTEX = Way("mutex", "accept_mutex on", ("reuse_port off; accept_mutex on;", "accept_mutex on;"))
SHARED = Way("shared", "accept_mutex off",
             ("reuse_port off; accept_mutex off;", "accept_mutex off;"))
SHARDED = Way("sharded", "sharded", ("reuse_port on;", "accept_mutex off;"), " reuseport")


@dataclass(frozen=True)
class Test:
    """One kind of load, and the ways in which it is measured; by ab where `crowd` says with how
    many connections, else by our own load generator."""

    name: str
    title: str
    row: rows.Row
    ways: tuple = (SHARDED,)
    crowd: int = 0


SHORT = rows.Row("scale-short", "", rows.EMPTY_GIF, http=rows.LOG, keepalive_timeout=0,
                 body_size=43)
TESTS = (
    Test("short-100", "short, ab -c 100", SHORT, (MUTEX, SHARED, SHARDED), 100),
    Test("short-1000", "short, ab -c 1000", SHORT, (MUTEX, SHARED, SHARDED), 1000),
    Test("kept", "kept", rows.Row("scale-kept", "", rows.EMPTY_GIF, http=rows.LOG, body_size=43)),
    Test("static", "kept, file of 1 KB", rows.Row(
        "scale-static", "", rows.STATIC, uris=(rows.file_name(1),), http=rows.LOG, body_size=1024)),
    Test("chain", "kept, FastCGI, then a service", rows.Row(
        "scale-chain", "", rows.FASTCGI % "", uris=("/hello",), http=rows.ONE_PEER, body_size=13,
        backend=("chain",))),
)


def affinity(cpus):
    """The directive that gives each worker one of the CPUs."""
    masks = " ".join(f"{1 << cpu:b}" for cpu in cpus)
    return f"worker_cpu_affinity {masks};"


def share_cpus(cpus, workers):
    """CPUs of the workers, one each as far as there are any; sets of CPUs for the client processes;
    and whether clients run where workers do."""
    taken = [cpus[number % len(cpus)] for number in range(workers)]
    free = cpus[workers:2 * workers]
    return taken, [{cpu} for cpu in free] or [set(cpus)], not free


def split(amount, parts):
    """A number as a sum of so many, none of which differs from another by more than 1."""
    return [amount // parts + (number < amount % parts) for number in range(parts)]


def sum_answers(answers):
    """What several processes of ab say, as one: the rates add up."""
    return {"requests": sum(answer["requests"] for answer in answers),
            "rps": sum(answer["rps"] for answer in answers),
            "latency_us": {key: statistics.median(answer["latency_us"][key] for answer in answers)
                           for key in answers[0]["latency_us"]}}


def run_ab(port, uri, crowd, seconds, clients):
    """One ab on each of the sets of CPUs, at once."""
    parts = split(crowd, len(clients))
    amount = max(2 * crowd // len(clients), round(AB_RATE * seconds))
    with concurrent.futures.ThreadPoolExecutor(len(clients)) as pool:
        return sum_answers(list(pool.map(
            lambda part, cpus: ab.run(port, uri, amount, part, cpus), parts, clients)))


def measure_once(bench, test, way, side, workers):
    """One server in one round."""
    options = bench.options
    cpus, clients, _ = share_cpus(options.cpus, workers)
    is_reference = side == "reference"
    with bench.client_on(clients), \
            bench.server(test.row, side, cpus=set(cpus), workers=workers, main=affinity(cpus),
                         events=way.events[is_reference],
                         listen=f"{way.listen if is_reference else ''} backlog=65535") as server:
        server.wait_for_workers(workers)
        status, body = server.get(test.row, test.row.uris[0])
        if status != 200 or len(body) != test.row.body_size:
            raise BenchError(f"{server.binary}: {test.name} gives status {status}")

        def load(seconds):
            if test.crowd:
                return run_ab(server.port, test.row.uris[0], test.crowd, seconds, clients)
            return bench.client.run(server, test.row, seconds=seconds)

        load(options.seconds / 4)
        return modes.with_costs(server, lambda: load(options.seconds))


def measure(bench, test, way, workers):
    """All rounds of one line: the sides take turns, and who goes first alternates."""
    found = {side: [] for side in SIDES}
    for turn in range(bench.options.rounds):
        for side in SIDES if turn % 2 == 0 else SIDES[::-1]:
            found[side].append(measure_once(bench, test, way, side, workers))
    return found


def measure_all(bench):
    """Line after line. One that fails is tried once more, then told and left out."""
    results = []
    for test in bench.options.tests:
        for way in test.ways:
            for workers in bench.options.workers:
                print(f"scale: {test.name}, {way.name}, {workers}", file=sys.stderr)
                line = {"test": test.name, "way": way.name, "workers": workers,
                        "title": f"{test.title}, {way.title}",
                        "is_shared": share_cpus(bench.options.cpus, workers)[2]}
                for is_last in (False, True):
                    try:
                        results.append({**line, **measure(bench, test, way, workers)})
                        break
                    except BenchError as error:
                        print(f"scale: {error}{'' if is_last else '; once more'}", file=sys.stderr)
    return results


# --- what is printed ---

HEADER = ("load", "workers", "requests/s", "reference", "ratio", "gain", "reference", "p99 ms",
          "reference", "switches a request", "reference", "CPU µs a request", "reference",
          "clients share CPUs")


def cells(result, single):
    """One line of the table; `single` is the same with the fewest workers."""
    def pair(key, digits):
        return [report.number(report.median_of(result[side], key), digits) for side in SIDES]

    gains = [report.number(report.median_of(result[side], "rps")
                           / report.median_of(single[side], "rps"), 2) for side in SIDES]
    ratio = statistics.median(mine["rps"] / theirs["rps"] for mine, theirs
                              in zip(result["portunus"], result["reference"]))
    return [result["title"], str(result["workers"]), *pair("rps", 0), report.number(ratio, 2),
            *gains, *pair("p99_ms", 2), *pair("switches", 2), *pair("cpu_us", 1),
            "yes" if result["is_shared"] else "no"]


def table(results):
    """All lines; gains are over the fewest workers of the same test and way."""
    single = {}
    for result in results:
        single.setdefault((result["test"], result["way"]), result)
    return report.markdown(HEADER, [cells(result, single[result["test"], result["way"]])
                                    for result in results])


def heading(options):
    """Where and how the figures came about."""
    versions = "; reference: ".join(report.version_of(name)
                                    for name in (options.binary, options.reference))
    return (f"{versions}; {report.cpu_model()}, {len(options.cpus)} CPUs; {options.rounds} rounds "
            f"of {options.seconds:g} s.")


def parse_options(arguments):
    """The command line; what Bench needs beside it has the benchmark's defaults."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--binary", help="the server to judge (TEST_NGINX_BINARY, objs/nginx)")
    parser.add_argument("--reference", help="the server to judge it by")
    parser.add_argument("--workers", type=lambda text: [int(word) for word in text.split(",")],
                        help="numbers of workers (1,2,4,8,16 as far as there are CPUs)")
    parser.add_argument("--force", action="store_true", help="all of 1,2,4,8,16, CPUs or not")
    parser.add_argument("--tests", type=lambda text: text.split(","),
                        default=[test.name for test in TESTS],
                        help="of " + ",".join(test.name for test in TESTS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=1, help="of load in a round (1)")
    parser.add_argument("--json", metavar="FILE", help="writes every round")
    mine = parser.parse_args(arguments)
    options = benchmark.parse_options([])
    for name, value in vars(mine).items():
        if value is not None or not hasattr(options, name):
            setattr(options, name, value)
    options.cpus = sorted(os.sched_getaffinity(0))
    most = len(options.cpus) if not mine.force else max(WORKERS)
    options.workers = mine.workers or [count for count in WORKERS if count <= most]
    if set(mine.tests) - {test.name for test in TESTS} or min(options.workers) < 1:
        parser.error("--tests or --workers")
    options.tests = [test for test in TESTS if test.name in mine.tests]
    for name in (options.binary, options.reference):
        if shutil.which(name) is None:
            parser.error(f"{name} is not there, or is not executable")
    return options


def main(arguments):
    """Gives the exit status: 1 if a line failed."""
    options = parse_options(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))     # and so end the servers
    with tempfile.TemporaryDirectory(prefix="portunus-scale-") as directory:
        results = measure_all(benchmark.Bench(options, directory))
    print(f"{heading(options)}\n\n{table(results)}")
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(results, file, indent=1)
    return int(len(results) < len(options.workers) * sum(len(test.ways) for test in options.tests))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
