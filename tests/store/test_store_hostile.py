"""A store whose keys somebody else damages, of all kinds of zones at once: the node serves, keeps its limits, and is as before when the store is empty again."""

import random
import socket
import ssl

from harness import until
from harness.certificates import Authority
from harness.nodes import Node, store

CONF = """limit_req_zone $arg_k zone=req:1m rate=1r/m sync; limit_req_zone $arg_k zone=strict:1m rate=1r/m sync=strict; limit_conn_zone $arg_k zone=conn:1m sync;
    keyval_zone zone=z:1m sync; keyval $arg_k $value zone=z; proxy_cache_path @DIR@/logs/cache keys_zone=c:1m sync; map $request_method $purges { PURGE 1; }
    ssl_session_ticket_key auto 1h sync; ssl_session_cache shared:tls:1m sync; ssl_certificate %(dir)s/www.crt; ssl_certificate_key %(dir)s/www.key;
    upstream u { zone u 256k sync; server 127.0.0.1:@PORT2@; sticky learn create=$upstream_http_x_sid lookup=$cookie_sid zone=sid:1m sync; }
    server { listen 127.0.0.1:@PORT1@ ssl; ssl_protocols TLSv1.2; ssl_session_tickets off; return 200 tls; }
    server { listen 127.0.0.1:@PORT2@; add_header X-Sid $request_id; add_header Cache-Control max-age=60; return 200 origin; }
    server { listen 127.0.0.1:@PORT@; location = /metrics { metrics; } location /api { api write=on; }
        location /upstream { dyups_interface sync; } location /req { limit_req zone=req burst=3 nodelay; empty_gif; }
        location /strict { limit_req zone=strict burst=3 nodelay; empty_gif; } location /conn { limit_conn conn 1; empty_gif; }
        location /cached { proxy_pass http://127.0.0.1:@PORT2@; proxy_cache c; proxy_cache_key $uri; proxy_cache_purge $purges; proxy_cache_lock on sync; }
        location /app { proxy_pass http://u; health_check uri=/ interval=100ms sync; } location / { return 200 "$value"; } }"""
GARBAGE = ("", "x", "0", "0 ", "-1 x", "1 ", "99999999999999999999 x", "1e999 x", "nan", "\x00\x01\xff", "0 " + "A" * 5000, "n:", "{}", "0 " + "0" * 32)


def use(node, number):
    """A request of each kind; gives what must be right whatever the store has."""
    server = node.server
    server.get("/cached/%d" % number)
    server.get("/cached/%d" % number, method="PURGE")
    server.get("/conn?k=%d" % number)
    node.set(**{"k%d" % number: "v"})
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with socket.create_connection(("127.0.0.1", server.port_of("PORT1")), 10) as raw, context.wrap_socket(raw) as secure:
        secure.sendall(b"GET / HTTP/1.0\r\n\r\n")
        assert secure.recv(4096).startswith(b"HTTP/1.1 200")
    assert server.get("/app").status == 200
    assert server.get("/?k=k%d" % number).text == "v"
    for name in ("req", "strict"):
        passed = [server.get("/%s?k=u%d" % (name, number)).status for _ in range(8)].count(200)
        assert passed <= 4


def damage(one, draw, key, kinds):
    """One thing that somebody does to a key."""
    kind = kinds[key]
    others = [other for other in kinds if kinds[other] == "hash"]
    if draw.random() < 0.15:
        one.ask("DEL", key)
        one.ask(*draw.choice([("SET", key, "x"), ("RPUSH", key, "a", "b"), ("SADD", key, "m"), ("ZADD", key, 1, "m"), ("HSET", key, "", "x"),
                              ("XADD", key, "*", "a", "b", "c", "d")]))
    elif kind == "hash":
        fields = one.ask("HKEYS", key)
        for field in draw.sample(fields, min(4, len(fields))) + draw.sample(["", "x", "\x00", "f" * 5000], 2):
            value = draw.choice(GARBAGE)
            if draw.random() < 0.5 and others:
                other = draw.choice(others)
                value = (one.ask("HVALS", other) or [value])[0]
            one.ask("HSET", key, field, value)
            one.ask("XADD", key + ":changes", "*", "o", field)
    elif kind == "stream":
        for field in ("", "x", "\x00", "f" * 5000):
            one.ask("XADD", key, "*", draw.choice(GARBAGE), field)
        one.ask("XADD", key, "*", "a", "b", "c", "d")
        if draw.random() < 0.3:
            one.ask("XADD", key, "18446744073709551615-%d" % draw.randrange(1000), "o", "x")
    elif kind == "zset":
        one.ask("ZADD", key, draw.choice(["-inf", "inf", "0", "1e300"]), draw.choice(["x", "", "\x00"]))
    else:
        one.ask("SET", key, draw.choice(GARBAGE))


def test_keys_of_all_zones_are_damaged(serve, redis, tmp_path):
    draw = random.Random(23)
    one = redis("requirepass ''")
    (tmp_path / "password").write_text("x")
    Authority(str(tmp_path)).issue("www")
    one.ask("ACL", "SETUSER", "edge", "on", ">x", "~portunus:*", "+@all", "-@dangerous")
    main = store(one.port, "timeout 1s; user edge; password_file %s;" % (tmp_path / "password"))
    node = Node(serve(CONF % {"dir": tmp_path}, main=main))
    server = node.server
    server.get("/upstream/dynamic", method="POST", body="server 127.0.0.1:1;")
    server.get("/api/9/http/upstreams/u/servers/", method="POST", body='{"server":"127.0.0.1:1","down":true}')
    use(node, 0)
    purposes = ("limit_req", "limit_conn", "keyval", "cache_purge", "cache_fetch", "upstream_servers", "dyups", "health_checks", "sticky_sessions", "ssl_sessions", "ssl_ticket_keys")
    until(lambda: all(any(":%s:{" % purpose in key for key in one.keys()) for purpose in purposes), lambda: one.keys())

    def exchanges():
        """Waits until the node has asked the store again, with all that it asks for."""
        before = node.metric("portunus_store_requests", "store", "main")
        until(lambda: node.metric("portunus_store_requests", "store", "main") > before + 25, "exchanges")
    for number in range(1, 3):
        kinds = {key: one.ask("TYPE", key) for key in one.keys()}
        for key in kinds:
            damage(one, draw, key, kinds)
        exchanges()
        use(node, number)
    one.ask("FLUSHALL")
    exchanges()
    use(node, 9)
    assert node.pairs()["k9"] == "v"
    until(lambda: "k9" in one.ask("HKEYS", "portunus:1:keyval:{z}"), "the pair in the store")
    assert all(ttl > 0 for ttl in one.ttls())
