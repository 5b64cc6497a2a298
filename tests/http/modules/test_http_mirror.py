"""mirror: what the other side sees, who waits for whom, and what becomes of it when the client leaves."""

import threading

import pytest

from harness import binaries, until
from harness.backend import Backend
from harness.h2 import H2

needs_portunus = pytest.mark.skipif("Portunus" not in binaries.version_text(binaries.under_test()),
                                    reason="not Portunus")

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class Held:
    """An answer that waits until it may go, and tells whether its client waited as well."""

    def __init__(self):
        self.may_go = threading.Event()
        self.was_asked = threading.Event()
        self.was_left = threading.Event()

    def __call__(self, conn, request):
        self.was_asked.set()
        conn.settimeout(0.05)
        while not self.may_go.is_set():
            try:
                if conn.recv(1) == b"":
                    self.was_left.set()
                    return
            except TimeoutError:
                pass
        conn.sendall(OK)


def conf(mirrored, *locations, server="", more=""):
    return """
        server {
            listen 127.0.0.1:@PORT@; %s
            mirror /mirror;
            location / { root html; }
            location /gif { empty_gif; }
            location /free { mirror off; return 200 free; }
            location = /mirror { internal; %s proxy_pass http://127.0.0.1:%d$request_uri; }
            %s
        } access_log logs/access.log;""" % (server, more, mirrored.port, "\n".join(locations))


def test_the_same_request(serve, backend):
    mirrored, back = backend([OK]), backend([OK])
    server = serve(conf(mirrored, "location /up { proxy_pass http://127.0.0.1:%d; }" % back.port))
    with server.client() as client:
        assert client.request("/up?a=b", "X-Mine: x", "Cookie: c", method="PUT", body="a body").text == "ok"
    twin = mirrored.wait_requests(1)[0]
    assert twin.startswith(b"PUT /up?a=b HTTP/1.")
    assert b"X-Mine: x" in twin and b"Cookie: c" in twin and b"Content-Length: 6" in twin
    assert twin.endswith(b"\r\n\r\na body")
    assert back.requests[0].endswith(b"\r\n\r\na body")


@pytest.mark.parametrize("size", [10, 200000])
@pytest.mark.parametrize("buffering", ["on", "off"])
def test_bodies_of_all_sizes(serve, backend, size, buffering):
    mirrored, back = backend([OK]), backend([OK])
    server = serve(conf(mirrored, "location /up { proxy_request_buffering %s; proxy_pass http://127.0.0.1:%d; }"
                        % (buffering, back.port), server="client_body_buffer_size 16k;"))
    body = ("0123456789" * (size // 10)).encode()
    with server.client() as client:
        client.send("POST /up HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")
        for at in range(0, size, 50000):
            part = body[at:at + 50000]
            client.send(b"%x\r\n%s\r\n" % (len(part), part))
        client.send("0\r\n\r\n")
        assert client.response("POST").text == "ok"
    for side in (mirrored, back):
        assert side.wait_requests(1)[0].partition(b"\r\n\r\n")[2] == body


def test_without_the_body(serve, backend):
    mirrored, back = backend([OK]), backend([OK])
    server = serve(conf(mirrored, "location /up { proxy_pass http://127.0.0.1:%d; }" % back.port, server="mirror_request_body off;",
                        more="proxy_pass_request_body off; proxy_set_header Content-Length '';"))
    with server.client() as client:
        assert client.request("/up", method="POST", body="a body").text == "ok"
    twin = mirrored.wait_requests(1)[0]
    assert twin.startswith(b"POST /up ") and twin.endswith(b"\r\n\r\n") and b"Content-Length" not in twin
    assert back.requests[0].endswith(b"a body")


@pytest.mark.parametrize("method, body, is_announced", [("GET", None, False), ("DELETE", None, False), ("POST", b"", True)])
def test_a_request_without_a_body_announces_none(serve, backend, method, body, is_announced):
    mirrored = backend([OK])
    server = serve(conf(mirrored, "location /there { return 200 there; }"))
    with server.client() as client:
        client.request("/gif", method=method, body=body)
    assert (b"Content-Length: 0" in mirrored.wait_requests(1)[0]) == is_announced


@needs_portunus  # nginx announces it, and the other side waits for what never comes
def test_no_body_is_announced_that_does_not_come(serve, backend):
    mirrored = backend([OK])
    server = serve(conf(mirrored, server="mirror_request_body off;"))
    with server.client() as client:
        assert client.request("/gif", method="POST", body="a body").status == 405
    assert b"Content-Length" not in mirrored.wait_requests(1)[0]


def test_client_waits_for_its_own_answer_alone(serve, backend):
    held = Held()
    mirrored, back = backend([held]), backend([OK])
    server = serve(conf(mirrored, "location /up { proxy_pass http://127.0.0.1:%d; }" % back.port))
    with server.client() as client:
        client.send("GET /up HTTP/1.1\r\nHost: a\r\n\r\nGET /free HTTP/1.1\r\nHost: a\r\n\r\n")
        assert client.response().text == "ok"
        assert held.was_asked.wait(10)
        assert not client.readable(0.2)  # the next one on this connection waits, as with nginx …
        assert server.get("/free").text == "free"  # … those on others do not
        held.may_go.set()
        assert client.response().text == "free"


@pytest.mark.parametrize("how", ["close", "reset"])
@pytest.mark.parametrize("target", ["/gif", "/up"])
def test_goes_on_when_the_client_was_answered(serve, backend, target, how):
    held = Held()
    mirrored, back = backend([held]), backend([OK])
    server = serve(conf(mirrored, "location /up { proxy_pass http://127.0.0.1:%d; }" % back.port))
    client = server.client()
    client.send("GET %s HTTP/1.1\r\nHost: a\r\n\r\n" % target)
    assert client.response().status == 200
    assert held.was_asked.wait(10)
    getattr(client, how)()
    assert not held.was_left.wait(0.3)
    held.may_go.set()
    assert " 200 " in server.wait_lines("logs/access.log", 1)[0]
    assert not held.was_left.is_set()


def test_ends_with_a_client_that_was_not(serve, backend):
    held, never = Held(), Held()
    mirrored, back = backend([held]), backend([never])
    server = serve(conf(mirrored, "location /up { proxy_pass http://127.0.0.1:%d; }" % back.port))
    client = server.client()
    client.send("GET /up HTTP/1.1\r\nHost: a\r\n\r\n")
    assert held.was_asked.wait(10) and never.was_asked.wait(10)
    client.close()
    assert held.was_left.wait(10) and never.was_left.wait(10)
    assert " 499 " in server.wait_lines("logs/access.log", 1)[0]


def test_several_at_once(serve, backend):
    first, second = Held(), Held()
    one, two = backend([first]), backend([second])
    server = serve(conf(one, "location = /two { proxy_pass http://127.0.0.1:%d; }" % two.port,
                        "location /both { mirror /mirror; mirror /two; empty_gif; }"))
    with server.client() as client:
        client.send("GET /both HTTP/1.1\r\nHost: a\r\n\r\n")
        assert client.response().status == 200
        assert first.was_asked.wait(10) and second.was_asked.wait(10)
        first.may_go.set()
        second.may_go.set()
        assert client.request("/free").text == "free"


def test_what_goes_wrong_there_is_nobody_elses(serve, backend):
    mirrored = backend([b"HTTP/1.1 500 Oops\r\nContent-Length: 2\r\n\r\nno"], [b"garbage\r\n\r\n"],
                       [b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\ncut"], [b""])
    server = serve(conf(mirrored, more="proxy_next_upstream off;"))
    for _ in range(4):
        assert server.get("/gif").status == 200
    mirrored.wait_requests(4)


def test_mirror_that_is_refused(serve):
    server = serve("server { listen 127.0.0.1:@PORT@; mirror /m; location / { empty_gif; } "
                   "location /m { proxy_pass http://127.0.0.1:@PORT1@; } }")
    with server.client() as client:
        assert [client.request("/").status for _ in range(3)] == [200] * 3
    until(lambda: server.read("error.log").count("connect() failed (111: Connection refused)") == 3, "three refusals")


@needs_portunus  # nginx lets the client wait
def test_malformed_and_too_large_bodies_are_not_mirrored(serve, backend):
    mirrored = backend([OK])
    server = serve(conf(mirrored, server="client_max_body_size 100;"))
    with server.client() as client:
        client.send("POST /gif HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n")
        assert client.response().status == 400
    with server.client() as client:
        client.send("POST /gif HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n100\r\n")
        assert client.response().status == 413
    assert mirrored.requests == []


@needs_portunus
def test_http2(serve, backend):
    held = Held()
    mirrored = backend([held], [OK])
    server = serve(conf(mirrored, server="http2 on;"), files={"html/a.txt": "x" * 10000})
    with H2(server.port) as h2:
        assert h2.get("/a.txt", method="POST", body=b"body").status == 405
        assert held.was_asked.wait(10)
        answer = h2.get("/free")  # other streams wait for nobody
        assert answer.status == 200
        held.may_go.set()
        answer = h2.get("/a.txt")
        assert answer.status == 200 and len(answer.body) == 10000
    assert mirrored.wait_requests(2)[0].endswith(b"\r\n\r\nbody")


@needs_portunus
def test_http2_client_that_was_answered_leaves(serve, backend):
    held = Held()
    mirrored = backend([held])
    server = serve(conf(mirrored, server="http2 on;"))
    with H2(server.port) as h2:
        assert h2.get("/gif").status == 200
        assert held.was_asked.wait(10)
    assert not held.was_left.wait(0.3)
    held.may_go.set()
    assert " 200 " in server.wait_lines("logs/access.log", 1)[0]
    assert not held.was_left.is_set()


def test_quit_waits_for_it(serve, backend):
    held = Held()
    mirrored = backend([held])
    server = serve(conf(mirrored))
    assert server.get("/gif").status == 200
    assert held.was_asked.wait(10)
    server.signal("quit")
    assert not held.was_left.wait(0.3)
    held.may_go.set()
    server.wait_end()
    assert not held.was_left.is_set()


def test_stop_does_not(serve, backend):
    held = Held()
    mirrored = backend([held])
    server = serve(conf(mirrored))
    with server.client() as client:
        client.send("GET /gif HTTP/1.1\r\nHost: a\r\n\r\n")
        assert client.response().status == 200
        assert held.was_asked.wait(10)
        server.stop()
    assert held.was_left.wait(10)


@needs_portunus
def test_mirrors_of_a_backend_that_stalls_leave_connections_to_others(serve):
    """Clients that have their answer and leave: a mirror each, and its two connections, stay until the backend speaks."""
    held = Held()
    backend = Backend([held])
    server = serve("server { listen 127.0.0.1:@PORT@; root html; location / { mirror /m; try_files /f =404; } location /quick { return 200 quick; } "
                   "location = /m { internal; proxy_pass http://127.0.0.1:%d; } }" % backend.port,
                   main="worker_processes 1;", events="worker_connections 64;", files={"html/f": b"file"})
    for _ in range(60):
        assert server.get("/", "Connection: close").text == "file"
    server.wait_log("the request is not mirrored: 16 mirror subrequests are active")
    assert server.get("/quick").text == "quick"
    backend.wait_requests(16)
    held.may_go.set()
    asked = len(backend.requests)
    until(lambda: server.get("/", "Connection: close").text == "file" and len(backend.requests) > asked, "mirrors again")
    assert asked == 16
    backend.close()
