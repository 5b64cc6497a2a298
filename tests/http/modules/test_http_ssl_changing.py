"""TLS that changes while it is in use: watched files, kept certificates, reloads, sessions over them."""

import os
import re
import socket
import ssl
import subprocess

import pytest

import certificates
from harness import Server, binaries, until
from tls_client import ask, common_name, connect, context, exchange, pair

portunus_only = pytest.mark.skipif(binaries.is_nginx_before(binaries.under_test(), 1, 30),
                                   reason="the reference is older")
WATCHED = "server { listen @PORT@ ssl; ssl_certificate @DIR@/w.crt; ssl_certificate_key " \
    "@DIR@/w.key; ssl_certificate_watch on; %s return 200; }"


def put(server, name, text):
    """In one step, as who renews certificates does."""
    os.replace(server.write(name + ".new", text, mtime=None), server.path(name))


# ---- ssl_certificate_watch


@portunus_only
@pytest.mark.parametrize("how", ["renamed", "in place"])
def test_watched_files(serve, how):
    old, new = certificates.own("before"), certificates.own("after")
    server = serve(WATCHED % "", files={"w.crt": old.pem, "w.key": old.key_pem},
                   main="worker_processes 2;")
    change = put if how == "renamed" else lambda *args: server.write(*args[1:], mtime=None)
    assert common_name(server.port) == "before"
    change(server, "w.crt", new.pem)
    change(server, "w.key", new.key_pem)
    until(lambda: all(common_name(server.port) == "after" for _ in range(6)), "the new one")
    assert ask(server.port)[0] == 200


BROKEN = [
    ("w.crt", "nonsense", r"cannot load certificate \".*w.crt\": PEM_read_bio_X509_AUX\(\) failed"),
    ("w.key", "nonsense", r"cannot load certificate key \".*w.key\": PEM_read_bio_PrivateKey"),
    ("w.key", "other", r"SSL_CTX_use_PrivateKey\(\".*w.key\"\) failed \(SSL: .*key values mismatch"),
    ("w.crt", "rsa", r"SSL_CTX_use_PrivateKey\(\".*w.key\"\) failed \(SSL: .*key type mismatch"),
    ("w.crt", "", r"cannot load certificate \".*w.crt\""),
    ("ca.crt", "nonsense", r"cannot load CA certificates \".*ca.crt\""),
    ("tickets", "short", r"\".*tickets\" must be 48 or 80 bytes"),
]


@pytest.fixture(scope="module")
def broken():
    """A server for each of BROKEN, with files of its own in a folder of its own, of which one does not load any more."""
    old = certificates.own("before")
    blocks, files = [], {}
    for number, _ in enumerate(BROKEN):
        folder = "c%d/" % number
        more = "ssl_client_certificate @DIR@/ca.crt; ssl_verify_client optional; ssl_session_ticket_key @DIR@/tickets;"
        blocks.append((WATCHED % more).replace("@DIR@/", "@DIR@/" + folder)
                      .replace("@PORT@", "@PORT%s@" % (number or "")))
        files.update({folder + "w.crt": old.pem, folder + "w.key": old.key_pem, folder + "tickets": bytes(80),
                      folder + "ca.crt": certificates.own("ca").pem})
    with Server("\n".join(blocks), files=files) as server:
        for number, (name, text, _) in enumerate(BROKEN):
            text = {"other": certificates.own("other").key_pem,
                    "rsa": certificates.own("before", "rsa").pem}.get(text, text)
            put(server, "c%d/%s" % (number, name), text)
        yield server


def of_case(server, number):
    """Its port, and the files of its folder as a pattern of the log shows them."""
    return server.port_of("PORT%s" % (number or "")), "/c%d/" % number


@portunus_only
@pytest.mark.parametrize("number", range(len(BROKEN)), ids=["%s-%s" % case[:2] for case in BROKEN])
def test_what_does_not_load_leaves_the_old_in_use(broken, number):
    port, folder = of_case(broken, number)
    message = BROKEN[number][2].replace('\\".*', '\\".*' + folder)
    broken.wait_log(r"\[error\] .*%s.*, the previous certificates are kept" % message)
    assert common_name(port) == "before"


@pytest.fixture(scope="module")
def mended(broken):
    """The same, when what was broken was told of and then mended."""
    new = certificates.own("after")
    for number, _ in enumerate(BROKEN):
        folder = of_case(broken, number)[1]
        broken.wait_log(r"%s.*, the previous certificates are kept" % folder)
    for number, _ in enumerate(BROKEN):
        folder = "c%d/" % number
        put(broken, folder + "w.crt", new.pem)
        put(broken, folder + "w.key", new.key_pem)
        put(broken, folder + "ca.crt", certificates.own("ca").pem)
        put(broken, folder + "tickets", bytes(48))
    return broken


@portunus_only
@pytest.mark.parametrize("number", range(len(BROKEN)), ids=["%s-%s" % case[:2] for case in BROKEN])
def test_what_is_mended_is_taken_up(mended, number):
    port, _ = of_case(mended, number)
    until(lambda: common_name(port) == "after", "the new one")


@portunus_only
def test_a_file_that_is_gone_for_a_while(serve):
    old, new = certificates.own("before"), certificates.own("after")
    server = serve(WATCHED % "", files={"w.crt": old.pem, "w.key": old.key_pem})
    os.unlink(server.path("w.crt"))
    put(server, "w.key", new.key_pem)
    server.wait_log("the previous certificates are kept")
    assert common_name(server.port) == "before"
    put(server, "w.crt", new.pem)
    until(lambda: common_name(server.port) == "after", "the new one")


@portunus_only
def test_several_kinds_are_watched(serve):
    rsa, old, new = certificates.own("r", "rsa"), certificates.own("e"), certificates.own("e2")
    server = serve(WATCHED % "ssl_certificate @DIR@/r.crt; ssl_certificate_key @DIR@/r.key; "
                   "ssl_protocols TLSv1.2;",
                   files={"w.crt": old.pem, "w.key": old.key_pem, "r.crt": rsa.pem,
                          "r.key": rsa.key_pem})
    made = {}
    for kind in ("aRSA", "aECDSA"):
        made[kind] = context()
        made[kind].set_ciphers(kind)
    put(server, "w.crt", new.pem)
    put(server, "w.key", new.key_pem)
    until(lambda: common_name(server.port, made=made["aECDSA"]) == "e2", "the new one")
    assert common_name(server.port, made=made["aRSA"]) == "r"


@portunus_only
def test_revocation_lists_are_watched(serve, tmp_path):
    from harness.certificates import Authority
    root = Authority(tmp_path)
    root.issue("someone")
    root.revocation_list()
    one = certificates.own("before")
    server = serve(WATCHED % "ssl_client_certificate @DIR@/ca.crt; ssl_crl @DIR@/crl; "
                   "ssl_verify_client on;",
                   files={"w.crt": one.pem, "w.key": one.key_pem, "ca.crt": root.read("root.crt"),
                          "crl": root.read("root.crl")})

    def status():
        made = context()
        made.load_cert_chain(root.path("someone.crt"), root.path("someone.key"))
        return ask(server.port, made=made)[0]
    assert status() == 200
    root.revocation_list("someone")
    put(server, "crl", root.read("root.crl"))
    until(lambda: status() == 400, "the new list")
    server.wait_log("certificate revoked")


# ---- certificates with variables


@portunus_only
@pytest.mark.parametrize("cache, kept", [
    ("off", False), ("max=10 valid=1h", True), ("max=10 valid=0", False)])
def test_certificates_that_are_kept(serve, cache, kept):
    old, new = certificates.own("before"), certificates.own("after")
    server = serve("server { listen @PORT@ ssl; ssl_certificate @DIR@/$ssl_server_name.crt; "
                   "ssl_certificate_key @DIR@/$ssl_server_name.key; ssl_certificate_cache %s; "
                   "return 200; }" % cache, files={"x.crt": old.pem, "x.key": old.key_pem})
    assert common_name(server.port, "x") == "before"
    for name, text in (("x.crt", new.pem), ("x.key", new.key_pem)):
        put(server, name, text)
    if kept:
        assert common_name(server.port, "x") == "before"
    else:
        until(lambda: common_name(server.port, "x") == "after", "the new one")


@portunus_only
@pytest.mark.parametrize("kind", ["ec", "rsa"])
def test_what_is_kept_gives_way_to_what_fits(serve, kind):
    """One of the two was looked at before it was renewed, the other after that."""
    old, new = certificates.own("before"), certificates.own("after", kind)
    server = serve("server { listen @PORT@ ssl; ssl_certificate @DIR@/$ssl_server_name.crt; "
                   "ssl_certificate_key @DIR@/x.key; ssl_certificate_cache max=10 valid=1h; "
                   "return 200; }", files={"x.crt": old.pem, "x.key": old.key_pem},
                   main="worker_processes 1;")
    assert common_name(server.port, "x") == "before"
    server.write("y.crt", new.pem)
    put(server, "x.key", new.key_pem)
    assert common_name(server.port, "y") == "after"


# What a handshake knows, and what is made of that: a client of 127.0.0.1 names a.test.
KNOWN_IN_A_HANDSHAKE = {
    "ssl_server_name": "a.test", "server_name": "*.test", "hostname": socket.gethostname().lower(),
    "remote_addr": "127.0.0.1", "server_addr": "127.0.0.1", "realip_remote_addr": "127.0.0.1",
    "scheme": "https", "https": "on", "status": "000", "connection_requests": "0",
    "by_name": "mapped", "by_map": "nested", "by_client": "near",
    "by_server": "near", "by_part": "all", "by_bytes": "four", "request_method": "",
}


@pytest.mark.parametrize("name", KNOWN_IN_A_HANDSHAKE)
def test_variables_of_a_handshake(serve, name):
    """A file in the server's root is named after each."""
    own = certificates.own("wanted")
    server = serve("""
        map $ssl_server_name $by_name { default none; a.test mapped; }
        map $by_name $by_map { default none; mapped nested; }
        map $binary_remote_addr $by_bytes { default none; "~^.{4}$" four; }
        geo $by_client { default far; proxy 127.0.0.1; 127.0.0.0/8 near; }
        geo $server_addr $by_server { default far; 127.0.0.0/8 near; }
        split_clients $binary_remote_addr $by_part { 100%% all; }
        server { listen @PORT@ ssl; server_name *.test; root @DIR@; return 200;
                 ssl_certificate $document_root/c-$%s.crt;
                 ssl_certificate_key $document_root/c-$%s.key; }
    """ % (name, name), files={"c-%s.%s" % (KNOWN_IN_A_HANDSHAKE[name], kind): text for kind, text
                               in (("crt", own.pem), ("key", own.key_pem))})
    assert common_name(server.port, "a.test") == "wanted"


def test_names_lead_nowhere_else(serve):
    """A name of SNI is a host's: it holds no slash, however it was sent."""
    made = certificates.own("one")
    server = serve("server { listen @PORT@ ssl; ssl_certificate @DIR@/in/$ssl_server_name.crt; "
                   "ssl_certificate_key @DIR@/in/$ssl_server_name.crt; return 200; }",
                   files={"in/x": "", "one.crt": made.pem + made.key_pem})
    told = subprocess.run(["openssl", "s_client", "-connect", "127.0.0.1:%d" % server.port,
                           "-servername", "../one"], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=20, check=False)
    if binaries.is_nginx_before(binaries.under_test(), 1, 30):
        pytest.skip("the reference lets it")
    assert b"BEGIN CERTIFICATE" not in told.stdout
    server.wait_log("SSL_do_handshake|handshake rejected")


# ---- reloads


@portunus_only
@pytest.mark.parametrize("setting, name", [
    ("", "aaaaaa"), ("ssl_object_cache_inheritable on;", "aaaaaa"),
    ("ssl_object_cache_inheritable off;", "bbbbbb")])
def test_objects_over_a_reload(serve, setting, name):
    """The file looks the same: it is read again only where this is wanted."""
    old, new = certificates.own("aaaaaa"), certificates.own("bbbbbb")
    texts = [one.pem + one.key_pem for one in (old, new)]
    size = max(map(len, texts))
    texts = [text + "\n" * (size - len(text)) for text in texts]
    http = "server { listen @PORT@ ssl; ssl_certificate one; ssl_certificate_key one; return 200; }"
    server = serve(http, main=setting, files={"one": texts[0]})
    assert common_name(server.port) == "aaaaaa"
    server.write("one", texts[1])  # the same place, size and time
    server.reload()
    server.wait_log("exited with code 0")
    assert common_name(server.port) == name
    server.write("one", texts[1], mtime=1600000000)
    server.reload()
    until(lambda: common_name(server.port) == "bbbbbb", "the new one")


def session_of(server, version, made=None):
    made = made or context(version=version)
    with connect(server.port, made=made) as secure:
        exchange(secure)
        return made, secure.session


def is_resumed(server, made, session):
    with connect(server.port, made=made, session=session) as secure:
        return exchange(secure)[1] == "r"


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize("cache, is_kept", [("shared:S:1m", True), ("builtin", False)])
def test_sessions_over_a_reload(serve, version, cache, is_kept):
    server = serve("server { listen @PORT@ ssl; %s ssl_protocols TLSv1.2 TLSv1.3; "
                   "ssl_session_tickets off; ssl_session_cache %s; return 200 $ssl_session_reused; }"
                   % (pair(certificates.own("one")), cache))
    made, session = session_of(server, version)
    assert is_resumed(server, made, session)
    made, session = session_of(server, version)
    server.reload()
    server.wait_log("exited with code 0")
    assert is_resumed(server, made, session) == is_kept


def test_sessions_are_not_those_of_another_certificate(serve):
    """After a reload with another one the shared cache is no way around it."""
    http = "server { listen @PORT@ ssl; %s ssl_session_cache shared:S:1m; ssl_session_tickets off; " \
        "return 200 $ssl_session_reused; }"
    server = serve(http % pair(certificates.own("one")))
    made, session = session_of(server, ssl.TLSVersion.TLSv1_2)
    server.configure(http % pair(certificates.own("two")))
    server.reload()
    server.wait_log("exited with code 0")
    assert not is_resumed(server, made, session)


def test_a_cache_that_is_full(serve):
    """The oldest sessions give way."""
    server = serve("server { listen @PORT@ ssl; %s ssl_protocols TLSv1.2; ssl_session_tickets off; "
                   "ssl_session_cache shared:S:32k; return 200 $ssl_session_reused; }"
                   % pair(certificates.own("one")))
    version = ssl.TLSVersion.TLSv1_2
    made, first = session_of(server, version)
    assert is_resumed(server, made, first)
    for _ in range(300):
        connect(server.port, made=made).close()
    made, last = session_of(server, version, made)
    assert is_resumed(server, made, last)
    assert not is_resumed(server, made, first)
    assert "[crit]" not in server.error_log


@pytest.mark.parametrize("time, hint", [("7m", 420), ("1h", 3600)])
def test_lifetime_of_sessions(serve, time, hint):
    server = serve("server { listen @PORT@ ssl; %s ssl_session_timeout %s; return 200; }"
                   % (pair(certificates.own("one")), time))
    told = certificates.openssl("s_client", "-connect", "127.0.0.1:%d" % server.port, "-tls1_2")
    assert b"session ticket lifetime hint: %d (seconds)" % hint in told


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_lifetime_of_zero(serve, version):
    """Times are divided by the period of the ticket keys, which is a second then; a worker that divides by zero dies in the handshake."""
    server = serve("server { listen @PORT@ ssl; %s ssl_session_timeout 0; return 200 here; }" % pair(certificates.own("one")))
    assert ask(server.port, version=version)[:2] == (200, "here")


def test_no_ticket_is_sent_without_tickets(serve):
    server = serve("server { listen @PORT@ ssl; %s ssl_session_tickets off; return 200; }"
                   % pair(certificates.own("one")))
    told = certificates.openssl("s_client", "-connect", "127.0.0.1:%d" % server.port, "-tls1_2")
    assert not re.search(rb"ticket lifetime hint|TLS session ticket:", told)


# ---- logs of secrets


@portunus_only
@pytest.mark.parametrize("version, labels", [
    (ssl.TLSVersion.TLSv1_2, {"CLIENT_RANDOM"}),
    (ssl.TLSVersion.TLSv1_3, {"CLIENT_HANDSHAKE_TRAFFIC_SECRET", "SERVER_HANDSHAKE_TRAFFIC_SECRET",
                              "CLIENT_TRAFFIC_SECRET_0", "SERVER_TRAFFIC_SECRET_0",
                              "EXPORTER_SECRET"})])
def test_key_log(serve, tmp_path, version, labels):
    """The same lines as the client's."""
    server = serve("ssl_key_log @DIR@/logs/keys; server { listen @PORT@ ssl; %s return 200; }"
                   % pair(certificates.own("one")))
    made = context(version=version)
    made.keylog_filename = str(tmp_path / "keys")
    assert ask(server.port, made=made)[0] == 200
    own = server.wait_lines("logs/keys", len(labels))
    theirs = [line for line in (tmp_path / "keys").read_text().splitlines()
              if not line.startswith("#")]
    assert {line.split(" ")[0] for line in own} == labels
    assert sorted(own) == sorted(theirs)
    assert os.stat(server.path("logs/keys")).st_mode & 0o777 == 0o600


@portunus_only
def test_key_log_is_the_server_s_own_and_reopened(serve):
    server = serve("""
        server { listen @PORT@ ssl; server_name a; %s ssl_key_log @DIR@/logs/a; return 200; }
        server { listen @PORT@ ssl; server_name b; %s ssl_key_log @DIR@/logs/b; return 200; }
        server { listen @PORT@ ssl; server_name c; %s return 200; }
    """ % ((pair(certificates.own("one")),) * 3), main="worker_processes 2;")
    for name in "abc":
        assert ask(server.port, name=name, host=name)[0] == 200
    assert len(server.wait_lines("logs/a", 5)) == len(server.wait_lines("logs/b", 5)) == 5
    os.rename(server.path("logs/a"), server.path("logs/a.old"))
    server.signal("reopen")
    until(lambda: os.path.exists(server.path("logs/a")), "the new log")

    def is_in_the_new():
        ask(server.port, name="a", host="a")
        return len(server.lines("logs/a")) >= 5
    until(is_in_the_new, "lines in the new log")
    assert os.stat(server.path("logs/a")).st_mode & 0o777 == 0o600


@portunus_only
def test_key_log_towards_backends(serve):
    server = serve("""
        server { listen @PORT1@ ssl; %s ssl_key_log @DIR@/logs/server; return 200 fine; }
        server { listen @PORT@; proxy_ssl_session_reuse off;
                 location /with { proxy_pass https://127.0.0.1:@PORT1@; proxy_ssl_key_log @DIR@/logs/client; }
                 location /without { proxy_pass https://127.0.0.1:@PORT1@; } }
    """ % pair(certificates.own("one")))
    assert server.get("/without").text == server.get("/with").text == "fine"
    ours = server.wait_lines("logs/client", 5)
    both = server.wait_lines("logs/server", 10)
    assert len(ours) == 5 and len(both) == 10
    assert set(ours) < set(both)
