"""dav: what PUT, DELETE, MKCOL, COPY and MOVE do to files, and what they are refused with. One row sees what the ones before it
have left."""

import os

from ..engine import Config

FILES = {
    "html/a.txt": "text a\n", "html/b.txt": "text b\n", "html/c.txt": "text c\n", "html/d/e.txt": "text e\n", "html/d/f/g.txt": "text g\n",
    "html/none/a.txt": "kept\n", "html/put/x": "", "html/min/a/b/c.txt": "c\n", "html/min/top.txt": "top\n", "html/page.txt": "page\n",
    "html/s.txt": "s\n", "html/only/a": "", "html/from/1.txt": "1\n", "html/from/in/2.txt": "2\n", "html/to/old.txt": "old\n",
    "other/o.txt": "o\n", "html/moved/1.txt": "1\n", "html/deep/1/2/3.txt": "3\n", "html/acc/x": "",
}


def writable(server):
    """The workers may write where the files are."""
    for top in ("html", "other"):
        for directory, _, files in os.walk(server.path(top)):
            os.chmod(directory, 0o777)
            for name in files:
                os.chmod(os.path.join(directory, name), 0o666)


def bodies(method, target, expect=""):
    """Bodies that are none of the method's business."""
    return """
        %(m)s %(t)s | Destination: /x.txt << 0123456789
        %(m)s %(t)s | Destination: /x.txt | Content-Length: 0%(expect)s
        RAW %(m)s %(t)s HTTP/1.1\\r\\nHost: localhost\\r\\nDestination: /x.txt\\r\\nTransfer-Encoding: chunked\\r\\n\\r\\n0\\r\\n\\r\\n
        RAW %(m)s %(t)s HTTP/1.1\\r\\nHost: localhost\\r\\nDestination: /x.txt\\r\\nTransfer-Encoding: chunked\\r\\n\\r\\n3\\r\\nabc\\r\\n0\\r\\n\\r\\n
    """ % {"m": method, "t": target, "expect": expect}


TRANSFERS = r"""
    server {
        listen 127.0.0.1:@PORT@;
        server_name localhost;
        root html;
        dav_methods COPY MOVE;
        location / { }
        location /al/ { alias html/; }
        location /other/ { alias other/; }
        location /out/ { dav_methods off; }
    }"""

# Of both methods.
REFUSED = r"""
    %(m)s /a.txt
    %(m)s /a.txt | Destination:
    %(m)s /a.txt | Destination: x
    %(m)s /a.txt | Destination: /
    %(m)s /a.txt | Destination: ftp://localhost/x
    %(m)s /a.txt | Destination: http://localhost
    %(m)s /a.txt | Destination: http://localhost/
    %(m)s /a.txt | Destination: http://other/x
    %(m)s /a.txt | Destination: http://localhostess/x
    => 400 -- only the whole host, and a port, is the same host
    %(m)s /a.txt | Destination: http://local/x
    %(m)s /a.txt | Destination: http:///x
    %(m)s /a.txt | Destination: http:/x
    %(m)s /a.txt | Destination: //localhost/x
    => 409 -- a parent that is missing is a conflict (RFC 4918, 9.7.1, 9.8.5, 9.9.4), no fault of ours
    %(m)s /a.txt | Destination: http://localhost@other/x
    => 400 -- only the whole host, and a port, is the same host
    %(m)s /a.txt | Destination: http://user@localhost/x
    %(m)s /a.txt | -Host | Host: | Destination: /x
    %(m)s /a.txt | Destination: /../x
    %(m)s /a.txt | Destination: /a/../../x
    %(m)s /a.txt | Destination: /%%00
    %(m)s /a.txt | Destination: /%%zz
    => 400 -- a destination is read as a target of a request is
    %(m)s /a.txt | Destination: /x | Overwrite: x
    %(m)s /a.txt | Destination: /x | Overwrite: TRUE
    %(m)s /a.txt | Destination: /x | Overwrite:
    %(m)s /a.txt | Destination: /x | Depth: 1
    %(m)s /a.txt | Destination: /x | Depth: x
    %(m)s /a.txt | Destination: /x/
    %(m)s /from/ | Destination: /x
    %(m)s /from | Destination: /x
    %(m)s /from | Destination: /x/
    %(m)s /from/ | Destination: /x/ | Depth: 1
    %(m)s /a.txt/ | Destination: /x/
    %(m)s /missing | Destination: /x
    %(m)s /missing/ | Destination: /x/
    %(m)s /a.txt | Destination: /missing/dir/x
    => 409 -- a parent that is missing is a conflict (RFC 4918, 9.7.1, 9.8.5, 9.9.4), no fault of ours
    %(m)s /a.txt | Destination: /b.txt | Overwrite: F
    %(m)s /a.txt | Destination: /b.txt | Overwrite: f
    %(m)s /a.txt | Destination: /d
    %(m)s /a.txt | Destination: /d | Overwrite: F
    %(m)s /a.txt | Destination: /d/
    %(m)s /a.txt | Destination: /c.txt/x
    => 409 -- a parent that is missing is a conflict (RFC 4918, 9.7.1, 9.8.5, 9.9.4), no fault of ours
    %(m)s /from/ | Destination: /to/ | Overwrite: F
    %(m)s /from/ | Destination: /c.txt/
    %(m)s /from/ | Destination: /missing/x/
    => 409 -- a parent that is missing is a conflict (RFC 4918, 9.7.1, 9.8.5, 9.9.4), no fault of ours
    %(m)s /a.txt/x | Destination: /x
    %(m)s /a.txt | Destination: /x | Depth: Infinity
    GET /a.txt
    => 200 -- nothing was done
    GET /x
    => 404 -- nothing was done
    """

CONFIGS = [
    Config("dav_put", r"""
        server {
            listen 127.0.0.1:@PORT@;
            root html; etag off; add_header Last-Modified "";
            dav_methods put delete mkcol copy move;
            location / { }
            location /none/ { dav_methods off; }
            location /inherited/ { alias html/; location /inherited/full/ { create_full_put_path on; } }
            location /only/ { dav_methods PUT; }
            location /more/ { dav_methods MKCOL; }
            location /full/ { create_full_put_path on; }
            location /page/ { error_page 404 403 409 415 500 501 =200 /page.txt; error_page 405 =205 /page.txt; }
            location /small/ { client_max_body_size 4; alias html/put/; }
            location /file/ { client_body_in_file_only on; alias html/put/; }
            location /buffer/ { client_body_buffer_size 4; alias html/put/; }
            location /return/ { return 200 "here\n"; }
            location /if/ { if ($arg_x) { set $y 1; } alias html/put/; }
            location /limited/ { limit_except GET { deny all; } }
            location /headers/ { add_header X-Uri "$uri|$content_length|$request_method|$status|$request_length" always; alias html/put/; }
            location = /exact { }
            location ~ ^/regex/(.*)$ { alias html/put/$1; }
            location /index/ { index page.txt; }
        }""", r"""
        PUT /new.txt << first
        GET /new.txt
        PUT /new.txt << second one
        GET /new.txt
        HEAD /new.txt
            PUT /empty2.txt | Content-Length: 0
        GET /empty2.txt
        PUT /nobody.txt
        => 201 -- a body that is not there is an empty one
        GET /nobody.txt
        => 200 -- the same
        PUT /a%20b%C3%A4.txt << x
        PUT /a%3fb%23c%25d"e.txt << x
        PUT /args.txt?a=b << x
        PUT / << x
        PUT /dir/ << x
        PUT /d << x
        => 409 -- it is looked at before the body is read
        PUT /d/ << x
        PUT /d/new << x
        GET /d/new
        PUT /a.txt/b << x
        => 409 -- a parent that is missing is a conflict (RFC 4918, 9.7.1, 9.8.5, 9.9.4), no fault of ours
        PUT /missing/dir.txt << x
        => 409 -- a parent that is missing is a conflict (RFC 4918, 9.7.1, 9.8.5, 9.9.4), no fault of ours
        PUT /full/one/two/three.txt << full
        GET /full/one/two/three.txt
        PUT /full/one/two/ << x
        PUT /range.txt | Content-Range: bytes 0-3/8 << abcd
        PUT /range.txt | Content-Range: x << abcd
        PUT /range.txt | Content-Range: << abcd
        GET /range.txt
        PUT /dated.txt | Date: Sun, 06 Nov 1994 08:49:37 GMT << dated
        GET /dated.txt
        PUT /dated.txt | Date: Sunday, 06-Nov-94 08:49:38 GMT << dated
        HEAD /dated.txt
        PUT /dated.txt | Date: Sun Nov  6 08:49:39 1994 << dated
        HEAD /dated.txt
        PUT /undated.txt | Date: whenever << dated
        RAW PUT /chunked.txt HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nabcd\r\n3;x=y\r\nefg\r\n0\r\nTrailer: x\r\n\r\n
        GET /chunked.txt
        PUT /v10.txt HTTP/1.0 << ten
        GET /v10.txt
        PUT /none/a.txt << x
        GET /none/a.txt
        DELETE /none/a.txt
        MKCOL /none/b/
        COPY /none/a.txt | Destination: /none/c.txt
        PUT /only/new << x
        DELETE /only/new
        MKCOL /only/d/
        COPY /only/new | Destination: /only/other
        PUT /more/new << x
        MKCOL /more/
        MKCOL /more/x/
        DELETE /more/x/
        PUT /page/missing/a << x
        => 200 kept -- the same, with its page
        PUT /page/ << x
        PUT /page/x | Content-Range: bytes 0-1/2 << x
        DELETE /page/x
        MKCOL /page/
        MKCOL /page/
        PUT /small/s1 << 1234
        PUT /small/s2 << 12345
        RAW PUT /small/s3 HTTP/1.1\nHost: localhost\nTransfer-Encoding: chunked\n\n5\n12345\n0\n\n
        => 413 closed -- counted differently
        GET /small/s1
        GET /small/s2
        GET /small/s3
        PUT /file/f << in a file
        GET /file/f
        PUT /buffer/b << more than four
        GET /buffer/b
        PUT /return/x << x
        PUT /if/x?x=1 << if
        GET /if/x
        PUT /limited/x << x
        PUT /headers/h << headers
        PUT /headers/h/i << headers
        => 409 -- a parent that is missing is a conflict (RFC 4918, 9.7.1, 9.8.5, 9.9.4), no fault of ours
        PUT /exact << exact
        GET /exact
        PUT /regex/r << regex
        GET /regex/r
        PUT /index/ << index
        PUT /inherited/i << inherited
        GET /i
        PUT /inherited/full/a/b << inherited
        GET /inherited/full/a/b
        PUT /expect | Expect: 100-continue << expected
        => 201 -- the body is there: nobody waits for 100
        GET /expect
        PUT /x | If-None-Match: * << x
        PUT /x | If-Match: "y" << y
        PUT /x | If-Unmodified-Since: Sun, 06 Nov 1994 08:49:37 GMT << z
        GET /x
        POST /a.txt << x
        OPTIONS /a.txt
        PROPFIND /a.txt
        LOCK /a.txt
        PATCH /a.txt << x
        PUT /../x << x
        PUT /%00 << x
        PUT /a/../../x << x
        PUT /one HTTP/1.1 << x && GET /one
        """, files=FILES, prepare=writable, changes_files=True, errors=False),
    Config("dav_delete", r"""
        server {
            listen 127.0.0.1:@PORT@;
            root html;
            dav_methods DELETE MKCOL;
            location / { }
            location /min/ { min_delete_depth 3; }
            location /min2/ { min_delete_depth 2; alias html/min/; }
            location /al/ { alias html/; }
            location /other/ { alias other/; }
        }""", r"""
        DELETE /a.txt
        GET /a.txt
        DELETE /a.txt
        DELETE /a.txt/
        DELETE /b.txt/
        DELETE /d
        DELETE /d/e.txt | Depth: 1
        DELETE /d/e.txt | Depth: 2
        DELETE /d/e.txt | Depth: x
        DELETE /d/e.txt | Depth:
        DELETE /d/e.txt | Depth: Infinity
        DELETE /d/e.txt | Depth: 0
        DELETE /d/ | Depth: 0
        DELETE /d/ | Depth: 1
        DELETE /d/ | Depth: infinity
        GET /d/
        DELETE /d/
        DELETE /b.txt/x
        => 404 -- there is nothing
        DELETE /min/top.txt
        DELETE /min/a/b/c.txt
        DELETE /min/a/
        DELETE /min/a/b/
        DELETE /min/a
        DELETE /min/
        DELETE /min2/top.txt
        DELETE /min2/
        DELETE /other/o.txt
        DELETE /al/c.txt
        DELETE /c.txt
        DELETE /nothing/at/all
        DELETE /s.txt HTTP/1.0
        DELETE /page.txt?x=y
        MKCOL /m
        MKCOL /m/
        MKCOL /m/
        MKCOL /m/n/o/
        MKCOL /m/n%20%C3%A4/
        MKCOL /from/1.txt/
        MKCOL /from/1.txt/x/
        MKCOL /
        MKCOL /al/new/
        GET /new/
        MKCOL /v10/ HTTP/1.0
        MKCOL /args/?a=b
        PUT /m/x << x
        COPY /from/1.txt | Destination: /from/2.txt
        """ + bodies("DELETE", "/from/1.txt") + bodies("MKCOL", "/dd/"), files=FILES, prepare=writable, changes_files=True, errors=False),
    Config("dav_copy_refused", TRANSFERS, REFUSED % {"m": "COPY"} + bodies("COPY", "/a.txt"), files=FILES, prepare=writable, changes_files=True, errors=False),
    Config("dav_move_refused", TRANSFERS, REFUSED % {"m": "MOVE"} + bodies("MOVE", "/a.txt", "\n=> 204 -- it is still there"), files=FILES, prepare=writable, changes_files=True, errors=False),
    Config("dav_copy", TRANSFERS, r"""
        COPY /a.txt | Destination: /copy.txt
        GET /copy.txt
        COPY /a.txt | Destination: /copy.txt
        COPY /a.txt | Destination: /copy.txt | Overwrite: t
        COPY /a.txt | Destination: /copy.txt | Overwrite: T
        COPY /a.txt | Destination: http://localhost/c1 | Depth: 0
        COPY /a.txt | Destination: http://localhost:8080/c2?x=y
        COPY /a.txt | Destination: https://localhost/c3 | Depth: infinity
        COPY /a.txt | Destination: HTTP://localhost/c4
        => 204 -- schemes and hosts have no case
        COPY /a.txt | Destination: http://LOCALHOST/c5
        => 204 -- the same
        COPY /a.txt | Destination: /c%20%C3%A4%23?x=y#z
        => 400 -- a destination is read as a target of a request is
        COPY /a.txt | Destination: /c7#z
        => 400 -- a destination is read as a target of a request is
        COPY /a.txt | Destination: /./d/../c8
        => 204 -- a destination is read as a target of a request is
        COPY /a.txt | Destination: //c9
        COPY /a.txt | Destination: /al/c10
        => 409 -- a parent that is missing is a conflict (RFC 4918, 9.7.1, 9.8.5, 9.9.4), no fault of ours
        COPY /a.txt | Destination: /other/c11
        => 409 -- a parent that is missing is a conflict (RFC 4918, 9.7.1, 9.8.5, 9.9.4), no fault of ours
        COPY /other/o.txt | Destination: /c12
        COPY /other/o.txt | Destination: /other/c13
        GET /other/c13
        COPY /al/a.txt | Destination: /al/c14
        GET /c14
        COPY /al/a.txt | Destination: /c15
        => 400 -- outside of the alias
        COPY /a.txt | Destination: /out/c16
        => 409 -- a parent that is missing is a conflict (RFC 4918, 9.7.1, 9.8.5, 9.9.4), no fault of ours
        GET /c1
        GET /c2
        GET /c3
        GET /c4
        => 200 -- as above
        GET /c5
        => 200 -- as above
        GET /c%20%C3%A4%23
        => 404 -- as above
        GET /c7
        GET /c8
        => 200 -- as above
        GET /c9
        GET /al/c10
        GET /other/c11
        GET /c12
        COPY /from/ | Destination: /copied/
        GET /copied/1.txt
        GET /copied/in/2.txt
        COPY /from/ | Destination: /to/
        GET /to/1.txt
        GET /to/old.txt
        COPY /from/ | Destination: /shallow/ | Depth: 0
        GET /shallow/
        GET /shallow/1.txt
        => 404 -- Depth: 0 copies no members (RFC 4918, 9.8.3)
        COPY /from/ | Destination: /deep2/ | Depth: infinity
        GET /deep2/in/2.txt
        COPY /a.txt | Destination: /a.txt
        => 403 -- the source is not destroyed (RFC 4918, 9.8.5)
        GET /a.txt
        => 200 | body~text a -- as above
        COPY /v/ HTTP/1.0 | Destination: /w/
        """, files=FILES, prepare=writable, changes_files=True, errors=False),
    Config("dav_move", TRANSFERS, r"""
        MOVE /b.txt | Destination: /moved.txt | Depth: 0
        MOVE /b.txt | Destination: /moved.txt
        GET /b.txt
        GET /moved.txt
        MOVE /moved.txt | Destination: /c.txt | Overwrite: T
        GET /c.txt
        MOVE /from/ | Destination: /moved2/ | Depth: 0
        MOVE /from/ | Destination: /moved2/ | Depth: infinity
        GET /from/
        GET /moved2/in/2.txt
        MOVE /moved2/ | Destination: /to/
        GET /to/1.txt
        GET /to/old.txt
        MOVE /to/ | Destination: /to2/ | Overwrite: F
        MOVE /c.txt | Destination: /c.txt
        => 403 -- the source is not destroyed (RFC 4918, 9.8.5)
        GET /c.txt
        """, files=FILES, prepare=writable, changes_files=True, errors=False),
]
