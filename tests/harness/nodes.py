"""Nodes that share a store: what they have in a keyval zone, by the API, and what the store has."""

import json

from harness.wait import until

ZONE = """keyval_zone zone=z:%s %s sync; keyval $arg_k $value zone=z;
    server { listen 127.0.0.1:@PORT@; location /api { api write=on; } location = /metrics { metrics; } location / { return 200 "$value"; } }"""


def zone(words="", size="1m"):
    return ZONE % (size, words)


def store(port, more="timeout 5s;", workers=1):
    return "worker_processes %d; redis_store main { server 127.0.0.1:%d; %s }" % (workers, port, more)


class Node:
    """A server of ours, and its keyval zone `z`."""

    def __init__(self, server, protocol="http"):
        self.server, self.path = server, "/api/9/%s/keyvals/z" % protocol

    def call(self, method, pairs=None):
        response = self.server.get(self.path, method=method, body="" if pairs is None else json.dumps(pairs))
        return response.status

    def set(self, **pairs):
        status = self.call("POST", pairs)
        return status if status != 409 else self.call("PATCH", pairs)

    def pairs(self):
        return json.loads(self.server.get(self.path).body)

    def has(self, **pairs):
        """Waits until these are the pairs, all of them."""
        until(lambda: self.pairs() == pairs, lambda: "%s instead of %s\n%s" % (self.pairs(), pairs, self.server.error_log))
        return True

    def metric(self, name, kind="zone", of="z"):
        for line in self.server.get("/metrics").text.split("\n"):
            if line.startswith("%s_total{%s=\"%s\"" % (name, kind, of)) or line.startswith("%s{%s=\"%s\"" % (name, kind, of)):
                return int(line.rsplit(" ", 1)[1])
        raise AssertionError(name)
