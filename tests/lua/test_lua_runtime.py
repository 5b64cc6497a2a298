"""Threads, timers, limits and the life of a worker's Lua."""

import re

import pytest

from harness import Client, Server, run_binary, until

HTTP = """
access_log off;
lua_time_limit 50ms;
lua_memory_limit 128m; # 105,000 nested coroutines, as many as there may be, take 73 MB
lua_max_pending_timers 4;
init_by_lua_block { started = ngx.get_phase() }
init_worker_by_lua_block { ngx.log(ngx.WARN, "worker ", started) }
exit_worker_by_lua_block { ngx.log(ngx.WARN, "worker ends in ", ngx.get_phase()) }
server {
    listen 127.0.0.1:@PORT@;

    location /deep { content_by_lua_block {
        local function deeper(n) if n == 0 then error("deep", 0) end deeper(n - 1) return n end
        coroutine.wrap(deeper)(30)
    } }
    location /ok { content_by_lua_block { ngx.say("alive") } }
    location /require { content_by_lua_block {
        package.preload.fails = function() error("not today", 0) end
        package.preload.one = function() return require "two" end
        package.preload.two = function() return require "one" end
        package.preload.kept = function() return function() return "kept" end end
        for _, name in ipairs {"fails", "fails", "one", "one"} do
            local _, why = pcall(require, name)
            ngx.say(why)
        end
        ngx.say(require("kept")(), " ", require("kept")())
    } }
    location /recursion { content_by_lua_block {
        local function gsub() return (("a"):gsub("a", gsub)) end
        local function co() return coroutine.wrap(co)() end
        local function lua() return 1 + lua() end
        local text = setmetatable({}, {__tostring = function(t) return string.format("%s", t) end})
        for _, f in ipairs({gsub, co, lua, function() return tostring(text) end}) do
            local ok, why = pcall(f)
            ngx.say(ok, " ", tostring(why):match("stack overflow") or why)
        end
    } }
    location /memory { content_by_lua_block {
        local t = {}
        for i = 1, 1e8 do t[i] = ("x"):rep(100) .. i end
    } }
    location /long { content_by_lua_block {
        local function busy() -- for so much of the CPU, however fast it is and whoever else runs
            local till = os.clock() + 0.3
            repeat for i = 1, 100 do tostring(i):gsub("1", "x") end until os.clock() > till
        end
        jit.off(busy) -- compiled code would be named without a traceback
        collectgarbage() -- what other tests left would be collected in busy: for long, in C, and so without a traceback as well
        ngx.sleep(0.001)
        busy()
        ngx.say("done")
    } }
    location /killed { content_by_lua_block {
        local t = ngx.thread.spawn(function() pcall(ngx.sleep, 60) ngx.log(ngx.ERR, "never") end)
        ngx.say(ngx.thread.kill(t), " ", coroutine.status(t))
        local ok, why = ngx.thread.wait(t)
        ngx.say(ok, " ", why)
    } }
    location /yields { content_by_lua_block {
        local co = coroutine.create(function(other)
            ngx.say(coroutine.status(coroutine.running()), " ", coroutine.status(other))
            ngx.sleep(0.001)
            coroutine.yield()
            ngx.sleep(0.001)
        end)
        for _ = 1, 3 do ngx.say(coroutine.status(co), " ", coroutine.resume(co, coroutine.running())) end
        local asleep = coroutine.create(function() ngx.sleep(0.01) end)
        local t = ngx.thread.spawn(function() coroutine.resume(asleep) end)
        ngx.say(coroutine.status(asleep))
        ngx.thread.wait(t)
        ngx.say(coroutine.status(asleep))
    } }
    location /exit { content_by_lua_block {
        ngx.thread.spawn(function() ngx.sleep(0.01) ngx.exit(200) end)
        ngx.say("before")
        pcall(function() pcall(ngx.sleep, 60) ngx.say("never") end)
        ngx.say("never")
    } }
    location /body { content_by_lua_block {
        ngx.thread.spawn(function() ngx.sleep(0.01) ngx.exit(200) end)
        ngx.say("before")
        ngx.req.read_body()
    } }
    location /leaves { content_by_lua_block {
        for i = 1, 50 do ngx.thread.spawn(function() pcall(ngx.sleep, 60) ngx.log(ngx.ERR, "never") end) end
        ngx.say("begun") ngx.flush(true)
        ngx.sleep(60)
    } }
    location /timers { content_by_lua_block {
        local fired = {}
        for i = 1, 5 do
            local ok, why = ngx.timer.at(60, function(early) ngx.log(ngx.WARN, "timer early: ", early) end)
            ngx.say(ok, " ", why)
        end
    } }
    location /global { content_by_lua_block { leaked = 1 ngx.say(leaked) } }
    location /missing { content_by_lua_file nowhere.lua; }
    location /own { lua_code_cache off; content_by_lua_block { rawset(_G, "n", (n or 0) + 1) ngx.say(n, started) } }
}
"""


@pytest.fixture(scope="module")
def server():
    with Server(HTTP, allow=[r"lua_code_cache is off"]) as running:
        yield running


def test_a_module_that_failed_or_requires_itself_is_an_error_each_time(server):
    loop = "loop or previous error loading module "
    assert server.get("/require").text.splitlines() == [
        "not today", loop + "'fails'", loop + "'one'", loop + "'one'", "kept kept"]


def test_a_script_that_recurses_fails_and_the_worker_lives(server):
    assert server.get("/recursion").text == "false stack overflow\n" * 4
    assert server.get("/ok").text == "alive\n"


def test_a_script_that_fills_the_memory_fails_and_the_worker_lives(server):
    assert server.get("/memory").status == 500
    assert server.wait_log(r"lua_memory_limit of 134217728 bytes is reached")
    assert server.wait_log(r"runtime error: not enough memory")
    assert server.get("/ok").text == "alive\n"


def test_who_computes_for_long_is_named_with_a_traceback(server):
    assert server.get("/long").text == "done\n"
    assert server.wait_log(r"content_by_lua\* computes for more than 50 ms without a wait")
    assert server.wait_log(r"in function 'busy'")


def test_a_traceback_shows_the_innermost_levels(server):
    assert server.get("/deep").status == 500
    server.wait_log("runtime error: deep")
    way = server.error_log[server.error_log.index("runtime error: deep"):]
    inner = way[way.index("coroutine 0:"):way.index("coroutine 1:")]
    assert inner.count("in function 'deeper'") == 21 and inner.endswith("\n\t...\n")


def test_a_killed_thread_runs_no_more(server):
    assert server.get("/killed").text == "1 dead\nnil already waited or killed\n"


def test_a_coroutine_that_waited_and_yielded_is_suspended(server):
    assert server.get("/yields").text == (
        "running normal\nsuspended true\nsuspended true\ndead falsecannot resume dead coroutine\nrunning\ndead\n")


def test_an_exit_in_a_thread_ends_the_entry_and_the_request_goes_on(server):
    with Client(server.port) as client:
        for _ in range(3):
            assert client.request("/exit").text == "before\n"


def test_an_exit_while_the_body_is_read(server):
    with Client(server.port) as client:
        client.send(b"POST /body HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n")
        assert client.response().text == "before\n"


def test_a_client_that_leaves_ends_all_threads(server):
    with Client(server.port) as client:
        client.send(b"GET /leaves HTTP/1.1\r\nHost: a\r\n\r\n")
        client.head()
    assert server.get("/ok").text == "alive\n"


def test_pending_timers_have_a_limit_and_run_when_the_worker_quits():
    with Server(HTTP, allow=[r"lua_code_cache is off"]) as running:
        running.get("/timers")
        assert running.get("/timers").text == "nil too many pending timers\n" * 5
        running.quit()
        running.wait_end()
        log = running.read("error.log")
        assert len(re.findall(r"timer early: true, context: ngx\.timer, client: 127\.0\.0\.1", log)) == 4
        assert "worker ends in exit_worker" in log


def test_timers_run_early_when_a_reload_replaces_the_worker():
    with Server(HTTP, allow=[r"lua_code_cache is off"]) as running:
        running.get("/timers")
        running.reload()
        until(lambda: len(re.findall("timer early: true", running.read("error.log"))) == 4, "all timers ran")
        assert running.get("/ok").text == "alive\n"


def test_globals_of_requests_are_told_of(server):
    assert server.get("/global").text == "1\n"
    assert server.wait_log(r"\[warn\] .*writing a global Lua variable \('leaked'\)")


def test_a_file_that_is_not_there_is_a_404(server):
    assert server.get("/missing").status == 404
    assert server.wait_log(r'failed to load external Lua file ".*nowhere\.lua": cannot open')


def test_without_the_code_cache_each_request_has_a_vm(server):
    assert [server.get("/own").text for _ in range(3)] == ["1init\n"] * 3


def test_a_text_that_is_no_lua_fails_the_test_of_the_configuration(tmp_path):
    (tmp_path / "logs").mkdir()
    conf = tmp_path / "nginx.conf"
    conf.write_text(
        "events {}\nhttp { access_log off; server { listen 127.0.0.1:1; location / {\n content_by_lua_block { if }\n} } }\n",
        encoding="utf-8")
    result = run_binary("-t", "-p", str(tmp_path), "-c", str(conf))
    assert result.returncode == 1
    assert f"failed to load inlined Lua code: content_by_lua(nginx.conf:3):1" in result.stderr


def test_who_waits_for_a_thread_that_failed_gets_what_stood_on_its_stack(serve):
    """As with OpenResty: the arguments of error(), or locals and temporary values of the function, and the error itself."""
    server = serve("""server { listen @PORT@; location / { content_by_lua_block {
        local function try(f) local t = ngx.thread.spawn(f) ngx.say(ngx.thread.wait(t)) end
        try(function() error("boom") end)
        try(function() ngx.sleep(0.001) error("plain", 0) end)
        try(function() error() end)
        try(function() local x = nil; x.y = 1 end)
        local t = ngx.thread.spawn(function() error({code = 7}) end)
        ngx.say(select(2, ngx.thread.wait(t)).code, " ", select("#", ngx.thread.wait(t)))
        ngx.say(require "ndk" == ndk)
    } }
    location /filter { header_filter_by_lua_block { error({}) } content_by_lua_block { ngx.say("x") } } }""")
    assert server.get("/").text.splitlines() == [
        "falseboomcontent_by_lua(nginx.conf:12):3: boom", "falseplain", "falsenil",
        "falsenil1attempt to index local 'x' (a nil value)content_by_lua(nginx.conf:12):6: attempt to index local 'x' (a nil value)",
        "7 2", "true"]
    with server.client() as client:
        client.send(b"GET /filter HTTP/1.1\r\nHost: a\r\n\r\n")
        client.rest_or_reset()
    server.wait_log("failed to run header_filter_by_lua[*]: unknown reason, client: ")
