"""TLS: what each of the smaller options does to a handshake or to records."""

import os
import re
import select
import socket
import ssl
import subprocess
import threading
import time

import pytest

import certificates
from harness import binaries
from tls_client import ask, common_name, connect, context, exchange, pair

portunus_only = pytest.mark.skipif(binaries.is_nginx_before(binaries.under_test(), 1, 30),
                                   reason="the reference is older")
TLS12, TLS13 = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3


def serve_with(serve, text, answer="$ssl_protocol $ssl_cipher $ssl_curve", **more):
    return serve("server { listen @PORT@ ssl; %s %s return 200 \"%s\"; }"
                 % (pair(certificates.own("one")), text, answer), **more)


def s_client(port, *words, check=True):
    return subprocess.run(["openssl", "s_client", "-connect", "127.0.0.1:%d" % port, *words],
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=20, check=check).stdout.decode()


# ---- keys


@portunus_only
@pytest.mark.parametrize("words", ["", "secret"])
def test_keys_of_a_store(serve, words):
    """By the provider of files, which is in each OpenSSL."""
    made = certificates.own("stored")
    text = made.key_pem
    if words:
        text = certificates.openssl("ec", "-in", made.key, "-aes128", "-passout", "pass:" + words)
    server = serve("server { listen @PORT@ ssl; ssl_certificate %s; %s "
                   "ssl_certificate_key store:file:@DIR@/k; return 200; }"
                   % (made.crt, "ssl_password_file @DIR@/words;" if words else ""),
                   files={"k": text, "words": words + "\n"})
    assert common_name(server.port) == "stored"


ENGINE = r"""
#include <openssl/engine.h>
#include <openssl/pem.h>
static EVP_PKEY *load(ENGINE *e, const char *id, UI_METHOD *ui, void *arg)
{
    BIO *bio = BIO_new_file(id, "r");
    EVP_PKEY *key = bio == NULL ? NULL : PEM_read_bio_PrivateKey(bio, NULL, NULL, NULL);
    BIO_free(bio);
    return key;
}
static int bind_here(ENGINE *e, const char *id)
{
    return ENGINE_set_id(e, "drawer") && ENGINE_set_name(e, "keys in a drawer") &&
           ENGINE_set_load_privkey_function(e, load);
}
IMPLEMENT_DYNAMIC_CHECK_FN()
IMPLEMENT_DYNAMIC_BIND_FN(bind_here)
"""


def test_keys_of_an_engine(serve, tmp_path):
    made = certificates.own("engine")
    (tmp_path / "drawer.c").write_text(ENGINE)
    subprocess.run(["gcc", "-shared", "-fPIC", "-w", "-o", tmp_path / "drawer.so",
                    tmp_path / "drawer.c", "-lcrypto"], check=True)
    server = serve("server { listen @PORT@ ssl; ssl_certificate %s; "
                   "ssl_certificate_key engine:drawer:@DIR@/key; return 200; }" % made.crt,
                   files={"key": made.key_pem}, env=dict(os.environ, OPENSSL_ENGINES=str(tmp_path)))
    assert common_name(server.port) == "engine"
    server.reload()
    server.wait_log("exited with code 0")
    assert common_name(server.port) == "engine"


def test_the_chain_is_sent(serve):
    between = certificates.signed("between", "ca", "basicConstraints=critical,CA:TRUE")
    made = certificates.signed("leaf", between)
    server = serve("server { listen @PORT@ ssl; ssl_certificate @DIR@/chain; "
                   "ssl_certificate_key %s; return 200; }" % made.key,
                   files={"chain": made.pem + between.pem})
    told = s_client(server.port, "-showcerts", "-CAfile", certificates.own("ca").crt)
    assert told.count("BEGIN CERTIFICATE") == 2
    assert "Verify return code: 0 (ok)" in told


@portunus_only
def test_pass_phrase_of_a_program(serve):
    made = certificates.own("locked")
    locked = certificates.openssl("ec", "-in", made.key, "-aes128", "-passout", "pass:secret")
    server = serve("server { listen @PORT@ ssl; ssl_pass_phrase_dialog \"exec:/bin/echo secret\"; "
                   "ssl_certificate %s; ssl_certificate_key @DIR@/locked.key; return 200; }"
                   % made.crt, files={"locked.key": locked})
    assert common_name(server.port) == "locked"


# ---- versions, ciphers, groups


@pytest.mark.parametrize("text, version, expected", [
    ("ssl_ecdh_curve secp384r1;", TLS13, "secp384r1"),
    ("ssl_ecdh_curve secp384r1;", TLS12, "secp384r1"),
    ("ssl_ecdh_curve X25519:prime256v1;", TLS13, "x25519"),
    ("ssl_ecdh_curve prime256v1;", TLS13, "prime256v1"),
    ("ssl_conf_command Groups P-521;", TLS13, "secp521r1"),
    ("ssl_conf_command Ciphersuites TLS_CHACHA20_POLY1305_SHA256;", TLS13,
     "TLS_CHACHA20_POLY1305_SHA256"),
    ("ssl_conf_command MaxProtocol TLSv1.2;", None, "TLSv1.2"),
    ("ssl_conf_command MinProtocol TLSv1.3;", None, "TLSv1.3"),
    ("ssl_conf_command CipherString ECDHE-ECDSA-AES128-GCM-SHA256;", TLS12,
     "ECDHE-ECDSA-AES128-GCM-SHA256"),
    ("ssl_ciphers ECDHE-ECDSA-CHACHA20-POLY1305;", TLS12, "ECDHE-ECDSA-CHACHA20-POLY1305"),
    ("ssl_ciphers ECDHE+CHACHA20:AES128; ssl_prefer_server_ciphers on;", TLS12,
     "ECDHE-ECDSA-CHACHA20-POLY1305"),
])
def test_what_is_negotiated(serve, text, version, expected):
    server = serve_with(serve, "ssl_protocols TLSv1.2 TLSv1.3;" + text)
    assert expected.lower() in ask(server.port, version=version)[1].lower().split(" ")


@pytest.mark.parametrize("text, version", [
    ("ssl_conf_command MinProtocol TLSv1.3;", TLS12),
    ("ssl_ciphers ECDHE-RSA-AES128-GCM-SHA256;", TLS12),
])
def test_what_is_refused(serve, text, version):
    server = serve_with(serve, "ssl_protocols TLSv1.2 TLSv1.3;" + text)
    with pytest.raises(ssl.SSLError):
        ask(server.port, version=version)


def test_dhparam(serve):
    """DHE is there with parameters only."""
    parameters = certificates.openssl("genpkey", "-genparam", "-algorithm", "DH", "-pkeyopt",
                                      "group:ffdhe2048")
    rsa = pair(certificates.own("one", "rsa"))
    server = serve("""ssl_protocols TLSv1.2; ssl_ciphers DHE:ECDHE;
        server { listen @PORT@ ssl; %s ssl_dhparam @DIR@/dh; return 200 $ssl_cipher; }
        server { listen @PORT1@ ssl; %s return 200 $ssl_cipher; }""" % (rsa, rsa),
                   files={"dh": parameters})
    made = context()
    made.set_ciphers("DHE-RSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256")
    assert ask(server.port, made=made)[1] == "DHE-RSA-AES128-GCM-SHA256"
    assert ask(server.port_of("PORT1"), made=made)[1] == "ECDHE-RSA-AES128-GCM-SHA256"


def test_weak_things_are_off(serve):
    """As the usual checkers look for them."""
    server = serve_with(serve, "" if not binaries.is_nginx_before(binaries.under_test(), 1, 30)
                        else "ssl_protocols TLSv1.2 TLSv1.3;")
    for words in (("-tls1", "-cipher", "ALL:@SECLEVEL=0"), ("-tls1_1", "-cipher", "ALL:@SECLEVEL=0"),
                  ("-tls1_2", "-cipher", "aNULL:@SECLEVEL=0"),
                  ("-tls1_2", "-cipher", "eNULL:@SECLEVEL=0"),
                  ("-tls1_2", "-cipher", "PSK:@SECLEVEL=0")):
        assert "Cipher is (NONE)" in s_client(server.port, *words, check=False), words
    told = s_client(server.port, "-tls1_2", "-comp")
    assert "Compression: NONE" in told and "Secure Renegotiation IS supported" in told


# ---- records


def records_of(port, request, version):
    """Sizes of the records of application data that answer a request."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    secure = context(version=version).wrap_bio(incoming, outgoing)
    sizes, rest = [], b""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as raw:
        while True:
            try:
                secure.do_handshake()
                break
            except ssl.SSLWantReadError:
                raw.sendall(outgoing.read())
                incoming.write(raw.recv(65536))
        secure.write(request)
        raw.sendall(outgoing.read())
        while True:
            part = raw.recv(65536)
            if not part:
                break
            rest += part
            while len(rest) >= 5 and len(rest) >= 5 + int.from_bytes(rest[3:5], "big"):
                size = int.from_bytes(rest[3:5], "big")
                if rest[0] == 23:
                    sizes.append(size)
                rest = rest[5 + size:]
    return sizes


@pytest.mark.parametrize("version", [TLS12, TLS13])
@pytest.mark.parametrize("text, most", [("", 16384), ("ssl_buffer_size 4k;", 4096),
                                        ("ssl_buffer_size 1400;", 1400)])
def test_size_of_records(serve, version, text, most):
    server = serve("server { listen @PORT@ ssl; %s ssl_protocols TLSv1.2 TLSv1.3; %s root html; }"
                   % (pair(certificates.own("one")), text), files={"html/big": b"x" * 200000})
    sizes = records_of(server.port, b"GET /big HTTP/1.0\r\n\r\n", version)
    assert max(sizes) <= most + 40
    assert sum(size > most - 200 for size in sizes) >= 200000 // most - 2
    assert sum(sizes) > 200000


@pytest.mark.parametrize("version", [TLS12, TLS13])
def test_kernel_tls_or_none(serve, version):
    """Where the kernel has no TLS the same bytes come from the library."""
    body = os.urandom(300000)
    server = serve("server { listen @PORT@ ssl; %s ssl_protocols TLSv1.2 TLSv1.3; sendfile on; "
                   "ssl_conf_command Options KTLS; root html; location /echo { "
                   "proxy_pass http://127.0.0.1:@PORT1@; } } server { listen @PORT1@; root html; }"
                   % pair(certificates.own("one")), files={"html/big": body})
    for target in ("/big", "/echo/../big", "/nx"):
        with connect(server.port, version=version) as secure:
            secure.sendall(b"GET %s HTTP/1.0\r\n\r\n" % target.encode())
            answer = b""
            while True:
                part = secure.recv(65536)
                if not part:
                    break
                answer += part
        assert answer.endswith(body if target != "/nx" else b"</html>\r\n")
    assert "[alert]" not in server.error_log and "[crit]" not in server.error_log


# ---- early data


def early(server, request, more=b""):
    """Sends a request as early data of a resumed session, then more; gives what s_client prints."""
    server.write("request", request)
    base = ["openssl", "s_client", "-connect", "127.0.0.1:%d" % server.port, "-tls1_3", "-ign_eof"]
    plain = b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    subprocess.run(base + ["-sess_out", server.path("session")], input=plain,
                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=20, check=True)
    return subprocess.run(base + ["-sess_in", server.path("session"), "-early_data",
                                  server.path("request")], input=more, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, timeout=20, check=True).stdout


EARLY = b"%s / HTTP/1.1\r\nHost: x\r\nConnection: %s\r\n\r\n"


@portunus_only
def test_early_data_ends_with_the_handshake(serve):
    server = serve_with(serve, "ssl_early_data on;", "early=[$ssl_early_data]")
    told = early(server, EARLY % (b"GET", b"keep-alive"), EARLY % (b"GET", b"close"))
    assert b"Early data was accepted" in told
    assert [word for word in re.findall(rb"early=\[(\d?)\]", told)] == [b"1", b""]


@portunus_only
def test_early_data_is_off_by_default(serve):
    server = serve_with(serve, "", "early=[$ssl_early_data]")
    told = early(server, EARLY % (b"GET", b"close"), EARLY % (b"GET", b"close"))
    assert b"Early data was not sent" in told or b"Early data was rejected" in told
    assert b"early=[1]" not in told


@portunus_only
def test_backends_are_told_of_early_data_and_may_refuse_it(serve):
    server = serve("""
        server { listen @PORT@ ssl; %s ssl_early_data on; location / {
            proxy_set_header Early-Data $ssl_early_data; proxy_pass http://127.0.0.1:@PORT1@; } }
        server { listen @PORT1@; if ($http_early_data) { return 425; } return 200 "done"; }
    """ % pair(certificates.own("one")))
    told = early(server, EARLY % (b"POST", b"keep-alive"), EARLY % (b"POST", b"close"))
    assert b"Early data was accepted" in told
    assert re.findall(rb"HTTP/1.1 (\d+)", told) == [b"425", b"200"]


@portunus_only
def test_as_much_early_data_as_a_record(serve):
    """A request that needs more is refused by TLS, not cut."""
    server = serve("server { listen @PORT@ ssl; %s ssl_early_data on; location / { "
                   "proxy_pass http://127.0.0.1:@PORT1@; } } server { listen @PORT1@; "
                   "location / { return 200 \"got=$content_length\"; } }"
                   % pair(certificates.own("one")))
    body = b"y" * 9000
    request = b"POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 9000\r\n\r\n" + body
    told = early(server, request)
    assert b"Early data was accepted" in told and b"got=9000" in told


# ---- names


def test_names_by_wildcard_and_expression(serve):
    server = serve("""
        server { listen @PORT@ ssl; server_name none; %s return 200 none; }
        server { listen @PORT@ ssl; server_name *.wild; %s return 200 left; }
        server { listen @PORT@ ssl; server_name www.right.*; %s return 200 right; }
        server { listen @PORT@ ssl; server_name .dot; %s return 200 dot; }
        server { listen @PORT@ ssl; server_name "~^(?<who>[a-z]+)\\d\\.re$"; %s return 200 $who; }
    """ % tuple(pair(certificates.own(name)) for name in ("none", "left", "right", "dot", "re")))
    for name, crt, text in (("a.wild", "left", "left"), ("a.b.wild", "left", "left"),
                            ("wild", "none", "none"), ("www.right.org", "right", "right"),
                            ("dot", "dot", "dot"), ("x.dot", "dot", "dot"), ("X.DOT", "dot", "dot"),
                            ("abc1.re", "re", "abc"), ("abc.re", "none", "none")):
        assert common_name(server.port, name) == crt, name
        assert ask(server.port, name=name, host=name)[1] == text, name


@pytest.mark.parametrize("text, chosen", [("http2 on;", "h2"), ("", "http/1.1")])
@portunus_only
def test_alpn_of_http2(serve, text, chosen):
    server = serve_with(serve, text)
    with connect(server.port, alpn=["h2", "http/1.1"]) as secure:
        assert secure.selected_alpn_protocol() == chosen
    with connect(server.port, alpn=["http/1.1"]) as secure:
        assert secure.selected_alpn_protocol() == "http/1.1"
        assert exchange(secure)[0] == 200


@portunus_only
@pytest.mark.parametrize("host, location", [
    ("site", "https://site:@PORT@/a%20b?c=d"), ("site:99", "https://site:@PORT@/a%20b?c=d"),
])
def test_plain_requests_are_sent_on(serve, host, location):
    server = serve("server { listen @PORT@ ssl https_allow_http; %s return 200; }"
                   % pair(certificates.own("one")))
    answer = server.get("/a%20b?c=d", host=host)
    assert answer.status == 301 and answer.closes
    assert answer.header("Location") == location.replace("@PORT@", str(server.port))
    with server.client() as client:
        client.send(b"GET /x HTTP/1.0\r\n\r\n")
        assert client.response().status == 400  # nobody says which site


# ---- the end of early data


class Relay:
    """Passes bytes between a client and a server, one connection at a time; the second flight of a client whose
    first one held early data is kept back until the server is quiet."""

    def __init__(self, port):
        self.server_port = port
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.was_cut = None         # did the server end before it knew all that the client said?
        self.spread = None          # seconds between the first and the last that it said before it was quiet

    def plain(self):
        self._start(self._pass)

    def late(self):
        self._start(self._pass_late)

    def _start(self, talk):
        self.thread = threading.Thread(target=self._serve, args=(talk,), daemon=True)
        self.thread.start()

    def _serve(self, talk):
        client = self.listener.accept()[0]
        with client, socket.create_connection(("127.0.0.1", self.server_port)) as server:
            talk(client, server)

    @staticmethod
    def _pass(client, server):
        while True:
            ready = select.select([client, server], [], [], 10)[0]
            for one in ready:
                data = one.recv(65536)
                if not data:
                    return
                (server if one is client else client).sendall(data)

    def _pass_late(self, client, server):
        first = client.recv(65536)
        while b"\x17\x03\x03" not in first[5:]:
            first += client.recv(65536)
        server.sendall(first)
        # The answer is there, and then nothing more comes.
        came = []
        while select.select([server], [], [], 1)[0]:
            data = server.recv(65536)
            came.append(time.monotonic())
            self.spread = came[-1] - came[0]
            if not data:
                self.was_cut = True
                return
            client.sendall(data)
        self.was_cut = False
        self._pass(client, server)


@portunus_only
def test_an_early_answer_does_not_end_the_handshake(serve):
    """Who is answered before the handshake is finished may still send its end, which is no reason for a reset."""
    server = serve_with(serve, "ssl_early_data on;", "early=[$ssl_early_data]")
    relay = Relay(server.port)
    base = ["openssl", "s_client", "-connect", "127.0.0.1:%d" % relay.port, "-tls1_3", "-ign_eof"]
    request = EARLY % (b"GET", b"close")
    server.write("request", request)
    relay.plain()
    subprocess.run(base + ["-sess_out", server.path("session")], input=request,
                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=20, check=True)
    relay.late()
    told = subprocess.run(base + ["-sess_in", server.path("session"), "-early_data",
                                  server.path("request")], input=b"", stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, timeout=20, check=False).stdout
    relay.thread.join(10)
    assert relay.was_cut is False
    assert b"early=[1]" in told and b"closed" in told
    assert relay.spread < 0.15  # what the socket holds back for the FIN takes 200 ms
