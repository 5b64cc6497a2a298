"""Load by Apache's ab, which the figures of other servers' documents come from."""

import re
import resource
import subprocess

from servers import BenchError, prepare_child


def number_after(label, text):
    """The number that stands behind a label of ab's summary; 0 where the label is missing."""
    found = re.search(rf"^\s*{re.escape(label)}\s+([0-9.]+)", text, re.MULTILINE)
    return float(found[1]) if found else 0.0


def read_summary(text, requests):
    """What ab says of a run: rate, seconds, latencies in microseconds. Every request must have been
    answered with a 2xx status and a body of the same length."""
    done = number_after("Complete requests:", text)
    bad = number_after("Failed requests:", text) + number_after("Non-2xx responses:", text)
    if done != requests or bad > 0:
        raise BenchError(f"ab: {done:.0f} of {requests} requests, {bad:.0f} of them not well: "
                         f"{' '.join(text.split())[-200:] or 'nothing'}")
    return {"requests": requests, "rps": number_after("Requests per second:", text),
            "seconds": number_after("Time taken for tests:", text),
            "latency_us": {"p50": 1000 * number_after("50%", text),
                           "p99": 1000 * number_after("99%", text)}}


def run(port, uri, requests, connections, cpus, options=()):
    """Makes requests at 127.0.0.1, so many at a time. ab is one thread, on a set of CPUs."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    try:
        done = subprocess.run(
            ["ab", "-q", "-n", str(requests), "-c", str(connections), *options,
             f"http://127.0.0.1:{port}{uri}"], check=False, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            preexec_fn=prepare_child(cpus, connections + 100))
    except FileNotFoundError:
        raise BenchError("ab is not there (package apache2-utils)") from None
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {**read_summary(done.stdout, requests),
            "client_cpu": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime}
