"""Includes run beside each other and beside their page; their output keeps the order of the page."""

import gzip
import os
import signal
import threading

import pytest

from harness import until
from harness.h2 import H2
from harness.workers import wait_workers

SITE = """
    default_type text/html; log_not_found off; %s
    server { listen 127.0.0.1:@PORT@; root html; http2 on;
             location / { ssi on; }
             location /p/ { proxy_pass http://127.0.0.1:%d; %s } }
"""


def echo(name):
    return '<!--#echo var="%s" -->' % name


def include(target, rest=""):
    return '<!--#include virtual="%s"%s -->' % (target, rest)


class Together:
    """Answers of a backend that come when so many requests are there at one time. The body of /p/x is "<x>" and as
    many letters as the query says."""

    def __init__(self, count):
        self.count = count
        self.here = 0               # requests that have no answer yet …
        self.most = 0               # … of them at one time
        self.is_open = False
        self.changed = threading.Condition()

    def __call__(self, conn, request):
        path, _, size = request.split(b" ")[1].decode().partition("?")
        with self.changed:
            self.here += 1
            self.most = max(self.most, self.here)
            self.is_open = self.is_open or self.here == self.count
            self.changed.notify_all()
            assert self.changed.wait_for(lambda: self.is_open, 10), "%d came" % self.here
            self.here -= 1
        body = b"<%s>" % path[3:].encode() + b"x" * int(size or 0)
        conn.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: %d\r\n\r\n%s"
                     % (len(body), body))


def never(conn, request):
    """No answer; the other side closes."""
    conn.recv(1)


def site(serve, back, page, settings="", place="", **more):
    files = {"html/%s.html" % name: text for name, text in more.items()}
    return serve(SITE % (settings, back.port, place), files={"html/a.html": page, **files})


def test_includes_of_a_page(serve, backend):
    """None is answered before all were asked for."""
    back = backend([Together(3)])
    server = site(serve, back, "1" + include("/p/a") + "2" + include("/p/b") + "3" + include("/p/c") + "4")
    assert server.get("/a.html").text == "1<a>2<b>3<c>4"


def test_includes_of_includes(serve, backend):
    back = backend([Together(5)])
    inner = "[" + include("/p/%s1") + "," + include("/p/%s2") + "]"
    server = site(serve, back, include("/b.html") + include("/c.html") + include("/p/last"),
                  b=inner.replace("%s", "b"), c=inner.replace("%s", "c"))
    assert server.get("/a.html").text == "[<b1>,<b2>][<c1>,<c2>]<last>"


@pytest.mark.parametrize("way", ["plain", "gzip", "http2", "head", "http10"])
def test_long_ones_behind_slow_ones(serve, backend, way):
    """More than is held waits for its turn, whether it comes from a backend, a file or the page itself."""
    back = backend([Together(3)])
    file, text = "f" * 300000, "t" * 100000
    page = include("/p/a?10") + include("/p/b?400000") + include("/f.html") + text + \
        include("/p/c?100000") + "end"
    whole = "<a>" + "x" * 10 + "<b>" + "x" * 400000 + file + text + "<c>" + "x" * 100000 + "end"
    server = site(serve, back, page, "sendfile on;" + ("gzip on;" if way == "gzip" else ""), f=file)
    if way == "head":
        assert server.client().request("/a.html", method="HEAD").body == b""
        assert back.requests == []
    elif way == "http2":
        with H2(server.port) as client:
            stream = client.request("/a.html")
            client.window(1 << 20)
            client.window(1 << 20, stream)
            assert client.answer(stream).body.decode() == whole
    elif way == "http10":
        assert server.client().request("/a.html", version="1.0").text == whole
    else:
        response = server.get("/a.html", "Accept-Encoding: gzip")
        body = gzip.decompress(response.body) if way == "gzip" else response.body
        assert body.decode() == whole


def test_so_many_run_at_one_time(serve, backend):
    together = Together(64)
    back = backend([together])
    back.listener.listen(128)
    server = site(serve, back, "".join(include("/p/%d" % n) for n in range(80)))
    assert server.get("/a.html").text == "".join("<%d>" % n for n in range(80))
    assert together.most == 64


def test_stubs(serve, backend):
    """A block that stands in has its place, too, and includes of its own."""
    back = backend([Together(3)])
    page = '<!--#block name="s" -->stub' + include("/p/s") + "<!--#endblock -->" + \
        include("/p/a") + include("/gone.html", ' stub="s"') + include("/p/b", ' stub="s"') + "end"
    server = site(serve, back, page)
    assert server.get("/a.html").text == "<a>stub<s><b>end"


def test_wait(serve, backend):
    """With wait="yes" what an include sets is known behind it; without it the page has gone on."""
    back = backend([Together(1)])
    page = '<!--#set var="v" value="old" -->' + include("/b.html") + echo("v") + \
        include("/b.html", ' wait="yes"') + echo("v")
    # What /b.html sets depends on an answer that has to be waited for.
    server = site(serve, back, page, b=include("/p/x", ' set="w"') + '<!--#set var="v" value="new" -->')
    assert server.get("/a.html").text == "oldnew"


def test_an_update_of_a_stale_include_does_not_hold_up_the_page(serve, backend):
    asked, go, ended = threading.Event(), threading.Event(), []

    def answer(conn, request):
        if len(back.requests) > 1:
            asked.set()
            ended.append(go.wait(10))
        conn.sendall(b"HTTP/1.1 200 OK\r\nCache-Control: max-age=0, stale-while-revalidate=60\r\n"
                     b"Content-Length: 6\r\n\r\ncached")

    back = backend([answer])
    server = site(serve, back, "[" + include("/p/x") + "]", "proxy_cache_path cache keys_zone=one:1m;",
                  """proxy_cache one; proxy_cache_key x; proxy_cache_background_update on;""")
    until(lambda: server.get("/a.html").text == "[cached]" and asked.is_set(), "the update")
    assert ended == []
    go.set()


def test_client_leaves(serve, backend):
    """With all kinds of includes under way."""
    back = backend([never])
    server = site(serve, back, "".join(include("/p/%d" % n) for n in range(4)) + include("/b.html") +
                  include("/p/w", ' wait="yes"'), b=include("/p/b") + "x" * 100000, ok="ok")
    with server.client() as client:
        client.send("GET /a.html HTTP/1.1\r\nHost: a\r\n\r\n")
        back.wait_requests(6)
        client.reset()
    assert server.get("/ok.html").text == "ok"


def test_page_that_breaks_off(serve, backend):
    """Its includes are let go."""
    page = b"a" + include("/p/x").encode() + include("/p/y").encode()

    def answer(conn, request):
        if b"/page" not in request:
            never(conn, request)
            return
        conn.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 500\r\n\r\n" + page)
        back.wait_requests(3)

    back = backend([answer])
    server = site(serve, back, "ok", place="ssi on;")
    with server.client() as client:
        client.send("GET /p/page HTTP/1.1\r\nHost: a\r\n\r\n")
        while client.recv():
            pass
    server.wait_log("upstream prematurely closed connection")
    assert server.get("/a.html").text == "ok"


def stopped(pid):
    with open("/proc/%d/stat" % pid) as stat:
        return stat.read().rpartition(")")[2].split()[0] == "T"


@pytest.mark.parametrize("directive", ['<!--#set var="v%d" value="x" -->', include("/ok.html?%d")])
def test_a_long_page_holds_up_nobody(serve, backend, directive):
    """Both requests are there when the worker goes on; the short one is answered before the long one ends."""
    server = site(serve, backend([b""]), "".join(directive % n for n in range(900)),
                  'log_format uri "$uri"; access_log access.log uri;', ok="ok")
    [worker] = wait_workers(server, 1)
    with server.client() as slow, server.client() as quick:
        slow.request("/ok.html")
        quick.request("/ok.html")
        os.kill(worker, signal.SIGSTOP)
        until(lambda: stopped(worker), "the worker to stop")
        slow.send("GET /a.html HTTP/1.1\r\nHost: a\r\n\r\n")
        quick.send("GET /ok.html HTTP/1.1\r\nHost: a\r\n\r\n")
        os.kill(worker, signal.SIGCONT)
        assert quick.response().text == "ok"
        slow.response()
    assert server.wait_lines("access.log", 4)[2:] == ["/ok.html", "/a.html"]
