"""Names of servers that are followed while the service runs: resolve, service=, names not found at
first, targets with variables."""

import os
import signal

import pytest

from harness import until
from harness.boxes import needs_root, serve_boxed  # noqa: F401 (a fixture)
from harness.dns import NXDOMAIN, SERVFAIL, SILENCE, NameServer, Service
from harness.workers import wait_workers

# Whoever is asked says at which address.
WHERE = """
    server { listen 127.0.0.1:@PORT@; location / { proxy_pass http://u; } }
    server { listen 0.0.0.0:@PORT1@; return 200 "$server_addr"; }
    server { listen 0.0.0.0:@PORT2@; return 200 "$server_addr second"; }
"""


@pytest.fixture
def dns():
    with NameServer() as server:
        yield server


def group(dns, *lines, options=""):
    return "resolver %s ipv6=off %s; resolver_timeout 1s; upstream u { zone u 256k; %s }" % (
        dns.address, options, " ".join(lines)) + WHERE


def answers(server, count=8):
    return {server.get("/").text for _ in range(count)}


def test_resolve_follows_a_name(serve, dns):
    dns.records["app.example"] = ["127.0.0.2"]
    server = serve(group(dns, "server app.example:@PORT1@ resolve;", options="valid=1s"))
    assert server.get("/").text == "127.0.0.2"
    dns.records["app.example"] = ["127.0.0.3", "127.0.0.4"]
    until(lambda: answers(server) == {"127.0.0.3", "127.0.0.4"}, "both addresses serve")
    dns.records["app.example"] = NXDOMAIN
    until(lambda: server.get("/").status == 502, "the name is gone")
    dns.records["app.example"] = ["127.0.0.5"]
    until(lambda: server.get("/").text == "127.0.0.5", "it is back")


def test_what_is_known_is_kept_while_nobody_answers(serve, dns):
    dns.records["app.example"] = ["127.0.0.2"]
    server = serve(group(dns, "server app.example:@PORT1@ resolve;", options="valid=1s"))
    assert server.get("/").text == "127.0.0.2"
    asked = dns.count("app.example")
    dns.records["app.example"] = SERVFAIL
    until(lambda: dns.count("app.example") > asked + 2, "it is asked for again")
    assert server.get("/").text == "127.0.0.2"
    server.wait_log(r"\[error\].* app.example could not be resolved \(2: Server failure\)")
    dns.records["app.example"] = ["127.0.0.3"]
    until(lambda: server.get("/").text == "127.0.0.3", "it is resolved again")
    failures = [line for line in server.lines("error.log") if "could not be resolved" in line]
    assert len(failures) == 1


def test_a_reload_begins_with_what_is_known(serve, dns):
    dns.records["app.example"] = ["127.0.0.2", "127.0.0.3"]
    conf = group(dns, "server app.example:@PORT1@ resolve;")
    server = serve(conf)
    assert answers(server) == {"127.0.0.2", "127.0.0.3"}
    dns.records["app.example"] = SILENCE
    server.configure(conf.replace("app.example:@PORT1@", "app.example:@PORT2@"))
    old = server.children()
    server.reload()
    wait_workers(server, 1, without=old)
    assert answers(server) == {"127.0.0.2 second", "127.0.0.3 second"}


def test_a_process_without_master_reloads(serve, dns):
    """The old generation's groups and those of the new one live side by side for a while."""
    dns.records["app.example"] = ["127.0.0.2"]
    conf = group(dns, "server app.example:@PORT1@ resolve;", "server app.invalid:1;")
    server = serve(conf, main="master_process off;")
    assert server.get("/").text == "127.0.0.2"
    dns.records["app.example"] = SILENCE
    conf = conf.replace("app.example:@PORT1@", "app.example:@PORT2@")
    with server.client() as client:  # of the old generation
        assert client.request("/").text == "127.0.0.2"
        server.configure(conf, main="master_process off;")
        server.signal("reload")
        until(lambda: server.get("/").text == "127.0.0.2 second", "the new one serves")
        server.signal("reload")
        until(lambda: server.read("error.log").count("reconfiguring") == 4, "and the one after")
    assert server.get("/").text == "127.0.0.2 second"


def test_a_worker_that_died_is_followed_by_one_that_knows(serve, dns):
    dns.records["app.example"] = ["127.0.0.2"]
    server = serve(group(dns, "server app.example:@PORT1@ resolve;"),
                   allow=["exited on signal 9"])
    assert server.get("/").text == "127.0.0.2"
    dns.records["app.example"] = SILENCE
    old = server.children()
    os.kill(old[0], signal.SIGKILL)
    wait_workers(server, 1, without=old)
    assert server.get("/").text == "127.0.0.2"


def test_a_name_not_found_at_first(serve, dns):
    """It does not stop the service; nginx does not start."""
    server = serve(group(dns, "server app.invalid:@PORT1@;", options="valid=1s"))
    assert server.get("/").status == 502
    assert "no live upstreams" in server.read("error.log")
    dns.records["app.invalid"] = ["127.0.0.2"]
    until(lambda: server.get("/").text == "127.0.0.2", "a request has it asked for")
    failures = [line for line in server.lines("error.log") if "could not be resolved" in line]
    assert len(failures) == 1


def test_the_others_serve_meanwhile(serve, dns):
    server = serve(group(dns, "server app.invalid:@PORT1@;", "server 127.0.0.9:@PORT1@;"))
    assert answers(server) == {"127.0.0.9"}


def test_an_address_in_a_pass_directive(serve, dns):
    server = serve("resolver %s ipv6=off valid=1s;" % dns.address +
                   WHERE.replace("http://u;", "http://app.invalid:@PORT1@;"))
    assert server.get("/").status == 502
    dns.records["app.invalid"] = ["127.0.0.2"]
    until(lambda: server.get("/").text == "127.0.0.2", "it is found")


@needs_root
def test_an_address_that_a_name_has_twice_is_two_servers(serve_boxed):
    """As with nginx: two tries, twice the weight."""
    server = serve_boxed("""upstream u { server app.test:@PORT1@; server 127.0.0.3:@PORT1@; }
        upstream dead { server app.test:1; } log_format t "$uri [$upstream_addr]"; access_log access.log t;
        server { listen 127.0.0.2:@PORT1@; listen 127.0.0.3:@PORT1@; access_log off; return 200 $server_addr; }
        server { listen 127.0.0.1:@PORT@; location / { proxy_pass http://u; }
            location /dead { proxy_pass http://dead; } location /direct { proxy_pass http://app.test:1; } }""",
                         box=["-m"], setup="cp /etc/hosts @DIR@/hosts; echo '127.0.0.2 app.test' | tee -a @DIR@/hosts >> "
                         "@DIR@/hosts; mount --bind @DIR@/hosts /etc/hosts")
    found = [server.get("/").text for _ in range(6)]
    assert (found.count("127.0.0.2"), found.count("127.0.0.3")) == (4, 2)
    for uri in ["/dead", "/direct"]:
        assert server.get(uri).status == 502
        until(lambda uri=uri: uri + " [127.0.0.2:1, 127.0.0.2:1]" in server.read("access.log"), "two tries")


def test_an_address_that_a_watched_name_has_twice_is_two_servers(serve, dns):
    """Twice the weight, and its turns go on where they were while the answer is turned round; then once."""
    two, three = "127.0.0.2", "127.0.0.3"
    dns.records["app.example"] = [two, two, three]
    server = serve(group(dns, "server app.example:@PORT1@ resolve;", "keepalive 4;", options="valid=1s"))

    def turns():
        return [server.get("/").text for _ in range(6)]

    def share():
        found = turns()
        return found.count(two), found.count(three)

    assert share() == (4, 2)
    dns.records["app.example"] = [two, three, two]
    asked = dns.count("app.example")
    until(lambda: dns.count("app.example") > asked + 1, "it is asked for again")
    assert share() == (4, 2)
    for records, expected in [([two, three], (3, 3)), ([two, three, three], (2, 4))]:
        dns.records["app.example"] = records
        until(lambda expected=expected: share() == expected, "the new answer counts")
    old = server.children()
    dns.records["app.example"] = SILENCE
    server.reload()
    wait_workers(server, 1, without=old)
    assert share() == (2, 4)


@pytest.mark.parametrize("place", [
    "set $to dead.example; location / { proxy_pass http://$to:1; }",
    "location / { proxy_pass http://dead; }", "location / { proxy_pass http://late; }"],
    ids=["variable", "resolve", "dynamic_resolve"])
def test_an_address_that_a_watched_name_has_twice_has_two_tries(serve, dns, place):
    dns.records["dead.example"] = dns.records["late.invalid"] = ["127.0.0.2"] * 2
    server = serve("""resolver %s ipv6=off; log_format t "$upstream_addr"; access_log access.log t;
        upstream dead { zone dead 256k; server dead.example:1 resolve; }
        upstream late { dynamic_resolve; server late.invalid:1; }
        server { listen 127.0.0.1:@PORT@; %s }""" % (dns.address, place))
    assert server.get("/").status == 502
    until(lambda: server.read("access.log") == "127.0.0.2:1, 127.0.0.2:1\n", "two tries")


@needs_root
def test_without_a_resolver_the_system_is_asked(serve_boxed):
    server = serve_boxed("upstream u { server app.test:@PORT1@; }" + WHERE, box=["-m"],
                         setup="cp /etc/hosts @DIR@/hosts; mount --bind @DIR@/hosts /etc/hosts")
    assert server.get("/").status == 502
    with open(server.path("hosts"), "a", encoding="ascii") as hosts:
        hosts.write("\n127.0.0.2 app.test\n")
    until(lambda: server.get("/").text == "127.0.0.2", "the hosts file is read again")


def test_services(serve, dns):
    dns.records.update({
        "_http._tcp.app.example": [Service((1, 3, 0, "one.example")),
                                   Service((1, 1, 0, "two.example")),
                                   Service((5, 1, 0, "spare.example"))],
        "one.example": ["127.0.0.2"], "two.example": ["127.0.0.3"],
        "spare.example": ["127.0.0.4"]})
    server = serve(group(dns, "server app.example service=http resolve max_fails=0;",
                         options="valid=1s"))
    ports = (server.port_of("PORT1"), server.port_of("PORT2"))

    def serves(first, spare):
        dns.records["_http._tcp.app.example"] = [
            Service((1, 3, first, "one.example")), Service((1, 1, first, "two.example")),
            Service((5, 1, spare, "spare.example"))]

    serves(*ports)
    until(lambda: answers(server) == {"127.0.0.2", "127.0.0.3"}, "those of the lowest priority")
    turns = [server.get("/").text for _ in range(8)]
    assert turns.count("127.0.0.2") == 6
    serves(server.port_of("PORT3"), ports[1])  # nobody listens there
    until(lambda: answers(server) == {"127.0.0.4 second"}, "the others are backups")


def test_links_to_an_address_that_is_gone_are_closed(serve, dns):
    dns.records["app.example"] = ["127.0.0.2"]
    server = serve(group(dns, "server app.example:@PORT1@ resolve;", options="valid=1s") + """
        server { listen 127.0.0.1:@PORT4@; location / { stub_status; } }""")

    def active():
        status = server.get("/", port=server.port_of("PORT4")).text
        return int(status.split()[2])

    assert server.get("/").text == "127.0.0.2"
    # The kept one, as seen by the server behind, and the one that asks; the client of before is still seen for a moment.
    until(lambda: active() == 2, "one kept connection")
    dns.records["app.example"] = NXDOMAIN
    until(lambda: active() == 1, "it is closed")


def test_targets_with_variables(serve, dns):
    dns.ttl = 1
    dns.records.update({"a.example": ["127.0.0.2"], "b.example": ["127.0.0.3", "127.0.0.4"]})
    server = serve("resolver %s ipv6=off; resolver_timeout 1s;" % dns.address +
                   WHERE.replace("http://u;", "http://$arg_h;"))

    def ask(host):
        return server.get("/?h=%s:%d" % (host, server.port_of("PORT1")))

    assert ask("a.example").text == "127.0.0.2"
    assert ask("127.0.0.7").text == "127.0.0.7"
    assert {ask("b.example").text for _ in range(6)} == {"127.0.0.3", "127.0.0.4"}
    assert ask("c.example").status == 502
    server.wait_log(r"c.example could not be resolved \(3: Host not found\)")
    dns.records["a.example"] = ["127.0.0.5"]
    until(lambda: ask("a.example").text == "127.0.0.5", "its time to live is over")
