"""Active health checks as nginx Plus spells them: health_check and match."""

import os
import re
import signal
import socket
import threading
import time

import pytest

from harness.wait import until

from probed import (Backend, FastcgiBackend, backends, fastcgi_answer, ok,  # noqa: F401
                    refusal, wait_down, wait_up)


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
        killed = threading.Event()

        def serve(self, connection):
            if not self.killed.is_set():
                connection.settimeout(20)
                while connection.recv(65536):  # until the worker is gone, or has no more patience
                    pass
                return
            super().serve(connection)

    backend = backends(ok(), kind=Silent)
    server = serve("""
        upstream group { server 127.0.0.1:%d;
                         check interval=50 timeout=1000 rise=1 type=http; }
    """ % backend.port, main="worker_processes 2;", allow=["exited on signal 9"])
    prober = until(lambda: [pid for pid in server.children() if has_socket_to(pid, backend.port)], "a probe")[0]
    os.kill(prober, signal.SIGKILL)
    Silent.killed.set()
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
    before_down = server.error_log.partition("disable check peer")[0]
    failed = before_down.count("failed while checking status code 500")
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
    ("require $hostname $request_uri $scheme $upstream_response_time;", ok(), True),
    ("require $upstream_addr $http_host;", ok(), False),
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


def test_a_fastcgi_group(serve, backends):
    backend = backends(fastcgi_answer(b"Status: 500 Oh\r\n\r\n"), kind=FastcgiBackend)
    server = serve("""
        match well { status 200; body ~ pong; }
        server { listen 127.0.0.1:@PORT@; root /var/www;
                 location / { fastcgi_pass 127.0.0.1:%d;
                              health_check interval=50ms uri=/ping.php?a=b match=well; } }
    """ % backend.port)
    wait_down(server, backend)
    for param in (b"\x0b\x0dREQUEST_URI/ping.php?a=b", b"\x0b\x09SCRIPT_NAME/ping.php",
                  b"\x0f\x11SCRIPT_FILENAME/var/www/ping.php", b"\x0c\x03QUERY_STRINGa=b"):
        assert param in backend.requests[0]
    backend.answer = fastcgi_answer(b"Content-Type: text/plain\r\n\r\npong")
    wait_up(server, backend)


# ---- what is refused


@pytest.mark.parametrize("line, message", [
    ("health_check interval=0;", 'invalid parameter "interval=0"'),
    ("health_check fails=0;", 'invalid parameter "fails=0"'),
    ("health_check port=70000;", 'invalid parameter "port=70000"'),
    ("health_check uri=x;", 'invalid parameter "uri=x"'),
    ("health_check 'uri=/ x';", 'invalid parameter "uri=/ x"'),
    ("health_check something;", 'invalid parameter "something"'),
    ("health_check persistent;", '"persistent" needs "mandatory"'),
    ("health_check type=grpc;", '"type=grpc" needs "grpc_pass"'),
    ("health_check grpc_status=12;", '"grpc_service" and "grpc_status" need "type=grpc"'),
    ("health_check type=grpc grpc_status=0;", 'invalid parameter "grpc_status=0"'),
    ("health_check type=grpc grpc_service=;", 'invalid parameter "grpc_service="'),
    ("health_check type=grpc uri=/;", '"type=grpc" excludes "match" and "uri"'),
    ("health_check type=udp;", 'invalid parameter "type=udp"'),
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
