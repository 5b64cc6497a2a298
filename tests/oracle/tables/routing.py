"""Which server, which location, how a URI is read, how redirects are built."""

from ..engine import Config

CONFIGS = [
    Config("location", """
        server {
            listen 127.0.0.1:@PORT@;
            server_name localhost;
            location = / { return 200 "exact-root\\n"; }
            location / { return 200 "prefix-root\\n"; }
            location = /exact { return 200 "exact\\n"; }
            location /exact { return 200 "prefix /exact\\n"; }
            location /a { return 200 "/a\\n"; }
            location /a/ { return 200 "/a/\\n"; }
            location /a/b { return 200 "/a/b\\n"; }
            location /a/bc/d { return 200 "/a/bc/d\\n"; }
            location ^~ /static { return 200 "^~ /static\\n"; }
            location /static/more { return 200 "/static/more\\n"; }
            location ~ \\.php$ { return 200 "regex php $1\\n"; }
            location ~ ^/(x+)/(?<named>y*)$ { return 200 "regex $1 $named\\n"; }
            location ~* \\.(GIF|jpg)$ { return 200 "regex-i $1\\n"; }
            location ~ \\.gif$ { return 200 "regex late\\n"; }
            location ~^/glued { return 200 "glued regex\\n"; }
            location =/gluedexact { return 200 "glued exact\\n"; }
            location ^~/gluedprefix { return 200 "glued prefix\\n"; }
            location ~*^/GLUEDI { return 200 "glued regex-i\\n"; }
            location /outer/ {
                return 200 "outer\\n";
                location /outer/in/ { return 200 "in\\n";
                    location = /outer/in/exact { return 200 "in exact\\n"; }
                    location ~ \\.deep$ { return 200 "in deep\\n"; } }
                location ~ \\.php$ { return 200 "outer php\\n"; }
                location ^~ /outer/no/ { return 200 "outer no regex\\n"; }
            }
            location ~ ^/rx/ {
                location ~ \\.one$ { return 200 "rx one\\n"; }
                location ~ ^/rx/prefix { return 200 "rx prefix\\n"; }
                return 200 "rx\\n";
            }
            location ~ "^/br{2}ace{1,3}$" { return 200 "braces\\n"; }
            location "/quoted space" { return 200 "quoted\\n"; }
            location /uml\xc3\xa4ut { return 200 "utf-8\\n"; }
            location /CASE { return 200 "case\\n"; }
            location ~ (?i)^/inline { return 200 "inline flag\\n"; }
            location @named { return 200 "named"; }
        }
        """, """
        GET /
        GET /?x
        GET /other
        GET /exact
        GET /exact?q
        GET /exact/
        GET /exactly
        GET /a
        GET /ab
        GET /a/
        GET /a/x
        GET /a/b
        GET /a/bc
        GET /a/bc/d/e
        GET /a/b.php
        GET /static.php
        GET /static/more.php
        GET /static/x.php
        GET /file.php
        GET /file.php/info
        GET /file.PHP
        GET /xxx/yy
        GET /xxx/
        GET /xx/z
        GET /i.gif
        GET /i.GIF
        GET /i.JPG
        GET /glued/1
        GET /gluedexact
        GET /gluedprefix.php
        GET /gluedi
        GET /outer/
        GET /outer/x
        GET /outer/x.php
        GET /outer/in/x
        GET /outer/in/exact
        GET /outer/in/x.php
        GET /outer/in/x.deep
        GET /outer/no/x.php
        GET /outer/x.gif
        GET /outer
        GET /rx/
        GET /rx/a.one
        GET /rx/prefix
        GET /rx/prefix.one
        GET /rx/a.php
        GET /brrace
        GET /brracee
        GET /brraceeee
        GET /quoted%20space
        GET /uml%C3%A4ut
        GET /uml%c3%a4utx
        GET /case
        GET /CASE
        GET /INLINE
        GET /%65xact
        GET /%2e%2e/exact
        GET /%40named
        GET @named
        HEAD /exact
        """),

    Config("server_name", """
        server { listen 127.0.0.1:@PORT@; server_name first; return 200 "first $server_name\\n"; }
        server { listen 127.0.0.1:@PORT@; server_name exact.example.com other.example.com;
                 return 200 "exact $server_name $host\\n"; }
        server { listen 127.0.0.1:@PORT@; server_name *.example.com;
                 return 200 "front $server_name\\n"; }
        server { listen 127.0.0.1:@PORT@; server_name *.long.example.com;
                 return 200 "front long\\n"; }
        server { listen 127.0.0.1:@PORT@; server_name www.*; return 200 "back $server_name\\n"; }
        server { listen 127.0.0.1:@PORT@; server_name www.back.*; return 200 "back long\\n"; }
        server { listen 127.0.0.1:@PORT@; server_name .dot.org; return 200 "dot $server_name\\n"; }
        server { listen 127.0.0.1:@PORT@; server_name ~^(?<user>[a-z]+)\\.users\\.net$;
                 return 200 "regex $user $server_name\\n"; }
        server { listen 127.0.0.1:@PORT@; server_name ~^(.+)\\.users\\.net$;
                 return 200 "regex two $1\\n"; }
        server { listen 127.0.0.1:@PORT@; server_name ""; return 200 "empty\\n"; }
        server { listen 127.0.0.1:@PORT@; server_name 10.0.0.1; return 200 "address\\n"; }
        server { listen 127.0.0.1:@PORT@; server_name MiXed.Org; return 200 "mixed $server_name\\n"; }
        server { listen 127.0.0.1:@PORT1@; server_name a; return 200 "one a\\n"; }
        server { listen 127.0.0.1:@PORT1@ default_server; server_name b; return 200 "one b\\n"; }
        server { listen 127.0.0.1:@PORT1@; server_name _; return 200 "one _\\n"; }
        server { listen @PORT2@; return 200 "wildcard address\\n"; }
        server { listen 127.0.0.1:@PORT2@; return 200 "exact address $server_addr\\n"; }
        server { listen @PORT3@; listen 127.0.0.1:@PORT3@; server_name one;
                 return 200 "both $server_addr $server_port\\n"; }
        server { listen @PORT3@; server_name two; return 200 "two\\n"; }
        """, """
        GET / | Host: first
        GET / | Host: unknown
        GET / | Host: exact.example.com
        GET / | Host: EXACT.Example.COM
        GET / | Host: other.example.com
        GET / | Host: exact.example.com.
        GET / | Host: exact.example.com:8080
        GET / | Host: exact.example.com:
        GET / | Host: exact.example.com.:80
        GET / | Host: a.example.com
        GET / | Host: a.b.example.com
        GET / | Host: example.com
        GET / | Host: x.long.example.com
        GET / | Host: long.example.com
        GET / | Host: www.example.com
        GET / | Host: www.any
        GET / | Host: www.back.any
        GET / | Host: www.back.any.thing
        GET / | Host: www.
        GET / | Host: dot.org
        GET / | Host: x.dot.org
        GET / | Host: xdot.org
        GET / | Host: joe.users.net
        GET / | Host: JOE.users.net
        GET / | Host: joe2.users.net
        GET / | Host: a.b.users.net
        GET / | Host:
        GET / | Host: .
        GET / | Host: ..a
        GET / | Host: a..b
        GET / | Host: a/b
        GET / | Host: a\\\\b
            => 400 closed -- host syntax of RFC 3986 since 1.29.4
        GET / | Host: a b
        GET / | Host: a\\x02b
        GET / | Host: first:1.2
            => 400 closed -- port syntax of RFC 3986 since 1.29.4
        GET / | Host: first:98777
            => 400 closed -- port syntax of RFC 3986 since 1.29.4
        GET / | Host: first:80:80
            => 400 closed -- port syntax of RFC 3986 since 1.29.4
        GET / | Host: first:x
            => 400 closed -- port syntax of RFC 3986 since 1.29.4
        GET / | Host: [abcd::ef98:0:7654:321]
        GET / | Host: [abcd::ef98:0:7654:321]:80
        GET / | Host: [::ffff:12.30.67.89]
        GET / | Host: [abcd::ef98:0:7654:321].
            => 400 closed -- host syntax of RFC 3986 since 1.29.4
        GET / | Host: [abcd::ef98:0:7654:321
            => 400 closed -- host syntax of RFC 3986 since 1.29.4
        GET / | Host: extra[abcd::ef98:0:7654:321]:98
            => 400 closed -- host syntax of RFC 3986 since 1.29.4
        GET / | Host: [v0123.!$&'()*+,;=-._~:]
        GET / | Host: a | Host: b
        GET / | Host: a | Host: a
        GET http://first:123456/
            => 400 closed -- port syntax of RFC 3986 since 1.29.3
        GET http://first:80:80/
        GET http://a..b/
        GET http://[abcd::1]/
        GET http://[abcd::1/
        GET / | -Host
        GET / HTTP/1.0 | -Host
        GET / HTTP/1.0 | Host: first
        GET / | Host: 10.0.0.1
        GET / | Host: 10.0.0.1:99
        GET / | Host: mixed.org
        GET / | Host: MIXED.ORG
        GET http://exact.example.com/ | Host: first
        GET http://exact.example.com:99/ | Host: first
        GET http://EXACT.example.com/ HTTP/1.0 | -Host
        GET / | Host: a | @PORT1
        GET / | Host: b | @PORT1
        GET / | Host: c | @PORT1
        GET / | Host: _ | @PORT1
        GET / | Host: x | @PORT2
        GET / | Host: one | @PORT3
        GET / | Host: two | @PORT3
        """),

    Config("uri", """
        server {
            listen 127.0.0.1:@PORT@;
            server_name localhost;
            location / { return 200 "$uri|$request_uri|$args|$is_args\\n"; }
            location = /exact { return 200 "exact\\n"; }
        }
        server {
            listen 127.0.0.1:@PORT1@;
            server_name localhost;
            merge_slashes off;
            location / { return 200 "off $uri\\n"; }
            location //two { return 200 "two\\n"; }
        }
        """, """
        GET /a/b/c
        GET /a//b
        GET //a///b//
        GET /a/./b
        GET /a/../b
        GET /a/b/..
        GET /a/b/../
        GET /a/b/.
        GET /a/b/./
        GET /./././a
        GET /a/b/../../c
        GET /..
        GET /../a
        GET /a/../../b
        GET /a/..b
        GET /a/...
        GET /a/.../b
        GET /a/.b
        GET /a/b..
        GET /%2e/a
        GET /a/%2e%2e/b
        GET /a/%2E./b
        GET /a/.%2e
        GET /a%2Fb
        GET /a%2F..%2Fb
        GET /a/%2F/b
        GET /%41%42
        GET /a%20b
        GET /a%00b
        GET /%00
        GET /a%0ab
        GET /a%ffb
        GET /%zz
        GET /%4
        GET /%
        GET /a%3Fb?c
        GET /a%23b#frag
            => 400 closed -- RFC 9112 3.2: a fragment is no part of a target
        GET /a#frag
            => 400 closed -- RFC 9112 3.2: a fragment is no part of a target
        GET /a#frag?x
            => 400 closed -- RFC 9112 3.2: a fragment is no part of a target
        GET /a?x#frag
            => 400 closed -- RFC 9112 3.2: a fragment is no part of a target
        GET /a+b
        GET /a%2Bb
        GET /a?
        GET /a??
        GET /a?x=1&y=2
        GET /a?x=%20%zz
        GET /a?../../b
        GET /a?x//y
        GET /a%25b
        GET /a%2541
        GET /a;b=c
        GET /a:b
        GET /a"b
        GET /a<b>
        GET /a\\\\b
        GET /a|b
        GET /a{b}
        GET /a^b`
        GET /~user
        GET /\\xc3\\xa4
        GET /a\\xff
        GET http://localhost/abs
        GET http://localhost
        GET http://localhost?q=1
        GET http://localhost/?q=1
        GET HTTP://LOCALHOST/x
        GET https://localhost/x
        GET ftp://localhost/x
        GET http://localhost:1234/x
        GET http://user@localhost/x
        GET http:///x
        GET http:/x
        GET *
        OPTIONS *
        OPTIONS /
        GET a
        GET ?x
        GET .
        GET /exact/
        GET /exact/.
        GET /x/../exact
        GET /%65%78%61%63%74
        GET //exact | @PORT1
        GET //two | @PORT1
        GET /a//b///c | @PORT1
        GET /a//../b | @PORT1
        GET /a//.//b | @PORT1
        GET /a/%2F/b | @PORT1
        """),

    Config("redirect", """
        root html;
        server {
            listen 127.0.0.1:@PORT@;
            server_name primary.example secondary.example;
            location /relative/ { absolute_redirect off; alias html/; }
            location /noport/ { port_in_redirect off; alias html/; }
            location /name/ { server_name_in_redirect on; alias html/; }
            location /nameport/ { server_name_in_redirect on; port_in_redirect off; alias html/; }
            location /return/ { return 301 /target; }
            location /relreturn/ { absolute_redirect off; return 302 /target; }
            location /nameless/ { return 303 target; }
            location /full/ { return 307 http://other.example/x?$args; }
            location /https { return https://other.example$request_uri; }
            location /space/ { alias "html/sp ace/"; }
        }
        server { listen 127.0.0.1:@PORT1@; server_name ""; server_name_in_redirect on; }
        server { listen 127.0.0.1:@PORT2@; server_name *.wild.example; server_name_in_redirect on; }
        """, """
        GET /dir
        GET /dir?a=b&c
        GET /dir | Host: primary.example
        GET /dir | Host: primary.example:1
        GET /dir | Host: SECONDARY.example
        GET /dir | Host: secondary.example.
        GET /dir | Host: unknown:8080
        GET /dir HTTP/1.0 | -Host
        GET /relative/dir
        GET /relative/dir?x=y
        GET /relative/dir | Host: any:1
        GET /noport/dir
        GET /noport/dir | Host: any:1
        GET /name/dir | Host: any
        GET /nameport/dir | Host: any
        GET /return/
        GET /return/ | Host: any
        GET /relreturn/
        GET /nameless/
        GET /full/?a=b
        GET /https?x
        GET /sp%20ace
        GET /with%25percent
        GET /que%3fstion
        GET /uml%C3%A4ut
        GET /plus+dir
        GET /dir | Host: any | @PORT1
            => 301 kept -- with an empty server_name 1.22 writes a Location without a host
        GET /dir | Host: x.wild.example | @PORT2
        GET http://abs.example/dir
        GET http://abs.example:99/dir
        HEAD /dir
        POST /dir << x
        """, files={
            "html/dir/x": "", "html/sp ace/x": "", "html/with%percent/x": "",
            "html/que?stion/x": "", "html/uml\u00e4ut/x": "", "html/plus+dir/x": "",
        }),

    Config("try_files", """
        server {
            listen 127.0.0.1:@PORT@;
            server_name localhost;
            root html;
            location / { try_files $uri $uri/ /fallback; }
            location = /fallback { return 200 "fallback $uri $request_uri $args\\n"; }
            location /status/ { try_files $uri =404; }
            location /status405/ { try_files $uri =405; }
            location /named/ { try_files $uri @named; }
            location @named { return 200 "named $uri\\n"; }
            location /args/ { try_files $uri /fallback?from=$uri&$args; }
            location /var/ { try_files /$arg_f.txt /a.txt =404; }
            location /dir/ { try_files /sub/ =404; }
            location /indexed/ { try_files $uri/ =404; }
            location /alias/ { alias html/sub/; try_files $uri $uri.txt =404; }
            location ~ ^/ra/(.*)$ { alias html/sub/$1; try_files "" .txt =404; }
            location /loop/ { try_files $uri /loop/again; }
            location /nonamed/ { try_files $uri @missing; }
            location /one/ { try_files none /a.txt; }
            location /order/ { try_files /b.txt /a.txt =404; }
            location /escape/ { try_files "/with space.txt" =404; }
        }
        server {
            listen 127.0.0.1:@PORT1@;
            server_name localhost;
            root html;
            try_files $uri /a.txt;
        }
        server {
            listen 127.0.0.1:@PORT2@;
            root html;
            try_files /maintenance.html $uri =503;
            location /l/ { }
        }
        """, """
        GET /a.txt
        GET /none?x=1
        GET /sub
        GET /sub/
        GET /empty/
        GET /empty
        GET /status/a.txt
        GET /status/none
        GET /status405/none
        GET /named/x
        GET /args/x?q=1
        GET /args/x
        GET /var/
        GET /var/?f=b
        GET /var/?f=none
        GET /dir/
        GET /dir/x
        GET /indexed/sub
        GET /alias/in
        GET /alias/in.txt
        GET /alias/none
        GET /ra/in
        GET /ra/in.txt
        GET /loop/x
        GET /nonamed/x
        GET /one/x
        GET /order/x
        GET /escape/x
        HEAD /none
        POST /none << body
        POST /named/x << body
        GET /a.txt | @PORT1
        GET /b.txt | @PORT1
        GET /none | @PORT1
        GET /a.txt | @PORT2
        GET /none | @PORT2
        GET /l/none | @PORT2
        """, files={"html/a.txt": "a\n", "html/b.txt": "b\n", "html/sub/index.html": "sub index\n",
                    "html/sub/in.txt": "in\n", "html/empty": None, "html/status/a.txt": "sa\n",
                    "html/with space.txt": "space\n", "html/indexed/sub/index.html": "ind\n"}),
]
