"""Backends whose answers are changed by chance, of every protocol that needs no handshake: a client gets an answer to its own question or
is cut off, soon, and no bytes of one answer become part of another."""

import os
import random
import re
import socket
import struct
import threading

import pytest

from harness import Client, Closed, ProtocolError
from harness.workers import wait_workers

ROUNDS = 40     # changed answers of one protocol; each is followed by a good one


def fastcgi_record(kind, content, padding=0):
    return struct.pack(">BBHHBB", 1, kind, 1, len(content), padding, 0) + content + bytes(padding)


def fastcgi(key):
    text = b"Content-Type: text/plain\r\nContent-Length: %d\r\n\r\n%s" % (len(key), key)
    return fastcgi_record(6, text, 3) + fastcgi_record(7, b"words") + fastcgi_record(6, b"") + fastcgi_record(3, bytes(8))


def cgi(key):
    return b"Status: 200 OK\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n%s" % (len(key), key)


def http(key):
    return b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n" % (len(key), key)


def http_length(key):
    return b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n%s" % (len(key), key)


def memcached(key):
    return b"VALUE %s 0 %d\r\n%s\r\nEND\r\n" % (key, len(key), key)


def redis(key):
    return b"$%d\r\n%s\r\n" % (len(key), key)


def redis_nested(key):
    return b"*3\r\n$%d\r\n%s\r\n*2\r\n:17\r\n$-1\r\n+OK\r\n" % (len(key), key)


# name: directives of the location, and the answer to a key
PROTOCOLS = {
    "http": ("proxy_pass http://u; proxy_http_version 1.1; proxy_set_header Connection '';", http),
    "http-length": ("proxy_pass http://u; proxy_http_version 1.1; proxy_set_header Connection '';", http_length),
    "http-unbuffered": ("proxy_pass http://u; proxy_buffering off; proxy_http_version 1.1; proxy_set_header Connection '';", http),
    "fastcgi": ("fastcgi_pass u; fastcgi_keep_conn on; fastcgi_param REQUEST_URI $request_uri;", fastcgi),
    "fastcgi-unbuffered": ("fastcgi_pass u; fastcgi_buffering off; fastcgi_param REQUEST_URI $request_uri;", fastcgi),
    "uwsgi": ("uwsgi_pass u; uwsgi_param REQUEST_URI $request_uri;", cgi),
    "scgi": ("scgi_pass u; scgi_param REQUEST_URI $request_uri;", cgi),
    "memcached": ("set $memcached_key $arg_k; memcached_pass u;", memcached),
    "memc": ("set $memc_key $arg_k; memc_pass u;", memcached),
    "redis2": ("redis2_query get $arg_k; redis2_pass u;", redis),
    "redis2-nested": ("redis2_query get $arg_k; redis2_pass u;", redis_nested),
}

BITS = [b"\r\n", b"\n", b"\0", b"-1", b"0", b"99999999999999999999", b"4294967296", b"18446744073709551615", b"-9223372036854775808", b"$", b"*", b":",
        b"END\r\n", b"VALUE ", b"HTTP/1.1 200 OK\r\n\r\n", b"Content-Length: 5\r\n", b"Transfer-Encoding: chunked\r\n", b"\xff" * 9, b"x" * 5000,
        b"*1\r\n" * 100, b"Set-Cookie: a=b\r\n" * 300, b"1 0 0\r\n", b"HTTP/1.1 103 Early Hints\r\n\r\n", b";" * 40]


def change(chance, answer):
    """One to three changes of an answer."""
    for _ in range(chance.randrange(1, 4)):
        at = chance.randrange(len(answer) + 1)
        way = chance.randrange(6)
        if way == 0:
            answer = answer[:at]
        elif way == 1:
            answer = answer[:at] + chance.choice(BITS) + answer[at:]
        elif way == 2:
            answer = answer[:at] + chance.choice(BITS) + answer[at + chance.randrange(8):]
        elif way == 3:
            answer = answer[:at] + bytes([chance.randrange(256)]) + answer[at + 1:]
        elif way == 4:
            answer = answer[:at] + answer[chance.randrange(len(answer) + 1):]
        else:
            answer += answer[:at]
        answer = answer or b"\r\n"
    return answer


class Hostile:
    """Answers the question after its key: "good…" as it should be, others changed by chance, in pieces. The connection stays."""

    def __init__(self, right, seed):
        self.right, self.seed = right, seed
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        while True:
            try:
                conn = self.listener.accept()[0]
            except OSError:
                return
            threading.Thread(target=self._talk, args=(conn,), daemon=True).start()

    def _talk(self, conn):
        conn.settimeout(20)
        with conn:
            try:
                while data := conn.recv(100000):
                    for key in re.findall(rb"(?:good|hurt)\d+", data)[-1:]:
                        self._answer(conn, key)
            except OSError:
                pass

    def _answer(self, conn, key):
        answer = self.right(key)
        if key.startswith(b"good"):
            conn.sendall(answer)
            return
        chance = random.Random(self.seed + key.decode())
        answer = change(chance, answer)
        while answer:
            size = chance.choice((1, 7, 100000))
            conn.sendall(answer[:size])
            answer = answer[size:]
        if chance.randrange(2):
            conn.shutdown(socket.SHUT_RDWR)

    def close(self):
        self.listener.close()


HTTP = """
    upstream u { server 127.0.0.1:%d max_fails=0; keepalive 4; }
    server {
        listen 127.0.0.1:@PORT@; %s
        location / { %s }
    }
"""
TIMES = " ".join("%s_read_timeout 300ms;" % name for name in ("proxy", "fastcgi", "uwsgi", "scgi", "memcached", "memc", "redis2"))


def body_of(right, key):
    """What the client gets of a good answer."""
    return right(key) if right in (redis, redis_nested) else key


def ask_good(server, client, key):
    """The answer, and the client that can be used on. The machine may be too busy for the short timeout: then it is asked for again."""
    for _ in range(10):
        try:
            answer = client.request("/?k=" + key.decode())
        except Closed as closed:
            assert not closed.rest, closed
            client = Client(server.port)
            continue
        if answer.status != 504:
            break
    return client, answer


@pytest.mark.parametrize("seed", os.environ.get("TEST_SEEDS", "a").split())
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_changed_answers(serve, protocol, seed):
    passing, right = PROTOCOLS[protocol]
    hostile = Hostile(right, seed)
    server = serve(HTTP % (hostile.port, TIMES, passing), main="worker_processes 1;")
    workers = wait_workers(server, 1)
    client = Client(server.port)
    for number in range(ROUNDS):
        try:
            answer = client.request("/?k=hurt%d" % number)
            assert 200 <= answer.status < 600
        except (Closed, ProtocolError):
            client = Client(server.port)
        for turn in range(2):
            key = b"good%d" % (number * 2 + turn)
            client, answer = ask_good(server, client, key)
            assert answer.status == 200 and answer.body == body_of(right, key), (number, key, answer, answer.body[:200])
    assert server.children() == workers
    hostile.close()
