"""Responses out of Lua: what is said and how it leaves, exits, filters, clients that leave."""

import re

import pytest

from harness import Client, Closed, Server
from harness.h2 import H2
from harness.wait import until

# A script waits, in turns, until the test lets it go on (let_go): no time that a client has to leave in.
HOLD = "repeat ngx.sleep(0.002) until ngx.shared.held:get(ngx.var.uri) ngx.shared.held:delete(ngx.var.uri)"
HTTP = """
access_log access.log; lua_shared_dict held 64k;
server {
    listen 127.0.0.1:@PORT@;
    error_page 410 /gone;
    location /gone { return 200 "gone page"; }

    location /say { content_by_lua_block {
        local a, b = ngx.say("a", nil, true, {1.5, {"b"}, false})
        local ok, why = pcall(ngx.print, "x", {key = 1})
        ngx.say(a, b, why)
    } }
    location /late { content_by_lua_block { ngx.say("said") ngx.exit(404) } }
    location /coded { rewrite_by_lua_block { ngx.exit(410) } }
    location /safe { content_by_lua_block { pcall(function() ngx.say("once") ngx.exit(200) end) ngx.say("never") } }
    location /thread_exits { content_by_lua_block {
        ngx.thread.spawn(function() ngx.sleep(0.001) ngx.status = 201 ngx.exit(201) end)
        ngx.sleep(60)
    } }
    location /eof { content_by_lua_block {
        ngx.say("all") ngx.eof() ngx.sleep(0.01)
        ngx.log(ngx.WARN, "after eof: ", select(2, ngx.say("more")))
    } }
    location /short { content_by_lua_block { ngx.header["Content-Length"] = 10 ngx.print("short") } }

    location /refuse { header_filter_by_lua_block { ngx.exit(403) } content_by_lua_block {
        ngx.log(ngx.WARN, "refused: ", select(2, ngx.say("x")))
    } }
    location /broken_filter { body_filter_by_lua_block { error("filter on purpose") } return 200 "x"; }
    location /upper { body_filter_by_lua_block { ngx.arg[1] = {string.upper(ngx.arg[1]), ngx.arg[2] and "." or ","} }
        content_by_lua_block { ngx.print("a") ngx.print("b") } }
    location /first { body_filter_by_lua_block { ngx.arg[1] = "first" ngx.arg[2] = true }
        content_by_lua_block { ngx.print("a") ngx.print("b") } }
    location /longer { body_filter_by_lua_block { ngx.arg[1] = ngx.arg[1] .. "!" } return 200 "length"; }
    location /file.txt { body_filter_by_lua_block { ngx.arg[1] = string.gsub(ngx.arg[1], "line", "LINE") } }

    location /big { content_by_lua_block {
        local text = string.rep("0123456789abcdef", 65536)
        ngx.print(text) ngx.say(text) ngx.print(text, text)
    } }
    location /flood { content_by_lua_block {
        local piece = string.rep("x", 65536)
        for i = 1, 100000 do
            local ok, why = ngx.print(piece)
            if not ok then ngx.log(ngx.WARN, "flood ends: ", why, " ", i < 2000) return end
        end
    } }
    location /two { content_by_lua_block {
        local piece = {}
        for i, name in ipairs{"a", "b"} do
            piece[i] = ngx.thread.spawn(function()
                for n = 1, 50 do ngx.print(string.rep(name, 20000)) ngx.flush(true) end
            end)
        end
        ngx.thread.wait(piece[1]) ngx.thread.wait(piece[2])
        ngx.say("end")
    } }

    location /stays { content_by_lua_block { ngx.log(ngx.WARN, "stays begins") ngx.sleep(0.2) ngx.log(ngx.WARN, "stays done") } }
    location /goes { lua_check_client_abort on; content_by_lua_block {
        ngx.log(ngx.WARN, "goes begins") ngx.sleep(30) ngx.log(ngx.WARN, "goes done")
    } }
    location /told { lua_check_client_abort on; content_by_lua_block {
        local again = {ngx.on_abort(function() ngx.sleep(0.001) ngx.log(ngx.WARN, "told in time") ngx.exit(499) end)}
        ngx.log(ngx.WARN, "told begins ", again[1], " ", select(2, ngx.on_abort(print)))
        ngx.sleep(30)
    } }
    location /then { rewrite_by_lua_block { ngx.log(ngx.WARN, "then begins") @HOLD@ ngx.log(ngx.WARN, "then ends") }
        proxy_pass http://127.0.0.1:@PORT@/say; }

    location /let { content_by_lua_block { ngx.shared.held:set(ngx.var.arg_go, true) } }
    location /off { access_by_lua_block { ngx.log(ngx.WARN, "/off begins") @HOLD@ } content_by_lua_block { ngx.sleep(0.001) ngx.print("answered") } }
    location /on { lua_check_client_abort on;
        access_by_lua_block { ngx.on_abort(function() ngx.log(ngx.WARN, "/on goes on") end) ngx.log(ngx.WARN, "/on begins") @HOLD@ }
        content_by_lua_block { ngx.sleep(0.001) ngx.print("answered") } }
    location /later { access_by_lua_block { ngx.log(ngx.WARN, "/later begins") @HOLD@ } proxy_pass http://127.0.0.1:@PORT@/stays; }
    location /dies { lua_check_client_abort on; content_by_lua_block { ngx.log(ngx.WARN, "/dies begins") ngx.sleep(30) ngx.log(ngx.WARN, "/dies goes on") } }
    location /hears { lua_check_client_abort on; content_by_lua_block {
        ngx.on_abort(function() ngx.log(ngx.WARN, "/hears aborts") ngx.exit(499) end) ngx.log(ngx.WARN, "/hears begins") ngx.sleep(30) } }
    location /fails { rewrite_by_lua_block { ngx.print(string.rep("a", ngx.var.arg_n)) error("on purpose") } }

    location /both { satisfy any; deny all; access_by_lua_block { if ngx.var.arg_in then return end ngx.exit(401) }
        content_by_lua_block { ngx.print("in") } }
    location /if { if ($arg_x) { rewrite_by_lua_block { ngx.log(ngx.WARN, "if rewrites") } } content_by_lua_block { ngx.exit(204) } }
    location /order { access_by_lua_block { ngx.ctx.way = "access" }
        precontent_by_lua_block { ngx.ctx.way = ngx.ctx.way .. " precontent" }
        content_by_lua_block { ngx.say(ngx.ctx.way, " ", ngx.get_phase()) }
        log_by_lua_block { ngx.log(ngx.WARN, "way: ", ngx.ctx.way, " ", ngx.get_phase()) } }
}
server { listen 127.0.0.1:@PORT1@; http2 on;
    location /say { content_by_lua_block { ngx.say("a") ngx.flush(true) ngx.say("b") } body_filter_by_lua_block { ngx.arg[1] = string.upper(ngx.arg[1]) } }
    location /eof { content_by_lua_block { ngx.print("x") ngx.eof() ngx.sleep(0.01) ngx.log(ngx.WARN, "h2 after eof") } }
    location /exit { header_filter_by_lua_block { ngx.exit(444) } return 200 "x"; }
    location /goes { lua_check_client_abort on; content_by_lua_block { ngx.log(ngx.WARN, "h2 begins") ngx.sleep(30) } }
}
""".replace("@HOLD@", HOLD)


def ask(client, target, version="1.1"):
    client.send("GET %s HTTP/%s\r\nHost: localhost\r\n\r\n" % (target, version))


def let_go(server, target):
    assert server.get("/let?go=" + target).status == 200


def begins(server, client, target, rest):
    """Sends a POST, and waits until its script says that it begins."""
    line = target + " begins"
    before = server.read("error.log").count(line)
    client.send("POST %s HTTP/1.1\r\nHost: localhost\r\n%s" % (target, rest))
    until(lambda: server.read("error.log").count(line) > before, line)


@pytest.fixture(scope="module")
def server():
    with Server(HTTP, files={"html/file.txt": "line one\nline two\n"}) as made:
        yield made


def test_what_is_said_is_one_chunk_each(server):
    answer = server.get("/say")
    assert answer.chunks[0] == len("aniltrue1.5bfalse\n")
    assert answer.text.endswith("1nilbad argument #2 to '?' (non-array table found)\n")


def test_http_1_0_is_told_the_length(server):
    with server.client() as client:
        client.send(b"GET /late HTTP/1.0\r\n\r\n")
        answer = client.response()
    assert (answer.status, answer.header("Content-Length"), answer.text) == (200, "5", "said\n")


@pytest.mark.parametrize("target, status, text", [
    ("/late", 200, "said\n"), ("/coded", 410, "gone page"), ("/safe", 200, "once\n"), ("/thread_exits", 201, ""),
])
def test_exit(server, target, status, text):
    with server.client() as client:
        for _ in range(2):
            answer = client.request(target)
            assert (answer.status, answer.text) == (status, text)


def test_a_script_goes_on_behind_eof_and_the_connection_is_kept(server):
    with server.client() as client:
        client.send(b"GET /eof HTTP/1.1\r\nHost: a\r\n\r\nGET /say HTTP/1.1\r\nHost: a\r\n\r\n")
        assert client.response().text == "all\n"
        assert client.response().status == 200
    server.wait_log("after eof: seen eof")


def test_a_length_that_was_wrong_ends_the_connection(server):
    with server.client() as client:
        ask(client, "/short")
        with pytest.raises(Closed) as seen:
            client.response()
        assert seen.value.rest.endswith(b"short")


def test_header_filter_refuses(server):
    answer = server.get("/refuse")
    assert answer.status == 403 and "403 Forbidden" in answer.text
    server.wait_log("refused: nginx output filter error")


def test_a_body_filter_that_fails_drops_the_client(server):
    with server.client() as client:
        ask(client, "/broken_filter")
        client.expect_closed()
    server.wait_log(r"failed to run body_filter_by_lua\*: body_filter_by_lua\(nginx.conf:\d+\):1: filter on purpose")


@pytest.mark.parametrize("target, text", [
    ("/upper", "A,B,."), ("/first", "first"), ("/longer", "length"), ("/file.txt", "LINE one\nLINE two\n"),
])
def test_body_filter(server, target, text):
    assert server.get(target).text == text


def test_long_texts_arrive_whole(server):
    text = "0123456789abcdef" * 65536
    answer = server.get("/big")
    assert answer.text == text + text + "\n" + text + text


def test_a_client_that_does_not_read_stops_the_script(server):
    with server.client(rcvbuf=4096) as client:
        ask(client, "/flood")
        client.head()
        client.reset()
    server.wait_log("flood ends: nginx output filter error true")


def test_pieces_of_two_threads_do_not_mix(server):
    answer = server.get("/two")
    assert answer.text.endswith("end\n") and len(answer.text) == 2 * 50 * 20000 + 4
    assert re.fullmatch(r"(a{20000}|b{20000})+", answer.text[:-4])


def test_a_client_that_leaves_does_not_stop_a_script(server):
    with server.client() as client:
        ask(client, "/stays")
        server.wait_log("stays begins")
    server.wait_log("stays done")


def test_it_does_with_lua_check_client_abort(server):
    with server.client() as client:
        ask(client, "/goes")
        server.wait_log("goes begins")
    server.wait_log('"GET /goes HTTP/1.1" 499', "access.log")
    assert "goes done" not in server.read("error.log")


def test_on_abort(server):
    with server.client() as client:
        ask(client, "/told")
        server.wait_log("told begins 1 duplicate call")
    server.wait_log("told in time")
    server.wait_log('"GET /told HTTP/1.1" 499', "access.log")


def test_what_follows_the_script_does_not_serve_who_has_left(server):
    with server.client() as client:
        ask(client, "/then")
        server.wait_log("then begins")
    let_go(server, "/then")
    server.wait_log("then ends")
    server.wait_log('"GET /then HTTP/1.1" 499', "access.log")


@pytest.mark.parametrize("body", ["\r\n", "Content-Length: 9\r\n\r\nabc"])
@pytest.mark.parametrize("target", ["/off", "/on"])
def test_a_client_that_shuts_its_sending_side_is_answered(server, target, body):
    """It gets what follows a script that did not end because of that."""
    with server.client() as client:
        begins(server, client, target, body)
        client.half_close()
        let_go(server, target)
        assert client.response().text == "answered"
    assert ("/on goes on" in server.read("error.log")) == (target == "/on")


def test_a_backend_is_not_waited_for_when_the_client_has_left(server):
    with server.client() as client:
        begins(server, client, "/later", "\r\n")
        client.half_close()
        let_go(server, "/later")
        server.wait_log('"POST /later HTTP/1.1" 499', "access.log")


@pytest.mark.parametrize("unread", ["Content-Length: 9\r\n\r\nabc", "Content-Length: 3\r\n\r\nabc",
                                    "Transfer-Encoding: chunked\r\n\r\n5\r\na", "\r\nGET /say HTTP/1.1\r\nHost: a\r\n\r\n"])
@pytest.mark.parametrize("target", ["/dies", "/hears"])
def test_input_that_is_left_does_not_hide_that_a_client_leaves(server, target, unread):
    line = '"POST %s HTTP/1.1" 499' % target
    before = server.read("access.log").count(line)
    with server.client() as client:
        begins(server, client, target, unread)
    until(lambda: server.read("access.log").count(line) > before, "the end of the request")
    assert "/dies goes on" not in server.read("error.log")
    assert target == "/dies" or "/hears aborts" in server.read("error.log")


def test_nothing_is_sent_of_what_waits_when_a_script_fails(server):
    """As in OpenResty: postpone_output holds it back, and the connection ends."""
    with server.client() as client:
        ask(client, "/fails?n=100")
        assert client.rest() == b""
    with server.client() as client:
        ask(client, "/fails?n=5000")
        assert b"a" * 5000 in client.rest()


def test_satisfy(server):
    assert server.get("/both?in=1").text == "in"
    assert server.get("/both").status == 401


def test_if_block(server):
    assert server.get("/if").status == 204
    assert "if rewrites" not in server.read("error.log")
    server.get("/if?x=1")
    server.wait_log("if rewrites")


def test_phases_in_order(server):
    assert server.get("/order").text == "access precontent content\n"
    server.wait_log("way: access precontent log")


def test_http2(server):
    with H2(server.port_of("PORT1")) as client:
        assert client.answer(client.request("/say")).body == b"A\nB\n"
        assert client.answer(client.request("/eof")).body == b"x"
        assert client.answer(client.request("/exit")).status == 444
        client.request("/goes")
        server.wait_log("h2 begins")
    server.wait_log("h2 after eof")
    server.wait_log("client prematurely closed connection.*/goes HTTP/2.0")


def test_a_body_that_is_longer_than_a_script_has_announced(serve):
    """What was announced comes, and no byte more; the next response begins after it."""
    server = serve("""server { listen @PORT@;
        location /one { content_by_lua_block { ngx.header["Content-Length"] = 3 ngx.print("abcdef") } }
        location /two { content_by_lua_block { ngx.header["Content-Length"] = 4 ngx.print("abc") ngx.print("def") } }
        location /none { content_by_lua_block { ngx.header["Content-Length"] = 0 ngx.print("abcdef") } }
        location /filter { header_filter_by_lua_block { ngx.header.content_length = 2 } content_by_lua_block { ngx.print("abcdef") } }
    }""")
    with server.client() as client:
        for target, body in (("/one", "abc"), ("/two", "abcd"), ("/none", ""), ("/filter", "ab")) * 2:
            assert client.request(target).text == body
