"""HTTP/3 behind balancers: ids that name the server, addresses that clients are asked to go to."""

import socket

import pytest

from h3_site import BIG, _site  # noqa: F401
from harness.h3 import H3
from harness.server import run_binary

KEY = "8f95f09245765f80256934e50c66207f"


def _ids(client):
    """All ids that the server gave: the one of its first packet, and those of NEW_CONNECTION_ID."""
    client.turn_until(lambda: client.quic._peer_cid_available)
    return [client.quic._peer_cid.cid] + [one.cid for one in client.quic._peer_cid_available]


def test_ids_name_the_server(site):
    with H3(site("quic_server_id 0a0b0c config=2;", main="worker_processes 2;").port) as client:
        assert client.get("/a.txt").body == b"hello\n"
        ids = _ids(client)
        assert len(set(ids)) == len(ids) >= 2
        for one in ids:
            assert len(one) == 16 and one[:4] == bytes([2 << 5 | 15, 10, 11, 12])
        client.quic.change_connection_id()
        assert client.get("/a.txt").body == b"hello\n"


def test_ids_hide_the_server_from_others(site):
    """With a key the ids of one server have nothing in common but their first byte."""
    server = site("quic_server_id 0a0b0c key=key; quic_retry on;", files={"key": KEY + "\n"})
    with H3(server.port) as client:
        assert client.get("/a.txt").body == b"hello\n"
        ids = _ids(client)
        assert all(len(one) == 16 and one[0] == 15 for one in ids)
        assert b"\x0a\x0b\x0c" not in [one[1:4] for one in ids]
        assert ids[0][1:8] != ids[1][1:8]


def test_server_off_inside_of_http(site):
    with H3(site("quic_server_id 0a0b0c;", "quic_server_id off;").port) as client:
        assert client.get("/a.txt").body == b"hello\n"
        assert {len(one) for one in _ids(client)} == {12}


def _sequence_numbers(client):
    return [one.sequence_number for one in client.quic._peer_cid_available]


def test_preferred_address(site):
    """The client validates the other address, and continues there with the id that was given for it, during a download."""
    server = site("", "listen 127.0.0.2:@PORT1@ quic; quic_preferred_address 127.0.0.2:@PORT1@ [2001:db8::1]:443;")
    preferred = ("127.0.0.2", server.port_of("PORT1"))
    with H3(server.port) as client:
        stream = client.send("/big")
        client.turn_until(lambda: client.quic._network_paths[0].addr == preferred)
        assert client.wait(stream).body == BIG
        assert client.quic._peer_cid.sequence_number == 1
        server.wait_log("the QUIC client uses another address of the server")
        assert client.get("/a.txt").body == b"hello\n"


def test_preferred_address_that_is_not_reached(site):
    """Nobody answers there: the client stays."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as nobody:
        nobody.bind(("127.0.0.1", 0))
        nobody.settimeout(20)
        server = site("", "quic_preferred_address 127.0.0.1:%d;" % nobody.getsockname()[1])
        _stays(server, nobody)


def _stays(server, nobody):
    with H3(server.port) as client:
        assert client.get("/big").body == BIG
        assert nobody.recv(2048)
        assert client.get("/a.txt").body == b"hello\n"


def test_preferred_address_of_the_server_that_was_chosen(site):
    """The default server has one, that of the name has none: its id is given as others are."""
    server = site("quic_preferred_address 127.0.0.2:@PORT1@;", """quic_preferred_address off; server_name localhost; }
        server { listen 127.0.0.1:@PORT@ quic default_server; listen 127.0.0.2:@PORT1@ quic;""")
    with H3(server.port) as client:
        client.turn_until(lambda: 1 in _sequence_numbers(client))
        assert client.get("/a.txt").status == 200
        assert client.quic._network_paths[0].addr == ("127.0.0.1", server.port)
    with H3(server.port, name="other") as client:
        client.turn_until(lambda: client.quic._network_paths[0].addr == ("127.0.0.2", server.port_of("PORT1")))
        assert client.get("/a.txt", authority="other").status == 200


@pytest.mark.parametrize("text, message", [
    ("quic_server_id 0;", 'invalid server id "0": it must be 1 to 7 bytes in hexadecimal digits'),
    ("quic_server_id 0102030405060708;", "invalid server id"),
    ("quic_server_id 0g;", "invalid server id"),
    ("quic_server_id 01 config=7;", 'invalid parameter "config=7"'),
    ("quic_server_id 01 off;", 'invalid parameter "off"'),
    ("quic_server_id 01 key=none;", "cannot read"),
    ("quic_preferred_address 127.0.0.1;", 'invalid address "127.0.0.1": an IP address and a port are needed'),
    ("quic_preferred_address 0.0.0.0:443;", "invalid address"),
    ("quic_preferred_address localhost:443;", "invalid address"),
    ("quic_preferred_address 127.0.0.1:443 127.0.0.2:443;", 'two addresses of one family in "quic_preferred_address"'),
    ("quic_server_id 01 key=short;", "must have 32 hexadecimal digits"),
    ("listen 127.0.0.1:8000 quic;", 'no "ssl_certificate" is defined for the "listen ... quic" directive'),
    ("listen 127.0.0.1:8000 quic; ssl_reject_handshake on; ssl_protocols TLSv1.2;",
     '"ssl_protocols" must enable TLSv1.3 for the "listen ... quic" directive'),
    ("listen unix:quic.sock quic;", 'the "quic" parameter is not possible on a unix socket'),
])
def test_refused(tmp_path, text, message):
    assert message in _refusal(tmp_path, text)


def test_early_data_does_not_apply(tmp_path):
    text = "listen 127.0.0.1:8000 quic; ssl_reject_handshake on; ssl_early_data on; ssl_protocols TLSv1.2;"
    assert '"ssl_early_data" does not apply to the "listen ... quic" directive' in _refusal(tmp_path, text)


def _refusal(tmp_path, text):
    (tmp_path / "short").write_text(KEY[:-1])
    path = tmp_path / "nginx.conf"
    path.write_text("events { } http { server { listen 127.0.0.1:8000; %s } }" % text)
    done = run_binary("-t", "-p", str(tmp_path), "-c", str(path), "-e", "stderr")
    assert done.returncode == 1
    return done.stderr
