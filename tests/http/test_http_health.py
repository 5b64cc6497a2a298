"""Active health checks in both spellings: health_check and match, check and its kin."""

import json
import os
import re
import signal
import socket
import socketserver
import threading
import time

import pytest

from harness.wait import until


class Backend:
    """A server that counts what it is asked, and answers what it is told to.

    answer  bytes of the answer to each request; None: closes without a word
    greets  bytes sent at once after accept
    """

    def __init__(self, answer=b"", greets=b"", keeps=False):
        self.answer = answer
        self.greets = greets
        self.keeps = keeps
        self.requests = []       # heads as received
        self.connections = 0
        self.lock = threading.Lock()
        self.server = None
        self.port = None
        self.up()

    def up(self):
        backend = self

        class Handler(socketserver.BaseRequestHandler):
            def handle(self):
                backend.serve(self.request)

        class Server(socketserver.ThreadingTCPServer):
            allow_reuse_address = True
            daemon_threads = True
            request_queue_size = 64

        self.server = Server(("127.0.0.1", self.port or 0), Handler)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    def down(self):
        self.server.shutdown()
        self.server.server_close()

    def serve(self, connection):
        with self.lock:
            self.connections += 1
        connection.settimeout(20)
        try:
            if self.greets:
                connection.sendall(self.greets)
            while True:
                head = b""
                while not self.is_whole(head):
                    part = connection.recv(65536)
                    if not part:
                        return
                    head += part
                with self.lock:
                    self.requests.append(head)
                if self.answer is None:
                    return
                connection.sendall(self.answer(head) if callable(self.answer) else self.answer)
                if not self.keeps:
                    return
        except OSError:
            pass

    def is_whole(self, head):
        return head.endswith(b"\r\n\r\n")

    def count(self):
        with self.lock:
            return len(self.requests)

    def wait_more(self, more=2):
        """Waits until so many further requests came: what was told to the server is known by then."""
        before = self.count()
        until(lambda: self.count() >= before + more, "%d more probes" % more)


def ok(body=b"ok", status=b"200 OK", headers=b""):
    return (b"HTTP/1.1 " + status + b"\r\n" + headers +
            b"Content-Length: %d\r\n\r\n" % len(body) + body)


@pytest.fixture
def backends():
    made = []

    def make(*args, kind=Backend, **kwargs):
        backend = kind(*args, **kwargs)
        made.append(backend)
        return backend

    yield make
    for backend in made:
        backend.down()


def wait_up(server, backend):
    server.wait_log(r"enable check peer: 127\.0\.0\.1:%d\b" % backend.port)


def wait_down(server, backend):
    server.wait_log(r"disable check peer: 127\.0\.0\.1:%d\b" % backend.port)


PLUS = """
    upstream group { zone group 64k; server 127.0.0.1:%d; }
    %s
    server { listen 127.0.0.1:@PORT@;
             location / { proxy_pass http://group; health_check interval=50ms %s; }
             location /status { check_status json; } }
"""


def plus(serve, backend, parameters="", match="", **kwargs):
    return serve(PLUS % (backend.port, match, parameters), **kwargs)


# ---- health_check


def test_a_bad_status_takes_a_peer_out_and_a_good_one_brings_it_back(serve, backends):
    backend = backends(ok())
    server = plus(serve, backend)
    backend.wait_more()
    assert server.get("/").status == 200
    backend.answer = ok(status=b"500 Oh")
    wait_down(server, backend)
    assert re.search(r'peer is unhealthy while checking status code 500, health check "" of peer '
                     r'127\.0\.0\.1:\d+ in upstream "group"', server.error_log)
    response = server.get("/")
    assert response.status == 502
    assert "no live upstreams" in server.error_log
    backend.answer = ok()
    wait_up(server, backend)
    assert server.get("/").status == 200


def test_what_a_probe_sends(serve, backends):
    backend = backends(ok())
    plus(serve, backend, "uri=/health?full=1")
    backend.wait_more(1)
    lines = backend.requests[0].decode().split("\r\n")
    assert lines[0] == "GET /health?full=1 HTTP/1.1"
    assert "Host: group" in lines and "Connection: close" in lines


def test_a_peer_that_is_gone_and_comes_back(serve, backends):
    backend = backends(ok())
    server = plus(serve, backend)
    backend.wait_more()
    backend.down()
    wait_down(server, backend)
    # The last probe may have been on its way into the listening socket when that was closed.
    assert re.search(r"peer is unhealthy while checking (connection|answer)[^\n]* "
                     r"\((111: Connection refused|104: Connection reset by peer)\)", server.error_log)
    backend.up()
    wait_up(server, backend)


def test_one_worker_makes_each_probe(serve, backends):
    backend = backends(ok())
    server = serve(PLUS % (backend.port, "", "interval=200ms"), main="worker_processes 4;")
    until(lambda: len(server.children()) >= 4, "four workers")
    start = time.monotonic()
    backend.wait_more(10)
    assert time.monotonic() - start > 1.5, "more than one worker makes the probes"


def test_a_worker_that_dies_in_a_probe(serve, backends):
    """Its claim on the peer expires, and another one goes on."""
    class Silent(Backend):
        held = threading.Event()

        def serve(self, connection):
            if not self.held.is_set():
                self.held.set()
                connection.recv(1, socket.MSG_WAITALL | socket.MSG_PEEK)
                connection.recv(65536)
                connection.settimeout(20)
                connection.recv(1)  # until the worker is gone
                return
            super().serve(connection)

    backend = backends(ok(), kind=Silent)
    server = serve("""
        upstream group { server 127.0.0.1:%d;
                         check interval=50 timeout=1000 rise=1 type=http; }
    """ % backend.port, main="worker_processes 2;", allow=["exited on signal 9"])
    until(Silent.held.is_set, "the first probe")
    prober = next(pid for pid in server.children() if has_socket_to(pid, backend.port))
    os.kill(prober, signal.SIGKILL)
    wait_up(server, backend)


def has_socket_to(pid, port):
    """Has the process a connection to that port of 127.0.0.1?"""
    inodes = set()
    with open("/proc/net/tcp", encoding="ascii") as table:
        for line in table.readlines()[1:]:
            words = line.split()
            if words[2] == "0100007F:%04X" % port:
                inodes.add("socket:[%s]" % words[9])
    for name in os.listdir("/proc/%d/fd" % pid):
        try:
            if os.readlink("/proc/%d/fd/%s" % (pid, name)) in inodes:
                return True
        except OSError:
            pass
    return False


def test_fails_and_passes(serve, backends):
    backend = backends(ok(status=b"500 Oh"))
    server = plus(serve, backend, "fails=3 passes=2")
    wait_down(server, backend)
    assert backend.count() >= 3
    failed = server.error_log.count("failed while checking status code 500")
    assert failed == 2, "two failures before the third one counts"
    before = backend.count()
    backend.answer = ok()
    wait_up(server, backend)
    assert backend.count() >= before + 2


def test_mandatory(serve, backends):
    class Slow(Backend):
        hold = threading.Event()

        def serve(self, connection):
            self.hold.wait(20)
            super().serve(connection)

    backend = backends(ok(), kind=Slow)
    server = plus(serve, backend, "mandatory")
    assert server.get("/").status == 502
    Slow.hold.set()
    wait_up(server, backend)
    assert server.get("/").status == 200


@pytest.mark.parametrize("persistent, seen", [("persistent", 200), ("", 502)])
def test_mandatory_after_a_reload(serve, backends, persistent, seen):
    class Gate(Backend):
        def __init__(self, *args):
            self.open = threading.Event()
            self.open.set()
            super().__init__(*args)

        def serve(self, connection):
            first = connection.recv(1, socket.MSG_PEEK)
            if first == b"G" and b"health" in connection.recv(200, socket.MSG_PEEK):
                self.open.wait(20)
            super().serve(connection)

    backend = backends(ok(), kind=Gate)
    server = plus(serve, backend, "uri=/health mandatory " + persistent)
    wait_up(server, backend)
    backend.open.clear()
    old = set(server.children())
    server.reload()
    until(lambda: not old & set(server.children()), "the old workers to end")
    assert server.get("/").status == seen
    backend.open.set()


def test_a_state_survives_a_reload(serve, backends):
    backend = backends(ok(status=b"503 Busy"))
    server = plus(serve, backend)
    wait_down(server, backend)
    server.reload()
    server.wait_log(r"gracefully shutting down")
    assert server.get("/").status == 502
    assert server.error_log.count("disable check peer") == 1


def test_another_port_is_probed(serve, backends):
    backend = backends(ok())
    probed = backends(ok(status=b"500 Oh"))
    server = plus(serve, backend, "port=%d" % probed.port)
    wait_down(server, backend)
    assert backend.count() == 0 and probed.count() >= 1


def test_a_connection_is_kept(serve, backends):
    backend = backends(ok(), keeps=True)
    server = plus(serve, backend, "keepalive_time=1h")
    backend.wait_more(6)
    assert b"Connection" not in backend.requests[0]
    assert backend.connections == 1
    backend.keeps = False
    backend.wait_more(3)  # each closes now: a fresh one each time, and nobody is unhealthy
    assert backend.connections > 1
    assert "unhealthy" not in server.error_log


def test_a_peer_that_says_nothing_is_unhealthy(serve, backends):
    backend = backends(None)
    server = plus(serve, backend)
    wait_down(server, backend)
    assert "while checking answer, which was cut short" in server.error_log


def test_several_checks_of_one_group(serve, backends):
    backend = backends(lambda head: ok() if b"/good" in head else ok(status=b"500 Oh"))
    server = serve("""
        upstream group { server 127.0.0.1:%d; }
        match any { status 200 500; }
        server { listen 127.0.0.1:@PORT@;
            location /a { proxy_pass http://group; health_check interval=50ms uri=/good; }
            location /b { proxy_pass http://group; health_check interval=50ms uri=/bad; } }
    """ % backend.port)
    wait_down(server, backend)
    assert server.get("/a").status == 502
    backend.answer = ok()
    wait_up(server, backend)
    assert server.get("/a").status == 200


def test_an_implicit_group(serve, backends):
    backend = backends(ok(status=b"404 No"))
    server = serve("""
        server { listen 127.0.0.1:@PORT@;
            location / { proxy_pass http://127.0.0.1:%d; health_check interval=50ms; } }
    """ % backend.port)
    wait_down(server, backend)
    assert server.get("/").status == 502


def test_other_peers_serve(serve, backends):
    bad, good = backends(ok(b"bad", b"500 Oh")), backends(ok(b"good"))
    server = serve("""
        upstream group { server 127.0.0.1:%d; server 127.0.0.1:%d; }
        server { listen 127.0.0.1:@PORT@;
            location / { proxy_pass http://group; health_check interval=50ms; } }
    """ % (bad.port, good.port))
    wait_down(server, bad)
    assert [server.get("/").text for _ in range(6)] == ["good"] * 6


# ---- match


MATCHES = [
    ("status 200;", ok(), True),
    ("status 201 204-299;", ok(), False),
    ("status 201 199-204;", ok(), True),
    ("status ! 500-599;", ok(status=b"404 No"), True),
    ("status ! 404 500-599;", ok(status=b"404 No"), False),
    ("header X-State = fine;", ok(headers=b"x-state: fine\r\n"), True),
    ("header X-State = fine;", ok(headers=b"X-State: finest\r\n"), False),
    ("header X-State = fine;", ok(), False),
    ("header X-State != bad;", ok(), True),
    ("header X-State != bad;", ok(headers=b"X-State: bad\r\n"), False),
    ("header X-State ~ ^f;", ok(headers=b"X-State: fine\r\n"), True),
    ("header X-State ~ ^F;", ok(headers=b"X-State: fine\r\n"), False),
    ("header X-State !~ ^b;", ok(headers=b"X-State: bad\r\n"), False),
    ("header X-State;", ok(headers=b"X-State: \r\n"), True),
    ("header ! X-State;", ok(headers=b"X-State: \r\n"), False),
    ("header ! X-State;", ok(), True),
    ("body ~ \"all (is|was) well\";", ok(b"all was well"), True),
    ("body ~ \"all is well\";", ok(b"all was well"), False),
    ("body !~ maintenance;", ok(b"in maintenance"), False),
    ("body ~ end$;", ok(b"x" * 250000 + b"end"), True),
    ("status 200; header A; body ~ b;", ok(b"b", headers=b"A: a\r\n"), True),
    ("status 200; header A; body ~ b;", ok(b"c", headers=b"A: a\r\n"), False),
    ("require $upstream_http_x_state;", ok(headers=b"X-State: 1\r\n"), True),
    ("require $upstream_http_x_state;", ok(headers=b"X-State: 0\r\n"), False),
    ("require $upstream_http_x_state;", ok(), False),
    ("require $fine $upstream_status;", ok(headers=b"X-State: yes\r\n"), True),
    ("require $fine $upstream_status;", ok(headers=b"X-State: no\r\n"), False),
]


@pytest.mark.parametrize("lines, answer, good", MATCHES,
                         ids=["%s-%d" % (row[0], n) for n, row in enumerate(MATCHES)])
def test_match(serve, backends, lines, answer, good):
    backend = backends(answer)
    server = plus(serve, backend, "mandatory match=wanted",
                  "map $upstream_http_x_state $fine { yes 1; } match wanted { %s }" % lines)
    if good:
        wait_up(server, backend)
    else:
        backend.wait_more()
        assert "enable check peer" not in server.error_log
        assert 'failed while checking' in server.error_log


def test_every_variable_may_be_required(serve, backends):
    """A probe is no request of a client: no variable may stumble over that."""
    names = ("remote_addr remote_port binary_remote_addr server_addr server_port server_name host "
             "hostname request request_uri uri args query_string scheme https request_method status "
             "body_bytes_sent bytes_sent request_length request_time request_id request_body "
             "request_body_file request_completion document_root realpath_root request_filename "
             "connection connection_requests connection_time msec time_iso8601 time_local "
             "nginx_version pid pipe limit_rate is_args http_host http_cookie cookie_a arg_a "
             "sent_http_content_type sent_trailer_a proxy_protocol_addr proxy_protocol_port "
             "tcpinfo_rtt content_length content_type upstream_addr upstream_status "
             "upstream_response_time upstream_connect_time upstream_header_time "
             "upstream_response_length upstream_bytes_sent upstream_bytes_received "
             "upstream_cache_status upstream_http_a upstream_trailer_a upstream_cookie_a "
             "proxy_host proxy_port proxy_add_x_forwarded_for").split()
    backend = backends(ok())
    server = plus(serve, backend, "mandatory match=wanted",
                  "match wanted { require %s; }" % " ".join("$" + name for name in names))
    backend.wait_more(2)
    assert "failed while checking required variables" in server.error_log


# ---- fastcgi


class FastcgiBackend(Backend):
    def is_whole(self, head):
        return head.endswith(b"\x01\x05\x00\x01\x00\x00\x00\x00")


def fastcgi_answer(output, status=0):
    def record(kind, content):
        return bytes([1, kind, 0, 1, len(content) >> 8, len(content) & 255, 0, 0]) + content
    return record(6, output) + record(6, b"") + record(3, bytes([0, 0, 0, 0, status, 0, 0, 0]))


def test_check_of_a_fastcgi_group(serve, backends):
    backend = backends(fastcgi_answer(b"Status: 500 Oh\r\n\r\n"), kind=FastcgiBackend)
    server = serve("""
        upstream group { server 127.0.0.1:%d;
            check interval=50 rise=1 fall=1 timeout=5000 type=fastcgi;
            check_fastcgi_param REQUEST_METHOD HEAD;
            check_fastcgi_param SCRIPT_FILENAME /ping; }
        server { listen 127.0.0.1:@PORT@; location / { check_status; } }
    """ % backend.port)
    backend.wait_more(2)
    assert b"\x0e\x04REQUEST_METHODHEAD" in backend.requests[0]
    assert b"\x0f\x05SCRIPT_FILENAME/ping" in backend.requests[0]
    assert b"REQUEST_URI" not in backend.requests[0]
    backend.answer = fastcgi_answer(b"Content-Type: text/plain\r\n\r\nok")
    wait_up(server, backend)
    backend.answer = fastcgi_answer(b"Content-Type: text/plain\r\n\r\nok", 2)
    wait_down(server, backend)
    assert "FastCGI status" in server.error_log


# ---- check


TENGINE = """
    upstream group { server 127.0.0.1:%d; check interval=50 rise=1 fall=1 timeout=5000 %s; %s }
    check_shm_size 2m;
    server { listen 127.0.0.1:@PORT@;
             location / { proxy_pass http://group; }
             location = /status { check_status; } }
"""


def test_check_of_connections(serve, backends):
    backend = backends(ok())
    server = serve(TENGINE % (backend.port, "", ""))
    wait_up(server, backend)  # down at first
    assert server.get("/").status == 200
    backend.down()
    wait_down(server, backend)
    assert server.get("/").status == 502
    backend.up()
    until(lambda: server.error_log.count("enable check peer") == 2, "the peer to come back")


def test_default_down(serve, backends):
    backend = backends(ok())
    server = serve("""
        upstream group { server 127.0.0.1:%d; check interval=100000 default_down=false rise=100; }
        upstream other { server 127.0.0.1:%d; check interval=100000 rise=100; }
        server { listen 127.0.0.1:@PORT@;
                 location / { proxy_pass http://group; } location /o { proxy_pass http://other; } }
    """ % (backend.port, backend.port))
    assert server.get("/").status == 200
    assert server.get("/o").status == 502


def test_check_http(serve, backends):
    backend = backends(ok(status=b"404 No"))
    server = serve(TENGINE % (backend.port, "type=http",
                              r'check_http_send "HEAD /ping HTTP/1.0\r\nHost: me\r\n\r\n";'
                              "check_http_expect_alive http_2xx http_4xx;"))
    wait_up(server, backend)
    assert backend.requests[0] == b"HEAD /ping HTTP/1.0\r\nHost: me\r\n\r\n"
    backend.answer = ok(status=b"302 Found")
    wait_down(server, backend)
    assert "status code 302" in server.error_log


def test_check_http_defaults(serve, backends):
    backend = backends(ok(status=b"302 Found"))
    server = serve(TENGINE % (backend.port, "type=http", ""))
    wait_up(server, backend)
    assert backend.requests[0] == b"GET / HTTP/1.0\r\n\r\n"
    backend.answer = ok(status=b"404 No")
    wait_down(server, backend)


def test_check_keepalive_requests(serve, backends):
    backend = backends(ok(), keeps=True)
    server = serve(TENGINE % (backend.port, "type=http", "check_keepalive_requests 3;"
                              r'check_http_send "GET / HTTP/1.1\r\nHost: me\r\n\r\n";'))
    backend.wait_more(7)
    assert backend.connections <= (backend.count() + 2) // 3 + 1
    assert backend.connections >= backend.count() // 3
    assert "unhealthy" not in server.error_log


class GreetingBackend(Backend):
    def is_whole(self, head):
        return False


@pytest.mark.parametrize("kind, good, bad", [
    ("mysql", b"\x0a\0\0\0\x0a8.0.30\0..", b"\x0a\0\0\0\xff\x10\x04Too many"),
    ("mysql", b"\x0a\0\0\0\x0a8.0.30\0..", b"SSH-2.0-OpenSSH\r\n"),
])
def test_check_of_what_greets(serve, backends, kind, good, bad):
    backend = backends(greets=bad, kind=GreetingBackend)
    server = serve(TENGINE % (backend.port, "type=%s default_down=false" % kind, ""))
    wait_down(server, backend)
    backend.greets = good
    wait_up(server, backend)


class BytesBackend(Backend):
    def is_whole(self, head):
        return len(head) >= 5


@pytest.mark.parametrize("kind, asked, good, bad", [
    ("ajp", b"\x12\x34\0\x01\x0a", b"AB\0\x01\x09", b"AB\0\x01\x06"),
    ("ssl_hello", b"\x16\x03\x01", b"\x16\x03\x03\0\x30\x02\0\0\x2c", b"\x15\x03\x01\0\x02\x02\x28"),
    ("ssl_hello", b"\x16\x03\x01", b"\x16\x03\x03\0\x30\x02\0\0\x2c", b"HTTP/1.1 400 Bad\r\n"),
])
def test_check_of_small_protocols(serve, backends, kind, asked, good, bad):
    backend = backends(bad, kind=BytesBackend)
    server = serve(TENGINE % (backend.port, "type=%s default_down=false" % kind, ""))
    wait_down(server, backend)
    assert backend.requests[0].startswith(asked)
    backend.answer = good
    wait_up(server, backend)


def test_a_real_tls_server_takes_the_hello(serve, backends, tmp_path):
    import ssl
    import subprocess
    key, cert = str(tmp_path / "key.pem"), str(tmp_path / "cert.pem")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                    "ec_paramgen_curve:P-256", "-nodes", "-keyout", key, "-out", cert, "-days",
                    "2", "-subj", "/CN=localhost"], check=True, stderr=subprocess.DEVNULL)
    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(cert, key)
        context.minimum_version = context.maximum_version = version

        class TlsBackend(Backend):
            def serve(self, connection):
                try:
                    context.wrap_socket(connection, server_side=True)  # pylint: disable=all
                except (OSError, ssl.SSLError):
                    pass

        backend = backends(kind=TlsBackend)
        server = serve(TENGINE % (backend.port, "type=ssl_hello", ""))
        wait_up(server, backend)


def test_unique(serve, backends):
    backend = backends(ok())
    server = serve("""
        upstream a { server 127.0.0.1:%(port)d; check interval=300 rise=1 fall=1 type=http unique=true timeout=5000; }
        upstream b { server 127.0.0.1:%(port)d; check interval=300 rise=1 fall=1 type=http unique=true timeout=5000; }
        server { listen 127.0.0.1:@PORT@;
                 location /a { proxy_pass http://a; } location /b { proxy_pass http://b; } }
    """ % {"port": backend.port})
    server.wait_log('in upstream "a": enable')
    server.wait_log('in upstream "b": enable')
    assert backend.count() == 1
    backend.answer = ok(status=b"500 Oh")
    server.wait_log('in upstream "b": disable')
    assert backend.count() == 2


# ---- check_status


@pytest.fixture
def status_page(serve, backends):
    good, bad = backends(ok()), backends(ok(status=b"500 Oh"))
    server = serve("""
        upstream "a&b" { server 127.0.0.1:%d; server 127.0.0.1:%d backup;
                     check interval=50 rise=1 fall=1 type=http timeout=5000; }
        upstream unchecked { server 127.0.0.1:%d; }
        server { listen 127.0.0.1:@PORT@;
                 location = /html { check_status; } location = /csv { check_status csv; }
                 location = /json { check_status json; }
                 location = /prometheus { check_status prometheus; } }
    """ % (good.port, bad.port, good.port))
    wait_up(server, good)
    bad.wait_more()
    return server, good, bad


def test_status_as_html(status_page):
    server, good, bad = status_page
    response = server.get("/html")
    assert response.status == 200 and response.header("Content-Type").startswith("text/html")
    assert "a&amp;b" in response.text and "127.0.0.1:%d" % good.port in response.text
    assert "Servers: 2, up: 1, down: 1" in response.text


def test_status_as_csv(status_page):
    server, good, bad = status_page
    response = server.get("/csv")
    assert response.header("Content-Type") == "text/plain"
    first, second = response.text.splitlines()
    assert re.fullmatch(r"0,a&b,127\.0\.0\.1:%d,up,\d+,0,http,0" % good.port, first)
    assert re.fullmatch(r"1,a&b,127\.0\.0\.1:%d,down,0,\d+,http,0" % bad.port, second)


def test_status_as_json(status_page):
    server, good, bad = status_page
    response = server.get("/json")
    assert response.header("Content-Type") == "application/json"
    servers = json.loads(response.text)["servers"]
    assert (servers["total"], servers["up"], servers["down"]) == (2, 1, 1)
    assert servers["generation"] == 1
    assert [(row["name"], row["status"]) for row in servers["server"]] == [
        ("127.0.0.1:%d" % good.port, "up"), ("127.0.0.1:%d" % bad.port, "down")]
    assert servers["server"][0]["upstream"] == "a&b" and servers["server"][0]["type"] == "http"


def test_status_for_prometheus(status_page):
    server, good, bad = status_page
    text = server.get("/prometheus").text
    assert "nginx_upstream_count 2\n" in text and "nginx_upstream_up 1\n" in text
    assert ('nginx_upstream_server_active{index="1",upstream_name="a&b",name="127.0.0.1:%d",'
            'status="down",type="http",port="0"} 0\n' % bad.port) in text


def test_status_arguments(status_page):
    server, good, bad = status_page
    for path in ("/html", "/csv"):
        assert server.get(path + "?format=csv&status=up").text.split(",")[2:4] == [
            "127.0.0.1:%d" % good.port, "up"]
        assert server.get(path + "?status=down&format=csv").text.split(",")[2:4] == [
            "127.0.0.1:%d" % bad.port, "down"]
    rows = json.loads(server.get("/html?format=json&status=down").text)["servers"]["server"]
    assert [row["name"] for row in rows] == ["127.0.0.1:%d" % bad.port]
    assert server.get("/csv?format=nothing&status=nothing").text.count("\n") == 2


# ---- what is refused


def refusal(text):
    from harness import Server
    from harness.server import run_binary
    server = Server(http=text)
    try:
        done = run_binary("-p", server.dir + "/", "-c", "nginx.conf", "-e", "stderr", "-t")
        return done.stderr
    finally:
        server.close(check=False)


@pytest.mark.parametrize("line, message", [
    ("health_check interval=0;", 'invalid parameter "interval=0"'),
    ("health_check fails=0;", 'invalid parameter "fails=0"'),
    ("health_check port=70000;", 'invalid parameter "port=70000"'),
    ("health_check uri=x;", 'invalid parameter "uri=x"'),
    ("health_check 'uri=/ x';", 'invalid parameter "uri=/ x"'),
    ("health_check something;", 'invalid parameter "something"'),
    ("health_check persistent;", '"persistent" needs "mandatory"'),
    ("health_check type=grpc;", "needs HTTP/2"),
    ("health_check match=none;", 'match "none" is not defined'),
])
def test_refused_parameters(line, message):
    assert message in refusal("server { listen 127.0.0.1:@PORT@; "
                              "location / { proxy_pass http://127.0.0.1:1; %s } }" % line)


@pytest.mark.parametrize("location", [
    "location / { health_check; }",
    "location / { health_check; proxy_pass http://$host; }",
    "location / { proxy_pass http://127.0.0.1:1; location /in { health_check; } }",
])
def test_a_check_without_a_group(location):
    assert '"health_check" needs a directive like "proxy_pass"' in refusal(
        "server { listen 127.0.0.1:@PORT@; %s }" % location)


def test_too_many_checks():
    locations = "".join("location /%d { proxy_pass http://127.0.0.1:1; health_check; }" % n
                        for n in range(5))
    assert "has more than 4 health checks" in refusal(
        "server { listen 127.0.0.1:@PORT@; %s }" % locations)


@pytest.mark.parametrize("line, message", [
    ("status 99;", 'invalid parameter "99" of "status"'),
    ("status 200-100;", 'invalid parameter "200-100" of "status"'),
    ("status;", 'invalid number of arguments in "status"'),
    ("status 200; status 201;", '"status" is duplicate'),
    ("header;", 'invalid number of arguments in "header"'),
    ("header A is b;", 'invalid parameter "is" of "header"'),
    ("body x;", 'invalid number of arguments in "body"'),
    ("body = x;", 'invalid parameter "=" of "body"'),
    ("body ~ \"(\";", "pcre2_compile() failed"),
    ("require x;", 'invalid variable name "x"'),
    ("require $nothing_like_it;", 'unknown "nothing_like_it" variable'),
    ("something;", 'unknown directive "something"'),
])
def test_refused_matches(line, message):
    assert message in refusal("match m { %s }" % line)


def test_a_match_twice():
    assert 'duplicate match "m"' in refusal("match m { status 200; } match m { status 200; }")


@pytest.mark.parametrize("line, message", [
    ("check interval=x;", 'invalid parameter "interval=x"'),
    ("check type=udp;", 'invalid parameter "type=udp"'),
    ("check fall=0;", 'invalid parameter "fall=0"'),
    ("check default_down=maybe;", 'invalid parameter "default_down=maybe"'),
    ("check;", 'invalid number of arguments in "check"'),
    ("check_http_expect_alive http_6xx;", 'invalid value "http_6xx"'),
    ("check_http_send x;", '"check_http_send" has no effect without "check type=http"'),
    ("check interval=1000; check_fastcgi_param A b;",
     '"check_fastcgi_param" has no effect without "check type=fastcgi"'),
])
def test_refused_checks(line, message):
    assert message in refusal("upstream a { server 127.0.0.1:1; %s }" % line)


def test_refused_format():
    assert 'invalid check format "xml"' in refusal(
        "server { listen 127.0.0.1:@PORT@; check_status xml; }")
