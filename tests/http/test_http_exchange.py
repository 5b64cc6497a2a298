"""What all protocols towards backends share: relaying, buffering, aborts, next peers, redirects, store, slices."""

import os
import socket
import threading

import pytest

from harness import Closed, until

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
BIG = b"".join(b"%07d\n" % n for n in range(200000))     # 1.6 MB


def answer(body, *fields, status=b"200 OK"):
    head = b"".join(field + b"\r\n" for field in fields)
    return b"HTTP/1.1 %s\r\nContent-Length: %d\r\n%s\r\n%s" % (status, len(body), head, body)


def front(port, settings="", location="/", more=""):
    return ("access_log access.log; server { listen 127.0.0.1:@PORT@; location %s { proxy_pass http://127.0.0.1:%d; %s } %s }"
            % (location, port, settings, more))


def temp_files(server, name="proxy_temp"):
    found = []
    for root, _, files in os.walk(server.path(name)):
        found += [os.path.join(root, file) for file in files]
    return found


# ---- relaying ----

@pytest.mark.parametrize("buffering", ["on", "off"])
def test_long_body_arrives_whole(serve, backend, buffering):
    back = backend([answer(BIG)] * 2)
    server = serve(front(back.port, "proxy_buffering %s;" % buffering))
    assert server.get("/").body == BIG
    assert server.get("/").body == BIG


def test_slow_client_frees_the_backend(serve, backend):
    """The answer goes to a temporary file while the client does not read, and the connection is free."""
    back = backend([answer(BIG)], [OK])
    server = serve(front(back.port, "proxy_buffers 4 4k;").replace("@PORT@", "@PORT@ sndbuf=16k"))
    with server.client() as client:
        client.send("GET /slow HTTP/1.1\r\nHost: a\r\n\r\n")
        server.wait_log("an upstream response is buffered to a temporary file")
        assert server.get("/next").text == "ok"
        assert client.response().body == BIG
    assert temp_files(server) == []


def test_slow_client_without_temporary_file(serve, backend):
    back = backend([answer(BIG)])
    server = serve(front(back.port, "proxy_max_temp_file_size 0;")
                   .replace("@PORT@", "@PORT@ sndbuf=16k"))
    with server.client() as client:
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        assert client.response().body == BIG
    assert "temporary file" not in server.read("error.log")


def test_body_that_comes_in_parts_is_not_held_back(serve, backend):
    gate = threading.Event()

    def slowly(conn, _):
        conn.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
                     b"Transfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n")
        assert gate.wait(10)
        conn.sendall(b"6\r\nsecond\r\n0\r\n\r\n")
    back = backend([slowly])
    server = serve(front(back.port))
    with server.client() as client:
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        got = b""
        while b"first" not in got:
            got += client.socket.recv(4096)
        gate.set()
        while not got.endswith(b"0\r\n\r\n"):
            got += client.socket.recv(4096)
        assert b"second" in got


def test_head_only_answers(serve, backend):
    back = backend([b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n",
                    b"HTTP/1.1 304 Not Modified\r\nETag: \"x\"\r\n\r\n",
                    b"HTTP/1.1 204 No Content\r\n\r\n", OK])
    server = serve(front(back.port))
    with server.client() as client:
        head = client.request("/", method="HEAD")
        assert head.header("Content-Length") == "100" and head.body == b""
        assert client.request("/").status == 304
        assert client.request("/").status == 204
        assert client.request("/").text == "ok"
    assert back.connections == 1


# ---- clients and backends that leave ----

def test_client_that_leaves_ends_the_backend_connection(serve, backend):
    gone = threading.Event()

    def wait(conn, _):
        if conn.recv(1) == b"":
            gone.set()
    back = backend([wait])
    server = serve(front(back.port), main="error_log error.log info;")
    with server.client() as client:
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        back.wait_requests(1)
    assert gone.wait(10)
    until(lambda: '" 499 ' in server.read("access.log"), "499 in the log")


def test_ignore_client_abort(serve, backend):
    gate = threading.Event()
    ends = []

    def wait(conn, _):
        assert gate.wait(10)
        conn.sendall(OK)
        ends.append("sent")
    back = backend([wait, OK])
    server = serve(front(back.port, "proxy_ignore_client_abort on;"))
    with server.client() as client:
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        back.wait_requests(1)
    gate.set()
    until(lambda: ends, "the answer")
    until(lambda: '" 200 ' in server.read("access.log"), "200 in the log")
    assert server.get("/").text == "ok"
    assert back.connections == 1        # whole, so that it could be kept


@pytest.mark.parametrize("framing", [b"Content-Length: 10", b"Transfer-Encoding: chunked"])
def test_answer_cut_short_cuts_the_client(serve, backend, framing):
    back = backend([lambda conn, _: conn.sendall(b"HTTP/1.1 200 OK\r\n" + framing +
                                                 b"\r\n\r\n3\r\nabc\r\n"[:8])])
    server = serve(front(back.port))
    with server.client() as client:
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        with pytest.raises(Closed):
            client.response()
    assert "upstream prematurely closed connection" in server.read("error.log")


def test_read_timeout_is_504(serve, backend):
    back = backend([lambda conn, _: conn.recv(1)])
    server = serve(front(back.port, "proxy_read_timeout 100ms;"))
    assert server.get("/").status == 504
    assert "upstream timed out (110: Connection timed out) while reading response header from " \
           "upstream" in server.read("error.log")


# ---- request bodies ----

def test_body_from_a_temporary_file(serve, backend):
    back = backend([OK] * 2)
    server = serve(front(back.port, "client_body_buffer_size 1k; client_max_body_size 4m;"))
    with server.client() as client:
        assert client.request("/", method="POST", body=BIG).text == "ok"
        assert client.request("/", method="POST", body=b"small").text == "ok"
    assert back.requests[0].endswith(BIG) and back.requests[1].endswith(b"\r\n\r\nsmall")


def test_early_answer_to_a_streamed_body(serve):
    """A backend that refuses a body before it has come: its answer is given."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(5)
    server = serve(front(listener.getsockname()[1],
                         "proxy_request_buffering off; client_max_body_size 0;"))
    with server.client() as client:
        client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\nstart")
        conn = listener.accept()[0]
        with conn:
            conn.settimeout(10)
            got = b""
            while not got.endswith(b"start"):
                got += conn.recv(65536)
            conn.sendall(b"HTTP/1.1 413 No\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno")
            response = client.response()
    assert (response.status, response.text) == (413, "no") and response.closes
    listener.close()


@pytest.mark.parametrize("chunks, status", [("zz\r\n", 400), ("5\r\nhello\r\n5\r\nworld\r\n0\r\n\r\n", 413)])
def test_streamed_body_that_is_wrong(serve, backend, chunks, status):
    back = backend([lambda conn, _: conn.recv(65536)])
    server = serve(front(back.port, "proxy_request_buffering off; client_max_body_size 8;"))
    with server.client() as client:
        client.send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks)
        assert client.response().status == status


# ---- the next peer ----

def group(ports, settings="", name="b"):
    lines = "".join("server 127.0.0.1:%d max_fails=0;" % port for port in ports)
    return ("upstream %s { %s } server { listen 127.0.0.1:@PORT@; location / { proxy_pass http://%s; %s } }"
            % (name, lines, name, settings))


def test_next_peer_after_a_status(serve, backend):
    bad = backend([answer(b"bad", status=b"503 Busy")] * 3)
    good = backend([OK] * 3)
    server = serve(group([bad.port, good.port], "proxy_next_upstream http_503; "
                         "add_header X-St $upstream_status; add_header X-Up $upstream_addr;"))
    response = server.get("/")
    assert response.text == "ok"
    assert response.header("X-St") == "503, 200"
    assert response.header("X-Up") == "127.0.0.1:%d, 127.0.0.1:%d" % (bad.port, good.port)


def test_last_peers_status_is_passed_on(serve, backend):
    bad = backend([answer(b"bad", status=b"503 Busy")] * 3)
    server = serve(group([bad.port], "proxy_next_upstream http_503;"))
    response = server.get("/")
    assert (response.status, response.text) == (503, "bad")


def test_post_is_not_repeated(serve, backend):
    dying = backend([lambda conn, _: None])
    good = backend([OK] * 4)
    server = serve(group([dying.port, good.port]))
    with server.client() as client:
        assert client.request("/", method="POST", body=b"x").status == 502
        assert client.request("/", method="POST", body=b"x").status == 200
    server = serve(group([dying.port, good.port], "proxy_next_upstream error non_idempotent;"))
    with server.client() as client:
        assert client.request("/", method="POST", body=b"x").status == 200


def test_tries_are_limited(serve, backend):
    bad = [backend([lambda conn, _: None]) for _ in range(3)]
    server = serve(group([one.port for one in bad],
                         "proxy_next_upstream_tries 2; add_header X-St $upstream_status always;"))
    response = server.get("/")
    assert (response.status, response.header("X-St")) == (502, "502, 502")


# ---- what answers ask for ----

def test_x_accel_redirect(serve, backend):
    back = backend([answer(b"secret", b"X-Accel-Redirect: /files/a.txt", b"Set-Cookie: a=b",
                           b"Content-Type: text/x-own"),
                    answer(b"", b"X-Accel-Redirect: @other")])
    server = serve(front(back.port, more="""
        location /files/ { internal; alias @DIR@/html/; }
        location @other { return 200 "other"; }"""), files={"html/a.txt": "from a file"})
    response = server.get("/")
    assert response.text == "from a file" and response.header("Set-Cookie") == "a=b"
    assert response.header("Content-Type") == "text/x-own"
    assert response.header("X-Accel-Redirect") is None
    assert server.get("/").text == "other"
    assert server.get("/files/a.txt").status == 404


def test_intercepted_errors(serve, backend):
    back = backend([answer(b"theirs", b'WWW-Authenticate: Basic realm="x"', status=b"401 No"),
                    answer(b"theirs", status=b"404 No"), answer(b"theirs", status=b"500 No")])
    server = serve(front(back.port, "proxy_intercept_errors on;", more="""
        error_page 401 404 /ours; location /ours { return 200 "ours"; }"""))
    response = server.get("/")
    assert (response.status, response.text) == (401, "ours")
    assert response.header("WWW-Authenticate") == 'Basic realm="x"'
    assert (server.get("/").status, server.get("/").text) == (404, "theirs")


def test_early_hints_go_on(serve, backend):
    back = backend([b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + OK] * 2)
    server = serve(front(back.port, more="""
        early_hints $arg_hints;"""))
    with server.client() as client:
        assert client.request("/?hints=1").interim
        assert not client.request("/").interim


# ---- store ----

def test_store(serve, backend):
    back = backend([answer(b"kept", b"Last-Modified: Wed, 01 Jan 2020 00:00:00 GMT"),
                    answer(b"no", status=b"404 No"),
                    lambda conn, _: conn.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\ncut")])
    server = serve("""server { listen 127.0.0.1:@PORT@; root store; location / {
        try_files $uri @back; } location @back { proxy_pass http://127.0.0.1:%d; proxy_store on;
        proxy_store_access user:rw group:rw all:r; } }""" % back.port, files={"store/x": "here"})
    os.chmod(server.path("store"), 0o777)
    assert server.get("/deep/er/a.txt").text == "kept"
    until(lambda: os.path.exists(server.path("store/deep/er/a.txt")), "the stored file")
    info = os.stat(server.path("store/deep/er/a.txt"))
    assert info.st_mtime == 1577836800 and info.st_mode & 0o777 == 0o664
    assert server.get("/deep/er/a.txt").text == "kept"
    assert server.get("/missing").status == 404
    with server.client() as client:
        client.send("GET /cut HTTP/1.1\r\nHost: a\r\n\r\n")
        with pytest.raises(Closed):
            client.response()
    assert sorted(os.listdir(server.path("store"))) == ["deep", "x"]
    assert temp_files(server) == []
    assert len(back.requests) == 3


# ---- slices ----

WHOLE = bytes(range(256)) * 40      # 10,240 bytes


def ranges(request):
    line = [line for line in request.split(b"\r\n") if line.lower().startswith(b"range:")][0]
    first, last = line.split(b"=")[1].split(b"-")
    return int(first), int(last)


def sliced(conn, request):
    first, last = ranges(request)
    part = WHOLE[first:last + 1]
    conn.sendall(b"HTTP/1.1 206 Partial\r\nETag: \"v1\"\r\nContent-Length: %d\r\n"
                 b"Content-Range: bytes %d-%d/%d\r\n\r\n%s"
                 % (len(part), first, first + len(part) - 1, len(WHOLE), part))


SLICES = """proxy_cache_path cache keys_zone=one:1m;
    server { listen 127.0.0.1:@PORT@; location / { slice 1k; proxy_cache one;
        proxy_cache_key $uri$slice_range; proxy_set_header Range $slice_range;
        proxy_cache_valid 200 206 1h; proxy_pass http://127.0.0.1:%d; } }"""


def test_slices(serve, backend):
    back = backend([sliced] * 100)
    server = serve(SLICES % back.port)
    response = server.get("/")
    assert (response.status, response.body) == (200, WHOLE)
    assert response.header("Content-Length") == str(len(WHOLE))
    assert response.header("Content-Range") is None
    assert len(back.requests) == 10
    part = server.get("/", "Range: bytes=1500-3500")
    assert (part.status, part.body) == (206, WHOLE[1500:3501])
    assert part.header("Content-Range") == "bytes 1500-3500/10240"
    assert server.get("/", "Range: bytes=-100").body == WHOLE[-100:]
    assert server.get("/").body == WHOLE
    assert len(back.requests) == 10             # all from the cache
    with server.client() as client:
        assert client.request("/", method="HEAD").header("Content-Length") == str(len(WHOLE))


def test_slices_of_a_range_alone(serve, backend):
    back = backend([sliced] * 100)
    server = serve(SLICES % back.port)
    part = server.get("/", "Range: bytes=1500-3500")
    assert (part.status, part.body) == (206, WHOLE[1500:3501])
    assert len(back.requests) == 3
    several = server.get("/", "Range: bytes=0-1,5-6")
    assert (several.status, several.body) == (200, WHOLE)


def test_slices_of_another_version_cut_the_response(serve, backend):
    def changed(conn, request):
        first, last = ranges(request)
        conn.sendall(b"HTTP/1.1 206 P\r\nETag: \"v%d\"\r\nContent-Length: 1024\r\n"
                     b"Content-Range: bytes %d-%d/10240\r\n\r\n%s"
                     % (first // 4096, first, last, WHOLE[first:last + 1]))
    back = backend([changed] * 100)
    server = serve(SLICES % back.port)
    with server.client() as client:
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        with pytest.raises(Closed):
            client.response()
    assert "etag mismatch in slice response" in server.read("error.log")


def test_answers_without_ranges_are_passed_on_whole(serve, backend):
    back = backend([answer(WHOLE)] * 3)
    server = serve(SLICES % back.port)
    assert server.get("/").body == WHOLE
    assert server.get("/").body == WHOLE
