"""Tengine's dynamic_resolve: the names of a group are followed while the service runs."""

import pytest

from harness import until
from harness.dns import NXDOMAIN, SERVFAIL, SILENCE, NameServer
from harness.workers import wait_workers

# Whoever is asked says at which address. The system knows localhost, and so does the name server.
WHERE = """
    server { listen 127.0.0.1:@PORT@; location / { proxy_pass http://u; } }
    server { listen 0.0.0.0:@PORT1@; return 200 "$server_addr"; }
    server { listen 0.0.0.0:@PORT2@; return 200 "other"; }
"""


@pytest.fixture
def dns():
    with NameServer() as server:
        yield server


def group(dns, parameters, *servers, more="", valid="1s"):
    return "resolver %s ipv6=off valid=%s; resolver_timeout 1s; upstream u { %s %s %s }" % (
        dns.address, valid, "dynamic_resolve %s;" % parameters,
        " ".join("server %s;" % line for line in servers), more) + WHERE


def answers(server, count=8):
    return {server.get("/").text for _ in range(count)}


def statuses(server, count=4):
    return [server.get("/").status for _ in range(count)]


def test_names_are_followed(serve, dns):
    dns.records["localhost"] = SILENCE
    server = serve(group(dns, "", "localhost:@PORT1@"))
    assert server.get("/").text == "127.0.0.1"  # as the system says, at the start
    dns.records["localhost"] = ["127.0.0.2", "127.0.0.3"]
    until(lambda: answers(server) == {"127.0.0.2", "127.0.0.3"}, "what the resolver says")
    dns.records["localhost"] = ["127.0.0.1"]
    until(lambda: answers(server) == {"127.0.0.1"}, "and the first one again")


def test_the_first_request_has_its_group_resolved(serve, dns):
    """And no other group: a name that is resolved for the first time when its server fails has the address of the start."""
    dns.records["localhost"] = ["127.0.0.2"]
    server = serve(group(dns, "", "localhost:@PORT1@") + """
        upstream v { dynamic_resolve; server localhost:@PORT1@; }
        server { listen 127.0.0.1:@PORT3@; location / { proxy_pass http://v; } }""")
    assert server.get("/").text == "127.0.0.2"  # without a wait for anything else
    dns.records["localhost"] = NXDOMAIN
    server.wait_log(r"localhost could not be resolved .* in upstream \"u\"")
    other = server.port_of("PORT3")
    assert {server.get("/", port=other).text for _ in range(4)} == {"127.0.0.1"}
    server.wait_log(r"localhost could not be resolved .* in upstream \"v\"")
    assert server.get("/").text == "127.0.0.2"
    dns.records["localhost"] = ["127.0.0.3"]
    until(lambda: server.get("/", port=other).text == "127.0.0.3", "it is followed from now on")


def test_names_of_checked_servers_are_followed_from_the_start(serve, dns):
    dns.records["localhost"] = ["127.0.0.2"]
    server = serve(group(dns, "", "localhost:@PORT1@", more="check interval=100 rise=1 fall=1 type=tcp;"))
    until(lambda: dns.count("localhost"), "the name is resolved without a request")
    until(lambda: server.get("/").text == "127.0.0.2", "the address that it has now is up")


def test_requests_that_come_together_wait_together(serve, dns):
    dns.records["localhost"] = SILENCE
    server = serve(group(dns, "fallback=next", "localhost:@PORT1@", "127.0.0.1:@PORT2@"))
    clients = [server.client() for _ in range(4)]
    for client in clients:
        client.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    until(lambda: dns.count("localhost"), "the name server was asked")
    dns.records["localhost"] = ["127.0.0.2"]
    assert {client.response().text for client in clients} <= {"127.0.0.2", "other"}
    for client in clients:
        client.close()


@pytest.mark.parametrize("parameters", ["", "fallback=stale"])
@pytest.mark.parametrize("failure", [NXDOMAIN, SERVFAIL])
def test_stale(serve, dns, parameters, failure):
    dns.records["localhost"] = ["127.0.0.2"]
    server = serve(group(dns, parameters, "localhost:@PORT1@"))
    until(lambda: server.get("/").text == "127.0.0.2", "the resolver was asked")
    dns.records["localhost"] = failure
    server.wait_log(r"\[error\].* localhost could not be resolved .* in upstream \"u\"")
    assert answers(server) == {"127.0.0.2"}
    dns.records["localhost"] = ["127.0.0.3"]
    until(lambda: server.get("/").text == "127.0.0.3", "it is resolved again")


@pytest.mark.parametrize("failure", [NXDOMAIN, SERVFAIL])
def test_next(serve, dns, failure):
    dns.records["localhost"] = ["127.0.0.2"]
    server = serve(group(dns, "fallback=next", "localhost:@PORT1@", "127.0.0.1:@PORT2@"))
    until(lambda: answers(server) == {"127.0.0.2", "other"}, "both serve")
    dns.records["localhost"] = failure
    until(lambda: answers(server) == {"other"}, "one serves")
    dns.records["localhost"] = ["127.0.0.2"]
    until(lambda: answers(server) == {"127.0.0.2", "other"}, "both serve again")


def test_next_without_a_next(serve, dns):
    dns.records["localhost"] = SERVFAIL
    server = serve(group(dns, "fallback=next", "localhost:@PORT1@"))
    until(lambda: server.get("/").status == 502, "nobody is left")
    dns.records["localhost"] = ["127.0.0.4"]
    until(lambda: server.get("/").text == "127.0.0.4", "a request has it asked for")


@pytest.mark.parametrize("queue", ["", "queue 4 timeout=60s;"])
def test_shutdown(serve, dns, queue):
    dns.records["localhost"] = ["127.0.0.2"]
    server = serve(group(dns, "fallback=shutdown", "localhost:@PORT1@", "127.0.0.1:@PORT2@",
                         more=queue))
    until(lambda: answers(server) == {"127.0.0.2", "other"}, "both serve")
    dns.records["localhost"] = NXDOMAIN
    server.wait_log("localhost could not be resolved")
    assert sorted(statuses(server)) == [200, 200, 502, 502]  # each turn of it fails
    server.wait_log("no live upstreams, the name of the next server is not resolved")
    dns.records["localhost"] = ["127.0.0.3"]
    until(lambda: answers(server) == {"127.0.0.3", "other"}, "both serve again")


def test_fail_timeout(serve, dns):
    """A name that failed is left alone, even when requests find their group without addresses."""
    dns.records.update({"quiet.invalid": SERVFAIL, "asked.invalid": SERVFAIL})
    server = serve(group(dns, "fail_timeout=1h", "quiet.invalid:@PORT1@") + """
        upstream v { dynamic_resolve; server asked.invalid:@PORT1@; }
        server { listen 127.0.0.1:@PORT3@; location / { proxy_pass http://v; } }""")
    other = server.port_of("PORT3")
    failures = [server.get("/").status, server.get("/", port=other).status]
    assert dns.count("quiet.invalid") and dns.count("asked.invalid")
    dns.records.update({"quiet.invalid": ["127.0.0.2"], "asked.invalid": ["127.0.0.2"]})
    failures.append(server.get("/").status)
    until(lambda: server.get("/", port=other).status == 200, "it is asked for again")
    assert failures + statuses(server) == [502] * 7
    assert dns.count("quiet.invalid") == 1


def test_fail_timeout_has_an_end(serve, dns):
    dns.records["localhost"] = SERVFAIL
    server = serve(group(dns, "fallback=next fail_timeout=1s", "localhost:@PORT1@"))
    until(lambda: server.get("/").status == 502, "it failed")
    dns.records["localhost"] = ["127.0.0.4"]
    until(lambda: server.get("/").text == "127.0.0.4", "it is asked for again")


def test_a_reload_begins_with_what_is_known(serve, dns):
    dns.records["localhost"] = ["127.0.0.2", "127.0.0.1"]
    conf = group(dns, "", "localhost:@PORT1@", valid="1h")
    server = serve(conf)
    until(lambda: answers(server) == {"127.0.0.1", "127.0.0.2"}, "the resolver was asked")
    dns.records["localhost"] = SILENCE
    for _ in range(2):
        old = server.children()
        server.reload()
        wait_workers(server, 1, without=old)
        assert answers(server) == {"127.0.0.1", "127.0.0.2"}


def test_without_a_resolver_the_system_is_asked(serve):
    server = serve("upstream u { dynamic_resolve; server localhost:@PORT1@; }" + WHERE)
    assert answers(server) == {"127.0.0.1"}


# ---- nobody may serve

@pytest.mark.parametrize("line,status", [
    ("", 502), ("upstream_change_no_server_status on;", 502),
    ("upstream_change_no_server_status off;", 500)])
def test_the_status_without_a_server(serve, line, status):
    server = serve(line + "upstream u { server 127.0.0.1:1 down; }" + """
        log_format s "$status $upstream_status"; access_log @DIR@/s.log s;""" + WHERE)
    assert server.get("/").status == status
    assert server.wait_lines("s.log", 1) == ["%d %d" % (status, status)]


def test_the_status_without_a_server_that_lives(serve):
    """One that was asked and failed gives 502 all the same."""
    server = serve("""upstream_change_no_server_status off;
        upstream u { server 127.0.0.1:@PORT3@; }""" + WHERE)
    assert server.get("/").status == 502
