"""rewrite, return, set, if, break, error_page, named locations, internal redirects."""

from ..engine import Config

CONFIGS = [
    Config("rewrite", r"""
        server {
            listen 127.0.0.1:@PORT@;
            server_name localhost;
            root html;
            rewrite ^/server/(.*)$ /loc/$1;
            rewrite ^/serverlast/(.*)$ /loc/$1 last;
            rewrite ^/serverbreak/(.*)$ /loc/$1 break;
            rewrite ^/serverredirect/(.*)$ /loc/$1 redirect;
            rewrite ^/twice/(.*)$ /twice2/$1;
            rewrite ^/twice2/(.*)$ /loc/two-$1;
            location /loc/ { return 200 "loc $uri $args\n"; }
            location /last/ { rewrite ^/last/(.*)$ /loc/$1 last; return 200 "not reached\n"; }
            location /break/ { rewrite ^/break/(.*)$ /file/$1 break; return 200 "not reached\n"; }
            location /none/ { rewrite ^/none/(.*)$ /loc/$1; return 200 "return wins $uri\n"; }
            location /redirect/ { rewrite ^/redirect/(.*)$ /loc/$1 redirect; }
            location /permanent/ { rewrite ^/permanent/(.*)$ /loc/$1 permanent; }
            location /absolute/ { rewrite ^/absolute/(.*)$ http://other.example/$1; }
            location /https/ { rewrite ^/https/(.*)$ https://other.example/$1 permanent; }
            location /scheme/ { rewrite ^/scheme/(.*)$ $scheme://other.example/$1; }
            location /args/ { rewrite ^/args/(.*)$ /loc/$1?new=1 last; }
            location /noargs/ { rewrite ^/noargs/(.*)$ /loc/$1? last; }
            location /newargs/ { rewrite ^/newargs/(.*)$ /loc/$1?x=$arg_a? last; }
            location /rargs/ { rewrite ^/rargs/(.*)$ /loc/$1?new=1 redirect; }
            location /rnoargs/ { rewrite ^/rnoargs/(.*)$ /loc/$1? redirect; }
            location /nomatch/ { rewrite ^/other$ /loc/ last; return 200 "no match\n"; }
            location /named/ { rewrite ^/named/(?<first>\w+)-(?<second>\w+)$ /loc/$second-$first last; }
            location /case/ { rewrite ^/CASE/(.*)$ /loc/$1 last; return 200 "case matters\n"; }
            location /icase/ { rewrite (?i)^/ICASE/(.*)$ /loc/$1 last; }
            location /nested/ { rewrite ^/nested/((a)(b)?(c)?)$ /loc/1=$1,2=$2,3=$3,4=$4 last; }
            location /var/ { rewrite ^/var/(.*)$ /loc/$host-$1-$request_method last; }
            location /loop/ { rewrite ^/loop/(.*)$ /loop/x$1 last; }
            location /escape/ { rewrite ^/escape/(.*)$ /loc/?q=$1 redirect; }
            location /escapepath/ { rewrite ^/escapepath/(.*)$ /loc/$1 redirect; }
            location /relative/ { rewrite ^ loc/ redirect; }
            location /chain/ {
                rewrite ^/chain/(.*)$ /chain2/$1;
                rewrite ^/chain2/(.*)$ /chain3/$1;
                rewrite ^/chain3/(.*)$ /loc/$1 last;
            }
            location /braces/ { rewrite "^/braces/(\d{3})$" /loc/$1 last; return 404; }
            location /quote/ { rewrite ^/quote/(.*)$ "/loc/a b $1" last; }
            location /utf/ { rewrite ^/utf/(.)(.*)$ /loc/?one=$1 redirect; }
        }
        """, r"""
        GET /server/x
        GET /server/x?q=1
        GET /serverlast/x
        GET /serverbreak/x
        GET /serverredirect/x?q=1
        GET /twice/x
        GET /last/x
        GET /last/x?a=b
        GET /break/a.txt
        GET /break/none
        GET /none/x
        GET /redirect/x
        GET /redirect/x?a=b
        GET /permanent/x
        GET /permanent/x?a=b
        GET /absolute/x?a=b
        GET /https/x
        GET /scheme/x?a
        GET /args/x
        GET /args/x?old=2
        GET /noargs/y
        GET /noargs/x?old=2
        GET /newargs/x?a=5&b=6
        GET /rargs/x?old=2
        GET /rnoargs/x?old=2
        GET /nomatch/x
        GET /named/a-b
        GET /case/x
        GET /icase/x
        GET /nested/a
        GET /nested/ab
        GET /nested/ac
        GET /nested/abc
        GET /var/x
        GET /loop/x
        GET /escape/a%20b%26c%25d
        GET /escape/a%2Bb%3Fc%23d
        GET /escapepath/a%20b%3Fc%25
        GET /escapepath/%C3%A4%0A
        GET /relative/x
        GET /chain/x
        GET /braces/123
        GET /braces/12
        GET /quote/x
        GET /utf/%C3%A4x
        HEAD /redirect/x
        POST /last/x << body
        POST /permanent/x << body
        GET /last/x HTTP/1.0
        """, files={"html/file/a.txt": "file a\n"}),

    Config("return", r"""
        server {
            listen 127.0.0.1:@PORT@;
            server_name localhost;
            default_type text/x-default;
            location /200 { return 200; }
            location /200text { return 200 "text\n"; }
            location /200empty { return 200 ""; }
            location /200var { return 200 "$uri $arg_x\n"; }
            location /201 { return 201 "created\n"; }
            location /204 { return 204; }
            location /204text { return 204 "ignored\n"; }
            location /301 { return 301 /to; }
            location /301none { return 301; }
            location /302abs { return 302 http://x.example/; }
            location /303 { return 303 /to?$args; }
            location /304 { return 304; }
            location /307 { return 307 /to; }
            location /308 { return 308 /to; }
            location /308empty { return 308 ""; }
            location /400 { return 400; }
            location /401 { return 401; }
            location /402 { return 402 "pay\n"; }
            location /403 { return 403; }
            location /404text { return 404 "own 404\n"; }
            location /405 { return 405; }
            location /408 { return 408; }
            location /409 { return 409; }
            location /410 { return 410; }
            location /411 { return 411; }
            location /412 { return 412; }
            location /413 { return 413; }
            location /414 { return 414; }
            location /415 { return 415; }
            location /416 { return 416; }
            location /418 { return 418; }
            location /421 { return 421; }
            location /422 { return 422; }
            location /426 { return 426; }
            location /429 { return 429; }
            location /451 { return 451; }
            location /494 { return 494; }
            location /495 { return 495; }
            location /496 { return 496; }
            location /497 { return 497; }
            location /498 { return 498; }
            location /500 { return 500; }
            location /501 { return 501; }
            location /502 { return 502; }
            location /503 { return 503; }
            location /504 { return 504; }
            location /505 { return 505; }
            location /507 { return 507; }
            location /599 { return 599; }
            location /600 { return 600 "six\n"; }
            location /999 { return 999 "nine\n"; }
            location /0 { return 0 "zero\n"; }
            location /444 { return 444; }
            location /url { return http://x.example$uri; }
            location /type { default_type text/html; return 200 "<p>\n"; }
            location /notype { default_type ""; return 200 "none\n"; }
            location /ext.html { types { text/html html; } return 200 "by type\n"; }
            location /long { return 200 "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"; }
            location /newline { return 301 "/a$arg_x"; }
            location /multi { return 200 "line1
line2\n\ttab\"quote\\back"; }
        }
        """, "\n".join("GET /" + path for path in """
            200 200text 200empty 200var?x=1 201 204 204text 301 301none 302abs 303?a=b 304 307 308
            308empty 400 401 402 403 404text 405 408 409 410 411 412 413 414 415 416 418 421 422 426
            429 451 494 495 496 497 498 500 501 502 503 504 505 507 599 600 999 444 url type
            notype ext.html long newline?x=%0d%0aX:y multi
            """.split()) + r"""
        HEAD /200text
        HEAD /404text
        HEAD /403
        HEAD /301
        HEAD /500
        POST /200text << body
        POST /403 << body
        POST /500 << body
        DELETE /200text
        GET /200text HTTP/1.0
        GET /403 | User-Agent: Mozilla/4.0 (compatible; MSIE 6.0; Windows NT 5.1)
        GET /403 | User-Agent: Mozilla/5.0 (compatible; MSIE 9.0)
        GET /404text | User-Agent: Mozilla/4.0 (compatible; MSIE 6.0; Windows NT 5.1)
        GET /404none | User-Agent: Mozilla/5.0 AppleWebKit Chrome/100
        """),

    Config("if", r"""
        server {
            listen 127.0.0.1:@PORT@;
            server_name localhost;
            root html;
            if ($arg_server) { return 200 "server if $arg_server\n"; }
            if ($http_x_deny = "yes") { return 403; }
            location /true/ { if ($arg_a) { return 200 "true\n"; } return 200 "false\n"; }
            location /eq/ { if ($arg_a = b) { return 200 "equal\n"; } return 200 "not\n"; }
            location /eqq/ { if ($arg_a = "b c") { return 200 "equal\n"; } return 200 "not\n"; }
            location /ne/ { if ($arg_a != b) { return 200 "differs\n"; } return 200 "same\n"; }
            location /eqvar/ { if ($arg_a = $arg_b) { return 200 "equal\n"; } return 200 "not\n"; }
            location /re/ { if ($arg_a ~ ^b(.*)c$) { return 200 "match $1\n"; } return 200 "no\n"; }
            location /rei/ { if ($arg_a ~* "^B") { return 200 "match\n"; } return 200 "no\n"; }
            location /nre/ { if ($arg_a !~ ^b) { return 200 "no match\n"; } return 200 "match\n"; }
            location /nrei/ { if ($arg_a !~* ^B) { return 200 "no match\n"; } return 200 "match\n"; }
            location /named/ { if ($arg_a ~ "^(?<word>\w+)$") { return 200 "w=$word\n"; } return 200 "w:$word\n"; }
            location /f/ { if (-f $document_root/$arg_p) { return 200 "file\n"; } return 200 "no\n"; }
            location /d/ { if (-d $document_root/$arg_p) { return 200 "dir\n"; } return 200 "no\n"; }
            location /e/ { if (-e $document_root/$arg_p) { return 200 "there\n"; } return 200 "no\n"; }
            location /x/ { if (-x $document_root/$arg_p) { return 200 "exec\n"; } return 200 "no\n"; }
            location /nf/ { if (!-f $document_root/$arg_p) { return 200 "no file\n"; } return 200 "file\n"; }
            location /nd/ { if (!-d $document_root/$arg_p) { return 200 "no dir\n"; } return 200 "dir\n"; }
            location /ne2/ { if (!-e $document_root/$arg_p) { return 200 "nothing\n"; } return 200 "there\n"; }
            location /nx/ { if (!-x $document_root/$arg_p) { return 200 "no exec\n"; } return 200 "exec\n"; }
            location /method/ { if ($request_method = POST) { return 405; } return 200 "fine\n"; }
            location /set/ { set $v "outside"; if ($arg_a) { set $v "inside $arg_a"; } return 200 "$v\n"; }
            location /break/ { set $v 1; if ($arg_a) { set $v 2; break; } set $v "${v}3"; return 200 "$v\n"; }
            location /breakfile/ { if ($arg_a) { break; } rewrite ^ /a.txt break; }
            location /last/ { add_header X-Base base; if ($arg_a) { add_header X-A a; } if ($arg_b) { add_header X-B b; } }
            location /root/ { if ($arg_a) { root html/other; } try_files $uri =404; }
            location /tryif/ { alias html/; try_files /nope =410; if ($arg_a) { set $v 1; } }
            location /iftry/ { alias html/; if ($arg_a) { add_header X-In if; } try_files /nope @tried; add_header X-Out out; }
            location /trylimit/ { alias html/; try_files /nope =410; limit_except POST { allow all; } }
            location /tryouter/ { alias html/; try_files /nope =410; location /tryouter/in/ { alias html/; } }
            location @tried { return 200 "tried\n"; }
            location /errpage/ { error_page 404 /e1; if ($arg_a) { error_page 404 /e2; } }
            location /rate/ { if ($arg_a) { set $limit_rate 4k; } alias html/; }
            location /cookie/ { if ($http_cookie ~* "id=([^;]+)(?:;|$)") { set $id $1; } return 200 "id=$id\n"; }
            location /capture/ { if ($arg_a ~ (.)(.)) { set $x $2$1; } if ($arg_b ~ (.)) { } return 200 "$x $1\n"; }
            location /many/ { if ($arg_a) { set $t "${t}a"; } if ($arg_b) { set $t "${t}b"; }
                              if ($t = ab) { return 200 "both\n"; } return 200 "t=$t\n"; }
            location /ret/ { if ($arg_a) { rewrite ^ /e1 last; } if ($arg_b) { return 302 /e2; } return 200 "plain\n"; }
            location = /e1 { return 200 "e1\n"; }
            location = /e2 { return 200 "e2\n"; }
        }
        """, r"""
        GET /?server=1
        GET /?server=0
        GET /?server=
        GET /a.txt | X-Deny: yes
        GET /true/
        GET /true/?a=1
        GET /true/?a=0
        GET /true/?a=00
        GET /true/?a=
        GET /true/?a=off
        GET /eq/?a=b
        GET /eq/?a=B
        GET /eq/?a=bc
        GET /eq/
        GET /eqq/?a=b%20c
        GET /ne/?a=b
        GET /ne/
        GET /eqvar/?a=1&b=1
        GET /eqvar/?a=1&b=2
        GET /eqvar/
        GET /re/?a=bxxc
        GET /re/?a=bxx
        GET /rei/?a=bx
        GET /nre/?a=b
        GET /nre/?a=c
        GET /nrei/?a=b
        GET /named/?a=word
        GET /named/?a=%20
        GET /tryif/a.txt
        GET /tryif/a.txt?a=1
        GET /tryif/none?a=1
        GET /iftry/a.txt
        GET /iftry/a.txt?a=1
        GET /trylimit/a.txt
        POST /trylimit/a.txt | Content-Length: 0
        GET /tryouter/a.txt
        GET /tryouter/in/a.txt
        GET /f/?p=a.txt
        GET /f/?p=sub
        GET /f/?p=none
        GET /d/?p=a.txt
        GET /d/?p=sub
        GET /e/?p=a.txt
        GET /e/?p=sub
        GET /e/?p=none
        GET /x/?p=a.txt
        GET /x/?p=run
        GET /nf/?p=a.txt
        GET /nf/?p=sub
        GET /nd/?p=sub
        GET /nd/?p=none
        GET /ne2/?p=none
        GET /ne2/?p=sub
        GET /nx/?p=run
        GET /nx/?p=a.txt
        GET /method/
        POST /method/ << x
        GET /set/
        GET /set/?a=1
        GET /break/
        GET /break/?a=1
        GET /breakfile/
        GET /breakfile/?a=1
        GET /last/a.txt
        GET /last/a.txt?a=1
        GET /last/a.txt?a=1&b=1
        GET /root/a.txt
        GET /root/a.txt?a=1
        GET /errpage/none
        GET /errpage/none?a=1
        GET /rate/a.txt?a=1
        GET /cookie/ | Cookie: id=42; x=y
        GET /cookie/ | Cookie: x=y
        GET /capture/?a=12
        GET /capture/?a=12&b=9
        GET /many/
        GET /many/?a=1
        GET /many/?a=1&b=1
        GET /ret/?a=1
        GET /ret/?b=1
        GET /ret/
        """, files={"html/a.txt": "a\n", "html/sub/x": "", "html/run": "#!/bin/sh\n",
                    "html/last/a.txt": "last\n", "html/root/a.txt": "r1\n",
                    "html/other/root/a.txt": "r2\n"},
           prepare=lambda server: __import__("os").chmod(server.path("html/run"), 0o755)),

    Config("set", r"""
        server {
            listen 127.0.0.1:@PORT@;
            server_name localhost;
            set $server_var "from server";
            set $counter 1;
            location /server { return 200 "$server_var\n"; }
            location /override { set $server_var own; return 200 "$server_var\n"; }
            location /unset { return 200 "[$never]\n"; }
            location /concat { set $a 1; set $b "$a$a"; set $c ${b}x; return 200 "$a $b $c\n"; }
            location /swap { set $a 1; set $b 2; set $t $a; set $a $b; set $b $t; return 200 "$a$b\n"; }
            location /args { set $args "new=1"; return 200 "$args $query_string $arg_new $request_uri\n"; }
            location /rewriteargs { set $args "new=1"; rewrite ^ /showargs last; }
            location /showargs { return 200 "$uri $args\n"; }
            location /never { set $never x; }
            location /empty { set $e ""; return 200 "[$e]\n"; }
            location /redirect { set $kept yes; rewrite ^ /shown last; }
            location /shown { return 200 "kept=$kept\n"; }
            location /quote { set $q 'single "double"'; return 200 "$q\n"; }
            location /dollar { set $d "a\$b"; return 200 "$d\n"; }
            location /capture { rewrite ^/capture/(\w+)/(\w+)$ /x; set $r "$2-$1"; return 200 "$r\n"; }
            location ~ ^/rx/(\w+)/(?<id>\d+)$ { set $one $1; return 200 "$one $id $1 $2\n"; }
            location /long { set $l "aaaaaaaaaa"; set $l "$l$l$l$l$l"; set $l "$l$l$l$l"; return 200 "$l\n"; }
        }
        """, r"""
        GET /server
        GET /override
        GET /unset
        GET /concat
        GET /swap
        GET /args?old=1
        GET /rewriteargs?old=1
        GET /empty
        GET /redirect
        GET /shown
        GET /quote
        GET /capture/ab/cd
        GET /capture/abcd
        GET /rx/word/42
        GET /rx/word/x
        GET /long
        """.replace("GET /dollar", ""), files={}),

    Config("error_page", r"""
        server {
            listen 127.0.0.1:@PORT@;
            server_name localhost;
            root html;
            error_page 404 /404.html;
            error_page 500 502 503 504 /50x.html;
            location /plain/ { }
            location /own/ { error_page 404 /own404.html; }
            location /code/ { error_page 404 =200 /own404.html; }
            location /code410/ { error_page 404 =410 /own404.html; }
            location /equals/ { error_page 404 = /teapot; }
            location = /teapot { return 418 "teapot\n"; }
            location /equalsfile/ { error_page 404 = /own404.html; }
            location /named/ { error_page 404 @named; }
            location /namedeq/ { error_page 404 = @named; }
            location /namedcode/ { error_page 404 =202 @named; }
            location @named { return 201 "named $uri $request_method\n"; }
            location /url/ { error_page 404 http://other.example/404; }
            location /url301/ { error_page 404 =301 http://other.example/404; }
            location /url303/ { error_page 404 =303 http://other.example/404?u=$uri; }
            location /url308/ { error_page 404 =308 http://other.example/404; }
            location /url200/ { error_page 404 =200 http://other.example/404; }
            location /path301/ { error_page 404 =301 /else; }
            location /missing/ { error_page 404 /nothere.html; }
            location /missingnamed/ { error_page 404 @nothere; }
            location /return/ { error_page 403 /403.html; return 403; }
            location /internalonly/ { internal; alias html/; }
            location /tointernal/ { error_page 404 /internalonly/own404.html; }
            location /var/ { error_page 404 /$arg_p.html; }
            location /args/ { error_page 404 /show?page=1; }
            location = /show { return 200 "show $uri $args $request_uri $status\n"; }
            location /recursive/ { recursive_error_pages on; error_page 404 /second/; }
            location /second/ { error_page 403 /own404.html; return 403; }
            location /norecursive/ { error_page 404 /second/; }
            location /loop/ { recursive_error_pages on; error_page 404 /loop/again; }
            location /post/ { error_page 405 =200 /own404.html; }
            location /postnamed/ { error_page 405 = @named; }
            location /empty/ { error_page 404 /empty.html; }
            location /500/ { return 500; }
            location /503/ { return 503; }
            location /header/ { add_header X-E e; add_header X-A a always; error_page 404 /own404.html; }
            location /301/ { error_page 301 =200 /own404.html; return 301 /x; }
            location /444/ { error_page 404 =444 /own404.html; }
            location /auth/ { error_page 403 =404 /own404.html; deny all; }
            location /range/ { error_page 416 /own404.html; alias html/; }
            location /precond/ { error_page 412 /own404.html; alias html/; }
            location /many/ { error_page 403 404 405 /own404.html; }
        }
        """, r"""
        GET /none
        HEAD /none
        POST /none << body
        GET /plain/none
        GET /own/none
        GET /code/none
        GET /code410/none
        GET /equals/none
        GET /equalsfile/none
        GET /named/none
        POST /named/none << x
        GET /namedeq/none
        POST /namedeq/none << x
        HEAD /namedeq/none
        GET /namedcode/none
        GET /url/none
        GET /url301/none
        GET /url303/none
        GET /url308/none
        GET /url200/none
        GET /path301/none
        GET /missing/none
        GET /missingnamed/none
        GET /return/x
        GET /internalonly/own404.html
        GET /tointernal/none
        GET /var/none?p=own404
        GET /var/none?p=bad
        GET /args/none?x=y
        GET /recursive/none
        GET /norecursive/none
        GET /loop/none
        POST /post/a.txt << x
        POST /postnamed/a.txt << x
        GET /empty/none
        GET /500/
        GET /503/
        GET /header/none
        GET /301/
        GET /444/none
        GET /auth/x
        GET /range/own404.html | Range: bytes=1000-
            => 416 kept | Content-Range: bytes */8 | ETag: "6553f100-8" -- 1.22 sends the same ETag twice
        GET /precond/own404.html | If-Match: "x"
            => 412 kept | Content-Length: 8 -- no rule of HTTP ends the connection here, as 1.22 does
        POST /many/a.txt << x
        GET /many/none | Range: bytes=0-1
        GET /code/none | If-None-Match: "6553f100-8"
        GET /code/none | Range: bytes=0-2
        GET /own/none | If-None-Match: "6553f100-8"
        GET /none HTTP/1.0
        RAW GET / HTTP/1.1\r\n\r\n
        RAW GET /bad uri HTTP/1.1\r\nHost: x\r\n\r\n
        """, files={"html/404.html": "page 404\n", "html/50x.html": "page 50x\n",
                    "html/own404.html": "own 404\n", "html/403.html": "page 403\n",
                    "html/empty.html": "", "html/post/a.txt": "a", "html/many/a.txt": "a",
                    "html/postnamed/a.txt": "a"}),

    Config("error_page_levels", r"""
        error_page 404 /http404;
        server {
            listen 127.0.0.1:@PORT@;
            location = /http404 { return 200 "http level $request_uri\n"; }
            location = /server404 { return 200 "server level\n"; }
            location = /bad { return 200 "bad request page\n"; }
            location /a { }
        }
        server {
            listen 127.0.0.1:@PORT1@;
            error_page 403 /forbidden;
            location = /http404 { return 200 "not inherited\n"; }
            location = /forbidden { return 200 "forbidden $uri\n"; }
            location /deny { deny all; }
        }
        server {
            listen 127.0.0.1:@PORT2@;
            error_page 400 =200 /bad;
            error_page 414 =200 /bad;
            error_page 494 =200 /bad;
            error_page 413 =200 /bad;
            client_max_body_size 10;
            large_client_header_buffers 2 1k;
            location = /bad { return 200 "bad $status\n"; }
        }
        """, r"""
        GET /a/none
        GET /b/none
        GET /deny | @PORT1
        GET /none | @PORT1
        GET / | Host: bad/host | @PORT2
        RAW GET / HTTP/1.1\r\n\r\n | @PORT2
        GET /""" + "u" * 2000 + r""" | @PORT2
        GET / | X-Long: """ + "h" * 2000 + r""" | @PORT2
        POST / | @PORT2 << 0123456789abc
        GET /none | @PORT2
        """),

    Config("internal", r"""
        server {
            listen 127.0.0.1:@PORT@;
            server_name localhost;
            root html;
            location /private/ { internal; }
            location /rewritten/ { rewrite ^/rewritten/(.*)$ /private/$1 last; }
            location /tried/ { try_files /none /private/a.txt; }
            location /indexed/ { index /private/a.txt; alias html/; }
            location /nested/ { internal; location /nested/open/ { return 200 "open\n"; } }
            location = /exact { internal; return 200 "exact\n"; }
            location /named { try_files /none @n; }
            location @n { internal; return 200 "named\n"; }
            location /if/ { if ($arg_go) { rewrite ^ /private/a.txt last; } return 403; }
        }
        """, r"""
        GET /private/a.txt
        GET /rewritten/a.txt
        GET /tried/
        GET /indexed/
        GET /nested/x
        GET /nested/open/
        GET /exact
        GET /named
        GET /if/?go=1
        GET /if/
        HEAD /private/a.txt
        """, files={"html/private/a.txt": "private a\n"}),
]
