"""sub_filter: what is replaced, and what becomes of the head."""

from ..engine import Config

# Pages that both servers make alike but for their version.
FILES = {
    "html/foo.html": "a foo b foo\n", "html/FOO.html": "a FOO b fOO\n", "html/none.html": "nothing here\n",
    "html/empty.html": "", "html/foo.txt": "a foo b foo\n", "html/foo.xyz": "a foo\n",
    "html/long.html": "".join("%d foobar foo fo\n" % n for n in range(5000)),
    "html/tail.html": "x" * 70000 + "fo",
    "html/joint.html": "y" * 32766 + "foo" + "z" * 32766 + "foo",
}

CONFIGS = [
    Config("sub", r"""
        server {
            listen 127.0.0.1:@PORT@;
            server_name localhost;
            root html;
            sub_filter foo "<bar>";
            location / { }
            location /off/ { sub_filter $arg_none x; alias html/; }
            location /many/ { sub_filter_once off; alias html/; }
            location /many/memory/ { sub_filter_once off; sendfile off; output_buffers 1 4k; alias html/; }
            location /shrunk/ { sub_filter_once off; sub_filter foo ""; alias html/; }
            location /kept/ { sub_filter_last_modified on; alias html/; }
            location /types/ { sub_filter_types text/plain; alias html/; }
            location /any/ { sub_filter_types *; alias html/; }
            location /any/untyped/ { sub_filter_types *; types { } default_type ""; alias html/; }
            location /inherits/ {
                sub_filter_types text/plain TEXT/X-Y;
                location /inherits/own/ { sub_filter a A; sub_filter b B; sub_filter c C; alias html/; }
                alias html/;
            }
            location /error/ { sub_filter "not found" "lost"; sub_filter center middle; alias html/none/; }
            location /redirected { sub_filter "302 found" "elsewhere"; return 302 /a; }
            location /nothing { sub_filter_types *; return 204; }
            location /page { error_page 404 =200 /foo.html; sub_filter a x; alias html/none/; }
            location /proxied/ { sub_filter_types *; proxy_pass http://127.0.0.1:@PORT1@/; }
            location /unbuffered/ { sub_filter_types *; proxy_buffering off; proxy_pass http://127.0.0.1:@PORT1@/; }
            location /kept/proxied/ { sub_filter_last_modified on; sub_filter_types *; proxy_pass http://127.0.0.1:@PORT1@/; }
            location /if/ { if ($arg_x) { add_header X-If yes; } alias html/; }
        }
        server {
            listen 127.0.0.1:@PORT1@;
            server_name backend;
            root html;
            access_log off;
            location /strong { add_header ETag '"abc"'; return 200 "foo\n"; }
            location /weak { add_header ETag 'W/"abc"'; return 200 "foo\n"; }
            location /bare { add_header ETag 'abc'; return 200 "foo\n"; }
            location /coded { add_header Content-Encoding x; return 200 "foo\n"; }
            location /trailer { add_trailer X-T t; return 200 "foo\n"; }
            location /bad { return 404 "foo\n"; }
            location /dated { add_header Last-Modified never; return 200 "foo\n"; }
        }
        """, r"""
        GET /foo.html
        GET /FOO.html
        GET /none.html
        GET /empty.html
        GET /foo.txt
        HEAD /foo.html
        HEAD /empty.html
        HEAD /foo.txt
        GET /foo.html HTTP/1.0
        GET /foo.html HTTP/1.0 | Connection: keep-alive
        GET /foo.html | Range: bytes=0-3
        GET /foo.html | If-Modified-Since: Tue, 14 Nov 2023 22:13:20 GMT
        GET /kept/foo.html | If-Modified-Since: Tue, 14 Nov 2023 22:13:20 GMT
        GET /kept/foo.html | If-None-Match: "6553f100-c"
        GET /kept/foo.html | If-Match: "6553f100-c"
        GET /kept/foo.html | If-Match: W/"6553f100-c"
        => 412 kept -- 1.22 says keep-alive and closes
        GET /kept/foo.html | Range: bytes=0-3
        GET /kept/foo.html
        HEAD /kept/foo.html
        GET /off/foo.html
        HEAD /off/foo.html
        GET /many/foo.html
        GET /many/long.html HTTP/1.0
        GET /many/memory/long.html HTTP/1.0
        GET /many/tail.html HTTP/1.0
        GET /many/joint.html HTTP/1.0
        GET /many/memory/joint.html HTTP/1.0
        GET /shrunk/foo.html
        GET /shrunk/long.html HTTP/1.0
        GET /types/foo.txt
        GET /types/foo.html
        GET /types/foo.xyz
        GET /any/foo.xyz
        GET /any/untyped/foo.txt
        GET /any/foo.txt | If-Modified-Since: Tue, 14 Nov 2023 22:13:20 GMT
        GET /inherits/foo.txt
        GET /inherits/own/foo.txt
        GET /inherits/own/foo.html
        GET /error/x.html
        HEAD /error/x.html
        GET /redirected
        GET /nothing
        GET /page/x
        GET /if/foo.html?x=1
        POST /foo.html << x
        GET /foo.html && GET /many/foo.html && GET /foo.txt
        GET /proxied/strong
        GET /proxied/weak
        GET /proxied/bare
        GET /proxied/coded
        GET /proxied/trailer
        GET /proxied/bad
        GET /proxied/dated
        GET /unbuffered/strong
        HEAD /proxied/strong
        GET /kept/proxied/strong
        GET /kept/proxied/weak
        GET /kept/proxied/bare
        GET /proxied/foo.html
        => 200 | -Accept-Ranges | body~a <bar> b foo -- ranges of what the client sees are not to be had
        """, files=FILES),

    # Which text is taken of several; t is the body.
    Config("sub_choice", r"""
        server {
            listen 127.0.0.1:@PORT@;
            server_name localhost;
            sub_filter_types *;
            sub_filter_once off;
            location / { sub_filter foo bar; return 200 "$arg_t\n"; }
            location /short { sub_filter ab 1; sub_filter abc 2; return 200 "$arg_t\n"; }
            location /long { sub_filter abc 1; sub_filter ab 2; return 200 "$arg_t\n"; }
            location /inner { sub_filter bc 1; sub_filter abcd 2; return 200 "$arg_t\n"; }
            location /overlap { sub_filter bcd 1; sub_filter abc 2; return 200 "$arg_t\n"; }
            location /three { sub_filter abcde 1; sub_filter cd 2; sub_filter bx 3; return 200 "$arg_t\n"; }
            location /same { sub_filter ab 1; sub_filter AB 2; return 200 "$arg_t\n"; }
            location /once { sub_filter_once on; sub_filter ab 1; sub_filter AB 2; sub_filter c 3; return 200 "$arg_t\n"; }
            location /self { sub_filter aab X; return 200 "$arg_t\n"; }
            location /single { sub_filter a bb; return 200 "$arg_t\n"; }
            location /variables { sub_filter "$arg_a" "<$arg_a>"; sub_filter "x$arg_b" "[$arg_b]"; return 200 "$arg_t\n"; }
            location /variables/once { sub_filter_once on; sub_filter $arg_a $arg_b; return 200 "$arg_t\n"; }
        }
        """, r"""
        GET /?t=foofoofo
        GET /?t=FoOf
        GET /?t=
        GET /?t=oof
        GET /short?t=ab-abc-abd
        GET /long?t=ab-abc-abd
        GET /inner?t=abcd-abcx-bcd
        GET /overlap?t=xabcdy-bcd
        GET /three?t=abcde-abcdx-abx-cde
        GET /same?t=ab-AB-aB
        GET /once?t=ab-ab-ab-c-c
        GET /self?t=aab-aaab-aaaab-abaab
        GET /single?t=a
        GET /single?t=aa
        GET /single?t=xaxax
        GET /variables?a=foo&b=bar&t=foo-xbar-bar-FOO
        GET /variables?a=&b=&t=foo-x
        GET /variables?b=b&t=axbb
        GET /variables?a=aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab&t=aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab
        GET /variables/once?a=o&b=0&t=foo
        GET /variables/once?a=&b=0&t=foo
        GET /variables/once?b=0&t=foo
        HEAD /variables/once?a=&b=0&t=foo
        HEAD /variables/once?a=o&b=0&t=foo
        """),
]
