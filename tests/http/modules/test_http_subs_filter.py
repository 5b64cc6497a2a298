"""subs_filter beyond what tests/oracle/tables/subs.py compares: bodies in pieces, long lines, expressions that match nothing, limits."""

import gzip
import random

import pytest

from harness import proc, run_binary
from harness.backend import Backend
from harness.h2 import H2


def conf(*locations, http="", server=""):
    return "%s default_type text/html; server { listen 127.0.0.1:@PORT@; root html; %s\n%s }" % (http, server, "\n".join(locations))


def in_pieces(text, sizes):
    """A chunked answer in pieces of these sizes, sent one by one."""
    def answer(conn, _):
        conn.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nTransfer-Encoding: chunked\r\n\r\n")
        at = 0
        for size in sizes:
            piece = text[at:at + size]
            at += size
            if piece:
                conn.sendall(b"%x\r\n%s\r\n" % (len(piece), piece))
        assert at >= len(text)
        conn.sendall(b"0\r\n\r\n")
    return answer


def test_pieces_do_not_matter(serve):
    text = b"a hello b\nhello\n\nhel\nlo hello" * 20
    rand = random.Random(1)
    scripts = [[in_pieces(text, [1] * len(text))]] + [
        [in_pieces(text, [rand.randint(1, 40) for _ in range(len(text))])] for _ in range(10)]
    backend = Backend(*scripts)
    server = serve(conf("location / { subs_filter hello BYE; subs_filter '^a' X r; proxy_buffering off; proxy_pass http://127.0.0.1:%d; }" % backend.port))
    wanted = b"\n".join([line[0:1].replace(b"a", b"X") + line[1:] for line in text.replace(b"hello", b"BYE").split(b"\n")])
    for _ in scripts:
        assert server.get("/").body == wanted
    backend.close()


def test_a_line_that_is_too_long_is_cut(serve):
    server = serve(conf("location / { subs_line_buffer_size 1k; subs_filter '^a' X r; subs_filter bc Y; }"),
                   files={"html/f": "a" + "b" * 1022 + "bc" * 1000 + "\nabc\n"})
    text = server.get("/f").text
    assert text.startswith("X" + "b" * 1022) and text.endswith("\nXY\n") and text.count("c") < 3
    server.wait_log("a line is longer than subs_line_buffer_size, 1024 bytes")


def test_the_usual_line_may_be_long(serve):
    server = serve(conf("location / { subs_filter ab x; }"), files={"html/f": "ab" * 400000})
    assert server.get("/f").text == "x" * 400000


@pytest.mark.parametrize("pattern, wanted", [("x*", "-a-b--c-\n"), ("", "-a-b-x-x-c-\n"), ("$", "abxxc-\n-"), ("q?", "-a-b-x-x-c-\n")])
def test_an_expression_that_matches_nothing_comes_to_an_end(serve, pattern, wanted):
    server = serve(conf("location / { subs_filter '%s' - r; return 200 \"abxxc\\n\"; }" % pattern))
    text = server.get("/").text
    assert text.replace("-", "").replace("x", "") == wanted.replace("-", "").replace("x", "")
    assert text.count("-") >= 1


def test_many_matches_take_no_memory_of_the_request(serve):
    server = serve(conf("location / { request_memory_limit 256k; subs_filter '(a)(b)' '$2$1$uri' r; subs_filter_types *; }"),
                   files={"html/f": ("ab" * 50 + "\n") * 2000})
    assert server.get("/f").text == ("ba/f" * 50 + "\n") * 2000


def test_groups_of_a_match_are_forgotten_with_it(serve):
    """A line of many matches, each with its groups: the worker holds those of one at a time."""
    server = serve(conf("location / { subs_filter '(((((((((a)))))))))' b r; }"), files={"html/f": "a" * 1000000})
    assert server.get("/f").text == "b" * 1000000
    assert int(proc.status(server.children()[0], "VmHWM").split()[0]) < 64 * 1024


def test_a_line_does_not_grow_without_end(serve):
    server = serve(conf("location / { %s }" % "".join("subs_filter a %s;" % ("a" * 64) for _ in range(6))), files={"html/f": "a" * 1000 + "\n"})
    assert len(server.get("/f").body) < 17 * 1024 * 1024


def test_compressed_bodies_stay_as_they_are(serve):
    data = gzip.compress(b"hello\n" * 10)
    backend = Backend([b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%s" % (len(data), data)])
    server = serve(conf("location / { subs_filter hello bye; proxy_pass http://127.0.0.1:%d; }" % backend.port,
                        "location /gunzip { gunzip on; subs_filter hello bye; proxy_pass http://127.0.0.1:%d; }" % backend.port))
    assert server.get("/", "Accept-Encoding: gzip").body == data
    assert server.get("/gunzip").text == "bye\n" * 10
    backend.close()


def test_validators_go(serve):
    server = serve(conf("location / { subs_filter hello bye; }"), files={"html/f": "hello"})
    response = server.get("/f")
    assert response.text == "bye" and response.all("ETag") == [] and response.all("Last-Modified") == []


def test_captures_of_others_stay(serve):
    server = serve(conf("location ~ ^/(.*)$ { subs_filter '(h)(e)' '$2$1' r; add_after_body /x; subs_filter uri $uri; add_header X-C $1; alias html/$1; }"),
                   files={"html/f": "hello uri"})
    response = server.get("/f")
    assert response.header("X-C") == "f" and response.text.startswith("ehllo /f")


def test_http2(serve):
    server = serve(conf("location / { subs_filter hello bye; }", server="http2 on;"), files={"html/f": "hello\n" * 5000})
    with H2(server.port) as h2:
        assert h2.get("/f").body == b"bye\n" * 5000


def test_warnings(tmp_path):
    done = check(tmp_path, "subs_filter '' x; subs_filter a b xyz; subs_buffers 1 2;")
    assert done.returncode == 0
    for text in ("an empty text is nowhere replaced", 'has no flag "x"', 'the "subs_buffers" directive is obsolete'):
        assert text in done.stderr


def check(tmp_path, line):
    (tmp_path / "logs").mkdir()
    path = tmp_path / "nginx.conf"
    path.write_text("events {} http { server { listen 127.0.0.1:8080; location / { %s } } }" % line)
    return run_binary("-t", "-p", str(tmp_path), "-c", str(path))


BAD = [
    ("subs_filter a;", 'invalid number of arguments in "subs_filter" directive'),
    ("subs_filter '(' b r;", "missing closing parenthesis"),
    ("subs_filter a $nosuch;", 'unknown "nosuch" variable'),
    ("subs_filter_bypass;", 'invalid number of arguments in "subs_filter_bypass" directive'),
    ("subs_line_buffer_size x;", '"subs_line_buffer_size" directive invalid value'),
    ("subs_line_buffer_size 1m 1m;", '"subs_line_buffer_size" directive invalid value'),
    ("if ($host) { subs_filter a b; }", '"subs_filter" directive is not allowed here'),
]


@pytest.mark.parametrize("line, message", BAD, ids=[line for line, _ in BAD])
def test_bad_lines(tmp_path, line, message):
    done = check(tmp_path, line)
    assert done.returncode == 1 and message in done.stderr


def test_lines_count_towards_the_limit(serve):
    """The buffers of a line that is put together, and of what became of it."""
    server = serve(conf("location = /long { request_memory_limit 1m; subs_filter ab aabb; }", "location = /short { request_memory_limit 1m; subs_filter ab aabb; }"),
                   files={"html/long": "ab" * 300000, "html/short": "ab" * 10000})
    assert server.get("/short").text == "aabb" * 10000
    with server.client() as client:
        client.send("GET /long HTTP/1.1\r\nHost: a\r\n\r\n")
        assert b"aabb" * 300000 not in client.rest_or_reset()
    server.wait_log("request takes more memory than request_memory_limit allows")
