"""Quick requests beside some that cost much: what the others wait longer for."""

import modes
from servers import BenchError

QUICK_RATE = 400        # requests a second, each on a connection of its own
SLOW_RATE = 4           # … and of those that cost much
SECONDS = 4             # of either, times --seconds


def quick_ms(bench, row, server, is_busy):
    """How long the quick ones took, sorted, with or without the others beside them."""
    seconds = SECONDS * bench.options.seconds
    slow = None
    if is_busy:
        slow = modes.Pace(bench.programs, server.port, SLOW_RATE, seconds, row.beside, row.headers[0])
    with modes.Pace(bench.programs, server.port, QUICK_RATE, seconds, row.uris[0]) as quick:
        pass
    if slow is not None:
        with slow:
            pass
    failed = quick.failed + (slow.failed if slow else 0)
    if failed:
        raise BenchError(f"{server.binary}, row {row.name}: {failed} requests failed")
    return sorted(answered / 1e6 for _, _, answered in quick.times)


def measure(bench, row):
    """The middle, the 99th percentile and the longest of the quick ones, by side, of each round:
    {"alone": …, "beside": …}. One worker, which may use two CPUs."""
    found = {side: [] for side in ("portunus", "reference")}
    for _ in range(bench.options.rounds):
        for side, rounds in found.items():
            with bench.server(row, side, cpus=modes.choose_cpus()[0]) as server:
                one = {}
                for name, is_busy in (("alone", False), ("beside", True)):
                    times = quick_ms(bench, row, server, is_busy)
                    one[name] = {"p50": times[len(times) // 2], "p99": times[len(times) * 99 // 100],
                                 "max": times[-1]}
                rounds.append(one)
    return found
