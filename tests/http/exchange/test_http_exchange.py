"""What all protocols towards backends share: relaying, buffering, aborts, next peers, redirects, store, slices."""

import os
import re
import socket
import threading

import pytest

import fastcgi_backends
from harness import Closed, until
from harness.h2 import H2

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


@pytest.mark.parametrize("aside", ["", "aio threads; aio_write on;"])
def test_slow_client_frees_the_backend(serve, backend, aside):
    """The answer goes to a temporary file while the client does not read, and the connection is free."""
    back = backend([answer(BIG)], [OK])
    server = serve(front(back.port, "proxy_buffers 4 4k;" + aside).replace("@PORT@", "@PORT@ sndbuf=16k"))
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


@pytest.mark.parametrize("chunks, status", [("zz\r\n", 400), ("5\r\nhello\r\n5\r\nworld\r\n0\r\n\r\n", 413),
                                            ("5\r\nhello\r\n5\r\n", 413)])
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


@pytest.mark.parametrize("status", [b"201 Made", b"203 X", b"302 X", b"404 No", b"410 Gone", b"500 No"])
def test_last_modified_of_the_backend_stays(serve, backend, status):
    back = backend([answer(b"a", b"Last-Modified: Wed, 01 Jan 2020 00:00:00 GMT", status=status)])
    server = serve(front(back.port, "proxy_next_upstream off;"))
    assert server.get("/").header("Last-Modified") == "Wed, 01 Jan 2020 00:00:00 GMT"


def test_last_modified_of_an_error_page_goes(serve, backend):
    date = b"Last-Modified: Wed, 01 Jan 2020 00:00:00 GMT"
    back = backend([answer(b"no", date, status=b"404 No"), answer(b"page", date)])
    server = serve(front(back.port, "proxy_intercept_errors on; error_page 404 /page;"))
    response = server.get("/")
    assert (response.status, response.text, response.header("Last-Modified")) == (404, "page", None)


def test_x_accel_redirect_out_of_its_place(serve, backend):
    """A decoded question mark is a byte of the path: what follows it is looked at, too."""
    back = backend([answer(b"", b"X-Accel-Redirect: /files/%3f/../../secret.txt"),
                    answer(b"", b"X-Accel-Redirect: /files../secret.txt")])
    server = serve(front(back.port, more="location /files { internal; alias @DIR@/html/; }"),
                   files={"html/?/a.txt": "", "secret.txt": "secret"})
    assert [server.get("/").status for _ in range(2)] == [404, 404]
    server.wait_log('unsafe URI "/files/%3f/../../secret.txt" was detected')


def test_no_way_out_of_a_prefix(serve, backend):
    """"/files../x" begins with "/files": behind "/app/" the rest would be outside of it."""
    back = backend([lambda conn, request: conn.sendall(answer(request.split(b"\r\n")[0]))] * 9)
    server = serve(front(back.port, more="""
        location /files { alias @DIR@/html/; autoindex on; }
        location /tried { alias @DIR@/html/; try_files $uri =410; }
        location /app { proxy_pass http://127.0.0.1:%d/app/; }""" % back.port),
                   files={"html/a.txt": "a", "secret.txt": "secret"})
    for target in "/files../secret.txt", "/files%2e%2e/secret.txt", "/files../", "/tried../secret.txt", "/app../x":
        assert server.get(target).status == 404, target
    assert server.get("/filesa.txt").text == "a"
    assert server.get("/app..x").text.startswith("GET /app/..x HTTP/")


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


HIDING = "early_hints 1; proxy_hide_header X-Secret; proxy_pass_trailers on; proxy_cookie_path / /new;"
HIDDEN = (b"X-Secret: 1\r\nX-Accel-Redirect: /inside\r\nServer: inner\r\nX-Accel-Expires: 5\r\n")


def test_early_hints_hide_what_answers_hide(serve, backend):
    """Nor does what frames a message stand in front of one."""
    back = backend([b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\nSet-Cookie: a=b; Path=/x\r\nContent-Length: 5\r\n"
                    b"Connection: close\r\nKeep-Alive: 5\r\nUpgrade: x\r\nTrailer: y\r\n"
                    + HIDDEN + b"\r\n" + OK] * 2)
    server = serve(front(back.port, HIDING, more="http2 on;"))
    with server.client() as client:
        assert client.request("/").interim[0].headers == [("Link", "</a>"), ("Set-Cookie", "a=b; Path=/newx")]
    with H2(server.port) as client:
        assert client.get("/").interim[0][1:] == [("link", "</a>"), ("set-cookie", "a=b; Path=/newx")]


def test_trailers_hide_what_answers_hide(serve, backend):
    back = backend([b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX-T: 1\r\n" + HIDDEN + b"\r\n"] * 2)
    server = serve("log_format t $upstream_trailer_x_secret; " + front(back.port, HIDING, more="http2 on;")
                   .replace("access.log", "access.log t"))
    assert server.get("/").trailers == [("X-T", "1")]
    with H2(server.port) as client:
        assert client.get("/").trailers == [[("x-t", "1")]]
    assert server.wait_lines("access.log", 2) == ["1", "1"]      # variables see them all the same


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


def test_variables_have_the_first_slice(serve, backend):
    """As in nginx, where the others are subrequests; a hit has no attempts, whatever slices are fetched after it."""
    back = backend([sliced] * 100)
    server = serve("log_format line '$upstream_addr|$upstream_status|$upstream_cache_status'; access_log logs/a.log line;" + SLICES % back.port)
    address = "127.0.0.1:%d" % back.port
    assert server.get("/", "Range: bytes=0-10").status == 206
    assert server.get("/", "Range: bytes=0-3000").status == 206
    assert server.get("/", "Range: bytes=3100-5000").status == 206
    assert server.wait_lines("logs/a.log", 3) == ["%s|206|MISS" % address, "-|-|HIT", "%s|206|MISS" % address]


def test_last_slice_is_renewed_without_the_client(serve, backend):
    def briefly(conn, request):
        first, last = ranges(request)
        is_last = last >= len(WHOLE) - 1
        part = WHOLE[first:last + 1]
        conn.sendall(b"HTTP/1.1 206 Partial\r\nETag: \"v1\"\r\nContent-Length: %d\r\nX-Accel-Expires: %s\r\n"
                     b"Content-Range: bytes %d-%d/%d\r\n\r\n%s"
                     % (len(part), b"@1" if is_last else b"600", first, first + len(part) - 1, len(WHOLE), part))
    back = backend([briefly] * 100)
    server = serve((SLICES % back.port).replace("slice 1k;", "slice 1k; proxy_cache_use_stale updating; proxy_cache_background_update on;"))
    assert server.get("/").body == WHOLE
    with server.client() as client:
        for _ in range(2):      # the slice that was fetched for nobody must not follow the response
            response = client.request("/")
            assert (response.status, response.body) == (200, WHOLE)
        back.wait_requests(12)
        assert client.request("/").body == WHOLE


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


def asked(backend):
    return [found.group(1) for found in (re.search(rb"(?i)\r\nRange: bytes=(\d+)-", request)
                                         for request in backend.requests)]


@pytest.mark.parametrize("fields, status, first, end, slices", [
    (["Range: bytes=2500-3100", 'If-Range: "v1"'], 206, 2500, 3101, [b"0", b"2048", b"3072"]),
    (["Range: bytes=2500-3100", 'If-Range: "v0"'], 200, 0, len(WHOLE), [b"%d" % at for at in range(0, 10240, 1024)]),
    (["Range: bytes=-50"], 206, len(WHOLE) - 50, len(WHOLE), [b"0", b"9216"]),
    (["Range: bytes=2500-3100"], 206, 2500, 3101, [b"2048", b"3072"]),
])
@pytest.mark.parametrize("times", [1, 2])
def test_slices_that_are_not_wanted_are_not_asked_for(serve, backend, fields, status, first, end, slices, times):
    back = backend([sliced] * 100)
    server = serve(SLICES % back.port)
    for _ in range(times):
        response = server.get("/", *fields)
        assert (response.status, response.body) == (status, WHOLE[first:end])
    assert asked(back) == slices


def test_slices_begin_anew_where_no_range_is_given(serve, backend):
    """A filter changes the body, so there are no ranges: the whole is asked for, and not from the range on."""
    back = backend([sliced] * 100)
    server = serve(SLICES.replace("slice 1k;", "slice 1k; sub_filter nothing something; sub_filter_types *;") % back.port)
    response = server.get("/", "Range: bytes=2500-3100")
    assert (response.status, response.body) == (200, WHOLE)
    assert asked(back) == [b"2048"] + [b"%d" % at for at in range(0, 10240, 1024) if at != 2048]


# What a backend sends where a slice belongs: how many bytes more or less than its Content-Range says, and whether its
# Content-Length tells of that.
@pytest.mark.parametrize("at, by, framing", [(1024, -1, "length"), (1024, -1, "chunked"), (0, -1, "length"), (0, -1, "chunked"),
                                             (0, 1, "chunked"), (1024, 1, "chunked"), (0, 1, "length")])
@pytest.mark.parametrize("wanted", ["bytes=500-2047", "bytes=500-1024", "bytes=0-2047"])
@pytest.mark.parametrize("cache", [True, False])
def test_slices_that_are_not_what_they_say_cut_the_response(serve, backend, at, by, framing, wanted, cache):
    """Once the response to a range ended cleanly with a byte missing, or with one that was not of its place."""
    def unsound(conn, request):
        first, last = ranges(request)
        part = WHOLE[first:last + 1]
        if first == at:
            part = part[:by] if by < 0 else part + b"?"
        length = b"Content-Length: %d" % len(part) if framing == "length" else b"Transfer-Encoding: chunked"
        body = part if framing == "length" else b"%x\r\n%s\r\n0\r\n\r\n" % (len(part), part)
        conn.sendall(b"HTTP/1.1 206 P\r\n%s\r\nContent-Range: bytes %d-%d/%d\r\n\r\n%s"
                     % (length, first, last, len(WHOLE), body))
    back = backend([unsound] * 20)
    site = SLICES if cache else SLICES.replace("proxy_cache one;", "")
    server = serve(site.replace("slice 1k;", "slice 1k; proxy_http_version 1.1;").replace("location /", "http2 on; location /", 1)
                   % back.port)
    first, last = (int(word) for word in wanted[6:].split("-"))
    right = WHOLE[first:last + 1]
    with H2(server.port) as client:
        given = client.get("/", headers=[("range", wanted)])
    if given.reset is None and given.status == 206:
        assert given.body == right      # it had come before what was wrong
    with server.client() as client:
        client.send("GET / HTTP/1.1\r\nHost: a\r\nRange: %s\r\n\r\n" % wanted)
        try:
            response = client.response()
            assert response.status == 502 or response.body == right
        except Closed:
            pass


@pytest.mark.parametrize("tells", [True, False])
def test_slices_of_fastcgi(serve, tells):
    """Their length is that of their range, whether the backend tells it or not; one that is shorter cuts the answer."""
    def part(request, _):
        first, last = (int(word) for word in request.params["HTTP_RANGE"][6:].split("-"))
        body = WHOLE[first:last + 1]
        last = first + len(body) - 1
        if "short" in request.params["URI"] and first != 0:
            body = body[:-1]
        head = b"Status: 206 Part\r\nContent-Range: bytes %d-%d/%d\r\n" % (first, last, len(WHOLE))
        return fastcgi_backends.answer(body, head + (b"Content-Length: %d\r\n\r\n" % len(body) if tells else b"\r\n"))
    with fastcgi_backends.Scripted(part) as back:
        server = serve("""server { listen 127.0.0.1:@PORT@; location / { slice 1k; fastcgi_pass 127.0.0.1:%d;
            fastcgi_param HTTP_RANGE $slice_range; fastcgi_param URI $uri; } }""" % back.port)
        assert server.get("/").body == WHOLE
        assert server.get("/", "Range: bytes=1500-2500").body == WHOLE[1500:2501]
        with pytest.raises(Closed):
            server.get("/short")
    server.wait_log("in (a )?slice response")


# ---- Date and Server ----

def test_fields_that_are_passed_are_not_ours(serve, backend):
    """proxy_pass_header: the backend's, or none; an error page of ours has ours."""
    back = backend([answer(b"ok", b"Server: inner", b"Date: Tue, 01 Jan 2019 00:00:00 GMT"), OK] * 2)
    passes = "proxy_pass_header Date; proxy_pass_header Server;"
    server = serve(front(back.port, passes, more="http2 on; location /dead { proxy_pass http://127.0.0.1:1; %s }" % passes))

    def by_http2(path):
        with H2(server.port) as client:
            return client.get(path).final
    for ask in (lambda path: server.get(path).headers, by_http2):
        theirs, none, ours = ({name.lower(): value for name, value in ask(path)} for path in ("/", "/", "/dead"))
        assert (theirs["server"], theirs["date"]) == ("inner", "Tue, 01 Jan 2019 00:00:00 GMT")
        assert not {"server", "date"} & set(none)
        assert {"server", "date"} <= set(ours)


# ---- ranges of what backends give ----

RANGED = {"offers": b"Accept-Ranges: bytes\r\n", "stray": b"Accept-Ranges: bytes\r\nContent-Range: bytes 1-2/3\r\n",
          "none": b"Accept-Ranges: none\r\n", "silent": b""}


@pytest.mark.parametrize("name", RANGED)
def test_ranges_that_a_backend_offers(serve, backend, name):
    """Where the cache asks for the whole, a miss is cut as a hit is; what no backend offered is not offered here."""
    back = backend([b"HTTP/1.1 200 OK\r\n%sContent-Length: 10\r\n\r\n0123456789" % RANGED[name]] * 4)
    server = serve("""proxy_cache_path cache keys_zone=one:1m; server { listen 127.0.0.1:@PORT@; location / {
        proxy_pass http://127.0.0.1:%d; proxy_cache one; proxy_cache_valid 1h; } }""" % back.port)
    has_ranges = name in ("offers", "stray")
    for _ in range(2):
        response = server.get("/", "Range: bytes=2-4")
        assert (response.status, response.text) == ((206, "234") if has_ranges else (200, "0123456789"))
        assert response.header("Content-Range") == ("bytes 2-4/10" if has_ranges else None)
    whole = server.get("/")
    assert whole.header("Accept-Ranges") == {"offers": "bytes", "stray": "bytes", "none": "none", "silent": None}[name]
    many = server.get("/", "Range: bytes=0-1,4-5")
    assert many.status == (206 if has_ranges else 200) and many.header("Content-Range") is None
    assert len(back.requests) == 1


def test_if_range_knows_the_date_that_clients_know(serve):
    server = serve("""server { listen 127.0.0.1:@PORT@; root html;
        add_header Last-Modified "Tue, 01 Jan 2019 00:00:00 GMT"; }""", files={"html/a.txt": "0123456789"})
    assert server.get("/a.txt", "Range: bytes=1-2", "If-Range: Tue, 01 Jan 2019 00:00:00 GMT").status == 206
    assert server.get("/a.txt", "Range: bytes=1-2", "If-Range: Tue, 14 Nov 2023 22:13:20 GMT").status == 200


# ---- what is said of a request's body ----

def sent_in(server, framing, body=b"hello"):
    """A POST whose body comes after its head, by HTTP/1 or HTTP/2; gives the status."""
    if framing == "h2":
        with H2(server.port) as client:
            stream = client.request("/", "POST", ends=False)
            client.data(stream, body)
            return client.answer(stream).status
    with server.client() as client:
        head = b"Transfer-Encoding: chunked" if framing == "chunked" else b"Content-Length: %d" % len(body)
        client.send(b"POST / HTTP/1.1\r\nHost: a\r\n" + head + b"\r\n\r\n")
        client.send(body if framing == "length" else b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body))
        return client.response().status


@pytest.mark.parametrize("buffering", ["on", "off"])
@pytest.mark.parametrize("framing", ["length", "chunked", "h2"])
def test_set_body_speaks_of_the_body(serve, backend, framing, buffering):
    back = backend([b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"])
    server = serve("""http2 on; server { listen 127.0.0.1:@PORT@; location / { proxy_request_buffering %s;
        proxy_set_body "<$request_body>"; proxy_pass http://127.0.0.1:%d; } }""" % (buffering, back.port))
    assert sent_in(server, framing) == 200
    head, _, body = back.requests[0].partition(b"\r\n\r\n")
    assert body == b"<hello>" and b"\r\nContent-Length: 7" in head


@pytest.mark.parametrize("framing", ["length", "chunked", "h2"])
def test_length_that_was_asked_for_too_early(serve, backend, framing):
    """$content_length is not known before a chunked body was read; nor is $request_body. Later they are."""
    back = backend([OK])
    server = serve("""http2 on; server { listen 127.0.0.1:@PORT@; set $early "$content_length|$request_body";
        location / { proxy_set_header X-Late "$content_length|$request_body"; proxy_set_header X-Early $early;
            proxy_pass http://127.0.0.1:%d; } }""" % back.port)
    assert sent_in(server, framing) == 200
    early = b"5|" if framing == "length" else b"|"
    assert b"\r\nX-Late: 5|hello\r\nX-Early: %s\r\n" % early in back.requests[0]
