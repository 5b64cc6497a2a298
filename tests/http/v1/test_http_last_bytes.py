"""The last bytes of a connection are held back for its FIN, which follows at once however the connection ends. A socket that gets
none sends them after 0.2 s. Machines stall, so that one time of a few has to be good."""

import time

import pytest

from harness.backend import Backend

CLOSE = b"Connection: close\r\n\r\n"
SITE = """
    client_body_timeout 5s;
    server { listen 127.0.0.1:@PORT@; root html; error_page 404 @none;
        location @none { return 404 "none"; }
        location /text { return 200 "text"; }
        location /none { return 204; }
        location /always { lingering_close always; lingering_timeout 1s; return 200 "text"; }
        location /off { lingering_close off; return 200 "text"; }
        location /late { postpone_output 0; tcp_nopush on; tcp_nodelay off; try_files /big =404; }
        location /rate { limit_rate 10m; try_files /big =404; }
        location /sub { ssi on; ssi_types *; default_type text/html; try_files /sub.txt =404; }
        location /zip { gzip on; gzip_types *; gzip_min_length 1; try_files /big =404; }
        location /proxy { proxy_pass http://127.0.0.1:%d; }
        location /plain { proxy_buffering off; proxy_pass http://127.0.0.1:%d; }
    }"""
ENDLESS = b"HTTP/1.0 200 OK\r\n\r\n" + b"x" * 20000
REQUESTS = [
    b"GET /text HTTP/1.0\r\n\r\n",
    b"GET /text HTTP/1.1\r\nHost: a\r\n" + CLOSE,
    b"HEAD /big HTTP/1.1\r\nHost: a\r\n" + CLOSE,
    b"GET /none HTTP/1.1\r\nHost: a\r\n" + CLOSE,
    b"GET /big HTTP/1.1\r\nHost: a\r\nIf-Modified-Since: Tue, 14 Nov 2023 22:13:20 GMT\r\n" + CLOSE,
    b"GET /nothing HTTP/1.1\r\nHost: a\r\n" + CLOSE,
    b"GET /big HTTP/1.1\r\nHost: a\r\n" + CLOSE,
    b"GET /big HTTP/1.1\r\nHost: a\r\nRange: bytes=0-0,5-9\r\n" + CLOSE,
    b"GET /late HTTP/1.1\r\nHost: a\r\n" + CLOSE,
    b"GET /rate HTTP/1.1\r\nHost: a\r\n" + CLOSE,
    b"GET /sub HTTP/1.1\r\nHost: a\r\n" + CLOSE,
    b"GET /zip HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\n" + CLOSE,
    b"GET /always HTTP/1.1\r\nHost: a\r\n" + CLOSE,
    b"POST /off HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n" + CLOSE,
    b"POST /text HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n" + CLOSE,
    b"POST /text HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\nExpect: 100-continue\r\n" + CLOSE,
    b"GET /text HTTP/1.1\r\nHost: a\r\n\r\nGET /big HTTP/1.1\r\nHost: a\r\n\r\nGET /text HTTP/1.1\r\nHost: a\r\n" + CLOSE + b"GET",
    b"GET /proxy HTTP/1.1\r\nHost: a\r\n" + CLOSE,
    b"GET /proxy HTTP/1.0\r\n\r\n",
    b"GET /plain HTTP/1.1\r\nHost: a\r\n" + CLOSE,
    b"GET / HTTP/9.9\r\n\r\n",
    b"nonsense\r\n\r\n",
]


def took(server, request):
    """Seconds until the last byte is there, and it is the last one."""
    with server.client() as client:
        start = last = time.monotonic()
        client.send(request)
        while client.recv():
            last = time.monotonic()
        assert last != start
        return last - start


@pytest.fixture(name="server")
def _server(serve):
    backends = [Backend([ENDLESS]) for _ in range(2)]
    yield serve(SITE % tuple(backend.port for backend in backends),
                files={"html/big": b"b" * 300001, "html/sub.txt": '<!--#include virtual="/text"--> and'})
    for backend in backends:
        backend.close()


def test_no_last_byte_is_held_back(server):
    for request in REQUESTS:
        assert any(took(server, request) < 0.15 for _ in range(4)), request
