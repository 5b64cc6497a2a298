"""limit_req zones that nodes share by a redis_store: eventually, strictly, and while the store is gone."""

import os
import signal
import socket
import threading

import pytest

from harness import ports, run_binary, until
from harness.certificates import Authority
from harness.redis import cluster_of, needs_redis
from harness.workers import wait_workers

GIF = "location / { limit_req zone=z burst=%d nodelay; empty_gif; }"


def http(burst=4, sync="sync", rate="1r/m", zones="", locations=""):
    return """limit_req_zone $arg_k zone=z:1m rate=%s %s; %s
        server { listen 127.0.0.1:@PORT@; location = /metrics { metrics; } %s %s }""" % (rate, sync, zones, locations, GIF % burst)


def store(port, more="timeout 5s;", name="main"):
    return "worker_processes 1; redis_store %s { server 127.0.0.1:%d; %s }" % (name, port, more)


def passed(server, count, target="/?k=a"):
    """How many of so many requests were let pass."""
    with server.client() as client:
        return [client.request(target).status for _ in range(count)].count(200)


def metric(server, name, store_name="main"):
    text = server.get("/metrics").text
    for line in text.split("\n"):
        if line.startswith('%s{store="%s"}' % (name, store_name)) or line.startswith('%s_total{store="%s"}' % (name, store_name)):
            return int(line.rsplit(" ", 1)[1])
    raise AssertionError(text)


def requests_in(redis, key=""):
    """Minutes that the bucket needs to drain at 1r/m, rounded: how many requests all nodes counted beyond the first."""
    ends = [int(value) for one in redis.keys() if key in one for value in redis.ask("HVALS", one)]
    if not ends:
        return 0
    seconds, micros = redis.ask("TIME")
    return round((max(ends) / 1e6 - int(seconds) - int(micros) / 1e6) / 60)


def test_nodes_share_counts(serve, redis):
    """What one node has counted, others know after an interval; the first of them refuses, and so do all."""
    one = redis()
    nodes = [serve(http(burst=20), main=store(one.port)) for _ in range(2)]
    assert passed(nodes[0], 30) == 21
    until(lambda: requests_in(one) == 20, "the first node's count")
    more = passed(nodes[1], 1)
    assert more == 1                                    # it does not know yet
    until(lambda: requests_in(one) == 21, "the second node's count")
    tries = []
    until(lambda: tries.append(passed(nodes[1], 1)) or tries[-1] == 0, "the second node to refuse")
    assert sum(tries) < 15                              # 20 would be its own burst
    assert all(ttl > 0 for ttl in one.ttls())


def test_names_of_keys(serve, redis):
    """PREFIX, version, purpose, {zone}, and a hash that nodes with one password have in common. docs/scaling-out.md"""
    one = redis()
    server = serve(http(), main=store(one.port, "prefix shop:; database 3;"))
    passed(server, 1)
    until(lambda: one.ask("INFO", "keyspace").find("db3:keys=1") > 0, "a key in database 3")
    assert one.keys() == []
    assert one.ask("SELECT", 3) == "OK"


def test_commands_of_the_store(serve, redis):
    """An exchange of many keys is a few commands, which INFO counts also inside of scripts."""
    one = redis()
    server = serve(http(), main=store(one.port))
    with server.client() as client:
        client.send("".join("GET /?k=%d HTTP/1.1\r\nHost: x\r\n\r\n" % i for i in range(400)))
        assert [client.response().status for _ in range(400)] == [200] * 400
    until(lambda: sum(one.ask("HLEN", key) for key in one.keys()) == 400, "all keys")
    calls = {line.split(":")[0]: int(line.split("calls=")[1].split(",")[0]) for line in one.ask("INFO", "commandstats").split("\r\n") if "calls=" in line}
    scripts = calls["cmdstat_evalsha"]
    assert calls["cmdstat_hset"] <= scripts and calls["cmdstat_hmget"] <= 3 * scripts and "cmdstat_set" not in calls, calls


@pytest.mark.parametrize("sync", ["sync=strict", "sync"])
def test_ever_new_keys_do_not_fill_the_store(serve, redis, sync):
    """A hash that is full takes the place of the one before. What is in that still counts, what was there before does not."""
    def fill():
        return one.ask("HSET", key, *(word for i in range(10000) for word in ("%032x" % i, "1")))

    def fields():
        return sorted(one.ask("HLEN", name) for name in one.keys())

    one = redis()
    node = serve(http(burst=1, sync=sync).replace("zone=z:1m", "zone=z:32k"), main=store(one.port))
    assert passed(node, 1) == 1
    until(lambda: fields() == [1], "the first key")
    key, = one.keys()
    for name in "bc":
        assert fill() == 10000
        assert passed(node, 1, "/?k=" + name) == 1
        until(lambda: fields() == [1, 10001], fields)
        assert all(ttl > 0 for ttl in one.ttls())
    other = serve(http(burst=1, sync="sync=strict").replace("zone=z:1m", "zone=z:32k"), main=store(one.port))
    assert [passed(other, 3, "/?k=" + name) for name in "abc"] == [2, 1, 1]


def test_strict_counts_each_request_once(serve, redis):
    one = redis()
    nodes = [serve(http(sync="sync=strict"), main=store(one.port)) for _ in range(2)]
    assert [passed(nodes[i % 2], 1) for i in range(7)] == [1, 1, 1, 1, 1, 0, 0]
    assert one.keys()[0].startswith("portunus:2:limit_req:{z}:") and all(ttl > 0 for ttl in one.ttls())
    assert [passed(nodes[i % 2], 1, "/?k=b") for i in range(7)] == [1, 1, 1, 1, 1, 0, 0]


def test_strict_and_local_limits_together(serve, redis):
    """A request that a local limit refuses is not counted in the store, and the other way round."""
    one = redis()
    server = serve("""limit_req_zone $arg_k zone=s:1m rate=1r/m sync=main:strict; limit_req_zone $arg_k zone=l:1m rate=1r/m;
        server { listen 127.0.0.1:@PORT@;
            location /few { limit_req zone=s burst=9 nodelay; limit_req zone=l burst=1 nodelay; empty_gif; }
            location / { limit_req zone=s burst=4 nodelay; empty_gif; } }""", main=store(one.port))
    assert passed(server, 9, "/few?k=a") == 2
    assert requests_in(one) == 1
    assert passed(server, 9, "/?k=a") == 3


def test_delay_by_the_store(serve, redis):
    """The excess that the store gives is what a request waits for: here none is above `delay`, then all are."""
    one = redis()
    server = serve("""limit_req_zone $arg_k zone=z:1m rate=20r/s sync=strict;
        log_format l '$limit_req_status'; access_log access.log l;
        server { listen 127.0.0.1:@PORT@; location / { limit_req zone=z burst=5; empty_gif; } }""", main=store(one.port))
    assert passed(server, 3) == 3
    assert server.wait_lines("access.log", 3)[0] == "PASSED"
    assert "DELAYED" in server.lines("access.log")


@pytest.mark.parametrize("sync", ["sync", "sync=strict"])
def test_store_gone_and_back(serve, redis, sync):
    """Zones go on locally, it is logged once, and what is owed reaches the store when it is back."""
    one = redis()
    server = serve(http(sync=sync), main=store(one.port, "timeout 20ms;"))
    assert passed(server, 2) >= 1
    until(lambda: requests_in(one) == 1, "a count in the store")
    one.stop()
    server.wait_log("zones continue locally until it is back")
    assert passed(server, 9) == 3                       # the rest of the burst
    assert metric(server, "portunus_store_gone") == 1
    one.start()
    server.wait_log("the server 127.0.0.1:%d is back" % one.port)
    until(lambda: metric(server, "portunus_store_gone") == 0, "the metric")
    until(lambda: requests_in(one) >= 2, "what was owed")
    assert all(ttl > 0 for ttl in one.ttls())
    log = server.error_log
    assert log.count("zones continue locally") == 1 and log.count("%d is back" % one.port) == 1


def test_store_that_stops_answering(serve, redis):
    """No request waits longer than the timeout, and after some the connection is given up."""
    one = redis()
    server = serve(http(sync="sync=strict"), main=store(one.port, "timeout 20ms;"))
    until(lambda: passed(server, 1, "/?k=warm") + 1 and metric(server, "portunus_store_replies") > 0, "a reply")
    one.signal(signal.SIGSTOP)
    try:
        assert passed(server, 9) == 5
        until(lambda: passed(server, 1) == 0 and "zones continue locally" in server.error_log, "the log")
        assert metric(server, "portunus_store_timeouts") > 0
    finally:
        one.signal(signal.SIGCONT)
    server.wait_log("is back")


@pytest.mark.parametrize("sync", ["sync", "sync=strict"])
def test_stop_while_the_store_is_asked(serve, redis, sync):
    """A worker that is stopped awaits no reply; the request that did is logged, and nothing is leaked (ASan)."""
    one = redis()
    server = serve("log_format l '$status'; access_log access.log l; " + http(sync=sync), main=store(one.port, "timeout 60s;"))
    until(lambda: passed(server, 1, "/?k=warm") + 1 and metric(server, "portunus_store_replies") > 0, "a reply")
    one.signal(signal.SIGSTOP)
    try:
        with server.client() as client:
            client.send("GET /?k=a HTTP/1.1\r\nHost: x\r\n\r\n")
            until(lambda: metric(server, "portunus_store_requests") > metric(server, "portunus_store_replies"), "a command without a reply")
            server.stop()
    finally:
        one.signal(signal.SIGCONT)


class Hostile:
    """A server that sends this to whatever comes; `endless`: again and again."""

    def __init__(self, data, endless=False):
        self.data, self.endless = data, endless
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.thread = threading.Thread(target=self._accept, daemon=True)
        self.thread.start()

    def _accept(self):
        while True:
            try:
                conn, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._talk, args=(conn,), daemon=True).start()

    def _talk(self, conn):
        with conn:
            try:
                while conn.recv(65536):
                    conn.sendall(self.data)
                    while self.endless:
                        conn.sendall(self.data)
            except OSError:
                pass

    def close(self):
        self.listener.close()


HELLO = b"%1\r\n$4\r\nrole\r\n$6\r\nmaster\r\n"


@pytest.mark.parametrize("data, endless, reason", [
    (b"HTTP/1.1 400 Bad Request\r\n\r\n", False, "sent what is no reply"),
    (b"$99999999999\r\n", False, "sent what is no reply"),
    (b"*1\r\n" * 2000000, False, "sent what is no reply"),
    (b"+" + b"x" * 100000, True, "sent what is no reply"),
    (HELLO, True, "sent a reply without a command"),
    (b"-NOAUTH say who you are\r\n", False, "refused the connection"),
    (b"%1\r\n$4\r\nrole\r\n$7\r\nreplica\r\n", False, "is no primary"),
    (b"$100000\r\n" + b"x" * 10000, False, "did not answer"),
], ids=["http", "huge", "nested", "line", "unasked", "refuses", "replica", "slow"])
def test_hostile_store(serve, data, endless, reason):
    hostile = Hostile(data, endless)
    server = serve(http(sync="sync=strict"), main=store(hostile.port, "timeout 10ms; connect_timeout 300ms;"))
    assert passed(server, 9) == 5
    until(lambda: passed(server, 1) == 0 and "zones continue locally" in server.error_log, "the log")
    line = [line for line in server.lines("error.log") if "zones continue" in line][0]
    assert reason in line, line
    hostile.close()


class HostileNode(Hostile):
    """Names more servers of a cluster than a node has places for, the last of them as itself, and goes."""

    told = 0

    def _talk(self, conn):
        with conn:
            for reply in (HELLO, self.data):
                if conn.recv(65536):
                    conn.sendall(reply)
            self.told += 1


def test_cluster_of_too_many(serve):
    hosts = ["127.0.0.%d" % i for i in range(2, 150)] + [""]
    hostile = HostileNode(b"*%d\r\n" % len(hosts) + b"".join(
        b"*3\r\n:%d\r\n:%d\r\n*2\r\n$%d\r\n%s\r\n:1\r\n" % (i, i, len(host), host.encode()) for i, host in enumerate(hosts)))
    server = serve(http(sync="sync=strict"), main=store(hostile.port, "mode cluster;"))
    until(lambda: hostile.told >= 3, "the node to ask again")
    assert passed(server, 9) == 5
    hostile.close()


def test_user_and_password(serve, redis):
    one = redis("user default off", "user edge on >secret ~portunus:* +@all")
    files = {"password": "secret\n"}
    server = serve(http(sync="sync=strict"), files=files, main=store(one.port, "timeout 5s; user edge; password_file password;"))
    assert passed(server, 9) == 5
    assert metric(server, "portunus_store_replies") >= 9 and metric(server, "portunus_store_errors") == 0
    files["password"] = "wrong"
    server = serve(http(sync="sync=strict"), files=files, main=store(one.port, "timeout 5s; user edge; password_file password;"))
    assert passed(server, 9) == 5                       # by itself
    server.wait_log('refused the connection: "WRONGPASS')


def test_tls_both_ways(serve, redis, open_path):
    authority = Authority(open_path)
    authority.issue("redis.test")
    authority.issue("node")
    for name in os.listdir(open_path):
        os.chmod(open_path / name, 0o644)
    files = [authority.path(name) for name in ("root.crt", "redis.test.crt", "redis.test.key")]
    tls_port = ports.take().number
    redis("tls-port %d" % tls_port, "tls-ca-cert-file %s" % files[0], "tls-cert-file %s" % files[1], "tls-key-file %s" % files[2])
    words = "timeout 5s; ssl on; ssl_trusted_certificate %s;" % files[0]
    own = " ssl_certificate %s; ssl_certificate_key %s;" % (authority.path("node.crt"), authority.path("node.key"))
    server = serve(http(sync="sync=strict"), main=store(tls_port, words + own + " ssl_name redis.test;"))
    assert passed(server, 9) == 5 and metric(server, "portunus_store_replies") >= 9
    for wrong in (words + " ssl_name redis.test;", words + own + " ssl_name other.test;"):
        server = serve(http(sync="sync=strict"), main=store(tls_port, wrong))
        assert passed(server, 9) == 5                   # by itself
        server.wait_log("zones continue locally")
        assert metric(server, "portunus_store_gone") == 1


@needs_redis
def test_cluster(serve):
    """Zones are in slots of their own; a slot that moves is followed."""
    servers = cluster_of(3)
    try:
        zones = "".join("limit_req_zone $arg_k zone=z%d:1m rate=1r/m sync=strict;" % i for i in range(6))
        locations = "".join("location /%d { limit_req zone=z%d burst=2 nodelay; empty_gif; }" % (i, i) for i in range(6))
        server = serve(http(zones=zones, locations=locations), main=store(servers[0].port, "mode cluster; timeout 5s;"))
        until(lambda: passed(server, 1, "/5?k=warm") and servers[0].keys() + servers[1].keys() + servers[2].keys(), "the map of slots")
        assert [passed(server, 9, "/%d?k=a" % i) for i in range(6)] == [3] * 6
        assert sum(len([k for k in one.keys() if ":{z" in k]) for one in servers) == 6
        assert len([1 for one in servers if one.keys()]) > 1 and metric(server, "portunus_store_redirects") == 0
        slot = servers[0].ask("CLUSTER", "KEYSLOT", "z0")
        owner = next(one for one in servers if any("{z0}" in key for key in one.keys()))
        target = next(one for one in servers if one is not owner)
        for one in servers:
            one.ask("FLUSHALL")
        name = target.ask("CLUSTER", "MYID")
        for one in [target, owner] + [one for one in servers if one not in (target, owner)]:
            assert one.ask("CLUSTER", "SETSLOT", slot, "NODE", name) == "OK"
        assert passed(server, 9, "/0?k=b") == 3
        assert metric(server, "portunus_store_redirects") == 1
        assert len([key for key in target.keys() if "{z0}" in key]) == 1  # "warm" may come late, elsewhere
        assert all(ttl > 0 for one in servers for ttl in one.ttls())
    finally:
        for one in servers:
            one.stop()


def test_sentinel_names_the_primary(serve, redis):
    """The primary dies: the sentinel promotes the replica, and counts continue there."""
    primary = redis()
    replica = redis("replicaof 127.0.0.1 %d" % primary.port, "repl-diskless-sync-delay 0")
    until(lambda: "master_link_status:up" in replica.ask("INFO", "replication"), "the replica")
    sentinel = redis("sentinel monitor shop 127.0.0.1 %d 1" % primary.port, "sentinel down-after-milliseconds shop 500",
                     "sentinel failover-timeout shop 5000", sentinel=True)
    until(lambda: "slaves=1" in sentinel.ask("INFO", "sentinel"), "the sentinel to know the replica")
    server = serve(http(sync="sync=strict"), main=store(sentinel.port, "mode sentinel shop; timeout 500ms;"))
    until(lambda: metric(server, "portunus_store_connections") >= 2, "a connection")
    assert passed(server, 3) == 3 and requests_in(primary) == 2
    until(lambda: requests_in(replica) == 2, "the replica's copy")
    primary.stop()
    server.wait_log("zones continue locally")
    until(lambda: "role:master" in replica.ask("INFO", "replication"), "the failover")
    server.wait_log("the server 127.0.0.1:%d is back" % replica.port)
    assert passed(server, 9) == 2
    assert requests_in(replica) == 4


def test_a_zone_that_is_shared_again(serve, redis):
    """What was counted for others before its `sync` was taken away is nothing that the next one waits for."""
    one = redis()
    node = serve(http(burst=50, sync="sync sync_interval=10s"), main=store(one.port))
    assert passed(node, 2) == 2
    for words in ("", "sync sync_interval=10ms"):
        old = node.children()
        node.configure(http(burst=50, sync=words), main=store(one.port))
        node.reload()
        wait_workers(node, 1, without=old)
    assert requests_in(one) == 0 and passed(node, 3) == 3
    until(lambda: requests_in(one) == 2, "what was counted since then")


def test_reload_keeps_counts(serve, redis):
    one = redis()
    server = serve(http(), main=store(one.port))
    assert passed(server, 3) == 3
    server.reload()
    assert passed(server, 9) == 2
    until(lambda: requests_in(one) == 4, "the count")


@pytest.mark.parametrize("main, zone, message", [
    ("", "sync", '"sync" needs a "redis_store"'),
    ("redis_store a { server 127.0.0.1; }", "sync=b", 'no redis_store is named "b"'),
    ("redis_store a { server 127.0.0.1; } redis_store b { server 127.0.0.1; }", "sync", '"sync" must name one of the stores: "sync=a"'),
    ("redis_store a { server 127.0.0.1; } redis_store a { server 127.0.0.1; }", "sync", 'duplicate redis_store "a"'),
    ("redis_store strict { server 127.0.0.1; }", "sync", 'invalid name "strict" of a store'),
    ("redis_store a { }", "sync", 'no "server" in redis_store "a"'),
    ("redis_store a { server 127.0.0.1; mode sentinel; }", "sync", 'invalid mode "sentinel"'),
    ("redis_store a { server 127.0.0.1; mode cluster; database 1; }", "sync", 'a cluster has no "database" but 0'),
    ("redis_store a { server 127.0.0.1:x; }", "sync", 'invalid port in "127.0.0.1:x"'),
    ("redis_store a { server r.test resolve; }", "sync", '"resolve" needs a "resolver" in this block'),
    ("redis_store a { server 127.0.0.1; user u; }", "sync", '"user" needs a "password_file"'),
    ("redis_store a { server 127.0.0.1; password_file none; }", "sync", "cannot read"),
    ("redis_store a { server 127.0.0.1; ssl on; }", "sync", 'no "ssl_trusted_certificate" for "ssl_verify" of redis_store "a"'),
    ("redis_store a { server 127.0.0.1; }", "sync=a:fast", 'invalid parameter "sync=a:fast"'),
    ("redis_store a { server 127.0.0.1; }", "sync sync=strict", 'duplicate parameter "sync=strict"'),
    ("redis_store a { server 127.0.0.1; }", "sync_interval=5ms", '"sync_interval" needs "sync"'),
    ("redis_store a { server 127.0.0.1; }", "sync sync_interval=0", 'invalid parameter "sync_interval=0"'),
])
def test_mistakes(tmp_path, main, zone, message):
    conf = tmp_path / "nginx.conf"
    conf.write_text("%s events { } http { limit_req_zone $arg_k zone=z:1m rate=1r/s %s; }" % (main, zone))
    done = run_binary("-t", "-p", str(tmp_path), "-c", str(conf))
    assert done.returncode == 1 and message in done.stderr, done.stderr
