"""Server side includes: pages that come in pieces, includes of every kind, what goes wrong on the way."""

import gzip
import threading

import pytest

SITE = """
    default_type text/html; log_not_found off; %s
    server { listen 127.0.0.1:@PORT@; root html;
             location / { ssi on; } %s }
"""


def echo(name, rest=""):
    return '<!--#echo var="%s"%s -->' % (name, rest)


def include(target, rest=""):
    return '<!--#include virtual="%s"%s -->' % (target, rest)


LINES = "".join("line %d of a long include\n" % n for n in range(20000))


def test_pages_in_pieces(serve):
    """However the file is read, directives are found."""
    text = "<p>%s</p><!-- no directive -->" + '<!--#set var="a" value="b" -->' + echo("a")
    page = "".join(text % n for n in range(500))
    expected = "".join("<p>%d</p><!-- no directive -->b" % n for n in range(500))
    for size in (512, 513, 1000, 4096, 32768):
        server = serve(SITE % ("output_buffers 1 %d;" % size, ""), files={"html/a.html": page})
        assert server.get("/a.html").text == expected, size


def test_includes_stay_in_order(serve, backend):
    """Slow ones and quick ones, long ones and short ones."""
    def slowly(conn, request):
        conn.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ns")
        conn.sendall(b"low")

    back = backend(*[[slowly]] * 3)
    page = "".join("<%d>" % n + include(where) for n, where in enumerate(
        ["/p/a", "/quick.html", "/long.html", "/p/b", "/quick.html", "/p/c"])) + "<end>"
    server = serve(SITE % ("", "location /p/ { proxy_pass http://127.0.0.1:%d; }" % back.port),
                   files={"html/a.html": page, "html/quick.html": "quick", "html/long.html": LINES})
    assert server.get("/a.html").text == \
        "<0>slow<1>quick<2>" + LINES + "<3>slow<4>quick<5>slow<end>"


def take_until(client, got, mark):
    while mark not in got:
        more = client.recv()
        assert more, "the connection ended after %r" % got
        got += more
    return got


def test_what_stands_before_a_slow_include_is_seen(serve, backend):
    asked = threading.Event()

    def late(conn, request):
        assert asked.wait(10)
        conn.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nlate")

    back = backend([late])
    server = serve(SITE % ("", "location /p { proxy_pass http://127.0.0.1:%d; }" % back.port),
                   files={"html/a.html": "before" + include("/p") + "after"})
    with server.client() as client:
        client.send("GET /a.html HTTP/1.1\r\nHost: a\r\n\r\n")
        head = client.head()
        assert head.header("Transfer-Encoding") == "chunked"
        back.wait_requests(1)
        got = take_until(client, b"", b"before")
        assert b"late" not in got
        asked.set()
        got = take_until(client, got, b"0\r\n\r\n")
        assert got.index(b"before") < got.index(b"late") < got.index(b"after")


def test_page_of_a_backend(serve, backend):
    """Proxied pages are looked through, however they are buffered; their includes run beside them."""
    page = ("x" * 5000 + include("/inc.html") + "y" * 5000 + include("/p/inner") + "z").encode()
    inner = b"inner " + echo("uri").encode()

    def answer(conn, request):
        body = inner if b"/inner" in request.split(b"\r\n")[0] else page
        conn.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: %d\r\n"
                     b"Last-Modified: Tue, 14 Nov 2023 22:13:20 GMT\r\nETag: \"x\"\r\n"
                     b"Accept-Ranges: bytes\r\n\r\n" % len(body) + body)

    back = backend(*[[answer]] * 4)
    for buffering in ("on", "off"):
        server = serve(SITE % ("proxy_buffering %s; ssi on;" % buffering,
                               "location /p/ { proxy_pass http://127.0.0.1:%d; }" % back.port),
                       files={"html/inc.html": "<inc>"})
        response = server.get("/p/page")
        assert response.text == "x" * 5000 + "<inc>" + "y" * 5000 + "inner /p/innerz"
        for field in ("Last-Modified", "ETag", "Accept-Ranges", "Content-Length"):
            assert response.header(field) is None


def test_include_gets_the_body_that_was_read(serve, backend):
    """As nginx has it: a subrequest is a GET, with the body of the request."""
    page = b"a" + include("/p/inner").encode() + b"b"

    def outer(conn, request):
        conn.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: %d\r\n\r\n"
                     % len(page) + page)

    def inner(conn, request):
        head, _, body = request.partition(b"\r\n\r\n")
        told = head.split(b" ")[0] + b":" + body
        conn.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: %d\r\n\r\n"
                     % len(told) + told)

    back = backend([outer, inner], [inner])
    server = serve(SITE % ("ssi on;", "location /p/ { proxy_pass http://127.0.0.1:%d; }" % back.port))
    with server.client() as client:
        assert client.request("/p/page", method="POST", body="name=value").text == \
            "aGET:name=valueb"


def test_compressed_page(serve, backend):
    """The page is compressed once, with what it includes, whether that is a file or a backend's."""
    back = backend([b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 5\r\n\r\nproxy"])
    server = serve(SITE % ("gzip on; gzip_min_length 0; sendfile on;",
                           "location /p/ { proxy_pass http://127.0.0.1:%d; }" % back.port),
                   files={"html/a.html": "a" + include("/b.html") + include("/p/") + "c",
                          "html/b.html": LINES})
    response = server.get("/a.html", "Accept-Encoding: gzip")
    assert response.header("Content-Encoding") == "gzip"
    assert gzip.decompress(response.body).decode() == "a" + LINES + "proxyc"


@pytest.mark.parametrize("settings", ["", "sendfile on;", "aio threads;", "sendfile on; gzip on;"])
def test_include_into_a_variable(serve, settings):
    """Of files, too, however they are sent; what is too long for a variable ends the page, as with nginx."""
    server = serve(SITE % (settings, "subrequest_output_buffer_size 100;"),
                   files={"html/a.html": include("/v.html", ' set="v"') + "[" + echo("v") + "]",
                          "html/b.html": include("/big.html", ' set="v"') + "[" + echo("v") + "]",
                          "html/v.html": "value & more", "html/big.html": "x" * 101})
    assert server.get("/a.html").text == "[value &amp; more]"
    with server.client() as client:
        client.send("GET /b.html HTTP/1.1\r\nHost: a\r\n\r\n")
        assert b"]" not in client.rest_or_reset()
    server.wait_log(r"too big subrequest response: 101 while sending response to client, .* subrequest: \"/big.html\"")


def test_variables_cross_the_includes(serve):
    """Forth and back; captures and blocks as well."""
    server = serve(SITE % ("", ""), files={
        "html/a.html": '<!--#set var="x" value="up" --><!--#block name="s" -->stub<!--#endblock -->'
                       + include("/b.html") + echo("y") + echo("1"),
        "html/b.html": "[" + echo("x") + '<!--#set var="y" value="down" -->'
                       '<!--#if expr="abc = /a(.)c/" --><!--#endif -->'
                       + include("/none", ' stub="s"') + "]"})
    assert server.get("/a.html").text == "[upstub]downb"


def test_conditions_inside_each_other(serve):
    page = "".join('<!--#if expr="$arg_%s" -->%s' % (c, c) for c in "abcdefgh") \
        + "".join('<!--#else -->-<!--#endif -->' for c in "abcdefgh") + "!"
    server = serve(SITE % ("", ""), files={"html/a.html": page})
    assert server.get("/a.html?" + "&".join(c + "=1" for c in "abcdefgh")).text == "abcdefgh!"
    assert server.get("/a.html?a=1&b=1").text == "ab-!"
    assert server.get("/a.html").text == "-!"


def test_conditions_are_bounded(serve):
    page = '<!--#if expr="a" -->' * 40 + "x" + "<!--#endif -->" * 40
    server = serve(SITE % ("ssi_silent_errors on;", ""), files={"html/a.html": page})
    assert server.get("/a.html").text == "x"
    server.wait_log('too many "if" commands inside each other')


def test_blocks_are_bounded(serve):
    page = '<!--#block name="s" -->' + "x" * 3000000 + "<!--#endblock -->" \
        + include("/none", ' stub="s"') + "end"
    server = serve(SITE % ("", ""), files={"html/a.html": page})
    assert len(server.get("/a.html").body) < 1100000
    server.wait_log("the blocks of an SSI page are too long")


def test_a_page_that_includes_itself(serve):
    """Ends at a depth, and does so on stacks of usual size; several of them at one time."""
    server = serve(SITE % ("", ""), files={
        "html/a.html": "(" + include("/a.html") + ")",
        "html/wide.html": "(" + include("/wide.html") * 3 + ")"})
    clients = [server.client() for _ in range(5)]
    for client in clients:
        client.send("GET /a.html HTTP/1.1\r\nHost: a\r\n\r\n")
    for client in clients:
        body = client.response().text
        assert body.startswith("((((((") and body.endswith("))))))") and body.count("error") == 1
        client.socket.close()
    assert server.get("/wide.html").status == 200
    server.wait_log("too many subrequests")
    assert server.get("/a.html").status == 200


def test_client_leaves_during_an_include(serve, backend):
    """Page, include and backend are let go; the server serves on."""
    asked = threading.Event()

    def never(conn, request):
        asked.set()
        conn.recv(1)

    back = backend([never])
    server = serve(SITE % ("", "location /p { proxy_pass http://127.0.0.1:%d; }" % back.port),
                   files={"html/a.html": "a" + include("/b.html"),
                          "html/b.html": "b" + include("/p") + "c", "html/ok.html": "ok"})
    with server.client() as client:
        client.send("GET /a.html HTTP/1.1\r\nHost: a\r\n\r\n")
        assert asked.wait(10)
        client.reset()
    assert server.get("/ok.html").text == "ok"


def test_include_that_breaks_off(serve, backend):
    """What came of it is there, and the page goes on, as with nginx; the log tells."""
    back = backend([b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\npart"])
    server = serve(SITE % ("", "location /p { proxy_pass http://127.0.0.1:%d; }" % back.port),
                   files={"html/a.html": "a" + include("/p") + "b"})
    assert server.get("/a.html").text == "apartb"
    server.wait_log("upstream prematurely closed connection")


def test_stub_of_a_dead_backend(serve):
    server = serve(SITE % ("ssi on;", "location /p { proxy_pass http://127.0.0.1:@PORT1@; }"),
                   files={"html/a.html": '<!--#block name="s" -->stub for ' + echo("uri")
                          + "<!--#endblock -->[" + include("/p", ' stub="s"') + "]"})
    assert server.get("/a.html").text == "[stub for /p]"


def test_headers_of_an_include_stay_away(serve):
    server = serve(SITE % ("add_header X-Page $uri;", """
        location /inc { add_header X-Inc yes; add_header Set-Cookie a=b; return 200 inc; }
        location /moved { return 301 /x; }
    """), files={"html/a.html": include("/inc") + include("/moved", ' set="v"')})
    response = server.get("/a.html")
    assert response.status == 200 and response.text == "inc"
    assert response.header("X-Inc") is None and response.header("Set-Cookie") is None
    assert response.header("Location") is None
    assert response.header("X-Page") == "/a.html"


def test_internal_places_can_be_included(serve):
    server = serve(SITE % ("", "location /in/ { internal; alias html/; }"),
                   files={"html/a.html": "[" + include("/in/b.html") + "]", "html/b.html": "b"})
    assert server.get("/in/b.html").status == 404
    assert server.get("/a.html").text == "[b]"


def test_variables_of_places(serve):
    """What `set` of a server gave is known in pages and their includes."""
    server = serve("""
        default_type text/html; ssi on;
        server { listen 127.0.0.1:@PORT@; root html; set $a from_server;
                 location /r { set $b from_include; return 200 "$a"; }
                 set $b ""; }
    """, files={"html/a.html": echo("a") + "," + include("/r") + "," + echo("b")})
    assert server.get("/a.html").text.startswith("from_server,from_server,")


def test_log_subrequest(serve):
    server = serve(SITE % ('log_format sub "$uri $status"; access_log access.log sub;',
                           "location /logged/ { log_subrequest on; alias html/; }"),
                   files={"html/a.html": include("/logged/b.html") + include("/b.html"),
                          "html/b.html": "b"})
    assert server.get("/a.html").text == "bb"
    assert server.wait_lines("access.log", 2) == ["/logged/b.html 200", "/a.html 200"]


def test_reload_while_a_page_waits(serve, backend):
    asked = threading.Event()
    go = threading.Event()

    def late(conn, request):
        asked.set()
        assert go.wait(10)
        conn.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nlate")

    back = backend([late])
    site = SITE % ("", "location /p { proxy_pass http://127.0.0.1:%d; }" % back.port)
    server = serve(site, files={"html/a.html": "[" + include("/p") + echo("date_gmt") + "]"})
    with server.client() as client:
        client.send("GET /a.html HTTP/1.1\r\nHost: a\r\n\r\n")
        assert asked.wait(10)
        server.reload()
        go.set()
        body = client.response().text
        assert body.startswith("[late") and body.endswith("]")
