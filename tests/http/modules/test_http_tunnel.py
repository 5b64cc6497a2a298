"""CONNECT: tunnel_pass, and Tengine's proxy_connect."""

import re
import threading

import pytest

from harness import run_binary
from harness.backend import send_back_in_capitals, talk_to_each


@pytest.fixture(name="echo")
def _echo():
    """A server that sends back what it gets, in capitals, until the other side ends."""
    listener = talk_to_each(send_back_in_capitals)
    yield listener.getsockname()[1]
    listener.close()


def connect(client, target, more=b"", version="1.1"):
    """Asks for a tunnel; gives the head of the answer and what came behind it."""
    client.send(b"CONNECT %s HTTP/%s\r\nHost: %s\r\n\r\n"
                % (target.encode(), version.encode(), target.encode()) + more)
    client.socket.settimeout(10)
    got = b""
    while b"\r\n\r\n" not in got:
        data = client.socket.recv(65536)
        if not data:
            break
        got += data
    head, _, rest = got.partition(b"\r\n\r\n")
    return head, rest


def through(client, data, got=b""):
    client.socket.sendall(data)
    while len(got) < len(data):
        got += client.socket.recv(65536)
    return got


SERVER = "server { listen 127.0.0.1:@PORT@; %s location / { return 200 plain; } }"


@pytest.mark.parametrize("text, target", [
    ("tunnel_pass;", "127.0.0.1:%d"), ("tunnel_pass 127.0.0.1:%d;", "nowhere.example:1"),
    ("tunnel_pass $host:$request_port;", "127.0.0.1:%d"), ("tunnel_pass up;", "nowhere.example:1"),
])
def test_tunnel(serve, echo, text, target):
    text = text % echo if "%" in text else text
    server = serve("upstream up { server 127.0.0.1:%d; } server { listen 127.0.0.1:@PORT@; location / { %s } }"
                   % (echo, text))
    with server.client() as client:
        head, rest = connect(client, target % echo if "%" in target else target)
        assert head.startswith(b"HTTP/1.1 200 OK\r\n") and rest == b""
        assert b"Content-Length" not in head and b"Transfer-Encoding" not in head
        assert through(client, b"hello") == b"HELLO"
        big = bytes(range(65, 91)) * 20000
        thread = threading.Thread(target=client.socket.sendall, args=(big.lower(),), daemon=True)
        thread.start()
        got = b""
        while len(got) < len(big):
            got += client.socket.recv(65536)
        assert got == big
        thread.join()
        client.half_close()
        assert client.socket.recv(100) == b""


def test_tunnel_carries_what_came_with_its_head(serve, echo):
    server = serve("server { listen 127.0.0.1:@PORT@; location / { tunnel_pass; } }")
    with server.client() as client:
        head, rest = connect(client, "127.0.0.1:%d" % echo, b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200 ")
        while not rest.endswith(b"\r\n\r\n"):
            rest += client.socket.recv(65536)
        assert rest == b"GET / HTTP/1.1\r\nHOST: X\r\n\r\n"


@pytest.mark.parametrize("target", ["127.0.0.1", "127.0.0.1:", ":80", ":", "127.0.0.1:65536", "127.0.0.1:x",
                                    "127.0.0.1:80/", "127.0.0.1:80?", "127.0.0.1:80#", "user:pass@127.0.0.1:80",
                                    "http://127.0.0.1:80", "/"])
def test_bad_targets(serve, target):
    server = serve("server { listen 127.0.0.1:@PORT@; location / { tunnel_pass; } }")
    with server.client() as client:
        assert connect(client, target)[0].startswith(b"HTTP/1.1 400 ")


def test_connect_without_a_tunnel_is_405(serve):
    server = serve(SERVER % "")
    with server.client() as client:
        assert connect(client, "127.0.0.1:1")[0].startswith(b"HTTP/1.1 405 ")


def test_http_1_0_and_other_methods(serve, echo):
    server = serve("server { listen 127.0.0.1:@PORT@; location / { tunnel_pass; } }")
    with server.client() as client:
        assert connect(client, "127.0.0.1:%d" % echo, version="1.0")[0].startswith(b"HTTP/1.1 405 ")
    assert server.get("/").status == 405


def test_connect_with_a_body_is_400(serve, echo):
    server = serve("server { listen 127.0.0.1:@PORT@; location / { tunnel_pass; } }")
    for field in (b"Content-Length: 5", b"Transfer-Encoding: chunked"):
        with server.client() as client:
            client.send(b"CONNECT 127.0.0.1:%d HTTP/1.1\r\nHost: h:1\r\n%s\r\n\r\n" % (echo, field))
            assert client.response().status == 400


def test_nobody_is_there(serve):
    server = serve("server { listen 127.0.0.1:@PORT@; location / { tunnel_pass; } }")
    with server.client() as client:
        head, _ = connect(client, "127.0.0.1:1", b"GET /smuggled HTTP/1.1\r\nHost: h\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 502 ") and b"\r\nConnection: close" in head
    assert not any("smuggled" in line for line in server.lines("error.log"))


def test_idle_tunnel_ends(serve, echo):
    server = serve("server { listen 127.0.0.1:@PORT@; location / { tunnel_pass; tunnel_read_timeout 300ms; } }")
    with server.client() as client:
        connect(client, "127.0.0.1:%d" % echo)
        assert through(client, b"a") == b"A"
        assert client.socket.recv(100) == b""
    assert any("upstream timed out" in line for line in server.lines("error.log"))


# ---- proxy_connect ----

def test_proxy_connect(serve, echo):
    server = serve("""
        log_format c '$connect_host $connect_port $connect_addr $request_method $status';
        access_log logs/a.log c;
        server { listen 127.0.0.1:@PORT@; proxy_connect; proxy_connect_allow %d;
                 location / { empty_gif; } }""" % echo)
    assert server.get("/").header("Content-Type") == "image/gif"
    with server.client() as client:
        head, _ = connect(client, "127.0.0.1:%d" % echo)
        assert head.startswith(b"HTTP/1.1 200 Connection Established\r\n")
        assert b"\r\nProxy-agent: nginx" in head
        assert through(client, b"hello") == b"HELLO"
    assert server.wait_lines("logs/a.log", 2) == [
        "- - - GET 200", "127.0.0.1 %d 127.0.0.1:%d CONNECT 200" % (echo, echo)]


def test_proxy_connect_ports(serve, echo):
    server = serve("""
        server { listen 127.0.0.1:@PORT@; server_name usual; proxy_connect; }
        server { listen 127.0.0.1:@PORT1@; proxy_connect; proxy_connect_allow 1-2 %d-%d; }
        server { listen 127.0.0.1:@PORT2@; proxy_connect; proxy_connect_allow all; }""" % (echo, echo))
    for port, status in (("PORT", b"403"), ("PORT1", b"200"), ("PORT2", b"200")):
        with server.client(port=server.port_of(port)) as client:
            assert connect(client, "127.0.0.1:%d" % echo)[0].startswith(b"HTTP/1.1 " + status)


def test_proxy_connect_elsewhere_and_answers(serve, echo):
    server = serve("""
        server { listen 127.0.0.1:@PORT@; proxy_connect; proxy_connect_allow all; proxy_connect_address 127.0.0.1:%d;
                 proxy_connect_response "HTTP/1.1 299 Mine\\r\\nX-Own:  $connect_port $connect_addr\\r\\n\\r\\n"; }
        server { listen 127.0.0.1:@PORT1@; proxy_connect; proxy_connect_allow all;
                 set $proxy_connect_response "HTTP/1.1 201 Set\\r\\n\\r\\n"; }
        server { listen 127.0.0.1:@PORT2@; proxy_connect; proxy_connect_allow all; proxy_connect_response "nonsense"; }
    """ % echo)
    with server.client() as client:
        head, _ = connect(client, "nowhere.example:77")
        assert head == b"HTTP/1.1 299 Mine\r\nX-Own:  77 127.0.0.1:%d" % echo # byte for byte
        assert through(client, b"a") == b"A"
    with server.client(port=server.port_of("PORT1")) as client:
        assert connect(client, "127.0.0.1:%d" % echo)[0] == b"HTTP/1.1 201 Set"
    with server.client(port=server.port_of("PORT2")) as client:
        assert connect(client, "127.0.0.1:%d" % echo)[0].startswith(b"HTTP/1.1 502 ")


def test_a_script_gives_the_answer(serve, echo):
    server = serve("""
        server { listen 127.0.0.1:@PORT@; proxy_connect; proxy_connect_allow all;
                 rewrite_by_lua_block { ngx.var.proxy_connect_response = "HTTP/1.1 201 Lua\\r\\n\\r\\n" } }
    """)
    with server.client() as client:
        assert connect(client, "127.0.0.1:%d" % echo)[0] == b"HTTP/1.1 201 Lua"
        assert through(client, b"a") == b"A"


def test_proxy_connect_refuses_with_an_answer(serve, echo):
    """What is no 2xx is no tunnel (RFC 9110, 9.3.6): nothing that follows goes anywhere."""
    server = serve("""server { listen 127.0.0.1:@PORT@; proxy_connect; proxy_connect_allow all;
                               proxy_connect_response "HTTP/1.1 403\\r\\nX: y\\r\\n\\r\\n"; }""")
    with server.client() as client:
        assert connect(client, "127.0.0.1:%d" % echo, b"hello") == (b"HTTP/1.1 403\r\nX: y", b"")
        assert client.socket.recv(100) == b""


def test_proxy_connect_of_old_clients(serve, echo):
    server = serve("server { listen 127.0.0.1:@PORT@; proxy_connect; proxy_connect_allow all; }")
    with server.client() as client:
        assert connect(client, "127.0.0.01:%d" % echo, version="1.0")[0].startswith(b"HTTP/1.1 200 ")
        assert through(client, b"a") == b"A"


def test_proxy_connect_to_a_name_that_is_none(serve):
    server = serve("""
        log_format c "$connect_host [$connect_addr]"; access_log logs/a.log c; resolver 127.0.0.1:@PORT1@;
        server { listen 127.0.0.1:@PORT@; proxy_connect; proxy_connect_allow all; resolver_timeout 50ms; }""")
    with server.client() as client:
        assert connect(client, "nobody.example:1")[0].startswith(b"HTTP/1.1 502 ")
    assert server.wait_lines("logs/a.log") == ["nobody.example [-]"]


def test_proxy_connect_times_where_there_are_none(serve):
    """"-" where the name is none or nobody listens, "" where no tunnel is wanted, as Tengine documents it."""
    server = serve("""
        log_format t '$request_method [$proxy_connect_resolve_time] [$proxy_connect_connect_time] [$proxy_connect_first_byte_time]';
        access_log logs/a.log t; resolver 127.0.0.1:@PORT1@;
        server { listen 127.0.0.1:@PORT@; proxy_connect; proxy_connect_allow all; resolver_timeout 50ms;
                 add_header X-Times "$proxy_connect_resolve_time|$proxy_connect_connect_time|$proxy_connect_first_byte_time" always;
                 location /get { return 200; } }""")
    with server.client() as client:
        head = connect(client, "nobody.example:1")[0]
        assert head.startswith(b"HTTP/1.1 502 ") and b"X-Times: -|-|-" in head
    with server.client() as client:
        assert connect(client, "127.0.0.1:@PORT2@".replace("@PORT2@", str(server.port_of("PORT2"))))[0].startswith(b"HTTP/1.1 502 ")
    assert server.get("/get").header("X-Times") == "||"
    lines = server.wait_lines("logs/a.log", 3)
    assert lines[0] == "CONNECT [-] [-] [-]" and re.fullmatch(r"CONNECT \[0\.\d{3}\] \[-\] \[-\]", lines[1]) and lines[2] == "GET [] [] []"


def test_proxy_connect_times_of_a_request(serve):
    """They read as milliseconds, whatever was assigned; what is no time leaves them alone."""
    server = serve("""
        log_format t "$proxy_connect_connect_timeout $proxy_connect_data_timeout $proxy_connect_read_timeout";
        access_log logs/a.log t;
        server { listen 127.0.0.1:@PORT@; proxy_connect; proxy_connect_allow all; proxy_connect_data_timeout 7s;
                 set $proxy_connect_connect_timeout $http_x; if ($http_y) { set $proxy_connect_read_timeout $http_y; } }""")
    for x, y in ((b"2s", b""), (b"nonsense", b"30ms")):
        with server.client() as client:
            client.send(b"CONNECT 127.0.0.1:1 HTTP/1.1\r\nHost: h\r\nX: %s\r\nY: %s\r\n\r\n" % (x, y))
            assert client.response().status == 502
    assert server.wait_lines("logs/a.log", 2) == ["2000 7000 7000", "60000 30 30"]
    assert any('invalid value "nonsense" of $proxy_connect_connect_timeout' in line for line in server.lines("error.log"))


def test_proxy_connect_times(serve, echo):
    server = serve("""
        log_format t '$proxy_connect_connect_time $proxy_connect_resolve_time $proxy_connect_first_byte_time';
        access_log logs/a.log t;
        server { listen 127.0.0.1:@PORT@; proxy_connect; proxy_connect_allow all;
                 set $proxy_connect_data_timeout 300ms; }""")
    with server.client() as client:
        connect(client, "127.0.0.1:%d" % echo)
        assert through(client, b"a") == b"A"
        assert client.socket.recv(100) == b""     # its time is up
    words = server.wait_lines("logs/a.log")[0].split()
    assert len(words) == 3 and all(word.count(".") == 1 for word in words)
    server.wait_log(r"proxy_connect: connection timed out \(110: Connection timed out\) while proxying connection")


@pytest.mark.parametrize("text, message", [
    ("proxy_connect_allow 0;", "invalid port or range"), ("proxy_connect_allow 5-4;", "invalid port or range"),
    ("proxy_connect_allow x;", "invalid port or range"), ("proxy_connect_allow 1-;", "invalid port or range"),
    ("proxy_connect_allow 70000;", "invalid port or range"), ("tunnel_pass a b;", "invalid number of arguments"),
    ("location / { tunnel_pass 127.0.0.1:99999; }", "invalid port in upstream"),
    ("location / { tunnel_pass; tunnel_pass; }", "duplicate"),
])
def test_configuration_errors(tmp_path, text, message):
    (tmp_path / "n.conf").write_text("pid n.pid; error_log e.log; events { } http { access_log off; "
                                     "server { %s } }" % text)
    result = run_binary("-t", "-p", str(tmp_path), "-c", "n.conf", "-e", "e.log")
    assert result.returncode == 1 and message in result.stderr
