"""TLS: certificates, versions, ciphers, SNI, ALPN, sessions, tickets, clients' certificates, error codes."""

import functools
import os
import re
import socket
import ssl
import subprocess

import pytest

import certificates
from harness import binaries, run_binary, until
from tls_client import ask, common_name, connect, context, exchange, pair, staple_of

portunus_only = pytest.mark.skipif(binaries.is_nginx_before(binaries.under_test(), 1, 30),
                                   reason="the reference is older")


# ---- certificates


def test_one_certificate(serve):
    server = serve("server { listen @PORT@ ssl; %s return 200 \"$scheme $https $server_protocol\"; }"
                   % pair(certificates.own("one")))
    assert ask(server.port)[:2] == (200, "https on HTTP/1.1")
    assert common_name(server.port) == "one"


def test_rsa_and_ecdsa_side_by_side(serve):
    server = serve("server { listen @PORT@ ssl; %s %s ssl_protocols TLSv1.2; return 200; }" % (
        pair(certificates.own("rsa", "rsa")), pair(certificates.own("ecdsa"))))
    rsa, ecdsa = context(), context()
    rsa.set_ciphers("aRSA")
    ecdsa.set_ciphers("aECDSA")
    assert common_name(server.port, made=rsa) == "rsa"
    assert common_name(server.port, made=ecdsa) == "ecdsa"


@portunus_only
def test_certificate_in_the_configuration(serve):
    made = certificates.own("data")
    server = serve("server { listen @PORT@ ssl; ssl_certificate \"data:%s\"; "
                   "ssl_certificate_key \"data:%s\"; return 200; }" % (made.pem, made.key_pem))
    assert common_name(server.port) == "data"


def test_certificates_by_variable(serve):
    made = {name: certificates.own(name) for name in ("va", "vb")}
    server = serve("""
        server { listen @PORT@ ssl; ssl_certificate @DIR@/$ssl_server_name.crt;
                 ssl_certificate_key @DIR@/$ssl_server_name.key; return 200 $ssl_server_name; }
    """, files={"%s.%s" % (name, kind): text for name, one in made.items()
                for kind, text in (("crt", one.pem), ("key", one.key_pem))})
    assert common_name(server.port, "va") == "va"
    assert common_name(server.port, "vb") == "vb"
    with pytest.raises(ssl.SSLError):
        connect(server.port, "vc")
    server.wait_log(r"cannot load certificate \".*/vc.crt\": BIO_new_file\(\) failed")


@pytest.mark.parametrize("name, file", [("$mapped", "first"), ("$part", "va"),
                                        ("$remote_addr-$scheme", "127.0.0.1-https"),
                                        ("x$http_host$cookie_a", "x")])
def test_what_a_handshake_may_be_asked(serve, name, file):
    """There is no request yet: maps and groups of names hold, what a head would say is empty."""
    made = certificates.own("va.test")
    server = serve("""
        map $ssl_server_name $mapped { default other; ~^va first; }
        server { listen @PORT@ ssl; server_name ~^(?<part>.+)\\.test$;
                 ssl_certificate @DIR@/%s.crt; ssl_certificate_key @DIR@/one.key; return 200; }
    """ % name, files={"one.key": made.key_pem, "%s.crt" % file: made.pem})
    assert common_name(server.port, "va.test") == "va.test"


def test_pass_phrase_from_a_file(serve):
    made = certificates.own("locked")
    locked = certificates.openssl("ec", "-in", made.key, "-aes128", "-passout", "pass:secret")
    server = serve("server { listen @PORT@ ssl; ssl_certificate %s; ssl_certificate_key "
                   "@DIR@/locked.key; ssl_password_file @DIR@/words; return 200; }" % made.crt,
                   files={"locked.key": locked, "words": "wrong\nsecret\n"})
    assert common_name(server.port) == "locked"


def test_no_key_in_messages(tmp_path):
    (tmp_path / "nginx.conf").write_text(
        "error_log stderr; pid p; events {} http { server { listen 127.0.0.1:1 ssl; "
        "ssl_certificate %s; ssl_certificate_key \"data:verysecret\"; } }"
        % certificates.own("one").crt)
    (tmp_path / "logs").mkdir()
    result = run_binary("-t", "-p", str(tmp_path) + "/", "-c", "nginx.conf")
    assert result.returncode == 1
    if not binaries.is_nginx_before(binaries.under_test(), 1, 30):
        assert "verysecret" not in result.stderr


@portunus_only
def test_changed_certificate_is_taken_up_without_a_reload(serve):
    old, new = certificates.own("before"), certificates.own("after")
    server = serve("server { listen @PORT@ ssl; ssl_certificate @DIR@/w.crt; ssl_certificate_key "
                   "@DIR@/w.key; ssl_certificate_watch on; return 200; }",
                   files={"w.crt": old.pem, "w.key": old.key_pem})
    assert common_name(server.port) == "before"
    with connect(server.port) as kept:
        server.write("w.crt", new.pem, mtime=None)
        server.write("w.key", new.key_pem, mtime=None)
        until(lambda: common_name(server.port) == "after", "the new certificate")
        assert exchange(kept)[0] == 200
    server.write("w.crt", "nonsense", mtime=None)
    server.wait_log(r'\[error\].*cannot load certificate .*, the previous certificates are kept')
    assert common_name(server.port) == "after"


# ---- versions and ciphers


def test_versions(serve):
    server = serve("""
        server { listen @PORT@ ssl; %s return 200 $ssl_protocol; }
        server { listen @PORT1@ ssl; %s ssl_protocols TLSv1.2; return 200 $ssl_protocol; }
        server { listen @PORT2@ ssl; %s ssl_protocols TLSv1.3; return 200 $ssl_protocol; }
    """ % ((pair(certificates.own("one")),) * 3))
    two, three = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3
    assert ask(server.port, version=two)[1] == "TLSv1.2"
    assert ask(server.port, version=three)[1] == "TLSv1.3"
    assert ask(server.port_of("PORT1"))[1] == "TLSv1.2"
    with pytest.raises(ssl.SSLError):
        ask(server.port_of("PORT1"), version=three)
    with pytest.raises(ssl.SSLError):
        ask(server.port_of("PORT2"), version=two)


@portunus_only
def test_version_follows_the_name(serve):
    server = serve("""
        server { listen @PORT@ ssl; server_name d; %s return 200 $ssl_protocol; }
        server { listen @PORT@ ssl; server_name old; ssl_protocols TLSv1.2; %s return 200 $ssl_protocol; }
    """ % ((pair(certificates.own("one")),) * 2))
    assert ask(server.port, name="d", host="d")[1] == "TLSv1.3"
    assert ask(server.port, name="old", host="old")[1] == "TLSv1.2"


def test_ciphers_and_preference(serve):
    server = serve("""
        ssl_protocols TLSv1.2; ssl_prefer_server_ciphers on;
        ssl_ciphers ECDHE-ECDSA-AES256-GCM-SHA384:ECDHE-ECDSA-AES128-GCM-SHA256;
        server { listen @PORT@ ssl; %s return 200 $ssl_cipher; }
    """ % pair(certificates.own("one")))
    made = context()
    made.set_ciphers("ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-ECDSA-AES256-GCM-SHA384")
    assert ask(server.port, made=made)[1] == "ECDHE-ECDSA-AES256-GCM-SHA384"
    made.set_ciphers("ECDHE-ECDSA-CHACHA20-POLY1305")
    with pytest.raises(ssl.SSLError):
        ask(server.port, made=made)
    server.wait_log(r"\[info\].*SSL_do_handshake\(\) failed \(SSL: error:.*no shared cipher\) "
                    r"while SSL handshaking, client: 127.0.0.1, server: ")


def test_renegotiation_is_refused(serve):
    server = serve("server { listen @PORT@ ssl; %s ssl_protocols TLSv1.2; return 200 still; }"
                   % pair(certificates.own("one")))
    result = subprocess.run(
        ["openssl", "s_client", "-connect", "127.0.0.1:%d" % server.port, "-tls1_2"],
        input=b"R\n", stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=20, check=False)
    assert b"RENEGOTIATING" in result.stdout
    assert b"no renegotiation" in result.stdout or b"closed" in result.stdout \
        or b"alert" in result.stdout
    assert ask(server.port)[1] == "still"


def test_variables(serve):
    server = serve("""
        server { listen @PORT@ ssl; server_name v; %s ssl_protocols TLSv1.3;
            return 200 "$ssl_protocol|$ssl_cipher|$ssl_curve|$ssl_server_name|$ssl_alpn_protocol|$ssl_session_reused|$ssl_client_verify|$ssl_ciphers|$ssl_curves|$ssl_early_data"; }
    """ % pair(certificates.own("one")))
    values = ask(server.port, name="v", host="v", alpn=["http/1.1"])[1].split("|")
    assert values[0] == "TLSv1.3"
    assert values[1] in ("TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256",
                         "TLS_AES_128_GCM_SHA256")
    assert values[3:7] == ["v", "http/1.1", ".", "NONE"]
    assert "TLS_AES_256_GCM_SHA384" in values[7].split(":")
    assert len(values[8].split(":")) > 1
    assert values[9] == ""


# ---- names and protocols


def test_server_by_name(serve):
    server = serve("""
        server { listen @PORT@ ssl; server_name a; %s return 200 $server_name; }
        server { listen @PORT@ ssl; server_name b *.b; %s return 200 $server_name; }
        server { listen @PORT@ ssl; server_name ~^r\\d+$; %s return 200 r; }
    """ % (pair(certificates.own("a")), pair(certificates.own("b")), pair(certificates.own("r"))))
    assert common_name(server.port) == "a"
    assert common_name(server.port, "b") == "b"
    assert common_name(server.port, "B") == "b"
    assert common_name(server.port, "x.b") == "b"
    assert common_name(server.port, "r7") == "r"
    assert common_name(server.port, "unknown") == "a"
    assert ask(server.port, name="a", host="b")[1] == "b"


def test_rejected_handshakes(serve):
    server = serve("""
        server { listen @PORT@ ssl default_server; ssl_reject_handshake on; }
        server { listen @PORT@ ssl; server_name good; %s return 200 good; }
    """ % pair(certificates.own("good")))
    assert ask(server.port, name="good", host="good")[1] == "good"
    with pytest.raises(ssl.SSLError, match="(?i)unrecognized"):
        ask(server.port, name="other")
    with pytest.raises(ssl.SSLError, match="(?i)unrecognized"):
        ask(server.port)


def test_alpn(serve):
    server = serve("server { listen @PORT@ ssl; %s return 200 \"[$ssl_alpn_protocol]\"; }"
                   % pair(certificates.own("one")))
    assert ask(server.port)[1] == "[]"
    assert ask(server.port, alpn=["h2", "http/1.1"])[1] == "[http/1.1]"
    with pytest.raises(ssl.SSLError):
        ask(server.port, alpn=["spdy/3"])


def test_error_page_of_497(serve):
    server = serve("server { listen @PORT@ ssl; %s error_page 497 =299 /page; "
                   "location /page { return 200 plain; } }" % pair(certificates.own("one")))
    answer = server.get()
    assert (answer.status, answer.text) == (299, "plain")
    server.wait_log(r"\[info\].*client sent plain HTTP request to HTTPS port")


def test_plain_request_gets_400(serve):
    server = serve("server { listen @PORT@ ssl; %s return 200; }" % pair(certificates.own("one")))
    answer = server.get()
    assert answer.status == 400
    assert "The plain HTTP request was sent to HTTPS port" in answer.text
    assert answer.closes


@portunus_only
def test_plain_request_is_sent_to_https(serve):
    server = serve("server { listen @PORT@ ssl https_allow_http; %s return 200; }"
                   % pair(certificates.own("one")))
    answer = server.get("/a?b=c", host="site")
    assert answer.status == 301
    assert answer.header("Location") == "https://site:%d/a?b=c" % server.port
    assert ask(server.port)[0] == 200


def test_redirects_say_https(serve):
    server = serve("server { listen @PORT@ ssl; %s location /a/ { root html; } "
                   "location /r { return 301 /x; } }" % pair(certificates.own("one")),
                   files={"html/d/f": "x"})
    head = ask(server.port, "/r", host="site")[2]
    assert "Location: https://site:%d/x" % server.port in head


def test_proxy_protocol_before_tls(serve):
    server = serve("server { listen @PORT@ ssl proxy_protocol; %s "
                   "return 200 \"$proxy_protocol_addr $ssl_protocol\"; }"
                   % pair(certificates.own("one")))
    raw = socket.create_connection(("127.0.0.1", server.port), timeout=10)
    raw.sendall(b"PROXY TCP4 192.0.2.7 192.0.2.8 1 2\r\n")
    with context().wrap_socket(raw) as secure:
        assert exchange(secure)[1] == "192.0.2.7 TLSv1.3"


# ---- sessions


def resumed(port, version, times=1):
    """Connects, and again with the session; gives what $ssl_session_reused says then."""
    made = context(version=version)
    with connect(port, made=made) as secure:
        exchange(secure)
        session = secure.session
    with connect(port, made=made, session=session) as secure:
        return exchange(secure)[1]


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize("text, expected", [
    ("", "r"),
    ("ssl_session_tickets off;", "."),
    ("ssl_session_tickets off; ssl_session_cache shared:S:1m;", "r"),
    ("ssl_session_cache shared:S:1m;", "r"),
    ("ssl_session_tickets off; ssl_session_cache off;", "."),
    ("ssl_session_tickets off; ssl_session_cache none;", "."),
    ("ssl_session_tickets off; ssl_session_cache builtin;", "r"),
    ("ssl_session_tickets off; ssl_session_cache builtin:1000;", "r"),
    ("ssl_session_ticket_key @DIR@/k48;", "r"),
    pytest.param("ssl_session_ticket_key auto 24h;", "r", marks=portunus_only),
    ("ssl_session_ticket_key @DIR@/k80; ssl_session_ticket_key @DIR@/k48;", "r"),
])
def test_session_reuse(serve, version, text, expected):
    server = serve("server { listen @PORT@ ssl; %s %s return 200 $ssl_session_reused; }"
                   % (pair(certificates.own("one")), text),
                   files={"k48": bytes(range(48)), "k80": bytes(range(80))})
    assert resumed(server.port, version) == expected


@portunus_only
@pytest.mark.parametrize("text, error", [
    ("ssl_session_ticket_key auto 10s;", 'invalid value "10s"'), ("ssl_session_ticket_key auto x;", 'invalid value "x"'),
    ("ssl_session_ticket_key k48 24h;", 'invalid value "24h"'),
    ("ssl_session_ticket_key k48; ssl_session_ticket_key auto;", '"auto" stands beside files'),
    ("ssl_session_ticket_key auto sync;", '"sync" needs a "redis_store"'),
    ("ssl_session_ticket_key auto sync 24h;", 'invalid value "24h"'),
    ("ssl_session_ticket_key auto sync_interval=1s;", '"sync_interval" needs "sync"'),
    ("ssl_session_cache shared:s:1m sync;", '"sync" needs a "redis_store"'),
    ("ssl_session_cache builtin sync;", '"sync" needs "shared:name:size"'),
    ("ssl_session_cache shared:s:1m sync_interval=1s;", '"sync_interval" needs "sync"'),
    ("ssl_session_cache shared:s:1m sync=strict;", 'invalid parameter "sync=strict"')])
def test_errors_of_ticket_keys(tmp_path, text, error):
    (tmp_path / "k48").write_bytes(bytes(range(48)))
    (tmp_path / "nginx.conf").write_text("events {} http { %s server { listen unix:x; } }" % text)
    result = run_binary("-t", "-p", str(tmp_path), "-c", "nginx.conf", "-e", "stderr")
    assert result.returncode == 1 and error in result.stderr


@portunus_only
def test_ticket_keys_in_a_store_without_a_password(tmp_path):
    (tmp_path / "nginx.conf").write_text("events {} redis_store main { server 127.0.0.1; } http { ssl_session_ticket_key auto sync; }")
    result = run_binary("-t", "-p", str(tmp_path), "-c", "nginx.conf", "-e", "stderr")
    assert result.returncode == 1 and '"sync" needs a "password_file" in redis_store "main"' in result.stderr


def test_tickets_are_good_at_every_worker_and_after_a_reload(serve):
    server = serve("server { listen @PORT@ ssl; %s return 200 $ssl_session_reused; }"
                   % pair(certificates.own("one")), main="worker_processes 3;")
    made = context(version=ssl.TLSVersion.TLSv1_2)
    with connect(server.port, made=made) as secure:
        exchange(secure)
        session = secure.session
    for _ in range(8):
        with connect(server.port, made=made, session=session) as secure:
            assert exchange(secure)[1] == "r"
    server.reload()
    if not binaries.is_nginx_before(binaries.under_test(), 1, 30):
        with connect(server.port, made=made, session=session) as secure:
            assert exchange(secure)[1] == "r"


STORE_USERS = "user edge on >secret ~portunus:* +@all", "user other on >secret2 ~portunus:* +@all"


def node_of_store(serve, text, store, user="edge", password="secret"):
    return serve(text, files={"password": password},
                 main="redis_store main { server 127.0.0.1:%d; timeout 5s; user %s; password_file password; }" % (store.port, user))


def visit(made, server, session=None):
    """Whether the session was resumed, and the one to resume next."""
    with connect(server.port, made=made, session=session) as secure:
        return exchange(secure)[1], secure.session


@portunus_only
@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_nodes_share_ticket_keys(serve, redis, version):
    """A session of one node is resumed by another, also when the first has started again; not by one with another password."""
    one = redis(*STORE_USERS)
    text = "server { listen @PORT@ ssl; %s ssl_session_ticket_key auto 24h sync sync_interval=20ms; return 200 $ssl_session_reused; }" \
        % pair(certificates.own("one"))
    key = "portunus:1:ssl_ticket_keys:{ssl_ticket_keys}"
    node = functools.partial(node_of_store, serve, text, one)
    at = functools.partial(visit, context(version=version))
    first = node()
    until(lambda: one.ask("HLEN", key) >= 2, "a key in the store")
    second, other = node(), node("other", "secret2")
    session = until(lambda: at(second, at(first)[1])[0] == "r" and at(second)[1], "the second node to have the key")
    assert at(first, session)[0] == "r"
    first.stop()
    first.start()
    until(lambda: at(first, session)[0] == "r", "the first node to have the key again")
    other.wait_log("was not written by a node with this password")
    assert at(other, session)[0] == "."
    assert all(ttl > 0 for ttl in one.ttls())
    one.stop()
    assert at(first, at(second)[1])[0] == "r"


@portunus_only
def test_nodes_share_sessions(serve, redis):
    """A session of TLS 1.2 without a ticket is resumed by another node, by one that starts later, and not by one with another password."""
    one = redis(*STORE_USERS)
    text = "server { listen @PORT@ ssl; %s ssl_session_tickets off; ssl_session_cache shared:s:1m sync sync_interval=10ms; return 200 $ssl_session_reused; }" \
        % pair(certificates.own("one"))
    key = "portunus:1:ssl_sessions:{s}"
    node = functools.partial(node_of_store, serve, text, one)
    at = functools.partial(visit, context(version=ssl.TLSVersion.TLSv1_2))
    first, second, other = node(), node(), node("other", "secret2")
    session = at(first)[1]
    until(lambda: at(second, session)[0] == "r", "the session at the second node")
    third = node()
    until(lambda: at(third, session)[0] == "r", "the session at a node that started later")
    other.wait_log("was not written by a node with this password")
    assert at(other, session)[0] == "."
    assert session.id.hex() in one.ask("HKEYS", key) and all(ttl > 0 for ttl in one.ttls())
    one.stop()
    own = at(first)[1]
    assert at(first, own)[0] == "r" and at(second, session)[0] == "r"


@portunus_only
def test_shared_sessions_that_make_room_leave_the_store(serve, redis):
    one = redis(*STORE_USERS)
    server = node_of_store(serve, "server { listen @PORT@ ssl; %s ssl_session_tickets off; ssl_session_cache shared:s:32k sync; return 200; }"
                           % pair(certificates.own("one")), one)
    made = context(version=ssl.TLSVersion.TLSv1_2)

    def begin():
        with connect(server.port, made=made):
            pass
        return one.ask("HLEN", "portunus:1:ssl_sessions:{s}")
    most = 0
    for _ in range(150):
        most = max(most, begin())
    assert 10 < most < 140


def test_old_ticket_key_decrypts(serve):
    text = "server { listen @PORT@ ssl; %s %%s return 200 $ssl_session_reused; }" \
        % pair(certificates.own("one"))
    first, second = "ssl_session_ticket_key @DIR@/a;", "ssl_session_ticket_key @DIR@/b;"
    server = serve(text % first, files={"a": bytes(range(80)), "b": bytes(range(100, 180))})
    made = context(version=ssl.TLSVersion.TLSv1_2)
    with connect(server.port, made=made) as secure:
        exchange(secure)
        session = secure.session
    server.configure(text % (second + first))
    server.reload()
    server.wait_log("exited with code 0")
    with connect(server.port, made=made, session=session) as secure:
        assert exchange(secure)[1] == "r"
    server.configure(text % second)
    server.reload()
    until(lambda: server.error_log.count("exited with code 0") >= 2, "the old worker's end")
    with connect(server.port, made=made, session=session) as secure:
        assert exchange(secure)[1] == "."


@portunus_only
def test_early_data(serve):
    server = serve("server { listen @PORT@ ssl; %s ssl_early_data on; "
                   "return 200 \"early=[$ssl_early_data]\"; }" % pair(certificates.own("one")))
    request = b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    server.write("request", request)
    base = ["openssl", "s_client", "-connect", "127.0.0.1:%d" % server.port, "-tls1_3",
            "-ign_eof"]
    subprocess.run(base + ["-sess_out", server.path("session")], input=request,
                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=20, check=True)
    result = subprocess.run(base + ["-sess_in", server.path("session"), "-early_data",
                                    server.path("request")], input=b"", stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, timeout=20, check=True)
    assert b"Early data was accepted" in result.stdout
    assert b"early=[1]" in result.stdout


# ---- clients' certificates


CLIENTS = """
    ssl_client_certificate %(ca)s;
    server { listen @PORT@ ssl; server_name on; %(pair)s ssl_verify_client on;
             return 200 "$ssl_client_verify $ssl_client_s_dn $ssl_client_i_dn"; }
    server { listen @PORT@ ssl; server_name optional; %(pair)s ssl_verify_client optional;
             return 200 "$ssl_client_verify"; }
    server { listen @PORT@ ssl; server_name any; %(pair)s ssl_verify_client optional_no_ca;
             return 200 "$ssl_client_verify $ssl_client_s_dn_legacy"; }
    server { listen @PORT@ ssl; server_name off; %(pair)s return 200 "off $ssl_client_verify"; }
"""


def clients(serve):
    return serve(CLIENTS % {"ca": certificates.own("ca").crt,
                            "pair": pair(certificates.own("one"))})


def ask_as(server, name, certificate=None, host=None):
    return ask(server.port, name=name, host=host or name, certificate=certificate)[:2]


def test_client_certificates(serve):
    server = clients(serve)
    good, foreign = certificates.signed("client", "ca"), certificates.own("foreign")
    assert ask_as(server, "on", good) == (200, "SUCCESS CN=client CN=ca")
    assert ask_as(server, "optional", good) == (200, "SUCCESS")
    assert ask_as(server, "optional") == (200, "NONE")
    assert ask_as(server, "any", foreign)[1].startswith("FAILED:self")
    assert ask_as(server, "any", foreign)[1].endswith("/CN=foreign")
    assert ask_as(server, "off", good) == (200, "off NONE")


def test_496_without_a_certificate(serve):
    server = clients(serve)
    status, body = ask_as(server, "on")
    assert status == 400 and "No required SSL certificate was sent" in body
    server.wait_log("client sent no required SSL certificate")


def test_495_with_a_bad_certificate(serve):
    server = clients(serve)
    for name in ("on", "optional"):
        status, body = ask_as(server, name, certificates.own("foreign"))
        assert status == 400 and "The SSL certificate error" in body
    server.wait_log(r"client SSL certificate verify error: \(\d+:self")


def test_421_where_the_other_server_wants_certificates(serve):
    server = clients(serve)
    assert ask_as(server, "off", host="on")[0] == 421
    assert ask_as(server, "optional", host="on")[0] == 421
    assert ask_as(server, "on", host="off")[0] == 200
    server.wait_log("client attempted to request the server name different from the one that was "
                    "negotiated")


def test_certificate_texts(serve):
    made = certificates.signed("client", "ca")
    server = serve("""
        server { listen @PORT@ ssl; %s ssl_verify_client on; ssl_client_certificate %s;
            location /raw { return 200 $ssl_client_raw_cert; }
            location /cert { return 200 $ssl_client_cert; }
            location /escaped { return 200 $ssl_client_escaped_cert; }
            location /print { return 200 $ssl_client_fingerprint; }
            location /serial { return 200 $ssl_client_serial; }
            location /remain { return 200 $ssl_client_v_remain; } }
    """ % (pair(certificates.own("one")), certificates.own("ca").crt))

    def get(target):
        return ask(server.port, target, certificate=made)[1]
    pem = certificates.openssl("x509", "-in", made.crt).decode()
    assert get("/raw") == pem
    assert get("/cert") == pem.rstrip("\n").replace("\n", "\n\t")
    assert get("/escaped").startswith("-----BEGIN%20CERTIFICATE-----%0A")
    shown = certificates.openssl("x509", "-in", made.crt, "-noout", "-fingerprint", "-sha1")
    assert get("/print") == shown.decode().strip().split("=")[1].replace(":", "").lower()
    shown = certificates.openssl("x509", "-in", made.crt, "-noout", "-serial").decode().strip()
    assert get("/serial") == shown.split("=")[1]
    assert get("/remain") in ("2", "3")


# ---- bytes


def test_large_answers_and_slow_readers(serve):
    body = os.urandom(512 * 1024)
    server = serve("server { listen @PORT@ ssl sndbuf=16k; %s root html; location /small { ssi off; "
                   "alias html; } }" % pair(certificates.own("one")), files={"html/big": body})
    with connect(server.port) as secure:
        secure.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
        secure.sendall(b"GET /big HTTP/1.0\r\n\r\n")
        answer = b""
        while True:
            part = secure.recv(1500)
            if not part:
                break
            answer += part
    assert answer.partition(b"\r\n\r\n")[2] == body


def test_many_requests_on_one_connection(serve):
    server = serve("server { listen @PORT@ ssl; %s return 200 $connection_requests; }"
                   % pair(certificates.own("one")))
    with connect(server.port) as secure:
        for number in range(1, 50):
            secure.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            answer = b""
            while not answer.endswith(b"\r\n\r\n%d" % number):
                part = secure.recv(4096)
                assert part, answer
                answer += part


def test_request_body_over_tls(serve):
    server = serve("server { listen @PORT1@; location / { return 200 $content_length; } } "
                   "server { listen @PORT@ ssl; %s client_max_body_size 10m; "
                   "location / { proxy_pass http://127.0.0.1:@PORT1@; } }"
                   % pair(certificates.own("one")))
    body = b"x" * 1000000
    with connect(server.port) as secure:
        secure.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %d\r\n\r\n"
                       % len(body) + body)
        answer = b""
        while True:
            part = secure.recv(65536)
            if not part:
                break
            answer += part
    assert int(answer.partition(b"\r\n\r\n")[2]) == len(body)


@pytest.mark.parametrize("junk", [
    b"\x16\x03\x01\x00\x05hello",
    b"\x16\x03\x01\xff\xff" + b"\x00" * 100,
    b"\x16\x03\x01\x00\x04\x01\x00\xff\xff",
    b"\x80\x2e\x01\x03\x01",
    b"\xff" * 600,
])
def test_broken_records(serve, junk):
    server = serve("server { listen @PORT@ ssl; %s return 200 fine; }"
                   % pair(certificates.own("one")))
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as raw:
        raw.sendall(junk)
        raw.shutdown(socket.SHUT_WR)
        while raw.recv(4096):
            pass
    assert ask(server.port)[1] == "fine"
    assert "[crit]" not in server.error_log


def test_end_in_the_middle_of_the_handshake(serve):
    server = serve("server { listen @PORT@ ssl; %s return 200 fine; }"
                   % pair(certificates.own("one")))
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    hello = context().wrap_bio(incoming, outgoing)
    with pytest.raises(ssl.SSLWantReadError):
        hello.do_handshake()
    for part in (10, 200):
        with socket.create_connection(("127.0.0.1", server.port), timeout=10) as raw:
            raw.sendall(outgoing.read() if part == 10 else b"\x16\x03\x01\x02\x00\x01")
    server.wait_log("peer closed connection in SSL handshake")
    assert ask(server.port)[1] == "fine"


def test_hello_byte_by_byte(serve):
    server = serve("server { listen @PORT@ ssl; %s return 200 fine; }"
                   % pair(certificates.own("one")))
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    secure = context().wrap_bio(incoming, outgoing)
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as raw:
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

        def step(call):
            while True:
                try:
                    return call()
                except ssl.SSLWantReadError:
                    for byte in outgoing.read():
                        raw.sendall(bytes((byte,)))
                    incoming.write(raw.recv(65536))
        step(secure.do_handshake)
        secure.write(b"GET / HTTP/1.0\r\n\r\n")
        answer = step(lambda: secure.read(65536))
    assert answer.endswith(b"fine")


def test_handshake_has_its_time(serve):
    server = serve("server { listen @PORT@ ssl; client_header_timeout 1s; %s return 200; }"
                   % pair(certificates.own("one")))
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as raw:
        raw.sendall(b"\x16\x03\x01")
        assert raw.recv(100) == b""
    server.wait_log(r"\[info\].*client timed out .*while SSL handshaking")


def test_idle_connections_are_told_to_close_at_quit(serve):
    server = serve("server { listen @PORT@ ssl; %s return 200 fine; }"
                   % pair(certificates.own("one")))
    with connect(server.port) as secure:
        secure.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        answer = b""
        while not answer.endswith(b"fine"):
            answer += secure.recv(4096)
        server.signal("quit")
        assert secure.recv(100) == b""
    assert server.wait_end() == 0


# ---- OCSP


def test_staple_from_a_file(serve):
    made = certificates.signed("stapled", "staple-ca")
    der = certificates.staple(certificates.own("staple-ca"), made)
    server = serve("server { listen @PORT@ ssl; %s ssl_stapling on; ssl_stapling_file @DIR@/a.der; "
                   "return 200; }" % pair(made), files={"a.der": der})
    assert b"OCSP Response Status: successful" in staple_of(server.port)
    assert ask(server.port)[0] == 200


def test_staple_from_a_responder(serve, backend):
    made = certificates.signed("asked", "staple-ca")
    der = certificates.staple(certificates.own("staple-ca"), made)
    server = serve("server { listen @PORT@ ssl; %s ssl_stapling on; ssl_stapling_verify on; "
                   "ssl_trusted_certificate %s; ssl_stapling_responder http://127.0.0.1:@PORT1@/x; "
                   "return 200; } server { listen @PORT1@; root html; default_type "
                   "application/ocsp-response; rewrite ^/x/. /answer.der; }"
                   % (pair(made), certificates.own("staple-ca").crt),
                   files={"html/answer.der": der})
    until(lambda: b"OCSP Response Status: successful" in staple_of(server.port), "a staple")


def test_staple_of_somebody_else_is_not_sent(serve):
    made = certificates.signed("asked", "staple-ca")
    other = certificates.signed("other", "staple-ca")
    der = certificates.staple(certificates.own("staple-ca"), other)
    server = serve("server { listen @PORT@ ssl; %s ssl_stapling on; "
                   "ssl_trusted_certificate %s; ssl_stapling_responder http://127.0.0.1:@PORT1@/x; "
                   "return 200; } server { listen @PORT1@; root html; default_type "
                   "application/ocsp-response; rewrite ^/x/. /answer.der; }"
                   % (pair(made), certificates.own("staple-ca").crt),
                   files={"html/answer.der": der})
    assert b"OCSP response: no response sent" in staple_of(server.port)
    server.wait_log("certificate status not found in the OCSP response")
    assert b"OCSP response: no response sent" in staple_of(server.port)


@pytest.mark.parametrize("body, message", [
    ("HTTP/1.1 404 Not Found\r\n\r\n", "OCSP responder sent invalid response"),
    ("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\nx", 'invalid "Content-Type" header'),
    ("HTTP/1.1 200 OK\r\n\r\nnonsense", r"d2i_OCSP_RESPONSE\(\) failed"),
    ("", "OCSP responder prematurely closed connection"),
    ("x" * 70000, "OCSP responder sent no proper response"),
])
def test_bad_responders(serve, body, message):
    made = certificates.signed("client", "ca")
    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = serve("server { listen @PORT@ ssl; %s ssl_verify_client on; ssl_ocsp on; "
                       "ssl_client_certificate %s; ssl_ocsp_responder http://127.0.0.1:%d; "
                       "return 200; }" % (pair(certificates.own("one")),
                                          certificates.own("ca").crt,
                                          listening.getsockname()[1]))
        secure = connect(server.port, certificate=made)
        asked = listening.accept()[0]
        assert asked.recv(10000).startswith(b"GET /")
        asked.sendall(body.encode())
        asked.close()
        with secure:
            status, text, _ = exchange(secure)
        assert status == 400 and "The SSL certificate error" in text
        server.wait_log(message)
        server.wait_log(r"certificate verify error: \(\d+:certificate status request failed\)")


def test_client_leaves_while_its_certificate_is_asked_about(serve):
    made = certificates.signed("client", "ca")
    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = serve("server { listen @PORT@ ssl; %s ssl_verify_client on; ssl_ocsp on; "
                       "ssl_client_certificate %s; ssl_ocsp_responder http://127.0.0.1:%d; "
                       "client_header_timeout 1s; return 200 fine; } "
                       "server { listen @PORT1@; return 200 still; }"
                       % (pair(certificates.own("one")), certificates.own("ca").crt,
                          listening.getsockname()[1]))
        secure = connect(server.port, certificate=made)
        asked = listening.accept()[0]
        secure.close()
        server.wait_log("client timed out|closed")
        asked.close()
        assert server.get(port=server.port_of("PORT1")).text == "still"


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_session_of_a_lenient_server_is_no_key_to_a_strict_one(serve, version):
    """A session that was made under one name may not stand for a certificate under another."""
    server = serve("""
        ssl_session_cache shared:S:1m; ssl_client_certificate %s;
        server { listen @PORT@ ssl; server_name open; %s return 200 open; }
        server { listen @PORT@ ssl; server_name any; %s ssl_verify_client optional_no_ca;
                 return 200 any; }
        server { listen @PORT@ ssl; server_name strict; %s ssl_verify_client on;
                 return 200 "strict $ssl_session_reused"; }
    """ % ((certificates.own("ca").crt,) + (pair(certificates.own("one")),) * 3))
    for name in ("open", "any"):
        made = context(certificates.own("foreign"), version=version)
        with connect(server.port, name, made=made) as secure:
            assert exchange(secure, host=name)[1] == name
            session = secure.session
        with connect(server.port, "strict", made=made, session=session) as secure:
            assert exchange(secure, host="strict")[0] == 400
