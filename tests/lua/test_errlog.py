"""ngx.errlog: lines of the error log that lua_capture_error_log keeps for scripts."""

import pytest

from harness import Server, run_binary

HTTP = """
lua_capture_error_log 4k;
init_by_lua_block { require("ngx.errlog").set_filter_level(ngx.ERR) }
server { listen @PORT@;
    location = /some { content_by_lua_block {
        local errlog = require "ngx.errlog"
        errlog.get_logs()
        ngx.log(ngx.WARN, "not kept")
        for i = 1, 5 do ngx.log(ngx.ERR, "line ", i) end
        local first = errlog.get_logs(2)
        for i = 1, #first, 3 do
            ngx.say(first[i], " ", math.abs(first[i + 1] - ngx.now()) < 1, " ", first[i + 2]:match("line %d, client: .*"))
        end
        local list = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}
        ngx.say(list == errlog.get_logs(1, list), " ", list[3]:match("line %d"), " ", list[4], " ", list[5])
        ngx.say(#errlog.get_logs(0) / 3, " ", #errlog.get_logs()) } }
    location = /many { content_by_lua_block {
        local errlog = require "ngx.errlog"
        errlog.get_logs()
        for i = 100, 199 do ngx.log(ngx.ERR, "line ", i) end
        local list = errlog.get_logs()
        local last = 199
        for i = #list, 1, -3 do
            if list[i]:match("line (%d+)") ~= tostring(last) then ngx.say("lost: ", last) end
            last = last - 1
        end
        ngx.say(#list / 3 < 50, " ", #list / 3 > 15, " ", select(2, errlog.set_filter_level(9))) } }
}
"""


@pytest.fixture(scope="module")
def server():
    with Server(HTTP) as made:
        yield made


def test_lines_come_once_and_in_order(server):
    lines = server.get("/some").text.splitlines()
    assert [line.split(", client")[0] for line in lines[:2]] == ["4 true line 1", "4 true line 2"]
    assert '"GET /some HTTP/1.1"' in lines[0]
    assert lines[2:] == ["true line 3 nil 5", "2 0"]


def test_the_oldest_give_way(server):
    assert server.get("/many").text == "true true bad log level\n"


def test_the_level_of_the_filter_may_be_missing():
    """… and that nothing is captured counts before the level."""
    script = 'local set = require("ngx.errlog").set_filter_level ngx.say(set()) ngx.say(set(9)) ngx.say(set(-1)) ngx.say(set(4))'
    for more, last in (("", ['nildirective "lua_capture_error_log" is not set'] * 3),
                       ("lua_capture_error_log 4k;", ["nilbad log level", "nilbad log level", "true"])):
        with Server("%s server { listen @PORT@; location / { content_by_lua_block { %s } } }" % (more, script)) as made:
            assert made.get("/").text.splitlines() == ['nilmissing "level" argument'] + last


def test_it_may_not_be_there():
    script = 'local e = require "ngx.errlog" ngx.say(e.get_logs()) ngx.say(e.set_filter_level(ngx.ERR))'
    with Server("server { listen @PORT@; location / { content_by_lua_block { %s } } }" % script) as made:
        assert made.get("/").text == 'nildirective "lua_capture_error_log" is not set\n' * 2


def test_a_long_bracket_that_does_not_close(tmp_path):
    """The line is the bracket's; each module has its own text."""
    conf = tmp_path / "nginx.conf"
    script = "{ server { listen 127.0.0.1:1; content_by_lua_block {\n\nngx.say([=[a\n} } }"
    for block, script_in, tail in (
            ("http", script.replace("content", "log"), ", the inlined Lua code may be too long"), ("stream", script, "")):
        conf.write_text("events {}\n%s %s" % (block, script_in), encoding="ascii")
        done = run_binary("-t", "-c", str(conf), "-p", str(tmp_path))
        said = done.stderr if isinstance(done.stderr, str) else done.stderr.decode()
        assert 'missing the closing long bracket "]=]"%s in %s:4' % (tail, conf) in said


def test_a_script_that_computes_too_long_amid_its_logs():
    """The line about it is written by a signal handler, which may come while this very thread takes lines: it waited for itself."""
    with Server("""lua_capture_error_log 4k; lua_time_limit 2ms; server { listen @PORT@; location / { content_by_lua_block {
            local errlog, none = require "ngx.errlog", {}
            local get_logs = errlog.get_logs
            for _ = 1, 5000000 do get_logs(1, none) end
            ngx.print("done") } } }""") as made:
        with made.client() as client:
            assert {client.request("/").text for _ in range(12)} == {"done"}
        made.wait_log("computes for more than 2 ms without a wait, in compiled code")


@pytest.mark.parametrize("block, process", [("http", "on"), ("http", "off"), ("stream", "on"), ("stream", "off")])
def test_what_the_server_says_of_its_start_is_not_kept(block, process):
    script = """local errlog = require "ngx.errlog"
        ngx.log(ngx.WARN, "mine")
        local list = errlog.get_logs()
        for i = 1, #list, 3 do ngx.say(list[i], " ", list[i + 2]:match("init$") or list[i + 2]:match("begins, context: .*") or list[i + 2]:match("mine")) end
        ngx.say(pcall(errlog.get_logs, "x")) ngx.say(pcall(errlog.get_logs, 1, "x"))"""
    conf = """pid nginx.pid; error_log error.log debug; master_process %s; events {}
        %s { lua_capture_error_log 8k; init_by_lua_block { ngx.log(ngx.WARN, "init") } init_worker_by_lua_block { print("begins") }
            server { listen 127.0.0.1:@PORT@; %scontent_by_lua_block { %s } %s } }""" % (
                process, block, "location / { access_log off; " if block == "http" else "", script, "}" if block == "http" else "")
    with Server(conf=conf) as server:
        with server.client() as client:
            text = client.request("/").text if block == "http" else client.rest().decode()
    lines = text.splitlines()
    mine = lines.index("5 mine")
    assert lines[0] == "5 init" and "6 begins, context: init_worker_by_lua*" in lines[:mine]
    assert all(line.endswith(" nil") is False for line in lines[:2])
    assert lines[-2:] == ["falsebad argument #1 to 'get_logs' (number expected, got string)",
                          "falsebad argument #2 to 'get_logs' (table expected, got string)"]
