"""What Lua computes, and shared dictionaries: what OpenResty's own suites do not look at."""

import os
import re
import signal
import threading

import pytest

from harness import Server, run_binary
from harness.workers import clients_of_all, wait_workers

HTTP = """
lua_shared_dict kept 100k;
lua_shared_dict other %s;
lua_regex_cache_max_entries 4;
server { listen @PORT@;
    location = / { content_by_lua_block { ngx.print(ngx.worker.pid()) } }
    location = /count { content_by_lua_block {
        for i = 1, 100 do ngx.shared.kept:incr("count", 1, 0) end
        ngx.print(ngx.shared.kept:get("count")) } }
    location = /set { content_by_lua_block {
        ngx.shared.kept:set("text", "kept", 0, 7) ngx.shared.other:set("text", "other")
        ngx.shared.kept:delete("list") ngx.shared.kept:rpush("list", "a") ngx.shared.kept:rpush("list", 2) ngx.print("set") } }
    location = /get { content_by_lua_block {
        local text, flags = ngx.shared.kept:get("text")
        ngx.print(text, " ", flags, " ", ngx.shared.kept:llen("list"), " ", (ngx.shared.other:get("text"))) } }
    location = /churn { content_by_lua_block {
        local dict, random = ngx.shared.kept, math.random
        for i = 1, 20000 do
            local key = "key " .. random(1, 400)
            local what = random(1, 5)
            if what == 1 then dict:delete(key)
            elseif what == 2 then dict:incr("n" .. key, 1, 0)
            elseif what == 3 then dict:lpush("l" .. key, i)
            else dict:set(key, key:rep(random(1, 20))) end
        end
        ngx.print("done") } }
    location = /check { content_by_lua_block {
        local dict, bad = ngx.shared.kept, 0
        for _, key in ipairs(dict:get_keys(0)) do
            if key:sub(1, 3) == "key" then
                local text = dict:get(key)
                if text ~= key:rep(#text / #key) then bad = bad + 1 end
            end
        end
        ngx.print(bad) } }
    location = /regex { content_by_lua_block {
        local said = {}
        -- The pattern is matched again while it replaces.
        said[1] = ngx.re.gsub("a1b2", "[0-9]", function (m) return ngx.re.gsub(m[0] .. "x", "[0-9]", "<$0>", "jo") end, "jo")
        -- A match that begins where it ends comes to an end, and \\\\K in it.
        said[2] = ngx.re.gsub("abc", "a\\\\K", "-")
        said[3] = ngx.re.gsub("\\228\\189\\160\\229\\165\\189", "", "-", "u")
        -- More patterns than the cache takes.
        for i = 1, 300 do assert(ngx.re.match("x" .. i, "x" .. i .. "$", "jo")) end
        for i = 1, 300 do assert(ngx.re.match("y" .. i, "y" .. i .. "$")) end
        collectgarbage() collectgarbage()
        said[4] = tostring(ngx.re.find(string.rep("a", 100000) .. "b", "(a|aa)+$"))
        ngx.print(table.concat(said, " ")) } }
    location = /many { content_by_lua_block {
        local text = string.rep("\\0\\255%%+", 100000)
        assert(ngx.unescape_uri(ngx.escape_uri(text)) == text)
        assert(ngx.decode_base64(ngx.encode_base64(text)) == text)
        assert(#ngx.quote_sql_str(text) == 2 + 100000 * 5)
        ngx.print("ok") } }
}
"""


@pytest.fixture(scope="module")
def server():
    with Server(HTTP % "64k", main="worker_processes 2;", allow=[r"exited on signal 9", r"died while it changed a shared"]) as made:
        yield made


def test_workers_count_together(server):
    clients, _ = clients_of_all(server, wait_workers(server, 2))

    def count(client):
        for _ in range(20):
            client.request("/count")

    threads = [threading.Thread(target=count, args=(client,)) for client in clients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert int(server.get("/count").text) == 100 * (20 * len(clients) + 1)


def test_a_dictionary_outlives_a_reload_and_the_death_of_workers(server):
    assert server.get("/set").text == "set"
    workers = wait_workers(server, 2)
    for worker in workers:
        os.kill(worker, signal.SIGKILL)
    workers = wait_workers(server, 2, without=workers)
    assert server.get("/get").text == "kept 7 2 other"
    server.reload()
    workers = wait_workers(server, 2, without=workers)
    assert server.get("/get").text == "kept 7 2 other"


def test_another_size_makes_it_anew(server):
    workers = wait_workers(server, 2)
    server.get("/set")
    server.configure(HTTP % "128k", main="worker_processes 2;")
    server.reload()
    wait_workers(server, 2, without=workers)
    assert server.get("/get").text == "kept 7 2 nil"


def test_workers_that_are_killed_in_the_middle_leave_it_whole(server):
    for _ in range(8):
        workers = wait_workers(server, 2)
        clients, owners = clients_of_all(server, workers)
        for client in clients:
            client.send("GET /churn HTTP/1.1\r\nHost: a\r\n\r\n")
        for worker in workers:
            os.kill(worker, signal.SIGKILL)
        wait_workers(server, 2, without=workers)
        assert server.get("/check").text == "0"
    assert server.get("/churn").text == "done"
    assert server.get("/check").text == "0"


def test_patterns_that_nest_step_back_and_are_many(server):
    assert server.get("/regex").text.split(" ")[:3] == ["a<1>xb<2>x", "a-bc", "-\u4f60-\u597d-".encode().decode("latin-1")]
    server.wait_log("lua exceeding regex cache max entries \\(4\\)")


def test_texts_of_any_bytes_and_length(server):
    assert server.get("/many").text == "ok"


@pytest.mark.parametrize("line, message", [
    ("lua_shared_dict a 1;", 'invalid lua shared dict size "1"'),
    ("lua_shared_dict a x;", 'invalid lua shared dict size "x"'),
    ('lua_shared_dict "" 1m;', 'invalid lua shared dict name ""'),
    ("lua_shared_dict a 1m; lua_shared_dict a 1m;", 'lua_shared_dict "a" is already defined as "a"'),
    ("lua_regex_cache_max_entries 1; lua_regex_cache_max_entries 2;",
     '"lua_regex_cache_max_entries" directive is duplicate'),
    ("lua_shared_dict a 1m; lua_shared_dict a 2m;",
     'the size 2097152 of shared memory zone "a" conflicts with already declared size 1048576'),
    ("init_by_lua '';", "invalid location config: no runnable Lua code"),
    ("log_by_lua_file '';", "invalid location config: no runnable Lua code"),
    ("upstream u { server 127.0.0.1; balancer_by_lua_block { } balancer_by_lua_file f; }",
     '"balancer_by_lua_file" directive is duplicate'),
    ("init_by_lua_block { local a = {", "unexpected end of file, expecting terminating characters for lua code block"),
])
def test_what_the_configuration_may_not_say(tmp_path, line, message):
    conf = tmp_path / "nginx.conf"
    conf.write_text("error_log stderr; events { } http { %s }" % line)
    got = run_binary("-t", "-p", str(tmp_path), "-c", str(conf))
    assert got.returncode == 1 and message in got.stderr


LOOPS = {
    "match": 'local m = ngx.re.match for _ = 1, 400 do res = m("hello, 1234", "(?<first>[0-9])[0-9]", "jo") end res = res.first',
    "find": 'local f = ngx.re.find for _ = 1, 400 do res = f("hello, 1234", "[0-9]", "jo") end',
    "gmatch": 'local g = ngx.re.gmatch for _ = 1, 400 do local it = g("hello, 1234", "[a-z]+", "jo") res = it()[0] end',
    "iterator": 'local it = ngx.re.gmatch(("a "):rep(500), "a", "jo") for _ = 1, 400 do res = it()[0] end',
    "each": 'local g = ngx.re.gmatch for _ = 1, 400 do for m in g("hello, world", "[a-z]+", "jo") do res = m[0] end end',
    "sub": 'local s = ngx.re.sub for _ = 1, 400 do res = s("hello, 1234", "[0-9]", "[$0]", "jo") end',
    "gsub": 'local s = ngx.re.gsub for _ = 1, 400 do res = s("hello, 1234", "[0-9]", "[$0]", "jo") end',
    "split": 'local s = require("ngx.re").split for _ = 1, 400 do res = table.concat(s("a,b,c", ",", "jo"), " ") end',
}


@pytest.mark.parametrize("what", LOOPS)
def test_loops_over_patterns_are_compiled(serve, what):
    """No function of ngx.re makes LuaJIT give up the loop around it: what it says of the traces has no NYI."""
    server = serve("""server { listen @PORT@; location / { content_by_lua_block {
        require("jit.v").on("@DIR@/logs/traces")
        %s
        require("jit.v").off()
        ngx.say(res) } } }""" % ("local res " + LOOPS[what]))
    assert server.get("/").text == {
        "match": "1\n", "find": "8\n", "gmatch": "hello\n", "iterator": "a\n", "each": "world\n", "sub": "hello, [1]234\n",
        "gsub": "hello, [1][2][3][4]\n", "split": "a b c\n"}[what]
    traces = server.read("logs/traces")
    assert "NYI" not in traces and re.search(r"\[TRACE +1 values\.regex:\d+ loop\]", traces)
    assert re.search(r"\[TRACE +\d+ content_by_lua\(nginx\.conf:\d+\):\d+ loop\]" if what != "split" else " loop]", traces)


def test_functions_of_lua_that_calls_of_a_loop_make(serve):
    """A loop of a script is a trace of its own if it becomes hot before what it calls: so that calls few functions of Lua."""
    server = serve("""lua_shared_dict d 100k; server { listen @PORT@; location / { content_by_lua_block {
        local d = ngx.shared.d
        local function made(call, ...)
            local count = 0
            debug.sethook(function() if debug.getinfo(2, "S").what == "Lua" then count = count + 1 end end, "c")
            call(...)
            debug.sethook()
            return count
        end
        for _, name in ipairs { "md5", "md5_bin", "sha1_bin", "crc32_short", "escape_uri", "unescape_uri", "encode_base64" } do
            ngx.print(made(ngx[name], nil), made(ngx[name], 3.14), made(ngx[name], "x"), " ")
        end
        ngx.print(made(ngx.decode_base64, "eA=="), " ", made(d.set, d, "k", 1), made(d.get, d, "k"), made(d.incr, d, "k", 1), made(d.ttl, d, "k"),
                  made(d.delete, d, "k"), made(d.add, d, "k", "v"), made(d.get_stale, d, "none"), made(d.capacity, d), " ",
                  made(ngx.req.set_header, "a", "b"))
    } } }""")
    assert server.get("/").text == "111 111 111 111 111 111 111 1 21112211 1"


def test_iterators_of_gmatch(serve):
    server = serve("""server { listen @PORT@; location / { content_by_lua_block {
        local it = ngx.re.gmatch("a1 b2", "([a-z])", "jo")
        ngx.say(type(it), " ", it()[1], it()[1], " ", it(), " ", it())
        for i = 1, 300 do assert(ngx.re.match("x" .. i, "x" .. i, "i")[0] == "x" .. i) end
        ngx.say(ngx.re.match("x1", "X1", "i")[0])
    } } }""")
    assert server.get("/").text == "table ab nil nil\nx1\n"
