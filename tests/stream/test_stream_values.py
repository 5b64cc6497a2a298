"""Variables that http and stream have alike: num_map, $proxy_protocol_tlv_*, those of vendors. One server with both."""

import socket
import struct

import pytest

from harness import Server, run_binary

NUM_MAP = """
    num_map $proxy_protocol_port $port {
        default other;
        0-65535 any;
        80 http;
        8000-8999 range;
        8500-8600 inner;
        8550-8700 later;
        <=1023 low;
        22 "ssh $proxy_protocol_port";
        18446744073709551615 most;
    }
    num_map $proxy_protocol_port $bare { 1 one; }
    num_map $tenth $text { default none; 8 eight; }
    map $proxy_protocol_port $tenth { 1 8; 2 -8; 3 8.0; 4 ""; 5 08; 6 18446744073709551616; default x; }
    num_map $remote { default no; 1-65535 yes; include more.conf; }
    num_map $proxy_protocol_port $nothing { }
"""
SAID = "$port|$bare|$text|$remote|$nothing"
TLVS = ("$proxy_protocol_tlv_aws_vpce_id|$proxy_protocol_tlv_azure_pel_id|$proxy_protocol_tlv_gcp_conn_id"
        "|$proxy_protocol_tlv_authority|$proxy_protocol_tlv_0xea|$proxy_protocol_tlv_ssl_cn")

CONF = """stream { %(maps)s
    server { listen 127.0.0.1:@PORT1@ proxy_protocol; return "%(said)s"; }
    server { listen 127.0.0.1:@PORT2@ proxy_protocol; return "%(tlvs)s"; }
}""" % {"maps": NUM_MAP, "said": SAID, "tlvs": TLVS}
HTTP = """%(maps)s
    server { listen 127.0.0.1:@PORT3@ proxy_protocol; return 200 "%(said)s"; }
    server { listen 127.0.0.1:@PORT4@ proxy_protocol; return 200 "%(tlvs)s"; }
""" % {"maps": NUM_MAP, "said": SAID, "tlvs": TLVS}


@pytest.fixture(scope="module", name="server")
def _server():
    server = Server(HTTP, main=CONF, files={"more.conf": "0 zero;\n"}).start()
    yield server
    server.close()


def said(server, number, header):
    """What the stream server of this number says behind such a header, and the http one."""
    texts = []
    for port in (number, number + 2):
        with socket.create_connection(("127.0.0.1", server.port_of("PORT%d" % port)), timeout=10) as client:
            client.sendall(header + (b"GET / HTTP/1.0\r\n\r\n" if port > 2 else b""))
            got = b""
            while True:
                data = client.recv(65536)
                if not data:
                    break
                got += data
            texts.append(got.partition(b"\r\n\r\n")[2] if port > 2 else got)
    assert texts[0] == texts[1]
    return texts[0].split(b"|")


@pytest.mark.parametrize("port, wanted", [
    (80, b"http"), (22, b"ssh 22"), (1, b"low"), (1023, b"low"), (1024, b"any"), (7999, b"any"), (8000, b"range"), (8499, b"range"),
    (8500, b"inner"), (8550, b"inner"), (8600, b"inner"), (8601, b"later"), (8700, b"later"), (8701, b"range"), (9000, b"any"), (65535, b"any")])
def test_the_smallest_range_that_has_a_number(server, port, wanted):
    assert said(server, 1, b"PROXY TCP4 1.2.3.4 5.6.7.8 %d 9\r\n" % port)[0] == wanted


def test_defaults_and_what_is_no_number(server):
    texts = {port: said(server, 1, b"PROXY TCP4 1.2.3.4 5.6.7.8 %d 9\r\n" % port) for port in range(1, 8)}
    assert [texts[port][1] for port in (1, 2)] == [b"one", b""]
    assert [texts[port][2] for port in range(1, 8)] == [b"eight", b"none", b"none", b"none", b"eight", b"none", b"none"]
    assert {texts[port][3] for port in texts} == {b"yes"}
    assert {texts[port][4] for port in texts} == {b""}
    assert said(server, 1, b"PROXY UNKNOWN\r\n")[0] == b"other"


@pytest.mark.parametrize("line, error", [
    ("a 1;", 'invalid number or range "a"'), ("-1 1;", 'invalid number or range "-1"'), ("5-4 1;", 'invalid number or range "5-4"'),
    ("1- 1;", 'invalid number or range "1-"'), ("<1 1;", 'invalid number or range "<1"'), ("<= 1;", 'invalid number or range "<="'),
    ("1-2-3 1;", 'invalid number or range "1-2-3"'), ("18446744073709551616 1;", 'invalid number or range "18446744073709551616"'),
    ("1 1; 1-1 2;", 'conflicting parameter "1-1"'), ("default 1; default 2;", "duplicate default num_map parameter"),
    ("1;", "invalid number of the num_map parameters"), ("1 2 3;", "invalid number of the num_map parameters"),
    ("1 $nosuch;", 'unknown "nosuch" variable')])
def test_lines_that_are_none(tmp_path, line, error):
    for block in ("http", "stream"):
        (tmp_path / "c").write_text("pid p; events { } %s { num_map $remote_port $v { %s } }" % (block, line))
        done = run_binary("-p", str(tmp_path), "-c", "c", "-t", "-e", "stderr")
        assert done.returncode == 1 and error in done.stderr


def header(*tlvs):
    body = socket.inet_aton("1.2.3.4") + socket.inet_aton("5.6.7.8") + struct.pack("!HH", 80, 443)
    body += b"".join(struct.pack("!BH", kind, len(value)) + value for kind, value in tlvs)
    return b"\r\n\r\n\0\r\nQUIT\n\x21\x11" + struct.pack("!H", len(body)) + body


@pytest.mark.parametrize("tlvs, wanted", [
    ([], [b""] * 6),
    ([(0xea, b"\x01vpce-08d2bf15fac5001c9")], [b"vpce-08d2bf15fac5001c9", b"", b"", b"", b"\x01vpce-08d2bf15fac5001c9", b""]),
    ([(0xea, b"\x02vpce")], [b"", b"", b"", b"", b"\x02vpce", b""]),
    ([(0xea, b"\x01")], [b"", b"", b"", b"", b"\x01", b""]),
    ([(0xee, b"\x01" + struct.pack("<I", 0x12345678))], [b"", b"305419896", b"", b"", b"", b""]),
    ([(0xee, b"\x01abc")], [b""] * 6),
    ([(0xee, b"\x01abcde")], [b""] * 6),
    ([(0xee, b"\x02abcd")], [b""] * 6),
    ([(0xe0, struct.pack("!Q", 2 ** 64 - 2))], [b"", b"", b"18446744073709551614", b"", b"", b""]),
    ([(0xe0, b"1234567")], [b""] * 6),
    ([(0x02, b"name.example"), (0x20, b"\x07\0\0\0\0\x22\0\x02me")], [b"", b"", b"", b"name.example", b"", b"me"]),
])
def test_what_clouds_say(server, tlvs, wanted):
    assert said(server, 2, header(*tlvs)) == wanted


def test_a_header_of_version_1_has_none(server):
    assert said(server, 2, b"PROXY TCP4 1.2.3.4 5.6.7.8 1 2\r\n") == [b""] * 6
