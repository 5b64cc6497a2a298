"""rdp_preread: the cookie, or the routing token, that a client of RDP begins with."""

import socket
import struct

import pytest

from harness import Server
from peers import Peer, ask

NAMES = ["SMALL", "OFF", "MAP", "HASH"]
MAIN = "pid nginx.pid; error_log error.log info; worker_processes 1; daemon off; events { }\n"
NEGOTIATION = b"\x01\x00\x08\x00\x03\x00\x00\x00"


def request(parts=b"", kind=0xe0, length=None, indicator=None):
    """A connection request (X.224) in its TPKT."""
    return struct.pack(">BBHBBHHB", 3, 0, 11 + len(parts) if length is None else length,
                       6 + len(parts) if indicator is None else indicator, kind, 0, 0, 0) + parts


JOE = request(b"Cookie: mstshash=joe\r\n" + NEGOTIATION)


def port_of(server, name):
    return server.port_of("PORT%d" % (NAMES.index(name) + 1))


def numbered(conf):
    """The configuration with numbers in the place of our names of ports."""
    for number, name in enumerate(NAMES):
        conf = conf.replace("@%s@" % name, "@PORT%d@" % (number + 1))
    return conf


@pytest.fixture(scope="module", name="server")
def fixture_server():
    backends = [Peer(b"one"), Peer(b"two"), Peer(b"joe's")]
    conf = MAIN + """
    stream {
        access_log off;
        map $rdp_cookie_mstshash $chosen { joe 127.0.0.1:%d; default 127.0.0.1:%d; }
        upstream farm { hash $rdp_cookie consistent; server 127.0.0.1:%d; server 127.0.0.1:%d; }
        rdp_preread on;
        server { listen 127.0.0.1:@PORT@; return "[$rdp_cookie][$rdp_cookie_mstshash][$rdp_cookie_msts]"; }
        server { listen 127.0.0.1:@SMALL@; preread_buffer_size 16; return "[$rdp_cookie]"; }
        server { listen 127.0.0.1:@OFF@; rdp_preread off; return "[$rdp_cookie]"; }
        server { listen 127.0.0.1:@MAP@; proxy_pass $chosen; }
        server { listen 127.0.0.1:@HASH@; proxy_pass farm; }
    }
    """ % (backends[2].port, backends[0].port, backends[0].port, backends[1].port)
    with Server(conf=numbered(conf), allow=["preread buffer full"]) as made:
        yield made
    for backend in backends:
        backend.close()


SAID = {
    "a cookie": (JOE, b"[mstshash=joe][joe][]"),
    "a cookie alone": (request(b"Cookie: mstshash=joe\r\n"), b"[mstshash=joe][joe][]"),
    "other case": (request(b"cookie: MSTSHASH=Joe\r\n"), b"[MSTSHASH=Joe][Joe][]"),
    "a domain": (request(b"Cookie: mstshash=DOM\\joe\r\n"), b"[mstshash=DOM\\joe][DOM\\joe][]"),
    "a value with signs of its own": (request(b"Cookie: mstshash=a=b; c\r\n"), b"[mstshash=a=b; c][a=b; c][]"),
    "an empty value": (request(b"Cookie: mstshash=\r\n"), b"[mstshash=][][]"),
    "a routing token": (request(b"Cookie: msts=3640205228.15629.0000\r\n" + NEGOTIATION),
                        b"[msts=3640205228.15629.0000][][3640205228.15629.0000]"),
    "a token of another kind": (request(b"tsv://MS Terminal Services Plugin.1.Farm\r\n" + NEGOTIATION),
                                b"[tsv://MS Terminal Services Plugin.1.Farm][][]"),
    "a credit": (request(b"Cookie: mstshash=joe\r\n", kind=0xe5), b"[mstshash=joe][joe][]"),
    "more than the request": (JOE + b"\x03\x00\x00\x08", b"[mstshash=joe][joe][]"),
    "no cookie": (request(NEGOTIATION), b"[][][]"),
    "nothing": (request(), b"[][][]"),
    "a line without an end": (request(b"Cookie: mstshash=joe"), b"[][][]"),
    "half an end": (request(b"Cookie: mstshash=joe\r"), b"[][][]"),
    "an end that belongs to what follows": (request(b"Cookie: mstshash=joe", length=33) + b"\r\n", b"[][][]"),
    "bytes that are no text": (request(b"Cookie: mstshash=j\x00e\r\n"), b"[][][]"),
    "another message": (request(b"Cookie: mstshash=joe\r\n", kind=0xf0), b"[][][]"),
    "a length that is too small": (request(b"Cookie: mstshash=joe\r\n", length=12), b"[][][]"),
    "an inner length that is too small": (request(b"Cookie: mstshash=joe\r\n", indicator=5), b"[][][]"),
    "another protocol": (b"GET / HTTP/1.0\r\n\r\n", b"[][][]"),
}


@pytest.mark.parametrize("name", SAID)
def test_preread(server, name):
    data, wanted = SAID[name]
    assert ask(server.port, send=data) == wanted


def test_each_byte_for_itself(server):
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in JOE:
            client.send(bytes([byte]))
        assert client.recv(100) == b"[mstshash=joe][joe][]"


def test_a_bound(server):
    assert ask(port_of(server, "SMALL"), send=JOE) == b""
    server.wait_log("preread buffer full")


def test_off(server):
    assert ask(port_of(server, "OFF"), send=JOE) == b"[]"


def test_it_chooses_the_backend(server):
    assert ask(port_of(server, "MAP"), send=JOE) == b"joe's"
    assert ask(port_of(server, "MAP"), send=JOE.replace(b"joe", b"ann")) == b"one"


def test_one_client_stays_with_one_backend(server):
    users = [JOE.replace(b"joe", b"u%02d" % n) for n in range(20)]
    first = [ask(port_of(server, "HASH"), send=user) for user in users]
    assert set(first) == {b"one", b"two"}
    assert [ask(port_of(server, "HASH"), send=user) for user in users] == first
