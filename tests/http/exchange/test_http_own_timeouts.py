"""$upstream_read_time, $upstream_send_time, $upstream_connect_time (Tengine): time limits that a request sets for itself. And
cookies of backends, attributes of ours."""

import socket

import pytest


@pytest.fixture(name="silent")
def _silent():
    """A port on which connections are accepted, and nothing is read or said."""
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        listener.bind(("127.0.0.1", 0))
        listener.listen(16)
        yield listener.getsockname()[1]


def test_read(serve, silent):
    server = serve("""log_format t '[$upstream_read_time] [$upstream_send_time]'; access_log logs/t t;
        server { listen 127.0.0.1:@PORT@; proxy_read_timeout 1h; fastcgi_read_timeout 1h; proxy_next_upstream off;
        location / { set $upstream_read_time 300ms; proxy_pass http://127.0.0.1:%d; }
        location /if { if ($arg_t) { set $upstream_read_time $arg_t; } fastcgi_pass 127.0.0.1:%d; } }""" % (silent, silent))
    assert server.get("/").status == 504
    assert server.get("/if?t=1").status == 504
    assert server.wait_lines("logs/t", 2) == ["[300] [-]", "[1000] [-]"]


def test_send(serve, silent):
    server = serve("""server { listen 127.0.0.1:@PORT@; proxy_send_timeout 1h; proxy_read_timeout 1h; client_max_body_size 0; proxy_socket_sndbuf 4k;
        location / { set $upstream_send_time 300ms; proxy_pass http://127.0.0.1:%d; } }""" % silent)
    with server.client() as client:
        assert client.request("/", method="PUT", body=bytes(4000000)).status == 504


def test_what_is_no_time(serve, backend):
    back = backend([b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"] * 9)
    server = serve("""upstream u { server 127.0.0.1:%d; keepalive 2 local; }
        server { listen 127.0.0.1:@PORT@; location / { set $upstream_read_time $arg_t; set $upstream_connect_time 5s;
            proxy_pass http://u; add_header X-Time "$upstream_read_time;$upstream_connect_time"; } }""" % back.port)
    assert server.get("/?t=abc").header("X-Time").startswith(";0.")
    server.wait_log(r'\[error\].* invalid \$upstream_read_time "abc"')
    assert server.get("/?t=20").header("X-Time").startswith("20000;0.")
    assert back.connections == 1        # a copy of the settings is of the same location


@pytest.mark.parametrize("line, value", [
    ("a=1\tb; path=/", "1\tb"), ("a=\t1; x", "\t1"), ("a= 1; x", "1"), ("a=1\t; x", "1\t"), ("a=1 ; x", "1"), ("a\t=1; x", ""),
    ("a =1; x", "1"), ("A=1", "1"), ("a==1", "=1"), ("b=2; a=1", "")])
def test_cookies_of_backends(serve, backend, line, value):
    """Spaces around the equals sign do not count; a tab is none."""
    back = backend([b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nSet-Cookie: %s\r\n\r\nok" % line.encode()])
    server = serve("""server { listen 127.0.0.1:@PORT@; location / { proxy_pass http://127.0.0.1:%d;
        add_header X-Cookie "[$upstream_cookie_a]"; } }""" % back.port)
    assert server.get("/").header("X-Cookie") == "[%s]" % value


@pytest.mark.parametrize("asked, attribute", [("", None), ("lax", "samesite=lax"), ("None", "samesite=None"), ("x", "samesite=strict")])
def test_samesite_by_variable(serve, backend, asked, attribute):
    back = backend([b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"] * 9)
    server = serve("""upstream u { server 127.0.0.1:%d; sticky cookie srv samesite=$arg_s; }
        server { listen 127.0.0.1:@PORT@; location / { proxy_pass http://u; } }""" % back.port)
    cookie = server.get("/?s=" + asked).header("Set-Cookie").split("; ")
    assert cookie[1:] == ([] if attribute is None else [attribute])
