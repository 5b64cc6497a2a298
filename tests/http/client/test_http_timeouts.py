"""Deadlines: each test waits for the event that the deadline brings, not for the clock."""

import socket
import time

import pytest

from harness import Closed, binaries, until

BIG = bytes(8 * 1024 * 1024)


def test_silent_client_is_closed(serve):
    server = serve("server { listen 127.0.0.1:@PORT@; client_header_timeout 150ms; }")
    with server.client() as client:
        client.expect_closed()


def test_half_a_head_is_closed_and_logged_as_408(serve):
    server = serve("""
        log_format f '$status [$request]';
        access_log logs/access.log f;
        server { listen 127.0.0.1:@PORT@; client_header_timeout 150ms; }
    """)
    with server.client() as client:
        client.send("GET / HTTP/1.1\r\nHost: a\r\nX: ")
        client.expect_closed()
    assert server.wait_lines("logs/access.log") == ["408 [GET / HTTP/1.1]"]
    server.wait_log(r"client timed out \(110: Connection timed out\) while reading client request "
                    r"headers")


def test_answer_in_the_turn_of_the_heads_deadline_goes_out(serve):
    """A backend and the head have the same time, as by default: both end in one turn of the loop."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as silent:
        server = serve("""
            proxy_read_timeout 1s;
            server { listen 127.0.0.1:@PORT@; client_header_timeout 1s;
                     location / { proxy_pass http://127.0.0.1:%d; } }
        """ % silent.getsockname()[1])
        clients = [server.client().send("GET / HTTP/1.1\r\nHost: a\r\n\r\n") for _ in range(24)]
        for client in clients:
            assert client.response().status == 504
            client.close()


def test_trickling_head_does_not_move_its_deadline(serve):
    """client_header_timeout is for the whole head."""
    server = serve("server { listen 127.0.0.1:@PORT@; client_header_timeout 400ms; }")
    with server.client() as client:
        client.send("GET / HTTP/1.1\r\nHost: a\r\nX: ")
        for _ in range(400):
            client.send("x")
            if client.readable(0.05):
                break
        client.expect_closed()


def test_body_that_stops_while_being_discarded(serve):
    server = serve("""
        server { listen 127.0.0.1:@PORT@; client_body_timeout 200ms; lingering_timeout 200ms;
                 lingering_time 1s; return 200 "early\\n"; }
    """)
    with server.client() as client:
        client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nabc")
        assert client.response().text == "early\n"
        client.expect_closed()


@pytest.mark.skipif(binaries.is_nginx_before(binaries.under_test(), 1, 31),
                    reason="no client_body_early_read there")
def test_body_that_stops_while_being_read(serve):
    """408 in the log; the client sees the connection end."""
    server = serve("""
        log_format f '$status';
        access_log logs/access.log f;
        server { listen 127.0.0.1:@PORT@; client_body_timeout 200ms; client_body_early_read 1;
                 return 200 "never\\n"; }
    """)
    with server.client() as client:
        client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nabc")
        data = client.rest_or_reset()
        assert b"never" not in data
    assert server.wait_lines("logs/access.log") == ["408"]


def test_idle_connection_ends_after_keepalive_timeout(serve):
    server = serve("""
        server { listen 127.0.0.1:@PORT@; keepalive_timeout 1s; return 200 "x"; }
    """)

    def is_kept():
        with server.client() as client:
            try:
                assert [client.request().status for _ in range(3)] == [200] * 3
            except Closed:
                return False  # our own pauses were as long as the timeout
            client.expect_closed()
            return True
    until(is_kept, "a connection that is kept for three requests")


def test_keepalive_time_ends_a_connection(serve):
    """After keepalive_time the next answer says close."""
    server = serve("""
        server { listen 127.0.0.1:@PORT@; keepalive_time 300ms;
                 location / { return 200 "x"; } }
    """)

    def is_kept_at_first():
        with server.client() as client:
            if client.request().closes:
                return False  # connected too long ago
            until(lambda: client.request().closes, "an answer that says close")
            client.expect_closed()
            return True
    until(is_kept_at_first, "a connection that is young at its first request")


def test_client_that_does_not_read_hits_send_timeout(serve):
    server = serve("""
        server { listen 127.0.0.1:@PORT@ sndbuf=32k; root html; send_timeout 300ms; }
    """, files={"html/big": BIG})
    with server.client(rcvbuf=16384) as client:
        client.send("GET /big HTTP/1.1\r\nHost: a\r\n\r\n")
        server.wait_log(r"client timed out \(110: Connection timed out\) while sending")
        data = client.rest_or_reset()
        assert data.startswith(b"HTTP/1.1 200 ") and len(data) < len(BIG)


STEADY = {
    "a file": "/big",
    "a file in memory": "/copied/big",
    "a limited rate": "/rate/big",
    "one piece behind another": "/tail/big",
    "a backend": "/proxy/big",
}


def test_reading_client_moves_send_timeout(serve):
    """What is sent starts the deadline anew: slow but steady clients get all, however long it takes."""
    server = serve("""
        sendfile on; send_timeout 2s;
        server { listen 127.0.0.1:@PORT@ sndbuf=16k; root html;
                 location /copied/ { alias html/; sendfile off; }
                 location /rate/ { alias html/; limit_rate_after 1000k; limit_rate 64k; }
                 location /tail/ { alias html/; addition_types *; add_after_body /text; }
                 location /text { return 200 ""; }
                 location /proxy/ { proxy_pass http://127.0.0.1:@PORT1@/; } }
        server { listen 127.0.0.1:@PORT1@; root html; }
    """, files={"html/big": BIG[:1280 * 1024]})
    clients = {name: server.client(rcvbuf=4096) for name in STEADY}
    for name, client in clients.items():
        client.send("GET %s HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n" % STEADY[name])
    got = dict.fromkeys(clients, 0)
    began = time.monotonic()
    while clients:
        for name, client in list(clients.items()):
            data = client.socket.recv(4096)
            got[name] += len(data)
            if not data:
                clients.pop(name).close()
        time.sleep(max(0, max(got.values()) / 300000 - (time.monotonic() - began)))
    assert time.monotonic() - began > 4
    assert min(got.values()) > 1280 * 1024, got


@pytest.mark.parametrize("limit", ["", "limit_rate_after 1m; limit_rate 1k;"])
def test_client_that_stops_reading_is_logged_and_reset(serve, limit):
    server = serve("""
        server { listen 127.0.0.1:@PORT@ sndbuf=32k; root html; send_timeout 300ms;
                 reset_timedout_connection on; %s }
    """ % limit, files={"html/big": BIG})
    with server.client(rcvbuf=16384) as client:
        client.send("GET /big HTTP/1.1\r\nHost: a\r\n\r\n")
        server.wait_log(r"client timed out \(110: Connection timed out\) while sending to client, client: 127")
        with pytest.raises(Closed) as caught:
            client.rest()
        assert caught.value.reset


def test_return_444_with_reset(serve):
    """444 closes without an answer, and with a reset where reset_timedout_connection is on."""
    server = serve("""
        server { listen 127.0.0.1:@PORT@; reset_timedout_connection on; return 444; }
        server { listen 127.0.0.1:@PORT1@; return 444; }
    """)
    with server.client() as client:
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        with pytest.raises(Closed) as caught:
            client.rest()
        assert caught.value.reset and caught.value.rest == b""
    with server.client(server.port_of("PORT1")) as client:
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        assert client.rest() == b""


def test_lingering_lets_the_client_read_a_refusal(serve):
    """The client goes on sending after a 413; it can still read the answer, without a reset."""
    server = serve("""
        server { listen 127.0.0.1:@PORT@; client_max_body_size 10; lingering_timeout 2s;
                 root html; }
    """)
    with server.client() as client:
        client.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 600000\r\n\r\n")
        for _ in range(60):
            client.send(bytes(10000))
        response = client.response()
        assert response.status == 413 and response.closes
        client.half_close()
        assert client.rest() == b""


def test_lingering_ends(serve):
    """A client that never stops sending is cut off after lingering_time."""
    server = serve("""
        server { listen 127.0.0.1:@PORT@; client_max_body_size 10; lingering_timeout 500ms;
                 lingering_time 300ms; root html; }
    """)
    with server.client() as client:
        client.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 60000000\r\n\r\n")
        assert client.response().status == 413
        for _ in range(600):
            try:
                client.socket.sendall(b"x" * 100)
            except OSError:
                break
            if client.readable(0.02):
                break
        else:
            raise AssertionError("still lingering")


@pytest.mark.skipif(binaries.is_nginx_before(binaries.under_test(), 1, 27, 4),
                    reason="no keepalive_min_timeout there")
def test_keepalive_min_timeout_lets_a_last_request_through(serve):
    """While the server shuts down, an idle connection is kept for this long."""
    server = serve("""
        server { listen 127.0.0.1:@PORT@; keepalive_min_timeout 10s; return 200 "x"; }
    """)
    with server.client() as client:
        assert client.request().status == 200
        server.signal("quit")
        server.wait_log(r"gracefully shutting down")
        response = client.request()
        assert response.status == 200 and response.closes
        client.expect_closed()
    assert server.wait_end() == 0


def test_quit_closes_idle_connections(serve):
    server = serve("""server { listen 127.0.0.1:@PORT@; return 200 "x"; }""")
    with server.client() as client:
        assert client.request().status == 200
        assert server.quit() == 0
        client.expect_closed()


def test_so_linger_free_close_is_clean(serve):
    """An ordinary closed connection ends with FIN, not with RST, also with unread input."""
    server = serve("""server { listen 127.0.0.1:@PORT@; return 200 "x"; }""")
    with server.client() as client:
        # One piece: what arrives after the server has closed is answered with RST by the kernel.
        client.send("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
                    + "GET /more HTTP/1.1\r\nHost: a\r\n\r\n" * 100)
        assert client.response().closes
        client.socket.shutdown(socket.SHUT_WR)
        assert client.rest_or_reset() == b""
