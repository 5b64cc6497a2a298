"""What may go out once only (POST, PATCH, streamed bodies) takes no kept connection that its backend may be about to close."""

import pytest

from fastcgi_backends import Scripted, answer, hang_up, values
from h2_backend import H2Backend, each

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
PLACE = """upstream u { server 127.0.0.1:%d; %s }
    server { listen 127.0.0.1:@PORT@; location / { proxy_pass http://%s; %s } }"""


def close(conn, _):
    hang_up(conn)


def ask(server, method, body=b"body"):
    with server.client() as client:
        return client.request("/", method=method, body=body)


@pytest.mark.parametrize("script", [[OK], [OK, close]], ids=["closes behind the answer", "closes at the next request"])
@pytest.mark.parametrize("target", ["u", "127.0.0.1:%d"])
@pytest.mark.parametrize("method, more", [("POST", ""), ("PATCH", ""), ("PUT", "proxy_request_buffering off;")])
def test_backends_that_close(serve, backend, script, target, method, more):
    back = backend(script)
    server = serve(PLACE % (back.port, "", target.replace("%d", str(back.port)), more))
    for method in [method, method, "GET", method, "GET", "GET", method, method]:
        assert ask(server, method, None if method == "GET" else b"body").text == "ok"


def test_backends_that_go_on(serve, backend):
    """Once a kept connection was answered, the next request of any kind takes it."""
    back = backend([OK] * 9)
    server = serve(PLACE % (back.port, "", "u", ""))
    for method in ["GET", "GET", "POST", "PATCH", "POST"]:
        assert ask(server, method, None if method == "GET" else b"body").text == "ok"
    assert back.connections == 1


def test_what_may_be_repeated_by_order(serve, backend):
    back = backend([OK] * 9)
    server = serve(PLACE % (back.port, "", "u", "proxy_next_upstream error non_idempotent;"))
    for _ in range(4):
        assert ask(server, "POST").text == "ok"
    assert back.connections == 1


@pytest.mark.parametrize("says", [values(max_conns=9), values(mpxs_conns=1)])
def test_fastcgi(serve, says):
    def reply(request, conn):
        seen.setdefault(conn, []).append(request)
        if len(seen[conn]) == 2:
            hang_up(conn)
            return None
        return answer(request=request.id)

    seen = {}
    with Scripted(reply, says) as back:
        server = serve("""upstream u { server 127.0.0.1:%d; }
            server { listen 127.0.0.1:@PORT@; location / { fastcgi_pass u; } }""" % back.port)
        for method in ["POST", "POST", "GET", "POST", "PATCH", "GET", "POST"]:
            assert ask(server, method).text == "hello"


def test_http2(serve):
    """A backend that closes without GOAWAY, once it has done so, is not believed any more."""
    def reply(conn, request):
        seen.setdefault(conn, []).append(request)
        if len(seen[conn]) == 2:
            hang_up(conn.socket)
        else:
            conn.answer(request, b"ok")

    seen = {}
    back = H2Backend(each(reply))
    server = serve(PLACE % (back.port, "", "u", "proxy_http_version 2;"))
    for method in ["GET", "GET", "POST", "POST", "GET", "POST", "PATCH", "GET", "POST"]:
        assert ask(server, method).text == "ok"
    back.close()
