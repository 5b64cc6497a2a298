"""shutdown_delay and ready: QUIT turns readiness red, asks clients to leave, and goes on accepting for a while."""

import os
import signal

import pytest

from harness import until
from harness.h2 import H2

CONF = """lingering_timeout 50ms; server { listen 127.0.0.1:@PORT@; listen 127.0.0.1:@PORT1@ http2;
    location = /ready { ready; } location / { return 200 text; } }"""
LONG = "shutdown_delay 1h;"


def drains(server):
    server.signal("quit")
    server.wait_log("draining for 3600000ms before the shutdown")


def ends(server):
    """A second QUIT ends the delay."""
    server.signal("quit")
    assert server.wait_end() == 0


MODES = pytest.mark.parametrize("main", [LONG, LONG + " master_process off;"], ids=["master", "single"])


@MODES
def test_new_connections_are_served_and_closed(serve, main):
    server = serve(CONF, main=main)
    assert server.get("/ready").text == "ready\n" and server.get("/ready").status == 200
    with server.client() as client:
        assert client.request("/").status == 200
        drains(server)
        response = client.request("/")
        assert response.status == 200 and response.header("Connection") == "close"
        client.expect_closed()
    for target, status in (("/ready", 503), ("/", 200)):
        with server.client() as client:
            response = client.request(target)
            assert response.status == status and response.header("Connection") == "close"
    ends(server)


def test_methods(serve):
    server = serve(CONF, main=LONG)
    with server.client() as client:
        assert client.request("/ready", method="HEAD").body == b""
        assert client.request("/ready", method="POST").status == 405
    drains(server)
    with server.client() as client:
        head = client.request("/ready", method="HEAD")
        assert head.status == 503 and head.body == b""
    ends(server)


def test_http2_gets_goaway(serve):
    server = serve(CONF, main=LONG)
    kept = H2(server.port_of("PORT1"))
    assert kept.get("/").status == 200
    drains(server)
    fresh = H2(server.port_of("PORT1"))
    for connection in (kept, fresh):                  # one that had requests, and a new one
        assert connection.get("/").status == 200
        connection.expect_goaway(0)
    ends(server)


def test_terminate_does_not_wait(serve):
    server = serve(CONF, main=LONG)
    drains(server)
    server.signal("stop")
    assert server.wait_end() == 0


def test_the_delay_ends_by_itself(serve):
    server = serve(CONF, main="shutdown_delay 50ms;")
    server.signal("quit")
    assert server.wait_end() == 0
    assert "draining for 50ms" in server.error_log


def test_a_worker_that_dies_meanwhile_is_replaced(serve):
    server = serve(CONF, main=LONG, allow=["exited on signal 9"])
    drains(server)
    old = set(server.children())
    for pid in old:
        os.kill(pid, signal.SIGKILL)
    until(lambda: server.children() and not old & set(server.children()), "another worker")
    until(lambda: server.get("/ready").status == 503, "an answer")
    ends(server)
