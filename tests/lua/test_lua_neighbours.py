"""Small things that scripts see, each as lua-nginx-module 0.10.23 shows it: order, log lines, values at the edges."""

import re
import socket
import threading

import pytest

from harness import Server, run_binary
from harness.backend import Backend

HTTP = """
log_format agent '$http_user_agent';
access_log agent.log agent;
lua_shared_dict keys 32k;
lua_shared_dict finalized 1m;
init_by_lua_block {
    function show(...)
        local words = {}
        for i = 1, select("#", ...) do words[i] = tostring((select(i, ...))) end
        ngx.say(table.concat(words, "|"))
    end
    function tell(...) ngx.log(ngx.WARN, "told ", ...) end
}
upstream led { server 0.0.0.1; balancer_by_lua_block {
    ngx.exit(503)
    ngx.exit(0)
    tell("chosen ", require("ngx.balancer").set_current_peer("127.0.0.1", @PORT@))
} }
server {
    listen 127.0.0.1:@PORT@;
    location /until { content_by_lua_block {
        local sock = ngx.socket.tcp()
        assert(sock:connect("127.0.0.1", tonumber(ngx.var.arg_port)))
        assert(sock:send("go\\r\\n\\r\\n"))
        local next_line = sock:receiveuntil("--")
        for i = 1, 5 do show(next_line()) end
    } }
    location /finalizers { content_by_lua_block {
        local keys = ngx.shared.finalized
        keys:flush_all()
        local long, longer = ("a"):rep(5000), ("b"):rep(9000)
        keys:set("short", "a") keys:set("other", "bb") keys:set("long", long) keys:set("longer", longer)
        jit.off() -- so that they run at all times
        collectgarbage("setpause", 1)
        collectgarbage("setstepmul", 1000)
        local finalizers, wrong = 0, 0
        local function check(is, should) wrong = wrong + (is == should and 0 or 1) end
        repeat
            getmetatable(newproxy(true)).__gc = function()
                finalizers = finalizers + 1
                keys:get("other") keys:get("longer") keys:rpush("queue", "zz") keys:lpop("queue") keys:get_keys()
            end
            check(keys:get("short"), "a")
            check(keys:get("long"), long)
            check(keys:get_stale("short"), "a")
            keys:rpush("list", long)
            check(keys:lpop("list"), long)
            check(#keys:get_keys(), 4)
        until finalizers > 300
        show("wrong", wrong)
    } }
    location /compiled_finalizers { content_by_lua_block {
        local keys = ngx.shared.finalized
        keys:flush_all()
        local should = {"one", 2, true, ("a"):rep(5000), "five5", ("b"):rep(9000), 7, "eight"}
        for i, value in ipairs(should) do keys:set("k" .. i, value) end
        local finalizers, wrong, sum = 0, 0, 0
        local function finalize() finalizers = finalizers + 1 keys:get_keys() keys:incr("theirs", 1, 0) end
        keys:set("sum", 0)
        for round = 1, 60 do
            jit.flush()
            for _ = 1, 60 do getmetatable(newproxy(true)).__gc = finalize end
            for i = 1, 400 do -- of other types than it was compiled for: the compiled code is left, and finalizers run
                local n = math.random(i < 100 and 2 or 8)
                wrong = wrong + (keys:get("k" .. n) == should[n] and 0 or 1)
                sum = sum + 1
                wrong = wrong + (keys:incr("sum", 1) == sum and 0 or 1)
            end
        end
        show("wrong", wrong, finalizers > 0)
    } }
    location ~ ^/finalizers/(values) { content_by_lua_block {
        local list = require("ngx.re").split
        local long, longer = ("a b&"):rep(2000), ("b%c"):rep(4000)
        local function flat(fields)
            local all = {}
            for name, value in pairs(fields) do
                all[#all + 1] = name .. "=" .. (type(value) == "table" and table.concat(value, ",") or tostring(value))
            end
            table.sort(all)
            return table.concat(all, " ")
        end
        local calls = {
            variable = function(a) return ngx.var[a and "arg_a" or "arg_bb"] end,
            long_variable = function(a) return ngx.var[a and "http_long" or "uri"] end,
            capture = function(a) return ngx.var[a and 1 or 0] end,
            directive = function(a) return ndk.set_var.set_encode_hex(a and "a" or "bb") end,
            long_directive = function(a) return ndk.set_var.set_quote_json_str(a and long or longer) end,
            header = function(a) return ngx.header[a and "one" or "three"] end,
            header_list = function(a) return flat({ ngx.header[a and "two" or "four"] }) end,
            request_headers = function() return flat(ngx.req.get_headers()) end,
            response_headers = function() return flat(ngx.resp.get_headers()) end,
            args = function() return flat(ngx.req.get_uri_args()) end,
            method = function(a) if a then return ngx.req.get_method() end return ngx.var.host end,
            escape = function(a) return ngx.escape_uri(a and "a b" or "bb  bb") end,
            long_escape = function(a) return ngx.escape_uri(a and long or longer) end,
            unescape = function(a) return ngx.unescape_uri(a and "%41b" or "bb%42") end,
            long_unescape = function(a) return ngx.unescape_uri(a and long or longer) end,
            md5 = function(a) return ngx.md5(a and "a" or "bb") end,
            sha1 = function(a) return ngx.sha1_bin(a and "a" or "bb") end,
            base64 = function(a) return ngx.encode_base64(a and "a" or "bbbb") end,
            long_base64 = function(a) return ngx.encode_base64(a and long or longer) end,
            from_base64 = function(a) return ngx.decode_base64(a and "YWJj" or "enp6eno=") end,
            quote = function(a) return ngx.quote_sql_str(a and "a'b" or "b'b'b") end,
            time = function(a) return ngx.http_time(a and 1 or 1e9) end,
            match = function(a) return table.concat(ngx.re.match(a and "abc" or "zyx", "(.)(.)(.)", "o"), "|", 0) end,
            gmatch = function(a)
                local all = {}
                for m in ngx.re.gmatch(a and "abcd" or "zzyyxx", "(.)(.)", "o") do all[#all + 1] = m[1] .. m[2] end
                return table.concat(all, "|")
            end,
            error = function(a) return (select(2, ngx.re.match("a", a and "(a" or "((bb"))) end,
            sub = function(a) return (ngx.re.sub(a and "abcd" or "bbc", "(b)(c)", "<$2$1>", "o")) end,
            gsub = function(a) return (ngx.re.gsub(a and "abcd" or "zzzzzz", "(.)(.)", "<$2$1>", "o")) end,
            long_gsub = function(a) return (ngx.re.gsub(a and long or longer, "[ac]", "$0$0$0$0", "o")) end,
            each = function(a) return (ngx.re.gsub(a and "abcd" or "zyx", "(.)(.)", function(m) return m[2] .. m[1] end, "o")) end,
            split = function(a) return table.concat(list(a and "a1b2c3d" or "zz4zz", "([0-9])", "o"), "|") end,
            replace = function(a) return require("resty.core.utils").str_replace_char(a and "a_b" or "__", "_", "-") end,
        }
        ngx.header.one = "1" ngx.header.two = { "2", "22" } ngx.header.three = "333" ngx.header.four = { "4444", "44", "4" }
        calls.no_base64 = function(a) return ngx.decode_base64(a and "YWJj" or "a") end
        calls.no_variable = function(a) return ngx.var[a and "http_host" or "http_none"] end
        calls.no_header = function(a) return ngx.header[a and "one" or "none"] end
        calls.find = function(a)
            local from, to = ngx.re.find(a and "xab" or "zzzzzz", "(a)(b)", "o", nil, 1)
            return tostring(from) .. tostring(to)
        end
        local last, expected, others = 300, {}, {}
        for name, call in pairs(calls) do
            expected[name] = call(true)
            call(false)
            others[#others + 1] = call
        end
        jit.off() jit.flush()
        collectgarbage("setpause", 1)
        collectgarbage("setstepmul", 1000)
        local finalizers, wrong = 0, {}
        local function finalize()
            finalizers = finalizers + 1
            if finalizers > last then return end -- those that are left run in other requests
            for i = 1, #others do others[i](false) end
        end
        repeat
            for name, call in pairs(calls) do
                getmetatable(newproxy(true)).__gc = finalize
                local ok, is = pcall(call, true)
                if is ~= expected[name] then wrong[name] = true end
            end
        until finalizers > last
        collectgarbage("setpause", 200)
        collectgarbage("setstepmul", 200)
        jit.on()
        local names = {}
        for name in pairs(wrong) do names[#names + 1] = name end
        table.sort(names)
        ngx.say(finalizers > last, "|", table.concat(names, " "))
    } }
    location /agent { content_by_lua_block {
        local before = ngx.var.http_user_agent
        ngx.req.set_header("User-Agent", "changed")
        show(before, ngx.var.http_user_agent)
    } }
    location /moved { return 301 /new;
        header_filter_by_lua_block { tell("in the filter ", ngx.header.location) }
        log_by_lua_block { tell("in the log ", ngx.var.sent_http_location) } }
    location /status { content_by_lua_block { ngx.exit(tonumber(ngx.var.arg_s)) } }
    location /plain { return 200 abc; }
    location /of_backend { proxy_pass http://127.0.0.1:@PORT@/plain; header_filter_by_lua_block { ngx.header.content_length = nil }
        body_filter_by_lua_block {
            tell("piece [", ngx.arg[1], "] ", ngx.arg[2])
            ngx.arg[1] = ngx.arg[1]:upper()
        } }
    location /order { content_by_lua_block {
        local function ask(uri)
            ngx.say("in ", ngx.location.capture(uri).status)
            return uri
        end
        local first = ngx.thread.spawn(ask, "/status?s=404")
        local second = ngx.thread.spawn(ask, "/status?s=201")
        show(ngx.thread.wait(first))
        show(ngx.thread.wait(second))
    } }
    location /captured { content_by_lua_block {
        for _, uri in ipairs({"/status?s=204", "/status?s=200", "/plain"}) do
            local res = ngx.location.capture(uri)
            show(res.status, res.truncated, res.body, type(res.header["Content-Length"]))
        end
    } }
    location /fails_late { content_by_lua_block {
        ngx.timer.at(0, function() error("late") end)
        ngx.timer.at(0, function() coroutine.wrap(function() error("wrapped") end)() end)
    } }
    location ~ ^/groups/(a)?(b)?(c)?$ { content_by_lua_block { show(ngx.var[1], ngx.var[2], ngx.var[3]) } }
    location /values { content_by_lua_block {
        ngx.shared.keys:set("a", 1) ngx.shared.keys:set("b", 1)
        ngx.header.a = {"1", "2"}
        show(#ngx.shared.keys:get_keys(1.5), select("#", require("ngx.re").split("a,b", ",")))
        local fields, cut = ngx.resp.get_headers(1)
        show(fields.a, fields["content-type"], fields.connection, cut)
        show(select(2, ngx.req.get_headers(1.9)))
        show(pcall(ngx.log, ngx.WARN, setmetatable({}, {__tostring = function() return 7 end})))
    } }
    location /body { content_by_lua_block {
        ngx.req.read_body()
        ngx.req.discard_body()
        show(ngx.req.get_body_data())
    } }
    location /late_body { return 200 ok; log_by_lua_block {
        tell(pcall(ngx.req.set_body_data, "x")) tell(pcall(ngx.req.append_body, "x")) tell(pcall(ngx.req.discard_body))
    } }
    location /named { content_by_lua_block { ngx.exec("@name?x=1", "y=2") } }
    location @name { return 200 named; }
    location /filter { return 200 ok; header_filter_by_lua_block {
        tell(pcall(ngx.on_abort, print)) tell(pcall(ngx.thread.spawn, 1)) tell(pcall(ngx.thread.spawn, function() end))
        tell(pcall(ngx.exec, "")) tell(pcall(ngx.redirect, "/", 200)) tell(pcall(ngx.sleep, -1)) tell(pcall(ngx.sleep, 1))
        tell(pcall(ngx.exit, -2))
    } }
    location /again { content_by_lua_block {
        local keys = ngx.shared.keys
        keys:set("old", 1, 0.001)
        repeat ngx.sleep(0.002) until keys:get("old") == nil
        show(keys:expire("old", 100), keys:get("old"))
        show(select(2, pcall(function() keys:set("k", 1, -1) end)))
        show(select(2, pcall(function() keys:lpush("k") end)))
        show(keys:lpush(("k"):rep(65535), 1))
        local count = require("ngx.semaphore").new()
        show(select(2, pcall(function() count:post(0) end)))
        show(select(2, pcall(function() coroutine.resume(1) end)))
    } }
    location /empty { content_by_lua_block {
        ngx.req.set_header("X-Gone", "")
        ngx.req.set_header("X-Two", {"a", ""})
        require("ngx.req").add_header("X-New", "")
        local fields = ngx.req.get_headers()
        show(fields["x-gone"], #fields["x-two"], fields["x-two"][2], fields["x-new"])
    } }
    location /waited { content_by_lua_block {
        local function spawn(text) return ngx.thread.spawn(function() return text end) end
        local first, second = spawn("first"), spawn("second")
        for i = 1, 3 do show(ngx.thread.wait(first, second)) end
        local later = ngx.thread.spawn(function() ngx.sleep(1) end)
        show(ngx.thread.wait(later, first))
        ngx.thread.kill(later)
    } }
    location /coroutines {
        set_by_lua_block $made {
            local made, reason = pcall(coroutine.wrap, tell)
            return tostring(made) .. "|" .. reason .. "|" .. tostring(coroutine.running())
        }
        header_filter_by_lua_block {
            local running
            coroutine.wrap(function() running = coroutine.running() end)()
            ngx.header.filter = tostring(coroutine.running()) .. "|" .. type(running)
        }
        log_by_lua_block {
            tell(pcall(coroutine.create, tell)) tell(pcall(coroutine.yield))
            tell(coroutine._wrap(function() coroutine._yield("by _yield") end)())
        }
        content_by_lua_block { show(ngx.var.made) }
    }
    location /names { content_by_lua_block {
        local chunk = loadstring("tell_by(ngx.WARN, 'told by a chunk')", "=chunk")
        tell_by = ngx.log
        chunk()
        local function named() ngx.log(ngx.WARN, "told by a function") end
        named()
        show(pcall(ngx.log, ngx.WARN, "told by pcall"))
    } }
    location /numbers { content_by_lua_block {
        local count = require("ngx.semaphore").new(1.5)
        show(count:count(), count:wait(0), pcall(count.wait, count))
        show(pcall(count.post, count, 0/0))
        local keys = ngx.shared.keys
        show(keys:set("n", 1, false, -1), keys:get("n"))
        show(keys:incr("n", 1, false))
        show(keys:incr("none", 1, false))
        local sock = ngx.socket.tcp()
        show(sock:connect("unix:/nowhere"))
        show(sock:setoption("nosuch", 1))
        show(#require("ngx.re").split("", "("), #require("ngx.re").split("", ",", nil, nil, nil, {1}))
    } }
    location /exits { return 200 ok; header_filter_by_lua_block {
        ngx.exit(503)
        ngx.header.a = "set after it"
        ngx.exit(tonumber(ngx.var.arg_s))
    } }
    location /answered { content_by_lua_block {
        local sock = ngx.socket.tcp()
        assert(sock:connect("127.0.0.1", tonumber(ngx.var.arg_port)))
        assert(sock:send("go\\r\\n\\r\\n"))
        local sent, reason
        repeat ngx.sleep(0.002) sent, reason = sock:send("x") until not sent
        show(reason, sock:receive(3), sock:receive("*a"))
    } }
    location /nobody { content_by_lua_block { tell(require("ngx.balancer").set_more_tries(1)) }
        log_by_lua_block { tell(require("ngx.balancer").set_more_tries(1)) } }
    location /led { proxy_pass http://led/plain; log_by_lua_block { tell(require("ngx.balancer").set_more_tries(1)) } }
    location /modules { content_by_lua_block {
        local add = require("ngx.resp").add_header
        show(select(2, pcall(function() add("a") end)))
        show(pcall(add, "a", {}), ngx.header.a)
        show(require("ngx.process").enable_privileged_agent("many"))
        show(select(2, pcall(function() require("ngx.errlog").set_filter_level("all") end)))
        show(pcall(ngx.re.gsub, "abc", "b", function() end))
        for _, template in ipairs({"$", "$name", "${1", "${}"}) do show(ngx.re.sub("abc", "b", template)) end
    } }
    location /refused { lua_check_client_abort on; content_by_lua_block {
        show(pcall(ngx.on_abort, print))
        show(pcall(ngx.timer.every, 0, print))
        local udp = ngx.socket.udp()
        show(pcall(udp.settimeout, udp, 1, 2))
        ngx.req.discard_body()
        show(ngx.req.socket())
        assert(udp:setpeername("127.0.0.1", tonumber(ngx.var.arg_port)) and udp:send("x"))
        show(#udp:receive(0))
    } }
    location /old { content_by_lua_block { ngx.req.set_header("a", "b") show(ngx.req.http_version(), ngx.req.get_headers().a) } }
}
"""


@pytest.fixture(scope="module")
def server():
    allow = ("late", "wrapped", "told", "captur", "closing bracket")
    with Server(HTTP, allow=allow) as running:
        yield running


def said(server, target, *headers):
    return server.get(target, *headers).body.decode().splitlines()


def test_finalizers_that_use_a_dictionary_do_not_change_what_others_read(server):
    assert server.get("/compiled_finalizers").text == "wrong|0|true\n"
    assert server.get("/finalizers").text == "wrong|0\n"


def test_finalizers_do_not_change_what_functions_give(server):
    """Lua collects garbage while a function makes its strings, and a __gc may call the same function."""
    long = "Long: " + "q" * 6000
    assert server.get("/finalizers/values?a=1%202&bb=333&c", long, "Many: 1", "Many: 2").text == "true|\n"


def test_a_loop_over_receiveuntil_ends_without_an_error_line(server):
    backend = Backend([b"a--b--c"])
    assert said(server, f"/until?port={backend.port}") == ["a", "b", "nil|closed|c", "nil|closed", "nil|closed"]
    backend.close()
    assert "closed socket" not in server.error_log


def test_a_field_that_was_changed_is_seen_by_its_variable(server):
    assert said(server, "/agent", "User-Agent: first") == ["first|changed"]
    assert server.wait_log(r"changed\n", "agent.log")


def test_filters_see_a_location_as_it_was_given(server):
    assert server.get("/moved").header("location") == f"http://localhost:{server.port_of()}/new"
    assert server.wait_log("told in the filter /new,")
    assert server.wait_log(r"told in the log http://localhost:\d+/new while logging")


def test_a_thread_that_ends_hands_over_before_the_next_one_speaks(server):
    assert said(server, "/order") == ["in 404", "true|/status?s=404", "in 201", "true|/status?s=201"]


def test_what_captures_say_of_their_ends(server):
    assert said(server, "/captured") == ["204|true||nil", "200|false||nil", "200|false|abc|number"]


def test_error_lines_of_timers_end_with_their_client(server):
    server.get("/fails_late")
    server.wait_log("runtime error: .*late")
    server.wait_log("runtime error: .*wrapped")
    ends = re.findall(r"context: ngx\.timer.*", server.error_log)
    assert len(ends) == 2
    assert all(re.fullmatch(r"context: ngx\.timer, client: 127\.0\.0\.1, server: 127\.0\.0\.1:\d+", end) for end in ends)


@pytest.mark.parametrize("path, groups", [("ab", "a|b|nil"), ("b", "|b|nil"), ("c", "||c"), ("", "nil|nil|nil")])
def test_groups_after_the_last_one_that_matched_are_nil(server, path, groups):
    assert said(server, f"/groups/{path}") == [groups]


def test_values_at_the_edges(server):
    assert said(server, "/values", "X-More: 1") == ["1|1", "1|text/plain|keep-alive|truncated", "truncated", "true"]


def test_a_body_that_was_read_cannot_be_discarded(server):
    with server.client() as client:
        assert client.request("/body", method="POST", body=b"hello").body == b"hello\n"


def test_bodies_are_not_replaced_once_the_request_is_logged(server):
    server.get("/late_body")
    assert server.wait_log("told falserequest body not read yet while logging")
    assert server.wait_log("told falserequest_body not initialized while logging")
    assert server.wait_log("told true while logging")


def test_exec_to_a_name_says_which_arguments_it_drops(server):
    assert server.get("/named").body == b"named"
    assert server.wait_log(r"query strings x=1&y=2 ignored when exec'ing named location @name")


def test_arguments_are_looked_at_before_the_phase(server):
    server.get("/filter")
    assert server.wait_log("told truenillua_check_client_abort is off")
    assert server.wait_log("told falsebad argument #1 to '.*' .Lua function expected")
    for reason in ("The uri argument is empty", "only ngx.HTTP_MOVED_TEMPORARILY, ", 'invalid sleep duration "-1000"',
                   "bad argument to 'ngx.exit': does not accept NGX_AGAIN or NGX_DONE"):
        assert server.wait_log("told false" + re.escape(reason))
    assert server.error_log.count("told falseAPI disabled in the context of header_filter_by_lua*") == 2  # spawn and sleep


def test_errors_name_the_line_of_the_script(server):
    again = said(server, "/again")
    assert again[:1] + again[3:4] == ["true|1", "false|no memory"]
    reasons = ['bad "exptime" argument', "expecting 3 arguments, but only seen 2", "positive number required",
               "bad argument #1 to 'resume' (coroutine expected)"]
    for line, reason in zip(again[1:3] + again[4:], reasons, strict=True):
        assert re.fullmatch(r"content_by_lua\(nginx\.conf:\d+\):\d+: " + re.escape(reason), line)


def test_exit_in_a_header_filter_returns_and_the_last_one_counts(server):
    refused = server.get("/exits?s=403")
    assert (refused.status, refused.header("a")) == (403, "set after it")
    kept = server.get("/exits?s=0")
    assert (kept.status, kept.header("a"), kept.body) == (200, "set after it", b"ok")


def test_an_answer_is_received_after_sending_has_failed(server):
    backend = Backend([b"no, thanks"])
    assert said(server, f"/answered?port={backend.port}") == ["broken pipe|no,| thanks"]
    backend.close()


def test_what_is_said_of_a_balancer_outside_its_phase(server):
    server.get("/nobody")
    assert server.wait_log("told nilno upstream found, client")
    assert server.wait_log("told nilno upstream found while logging")
    assert server.get("/led").body == b"abc"
    assert server.wait_log(r'told chosen true while connecting to upstream, client: [^"]* request: "[^"]*", host')
    assert server.wait_log("told nilAPI disabled in the current context while logging")


def test_empty_values_are_added_but_do_not_replace(server):
    assert said(server, "/empty", "X-Gone: 1") == ["nil|2||"]


def test_arguments_that_functions_of_modules_refuse(server):
    lines = said(server, "/modules")
    assert lines[0].endswith(":3: invalid header value")
    assert lines[1:3] == ["true|nil", "nil|API disabled in the current context"]
    assert lines[3].endswith("bad argument #1 to 'set_filter_level' (number expected, got string)")
    assert lines[4].startswith("false|") and lines[4].endswith("bad argument #1 to 'tostring' (value expected)")
    assert server.wait_log(r'\[error\] [^[]* lua script: invalid capturing variable name found in "\$"')
    assert server.wait_log(r'\[error\] [^[]* attempt to use named capturing variable "name"')
    assert server.wait_log(r'\[error\] [^[]* the closing bracket in "1" variable is missing')


def test_arguments_that_are_refused_and_an_empty_datagram(server):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as peer:
        peer.bind(("127.0.0.1", 0))
        answers = threading.Thread(target=lambda: peer.sendto(b"answer", peer.recvfrom(10)[1]))
        answers.start()
        response = server.get(f"/refused?port={peer.getsockname()[1]}", method="POST", body=b"abc")
        answers.join()
    assert response.body.decode().splitlines() == [
        "false|bad argument #1 to '?' (Lua function expected)", "false|delay cannot be zero",
        "false|ngx.socket settimeout: expecting at least 2 arguments (including the object) but seen 3", "nil|no body", "0"]


def test_http_0_9_has_no_fields_to_set(server):
    with server.client() as client:
        client.send(b"GET /old\r\n")
        assert client.rest() == b"0.9|nil\n"


def test_the_end_of_a_backends_body_is_a_piece_of_its_own(server):
    assert server.get("/of_backend").body == b"ABC"
    assert [found for found in re.findall(r"told (piece \S+ \w+)", server.error_log)] == ["piece [abc] false", "piece [] true"]


def test_a_block_of_lua_has_braces(tmp_path):
    (tmp_path / "logs").mkdir()
    conf = tmp_path / "nginx.conf"
    conf.write_text('events {}\nhttp { init_by_lua_block "x"; }\n', encoding="utf-8")
    result = run_binary("-t", "-p", str(tmp_path), "-c", str(conf))
    assert result.returncode == 1
    assert f'[emerg] directive "init_by_lua_block" has no opening "{{" in {conf}:2' in result.stderr


def test_wait_passes_over_threads_that_were_waited_for(server):
    """But for the last one of those that it is given."""
    assert said(server, "/waited") == [
        "true|first", "true|second", "nil|already waited or killed", "nil|already waited or killed"]


def test_phases_without_coroutines(server):
    response = server.get("/coroutines")
    assert response.text == "false|API disabled in the context of set_by_lua*|nil\n"
    assert response.header("filter") == "nil|thread"
    assert server.wait_log(r"told falseAPI disabled in the context of log_by_lua\*.*\n"
                           r".*told falseAPI disabled in the context of log_by_lua\*.*\n"
                           r".*told by _yield")


def test_log_lines_name_functions_but_neither_chunks_nor_functions_of_c(server):
    assert said(server, "/names") == ["true"]
    assert server.wait_log(r"\[lua\] chunk:1: told by a chunk")
    assert server.wait_log(r"\[lua\] content_by_lua\(nginx\.conf:\d+\):5: named\(\): told by a function")
    assert server.wait_log(r"\[lua\] \[C\]:-1: told by pcall")


def test_numbers_and_false_where_a_number_may_be_missing(server):
    lines = said(server, "/numbers")
    assert lines[0].startswith("1|true|false|bad argument #1 to 'wait'")
    assert lines[1:] == ["false|positive number required", "true|1|-1", "2", "nil|not found",
                         "nil|no such file or directory", "nil|unsupported option nosuch", "0|0"]
