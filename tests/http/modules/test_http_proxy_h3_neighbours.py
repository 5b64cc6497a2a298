"""proxy_pass over HTTP/3 beside the rest of http: TLS settings that keep connections apart, caches, subrequests, clients of each
version, reloads."""

import threading

import pytest

import certificates
import h3_backend
from h3_backend import H3Backend
from harness import h3, until
from harness.h3 import H3, NO_ERROR, REQUEST_CANCELLED, STREAM_CREATION_ERROR

pytestmark = pytest.mark.skipif(not h3.HAS_AIOQUIC, reason="without aioquic: see auto/aioquic")


@pytest.fixture(name="h3")
def _h3():
    made = []

    def make(*args, **how):
        made.append(H3Backend(*args, **how))
        return made[-1]

    yield make
    for backend in made:
        backend.close()


def hello(conn, request):
    conn.answer(request, b"hello %d" % conn.number)


def site(serve, backend, places, http="", **more):
    return serve("%s upstream u { server 127.0.0.1:%d; keepalive 8; } proxy_http_version 3; server { listen 127.0.0.1:@PORT@; "
                 "client_max_body_size 0; %s }" % (http, backend.port, places), **more)


# ---- whose connection it is

PAIR = certificates.own("good.example")
OTHER = certificates.own("other.example")


def verify(name="good.example", more=""):
    return ("proxy_ssl_verify on; proxy_ssl_trusted_certificate %s; proxy_ssl_name %s; %s" % (PAIR.crt, name, more))


UNLIKE = {
    "verification": ("proxy_ssl_name good.example;", verify()),
    "names that are sent": ("proxy_ssl_server_name on; proxy_ssl_name a.example;",
                            "proxy_ssl_server_name on; proxy_ssl_name b.example;"),
    "whether a name is sent": ("proxy_ssl_name a.example;", "proxy_ssl_server_name on; proxy_ssl_name a.example;"),
    "certificates": ("", "proxy_ssl_certificate %s; proxy_ssl_certificate_key %s;" % (OTHER.crt, OTHER.key)),
    "certificates of variables": ("proxy_ssl_certificate $arg_c; proxy_ssl_certificate_key $arg_k;",
                                  "proxy_ssl_certificate %s$arg_none; proxy_ssl_certificate_key %s$arg_none;" % (
                                      OTHER.crt, OTHER.key)),
    "depths": (verify(more="proxy_ssl_verify_depth 2;"), verify(more="proxy_ssl_verify_depth 3;")),
    "authorities": ("proxy_ssl_trusted_certificate %s; %s" % (OTHER.crt, "proxy_ssl_verify off;"), verify()),
    "ciphersuites": ("", "proxy_ssl_conf_command Ciphersuites TLS_CHACHA20_POLY1305_SHA256;"),
    "addresses": ("", "proxy_bind 127.0.0.2;"),
    "protocols": ("", "proxy_http3_hq on;"),
}


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("unlike", UNLIKE)
def test_connections_are_not_shared(serve, h3, unlike, turned):
    """Neither one that is idle nor one that is in use."""
    def line(conn, event):
        if event.data:
            conn.raw(event.stream_id, b"hello %d" % conn.number, end=True)

    held = []

    def answer(conn, request):
        if request[":path"].endswith("/held"):
            held.append(request)
        else:
            hello(conn, request)

    backend = h3(answer, line=line, pair=PAIR)
    one, other = reversed(UNLIKE[unlike]) if turned else UNLIKE[unlike]
    server = site(serve, backend, "location /a { proxy_pass https://u; %s } location /b { proxy_pass https://u; %s } "
                  "location /c { proxy_pass https://u; %s }" % (one, other, one))
    client = server.client()
    assert client.request("/a").body == b"hello 1"
    assert client.request("/c").body == b"hello 1"
    assert client.request("/b").body == b"hello 2"
    assert client.request("/a").body == b"hello 1"
    if "hq" in one:
        return
    slow = server.client()
    slow.send("GET /a/held HTTP/1.1\r\nHost: a\r\n\r\n")
    backend.wait(lambda: held)
    assert client.request("/c").body == b"hello 1"
    assert client.request("/b").body == b"hello 2"
    backend.do(lambda: hello(held[0].conn, held[0]))
    assert slow.response().body == b"hello 1"


def test_unverified_does_not_serve_verified(serve, h3):
    """A connection whose certificate nobody looked at, in use and idle; nor a session of it."""
    backend = h3(hello, pair=PAIR)
    server = site(serve, backend, "location /a { proxy_pass https://u; proxy_ssl_name bad.example; } "
                  "location /b { proxy_pass https://u; %s }" % verify("bad.example"))
    client = server.client()
    for _ in range(2):
        assert client.request("/a").body == b"hello 1"
        assert client.request("/b").status == 502
    server.wait_log('upstream SSL certificate does not match "bad.example"')


def test_client_certificates_and_ciphersuites(serve):
    pair = certificates.own("localhost")
    text = ("ssl_certificate %s; ssl_certificate_key %s; server { listen 127.0.0.1:@PORT1@ quic; ssl_verify_client optional_no_ca; "
            "location / { return 200 $ssl_client_s_dn/$ssl_cipher/$connection; } } upstream u { server 127.0.0.1:@PORT1@; } "
            "server { listen 127.0.0.1:@PORT@; proxy_http_version 3; location /none { proxy_pass https://u; } "
            "location /own { proxy_pass https://u; proxy_ssl_certificate %s; proxy_ssl_certificate_key %s; } "
            "location /suite { proxy_pass https://u; proxy_ssl_conf_command Ciphersuites TLS_CHACHA20_POLY1305_SHA256; } }"
            % (pair.crt, pair.key, OTHER.crt, OTHER.key))
    client = serve(text).client()
    seen = {}
    for path in ["/none", "/own", "/suite"] * 3:
        name, cipher, number = client.request(path).body.decode().split("/")
        assert name == ("CN=other.example" if path == "/own" else "")
        assert (cipher == "TLS_CHACHA20_POLY1305_SHA256") == (path == "/suite")
        assert seen.setdefault(path, number) == number
    assert len(set(seen.values())) == 3


def test_address_of_our_own(serve, h3):
    backend = h3(hello)
    server = site(serve, backend, "location / { proxy_pass https://u; proxy_bind 127.0.0.9; }")
    assert server.client().request("/").body == b"hello 1"
    assert backend.connections[0].address[0] == "127.0.0.9"


def test_ipv6(serve):
    pair = certificates.own("localhost")
    server = serve("ssl_certificate %s; ssl_certificate_key %s; server { listen [::1]:@PORT1@ quic; location / { return 200 "
                   "$remote_addr:$http3; } } upstream u { server [::1]:@PORT1@; } server { listen 127.0.0.1:@PORT@; location / { "
                   "proxy_pass https://u; proxy_http_version 3; } }" % (pair.crt, pair.key))
    assert server.client().request("/").body == b"::1:h3"


SCRIPTS = """
    location /v { proxy_pass https://u; proxy_ssl_verify on; proxy_ssl_trusted_certificate %s; proxy_ssl_name good.example;
        proxy_ssl_verify_by_lua_block { %%s } }
    location / { proxy_pass https://u; }""" % PAIR.crt


def test_script_that_verifies(serve, h3):
    """It runs once the library has judged, may wait, and what it verified is a connection of its own."""
    backend = h3(hello, pair=PAIR)
    server = site(serve, backend, SCRIPTS % 'ngx.sleep(0.001) ngx.log(ngx.WARN, "script: ", ngx.var.uri)',
                  allow=["script: /v"])
    assert server.client().request("/").status == 200
    assert server.client().request("/v").status == 200
    server.wait_log("script: /v")
    assert server.client().request("/").status == 200
    assert len(backend.connections) == 2


@pytest.mark.parametrize("script", ["ngx.sleep(0.001) ngx.exit(ngx.ERROR)", 'ngx.sleep(0.001) error("no")'])
def test_script_that_refuses(serve, h3, script):
    backend = h3(hello, pair=PAIR)
    server = site(serve, backend, SCRIPTS % script, allow=["SSL_do_handshake", "QUIC handshake failed", "lua", "TLS handshake"])
    assert server.client().request("/v").status == 502
    assert server.client().request("/").status == 200


def test_script_that_takes_longer_than_the_handshake_may(serve, h3):
    backend = h3(hello, pair=PAIR)
    server = site(serve, backend, "proxy_connect_timeout 200ms; " + SCRIPTS % "ngx.sleep(60)", allow=["timed out"])

    def is_aborted():   # the time may be over before the script begins
        assert server.client().request("/v").status == 504
        return "proxy_ssl_verify_by_lua: cert verify callback aborted" in server.error_log
    until(is_aborted, server.evidence)


def test_client_that_leaves_while_a_script_waits(serve, h3):
    backend = h3(hello, pair=PAIR)
    server = site(serve, backend, SCRIPTS % 'ngx.log(ngx.WARN, "script waits") ngx.sleep(60)', allow=["script waits"])
    with server.client() as client:
        client.send(b"GET /v HTTP/1.1\r\nHost: a\r\n\r\n")
        server.wait_log("script waits")
    server.wait_log("proxy_ssl_verify_by_lua: cert verify callback aborted")


def test_script_that_gives_a_certificate(serve):
    """Asked for where the backend wants one."""
    pair = certificates.own("localhost")
    server = serve("""ssl_certificate %s; ssl_certificate_key %s;
        server { listen 127.0.0.1:@PORT1@ quic; ssl_verify_client optional_no_ca;
            location / { return 200 "$ssl_client_verify:$http3"; } }
        server { listen 127.0.0.1:@PORT@; location / { proxy_pass https://127.0.0.1:@PORT1@; proxy_http_version 3;
            proxy_ssl_certificate_by_lua_block {
                ngx.sleep(0.001)
                local ssl = require "ngx.ssl"
                local file = io.open("%s") local crt = file:read("*a") file:close()
                file = io.open("%s") local key = file:read("*a") file:close()
                local clear = require("ngx.ssl.proxysslcert")
                assert(clear.set_cert(ssl.parse_pem_cert(crt)))
                assert(clear.set_priv_key(ssl.parse_pem_priv_key(key)))
            } } }""" % (pair.crt, pair.key, pair.crt, pair.key))
    assert server.client().request("/").body.endswith(b":h3")
    assert server.client().request("/").body.startswith(b"FAILED")


# ---- what goes to clients

def test_trailers_and_early_hints(serve, h3):
    def answer(conn, request):
        conn.head(request, [("link", "</a.css>")], "103")
        conn.answer(request, b"body", trailers=[("x-sum", "7"), ("content-length", "1")])

    server = site(serve, h3(answer), "location / { proxy_pass https://u; proxy_pass_trailers on; early_hints 1; } "
                  "location /no { proxy_pass https://u; }")
    response = server.client().request("/", "TE: trailers", "Connection: te")
    assert response.status == 200 and response.body == b"body" and response.trailers == [("x-sum", "7")]
    assert response.interim[0].status == 103 and response.interim[0].header("link") == "</a.css>"
    response = server.client().request("/no", "TE: trailers", "Connection: te")
    assert response.trailers == [] and not response.interim


@pytest.mark.parametrize("status", ["204", "304"])
def test_no_body(serve, h3, status):
    backend = h3(lambda conn, request: conn.answer(request, b"", [("etag", '"a"'), ("x-n", str(conn.number))], status))
    client = site(serve, backend, "location / { proxy_pass https://u; }").client()
    for _ in range(2):
        response = client.request("/", 'If-None-Match: "a"')
        assert (response.status, response.body, response.header("x-n")) == (int(status), b"", "1")


def test_body_of_a_head_request(serve, h3):
    """DATA though the request was HEAD: the client does not see it, and the connection goes on."""
    backend = h3(lambda conn, request: conn.answer(request, b"abc", [("x-n", str(conn.number))]))
    client = site(serve, backend, "location / { proxy_pass https://u; }").client()
    for method in ("HEAD", "GET", "HEAD", "GET"):
        response = client.request("/", method=method)
        assert (response.body, response.header("x-n")) == (b"" if method == "HEAD" else b"abc", "1")


def test_subrequests(serve, h3):
    def answer(conn, request):
        body = {"/page": b'<!--#include virtual="/p/one" --> <!--#include virtual="/p/two" -->', "/auth": b""}
        status = "403" if request[":path"] == "/auth" and request["x-bad"] else "200"
        conn.answer(request, body.get(request[":path"], request[":path"].encode()), [("content-type", "text/html")], status)

    backend = h3(answer)
    server = site(serve, backend, "location /p/ { ssi on; proxy_pass https://u/; } location = /check { internal; proxy_method GET; "
                  "proxy_pass_request_body off; proxy_set_header Content-Length ''; proxy_pass https://u/auth; } "
                  "location = /copy { internal; proxy_pass https://u/copied; } "
                  "location /g/ { auth_request /check; mirror /copy; proxy_pass https://u/; }")
    client = server.client()
    assert client.request("/p/page").body == b"/one /two"
    assert client.request("/g/x", method="POST", body=b"abc").body == b"/x"
    backend.wait(lambda: [one.body for one in backend.seen if one[":path"] == "/copied"] == [b"abc"])
    assert client.request("/g/x", "X-Bad: 1").status == 403


def test_cache(serve, h3):
    """Miss, hit, stale while the backend fails, one request for many clients."""
    waiting = []

    def answer(conn, request):
        if request[":path"] == "/many":
            waiting.append(request)
        elif backend.fails:
            conn.quic.reset_stream(request.stream, 0x102)
        else:
            conn.answer(request, b"n%d" % len(backend.seen), [("cache-control", "max-age=1000" if request[":path"] == "/a" else
                                                                "max-age=0")])

    backend = h3(answer)
    backend.fails = False
    server = site(serve, backend, "location / { proxy_pass https://u; proxy_cache c; proxy_cache_lock on; "
                  "proxy_cache_lock_timeout 30s; proxy_cache_valid 1h; proxy_cache_use_stale error invalid_header; add_header X-C "
                  "$upstream_cache_status; } location /s { proxy_pass https://u; proxy_cache c; proxy_cache_valid 1s; "
                  "proxy_ignore_headers Cache-Control; proxy_cache_use_stale error invalid_header; add_header X-C $upstream_cache_status; }",
                  http="proxy_cache_path @DIR@/cache keys_zone=c:1m;")
    client = server.client()
    assert [(one.body, one.header("x-c")) for one in (client.request("/a"), client.request("/a"))] == \
        [(b"n1", "MISS"), (b"n1", "HIT")]
    assert client.request("/s").body == b"n2"
    backend.fails = True
    until(lambda: client.request("/s").header("x-c") == "STALE", "a stale response")
    got = []
    threads = [threading.Thread(target=lambda: got.append(server.client().request("/many"))) for _ in range(5)]
    for thread in threads:
        thread.start()
    backend.wait(lambda: waiting)
    backend.do(lambda: waiting[0].conn.answer(waiting[0], b"once"))
    for thread in threads:
        thread.join(30)
    assert [one.body for one in got] == [b"once"] * 5 and len(waiting) == 1


def test_clients_of_http3(serve, h3):
    """HTTP/3 on both sides: bodies each way, trailers, a client that leaves."""
    held = []

    def answer(conn, request):
        if request[":path"] == "/held":
            held.append(request)
        else:
            conn.answer(request, request.body[::-1] + b"x" * 300000, trailers=[("x-sum", "7")])

    backend = h3(answer)
    pair = certificates.own("localhost")
    server = serve("ssl_certificate %s; ssl_certificate_key %s; upstream u { server 127.0.0.1:%d; } server { listen "
                   "127.0.0.1:@PORT@ quic; listen 127.0.0.1:@PORT@ ssl; client_max_body_size 0; location / { proxy_pass https://u; proxy_http_version 3; "
                   "proxy_request_buffering off; proxy_pass_trailers on; } }" % (pair.crt, pair.key, backend.port))
    body = bytes(i % 251 for i in range(300000))
    with H3(server.port) as client:
        answer = client.get("/")
        assert answer.body == b"x" * 300000
        stream = client.send_head([(b":method", b"POST"), (b":scheme", b"https"), (b":path", b"/"), (b":authority", b"localhost"),
                                   (b"te", b"trailers")], end=False)
        client.send_body(stream, body, end=True)
        answer = client.wait(stream)
        assert answer.body == body[::-1] + b"x" * 300000 and answer.trailers == {b"x-sum": b"7"}
        stream = client.send_head([(b":method", b"POST"), (b":scheme", b"https"), (b":path", b"/held"),
                                   (b":authority", b"localhost")], end=False)
        client.send_body(stream, b"abc", end=False)
        client.turn_until(lambda: backend.seen[-1].body == b"abc")
        client.quic.reset_stream(stream, REQUEST_CANCELLED)
        client.flush()
        client.turn_until(lambda: backend.seen[-1].reset is not None)
        assert client.get("/").body == b"x" * 300000
    assert len(backend.connections) == 1


def test_reload_with_requests_under_way(serve, h3):
    held = []

    def answer(conn, request):
        if request[":path"] == "/held":
            conn.head(request)
            conn.data(request, b"first ")
            held.append(request)
        else:
            hello(conn, request)

    backend = h3(answer)
    server = site(serve, backend, "location / { proxy_pass https://u; }")
    assert server.client().request("/").body == b"hello 1"
    slow = server.client()
    slow.send("GET /held HTTP/1.1\r\nHost: a\r\n\r\n")
    backend.wait(lambda: held)
    server.reload()
    server.wait_log("gracefully shutting down")
    assert server.client().request("/").body == b"hello 2"
    backend.do(lambda: held[0].conn.data(held[0], b"last", end=True))
    assert slow.response().body == b"first last"
    backend.wait(lambda: backend.connections[0].closed is not None)
    assert server.client().request("/").body == b"hello 2"


# ---- limits of the transport

@pytest.mark.parametrize("kind, allowed, line", [
    ("uni", 1, "upstream allows fewer than two streams of one direction"),
    ("bidi", 0, "upstream allows no request"),
])
def test_too_few_streams(serve, h3, monkeypatch, kind, allowed, line):
    """HTTP/3 needs a control stream (RFC 9114, 6.2), and one for the request: the client gets an answer, the log says why."""
    class Few(h3_backend.QuicConnection):
        def __init__(self, *args, **how):
            super().__init__(*args, **how)
            getattr(self, "_local_max_streams_" + kind).value = allowed

    monkeypatch.setattr(h3_backend, "QuicConnection", Few)
    backend = h3(hello)
    server = site(serve, backend, "location / { proxy_pass https://u; }")
    assert server.client().request("/").status == 502
    server.wait_log(line)
    backend.wait(lambda: backend.connections[0].closed)
    assert backend.connections[0].closed[0] == (STREAM_CREATION_ERROR if kind == "uni" else NO_ERROR)
    assert len(backend.connections) == 1
