"""One fetch of a missing response in all nodes: `sync` of *_cache_lock."""

import contextlib
import os
import shutil
import signal
import socket
import threading

import pytest

from harness import run_binary, until
from harness.backend import RawBackend
from harness.certificates import Authority
from harness.daemon import Daemon, follow_upgrade, upgrade
from harness.h3 import H3, HAS_AIOQUIC
from harness.nodes import Node, store

needs_aioquic = pytest.mark.skipif(not HAS_AIOQUIC, reason="without aioquic: see auto/aioquic")

FRESH = b"Cache-Control: max-age=60"
CONF = """proxy_cache_path @DIR@/logs/cache keys_zone=z:1m %(path)s; proxy_cache z; proxy_cache_key $uri; proxy_cache_lock on sync %(words)s;
    proxy_cache_lock_timeout 60s; proxy_cache_lock_age 60s; add_header X-Cache $upstream_cache_status; map $request_method $purges { PURGE 1; }
    server { listen 127.0.0.1:@PORT@; location = /metrics { proxy_cache off; metrics; }
        location / { proxy_pass http://127.0.0.1:%(back)d; proxy_cache_purge $purges; %(more)s } }"""


def answer(body, *fields, status=b"200 OK"):
    lines = b"".join(field + b"\r\n" for field in fields)
    return b"HTTP/1.1 %s\r\nContent-Length: %d\r\n%s\r\n%s" % (status, len(body), lines, body)


class LockNode(Node):
    """A node whose cache has locks in common with others."""

    def ask(self, target="/", *fields, **how):
        """A client that has sent its request."""
        client = self.server.client()
        client.send("%s %s HTTP/1.1\r\nHost: a\r\n%s\r\n" % (how.get("method", "GET"), target, "".join(field + "\r\n" for field in fields)))
        return client

    def got(self, target="/", *fields, **how):
        response = self.server.get(target, *fields, **how)
        return response.header("X-Cache"), response.text

    def count(self, outcome):
        for line in self.server.get("/metrics").text.split("\n"):
            if line.startswith('portunus_cache_shared_fetches_total{cache="z",outcome="%s"}' % outcome):
                return int(line.rsplit(" ", 1)[1])
        raise AssertionError(outcome)


def end_of(client):
    response = client.response()
    client.close()
    return response.header("X-Cache"), response.text


def calls(redis):
    lines = [line for line in redis.ask("INFO", "commandstats").split("\r\n") if line.startswith("cmdstat_eval")]
    return sum(int(line.split("calls=")[1].split(",")[0]) for line in lines)


def asked(redis, count):
    """Waits until the store was asked so often since it started."""
    until(lambda: calls(redis) >= count, "%d calls" % count)


@pytest.fixture(name="nodes")
def fixture_nodes(serve):
    """A function that starts so many nodes with this store and this backend."""
    def start(port, back, count=2, **words):
        conf = CONF % {"path": "", "words": "", "more": "", "back": back, **words}
        started = [LockNode(serve(conf, main=store(port))) for _ in range(count)]
        for node in started if words.get("path") else ():
            until(lambda one=node: one.metric("portunus_sync_reads") == 1, "the first reading of purges")
        return started
    return start


@pytest.fixture(name="slow")
def fixture_slow(backend):
    """A function that gives a backend, whose first answer waits for the event that comes with it."""
    def make(first, *more):
        gate = threading.Event()

        before, after = first if isinstance(first, list) else (b"", first)

        def slowly(conn, _):
            conn.sendall(before)
            assert gate.wait(20)
            conn.sendall(after)
        return backend([slowly], *[[one] for one in more]), gate
    return make


def test_one_fetch_of_all_nodes(nodes, redis, slow):
    one = redis()
    back, gate = slow(answer(b"x" * 3000, FRESH, b"ETag: \"e\"", b"X-Own: 1", status=b"200 Fine"), answer(b"second", FRESH))
    first, *others = nodes(one.port, back.port, 3)
    clients = [first.ask()]
    back.wait_requests(1)
    clients += [node.ask() for node in others for _ in range(2)]
    asked(one, 4)
    gate.set()
    answers = [client.response() for client in clients]
    assert [response.header("X-Cache") for response in answers] == ["MISS"] + ["HIT"] * 4
    assert {(response.status, response.reason, response.text, response.header("ETag"), response.header("X-Own"), response.header("Content-Length"))
            for response in answers} == {(200, "Fine", "x" * 3000, '"e"', "1", "3000")}
    assert len(back.requests) == 1
    assert all(ttl > 0 for ttl in one.ttls())
    key, = one.keys()
    assert key.startswith("portunus:1:cache_fetch:{z ") and "xxxx" not in one.ask("HGET", key, "text")
    until(lambda: first.count("given") == 1, "the count")
    assert [first.count("fetched"), first.count("withheld"), first.count("taken")] == [1, 0, 0]
    assert [node.count("taken") for node in others] == [1, 1] and [node.count("fetched") for node in others] == [0, 0]
    one.ask("FLUSHALL")
    assert [node.got() for node in others] == [("HIT", "x" * 3000)] * 2         # from caches of their own
    for client in clients:
        client.close()


@pytest.mark.parametrize("size", [5, 70000, 200000])
def test_sizes(nodes, redis, backend, size):
    """Bodies in memory and in files; with a length and in chunks; also from a file at the node that takes it."""
    one = redis()
    body = bytes(i * 7 % 251 for i in range(size))
    chunked = b"HTTP/1.1 200 OK\r\n" + FRESH + b"\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n" % (size, body)
    back = backend([answer(body, FRESH, b"Accept-Ranges: bytes")], [chunked], [answer(b"", FRESH)])
    first, second = nodes(one.port, back.port)
    for target in ("/length", "/chunked"):
        assert first.server.get(target).body == body
        until(lambda: one.keys() and all(one.ask("HGET", key, "state") == "response" for key in one.keys()), "the response")
        taken = second.server.get(target)
        assert taken.header("X-Cache") == "HIT" and taken.body == body
    assert second.server.get("/length", "Range: bytes=2-4").body == body[2:5]
    assert len(back.requests) == 2


@pytest.mark.parametrize("first", [
    answer(b"mine", b"Cache-Control: no-store"), answer(b"mine", b"Cache-Control: private"), answer(b"mine", FRESH, b"Set-Cookie: a=b"),
    answer(b"mine", FRESH, b"Vary: *"), answer(b"mine", b"X-Accel-Expires: @1"), answer(b"mine", status=b"500 Internal Server Error"),
    b"", answer(b"x" * 300000, FRESH),
    b"HTTP/1.1 200 OK\r\n" + FRESH + b"\r\nTransfer-Encoding: chunked\r\n\r\n493e0\r\n" + b"x" * 300000 + b"\r\n0\r\n\r\n",
    answer(b"x" * 1000, FRESH)[:-1],
], ids=["no-store", "private", "cookie", "vary-any", "expired", "no-lifetime", "no-answer", "large", "large-chunked", "cut"])
def test_not_for_others(nodes, redis, slow, first):
    """Those who wait are let go, and nothing of it is in the store."""
    one = redis()
    back, gate = slow(first, *[answer(b"second", FRESH)] * 3)
    one_node, other = nodes(one.port, back.port, more="proxy_next_upstream off; proxy_set_header Connection close;")
    clients = [one_node.ask()]
    back.wait_requests(1)
    clients.append(other.ask())
    asked(one, 2)
    gate.set()
    assert end_of(clients[1]) == ("MISS", "second")
    clients[0].close()
    assert all(one.ask("HEXISTS", key, "state") and not one.ask("HGET", key, "text") for key in one.keys())
    until(lambda: one_node.count("withheld") == 1, "the count")
    assert [one_node.count("given"), other.count("taken")] == [0, 0]


def test_too_large_is_known_by_the_head(nodes, redis, slow):
    """Other nodes do not wait for the body."""
    one = redis()
    whole = answer(b"x" * 1000, FRESH)
    back, gate = slow([whole[:-900], whole[-900:]], answer(b"second", FRESH))
    first, other = nodes(one.port, back.port, words="sync_max_size=999")
    with first.ask() as client:
        back.wait_requests(1)
        assert other.got() == ("MISS", "second")
        gate.set()
        assert client.response().text == "x" * 1000
    assert first.got() == ("HIT", "x" * 1000)


def test_a_node_that_dies(nodes, redis, slow):
    """Its fetch is over when the lease is."""
    one = redis()
    back, gate = slow(answer(b"late", FRESH), answer(b"second", FRESH))
    first, other = nodes(one.port, back.port, more="proxy_cache_lock_age 200ms;")
    with first.ask():
        back.wait_requests(1)
        os.killpg(first.server.process.pid, signal.SIGKILL)
        first.server.process.wait()
        assert other.got() == ("MISS", "second")
    gate.set()
    first.server.start()


def test_no_longer_than_the_timeout(nodes, redis, slow):
    one = redis()
    back, gate = slow(answer(b"late", FRESH), answer(b"second", FRESH))
    first, other = nodes(one.port, back.port, more="proxy_cache_lock_timeout 50ms;")
    with first.ask() as client:
        back.wait_requests(1)
        assert other.got() == ("MISS", "second")
        assert other.count("timed_out") == 1
        gate.set()
        assert client.response().text == "late"
    assert other.got() == ("HIT", "second")


def test_the_store_is_gone(nodes, redis, backend):
    """Before, and while a request waits: each node fetches for itself."""
    one = redis()
    gate = threading.Event()

    def slowly(conn, _):
        assert gate.wait(20)
        conn.sendall(answer(b"late", FRESH))
    back = backend([slowly], *[[answer(b"second", FRESH)]] * 3)
    first, other = nodes(one.port, back.port)
    clients = [first.ask("/a")]
    back.wait_requests(1)
    clients.append(other.ask("/a"))
    asked(one, 2)
    one.stop()
    assert end_of(clients[1]) == ("MISS", "second")
    assert other.got("/b") == ("MISS", "second") and other.count("store_gone") >= 2
    gate.set()
    assert end_of(clients[0]) == ("MISS", "late")
    assert first.got("/a") == ("HIT", "late")


def test_a_client_that_leaves(nodes, redis, slow):
    """The fetch is continued for the others; and a client that waits may leave."""
    one = redis()
    back, gate = slow(answer(b"once", FRESH), answer(b"second", FRESH))
    first, other = nodes(one.port, back.port)
    with first.ask():
        back.wait_requests(1)
    leaver, waiter = other.ask("/"), other.ask("/")
    asked(one, 2)
    leaver.close()
    gate.set()
    assert end_of(waiter) == ("HIT", "once")
    assert len(back.requests) == 1


def blocked(redis):
    """A script waits in the store, which is paused."""
    return any(" flags=b " in line and " cmd=evalsha" in line for line in redis.ask("CLIENT", "LIST").split("\n"))


def test_a_client_that_leaves_while_the_store_is_asked(nodes, redis, backend):
    """What it asked the store for is done."""
    one = redis()
    back = backend(*[[answer(b"%d" % number, FRESH)] for number in range(3)])
    first, other = nodes(one.port, back.port)
    assert first.got("/w") == ("MISS", "0")                 # the store has the script now
    until(lambda: first.count("given") == 1, "the response")
    one.ask("CLIENT", "PAUSE", "60000", "WRITE")
    client = first.ask("/a")
    until(lambda: blocked(one), "the question")
    client.close()
    assert first.server.get("/metrics").status == 200       # it knows that the client has gone
    one.ask("CLIENT", "UNPAUSE")
    assert other.got("/a") == ("HIT", "1")


def test_the_store_answers_too_late(serve, redis, backend):
    """A node may have the fetch without knowing it."""
    one = redis()
    gate = threading.Event()

    def pages(conn, request):
        assert b" /a " not in request or gate.wait(20)
        conn.sendall(answer(b"late", FRESH))
    back = backend(*[[pages] for _ in range(99)])
    conf = CONF % {"path": "", "words": "", "more": "", "back": back.port}
    first, other = [LockNode(serve(conf, main=store(one.port, "timeout %s;" % timeout))) for timeout in ("200ms", "5s")]
    assert other.got("/w") == ("MISS", "late")              # the store has the script now
    numbers = iter(range(90))
    until(lambda: first.got("/%d" % next(numbers)) and first.count("given"), "the connection")
    one.ask("CLIENT", "PAUSE", "60000", "WRITE")
    with first.ask("/a") as client:
        back.wait_requests(len(back.requests) + 1)
        one.ask("CLIENT", "UNPAUSE")
        until(lambda: "fetch" in [one.ask("HGET", key, "state") for key in one.keys()], "the claim")
        gate.set()
        assert client.response().text == "late"
    assert other.got("/a") == ("HIT", "late")


def test_a_node_that_cannot_store(nodes, redis, backend):
    """It fetches for itself, and leaves the response to the others."""
    one = redis()
    back = backend(*[[answer(b"%d" % number, FRESH)] for number in range(3)])
    first, sick, other = nodes(one.port, back.port, 3)
    sick.server.allow.append("cache")
    assert first.got("/a") == ("MISS", "0")
    until(lambda: first.count("given") == 1, "the response")
    shutil.rmtree(sick.server.path("logs/cache"))
    sick.server.write("logs/cache", "")
    assert sick.got("/a") == ("MISS", "1")
    assert other.got("/a") == ("HIT", "0")


def test_how_much_of_a_worker_the_store_has(serve, redis, backend):
    """What clients ask for does not fill it."""
    one = redis()
    size = 3900000
    back = backend(*[[answer(b"x" * size, FRESH)] for _ in range(5)])
    conf = CONF % {"path": "", "words": "sync_max_size=4m", "more": "", "back": back.port}
    first = LockNode(serve(conf, main=store(one.port, "timeout 5s; reply_max 8m;")))
    for number in range(5):
        assert len(first.got("/%d" % number)[1]) == size
        until(lambda count=number: first.count("given") + first.count("withheld") == count + 1, "the response")
    assert [first.count(outcome) for outcome in ("given", "withheld")] == [4, 1] and first.count("dropped") >= 1


def test_many_who_wait_ask_seldom(nodes, redis):
    """For a node whose backend is silent."""
    one, many = redis(), 200
    with socket.create_server(("127.0.0.1", 0), backlog=2 * many) as silent, contextlib.ExitStack() as clients:
        port = silent.getsockname()[1]
        first, other = nodes(one.port, port, 1) + nodes(one.port, port, 1, more="proxy_cache_lock_timeout 500ms;")
        for number in range(many):
            clients.enter_context(first.ask("/%d" % number))
        until(lambda: first.count("fetched") == many, "the claims")
        one.ask("CLIENT", "PAUSE", "60000", "WRITE")        # so that they all begin to wait at one time
        for number in range(many):
            clients.enter_context(other.ask("/%d" % number))
        until(lambda: other.metric("portunus_store_requests", "store", "main") >= many, "the questions")
        one.ask("CLIENT", "UNPAUSE")
        until(lambda: other.count("timed_out") == many, "the end")
        assert calls(one) < (1 + 9) * many


def test_variants(nodes, redis, backend):
    """A response is for requests with the same fields; other ones have a fetch in common, too."""
    one = redis()

    def languages(conn, request):
        language = request.split(b"Accept-Language: ")[1].split(b"\r\n")[0]
        conn.sendall(answer(language, FRESH, b"Vary: Accept-Language"))
    back = backend([languages] * 2)
    first, second, third = nodes(one.port, back.port, 3, more="proxy_http_version 1.1;")

    def given(count):
        until(lambda: [one.ask("HGET", key, "state") for key in one.keys()].count("response") == count, "responses")
    assert first.got("/", "Accept-Language: en") == ("MISS", "en")
    given(1)
    assert second.got("/", "Accept-Language: de") == ("MISS", "de")
    given(2)
    assert second.got("/", "Accept-Language: en") == ("HIT", "en")
    assert third.got("/", "Accept-Language: de") == ("HIT", "de")
    assert third.got("/", "Accept-Language: en") == ("HIT", "en")
    assert first.got("/", "Accept-Language: de") == ("HIT", "de")
    assert len(back.requests) == 2


def test_a_variant_that_another_node_has(nodes, redis, backend):
    """Nodes that know nothing of the key learn by what responses differ, and then take that of the same fields."""
    one = redis()
    back = backend([answer(b"text", FRESH, b"Vary: Accept-Language")], [answer(b"second", FRESH)])
    first, *others = nodes(one.port, back.port, 3)
    assert first.got("/", "Accept-Language: en") == ("MISS", "text")
    until(lambda: sorted(one.ask("HGET", key, "state") for key in one.keys()) == ["response", "varies"], "both")
    assert [node.got("/", "Accept-Language: en") for node in others] == [("HIT", "text")] * 2
    assert len(back.requests) == 1


def test_a_line_for_several_caches(serve, redis, slow):
    """A request for another cache comes while the response is fetched."""
    one = redis()
    back, gate = slow(answer(b"late", FRESH), answer(b"quick", FRESH))
    conf = """proxy_cache_path @DIR@/logs/y keys_zone=y:1m; %s""" % (CONF % {"path": "", "words": "", "back": back.port, "more": "proxy_cache $arg_cache;"})
    first, other = [LockNode(serve(conf, main=store(one.port))) for _ in range(2)]
    with first.ask("/a?cache=z") as client:
        back.wait_requests(1)
        assert first.got("/b?cache=y") == ("MISS", "quick")
        gate.set()
        assert client.response().text == "late"
    until(lambda: [one.ask("HGET", key, "state") for key in one.keys()] == ["response"] * 2, "both")
    assert [other.got("/b?cache=y"), other.got("/a?cache=z")] == [("HIT", "quick"), ("HIT", "late")]


def test_renewed_for_all(nodes, redis, slow, backend):
    """A response that a backend says is still valid is given whole."""
    one = redis()
    gate = threading.Event()

    def unchanged(conn, request):
        assert b"If-None-Match: \"e\"" in request and gate.wait(20)
        conn.sendall(b"HTTP/1.1 304 Not Modified\r\n" + FRESH + b"\r\n\r\n")
    expired = answer(b"text", b"X-Accel-Expires: @1", b"ETag: \"e\"")
    back = backend([expired], [expired], [unchanged], [answer(b"wrong")])
    first, other = nodes(one.port, back.port, more="proxy_cache_revalidate on;")
    assert [first.got(), other.got()] == [("MISS", "text")] * 2
    until(lambda: [one.ask("HGET", key, "state") for key in one.keys()] == ["alone"], "the state")
    one.ask("FLUSHALL")
    client = first.ask()
    back.wait_requests(3)
    waiter = other.ask()
    asked(one, 5)
    gate.set()
    assert [end_of(client), end_of(waiter)] == [("REVALIDATED", "text"), ("HIT", "text")]
    assert first.got() == ("HIT", "text") and len(back.requests) == 3


@pytest.mark.parametrize("background", ["off", "on"])
def test_stale_while_another_node_updates(nodes, redis, backend, background):
    one = redis()
    gate = threading.Event()

    def slowly(conn, _):
        assert gate.wait(20)
        conn.sendall(answer(b"new", FRESH))
    old = answer(b"old", b"X-Accel-Expires: @1")
    back = backend([old], [old], [slowly], [answer(b"wrong")])
    first, other = nodes(one.port, back.port, more="proxy_cache_use_stale updating; proxy_cache_background_update %s;" % background)
    assert [first.got(), other.got()] == [("MISS", "old")] * 2
    until(lambda: [one.ask("HGET", key, "state") for key in one.keys()] == ["alone"], "the state")
    one.ask("FLUSHALL")
    client = first.ask()
    back.wait_requests(3)
    with other.server.client() as kept:
        for _ in range(2): # nobody waits for the other node, nor for an update in the background
            response = kept.request("/")
            assert (response.header("X-Cache"), response.text) == ("STALE" if background == "on" else "UPDATING", "old")
    gate.set()
    assert end_of(client) == (("STALE", "old") if background == "on" else ("EXPIRED", "new"))
    until(lambda: other.got() == ("HIT", "new"), "the new response")
    assert len(back.requests) == 3


@pytest.mark.parametrize("what", ["/%d", "/%d*"])
@pytest.mark.parametrize("path", ["", "sync"])
def test_purged_since(nodes, redis, backend, path, what):
    """
    What was fetched before a purge is not taken after it, also by a node that did not have it; and is fetched once more for all. In doubt, which is as
    long as a question takes to reach the store, a response counts as fetched before the purge: so not each round ends with a response that is taken.
    """
    one = redis()
    back = backend(*[[lambda conn, _: conn.sendall(answer(b"%d" % len(back.requests), FRESH))] for _ in range(999)])
    first, second, third = nodes(one.port, back.port, 3, path=path)
    rounds = iter(range(1, 200))

    def is_taken():
        number = next(rounds)
        before, target, given = len(back.requests), "/%d" % number, (first.count("given"), second.count("given"))
        outcome, old = first.got(target)
        assert outcome == "MISS"
        until(lambda: first.count("given") > given[0], "the response")
        assert second.server.get(what % number, method="PURGE").status == 404
        for node in (first, second, third) if path == "sync" else ():
            until(lambda: node.metric("portunus_sync_received") >= number, "the purge")
        outcome, new = second.got(target)
        assert outcome == "MISS" and new != old
        until(lambda: second.count("given") > given[1], "the next response")
        answers = [node.got(target) for node in ((third, first) if path == "sync" else (third,))]
        assert all(body != old for _, body in answers)
        return {("HIT", new)} == set(answers) and len(back.requests) == before + 2
    until(is_taken, "a response that all take")


@pytest.mark.parametrize("path", ["", "sync"])
def test_purged_before_a_restart(nodes, redis, backend, path):
    """The node forgot purges of single keys, and took what had been fetched before one, as long as the store had it."""
    one = redis()
    back = backend(*[[answer(body, FRESH)] for body in (b"old", b"new")])
    first, second = nodes(one.port, back.port, path=path)
    assert first.got() == ("MISS", "old")
    until(lambda: first.count("given") == 1, "the response")
    assert second.server.get("/", method="PURGE").status == 404
    second.server.quit()
    second.server.start()
    assert second.got() == ("MISS", "new")


@needs_aioquic
def test_http3_clients_that_wait(serve, redis, slow, tmp_path):
    """For a response that another node fetches: they get it, and one that leaves takes nothing from the others."""
    one = redis()
    Authority(str(tmp_path)).issue("www")
    back, gate = slow(answer(b"x" * 3000, FRESH))
    conf = (CONF % {"path": "", "words": "", "more": "", "back": back.port}).replace(
        "@PORT@;", "@PORT@; listen 127.0.0.1:@PORT3@ quic; ssl_certificate %s/www.crt; ssl_certificate_key %s/www.key;" % (tmp_path, tmp_path), 1)
    first, second = [LockNode(serve(conf, main=store(one.port))) for _ in range(2)]
    client = first.ask()
    back.wait_requests(1)
    with H3(second.server.port_of("PORT3")) as stays, H3(second.server.port_of("PORT3")) as leaves:
        streams = [stays.send(), stays.send()]
        left = leaves.send()
        leaves.flush()
        stays.flush()
        asked(one, 3)
        leaves.turn()
        assert not leaves.answer(left).heads
        leaves.close()
        gate.set()
        answers = [stays.wait(stream) for stream in streams]
    assert [(got.headers["x-cache"], got.body) for got in answers] == [("HIT", b"x" * 3000)] * 2
    assert end_of(client) == ("MISS", "x" * 3000) and len(back.requests) == 1


@pytest.mark.parametrize("which", ["that fetches", "that waits"])
def test_an_upgrade_while_a_response_is_fetched(serve, redis, slow, which):
    """USR2 and QUIT: the former process ends what it has begun, and what it fetched is given."""
    one = redis()
    back, gate = slow(answer(b"x" * 3000, FRESH), answer(b"again", FRESH))
    conf, main = CONF % {"path": "", "words": "", "more": "", "back": back.port}, store(one.port)
    server = Daemon(conf, main=main)
    server.configure(conf=server.conf.replace("daemon off;", "daemon on;"))
    with server:
        pair = [LockNode(server), LockNode(serve(conf, main=main))]
        first, second = pair if which == "that fetches" else pair[::-1]
        fetches = first.ask()
        back.wait_requests(1)
        waits = second.ask()
        asked(one, 2)
        upgrade(server, 1)
        server.signal("quit")
        asked(one, calls(one) + 1)
        gate.set()
        assert end_of(fetches) == ("MISS", "x" * 3000) and end_of(waits) == ("HIT", "x" * 3000)
        assert len(back.requests) == 1
        follow_upgrade(server)


def test_what_is_in_the_store_is_not_believed(nodes, redis, backend):
    """Garbage, another key's response, another type, a state that is not known: the node fetches for itself."""
    one = redis()
    back = backend([answer(b"text", FRESH) for _ in range(99)])
    first, other = nodes(one.port, back.port, more="proxy_http_version 1.1; proxy_set_header Connection '';")

    def given(target):
        before = set(one.keys())
        assert first.got(target)[0] == "MISS"
        until(lambda: set(one.keys()) - before, "the key")
        key, = set(one.keys()) - before
        until(lambda: one.ask("HGET", key, "state") == "response", "the response")
        return key
    another = one.ask("HGET", given("/another"), "text")
    for number, (field, value) in enumerate([("text", "garbage"), ("text", ""), ("text", another), ("begun", "x"), ("given", ""), ("given", "99999999999999"),
                                             ("token", "x" * 100), ("state", "nothing"), ("state", "")]):
        key = given("/%d" % number)
        one.ask("HSET", key, field, value)
        assert other.got("/%d" % number) == ("MISS", "text"), (field, value)
    key = given("/type")
    one.ask("SET", key, "x")
    assert other.got("/type") == ("MISS", "text")
    key = given("/cut")
    one.ask("HDEL", key, "text")
    assert other.got("/cut") == ("MISS", "text")
    assert other.count("taken") == 0 and other.count("unreadable") == 5
    assert other.server.error_log.count("the store has something else than a response of a node with this password") == 1
    assert back.problems == []


def test_slices(nodes, redis, serve, backend):
    """Each is a fetch of its own."""
    one = redis()
    body = bytes(range(256)) * 8

    def parts(conn, request):
        start, end = (int(number) for number in request.split(b"Range: bytes=")[1].split(b"\r\n")[0].split(b"-"))
        part = body[start:end + 1]
        conn.sendall(answer(part, FRESH, b"ETag: \"e\"", b"Content-Range: bytes %d-%d/%d" % (start, start + len(part) - 1, len(body)), status=b"206 Partial Content"))
    back = backend(*[[parts] * 9] * 2)
    first, other = nodes(one.port, back.port, more="slice 1k; proxy_cache_key $uri$slice_range; proxy_set_header Range $slice_range; proxy_cache_valid 206 1m;")
    assert first.server.get("/").body == body
    until(lambda: first.count("given") == 2, "both")
    assert other.server.get("/").body == body
    assert other.count("taken") == 2 and len(back.requests) == 2


def test_of_other_protocols(redis, serve):
    """scgi; fastcgi and uwsgi have the same rows."""
    one = redis()
    back = RawBackend(*[[b"Status: 200 OK\r\nCache-Control: max-age=60\r\n\r\n%d" % number] for number in range(3)])
    conf = """scgi_cache_path @DIR@/logs/cache keys_zone=z:1m; server { listen 127.0.0.1:@PORT@; location = /metrics { metrics; }
        location / { scgi_pass 127.0.0.1:%d; scgi_cache z; scgi_cache_key $uri; scgi_cache_lock on sync=main; add_header X-Cache $upstream_cache_status; } }"""
    first, other = [LockNode(serve(conf % back.port, main=store(one.port))) for _ in range(2)]
    assert first.got() == ("MISS", "0")
    until(lambda: first.count("given") == 1, "the response")
    assert other.got() == ("HIT", "0")
    back.close()


@pytest.mark.parametrize("words,error", [
    ("on sync", None), ("on sync=main sync_max_size=1m", None), ("on sync_max_size=1k sync", None), ("off", None),
    ("on", None), ("on sync=other", '"other"'), ("off sync", 'invalid parameter "sync"'), ("on sync sync", 'duplicate parameter "sync"'),
    ("on sync=strict", 'invalid parameter "sync=strict"'), ("on sync_interval=1s", 'invalid parameter "sync_interval=1s"'),
    ("on sync_max_size=1k", '"sync_max_size" needs "sync"'), ("on sync sync_max_size=0", 'invalid parameter "sync_max_size=0"'),
    ("on sync sync_max_size=x", 'invalid parameter "sync_max_size=x"'), ("on x", 'invalid parameter "x"'), ("yes", 'must be "on" or "off"'),
    ("on sync sync_max_size=1 x", "invalid number of arguments"),
])
def test_words(tmp_path, words, error):
    path = tmp_path / "nginx.conf"
    path.write_text("error_log stderr; pid %s; events {} redis_store main { server 127.0.0.1:1; } http { proxy_cache_path %s keys_zone=z:1m; proxy_cache_lock %s; }" % (tmp_path / "pid", tmp_path / "c", words))
    done = run_binary("-t", "-c", str(path), "-p", str(tmp_path))
    assert (done.returncode == 0) == (error is None) and (error or "successful") in done.stderr, done.stderr
