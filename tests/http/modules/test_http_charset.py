"""charset: bodies that come in pieces, answers of backends, pages made of parts."""

import pytest

MAPS = """
    charset_map koi8-r utf-8 { C0 D18E; C1 D0B0; 80 E282AC; }
    charset_map koi8-r windows-1251 { C0 FE; C1 E0; }
    default_type text/html;
"""


def head(*fields, length=None):
    lines = ["HTTP/1.1 200 OK", *fields]
    if length is not None:
        lines.append("Content-Length: %d" % length)
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def chunked(*parts, kind="text/html"):
    return (head("Content-Type: " + kind, "Transfer-Encoding: chunked")
            + b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n")


def front(port, settings):
    return (MAPS + "server { listen 127.0.0.1:@PORT@; location / { proxy_pass http://127.0.0.1:%d; %s } }"
            % (port, settings))


@pytest.mark.parametrize("buffering", ["on", "off"])
@pytest.mark.parametrize("at", range(1, 9))
def test_sequences_across_pieces(serve, backend, buffering, at):
    text = "\u044e|\u20ac|\u0431|\U0001f600".encode()
    back = backend([chunked(text[:at], text[at:at + 1], text[at + 1:])])
    server = serve(front(back.port, "charset koi8-r; source_charset utf-8; proxy_buffering %s;" % buffering))
    response = server.get("/")
    assert response.body == b"\xc0|\x80|&#1073;|&#128512;"
    assert response.header("Content-Type") == "text/html; charset=koi8-r"


def test_markup_does_not_vanish_behind_malformed_bytes(serve, backend):
    back = backend([chunked(b"\xff<a>\xd1", b"<b>\xe2\x82", b"<c>\xf0\x9f\x98", b"\xd1\x8e\xd1")])
    server = serve(front(back.port, "charset koi8-r; source_charset utf-8;"))
    assert server.get("/").body == b"?<a>?<b>?<c>&#128529;?"


@pytest.mark.parametrize("sendfile", ["on", "off"])
def test_long_files(serve, sendfile):
    """Longer than any buffer, and growing to ten times their length."""
    server = serve(MAPS + """server { listen 127.0.0.1:@PORT@; root html; sendfile %s;
        location /a { charset utf-8; source_charset koi8-r; }
        location /b { charset koi8-r; source_charset utf-8; }
        location /c { charset windows-1251; source_charset koi8-r; } }""" % sendfile,
                   files={"html/a": b"x" + b"\xc0\xc1" * 50000, "html/b": ("x" + "\u0431\u0432" * 30000).encode(),
                          "html/c": b"\xc0\xc1" * 50000})
    assert server.get("/a").body == ("x" + "\u044e\u0430" * 50000).encode()
    assert server.get("/b").body == b"x" + b"&#1073;&#1074;" * 30000
    response = server.get("/c")
    assert response.body == b"\xfe\xe0" * 50000 and response.header("Content-Length") == "100000"
    assert server.get("/c", "Range: bytes=50001-50002").body == b"\xe0\xfe"
    assert server.get("/a").header("Accept-Ranges") is None
    assert server.get("/a", method="HEAD").header("Content-Length") is None


def test_ascii_is_passed_on_as_it_is_streamed(serve, backend):
    """A byte that is held waits for its sequence; what is before it does not."""
    steps = []

    def slowly(conn, request):
        conn.sendall(head("Content-Type: text/html", "Connection: close") + b"ascii \xd1")
        steps.append(conn.recv(1))  # the client saw what it could, and left
        conn.sendall(b"\x8e")

    back = backend([slowly])
    server = serve(front(back.port, "charset koi8-r; source_charset utf-8; proxy_buffering off;"))
    with server.client() as client:
        client.send("GET / HTTP/1.0\r\n\r\n")
        seen = b""
        while not seen.endswith(b"ascii "):
            seen += client.socket.recv(1000)


@pytest.mark.parametrize("settings, fields, kind, body", [
    # What the backend calls it stays, unless it is overridden.
    ("charset utf-8; source_charset koi8-r;", ["Content-Type: text/html; charset=koi8-r"],
     "text/html; charset=koi8-r", b"a\xc0"),
    ("charset utf-8; override_charset on;", ["Content-Type: text/html; charset=koi8-r"],
     "text/html; charset=utf-8", b"a\xd1\x8e"),
    ("charset utf-8; override_charset on;", ['Content-Type: text/html; a="b;charset=x"; Charset="KOI8-R"; c=d'],
     'text/html; a="b;charset=x"; c=d; charset=utf-8', b"a\xd1\x8e"),
    ("charset utf-8; override_charset on;", ["Content-Type: text/html; charset=utf-8"],
     "text/html; charset=utf-8", b"a\xc0"),
    ("charset utf-8; override_charset on;", ["Content-Type: text/html; charset=x"],
     "text/html; charset=x", b"a\xc0"),
    # X-Accel-Charset says what the client gets, wherever it is.
    ("", ["Content-Type: image/png; charset=koi8-r", "X-Accel-Charset: utf-8"], "image/png; charset=utf-8", b"a\xd1\x8e"),
    ("source_charset koi8-r;", ["Content-Type: text/html", "X-Accel-Charset: UTF-8"], "text/html; charset=UTF-8",
     b"a\xd1\x8e"),
    ("charset utf-8; source_charset koi8-r;", ["Content-Type: text/html", "X-Accel-Charset: koi8-r"],
     "text/html; charset=koi8-r", b"a\xc0"),
    ("charset utf-8; source_charset koi8-r;", ["Content-Type: text/html", "X-Accel-Charset: off"], "text/html", b"a\xc0"),
    ("charset utf-8; source_charset koi8-r;", ["Content-Type: text/html", "X-Accel-Charset: unknown"], "text/html",
     b"a\xc0"),
    ("", ["Content-Type: text/html", "X-Accel-Charset: off"], "text/html", b"a\xc0"),
    ("charset utf-8; source_charset koi8-r; proxy_ignore_headers X-Accel-Charset;",
     ["Content-Type: text/html", "X-Accel-Charset: koi8-r"], "text/html; charset=utf-8", b"a\xd1\x8e"),
    # What cannot be read, or is none of the types, is not touched.
    ("charset utf-8; source_charset koi8-r;", ["Content-Type: text/html", "Content-Encoding: gzip"], "text/html",
     b"a\xc0"),
    ("charset utf-8; source_charset koi8-r;", ["Content-Type: image/png"], "image/png", b"a\xc0"),
    ("charset utf-8; source_charset koi8-r;", [], None, b"a\xc0"),
    ("charset utf-8; source_charset koi8-r;", ["Content-Type: text/html;charset="], "text/html; charset=utf-8",
     b"a\xd1\x8e"),
])
def test_answers_of_backends(serve, backend, settings, fields, kind, body):
    back = backend([head(*fields, length=2) + b"a\xc0"])
    server = serve(front(back.port, settings))
    response = server.get("/")
    assert response.header("Content-Type") == kind and response.body == body


@pytest.mark.parametrize("settings, wanted, kind", [
    ("", "koi8-r", "text/html"),
    ("charset off;", "koi8-r", "text/html"),
    ("charset utf-8;", "koi8-r", "text/html"),
    ("charset $arg_a;", "koi8-r", "text/html"),
    ("", "utf-8", "text/html; charset=utf-8"),  # a later location names it
])
def test_backends_ask_for_charsets_that_are_named(serve, backend, settings, wanted, kind):
    back = backend([head("Content-Type: text/html", "X-Accel-Charset: " + wanted, length=2) + b"ab"])
    later = "location /later { charset utf-8; }" if wanted == "utf-8" else ""
    server = serve("server { listen 127.0.0.1:@PORT@; location / { proxy_pass http://127.0.0.1:%d; %s } %s }"
                   % (back.port, settings, later))
    assert server.get("/").header("Content-Type") == kind


def test_parts_of_a_page_get_its_charset(serve):
    part = b"\xc0|"
    server = serve(MAPS + """server { listen 127.0.0.1:@PORT@; root html;
        location /page { ssi on; charset utf-8; }
        location /raw { ssi on; }
        location /koi { source_charset koi8-r; }
        location /cyrillic { source_charset windows-1251; }
        location /utf { charset utf-8; } }""", files={
            "html/page": '<!--# include virtual="/koi" --><!--# include virtual="/utf" -->',
            "html/raw": '<!--# include virtual="/koi" -->', "html/koi": part, "html/utf": "\u044e|".encode(),
        })
    assert server.get("/page").body == "\u044e|\u044e|".encode()
    assert server.get("/raw").body == part


def test_the_own_listing_is_what_it_is(serve):
    """JSON is UTF-8 (RFC 8259, 8.1), whatever else is announced here."""
    server = serve(MAPS + """server { listen 127.0.0.1:@PORT@; root html; autoindex on; autoindex_format json;
        charset koi8-r; charset_types *; }""", files={"html/d/\u044e": ""})
    assert "\u044e".encode() in server.get("/d/").body


def test_a_variable_cannot_end_the_field(serve):
    server = serve("server { listen 127.0.0.1:@PORT@; location / { charset a$uri; default_type text/html; return 200 x; } }")
    response = server.get("/a%0d%0aX-Evil:%201")
    assert response.header("X-Evil") is None
    assert response.header("Content-Type").startswith("text/html; charset=a/a")


def test_a_charset_for_a_response_without_a_type(serve, backend):
    """X-Accel-Charset has nothing to say there, so that the log has nothing, either."""
    back = backend([b"HTTP/1.1 200 OK\r\nX-Accel-Charset: no-such\r\nContent-Length: 2\r\n\r\nok"])
    server = serve(front(back.port, ""))
    assert server.get("/").text == "ok"
    assert "unknown charset" not in server.error_log
