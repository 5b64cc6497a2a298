"""scgi_pass: what a SCGI server is told, and what becomes of its answers."""

import contextlib
import os
import tempfile

import pytest

import cgi_backends
from harness.wait import until


@pytest.fixture
def backend():
    """A function that starts a scripted SCGI server."""
    with contextlib.ExitStack() as stack:
        def start(answer, **kwargs):
            server = cgi_backends.Scripted(answer, **kwargs)
            stack.callback(server.close)
            return server
        yield start


def says(text):
    return lambda pairs, body, conn: text


def test_parameters(serve, backend):
    scgi = backend(says(b"Content-Type: text/plain\r\n\r\nfine"))
    server = serve("""
        server { listen 127.0.0.1:@PORT@; underscores_in_headers on;
            scgi_param SCGI 1;
            scgi_param REQUEST_URI $request_uri;
            scgi_param QUERY $query_string if_not_empty;
            scgi_param HTTP_X_FIXED ours;
            scgi_param CONTENT_LENGTH 77;
            location / { scgi_pass 127.0.0.1:%d; }
        }
    """ % scgi.port)
    with server.client() as client:
        response = client.request("/a%20b", "X-Fixed: theirs", "X-Two: 1", "X-Two: 2", "Cookie: a",
                                  "Cookie: b", host="h:81")
        assert (response.status, response.text) == (200, "fine")
        assert response.header("Content-Type") == "text/plain"
        client.request("/?q=1", method="POST", body=b"hello")
    pairs, body = scgi.requests[0]
    assert pairs == [("CONTENT_LENGTH", "0"), ("SCGI", "1"), ("REQUEST_URI", "/a%20b"),
                     ("HTTP_X_FIXED", "ours"), ("HTTP_HOST", "h:81"), ("HTTP_X_TWO", "1, 2"),
                     ("HTTP_COOKIE", "a; b")]
    pairs, body = scgi.requests[1]
    assert dict(pairs)["QUERY"] == "q=1" and body == b"hello"


def test_nothing_of_the_request_is_passed(serve, backend):
    scgi = backend(says(b"\n"))
    server = serve("""
        server { listen 127.0.0.1:@PORT@;
            location / { scgi_pass 127.0.0.1:%d; scgi_param A b;
                         scgi_pass_request_headers off; scgi_pass_request_body off; }
        }
    """ % scgi.port)
    with server.client() as client:
        assert client.request("/", "X: y", method="POST", body=b"hello", host="h").status == 200
    assert scgi.requests == [([("CONTENT_LENGTH", "0"), ("A", "b"), ("HTTP_HOST", "h")], b"")]


def test_bodies(serve, backend):
    """Buffered in memory or a file, streamed, chunked: the length stands before all else."""
    scgi = backend(lambda pairs, body, conn: b"X-Got: %d\r\n\r\n" % len(body))
    server = serve("""
        server { listen 127.0.0.1:@PORT@; client_body_buffer_size 8k;
            location / { scgi_pass 127.0.0.1:@BACKEND@; }
            location /stream { scgi_pass 127.0.0.1:@BACKEND@; scgi_request_buffering off; }
        }
    """.replace("@BACKEND@", str(scgi.port)))
    for target in ("/", "/stream"):
        for size in (0, 1, 8192, 300000):
            with server.client() as client:
                response = client.request(target, method="POST", body=b"x" * size)
                assert response.header("X-Got") == str(size)
            with server.client() as client:
                client.send(b"POST %s HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
                            % target.encode())
                client.send(b"".join([b"%x\r\n" % size, b"x" * size, b"\r\n"] if size else []))
                client.send(b"0\r\n\r\n")
                assert client.response("POST").header("X-Got") == str(size)


@pytest.mark.parametrize("answer, status, text", [
    (b"Status: 404 Gone Fishing\r\n\r\nx", 404, "x"),
    (b"Location: /elsewhere\r\n\r\n", 302, ""),
    (b"HTTP/1.1 201 Made\r\nContent-Length: 2\r\n\r\nok", 201, "ok"),
    (b"Content-Length: 2\r\n\r\nokNOT-THIS", 200, "ok"),
    (b"Status: 204\r\n\r\n", 204, ""),
])
def test_answers(serve, backend, answer, status, text):
    scgi = backend(says(answer))
    server = serve("server { listen 127.0.0.1:@PORT@; location / { scgi_pass 127.0.0.1:%d; } }"
                   % scgi.port)
    with server.client() as client:
        response = client.request("/")
        assert (response.status, response.text) == (status, text)
        assert client.request("/").status == status


@pytest.mark.parametrize("answer, message", [
    (b"", "upstream prematurely closed connection"),
    (b"Status: 200\r\n", "upstream prematurely closed connection"),
    (b"garbage\r\n\r\n", "upstream sent invalid header: \"garbage\""),
    (b"Status: x\r\n\r\n", "upstream sent invalid status \"x\""),
    (b"X: " + b"y" * 5000 + b"\r\n\r\n", "upstream sent too big header"),
    (b"Content-Length: 1\r\nContent-Length: 1\r\n\r\nx", "upstream sent duplicate header line"),
])
def test_bad_answers(serve, backend, answer, message):
    scgi = backend(says(answer))
    server = serve("server { listen 127.0.0.1:@PORT@; location / { scgi_pass 127.0.0.1:%d; } }"
                   % scgi.port)
    assert server.get("/").status == 502
    line = server.wait_log(message)
    assert "upstream: \"scgi://127.0.0.1:%d\"" % scgi.port in line.group(0) or \
        "upstream: \"scgi://127.0.0.1:%d\"" % scgi.port in server.read("error.log")


def test_cut_short(serve, backend):
    scgi = backend(says(b"Content-Length: 100\r\n\r\nhello"))
    server = serve("server { listen 127.0.0.1:@PORT@; location / { scgi_pass 127.0.0.1:%d; } }"
                   % scgi.port)
    with server.client() as client:
        client.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        assert client.rest().endswith(b"\r\n\r\nhello")
    server.wait_log("upstream prematurely closed connection")


@pytest.fixture
def open_directory():
    """One that workers may look into."""
    with tempfile.TemporaryDirectory(prefix="portunus-scgi-") as path:
        os.chmod(path, 0o755)
        yield path


def test_targets(serve, backend, open_directory):
    """A unix socket, a group, a group that a variable names, an address that one holds."""
    path = os.path.join(open_directory, "scgi")
    over_unix = backend(says(b"X-By: unix\r\n\r\n"), path=path)
    over_tcp = backend(says(b"X-By: tcp\r\n\r\n"))
    assert over_unix.port is None
    server = serve("""
        upstream u { server 127.0.0.1:@BACKEND@; }
        server { listen 127.0.0.1:@PORT@;
            location /unix { scgi_pass unix:@PATH@; }
            location /group { scgi_pass u; }
            location /var { scgi_pass $arg_to; }
        }
    """.replace("@BACKEND@", str(over_tcp.port)).replace("@PATH@", path))
    assert server.get("/unix").header("X-By") == "unix"
    assert server.get("/group").header("X-By") == "tcp"
    assert server.get("/var?to=u").header("X-By") == "tcp"
    assert server.get("/var?to=127.0.0.1:%d" % over_tcp.port).header("X-By") == "tcp"


def test_hidden_fields(serve, backend):
    scgi = backend(says(b"Status: 200 Fine\r\nX-Accel-Expires: 0\r\nX-One: 1\r\nX-Two: 2\r\n"
                        b"Date: today\r\nX-Accel-Other: 3\r\n\r\n"))
    server = serve("""
        server { listen 127.0.0.1:@PORT@;
            location / { scgi_pass 127.0.0.1:@BACKEND@; scgi_hide_header X-One; }
            location /pass { scgi_pass 127.0.0.1:@BACKEND@; scgi_pass_header X-Accel-Expires; }
        }
    """.replace("@BACKEND@", str(scgi.port)))
    response = server.get("/")
    assert [response.header(name) for name in ("X-One", "X-Two", "X-Accel-Expires", "Status")] == \
        [None, "2", None, None]
    assert response.all("Date") == ["today"]
    assert response.header("X-Accel-Other") == "3"
    response = server.get("/pass")
    assert response.header("X-One") == "1" and response.header("X-Accel-Expires") == "0"


def test_x_accel_redirect(serve, backend):
    scgi = backend(says(b"X-Accel-Redirect: /files/a%20b.txt?c=d\r\nContent-Type: x/y\r\n"
                        b"Set-Cookie: s=1\r\nX-Foo: 1\r\nContent-Length: 3\r\n\r\nnot"))
    server = serve("""
        server { listen 127.0.0.1:@PORT@;
            location / { scgi_pass 127.0.0.1:@BACKEND@; }
            location /ignored { scgi_pass 127.0.0.1:@BACKEND@;
                                scgi_ignore_headers X-Accel-Redirect; }
            location /files/ { internal; root html; }
        }
    """.replace("@BACKEND@", str(scgi.port)), files={"html/files/a b.txt": "file"})
    with server.client() as client:
        for _ in range(2):
            response = client.request("/")
            assert (response.status, response.text) == (200, "file")
            assert response.header("Content-Type") == "x/y"
            assert response.header("Set-Cookie") == "s=1"
            assert response.header("X-Foo") is None
        assert client.request("/ignored").text == "not"
        assert client.request("/files/a%20b.txt").status == 404
        # What a kept file remembers is its own type.
        assert client.request("/", method="HEAD").header("Content-Type") == "x/y"


def test_variables(serve, backend):
    answer = (b"Status: 201 x\r\nX-Foo: a\r\nX-Foo: b\r\nSet-Cookie: s=1; path=/\r\n"
              b"Set-Cookie: t=2\r\n\r\nhello")
    scgi = backend(says(answer))
    server = serve("""
        log_format l '$upstream_addr|$upstream_status|$upstream_response_length|'
                     '$upstream_http_x_foo|$upstream_cookie_t|$upstream_last_addr|'
                     '$upstream_connect_time|$upstream_header_time|$upstream_response_time|'
                     '$upstream_bytes_received|$upstream_cache_status|$upstream_queue_time';
        upstream u { server 127.0.0.1:@DEAD@ max_fails=0; server 127.0.0.1:@BACKEND@ backup; }
        server { listen 127.0.0.1:@PORT@; access_log access.log l;
            location / { scgi_pass 127.0.0.1:@BACKEND@; }
            location /retry { scgi_pass u; }
            location /none { return 200; }
            location /again { scgi_pass 127.0.0.1:@DEAD@; error_page 502 = /; }
        }
    """.replace("@BACKEND@", str(scgi.port)).replace("@DEAD@", "@PORT1@"))
    dead = "127.0.0.1:%d" % server.port_of("PORT1")
    alive = "127.0.0.1:%d" % scgi.port
    for target in ("/", "/retry", "/none", "/again"):
        server.get(target)
    lines = [line.split("|") for line in server.wait_lines("access.log", 4)]
    assert lines[0][:6] == [alive, "201", "5", "a, b", "2", alive]
    assert all(part.startswith("0.") and len(part) == 5 for part in lines[0][6:9])
    assert lines[0][9:] == [str(len(answer)), "-", "-"]
    assert lines[1][:3] == ["%s, %s" % (dead, alive), "502, 201", "0, 5"]
    assert lines[1][6].startswith("-, 0.")
    assert lines[1][9] == "0, %d" % len(answer)
    assert lines[2] == ["-"] * 12
    assert lines[3][:2] == ["%s : %s" % (dead, alive), "502 : 201"]


def test_ranges_that_are_forced(serve, backend):
    scgi = backend(says(b"Content-Length: 10\r\nAccept-Ranges: none\r\n\r\n0123456789"))
    server = serve("""
        server { listen 127.0.0.1:@PORT@;
            location / { scgi_pass 127.0.0.1:@BACKEND@; scgi_force_ranges on; }
            location /as-it-is { scgi_pass 127.0.0.1:@BACKEND@; }
        }
    """.replace("@BACKEND@", str(scgi.port)))
    with server.client() as client:
        response = client.request("/", "Range: bytes=3-4")
        assert (response.status, response.text) == (206, "34")
        assert response.header("Content-Range") == "bytes 3-4/10"
        response = client.request("/", "Range: bytes=3-4,0-1")
        assert (response.status, response.text) == (200, "0123456789")
        assert client.request("/", "Range: bytes=20-").status == 416
        assert client.request("/").all("Accept-Ranges") == ["bytes"]
        response = client.request("/as-it-is", "Range: bytes=3-4")
        assert response.status == 200 and response.all("Accept-Ranges") == ["none"]


def test_ranges_of_what_is_kept(serve, backend):
    """A kept answer has ranges, whatever the backend said of them, and says so once."""
    scgi = backend(says(b"Content-Length: 10\r\nAccept-Ranges: bytes\r\n\r\n0123456789"))
    server = serve("""
        scgi_cache_path @DIR@/logs/cache keys_zone=z:1m;
        server { listen 127.0.0.1:@PORT@;
            location / { scgi_pass 127.0.0.1:%d; scgi_cache z; scgi_cache_key $uri;
                         scgi_cache_valid 1m; }
        }
    """ % scgi.port)
    with server.client() as client:
        for _ in range(2):
            assert client.request("/").all("Accept-Ranges") == ["bytes"]
        assert client.request("/", "Range: bytes=3-4").text == "34"
    assert len(scgi.requests) == 1


def test_store(serve, backend):
    scgi = backend(says(b"Content-Length: 5\r\nLast-Modified: Mon, 28 Sep 1970 06:00:00 GMT\r\n\r\n"
                        b"hello"))
    server = serve("""
        server { listen 127.0.0.1:@PORT@; root logs;
            location / { scgi_pass 127.0.0.1:%d; scgi_store on; scgi_store_access group:rw all:r; }
        }
    """ % scgi.port)
    assert server.get("/sub/y.txt").text == "hello"
    path = server.path("logs/sub/y.txt")
    until(lambda: os.path.exists(path), "the stored file")
    assert server.read("logs/sub/y.txt") == "hello"
    assert os.stat(path).st_mode & 0o777 == 0o664
    assert os.stat(path).st_mtime == 23349600
