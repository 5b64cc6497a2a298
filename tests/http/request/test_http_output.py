"""Sending: big files on every path, slow readers, rates, pipelining, early close."""

import hashlib
import random
import time

import pytest

PATTERN = bytes(number * 31 % 253 for number in range(1 << 16))
BIG = PATTERN * 64  # 4 MB
HUGE = 5 << 30  # a file with a hole, beyond what 32 bits count

PATHS = {
    "read": "", "sendfile": "sendfile on;", "nopush": "sendfile on; tcp_nopush on;",
    "chunked": "sendfile on; sendfile_max_chunk 8k;", "threads": "aio threads;",
    "threads and sendfile": "sendfile on; aio threads;", "directio": "directio 512;",
    "directio and threads": "directio 512; aio threads;", "buffers": "output_buffers 2 4k;",
    "postpone": "postpone_output 0;", "cached": "open_file_cache max=10; sendfile on;",
    "nodelay off": "tcp_nodelay off;", "read_ahead": "read_ahead 128k;",
}


@pytest.fixture(scope="module")
def server():
    from harness import Server
    locations = "".join("location /%d/ { alias html/; %s }\n" % (number, text)
                        for number, text in enumerate(PATHS.values()))
    with Server("server { listen 127.0.0.1:@PORT@ sndbuf=64k; root html; %s "
                "location /string { return 200 '%s'; } "
                "location /trailer/ { alias html/; add_trailer X-T t; } }"
                % (locations, "s" * 3000),
                files={"html/big": BIG, "html/small": b"small", "html/empty": b""}) as running:
        with open(running.path("html/huge"), "wb") as huge:
            huge.truncate(HUGE)
            huge.seek((4 << 30) - 4)
            huge.write(b"borders!")
        yield running


def number(name):
    return list(PATHS).index(name)


@pytest.mark.parametrize("name", PATHS)
def test_big_file(server, name):
    response = server.get("/%d/big" % number(name))
    assert response.status == 200
    assert hashlib.md5(response.body).digest() == hashlib.md5(BIG).digest()


@pytest.mark.parametrize("name", PATHS)
def test_ranges_of_a_big_file(server, name):
    choose = random.Random(name)
    with server.client() as client:
        for _ in range(10):
            first = choose.randrange(len(BIG))
            last = choose.randrange(first, len(BIG))
            response = client.request("/%d/big" % number(name),
                                      "Range: bytes=%d-%d" % (first, last))
            assert response.status == 206
            assert response.header("Content-Range") == "bytes %d-%d/%d" % (first, last, len(BIG))
            assert response.body == BIG[first:last + 1]


@pytest.mark.parametrize("name", PATHS)
def test_range_beyond_4_gigabytes(server, name):
    with server.client() as client:
        target = "/%d/huge" % number(name)
        assert client.request(target, method="HEAD").header("Content-Length") == str(HUGE)
        response = client.request(target, "Range: bytes=4294967290-4294967301")
        assert response.body == b"\0\0borders!\0\0"
        assert response.header("Content-Range") == "bytes 4294967290-4294967301/%d" % HUGE
        assert client.request(target, "Range: bytes=-3").body == bytes(3)
        assert client.request(target, "Range: bytes=%d-" % HUGE).status == 416


@pytest.mark.parametrize("name", PATHS)
def test_multipart_ranges_of_a_big_file(server, name):
    response = server.get("/%d/big" % number(name),
                          "Range: bytes=0-9, 1000000-2000000, -5, 4194303-")
    assert response.status == 206
    boundary = response.header("Content-Type").split("boundary=")[1].encode()
    parts = response.body.split(b"\r\n--" + boundary)
    assert parts[0] == b"" and parts[-1] == b"--\r\n"
    bodies = [part.split(b"\r\n\r\n", 1)[1] for part in parts[1:-1]]
    assert bodies == [BIG[:10], BIG[1000000:2000001], BIG[-5:], BIG[4194303:]]


@pytest.mark.parametrize("name", PATHS)
def test_pipelined_mix(server, name):
    """Small and big, HEAD and errors, with and without ranges, in order and complete."""
    base = "/%d/" % number(name)
    wishes = [("GET", "small", "", 200, b"small"), ("GET", "big", "", 200, BIG),
              ("HEAD", "big", "", 200, b""), ("GET", "none", "", 404, None),
              ("GET", "empty", "", 200, b""),
              ("GET", "big", "Range: bytes=5-9\r\n", 206, BIG[5:10]),
              ("POST", "small", "Content-Length: 3\r\n", 405, None),
              ("GET", "small", "", 200, b"small")]
    data = b""
    for method, target, field, _, _ in wishes:
        data += ("%s %s%s HTTP/1.1\r\nHost: a\r\n%s\r\n" % (method, base, target, field)).encode()
        if method == "POST":
            data += b"abc"
    with server.client() as client:
        client.send(data)
        for method, _, _, status, body in wishes:
            response = client.response(method)
            assert response.status == status
            assert body is None or response.body == body


def test_many_pipelined_requests(server):
    """900 in one go, while the client does not read before the end."""
    with server.client() as client:
        client.socket.settimeout(10)
        client.send(b"GET /small HTTP/1.1\r\nHost: a\r\n\r\n" * 900
                    + b"GET /small HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        for _ in range(901):
            assert client.response().body == b"small"
        assert client.rest() == b""


def test_slow_reader_gets_everything(server):
    with server.client(rcvbuf=4096) as client:
        client.send("GET /big HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        client.head()
        total = len(client.buffer)
        client.buffer = b""
        while True:
            data = client.socket.recv(3000)
            if not data:
                break
            total += len(data)
        assert total == len(BIG)


def test_many_slow_readers_do_not_hinder_others(server):
    slow = [server.client(rcvbuf=4096) for _ in range(50)]
    for client in slow:
        client.send("GET /big HTTP/1.1\r\nHost: a\r\n\r\n")
    for _ in range(50):
        assert server.get("/small").body == b"small"
    for client in slow:
        client.reset()
    assert server.get("/small").body == b"small"


def test_client_resets_in_the_middle(server):
    for size in (0, 1, 100, 100000):
        with server.client(rcvbuf=4096) as client:
            client.send("GET /big HTTP/1.1\r\nHost: a\r\n\r\n" * 3)
            if size:
                client.recv(size)
            client.reset()
    assert server.get("/small").body == b"small"


def test_half_closed_client_gets_its_answer(server):
    """The end of the input is not the end of the conversation."""
    with server.client() as client:
        client.send("GET /small HTTP/1.1\r\nHost: a\r\n\r\n")
        client.half_close()
        assert client.response().body == b"small"
        assert client.rest() == b""


def test_long_string(server):
    with server.client() as client:
        for _ in range(3):
            assert client.request("/string").body == b"s" * 3000


def test_trailer_after_a_big_file(server):
    response = server.get("/trailer/big")
    assert response.framing == "chunked" and response.body == BIG
    assert response.trailers == [("X-T", "t")]


def test_file_that_shrinks_is_not_padded(serve):
    """The announced length cannot be met: the connection ends early rather than lie."""
    server = serve("server { listen 127.0.0.1:@PORT@ sndbuf=16k; root html; }",
                   files={"html/big": BIG}, allow=["truncated", r"read\(\) read only"])
    with server.client(rcvbuf=4096) as client:
        client.send("GET /big HTTP/1.1\r\nHost: a\r\n\r\nGET /big HTTP/1.1\r\nHost: a\r\n\r\n")
        head = client.head()
        with open(server.path("html/big"), "r+b") as file:
            file.truncate(500000)
        data = client.rest_or_reset()
    assert head.header("Content-Length") == str(len(BIG))
    assert len(data) < len(BIG) and data == BIG[:len(data)]


def test_limit_rate_takes_its_time(serve):
    """A limit is a promise that it does not go faster; how much slower is not asserted."""
    server = serve("""
        server { listen 127.0.0.1:@PORT@; root html;
                 location /slow/ { alias html/; limit_rate 20k; }
                 location /after/ { alias html/; limit_rate 1; limit_rate_after 100k; }
                 location /var/ { alias html/; set $limit_rate 20k; }
                 location /free/ { alias html/; limit_rate 1; set $limit_rate 0; } }
    """, files={"html/f": BIG[:40000]})
    for base in ("/slow/", "/var/"):
        start = time.monotonic()
        assert server.get(base + "f").body == BIG[:40000]
        assert time.monotonic() - start >= 0.9
    assert server.get("/after/f").body == BIG[:40000]


def test_limit_rate_of_many_clients(serve):
    """Each request has a rate of its own."""
    server = serve("""
        server { listen 127.0.0.1:@PORT@; location / { root html; limit_rate 16k; } }
    """, files={"html/f": BIG[:24000]})
    clients = [server.client() for _ in range(20)]
    for client in clients:
        client.send("GET /f HTTP/1.1\r\nHost: a\r\n\r\n")
    for client in clients:
        assert client.response().body == BIG[:24000]
        client.close()


def test_head_of_a_limited_file_is_quick(serve):
    server = serve("""
        server { listen 127.0.0.1:@PORT@; location / { root html; limit_rate 4k; } }
    """, files={"html/f": BIG[:24000]})
    response = server.get("/f", method="HEAD")
    assert response.header("Content-Length") == "24000"


def test_a_body_of_which_filters_leave_nothing_keeps_nobody_waiting(serve):
    """No client has to be waited for, so that nothing else gave others their turn."""
    length = 32 << 20
    server = serve("log_format uri $uri; access_log access.log uri; server { listen 127.0.0.1:@PORT@; root html; default_type text/html; "
                   "trim on; location /quick { return 204; } }", files={"html/long": b"<!--"})
    with open(server.path("html/long"), "r+b") as long:
        long.truncate(length)
    with server.client() as busy, server.client() as other:
        assert other.request("/quick").status == 204  # both are known to the worker
        assert busy.request("/quick").status == 204
        busy.send(b"GET /long HTTP/1.1\r\nHost: a\r\n\r\n")
        assert other.request("/quick").status == 204
        assert busy.response().body == b""
    assert server.wait_lines("access.log", 4) == ["/quick", "/quick", "/quick", "/long"]


@pytest.mark.parametrize("method, target, headers, said", [
    ("GET", "/file.txt", (), "GET 200 10"), ("HEAD", "/file.txt", (), "HEAD 200 0"), ("GET", "/file.txt", ("Range: bytes=2-4",), "GET 206 3"),
    ("GET", "/none", (), "GET 404"), ("POST", "/text", (), "POST 200 4"), ("GET", "/page", (), "GET 201 10")])
def test_a_post_action_sees_the_response(serve, method, target, headers, said):
    """As in nginx: the method, the status and the bytes of the response that was sent."""
    server = serve("""log_format seen '$request_method $status $body_bytes_sent $arg_seen'; server { listen 127.0.0.1:@PORT@; post_action /after;
        location /text { return 200 text; post_action /after; }
        location /page { return 404; error_page 404 =201 /file.txt; post_action /after; }
        location = /after { internal; rewrite ^ /log?seen=$request_method:$status:$body_bytes_sent: break; access_log logs/after.log seen; return 204; } }""",
                   files={"html/file.txt": "0123456789"})
    with server.client() as client:
        client.request(target, *headers, method=method, body="" if method == "POST" else None)
    assert server.wait_lines("logs/after.log")[0].split()[-1].startswith(said.replace(" ", ":"))
