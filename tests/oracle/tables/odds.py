"""What is left over: defaults, MSIE habits, post_action, odd combinations, variables in logs."""

from ..engine import Config
from .variables import NAMES

MSIE = "User-Agent: Mozilla/4.0 (compatible; MSIE 7.0; Windows NT 5.1)"
LOGGED = [name for name in NAMES if not name.startswith("connections")]

CONFIGS = [
    Config("defaults", r"""
        server { listen 127.0.0.1:@PORT@; }
        """, """
        GET /
        GET /a.txt
        GET /a.html
        GET /a.jpg
        GET /a.gif
        GET /a.css
        GET /dir
        GET /dir/
        GET /none
        POST /a.txt << x
        GET /a.txt | Range: bytes=0-0
        """, files={"html/index.html": "default index\n", "html/a.txt": "a\n", "html/a.html": "h",
                    "html/a.jpg": "j", "html/a.gif": "g", "html/a.css": "c", "html/dir/x": ""}),

    Config("msie", r"""
        server {
            listen 127.0.0.1:@PORT@;
            location /refresh { msie_refresh on; return 302 /to?a="b&c; }
            location /refresh301 { msie_refresh on; return 301 http://x.example/; }
            location /refresh/ { msie_refresh on; return 302 http://x/$uri?$args; }
            location /norefresh { return 302 /to; }
            location /padding { return 404; }
            location /nopadding { msie_padding off; return 404; }
            location /own { error_page 404 /page; return 404; }
            location /page { return 200 "page"; }
        }
        """, "\n".join("GET %s | %s" % (target, MSIE) for target in (
            "/refresh", "/refresh/%41%3c'`|\\?<>\"'%22{}~^", "/refresh301", "/norefresh", "/padding", "/nopadding", "/own"))
           + """
        GET /refresh
        GET /padding
        GET /padding | User-Agent: Mozilla/5.0 (Windows NT 6.1; Trident/7.0; rv:11.0) like Gecko
        HEAD /refresh | %s
        HEAD /padding | %s
        """ % (MSIE, MSIE)),

    Config("variables_logged", r"""
        log_format names '$remote_port %s';
        server {
            listen 127.0.0.1:@PORT@;
            server_name localhost;
            access_log logs/oracle.access oracle;
            access_log logs/names.access names;
            add_header X x;
            location / { root html; }
            location /moved { return 302 /else; }
            location /text { return 200 "some text\n"; }
            location /again { rewrite ^ /text?more=1 last; }
            location /page { error_page 404 /text; }
        }
        """ % " ".join("%s=[$%s]" % (name, name) for name in LOGGED
                       if name not in ("bytes_sent", "body_bytes_sent")), r"""
        GET /a.txt
        GET /a.txt?a=1&dash-ed=2 | Cookie: c=1 | Referer: r | Via: v | X-Forwarded-For: f | Dash-Ed: d
        GET /moved
        GET /text HTTP/1.0
        GET /again?old
        GET /page/none
        HEAD /text
        POST /text | Content-Type: text/x << body
        GET /text | Authorization: Basic dXNlcjpw
        GET /text && GET /a.txt && GET /moved
        GET /text | Host: OTHER.example.:99
        GET http://abs.example/text
        """, files={"html/a.txt": "a\n"}),

    Config("post_action", r"""
        log_format oracle_after '$remote_port $status $uri $request_uri';
        server {
            listen 127.0.0.1:@PORT@;
            location /with { post_action /after; return 200 "x"; }
            location /named { post_action @after; alias html/; }
            location /after { access_log logs/after.access oracle_after; return 200 "y"; }
            location @after { access_log logs/after.access oracle_after; return 200 "y"; }
        }
        """, """
        GET /named/a.txt
        GET /named/a.txt && GET /named/a.txt
        """, files={"html/a.txt": "a\n"}),

    Config("combinations", r"""
        server {
            listen 127.0.0.1:@PORT@;
            server_name localhost;
            root html;
            location /if-root/ { if ($arg_b) { root html/b; } }
            location /if-nested/ {
                set $x 1;
                location ~ \.txt$ { if ($arg_x) { add_header X-If $arg_x; } add_header X-Loc l; }
            }
            location /expires-ranges/ { alias html/; expires 1h; add_header X-R $sent_http_content_range; }
            location /alias-if/ { alias html/; if ($arg_x) { add_header X-If yes; } }
            location /alias-index/ { alias html/dir/; index in.txt; autoindex on; }
            location /try-alias-args/ { alias html/; try_files $uri a.txt =404; }
            location /internal-redirect/ { index /dir/in.txt; alias html/dir/; }
            location /chunked-off/ { alias html/; chunked_transfer_encoding off; add_trailer X t; }
            location /error-in-error/ { error_page 404 /error-in-error/none; }
            location /limit-named/ { limit_except GET { deny all; } try_files /none @get; }
            location @get { return 200 "named after limit_except\n"; }
            location /satisfy/ { satisfy any; allow 127.0.0.1; deny all; alias html/; }
            location ~ ^/caps/(?<dir>\w+)/(\w+)$ { alias html/$dir/$2.txt; add_header X-Caps "$dir $1 $2"; }
            location ~ ^/roots/(\w+) { root html/$1; try_files /in.txt =404; }
            location /types-off/ { alias html/; types { } default_type application/x-none; }
            location /dot/ { alias html/./dir/../; }
            location /slashes/ { alias html//dir//; }
        }
        """, """
        GET /if-root/f
        GET /if-root/f?b=1
        GET /if-nested/a.txt
        GET /if-nested/a.txt?x=1
        GET /if-nested/a.bin
        GET /expires-ranges/a.txt | Range: bytes=0-0
        GET /alias-if/a.txt
        GET /alias-if/a.txt?x=1
        GET /alias-index/
        GET /try-alias-args/none?x
        GET /internal-redirect/
        GET /chunked-off/a.txt
        GET /error-in-error/x
        GET /limit-named/x
        POST /limit-named/x << x
        GET /satisfy/a.txt
        GET /caps/dir/in
        GET /roots/dir
        GET /roots/none
        GET /types-off/a.txt
        GET /dot/a.txt
        GET /slashes/in.txt
        GET /slashes/
        HEAD /alias-index/
        OPTIONS /dot/a.txt
        """, files={"html/a.txt": "a\n", "html/dir/in.txt": "in\n", "html/if-root/f": "plain\n",
                    "html/b/if-root/f": "b\n", "html/if-nested/a.txt": "n\n",
                    "html/if-nested/a.bin": "bin\n"}),
]
