"""Code that runs without a request has the settings and the log of the outermost block."""

import re
import socket

import pytest

from harness import Server, run_binary
from harness.dns import NameServer

SETTINGS = """
    error_log logs/own.log info;
    resolver 127.0.0.1:%d ipv6=off;
    lua_socket_connect_timeout 150ms;
    lua_socket_read_timeout 150ms;
    lua_socket_log_errors off;
    lua_socket_buffer_size 2k;
    init_worker_by_lua_block {
        ngx.log(ngx.INFO, "worker begins")
        ngx.timer.at(0, function()
            local s = ngx.socket.tcp()
            ngx.log(ngx.INFO, "connected: ", s:connect("named.test", tonumber("%d")))
            local began = ngx.now()
            local line, why = s:receive()
            ngx.update_time()
            ngx.log(ngx.INFO, "received: ", tostring(line), " ", why, " soon: ", ngx.now() - began < 30)
            ngx.timer.at(0, function() ngx.log(ngx.INFO, "of a timer's timer") end)
        end)
    }
    exit_worker_by_lua_block { ngx.log(ngx.INFO, "worker ends") print("ends") }
"""


@pytest.mark.parametrize("block", ["http", "stream"])
def test_settings_of_the_block(block):
    with socket.create_server(("127.0.0.1", 0)) as silent, NameServer({"named.test": ["127.0.0.1"]}) as names:
        text = SETTINGS % (names.port, silent.getsockname()[1])
        serves = {"http": 'return 200 "ok";', "stream": 'return "ok";'}[block]
        conf = "pid nginx.pid; error_log error.log warn; events {}\n%s { %s server { listen 127.0.0.1:@PORT@; %s } }" % (
            block, text, serves)
        with Server(conf=conf) as server:
            server.wait_log("of a timer's timer", "logs/own.log")
            own = server.read("logs/own.log")
            assert "worker begins, context: init_worker_by_lua*" in own
            assert "connected: 1, context: ngx.timer" in own
            assert "received: nil timeout soon: true" in own
            assert "timed out" not in own  # lua_socket_log_errors off
            server.quit()
            server.wait_end()
            own = server.read("logs/own.log")
            assert "1: worker ends" in own and "1: ends" in own
            assert "_worker" not in server.error_log


def test_the_main_log_where_the_block_has_none():
    conf = """pid nginx.pid; error_log error.log info; events {}
        stream { init_worker_by_lua_block { print("begins") } server { listen 127.0.0.1:@PORT@; return a; } }"""
    with Server(conf=conf) as server:
        server.wait_log("begins, context: init_worker_by_lua")


def test_what_init_logs_at_the_first_start_is_not_lost():
    """The log of the command line takes notices at the start, whatever error_log says, and each line comes once."""
    conf = """pid nginx.pid; error_log logs/main.log error; events {}
        http { init_by_lua_block { print("said") ngx.log(ngx.WARN, "warned") ngx.log(ngx.ERR, "wrong") ngx.log(ngx.INFO, "quiet") }
               server { listen 127.0.0.1:@PORT@; } }"""
    with Server(conf=conf) as server:
        first, main = server.error_log, server.read("logs/main.log")
    assert "[notice]" in first and first.count("said") == 1 and first.count("warned") == 1
    assert "wrong" not in first and main.count("wrong") == 1
    assert "quiet" not in first + main and "said" not in main


def test_lines_of_health_checks_go_to_the_block(serve):
    server = serve(conf="""pid nginx.pid; error_log error.log notice; events {}
        http { error_log logs/own.log info;
            upstream u { zone u 64k; server 127.0.0.1:@PORT1@; }
            server { listen 127.0.0.1:@PORT@; error_log logs/server.log info;
                location / { proxy_pass http://u; health_check interval=100ms; } }
        }""")
    server.wait_log("peer is unhealthy|is unhealthy", "logs/server.log")
    assert "unhealthy" not in server.error_log


def test_errors_of_files_that_belong_to_the_process(tmp_path):
    """The line names the directive, the file is what follows; a `$` in its name is a `$`."""
    conf = """pid nginx.pid; error_log error.log info; events {}
        http { init_worker_by_lua_file $prefix/none.lua; exit_worker_by_lua_file bad.lua; server { listen 127.0.0.1:@PORT@; } }"""
    with Server(conf=conf, files={"bad.lua": "\nlocal function f() error('late') end\nf()"}) as server:
        server.wait_log(r"init_worker_by_lua_file error: cannot open \S+/\$prefix/none\.lua: No such file or directory\n")
        server.quit()
        server.wait_end()
        assert re.search(r"exit_worker_by_lua_file error: \S+bad\.lua:2: late\nstack traceback:\n\t\[C\]: in function 'error'\n.*\n.* in main chunk\n",
                         server.error_log)
    conf = conf.replace("init_worker_by_lua_file $prefix/none.lua; exit_worker_by_lua_file bad.lua;", "access_log off; init_by_lua_file bad.lua;").replace(
        "@PORT@", "1")
    (tmp_path / "nginx.conf").write_text(conf)
    (tmp_path / "bad.lua").write_text("x x")
    done = run_binary("-c", str(tmp_path / "nginx.conf"), "-p", str(tmp_path))
    assert done.returncode == 1
    said = done.stderr if isinstance(done.stderr, str) else done.stderr.decode()
    assert re.search(r"\[error\] init_by_lua_file error: \S+bad\.lua:1: '=' expected near 'x'", said)


@pytest.mark.parametrize("phase, texts", [
    ("init", ["no request found", "no request object found", "no request", "no request found"]),
    ("init_worker", ["API disabled in the context of init_worker_by_lua*"] * 2 + ["1", "nil"]),
    ("exit_worker", ["API disabled in the context of exit_worker_by_lua*"] * 3 + ["nil"])])
def test_functions_that_a_process_does_not_have(phase, texts):
    conf = """pid nginx.pid; error_log error.log info; events {}
        http { %s_by_lua_block {
            for i, f in ipairs {function() ngx.sleep(0) end, function() ngx.say(1) end, function() return ngx.timer.at(0, function() end) end,
                                function() return ngx.ctx.none end} do
                ngx.log(ngx.WARN, "said ", i, ": ", tostring(select(2, pcall(f))), "!")
            end } server { listen 127.0.0.1:@PORT@; } }""" % phase
    with Server(conf=conf) as server:
        server.quit()
        server.wait_end()
        for number, text in enumerate(texts, 1):
            assert re.search(r"said %d: (\S+: )?%s!" % (number, re.escape(text)), server.error_log)
