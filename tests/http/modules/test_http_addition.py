"""addition: subrequests before and behind a body, of files, of backends, to slow clients."""

import threading

import pytest

from harness import Closed

OK = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: %d\r\n\r\n%s"


def conf(*locations):
    return ("server { listen 127.0.0.1:@PORT@ sndbuf=16k; root html; location / { } "
            + " ".join(locations) + " }")


def test_before_and_behind(serve):
    server = serve(conf("location = /a.html { add_before_body /b; add_after_body /c.txt; }",
                        "location = /b { return 200 'before '; }"),
                   files={"html/a.html": "body", "html/c.txt": " after"})
    response = server.get("/a.html")
    assert response.text == "before body after"
    assert response.header("Content-Length") is None
    assert response.header("ETag").startswith('W/"')


def test_head_runs_no_subrequest(serve, backend):
    back = backend([OK % (1, b"x")])
    server = serve(conf("location = /a.html { add_before_body /b; }",
                        "location = /b { proxy_pass http://127.0.0.1:%d; }" % back.port),
                   files={"html/a.html": "body"})
    with server.client() as client:
        assert client.request("/a.html", method="HEAD").header("Content-Length") is None
    assert back.requests == []
    assert server.get("/a.html").text == "xbody"


@pytest.mark.parametrize("settings", ["", "sendfile on;", "aio threads;", "output_buffers 1 1k;"])
def test_long_files(serve, settings):
    parts = ["%07d\n" % n * 40000 for n in range(3)]
    server = serve(conf("location = /a.html { %s add_before_body /b.txt; add_after_body /c.txt; }" % settings),
                   files=dict(zip(("html/b.txt", "html/a.html", "html/c.txt"), parts)))
    with server.client() as client:
        client.send("GET /a.html HTTP/1.1\r\nHost: a\r\n\r\n")
        assert server.get("/a.html").text == "".join(parts)
        assert client.response().text == "".join(parts)


@pytest.mark.parametrize("buffering", ["on", "off"])
def test_all_three_of_a_backend(serve, backend, buffering):
    parts = [b"%07d\n" % n * 40000 for n in range(3)]
    bodies = {b"/b": parts[0], b"/a": parts[1], b"/c": parts[2]}

    def answer(conn, request):
        body = bodies[request.split(b" ")[1]]
        conn.sendall(OK % (len(body), body))

    back = backend([answer] * 9)
    server = serve(conf("location ~ ^/[abc]$ { proxy_buffers 4 4k; proxy_buffering %s; proxy_pass http://127.0.0.1:%d; }"
                        % (buffering, back.port)).replace("location / { }", "add_before_body /b; add_after_body /c;"))
    with server.client() as client:
        client.send("GET /a HTTP/1.1\r\nHost: a\r\n\r\n")
        assert server.get("/a").body == b"".join(parts)
        assert client.response().body == b"".join(parts)
    assert sorted(request.split(b" ")[1] for request in back.requests) == sorted([b"/a", b"/b", b"/c"] * 2)


def test_backend_that_breaks_off_gets_nothing_behind_it(serve, backend):
    back = backend([b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 100\r\n\r\nshort"])
    server = serve(conf("location = /a { proxy_pass http://127.0.0.1:%d; add_after_body /c; }" % back.port,
                        "location = /c { return 200 ':after'; }"))
    with server.client() as client:
        client.send("GET /a HTTP/1.1\r\nHost: a\r\n\r\n")
        with pytest.raises(Closed):
            client.response()


def test_added_part_that_breaks_off(serve, backend):
    """As with nginx the rest is given: what is missing is in the error log."""
    back = backend([b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort"])
    server = serve(conf("location = /a.html { add_before_body /b; add_after_body /c; }",
                        "location = /b { proxy_pass http://127.0.0.1:%d; }" % back.port,
                        "location = /c { return 200 ':after'; }"), files={"html/a.html": ":body"})
    assert server.get("/a.html").text == "short:body:after"
    assert 'subrequest: "/b"' in server.read("error.log")


def test_added_part_that_cannot_be_had(serve):
    server = serve(conf("location = /a.html { add_before_body /missing; add_after_body /refused; }",
                        "location = /refused { proxy_pass http://127.0.0.1:@PORT1@; }"),
                   files={"html/a.html": "*middle*"})
    before, behind = server.get("/a.html").text.split("*middle*")
    assert "404 Not Found" in before and "502 Bad Gateway" in behind


def test_client_that_leaves_ends_the_subrequest(serve, backend):
    def never(conn, request):
        if conn.recv(1) == b"":
            left.set()

    left = threading.Event()
    back = backend([never])
    server = serve(conf("location = /a.html { add_after_body /b; }",
                        "location = /b { proxy_pass http://127.0.0.1:%d; }" % back.port)
                   + " access_log logs/a.log; ", files={"html/a.html": "body"})
    with server.client() as client:
        client.send("GET /a.html HTTP/1.1\r\nHost: a\r\n\r\n")
        back.wait_requests(1)
    assert left.wait(10)
    server.wait_lines("logs/a.log", 1)


def test_values_of_set_are_shared(serve):
    server = serve(conf("location = /a.html { set $x main; add_before_body /b; add_after_body /c; }",
                        "location = /b { set $x '$x and child'; return 200 '($x)'; }",
                        "location = /c { return 200 '($x)'; }"), files={"html/a.html": "body"})
    assert server.get("/a.html").text == "(main and child)body(main and child)"


def test_rewrites_error_pages_and_types(serve):
    server = serve(conf("location = /a.html { add_before_body /b; add_after_body /c; }",
                        "location = /b { rewrite ^ /d; }", "location = /d { return 200 'rewritten '; }",
                        "location = /c { error_page 404 = @e; root none; }", "location @e { return 200 ' from @e'; }",
                        "location = /t.txt { addition_types text/plain; add_before_body /d; }",
                        "location = /u.txt { addition_types text/css; add_before_body /d; }"),
                   files={"html/a.html": "body", "html/t.txt": "t", "html/u.txt": "u"})
    assert server.get("/a.html").text == "rewritten body from @e"
    assert server.get("/t.txt").text == "rewritten t"
    assert server.get("/u.txt").text == "u"


def test_named_location(serve):
    server = serve(conf("location = /a.html { add_before_body @told; }", "location @told { return 200 '$uri '; }"),
                   files={"html/a.html": "body"})
    assert server.get("/a.html").text == "/a.html body"


def test_log_subrequest(serve):
    server = serve("log_format u '$uri $status $body_bytes_sent'; access_log logs/a.log u; "
                   + conf("location = /a.html { add_before_body /b; add_after_body /c; }",
                          "location = /b { log_subrequest on; return 200 'before '; }",
                          "location = /c { return 200 ' after'; }"), files={"html/a.html": "body"})
    server.get("/a.html")
    assert [line.split()[0] for line in server.wait_lines("logs/a.log", 2)] == ["/b", "/a.html"]


def test_pipelined(serve):
    server = serve(conf("location = /a.html { add_before_body /b; add_after_body /c.txt; }",
                        "location = /b { return 200 '<'; }"), files={"html/a.html": "a", "html/c.txt": ">"})
    with server.client() as client:
        client.send("GET /a.html HTTP/1.1\r\nHost: a\r\n\r\n" * 50)
        for _ in range(50):
            assert client.response().text == "<a>"
