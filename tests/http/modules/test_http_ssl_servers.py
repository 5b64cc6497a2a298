"""Servers of one address with unlike settings of TLS: what is the connection's, and what the server's that the
client names. src/net/tls/README.md has the table."""

import re
import socket
import ssl
import struct
import subprocess

import pytest

import certificates
from harness import binaries
from harness.certificates import Authority
from harness.h2 import H2
from harness.workers import wait_workers
from tls_client import connect, context, exchange, pair, staple_of

portunus_only = pytest.mark.skipif(binaries.is_nginx_before(binaries.under_test(), 1, 30),
                                   reason="the reference is older")
TLS12, TLS13 = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3

# Each as the default server's and as the other one's.
SETTINGS = {
    "nothing": "",
    "cache": "ssl_session_cache shared:A:1m;",
    "another cache": "ssl_session_cache shared:B:1m;",
    "builtin": "ssl_session_cache builtin:100;",
    "both caches": "ssl_session_cache builtin:100 shared:A:1m;",
    "no cache": "ssl_session_cache off;",
    "cache without tickets": "ssl_session_cache shared:A:1m; ssl_session_tickets off;",
    "builtin without tickets": "ssl_session_cache builtin; ssl_session_tickets off;",
    "nothing is resumed": "ssl_session_cache off; ssl_session_tickets off;",
    "keys": "ssl_session_ticket_key @DIR@/k48;",
    "other keys": "ssl_session_ticket_key @DIR@/k80; ssl_session_ticket_key @DIR@/k48;",
    "ciphers": "ssl_ciphers ECDHE-ECDSA-AES128-GCM-SHA256; ssl_prefer_server_ciphers on;",
    "clients": "ssl_verify_client optional; ssl_client_certificate %(ca)s;",
    "early data": "ssl_early_data on;",
    "kernel": "ssl_conf_command Options KTLS;",
    "stapling": "ssl_stapling on;",
    "watched": "ssl_certificate_watch on; ssl_session_cache shared:A:1m;",
    "HTTP/2": "http2 on;",
    "log of secrets": "ssl_key_log secrets;",
}


def unix(path, version, session=None):
    """A connection to the other server of the socket; what it answers, and a session for the next."""
    raw = socket.socket(socket.AF_UNIX)
    raw.settimeout(10)
    raw.connect(path)
    made = session[0] if session else context(version=version)
    with made.wrap_socket(raw, server_hostname="other", session=session and session[1]) as secure:
        status, body, _ = exchange(secure, host="other")
        return (status, body), (made, secure.session)


@portunus_only
@pytest.mark.parametrize("first", SETTINGS)
def test_no_pair_of_settings_does_harm(serve, first):
    """Whatever the default server has and the other one has not: both answer, and are resumed or are not."""
    fill = {"ca": certificates.own("ca").crt}
    others = [name for name in SETTINGS if name != first]
    http = "".join(
        "server { listen unix:@DIR@/%d ssl; server_name default; %s return 200 default; }\n"
        "server { listen unix:@DIR@/%d; server_name other; %s return 200 other; }\n"
        % (number, SETTINGS[first] % fill, number, SETTINGS[other] % fill)
        for number, other in enumerate(others))
    server = serve(pair(certificates.own("one")) + " ssl_protocols TLSv1.2 TLSv1.3;" + http,
                   files={"k48": bytes(range(48)), "k80": bytes(range(80)), "secrets": b""})
    workers = wait_workers(server, 1)
    for number, _ in enumerate(others):
        version = (TLS12, TLS13)[number % 2]
        answer, session = unix(server.path(str(number)), version)
        assert answer == (200, "other")
        assert unix(server.path(str(number)), version, session)[0] == (200, "other")
    assert wait_workers(server, 1) == workers


TWO = """
    ssl_protocols TLSv1.2 TLSv1.3;
    server { listen @PORT@ ssl; server_name default; %s %s return 200 default; }
    server { listen @PORT@ ssl; server_name other; %s %s return 200 "other $ssl_early_data"; }
"""


def two(serve, first, other, certificate=None, **files):
    one = certificate or certificates.own("one")
    return serve(TWO % (pair(one), first, pair(one), other), files=files)


@pytest.mark.parametrize("version", [TLS12, TLS13])
@pytest.mark.parametrize("first, other, is_resumed", [
    ("ssl_session_cache shared:A:1m; ssl_session_tickets off;", "ssl_session_tickets off;", True),
    ("ssl_session_cache shared:A:1m; ssl_session_tickets off;",
     "ssl_session_cache shared:B:1m; ssl_session_tickets off;", True),
    ("ssl_session_tickets off;", "ssl_session_tickets off; ssl_session_cache shared:A:1m;", False),
    ("ssl_session_ticket_key @DIR@/k48;", "ssl_session_ticket_key @DIR@/k80;", True),
    ("ssl_session_ticket_key @DIR@/k48;", "", True),
    ("", "ssl_session_ticket_key @DIR@/k48;", True),
])
def test_sessions_are_the_connection_s(serve, version, first, other, is_resumed):
    """The cache and the keys of tickets are the default server's, as nginx has it."""
    server = two(serve, first, other, k48=bytes(range(48)), k80=bytes(range(80)))
    made = context(version=version)
    for expected in (False, is_resumed):
        with connect(server.port, "other", made=made, session=expected and session or None) as secure:
            assert exchange(secure, host="other")[0] == 200
            session = secure.session
            assert secure.session_reused == expected


EARLY = b"GET / HTTP/1.1\r\nHost: other\r\nConnection: close\r\n\r\n"


@portunus_only
@pytest.mark.parametrize("first, other, word", [
    ("on", "on", b"accepted"), ("on", "off", b"not sent"), ("off", "on", b"not sent"),
])
def test_early_data_is_allowed_by_both(serve, first, other, word):
    server = two(serve, "ssl_early_data %s;" % first, "ssl_early_data %s;" % other)
    server.write("request", EARLY)
    base = ["openssl", "s_client", "-connect", "127.0.0.1:%d" % server.port, "-servername", "other",
            "-tls1_3", "-ign_eof"]

    def told(*words, text=b""):
        return subprocess.run(base + list(words), input=text, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, timeout=20, check=True).stdout
    told("-sess_out", server.path("session"), text=EARLY)
    result = told("-sess_in", server.path("session"), "-early_data", server.path("request"),
                  text=EARLY if word != b"accepted" else b"")
    assert b"Early data was " + word in result
    assert (b"other 1" in result) == (word == b"accepted")


@portunus_only
def test_early_data_of_a_ticket_that_the_server_no_longer_allows(serve):
    """A ticket from before a reload promised it."""
    http = TWO % (pair(certificates.own("one")), "ssl_early_data on;", pair(certificates.own("one")),
                  "ssl_early_data %s;")
    server = serve(http % "on")
    server.write("request", EARLY)
    base = ["openssl", "s_client", "-connect", "127.0.0.1:%d" % server.port, "-servername", "other",
            "-tls1_3", "-ign_eof"]
    subprocess.run(base + ["-sess_out", server.path("session")], input=EARLY, timeout=20, check=True,
                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    server.configure(http % "off")
    server.reload()
    server.wait_log("exited with code 0")
    told = subprocess.run(base + ["-sess_in", server.path("session"), "-early_data",
                                  server.path("request")], input=EARLY, timeout=20, check=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE).stdout
    assert b"Reused" in told and b"Early data was rejected" in told
    assert b"other " in told and b"other 1" not in told


@pytest.mark.parametrize("first, other, asked, expected", [
    ("", "ssl_ciphers ECDHE-ECDSA-AES128-GCM-SHA256;", "other", "ECDHE-ECDSA-AES128-GCM-SHA256"),
    ("ssl_ciphers ECDHE-ECDSA-AES128-GCM-SHA256;", "ssl_ciphers ECDHE-ECDSA-AES256-GCM-SHA384;",
     "other", "ECDHE-ECDSA-AES256-GCM-SHA384"),
    ("ssl_ciphers ECDHE-ECDSA-AES128-GCM-SHA256;", "ssl_ciphers ECDHE-ECDSA-AES256-GCM-SHA384;",
     "default", "ECDHE-ECDSA-AES128-GCM-SHA256"),
])
def test_ciphers_are_the_server_s(serve, first, other, asked, expected):
    server = two(serve, first, other)
    with connect(server.port, asked, version=TLS12) as secure:
        assert secure.cipher()[0] == expected


@portunus_only
@pytest.mark.parametrize("first, other, spoken", [
    ("http2 on;", "", ["h2", "http/1.1"]), ("", "http2 on;", ["http/1.1", "h2"]),
])
def test_protocols_are_the_server_s(serve, first, other, spoken):
    server = two(serve, first, other)
    for name, expected in zip(("default", "other"), spoken):
        with connect(server.port, name, alpn=["h2", "http/1.1"]) as secure:
            assert secure.selected_alpn_protocol() == expected


@portunus_only
def test_http2_is_off_on_another_server_s_connection(serve):
    """421: the client comes again on a connection of that server's own (RFC 9113, 9.1.2)."""
    server = two(serve, "http2 on;", "http2 off;")
    with connect(server.port, "default", alpn=["h2"]) as secure, H2(0, sock=secure) as client:
        assert client.get(authority="default", scheme="https").body == b"default"
        assert client.get(authority="other", scheme="https").status == 421
        assert client.get(authority="default", scheme="https").body == b"default"
        assert client.get(authority="other", scheme="https").status == 421
    server.wait_log("client sent a request to a server where HTTP/2 is off")


@portunus_only
def test_http2_of_the_address_is_on_everywhere(serve):
    server = serve("server { listen @PORT@ http2; server_name a; return 200 a; } "
                   "server { listen @PORT@; server_name b; return 200 b; }")
    with H2(server.port) as client:
        assert client.get(authority="b").body == b"b"


def test_staples_are_the_server_s(serve):
    made = certificates.signed("stapled", "staple-ca")
    server = two(serve, "", "ssl_stapling on; ssl_stapling_file @DIR@/a.der;", certificate=made,
                 **{"a.der": certificates.staple(certificates.own("staple-ca"), made)})
    assert b"OCSP Response Status: successful" in staple_of(server.port, "-servername", "other")
    assert b"OCSP response: no response sent" in staple_of(server.port, "-servername", "default")


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    made = Authority(tmp_path_factory.mktemp("root"))
    made.issue("someone")
    return made


@pytest.mark.parametrize("version", [TLS12, TLS13])
def test_clients_are_verified_by_the_server_s_list(serve, root, version):
    """Revoked by one server, good at the other: no session of the one is any at the other."""
    root.revocation_list("someone")
    verify = "ssl_verify_client on; ssl_client_certificate @DIR@/ca; "
    server = two(serve, verify + "ssl_session_cache shared:A:1m;", verify + "ssl_crl @DIR@/crl;",
                 ca=root.read("root.crt"), crl=root.read("root.crl"))
    made = context(version=version)
    made.load_cert_chain(root.path("someone.crt"), root.path("someone.key"))
    with connect(server.port, "default", made=made) as secure:
        assert exchange(secure, host="default")[0] == 200
        session = secure.session
    with connect(server.port, "other", made=made, session=session) as secure:
        assert exchange(secure, host="other")[0] == 400
        assert not secure.session_reused


@portunus_only
@pytest.mark.parametrize("version", [TLS12, TLS13])
@pytest.mark.parametrize("what", ["", "ssl_session_tickets off;"])
def test_a_new_revocation_list_counts_for_old_sessions(serve, root, version, what):
    """Its file has the same name, the client a ticket from before the reload."""
    root.revocation_list()
    cache = "ssl_session_cache shared:A:1m; " + what
    server = two(serve, cache, cache + "ssl_verify_client on; ssl_crl @DIR@/crl; "
                 "ssl_client_certificate @DIR@/ca;", ca=root.read("root.crt"), crl=root.read("root.crl"))
    made = context(version=version)
    made.load_cert_chain(root.path("someone.crt"), root.path("someone.key"))

    def ask_again(session):
        with connect(server.port, "other", made=made, session=session) as secure:
            return exchange(secure, host="other")[0], secure.session_reused, secure.session
    status, _, session = ask_again(None)
    assert status == 200
    status, is_resumed, session = ask_again(session)
    assert status == 200 and is_resumed
    root.revocation_list("someone")
    server.write("crl", root.read("root.crl"), mtime=None)
    server.reload()
    server.wait_log("exited with code 0")
    assert ask_again(session)[:2] == (400, False)
    server.wait_log("certificate revoked")


@portunus_only
def test_an_authority_of_two_places_is_told_once(serve, root):
    """A file that has it twice, and another authority in between."""
    ca, other = root.read("root.crt"), certificates.own("ca").pem
    server = two(serve, "ssl_verify_client optional; ssl_client_certificate @DIR@/ca;", "",
                 ca=ca + other + ca)
    told = certificates.openssl("s_client", "-connect", "127.0.0.1:%d" % server.port).decode()
    names = re.search(r"Acceptable client certificate CA names\n(.*?)\nRequested", told, re.S).group(1)
    assert names.split("\n") == ["CN = root", "CN = ca"]


@pytest.mark.parametrize("named, status", [("large", 200), ("small", 400), (None, 400)])
def test_the_limits_of_a_head_are_those_of_the_server_that_the_handshake_names(serve, named, status):
    """They were the default server's: a client that had named the other one was refused its large head."""
    server = serve(pair(certificates.own("one")) + """
        server { listen 127.0.0.1:@PORT@ ssl; server_name small; large_client_header_buffers 2 1k; return 200; }
        server { listen 127.0.0.1:@PORT@ ssl; server_name large; large_client_header_buffers 2 32k; underscores_in_headers on;
                 return 200 $http_a_b; }""")
    with connect(server.port, named) as secure:
        secure.sendall(b"GET / HTTP/1.1\r\nX: " + b"x" * 20000 + b"\r\nHost: large\r\na_b: kept\r\nConnection: close\r\n\r\n")
        answer = b""
        while piece := secure.recv(4096):
            answer += piece
    assert answer.startswith(b"HTTP/1.1 %d " % status)
    assert answer.endswith(b"kept") == (status == 200)


@portunus_only
def test_http2_has_the_settings_of_the_server_that_the_handshake_names(serve):
    server = serve(pair(certificates.own("one")) + """ http2 on;
        server { listen 127.0.0.1:@PORT@ ssl; server_name small; large_client_header_buffers 2 1k; http2_max_concurrent_streams 3; return 200; }
        server { listen 127.0.0.1:@PORT@ ssl; server_name large; large_client_header_buffers 2 32k; http2_max_concurrent_streams 7; return 200 large; }""")
    for name, streams, takes_large in (("small", 3, False), ("large", 7, True)):
        with connect(server.port, name, alpn=["h2"]) as secure:
            frame = b""
            while len(frame) < 9 or len(frame) < 9 + int.from_bytes(frame[:3], "big"):
                frame += secure.recv(4096)
        told = frame[9:9 + int.from_bytes(frame[:3], "big")]
        settings = dict(struct.iter_unpack(">HI", told))
        assert settings[3] == streams and (settings[6] > 20000) == takes_large
