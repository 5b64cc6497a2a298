"""OCSP both ways: asked about clients' certificates, and stapled to our own."""

import re
import subprocess
import threading

import pytest

import certificates
from harness import ports, until
from ocsp import Responder
from tls_client import ask, connect, context, exchange, pair


@pytest.fixture
def responder():
    made = []

    def make(*args, **kwargs):
        made.append(Responder(*args, **kwargs))
        return made[-1]

    yield make
    for one in made:
        one.close()


def unused_port():
    return ports.take().number  # kept from all others to the end


# ---- clients

CLIENTS = """
    server { listen @PORT@ ssl; %s ssl_client_certificate %s; ssl_verify_client on; ssl_verify_depth 3;
             %s return 200 "$ssl_client_verify"; }
"""


def strict(serve, ca, text):
    return serve(CLIENTS % (pair(certificates.own("one")), ca.crt, text), main="worker_processes 1;")


@pytest.mark.parametrize("mode", ["on", "leaf"])
@pytest.mark.parametrize("status, answer, message", [
    ("good", (200, "SUCCESS"), None),
    ("revoked", 400, r"verify error: \(23:certificate revoked\)"),
    (None, 400, r"verify error: \(\d+:certificate status request failed\)"),
])
def test_what_the_responder_says_counts(serve, responder, mode, status, answer, message):
    ca, made = certificates.own("ca"), certificates.signed("client", "ca")
    asked = responder(ca)
    if status:
        asked.status[made] = status
    server = strict(serve, ca, "ssl_ocsp %s; ssl_ocsp_responder %s;" % (mode, asked.url))
    got = ask(server.port, certificate=made)
    assert got[:2] == answer or got[0] == answer
    assert asked.asked == 1
    if message:
        server.wait_log(message)


def test_address_in_the_certificate(serve, responder):
    ca = certificates.own("ca")
    asked = responder(ca)
    made = certificates.signed("client", "ca", "authorityInfoAccess=OCSP;URI:" + asked.url)
    silent = certificates.signed("client", "ca")
    asked.status[made] = "good"
    server = strict(serve, ca, "ssl_ocsp on;")
    assert ask(server.port, certificate=made)[:2] == (200, "SUCCESS")
    assert asked.asked == 1
    assert ask(server.port, certificate=silent)[0] == 400
    server.wait_log("OCSP responder not specified in the certificate")


@pytest.mark.parametrize("mode, status", [("on", 400), ("leaf", 200)])
def test_all_of_the_chain_or_the_leaf(serve, responder, mode, status):
    """The one between was revoked by the root."""
    root = certificates.own("root")
    above = responder(root)
    between = certificates.signed("between", "root", "basicConstraints=critical,CA:TRUE",
                                  "authorityInfoAccess=OCSP;URI:" + above.url)
    below = responder(between)
    made = certificates.signed("client", between, "authorityInfoAccess=OCSP;URI:" + below.url)
    above.status[between] = "revoked"
    below.status[made] = "good"
    server = strict(serve, root, "ssl_ocsp %s;" % mode)
    client = context()
    chain = certificates.Pair("client-chain")
    with open(chain.crt, "w", encoding="ascii") as out:
        out.write(made.pem + between.pem)
    client.load_cert_chain(chain.crt, made.key)
    assert ask(server.port, made=client)[0] == status
    assert (below.asked, above.asked) == (1, 1 if mode == "on" else 0)


def test_answers_are_kept(serve, responder):
    ca, made, other = (certificates.own("ca"), certificates.signed("client", "ca"),
                       certificates.signed("other", "ca"))
    asked = responder(ca)
    asked.status = {made: "good", other: "revoked"}
    server = strict(serve, ca, "ssl_ocsp on; ssl_ocsp_cache shared:o:1m; ssl_ocsp_responder %s;"
                    % asked.url)
    for _ in range(3):
        assert ask(server.port, certificate=made)[0] == 200
        assert ask(server.port, certificate=other)[0] == 400
    assert asked.asked == 2
    # … over a reload, too, and when the responder is gone.
    server.reload()
    server.wait_log("exited with code 0")
    asked.close()
    assert ask(server.port, certificate=made)[0] == 200


def test_what_is_not_known_is_not_kept(serve, responder):
    ca, made = certificates.own("ca"), certificates.signed("client", "ca")
    asked = responder(ca)
    server = strict(serve, ca, "ssl_ocsp on; ssl_ocsp_cache shared:o:1m; ssl_ocsp_responder %s;"
                    % asked.url)
    assert ask(server.port, certificate=made)[0] == 400
    asked.status[made] = "good"
    assert ask(server.port, certificate=made)[0] == 200


def test_a_resumed_session_is_asked_about(serve, responder):
    ca, made = certificates.own("ca"), certificates.signed("client", "ca")
    asked = responder(ca)
    asked.status[made] = "good"
    server = strict(serve, ca, "ssl_ocsp on; ssl_ocsp_responder %s;" % asked.url)
    client = context(certificate=made)
    with connect(server.port, made=client) as secure:
        assert exchange(secure)[0] == 200
        session = secure.session
    asked.status[made] = "revoked"
    with connect(server.port, made=client, session=session) as secure:
        assert secure.session_reused
        assert exchange(secure)[0] == 400


def test_the_responder_is_down(serve):
    ca = certificates.own("ca")
    server = strict(serve, ca, "ssl_ocsp on; ssl_ocsp_responder http://127.0.0.1:%d;"
                    % unused_port())
    status, body, _ = ask(server.port, certificate=certificates.signed("client", "ca"))
    assert status == 400 and "The SSL certificate error" in body
    server.wait_log(r"\[error\].*connect\(\) to OCSP responder failed \(111: Connection refused\)")


def test_a_wrong_signature(serve, responder):
    ca, made = certificates.own("ca"), certificates.signed("client", "ca")
    asked = responder(ca, signer=certificates.own("liar"))
    asked.status[made] = "good"
    server = strict(serve, ca, "ssl_ocsp on; ssl_ocsp_responder %s;" % asked.url)
    assert ask(server.port, certificate=made)[0] == 400
    server.wait_log(r"OCSP_basic_verify\(\) failed \(SSL: error:")


def test_a_delegate_may_sign(serve, responder):
    """A certificate of the authority's that is for this use (RFC 6960, 4.2.2.2)."""
    ca, made = certificates.own("ca"), certificates.signed("client", "ca")
    delegate = certificates.signed("delegate", "ca", "extendedKeyUsage=OCSPSigning")
    stranger = certificates.signed("stranger", "ca")
    for signer, status in ((delegate, 200), (stranger, 400)):
        asked = responder(ca, signer=signer)
        asked.status[made] = "good"
        server = strict(serve, ca, "ssl_ocsp on; ssl_ocsp_responder %s;" % asked.url)
        assert ask(server.port, certificate=made)[0] == status


def test_others_are_served_meanwhile(serve, responder):
    """A responder that thinks holds up nobody but who is asked about."""
    ca, made = certificates.own("ca"), certificates.signed("client", "ca")
    asked = responder(ca)
    asked.status[made] = "good"
    asked.gate = threading.Event()
    server = serve(CLIENTS % (pair(certificates.own("one")), ca.crt,
                              "ssl_ocsp on; ssl_ocsp_responder %s;" % asked.url)
                   + "server { listen @PORT1@ ssl; %s return 200 other; }"
                   % pair(certificates.own("one")), main="worker_processes 1;")
    with connect(server.port, certificate=made) as secure:
        until(lambda: asked.asked == 1, "the question")
        for _ in range(3):
            assert ask(server.port_of("PORT1"))[1] == "other"
        asked.gate.set()
        assert exchange(secure)[0] == 200


# ---- staples

STAPLED = """
    server { listen @PORT@ ssl; %s ssl_stapling on; ssl_trusted_certificate %s; %s return 200; }
"""


def staple(port, *words):
    """What the server sends along: "good", "revoked" or None."""
    told = subprocess.run(["openssl", "s_client", "-connect", "127.0.0.1:%d" % port, "-status",
                           *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, timeout=20, check=True).stdout
    found = re.search(rb"Cert Status: (\w+)", told)
    assert found or b"OCSP response: no response sent" in told
    return found.group(1).decode() if found else None


@pytest.mark.parametrize("verify", ["", "ssl_stapling_verify on;"])
@pytest.mark.parametrize("where", ["configured", "in the certificate"])
def test_staples(serve, responder, verify, where):
    """The first client does not wait, later ones have it; nobody asks twice."""
    ca = certificates.own("ca")
    asked = responder(ca)
    if where == "configured":
        made = certificates.signed("server", "ca")
        verify += "ssl_stapling_responder %s;" % asked.url
    else:
        made = certificates.signed("server", "ca", "authorityInfoAccess=OCSP;URI:" + asked.url)
    asked.status[made] = "good"
    server = serve(STAPLED % (pair(made), ca.crt, verify), main="worker_processes 1;")
    until(lambda: staple(server.port) == "good", "a staple")
    assert staple(server.port, "-tls1_2") == "good"
    assert asked.asked == 1
    assert ask(server.port)[0] == 200


def test_a_staple_for_each_certificate(serve, responder):
    ca, rsa = certificates.own("ca"), certificates.own("alone", "rsa")
    made = certificates.signed("server", "ca")
    asked = responder(ca)
    asked.status[made] = "good"
    server = serve(STAPLED % (pair(made) + pair(rsa), ca.crt, "ssl_stapling_responder %s;"
                              % asked.url))
    until(lambda: staple(server.port, "-tls1_2", "-cipher", "aECDSA") == "good", "a staple")
    assert staple(server.port, "-tls1_2", "-cipher", "aRSA") is None
    assert "issuer certificate not found" in server.error_log \
        or "issuer certificate not found" in server.read("stderr")


def test_no_staple_when_the_responder_is_down(serve):
    ca, made = certificates.own("ca"), certificates.signed("server", "ca")
    server = serve(STAPLED % (pair(made), ca.crt, "ssl_stapling_responder http://127.0.0.1:%d;"
                              % unused_port()))
    assert staple(server.port) is None
    server.wait_log(r"\[error\].*connect\(\) to OCSP responder failed \(111: Connection refused\) "
                    "while requesting certificate status")
    assert staple(server.port) is None and ask(server.port)[0] == 200


@pytest.mark.parametrize("case, message", [
    ("revoked", r'certificate status "revoked" in the OCSP response'),
    ("unknown", r'certificate status "unknown" in the OCSP response'),
    ("liar", r"OCSP_basic_verify\(\) failed"),
    ("404", "OCSP responder sent invalid response"),
    ("try later", r"OCSP response not successful \(3: trylater\)"),
])
def test_what_is_no_good_is_not_sent(serve, responder, case, message):
    ca, made = certificates.own("ca"), certificates.signed("server", "ca")
    asked = responder(ca, signer=certificates.own("liar") if case == "liar" else None)
    if case != "unknown":
        asked.status[made] = "revoked" if case == "revoked" else "good"
    if case == "404":
        asked.lie = b"HTTP/1.1 404 Not Found\r\n\r\n"
    elif case == "try later":
        asked.lie = b"HTTP/1.1 200 OK\r\n\r\n\x30\x03\x0a\x01\x03"
    server = serve(STAPLED % (pair(made), ca.crt, "ssl_stapling_verify on; "
                              "ssl_stapling_responder %s;" % asked.url))
    assert staple(server.port) is None
    server.wait_log(message)
    assert staple(server.port) is None


def test_handshakes_do_not_wait_for_staples(serve, responder):
    ca, made = certificates.own("ca"), certificates.signed("server", "ca")
    asked = responder(ca)
    asked.status[made] = "good"
    asked.gate = threading.Event()
    server = serve(STAPLED % (pair(made), ca.crt, "ssl_stapling_responder %s;" % asked.url),
                   main="worker_processes 1;")
    assert staple(server.port) is None
    until(lambda: asked.asked == 1, "the question")
    for _ in range(3):
        assert staple(server.port) is None and ask(server.port)[0] == 200
    asked.gate.set()
    until(lambda: staple(server.port) == "good", "a staple")
    assert asked.asked == 1


def test_quit_while_a_staple_is_asked_for(serve, responder):
    ca, made = certificates.own("ca"), certificates.signed("server", "ca")
    asked = responder(ca)
    asked.gate = threading.Event()
    server = serve(STAPLED % (pair(made), ca.crt, "ssl_stapling_responder %s;" % asked.url))
    assert staple(server.port) is None
    until(lambda: asked.asked >= 1, "the question")
    server.signal("quit")
    assert server.wait_end(limit=5) == 0   # a staple is asked for during ten seconds at most
    assert "OCSP responder" not in server.error_log
    asked.gate.set()


def test_reload_while_a_staple_is_asked_for(serve, responder):
    ca, made = certificates.own("ca"), certificates.signed("server", "ca")
    asked = responder(ca)
    asked.status[made] = "good"
    asked.gate = threading.Event()
    server = serve(STAPLED % (pair(made), ca.crt, "ssl_stapling_responder %s;" % asked.url))
    assert staple(server.port) is None
    until(lambda: asked.asked >= 1, "the question")
    server.reload()
    asked.gate.set()
    server.wait_log("exited with code 0")
    until(lambda: staple(server.port) == "good", "a staple")
