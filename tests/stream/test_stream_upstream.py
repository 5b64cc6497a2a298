"""Groups of stream: balancers as the reference has them, limits, backups, names that are followed."""

import socket

import pytest

from harness import Server, binaries, ports, until
from harness.certificates import Authority
from harness.dns import NXDOMAIN, SILENCE, NameServer, Service

from peers import Peer, ask, hold

FRAME = "%spid nginx.pid; error_log error.log info; worker_processes 1; daemon off; events { }\nstream {\n%s\n}\n"


@pytest.fixture(scope="module")
def peers():
    made = [Peer(b"%d" % n) for n in range(4)]
    yield made
    for peer in made:
        peer.close()


def frame(text, binary):
    return FRAME % (binaries.load_module("ngx_stream_module", binary), text)


GROUPS = [
    ("turns", ""),
    ("two", "weight=2"),
    ("hashed", "", "hash $remote_addr;"),
    ("ring", "", "hash $remote_addr consistent;"),
    ("ringed", "weight=3", "hash $remote_addr consistent;"),
    ("fewest", "", "least_conn;"),
    ("first", "down"),
    ("spare", "backup"),
]


@pytest.fixture(scope="module")
def both(peers):
    """The same groups behind both programs: [(server, {group: port})]."""
    made = []
    for binary in (binaries.under_test(), binaries.reference()):
        text = ""
        for number, (name, words, *more) in enumerate(GROUPS):
            text += "upstream %s { %s server 127.0.0.1:%d %s; server 127.0.0.1:%d; server 127.0.0.1:%d; }\n" % (
                name, more[0] if more else "", peers[0].port, words, peers[1].port, peers[2].port)
            text += "server { listen 0.0.0.0:@PORT%d@; proxy_pass %s; }\n" % (number, name)
        server = Server(conf=frame(text, binary), binary=binary).start()
        made.append((server, {group[0]: server.port_of("PORT%d" % number)
                              for number, group in enumerate(GROUPS)}))
    yield made
    for server, _ in made:
        server.close()


@pytest.mark.parametrize("name", [group[0] for group in GROUPS])
def test_the_choice_is_that_of_the_reference(both, name):
    sources = ["127.0.%d.%d" % (n % 7, n + 1) for n in range(40)]
    ours, theirs = ([ask(ports[name], source) for source in sources] for _, ports in both)
    assert ours == theirs
    assert b"" not in ours


# ---- limits and failures

@pytest.fixture(scope="module")
def held():
    made = [Peer(b"A", holds=True), Peer(b"B", holds=True), Peer(listens=False)]
    yield made
    for peer in made:
        peer.close()


@pytest.fixture(scope="module")
def limits(held):
    a, b, nobody = (peer.port for peer in held)
    server = Server("", main="""
        worker_processes 2;
        stream {
            upstream most { zone most 64k; server 127.0.0.1:%(a)d max_conns=1; server 127.0.0.1:%(b)d max_conns=1; }
            upstream least { zone least 64k; least_conn; server 127.0.0.1:%(a)d; server 127.0.0.1:%(b)d; }
            upstream failing { server 127.0.0.1:%(nobody)d max_fails=1 fail_timeout=1h; server 127.0.0.1:%(b)d; }
            upstream spared { server 127.0.0.1:%(nobody)d; server 127.0.0.1:%(b)d backup; }
            upstream time { least_time first_byte; server 127.0.0.1:%(a)d; server 127.0.0.1:%(b)d; }
            upstream drawn { random two least_time=connect; server 127.0.0.1:%(a)d; server 127.0.0.1:%(nobody)d down; }
            server { listen 127.0.0.1:@PORT1@; proxy_pass most; }
            server { listen 127.0.0.1:@PORT2@; proxy_pass least; }
            server { listen 127.0.0.1:@PORT3@; proxy_pass failing; }
            server { listen 127.0.0.1:@PORT4@; proxy_pass spared; }
            server { listen 127.0.0.1:@PORT5@; proxy_pass 127.0.0.1:%(nobody)d; }
            server { listen 127.0.0.1:@PORT6@; proxy_pass time; }
            server { listen 127.0.0.1:@PORT7@; proxy_pass drawn; }
        }""" % {"a": a, "b": b, "nobody": nobody}).start()
    yield server
    server.close()


def test_max_conns_counts_sessions_of_all_workers(limits):
    port = limits.port_of("PORT1")
    one, first = hold(port)
    other, second = hold(port)
    assert {first, second} == {b"A", b"B"}
    assert ask(port) == b""
    limits.wait_log("no live upstreams while connecting to upstream.*upstream: \"most\"")
    one.close()

    def takes_one_again():
        sock, said = hold(port)
        sock.close()
        return said == first
    until(takes_one_again, "the place of the session that ended is free")
    other.close()


def test_least_conn_counts_sessions(limits):
    port = limits.port_of("PORT2")
    sessions = [hold(port) for _ in range(6)]
    assert sorted(said for _, said in sessions) == [b"A"] * 3 + [b"B"] * 3
    for sock, _ in sessions:
        sock.close()


def test_a_peer_that_fails_is_left_alone(limits):
    port = limits.port_of("PORT3")
    for _ in range(4):
        sock, said = hold(port)
        assert said == b"B"
        sock.close()
    tried = [line for line in limits.lines("error.log")
             if "connect() failed (111: Connection refused)" in line and ":%d," % port in line]
    disabled = [line for line in limits.lines("error.log") if "upstream server temporarily disabled" in line
                and ":%d," % port in line]
    assert len(tried) == len(disabled) == 1    # all workers know


def test_backups_serve_when_nobody_else_does(limits):
    sock, said = hold(limits.port_of("PORT4"))
    assert said == b"B"
    sock.close()


def test_nobody_is_there(limits):
    assert ask(limits.port_of("PORT5")) == b""


def test_times_and_draws_serve(limits):
    for name in ("PORT6", "PORT7"):
        said = set()
        for _ in range(6):
            sock, text = hold(limits.port_of(name))
            said.add(text)
            sock.close()
        assert said <= ({b"A", b"B"} if name == "PORT6" else {b"A"})


# ---- names

SAYS = """
    server { listen 127.0.0.1:@PORT@; proxy_pass u; }
    server { listen 0.0.0.0:@PORT1@; return "$server_addr"; }
    server { listen 0.0.0.0:@PORT2@; return "$server_addr second"; }
"""


@pytest.fixture
def dns():
    with NameServer() as server:
        yield server


def named(dns, line, options="valid=1s"):
    return "stream { resolver %s ipv6=off %s; resolver_timeout 1s; upstream u { zone u 256k; %s }\n%s}" % (
        dns.address, options, line, SAYS)


def test_resolve_follows_a_name(serve, dns):
    dns.records["app.example"] = ["127.0.0.2"]
    server = serve("", main=named(dns, "server app.example:@PORT1@ resolve;"))
    port = server.port_of("PORT")
    assert ask(port) == b"127.0.0.2"
    dns.records["app.example"] = ["127.0.0.3", "127.0.0.4"]
    until(lambda: {ask(port) for _ in range(8)} == {b"127.0.0.3", b"127.0.0.4"}, "both addresses serve")
    dns.records["app.example"] = NXDOMAIN
    until(lambda: ask(port) == b"", "the name is gone")


def test_records_of_a_service(serve, dns):
    dns.records["app.example"] = ["127.0.0.2"]
    server = Server("", main=named(dns, "server app.example service=_x._tcp resolve;"))
    dns.records["_x._tcp.app.example"] = [Service((1, 1, server.port_of("PORT2"), "app.example")),
                                          Service((2, 1, server.port_of("PORT1"), "app.example"))]
    try:
        server.start()
        until(lambda: ask(server.port_of("PORT")) == b"127.0.0.2 second", "the service's port")
    finally:
        server.close()


def test_the_group_of_a_reload_begins_with_what_is_known(serve, dns):
    dns.records["app.example"] = ["127.0.0.2"]
    server = serve("", main=named(dns, "server app.example:@PORT1@ resolve;", "valid=1h"))
    assert ask(server.port_of("PORT")) == b"127.0.0.2"
    dns.records["app.example"] = SILENCE
    server.reload()
    assert ask(server.port_of("PORT")) == b"127.0.0.2"


def test_a_target_with_a_variable_names_a_group(serve, dns):
    dns.records["app.example"] = ["127.0.0.2"]
    server = serve("", main="""stream {
        resolver %s ipv6=off;
        upstream 127.0.0.9 { server 127.0.0.1:@PORT1@; }
        server { listen 127.0.0.9:@PORT@; proxy_pass $server_addr; }
        server { listen 127.0.0.1:@PORT1@; return "the group"; }
    }""" % dns.address)
    with socket.create_connection(("127.0.0.9", server.port_of("PORT")), timeout=10) as sock:
        assert sock.recv(100) == b"the group"


SECURE_GROUP = """stream { resolver %(dns)s ipv6=off valid=1s; resolver_timeout 1s;
    upstream u { zone u 256k; server %(main)s fail_timeout=1s; server back.example:@PORT1@ backup resolve; }
    server { listen 127.0.0.1:@PORT@; proxy_pass u; proxy_connect_timeout 2s; proxy_next_upstream_timeout 5s;
        proxy_ssl on; proxy_ssl_verify on; proxy_ssl_name backend; proxy_ssl_trusted_certificate %(root)s; }
    ssl_certificate %(cert)s; ssl_certificate_key %(key)s;
    server { listen 127.0.0.2:@PORT1@ ssl; return first; }
    server { listen 127.0.0.3:@PORT1@ ssl; return second; } }
"""
SECURE_MAIN = "stream { server { listen %(main)s ssl; return main; ssl_certificate %(cert)s; ssl_certificate_key %(key)s; } }"


def test_backups_over_tls_come_and_a_server_recovers(serve, dns, tmp_path):
    """The backup is used while the server is down, also one whose address is new; after fail_timeout the server is tried again."""
    authority = Authority(str(tmp_path))
    authority.issue("backend", "DNS:backend")
    taken = ports.take()
    names = {"dns": dns.address, "main": "127.0.0.1:%d" % taken.number, "root": authority.path("root.crt"),
             "cert": authority.path("backend.crt"), "key": authority.path("backend.key")}
    dns.records["back.example"] = ["127.0.0.2"]
    server = serve("", main=SECURE_GROUP % names, allow=["while connecting to upstream", "temporarily disabled", "no live upstreams"])
    until(lambda: ask(server.port) == b"first", server.evidence)
    dns.records["back.example"] = ["127.0.0.3"]
    until(lambda: ask(server.port) == b"second", server.evidence)
    for _ in range(2):
        with Server("", main=SECURE_MAIN % names) as main:
            until(lambda: ask(server.port) == b"main", main.evidence)
            assert {ask(server.port) for _ in range(4)} == {b"main"}
        until(lambda: ask(server.port) == b"second", server.evidence)
    taken.close()
