"""HTTP/2 messages and header compression: a row for each rule of RFC 9113, section 8, and of RFC 7541, in the clear
and over TLS."""


import hpack
import pytest

import certificates
from harness.conformance import (Answers, Ends, Malformed, Row, answered, connect,
                                 data, headers, integer, literal, post, request, server_of, string, table)
from harness.h2 import COMPRESSION_ERROR, END_HEADERS, END_STREAM

HEADER_TABLE_SIZE = 1
TABLE_MOST = 4096       # bytes of the table that the server lets clients have
STATIC_MOST = 61        # entries of the static table


@pytest.fixture(name="server", scope="module")
def _server():
    with server_of(certificates.own("h2")).start() as server:
        yield server


def sent(*pairs, trailing=b""):
    """One request of these fields."""
    return headers(1, literal(*pairs) + trailing)


def with_field(name, value):
    return Row("8.2", "field %r: %r" % (name, value), headers(1, request("/a.txt", "GET", (name, value))),
               Malformed())


METHOD, SCHEME, PATH, AUTHORITY = (":method", "GET"), (":scheme", "http"), (":path", "/a.txt"), (":authority", "a")
TUNNEL = (":authority", "tunnel:1")

MESSAGES = [
    Row("8.1", "trailers that do not end the stream", [
        post(), data(1, b"abc", 0), headers(1, literal(("x-t", "1")), END_HEADERS)], Malformed()),
    Row("8.1", "trailers", [
        post(), data(1, b"abc", 0), headers(1, literal(("x-t", "1")))], Answers(body=b"got 3")),
    Row("8.1", "trailers with a pseudo field", [
        post(), data(1, b"abc", 0), headers(1, literal((":method", "POST")))], Malformed()),
    Row("8.1", "trailers in capitals", [
        post(), data(1, b"abc", 0), headers(1, literal(("X-T", "1")))], Malformed()),
    Row("8.1.1", "a body shorter than announced", [post(1, ("content-length", "5")), data(1, b"abc")], Malformed()),
    Row("8.1.1", "a body longer than announced", [post(1, ("content-length", "2")), data(1, b"abc")], Malformed()),
    Row("8.1.1", "a longer one in several frames", [
        post(1, ("content-length", "4")), data(1, b"abc", 0), data(1, b"de")], Malformed()),
    Row("8.1.1", "no body, but announced", headers(1, request("/p", "POST", ("content-length", "1"))), Malformed()),
    Row("8.1.1", "as announced, in several frames", [
        post(1, ("content-length", "4")), data(1, b"abc", 0), data(1, b"d", 0), data(1, b"")],
        Answers(body=b"got 4")),
    Row("8.1.1", "two lengths", headers(1, request("/p", "POST", ("content-length", "0"),
                                                   ("content-length", "1"))), Malformed()),
    Row("8.2.2", "te: trailers", headers(1, request("/a.txt", "GET", ("te", "trailers"))), Answers()),
    with_field("Upper", "x"),
    with_field("upPer", "x"),
    with_field("", "x"),
    with_field("x y", "z"),
    with_field("a:b", "c"),
    with_field("x\x7f", "c"),
    with_field("x\xe4", "c"),
    with_field("x", "a\nb"),
    with_field("x", "a\rb"),
    with_field("x", "a\0b"),
    with_field("connection", "close"),
    with_field("keep-alive", "5"),
    with_field("proxy-connection", "x"),
    with_field("transfer-encoding", "chunked"),
    with_field("upgrade", "h2c"),
    with_field("te", "gzip"),
    with_field("te", "trailers, gzip"),
    with_field("content-length", "5"),
    with_field("content-length", "x"),
    with_field("content-length", "-1"),
    with_field("content-length", ""),
    Row("8.3", "an unknown pseudo field", sent(METHOD, SCHEME, PATH, AUTHORITY, (":what", "x")), Malformed()),
    Row("8.3", "a pseudo field of responses", sent(METHOD, SCHEME, PATH, AUTHORITY, (":status", "200")), Malformed()),
    Row("8.3", "a pseudo field after a field", sent(METHOD, SCHEME, ("a", "b"), PATH, AUTHORITY), Malformed()),
    Row("8.3.1", "no :method", sent(SCHEME, PATH, AUTHORITY), Malformed()),
    Row("8.3.1", "no :scheme", sent(METHOD, PATH, AUTHORITY), Malformed()),
    Row("8.3.1", "no :path", sent(METHOD, SCHEME, AUTHORITY), Malformed()),
    Row("8.3.1", "an empty :path", sent(METHOD, SCHEME, (":path", ""), AUTHORITY), Malformed()),
    Row("8.3.1", "an empty :method", sent((":method", ""), SCHEME, PATH, AUTHORITY), Malformed()),
    Row("8.3.1", "an empty :scheme", sent(METHOD, (":scheme", ""), PATH, AUTHORITY), Malformed()),
    Row("8.3.1", "a :path without a slash", sent(METHOD, SCHEME, (":path", "a"), AUTHORITY), Answers(400)),
    Row("8.3.1", "a :path out of the root", sent(METHOD, SCHEME, (":path", "/../.."), AUTHORITY), Answers(400)),
    Row("8.3.1", "a :method with a blank", sent((":method", "G T"), SCHEME, PATH, AUTHORITY), Answers(400)),
    Row("8.3.1", "an :authority with a blank", sent(METHOD, SCHEME, PATH, (":authority", "a b")), Answers(400)),
    Row("8.3.1", "a :path with a fragment", sent(METHOD, SCHEME, (":path", "/a.txt#b"), AUTHORITY), Answers(400)),
    Row("8.3.1", "an :authority with a byte from 0x80", sent(METHOD, SCHEME, PATH, (":authority", "\xe4")), Answers(400)),
    Row("8.3.1", "two dots in brackets", sent(METHOD, SCHEME, PATH, (":authority", "[a..b::1]")), Answers(400)),
    Row("8.3.1", "neither :authority nor host", sent(METHOD, SCHEME, PATH), Answers(400)),
    Row("8.3.1", "host for :authority", sent(METHOD, SCHEME, PATH, ("host", "a")), Answers()),
    Row("8.3.1", "host unlike :authority", sent(METHOD, SCHEME, PATH, AUTHORITY, ("host", "b")), Malformed()),
    Row("8.3.1", "two :method", sent(METHOD, METHOD, SCHEME, PATH, AUTHORITY), Malformed()),
    Row("8.3.1", "two :scheme", sent(METHOD, SCHEME, SCHEME, PATH, AUTHORITY), Malformed()),
    Row("8.3.1", "two :path", sent(METHOD, SCHEME, PATH, PATH, AUTHORITY), Malformed()),
    Row("8.3.1", "two :authority", sent(METHOD, SCHEME, PATH, AUTHORITY, AUTHORITY), Malformed()),
    Row("8.3.1", "the asterisk of OPTIONS", sent((":method", "OPTIONS"), SCHEME, (":path", "*"), AUTHORITY),
        Answers(405)),
    Row("8.5", "CONNECT with :path", sent((":method", "CONNECT"), PATH, TUNNEL), Malformed()),
    Row("8.5", "CONNECT with :scheme", sent((":method", "CONNECT"), SCHEME, TUNNEL), Malformed()),
    Row("8.5", "CONNECT without :authority", sent((":method", "CONNECT")), Malformed()),
]

SIZE_0, SIZE_MOST = integer(0, 5, 0x20), integer(TABLE_MOST, 5, 0x20)
FIELD = b"\x40" + string("x-a") + string("abc")     # is put into the table
BLOCK = request("/v")


def broken(section, name, *parts):
    """Blocks that cannot be decoded: all that follow are lost."""
    return Row(section, name, [headers(1, part) if number == 0 else headers(1 + 2 * number, part)
                               for number, part in enumerate(parts)], Ends(COMPRESSION_ERROR))


def huffman(*octets):
    """A string that claims to be coded by Huffman's code."""
    return integer(len(octets), 7, 0x80) + bytes(octets)


COMPRESSION = [
    broken("7541/2.3.3", "an index behind an empty table", BLOCK + integer(STATIC_MOST + 1, 7, 0x80)),
    broken("7541/2.3.3", "an index behind the table's end", BLOCK + FIELD + integer(STATIC_MOST + 2, 7, 0x80)),
    broken("7541/2.3.3", "a name behind the table's end", BLOCK + integer(STATIC_MOST + 1, 6, 0x40) + string("x")),
    broken("7541/2.3.3", "an entry that was evicted", BLOCK + FIELD, SIZE_0 + BLOCK + b"\xbe"),
    Row("7541/2.3.3", "the newest entry is the first", [
        headers(1, BLOCK + b"\x40" + string("x-b") + string("no") + FIELD), answered(1), headers(3, BLOCK + b"\xbe")],
        Answers(stream=3, body=b"abc")),
    broken("7541/4.2", "an update at the end of a block", BLOCK + SIZE_0),
    broken("7541/4.2", "an update between fields", BLOCK[:12] + SIZE_0 + BLOCK[12:]),
    broken("7541/4.2", "an update after an indexed field", b"\x82" + SIZE_0 + BLOCK),
    Row("7541/4.2", "two updates in front", headers(1, SIZE_0 + SIZE_MOST + BLOCK + FIELD), Answers(body=b"abc")),
    Row("7541/4.3", "a table of size 0 keeps nothing", [
        headers(1, SIZE_0 + BLOCK + FIELD), answered(1),
        headers(3, BLOCK + literal(("x-a", "new")))], Answers(stream=3, body=b"new")),
    Row("7541/4.4", "an entry larger than the table empties it", [
        headers(1, integer(64, 5, 0x20) + BLOCK + b"\x40" + string("x-b") + string("b" * 64) + FIELD), answered(1),
        headers(3, BLOCK + b"\xbe")], Answers(stream=3, body=b"abc")),
    broken("7541/5.1", "an integer without an end", BLOCK + b"\xff" + b"\xff" * 20),
    broken("7541/5.1", "an integer of 2^32 and more", BLOCK + b"\xff\x80\x80\x80\x80\x10"),
    broken("7541/5.1", "an integer cut short", BLOCK + b"\xff\x80"),
    broken("7541/5.2", "a string longer than the block", BLOCK + b"\0\x7f\x05x"),
    broken("7541/5.2", "a name longer than the block", BLOCK + b"\0\x05abc"),
    broken("7541/5.2", "no value", BLOCK + b"\0" + string("x-a")),
    broken("7541/5.2", "Huffman's code with 8 bits of padding", BLOCK + b"\0" + string("x-a") + huffman(0x1f, 0xff)),
    broken("7541/5.2", "Huffman's code padded by zeros", BLOCK + b"\0" + string("x-a") + huffman(0x18)),
    broken("7541/5.2", "Huffman's code with the end of string", BLOCK + b"\0" + string("x-a")
           + huffman(0xff, 0xff, 0xff, 0xff)),
    Row("7541/5.2", "Huffman's code with 3 bits of padding", headers(1, BLOCK + b"\0" + string("x-a") + huffman(0x1f)),
        Answers(body=b"a")),
    Row("7541/5.2", "Huffman's code of nothing", headers(1, BLOCK + b"\0" + string("x-a") + huffman()),
        Answers(body=b"")),
    broken("7541/6.1", "index 0", BLOCK + b"\x80"),
    Row("7541/6.2.3", "a field that is never to be indexed", headers(1, BLOCK + literal(("x-a", "abc"), first=0x10)),
        Answers(body=b"abc")),
    broken("7541/6.3", "a size beyond what was allowed", integer(TABLE_MOST + 1, 5, 0x20) + BLOCK),
]


@pytest.mark.parametrize("transport", ["h2c", "h2"])
@table(MESSAGES + COMPRESSION)
def test_messages(server, transport, row):
    with connect(server, transport, row.first) as client:
        row.play(client)


@pytest.mark.parametrize("transport", ["h2c", "h2"])
@pytest.mark.parametrize("size", [0, 64, 4096, 65536])
def test_the_encoder_keeps_to_the_clients_table(server, transport, size):
    """7541/4.2: SETTINGS_HEADER_TABLE_SIZE bounds what the server's blocks may use, from its acknowledgement on."""
    with connect(server, transport, {HEADER_TABLE_SIZE: size}) as client:
        client.decoder = hpack.Decoder()
        client.decoder.max_allowed_table_size = size
        assert client.is_alive()
        for _ in range(3):
            assert client.get("/v").status == 200
        assert client.decoder.header_table.maxsize <= size


@pytest.mark.parametrize("transport", ["h2c", "h2"])
def test_table_that_is_made_smaller_and_larger_again(server, transport):
    """7541/4.2: the smallest size in between has to be told, since entries were lost by it."""
    with connect(server, transport) as client:
        for _ in range(2):
            assert client.get("/a.txt").status == 200
        assert client.decoder.header_table.dynamic_entries
        client.send_settings({HEADER_TABLE_SIZE: 0})
        client.send_settings({HEADER_TABLE_SIZE: 4096})
        assert client.is_alive()
        client.decoder.max_allowed_table_size = 4096
        client.socket.sendall(headers(101, request("/none"), END_HEADERS | END_STREAM))
        assert client.answer(101).status == 404
        client.socket.sendall(headers(103))
        assert client.answer(103).status == 200
