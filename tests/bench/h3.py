#!/usr/bin/env python3
"""HTTP/3 by a client that is not ours (h3client, on quic-go), and HTTP/2 over TLS by h2load beside it: CPU time of the server for
a small answer, a byte and a handshake.

    tests/bench/h3.py [BINARY] [ROUNDS]
"""

import json
import os
import subprocess
import sys
import tempfile
import time

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
sys.path.insert(0, os.path.join(ROOT, "tests"))

from harness import ports       # noqa: E402  pylint: disable=wrong-import-position

CLIENT = os.path.join(ROOT, "objs-tools", "h3client")
SMALL, LARGE = 100, 10_000_000
CONF = """daemon off; pid nginx.pid; error_log error.log warn; worker_processes 1; user root;
events { worker_connections 4096; }
http { access_log off; ssl_certificate c.pem; ssl_certificate_key k.pem; keepalive_requests 1000000; quic_gso on;
server { listen 127.0.0.1:%d quic reuseport; listen 127.0.0.1:%d ssl; http2 on; root html; } }
"""
TICKS = os.sysconf("SC_CLK_TCK")


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
        """Seconds that the worker has used, its kernel time as well."""
        with open("/proc/%d/stat" % self.worker, encoding="ascii") as file:
            words = file.read().rsplit(")", 1)[1].split()
        return (int(words[11]) + int(words[12])) / TICKS

    def close(self):
        self.process.terminate()
        self.process.wait()
        self.held.close()


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
    before = server.cpu()
    done = subprocess.run(["h2load", "-n", str(requests), *options, "https://127.0.0.1:%d/%s" % (server.port, path)], check=True,
                          stdout=subprocess.PIPE, encoding="ascii")
    if "%d succeeded" % requests not in done.stdout:
        raise SystemExit(done.stdout)
    return requests, server.cpu() - before


ROWS = [
    ("small answers, 4 x 32 streams", "us each", lambda n, s: 1e6 * s / n,
     lambda server: by_h3(server, "load", "small", "-n", "100000", "-c", "4", "-m", "32"),
     lambda server: by_h2(server, "small", 100000, "-c", "4", "-m", "32")),
    ("10 MB downloads", "GB a second", lambda n, s: n * LARGE / 1e9 / s,
     lambda server: by_h3(server, "load", "large", "-n", "100"),
     lambda server: by_h2(server, "large", 100, "-c", "1", "-m", "1")),
    ("full handshakes", "us each", lambda n, s: 1e6 * s / n,
     lambda server: by_h3(server, "handshakes", "small", "-n", "1500", "-c", "4"),
     lambda server: by_h2(server, "small", 1500, "-c", "1500", "-r", "750")),
]


def main():
    binary = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else os.path.join(ROOT, "objs", "nginx"))
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 3
    if not os.access(CLIENT, os.X_OK):
        raise SystemExit("objs-tools/h3client is not there: auto/h3client builds it")
    with tempfile.TemporaryDirectory() as directory:
        server = Server(binary, directory)
        try:
            for name, unit, figure, h3, h2 in ROWS:
                of_h3 = sorted(figure(*h3(server)) for _ in range(rounds))[rounds // 2]
                of_h2 = sorted(figure(*h2(server)) for _ in range(rounds))[rounds // 2]
                print("%-30s HTTP/3 %8.2f  HTTP/2 %8.2f  %s" % (name, of_h3, of_h2, unit))
        finally:
            server.close()


if __name__ == "__main__":
    main()
