"""headers_more: fields of responses and requests that are set and cleared."""

from ..engine import Config

FILES = {"html/a.txt": "0123456789\n", "html/p.html": "<p>\n"}

CONFIGS = [
    Config("headers_more", r"""
        types { text/plain txt; text/html html; }
        more_set_headers 'X-Outer: 1';
        server {
            listen 127.0.0.1:@PORT@;
            root html;
            add_header X-Add a;
            location /not { more_set_headers 'X-Add: b' 'Content-Type: text/css' 'Server: me' 'Cache-Control: private' 'Expires: 0' 'Refresh: 3'; }
            location /clear/ { more_clear_headers Content-Type Server Content-Length ETag Last-Modified Accept-Ranges X-*; alias html/; }
            location /some/ { more_clear_headers Server Connection Last-Modified Accept-Ranges; alias html/; }
            location /length/ { more_clear_headers ETag Content-Length; alias html/; }
            location /empty { more_set_headers 'Server:' 'X-Outer' 'Content-Type:'; return 200 x; }
            location /odd { more_set_headers 'NoColon' ':v' 'X-Sp  :   v v  ' 'X-Colon: a:b' ''; return 200 x; }
            location /if { more_set_headers 'X-1: 1'; if ($arg_x) { more_set_headers 'X-2: 2'; } return 200 x; }
            location /if/in { more_set_headers 'X-1: 1'; if ($arg_x) { more_set_headers 'X-2: 2'; return 200 y; } return 200 x; }
            location /status { more_set_headers -s '404 999' 'X-4: 4'; more_set_headers -s 200 -s 500 'X-5: 5'; return 404; }
            location /status/any { more_set_headers 'X-a: y' -s 200; more_set_headers -s '' 'X-c: y'; more_set_headers -t '' 'X-d: y'; return 200 x; }
            location /type { default_type text/plain; more_set_headers -t ' text/css text/plain ' 'X-T: 1'; more_set_headers -t text/css 'X-U: 1';
                             more_set_headers -t 'TEXT/Plain' 'X-V: 1'; more_set_headers -t 'text/*' 'X-W: 1'; charset utf-8; return 200 x; }
            location /type/set { more_set_headers 'Content-Type: text/plain; charset=latin1'; charset utf-8; return 200 x; }
            location /type/other { more_set_headers 'Content-Type: application/json'; charset utf-8; charset_types application/json; return 200 x; }
            location /type/twice { more_clear_headers Content-Type; more_set_headers 'Content-Type: a/b' 'Content-Type: c/d'; return 200 x; }
            location /type/list { more_set_headers -t 'text/css;text/plain' 'X-T: 1'; more_set_headers -t 'text/plain;charset=x' 'X-U: 1';
                                  more_set_headers -t 'text/css,text/plain' 'X-V: 1'; default_type text/plain; return 200 x; }
            location /order { more_set_headers 'X-1: 1' 'ETag: "e"' 'X-2: 2'; return 200 x; }
            location /place { more_set_headers 'Location: /new'; return 200 x; }
            location /place/moved { more_set_headers 'Location: /new'; return 301 /old; }
            location /place/far { more_set_headers 'Location: http://other.example/'; return 301 /old; }
            location /place/none { more_clear_headers Location; return 301 /old; }
            location /vars { more_set_headers 'X-V: $arg_v-$uri' '$val: $host'; return 200 x; }
            location /case { more_set_headers 'X-Outer: 2' 'x-outer: 3'; return 200 x; }
            location /cache { more_set_headers 'Cache-Control: a'; add_header Cache-Control b; return 200 x; }
            location /range/ { more_set_headers 'Accept-Ranges: none' 'X-R: $sent_http_content_range'; alias html/; }
            location /modified/ { more_set_headers 'Last-Modified: Mon, 01 Jan 2001 00:00:00 GMT'; alias html/; }
            location /coded/ { more_set_headers 'Content-Encoding: gzip'; gzip on; gzip_types *; gzip_min_length 1; alias html/; }
            location /page { error_page 404 /page/shown; more_set_headers 'X-S: s'; return 404; }
            location /page/shown { more_set_headers 'X-S2: s'; return 200 x; }
            location /up { proxy_pass http://127.0.0.1:@PORT1@; more_set_headers 'X-Up: n' 'Set-Cookie: z=1' 'Vary: X'; }
            location /up/none { proxy_pass http://127.0.0.1:@PORT1@; more_clear_headers 'x-up*' 'Set-*' ETag; }
            location /up/wild { proxy_pass http://127.0.0.1:@PORT1@; more_clear_headers 'ET*' 'Se*' 'Co*'; }
            location /up/set { proxy_pass http://127.0.0.1:@PORT1@; more_set_headers 'x-up*: n' 'ET*: "f"' 'None*: o' 'Set-*:'; }
            location /wild/ { more_set_headers 'Et*: "f"' 'Loc*: z'; alias html/; }
            location /moved/path { proxy_pass http://127.0.0.1:@PORT1@/moved; more_set_headers 'Location: /set'; }
            location /moved/far { proxy_pass http://127.0.0.1:@PORT1@/moved; more_set_headers 'Location: http://set/'; }
            location /moved/none { proxy_pass http://127.0.0.1:@PORT1@/moved; more_clear_headers Location; }
            location /moved/wild { proxy_pass http://127.0.0.1:@PORT1@/moved; more_clear_headers 'Lo*'; }
            location /moved/made { proxy_pass http://127.0.0.1:@PORT1@/created; more_set_headers 'Location: s'; }
            location /aged { proxy_pass http://127.0.0.1:@PORT1@/aged; more_clear_headers 'La*'; }
            location /date { more_set_headers 'Date: never'; return 200 x; }
            location /204 { more_set_headers 'X-S: s'; return 204; }
            location /deny { more_set_headers 'X-S: s'; deny all; }
            location /nested { more_set_headers 'X-N: 1' 'X-Outer: in'; location /nested/a { more_set_headers 'X-N: 2'; return 200 x; }
                               location /nested/b { return 200 x; } }
        }
        server { listen 127.0.0.1:@PORT1@; add_header X-Up 1; add_header X-Up 2; add_header X-Upper 3; add_header Set-Cookie a=b;
                 add_header Set-Cookie c=d; add_header Vary Accept; add_header ETag '"e"';
                 location / { return 200 up; }
                 location /moved { return 302 http://other/; }
                 location /created { add_header Location http://other/; return 200 up; }
                 location /aged { add_header Last-Modified 'Mon, 01 Jan 2001 00:00:00 GMT'; return 200 up; } }
        """, "\n".join("GET " + target for target in (
            "/not", "/clear/a.txt", "/some/a.txt", "/length/a.txt", "/empty", "/odd", "/if?x=1", "/if", "/if/in?x=1", "/if/in", "/status",
            "/status/any", "/type", "/type/set", "/type/other", "/type/twice", "/type/list", "/order", "/place", "/place/moved", "/place/far", "/place/none",
            "/vars?v=1%0d%0aX:1", "/case", "/cache", "/modified/a.txt", "/page", "/up", "/up/none", "/up/wild", "/up/set", "/wild/a.txt",
            "/moved/path", "/moved/far", "/moved/none", "/moved/wild", "/moved/made", "/aged", "/date",
            "/204", "/deny", "/nested/a", "/nested/b", "/a.txt")) + r"""
GET /some/a.txt | Range: bytes=1-2
GET /range/a.txt => 200 | Accept-Ranges: none | body~0123456789 -- nginx sends its own Accept-Ranges beside the one that is set
GET /range/a.txt | Range: bytes=1-2 => 200 | Accept-Ranges: none | -Content-Range -- what is said of ranges is true
HEAD /length/a.txt
GET /length/a.txt HTTP/1.0
GET /modified/a.txt | If-Modified-Since: Mon, 01 Jan 2001 00:00:00 GMT
GET /coded/a.txt | Accept-Encoding: gzip
GET /a.txt HTTP/1.1 | Host: a b
BARE GET /case\r\n
""", files=FILES, main="load_module /usr/lib/nginx/modules/ngx_http_headers_more_filter_module.so;"),

    Config("headers_more_input", r"""
        log_format fields 'host=$host/$http_host agent=$http_user_agent ref=$http_referer n=$http_x_n y=$http_y_a$http_y_b user=$remote_user '
                          'cookie=$cookie_a length=$http_content_length type=$http_content_type e=$http_x_e';
        access_log logs/fields.access fields;
        server {
            listen 127.0.0.1:@PORT@;
            root html;
            location /host { more_set_input_headers 'Host: Foo.Example:81' 'X-N: $host'; }
            location /host/none { more_clear_input_headers Host; }
            location /set { more_set_input_headers 'X-N: n' 'X-E:' 'User-Agent: u-$http_user_agent' 'Cookie: a=b'; }
            location /only { more_set_input_headers -r 'X-N: n'; more_set_input_headers -r 'X-E:'; }
            location /clear { more_clear_input_headers X-N 'Y-*' Referer; more_clear_input_headers -r User-Agent; }
            location /copy { more_set_input_headers 'X-N: $http_referer'; more_clear_input_headers Referer; }
            location /type { more_set_input_headers -t 'text/plain' 'X-N: p'; more_set_input_headers -t 'text/html text/css' 'X-N: h'; }
            location /range { more_set_input_headers 'Range: bytes=0-1'; alias html/a.txt; }
            location /user { more_set_input_headers 'Authorization: Basic YTpi'; }
            location /early { more_set_input_headers 'X-N: 1'; if ($http_x_n) { return 204; } }
            location /if { if ($arg_x) { more_set_input_headers 'X-N: if'; } }
            location /rewritten { more_set_input_headers 'X-N: 1'; rewrite ^ /other; }
            location /if-rewritten { if ($arg_x) { more_set_input_headers 'X-N: if'; rewrite ^ /other; } }
            location /other { more_set_input_headers 'X-E: $http_x_n'; }
            location /up { more_set_input_headers 'X-N: up' 'User-Agent: ua'; more_clear_input_headers 'Y-A'; proxy_pass http://127.0.0.1:@PORT1@; }
        }
        server { listen 127.0.0.1:@PORT1@; return 204; }
        """, """
GET /host
GET /host | Host: other
GET /host/none
GET /set | User-Agent: me
GET /set | X-N: 1 | X-N: 2 | X-E: e | x-e: f | Cookie: a=c
GET /set HTTP/1.0 | -Host
GET /only
GET /only | X-N: 1 | X-N: 2 | X-E: e
GET /clear | X-N: 1 | Y-A: 1 | Y-B: 2 | Referer: r | User-Agent: u
GET /copy | Referer: r
GET /type | Content-Type: text/plain
GET /type | Content-Type: text/css
GET /type | Content-Type: text/css; charset=x
GET /type
GET /range
GET /user
GET /early
GET /if?x=1
GET /if
GET /rewritten
GET /if-rewritten?x=1
GET /up | Y-A: 1 | Y-B: 2
GET /set && GET /nothing
""", files=FILES, main="load_module /usr/lib/nginx/modules/ngx_http_headers_more_filter_module.so;"),
]
