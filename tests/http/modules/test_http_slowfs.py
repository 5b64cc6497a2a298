"""slowfs: copies of files that lie on slow storage."""

import os
import shutil
import signal
import threading

import pytest

from harness import run_binary, until
from harness.gates import Gates
from harness.h2 import H2
from harness.workers import wait_workers

BIG = "".join("%07d\n" % number for number in range(50000))  # 400,000 bytes
HTTP = """
    log_format status "$uri $slowfs_cache_status";
    access_log access.log status;
    slowfs_cache_path cache levels=1:2 keys_zone=copies:1m inactive=1h max_size=100m;
    add_header X-Copy $slowfs_cache_status always;
    types { text/plain txt; text/html html; }
    server {
        listen 127.0.0.1:@PORT@;
        root slow; slowfs_cache copies; slowfs_cache_valid @VALID@; @MORE@
    }
"""


def conf(more="", valid="1h"):
    return HTTP.replace("@VALID@", valid).replace("@MORE@", more)


def start(serve, more="", valid="1h", **words):
    return serve(conf(more, valid), files={"slow/a.txt": "first", "slow/big.txt": BIG, "slow/dir/index.html": "index"}, **words)


def copies(server):
    """The files of the cache, the index file and what begins with a dot aside."""
    return [os.path.join(folder, name) for folder, _, names in os.walk(server.path("cache")) for name in names
            if not name.startswith(".")]


def ask(server, target="/a.txt", *headers, method="GET"):
    answer = server.get(target, *headers, method=method)
    return answer.status, answer.header("X-Copy"), answer.text


def test_a_copy_answers(serve):
    server = start(serve)
    assert ask(server) == (200, "MISS", "first")
    assert ask(server) == (200, "HIT", "first")
    shutil.rmtree(server.path("slow"))
    assert ask(server) == (200, "HIT", "first")
    assert ask(server, "/b.txt") == (404, "MISS", server.get("/b.txt").text)
    assert [line for line in server.wait_lines("access.log", 3)][:3] == ["/a.txt MISS", "/a.txt HIT", "/a.txt HIT"]
    assert len(copies(server)) == 1 and not os.listdir(server.path("body_temp"))


def test_it_is_the_answer_that_the_file_gives(serve):
    """Fields, conditions, ranges and HEAD: as of the static module, from a copy and without one."""
    server = start(serve, "location /plain/ { alias slow/; slowfs_cache off; }")

    def answer(target, *headers, method="GET"):
        got = server.get(target, *headers, method=method)
        fields = {name: got.header(name) for name in ("Content-Type", "Content-Length", "Content-Range", "Last-Modified", "ETag",
                                                      "Accept-Ranges")}
        return got.status, got.text if "multipart" not in (fields["Content-Type"] or "") else len(got.text), \
            {name: value for name, value in fields.items() if "multipart" not in (value or "")}
    plain = server.get("/plain/a.txt")
    assert plain.header("X-Copy") is None
    asked = [(), ("Range: bytes=1-2",), ("Range: bytes=-2",), ("Range: bytes=9-",), ("If-None-Match: " + plain.header("ETag"),),
             ("If-Modified-Since: " + plain.header("Last-Modified"),), ("If-Match: \"x\"",), ("Range: bytes=0-0,2-3",),
             ("Range: bytes=1-2", "If-Range: \"x\"")]
    for name in "a.txt", "big.txt":
        for headers in asked + asked:  # the first of them finds no copy
            for method in "HEAD", "GET":
                assert answer("/" + name, *headers, method=method) == answer("/plain/" + name, *headers, method=method)
    until(lambda: ask(server, "/big.txt")[1] == "HIT", "a copy of the big file")
    for headers in asked:
        assert answer("/big.txt", *headers) == answer("/plain/big.txt", *headers)


def next_look(server):
    """The first answer that the copy is too old for."""
    return until(lambda: [got for got in [ask(server)] if got[1] != "HIT"], "the copy's end")[0]


def numbers(server):
    return [os.stat(name).st_ino for name in copies(server)]


def test_an_expired_copy_is_held_against_the_file(serve):
    server = start(serve, valid="1s")
    assert ask(server)[1] == "MISS"
    assert next_look(server) == (200, "EXPIRED", "first")
    server.write("slow/a.txt", "second")
    assert next_look(server) == (200, "EXPIRED", "second")
    os.remove(server.path("slow/a.txt"))
    assert next_look(server)[:2] == (404, "EXPIRED")


def test_what_is_unchanged_is_not_copied_again(serve):
    """Once a file has not been touched for some seconds its times are proof."""
    server = start(serve, valid="1s")

    def stays():
        before = numbers(server)
        return next_look(server) == (200, "EXPIRED", "first") and numbers(server) == before
    ask(server)
    until(stays, "an expired copy that stays")
    assert ask(server) == (200, "HIT", "first")


def test_what_was_changed_just_before_is_copied_again(serve):
    """The same size, the same time: it could be another."""
    server = start(serve, valid="1s")
    server.write("slow/a.txt", "third")
    assert ask(server) == (200, "MISS", "third")
    before = numbers(server)
    assert next_look(server) == (200, "EXPIRED", "third")
    assert numbers(server) != before


@pytest.mark.parametrize("valid, kept", [("slowfs_cache_valid 404 1h;", True), ("slowfs_cache_valid any 1h;", True), ("", False)])
def test_what_is_not_there(serve, valid, kept):
    server = start(serve, valid)
    assert ask(server, "/new.txt")[:2] == (404, "MISS")
    server.write("slow/new.txt", "new")
    assert ask(server, "/new.txt")[:2] == ((404, "HIT") if kept else (200, "MISS"))


def test_directories(serve):
    server = start(serve)
    for status in "MISS", "HIT":
        answer = server.get("/dir?x=1")
        assert (answer.status, answer.header("X-Copy")) == (301, status)
        assert answer.header("Location") == "http://localhost:%d/dir/?x=1" % server.port
    assert ask(server, "/dir/") == (200, "MISS", "index")  # index.html, by an internal redirect
    assert ask(server, "/dir/") == (200, "HIT", "index")


def test_other_methods(serve):
    server = start(serve)
    assert ask(server, method="POST")[:2] == (405, None)
    assert ask(server, method="DELETE")[:2] == (405, None)
    assert ask(server, method="HEAD") == (200, "MISS", "")
    assert ask(server) == (200, "HIT", "first")


def test_odd_files(serve):
    """Empty ones, links that may not be followed, what is no file."""
    server = start(serve, "slowfs_cache_valid 403 1h; location /links/ { alias slow/; disable_symlinks on; }", allow=[])
    server.write("slow/empty.txt", "")
    os.symlink("a.txt", server.path("slow/link.txt"))
    os.mkfifo(server.path("slow/pipe.txt"))
    for status in "MISS", "HIT":
        assert ask(server, "/empty.txt") == (200, status, "")
        assert ask(server, "/links/link.txt?" + status)[:2] == (403, status)
    assert server.get("/empty.txt").header("Content-Length") == "0"
    assert ask(server, "/pipe.txt")[:2] == (404, "MISS")
    assert ask(server, "/a%00.txt")[0] in (400, 404)
    assert ask(server, "/" + "x" * 300)[0] == 404


def test_error_pages(serve):
    """A page for what is kept as absent, which is a slow file itself."""
    server = start(serve, "slowfs_cache_valid 404 1h; error_page 404 /a.txt;")
    assert ask(server, "/none.txt") == (404, "MISS", "first")
    assert ask(server, "/none.txt") == (404, "HIT", "first")
    server.write("slow/none.txt", "there")
    assert ask(server, "/none.txt") == (404, "HIT", "first")


def test_min_uses(serve):
    server = start(serve, "slowfs_cache_min_uses 3;")
    assert [ask(server)[1] for _ in range(5)] == ["MISS", "MISS", "MISS", "HIT", "HIT"]


def test_a_big_file_does_not_wait_for_its_copy(serve):
    server = start(serve, "slowfs_big_file_size 1k;")
    assert ask(server, "/big.txt") == (200, "MISS", BIG)
    until(lambda: ask(server, "/big.txt")[1] == "HIT", "the copy")
    os.remove(server.path("slow/big.txt"))
    assert ask(server, "/big.txt") == (200, "HIT", BIG)
    got = server.get("/big.txt", "Range: bytes=8-15")
    assert (got.status, got.text) == (206, "0000001\n")
    assert server.get("/big.txt", method="HEAD").header("Content-Length") == str(len(BIG))


def test_a_cache_that_a_file_does_not_fit_in(serve):
    server = serve(conf().replace("max_size=100m", "max_size=100k"), files={"slow/big.txt": BIG})
    assert [ask(server, "/big.txt") for _ in range(2)] == [(200, "MISS", BIG)] * 2
    assert not copies(server)


def test_purge(serve):
    server = start(serve, "location ~ /purge(/.*) { slowfs_cache_purge copies $1; } slowfs_cache_key $uri;")
    assert ask(server, "/purge/a.txt")[0] == 404
    ask(server)
    assert ask(server)[1] == "HIT"
    page = server.get("/purge/a.txt")
    assert page.status == 200 and "Successful purge" in page.text and "/a.txt" in page.text
    assert ask(server)[1] == "MISS" and ask(server)[1] == "HIT"
    assert ask(server, "/purge/a*")[0] == 200 and ask(server)[1] == "MISS"
    assert ask(server, "/purge/a.txt", method="POST")[0] == 405


def test_keys(serve):
    """By the path unless a key is set; two locations with one key share a copy."""
    server = start(serve, """
        location /one/ { alias slow/; } location /two/ { alias slow/; }
        location /x/ { alias slow/; slowfs_cache_key $arg_k; }
    """)
    assert ask(server, "/one/a.txt")[1] == "MISS" and ask(server, "/two/a.txt")[1] == "HIT"
    assert [ask(server, "/x/a.txt?k=" + key)[1] for key in "1221"] == ["MISS", "MISS", "HIT", "HIT"]


def test_places_that_treat_links_differently_share_no_copy(serve):
    """A copy of what a link leads to was given where links are forbidden, and a refusal where they are allowed."""
    server = start(serve, """slowfs_cache_valid 403 1h; slowfs_cache_key $arg_k;
        location /closed/ { alias slow/; disable_symlinks on; }
        location /part/ { alias slow/; disable_symlinks on from=$document_root; }
        location /open/ { alias slow/; } location ~ /purge/(.*) { slowfs_cache_purge copies $1; }
        location ~ /purgeclosed/(.*) { slowfs_cache_purge copies $1; disable_symlinks on; }
    """, allow=[])
    os.symlink("a.txt", server.path("slow/link.txt"))
    assert ask(server, "/open/link.txt?k=1") == (200, "MISS", "first")
    assert ask(server, "/closed/link.txt?k=1")[:2] == (403, "MISS")
    assert ask(server, "/part/link.txt?k=1")[:2] == (403, "MISS")
    assert ask(server, "/closed/link.txt?k=1")[:2] == (403, "HIT")
    assert ask(server, "/open/link.txt?k=1") == (200, "HIT", "first")
    assert ask(server, "/closed/a.txt?k=2") == (200, "MISS", "first") and ask(server, "/closed/a.txt?k=2")[1] == "HIT"
    assert ask(server, "/purge/2")[0] == 404 and ask(server, "/purgeclosed/2")[0] == 200
    assert ask(server, "/closed/a.txt?k=2")[1] == "MISS"
    assert ask(server, "/purge/1")[0] == 200 and ask(server, "/open/link.txt?k=1")[1] == "MISS"
    assert ask(server, "/closed/link.txt?k=1")[1] == "HIT"
    assert ask(server, "/purge/1*")[0] == 200 and ask(server, "/closed/link.txt?k=1")[1] == "MISS"


def test_subrequests(serve):
    server = start(serve, "location = /around.txt { slowfs_cache off; add_before_body /a.txt; add_after_body /big.txt; addition_types *; }")
    server.write("slow/around.txt", "middle")
    assert server.get("/around.txt").text == "firstmiddle" + BIG
    until(lambda: ask(server, "/big.txt")[1] == "HIT", "the copy")
    assert server.get("/around.txt").text == "firstmiddle" + BIG


def test_filters_see_its_bytes(serve):
    server = start(serve, "location / { sub_filter 0000001 replaced; sub_filter_types *; } location /z/ { alias slow/; gzip on; gzip_types *; }")
    for _ in range(2):
        assert ask(server, "/big.txt")[2] == BIG.replace("0000001", "replaced")
        assert server.get("/z/big.txt", "Accept-Encoding: gzip").header("Content-Encoding") == "gzip"
        until(lambda: ask(server, "/z/big.txt")[1] == "HIT", "the copy")


def test_http_2(serve):
    server = start(serve, "http2 on;")
    with H2(server.port, settings={4: 1 << 24}) as client:
        client.window(1 << 24)
        for status in "MISS", "HIT":
            answer = client.get("/a.txt")
            assert (answer.status, answer.body, dict(answer.headers)["x-copy"]) == (200, b"first", status)
        assert client.get("/big.txt").body == BIG.encode()
        until(lambda: dict(client.get("/big.txt").headers)["x-copy"] == "HIT", "the copy")
        assert client.get("/big.txt").body == BIG.encode()


def test_copies_stay(serve):
    """Over a reload, a worker's death and a restart."""
    server = start(serve, allow=["exited on signal 9"])
    ask(server)
    os.remove(server.path("slow/a.txt"))
    server.reload()
    assert ask(server) == (200, "HIT", "first")
    [worker] = wait_workers(server, 1)
    os.kill(worker, signal.SIGKILL)
    wait_workers(server, 1, without=[worker])
    assert ask(server) == (200, "HIT", "first")
    server.stop()
    server.start()
    assert ask(server) == (200, "HIT", "first")


def test_temporary_files(serve):
    server = start(serve, "slowfs_temp_path slow_temp 1 2;")
    ask(server, "/big.txt")
    until(lambda: ask(server, "/big.txt")[1] == "HIT", "the copy")
    assert [name for name in os.listdir(server.path("slow_temp")) if len(name) == 1]
    assert not [names for _, _, names in os.walk(server.path("slow_temp")) if names]


def test_the_metrics_know_its_cache(serve):
    server = start(serve, "location /metrics { metrics; slowfs_cache off; }")
    for _ in range(3):
        ask(server)
    lines = [line for line in server.get("/metrics").text.splitlines() if "copies" in line]
    assert [line for line in lines if "hit" in line and line.endswith(" 2")], lines


def test_one_copy_for_many(serve):
    server = start(serve, main="worker_processes 2;")
    clients = [server.client() for _ in range(20)]
    for client in clients:
        client.send("GET /a.txt HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    for client in clients:
        assert client.response().text == "first"
        client.close()
    assert len(copies(server)) == 1


def checked(serve, text):
    """What -t says of a server with this line in it."""
    server = serve(conf(), main="error_log stderr;")
    server.configure(conf(text), main="error_log stderr;")
    return run_binary("-t", "-p", server.dir + "/", "-c", "nginx.conf", "-e", "stderr").stderr


@pytest.mark.parametrize("text, message", [
    ("location /n { slowfs_cache none; }", 'zone "none" is unknown'), ("slowfs_cache_valid x;", 'invalid time value "x"'),
    ("slowfs_cache_valid 99 1h;", 'invalid status "99"'), ("slowfs_cache_purge copies $uri;", "not allowed here"),
    ("slowfs_big_file_size x;", '"slowfs_big_file_size" directive invalid value'),
    ("slowfs_cache_min_uses -1;", "invalid number"),
])
def test_errors_of_the_configuration(serve, text, message):
    assert message in checked(serve, text)


def test_nothing_is_kept_without_a_time(serve):
    server = serve(HTTP.replace("slowfs_cache_valid @VALID@; @MORE@", ""), files={"slow/a.txt": "first"})
    assert 'no "slowfs_cache_valid" for "slowfs_cache"' in run_binary(*server.command()[1:], "-t").stderr
    assert [ask(server) for _ in range(2)] == [(200, "MISS", "first")] * 2


# ---- a loop that is not held up ----


@pytest.fixture(name="gates")
def some_gates(open_path):
    return Gates(str(open_path))


def held(serve, gates, more=""):
    return start(serve, "location /fast { slowfs_cache off; return 200 fast; } " + more,
                 env=gates.environment())


@pytest.mark.parametrize("gate, name", [("open", "/a.txt"), ("read", "/a.txt")])
def test_the_loop_goes_on(serve, gates, gate, name):
    server = held(serve, gates)
    gates.close(gate)
    with server.client() as client, server.client() as other:
        client.send("GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n" % name)
        other.send("GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n" % name)
        for _ in range(3):
            assert server.get("/fast").text == "fast"
        gates.open(gate)
        answers = [client.response(), other.response()]
        assert [answer.text for answer in answers] == ["first", "first"]
    assert len(copies(server)) == 1 and ask(server)[1] == "HIT"


def test_a_file_that_changes_while_it_is_copied(serve, gates):
    server = held(serve, gates)
    gates.close("read")
    with server.client() as client:
        client.send("GET /a.txt HTTP/1.1\r\nHost: localhost\r\n\r\n")
        until(lambda: any(os.readlink(name) == server.path("slow/a.txt") for name in descriptors(server)), "the file to be opened")
        with open(server.path("slow/a.txt"), "w", encoding="ascii") as out:
            out.write("other")
        gates.open("read")
        assert client.response().text == "other"
    assert "was changed while it was copied" in server.error_log
    assert ask(server) == (200, "MISS", "other") and ask(server) == (200, "HIT", "other")


def descriptors(server):
    for worker in server.children():
        for name in os.listdir("/proc/%d/fd" % worker):
            path = "/proc/%d/fd/%s" % (worker, name)
            if os.path.islink(path):
                yield path


def test_quit_does_not_wait_for_a_copy(serve, gates):
    """A big file is being copied when the worker is told to end."""
    server = held(serve, gates, "slowfs_big_file_size 1k;")
    gates.close("read")
    assert ask(server, "/big.txt", method="HEAD")[:2] == (200, "MISS")
    server.signal("quit")
    threading.Timer(0.2, gates.open, ["read"]).start()
    server.wait_end()


def test_a_worker_that_dies_while_it_copies(serve, gates):
    """Who waits for its copy, or comes after, has one made by another."""
    server = start(serve, "location /fast { slowfs_cache off; return 200 fast; }", main="worker_processes 1;", allow=["exited on signal 9"],
                   env=gates.environment())
    [worker] = wait_workers(server, 1)
    gates.close("read")
    with server.client() as client:
        client.send("GET /a.txt HTTP/1.1\r\nHost: localhost\r\n\r\n")
        until(lambda: any(os.readlink(name) == server.path("slow/a.txt") for name in descriptors(server)), "the file to be opened")
        os.kill(worker, signal.SIGKILL)
        client.expect_closed()
    wait_workers(server, 1, without=[worker])
    gates.open("read")
    assert ask(server) == (200, "MISS", "first")
    until(lambda: ask(server)[1] == "HIT", "a copy")
