"""acme_shared_zone with sync: nodes have accounts, certificates and challenges in common, by Redis."""

import os
import threading

import pytest

pytest.importorskip("cryptography")

from harness import binaries  # noqa: E402
from harness.redis import needs_redis  # noqa: E402
from harness.server import run_binary  # noqa: E402
from harness.wait import until  # noqa: E402

from authority import Refused  # noqa: E402
from test_http_acme import ca, issued, issuer_of, peer, saved, site  # noqa: E402,F401 pylint: disable=unused-import

pytestmark = [
    pytest.mark.skipif("http_acme_module" not in binaries.version_text(binaries.under_test()), reason="without acme"),
    needs_redis,
]

KEY = "portunus:1:acme:{shared}"


@pytest.fixture(name="store")
def fixture_store(redis):
    return redis("user edge on >secret ~portunus:* +@all")


@pytest.fixture
def node(site, store):  # noqa: F811
    """Starts a node with the store, and state of its own."""
    def start(block="", **how):
        return site(block, http="acme_shared_zone zone=shared:256k sync sync_interval=20ms;", files={"password": "secret"},
                    main="worker_processes 2; redis_store main { server 127.0.0.1:%d; timeout 1s; user edge; password_file password; }"
                         % store.port, **how)
    return start


def values(store):
    return dict(zip(*[iter(store.ask("HGETALL", KEY))] * 2))


@pytest.mark.parametrize("challenge", ["http-01", "tls-alpn-01"])
def test_nodes_share(node, ca, store, challenge):  # noqa: F811
    """One node orders, the other one answers the challenge; both take the certificate without a reload, and keep it in their files."""
    ca.stalls = threading.Event()
    one = node("challenge %s;" % challenge)
    until(lambda: ca.requests, "the first to begin")
    two = node("challenge %s;" % challenge)  # the CA comes to this one
    two.wait_log("another node orders")
    ca.stalls.set()
    serial = issued(two).serial_number
    assert issued(one).serial_number == serial
    assert ca.seen == [(challenge, "a.test", "valid")]
    until(lambda: saved(one) == saved(two), "the file of the other")
    for name in saved(one) + ["account.key", "account.url"]:
        until(lambda one_name=name: all(os.path.exists(server.path("acme_ca/" + one_name)) for server in (one, two)), name)
        assert open(one.path("acme_ca/" + name)).read() == open(two.path("acme_ca/" + name)).read()
    until(lambda: not [name for name in values(store) if name.startswith("challenge")], "the challenge to be removed")
    assert sorted(name.split()[0] for name in values(store) if name) == ["account", "certificate"]
    assert "PRIVATE" not in str(values(store)) and "CERTIFICATE" not in str(values(store))
    three = node("challenge %s;" % challenge)  # has no files
    assert issued(three).serial_number == serial
    store.ask("FLUSHALL")
    until(lambda: len(values(store)) == 3, "the nodes to send again what the store has lost")
    assert all(ttl > 0 for ttl in store.ttls())
    assert (ca.count("new-order"), ca.count("new-account")) == (1, 1)


@pytest.mark.parametrize("wait, after", [(600, 600), (10 ** 9, 30 * 86400)])
def test_a_failure_counts_for_all_nodes(node, ca, wait, after):  # noqa: F811
    """The CA has a limit: the other node does not try at once, however long it is."""
    def refuse(made, status, fields, body):
        raise Refused("rateLimited", "too many", 429, {"Retry-After": str(wait)})

    ca.change["new-order"], ca.stalls = refuse, threading.Event()
    one = node()
    until(lambda: ca.requests, "the first to begin")
    two = node()
    two.wait_log("another node orders")
    ca.stalls.set()
    one.wait_log("is ordered again in %ds" % after)
    two.wait_log("another node could not order certificate .* which is ordered again in (%s)s" % "|".join(str(after - gone) for gone in range(30)))
    two.reload()
    assert ca.count("directory") == 1


def test_store_that_is_gone_during_an_order(node, ca, store):  # noqa: F811
    """No challenge is begun that other nodes cannot answer, and nothing is ordered until the store is back."""
    goes_on = threading.Event()

    def stall(made, status, fields, body):
        assert goes_on.wait(20)
        return status, fields, body

    ca.change["new-order"] = stall
    server = node()
    until(lambda: ca.count("new-order") == 1, "the order")
    store.stop()
    goes_on.set()
    server.wait_log("the store did not take the answer to a challenge in time")
    server.wait_log("is ordered again in")
    assert ca.count("challenge") == 0
    server.quit()
    server.wait_end()
    server.start()
    server.wait_log("the redis_store does not answer; nothing is ordered until it does")
    assert issuer_of(peer(server)) == "certificate that is being ordered"
    store.start()
    issued(server)


@pytest.mark.parametrize("words, said", [
    ("zone=a:256k sync", '"sync" needs a "redis_store"'),
    ("zone=a:256k sync=none", '"none"'),
    ("zone=a:256k sync_interval=1s", '"sync_interval" needs "sync"'),
    ("zone=a:256k other", 'invalid parameter "other"'),
    ("sync zone=a:256k", 'invalid parameter'),
])
def test_errors_of_the_configuration(tmp_path, words, said):
    path = tmp_path / "nginx.conf"
    text = "acme_issuer x { uri https://a/; } server { server_name a.test; acme_certificate x; }"
    path.write_text("events {} http { acme_shared_zone %s; %s }" % (words, text))
    done = run_binary("-t", "-c", str(path), "-p", str(tmp_path))
    assert done.returncode == 1 and said in done.stderr, done.stderr


def test_a_store_without_a_password(tmp_path):
    path = tmp_path / "nginx.conf"
    path.write_text("events {} redis_store main { server 127.0.0.1; } http { acme_shared_zone zone=a:256k sync;"
                    " acme_issuer x { uri https://a/; } server { server_name a.test; acme_certificate x; } }")
    done = run_binary("-t", "-c", str(path), "-p", str(tmp_path))
    assert done.returncode == 1 and '"sync" needs a "password_file"' in done.stderr, done.stderr
