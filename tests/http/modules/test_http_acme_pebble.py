"""acme_issuer with pebble, the server that Let's Encrypt tests clients with (auto/pebble builds it)."""

import json
import os

import pytest

pytest.importorskip("cryptography")

from harness import binaries  # noqa: E402
from harness.ports import take  # noqa: E402
from harness.redis import needs_redis  # noqa: E402
from harness.programs import Program, connects, home  # noqa: E402
from harness.wait import until  # noqa: E402

import certificates  # noqa: E402
from test_http_acme import issuer_of, names_of, peer  # noqa: E402

MAC = "zWNDZM6eQGHWpSRTPal5eIUYFTu7EajVIoguysqZ9wG44nMEtx3MUAsUDkMTQ12W"
TOOLS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../objs-tools")
PEBBLE, DNS = (os.path.join(TOOLS, name) for name in ("pebble", "pebble-challtestsrv"))

pytestmark = [
    pytest.mark.skipif("http_acme_module" not in binaries.version_text(binaries.under_test()), reason="without acme"),
    pytest.mark.skipif(not (os.path.exists(PEBBLE) and os.path.exists(DNS)), reason="objs-tools/pebble is not there: auto/pebble builds it"),
]

CONF = """
    %(http)s
    acme_issuer pebble { uri %(uri)s; ssl_trusted_certificate %(trusted)s; accept_terms_of_service; %(block)s }
    server {
        listen 127.0.0.1:@PORT@;
        listen 127.0.0.1:@PORT1@ ssl;
        server_name a.test;
        acme_certificate pebble %(names)s;
        ssl_certificate auto;
    }"""


@pytest.fixture
def ca(serve):
    """Starts a server, and pebble with its ports, which refuses some nonces; gives the server and the DNS server's URL."""
    programs, ports = [], []

    def start(block="", names="", external=False, hook=None, http="", main="", **how):
        pair = certificates.signed("pebble", "acme-root", "subjectAltName=IP:127.0.0.1")
        directory, dns_directory = home("pebble"), home("pebble-dns")
        ports.extend(take() for _ in range(4))
        acme, management, dns, dns_management = (port.number for port in ports)
        if hook is not None:
            hook.with_name("url").write_text("http://127.0.0.1:%d" % dns_management)
        text = CONF % {"uri": "https://127.0.0.1:%d/dir" % acme, "trusted": certificates.own("acme-root").crt,
                       "block": block, "names": names, "http": http}
        server = serve("server { listen 127.0.0.1:@PORT@; } # @PORT1@", **how)
        config = {"listenAddress": "127.0.0.1:%d" % acme, "managementListenAddress": "127.0.0.1:%d" % management,
                  "certificate": pair.crt, "privateKey": pair.key, "httpPort": server.port, "tlsPort": server.port_of("PORT1"),
                  "externalAccountBindingRequired": external, "retryAfter": {"authz": 1, "order": 1}, "externalAccountMACKeys": {"kid-1": MAC},
                  "profiles": {"short": {"description": "six days", "validityPeriod": 518400}}}
        with open(os.path.join(directory, "pebble.json"), "w", encoding="ascii") as out:
            json.dump({"pebble": config}, out)
        programs.append(Program([DNS, "-defaultIPv4", "127.0.0.1", "-defaultIPv6", "", "-dnsserver", "127.0.0.1:%d" % dns, "-http01", "",
                                 "-https01", "", "-tlsalpn01", "", "-doh", "", "-management", "127.0.0.1:%d" % dns_management],
                                dns_directory, ready=lambda: connects(dns_management)).start())
        words = ["env", "PEBBLE_VA_NOSLEEP=1", "PEBBLE_WFE_NONCEREJECT=30", "PEBBLE_AUTHZREUSE=0", PEBBLE, "-config", "pebble.json",
                 "-dnsserver", "127.0.0.1:%d" % dns]
        programs.append(Program(words, directory, ready=lambda: connects(acme)).start())
        server.configure(text, main="worker_processes 2; " + main)
        start.text = text
        server.reload()
        return server

    start.programs = programs
    yield start
    for program in programs:
        program.stop()
    for port in ports:
        port.close()


def issued(server, name="a.test"):
    until(lambda: "Pebble" in issuer_of(peer(server, name)), lambda: "a certificate of pebble\n" + server.error_log)
    return peer(server, name)


def test_http_01(ca):
    assert names_of(issued(ca())) == ["a.test"]


@pytest.mark.filterwarnings("ignore:Properties that return")  # newer ones have other names
def test_tls_alpn_01_with_several_names_and_a_profile(ca):
    leaf = issued(ca("challenge tls-alpn-01; profile short; common_name_in_csr on;", names="a.test b.test"))
    assert names_of(leaf) == ["a.test", "b.test"]
    assert (leaf.not_valid_after - leaf.not_valid_before).days <= 6


def test_address(ca):
    assert names_of(issued(ca(names="127.0.0.1"))) == ["127.0.0.1"]


def test_external_account(ca):
    issued(ca("external_account_key kid-1 data:%s;" % MAC, external=True))


HOOK = """#!/bin/sh
# pebble's DNS server has calls of its own
[ "$1" = add ] && call=set-txt data="{\\"host\\":\\"$2.\\",\\"value\\":\\"$3\\"}" || { call=clear-txt data="{\\"host\\":\\"$2.\\"}"; }
exec curl -sf -o /dev/null --data "$data" "$(cat "${0%/*}/url")/$call"
"""


def test_wildcard_by_dns_01(ca, tmp_path):
    hook = tmp_path / "hook"
    hook.write_text(HOOK)
    hook.chmod(0o755)
    server = ca("challenge dns-01; dns_wait 0s; dns_hook %s;" % hook, names="*.a.test a.test", hook=hook)
    assert names_of(issued(server, "x.a.test")) == ["*.a.test", "a.test"]


def test_renewal_information(ca):
    """The server asks pebble when to renew, which is not now."""
    server = ca()
    serial = issued(server).serial_number
    until(lambda: "renewalInfo/" in ca.programs[1].log() or "renewal-info/" in ca.programs[1].log(), lambda: ca.programs[1].log())
    server.reload()
    assert issued(server).serial_number == serial
    assert "suggests no proper time" not in server.error_log


@needs_redis
@pytest.mark.parametrize("challenge", ["http-01", "tls-alpn-01"])
def test_challenge_at_another_node(ca, serve, redis, challenge):
    """The CA comes to a node that has not ordered: it has the answer from the store."""
    store = redis("user edge on >secret ~portunus:* +@all")
    main = "redis_store main { server 127.0.0.1:%d; timeout 1s; user edge; password_file password; }" % store.port
    files = {"password": "secret"}
    front = ca("challenge %s;" % challenge, names="front.test", http="acme_shared_zone zone=s:256k sync sync_interval=20ms;", main=main, files=files)
    assert names_of(issued(front)) == ["front.test"]
    back = serve(ca.text.replace("front.test", "a.test"), main=main, files=files)
    assert names_of(issued(back)) == ["a.test"]
    assert "the account is" not in back.error_log  # it is that of the first
