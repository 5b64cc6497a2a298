"""keyval_zone_redis: pairs that are keys of a Redis, which other programs write; when they are fetched, and when the store is gone."""

import contextlib
import json
import socket
import threading

import pytest

from harness import binaries, proc, run_binary, until
from harness.backend import talk_to_each
from harness.certificates import Authority
from harness.h2 import H2
from harness.h3 import H3
from harness.nodes import Node
from harness.redis import cluster_of

ZONE = "keyval_zone_redis zone=z port=%d %s; keyval $arg_k $value zone=z;"
SERVER = """server { listen 127.0.0.1:@PORT@; location /api { api write=on; } location = /metrics { metrics; }
    location = /plain { return 200 plain; } location / { return 200 "<$value>"; } %s }"""


@pytest.fixture(name="start")
def fixture_start(serve):
    """A function that starts a server with a zone of this Redis; `more` is in the http block, `at` in the server."""
    def begin(port, at="", more="", words="command_timeout=5s", **kwargs):
        return serve(ZONE % (port, words) + more + SERVER % at, **kwargs)
    return begin


def test_a_pair_that_another_program_wrote(start, redis):
    one = redis()
    server = start(one.port)
    one.ask("SET", "z:a", "1")
    one.ask("EVAL", "return redis.call('SET', 'z:bin', '\\255\\0\\n')", 0)
    assert server.get("/?k=a").text == "<1>"
    assert server.get("/?k=bin").body == b"<\xff\x00\n>"
    assert server.get("/?k=none").text == "<>" and server.get("/").text == "<>"
    one.ask("SET", "z:a", "2")
    assert server.get("/?k=a").text == "<2>"
    one.ask("DEL", "z:a")
    assert server.get("/?k=a").text == "<>"
    one.ask("LPUSH", "z:list", "x")                                 # no string: no value
    assert server.get("/?k=list").text == "<>"
    assert server.get("/?k=" + "x" * 5000).text == "<>"
    assert server.get("/?k=a", method="HEAD").status == 200


def test_the_default_server(run_check):
    """127.0.0.1:6379, as the module that people know has it."""
    assert "test is successful" in run_check("keyval_zone_redis zone=z; keyval $arg_k $v zone=z;")


@pytest.fixture(name="run_check")
def fixture_run_check(tmp_path):
    def run(http):
        (tmp_path / "logs").mkdir(exist_ok=True)
        (tmp_path / "nginx.conf").write_text("events {} http { %s }" % http)
        return run_binary("-t", "-p", str(tmp_path), "-c", "nginx.conf").stderr
    return run


@pytest.mark.parametrize("line, message", [
    ("hostname=127.0.0.1", '"keyval_zone_redis" must have "zone" parameter'),
    ("zone=z port=0", 'invalid parameter "port=0"'),
    ("zone=z port=65536", 'invalid parameter "port=65536"'),
    ("zone=z database=x", 'invalid parameter "database=x"'),
    ("zone=z database=65536", 'invalid parameter "database=65536"'),
    ("zone=z command_timeout=0", 'invalid parameter "command_timeout=0"'),
    ("zone=z connect_timeout=x", 'invalid parameter "connect_timeout=x"'),
    ("zone=z ttl=-1", 'invalid parameter "ttl=-1"'),
    ("zone=z size=1m", 'invalid parameter "size=1m"'),
    ("zone=", 'invalid parameter "zone="'),
    ("zone=z store=main port=1", '"store" says which server it is'),
    ("zone=z store=main", 'no redis_store is named "main"'),
    ("zone=z hostname=no.such.name.invalid", "host not found"),
    ("zone=z; keyval_zone_redis zone=z", 'duplicate zone "z"'),
    ("zone=z; keyval_zone zone=z:32k", 'duplicate zone "z"'),
    ("zone=z; limit_req_zone $arg_k zone=l:1m rate=1r/s sync", '"sync" needs a "redis_store"'),
])
def test_lines_that_are_refused(run_check, line, message):
    assert message in run_check("keyval_zone_redis %s;" % line)


def test_a_zone_that_is_declared_after_its_variable(serve, redis):
    one = redis("databases 4")
    with contextlib.closing(socket.create_connection(("127.0.0.1", one.port))) as conn:
        conn.sendall(b"SELECT 3\r\nSET late:a 5\r\n")
        until(lambda: b"+OK\r\n+OK\r\n" in conn.recv(100, socket.MSG_PEEK), "the pair")
    server = serve("keyval $arg_k $value zone=late; keyval_zone_redis zone=late hostname=localhost port=%d database=3 "
                   "connect_timeout=1s command_timeout=5s ttl=1h;" % one.port + SERVER % "")
    assert server.get("/?k=a").text == "<5>"


def test_where_a_request_may_ask(start, redis, backend):
    """In each phase, by a key that is known then."""
    one = redis()
    for key in "abcdefg":
        one.ask("SET", "z:" + key, "of-" + key)
    back = backend([b"HTTP/1.1 200 OK\r\nX-Key: g\r\nContent-Length: 2\r\n\r\nok"])
    server = start(one.port, """
        set $early $of_key;
        location = /set { set $key b; return 200 "$early|$of_key"; }
        location = /steps { set $key b; set $one $of_key; set $key c; set $two $of_key; return 200 "$one|$two"; }
        location = /if { set $key d; if ($of_key = of-d) { return 200 yes; } return 200 no; }
        location = /map { set $key e; return 200 $mapped; }
        location = /chain { set $key chain; return 200 $chained; }
        location = /access { if ($http_x) { set $key f; } auth_basic $realm; auth_basic_user_file none; return 200 in; }
        location = /file { set $key b; try_files /$of_key =404; }
        location = /back { proxy_pass http://127.0.0.1:@BACK@; add_header X-Value $of_upstream; }
        location = /pass { set $key b; proxy_set_header X-Sent $of_key; proxy_pass http://127.0.0.1:@PORT@/got; }
        location = /got { return 200 $http_x_sent; }
        location = /named { set $key f; try_files /none @named; }
        location @named { return 200 $of_key; }
        location = /error { set $key b; error_page 403 = /shown; return 403; }
        location = /shown { return 200 $of_key; }
        location = /ssi { ssi on; ssi_types text/plain; default_type text/plain; try_files /page.txt =404; }
        location = /log { set $key c; access_log logs/value.log value; return 200 ok; }
        """.replace("@BACK@", str(back.port)), """
        keyval $key $of_key zone=z; keyval $upstream_http_x_key $of_upstream zone=z; keyval $of_key $chained zone=z;
        map $of_key $mapped { of-e mapped; default no; } map $of_key $realm { of-f "off"; default secret; }
        map $server_port $key { default a; } log_format value $of_key;""",
                   files={"html/of-b": "the file", "html/page.txt": '<!--#echo var="value" -->'})
    one.ask("SET", "z:chain", "g")
    assert server.get("/set").text == "of-a|of-b"
    assert server.get("/steps").text == "of-b|of-c"
    assert server.get("/if").text == "yes"
    assert server.get("/map").text == "mapped"
    assert server.get("/chain").text == "of-g"
    assert server.get("/pass").text == "of-b"
    assert server.get("/file").text == "the file"
    assert server.get("/named").text == "of-f"
    assert server.get("/error").text == "of-b"
    assert server.get("/ssi?k=a").text == "of-a"
    assert server.get("/back").header("X-Value") == "of-g"
    assert server.get("/log").text == "ok"
    until(lambda: server.read("logs/value.log") == "of-c\n", "the log line")
    assert "was not known" not in server.error_log


def asked(server, store):
    return Node(server).metric("portunus_store_requests", "store", "127.0.0.1:%d/0" % store.port)


def test_a_location_without_values_does_not_wait(start, redis):
    one = redis()
    server = start(one.port)
    assert server.get("/?k=a").text == "<>"
    before = asked(server, one)
    for _ in range(3):
        assert server.get("/plain?k=a").text == "plain"
    assert asked(server, one) == before
    assert server.get("/?k=a").text == "<>"
    assert asked(server, one) == before + 1


def test_one_round_trip_for_all_values(start, redis):
    """Keys that are the same are asked for once, and the others with them."""
    one = redis()
    one.ask("MSET", "z:1", "one", "z:2", "two", "other:1", "eins")
    more = ("keyval_zone_redis zone=other port=%d command_timeout=5s;" % one.port + "keyval $arg_a $a zone=z; keyval $arg_b $b zone=z;"
            "keyval $arg_a $again zone=z; keyval $arg_a $other zone=other;")
    server = start(one.port, 'location = /all { return 200 "$a|$b|$again|$other"; }', more)
    assert server.get("/all?a=1&b=2").text == "one|two|one|eins"
    before = asked(server, one)
    assert server.get("/all?a=1&b=2").text == "one|two|one|eins"
    assert asked(server, one) == before + 3


def test_assignments(start, redis):
    one = redis()
    server = start(one.port, """location = /put { set $value $arg_v; return 200 $value; }
        location = /brief { set $brief x; return 200 $brief; }""", "keyval_zone_redis zone=b port=%d ttl=1h; keyval $arg_k $brief zone=b;" % one.port)
    assert server.get("/put?k=a&v=1").text == "1"
    until(lambda: one.ask("GET", "z:a") == "1", "the pair")
    assert one.ask("PTTL", "z:a") == -1                             # as SET without a time
    assert server.get("/?k=a").text == "<1>"
    assert server.get("/put?v=1").text == ""                        # no key: nowhere
    assert server.get("/brief?k=a").text == "x"
    until(lambda: one.ask("GET", "b:a") == "x", "the pair that ends")
    assert 3500000 < one.ask("PTTL", "b:a") <= 3600000
    assert one.keys() == ["b:a", "z:a"]


def test_subrequests(start, redis):
    one = redis()
    one.ask("MSET", "z:a", "1", "z:sub", "2", "z:user", "ann")
    server = start(one.port, """
        location = /page { ssi on; ssi_types text/plain; default_type text/plain; return 200 '$of_uri <!--#include virtual="/in" -->'; }
        location = /in { return 200 $of_uri; }
        location = /kept { auth_request /check; auth_request_set $who $upstream_http_x_user; add_header X-Who $of_who; try_files /none @ok; }
        location @ok { return 200 $of_who; }
        location = /check { proxy_pass http://127.0.0.1:@PORT@/user; }
        location = /user { add_header X-User user; return 204; }""", """
        map $uri $by_uri { volatile; /page a; /in sub; } keyval $by_uri $of_uri zone=z; keyval $who $of_who zone=z;""")
    assert server.get("/page").text == "1 2"
    assert server.get("/kept").text == "ann"


def test_other_protocols(serve, redis, tmp_path):
    one = redis()
    one.ask("SET", "z:a", "1")
    Authority(str(tmp_path)).issue("www")
    server = serve(ZONE % (one.port, "command_timeout=5s") + """server { listen 127.0.0.1:@PORT@; listen 127.0.0.1:@PORT3@ quic; http2 on;
        ssl_certificate %s/www.crt; ssl_certificate_key %s/www.key; location / { return 200 $value; } }""" % (tmp_path, tmp_path))
    assert server.get("/?k=a", version="1.0").text == "1"
    with H2(server.port) as client:
        assert client.get("/?k=a").body == b"1"
    with H3(server.port_of("PORT3")) as client:
        assert client.get("/?k=a").body == b"1"


def test_the_store_is_gone_and_slow(start, redis):
    one = redis()
    one.ask("SET", "z:a", "1")
    server = start(one.port, words="command_timeout=50ms")
    until(lambda: server.get("/?k=a").text == "<1>", "the store")
    one.stop()
    assert server.get("/?k=a").text == "<>"
    server.wait_log("zones continue locally")
    assert server.get("/plain").text == "plain"
    assert Node(server).call("GET") == 503 and Node(server).set(a="1") == 503 and Node(server).call("DELETE") == 503
    one.start()
    one.ask("SET", "z:a", "2")
    until(lambda: server.get("/?k=a").text == "<2>", "the store to be back")
    with contextlib.closing(talk_to_each(lambda conn: conn.recv(1) and conn.recv(1 << 20) and None)) as silent:
        hangs = start(silent.getsockname()[1], words="command_timeout=20ms")
        assert hangs.get("/?k=a").text == "<>"


class Held:
    """A store in which every key is 1, and that answers GET when it is let go."""

    def __init__(self):
        self.asked, self.waiting, self.is_free, self.lock = [], [], False, threading.Lock()
        self.listener = talk_to_each(self._talk)
        self.port = self.listener.getsockname()[1]

    def _talk(self, conn):
        with contextlib.suppress(OSError), conn.makefile("rb") as commands:
            while line := commands.readline():
                words = [commands.read(int(commands.readline()[1:]) + 2)[:-2] for _ in range(int(line[1:]))]
                with self.lock:
                    if words[0] == b"HELLO":
                        conn.sendall(b"%1\r\n$4\r\nrole\r\n$6\r\nmaster\r\n")
                        continue
                    self.asked.append(words[1])
                    self.waiting.append(conn)
                    if self.is_free:
                        self._answer()

    def _answer(self):
        for conn in self.waiting:
            conn.sendall(b"$1\r\n1\r\n")
        self.waiting = []

    def let_go(self):
        with self.lock:
            self.is_free = True
            self._answer()


def test_each_zone_has_its_own_timeouts(start):
    """Two zones of one server: what the second one's line says counts for it."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        server = start(port, words="command_timeout=1h connect_timeout=1h", more="keyval_zone_redis zone=quick port=%d command_timeout=20ms; keyval $arg_q $quick zone=quick;" % port,
                       at="location = /quick { return 200 \"<$quick>\"; }")
        assert server.get("/quick?q=a").text == "<>"


def test_clients_that_leave_are_no_sign_that_the_store_hangs(start):
    """Whoever waits besides has the value when the store answers."""
    held = Held()
    with contextlib.closing(held.listener):
        server = start(held.port, at="access_log logs/access.log combined;", words="command_timeout=40s")
        for number in range(3):
            with server.client() as client:
                client.send("GET /?k=%d HTTP/1.1\r\nHost: x\r\n\r\n" % number)
                until(lambda it=number: b"z:%d" % it in held.asked or client.readable(0), "the command")
                client.reset()
            server.wait_lines("logs/access.log", number + 1)
        with server.client() as client:
            client.send("GET /?k=last HTTP/1.1\r\nHost: x\r\n\r\n")
            until(lambda: b"z:last" in held.asked or client.readable(0), "the last command")
            held.let_go()
            assert client.response().text == "<1>"


def test_a_worker_does_not_stay_for_a_reply_that_nobody_awaits(start):
    held = Held()
    with contextlib.closing(held.listener):
        server = start(held.port, words="command_timeout=200ms")
        until(lambda: server.get("/?k=a").text == "<>" and held.asked, "the command")
        server.reload()
        until(lambda: len(server.children()) == 1, "the end of the older worker")


@pytest.mark.parametrize("alone", ["", "master_process off;"])
def test_a_worker_that_ends_has_values_for_its_last_requests(start, redis, backend, alone):
    one, gate = redis(), threading.Event()
    one.ask("SET", "z:a", "1")

    def answer(conn, _):
        assert gate.wait(40)
        conn.sendall(b"HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n")
    back = backend([answer])
    server = start(one.port, """location /back { proxy_pass http://127.0.0.1:%d; proxy_intercept_errors on; error_page 404 = /then; }
        location = /then { set $key a; set $other b; set $of_other 2; return 200 "$of_key|$of_other"; }""" % back.port,
                   "keyval $key $of_key zone=z; keyval $other $of_other zone=z;", main=alone)
    with server.client() as client:
        client.send("GET /back HTTP/1.1\r\nHost: x\r\n\r\n")
        back.wait_requests(1)
        if alone:
            server.signal("quit")
            server.wait_log("gracefully shutting down")
        else:
            server.reload()
        gate.set()
        assert client.response().text == "1|2"
    until(lambda: one.ask("GET", "z:b") == "2", "the pair")
    if alone:
        assert server.wait_end() == 0
    else:
        until(lambda: len(server.children()) == 1, "the end of the older worker")


def test_a_value_that_no_reply_holds_is_not_written(start, redis):
    one = redis()
    server = start(one.port, """location = /put { content_by_lua_block {
        ngx.var.value = string.rep("x", tonumber(ngx.var.arg_size)); ngx.say(#ngx.var.value) } }""")
    assert server.get("/put?k=large&size=1048576").text == "1048576\n"
    server.wait_log(r'"\$value" is dropped: nobody could read it')
    assert server.get("/put?k=fits&size=1048512").text == "1048512\n"
    until(lambda: one.ask("STRLEN", "z:fits") == 1048512, "the pair")
    assert len(server.get("/?k=fits").body) == 1048514
    assert one.keys() == ["z:fits"]


def test_long_keys_fit_in_the_replies_that_list_them(start, redis):
    one = redis()
    for number in range(600):
        one.ask("SET", "z:%04096d" % number, "1")
    server = start(one.port)
    response = server.get("/api/9/http/keyvals/z")
    assert response.status == 200 and len(json.loads(response.body)) == 600
    assert Node(server).call("DELETE") == 204 and one.keys() == []


def test_a_store_with_garbage(start):
    """What is no reply, or too large, is no value."""
    def talk(conn):
        with contextlib.suppress(OSError):
            while conn.recv(65536):
                conn.sendall(b"$99999999\r\n" + b"x" * 65536)
    with contextlib.closing(talk_to_each(talk)) as bad:
        server = start(bad.getsockname()[1], words="command_timeout=50ms")
        assert server.get("/?k=a").text == "<>"
        assert server.get("/plain").text == "plain"


def test_a_named_store(serve, redis):
    """By its settings: TLS, a password, sentinels."""
    one = redis("requirepass secret")
    with contextlib.closing(socket.create_connection(("127.0.0.1", one.port))) as conn:
        conn.sendall(b"AUTH secret\r\nSET z:a 1\r\n")
        until(lambda: b"+OK\r\n+OK\r\n" in conn.recv(100, socket.MSG_PEEK), "the pair")
    server = serve("keyval_zone_redis zone=z store=main; keyval $arg_k $value zone=z;" + SERVER % "",
                   main="redis_store main { server 127.0.0.1:%d; password_file @DIR@/password; timeout 5s; }" % one.port, files={"password": "secret"})
    assert server.get("/?k=a").text == "<1>"


def test_a_cluster(serve):
    servers = cluster_of(3)
    try:
        server = serve('keyval_zone_redis zone=z store=main; keyval $arg_a $a zone=z; keyval $arg_b $b zone=z; keyval $arg_c $c zone=z;'
                       + SERVER.replace("$value", "$a|$b|$c") % "",
                       main="redis_store main { server 127.0.0.1:%d; mode cluster; timeout 5s; }" % servers[0].port)
        node = Node(server)
        for key in "abc":
            until(lambda it=key: node.set(**{it: "of-" + it}) in (201, 204), "the cluster")
        assert server.get("/?a=a&b=b&c=c").text == "<of-a|of-b|of-c>"
        assert node.set(x="1", y="2") == 400 and node.call("GET") == 400
        assert node.call("PATCH", {"a": None}) == 204
        assert server.get("/?a=a&b=b&c=c").text == "<|of-b|of-c>"
    finally:
        for one in servers:
            one.stop()


def test_the_api(start, redis):
    one = redis()
    server = start(one.port, words="command_timeout=5s ttl=1h")
    node = Node(server)
    one.ask("SET", "zz:other", "no")
    assert node.set(a="1", b="2") == 201 and node.has(a="1", b="2")
    assert one.ask("GET", "z:a") == "1" and 3500000 < one.ask("PTTL", "z:a") <= 3600000
    assert node.call("POST", {"c": "3", "a": "9"}) == 409 and node.has(a="1", b="2")
    assert node.call("PATCH", {"a": "9", "none": "1"}) == 404 and node.has(a="1", b="2")
    assert node.call("PATCH", {"a": "9", "b": None}) == 204 and node.has(a="9")
    assert node.call("PATCH", {"a": {"expire": 60000}}) == 204 and 50000 < one.ask("PTTL", "z:a") <= 60000
    assert one.ask("GET", "z:a") == "9"
    assert node.set(d={"value": "4", "expire": 5000}) == 201 and one.ask("PTTL", "z:d") <= 5000
    assert json.loads(server.get("/api/9/http/keyvals/z?key=a").body) == {"a": "9"}
    assert server.get("/api/9/http/keyvals/z?key=none").status == 404
    assert json.loads(server.get("/api/9/http/keyvals/").body) == {"z": {"a": "9", "d": "4"}}
    assert node.call("POST", {"": "1"}) == 400 and node.call("POST", {"k" * 4097: "1"}) == 400
    assert node.set(**{"k%d" % i: "v" * 100 for i in range(2500)}) == 201
    assert len(node.pairs()) == 2502
    assert node.call("DELETE") == 204 and node.has() and one.keys() == ["zz:other"]


def test_all_zones_where_one_store_is_gone(serve, redis):
    """The zone whose store does not answer is null; the others have their pairs."""
    one, other = redis(), redis()
    server = serve("keyval_zone zone=here:1m; keyval $arg_k $a zone=here; keyval_zone_redis zone=gone port=%d; keyval $arg_k $b zone=gone;"
                   "keyval_zone_redis zone=z port=%d; keyval $arg_k $c zone=z;" % (other.port, one.port) + SERVER.replace("$value", "$c") % "")
    one.ask("SET", "z:a", "1")
    server.get("/api/9/http/keyvals/here", method="POST", body='{"b": "2"}')
    everything = lambda: json.loads(server.get("/api/9/http/keyvals/").body)
    assert everything() == {"here": {"b": "2"}, "gone": {}, "z": {"a": "1"}}
    other.stop()
    assert everything() == {"here": {"b": "2"}, "gone": None, "z": {"a": "1"}}
    assert 'the store of keyval_zone_redis "gone" does not answer' in server.error_log
    assert server.get("/api/9/http/keyvals/gone").status == 503


def test_pairs_are_not_in_memory_all_at_once(start, redis):
    """64 MB in a zone: the worker has some of the pairs at a time, and when the store ends in the middle, the response is cut."""
    one = redis()
    one.ask("EVAL", "for i = 1, 320 do redis.call('SET', 'z:' .. i, string.rep('v', 200000)) end", 0)
    server = start(one.port, words="command_timeout=5s")
    assert server.get("/plain").text == "plain"
    [worker] = server.children()
    before = proc.resident_kb(worker)
    assert len(json.loads(server.get("/api/9/http/keyvals/z").body)) == 320
    quarantine = 256 * 1024  # of memory that was freed, with the address sanitizer
    limit = 24 * 1024
    assert proc.resident_kb(worker) - before < (limit if binaries.resident_limit(limit) == limit else limit + quarantine)
    with contextlib.closing(socket.create_connection(("127.0.0.1", server.port), 30)) as conn:
        conn.sendall(b"GET /api/9/http/keyvals/z HTTP/1.1\r\nHost: a\r\n\r\n")
        assert conn.recv(100000).startswith(b"HTTP/1.1 200")
        one.stop()
        rest = b""
        while data := conn.recv(1 << 20):
            rest = data
        assert not rest.endswith(b"0\r\n\r\n")
    server.wait_log('the store of keyval_zone_redis "z" was lost while its pairs were shown; the response is cut')


def test_reload(start, redis):
    one = redis()
    server = start(one.port)
    one.ask("SET", "z:a", "1")
    assert server.get("/?k=a").text == "<1>"
    server.reload()
    assert server.get("/?k=a").text == "<1>"


def test_scripts(start, redis):
    """A script may wait, so that a key which it has set counts at once, also for a map."""
    one = redis()
    one.ask("MSET", "z:a", "1", "z:b", "2", "z:c", "3")
    server = start(one.port, """
        location = /content { set $key a; content_by_lua_block {
            local first = ngx.var.of_key; ngx.var.key = "b"; ngx.say(first, ngx.var.of_key, ngx.var.mapped) } }
        location = /access { set $key a; access_by_lua_block { ngx.var.key = "c" } return 200 x; }
        location = /then { set $key a; access_by_lua_block { ngx.var.key = "c" } try_files /none @then; }
        location @then { return 200 $of_key; }
        location = /put { set $key new; content_by_lua_block { ngx.var.of_key = "of a script"; ngx.say(ngx.var.of_key) } }
        location = /filter { set $key a; header_filter_by_lua_block { ngx.header.x = ngx.var.of_key } return 200 x; }
        location = /set { set $key b; set_by_lua_block $made { return ngx.var.of_key .. "!" } return 200 $made; }
        location = /many { set $key a; content_by_lua_block {
            local n = 0; for i = 1, 400 do ngx.var.key = "k" .. i; if ngx.var.of_key then n = n + 1 end end ngx.say(n) } }
        """, "keyval $key $of_key zone=z; map $of_key $mapped { volatile; 2 two; default other; }")
    assert server.get("/content").text == "12two\n"
    assert server.get("/then").text == "3"
    assert server.get("/put").text == "of a script\n"
    until(lambda: one.ask("GET", "z:new") == "of a script", "the pair")
    assert server.get("/filter").header("X") == "1"
    assert server.get("/set").text == "2!"
    for i in range(1, 401):
        one.ask("SET", "z:k%d" % i, "v")
    assert 200 < int(server.get("/many").text) <= 256               # what one request may fetch
    server.wait_log('"\\$of_key" is empty: its key "k')


def test_a_script_that_asks_for_many_variables_takes_no_memory(start, redis):
    """Whether a key has changed is looked at each time."""
    server = start(redis().port, """location = /loop { content_by_lua_block {
        for _ = 1, 6000 do local uri = ngx.var.uri end ngx.say("asked") } }""", 'keyval "$remote_addr:$arg_k" $more zone=z;')
    assert server.get("/loop?k=" + "x" * 4000).text == "asked\n"


def test_stream(serve, redis):
    one = redis()
    one.ask("SET", "s:127.0.0.1", "hello")
    server = serve(conf="""pid nginx.pid; error_log error.log; daemon off; events { } stream { keyval_zone_redis zone=s port=%d command_timeout=5s; keyval $remote_addr $value zone=s;
        keyval $name $named zone=s; server { listen 127.0.0.1:@PORT@; set $name 127.0.0.1; return "$value $named"; } }""" % one.port)
    with contextlib.closing(socket.create_connection(("127.0.0.1", server.port))) as conn, conn.makefile("rb") as reply:
        assert reply.read() == b"hello hello"
