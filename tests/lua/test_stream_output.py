"""Lua in stream: its phases, what it says to clients, how sessions end."""

import socket

import pytest

from harness import Server

CONF = """
pid nginx.pid; error_log error.log info; worker_processes 1; daemon off; events { }
stream {
    log_format line '$status $bytes_sent';
    access_log off;
    server { listen 127.0.0.1:@PORT@; access_log said.log line;
        content_by_lua_block {
            ngx.say("a", nil, true, {1.5, {"b"}, false})
            local ok, why = pcall(ngx.say, {key = 1})
            ngx.print(why)
        } }
    server { listen 127.0.0.1:@PORT1@; return "returned";
        preread_by_lua_block { ngx.print("preread ") ngx.sleep(0.001) ngx.exit(ngx.OK or 0) } }
    server { listen 127.0.0.1:@PORT2@; return "never"; access_log refused.log line;
        preread_by_lua_block { ngx.print("refused") ngx.exit(403) } }
    server { listen 127.0.0.1:@PORT3@; access_log failed.log line;
        content_by_lua_block { ngx.say("before") error("on purpose") } }
    server { listen 127.0.0.1:@PORT4@; access_log long.log line;
        content_by_lua_block {
            local piece = string.rep("x", 65536)
            for i = 1, 200 do
                local ok, why = ngx.print(piece)
                if not ok then ngx.log(6, "could not say more: ", why) return end
            end
        } }
    server { listen 127.0.0.1:@PORT5@;
        content_by_lua_block {
            ngx.say("last") ngx.eof()
            ngx.log(6, "after eof: ", select(2, ngx.say("more")))
        }
        log_by_lua_block { ngx.log(6, "log phase") ngx.say("no") } }
    server { listen 127.0.0.1:@PORT11@; lua_check_client_abort on;
        content_by_lua_block {
            ngx.thread.spawn(function() error("of a thread") end)
            ngx.say(ngx.req.socket(true) ~= nil, " ", select(2, ngx.req.socket(true)), " ", ngx.req.socket() ~= nil)
            ngx.sleep(60)
        } }
    server { listen 127.0.0.1:@PORT6@ udp; content_by_lua_block { ngx.print("datagram") } }
    server { listen 127.0.0.1:@PORT7@; ssl_preread on; preread_timeout 300ms; return "never";
        preread_by_lua_block { ngx.print("never") } }
    server { listen 127.0.0.1:@PORT8@; preread_buffer_size 64; access_log peeked.log line;
        preread_by_lua_block {
            local sock = ngx.req.socket()
            ngx.print(sock:peek(3), " ", sock:receive(1), sock:peek(2), " ")
            ngx.log(6, "phase: ", ngx.get_phase(), " ", tostring(ngx.var.protocol))
        }
        content_by_lua_block {
            local sock = ngx.req.socket()
            local ok, why = pcall(sock.peek, sock, 1)
            ngx.print(sock:receive("*l"), " ", why)
        } }
    server { listen 127.0.0.1:@PORT9@; preread_buffer_size 64; return "never"; access_log full.log line;
        preread_by_lua_block { ngx.req.socket():peek(65) } }
    server { listen 127.0.0.1:@PORT10@ udp; access_log datagrams.log line; lua_socket_read_timeout 10s;
        content_by_lua_block {
            local sock = ngx.req.socket()
            for i = 1, 3 do
                local data = sock:receive(i == 3 and 2 or nil)
                sock:send("[" .. data .. "]")
            end
            sock:settimeout(1)
            ngx.print(select(2, sock:receive()))
        } }
    preread_by_lua_no_postpone on;
}
"""


def talk(port, data=b""):
    with socket.create_connection(("127.0.0.1", port), timeout=10) as client:
        client.sendall(data)
        got = b""
        try:
            while more := client.recv(65536):
                got += more
        except ConnectionResetError:
            pass  # something that it said was not taken
        return got


@pytest.fixture(scope="module")
def server():
    with Server(conf=CONF) as made:
        yield made


def test_what_is_said(server):
    assert talk(server.port) == b"aniltrue1.5bfalse\nbad argument #1 to '?' (non-array table found)"
    assert server.wait_lines("said.log") == ["200 64"]


def test_preread_waits_and_goes_on(server):
    assert talk(server.port_of("PORT1")) == b"preread returned"


def test_preread_ends_a_session(server):
    assert talk(server.port_of("PORT2")) == b"refused"
    assert server.wait_lines("refused.log") == ["403 7"]


def test_preread_that_is_not_postponed(server):
    """It comes before modules that wait for the client's first words."""
    assert talk(server.port_of("PORT7")) == b"never"


def test_an_error_ends_a_session(server):
    assert talk(server.port_of("PORT3")) == b"before\n"
    assert server.wait_lines("failed.log") == ["500 7"]
    server.wait_log(r"lua entry thread aborted: runtime error: content_by_lua\(nginx.conf:\d+\):1: on purpose")


def test_a_slow_client_is_waited_for(server):
    """What Lua says is not gathered without bound: it waits, and the session ends when all was taken."""
    assert talk(server.port_of("PORT4")) == b"x" * 65536 * 200


def test_a_client_that_leaves(server):
    with socket.create_connection(("127.0.0.1", server.port_of("PORT4"))) as client:
        client.recv(1000)
    server.wait_log("could not say more: nginx output filter error")


def test_eof_and_log(server):
    assert talk(server.port_of("PORT5")) == b"last\n"
    server.wait_log("after eof: seen eof")
    server.wait_log(r"log phase, client: 127.0.0.1, server: 127.0.0.1:%d" % server.port_of("PORT5"))
    server.wait_log(r"failed to run log_by_lua\*: .*API disabled in the context of log_by_lua\*")


def test_lines_say_that_they_are_of_stream(server):
    """… and a raw socket is given once."""
    with socket.create_connection(("127.0.0.1", server.port_of("PORT11"))) as client:
        assert client.recv(100) == b"true duplicate call true\n"
    server.wait_log(r"\[error\] \S+ \*\d+ stream lua user thread aborted: runtime error: .*of a thread")
    server.wait_log(r"\[info\] \S+ \*\d+ stream client prematurely closed connection")
    assert talk(server.port_of("PORT3")) == b"before\n"
    server.wait_log("stream lua entry thread aborted: runtime error: .*on purpose")
    assert talk(server.port_of("PORT5")) == b"last\n"
    server.wait_log(r"\[notice\] \S+ \*\d+ stream \[lua\] content_by_lua\(nginx.conf:\d+\):3: after eof")


def test_peek(server):
    """What is peeked at is there for who reads after, also in another phase."""
    assert talk(server.port_of("PORT8"), b"abcdef\n") == b"abc abc bcdef API disabled in the context of content_by_lua*"
    assert talk(server.port_of("PORT9"), b"x") == b""
    server.wait_log("preread buffer full while prereading client data")
    assert server.wait_lines("full.log") == ["400 0"]


def test_a_datagram(server):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.settimeout(10)
        client.sendto(b"?", ("127.0.0.1", server.port_of("PORT6")))
        assert client.recv(100) == b"datagram"


def test_datagrams_of_a_session(server):
    """The first one is there when the script begins, others come while it waits."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.settimeout(10)
        client.connect(("127.0.0.1", server.port_of("PORT10")))
        for data, answer in ((b"one", b"[one]"), (b"two", b"[two]"), (b"three", b"[th]")):
            client.send(data)
            assert client.recv(100) == answer
        assert client.recv(100) == b"timeout"
    assert server.wait_lines("datagrams.log") == ["200 21"]
    server.wait_log("stream lua udp socket read timed out")


def test_what_is_under_ngx_in_http_alone():
    script = """for _, name in ipairs {"http_time", "cookie_time", "parse_http_time", "decode_base64mime", "location", "header", "utctime", "encode_base64"} do
        ngx.print(type(ngx[name]), " ") end
        for _, name in ipairs {"socket", "start_time", "get_headers"} do ngx.print(type(ngx.req[name]), " ") end"""
    conf = """pid nginx.pid; error_log error.log info; events {} stream { server { listen 127.0.0.1:@PORT@; content_by_lua_block { %s } } }""" % script
    with Server(conf=conf) as server, server.client() as client:
        assert client.rest().decode().split() == ["nil"] * 6 + ["function"] * 4 + ["nil"]
