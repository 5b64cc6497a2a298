"""Sessions from end to end: real clients, TLS, limits, what reaches logs, how sessions end."""

import imaplib
import poplib
import re
import smtplib
import socket
import ssl
import threading

import pytest

from harness import Server, binaries, proc
from harness.certificates import Authority
from harness.dns import NXDOMAIN, SERVFAIL, NameServer, Pointer
from harness.server import run_binary
from harness.wait import until
from mail.stage import AuthServer, b64, endless, MailClient, conf, imap_backend, plain, pop3_backend, smtp_backend

CONF = """
    auth_http http://127.0.0.1:%(auth)d/;
    server_name mx.example;
    resolver_timeout 2s;
    ssl_certificate mx.crt;
    ssl_certificate_key mx.key;
    auth_http_pass_client_cert on;
    smtp_capabilities "SIZE 1000" 8BITMIME;
    server { listen 127.0.0.1:@PORT1@; protocol pop3; starttls on; }
    server { listen 127.0.0.1:@PORT2@; protocol imap; starttls only; }
    server { listen 127.0.0.1:@PORT3@; protocol smtp; starttls on; smtp_auth plain login none; }
    server { listen 127.0.0.1:@PORT4@ ssl; protocol imap; ssl_verify_client on; ssl_client_certificate root.crt; }
    server { listen 127.0.0.1:@PORT5@ ssl proxy_protocol; protocol pop3; proxy_protocol v2; }
    server { listen 127.0.0.1:@PORT6@; protocol smtp; smtp_greeting_delay 100ms; }
    server { listen 127.0.0.1:@PORT7@; protocol smtp; smtp_auth none; resolver 127.0.0.1:%(dns)d ipv6=off; }
    server { listen 127.0.0.1:@PORT8@; protocol imap; timeout 300ms; imap_client_buffer 256; auth_http_timeout 300ms; }
    server { listen unix:@DIR@/imap.sock; protocol imap; }
    server { listen 127.0.0.1:@PORT9@; protocol pop3; proxy_timeout 200ms; }
"""


class Mail:
    """A server, its authentication server, its backends."""

    def __init__(self, serve, directory):
        self.authority = Authority(directory)
        self.authority.issue("mx", "DNS:mx.example")
        self.authority.issue("client")
        Authority(directory, "foreign").issue("stranger")
        self.backends = {"pop3": pop3_backend(), "imap": imap_backend(), "smtp": smtp_backend()}
        self.answer = {}
        self.auth = AuthServer(self._answer)
        self.dns = NameServer({})
        files = {name: self.authority.read(name) for name in ("mx.crt", "mx.key", "root.crt")}
        self.server = serve(conf=conf(CONF % {"auth": self.auth.port, "dns": self.dns.port}), files=files)

    def _answer(self, fields):
        if isinstance(self.answer, dict):
            return {"Auth-Status": "OK", "Auth-Server": "127.0.0.1",
                    "Auth-Port": str(self.backends[fields["Auth-Protocol"]].port), **self.answer}
        return self.answer

    def context(self, certificate=None):
        context = ssl.create_default_context(cafile=self.authority.path("root.crt"))
        context.check_hostname = False
        context.verify_flags &= ~getattr(ssl, "VERIFY_X509_STRICT", 0)
        if certificate:
            context.load_cert_chain(self.authority.path(certificate + ".crt"),
                                    self.authority.path(certificate + ".key"))
        return context

    def client(self, protocol, number, **how):
        return MailClient(protocol, self.server.port_of("PORT%d" % number), **how)

    def said(self, protocol):
        return b"".join(self.backends[protocol].lines)

    def close(self):
        self.auth.close()
        self.dns.close()
        for backend in self.backends.values():
            backend.close()


@pytest.fixture(scope="module", name="stage")
def make_stage(tmp_path_factory):
    servers = []

    def serve(**how):
        servers.append(Server(**how))
        return servers[-1].start()

    stage = Mail(serve, tmp_path_factory.mktemp("certificates"))
    yield stage
    stage.close()
    servers[0].close()


@pytest.fixture(name="mail")
def make_mail(stage):
    """The stage, as if nobody had been there."""
    stage.answer = {}
    stage.auth.requests.clear()
    stage.dns.records.clear()
    for backend in stage.backends.values():
        backend.lines.clear()
    return stage


# ---- real clients

def test_poplib(mail):
    client = poplib.POP3("127.0.0.1", mail.server.port_of("PORT1"), timeout=10)
    client.stls(mail.context())
    client.user("tom")
    assert client.pass_("secret") == b"+OK fine"
    client.quit()
    assert mail.said("pop3") == b"USER tom\r\nPASS secret\r\nQUIT\r\n"
    assert mail.auth.fields()["Auth-SSL"] == "on"


def test_imaplib(mail):
    client = imaplib.IMAP4("127.0.0.1", mail.server.port_of("PORT2"), timeout=10)
    assert "LOGINDISABLED" in client.capabilities
    client.starttls(mail.context())
    assert "LOGINDISABLED" not in client.capabilities
    assert client.login("tom", "sec\"ret")[0] == "OK"
    assert client.noop()[0] == "OK"
    client.logout()
    assert b" LOGIN {3}\r\ntom {7}\r\nsec\"ret\r\n" in mail.said("imap")


def test_smtplib(mail):
    client = smtplib.SMTP("127.0.0.1", mail.server.port_of("PORT3"), "me.example", timeout=10)
    client.starttls(context=mail.context())
    client.login("tom", "secret")
    assert client.docmd("NOOP")[0] == 250
    client.close()
    assert mail.said("smtp").startswith(
        b"EHLO mx.example\r\nXCLIENT ADDR=127.0.0.1 LOGIN=tom NAME=[UNAVAILABLE]\r\nEHLO me.example\r\n")


# ---- TLS

@pytest.mark.parametrize("protocol, number, command, more", [
    ("pop3", 1, b"STLS\r\n", b"USER x\r\nPASS y\r\n"), ("imap", 2, b"a STARTTLS\r\n", b"b LOGIN x y\r\n"),
    ("smtp", 3, b"STARTTLS\r\n", b"MAIL FROM:<a>\r\nRCPT TO:<b>\r\n")])
def test_what_stands_behind_starttls_is_dropped(mail, protocol, number, command, more):
    with mail.client(protocol, number) as client:
        client.read()
        assert b"OK" in client.say(command + more) or protocol == "smtp"
        client.secure(mail.context())
        assert client.say(b"QUIT\r\n" if protocol != "imap" else b"z LOGOUT\r\n", None).endswith(b"<end>")
    mail.server.wait_log(r"%d bytes after STARTTLS were dropped" % len(more))
    assert mail.auth.requests == []


def test_what_was_said_before_starttls_is_forgotten(mail):
    with mail.client("smtp", 3) as client:
        client.read()
        client.say(b"EHLO me\r\n")
        assert client.say(b"MAIL FROM:<a>\r\n").startswith(b"250")
        client.say(b"STARTTLS\r\n")
        client.secure(mail.context())
        assert client.say(b"RCPT TO:<b>\r\n").startswith(b"503")
        assert b"STARTTLS" not in client.say(b"EHLO me\r\n")
        assert client.say(b"STARTTLS\r\n").startswith(b"500")


def test_login_needs_starttls(mail):
    with mail.client("imap", 2) as client:
        client.read()
        assert client.say(b"a LOGIN x y\r\n").startswith(b"a BAD")
        assert client.say(b"a AUTHENTICATE PLAIN\r\n").startswith(b"a BAD")
    assert mail.auth.requests == []


def test_certificates_of_clients(mail):
    with mail.client("imap", 4, context=mail.context()) as client:
        assert client.read(None) == b"* BYE No required SSL certificate\r\n<end>"
    with mail.client("imap", 4, context=mail.context("stranger")) as client:
        assert client.read(None) == b"* BYE SSL certificate error\r\n<end>"
    with mail.client("imap", 4, context=mail.context("client")) as client:
        client.read()
        assert client.say(b"a LOGIN tom pw\r\n").startswith(b"a OK")
    fields = mail.auth.fields()
    assert fields["Auth-SSL-Verify"] == "SUCCESS" and fields["Auth-SSL-Subject"] == "CN=client"
    assert fields["Auth-SSL-Issuer"] == "CN=root" and len(fields["Auth-SSL-Fingerprint"]) == 40
    assert fields["Auth-SSL-Cert"].startswith("-----BEGIN%20CERTIFICATE-----%0A")
    mail.server.wait_log("client sent no required SSL certificate while SSL handshaking, client: 127.0.0.1")
    mail.server.wait_log("client SSL certificate verify error")


def test_proxy_protocol_before_tls_and_towards_backends(mail):
    header = b"PROXY TCP4 192.0.2.1 192.0.2.2 1111 2222\r\n"
    with mail.client("pop3", 5, raw=header, context=mail.context()) as client:
        client.read()
        client.say(b"USER tom\r\n")
        client.say(b"PASS pw\r\n")
    mail.backends["pop3"].wait(lambda: b"PASS pw\r\n" in mail.backends["pop3"].lines)
    fields = mail.auth.fields()
    assert fields["Proxy-Protocol-Addr"] == "192.0.2.1" and fields["Proxy-Protocol-Server-Port"] == "2222"
    assert fields["Client-IP"] == "127.0.0.1"  # nobody is trusted
    assert mail.said("pop3").startswith(b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\x7f\0\0\1\x7f\0\0\1")


def test_broken_proxy_header(mail):
    with mail.client("pop3", 5, raw=b"GET / HTTP/1.0\r\n\r\n") as client:
        assert client.read(None) == b"<end>"
    mail.server.wait_log("broken header: .* while reading PROXY protocol")


# ---- limits

@pytest.mark.parametrize("number, command", [(1, b"CAPA\r\n"), (2, b"a CAPABILITY\r\n"), (3, b"EHLO a\r\n")])
def test_who_takes_no_answers_is_not_heard_on(mail, number, command):
    """Commands cost their sender less than the answers cost us: they were kept without a bound."""
    ends = {1: b"\r\n.\r\n", 2: b"a OK completed\r\n", 3: b"250 "}
    worker = mail.server.children()[0]
    before = proc.resident_kb(worker)
    with socket.create_connection(("127.0.0.1", mail.server.port_of("PORT%d" % number)), 10) as client:
        client.settimeout(0.3)
        sent, wave = 0, command * 4000
        try:
            while sent < 64 << 20:
                sent += client.send(wave[sent % len(command):])
        except socket.timeout:
            pass
        assert sent < 64 << 20
        assert proc.resident_kb(worker) < before + binaries.resident_limit(30000)
        # Nothing is lost when it listens after all.
        client.settimeout(10)
        last = threading.Thread(target=client.sendall, args=(wave[sent % len(command):],))
        last.start()
        sent += len(wave) - sent % len(command)
        answers = bytearray()
        while answers.count(ends[number]) < sent // len(command):
            answers += client.recv(1 << 20)
        last.join()


def test_a_backend_that_never_ends_its_answer(mail):
    """Lines without a last one went to the client, or on and on."""
    mail.answer = {"Auth-Port": str(endless("imap").port)}
    with mail.client("imap", 8) as client:
        assert b"internal server error" in client.say(b"a LOGIN u p\r\n", None)
    mail.answer = {"Auth-Port": str(endless("smtp").port)}
    with mail.client("smtp", 3) as client:
        client.say(b"EHLO a\r\n")
        assert client.say(b"AUTH PLAIN " + plain("u", "p") + b"\r\n", None).endswith(b"451 4.3.2 Internal server error\r\n<end>")
    assert len(re.findall("upstream sent too long response: more", mail.server.read("error.log"))) == 2


def test_a_backend_that_is_this_server(mail):
    """It went round until no connection was left for it."""
    mail.answer = {"Auth-Port": str(mail.server.port_of("PORT1"))}
    with mail.client("pop3", 1) as client:
        client.read()
        client.say(b"USER u\r\n")
        assert client.say(b"PASS p\r\n", None).startswith(b"-ERR internal server error")
    mail.server.wait_log("the session has passed through this server 11 times")
    assert len(mail.auth.requests) == 12


def test_a_second_user_is_refused(mail):
    """As in nginx; the name that came first is gone with it."""
    with mail.client("pop3", 1) as client:
        client.read()
        assert client.say(b"USER one\r\n") == b"+OK\r\n"
        assert client.say(b"USER two\r\n") == client.say(b"PASS x\r\n") == b"-ERR invalid command\r\n"


def test_a_line_has_a_limit(mail):
    with mail.client("imap", 8) as client:
        client.read()
        assert client.say(b"a LOGIN " + b"x" * 500, None) == b"a BAD invalid command\r\n<end>"
    with mail.client("imap", 8) as client:
        client.read()
        assert client.say(b"x" * 500, None) == b"* BAD invalid command\r\n<end>"
    mail.server.wait_log("client sent too long command while in auth state")


def test_a_literal_has_a_limit(mail):
    with mail.client("imap", 8) as client:
        client.read()
        assert client.say(b"a LOGIN {100000}\r\n") == b"+ OK\r\n"
        assert client.say(b"x" * 500, None).endswith(b"BAD invalid command\r\n<end>")


def test_a_literal_that_is_not_waited_for(mail):
    """LITERAL+ (RFC 7888): its bytes are no commands, in whatever command they are."""
    with mail.client("imap", 8) as client:
        client.read()
        said = b"a ID ({10+}\r\nz LOGOUT\r\n NIL)\r\nb LOGIN {3+}\r\ntom {6+}\r\nb NOPE\r\n"
        assert client.say(said, 2) == b"a BAD invalid command\r\nb OK welcome\r\n"
    assert mail.auth.fields()["Auth-Pass"] == "b%20NOPE"
    with mail.client("imap", 8) as client:
        client.read()
        assert client.say(b"a NOOP {9999999999+}\r\nb NOOP\r\n", None) == b"a BAD invalid command\r\n<end>"


@pytest.mark.parametrize("more", [b"", b"QUIT\r\n"], ids=["silent", "with a command ahead"])
@pytest.mark.parametrize("is_tls", [False, True], ids=["plain", "tls"])
@pytest.mark.parametrize("is_shut", [False, True], ids=["closed", "shut"])
def test_a_client_that_leaves_is_not_asked_for_again(mail, more, is_tls, is_shut):
    """Auth-Status: WAIT has no end of its own."""
    mail.answer = {"Auth-Status": "WAIT", "Auth-Wait": "1"}
    line = "client prematurely closed connection while in http auth state"
    lines = mail.server.error_log.count(line)
    with mail.client("pop3", 1) as client:
        client.read()
        if is_tls:
            client.say(b"STLS\r\n")
            client.secure()
        client.say(b"USER tom\r\n")
        client.socket.sendall(b"PASS pw\r\n" + more)
        mail.auth.wait(lambda: len(mail.auth.requests) >= 2)
        if is_shut:
            client.socket.shutdown(socket.SHUT_WR)
            assert client.read(None).endswith(b"<end>")
    until(lambda: mail.server.error_log.count(line) == lines + 1, "the session's end")


def test_silent_clients_are_left(mail):
    """Those who never spoke, and those who dribble."""
    with mail.client("imap", 8) as client:
        assert client.read(None) == b"* OK IMAP4 ready\r\n<end>"
    with mail.client("imap", 8) as client:
        client.read()
        ended = []
        while not ended:
            try:
                client.socket.sendall(b"a")
                client.socket.settimeout(0.05)
                ended.append(client.socket.recv(1))
            except socket.timeout:
                pass
            except OSError:
                break
    mail.server.wait_log("client timed out .*while in auth state, client: 127.0.0.1")


def test_a_silent_authentication_server(mail):
    mail.answer = None
    with mail.client("imap", 8) as client:
        client.read()
        assert client.say(b"a LOGIN x y\r\n", None) == b"* BAD internal server error\r\n<end>"
    mail.server.wait_log("auth http server 127.0.0.1:%d timed out .*while in http auth state" % mail.auth.port)


@pytest.mark.parametrize("answer, text", [
    (b"HTTP/1.0 200 OK\r\nX: " + b"y" * 20000, "sent too long header in response"),
    (b"HTTP/1.0 200 OK\r\nAuth-Status", "prematurely closed connection"),
    (b"HTTP/1.0 200 OK\r\nAuth Status: OK\r\n\r\n", "sent invalid header in response"),
    (b"HTTP/1.0 200 OK\r\nnonsense\r\n\r\n", "sent invalid header in response"),
    (b"HTTP/1.0 200 OK\r\nAuth-Status: no\rA1 OK\r\n\r\n", "sent invalid header in response"),
    (b"HTTP/1.0 200 OK\r\nAuth-Status: no\r\nAuth-Error-Code: 5\r25\r\n\r\n", "sent invalid header in response"),
])
def test_bad_answers_of_the_authentication_server(mail, answer, text):
    mail.answer = answer
    with mail.client("pop3", 1) as client:
        client.read()
        client.say(b"USER x\r\n")
        assert client.say(b"PASS y\r\n", None) == b"-ERR internal server error\r\n<end>"
    mail.server.wait_log("auth http server 127.0.0.1:%d %s" % (mail.auth.port, text))


def test_a_login_is_no_command(mail):
    """A line end in a login may not become a command for the backend."""
    with mail.client("pop3", 1) as client:
        client.read()
        assert client.say(b"AUTH PLAIN " + plain("x\r\nDELE 1", "y") + b"\r\n", None).startswith(b"-ERR internal")
    assert b"DELE" not in mail.said("pop3")
    assert mail.auth.fields()["Auth-User"] == "x%0D%0ADELE%201"
    with mail.client("smtp", 3) as client:
        client.read()
        client.say(b"EHLO me\r\n")
        assert client.say(b"AUTH PLAIN " + plain("x y\r\nMAIL +=\xff", "y") + b"\r\n").startswith(b"235")
    assert b" LOGIN=x+20y+0D+0AMAIL+20+2B+3D+FF NAME=" in mail.said("smtp")


def test_passwords_do_not_reach_the_log(mail):
    with mail.client("smtp", 3) as client:
        client.read()
        client.say(b"MAIL FROM:<a>\r\nAUTH PLAIN %s\r\n" % plain("tom", "hunter2"), 2)
    with mail.client("imap", 8) as client:
        client.read()
        client.say(b"a LOGIN tom hunter2" + b" " * 500, None)
    log = mail.server.error_log
    assert "hunter2" not in log and plain("tom", "hunter2").decode() not in log


DEBUGGED = """
    auth_http http://127.0.0.1:%d/;
    proxy_smtp_auth on;
    proxy_pass_error_message on;
    pop3_auth plain apop cram-md5;
    imap_auth plain login cram-md5;
    smtp_auth plain login cram-md5;
    server { listen 127.0.0.1:@PORT1@; protocol pop3; }
    server { listen 127.0.0.1:@PORT2@; protocol imap; }
    server { listen 127.0.0.1:@PORT3@; protocol smtp; }
"""
SECRET = "hunter2 and more"
WORD = plain("tom", SECRET)
# What a client says, line by line, up to the end of its login.
LOGINS = [
    ("pop3", [b"USER tom\r\n", b"PASS %s\r\n" % SECRET.encode()]),
    ("pop3", [b"AUTH PLAIN\r\n", WORD + b"\r\n"]),
    ("pop3", [b"AUTH CRAM-MD5\r\n", b64("tom " + "0123456789abcdef" * 2) + b"\r\n"]),
    ("pop3", [b"APOP tom 0123456789abcdef0123456789abcdef\r\n"]),
    ("imap", [b'a LOGIN tom "%s"\r\n' % SECRET.encode()]),
    ("imap", [b"a LOGIN tom {%d}\r\n" % len(SECRET), SECRET.encode() + b"\r\n"]),
    ("imap", [b"a AUTHENTICATE LOGIN\r\n", b64("tom") + b"\r\n", b64(SECRET) + b"\r\n"]),
    ("imap", [b"a AUTHENTICATE PLAIN " + WORD + b"\r\n"]),
    ("smtp", [b"EHLO me\r\n", b"AUTH PLAIN " + WORD + b"\r\n"]),
    ("smtp", [b"EHLO me\r\n", b"AUTH LOGIN\r\n", b64("tom") + b"\r\n", b64(SECRET) + b"\r\n"]),
]


def test_no_log_level_has_credentials(mail, serve):
    """Logins that are passed on, refused, and sent to a backend that refuses them, all of it at level debug."""
    text = conf(DEBUGGED % mail.auth.port).replace("error.log info", "error.log debug")
    server = serve(conf=text)
    refusing = {"Auth-Status": "no, not you", "Auth-Wait": "0"}
    given = {"Auth-User": "ann", "Auth-Pass": "swordfish too"}
    bad = smtp_backend(AUTH=b"535 no\r\n")
    for answer in ({}, given, refusing, {"Auth-Port": str(bad.port)}):
        mail.answer = answer
        for protocol, said in LOGINS:
            port = server.port_of("PORT%d" % (1 + ("pop3", "imap", "smtp").index(protocol)))
            if "Auth-Port" in answer and protocol != "smtp":
                continue
            with MailClient(protocol, port) as client:
                client.read()
                for line in said:
                    client.say(line)
    bad.close()
    assert b"AUTH PLAIN" in b"".join(bad.lines) and b"swordfish too" in mail.said("pop3")
    log = server.error_log
    assert "[debug]" in log or "[info]" in log
    for secret in (SECRET, "swordfish", "0123456789abcdef"):
        assert secret not in log and b64(secret).decode() not in log
    for word in (WORD, plain("ann", "swordfish too"), b64("tom " + "0123456789abcdef" * 2)):
        assert word.decode() not in log


def test_handshakes_that_do_not_begin_are_logged_as_nginx_does(mail):
    server = mail.server
    for number, word in (("PORT4", b""), ("PORT2", b"a STARTTLS\r\n"), ("PORT4", b"a NOOP\r\n")):
        with MailClient("imap", server.port_of(number)) as client:
            if number == "PORT2":
                client.read()
                assert client.say(word).startswith(b"a OK")
            else:
                client.socket.sendall(word)
            client.socket.shutdown(socket.SHUT_WR)
            client.read(None)
    for text in ("peer closed connection in SSL handshake while SSL handshaking, client: 127.0.0.1",
                 "peer closed connection in SSL handshake while in starttls state, client: 127.0.0.1 using starttls",
                 "SSL_do_handshake() failed (SSL: error:0A00010B:SSL routines::wrong version number) while SSL handshaking"):
        server.wait_log(re.escape(text))


# ---- two servers that share a port

def test_servers_of_unlike_tls_on_one_port(mail, serve):
    """By the address that the client asked: one in the clear with STARTTLS, one that begins with TLS and wants a certificate."""
    text = conf("""
        auth_http http://127.0.0.1:%d/;
        server { listen *:@PORT1@; protocol imap; starttls on; ssl_certificate mx.crt; ssl_certificate_key mx.key; }
        server { listen 127.0.0.2:@PORT1@ ssl; protocol pop3; ssl_certificate other.crt; ssl_certificate_key other.key;
                 ssl_verify_client on; ssl_client_certificate root.crt; ssl_protocols TLSv1.2; }
        server { listen 127.0.0.3:@PORT1@; protocol smtp; starttls off; }
    """ % mail.auth.port)
    mail.authority.issue("other", "DNS:other.example")
    files = {name: mail.authority.read(name) for name in ("mx.crt", "mx.key", "other.crt", "other.key", "root.crt")}
    server = serve(conf=text, files=files)
    port = server.port_of("PORT1")
    names = {}
    for _ in range(2):      # a session that is resumed keeps to its server
        with MailClient("imap", port) as client:
            assert b"STARTTLS" in client.read() + client.say(b"a CAPABILITY\r\n")
            assert client.say(b"b STARTTLS\r\n").startswith(b"b OK")
            client.secure(mail.context())
            names["imap"] = client.socket.getpeercert()["subjectAltName"], client.socket.version()
        with MailClient("pop3", port, host="127.0.0.2", context=mail.context("client")) as client:
            assert client.read().startswith(b"+OK")
            names["pop3"] = client.socket.getpeercert()["subjectAltName"], client.socket.version()
        with MailClient("smtp", port, host="127.0.0.3") as client:
            assert client.read().startswith(b"220 ")
            assert b"STARTTLS" not in client.say(b"EHLO me\r\n")
            assert client.say(b"STARTTLS\r\n").startswith(b"5")
    assert names["imap"][0] == (("DNS", "mx.example"),) and names["imap"][1] == "TLSv1.3"
    assert names["pop3"] == ((("DNS", "other.example"),), "TLSv1.2")
    with MailClient("pop3", port, host="127.0.0.2", context=mail.context()) as client:
        assert client.read(None) != b"+OK POP3 ready\r\n"     # it showed no certificate
    with MailClient("pop3", port, host="127.0.0.2", raw=b"CAPA\r\n") as client:      # a plain word to TLS
        assert b"+OK" not in client.read(None)


def test_two_servers_of_one_address_are_refused(tmp_path):
    (tmp_path / "nginx.conf").write_text(
        "events { } mail { auth_http localhost; server { listen 127.0.0.1:2110; protocol pop3; }"
        " server { listen 127.0.0.1:2110 ssl; protocol imap; } }")
    done = run_binary("-t", "-p", "%s/" % tmp_path, "-c", "nginx.conf", "-e", "stderr")
    assert done.returncode == 1 and 'duplicate "127.0.0.1:2110" address and port pair' in done.stderr


# ---- SMTP

def test_a_client_that_does_not_wait_for_the_greeting(mail):
    with mail.client("smtp", 6, raw=b"EHLO me\r\n") as client:
        assert client.read(None).startswith(b"503 5.5.0 Improper use of SMTP command pipelining\r\n")
    with mail.client("smtp", 6) as client:
        assert client.read() == b"220 mx.example ESMTP ready\r\n"
    mail.server.wait_log("client was rejected before greeting")


@pytest.mark.parametrize("records, host", [
    ({"1.0.0.127.in-addr.arpa": "mail.example", "mail.example": ["127.0.0.1"]}, "mail.example"),
    ({"1.0.0.127.in-addr.arpa": "fraud.example", "fraud.example": ["127.0.0.9"]}, "[UNAVAILABLE]"),
    ({"1.0.0.127.in-addr.arpa": "gone.example", "gone.example": NXDOMAIN}, "[UNAVAILABLE]"),
])
def test_names_of_clients(mail, serve, records, host):
    """A resolver of its own each: answers are remembered."""
    made = {name: [Pointer(value)] if isinstance(value, str) else value for name, value in records.items()}
    dns = NameServer(made)
    server = serve(conf=conf("auth_http 127.0.0.1:%d; server { listen 127.0.0.1:@PORT@; protocol smtp; resolver "
                             "127.0.0.1:%d ipv6=off; }" % (mail.auth.port, dns.port)))
    with MailClient("smtp", server.port) as client:
        client.read()
        client.say(b"EHLO me\r\n")
        assert client.say(b"AUTH PLAIN " + plain("tom", "pw") + b"\r\n").startswith(b"235")
    assert mail.auth.fields()["Client-Host"] == host
    assert ("NAME=%s\r\n" % host).encode() in mail.said("smtp")
    dns.close()


def test_a_name_server_that_fails(mail):
    mail.dns.records["1.0.0.127.in-addr.arpa"] = SERVFAIL
    with mail.client("smtp", 7) as client:
        client.read()
        client.say(b"MAIL FROM:<a>\r\n")
        client.say(b"RCPT TO:<b>\r\n")
    assert mail.auth.fields()["Client-Host"] == "[TEMPUNAVAIL]"
    mail.server.wait_log(r"127.0.0.1 could not be resolved \(.*while in resolving client address state")


# ---- how sessions go on and end

def test_unix_socket(mail):
    client = socket.socket(socket.AF_UNIX)
    client.settimeout(10)
    client.connect(mail.server.path("imap.sock"))
    assert client.recv(99) == b"* OK IMAP4 ready\r\n"
    client.sendall(b"a LOGIN tom pw\r\n")
    assert client.recv(99) == b"a OK welcome\r\n"
    client.close()
    assert mail.auth.fields()["Client-IP"] == "unix:"


def test_a_session_at_rest_ends(mail):
    with mail.client("pop3", 9) as client:
        client.read()
        client.say(b"USER x\r\n")
        assert client.say(b"PASS y\r\n") == b"+OK fine\r\n"
        assert client.read(None) == b"<end>"
    mail.server.wait_log('client timed out .*while proxying, client: 127.0.0.1, server: .*, login: "x", upstream: '
                         r"127.0.0.1:%d" % mail.backends["pop3"].port)


def test_what_the_backend_said_ahead_is_delivered(mail):
    mail.backends["pop3"].close()
    mail.backends["pop3"] = pop3_backend(PASS=b"+OK in\r\n+OK more\r\n")
    with mail.client("pop3", 1) as client:
        client.read()
        assert client.say(b"USER x\r\nPASS y\r\n", 3) == b"+OK\r\n+OK in\r\n+OK more\r\n"
    mail.backends["pop3"].close()
    mail.backends["pop3"] = pop3_backend()


def test_a_backend_that_closes(mail):
    kept = mail.backends["pop3"]
    mail.backends["pop3"] = pop3_backend(USER=None, QUIT=None)
    with mail.client("pop3", 1) as client:
        client.read()
        client.say(b"USER x\r\n")
        assert client.say(b"PASS y\r\n", None) == b"-ERR internal server error\r\n<end>"
    mail.server.wait_log("upstream prematurely closed connection while reading response from upstream")
    mail.backends["pop3"].close()
    mail.backends["pop3"] = kept


def test_sessions_outlive_a_reload(mail):
    with mail.client("pop3", 1) as client:
        client.read()
        client.say(b"USER x\r\n")
        client.say(b"PASS y\r\n")
        mail.server.reload()
        with mail.client("imap", 8) as other:
            assert other.read() == b"* OK IMAP4 ready\r\n"
        assert client.say(b"STAT\r\n") == b"+OK fine\r\n"


def test_the_server_ends_while_sessions_stand(mail, serve):
    server = serve(conf=conf("auth_http 127.0.0.1:%d; server { listen 127.0.0.1:@PORT@; protocol pop3; }"
                             % mail.auth.port))
    with MailClient("pop3", server.port) as carried, MailClient("pop3", server.port) as silent, \
            MailClient("pop3", server.port) as speaking:
        for client in (carried, silent, speaking):
            client.read()
        carried.say(b"USER x\r\n")
        carried.say(b"PASS y\r\n")
        speaking.say(b"NOOP\r\n")
        server.signal("stop")
        assert [client.read(None) for client in (carried, silent, speaking)] == [b"<end>"] * 3
        assert server.wait_end() == 0


# ---- what is refused when the configuration is read

@pytest.mark.parametrize("block, message", [
    ("server { listen 1234; }", "unknown mail protocol for server in "),
    ("server { listen 1234; protocol foo; }", 'unknown protocol "foo" in '),
    ("server { protocol imap; }", 'no "listen" is defined for server in '),
    ("server { listen 1; listen 1; protocol imap; }", 'duplicate "0.0.0.0:1" address and port pair in '),
    ("server { listen 1 ssl; protocol imap; }", 'no "ssl_certificate" is defined for the "listen ... ssl" directive in '),
    ("server { listen 1; protocol imap; starttls on; }", 'no "ssl_certificate" is defined for the "starttls" directive'),
    ("server { listen 1 default_server; protocol imap; }", 'the invalid "default_server" parameter in '),
    ("server { listen 127.0.0.1; protocol imap; }", 'no port in "127.0.0.1" of the "listen" directive in '),
    ("pop3_auth login;", 'invalid value "login" in '),
    ("auth_http http://;", 'no host in auth_http "" in '),
    ("ssl on; starttls on;", '"ssl" directive conflicts with "starttls" in '),
    ("auth_http_header A;", 'invalid number of arguments in "auth_http_header" directive in '),
])
def test_bad_configurations(tmp_path, block, message):
    (tmp_path / "logs").mkdir()
    (tmp_path / "nginx.conf").write_text("events {}\nmail { auth_http 127.0.0.1:1;\n%s\n}\n" % block)
    done = run_binary("-t", "-p", str(tmp_path) + "/", "-c", "nginx.conf", "-e", "error.log",
                      binary=binaries.under_test())
    assert done.returncode == 1 and message in done.stderr, done.stderr


def test_no_authentication_server(tmp_path):
    (tmp_path / "nginx.conf").write_text("events {}\nmail {\nserver { listen 1; protocol imap; }\n}\n")
    done = run_binary("-t", "-p", str(tmp_path) + "/", "-c", "nginx.conf", "-e", "error.log")
    assert done.returncode == 1 and 'no "auth_http" is defined for server in ' in done.stderr
