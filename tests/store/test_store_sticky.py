"""Sessions of `sticky learn` that nodes share by a redis_store: a client may change its node with each request."""

import json
import os
import signal

import pytest

from harness import run_binary, until
from harness.nodes import Node, store

# A backend begins a session where the request says so; each names itself in its responses.
CONF = """upstream u { %s sticky learn create=$upstream_cookie_sid lookup=$cookie_sid zone=z:%s timeout=%s sync sync_interval=10ms %s; }
    server { listen 127.0.0.1:@PORT@; location = /metrics { metrics; } location /api { api; }
        location / { proxy_pass http://u; } }"""
KEY = "portunus:1:sticky_sessions:{z}"


@pytest.fixture(name="nodes")
def fixture_nodes(serve):
    """A function that starts so many nodes before the same two backends, which are a server of their own."""
    backends = serve("""map $arg_set $cookie { "~." "sid=$arg_set"; } add_header Set-Cookie $cookie;
        server { listen 127.0.0.1:@PORT@; return 200 a; } server { listen 127.0.0.1:@PORT1@; return 200 b; }""")
    servers = "server 127.0.0.1:%d; server 127.0.0.1:%d;" % (backends.port, backends.port_of("PORT1"))

    def start(port, count=2, more="timeout 5s;", workers=1, size="64k", timeout="1h", words=""):
        return [serve(CONF % (servers, size, timeout, words), main=store(port, more, workers)) for _ in range(count)]
    return start


def begin(server, name):
    return server.get("/?set=" + name).text


def peer(server, name):
    return server.get("/", "Cookie: sid=" + name).text


def sessions(redis):
    return [name for name in redis.ask("HKEYS", KEY) if name]


@pytest.mark.parametrize("words", ["", "header"])
def test_a_session_is_known_to_all_nodes(nodes, redis, words):
    """Without a pause: a node that does not know it yet asks the store."""
    one = redis()
    first, second = nodes(one.port, workers=2, words=words)
    began = {name: begin(server, name) for name, server in (("s%d" % i, (first, second)[i % 2]) for i in range(6))}
    assert set(began.values()) == {"a", "b"}
    for server in (second, first, second):
        assert {name: peer(server, name) for name in began} == began
    assert len(sessions(one)) == 6 and not any("s1" in name for name in sessions(one))
    assert all(ttl > 0 for ttl in one.ttls())
    third, = nodes(one.port, 1)
    assert {name: peer(third, name) for name in began} == began


def test_a_session_that_was_acknowledged_outlives_its_node(nodes, redis):
    one = redis()
    first, second = nodes(one.port)
    began = begin(first, "s")
    os.killpg(first.process.pid, signal.SIGKILL)
    first.process.wait()
    assert {peer(second, "s") for _ in range(4)} == {began}
    first.start()
    assert peer(first, "s") == began


def test_a_session_in_use_does_not_end_at_other_nodes(nodes, redis):
    """The node that it is used at gives it again within its timeout; one that nobody uses ends everywhere."""
    one = redis()
    first, second = nodes(one.port, timeout="400ms")
    begin(first, "s")
    name, = sessions(one)
    ends = float(one.ask("ZSCORE", KEY + ":expiry", name))

    def is_renewed():
        peer(first, "s")
        return float(one.ask("ZSCORE", KEY + ":expiry", name)) > ends
    until(is_renewed, "the renewal")
    until(lambda: Node(second).metric("portunus_sync_received") >= 2, "the renewal at the other node")
    until(lambda: begin(second, "t") and len(sessions(one)) == 1, "the end of the session that is not used")


def test_store_gone_and_back(nodes, redis):
    one = redis()
    first, second = nodes(one.port, more="timeout 20ms;")
    one.stop()
    began = {name: begin(first, name) for name in ("s", "t")}
    assert {name: peer(first, name) for name in began} == began
    one.start()
    until(lambda: len(sessions(one)) == 2, "the sessions")
    assert {name: peer(second, name) for name in began} == began


def test_the_store_has_no_more_than_a_zone(nodes, redis):
    """A session that makes room for others goes from the store, too."""
    one = redis()
    first, = nodes(one.port, 1, size="32k")
    with first.client() as client:
        for number in range(700):
            client.send("GET /?set=s%d HTTP/1.1\r\nHost: x\r\n\r\n" % number)
            client.response()
    capacity = json.loads(first.get("/api/9/stream/zone_sync").body)["zones"]["z"]["records_total"]
    assert 100 < capacity < 600
    until(lambda: len(sessions(one)) <= capacity, lambda: "%d of %d" % (len(sessions(one)), capacity))


def test_what_others_wrote_into_the_store(nodes, redis):
    one = redis()
    first, second = nodes(one.port)
    began = begin(first, "s")
    name, = sessions(one)
    for item in ("x", name[:-1] + "g", name[::-1], name + "0"):
        one.ask("HSET", KEY, item, one.ask("HGET", KEY, name))
        one.ask("XADD", KEY + ":changes", "*", "o", item)
    assert peer(second, "s") == began
    until(lambda: Node(second).metric("portunus_sync_unreadable") >= 1, "the items")
    assert peer(second, "s") == began


@pytest.mark.parametrize("words, message", [
    ("sync", '"sync" needs a "redis_store"'),
    ("sync=strict", 'invalid parameter "sync=strict"'),
    ("sync_interval=5ms", '"sync_interval" needs "sync"'),
])
def test_mistakes(tmp_path, words, message):
    conf = tmp_path / "nginx.conf"
    conf.write_text("events { } http { upstream u { server 127.0.0.1; sticky learn create=$arg_a lookup=$arg_a zone=z:64k %s; } }" % words)
    done = run_binary("-t", "-p", str(tmp_path), "-c", str(conf))
    assert done.returncode == 1 and message in done.stderr, done.stderr
