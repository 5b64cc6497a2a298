"""gzip and what decides about it: Accept-Encoding, Via, types, lengths, Vary, ETag."""

from ..engine import Config

# Longer than gzip_min_length, and worth it.
TEXT = "hello world, " * 30
FILES = {"html/a.html": TEXT, "html/a.txt": TEXT, "html/a.bin": TEXT, "html/a.up": TEXT,
         "html/19.html": "x" * 19, "html/20.html": "x" * 20, "html/empty.html": "",
         "html/big.html": "".join("%d line of text\n" % (i * 7919 % 100003) for i in range(400))}

HEAD = r"""
        types { text/html html; text/plain txt; application/octet-stream bin; Text/Up up; }
        log_format ratio '$remote_port $gzip_ratio';
        access_log logs/ratio.access ratio;
"""

CONFIGS = [
    Config("gzip", HEAD + r"""
        gzip on; gzip_comp_level 4; # by zlib on both sides
        gzip_vary on;
        server {
            listen 127.0.0.1:@PORT@;
            server_name localhost;
            root html;
            error_page 402 /a.html;
            location /off/ { gzip off; alias html/; }
            location /novary/ { gzip_vary off; alias html/; }
            location /types/ { gzip_types text/plain text/up; alias html/; }
            location /all/ { gzip_types *; alias html/; }
            location /min/ { gzip_min_length 500; alias html/; }
            location /old/ { gzip_http_version 1.0; alias html/; }
            location /vary/ { add_header Vary X; add_header Vary Accept-Encoding; alias html/; }
            location /type { default_type "text/html; charset=x"; return 200 "hello hello hello hello hello"; }
            location /notype { default_type ""; return 200 "hello hello hello hello hello"; }
            location /encoded/ { add_header Content-Encoding x; alias html/; }
            location /status/200 { default_type text/html; return 200 "hello hello hello hello hello"; }
            location /status/201 { default_type text/html; return 201 "hello hello hello hello hello"; }
            location /status/301 { return 301 /hello-hello-hello-hello-hello; }
            location /status/402 { return 402; }
            location /status/403 { return 403; }
            location /status/404 { return 404; }
            location /status/500 { return 500; }
            location /if { if ($arg_g) { gzip off; } alias html/; }
            location /trailer/ { add_trailer X-T $gzip_ratio; alias html/; }
            location /level9/ { gzip_comp_level 9; alias html/; }
            location /window/ { gzip_window 512; gzip_hash 512; alias html/; }
            location /buffers/ { gzip_buffers 1 512; alias html/; }
            location /late/ { postpone_gzipping 1m; alias html/; }
            location /late5/ { postpone_gzipping 5; alias html/; }
            location /nobuffer/ { gzip_no_buffer on; alias html/; }
            location /sendfile/ { sendfile on; alias html/; }
            location /aio/ { aio threads; alias html/; }
            location /direct/ { directio 1; alias html/; }
        }
        """, """
        GET /a.html
        GET /a.html | Accept-Encoding: gzip
        GET /a.html | Accept-Encoding: GZip
        GET /a.html | Accept-Encoding: deflate
        GET /a.html | Accept-Encoding: deflate, gzip
        GET /a.html | Accept-Encoding: deflate,gzip
        GET /a.html | Accept-Encoding: deflate gzip
        GET /a.html | Accept-Encoding: gzip, deflate
        GET /a.html | Accept-Encoding: gzip;q=1
        GET /a.html | Accept-Encoding: gzip;q=0
        GET /a.html | Accept-Encoding: gzip;q=0.
        GET /a.html | Accept-Encoding: gzip;q=0.0
        GET /a.html | Accept-Encoding: gzip;q=0.000
        GET /a.html | Accept-Encoding: gzip;q=0.001
        GET /a.html | Accept-Encoding: gzip;Q=0
        GET /a.html | Accept-Encoding: gzip;q=1.5
        GET /a.html | Accept-Encoding: gzip;q=1.001
        GET /a.html | Accept-Encoding: gzip;q=1.000
        GET /a.html | Accept-Encoding: gzip;q=1.0000
        GET /a.html | Accept-Encoding: gzip;q=1.
        GET /a.html | Accept-Encoding: gzip;q=2
        GET /a.html | Accept-Encoding: gzip;q=
        GET /a.html | Accept-Encoding: gzip;q=x
        GET /a.html | Accept-Encoding: gzip;q=0x
        GET /a.html | Accept-Encoding: gzip;q=0.0001
        GET /a.html | Accept-Encoding: gzip;q=0.5x
        GET /a.html | Accept-Encoding: gzip;q=0.50, deflate
        GET /a.html | Accept-Encoding: gzip; q=0
        GET /a.html | Accept-Encoding: gzip ; q=0
        GET /a.html | Accept-Encoding: gzip ;q=0.1
        GET /a.html | Accept-Encoding: deflate;q=1, gzip;q=0, identity
        GET /a.html | Accept-Encoding: deflate;q=0, gzip;q=0.5
        GET /a.html | Accept-Encoding: x-gzip
        GET /a.html | Accept-Encoding: gzipped
        GET /a.html | Accept-Encoding: gzipped, gzip
            => 200 kept | Content-Encoding: gzip -- nginx looks at the first word that begins so, and no further
        GET /a.html | Accept-Encoding: notgzip, gzip
        GET /a.html | Accept-Encoding: *
        GET /a.html | Accept-Encoding: *;q=1
        GET /a.html | Accept-Encoding:
        GET /a.html | Accept-Encoding: deflate | Accept-Encoding: gzip
        GET /a.html | Accept-Encoding: gzip;q=0 | Accept-Encoding: gzip
        HEAD /a.html | Accept-Encoding: gzip
        HEAD /a.html
        GET /a.html HTTP/1.0 | Accept-Encoding: gzip
        GET /a.html | Accept-Encoding: gzip | Connection: close
        GET /old/a.html HTTP/1.0 | Accept-Encoding: gzip
        GET /old/a.html HTTP/1.0 | Accept-Encoding: gzip | Connection: keep-alive
        HEAD /old/a.html HTTP/1.0 | Accept-Encoding: gzip | Connection: keep-alive
        GET /a.html | Accept-Encoding: gzip && GET /a.html | Accept-Encoding: gzip && GET /a.txt
        GET /a.txt | Accept-Encoding: gzip
        GET /a.bin | Accept-Encoding: gzip
        GET /19.html | Accept-Encoding: gzip
        GET /20.html | Accept-Encoding: gzip
        GET /empty.html | Accept-Encoding: gzip
        GET /big.html | Accept-Encoding: gzip
        GET /a.html | Accept-Encoding: gzip | Range: bytes=0-9
        GET /a.html | Range: bytes=0-9
        GET /a.html | Accept-Encoding: gzip | If-Range: "x" | Range: bytes=0-9
        GET /off/a.html | Accept-Encoding: gzip
        GET /novary/a.html | Accept-Encoding: gzip
        GET /novary/a.html
        GET /types/a.html | Accept-Encoding: gzip
        GET /types/a.txt | Accept-Encoding: gzip
        GET /types/a.up | Accept-Encoding: gzip
        GET /types/a.bin | Accept-Encoding: gzip
        GET /all/a.bin | Accept-Encoding: gzip
        GET /all/none | Accept-Encoding: gzip
            => 404 kept | Content-Encoding: gzip | Vary: Accept-Encoding | Transfer-Encoding: chunked -- the page names the server, and so do the compressed bytes
        GET /min/a.html | Accept-Encoding: gzip
        GET /min/big.html | Accept-Encoding: gzip
        GET /vary/a.html | Accept-Encoding: gzip
            => 200 kept | Vary: X | Vary: Accept-Encoding | Content-Encoding: gzip -- the order of equal names differs
        GET /type | Accept-Encoding: gzip
            => 200 kept | Content-Encoding: gzip | Content-Type: text/html; charset=x -- a parameter in default_type does not make another type of it
        GET /notype | Accept-Encoding: gzip
        GET /encoded/a.html | Accept-Encoding: gzip
            => 200 kept | Content-Encoding: x | ETag: "6553f100-186" -- what has an encoding is not encoded again, whoever said it
        GET /status/200 | Accept-Encoding: gzip
        GET /status/201 | Accept-Encoding: gzip
        GET /status/301 | Accept-Encoding: gzip
        GET /status/402 | Accept-Encoding: gzip
        GET /status/403 | Accept-Encoding: gzip
            => 403 kept | Content-Encoding: gzip | Vary: Accept-Encoding -- the page names the server, and so do the compressed bytes
        GET /status/404 | Accept-Encoding: gzip
            => 404 kept | Content-Encoding: gzip | Vary: Accept-Encoding -- the page names the server, and so do the compressed bytes
        GET /status/500 | Accept-Encoding: gzip
        GET /if/a.html | Accept-Encoding: gzip
        GET /if/a.html?g=1 | Accept-Encoding: gzip
        GET /trailer/a.html | Accept-Encoding: gzip
        GET /level9/big.html | Accept-Encoding: gzip
        GET /window/big.html | Accept-Encoding: gzip
        GET /buffers/big.html | Accept-Encoding: gzip
        GET /late/big.html | Accept-Encoding: gzip
        GET /late5/big.html | Accept-Encoding: gzip
        GET /nobuffer/a.html | Accept-Encoding: gzip
        GET /sendfile/a.html | Accept-Encoding: gzip
        GET /aio/a.html | Accept-Encoding: gzip
        GET /direct/a.html | Accept-Encoding: gzip
        POST /a.html | Accept-Encoding: gzip << body
        """, files=FILES),
    Config("gzip_conditions", HEAD + r"""
        gzip on; gzip_comp_level 4; # by zlib on both sides
        server {
            listen 127.0.0.1:@PORT@;
            server_name localhost;
            root html;
            location /any/ { gzip_proxied any; alias html/; }
            location /offany/ { gzip_proxied off any; alias html/; }
            location /auth/ { gzip_proxied auth; alias html/; }
            location /expired/ { gzip_proxied expired; expires epoch; alias html/; }
            location /fresh/ { gzip_proxied expired no_etag; expires 1h; etag off; alias html/; }
            location /never/ { gzip_proxied expired; alias html/; }
            location /nocache/ { gzip_proxied no-cache; expires epoch; alias html/; }
            location /nostore/ { gzip_proxied no-store; add_header Cache-Control "x, No-Store"; alias html/; }
            location /private/ { gzip_proxied private no-store; add_header Cache-Control private; alias html/; }
            location /quoted/ { gzip_proxied private; add_header Cache-Control "private=x"; alias html/; }
            location /public/ { gzip_proxied private no-store no-cache; add_header Cache-Control public; alias html/; }
            location /nolm/ { gzip_proxied no_last_modified; alias html/; }
            location /nolm2/ { gzip_proxied no_last_modified; default_type text/html; return 200 "hello hello hello hello hello"; }
            location /noetag/ { gzip_proxied no_etag; alias html/; }
            location /noetag2/ { gzip_proxied no_etag; etag off; alias html/; }
            location /both/ { gzip_proxied auth; gzip_proxied no_etag; alias html/; }
            location /msie/ { gzip_disable msie6; alias html/; }
            location /regex/ { gzip_disable ^bot "evil[0-9]" msie6; alias html/; }
            location /parent/ { gzip_disable bot; location /parent/kid/ { gzip_disable x; alias html/; } alias html/; }
        }
        """, """
        GET /a.html | Accept-Encoding: gzip | Via: 1.1 x
        GET /any/a.html | Accept-Encoding: gzip | Via: 1.1 x
        GET /any/a.html | Via: 1.1 x
        GET /any/a.html | Accept-Encoding: gzip | Via:
        GET /offany/a.html | Accept-Encoding: gzip | Via: 1.1 x
        GET /auth/a.html | Accept-Encoding: gzip | Via: 1.1 x
        GET /auth/a.html | Accept-Encoding: gzip | Via: 1.1 x | Authorization: Basic eA==
        GET /auth/a.html | Accept-Encoding: gzip
        GET /expired/a.html | Accept-Encoding: gzip | Via: 1.1 x
        GET /fresh/a.html | Accept-Encoding: gzip | Via: 1.1 x
        GET /never/a.html | Accept-Encoding: gzip | Via: 1.1 x
        GET /nocache/a.html | Accept-Encoding: gzip | Via: 1.1 x
        GET /nostore/a.html | Accept-Encoding: gzip | Via: 1.1 x
        GET /private/a.html | Accept-Encoding: gzip | Via: 1.1 x
        GET /quoted/a.html | Accept-Encoding: gzip | Via: 1.1 x
        GET /public/a.html | Accept-Encoding: gzip | Via: 1.1 x
        GET /nolm/a.html | Accept-Encoding: gzip | Via: 1.1 x
            => 200 kept | -Content-Encoding | ETag: "6553f100-186" -- nginx does not see the Last-Modified of its own files there
        GET /nolm2/a.html | Accept-Encoding: gzip | Via: 1.1 x
        GET /noetag/a.html | Accept-Encoding: gzip | Via: 1.1 x
        GET /noetag2/a.html | Accept-Encoding: gzip | Via: 1.1 x
        GET /both/a.html | Accept-Encoding: gzip | Via: 1.1 x
        GET /both/a.html | Accept-Encoding: gzip | Via: 1.1 x | Authorization: x
        GET /msie/a.html | Accept-Encoding: gzip
        GET /msie/a.html | Accept-Encoding: gzip | User-Agent: Mozilla/4.0 (compatible; MSIE 6.0; Windows NT 5.1)
        GET /msie/a.html | Accept-Encoding: gzip | User-Agent: Mozilla/4.0 (compatible; MSIE 6.0; Windows NT 5.1; SV1)
        GET /msie/a.html | Accept-Encoding: gzip | User-Agent: Mozilla/4.0 (compatible; MSIE 5.5; SV1)
        GET /msie/a.html | Accept-Encoding: gzip | User-Agent: Mozilla/4.0 (compatible; MSIE 4.01)
        GET /msie/a.html | Accept-Encoding: gzip | User-Agent: Mozilla/4.0 (compatible; MSIE 7.0)
        GET /msie/a.html | Accept-Encoding: gzip | User-Agent: MSIE 6
        GET /regex/a.html | Accept-Encoding: gzip | User-Agent: botnet
        GET /regex/a.html | Accept-Encoding: gzip | User-Agent: BOTnet
        GET /regex/a.html | Accept-Encoding: gzip | User-Agent: a bot
        GET /regex/a.html | Accept-Encoding: gzip | User-Agent: an evil7
        GET /regex/a.html | Accept-Encoding: gzip | User-Agent: x MSIE 6.0 y
        GET /parent/a.html | Accept-Encoding: gzip | User-Agent: bot
        GET /parent/kid/a.html | Accept-Encoding: gzip | User-Agent: bot
        GET /parent/kid/a.html | Accept-Encoding: gzip | User-Agent: xbot
        """, files=FILES),
    Config("gzip_proxied", HEAD + r"""
        gzip on; gzip_comp_level 4; # by zlib on both sides
        gzip_vary on;
        proxy_http_version 1.1;
        proxy_set_header Connection "";
        server {
            listen 127.0.0.1:@PORT1@;
            server_name backend;
            access_log off;
            root html;
            gzip off;
            location /weak/ { alias html/; add_header ETag 'W/"x"'; etag off; }
            location /odd/ { alias html/; add_header ETag x; etag off; }
            location /gone/ { default_type text/html; return 404 "own page own page own page own page"; }
            location /coded/ { alias html/; add_header Content-Encoding gzip; }
            location /trailer/ { alias html/; add_trailer X t; }
            location /204 { return 204; }
            location /302 { return 302 /hello-hello-hello-hello-hello-hello; }
        }
        server {
            listen 127.0.0.1:@PORT@;
            server_name localhost;
            location / { proxy_pass http://127.0.0.1:@PORT1@; }
            location /unbuffered/ { proxy_buffering off; proxy_pass http://127.0.0.1:@PORT1@/; }
            location /asks/ { proxy_set_header Accept-Encoding ""; proxy_pass http://127.0.0.1:@PORT1@/; }
        }
        """, """
        GET /a.html | Accept-Encoding: gzip
        GET /a.html
        HEAD /a.html | Accept-Encoding: gzip
        HEAD /a.html
        GET /big.html | Accept-Encoding: gzip
        GET /unbuffered/a.html | Accept-Encoding: gzip
            => 200 kept | Content-Encoding: gzip | Transfer-Encoding: chunked -- a body that came whole needs no flush before its end
        GET /asks/a.html | Accept-Encoding: gzip
        GET /weak/a.html | Accept-Encoding: gzip
        GET /odd/a.html | Accept-Encoding: gzip
        GET /odd/a.html
        GET /gone/ | Accept-Encoding: gzip
        GET /coded/a.html | Accept-Encoding: gzip
        GET /trailer/a.html | Accept-Encoding: gzip
        GET /204 | Accept-Encoding: gzip
        GET /302 | Accept-Encoding: gzip
        GET /a.html | Accept-Encoding: gzip | Range: bytes=0-9
        GET /19.html | Accept-Encoding: gzip
        """, files=FILES),
]
