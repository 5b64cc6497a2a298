"""HTTP/3 and the generations of workers: what is open at a reload comes to its end, and then the connection."""

import pytest

from h3_site import BIG, _site  # noqa: F401
from harness.h3 import H3, NO_ERROR


@pytest.mark.parametrize("workers", [1, 2])
def test_reload_in_a_response(site, workers):
    """The client takes a part, the server is reloaded, the rest comes; the next connection is the new worker's."""
    server = site(main="worker_processes %d;" % workers)
    with H3(server.port) as client:
        stream = client.send("/big")
        client.turn_until(lambda: client.answer(stream).body)
        server.reload()
        answer = client.wait(stream)
        assert answer.body == BIG
        assert client.wait_closed() == NO_ERROR
    with H3(server.port) as client:
        assert client.get("/a.txt").status == 200


def test_reload_of_idle_connections(site):
    """They are told GOAWAY, and closed."""
    server = site()
    with H3(server.port) as client:
        assert client.get("/a.txt").status == 200
        server.reload()
        assert client.wait_closed() == NO_ERROR


def test_quit_in_a_request(site):
    """A request that was begun before the server quits is answered."""
    server = site(server="location /slow { root html; rewrite ^/slow(.*) $1 break; limit_rate 300k; }")
    with H3(server.port) as client:
        stream = client.send("/slow/big")
        client.turn_until(lambda: client.answer(stream).body)
        server.signal("quit")
        assert client.wait(stream).body == BIG
