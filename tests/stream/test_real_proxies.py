"""haproxy before and behind us, mosquitto and its clients, dnsmasq over UDP and TCP: what others make of our bytes."""

import os
import re
import socket
import struct
import subprocess
import threading

import pytest

from harness import Server, ports, until
from harness.dns import Dnsmasq, encode_name
from harness.programs import Program, connects, find, home
from peers import Peer, ask

HAPROXY = find("haproxy")
MOSQUITTO = find("mosquitto")

needs_haproxy = pytest.mark.skipif(HAPROXY is None, reason="no haproxy")
needs_mosquitto = pytest.mark.skipif(MOSQUITTO is None or find("mosquitto_pub") is None, reason="no mosquitto with clients")
needs_dnsmasq = pytest.mark.skipif(not Dnsmasq.is_there(), reason="no dnsmasq")

CONF = """
pid nginx.pid; error_log error.log info; worker_processes 2; daemon off; events { }
stream {
    log_format line '$status $protocol $remote_addr $proxy_protocol_addr $bytes_sent';
    access_log access.log line;
    # before us: version 1, version 2 with TLVs, and a check without an address
    server { listen 127.0.0.1:@PORT1@ proxy_protocol; set_real_ip_from 127.0.0.0/8;
             return "$remote_addr $proxy_protocol_addr $proxy_protocol_server_addr:$proxy_protocol_server_port"; }
    server { listen 127.0.0.1:@PORT2@ proxy_protocol;
             return "$remote_addr $proxy_protocol_tlv_authority|$proxy_protocol_tlv_unique_id|$proxy_protocol_tlv_alpn|$proxy_protocol_tlv_0xe1"; }
    # behind us: it takes our header
    server { listen 127.0.0.1:@PORT3@; proxy_pass 127.0.0.1:%(accepts)d; proxy_protocol on; }
    # in the middle of two
    server { listen 127.0.0.1:@PORT4@ proxy_protocol; set_real_ip_from 127.0.0.0/8;
             proxy_pass 127.0.0.1:%(accepts)d; proxy_protocol on; }
    # a broker and its clients
    server { listen 127.0.0.1:@PORT5@; proxy_pass 127.0.0.1:%(mqtt)d; proxy_timeout 1h; }
    server { listen unix:@DIR@/mqtt.sock; proxy_pass 127.0.0.1:%(mqtt)d; }
    # a name server, both ways
    server { listen 127.0.0.1:@PORT6@ udp; proxy_pass 127.0.0.1:%(dns)d; proxy_responses 1; proxy_timeout 10s; }
    server { listen 127.0.0.1:@PORT6@; proxy_pass 127.0.0.1:%(dns)d; }
    server { listen 127.0.0.1:@PORT7@ udp; proxy_pass 127.0.0.1:%(dns)d; proxy_timeout 10s; }
}
"""

HAPROXY_CONF = """
global
    stats socket %(dir)s/haproxy.sock
defaults
    mode tcp
    timeout connect 20s
    timeout client 60s
    timeout server 60s
listen v1
    bind 127.0.0.1:%(v1)d
    server us 127.0.0.1:%(us1)d send-proxy
listen v2
    bind 127.0.0.1:%(v2)d
    unique-id-format "id-of-haproxy"
    server us 127.0.0.1:%(us2)d send-proxy-v2 proxy-v2-options authority,unique-id,crc32c set-proxy-v2-tlv-fmt(0xe1) "own"
listen long
    bind 127.0.0.1:%(long)d
    server us 127.0.0.1:%(us4)d send-proxy-v2
listen checks
    bind 127.0.0.1:%(checks)d
    server us 127.0.0.1:%(us1)d send-proxy-v2 check-send-proxy check inter 100ms
frontend accepts
    bind 127.0.0.1:%(accepts)d accept-proxy
    default_backend echo
    log %(dir)s/log.sock local0 info
    log-format "from %%ci:%%cp"
backend echo
    server peer 127.0.0.1:%(peer)d send-proxy
"""


class Echo(Peer):
    def answer(self, conn, data):
        conn.sendall(data)


class Stage:
    """All of it, started once."""

    def __init__(self):
        self.dir = home("proxies")
        self.ports = {name: ports.take() for name in ("accepts", "mqtt", "v1", "v2", "long", "checks")}
        self.numbers = {name: port.number for name, port in self.ports.items()}
        self.peer = Echo(holds=True)
        self.dns = Dnsmasq("host-record=www.example,127.0.0.7", "txt-record=long.example," + ",".join("x" * 150 for _ in range(5)),
                           ) if Dnsmasq.is_there() else None
        self.server = Server(conf=CONF % {**self.numbers, "dns": self.dns.port if self.dns else 1})
        self.programs = []
        self.broker = None

    def start(self):
        self.server.start()
        if HAPROXY:
            self._haproxy()
        if MOSQUITTO:
            self._mosquitto()

    def _begin(self, words, ready):
        program = Program(words, self.dir, ready)
        self.programs.append(program)
        return program.start()

    def _haproxy(self):
        names = dict(self.numbers, dir=self.dir, peer=self.peer.port, **{"us%d" % i: self.port(i) for i in (1, 2, 4)})
        text = HAPROXY_CONF % names
        version = subprocess.run([HAPROXY, "-v"], stdout=subprocess.PIPE, check=True, encoding="latin-1").stdout
        if tuple(map(int, re.search(r"version (\d+)\.(\d+)", version).groups())) < (2, 9):
            text = text.replace(' set-proxy-v2-tlv-fmt(0xe1) "own"', "")
        with open(os.path.join(self.dir, "haproxy.cfg"), "w", encoding="ascii") as out:
            out.write(text)
        self._begin([HAPROXY, "-db", "-f", os.path.join(self.dir, "haproxy.cfg")], lambda: connects(self.numbers["v1"]))

    def _mosquitto(self):
        with open(os.path.join(self.dir, "mosquitto.conf"), "w", encoding="ascii") as out:
            out.write("listener %d 127.0.0.1\nallow_anonymous true\nlog_type all\nmax_queued_messages 0\nmax_inflight_messages 0\n"
                      "message_size_limit 0\n" % self.numbers["mqtt"])
        self.broker = self._begin([MOSQUITTO, "-c", os.path.join(self.dir, "mosquitto.conf")], lambda: connects(self.numbers["mqtt"]))

    def port(self, number):
        return self.server.port_of("PORT%d" % number)

    def close(self):
        for program in self.programs:
            program.stop()
        if self.dns:
            self.dns.close()
        self.peer.close()
        for port in self.ports.values():
            port.close()
        self.server.close()


@pytest.fixture(scope="module", name="stage")
def make_stage():
    made = Stage()
    try:
        made.start()
        yield made
    finally:
        made.close()


# ---- haproxy

@needs_haproxy
def test_haproxy_tells_us_of_its_client(stage):
    assert ask(stage.numbers["v1"], "127.0.0.9") == b"127.0.0.9 127.0.0.9 127.0.0.1:%d" % stage.numbers["v1"]


@needs_haproxy
def test_haproxy_tells_us_more_in_version_2(stage):
    said = ask(stage.numbers["v2"], "127.0.0.9")
    assert said.startswith(b"127.0.0.1 |id-of-haproxy||"), said


@needs_haproxy
def test_haproxy_checks_us_without_an_address(stage):
    """LOCAL of version 2: no proxied client; the connection's own address holds."""
    until(lambda: b"UP" in haproxy_tells(stage, "show stat").split(b"checks,us,")[1].split(b"\n")[0], "haproxy to find us up")
    assert b"DOWN" not in haproxy_tells(stage, "show stat")


def haproxy_tells(stage, command):
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(10)
        sock.connect(os.path.join(stage.dir, "haproxy.sock"))
        sock.sendall(command.encode() + b"\n")
        with sock.makefile("rb") as source:
            return source.read()


@needs_haproxy
@pytest.mark.parametrize("way", ["behind us", "before and behind us"])
def test_haproxy_learns_of_our_client(stage, way):
    """What it was told it tells its own backend, which gives it back as it came: whose client it is, and where it came to us."""
    came = stage.port(3 if way == "behind us" else 4)
    port = came if way == "behind us" else stage.numbers["long"]
    data = bytes(range(256)) * 4000
    with socket.socket() as sock:
        sock.settimeout(10)
        sock.bind(("127.0.0.11", 0))
        sock.connect(("127.0.0.1", port))
        threading.Thread(target=sock.sendall, args=(data,), daemon=True).start()
        head = b"PROXY TCP4 127.0.0.11 127.0.0.1 %d %d\r\n" % (sock.getsockname()[1], came)
        with sock.makefile("rb") as source:
            assert source.readline() == head
            assert source.read(len(data)) == data


@needs_haproxy
def test_haproxy_before_us_many_at_once(stage):
    clients = []
    for i in range(100):
        sock = socket.socket()
        sock.settimeout(10)
        sock.bind(("127.0.1.%d" % (i + 1), 0))
        sock.connect(("127.0.0.1", stage.numbers["long"]))
        sock.sendall(b"x")
        clients.append(sock)
    for i, sock in enumerate(clients):
        with sock, sock.makefile("rb") as source:
            assert source.readline().split()[2] == b"127.0.1.%d" % (i + 1)
            assert source.read(1) == b"x"


# ---- mosquitto

def subscribe(stage, topic, count, name, *words):
    """mosquitto_sub until it has so many messages, once the broker knows of it."""
    made = subprocess.Popen([find("mosquitto_sub"), "-h", "127.0.0.1", "-p", str(stage.port(5)), "-t", topic, "-C", str(count),
                             "-W", "60", "-i", name, *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    until(lambda: "Sending SUBACK to %s\n" % name in stage.broker.log(), lambda: stage.broker.log()[-2000:])
    return made


def heard(reader):
    """All that it was sent, when it has ended."""
    text = reader.communicate(timeout=60)[0]
    assert reader.returncode == 0, text
    return text


def publish(port, topic, *words, text=None):
    done = subprocess.run([find("mosquitto_pub"), "-h", "127.0.0.1", "-p", str(port), "-t", topic, *words], input=text,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60, check=False)
    assert done.returncode == 0, done.stdout


@needs_mosquitto
@pytest.mark.parametrize("quality", ["0", "1", "2"])
def test_mosquitto_messages_in_order(stage, quality):
    reader = subscribe(stage, "news/" + quality, 1000, "reader" + quality, "-q", quality)
    text = b"".join(b"message %d\n" % i for i in range(1000))
    publish(stage.port(5), "news/" + quality, "-q", quality, "-l", text=text)
    assert heard(reader) == text


@needs_mosquitto
def test_mosquitto_large_message(stage):
    text = b"abcdefghij" * 400000
    reader = subscribe(stage, "large", 1, "large-reader")
    publish(stage.port(5), "large", "-s", text=text)
    assert heard(reader) == text + b"\n"


@needs_mosquitto
def test_mosquitto_tells_of_a_client_that_is_gone(stage):
    """The last will of a client that is killed: its end must reach the broker at once, through us."""
    reader = subscribe(stage, "will", 1, "heir")
    dying = subscribe(stage, "x", 1, "dying", "-k", "600", "--will-topic", "will", "--will-payload", "gone")
    dying.kill()
    dying.communicate()
    assert heard(reader) == b"gone\n"


# ---- dnsmasq

def question(number, name, kind=1):
    return struct.pack(">6H", number, 0x0100, 1, 0, 0, 0) + encode_name(name) + struct.pack(">HH", kind, 1)


@needs_dnsmasq
@pytest.mark.parametrize("number", [6, 7])
def test_dns_many_clients_at_once(stage, number):
    """Each a session of its own, and each gets its own answer."""
    clients = []
    for i in range(200):
        sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        sock.settimeout(10)
        sock.connect(("127.0.0.1", stage.port(number)))
        sock.send(question(i, "www.example"))
        clients.append(sock)
    for i, sock in enumerate(clients):
        with sock:
            answer = sock.recv(4096)
            assert struct.unpack(">H", answer[:2])[0] == i and answer.endswith(b"\x7f\0\0\x07")


@needs_dnsmasq
def test_dns_one_client_asks_many_times(stage):
    """Without proxy_responses all are one session."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.settimeout(10)
        sock.connect(("127.0.0.1", stage.port(7)))
        for i in range(300):
            sock.send(question(i, "www.example"))
            assert struct.unpack(">H", sock.recv(4096)[:2])[0] == i


@needs_dnsmasq
def test_dns_an_answer_too_long_for_udp_comes_by_tcp(stage):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.settimeout(10)
        sock.connect(("127.0.0.1", stage.port(6)))
        sock.send(question(5, "long.example", 16))
        assert sock.recv(4096)[2] & 2, "not truncated"
    with socket.create_connection(("127.0.0.1", stage.port(6)), timeout=10) as sock, sock.makefile("rb") as source:
        for i in range(50):  # all on one connection
            text = question(i, "long.example", 16)
            sock.sendall(struct.pack(">H", len(text)) + text)
            answer = source.read(struct.unpack(">H", source.read(2))[0])
            assert struct.unpack(">H", answer[:2])[0] == i and answer.count(b"x" * 150) == 5


def test_nothing_failed(stage):
    """haproxy and the others leave as clients do: no session is an error of ours."""
    assert not re.search(r"(?m)^5\d\d ", stage.server.read("access.log"))
