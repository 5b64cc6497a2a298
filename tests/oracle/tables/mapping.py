"""map, access rules, satisfy, limit_except, empty_gif, stub_status."""

from ..engine import Config

CONFIGS = [
    Config("map", r"""
        map $arg_k $simple { a 1; b 2; "c d" 3; default none; }
        map $arg_k $nodefault { a 1; }
        map $arg_k $regex { ~^x(\d+)$ "digits $1"; ~*^y(?<rest>.*)$ "rest $rest"; exact exact; ~^ex "regex ex"; default d; }
        map $http_host $hosts { hostnames; example.com exact; *.example.com front; .dot.com dot; www.* back; ~^re "re"; default d; }
        map $arg_k $vars { a $arg_v; b "pre-$arg_v-post"; default $uri; }
        map "$arg_k:$arg_v" $combined { "a:b" both; ~^a: "a only"; default neither; }
        map $arg_k $escaped { \default "escaped default"; \~tilde "escaped tilde"; default d; }
        map $arg_k $included { include map.inc; default d; }
        map $arg_k $empty { "" "was empty"; default "was not"; }
        map $arg_k $case { AbC matched; default d; }
        map $simple $chained { 1 one; 2 two; default other; }
        map $arg_k $cached { default $now; }
        map $arg_k $volatile { volatile; default $now; }
        map $uri $uri_map { volatile; default "at $uri"; }
        map $arg_k $order { ~^a 1; ~^ab 2; default 3; }
        map $host $unused { default x; }
        map $arg_k $quoted { "'" single; '"' double; "a;b" semicolon; default d; }
        server {
            listen 127.0.0.1:@PORT@;
            server_name localhost;
            set $now first;
            location /simple { return 200 "$simple\n"; }
            location /nodefault { return 200 "[$nodefault]\n"; }
            location /regex { return 200 "$regex\n"; }
            location /hosts { return 200 "$hosts\n"; }
            location /vars { return 200 "$vars\n"; }
            location /combined { return 200 "$combined\n"; }
            location /escaped { return 200 "$escaped\n"; }
            location /included { return 200 "$included\n"; }
            location /empty { return 200 "$empty\n"; }
            location /case { return 200 "$case\n"; }
            location /chained { return 200 "$chained\n"; }
            location /cached { set $a $cached; set $now second; return 200 "$a $cached\n"; }
            location /volatile { set $a $volatile; set $now second; return 200 "$a $volatile\n"; }
            location /urimap { set $a $uri_map; rewrite ^ /urimap2 last; }
            location /urimap2 { return 200 "$a $uri_map\n"; }
            location /order { return 200 "$order\n"; }
            location /quoted { return 200 "$quoted\n"; }
            location /if { if ($simple = 1) { return 200 "yes\n"; } return 200 "no\n"; }
            location /root { root html/$simple; }
        }
        """, r"""
        GET /simple?k=a
        GET /simple?k=b
        GET /simple?k=A
        GET /simple
        GET /nodefault?k=a
        GET /nodefault
        GET /regex?k=x42
        GET /regex?k=X42
        GET /regex?k=YES
        GET /regex?k=exact
        GET /regex?k=exa
        GET /hosts | Host: example.com
        GET /hosts | Host: EXAMPLE.com
        GET /hosts | Host: a.example.com
        GET /hosts | Host: a.b.example.com
        GET /hosts | Host: dot.com
        GET /hosts | Host: x.dot.com
        GET /hosts | Host: www.any
        GET /hosts | Host: www.example.com
        GET /hosts | Host: rex
        GET /hosts | Host: other
        GET /hosts | Host: example.com.
        GET /vars?k=a&v=1
        GET /vars?k=b&v=1
        GET /vars?k=c
        GET /combined?k=a&v=b
        GET /combined?k=a&v=c
        GET /combined?k=x
        GET /escaped?k=default
        GET /escaped?k=~tilde
        GET /included?k=inc1
        GET /included?k=inc2
        GET /included?k=x
        GET /empty
        GET /empty?k=
        GET /empty?k=1
        GET /case?k=abc
        GET /case?k=AbC
        GET /chained?k=a
        GET /chained?k=b
        GET /chained
        GET /cached
        GET /volatile
        GET /urimap
        GET /order?k=ab
        GET /quoted?k='
        GET /quoted?k="
        GET /quoted?k=a;b
        GET /if?k=a
        GET /if
        GET /root/x?k=a
        """, files={"map.inc": "inc1 one;\ninc2 'two words';\n", "html/1/root/x": "root 1\n"}),

    Config("access", r"""
        server {
            listen 127.0.0.1:@PORT@;
            server_name localhost;
            root html;
            location /open { return 200 "rewrite phase answers before access"; deny all; }
            location /denyall/ { deny all; alias html/; }
            location /allowall/ { allow all; deny all; alias html/; }
            location /order/ { deny 127.0.0.1; allow all; alias html/; }
            location /allowme/ { allow 127.0.0.1; deny all; alias html/; }
            location /cidr/ { allow 127.0.0.0/8; deny all; alias html/; }
            location /cidrno/ { deny 127.0.0.0/24; alias html/; }
            location /other/ { allow 10.0.0.0/8; deny all; alias html/; }
            location /v6/ { deny ::1; deny fe80::/10; alias html/; }
            location /unix/ { allow unix:; deny all; alias html/; }
            location /none/ { alias html/; }
            location /zero/ { deny 0.0.0.0/0; alias html/; }
            location /nested/ { deny all;
                location /nested/inherit/ { alias html/; }
                location /nested/own/ { allow all; alias html/; } }
            location /any/ { satisfy any; deny all; alias html/; }
            location /anyallow/ { satisfy any; allow 127.0.0.1; deny all; alias html/; }
            location /errpage/ { deny all; error_page 403 /403.html; }
            location /errallowed/ { deny all; error_page 403 @denied; }
            location @denied { deny all; return 200 "denied page\n"; }
            location = /403.html { allow all; }
            location /except/ { alias html/; limit_except GET { deny all; } }
            location /exceptpost/ { alias html/; limit_except GET POST { deny all; } }
            location /exceptallow/ { limit_except POST { allow 127.0.0.1; deny all; } alias html/; }
            location /excepthead/ { alias html/; limit_except HEAD { deny all; } }
            location /index/ { alias html/; index a.txt; deny all; }
            location /try/ { deny all; try_files /a.txt =404; }
            location /redirected/ { rewrite ^ /denyall/a.txt last; }
        }
        server { listen 127.0.0.1:@PORT1@; deny all; location /allow { allow all; root html; } location / { root html; } }
        """, r"""
        GET /open
        GET /denyall/a.txt
        GET /allowall/a.txt
        GET /order/a.txt
        GET /allowme/a.txt
        GET /cidr/a.txt
        GET /cidrno/a.txt
        GET /other/a.txt
        GET /v6/a.txt
        GET /unix/a.txt
        GET /none/a.txt
        GET /zero/a.txt
        GET /nested/inherit/a.txt
        GET /nested/own/a.txt
        GET /any/a.txt
        GET /anyallow/a.txt
        GET /errpage/
        GET /errallowed/
        GET /except/a.txt
        HEAD /except/a.txt
        POST /except/a.txt << x
        PUT /except/a.txt << x
        OPTIONS /except/a.txt
        POST /exceptpost/a.txt << x
        DELETE /exceptpost/a.txt
        GET /exceptallow/a.txt
        GET /excepthead/a.txt
        HEAD /excepthead/a.txt
        GET /index/
        GET /try/
        GET /redirected/
        GET /denyall/none
        HEAD /denyall/a.txt
        POST /denyall/a.txt << body
        GET /allow/a.txt | @PORT1
        GET /a.txt | @PORT1
        """, files={"html/a.txt": "a\n", "html/403.html": "page 403\n", "html/allow/a.txt": "al\n"}),

    Config("empty_gif", r"""
        server {
            listen 127.0.0.1:@PORT@;
            server_name localhost;
            location = /empty.gif { empty_gif; }
            location /e/ { empty_gif; expires 1h; add_header X-G g; }
            location /denied/ { empty_gif; deny all; }
            location /rewrite/ { empty_gif; return 200 "return first\n"; }
        }
        """, r"""
        GET /empty.gif
        GET /empty.gif?x=1
        HEAD /empty.gif
        POST /empty.gif << x
        PUT /empty.gif << x
        OPTIONS /empty.gif
        GET /empty.gif HTTP/1.0
        GET /empty.gif | If-Modified-Since: Mon, 28 Sep 1970 06:00:00 GMT
        GET /empty.gif | If-Modified-Since: Mon, 28 Sep 2020 06:00:00 GMT
        GET /empty.gif | Range: bytes=0-5
        GET /empty.gif | If-None-Match: *
        GET /e/any
        GET /denied/
        GET /rewrite/
        GET /empty.gif && GET /empty.gif && GET /empty.gif
        """),

    Config("map_captures", r"""
        map $arg_k $three { ~(.)(.)(.) "map[$1$3]"; default none; }
        map $arg_k $long { ~(.+) "long"; default none; }
        map $arg_k $named { ~(?<name>.)(.) "named[$name]"; default none; }
        server {
            listen 127.0.0.1:@PORT@;
            location ~ ^/both(.)(.) { return 200 "$1$2-$three-$1$2"; }
            location ~ ^/after(.)(.) { return 200 "$three-$1$2"; }
            location ~ ^/set(.)(.) { set $x "$1$2-$three-$1$2"; return 200 "$x"; }
            location ~ ^/once(.)(.) { set $x $three; return 200 "$x-$1$2"; }
            location ~ ^/field(.)(.) { add_header X-M $three; return 200 "$1$2"; }
            location ~ ^/rewrite(.)(.) { rewrite ^/rewrite(.)(.)$ /to/$1$2-$three-$1$2 last; }
            location /to/ { return 200 "$uri $args"; }
            location ~ ^/if(.)(.) { if ($three ~ (z)?) { set $y 1; } return 200 "$1$2-$three-$1$2"; }
            location ~ ^/name(?<p>.)(?<q>.) { return 200 "$p$q-$three-$p$q-$named-$name"; }
            location ~ ^/named(.)(.) { return 200 "$1$2-$named-$1$2"; }
            location ~ ^/long(.)(.) { return 200 "$1$2-$long-$1$2"; }
        }
        """, "\n".join("GET /%s12?k=%s" % (name, key) for key in ("pqr", "x", "")
                       for name in "both after set once field rewrite if name named".split()) + r"""
        GET /long12?k=
        GET /long12?k=pqr
            => 200 | body~pqr-long-pqr -- the reference has measured the first captures, and fails
        """),

    Config("stub_status", r"""
        server {
            listen 127.0.0.1:@PORT@;
            server_name localhost;
            location /status { stub_status; }
            location /old { stub_status on; }
            location /denied { stub_status; deny all; }
            location /vars { return 200 "$connections_active $connections_reading $connections_writing $connections_waiting\n"; }
            location / { return 200 "x"; }
        }
        server { listen 127.0.0.1:@PORT1@; stub_status; }
        """, r"""
        GET /status
        GET /status
        GET / && GET / && GET /status
        HEAD /status
        POST /status << x
        PUT /status << x
        OPTIONS /status
        GET /old
        GET /denied
        GET /vars
        GET /any | @PORT1
        GET /status | Range: bytes=0-3
        GET /status HTTP/1.0
        """),
]
