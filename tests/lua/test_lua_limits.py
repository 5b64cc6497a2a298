"""lua_memory_limit with compiled code, and debug hooks."""

import pytest

from harness import Server

FILLS = {
    "strings": 'local t = {} for i = 1, 1e8 do t[i] = ("x"):rep(100) .. i end',
    "numbers": "local t = {} for i = 1, 1e9 do t[i] = i end",
    "tables": "local t = {} for i = 1, 1e8 do t[i] = {i} end",
    "keys": 'local t = {} for i = 1, 1e8 do t["k" .. i] = true end',
    "cdata": 'local new, t = require("ffi").new, {} for i = 1, 1e8 do t[i] = new("double[8]") end',
    "doubling": 'local s = "x" for i = 1, 60 do s = s .. s end',
    "once": 'return ("x"):rep(2 ^ 30)',
    "formats": 'local t = {} for i = 1, 1e8 do t[i] = string.format("%d %s", i, ("y"):rep(50)) end',
    "coroutine": "coroutine.wrap(function() local t = {} for i = 1, 1e8 do t[i] = {i} end end)()",
    "stopped": 'collectgarbage("stop") local t = {} for i = 1, 1e8 do t[i] = {i} end',
    "garbage": "local n = 0 for i = 1, 1e6 do local t = {i, tostring(i)} n = n + #t end ngx.say(n)",
}

HTTP = """
access_log off;
lua_memory_limit 16m;
server {
    listen 127.0.0.1:@PORT@;
    %s
    location /caught { content_by_lua_block {
        for _ = 1, 5 do
            local ok, why = pcall(function() local t = {} for i = 1, 1e8 do t[i] = {i} end end)
            ngx.say(ok, " ", why)
        end
    } }
    location /pid { content_by_lua_block { ngx.say(ngx.worker.pid()) } }
    location /finalizer { content_by_lua_block {
        local p = newproxy(true)
        getmetatable(p).__gc = function() error("from a finalizer") end
        p = nil
        error("not enough memory", 0)
    } }
    location /hook { content_by_lua_block {
        local said = {}
        local function try(what, f, ...)
            local args, ok, why = {...}
            debug.sethook(function() debug.sethook() ok, why = pcall(f, unpack(args)) end, "l")
            local x = 1
            debug.sethook()
            said[#said + 1] = what .. ": " .. tostring(ok) .. " " .. tostring(why)
        end
        local lines = 0
        try("exit", ngx.exit, 200)
        try("sleep", ngx.sleep, 0.001)
        try("redirect", ngx.redirect, "/")
        try("exec", ngx.exec, "/pid")
        try("spawn", ngx.thread.spawn, function() end)
        try("capture", ngx.location.capture, "/pid")
        ngx.say(table.concat(said, "\\n"))
        local function count() lines = lines + 1 end
        debug.sethook(count, "l", 7)
        local f, mask, n = debug.gethook()
        debug.sethook()
        ngx.say(f == count, " ", mask, " ", n, " ", lines > 0, " ", debug.gethook() == nil)
        local seen = {}
        local function called() end
        debug.sethook(function(event) seen[event] = debug.getinfo(2, "f").func end, "cr")
        called()
        local why = seen.call == called and seen["return"] == called
        debug.sethook()
        ngx.say(why)
    } }
    location /hooks { content_by_lua_block {
        local lines = 0
        pcall(function() debug.sethook(function() debug.sethook() error("thrown") end, "l")
            local x = 1 end)
        debug.sethook(function() lines = lines + 1 end, "l")
        local x = 1
        debug.sethook()
        ngx.say(lines > 0)
    } }
}
"""


@pytest.fixture(scope="module")
def server():
    places = "".join("location /%s { content_by_lua_block { %s } }\n" % fill for fill in FILLS.items())
    with Server(HTTP.replace("%s", places)) as running:
        yield running


@pytest.mark.parametrize("what", FILLS)
def test_what_reaches_the_limit_fails_and_the_worker_lives(server, what):
    pid = server.get("/pid").text
    for _ in range(2):
        answer = server.get("/" + what)
        assert answer.status == (200 if what == "garbage" else 500)
    assert server.get("/pid").text == pid
    if what != "garbage":
        assert server.wait_log("runtime error: not enough memory")


def test_a_script_may_catch_it(server):
    assert server.get("/caught").text == "false not enough memory\n" * 5


def test_the_error_is_known_by_what_it_is_and_not_by_its_text(server):
    pid = server.get("/pid").text
    assert server.get("/finalizer").status == 500
    assert server.get("/pid").text == pid


def test_nobody_waits_in_a_hook_or_leaves_it(server):
    lines = server.get("/hook").text.splitlines()
    assert lines[:6] == [name + ": false attempt to yield across C-call boundary"
                         for name in ("exit", "sleep", "redirect", "exec", "spawn", "capture")]
    assert lines[6] == "true l 7 true true"
    assert lines[7] == "true"  # debuggers find the function that a hook is called for at level 2
    assert server.get("/hooks").text == "true\n"


def test_stall_threshold():
    """A script that blocks its worker is logged and counted; one that waits is not."""
    with Server(conf="""pid nginx.pid; error_log error.log info; daemon off; worker_processes 1; events { stall_threshold 500ms; }
        http { server { listen 127.0.0.1:@PORT@; location = /metrics { metrics; }
            location /waits { content_by_lua_block { ngx.sleep(0.6) ngx.say("ok") } }
            location /blocks { content_by_lua_block { os.execute("sleep 0.6") ngx.say("ok") } } } }
        """, allow=["the event loop was blocked"]) as server:
        assert server.get("/waits").text == server.get("/blocks").text == "ok\n"
        stalls = [line for line in server.get("/metrics").text.splitlines() if line.startswith("portunus_worker_stalls")]
        assert stalls == ["portunus_worker_stalls_total 1"]
        server.wait_log("the event loop was blocked for [0-9]")


KEPT = """lua_shared_dict kept %s;
init_by_lua_block {
    local object = newproxy(true)
    getmetatable(object).__gc = function() ngx.shared.kept:set("gone", true) end
    rawset(_G, "object", object)
}
server { listen @PORT@; return 200 "ok"; }"""


@pytest.mark.parametrize("main", ["master_process off;", "worker_processes 1;"])
def test_finalizers_use_dictionaries_until_the_end(main):
    """Objects of resty.lock do: the memory of zones is given back after the VM. The master frees that of the former configuration."""
    with Server(KEPT % "32k", main=main) as server:
        if "off" not in main:
            server.configure(KEPT % "64k", main=main)
            server.reload()
            assert server.get("/").text == "ok"
        assert server.quit() == 0
