"""keyval zones that nodes share by a redis_store: what one writes all have, also those that were away; and when the store is gone."""

import contextlib
import json
import queue
import select
import socket
import threading

import pytest

from harness import run_binary, until
from harness.backend import talk_to_each
from harness.nodes import Node, store, zone


@pytest.fixture(name="nodes")
def fixture_nodes(serve):
    """A function that starts so many nodes with this store."""
    def start(port, count=2, http=None, more="timeout 5s;", files=None, workers=1):
        return [Node(serve(http or zone(), main=store(port, more, workers), files=files)) for _ in range(count)]
    return start


class Relay:
    """Between nodes and a store. `hold` keeps what its present connections bring, also after their end, until `release`."""

    def __init__(self, store):
        self.store, self.gates, self.left, self.ended = store, [], 0, 0
        self.listener = talk_to_each(self._talk)
        self.port = self.listener.getsockname()[1]

    def _talk(self, conn):
        gate, pieces = threading.Event(), queue.Queue()
        gate.set()
        self.gates.append(gate)
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.store)) as there:
            threads = [threading.Thread(target=run, args=(conn, there, pieces), daemon=True) for run in (self._take, self._back)]
            for thread in threads:
                thread.start()
            while piece := pieces.get():
                gate.wait()
                with contextlib.suppress(OSError):
                    there.sendall(piece)
            gate.wait()
            with contextlib.suppress(OSError):
                there.shutdown(socket.SHUT_WR)
            threads[1].join()
            self.ended += 1

    def _take(self, conn, _, pieces):
        with contextlib.suppress(OSError):
            while piece := conn.recv(65536):
                pieces.put(piece)
        self.left += 1
        pieces.put(b"")

    def _back(self, conn, there, _):
        with contextlib.suppress(OSError):
            while piece := there.recv(65536):
                with contextlib.suppress(OSError):
                    conn.sendall(piece)
        with contextlib.suppress(OSError):
            conn.shutdown(socket.SHUT_RDWR)

    def hold(self):
        for gate in self.gates:
            gate.clear()

    def release(self):
        for gate in self.gates:
            gate.set()

    def close(self):
        self.release()
        self.listener.close()


def test_what_one_writes_all_have(nodes, redis):
    one = redis()
    first, second, third = nodes(one.port, 3)
    assert first.set(a="1", b="2") == 201
    assert second.has(a="1", b="2") and third.has(a="1", b="2")
    assert second.server.get("/?k=b").text == "2"
    assert second.set(b="zwei") == 204
    assert first.has(a="1", b="zwei") and third.has(a="1", b="zwei")
    assert third.call("PATCH", {"a": None}) == 204
    assert first.has(b="zwei") and second.has(b="zwei")
    assert first.call("DELETE") == 204
    assert second.has() and third.has()
    assert second.set(c="3") == 201
    assert first.has(c="3") and third.has(c="3")
    assert sorted(one.keys()) == ["portunus:1:keyval:{z}", "portunus:1:keyval:{z}:changes"]
    assert all(ttl > 0 for ttl in one.ttls())


def test_an_acknowledged_write_is_in_the_store(nodes, redis):
    """It outlives the node that took it."""
    one = redis()
    first, second = nodes(one.port, workers=2)
    for i in range(20):
        assert first.set(**{"k%d" % i: "v"}) == 201
        assert "k%d" % i in one.ask("HKEYS", "portunus:1:keyval:{z}")
    until(lambda: len(second.pairs()) == 20, "all pairs")


def test_pairs_expire_everywhere(nodes, redis):
    one = redis()
    first, second = nodes(one.port)
    assert first.set(long={"value": "x", "expire": 3600000}) == 201
    assert first.set(brief={"value": "x", "expire": 300}) == 201
    until(lambda: "long" in second.pairs(), "the pair")
    assert one.ask("ZCARD", "portunus:1:keyval:{z}:expiry") >= 1
    assert second.has(long="x") and first.has(long="x")
    assert second.set(more="y") == 201                  # a write removes what has expired
    assert one.ask("HEXISTS", "portunus:1:keyval:{z}", "brief") == 0 and one.ask("ZCARD", "portunus:1:keyval:{z}:expiry") == 1
    assert first.call("PATCH", {"long": {"expire": 100}}) == 204
    assert second.has(more="y") and first.has(more="y")


def test_a_node_that_starts(nodes, redis):
    """It takes what the store has. What its file has counts only where the store has nothing."""
    one = redis()
    state = zone("state=logs/pairs.json")
    first, = nodes(one.port, 1, state, files={"logs/pairs.json": '{"old": "1"}'})
    until(lambda: one.ask("HEXISTS", "portunus:1:keyval:{z}", "old") == 1, "the pair of the file")
    assert first.set(new="2") == 201
    second, = nodes(one.port, 1, state, files={"logs/pairs.json": '{"old": "0", "gone": "x"}'})
    assert second.has(old="1", new="2") and first.has(old="1", new="2")
    until(lambda: json.loads(second.server.read("logs/pairs.json")) == {"old": "1", "new": "2"}, lambda: second.server.read("logs/pairs.json"))


def test_a_node_that_was_away(nodes, redis):
    """More was written meanwhile than the stream keeps: it reads all."""
    one = redis()
    first, second = nodes(one.port)
    assert first.set(stays="1", goes="1") == 201
    assert second.has(stays="1", goes="1")
    assert first.metric("portunus_sync_reads") == second.metric("portunus_sync_reads") == 1
    one.ask("EVAL", "redis.call('XTRIM', KEYS[1] .. ':changes', 'MAXLEN', 0) redis.call('HDEL', KEYS[1], 'goes') "
            "redis.call('XADD', KEYS[1] .. ':changes', '*', 'o', 'other')", 1, "portunus:1:keyval:{z}")
    assert first.has(stays="1") and second.has(stays="1")
    assert first.set(more="3") == 201 and second.has(stays="1", more="3")


def test_store_that_forgets_all(nodes, redis):
    """Nodes give it what they have."""
    one = redis()
    first, second = nodes(one.port, more="timeout 20ms;")
    assert first.set(a="1", b="2") == 201
    assert second.has(a="1", b="2")
    one.stop()
    first.server.wait_log("zones continue locally")
    assert second.set(own="3") == 201
    one.start()
    assert first.has(a="1", b="2", own="3") and second.has(a="1", b="2", own="3")
    assert one.ask("HLEN", "portunus:1:keyval:{z}") == 4
    assert all(ttl > 0 for ttl in one.ttls())


def test_store_gone_and_back(nodes, redis):
    """Nodes continue with what they have; when the store is back, both sides' changes reach all."""
    one = redis("appendonly yes")
    first, second = nodes(one.port, more="timeout 20ms;")
    assert first.set(a="1", b="1") == 201
    assert second.has(a="1", b="1")
    one.stop()
    first.server.wait_log("zones continue locally")
    assert first.set(first="x") == 201 and second.set(second="y") == 201
    assert first.call("PATCH", {"b": None}) == 204
    assert first.has(a="1", first="x") and second.has(a="1", b="1", second="y")
    assert first.metric("portunus_sync_waiting") == 2
    one.start()
    assert first.has(a="1", first="x", second="y") and second.has(a="1", first="x", second="y")
    until(lambda: first.metric("portunus_sync_waiting") == 0, "nothing to wait")
    assert first.metric("portunus_sync_reads") == 1


def test_all_dropped_while_the_store_is_gone(nodes, redis):
    one = redis()
    first, second = nodes(one.port, more="timeout 20ms;")
    assert first.set(a="1", b="1") == 201
    assert second.has(a="1", b="1")
    one.ask("DEBUG", "SLEEP", "0.3")
    assert first.call("DELETE") == 204 and first.set(c="2") == 201
    assert second.has(c="2") and first.has(c="2")


def test_a_write_that_arrives_late(nodes, redis):
    """Of a connection that was given up, after a later write: it changes nothing, and brings nothing back that was removed."""
    one = redis()
    with contextlib.closing(Relay(one.port)) as relay:
        first, = nodes(relay.port, 1, more="timeout 20ms;")
        second, = nodes(one.port, 1)
        assert first.set(a="0", b="0") == 201 and second.has(a="0", b="0")
        left = relay.left
        relay.hold()
        assert first.set(a="1", b="1") == 204
        assert first.call("PATCH", {"a": "2", "b": None}) == 204
        assert second.has(a="2")
        until(lambda: relay.left > left, "the end of the connection that hangs")
        relay.release()
        until(lambda: relay.ended == relay.left, "what came late")
        assert second.set(c="3") == 201
        assert first.has(a="2", c="3") and second.has(a="2", c="3")
        assert all(ttl > 0 for ttl in one.ttls())


def test_a_write_while_another_one_is_sent(nodes, redis):
    """It is answered when the store has it, too."""
    one = redis()
    with contextlib.closing(Relay(one.port)) as relay:
        first, = nodes(relay.port, 1)
        assert first.set(a="0") == 201
        relay.hold()
        with first.server.client() as former, first.server.client() as later:
            for client, value in (former, "1"), (later, "2"):
                client.send('PATCH %s HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{"a":"%s"}' % (first.path, value))
                until(lambda want=value: first.pairs() == {"a": want}, "the change")
            assert not select.select([former.socket, later.socket], [], [], 0)[0]
            relay.release()
            assert later.response("PATCH").status == 204 and former.response("PATCH").status == 204


def test_store_is_full(nodes, redis):
    """The store refuses: it is logged, and sent again until there is room."""
    one = redis()
    first, second = nodes(one.port)
    assert first.set(a="1") == 201
    assert second.has(a="1")
    one.ask("CONFIG", "SET", "maxmemory", "1")
    assert first.set(b="2") == 201
    first.server.wait_log("OOM")
    one.ask("CONFIG", "SET", "maxmemory", "0")
    assert second.has(a="1", b="2")


def test_a_value_that_is_too_large(nodes, redis):
    one = redis()
    first, second = nodes(one.port, more="timeout 5s; reply_max 64k;")
    assert first.set(a="x" * 20000) == 201
    first.server.wait_log('the item "a" is too large for other nodes')
    assert first.set(**{"b%d" % i: "y" * 9000 for i in range(20)}) == 201
    until(lambda: len(second.pairs()) == 20, "all pairs but one")
    assert first.metric("portunus_sync_too_large") >= 1


def test_nodes_with_unlike_reply_max(nodes, redis):
    """A value that one node cannot read does not keep others from it."""
    one = redis()
    first, = nodes(one.port, 1)
    second, = nodes(one.port, 1, more="timeout 5s; reply_max 64k;")
    assert first.set(a="1") == 201 and second.has(a="1")
    assert first.set(a="x" * 70000) == 204 and first.set(b="2") == 201
    assert second.has(b="2")
    second.server.wait_log('the item "a" of another node is larger than half of "reply_max"')


def test_a_time_of_any_length(nodes, redis):
    """An item of the store that no node wrote does not keep others from being read."""
    one = redis()
    first, second = nodes(one.port)
    assert first.set(a="1") == 201 and second.has(a="1")
    one.ask("HSET", "portunus:1:keyval:{z}", "x", "9" * 400 + " plain", "", "n:" + "9" * 100)
    one.ask("XADD", "portunus:1:keyval:{z}:changes", "*", "o", "x")
    assert first.set(b="2") == 201 and second.has(a="1", b="2")
    third, = nodes(one.port, 1)
    assert third.has(a="1", b="2")


def test_a_zone_that_is_full(nodes, redis):
    """What has no room here does not end what has."""
    one = redis()
    first, = nodes(one.port, 1)
    assert first.set(**{"k%d" % i: "x" * 1000 for i in range(100)}) == 201
    second, = nodes(one.port, 1, zone(size="64k"))
    second.server.wait_log("of another node has no room")
    assert second.set(own="1") == 507
    assert first.call("DELETE") == 204
    assert second.has()
    assert second.set(own="1") == 201 and first.has(own="1")


def test_what_others_wrote_into_the_store(nodes, redis):
    """Values of another shape, or that were encrypted for another item, change nothing."""
    one = redis()
    first, second = nodes(one.port)
    assert first.set(a="1", b="2") == 201
    assert second.has(a="1", b="2")
    key = "portunus:1:keyval:{z}"
    for value in ("", "x", "0 ", "0 plain", "99999999999999999999 plain", one.ask("HGET", key, "b")):
        one.ask("HSET", key, "a", value)
        one.ask("XADD", key + ":changes", "*", "o", "a")
    one.ask("XADD", key + ":changes", "*", "o", "a" * 5000)
    second.server.wait_log("was not written by a node with this password")
    assert second.set(c="3") == 201
    until(lambda: first.pairs().get("c") == "3", "the pair")
    assert first.pairs()["b"] == "2" and second.metric("portunus_sync_unreadable") > 0
    one.ask("DEL", key + ":changes", key)
    one.ask("SET", key + ":changes", "no stream")
    assert first.set(d="4") == 201 and second.set(e="5") == 201
    first.server.wait_log("WRONGTYPE")
    one.ask("DEL", key + ":changes")
    until(lambda: first.pairs().get("e") == "5" and second.pairs().get("d") == "4", "both pairs")


def test_networks_have_one_name(nodes, redis):
    one = redis()
    first, second = nodes(one.port, http=zone("type=ip"))
    assert first.set(**{"10.1.2.3/8": "net", "2001:DB8::1/32": "six", "10.0.0.1": "host"}) == 201
    assert second.has(**{"10.0.0.0/8": "net", "2001:db8::/32": "six", "10.0.0.1/32": "host"})
    assert second.server.get("/?k=10.9.9.9").text == "net"
    assert second.call("PATCH", {"10.0.0.0/8": None, "10.0.0.1": None}) == 204
    assert first.has(**{"2001:DB8::1/32": "six"})
    assert one.ask("HLEN", "portunus:1:keyval:{z}") == 2 # and what tells one table from the next


def test_reload_and_workers(nodes, redis):
    """What a reload does not do is to read all again; a store that is slow to answer may have it done, by chance."""
    one = redis()
    first, second = nodes(one.port, workers=2)
    assert first.set(a="1") == 201
    assert second.has(a="1")
    pairs = {"a": "1"}

    def reads_of_a_reload():
        before = second.metric("portunus_sync_reads")
        second.server.reload()
        for node, key in (first, "b%d" % len(pairs)), (second, "c%d" % len(pairs)):
            pairs[key] = "2"
            assert node.set(**{key: "2"}) == 201
            assert first.has(**pairs) and second.has(**pairs)
        return second.metric("portunus_sync_reads") - before
    until(lambda: reads_of_a_reload() == 0, "a reload without a reading")


def test_stream(serve, redis):
    one = redis()
    conf = """stream { keyval_zone zone=z:64k sync=main sync_interval=5ms; keyval $server_port $value zone=z;
        server { listen 127.0.0.1:@PORT1@; return $value; } } """
    api = "server { listen 127.0.0.1:@PORT@; location /api { api write=on; } }"
    first, second = (Node(serve(api, main=store(one.port) + conf), "stream") for _ in range(2))
    assert first.set(a="1") == 201 and second.has(a="1")


@pytest.mark.parametrize("main, words, message", [
    ("", "sync", '"sync" needs a "redis_store"'),
    ("redis_store a { server 127.0.0.1; }", "sync=strict", 'invalid parameter "sync=strict"'),
    ("redis_store a { server 127.0.0.1; }", "sync=b", 'no redis_store is named "b"'),
    ("redis_store a { server 127.0.0.1; }", "sync sync", 'duplicate parameter "sync"'),
    ("redis_store a { server 127.0.0.1; }", "sync_interval=5ms", '"sync_interval" needs "sync"'),
])
def test_mistakes(tmp_path, main, words, message):
    conf = tmp_path / "nginx.conf"
    conf.write_text("%s events { } http { keyval_zone zone=z:64k %s; }" % (main, words))
    done = run_binary("-t", "-p", str(tmp_path), "-c", str(conf))
    assert done.returncode == 1 and message in done.stderr, done.stderr


def test_the_api_shows_what_nodes_share(nodes, redis):
    one = redis()
    first, second = nodes(one.port)
    assert first.set(a="1", b="2") == 201
    assert second.has(a="1", b="2")
    for node, count in ((first, "msgs_out"), (second, "msgs_in")):
        shown = until(lambda: (lambda now: now if now["zones"] == {"z": {"records_pending": 0, "records_total": 2}} else None)(
            json.loads(node.server.get("/api/9/stream/zone_sync").body)), "the zone")
        status = shown["status"]
        assert status[count] >= 2 and status["nodes_online"] == 1 and status["bytes_in"] > 0 and status["bytes_out"] > 0
    one.stop()
    assert first.set(c="3") in (201, 204)
    shown = json.loads(first.server.get("/api/9/stream/zone_sync").body)
    assert shown["zones"]["z"] == {"records_pending": 1, "records_total": 3} and shown["status"]["nodes_online"] == 0
