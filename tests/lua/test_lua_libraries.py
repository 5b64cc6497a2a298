"""Libraries of others, as they are: Debian's lua-cjson and lua-resty-lrucache; and, where TEST_LUA_LIBRARIES names a folder with
checkouts of them (lua-resty-redis, …), the pure Lua ones that talk with redis, MariaDB, memcached, dnsmasq and with us."""

import base64
import glob
import hashlib
import os

import pytest

from harness import Closed, ports
from harness.dns import Dnsmasq
from harness.programs import Program, connects, find, home, own, run

CHECKOUTS = os.environ.get("TEST_LUA_LIBRARIES", "")
PLACES = ("/usr/share/lua/5.1", "/usr/local/share/lua/5.1", "/usr/local/openresty/lualib")    # of Debian, luarocks, OpenResty

CONF = """
lua_package_path '%(path)s;;';
lua_shared_dict words 1m;
lua_socket_log_errors off;
%(http)s
server {
    listen 127.0.0.1:@PORT@;
    default_type text/plain;
    location = /hello { return 200 "hello, $arg_name"; }
    location / { content_by_lua_block {
        local function show(...)
            local words = {}
            for i = 1, select("#", ...) do words[i] = tostring((select(i, ...))) end
            ngx.say(table.concat(words, "|"))
        end
        %(script)s
    } }
}
"""


def folder_of(module):
    """Where `require` has to look for a module, or None."""
    file = module.replace(".", "/")
    for place in glob.glob(os.path.join(CHECKOUTS, "*/lib")) + [CHECKOUTS] if CHECKOUTS else []:
        if os.path.exists(os.path.join(place, file + ".lua")):
            return place
    return next((place for place in PLACES if os.path.exists(os.path.join(place, file + ".lua"))), None)


def path_of(*modules):
    """lua_package_path with these modules on it. Skips where one of them is not to be had."""
    folders = []
    for module in modules:
        folder = folder_of(module)
        if folder is None:
            pytest.skip("%s is not here: TEST_LUA_LIBRARIES names a folder with checkouts" % module)
        folders.append(folder)
    return ";".join("%s/?.lua;%s/?/init.lua" % (folder, folder) for folder in dict.fromkeys(folders))


@pytest.fixture(name="lines")
def fixture_lines(serve):
    """Runs a script with some modules on the path: what it says, in lines."""
    def lines(modules, script, http="", times=1):
        server = serve(CONF % {"path": path_of(*modules), "script": script, "http": http})
        found = None
        for _ in range(times):
            try:
                response = server.get("/")
            except Closed:
                pytest.fail(server.read("error.log"))
            assert response.status == 200, server.read("error.log")
            assert found in (None, response.text.splitlines())
            found = response.text.splitlines()
        return found
    return lines


def program(name, words, port, directory):
    """A program that serves a port; the test is skipped where it is not installed."""
    path = find(name)
    if path is None:
        pytest.skip("no " + name)
    return Program([path, *words], directory, ready=lambda: connects(port))


@pytest.fixture(name="redis")
def fixture_redis():
    """The port of a redis."""
    port, directory = ports.take(), home("redis")
    words = ["--port", str(port.number), "--bind", "127.0.0.1", "--save", "", "--dir", directory]
    with program("redis-server", words, port.number, directory):
        yield port.number
    port.close()


@pytest.fixture(name="memcached")
def fixture_memcached():
    """The port of a memcached."""
    port, directory = ports.take(), home("memcached")
    words = ["-l", "127.0.0.1", "-p", str(port.number), "-U", "0"]
    with program("memcached", words, port.number, directory):
        yield port.number
    port.close()


@pytest.fixture(name="mariadb")
def fixture_mariadb():
    """The port of a MariaDB with a database `test`, of tom whose password is secret."""
    if find("mariadbd") is None or find("mariadb-install-db") is None:
        pytest.skip("no mariadbd")
    port, directory = ports.take(), home("mariadb")
    data, begin = directory + "/data", directory + "/begin.sql"
    small = ["--innodb-log-file-size=4M", "--innodb-flush-log-at-trx-commit=0", "--skip-name-resolve"]
    run([find("mariadb-install-db"), "--no-defaults", "--datadir=" + data, "--auth-root-authentication-method=normal",
         "--skip-test-db", *small], directory)
    with open(begin, "w", encoding="ascii") as file:
        file.write("CREATE DATABASE test;\nCREATE USER tom@'127.0.0.1' IDENTIFIED BY 'secret';\n"
                   "GRANT ALL ON test.* TO tom@'127.0.0.1';\n")
    own(begin)
    words = ["--no-defaults", "--datadir=" + data, "--bind-address=127.0.0.1", "--port=%d" % port.number,
             "--socket=" + directory + "/socket", "--pid-file=" + directory + "/pid", "--init-file=" + begin,
             "--innodb-buffer-pool-size=16M", *small]
    with program("mariadbd", words, port.number, directory):
        yield port.number
    port.close()


# ---- Debian's ----

def test_cjson(lines):
    """A library in C, which finds Lua's symbols in us."""
    if not glob.glob("/usr/lib/*/lua/5.1/cjson.so") + glob.glob("/usr/local/lib/lua/5.1/cjson.so"):
        pytest.skip("no lua-cjson")
    assert lines([], """
        local cjson, safe = require "cjson", require "cjson.safe"
        local value = cjson.decode('{"list": [1, 2.5, "three", null, true], "text": "\\\\u00fc/"}')
        show(#value.list, value.list[2], value.list[3], value.list[4] == cjson.null, value.list[5], value.text)
        show(cjson.encode({1, "two", {three = cjson.null}}))
        show(select("#", safe.decode("{")), safe.decode("{") == nil)
        show(pcall(cjson.encode, {[1] = 1, [1e9] = 2}))
        show(cjson.encode(ngx.req.get_uri_args()))
    """) == ["5|2.5|three|true|true|ü/".encode().decode("latin-1"), '[1,"two",{"three":null}]', "2|true",
             "false|Cannot serialise table: excessively sparse array", "{}"]


@pytest.mark.parametrize("module", ["resty.lrucache", "resty.lrucache.pureffi"])
def test_lrucache(lines, module):
    """Kept from request to request."""
    assert lines([module], """
        local cache = package.loaded.test_cache or require("%s").new(2)
        package.loaded.test_cache = cache
        cache:set("one", 1) cache:set("two", {2}) show(cache:get("one"), cache:get("two")[1])
        cache:set("three", 3) show(cache:get("one"), (cache:get("two")) ~= nil, (cache:get("three")))
        cache:set("four", 4, 0.001) ngx.sleep(0.02) show(cache:get("four"))
        cache:delete("one") cache:delete("three") cache:delete("four") show(cache:get("one"))
    """ % module, times=2) == ["1|2", "nil|true|3", "nil|4|0", "nil"]


# ---- those that talk with servers ----

def test_redis(lines, redis):
    """Commands, pipelines, transactions, subscriptions, scripts; and the connection is kept."""
    first, second = lines(["resty.redis"], """
        local function open()
            local redis = require("resty.redis"):new()
            redis:set_timeouts(10000, 10000, 10000)
            assert(redis:connect("127.0.0.1", %d))
            return redis
        end
        local redis = open()
        local reused = redis:get_reused_times()
        local said = {redis:set("dog", "an animal"), redis:get("dog"), redis:get("cat") == ngx.null, redis:del("dog")}
        redis:init_pipeline() redis:hmset("h", {a = 1, b = 2}) redis:hget("h", "b") redis:incr("dog") redis:del("dog")
        local results = assert(redis:commit_pipeline())
        for i = 1, 4 do said[#said + 1] = results[i] end
        said[#said + 1] = redis:multi() said[#said + 1] = redis:lpush("l", "x") said[#said + 1] = redis:exec()[1] redis:del("l")
        local listener = open()
        listener:subscribe("news") redis:publish("news", "today") local news = listener:read_reply()
        said[#said + 1] = news[1] said[#said + 1] = news[3] listener:close()
        said[#said + 1] = redis:eval("return ARGV[1] .. KEYS[1]", 1, "key", "with ")
        said[#said + 1] = select(2, redis:hget("h"))
        assert(redis:set_keepalive(10000, 10))
        local again = open()
        show(unpack(said)) show(reused, again:get_reused_times()) again:close()
    """ % redis)
    assert first == "OK|an animal|true|1|OK|2|1|1|OK|QUEUED|1|message|today|with key|ERR wrong number of arguments for 'hget' command"
    assert second == "0|1"


def test_mysql(lines, mariadb):
    """A user with a password, types, several results, an error, rows that are many."""
    assert lines(["resty.mysql", "resty.sha256"], """
        local mysql = require "resty.mysql"
        local function open(password)
            local db = assert(mysql:new()) db:set_timeout(30000)
            return db, db:connect{host = "127.0.0.1", port = %d, database = "test", user = "tom", password = password, max_packet_size = 1048576}
        end
        local _, ok, _, code = open("wrong") show(ok, code)
        local db, opened, why = open("secret") if not opened then return show(why) end
        show(db:query("create table cats (id serial primary key, name varchar(20), weight double)").affected_rows)
        show(db:query("insert into cats (name, weight) values (" .. ngx.quote_sql_str("it's") .. ", 3.5), ('Tom', null)").affected_rows)
        local rows = db:query("select * from cats order by id")
        show(#rows, rows[1].id, rows[1].name, rows[1].weight, rows[2].weight == ngx.null)
        local result, message, number, state = db:query("select nothing from nowhere") show(result, number, state)
        local one, more = db:query("select 1 as n; select 2 as n") show(one[1].n, more) show(db:read_result()[1].n)
        show(#db:query("select seq, repeat('x', 200) from seq_1_to_2000"), db:get_reused_times(), db:set_keepalive(10000, 10))
        local again = open("secret") show(again:get_reused_times(), again:query("select name from cats")[2].name) again:close()
    """ % mariadb) == ["nil|1045", "0", "2", "2|1|it's|3.5|true", "nil|1146|42S02", "1|again", "2", "2000|0|1", "1|Tom"]


def test_memcached(lines, memcached):
    """Storage commands, many keys at once, compare and swap."""
    assert lines(["resty.memcached"], """
        local memc = assert(require("resty.memcached"):new()) memc:set_timeout(10000)
        assert(memc:connect("127.0.0.1", %d))
        memc:flush_all()
        show(memc:set("dog", 32), memc:add("dog", 1)) show(memc:get("dog"))
        show(memc:incr("dog", 2)) show(memc:append("dog", "x")) show(memc:get("dog"))
        memc:set("a key", "with\\r\\nlines", 0, 7)
        local all = memc:get({"dog", "a key", "none"}) show(all.dog[1], #all["a key"][1], all["a key"][2], all.none)
        local value, flags, unique = memc:gets("dog") show(memc:cas("dog", "new", unique)) show(memc:cas("dog", "newer", unique))
        show(memc:delete("dog")) show((memc:get("dog"))) show(memc:set_keepalive(10000, 10))
    """ % memcached) == ["1|nil|NOT_STORED", "32|0", "34", "1", "34x|0", "34x|11|7|nil", "1", "nil|EXISTS", "1", "nil",
                         "1"]


def test_dns(lines):
    """dnsmasq, by UDP; and by TCP, because the answer is long."""
    if not Dnsmasq.is_there():
        pytest.skip("no dnsmasq")
    long = ["txt-record=long.example," + ",".join("x" * 120 for _ in range(7))]
    with Dnsmasq("host-record=www.example,127.0.0.7,::7", "cname=alias.example,www.example",
                 "srv-host=_http._tcp.example,www.example,8080,1,10", *long) as names:
        assert lines(["resty.dns.resolver"], """
            local resolver = require "resty.dns.resolver"
            local asker = assert(resolver:new{nameservers = {{"127.0.0.1", %d}}, retrans = 3, timeout = 5000})
            local answers = assert(asker:query("www.example", {qtype = asker.TYPE_A})) show(#answers, answers[1].address)
            show(asker:query("www.example", {qtype = asker.TYPE_AAAA})[1].address)
            local chain = asker:query("alias.example") show(chain[1].cname, chain[2].address)
            local service = asker:query("_http._tcp.example", {qtype = asker.TYPE_SRV})[1] show(service.port, service.target)
            show(asker:query("none.example").errcode)
            show(#asker:tcp_query("long.example", {qtype = asker.TYPE_TXT})[1].txt, #asker:query("long.example", {qtype = asker.TYPE_TXT})[1].txt)
        """ % names.port)[:5] == ["1|127.0.0.7", "0:0:0:0:0:0:0:7", "www.example|127.0.0.7", "8080|www.example", "3"]


# ---- those that talk with us ----

def test_lock(lines):
    """Two threads, of which one waits for the other."""
    assert lines(["resty.lock"], """
        local lock = require "resty.lock"
        local order = {}
        local function work(name)
            local own = assert(lock:new("words", {timeout = 10, step = 0.001}))
            assert(own:lock("key")) order[#order + 1] = name ngx.sleep(0.01) order[#order + 1] = name assert(own:unlock())
        end
        local threads = {ngx.thread.spawn(work, "a"), ngx.thread.spawn(work, "b")}
        for _, thread in ipairs(threads) do ngx.thread.wait(thread) end
        show(unpack(order))
        local first, second = lock:new("words"), lock:new("words", {timeout = 0})
        show(first:lock("other")) show(second:lock("other")) show(first:unlock()) show(first:unlock())
    """, times=2) == ["a|a|b|b", "0", "nil|timeout", "1", "nil|unlocked"]


def test_limit_traffic(lines):
    """Requests, connections and counts."""
    assert lines(["resty.limit.req", "resty.limit.conn", "resty.limit.count"], """
        ngx.shared.words:flush_all()
        local requests = assert(require("resty.limit.req").new("words", 1, 1))
        show(requests:incoming("r", true)) show((requests:incoming("r", true)) > 0.5) show(requests:incoming("r", true))
        local connections = assert(require("resty.limit.conn").new("words", 1, 0, 0.5))
        show(connections:incoming("c", true)) show(connections:incoming("c", true)) show(connections:leaving("c"))
        local counts = assert(require("resty.limit.count").new("words", 2, 60))
        show(counts:incoming("n", true)) show(counts:incoming("n", true)) show(counts:incoming("n", true))
    """) == ["0|0", "true", "nil|rejected", "0|1", "nil|rejected", "0", "0|1", "0|0", "nil|rejected"]


def test_string(lines):
    """Hashes, AES and random bytes by libcrypto, through FFI."""
    assert lines(["resty.sha256", "resty.aes", "resty.string", "resty.random", "resty.md5"], """
        local str = require "resty.string"
        local sha = require("resty.sha256"):new() sha:update("hel") sha:update("lo") show(str.to_hex(sha:final()))
        local md5 = require("resty.md5"):new() md5:update("hello") show(str.to_hex(md5:final()))
        local aes = require("resty.aes"):new("secret") show(aes:decrypt(aes:encrypt("hello")))
        show(#require("resty.random").bytes(16, true), str.atoi("42"))
    """) == [hashlib.sha256(b"hello").hexdigest(), hashlib.md5(b"hello").hexdigest(), "hello", "16|42"]


def test_upload(serve):
    """A form in parts, of which one is longer than a chunk."""
    server = serve(CONF % {"path": path_of("resty.upload"), "http": "client_max_body_size 1m;", "script": """
        local form = assert(require("resty.upload"):new(64))
        form:set_timeout(10000)
        local sizes, size = {}, 0
        while true do
            local kind, value = form:read()
            if kind == "header" then sizes[#sizes + 1] = value[1]
            elseif kind == "body" then size = size + #value
            elseif kind == "part_end" then sizes[#sizes + 1] = size size = 0
            elseif kind == "eof" then break
            else show(kind, value) break end
        end
        show(unpack(sizes))
    """})
    parts = (b"--cut\r\nContent-Disposition: form-data; name=a\r\n\r\none\r\n"
             b"--cut\r\nContent-Disposition: form-data; name=b; filename=x\r\nContent-Type: text/plain\r\n\r\n" +
             b"--cu\r\n" * 1000 + b"\r\n--cut--\r\n")
    with server.client() as client:
        response = client.request("/", "Content-Type: multipart/form-data; boundary=cut", method="POST", body=parts)
        assert response.text == "Content-Disposition|3|Content-Disposition|Content-Type|6000\n"


def test_http(lines):
    """A client that asks us: a request alone, its parts, and a pipeline on one kept connection."""
    assert lines(["resty.http", "resty.string"], """
        local http = require "resty.http"
        local url = "http://127.0.0.1:" .. ngx.var.server_port
        local answer = assert(http.new():request_uri(url .. "/hello?name=x", {headers = {["X-One"] = "1"}}))
        show(answer.status, answer.body, answer.headers["Content-Length"])
        local client = http.new() client:set_timeout(10000)
        assert(client:connect{scheme = "http", host = "127.0.0.1", port = tonumber(ngx.var.server_port)})
        local one = assert(client:request{path = "/hello?name=read", headers = {Host = "x"}})
        local read, text = one.body_reader, "" repeat local piece = read(5) text = text .. (piece or "") until not piece
        show(one.status, text)
        local all = assert(client:request_pipeline{{path = "/hello?name=1"}, {path = "/hello?name=2"}})
        for _, each in ipairs(all) do show(each.status, each:read_body()) end
        show(client:set_keepalive())
    """) == ["200|hello, x|8", "200|hello, read", "200|hello, 1", "200|hello, 2", "1"]


WEBSOCKET = """
lua_package_path '%s;;';
server {
    listen 127.0.0.1:@PORT@;
    location = /echo { content_by_lua_block {
        local server = assert(require("resty.websocket.server"):new{timeout = 10000, max_payload_len = 100000})
        while true do
            local data, kind = server:recv_frame()
            if kind == "close" then server:send_close(1000, "bye") return
            elseif kind == "ping" then server:send_pong(data)
            elseif kind == "text" then server:send_text(data:upper())
            elseif kind == "binary" then server:send_binary(data)
            else ngx.log(ngx.ERR, "frame: ", kind or data) return end
        end
    } }
    location = / { content_by_lua_block {
        local client = assert(require("resty.websocket.client"):new{timeout = 10000, max_payload_len = 100000})
        assert(client:connect("ws://127.0.0.1:" .. ngx.var.server_port .. "/echo"))
        client:send_text("hello") local data, kind = client:recv_frame() ngx.say(kind, " ", data)
        client:send_ping("there") data, kind = client:recv_frame() ngx.say(kind, " ", data)
        client:send_binary(("x"):rep(70000)) data, kind = client:recv_frame() ngx.say(kind, " ", #data)
        client:send_close(1000, "end") data, kind, code = client:recv_frame() ngx.say(kind, " ", data, " ", code)
    } }
}
"""


def test_websocket(serve):
    """Both ends in Lua; and an end by hand, whose key the answer must know."""
    server = serve(WEBSOCKET % path_of("resty.websocket.server", "resty.websocket.client"))
    assert server.get("/").text.splitlines() == ["text HELLO", "pong there", "binary 70000", "close bye 1000"]
    with server.client() as client:
        client.send(b"GET /echo HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n")
        accept = hashlib.sha1(b"dGhlIHNhbXBsZSBub25jZQ==258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest()
        head = client.head()
        assert head.status == 101 and head.header("Sec-WebSocket-Accept") == base64.b64encode(accept).decode()
