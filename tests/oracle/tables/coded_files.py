"""gzip_static, brotli_static and gunzip: files that were compressed before, and clear text out of them."""

import gzip

from ..engine import Config

TEXT = "hello world, " * 30
PACKED = gzip.compress(TEXT.encode(), mtime=0)
SSI = b"a<!--#echo var=\"arg_x\" default=\"none\" -->b hello"
LONG = "".join("%d line of text\n" % (i * 7919 % 100003) for i in range(4000)).encode()

FILES = {
    "html/a.html": TEXT, "html/a.html.gz": PACKED, "html/plain.html": TEXT,
    "html/only.html.gz": PACKED, "html/dir.html": TEXT, "html/dir.html.gz/x": "x",
    "html/sub/index.html": TEXT, "html/sub/index.html.gz": PACKED, "html/folder.gz": PACKED,
    "html/folder/x": "x", "html/s.html": "plain", "html/s.html.gz": gzip.compress(SSI, mtime=0),
    "html/long.html": "short", "html/long.html.gz": gzip.compress(LONG, mtime=0),
    "html/a.txt": TEXT, "html/a.txt.gz": PACKED, "html/empty.html": "", "html/empty.html.gz": "",
    "html/two.html": "x", "html/two.html.gz": PACKED + gzip.compress(b"second", mtime=0),
    "html/tail.html": "x", "html/tail.html.gz": PACKED + b"garbage",
    "html/zero.html": "x", "html/zero.html.gz": gzip.compress(b"", mtime=0),
}

HEAD = "types { text/html html; text/plain txt; } root html;\n"

CONFIGS = [
    Config("gzip_static", HEAD + r"""
        server {
            listen 127.0.0.1:@PORT@;
            server_name localhost;
            gzip_static on;
            location / { }
            location /vary/ { gzip_vary on; alias html/; }
            location /always/ { gzip_static always; alias html/; }
            location /varyalways/ { gzip_static always; gzip_vary on; alias html/; }
            location /off/ { gzip_static off; alias html/; }
            location /old/ { gzip_http_version 1.0; alias html/; }
            location /any/ { gzip_proxied any; alias html/; }
            location /disabled/ { gzip_disable bot; alias html/; }
            location /gzip/ { gzip on; gzip_comp_level 4; alias html/; }
            location /gzipalways/ { gzip on; gzip_static always; alias html/; }
            location /kept/ { open_file_cache max=10; open_file_cache_errors on; alias html/; }
            location /sendfile/ { sendfile on; alias html/; }
            location /etag/ { etag off; alias html/; }
            location /charset/ { charset utf-8; alias html/; }
            location /added/ { add_header X y; alias html/; }
            location /page/ { error_page 404 /a.html; alias html/; }
            location /try/ { try_files $uri /a.html; }
            location /ssi/ { ssi on; alias html/; }
            location /sub/filter/ { sub_filter hello bye; alias html/; }
            location /if/ { if ($arg_x) { set $y 1; } alias html/; }
        }
        """, """
        GET /a.html
        GET /a.html | Accept-Encoding: gzip
        HEAD /a.html | Accept-Encoding: gzip
        GET /a.html | Accept-Encoding: gzip;q=0
        GET /a.html | Accept-Encoding: *
        GET /a.html | Accept-Encoding: deflate, gzip
        GET /a.html HTTP/1.0 | Accept-Encoding: gzip
        GET /old/a.html HTTP/1.0 | Accept-Encoding: gzip
        GET /a.html | Accept-Encoding: gzip | Via: 1.1 x
        GET /any/a.html | Accept-Encoding: gzip | Via: 1.1 x
        GET /disabled/a.html | Accept-Encoding: gzip | User-Agent: bot
        GET /plain.html | Accept-Encoding: gzip
        GET /only.html | Accept-Encoding: gzip
        GET /only.html
        GET /dir.html | Accept-Encoding: gzip
        GET /sub/ | Accept-Encoding: gzip
        GET /folder | Accept-Encoding: gzip
        GET /folder/ | Accept-Encoding: gzip
        GET /none | Accept-Encoding: gzip
        GET /a.html.gz | Accept-Encoding: gzip
        POST /a.html | Accept-Encoding: gzip << body
        GET /a.html | Accept-Encoding: gzip | Range: bytes=0-9
        GET /a.html | Accept-Encoding: gzip | Range: bytes=0-1,3-4
        GET /a.html | Accept-Encoding: gzip | Range: bytes=1000-
        GET /a.html | Accept-Encoding: gzip | If-Modified-Since: Tue, 14 Nov 2023 22:13:20 GMT
        GET /a.html | Accept-Encoding: gzip | If-None-Match: *
        GET /a.html | Accept-Encoding: gzip | If-Match: "x"
            => 412 kept -- nginx says keep-alive and closes
        GET /a.txt | Accept-Encoding: gzip
        GET /empty.html | Accept-Encoding: gzip
        GET /vary/a.html
        GET /vary/a.html | Accept-Encoding: gzip
        GET /vary/plain.html
        GET /vary/plain.html | Accept-Encoding: gzip
        GET /vary/only.html
        GET /vary/none.html
        GET /varyalways/a.html
        GET /varyalways/a.html | Accept-Encoding: gzip
        GET /always/a.html
        GET /always/a.html | Accept-Encoding: gzip
        GET /always/a.html HTTP/1.0
        GET /always/plain.html
        GET /always/only.html
        HEAD /always/a.html
        GET /off/a.html | Accept-Encoding: gzip
        GET /gzip/a.html | Accept-Encoding: gzip
        GET /gzip/plain.html | Accept-Encoding: gzip
        GET /gzipalways/a.html
        GET /kept/a.html | Accept-Encoding: gzip
        GET /kept/plain.html | Accept-Encoding: gzip
        GET /kept/plain.html | Accept-Encoding: gzip
        GET /sendfile/a.html | Accept-Encoding: gzip
        GET /etag/a.html | Accept-Encoding: gzip
        GET /charset/a.html | Accept-Encoding: gzip
        GET /charset/a.html
        GET /added/a.html | Accept-Encoding: gzip
        GET /page/none | Accept-Encoding: gzip
        GET /try/none | Accept-Encoding: gzip
        GET /ssi/s.html | Accept-Encoding: gzip
        GET /sub/filter/a.html | Accept-Encoding: gzip
        GET /sub/filter/a.html
        GET /if/a.html?x=1 | Accept-Encoding: gzip
        """, files=FILES),
    Config("gunzip", HEAD + r"""
        server {
            listen 127.0.0.1:@PORT@;
            server_name localhost;
            gzip_static always;
            gunzip on;
            location / { }
            location /vary/ { gzip_vary on; alias html/; }
            location /off/ { gunzip off; alias html/; }
            location /old/ { gzip_http_version 1.0; alias html/; }
            location /disabled/ { gzip_disable bot; alias html/; }
            location /gzip/ { gzip on; gzip_min_length 0; gzip_comp_level 4; alias html/; }
            location /ssi/ { ssi on; alias html/; }
            location /sub/ { sub_filter hello bye; alias html/; }
            location /charset/ { charset utf-8; source_charset koi8-r; alias html/; }
            location /add/ { add_after_body /plain.html; alias html/; }
            location /buffers/ { gunzip_buffers 1 512; alias html/; }
            location /field/ { add_header Content-Encoding gzip; alias html/; gzip_static off; }
            location /status/ { add_header Content-Encoding gzip always; return 404 "hello"; }
            location /page/ { error_page 404 /a.html; alias html/; }
            location /etag/ { etag off; alias html/; }
        }
        charset_map koi8-r utf-8 { C0 D18E; }
        """, """
        GET /a.html
        GET /a.html | Accept-Encoding: gzip
        GET /a.html | Accept-Encoding: deflate
        GET /a.html | Accept-Encoding: gzip;q=0
        HEAD /a.html
        HEAD /a.html | Accept-Encoding: gzip
        GET /a.html HTTP/1.0
        GET /a.html HTTP/1.0 | Accept-Encoding: gzip
        GET /old/a.html HTTP/1.0 | Accept-Encoding: gzip
        GET /a.html | Via: x | Accept-Encoding: gzip
        GET /disabled/a.html | User-Agent: bot | Accept-Encoding: gzip
        GET /a.html | Range: bytes=0-9
        GET /a.html | Range: bytes=0-9 | Accept-Encoding: gzip
        GET /a.html | If-None-Match: *
        GET /plain.html
        GET /vary/a.html
        GET /vary/a.html | Accept-Encoding: gzip
        GET /vary/plain.html
        GET /off/a.html
        GET /gzip/a.html
        GET /gzip/a.html | Accept-Encoding: gzip
        GET /gzip/plain.html | Accept-Encoding: gzip
        GET /ssi/s.html?x=1
        GET /ssi/s.html?x=1 | Accept-Encoding: gzip
        GET /sub/a.html
        GET /sub/a.html | Accept-Encoding: gzip
        GET /charset/a.html
        GET /charset/a.html | Accept-Encoding: gzip
        GET /add/a.html
        GET /add/a.html | Accept-Encoding: gzip
        GET /buffers/long.html
        GET /long.html
            => 200 kept | Transfer-Encoding: chunked | -Content-Encoding | body~67133 line of text -- the chunks have other sizes
        GET /two.html
        GET /zero.html
        GET /empty.html
        GET /tail.html
        GET /field/a.html
        GET /status/
        GET /page/none
        GET /etag/a.html
        """, files=FILES),
]
