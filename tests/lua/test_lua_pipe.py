"""ngx.pipe: what its manual promises of timeouts, of directions that are shut down, and of programs that have ended."""

import pytest

from harness import Server

HTTP = """
init_worker_by_lua_block {
    local pipe = require "ngx.pipe"
    local proc = pipe.spawn({"cat"})
    REPORT = select(2, pcall(proc.wait, proc)) .. ", " .. tostring(proc:shutdown("stdin"))
}
server { listen 127.0.0.1:@PORT@;
    location / { content_by_lua_block {
        pipe = require "ngx.pipe"
        function state(pid)
            local file = io.open("/proc/" .. pid .. "/stat")
            return file and file:read("*l"):match("%) (%a)")
        end
        local ok, why = pcall(loadstring(ngx.unescape_uri(ngx.var.args)))
        if not ok then ngx.say("failed: ", why) end
    } }
}
"""


@pytest.fixture(scope="module")
def run():
    with Server(HTTP, main="env PATH;\n") as made:
        def answer(script):
            quoted = "".join("%%%02x" % ord(letter) for letter in script)
            return made.get("/?" + quoted).text.splitlines()
        yield answer


def test_a_timeout_of_zero_is_none(run):
    assert run("""for _, way in ipairs {"options", "call"} do
            local none = {stdout_read_timeout = 0, wait_timeout = 0}
            local proc = pipe.spawn({"sh", "-c", "read x; echo $x; read x"}, way == "options" and none or nil)
            if way == "call" then proc:set_timeouts(0, 0, 0, 0) end
            local line = ngx.thread.spawn(function() return proc:stdout_read_line() end)
            local status = ngx.thread.spawn(function() return proc:wait() end)
            proc:write("word\\n")
            ngx.say(ngx.thread.wait(line))
            proc:shutdown("stdin")
            ngx.say(ngx.thread.wait(status))
        end""") == ["trueword", "truefalseexit1"] * 2


@pytest.mark.parametrize("value", ["-1", "-0.5", "4294967296", "1e300", "0/0", '"5"', "true", "{}"])
def test_timeouts_that_are_none(run, value):
    assert run("""local proc = pipe.spawn({"true"})
        for i, name in ipairs {"write", "stdout_read", "stderr_read", "wait"} do
            local list = {}
            list[i] = %s
            local _, first = pcall(proc.set_timeouts, proc, list[1], list[2], list[3], list[4])
            local _, second = pcall(pipe.spawn, {"true"}, {[name .. "_timeout"] = list[i]})
            local text = "bad " .. name .. "_timeout option"
            ngx.say(first == text and second == text)
        end""" % value) == ["true"] * 4


def test_a_direction_is_shut_down_twice(run):
    assert run("""local proc = pipe.spawn({"cat"})
        for _, name in ipairs {"stdin", "stdin", "stdout", "stdout", "stderr", "stderr"} do ngx.say(proc:shutdown(name)) end
        ngx.say(proc:write("x"))
        ngx.say(proc:stdout_read_any(1))
        ngx.say(proc:stderr_read_line())""") == ["true"] * 6 + ["nilclosed"] * 3


@pytest.mark.parametrize("end", ["stdout", "stderr"])
@pytest.mark.parametrize("method, partial", [("read_all", "ab"), ("read_line", "ab"), ("read_bytes", "ab"), ("read_any", "")])
def test_a_read_whose_direction_is_shut_down_is_aborted(run, end, method, partial):
    assert run("""local proc = pipe.spawn({"sh", "-c", "echo out; echo err >&2; printf ab; printf ab >&2; exec cat"})
        local name, method = "%s", "%s_%s"
        proc[name .. "_read_line"](proc)
        if %s then proc[name .. "_read_bytes"](proc, 2) end
        local thread = ngx.thread.spawn(function() return proc[method](proc, 10) end)
        ngx.say(proc[method](proc, 10))
        ngx.say(proc:shutdown(name))
        ngx.say(ngx.thread.wait(thread))
        ngx.say(proc[method](proc, 10))
        ngx.say(proc:shutdown(name))
        proc:kill(9)""" % (end, end, method, "true" if partial == "" else "false")) in (
            ["nilpipe busy reading", "true", "truenilaborted" + partial, "nilclosed", "true"],
            # … where the two letters had not come yet
            ["nilpipe busy reading", "true", "truenilaborted", "nilclosed", "true"])


def test_a_write_whose_direction_is_shut_down_is_aborted(run):
    assert run("""local proc = pipe.spawn({"sleep", "60"})
        local thread = ngx.thread.spawn(function() return proc:write(("x"):rep(300000)) end)
        ngx.say(proc:write("x"))
        ngx.say(proc:shutdown("stdin"))
        ngx.say(ngx.thread.wait(thread))
        ngx.say(proc:write("x"))
        proc:kill(9)""") == ["nilpipe busy writing", "true", "truenilaborted", "nilclosed"]


def test_a_program_whose_end_was_reported_is_closed(run):
    assert run("""local proc = pipe.spawn({"sh", "-c", "echo out; echo err >&2"})
        ngx.say(proc:wait())
        ngx.say(proc:stdout_read_line())
        ngx.say(proc:stderr_read_all())
        ngx.say(proc:write("x"))
        for _, name in ipairs {"stdin", "stdout", "stderr"} do ngx.say(proc:shutdown(name)) end
        ngx.say(proc:kill(0))
        ngx.say(proc:wait())""") == ["trueexit0"] + ["nilclosed"] * 6 + ["nilexited"] * 2


def test_what_a_program_wrote_before_its_end_is_read(run):
    assert run("""local proc = pipe.spawn({"sh", "-c", "echo out; echo err >&2"})
        while state(proc:pid()) do ngx.sleep(0.005) end
        ngx.say(proc:stdout_read_line(), " ", proc:stderr_read_line())
        ngx.say(proc:wait())""") == ["out err", "trueexit0"]


def test_a_program_that_nobody_waits_for_is_no_zombie(run):
    assert run("""local proc = pipe.spawn({"true"})
        while state(proc:pid()) do ngx.sleep(0.005) end
        ngx.say(proc:kill(9))
        ngx.say(proc:wait())""") == ["nilexited", "trueexit0"]


def test_a_program_that_nobody_has_is_killed(run):
    """It was asked to end by a signal that it may ignore."""
    assert run("""local proc = pipe.spawn({"sh", "-c", "trap '' TERM; echo up; while :; do sleep 0.02; done"})
        ngx.say(proc:stdout_read_line())
        local pid = proc:pid()
        proc = nil
        collectgarbage() collectgarbage()
        while state(pid) do ngx.sleep(0.005) end
        ngx.say("gone")""") == ["up", "gone"]


def test_a_phase_that_may_not_wait(run):
    assert run('ngx.say(REPORT)') == ["API disabled in the context of init_worker_by_lua*, true"]


@pytest.mark.parametrize("how", ["on", "off"])
def test_a_log_that_is_standard_error_is_the_programs(how):
    """A program that is not found says so in the log, which is the pipe by then."""
    conf = """pid nginx.pid; error_log stderr info; master_process %s; events {}
        http { access_log off; server { listen 127.0.0.1:@PORT@;
            location / { content_by_lua_block {
                local proc = require("ngx.pipe").spawn({"/nonexistent"})
                ngx.print(proc:stderr_read_all())
                ngx.say(proc:wait())
            } } } }""" % how
    with Server(conf=conf) as server:
        line, status = server.get("/").text.splitlines()
    assert line.endswith("lua pipe child execvp() failed while executing /nonexistent (2: No such file or directory)")
    assert status == "falseexit127"
