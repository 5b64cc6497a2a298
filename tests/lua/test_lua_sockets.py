"""ngx.socket and ngx.req.socket: what is received, pools, TLS, the sockets of requests, and who may not use whose."""

import os
import socket
import threading

import pytest

from harness import Server
from harness.backend import Backend
from harness.certificates import Authority, SecureBackend
from harness.h2 import H2

HTTP = """
lua_socket_log_errors off;
lua_package_path '@DIR@/?.lua;;';
init_by_lua_block {
    function open(port, ...) -- a connection on which the peer was told to begin
        local sock = ngx.socket.tcp()
        sock:settimeout(10000)
        assert(sock:connect("127.0.0.1", port, ...))
        return sock
    end
    function ask(port, what)
        local sock = open(port)
        assert(sock:send((what or "go") .. "\\r\\n\\r\\n"))
        return sock
    end
    function show(...)
        local words = {}
        for i = 1, select("#", ...) do words[i] = tostring((select(i, ...))) end
        ngx.say(table.concat(words, "|"))
    end
}
server {
    listen 127.0.0.1:@PORT@;
    listen 127.0.0.1:@PORT1@ http2;
    default_type text/plain;

    location /forms { content_by_lua_block {
        local sock = ask(ngx.var.arg_port)
        show(sock:receive())
        show(sock:receive(3))
        local next = sock:receiveuntil("--")
        show(next(4)) show(next(4)) show(next(4)) show(next(4))
        local with = sock:receiveuntil("!", {inclusive = true})
        show(with())
        show(sock:receiveany(2))
        show(sock:receive("*a"))
        show(sock:receive())
        show(sock:receive())
        show(sock:send("x"))
        show(sock:close())
        show(sock:receive())
    } }
    location /late { content_by_lua_block {
        local sock = ask(ngx.var.arg_port)
        local first = sock:receive(1) -- now all of it has come
        sock:settimeout(20)
        show(first, sock:receive(10))
        sock:settimeout(10000)
        sock:send({"next", {"\\r\\n", "\\r\\n"}})
        show(sock:receive("*l"))
    } }
    location /keep { content_by_lua_block {
        for i = 1, 2 do
            local sock = ask(ngx.var.arg_port)
            show(sock:getreusedtimes(), sock:receive(), sock:setkeepalive())
        end
        local sock = ask(ngx.var.arg_port)
        show(sock:receive(1), sock:setkeepalive())
        sock:close()
    } }
    location /rest { content_by_lua_block {
        local sock = ask(ngx.var.arg_port)
        show(sock:getreusedtimes(), sock:receive(), sock:setkeepalive())
    } }
    location /queue { content_by_lua_block {
        local options = {pool = "queue", pool_size = 1, backlog = 1}
        local first = open(ngx.var.arg_port, options)
        local second = ngx.thread.spawn(function()
            local sock = ngx.socket.tcp()
            sock:settimeout(10000)
            local ok, why = sock:connect("127.0.0.1", ngx.var.arg_port, options)
            return ok, why, sock:getreusedtimes(), sock:close()
        end)
        local third = ngx.socket.tcp()
        show(third:connect("127.0.0.1", ngx.var.arg_port, options))
        show(first:setkeepalive())
        show(ngx.thread.wait(second))
        local fourth = open(ngx.var.arg_port, options)
        local fifth = ngx.socket.tcp()
        fifth:settimeout(10)
        show(fifth:connect("127.0.0.1", ngx.var.arg_port, options))
    } }
    location /kill { content_by_lua_block {
        local sock = ask(ngx.var.arg_port)
        local thread = ngx.thread.spawn(function() sock:receive(10) ngx.say("never") end)
        show(sock:receive(1))
        show(sock:close())
        show(sock:send("a"))
        ngx.thread.kill(thread)
        ngx.sleep(0)
        show(sock:send("a"))
        show(sock:receive())
        show(sock:connect("127.0.0.1", ngx.var.arg_port))
    } }
    location /other { content_by_lua_block {
        local kept = require "kept"
        if kept.sock == nil then
            kept.sock = open(ngx.var.arg_port)
            ngx.say("kept")
            ngx.flush()
            ngx.sleep(ngx.var.arg_stay and 60 or 0)
            return
        end
        show(kept.sock:receive())
        show(pcall(kept.sock.connect, kept.sock, "127.0.0.1", ngx.var.arg_port))
    } }
    location /busy { content_by_lua_block {
        local kept = require "kept"
        show(pcall(kept.sock.receive, kept.sock))
        show(pcall(kept.sock.send, kept.sock, "x"))
        show(pcall(kept.sock.close, kept.sock))
        show(pcall(kept.sock.setkeepalive, kept.sock))
    } }
    location /big { content_by_lua_block {
        local sock = ask(ngx.var.arg_port)
        local text = sock:receive(5000000)
        show(#text, ngx.md5(text))
        show(sock:send(text))
        show(sock:receive())
    } }
    location /names { content_by_lua_block {
        local sock = ngx.socket.tcp()
        show(sock:connect("a.example", 80))
        show(sock:connect("127.0.0.1", 65536))
        show(sock:connect("127.0.0.1"))
        show(sock:connect("unix:@DIR@/nobody"))
        show(sock:connect("a/b", 1))
    } }
    location /udp { content_by_lua_block {
        local sock = ngx.socket.udp()
        sock:settimeout(10000)
        show(sock:setpeername("127.0.0.1", ngx.var.arg_port))
        show(sock:send({"a", 1, {"b"}}))
        show(sock:receive())
        show(sock:send("longer"))
        show(sock:receive(3))
        show(sock:send(string.rep("long", 5000)))
        show(#sock:receive())
        sock:settimeout(10)
        show(sock:receive())
        show(sock:close())
        show(sock:receive())
    } }
    location /sized { content_by_lua_block {
        local socks = {}
        for round = 1, 2 do
            for i = 1, 2 do socks[i] = open(ngx.var.arg_port, {pool = "sized", pool_size = round == 1 and 1 or nil}) end
            for i = 1, 2 do show(socks[i]:getreusedtimes(), socks[i]:setkeepalive(10000, 5)) end
        end
    } }
    location /closed {
        lua_socket_log_errors on;
        content_by_lua_block {
            local sock = ngx.socket.tcp()
            show(sock:receive("*nonsense"))
            show(sock:receiveany(-1))
        }
    }

    location /secure {
        lua_ssl_trusted_certificate @DIR@/root.crt;
        content_by_lua_block {
            local sock = open(ngx.var.arg_port)
            local reused = sock:getreusedtimes()
            local session, why = sock:sslhandshake(nil, ngx.var.arg_name, ngx.var.arg_verify == "1")
            show(reused, type(session), why)
            if session then
                sock:send("go\\r\\n\\r\\n")
                show(sock:receive(), sock:setkeepalive())
            end
        }
    }

    location /body { content_by_lua_block {
        local sock, why = ngx.req.socket()
        show(type(sock), why)
        if not sock then return end
        sock:settimeout(ngx.var.arg_ms or 10000)
        show(sock:receive(5))
        show(sock:receiveuntil("-")())
        show(sock:receive("*a"))
        show(select(2, ngx.req.socket(true)))
    } }
    location /raw { content_by_lua_block {
        local sock = assert(ngx.req.socket(true))
        sock:settimeout(10000)
        local line = sock:receive()
        sock:send("HTTP/1.1 200 OK\\r\\nContent-Length: 6\\r\\n\\r\\n" .. line .. "\\n")
        ngx.log(ngx.WARN, "raw: ", select(2, ngx.say("x")), ", ", select(2, ngx.req.socket(true)))
        ngx.log(ngx.WARN, "raw end: ", select(2, sock:receive()))
    } }
}
"""


class Udp:
    """Sends back what comes, and nothing after the second."""

    def __init__(self):
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        for _ in range(3):
            data, peer = self.socket.recvfrom(65536)
            self.socket.sendto(data, peer)

    def close(self):
        self.socket.close()


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    made = Authority(tmp_path_factory.mktemp("certificates"))
    made.issue("good", "DNS:good.example")
    return made


@pytest.fixture(scope="module")
def server(authority):
    with Server(HTTP, allow=["on a closed socket"], files={"kept.lua": "return {}", "root.crt": authority.read("root.crt")}) as made:
        yield made


def talk(server, target, *script, **members):
    """Asks for the target, with the port of a peer who follows the script; gives the lines."""
    peer = Backend(list(script))
    try:
        return server.get("%s%sport=%d" % (target, "&" if "?" in target else "?", peer.port)).text.splitlines()
    finally:
        peer.close()


def test_receive(server):
    text = b"one\r\ntwothreefour--after!what is left\n"
    assert talk(server, "/forms", text) == [
        "one", "two", "thre", "efou", "r", "nil|nil|nil", "after!", "wh", "at is left", "", "nil|closed|",
        "nil|closed", "1", "1", "nil|closed"]


def test_what_came_before_a_timeout_is_given(server):
    assert talk(server, "/late", b"abc", b"def\n") == ["a|nil|timeout|bc", "def"]


def test_kept_connections(server):
    assert talk(server, "/keep", b"a\n", b"b\n", b"xyz", b"") == ["0|a|1", "1|b|1", "x|nil|unread data in buffer"]
    # The end came with the last bytes.
    assert talk(server, "/keep", b"a\n", b"b\n", b"xyz")[2] == "x|nil|closed"


def test_an_idle_connection_that_the_peer_closes_is_not_used(server):
    closed = threading.Event()

    def answer_and_close(conn, _request):
        conn.sendall(b"a\n")
        closed.wait(10)
        raise ConnectionAbortedError("on purpose")

    peer = Backend([answer_and_close], [b"b\n", b""])
    target = "/rest?port=%d" % peer.port
    assert server.get(target).text == "0|a|1\n"
    closed.set()
    while (answer := server.get(target).text) != "0|b|1\n":
        assert answer == "1|nil|nil|closed\n"
    peer.close()


def test_connects_wait_for_a_place(server):
    assert talk(server, "/queue", b"") == ["nil|too many waiting connect operations", "1", "true|1|nil|1|1",
                                           "nil|timeout"]


def test_a_pool_has_the_size_that_connect_named(server):
    peer = Backend([b"", b"", b""])
    try:
        lines = server.get("/sized?port=%d" % peer.port).text.splitlines()
        assert lines == ["0|1", "0|1", "1|1", "0|1"]
    finally:
        peer.close()


def test_a_closed_socket_says_so_before_it_looks_at_arguments(server):
    assert server.get("/closed").text == "nil|closed\n" * 2
    server.wait_log("attempt to receive data on a closed socket: u:0000000000000000, c:0000000000000000, ft:0 eof:0")


def test_a_killed_reader_takes_the_connection_with_it(server):
    assert talk(server, "/kill", b"") == ["nil|socket busy reading", "nil|socket busy reading", "1", "nil|closed",
                                          "nil|closed", "1"]


def test_sockets_belong_to_their_request(server):
    peer = Backend([b""])
    with server.client() as holder:
        holder.send(b"GET /other?stay=1&port=%d HTTP/1.1\r\nHost: a\r\n\r\n" % peer.port)
        holder.head()
        assert server.get("/busy").text == "false|bad request\n" * 4
    server.get("/body")
    peer.close()


def test_long_texts(server):
    text = os.urandom(50000) * 100
    seen = []

    def send_and_take(conn, _request):
        conn.sendall(text)
        taken = b""
        while len(taken) < 5000000:
            taken += conn.recv(65536)
        seen.append(taken == text)
        conn.sendall(b"\n")

    lines = talk(server, "/big", send_and_take)
    assert lines[0].startswith("5000000|") and lines[1] == "5000000" and seen == [True]


def test_names_and_ports(server):
    assert server.get("/names").text.splitlines() == [
        'nil|no resolver defined to resolve "a.example"', "nil|bad port number: 65536", "nil|missing the port number",
        "nil|no such file or directory", 'nil|failed to parse host name "a/b": invalid host']


def test_udp(server):
    peer = Udp()
    assert server.get("/udp?port=%d" % peer.port).text.splitlines() == [
        "1", "1", "a1b", "1", "lon", "1", "20000", "nil|timeout", "1", "nil|closed"]
    peer.close()


def test_tls_is_verified_when_asked(server, authority):
    peer = SecureBackend(authority.server_context("good"), [b"a\n", b"b\n", b"c\n"])
    secure = "/secure?port=%d&name=" % peer.port
    assert server.get(secure + "good.example&verify=1").text == "0|cdata|nil\na|1\n"
    assert server.get(secure + "good.example&verify=1").text == "1|cdata|nil\nb|1\n"
    assert server.get(secure + "evil.example&verify=1").text == "2|nil|certificate host mismatch\n"
    peer.close()


def test_a_link_that_was_not_verified_does_not_stand_for_one_that_was(server, authority):
    peer = SecureBackend(authority.server_context("good"), [b"a\n", b"b\n"])
    secure = "/secure?port=%d&name=" % peer.port
    assert server.get(secure + "evil.example").text == "0|cdata|nil\na|1\n"
    assert server.get(secure + "good.example&verify=1").text == "1|cdata|nil\na|1\n"
    assert [shaken["name"] for shaken in peer.shaken] == ["evil.example", "good.example"]
    peer.close()


def test_body(server):
    lines = ["table|nil", "hello", " wor", "ld"]
    with server.client() as client:
        client.send(b"POST /body HTTP/1.1\r\nHost: a\r\nContent-Length: 12\r\n\r\nhello")
        client.head()
        client.send(b" wor-ld")
    answer = server.get("/body")
    assert answer.text == "nil|no body\n"
    with H2(server.port_of("PORT1")) as client:
        stream = client.request("/body", method="POST", body=b"hello wor-ld")
        assert client.answer(stream).body.decode().splitlines()[:4] == lines


def test_raw(server):
    with server.client() as client:
        client.send(b"GET /raw HTTP/1.1\r\nHost: a\r\n\r\nhello\n")
        assert client.response().text == "hello\n"
    server.wait_log("raw: raw request socket acquired, duplicate call")
    server.wait_log("raw end: closed")


def test_reload_closes_what_rests(server):
    gone = threading.Event()

    def answer_and_wait(conn, _request):
        conn.sendall(b"a\n")
        conn.recv(1)
        gone.set()

    peer = Backend([answer_and_wait], [b"b\n", b""])
    assert server.get("/rest?port=%d" % peer.port).text == "0|a|1\n"
    server.reload()
    assert gone.wait(10)
    assert server.get("/rest?port=%d" % peer.port).text == "0|b|1\n"
    peer.close()
