"""Names of backends that are resolved while requests wait: proxy_pass with variables, `resolve`."""

import pytest

from harness import Server, binaries, ports
from harness.dns import (FORMERR, NOTIMP, NXDOMAIN, REFUSED, SERVFAIL, SILENCE, Alias, Dnsmasq, NameServer,
                         Raw, Service)
from harness.wait import until

IS_PORTUNUS = "Portunus" in binaries.version_text(binaries.under_test())

needs_portunus = pytest.mark.skipif(not IS_PORTUNUS, reason="not Portunus")
needs_resolve = pytest.mark.skipif(
    not IS_PORTUNUS and binaries.is_nginx_before(binaries.under_test(), 1, 27, 3),
    reason="no resolve in upstreams")
needs_dnsmasq = pytest.mark.skipif(not Dnsmasq.is_there(), reason="no dnsmasq")

# $server_addr tells which address a name has led to.
BACKEND = "server { listen 0.0.0.0:@PORT1@; return 200 $server_addr; }\n"
FRONT = """
    server { listen 127.0.0.1:@PORT@; resolver %s; resolver_timeout %s;
        location / { proxy_pass http://$arg_h:@PORT1@; }
    }
""" + BACKEND


@pytest.fixture
def name_server():
    """Makes name servers of this process, and ends them."""
    made = []

    def make(*args, **kwargs):
        made.append(NameServer(*args, **kwargs))
        return made[-1]

    yield make
    for server in made:
        server.close()


@pytest.fixture
def dnsmasq():
    made = []

    def make(*args, **kwargs):
        made.append(Dnsmasq(*args, **kwargs))
        return made[-1]

    yield make
    for server in made:
        server.close()


def test_a_name_is_asked_once(serve, name_server):
    dns = name_server({"www.example": ["127.0.0.2"]})
    server = serve(FRONT % (dns.address, "15s"))
    for name in "www.example", "WWW.Example", "www.example.", "www.example":
        assert server.get("/?h=" + name).text == "127.0.0.2"
    assert sorted(dns.asked) == [("www.example", "A"), ("www.example", "AAAA")]


def test_requests_of_one_name_share_a_question(serve, name_server):
    dns = name_server({"www.example": SILENCE})
    server = serve(FRONT % (dns.address, "30s"))
    clients = [server.client() for _ in range(5)]
    for client in clients:
        client.send(b"GET /?h=www.example HTTP/1.1\r\nHost: x\r\n\r\n")
    until(lambda: dns.count("www.example", "A"), "the question")
    dns.records["www.example"] = ["127.0.0.2"]  # for the next try
    for client in clients:
        assert client.response().text == "127.0.0.2"
        client.close()
    assert dns.count("www.example", "A") < 5


@pytest.mark.skipif(not IS_PORTUNUS and binaries.is_nginx_before(binaries.under_test(), 1, 23, 1),
                    reason="no ipv4=")
def test_families(serve, name_server):
    dns = name_server({"www.example": ["127.0.0.2", "::1"]})
    server = serve("""
        server { listen 127.0.0.1:@PORT@;
            location /4 { resolver %(dns)s ipv6=off; proxy_pass http://$arg_h:@PORT1@; }
            location /6 { resolver %(dns)s ipv4=off; proxy_pass http://$arg_h:@PORT1@; }
        }
        server { listen 127.0.0.2:@PORT1@; listen [::1]:@PORT1@; return 200 $server_addr; }
    """ % {"dns": dns.address})
    assert server.get("/4?h=www.example").text == "127.0.0.2"
    assert dns.asked == [("www.example", "A")]
    assert server.get("/6?h=www.example").text == "::1"
    assert dns.asked == [("www.example", "A"), ("www.example", "AAAA")]


def test_an_address_is_not_asked(serve, name_server):
    dns = name_server()
    server = serve(FRONT % (dns.address, "15s"))
    assert server.get("/?h=127.0.0.3").text == "127.0.0.3"
    assert dns.asked == []


@pytest.mark.parametrize("answer, text", [
    (NXDOMAIN, "3: Host not found"),
    ([], "3: Host not found"),
    (SERVFAIL, "2: Server failure"),
    (REFUSED, "5: Operation refused"),
    (SILENCE, "110: Operation timed out"),
])
def test_names_that_cannot_be_resolved(serve, name_server, answer, text):
    dns = name_server({"www.example": answer})
    server = serve(FRONT % (dns.address, "500ms"))
    assert server.get("/?h=www.example").status == 502
    server.wait_log(r"\[error\] .* www\.example could not be resolved \(%s\), client: " % text)


@pytest.mark.parametrize("name", ["a..b", "."])
def test_names_that_are_none(serve, name_server, name):
    dns = name_server()
    server = serve(FRONT % (dns.address, "15s"))
    assert server.get("/?h=" + name).status == 502
    server.wait_log(r"could not be resolved \(3: Host not found\)")
    assert dns.asked == []


def test_without_a_resolver(serve):
    server = serve("server { listen 127.0.0.1:@PORT@; location / { proxy_pass http://$arg_h; } }")
    assert server.get("/?h=www.example").status == 502
    server.wait_log(r"\[error\] .* no resolver defined to resolve www\.example, client: ")


def test_aliases(serve, name_server):
    dns = name_server({"a.example": [Alias("b.example")], "b.example": [Alias("c.example")],
                       "c.example": ["127.0.0.2"], "loop.example": [Alias("loop.example")]})
    server = serve(FRONT % (dns.address, "15s"))
    assert server.get("/?h=a.example").text == "127.0.0.2"
    assert server.get("/?h=loop.example").status == 502


def test_what_an_alias_stands_for_is_asked_once(serve, name_server):
    """Whichever of both names comes first, and circles of aliases have an end."""
    dns = name_server({"a.example": [Alias("c.example")], "b.example": [Alias("c.example")], "c.example": ["127.0.0.2"],
                       "d.example": [Alias("e.example")], "e.example": ["127.0.0.2"],
                       "one.example": [Alias("two.example")], "two.example": [Alias("one.example")]})
    server = serve(FRONT % (dns.address + " ipv6=off", "15s"), main="worker_processes 1;")
    for name in "abcde":
        assert server.get("/?h=%s.example" % name).text == "127.0.0.2"
    assert [dns.count(name + ".example", "A") for name in "abcde"] == [1] * 5
    assert server.get("/?h=one.example").status == 502
    server.wait_log(r"one.example could not be resolved \(3: Host not found\)")
    assert [dns.count(name + ".example", "A") for name in ("one", "two")] == [1, 1]


def test_an_answer_over_tcp(serve, name_server):
    dns = name_server({"www.example": ["127.0.0.2"]})
    dns.truncates = True
    server = serve(FRONT % (dns.address, "15s"))
    assert server.get("/?h=www.example").text == "127.0.0.2"
    assert dns.count("www.example", "A") == 2


def test_valid(serve, name_server):
    """valid= weighs more than the time to live, and its end is noticed."""
    dns = name_server({"www.example": ["127.0.0.2"]}, ttl=3600)
    server = serve(FRONT % (dns.address + " valid=1s", "15s"))
    assert server.get("/?h=www.example").text == "127.0.0.2"
    dns.records["www.example"] = ["127.0.0.3"]
    until(lambda: server.get("/?h=www.example").text == "127.0.0.3", "the new address")


def test_the_next_name_server(serve, name_server):
    """One is silent, one fails, one knows."""
    silent = name_server({"www.example": SILENCE})
    knows = name_server({"www.example": ["127.0.0.2"]})
    server = serve(FRONT % (silent.address + " " + knows.address, "10s"))
    assert server.get("/?h=www.example").text == "127.0.0.2"


@needs_portunus
def test_a_name_server_that_fails_or_is_not_there(serve, name_server):
    fails = name_server({"www.example": SERVFAIL, "mail.example": FORMERR})
    knows = name_server({"www.example": ["127.0.0.2"], "mail.example": ["127.0.0.3"]})
    nobody = ports.take()
    server = serve(FRONT % ("127.0.0.1:%d %s %s" % (nobody.number, fails.address, knows.address),
                            "30s"))
    assert server.get("/?h=www.example").text == "127.0.0.2"
    assert server.get("/?h=mail.example").text == "127.0.0.3"
    server.wait_log(r"\(111: Connection refused\) while resolving, resolver: 127\.0\.0\.1:%d"
                    % nobody.number)
    nobody.close()


# What a name server may do instead of an answer: all that is to be had then comes from the other one.
BAD_ANSWERS = {
    "servfail": SERVFAIL, "refused": REFUSED, "formerr": FORMERR, "notimp": NOTIMP, "silence": SILENCE,
    "garbage": Raw(lambda question: b"\xff" * 40), "short": Raw(lambda question: question[:7]), "nothing": Raw(lambda question: b""),
    "other-id": Raw(lambda question: bytes([question[0] ^ 1]) + question[1:2] + b"\x81\x80" + question[4:]),
    "a-question": Raw(lambda question: question),
    "cut": Raw(lambda question: question[:2] + b"\x81\x80\0\1\0\1\0\0\0\0" + question[12:] + b"\xc0\x0c\0\1"),
    "loop": Raw(lambda question: question[:2] + b"\x81\x80\0\1\0\1\0\0\0\0" + question[12:] + b"\xc0%c" % len(question) * 9),
    "long": Raw(lambda question: question[:2] + b"\x81\x80\0\1\xff\xff\0\0\0\0" + question[12:]),
}


@needs_portunus
@pytest.mark.parametrize("is_first", [True, False], ids=["bad-first", "good-first"])
def test_one_of_two_name_servers_answers_badly(serve, name_server, is_first):
    bad = name_server({kind + ".example": answer for kind, answer in BAD_ANSWERS.items()})
    good = name_server({kind + ".example": ["127.0.0.2"] for kind in BAD_ANSWERS})
    both = (bad.address, good.address) if is_first else (good.address, bad.address)
    server = serve("server { listen 127.0.0.1:@PORT@; resolver_timeout 20s;" + "".join(
        # Another time makes another resolver, which does not know yet which server is the good one.
        "location /%s { resolver %s %s valid=%ds; proxy_pass http://%s.example:$server_port_of_backend; }" % (
            kind, *both, 100 + n, kind) for n, kind in enumerate(BAD_ANSWERS)).replace("$server_port_of_backend", "$arg_p")
        + "}" + BACKEND, allow=["while resolving"])
    clients = [server.client() for _ in BAD_ANSWERS]
    for client, kind in zip(clients, BAD_ANSWERS):
        client.send(b"GET /%s?p=%d HTTP/1.1\r\nHost: x\r\n\r\n" % (kind.encode(), server.port_of("PORT1")))
    for client, kind in zip(clients, BAD_ANSWERS):
        answer = client.response()
        assert (kind, answer.status, answer.text) == (kind, 200, "127.0.0.2")
        client.close()


# How the question about one family of addresses ends: directly, or behind an alias that is resolved by a question of its own.
HALVES = {"ok": None, "empty": [], "none": NXDOMAIN, "fail": SERVFAIL, "refused": REFUSED, "silence": SILENCE}


@needs_portunus
def test_each_family_ends_in_its_own_way(serve, name_server):
    """What one of the two questions has found is used, however the other one ends."""
    dns = name_server({})
    for kind, address in ("A", "127.0.0.2"), ("AAAA", "::1"):
        for end, value in HALVES.items():
            dns.records["end-%s.example" % end, kind] = [address] if end == "ok" else value
    ends = list(HALVES) + ["to-" + end for end in HALVES]
    pairs = [(a, aaaa) for a in ends for aaaa in ends]
    for pair in pairs:
        for kind, end in zip(("A", "AAAA"), pair):
            name = "%s.%s.example" % pair
            dns.records[name, kind] = ([Alias("end-%s.example" % end[3:])] if end.startswith("to-") else
                                       dns.records["end-%s.example" % end, kind])
    server = serve("""
        server { listen 127.0.0.1:@PORT@; resolver %s; resolver_timeout 2s; location / { proxy_pass http://$arg_h:@PORT1@; } }
        server { listen 127.0.0.2:@PORT1@; listen [::1]:@PORT1@; return 200 $server_addr; }
    """ % dns.address)
    clients = [server.client() for _ in pairs]
    for client, pair in zip(clients, pairs):
        client.send(b"GET /?h=%s.%s.example HTTP/1.1\r\nHost: x\r\n\r\n" % tuple(end.encode() for end in pair))
    for client, pair in zip(clients, pairs):
        answer = client.response()
        wanted = {address for end, address in zip(pair, ("127.0.0.2", "::1")) if end.endswith("ok")}
        assert (pair, answer.status) == (pair, 200 if wanted else 502)
        assert not wanted or answer.text in wanted
        client.close()


def test_long_names(serve, name_server):
    """63 bytes in a label, 253 in a name: what is longer is no name, and nobody is asked."""
    longest = ".".join(["a" * 63] * 3 + ["b" * 61])
    good = [longest, longest + ".", "c" * 63 + ".example"]
    bad = [longest + "b", longest + "b.", "c" * 64 + ".example", ".".join(["a" * 63] * 4) + ".x", "d." * 200 + "x", "e" * 4000]
    dns = name_server({longest: ["127.0.0.2"], "c" * 63 + ".example": ["127.0.0.2"]})
    server = serve(FRONT % (dns.address, "15s"))
    for name in good:
        assert (name, server.get("/?h=" + name).text) == (name, "127.0.0.2")
    asked = len(dns.asked)
    for name in bad:
        assert (name, server.get("/?h=" + name).status) == (name, 502)
    assert len(dns.asked) == asked


def test_who_leaves_does_not_end_the_question(serve, name_server):
    dns = name_server({"www.example": SILENCE})
    server = serve(FRONT % (dns.address, "30s"))
    client = server.client()
    client.send(b"GET /?h=www.example HTTP/1.1\r\nHost: x\r\n\r\n")
    until(lambda: dns.count("www.example", "A"), "the question")
    client.close()
    dns.records["www.example"] = ["127.0.0.2"]
    assert server.get("/?h=www.example").text == "127.0.0.2"


def test_quit_while_a_name_is_asked(serve, name_server):
    dns = name_server({"www.example": SILENCE})
    server = serve(FRONT % (dns.address, "30s"))
    client = server.client()
    client.send(b"GET /?h=www.example HTTP/1.1\r\nHost: x\r\n\r\n")
    until(lambda: dns.count("www.example", "A"), "the question")
    server.stop()
    client.close()


@needs_resolve
def test_servers_of_a_group_follow_their_names(serve, name_server):
    dns = name_server({"www.example": ["127.0.0.2"]}, ttl=1)
    server = serve("""
        resolver %s ipv6=off;
        upstream u { zone u 64k; server www.example:@PORT1@ resolve; }
        server { listen 127.0.0.1:@PORT@; location / { proxy_pass http://u; } }
    """ % dns.address + BACKEND)
    until(lambda: server.get("/").text == "127.0.0.2", "the first address")
    dns.records["www.example"] = ["127.0.0.3"]
    until(lambda: server.get("/").text == "127.0.0.3", "the second address")
    # A failure of the name server takes nothing away.
    dns.records["www.example"] = SERVFAIL
    before = dns.count("www.example")
    until(lambda: dns.count("www.example") > before + 1, "two more questions")
    assert server.get("/").text == "127.0.0.3"


@needs_resolve
def test_services_of_a_group(name_server):
    """The port comes from the SRV record; those of higher numbers are backups."""
    dns = name_server({})
    server = Server("""
        resolver %s ipv6=off;
        upstream u { zone u 64k; server www.example service=http resolve; }
        server { listen 127.0.0.1:@PORT@; location / { proxy_pass http://u; } }
    """ % dns.address + BACKEND)
    dns.records.update({
        "_http._tcp.www.example": [Service((1, 10, server.port_of("PORT1"), "one.example")),
                                   Service((2, 10, server.port_of("PORT1"), "two.example"))],
        "one.example": ["127.0.0.2"], "two.example": ["127.0.0.3"]})
    with server:
        until(lambda: server.get("/").text == "127.0.0.2", "the service")
        assert {server.get("/").text for _ in range(4)} == {"127.0.0.2"}


@needs_dnsmasq
def test_dnsmasq(serve, dnsmasq):
    dns = dnsmasq("host-record=www.example,127.0.0.2", "cname=alias.example,www.example",
                  "host-record=six.example,::1", ttl=1)
    server = serve(FRONT % (dns.address, "15s"))
    assert server.get("/?h=www.example").text == "127.0.0.2"
    assert server.get("/?h=alias.example").text == "127.0.0.2"
    assert server.get("/?h=gone.example").status == 502
    server.wait_log(r"gone\.example could not be resolved \(3: Host not found\)")
    # It ends and comes back with another address.
    dns.restart("host-record=www.example,127.0.0.3")
    until(lambda: server.get("/?h=www.example").text == "127.0.0.3", "the new address")


@needs_dnsmasq
def test_a_long_answer_of_dnsmasq(serve, dnsmasq):
    """More addresses than a datagram of 512 bytes holds."""
    addresses = ["127.0.1.%d" % n for n in range(1, 100)]
    dns = dnsmasq(*["host-record=www.example," + address for address in addresses])
    server = serve(FRONT % (dns.address, "15s"))
    assert server.get("/?h=www.example").text in addresses
