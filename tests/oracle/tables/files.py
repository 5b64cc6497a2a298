"""Files: static, types, index, ranges, conditional requests, HEAD, methods."""

from ..engine import Config

ALPHABET = "abcdefghijklmnopqrstuvwxyz"

CONFIGS = [
    Config("static", """
        types { text/html html htm; image/gif gif; text/css css; application/x-thing THING; }
        default_type application/octet-stream;
        server {
            listen 127.0.0.1:@PORT@;
            server_name localhost;
            root html;
            location /text/ { default_type text/plain; }
            location /notype/ { types { } default_type ""; }
            location /own/ { types { text/x-own html; } }
            location /alias/ { alias html/deep/; }
            location /aliasfile { alias html/a.txt; }
            location ~ ^/ralias/(.*)\\.x$ { alias html/$1.txt; }
            location /var/ { root html/$arg_dir; }
            location /noetag/ { etag off; alias html/; }
            location /sendfile/ { sendfile on; alias html/; }
            location /nolog/ { log_not_found off; }
            location /private/ { alias html/; internal; }
        }
        """, """
        GET /a.txt
        GET /a.html
        GET /a.HTML
        GET /a.css
        GET /a.thing
        GET /noext
        GET /empty.txt
        GET /text/a.bin
        GET /notype/a.html
        GET /own/a.html
        GET /own/a.gif
        GET /alias/in.txt
        GET /alias/
        GET /alias
        GET /aliasfile
        GET /aliasfile/more
        GET /ralias/a.x
        GET /ralias/none.x
        GET /var/x.txt?dir=v1
        GET /var/x.txt?dir=v2
        GET /var/x.txt?dir=none
        GET /noetag/a.txt
        GET /sendfile/a.txt
        GET /sendfile/empty.txt
        GET /sendfile/big.bin | Range: bytes=99990-
        GET /nolog/none
        GET /private/a.txt
        GET /missing.txt
        GET /missing/
        GET /deep
        GET /deep?x=1
        GET /deep/
        GET /deep/in.txt
        GET /deep/in.txt/
        GET /a.txt/b
        GET /a.txt?query
        GET /with%20space.txt
        GET /with%2520percent.txt
        GET /%61.txt
        GET /a.t%78t
        GET /.hidden
        GET /semi;colon.txt
        GET /uml%C3%A4ut.txt
        HEAD /a.txt
        HEAD /missing.txt
        HEAD /deep
        POST /a.txt << x=1
        PUT /a.txt << x=1
        DELETE /a.txt
        OPTIONS /a.txt
        PATCH /a.txt
        TRACE /a.txt
        CONNECT /a.txt
            => 400 closed -- a CONNECT needs an authority since 1.29.3
        CONNECT localhost:8080
            => 405 -- a CONNECT with an authority is refused by the method since 1.29.3
        FOO /a.txt
        POST /missing.txt << x=1
        POST /deep << x=1
        GET /a.txt HTTP/1.0
        GET /a.txt HTTP/1.0 | Connection: keep-alive
        GET /a.txt | Connection: close
        GET /fifo
        GET /perm.txt
        """, files={
            "html/a.txt": "hello\n", "html/a.html": "<p>x", "html/a.HTML": "UPPER",
            "html/a.css": "b{}", "html/a.thing": "thing", "html/noext": "noext",
            "html/empty.txt": "", "html/a.bin": "bin", "html/text/a.bin": "text bin",
            "html/notype/a.html": "none", "html/own/a.html": "own", "html/own/a.gif": "gif",
            "html/deep/in.txt": "inside\n", "html/v1/var/x.txt": "v1", "html/v2/var/x.txt": "v2",
            "html/with space.txt": "space", "html/with%20percent.txt": "percent",
            "html/.hidden": "hidden", "html/semi;colon.txt": "semi",
            "html/uml\u00e4ut.txt".encode("utf-8").decode("utf-8"): "umlaut",
            "html/big.bin": bytes(range(256)) * 400, "html/nolog": None, "html/perm.txt": "secret",
        }, prepare=lambda server: (
            __import__("os").mkfifo(server.path("html/fifo")),
            __import__("os").chmod(server.path("html/perm.txt"), 0o600))),

    Config("index", """
        server {
            listen 127.0.0.1:@PORT@;
            server_name localhost;
            root html;
            location /many/ { index none.html b.html a.html; }
            location /abs/ { index none.html /fallback.html; }
            location /var/ { index $arg_i.html index.html; }
            location /noindex/ { index missing.html; }
            location /redirect/ { index page.html; }
            location = /redirect/page.html { return 200 "page by $request_uri as $uri\\n"; }
            location /slash/ { index sub/index.html; }
            location = /fallback.html { return 200 "fallback $uri\\n"; }
        }
        """, """
        GET /
        GET /?a=b
        HEAD /
        GET /many/
        GET /abs/
        GET /var/
        GET /var/?i=one
        GET /var/?i=two
        GET /noindex/
        GET /noindex/none/
        GET /redirect/
        GET /slash/
        GET /dirindex/
        GET /dirindex
        POST / << x
        POST /noindex/ << x
        GET //
        GET /many//
        GET /. | Accept: x
        GET /many/..
        """, files={
            "html/index.html": "root index\n", "html/many/a.html": "a", "html/many/b.html": "b",
            "html/abs/x": "x", "html/var/index.html": "plain", "html/var/one.html": "one",
            "html/noindex/file": "", "html/redirect/page.html": "file",
            "html/slash/sub/index.html": "deep", "html/dirindex/index.html/x": "",
        }),

    Config("range", """
        server {
            listen 127.0.0.1:@PORT@;
            server_name localhost;
            root html;
            location /max0/ { alias html/; max_ranges 0; }
            location /max1/ { alias html/; max_ranges 1; }
            location /max2/ { alias html/; max_ranges 2; }
            location /sendfile/ { alias html/; sendfile on; }
            location /string { return 200 "not a file"; }
        }
        """, """
        GET /a.txt | Range: bytes=0-0
        GET /a.txt | Range: bytes=0-4
        GET /a.txt | Range: bytes=5-
        GET /a.txt | Range: bytes=-5
        GET /a.txt | Range: bytes=-0
        GET /a.txt | Range: bytes=-26
        GET /a.txt | Range: bytes=-27
        GET /a.txt | Range: bytes=-1000
        GET /a.txt | Range: bytes=0-25
        GET /a.txt | Range: bytes=0-26
        GET /a.txt | Range: bytes=0-
        GET /a.txt | Range: bytes=25-
        GET /a.txt | Range: bytes=26-
        GET /a.txt | Range: bytes=26-30
        GET /a.txt | Range: bytes=5-4
        GET /a.txt | Range: bytes=
        GET /a.txt | Range: bytes=-
        GET /a.txt | Range: bytes=x-y
        GET /a.txt | Range: bytes=1-2x
        GET /a.txt | Range: bytes= 1-2
        GET /a.txt | Range: bytes=1 - 2
        GET /a.txt | Range: Bytes=1-2
        GET /a.txt | Range: chars=1-2
        GET /a.txt | Range: bytes=0-0,2-2
        GET /a.txt | Range: bytes=0-1, 4-5 ,-1
        GET /a.txt | Range: bytes=0-1,100-200
        GET /a.txt | Range: bytes=100-200,300-400
        GET /a.txt | Range: bytes=0-1,,3-4
        GET /a.txt | Range: bytes=0-1,
        GET /a.txt | Range: bytes=0-5,2-8
        GET /a.txt | Range: bytes=0-,0-
        GET /a.txt | Range: bytes=0-10,5-20,1-25
        GET /a.txt | Range: bytes=1-1,1-1,1-1
        GET /a.txt | Range: bytes=0-99999999999999999999
        GET /a.txt | Range: bytes=9223372036854775807-
        GET /a.txt | Range: bytes=-9223372036854775808
        GET /a.txt | Range: bytes=18446744073709551616-1
        GET /a.txt | Range: bytes=0-1 | Range: bytes=2-3
        GET /empty.txt | Range: bytes=0-
        GET /empty.txt | Range: bytes=-1
        GET /page.html | Range: bytes=0-1,3-4
        GET /max0/a.txt | Range: bytes=0-1
        GET /max1/a.txt | Range: bytes=0-1
        GET /max1/a.txt | Range: bytes=0-1,3-4
        GET /max2/a.txt | Range: bytes=0-1,3-4
        GET /max2/a.txt | Range: bytes=0-1,3-4,6-7
        GET /sendfile/a.txt | Range: bytes=3-7
        GET /sendfile/a.txt | Range: bytes=3-7,10-11
        GET /string | Range: bytes=0-1
        HEAD /a.txt | Range: bytes=0-4
        HEAD /a.txt | Range: bytes=0-0,2-2
        HEAD /a.txt | Range: bytes=100-
        GET /a.txt HTTP/1.0 | Range: bytes=0-4
        GET /missing.txt | Range: bytes=0-4
        POST /a.txt | Range: bytes=0-4 << x
        GET /a.txt | Range: bytes=0-4 | If-Range: "6553f100-1a"
        GET /a.txt | Range: bytes=0-4 | If-Range: "other"
        GET /a.txt | Range: bytes=0-4 | If-Range: W/"6553f100-1a"
        GET /a.txt | Range: bytes=0-4 | If-Range: Tue, 14 Nov 2023 22:13:20 GMT
        GET /a.txt | Range: bytes=0-4 | If-Range: Tue, 14 Nov 2023 22:13:21 GMT
        GET /a.txt | Range: bytes=0-4 | If-Range: Mon, 13 Nov 2023 22:13:20 GMT
        GET /a.txt | Range: bytes=0-4 | If-Range: garbage
        GET /a.txt | Range: bytes=100- | If-Range: "other"
        GET /a.txt | Range: bytes=0-4 | If-None-Match: "6553f100-1a"
        GET /a.txt | Range: bytes=0-4 | If-Match: "other"
            => 412 kept -- no rule of HTTP ends the connection here, as 1.22 does
        """, files={"html/a.txt": ALPHABET, "html/empty.txt": "", "html/page.html": "<html></html>"}),

    Config("conditional", """
        server {
            listen 127.0.0.1:@PORT@;
            server_name localhost;
            root html;
            location /off/ { alias html/; if_modified_since off; }
            location /exact/ { alias html/; if_modified_since exact; }
            location /before/ { alias html/; if_modified_since before; }
            location /noetag/ { alias html/; etag off; }
            location /string { return 200 "x"; }
            location /header/ { alias html/; add_header X-Seen always; add_header X-Always y always; }
            location /expires/ { alias html/; expires 10; }
        }
        """, """
        GET /a.txt | If-Modified-Since: Tue, 14 Nov 2023 22:13:20 GMT
        GET /a.txt | If-Modified-Since: Tue, 14 Nov 2023 22:13:21 GMT
        GET /a.txt | If-Modified-Since: Tue, 14 Nov 2023 22:13:19 GMT
        GET /a.txt | If-Modified-Since: Tuesday, 14-Nov-23 22:13:20 GMT
        GET /a.txt | If-Modified-Since: Tue Nov 14 22:13:20 2023
        GET /a.txt | If-Modified-Since: Tue, 14 Nov 2023 22:13:20 UTC
            => 200 -- RFC 9110, 5.6.7: a date ends in GMT; another zone's is none
        GET /a.txt | If-Modified-Since: Tue, 14 Foo 2023 22:13:20 GMT
        GET /a.txt | If-Modified-Since: garbage
        GET /a.txt | If-Modified-Since: 0
        GET /a.txt | If-Modified-Since:
        GET /a.txt | If-Modified-Since: Tue, 31 Feb 2023 22:13:20 GMT
        GET /a.txt | If-Modified-Since: Tue, 14 Nov 2023 25:13:20 GMT
        GET /off/a.txt | If-Modified-Since: Tue, 14 Nov 2023 22:13:20 GMT
        GET /exact/a.txt | If-Modified-Since: Tue, 14 Nov 2023 22:13:20 GMT
        GET /exact/a.txt | If-Modified-Since: Wed, 15 Nov 2023 22:13:20 GMT
        GET /before/a.txt | If-Modified-Since: Wed, 15 Nov 2023 22:13:20 GMT
        GET /before/a.txt | If-Modified-Since: Mon, 13 Nov 2023 22:13:20 GMT
        GET /a.txt | If-Unmodified-Since: Tue, 14 Nov 2023 22:13:20 GMT
        GET /a.txt | If-Unmodified-Since: Mon, 13 Nov 2023 22:13:20 GMT
            => 412 kept -- no rule of HTTP ends the connection here, as 1.22 does
        GET /a.txt | If-Unmodified-Since: Wed, 15 Nov 2023 22:13:20 GMT
        GET /a.txt | If-Unmodified-Since: garbage
            => 412 kept -- no rule of HTTP ends the connection here, as 1.22 does
        GET /a.txt | If-None-Match: "6553f100-1a"
        GET /a.txt | If-None-Match: W/"6553f100-1a"
        GET /a.txt | If-None-Match: "x", "6553f100-1a"
        GET /a.txt | If-None-Match: "x","y"
        GET /a.txt | If-None-Match: *
        GET /a.txt | If-None-Match: 6553f100-1a
        GET /a.txt | If-None-Match: "x"  ,  W/"6553f100-1a" ,
        GET /a.txt | If-None-Match: "6553f100-1a" | If-Modified-Since: Mon, 13 Nov 2023 22:13:20 GMT
        GET /a.txt | If-None-Match: "x" | If-Modified-Since: Tue, 14 Nov 2023 22:13:20 GMT
        GET /a.txt | If-Match: "6553f100-1a"
        GET /a.txt | If-Match: W/"6553f100-1a"
            => 412 kept -- no rule of HTTP ends the connection here, as 1.22 does
        GET /a.txt | If-Match: *
        GET /a.txt | If-Match: "x"
            => 412 kept -- no rule of HTTP ends the connection here, as 1.22 does
        GET /a.txt | If-Match: "x", "6553f100-1a"
        GET /a.txt | If-Match: "x" | If-None-Match: "6553f100-1a"
            => 412 kept -- no rule of HTTP ends the connection here, as 1.22 does
        GET /a.txt | If-Match: "6553f100-1a" | If-None-Match: "6553f100-1a"
        GET /noetag/a.txt | If-None-Match: "6553f100-1a"
        GET /noetag/a.txt | If-None-Match: *
        GET /noetag/a.txt | If-Match: *
        GET /noetag/a.txt | If-Modified-Since: Tue, 14 Nov 2023 22:13:20 GMT
        GET /string | If-None-Match: *
        GET /string | If-Modified-Since: Tue, 14 Nov 2023 22:13:20 GMT
        GET /string | If-Match: "x"
            => 412 kept -- no rule of HTTP ends the connection here, as 1.22 does
        GET /missing | If-None-Match: *
        GET /missing | If-Match: "x"
        GET /header/a.txt | If-None-Match: "6553f100-1a"
        GET /header/a.txt | If-Match: "x"
            => 412 kept | X-Always: y -- no rule of HTTP ends the connection here, as 1.22 does
        GET /expires/a.txt | If-None-Match: "6553f100-1a"
        HEAD /a.txt | If-None-Match: "6553f100-1a"
        HEAD /a.txt | If-Match: "x"
            => 412 kept -- no rule of HTTP ends the connection here, as 1.22 does
        POST /a.txt | If-None-Match: "6553f100-1a" << x
        """, files={"html/a.txt": ALPHABET}),
]
