"""A backend that is this server itself: a request that circles ends with 508, in each protocol, and leaves room."""

import pytest

import certificates

from harness import Timeout, until
from harness.h2 import H2

AGAIN = "proxy_pass http://127.0.0.1:@PORT@;"
SOCKET = "proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection upgrade;"

# Name -> what is in http, in server before its location, and in the location that asks the server again.
WAYS = {
    "HTTP/1": ("", "", AGAIN),
    "HTTP/1.0": ("", "", AGAIN + "proxy_http_version 1.0;"),
    "kept": ("upstream u { server 127.0.0.1:@PORT@; keepalive 32; }", "", "proxy_pass http://u; proxy_http_version 1.1;"
             "proxy_set_header Connection '';"),
    "a name that the client chose": ("", "", "proxy_pass http://$http_x_target; proxy_set_header X-Target $http_x_target;"),
    "unbuffered": ("", "", AGAIN + "proxy_buffering off; proxy_request_buffering off;"),
    "abort ignored": ("", "", AGAIN + "proxy_ignore_client_abort on;"),
    "upgrade": ("", "", AGAIN + SOCKET),
    "HTTP/2": ("http2 on;", "", AGAIN + "proxy_http_version 2;"),
    "gRPC": ("http2 on;", "", "grpc_pass grpc://127.0.0.1:@PORT@;"),
    "PROXY protocol": ("", "listen 127.0.0.1:@PORT1@ proxy_protocol; set_real_ip_from 127.0.0.1; real_ip_header proxy_protocol;",
                       "proxy_protocol on; proxy_pass http://127.0.0.1:@PORT1@;"),
    "a unix socket": ("", "listen unix:@DIR@/own.sock;", "proxy_pass http://unix:@DIR@/own.sock:/;"),
    "IPv4 over IPv6": ("", "listen [::]:@PORT1@ ipv6only=off;", "proxy_pass http://127.0.0.1:@PORT1@;"),
    "another loopback": ("", "listen *:@PORT1@;", "proxy_pass http://127.0.0.2:@PORT1@;"),
    "all addresses": ("", "listen 0.0.0.0:@PORT1@;", "proxy_pass http://0.0.0.0:@PORT1@;"),
    "waited for in the cache": ("proxy_cache_path @DIR@/cache keys_zone=c:1m;", "",
                                AGAIN + "proxy_cache c; proxy_cache_valid 200 1m; proxy_cache_lock on;"),
    "bound": ("", "", AGAIN + "proxy_bind 127.0.0.3;"),
    "its own error page": ("proxy_intercept_errors on;", "error_page 508 @again; location @again { %s }" % AGAIN, AGAIN),
    "next upstream": ("upstream u { server 127.0.0.1:@PORT@; server 127.0.0.1:@PORT@; }", "",
                      "proxy_pass http://u; proxy_next_upstream error timeout http_500 http_502;"),
}


def start(serve, way, **more):
    text, server, location = way
    return serve("""access_log access.log; %s
        server { listen 127.0.0.1:@PORT@; %s location / { %s } location = /fine { return 200 fine; } }"""
                 % (text, server, location), **more)


def came_round(server):
    return server.error_log.count("the request has passed through this server 11 times")


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_circle_ends(serve, way):
    server = start(serve, way, main="worker_processes 2;")
    for n in range(1, 3):
        answer = server.get("/", "X-Target: 127.0.0.1:%d" % server.port, "Upgrade: websocket")
        assert answer.status == 508
        assert came_round(server) == n
    assert server.get("/fine").text == "fine"
    server.wait_lines("access.log", 2 * 11)
    assert len(server.lines("access.log")) < 2 * 13
    assert server.error_log.count("[error]") < 5, server.error_log


def test_circle_with_a_post_action(serve):
    """One more round, not one for each request of the first."""
    server = start(serve, ("", "location @again { %s }" % AGAIN, "post_action @again; " + AGAIN))
    assert server.get("/").status == 508
    server.wait_lines("access.log", 23)
    assert server.get("/fine").text == "fine"
    assert len(server.lines("access.log")) < 27


def test_circle_over_tls(serve):
    pair = certificates.own("localhost")
    server = start(serve, ("", "listen 127.0.0.1:@PORT1@ ssl; ssl_certificate %s; ssl_certificate_key %s;"
                           % (pair.crt, pair.key), "proxy_pass https://127.0.0.1:@PORT1@;"))
    assert server.get("/").status == 508
    assert came_round(server) == 1


@pytest.mark.parametrize("way", ["fastcgi_pass", "uwsgi_pass", "scgi_pass", "memcached_pass"])
def test_other_protocols_are_refused_at_once(serve, way):
    """What they say is no HTTP: nothing circles."""
    key = "set $memcached_key a;" if way == "memcached_pass" else ""
    server = start(serve, ("", "", "%s %s 127.0.0.1:@PORT@;" % (key, way)))
    assert server.get("/").status in (400, 502)
    assert len(server.wait_lines("access.log", 2)) == 2
    assert "400" in server.lines("access.log")[0] or "400" in server.lines("access.log")[1]


def test_streams_of_one_connection(serve):
    """HTTP/2 to oneself shares connections, but never between requests that came round differently often."""
    server = start(serve, ("http2 on;", "", AGAIN + "proxy_http_version 2;"))
    with H2(server.port) as client:
        streams = [client.request("/") for _ in range(8)]
        assert {client.answer(stream).status for stream in streams} == {508}
        assert client.answer(client.request("/fine")).body == b"fine"
    assert came_round(server) == 8


def test_servers_in_front_of_each_other(serve):
    """It is no circle to ask another server of the same file, once or three times."""
    server = serve("""
        server { listen 127.0.0.1:@PORT@; location / { proxy_pass http://127.0.0.1:@PORT1@; } }
        server { listen 127.0.0.1:@PORT1@; location / { proxy_pass http://127.0.0.1:@PORT2@; } }
        server { listen 127.0.0.1:@PORT2@; location / { proxy_pass http://127.0.0.1:@PORT3@/fine; } }
        server { listen 127.0.0.1:@PORT3@; max_self_hops 3; location / { return 200 fine; } }
        server { listen 127.0.0.1:@PORT3@; server_name strict; max_self_hops 2; }
    """, main="worker_processes 2;")
    for _ in range(3):
        assert server.get("/").text == "fine"
    server.configure("""
        server { listen 127.0.0.1:@PORT@; location / { proxy_pass http://127.0.0.1:@PORT1@; } }
        server { listen 127.0.0.1:@PORT1@; max_self_hops 0; location / { return 200 fine; } }
    """)
    server.reload()
    until(lambda: server.get("/").status == 508, "the new configuration")
    assert server.get("/", port=server.port_of("PORT1")).text == "fine"


def test_circles_after_a_reload(serve):
    """Who listens is known to the service, not to one generation of its configuration."""
    server = start(serve, ("", "", AGAIN), main="worker_processes 2;")
    client = server.client()
    assert client.request("/").status == 508
    server.reload()
    assert client.request("/").status == 508
    assert came_round(server) == 2


def nest(server, levels=20):
    """Tunnels to the server in one another, until it refuses one; gives the client, how many there are, and why."""
    client = server.client()
    target = "127.0.0.1:%d" % server.port
    for n in range(levels):
        client.send("CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n" % (target, target))
        head = client.head()
        if head.status != 200:
            return client, n, head.status
    client.send("POST /late HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\nExpect: 100-continue\r\n\r\n")
    return client, levels, client.head().status


def tunnels(serve, **more):
    return serve("""server { listen 127.0.0.1:@PORT@; client_body_early_read $content_length; location / { tunnel_pass; }
        location = /fine { return 200 fine; } location = /late { return 200; } }""", **more)


def test_tunnels_in_tunnels(serve):
    server = tunnels(serve)
    _, levels, status = nest(server)
    assert (levels, status) == (10 + 1, 508)
    assert came_round(server) == 1


def test_tunnels_to_oneself_leave_room_for_others(serve):
    """They stay open as long as their client likes: all of them together have a share."""
    server = tunnels(serve, main="worker_processes 1;", events="worker_connections 64;",
                     allow=["not enough for more connections of this server to itself"])
    held = []
    for _ in range(12):
        try:
            held.append(nest(server, 5))
        except (Timeout, OSError) as error:
            pytest.fail(repr(error))
    assert {status for _, _, status in held} == {100, 500}
    assert server.get("/fine").text == "fine"
    for client, _, _ in held:
        client.close()
    assert server.get("/fine").text == "fine"
