#!/usr/bin/env python3
"""Very many held connections: what they cost, how they are answered, what a reload does to them.

Runs in a network namespace of its own, as root, because connection tracking of the host would stop
at 262,144. docs/performance.md says what the figures are."""

import argparse
import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time

import loads
import memory
import netns
import report
import rows
from servers import BenchError, Server, children_of, descriptor_limit, free_port, prepare_child

HERE = os.path.dirname(os.path.abspath(__file__))
SIDES = ("portunus", "reference")
SPARE_DESCRIPTORS = 1000    # of a process, beside those of its connections
SPREAD = 1.1                # how many more than the mean a worker may get by chance
PER_SOURCE = 10000          # connections of one address, as hold.c has it
ROW = rows.Row("held", "held", rows.EMPTY_GIF, keepalive_timeout=36000)
EVENTS = {"portunus": "reuse_port on;", "reference": "accept_mutex off;"}
LISTEN = {"portunus": " backlog=65535", "reference": " reuseport backlog=65535"}
STEP_SECONDS = 0.1          # between two looks at the machine's memory


def build(directory):
    """The client, compiled."""
    return loads.compile_program(directory, "hold",
                                 ("hold.c", "response.c", "options.c", "requests.c"))


class Watch:
    """What no step of a run may go beyond: its time, and the memory of the machine."""

    def __init__(self, floor, seconds):
        self.floor, self.seconds = floor, seconds
        self.least = memory.available()

    def check(self, end, doing):
        """Raises when a step has come to its limit."""
        left = memory.available()
        self.least = min(self.least, left)
        if left < self.floor:
            raise BenchError(f"memory gave out while {doing}, at {netns.connections():,} "
                             f"connections: {left >> 20} MiB left")
        if time.monotonic() > end:
            raise BenchError(f"{doing} took longer than {self.seconds} s, at "
                             f"{netns.connections():,} connections")

    def until(self, is_done, doing):
        """Waits for a condition. Gives the seconds that it took."""
        start = time.monotonic()
        while not is_done():
            self.check(start + self.seconds, doing)
            time.sleep(STEP_SECONDS / 10)
        return time.monotonic() - start


class Holders:
    """The client processes, each with its part of the connections. A context manager."""

    def __init__(self, program, port, parts, watch, limit):
        self.watch, self.processes = watch, []
        first = 0
        for part in parts:
            self.processes.append(subprocess.Popen(
                [program, "-p", str(port), "-i", str(part), "-S", str(first), "/empty.gif"],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                preexec_fn=prepare_child(os.sched_getaffinity(0), limit)))
            first += -(-part // PER_SOURCE)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.processes:
            process.kill()
        for process in self.processes:
            process.communicate()

    def lines(self, doing):
        """One line of JSON from each, as soon as all have said it."""
        end = time.monotonic() + self.watch.seconds
        found = {}
        with selectors.DefaultSelector() as selector:
            for process in self.processes:
                selector.register(process.stdout, selectors.EVENT_READ)
            while len(found) < len(self.processes):
                for key, _ in selector.select(STEP_SECONDS):
                    text = key.fileobj.readline()
                    if not text:
                        raise BenchError(f"a client ended while {doing}")
                    found[key.fd] = json.loads(text)
                    selector.unregister(key.fileobj)
                self.watch.check(end, doing)
        return list(found.values())

    def tell(self, command):
        """Says something to all."""
        for process in self.processes:
            process.stdin.write(command + "\n")
            process.stdin.flush()

    def start_asking(self, count):
        """Begins with requests on a sample of the connections, one at a time in each client."""
        self.tell(f"ask {-(-count // len(self.processes))}")

    def ask(self, count, doing):
        """The same to its end."""
        self.start_asking(count)
        return sum_sample(self.lines(doing))

    def lost(self):
        """How many connections the server has closed."""
        self.tell("lost")
        return sum(line["lost"] for line in self.lines("counting"))


def percentile(values, share):
    """One of some values, by rank; None of none."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else None


def sum_sample(lines):
    """The answers of all clients as one sample."""
    waits = [wait for line in lines for wait in line["us"]]
    return {"asked": sum(line["asked"] for line in lines), "answered": len(waits),
            "stalled": sum(line["stalled"] for line in lines),
            "p50_us": percentile(waits, 0.5), "p99_us": percentile(waits, 0.99),
            "max_us": percentile(waits, 1)}


def parts_of(count, limit, least):
    """How many connections each client has: as many clients as descriptors make needed, and at
    least so many."""
    clients = max(least, -(-count // (limit - SPARE_DESCRIPTORS)))
    return [count // clients + (number < count % clients) for number in range(clients)]


def workers_of(options, side, limit):
    """How many workers there must be at least, by what descriptors and chance leave to each."""
    room = (limit - SPARE_DESCRIPTORS) / SPREAD
    return max(options.workers, -(-options.count[side] // int(room)))


def start_server(options, side, port, directory, limit):
    """A server with room for all connections twice, since a hash spreads them by chance."""
    workers = workers_of(options, side, limit)
    slots = min(limit - SPARE_DESCRIPTORS, 2 * options.count[side] // workers + 1024)
    text = rows.configuration(ROW, directory, port, side == "reference", workers=workers,
                              worker_connections=slots, events=EVENTS[side], listen=LISTEN[side])
    binary = os.path.abspath(options.binary) if side == "portunus" else options.reference
    return Server(binary, f"{directory}/{side}", text, port, os.sched_getaffinity(0), limit)


def processes_of(server):
    """Master and workers."""
    return [server.process.pid, *children_of(server.process.pid)]


def reload(server, holders, watch, sample):
    """Reloads, with requests meanwhile: how long until the last worker of the old generation has
    left, and how many connections were closed."""
    old = set(server.workers())
    server.process.send_signal(signal.SIGHUP)
    holders.start_asking(sample)
    seconds = watch.until(lambda: not old & set(children_of(server.process.pid)), "reloading")
    meanwhile = sum_sample(holders.lines("asking during the reload"))
    return {"seconds": seconds, "lost": holders.lost(), "meanwhile": meanwhile}


def measure_side(options, side, program, directory, limit):
    """Everything about one server, step by step; `error` says which step could not be done."""
    count, watch = options.count[side], Watch(options.floor << 20, options.limit)
    workers = workers_of(options, side, limit)
    found = {"count": count, "workers": workers, "floor": watch.floor}
    port = free_port()
    try:
        with contextlib.ExitStack() as stack:
            server = stack.enter_context(start_server(options, side, port, directory, limit))
            server.wait_for_workers(workers)
            left, slabs = memory.available(), memory.slabs()
            base = found["base"] = memory.of_processes(processes_of(server))
            holders = stack.enter_context(Holders(
                program, port, parts_of(count, limit, options.clients), watch, limit))
            opened = holders.lines("opening")
            found.update(held=sum(line["held"] for line in opened),
                         seconds=max(line["seconds"] for line in opened))
            found["server"] = memory.of_processes(processes_of(server))
            found["grown"] = memory.growth(base, found["server"])
            found["used"] = left - memory.available()
            found["slabs"] = memory.growth(slabs, memory.slabs())
            found["sockets"] = sum(found["slabs"].get(name, 0) for name in memory.SOCKET_CACHES)
            found["sample"] = holders.ask(options.sample, "asking")
            found["reload"] = reload(server, holders, watch, options.sample)
            found["after"] = memory.of_processes(processes_of(server))
            found["again"] = holders.ask(options.sample, "asking after the reload")
            found["lost"] = holders.lost()
    except BenchError as error:
        found["error"] = str(error)
    found["least"] = watch.least
    return found


# --- what is printed ---

def per_connection(found, part, key=None):
    """Bytes for each connection held."""
    if part not in found or not found.get("held"):
        return None
    return (found[part][key] if key else found[part]) / found["held"]


def micro(found, part, key):
    """A latency of a sample, in microseconds."""
    return found.get(part, {}).get(key)


LINES = (
    ("connections asked for", 0, lambda one: one["count"]),
    ("workers", 0, lambda one: one["workers"]),
    ("held", 0, lambda one: one.get("held")),
    ("seconds to open them", 1, lambda one: one.get("seconds")),
    ("workers and master before, MiB (PSS)", 1,
     lambda one: one["base"]["Pss"] / 1048576 if "base" in one else None),
    ("workers and master, bytes a connection (PSS)", 0,
     lambda one: per_connection(one, "grown", "Pss")),
    ("the same by RSS", 0, lambda one: per_connection(one, "grown", "Rss")),
    ("with what they had before (PSS)", 0, lambda one: per_connection(one, "server", "Pss")),
    ("kernel's caches of sockets, bytes a connection, both ends", 0,
     lambda one: per_connection(one, "sockets")),
    ("less available on the machine, bytes a connection, all in all", 0,
     lambda one: per_connection(one, "used")),
    ("a request on one of them: p50 µs", 0, lambda one: micro(one, "sample", "p50_us")),
    ("p99 µs", 0, lambda one: micro(one, "sample", "p99_us")),
    ("reload: seconds until the old workers have left", 2,
     lambda one: one.get("reload", {}).get("seconds")),
    ("reload: connections closed", 0, lambda one: one.get("reload", {}).get("lost")),
    ("reload: a request meanwhile: p50 µs", 0,
     lambda one: micro(one.get("reload", {}), "meanwhile", "p50_us")),
    ("p99 µs", 0, lambda one: micro(one.get("reload", {}), "meanwhile", "p99_us")),
    ("longest µs", 0, lambda one: micro(one.get("reload", {}), "meanwhile", "max_us")),
    ("without an answer for a minute", 0,
     lambda one: micro(one.get("reload", {}), "meanwhile", "stalled")),
    ("after the reload: workers and master, MiB (PSS)", 1,
     lambda one: one["after"]["Pss"] / 1048576 if "after" in one else None),
    ("a request on one of them: p50 µs", 0, lambda one: micro(one, "again", "p50_us")),
    ("p99 µs", 0, lambda one: micro(one, "again", "p99_us")),
    ("least memory that the machine had left, MiB", 0, lambda one: one["least"] / 1048576),
)


def document(results):
    """The tables as markdown."""
    sides = [side for side in SIDES if side in results]
    lines = [[title, *(report.number(figure(results[side]), digits) for side in sides)]
             for title, digits, figure in LINES]
    parts = [f"{os.cpu_count()} CPUs, "
             f"{memory.fields_of('/proc/meminfo', ('MemTotal',))['MemTotal'] >> 20} MiB",
             report.markdown(("held connections", *sides), lines)]
    for side in sides:
        found = results[side]
        top = sorted(found.get("slabs", {}).items(), key=lambda item: -item[1])[:6]
        if found.get("held") and top:
            parts.append(f"{side}: the kernel's caches that grew most, in bytes a connection: " +
                         ", ".join(f"{name} {size / found['held']:,.0f}" for name, size in top))
        if "error" in found:
            parts.append(f"{side}: {found['error']}.")
    return "\n\n".join(parts) + "\n"


def parse_options(arguments):
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--binary", default=os.environ.get(
        "TEST_NGINX_BINARY", os.path.join(HERE, "../../objs/nginx")))
    parser.add_argument("--reference", default="/usr/sbin/nginx")
    parser.add_argument("--count", type=int, default=300000, help="connections (300000)")
    parser.add_argument("--reference-count", type=int, help="of the reference, if not the same")
    parser.add_argument("--sides", type=lambda text: text.split(","), default=list(SIDES))
    parser.add_argument("--workers", type=int, default=4,
                        help="at least; more where descriptors make it needed (4)")
    parser.add_argument("--clients", type=int, default=2, help="at least so many processes (2)")
    parser.add_argument("--sample", type=int, default=4000, help="requests on held ones (4000)")
    parser.add_argument("--floor", type=int, default=1500,
                        help="MiB that the machine must keep, or the run ends (1500)")
    parser.add_argument("--limit", type=int, default=180, help="seconds of each step (180)")
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args(arguments)
    if set(options.sides) - set(SIDES) or min(options.count, options.workers, options.clients) < 1:
        parser.error("sides, count, workers, clients")
    options.count = {"portunus": options.count,
                     "reference": options.reference_count or options.count}
    return options


def main(arguments):
    """Gives the exit status: 1 if a step could not be done."""
    options = parse_options(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))     # and so end the servers
    try:
        netns.enter()
    except BenchError as error:
        print(f"held: {error}", file=sys.stderr)
        return 1
    program = build(os.path.join(HERE, "../../objs/bench"))
    limit = descriptor_limit(max(options.count.values()) * 2 + 2 * SPARE_DESCRIPTORS)
    results = {}
    with tempfile.TemporaryDirectory(prefix="portunus-held-") as directory:
        os.chmod(directory, 0o755)
        for side in options.sides:
            print(f"held: {side}", file=sys.stderr)
            results[side] = measure_side(options, side, program, directory, limit)
    print(document(results))
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(results, file, indent=1)
    return int(any("error" in found for found in results.values()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
