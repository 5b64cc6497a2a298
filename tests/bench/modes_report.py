"""Tables of the rows that compare modes, and what they are judged by."""

import statistics

from modes import LONG_WAIT_MS, MODES

TAIL_RATIO = 1.5        # of the p99 beside heavy requests, sharded to shared
RATE_RATIO = 0.95       # of the rate beside heavy requests, to the best other mode
CPU_RATIO = 1.02        # of the CPU time of a short connection, to the build before
EMPTY_SHARE = 0.01      # of accepts: wake-ups for nothing

# For each row: header, key, digits, and how the rounds become one figure.
COSTS = (("requests/s", "rps", 0), ("p50 ms", "p50_ms", 2), ("p99 ms", "p99_ms", 2),
         ("CPU µs a request", "cpu_us", 2), ("voluntary switches a request", "switches", 2))
COLUMNS = {
    "heavy": (*COSTS[:3], ("a heavy one: CPU ms", "heavy_cpu_ms", 0),
              ("its p50 ms", "heavy_p50_ms", 0)),
    "crowd": COSTS,
    "calm": COSTS,
    "stopped": (("longest wait ms", "longest_ms", 1), ("its worst round", "longest_ms", 1, max),
                (f"over {LONG_WAIT_MS} ms", "late", 0), ("of new ones", "new", 0),
                ("longest before the stop", "calm_ms", 1),
                ("under way at the stop", "under_way", 0),
                ("their longest ms", "under_way_ms", 0)),
    "wakeups": (("for nothing, by the clock", "light_empty", 4),
                ("turns an accept", "light_turns", 2),
                ("timeouts/s", "timeouts", 1), ("for nothing, 16 clients", "loaded_empty", 4),
                ("turns an accept", "loaded_turns", 2)),
}


def figure(rounds, key, combine=statistics.median):
    """One figure of all rounds."""
    return combine([one[key] for one in rounds])


def ratio(mine, theirs, key):
    """The median over the rounds of what one mode has to what another has in the same round."""
    return statistics.median(one[key] / other[key] for one, other in zip(mine, theirs))


def best_rate(found, names):
    """The rounds of the fastest mode among some; None where none of them was measured."""
    taken = [found[name] for name in names if name in found]
    return max(taken, key=lambda rounds: figure(rounds, "rps")) if taken else None


NGINX = tuple(mode.name for mode in MODES if mode.side == "reference")


def judge_heavy(found):
    """The tail of the shared listener, and the rate of whatever is best."""
    goals = []
    if "off" in found:
        goals.append((f"p99 ≤ {TAIL_RATIO} of reuse_port off's",
                      ratio(found["on"], found["off"], "p99_ms") <= TAIL_RATIO))
    best = best_rate(found, ("off", *NGINX))
    if best is not None:
        goals.append((f"rate ≥ {RATE_RATIO} of the best other mode's",
                      ratio(found["on"], best, "rps") >= RATE_RATIO))
    return goals


def judge_crowd(found):
    """At least nginx's best."""
    best = best_rate(found, NGINX)
    return [] if best is None else [("rate ≥ that of nginx's best mode",
                                     ratio(found["on"], best, "rps") >= 1)]


def judge_calm(found):
    """Not dearer than the build before, where there is one."""
    if "before-on" not in found:
        return []
    return [(f"CPU ≤ {CPU_RATIO} of the build before",
             ratio(found["on"], found["before-on"], "cpu_us") <= CPU_RATIO)]


def judge_stopped(found):
    """Nobody new waits for long, in any round."""
    return [(f"longest wait ≤ {LONG_WAIT_MS} ms",
             figure(found["on"], "longest_ms", max) <= LONG_WAIT_MS)]


def judge_wakeups(found):
    """Hardly any for nothing, with little and with much to do."""
    share = max(figure(found["on"], key) for key in ("light_empty", "loaded_empty"))
    return [(f"for nothing ≤ {EMPTY_SHARE:.0%} of accepts", share <= EMPTY_SHARE)]


JUDGES = {"heavy": judge_heavy, "crowd": judge_crowd, "calm": judge_calm,
          "stopped": judge_stopped, "wakeups": judge_wakeups}


def judged(result):
    """What a row asks of `reuse_port on`: (words, met) of each goal that can be judged."""
    found = result.get("modes", {})
    return JUDGES[result["name"]](found) if "on" in found else []


def line_of(title, rounds, columns):
    """The cells of one mode."""
    return [title, *(f"{figure(rounds, key, *combine):,.{digits}f}"
                     for _, key, digits, *combine in columns)]


def table(result, markdown):
    """The table of one row, with what it asks for below."""
    columns = COLUMNS[result["name"]]
    lines = [line_of(mode.title, result["modes"][mode.name], columns)
             for mode in MODES if mode.name in result["modes"]]
    goals = "; ".join(f"{words}: {'yes' if met else 'no'}" for words, met in judged(result))
    text = markdown((result["title"], *(column[0] for column in columns)), lines)
    return text + (f"\n\nTo reach: {goals}." if goals else "")
