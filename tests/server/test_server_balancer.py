"""Nodes after haproxy as a balancer of connections: both versions of the PROXY protocol, its checks of `ready`, all nodes restarted under load."""

import csv
import os
import signal
import socket
import threading

import pytest

from harness import Client, ports, until
from harness.client import Closed
from harness.programs import Program, connects, find, home

HAPROXY = find("haproxy")
pytestmark = pytest.mark.skipif(HAPROXY is None, reason="no haproxy")

NODE = """real_ip_header proxy_protocol; set_real_ip_from 127.0.0.0/8;
    server { listen 127.0.0.1:@PORT@ proxy_protocol; location = /ready { access_log off; ready; } location / { return 200 "$remote_addr @PORT@"; } }"""
CONF = """
global
    stats socket %(dir)s/haproxy.sock
defaults
    mode tcp
    retries 3
    option redispatch
    timeout connect 20s
    timeout client 60s
    timeout server 60s
    timeout check 20s
listen nodes
    bind 127.0.0.1:%(port)d
    balance roundrobin
    option httpchk GET /ready
    http-check expect status 200
    default-server check inter 20ms fall 1 rise 1
    server n0 127.0.0.1:%(n0)d send-proxy
    server n1 127.0.0.1:%(n1)d send-proxy-v2
    server n2 127.0.0.1:%(n2)d send-proxy-v2
"""
CLIENT = "127.0.0.9"


class Balancer(Program):
    def __init__(self, nodes):
        self.taken = ports.take()
        self.port, folder = self.taken.number, home("balancer")
        self.socket = os.path.join(folder, "haproxy.sock")
        with open(os.path.join(folder, "haproxy.cfg"), "w", encoding="ascii") as out:
            out.write(CONF % {"dir": folder, "port": self.port, **{"n%d" % i: node.port for i, node in enumerate(nodes)}})
        super().__init__([HAPROXY, "-db", "-f", out.name], folder, lambda: connects(self.port) and connects(self.socket))

    def states(self):
        with socket.socket(socket.AF_UNIX) as sock:
            sock.settimeout(20)
            sock.connect(self.socket)
            sock.sendall(b"show stat\n")
            with sock.makefile("r", encoding="ascii") as source:
                return {row["svname"]: row["status"] for row in csv.DictReader(source)}

    def wait(self, name, state):
        until(lambda: self.states()[name] == state, lambda: "%s to be %s: %s" % (name, state, self.states()))


class Load:
    """Clients that ask all the time: one connects for each request, one keeps its connection until the response says that it ends."""

    def __init__(self, port):
        self.port, self.is_over, self.counts, self.failed, self.seen = port, False, [0, 0], [], set()
        self.threads = [threading.Thread(target=self._run, args=(number,), daemon=True) for number in range(2)]
        for thread in self.threads:
            thread.start()

    def _run(self, number):
        client = None
        while not self.is_over:
            try:
                client = client or Client(self.port, source=(CLIENT, 0))
                response = client.request("/", *["Connection: close"] * (number == 0))
                self.seen.add(response.text)
                if response.status != 200 or not response.text.startswith(CLIENT + " "):
                    self.failed.append(response.text)
                if response.header("Connection") == "close":
                    client = client.close()
                self.counts[number] += 1
            except (OSError, Closed) as error:
                self.failed.append(repr(error))
                client = client and client.close()

    def turn_over(self):
        """Waits until all clients have begun requests after now, and have their responses."""
        before = list(self.counts)
        until(lambda: all(now >= then + 3 for now, then in zip(self.counts, before)), lambda: "requests: %s" % self.failed[:3])

    def end(self):
        self.is_over = True
        for thread in self.threads:
            thread.join()


def test_all_nodes_are_restarted_and_no_request_fails(serve):
    nodes = [serve(NODE, main="shutdown_delay 1h;") for _ in range(3)]
    with Balancer(nodes) as balancer:
        names = ["n0", "n1", "n2"]
        for name in names:
            balancer.wait(name, "UP")
        load = Load(balancer.port)
        for name, node in zip(names, nodes):
            load.seen.clear()
            until(lambda one=node: "%s %d" % (CLIENT, one.port) in load.seen, "requests at the node")    # by its version of the protocol
            node.signal("quit")
            balancer.wait(name, "DOWN")
            load.turn_over()
            node.signal("quit")                                                   # the delay ends
            assert node.wait_end() == 0
            load.turn_over()
            node.start()
            balancer.wait(name, "UP")
        load.end()
        assert not load.failed, load.failed[:5]
        # one that dies: its connections end, all later ones go to the others
        os.killpg(nodes[0].process.pid, signal.SIGKILL)
        nodes[0].process.wait()
        balancer.wait("n0", "DOWN")
        load = Load(balancer.port)
        load.turn_over()
        load.end()
        assert not load.failed, load.failed[:5]
        nodes[0].start()
        balancer.wait("n0", "UP")
    balancer.taken.close()
