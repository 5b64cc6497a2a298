"""srcache: responses kept by memcached and Redis, through subrequests to memc and redis2."""

import os
import shutil
import socket
import socketserver
import subprocess
import threading
import zlib

import pytest

from harness import Closed, Server, binaries, proc, run_binary, until
from harness.h2 import H2


class Memcached(socketserver.ThreadingTCPServer):
    """As much of memcached as memc_pass needs. `values` {key: bytes} may be looked at and changed, `log` has the lines that came."""

    allow_reuse_address = daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), None)
        self.values, self.log = {}, []
        self.port = self.server_address[1]
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def wait_value(self, key):
        assert until(lambda: key in self.values, key)
        return self.values[key]

    def finish_request(self, request, client_address):
        with request, request.makefile("rwb") as file:
            for line in file:
                self.log.append(line.decode().rstrip())
                words = line.split()
                if words[0] == b"get":
                    value = self.values.get(words[1].decode())
                    file.write(b"END\r\n" if value is None else b"VALUE %s 0 %d\r\n%s\r\nEND\r\n" % (words[1], len(value), value))
                else:
                    self.values[words[1].decode()] = file.read(int(words[4]) + 2)[:-2]
                    file.write(b"STORED\r\n")
                file.flush()


CONFIG = """
log_format cache "$uri $srcache_fetch_status $srcache_store_status $status"; access_log logs/cache.log cache; gzip_types *; gzip_min_length 1;
upstream mc { server 127.0.0.1:%(memcached)d; keepalive 4; }
server { listen 127.0.0.1:@PORT1@; default_type text/plain; root html;
    location / { return 200 "$request_uri $request_method $request_id"; }
    location = /fields { add_header Set-Cookie a=b; add_header X-One 1; add_header X-Two 2; add_header ETag '"tag"'; add_header Last-Modified "Mon, 01 Jan 2024 00:00:00 GMT";
        add_header Connection-Note x; return 200 fields; }
    location = /missing { return 404; } location = /moved { return 302 /there; }
    location = /private { add_header Cache-Control private; return 200 $request_id; } location = /nostore { add_header Cache-Control no-store; return 200 $request_id; }
    location = /nocache { add_header Cache-Control "a, no-cache"; return 200 $request_id; } location = /age0 { add_header Cache-Control max-age=0; return 200 $request_id; }
    location = /past { add_header Expires "Mon, 01 Jan 2001 00:00:00 GMT"; return 200 $request_id; } location = /age { add_header Cache-Control "max-age=90"; return 200 $request_id; }
    location = /shared { add_header Cache-Control "max-age=90, s-maxage=2000"; return 200 $request_id; }
    location = /coded { add_header Content-Encoding foo; return 200 $request_id; } location = /file { }
    location = /semi { add_header Cache-Control "blah; No-Cache"; return 200 $request_id; }
    location = /long { root html; } location = /short { return 444; } }
server { listen 127.0.0.1:@PORT@; http2 on;
    location = /memc { internal; memc_connect_timeout 2s; set $memc_key $arg_key; set $memc_exptime $arg_exptime; memc_pass mc; }
    location = /down { internal; set $memc_key x; memc_pass 127.0.0.1:@PORT9@; }
    srcache_default_expire 77; srcache_max_expire 1000;
    set $key $request_uri; %(server)s
    location / { srcache_fetch GET /memc key=$uri; srcache_store PUT /memc key=$uri&exptime=$srcache_expire; proxy_pass http://127.0.0.1:@PORT1@; }
    location /post { srcache_methods GET HEAD POST; srcache_fetch GET /memc key=$uri; srcache_store PUT /memc key=$uri; proxy_pass http://127.0.0.1:@PORT1@; }
    location /skip { srcache_fetch_skip $arg_fs; srcache_store_skip $arg_ss; srcache_fetch GET /memc key=$uri; srcache_store PUT /memc key=$uri; proxy_pass http://127.0.0.1:@PORT1@; }
    location /control/ { srcache_request_cache_control on; srcache_fetch GET /memc key=$uri; srcache_store PUT /memc key=$uri; proxy_pass http://127.0.0.1:@PORT1@/; }
    location /all/ { srcache_response_cache_control off; srcache_ignore_content_encoding on; srcache_store_pass_header Set-Cookie; srcache_store_hide_header X-One Last-Modified;
        srcache_store_statuses 200 404; srcache_fetch GET /memc key=$uri; srcache_store PUT /memc key=$uri; proxy_pass http://127.0.0.1:@PORT1@/; }
    location /words/ { srcache_store_private on; srcache_store_no_store on; srcache_store_no_cache on; srcache_fetch GET /memc key=$uri; srcache_store PUT /memc key=$uri;
        proxy_pass http://127.0.0.1:@PORT1@/; }
    location /small/ { srcache_store_max_size 300; srcache_fetch GET /memc key=$uri; srcache_store PUT /memc key=$uri; proxy_pass http://127.0.0.1:@PORT1@/; }
    location /off/ { srcache_fetch GET /down; srcache_store PUT /down; proxy_pass http://127.0.0.1:@PORT1@/; }
    location /guarded/ { deny all; srcache_fetch GET /memc key=$uri; proxy_pass http://127.0.0.1:@PORT1@/; }
    location /gzip/ { gzip on; sub_filter_types *; sub_filter text TEXT; sub_filter_once off; srcache_fetch GET /memc key=$uri; srcache_store PUT /memc key=$uri; proxy_pass http://127.0.0.1:@PORT1@/; }
    location /ranges/ { srcache_store_ranges on; srcache_fetch GET /memc key=$uri$http_range; srcache_store PUT /memc key=$uri$http_range; proxy_set_header Range $http_range;
        proxy_pass http://127.0.0.1:@PORT1@/; }
    location /parts/ { alias html/; srcache_store_ranges on; srcache_fetch GET /memc key=$uri-$http_range; srcache_store PUT /memc key=$uri-$http_range;
        add_header X-Status "$srcache_fetch_status $srcache_store_status"; }
    location /whole/ { alias html/; srcache_fetch GET /memc key=$uri$arg_k; srcache_store PUT /memc key=$uri$arg_k; }
    location /semi { add_header Cache-Control "blah; No-Cache"; srcache_store PUT /memc key=$uri; proxy_pass http://127.0.0.1:@PORT1@/semi; }
    location /both/ { srcache_store_hide_header Content-Type; srcache_store_pass_header Content-Type; srcache_store PUT /memc key=$uri;
        proxy_pass http://127.0.0.1:@PORT1@/; }
    location /said/more { more_set_headers "Cache-Control: $arg_c" "X-Said: s"; srcache_fetch GET /memc key=$uri$arg_c; srcache_store PUT /memc key=$uri$arg_c;
        proxy_pass http://127.0.0.1:@PORT1@/; }
    location /said/lua { header_filter_by_lua_block { ngx.header["Cache-Control"] = ngx.var.arg_c ngx.header.content_length = nil }
        body_filter_by_lua_block { ngx.arg[1] = string.upper(ngx.arg[1]) }
        srcache_fetch GET /memc key=$uri$arg_c; srcache_store PUT /memc key=$uri$arg_c; proxy_pass http://127.0.0.1:@PORT1@/page; }
    location /static/ { alias html/; srcache_fetch GET /memc key=$uri; srcache_store PUT /memc key=$uri; } }
"""
FILES = {"html/file": "some text of a file\n" * 5, "html/long": "x" * 400000}


@pytest.fixture(scope="module")
def memcached():
    with Memcached() as made:
        yield made
        made.shutdown()


@pytest.fixture(scope="module")
def server(memcached):
    made = Server(CONFIG % {"memcached": memcached.port, "server": ""}, files=FILES, main="worker_processes 1;")
    yield made.start()
    made.close()


def twice(server, path, *headers, **more):
    """The second answer is the stored one when it says the same as the first, which names its connection."""
    with server.client() as client:
        first = client.request(path, *headers, **more)
        second = client.request(path, *headers, **more)
    return first, second


def test_miss_store_hit(server, memcached):
    first, second = twice(server, "/a")
    assert first.status == second.status == 200 and first.body == second.body
    assert second.header("Content-Type") == "text/plain" and second.header("Content-Length") == str(len(second.body))
    assert server.wait_lines("logs/cache.log", 1) and until(lambda: "/a HIT BYPASS 200" in server.lines("logs/cache.log"), "the log")
    assert "/a MISS STORE 200" in server.lines("logs/cache.log")
    assert memcached.values["/a"].startswith(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n") and memcached.values["/a"].endswith(b"\r\n\r\n" + first.body)


@pytest.mark.parametrize("path", ["/said/more", "/said/lua"])
def test_what_headers_more_and_lua_say_counts(server, memcached, path):
    for forbids in ("private", "no-store", "no-cache", "max-age=0"):
        first, second = twice(server, "%s?c=%s" % (path, forbids))
        assert first.header("Cache-Control") == second.header("Cache-Control") == forbids
        assert path + forbids not in memcached.values
    twice(server, path + "?c=max-age=9")
    assert memcached.wait_value(path + "max-age=9").startswith(b"HTTP/1.1 200 OK\r\n")
    stored = memcached.values[path + "max-age=9"]
    assert b"\r\nCache-Control: max-age=9\r\n" in stored
    assert b"X-Said: s\r\n" in stored if path == "/said/more" else stored.split(b"\r\n\r\n")[1].startswith(b"/PAGE")


def test_parts_are_stored_when_asked_for(server, memcached):
    first, second = twice(server, "/parts/file", "Range: bytes=5-8")
    assert (first.status, first.text, first.header("X-Status")) == (206, "text", "MISS STORE")
    assert (second.status, second.text, second.header("X-Status")) == (206, "text", "HIT BYPASS")
    assert first.header("Content-Range") == second.header("Content-Range") == "bytes 5-8/100"
    several, _ = twice(server, "/parts/file", "Range: bytes=0-1,5-8")
    assert several.status == 206 and "/parts/file-bytes=0-1,5-8" not in memcached.values


def test_a_part_of_what_is_stored_whole(server, memcached):
    part, _ = twice(server, "/whole/file", "Range: bytes=5-8")
    assert part.status == 206 and "/whole/file" not in memcached.values
    server.get("/whole/file")
    until(lambda: "/whole/file" in memcached.values, "the store")
    part, _ = twice(server, "/whole/file", "Range: bytes=5-8")
    assert (part.status, part.text) == (206, "text")


def test_words_of_cache_control_are_parted_by_semicolons_as_well(server, memcached):
    twice(server, "/semi")
    assert "/semi" not in memcached.values


def test_a_field_that_is_hidden_and_passed_is_stored(server, memcached):
    server.get("/both/a")
    until(lambda: "/both/a" in memcached.values, "the store")
    assert b"\r\nContent-Type: text/plain\r\n" in memcached.values["/both/a"]


@pytest.mark.parametrize("path,seconds", [("/b", 77), ("/age", 90), ("/shared", 1000)])
def test_expire(server, memcached, path, seconds):
    twice(server, path)
    until(lambda: any(line.startswith("set %s 0 %d " % (path, seconds)) for line in memcached.log), "the store")


def test_what_is_stored_of_a_head(server, memcached):
    first, second = twice(server, "/fields")
    assert first.header("Set-Cookie") == "a=b" and second.header("Set-Cookie") is None
    for name in ("X-One", "X-Two", "ETag", "Last-Modified"):
        assert second.header(name) == first.header(name) is not None
    assert b"Content-Length" not in memcached.values["/fields"] and b"Connection:" not in memcached.values["/fields"]
    first, second = twice(server, "/all/fields")
    assert second.header("Set-Cookie") == "a=b" and second.header("X-One") is None and second.header("X-Two") == "2" and second.header("Last-Modified") is None
    assert server.get("/fields", 'If-None-Match: "tag"').status == 304


def test_statuses(server, memcached):
    assert [answer.status for answer in twice(server, "/missing")] == [404, 404] and "/missing" not in memcached.values
    assert [answer.status for answer in twice(server, "/all/missing")] == [404, 404] and "/all/missing" in memcached.values
    first, second = twice(server, "/moved")
    assert (first.status, first.header("Location")) == (second.status, second.header("Location")) and second.status == 302 and "/moved" in memcached.values


@pytest.mark.parametrize("path", ["private", "nostore", "nocache", "age0", "past", "coded"])
def test_what_forbids_it(server, memcached, path):
    first, second = twice(server, "/" + path)
    assert first.body != second.body and "/" + path not in memcached.values
    first, second = twice(server, "/all/" + path)
    assert first.body == second.body and first.all("Cache-Control") == second.all("Cache-Control") and first.header("Content-Encoding") == second.header("Content-Encoding")
    first, second = twice(server, "/words/" + path)
    assert (first.body == second.body) == (path in ("private", "nostore", "nocache"))


def test_cache_control_of_requests(server, memcached):
    first, second = twice(server, "/control/a")
    assert first.body == second.body
    for field in ("Cache-Control: no-cache", "Pragma: no-cache"):
        assert server.get("/control/a", field).body != second.body
    twice(server, "/control/b", "Cache-Control: no-store")
    assert "/control/b" not in memcached.values
    assert server.get("/a", "Cache-Control: no-cache").body == server.get("/a").body


def test_skips(server, memcached):
    first, second = twice(server, "/skip1?ss=1")
    assert first.body != second.body and "/skip1" not in memcached.values
    first, second = twice(server, "/skip2?ss=0&fs=")
    assert first.body == second.body
    assert server.get("/skip2?fs=1").body != second.body


def test_methods(server, memcached):
    with server.client() as client:
        assert client.request("/m", method="POST", body=b"x").status == 200 and "/m" not in memcached.values
        assert client.request("/m", method="HEAD").status == 200 and "/m" not in memcached.values
        assert client.request("/post", method="POST", body=b"x").status == 200
        client.request("/")
        assert "/post" in memcached.values and b" POST " in memcached.values["/post"]
        again = client.request("/post", method="POST", body=b"y")
        head = client.request("/post", method="HEAD")
    assert again.body == memcached.values["/post"].split(b"\r\n\r\n", 1)[1]
    assert head.header("Content-Length") == str(len(again.body)) and head.body == b""


def test_sizes(server, memcached):
    twice(server, "/small/long")
    assert "/small/long" not in memcached.values
    first, second = twice(server, "/long")
    assert len(first.body) == 400000 and first.body == second.body and memcached.values["/long"].endswith(b"x" * 400000)
    memcached.values["/small/big"] = memcached.values["/long"]
    assert b"/big" in server.get("/small/big").body
    server.wait_log(r"srcache_fetch: the cache sent more than %d bytes" % (300 + 65536))


def test_a_long_hit_is_in_a_file(server, memcached):
    """Beyond 256 KB; every client that read slowly had a copy in memory."""
    body = b"".join(b"%08d" % number for number in range(100000))
    memcached.values["/big"] = b"HTTP/1.1 200 OK\r\nContent-Type: text/x\r\nContent-Length: 800000\r\n\r\n" + body
    with server.client() as client:
        assert client.request("/big").body == body
        head = client.request("/big", method="HEAD")
        assert head.header("Content-Length") == "800000" and head.body == b""
        part = client.request("/big", "Range: bytes=262000-263000")
        assert part.status == 206 and part.body == body[262000:263001]
        assert client.request("/big", "Range: bytes=-10").body == body[-10:]
        assert client.request("/gzip/file").status == 200
        memcached.values["/gzip/big"] = memcached.values["/big"]
        assert zlib.decompress(client.request("/gzip/big", "Accept-Encoding: gzip").body, 31) == body
        memcached.values["/big"] = memcached.values["/big"][:-1]
        assert client.request("/big").text.startswith("/big GET")
    worker = server.children()[0]
    memcached.values["/held"] = b"HTTP/1.1 200 OK\r\n\r\n" + body * 4
    before = proc.resident_kb(worker)
    with H2(server.port, settings={4: 0}) as h2:
        streams = [h2.request("/held") for _ in range(60)]
        h2.until(lambda _: all(stream in h2.answers and h2.answers[stream].heads for stream in streams))
        assert proc.resident_kb(worker) - before < binaries.resident_limit(60 * 1024)
    assert not os.listdir(server.path("body_temp"))


def test_a_long_response_is_not_stored_beyond_the_limit(serve, memcached):
    server = serve("""upstream mc { server 127.0.0.1:%d; } request_memory_limit 200k;
        server { listen 127.0.0.1:@PORT@; root html; location = /memc { internal; set $memc_key $arg_key; memc_pass mc; }
                 location / { srcache_store PUT /memc key=limit$uri; } }""" % memcached.port, files=FILES)
    assert server.get("/long").body == FILES["html/long"].encode()
    server.wait_log("srcache_store: the response is not stored: it would take more memory than request_memory_limit allows")
    assert server.get("/file").status == 200
    until(lambda: "limit/file" in memcached.values)
    assert "limit/long" not in memcached.values


def test_http2(server, memcached):
    with H2(server.port) as h2:
        first = h2.get("/two").body
        memcached.wait_value("/two")
        assert h2.get("/two").body == first
        assert h2.get("/fields").headers["x-two"] == "2"


def test_a_store_that_is_away(server):
    first, second = twice(server, "/off/a")
    assert first.status == second.status == 200 and first.body != second.body
    server.wait_log("srcache_store subrequest failed: rc=502 status=502")


@pytest.mark.parametrize("value,why", [
    (b"nothing of the kind", "status line"), (b"", "status line"), (b"HTTP/1.1 200 OK\r\nA: b\r\n", "header, which is cut short"), (b"HTTP/1.1 200 OK\r\nA\r\n\r\n", "header"),
    (b"HTTP/1.1 99 OK\r\n\r\n", "status line"), (b"HTTP/1.1 200OK\r\n\r\n", "status line"), (b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nab", "body, of another length"),
    (b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\nab", "body, of another length")])
def test_what_is_stored_may_be_broken(server, memcached, value, why):
    """The request goes on as if nothing were there."""
    key = "/broken%d" % zlib.crc32(value)
    memcached.values[key] = value
    before = server.read("error.log").count("cache sent invalid " + why)
    assert server.get(key).text.startswith(key + " GET")
    assert server.read("error.log").count("cache sent invalid " + why) == before + 1


def test_what_others_stored(server, memcached):
    """Fields of a connection are nobody's; line ends may be bare."""
    memcached.values["/other"] = b"HTTP/1.0 203 Whatever\nTransfer-Encoding: chunked\nConnection: close\nX-A: 1\nContent-Length: 2\n\nhi"
    with server.client() as client:
        answer = client.request("/other")
        assert (answer.status, answer.text, answer.header("X-A"), answer.closes, answer.framing) == (203, "hi", "1", False, "length")


def test_access_comes_first(server, memcached):
    memcached.values["/guarded/a"] = b"HTTP/1.1 200 OK\r\n\r\nsecret"
    assert server.get("/guarded/a").status == 403
    assert server.get("/memc?key=/a").status == 404


def test_filters_see_what_was_stored(server, memcached):
    plain = server.get("/gzip/file")
    coded = server.get("/gzip/file", "Accept-Encoding: gzip")
    assert coded.header("Content-Encoding") == "gzip" and b"some text" in memcached.values["/gzip/file"] and plain.text.count("TEXT") == 5
    assert server.get("/gzip/file").body == plain.body


def test_ranges(server, memcached):
    first, second = twice(server, "/ranges/file", "Range: bytes=0-3")
    assert first.status == second.status == 206 and first.body == second.body == b"some" and second.header("Content-Range") == first.header("Content-Range")
    twice(server, "/file", "Range: bytes=0-3")
    assert memcached.values["/file"].endswith(FILES["html/file"].encode()) if "/file" in memcached.values else True


def test_files(server, memcached):
    first, second = twice(server, "/static/file")
    assert first.body == second.body == FILES["html/file"].encode() and first.header("ETag") == second.header("ETag") and "/static/file" in memcached.values


def test_a_body_that_is_cut_is_not_stored(serve, backend, memcached):
    cut = backend([b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc"])
    server = serve("""upstream mc { server 127.0.0.1:%d; } server { listen 127.0.0.1:@PORT@; location = /memc { internal; set $memc_key $arg_key; memc_pass mc; }
        location / { srcache_fetch GET /memc key=$uri; srcache_store PUT /memc key=$uri; proxy_pass http://127.0.0.1:%d; } }""" % (memcached.port, cut.port))
    with server.client() as client, pytest.raises(Closed):
        client.request("/cut")
    assert "/cut" not in memcached.values


@pytest.mark.skipif(shutil.which("redis-server") is None, reason="no redis-server")
def test_redis(serve, open_path):
    path = str(open_path / "redis")
    redis = subprocess.Popen(["redis-server", "--port", "0", "--unixsocket", path, "--unixsocketperm", "777", "--save", "", "--dir", str(open_path)],
                             stdout=subprocess.DEVNULL)
    try:
        until(lambda: os.path.exists(path) and os.stat(path).st_mode & 0o777 == 0o777, "redis")
        server = serve("""upstream r { server unix:%s; } server { listen 127.0.0.1:@PORT@;
            location = /get { internal; redis2_query get $arg_key; redis2_pass r; }
            location = /set { internal; redis2_query set $arg_key $request_body; redis2_query expire $arg_key 100; redis2_pass r; }
            location / { srcache_store PUT /set key=$uri; proxy_pass http://127.0.0.1:@PORT@/end/; } location /end/ { return 200 "$request_id"; } }""" % path)
        first = server.get("/a")
        with socket.socket(socket.AF_UNIX) as peer:
            peer.connect(path)
            answers = []

            def stored():
                peer.sendall(b"GET /a\r\n")
                answers.append(peer.recv(65536))
                return answers[-1].startswith(b"$") and not answers[-1].startswith(b"$-1")

            until(stored, lambda: server.read("error.log") + repr(answers[-1]))
        assert b"HTTP/1.1 200 OK\r\n" in answers[-1] and answers[-1].endswith(first.body + b"\r\n")
    finally:
        redis.terminate()
        redis.wait()


@pytest.mark.parametrize("text,wrong", [
    ("srcache_fetch GET;", 'invalid number of arguments in "srcache_fetch"'), ("srcache_fetch FOO /a;", '"srcache_fetch" specifies bad HTTP method "FOO"'),
    ("srcache_fetch GET /a; srcache_fetch GET /b;", '"srcache_fetch" directive is duplicate'), ("srcache_store_statuses abc;", 'status code "abc" is an invalid number'),
    ("srcache_methods GET BAR;", 'invalid value "BAR"'), ("srcache_methods GET PATCH;", 'invalid value "PATCH"'), ("srcache_store_ranges maybe;", 'invalid value "maybe"'), ("srcache_default_expire x;", "invalid value"),
    ("srcache_store_max_size x;", "invalid value"), ('srcache_store PUT "$no_such_name";', 'unknown "no_such_name" variable')])
def test_what_is_refused(tmp_path, text, wrong):
    (tmp_path / "nginx.conf").write_text("events { } http { %s }" % text)
    (tmp_path / "logs").mkdir()
    result = run_binary("-t", "-p", str(tmp_path), "-c", "nginx.conf")
    assert result.returncode == 1 and wrong in result.stderr


MANUAL = """
lua_shared_dict store 1m;
server { listen 127.0.0.1:@PORT1@;
    location / { return 200 $request_id; }
    location = /exact { return 200 0123456789; } location = /longer { return 200 0123456789a; }
    location = /coded { add_header Content-Encoding gzip; return 200 $request_id; } }
server { listen 127.0.0.1:@PORT@; add_header X-Store $srcache_store_status;
    location = /store { internal; content_by_lua_block {
        local store, key = ngx.shared.store, ngx.var.args
        if ngx.req.get_method() == "PUT" then ngx.req.read_body() store:set(key, ngx.req.get_body_data()) return end
        local value = store:get(key)
        if not value then return ngx.exit(404) end
        if key:find("^/length") then ngx.header["Content-Length"] = #value end
        ngx.print(value) } }
    srcache_fetch GET /store $uri; srcache_store PUT /store $uri;
    location / { proxy_pass http://127.0.0.1:@PORT1@; }
    location /exact { srcache_store_max_size 10; proxy_pass http://127.0.0.1:@PORT1@; }
    location /longer { srcache_store_max_size 10; proxy_pass http://127.0.0.1:@PORT1@; }
    location /post { srcache_methods POST; proxy_pass http://127.0.0.1:@PORT1@; }
    location /skip { srcache_store_skip 1; proxy_pass http://127.0.0.1:@PORT1@; }
}
"""


@pytest.fixture(scope="module")
def manual():
    with Server(MANUAL) as made:
        yield made


@pytest.mark.parametrize("uri, method, status, is_hit", [
    ("/plain", "GET", "STORE", True), ("/exact", "GET", "STORE", True), ("/longer", "GET", "BYPASS", False),
    ("/post/get", "GET", "STORE", True), ("/post", "POST", "STORE", True), ("/none", "POST", "BYPASS", False), ("/skip", "GET", "BYPASS", False)])
def test_what_its_manual_says(manual, uri, method, status, is_hit):
    """GET is looked at whatever srcache_methods names; the size is that of the body; the head knows of what is skipped."""
    with manual.client() as client:
        first, second = client.request(uri, method=method), client.request(uri, method=method)
    assert first.header("X-Store") == status
    assert second.header("X-Store") == ("BYPASS" if is_hit else status)
    assert first.text == second.text if is_hit or uri == "/longer" else first.text != second.text


def test_a_hit_has_a_length_where_the_store_announced_one(manual):
    with manual.client() as client:
        client.request("/length"), client.request("/chunks")
        assert client.request("/length").framing == "length"
        hit = client.request("/chunks")
        assert hit.framing == "chunked" and len(hit.text) == 32
        assert client.request("/chunks", method="HEAD").header("Content-Length") is None


def test_a_coding_that_is_not_stored_is_a_warning(manual):
    manual.get("/coded")
    manual.wait_log(r"\[warn\] .*srcache_store skipped due to response header \"Content-Encoding: gzip\" \(maybe you forgot to disable "
                    r"compression on the backend\?\)")
