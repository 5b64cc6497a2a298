"""Redis servers for the tests of stores: standalone, with sentinels, and a cluster. Skips where redis-server is not installed."""

import contextlib
import os
import socket

import pytest

from harness import ports
from harness.wait import until
from harness.programs import Program, connects, find, home, own, run

REDIS = find("redis-server")

needs_redis = pytest.mark.skipif(REDIS is None, reason="redis-server is not installed")


class Redis(Program):
    """A server on a port of its own; `ask` sends one command and gives the reply's lines."""

    def __init__(self, *lines, port=None, sentinel=False):
        self.port = port or ports.take().number
        folder = home("redis")
        config = os.path.join(folder, "redis.conf")
        with open(config, "w", encoding="ascii") as file:
            file.write("\n".join(("port %d" % self.port, "bind 127.0.0.1", "save ''", "dir %s" % folder) + lines) + "\n")
        own(folder)
        super().__init__([REDIS, config] + (["--sentinel"] if sentinel else []), folder, ready=lambda: connects(self.port))

    def ask(self, *words):
        with contextlib.closing(socket.create_connection(("127.0.0.1", self.port), 15)) as conn:
            conn.sendall(b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in (str(w).encode("utf-8", "surrogateescape") for w in words)))
            with conn.makefile("rb") as replies:
                return self._reply(replies)

    def _reply(self, replies):
        line = replies.readline()
        kind, rest = line[:1], line[1:].strip().decode()
        if kind == b"$":
            return None if rest == "-1" else replies.read(int(rest) + 2)[:-2].decode("utf-8", "surrogateescape")
        if kind == b"*":
            return None if rest == "-1" else [self._reply(replies) for _ in range(int(rest))]
        return int(rest) if kind == b":" else rest

    def keys(self):
        return sorted(self.ask("KEYS", "*"))

    def ttls(self):
        """The TTL of each key: nothing of ours may stay for ever."""
        return [self.ask("PTTL", key) for key in self.keys()]


def cluster_of(count):
    """Servers that form a cluster without replicas, started. The caller stops them."""
    servers = []
    for _ in range(count):
        port = ports.take().number
        servers.append(Redis("cluster-enabled yes", "cluster-node-timeout 2000", "cluster-port %d" % ports.take().number, port=port).start())
    run([find("redis-cli"), "--cluster", "create", *["127.0.0.1:%d" % server.port for server in servers], "--cluster-yes"],
        servers[0].directory)
    for server in servers:
        until(lambda one=server: "cluster_state:ok" in one.ask("CLUSTER", "INFO"), "the cluster is not ready")
    return servers
