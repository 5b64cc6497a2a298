"""Fields of backends are passed on in the order in which they came, as with nginx: ETag, Last-Modified and Location among them."""

import pytest

import fastcgi_backends as fcgi
from harness.h2 import H2

DATE = "Sun, 09 Sep 2001 01:46:40 GMT"
ORDERS = [
    ["X-A: 1", 'ETag: "x"', "X-Powered-By: PHP", "Last-Modified: " + DATE, "X-B: 2"],
    ["Last-Modified: " + DATE, "X-A: 1", "X-Powered-By: PHP", 'ETag: "x"'],
    ['ETag: "x"', "Last-Modified: " + DATE, "X-A: 1"],
    ["Last-Modified: " + DATE, 'ETag: "x"', "X-A: 1"],
    ["X-A: 1", 'ETag: "x"', "Last-Modified: " + DATE],
    ["Set-Cookie: a=1", "X-A: 1", 'ETag: "x"', "Set-Cookie: b=2", "Cache-Control: max-age=9", "Vary: X", "Location: http://a/"],
    ["X-A: 1", "Location: http://to/b", 'ETag: "x"', "X-B: 1"],
]
OWN = {"transfer-encoding", "server", "date", "content-type", "content-length", "connection",
       "x-own"}


def names(lines):
    return [line.split(":")[0].lower() for line in lines]


def seen(pairs):
    return [name.lower() for name, _ in pairs if name.lower() not in OWN and not name.startswith(":")]


@pytest.mark.parametrize("order", ORDERS)
def test_order(serve, backend, order):
    head = "".join("%s\r\n" % line for line in order).encode()
    back = backend([b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n" + head + b"\r\nok"] * 9)
    with fcgi.Scripted(fcgi.answer(b"ok", head + b"\r\n")) as other:
        server = serve("""proxy_cache_path @DIR@/c keys_zone=c:1m; http2 on;
            server { listen 127.0.0.1:@PORT@; proxy_redirect http://to/ http://here/; add_header X-Own 1;
                location / { proxy_pass http://127.0.0.1:%d; }
                location /cached { proxy_pass http://127.0.0.1:%d; proxy_cache c; proxy_cache_valid 1h; proxy_ignore_headers Set-Cookie Vary; }
                location /fastcgi { fastcgi_pass 127.0.0.1:%d; } }""" % (back.port, back.port, other.port))
        for path in ["/", "/fastcgi", "/cached", "/cached"]:
            answer = server.get(path, method="GET")
            assert seen(answer.headers) == names(order), path
            assert answer.headers[-1][0] == "X-Own"
        with H2(server.port) as client:
            for path in ["/", "/cached"]:
                assert seen(client.get(path).heads[-1]) == names(order), path


def test_order_when_a_filter_changes_the_tag(serve, backend):
    back = backend([b'HTTP/1.1 200 OK\r\nContent-Length: 30\r\nX-A: 1\r\nETag: "x"\r\nX-B: 2\r\n\r\n' + b"a" * 30])
    server = serve("""gzip on; gzip_min_length 1; gzip_types *; gzip_proxied any; server { listen 127.0.0.1:@PORT@;
        location / { proxy_pass http://127.0.0.1:%d; } }""" % back.port)
    answer = server.get("/", "Accept-Encoding: gzip")
    assert answer.header("ETag") == 'W/"x"'
    assert [name for name, _ in answer.headers][-4:] == ["X-A", "ETag", "X-B", "Content-Encoding"]
