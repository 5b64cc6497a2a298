"""Small directives do the same on every version of HTTP: internal_redirect, auth_require, *_set_header_inherit, *_request_dynamic, session_log, mp4_limit_rate."""

import struct

import pytest

import certificates
from harness import h3
from harness.h2 import H2
from harness.server import Server
from tls_client import pair


def box(kind, inside):
    return struct.pack(">I4s", len(inside) + 8, kind.encode()) + inside


MOOV = box("moov", box("mvhd", struct.pack(">IIIII", 0, 0, 0, 600, 60 * 600) + bytes(80)))
VIDEO = box("ftyp", b"isom" + bytes(4)) + MOOV + box("mdat", bytes(60000 - len(MOOV) - 24))
SITE = """
    map $arg_a $ok { default $arg_a; }
    session_log_format line '$session_log_id $body_bytes_sent';
    session_log_zone sessions.log zone=s:1m format=line timeout=1h md5=$arg_s;
    upstream second { server 127.0.0.1:1; server localhost:@PORT1@ backup; }
    proxy_set_header X-Outer outer;
    server {
        listen 127.0.0.1:@PORT@; listen 127.0.0.1:@PORT2@ quic; %s http2 on; root html;
        location /to { internal_redirect /there; }
        location /named { internal_redirect @named; }
        location /there { internal; return 200 "$uri|$args"; }
        location @named { return 200 "named $uri"; }
        location /denied { auth_require $ok error=404; alias html/; location /denied/in/ { alias html/; } }
        location /again/ { auth_require $arg_b; alias html/; }
        location /headers { proxy_pass http://127.0.0.1:@PORT1@; proxy_set_header_inherit merge; proxy_set_header X-Inner inner;
            location /headers/own { proxy_pass http://127.0.0.1:@PORT1@; proxy_set_header_inherit on; proxy_set_header X-Inner own; } }
        location /dynamic { proxy_pass http://second; proxy_request_dynamic on; proxy_set_header X-Outer $upstream_last_server_name; proxy_set_header X-Inner dynamic; }
        location /logged { session_log s; return 200 $session_log_id; }
        location /video { alias html/; mp4; mp4_limit_rate on; mp4_limit_rate_after 2m; add_header Rate $limit_rate; }
    }
    server { listen 127.0.0.1:@PORT1@; return 200 "$http_x_outer $http_x_inner"; }
"""
ROWS = [
    ("/to?a=1", 200, "/there|a=1"), ("/named/x", 200, "named /named/x"), ("/there", 404, None), ("/denied/a", 404, None), ("/denied/a?a=0", 404, None),
    ("/denied/a?a=1", 200, "text"), ("/denied/in/a", 404, None), ("/denied/in/a?a=1", 200, "text"), ("/again/a?a=1", 403, None), ("/again/a?b=1", 200, "text"),
    ("/headers", 200, "outer inner"), ("/headers/own", 200, " own"),
]


@pytest.fixture(scope="module", name="site")
def _site():
    with Server(SITE % pair(certificates.own("localhost")), files={"html/a": "text", "html/v.mp4": VIDEO}) as server:
        yield server


def over_1_0(server, path, method):
    with server.client() as client:
        client.send("%s %s HTTP/1.0\r\nHost: x\r\n\r\n" % (method, path))
        answer = client.response(method)
        return answer.status, answer.body, answer.header("Rate")


def over_1_1(server, path, method):
    answer = server.get(path, method=method)
    return answer.status, answer.body, answer.header("Rate")


def over_2(server, path, method):
    with H2(server.port) as client:
        answer = client.get(path, method=method)
        return answer.status, answer.body, dict(answer.headers).get("rate")


def over_3(server, path, method):
    if not h3.HAS_AIOQUIC:
        pytest.skip("without aioquic: see auto/aioquic")
    with h3.H3(server.port_of("PORT2")) as client:
        answer = client.get(path, method=method)
        return answer.status, answer.body, dict(answer.headers).get("rate")


@pytest.mark.parametrize("ask", [over_1_0, over_1_1, over_2, over_3])
def test_every_version(site, ask):
    for path, status, text in ROWS:
        found = ask(site, path, "GET")
        assert found[0] == status and (text is None or found[1] == text.encode()), path
        assert ask(site, path, "HEAD")[:2] == (status, b""), path
    assert ask(site, "/dynamic", "GET")[1] == b"localhost dynamic"
    first, again, other = [ask(site, "/logged?s=" + session, "GET")[1] for session in (ask.__name__, ask.__name__, ask.__name__ + "x")]
    assert first == again != other and len(first) == 32
    assert ask(site, "/video/v.mp4", "GET") == (200, VIDEO, "1100")
