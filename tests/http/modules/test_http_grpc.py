"""grpc_pass: heads, both bodies as they come, trailers, failures; gRPC is HTTP/2 with trailers."""

import socket
import threading

import pytest

from h2_backend import (ACK, DATA, END_HEADERS, END_STREAM, H2Backend, HEADERS, PREFACE, RST, SETTINGS,
                        block, decode_block, each, frame, u32)
from harness import run_binary
from harness.h2 import H2


@pytest.fixture
def h2():
    made = []

    def make(script, **how):
        made.append(H2Backend(script, **how))
        return made[-1]

    yield make
    for backend in made:
        backend.close()


def conf(backend, more="", place="grpc_pass u;"):
    return ("upstream u { server 127.0.0.1:%d; keepalive_requests 1000000; } keepalive_requests 1000000;"
            " server { listen 127.0.0.1:@PORT@; http2 on; location / { %s %s } }"
            % (backend.port, place.replace("@BACKEND@", str(backend.port)), more))


class Caller:
    """A client by HTTP/2 with one stream."""

    def __init__(self, server, *fields, path="/S/M"):
        self.socket = socket.create_connection(("127.0.0.1", server.port))
        self.socket.settimeout(10)
        head = (b"\x83\x86" + block((":path", path), (":authority", "front"), ("content-type", "application/grpc"),
                                    ("te", "trailers"), *fields))
        self.socket.sendall(PREFACE + frame(SETTINGS, 0, 0) + frame(HEADERS, END_HEADERS, 1, head))
        self.rest = b""
        self.table = []

    def fields(self):
        """Flags and fields of the next header block."""
        _, flags, _, payload = self.wait(HEADERS)
        return flags, decode_block(payload, self.table)

    def data(self, body, last=False):
        self.socket.sendall(frame(DATA, END_STREAM if last else 0, 1, body))

    def read(self):
        while True:
            size = int.from_bytes(self.rest[:3], "big") + 9 if len(self.rest) >= 9 else 9
            if len(self.rest) >= 9 and len(self.rest) >= size:
                got, self.rest = self.rest[:size], self.rest[size:]
                return got[3], got[4], int.from_bytes(got[5:9], "big"), got[9:]
            more = self.socket.recv(65536)
            if not more:
                raise EOFError
            self.rest += more

    def wait(self, kind):
        """The next frame of that kind on the stream."""
        while True:
            got = self.read()
            if got[0] == kind and got[2] == 1:
                return got

    def close(self):
        self.socket.close()


def test_head(serve, h2):
    seen = []

    def answer(conn, request):
        seen.append(request)
        conn.answer(request, b"x")

    backend = h2(each(answer))
    for place, authority in (("grpc_pass 127.0.0.1:@BACKEND@;", "127.0.0.1:%d" % backend.port),
                             ("grpc_pass grpc://u;", "u"),
                             ("set $to grpc://127.0.0.1:@BACKEND@; grpc_pass $to;", "127.0.0.1:%d" % backend.port)):
        server = serve(conf(backend, place=place))
        response = server.client().request("/a%20b?c", "TE: trailers", "Connection: te", "X-A: b")
        assert (response.status, response.body) == (200, b"x")
        request = seen[-1]
        assert [request[name] for name in (":method", ":scheme", ":path", ":authority", "te", "x-a", "host")] == \
            ["GET", "http", "/a%20b?c", authority, "trailers", "b", None]
        assert request.ended


def test_set_header(serve, h2):
    seen = []

    def answer(conn, request):
        seen.append(request)
        conn.answer(request, b"x")

    server = serve(conf(h2(each(answer)), 'grpc_set_header Host foo.example; grpc_set_header TE "";'
                                          ' grpc_set_header X-A $arg_a; grpc_set_header X-B "";'))
    server.client().request("/?a=1", "TE: trailers", "X-B: b")
    request = seen[0]
    assert [request[name] for name in (":authority", "host", "te", "x-a", "x-b")] == \
        [None, "foo.example", None, "1", None]


def test_echo_both_ways(serve, h2):
    """Messages go to and fro while neither body has ended."""
    def answer(conn, request):
        conn.send(frame(HEADERS, END_HEADERS, request.stream,
                        block((":status", "200"), ("content-type", "application/grpc"))))
        while not request.ended:
            got = conn.wait(DATA, request.stream)
            request.ended = bool(got[1] & END_STREAM)
            if got[3]:
                conn.send(frame(DATA, 0, request.stream, got[3].upper()))
        conn.send(frame(HEADERS, END_HEADERS | END_STREAM, request.stream,
                        block(("grpc-status", "0"), ("grpc-message", ""))))

    caller = Caller(serve(conf(h2(each(answer)))))
    assert (":status", "200") in caller.fields()[1]
    for text in (b"one", b"two", b"three"):
        caller.data(text)
        assert caller.wait(DATA)[3] == text.upper()
    caller.data(b"", last=True)
    flags, fields = caller.fields()
    assert flags & END_STREAM
    assert fields == [("grpc-status", "0"), ("grpc-message", "")]
    caller.close()


def test_trailers_alone(serve, h2):
    """An answer of a head alone ends with its head for the client, too: gRPC looks for the status there."""
    def answer(conn, request):
        conn.body(request)
        conn.answer(request, fields=[("grpc-status", "12")])

    caller = Caller(serve(conf(h2(each(answer)))))
    caller.data(b"m", last=True)
    flags, fields = caller.fields()
    assert flags & END_STREAM
    assert ("grpc-status", "12") in fields
    caller.close()


def test_hidden_trailers_and_hints(serve, h2):
    def answer(conn, request):
        conn.send(frame(HEADERS, END_HEADERS, request.stream,
                        block((":status", "103"), ("link", "<a>"), ("x-secret", "1"), ("content-length", "1"))))
        conn.answer(request, b"abc", trailers=[("grpc-status", "3"), ("x-secret", "1"), ("x-accel-redirect", "/a")])
    server = serve(conf(h2(each(answer)), "grpc_hide_header X-Secret; early_hints 1;"))
    with H2(server.port) as client:
        got = client.get("/")
        assert got.interim[0][1:] == [("link", "<a>")]
        assert got.trailers == [[("grpc-status", "3")]]


def test_trailers_behind_an_announced_length(serve, h2):
    def answer(conn, request):
        conn.body(request)
        conn.answer(request, b"abc", [("content-length", "3")], trailers=[("grpc-status", "3")])

    caller = Caller(serve(conf(h2(each(answer)))))
    caller.data(b"m", last=True)
    assert ("content-length", "3") in caller.fields()[1]
    assert caller.wait(DATA)[3] == b"abc"
    flags, fields = caller.fields()
    assert flags & END_STREAM and fields == [("grpc-status", "3")]
    caller.close()


def test_trailers_to_http1(serve, h2):
    def answer(conn, request):
        conn.answer(request, b"x", trailers=[("grpc-status", "5")])

    response = serve(conf(h2(each(answer)))).client().request("/", "TE: trailers", "Connection: te")
    assert response.trailers == [("grpc-status", "5")]


def test_many_calls_on_few_connections(serve, h2):
    backend = h2(each(lambda conn, request: conn.answer(request, conn.body(request))),
                 settings=b"\0\3\0\0\0\x64")
    client = serve(conf(backend)).client()
    for number in range(50):
        assert client.request("/", method="POST", body=b"%d" % number).body == b"%d" % number
    assert len(backend.connections) == 1


def test_hidden_and_passed_fields(serve, h2):
    def answer(conn, request):
        conn.answer(request, b"x", [("server", "theirs"), ("x-secret", "1"), ("x-pad", "2"), ("x-open", "3")])

    server = serve(conf(h2(each(answer)), "grpc_hide_header X-Secret; grpc_pass_header Server;"))
    response = server.client().request("/")
    assert response.header("x-secret") is None
    assert (response.header("server"), response.header("x-open")) == ("theirs", "3")


def test_intercept_errors(serve, h2):
    def answer(conn, request):
        conn.answer(request, b"theirs", status="503")

    server = serve(conf(h2(each(answer)), "grpc_intercept_errors on; error_page 503 /own;")
                   .replace("location / ", "location = /own { return 200 own; } location / "))
    response = server.client().request("/")
    assert response.body == b"own"


def test_next_upstream(serve, h2):
    good = h2(each(lambda conn, request: conn.answer(request, b"good")))
    bad = h2(each(lambda conn, request: conn.answer(request, b"bad", status="502")))
    server = serve("upstream u { server 127.0.0.1:%d; server 127.0.0.1:%d backup; }"
                   " server { listen 127.0.0.1:@PORT@; location / { grpc_pass u;"
                   " grpc_next_upstream http_502; } }" % (bad.port, good.port))
    assert server.client().request("/").body == b"good"


@pytest.mark.parametrize("body", [b"", b"some"])
def test_head_before_a_reset_in_one_read_is_passed_on(serve, h2, body):
    """The head is the response's, no 502 of ours, and the next server is not tried. Of the body nothing is given, as in
    nginx: a client of HTTP/1.0 cannot tell that it is cut."""
    tried = []

    def answer(conn, request):
        tried.append(1)
        frames = [frame(HEADERS, END_HEADERS, request.stream, block((":status", "200"), ("x-a", "b")))]
        frames += [frame(DATA, 0, request.stream, body)] if body else []
        conn.send(b"".join(frames) + frame(RST, 0, request.stream, u32(8)))

    backend, other = h2(each(answer)), h2(each(answer))
    server = serve("upstream u { server 127.0.0.1:%d; server 127.0.0.1:%d; } server { listen 127.0.0.1:@PORT@; http2 on;"
                   " location / { grpc_pass u; grpc_next_upstream error invalid_header; } }" % (backend.port, other.port))
    with H2(server.port) as client:
        response = client.answer(client.request("/"))
    assert response.status == 200 and response.headers["x-a"] == "b" and response.reset is not None
    assert (response.body, len(tried)) == (b"", 1)
    server.wait_log("upstream rejected request with error 8")


def test_timeout(serve, h2):
    def script(conn):
        conn.request()
        conn.request()

    server = serve(conf(h2(script), "grpc_read_timeout 100ms;"))
    assert server.client().request("/").status == 504
    assert "upstream timed out" in server.error_log


def test_timeout_on_a_busy_connection(serve, h2):
    """What goes to and fro of others does not keep a request alive that nobody answers."""
    silent = threading.Event()

    def script(conn):
        conn.answer(conn.request(), b"first")
        conn.wait_settled()
        while True:
            request = conn.request()
            if request[":path"] == "/silent":
                silent.set()
            else:
                conn.answer(request, b"x")

    backend = h2(script, settings=b"\0\3\0\0\0\x64")
    server = serve(conf(backend, "grpc_read_timeout 1s;"))
    client = server.client()
    assert client.request("/").body == b"first"
    statuses = []
    thread = threading.Thread(target=lambda: statuses.append(server.client().request("/silent").status))
    thread.start()
    assert silent.wait(10)
    while thread.is_alive():
        assert client.request("/").status == 200
    thread.join()
    assert statuses == [504]
    assert len(backend.connections) == 1


@pytest.mark.parametrize("line,told", [
    ('grpc_pass "";', "no host in upstream"),
    ("grpc_pass grpc://;", "no host in upstream"),
    ("grpc_pass 127.0.0.1:x;", "invalid port"),
    ('grpc_pass u; grpc_set_header "" a;', "a header has an empty name"),
    ("grpc_pass u; grpc_buffering on;", "unknown directive"),
])
def test_configuration(line, told):
    from harness import Server
    from harness.server import run_binary

    server = Server("upstream u { server 127.0.0.1:1; } server { listen 127.0.0.1:@PORT@; location / { %s } }"
                    % line)
    done = run_binary("-t", "-p", server.dir, "-c", "nginx.conf", cwd=server.dir)
    server.close(check=False)
    assert done.returncode != 0 and told in done.stderr


def test_an_address_has_a_port(serve):
    """There is no default: 80 and 443 are ports of web pages."""
    server = serve("""server { listen 127.0.0.1:@PORT@; location / { grpc_pass $arg_to; } location /group { grpc_pass u; } }
        upstream u { server 127.0.0.1:@PORT1@; }""")
    for to in ("127.0.0.1", "grpc://127.0.0.1", "grpcs://127.0.0.1"):
        assert server.get("/?to=" + to).status == 500
    server.wait_log('no port in upstream "127.0.0.1", client')
    assert server.get("/?to=u").status == server.get("/group").status == 502
    for to in ("127.0.0.1", "grpc://127.0.0.1", "grpcs://127.0.0.1"):
        name = server.write("bad.conf", "events { } http { server { listen 127.0.0.1:80; location / { grpc_pass %s; } } }" % to)
        assert 'no port in upstream "127.0.0.1" in ' in run_binary("-t", "-c", name).stderr
