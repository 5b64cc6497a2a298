"""cache_path_status: how full the caches are, as a page."""

import os

from harness import until

HTTP = """
    slowfs_cache_path @DIR@/logs/copies keys_zone=copies:1m max_size=10m;
    proxy_cache_path @DIR@/logs/other levels=1:2 keys_zone=other:1m;
    server {
        listen 127.0.0.1:@PORT@; slowfs_cache_valid 1h; slowfs_cache_key $uri;
        location / { slowfs_cache copies; }
        location /usage { cache_path_status; }
        location ~ /purge(/.*) { slowfs_cache_purge copies $1; }
    }
"""


def usage(server):
    """{zone: {name: value}}"""
    text = server.get("/usage").text
    found = [dict(line.split(": ", 1) for line in part.splitlines()) for part in text.split("\n\n") if part]
    return {cache["zone"]: cache for cache in found}


def warm(server):
    return until(lambda: [seen for seen in [usage(server)] if all(cache["state"] == "warm" for cache in seen.values())],
                 "all caches to be warm")[0]


def test_what_is_stored(serve):
    server = serve(HTTP, files={"html/a": "x" * 5000, "html/b": "y"})
    seen = warm(server)
    assert list(seen) == ["copies", "other"]
    assert seen["copies"] == {"zone": "copies", "path": server.path("logs/copies"), "size": "0", "max_size": str(10 << 20), "entries": "0",
                              "state": "warm"}
    assert seen["other"]["max_size"] == "off"
    server.get("/a")
    server.get("/b")
    after = usage(server)
    on_disk = sum(os.stat(os.path.join(server.path("logs/copies"), name)).st_blocks * 512
                  for name in os.listdir(server.path("logs/copies")) if not name.startswith("."))
    assert after["copies"]["entries"] == "2" and 5000 < int(after["copies"]["size"]) <= max(on_disk, 16384)
    assert after["other"] == seen["other"]
    server.get("/purge/a")
    assert usage(server)["copies"]["entries"] == "1"


def test_after_a_restart(serve):
    server = serve(HTTP, files={"html/a": "x"})
    server.get("/a")
    server.stop()
    server.start()
    assert warm(server)["copies"]["entries"] == "1"


def test_methods_and_no_caches(serve):
    server = serve("server { listen 127.0.0.1:@PORT@; location /usage { cache_path_status; } }")
    assert (server.get("/usage").status, server.get("/usage").text) == (200, "")
    assert server.get("/usage", method="HEAD").header("Content-Type") == "text/plain"
    assert server.get("/usage", method="POST").status == 405
