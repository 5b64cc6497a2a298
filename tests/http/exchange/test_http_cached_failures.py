"""Backends that fail while something stale is there, and slices that do not fit."""

import time

import pytest

from harness import Closed

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
            time.sleep(1)
        conn.close()

    back = backend([reply])
    server = serve("proxy_cache_path @DIR@/c keys_zone=z:1m; server { listen 127.0.0.1:@PORT@; proxy_cache z; proxy_cache_key $uri; "
                   "proxy_read_timeout 300ms; add_header X-Cache $upstream_cache_status always;"
                   + "".join("location /%s/ { proxy_pass http://127.0.0.1:%d; %s }" % (name, back.port, more)
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
