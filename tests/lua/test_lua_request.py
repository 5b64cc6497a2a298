"""Requests in Lua: headers, variables, arguments, the URI, bodies, subrequests, set_by_lua."""

import hashlib

import pytest

from harness import Closed, Server
from harness.h2 import H2

HTTP = """
lua_shared_dict methods 32k;
server {
    listen 127.0.0.1:@PORT@;
    client_body_buffer_size 1k;
    client_max_body_size 64k;
    set $outer "";
    if ($arg_set) { set_by_lua_block $outer { return "set " .. ngx.var.arg_set } }

    location /args { content_by_lua_block {
        local args, why = ngx.req.get_uri_args(3)
        ngx.say(args.a, " ", type(args.b), " ", tostring(args.c), " ", tostring(why))
        ngx.req.set_uri_args({x = {"1 2", true}, y = false})
        ngx.say(ngx.var.args, " ", tostring(ngx.req.get_uri_args().x[2]))
    } }
    location /fields { content_by_lua_block {
        ngx.header["X-A"] = {"1", "2"} ngx.header.x_b = "evil\\r\\nX-C: 1" ngx.header.content_type = "text/css"
        local fields = ngx.req.get_headers()
        ngx.say(fields.x_one, " ", fields["X-ONE"], " ", table.concat(fields.x_two, "+"))
        ngx.req.set_header("X-One", {"a", "b"}) ngx.req.clear_header("X-Two") ngx.req.set_header("New", "x\\r\\nInjected: y")
        ngx.say(ngx.var.http_x_one, " ", tostring(ngx.var.http_x_two), " ", ngx.var.http_new)
        ngx.req.set_header("Host", "Other.Example:81") ngx.say(ngx.var.host, " ", select(2, ngx.req.get_headers(1)))
        ngx.say(#ngx.header.x_a, " ", ngx.resp.get_headers()["x-b"], " ", select(2, pcall(ngx.req.set_header, "Content-Length", "x")))
    } }
    location /line { content_by_lua_block {
        ngx.say(ngx.req.get_method(), " ", ngx.req.http_version(), " ", #ngx.req.raw_header(), " ", #ngx.req.raw_header(true))
        ngx.req.set_method(ngx.HTTP_PATCH) ngx.say(ngx.req.get_method(), " ", select(2, pcall(ngx.req.set_method, 3)))
    } }
    location ~ ^/var/(a)?(b)(c)? { set $mine 1; content_by_lua_block {
        ngx.var.mine = nil ngx.say(tostring(ngx.var.mine), ngx.var[1], ngx.var[2], tostring(ngx.var[9]), tostring(ngx.var.none))
        ngx.say(select(2, pcall(function() ngx.var.uri = "/x" end)))
        ngx.say((select(2, pcall(function() ngx.var.none = "x" end)):gsub(";.*", "")))
    } }
    location /outer { content_by_lua_block { ngx.say(ngx.var.outer) } }
    location /set { set $before "b"; set_by_lua $made 'return ngx.arg[1] .. ngx.arg[2] .. ngx.var.before' "x$arg_y" z;
        set_by_lua_block $nothing { return } set_md5 $sum $made; return 200 "$made,$nothing,$sum"; }
    location /set_fails { set_by_lua $made 'error("on purpose")'; return 200 "x"; }
    location /ndk { content_by_lua_block { ngx.say(ndk.set_var.set_md5("a"), " ", pcall(function() return ndk.set_var.none end)) } }

    location /jump { rewrite_by_lua_block { ngx.ctx.kept = 1 pcall(ngx.req.set_uri, "/at%20" .. (ngx.var.arg_to or ""), true) error("here?") } }
    location /at { content_by_lua_block { ngx.say(ngx.var.uri, " ", tostring(ngx.ctx.kept), " ", tostring(ngx.req.is_internal())) } }
    location /onward { rewrite_by_lua_block { ngx.req.set_uri(ngx.unescape_uri(ngx.var.arg_to), false, true) ngx.req.set_uri_args("") }
        proxy_pass http://127.0.0.1:@PORT@; }
    location /seen { content_by_lua_block { ngx.print(ngx.var.request_uri) } }
    location /circle { rewrite_by_lua_block { ngx.req.set_uri("/circle", true) } }
    location /exec { content_by_lua_block { ngx.ctx.kept = 1 ngx.exec("/%61t?a=1", {b = 2}) } }
    location /exec_name { content_by_lua_block { ngx.exec("@name?x", "y") } }
    location @name { content_by_lua_block { ngx.say("name ", ngx.var.uri, " ", tostring(ngx.var.args)) } }
    location /redirect { access_by_lua_block { ngx.header.kept = "1" ngx.redirect("/to?a b", 307) } }
    location /redirect_bad { content_by_lua_block { ngx.redirect("/to\\r\\nX: y") } }

    location /body { content_by_lua_block {
        ngx.req.read_body()
        local data, file = ngx.req.get_body_data(), ngx.req.get_body_file()
        ngx.print(data or "file", " ", file and #io.open(file):read("*a") or 0, " ", tostring(ngx.var.content_length))
    } }
    location /body_args { lua_need_request_body on; content_by_lua_block { ngx.print(ngx.req.get_post_args().a) } }
    location /body_new { content_by_lua_block {
        ngx.say(select(2, pcall(ngx.req.set_body_data, "x")))
        ngx.req.read_body() ngx.req.init_body(4)
        for _, piece in ipairs{"one", "two", "three"} do ngx.req.append_body(piece) end
        ngx.req.finish_body() ngx.print(ngx.location.capture("/back", {method = ngx.HTTP_PUT}).body, " ")
        ngx.req.set_body_data("again") ngx.print(ngx.location.capture("/back", {always_forward_body = true}).body)
    } }
    location /body_drop { content_by_lua_block { ngx.req.discard_body() ngx.req.read_body() ngx.print(tostring(ngx.req.get_body_data())) } }
    location /back { proxy_pass http://127.0.0.1:@PORT@/told; }
    location /told { content_by_lua_block {
        ngx.req.read_body()
        ngx.print(ngx.req.get_method(), " ", tostring(ngx.req.get_headers().content_length), " ", tostring(ngx.req.get_body_data()))
    } }

    location /capture { set $a "a"; set $b "b"; content_by_lua_block {
        local function body(options) return ngx.location.capture("/sub?q=1", options).body end
        ngx.say(body(), ", ", body{vars = {a = "x"}}, ", ", body{copy_all_vars = true, vars = {b = 3}}, ", ", body{share_all_vars = true})
        ngx.say(ngx.var.a, " ", tostring(ngx.req.get_headers().sub), " ", body{args = {r = 2}, ctx = {name = "given"}})
    } }
    location /sub { content_by_lua_block {
        ngx.print(ngx.var.a, ngx.var.b, ngx.var.args, ngx.ctx.name, tostring(ngx.is_subrequest))
        ngx.var.a = "changed" ngx.req.set_header("Sub", "1")
    } }
    location /multi { content_by_lua_block {
        local one, two, three = ngx.location.capture_multi{{"/nap", {args = "0.02"}}, {"/none"}, {"/nap", {args = "0.001", method = ngx.HTTP_HEAD}}}
        ngx.say(one.body, two.status, three.status, #three.body, one.header["X-Many"][2], tostring(two.truncated))
    } }
    location /nap { content_by_lua_block { ngx.header["X-Many"] = {"1", "2"} ngx.sleep(tonumber(ngx.var.args)) ngx.print("slept ", ngx.var.args) } }
    location /long { lua_capture_max_size 10; content_by_lua_block {
        local got = ngx.location.capture("/told_long") ngx.say(got.body, " ", tostring(got.truncated))
    } }
    location /told_long { return 200 "0123456789and more"; }
    location /pending { content_by_lua_block {
        ngx.thread.spawn(function() ngx.location.capture("/nap?0.05") end)
        ngx.say(select(2, pcall(ngx.exec, "/at")), ", ", select(2, pcall(ngx.redirect, "/at")))
    } }
    location /deep { content_by_lua_block { ngx.print(ngx.location.capture("/deep").status) } }
    location /failing { content_by_lua_block {
        for _, path in ipairs({"/paged", "/paged_too", "/given_up", "/head_fails"}) do
            local answer = ngx.location.capture(path)
            ngx.print(answer.status, "[", answer.body, "] ")
        end
    } }
    location /paged { error_page 404 /sub_page; return 404; }
    location /paged_too { error_page 403 = /sub_page; return 403; }
    location /sub_page { return 200 "page"; }
    location /given_up { content_by_lua_block { ngx.exit(ngx.ERROR) } }
    location /head_fails { header_filter_by_lua_block { error("on purpose") } return 200 "x"; }
    location /dropping { content_by_lua_block { ngx.location.capture("/" .. ngx.var.args) ngx.say("never") } }
    location /drops { content_by_lua_block { ngx.exit(444) } }
    location /body_fails { body_filter_by_lua_block { return ngx.ERROR } return 200 "x"; }
    location /changed_status { header_filter_by_lua_block { ngx.status = ngx.var.args } return 200 "as it was"; }
    location /tables { content_by_lua_block {
        local mt = getmetatable(ngx.socket.tcp())
        local shared = ngx.shared.methods
        ngx.print(type(mt.connect), mt.__index == mt, type(getmetatable(ngx.socket.udp()).send), type(shared.__index.incr), " ",
                  ngx.get_raw_phase(), ngx._phase_ctx(), " ", select("#", ngx.req.get_headers()))
    } log_by_lua_block { ngx.req.set_header("X", "1") ngx.log(ngx.WARN, "late header ", ngx.var.http_x, ", phase ", ngx._phase_ctx()) } }
    location /status { content_by_lua_block {
        ngx.status = 201 ngx.send_headers() ngx.status = 202 ngx.header.late = "x" ngx.say(ngx.status, tostring(ngx.headers_sent)) } }
    location /nobody { content_by_lua_block {
        ngx.timer.at(0, function()
            local ok, why = pcall(function() return ngx.var.uri end)
            local too, reason = pcall(ngx.req.get_headers)
            ngx.log(ngx.WARN, "nobody: ", why, ", ", reason, ", ", ngx.req.start_time())
        end)
    } }
}
server { listen 127.0.0.1:@PORT1@; http2 on;
    location / { content_by_lua_block {
        ngx.req.read_body()
        ngx.print(ngx.req.http_version(), " ", tostring(ngx.req.get_body_data()), " ", ngx.location.capture("/sub").body, " ",
                  select(2, pcall(ngx.req.raw_header)))
    } }
    location /sub { return 200 "sub"; }
}
"""


@pytest.fixture(scope="module")
def server():
    with Server(HTTP) as made:
        yield made


def ask(server, target, *headers, **more):
    with server.client() as client:
        return client.request(target, *headers, **more)


@pytest.mark.parametrize("target, text", [
    ("/args?a=1%202+3&b=1&b=2&c&d=4", "1 2 3 table nil truncated\nx=1%202&x true\n"),
    ("/outer?set=1", "set 1\n"),
    ("/set?y=1", "x1zb,," + hashlib.md5(b"x1zb").hexdigest()),
    ("/jump?to=x", "/at%20x nil true\n"),
    ("/exec", "/at nil true\n"),
    ("/exec_name", "name /exec_name nil\n"),
    ("/capture", "q=1niltrue, xq=1niltrue, a3q=1niltrue, abq=1niltrue\nchanged nil q=1&r=2giventrue\n"),
    ("/multi", "slept 0.0240420002true\n"),
    ("/long", "0123456789 true\n"),
    ("/pending", "attempt to abort with pending subrequests, attempt to abort with pending subrequests\n"),
    ("/status", "201true\n"),
    ("/failing", "404[] 403[] 500[] 200[] "),
    ("/tables", "functiontruefunctionfunction 88 1"),
])
def test_table(server, target, text):
    answer = ask(server, target)
    assert answer.text == text


def test_variables(server):
    lines = ask(server, "/var/b").text.splitlines()
    assert lines[0] == "nilbnilnil"
    assert lines[1].endswith('variable "uri" not changeable')
    assert lines[2].endswith('variable "none" not found for writing')


def test_a_new_uri_is_escaped_where_it_goes_on(server):
    """Though nothing was quoted in the client's: what is set is a URI, no target."""
    for to in ("/seen%20a", "/seen%3Fa", "/seen%2523", "/seen%23a", "/seen%0Aa", "/seen%7F", "/seen%C3%A4"):
        assert server.get("/onward?to=" + to).text == to


def test_fields(server):
    answer = ask(server, "/fields", "X-One: 1", "X-Two: a", "x-two: b")
    lines = answer.text.splitlines()
    assert lines[:3] == ["1 1 a+b", "a, b nil x%0D%0AInjected: y", "other.example truncated"]
    assert lines[3].startswith("2 evil%0D%0AX-C: 1 ") and lines[3].endswith("failed to set header")
    assert (answer.all("X-A"), answer.header("X-B"), answer.header("X-C")) == (["1", "2"], "evil%0D%0AX-C: 1", None)
    assert answer.header("Content-Type") == "text/css"


def test_the_request_line_and_the_head_as_sent(server):
    head = b"POST /line HTTP/1.1\r\nHost: a\r\nUPPER: x\r\n\r\n"
    with server.client() as client:
        client.send(head)
        lines = client.response().text.splitlines()
    assert lines[0] == "POST 1.1 %d %d" % (len(head), len(head) - len("POST /line HTTP/1.1\r\n"))
    assert lines[1].startswith("PATCH ") and lines[1].endswith("unsupported HTTP method: 3")


def test_functions_of_set_misc(server):
    digest, _, rest = ask(server, "/ndk").text.partition(" ")
    assert digest == hashlib.md5(b"a").hexdigest()
    assert rest.startswith("false") and 'directive "none" not found' in rest


@pytest.mark.parametrize("target, message", [
    ("/set_fails", r"failed to run set_by_lua\*: set_by_lua\(nginx.conf:\d+\):1: on purpose"),
    ("/circle", 'rewrite or internal redirection cycle while processing "/circle"'),
    ("/redirect_bad", 'unsafe byte "0x0d" in redirect uri "/to'),
])
def test_failures(server, target, message):
    assert ask(server, target).status == 500
    server.wait_log(message)


def test_redirect_is_sent_as_it_was_said(server):
    answer = ask(server, "/redirect")
    assert (answer.status, answer.header("Location"), answer.header("kept")) == (307, "/to?a b", "1")


@pytest.mark.parametrize("target, body, text", [
    ("/body", b"a=1&b", "a=1&b 0 5"),
    ("/body", b"x" * 3000, "file 3000 3000"),
    ("/body_args", b"a=%41+", "A "),
    ("/body_drop", b"gone", "nil"),
])
def test_bodies(server, target, body, text):
    with server.client() as client:
        for _ in range(2):
            assert client.request(target, method="POST", body=body).text == text


def test_a_body_that_is_chunked_and_one_that_is_too_large(server):
    with server.client() as client:
        client.send(b"POST /body HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n")
        assert client.response().text == "abc 0 3"
        client.send(b"POST /body HTTP/1.1\r\nHost: a\r\nContent-Length: 70000\r\n\r\n")
        assert client.response().status == 413


def test_a_body_that_a_script_made_is_passed_on(server):
    answer = ask(server, "/body_new", method="POST", body=b"old")
    assert answer.text.endswith("request body not read yet\nPUT 11 onetwothree GET 5 again")


def test_subrequests_inside_each_other_end(server):
    assert ask(server, "/deep").status in (200, 500)
    server.wait_log('lua subrequests cycle while processing "/deep"')


@pytest.mark.parametrize("target", ["drops", "body_fails"])
def test_a_subrequest_that_drops_its_client_drops_all(server, target):
    with server.client() as client, pytest.raises(Closed):
        client.request("/dropping?" + target)


@pytest.mark.parametrize("status", [201, 404, 418, 500])
def test_a_status_that_a_header_filter_gives_leaves_the_body(server, status):
    answer = ask(server, f"/changed_status?{status}")
    assert (answer.status, answer.text) == (status, "as it was")


def test_a_request_is_changed_in_log_by_lua(server):
    ask(server, "/tables")
    server.wait_log("late header 1, phase 16")


def test_too_late_for_the_head(server):
    assert ask(server, "/status").header("late") is None
    server.wait_log("attempt to set ngx.status after sending out response headers")
    server.wait_log("attempt to set ngx.header.HEADER after sending out response headers")


def test_where_there_is_no_request(server):
    ask(server, "/nobody")
    server.wait_log("nobody: .*API disabled in the current context, .*API disabled in the current context, 0")


def test_http_2(server):
    with H2(server.port_of("PORT1")) as h2:
        text = h2.get("/", "POST", body=b"two").body.decode()
    assert text.startswith("2 two sub ") and text.endswith("http2 requests not supported yet")


CUT = """
server {
    listen 127.0.0.1:@PORT@;
    client_body_buffer_size 16;
    location /set { rewrite_by_lua_block { ngx.req.set_header("Content-Length", ngx.var.arg_n) } proxy_pass http://127.0.0.1:@PORT@/seen; }
    location /set_after { rewrite_by_lua_block { ngx.req.read_body() ngx.req.set_header("Content-Length", ngx.var.arg_n) }
        proxy_pass http://127.0.0.1:@PORT@/seen; }
    location /unbuffered { rewrite_by_lua_block { ngx.req.set_header("Content-Length", ngx.var.arg_n) }
        proxy_request_buffering off; proxy_pass http://127.0.0.1:@PORT@/seen; }
    location /more { more_set_input_headers "Content-Length: $arg_n"; proxy_pass http://127.0.0.1:@PORT@/seen; }
    location /given { rewrite_by_lua_block { ngx.req.read_body() ngx.req.set_header("Content-Length", ngx.var.arg_n) ngx.req.set_body_data("given") }
        proxy_pass http://127.0.0.1:@PORT@/seen; }
    location /capture { content_by_lua_block { ngx.req.read_body() ngx.req.set_header("Content-Length", ngx.var.arg_n)
        ngx.print(ngx.location.capture("/back", {method = ngx.HTTP_POST}).body) } }
    location /capture_always { content_by_lua_block { ngx.req.read_body() ngx.req.set_header("Content-Length", ngx.var.arg_n)
        ngx.print(ngx.location.capture("/back", {method = ngx.HTTP_PUT, always_forward_body = true}).body) } }
    location /capture_own { content_by_lua_block { ngx.req.read_body() ngx.req.set_header("Content-Length", ngx.var.arg_n)
        ngx.print(ngx.location.capture("/back", {method = ngx.HTTP_POST, body = "given"}).body) } }
    location /back { proxy_pass http://127.0.0.1:@PORT@/seen; }
    location /seen { client_body_buffer_size 8k; content_by_lua_block { ngx.req.read_body()
        ngx.print(tostring(ngx.var.http_content_length), " ", tostring(ngx.req.get_body_data())) } }
}
"""


@pytest.mark.parametrize("body", ["abcdef", "abcdef" * 10], ids=["memory", "file"])
def test_a_content_length_that_is_set_cuts_the_body_that_is_passed_on(body):
    """All of it went, and announced as such."""
    with Server(CUT) as server, server.client() as client:
        for path in ("/set", "/set_after", "/unbuffered", "/more", "/capture", "/capture_always"):
            for length, seen in ((3, "3 abc"), (0, "0 nil"), (len(body), "%d %s" % (len(body), body)), (len(body) + 9, "%d %s" % (len(body), body))):
                assert client.request("%s?n=%d" % (path, length), method="POST", body=body).text == seen, path
        for path in ("/given", "/capture_own"):
            assert client.request(path + "?n=3", method="POST", body=body).text == "5 given", path
