"""add_header, add_trailer, expires, keep-alive headers, server_tokens, header variables."""

from ..engine import Config

CONFIGS = [
    Config("add_header", r"""
        add_header X-Http http;
        server {
            listen 127.0.0.1:@PORT@;
            server_name localhost;
            root html;
            location /inherit/ { alias html/; }
            location /own/ { alias html/; add_header X-Own own; }
            location /two/ { alias html/; add_header X-A 1; add_header X-A 2; add_header x-b 3; }
            location /var/ { alias html/; add_header X-Var "$uri $arg_x"; }
            location /empty/ { alias html/; add_header X-Empty $arg_x; add_header X-Never ""; }
            location /always/ { add_header X-Always yes always; add_header X-Ok ok; }
            location /etag/ { alias html/; add_header ETag "\"mine\""; }
            location /lm/ { alias html/; add_header Last-Modified "Tue, 01 Jan 2019 00:00:00 GMT"; }
            location /lmempty/ { alias html/; add_header Last-Modified ""; }
            location /cc/ { alias html/; add_header Cache-Control private; add_header Cache-Control no-transform; }
            location /ccexpires/ { alias html/; expires 1h; add_header Cache-Control private; }
            location /link/ { alias html/; add_header Link "</a>"; add_header Link "</b>"; }
            location /status/200 { return 200 "ok"; add_header X-S $status; }
            location /status/201 { return 201 "ok"; add_header X-S s; }
            location /status/204 { return 204; add_header X-S s; }
            location /status/206 { return 206 "x"; add_header X-S s; }
            location /status/301 { return 301 /x; add_header X-S s; }
            location /status/302 { return 302 /x; add_header X-S s; }
            location /status/303 { return 303 /x; add_header X-S s; }
            location /status/304 { return 304; add_header X-S s; }
            location /status/307 { return 307 /x; add_header X-S s; }
            location /status/308 { return 308 /x; add_header X-S s; }
            location /status/400 { return 400; add_header X-S s; }
            location /status/404 { return 404; add_header X-S s; }
            location /status/404a { return 404; add_header X-S s always; }
            location /status/500 { return 500; add_header X-S s; }
            location /nested/ { add_header X-Outer o;
                location /nested/in/ { alias html/; }
                location /nested/own/ { alias html/; add_header X-Inner i; } }
            location /server/ { alias html/; add_header Server mine; }
            location /date/ { alias html/; add_header Date mine; }
            location /type/ { alias html/; add_header Content-Type text/x-mine; }
            location /ranges/ { alias html/; add_header Accept-Ranges none; }
            location /none204/ { error_page 403 =204 /a.txt; return 403; }
            location /length/ { return 200 "abc"; add_header X-Length $sent_http_content_length; add_header X-Type $sent_http_content_type; }
        }
        """, r"""
        GET /a.txt
        GET /inherit/a.txt
        GET /own/a.txt
        GET /two/a.txt
        GET /var/a.txt?x=1
        GET /empty/a.txt
        GET /empty/a.txt?x=1
        GET /always/none
        GET /etag/a.txt
        GET /etag/a.txt | If-None-Match: "mine"
        GET /lm/a.txt
        GET /lm/a.txt | If-Modified-Since: Tue, 01 Jan 2019 00:00:00 GMT
        GET /lmempty/a.txt
        GET /cc/a.txt
        GET /ccexpires/a.txt
        GET /link/a.txt
        GET /status/200
        GET /status/201
        GET /status/204
        GET /status/206
        GET /status/301
        GET /status/302
        GET /status/303
        GET /status/304
        GET /status/307
        GET /status/308
        GET /status/400
        GET /status/404
        GET /status/404a
        GET /status/500
        GET /nested/in/a.txt
        GET /nested/own/a.txt
        GET /none
        HEAD /own/a.txt
        GET /length/
        GET /own/a.txt | If-None-Match: "6553f100-2"
        GET /own/a.txt | Range: bytes=0-0
        GET /ranges/a.txt
        GET /none204/
        GET /none204/ HTTP/1.0
        HEAD /none204/
        """, files={"html/a.txt": "a\n"}),

    Config("trailers", r"""
        server {
            listen 127.0.0.1:@PORT@;
            server_name localhost;
            location / { root html; add_trailer X-Trail "t $status"; }
            location /two { return 200 "two"; add_trailer X-A a; add_trailer X-B b; add_header Trailer X-A; }
            location /empty { return 200 "e"; add_trailer X-A ""; }
            location /always { return 404 "n"; add_trailer X-A a always; }
            location /notalways { return 404 "n"; add_trailer X-A a; }
            location /sent { return 200 "n"; add_trailer X-Sent "$body_bytes_sent"; }
            location /nochunk { return 200 "n"; chunked_transfer_encoding off; add_trailer X-A a; }
            location /301 { return 301 /x; add_trailer X-A a; }
            location /204 { return 204; add_trailer X-A a; }
        }
        """, r"""
        GET /a.txt
        GET /empty.txt
        GET /two
        GET /empty
        GET /always
        GET /notalways
        GET /nochunk
        GET /301
        GET /204
        HEAD /a.txt
        HEAD /two
        GET /a.txt HTTP/1.0
        GET /a.txt | Range: bytes=0-1
        GET /a.txt | If-None-Match: *
        GET /none
        """, files={"html/a.txt": "alpha\n", "html/empty.txt": ""}),

    Config("expires", r"""
        map $arg_e $byvar { default off; epoch epoch; max max; hour 1h; neg -1; mod "modified 1h"; bad xyz; day @1h; }
        server {
            listen 127.0.0.1:@PORT@;
            server_name localhost;
            root html;
            expires 30s;
            location /inherit/ { alias html/; }
            location /off/ { alias html/; expires off; }
            location /epoch/ { alias html/; expires epoch; }
            location /max/ { alias html/; expires max; }
            location /zero/ { alias html/; expires 0; }
            location /neg/ { alias html/; expires -1; }
            location /negday/ { alias html/; expires -1d; }
            location /day/ { alias html/; expires 1d; }
            location /combined/ { alias html/; expires 1d12h; }
            location /modified/ { alias html/; expires modified 1h; }
            location /modifiedneg/ { alias html/; expires modified -1h; }
            location /at/ { alias html/; expires @15h30m; }
            location /atnone/ { return 200 "x"; expires modified 1h; }
            location /var/ { alias html/; expires $byvar; }
            location /404/ { expires 1h; }
            location /return/ { expires 1h; return 200 "x"; }
            location /301/ { expires 1h; return 301 /x; }
            location /304/ { alias html/; expires 1h; }
            location /header/ { alias html/; expires 1h; add_header Expires mine; }
            location /if/ { alias html/; if ($arg_x) { expires epoch; } }
            location /year/ { alias html/; expires 1y; }
        }
        """, r"""
        GET /a.txt
        GET /inherit/a.txt
        GET /off/a.txt
        GET /epoch/a.txt
        GET /max/a.txt
        GET /zero/a.txt
        GET /neg/a.txt
        GET /negday/a.txt
        GET /day/a.txt
        GET /combined/a.txt
        GET /modified/a.txt
        GET /modifiedneg/a.txt
        GET /at/a.txt
        GET /atnone/
        GET /var/a.txt
        GET /var/a.txt?e=epoch
        GET /var/a.txt?e=max
        GET /var/a.txt?e=hour
        GET /var/a.txt?e=neg
        GET /var/a.txt?e=mod
        GET /var/a.txt?e=bad
        GET /var/a.txt?e=day
        GET /404/none
        GET /return/
        GET /301/
        GET /304/a.txt | If-None-Match: *
        GET /if/a.txt
        GET /if/a.txt?x=1
        GET /year/a.txt
        HEAD /day/a.txt
        """, files={"html/a.txt": "a\n"}),

    Config("keepalive", r"""
        server {
            listen 127.0.0.1:@PORT@;
            server_name localhost;
            keepalive_timeout 65 20;
            keepalive_requests 3;
            location / { return 200 "$connection_requests\n"; }
            location /off { keepalive_timeout 0; return 200 "off\n"; }
            location /header { keepalive_timeout 65 7; return 200 "h\n"; }
            location /noheader { keepalive_timeout 65; return 200 "n\n"; }
            location /one { keepalive_requests 1; return 200 "one\n"; }
            location /safari { keepalive_disable safari; return 200 "s\n"; }
            location /none { keepalive_disable none; return 200 "n\n"; }
        }
        """, r"""
        GET /
        GET / && GET /
        GET / && GET / && GET /
        GET / && GET / && GET / && GET /
        GET / HTTP/1.0
        GET / HTTP/1.0 | Connection: keep-alive
        GET / HTTP/1.0 | Connection: Keep-Alive
        GET / | Connection: close
        GET / | Connection: Close
        GET / | Connection: keep-alive
        GET / | Connection: keep-alive, close
        GET / | Connection: close, keep-alive
        GET / | Connection: x
        GET / | Connection: upgrade | Upgrade: websocket
        GET / | Keep-Alive: 300
        GET /off
        GET /header
        GET /noheader
        GET /one
        POST /one << x
        GET / && GET /off && GET /
        GET / | Connection: close && GET /
        GET /none
        POST / | User-Agent: Mozilla/4.0 (compatible; MSIE 6.0; Windows NT 5.1) << x
        GET / | User-Agent: Mozilla/4.0 (compatible; MSIE 6.0; Windows NT 5.1)
        POST /none | User-Agent: Mozilla/4.0 (compatible; MSIE 6.0; Windows NT 5.1) << x
        GET /safari | User-Agent: Mozilla/5.0 (Macintosh; Intel Mac OS X 10_5) AppleWebKit/525 (KHTML, like Gecko) Version/3.1 Safari/525
        HEAD / && HEAD / && GET /
        """),

    Config("server_tokens", r"""
        server {
            listen 127.0.0.1:@PORT@;
            location /on { server_tokens on; return 404; }
            location /off { server_tokens off; return 404; }
            location /build { server_tokens build; return 404; }
            location /ok { server_tokens off; return 200 "x"; }
        }
        """, """
        GET /on
        GET /off
        GET /ok
        HEAD /off
        HEAD /on
        """),

    Config("request_headers", r"""
        server {
            listen 127.0.0.1:@PORT@;
            server_name localhost;
            return 200 "$http_x_one|$http_x|$http_under_score|$http_cookie|$cookie_a|$cookie_b|$http_host\n";
        }
        server {
            listen 127.0.0.1:@PORT1@;
            server_name localhost;
            underscores_in_headers on;
            return 200 "$http_under_score\n";
        }
        server {
            listen 127.0.0.1:@PORT2@;
            server_name localhost;
            ignore_invalid_headers off;
            return 200 "$http_under_score|$http_x_bad|$http_a_b\n";
        }
        """, r"""
        GET / | X-One: 1
        GET / | x-one: 1
        GET / | X-ONE:1
        GET / | X-One:   1   | X: 2
        GET / | X-One:
        GET / | X-One: a | X-One: b
            => 200 kept | body~a, b| -- repeated fields are joined in variables since 1.23.0
        GET / | X: \xc3\xa4\xff
        GET / | X-One: a"b\\\\c
        GET / | Under_Score: 1
        GET / | Under_Score: 1 | @PORT1
        GET / | Under_Score: 1 | @PORT2
        GET / | X.Bad: 1 | X-One: ok
        GET / | X.Bad: 1 | @PORT2
        GET / | X!Bad: 1 | X-One: ok
        GET / | A$B: 1 | @PORT2
        GET / | Cookie: a=1; b=2
        GET / | Cookie: a=1;b=2
        GET / | Cookie: a=1 | Cookie: b=2
        GET / | Cookie: a=1, b=2
            => 200 kept | body~|a=1, b=2|1, b=2|| -- a comma no longer ends a cookie since 1.29.6
        GET / | Cookie: A=1
        GET / | Cookie: xa=1; a=2; a=3
        GET / | Cookie: a
        GET / | Cookie: a=
        GET / | Cookie: a="q;x"; b=2
        GET / | Cookie:   a  =  1
        GET / | User-Agent: a | User-Agent: b
        GET / | Referer: a | Referer: b
        GET / | Authorization: a | Authorization: a
        GET / | If-Modified-Since: a | If-Modified-Since: b
        GET / | If-Unmodified-Since: a | If-Unmodified-Since: b
        GET / | If-Match: a | If-Match: b
        GET / | If-None-Match: a | If-None-Match: b
        GET / | If-Range: a | If-Range: b
        GET / | Content-Range: a | Content-Range: b
        GET / | Expect: a | Expect: b
        GET / | X-One: 1 | Host: second
        """),
]
