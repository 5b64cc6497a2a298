"""Nodes in network namespaces, a Redis cluster of six, and load while parts of it fail: a minute, so that `make check` does not run it.

    PYTHONPATH=tests TEST_NGINX_BINARY=objs/nginx /usr/bin/python3 -m pytest -s tests/store/long_nodes.py

TEST_NGINX_OTHER_BINARY, another version, is what the last node runs. Needs root.
"""

import contextlib
import json
import os
import random
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
import urllib.parse

import pytest

from harness import until
from harness.boxes import BoxedServer, needs_root
from harness.redis import Redis, needs_redis
from harness.programs import find, run
from harness.certificates import Authority
from harness import ports

sys.path.append(os.path.join(os.path.dirname(__file__), "..", "http"))

from openid import CLIENT, SECRET, Provider     # pylint: disable=wrong-import-position

pytestmark = [needs_root, needs_redis]

NET = "10.%d" % (100 + os.getpid() % 100)
STORE, PROVIDER = NET + ".0.1", NET + ".0.2"
RATE, BURST, NODES = 100, 20, 4
ZONES = ("req", "strict", "conn", "kv", "sid", "oidc", "ssl_ticket_keys")
MAIN = "worker_processes 1; redis_store main { mode cluster; timeout 20ms; user edge; password_file %s; %s }"
HTTP = """access_log off; ssl_session_ticket_key auto 1h sync sync_interval=50ms; ssl_certificate %s/www.crt; ssl_certificate_key %s/www.key;
    keyval_zone zone=oidc:4m sync; oidc_provider one { issuer %s; client_id "%s"; client_secret "%s"; session_store oidc; }
    server { listen 8090; auth_oidc one; location / { empty_gif; } } server { listen 8443 ssl; ssl_protocols TLSv1.2; return 200 tls; }
    limit_req_zone $arg_k zone=req:1m rate=%dr/s sync; limit_req_zone $arg_k zone=strict:1m rate=%dr/s sync=strict;
    limit_conn_zone $arg_k zone=conn:1m sync; keyval_zone zone=kv:1m sync; keyval $arg_k $pair zone=kv;
    upstream u { server 127.0.0.1:8081; server 127.0.0.1:8082; server 127.0.0.1:8083;
        sticky learn create=$upstream_cookie_sid lookup=$cookie_sid zone=sid:1m timeout=1h sync; }
    map $arg_set $cookie { "~." "sid=$arg_set"; }
    server { listen 127.0.0.1:8081; add_header Set-Cookie $cookie; location / { return 200 a; } location /held { echo_sleep 60; } }
    server { listen 127.0.0.1:8082; add_header Set-Cookie $cookie; return 200 b; }
    server { listen 127.0.0.1:8083; add_header Set-Cookie $cookie; return 200 c; }
    server { listen 8080; keepalive_requests 1000000;
        location = /req { limit_req zone=req burst=%d nodelay; empty_gif; }
        location = /strict { limit_req zone=strict burst=%d nodelay; empty_gif; }
        location = /held { limit_conn conn 2; proxy_pass http://127.0.0.1:8081; }
        location = /free { limit_conn conn 2; empty_gif; }
        location = /pair { return 200 "$pair"; }
        location = /app { proxy_pass http://u; }
        location /api { api write=on; } }"""


def shell(*words):
    subprocess.run(words, check=True)


class Node(BoxedServer):
    """A server whose only way out is a link to us."""

    def __init__(self, number, http, main, binary=None):
        self.number, self.address = number, "%s.%d.2" % (NET, number)
        self.is_out = False      # the balancer sends it nothing
        link, ours = "pn%d-%d" % (os.getpid() % 10000, number), "%s.%d.1" % (NET, number)
        out = "nsenter --net=/proc/%d/ns/net ip" % os.getpid()
        super().__init__(http, main=main, binary=binary, box=["-n"], allow=[".*"], setup="; ".join((
            "%s link add %s type veth peer name eth0 netns $$" % (out, link), "%s addr add %s/30 dev %s" % (out, ours, link),
            "%s link set %s up" % (out, link), "ip link set lo up", "ip addr add %s/30 dev eth0" % self.address, "ip link set eth0 up",
            "ip route add default via %s" % ours)))

    def ip(self, *words):
        shell("nsenter", "--net=/proc/%d/ns/net" % self.pid, "ip", *words)

    def connect(self, port=8080):
        return socket.create_connection((self.address, port), 10)

    def service(self):
        """What it runs while it gets requests."""
        return None if self.is_out else self.process

    def kill(self):
        os.killpg(self.pid, signal.SIGKILL)
        self.process.wait()


def ask(conn, target, method="GET", body="", cookie=""):
    """Status and body; the connection is kept."""
    conn.sendall(("%s %s HTTP/1.1\r\nHost: x\r\nCookie: %s\r\nContent-Length: %d\r\n\r\n%s" % (method, target, cookie, len(body), body)).encode())
    text = b""
    while b"\r\n\r\n" not in text:
        text += _more(conn)
    head, _, rest = text.partition(b"\r\n\r\n")
    fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:])
    while len(rest) < int(fields.get(b"content-length", b"0")):
        rest += _more(conn)
    return int(head.split()[1]), rest.decode("latin-1")


def browse(node, target, cookies):
    """Status and Location of a page that needs a login; cookies are kept."""
    with node.connect(8090) as conn:
        conn.sendall(("GET %s HTTP/1.1\r\nHost: edge\r\nConnection: close\r\nCookie: %s\r\n\r\n" % (target, "; ".join("%s=%s" % pair for pair in cookies.items()))).encode())
        with conn.makefile("rb") as source:
            head = source.read().partition(b"\r\n\r\n")[0].decode("latin-1").split("\r\n")
    if not head[0]:
        raise ConnectionError("closed")
    for line in head:
        if line.startswith("Set-Cookie: "):
            name, _, value = line[12:].split(";")[0].partition("=")
            cookies.pop(name, None)
            if "Max-Age=0" not in line:
                cookies[name] = value
    return int(head[0].split()[1]), "".join(line[10:] for line in head if line.startswith("Location: "))


TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
TLS.check_hostname, TLS.verify_mode, TLS.maximum_version = False, ssl.CERT_NONE, ssl.TLSVersion.TLSv1_2


def handshake(node, session):
    with node.connect(8443) as raw, TLS.wrap_socket(raw, session=session) as secure:
        return secure.session_reused, secure.session


def resumes(node, others):
    """Does it know the keys of the others' tickets, so that its own are of these?"""
    return all(handshake(node, handshake(other, None)[1])[0] for other in others if other is not node)


def _more(conn):
    got = conn.recv(65536)
    if not got:
        raise ConnectionError("closed")
    return got


class Load:
    """A client for each node and kind of request, as long as it runs; what failed is kept."""

    def __init__(self, nodes, provider):
        self.provider, self.logins, self.resumed = provider, [], 0
        self.nodes, self.failed, self.passed, self.is_over = nodes, [], {"req": [], "strict": []}, False
        self.acknowledged, self.sessions = {}, {}
        self.is_apart, self.strayed = False, 0      # the store is not there for all: a node may not know a session yet
        self.threads = [threading.Thread(target=self._run, args=(node, work), daemon=True)
                        for node in nodes for work in (self._limits, self._state, self._logins, self._tickets)]
        for thread in self.threads:
            thread.start()

    def _run(self, node, work):
        conn, count = None, 0
        while not self.is_over:
            if node.is_out:
                conn = conn and conn.close()
                time.sleep(0.01)
                continue
            try:
                conn = conn or node.connect()
                count += 1
                work(node, conn, count)
            except OSError as error:
                conn = conn and conn.close()
                if not node.is_out:
                    self.failed.append((node.number, repr(error)))
                    time.sleep(0.05)

    def _limits(self, node, conn, count):
        for name, passed in self.passed.items():
            status, _ = ask(conn, "/%s?k=shared" % name)
            if status == 200:
                passed.append(time.monotonic())
            elif status != 503:
                self.failed.append((node.number, "%s %d" % (name, status)))

    def _state(self, node, conn, count):
        key = "n%d-%d" % (node.number, count % 50)
        status, _ = ask(conn, "/api/9/http/keyvals/kv", "POST" if key not in self.acknowledged else "PATCH", json.dumps({key: str(count)}))
        if status in (201, 204):
            self.acknowledged[key] = str(count)
        elif status != 409:
            self.failed.append((node.number, "keyval %d" % status))
        name = "s%d-%d" % (node.number, count)
        status, peer = ask(conn, "/app?set=" + name)
        if status == 200:
            self.sessions[name] = peer
        name, peer = random.choice(list(self.sessions.items()))
        status, now = ask(conn, "/app", cookie="sid=" + name)
        if status == 200 and now != peer and self.is_apart:
            self.strayed += 1
        elif (status, now) != (200, peer):
            self.failed.append((node.number, "the session %s: %d, %s instead of %s" % (name, status, now, peer)))
        time.sleep(0.02)

    def _other(self, node):
        return random.choice([one for one in self.nodes if not one.is_out] or [node])

    def _logins(self, node, conn, count):
        """Begun at this node and ended at another one, and another one's login used here."""
        cookies, where = {}, self._other(node)
        _, there = browse(node, "/", cookies)
        back = urllib.parse.urlsplit(self.provider.login(there)) if there else None
        try:
            status = browse(where, back.path + "?" + back.query, cookies)[0] if back else "no redirect"
            if status == 302:
                self.logins.append(cookies)
            elif not self.is_apart and not node.is_out and not where.is_out:
                self.failed.append((node.number, "a login that ended at %d: %s" % (where.number, status)))
        except OSError as error:
            if not where.is_out:
                self.failed.append((where.number, repr(error)))
        status = browse(node, "/", dict(random.choice(self.logins)))[0] if self.logins else 200
        if status != 200 and self.is_apart:
            self.strayed += 1
        elif status != 200 and not node.is_out:
            self.failed.append((node.number, "a login of another node: %d" % status))
        time.sleep(0.05)

    def _tickets(self, node, conn, count):
        """Of this node, and resumed at another one."""
        where = self._other(node)
        before = node.service(), where.service()
        session = handshake(node, None)[1]
        try:
            is_reused = handshake(where, session)[0]
            self.resumed += is_reused
            if not is_reused and all(before) and before == (node.service(), where.service()):
                self.failed.append((where.number, "a ticket of %d" % node.number))
        except OSError as error:
            if not where.is_out:
                self.failed.append((where.number, repr(error)))
        time.sleep(0.05)

    @contextlib.contextmanager
    def apart(self, nodes):
        """Within, the store is not there for all; afterwards all have what began meanwhile."""
        self.is_apart = True
        yield
        for node in nodes:
            until(lambda one=node: self.knows(one, 200), "the sessions of that time", 60)
        print("%d requests came to a node that did not know their session yet" % self.strayed, flush=True)
        self.is_apart, self.strayed = False, 0

    def knows(self, node, most=None):
        """All sessions, or the last ones."""
        with node.connect() as conn:
            return all(ask(conn, "/app", cookie="sid=" + name)[1] == peer for name, peer in list(self.sessions.items())[-(most or 0):]) and \
                all(browse(node, "/", dict(cookies))[0] == 200 for cookies in random.sample(self.logins, min(100, len(self.logins))))

    def excess(self, name, seconds, lasts=1):
        """For so long: how much of the limit has passed."""
        first = len(self.passed[name])
        begin = time.monotonic()
        time.sleep(seconds * lasts)
        return (len(self.passed[name]) - first) / (RATE * (time.monotonic() - begin))

    def end(self):
        self.is_over = True
        for thread in self.threads:
            thread.join()


class Cluster:
    """Six servers, three of them primaries."""

    def __init__(self):
        words = ("user edge on >secret ~portunus:* +@all", "bind 127.0.0.1 " + STORE, "protected-mode no", "cluster-enabled yes", "cluster-node-timeout 1500", "cluster-announce-ip " + STORE)
        self.servers = [Redis(*words, "cluster-port %d" % ports.take().number) for _ in range(6)]
        for server in self.servers:
            server.start()
        run([find("redis-cli"), "--cluster", "create", *["%s:%d" % (STORE, one.port) for one in self.servers], "--cluster-replicas", "1", "--cluster-yes"],
            self.servers[0].directory)
        for one in self.servers:
            until(lambda it=one: "cluster_state:ok" in it.ask("CLUSTER", "INFO"), "the cluster")

    def alive(self):
        return [one for one in self.servers if one.process is not None and one.process.poll() is None]

    def primaries(self):
        return [one for one in self.alive() if one.ask("ROLE")[0] == "master"]

    def owner(self, zone):
        slot = self.servers[-1].ask("CLUSTER", "KEYSLOT", zone)
        for first, last, primary, *_ in self.alive()[0].ask("CLUSTER", "SLOTS"):
            if first <= slot <= last:
                return slot, next(one for one in self.servers if one.port == primary[1])
        raise AssertionError(zone)

    def move(self, zone):
        """The slot of a zone, with its keys, goes to another primary, as redis-cli does it."""
        slot, source = self.owner(zone)
        target = next(one for one in self.primaries() if one is not source)
        target_id, source_id = target.ask("CLUSTER", "MYID"), source.ask("CLUSTER", "MYID")
        target.ask("CLUSTER", "SETSLOT", slot, "IMPORTING", source_id)
        source.ask("CLUSTER", "SETSLOT", slot, "MIGRATING", target_id)
        while keys := source.ask("CLUSTER", "GETKEYSINSLOT", slot, 100):
            source.ask("MIGRATE", STORE, target.port, "", 0, 5000, "KEYS", *keys)
        for one in [target, source] + self.primaries():
            one.ask("CLUSTER", "SETSLOT", slot, "NODE", target_id)

    def ttls(self):
        return [ttl for one in self.primaries() for ttl in one.ttls()]


@pytest.fixture(name="service")
def fixture_service(tmp_path):
    with contextlib.ExitStack() as stack:
        for address in (STORE, PROVIDER):
            shell("ip", "addr", "add", address + "/32", "dev", "lo")
            stack.callback(shell, "ip", "addr", "del", address + "/32", "dev", "lo")
        shell("ip", "route", "add", "unreachable", NET + ".0.0/16")  # where a node is dead, nobody else answers
        stack.callback(shell, "ip", "route", "del", "unreachable", NET + ".0.0/16")
        cluster = Cluster()
        for one in cluster.servers:
            stack.callback(one.stop)
        provider = Provider(address=PROVIDER)
        stack.callback(provider.close)
        Authority(str(tmp_path)).issue("www")
        (tmp_path / "password").write_text("secret")
        main = MAIN % (tmp_path / "password", " ".join("server %s:%d;" % (STORE, one.port) for one in cluster.servers))
        http = HTTP % (tmp_path, tmp_path, provider.url, CLIENT, SECRET, RATE, RATE, BURST, BURST)
        nodes = [Node(number, http, main, os.environ.get("TEST_NGINX_OTHER_BINARY") if number == NODES else None) for number in range(1, NODES + 1)]
        for node in nodes:
            stack.callback(node.close, check=False)
            node.start()
        yield cluster, nodes, provider


def hold(node):
    conn = node.connect()
    conn.sendall(b"GET /held?k=a HTTP/1.1\r\nHost: x\r\n\r\n")
    return conn


def status(node, target):
    with node.connect() as conn:
        return ask(conn, target)[0]


def pairs(node):
    with node.connect() as conn:
        return json.loads(ask(conn, "/api/9/http/keyvals/kv")[1])


def wait_limits(load, what):
    """Both limits are kept again within their bounds, over some seconds."""
    shown = []

    def within():
        shown.append([round(load.excess("req", 2), 3), round(load.excess("strict", 2), 3)])
        return shown[-1][0] <= 1.05 and shown[-1][1] <= 1.01 + 1 / RATE
    until(within, lambda: "the limits: %s" % shown, 40)
    print("%s: eventual and strict limit pass %s of the rate" % (what, shown[-1]), flush=True)


def no_failure(load, what, but=0):
    failed = [one for one in load.failed if one[0] != but]
    print("%s: %d requests failed%s" % (what, len(failed), ", %d on the node that was killed" % (len(load.failed) - len(failed)) if but else ""), flush=True)
    assert not failed, "%s\n%s" % (failed[:10], "\n".join(node.error_log[-1500:] for node in load.nodes))
    load.failed.clear()


def start(node, load):
    """A node gets requests when it has read the store."""
    node.start()
    until(lambda: pairs(node).keys() >= load.acknowledged.keys(), "the pairs", 20)
    until(lambda: resumes(node, [one for one in load.nodes if not one.is_out]), "the keys of tickets", 20)
    node.is_out = False
    time.sleep(0.5)


def test_parts_that_fail_under_load(service):
    cluster, nodes, provider = service
    with nodes[0].connect() as conn:
        assert ask(conn, "/api/9/http/keyvals/kv", "POST", '{"first": "1"}')[0] == 201
    for node in nodes:
        until(lambda one=node: "first" in pairs(one) and resumes(one, nodes), "the node to have the store", 20)
    load = Load(nodes, provider)
    load.acknowledged["first"] = "1"
    time.sleep(2)
    wait_limits(load, "at rest")
    no_failure(load, "at rest")

    with load.apart(nodes):
        for zone in ZONES:
            cluster.move(zone)
    wait_limits(load, "after resharding")
    no_failure(load, "resharding")

    _, primary = cluster.owner("kv")
    with load.apart(nodes):
        primary.signal(signal.SIGKILL)
        primary.process.wait()
        until(lambda: len(cluster.primaries()) == 3 and all("cluster_state:ok" in one.ask("CLUSTER", "INFO") for one in cluster.alive()), "the failover", 30)
    wait_limits(load, "after the end of a primary")
    no_failure(load, "the end of a primary")

    away = nodes[0]
    with load.apart(nodes):
        away.ip("route", "add", "blackhole", STORE + "/32")
        alone = load.excess("req", 10)
        away.ip("route", "del", "blackhole", STORE + "/32")
    print("a node without the store for 10 s: %.2f of the rate passed" % alone, flush=True)
    assert alone < 2.2                                  # it and the others
    wait_limits(load, "after that")
    no_failure(load, "a node without the store")

    dead = nodes[1]
    held = [hold(dead), hold(dead)]
    until(lambda: status(nodes[2], "/free?k=a") == 503, "the node's connections to count", 20)
    dead.kill()
    begin = time.monotonic()
    until(lambda: status(nodes[2], "/free?k=a") == 200, "the places of the dead node", 20)
    print("its places are free after %.1f s" % (time.monotonic() - begin), flush=True)
    for conn in held:
        conn.close()
    no_failure(load, "the end of a node", dead.number)
    dead.is_out = True
    start(dead, load)

    load.failed.clear()
    for node in nodes:
        node.is_out = True
        time.sleep(0.3)
        node.quit()
        start(node, load)
    wait_limits(load, "after a restart of all nodes")
    no_failure(load, "a restart of all nodes")

    load.end()
    for node in nodes:
        until(lambda one=node: pairs(one) == load.acknowledged, lambda one=node: "%s" % (set(load.acknowledged.items()) ^ set(pairs(one).items())), 20)
    print("%d pairs, %d sessions and %d logins that were acknowledged are at all nodes; %d tickets of another node were resumed"
          % (len(load.acknowledged), len(load.sessions), len(load.logins), load.resumed), flush=True)
    for node in nodes:
        assert load.knows(node)
    assert all(ttl > 0 for ttl in cluster.ttls())
