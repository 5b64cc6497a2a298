"""Nodes of two versions with one store: what each writes, the other reads. By hand, since it needs another binary.

    PYTHONPATH=tests TEST_NGINX_BINARY=objs/nginx TEST_NGINX_OTHER_BINARY=/elsewhere/nginx /usr/bin/python3 -m pytest -s tests/store/long_versions.py
"""

import os
import subprocess

import pytest

from harness import until
from harness.certificates import Authority
from harness.nodes import Node, store

OTHER = os.environ.get("TEST_NGINX_OTHER_BINARY")
pytestmark = pytest.mark.skipif(OTHER is None, reason="TEST_NGINX_OTHER_BINARY is not set")

CONF = """limit_req_zone $arg_k zone=req:1m rate=1r/m sync; limit_req_zone $arg_k zone=strict:1m rate=1r/m sync=strict;
    limit_conn_zone $arg_k zone=conn:1m sync; keyval_zone zone=z:1m sync; keyval $arg_k $value zone=z; ssl_session_ticket_key auto 1h sync;
    proxy_cache_path @DIR@/logs/cache keys_zone=c:1m sync; map $request_method $purges { PURGE 1; }
    upstream u { zone u 64k sync; server 127.0.0.1:1; }
    server { listen 127.0.0.1:@PORT1@ ssl; ssl_certificate %(dir)s/www.crt; ssl_certificate_key %(dir)s/www.key; ssl_protocols TLSv1.2; }
    server { listen 127.0.0.1:@PORT@; location /api { api write=on; } location = /metrics { metrics; }
        location /req { limit_req zone=req burst=9 nodelay; empty_gif; } location /strict { limit_req zone=strict burst=9 nodelay; empty_gif; }
        location /held { limit_conn conn 1; echo_sleep 60; } location /free { limit_conn conn 1; empty_gif; } location /origin { return 200 $request_id; }
        location /cached { proxy_pass http://127.0.0.1:@PORT@/origin; proxy_cache c; proxy_cache_key $uri; proxy_cache_valid any 10m; proxy_cache_purge $purges; }
        location / { return 200 "$value"; } }"""


@pytest.fixture(name="pair", params=["this first", "the other first"])
def fixture_pair(request, serve, redis, tmp_path):
    """Two nodes, the first of which has the older store."""
    one = redis("requirepass secret")
    (tmp_path / "password").write_text("secret")
    Authority(str(tmp_path)).issue("www")
    conf, main = CONF % {"dir": tmp_path}, store(one.port, "timeout 1s; password_file %s;" % (tmp_path / "password"))
    binaries = [None, OTHER] if request.param == "this first" else [OTHER, None]
    return [Node(serve(conf, main=main, binary=binary)) for binary in binaries]


def test_two_versions_side_by_side(pair):
    one, two = pair
    passed = {}
    for node in pair:
        until(lambda it=node: it.metric("portunus_sync_reads") >= 1, "the first reading")
    assert one.set(a="1") == 201 and two.has(a="1")
    assert two.set(a="2") == 204 and one.has(a="2")
    for number, (node, other) in enumerate((pair, pair[::-1])):
        node.server.quit()
        other.set(a=str(3 + number))
        node.server.start()
        node.has(a=str(3 + number))
    for node, other in (pair, pair[::-1]):
        with node.server.client() as client:
            client.send("GET /held?k=%d HTTP/1.1\r\nHost: a\r\n\r\n" % node.server.port)
            until(lambda it=other, by=node: it.server.get("/free?k=%d" % by.server.port).status == 503, "the other's connections")
        text = other.server.get("/cached").text
        assert other.server.get("/cached").text == text
        node.server.get("/cached", method="PURGE")
        until(lambda it=other, had=text: it.server.get("/cached").text != had, "the purge")
        session = os.path.join(node.server.path("logs"), "session")
        words = ["openssl", "s_client", "-tls1_2", "-connect", "127.0.0.1:%d"]
        for number, how in ((node, "-sess_out"), (other, "-sess_in")):
            shown = subprocess.run([word.replace("%d", str(number.server.port_of("PORT1"))) for word in words] + [how, session], input="", check=False,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="latin-1").stdout
        assert "Reused, TLSv1.2" in shown, shown
        assert node.server.get("/api/9/http/upstreams/u/servers/", method="POST", body='{"server":"127.0.0.1:%d"}' % node.server.port).status == 201
        until(lambda it=other, by=node: ":%d\"" % by.server.port in it.server.get("/api/9/http/upstreams/u/servers/").text, "the server")
        for name in ("req", "strict"):
            tries = [client.server.get("/%s?k=%d" % (name, node.server.port)).status for client in (node, other) for _ in range(12)]
            passed[name] = tries.count(200)
    print("of 24 requests at both, 10 of which may pass:", passed, flush=True)
