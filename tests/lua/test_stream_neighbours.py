"""Functions of stream that http has too: what lua-nginx-module shows at their edges."""

import socket

import pytest

from harness import Server

CONF = """
pid nginx.pid; error_log error.log info; worker_processes 1; daemon off; events { }
stream {
    access_log off;
    init_by_lua_block {
        function show(...)
            local words = {}
            for i = 1, select("#", ...) do words[i] = tostring((select(i, ...))) end
            return table.concat(words, "|")
        end
        function why(...) return (select(2, pcall(...))) end
    }
    server { listen 127.0.0.1:@PORT@ udp; content_by_lua_block {
        local sock = ngx.req.socket()
        local calls = {
            receive_0 = function() return sock:receive(0) end,
            receive_2 = function() return sock:receive("2") end,
            receive_nil = function() return sock:receive(nil) end,
            receive_word = function() return sock:receive("x") end,
            receive_many = function() return sock:receive(1, 2) end,
            send_pieces = function() return sock:send({"a", {1}, "b"}) end,
            send_nil = function() return sock:send(nil) end,
            send_function = function() return sock:send(print) end,
            send_many = function() return sock:send("a", "b") end,
            timeout_negative = function() sock:settimeout(-1) return sock:receive() end,
            timeout_none = function() return sock:settimeout() end,
            busy = function()
                local reading = ngx.thread.spawn(function() return sock:receive() end)
                local _, reason = sock:receive()
                ngx.thread.kill(reading)
                return reason
            end,
        }
        ngx.print(show(pcall(calls[sock:receive()])))
    } }
    server { listen 127.0.0.1:@PORT1@;
        content_by_lua_block {
            ngx.timer.at(-2, function(premature) ngx.log(ngx.WARN, "timer: ", show(premature, ngx.req.start_time())) end)
        }
        log_by_lua_block {
            ngx.log(ngx.WARN, "output: ", show(why(ngx.flush, 1), why(ngx.flush, true, 1), why(ngx.eof, 1)))
            ngx.log(ngx.WARN, "sockets: ", show(why(ngx.req.socket, 1, 2), why(ngx.socket.tcp, 1), why(ngx.socket.udp, 1)))
            ngx.log(ngx.WARN, "phase: ", show(why(ngx.flush), why(ngx.eof), why(ngx.req.socket), why(ngx.socket.udp)))
        } }
}
"""


@pytest.fixture(scope="module")
def server():
    with Server(conf=CONF) as made:
        yield made


def talk(port):
    with socket.create_connection(("127.0.0.1", port), timeout=10) as client:
        return client.recv(1000)


PIECES = "string, number, boolean, nil, or array table expected, got function"


@pytest.mark.parametrize("call, more, answers", [
    ("receive_0", b"abc", [b"true|"]),
    ("receive_2", b"abc", [b"true|ab"]),
    ("receive_nil", b"abc", [b"true|abc"]),
    ("receive_word", None, [b"false|bad argument #2 to '?' (number expected, got string)"]),
    ("receive_many", None, [b"false|expecting 1 or 2 arguments (including the object), but got 3"]),
    ("send_pieces", None, [b"a1b", b"true|1"]),
    ("send_nil", None, [b"nil", b"true|1"]),
    ("send_function", None, [b"false|bad argument #2 to '?' (%s)" % PIECES.encode()]),
    ("send_many", None, [b"false|expecting 2 arguments (including the object), but got 3"]),
    ("timeout_negative", b"abc", [b"true|abc"]),
    ("timeout_none", None,
     [b"false|ngx.socket settimeout: expecting at least 2 arguments (including the object) but seen 1"]),
    ("busy", None, [b"true|socket busy"]),
])
def test_the_socket_of_datagrams_takes_what_ngx_socket_udp_takes(server, call, more, answers):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.connect(("127.0.0.1", server.port))
        client.settimeout(10)
        client.send(call.encode())
        if more is not None:
            client.send(more)
        assert [client.recv(1000) for _ in answers] == answers


def test_arguments_come_before_phases(server):
    talk(server.port_of("PORT1"))
    assert server.wait_log(r"output: bad argument #1 to '\?' \(boolean expected, got number\)"
                           r"\|attempt to pass 2 arguments, but accepted 0 or 1\|no argument is expected")
    zero = r"expecting zero arguments, but got %d"
    assert server.wait_log(r"sockets: " + r"\|".join(zero % count for count in (2, 1, 1)))
    assert server.wait_log(r"phase: " + r"\|".join([r"API disabled in the context of log_by_lua\*"] * 4))


def test_a_timer_whose_time_has_passed_runs_at_once(server):
    """… and what it works for did not begin: 0, as in http."""
    talk(server.port_of("PORT1"))
    assert server.wait_log(r"timer: false\|0,")
