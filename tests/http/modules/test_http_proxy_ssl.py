"""proxy_pass https://: handshakes, names, certificates of both sides, sessions, and peers that misbehave."""

import hashlib
import os
import shutil
import socket
import ssl
import struct
import tempfile

import pytest

import cgi_backends
from harness import Closed, run_binary
from harness.certificates import Authority, SecureBackend
from harness.wait import until

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
LAST = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok"
PLACE = "server { listen 127.0.0.1:@PORT@; location / { proxy_pass https://127.0.0.1:%d; %s } }"
TLS_1_2 = {"maximum_version": ssl.TLSVersion.TLSv1_2}
HANDSHAKING = " while SSL handshaking to upstream, client: 127.0.0.1"


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """An authority, a server a.example of it, and the certificates of clients."""
    authority = Authority(tmp_path_factory.mktemp("certificates"))
    authority.issue("server", "DNS:a.example", "DNS:*.b.example", "IP:127.0.0.1", subject="other")
    authority.issue("one")
    authority.issue("two")
    authority.issue("locked", password="open it")
    return authority


@pytest.fixture
def secure():
    made = []

    def make(context, *connections, **how):
        made.append(SecureBackend(context, *connections, **how))
        return made[-1]

    yield make
    for back in made:
        back.close()


def files_of(root, *names):
    """Copies of the authority's files, for a server whose workers are another user."""
    return {name: root.read(name) for name in names}


def asking(root, **members):
    """A server that wants to see the client's certificate."""
    context = root.server_context("server", **members)
    context.load_verify_locations(root.path("root.crt"))
    context.verify_mode = ssl.CERT_OPTIONAL
    return context


# ---- what is spoken

def test_requests_go_over_tls(serve, root, secure):
    back = secure(root.server_context("server"), [OK] * 3)
    server = serve(PLACE % (back.port, """
        proxy_set_header X-Host $proxy_host; proxy_set_header X-Port $proxy_port;
        add_header X-Time $upstream_connect_time;"""))
    for _ in range(3):
        response = server.get("/some?x=y")
        assert response.status == 200 and response.text == "ok"
        assert response.header("X-Time") != "-"
    assert back.connections == 1 and len(back.shaken) == 1
    request = back.requests[0]
    address = b"127.0.0.1:%d" % back.port
    assert request.startswith(b"GET /some?x=y HTTP/1.1\r\n")
    assert b"\r\nHost: " + address + b"\r\n" in request
    assert b"\r\nX-Host: " + address + b"\r\n" in request
    assert b"\r\nX-Port: %d\r\n" % back.port in request


def test_the_usual_port_is_443(serve):
    server = serve("""
        log_format ports '$proxy_host $proxy_port $upstream_addr';
        access_log ports.log ports;
        server { listen 127.0.0.1:@PORT@;
            location / { proxy_pass https://127.0.0.99; proxy_connect_timeout 5s; }
            location /var { proxy_pass https://$arg_to; } }""")
    assert server.get("/").status == 502
    assert server.get("/var?to=127.0.0.99").status == 502
    assert server.get("/var?to=127.0.0.99:443").status == 502
    assert server.wait_lines("ports.log", 3) == ["127.0.0.99 443 127.0.0.99:443"] * 3


def test_inner_blocks(serve, root, secure):
    back = secure(root.server_context("server"), [LAST])
    to = "proxy_pass https://127.0.0.1:%d;" % back.port
    server = serve("""server { listen 127.0.0.1:@PORT@;
        location /if { if ($arg_a) { %s } }
        location /limit { limit_except GET { %s } }
        location /both { %s if ($arg_a) { set $a 1; } location /both/inner { } } }"""
                   % (to, to, to), files={"html/both/inner/a": "file", "html/limit": "file"})
    assert server.get("/if?a=1").text == "ok"
    assert server.get("/limit").text == "file"
    with server.client() as client:
        assert client.request("/limit", method="POST", body=b"x").text == "ok"
    assert server.get("/both?a=1").text == "ok"
    assert server.get("/both/inner/a").text == "file"
    assert len(back.shaken) == 3


def test_redirects_lead_back(serve, root, secure):
    back = secure(root.server_context("server"), [])
    answer = (b"HTTP/1.1 302 Found\r\nContent-Length: 0\r\nConnection: close\r\n"
              b"Location: https://127.0.0.1:%d/x/to\r\n\r\n" % back.port)
    back.scripts[0].append(answer)
    server = serve("server { listen 127.0.0.1:@PORT@; location /a/ "
                   "{ proxy_pass https://127.0.0.1:%d/x/; } }" % back.port)
    assert server.get("/a/").header("Location").endswith("/a/to")


@pytest.mark.parametrize("version", [{}, TLS_1_2])
@pytest.mark.parametrize("options", [
    "", "proxy_buffering off; proxy_request_buffering off;",
    "client_body_buffer_size 8k; proxy_buffers 4 4k; proxy_max_temp_file_size 64k;",
    "proxy_socket_sndbuf 4k; proxy_socket_rcvbuf 4k; client_body_buffer_size 4m;"])
def test_large_bodies(serve, root, secure, options, version):
    sent = os.urandom(3000000)
    given = os.urandom(3000000)
    head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(given)
    back = secure(root.server_context("server", **version), [head + given] * 2)
    server = serve(PLACE % (back.port, "client_max_body_size 4m; " + options))
    with server.client() as client:
        for _ in range(2):
            response = client.request("/", method="PUT", body=sent)
            assert hashlib.sha256(response.body).digest() == hashlib.sha256(given).digest()
    assert all(request.endswith(sent) for request in back.requests)
    assert back.connections == 1


def test_slices_and_the_cache(serve, root, secure):
    body = bytes(range(65, 90))

    def part(conn, request):
        first, last = request.split(b"bytes=")[1].split(b"\r\n")[0].split(b"-")
        piece = body[int(first):int(last) + 1]
        conn.sendall(b"HTTP/1.1 206 Partial Content\r\nContent-Length: %d\r\nETag: \"e\"\r\n"
                     b"Cache-Control: max-age=1000\r\nContent-Range: bytes %d-%d/%d\r\n\r\n%s"
                     % (len(piece), int(first), int(first) + len(piece) - 1, len(body), piece))

    back = secure(root.server_context("server"), [part] * 3)
    server = serve("""proxy_cache_path @DIR@/cache keys_zone=z:1m;
        server { listen 127.0.0.1:@PORT@; location / { proxy_pass https://127.0.0.1:%d;
            slice 10; proxy_cache z; proxy_cache_key $uri$slice_range;
            proxy_set_header Range $slice_range; } }""" % back.port)
    for _ in range(2):
        assert server.get("/a").body == body
    assert len(back.requests) == 3 and back.connections == 1


def test_a_tunnel(serve, root, secure):
    def echo(conn, _request):
        conn.sendall(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: echo\r\nConnection: Upgrade\r\n\r\n")
        while data := conn.recv(65536):
            conn.sendall(data)

    back = secure(root.server_context("server"), [echo])
    server = serve(PLACE % (back.port, """
        proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection upgrade;"""))
    with server.client() as client:
        client.send(b"GET / HTTP/1.1\r\nHost: a\r\nUpgrade: echo\r\nConnection: upgrade\r\n\r\n")
        assert client.head().status == 101
        for size in (1, 1000, 200000):
            data = os.urandom(size)
            client.send(data)
            got = b""
            while len(got) < size:
                got += client.recv()
            assert got == data


def test_scheme_by_variable(serve, root, secure, backend):
    back = secure(root.server_context("server"), [LAST])
    plain = backend([LAST])
    server = serve("""server { listen 127.0.0.1:@PORT@;
        location / { proxy_pass $arg_scheme://127.0.0.1:$arg_port/x; } }""")
    assert server.get("/?scheme=https&port=%d" % back.port).status == 200
    assert server.get("/?scheme=http&port=%d" % plain.port).status == 200
    assert server.get("/?scheme=httpss&port=1").status == 500
    assert len(back.shaken) == 1 and plain.requests[0].startswith(b"GET /x HTTP/1.1")


def test_the_proxy_header_goes_before_the_handshake(serve, root, secure):
    class Announced(SecureBackend):
        def _talk(self, conn, script):
            line = b""
            while not line.endswith(b"\r\n"):
                line += conn.recv(1)
            self.lines = getattr(self, "lines", []) + [line]
            super()._talk(conn, script)

    back = Announced(root.server_context("server"), [OK] * 2)
    server = serve(PLACE % (back.port, "proxy_protocol on;"))
    with server.client() as client:
        for _ in range(2):
            assert client.request("/").status == 200
        port = client.socket.getsockname()[1]
    back.close()
    assert back.lines == [b"PROXY TCP4 127.0.0.1 127.0.0.1 %d %d\r\n" % (port, server.port)] * 2


# ---- sessions and connections

@pytest.mark.parametrize("version", [{}, TLS_1_2])
def test_sessions_are_resumed(serve, root, secure, version):
    back = secure(root.server_context("server", **version), [LAST])
    fresh = secure(root.server_context("server", **version), [LAST])
    server = serve("""server { listen 127.0.0.1:@PORT@;
        location / { proxy_pass https://127.0.0.1:%d; }
        location /named { proxy_pass https://127.0.0.1:%d; proxy_ssl_server_name on;
                          proxy_ssl_name $arg_name; }
        location /fresh { proxy_pass https://127.0.0.1:%d; proxy_ssl_session_reuse off; }
        location /group { proxy_pass https://group; proxy_ssl_name a.example; }
        location /other { proxy_pass https://other; proxy_ssl_name a.example; } }
        upstream group { server 127.0.0.1:%d; } upstream other { server 127.0.0.1:%d; }
        """ % (back.port, back.port, fresh.port, back.port, back.port))
    for _ in range(3):
        assert server.get("/").status == 200
        assert server.get("/fresh").status == 200
    assert [one["is_resumed"] for one in back.shaken] == [False, True, True]
    assert [one["is_resumed"] for one in fresh.shaken] == [False] * 3
    # A session holds for the name that it was made with.
    for name in ("a.example", "c.example", "a.example", "c.example"):
        assert server.get("/named?name=" + name).status == 200
    assert [one["is_resumed"] for one in back.shaken[3:]] == [False, False, True, True]
    # It holds for the group that it was made for.
    for place in ("/group", "/other", "/group", "/other"):
        assert server.get(place).status == 200
    assert [one["is_resumed"] for one in back.shaken[7:]] == [False, False, True, True]


@pytest.mark.parametrize("version", [{}, TLS_1_2])
@pytest.mark.parametrize("where", ["u", "$group", "127.0.0.1:@BACK@"])
@pytest.mark.parametrize("late", [True, False])
def test_sessions_of_clients_with_certificates_are_resumed(serve, root, secure, late, where, version):
    """... whose names variables make, too."""
    back = secure(asking(root, **version), [LAST])
    names = "$pair.crt; proxy_ssl_certificate_key $pair.key" if late else "one.crt; proxy_ssl_certificate_key one.key"
    server = serve("""upstream u { zone z 64k; server 127.0.0.1:%d; }
        server { listen 127.0.0.1:@PORT@; set $group u; set $pair $arg_pair;
            location / { proxy_pass https://%s; proxy_ssl_certificate %s; } }
        """ % (back.port, where.replace("@BACK@", str(back.port)), names),
        files=files_of(root, "one.crt", "one.key", "two.crt", "two.key"))
    for pair in ("one", "one", "two", "one", "two"):
        assert server.get("/?pair=" + pair).status == 200
    assert [one["is_resumed"] for one in back.shaken] == [False, True, not late, True, True]
    if late:
        assert [one["client"] for one in back.shaken] == ["one", "one", "two", "one", "two"]


@pytest.mark.parametrize("version", [{}, TLS_1_2])
def test_sessions_outlive_a_change_of_the_group(serve, root, secure, version):
    back = secure(root.server_context("server", **version), [LAST])
    server = serve("""upstream u { server 127.0.0.1:%d; }
        server { listen 127.0.0.1:@PORT@; location / { dyups_interface; }
            location /to { set $group u; proxy_pass https://$group/; } }""" % back.port)
    for weight in range(1, 4):
        assert server.get("/to").status == 200
        assert server.get("/upstream/u", method="POST", body="server 127.0.0.1:%d weight=%d;" % (back.port, weight)).status == 200
    assert server.get("/to").status == 200
    assert [one["is_resumed"] for one in back.shaken] == [False, True, True, True]


def test_a_session_that_the_peer_forgot(serve, root, secure):
    """Keys of tickets are those of a context."""
    back = secure(root.server_context("server"), [LAST])
    server = serve(PLACE % (back.port, ""))
    for _ in range(2):
        assert server.get("/").status == 200
    back.context = root.server_context("server")
    assert server.get("/").status == 200
    assert server.get("/").status == 200
    assert [one["is_resumed"] for one in back.shaken] == [False, True, False, True]


def test_kept_connections_are_for_one_name(serve, root, secure):
    back = secure(root.server_context("server"), [OK] * 9)
    server = serve("""
        upstream u { server 127.0.0.1:%d; keepalive 8; }
        server { listen 127.0.0.1:@PORT@;
            proxy_ssl_server_name on;
            location / { proxy_pass https://u; proxy_ssl_name $arg_name; }
            location /other { proxy_pass https://u; proxy_ssl_name $arg_name; } }""" % back.port)
    for name in ("a", "b", "a", "b"):
        assert server.get("/?name=" + name).status == 200
        assert server.get("/other?name=" + name).status == 200
    assert [one["name"] for one in back.shaken] == ["a", "b"]


def test_kept_connections_are_not_for_plain_requests(serve, root, secure):
    """Of one address, spoken to in both ways."""
    back = secure(root.server_context("server"), [OK] * 3)
    server = serve("""
        upstream u { server 127.0.0.1:%d; keepalive 8; }
        server { listen 127.0.0.1:@PORT@;
            location / { proxy_pass https://u; }
            location /plain { proxy_pass http://u; } }""" % back.port)
    assert server.get("/").status == 200
    assert server.get("/plain").status == 502
    assert server.get("/").status == 200
    assert len(back.shaken) == 1
    until(lambda: len(back.problems) == 1, "the backend is shown no TLS once")


def test_a_kept_connection_that_ended(serve, root, secure):
    back = secure(root.server_context("server"), [OK], [OK])
    server = serve(PLACE % (back.port, ""))
    assert server.get("/").status == 200
    assert server.get("/").status == 200
    assert back.connections == 2 and "[error]" not in server.error_log


# ---- the name that is sent

@pytest.mark.parametrize("to, options, sent", [
    ("localhost", "", None),
    ("localhost", "proxy_ssl_server_name on;", "localhost"),
    ("127.0.0.1", "proxy_ssl_server_name on;", None),
    ("127.0.0.1", "proxy_ssl_server_name on; proxy_ssl_name a.example;", "a.example"),
    ("127.0.0.1", "proxy_ssl_server_name on; proxy_ssl_name a.example:99;", "a.example"),
    ("127.0.0.1", "proxy_ssl_server_name on; proxy_ssl_name $http_host;", "front"),
    ("127.0.0.1", "proxy_ssl_server_name on; proxy_ssl_name [::1]:99;", None),
    ("127.0.0.1", "proxy_ssl_server_name on; proxy_ssl_name $arg_nothing;", None),
])
def test_server_name(serve, root, secure, to, options, sent):
    back = secure(root.server_context("server"), [LAST])
    server = serve("server { listen 127.0.0.1:@PORT@; location / { proxy_pass https://%s:%d; %s } }"
                   % (to, back.port, options))
    with server.client() as client:
        assert client.request("/", host="front:%d" % server.port).status == 200
    assert [one["name"] for one in back.shaken] == [sent]


def test_a_group_gives_its_name(serve, root, secure):
    back = secure(root.server_context("server"), [LAST])
    server = serve("""
        upstream a.example { server 127.0.0.1:%d; }
        server { listen 127.0.0.1:@PORT@;
            proxy_ssl_server_name on; proxy_ssl_verify on; proxy_ssl_trusted_certificate root.crt;
            location / { proxy_pass https://a.example; }
            location /var { proxy_pass https://$arg_to; } }""" % back.port,
                   files=files_of(root, "root.crt"))
    assert server.get("/").status == 200
    assert server.get("/var?to=a.example").status == 200
    assert [one["name"] for one in back.shaken] == ["a.example"] * 2


def test_a_name_too_long(serve, root, secure):
    back = secure(root.server_context("server"), [LAST])
    server = serve(PLACE % (back.port, "proxy_ssl_server_name on; proxy_ssl_name $arg_name;"))
    assert server.get("/?name=" + "a" * 255).status == 200
    assert server.get("/?name=" + "a" * 256).status == 500


# ---- who the backend is

@pytest.mark.parametrize("name, is_right", [
    ("a.example", True), ("A.Example", True), ("a.example:443", True), ("x.b.example", True),
    ("127.0.0.1", True), ("$proxy_host", True),
    ("b.example", False), ("x.y.b.example", False), ("other", False), ("127.0.0.2", False),
    ("$arg_nothing", False), ("xa.example", False),
])
def test_names_are_verified(serve, root, secure, name, is_right):
    back = secure(root.server_context("server"), [LAST])
    server = serve(PLACE % (back.port, """proxy_ssl_verify on; proxy_ssl_name %s;
        proxy_ssl_trusted_certificate root.crt;""" % name), files=files_of(root, "root.crt"))
    for _ in range(2):  # afresh, and resumed
        assert server.get("/").status == (200 if is_right else 502)
    if not is_right:
        shown = "" if name.startswith("$") else name
        server.wait_log('upstream SSL certificate does not match "%s"%s' % (shown, HANDSHAKING))
        assert not back.requests


def test_a_common_name_is_verified(serve, root, secure):
    authority = Authority(root.directory, "plainly")
    back = secure(authority.server_context("plainly"), [LAST])
    place = """server { listen 127.0.0.1:@PORT@;
        proxy_ssl_verify on; proxy_ssl_trusted_certificate plainly.crt;
        location / { proxy_pass https://127.0.0.1:%d; proxy_ssl_name plainly; }
        location /bad { proxy_pass https://127.0.0.1:%d; proxy_ssl_name plain; } }"""
    server = serve(place % (back.port, back.port), files=files_of(root, "plainly.crt"))
    assert server.get("/").status == 200
    assert server.get("/bad").status == 502


def test_strangers(serve, root, secure):
    other = Authority(root.directory, "stranger")
    back = secure(root.server_context("server"), [LAST])
    alone = secure(other.server_context("stranger"), [LAST])
    server = serve("""server { listen 127.0.0.1:@PORT@;
        proxy_ssl_verify on; proxy_ssl_trusted_certificate stranger.crt; proxy_ssl_name a.example;
        location / { proxy_pass https://127.0.0.1:%d; }
        location /self { proxy_ssl_trusted_certificate root.crt;
                         proxy_pass https://127.0.0.1:%d; } }""" % (back.port, alone.port),
                   files=files_of(root, "stranger.crt", "root.crt"))
    for _ in range(2):
        assert server.get("/").status == 502
        assert server.get("/self").status == 502
    server.wait_log(r"upstream SSL certificate verify error: "
                    r"\(21:unable to verify the first certificate\)" + HANDSHAKING)
    server.wait_log(r"upstream SSL certificate verify error: \(18:self-signed certificate\)"
                    + HANDSHAKING)
    assert not back.requests and not alone.requests


def test_revoked(serve, root, secure):
    root.issue("gone", "DNS:gone.example")
    crl = root.revocation_list("gone")
    good = secure(root.server_context("server"), [LAST])
    gone = secure(root.server_context("gone"), [LAST])
    server = serve("""server { listen 127.0.0.1:@PORT@;
        proxy_ssl_verify on; proxy_ssl_trusted_certificate root.crt; proxy_ssl_crl root.crl;
        location / { proxy_pass https://127.0.0.1:%d; proxy_ssl_name a.example; }
        location /gone { proxy_pass https://127.0.0.1:%d; proxy_ssl_name gone.example; } }"""
                   % (good.port, gone.port), files=files_of(root, "root.crt", crl))
    assert server.get("/").status == 200
    assert server.get("/gone").status == 502
    server.wait_log(r"verify error: \(23:certificate revoked\)" + HANDSHAKING)


@pytest.mark.parametrize("depth, status", [("", 502), ("proxy_ssl_verify_depth 1;", 502),
                                           ("proxy_ssl_verify_depth 2;", 200)])
def test_length_of_chains(serve, tmp_path, secure, depth, status):
    """The depth counts what stands between the backend's certificate and the root. What is further away is not
    looked for."""
    first = Authority(tmp_path, "first")
    second = Authority(tmp_path, "second", first)
    third = Authority(tmp_path, "third", second)
    third.issue("leaf", "DNS:a.example")
    chain = third.chain("leaf", "third", "second")
    back = secure(third.server_context("leaf", chain), [LAST])
    server = serve(PLACE % (back.port, """proxy_ssl_verify on; proxy_ssl_name a.example;
        proxy_ssl_trusted_certificate first.crt;""" + depth), files=files_of(first, "first.crt"))
    assert server.get("/").status == status
    if status == 502:
        server.wait_log(r"verify error: \(2[02]:.*\)" + HANDSHAKING)


# ---- who we are

def test_our_certificate(serve, root, secure):
    back = secure(asking(root), [LAST])
    server = serve("""server { listen 127.0.0.1:@PORT@;
        location / { proxy_pass https://127.0.0.1:%d; }
        location /one { proxy_pass https://127.0.0.1:%d;
                        proxy_ssl_certificate one.crt; proxy_ssl_certificate_key one.key; }
        location /two { proxy_pass https://127.0.0.1:%d;
                        proxy_ssl_certificate two.crt; proxy_ssl_certificate_key two.key; }
        location /locked { proxy_pass https://127.0.0.1:%d; proxy_ssl_password_file words;
            proxy_ssl_certificate locked.crt; proxy_ssl_certificate_key locked.key; } }"""
                   % ((back.port,) * 4),
                   files=dict(files_of(root, "one.crt", "one.key", "two.crt", "two.key",
                                       "locked.crt", "locked.key"), words="shut it\r\nopen it\n"))
    for path in ("/", "/one", "/two", "/locked", "/one", "/"):
        assert server.get(path).status == 200
    assert [one["client"] for one in back.shaken] == [None, "one", "two", "locked", "one", None]
    assert [one["is_resumed"] for one in back.shaken] == [False] * 4 + [True] * 2


def test_certificates_by_variable(serve, root, secure):
    back = secure(asking(root), [OK] * 5)
    server = serve("""upstream kept { server 127.0.0.1:%d; keepalive 5; }
        server { listen 127.0.0.1:@PORT@;
        proxy_ssl_certificate $arg_c.crt; proxy_ssl_certificate_key $arg_c.key;
        location / { proxy_pass https://127.0.0.1:%d; }
        location /kept { proxy_pass https://kept; }
        location /words { proxy_pass https://127.0.0.1:%d; proxy_ssl_password_file words; }
        location /data { proxy_pass https://127.0.0.1:%d;
            proxy_ssl_certificate $arg_c; proxy_ssl_certificate_key $arg_k; } }"""
                   % ((back.port,) * 4),
                   files=dict(files_of(root, "one.crt", "one.key", "two.crt", "two.key",
                                       "locked.crt", "locked.key"), words="open it"))
    # A connection, or a session, of the one is not for the other.
    for path in ("/", "/kept"):
        for c in ("one", "two", "one", "two"):
            assert server.get("%s?c=%s" % (path, c)).status == 200
    assert server.get("/words?c=locked").status == 200
    assert server.get("/data").status == 200
    assert [(one["client"], one["is_resumed"]) for one in back.shaken] == [
        ("one", False), ("two", False), ("one", True), ("two", True),  # a group of one is not kept
        ("one", False), ("two", False), ("locked", False), (None, False)]
    for bad in ("/?c=none", "/?c=locked", "/data?c=one.crt&k=two.key", "/data?c=one.key&k=one.key",
                "/data?c=one.crt"):
        assert server.get(bad).status == 500
    server.wait_log(r'cannot load certificate "@DIR@/none.crt": BIO_new_file\(\) failed'
                    .replace("@DIR@", server.dir))
    server.wait_log(r'cannot load certificate key "@DIR@/locked.key"'.replace("@DIR@", server.dir))
    server.wait_log("key values mismatch")


@pytest.mark.parametrize("cache, after", [("off", "two"), ("max=4 valid=1h", "one")])
def test_cache_of_certificates(serve, root, secure, cache, after):
    back = secure(asking(root), [LAST])
    server = serve(PLACE % (back.port, """proxy_ssl_session_reuse off;
        proxy_ssl_certificate $arg_c.crt; proxy_ssl_certificate_key $arg_c.key;
        proxy_ssl_certificate_cache %s;""" % cache),
                   files={"x.crt": root.read("one.crt"), "x.key": root.read("one.key"),
                          "y.crt": root.read("two.crt"), "y.key": root.read("two.key"),
                          "z.crt": root.read("two.crt"), "z.key": root.read("two.key")})
    assert server.get("/?c=x").status == 200
    server.write("x.crt", root.read("two.crt"))
    server.write("x.key", root.read("two.key"))
    assert server.get("/?c=x").status == 200
    assert [one["client"] for one in back.shaken] == ["one", after]
    if after == "one":  # two files each: y and z push x out
        for c in ("y", "z", "x"):
            assert server.get("/?c=" + c).status == 200
        assert back.shaken[-1]["client"] == "two"


def test_keys_with_passwords_are_not_cached(serve, root, secure):
    """Who does not know the password has no use of the key; and what no longer fits is loaded anew."""
    back = secure(asking(root), [LAST])
    server = serve("""server { listen 127.0.0.1:@PORT@; proxy_ssl_session_reuse off;
        proxy_ssl_certificate x.$arg_c; proxy_ssl_certificate_key x.key$arg_none;
        proxy_ssl_certificate_cache max=9 valid=1h;
        location / { proxy_pass https://127.0.0.1:%d; }
        location /words { proxy_ssl_password_file words; proxy_pass https://127.0.0.1:%d; } }"""
                   % (back.port, back.port),
                   files={"x.crt": root.read("locked.crt"), "x.key": root.read("locked.key"),
                          "words": "open it"})
    assert server.get("/words?c=crt").status == 200
    assert server.get("/?c=crt").status == 500
    server.write("x.crt", root.read("one.crt"))
    server.write("x.key", root.read("one.key"))
    assert server.get("/words?c=crt").status == 200
    assert server.get("/?c=crt").status == 200
    assert [one["client"] for one in back.shaken] == ["locked", "one", "one"]


# ---- protocols and ciphers

@pytest.mark.parametrize("options, version, cipher", [
    ("", "TLSv1.3", None),
    ("proxy_ssl_protocols TLSv1.2;", "TLSv1.2", None),
    ("proxy_ssl_protocols TLSv1.2; proxy_ssl_ciphers ECDHE-ECDSA-AES128-GCM-SHA256;", "TLSv1.2",
     "ECDHE-ECDSA-AES128-GCM-SHA256"),
    ("proxy_ssl_conf_command Ciphersuites TLS_CHACHA20_POLY1305_SHA256;", "TLSv1.3",
     "TLS_CHACHA20_POLY1305_SHA256"),
    ("proxy_ssl_conf_command MaxProtocol TLSv1.2;", "TLSv1.2", None),
])
def test_protocols(serve, root, secure, options, version, cipher):
    back = secure(root.server_context("server"), [LAST])
    server = serve(PLACE % (back.port, options))
    assert server.get("/").status == 200
    assert back.shaken[0]["version"] == version
    assert cipher is None or back.shaken[0]["cipher"] == cipher


# ---- peers that misbehave

def reset(conn, _request=None):
    conn.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    conn.close()


class Rude(SecureBackend):
    """Says something of its own instead of a handshake."""

    def __init__(self, say, **how):
        self.say = say
        super().__init__(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), [], **how)

    def _talk(self, conn, script):
        try:
            conn.recv(65536)
            self.say(conn)
        except OSError as error:
            self.problems.append(error)
        finally:
            conn.close()


@pytest.mark.parametrize("say, log", [
    (lambda conn: conn.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n"),
     r"SSL_do_handshake\(\) failed \(SSL: error:\w+:SSL routines::wrong version number\)"),
    (lambda conn: None, "peer closed connection in SSL handshake"),
    (reset, r"peer closed connection in SSL handshake \(104: Connection reset by peer\)"),
    (lambda conn: conn.sendall(b"\x15\x03\x03\x00\x02\x02\x28"),
     r"SSL_do_handshake\(\) failed \(SSL: error:.*:SSL alert number 40\)"),
    (lambda conn: conn.sendall(b"\x16\x03\x03\xff\xff" + b"\x02" * 70000),
     r"SSL_do_handshake\(\) failed \(SSL: error:.*packet length too long\)"),
    (lambda conn: conn.sendall(b"\x16\x03\x03\x00\x04\x02"), "peer closed connection in SSL handshake"),
])
def test_broken_handshakes(serve, root, secure, say, log):
    """The next peer of the group serves."""
    rude = Rude(say)
    good = secure(root.server_context("server"), [OK] * 4)
    server = serve("""
        log_format tries '$upstream_status $upstream_connect_time';
        access_log tries.log tries;
        upstream u { server 127.0.0.1:%d; server 127.0.0.1:%d backup; }
        server { listen 127.0.0.1:@PORT@;
            location / { proxy_pass https://127.0.0.1:%d; }
            location /u { proxy_pass https://u; } }""" % (rude.port, good.port, rude.port))
    assert server.get("/").status == 502
    assert server.get("/u").status == 200
    server.wait_log("%s%s.*, upstream: \"https://127.0.0.1:%d/" % (log, HANDSHAKING, rude.port))
    first, second = server.wait_lines("tries.log", 2)
    assert first == "502 -" and second.startswith("502, 200 -, ")
    rude.close()


def test_a_handshake_that_hangs(serve):
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        server = serve(PLACE % (deaf.getsockname()[1], "proxy_connect_timeout 300ms;"))
        assert server.get("/").status == 504
    server.wait_log(r"upstream timed out \(110: Connection timed out\)" + HANDSHAKING)


def test_a_client_that_leaves_in_the_handshake(serve):
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        server = serve("log_format status '$status'; access_log status.log status;"
                       + PLACE % (deaf.getsockname()[1], ""))
        with server.client() as client:
            client.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            with deaf.accept()[0] as conn:
                conn.recv(1)
                client.close()
                while conn.recv(65536):
                    pass
        assert server.wait_lines("status.log") == ["499"]


def test_broken_records(serve, root, secure):
    """In the middle of an answer: what came before it is good, the rest is not."""
    def head_and_garbage(conn, _request):
        conn.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\nhalf")
        raw = socket.socket(fileno=conn.detach())
        raw.sendall(b"this is no record of TLS")
        raw.close()

    def garbage(conn, _request):
        raw = socket.socket(fileno=conn.detach())
        raw.sendall(b"this is no record of TLS")
        raw.close()

    def cut(conn, _request):
        conn.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\nhalf")
        socket.socket(fileno=conn.detach()).close()

    back = secure(root.server_context("server"), [head_and_garbage], [garbage], [cut], [OK])
    server = serve(PLACE % (back.port, ""))
    with server.client() as client, pytest.raises(Closed):
        client.request("/")
    assert server.get("/").status == 502
    with server.client() as client, pytest.raises(Closed):
        client.request("/")
    assert server.get("/").status == 200
    server.wait_log("wrong version number.*while reading response header from upstream")
    server.wait_log("upstream prematurely closed connection while reading upstream")


def test_our_certificate_is_refused(serve, root, secure):
    """TLS 1.3 tells it only when the request is on its way, which a reset may overtake."""
    context = root.server_context("server")
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(root.path("root.crt"))
    back = secure(context, [LAST])
    server = serve(PLACE % (back.port, ""))
    assert server.get("/").status == 502
    server.wait_log(r"\[error\].* failed .* while reading response header from upstream")
    assert not back.requests


# ---- health checks

def test_health_checks_speak_tls(serve, root, secure):
    """Of the location's own names and authorities."""
    back = secure(root.server_context("server"), [OK] * 1000)
    server = serve("""
        upstream good { zone good 64k; server 127.0.0.1:%d; }
        upstream bad { zone bad 64k; server 127.0.0.1:%d; }
        server { listen 127.0.0.1:@PORT@;
            proxy_ssl_verify on; proxy_ssl_trusted_certificate root.crt;
            proxy_ssl_server_name on;
            location / { proxy_pass https://good; proxy_ssl_name a.example;
                         health_check mandatory interval=20ms; }
            location /bad { proxy_pass https://bad; health_check interval=20ms; }
            location /unchecked { proxy_pass https://bad; proxy_ssl_name a.example; } }"""
                   % (back.port, back.port), files=files_of(root, "root.crt"))
    until(lambda: server.get("/").status == 200, "the peer to be found healthy")
    assert b"Portunus (health check)" in back.requests[0]
    assert back.shaken[0]["name"] in ("a.example", "bad")
    until(lambda: server.get("/unchecked").status == 502, "the other to be found unhealthy")


# ---- uwsgi

def test_uwsgi_over_tls(serve, root):
    application = """
def application(environ, start_response):
    body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [environ["PATH_INFO"].encode(), b" %d" % len(body)]
"""
    program = cgi_backends.Program(
        "uwsgi", "--plugin", "python3", "--ssl-socket",
        "127.0.0.1:@PORT@,server.crt,server.key", "--wsgi-file", "app.py",
        files=dict(files_of(root, "server.crt", "server.key"), **{"app.py": application}))
    try:
        server = serve("""
            upstream u { server 127.0.0.1:%d; }
            server { listen 127.0.0.1:@PORT@; client_max_body_size 2m;
                uwsgi_param PATH_INFO $document_uri; uwsgi_param REQUEST_METHOD $request_method;
                uwsgi_param CONTENT_LENGTH $content_length;
                uwsgi_param SERVER_NAME $server_name; uwsgi_param SERVER_PORT $server_port;
                uwsgi_param SERVER_PROTOCOL $server_protocol;
                uwsgi_param QUERY_STRING $query_string;
                location / { uwsgi_pass suwsgi://127.0.0.1:%d; }
                location /group { uwsgi_pass suwsgi://$arg_to; }
                location /scheme { uwsgi_pass $arg_to; }
                location /if { if ($arg_to) { uwsgi_pass suwsgi://$arg_to; } }
                location /name { uwsgi_pass suwsgi://u; uwsgi_ssl_verify on;
                    uwsgi_ssl_trusted_certificate root.crt; uwsgi_ssl_name $arg_name; } }"""
                       % (program.port, program.port), files=files_of(root, "root.crt"))
        with server.client() as client:
            assert client.request("/a", method="POST", body=b"x" * 300000).text == "/a 300000"
            assert client.request("/group?to=u").text == "/group 0"
            assert client.request("/scheme?to=suwsgi://u").text == "/scheme 0"
            assert client.request("/if?to=u").text == "/if 0"
            assert client.request("/name?name=a.example").text == "/name 0"
            assert client.request("/name?name=c.example").status == 502
        server.wait_log('upstream: "suwsgi://127.0.0.1:%d"' % program.port)
    finally:
        program.close()


# ---- configurations

@pytest.mark.parametrize("text, error", [
    ("proxy_ssl_verify on;", "no proxy_ssl_trusted_certificate for proxy_ssl_verify"),
    ("proxy_ssl_certificate one.crt;",
     'no "proxy_ssl_certificate_key" is defined for certificate "one.crt"'),
    ("proxy_ssl_certificate $arg_c;",
     'no "proxy_ssl_certificate_key" is defined for certificate "$arg_c"'),
    ("proxy_ssl_certificate none.crt; proxy_ssl_certificate_key one.key;",
     'cannot load certificate "@DIR@/none.crt": BIO_new_file() failed (SSL: '),
    ("proxy_ssl_certificate one.crt; proxy_ssl_certificate_key two.key;",
     'SSL_CTX_use_PrivateKey("@DIR@/two.key") failed (SSL: '),
    ("proxy_ssl_certificate one.crt; proxy_ssl_certificate_key locked.key;"
     "proxy_ssl_password_file empty;", 'cannot load certificate key "@DIR@/locked.key": '),
    ("proxy_ssl_verify on; proxy_ssl_trusted_certificate none.crt;", '"@DIR@/none.crt"'),
    ("proxy_ssl_verify on; proxy_ssl_trusted_certificate root.crt; proxy_ssl_crl none.crl;",
     '"@DIR@/none.crl"'),
    ("proxy_ssl_ciphers NONSENSE;", 'SSL_CTX_set_cipher_list("NONSENSE") failed (SSL: '),
    ("proxy_ssl_conf_command Nonsense yes;", 'SSL_CONF_cmd("Nonsense", "yes") failed (SSL: '),
    ("proxy_ssl_protocols TLSv1.9;", 'invalid value "TLSv1.9" in '),
    ("proxy_ssl_password_file none;", 'open() "@DIR@/none" failed (2: No such file'),
    ("proxy_ssl_certificate_cache max=0;", 'invalid parameter "max=0" in '),
    ("proxy_ssl_certificate_cache valid=1s;",
     '"proxy_ssl_certificate_cache" must have the "max" parameter in '),
    ("proxy_ssl_certificate_cache max=2 off;", 'invalid parameter "off" in '),
    ("proxy_ssl_session_reuse on; proxy_ssl_session_reuse off;", "directive is duplicate in "),
])
def test_refused_configurations(root, text, error):
    directory = tempfile.mkdtemp(prefix="portunus-test-")
    try:
        for name in ("one.crt", "one.key", "two.key", "locked.key", "root.crt"):
            shutil.copy(root.path(name), directory)
        open(os.path.join(directory, "empty"), "w", encoding="ascii").close()
        for target, is_bad in (("https://127.0.0.1:1", True), ("$scheme://127.0.0.1:1", True),
                               ("http://127.0.0.1:1", " in " in error or "open()" in error)):
            with open(os.path.join(directory, "nginx.conf"), "w", encoding="ascii") as conf:
                conf.write("pid nginx.pid; events {} http { access_log off; server { location / { proxy_pass %s; %s } } }"
                           % (target, text))
            done = run_binary("-t", "-p", directory, "-c", "nginx.conf", "-e", "stderr")
            assert (done.returncode != 0) == is_bad, done.stderr
            assert not is_bad or error.replace("@DIR@", directory) in done.stderr, done.stderr
    finally:
        shutil.rmtree(directory)
