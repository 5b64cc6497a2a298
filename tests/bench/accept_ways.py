#!/usr/bin/python3
"""In which way do new connections reach workers that are free? accept_ways.c, way by way, in alternating rounds.

accept_ways.py [--rounds N] [--seconds S] [--patience S] [MEASURE ...]

Prints one table for each measure: heavy, calm, crowd, stopped, registering, busy, parked (all of them by default).
Figures are medians over the rounds; each round measures every way once and begins with another one.
With --patience it waits for so long at most, before each slice, until nobody else uses the machine; the last column
says what share of it others took all the same.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import time

import loads

SOURCES = ("accept_ways.c", "accept_worker.c", "accept_client.c", "accept_steering.c", "latency.c")
WAYS = ("hash", "shared", "mutex", "lend", "lend-1", "lend-2", "cbpf", "ebpf")
CROWDS = (16, 64)
QUIET_LOOKS = 6

# What a column is called, the figure of accept_ways, how it is written.
LIGHT = (("requests/s", "rate", "%.0f"), ("p50 µs", "p50_us", "%.0f"), ("p99 µs", "p99_us", "%.0f"),
         ("longest µs", "longest_us", "%.0f"))
COSTS = (("worker µs", "worker_us", "%.1f"), ("client µs", "client_us", "%.1f"),
         ("switches", "switches", "%.2f"), ("empty wake-ups", "empty", "%.4f"),
         ("vain accepts", "misses", "%.4f"), ("from siblings", "siblings", "%.2f"))
RENEWING = (("renewals", "renewals", "%.0f"), ("µs each", "renewal_us", "%.0f"),
            ("longest µs", "renewal_longest_us", "%.0f"), ("watcher CPU", "watcher_cpu", "%.3f"))
STOPPED = (("longest µs", "stopped_longest_us", "%.0f"), ("over 30 ms", "stopped_late", "%.0f"),
           ("requests/s", "rate", "%.0f"))
REGISTERING = (("slowest worker ms", "register_ms", "%.2f"), ("CPU of all ms", "register_cpu_ms", "%.2f"),
               ("slab KiB", "slab_kb", "%.0f"), ("memory KiB", "memory_kb", "%.0f"), ("ending ms", "end_ms", "%.1f"))
PARKED = (("ns a connect", "park_ns", "%.0f"),)


def build(directory):
    """The measuring program, compiled."""
    return loads.compile_program(directory, "accept_ways", SOURCES, ("-pthread",))


def running():
    """How many tasks of the machine run or want to, this one among them."""
    with open("/proc/loadavg", encoding="ascii") as file:
        return int(file.read().split()[3].partition("/")[0])


def await_quiet(seconds):
    """Until others have left the machine alone for some looks, or for so long at most."""
    until = time.monotonic() + seconds
    quiet = 0
    while quiet < QUIET_LOOKS and time.monotonic() < until:
        quiet = quiet + 1 if running() <= 1 else 0
        time.sleep(0.03)


def busy_seconds():
    """CPU time that all processes have used so far, and that of ended children of this one."""
    with open("/proc/stat", encoding="ascii") as file:
        fields = [int(field) for field in file.readline().split()[1:]]
    own = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (sum(fields[:3]) + sum(fields[5:8])) / os.sysconf("SC_CLK_TCK"), own.ru_utime + own.ru_stime


def measure(program, way, options):
    """What accept_ways says of one way, and what share of the machine others took in that time; None, with its message
    on stderr, where it cannot run."""
    started, (all_before, own_before) = time.monotonic(), busy_seconds()
    done = subprocess.run([program, *options, way], stdout=subprocess.PIPE, text=True, check=False)
    if not done.stdout:
        return None
    all_after, own_after = busy_seconds()
    result = json.loads(done.stdout)
    others = (all_after - all_before) - (own_after - own_before)
    result["others"] = max(0, others) / (time.monotonic() - started) / os.cpu_count()
    return result


def in_rounds(program, cases, rounds, patience):
    """The results of each case, (way, options), in the order of the cases. Before each it waits so many seconds at most
    for a quiet machine."""
    found = [[] for _ in cases]
    for turn in range(rounds):
        for step in range(len(cases)):
            index = (step + turn) % len(cases)
            await_quiet(patience)
            result = measure(program, cases[index][0], cases[index][1])
            if result is not None:
                found[index].append(result)
    return found


def table(columns, names, found):
    """A Markdown table: a row for each case."""
    columns = (*columns, ("others", "others", "%.2f"))
    rows = [["way", *(title for title, _, _ in columns)], ["---"] * (len(columns) + 1)]
    for name, results in zip(names, found):
        cells = [name]
        for _, figure, form in columns:
            values = [result[figure] for result in results if figure in result]
            cells.append(form % statistics.median(values) if values else "-")
        rows.append(cells)
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def of_ways(ways, *options):
    """One case for each way, with the same options."""
    return [(way, options) for way in ways], ways


def of_bounds(*options):
    """Those, and the steered ones with a bound of 1 ms instead of 0.2."""
    cases, _ = of_ways(WAYS, *options)
    slow = ("cbpf", "ebpf")
    return cases + [(way, (*options, "-d", "1000")) for way in slow], (*WAYS, *(f"{way}, 1 ms" for way in slow))


def of_crowds(*options):
    """One case for each way and number of workers, as many light clients as may keep them all awake."""
    cases, names = [], []
    for workers in CROWDS:
        for way in ("hash", "lend", *(f"lend-{k}" for k in (4, 8, 16) if k < workers - 1)):
            cases.append((way, (*options, "-w", str(workers), "-c", str(4 * workers))))
            names.append(f"{way}, {workers} workers")
    return cases, names


def of_registering():
    """One case for each way and number of workers, with 20 addresses."""
    cases, names = [], []
    for workers in (4, *CROWDS):
        for way in ("hash", "lend", *(f"lend-{k}" for k in (1, 2, 4, 8, 16) if k < workers - 1)):
            cases.append((way, ("-n", "-w", str(workers), "-a", "20")))
            names.append(f"{way}, {workers} × 20")
    return cases, names


def measures(seconds):
    """By name: what it is, its cases with their names, its columns."""
    lasting = ("-t", str(seconds))
    return {
        "heavy": ("12 heavy requests a second of 60 ms CPU beside 16 light clients",
                  of_bounds(*lasting, "-r", "12"), LIGHT + COSTS + RENEWING),
        "calm": ("16 light clients alone", of_ways(WAYS, *lasting), LIGHT + COSTS + RENEWING),
        "crowd": ("two workers and 1,000 light clients", of_ways(("hash", "shared", "mutex", "lend", "cbpf", "ebpf"),
                                                                 *lasting, "-w", "2", "-c", "1000"), LIGHT + COSTS),
        "stopped": ("one worker stopped for 2 s", of_ways(WAYS, "-t", "2.5", "-s", "2000"), STOPPED),
        "registering": ("what starting costs", of_registering(), REGISTERING),
        "busy": ("all workers awake, each connection 100 µs of CPU", of_crowds(*lasting, "-u", "100"),
                 LIGHT + COSTS),
        "parked": ("a connect while all workers are awake and none accepts", of_crowds("-p", "3000"), PARKED),
    }


def main():
    """Prints the tables that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--patience", type=float, default=0)
    parser.add_argument("measures", nargs="*")
    arguments = parser.parse_args()
    top = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    program = build(f"{top}/objs/bench")
    known = measures(arguments.seconds)
    if set(arguments.measures) - set(known):
        parser.error("measures: " + " ".join(known))
    for name in arguments.measures or known:
        title, (cases, names), columns = known[name]
        before = os.getloadavg()[0]
        found = in_rounds(program, cases, arguments.rounds, arguments.patience)
        print(f"\n{name}: {title}; {arguments.rounds} rounds, load {before:.1f} to {os.getloadavg()[0]:.1f}\n")
        print(table(columns, names, found), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
