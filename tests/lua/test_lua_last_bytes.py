"""The last bytes of a connection leave with its FIN, but do not wait for scripts that run before it. A script here is busy until
the client says that the bytes have come, for 0.15 s at most: what a socket holds back for the FIN leaves by itself after 0.2 s.
Machines stall, so that one time of a few has to be good."""

import os

from harness import until

BUSY = """
init_by_lua_block {
    function is_there(name)
        local file = io.open(prefix .. name)
        if file then file:close() end
        return file ~= nil
    end
    local function now()
        ngx.update_time()
        return ngx.now()
    end
    function busy_until(name, seconds)
        local ends = now() + seconds
        while not is_there(name) do
            if now() > ends then return false end
        end
        return true
    end
    prefix = ngx.config.prefix() .. "logs/"
}
"""
CLOSES = "GET %s HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
TIMES = 4


def touch(server, name):
    with open(server.path("logs", name), "w", encoding="ascii"):
        pass


def test_last_bytes_do_not_wait_for_the_script_that_logs(serve):
    server = serve(BUSY + """server { listen 127.0.0.1:@PORT@; location / { return 200 "done";
        log_by_lua_block { ngx.log(ngx.WARN, "came: ", tostring(busy_until(ngx.var.uri, 0.15)), " ", ngx.var.uri) } } }""",
                   allow=["came"])
    for n in range(TIMES):
        with server.client() as client:
            client.send(CLOSES % ("/%d" % n))
            assert client.response().body == b"done"
            touch(server, str(n))
            client.expect_closed()
        if server.wait_log("came: (true|false) /%d" % n)[1] == "true":
            return
    assert False, "the bytes came after the script"


def test_last_bytes_do_not_wait_for_the_script_of_another_request(serve):
    """Both requests wait for the worker when it takes them up."""
    server = serve(BUSY + """server { listen 127.0.0.1:@PORT@;
        location /quick { return 200 "done"; }
        location /hold { content_by_lua_block {
            io.open(prefix .. "held" .. ngx.var.arg_n, "w"):close()
            busy_until("go" .. ngx.var.arg_n, 10) } }
        location /long { content_by_lua_block { ngx.print(tostring(busy_until("came" .. ngx.var.arg_n, 0.15))) } } }""")
    for n in range(TIMES):
        with server.client() as first, server.client() as second, server.client() as holds:
            first.request("/quick")
            second.request("/quick")
            holds.send("GET /hold?n=%d HTTP/1.1\r\nHost: a\r\n\r\n" % n)
            until(lambda n=n: os.path.exists(server.path("logs", "held%d" % n)))
            first.send(CLOSES % "/quick")
            second.send(CLOSES % ("/long?n=%d" % n))
            touch(server, "go%d" % n)
            assert first.response().body == b"done"
            touch(server, "came%d" % n)
            if second.response().body == b"true":
                return
    assert False, "the bytes of a request that was done came after the script of the next one"
