"""Arguments of cosockets' methods, as the reference takes and refuses them."""

import pytest

from harness import Server
from harness.ports import take

HTTP = """
lua_socket_log_errors off;
server { listen 127.0.0.1:@PORT1@; location / { content_by_lua_block { ngx.req.socket(true):receive("*a") } } }
server { listen 127.0.0.1:@PORT2@; location / { content_by_lua_block { ngx.print(ngx.var.remote_addr, " ", ngx.var.remote_port) } } }
server {
    listen 127.0.0.1:@PORT@;
    location / { content_by_lua_block {
        silent, talking = @PORT1@, @PORT2@
        local ok, why = pcall(loadstring(ngx.unescape_uri(ngx.var.args)))
        if not ok then ngx.say("failed: ", why) end
    } }
}
"""


@pytest.fixture(scope="module")
def server():
    with Server(HTTP) as made:
        yield made


def run(server, script):
    return server.get("/?" + "".join("%%%02x" % ord(letter) for letter in script)).text.splitlines()


def test_the_size_of_a_pool_counts_where_the_pool_begins(server):
    assert run(server, """local list = {}
        for i = 1, 3 do list[i] = ngx.socket.tcp() assert(list[i]:connect("127.0.0.1", silent, {pool = "one"})) end
        ngx.say(pcall(list[1].setkeepalive, list[1], 1000, 0))
        ngx.say(list[2]:setkeepalive(1000, 2))
        ngx.say(pcall(list[1].setkeepalive, list[1], 1000, 0))
        ngx.say(pcall(list[3].setkeepalive, list[3], 1000, "x"))""") == [
            "falsebad argument #3 to '?' (bad \"pool_size\" option value: 0)", "1", "true1", "true1"]


def test_a_wrong_timeout_of_setkeepalive_closes_the_socket(server):
    assert run(server, """local sock = ngx.socket.tcp()
        assert(sock:connect("127.0.0.1", silent, {pool = "two"}))
        ngx.say(pcall(sock.setkeepalive, sock, 1000, "x"))
        ngx.say(pcall(sock.setkeepalive, sock, {}, 3))
        ngx.say(pcall(sock.setkeepalive, sock, 1000, 3))
        ngx.say(pcall(sock.send, sock, "x"))""") == [
            "falsebad argument #3 to '?' (number expected, got string)",
            "falsebad argument #2 to '?' (number expected, got table)", "truenilclosed", "truenilclosed"]


@pytest.mark.parametrize("pattern, reason", [
    ("*x", "bad pattern argument"), ("*", "bad pattern argument: *"), ("*line", "bad pattern argument: *line"), ("x", "bad pattern argument: x"),
    ("", "bad pattern argument: ")])
def test_patterns_of_receive(server, pattern, reason):
    assert run(server, """local sock = ngx.socket.tcp()
        assert(sock:connect("127.0.0.1", silent))
        ngx.say(pcall(sock.receive, sock, "%s"))""" % pattern) == ["falsebad argument #2 to '?' (%s)" % reason]


def test_bind_with_a_port(server):
    port = take()
    try:
        assert run(server, """local sock = ngx.socket.tcp()
            ngx.say(sock:bind("127.0.0.7", %d))
            assert(sock:connect("127.0.0.1", talking))
            sock:send("GET / HTTP/1.0\\r\\n\\r\\n")
            ngx.say(sock:receive("*a"):match("[^\\n]*$"))""" % port.number) == ["true", "127.0.0.7 %d" % port.number]
    finally:
        port.close()


def test_bind_that_is_refused(server):
    assert run(server, """local sock = ngx.socket.tcp()
        for _, address in ipairs {"[::1]", "127.0.0.1:1", "x"} do ngx.say(sock:bind(address)) end
        ngx.say(ngx.socket.udp():bind("[::1]"))
        for _, port in ipairs {-1, 65536} do ngx.say(sock:bind("127.0.0.1", port)) end
        ngx.say(pcall(sock.bind, sock, "127.0.0.1", "x"))
        ngx.say(pcall(sock.bind, sock))
        ngx.say(sock:bind("127.0.0.8", nil))
        assert(sock:connect("127.0.0.1", talking))
        sock:send("GET / HTTP/1.0\\r\\n\\r\\n")
        ngx.say(sock:receive("*a"):match("([0-9.]+) [0-9]+$"))""") == [
            "nilbad address"] * 4 + ["nilbad port number: -1", "nilbad port number: 65536", "falsebad argument #3 to '?' (number expected, got string)",
            "falseexpecting 2 arguments, but got 1", "true", "127.0.0.8"]


def test_which_argument_of_setoption_is_missing(server):
    assert run(server, """local sock = ngx.socket.tcp()
        assert(sock:connect("127.0.0.1", silent))
        ngx.say(sock:setoption())
        ngx.say(sock:setoption("keepalive"))""") == ['nilmissing the "option" argument', 'nilmissing the "value" argument']
