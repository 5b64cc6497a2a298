"""auth_request: what who is asked sees, while bodies stream, clients leave, answers are kept, and over HTTP/2."""

import threading

import pytest

from harness import Closed, binaries
from harness.h2 import H2

needs_portunus = pytest.mark.skipif("Portunus" not in binaries.version_text(binaries.under_test()),
                                    reason="not Portunus")

YES = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nX-User: alice\r\n\r\nyes"
NO = (b"HTTP/1.1 401 No\r\nContent-Length: 2\r\nWWW-Authenticate: Basic realm=\"one\"\r\n"
      b"WWW-Authenticate: Bearer\r\nWWW-Authenticate: Negotiate\r\n\r\nno")
OK = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s"


def conf(asked, *locations, server="", http=""):
    return """
        log_format who '$status $user $uri'; access_log logs/access.log who; %s
        server {
            listen 127.0.0.1:@PORT@; %s
            auth_request /auth; auth_request_set $user $upstream_http_x_user;
            location / { empty_gif; }
            location = /auth { internal; proxy_pass http://127.0.0.1:%d; }
            %s
        }""" % (http, server, asked.port, "\n".join(locations))


def test_fields_and_user_go_on(serve, backend):
    asked, back = backend([YES]), backend([OK % (2, b"ok")])
    server = serve(conf(asked, "location /up { proxy_set_header X-User $user; proxy_pass http://127.0.0.1:%d; }" % back.port))
    assert server.get("/up?a=b", "Cookie: c=1", "X-Mine: x").text == "ok"
    question = asked.requests[0]
    assert question.startswith(b"GET /auth HTTP/1.")
    assert b"Cookie: c=1" in question and b"X-Mine: x" in question
    assert b"X-User: alice" in back.requests[0]
    assert server.wait_lines("logs/access.log", 1) == ["200 alice /up"]


@needs_portunus  # all of them: since nginx 1.23
def test_all_that_is_demanded_is_passed_on(serve, backend):
    asked = backend([NO])
    server = serve(conf(asked))
    refused = server.get("/x")
    assert refused.status == 401
    assert refused.all("WWW-Authenticate") == ['Basic realm="one"', "Bearer", "Negotiate"]


@needs_portunus
def test_demand_of_a_backend_whose_page_is_another(serve, backend):
    asked = backend([NO] * 2)
    server = serve(conf(asked).replace("internal;", "internal; proxy_intercept_errors on; error_page 401 /page;")
                   .replace("location / {", "location = /page { auth_request off; return 401; } location / {"))
    assert len(server.get("/x").all("WWW-Authenticate")) == 3


@needs_portunus  # nginx leaves the answer's body there, and the connection with it
def test_connection_of_who_is_asked_is_kept(serve, backend):
    asked = backend([YES, NO, YES, b"HTTP/1.1 204 No Content\r\n\r\n",
                     b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nyes\r\n0\r\n\r\n"])
    server = serve(conf(asked))
    with server.client() as client:
        assert [client.request("/x").status for _ in range(5)] == [200, 401, 200, 200, 200]
    assert asked.connections == 1


@needs_portunus
def test_long_answer_is_not_waited_for(serve, backend):
    """The head says all; who goes on sending loses the connection."""
    def answer(conn, request):
        conn.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\nX-User: bob\r\n\r\n")
        try:
            while True:
                conn.sendall(b"x" * 65536)
        except OSError:
            left.set()

    left = threading.Event()
    asked = backend([answer])
    server = serve(conf(asked))
    assert server.get("/x").status == 200
    assert left.wait(10)


def test_body_streams_to_the_backend(serve, backend):
    """proxy_request_buffering off: who is asked gets no body, and the backend what has come before all of it has."""
    def answer(conn, request):
        got = request.partition(b"\r\n\r\n")[2]
        while b"first" not in got:
            got += conn.recv(100)
        begun.set()
        while b"last" not in got:
            got += conn.recv(100)
        conn.sendall(OK % (2, b"ok"))

    begun = threading.Event()
    asked, back = backend([YES]), StreamedBackend(answer)
    server = serve(conf(asked, "location /up { proxy_request_buffering off; proxy_http_version 1.1; "
                               "proxy_pass http://127.0.0.1:%d; }" % back.port)
                   .replace("internal;", "internal; proxy_pass_request_body off; proxy_set_header Content-Length '';"))
    with server.client() as client:
        client.send("POST /up HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n")
        assert begun.wait(10)
        client.send("4\r\nlast\r\n0\r\n\r\n")
        assert client.response("POST").text == "ok"
    head = asked.requests[0].lower()
    assert b"content-length" not in head and b"transfer-encoding" not in head
    back.close()


class StreamedBackend:
    """Answers once, as soon as a head is there."""

    def __init__(self, answer):
        import socket
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.answer = answer
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        conn = self.listener.accept()[0]
        conn.settimeout(10)
        data = b""
        while b"\r\n\r\n" not in data:
            data += conn.recv(65536)
        self.answer(conn, data)
        conn.close()

    def close(self):
        self.listener.close()


def test_chunked_body_goes_to_the_backend_alone(serve, backend):
    asked, back = backend([YES]), backend([OK % (2, b"ok")])
    server = serve(conf(asked, "location /up { proxy_pass http://127.0.0.1:%d; }" % back.port))
    with server.client() as client:
        client.send("PUT /up HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\n")
        assert client.response("PUT").text == "ok"
    assert asked.requests[0].startswith(b"GET ") and asked.requests[0].endswith(b"\r\n\r\n")
    assert back.requests[0].startswith(b"PUT ") and back.requests[0].endswith(b"\r\n\r\nbody")


@needs_portunus  # nginx announces the body to who is asked, too
def test_refused_body_is_not_read(serve, backend):
    asked, back = backend([NO]), backend([OK % (2, b"ok")])
    server = serve(conf(asked, "location /up { proxy_pass http://127.0.0.1:%d; }" % back.port))
    with server.client() as client:
        client.send("POST /up HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 1000\r\n\r\n")
        refused = client.response("POST")
        assert refused.status == 401 and not refused.interim
    assert back.requests == []


def test_client_that_leaves_while_it_is_asked(serve, backend):
    def never(conn, request):
        if conn.recv(1) == b"":
            left.set()

    left = threading.Event()
    asked = backend([never])
    server = serve(conf(asked))
    client = server.client()
    client.send("GET /x HTTP/1.1\r\nHost: a\r\n\r\n")
    asked.wait_requests(1)
    client.close()
    assert left.wait(10)
    assert server.wait_lines("logs/access.log", 1) == ["499 - /x"]


def test_kept_answers_are_not_asked_for_again(serve, backend):
    asked = backend([YES], [NO])
    server = serve(conf(asked, http="proxy_cache_path cache keys_zone=answers:1m;")
                   .replace("internal;", "internal; proxy_cache answers; proxy_cache_key $http_cookie; proxy_cache_valid 200 401 1h;"))
    for _ in range(3):
        assert server.get("/x", "Cookie: a").status == 200
    for _ in range(3):
        assert server.get("/x", "Cookie: b").status == 401
    assert len(asked.requests) == 2
    assert server.wait_lines("logs/access.log", 6)[:4] == ["200 alice /x"] * 3 + ["401  /x"]


def test_asked_again_after_an_internal_redirect(serve, backend):
    asked = backend([YES] * 3)
    server = serve(conf(asked, "location /dir/ { root html; index a.html; }", "location /tried { try_files /none /dir/a.html; }"),
                   files={"html/dir/a.html": "a page"})
    assert server.get("/dir/").text == "a page"
    asked.wait_requests(2)
    asked.scripts = [[YES] * 3]
    assert server.get("/dir/a.html").text == "a page"
    assert len(asked.requests) == 3


@needs_portunus
def test_http2(serve, backend):
    asked = backend([YES, NO, YES])
    server = serve(conf(asked, server="http2 on;"))
    with H2(server.port) as h2:
        assert h2.get("/x").status == 200
        refused = h2.get("/x")
        assert refused.status == 401
        assert "www-authenticate" in refused.headers
        assert h2.get("/x", method="HEAD").status == 200
    assert all(request.startswith(b"GET /auth HTTP/1.1\r\n") for request in asked.requests)


@needs_portunus  # the status of an answer that ended early is 0 with nginx 1.22
def test_who_is_asked_cannot_be_had(serve, backend):
    asked = backend([b""], [b"HTTP/1.1 200 O"], [b"garbage\r\n\r\n"])
    server = serve(conf(asked))
    for _ in range(3):
        assert server.get("/x").status == 500
    assert server.read("error.log").count("auth request unexpected status: 502") == 3


def test_ssi_pages_ask_once(serve, backend):
    asked = backend([YES])
    server = serve(conf(asked, "location /page { ssi on; ssi_types *; root html; }", "location /part { return 200 part; }"),
                   files={"html/page": '<!--#include virtual="/part" -->-<!--#include virtual="/part" -->'})
    assert server.get("/page").text == "part-part"
    assert len(asked.requests) == 1


def test_satisfy_any_forgets_the_demand(serve, backend):
    asked = backend([NO], [YES])
    server = serve(conf(asked, "location /any { satisfy any; auth_basic also; auth_basic_user_file users; empty_gif; }"),
                   files={"users": "user:{PLAIN}secret\n"})
    refused = server.get("/any")
    assert refused.status == 401 and 'Basic realm="also"' in refused.all("WWW-Authenticate")
    let_in = server.get("/any")
    assert let_in.status == 200 and let_in.header("WWW-Authenticate") is None
    assert server.get("/any", "Authorization: Basic dXNlcjpzZWNyZXQ=").status == 200
    assert len(asked.requests) == 2  # a password is looked at first


def test_stop_while_it_is_asked(serve, backend):
    asked = backend([lambda conn, request: conn.recv(1)])
    server = serve(conf(asked))
    with server.client() as client:
        client.send("GET /x HTTP/1.1\r\nHost: a\r\n\r\n")
        asked.wait_requests(1)
        server.stop()
        with pytest.raises(Closed):
            client.response()
