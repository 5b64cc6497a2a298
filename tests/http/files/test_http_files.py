"""Files that change while they are served, and the rules of kept files."""

import os
import random
import time

import pytest

WAYS = {"plain": "", "sendfile": "sendfile on;", "threads": "aio threads;", "directio": "directio 1;",
        "no links": "disable_symlinks on;"}
BIG = bytes(number * 31 % 251 for number in range(1 << 16)) * 60


def settle(path):
    """Waits until the file is old enough for its contents to be kept."""
    while time.time() - os.stat(path).st_ctime < 0.05:
        time.sleep(0.01)


@pytest.fixture(scope="module")
def server():
    from harness import Server
    locations = "".join("location /%s/ { alias html/; %s }\n" % (name.replace(" ", "-"), text)
                        for name, text in WAYS.items())
    with Server("server { listen 127.0.0.1:@PORT@ sndbuf=64k; root html; sendfile on; "
                "keepalive_requests 100000; %s"
                "location /cached/ { alias html/; open_file_cache max=10; "
                "open_file_cache_errors on; open_file_cache_valid 1s; }"
                "location /slow/ { alias html/; limit_rate 4k; }"
                "location /odd/ { alias html/; directio 1; directio_alignment 1000; }"
                "location /zero/ { alias html/; directio 1; directio_alignment 0; }"
                "location /pool/ { alias html/; aio threads=$arg_pool; } }" % locations,
                main="thread_pool own threads=2;",
                files={"html/big": BIG}, allow=["was truncated at", "pread\\(\\) read only"]) as running:
        yield running


@pytest.mark.parametrize("way", WAYS)
def test_each_change_is_seen_at_once(server, way):
    """The same size, on one connection, as fast as can be."""
    target = "/%s/changing" % way.replace(" ", "-")
    choose = random.Random(way)
    with server.client() as client:
        for number in range(60):
            text = ("%05d" % number).encode()
            path = server.write("html/changing", text, mtime=choose.choice([None, 1700000000]))
            if number % 10 == 0:
                settle(path)
            for _ in range(3):
                assert client.request(target).body == text


def test_replacement_removal_and_permissions_are_seen(server):
    with server.client() as client:
        path = server.write("html/one", "first")
        settle(path)
        for _ in range(3):
            assert client.request("/one").body == b"first"
        os.rename(server.write("html/two", "other"), path)
        assert client.request("/one").body == b"other"
        settle(path)
        assert client.request("/one").body == b"other"
        if os.getuid() == 0:
            os.chmod(path, 0)
            assert client.request("/one").status == 403
            os.chmod(path, 0o644)
        os.unlink(path)
        assert client.request("/one").status == 404
        os.mkdir(path)
        assert client.request("/one").status == 301
        os.rmdir(path)
        os.symlink("big", path)
        assert client.request("/one", "Range: bytes=0-9").body == BIG[:10]
        os.unlink(path)


def test_answer_under_way_keeps_its_contents(server):
    """Contents in the queue stay what they were, and the head fits them.

    The new file is moved into its place, so that no request meets one that is
    half written; the old one is spoilt where nobody opens it any more.
    """
    old, new = b"o" * 8000, b"n" * 7000
    path = server.write("html/both", old)
    settle(path)
    with server.client(rcvbuf=4096) as slow, server.client() as fast, open(path, "r+b") as under_way:
        assert fast.request("/both").body == old
        slow.send("GET /both HTTP/1.1\r\nHost: a\r\n\r\n" * 100)
        assert slow.response().body == old
        os.replace(server.write("html/both.new", new), path)
        os.pwrite(under_way.fileno(), b"x" * 8000, 0)
        assert fast.request("/both").body == new
        bodies = [slow.response().body for _ in range(99)]
        assert bodies[0] == old and bodies[-1] == new
        assert all(body in (old, new) for body in bodies)


@pytest.mark.parametrize("way", ["plain", "sendfile", "threads", "directio"])
def test_file_that_shrinks_ends_the_connection(server, way):
    path = server.write("html/shrinking", BIG)
    with server.client(rcvbuf=4096) as client:
        client.send("GET /%s/shrinking HTTP/1.1\r\nHost: a\r\n\r\n" % way)
        assert client.head().status == 200
        os.truncate(path, 1000)
        rest = client.rest()
        assert len(rest) < len(BIG)
        if way in ("threads", "directio"):
            assert rest == BIG[:len(rest)]
            server.wait_log(r"pread\(\) read only \d+ of \d+ from \"[^\"]*shrinking\"")
        else:
            # The kernel sends from its pages, whose cut-off ends it clears.
            assert all(got in (was, 0) for got, was in zip(rest, BIG))
    assert server.get("/%s/shrinking" % way).body == BIG[:1000]


def test_parts_of_kept_contents_at_a_limited_rate(server):
    """Each part of a multipart answer holds on to the contents."""
    text = BIG[:8000]
    path = server.write("html/parts", text)
    settle(path)
    server.get("/parts")
    with server.client() as client:
        client.send("GET /slow/parts HTTP/1.1\r\nHost: a\r\nRange: bytes=0-9,100-7000,20-29\r\n\r\n")
        assert client.head().status == 206
        server.write("html/parts", b"x" * 8000)
        server.get("/parts")
        rest = client.recv(1 << 20)
        while not rest.endswith(b"--\r\n"):
            rest += client.recv(1 << 20)
    boundary = rest[:rest.index(b"\r\n", 2)]
    bodies = [part.split(b"\r\n\r\n", 1)[1] for part in rest.split(boundary)[1:-1]]
    assert bodies == [text[:10], text[100:7001], text[20:30]]


def test_open_file_cache_looks_again_after_valid(server):
    with server.client() as client:
        assert client.request("/cached/new").status == 404
        server.write("html/new", "here")
        assert client.request("/cached/new").status == 404
        deadline = time.time() + 20
        while client.request("/cached/new").status == 404 and time.time() < deadline:
            time.sleep(0.05)
        assert client.request("/cached/new").body == b"here"


def test_many_files_leave_no_descriptors(server):
    """More than the worker could hold open."""
    names = ["many/%d" % number for number in range(300)]
    for name in names:
        server.write("html/" + name, BIG[:70000])
    with server.client() as client:
        for way in ("plain", "sendfile", "threads", "cached"):
            for name in names:
                assert len(client.request("/%s/%s" % (way, name)).body) == 70000
    with open("/proc/%d/task/%d/children" % (server.process.pid, server.process.pid),
              encoding="ascii") as children:
        for worker in children.read().split():
            assert len(os.listdir("/proc/%s/fd" % worker)) < 100


def test_thread_pool_by_variable(server):
    assert server.get("/pool/big?pool=own").body == BIG
    assert server.get("/pool/big?pool=default").body == BIG


@pytest.mark.parametrize("place", ["odd", "zero"])
def test_alignment_that_the_device_refuses(server, place):
    """Then the file is read as usual."""
    assert server.get("/%s/big" % place).body == BIG
    assert server.get("/%s/big" % place, "Range: bytes=7-5000").body == BIG[7:5001]
