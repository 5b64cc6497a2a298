#!/usr/bin/env python3
"""Goodput over a path with delay and loss: one download by HTTP/2 (the kernel's CUBIC) and by HTTP/3 (CUBIC, BBR). Packets go through two
TUN devices in network namespaces of our own, since not every kernel has netem. Needs root.

    tests/bench/lossy.py [BINARY] [LOSS_PERCENT] [RTT_MS] [MBIT]
"""

import collections
import ctypes
import fcntl
import os
import random
import select
import struct
import subprocess
import sys
import tempfile
import time

import h3

SERVER, CLIENT = "10.9.0.1", "10.9.0.2"
TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454ca, 1, 0x1000
CLONE_NEWNET = 0x40000000
SIZE = 4_000_000
CONF = """daemon off; pid nginx.pid; error_log error.log warn; user root; events { }
http { access_log off; ssl_certificate c.pem; ssl_certificate_key k.pem; quic_congestion_control %s;
server { listen 10.9.0.1:443 quic; listen 10.9.0.1:443 ssl; http2 on; root html; } }
"""


def enter(name, address):
    """A network of our own with a TUN device; gives its descriptor."""
    if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNET) != 0:
        raise SystemExit("a network namespace needs root: " + os.strerror(ctypes.get_errno()))
    tun = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(tun, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TUN | IFF_NO_PI))
    for words in (["link", "set", "lo", "up"], ["addr", "add", address + "/24", "dev", name],
                  ["link", "set", name, "txqueuelen", "2000", "up"]):
        subprocess.run(["ip", *words], check=True)
    return tun


class Way:
    """One direction: a queue of one bandwidth-delay product, a rate, half of the delay, losses."""

    def __init__(self, source, sink, path):
        self.source, self.sink = source, sink
        self.loss, self.delay, self.rate = path
        self.waiting = collections.deque()  # (when it arrives, bytes)
        self.free_at = 0.0                  # when the line has sent all

    def read(self):
        now = time.monotonic()
        while True:
            try:
                packet = os.read(self.source, 65536)
            except BlockingIOError:
                return
            self.free_at = max(self.free_at, now)
            if random.random() < self.loss or self.free_at - now > 2 * self.delay:
                continue
            self.free_at += len(packet) / self.rate
            self.waiting.append((self.free_at + self.delay, packet))

    def write(self):
        now = time.monotonic()
        while self.waiting and self.waiting[0][0] <= now:
            os.write(self.sink, self.waiting.popleft()[1])


def relay(one, other, path):
    ways = [Way(one, other, path), Way(other, one, path)]
    while True:
        due = min((way.waiting[0][0] for way in ways if way.waiting), default=time.monotonic() + 1)
        for fd in select.select([one, other], [], [], max(0.0, due - time.monotonic()))[0]:
            ways[fd == other].read()
        for way in ways:
            way.write()


def goodput(command):
    """Mbit/s of the payload, the handshake included."""
    start = time.monotonic()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=300)
    return SIZE * 8 / 1e6 / (time.monotonic() - start)


def main(binary, loss, rtt_ms, mbit):
    binary = os.path.abspath(binary)
    directory = tempfile.mkdtemp()
    os.mkdir(directory + "/html")
    with open(directory + "/html/large", "wb") as file:
        file.write(os.urandom(SIZE))
    h3.certificate(directory)
    one = enter("lossy0", SERVER)
    subprocess.run(["ip", "route", "replace", "10.9.0.0/24", "dev", "lossy0", "src", SERVER, "congctl", "cubic"], check=True)
    url = "https://%s/large" % SERVER
    rows = (("HTTP/2, CUBIC", "cubic", ["h2load", "-n", "1", "-c", "1", "-m", "1", url]),
            ("HTTP/3, CUBIC", "cubic", [h3.CLIENT, "load", "-n", "1", url]),
            ("HTTP/3, BBR", "bbr", [h3.CLIENT, "load", "-n", "1", url]))
    ours = os.open("/proc/self/ns/net", os.O_RDONLY)
    other = enter("lossy1", CLIENT)
    theirs = os.open("/proc/self/ns/net", os.O_RDONLY)
    pid = os.fork()
    if pid == 0:
        relay(one, other, (loss / 100, rtt_ms / 2000, mbit * 1e6 / 8))
    setns = ctypes.CDLL(None).setns
    try:
        for label, control, command in rows:
            with open(directory + "/nginx.conf", "w", encoding="ascii") as file:
                file.write(CONF % control)
            setns(ours, 0)
            server = subprocess.Popen([binary, "-p", directory + "/", "-c", "nginx.conf", "-e", "error.log"])
            setns(theirs, 0)
            try:
                time.sleep(1)
                rates = sorted(goodput(command) for _ in range(5))
                print("%-14s %6.1f Mbit/s  (%.1f to %.1f)" % (label, rates[2], rates[0], rates[-1]), flush=True)
            finally:
                server.terminate()
                server.wait()
    finally:
        os.kill(pid, 9)
        os.waitpid(pid, 0)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "objs/nginx", *[float(word) for word in sys.argv[2:5]] or (1.0, 50.0, 50.0))
