"""auth_basic: who is let in by which password, what lines of a user file mean, and what the log says."""

import base64
import os

from ..engine import Config

APR1 = "$apr1$saltsalt$LrttParrLPdxvgutaSXWJ0"

# The password of all of them is "secret", but for those that no password fits.
USERS = """\
# a comment
des:abNANd1rDfiNc
extended:_J9..rasmz0.F/jqjWck
md5:$1$saltsalt$9xy1btjgzLYfb7hivXtC//
sha256:$5$saltsalt$0IyaXrmV7.sGNS6tirgqHLqX/G.FBvgkYA.lpPdS5sA
rounds:$5$rounds=1000$saltsalt$eKLZU9t9OoPWrqOQsoTIKG0aYkZ5rGOoOQhiIvoSWX2
sha512:$6$saltsalt$TVLlQcbpFVof5W3Yz4DTP6gRstiNuHwwTt6GLc1E5n0U0aDehy0S5knV8wiOQSpT0Y77vwPZN.Pq.H91p5hVO1
bcrypt:$2y$05$abcdefghijklmnopqrstuuOQiyCxlgf/oeuTqixKmWdcYUh4Hjl0a
yescrypt:$y$j9T$F5Jx5fExrKuPp53xLKQ..1$GmcwIgvdUC9qLWcKCi6gklUa1dM3ziD43YxYNURLKy0
scrypt:$7$C6..../....SodiumChloride$KnaT/KYqe0Wkw8JJxj5dtK/JH3wZT3jEZzX4iCRKXQ0
apr1:$apr1$saltsalt$LrttParrLPdxvgutaSXWJ0
apr1long:$apr1$saltsaltmore$LrttParrLPdxvgutaSXWJ0
apr1empty:$apr1$$
apr1cut:$apr1$saltsalt
apr1bare:$apr1
plain:{PLAIN}secret
plainempty:{PLAIN}
plainlower:{plain}secret
sha:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=
shacut:{SHA}5en6G6MezRroT3XKqkdPOmY/
shaunpadded:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ
shabad:{SHA}***
shaempty:{SHA}
ssha:{SSHA}gVK8WC9YyFT1gMsQHTGCgT3sSv5zYWx0
sshasaltless:{SSHA}5en6G6MezRroT3XKqkdPOmY/BfQ=
sshashort:{SSHA}5en6G6Me
sshabad:{SSHA}****
sshaempty:{SSHA}
commented:abNANd1rDfiNc:a comment:and more
plaincolon:{PLAIN}secret:a comment
plainblank:{PLAIN}secret 
 blank:{PLAIN}secret
empty:
nocolon
star:*
locked:!
bang:!abNANd1rDfiNc
unknown:$99$saltsalt$xxxxxxxxxxxx
one:x
twice:{PLAIN}first
twice:{PLAIN}second
#hash:{PLAIN}secret
in#side:{PLAIN}secret
prefix:{PLAIN}secret
prefixed:{PLAIN}other
crlf:{PLAIN}secret\r
:{PLAIN}nobody
caf\u00e9:{PLAIN}th\u00e9
long:{PLAIN}""" + "x" * 600 + """
tabbed:\t{PLAIN}secret

last:{PLAIN}secret"""

ENDLESS = "x" * 9000 + ":{PLAIN}secret\nafter:{PLAIN}secret\n" + "y" * 20000


def credentials(text, scheme="Basic"):
    return "Authorization: %s %s" % (scheme, base64.b64encode(text.encode()).decode())


def get(user, password="secret", target="/"):
    return "GET %s | %s" % (target, credentials("%s:%s" % (user, password)))


NAMES = [line.split(":")[0].strip() for line in USERS.split("\n")]

TRIES = "\n".join(
    [get(name) for name in NAMES if name and name != "nocolon"]
    + [get(name, "wrong") for name in ("des", "md5", "sha256", "bcrypt", "apr1", "plain", "sha", "ssha", "last")]
    + [get(name, "") for name in ("des", "plainempty", "shaempty", "sshaempty", "empty", "apr1empty", "star", "locked")]
    + [get(name, name) for name in ("star", "x", "one")]
    + [get("star", "*0"), get("plaincolon", "secret:a comment"), get("plainblank", "secret "), get(" blank"),
       get("crlf", "secret\r"), get("", "nobody"), get("café", "thé"), get("long", "x" * 600), get("long", "x" * 599),
       get("twice", "first"), get("twice", "second"), get("pre"), get("prefixes"), get("DES"), get("#hash"),
       get("in#side"), get("tabbed", "\t{PLAIN}secret"), get("des", "secret9chars"), get("des", "secretxx"), get("plain", "secretx"),
       get("plain", "secre"), get("nocolon", ""), get("nocolon"), get("# a comment", "")])

FORMS = r"""
GET /
HEAD /
POST / << body
GET / | Authorization: Basic
GET / | Authorization: Basic |
GET / | Authorization: basic cGxhaW46c2VjcmV0
GET / | Authorization: BASIC cGxhaW46c2VjcmV0
GET / | Authorization: Basic    cGxhaW46c2VjcmV0
GET / | Authorization: Basic\tcGxhaW46c2VjcmV0
GET / | Authorization: BasiccGxhaW46c2VjcmV0
GET / | Authorization: Basic cGxhaW46c2VjcmV0 more
GET / | Authorization: Basic cGxhaW46c2VjcmV0=
=> 401 kept | -X-User -- that is no base64: padding where nothing is to be padded
GET / | Authorization: Basic cGxhaW46c2VjcmV0==
=> 401 kept | -X-User -- the same
GET / | Authorization: Basic cGxhaW46c2VjcmV
GET / | Authorization: Basic cGxhaW46
GET / | Authorization: Basic cGxhaW4=
GET / | Authorization: Basic cGxhaW4
GET / | Authorization: Basic OnNlY3JldA==
GET / | Authorization: Basic Og==
GET / | Authorization: Basic ****
GET / | Authorization: Basic cGxhaW46_-8
GET / | Authorization: Bearer cGxhaW46c2VjcmV0
GET / | Authorization: Digest username="x"
GET / | Authorization: cGxhaW46c2VjcmV0
GET / | Authorization: Basic AHBsYWluOnNlY3JldA==
=> 401 kept | -X-User -- credentials have no NUL (RFC 7617, 2): it would end a text elsewhere
GET / | Authorization: Basic cGxhaW4AOnNlY3JldA==
=> 401 kept | -X-User -- credentials have no NUL (RFC 7617, 2): it would end a text elsewhere
GET / | Authorization: Basic cGxhaW46c2VjcmV0AA==
=> 401 kept | -X-User -- credentials have no NUL (RFC 7617, 2): it would end a text elsewhere
GET / | Authorization: Basic cGxhaW46c2VjcmV0 | Authorization: Basic cGxhaW46c2VjcmV0
GET / | Authorization: Basic cGxhaW46c2VjcmV0 && GET / && GET / | Authorization: Basic cGxhaW46c2VjcmV0
"""


def with_secret(table):
    """Rows with a * get the credentials of user plain."""
    return table.replace("*", credentials("plain:secret"))


def make_odd_files(server):

    os.mkdir(server.path("folder"))
    with open(server.path("locked"), "w", encoding="utf-8") as file:
        file.write("plain:{PLAIN}secret\n")
    os.chmod(server.path("locked"), 0)


CONFIGS = [
    Config("auth_basic", r"""
        add_header X-User "$remote_user" always;
        server {
            listen 127.0.0.1:@PORT@;
            auth_basic "closed area"; auth_basic_user_file users;
            location / { empty_gif; }
        }
        """, TRIES + FORMS, files={"users": USERS}),
    Config("auth_basic_places", r"""
        add_header X-User "$remote_user" always;
        map $arg_realm $realm { default $arg_realm; }
        auth_basic outer;
        auth_basic_user_file users;
        server {
            listen 127.0.0.1:@PORT@;
            root html;
            location / { empty_gif; }
            location /off { auth_basic off; empty_gif; }
            location /off/on { auth_basic inner; empty_gif; }
            location /OFF { auth_basic OFF; empty_gif; }
            location /no { auth_basic ""; empty_gif; }
            location /quoted { auth_basic 'say "hi" \\ there'; empty_gif; }
            location /realm { auth_basic $arg_realm; empty_gif; }
            location /mapped { auth_basic $realm; empty_gif; }
            location /file { auth_basic_user_file $arg_file; empty_gif; }
            location /absolute { auth_basic_user_file @DIR@/users; empty_gif; }
            location /missing { auth_basic_user_file none; empty_gif; }
            location /missing/dir { auth_basic_user_file none/none; empty_gif; }
            location /notdir { auth_basic_user_file users/none; empty_gif; }
            location /folder { auth_basic_user_file folder; empty_gif; }
            location /nofile { auth_basic_user_file ""; empty_gif; }
            location /endless { auth_basic_user_file endless; empty_gif; }
            location /vacant { auth_basic_user_file vacant; empty_gif; }
            location /bylimit { limit_except GET { auth_basic posts; auth_basic_user_file users; } auth_basic off; empty_gif; }
            location /except { limit_except GET { auth_basic off; } empty_gif; }
            location /return { return 204; }
            location /rewritten { rewrite ^ /off last; }
            location /if { if ($arg_x) { add_header X-If yes always; } empty_gif; }
            location /page { error_page 401 /off/page.html; empty_gif; }
            location /pageok { error_page 401 =200 /off; empty_gif; }
            location /pagein { error_page 401 /index.html; empty_gif; }
            location /named { error_page 401 = @named; empty_gif; }
            location @named { auth_basic off; return 200 "named $remote_user\n"; }
            location /abroad { error_page 401 https://example.com/login; empty_gif; }
            location /abroad303 { error_page 401 =303 /login; empty_gif; }
            location /forbidden { error_page 403 = @named; auth_basic_user_file none; empty_gif; }
            location /own { add_header WWW-Authenticate "Custom"; add_header WWW-Authenticate "Always" always; empty_gif; }
            location /dir/ { }
            location /tried { auth_basic off; try_files /none /closed.html; }
            location /closed.html { }
            location /deny { deny all; empty_gif; }
            location /allow { allow all; empty_gif; }
            location /any { satisfy any; 
                location /any/deny { deny all; empty_gif; }
                location /any/allow { allow all; empty_gif; }
                location /any/off { auth_basic off; deny all; empty_gif; }
                location /any/offallow { auth_basic off; allow all; empty_gif; }
                location /any/none { empty_gif; }
                location /any/missing { auth_basic_user_file none; deny all; empty_gif; }
                location /any/folder { auth_basic_user_file folder; deny all; empty_gif; }
                location /any/missing/allow { auth_basic_user_file none; allow all; empty_gif; }
                location /any/page { deny all; error_page 401 403 = @named; empty_gif; } }
            location /ssi { ssi on; ssi_types *; auth_basic off; }
            location /sub { empty_gif; }
            location /status { return 200 "$remote_user $http_authorization\n"; auth_basic off; }
        }
        server { listen 127.0.0.1:@PORT1@; auth_basic other; location / { empty_gif; } location /none { auth_basic_user_file none; empty_gif; } }
        server { listen 127.0.0.1:@PORT2@; auth_basic off; location / { empty_gif; } location /a { auth_basic a; empty_gif; } }
        """, with_secret(r"""
        GET /
        GET / | *
        GET /off
        GET /off | *
        GET /off/on
        GET /off/on | *
        GET /OFF
        GET /no
        GET /no | *
        GET /quoted
        GET /realm
        GET /realm?realm=off
        GET /realm?realm=x
        GET /realm?realm=x%0d%0aA:b
        GET /mapped?realm=off
        GET /mapped?realm=y
        GET /file?file=users | *
        GET /file?file=none | *
        GET /file | *
        GET /file
        GET /absolute | *
        GET /absolute
        GET /missing | *
        GET /missing
        GET /missing/dir | *
        GET /notdir | *
        GET /folder | *
        GET /folder
        GET /nofile
        GET /nofile | *
        GET /endless | *
        GET /vacant | *
        GET /bylimit
        POST /bylimit << x
        POST /bylimit | * << x
        GET /except
        GET /except | *
        POST /except << x
        GET /return
        GET /return | *
        GET /rewritten
        GET /if?x=1
        GET /if?x=1 | *
        GET /page
        HEAD /page
        GET /pageok
        GET /pagein
        GET /named
        GET /named | *
        POST /named << body
        GET /abroad
        GET /abroad303
        GET /forbidden | *
        GET /own
        GET /own | *
        GET /dir/
        GET /dir/ | *
        GET /tried
        GET /tried | *
        GET /deny
        GET /deny | *
        GET /allow
        GET /allow | *
        GET /any/deny
        GET /any/deny | *
        GET /any/allow
        GET /any/allow | *
        GET /any/off
        GET /any/offallow
        GET /any/none
        GET /any/none | *
        GET /any/missing | *
        GET /any/missing
        GET /any/folder | *
        GET /any/missing/allow | *
        GET /any/page
        GET /any/page | *
        GET /ssi/page.html
        GET /ssi/page.html | *
        GET /status | *
        GET /status
        HEAD /
        POST / << body
        POST / | Transfer-Encoding: chunked << 3\r\nabc\r\n0\r\n\r\n
        GET / HTTP/1.0
        GET / | Expect: 100-continue
        GET / && GET / | * && GET /
        GET / | @PORT1
        GET / | @PORT1 | *
        GET /none | @PORT1 | *
        GET / | @PORT2
        GET /a | @PORT2 | *
        """), files={"users": "plain:{PLAIN}secret\n", "endless": ENDLESS, "vacant": "",
                     "html/index.html": "index", "html/off/page.html": "a page\n", "html/dir/index.html": "a directory\n",
                     "html/closed.html": "closed\n",
                     "html/ssi/page.html": 'a<!--#include virtual="/sub" -->b<!--#include virtual="/dir/index.html" -->c'},
           prepare=make_odd_files),
    Config("auth_request", r"""
        add_header X-Set "$got" always;
        uninitialized_variable_warn off;
        map $arg_a $by_map { default $arg_a; }
        proxy_cache_path cache keys_zone=answers:1m;
        server {
            listen 127.0.0.1:@PORT@;
            root html;
            set $got "";
            location /ok { auth_request /auth/200; empty_gif; }
            location /204 { auth_request /auth/204; empty_gif; }
            location /206 { auth_request /auth/206; empty_gif; }
            location /401 { auth_request /auth/401; empty_gif; }
            location /403 { auth_request /auth/403; empty_gif; }
            location /404 { auth_request /auth/404; empty_gif; }
            location /500 { auth_request /auth/500; empty_gif; }
            location /302 { auth_request /auth/302; empty_gif; }
            location /304 { auth_request /auth/304; empty_gif; }
            location /407 { auth_request /auth/407; empty_gif; }
            location /444 { auth_request /auth/444; empty_gif; }
            location /args { auth_request /auth?arg=1; auth_request_set $got $sent_http_x_args; empty_gif; }
            location /relative { auth_request auth/200; empty_gif; }
            location /named { auth_request @auth; empty_gif; }
            location /missing { auth_request /nowhere; empty_gif; }
            location /file { auth_request /file.txt; empty_gif; }
            location /dir { auth_request /dir/; empty_gif; }
            location /self { auth_request /self; empty_gif; }
            location /rewritten { auth_request /auth/rewritten; auth_request_set $got $uri; empty_gif; }
            location /page { auth_request /auth/page; empty_gif; }
            location /pageok { auth_request /auth/pageok; empty_gif; }
            location /error { auth_request /auth/401; error_page 401 = @login; empty_gif; }
            location /errors { auth_request /auth/500; error_page 500 = @login; empty_gif; }
            location /forbidden { auth_request /auth/403; error_page 403 /login.html; empty_gif; }
            location @login { return 200 "please log in
"; }
            location = /login.html { }
            location /twice/ { auth_request /auth/count; auth_request_set $got "$got$status:"; }
            location /internal { internal; empty_gif; }
            location /tointernal { auth_request /internal; empty_gif; }
            location /off { auth_request /auth/403; location /off/off { auth_request off; empty_gif; }
                            location /off/in { empty_gif; } location /off/on { auth_request /auth/200; empty_gif; } }
            location /any { satisfy any; auth_request /auth/403;
                location /any/deny { deny all; empty_gif; }
                location /any/allow { allow all; empty_gif; }
                location /any/401 { auth_request /auth/basic; deny all; empty_gif; }
                location /any/401allow { auth_request /auth/basic; deny all; auth_basic also; auth_basic_user_file users; empty_gif; }
                location /any/ok { auth_request /auth/200; deny all; empty_gif; }
                location /any/500 { auth_request /auth/500; allow all; empty_gif; }
                location /any/500d { auth_request /auth/500; deny all; empty_gif; } }
            location /all { deny all; auth_request /auth/200; empty_gif; }
            location /both { auth_basic here; auth_basic_user_file users; auth_request /auth/basic; empty_gif; }
            location /set { auth_request /auth/set; auth_request_set $got "$sent_http_x_made/$upstream_http_x_made/$status/$uri/$arg_a"; empty_gif; }
            location /setfail { auth_request /auth/setfail; auth_request_set $got "$sent_http_x_made/$status"; empty_gif; }
            location /setseveral { auth_request /auth/set; auth_request_set $got a$got; auth_request_set $got b$got; auth_request_set $more $got; return 200 $more; }
            location /set2 { auth_request /auth/set; auth_request_set $got a$got; auth_request_set $got b$got; auth_request_set $more "<$got>";
                             add_header X-More $more always; empty_gif;
                             location /set2/in { empty_gif; } location /set2/own { auth_request_set $got own; empty_gif; } }
            location /setnone { auth_request_set $got never; empty_gif; }
            location /proxied { auth_request /auth/up/200; auth_request_set $got $upstream_http_x_made; empty_gif; }
            location /proxied/401 { auth_request /auth/up/basic; auth_request_set $got $upstream_http_x_made; empty_gif; }
            location /proxied/refused { auth_request /auth/refused; auth_request_set $got $upstream_status; empty_gif; }
            location /proxied/both { auth_request /auth/up/200; auth_request_set $got "$upstream_status $upstream_http_x_made"; proxy_pass http://127.0.0.1:@PORT1@/main; }
            location /proxied/cached { auth_request /auth/cached; auth_request_set $got $upstream_cache_status; empty_gif; }
            location /proxied/told { auth_request /auth/up/told; auth_request_set $got $upstream_http_x_told; proxy_pass http://127.0.0.1:@PORT1@/main; }
            location /proxied/big { auth_request /auth/up/big; empty_gif; }
            location /proxied/up { auth_request /auth/up/200; auth_request_set $got "$upstream_http_x_made $upstream_status"; proxy_pass http://127.0.0.1:@PORT1@/main;
                                   add_header X-Up "$upstream_http_x_made $upstream_status $got" always; }
            location /ssi { ssi on; ssi_types *; auth_request /auth/200; }
            location /closed { auth_request /auth/403; return 200 closed; }
            location /nofollow { auth_request /auth/200; return 204; }
            location /index/ { auth_request /auth/200; auth_request_set $got ${got}x; index a.html; }
            location /tried { auth_request /auth/200; auth_request_set $got ${got}x; try_files /none /index/a.html; }
            location /if { auth_request /auth/403; if ($arg_a) { add_header X-If yes always; } empty_gif; }
            location /limit { auth_request /auth/200; limit_except GET { deny all; } empty_gif; }
            location /method { auth_request /auth/method; auth_request_set $got $sent_http_x_method; empty_gif; }
            location /upmethod { auth_request /auth/up/told; auth_request_set $got $upstream_http_x_told; empty_gif; }

            location /auth/200 { return 200 "a body
"; }
            location /auth/204 { return 204; }
            location /auth/206 { return 206; }
            location /auth/401 { return 401; }
            location /auth/403 { return 403; }
            location /auth/404 { return 404; }
            location /auth/500 { return 500; }
            location /auth/302 { return 302 /else; }
            location /auth/304 { return 304; }
            location /auth/407 { return 407; }
            location /auth/444 { return 444; }
            location = /auth { add_header X-Args $args always; return 204; }
            location /auth/rewritten { rewrite ^ /auth/200 last; }
            location /auth/page { error_page 404 /auth/204; return 404; }
            location /auth/pageok { error_page 404 =200 /login.html; return 404; }
            location /auth/count { return 200; }
            location /auth/basic { add_header WWW-Authenticate 'Basic realm="sub"' always; add_header WWW-Authenticate 'Bearer' always; return 401; }
            location /auth/set { add_header X-Made made always; return 200; }
            location /auth/setfail { add_header X-Made failed always; return 403; }
            location /auth/method { add_header X-Method "$request_method $request_uri $args" always; return 204; }
            location /auth/up/ { proxy_pass http://127.0.0.1:@PORT1@/; }
            location /auth/refused { proxy_pass http://127.0.0.1:@PORT2@; }
            location /auth/cached { proxy_cache answers; proxy_cache_key $arg_a; proxy_cache_valid 200 403 1h; proxy_pass http://127.0.0.1:@PORT1@/cached; }
            location @auth { return 204; }
        }
        server {
            listen 127.0.0.1:@PORT1@;
            set $got "";
            location /200 { add_header X-Made up; return 200 "an answer that nobody reads
"; }
            location /basic { add_header X-Made up always; add_header WWW-Authenticate 'Basic realm="up"' always; add_header WWW-Authenticate Negotiate always; return 401; }
            location /cached { return 200 cached; }
            location /told { add_header X-Told "$request_method $request_uri l=$http_content_length t=$http_transfer_encoding c=$http_x_mine"; return 204; }
            location /main { return 200 "$request_method $http_content_length $http_transfer_encoding
"; }
            location /big { root html; }
        }
        """, r"""
        GET /ok
        HEAD /ok
        POST /ok << body
        GET /204
        GET /206
        GET /401
        HEAD /401
        GET /403
        GET /404
        GET /500
        GET /302
        GET /304
        GET /407
        GET /444
        GET /args?b=2
        GET /relative
        GET /named
        => 200 kept -- a named location can be asked, as by every other directive that asks one
        GET /missing
        GET /file
        GET /dir
        GET /self
        GET /rewritten
        GET /page
        GET /pageok
        GET /error
        HEAD /error
        GET /errors
        GET /forbidden
        GET /twice/a.html
        GET /twice/
        GET /tointernal
        GET /off
        GET /off/off
        GET /off/in
        GET /off/on
        GET /any/deny
        GET /any/allow
        GET /any/401
        GET /any/401allow
        GET /any/401allow | Authorization: Basic cGxhaW46c2VjcmV0
        GET /any/ok
        GET /any/500
        GET /any/500d
        GET /all
        GET /both
        GET /both | Authorization: Basic cGxhaW46c2VjcmV0
        GET /set?a=1
        GET /setfail
        GET /setseveral
        GET /set2
        GET /set2/in
        GET /set2/own
        GET /setnone
        GET /proxied
        HEAD /proxied
        POST /proxied << body
        GET /proxied/401
        => 401 kept | WWW-Authenticate: Basic realm="up" | WWW-Authenticate: Negotiate | X-Set: up -- all that the backend demands, as since nginx 1.23
        GET /proxied/refused
        GET /proxied/both
        POST /proxied/both << body
        POST /proxied/both | Transfer-Encoding: chunked << 4\r\nbody\r\n0\r\n\r\n
        GET /proxied/cached?a=1
        GET /proxied/cached?a=1
        GET /proxied/cached?a=2
        GET /proxied/told?a=b | X-Mine: x
        HEAD /proxied/told?a=b
        PUT /proxied/told << body
        => 200 kept | X-Set: GET /told l= t= c= -- no body goes with it, so none is announced, for which the backend would wait
        POST /proxied/told | Transfer-Encoding: chunked << 4\r\nbody\r\n0\r\n\r\n
        GET /proxied/big
        GET /proxied/up
        GET /ssi/page.html
        GET /nofollow
        GET /index/
        GET /tried
        GET /if?a=1
        POST /limit << body
        GET /limit
        GET /method?a=1
        HEAD /method
        DELETE /method
        POST /method << body
        GET /upmethod
        HEAD /upmethod
        PUT /upmethod << body
        => 405 kept | X-Set: GET /told l= t= c= -- no body goes with it, so none is announced, for which the backend would wait
        GET /ok && GET /401 && GET /ok
        GET /ok HTTP/1.0
        POST /ok | Expect: 100-continue << body
        => 405 closed -- the client may or may not send what it has not been asked for
        POST /403 | Expect: 100-continue << body
        => 403 closed -- the client may or may not send what it has not been asked for
        """, files={"users": "plain:{PLAIN}secret\n", "html/file.txt": "a file\n", "html/dir/index.html": "a directory\n", "html/login.html": "log in\n",
                    "html/twice/a.html": "a\n", "html/twice/index.html": "an index\n", "html/index/a.html": "by index\n", "html/big": "x" * 200000,
                    "html/ssi/page.html": 'a<!--#include virtual="/closed" -->b'}),
]
