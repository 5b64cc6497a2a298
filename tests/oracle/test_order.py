"""Fields stand in the order in which the reference sends them: some clients and scripts read heads line by line."""

import pytest

from harness import binaries

from . import engine

SITE = engine.Config("order", r"""
    proxy_cache_path cache keys_zone=one:1m;
    gzip_min_length 1; gzip_proxied any;
    server {
        listen 127.0.0.1:@PORT1@;
        root html;
        add_header Vary Accept-Language; add_header X-A a; add_header Set-Cookie c; add_header Cache-Control max-age=100;
        location /absolute { return 302 http://127.0.0.1:@PORT1@/x; }
        location /relative { return 301 /x; }
    }
    server {
        listen 127.0.0.1:@PORT@;
        root html;
        location /files/ { alias html/; gzip on; gzip_vary on; expires 1h; add_header X-C c; }
        location /whole { return 301 http://x/; }
        location /made { return 301 /relative; }
        location /kept { absolute_redirect off; return 301 /relative; }
        location /changed { rewrite ^ http://other/ redirect; }
        location /page { error_page 404 =302 http://other/; return 404; }
        location /proxied/ { proxy_pass http://127.0.0.1:@PORT1@/; gzip on; gzip_vary on; }
        location /stored/ { proxy_pass http://127.0.0.1:@PORT1@/; proxy_cache one; proxy_cache_key c$uri;
                            proxy_ignore_headers Vary Set-Cookie; }
        location /sliced/ { proxy_pass http://127.0.0.1:@PORT1@/; proxy_cache one; proxy_cache_key s$uri$slice_range;
                            slice 1k; proxy_set_header Range $slice_range; proxy_http_version 1.1;
                            proxy_ignore_headers Vary Set-Cookie; proxy_cache_valid 206 1h; }
    }
    """, r"""
    GET /a.html
    GET /a.html | Range: bytes=1-2
    GET /a.html | If-Modified-Since: Tue, 14 Nov 2023 22:13:20 GMT
    GET /none
    GET /deep
    GET /files/a.html
    GET /files/a.html | Range: bytes=9000-
    GET /files/a.html | Accept-Encoding: gzip
    GET /whole
    GET /made
    GET /kept
    GET /changed
    GET /page
    GET /proxied/a.html
    GET /proxied/a.html | Accept-Encoding: gzip
    GET /proxied/a.html | Range: bytes=1-2
    GET /proxied/a.html | Range: bytes=9000-
    GET /proxied/absolute
    GET /proxied/relative
    GET /proxied/none
    GET /stored/a.html
    GET /stored/a.html
    GET /stored/a.html | Range: bytes=9000-
    HEAD /stored/a.html
    GET /stored/relative
    GET /sliced/a.html
    GET /sliced/a.html
    GET /sliced/a.html | Range: bytes=1-2
    """, files={"html/a.html": "x" * 3000, "html/deep/x": ""}, errors=False)


@pytest.fixture(scope="module")
def results():
    return engine.run_both(SITE, binaries.reference(), binaries.under_test())


@pytest.mark.parametrize("index", range(len(SITE.rows)))
def test_order(results, index):
    theirs, ours = ([[name for name, _ in response.headers] for response in result.exchanges[index].responses]
                    for result in results[:2])
    assert ours == theirs, SITE.rows[index].text
