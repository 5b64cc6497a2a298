"""Handshakes and records that fail: what the log says, with which level, as the reference says it."""

import re
import socket
import ssl
import struct

import pytest

import certificates
from harness import binaries, until
from tls_client import connect, context, exchange, pair

SERVER = """
    ssl_protocols TLSv1.2 TLSv1.3; ssl_ciphers ECDHE-ECDSA-AES256-GCM-SHA384;
    ssl_ecdh_curve prime256v1; client_header_timeout 1s;
    server { listen @PORT@ ssl; server_name a; %s return 200 fine; }
    server { listen @PORT@ ssl; server_name rejected; ssl_reject_handshake on; }
    server { listen @PORT@ ssl; server_name absent; ssl_certificate @DIR@/$ssl_server_name.nx;
             ssl_certificate_key @DIR@/$ssl_server_name.nx; return 200; }
    server { listen @PORT@ ssl; server_name strict; %s ssl_verify_client on;
             ssl_client_certificate %s; return 200 fine; }
"""


def hello(**options):
    """The bytes of a ClientHello."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    with pytest.raises(ssl.SSLWantReadError):
        context(**options).wrap_bio(incoming, outgoing, server_hostname="a").do_handshake()
    return outgoing.read()


def raw(port, *parts, reset=False):
    """Sends, and reads to the end."""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as link:
        for part in parts:
            link.sendall(part)
        if reset:
            link.recv(1)  # the server is in the middle of it
            link.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            return
        link.shutdown(socket.SHUT_WR)
        try:
            while link.recv(4096):
                pass
        except ConnectionResetError:
            pass


def refused(port, name="a", **members):
    made = context()
    ciphers = members.pop("ciphers", None)
    for key, value in members.items():
        setattr(made, key, value)
    if ciphers:
        made.set_ciphers(ciphers)
    with pytest.raises((ssl.SSLError, ConnectionError)):
        with connect(port, name, made=made) as secure:
            exchange(secure)


def after_the_handshake(port, record):
    """A record as it is behind a good handshake."""
    secure = connect(port, "a", version=ssl.TLSVersion.TLSv1_2)
    with socket.socket(fileno=secure.detach()) as link:
        link.settimeout(10)
        link.sendall(record)
        try:
            while link.recv(4096):
                pass
        except ConnectionResetError:
            pass


def wrong_curve(port):
    made = context()
    made.set_ecdh_curve("secp384r1")
    with pytest.raises(ssl.SSLError):
        connect(port, "a", made=made)


CASES = {
    "nothing is said": lambda port: raw(port),
    "half a record": lambda port: raw(port, b"\x16\x03\x01\x02\x00\x01"),
    "half a hello": lambda port: raw(port, hello()[:100]),
    "a hello and the end": lambda port: raw(port, hello()),
    "a reset": lambda port: raw(port, hello(), reset=True),
    "no hello in the record": lambda port: raw(port, b"\x16\x03\x01\x00\x05hello"),
    "an empty hello": lambda port: raw(port, b"\x16\x03\x01\x00\x04\x01\x00\x00\x00"),
    "a hello of zeros": lambda port: raw(port, b"\x16\x03\x01\x00\x30\x01\x00\x00\x2c" + b"\0" * 44),
    "too long a record": lambda port: raw(port, b"\x16\x03\x01\xff\xff" + b"\0" * 100),
    "too long a hello": lambda port: raw(port, b"\x16\x03\x01\x40\x00\x01\xff\xff\xff" + b"\0" * 16380),
    "a version that is none": lambda port: raw(port, b"\x16\x09\x09\x00\x05hello"),
    "application data first": lambda port: raw(port, b"\x16\x03\x01\x00\x00\x17\x03\x03\x00\x05hello"),
    "an old hello": lambda port: raw(port, b"\x80\x2e\x01\x00\x02" + b"\0" * 43),
    "an alert in the handshake": lambda port: raw(port, hello(), b"\x15\x03\x01\x00\x02\x02\x28"),
    "a warning in the handshake": lambda port: raw(port, hello(), b"\x15\x03\x01\x00\x02\x01\x5a"),
    "an unknown record type": lambda port: raw(port, hello(), b"\x19\x03\x03\x00\x02\x01\x5a"),
    "an old version": lambda port: refused(
        port, maximum_version=ssl.TLSVersion.TLSv1_1, minimum_version=ssl.TLSVersion.TLSv1,
        ciphers="ALL:@SECLEVEL=0"),
    "no cipher in common": lambda port: refused(
        port, maximum_version=ssl.TLSVersion.TLSv1_2, ciphers="AES128-SHA"),
    "no group in common": wrong_curve,
    "an authority that the client does not know": lambda port: refused(
        port, verify_mode=ssl.CERT_REQUIRED),
    "… in TLS 1.2": lambda port: refused(
        port, verify_mode=ssl.CERT_REQUIRED, maximum_version=ssl.TLSVersion.TLSv1_2),
    "a name that is rejected": lambda port: refused(port, "rejected"),
    "no certificate of the name": lambda port: refused(port, "absent"),
    "a broken record": lambda port: after_the_handshake(port, b"\x17\x03\x03\x00\x20" + b"\0" * 32),
    "a plain record behind the handshake": lambda port: after_the_handshake(
        port, b"\x15\x03\x03\x00\x02\x02\x28"),
    "plain text behind the handshake": lambda port: after_the_handshake(port, b"GET / HTTP/1.0\r\n"),
    "half a record behind the handshake": lambda port: after_the_handshake(port, b"\x17\x03\x03"),
}


def lines_of(server):
    """Level and text of what was logged about clients."""
    found = []
    for line in server.error_log.splitlines():
        match = re.search(r"\[(\w+)\] \d+#\d+: \*\d+ (.*)", line)
        if match and match.group(1) not in ("debug", "notice"):
            text = re.sub(r", client: 127.0.0.1, server: .*", ", client", match.group(2))
            found.append("%s: %s" % (match.group(1), text.replace(server.dir, "@DIR@")))
    return found


def said(serve, binary, case):
    one = pair(certificates.own("one"))
    server = serve("error_log error.log info;" + SERVER % (one, one, certificates.own("ca").crt),
                   binary=binary)
    CASES[case](server.port)
    # What is logged is logged when the next connection is served.
    with connect(server.port, "a") as secure:
        assert exchange(secure, host="a")[0] == 200
    server.signal("quit")
    server.wait_end()
    return lines_of(server)


# What the reference says with another level: these are clients' faults, and no reason to wake somebody.
INFO = {"an empty hello", "too long a record", "a broken record"}


@pytest.mark.parametrize("case", CASES)
def test_level_and_words(serve, case):
    expected = said(serve, binaries.reference(), case)
    if case in INFO:
        expected = [line.replace("crit: ", "info: ") for line in expected]
    assert said(serve, binaries.under_test(), case) == expected


def test_a_handshake_that_hangs_is_info(serve):
    one = pair(certificates.own("one"))
    server = serve("error_log error.log info;" + SERVER % (one, one, certificates.own("ca").crt))
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as link:
        link.sendall(hello()[:50])
        assert link.recv(10) == b""
    until(lambda: lines_of(server), "a line of the log")
    assert lines_of(server) == ["info: client timed out (110: Connection timed out) "
                                "while SSL handshaking, client"]
