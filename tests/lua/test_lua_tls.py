"""Scripts in handshakes with clients, and what they leave for the requests that follow."""

import pytest

from harness import Server
from harness.certificates import Authority

HTTP = """
ssl_certificate good.crt;
ssl_certificate_key good.key;
server {
    listen @PORT@;
    location /ask { content_by_lua_block {
        local sock = ngx.socket.tcp()
        assert(sock:connect("127.0.0.1", ngx.var.arg_port))
        assert(sock:sslhandshake(nil, "good.example", false))
        for _, target in ipairs {"/", "/inside", "/"} do
            assert(sock:send("GET " .. target .. " HTTP/1.1\\r\\nHost: a\\r\\n\\r\\n"))
            repeat local line = sock:receive() until line == ""
            local size = sock:receive()
            ngx.say(sock:receive(tonumber(size, 16) - 1))
            sock:receive(8)
        end
        sock:close()
    } }
}
server {
    listen @PORT1@ ssl;
    ssl_client_hello_by_lua_block { ngx.ctx.names = {"hello"} ngx.ctx.count = 1 }
    ssl_certificate_by_lua_block {
        table.insert(ngx.ctx.names, "certificate")
        ngx.ctx.count = ngx.ctx.count + 1
        ngx.timer.at(0, function () ngx.log(ngx.WARN, "of the timer: ", ngx.ctx.count) end)
    }
    location / { content_by_lua_block {
        ngx.ctx.count = ngx.ctx.count + 1
        table.insert(ngx.ctx.names, "request")
        ngx.say(ngx.ctx.count, " ", table.concat(ngx.ctx.names, " "))
    } }
    location /inside { rewrite_by_lua_block { ngx.ctx = {count = 10} ngx.exec("/") } }
}
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    authority = Authority(tmp_path_factory.mktemp("authority"))
    authority.issue("good", "DNS:good.example")
    files = {name: authority.read(name) for name in ("good.crt", "good.key")}
    with Server(HTTP, files=files) as made:
        yield made


def test_each_request_has_a_copy_of_the_context_of_its_handshake(server):
    for _ in range(2):
        lines = server.get("/ask?port=%d" % server.port_of("PORT1")).text.splitlines()
        assert lines == ["3 hello certificate request", "3 hello certificate request request",
                         "3 hello certificate request request request"]
    server.wait_log("of the timer: nil")
