"""sub_filter: replacing in bodies that come in pieces, of any length."""

import threading

import pytest

from harness import Closed


def chunks(*parts):
    return (b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nTransfer-Encoding: chunked\r\n\r\n"
            + b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n")


def front(port, settings):
    return ("server { listen 127.0.0.1:@PORT@; location / { proxy_pass http://127.0.0.1:%d; %s } }"
            % (port, settings))


def test_text_is_replaced_once(serve):
    server = serve("server { listen 127.0.0.1:@PORT@; root html; sub_filter foo '<$arg_x>'; }",
                   files={"html/a.html": "a FOO foo"})
    response = server.get("/a.html?x=bar")
    assert response.text == "a <bar> foo"
    assert response.header("Content-Length") is None and response.header("ETag") is None


@pytest.mark.parametrize("buffering", ["on", "off"])
@pytest.mark.parametrize("at", range(1, 12))
def test_match_across_pieces(serve, backend, buffering, at):
    text = b"--</head>--</HEAD>--</hea"
    back = backend([chunks(text[:at], text[at:at + 3], text[at + 3:])])
    server = serve(front(back.port, "sub_filter_once off; sub_filter </head> X; proxy_buffering %s;" % buffering))
    assert server.get("/").text == "--X--X--</hea"


def test_byte_by_byte(serve, backend):
    text = b"aab aaab abc ab abcd"
    back = backend([chunks(*[text[n:n + 1] for n in range(len(text))])])
    server = serve(front(back.port, "sub_filter_once off; sub_filter aab 1; sub_filter abcd 2; sub_filter ab 3;"))
    assert server.get("/").text == "1 a1 3c 3 2"


def test_what_cannot_match_is_not_kept(serve, backend):
    """A streamed answer arrives while its backend is still silent, but for what may be the beginning of a match."""
    go_on = threading.Event()

    def slowly(conn, request):
        conn.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\n\r\nhello z")
        go_on.wait(10)
        conn.sendall(b"a bye")

    back = backend([slowly])
    server = serve(front(back.port, "proxy_buffering off; sub_filter za ZA;"))
    with server.client() as client:
        client.send("GET / HTTP/1.0\r\n\r\n")
        seen = b""
        while b"hello" not in seen:
            seen += client.socket.recv(1000)
        assert seen.endswith(b"\r\n\r\nhello ")
        go_on.set()
        assert client.rest() == b"ZA bye"


def test_backend_that_breaks_off_gives_no_tail(serve, backend):
    back = backend([b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 10\r\n\r\nxyz"])
    server = serve(front(back.port, "proxy_buffering off; sub_filter za ZA;"))
    with server.client() as client:
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        with pytest.raises(Closed):
            client.response()


@pytest.mark.parametrize("settings", ["", "sendfile on;", "output_buffers 1 512;", "sendfile on; aio threads;"])
def test_long_file(serve, settings):
    text = "".join("%07d foo\n" % n for n in range(50000))
    server = serve("server { listen 127.0.0.1:@PORT@; root html; %s sub_filter_once off; sub_filter foo replaced; }"
                   % settings, files={"html/a.html": text})
    assert server.get("/a.html").text == text.replace("foo", "replaced")


def test_replacement_is_much_longer(serve):
    long = "x" * 3000
    server = serve("server { listen 127.0.0.1:@PORT@; root html; sub_filter_once off; sub_filter o '%s'; }" % long,
                   files={"html/a.html": "o-" * 5000})
    assert server.get("/a.html").text == (long + "-") * 5000


def test_many_patterns_from_variables(serve):
    lines = " ".join("sub_filter '${arg_a}%d' '[%d]';" % (n, n) for n in range(255))
    server = serve("large_client_header_buffers 4 16k; server { listen 127.0.0.1:@PORT@; root html; sub_filter_once off; %s }" % lines,
                   files={"html/a.html": "k7-k12-k254"})
    assert server.get("/a.html?a=k").text == "[7]-[1]2-[2]54"
    assert server.get("/a.html?a=" + "k" * 8000).text == "k7-k12-k254"


def test_pattern_that_is_as_long_as_a_request(serve):
    """A pattern of the client's choice: time and memory stay in proportion."""
    server = serve("server { listen 127.0.0.1:@PORT@; root html; sub_filter_once off; sub_filter '$arg_p' X; }",
                   files={"html/a.html": "a" * 2000000})
    assert server.get("/a.html?p=" + "a" * 7000 + "b").text == "a" * 2000000
    assert server.get("/a.html?p=" + "a" * 7000).text == "X" * (2000000 // 7000) + "a" * (2000000 % 7000)


def test_slow_client(serve):
    text = "0123456 foo\n" * 100000
    server = serve("server { listen 127.0.0.1:@PORT@ sndbuf=16k; root html; sub_filter_once off; sub_filter foo barbar; }",
                   files={"html/a.html": text})
    with server.client() as client:
        client.send("GET /a.html HTTP/1.1\r\nHost: a\r\n\r\n")
        assert server.get("/a.html").text == text.replace("foo", "barbar")
        assert client.response().text == text.replace("foo", "barbar")


def test_client_that_leaves(serve):
    server = serve("server { listen 127.0.0.1:@PORT@ sndbuf=16k; root html; sub_filter_once off; sub_filter foo barbar; }",
                   files={"html/a.html": "0123456 foo\n" * 200000, "html/b.html": "foo"})
    for _ in range(5):
        with server.client() as client:
            client.send("GET /a.html HTTP/1.1\r\nHost: a\r\n\r\n")
            assert client.socket.recv(1000)
            client.reset()
    assert server.get("/b.html").text == "barbar"


def test_two_filters_of_two_places(serve):
    """What another place gives went through the filters of that place, not through ours."""
    server = serve("""
        server { listen 127.0.0.1:@PORT@; root html; sub_filter_types *;
            location / { sub_filter foo outer; add_after_body /inner.txt; }
            location /inner.txt { sub_filter bar inner; } }
    """, files={"html/a.html": "foo bar ", "html/inner.txt": "foo bar"})
    assert server.get("/a.html").text == "outer bar foo inner"
