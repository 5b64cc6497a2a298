"""What scripts and clients do to harm a worker: it lives, and the others are served."""

import pytest

from harness import Server

HTTP = """
server {
    listen 127.0.0.1:@PORT@;
    location /slow { content_by_lua_block { ngx.sleep(0.01) } }
    location /alive { content_by_lua_block { ngx.say("alive") } }

    # Threads that are killed, or that nobody waits for, while they wait.
    location /killed_semaphore { content_by_lua_block {
        local semaphore = require("ngx.semaphore").new(0)
        local waits = ngx.thread.spawn(function() semaphore:wait(10) end)
        ngx.say(ngx.thread.kill(waits))
        semaphore:post(1)
        ngx.sleep(0.001)
        collectgarbage()
        ngx.say(semaphore:count())
    } }
    location /killed_sleep { content_by_lua_block {
        for i = 1, 20 do ngx.thread.kill(ngx.thread.spawn(function() ngx.sleep(60) end)) end
        ngx.say("killed")
    } }
    location /left_alone { content_by_lua_block {
        KEPT = coroutine.create(function() ngx.sleep(60) end)
        ngx.thread.spawn(function() coroutine.resume(KEPT) end)
        ngx.exit(204)
    } }
    location /fails { content_by_lua_block {
        ngx.thread.spawn(function() ngx.location.capture("/slow") end)
        error("on purpose")
    } }
    location /orphan { content_by_lua_block {
        ngx.thread.wait(ngx.thread.spawn(function()
            ngx.thread.spawn(function() ngx.sleep(0.001) ngx.print("orphan ") end)
        end))
        ngx.sleep(0.005)
        ngx.say("ends")
    } }

    # A body that nobody has read when another one takes its place.
    location /replaces { content_by_lua_block {
        ngx.req.socket()
        ngx.req.set_body_data("abc")
        ngx.say(ngx.req.get_body_data())
    } }

    # Timers that make timers that are due at once.
    location /chain { content_by_lua_block {
        local function again() ngx.timer.at(0, again) end
        ngx.say(ngx.timer.at(0, again))
    } }

    location /huge { content_by_lua_block { for i = 1, 40 do ngx.print(string.rep("x", 65536)) end } }
    location /captures { lua_capture_max_size 64k; content_by_lua_block {
        local page = ngx.location.capture("/huge")
        ngx.say(#page.body, page.truncated)
    } }
}
"""


@pytest.fixture(scope="module")
def server():
    with Server(HTTP, main="worker_processes 1;\n") as made:
        yield made


@pytest.mark.parametrize("target, status, text", [
    ("/killed_semaphore", 200, "1\n1\n"),
    ("/killed_sleep", 200, "killed\n"),
    ("/left_alone", 204, ""),
    ("/fails", 500, None),
    ("/orphan", 200, "orphan ends\n"),
])
def test_threads_that_are_killed_leave_nothing_behind(server, target, status, text):
    assert server.get("/alive").text == "alive\n"
    workers = server.children()
    for _ in range(3):
        answer = server.get(target)
        assert answer.status == status
        assert text is None or answer.text == text
    assert server.get("/alive").text == "alive\n"
    assert server.children() == workers


@pytest.mark.parametrize("first", [b"", b"abc"])
def test_an_unread_body_that_is_replaced_is_no_request(server, first):
    """What the script gives instead has three bytes: the others are still the client's body."""
    body = first + b"GET /alive HTTP/1.1\r\nHost: a\r\n\r\n"
    with server.client() as client:
        client.send(b"POST /replaces HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        assert client.response("POST").text == "abc\n"
        assert client.request("/huge", close=True).text == 40 * 65536 * "x"


def test_a_cut_capture_is_logged_once(server):
    assert server.get("/captures").text == "65536true\n"
    assert server.error_log.count("too big subrequest response") == 1


def test_timers_that_make_timers_leave_time_for_others(server):
    assert server.get("/chain").text == "1\n"
    for _ in range(3):
        assert server.get("/alive").text == "alive\n"
