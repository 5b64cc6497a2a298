"""Lua: what functions give, and do, for every kind of argument."""

from ..engine import Config

MODULES = "".join("load_module /usr/lib/nginx/modules/%s.so;\n" % name for name in
                  ("ndk_http_module", "ngx_http_lua_module", "ngx_http_echo_module", "ngx_http_headers_more_filter_module"))

VALUES = ["nil", "true", "12", "-3.5", "'v'", "''", "{'a', 'b'}", "{}", "{1, 2, true}", r"'a\r\nX-I: b'", r"'a\0b'",
          r"'\200\255'", r"'a\1b\tc'"]

# Functions of the scripts below: q shows every byte, fields all fields of the request in order of their names.
FUNCTIONS = r"""
    init_by_lua_block {
        function q(value)
            if value == nil or type(value) == "function" or type(value) == "thread" then return type(value) end
            if type(value) == "table" then
                local words = {}
                for i = 1, #value do words[i] = q(value[i]) end
                return "{" .. table.concat(words, ",") .. "}"
            end
            return (tostring(value):gsub("[^ -~]", function(c) return string.format("<%02X>", c:byte()) end))
        end
        function show(...)
            local words = {}
            for i = 1, select("#", ...) do words[i] = q((select(i, ...))) end
            ngx.say(table.concat(words, " | "))
        end
        function all(fields)
            local words = {}
            for name, value in pairs(fields) do words[#words + 1] = q(name) .. "=" .. q(value) end
            table.sort(words)
            return table.concat(words, "; ")
        end
        function fields()
            show(all(ngx.req.get_headers(0)))
            for _, name in ipairs {"host", "cookie_x", "cookie_y", "content_type", "remote_user", "http_user_agent", "http_referer"} do
                show(name, ngx.var[name])
            end
        end
        function try(f, ...)
            local ok, err = pcall(f, ...)
            show(ok, ok and err or (tostring(err):gsub("^[^ ]*:%d+: ", "")))
        end
    }
"""


class Scripts:
    """Locations with scripts, and the rows that ask for them."""

    def __init__(self):
        self.locations, self.rows = [], []

    def add(self, script, *requests, directive="content_by_lua_block", more=""):
        """A script, and the requests for it: method and what follows the URI."""
        uri = "/%d" % len(self.locations)
        self.locations.append("location = %s { %s %s { %s } }" % (uri, more, directive, script))
        for request in requests or ["GET"]:
            method, _, rest = request.partition(" ")
            self.rows.append("%s %s %s" % (method, uri, rest))

    def config(self, name, http="", server="", files=None, after=""):
        return Config(name, FUNCTIONS + http + "server { listen 127.0.0.1:@PORT@; default_type text/plain; "
                      + server + "\n".join(self.locations) + "}" + after, "\n".join(self.rows), main=MODULES, errors=False,
                      files=files)


def request_fields():
    scripts = Scripts()
    request = ("GET | X-A: 1 | a_b: u | Cookie: x=1 | Cookie: y=2; x=3 | User-Agent: ua | Referer: r | X-Forwarded-For: 1.1.1.1 | "
               "Via: v | Authorization: Basic YTpi")
    for name in ["X-A", "a_b", "Host", "Cookie", "Content-Type", "Connection", "Transfer-Encoding", "User-Agent", "Range", "Referer",
                 "Authorization", "X-Forwarded-For", "Via", "Accept-Encoding", "Keep-Alive", "Upgrade", "Date", "If-None-Match"]:
        for value in VALUES:
            scripts.add("try(ngx.req.set_header, '%s', %s) fields()" % (name, value), request)
        scripts.add("try(ngx.req.clear_header, '%s') fields()" % name, request)
    for value in VALUES:
        if value.startswith("{"):
            continue    # its address is in the text
        scripts.add("try(ngx.req.set_header, %s, 'v') try(ngx.req.clear_header, %s) fields()" % (value, value), request)
    for host in ["bar.org:8080", "[::1]:80", "a/b", "a b", ".", "a.", "A_b.c", "a..b"]:
        scripts.add("local before = ngx.var.host try(ngx.req.set_header, 'Host', '%s') fields()" % host, request, "GET  HTTP/1.0 | -Host")
    return scripts.config("script-request-fields", "underscores_in_headers on;")


def captures():
    """What ngx.location.capture gives of answers of every kind."""
    scripts = Scripts()
    capture = "local r = ngx.location.capture('%s'%s) show(r.status, r.body, r.truncated, r.header['Content-Type'], r.header['X-A'], " \
              "r.header.Location)"
    answers = ["return %d;", "return %d x;", "content_by_lua_block { ngx.exit(%d) }", "content_by_lua_block { ngx.status = %d }",
               "content_by_lua_block { ngx.status = %d ngx.print('b') }", "content_by_lua_block { ngx.header.x_a = 1 ngx.exit(%d) }",
               "access_by_lua_block { ngx.exit(%d) } echo y;", "echo_status %d; echo q;"]
    inner = ""
    for status in [200, 201, 204, 206, 300, 301, 302, 304, 308, 400, 401, 403, 404, 413, 416, 429, 494, 500, 503, 599]:
        for number, answer in enumerate(answers):
            if status == 204 and "ngx.exit" in answer or status < 300 and "access_by" in answer:
                continue
            uri = "/in-%d-%d" % (status, number)
            inner += "location = %s { default_type in/type; %s }\n" % (uri, answer % status)
            scripts.add(capture % (uri, ""))
    for uri in ["/nope.html", "/nope", "/dir", "/dir/", "/a.txt", "/a.txt?x", "/../a.txt", "nope", "", "/%61.txt"]:
        scripts.add(capture % (uri, ""), "GET", "HEAD", "POST << abc")
    for options in ["nil", "12", "'x'", "{args = ''}", "{args = {}}", "{args = {a = false}}", "{args = {a = true}}", "{args = 12}",
                    "{args = true}", "{method = 99}", "{method = 'GET'}", "{body = 12}", "{body = {}}", "{vars = 1}", "{vars = {uri = 'x'}}",
                    "{vars = {nope = 'x'}}", "{ctx = 1}", "{share_all_vars = 1}", "{copy_all_vars = 'x'}", "{foo = 1}"]:
        scripts.add("try(function() %s end)" % (capture % ("/said", ", " + options)), "GET ?q", "HEAD")
    return scripts.config("script-captures", "types { text/html html; text/plain txt; }", inner + """
        root html;
        location = /said { content_by_lua_block { show(ngx.req.get_method(), ngx.var.args, ngx.is_subrequest) } }""",
                          files={"html/a.txt": "a\n", "html/dir/b.txt": "b\n"})


def arguments():
    """Functions of many kinds with arguments of every kind, and arguments of requests that are cut."""
    scripts = Scripts()
    for function in ["ngx.escape_uri", "ngx.unescape_uri", "ngx.md5", "ngx.encode_base64", "ngx.decode_base64", "ngx.crc32_short",
                     "ngx.encode_args", "ngx.decode_args", "ngx.req.set_uri", "ngx.req.set_uri_args", "ngx.req.set_method",
                     "ngx.req.set_body_data", "ngx.req.append_body", "ngx.exec", "ngx.redirect", "ngx.parse_http_time"]:
        for value in ["nil", "true", "false", "12", "-3.5", "'v'", "''", "print"]:
            scripts.add("try(%s, %s) show(ngx.var.uri, ngx.var.args, ngx.req.get_method())" % (function, value), "GET ?a=1", "HEAD")
        if function != "ngx.decode_args":
            scripts.add("try(%s)" % function, "GET")
    for phase in ["header_filter_by_lua_block", "body_filter_by_lua_block"]:
        for thrown in ["'x'", "'x', 0", "{}"]:
            scripts.add("""local co = coroutine.wrap(function() error(%s) end) local ok, err = pcall(function() co() end)
                        ngx.header.x_error = type(err) == "string" and err or type(err)""" % thrown, directive=phase, more="echo hello;")
    scripts.add("try(function() coroutine.create(print) end) try(function() coroutine.wrap(print) end)")
    for value in ["'a', 1, true, nil, 'b'", "{'a', {1, {true, 'x'}}}", "{'a', print}", "{a = 1}", "{1, 2, nil, 4}", "ngx.null", "-0, 0.5, 1e15"]:
        for function in ["ngx.say", "ngx.print"]:
            scripts.add("try(%s, %s) ngx.eof() local ok, err = %s('z') ngx.log(ngx.WARN, tostring(ok), err)" % (function, value, function),
                        "GET", "HEAD", "GET  HTTP/1.0")
    script = """for max = 0, 3 do
        local function list(args, err) show(max, all(args), err) end
        list(ngx.req.get_uri_args(max)) ngx.req.read_body() list(ngx.req.get_post_args(max)) list(ngx.decode_args(ngx.var.args or "", max))
    end"""
    for args in ["&a=1&", "&a=1", "&&", "=x&a", "&=&a=1&b", "a=1&", "a=1", "a&&b", "&&a&b", "=1&=2&c", "&a", "&a&b", "a&b&", "&", "="]:
        scripts.add(script, "POST ?%s << %s" % (args, args))
    for phase in ["header_filter_by_lua_block", "body_filter_by_lua_block", "log_by_lua_block", "set_by_lua_block $x", "access_by_lua_block"]:
        for script in ["error()", "error({})", "error('x', 0)", "ngx.say('x')", "ngx.sleep(0)", "ngx.location.capture('/0')", "ngx.exec('/0')",
                       "ngx.req.read_body()", "ngx.req.socket()", "ngx.thread.spawn(print)"]:
            scripts.add(script, directive=phase, more="echo hello;")
    return scripts.config("script-arguments")


def sockets():
    """Functions of cosockets with arguments of every kind: never connected, connected, closed, kept, at the end of what the peer says."""
    scripts = Scripts()
    begin = """local port = tonumber(ngx.var.port) local s = ngx.socket.tcp() s:settimeout(5000)
        local function open() s:connect("127.0.0.1", port) end
        local function get() s:send("GET / HTTP/1.0\\r\\n\\r\\n") end """
    states = ["", "open()", "open() s:close()", "open() s:setkeepalive()", "open() get() s:receive('*a')"]
    for function in ["settimeout", "settimeouts", "setoption", "send", "receiveany", "receiveuntil", "getreusedtimes", "close"]:
        for arguments in ["nil", "true", "'x'", "''", "{}", "'x', 1", "1, 1, 1", "'keepalive', true"]:
            for state in states:
                scripts.add(begin + "%s try(s.%s, s, %s)" % (state, function, arguments))
    for options in ["nil", "{}", "{inclusive = nil}", "{inclusive = 1}", "{foo = 1}", "true", "1", "'x'"]:
        scripts.add(begin + "open() get() try(s.receiveuntil, s, 'x', %s) local next = s:receiveuntil('\\r\\n') try(next, %s)"
                    % (options, options))
    for arguments in ["nil", "1", "0", "-1", "1, 1", "1, 0", "1, -1", "1, 'x'", "nil, 1", "'1', '1'", "1, 1, 1"]:
        scripts.add(begin + "open() try(s.setkeepalive, s, %s) try(s.setkeepalive, s)" % arguments)
        scripts.add(begin + "open() get() s:receive('*a') try(s.setkeepalive, s, %s)" % arguments)
    for arguments in ["nil, nil", "false, false", "true", "nil, true", "{}", "'a', 'b'", "false, 1"]:
        scripts.add(begin + "open() try(s.setclientcert, s, %s)" % arguments)
    for state in states:
        scripts.add(begin + "%s try(s.sslhandshake, s) try(s.send, s, 'x')" % state)
    return scripts.config("script-sockets", "lua_socket_log_errors off;", "set $port @PORT1@;",
                          after="server { listen 127.0.0.1:@PORT1@; location / { return 200 hi; } }")


def threads():
    """What threads say whose subrequests end at once, or later: in which order."""
    scripts = Scripts()
    capture = """ngx.thread.spawn(function()
        ngx.say("begin %s") local r = ngx.location.capture("%s") ngx.say("end ", r.status, " ", r.body) end) """
    for uris in [["/201", "/204", "/404"], ["/said", "/204"], ["/late", "/404", "/said"], ["/404", "/404"], ["/204", "/late"]]:
        spawns = "".join(capture % (uri, uri) for uri in uris)
        scripts.add(spawns + "ngx.say('main')", "GET", "GET  HTTP/1.0", "POST << abc")
    return scripts.config("script-threads", server="""
        location = /201 { return 201; } location = /204 { return 204; } location = /404 { return 404; }
        location = /said { content_by_lua_block { ngx.say("said") } }
        location = /late { content_by_lua_block { ngx.sleep(0.02) ngx.say("late") } }""")


def heads():
    """Header filters that give another answer, beside headers_more, and the order of both before the content. The reference's lines of lua
    come first, as in OpenResty's build."""
    return Config("script-heads", r"""
        server {
            listen 127.0.0.1:@PORT@;
            root html;
            location /refused { header_filter_by_lua_block { ngx.header["X-L"] = "l" ngx.exit(403) } proxy_pass http://127.0.0.1:@PORT1@/all; }
            location /refused/moved { header_filter_by_lua_block { ngx.exit(404) } return 302 /z; }
            location /refused/file { header_filter_by_lua_block { ngx.exit(500) } try_files /a.txt =404; }
            location /refused/page { error_page 403 /page; header_filter_by_lua_block { ngx.exit(403) } proxy_pass http://127.0.0.1:@PORT1@/all; }
            location = /page { more_set_headers "X-P: p"; return 200 page; }
            location /created/ { header_filter_by_lua_block { ngx.status = 201 } alias html/; }
            location /part/ { header_filter_by_lua_block { ngx.status = 206 } alias html/; }
            location /proxied { header_filter_by_lua_block { ngx.status = 201 } proxy_pass http://127.0.0.1:@PORT1@/all; }
            location /capture { content_by_lua_block { local r = ngx.location.capture(ngx.var.arg_u)
                                ngx.say(r.status, " ", r.header["Content-Length"], " ", r.header["X-A"]) } }
            location = /204 { return 204; }
            location = /204/more { more_set_headers "X-A: a"; return 204; }
            location = /204/up { proxy_pass http://127.0.0.1:@PORT1@/204; }
            location /input { more_set_input_headers "X-A: more"; rewrite_by_lua_block { ngx.req.set_header("X-B", ngx.var.http_x_a) ngx.req.set_header("X-A", "lua") }
                              echo "$http_x_a $http_x_b"; }
            location /output { more_set_headers "X-A: more"; header_filter_by_lua_block { ngx.header["X-B"] = ngx.header["X-A"] ngx.header["X-A"] = "lua" } return 200 x; }
        }
        server {
            listen 127.0.0.1:@PORT1@;
            location /all { add_header X-A 1; add_header Set-Cookie a=b; add_header Location /x; add_header Last-Modified "Mon, 01 Jan 2001 00:00:00 GMT"; return 200 up; }
            location /204 { return 204; }
        }
        """, "\n".join("GET " + target for target in (
            "/refused/file", "/created/a.txt", "/part/a.txt", "/proxied", "/capture?u=/204", "/capture?u=/204/more",
            "/capture?u=/204/up", "/input", "/output")) + """
GET /input | X-A: client
""" + "".join("%s => %d kept | %s -- the reference closes the connection, which its head keeps\n" % row for row in (
                ("GET /refused", 403, "X-L: l | -X-A | -Set-Cookie | -Location | -Last-Modified | body~403 Forbidden"),
                ("HEAD /refused", 403, "X-L: l | -X-A | -Set-Cookie"),
                ("GET /refused/moved", 404, "-Location | body~404 Not Found"),
                ("GET /refused/page", 403, "X-P: p | -X-A | -Set-Cookie | body~page"),
            )) + """
""", files={"html/a.txt": "a file\n"}, main=MODULES)


CONFIGS = [request_fields(), captures(), arguments(), sockets(), threads(), heads()]
