"""`server consul:NAME`: blocking queries of a scripted Consul; what holds for all engines is tried here, too."""

import json
import os
import time

import pytest

from harness import Closed, run_binary, until
from harness.certificates import Authority
from harness.workers import wait_workers

WHERE = """server { listen 127.0.0.1:@PORT@; location = /metrics { metrics; } location / { proxy_pass http://u; } }
    server { listen 0.0.0.0:@PORT1@; return 200 "$server_addr"; }"""


def http(*lines, more=""):
    return "upstream u { %s } %s %s" % (" ".join(lines or ["server consul:web;"]), more, WHERE)


def main(engine, more="", workers=1):
    return "worker_processes %d; discovery main { type consul; server %s; %s }" % (workers, engine.url, more)


def answers(server, count=12):
    return {server.get("/").text for _ in range(count)}


def at(server, *hosts):
    return [("127.0.0.%s" % host, server.port_of("PORT1")) for host in hosts]


def follow(server, engine, *hosts):
    """The service has these hosts from now on, and the server knows."""
    engine.put("web", *at(server, *hosts))
    wanted = {"127.0.0.%s" % host for host in hosts}
    until(lambda: answers(server) == wanted, "the hosts %s" % (hosts,))


def metric(server, name):
    for line in server.get("/metrics").text.split("\n"):
        if line.startswith("portunus_discovery_%s" % name):
            return int(line.rsplit(" ", 1)[1])
    return 0


def test_instances_come_and_go(serve, consul):
    engine = consul()
    server = serve(http(), main=main(engine))
    follow(server, engine, 2)
    follow(server, engine, 3, 4)
    follow(server, engine, 4)
    engine.put("web")
    until(lambda: server.get("/").status == 502, "nobody is left")
    follow(server, engine, 5)
    assert metric(server, "changes") in (5, 6) and metric(server, "failures") == 0
    assert "passing=1&index=0&wait=0ms" in engine.asked[0] and "&wait=300000ms" in engine.asked[1]


def test_the_first_request_waits_for_the_first_answer(serve, consul):
    """Nothing is known yet: a request waits, as for a name that is being resolved."""
    engine = consul()
    held = []

    def hold(handler):
        with engine.changed:
            engine.wait(lambda: held, 15)
        engine.fault = None
        engine.answer(handler)

    engine.fault = hold
    server = serve(http(), main=main(engine))
    engine.put("web", *at(server, 2))
    engine.wait_asked(1)
    with server.client() as client:
        client.send(b"GET / HTTP/1.0\r\n\r\n")
        assert not client.readable(0.05)
        engine.change(lambda: held.append(True))
        assert client.response("GET").text == "127.0.0.2"


def test_all_workers_know(serve, consul):
    engine = consul()
    server = serve(http(more="keepalive_requests 1;"), main=main(engine, workers=3))
    follow(server, engine, 2)
    follow(server, engine, 3)
    assert answers(server, 40) == {"127.0.0.3"}
    assert sum("index=0" in target for target in engine.asked) == 1      # one of them watches


def test_weights_and_addresses(serve, consul):
    """The node's address serves where the service has none; names and ports that are none are passed over; an address counts once."""
    engine = consul()
    server = serve(http("server consul:a%2Fb;"), main=main(engine, "endpoints_max 8;"))
    port = server.port_of("PORT1")
    engine.put("a%2Fb", ("127.0.0.2", port, 3), ("127.0.0.2", port), ("localhost", port), ("127.0.0.9", 0),
               {"Node": {"Address": "127.0.0.3"}, "Service": {"Address": "", "Port": port, "Weights": None}})
    until(lambda: answers(server) == {"127.0.0.2", "127.0.0.3"}, "both hosts")
    got = [server.get("/").text for _ in range(16)]
    assert got.count("127.0.0.2") == 12
    assert metric(server, "skipped") >= 2


def test_requests_under_way_are_served(serve, consul):
    """A host that left finishes what it has; nothing is lost while hosts change."""
    engine = consul()
    server = serve(http(more="""server { listen 127.0.0.6:@PORT1@; location / { echo_sleep 0.3; echo slow; } }"""), main=main(engine))
    follow(server, engine, 2)
    engine.put("web", *at(server, 6))
    with server.client() as slow:
        until(lambda: server.get("/").text == "slow\n", "the slow host")
        slow.send(b"GET / HTTP/1.0\r\n\r\n")
        follow(server, engine, 3)
        assert slow.response("GET").text == "slow\n"
    for hosts in ((2, 3), (3,), (4, 5), (5,)):
        engine.put("web", *at(server, *hosts))
        assert {server.get("/").status for _ in range(5)} == {200}


def test_reload_keeps_the_addresses(serve, consul):
    """The next generation serves from what is in the zone, also while the engine is gone."""
    engine = consul()
    server = serve(http(), main=main(engine))
    follow(server, engine, 2)
    engine.fault = lambda handler: handler.reply(500, b"no leader")
    old = server.children()
    server.reload()
    wait_workers(server, 1, without=old)
    assert answers(server) == {"127.0.0.2"}
    server.wait_log(r"discovery \"main\": 127.0.0.1:\d+ answered with status 500: no leader; the addresses of consul:web stay as they are")
    assert metric(server, "failing") == 1
    engine.fault = None
    follow(server, engine, 3)
    assert metric(server, "failing") == 0 and metric(server, "failures") >= 1
    server.wait_log("consul:web is watched again")


def test_reload_forgets_services_that_are_not_named_any_more(serve, consul):
    """Their addresses give their memory back; a later generation that names one again asks the engine."""
    engine = consul()
    api = "server { listen 127.0.0.1:@PORT2@; location /api { api; } %s }"
    more = "upstream w { server consul:wide; }" + api % "location / { proxy_pass http://w; }"
    server = serve(http(more=more), main=main(engine))
    engine.put("wide", *at(server, *range(2, 202)))
    follow(server, engine, 2)

    def pages():
        slabs = json.loads(server.get("/api/9/slabs/", port=server.port_of("PORT2")).body)
        return slabs["discovery main"]["pages"]["used"]

    def goes_to_all():
        return len({server.get("/", port=server.port_of("PORT2")).text for _ in range(20)}) == 20
    until(goes_to_all, "the addresses")
    used = pages()
    server.configure(http(more=api % ""), main=main(engine))
    server.reload()
    until(lambda: pages() < used, "the memory of the addresses")
    assert answers(server) == {"127.0.0.2"}
    server.configure(http(more=more), main=main(engine))
    server.reload()
    until(goes_to_all, "the addresses again")
    assert pages() == used


def test_state_is_kept_over_a_restart(serve, consul):
    engine = consul()
    state = "state @DIR@/state/main.json;"
    server = serve(http(), main=main(engine, state), files={"state/.keep": ""})
    os.chmod(server.path("state"), 0o777)
    engine.put("web", *at(server, 2, 3))
    until(lambda: os.path.exists(server.path("state/main.json")) and "127.0.0.3" in server.read("state/main.json"), "the state file")
    kept = server.read("state/main.json")
    assert json.loads(kept)["services"]["consul:web"] == [["127.0.0.%d:%d" % (host, server.port_of("PORT1")), 1] for host in (2, 3)]
    server.stop()
    engine.fault = lambda handler: handler.reply(500, b"")
    server.start()
    assert answers(server) == {"127.0.0.2", "127.0.0.3"}


@pytest.mark.parametrize("text", ["", "[]", "{\"services\":{\"consul:web\":[[\"x\",1]]}}", "{\"services\""])
def test_a_state_file_that_is_none_is_ignored(serve, consul, text):
    engine = consul()
    server = serve(http(), main=main(engine, "state @DIR@/main.json;"), files={"main.json": text}, allow=["cannot write"])
    follow(server, engine, 2)


def endless(handler):
    handler.stream()
    while True:
        handler.chunk(b"[" * 65536)


def plain(body, status=200):
    return lambda handler: handler.reply(status, body)


def silent_close(handler):
    handler.close_connection = True


def interim(handler):
    while True:
        handler.wfile.write(b"HTTP/1.1 100 Continue\r\n\r\n" * 5000)


FAULTS = {
    "garbage": (plain(b"<html>"), "sent an answer that is no list of instances"),
    "another shape": (plain(b"{\"a\":[1]}"), "sent an answer that is no list of instances"),
    "deep": (plain(b"[" * 100000), "sent an answer that is no list of instances"),
    "cut": (plain(b"[{\"Node\":{\"Address\":\"127.0.0.1\"}"), "sent an answer that is no list of instances"),
    "too many": (plain(b"[" + b",".join([b'{"Service":{"Address":"10.0.0.1","Port":1}}'] * 2000) + b"]"), "or one above endpoints_max"),
    "endless": (endless, "sent an answer above answer_max"),
    "no answer": (silent_close, "closed the connection"),
    "refused": (plain(b"ACL not found", 403), "answered with status 403: ACL not found"),
    "no HTTP": (lambda handler: handler.wfile.write(b"SSH-2.0-x\r\n\r\n"), "sent an invalid HTTP/1.1 response"),
    "interim": (interim, "sent too many interim answers"),
    "long head": (lambda handler: handler.wfile.write(b"HTTP/1.1 200 OK\r\nA: " + b"a" * 40000), "sent an invalid HTTP/1.1 response"),
}


@pytest.mark.parametrize("name", list(FAULTS))
def test_a_hostile_engine(serve, consul, name):
    """What was known stays, one line is logged, and it is asked again."""
    fault, line = FAULTS[name]
    engine = consul()
    server = serve(http(), main=main(engine, "answer_max 256k;"))
    follow(server, engine, 2)
    engine.fault = fault
    engine.put("web", *at(server, 3))                   # wakes the query that waits
    count = len(engine.asked)
    engine.wait_asked(count + 3)
    server.wait_log(line)
    engine.fault = None
    follow(server, engine, 4)
    assert len([one for one in server.lines("error.log") if "stay as they are" in one]) == 1


def test_no_room_is_logged_once(serve, consul):
    engine = consul()
    server = serve(http(), main=main(engine, "endpoints_max 2000; zone_size 32k;"))
    follow(server, engine, 2)
    many = [("10.0.%d.%d" % (number >> 8, number & 255), 1) for number in range(1800)]
    for count in range(1600, 1604):
        asked = len(engine.asked)
        engine.put("web", *many[:count])
        engine.wait_asked(asked + 1)
    until(lambda: metric(server, "rejected") >= 2, "answers without room")
    assert len([one for one in server.lines("error.log") if "no room in its zone" in one]) == 1
    follow(server, engine, 3)


def test_an_engine_without_an_index_is_asked_each_second(serve, consul):
    """Nothing can be waited for then; it was asked fifty times a second."""
    engine = consul()
    times = []

    def fault(handler):
        times.append(time.monotonic())
        handler.reply(200, [])

    engine.fault = fault
    serve(http(), main=main(engine))
    until(lambda: len(times) == 2, "two queries")
    assert times[1] - times[0] > 0.9


def test_a_silent_engine(serve, consul):
    """An answer that is due and does not come ends the connection; the next server is asked."""
    one, two = consul(), consul()

    def hold(_):
        with one.changed:
            one.wait(lambda: False, 15)

    one.fault = hold
    server = serve(http(), main="worker_processes 1; discovery main { type consul; server %s; server %s; read_timeout 200ms; }" % (one.url, two.url))
    follow(server, two, 2)


def test_token(serve, consul):
    """The token's file is read for each request."""
    engine = consul()
    server = serve(http(), main=main(engine, "token_file token;"), files={"token": " first \n"})
    follow(server, engine, 2)
    assert set(engine.tokens) == {"first"}
    server.write("token", "second\n")
    follow(server, engine, 3)
    engine.put("web", *at(server, 4))
    until(lambda: engine.tokens[-1] == "second", "the second token")
    os.remove(server.path("token"))
    engine.put("web", *at(server, 5))
    server.wait_log(r"is not asked: cannot read \".*token\" \(No such file or directory\)")


def test_tls(serve, consul, tmp_path):
    """The certificate is for the address; one that is for another name is refused."""
    authority = Authority(tmp_path)
    authority.issue("engine", "IP:127.0.0.1")
    engine = consul(tls=(authority.path("engine.crt"), authority.path("engine.key")))
    trusted = "ssl_trusted_certificate %s;" % authority.path("root.crt")
    server = serve(http(), main=main(engine, trusted))
    follow(server, engine, 2)
    until(lambda: "wait=300000ms" in engine.asked[-1], "the request that waits for a change")
    asked = len(engine.asked)
    other = serve(http(), main=main(engine, trusted + "ssl_name other.example;"))
    other.wait_log("could not be connected")
    assert len(engine.asked) == asked


def test_stream_has_it_too(serve, consul):
    engine = consul()
    server = serve(WHERE, main=main(engine) + "stream { upstream s { server consul:web; } server { listen 127.0.0.1:@PORT2@; proxy_pass s; } }")
    for host in (2, 3):
        engine.put("web", *at(server, host))
        until(lambda: reached(server) == "127.0.0.%d" % host, "host %d" % host)


def reached(server):
    try:
        return server.get("/", port=server.port_of("PORT2")).text
    except Closed:
        return None


BAD = {
    "discovery a { }": 'no "type" in discovery "a"',
    "discovery a { type x; }": 'invalid value "x"',
    "discovery a { type consul; }": 'no "server" in discovery "a"',
    "discovery a { type consul; server 127.0.0.1; }": 'no "http://" or "https://" in "127.0.0.1"',
    "discovery a { type consul; server http://; }": 'no host in "http://"',
    "discovery a { type consul; server http://1.2.3.4:x; }": 'invalid port in "http://1.2.3.4:x"',
    "discovery a { type consul; server http://1.2.3.4/a?b; }": 'invalid character in "http://1.2.3.4/a?b"',
    "discovery a { type consul; server http://x.example resolve; }": '"resolve" needs a "resolver" in this block',
    "discovery a { type consul; server https://1.2.3.4; }": 'no "ssl_trusted_certificate" for "ssl_verify" of discovery "a"',
    "discovery a { type consul; server http://1.2.3.4; user x; }": '"user" is of discoveries of type etcd',
    "discovery a { type etcd; server http://1.2.3.4; user x; }": '"user" and "password_file" need each other',
    "discovery a { type etcd; server http://1.2.3.4; token_file x; }": 'etcd has a "user", and no "token_file"',
    "discovery a { type kubernetes; }": "KUBERNETES_SERVICE_HOST is not in the environment",
    "discovery a { type consul; server http://1.2.3.4; } discovery a { }": 'duplicate discovery "a"',
    "http { upstream u { server consul:web; } }": 'no discovery of type consul for "consul:web"',
    "discovery a { type consul; server http://1.2.3.4; } http { upstream u { server consul:web discovery=b; } }": 'no discovery "b" for "consul:web"',
    "discovery a { type consul; server http://1.2.3.4; } http { upstream u { server consul:web resolve; } }":
        '"consul:web" has neither "resolve" nor "service"',
    "discovery a { type consul; server http://1.2.3.4; } discovery b { type consul; server http://1.2.3.4; } http { upstream u { server consul:web; } }":
        'several discoveries for "consul:web": name one with "discovery="',
    "http { upstream u { server kubernetes:web; } }": 'invalid name of a service in upstream "kubernetes:web"',
}


@pytest.mark.parametrize("text", list(BAD))
def test_what_is_wrong_is_said(tmp_path, text):
    (tmp_path / "nginx.conf").write_text("events { } %s\n" % text)
    done = run_binary("-t", "-c", str(tmp_path / "nginx.conf"), "-e", "stderr", "-p", str(tmp_path))
    assert done.returncode == 1 and BAD[text] in done.stderr, done.stderr


def test_a_host_named_consul_is_one(tmp_path):
    """`consul:8500` is a host and a port, as with nginx."""
    (tmp_path / "nginx.conf").write_text("events { } http { upstream u { server consul:8500; server 127.0.0.1:1; } }\n")
    done = run_binary("-t", "-c", str(tmp_path / "nginx.conf"), "-e", "stderr", "-p", str(tmp_path))
    assert 'host not found in upstream "consul:8500"' in done.stderr
