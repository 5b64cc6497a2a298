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
}
"""


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
