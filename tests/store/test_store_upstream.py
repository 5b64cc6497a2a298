"""Servers of groups that nodes share by a redis_store: what the API or dyups changes at one node all have, also those that were away."""

import json

import pytest

from harness import run_binary, until
from harness.nodes import Node, store

CONF = """upstream u { zone u 256k sync; %s }
    server { listen 127.0.0.1:@PORT@; location /api { api write=on; } location = /metrics { metrics; }
        location / { proxy_pass http://u; } }
    server { listen 127.0.0.1:@PORT1@; return 200 one; }"""
SERVERS = "server 127.0.0.1:1 down;"
ITEMS = "portunus:1:upstream_servers:{u}"
DYUPS = """server { listen 127.0.0.1:@PORT@; location / { dyups_interface sync; } location = /metrics { metrics; }
        location ~ ^/to/(?<name>.*)$ { set $group $name; proxy_pass http://$group/; } }
    upstream fixed { server 127.0.0.1:@PORT1@; }
    server { listen 127.0.0.1:@PORT1@; return 200 one; }"""
NAMES = "portunus:1:dyups:{_dyups}"


class GroupNode(Node):
    """A node, and the servers of its group `u`."""

    def __init__(self, server):
        super().__init__(server)
        self.path = "/api/9/http/upstreams/u/servers/"

    def servers(self):
        return {entry["id"]: entry["server"] for entry in json.loads(self.server.get(self.path).body)}

    def shows(self, servers):
        until(lambda: self.servers() == servers, lambda: "%s instead of %s\n%s" % (self.servers(), servers, self.server.error_log))

    def add(self, address, status=201):
        assert self.call("POST", {"server": address}) == status

    def ask(self, method, name, body="", status=200):
        assert self.server.get("/upstream/" + name, method=method, body=body).status == status

    def restart(self, after=lambda: None):
        self.server.quit()
        after()
        self.server.start()


@pytest.fixture(name="nodes")
def fixture_nodes(serve):
    """A function that starts so many nodes with this store."""
    def start(port, count=2, more="timeout 5s;", workers=1, http=CONF % SERVERS):
        return [GroupNode(serve(http, main=store(port, more, workers))) for _ in range(count)]
    return start


def test_changes_reach_all_nodes(nodes, redis):
    one = redis()
    first, second, third = nodes(one.port, 3, workers=2)
    backend = "127.0.0.1:%d" % first.server.port_of("PORT1")
    first.add(backend)
    assert one.ask("HLEN", ITEMS) == 2                          # before the answer
    for node in (second, third):
        node.shows({0: "127.0.0.1:1", 1: backend})
        until(lambda one=node: one.server.get("/").text == "one", "the server")
    second.add("127.0.0.1:3")
    third.add("127.0.0.1:4")                                    # with what the others had changed before
    for node in (first, second, third):
        node.shows({0: "127.0.0.1:1", 1: backend, 2: "127.0.0.1:3", 3: "127.0.0.1:4"})
    assert first.server.get(first.path + "2", method="DELETE").status == 200
    assert second.server.get(second.path + "3", method="PATCH", body='{"weight":7,"backup":false,"down":true}').status == 200
    for node in (first, second, third):
        node.shows({0: "127.0.0.1:1", 1: backend, 3: "127.0.0.1:4"})
        until(lambda one=node: json.loads(one.server.get(one.path + "3").body)["weight"] == 7, "the weight")
        assert json.loads(node.server.get(node.path + "3").body)["down"]
    assert sorted(one.keys()) == [ITEMS, ITEMS + ":changes"]
    assert all(ttl > 0 for ttl in one.ttls())
    assert first.call("POST", {"server": backend}) == 409
    assert one.ask("EXISTS", ITEMS + ":claim:u") == 0


def test_changes_at_the_same_time(nodes, redis):
    """None is lost."""
    one = redis()
    first, second = nodes(one.port)
    clients = [node.server.client() for node in (first, second)]
    for i in range(10):
        for client, node, number in zip(clients, (first, second), (100 + i, 200 + i)):
            client.send("POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: 28\r\n\r\n%-28s" % (node.path, '{"server":"127.0.0.1:%d"}' % number))
        assert [client.response().status for client in clients] == [201, 201]
    for client in clients:
        client.close()
    wanted = {"127.0.0.1:1"} | {"127.0.0.1:%d" % (base + i) for base in (100, 200) for i in range(10)}
    for node in (first, second):
        until(lambda one=node: set(one.servers().values()) == wanted, "all servers")
    assert first.servers() == second.servers()


def test_a_node_that_starts_or_was_away(nodes, redis):
    one = redis()
    first, second = nodes(one.port)
    second.restart(lambda: first.add("127.0.0.1:3"))
    second.shows({0: "127.0.0.1:1", 1: "127.0.0.1:3"})
    first.server.reload()                                       # a new generation has what was changed, too
    first.shows({0: "127.0.0.1:1", 1: "127.0.0.1:3"})
    third, = nodes(one.port, 1)
    third.shows({0: "127.0.0.1:1", 1: "127.0.0.1:3"})


def test_state_files(nodes, redis):
    """They have what other nodes change, so that a node has it at its start without the store; and a store without data gets it."""
    one = redis()
    first, second = nodes(one.port, http=CONF % "state logs/u;")
    first.add("127.0.0.1:3")
    second.shows({0: "127.0.0.1:3"})
    until(lambda: '"127.0.0.1:3"' in second.server.read("logs/u"), "the file")
    first.server.quit()
    second.restart(one.stop)
    second.shows({0: "127.0.0.1:3"})
    one.start()
    third, = nodes(one.port, 1, http=CONF % "state logs/u;")
    third.shows({0: "127.0.0.1:3"})


def test_store_gone_and_back(nodes, redis):
    one = redis()
    first, second = nodes(one.port, more="timeout 20ms;")
    until(lambda: second.metric("portunus_sync_reads", of="u") == 1, "the first reading")
    one.stop()
    first.add("127.0.0.1:3")
    assert second.servers() == {0: "127.0.0.1:1"}
    one.start()
    second.shows({0: "127.0.0.1:1", 1: "127.0.0.1:3"})


def test_a_server_that_another_node_cannot_have(nodes, redis):
    """The others are taken, and the log names it."""
    one = redis()
    first, = nodes(one.port, 1, http="resolver 127.0.0.1:1; " + CONF % SERVERS)
    second, = nodes(one.port, 1)
    first.add("backend.test:80")
    first.add("127.0.0.1:3")
    second.shows({0: "127.0.0.1:1", 2: "127.0.0.1:3"})
    second.server.wait_log('server "backend.test:80" of another node is not used in upstream "u": no resolver')


def test_dyups(nodes, redis):
    one = redis()
    first, second = nodes(one.port, http=DYUPS, workers=2)
    first.ask("POST", "New", "server 127.0.0.1:%d;" % first.server.port_of("PORT1"))
    assert one.ask("HKEYS", NAMES).count("new") == 1            # before the answer
    until(lambda: second.server.get("/to/new").text == "one", "the group")
    second.ask("DELETE", "fixed")
    until(lambda: "fixed" not in first.server.get("/list").text, "the deletion")
    second.restart(lambda: first.ask("POST", "more", "server 127.0.0.1:%d;" % first.server.port_of("PORT1")))
    until(lambda: second.server.get("/to/more").text == "one", "the group")
    until(lambda: "fixed" not in second.server.get("/list").text, "the deletion")
    one.stop()
    second.ask("DELETE", "new")
    assert first.server.get("/to/new").text == "one"
    one.start()
    until(lambda: "new" not in first.server.get("/list").text, "the deletion")


def test_a_zone_of_dyups_that_is_too_small(nodes, redis):
    """What has no room is logged and counted, and all else is taken."""
    one = redis()
    first, = nodes(one.port, 1, http=DYUPS)
    second, = nodes(one.port, 1, http="dyups_shm_zone_size 32k; " + DYUPS)
    server = "server 127.0.0.1:%d;" % first.server.port_of("PORT1")
    first.ask("POST", "large", server + "#" + "x" * 30000)
    first.ask("POST", "good", server)
    until(lambda: second.server.get("/to/good").text == "one", "the group")
    assert second.metric("portunus_sync_no_room", of="_dyups") >= 1
    second.server.wait_log('zone "_dyups": the item "large" of another node has no room')
    assert "large" not in second.server.get("/list").text


@pytest.mark.parametrize("text, message", [
    ("http { upstream u { zone z 64k sync; server 127.0.0.1; } }", '"sync" needs a "redis_store"'),
    ("stream { upstream u { zone z 64k sync=strict; server 127.0.0.1:1; } }", 'invalid parameter "sync=strict"'),
    ("http { upstream u { zone z 64k sync_interval=5ms; server 127.0.0.1; } }", '"sync_interval" needs "sync"'),
    ("http { upstream u { zone z 64k 64k; server 127.0.0.1; } }", 'invalid parameter "64k"'),
    ("http { upstream u { zone z other; server 127.0.0.1; } }", 'invalid zone size "other"'),
    ("http { server { location / { dyups_interface other; } } }", 'invalid parameter "other"'),
    ("http { server { location / { dyups_interface sync; } } }", '"sync" needs a "redis_store"'),
])
def test_mistakes(tmp_path, text, message):
    conf = tmp_path / "nginx.conf"
    conf.write_text("events { } " + text)
    done = run_binary("-t", "-p", str(tmp_path), "-c", str(conf))
    assert done.returncode == 1 and message in done.stderr, done.stderr
