"""Requests whose bodies are passed on as they come (proxy_request_buffering off): protocols times ways of sending times
what may happen meanwhile. After each of them no backend has taken a part of a body for a whole one, or anything
else for a request, and the next request is answered."""

import itertools
import time

import pytest

import streamed_backends as backends
from harness import Closed, Server
from harness.h2 import DATA, END_HEADERS, END_STREAM, H2, HEADERS, RST_STREAM

BODY = bytes(range(256)) * 40
HALF = len(BODY) // 2
FAMILIES = {"proxy2": "proxy"}

PLACE = """
    upstream %(name)s_next { server 127.0.0.1:%(port)d max_fails=0; server 127.0.0.1:%(next_port)d backup; }
"""
LOCATIONS = """
    location /%(name)s/ { %(pass)s; }
    location /%(name)s/intercept/ { %(pass)s; %(family)s_intercept_errors on; error_page 404 = @second_%(name)s; }
    location /%(name)s/page/ { %(pass)s; %(family)s_intercept_errors on; error_page 404 =200 /%(name)s/second/here; }
    location /%(name)s/dead/ { %(dead)s; error_page 502 = @second_%(name)s; }
    location /%(name)s/next/ { %(next)s; %(family)s_next_upstream error http_503 non_idempotent; }
    location /%(name)s/shielded/ { %(pass)s; %(shield)s }
    location /%(name)s/small/ { %(pass)s; client_max_body_size 6000; }
    location /%(name)s/second/ { internal; %(pass)s; %(mark)s }
    location @second_%(name)s { %(pass)s; %(mark)s }
"""
UPGRADE = """
    location /proxy/upgrade/ { %(pass)s; proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection upgrade; }
"""
CACHED = """
    location /%(name)s/cache/ { %(pass)s; %(family)s_cache c_%(family)s; %(family)s_cache_key $uri; %(family)s_cache_methods GET POST;
        %(family)s_cache_valid 200 1s; %(family)s_cache_use_stale updating error; %(family)s_cache_background_update on; }
"""


def words(backend):
    """What a protocol's locations are made of."""
    family = FAMILIES.get(backend.name, backend.name)
    scheme = {"proxy": "http://", "proxy2": "http://", "grpc": "grpc://"}.get(backend.name, "")
    more = "; proxy_http_version 2" if backend.name == "proxy2" else ""
    mark = "%s_param SECOND 1;" if family in ("fastcgi", "uwsgi", "scgi") else "%s_set_header X-Second 1;"

    def to(where):
        return "%s_pass %s%s%s" % (family, scheme, where, more)
    return {"name": backend.name, "family": family, "port": backend.port, "next_port": backend.next_port,
            "mark": (mark + " ") % family + params(family), "pass": to("127.0.0.1:%d" % backend.port),
            "dead": to("127.0.0.1:1"), "next": to(backend.name + "_next"),
            "shield": "" if family == "grpc" else family + "_ignore_client_abort on;"}


def params(family):
    lines = ("REQUEST_URI $request_uri", "REQUEST_METHOD $request_method", "CONTENT_LENGTH $content_length")
    return " ".join("%s_param %s;" % (family, line) for line in lines) if family in ("fastcgi", "uwsgi", "scgi") else ""


class Site:
    def __init__(self):
        self.backends = {one.name: one for one in (kind() for kind in backends.ALL)}
        places = [words(one) for one in self.backends.values()]
        families = ("proxy", "fastcgi", "uwsgi", "scgi")
        self.server = Server(
            "http2 on;"
            + " ".join("{0}_cache_path @DIR@/{0} keys_zone=c_{0}:1m;".format(family) for family in families)
            + " ".join("%s_request_buffering off;" % family for family in families)
            + " ".join(params(family) for family in families)
            + "".join(PLACE % place for place in places)
            + "server { listen 127.0.0.1:@PORT@;"
            + "".join(LOCATIONS % place for place in places) + UPGRADE % places[0]
            + "".join(CACHED % place for place in places if place["family"] != "grpc") + "}").start()

    def close(self):
        for one in self.backends.values():
            one.close()
        self.server.close()


@pytest.fixture(name="site", scope="module")
def _site():
    site = Site()
    yield site
    site.close()


# ---- clients: the same steps in each way of sending ----

class Length:
    def __init__(self, server, path):
        self.client = server.client()
        self.client.limit = 10
        more = "Connection: upgrade\r\nUpgrade: x\r\n" if "/upgrade/" in path else ""
        self.client.send("POST %s HTTP/1.1\r\nHost: a\r\n%s%s\r\n\r\n" % (path, more, self.framing))

    framing = "Content-Length: %d" % len(BODY)

    def first(self):
        self.client.send(BODY[:HALF])

    def rest(self):
        self.client.send(BODY[HALF:])

    def answer(self):
        try:
            return self.client.response().status
        except Closed:
            return None

    def leave(self):
        self.client.half_close()

    def break_off(self):
        self.client.reset()

    def close(self):
        self.client.close()


class Chunked(Length):
    framing = "Transfer-Encoding: chunked"

    def first(self):
        self.client.send(b"%x\r\n%s\r\n" % (HALF, BODY[:HALF]))

    def rest(self):
        self.client.send(b"%x\r\n%s\r\n0\r\n\r\n" % (len(BODY) - HALF, BODY[HALF:]))


class Two:
    fields = [("content-length", str(len(BODY)))]

    def __init__(self, server, path):
        self.h2 = H2(server.port)
        self.stream = self.h2.request(path, "POST", self.fields, ends=False)

    def first(self):
        self.h2.data(self.stream, BODY[:HALF], ends=False)

    def rest(self):
        try:
            self.h2.data(self.stream, BODY[HALF:])
        except OSError:
            pass

    def answer(self):
        answer = self.h2.answer(self.stream)
        return answer.status if answer.heads and answer.is_whole else None

    def leave(self):
        self.h2.data(self.stream, b"")      # the end, too early where a length was told

    def break_off(self):
        self.h2.send(RST_STREAM, 0, self.stream, b"\0\0\0\x08")

    def close(self):
        self.h2.socket.close()


class TwoUntold(Two):
    fields = []


SENDERS = [Length, Chunked, Two, TwoUntold]
PROTOCOLS = [kind.name for kind in backends.ALL]
BOTH = list(itertools.product(PROTOCOLS, SENDERS))


def check(site, protocol, since):
    """Nothing partial was taken for whole, and the next request is as good as any."""
    backend = site.backends[protocol]
    with site.server.client() as client:
        assert client.request("/%s/ping" % protocol, method="POST", body=b"ping").text == "got 4"
    backend.wait(lambda seen: all(one.outcome for one in seen[since:]))
    for one in backend.seen[since:]:
        assert one.outcome in ("whole", "cut"), backend.seen[since:]
        if one.outcome == "whole":
            assert one.body in (b"", b"ping", BODY) and one.announced in (None, len(one.body)), backend.seen[since:]
    assert [one.uri for one in backend.seen[since:]].count("/%s/ping" % protocol) == 1
    return backend.seen[since:]


@pytest.fixture(name="play")
def _play(site):
    """play(protocol, sender, path) sends the head and the first half, and waits until the backend has heard of it."""
    open_clients = []

    def play(protocol, sender, path, waits=True):
        backend = site.backends[protocol]
        since = len(backend.seen)
        client = sender(site.server, "/%s/%s" % (protocol, path))
        open_clients.append(client)
        client.first()
        if waits:
            backend.wait(lambda seen: len(seen) > since)
        return client, since
    yield play
    for client in open_clients:
        client.close()


def holds(protocol, sender):
    """Is the body read before it is sent, because its length has to be told?"""
    return protocol in ("uwsgi", "scgi") and sender in (Chunked, TwoUntold)


@pytest.mark.parametrize("protocol, sender", BOTH)
def test_whole_body(site, play, protocol, sender):
    client, since = play(protocol, sender, "whole", waits=not holds(protocol, sender))
    client.rest()
    assert client.answer() == 200
    assert check(site, protocol, since)[0].body == BODY


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_small_chunked_body_that_comes_with_the_head(site, protocol):
    """Its length is known before anything is said to the backend: applications read as much as they were told of."""
    backend = site.backends[protocol]
    since = len(backend.seen)
    with site.server.client() as client:
        client.send(b"POST /%s/short HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
                    b"5\r\nhello\r\n1\r\n!\r\n0\r\n\r\n" % protocol.encode())
        assert client.response().text == "got 6"
    assert [(one.announced, one.body) for one in backend.seen[since:]] == [(6, b"hello!")]


def test_small_body_is_in_no_file(serve, backend):
    """client_body_in_file_only is for bodies that are buffered."""
    back = backend([b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"])
    server = serve("""server { listen 127.0.0.1:@PORT@; location / { client_body_in_file_only on; proxy_request_buffering off;
        proxy_pass http://127.0.0.1:%d; add_header X-Body "$request_body;$request_body_file"; } }""" % back.port)
    with server.client() as client:
        client.send(b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n")
        assert client.response().header("X-Body") == "hello;"


def test_body_that_fills_no_buffer(serve, backend):
    """What client_body_buffer_size does not hold is passed on as it comes, though it is there: no file is made."""
    back = backend([b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"])
    server = serve("""server { listen 127.0.0.1:@PORT@; location / { client_body_buffer_size 1k; proxy_request_buffering off;
        proxy_pass http://127.0.0.1:%d; } }""" % back.port)
    with server.client() as client:
        client.send(b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n7d0\r\n%s\r\n0\r\n\r\n" % bytes(2000))
        assert client.response().text == "ok"
    assert b"Transfer-Encoding: chunked" in back.requests[0] and "temporary file" not in server.error_log


@pytest.mark.parametrize("protocol", ["fastcgi", "uwsgi", "scgi"])
def test_small_body_by_http2_that_comes_with_the_head(site, protocol):
    backend = site.backends[protocol]
    since = len(backend.seen)
    with H2(site.server.port) as h2:
        h2.socket.sendall(h2.frame(HEADERS, END_HEADERS, 1, h2.block("/%s/short" % protocol, "POST"))
                          + h2.frame(DATA, END_STREAM, 1, b"hello!"))
        assert h2.answer(1).body == b"got 6"
    assert [(one.announced, one.body) for one in backend.seen[since:]] == [(6, b"hello!")]


@pytest.mark.parametrize("when", ["early", "mid"])
@pytest.mark.parametrize("path, status", [("%s-200", 200), ("%s-404", 404), ("intercept/%s-404", 200),
                                          ("page/%s-404", 200), ("%s-accel", 200), ("%s-named", 200),
                                          ("next/%s-503", (200, 503))])
@pytest.mark.parametrize("protocol, sender", BOTH)
def test_early_answer(site, play, protocol, sender, path, status, when):
    """The backend answers before it has the body, and another place, or peer, may have to answer instead: with the
    whole body where nothing of it is gone, else without one."""
    held = holds(protocol, sender)
    client, since = play(protocol, sender, path % when, waits=not held)
    if held or when == "early":
        client.rest()
    got = client.answer()
    assert got in status if isinstance(status, tuple) else got == status
    client.rest()
    check(site, protocol, since)


@pytest.mark.parametrize("protocol, sender", BOTH)
def test_nobody_was_asked(site, play, protocol, sender):
    """The first place has no backend: nothing is gone, and the second gets the whole."""
    client, since = play(protocol, sender, "dead/x", waits=False)
    client.rest()
    assert client.answer() == 200
    assert check(site, protocol, since)[0].body == BODY


@pytest.mark.parametrize("how", ["leave", "break_off"])
@pytest.mark.parametrize("path", ["x", "early-head", "shielded/x", "shielded/early-head"])
@pytest.mark.parametrize("protocol, sender", BOTH)
def test_body_that_breaks_off(site, play, protocol, sender, path, how):
    """The client's part ends in the middle, before or after the answer has begun."""
    held = holds(protocol, sender)
    client, since = play(protocol, sender, path, waits=not held)
    if how == "leave" and sender is TwoUntold:
        client.close()
    elif not held:
        site.backends[protocol].wait(lambda seen: len(seen[since].body) == HALF)
    getattr(client, how)() if not (how == "leave" and sender is TwoUntold) else None
    if not held:
        site.backends[protocol].wait(lambda seen: seen[since].outcome)
        assert site.backends[protocol].seen[since].outcome == "cut"
    check(site, protocol, since)


@pytest.mark.parametrize("path", ["x", "early-head"])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_malformed_chunk(site, play, protocol, path):
    held = holds(protocol, Chunked)
    client, since = play(protocol, Chunked, path, waits=not held)
    client.client.send(b"zz\r\n")
    assert client.answer() in ((400,) if path == "x" or held else (400, None))
    seen = check(site, protocol, since)
    assert held or seen[0].outcome == "cut"


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_body_that_grows_too_large(site, play, protocol):
    held = holds(protocol, Chunked)
    client, since = play(protocol, Chunked, "small/x", waits=not held)
    client.rest()
    assert client.answer() == 413
    seen = check(site, protocol, since)
    assert held or seen[0].outcome == "cut"


@pytest.mark.parametrize("ends", ["whole", "leave", "break_off"])
@pytest.mark.parametrize("when", ["early", "mid"])
@pytest.mark.parametrize("sender", [Length, Chunked])
def test_upgrade_before_the_body_is_whole(site, play, sender, when, ends):
    """The new protocol begins behind the body; where that breaks off there is none."""
    client, since = play("proxy", sender, "upgrade/%s-101" % when)
    assert client.client.head().status == 101
    if ends == "whole":
        client.rest()
        client.client.send(b"hello")
        assert client.client.rest() == b"HELLO"
    else:
        getattr(client, ends)()
    seen = check(site, "proxy", since)
    assert seen[0].outcome == ("whole" if ends == "whole" else "cut")


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_client_that_takes_nothing_goes_on_sending(site, protocol):
    """Its window is closed when the answer begins: two fibers wait for one stream, and each is woken for its own."""
    backend = site.backends[protocol]
    since = len(backend.seen)
    with H2(site.server.port, settings={4: 0}) as client:
        stream = client.request("/%s/early-head" % protocol, "POST", Two.fields, ends=False)
        client.data(stream, BODY[:HALF], ends=False)
        client.until(lambda frame: frame.kind == HEADERS)
        client.data(stream, BODY[HALF:])
        backend.wait(lambda seen: seen[since].outcome)
        client.window(1000, stream)
        assert client.answer(stream).body == b"first got %d" % len(BODY)
    assert check(site, protocol, since)[0].body == BODY


# ---- the cache: last, so that what was stored first has expired ----

STORED = {}


@pytest.mark.parametrize("sender", SENDERS)
@pytest.mark.parametrize("protocol", [name for name in PROTOCOLS if name != "grpc"])
def test_answer_is_stored(site, play, protocol, sender):
    path = "cache/" + sender.__name__
    client, since = play(protocol, sender, path, waits=False)
    client.rest()
    assert client.answer() == 200
    assert check(site, protocol, since)[0].body == BODY
    STORED[protocol, sender] = time.time()


@pytest.mark.parametrize("sender", SENDERS)
@pytest.mark.parametrize("protocol", [name for name in PROTOCOLS if name != "grpc"])
def test_background_update(site, play, protocol, sender):
    """An expired answer is given at once; the request that renews it has the whole body."""
    if (protocol, sender) not in STORED:
        pytest.skip("nothing was stored")
    time.sleep(max(0, STORED[protocol, sender] + 2.1 - time.time()))
    path = "cache/" + sender.__name__
    client, since = play(protocol, sender, path, waits=False)
    client.rest()
    assert client.answer() == 200
    site.backends[protocol].wait(lambda seen: len(seen) > since and seen[since].outcome)
    assert check(site, protocol, since)[0].body == BODY
