"""echo: answers that the configuration writes."""

from ..engine import Config

CONFIGS = [
    Config("echo", r"""
        types { text/plain txt; }
        server {
            listen 127.0.0.1:@PORT@;
            root html;
            location /a { echo a; echo_flush; echo -n b c; }
            location /options { echo -x y; echo -- -n; echo -n -n z; echo; echo -n; echo a -n; }
            location /status { echo_status 404; echo x; location /status/in { echo y; } }
            location /204 { echo_status 204; echo x; }
            location /sleep { echo_sleep 0.001; echo x; }
            location /sleep/arg { echo_sleep $arg_t; echo y; }
            location /sleep/only { echo_sleep 0.001; }
            location /exec { echo_exec /shown; }
            location /exec/args { echo_exec /shown a=b; }
            location /exec/both { echo_exec /shown?c=d a=b; }
            location /exec/own { echo_exec /shown?c=d; }
            location /exec/named { echo_exec @named; }
            location /exec/arg { echo_exec $arg_x; }
            location @named { echo "$uri $args $echo_request_uri"; }
            location /shown { echo "$uri $args [$echo_request_uri] $echo_request_method $echo_client_request_method $echo_response_status"; }
            location /each { echo_foreach_split '&' $args; echo "it=$echo_it"; echo_end; echo done; }
            location /each/two { echo_foreach_split ',' a,b,,c; echo_location /shown $echo_it; echo "-$echo_it"; echo_end; }
            location /each/none { echo_foreach_split -- ',' ''; echo "x$echo_it"; echo_end; echo z; }
            location /each/long { echo_foreach_split ', ' 'a, b,c'; echo "[$echo_it]"; echo_end; }
            location /each/open { echo_foreach_split ',' a,b; echo "$echo_it"; }
            location /around { echo_before_body b1; echo_before_body -n b2; echo_after_body a1; echo_after_body a2 $status; return 200 mid;
                               location /around/in { echo_after_body own; echo x; } }
            location /around/file { echo_before_body x; try_files /a.txt =404; }
            location /around/404 { echo_before_body b1; return 404; }
            location /around/204 { echo_before_body b1; return 204; }
            location /around/sub { echo_location /around/in; echo_after_body after; }
            location /async { echo_location_async /sleep/arg?t=0.02; echo mid; echo_location_async /a; echo end; }
            location /mixed { echo_location_async /sleep/arg?t=0.03; echo_location /shown; echo_location_async /sleep/arg?t=0.001; echo y; echo_location /a; }
            location /nowhere { echo_location /missing; echo end; }
            location /body { echo_read_request_body; echo "[$request_body]"; echo_request_body; echo; echo "$echo_request_body"; }
            location /body/late { echo x; echo_sleep 0.001; echo_read_request_body; echo_request_body; }
            location /body/not { echo_request_body; echo x; }
            location /heads { echo -n "$echo_client_request_headers"; }
            location /post { echo_subrequest POST /body -b 'abc'; }
            location /post/file { echo_subrequest POST /body/file -f html/a.txt; }
            location /body/file { echo_request_body; echo "$http_content_length"; }
            location /methods { echo_subrequest PUT /shown -q 'x=y'; echo_subrequest FOO /shown; }
            location /methods/async { echo_subrequest_async POST /body -b ''; echo_subrequest_async DELETE /shown; echo x; }
            location /body/given { echo "[$request_body]"; echo_location /body/shown; echo_request_body; }
            location /body/async { echo_subrequest_async GET /body/shown; echo_subrequest POST /body/shown -b ''; }
            location /body/sleeps { echo_sleep 0.001; echo_location_async /body/shown; }
            location /body/shown { echo "[$request_body]$content_length|$http_content_length"; }
            location /length { echo_subrequest POST /length/in -b 'abc'; echo "$http_content_length|$http_content_type"; }
            location /length/in { echo "$http_content_length|$http_content_type|$content_length|$http_host|$http_x_a"; }
            location /many { echo_duplicate 3 ab; echo_duplicate 1_0 x; echo_duplicate 0 y; echo_duplicate 2 c d; }
            location /args { echo_location /shown?a=b; echo_location /shown "c=d&$args"; echo_location "/shown $args"; }
            location /incr { echo $echo_incr; echo_location /incr/in; echo_location_async /incr/in; echo $echo_incr; }
            location /incr/in { echo $echo_incr; }
            location /if { if ($arg_x) { echo if; } echo no; }
            location /if/set { set $b 0; if ($arg_x) { set $b 1; } echo no $b; }
            location /nest { echo x; location /nest/in { } }
            location /denied { echo_location /403; echo z; }
            location /403 { return 403; }
            location /vars { set $v outer; echo_location /vars/in; echo "$v"; }
            location /vars/in { echo "[$v]"; set $w inner; echo "[$v$w]"; }
            location /empty { echo ""; echo -n ""; }
            location /flush { echo_flush; echo_flush; }
            location /type { default_type text/css; echo_read_request_body; }
            location /timer { echo_reset_timer; }
        }
        """, "\n".join("GET " + target for target in (
            "/a", "/options", "/status", "/status/in", "/204", "/sleep", "/sleep/arg?t=0.001", "/sleep/arg?t=x", "/sleep/arg?t=-1", "/sleep/only",
            "/exec?z=1", "/exec/args?z=1", "/exec/both", "/exec/own", "/exec/named?q", "/exec/arg?x=/shown", "/exec/arg?x=/shown%20a%41", "/exec/arg?x=", "/shown?a=b%20c",
            "/each?a=b&c=d", "/each/two", "/each/none", "/each/long", "/each/open", "/around", "/around/in", "/around/404", "/around/file", "/around/204",
            "/around/sub", "/async", "/mixed", "/nowhere", "/body", "/body/not", "/post", "/post/file", "/methods",
            "/methods/async", "/many", "/args?q", "/incr", "/if?x=1", "/if", "/if/set?x=1", "/nest", "/nest/in", "/denied",
            "/vars", "/empty", "/flush", "/type", "/timer")) + r"""
HEAD /a
HEAD /around
HEAD /async
GET /a HTTP/1.0
GET /async HTTP/1.0
GET /a | Range: bytes=0-1
GET /a | Accept-Encoding: gzip
POST /a << abcdef
POST /body << hello
POST /body | Transfer-Encoding: chunked << 3\r\nabc\r\n0\r\n\r\n
POST /body/late << abc
POST /body/not << abc
POST /body/given << abc
POST /body/given | Transfer-Encoding: chunked << 3\r\nabc\r\n0\r\n\r\n
GET /body/given
POST /body/async << abc
POST /body/async | Transfer-Encoding: chunked << 3\r\nabc\r\n0\r\n\r\n
GET /body/async
POST /body/sleeps << abc
GET /heads | X-A: 1 | X-A: 2
POST /heads << abc
GET /length | X-A: a
GET /a && GET /around && GET /async
BARE GET /a\r\n
""", files={"html/a.txt": "a file\n"}, main="load_module /usr/lib/nginx/modules/ngx_http_echo_module.so;"),
]
