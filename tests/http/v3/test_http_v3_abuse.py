"""HTTP/3: clients that try to stop the worker, or to have it keep too much."""

import os
import signal
import socket
import time

import pytest

from h3_site import _site  # noqa: F401
from harness import h3, proc, until
from harness.h3 import H3


QUIC_INTERNAL_ERROR = 1


def _blocked(client, required):
    """A request whose field section needs so many entries of the table (RFC 9204, 4.5.1.1)."""
    return h3.frame(h3.HEADERS, bytes([required + 1, 0]) + client.section(client.head("/a.txt"))[2:])


def test_blocked_sections_that_stay_blocked(site):
    """Two requests wait for three entries, one entry comes: both wait further, and the worker serves others."""
    server = site()
    with H3(server.port) as client:
        encoder = client.http._local_encoder_stream_id
        client.http = None  # aioquic does not expect that its sections are acknowledged
        client.raw(encoder, b"\x3f\xe1\x1f")  # a table of 4096 bytes
        streams = [client.raw_stream(_blocked(client, 3), end=True) for _ in range(2)]
        whole = client.raw_stream(h3.frame(h3.HEADERS, client.section(client.head("/a.txt"))), end=True)
        assert client.wait(whole).body.endswith(b"hello\n")  # so the others have been read
        client.raw(encoder, b"\xc1\x01a")
        with H3(server.port) as other:
            assert other.get("/a.txt").status == 200
        client.raw(encoder, b"\xc1\x01b\xc1\x01c")
        for stream in streams:
            assert client.wait(stream).body.endswith(b"hello\n")


def test_many_priority_updates(site):
    """A browser sends one for each of its images."""
    with H3(site().port) as client:
        for i in range(300):
            client.raw(client.http._local_control_stream_id, h3.frame(h3.PRIORITY_UPDATE, b"\0u=1"))
            client.turn()
        assert client.get("/a.txt").status == 200


def test_flood_of_priority_updates(site):
    server = site()
    with H3(server.port) as client:
        client.raw(client.http._local_control_stream_id, h3.frame(h3.PRIORITY_UPDATE, b"\0u=1") * 3000)
        assert client.wait_closed() == h3.EXCESSIVE_LOAD
    server.wait_log("client sent too many PRIORITY_UPDATE frames")


def test_flood_of_streams_without_a_request(site):
    server = site()
    with H3(server.port) as client:
        client.get("/a.txt")
        for _ in range(2000):
            if client.closed:
                break
            client.quic.send_stream_data(client.quic.get_next_available_stream_id(), b"", True)
            client.turn()
        assert client.wait_closed() == h3.EXCESSIVE_LOAD
    server.wait_log("client sent too many streams with errors")


def test_flood_of_cancellations(site):
    server = site()
    with H3(server.port) as client:
        client.raw(client.http._local_decoder_stream_id, b"\x40" * 30000)
        assert client.wait_closed() == h3.EXCESSIVE_LOAD
    server.wait_log("client sent too many cancellations of compressed fields")


def test_feedback_that_is_not_taken(site):
    """No window for the server's streams: what it has to say about entries of the table is not kept without end."""
    server = site("client_header_timeout 10m;")  # a busy machine needs more than the default for so many turns
    with H3(server.port, connect=False) as client:
        client.quic._local_max_stream_data_uni = 0
        client.connect()
        encoder = client.http._local_encoder_stream_id
        client.http = None
        client.raw(encoder, b"\x3f\xe1\x1f")
        for _ in range(20000):
            if client.closed:
                break
            # The server acknowledges every second packet: it has read the former ones before the next are sent, and gives
            # its feedback on each pair.
            client.raw(encoder, b"\xc1\x01a")
            client.raw(encoder, b"\xc1\x01a")
            client.turn(1)
        assert client.wait_closed() == h3.EXCESSIVE_LOAD
    server.wait_log("client sent too many compressed fields without taking the feedback on them")


def test_responses_that_are_not_read(site):
    """Forty streams without a window: the connection keeps 2 MB and a little for each stream, not 256 KB for each."""
    server = site("lua_shared_dict kept 1m;", """
        location /lua { content_by_lua_block {
            local piece = ("x"):rep(16384)
            for i = 1, 40 do ngx.print(piece) ngx.flush(true) ngx.shared.kept:incr("pieces", 1, 0) end } }
        location /kept { content_by_lua_block { ngx.print(ngx.shared.kept:get("pieces") or 0) } }""")

    def kept(other):
        """Pieces that were taken, once no more are."""
        values = []
        while len(values) < 5 or len(set(values[-5:])) > 1 or values[-1] == 0:
            values.append(int(other.get("/kept").body))
            time.sleep(0.05)
        return values[-1]

    with H3(server.port, max_stream_data=0) as client, H3(server.port) as other:
        for _ in range(40):
            client.send("/lua")
        client.turn(0.1)
        assert kept(other) * 16384 <= 2 * 1024 * 1024 + 40 * 64 * 1024


@pytest.mark.parametrize("frame, size, kind", [(b"\x01", 1150, "control"), (b"\x1a" + b"c" * 8, 120, "PATH_CHALLENGE")])
def test_flood_below_http(site, frame, size, kind):
    """PING, to each of which an acknowledgement is due, and PATH_CHALLENGE, to each of which a datagram of 1200 bytes is."""
    server = site("", "location /limits { return 200 $limits_reached; }")
    with H3(server.port) as client:
        client.raw_packets(frame * size, 8)  # fewer than the limit
        assert client.get("/a.txt").status == 200
        client.raw_packets(frame * size, 40)
        assert client.wait_closed() == QUIC_INTERNAL_ERROR
    server.wait_log("the QUIC peer floods us with %s frames" % kind)
    with H3(server.port) as other:
        assert other.get("/limits").body == b"1"


def test_request_over_its_memory_limit(site):
    """It is answered with 500, others of the connection are not harmed."""
    double = "".join("set $%s $%s$%s;" % (new, old, old) for old, new in zip("abcdefghijk", "bcdefghijkl"))
    server = site("", "request_memory_limit 256k; location /large { set $a %s; %s return 200 $l; } location /limits { return 200 "
                      "$limits_reached; }" % ("x" * 1000, double))
    with H3(server.port) as client:
        large, small = client.send("/large"), client.send("/a.txt")
        assert client.wait(small).body == b"hello\n"
        assert client.wait(large).status == 500
        assert client.get("/limits").body == b"1"
    server.wait_log("takes more memory than request_memory_limit allows: .*GET /large")


def test_flood_of_requests_after_goaway(site):
    """Requests that are refused since the connection ends are counted: each costs the server a stream."""
    server = site(server="keepalive_requests 1; lingering_timeout 1m;")
    with H3(server.port) as client:
        assert client.get("/a.txt").status == 200
        for _ in range(3000):
            stream = client.quic.get_next_available_stream_id()
            client.turn_until(lambda: client.closed or stream < 4 * client.quic._remote_max_streams_bidi)
            if client.closed:
                break
            client.quic.send_stream_data(stream, b"x", True)
            client.turn()
        assert client.wait_closed() == h3.EXCESSIVE_LOAD
    server.wait_log("client sent too many requests after GOAWAY")


def _send_crypto(client, data):
    """Bytes of a handshake after its end."""
    for stream in client.quic._crypto_streams.values():
        last = stream
    last.sender.write(data)
    client.flush()


def test_key_update_of_tls(site):
    """QUIC has its own (RFC 9001, 6): unexpected_message."""
    with H3(site().port) as client:
        assert client.get("/a.txt").status == 200
        _send_crypto(client, b"\x18\0\0\x01\0")
        assert client.wait_closed() == 0x100 + 10


def test_endless_message_after_the_handshake(site):
    """16 MB of a message that no client sends: the connection ends long before all has come."""
    server = site()
    with H3(server.port) as client:
        assert client.get("/a.txt").status == 200
        _send_crypto(client, b"\x04\xff\xff\xff" + b"x" * 1000000)
        assert 0x100 <= client.wait_closed() < 0x200
    with H3(server.port) as client:
        assert client.get("/a.txt").status == 200


def test_idle_connections_give_way(site):
    """The one that was idle longest is closed for a new one; one with a request stays."""
    server = site(events="worker_connections 10;", server="location /slow { root html; rewrite ^/slow(.*) $1 break; limit_rate 1k; }")
    with H3(server.port) as busy:
        stream = busy.send("/slow/big")
        busy.turn_until(lambda: busy.answer(stream).body)
        idle = [H3(server.port) for _ in range(12)]
        for client in idle:
            client.turn()
        assert idle[0].wait_closed() == h3.NO_ERROR
        others = [H3(server.port) for _ in range(12)]
        assert others[-1].get("/a.txt").status == 200
        assert busy.closed is None and not busy.answer(stream).is_over
        for client in idle + others:
            client.close()


def test_datagrams_that_the_socket_has_no_room_for(site):
    """The kernel drops them; the log says so with the next one that comes."""
    server = site(server="listen 127.0.0.2:@PORT@ quic rcvbuf=4k;")

    def get():
        with H3(server.port, host="127.0.0.2") as client:
            assert client.get("/a.txt").status == 200

    get()  # the worker reads
    worker = server.children()[0]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        os.kill(worker, signal.SIGSTOP)
        try:
            until(lambda: proc.status(worker, "State").startswith("T"), "the worker to stop")
            for _ in range(100):
                sender.sendto(bytes(1200), ("127.0.0.2", server.port))
        finally:
            os.kill(worker, signal.SIGCONT)
    get()
    lost = int(server.wait_log(r"(\d+) datagrams for 127.0.0.2:\d+ were dropped: the receive buffer").group(1))
    assert 50 < lost <= 100
