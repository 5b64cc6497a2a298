"""Rows of single modules, and the files that they serve."""

import gzip
import importlib
import os
import random
import re
import sys

from row import ALL, Row

TEXT = "/usr/share/common-licenses/GPL-3"       # English prose that every Debian has
MAPPED, NETWORKS, KEYS, PLACED = 10000, 100000, 100000, 10000
ASKED = 1000            # of the mapped words and of the networks
OLD_LINK = b'<a href="http://old.example.com/page.html">'
LINK_EVERY = 1000       # bytes of a page between two links
LINKED_SIZE = 102400

PAGE = b"""<html><head><title>Page</title>
<!--#include virtual="/modules/head.html" -->
</head><body>
<!--#include virtual="/modules/menu.html" -->
%s
<!--#include virtual="/modules/foot.html" -->
</body></html>
"""
TEXT_SIZE, PART_SIZE = 1500, 300        # bytes of a page, and of each of the parts that it includes
PAGE_SIZE = len(re.sub(rb"<!--.*?-->|%s", b"", PAGE)) + TEXT_SIZE + 3 * PART_SIZE
PASSWORD = "Authorization: Basic Ym9iOnNlY3JldA=="      # bob:secret
# of "secret", at a cost of 2^11
BCRYPT = "bob:$2y$11$eESNCZuSN8DHnsTpSZt0gO8vP3NlFvQ/LHTV5BdyKm6aU2ysRdOWK\n"
# A key, and a token that it has signed, until the year 2100
JWT_KEYS = b"""{"keys":[{"alg":"ES256","crv":"P-256","kid":"bench","kty":"EC","use":"sig",
"x":"rq7YeiFvIjAZlXV_QbHSSCsciD3kK_4frgpU0IbNvpc","y":"MDmw66pCDN61sFN5waufP1A6ehcgfj9sh_w2ackqtSg"}]}"""
JWT = "Authorization: Bearer eyJhbGciOiAiRVMyNTYiLCAidHlwIjogIkpXVCIsICJraWQiOiAiYmVuY2gifQ." \
    "eyJzdWIiOiAiYW5uIiwgImlzcyI6ICJodHRwczovL2xvZ2luLmV4YW1wbGUuY29tL3JlYWxtcy9tYWluIiwgImF1ZCI6ICJhcGkiLCAiZXhwIjogNDEwMjQ0NDgwMCwg" \
    "ImVtYWlsIjogImFubkBleGFtcGxlLmNvbSJ9.oYj4zBvJC6-lAWj4qazmKfkHXXIM3CIPguidi5v8SJ_YV4gzW1e95HCt6rfSWzqxpcjKpkkE_fgjPA8F3h6jxg"


def prose(size):
    """So many bytes of English."""
    with open(TEXT, "rb") as file:
        text = file.read()
    return (text * (size // len(text) + 1))[:size]


def linked_page(size):
    """Prose with links in it."""
    text = prose(size)
    parts = [text[at:at + LINK_EVERY - len(OLD_LINK)] + OLD_LINK
             for at in range(0, size, LINK_EVERY)]
    return b"".join(parts)[:size]


def network(number):
    """One of NETWORKS networks of 256 addresses: the first two bytes, and the third."""
    return f"{10 + number // 65536}.{number // 256 % 256}.{number % 256}"


def places():
    """A database of PLACED networks, as the tests of geoip2 make theirs; empty where those are not."""
    directory = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../harness")
    sys.path.append(directory)
    try:
        geo_files = importlib.import_module("geo_files")
    except ImportError:
        return b""
    finally:
        sys.path.remove(directory)
    return geo_files.mmdb([(network(number) + ".0/24", {"city": f"city{number % 100:04d}"})
                           for number in range(PLACED)])


def make_files(root):
    """Makes them all. The lists lie there as well, where include finds them."""
    directory = f"{root}/modules"
    os.makedirs(directory)
    content = {"text.txt": prose(16384), "small.txt": prose(4096), "page.html": linked_page(LINKED_SIZE),
               "page.shtml": PAGE % prose(TEXT_SIZE), "auth": b"ok\n", "users": BCRYPT.encode(),
               "keys.json": JWT_KEYS}
    content["plain.txt"] = content["small.txt"]
    content["places.mmdb"] = places()
    content["small.txt.gz"] = gzip.compress(content["small.txt"])
    for name in ("head", "menu", "foot"):
        content[f"{name}.html"] = prose(PART_SIZE)
    for number in range(10):
        content[f"part{number}.css"] = prose(2048)
    content["map.conf"] = "".join(
        f"word{number:05d} value{number:05d};\n" for number in range(MAPPED)).encode()
    content["geo.conf"] = "".join(
        f"{network(number)}.0/24 place{number:06d};\n" for number in range(NETWORKS)).encode()
    for name, data in content.items():
        with open(f"{directory}/{name}", "wb") as file:
            file.write(data)


DRAW = random.Random(11)
WORDS = tuple(f"/map?word=word{number:05d}" for number in DRAW.sample(range(MAPPED), ASKED))
ADDRESSES = tuple(f"/geo?at={network(number)}.{number % 256}"
                  for number in DRAW.sample(range(NETWORKS), ASKED))
PLACES = tuple(f"/geo?at={network(number)}.{number % 256}"
               for number in DRAW.sample(range(PLACED), ASKED))
LIMITED = tuple(f"/empty.gif?key={number:06d}" for number in range(KEYS))

OFF = "access_log off;"
ROOT = "root {root};"
EMPTY_GIF = "location = /empty.gif { empty_gif; %s }"
GZIP = ROOT + " gzip on; gzip_types text/plain; gzip_comp_level %d;"
BROTLI = ROOT + " brotli on; brotli_types text/plain; brotli_comp_level %d;"
ZSTD = ROOT + " zstd on; zstd_types text/plain; zstd_comp_level %d;"
SUB = ROOT + " sub_filter http://old.example.com/ https://new.example.com/; " \
    "sub_filter_once off; sub_filter_types *;"
LIMIT_HTTP = OFF + " limit_req_zone $arg_key zone=keys:64m rate=1000000r/s;"
STORE = "redis_store main { server {backend}; timeout 1s; }\n"
SHARED_LIMIT = EMPTY_GIF % "limit_req zone=keys burst=1000000 nodelay;"
SHARED_LIMIT_HTTP = OFF + " limit_req_zone $arg_key zone=keys:4m rate=1000000r/s{only};"
SHARED_BY_NODES = {"uris": LIMITED[:1], "body_size": 43, "backend": ("redis",), "is_against_itself": True}
MAP_HTTP = OFF + " map_hash_max_size 32768; map_hash_bucket_size 128; " \
    "map $arg_word $value { default none; include {root}/modules/map.conf; }"
GEO_HTTP = OFF + " geo $arg_at $place { default none; include {root}/modules/geo.conf; }"
ENCODED = {"uris": ("/modules/text.txt",), "body_size": 16384, "counted": (64, 320)}


def accepts(coding):
    """The header that asks for a coding."""
    return (f"Accept-Encoding: {coding}",)


ROWS = (
    Row("gzip-1", "gzip, level 1, 16 KB of text", GZIP % 1, headers=accepts("gzip"),
        coding="gzip", library=("gzip", "1"), targets={"cpu": 0.5}, **ENCODED),
    Row("gzip-6", "gzip, level 6, 16 KB of text", GZIP % 6, headers=accepts("gzip"),
        coding="gzip", library=("gzip", "6"), targets={"cpu": 0.5}, **ENCODED),
    Row("brotli", "brotli, level 6, 16 KB of text", BROTLI % 6, headers=accepts("br"),
        coding="br", library=("br", "6"), modules=("ngx_http_brotli_filter_module",),
        needs=("ngx_http_brotli_filter_module",), targets={"library": 1.1}, **ENCODED),
    Row("zstd", "zstd, level 1, 16 KB of text", ZSTD % 1, headers=accepts("zstd"),
        coding="zstd", library=("zstd", "1"), needs=("ngx_http_zstd_filter_module",),
        is_alone=True, targets={"library": 1.1}, measures=frozenset({"instructions"}), **ENCODED),
    Row("gzip-static", "gzip_static, file of 4 KB", ROOT + " gzip_static on;",
        uris=("/modules/small.txt",), headers=accepts("gzip"), coding="gzip", body_size=4096,
        targets={"cpu": 0.55}),
    Row("static-absent", "gzip_static, FILE.gz is absent", ROOT + " gzip_static on;",
        uris=("/modules/plain.txt",), headers=accepts("gzip"), body_size=4096),
    Row("static-absent-3", "… and brotli_static, and zstd_static (reference: without zstd)",
        ROOT + " gzip_static on; brotli_static on; {only}", only=("zstd_static on;", ""),
        uris=("/modules/plain.txt",), headers=accepts("gzip, br, zstd"), body_size=4096,
        modules=("ngx_http_brotli_static_module",)),
    Row("sub", "sub_filter, 100 KB, a link every KB", SUB, uris=("/modules/page.html",),
        body_size=LINKED_SIZE + LINKED_SIZE // LINK_EVERY,     # a byte more for each link
        targets={"cpu": 0.8}, counted=(64, 320)),
    Row("ssi", "SSI, three includes", ROOT + " ssi on; ssi_types *;",
        uris=("/modules/page.shtml",), body_size=PAGE_SIZE, targets={"cpu": 0.8}),
    Row("auth-request", "auth_request to a file",
        ROOT + " auth_request /modules/auth; location = /modules/auth { auth_request off; }",
        uris=("/modules/small.txt",), body_size=4096, targets={"cpu": 0.7}),
    Row("limit-req", "limit_req, 100,000 keys",
        EMPTY_GIF % "limit_req zone=keys burst=1000000 nodelay;", http=LIMIT_HTTP, uris=LIMITED,
        body_size=43, targets={"cpu": 0.8}, counted=(KEYS, KEYS + 20000),
        measures=ALL - {"syscalls"}),
    Row("limit-req-sync", "limit_req with sync; against without", SHARED_LIMIT, main=STORE, http=SHARED_LIMIT_HTTP,
        only=(" sync", ""), targets={"cpu": 1.1}, **SHARED_BY_NODES),
    Row("limit-req-strict", "limit_req with sync=strict; against without", SHARED_LIMIT, main=STORE, http=SHARED_LIMIT_HTTP,
        only=(" sync=strict", ""), **SHARED_BY_NODES),
    Row("jwt", "auth_jwt, an ES256 token that was verified before; against without", EMPTY_GIF % "auth_jwt_key_file {root}/modules/keys.json; {only}",
        only=("auth_jwt api; auth_jwt_require $jwt_claim_sub;", ""), headers=(JWT,),
        http=OFF, body_size=43, is_against_itself=True, needs=("ngx_http_auth_jwt_module",), targets={"cpu": 1.6}),
    Row("map", "map of 10,000 words", "location = /map { return 200 $value; }", http=MAP_HTTP,
        uris=WORDS, body_size=10, targets={"cpu": 0.8}),
    Row("geo", "geo of 100,000 networks", "location = /geo { return 200 $place; }", http=GEO_HTTP,
        uris=ADDRESSES, body_size=11, targets={"cpu": 0.8}),
    Row("bcrypt", "empty_gif beside 4 bcrypt requests/s, cost 11", EMPTY_GIF % "" +
        " location /modules/ { root {root}; auth_basic here; "
        "auth_basic_user_file {root}/modules/users; }", beside="/modules/auth",
        headers=(PASSWORD,), keepalive_timeout=0, body_size=43, targets={"p99_more_ms": 2},
        measures=frozenset({"beside"})),
    Row("echo", "echo of one line", "location = /hello { echo hello; }", uris=("/hello",),
        body_size=6, modules=("ngx_http_echo_module",), needs=("ngx_http_echo_module",),
        targets={"cpu": 0.8}),
    Row("headers-more", "headers_more, three fields set, one cleared",
        EMPTY_GIF % "more_set_headers 'X-One: 1' 'X-Two: 2' 'Server: me'; "
        "more_clear_headers Last-Modified;", body_size=43,
        modules=("ngx_http_headers_more_filter_module",),
        needs=("ngx_http_headers_more_filter_module",), targets={"cpu": 0.8}),
    Row("geoip2", "geoip2 of 10,000 networks", "location = /geo { return 200 $place; }",
        http=OFF + " geoip2 {root}/modules/places.mmdb { $place source=$arg_at city; }",
        uris=PLACES, body_size=8, modules=("ngx_http_geoip2_module",),
        needs=("ngx_http_geoip2_module",), targets={"cpu": 0.8}),
    Row("metrics", "keep-alive empty_gif, with metrics (reference: without)", EMPTY_GIF % "" + " {only}",
        only=("status_zone bench; location = /metrics { metrics; }", ""),
        body_size=43, is_against_itself=True, needs=("ngx_http_metrics_module",),
        targets={"cpu": 1.02}),
    Row("concat", "concat of 10 files of 2 KB", ROOT + " types { text/css css; } concat on;",
        is_alone=True,
        uris=("/modules/??" + ",".join(f"part{number}.css" for number in range(10)),),
        body_size=20480, needs=("ngx_http_concat_module",),
        measures=frozenset({"syscalls", "instructions"})),
)
