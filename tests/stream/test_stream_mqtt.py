"""MQTT in stream: what a client begins with is read (mqtt_preread), and changed on its way to the backend (mqtt)."""

import shutil
import socket
import ssl
import struct
import subprocess

import pytest

from harness import Server, ports, until
from harness.certificates import Authority
from peers import Peer, ask

MAIN = "pid nginx.pid; error_log error.log info; worker_processes 1; daemon off; events { }\n"


def text(value):
    return struct.pack(">H", len(value)) + value


def varint(number):
    out = b""
    while number > 127:
        out += bytes([number & 127 | 128])
        number >>= 7
    return out + bytes([number])


def connect(clientid=b"id", user=None, password=None, level=4, will=None, properties=b"", will_properties=b"", flags=2):
    """CONNECT, of 3.1, 3.1.1 or 5.0."""
    flags |= (0 if user is None else 0x80) | (0 if password is None else 0x40) | (0 if will is None else 4)
    body = text(b"MQIsdp" if level & 0x7f == 3 else b"MQTT") + bytes([level, flags]) + b"\0\x3c"
    if level == 5:
        body += varint(len(properties)) + properties
    body += text(clientid)
    if will is not None:
        if level == 5:
            body += varint(len(will_properties)) + will_properties
        body += text(will[0]) + text(will[1])
    for value in (user, password):
        if value is not None:
            body += text(value)
    return b"\x10" + varint(len(body)) + body


PINGREQ = b"\xc0\x00"
WILL = (b"topic", b"gone")
EXPIRY = b"\x11\x00\x00\x00\x05"  # Session Expiry Interval
DELAY = b"\x18\x00\x00\x00\x01"   # Will Delay Interval


class Backend(Peer):
    """Keeps all that came together."""

    @property
    def bytes(self):
        return b"".join(self.received)


@pytest.fixture(scope="module", name="backend")
def fixture_backend():
    backend = Backend(holds=True)
    yield backend
    backend.close()


FILTERS = {
    "ALL": 'mqtt_set_connect clientid "$remote_addr"; mqtt_set_connect username "new $mqtt_preread_username"; '
           'mqtt_set_connect password secret; mqtt_preread on;',
    "NONE": "",
    "CLIENTID": "mqtt_set_connect clientid c-$mqtt_preread_clientid; mqtt_preread on;",
    "USER": "mqtt_set_connect username joe;",
    "PASSWORD": "mqtt_set_connect password secret;",
    "STRIP": 'mqtt_set_connect username "";',
    "STRIP_PASSWORD": "mqtt_set_connect password $nothing;",
    "TWICE": "mqtt_set_connect username joe; mqtt_set_connect username jane;",
    "TINY": "mqtt_buffers 2 32; preread_buffer_size 16; mqtt_set_connect username %s;" % ("u" * 30),
    "OLD": "mqtt_rewrite_buffer_size 20; mqtt_set_connect username joe;",
    "HUGE": "mqtt_set_connect username $huge;",
    "OFF": "mqtt off; mqtt_set_connect username joe;",
}

NAMES = ["SMALL", "UNREAD", "PASS", "AGAIN", "UDP", "PLAIN", *FILTERS]


def port_of(server, name):
    return server.port_of("PORT%d" % (NAMES.index(name) + 1))


def numbered(conf):
    """The configuration with numbers in the place of our names of ports."""
    for number, name in enumerate(NAMES):
        conf = conf.replace("@%s@" % name, "@PORT%d@" % (number + 1))
    return conf


@pytest.fixture(scope="module", name="server")
def fixture_server(backend):
    servers = "".join("server { listen 127.0.0.1:@%s@; %s proxy_pass 127.0.0.1:%d; }\n" % (name, lines, backend.port)
                      for name, lines in FILTERS.items())
    text_ = MAIN + """
    stream {
        log_format line '$status [$mqtt_preread_clientid][$mqtt_preread_username] $upstream_bytes_sent';
        access_log access.log line;
        map "" $nothing { default ""; }
        map "" $many { default "%s"; }
        map "" $huge { default "$many$many$many$many$many$many$many$many$many$many$many$many$many$many$many$many$many$many"; }
        server { listen 127.0.0.1:@PORT@; mqtt off; mqtt_preread on; return "[$mqtt_preread_clientid][$mqtt_preread_username]"; }
        server { listen 127.0.0.1:@SMALL@; mqtt off; mqtt_preread on; preread_buffer_size 40; return "[$mqtt_preread_clientid]"; }
        server { listen 127.0.0.1:@UNREAD@; mqtt off; return "[$mqtt_preread_clientid][$mqtt_preread_username]"; }
        mqtt on;
        server { listen 127.0.0.1:@PASS@; mqtt_set_connect clientid other; pass 127.0.0.1:@AGAIN@; }
        server { listen 127.0.0.1:@AGAIN@; mqtt off; mqtt_preread on; return "[$mqtt_preread_clientid]"; }
        server { listen 127.0.0.1:@UDP@ udp; return "an answer"; }
        %s
    }
    """ % ("x" * 4000, servers)
    with Server(conf=numbered(text_), allow=["is too large", "more than MQTT has", "preread buffer full"]) as made:
        yield made


# ---- mqtt_preread

PREREAD = {
    "3.1": (connect(b"old", b"joe", b"p", level=3), b"[old][joe]"),
    "3.1.1": (connect(b"id", b"joe", b"p"), b"[id][joe]"),
    "5.0": (connect(b"id", b"joe", b"p", level=5, properties=EXPIRY), b"[id][joe]"),
    "5.0 with many properties": (connect(b"id", b"joe", level=5, properties=b"\x26" + text(b"k") + text(b"v" * 200)), b"[id][joe]"),
    "a will": (connect(b"id", b"joe", will=WILL), b"[id][joe]"),
    "a will of 5.0": (connect(b"id", b"joe", level=5, will=WILL, will_properties=DELAY), b"[id][joe]"),
    "no user": (connect(b"id"), b"[id][]"),
    "no client id": (connect(b"", b"joe"), b"[][joe]"),
    "a bridge": (connect(b"id", b"joe", level=0x84), b"[id][joe]"),
    "a password alone, of 5.0": (connect(b"id", None, b"p", level=5), b"[id][]"),
    "more messages": (connect(b"id", b"joe") + PINGREQ, b"[id][joe]"),
    "a password that has not come": (connect(b"id", b"joe", b"p" * 500)[:30], b"[id][joe]"),
    "another message": (PINGREQ, b"[][]"),
    "another protocol": (b"GET / HTTP/1.0\r\n\r\n", b"[][]"),
    "another version": (connect(b"id", b"joe", level=6), b"[][]"),
    "another name": (connect(b"id", b"joe").replace(b"MQTT", b"MQTX"), b"[][]"),
    "a reserved flag": (connect(b"id", b"joe", flags=3), b"[][]"),
    "a text beyond the end": (b"\x10\x10" + text(b"MQTT") + b"\x04\x02\x00\x3c" + b"\x00\x20idididid", b"[][]"),
    "a length without an end": (b"\x10\xff\xff\xff\xff\x01", b"[][]"),
    "a long name": (b"\x10\x7f\xff\xff", b"[][]"),
}


@pytest.mark.parametrize("name", PREREAD)
def test_preread(server, name):
    data, wanted = PREREAD[name]
    assert ask(server.port, send=data) == wanted


def test_preread_of_each_byte_for_itself(server):
    data = connect(b"id", b"joe", b"p", level=5, will=WILL, properties=EXPIRY)
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in data[:-3]:
            client.send(bytes([byte]))
        assert client.recv(100) == b"[id][joe]"


def test_preread_has_a_bound(server):
    assert ask(port_of(server, "SMALL"), send=connect(b"x" * 100)) == b""
    server.wait_log("preread buffer full")
    assert ask(port_of(server, "SMALL"), send=connect(b"x" * 10)) == b"[%s]" % (b"x" * 10)


def test_without_preread_nothing_is_known(server):
    assert ask(port_of(server, "UNREAD"), send=connect(b"id", b"joe")) == b"[][]"


# ---- mqtt

def passed(server, backend, name, *pieces):
    """What the backend gets of a session that ends when all has come, or when nothing will."""
    del backend.received[:]
    with socket.create_connection(("127.0.0.1", port_of(server, name)), timeout=10) as client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for piece in pieces:
            client.sendall(piece)
        until(lambda: backend.bytes.endswith(pieces[-1][-2:]), "what was sent")
    return backend.bytes


CHANGED = [
    ("ALL", connect(b"id", b"joe", b"p"), connect(b"127.0.0.1", b"new joe", b"secret")),
    ("ALL", connect(b"id", level=5, properties=EXPIRY, will=WILL, will_properties=DELAY),
     connect(b"127.0.0.1", b"new ", b"secret", level=5, properties=EXPIRY, will=WILL, will_properties=DELAY)),
    ("ALL", connect(b"id", level=3), connect(b"127.0.0.1", b"new ", b"secret", level=3)),
    ("NONE", connect(b"id", b"joe", b"p", will=WILL, flags=0x36), connect(b"id", b"joe", b"p", will=WILL, flags=0x36)),
    ("CLIENTID", connect(b"id", b"joe", b"p", will=WILL), connect(b"c-id", b"joe", b"p", will=WILL)),
    ("CLIENTID", connect(b"", level=5), connect(b"c-", level=5)),
    ("USER", connect(b"id"), connect(b"id", b"joe")),
    ("USER", connect(b"id", b"u" * 200, b"p"), connect(b"id", b"joe", b"p")),
    ("USER", connect(b"id", None, b"p", level=5), connect(b"id", b"joe", b"p", level=5)),
    ("PASSWORD", connect(b"id"), connect(b"id", b"", b"secret")),
    ("PASSWORD", connect(b"id", level=5), connect(b"id", None, b"secret", level=5)),
    ("PASSWORD", connect(b"id", b"joe", b"p"), connect(b"id", b"joe", b"secret")),
    ("STRIP", connect(b"id", b"joe", b"p"), connect(b"id")),
    ("STRIP", connect(b"id", b"joe", b"p", level=5), connect(b"id", level=5)),
    ("STRIP_PASSWORD", connect(b"id", b"joe", b"p"), connect(b"id", b"joe")),
    ("TWICE", connect(b"id"), connect(b"id", b"jane")),
    ("OFF", connect(b"id", b"u"), connect(b"id", b"u")),
    ("ALL", connect(b"x" * 40000, b"joe", will=(b"t", b"w" * 50000)),
     connect(b"127.0.0.1", b"new joe", b"secret", will=(b"t", b"w" * 50000))),
    ("CLIENTID", connect(b"i" * 123), connect(b"c-" + b"i" * 123)),  # the length takes another byte
]


@pytest.mark.parametrize("number", range(len(CHANGED)))
def test_changed(server, backend, number):
    name, said, wanted = CHANGED[number]
    assert passed(server, backend, name, said + PINGREQ) == wanted + PINGREQ


def test_changed_in_pieces(server, backend):
    said = connect(b"id", b"joe", b"p", level=5, properties=EXPIRY)
    wanted = connect(b"127.0.0.1", b"new joe", b"secret", level=5, properties=EXPIRY)
    pieces = [said[n:n + 1] for n in range(len(said))] + [PINGREQ * 3]
    assert passed(server, backend, "ALL", *pieces) == wanted + PINGREQ * 3


def test_what_follows_is_left_alone(server, backend):
    tail = connect(b"id", b"joe") + bytes(range(256)) * 1000 + PINGREQ
    assert passed(server, backend, "USER", connect(b"a") + tail) == connect(b"a", b"joe") + tail


REFUSED = {
    "another protocol": ("USER", b"GET / HTTP/1.0\r\n\r\n", "client did not send an MQTT CONNECT packet"),
    "another message": ("USER", PINGREQ, "client did not send an MQTT CONNECT packet"),
    "broken": ("USER", connect(b"id", b"joe")[:-1].replace(b"\x10\x13", b"\x10\x12"), "client did not send an MQTT CONNECT packet"),
    "nothing to change, another protocol": ("NONE", b"HELO\r\n", "client did not send an MQTT CONNECT packet"),
    "announced too large": ("TINY", b"\x10\xff\x7f", "MQTT CONNECT packet is too large: 16386 bytes"),
    "too large when changed": ("TINY", connect(b"x" * 30), "MQTT CONNECT packet is too large: 76 bytes"),
    "too large for the old name": ("OLD", connect(b"id"), "MQTT CONNECT packet is too large: 21 bytes"),
    "too large a value": ("HUGE", connect(b"id"), "72000 bytes are more than MQTT has"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(server, backend, name):
    port, data, line = REFUSED[name]
    count = backend.count
    assert ask(port_of(server, port), send=data) == b""
    server.wait_log(line)
    assert backend.count == count


def test_a_message_may_be_larger_than_the_preread_buffer(server, backend):
    assert passed(server, backend, "TINY", connect(b"i" * 10) + PINGREQ) == connect(b"i" * 10, b"u" * 30) + PINGREQ


def test_another_listener_sees_what_was_changed(server):
    assert ask(port_of(server, "PASS"), send=connect(b"id")) == b"[other]"


def test_udp_is_no_mqtt(server):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.settimeout(10)
        client.sendto(b"a question", ("127.0.0.1", port_of(server, "UDP")))
        assert client.recv(100) == b"an answer"


def test_over_tls(backend, tmp_path):
    authority = Authority(tmp_path)
    conf = MAIN + """
    stream {
        ssl_certificate %s; ssl_certificate_key %s;
        server { listen 127.0.0.1:@PORT@ ssl; mqtt on; mqtt_set_connect username "$ssl_protocol"; mqtt_set_connect password %s;
                 proxy_pass 127.0.0.1:%d; }
    }
    """ % (authority.path("root.crt"), authority.path("root.key"), "p" * 1000, backend.port)
    del backend.received[:]
    with Server(conf=conf) as server, socket.create_connection(("127.0.0.1", server.port), timeout=10) as plain:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        with context.wrap_socket(plain) as client:
            said = connect(b"id", b"joe") + PINGREQ
            client.sendall(said[:20])
            client.sendall(said[20:])
            until(lambda: backend.bytes.endswith(PINGREQ), "what was sent")
            assert backend.bytes == connect(b"id", client.version().encode(), b"p" * 1000) + PINGREQ


def test_an_unknown_field():
    made = Server(conf=MAIN + "stream { server { listen 127.0.0.1:@PORT@; mqtt_set_connect topic x; return x; } }",
                  exit_code=1, allow=["unknown field"])
    made.start(wait=False)
    made.wait_end()
    assert 'unknown field "topic"' in made.read("stderr.txt")
    made.close()


# ---- a real broker, real clients

def is_up(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture(name="broker")
def fixture_broker(tmp_path):
    program = shutil.which("mosquitto") or shutil.which("mosquitto", path="/usr/sbin")
    if program is None or shutil.which("mosquitto_pub") is None:
        pytest.skip("no mosquitto")
    port = ports.take()
    (tmp_path / "passwords").write_text("backend:secret\n")
    subprocess.run(["mosquitto_passwd", "-U", str(tmp_path / "passwords")], check=True)
    (tmp_path / "passwords").chmod(0o644)
    (tmp_path / "mosquitto.conf").write_text(
        "listener %d 127.0.0.1\nallow_anonymous false\npassword_file %s\nuser root\nlog_dest stdout\n"
        % (port.number, tmp_path / "passwords"))
    with open(tmp_path / "log", "wb") as log:
        process = subprocess.Popen([program, "-c", str(tmp_path / "mosquitto.conf")], stdout=log, stderr=log)
    until(lambda: is_up(port.number), "mosquitto")
    yield port.number
    process.terminate()
    process.wait(20)


def test_mosquitto(broker):
    conf = MAIN + """
    stream {
        mqtt on; mqtt_preread on;
        log_format line '$mqtt_preread_clientid $mqtt_preread_username $status';
        access_log access.log line;
        server { listen 127.0.0.1:@PORT@; proxy_pass 127.0.0.1:%d; mqtt_set_connect clientid "c-$mqtt_preread_clientid";
                 mqtt_set_connect username backend; mqtt_set_connect password secret; }
        server { listen 127.0.0.1:@PLAIN@; proxy_pass 127.0.0.1:%d; }
    }
    """ % (broker, broker)
    with Server(conf=numbered(conf)) as server:
        def publish(port, version, *args):
            return subprocess.run(["mosquitto_pub", "-h", "127.0.0.1", "-p", str(port), "-V", version, "-i", "pub-" + version,
                                   "-t", "t", "-m", "from " + version, "-r", "-q", "1", *args], timeout=20, check=False,
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode

        for version in ("mqttv31", "mqttv311", "mqttv5"):
            assert publish(port_of(server, "PLAIN"), version) != 0
            assert publish(server.port, version) == 0
            assert publish(server.port, version, "-u", "nobody", "-P", "x", "--will-topic", "w", "--will-payload", "gone") == 0
            got = subprocess.run(["mosquitto_sub", "-h", "127.0.0.1", "-p", str(server.port), "-V", version, "-t", "t", "-C", "1"],
                                 timeout=20, check=True, stdout=subprocess.PIPE).stdout
            assert got == b"from " + version.encode() + b"\n"
        lines = server.wait_lines("access.log", 12)
        assert "pub-mqttv5 nobody 200" in lines and "pub-mqttv31  200" in lines
