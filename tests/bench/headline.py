#!/usr/bin/env python3
"""The headline of `make bench`: short and kept connections, with one worker and with two, in some minutes.

Every change of accepting, of the loop or of the hot path shows this table before and after. In each round all servers
have their turn on one configuration, and the first one alternates. A ratio is that of Portunus to nginx, the median of
the rounds; where nginx has several ways to accept, it is compared with the best of them in the same round.
docs/performance.md says how far to trust the figures."""

import argparse
import contextlib
import csv
import os
import statistics
import sys
import tempfile
from dataclasses import dataclass

import ab
import backends
import loads
import minimal
import modes
import netns
import report
from bench import choose_cpus
from servers import BenchError, Server, descriptor_limit, free_port

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAMS = os.path.join(HERE, "../../objs/bench")
BEGIN, END = "<!-- headline:begin -->", "<!-- headline:end -->"
OURS, BEFORE, MINIMAL = "portunus", "before", (minimal.NAME, minimal.URING)
NGINX_WAYS = {"mutex": ("accept_mutex on;", ""), "reuseport": ("accept_mutex off;", " reuseport"),
              "shared": ("accept_mutex off;", "")}
CLIENT_IS_LIMIT = 0.9       # of its CPUs; above it the rate is the client's
FILES = 1000
CONF = """{main}worker_processes {workers};
daemon off;
user root;
pid logs/nginx.pid;
worker_rlimit_nofile 32768;
error_log logs/error.log crit;
events {{ worker_connections 16384; {events} }}
http {{
    access_log logs/access.log;
    keepalive_requests 1000000000;
    keepalive_timeout 300s;
    client_body_temp_path temp/body; proxy_temp_path temp/proxy; fastcgi_temp_path temp/fastcgi;
    uwsgi_temp_path temp/uwsgi; scgi_temp_path temp/scgi;
    upstream app {{ server {backend}; }}
    server {{
        listen 127.0.0.1:{port} backlog=65535{listen};
        root {root};
        location = /empty.gif {{ empty_gif; }}
        location /4k/ {{ }}
        location /heavy/ {{ gzip on; gzip_comp_level 9; gzip_types text/plain; }}
        location /proxied {{ proxy_pass http://app; }}
    }}
}}
"""


@dataclass(frozen=True)
class Row:
    """One line of the table. amount: requests of ab; 0 = the client runs for some seconds instead."""

    name: str
    title: str
    connections: int
    workers: int = 1
    is_pinned: bool = False
    is_short: bool = True
    uris: tuple = ("/empty.gif",)
    amount: int = 0
    is_heavy: bool = False
    host: str = "localhost"
    headers: tuple = ()
    streams: int = 0

    @property
    def options(self):
        """Of the load generator."""
        return ("-c", str(self.connections), *(("-s",) if self.is_short else ()))


ROWS = (
    *(Row(f"short-{count}", f"short, 1 worker, {count} client{'s' * (count > 1)}", count) for count in (1, 16, 100, 1000)),
    *(Row(f"ab1-{count}", f"short, 1 worker, `ab -c {count}`", count, amount=12000) for count in (100, 1000)),
    *(Row(f"ab2-{count}{'-pinned' * pinned}",
          f"short, 2 workers{', `worker_cpu_affinity auto`' * pinned}, `ab -c {count}`", count, workers=2,
          is_pinned=pinned, amount=15000) for pinned in (False, True) for count in (100, 1000)),
    *(Row(f"kept-{count}", f"kept, 1 worker, {count} client{'s' * (count > 1)}", count, is_short=False)
      for count in (1, 32, 1000)),
    Row("kept2-1000", "kept, 2 workers, 1000 clients", 1000, workers=2, is_short=False),
    Row("heavy", "light beside heavy, 4 workers", 16, workers=4, is_heavy=True),
    Row("files", f"{FILES} files of 4 KB, kept, 1 worker", 32, is_short=False,
        uris=tuple(f"/4k/{number:03d}.txt" for number in range(FILES))),
    Row("proxy", "proxy, the backend closes, 1 worker", 32, is_short=False, uris=("/proxied",)),
)


class Headline:
    """The binaries, the client, and where they put their files."""

    def __init__(self, options, directory):
        self.options, self.directory = options, directory
        self.root = f"{directory}/html"
        self.descriptors = descriptor_limit(40000)
        self.client = loads.Client(loads.build(PROGRAMS), [{0}], directory, descriptors=self.descriptors)
        self.programs = PROGRAMS
        self.minimal = {}
        if options.minimal:
            names = MINIMAL if minimal.has_io_uring() else MINIMAL[:1]
            self.minimal = {name: (minimal.build(PROGRAMS, name), "", "") for name in names}
        backends.build(PROGRAMS)
        modes.build(PROGRAMS)
        make_files(self.root)
        os.chmod(directory, 0o755)

    def sides(self, row):
        """The servers of a row: (binary, events, parameters of listen) by name."""
        found = {OURS: (self.options.binary, "", "")}
        if self.options.before:
            found[BEFORE] = (self.options.before, "", "")
        if row.workers == 1 and row.uris == Row.uris:
            found.update(self.minimal)
        if row.workers == 1:
            found["nginx"] = (self.options.reference, "", "")
        else:
            found.update({name: (self.options.reference, *words) for name, words in NGINX_WAYS.items()})
        return found

    @contextlib.contextmanager
    def server(self, row, side, backend):
        """One server, ready, on the CPUs of the row."""
        binary, events, listen = self.sides(row)[side]
        prefix = f"{self.directory}/{row.name}-{side}"
        if side in MINIMAL:
            with minimal.Minimal(binary, prefix, cpus_of(row)[0], self.descriptors) as server:
                yield server
            return
        port = free_port()
        text = CONF.format(main="worker_cpu_affinity auto;\n" if row.is_pinned else "", workers=row.workers, events=events,
                           listen=listen, port=port, root=self.root, backend=backend)
        with Server(os.path.abspath(binary), prefix, text, port, cpus_of(row)[0], self.descriptors) as server:
            server.wait_for_workers(row.workers)
            yield server


def make_files(root):
    """What is served."""
    for folder in ("4k", "heavy"):
        os.makedirs(f"{root}/{folder}")
    for number in range(FILES):
        with open(f"{root}/4k/{number:03d}.txt", "w", encoding="ascii") as file:
            file.write("x" * 4096)
    with open(f"{root}/heavy/text.txt", "wb") as file:
        file.write(modes.heavy_text())


def cpus_of(row):
    """The CPUs of the server and those of the client."""
    if row.workers == 1:
        server, client = choose_cpus()
        return {server}, {client}
    return modes.choose_cpus()


def run_ab(headline, row, server, cpus):
    """ab, with percentiles that are finer than a millisecond."""
    name = f"{headline.directory}/percentiles.csv"
    answer = ab.run(server.port, row.uris[0], row.amount, row.connections, cpus, ("-e", name))
    with open(name, encoding="ascii") as file:
        answer["latency_us"]["p99"] = next(1000 * float(line[1]) for line in csv.reader(file) if line[0] == "99")
    return answer


def run_load(headline, row, server):
    """One turn of load: what the client says."""
    cpus = cpus_of(row)[1]
    if row.amount:
        return run_ab(headline, row, server, cpus)
    headline.client.cpus = [cpus]
    if not row.is_heavy:
        return headline.client.run(server, row, seconds=headline.options.seconds)
    seconds = 3 * headline.options.seconds
    with modes.Pace(PROGRAMS, server.port, modes.HEAVY_RATE, seconds, "/heavy/text.txt", "Accept-Encoding: gzip") as pace:
        answer = headline.client.run(server, row, seconds=seconds)
    if pace.failed:
        raise BenchError(f"{server.binary}: {pace.failed} heavy requests failed")
    return answer


def measure_once(headline, row, server):
    """Rate, CPU time and 99th percentile of one turn."""
    cpu = server.cpu_ns()
    answer = run_load(headline, row, server)
    cpu = server.cpu_ns() - cpu
    seconds = answer["requests"] / answer["rps"]
    return {"rps": answer["rps"], "cpu_us": cpu / 1000 / answer["requests"], "p99_us": answer["latency_us"]["p99"],
            "client_busy": answer["client_cpu"] / seconds}


def measure_row(headline, row):
    """Rounds in which the servers alternate: lists of figures by the name of the server."""
    found = {side: [] for side in headline.sides(row)}
    with contextlib.ExitStack() as stack:
        backend = "127.0.0.1:9"
        if row.name == "proxy":
            backend = stack.enter_context(backends.started(("http", "-c"), headline.directory, PROGRAMS,
                                                           cpus_of(row)[1], headline.descriptors)).address
        servers = {side: stack.enter_context(headline.server(row, side, backend)) for side in found}
        for server in servers.values():
            run_load(headline, row, server)
        order = list(servers)
        for turn in range(headline.options.rounds):
            for side in order[turn % len(order):] + order[:turn % len(order)]:
                found[side].append(measure_once(headline, row, servers[side]))
    return found


def enter_network():
    """A network of our own, in which no connection waits in TIME_WAIT: a port that has many of them makes connect()
    dearer for the client, twice as dear, and which server has such a port is chance."""
    if os.geteuid() == 0:
        netns.enter()
        with open("/proc/sys/net/ipv4/tcp_max_tw_buckets", "w", encoding="ascii") as file:
            file.write("0")


# --- the table ---

def best_of_nginx(found, turn, key):
    """The best of nginx's ways in one round: the highest rate, the least of anything else."""
    values = [rounds[turn][key] for side, rounds in found.items() if side not in (OURS, BEFORE, *MINIMAL)]
    return max(values) if key == "rps" else min(values)


def ratio(found, key, side=OURS):
    """Of Portunus to the best of nginx, round by round; the median."""
    return statistics.median(one[key] / best_of_nginx(found, turn, key) for turn, one in enumerate(found[side]))


def target_missed(row, found):
    """What the row has to reach and did not; an empty text if all is well."""
    client = statistics.median(one["client_busy"] for one in found[OURS])
    missed = []
    if row.is_heavy:
        if ratio(found, "p99_us") > 1.1:
            missed.append("p99 ≤ 1.1")
        if ratio(found, "rps") < 1:
            missed.append("rate ≥ 1.0")
    elif row.workers > 1:
        if ratio(found, "rps") < 1.05:
            missed.append("rate ≥ 1.05")
    else:
        if ratio(found, "cpu_us") > 0.9:
            missed.append("CPU ≤ 0.90")
        if ratio(found, "rps") < 1:
            missed.append("rate ≥ 1.0")
    return ", ".join(missed) + (" (the client is the limit)" if missed and client > CLIENT_IS_LIMIT else "")


def line_of(row, found, side=OURS):
    """A line of the table."""
    mine = found[side]
    cells = [row.title + ("" if side == OURS else f" ({side})")]
    for key, scale, digits in (("rps", 1, 0), ("cpu_us", 1, 1), ("p99_us", 1000, 2)):
        cells.append(f"{statistics.median(one[key] for one in mine) / scale:,.{digits}f}")
        cells.append(f"{ratio(found, key, side):.2f}")
    others = "; ".join(f"{name} {statistics.median(one['rps'] for one in rounds):,.0f}" for name, rounds in found.items()
                       if name not in (OURS, BEFORE, *MINIMAL))
    cells += [others, target_missed(row, found) or "met" if side == OURS else ""]
    return "| " + " | ".join(cells) + " |"


HEADER = """| row | requests/s | rate to nginx | CPU µs | CPU to nginx | p99 ms | p99 to nginx | nginx, requests/s | to reach |
| --- | ---: | ---: | ---: | ---: | ---: | ---: | --- | --- |"""


def parse_options(arguments):
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--binary", default=os.environ.get("TEST_NGINX_BINARY", os.path.join(HERE, "../../objs/nginx")))
    parser.add_argument("--reference", default="/usr/sbin/nginx", help="the server to judge it by")
    parser.add_argument("--before", metavar="BINARY", help="another build of ours, in the same rounds")
    parser.add_argument("--minimal", action="store_true", help="also the least programs that there can be, on epoll and on io_uring, in rows of one worker")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.6, help="of load on each server in a round")
    parser.add_argument("--rows", type=lambda text: text.split(","), help="names of rows, a,b")
    parser.add_argument("--write", metavar="FILE", help="puts the table between its markers")
    options = parser.parse_args(arguments)
    names = [row.name for row in ROWS]
    options.rows = options.rows or names
    if set(options.rows) - set(names):
        parser.error(f"rows are {','.join(names)}")
    return options


def main(arguments):
    """Gives the exit status: 1 if a row failed."""
    options = parse_options(arguments)
    lines, failures = [], 0
    print(HEADER, flush=True)
    enter_network()
    with tempfile.TemporaryDirectory(prefix="portunus-headline-") as directory:
        headline = Headline(options, directory)
        for row in ROWS:
            if row.name not in options.rows:
                continue
            try:
                found = measure_row(headline, row)
            except BenchError as error:
                print(f"headline: {row.name}: {error}", file=sys.stderr)
                failures += 1
                continue
            fresh = [line_of(row, found, side) for side in (OURS, BEFORE, *MINIMAL) if side in found]
            print("\n".join(fresh), flush=True)
            lines += fresh
    if options.write:
        report.write_between_markers(options.write, "\n".join([HEADER, *lines]), BEGIN, END)
    return int(failures > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
