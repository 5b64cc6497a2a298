"""uwsgi_pass: packets as the protocol has them, and a WSGI application behind the real uwsgi."""

import contextlib
import hashlib

import pytest

import cgi_backends

APPLICATION = '''
import hashlib

def application(environ, start_response):
    path = environ["PATH_INFO"]
    body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
    if path == "/large":
        start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", "3000000")])
        return (b"0123456789" * 30000 for _ in range(10))
    if path == "/endless":
        start_response("200 OK", [("Content-Type", "text/plain")])
        return (b"part %d\\n" % n for n in range(1000))
    if path == "/upload":
        start_response("200 OK", [("X-Sum", hashlib.sha256(body).hexdigest())])
        return [b"%d" % len(body)]
    if path == "/environ":
        start_response("200 OK", [("Content-Type", "text/plain")])
        return ["".join("%s=%s\\n" % pair for pair in sorted(environ.items())
                        if isinstance(pair[1], str)).encode("latin-1")]
    if path == "/cookies":
        start_response("418 Teapot", [("Set-Cookie", "a=1"), ("Set-Cookie", "b=2")])
        return [b""]
    if path == "/crash":
        raise RuntimeError("asked for")
    start_response("404 Not Found", [("Content-Type", "text/plain")])
    return [b"no such thing"]
'''

PLACE = """
    server { listen 127.0.0.1:@PORT@; client_max_body_size 10m; client_body_buffer_size 16k;
        uwsgi_param QUERY_STRING $query_string;
        uwsgi_param REQUEST_METHOD $request_method;
        uwsgi_param CONTENT_TYPE $content_type;
        uwsgi_param CONTENT_LENGTH $content_length;
        uwsgi_param REQUEST_URI $request_uri;
        uwsgi_param PATH_INFO $document_uri;
        uwsgi_param SERVER_PROTOCOL $server_protocol;
        uwsgi_param REMOTE_ADDR $remote_addr;
        uwsgi_param SERVER_PORT $server_port;
        uwsgi_param SERVER_NAME $server_name;
        location / { uwsgi_pass uwsgi://127.0.0.1:@BACKEND@; }
        location /stream/ { rewrite ^/stream(/.*) $1 break; uwsgi_pass 127.0.0.1:@BACKEND@;
                            uwsgi_request_buffering off; uwsgi_buffering off; }
    }
"""


@pytest.fixture(scope="module")
def application():
    """A WSGI application behind uwsgi."""
    backend = cgi_backends.Program("uwsgi", "--plugin", "python3", "--socket", "127.0.0.1:@PORT@",
                                   "--wsgi-file", "app.py", "--buffer-size", "32768",
                                   "--threads", "2", files={"app.py": APPLICATION})
    yield backend
    backend.close()


def test_application(serve, application):
    server = serve(PLACE.replace("@BACKEND@", str(application.port)))
    with server.client() as client:
        response = client.request("/environ?q=1", "X-Some: thing", host="name:99")
        assert response.status == 200
        environ = dict(line.split("=", 1) for line in response.text.splitlines())
        assert environ["QUERY_STRING"] == "q=1" and environ["PATH_INFO"] == "/environ"
        assert environ["HTTP_X_SOME"] == "thing" and environ["HTTP_HOST"] == "name:99"
        response = client.request("/cookies")
        assert response.status == 418 and response.all("Set-Cookie") == ["a=1", "b=2"]
        assert client.request("/nowhere").status == 404
        assert client.request("/large").body == b"0123456789" * 300000
        response = client.request("/endless")
        assert response.text == "".join("part %d\n" % n for n in range(1000))
        assert client.request("/large", method="HEAD").header("Content-Length") == "3000000"
    with server.client() as client:
        assert client.request("/crash").status in (500, 502)


@pytest.mark.parametrize("prefix", ["", "/stream"])
def test_uploads(serve, application, prefix):
    server = serve(PLACE.replace("@BACKEND@", str(application.port)))
    with server.client() as client:
        for size in (0, 10, 100000, 5000000):
            body = bytes(n & 255 for n in range(251)) * (size // 251 + 1)
            response = client.request(prefix + "/upload", method="POST", body=body[:size])
            assert response.text == str(size)
            assert response.header("X-Sum") == hashlib.sha256(body[:size]).hexdigest()


def test_packet(serve):
    """The bytes of a packet."""
    with contextlib.closing(cgi_backends.Scripted(lambda pairs, body, conn: b"\r\n",
                                                  read=cgi_backends.read_uwsgi)) as backend:
        server = serve("""
            server { listen 127.0.0.1:@PORT@;
                location / { uwsgi_pass 127.0.0.1:%d; uwsgi_modifier1 5; uwsgi_modifier2 7;
                    uwsgi_param CONTENT_LENGTH $content_length;
                    uwsgi_param A $arg_a; uwsgi_param B $arg_b if_not_empty; }
            }
        """ % backend.port)
        with server.client() as client:
            assert client.request("/", "X-Y: z", method="POST", body=b"hello", host="h").status == 200
        pairs, body = backend.requests[0]
        assert pairs == [("modifier1", 5), ("modifier2", 7), ("CONTENT_LENGTH", "5"), ("A", ""),
                         ("HTTP_HOST", "h"), ("HTTP_X_Y", "z"), ("HTTP_CONTENT_LENGTH", "5")]
        assert body == b"hello"


def test_packet_that_is_too_big(serve):
    with contextlib.closing(cgi_backends.Scripted(lambda pairs, body, conn: b"\r\n",
                                                  read=cgi_backends.read_uwsgi)) as backend:
        server = serve("""
            server { listen 127.0.0.1:@PORT@;
                location / { uwsgi_pass 127.0.0.1:%d; uwsgi_param A %s; }
            }
        """ % (backend.port, "$args" * 12), allow=["uwsgi request is too big"])
        assert server.get("/?" + "x" * 6000).status == 500
        server.wait_log("uwsgi request is too big: 72")
        assert server.get("/?" + "x" * 5000).status == 200
        assert backend.requests[0][0][2] == ("A", "x" * 60000)


def test_nobody_listens(serve):
    server = serve("""
        server { listen 127.0.0.1:@PORT@; location / { uwsgi_pass 127.0.0.1:@PORT1@; } }
    """)
    assert server.get("/").status == 502
    server.wait_log("connect\\(\\) failed .*upstream: \"uwsgi://127.0.0.1:%d\""
                    % server.port_of("PORT1"))
