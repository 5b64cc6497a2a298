"""Health checks that nodes share by a redis_store: one of them probes a server, all know what it found."""

import json
import os
import signal

import pytest

from harness import run_binary, until
from harness.nodes import store

HTTP = """upstream u { zone u 64k; server 127.0.0.1:%d; }
    server { listen 127.0.0.1:@PORT@; location /api { api; } location = /metrics { metrics; }
        location / { proxy_pass http://u; %s } }"""
# Here a probe may take less time, so that nodes wait for less before they take one for dead.
STREAM = """stream { upstream u { zone u 64k; server 127.0.0.1:%d; } match ok { send "GET /health HTTP/1.0\\r\\n\\r\\n"; expect ~ " 200 "; }
    server { listen 127.0.0.1:@PORT1@; proxy_pass u; health_check_timeout 300ms; health_check interval=20ms match=ok sync sync_interval=5ms; } }"""
API = "server { listen 127.0.0.1:@PORT@; location /api { api; } }"
CHECK = "health_check interval=20ms uri=/health sync sync_interval=5ms %s;"
LEASE = "portunus:1:health_checks:{_%s_health}:claim:0 127.0.0.1:%d u"


class Backend:
    """A server that says by a file whether it is healthy."""

    def __init__(self, serve):
        self.server = serve("server { listen 127.0.0.1:@PORT@; location / { return 200 one; } location = /health { root html; try_files /up =500; } }")
        self.port = self.server.port
        self.set(True)

    def set(self, is_up):
        self.server.write("html/up", "")
        if not is_up:
            os.unlink(self.server.path("html", "up"))


@pytest.fixture(name="backend")
def fixture_backend(serve):
    return Backend(serve)


@pytest.fixture(name="nodes")
def fixture_nodes(serve, backend):
    """A function that starts so many nodes before the backend, whose checks are of http."""
    def start(port, count=2, more="timeout 5s;", workers=1, words=""):
        return [serve(HTTP % (backend.port, CHECK % words), main=store(port, more, workers)) for _ in range(count)]
    return start


@pytest.fixture(name="stream_nodes")
def fixture_stream_nodes(serve, backend):
    return lambda port: [serve(API, main=store(port) + STREAM % backend.port) for _ in range(2)]


def checks(server, protocol="http"):
    peer, = json.loads(server.get("/api/9/%s/upstreams/u" % protocol).body)["peers"]
    return peer["health_checks"]["checks"], peer["state"]


def probes(server, protocol="http"):
    return checks(server, protocol)[0]


def state(server, wanted, protocol="http"):
    until(lambda: checks(server, protocol)[1] == wanted, lambda: "%s instead of %s\n%s" % (checks(server, protocol), wanted, server.error_log))


def leader(servers, protocol="http"):
    """Waits until one of them alone makes probes, and gives it and the others."""
    def look():
        before = [probes(server, protocol) for server in servers]
        until(lambda: any(probes(server, protocol) > number + 5 for server, number in zip(servers, before)), "probes")
        leads = [probes(server, protocol) > number for server, number in zip(servers, before)]
        return leads if sum(leads) == 1 else None
    leads = until(look, "one that leads")
    return servers[leads.index(True)], [server for server, is_one in zip(servers, leads) if not is_one]


def test_one_node_probes_and_all_know(nodes, backend, redis):
    one = redis()
    servers = nodes(one.port, 3, workers=2)
    first, others = leader(servers)
    before = [probes(server) for server in others]
    backend.set(False)
    for server in servers:
        state(server, "unhealthy")
        assert server.get("/").status == 502
    backend.set(True)
    for server in servers:
        state(server, "up")
        assert server.get("/").text == "one"
    assert [probes(server) for server in others] == before      # none of its own
    assert all("another node's" in server.error_log for server in others)
    assert all(ttl > 0 for ttl in one.ttls())
    first.reload()                                               # its next workers have the lease, too
    number = probes(first)
    until(lambda: probes(first) > number + 3, "probes of the next workers")
    assert [probes(server) for server in others] == before


def test_a_node_that_dies_loses_its_lease(stream_nodes, backend, redis):
    """Another one probes when the lease has expired, which takes a second longer than a probe may."""
    one = redis()
    servers = stream_nodes(one.port)
    first, (second,) = leader(servers, "stream")
    os.killpg(first.process.pid, signal.SIGKILL)
    first.process.wait()
    assert one.ask("EXISTS", LEASE % ("stream", backend.port)) == 1
    backend.set(False)
    state(second, "unhealthy", "stream")
    assert probes(second, "stream") > 0
    first.start()
    state(first, "unhealthy", "stream")


def test_store_gone_and_back(nodes, backend, redis):
    """Without the store each node probes, at once."""
    one = redis()
    servers = nodes(one.port, more="timeout 20ms;")
    leader(servers)
    one.stop()
    backend.set(False)
    for server in servers:
        number = probes(server)
        until(lambda one=server, had=number: probes(one) > had + 3, "own probes")
        state(server, "unhealthy")
    one.start()
    backend.set(True)
    _, (other,) = leader(servers)
    state(other, "up")


def test_a_check_that_is_mandatory(nodes, redis):
    """A node that starts has its server at once, without a probe of its own."""
    one = redis()
    first, = nodes(one.port, 1, words="mandatory")
    leader([first])
    second, = nodes(one.port, 1, words="mandatory")
    state(second, "up")
    assert probes(second) == 0


def test_what_others_wrote_into_the_store(nodes, backend, redis):
    one = redis()
    servers = nodes(one.port)
    _, (other,) = leader(servers)
    key, name = "portunus:1:health_checks:{_http_health}", "0 127.0.0.1:%d u" % backend.port
    value = until(lambda: one.ask("HGET", key, name), "the item")
    for item in ("x", "0", "0 ", "9 127.0.0.1:%d u" % backend.port, "x 127.0.0.1:%d u" % backend.port, "0 127.0.0.1:%d" % backend.port, "0 127.0.0.1:%d uu" % backend.port):
        one.ask("HSET", key, item, value)
        one.ask("XADD", key + ":changes", "*", "o", item)
    leader(servers)
    state(other, "up")


@pytest.mark.parametrize("text, message", [
    ("http { upstream u { server 127.0.0.1; } server { location / { proxy_pass http://u; health_check sync; } } }", '"sync" needs a "redis_store"'),
    ("http { upstream u { server 127.0.0.1; } server { location / { proxy_pass http://u; health_check sync=strict; } } }", 'invalid parameter "sync=strict"'),
    ("stream { upstream u { server 127.0.0.1:1; } server { listen 1; proxy_pass u; health_check sync_interval=1s; } }", '"sync_interval" needs "sync"'),
    ("redis_store a { server 127.0.0.1; } redis_store b { server 127.0.0.1; } stream { upstream u { server 127.0.0.1:1; } "
     "server { listen 1; proxy_pass u; health_check sync=a; health_check sync=b; } }", '"sync" of health checks names two stores'),
])
def test_mistakes(tmp_path, text, message):
    conf = tmp_path / "nginx.conf"
    conf.write_text("events { } " + text)
    done = run_binary("-t", "-p", str(tmp_path), "-c", str(conf))
    assert done.returncode == 1 and message in done.stderr, done.stderr
