"""Caches whose purges reach all nodes by a redis_store: by key, by prefix, all; nodes that were away; the store gone."""

import os
import time

import pytest

from harness import run_binary, until
from harness.nodes import Node, store

CONF = """proxy_cache_path @DIR@/logs/cache keys_zone=z:1m sync; map $request_method $purges { PURGE 1; }
    server { listen 127.0.0.1:@PORT@; location /origin { return 200 $request_id; } location = /metrics { metrics; }
        location / { proxy_pass http://127.0.0.1:@PORT@/origin; proxy_cache z; proxy_cache_key $uri; proxy_cache_valid any 10m;
            proxy_cache_purge $purges; } }"""
ITEMS = "portunus:1:cache_purge:{z}"


class CacheNode(Node):
    """A node; its backend gives another text with each request."""

    def text(self, target):
        return self.server.get(target).text

    def fill(self, *targets):
        return {target: self.text(target) for target in targets}

    def purge(self, target, status=204):
        assert self.server.get(target, method="PURGE").status == status

    def loses(self, target, text):
        until(lambda: self.text(target) != text, lambda: "%s is still there\n%s" % (target, self.server.error_log))

    def keeps(self, texts, *targets):
        assert all(self.text(target) == texts[target] for target in targets)

    def restart(self, after=lambda: None):
        """Ends it, and starts it with what its cache has on the disk."""
        self.server.quit()
        after()
        self.server.start()


@pytest.fixture(name="nodes")
def fixture_nodes(serve):
    """A function that starts so many nodes with this store."""
    def start(port, count=2, more="timeout 5s;", workers=1, http=CONF):
        started = [CacheNode(serve(http, main=store(port, more, workers))) for _ in range(count)]
        for node in started:
            until(lambda one=node: one.metric("portunus_sync_reads") == 1, "the first reading")
        return started
    return start


def test_purges_reach_all_nodes(nodes, redis):
    one = redis()
    first, second, third = nodes(one.port, 3, workers=2)
    texts = [node.fill("/a", "/b/1", "/b/2", "/c") for node in (first, second, third)]
    assert texts[0]["/a"] != texts[1]["/a"]
    first.purge("/a")
    assert one.ask("HLEN", ITEMS) == 2                         # the purge, and the epoch: before the answer
    second.loses("/a", texts[1]["/a"])
    third.loses("/a", texts[2]["/a"])
    second.purge("/b/*")
    for node, had in ((first, texts[0]), (third, texts[2])):
        node.loses("/b/1", had["/b/1"])
        node.loses("/b/2", had["/b/2"])
        node.keeps(had, "/c")
    third.purge("/*")
    first.loses("/c", texts[0]["/c"])
    second.loses("/c", texts[1]["/c"])
    assert sorted(one.keys()) == [ITEMS, ITEMS + ":changes", ITEMS + ":expiry"]
    assert all(ttl > 0 for ttl in one.ttls())
    assert all(0 < float(ends) / 1000 - time.time() < 3700 for ends in one.ask("ZRANGE", ITEMS + ":expiry", 0, -1, "WITHSCORES")[1::2])


def test_a_node_that_did_not_have_it(nodes, redis):
    """It answers 404, and the others are purged all the same."""
    one = redis()
    first, second = nodes(one.port)
    text = second.text("/a")
    first.purge("/a", status=404)
    second.loses("/a", text)
    text = second.text("/b/1")
    first.purge("/b/*", status=404)
    second.loses("/b/1", text)


def test_what_is_fetched_after_a_purge_stays(nodes, redis):
    """A node does not make its own purges once more when it reads them."""
    one = redis()
    first, = nodes(one.port, 1)
    first.fill("/a", "/b/1")
    first.purge("/a")
    first.purge("/b/*")
    after = first.fill("/a", "/b/1")
    until(lambda: first.metric("portunus_sync_received") >= 2, "its own items")
    first.keeps(after, "/a", "/b/1")


def test_a_node_that_was_away(nodes, redis):
    """What was purged meanwhile is not taken from its disk; all else is."""
    one = redis()
    first, second = nodes(one.port)
    first.fill("/a")
    texts = second.fill("/a", "/b/1", "/c")

    def meanwhile():
        first.purge("/a")
        first.purge("/b/*", status=404)
    second.restart(meanwhile)
    second.loses("/a", texts["/a"])
    second.loses("/b/1", texts["/b/1"])
    second.keeps(texts, "/c")


def test_purges_that_a_node_knows(nodes, redis):
    """One that is older than the last time that the node read all of them is not made again."""
    one = redis()
    first, second = nodes(one.port)
    text = second.text("/a")
    first.purge("/a", status=404)
    second.loses("/a", text)
    item, = (name for name in one.ask("HKEYS", ITEMS) if name)
    ends, _, value = one.ask("HGET", ITEMS, item).partition(" ")
    texts = second.fill("/a", "/c")

    def write(ends):
        count = second.metric("portunus_sync_received")
        one.ask("HSET", ITEMS, item, "%d %s" % (ends, value))
        one.ask("XADD", ITEMS + ":changes", "*", "o", item)
        until(lambda: second.metric("portunus_sync_received") > count, "the item")
    write(int(ends) - 120000)
    second.keeps(texts, "/a", "/c")
    write(int(ends))
    second.loses("/a", texts["/a"])


def test_a_node_that_was_away_too_long(nodes, redis):
    one = redis()
    first, second = nodes(one.port)
    texts = second.fill("/a")
    contact = second.server.path("logs", "cache", ".sync")
    until(lambda: os.path.exists(contact), "the file")
    second.restart(lambda: os.utime(contact, (time.time() - 3600,) * 2))
    second.loses("/a", texts["/a"])
    second.server.wait_log("for longer than purges are kept; the whole cache is purged")
    texts = first.fill("/a")
    until(lambda: os.path.exists(first.server.path("logs", "cache", ".sync")), "the file")
    first.restart(lambda: os.utime(first.server.path("logs", "cache", ".sync"), (time.time() - 3000,) * 2))
    until(lambda: first.metric("portunus_sync_reads") >= 1, "the first reading")
    first.keeps(texts, "/a")


def test_store_gone_and_back(nodes, redis):
    """Purges wait for it, and nodes are served meanwhile."""
    one = redis()
    first, second = nodes(one.port, more="timeout 20ms;")
    first.fill("/a", "/b/1")
    texts = second.fill("/a", "/b/1", "/c")
    one.stop()
    first.purge("/a")
    first.purge("/b/*")
    second.keeps(texts, "/a", "/b/1")
    one.start()
    second.loses("/a", texts["/a"])
    second.loses("/b/1", texts["/b/1"])
    second.keeps(texts, "/c")


def test_a_store_that_lost_its_data(nodes, redis):
    """Nodes give it the purges that they made, for those that were away."""
    one = redis()
    first, second = nodes(one.port)
    first.fill("/a")
    texts = second.fill("/a", "/c")

    def meanwhile():
        first.purge("/a")
        until(lambda: first.metric("portunus_sync_received") >= 1, "its own item")
        one.ask("FLUSHALL")
        until(lambda: one.ask("HLEN", ITEMS) == 2, "the item again")
    second.restart(meanwhile)
    second.loses("/a", texts["/a"])
    second.keeps(texts, "/c")


def test_many_prefixes_at_once(nodes, redis):
    """More than a cache has rules for: the other nodes look through their files, and keep what was not purged."""
    one = redis()
    first, second = nodes(one.port)
    texts = second.fill("/0/a", "/129/a", "/c")
    with first.server.client() as client:
        for i in range(130):
            client.request("/%d/*" % i, method="PURGE")
    second.loses("/129/a", texts["/129/a"])
    second.loses("/0/a", texts["/0/a"])
    second.keeps(texts, "/c")


def test_what_others_wrote_into_the_store(nodes, redis):
    one = redis()
    first, second = nodes(one.port)
    texts = second.fill("/a", "/c")
    first.purge("/a", status=404)
    second.loses("/a", texts["/a"])
    texts = second.fill("/a", "/c")
    item, = (name for name in one.ask("HKEYS", ITEMS) if name)
    digest, value = item[2:], one.ask("HGET", ITEMS, item)
    names = ("x", "k", "k:", "k:" + digest[1:], "k:" + digest + "0", "k:1:" + digest, "k:" + "g" * 32, "p:" + digest, "p::" + digest,
             "p:-1:" + digest, "p:%d:%s" % (2 ** 64 - 1, digest), "p:%d:%s" % (2 ** 64, digest), "p:9" + "0" * 40 + ":" + digest)
    for name in names:
        one.ask("HSET", ITEMS, name, value)                    # a value of another item
        one.ask("XADD", ITEMS + ":changes", "*", "o", name)
    one.ask("HSET", ITEMS, item, "0 x")
    one.ask("XADD", ITEMS + ":changes", "*", "o", item)
    until(lambda: second.metric("portunus_sync_unreadable") >= len(names) + 1, "the items")
    second.keeps(texts, "/a", "/c")
    first.purge("/c", status=404)
    second.loses("/c", texts["/c"])


@pytest.mark.parametrize("words, message", [
    ("sync", '"sync" needs a "redis_store"'),
    ("sync=strict", 'invalid parameter "sync=strict"'),
    ("sync_interval=5ms", '"sync_interval" needs "sync"'),
    ("sync sync", 'duplicate parameter "sync"'),
])
@pytest.mark.parametrize("name", ["proxy", "scgi", "slowfs"])
def test_mistakes(tmp_path, name, words, message):
    conf = tmp_path / "nginx.conf"
    conf.write_text("events { } http { %s_cache_path %s/c keys_zone=z:1m %s; }" % (name, tmp_path, words))
    done = run_binary("-t", "-p", str(tmp_path), "-c", str(conf))
    assert done.returncode == 1 and message in done.stderr, done.stderr
