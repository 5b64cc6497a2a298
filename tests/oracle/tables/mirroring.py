"""mirror: what is asked as well, and with what; the access log tells of the subrequests."""

from ..engine import Config

CONFIGS = [
    Config("mirror", r"""
        client_body_buffer_size 1k;
        log_format mirror '$remote_port $status "$request" "$uri" "$args"';
        server {
            listen 127.0.0.1:@PORT@;
            root html;
            client_max_body_size 1k;
            location / { mirror /m; }
            location /gif { mirror /m; empty_gif; }
            location /many { mirror /m/1; mirror /m/2; mirror /m/1; empty_gif; }
            location /off { mirror off; empty_gif; }
            location /in { mirror /m; empty_gif; location /in/off { mirror off; empty_gif; } location /in/own { mirror /m/own; empty_gif; }
                           location /in/same { empty_gif; } }
            location /return { mirror /m; return 204; }
            location /denied { mirror /m; deny all; empty_gif; }
            location /limited { mirror /m; limit_except GET { deny all; } empty_gif; }
            location /missing { mirror /m; root none; }
            location /dir/ { mirror /m; index a.html; }
            location /tried { mirror /m; try_files /none.txt /a.txt; }
            location /named { mirror /m; try_files /none.txt @named; }
            location @named { mirror /m/named; empty_gif; }
            location /error { mirror /m; error_page 404 = @named; root none; }
            location /rewritten { mirror /m; rewrite ^ /gif last; }
            location /if { mirror /m; if ($arg_x) { add_header X-If y; } empty_gif; }
            location /args { mirror /m?own=1; empty_gif; }
            location /nowhere { mirror /none; empty_gif; }
            location /self { mirror /self; empty_gif; }
            location /up { mirror /m/up; proxy_pass http://127.0.0.1:@PORT1@; }
            location /unbuffered { mirror /m/up; proxy_request_buffering off; proxy_pass http://127.0.0.1:@PORT1@; }
            location /nobody { mirror /m/up; mirror_request_body off; proxy_pass http://127.0.0.1:@PORT1@; }
            location /refused { mirror /m/refused; empty_gif; }
            location /ssi/ { ssi on; ssi_types *; mirror /m; }
            location /m { log_subrequest on; access_log logs/mirror.access mirror; set $mirrored yes; return 200 "mirrored\n"; }
            location /m/named { log_subrequest on; access_log logs/mirror.access mirror; return 404; }
            location /m/own { log_subrequest on; access_log logs/mirror.access mirror; root none; }
            location /m/refused { log_subrequest on; access_log logs/mirror.access mirror; proxy_pass http://127.0.0.1:@PORT2@; }
            location /m/up { log_subrequest on; access_log logs/mirror.access mirror; proxy_pass http://127.0.0.1:@PORT1@; }
        }
        server { listen 127.0.0.1:@PORT1@;
                 location / { return 200 "$request_method $request_uri l=$http_content_length x=$http_x\n"; } }
        """, r"""
        GET /a.txt
        HEAD /a.txt
        GET /a.txt?a=b
        POST /a.txt << body
        GET /gif && GET /gif && GET /off
        HEAD /gif
        GET /many?1
        GET /off
        GET /in
        GET /in/off
        GET /in/own
        GET /in/same
        GET /return
        GET /denied
        POST /limited << body
        GET /missing
        GET /dir/
        GET /tried
        GET /named
        GET /error
        GET /rewritten
        GET /if?x=1
        GET /args?x=1
        GET /nowhere
        GET /self
        GET /up?a=b | X: y
        HEAD /up
        POST /up << body
        PUT /up | Transfer-Encoding: chunked << 4\r\nbody\r\n0\r\n\r\n
        POST /unbuffered << body
        POST /nobody << body
        DELETE /up
        GET /refused
        GET /ssi/page.html
        GET /m
        GET /gif HTTP/1.0
        POST /gif | Transfer-Encoding: chunked << zz\r\n
        GET /gif | Content-Length: 0
        """, files={"html/a.txt": "a text\n", "html/dir/a.html": "a page\n",
                    "html/ssi/page.html": 'a<!--#include virtual="/a.txt" -->b'}),
]
