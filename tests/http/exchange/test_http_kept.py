"""Which requests take a kept connection, what becomes of one that is passed over, and what may be sent a second time."""

import socket
import threading
import time

import pytest

from fastcgi_backends import Scripted, answer, hang_up, values
from h2_backend import H2Backend, each
from harness.backend import read_request

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
PLACE = """upstream u { server 127.0.0.1:%d; %s }
    server { listen 127.0.0.1:@PORT@; location / { proxy_pass http://u; %s } }"""


def close(conn, _):
    hang_up(conn)


def ask(server, method, body=b"body"):
    with server.client() as client:
        return client.request("/", method=method, body=None if method == "GET" else body)


@pytest.mark.parametrize("more", ["", "proxy_next_upstream off;", "proxy_request_buffering off;"])
@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "LOCK", "DELETE"])
def test_all_methods_use_kept_connections(serve, backend, method, more):
    back = backend([OK] * 50)
    server = serve(PLACE % (back.port, "", more))
    for _ in range(40):
        assert ask(server, method).text == "ok"
    assert back.connections == 1


@pytest.mark.parametrize("method, more, fails", [
    ("GET", "", 0), ("PUT", "", 0), ("POST", "proxy_next_upstream error non_idempotent;", 0),
    ("GET", "proxy_next_upstream off;", 1), ("POST", "", 1), ("PATCH", "", 1), ("LOCK", "", 1),
    ("PUT", "proxy_request_buffering off;", 1)])
def test_backend_that_closes_at_the_next_request(serve, backend, method, more, fails):
    """What may go once is lost with the first connection, as with nginx; from then on the backend is not trusted with it.
    What may be repeated is, once."""
    back = backend([OK, close])
    server = serve(PLACE % (back.port, "", more))
    answers = [ask(server, method).status for _ in range(8)]
    assert answers.count(502) == fails and set(answers) <= {200, 502}
    if fails:
        assert answers[:3] == [200, 502, 200] and len(back.requests) == 8
        assert back.connections == 7        # passed over and closed: nobody waits there


@pytest.mark.parametrize("method", ["GET", "PUT"])
def test_no_second_attempt_at_the_same_server(serve, backend, method):
    """Tengine's retry_cached_connection off: each second request finds its connection closed."""
    back = backend([OK, close])
    server = serve(PLACE % (back.port, "", "retry_cached_connection off;"))
    assert [ask(server, method).status for _ in range(4)] == [200, 502, 200, 502]


def test_backend_that_closes_after_the_answer(serve, backend):
    back = backend([OK])
    server = serve(PLACE % (back.port, "", ""))
    for method in ["POST", "GET", "POST", "PATCH"]:
        assert ask(server, method).status in (200, 502)
    assert len(back.requests) <= 4


MALFORMED = [b"HTTP/1.1 twohundred\r\n\r\n", b"HTTP/1.1 200 OK\r\nX: " + b"a" * 20000 + b"\r\n\r\n"]


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("bad", MALFORMED, ids=["malformed", "too large"])
@pytest.mark.parametrize("more", ["proxy_next_upstream off;", "proxy_next_upstream_tries 1;", "",
                                  "proxy_next_upstream error timeout;"])
def test_bad_answer_on_a_kept_connection(serve, backend, more, bad, method):
    """... is an answer: the request is not sent again behind its back."""
    back = backend([OK, bad], [OK] * 9)
    server = serve(PLACE % (back.port, "server 127.0.0.1:%d backup;" % back.port if "tries" in more else "", more))
    assert ask(server, method).text == "ok"
    assert ask(server, method).status == 502
    assert len(back.requests) == 2


def test_bad_answers_of_three(serve, backend):
    """Each is asked once."""
    backs = [backend([OK, MALFORMED[0]], [MALFORMED[0]]) for _ in range(3)]
    server = serve("upstream u { %s } server { listen 127.0.0.1:@PORT@; location / { proxy_pass http://u; "
                   "proxy_next_upstream invalid_header; } }" % "".join("server 127.0.0.1:%d max_fails=0;" % back.port for back in backs))
    for _ in backs:
        assert ask(server, "GET").text == "ok"
    assert ask(server, "GET").status == 502
    assert [len(back.requests) for back in backs] == [2, 2, 2]


def test_answer_that_breaks_off_on_a_kept_connection(serve, backend):
    def half(conn, _):
        conn.sendall(b"HTTP/1.1 200 O")
        hang_up(conn)

    back = backend([OK, half], [OK] * 9)
    server = serve(PLACE % (back.port, "", ""))
    assert ask(server, "GET").text == "ok"
    assert ask(server, "GET").status == 502
    assert len(back.requests) == 2


class OneAtATime:
    """A backend that serves a connection until its client ends it, and then the next."""

    def __init__(self, reply=OK, slow=0.0):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.reply, self.slow = reply, slow
        self.connections = self.requests = 0
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        while True:
            try:
                conn = self.listener.accept()[0]
            except OSError:
                return
            self.connections += 1
            with conn:
                conn.settimeout(30)
                try:
                    while read_request(conn) is not None:
                        self.requests += 1
                        time.sleep(self.slow)
                        conn.sendall(self.reply)
                except OSError:
                    pass

    def close(self):
        self.listener.close()


def test_backend_that_serves_one_connection(serve):
    back = OneAtATime()
    server = serve(PLACE % (back.port, "", ""))
    for method in ["GET", "POST", "PATCH", "GET", "PUT"]:
        assert ask(server, method).text == "ok"
    assert back.connections == 1
    back.close()


def test_time_that_the_backend_names(serve):
    """... is nearly over: what may go once has a connection of its own, and the backend is rid of the old one."""
    back = OneAtATime(OK.replace(b"\r\n\r\n", b"\r\nKeep-Alive: max=9, timeout=2\r\n\r\n"))
    server = serve(PLACE % (back.port, "", ""))
    assert ask(server, "POST").text == "ok"
    assert ask(server, "POST").text == "ok"
    assert back.connections == 1
    time.sleep(1.6)
    assert ask(server, "POST").text == "ok"
    assert back.connections == 2
    back.close()


def test_idle_connections_of_other_kinds_give_way(serve):
    """A request that hears nothing has the idle connections to its backend closed: it would wait for itself."""
    back = OneAtATime()
    server = serve("""upstream u { server 127.0.0.1:%d; }
        server { listen 127.0.0.1:@PORT@; location / { proxy_pass http://u; } location /b { proxy_pass http://u; proxy_bind 127.0.0.1; } }
        """ % back.port)
    for path in ["/", "/b", "/", "/b"]:
        assert server.get(path).text == "ok"
    assert back.connections == 4
    back.close()


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_requests_at_one_time_to_such_a_backend(serve, method):
    """The second waits for the first, not for the connection that was kept after it."""
    back = OneAtATime(slow=0.2)
    server = serve(PLACE % (back.port, "", ""))
    statuses = []
    threads = [threading.Thread(target=lambda: statuses.append(ask(server, method).status)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert statuses == [200] * 3 and back.requests == 3
    back.close()


def test_fastcgi_that_is_told_to_keep(serve):
    with Scripted(lambda request, conn: answer(request=request.id)) as back:
        server = serve("""upstream u { server 127.0.0.1:%d; keepalive 4; } fastcgi_keep_conn on;
            server { listen 127.0.0.1:@PORT@; location / { fastcgi_pass u; } }""" % back.port)
        for method in ["POST", "POST", "GET", "PATCH"] * 3:
            assert ask(server, method).text == "hello"
        assert back.connections == 1


@pytest.mark.parametrize("says", [values(max_conns=9), values(mpxs_conns=1)])
def test_fastcgi_that_nobody_told(serve, says):
    """That connections are kept there is our own idea: what may go once does not suffer from it."""
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
    server = serve(PLACE % (back.port, "", "proxy_http_version 2;"))
    methods = ["GET", "GET", "POST", "POST", "GET", "POST", "PATCH", "GET", "POST"]
    assert [ask(server, method).text for method in methods] == ["ok"] * len(methods)
    back.close()
