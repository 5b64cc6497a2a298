"""charset: what is announced, what is recoded, and what becomes of the head."""

from ..engine import Config

FILES = {
    "html/koi.txt": b"a\xc0b\xc1\x80\xff\xc5z", "html/ascii.txt": "plain ascii\n", "html/empty.txt": "",
    "html/utf.txt": "a\u044eb\u0430\u20ac|\u0431|\U0001f600|z".encode(), "html/koi.html": b"<p>\xc0\xc1</p>\n",
    "html/koi.xyz": b"\xc0", "html/long.txt": b"\xc0\xc1a" * 30000,
    "html/bad.txt": b"a\xff<b>\xd1<\xe2\x82<", "html/end.txt": b"a\xd1",
}

MAPS = r"""
        charset_map koi8-r utf-8 { C0 D18E; C1 D0B0; 80 E282AC; }
        charset_map koi8-r windows-1251 { C0 FE; C1 E0; }
        map $arg_s $s { default ""; k koi8-r; u utf-8; w windows-1251; x xxx; kk KOI8-R; }
        map $arg_c $c { default ""; k koi8-r; u utf-8; w windows-1251; x xxx; uu UTF-8; }
        types { text/plain txt; text/html html shtml; image/xyz xyz; }
"""

CONFIGS = [
    Config("charset", MAPS + r"""
        charset_types text/plain;
        server {
            listen 127.0.0.1:@PORT@;
            server_name localhost;
            root html;
            location /k2u/ { alias html/; charset utf-8; source_charset koi8-r; }
            location /u2k/ { alias html/; charset koi8-r; source_charset utf-8; }
            location /k2w/ { alias html/; charset windows-1251; source_charset koi8-r; }
            location /w2k/ { alias html/; charset koi8-r; source_charset windows-1251; }
            location /memory/ { alias html/; charset utf-8; source_charset koi8-r; sendfile off; output_buffers 1 4k; }
            location /variables/ { alias html/; charset $c; source_charset $s; }
            location /name/ { alias html/; charset $c; }
            location /named/ { alias html/; charset utf-8; }
            location /source/ { alias html/; source_charset koi8-r; }
            location /same/ { alias html/; charset koi8-r; source_charset KOI8-R; }
            location /off/ { alias html/; charset off; }
            location /any/ { alias html/; charset utf-8; charset_types *; }
            location /inherits/ { charset utf-8; location /inherits/in/ { alias html/; source_charset koi8-r; } alias html/; }
            location /text { charset utf-8; source_charset koi8-r; default_type text/plain; return 200 "plain\n"; }
            location /typed { charset koi8-r; default_type "text/plain; charset=utf-8"; return 200 "plain\n"; }
            location /overridden { charset koi8-r; override_charset on; default_type "text/plain; charset=utf-8"; return 200 "plain\n"; }
            location /untyped { charset utf-8; default_type ""; return 200 "plain\n"; }
            location /301 { charset utf-8; return 301 /x; }
            location /302 { charset utf-8; return 302 /x; }
            location /303 { charset utf-8; return 303 /x; }
            location /307 { charset utf-8; return 307 /x; }
            location /204 { charset utf-8; default_type text/plain; return 204; }
            location /404 { charset utf-8; return 404; }
            location /if/ { alias html/; if ($arg_c) { charset $c; } }
            location /field/ { alias html/; charset utf-8; add_header X-Type $sent_http_content_type; }
            location /gzip/ { alias html/; charset utf-8; source_charset koi8-r; gzip on; gzip_comp_level 4; gzip_types *; gzip_min_length 1; }
        }
        """, r"""
        GET /k2u/koi.txt
        GET /k2u/koi.html
        GET /k2u/koi.xyz
        GET /k2u/ascii.txt
        GET /k2u/utf.txt
        HEAD /k2u/koi.txt
        HEAD /k2w/koi.txt
        GET /k2u/koi.txt | Range: bytes=1-2
        GET /k2u/koi.txt HTTP/1.0
        GET /k2u/koi.txt && GET /k2w/koi.txt
        GET /k2u/koi.txt | If-Modified-Since: Tue, 14 Nov 2023 22:13:20 GMT
        GET /k2w/koi.txt
        GET /k2w/koi.txt | Range: bytes=1-2
        GET /k2w/koi.txt | Range: bytes=1-2,4-
            => 206 kept | Content-Type: multipart/byteranges; boundary=00000000000000000001 -- boundaries are random
        GET /k2w/long.txt
        GET /w2k/koi.txt
        GET /u2k/utf.txt
        GET /u2k/bad.txt
            => 200 kept | Content-Type: text/plain; charset=koi8-r | body~a?<b>?<?< -- nginx takes the byte behind a malformed one along
        GET /u2k/end.txt
        GET /memory/koi.txt
        GET /variables/koi.txt?s=k&c=u
        GET /variables/koi.txt?s=kk&c=uu
        GET /variables/koi.txt?s=w&c=k
        GET /variables/koi.txt?s=w&c=u
        GET /variables/koi.txt?s=x&c=k
        GET /variables/koi.txt?s=k&c=x
        GET /variables/koi.txt?s=k
        GET /variables/koi.txt?c=k
        GET /variables/koi.txt?s=k&c=k
        GET /variables/koi.txt?s=x&c=x
        GET /name/koi.txt?c=u
        GET /name/koi.txt?c=x
        GET /name/koi.txt
        GET /named/koi.txt
        GET /source/koi.txt
        GET /same/koi.txt
        GET /off/koi.txt
        GET /any/koi.xyz
        GET /any/koi.html
        GET /inherits/koi.txt
        GET /inherits/in/koi.txt
        GET /text
        GET /typed
        GET /overridden
            => 200 kept | Content-Type: text/plain; charset=koi8-r -- nginx does not look into a default_type
        GET /untyped
        GET /301
        GET /302
        GET /303
        GET /307
        GET /204
        GET /if/koi.txt
        GET /if/koi.txt?c=u
        GET /field/koi.txt
        GET /gzip/koi.txt
        GET /gzip/koi.txt | Accept-Encoding: gzip
        """, files=FILES),
]
