"""Content codings: gunzip, brotli, zstd and files that were encoded before; one choice among all of them."""

import gzip
import os
import subprocess
import threading
import time
import zlib

import brotli
import pytest

from harness.h2 import H2

TEXT = b"".join(b"%d line of text\n" % (i * 7919 % 100003) for i in range(400))


def packed(data):
    return gzip.compress(data, mtime=0)


def unzstd(data):
    return subprocess.run(["zstd", "-dc"], input=data, capture_output=True, check=True).stdout



UNPACK = {"gzip": gzip.decompress, "br": brotli.decompress, "zstd": unzstd, None: bytes}


def clear(response):
    return UNPACK[response.header("Content-Encoding")](response.body)


def accept(value):
    return "Accept-Encoding: " + value


ALL = accept("gzip, deflate, br, zstd")
ON = {"br": "brotli on; brotli_min_length 0;", "zstd": "zstd on; zstd_min_length 0;",
      "gzip": "gzip on; gzip_min_length 0;"}
LEVEL = {"br": "brotli_comp_level %d;", "zstd": "zstd_comp_level %d;", "gzip": "gzip_comp_level %d;"}
SITE = """
    types { text/html html; text/plain txt; } gzip_vary on; %s
    server { listen 127.0.0.1:@PORT@; root html; %s }
"""


def got(response):
    """The coding and how many Vary fields there are."""
    return response.header("Content-Encoding"), response.all("Vary").count("Accept-Encoding")


# ---- one choice ----

@pytest.mark.one_server
@pytest.mark.parametrize("accepted, chosen", [
    ("gzip, deflate, br, zstd", "br"), ("zstd, br, gzip", "br"), ("gzip, zstd", "zstd"), ("gzip", "gzip"),
    ("gzip;q=1, br;q=0.9, zstd;q=0.8", "gzip"), ("gzip;q=0.1, zstd;q=0.2, br;q=0.2", "br"),
    ("br;q=0, gzip;q=0, zstd;q=0.001", "zstd"), ("br;q=0", None), ("identity", None), ("*", None),
    ("identity, gzip", "gzip"), ("identity;q=1, gzip;q=0.5", None), ("identity;q=0.5, gzip", "gzip"),
    ("identity;q=0, *", "br"), ("*;q=0.5, identity;q=0, gzip", "gzip"), ("*;q=0", None),
    ("*;q=0, gzip;q=0.1", "gzip"), ("identity;q=0, br;q=0, *;q=0.3", "zstd"), ("deflate", None), ("", None)])
def test_the_client_chooses_among_all(serve, accepted, chosen):
    server = serve(SITE % ("".join(ON.values()), ""), files={"html/a.html": TEXT})
    response = server.get("/a.html", accept(accepted))
    assert got(response) == (chosen, 1)
    assert clear(response) == TEXT


@pytest.mark.parametrize("on, chosen", [(["gzip"], "gzip"), (["zstd"], "zstd"), (["br"], "br"),
                                        (["gzip", "zstd"], "zstd"), (["gzip", "br"], "br"), ([], None)])
def test_what_is_off_is_not_chosen(serve, on, chosen):
    server = serve(SITE % ("".join(ON[name] for name in on), ""), files={"html/a.html": TEXT})
    response = server.get("/a.html", ALL)
    assert got(response) == (chosen, 1 if on else 0) and clear(response) == TEXT


def test_the_type_decides_for_each(serve):
    """The best one of those that want this type."""
    server = serve(SITE % ("".join(ON.values()) + "gzip_types text/plain;", ""),
                   files={"html/a.html": TEXT, "html/a.txt": TEXT})
    assert got(server.get("/a.html", ALL)) == ("br", 1)
    assert got(server.get("/a.txt", ALL)) == ("gzip", 1)


def test_gzip_rules_are_those_of_gzip(serve):
    """gzip_disable, gzip_proxied and gzip_http_version say nothing of brotli and zstd, as with ngx_brotli."""
    server = serve(SITE % ("".join(ON.values()), ""), files={"html/a.html": TEXT})
    for accepted, chosen in (("gzip", None), ("gzip, zstd", "zstd"), ("gzip, br", "br")):
        assert server.get("/a.html", accept(accepted), "Via: 1.1 x").header("Content-Encoding") == chosen


def test_an_encoded_answer_is_not_encoded_again(serve, backend):
    body = packed(TEXT)
    back = backend([b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Encoding: gzip\r\n"
                    b"Content-Length: %d\r\n\r\n" % len(body) + body])
    server = serve(SITE % ("".join(ON.values()), "location / { proxy_pass http://127.0.0.1:%d; }" % back.port))
    response = server.get("/", ALL)
    assert response.all("Content-Encoding") == ["gzip"] and response.body == body


def test_no_transform_of_a_backend(serve, backend):
    """Its body goes as it came; the own `add_header` of a place does not count, as with nginx."""
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: %d\r\n" % len(TEXT)
    back = backend([head + b"Cache-Control: private, No-Transform\r\n\r\n" + TEXT])
    server = serve(SITE % ("".join(ON.values()), """
        location /p/ { proxy_pass http://127.0.0.1:%d; }
        location /own/ { add_header Cache-Control no-transform; alias html/; }""" % back.port),
        files={"html/a.html": TEXT})
    response = server.get("/p/", ALL)
    assert response.header("Content-Encoding") is None and response.body == TEXT
    assert got(server.get("/own/a.html", ALL)) == ("br", 1)


@pytest.mark.parametrize("coding", ["br", "zstd"])
def test_heads_and_conditions(serve, coding):
    server = serve(SITE % (ON[coding], ""), files={"html/a.html": TEXT})
    first = server.get("/a.html", ALL)
    tag = first.header("ETag")
    assert tag.startswith('W/"') and first.header("Accept-Ranges") is None
    with server.client() as client:
        head = client.request("/a.html", ALL, method="HEAD")
        assert got(head) == (coding, 1) and head.header("Content-Length") is None and head.body == b""
        same = client.request("/a.html", ALL, "If-None-Match: " + tag)
        assert same.status == 304 and same.header("Content-Encoding") is None
        ranged = client.request("/a.html", ALL, "Range: bytes=0-9")
        assert ranged.status == 200 and clear(ranged) == TEXT
        part = client.request("/a.html", "Range: bytes=0-9")
        assert part.status == 206 and part.body == TEXT[:10]


SIZES = [0, 1, 100, 4096, 32768, 100000, 1000003]


@pytest.mark.parametrize("coding, settings", [
    ("br", ""), ("br", "brotli_comp_level 0;"), ("br", "brotli_comp_level 11; brotli_window 1k;"),
    ("br", "brotli_buffers 1 512;"), ("br", "brotli_window 16m; sendfile on;"), ("br", "aio threads;"),
    ("zstd", ""), ("zstd", "zstd_comp_level 19;"), ("zstd", "zstd_comp_level -7;"),
    ("zstd", "zstd_buffers 1 512;"), ("zstd", "zstd_comp_level 22; output_buffers 1 700;"),
    ("gzip", "gzip_comp_level 3; gzip_buffers 1 512;"), ("gzip", "gzip_comp_level 2; output_buffers 1 700;"),
    ("gzip", "gzip_comp_level 1; gzip_window 1k;")])
def test_bodies_unpack(serve, coding, settings):
    """Of each size, on one connection: compressors are used again."""
    bodies = {size: (TEXT * (size // len(TEXT) + 1))[:size // 2] + os.urandom(size - size // 2)
              for size in SIZES}
    server = serve(SITE % (ON[coding] + settings, ""),
                   files={"html/%d.html" % size: body for size, body in bodies.items()})
    with server.client() as client:
        for size, body in bodies.items():
            response = client.request("/%d.html" % size, ALL)
            assert response.header("Content-Encoding") == coding
            assert clear(response) == body, size


@pytest.mark.parametrize("coding", ["br", "zstd"])
def test_ratio(serve, coding):
    name = {"br": "brotli", "zstd": "zstd"}[coding]
    server = serve("log_format ratio '$%s_ratio'; access_log logs/ratio ratio;" % name
                   + SITE % (ON[coding], ""), files={"html/a.html": b"a" * 100000})
    with server.client() as client:
        client.request("/a.html", ALL)
        client.request("/a.html")
    first, second = server.wait_lines("logs/ratio", 2)
    assert float(first) > 100 and second == "-"


@pytest.mark.parametrize("coding", ["br", "zstd", "gzip"])
@pytest.mark.parametrize("length", [b"", b"Content-Length: 23\r\n"], ids=["unknown", "known"])
@pytest.mark.parametrize("level", [1, 6])
def test_what_came_so_far_can_be_unpacked(serve, backend, coding, length, level):
    """Without buffering, a backend that pauses does not keep its beginning back."""
    asked = threading.Event()

    def slowly(conn, request):
        conn.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n%s\r\nfirst part," % length)
        assert asked.wait(10)
        conn.sendall(b" second part")

    back = backend([slowly])
    server = serve(SITE % (ON[coding] + LEVEL[coding] % level, "location / { proxy_buffering off; proxy_pass http://127.0.0.1:%d; }" % back.port))
    with server.client() as client:
        client.send("GET / HTTP/1.1\r\nHost: a\r\n%s\r\n\r\n" % ALL)
        assert client.head().header("Content-Encoding") == coding
        start = b""
        while not readable_part(coding, start).startswith(b"first part,"):
            start += chunk(client)
        asked.set()
        for part in iter(lambda: chunk(client), b""):
            start += part
    assert UNPACK[coding](start) == b"first part, second part"


@pytest.mark.parametrize("is_cut", [False, True])
def test_a_body_that_is_gathered(serve, backend, is_cut):
    """One of known length that comes in pieces; an answer that was cut is no whole one."""
    went_on = threading.Event()

    def in_pieces(conn, request):
        conn.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: %d\r\n\r\n" % len(TEXT))
        for start in range(0, len(TEXT), 1000):
            conn.sendall(TEXT[start:start + 1000])
            if start == 3000:
                assert went_on.wait(10)
                if is_cut:
                    return

    back = backend([in_pieces])
    server = serve(SITE % (ON["gzip"] + "gzip_comp_level 6;", "location / { proxy_pass http://127.0.0.1:%d; }" % back.port),
                   allow=["prematurely closed"])
    with server.client() as client:
        client.send("GET / HTTP/1.1\r\nHost: a\r\n%s\r\n\r\n" % ALL)
        assert client.head().header("Content-Encoding") == "gzip"
        went_on.set()
        if is_cut:
            assert not client.rest_or_reset().endswith(b"0\r\n\r\n")
        else:
            assert zlib.decompress(b"".join(iter(lambda: chunk(client), b"")), 31) == TEXT


def readable_part(coding, data):
    """As much as can be read of a stream that has not ended."""
    if coding == "gzip":
        return zlib.decompressobj(31).decompress(data)
    if coding == "br":
        return brotli.Decompressor().process(data)
    return subprocess.run(["zstd", "-dcq"], input=data, capture_output=True, check=False).stdout


def chunk(client):
    """The data of the next chunk."""
    line = b""
    while not line.endswith(b"\r\n"):
        line += client.recv(1)
    data = b""
    wanted = int(line, 16) + 2
    while len(data) < wanted:
        data += client.recv(wanted - len(data))
    return data[:-2]


@pytest.mark.parametrize("coding", ["br", "zstd"])
def test_subrequests_are_encoded_with_their_page(serve, coding):
    server = serve(SITE % (ON[coding], "ssi on;"), files={
        "html/a.html": 'one <!--#include virtual="/b.html" --> three', "html/b.html": "two " * 30})
    response = server.get("/a.html", ALL)
    assert response.all("Content-Encoding") == [coding]
    assert clear(response) == b"one " + b"two " * 30 + b" three"


@pytest.mark.parametrize("coding", ["br", "zstd"])
def test_filters_before_see_clear_text(serve, coding):
    server = serve(SITE % (ON[coding], "sub_filter line word; sub_filter_once off; charset utf-8;"),
                   files={"html/a.html": TEXT})
    response = server.get("/a.html", ALL)
    assert response.header("Content-Type") == "text/html; charset=utf-8"
    assert clear(response) == TEXT.replace(b"line", b"word")


@pytest.mark.parametrize("coding", ["br", "zstd", "gzip"])
def test_over_http2(serve, coding):
    server = serve("http2 on;" + SITE % (ON[coding], ""), files={"html/a.html": TEXT})
    with H2(server.port) as h2:
        response = h2.get("/a.html", headers=[("accept-encoding", coding)])
        assert UNPACK[coding](response.body) == TEXT
        assert response.headers["content-encoding"] == coding


def test_clients_that_leave(serve):
    """Their compressors serve the next ones."""
    body = os.urandom(3000000)
    server = serve(SITE.replace("@PORT@", "@PORT@ sndbuf=16k") % ("".join(ON.values()), ""),
                   files={"html/a.html": body, "html/b.html": TEXT})
    for coding in ("br", "zstd", "gzip"):
        for _ in range(4):
            with server.client(rcvbuf=8192) as client:
                client.send("GET /a.html HTTP/1.1\r\nHost: a\r\n%s\r\n\r\n" % accept(coding))
                client.head()
                client.reset()
        assert clear(server.get("/b.html", accept(coding))) == TEXT


def test_memory_of_compressors_has_a_limit(serve):
    """Clients that do not read hold compressors: beyond the limit answers leave as they are."""
    server = serve("compression_memory_limit 3m;" + SITE.replace("@PORT@", "@PORT@ sndbuf=16k") % (
                       ON["gzip"], "location /status { return 200 $limits_reached; }"),
                   files={"html/a.html": os.urandom(3000000), "html/b.html": TEXT})
    slow = []
    for _ in range(12):
        client = server.client(rcvbuf=8192)
        client.send("GET /a.html HTTP/1.1\r\nHost: a\r\n%s\r\n\r\n" % accept("gzip"))
        slow.append(client)
    codings = [client.head().header("Content-Encoding") for client in slow]
    assert codings[0] == "gzip" and codings[-1] is None
    assert got(server.get("/b.html", accept("gzip"))) == (None, 1)
    server.wait_log("compression_memory_limit is 3145728")
    assert int(server.get("/status").text) >= 1
    for client in slow:
        client.reset()
    while server.get("/b.html", accept("gzip")).header("Content-Encoding") is None:
        pass


# ---- files that were encoded before ----

STATIC = "brotli_static on; zstd_static on; gzip_static on;"
CODED = {"html/a.html": TEXT, "html/a.html.gz": b"as gzip", "html/a.html.br": b"as br", "html/a.html.zst": b"as zstd",
         "html/b.html": TEXT, "html/b.html.gz": b"as gzip", "html/c.html": TEXT}


@pytest.mark.one_server
@pytest.mark.parametrize("accepted, chosen", [
    ("gzip, br, zstd", "br"), ("gzip, zstd", "zstd"), ("gzip", "gzip"), ("gzip;q=1, br;q=0.5", "gzip"),
    ("zstd, br;q=0.9", "zstd"), ("br;q=0", None), ("identity, br;q=0.5", None), ("", None)])
def test_files_take_part_in_the_choice(serve, accepted, chosen):
    server = serve(SITE % (STATIC, ""), files=CODED)
    response = server.get("/a.html", accept(accepted))
    assert got(response) == (chosen, 1)
    assert response.header("Content-Type") == "text/html"
    assert response.body == (TEXT if chosen is None else b"as " + chosen.encode())
    if chosen is not None:
        assert response.header("Content-Length") == str(len(response.body))
        assert not response.header("ETag").startswith("W/")


def test_what_is_not_there_is_the_next_choice(serve):
    server = serve(SITE % (STATIC, ""), files=CODED)
    assert got(server.get("/b.html", ALL)) == ("gzip", 1)
    assert got(server.get("/c.html", ALL)) == (None, 0)


def test_a_file_goes_before_what_would_have_to_be_made(serve):
    """At the same weight; what the client likes better is made."""
    server = serve(SITE % (STATIC + ON["br"], ""), files=CODED)
    assert server.get("/b.html", ALL).body == b"as gzip"
    better = server.get("/b.html", accept("br, gzip;q=0.5"))
    assert got(better) == ("br", 1) and clear(better) == TEXT


def test_always(serve):
    server = serve(SITE % ("zstd_static always; gzip_static on;", ""), files=CODED)
    assert server.get("/a.html").body == b"as zstd"
    assert server.get("/a.html", accept("gzip")).body == b"as gzip"
    assert server.get("/b.html").body == TEXT


def test_zstd_static_head_and_conditions(serve):
    server = serve(SITE % (STATIC, ""), files=CODED)
    with server.client() as client:
        head = client.request("/a.html", accept("zstd"), method="HEAD")
        assert got(head) == ("zstd", 1) and head.header("Content-Length") == "7"
        same = client.request("/a.html", accept("zstd"), "If-None-Match: " + head.header("ETag"))
        assert same.status == 304 and same.header("Content-Encoding") is None
        assert client.request("/a.html", accept("zstd"), "Range: bytes=0-1").body == b"as zstd"
        assert client.request("/a.html", accept("zstd"), method="POST", body="x").status == 405


def test_a_coded_file_that_appears_and_goes(serve):
    """What a worker keeps of it, or of its absence, is not served any longer than its file."""
    server = serve(SITE % (STATIC, ""), files=CODED)
    assert got(server.get("/c.html", ALL)) == (None, 0)
    server.write("html/c.html.gz.new", b"new one")
    os.rename(server.path("html/c.html.gz.new"), server.path("html/c.html.gz"))
    assert server.get("/c.html", ALL).body == b"new one"
    server.write("html/c.html.gz.new", b"newer one")
    os.rename(server.path("html/c.html.gz.new"), server.path("html/c.html.gz"))
    assert server.get("/c.html", ALL).body == b"newer one"
    os.unlink(server.path("html/c.html.gz"))
    assert server.get("/c.html", ALL).body == TEXT


def ask_until_absence_is_known(server, uri):
    """The worker relies on a directory only when its last change is past: some requests after that."""
    changed = os.stat(os.path.dirname(server.path("html" + uri))).st_ctime
    while time.time() < changed + 0.1:
        assert server.get(uri, ALL).body == TEXT
    for _ in range(3):
        assert server.get(uri, ALL).body == TEXT


def test_a_coded_file_that_appears_where_its_absence_was_known(serve):
    """Also by a new name of the directory, and a link that led nowhere; and it goes again."""
    server = serve(SITE % (STATIC, ""), files={**CODED, "html/d/c.html": TEXT, "html/e/c.html": TEXT})
    ask_until_absence_is_known(server, "/c.html")
    server.write("html/c.html.zst", b"as zstd")
    assert server.get("/c.html", ALL).body == b"as zstd"
    os.unlink(server.path("html/c.html.zst"))
    ask_until_absence_is_known(server, "/c.html")
    server.write("html/e/c.html.br", b"another directory")
    ask_until_absence_is_known(server, "/d/c.html")
    os.rename(server.path("html/d"), server.path("html/f"))
    os.rename(server.path("html/e"), server.path("html/d"))
    assert server.get("/d/c.html", ALL).body == b"another directory"
    os.symlink("d/target", server.path("html/c.html.gz"))
    ask_until_absence_is_known(server, "/c.html")
    server.write("html/d/target", b"behind a link")
    assert server.get("/c.html", ALL).body == b"behind a link"


def test_absence_is_of_one_coding(serve):
    """Others were not looked for, or are there."""
    server = serve(SITE % (STATIC, ""), files=CODED)
    for accepted, body in (("br", TEXT), ("zstd", TEXT), ("gzip", b"as gzip"), ("gzip, br, zstd", b"as gzip")) * 3:
        response = server.get("/b.html", accept(accepted))
        assert response.body == body and len(response.all("Vary")) == 1


def test_kept_errors_of_open_file_cache(serve):
    server = serve(SITE % (STATIC + "open_file_cache max=100; open_file_cache_errors on;", ""), files=CODED)
    for _ in range(3):
        assert server.get("/c.html", ALL).body == TEXT
        assert server.get("/b.html", ALL).body == b"as gzip"


def test_a_file_that_may_not_be_read(serve):
    """The clear one is sent, and the log says why."""
    server = serve("disable_symlinks on from=$document_root;" + SITE % ("gzip_static on;", ""),
                   files={"html/a.html": TEXT, "other": b"secret"}, allow=["failed"])
    os.symlink(server.path("other"), server.path("html/a.html.gz"))
    assert server.get("/a.html", accept("gzip")).body == TEXT
    server.wait_log(r"a\.html\.gz\" failed \(40")


# ---- a dictionary ----

def test_zstd_dictionary(serve):
    """Bodies that are like the dictionary become very small, and are whole for who has it."""
    words = b"".join(b"word number %d of the dictionary\n" % number for number in range(500))
    server = serve(SITE % ("zstd_dict_file @DIR@/words; ", "zstd on; zstd_types *; zstd_min_length 0;"),
                   files={"words": words, "html/a.html": words[2000:12000], "html/b.html": "other"})
    for name, clear_text in ("a", words[2000:12000]), ("b", b"other"):
        answer = server.get("/%s.html" % name, accept("zstd"))
        assert answer.header("Content-Encoding") == "zstd"
        unpacked = subprocess.run(["zstd", "-dc", "-D", server.path("words")], input=answer.body, capture_output=True, check=True).stdout
        assert unpacked == clear_text
    assert len(server.get("/a.html", accept("zstd")).body) < 200
    # Who has no dictionary cannot read it.
    assert subprocess.run(["zstd", "-dc"], input=server.get("/a.html", accept("zstd")).body, capture_output=True, check=False).returncode != 0
