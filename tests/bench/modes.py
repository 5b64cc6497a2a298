"""The ways in which servers share new connections among workers, and the rows that compare them."""

import contextlib
import functools
import json
import os
import random
import signal
import struct
import subprocess
import time
import zlib
from dataclasses import dataclass

import ab
import loads
from servers import BenchError, prepare_child

HEAVY_RATE = 12             # requests a second that cost much
HEAVY_SECONDS = 0.060       # of CPU time each
HEAVY_SAMPLE = 1 << 20      # bytes of text that the size of it is reckoned from
STOPPED_SECONDS = 5         # how long a worker stands still
STOPPED_RATE = 200          # new connections a second meanwhile
AROUND_SECONDS = 1          # the same before and after
LIGHT_RATE = 500            # new connections a second of the row wakeups
LONG_WAIT_MS = 30           # what a new connection may wait while a worker stands still
CROWD = 1000                # connections of ab at a time
CROWD_RATE = 10000          # reckoned requests a second of ab: its amount is a number, not a time
TURNS = struct.Struct("6Q")
TURNS_NAMES = ("turns", "timeouts", "accepts", "refused", "empty", "idle")


@dataclass(frozen=True)
class Mode:
    """One way of one server."""

    name: str
    title: str
    side: str               # whose binary: portunus, before, reference
    events: str             # what it needs in the events block
    listen: str = ""        # further parameters of the listen line


MODES = (
    Mode("on", "Portunus, reuse_port on", "portunus", "reuse_port on;"),
    Mode("off", "Portunus, reuse_port off", "portunus", "reuse_port off;"),
    Mode("before-on", "before, reuse_port on", "before", "reuse_port on;"),
    Mode("before-off", "before, reuse_port off", "before", "reuse_port off;"),
    Mode("nginx-reuseport", "nginx, reuseport", "reference", "accept_mutex off;", " reuseport"),
    Mode("nginx-shared", "nginx, accept_mutex off", "reference", "accept_mutex off;"),
    Mode("nginx-mutex", "nginx, accept_mutex on", "reference", "accept_mutex on;"),
)
WORKERS = {"heavy": 4, "crowd": 2, "calm": 2, "stopped": 4, "wakeups": 4}


def choose_cpus():
    """Two CPUs for the workers; and those of clients, the same two where there are no others."""
    allowed = sorted(os.sched_getaffinity(0))
    return set(allowed[:2]), set(allowed[2:]) or set(allowed)


@contextlib.contextmanager
def started(bench, row, mode, wrapper=()):
    """A server of a mode, with all its workers, on two CPUs."""
    workers = WORKERS[row.name]
    with bench.server(row, mode.side, wrapper=wrapper, cpus=choose_cpus()[0], workers=workers,
                      is_single=False, events=mode.events,
                      listen=f"{mode.listen} backlog=65535") as server:
        server.wait_for_workers(workers)
        yield server


def voluntary_switches(server):
    """How often the workers went to sleep until now."""
    total = 0
    for pid in server.workers():
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/status", encoding="ascii") as file:
                total += next(int(line.split()[1]) for line in file
                              if line.startswith("voluntary_ctxt_switches"))
    return total


def with_costs(server, load):
    """Some load: what it says, and what a request of it cost the server."""
    cpu, switches = server.cpu_ns(), voluntary_switches(server)
    answer = load()
    cpu, switches = server.cpu_ns() - cpu, voluntary_switches(server) - switches
    return {"rps": answer["rps"], "p50_ms": answer["latency_us"]["p50"] / 1000,
            "p99_ms": answer["latency_us"]["p99"] / 1000,
            "cpu_us": cpu / 1000 / answer["requests"], "switches": switches / answer["requests"]}


# --- requests by the clock ---

def build(directory):
    """Compiles the client that goes by the clock, and what counts turns."""
    loads.compile_program(directory, "pace", ("pace.c",))
    loads.compile_program(directory, "turns.so", ("turns.c",), ("-shared", "-fPIC", "-ldl"))


class Pace:
    """A client that opens a connection at each tick, whatever became of those before. A context
    manager, which leaves when all have ended; `times` are then (began, connected, answered) of
    each, in ns: by the monotonic clock the first, after that the others, None where it did not
    happen."""

    def __init__(self, programs, port, rate, seconds, uri, header=None):
        self.times, self.failed = [], 0
        header = ("-H", header) if header else ()
        self.process = subprocess.Popen(
            [f"{programs}/pace", "-p", str(port), "-r", str(rate), "-t", str(seconds),
             *header, uri],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
            preexec_fn=prepare_child(choose_cpus()[1], 20000))

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if kind is not None:
            self.process.kill()
        text = self.process.communicate()[0]
        if kind is not None:
            return
        if not text:
            raise BenchError("pace failed")
        found = json.loads(text)
        self.failed = found["failed"]
        self.times = [(began, *(None if ns < 0 else ns for ns in after)) for began, *after
                      in zip(found["began"], found["connected"], found["answered"])]


# --- the rows ---

@functools.cache
def heavy_text():
    """A text that costs HEAVY_SECONDS of this machine's CPU time to compress at level 9."""
    words = [bytes(random.Random(number).choices(b"abcdefghijklmnopqrstuvwxyz",
                                                 k=2 + number % 8)) for number in range(400)]
    draw = random.Random(1)

    def text(size):
        return b" ".join(draw.choices(words, k=size // 4))[:size]

    sample = text(HEAVY_SAMPLE)
    costs = []
    for _ in range(3):
        before = time.process_time()
        zlib.compress(sample, 9)
        costs.append(time.process_time() - before)
    size = int(HEAVY_SAMPLE * HEAVY_SECONDS / min(costs))
    return (sample * (size // len(sample) + 1))[:size] if size > len(sample) else sample[:size]


def measure_heavy(bench, row, server):
    """Light short connections beside a few requests that keep a worker for long."""
    os.makedirs(f"{bench.root}/heavy", exist_ok=True)
    with open(f"{bench.root}/heavy/text.txt", "wb") as file:
        file.write(heavy_text())
    gzip = "Accept-Encoding: gzip"
    seconds = bench.options.seconds * 4
    cpu = server.cpu_ns()
    with Pace(bench.programs, server.port, HEAVY_RATE, 4 / HEAVY_RATE, "/heavy/text.txt", gzip):
        pass
    cost = (server.cpu_ns() - cpu) / 1e6 / 4
    bench.client.run(server, row, requests=row.counted[1])
    with Pace(bench.programs, server.port, HEAVY_RATE, seconds, "/heavy/text.txt", gzip) as pace:
        answer = bench.client.run(server, row, seconds=seconds)
    if pace.failed:
        raise BenchError(f"{server.binary}: {pace.failed} heavy requests failed")
    waits = sorted(answered for _, _, answered in pace.times)
    return {"rps": answer["rps"], "p50_ms": answer["latency_us"]["p50"] / 1000,
            "p99_ms": answer["latency_us"]["p99"] / 1000, "heavy_cpu_ms": cost,
            "heavy_p50_ms": waits[len(waits) // 2] / 1e6}


def measure_crowd(bench, row, server):
    """Short connections by ab, very many at a time."""
    requests = round(CROWD_RATE * 2 * bench.options.seconds)
    cpus = choose_cpus()[1]
    ab.run(server.port, row.uris[0], 2 * CROWD, CROWD, cpus)
    return with_costs(server, lambda: ab.run(server.port, row.uris[0], requests, CROWD, cpus))


def measure_calm(bench, row, server):
    """Short connections with nothing heavy beside them."""
    bench.client.run(server, row, requests=row.counted[1])
    return with_costs(server, lambda: bench.client.run(server, row,
                                                       seconds=2 * bench.options.seconds))


def wait_until_stopped(pid):
    """Returns when a process stands still."""
    end = time.monotonic() + 5
    while time.monotonic() < end:
        with open(f"/proc/{pid}/stat", encoding="ascii") as file:
            if file.read().rpartition(")")[2].split()[0] == "T":
                return
    raise BenchError("a worker does not stop")


def sum_stopped(times, stopped, going_on):
    """The waits of connections, by when each began: before the worker stood still, meanwhile; and
    those that were on their way when it stopped. Milliseconds; who was never answered waited for
    ever."""
    calm, under_way, new = [], [], []
    for began, _, answered in times:
        wait = float("inf") if answered is None else answered / 1e6
        if began >= stopped:
            if began < going_on:
                new.append(wait)
        elif began + wait * 1e6 > stopped:
            under_way.append(wait)
        else:
            calm.append(wait)
    return {"calm_ms": max(calm, default=0), "new": len(new), "longest_ms": max(new, default=0),
            "late": sum(wait > LONG_WAIT_MS for wait in new), "under_way": len(under_way),
            "under_way_ms": max(under_way, default=0)}


def measure_stopped(bench, row, server):
    """New connections by the clock while one worker of several stands still."""
    seconds = 1 if bench.options.quick else STOPPED_SECONDS
    worker = server.workers()[0]
    bench.client.run(server, row, requests=row.counted[1])
    with Pace(bench.programs, server.port, STOPPED_RATE, 2 * AROUND_SECONDS + seconds,
              row.uris[0]) as pace:
        time.sleep(AROUND_SECONDS)
        os.kill(worker, signal.SIGSTOP)
        try:
            wait_until_stopped(worker)
            stopped = time.monotonic_ns()
            time.sleep(seconds)
            going_on = time.monotonic_ns()
        finally:
            os.kill(worker, signal.SIGCONT)
    return sum_stopped(pace.times, stopped, going_on)


def read_turns(name):
    """What turns.c counted until now."""
    with open(name, "rb") as file:
        return dict(zip(TURNS_NAMES, TURNS.unpack(file.read(TURNS.size))))


def counted_turns(name, load):
    """What turns.c counts during some load, and the seconds that it took."""
    before, start = read_turns(name), time.monotonic()
    load()
    after = read_turns(name)
    return {key: after[key] - before[key] for key in after}, time.monotonic() - start


def measure_wakeups(bench, row, server):
    """Wake-ups in which accept4 found nothing, as a share of the connections accepted: with a few
    connections by the clock, and with sixteen clients that never rest."""
    name = f"{bench.directory}/turns"

    def by_the_clock():
        with Pace(bench.programs, server.port, LIGHT_RATE, 2 * bench.options.seconds, row.uris[0]):
            pass

    bench.client.run(server, row, requests=row.counted[1])
    light, seconds = counted_turns(name, by_the_clock)
    loaded, _ = counted_turns(name, lambda: bench.client.run(server, row,
                                                             seconds=bench.options.seconds))
    if light["accepts"] == 0 or loaded["accepts"] == 0:
        raise BenchError(f"{server.binary}: no accept4 was seen")
    return {"light_empty": light["empty"] / light["accepts"],
            "light_turns": light["turns"] / light["accepts"],
            "timeouts": light["timeouts"] / seconds,
            "loaded_empty": loaded["empty"] / loaded["accepts"],
            "loaded_turns": loaded["turns"] / loaded["accepts"]}


MEASURES = {"heavy": measure_heavy, "crowd": measure_crowd, "calm": measure_calm,
            "stopped": measure_stopped, "wakeups": measure_wakeups}


def rounds_of(bench, row):
    """How many; a round in which a worker stands still is a long one."""
    return min(bench.options.rounds, 3) if row.name == "stopped" else bench.options.rounds


def measure(bench, row):
    """Rounds, in each of which every mode has its turn with a server of its own; another one begins
    each time. Gives lists of figures by the name of the mode."""
    found = {mode.name: [] for mode in bench.modes}
    wrapper = ()
    if row.name == "wakeups":
        wrapper = ("env", f"LD_PRELOAD={os.path.abspath(bench.programs)}/turns.so",
                   f"TURNS_FILE={bench.directory}/turns")
    with bench.client_on([choose_cpus()[1]]):
        for turn in range(rounds_of(bench, row)):
            first = turn % len(bench.modes)
            for mode in bench.modes[first:] + bench.modes[:first]:
                with started(bench, row, mode, wrapper) as server:
                    found[mode.name].append(MEASURES[row.name](bench, row, server))
    return found
