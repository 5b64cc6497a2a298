"""Tables of what was measured."""

import os
import platform
import statistics
import subprocess
import time

import modes_report
import haproxy
from probes import own_syscalls

BEGIN, END = "<!-- bench:begin -->", "<!-- bench:end -->"
BUSY = 0.9              # a server that used less of its CPU waited for the client
STAR = ("\\* the client was the limit, or other work: the server used less than nine tenths of its "
        "CPU.")
SLACK = 0.05            # of a system call: timers, a connection's second event

HEADER = ("row", "requests/s", "reference", "ratio", "CPU µs", "reference", "ratio (quartiles)",
          "system calls", "reference", "instructions", "reference", "ratio", "to reach", "met")


def median_of(rounds, key):
    """The median of one value over the rounds."""
    return statistics.median(one[key] for one in rounds)


def quartiles(values):
    """The first and the third quartile."""
    if len(values) < 2:
        return values[0], values[0]
    first, _, third = statistics.quantiles(values, n=4, method="inclusive")
    return first, third


def pair_ratios(result, key):
    """Ours to the reference's in each round."""
    return [mine[key] / theirs[key]
            for mine, theirs in zip(result["load"]["portunus"], result["load"]["reference"])]


def number(value, digits=0):
    """A number for a table cell; a dash for none."""
    return "–" if value is None else f"{value:,.{digits}f}"


def library_ratio(result):
    """Instructions of a request to those of the library alone; None where they were not counted."""
    alone = result.get("coding", {}).get("library")
    mine = result.get("instructions", {}).get("portunus")
    return mine / alone["instructions"] if alone and mine else None


def wanted_and_met(result):
    """The targets of a row that can be judged: (words, met) of each."""
    judged = modes_report.judged(result)
    targets = result["targets"]
    if "cpu" in targets and "load" in result:
        ratio = statistics.median(pair_ratios(result, "cpu_us"))
        judged.append((f"CPU ≤ {targets['cpu']:.2f}", ratio <= targets["cpu"]))
    if "syscalls" in targets and "syscalls" in result:
        own = own_syscalls(result["syscalls"]["portunus"])
        judged.append((f"calls ≤ {targets['syscalls']}", own <= targets["syscalls"] + SLACK))
    if "instructions" in targets and "portunus" in result.get("instructions", {}):
        judged.append((f"instructions ≤ {targets['instructions']:,}",
                       result["instructions"]["portunus"] <= targets["instructions"]))
    if "p99_more_ms" in targets and "beside" in result:
        more = beside_figure(result, "portunus", "beside", "p99") - \
            beside_figure(result, "portunus", "alone", "p99")
        judged.append((f"p99 ≤ {targets['p99_more_ms']} ms more", more <= targets["p99_more_ms"]))
    if "library" in targets and library_ratio(result) is not None:
        judged.append((f"library + {targets['library'] - 1:.0%}",
                       library_ratio(result) <= targets["library"]))
    if "timewait" in targets and "timewait" in result:
        judged.append((f"TIME_WAIT ≤ {targets['timewait']:,}",
                       result["timewait"]["portunus"] <= targets["timewait"]))
    if "bytes_ratio" in targets and "bytes" in result:
        ratio = result["bytes"]["portunus"] / result["bytes"]["reference"]
        judged.append((f"bytes ≤ {targets['bytes_ratio']:.2f} of the reference's",
                       ratio <= targets["bytes_ratio"]))
    if "bytes" in targets and "bytes" in result:
        judged.append((f"bytes ≤ {targets['bytes']:,}",
                       result["bytes"]["portunus"] <= targets["bytes"]))
    return judged


def missed(results):
    """The number of targets that were judged and not met."""
    return sum(not met for result in results for _, met in wanted_and_met(result))


def load_cells(result):
    """Requests per second and CPU time."""
    if "load" not in result:
        return ["–"] * 6
    cells = []
    for key, digits in (("rps", 0), ("cpu_us", 2)):
        for side in ("portunus", "reference"):
            rounds = result["load"][side]
            waits = key == "rps" and median_of(rounds, "busy") < BUSY
            cells.append(number(median_of(rounds, key), digits) + ("\\*" if waits else ""))
        ratios = pair_ratios(result, key)
        cells.append(number(statistics.median(ratios), 2))
    first, third = quartiles(ratios)
    cells[-1] += f" ({first:.2f}–{third:.2f})"
    return cells


def row_cells(result):
    """One line of the main table."""
    cells = [result["title"], *load_cells(result)]
    for side in ("portunus", "reference"):
        counts = result.get("syscalls", {}).get(side)
        cells.append("–" if counts is None else number(own_syscalls(counts), 2))
    instructions = result.get("instructions", {})
    mine, theirs = instructions.get("portunus"), instructions.get("reference")
    cells += [number(mine), number(theirs), number(mine / theirs if mine and theirs else None, 2)]
    judged = wanted_and_met(result)
    failed = [words.split()[0] for words, met in judged if not met]
    cells.append("; ".join(words for words, _ in judged) or "–")
    cells.append("–" if not judged else "yes" if not failed else "no: " + ", ".join(failed))
    return cells


def markdown(header, lines, others=" ---: |"):
    """A markdown table; all but the first column to the right, or as said."""
    out = ["| " + " | ".join(header) + " |", "| --- |" + others * (len(header) - 1)]
    return "\n".join(out + ["| " + " | ".join(line) + " |" for line in lines])


def beside_figure(result, side, when, key):
    """The median over the rounds, in ms."""
    return statistics.median(one[when][key] for one in result["beside"][side])


def beside_table(results):
    """Quick requests alone, and beside some that cost much."""
    lines = []
    for result in results:
        for side in result.get("beside", ()):
            goals = [f"{words}: {'yes' if met else 'no'}" for words, met in wanted_and_met(result)]
            lines.append([f"{result['title']}: {side}",
                          *(number(beside_figure(result, side, when, key), 2)
                            for when in ("alone", "beside") for key in ("p50", "p99", "max")),
                          "; ".join(goals) if side == "portunus" else "–"])
    return markdown(("ms a request", "p50 alone", "p99", "longest", "p50 beside", "p99", "longest",
                     "to reach"), lines) if lines else ""


def memory_table(results):
    """Bytes: of a held connection, of an idle worker."""
    lines = []
    for result in results:
        if "bytes" in result:
            mine, theirs = result["bytes"]["portunus"], result["bytes"]["reference"]
            words, met = next((pair for pair in wanted_and_met(result) if "bytes" in pair[0]),
                              ("–", None))
            lines.append([result["bytes"]["what"], number(mine), number(theirs),
                          number(mine / theirs, 2), words,
                          {True: "yes", False: "no"}.get(met, "–")])
    return markdown(("resident memory", "bytes", "reference", "ratio", "to reach", "met"),
                    lines) if lines else ""


def coding_table(results):
    """Bodies on their way: their bytes, and what the library alone takes for them."""
    lines = []
    for result in results:
        if "coding" in result:
            sizes, alone = result["coding"]["bytes"], result["coding"].get("library", {})
            lines.append([result["title"], number(sizes["portunus"]),
                          number(sizes.get("reference")), number(alone.get("bytes")),
                          number(alone.get("instructions")), number(library_ratio(result), 3)])
    return markdown(("bodies with a content coding", "bytes", "reference", "library alone",
                     "its instructions", "ours to them"), lines) if lines else ""


def peer_table(results):
    """CPU time beside the second server, in the same rounds."""
    lines = []
    for result in results:
        theirs = result.get("load", {}).get(haproxy.NAME)
        if theirs:
            mine = result["load"]["portunus"]
            ratios = [one["cpu_us"] / other["cpu_us"] for one, other in zip(mine, theirs)]
            first, third = quartiles(ratios)
            lines.append([result["title"], number(median_of(mine, "cpu_us"), 2),
                          number(median_of(theirs, "cpu_us"), 2),
                          f"{statistics.median(ratios):.2f} ({first:.2f}–{third:.2f})",
                          number(result.get("bytes", {}).get("portunus")),
                          number(result.get("bytes", {}).get(haproxy.NAME))])
    return markdown((f"beside {haproxy.version()}", "CPU µs", "haproxy", "ratio (quartiles)",
                     "bytes a session", "haproxy"), lines) if lines else ""


def time_wait_table(results):
    """Connections to the backend that were left in TIME_WAIT."""
    lines = []
    for result in results:
        if "timewait" in result:
            words, met = next(pair for pair in wanted_and_met(result) if "TIME_WAIT" in pair[0])
            lines.append([result["timewait"]["what"], number(result["timewait"]["portunus"]),
                          number(result["timewait"]["reference"]), words, "yes" if met else "no"])
    return markdown(("connections to the backend in TIME_WAIT", "count", "reference", "to reach",
                     "met"), lines) if lines else ""


def syscall_table(results):
    """Every system call by name, with those that a turn of the loop shares."""
    lines = []
    for result in results:
        for side in ("portunus", "reference"):
            counts = result.get("syscalls", {}).get(side)
            if counts is not None:
                calls = ", ".join(f"{name} {count:.2f}" for name, count in counts.items())
                lines.append([f"{result['title']}: {side}", calls])
    if not lines:
        return ""
    return markdown(("system calls for each request", "by name"), lines, " --- |")


def version_of(binary):
    """What a server says about itself."""
    answer = subprocess.run([binary, "-v"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                            text=True, check=False)
    return ", ".join(line.partition(": ")[2] or line for line in answer.stdout.splitlines())


def cpu_model():
    """The name of the CPU."""
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        for line in file:
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.machine()


def setting(options, binaries, server_cpu, client_cpu, results):
    """The line that says where and how the figures came about."""
    waited = [one["waited"] for result in results for side in result.get("load", {}).values()
              for one in side]
    noise = f" The servers waited {statistics.mean(waited):.1%} of the time for their CPU, which " \
        "others used." if waited else ""
    return (f"{time.strftime('%Y-%m-%d')}; {version_of(binaries['portunus'])}; reference: "
            f"{version_of(binaries['reference'])}; Linux {platform.release()}, {cpu_model()}, "
            f"{os.cpu_count()} CPUs; server on CPU {server_cpu}, client on "
            f"CPU {client_cpu}; {options.rounds} rounds of "
            f"{options.seconds:g} s, {options.connections} connections"
            f"{', busy client' if options.busy else ''}.{noise}")


def document(heading, results):
    """All tables as markdown."""
    lines = [row_cells(result) for result in results
             if {"load", "syscalls", "instructions"} & result.keys()]
    parts = [heading, markdown(HEADER, lines) if lines else "",
             STAR if any("load" in result for result in results) else "",
             memory_table(results), peer_table(results), coding_table(results), beside_table(results), time_wait_table(results),
             *(modes_report.table(result, markdown) for result in results if "modes" in result),
             syscall_table(results)]
    return "\n\n".join(part for part in parts if part) + "\n"


def write_between_markers(name, text, begin_mark=BEGIN, end_mark=END):
    """Puts a text between the two markers of a file."""
    with open(name, encoding="utf-8") as file:
        before, begin, rest = file.read().partition(begin_mark)
    _, end, after = rest.partition(end_mark)
    if not begin or not end:
        raise ValueError(f"{name} has not both {begin_mark} and {end_mark}")
    with open(name, "w", encoding="utf-8") as file:
        file.write(f"{before}{begin}\n\n{text}\n{end}{after}")
