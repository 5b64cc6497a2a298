"""What scripts and clients do to harm a worker: it lives, and the others are served."""

import pytest

from harness import Server, until

HTTP = """
server {
    listen 127.0.0.1:@PORT@;
    location /slow { content_by_lua_block { ngx.sleep(0.01) } }
    location /alive { content_by_lua_block { ngx.say("alive") } }

    # Threads that are killed, or that nobody waits for, while they wait.
    location /killed_semaphore { content_by_lua_block {
        local semaphore = require("ngx.semaphore").new(0)
        local waits = ngx.thread.spawn(function() semaphore:wait(10) end)
        ngx.say(ngx.thread.kill(waits))
        semaphore:post(1)
        ngx.sleep(0.001)
        collectgarbage()
        ngx.say(semaphore:count())
    } }
    location /killed_sleep { content_by_lua_block {
        for i = 1, 20 do ngx.thread.kill(ngx.thread.spawn(function() ngx.sleep(60) end)) end
        ngx.say("killed")
    } }
    location /left_alone { content_by_lua_block {
        KEPT = coroutine.create(function() ngx.sleep(60) end)
        ngx.thread.spawn(function() coroutine.resume(KEPT) end)
        ngx.exit(204)
    } }
    location /fails { content_by_lua_block {
        ngx.thread.spawn(function() ngx.location.capture("/slow") end)
        error("on purpose")
    } }
    location /orphan { content_by_lua_block {
        ngx.thread.wait(ngx.thread.spawn(function()
            ngx.thread.spawn(function() ngx.sleep(0.001) ngx.print("orphan ") end)
        end))
        ngx.sleep(0.005)
        ngx.say("ends")
    } }

    # A body that nobody has read when another one takes its place.
    location /replaces { content_by_lua_block {
        ngx.req.socket()
        ngx.req.set_body_data("abc")
        ngx.say(ngx.req.get_body_data())
    } }

    # Timers that make timers that are due at once.
    location /chain { content_by_lua_block {
        local function again() ngx.timer.at(0, again) end
        ngx.say(ngx.timer.at(0, again))
    } }

    # Finalizers, which run wherever Lua collects garbage.
    location /finalizer_exits { content_by_lua_block {
        local proxy = newproxy(true)
        getmetatable(proxy).__gc = function() ngx.exit(503) end
        proxy = nil
        ngx.say(pcall(collectgarbage))
        ngx.say("on")
    } }
    location /finalizer_is_killed { content_by_lua_block {
        local waits = ngx.thread.spawn(function()
            local proxy = newproxy(true)
            getmetatable(proxy).__gc = function() ngx.sleep(60) end
            proxy = nil
            collectgarbage()
        end)
        ngx.sleep(0.001)
        ngx.say(ngx.thread.kill(waits))
    } }
    location /collects { content_by_lua_block {
        local before = collectgarbage("count")
        for i = 1, 200000 do local garbage = {i} end
        ngx.say(collectgarbage("count") - before < 4000)
    } }
    location /finalizer_of_vm { lua_code_cache off; content_by_lua_block {
        KEPT = newproxy(true)
        getmetatable(KEPT).__gc = function()
            ngx.log(ngx.WARN, "finalizer of a VM: ", ngx.get_phase())
            for _, call in ipairs {
                function() ngx.say("late") end, function() ngx.sleep(0.1) end, function() ngx.exit(200) end,
                function() ngx.var.uri = "/" end, function() ngx.header.a = "b" end, function() ngx.ctx.a = 1 end,
                function() ngx.timer.at(0, print) end, function() ngx.thread.spawn(print) end,
                function() require("ngx.semaphore").new(1):wait(1) end, function() ngx.req.read_body() end,
                function() require("ngx.ssl").server_name() end, function() require("ngx.ssl").set_cert() end,
            } do
                pcall(call)
            end
        end
        ngx.say("said")
    } }
    location /own_globals { content_by_lua_block { setfenv(0, {}) ngx.say("own") } }
    location /globals { content_by_lua_block { ngx.say(getfenv(0) == _G) } }

    # Functions of one kind of objects upon another.
    location /borrowed { content_by_lua_block {
        local body, tcp = ngx.req.socket(), ngx.socket.tcp()
        for _, name in ipairs {"getreusedtimes", "setkeepalive", "sslhandshake", "getsslpointer", "close", "send", "getfd"} do
            pcall(tcp[name], body, name == "send" and "text" or nil)
            pcall(tcp[name], body)
        end
        ngx.say(pcall(tcp.setkeepalive, body))
    } }
    location /pointers { content_by_lua_block {
        local ffi, ssl, tcp = require "ffi", require "ngx.ssl", ngx.socket.tcp()
        tcp:connect("127.0.0.1", ngx.var.server_port)
        for _, odd in ipairs {5, "text", 5LL, ffi.new("char[9]"), ffi.new("struct { int a; }"), ffi.typeof("void *"), newproxy()} do
            ngx.print(pcall(ssl.set_cert, odd) and "taken " or "")
            ngx.print(pcall(ssl.set_priv_key, odd) and "taken " or "")
            ngx.print(pcall(ssl.ssl_session_reused, odd) and "taken " or "")
            ngx.print(pcall(tcp.settrustedstore, tcp, odd) and type(odd) == "cdata" and "taken " or "")
            ngx.print(pcall(tcp.setclientcert, tcp, odd, odd) and type(odd) == "cdata" and "taken " or "")
        end
        ngx.say("done")
    } }
    # A script takes the object of a socket out of its table while another thread waits in it.
    location /takes_apart { content_by_lua_block {
        local tcp, udp = ngx.socket.tcp(), ngx.socket.udp()
        tcp:settimeout(20) udp:settimeout(20)
        tcp:connect("127.0.0.1", ngx.var.server_port)
        udp:setpeername("127.0.0.1", ngx.var.server_port)
        local function receive(socket) return select(2, socket:receive()) end
        local threads = {ngx.thread.spawn(receive, tcp), ngx.thread.spawn(receive, udp)}
        tcp[1], udp[1] = nil, nil
        collectgarbage()
        collectgarbage()
        for _, thread in ipairs(threads) do ngx.say(select(2, ngx.thread.wait(thread))) end
    } }
    location /numbers { content_by_lua_block {
        ngx.req.read_body()
        ngx.say(pcall(ngx.escape_uri, "a b", 0/0))
        ngx.say(pcall(ngx.req.init_body, 1e15))
        ngx.say(pcall(require("ngx.pipe").spawn, {"true"}, {buffer_size = 0/0}))
    } }

    location /context { content_by_lua_block { ngx.say(ngx.ctx.word) } }
    location /no_cache { lua_code_cache off; content_by_lua_block {
        ngx.print(ngx.location.capture("/context", {ctx = {word = "shared"}}).body)
    } }
    location /waits_for_slow { lua_check_client_abort on; content_by_lua_block {
        CONTEXTS = CONTEXTS or setmetatable({}, {__mode = "k"})
        local context = {}
        CONTEXTS[context] = true
        ngx.location.capture("/very_slow", {ctx = context})
    } }
    location /very_slow { content_by_lua_block { STARTED = (STARTED or 0) + 1 ngx.sleep(60) } }
    location /contexts { content_by_lua_block {
        collectgarbage()
        local count = 0
        for _ in pairs(CONTEXTS) do count = count + 1 end
        ngx.say(STARTED, " ", count)
    } }

    location /huge { content_by_lua_block { for i = 1, 40 do ngx.print(string.rep("x", 65536)) end } }
    location /captures { lua_capture_max_size 64k; content_by_lua_block {
        local page = ngx.location.capture("/huge")
        ngx.say(#page.body, page.truncated)
    } }
}
"""


@pytest.fixture(scope="module")
def server():
    with Server(HTTP, main="worker_processes 1;\n", allow=["lua_code_cache is off"]) as made:
        yield made


@pytest.mark.parametrize("target, status, text", [
    ("/killed_semaphore", 200, "1\n1\n"),
    ("/killed_sleep", 200, "killed\n"),
    ("/left_alone", 204, ""),
    ("/fails", 500, None),
    ("/orphan", 200, "orphan ends\n"),
])
def test_threads_that_are_killed_leave_nothing_behind(server, target, status, text):
    assert server.get("/alive").text == "alive\n"
    workers = server.children()
    for _ in range(3):
        answer = server.get(target)
        assert answer.status == status
        assert text is None or answer.text == text
    assert server.get("/alive").text == "alive\n"
    assert server.children() == workers


@pytest.mark.parametrize("first", [b"", b"abc"])
def test_an_unread_body_that_is_replaced_is_no_request(server, first):
    """What the script gives instead has three bytes: the others are still the client's body."""
    body = first + b"GET /alive HTTP/1.1\r\nHost: a\r\n\r\n"
    with server.client() as client:
        client.send(b"POST /replaces HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        assert client.response("POST").text == "abc\n"
        assert client.request("/huge", close=True).text == 40 * 65536 * "x"


def test_a_cut_capture_is_logged_once(server):
    assert server.get("/captures").text == "65536true\n"
    assert server.error_log.count("too big subrequest response") == 1


def test_timers_that_make_timers_leave_time_for_others(server):
    assert server.get("/chain").text == "1\n"
    for _ in range(3):
        assert server.get("/alive").text == "alive\n"


def test_nobody_leaves_a_finalizer(server):
    """Lua collects no garbage while one runs: who left it in the middle had that stop for good."""
    assert server.get("/finalizer_exits").text.splitlines()[1] == "on"
    assert server.get("/collects").text == "true\n"
    assert server.get("/finalizer_is_killed").text == "1\n"
    assert server.get("/collects").text == "true\n"


def test_finalizers_of_a_vm_that_ends_work_for_nobody(server):
    workers = server.children()
    for number in range(1, 3):
        assert server.get("/finalizer_of_vm").text == "said\n"
        server.wait_log("(?s)(finalizer of a VM: init.*){%d}" % number)
    assert server.children() == workers


def test_globals_of_one_request_are_not_those_of_the_next(server):
    assert server.get("/own_globals").text == "own\n"
    for _ in range(3):
        assert server.get("/globals").text == "true\n"


def test_methods_upon_objects_of_another_kind(server):
    workers = server.children()
    with server.client() as client:
        client.send(b"POST /borrowed HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc")
        assert "a socket of ngx.socket expected" in client.response("POST").text
    assert server.get("/pointers").text == "done\n"
    assert server.children() == workers


def test_an_object_that_a_thread_waits_in_is_not_collected(server):
    workers = server.children()
    assert set(server.get("/takes_apart").text.splitlines()) <= {"timeout", "connection refused"}
    assert server.children() == workers


def test_numbers_that_are_none_and_sizes_without_sense(server):
    workers = server.children()
    lines = server.get("/numbers").text.splitlines()
    assert "out of range" in lines[0] and lines[1].startswith("falsebad size argument") and "bad buffer_size" in lines[2]
    assert server.children() == workers


def test_a_subrequest_has_the_context_that_it_was_given_without_a_code_cache(server):
    assert server.get("/no_cache").text == "shared\n"


def test_clients_that_leave_do_not_leave_contexts_behind(server):
    for number in range(1, 4):
        with server.client() as client:
            client.send(b"GET /waits_for_slow HTTP/1.1\r\nHost: a\r\n\r\n")
            until(lambda n=number: server.get("/contexts").text.startswith("%d " % n), "the subrequest")
    until(lambda: server.get("/contexts").text == "3 0\n", "the end of the contexts")
