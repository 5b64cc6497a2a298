"""TLS: clients' certificates; places that are exempt, error pages, revocation lists, what is told of them."""

import re
import ssl

import pytest

import certificates
from harness import binaries, until
from harness.certificates import Authority
from harness.workers import wait_workers
from tls_client import ask, connect, context, exchange, pair

portunus_only = pytest.mark.skipif(binaries.is_nginx_before(binaries.under_test(), 1, 30),
                                   reason="the reference is older")

EXCEPTIONS = """
    server {
        listen @PORT@ ssl; %s
        ssl_client_certificate %s; ssl_verify_client on;
        error_page 495 496 =299 /refused; error_page 404 /missing;
        location / { return 200 "all $ssl_client_verify"; }
        location /open/ { ssl_verify_client_exception on; return 200 "open $ssl_client_verify";
            location /open/closed/ { ssl_verify_client_exception off; return 200 closed; }
            location /open/in/ { return 200 inner; } }
        location ~ \\.well-known { ssl_verify_client_exception on; return 200 known; }
        location = /refused { return 200 "refused $status"; }
        location /from/ { ssl_verify_client_exception on; rewrite ^ /secret last; }
        location /name/ { ssl_verify_client_exception on; error_page 418 = @name; return 418; }
        location @name { return 200 secret; }
        location /into/ { rewrite ^ /open/x last; }
        location /secret { return 200 secret; }
        location /slash/ { ssl_verify_client_exception on; proxy_pass http://127.0.0.1:1; }
        location /tried/ { ssl_verify_client_exception on; try_files /nx /secret; }
        rewrite ^/early /open/x;
        if ($arg_a) { return 200 server; }
    }
"""


@pytest.fixture
def exempting(serve):
    return serve(EXCEPTIONS % (pair(certificates.own("one")), certificates.own("ca").crt))


@portunus_only
@pytest.mark.parametrize("target, answer", [
    ("/", (299, "refused 299")),
    ("/open/x", (200, "open NONE")),
    ("/open/in/x", (200, "inner")),
    ("/open/closed/x", (299, "refused 299")),
    ("/.well-known/acme", (200, "known")),
    ("/%6fpen/x", (200, "open NONE")),
    ("/open/../secret", (299, "refused 299")),
    # What leads from an exempt place to another is asked again,
    ("/from/x", (299, "refused 299")),
    ("/tried/x", (299, "refused 299")),
    # and what leads into one was asked before.
    ("/into/x", (299, "refused 299")),
    ("/early", (299, "refused 299")),
    ("/x?a=1", (299, "refused 299")),
    ("/open/x?a=1", (200, "server")),
    # An error page is the place's own.
    ("/name/x", (200, "secret")),
])
def test_places_that_are_exempt(exempting, target, answer):
    assert ask(exempting.port, target)[:2] == answer


@portunus_only
def test_exempt_places_take_any_certificate(exempting):
    good, foreign = certificates.signed("client", "ca"), certificates.own("foreign")
    for made, verified, status in ((good, "SUCCESS", 200), (foreign, "FAILED:self", 299)):
        assert ask(exempting.port, "/open/x", certificate=made)[1].startswith("open " + verified)
        assert ask(exempting.port, "/", certificate=made)[0] == status
    exempting.wait_log("client SSL certificate verify error")


@portunus_only
def test_one_connection_to_exempt_places_and_others(exempting):
    """A refusal ends the connection, an exempt request keeps it."""
    with connect(exempting.port) as secure:
        for target, text in (("/open/x", b"open NONE"), ("/open/in/", b"inner"),
                             ("/secret", b"refused 299")):
            secure.sendall(b"GET %s HTTP/1.1\r\nHost: x\r\n\r\n" % target.encode())
            answer = b""
            while not answer.endswith(text):
                part = secure.recv(4096)
                assert part, answer
                answer += part
        assert secure.recv(100) == b""


@portunus_only
def test_exempt_places_of_http2(serve):
    from harness.h2 import H2
    server = serve("server { listen @PORT@ ssl; http2 on; %s ssl_client_certificate %s; "
                   "ssl_verify_client on; location / { return 200 all; } location /open { "
                   "ssl_verify_client_exception on; return 200 open; } }"
                   % (pair(certificates.own("one")), certificates.own("ca").crt))
    with H2(server.port, sock=connect(server.port, alpn=["h2"])) as h2:
        assert h2.get("/open", scheme="https").status == 200
        assert h2.get("/", scheme="https").status == 400


@portunus_only
def test_an_exception_of_one_server_is_none_of_another(serve):
    server = serve("""
        ssl_client_certificate %s; ssl_verify_client on;
        server { listen @PORT@ ssl; server_name a; %s
                 location / { ssl_verify_client_exception on; return 200 a; } }
        server { listen @PORT@ ssl; server_name b; %s location / { return 200 b; } }
    """ % ((certificates.own("ca").crt,) + (pair(certificates.own("one")),) * 2))
    assert ask(server.port, name="a", host="a")[:2] == (200, "a")
    assert ask(server.port, name="b", host="b")[0] == 400
    assert ask(server.port, name="a", host="b")[0] == 421


@portunus_only
def test_plain_http_to_an_exempt_place(exempting):
    answer = exempting.get("/open/x")
    assert answer.status == 400 and "plain HTTP request was sent to HTTPS" in answer.text


# ---- error pages


def test_status_of_refused_clients(serve):
    server = serve("""
        log_format s "$status";
        server { listen @PORT@ ssl; %s ssl_client_certificate %s; ssl_verify_client on;
                 access_log @DIR@/logs/a s; error_page 495 /bad; error_page 496 =234 /none;
                 location = /bad { return 200 "bad $ssl_client_verify"; }
                 location = /none { return 200 "none"; } }
    """ % (pair(certificates.own("one")), certificates.own("ca").crt))
    status, body, _ = ask(server.port, certificate=certificates.own("foreign"))
    assert body.startswith("bad FAILED:self")
    assert ask(server.port)[:2] == (234, "none")
    assert server.wait_lines("logs/a", 2) == [str(status), "234"]


# ---- authorities


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    authority = Authority(tmp_path_factory.mktemp("certificates"))
    authority.issue("good")
    authority.issue("gone")
    return authority


def show(server, root, name):
    made = context()
    made.load_cert_chain(root.path(name + ".crt"), root.path(name + ".key"))
    return ask(server.port, made=made)[:2]


def test_revoked_clients(serve, root):
    root.revocation_list("gone")
    server = serve("server { listen @PORT@ ssl; %s ssl_client_certificate root.crt; ssl_crl %s; "
                   "ssl_verify_client optional; return 200 $ssl_client_verify; }"
                   % (pair(certificates.own("one")), "root.crl"),
                   files={"root.crt": root.read("root.crt"), "root.crl": root.read("root.crl")})
    assert show(server, root, "good") == (200, "SUCCESS")
    assert show(server, root, "gone")[0] == 400
    server.wait_log(r"client SSL certificate verify error: \(23:certificate revoked\)")


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize("kept", ["ssl_session_ticket_key @DIR@/k80;", "ssl_session_cache shared:S:1m; ssl_session_tickets off;", ""])
@pytest.mark.parametrize("name", ["default", "other"])
def test_who_was_revoked_since_does_not_resume(serve, root, version, kept, name):
    """A session says that a certificate was good when it was made. The new list was missed where its file had the time of the old one."""
    files = {"root.crt": root.read("root.crt"), "k80": bytes(range(80))}
    root.revocation_list()
    files["root.crl"] = root.read("root.crl")
    server = serve("ssl_protocols TLSv1.2 TLSv1.3; %s server { listen @PORT@ ssl; server_name default; %s %s return 200 $ssl_client_verify; }"
                   "server { listen @PORT@ ssl; server_name other; %s %s return 200 $ssl_client_verify; }"
                   % ((kept, *(2 * (pair(certificates.own("one")), "ssl_client_certificate root.crt; ssl_crl root.crl; ssl_verify_client on;")))), files=files)
    made = context(version=version)
    made.load_cert_chain(root.path("gone.crt"), root.path("gone.key"))

    def visit(session):
        with connect(server.port, name, made=made, session=session) as secure:
            return exchange(secure, host=name)[0], secure.session_reused, secure.session
    status, _, session = visit(None)
    assert status == 200 and visit(session)[:2] == (200, True)
    old = server.children()
    root.revocation_list("gone")
    server.write("root.crl", root.read("root.crl"))
    server.reload()
    wait_workers(server, 1, without=old)
    assert visit(session)[:2] == (400, False)


def test_names_of_authorities_are_told(serve):
    """Those of ssl_client_certificate, not those of ssl_trusted_certificate."""
    server = serve("server { listen @PORT@ ssl; %s ssl_client_certificate %s; "
                   "ssl_trusted_certificate %s; ssl_verify_client optional; "
                   "return 200 $ssl_client_verify; }"
                   % (pair(certificates.own("one")), certificates.own("ca").crt,
                      certificates.own("quiet").crt))
    told = certificates.openssl("s_client", "-connect", "127.0.0.1:%d" % server.port).decode()
    assert re.search(r"Acceptable client certificate CA names\n\s*CN = ca\n(?!.*quiet)", told)
    for name in ("ca", "quiet"):
        made = certificates.signed("client", name)
        assert ask(server.port, certificate=made)[1] == "SUCCESS"


@portunus_only
def test_trusted_certificates_alone_will_do(serve):
    server = serve("server { listen @PORT@ ssl; %s ssl_trusted_certificate %s; "
                   "ssl_verify_client on; return 200 $ssl_client_verify; }"
                   % (pair(certificates.own("one")), certificates.own("ca").crt))
    assert ask(server.port, certificate=certificates.signed("client", "ca"))[1] == "SUCCESS"
    assert ask(server.port)[0] == 400


def test_optional_no_ca(serve, root):
    """Any authority will do, other faults will not."""
    root.revocation_list("gone")
    server = serve("server { listen @PORT@ ssl; %s ssl_client_certificate root.crt; %s "
                   "ssl_verify_client optional_no_ca; return 200 $ssl_client_verify; }"
                   % (pair(certificates.own("one")), "ssl_crl root.crl;"),
                   files={"root.crt": root.read("root.crt"), "root.crl": root.read("root.crl")})
    assert ask(server.port)[:2] == (200, "NONE")
    assert show(server, root, "good") == (200, "SUCCESS")
    assert show(server, root, "gone")[0] == 400
    server.configure("server { listen @PORT@ ssl; %s ssl_verify_client optional_no_ca; "
                     "return 200 $ssl_client_verify; }" % pair(certificates.own("one")))
    server.reload()
    until(lambda: show(server, root, "good")
          == (200, "FAILED:unable to verify the first certificate"), "the new worker's answer")


# ---- variables

TEXTS = ("ssl_client_s_dn ssl_client_i_dn ssl_client_s_dn_legacy ssl_client_i_dn_legacy "
         "ssl_client_serial ssl_client_fingerprint ssl_client_verify ssl_client_v_start "
         "ssl_client_v_end ssl_client_v_remain ssl_session_reused ssl_server_name ssl_protocol "
         "ssl_cipher ssl_ciphers ssl_curves ssl_early_data").split()


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_variables_as_the_reference_has_them(serve, version):
    text = "server { listen @PORT@ ssl; server_name x; %s ssl_client_certificate %s; " \
        "ssl_verify_client optional; ssl_protocols TLSv1.2 TLSv1.3; return 200 \"%s\"; }" \
        % (pair(certificates.own("one")), certificates.own("ca").crt,
           "\n".join("%s=$%s" % (name, name) for name in TEXTS))
    made = certificates.signed("client", "ca")
    answers = []
    for binary in (binaries.under_test(), binaries.reference()):
        server = serve(text, binary=binary)
        answers.append([ask(server.port, name="x", certificate=one, version=version)[1].split("\n")
                        for one in (made, None)])
    assert answers[0] == answers[1]


@portunus_only
@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_newer_variables(serve, version):
    server = serve("""
        server { listen @PORT@ ssl; server_name x; %s ssl_client_certificate %s;
            ssl_verify_client optional;
            return 200 "$ssl_curve|$ssl_sigalg|$ssl_client_sigalg|$ssl_sigalgs|$ssl_session_id|$ssl_handshake_time|$ssl_handshakd_time|$ssl_handshake_time_msec|$ssl_ech_status|$ssl_ech_outer_server_name"; }
    """ % (pair(certificates.own("one")), certificates.own("ca").crt))
    values = ask(server.port, name="x", certificate=certificates.signed("client", "ca"),
                 version=version)[1].split("|")
    assert values[0].lower() in ("x25519", "prime256v1")
    assert values[1:3] == ["ecdsa_secp256r1_sha256"] * 2
    assert {"ecdsa_secp256r1_sha256", "rsa_pss_rsae_sha256"} <= set(values[3].split(":"))
    if version == ssl.TLSVersion.TLSv1_3:  # the other has a ticket in its place
        assert re.fullmatch("[0-9a-f]{64}", values[4])
    assert re.fullmatch(r"\d+\.\d{3}", values[5]) and values[6] == values[5]
    assert int(values[7]) == round(float(values[5]) * 1000)
    assert values[8:] == ["", ""]


def test_variables_of_a_plain_connection(serve):
    server = serve("server { listen @PORT@; return 200 \"[%s]\"; }"
                   % "".join("$" + name for name in TEXTS))
    assert server.get().text == "[]"
