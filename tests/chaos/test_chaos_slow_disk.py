"""A disk that does not answer: what threads read of it holds up nobody else, whoever leaves, reloads or ends meanwhile."""

import os

import pytest

from harness import Client, Closed, ProtocolError, until
from harness.gates import Gates
from harness.workers import wait_workers

SIZE = 200000
TEXT = b"0123456789" * (SIZE // 10)

HTTP = """
    proxy_cache_path @DIR@/slow/cache keys_zone=shop:1m use_temp_path=off %s;
    server {
        listen 127.0.0.1:@PORT@; http2 on;
        location /fast { return 200 fast; }
        location /slow/ { root .; aio threads; }
        location /direct/ { alias slow/; aio threads; directio 4k; }
        location /cached/ { aio threads; proxy_cache shop; proxy_cache_valid 1h; proxy_pass http://127.0.0.1:@PORT1@/; add_header X-Cache $upstream_cache_status; }
    }
    server { listen 127.0.0.1:@PORT1@; location / { root html; } }
"""


@pytest.fixture(name="gates")
def some_gates(open_path):
    return Gates(str(open_path))


def start(serve, gates, more="", main="worker_processes 1;"):
    server = serve(HTTP % more, main=main, files={"slow/file": TEXT, "html/a": TEXT, "slow/cache": None}, env=gates.environment())
    os.chmod(server.path("slow/cache"), 0o777)
    return server


def begin(server, target):
    client = Client(server.port)
    client.send("GET %s HTTP/1.1\r\nHost: a\r\n\r\n" % target)
    return client


@pytest.mark.parametrize("place", ["/slow/file", "/direct/file"])
def test_files_by_threads(serve, gates, place):
    """More readers than threads; half of them leave."""
    server = start(serve, gates)
    assert server.get(place).body == TEXT
    gates.close("read")
    clients = [begin(server, place) for _ in range(40)]
    for _ in range(5):
        assert server.get("/fast").text == "fast"
    for client in clients[::2]:
        client.reset()
    assert server.get("/fast").text == "fast"
    before = wait_workers(server, 1)
    server.reload()
    until(lambda: server.get("/fast").text == "fast" and set(server.children()) - set(before), "a new worker")
    gates.open("read")
    for client in clients[1::2]:
        assert client.response("GET").body == TEXT
    wait_workers(server, 1, without=before)


def test_cached_responses_by_threads(serve, gates):
    """A stored response on a disk that hangs is waited for by those who asked for it."""
    server = start(serve, gates, main="worker_processes 2;")
    assert server.get("/cached/a").body == TEXT
    until(lambda: server.get("/cached/a").header("X-Cache") == "HIT", "a stored response")
    for _ in range(20):
        assert server.get("/cached/a").body == TEXT     # both workers have it open
    gates.close("read")
    clients = [begin(server, "/cached/a") for _ in range(10)]
    for _ in range(10):
        assert server.get("/fast").text == "fast"
    clients[0].reset()
    gates.open("read")
    for client in clients[1:]:
        assert client.response("GET").body == TEXT


def test_a_cache_is_loaded_from_a_disk_that_hangs(serve, gates):
    """The start, a reload and the end do not wait for it."""
    server = start(serve, gates)
    assert server.get("/cached/a").body == TEXT
    until(lambda: server.get("/cached/a").header("X-Cache") == "HIT", "a stored response")
    server.quit()
    for name in os.listdir(server.path("slow/cache")):
        if name.startswith("."):
            os.unlink(server.path("slow/cache/" + name))
    gates.close("read")
    again = serve(conf=server.conf, directory=server.dir, env=gates.environment())
    with Client(server.port) as client:
        assert client.request("/fast").text == "fast"
    before = again.children()
    again.reload()
    with Client(server.port) as client:
        assert client.request("/fast").text == "fast"
    gates.open("read")
    wait_workers(again, 1, without=before)
    with Client(server.port) as client:
        assert client.request("/cached/a").body == TEXT


def test_the_end_does_not_wait_for_a_disk(serve, gates):
    """QUIT waits for clients, and they for the disk; TERM waits for neither."""
    server = start(serve, gates)
    gates.close("read")
    client = begin(server, "/slow/file")
    assert server.get("/fast").text == "fast"
    server.signal("stop")
    try:
        client.response("GET")
    except (Closed, ProtocolError):
        pass
    gates.open("read")
    server.wait_end()
