"""proxy_pass and its kin: a second server block is the backend and says what it was asked."""

from ..engine import Config

# What 1.22 has to be told is the default since 1.29.7.
USUAL = r"""
        proxy_http_version 1.1;
        proxy_set_header Connection "";
"""

# What the backend tells of a request: name in the text, variable.
TOLD = " ".join("%s=[$%s]" % pair for pair in (
    ("connection", "http_connection"), ("length", "content_length"), ("type", "content_type"),
    ("x", "http_x"), ("y", "http_y_z"), ("a", "http_a"), ("b", "http_b"),
    ("level", "http_x_level"), ("forwarded", "http_x_forwarded_for"), ("ua", "http_user_agent"),
    ("accept", "http_accept"), ("cookie", "http_cookie"), ("te", "http_te"),
    ("upgrade", "http_upgrade"), ("keep", "http_keep_alive"), ("expect", "http_expect"),
    ("coding", "http_transfer_encoding"), ("range", "http_range"),
    ("since", "http_if_modified_since")))

# The backend; redirects and cookies come from its arguments.
BACKEND = r"""
        server {
            listen 127.0.0.1:@PORT1@;
            server_name backend;
            access_log off;
            location / { return 200 "$request_method $request_uri $server_protocol host=$http_host @TOLD@\n"; }
            location /status/ { return 418 "teapot\n"; }
            location /status/404 { return 404 "own 404\n"; }
            location /status/204 { return 204; }
            location /status/304 { return 304; }
            location /status/500 { return 500 "own 500\n"; }
            location /head/ { add_header X-Backend yes; add_header X-Accel-Limit-Rate 0; add_header Vary X; return 200 "x"; }
            location /moved/ { return 302 $arg_to; }
            location /location/ { add_header Location $arg_to; return 200 "l"; }
            location /refresh/ { add_header Refresh "5; url=$arg_to"; return 200 "r"; }
            location /cookie/ { add_header Set-Cookie "$arg_c"; add_header Set-Cookie "second=2"; return 200 "c"; }
            location /redirected/ { add_header X-Accel-Redirect $arg_to; add_header X-Kept no; return 200 "not this"; }
            location /file/ { alias html/; }
            location /chunked/ { add_trailer X-T t; return 200 "chunked body"; }
            location /expires/ { expires 1h; return 200 "e"; }
            location /type/ { default_type text/x-own; return 200 "t"; }
        }
""".replace("@TOLD@", TOLD)

# Shows the body that it was sent.
BODY = r"""
        server {
            listen 127.0.0.1:@PORT2@;
            server_name body;
            access_log off;
            location / {
                add_header X-Body "$request_body"; add_header X-Length "[$content_length]";
                add_header X-Method $request_method; add_header X-Coding "[$http_transfer_encoding]";
                proxy_pass_request_body off; proxy_method GET;
                proxy_set_header Content-Length ""; proxy_set_header Connection "";
                proxy_pass http://127.0.0.1:@PORT1@/body;
            }
        }
"""


def proxied(text, body=False):
    return USUAL + BACKEND + (BODY if body else "") + text


CONFIGS = [
    Config("proxy_uri", proxied(r"""
        upstream up { server 127.0.0.1:@PORT1@; }
        server {
            listen 127.0.0.1:@PORT@;
            server_name localhost;
            location / { proxy_pass http://127.0.0.1:@PORT1@; }
            location /uri/ { proxy_pass http://up/other/; }
            location /slash/ { proxy_pass http://up/; }
            location /noslash { proxy_pass http://up/n; }
            location = /exact { proxy_pass http://up/e; }
            location ^~ /strong/ { proxy_pass http://up/s/; }
            location ~ ^/regex/(.*)$ { proxy_pass http://up; }
            location ~ ^/capture/(.*)$ { proxy_pass http://up/c/$1$is_args$args; }
            location /rewritten/ { rewrite ^/rewritten/(.*)$ /new/$1 break; proxy_pass http://up; }
            location /rewrittenuri/ { rewrite ^/rewrittenuri/(.*)$ /new/$1 break; proxy_pass http://up/never/; }
            location /rewrittenargs/ { rewrite ^/rewrittenargs/(.*)$ /new/$1?q=1 break; proxy_pass http://up; }
            location /rewrittennone/ { rewrite ^/rewrittennone/(.*)$ /new/$1? break; proxy_pass http://up; }
            location /broken/ { rewrite ^/broken/(.*)$ /new/$1; break; proxy_pass http://up/never/; }
            location /last/ { rewrite ^/last/(.*)$ /uri/$1 last; }
            location /setargs/ { set $args n=1; proxy_pass http://up; }
            location /if/ { if ($arg_i) { proxy_pass http://up; } proxy_pass http://up/i/; }
            location /ifno/ { if ($arg_i) { set $x 1; } proxy_pass http://up/i/; }
            location /except/ { limit_except GET { proxy_pass http://127.0.0.1:@PORT1@; } proxy_pass http://up/x/; }
            location /tried/ { try_files /none @named; }
            location /found/ { root html; try_files /f.txt =404; proxy_pass http://up; }
            location @named { proxy_pass http://up; }
            location /page { error_page 404 /paged; return 404; }
            location /pageok { error_page 404 =200 /paged; return 404; }
            location /paged { proxy_pass http://up; }
            location /nested/ { proxy_pass http://up/outer/;
                location /nested/in/ { proxy_pass http://up/inner/; }
                location /nested/none/ { return 200 "none\n"; } }
            location /var { proxy_pass http://up$request_uri; }
            location /varuri { proxy_pass http://up/v$uri; }
            location /varhost { set $h up; proxy_pass http://$h; }
            location /varwhole { set $u http://up/w; proxy_pass $u; }
            location /varempty { set $h up; proxy_pass http://$h/; }
            location /varargs { set $h up; proxy_pass http://$h?a=b; }
            location /varcase { set $u HTTP://up/c; proxy_pass $u; }
            location /varbad { set $u foo://up/c; proxy_pass $u; }
            location /varnone { set $u ""; proxy_pass http://$u; }
            location /varport { set $h 127.0.0.1:x; proxy_pass http://$h; }
            location /varhuge { set $h 127.0.0.1:99999; proxy_pass http://$h; }
        }
        """), r"""
        GET /
        GET /?
        GET /a/b?x=1&y=2
        GET /a%20b/../c//d%2Fe?x=%20
        GET /%7euser/{a}|b"c
        GET /a#fragment
            => 400 closed -- RFC 9112 3.2: a fragment is no part of a target
        GET http://other.example/absolute?x=1
        GET http://other.example
        GET http://other.example?x=1
        GET /uri/
        GET /uri/a?x=1
        GET /uri/a%20b%2Fc%3Fd%25
        GET /uri/../uri/./a//b
        GET /uri/{a}|b"c
        GET /uri/%7B|"c
        GET /uri/\xe4\xf6
        GET /uri/%e4%f6
        GET /uri/a+b;c&d=e
        GET /uri/a#fragment?x
            => 400 closed -- RFC 9112 3.2: a fragment is no part of a target
        GET /uri
        GET /uri?x=1
        GET /slash/a/b
        GET /slash/
        GET /noslash
        GET /noslash/a
        GET /noslashes
        GET /exact?x=1
        GET /exactly
        GET /strong/a
        GET /regex/a%20b?x
        GET /capture/a?x=1
        GET /capture/
        GET /rewritten/a?x=1
        GET /rewritten/a%20b?x=1
        GET /rewrittenuri/a?x=1
        GET /rewrittenargs/a?x=1
        GET /rewrittennone/a?x=1
        GET /broken/a?x=1
        GET /last/a%20b?x=1
        GET /setargs/a?x=1
        GET /if/a%20b?i=1
        GET /if/a%20b
        GET /ifno/a%20b?i=1
        GET /except/a
        POST /except/a << x
        GET /tried/a%20b?x=1
        GET /found/a?x=1
        GET /page?x=1
        GET /pageok?x=1
        GET /nested/a
        GET /nested/in/a
        GET /nested/none/a
        GET /var/a%20b?x=1
        GET /varuri/a?x=1
        GET /varuri/a%20b
        => 200 | body~GET /v/varuri/a%20b HTTP/1.1 -- a blank of a variable does not end the request line
        GET /varuri/a%0d%0aX:%20evil
        => 200 | body~GET /v/varuri/a%0D%0AX:%20evil HTTP/1.1 -- neither does a line end
        GET /varhost/a%20b/../c?x=1
        GET /varwhole/a?x=1
        GET /varempty/a?x=1
        GET /varargs/a?x=1
        GET /varcase/a
        GET /varbad/a
        GET /varnone/a
        GET /varport/a
        GET /varhuge/a
        """, files={"html/f.txt": "file\n"}),

    Config("proxy_head", proxied(r"""
        upstream up { server 127.0.0.1:@PORT1@; }
        server {
            listen 127.0.0.1:@PORT@;
            server_name localhost;
            proxy_set_header X-Level server;
            proxy_set_header Connection "";
            location /plain { proxy_pass http://up; }
            location /own { proxy_set_header A own; proxy_set_header Connection ""; proxy_pass http://up; }
            location /x { proxy_set_header X set; proxy_set_header Y-Z $arg_y; proxy_set_header Connection ""; proxy_pass http://up; }
            location /twice { proxy_set_header A 1; proxy_set_header A 2; proxy_set_header Connection ""; proxy_pass http://up; }
            location /host { proxy_set_header Host own.example; proxy_set_header Connection ""; proxy_pass http://up; }
            location /clienthost { proxy_set_header Host $host; proxy_set_header Connection ""; proxy_pass http://up; }
            location /httphost { proxy_set_header Host $http_host; proxy_set_header Connection ""; proxy_pass http://up; }
            location /address { proxy_pass http://127.0.0.1:@PORT1@; }
            location /none { proxy_set_header Cookie ""; proxy_set_header user-agent ""; proxy_set_header Connection ""; proxy_pass http://up; }
            location /hop { proxy_set_header Upgrade $http_upgrade; proxy_set_header TE trailers; proxy_set_header Keep-Alive k;
                            proxy_set_header Connection "close"; proxy_pass http://up; }
            location /forwarded { proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for; proxy_set_header Connection ""; proxy_pass http://up; }
            location /names { proxy_set_header A $proxy_host; proxy_set_header B $proxy_port; proxy_set_header Connection ""; proxy_pass http://up; }
            location /names2 { proxy_set_header A $proxy_host; proxy_set_header B $proxy_port; proxy_set_header Connection ""; proxy_pass http://127.0.0.1:@PORT1@; }
            location /names3 { proxy_set_header A $proxy_host; proxy_set_header B $proxy_port; proxy_set_header Connection ""; set $h up; proxy_pass http://$h; }
            location /noheaders { proxy_pass_request_headers off; proxy_pass http://up; }
            location /inherit/ { proxy_set_header A outer; proxy_set_header Connection ""; proxy_pass http://up;
                location /inherit/same/ { proxy_pass http://up; }
                location /inherit/other/ { proxy_set_header B inner; proxy_set_header Connection ""; proxy_pass http://up; } }
            location /ten { proxy_http_version 1.0; proxy_pass http://up; }
            location /show { add_header X-Host "[$proxy_host]"; add_header X-Port "[$proxy_port]"; proxy_pass http://up; }
            location /nothing { add_header X-Host "[$proxy_host]"; add_header X-For "[$proxy_add_x_forwarded_for]"; return 200 "n"; }
            location /method { proxy_method PUT; proxy_pass http://up; }
            location /lower { proxy_method options; proxy_pass http://up; }
            location /argmethod { proxy_method $arg_m; proxy_pass http://up; }
            location /hash { proxy_headers_hash_max_size 64; proxy_headers_hash_bucket_size 32; proxy_pass http://up; }
        }
        """), r"""
        GET /plain
        GET /plain | X: 1 | Y-Z: 2 | User-Agent: ua | Accept: */* | Cookie: a=b
        GET /plain | Connection: close, X | X: 1
        GET /plain | Connection: keep-alive | Keep-Alive: 300 | TE: trailers | Upgrade: websocket
        GET /plain | Range: bytes=0-1 | If-Modified-Since: Tue, 01 Jan 2019 00:00:00 GMT
        GET /plain | X:no-blank | Y-Z:   blanks\x20\x20
        GET /plain | X:
        GET /plain | X_under: 1 | X: 1
        GET /plain | x: lower | Y-z: mixed
        GET /plain | X: 1 | X: 2 | Cookie: a=1 | Cookie: b=2
        => 200 | body~x=[1, 2] | body~cookie=[a=1; b=2] -- $http_ variables join since 1.23
        GET /plain | Host: cli.example:81
        GET /plain HTTP/1.0
        GET /plain HTTP/1.0 | -Host
        BARE GET /plain\r\n
        HEAD /plain
        OPTIONS /plain
        DELETE /plain
        FOO /plain
        GET /own | A: client | X: 1
        GET /x?y=why | X: client | Y-Z: client
        GET /x | X: client | Y-Z: client
        GET /x?y=%0d%0a
        GET /twice
        => 200 | body~a=[1, 2] -- $http_ variables join since 1.23
        GET /host | Host: cli.example
        GET /clienthost | Host: CLI.example:81
        GET /httphost | Host: CLI.example:81
        GET /address
        GET /none | Cookie: a=b | User-Agent: ua | X: 1
        GET /hop | Upgrade: websocket | TE: x
        GET /forwarded
        GET /forwarded | X-Forwarded-For: 192.0.2.1
        GET /forwarded | X-Forwarded-For: 192.0.2.1 | X-Forwarded-For: 192.0.2.2
        GET /names
        GET /names2
        GET /names3
        GET /noheaders | X: 1 | User-Agent: ua
        GET /inherit/
        GET /inherit/same/
        GET /inherit/other/
        GET /ten | X: 1
        GET /show
        GET /nothing | X-Forwarded-For: 192.0.2.1
        GET /method
        POST /method << x
        GET /lower
        GET /argmethod?m=PATCH
        GET /argmethod
        => 200 | body~GET /argmethod HTTP/1.1 -- a request line needs a method
        GET /hash | X: 1
        """),

    Config("proxy_body", proxied(r"""
        server {
            listen 127.0.0.1:@PORT@;
            server_name localhost;
            location /plain { proxy_pass http://127.0.0.1:@PORT2@; }
            location /ten { proxy_http_version 1.0; proxy_pass http://127.0.0.1:@PORT2@; }
            location /set { proxy_set_body "set $arg_b"; proxy_pass http://127.0.0.1:@PORT2@; }
            location /setempty { proxy_set_body ""; proxy_pass http://127.0.0.1:@PORT2@; }
            location /none { proxy_pass_request_body off; proxy_set_header Content-Length ""; proxy_set_header Connection ""; proxy_pass http://127.0.0.1:@PORT2@; }
            location /stream { proxy_request_buffering off; proxy_pass http://127.0.0.1:@PORT2@; }
            location /streamten { proxy_request_buffering off; proxy_http_version 1.0; proxy_pass http://127.0.0.1:@PORT2@; }
            location /small { client_max_body_size 4; proxy_pass http://127.0.0.1:@PORT2@; }
            location /file { client_body_in_file_only clean; proxy_pass http://127.0.0.1:@PORT2@; }
        }
        """, body=True), r"""
        POST /plain << hello
        POST /plain << 
        POST /plain
        PUT /plain << a b
        GET /plain << body of a GET
        POST /plain | Transfer-Encoding: chunked << 5\r\nhello\r\n0\r\n\r\n
        POST /plain | Transfer-Encoding: chunked << 0\r\n\r\n
        POST /plain | Expect: 100-continue << hello
        => 200 kept | X-Body: hello -- nobody waits for a 100 who sent the body already
        POST /plain HTTP/1.0 << hello
        POST /ten << hello
        POST /ten | Transfer-Encoding: chunked << 5\r\nhello\r\n0\r\n\r\n
        POST /set?b=x << hello
        GET /set?b=x
        HEAD /set?b=x
        POST /setempty << hello
        POST /none << hello
        POST /stream << hello
        POST /stream | Transfer-Encoding: chunked << 5\r\nhello\r\n0\r\n\r\n
        => 200 kept | X-Body: hello | X-Length: [5] -- in chunks or with its length, as fast as it came
        POST /streamten << hello
        POST /streamten | Transfer-Encoding: chunked << 5\r\nhello\r\n0\r\n\r\n
        POST /small << hello
        POST /small << hell
        POST /small | Transfer-Encoding: chunked << 5\r\nhello\r\n0\r\n\r\n
        => 413 closed -- the log line has one number
        POST /file << hello
        POST /plain << a && POST /plain << b && GET /plain
        """),

    Config("proxy_answers", proxied(r"""
        upstream up { server 127.0.0.1:@PORT1@; }
        server {
            listen 127.0.0.1:@PORT@;
            server_name localhost;
            location / { proxy_pass http://up; }
            location /hide/ { proxy_hide_header X-Backend; proxy_pass_header Server; proxy_pass http://up/head/; }
            location /intercept/ { proxy_intercept_errors on; error_page 404 418 /page; proxy_pass http://up/status/; }
            location /nointercept/ { error_page 404 /page; proxy_pass http://up/status/; }
            location /intercept500/ { proxy_intercept_errors on; error_page 404 /page; proxy_pass http://up/status/; }
            location = /page { return 200 "page $status\n"; }
            location /internal/ { internal; return 200 "internal $uri $args $request_method\n"; }
            location /ignore/ { proxy_ignore_headers X-Accel-Redirect; proxy_pass http://up/redirected/; }
            location /passaccel/ { proxy_pass_header X-Accel-Redirect; proxy_ignore_headers X-Accel-Redirect; proxy_pass http://up/redirected/; }
            location @accel { return 200 "named $uri\n"; }
            location /added/ { add_header X-Added a; expires 2h; proxy_pass http://up/expires/; }
            location /unbuffered/ { proxy_buffering off; proxy_pass http://up/; }
            location /refused/ { proxy_pass http://127.0.0.1:1/; }
            location /refusedpage/ { error_page 502 /page; proxy_pass http://127.0.0.1:1/; }
            location /refusedvar/ { set $h 127.0.0.1:1; proxy_pass http://$h; }
            location /force/ { proxy_force_ranges on; proxy_pass http://up/file/; }
        }
        """), r"""
        GET /status/
        GET /status/404
        GET /status/204
        GET /status/304
        GET /status/500
        HEAD /status/
        GET /head/
        GET /hide/
        GET /type/
        GET /expires/
        GET /added/
        GET /chunked/
        GET /chunked/ HTTP/1.0
        GET /file/f.txt
        HEAD /file/f.txt
        GET /file/f.txt | Range: bytes=0-1
        GET /file/f.txt | If-Modified-Since: Tue, 14 Nov 2023 22:13:20 GMT
        GET /file/f.txt | If-None-Match: "6553f2a0-5"
        GET /file/big.txt
        GET /file/big.txt HTTP/1.0
        HEAD /file/big.txt
        GET /file/none
        GET /force/f.txt | Range: bytes=1-2
        GET /unbuffered/
        GET /unbuffered/file/big.txt
        HEAD /unbuffered/file/big.txt
        GET /unbuffered/status/204
        GET /intercept/
        GET /intercept/404
        GET /intercept/500
        GET /intercept500/500
        GET /nointercept/404
        GET /redirected/?to=/internal/x?y=1
        GET /redirected/?to=/internal/x
        POST /redirected/?to=/internal/x << body
        HEAD /redirected/?to=/internal/x
        GET /redirected/?to=@accel
        GET /redirected/?to=/file/f.txt
        GET /ignore/?to=/internal/x
        GET /passaccel/?to=/internal/x
        GET /refused/
        GET /refusedpage/
        GET /refusedvar/
        HEAD /refused/
        POST /refused/ << x
        """, files={"html/f.txt": "file\n", "html/big.txt": "0123456789" * 2000}),

    Config("proxy_redirects", proxied(r"""
        upstream up { server 127.0.0.1:@PORT1@; }
        server {
            listen 127.0.0.1:@PORT@;
            server_name localhost;
            location /group/ { proxy_pass http://up/location/; }
            location /same/ { proxy_pass http://up; rewrite ^/same/(.*)$ /location/$1 break; }
            location = /exact { proxy_pass http://up/location/; }
            location ~ ^/re/ { rewrite ^/re/(.*)$ /location/$1 break; proxy_pass http://up; }
            location /off/ { proxy_redirect off; proxy_pass http://up/location/; }
            location /moved/ { proxy_pass http://up/moved/; }
            location /refresh/ { proxy_pass http://up/refresh/; }
            location /rules/ { proxy_redirect http://one/ /one/; proxy_redirect http://$host/v /var$uri;
                               proxy_redirect ~^http://re/(?<name>[^/]+)/(.*)$ /$2/$name; proxy_redirect ~*^HTTP://NOCASE/ http://matched/;
                               proxy_redirect / http://rooted/; proxy_pass http://up/location/; }
            location /both/ { proxy_pass http://up/location/; proxy_redirect http://one/ /one/; proxy_redirect default; }
            location /var/ { set $h up; proxy_pass http://$h/location/?to=$arg_to; }
            location /relative/ { absolute_redirect off; proxy_pass http://up/location/; }
            location /domain/ { proxy_cookie_domain one.com two.com; proxy_cookie_domain .dot.com .tod.com; proxy_cookie_domain ~^(.+)\.re\.com$ $1.er.com;
                                proxy_cookie_domain $arg_d v.com; proxy_pass http://up/cookie/; }
            location /path/ { proxy_cookie_path /one/ /two/; proxy_cookie_path ~*^/RE/(.*) /er/$1; proxy_cookie_path /none ""; proxy_pass http://up/cookie/; }
            location /flags/ { proxy_cookie_flags one secure httponly; proxy_cookie_flags two nosecure samesite=lax; proxy_cookie_flags ~^re samesite=strict secure;
                               proxy_cookie_flags three nosamesite nohttponly nosecure; proxy_cookie_flags four $arg_f; proxy_pass http://up/cookie/; }
            location /nocookies/ { proxy_cookie_domain off; proxy_pass http://up/cookie/; }
        }
        """), "\n".join(
            ["GET /group/?to=http://up/location/a", "GET /group/?to=http://up/other",
             "GET /group/?to=HTTP://up/location/a", "GET /group/?to=/location/a",
             "GET /group/?to=relative", "GET /same/?to=http://up/a", "GET /same/?to=http://up",
             "GET /exact?to=http://up/location/a", "GET /re/?to=http://up/a",
             "GET /off/?to=http://up/location/a", "GET /off/?to=/a",
             "GET /moved/?to=http://up/moved/a", "GET /moved/?to=/a",
             "GET /refresh/?to=http://up/refresh/a", "GET /refresh/?to=/x",
             "GET /rules/?to=http://one/a", "GET /rules/?to=http://localhost/vwx",
             "GET /rules/?to=http://re/m/n/o", "GET /rules/?to=hTTp://nocase/x",
             "GET /rules/?to=/x", "GET /rules/?to=none",
             "GET /both/?to=http://one/a", "GET /both/?to=http://up/location/a",
             "GET /var/?to=http://up/location/a", "GET /relative/?to=http://up/location/a"]
            + ["GET /domain/?c=a=1;%s" % rest for rest in (
                "domain=one.com", "Domain=.ONE.com", "domain=dot.com", "domain=.dot.com;path=/",
                "domain=www.re.com", "domain=.www.RE.com", "domain=other.com",
                "domain=one.com;domain=one.com", "domain=q.com&d=q.com", "secure", "domain")]
            + ["GET /path/?c=a=1;%s" % rest for rest in (
                "path=/one/x", "Path=/one", "path=/re/x", "path=/RE/x", "path=/none/x",
                "path=/none", "path=/other", "domain=x;path=/one/x;secure")]
            + ["GET /flags/?c=%s" % cookie for cookie in (
                "one=1", "ONE=1", "one=1;httponly", "one=1;Secure;path=/", "two=1;secure;samesite=none",
                "two=1;Secure;Path=/;SameSite", "re1=1", "Re=1;samesite=lax;secure",
                "three=1;samesite=lax;Secure;httponly;path=/", "four=1&f=secure",
                "four=1&f=samesite=none", "four=1&f=bogus", "four=1", "one", "one=", "five=1;secure")]
            + ["GET /nocookies/?c=a=1;domain=one.com"])),
]
