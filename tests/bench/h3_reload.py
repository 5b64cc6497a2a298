#!/usr/bin/env python3
"""Connections of HTTP/3 (h3client, on quic-go) that transfer while the server reloads six times, with 4, 1 and 4 workers in turn: how many are
lost, or were opened again. With "handshakes" all of them begin at one moment instead, with one small response each.

    tests/bench/h3_reload.py [BINARY] [CONNECTIONS] [handshakes]
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time

import h3

SIZE = 400_000  # bytes of each transfer: 20 seconds
SMALL = 100     # and of a small response
WORKERS = (1, 4, 4, 1, 4, 4)
CONF = """daemon off; pid nginx.pid; error_log error.log warn; worker_processes 4; user root;
events { worker_connections 4096; }
http { access_log off; ssl_certificate c.pem; ssl_certificate_key k.pem; limit_rate 20k;
server { listen 127.0.0.1:%d quic reuseport; listen 127.0.0.1:%d ssl; root html; } }
"""


def workers_of(server):
    with open("/proc/%d/task/%d/children" % (server.process.pid, server.process.pid), encoding="ascii") as file:
        return set(file.read().split())


def reload(server, workers):
    """Returns when so many workers are there that were not there before."""
    before = workers_of(server)
    with open(server.directory + "/nginx.conf", "w", encoding="ascii") as file:
        file.write(CONF.replace("worker_processes 4", "worker_processes %d" % workers) % (server.port, server.port))
    server.process.send_signal(signal.SIGHUP)
    end = time.monotonic() + 60
    while len(workers_of(server) - before) < workers:
        if time.monotonic() > end:
            raise SystemExit("the server did not reload")
        time.sleep(0.02)


def transfers(server, count):
    with open(server.directory + "/html/slow", "wb") as file:
        file.write(os.urandom(SIZE))
    with subprocess.Popen([h3.CLIENT, "transfers", "-c", str(count), "https://127.0.0.1:%d/slow" % server.port],
                          stdout=subprocess.PIPE) as client:
        client.stdout.readline()
        for workers in WORKERS:
            reload(server, workers)
        return json.loads(client.stdout.readline())


def handshakes(server, count):
    """At one moment; the reloads follow each other while they are under way."""
    with subprocess.Popen([h3.CLIENT, "hold", "-c", str(count), "https://127.0.0.1:%d/small" % server.port],
                          stdout=subprocess.PIPE) as client:
        for workers in WORKERS:
            time.sleep(0.3)
            reload(server, workers)
        return json.loads(client.stdout.readline())


def main():
    binary = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else os.path.join(h3.ROOT, "objs", "nginx"))
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 1000
    is_burst = sys.argv[3:] == ["handshakes"]
    size = SMALL if is_burst else SIZE
    with tempfile.TemporaryDirectory() as directory:
        h3.CONF = CONF
        server = h3.Server(binary, directory)
        try:
            result = handshakes(server, count) if is_burst else transfers(server, count)
        finally:
            server.close()
    print("%d connections, opened %d times; %d transfers failed %s; %d of %d bytes" %
          (count, result["Dialled"], result["Failed"], result.get("Error", ""), result["Bytes"], count * size))
    if result["Failed"] or result["Dialled"] != count or result["Bytes"] != count * size:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
