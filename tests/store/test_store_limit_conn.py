"""limit_conn zones that nodes share by a redis_store: what is under way at other nodes counts, until they end it or die."""

import contextlib
import os
import signal
import socket

import pytest

from harness import run_binary, until
from harness.nodes import store

CONF = """limit_conn_zone $arg_k zone=z:64k sync sync_interval=20ms;
    server { listen 127.0.0.1:@PORT@; location = /metrics { metrics; }
        location /held { limit_conn z 2; proxy_pass http://127.0.0.1:%d; }
        location / { limit_conn z 2; empty_gif; } }"""


@pytest.fixture(name="site")
def fixture_site(serve):
    """A function that starts nodes; requests for /held have a backend that never answers."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=64)

    def start(port, count=2, more="timeout 5s;", workers=1, **how):
        return [serve(CONF % listener.getsockname()[1], main=store(port, more, workers), **how) for _ in range(count)]
    with contextlib.closing(listener):
        yield start


def hold(server, key="a"):
    client = server.client()
    client.send("GET /held?k=%s HTTP/1.1\r\nHost: x\r\n\r\n" % key)
    return client


def passes(server, key="a"):
    return server.get("/?k=" + key).status == 200


def refuses(server, key="a"):
    until(lambda: server.get("/?k=" + key).status == 503, "the node to refuse")


KEY = "portunus:1:limit_conn:{z}"
LEASE = "0" * 32 + ":"


def counts(store):
    return [name for name in store.ask("HKEYS", KEY) if name and not name.startswith(LEASE)]


def lease_ends(store):
    names = [name for name in store.ask("HKEYS", KEY) if name.startswith(LEASE)]
    return max(float(store.ask("ZSCORE", KEY + ":expiry", name) or 0) for name in names)


def test_nodes_count_together(site, redis):
    one = redis()
    first, second = site(one.port, workers=2)
    with hold(first) as held:
        assert passes(first) and passes(second)
        with hold(second):
            refuses(first)
            refuses(second)
            assert passes(first, "b") and passes(second, "b")
            assert len(counts(one)) == 2
            assert all(ttl > 0 for ttl in one.ttls())
        until(lambda: passes(first) and passes(second), "a free place")
        with hold(second, "c"), hold(second, "c"):
            refuses(first, "c")
        held.close()
    until(lambda: not counts(one), "the items to go")


def test_leases_are_renewed(site, redis):
    """A request that takes longer than a lease keeps its place. A node has one lease, and does not send its counts again with that."""
    one = redis()
    first, second = site(one.port)
    with hold(first), hold(first), hold(first, "b"):
        refuses(second)
        until(lambda: len(counts(one)) == 2, "the counts")
        ends = lease_ends(one)
        fields = [one.ask("HGET", KEY, name) for name in counts(one)]
        until(lambda: lease_ends(one) > ends, "the renewal")
        refuses(second)
        assert [one.ask("HGET", KEY, name) for name in counts(one)] == fields


def test_a_node_that_hangs(site, redis):
    """Its places are free when its leases end, and taken again when it continues."""
    one = redis()
    first, second = site(one.port)
    with hold(first), hold(first):
        refuses(second)
        worker, = first.children()
        os.kill(worker, signal.SIGSTOP)
        try:
            until(lambda: passes(second), "the places of the node that hangs")
        finally:
            os.kill(worker, signal.SIGCONT)
        refuses(second)


def test_store_gone_and_back(site, redis):
    """Each node counts by itself, and together again when the store is back."""
    one = redis()
    first, second = site(one.port, more="timeout 20ms;")
    with hold(first), hold(first):
        refuses(second)
        one.stop()
        until(lambda: passes(second), "the end of the leases")
        assert first.get("/?k=a").status == 503
        one.start()
        refuses(second)


def test_what_others_wrote_into_the_store(site, redis):
    one = redis()
    first, second = site(one.port)
    with hold(first):
        until(lambda: counts(one), "the item")
        key, item = KEY, counts(one)[0]
        for name in ("x", LEASE + "x", LEASE[:31] + "g:" + item[33:], LEASE + "0" * 16, item[:33], item[:-1] + "g", item[:33] + "0" * 16, item + "0"):
            one.ask("HSET", key, name, one.ask("HGET", key, item))
            one.ask("XADD", key + ":changes", "*", "o", name)
        assert passes(second)
        with hold(second):
            refuses(first)


@pytest.mark.parametrize("words, message", [
    ("sync", '"sync" needs a "redis_store"'),
    ("sync=strict", 'invalid parameter "sync=strict"'),
    ("sync_interval=5ms", '"sync_interval" needs "sync"'),
    ("other", 'invalid parameter "other"'),
])
@pytest.mark.parametrize("protocol", ["http", "stream"])
def test_mistakes(tmp_path, protocol, words, message):
    conf = tmp_path / "nginx.conf"
    conf.write_text("events { } %s { limit_conn_zone $remote_addr zone=z:64k %s; }" % (protocol, words))
    done = run_binary("-t", "-p", str(tmp_path), "-c", str(conf))
    assert done.returncode == 1 and message in done.stderr, done.stderr
