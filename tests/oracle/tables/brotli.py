"""brotli and brotli_static, beside gzip."""

from ..engine import Config

TEXT = "hello world, " * 30
FILES = {"html/a.html": TEXT, "html/a.txt": TEXT, "html/19.html": "x" * 19, "html/20.html": "x" * 20,
         "html/s.html": TEXT, "html/s.html.br": "packed by brotli", "html/s.html.gz": "packed by gzip",
         "html/b.html": TEXT, "html/b.html.br": "packed by brotli",
         "html/z.html": TEXT, "html/z.html.gz": "packed by gzip"}

MODULES = """
    load_module /usr/lib/nginx/modules/ngx_http_brotli_filter_module.so;
    load_module /usr/lib/nginx/modules/ngx_http_brotli_static_module.so;
"""

HEAD = """
        types { text/html html; text/plain txt; }
        log_format ratio '$remote_port $brotli_ratio';
        access_log logs/ratio.access ratio;
        root html;
"""

CONFIGS = [
    Config("brotli", HEAD + r"""
        brotli on;
        gzip_vary on;
        server {
            listen 127.0.0.1:@PORT@;
            server_name localhost;
            location /off/ { brotli off; alias html/; }
            location /novary/ { gzip_vary off; alias html/; }
            location /types/ { brotli_types text/plain; alias html/; }
            location /min/ { brotli_min_length 500; alias html/; }
            location /old/ { gzip_http_version 1.0; alias html/; }
            location /any/ { gzip_proxied any; alias html/; }
            location /disabled/ { gzip_disable bot; alias html/; }
            location /both/ { gzip on; gzip_comp_level 4; alias html/; }
            location /level/ { brotli_comp_level 11; alias html/; }
            location /zero/ { brotli_comp_level 0; alias html/; }
            location /window/ { brotli_window 1k; alias html/; }
            location /encoded/ { add_header Content-Encoding x; alias html/; }
            location /status/201 { default_type text/html; return 201 "hello hello hello hello hello"; }
            location /status/403 { default_type text/html; return 403 "hello hello hello hello hello"; }
            location /status/500 { default_type text/html; return 500 "hello hello hello hello hello"; }
            location /if/ { if ($arg_g) { brotli off; } alias html/; }
            location /ssi/ { ssi on; alias html/; }
        }
        """, """
        GET /a.html
        GET /a.html | Accept-Encoding: br
        GET /a.html | Accept-Encoding: BR
        GET /a.html | Accept-Encoding: gzip
        GET /a.html | Accept-Encoding: gzip, br
        GET /a.html | Accept-Encoding: gzip, deflate, br, zstd
        GET /a.html | Accept-Encoding: gzip br
        GET /a.html | Accept-Encoding: br;q=1
        GET /a.html | Accept-Encoding: br;q=0
        GET /a.html | Accept-Encoding: br;q=0.0
        GET /a.html | Accept-Encoding: br; q=0
        GET /a.html | Accept-Encoding: br;q=0.001
        GET /a.html | Accept-Encoding: bro
        GET /a.html | Accept-Encoding: xbr
        GET /a.html | Accept-Encoding: *
        HEAD /a.html | Accept-Encoding: br
        GET /a.html HTTP/1.0 | Accept-Encoding: br
        GET /old/a.html HTTP/1.0 | Accept-Encoding: br
        GET /a.html | Accept-Encoding: br | Via: 1.1 x
        GET /any/a.html | Accept-Encoding: br | Via: 1.1 x
        GET /disabled/a.html | Accept-Encoding: br | User-Agent: bot
        GET /a.html | Accept-Encoding: br | Range: bytes=0-9
        GET /a.html | Accept-Encoding: br | If-None-Match: *
        GET /19.html | Accept-Encoding: br
        GET /20.html | Accept-Encoding: br
        GET /a.txt | Accept-Encoding: br
        GET /types/a.txt | Accept-Encoding: br
        GET /types/a.html | Accept-Encoding: br
        GET /off/a.html | Accept-Encoding: br
        GET /novary/a.html | Accept-Encoding: br
        GET /min/a.html | Accept-Encoding: br
        GET /both/a.html | Accept-Encoding: gzip
        GET /both/a.html | Accept-Encoding: br
        GET /both/a.html | Accept-Encoding: gzip, br
        GET /both/a.html | Accept-Encoding: gzip;q=1, br;q=0.5
            => 200 kept | Content-Encoding: gzip | Vary: Accept-Encoding -- the client says which it likes better
        GET /level/a.html | Accept-Encoding: br
        GET /zero/a.html | Accept-Encoding: br
        GET /window/a.html | Accept-Encoding: br
        GET /encoded/a.html | Accept-Encoding: br
            => 200 kept | Content-Encoding: x | ETag: "6553f100-186" -- what has an encoding is not encoded again, whoever said it
        GET /status/201 | Accept-Encoding: br
        GET /status/403 | Accept-Encoding: br
        GET /status/500 | Accept-Encoding: br
        GET /if/a.html | Accept-Encoding: br
        GET /if/a.html?g=1 | Accept-Encoding: br
        GET /ssi/a.html | Accept-Encoding: br
            => 200 kept | Content-Encoding: br | Transfer-Encoding: chunked | -ETag -- the body was whole before it was begun, and its length known
        """, files=FILES, main=MODULES),
    Config("brotli_static", HEAD + r"""
        brotli_static on;
        server {
            listen 127.0.0.1:@PORT@;
            server_name localhost;
            location / { }
            location /vary/ { gzip_vary on; alias html/; }
            location /always/ { brotli_static always; gzip_vary on; alias html/; }
            location /both/ { gzip_static on; alias html/; }
            location /filter/ { brotli on; alias html/; }
        }
        """, """
        GET /s.html
        GET /s.html | Accept-Encoding: br
        GET /s.html | Accept-Encoding: gzip
        GET /s.html | Accept-Encoding: br;q=0
        HEAD /s.html | Accept-Encoding: br
        GET /s.html HTTP/1.0 | Accept-Encoding: br
        GET /s.html | Accept-Encoding: br | Via: 1.1 x
        GET /s.html | Accept-Encoding: br | Range: bytes=0-3
        GET /s.html | Accept-Encoding: br | If-None-Match: *
        GET /a.html | Accept-Encoding: br
        GET /none.html | Accept-Encoding: br
        POST /s.html | Accept-Encoding: br << x
        GET /vary/s.html
            => 200 kept | Vary: Accept-Encoding -- a cache that keeps it must know that others get another one
        GET /vary/s.html | Accept-Encoding: br
        GET /vary/a.html
        GET /vary/a.html | Accept-Encoding: br
        GET /always/s.html
        GET /always/s.html | Accept-Encoding: br
        GET /always/s.html | Accept-Encoding: gzip
        GET /always/a.html
        GET /both/s.html
        GET /both/s.html | Accept-Encoding: gzip
        GET /both/s.html | Accept-Encoding: br
        GET /both/s.html | Accept-Encoding: gzip, br
        GET /both/z.html | Accept-Encoding: gzip, br
        GET /both/b.html | Accept-Encoding: gzip, br
        GET /filter/s.html | Accept-Encoding: br
        GET /filter/a.html | Accept-Encoding: br
        """, files=FILES, main=MODULES),
]
