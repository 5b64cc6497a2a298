"""subs_filter: lines in which texts and expressions are replaced."""

from ..engine import Config

CONFIGS = [
    Config("subs_filter", r"""
        types { text/plain txt; }
        default_type text/html;
        subs_filter outer OUT;
        server {
            listen 127.0.0.1:@PORT@;
            root html;
            location /all { subs_filter hello bye; return 200 "hello Hello hello\nhello\n"; }
            location /nocase { subs_filter hEllo bye i; return 200 "hello Hello hello\nhello"; }
            location /once { subs_filter hello bye o; return 200 "hello Hello hello\nhello"; }
            location /regex { subs_filter 'h(.)l+' '<$1>' r; return 200 "hello Hello hallo\nhello"; }
            location /regex/nocase { subs_filter 'h(.)l+' '<$1>' ir; subs_filter '<e>' X; return 200 "hello Hello hallo\nhello"; }
            location /regex/lines { subs_filter 'a.b' X rg; return 200 "a\nb\naxb\n"; }
            location /regex/ends { subs_filter '^a' X rg; subs_filter 'b$' Y rg; return 200 "aab aab\naab\r\naab"; }
            location /regex/groups { subs_filter '(h)(e)(l)' '$3$2$1' r; return 200 "hello\n"; }
            location /regex/once { subs_filter 'l' L or; return 200 "hello\nhello\n"; }
            location /chain { subs_filter a b; subs_filter b c; return 200 "a b a\n"; }
            location /other { subs_filter a b; default_type text/plain; return 200 "a b a\n"; }
            location /types { subs_filter a b; subs_filter_types text/plain; default_type text/plain; return 200 "a b a\n"; }
            location /lines { subs_filter 'a\nb' X; return 200 "a\nb\n"; }
            location /vars { subs_filter $host X; subs_filter x "$host-$uri"; return 200 "localhost x\n"; }
            location /both { subs_filter hello bye; sub_filter bye ciao; return 200 "hello\n"; }
            location /bypass { subs_filter hello bye g; subs_filter_bypass $arg_b; return 200 "hello hello\n"; }
            location /page { error_page 404 /page/shown; return 404; }
            location /page/shown { subs_filter a b; return 200 aaa; }
            location /nothing { subs_filter a ''; return 200 "aaa\nabc"; }
            location /buffers { subs_line_buffer_size 2 16; subs_filter abc x; return 200 "0123456789abcdef0123456789abcabcabcabcabcabcabcabc\n"; }
            location /own { subs_filter a b; return 200 "a outer"; }
            location /inherited { return 200 "a outer"; }
            location /none { subs_filter a b; return 204; }
            location /up { subs_filter a b; proxy_pass http://127.0.0.1:@PORT1@; }
        }
        server { listen 127.0.0.1:@PORT1@; return 200 "a outer"; }
        """, "\n".join("GET " + target for target in (
            "/all", "/nocase", "/once", "/regex", "/regex/nocase", "/regex/lines", "/regex/ends", "/regex/groups", "/regex/once", "/chain",
            "/other", "/types", "/lines", "/vars", "/both", "/bypass", "/bypass?b=1", "/bypass?b=0", "/page", "/nothing", "/buffers",
            "/own", "/inherited", "/none", "/up"))
        + "\nHEAD /all\nGET /all HTTP/1.0\nGET /all | Range: bytes=0-3\nGET /other | Range: bytes=0-3",
           main="load_module /usr/lib/nginx/modules/ngx_http_subs_filter_module.so;"),
]
