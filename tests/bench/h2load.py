"""HTTP/2 load by nghttp2's h2load, for the rows that name a number of streams."""

import re
import resource
import subprocess

from rows import GRPC_HEADERS
from servers import BenchError, prepare_child

FIRST_RATE = 2000       # requests per second of a server that nothing is known of
UNITS = {"": 1, "us": 1e-6, "ms": 1e-3, "s": 1}


def number_of(pattern, text):
    """The number that a pattern finds in h2load's summary, in seconds where it has a unit."""
    found = re.search(pattern + r"([0-9.]+)(us|ms|s|)\b", text)
    if found is None:
        raise BenchError(f"h2load: {' '.join(text.split())[-200:] or 'nothing'}")
    return float(found[1]) * UNITS[found[2]]


def read_summary(text, requests, body_size):
    """What h2load says of a run, as the load generator of our own would. Each request must have had
    status 2xx and as many bytes as it should."""
    seconds = number_of("finished in ", text)
    done = number_of(" done, ", text)
    good = number_of("status codes: ", text)
    size = number_of(r"headers \(.*\), \S+ \(", text)
    if not done == good == requests:
        raise BenchError(f"h2load: {done:.0f} of {requests} requests succeeded, "
                         f"{good:.0f} with status 2xx")
    if body_size is not None and size != requests * body_size:
        raise BenchError(f"h2load: {size:.0f} bytes of {requests} bodies of {body_size}")
    return {"requests": requests, "seconds": seconds, "rps": requests / seconds,
            "latency_us": {"mean": 1e6 * number_of(r"time for request: +\S+ +\S+ +", text)}}


class H2load:
    """The program, pinned to a set of CPUs. It counts requests, not time, because at the end of a
    time it would leave unanswered what a server has worked at: a time is made a number by what the
    server did before."""

    def __init__(self, cpus, directory, connections, descriptors):
        self.directory, self.connections = directory, connections
        self.prepare = prepare_child(cpus, descriptors)
        self.rates = {}     # requests per second, by port

    def command(self, row, port, requests):
        """The command line for a row."""
        command = ["h2load", "-n", str(requests), "-c", str(row.connections or self.connections),
                   "-m", str(row.streams), "-H", f":authority: {row.host}"]
        if row.message:
            name = f"{self.directory}/{row.name}.message"
            with open(name, "wb") as file:
                file.write(row.message)
            command += ["-d", name]
            for header in GRPC_HEADERS:
                command += ["-H", ": ".join(header)]
        scheme = "https" if row.tls else "http"
        return [*command, *(f"{scheme}://127.0.0.1:{port}{uri}" for uri in row.uris)]

    def run(self, server, row, seconds=None, requests=None):
        """Makes load for some seconds or requests; says what came of it."""
        least = (row.connections or self.connections) * row.streams
        requests = requests or max(least, round(
            seconds * self.rates.get(server.port, FIRST_RATE)))
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        try:
            done = subprocess.run(self.command(row, server.port, requests), check=False,
                                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True, preexec_fn=self.prepare)
        except FileNotFoundError:
            raise BenchError("h2load is not there (package nghttp2-client)") from None
        try:
            answer = read_summary(done.stdout, requests, row.body_size)
        except BenchError as error:
            raise BenchError(f"{server.binary}, row {row.name}: {error}") from None
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        self.rates[server.port] = answer["rps"]
        return {**answer, "client_cpu": after.ru_utime + after.ru_stime - before.ru_utime
                - before.ru_stime}
