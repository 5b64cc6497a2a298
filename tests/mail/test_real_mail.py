"""dovecot (imap, pop3, submission) and OpenSMTPD behind us, asked by Python's clients and by openssl s_client."""

import base64
import hashlib
import hmac
import imaplib
import os
import poplib
import re
import smtplib
import ssl
import subprocess

import pytest

from harness import Server, ports, until
from harness.certificates import Authority
from harness.programs import Program, connects, find, home, own
from mail.stage import AuthServer, conf

DOVECOT = find("dovecot")
SMTPD = find("smtpd")
IS_ROOT = os.getuid() == 0

LIBEXEC = "/usr/lib/dovecot"
LOGINS = ["/usr/lib/dovecot/imap-login", "/usr/lib/dovecot/pop3-login"]

needs_dovecot = pytest.mark.skipif(not (DOVECOT and IS_ROOT and all(map(os.path.exists, LOGINS))), reason="no dovecot, or not root")
has_submission = bool(DOVECOT and os.path.exists(LIBEXEC + "/submission-login"))
needs_smtpd = pytest.mark.skipif(not (SMTPD and IS_ROOT and subprocess.run(["unshare", "-m", "true"], check=False).returncode == 0),
                                 reason="no OpenSMTPD, or no mount namespaces")

CONF = """
    auth_http http://127.0.0.1:%(auth)d/;
    server_name mx.example;
    ssl_certificate mx.crt;
    ssl_certificate_key mx.key;
    proxy_pass_error_message on;
    imap_auth plain login cram-md5;
    pop3_auth plain apop cram-md5;
    server { listen 127.0.0.1:@PORT1@; protocol imap; starttls on; }
    server { listen 127.0.0.1:@PORT2@; protocol pop3; starttls on; }
    server { listen 127.0.0.1:@PORT3@; protocol smtp; starttls on; smtp_auth none; xclient off; }
    server { listen 127.0.0.1:@PORT4@ ssl; protocol imap; proxy_protocol on; }
    server { listen 127.0.0.1:@PORT5@; protocol smtp; starttls only; smtp_auth plain login cram-md5; xclient off; }
    server { listen 127.0.0.1:@PORT6@; protocol smtp; proxy_smtp_auth on; xclient on; smtp_auth plain login; timeout 20s; }
"""

DOVECOT_CONF = """
base_dir = %(dir)s/run
state_dir = %(dir)s/run
log_path = %(dir)s/dovecot.log
info_log_path = %(dir)s/dovecot.log
protocols = imap pop3 %(submission_protocol)s
listen = 127.0.0.1
ssl = no
disable_plaintext_auth = no
auth_mechanisms = plain login cram-md5
auth_failure_delay = 0
auth_cache_size = 0
mail_location = maildir:%(dir)s/mail/%%u
mail_fsync = never
first_valid_uid = 1
default_internal_user = dovecot
default_login_user = dovenull
haproxy_trusted_networks = 127.0.0.0/8
passdb {
  driver = passwd-file
  args = %(dir)s/users
}
userdb {
  driver = static
  args = uid=nobody gid=nogroup home=%(dir)s/mail/%%u
}
service imap-login {
  inet_listener imap {
    port = %(imap)d
  }
  inet_listener imaps {
    port = 0
  }
  inet_listener imap-haproxy {
    port = %(haproxy)d
    haproxy = yes
  }
}
%(submission_services)s
service pop3-login {
  inet_listener pop3 {
    port = %(pop3)d
  }
  inet_listener pop3s {
    port = 0
  }
}
"""

SUBMISSION = """
login_trusted_networks = 127.0.0.0/8
submission_relay_host = 127.0.0.1
submission_relay_port = %(smtp)d
service submission {
  executable = %(libexec)s/submission
}
service submission-login {
  executable = %(libexec)s/submission-login
  inet_listener submission {
    port = %(submission)d
  }
}
"""

SMTPD_CONF = """
table users { "tom" = "65534:65534:%(dir)s/mail" }
listen on 127.0.0.1 port %(smtp)d hostname backend.example
action "keep" maildir "%(dir)s/mail/tom" userbase <users> user nobody
match from any for domain "mx.example" action "keep"
"""

PASSWORD = 'se"cr\\et{5}'


class Stage:
    """All of it, started once: `answer` is what the authentication server says besides the address."""

    def __init__(self):
        self.dir = home("mail", "root")
        self.ports = {name: ports.take() for name in ("imap", "pop3", "smtp", "haproxy", "submission")}
        self.numbers = {name: port.number for name, port in self.ports.items()}
        self.authority = Authority(self.dir)
        self.authority.issue("mx", "DNS:mx.example")
        self.answer = {}
        self.auth = AuthServer(self._answer)
        self.programs = {}
        for name in ("mail", "run"):
            os.mkdir(self.path(name))
        own(self.path("mail"))
        self.server = Server(conf=conf(CONF % {"auth": self.auth.port}),
                             files={name: self.authority.read(name) for name in ("mx.crt", "mx.key", "root.crt")})

    def path(self, *names):
        return os.path.join(self.dir, *names)

    def _answer(self, fields):
        return {"Auth-Status": "OK", "Auth-Server": "127.0.0.1",
                "Auth-Port": str(self.numbers[fields["Auth-Protocol"]]), **self.answer}

    def write(self, name, text, mode=0o644):
        with open(self.path(name), "w", encoding="ascii") as out:
            out.write(text)
        os.chmod(self.path(name), mode)
        return self.path(name)

    def start(self):
        self.server.start()
        names = dict(self.numbers, dir=self.dir, libexec=LIBEXEC, submission_protocol="", submission_services="")
        if has_submission:
            names.update(submission_protocol="submission", submission_services=SUBMISSION % names)
        if needs_dovecot.args[0] is False:
            self.write("users", "tom:{PLAIN}%s::::::\n" % PASSWORD.replace(":", ""))
            path = self.write("dovecot.conf", DOVECOT_CONF % names)
            self._begin("dovecot", [DOVECOT, "-F", "-c", path], self.numbers["imap"])
        if needs_smtpd.args[0] is False:
            path = self.write("smtpd.conf", SMTPD_CONF % names)
            # Its control socket and its spool have places of their own, whatever the configuration says. Its package does not make the spool.
            box = "mount -t tmpfs -o mode=755 none /run && mount -t tmpfs -o mode=755 none /var/spool && mkdir -m 711 /var/spool/smtpd && exec \"$@\""
            self._begin("smtpd", ["unshare", "-m", "sh", "-c", box, "box", SMTPD, "-d", "-f", path], self.numbers["smtp"])

    def _begin(self, name, words, port):
        self.programs[name] = Program(words, self.dir, lambda: connects(port), user=None)
        self.programs[name].start()

    def close(self):
        for program in self.programs.values():
            program.stop()
        self.auth.close()
        for port in self.ports.values():
            port.close()
        self.server.close()

    def port(self, number):
        return self.server.port_of("PORT%d" % number)

    def context(self):
        context = ssl.create_default_context(cafile=self.authority.path("root.crt"))
        context.check_hostname = False
        return context


@pytest.fixture(scope="module", name="stage")
def make_stage():
    made = Stage()
    try:
        made.start()
        yield made
    finally:
        made.close()


@pytest.fixture(name="mail")
def make_mail(stage):
    stage.answer = {}
    stage.auth.requests.clear()
    return stage


# ---- dovecot

def letter(size=10):
    return ("Subject: hello\r\n\r\n" + "line %d\r\n" * size % tuple(range(size))).encode()


@needs_dovecot
def test_dovecot_keeps_and_gives_letters(mail):
    client = imaplib.IMAP4("127.0.0.1", mail.port(1), timeout=20)
    client.starttls(mail.context())
    assert client.login("tom", PASSWORD)[0] == "OK"
    large = letter(200000)
    assert client.append("INBOX", None, None, large)[0] == "OK"
    assert client.select("INBOX")[0] == "OK"
    found = client.search(None, "ALL")[1][0].split()
    assert client.fetch(found[-1], "(BODY.PEEK[])")[1][0][1] == large
    assert client.logout()[0] == "BYE"


def s_client(port, protocol):
    return ["timeout", "30", "openssl", "s_client", "-starttls", protocol, "-connect", "127.0.0.1:%d" % port, "-quiet", "-crlf",
            "-name", "me.example"]


def heard_of_openssl(port, protocol, text):
    """What a server says to openssl s_client behind STARTTLS."""
    done = subprocess.run(s_client(port, protocol), input=text, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=30,
                          check=False)
    return done.stdout


@needs_dovecot
def test_dovecot_by_cram_md5(mail):
    """The digest is checked by the authentication server, which gives the password."""
    mail.answer = {"Auth-Pass": PASSWORD}
    client = imaplib.IMAP4("127.0.0.1", mail.port(1), timeout=20)
    assert client.login_cram_md5("tom", "whatever")[0] == "OK"
    fields = mail.auth.fields()
    digest = hmac.new(b"whatever", fields["Auth-Salt"].encode(), hashlib.md5).hexdigest()
    assert fields["Auth-Method"] == "cram-md5" and fields["Auth-Pass"] == digest
    assert client.noop()[0] == "OK"
    client.logout()


@needs_dovecot
def test_dovecot_by_literals_and_by_plain(mail):
    client = imaplib.IMAP4_SSL("127.0.0.1", mail.port(4), timeout=20, ssl_context=mail.context())
    mail.answer = {"Auth-Port": str(mail.numbers["haproxy"])}
    assert client.authenticate("PLAIN", lambda _: b"\0tom\0" + PASSWORD.encode())[0] == "OK"
    client.logout()
    client = imaplib.IMAP4_SSL("127.0.0.1", mail.port(4), timeout=20, ssl_context=mail.context())
    client.literal = PASSWORD.encode()
    assert client._simple_command("LOGIN", "tom")[0] == "OK"
    client.state = "AUTH"
    assert client.list()[0] == "OK"
    client.logout()


@needs_dovecot
def test_dovecot_refuses_in_its_own_words(mail):
    client = imaplib.IMAP4("127.0.0.1", mail.port(1), timeout=20)
    with pytest.raises(imaplib.IMAP4.error, match="Authentication failed"):
        client.login("tom", "wrong")
    client.shutdown()


@needs_dovecot
def test_dovecot_idles_and_is_told(mail):
    """IDLE: a session that only listens hears of a letter that another one brings."""
    idler = imaplib.IMAP4("127.0.0.1", mail.port(1), timeout=40)
    other = imaplib.IMAP4("127.0.0.1", mail.port(1), timeout=20)
    for client in (idler, other):
        assert client.login("tom", PASSWORD)[0] == "OK"
    assert idler.select("INBOX")[0] == "OK"
    idler.send(b"i1 IDLE\r\n")
    assert idler.readline().startswith(b"+ ")
    assert other.append("INBOX", None, None, letter())[0] == "OK"
    while not re.match(rb"\* \d+ EXISTS", idler.readline()):
        pass
    idler.send(b"DONE\r\n")
    other.logout()
    idler.shutdown()


@needs_dovecot
def test_dovecot_pop3(mail):
    imap = imaplib.IMAP4("127.0.0.1", mail.port(1), timeout=20)
    imap.login("tom", PASSWORD)
    imap.append("INBOX", None, None, letter(50000))
    imap.logout()
    client = poplib.POP3("127.0.0.1", mail.port(2), timeout=20)
    assert "STLS" in client.capa()
    client.stls(mail.context())
    client.user("tom")
    client.pass_(PASSWORD)
    count = client.stat()[0]
    assert b"\r\n".join(client.retr(count)[1]) + b"\r\n" == letter(50000)
    client.dele(count)
    client.quit()


@needs_dovecot
def test_dovecot_behind_openssl(mail):
    word = base64.b64encode(b"\0tom\0" + PASSWORD.encode())
    said = heard_of_openssl(mail.port(1), "imap", b"a AUTHENTICATE PLAIN " + word + b"\nb LIST \"\" *\nc LOGOUT\n")
    assert b"a OK" in said and b"b OK" in said and b"c OK" in said, said
    assert mail.auth.fields()["Auth-SSL"] == "on"
    said = heard_of_openssl(mail.port(2), "pop3", b"USER tom\nPASS " + PASSWORD.encode() + b"\nSTAT\nQUIT\n")
    assert re.search(rb"\+OK \d+ \d+\r\n", said) and said.count(b"+OK") >= 4, said


# ---- OpenSMTPD

def delivered(mail, text):
    """Is there a letter with this text?"""
    for folder, _, names in os.walk(mail.path("mail", "tom", "new")):
        for name in names:
            with open(os.path.join(folder, name), encoding="latin-1") as source:
                if text in source.read():
                    return True
    return False


@needs_smtpd
def test_smtpd_takes_a_letter_without_login(mail):
    client = smtplib.SMTP("127.0.0.1", mail.port(3), "me.example", timeout=20)
    client.starttls(context=mail.context())
    body = "".join("line %d\r\n.\r\n" % i for i in range(20000)) + "the end of the first\r\n"
    assert client.sendmail("ann@me.example", ["tom@mx.example"], "Subject: hello\r\n\r\n" + body) == {}
    client.quit()
    fields = mail.auth.fields()
    assert fields["Auth-Method"] == "none" and "tom@mx.example" in fields["Auth-SMTP-To"]
    until(lambda: delivered(mail, "line 19999\n.\nthe end of the first"), mail.programs["smtpd"].log)


@needs_smtpd
def test_smtpd_refuses_a_recipient_in_its_own_words(mail):
    client = smtplib.SMTP("127.0.0.1", mail.port(3), "me.example", timeout=20)
    with pytest.raises(smtplib.SMTPRecipientsRefused) as refused:
        client.sendmail("ann@me.example", ["tom@elsewhere.example"], "x")
    assert refused.value.recipients["tom@elsewhere.example"][0] == 550
    client.close()


@needs_smtpd
@pytest.mark.parametrize("method", ["PLAIN", "LOGIN", "CRAM-MD5"])
def test_smtpd_takes_a_letter_of_who_logged_in(mail, method):
    """Logged in to us: a backend in the clear is asked for no password."""
    client = smtplib.SMTP("127.0.0.1", mail.port(5), "me.example", timeout=20)
    client.ehlo()
    assert not client.has_extn("auth")
    client.starttls(context=mail.context())
    client.ehlo()
    assert method in client.esmtp_features["auth"]
    client.user, client.password = "tom", PASSWORD
    challenged = {"PLAIN": client.auth_plain, "LOGIN": client.auth_login, "CRAM-MD5": client.auth_cram_md5}
    assert client.auth(method, challenged[method])[0] == 235
    client.sendmail("tom@mx.example", ["tom@mx.example"], "Subject: %s\r\n\r\nby %s\r\n" % (method, method))
    client.quit()
    until(lambda: delivered(mail, "by %s\n" % method), mail.programs["smtpd"].log)


@needs_smtpd
def test_smtpd_behind_openssl(mail):
    """Line by line: this backend knows no pipelining."""
    with subprocess.Popen(s_client(mail.port(3), "smtp"), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL) as client:
        for line, reply in ((b"EHLO me.example", b"250 "), (b"MAIL FROM:<ann@me.example>", b"250 "),
                            (b"RCPT TO:<tom@mx.example>", b"250 "), (b"DATA", b"354 "),
                            (b"Subject: x\n\nby openssl\n.", b"250 "), (b"QUIT", b"221 ")):
            client.stdin.write(line + b"\n")
            client.stdin.flush()
            said = client.stdout.readline()
            while said[3:4] == b"-":
                said = client.stdout.readline()
            assert said.startswith(reply), (line, said)
    until(lambda: delivered(mail, "by openssl\n"), mail.programs["smtpd"].log)


# ---- dovecot's submission, which takes XCLIENT and a login, and gives letters to OpenSMTPD

needs_both = pytest.mark.skipif(not has_submission or needs_dovecot.args[0] or needs_smtpd.args[0], reason="no dovecot-submissiond, or no OpenSMTPD")


@needs_both
@pytest.mark.parametrize("method", ["PLAIN", "LOGIN"])
def test_submission_hears_of_client_and_login(mail, method):
    """The address of the client goes by XCLIENT, its password by AUTH; the letter goes the whole way."""
    mail.answer = {"Auth-Port": str(mail.numbers["submission"])}
    host = {"PLAIN": "127.0.0.5", "LOGIN": "127.0.0.6"}[method]
    client = smtplib.SMTP("127.0.0.1", mail.port(6), "me.example", timeout=20, source_address=(host, 0))
    client.ehlo()
    client.user, client.password = "tom", PASSWORD
    challenged = {"PLAIN": client.auth_plain, "LOGIN": client.auth_login}
    assert client.auth(method, challenged[method])[0] == 235
    client.sendmail("tom@mx.example", ["tom@mx.example"], "Subject: x\r\n\r\nsubmitted by %s\r\n" % method)
    client.quit()
    until(lambda: delivered(mail, "submitted by %s\n" % method), mail.programs["smtpd"].log)

    def logged():
        with open(mail.path("dovecot.log"), encoding="latin-1") as log:
            return re.search(r"submission-login: Info: Login: user=<tom>, method=PLAIN, rip=%s," % re.escape(host), log.read())
    until(logged, mail.programs["dovecot"].log)


@needs_both
def test_submission_refuses_in_its_own_words(mail):
    mail.answer = {"Auth-Port": str(mail.numbers["submission"])}
    client = smtplib.SMTP("127.0.0.1", mail.port(6), "me.example", timeout=20)
    client.ehlo()
    client.user, client.password = "tom", "wrong"
    with pytest.raises(smtplib.SMTPAuthenticationError) as refused:
        client.auth("PLAIN", client.auth_plain)
    assert (refused.value.smtp_code, refused.value.smtp_error) == (535, b"5.7.8 Authentication failed.")
    client.close()
