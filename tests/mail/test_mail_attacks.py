"""Mail over TLS, by STARTTLS and from the start: clients leave at every step, say what they like in pieces of chance, and the service reloads.
TEST_SEEDS="b c d" tries others."""

import os
import random
import smtplib
import socket
import ssl
import threading

import pytest

from harness import until
from harness.certificates import Authority
from harness.workers import wait_workers
from mail.stage import AuthServer, conf, imap_backend, plain, pop3_backend, smtp_backend

CONF = """
    auth_http http://127.0.0.1:%(auth)d/;
    server_name mx.example; timeout 2s; proxy_timeout 2s; auth_http_timeout 1s;
    ssl_certificate mx.crt; ssl_certificate_key mx.key;
    server { listen 127.0.0.1:@PORT1@; protocol pop3; starttls on; }
    server { listen 127.0.0.1:@PORT2@; protocol imap; starttls on; }
    server { listen 127.0.0.1:@PORT3@; protocol smtp; starttls on; smtp_auth plain login none; }
    server { listen 127.0.0.1:@PORT4@ ssl; protocol imap; }
    server { listen 127.0.0.1:@PORT5@ ssl; protocol pop3; }
    server { listen 127.0.0.1:@PORT6@ ssl; protocol smtp; smtp_auth plain; }
"""

STARTS = {"PORT1": [b"STLS\r\n"], "PORT2": [b"a STARTTLS\r\n"], "PORT3": [b"EHLO a\r\n", b"STARTTLS\r\n"], "PORT4": [], "PORT5": [], "PORT6": []}
SAYINGS = {
    "pop3": [b"CAPA\r\n", b"USER joe\r\n", b"PASS secret\r\n", b"AUTH PLAIN\r\n", plain("joe", "secret") + b"\r\n", b"APOP a b\r\n", b"NOOP\r\n", b"STAT\r\n", b"QUIT\r\n"],
    "imap": [b"a CAPABILITY\r\n", b"a LOGIN joe secret\r\n", b'a LOGIN "joe" {6}\r\n', b"secret\r\n", b"a AUTHENTICATE PLAIN\r\n", plain("joe", "secret") + b"\r\n",
             b"a NOOP\r\n", b"a SELECT x\r\n", b"a LOGOUT\r\n"],
    "smtp": [b"EHLO a\r\n", b"AUTH PLAIN " + plain("joe", "secret") + b"\r\n", b"AUTH LOGIN\r\n", b"am9l\r\n", b"MAIL FROM:<a@b>\r\n", b"RCPT TO:<c@d>\r\n", b"DATA\r\n",
             b"text\r\n.\r\n", b"RSET\r\n", b"QUIT\r\n"],
}
PROTOCOL = {"PORT1": "pop3", "PORT2": "imap", "PORT3": "smtp", "PORT4": "imap", "PORT5": "pop3", "PORT6": "smtp"}


class Left(Exception):
    """This client has had enough."""


class Wild:
    """One client: what it says comes in pieces, and it may leave before each."""

    def __init__(self, port, chance):
        self.chance = chance
        self.sock = socket.create_connection(("127.0.0.1", port), 10)
        self.sock.settimeout(0.2)
        self.tls = None

    def _raw(self, data):
        while data:
            if self.chance.randrange(25) == 0:
                raise Left()
            size = self.chance.choice((1, 5, 100000, 100000, 100000))
            self.sock.sendall(data[:size])
            data = data[size:]

    def say(self, data):
        if self.tls is not None:
            self.tls.write(data)
            data = self.out.read()
        self._raw(data)

    def hear(self):
        try:
            data = self.sock.recv(65536)
        except socket.timeout:
            return b""
        if not data:
            raise Left()
        if self.tls is None:
            return data
        self.into.write(data)
        try:
            return self.tls.read(65536)
        except ssl.SSLWantReadError:
            return b""

    def secure(self):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        self.into, self.out = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = context.wrap_bio(self.into, self.out, server_hostname="mx.example")
        for _ in range(20):
            try:
                tls.do_handshake()
                self._raw(self.out.read())
                self.tls = tls
                return
            except ssl.SSLWantReadError:
                self._raw(self.out.read())
                data = self.sock.recv(65536)
                if not data:
                    raise Left() from None
                self.into.write(data)
        raise Left()

    def close(self):
        if self.chance.randrange(2):
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        self.sock.close()


def visit(server, chance):
    name = chance.choice(sorted(STARTS))
    client = Wild(server.port_of(name), chance)
    try:
        if STARTS[name]:
            client.hear()
            for line in STARTS[name]:
                client.say(line + (b"NOOP\r\n" if chance.randrange(10) == 0 else b""))
                client.hear()
        client.secure()
        client.hear()
        for _ in range(chance.randrange(8)):
            client.say(chance.choice(SAYINGS[chance.choice([PROTOCOL[name]] * 5 + sorted(SAYINGS))]))
            client.hear()
    except (Left, OSError, ssl.SSLError):
        pass
    finally:
        client.close()


@pytest.mark.parametrize("seed", os.environ.get("TEST_SEEDS", "a").split())
def test_clients_leave_at_every_step(serve, open_path, seed):
    authority = Authority(open_path)
    authority.issue("mx", "DNS:mx.example")
    backends = {"pop3": pop3_backend(), "imap": imap_backend(), "smtp": smtp_backend()}
    answers, lock = random.Random(seed), threading.Lock()

    def answer(fields):
        with lock:
            way = answers.randrange(8)
        if way == 0:
            return {"Auth-Status": "Invalid login or password", "Auth-Wait": "1"}
        if way == 1:
            return b"HTTP/1.0 500 no\r\n\r\n"
        if way == 2:
            return b"nonsense"
        return {"Auth-Status": "OK", "Auth-Server": "127.0.0.1", "Auth-Port": str(backends[fields["Auth-Protocol"]].port), "Auth-Pass": "secret"}
    auth = AuthServer(answer)
    files = {name: authority.read(name) for name in ("mx.crt", "mx.key")}
    server = serve(conf=conf(CONF % {"auth": auth.port}).replace("worker_processes 1", "worker_processes 2"), files=files)
    count, ends, counts = len(server.children()) or 1, threading.Event(), [0] * 5

    def run(number):
        chance = random.Random(seed + str(number))
        while not ends.is_set():
            visit(server, chance)
            counts[number] += 1
    threads = [threading.Thread(target=run, args=(number,), daemon=True) for number in range(5)]
    for thread in threads:
        thread.start()
    for _ in range(3):
        before, done = wait_workers(server, count), sum(counts)
        until(lambda: sum(counts) > done + 50, "visits", 60)
        server.reload()
        wait_workers(server, count, without=before)
    ends.set()
    for thread in threads:
        thread.join(30)

    def is_fine():
        """A whole session, when the authentication server is in the mood."""
        try:
            client = smtplib.SMTP("127.0.0.1", server.port_of("PORT3"), timeout=10)
            client.starttls()
            code, _ = client.login("joe", "secret")
            client.close()
            return code == 235
        except (smtplib.SMTPException, OSError) as failure:
            failures.append(repr(failure))
            return False
    failures = []
    until(is_fine, lambda: "a session: %s" % failures[-3:])
    for one in [auth, *backends.values()]:
        one.close()
