"""Functions of stream that http has too: what lua-nginx-module shows at their edges."""

import socket

import pytest

from harness import Server
from harness.certificates import Authority

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
    server { listen 127.0.0.1:@PORT2@; content_by_lua_block {
        local one, other = ngx.req.socket(), ngx.req.socket()
        local reading = ngx.thread.spawn(function() return one:receive(3) end)
        ngx.say(show(other:receive(1)))
        ngx.say(show(ngx.thread.wait(reading)), " ", other:receive(1))
    } }
    server { listen 127.0.0.1:@PORT3@; return "|done"; preread_by_lua_block {
        local sock = ngx.req.socket()
        local looking = ngx.thread.spawn(function() return sock:peek(3) end)
        ngx.say(show(sock:receive(1)))
        ngx.print(show(ngx.thread.wait(looking)))
    } }
    server { listen 127.0.0.1:@PORT4@; content_by_lua_block {
        local sock = ngx.req.socket(true)
        local saying = ngx.thread.spawn(function() return ngx.print(("x"):rep(30000000)) end)
        ngx.log(ngx.WARN, "sending: ", show(sock:send("late")))
        ngx.log(ngx.WARN, "saying: ", show(ngx.thread.wait(saying)))
    } }
    server { listen 127.0.0.1:@PORT5@; ssl_certificate tls.crt; ssl_certificate_key tls.key;
        preread_by_lua_block {
            local sock = ngx.req.socket(true)
            local other = ngx.thread.spawn(function()
                ngx.sleep(0) -- the handshake has begun
                return show(sock:receive(1)), show(sock:peek(1)), show(sock:send("x")), show(sock:serversslhandshake()),
                    show(ngx.say("x")), show(ngx.flush()), show(ngx.eof())
            end)
            ngx.say("go")
            local _, reason = sock:serversslhandshake()
            ngx.log(ngx.WARN, "handshake: ", reason)
            ngx.log(ngx.WARN, "others: ", show(ngx.thread.wait(other)))
        }
        return never; }
}
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    authority = Authority(str(tmp_path_factory.mktemp("tls")))
    authority.issue("tls", "DNS:a.test")
    with Server(conf=CONF, files={name: authority.read(name) for name in ("tls.crt", "tls.key")}) as made:
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


@pytest.mark.parametrize("port, first, second", [
    ("PORT2", b"nil|socket busy reading\n", b"true|abc d\n"),
    ("PORT3", b"nil|socket busy reading\n", b"true|abc|done"),
])
def test_threads_that_read_at_the_same_time(server, port, first, second):
    """Also by several sockets: the session was broken off, since two fibers waited at one point."""
    with socket.create_connection(("127.0.0.1", server.port_of(port)), timeout=10) as client:
        client.sendall(b"ab")
        assert client.recv(100) == first
        client.sendall(b"cd" if port == "PORT2" else b"c")
        assert client.recv(100) == second


def test_threads_that_send_at_the_same_time(server):
    with socket.create_connection(("127.0.0.1", server.port_of("PORT4")), timeout=10) as client:
        server.wait_log(r"sending: nil\|socket busy writing")
        count = 0
        while data := client.recv(1 << 20):
            count += len(data)
    assert count == 30000000
    assert server.wait_log(r"saying: true\|1")


def test_a_handshake_has_the_connection_for_itself(server):
    with socket.create_connection(("127.0.0.1", server.port_of("PORT5")), timeout=10) as client:
        assert client.recv(100) == b"go\n"
        client.sendall(b"\x16\x03\x01")
        client.shutdown(socket.SHUT_WR)
        assert client.recv(100) == b""
    assert server.wait_log("handshake: handshake failed")
    assert server.wait_log(r"others: true\|" + r"\|".join([r"nil\|socket busy connecting"] * 7))
