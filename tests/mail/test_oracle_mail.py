"""The same conversations with this server and with the reference: what clients, the authentication server and backends get."""

import os
import re

import pytest

from harness import Server, binaries
from mail.stage import AuthServer, MailClient, b64, conf, imap_backend, plain, pop3_backend, smtp_backend

pytestmark = pytest.mark.skipif(not os.path.exists("/usr/lib/nginx/modules/ngx_mail_module.so"),
                                reason="the reference has no mail")

SERVERS = """
    auth_http http://127.0.0.1:%(auth)d/path?q=1;
    auth_http_header X-Key "a b";
    server_name mx.example;
    proxy on;
    max_errors 4;
    server { listen 127.0.0.1:@PORT1@; protocol pop3; }
    server { listen 127.0.0.1:@PORT2@; protocol pop3; pop3_auth apop cram-md5 external; pop3_capabilities A USER; }
    server { listen 127.0.0.1:@PORT3@; protocol imap; }
    server { listen 127.0.0.1:@PORT4@; protocol imap; imap_auth login cram-md5 external; imap_capabilities X Y; }
    server { listen 127.0.0.1:@PORT5@; protocol smtp; xclient off; }
    server { listen 127.0.0.1:@PORT6@; protocol smtp; smtp_auth plain login cram-md5 external none;
             smtp_capabilities "SIZE 100" B; }
    server { listen 127.0.0.1:@PORT7@; protocol smtp; smtp_auth none; proxy_smtp_auth on; proxy_pass_error_message on; }
    server { listen 127.0.0.1:@PORT8@; protocol pop3; proxy_pass_error_message on; proxy_protocol on; }
    server { listen 127.0.0.1:@PORT9@ proxy_protocol; protocol imap; set_real_ip_from 127.0.0.1;
             proxy_pass_error_message on; }
    server { listen 127.0.0.1:@PORT10@; protocol pop3; max_errors 2; }
"""
PORTS = {"PORT1": "pop3", "PORT2": "pop3", "PORT3": "imap", "PORT4": "imap", "PORT5": "smtp", "PORT6": "smtp",
         "PORT7": "smtp", "PORT8": "pop3", "PORT9": "imap", "PORT10": "pop3"}


def answer_of(stage):
    """What the authentication server says depends on who asks."""
    def answer(fields):
        user = fields["Auth-User"]
        if user.startswith("no"):
            return {"Auth-Status": "Go away", "Auth-Error-Code": "454 4.7.0"}
        if user.startswith("again"):
            return {"Auth-Status": "Try again", "Auth-Wait": "1"}
        if user.startswith("nowhere"):
            return {"Auth-Status": "OK"}
        if user.startswith("badport"):
            return {"Auth-Status": "OK", "Auth-Server": "127.0.0.1", "Auth-Port": "99999"}
        if user.startswith("badhost"):
            return {"Auth-Status": "OK", "Auth-Server": "a.example", "Auth-Port": "1"}
        if user.startswith("garbage"):
            return b"what?\r\n\r\n"
        where = fields["Auth-Protocol"] + ("-refuses" if user.startswith("refused") else "")
        found = {"Auth-Status": "OK", "Auth-Server": "127.0.0.1", "Auth-Port": str(stage.backends[where].port)}
        if user.startswith("other"):
            found.update({"Auth-User": "real", "Auth-Pass": "secret word"})
        return found
    return answer


class Stage:
    """One server with an authentication server and backends of its own."""

    def __init__(self, binary):
        self.auth = AuthServer(lambda fields: answer_of(self)(fields))
        self.backends = {
            "pop3": pop3_backend(), "imap": imap_backend(), "smtp": smtp_backend(),
            "pop3-refuses": pop3_backend(PASS=b"-ERR [AUTH] no\r\n"),
            "imap-refuses": imap_backend(login=b"%s NO [AUTH] no\r\n"),
            "smtp-refuses": smtp_backend(AUTH=b"535 no\r\n", MAIL=b"550 no mail\r\n")}
        self.server = Server(conf=conf(SERVERS % {"auth": self.auth.port}, binary), binary=binary)
        self.server.start()

    def close(self):
        self.server.close()
        self.auth.close()
        for backend in self.backends.values():
            backend.close()

    def said_to_backends(self):
        return {name: b"".join(backend.lines) for name, backend in self.backends.items() if backend.lines}


@pytest.fixture(scope="module", name="stages")
def make_stages():
    made = [Stage(binaries.under_test()), Stage(binaries.reference())]
    yield made
    for stage in made:
        stage.close()


def without_chance(data):
    """What differs from run to run: salts, ports."""
    if isinstance(data, str):
        data = data.encode("latin-1")
    data = re.sub(rb"<\d+\.\d+@", b"<SALT@", data)
    data = re.sub(rb"(\+|334) PD[A-Za-z0-9+=/]+", rb"\1 CHALLENGE", data)
    return re.sub(rb"(PROXY TCP4 \S+ \S+) \d+ \d+", rb"\1 P P", data)


def converse(stage, port, steps):
    """What the client, the authentication server and the backends saw."""
    stage.auth.requests.clear()
    for backend in stage.backends.values():
        backend.lines.clear()
    replies = []
    raw = b"PROXY TCP4 192.0.2.1 192.0.2.2 1111 2222\r\n" if port == "PORT9" else b""
    with MailClient(PORTS[port], stage.server.port_of(port), raw=raw) as client:
        replies.append(client.read())
        for step in steps:
            data, count = step if isinstance(step, tuple) else (step, 1)
            replies.append(client.say(data, count))
    for backend in stage.backends.values():
        if backend.lines:
            backend.wait(lambda backend=backend: b"" in backend.lines)
    return ([without_chance(reply) for reply in replies],
            [without_chance(request) for request in stage.auth.requests],
            {name: without_chance(said) for name, said in stage.said_to_backends().items()})


END = None  # in place of a number of replies: to the end of the connection
CONVERSATIONS = [
    # POP3: what may be said before a login
    ("PORT1", b"CAPA\r\n", b"AUTH\r\n", b"NOOP\r\n", b"noop x y z\r\n", (b"QUIT\r\n", END)),
    ("PORT2", b"CAPA\r\n", b"AUTH\r\n", (b"QUIT extra\r\n", END)),
    ("PORT1", b"USER\r\n", b"PASS x\r\n", b"STLS\r\n", b"APOP a b\r\n", b"AUTH FOO\r\n", b"AUTH CRAM-MD5\r\n"),
    ("PORT1", b"FOO\r\n", b"\r\n", b"x\n", (b"NOOP a b c d\r\n", END)),
    ("PORT1", b"NOOP\n", b"NOOP\r\r\n", b" NOOP\r\n", b"NOOP \r\n", b"USERX a\r\n"),
    ("PORT1", (b"NOOP\r\nCAPA\r\nNOOP\r\n", 3)),
    ("PORT1", b"USER tom\r\n", b"NOOP\r\n", b"CAPA\r\n", b"AUTH\r\n", b"PASS late\r\n"),
    ("PORT1", b"USER x\r\n", (b"QUIT\r\n", END)),
    ("PORT10", (b"A\r\nB\r\nC\r\n", END)),
    ("PORT10", (b"NOOP " + b"x" * 5000 + b"\r\n", END)),
    # … and logins that are refused
    ("PORT1", b"USER no body\r\n", (b"PASS  my pass \r\n", END)),
    ("PORT1", b"AUTH PLAIN\r\n", (plain("no", "p") + b"\r\n", END)),
    ("PORT1", (b"AUTH PLAIN " + b64("z\0no%w\0p\n\x01 \"\\") + b"\r\n", END)),
    ("PORT1", b"AUTH PLAIN !!!\r\n", b"AUTH PLAIN " + b64("nonul") + b"\r\n",
     b"AUTH PLAIN " + b64("\0nopass") + b"\r\n", b"AUTH PLAIN x y\r\n"),
    ("PORT1", b"AUTH LOGIN\r\n", b64("no") + b"\r\n", (b64("p w") + b"\r\n", END)),
    ("PORT1", b"AUTH LOGIN " + b64("no") + b"\r\n", (b64("p w") + b"\r\n", END)),
    ("PORT1", (b"auth login\r\n!!\r\n", 2), (b"auth plain\r\n*\r\n", 2)),
    ("PORT2", (b"APOP no c4c9\r\n", END)),
    ("PORT2", b"APOP x\r\n", b"APOP a b c\r\n", b"APOP\r\n"),
    ("PORT2", b"AUTH CRAM-MD5\r\n", (b64("no " + "a" * 32) + b"\r\n", END)),
    ("PORT2", b"AUTH CRAM-MD5\r\n", b64("no abc") + b"\r\n", b"AUTH CRAM-MD5 x\r\n"),
    ("PORT2", b"AUTH EXTERNAL\r\n", (b64("no") + b"\r\n", END)),
    ("PORT2", (b"AUTH EXTERNAL " + b64("no") + b"\r\n", END)),
    ("PORT1", b"USER again\r\n", b"PASS p\r\n", b"USER no\r\n", (b"PASS p\r\n", END)),
    ("PORT1", b"USER nowhere\r\n", (b"PASS p\r\n", END)),
    ("PORT1", b"USER badport\r\n", (b"PASS p\r\n", END)),
    ("PORT1", b"USER badhost\r\n", (b"PASS p\r\n", END)),
    ("PORT1", b"USER garbage\r\n", (b"PASS p\r\n", END)),
    # … and logins that work
    ("PORT1", b"USER u\r\n", b"PASS p\r\n", b"STAT\r\n", b"QUIT\r\n"),
    ("PORT1", (b"USER u\r\nPASS p\r\nSTAT\r\nQUIT\r\n", 4)),
    ("PORT2", b"APOP other c4\r\n", b"STAT\r\n"),
    ("PORT2", (b"APOP u c4\r\n", END)),
    ("PORT1", b"USER refused\r\n", (b"PASS p\r\n", END)),
    ("PORT8", b"USER u\r\n", b"PASS p\r\n"),
    # IMAP
    ("PORT3", b"a CAPABILITY\r\n", b"b noop\r\n", b"c NOOP x\r\n", b"a1-2.x NOOP\r\n", (b"d LOGOUT\r\n", END)),
    ("PORT4", b"a CAPABILITY x\r\n", b"a  NOOP\r\n", b"a NOOP\n"),
    ("PORT3", b"a LOGIN x\r\n", b"a LOGIN x y z\r\n", b"a LOGIN\r\n", b"a AUTHENTICATE\r\n", b"a AUTHENTICATE FOO\r\n",
     b"a AUTHENTICATE CRAM-MD5\r\n", b"a STARTTLS\r\n"),
    ("PORT3", b"a FOO\r\n", b"a\r\n", b"\r\n", (b"* NOOP\r\n", END)),
    ("PORT3", b"tag{1} NOOP\r\n", b"a" * 60 + b" NOOP\r\n", b"a FOO x y z\r\n"),
    ("PORT3", b"a LOGIN \"no\"b c\r\n", b"a LOGIN \"no\r\n", b"a LOGIN {x}\r\n", b"a LOGIN {3}x\r\n"),
    ("PORT3", (b"a LOGIN no p\r\n", END)),
    ("PORT3", (b"a LOGIN \"no q\\\"x\" \"p\\\\\"\r\n", END)),
    ("PORT3", (b"a LOGIN  no  p\r\n", END)),
    ("PORT3", b"a LOGIN {4}\r\n", b"no x {2}\r\n", (b"de\r\n", END)),
    ("PORT3", b"a LOGIN {4}\r\n", b"no\rc {2}\r\n", (b"d\n\r\n", END)),
    ("PORT3", b"a AUTHENTICATE PLAIN\r\n", (plain("no", "p") + b"\r\n", END)),
    ("PORT3", (b"a AUTHENTICATE PLAIN " + plain("no", "p") + b"\r\n", END)),
    ("PORT4", b"a AUTHENTICATE LOGIN\r\n", b64("no") + b"\r\n", (b64("p") + b"\r\n", END)),
    ("PORT4", b"a AUTHENTICATE CRAM-MD5\r\n", (b64("no " + "b" * 32) + b"\r\n", END)),
    ("PORT4", (b"a AUTHENTICATE EXTERNAL =\r\n", 1)),
    ("PORT3", b"a LOGIN u p\r\n", b"b NOOP\r\n", b"c LOGOUT\r\n"),
    ("PORT3", (b"a LOGIN \"u x\" \"p\\\"q\"\r\nb NOOP\r\n", 2)),
    ("PORT3", (b"a LOGIN refused p\r\n", END)),
    ("PORT9", b"a LOGIN u p\r\n"),
    # SMTP
    ("PORT5", b"HELO\r\n", b"EHLO\r\n", b"HELO a b\r\n", b"HELO me\r\n", b"EHLO me\r\n", b"NOOP x\r\n", b"RSET\r\n",
     (b"QUIT\r\n", END)),
    ("PORT6", b"EHLO me\r\n", b"AUTH\r\n", b"AUTH FOO\r\n", b"STARTTLS\r\n", b"DATA\r\n", b"VRFY x\r\n", b"EXPN x\r\n",
     b"HELP\r\n", b"NOOP\r\n"),
    ("PORT5", b"FOO\r\n", b"\r\n", b"NOOP\r\r\n", (b" NOOP\r\n", END)),
    ("PORT5", b"EHLO x\r\n", b"MAIL FROM:<a@b>\r\n", b"RCPT TO:<a@b>\r\n"),
    ("PORT5", (b"AUTH PLAIN " + plain("no", "p") + b"\r\n", END)),
    ("PORT5", b"AUTH LOGIN\r\n", b64("no") + b"\r\n", (b64("p") + b"\r\n", END)),
    ("PORT5", b"AUTH PLAIN\r\n", b"*\r\n", b"AUTH PLAIN !!\r\n", b"AUTH CRAM-MD5\r\n"),
    ("PORT6", b"AUTH CRAM-MD5\r\n", (b64("no " + "c" * 32) + b"\r\n", END)),
    ("PORT6", b"AUTH EXTERNAL\r\n", (b64("no") + b"\r\n", END)),
    ("PORT7", b"EHLO x\r\n", b"RCPT TO:<c@d>\r\n", b"MAIL\r\n", b"MAIL FROM:<a@b> SIZE=3 \r\n", b"MAIL FROM:<b@b>\r\n",
     b"RCPT\r\n", b"RSET\r\n", b"RCPT TO:<c@d>\r\n"),
    ("PORT5", b"EHLO me\r\n", b"AUTH PLAIN " + plain("u", "p") + b"\r\n", b"MAIL FROM:<x>\r\n", b"QUIT\r\n"),
    ("PORT6", b"EHLO me\r\n", b"AUTH PLAIN " + plain("u", "p") + b"\r\n", b"MAIL FROM:<x>\r\n"),
    ("PORT6", b"HELO me\r\n", b"MAIL FROM:<x>\r\n", (b"RCPT TO:<y>\r\nRCPT TO:<z>\r\nDATA\r\n", 3)),
    ("PORT6", b"MAIL FROM:<x>\r\n", b"RCPT  TO:<y> \r\n"),
    ("PORT7", b"EHLO me\r\n", b"AUTH PLAIN " + plain("u", "p") + b"\r\n", b"NOOP\r\n"),
    ("PORT7", b"EHLO me\r\n", (b"AUTH PLAIN " + plain("refused", "p") + b"\r\n", END)),
    ("PORT6", (b"AUTH PLAIN " + plain("nowhere", "p") + b"\r\n", END)),
]


@pytest.mark.parametrize("number", range(len(CONVERSATIONS)))
def test_same_conversation(stages, number):
    port, *steps = CONVERSATIONS[number]
    ours, theirs = (converse(stage, port, steps) for stage in stages)
    assert ours == theirs
