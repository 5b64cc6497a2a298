"""addition: subrequests before and behind a response."""

from ..engine import Config

FILES = {"html/%s.html" % name: "<%s>\n" % name for name in (
    "a", "before", "after", "missing", "errors", "redirect", "denied", "nested", "nested2", "page", "method",
    "proxied", "relative", "asked", "quoted", "rewritten", "sub", "variables", "hidden", "logged", "named")}
FILES.update({
    "html/empty.html": "", "html/txt.txt": "text\n", "html/any.txt": "text\n", "html/foo.txt": "foo\n",
    "html/big.html": "M" * 100000 + "\n", "html/big.txt": "B" * 200000 + "\n",
})

CONFIGS = [
    Config("addition", r"""
        add_header X-Uri "$uri" always;
        server {
            listen 127.0.0.1:@PORT@;
            server_name localhost;
            root html;
            location = /a.html { add_before_body /b; add_after_body /c; }
            location = /before.html { add_before_body /b; }
            location = /after.html { add_after_body /c; }
            location = /empty.html { add_before_body /b; add_after_body /c; }
            location = /missing.html { add_before_body /nowhere; add_after_body /c; }
            location = /errors.html { add_before_body /e500; add_after_body /e204; }
            location = /redirect.html { add_before_body /e302; add_after_body /c; }
            location = /denied.html { add_before_body /denied; add_after_body /internal; }
            location = /nested.html { add_before_body /nested2.html; add_after_body /nested.html; }
            location = /nested2.html { add_before_body /b; add_after_body /c; }
            location = /page.html { error_page 404 =200 /a.html; add_before_body /b; alias html/none; }
            location = /method.html { add_after_body /told; if ($request_method = POST) { return 200 "post\n"; } }
            location = /proxied.html { add_before_body /p/b; add_after_body /p/c; }
            location = /relative.html { add_before_body /../b; add_after_body c; }
            location = /asked.html { add_before_body /told?x=1; add_after_body /told?; }
            location = /quoted.html { add_before_body /%62; add_after_body "/with space"; }
            location = /rewritten.html { add_before_body /rewrite; add_after_body /tried; }
            location = /big.html { add_before_body /big.txt; add_after_body /big.txt; }
            location = /memory/big.html { sendfile off; add_before_body /big.txt; add_after_body /big.txt; alias html/big.html; }
            location = /txt.txt { add_before_body /b; }
            location = /any.txt { addition_types *; add_before_body /b; }
            location = /typed.txt { addition_types text/css TEXT/plain; add_after_body /c; alias html/txt.txt; }
            location = /status { add_before_body /b; add_after_body /c; default_type text/html; return 202 "body\n"; }
            location = /notfound { add_before_body /b; add_after_body /c; default_type text/html; return 404; }
            location = /sub.html { sub_filter foobar X; sub_filter_once off; add_before_body /foo; add_after_body /bar;
                                   default_type text/html; return 200 "barfoobarfoo"; }
            location = /inner { sub_filter foo P; add_before_body /changed; add_after_body /changed; default_type text/html; return 200 "foo\n"; }
            location = /changed { sub_filter foo C; sub_filter_types *; alias html/foo.txt; }
            location = /variables.html { set $x main; add_before_body /set; add_after_body /shown; }
            location = /proxy { add_before_body /b; add_after_body /c; proxy_pass http://127.0.0.1:@PORT1@/page; }
            location = /unbuffered { add_before_body /b; add_after_body /c; proxy_buffering off; proxy_pass http://127.0.0.1:@PORT1@/page; }
            location = /hidden.html { internal; add_before_body /b; }
            location /nothing/ { add_before_body ""; add_after_body /c; alias html/; }
            location /none/ { add_before_body ""; add_after_body ""; alias html/; }
            location /inherit/ {
                add_before_body /b;
                location /inherit/own/ { add_after_body /c; alias html/; }
                location /inherit/other/ { add_before_body /c; alias html/; }
                alias html/;
            }
            location = /foo { return 200 "foobarfoo"; }
            location = /bar { return 200 "barfoobar"; }
            location = /b { return 200 "before\n"; }
            location = /c { return 200 "after\n"; }
            location = /told { return 200 "$request_method $request_uri $uri $args $is_args $http_x\n"; }
            location = /e500 { return 502; }
            location = /e204 { return 204; }
            location = /e302 { return 302 /elsewhere; }
            location = /denied { deny all; alias html/foo.txt; }
            location = /internal { internal; alias html/foo.txt; }
            location = /rewrite { rewrite ^ /told last; }
            location = /tried { try_files /nope /foo.txt; }
            location = /set { set $x "set by $x"; return 200 "$x\n"; }
            location = /shown { return 200 "$x\n"; }
            location /p/ { proxy_pass http://127.0.0.1:@PORT1@/; }
            location = "/with space" { return 200 "space\n"; }
        }
        server {
            listen 127.0.0.1:@PORT1@;
            server_name backend;
            access_log off;
            default_type text/html;
            location / { return 200 "backend $request_method $request_uri\n"; }
        }
        """, r"""
        GET /a.html
        GET /before.html
        GET /after.html
        GET /empty.html
        HEAD /a.html
        GET /a.html HTTP/1.0
        GET /a.html | Range: bytes=0-2
        GET /a.html | If-Modified-Since: Tue, 14 Nov 2023 22:13:20 GMT
        GET /a.html | If-None-Match: "6553f100-4"
        GET /a.html && GET /after.html && GET /txt.txt
        GET /missing.html
        GET /errors.html
        GET /redirect.html
        GET /denied.html
        GET /nested.html
        GET /nested2.html
        GET /page.html
        GET /method.html
        GET /method.html | X: y
        POST /method.html << body
        GET /proxied.html
        HEAD /proxied.html
        GET /relative.html
        GET /asked.html
        GET /asked.html?q=1
        GET /quoted.html
        GET /rewritten.html
        GET /big.html HTTP/1.0
        GET /memory/big.html HTTP/1.0
        GET /txt.txt
        GET /any.txt
        GET /typed.txt
        GET /status
        GET /notfound
        GET /sub.html
        GET /inner
        GET /variables.html
        GET /proxy
        GET /unbuffered
        HEAD /proxy
        GET /hidden.html
        GET /nothing/a.html
        GET /none/a.html
        GET /inherit/a.html
        GET /inherit/own/a.html
        GET /inherit/other/a.html
        """, files=FILES),
]
