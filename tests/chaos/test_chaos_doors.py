"""What comes in at every door, changed by chance: MQTT, RDP, TLS, PROXY, HTTP/1 and HTTP/2 with its compressed heads, FLV positions, UDP sessions
from spoofed addresses. The same workers serve afterwards, and what one client sent is no other's. TEST_SEEDS="b c d" tries other changes."""

import os
import random
import socket
import struct
import threading

import pytest

from harness import Client, Closed, ProtocolError, Timeout, until
from harness.workers import wait_workers

ROUNDS = 250
SEEDS = os.environ.get("TEST_SEEDS", "a").split()


def change(chance, data):
    """One to four changes of these bytes."""
    for _ in range(chance.randrange(1, 5)):
        at = chance.randrange(len(data) + 1)
        way = chance.randrange(6)
        if way == 0:
            data = data[:at]
        elif way == 1:
            data = data[:at] + bytes(chance.randrange(256) for _ in range(chance.randrange(1, 12))) + data[at:]
        elif way == 2:
            data = data[:at] + bytes([chance.choice((0, 1, 0x7f, 0x80, 0xff, chance.randrange(256)))]) + data[at + 1:]
        elif way == 3:
            data = data[:at] + data[chance.randrange(len(data) + 1):]
        elif way == 4:
            data = data[:at] + data[at:at + 8] * chance.choice((2, 50)) + data[at:]
        else:
            data = data[:at] + b"\xff\xff\xff\xff" + data[at + 4:]
        data = data or b"\0"
    return data


def throw(port, chance, data, before=b""):
    """Sends in pieces, reads a little, leaves in one way or another."""
    with socket.create_connection(("127.0.0.1", port), 10) as sock:
        sock.settimeout(0.02)
        try:
            sock.sendall(before)
            while data:
                size = chance.choice((1, 3, 100000, 100000))
                sock.sendall(data[:size])
                data = data[size:]
            way = chance.randrange(4)
            if way == 0:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            elif way == 1:
                sock.shutdown(socket.SHUT_WR)
            sock.recv(65536)
        except OSError:
            pass


# ---- stream

STREAM = """
pid nginx.pid; error_log error.log info; worker_processes 1; daemon off; events { }
stream {
    access_log off; preread_timeout 1s; proxy_timeout 2s;
    server { listen 127.0.0.1:@PORT@; return alive; }
    server { listen 127.0.0.1:@PORT1@; mqtt_preread on; return "[$mqtt_preread_clientid][$mqtt_preread_username]"; }
    server { listen 127.0.0.1:@PORT2@; rdp_preread on; return "[$rdp_cookie][$rdp_cookie_mstshash]"; }
    server { listen 127.0.0.1:@PORT3@; ssl_preread on; return "[$ssl_preread_server_name][$ssl_preread_alpn_protocols][$ssl_preread_protocol]"; }
    server { listen 127.0.0.1:@PORT4@ proxy_protocol; return "[$proxy_protocol_addr][$proxy_protocol_tlv_unique_id]"; }
    server { listen 127.0.0.1:@PORT5@; mqtt on; mqtt_set_connect clientid "c-$remote_port"; mqtt_set_connect username joe; proxy_pass 127.0.0.1:@PORT6@; }
    server { listen 127.0.0.1:@PORT6@; mqtt_preread on; return "[$mqtt_preread_clientid]"; }
    server { listen 127.0.0.1:@PORT7@; ssl_preread on; mqtt_preread on; rdp_preread on; pass 127.0.0.1:@PORT8@; }
    server { listen 127.0.0.1:@PORT8@; return passed; }
}
http { access_log off; }
"""


def mqtt_connect():
    def text(value):
        return struct.pack(">H", len(value)) + value
    body = text(b"MQTT") + b"\x05\xc6\0\x3c" + b"\x05\x11\0\0\0\5" + text(b"client") + b"\x05\x18\0\0\0\1" + text(b"topic") + text(b"gone") \
        + text(b"joe") + text(b"secret")
    return b"\x10" + bytes([len(body)]) + body + b"\xc0\0"


def rdp_request():
    parts = b"Cookie: mstshash=joe\r\n\x01\x00\x08\x00\x03\x00\x00\x00"
    return struct.pack(">BBHBBHHB", 3, 0, 11 + len(parts), 6 + len(parts), 0xe0, 0, 0, 0) + parts


def client_hello():
    import ssl
    into, out = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["h2", "http/1.1"])
    try:
        context.wrap_bio(into, out, server_hostname="shop.example.com").do_handshake()
    except ssl.SSLWantReadError:
        pass
    return out.read()


PROXY2 = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x17\x7f\0\0\1\x7f\0\0\1\0\1\0\2\x05\0\x08uniqueid"


@pytest.mark.parametrize("seed", SEEDS)
def test_stream(serve, seed):
    server = serve(conf=STREAM, allow=["limit"])
    workers, chance = wait_workers(server, 1), random.Random(seed)
    whole = {"PORT1": mqtt_connect(), "PORT2": rdp_request(), "PORT3": client_hello(), "PORT4": PROXY2, "PORT5": mqtt_connect(), "PORT7": client_hello()}
    for _ in range(ROUNDS):
        name = chance.choice(sorted(whole))
        throw(server.port_of(name), chance, change(chance, chance.choice([whole[name]] * 3 + sorted(whole.values()))))
    with Client(server.port_of("PORT1")) as client:
        client.send(mqtt_connect())
        assert client.rest() == b"[client][joe]"
    with Client(server.port_of("PORT3")) as client:
        client.send(client_hello())
        assert client.rest_or_reset().startswith(b"[shop.example.com][h2,http/1.1]")
    assert server.children() == workers


# ---- http

HTTP = """
    client_header_timeout 1s; client_body_timeout 1s; keepalive_timeout 1s; large_client_header_buffers 4 8k;
    server { listen 127.0.0.1:@PORT@; http2 on; root html;
             location = /whose { add_header X-Whose $http_x_whose; return 200 "$http_x_whose $http_cookie"; }
             location /flv/ { flv; alias html/; } location /mp4/ { mp4; alias html/; } }
"""


def frame(kind, flags, stream, payload):
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def literal(name, value, indexed=True):
    return (b"\x40" if indexed else b"\0") + bytes([len(name)]) + name + bytes([len(value)]) + value


def http2(chance):
    """A connection whose heads fill and use the dynamic table."""
    blocks = []
    for number in range(3):
        fields = b"\x82\x86\x84" + b"\x41\x01a" + literal(b"x-whose", b"client%d" % number) + literal(b"cookie", b"a=%d" % number)
        fields += bytes([0x80 | chance.choice((62, 63, 64, 70, 127))]) if chance.randrange(3) == 0 else b""
        if chance.randrange(4) == 0:
            fields = b"\x3f" + bytes([chance.randrange(256) for _ in range(2)]) + fields
        blocks.append(frame(1, 5, 1 + 2 * number, fields))
        if chance.randrange(3) == 0:
            blocks[-1] = frame(1, 1, 1 + 2 * number, fields[:6]) + frame(9, 4, 1 + 2 * number, fields[6:])
    blocks.append(frame(8, 0, 0, struct.pack(">I", chance.choice((1, 65535, 0x7fffffff)))))
    blocks.append(frame(2, 0, 5, struct.pack(">IB", chance.choice((5, 3, 0)), 16)))
    return b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0, struct.pack(">HI", 1, chance.choice((0, 100, 4096)))) + b"".join(blocks)


@pytest.mark.parametrize("seed", SEEDS)
def test_http(serve, seed):
    flv = b"FLV\1\5\0\0\0\x09\0\0\0\0" + bytes(2000)
    server = serve(HTTP, main="worker_processes 1;", files={"html/a.flv": flv, "html/short.flv": flv[:7], "html/none.flv": b"", "html/a.mp4": bytes(3000)})
    workers, chance = wait_workers(server, 1), random.Random(seed)
    for _ in range(ROUNDS):
        if chance.randrange(3):
            data = http2(chance)
            preface = 24 if chance.randrange(8) else 0
            throw(server.port, chance, data[:preface] + change(chance, data[preface:]))
        else:
            throw(server.port, chance, change(chance, b"GET /whose?a HTTP/1.1\r\nHost: a\r\nX-Whose: me\r\nCookie: c=d\r\nContent-Length: 3\r\n\r\nabcGET / HTTP/1.1\r\nHost: b\r\n\r\n"))
    for start in ("0", "1", "12", "13", "14", "2012", "2013", "2014", "-1", "99999999999999999999", "0x5", "1.5", "%00", "", "18446744073709551615", "9223372036854775807"):
        for name in ("a.flv", "short.flv", "none.flv", "a.flv/", "b.flv"):
            for target in ("/flv/%s?start=%s" % (name, start), "/flv/%s?start=%s&end=%s" % (name, start, start), "/mp4/%s?start=%s" % (name.replace("flv", "mp4"), start)):
                answer = server.get(target)
                assert answer.status in (200, 404, 416, 500, 400), (target, answer.status)
                if target.startswith("/flv/a.flv?start=13") and answer.status == 200:
                    assert answer.body == flv
    with Client(server.port) as client:
        assert client.request("/whose", "X-Whose: one").text == "one "
    assert server.children() == workers


# ---- UDP: who has a flow's name

UDP = """
pid nginx.pid; error_log error.log info; worker_processes 2; daemon off; %(user)s events { worker_connections 1000; }
stream {
    proxy_timeout 30s; udp_flow_key %(key)s;
    server { listen 127.0.0.1:@PORT1@ udp; proxy_pass 127.0.0.1:%(port)d; }
}
http { access_log off; server { listen 127.0.0.1:@PORT@; return 200 alive; } }
"""


class Echo:
    """Answers each datagram to its sender."""

    def __init__(self):
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        while True:
            try:
                data, sender = self.socket.recvfrom(65536)
                self.socket.sendto(data, sender)
            except OSError:
                return


@pytest.mark.parametrize("key", ["quic", "dtls", "address"])
@pytest.mark.parametrize("seed", SEEDS)
def test_datagrams_from_anybody(serve, key, seed):
    """Datagrams of chance from many addresses, some with the names of others' flows. An honest client is answered with its own."""
    echo = Echo()
    user = "user root;" if os.getuid() == 0 else ""
    server = serve(conf=UDP % {"user": user, "key": key, "port": echo.port}, allow=["connections are not enough"])
    workers, chance = wait_workers(server, 2), random.Random(seed)
    quic = b"\xc3\0\0\0\1\x08honest!!\x08source!!\0" + bytes(1190)
    short = b"\x43honest!!" + bytes(40)
    dtls = b"\x17\xfe\xfd\0\1\0\0\0\0\0\1\0\x10" + bytes(16)
    senders = []
    for number in range(30):
        sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        sock.bind(("127.0.0.%d" % (2 + number % 9), 0))
        sock.setblocking(False)
        senders.append(sock)
    target = ("127.0.0.1", server.port_of("PORT1"))
    honest = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    honest.settimeout(10)
    for turn in range(20):
        for _ in range(25):
            data = chance.choice((quic, short, dtls, b"", b"\xff" * 1400))
            try:
                chance.choice(senders).sendto(change(chance, data) if chance.randrange(3) else data, target)
            except OSError:
                pass
        # Long heads are the beginning of a connection: who has its name has its answers.
        mine = b"\xc3\0\0\0\1\x08mine%04d\x08source!!\0" % turn + bytes(1190) if key == "quic" else b"mine %d" % turn
        for _ in range(5):
            honest.sendto(mine, target)
            honest.settimeout(2)
            try:
                while honest.recv(65536) != mine:
                    pytest.fail("another's answer")
                break
            except socket.timeout:      # a queue was full: UDP may lose
                continue
        else:
            pytest.fail("no answer")
    assert server.get("/").text == "alive" and server.children() == workers
    for sock in senders + [honest, echo.socket]:
        sock.close()
