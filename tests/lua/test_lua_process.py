"""ngx.run_worker_thread and ngx.process: what OpenResty's own suites do not look at."""

import os
import tempfile

import pytest

from harness import Server, binaries, proc, until
from harness.workers import wait_workers

HTTP = """
lua_package_path "%s/?.lua;;";
lua_shared_dict counts 100k;
init_by_lua_block { function ngx_sleep() ngx.sleep(60) end }
server { listen @PORT@;
    location = /sum { content_by_lua_block {
        local threads = {}
        for i = 1, 4 do
            threads[i] = ngx.thread.spawn(function ()
                local total = 0
                for n = 1, 25 do
                    local ok, sum, list = ngx.run_worker_thread("pool", "work", "sum", {n, i, {0}}, "x")
                    if not ok then ngx.say(sum) return end
                    total = total + sum + #list
                end
                return total
            end)
        end
        for i = 1, 4 do
            local _, total = ngx.thread.wait(threads[i])
            ngx.say(total)
        end
        ngx.print(ngx.shared.counts:get("calls")) } }
    location = /refused { content_by_lua_block {
        for _, name in ipairs {"fails", "odd", "ssl", "missing"} do
            ngx.say(select(2, ngx.run_worker_thread("pool", "work", name)))
        end } }
    location = /kill { content_by_lua_block {
        local thread = ngx.thread.spawn(function ()
            ngx.run_worker_thread("pool", "work", "sum", {1, 2, {3}}, "x")
        end)
        ngx.thread.kill(thread)
        ngx.print("killed") } }
    location = /many { content_by_lua_block {
        for _ = 1, 30000 do ngx.thread.spawn(ngx_sleep) end
        local programs = {}
        for i = 1, 300 do programs[i] = require("ngx.pipe").spawn({"true"}) end
        for i = 1, 300 do programs[i]:wait() end
        ngx.print(#programs)
        ngx.exit(200) } }
    location = /pids { content_by_lua_block {
        local pids = ngx.worker.pids()
        table.sort(pids)
        ngx.print(table.concat(pids, " ")) } }
}
"""

WORK = """
local work = {}
function work.sum(list, text)
    ngx.shared.counts:incr("calls", 1, 0)
    local sum = 0
    for _ = 1, 1000 do sum = list[1] + #ngx.md5(text .. sum) end
    return sum, {list[3][1], text, 3}
end
function work.fails() error("no way", 0) end
function work.odd() return work.sum end
function work.ssl() require "ngx.ssl" end
return work
"""


@pytest.fixture(scope="module")
def server():
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        with open(os.path.join(folder, "work.lua"), "w", encoding="ascii") as file:
            file.write(WORK)
        with Server(HTTP % folder, main="worker_processes 2; thread_pool pool threads=3;") as made:
            yield made


def test_threads_work_side_by_side(server):
    wait_workers(server, 2)
    assert server.get("/sum").text == "1200\n" * 4 + "100"


def test_what_fails_on_a_thread_is_told(server):
    lines = server.get("/refused").text.splitlines()
    assert lines == [
        "no way",
        "unsupported Lua type: LUA_TFUNCTION in the return value",
        "module 'ngx.ssl' is not available in a worker thread",
        "invalid function",
    ]


def test_a_killed_thread_leaves_its_vm_for_others(server):
    for _ in range(12):
        assert server.get("/kill").text == "killed"


@pytest.mark.skipif("--with-sanitizer" in binaries.version_text(binaries.under_test()), reason="so many stacks take it long to forget")
def test_programs_start_soon_whatever_the_worker_holds(server):
    """fork() copied tables for the stacks of 30,000 fibers, and all others waited: 50 ms a program."""
    assert server.get("/many").text == "300"


def test_ids_of_workers_follow_a_reload(server):
    def ids():
        return [int(word) for word in server.get("/pids").text.split()]

    workers = wait_workers(server, 2)
    assert ids() == sorted(workers)
    server.reload()
    workers = wait_workers(server, 2, without=workers)
    assert ids() == sorted(workers)


def test_a_worker_ends_well_while_a_script_has_a_program():
    """The program is let go when the VM ends, and there is no loop any more that could watch it."""
    with Server("""server { listen 127.0.0.1:@PORT@; location / { content_by_lua_block {
            PROGRAM = require("ngx.pipe").spawn({"cat"})
            PROGRAM:set_timeouts(1, 1, 1, 1)
            PROGRAM:wait()
            ngx.print(PROGRAM:pid()) } } }""", main="worker_processes 1;\n") as made:
        pid = int(made.get("/").text)
        made.quit()
        made.wait_end()
        until(lambda: not proc.is_alive(pid), "the end of the program")


AGENT = """
lua_shared_dict notes 100k;
init_by_lua_block {
    ok, reason = require("ngx.process").enable_privileged_agent(%s)
}
init_worker_by_lua_block {
    local process = require "ngx.process"
    if process.type() == "privileged agent" then
        ngx.shared.notes:set("agent", ngx.worker.pid())
        ngx.timer.at(0, function ()
            local sock = ngx.socket.tcp()
            ngx.shared.notes:set("connects", tostring(sock:connect("127.0.0.1", @PORT@)))
            ngx.shared.notes:set("id", tostring(ngx.worker.id()))
        end)
    end
}
exit_worker_by_lua_block {
    if require("ngx.process").type() == "privileged agent" then ngx.log(ngx.WARN, "the agent goes") end
}
server { listen @PORT@;
    location / { content_by_lua_block {
        local notes = ngx.shared.notes
        while not notes:get("id") do ngx.sleep(0.005) end
        ngx.say(notes:get("agent"), " ", notes:get("connects"), " ", notes:get("id"))
        ngx.say(require("ngx.process").type(), " ", #ngx.worker.pids(), " ", ngx.worker.count())
        ngx.say(require("ngx.process").enable_privileged_agent())
        notes:delete("id")
    } }
    location /reason { content_by_lua_block { ngx.say(ok, " ", reason) } }
}
"""


def agent_of(server):
    lines = server.get("/").text.splitlines()
    assert lines[1:] == ["worker 1 1", "nilAPI disabled in the current context"]
    pid, connects, number = lines[0].split()
    assert (connects, number) == ("1", "nil")
    return int(pid)


def title_of(pid):
    with open("/proc/%d/cmdline" % pid, encoding="ascii") as file:
        return file.read().split("\0")[0]


def test_a_privileged_agent_lives_beside_the_workers():
    with Server(AGENT % "10", allow=["exited on signal 9"]) as server:
        first = agent_of(server)
        assert title_of(first) == "nginx: privileged agent process"
        os.kill(first, 9)
        second = agent_of(server)
        assert second != first
        server.reload()
        third = agent_of(server)
        assert third not in (first, second)
        server.wait_log("the agent goes")
        server.wait_log(r"privileged agent process %d exited with code 0" % second)
        assert "privileged agent process %d exited on signal 9" % first in server.error_log


@pytest.mark.parametrize("connections, said, line", [
    ("-1", "nil bad 'connections' argument: number expected and greater than 0\n", None),
    ('"10"', "nil bad 'connections' argument: number expected and greater than 0\n", None),
    ("0", "true nil\n", "0 worker_connection is not enough, privileged agent process cannot be spawned"),
])
def test_an_agent_that_is_not_started(connections, said, line):
    with Server(AGENT % connections, allow=["cannot be spawned"]) as server:
        assert server.get("/reason").text == said
        assert "start privileged agent process" not in server.error_log
        if line:
            server.wait_log(line)


LATE = """
init_worker_by_lua_block {
    ngx.timer.at(3600, function (early)
        ngx.timer.at(0, function (late) ngx.log(ngx.WARN, "early: ", early, ", late: ", late) end)
    end)
}
server { listen @PORT@; }
"""


def test_a_timer_that_is_made_at_the_end_is_not_premature():
    """Stream asks for the end of timers after http has."""
    with Server(LATE, main="stream { init_worker_by_lua_block { local x = 1 } }") as server:
        server.quit()
        assert "early: true, late: false" in server.error_log


@pytest.mark.parametrize("how", ["on", "off"])
def test_the_status_of_a_program_that_ended_before_it_was_asked_for(how):
    """A single process takes the status of every child that ends."""
    conf = """pid nginx.pid; error_log error.log info; master_process %s; events {}
        http { access_log off; server { listen 127.0.0.1:@PORT@;
            location / { content_by_lua_block {
                local pipe = require "ngx.pipe"
                local function ended(proc) proc:stdout_read_all() ngx.sleep(0.05) return proc end
                ngx.say(ended(pipe.spawn({"sh", "-c", "exit 3"})):wait())
                local slow = pipe.spawn({"sleep", "60"})
                ngx.say(slow:kill(9))
                ngx.say(ended(slow):wait())
                ngx.say(slow:wait())
                ngx.say(ended(pipe.spawn({"true"})):kill(15))
                local waiting = pipe.spawn({"sleep", "60"})
                local thread = ngx.thread.spawn(function() return waiting:wait() end)
                waiting:kill(15)
                ngx.say(ngx.thread.wait(thread))
                pipe.spawn({"sh", "-c", "sleep 60"}) collectgarbage() collectgarbage()
            } } } }""" % how
    with Server(conf=conf) as server:
        assert server.get("/").text == "falseexit3\ntrue\nfalsesignal9\nnilexited\nnilexited\ntruefalsesignal15\n"
