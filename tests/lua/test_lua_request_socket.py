"""ngx.req.socket: what is given to those that ask twice, as on the reference."""

import pytest

from harness import Server

HTTP = """
server {
    listen 127.0.0.1:@PORT@;
    location / {
        rewrite_by_lua_block { if ngx.var.arg_early then early = type(ngx.req.socket()) end }
        content_by_lua_block {
            local first, second = ngx.var.arg_first == "raw", ngx.var.arg_second == "raw"
            local socket, why
            if not ngx.var.arg_early then
                socket, why = ngx.req.socket(first)
                if not socket then ngx.log(ngx.WARN, "first: ", why) return end
            end
            if ngx.var.arg_read then socket:receive(tonumber(ngx.var.arg_read)) end
            local other, reason = ngx.req.socket(second)
            ngx.log(ngx.WARN, "second: ", type(other), " ", tostring(reason));
            (first and socket or second and other or {send = function() end}):send("HTTP/1.0 200 OK\\r\\n\\r\\nraw")
        } }
    location /timed { content_by_lua_block {
        local socket = ngx.req.socket(true)
        local reading = ngx.thread.spawn(function() return socket:receive("*l") end)
        socket:settimeout(20)
        socket:send("set")
        local _, _, reason, part = ngx.thread.wait(reading)
        socket:send(reason .. " after " .. part)
    } }
    location /reset { content_by_lua_block { ngx.req.socket(true):receive(100) } }
    location /left { content_by_lua_block {
        local socket = ngx.req.socket(true)
        local sent, reason
        repeat ngx.sleep(0.002) sent, reason = socket:send("x") until not sent
        ngx.log(ngx.WARN, "ended: ", reason)
    } }
}
"""


def test_a_timeout_that_another_thread_sets_holds_for_the_reading_that_goes_on():
    """From the next bytes on, as on the reference."""
    with Server(HTTP, allow=["read timed out"]) as server, server.client() as client:
        client.send(b"GET /timed HTTP/1.1\r\nHost: x\r\n\r\n")
        assert client.recv(3) == b"set"
        client.send(b"part")
        assert client.rest() == b"timeout after part"


def test_sending_to_a_client_that_left_is_no_error():
    with Server(HTTP) as server:
        with server.client() as client:
            client.send(b"GET /left HTTP/1.1\r\nHost: x\r\n\r\n")
        assert server.wait_log("ended: (broken pipe|connection reset by peer)")
        assert server.wait_log(r"\[info\] .*send\(\) failed")


def test_a_client_that_resets_is_no_error():
    with Server(HTTP) as server:
        with server.client() as client:
            client.send(b"GET /reset HTTP/1.1\r\nHost: x\r\n\r\n")
            client.reset()
        assert server.wait_log(r"\[info\] .*recv\(\) failed \(104")


@pytest.mark.parametrize("asked, second", [
    ("first=plain&second=plain", "nil request body already exists"),
    ("first=plain&second=raw", "nil pending request body reading in some other thread"),
    ("first=plain&second=raw&read=4", "table nil"),
    ("first=raw&second=plain", "nil request body already exists"),
    ("first=raw&second=raw", "nil duplicate call"),
    ("early=1&second=plain", "nil request body already exists"),
    ("early=1&second=raw", "nil pending request body reading in some other thread"),
])
def test_a_second_socket(asked, second):
    with Server(HTTP) as server, server.client() as client:
        client.send(("POST /?%s HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nConnection: close\r\n\r\nbody" % asked).encode())
        client.rest_or_reset()
        server.wait_log(r"second: %s," % second)
