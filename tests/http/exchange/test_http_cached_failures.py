"""Backends that fail while something stale is there, and slices that do not fit."""

import os
import time

import pytest

from harness import Closed, until

ASKED = ["500", "502", "503", "504", "403", "404", "429", "400", "closes", "garbage", "silent"]
PLACES = {"plain": ("", {"closes", "garbage", "silent"}),
          "named": ("proxy_cache_use_stale http_500 http_404;", {"closes", "garbage", "silent", "500", "404"}),
          "off": ("proxy_next_upstream off;", {"closes", "garbage", "silent"})}


def test_stale_if_error(serve, backend):
    """The backend allows it where it gives no answer; where it gives one proxy_cache_use_stale alone says so."""
    is_down = False

    def reply(conn, request):
        what = request.split()[1].decode().split("/")[2]
        if not is_down:
            conn.sendall(b"HTTP/1.1 200 OK\r\nCache-Control: max-age=1, stale-if-error=100\r\nContent-Length: 4\r\n\r\ngood")
        elif what.isdigit():
            conn.sendall(b"HTTP/1.1 %s X\r\nContent-Length: 3\r\n\r\nbad" % what.encode())
        elif what == "garbage":
            conn.sendall(b"HTTP/1.1 200 OK\r\nSome words\r\n\r\n")
        elif what == "silent":
            conn.recv(1)        # until the server gives it up
        conn.close()

    back = backend([reply])
    server = serve("proxy_cache_path @DIR@/c keys_zone=z:1m; server { listen 127.0.0.1:@PORT@; proxy_cache z; proxy_cache_key $uri; "
                   "add_header X-Cache $upstream_cache_status always;"
                   + "".join("location /%s/ { proxy_pass http://127.0.0.1:%d; %s location /%s/silent { proxy_read_timeout 1s; "
                             "proxy_pass http://127.0.0.1:%d; } }" % (name, back.port, more, name, back.port)
                             for name, (more, _) in PLACES.items()) + "}")
    for name in PLACES:
        for what in ASKED:
            assert server.get("/%s/%s" % (name, what)).text == "good"
    time.sleep(2.1)
    is_down = True
    for name, (_, stale) in PLACES.items():
        for what in ASKED:
            answer = server.get("/%s/%s" % (name, what))
            expected = (200, "STALE") if what in stale else (int(what), "EXPIRED")
            assert (answer.status, answer.header("X-Cache")) == expected, (name, what)


DATA = b"0123456789abcdef"


@pytest.mark.parametrize("tags, is_whole", [((b'"a"', b'"a"'), True), ((None, None), True), ((None, b'"a"'), True),
                                            ((b'"a"', b'"b"'), False), ((b'"a"', None), False)])
def test_tags_of_slices(serve, backend, tags, is_whole):
    """All have the first one's, where it has one."""
    def reply(conn, request):
        start, end = (int(n) for n in request.split(b"Range: bytes=")[1].split(b"\r\n")[0].split(b"-"))
        tag = tags[start != 0]
        conn.sendall(b"HTTP/1.1 206 Partial Content\r\nContent-Range: bytes %d-%d/16\r\nContent-Length: %d\r\n%s\r\n%s" % (
            start, end, end + 1 - start, b"" if tag is None else b"ETag: %s\r\n" % tag, DATA[start:end + 1]))

    back = backend([reply] * 9)
    server = serve("""server { listen 127.0.0.1:@PORT@; slice 4; proxy_set_header Range $slice_range;
        location / { proxy_pass http://127.0.0.1:%d; } }""" % back.port)
    if is_whole:
        assert server.get("/").body == DATA
    else:
        with pytest.raises(Closed):
            server.get("/")


@pytest.mark.parametrize("kind", ["refuses", "closes", "garbage", "silent"])
def test_failures_are_remembered(serve, backend, kind):
    """*_cache_valid 502 504: for that time no backend is asked again, whatever has failed."""
    def fail(conn, request):
        if kind == "garbage":
            conn.sendall(b"HTTP/1.1 200 OK\r\nX : y\r\n\r\n")
        elif kind == "silent":
            conn.recv(1)

    back = backend([fail])
    port = "@PORT1@" if kind == "refuses" else back.port
    server = serve("""proxy_cache_path @DIR@/c keys_zone=z:1m;
        server { listen 127.0.0.1:@PORT@; proxy_cache z; proxy_cache_key $uri; %(timeout)s proxy_cache_valid 502 504 1h;
            add_header X-Cache $upstream_cache_status always; proxy_no_cache $arg_personal; proxy_cache_bypass $arg_new;
            location / { proxy_pass http://127.0.0.1:%(port)s; }
            location /page { proxy_pass http://127.0.0.1:%(port)s; error_page 502 504 = /own; }
            location /short { proxy_pass http://127.0.0.1:%(port)s; proxy_cache_valid 200 1h; }
            location /own { return 200 own; } }""" % {"port": port, "timeout": "proxy_read_timeout 300ms;" if kind == "silent" else ""})
    status = 504 if kind == "silent" else 502

    def got(target, method="GET"):
        answer = server.client().request(target, method=method)
        return answer.status, answer.header("X-Cache")

    assert [got("/a", "HEAD"), got("/a"), got("/a", "HEAD")] == [(status, "MISS"), (status, "HIT"), (status, "HIT")]
    assert [server.get("/page").text for _ in range(2)] == ["own", "own"]
    assert [got("/short"), got("/short")] == [(status, "MISS")] * 2
    assert [got("/b?personal=1"), got("/b")] == [(status, "MISS")] * 2
    assert [got("/c?new=1"), got("/c"), got("/c")] == [(status, "BYPASS"), (status, "MISS"), (status, "HIT")]
    assert kind == "refuses" or len(back.requests) == 8


def test_a_remembered_failure_leaves_what_is_stored(serve, backend):
    """It is shorter than the failure, and found again after it; stale responses come first."""
    fields, broken = b"Content-Length: 1\r\nETag: \"e\"\r\nConnection: close\r\n\r\n", b"HTTP/1.1 200 OK\r\nX : y\r\n\r\n"
    back = backend([b"HTTP/1.1 200 OK\r\nCache-Control: max-age=1\r\n" + fields + b"a"], [broken], [b"HTTP/1.1 304 No\r\n" + fields])
    server = serve("""proxy_cache_path @DIR@/c keys_zone=z:1m; server { listen 127.0.0.1:@PORT@; proxy_cache z; proxy_cache_key $uri;
        proxy_cache_valid 502 1s; proxy_cache_revalidate on; add_header X-Cache $upstream_cache_status always;
        location / { proxy_pass http://127.0.0.1:%d; } }""" % back.port)

    def seen_at_last(cache):
        until(lambda: server.get("/").header("X-Cache") == cache, cache)

    assert server.get("/").text == "a"
    seen_at_last("EXPIRED")
    assert server.get("/").status == 502
    seen_at_last("REVALIDATED")
    assert len(back.requests) == 3


UNBUFFERED = [("off", None, False), ("off", "yes", True), ("on", "no", False), ("on", "NO", False), ("on", None, True), ("on", "x", True)]


@pytest.mark.parametrize("buffering, field, is_kept", UNBUFFERED)
def test_unbuffered_responses_are_not_kept(serve, backend, buffering, field, is_kept):
    more = b"" if field is None else b"X-Accel-Buffering: %s\r\n" % field.encode()
    back = backend([b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n" + more + b"\r\na"])
    server = serve("""proxy_cache_path @DIR@/c keys_zone=z:1m; server { listen 127.0.0.1:@PORT@; proxy_buffering %s; proxy_cache_valid 1h;
        add_header X-Cache $upstream_cache_status; location / { proxy_cache z; proxy_cache_key $uri; proxy_pass http://127.0.0.1:%d; }
        location /stored { proxy_store @DIR@/logs/$uri; proxy_pass http://127.0.0.1:%d; } }""" % (buffering, back.port, back.port))
    assert [server.get("/").header("X-Cache") for _ in range(2)] == ["MISS", "HIT" if is_kept else "MISS"]
    server.get("/stored")
    server.quit()
    server.wait_end()
    assert os.path.exists(server.path("logs", "stored")) == is_kept


@pytest.mark.parametrize("ignores", [False, True])
def test_redirects_inside_are_not_stored(serve, backend, ignores):
    """What X-Accel-Redirect names is for the request that the backend has allowed it."""
    back = backend([b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nX-Accel-Redirect: /file\r\n\r\na"])
    server = serve("""proxy_cache_path @DIR@/c keys_zone=z:1m; server { listen 127.0.0.1:@PORT@; proxy_cache_valid any 1h; %s
        location / { proxy_cache z; proxy_cache_key $uri; proxy_pass http://127.0.0.1:%d; }
        location /file { return 200 file; } }""" % ("proxy_ignore_headers X-Accel-Redirect;" * ignores, back.port))
    assert [server.get("/").text for _ in range(3)] == (["a"] if ignores else ["file"]) * 3
    assert len(back.requests) == (1 if ignores else 3)


@pytest.mark.parametrize("length", [None, b"7"])
def test_a_stored_304_has_the_length_that_the_backend_said(serve, backend, length):
    more = b"" if length is None else b"Content-Length: %s\r\n" % length
    back = backend([b"HTTP/1.1 304 Not Modified\r\n" + more + b"\r\n"])
    server = serve("""proxy_cache_path @DIR@/c keys_zone=z:1m; server { listen 127.0.0.1:@PORT@; proxy_cache_valid any 1h;
        location / { proxy_cache z; proxy_cache_key $uri; proxy_pass http://127.0.0.1:%d; } }""" % back.port)
    answers = [server.get("/") for _ in range(2)]
    assert [(one.status, one.header("Content-Length")) for one in answers] == [(304, length and length.decode())] * 2
    assert len(back.requests) == 1


@pytest.mark.parametrize("fields", [b"", b"Content-Range: bytes 0-15/16\r\n", b"Content-Range: x\r\n"])
def test_a_first_slice_that_is_refused(serve, backend, fields):
    """The client gets nothing, and the log the status that the backend has sent."""
    back = backend([b"HTTP/1.1 206 Partial Content\r\n%sContent-Length: 16\r\n\r\n" % fields + DATA])
    server = serve("""log_format s $status,$upstream_status; access_log access.log s; server { listen 127.0.0.1:@PORT@; slice 4;
        proxy_set_header Range $slice_range; location / { proxy_pass http://127.0.0.1:%d; } }""" % back.port)
    with pytest.raises(Closed):
        server.get("/")
    assert server.wait_lines("access.log", 1) == ["206,206"]
