#!/usr/bin/env python3
"""HTTP/3 by a client that is not ours (h3client, on quic-go), and HTTP/2 over TLS by h2load beside it: CPU time of the server for
a small answer, a byte and a handshake; memory of an idle connection. The same of other servers of HTTP/3 where they are there: quic-go's
(by h3client), and ngtcp2's (the program `gtlsserver` of Debian's ngtcp2-server, in PATH or GTLSSERVER).

The sender pays for what the loopback device does for a receiver, so a download is measured with two clients: quic-go's reads datagrams one by
one, a Portunus that passes responses on (the relay) reads them joined (UDP_GRO). Beside both is the least that a program can do
(datagram_floor.c): it reads a file, seals packets and sends them, and reads acknowledgements.

All take turns in each round, so that what else the machine does meets all alike; a ratio is the median of the rounds' ratios.

    tests/bench/h3.py [BINARY] [ROUNDS]
"""

import contextlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
sys.path.insert(0, os.path.join(ROOT, "tests"))

import loads                    # noqa: E402  pylint: disable=wrong-import-position
import memory                   # noqa: E402  pylint: disable=wrong-import-position
from harness import ports       # noqa: E402  pylint: disable=wrong-import-position

CLIENT = os.path.join(ROOT, "objs-tools", "h3client")
SMALL, LARGE = 100, 10_000_000
IDLE = 2000     # connections
CONF = """daemon off; pid nginx.pid; error_log error.log warn; worker_processes 1; user root;
events { worker_connections 4096; }
http { access_log off; ssl_certificate c.pem; ssl_certificate_key k.pem; keepalive_requests 1000000; quic_gso on;
server { listen 127.0.0.1:%d quic reuseport; listen 127.0.0.1:%d ssl; http2 on; root html; } }
"""

RELAY_CONF = """daemon off; pid relay.pid; error_log relay.log warn; worker_processes 1; user root; events { }
http { access_log off; server { listen 127.0.0.1:%d; location / { proxy_pass https://127.0.0.1:%d; proxy_http_version 3;
proxy_max_temp_file_size 0; proxy_buffers 8 64k; } } }
"""
PROGRAMS = os.path.join(ROOT, "objs", "bench")
DATAGRAM, TRAIN = 1452, 40      # bytes that h3client takes at most; datagrams that the server sends at once


def certificate(directory):
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj",
                    "/CN=localhost", "-keyout", directory + "/k.pem", "-out", directory + "/c.pem"], check=True,
                   stderr=subprocess.DEVNULL)


class Server:
    """The binary with one worker, in a directory of its own."""

    def __init__(self, binary, directory):
        self.directory, self.held = directory, ports.take()
        self.port = self.held.number
        os.mkdir(directory + "/html")
        for name, size in ("small", SMALL), ("large", LARGE):
            with open(directory + "/html/" + name, "wb") as file:
                file.write(os.urandom(size))
        certificate(directory)
        with open(directory + "/nginx.conf", "w", encoding="ascii") as file:
            file.write(CONF % (self.port, self.port))
        self.process = subprocess.Popen([binary, "-p", directory + "/", "-c", "nginx.conf", "-e", "error.log"])
        self.worker = self.find_worker()
        self.relay = None

    def find_worker(self):
        path = "/proc/%d/task/%d/children" % (self.process.pid, self.process.pid)
        end = time.monotonic() + 10
        while time.monotonic() < end:
            with open(path, encoding="ascii") as file:
                children = file.read().split()
            if children:
                return int(children[0])
            time.sleep(0.01)
        raise SystemExit("the server has no worker")

    def cpu(self):
        return cpu_of(self.worker)

    def close(self):
        self.process.terminate()
        self.process.wait()
        self.held.close()


class Relay:
    """The binary as a client of HTTP/3: it passes responses of a Server on, in the clear."""

    def __init__(self, binary, server):
        self.held = ports.take()
        with open(server.directory + "/relay.conf", "w", encoding="ascii") as file:
            file.write(RELAY_CONF % (self.held.number, server.port))
        self.process = subprocess.Popen([binary, "-p", server.directory + "/", "-c", "relay.conf", "-e", "relay.log"])

    def close(self):
        self.process.terminate()
        self.process.wait()
        self.held.close()


class Other:
    """A server of others that gives the files of a Server's directory."""

    def __init__(self, command, port, server, **environment):
        self.port, self.directory = port, server.directory
        self.process = subprocess.Popen(command, cwd=server.directory, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                        env={**os.environ, **environment})

    def cpu(self):
        return cpu_of(self.process.pid)

    def close(self):
        self.process.terminate()
        self.process.wait()


def cpu_of(pid):
    """Seconds that all threads of a process have used, their kernel time as well."""
    total = 0
    for task in os.listdir("/proc/%d/task" % pid):
        with open("/proc/%d/task/%s/schedstat" % (pid, task), encoding="ascii") as file:
            total += int(file.read().split()[0])
    return total / 1e9


def others(server, stack):
    """Servers of others by name, as far as they are there."""
    found = {}
    for name, command in (
            ("quic-go", [CLIENT, "serve", "html", "127.0.0.1:%d", "c.pem", "k.pem"]),
            ("ngtcp2", [os.environ.get("GTLSSERVER") or shutil.which("gtlsserver"), "-q", "-d", "html", "127.0.0.1", "%d", "k.pem",
                        "c.pem"])):
        if command[0] is None:
            continue
        held = ports.take()
        stack.callback(held.close)
        other = Other([word.replace("%d", str(held.number)) for word in command], held.number, server, GOMAXPROCS="1")
        stack.callback(other.close)
        found[name] = other
    return found


def by_h3(server, mode, path, *options):
    """Gives requests and the server's CPU time."""
    before = server.cpu()
    done = subprocess.run([CLIENT, mode, *options, "https://127.0.0.1:%d/%s" % (server.port, path)], check=True,
                          stdout=subprocess.PIPE)
    result = json.loads(done.stdout)
    if result["Failed"]:
        raise SystemExit(result["Error"])
    return result["Requests"], server.cpu() - before


def by_h2(server, path, requests, *options):
    return by_h2load(server, "https://127.0.0.1:%d/%s" % (server.port, path), requests, *options)


def by_relay(server, path, requests):
    return by_h2load(server, "http://127.0.0.1:%d/%s" % (server.relay.held.number, path), requests, "--h1", "-c", "1")


def by_h2load(server, url, requests, *options):
    before = server.cpu()
    done = subprocess.run(["h2load", "-n", str(requests), *options, url], check=True, stdout=subprocess.PIPE, encoding="ascii")
    if "%d succeeded" % requests not in done.stdout:
        raise SystemExit(done.stdout)
    return requests, server.cpu() - before


def floor_program():
    """datagram_floor, compiled as configure does it: with libipsec-mb where it is installed. Gives also the word for how it seals."""
    has_mb = os.path.exists("/usr/include/intel-ipsec-mb.h")
    libraries = ("-lcrypto", "-DHAVE_IPSEC_MB", "-lIPSec_MB") if has_mb else ("-lcrypto",)
    return loads.compile_program(PROGRAMS, "datagram_floor", ("datagram_floor.c",), libraries), "mb" if has_mb else "seal"


def by_floor(server, way):
    """Gives a number of downloads of the large file, and the CPU time of datagram_floor for as many bytes."""
    program, seal = floor_program()
    done = subprocess.run([program, "read,%s,%s" % (seal, way), str(DATAGRAM), str(TRAIN), str(40 * LARGE / 1e6),
                           server.directory + "/html/large"], check=True, stdout=subprocess.PIPE)
    return 40, 40 * LARGE / 1e9 / json.loads(done.stdout)["gigabytes_a_second"]


# What it is, its unit, and how it is had of requests and seconds; the load by HTTP/3 and by HTTP/2; how datagram_floor sends, where it is
# compared.
ROWS = [
    ("small answers, QPACK's tables", "us each", lambda n, s: 1e6 * s / n,
     lambda server: by_h3(server, "bare", "small", "-n", "40000", "-c", "4", "-m", "32"),
     lambda server: by_h2(server, "small", 40000, "-c", "4", "-m", "32"), None),
    ("small answers, 4 x 32 streams", "us each", lambda n, s: 1e6 * s / n,
     lambda server: by_h3(server, "load", "small", "-n", "40000", "-c", "4", "-m", "32"),
     lambda server: by_h2(server, "small", 40000, "-c", "4", "-m", "32"), None),
    ("10 MB downloads", "ms each", lambda n, s: 1e3 * s / n,
     lambda server: by_h3(server, "load", "large", "-n", "40"),
     lambda server: by_h2(server, "large", 40, "-c", "1", "-m", "1"), "send"),
    ("10 MB downloads, joined", "ms each", lambda n, s: 1e3 * s / n,
     lambda server: by_relay(server, "large", 40),
     lambda server: by_h2(server, "large", 40, "-c", "1", "-m", "1"), "join"),
    ("full handshakes", "us each", lambda n, s: 1e6 * s / n,
     lambda server: by_h3(server, "handshakes", "small", "-n", "1000", "-c", "4"),
     lambda server: by_h2(server, "small", 1000, "-c", "1000", "-r", "750"), None),
]
OURS_ALONE = ("small answers, QPACK's tables", "10 MB downloads, joined")   # quic-go's client takes no entries of QPACK's table


def measure(server, compared, rounds):
    for name, unit, figure, h3, h2, floor in ROWS:
        taken = {}
        for _ in range(rounds):
            taken.setdefault("HTTP/3", []).append(figure(*h3(server)))
            taken.setdefault("HTTP/2", []).append(figure(*h2(server)))
            if floor is not None:
                taken.setdefault("floor", []).append(figure(*by_floor(server, floor)))
            for who, other in (compared if name not in OURS_ALONE else {}).items():
                taken.setdefault(who, []).append(figure(*h3(other)))
        ours = taken.pop("HTTP/3")
        line = "%-30s HTTP/3 %8.2f %s" % (name, statistics.median(ours), unit)
        for who, figures in taken.items():
            ratios = sorted(one / other for one, other in zip(ours, figures))
            line += ";  %s %.2f, ratio %.2f (%.2f to %.2f)" % (who, statistics.median(figures), statistics.median(ratios),
                                                               ratios[len(ratios) // 4], ratios[(3 * len(ratios)) // 4])
        print(line, flush=True)


def measure_idle(server):
    """Resident memory of a connection that has had one answer, what OpenSSL has of it included."""
    before = memory.of_processes([server.worker])
    with subprocess.Popen([CLIENT, "idle", "-c", str(IDLE), "https://127.0.0.1:%d/small" % server.port], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE) as client:
        result = json.loads(client.stdout.readline())
        if result["Failed"]:
            raise SystemExit(result["Error"])
        time.sleep(3)   # the last acknowledgements, and pages that the allocator gives back
        more = memory.growth(before, memory.of_processes([server.worker]))
        print("%-30s HTTP/3 %8.0f bytes resident each, OpenSSL's included" % ("%d idle connections" % IDLE, more["Rss"] / IDLE))
        client.stdin.close()


def main():
    binary = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else os.path.join(ROOT, "objs", "nginx"))
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 5
    if not os.access(CLIENT, os.X_OK):
        raise SystemExit("objs-tools/h3client is not there: auto/h3client builds it")
    with tempfile.TemporaryDirectory() as directory, contextlib.ExitStack() as stack:
        server = Server(binary, directory)
        stack.callback(server.close)
        server.relay = Relay(binary, server)
        stack.callback(server.relay.close)
        measure_idle(server)
        measure(server, others(server, stack), rounds)


if __name__ == "__main__":
    main()
