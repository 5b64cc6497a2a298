"""Rows of Lua, and what their scripts share."""

from row import ALL, CLOCKED, Row

REFERENCE_MODULES = ("ndk_http_module", "ngx_http_lua_module")
LUA = {"modules": REFERENCE_MODULES, "needs": ("ngx_http_lua_module",)}

OFF = "access_log off;"
EMPTY_GIF = "location = /empty.gif { %s empty_gif; }"
CONTENT = "location / { content_by_lua_block { %s } }"
HELLO = b"hello\n"
MEGABYTE, PIECE = 1048576, 4096
SLEEPING = 10000
SLEEP_SECONDS = 60          # longer than all of them need to arrive

# What is put before empty_gif, by the directive that it is a row of. Each does what its phase is for.
BEFORE = {
    "access": ("a header is checked", "access_by_lua_block { if ngx.var.http_x_token ~= 'secret' then "
               "return ngx.exit(403) end }"),
    "set": ("of an argument", "set_by_lua_block $lower { return string.lower(ngx.var.arg_name or 'X') }"),
    "log": ("a status is counted", "log_by_lua_block { counts = counts or {}; "
            "counts[ngx.status] = (counts[ngx.status] or 0) + 1 }"),
    "header-filter": ("a field is set", "header_filter_by_lua_block { ngx.header['X-One'] = 'one' }"),
}
TOKEN = ("X-Token: secret",)

REDIS = CONTENT % """
            local sock = ngx.socket.tcp()
            assert(sock:connect("127.0.0.1", {backend_port}))
            assert(sock:send("*2\\r\\n$3\\r\\nGET\\r\\n$8\\r\\ngreeting\\r\\n"))
            local line = assert(sock:receive())
            local value = assert(sock:receive(tonumber(line:sub(2))))
            assert(sock:receive(2))
            assert(sock:setkeepalive(60000, 64))
            ngx.print(value)
        """
# The counter shows who has arrived; one VM has them all, as there is one worker.
SLEEP = """location = /sleep { content_by_lua_block {
            sleeping = (sleeping or 0) + 1
            ngx.sleep(%d)
        } }
        location = /sleeping { content_by_lua_block { ngx.print(sleeping or 0) } }""" % SLEEP_SECONDS
SHARED = CONTENT % 'local words = ngx.shared.words; words:incr("count", 1); ngx.print(words:get("greeting"))'
SHARED_HTTP = OFF + " lua_shared_dict words 1m; " \
    'init_by_lua_block { ngx.shared.words:set("greeting", "hello\\n"); ngx.shared.words:set("count", 0) }'
MATCH = CONTENT % "local match = ngx.re.match(ngx.var.uri, [[^/items/(\\d+)/([a-z-]+)$]], 'jo'); " \
    "ngx.print(match[1], match[2])"
CAPTURE = "location /1k/ { root {root}; } " + \
    CONTENT % 'ngx.print(ngx.location.capture("/1k/000.txt").body)'
MEGABYTE_HTTP = OFF + f' init_by_lua_block {{ megabyte = ("x"):rep({MEGABYTE}); piece = ("x"):rep({PIECE}) }}'
PIECES = CONTENT % f"for _ = 1, {MEGABYTE // PIECE} do ngx.print(piece) end"


def before_rows():
    """What a phase in Lua costs: beside the reference, and beside our own without it."""
    for name, (what, text) in BEFORE.items():
        title = f"{name.replace('-', '_')}_by_lua, {what}"
        yield Row(f"lua-{name}", f"{title}, empty_gif", EMPTY_GIF % text, http=OFF, body_size=43,
                  headers=TOKEN, **LUA)
        yield Row(f"lua-{name}-own", f"{title}, empty_gif (reference: ours without)", EMPTY_GIF % "{only}",
                  http=OFF, body_size=43, headers=TOKEN, only=(text, ""), is_against_itself=True,
                  targets={"cpu": 1.3}, needs=LUA["needs"])


READ_FILE = CONTENT % """
            local file = assert(io.open("{root}" .. ngx.var.uri, "rb"))
            ngx.print(file:read("*a"))
            file:close()
        """
FORWARD = CONTENT % """
            local sock = ngx.socket.tcp()
            assert(sock:connect("127.0.0.1", {backend_port}))
            assert(sock:send("GET " .. ngx.var.request_uri .. " HTTP/1.1\\r\\nHost: app\\r\\n\\r\\n"))
            local size
            repeat
                local line = assert(sock:receive())
                size = tonumber(line:match("^[Cc]ontent%-[Ll]ength: (%d+)")) or size
            until line == ""
            ngx.print(assert(sock:receive(size)))
            assert(sock:setkeepalive(60000, 64))
        """
# Small answers, large ones, files and a proxy, all in content_by_lua: name, title, and what is special.
SITE = (
    ("small", "small answer", {"server": CONTENT % 'ngx.say("hello")', "body_size": 6}),
    ("1m", "1 MB", {"server": CONTENT % "ngx.print(megabyte)", "http": MEGABYTE_HTTP,
                    "body_size": MEGABYTE, "counted": (64, 320)}),
    ("file", "one file of 1 KB", {"server": READ_FILE, "uris": ("/1k/000.txt",), "body_size": 1024}),
    ("files", "1,000 files of 4 KB", {"server": READ_FILE, "body_size": 4096,
                                      "uris": tuple(f"/4k/{number:03d}.txt" for number in range(1000))}),
    ("proxy", "proxy, kept connections", {"server": FORWARD, "uris": ("/hello",), "body_size": 13,
                                          "backend": ("http",)}),
)


def site_rows():
    """Each with one worker and with two."""
    for name, title, special in SITE:
        for workers, word in ((1, "1 worker"), (2, "2 workers")):
            yield Row(f"lua-site-{name}-{workers}", f"in Lua: {title}; {word}, affinity auto",
                      workers=workers, is_bound=True, measures=ALL if workers == 1 else CLOCKED - {"syscalls"},
                      **{"http": OFF, **LUA, **special})


ROWS = (
    Row("lua-hello", "content_by_lua, hello", CONTENT % 'ngx.say("hello")', http=OFF,
        body_size=len(HELLO), targets={"cpu": 0.6, "instructions": 6000}, **LUA),
    Row("lua-1m", "1 MB from Lua, one string", CONTENT % "ngx.print(megabyte)", http=MEGABYTE_HTTP,
        body_size=MEGABYTE, counted=(64, 320), targets={"cpu": 0.6}, **LUA),
    Row("lua-1m-pieces", "1 MB from Lua, 256 pieces of 4 KB", PIECES, http=MEGABYTE_HTTP,
        body_size=MEGABYTE, counted=(64, 320), targets={"cpu": 0.6}, **LUA),
    *before_rows(),
    Row("lua-redis", "a cosocket asks redis, kept connections", REDIS, http=OFF, uris=("/hello",),
        body_size=len(HELLO), backend=("redis",), targets={"cpu": 0.8}, **LUA),
    Row("lua-capture", "ngx.location.capture of a file of 1 KB", CAPTURE, http=OFF, uris=("/capture",),
        body_size=1024, targets={"cpu": 0.7}, **LUA),
    Row("lua-shared", "ngx.shared get and incr; 2 workers", SHARED, http=SHARED_HTTP, uris=("/shared",),
        body_size=len(HELLO), workers=2, targets={"cpu": 0.7}, **LUA),
    Row("lua-re", "ngx.re.match with the cache", MATCH, http=OFF, uris=("/items/2042/white-horse",),
        body_size=len("2042white-horse"), targets={"cpu": 1.0}, **LUA),
    Row("lua-sleep", "ngx.sleep", SLEEP, http=OFF, uris=("/sleep",), waiting=SLEEPING,
        waiting_count="/sleeping", targets={"bytes_ratio": 1.0}, measures=frozenset({"memory"}), **LUA),
    *site_rows(),
)
