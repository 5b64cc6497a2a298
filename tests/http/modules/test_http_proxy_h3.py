"""proxy_pass over HTTP/3: heads and bodies both ways, shared connections, loss, broken backends. The backend is aioquic."""

import hashlib
import threading

import pytest

import certificates
from h3_backend import H3Backend, frame
from harness import h3
from harness.h3 import NO_ERROR, REQUEST_CANCELLED, REQUEST_REJECTED
from harness.server import run_binary

pytestmark = pytest.mark.skipif(not h3.HAS_AIOQUIC, reason="without aioquic: see auto/aioquic")

BIG = bytes(range(256)) * 4000


@pytest.fixture(name="h3")
def _h3():
    made = []

    def make(*args, **how):
        made.append(H3Backend(*args, **how))
        return made[-1]

    yield make
    for backend in made:
        backend.close()


def conf(backend, more="", upstream="", http=""):
    return ("%s upstream u { server 127.0.0.1:%d; %s }"
            " server { listen 127.0.0.1:@PORT@; http2 on; client_max_body_size 0; location / { proxy_pass https://u;"
            " proxy_http_version 3; %s } }" % (http, backend.port, upstream, more))


def hello(conn, request):
    conn.answer(request, b"hello %d" % conn.number)


def in_parallel(server, paths):
    """Responses to requests that are all under way at once."""
    got = {}

    def ask(path):
        got[path] = server.client().request(path)
    threads = [threading.Thread(target=ask, args=(path,)) for path in paths]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    return got


def test_request_head(serve, h3):
    backend = h3(lambda conn, request: conn.answer(request, b"hello", [("x-a", "b"), ("connection", "close")]))
    server = serve(conf(backend, 'proxy_set_header X-Own "$arg_a"; proxy_set_header X-Not "";'))
    response = server.client().request(
        "/p?a=1", "User-Agent: ua", "Connection: keep-alive, x-hop", "TE: trailers", "X-Not: 1",
        "Upgrade: foo", "X-UPPER: Value", method="POST", body=b"abc")
    assert (response.status, response.body, response.header("x-a")) == (200, b"hello", "b")
    request = backend.seen[0]
    assert request.body == b"abc"
    names = [name for name, _ in request.fields]
    assert names[:4] == [":method", ":scheme", ":path", ":authority"]
    assert [request[name] for name in names[:4]] == ["POST", "https", "/p?a=1", "u"]
    assert (request["content-length"], request["x-own"], request["x-upper"], request["user-agent"]) == \
        ("3", "1", "Value", "ua")
    for name in ("connection", "te", "upgrade", "x-not", "host", "transfer-encoding"):
        assert request[name] is None, name


def test_own_host_and_long_fields(serve, h3):
    backend = h3(lambda conn, request: conn.answer(request, str(len(request["x-long"])).encode()))
    server = serve(conf(backend, 'proxy_set_header Host $http_host; proxy_set_header X-Long "%s";' % ("Z" * 4000)))
    assert server.client().request("/", host="front.example").body == b"4000"
    assert backend.seen[0][":authority"] == "front.example" and backend.seen[0]["host"] is None


@pytest.mark.parametrize("method", ["HEAD", "GET", "DELETE", "PATCH"])
def test_methods(serve, h3, method):
    backend = h3(lambda conn, request: conn.answer(request, b"" if method == "HEAD" else b"abc",
                                                   [("content-length", "3")]))
    response = serve(conf(backend)).client().request("/", method=method)
    assert (response.status, response.body) == (200, b"" if method == "HEAD" else b"abc")
    assert backend.seen[0][":method"] == method


def test_connection_is_kept(serve, h3):
    backend = h3(hello)
    client = serve(conf(backend)).client()
    assert [client.request("/").body for _ in range(5)] == [b"hello 1"] * 5


def test_address_without_a_group_keeps_none(serve, h3):
    backend = h3(hello)
    server = serve("server { listen 127.0.0.1:@PORT@; location / { proxy_pass https://127.0.0.1:%d; proxy_http_version 3; } }"
                   % backend.port)
    client = server.client()
    assert [client.request("/").body for _ in range(2)] == [b"hello 1", b"hello 2"]
    backend.wait(lambda: all(conn.closed == (NO_ERROR, "") for conn in backend.connections))


def test_requests_share_a_connection(serve, h3):
    """None is answered before the last has come."""
    waiting = []

    def answer(conn, request):
        if request[":path"] == "/first":
            conn.answer(request, b"first")
            return
        waiting.append(request)
        if len(waiting) == 8:
            for one in reversed(waiting):
                conn.answer(one, one[":path"].encode() * 1000)

    backend = h3(answer)
    server = serve(conf(backend))
    assert server.client().request("/first").body == b"first"
    paths = ["/%d" % i for i in range(8)]
    got = in_parallel(server, paths)
    assert all(got[path].body == path.encode() * 1000 for path in paths)
    assert len(backend.connections) == 1


def test_no_more_requests_than_allowed_share(serve, h3):
    """proxy_http3_max_concurrent_streams, or what the backend allows, whichever is less."""
    waiting = []

    def answer(conn, request):
        if request[":path"] == "/first":
            conn.answer(request)
            return
        waiting.append(request)
        if len(waiting) == 6:
            for one in waiting:
                one.conn.answer(one, b"x")

    backend = h3(answer)
    server = serve(conf(backend, "proxy_http3_max_concurrent_streams 2;"))
    assert server.client().request("/first").status == 200
    got = in_parallel(server, ["/%d" % i for i in range(6)])
    assert [one.body for one in got.values()] == [b"x"] * 6
    assert len(backend.connections) >= 3


@pytest.mark.parametrize("buffering", ["on", "off"])
@pytest.mark.parametrize("size", [0, 1, 5000, 65536, 2000000])
def test_bodies_of_requests(serve, h3, buffering, size):
    backend = h3(lambda conn, request: conn.answer(request, b"%d %s" % (
        len(request.body), hashlib.md5(request.body).hexdigest().encode())))
    server = serve(conf(backend, "proxy_request_buffering %s;" % buffering))
    body = bytes(i * 31 % 251 for i in range(size % 100000)) * max(1, size // 100000)
    wanted = b"%d %s" % (len(body), hashlib.md5(body).hexdigest().encode())
    client = server.client()
    assert client.request("/", method="POST", body=body).body == wanted
    client.send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")
    for at in range(0, len(body), 50000):
        client.send(b"%x\r\n%s\r\n" % (len(body[at:at + 50000]), body[at:at + 50000]))
    client.send("0\r\n\r\n")
    assert client.response().body == wanted


@pytest.mark.parametrize("buffering", ["on", "off"])
def test_bodies_of_responses(serve, h3, buffering):
    def answer(conn, request):
        fields = [("content-length", str(len(BIG)))] if request[":path"] == "/length" else []
        conn.answer(request, b"" if request[":path"] == "/empty" else BIG, fields)

    server = serve(conf(h3(answer), "proxy_buffering %s;" % buffering))
    client = server.client()
    assert client.request("/length").body == BIG
    assert client.request("/none").body == BIG
    assert client.request("/empty").body == b""


@pytest.mark.parametrize("lose", [7, 4])
def test_loss(serve, h3, lose):
    """Every seventh, every fourth datagram is lost each way."""
    backend = h3(lambda conn, request: conn.answer(request, hashlib.md5(request.body).hexdigest().encode() + BIG), lose=lose)
    server = serve(conf(backend))
    body = bytes(300000)
    response = server.client().request("/", method="POST", body=body)
    assert response.body == hashlib.md5(body).hexdigest().encode() + BIG


def test_dynamic_table(serve, h3):
    """aioquic's encoder puts fields in the table, and refers to them once that is acknowledged."""
    value = "v" * 300
    backend = h3(lambda conn, request: conn.answer(request, b"x", [("x-long", value), ("x-n", request["x-n"] or "")]))
    client = serve(conf(backend)).client()
    for i in range(40):
        response = client.request("/", "X-N: %d" % (i % 3))
        assert (response.header("x-long"), response.header("x-n")) == (value, str(i % 3))
    assert len(backend.connections) == 1


def test_no_dynamic_table(serve, h3):
    backend = h3(lambda conn, request: conn.answer(request, b"x", [("x-long", "v" * 300)]))
    client = serve(conf(backend, "proxy_http3_max_table_capacity 0;")).client()
    assert [client.request("/").header("x-long") for _ in range(5)] == ["v" * 300] * 5


def test_retry_of_quic(serve, h3):
    backend = h3(hello, retry=True)
    client = serve(conf(backend)).client()
    assert client.request("/").body == b"hello 1" and backend.retries == 1


def test_other_version(serve, h3):
    """A server that speaks version 2 alone (RFC 9369) gets it, and has to confirm in the handshake that it is so."""
    backend = h3(hello, versions=[0x6b3343cf], supported_versions=[0x6b3343cf])
    client = serve(conf(backend)).client()
    assert client.request("/").body == b"hello 1" and backend.negotiations == 1


def test_forged_negotiation(serve, h3):
    """Who says that the server speaks version 2 alone, though it speaks version 1, is found out."""
    backend = h3(hello, versions=[0x6b3343cf], supported_versions=[0x6b3343cf, 1])
    server = serve(conf(backend))
    assert server.client().request("/").status == 502
    server.wait_log("the server does not confirm the version")


# ---- TLS

def test_certificate_is_verified(serve, h3, tmp_path):
    good, other = certificates.own("good.example"), certificates.own("other.example")
    backend = h3(hello, pair=good)
    verify = "proxy_ssl_verify on; proxy_ssl_trusted_certificate %s; proxy_ssl_name %s; proxy_ssl_server_name on;"
    server = serve(conf(backend, verify % (good.crt, "good.example")))
    assert server.client().request("/").body == b"hello 1"
    server = serve(conf(backend, verify % (good.crt, "bad.example")))
    assert server.client().request("/").status == 502
    server.wait_log('upstream SSL certificate does not match "bad.example"')
    server = serve(conf(backend, verify % (other.crt, "good.example")))
    assert server.client().request("/").status == 502
    server.wait_log("upstream SSL certificate verify error")


def test_session_is_resumed(serve, h3):
    backend = h3(hello)
    server = serve("server { listen 127.0.0.1:@PORT@; location / { proxy_pass https://127.0.0.1:%d; proxy_http_version 3; } "
                   "location /no { proxy_pass https://127.0.0.1:%d; proxy_http_version 3; proxy_ssl_session_reuse off; } }"
                   % (backend.port, backend.port))
    client = server.client()
    for path in ("/", "/", "/no"):
        assert client.request(path).status == 200
    assert [conn.resumed for conn in backend.connections] == [False, True, False]


# ---- what goes wrong

def test_nobody_is_there(serve, h3):
    """The kernel says so; the next server is asked."""
    dead, alive = h3(hello), h3(hello)
    dead.close()
    server = serve("upstream u { server 127.0.0.1:%d; server 127.0.0.1:%d backup; } server { listen 127.0.0.1:@PORT@; "
                   "location / { proxy_pass https://u; proxy_http_version 3; } location /x { proxy_pass https://127.0.0.1:%d; "
                   "proxy_http_version 3; } }" % (dead.port, alive.port, dead.port))
    client = server.client()
    assert client.request("/").body == b"hello 1"
    assert client.request("/x").status == 502
    server.wait_log(r"connect\(\) failed \(111: Connection refused\) while connecting to upstream")


def test_handshake_times_out(serve, h3):
    backend = h3(hello)
    backend.is_deaf = True
    server = serve(conf(backend, "proxy_connect_timeout 200ms;"))
    assert server.client().request("/").status == 504
    server.wait_log("upstream timed out")


def test_backend_dies(serve, h3):
    """The kernel says that nobody is there any more: the request does not wait for its timeout."""
    backend = h3(hello)
    server = serve(conf(backend))
    client = server.client()
    assert client.request("/").body == b"hello 1"
    backend.close()
    assert client.request("/").status == 502


def test_backend_restarts(serve):
    """It does not know the kept connection any more, and says so: the request goes again by a fresh one."""
    pair = certificates.own("localhost")
    other = serve("ssl_certificate %s; ssl_certificate_key %s; server { listen 127.0.0.1:@PORT@ quic; listen 127.0.0.1:@PORT@; "
                  "quic_host_key @DIR@/key; location / { return 200 $connection; } }" % (pair.crt, pair.key),
                  files={"key": "k" * 32})
    server = serve("upstream u { server 127.0.0.1:%d; } server { listen 127.0.0.1:@PORT@; location / { proxy_pass https://u; "
                   "proxy_http_version 3; } }" % other.port)
    client = server.client()
    assert client.request("/").status == 200
    other.stop()
    other.start()
    assert client.request("/", method="GET").status == 200


def test_backend_closes_an_idle_connection(serve, h3):
    backend = h3(hello)
    server = serve(conf(backend))
    client = server.client()
    assert client.request("/").body == b"hello 1"
    backend.do(lambda: backend.connections[0].quic.close(error_code=NO_ERROR))
    backend.do(lambda: None)
    assert client.request("/").body == b"hello 2"
    assert "[error]" not in server.error_log


def test_goaway(serve, h3):
    """What the backend has not looked at goes to a new connection, also POST."""
    def answer(conn, request):
        if conn.number == 1 and request[":path"] == "/refused":
            conn.control(frame(7, b"\4"))
        else:
            hello(conn, request)

    backend = h3(answer)
    server = serve(conf(backend))
    client = server.client()
    assert client.request("/").body == b"hello 1"
    assert client.request("/refused", method="POST", body=b"abc").body == b"hello 2"
    assert backend.seen[-1].body == b"abc"
    assert client.request("/").body == b"hello 2"


def test_rejected_request_is_repeated(serve, h3):
    def answer(conn, request):
        if len(backend.seen) == 1:
            conn.quic.reset_stream(request.stream, REQUEST_REJECTED)
        else:
            hello(conn, request)

    backend, other = h3(answer), h3(hello)
    server = serve("upstream u { server 127.0.0.1:%d; server 127.0.0.1:%d backup; } server { listen 127.0.0.1:@PORT@; "
                   "location / { proxy_pass https://u; proxy_http_version 3; } }" % (backend.port, other.port))
    assert server.client().request("/", method="POST", body=b"abc").body == b"hello 1"
    assert other.seen[0].body == b"abc"


def test_reset(serve, h3):
    def answer(conn, request):
        if request[":path"] == "/head":
            conn.head(request, [("content-length", "10")])
            conn.data(request, b"12345")
        conn.quic.reset_stream(request.stream, 0x102)

    server = serve(conf(h3(answer)))
    assert server.client().request("/").status == 502
    server.wait_log("upstream rejected request with error 258")


def test_body_is_not_wanted(serve, h3):
    """STOP_SENDING without an error, and the whole response."""
    def head(conn, request):
        conn.answer(request, b"enough")
        conn.quic.stop_stream(request.stream, NO_ERROR)

    backend = h3(head=head)
    server = serve(conf(backend, "proxy_request_buffering off;"))
    client = server.client()
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n")
    assert client.response().body == b"enough"


def test_client_leaves(serve, h3):
    """The backend hears that nobody wants the response."""
    backend = h3(answer=None)
    server = serve(conf(backend))
    client = server.client()
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
    request = backend.request()
    client.close()
    backend.wait(lambda: request.stopped == REQUEST_CANCELLED)
    backend.answer = hello
    assert server.client().request("/").body == b"hello 1"


def test_read_timeout_and_signs_of_life(serve, h3):
    """A silent backend: 504. One that pings meanwhile is waited for."""
    backend = h3()
    server = serve(conf(backend, "proxy_read_timeout 1s;"))
    client = server.client()
    client.send("GET /slow HTTP/1.1\r\nHost: a\r\n\r\n")
    request = backend.request()
    for i in range(10):
        backend.do(lambda n=i: request.conn.quic.send_ping(n))
        threading.Event().wait(0.15)
    backend.do(lambda: request.conn.answer(request, b"at last"))
    assert client.response().body == b"at last"
    assert client.request("/never").status == 504
    server.wait_log("upstream timed out")


def test_one_stalled_stream_does_not_hold_up_others(serve, h3):
    """A client that does not read, without buffering: the other requests of the connection go on."""
    backend = h3(lambda conn, request: conn.answer(request, BIG * 8 if request[":path"] == "/slow" else BIG))
    server = serve(conf(backend, "proxy_buffering off;"))
    server.client().request("/")
    slow = server.client()
    slow.send("GET /slow HTTP/1.1\r\nHost: a\r\n\r\n")
    backend.wait(lambda: len(backend.seen) == 2)
    client = server.client()
    for _ in range(5):
        assert client.request("/").body == BIG
    assert len(backend.connections) == 1
    slow.close()


def test_http09(serve, h3):
    lines = []

    def line(conn, event):
        if event.data:
            lines.append(event.data)
            conn.raw(event.stream_id, b"plain " * 10000, end=True)

    server = serve(conf(h3(line=line), "proxy_http3_hq on;"))
    client = server.client()
    for _ in range(2):
        response = client.request("/a")
        assert (response.status, response.body) == (200, b"plain " * 10000)
    assert lines == [b"GET /a\r\n"] * 2


# ---- a server of our own

def own_server(more=""):
    pair = certificates.own("localhost")
    return ("ssl_certificate %s; ssl_certificate_key %s; server { listen 127.0.0.1:@PORT1@ quic; client_max_body_size 0; %s "
            "location / { root html; } location /n { return 200 $connection; } location /m { return 200 "
            "$request_method:$http3; } } upstream u { server 127.0.0.1:@PORT1@; } server { listen 127.0.0.1:@PORT@; "
            "client_max_body_size 0; location / { proxy_pass https://u; proxy_http_version 3; } }" % (pair.crt, pair.key, more))


def test_own_server(serve):
    client = serve(own_server(), files={"html/big": BIG}).client()
    assert client.request("/big").body == BIG
    assert client.request("/m").body == b"GET:h3"
    assert len({client.request("/n").body for _ in range(3)}) == 1


def test_circle_ends(serve):
    """A server that passes requests on to itself, by HTTP/3."""
    pair = certificates.own("localhost")
    server = serve("ssl_certificate %s; ssl_certificate_key %s; server { listen 127.0.0.1:@PORT@ quic; listen 127.0.0.1:@PORT1@; "
                   "location / { proxy_pass https://127.0.0.1:@PORT@; proxy_http_version 3; } }" % (pair.crt, pair.key))
    assert server.client(server.port_of("PORT1")).request("/").status == 508


# ---- what is refused when the configuration is read

@pytest.mark.parametrize("text, message", [
    ("proxy_pass http://127.0.0.1:1; proxy_http_version 3;",
     '"proxy_http_version 3" needs "https://" in "proxy_pass"'),
    ("proxy_pass https://127.0.0.1:1; proxy_http_version 3; proxy_protocol on;",
     '"proxy_protocol" is not possible with "proxy_http_version 3"'),
    ("grpc_pass grpc://127.0.0.1:1; grpc_http_version 3;", '"grpc_http_version 3" needs "grpcs://" in "grpc_pass"'),
    ("proxy_quic_host_key none;", "cannot read"),
])
def test_refused(tmp_path, text, message):
    path = tmp_path / "nginx.conf"
    path.write_text("events { } http { server { listen 127.0.0.1:8000; location / { %s } } }" % text)
    done = run_binary("-t", "-p", str(tmp_path), "-c", str(path), "-e", "stderr")
    assert done.returncode == 1 and message in done.stderr
