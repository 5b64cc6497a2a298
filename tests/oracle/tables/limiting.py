"""limit_req and limit_conn: who is refused, and what the variables say. Rates are so low that time does not matter."""

from ..engine import Config

CONFIGS = [
    Config("limit_req", r"""
        limit_req_zone $binary_remote_addr$arg_k zone=one:1m rate=1r/m;
        limit_req_zone $binary_remote_addr$arg_k zone=two:1m rate=2r/m;
        limit_req_zone $arg_k zone=only:1m rate=1r/m;
        limit_req_zone constant zone=constant:1m rate=1r/m;
        limit_req_zone $request_uri zone=uri:1m rate=1;
        add_header X-Status $limit_req_status always;
        server {
            listen 127.0.0.1:@PORT@;
            location / { limit_req zone=one; empty_gif; }
            location /burst { limit_req zone=one burst=2 nodelay; empty_gif; }
            location /undelayed { limit_req zone=one burst=3 delay=3; empty_gif; }
            location /both { limit_req zone=one burst=5 nodelay; limit_req zone=two; empty_gif; }
            location /htob { limit_req zone=two; limit_req zone=one burst=5 nodelay; empty_gif; }
            location /only { limit_req zone=only; empty_gif; }
            location /constant { limit_req zone=constant; limit_req_status 429; empty_gif; }
            location /dry { limit_req zone=one burst=1; limit_req_dry_run on; empty_gif;
                location /dry/off { limit_req_dry_run off; empty_gif; }
                location /dry/other { limit_req zone=only; empty_gif; } }
            location /page { limit_req zone=one; error_page 503 /page/full; limit_req_status 503;
                empty_gif; location /page/full { limit_req zone=two; empty_gif; } }
            location /named { limit_req zone=one; error_page 503 =200 @full; empty_gif; }
            location @full { limit_req zone=one; empty_gif; }
            location /return { limit_req zone=one; return 204; }
            location /rewritten { limit_req zone=two; rewrite ^ /only?k=r last; }
            location /denied { limit_req zone=one; deny all; }
            location /none { empty_gif; }
        }
        """, r"""
        GET /
        GET /
        GET /?k=a
        GET /?k=a
        HEAD /?k=a
        GET /burst?k=b
        GET /burst?k=b
        GET /burst?k=b
        GET /burst?k=b
        GET /?k=b
        GET /undelayed?k=u
        GET /undelayed?k=u
        GET /undelayed?k=u
        GET /undelayed?k=u
        GET /undelayed?k=u
        GET /both?k=c
        GET /both?k=c
        GET /both?k=c
        GET /burst?k=c
        GET /burst?k=c
        GET /burst?k=c
        GET /htob?k=d
        GET /htob?k=d
        GET /burst?k=d
        GET /burst?k=d
        GET /burst?k=d
        GET /only
        GET /only
        GET /only?k=
        GET /only?k=e
        GET /only?k=e
        GET /constant
        GET /constant
        GET /dry?k=f
        GET /dry?k=f
        GET /dry?k=f
        GET /dry?k=f
        GET /dry/off?k=f
        GET /dry/other?k=f
        GET /dry/other?k=f
        GET /page?k=g
        GET /page?k=g
        GET /page?k=g
        GET /page/full?k=g
        GET /page/full?k=g
        GET /named?k=h
        GET /named?k=h
        GET /named?k=h
        GET /return?k=i
        GET /return?k=i
        GET /rewritten?k=j
        GET /rewritten?k=j
        GET /denied?k=l
        GET /denied?k=l
        GET /none
        GET /?k=p && GET /?k=p && GET /?k=q
        POST /?k=m << body
        POST /?k=m << body
        """, errors=False),
    Config("limit_conn", r"""
        limit_conn_zone $binary_remote_addr zone=address:1m;
        limit_conn_zone $arg_k zone=key:1m;
        add_header X-Status $limit_conn_status always;
        proxy_http_version 1.0;
        server {
            listen 127.0.0.1:@PORT@;
            location / { limit_conn address 1; empty_gif; }
            location /passed { limit_conn address 1; proxy_pass http://127.0.0.1:@PORT@/; }
            location /status { limit_conn address 1; limit_conn_status 429; empty_gif; }
            location /to/status { limit_conn address 1; proxy_pass http://127.0.0.1:@PORT@/status; }
            location /two { limit_conn address 2; proxy_pass http://127.0.0.1:@PORT@/; }
            location /three { limit_conn address 3; proxy_pass http://127.0.0.1:@PORT@/two/; }
            location /dry { limit_conn address 1; limit_conn_dry_run on; empty_gif; }
            location /to/dry { limit_conn address 1; proxy_pass http://127.0.0.1:@PORT@/dry; }
            location /page { limit_conn address 1; error_page 503 /full; empty_gif; }
            location /full { limit_conn address 1; empty_gif; }
            location /to/page { limit_conn address 1; proxy_pass http://127.0.0.1:@PORT@/page; }
            location /key { limit_conn key 1; proxy_pass http://127.0.0.1:@PORT@/key2$is_args$args; }
            location /key2 { limit_conn address 5; limit_conn key 1; empty_gif; }
            location /level { limit_conn address 1; limit_conn_log_level warn; empty_gif; }
            location /to/level { limit_conn address 1; proxy_pass http://127.0.0.1:@PORT@/level; }
            location /return { limit_conn address 1; return 204; }
            location /missing { limit_conn address 1; root none; }
            location /last { limit_conn address 1; rewrite ^ / last; }
            location /index/ { limit_conn address 1; rewrite ^ /again; }
            location /again { limit_conn address 1; empty_gif; }
        }
        """, r"""
        GET /
        GET /
        GET / && GET / && GET /
        GET /passed
        GET /
        GET /to/status
        GET /two
        GET /three
        GET /dry
        GET /to/dry
        GET /page
        GET /to/page
        GET /full
        GET /key
        GET /key?k=
        GET /key?k=a
        GET /key2?k=a
        GET /level
        GET /to/level
        GET /return
        GET /missing
        GET /last
        GET /index/
        POST / << body
        HEAD /passed
        GET /
        """),
]
