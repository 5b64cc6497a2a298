"""What the checkers of TLS servers look for, by ClientHellos made by hand: versions, ciphers, extensions, records.
How handshakes fail in the log is in test_http_ssl_failures.py, options in test_http_ssl_options.py."""

import os
import ssl
import struct
import subprocess

import pytest

import certificates
from harness import Server, conformance, h2, tls
from harness.tls import (SSL3, SUITES_12, SUITES_13, TLS10, TLS11, TLS12, TLS13, offer, record,
                         send)
from harness.workers import wait_workers
from tls_client import ask, connect, context, exchange, pair

CONF = """
    http2 on;
    server { listen 127.0.0.1:@PORT@ ssl; server_name one; %(both)s return 200 "one"; }
    server { listen 127.0.0.1:@PORT@ ssl; server_name two; %(two)s http2 off; return 200 "two"; }
    server { listen 127.0.0.1:@PORT@ ssl; server_name shut; ssl_reject_handshake on; }
    server { listen 127.0.0.1:@PORT1@ ssl; %(rsa)s return 200; }
    server { listen 127.0.0.1:@PORT2@ ssl https_allow_http; %(two)s return 200; }
    server { listen 127.0.0.1:@PORT3@ ssl; %(two)s ssl_protocols TLSv1.2; ssl_session_tickets off; return 200; }
"""


@pytest.fixture(name="server", scope="module")
def _server():
    rsa = pair(certificates.own("one", "rsa"))
    server = Server(CONF % {"both": rsa + pair(certificates.own("one")), "two": pair(certificates.own("two")),
                            "rsa": rsa})
    with server.start():
        yield server


@pytest.fixture(autouse=True)
def _still_good(server):
    """Whatever was sent: another connection, from before, goes on, new ones are taken, and nobody is woken up."""
    with connect(server.port, "two") as held:
        yield
        assert exchange(held, host="two")[1] == "two"
    assert ask(server.port, name="one", host="one")[1] == "one"
    lines = [line for line in server.lines("error.log") if any(
        "[%s]" % level in line for level in ("emerg", "alert", "crit", "error", "warn"))]
    assert lines == []


# versions

@pytest.mark.parametrize("version, is_spoken", [
    (SSL3, False), (TLS10, False), (TLS11, False), (TLS12, True), (TLS13, True)],
    ids=["SSLv3", "TLSv1", "TLSv1.1", "TLSv1.2", "TLSv1.3"])
def test_each_version_alone(server, version, is_spoken):
    old = [0xc009, 0xc013, 0xc00a, 0xc014, 0x2f, 0x35, 0x0a, 5]
    answer = offer(server.port, version, suites=old if version < TLS12 else None)
    assert answer.version == (version if is_spoken else None)
    # SSL 3.0 has no alert of that name.
    assert answer.alert == (None if is_spoken else tls.HANDSHAKE_FAILURE if version == SSL3 else tls.PROTOCOL_VERSION)


def test_ssl2(server):
    """Its ClientHello is none of ours; a version-2 one that offers TLS 1.2 is none, either, since RFC 8446."""
    for version in (2, TLS12):
        body = b"\1" + struct.pack("!HHHH", version, 9, 0, 16) + b"\x07\0\xc0\x05\0\x80\0\0\x2f" + bytes(16)
        answer = tls.Answer(send(server.port, struct.pack("!H", 0x8000 | len(body)) + body))
        assert answer.version is None


@pytest.mark.parametrize("offered, chosen", [
    ([TLS13, TLS12], TLS13), ([TLS12, TLS13], TLS13), ([0x7a7a, TLS13], TLS13), ([TLS12, TLS11], TLS12),
    ([0x7f1c, TLS12], TLS12), ([TLS11, TLS10], None), ([0x305], None), ([0xfefd], None)])
def test_lists_of_versions(server, offered, chosen):
    """GREASE (RFC 8701), drafts and versions to come are passed over."""
    extensions = tls.usual(TLS13).replace(tls.versions(TLS13), tls.versions(*offered))
    answer = offer(server.port, TLS13, SUITES_13 + SUITES_12, extensions=extensions)
    assert answer.version == chosen
    assert answer.alert == (None if chosen else tls.PROTOCOL_VERSION)


def test_version_of_the_hello_beyond_ours(server):
    """Without a list of versions it is the most that the client has."""
    data = bytearray(tls.hello(TLS12))
    data[4:6] = b"\x03\x09"
    assert tls.Answer(send(server.port, record(bytes(data)))).version == TLS12


def test_fallback_is_told(server):
    """RFC 7507: a client that came down a version, where both have a higher one."""
    answer = offer(server.port, TLS12, SUITES_12 + [tls.FALLBACK])
    assert answer.version is None and answer.alert == tls.INAPPROPRIATE_FALLBACK
    assert offer(server.port_of("PORT3"), TLS12, SUITES_12 + [tls.FALLBACK]).version == TLS12
    assert offer(server.port, TLS13, SUITES_13 + [tls.FALLBACK]).version == TLS13


def test_downgrade_is_marked(server):
    """RFC 8446, 4.1.3: the server's random number says that TLS 1.3 would have been there."""
    for port, is_marked in ((server.port, True), (server.port_of("PORT3"), False)):
        data = send(port, record(tls.hello(TLS12)))
        assert (data[11:43][-8:] == b"DOWNGRD\1") == is_marked


# ciphers

WEAK = {
    "NULL": [0x01, 0x02, 0x3b, 0xc006, 0xc010, 0xc001, 0x2c],
    "EXPORT": [0x03, 0x06, 0x08, 0x0b, 0x0e, 0x11, 0x14, 0x62, 0x64],
    "RC4": [0x04, 0x05, 0xc007, 0xc011, 0xc002, 0x18],
    "DES": [0x09, 0x0c, 0x0f, 0x12, 0x15, 0x1a],
    "3DES": [0x0a, 0x0d, 0x10, 0x13, 0x16, 0xc008, 0xc012, 0x1b],
    "anonymous": [0x17, 0x18, 0x1b, 0x34, 0x3a, 0x6c, 0x6d, 0xa6, 0xa7, 0xc015, 0xc016, 0xc018, 0xc019],
    "MD5": [0x01, 0x04, 0x07],
    "IDEA, SEED, RC2": [0x07, 0x96, 0x99, 0x9a, 0x06],
    "PSK, SRP": [0x8c, 0x8d, 0xae, 0xa8, 0xc035, 0xc01d, 0xc020],
    "DH without (EC)DHE": [0x30, 0x31, 0x36, 0x37, 0xc004, 0xc00e, 0xc02d],
    "DHE without parameters": [0x33, 0x39, 0x67, 0x6b, 0x9e, 0x9f, 0xccaa],
    "GREASE": [0x0a0a, 0xfafa],
}


@pytest.mark.parametrize("kind", WEAK)
@pytest.mark.parametrize("place", ["PORT", "PORT1"])
def test_weak_ciphers_alone(server, kind, place):
    """By default there is none of them, with certificates of RSA or of elliptic curves."""
    answer = offer(server.port_of(place), TLS12, WEAK[kind])
    assert answer.version is None and answer.alert == tls.HANDSHAKE_FAILURE


def test_weak_ciphers_before_good_ones(server):
    weak = sorted({suite for suites in WEAK.values() for suite in suites})
    assert offer(server.port, TLS12, weak + SUITES_12).suite in SUITES_12
    assert offer(server.port, TLS13, weak + SUITES_13).suite in SUITES_13


CLIENTS = {
    "Chrome": (TLS13, [0x1a1a, 0x1301, 0x1302, 0x1303, 0xc02b, 0xc02f, 0xc02c, 0xc030, 0xcca9, 0xcca8, 0xc013, 0xc014,
                       0x9c, 0x9d, 0x2f, 0x35]),
    "Firefox": (TLS13, [0x1301, 0x1303, 0x1302, 0xc02b, 0xc02f, 0xcca9, 0xcca8, 0xc02c, 0xc030, 0xc00a, 0xc009, 0xc013,
                        0xc014, 0x9c, 0x9d, 0x2f, 0x35]),
    "Safari 9": (TLS12, [0xff, 0xc02c, 0xc02b, 0xc024, 0xc023, 0xc00a, 0xc009, 0xc030, 0xc02f, 0xc028, 0xc027, 0xc014,
                         0xc013, 0x9d, 0x9c, 0x3d, 0x3c, 0x35, 0x2f]),
    "Internet Explorer 11": (TLS12, [0xc028, 0xc027, 0xc014, 0xc013, 0x9f, 0x9e, 0x9d, 0x9c, 0xc02c, 0xc02b, 0xc024,
                                     0xc023, 0xc00a, 0xc009, 0x3d, 0x3c, 0x35, 0x2f, 0x0a]),
    "Java 8": (TLS12, [0xc024, 0xc028, 0x3d, 0xc026, 0xc02a, 0x6b, 0x6a, 0xc00a, 0xc014, 0x35, 0xc02c, 0xc02b, 0xc030,
                       0x9d, 0xc02f, 0x9c, 0xff]),
    "Android 5": (TLS12, [0xcc14, 0xcc13, 0xc02b, 0xc02f, 0x9e, 0xc00a, 0xc009, 0xc013, 0xc014, 0x33, 0x39, 0x9c, 0x35,
                          0x2f, 0xff]),
}


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("place", ["PORT", "PORT1"])
def test_forward_secrecy_with_usual_clients(server, client, place):
    version, suites = CLIENTS[client]
    answer = offer(server.port_of(place), version, suites)
    assert answer.version == version
    assert answer.suite in SUITES_13 or answer.suite >> 8 in (0xc0, 0xcc), hex(answer.suite)


# extensions

def test_no_compression(server):
    """CRIME: neither when offered, nor, in TLS 1.3, at all."""
    assert offer(server.port, TLS12, compressions=b"\1\0").compression == 0
    answer = offer(server.port, TLS13, compressions=b"\1\0")
    assert answer.version is None and answer.alert == tls.ILLEGAL_PARAMETER
    assert offer(server.port, TLS12, compressions=b"\1").version is None


def test_secure_renegotiation_is_told(server):
    """RFC 5746: by the extension, or by the suite that stands for it."""
    assert offer(server.port, TLS12, more=tls.extension(tls.RENEGOTIATION, b"\0")).extensions[
        tls.RENEGOTIATION] == b"\0"
    assert tls.RENEGOTIATION in offer(server.port, TLS12, SUITES_12 + [0xff]).extensions
    answer = offer(server.port, TLS12, more=tls.extension(tls.RENEGOTIATION, b"\x0c" + bytes(12)))
    assert answer.version is None and answer.alert == tls.HANDSHAKE_FAILURE


def test_no_heartbeat(server):
    """Heartbleed: the extension is not taken up, and a heartbeat before the handshake is an error."""
    offered = tls.extension(tls.HEARTBEATS, b"\1")
    for version in (TLS12, TLS13):
        assert tls.HEARTBEATS not in offer(server.port, version, more=offered).extensions
    beat = record(b"\1\x40\0", tls.HEARTBEAT, TLS12)
    data = send(server.port, record(tls.hello(TLS12, more=offered)), beat)
    assert all(kind != tls.HEARTBEAT for kind, _ in tls.records(data))
    assert tls.Answer(data).alert == tls.UNEXPECTED_MESSAGE


def test_extended_master_secret(server):
    assert tls.EXTENDED_SECRET in offer(server.port, more=tls.extension(tls.EXTENDED_SECRET)).extensions


def test_tickets_are_announced(server):
    asked = tls.extension(tls.TICKET)
    assert tls.TICKET in offer(server.port, more=asked).extensions
    assert tls.TICKET not in offer(server.port_of("PORT3"), more=asked).extensions


@pytest.mark.parametrize("asked, suits", [
    (tls.name("one"), True), (tls.name("TWO"), True), (tls.name("nobody.example"), True), (b"", True),
    (tls.name("127.0.0.1"), True), (tls.name("two."), True), (tls.name("x" * 255), True),
    (tls.name("*"), True), (tls.name(""), True),
    (tls.name("a b"), False), (tls.name("a/../b"), False), (tls.name("a\x01"), False),
    (tls.name("x" * 256), False), (tls.name("a\0b"), False),
    (tls.extension(tls.NAME), False), (tls.extension(tls.NAME, b"\0\0"), False),
    (tls.extension(tls.NAME, b"\0\x05\0\0\x09one"), False),
    (tls.name("one") + tls.name("two"), False), (tls.name("shut"), False)])
def test_names(server, asked, suits):
    for version in (TLS12, TLS13):
        answer = offer(server.port, version, more=asked)
        assert (answer.version == version) == suits, answer.data
        assert suits == (answer.alert is None)


@pytest.mark.parametrize("asked, name, chosen", [
    (tls.alpn("h2", "http/1.1"), "one", "h2"), (tls.alpn("http/1.1", "h2"), "one", "h2"),
    (tls.alpn("http/1.1"), "one", "http/1.1"), (tls.alpn("spdy/3", "http/1.0", "h2"), "one", "h2"),
    (tls.alpn("\x0a\x0a", "http/1.1"), "one", "http/1.1"), (tls.alpn("h2", "http/1.1"), "two", "http/1.1"),
    (tls.alpn("h3"), "one", None), (tls.alpn("h2"), "two", None), (tls.extension(tls.ALPN), "one", None),
    (tls.extension(tls.ALPN, b"\0\3\5h2"), "one", None), (tls.extension(tls.ALPN, b"\0\1\0"), "one", None)])
def test_alpn(server, asked, name, chosen):
    answer = offer(server.port, TLS12, more=tls.name(name) + asked)
    assert answer.extensions.get(tls.ALPN) == (tls.vector(2, tls.vector(1, chosen.encode())) if chosen else None)
    assert (answer.alert is None) == (chosen is not None)


def test_extensions_nobody_knows(server):
    many = b"".join(tls.extension(number, os.urandom(40)) for number in range(0x4000, 0x4060))
    for version in (TLS12, TLS13):
        assert offer(server.port, version, more=many).version == version


def test_extensions_that_are_twice_there(server):
    for twice in (tls.name("one") * 2, tls.alpn("h2") * 2, tls.extension(tls.EXTENDED_SECRET) * 2):
        answer = offer(server.port, TLS13, more=twice)
        assert answer.version is None and answer.alert is not None


# records

@pytest.mark.parametrize("size", [1, 7, 100])
def test_hello_in_many_records(server, size):
    message = tls.hello(TLS13)
    parts = [record(message[at:at + size]) for at in range(0, len(message), size)]
    assert tls.Answer(send(server.port, b"".join(parts))).version == TLS13


def test_hello_of_many_kilobytes(server):
    """Two records of it; more than a megabyte is refused before it is there."""
    message = tls.hello(TLS13, more=tls.extension(21, bytes(20000)))
    parts = [record(message[at:at + 16384]) for at in range(0, len(message), 16384)]
    assert tls.Answer(send(server.port, b"".join(parts))).version == TLS13
    answer = tls.Answer(send(server.port, record(b"\1\x20\0\0" + bytes(16000))))
    assert answer.version is None and answer.alert is not None


def test_every_first_byte(server):
    """One of them is TLS; the others are a request in plain text, or nothing. None gets a handshake of five bytes."""
    for first in range(256):
        data = send(server.port, bytes([first]) + b"\x03\x01\x00\x05hello")
        assert tls.Answer(data).version is None
        assert data[:9] in (b"", b"HTTP/1.1 ") or data[0] == tls.ALERT, (first, data)


@pytest.mark.parametrize("sent", [
    b"\x16\x02\x00\x00\x05hello", b"\x16\xff\xff\x00\x05hello", record(b""), record(b"") * 100,
    b"\x16\x03\x01\x40\x01" + bytes(16385), b"\x16\x03\x01\x48\x01" + bytes(18433),
    b"\x16\x03\x01\xff\xff" + bytes(65535), record(b"\2\x28", tls.ALERT), record(b"\1\0", tls.ALERT),
    record(b"\1\x5a", tls.ALERT) * 20, record(b"\2", tls.ALERT), record(b"\1", 20),
    record(b"hello", tls.APPLICATION_DATA), record(b"\0" * 4), record(b"\2" + tls.hello()[1:]),
    record(b"\x14" + tls.vector(3, bytes(12))), record(b"\1\0\0\0"), record(tls.hello()[:-1]),
    record(tls.hello() + b"x"),
    record(tls.hello(suites=[])), record(tls.hello(compressions=b"")), record(tls.hello(session=bytes(33))),
    record(tls.hello(extensions=b"\0\0\xff\xff")), record(tls.hello()) * 2, record(tls.hello(TLS13)) * 2,
], ids=lambda sent: sent[:11].hex() + "_%d" % len(sent))  # what follows is random, and all processes name tests alike
def test_broken_records(server, sent):
    """The connection ends, mostly with an alert; only behind a whole ClientHello there is a ServerHello before."""
    answer = tls.Answer(send(server.port, sent))
    has_hello = len(sent) > 100 and sent[5:6] == b"\1"
    assert answer.version is None or has_hello
    assert has_hello or all(kind == tls.ALERT for kind, _ in tls.records(answer.data)), answer.data


@pytest.mark.parametrize("version", [TLS12, TLS13])
def test_broken_records_behind_the_first_flight(server, version):
    for sent in (record(bytes(100), version=TLS12), record(b"", tls.APPLICATION_DATA, TLS12) * 50,
                 record(os.urandom(300), tls.APPLICATION_DATA, TLS12), record(b"\1", 20, TLS12) * 40,
                 b"\x17\x03\x03\xff\xff" + bytes(65535), b"GET / HTTP/1.1\r\n\r\n",
                 record(tls.hello(version), version=TLS12)):
        assert tls.Answer(send(server.port, record(tls.hello(version)), sent)).version == version


# plain text on a port of TLS

@pytest.mark.parametrize("sent", [
    b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", b"HEAD / HTTP/1.0\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc", b"G", b"GET / HTTP/9.9\r\n\r\n", b"get\r\n\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(9), b"\r\n\r\n", b"SSH-2.0-x\r\n"])
@pytest.mark.parametrize("place", ["PORT", "PORT2"])
def test_plain_text(server, sent, place):
    """A request gets 400, or the way to https where that is allowed; what is none gets 400 or nothing."""
    data = send(server.port_of(place), sent)
    status = data.split(b" ")[1] if data else None
    is_sound = sent[:3] in (b"GET", b"HEA", b"POS") and b"9.9" not in sent
    if is_sound and place == "PORT2" and b"Host" in sent:
        assert status == b"301" and b"Location: https://a:%d/\r\n" % server.port_of(place) in data
    elif is_sound and place == "PORT":
        assert status == b"400" and (b"The plain HTTP request was sent to HTTPS port" in data) == (sent[:1] != b"H")
    else:
        assert status in (None, b"301", b"400", b"405", b"505"), data
    assert b"Connection: close" in data or not data


# sessions at several workers

@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize("text", ["", "ssl_session_tickets off; ssl_session_cache shared:S:1m;"],
                         ids=["tickets", "identifiers"])
def test_sessions_are_good_at_every_worker(serve, version, text):
    many = serve("server { listen 127.0.0.1:@PORT@ ssl reuseport; %s %s return 200 \"$ssl_session_reused $pid\"; }"
                 % (pair(certificates.own("one")), text), main="worker_processes 4;")
    wait_workers(many, 4)
    made = context(version=version)
    with connect(many.port, made=made) as secure:
        answer = exchange(secure)[1].split()
        session = secure.session
    seen = {answer[1]}
    for _ in range(40):
        with connect(many.port, made=made, session=session) as secure:
            reused, worker = exchange(secure)[1].split()
            session = secure.session
        assert reused == "r"
        seen.add(worker)
        if len(seen) == 4:
            break
    assert len(seen) > 1


# early data

@pytest.mark.parametrize("alpn", ["http/1.1", "h2"])
def test_early_data_that_is_replayed(serve, alpn):
    """It is served each time, as nginx does: that the request may be one is told by $ssl_early_data, from which 425
    can be made of what may not be done twice (RFC 8470)."""
    early = serve("""
        log_format how '$server_protocol [$early] $request_method $status'; access_log logs/access.log how;
        map "$ssl_early_data $request_method" $too_early { default 0; "1 POST" 1; }
        server { listen 127.0.0.1:@PORT@ ssl; http2 on; %s ssl_early_data on;
                 set $early $ssl_early_data; if ($too_early) { return 425; } return 200; }""" % pair(certificates.own("one")))
    base = ["openssl", "s_client", "-connect", "127.0.0.1:%d" % early.port, "-tls1_3", "-ign_eof", "-alpn", alpn]
    version = {"h2": "HTTP/2.0", "http/1.1": "HTTP/1.1"}[alpn]

    def asks(method):
        if alpn == "http/1.1":
            return b"%s / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n" % method.encode()
        return (h2.PREFACE + conformance.settings() + conformance.headers(1, conformance.request("/", method))
                + conformance.frame(h2.GOAWAY, 0, 0, bytes(8)))

    def run(sent, *words):
        return subprocess.run(base + list(words), input=sent, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              timeout=30, check=False).stdout

    run(asks("GET"), "-sess_out", early.path("session"))
    wanted = ["%s [] GET 200" % version]
    for method, status in (("GET", 200), ("GET", 200), ("POST", 425)):
        early.write("request", asks(method))
        told = run(b"", "-sess_in", early.path("session"), "-early_data", early.path("request"))
        assert b"Early data was accepted" in told, told
        wanted.append("%s [1] %s %d" % (version, method, status))
        assert early.wait_lines("logs/access.log", len(wanted)) == wanted
