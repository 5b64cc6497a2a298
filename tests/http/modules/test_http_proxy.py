"""proxy_pass: what goes to the backend, what comes back, and backends that misbehave at each step."""

import os
import re
import shutil
import socket
import tempfile
import threading

import pytest

from harness import Closed, binaries, run_binary, until
from harness.h2 import H2


OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
LOCATION = "server { listen 127.0.0.1:@PORT@; location / { proxy_pass http://127.0.0.1:%d; %s } }"


def answer_of(body):
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)


def errors(server):
    return [line for line in server.lines("error.log") if "[error]" in line or "[warn]" in line]


def test_connections_are_kept(serve, backend):
    """By default, also to an address that no upstream block names."""
    back = backend([OK] * 3)
    server = serve(LOCATION % (back.port, ""))
    for _ in range(3):
        assert server.get("/").text == "ok"
    assert back.connections == 1
    assert all(b"\r\nConnection:" not in request for request in back.requests)


@pytest.mark.parametrize("target", ["127.0.0.1:%d", "$arg_t", "u"])
@pytest.mark.parametrize("local", ["", "local"])
def test_no_request_leaves_from_the_address_of_another(serve, backend, target, local):
    """Our own address belongs to what a kept connection is."""
    def tell(conn, _):
        conn.sendall(answer_of(conn.getpeername()[0].encode()))
    back = backend([tell] * 9)
    target = target % back.port if "%" in target else target
    server = serve("""upstream u { server 127.0.0.1:%d; keepalive 4 %s; }
        server { listen 127.0.0.1:@PORT@; proxy_bind $arg_a; location / { proxy_pass http://%s; } }"""
                   % (back.port, local, target))
    for address in ["127.0.0.2", "127.0.0.3", "127.0.0.2", "", "127.0.0.3"]:
        assert server.get("/?a=%s&t=127.0.0.1:%d" % (address, back.port)).text == (address or "127.0.0.1")
    assert back.connections == 3


@pytest.mark.parametrize("answer", [
    b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok",
    b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
    b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok and more",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\nmore",
    b"HTTP/1.1 200 OK\r\nConnection: Foo , Close\r\nContent-Length: 2\r\n\r\nok",
    b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
])
def test_connection_in_doubt_is_not_kept(serve, backend, answer):
    back = backend([answer], [OK])
    server = serve(LOCATION % (back.port, ""))
    assert server.get("/").text == "ok"
    assert server.get("/").text == "ok"
    assert back.connections == 2


@pytest.mark.parametrize("field, connections", [
    ("Connection close", 2), ("connection 'te, CLOSE'", 2), ("Connection $arg_c", 2), ("Connection $arg_none", 1), ("Connection closed", 1), ("X-Connection close", 1)])
def test_request_that_says_close_is_the_last_of_its_connection(serve, backend, field, connections):
    """Also of a backend that closes without a word: by then another request would be on its way."""
    back = backend([OK] * 2, [OK])
    server = serve(LOCATION % (back.port, "proxy_set_header %s;" % field))
    for _ in range(2):
        assert server.get("/?c=close", method="POST", body="x").text == "ok"
    assert back.connections == connections


@pytest.mark.parametrize("answer", [
    OK,
    b"HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\nContent-Length: 2\r\n\r\nok",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;x=y\r\no\r\n1\r\nk\r\n0\r\nX: t\r\n\r\n",
    b"HTTP/1.1 200\r\nContent-Length: 2\r\n\r\nok",
    b"HTTP/1.1 200 OK\nContent-Length: 2\n\nok",
])
def test_whole_answers_let_it_be_kept(serve, backend, answer):
    back = backend([answer, answer])
    server = serve(LOCATION % (back.port, ""))
    assert server.get("/").text == "ok"
    assert server.get("/").text == "ok"
    assert back.connections == 1


@pytest.mark.parametrize("field", ["Content-Length 5", "Content-Length \"\"", "Transfer-Encoding chunked"])
def test_head_with_framing_of_its_own_is_the_last(serve, backend, field):
    """What proxy_set_header says of a body's end need not be so."""
    def answer(conn, _):
        conn.sendall(OK)
    back = backend([answer], [answer])
    server = serve(LOCATION % (back.port, "proxy_set_header %s;" % field))
    with server.client() as client:
        response = client.request("/", method="POST", body=b"hello")
        assert response.status == 200
    back2 = back.connections
    with server.client() as client:
        assert client.request("/", method="POST", body=b"hello").status == 200
    assert back.connections == back2 + 1


def test_a_body_sent_for_head_is_dropped_without_a_word(serve, backend):
    back = backend([b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc"])
    server = serve(LOCATION % (back.port, ""))
    with server.client() as client:
        assert client.request("/", method="HEAD").header("Content-Length") == "3"
    server.quit()
    assert "more data" not in server.error_log


def test_204_of_a_backend_keeps_its_type(serve, backend):
    back = backend([b"HTTP/1.1 204 None\r\nContent-Type: text/x\r\nContent-Length: 3\r\n\r\n"])
    response = serve(LOCATION % (back.port, "")).get("/")
    assert (response.status, response.reason, response.header("Content-Type")) == (204, "None", "text/x")
    assert response.header("Content-Length") is None


BAD_HEADS = [
    (b"hello\r\n\r\n", "no valid HTTP/1.0 header"),
    (b"HTTP/2.0 200 OK\r\n\r\n", "no valid HTTP/1.0 header"),
    (b"HTTP/1.1 20 OK\r\n\r\n", "no valid HTTP/1.0 header"),
    (b"HTTP/1.1 2000 OK\r\n\r\n", "no valid HTTP/1.0 header"),
    (b"http/1.1 200 OK\r\n\r\n", "no valid HTTP/1.0 header"),
    (b"HTTP/1.1 200 OK\r\nX y: 1\r\n\r\n", "invalid header"),
    (b"HTTP/1.1 200 OK\r\nContent-Length : 1\r\n\r\nx", "invalid header"),
    (b"HTTP/1.1 200 OK\r\n: x\r\n\r\n", "invalid header"),
    (b"HTTP/1.1 200 OK\r\nX: 1\r\n folded\r\n\r\n", "invalid header"),
    (b"HTTP/1.1 200 OK\r\nX: a\x00b\r\n\r\n", "invalid header"),
    (b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\nx", "duplicate header line"),
    (b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\nx", "invalid \"Content-Length\" header"),
    (b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\nx", "invalid \"Content-Length\" header"),
    (b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\nx", "invalid \"Content-Length\""),
    (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", "unknown \"Transfer-Encoding\""),
    (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\nx", "at the same time"),
    (b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\n\r\nx", "switched protocols unasked"),
    (b"HTTP/1.1 200 OK\r\nX: " + b"x" * 5000 + b"\r\n\r\n", "too big header"),
    (b"HTTP/1.1 200 " + b"x" * 5000 + b"\r\n\r\n", "too big header"),
    (b"HTTP/1.1 200 OK\r\nX", "prematurely closed connection"),
    (b"", "prematurely closed connection"),
]


@pytest.mark.parametrize("head, message", BAD_HEADS)
def test_bad_head_is_502(serve, backend, head, message):
    back = backend([head])
    server = serve(LOCATION % (back.port, ""))
    response = server.get("/")
    assert response.status == 502
    assert any(message in line for line in errors(server)), errors(server)
    assert all('upstream: "http://127.0.0.1:%d/"' % back.port in line for line in errors(server))


@pytest.mark.parametrize("body", [
    b"Content-Length: 5\r\n\r\nab", b"Transfer-Encoding: chunked\r\n\r\n5\r\nab",
    b"Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n", b"Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n",
    b"Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\nxyz\r\n",
    b"Transfer-Encoding: chunked\r\n\r\n2\r\nabc\r\n0\r\n\r\n",
])
@pytest.mark.parametrize("buffering", ["on", "off"])
def test_body_cut_short_is_cut_for_the_client(serve, backend, body, buffering):
    """The client can tell: neither the last chunk nor the whole length comes."""
    back = backend([b"HTTP/1.1 200 OK\r\n" + body])
    server = serve(LOCATION % (back.port, "proxy_buffering %s;" % buffering))
    with pytest.raises(Closed):
        server.get("/")
    assert errors(server)


def test_nothing_of_one_answer_reaches_another(serve, backend):
    back = backend([b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil"],
                   [OK])
    server = serve(LOCATION % (back.port, ""))
    assert [server.get("/").text for _ in range(2)] == ["ok", "ok"]
    assert back.connections == 2


def test_interim_answers_are_skipped(serve, backend):
    """100 and 102 that nobody asked for, and 103, which only goes to those who want it."""
    back = backend([b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 102 Processing\r\n\r\n"
                    b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + OK] * 2)
    server = serve(LOCATION % (back.port, "early_hints $http_x_hints;"))
    response = server.get("/")
    assert (response.status, response.text, response.interim) == (200, "ok", [])
    response = server.get("/", "X-Hints: 1")
    assert [interim.status for interim in response.interim] == [103]
    assert response.interim[0].header("Link") == "</a>"
    assert back.connections == 1


def test_too_many_interim_answers(serve, backend):
    back = backend([b"HTTP/1.1 100 Continue\r\n\r\n" * 1000 + OK])
    server = serve(LOCATION % (back.port, ""))
    assert server.get("/").status == 502


def test_upgrade(serve, backend):
    def echo(conn, request):
        assert b"\r\nUpgrade: websocket\r\n" in request and b"\r\nConnection: upgrade\r\n" in request
        conn.sendall(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n"
                     b"Connection: Upgrade\r\n\r\nhello ")
        while True:
            data = conn.recv(65536)
            if not data:
                break
            conn.sendall(data.upper())
    back = backend([echo])
    server = serve(LOCATION % (back.port, "proxy_set_header Upgrade $http_upgrade;"
                                          "proxy_set_header Connection upgrade;"))
    with server.client() as client:
        client.send(b"GET /ws HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\nearly")
        client.socket.settimeout(10)
        got = b""
        while not got.endswith(b"EARLY"):
            got += client.socket.recv(65536)
        head, _, rest = got.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 101 Switching Protocols\r\n")
        assert b"\r\nUpgrade: websocket" in head and b"\r\nConnection: upgrade" in head
        assert rest == b"hello EARLY"
        big = b"x" * 300000
        threading.Thread(target=client.socket.sendall, args=(big,), daemon=True).start()
        got = b""
        while len(got) < len(big):
            got += client.socket.recv(65536)
        assert got == big.upper()
        client.half_close()
        assert client.socket.recv(100) == b""


def test_trailers(serve, backend):
    answer = (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-T\r\n\r\n"
              b"2\r\nok\r\n0\r\nX-T: after\r\nContent-Length: 7\r\n\r\n")
    back = backend([answer] * 3)
    server = serve("""server { listen 127.0.0.1:@PORT@;
        location /on { proxy_pass http://127.0.0.1:%d; proxy_pass_trailers on; }
        location /off { proxy_pass http://127.0.0.1:%d; } }""" % (back.port, back.port))
    response = server.get("/on", "TE: trailers", "Connection: te")
    assert response.text == "ok" and response.trailers == [("X-T", "after")]
    assert server.get("/on").trailers == [("X-T", "after")]
    assert back.connections == 1
    assert server.get("/off", "TE: trailers", "Connection: te").trailers == []


@pytest.mark.parametrize("version", ["1.0", "1.1"])
def test_streamed_body_of_unknown_length(serve, backend, version):
    """HTTP/1.1 gets chunks as they come; HTTP/1.0 has to be told the length, so it waits for the end."""
    back = backend([OK])
    server = serve(LOCATION % (back.port, "proxy_request_buffering off; proxy_http_version %s;" % version))
    with server.client() as client:
        client.send(b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")
        if version == "1.1":
            with back.changed:
                assert back.changed.wait_for(lambda: back.connections == 1, 10)
        client.send(b"6\r\n world\r\n0\r\n\r\n")
        assert client.response().text == "ok"
    head, _, body = back.wait_requests(1)[0].partition(b"\r\n\r\n")
    if version == "1.1":
        assert b"\r\nTransfer-Encoding: chunked" in head and b"Content-Length" not in head
        assert b"".join(body.split(b"\r\n")[1::2]) == b"hello world"
    else:
        assert b"\r\nContent-Length: 11" in head and body == b"hello world"


def test_order_and_form_of_the_head(serve, backend):
    """Host, own fields in their order, framing, then the client's as they came."""
    back = backend([OK] * 3)
    server = serve(LOCATION % (back.port, "proxy_set_header X-B b; proxy_set_header X-A $arg_a; "
                                          "proxy_set_header X-C $arg_none; proxy_set_header User-Agent \"\";"))
    with server.client() as client:
        client.send(b"POST /p?a=1 HTTP/1.1\r\nHost: h\r\nuser-agent: ua\r\nZ:no blank\r\nx-a: theirs\r\n"
                    b"A: 1\r\nb:  two  \r\nProxy-Connection: close\r\nc:\r\nContent-Length: 2\r\n\r\nhi")
        assert client.response().text == "ok"
    assert back.requests[0] == (
        b"POST /p?a=1 HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nX-B: b\r\nX-A: 1\r\nContent-Length: 2\r\n"
        b"Z: no blank\r\nA: 1\r\nb: two\r\nc: \r\n\r\nhi" % back.port)


def test_values_of_variables_end_no_line(serve, backend):
    back = backend([OK] * 2)
    server = serve("""server { listen 127.0.0.1:@PORT@;
        location /head { proxy_set_header X $uri; proxy_pass http://127.0.0.1:%d; }
        location /line { proxy_pass http://127.0.0.1:%d$uri; } }""" % (back.port, back.port))
    server.get("/head%0d%0aEvil:%201")
    server.get("/line%0d%0aEvil:%201%20HTTP/1.1%0d%0a")
    assert b"\r\nX: /head  Evil: 1\r\n" in back.requests[0]
    assert back.requests[1].startswith(b"GET /line%0D%0AEvil:%201%20HTTP/1.1%0D%0A HTTP/1.1\r\n")
    assert all(b"\r\nEvil" not in request for request in back.requests)


def test_empty_host_is_the_target(serve, backend):
    """Since 1.31.4: a request of HTTP/1.1 has a Host."""
    if binaries.is_nginx_before(binaries.under_test(), 1, 31, 4):
        pytest.skip("the reference is older")
    back = backend([OK] * 2)
    server = serve("""server { listen 127.0.0.1:@PORT@;
        location /const { proxy_set_header Host ""; proxy_pass http://127.0.0.1:%d; }
        location /var { proxy_set_header Host $arg_h; proxy_pass http://127.0.0.1:%d; } }""" % (back.port, back.port))
    server.get("/const")
    server.get("/var")
    assert all(b"\r\nHost: 127.0.0.1:%d\r\n" % back.port in request for request in back.requests)


def test_unix_socket(serve, backend):
    directory = tempfile.mkdtemp(prefix="portunus-proxy-")
    os.chmod(directory, 0o755)
    path = directory + "/s.sock"
    back = backend([OK] * 2, address=path, family=socket.AF_UNIX)
    os.chmod(path, 0o777)
    server = serve("""server { listen 127.0.0.1:@PORT@;
        location /plain { proxy_pass http://unix:%s; }
        location /uri/ { proxy_pass http://unix:%s:/other/; } }""" % (path, path))
    assert server.get("/plain?x").text == "ok"
    assert server.get("/uri/a").text == "ok"
    assert back.requests[0].startswith(b"GET /plain?x HTTP/1.1\r\nHost: localhost\r\n")
    assert back.requests[1].startswith(b"GET /other/a HTTP/1.1\r\n")
    shutil.rmtree(directory)


def test_the_log_names_a_unix_socket_as_it_is_written(serve):
    """As nginx does: with a colon between the path and the URI, whatever is spoken."""
    path = "/tmp/portunus-nobody.sock"
    server = serve("""server { listen 127.0.0.1:@PORT@; set $memcached_key k;
        location / { proxy_pass http://unix:%s; } location /uri { proxy_pass http://unix:%s:/other; }
        location /fastcgi { fastcgi_pass unix:%s; } location /memcached { memcached_pass unix:%s; } }"""
                   % (path, path, path, path), allow=["portunus-nobody"])
    for uri, upstream in [("/a", "http://unix:%s:/a"), ("/uri", "http://unix:%s:/other"),
                          ("/fastcgi", "fastcgi://unix:%s:"), ("/memcached", "memcached://unix:%s:")]:
        assert server.get(uri).status == 502
        server.wait_log('upstream: "%s"' % (upstream % path))


def test_a_name_that_is_not_found_is_no_attempt(serve):
    """As with nginx the variables of attempts are empty; what comes after an error_page has its own."""
    server = serve("""log_format t "$uri [$upstream_addr] [$upstream_status] [$upstream_response_time]";
        server { listen 127.0.0.1:@PORT@; access_log access.log t; resolver 127.0.0.1:1; resolver_timeout 100ms;
        location / { proxy_pass http://$arg_h; }
        location /next { proxy_pass http://$arg_h; error_page 502 /other; }
        location /other { proxy_pass http://127.0.0.1:1; } }""", allow=["while resolving"])
    for uri, line in [("/?h=no.example", "/ [-] [-] [-]"), ("/next?h=no.example", "/other [127.0.0.1:1] [502] [0.0")]:
        assert server.get(uri).status == 502
        until(lambda line=line: line in server.read("access.log"), line)


def test_proxy_protocol_out(serve, backend):
    """A header first on each connection, which carries one request."""
    back = backend([OK] * 2)
    server = serve(LOCATION % (back.port, "proxy_protocol on;"))
    ports = []
    for _ in range(2):
        with server.client() as client:
            ports.append(client.port)
            assert client.request("/").text == "ok"
    assert back.connections == 2
    for port, request in zip(ports, back.requests):
        assert request.startswith(b"PROXY TCP4 127.0.0.1 127.0.0.1 %d %d\r\nGET / HTTP/1.1\r\n"
                                  % (port, server.port))


def test_kept_connection_that_ended_is_replaced(serve, backend):
    """The backend closed it in its rest, or just as the request came: it goes out once more."""
    def answer_and_close(conn, _):
        conn.sendall(OK)
        conn.shutdown(socket.SHUT_RDWR)
    back = backend([answer_and_close])
    server = serve(LOCATION % (back.port, ""))
    for _ in range(20):
        assert server.get("/").text == "ok"


def test_connect_is_not_proxied(serve, backend):
    back = backend([OK])
    server = serve("server { listen 127.0.0.1:@PORT@; location / { proxy_pass http://127.0.0.1:%d; } }" % back.port)
    with server.client() as client:
        client.send(b"CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n")
        assert client.response().status == 405
    assert back.requests == []


@pytest.mark.parametrize("text, message", [
    ("proxy_pass ftp://127.0.0.1;", "invalid URL prefix"),
    ("proxy_pass http://;", "no host in upstream"),
    ("proxy_pass http://127.0.0.1:99999;", "invalid port in upstream"),
    ("proxy_pass http://127.0.0.1:1; proxy_pass http://127.0.0.1:2;", "is duplicate"),
    ("if ($arg_a) { proxy_pass http://127.0.0.1:1/x; }", "cannot have URI part"),
    ("limit_except GET { proxy_pass http://127.0.0.1:1/x; }", "cannot have URI part"),
    ("proxy_redirect default; proxy_pass http://127.0.0.1:1;", "should be placed after"),
    ("proxy_pass http://$host; proxy_redirect default;", "cannot be used with"),
    ("proxy_redirect x;", "invalid parameter"), ("proxy_redirect off; proxy_redirect a b;", "is duplicate"),
    ("proxy_redirect a b; proxy_redirect off;", "is duplicate"),
    ("proxy_cookie_domain x;", "invalid parameter"), ("proxy_cookie_path ~( x;", "pcre2_compile() failed"),
    ("proxy_cookie_flags x;", "invalid parameter"),
    ("proxy_http_version 1.2;", "invalid value"), ("proxy_set_header \"\" x;", "empty name"),
    ("proxy_set_header X $no_such_variable;", "unknown \"no_such_variable\" variable"),
])
def test_configuration_errors(tmp_path, text, message):
    (tmp_path / "n.conf").write_text("pid n.pid; error_log e.log; events { } http { access_log off; "
                                     "server { location / { %s } } }" % text)
    result = run_binary("-t", "-p", str(tmp_path), "-c", "n.conf", "-e", "e.log")
    assert result.returncode == 1 and message in result.stderr


def test_targets_that_are_none(serve):
    """Known at run time only: they are refused without a look-up."""
    server = serve("server { listen 127.0.0.1:@PORT@; location / { proxy_pass http://$arg_to; } }")
    for target, message in (("127.0.0.1:1:2", "invalid port"), (":", "invalid port"), ("[::1", "invalid host"),
                            (":80", "no host"), ("unix:", "no path in the unix domain socket")):
        assert server.get("/?to=" + target).status == 500
        server.wait_log(re.escape('%s in upstream "%s"' % (message, target)))


def test_error_page_after_a_backend(serve, backend):
    """Its log lines name the backend, and no field of the backend's response stays."""
    back = backend([b"HTTP/1.1 404 X\r\nContent-Length: 0\r\n\r\n",
                    b"HTTP/1.1 200 X\r\nX-Accel-Redirect: /none/b\r\nAccept-Ranges: bytes\r\nContent-Length: 0\r\n\r\n"])
    server = serve("upstream group { server 127.0.0.1:%d; } server { listen 127.0.0.1:@PORT@; location /none { } "
                   "location / { proxy_pass http://group; proxy_intercept_errors on; error_page 404 /none/a; } }" % back.port)
    assert [server.get("/x").status, server.get("/y").header("Accept-Ranges")] == [404, None]
    lines = errors(server)
    assert ['upstream: "http://127.0.0.1:%d/%s"' % (back.port, name) in line for name, line in zip("xy", lines)] == [True] * 2


@pytest.mark.parametrize("framing, first, second, tail", [
    ("Content-Length: 4", b"ab", b"cd", b""),
    ("Transfer-Encoding: chunked", b"2\r\nab\r\n", b"2\r\ncd\r\n", b"0\r\n\r\n"),
])
def test_streamed_body_goes_on_as_it_comes(serve, framing, first, second, tail):
    """The head leaves before any of the body is there, and each part when it has come."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(10)
        server = serve(LOCATION % (listener.getsockname()[1], "proxy_request_buffering off;"))
        with server.client() as client:
            client.send(b"POST / HTTP/1.1\r\nHost: h\r\n%s\r\n\r\n" % framing.encode())
            with listener.accept()[0] as conn:
                conn.settimeout(10)
                got = b""
                while not got.endswith(b"\r\n\r\n"):
                    got += conn.recv(65536)
                for part in (first, second):
                    client.send(part)
                    got = b""
                    while not got.endswith(part):
                        got += conn.recv(65536)
                    assert got == part
                client.send(tail)
                conn.sendall(OK)
                assert client.response().text == "ok"


@pytest.mark.parametrize("settings", ["", "proxy_buffering off;", "sub_filter a b; sub_filter_types *;"])
@pytest.mark.parametrize("framing", [b"Content-Length: 5", b"Transfer-Encoding: chunked", b"X: y"])
def test_head_stands_in_for_another_method(serve, backend, settings, framing):
    """The client gets the head, without waiting for the body that it speaks of; the backend's connection stays usable."""
    back = backend([b"HTTP/1.1 200 OK\r\nX-Answer: head\r\n" + framing + b"\r\n\r\n"] * 4)
    server = serve("server { listen 127.0.0.1:@PORT@; http2 on; location / { proxy_method HEAD; proxy_pass http://127.0.0.1:%d; %s } }"
                   % (back.port, settings))
    for method, body in ("GET", ""), ("POST", "abc"):
        with server.client() as client:
            client.send("%s / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s" % (method, len(body), body))
            head, _, rest = client.rest().partition(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200 OK") and b"X-Answer: head" in head
            assert rest == (b"" if b"Content-Length" in head else b"0\r\n\r\n")
    with H2(server.port) as h2:
        answer = h2.get("/")
        assert answer.is_whole and answer.body == b"" and answer.headers["x-answer"] == "head"
    assert all(request.startswith(b"HEAD /") for request in back.requests) and back.connections < 3
    assert not errors(server)
