"""A shared dictionary whose users are killed in the middle of what they do."""

import os
import signal

from harness.workers import wait_workers

ROUNDS = 25

HTTP = """
lua_shared_dict words 64k;
init_by_lua_block {
    -- A key tells what its value is, so that half of a value or another's is seen.
    function letters(number, len) return string.char(97 + number % 26):rep(len) end
    function write(words, random)
        local number = random(0, 199)
        local kind = number % 3
        if random(16) == 1 then
            words:delete(("slc"):sub(kind + 1, kind + 1) .. number)
        elseif kind == 0 then
            words:set("s" .. number, letters(number, random(0, 600)), random(4) == 1 and 0.001 or 0)
        elseif kind == 1 then
            if random(3) == 1 then words:lpop("l" .. number) else words:rpush("l" .. number, letters(number, random(0, 600))) end
        else
            words:incr("c" .. number, 1, 0)
        end
    end
    function check(words)
        local seen = 0
        for _, key in ipairs(words:get_keys(0)) do
            local number = tonumber(key:sub(2))
            local letter = letters(number, 1)
            if key:sub(1, 1) == "l" then
                local value = words:lpop(key)
                assert(value == nil or value == letter:rep(#value), key)
            else
                local value = words:get(key)
                assert(value == nil or type(value) == "number" or value == letter:rep(#value), key)
            end
            seen = seen + 1
        end
        return seen
    end
}
server {
    listen 127.0.0.1:@PORT@;
    location /write { content_by_lua_block {
        ngx.header.x_pid = ngx.worker.pid() ngx.send_headers() ngx.flush(true)
        math.randomseed(tonumber(ngx.var.arg_seed))
        while true do write(ngx.shared.words, math.random) end
    } }
    location /check { content_by_lua_block { ngx.say(check(ngx.shared.words)) } }
    location /empty { content_by_lua_block {
        local words = ngx.shared.words
        words:flush_all() words:flush_expired()
        ngx.say(#words:get_keys(0), " ", words:set("large", ("x"):rep(40000)), " ", words:free_space())
        words:delete("large")
    } }
}
"""


def test_workers_are_killed_while_they_write(serve):
    """Each in another place of its writing. Whoever comes after finds every value whole, can write itself, and nothing is lost."""
    server = serve(HTTP, main="worker_processes 2;", allow=["exited on signal 9", "was repaired"])
    wait_workers(server, 2)
    before = server.get("/empty").text
    written = 0
    for turn in range(ROUNDS):
        with server.client() as client:
            client.send(b"GET /write?seed=%d HTTP/1.1\r\nHost: a\r\n\r\n" % turn)
            pid = int(client.head().header("X-Pid"))
            os.kill(pid, signal.SIGKILL)
        wait_workers(server, 2, without=[pid])
        answer = server.get("/check")
        assert answer.status == 200, server.read("error.log")
        written += int(answer.text)
    assert written > ROUNDS
    assert server.get("/empty").text == before
