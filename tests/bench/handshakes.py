#!/usr/bin/env python3
"""What a full handshake of TLS 1.3 costs Portunus, nginx, haproxy and the least program that there can be, with and without a session
ticket: instructions of each library (callgrind), which repeat exactly, and CPU time in alternating rounds. One key of P-256, X25519, one
small response for each connection; a connection that resumed a session is an error.

    tests/bench/handshakes.py [--rounds N] [--binary FILE] [--reference FILE]
"""

import argparse
import collections
import contextlib
import os
import re
import statistics
import subprocess
import sys
import tempfile

import haproxy
import loads
import minimal
import probes
from bench import choose_cpus
from row import Row
from servers import BenchError, Server, free_port

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAMS = os.path.join(HERE, "../../objs/bench")
COUNTED = (64, 320)     # handshakes of the two runs of which the difference is counted
LIBRARIES = ("libcrypto", "libssl", "libc")
ROW = Row("handshakes", "full handshakes", "", options=("-T", "-s"), tls="ecdsa")
CONF = """worker_processes 1; daemon off; master_process off; user root; pid logs/nginx.pid; error_log logs/error.log crit;
events {{ worker_connections 8192; }}
http {{
    access_log logs/access.log; keepalive_timeout 0; ssl_protocols TLSv1.2 TLSv1.3; ssl_session_tickets {tickets};
    ssl_certificate {tls}.crt; ssl_certificate_key {tls}.key;
    server {{ listen 127.0.0.1:{port} ssl backlog=65535; location / {{ empty_gif; }} }}
}}
"""
HAPROXY_CONF = """global
    nbthread 1
    maxconn 8000
defaults
    mode http
    timeout connect 60s
    timeout client 60s
    timeout server 60s
    option httpclose
frontend one
    bind 127.0.0.1:{port} ssl crt {tls}.pem
    http-request return status 200 content-type image/gif string "0123456789012345678901234567890123456789012"
"""
TEXTS = {"portunus": (CONF, "on"), "portunus, no ticket": (CONF, "off"), "nginx": (CONF, "on"), "nginx, no ticket": (CONF, "off"),
         "haproxy": (HAPROXY_CONF, "")}
MINIMAL = {"minimal, no ticket": "0", "minimal, one ticket": "1", "minimal, two tickets": "2"}


class Handshakes:
    """The servers, the client, and where they put their files."""

    def __init__(self, options, directory):
        self.options, self.directory = options, directory
        self.cpu, client_cpu = choose_cpus()
        self.client = loads.Client(loads.build(PROGRAMS), [{client_cpu}], directory)
        self.minimal = minimal.build(PROGRAMS)
        self.tls = f"{directory}/ecdsa"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "9",
                        "-subj", "/CN=localhost", "-keyout", f"{self.tls}.key", "-out", f"{self.tls}.crt"],
                       stderr=subprocess.DEVNULL, check=True)
        haproxy.certificate(ROW, directory)

    def sides(self):
        """The names of the servers."""
        return [side for side in (*TEXTS, *MINIMAL) if side != "haproxy" or os.path.exists(haproxy.HAPROXY)]

    def server(self, side, wrapper=()):
        """One server, to be entered."""
        prefix = f"{self.directory}/{side.replace(' ', '-')}"
        if side in MINIMAL:
            words = (f"{self.tls}.crt", f"{self.tls}.key", MINIMAL[side])
            return minimal.Minimal(self.minimal, prefix, {self.cpu}, words=words, wrapper=wrapper)
        port, (text, tickets) = free_port(), TEXTS[side]
        text = text.format(port=port, tls=self.tls, tickets=tickets)
        if side == "haproxy":
            return haproxy.Haproxy(haproxy.HAPROXY, prefix, text, port, {self.cpu}, wrapper=wrapper)
        binary = self.options.binary if side.startswith("portunus") else self.options.reference
        return Server(os.path.abspath(binary), prefix, text, port, {self.cpu}, wrapper=wrapper)

    def load(self, server, **amount):
        """Handshakes, all of them full. Gives what the client says."""
        answer = self.client.run(server, ROW, **amount)
        if answer["resumed"] or answer["handshakes"] < answer["requests"]:
            raise BenchError(f"{server.binary}: {answer['resumed']} handshakes resumed a session")
        return answer


def instructions(name):
    """Of a file of callgrind, by library; what is in none of LIBRARIES is the program's."""
    text = subprocess.run(["callgrind_annotate", "--threshold=100", "--auto=no", name], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                          text=True, check=True).stdout
    found = collections.Counter()
    for line in text.splitlines():
        match = re.match(r"\s*([\d,]+) \([^)]*\)\s+\S+:\S.*?(?: \[(.*)\])?$", line)
        if match and "PROGRAM TOTALS" not in line:
            library = os.path.basename(match[2] or "").partition(".")[0]
            found[library if library in LIBRARIES else "rest"] += int(match[1].replace(",", ""))
    return found


def count(bench, side):
    """Instructions of a handshake, by library."""
    found = []
    for amount in COUNTED:
        name = f"{bench.directory}/callgrind.{amount}"
        with bench.server(side, probes.callgrind(name)) as server:
            bench.load(server, requests=amount)
            server.stop()
        found.append(instructions(name))
    return {library: (found[1][library] - found[0][library]) / (COUNTED[1] - COUNTED[0]) for library in (*LIBRARIES, "rest")}


def cpu_times(bench):
    """CPU time of a handshake in µs, in alternating rounds: lists by the name of the server."""
    found = {side: [] for side in bench.sides()}
    with contextlib.ExitStack() as stack:
        servers = {side: stack.enter_context(bench.server(side)) for side in found}
        for turn in range(bench.options.rounds + 1):
            for side, server in servers.items():
                before = server.cpu_ns()
                answer = bench.load(server, seconds=0.3)
                if turn:
                    found[side].append((server.cpu_ns() - before) / 1000 / answer["requests"])
    return found


def main(arguments):
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default=os.path.join(HERE, "../../objs/nginx"))
    parser.add_argument("--reference", default="/usr/sbin/nginx")
    parser.add_argument("--rounds", type=int, default=9)
    with tempfile.TemporaryDirectory(prefix="portunus-handshakes-") as directory:
        os.chmod(directory, 0o755)
        bench = Handshakes(parser.parse_args(arguments), directory)
        times = cpu_times(bench) if bench.options.rounds else {}
        counts = {side: count(bench, side) for side in bench.sides()}
    print("| a full handshake | instructions | to nginx | " + " | ".join(LIBRARIES) + " | the rest | CPU µs | to nginx |")
    print("| --- |" + " ---: |" * (len(LIBRARIES) + 5))
    for side, found in counts.items():
        cells = [f"{sum(found.values()):,.0f}", f"{sum(found.values()) / sum(counts['nginx'].values()):.2f}",
                 *(f"{amount:,.0f}" for amount in found.values())]
        if times:
            ratios = [mine / others for mine, others in zip(times[side], times["nginx"])]
            cells += [f"{statistics.median(times[side]):,.0f}", f"{statistics.median(ratios):.2f}"]
        print(f"| {side} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main(sys.argv[1:])
