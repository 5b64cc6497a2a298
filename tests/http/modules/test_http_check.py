"""Active health checks as Tengine spells them: check and its kin, check_status."""

import json
import re
import ssl
import subprocess
import time

import pytest

from harness.dns import NameServer
from harness.wait import until

from probed import (Backend, FastcgiBackend, backends, fastcgi_answer, ok,  # noqa: F401
                    refusal, wait_down, wait_up)


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


def test_fastcgi_without_a_status(serve, backends):
    """Such an answer is good, whatever statuses are expected; and what a script says on its standard error is passed over."""
    stderr = b"".join(bytes([1, 7, 0, 1, 0xff, 0xf0, 0, 0]) + b"e" * 0xfff0 for _ in range(8))
    backend = backends(stderr + fastcgi_answer(b"Content-Type: text/plain\r\n\r\nok"), kind=FastcgiBackend)
    server = serve("""
        upstream group { server 127.0.0.1:%d;
            check interval=50 rise=1 fall=1 timeout=5000 type=fastcgi;
            check_http_expect_alive http_4xx; }
        server { listen 127.0.0.1:@PORT@; location / { check_status; } }
    """ % backend.port)
    wait_up(server, backend)
    backend.answer = fastcgi_answer(b"Status: 200 OK\r\n\r\nok")
    wait_down(server, backend)


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


def test_servers_that_are_up_at_first_are_not_probed_at_once(serve, backends):
    backend = backends(ok(status=b"500 Oh"))
    began = time.monotonic()
    server = serve("""
        upstream group { server 127.0.0.1:%d; check interval=60000 default_down=false fall=1 type=http; }
        server { listen 127.0.0.1:@PORT@; location / { proxy_pass http://group; } }
    """ % backend.port)
    answer = server.get("/")
    if time.monotonic() - began < 0.9:  # else this machine is too slow to see it
        assert answer.text == "ok"
    wait_down(server, backend)  # long before the interval is over
    assert server.get("/").status == 502


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
    # Others may come between two looks.
    assert backend.connections <= (backend.count() + 2) // 3 + 1
    count = backend.count()
    assert backend.connections >= count // 3
    assert "unhealthy" not in server.error_log


@pytest.mark.parametrize("head, body", [
    (b"Content-Length: 99", b"only a part"), (b"Transfer-Encoding: chunked", b"5\r\nonly"),
    (b"Transfer-Encoding: chunked", b"nonsense\r\n"),
])
def test_a_kept_probe_is_judged_by_its_head(serve, backends, head, body):
    """The body is read so that another probe may follow it; where that fails, only the connection is lost."""
    backend = backends(b"HTTP/1.1 200 OK\r\n" + head + b"\r\n\r\n" + body, keeps=True)
    server = serve(TENGINE % (backend.port, "type=http timeout=500", "check_keepalive_requests 10;"))
    wait_up(server, backend)
    backend.wait_more(2)
    assert backend.connections >= 2
    backend.answer = backend.answer.replace(b"200 OK", b"500 Oh")
    wait_down(server, backend)
    assert "status code 500" in server.error_log


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


@pytest.mark.parametrize("status, was_down, verdict", [(b"200 OK", "true", "enable"), (b"500 Oh", "false", "disable")])
def test_unique(serve, backends, status, was_down, verdict):
    """One probe tells both groups; the next one is far off."""
    backend = backends(ok(status=status))
    group = ("upstream %%s { server 127.0.0.1:%d; check interval=600000 rise=1 fall=1 type=http unique=true "
             "default_down=%s timeout=60000; }" % (backend.port, was_down))
    server = serve(group % "a" + group % "b" + """
        server { listen 127.0.0.1:@PORT@;
                 location /a { proxy_pass http://a; } location /b { proxy_pass http://b; } }
    """)
    server.wait_log('in upstream "a": ' + verdict)
    server.wait_log('in upstream "b": ' + verdict)
    assert backend.count() == 1


def test_an_address_that_a_name_has_twice_is_probed_once(serve, backends):
    backend = backends(ok())
    with NameServer({"app.example": ["127.0.0.1", "127.0.0.1"]}) as dns:
        server = serve("""
            resolver %s ipv6=off; upstream a { zone a 256k; server app.example:%d resolve;
                check interval=60000 rise=1 fall=1 type=http timeout=5000; }
            server { listen 127.0.0.1:@PORT@; location / { proxy_pass http://a; } }
        """ % (dns.address, backend.port))
        until(lambda: server.read("error.log").count('in upstream "a": enable') == 2, "both are up")
    assert backend.count() == 1


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
    assert "<h2>Check upstream server number: 2, generation: 1</h2>" in response.text


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
    servers = json.loads(server.get("/html?format=json&status=down").text)["servers"]
    assert [row["name"] for row in servers["server"]] == ["127.0.0.1:%d" % bad.port]
    assert (servers["total"], servers["up"], servers["down"]) == (1, 0, 1)  # of those that are shown
    assert "server number: 1, gen" in server.get("/html?status=up").text
    assert "nginx_upstream_down 0\n" in server.get("/prometheus?status=up").text
    assert server.get("/csv?format=nothing&status=nothing").text.count("\n") == 2


# ---- what is refused


@pytest.mark.parametrize("line, message", [
    ("check interval=x;", 'invalid parameter "interval=x"'),
    ("check type=udp;", 'invalid parameter "type=udp"'),
    ("check fall=0;", 'invalid parameter "fall=0"'),
    ("check default_down=maybe;", 'invalid parameter "default_down=maybe"'),
    ("check;", 'invalid number of arguments in "check"'),
    ("check_http_expect_alive http_6xx;", 'invalid value "http_6xx"'),
    ("check_http_send x;", "invalid check_http_send should set [check] first"),
    ("check_http_send x; check type=http;", "invalid check_http_send should set [check] first"),
    ("check type=mysql; check_http_send x;", 'invalid check_http_send for type "mysql"'),
    ("check interval=1000; check_fastcgi_param A b;",
     '"check_fastcgi_param" has no effect without "check type=fastcgi"'),
])
def test_refused_checks(line, message):
    assert message in refusal("upstream a { server 127.0.0.1:1; %s }" % line)


def test_refused_format():
    assert 'invalid check format "xml"' in refusal(
        "server { listen 127.0.0.1:@PORT@; check_status xml; }")
