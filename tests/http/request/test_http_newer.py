"""What nginx 1.23 to 1.31 brought, so that the 1.22 reference cannot show it."""

import pytest

from harness import binaries, until
from harness.workers import wait_workers

pytestmark = pytest.mark.skipif(binaries.is_nginx_before(binaries.under_test(), 1, 29, 4),
                                reason="the reference is older")


def test_add_header_inherit(serve):
    server = serve("""
        add_header X-Http http;
        server { listen 127.0.0.1:@PORT@; root html; add_header X-Server server;
            location /default { return 200; add_header X-Own own; }
            location /none { return 200; }
            location /on { add_header_inherit on; return 200; add_header X-Own own; }
            location /merge { add_header_inherit merge; return 200; add_header X-Own own; }
            location /off { add_header_inherit off; return 200; }
            location /offown { add_header_inherit off; return 200; add_header X-Own own; }
            location /nested { add_header_inherit merge; add_header X-Own own;
                location /nested/in { add_header X-In in; return 200; }
                location /nested/on { add_header_inherit on; add_header X-In in; return 200; } }
        }
    """)

    def seen(target):
        return [pair for pair in server.get(target).headers if pair[0].startswith("X-")]
    assert seen("/none") == [("X-Server", "server")]
    assert seen("/default") == [("X-Own", "own")]
    assert seen("/on") == [("X-Own", "own")]
    assert seen("/merge") == [("X-Own", "own"), ("X-Server", "server")]
    assert seen("/off") == []
    assert seen("/offown") == [("X-Own", "own")]
    assert seen("/nested/in") == [("X-In", "in"), ("X-Own", "own"), ("X-Server", "server")]
    assert seen("/nested/on") == [("X-In", "in")]


def test_add_trailer_inherit(serve):
    server = serve("""
        server { listen 127.0.0.1:@PORT@; add_trailer X-Server server;
            location /merge { add_trailer_inherit merge; return 200 x; add_trailer X-Own own; }
            location /off { add_trailer_inherit off; return 200 x; }
            location /none { return 200 x; }
        }
    """)
    assert server.get("/none").trailers == [("X-Server", "server")]
    assert server.get("/merge").trailers == [("X-Own", "own"), ("X-Server", "server")]
    assert server.get("/off").trailers == [] and server.get("/off").framing == "length"


def test_request_port(serve):
    """$request_port is the port as written by the client, $is_request_port the colon for it."""
    server = serve("""
        server { listen 127.0.0.1:@PORT@; server_name a;
                 return 200 "$host$is_request_port$request_port"; }
    """)
    with server.client() as client:
        assert client.request(host="a").text == "a"
        assert client.request(host="a:8080").text == "a:8080"
        assert client.request(host="a:").text == "a"
        assert client.request(host="[::1]:81").text == "[::1]:81"
        assert client.request("http://b:82/", host="a:83").text == "b:82"
        assert client.request("http://b/", host="a:83").text == "b"


def test_repeated_fields_join_in_variables(serve):
    server = serve("""
        server { listen 127.0.0.1:@PORT@;
                 add_header X-One a; add_header X-One b; add_header Link l1; add_header Link l2;
                 add_header Cache-Control c1; add_header Cache-Control c2;
                 location /in {
                     set $one "$http_x_y|$http_user_agent|$content_type";
                     return 200 "$one|$http_x_forwarded_for|$http_cookie"; }
                 location /out { return 200 "x"; add_header X-All "$sent_http_x_one"; } }
        log_format f '$sent_http_x_one|$sent_http_link|$sent_http_cache_control';
        access_log logs/a.log f;
    """)
    assert server.get("/in", "X-Y: 1", "X-Y: 2", "User-Agent: a", "User-Agent: b",
                      "Content-Type: t", "Content-Type: u", "X-Forwarded-For: f",
                      "X-Forwarded-For: g", "Cookie: c=1", "Cookie: d=2").text \
        == "1, 2|a, b|t, u|f, g|c=1; d=2"
    assert server.wait_lines("logs/a.log") == ["a, b|l1, l2|c1, c2"]


def test_early_hints_directive_alone_sends_nothing(serve):
    """It is a condition for hints of an upstream; a file has none."""
    server = serve("""
        server { listen 127.0.0.1:@PORT@; early_hints $http_sec_fetch_mode 1; root html; }
    """, files={"html/f": "x"})
    response = server.get("/f", "Sec-Fetch-Mode: navigate")
    assert response.interim == [] and response.text == "x"


@pytest.mark.parametrize("line", [
    "keepalive_min_timeout 5s;", "max_headers 5;", "early_hints $http_x;",
    "add_header_inherit merge;", "client_body_early_read $http_x 1;", "server_tokens build;",
    "resolver 127.0.0.1 ipv4=off;", "resolver 127.0.0.1 ipv6=off valid=1s;"])
def test_new_directives_are_accepted(serve, line):
    server = serve("%s server { listen 127.0.0.1:@PORT@; return 200 'x'; }" % line)
    assert server.get("/").text == "x"


def test_nginx_version_is_the_level_of_compatibility(serve):
    server = serve("server { listen 127.0.0.1:@PORT@; return 200 '$nginx_version'; }")
    assert server.get("/").text == "1.31.5"


def test_location_prefixes_longer_than_255_bytes(serve):
    """1.22 chooses wrongly here (fixed in 1.23.4)."""
    long = "/" + "a" * 300
    server = serve("""
        server { listen 127.0.0.1:@PORT@; location / { return 200 "root"; }
                 location %s/x { return 200 "x"; } location %s/y { return 200 "y"; }
                 location %s { return 200 "long"; } }
    """ % (long, long, long))
    seen = [server.get(long + end).text for end in ("/x", "/y", "/z", "")]
    assert seen == ["x", "y", "long", "long"]
    assert server.get("/" + "a" * 299).text == "root"


def test_tengine_reuse_port(serve):
    server = serve("server { listen 127.0.0.1:@PORT@; return 200 '$pid'; }",
                   main="worker_processes 2;", events="reuse_port on;")
    workers = {str(pid) for pid in wait_workers(server, 2)}
    seen = set()
    # One that is slow to turn has its connections accepted by the other, so that it may take more than a few.
    until(lambda: seen.add(server.get("/").text) or seen == workers, "an answer of each worker")
