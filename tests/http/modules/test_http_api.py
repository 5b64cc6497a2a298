"""api: figures of nginx Plus' interface, and servers of upstreams that change while the service runs."""

import csv
import json
import os
import re
import signal
import socket
import ssl
import threading
from collections import Counter

import pytest

import certificates
from harness import run_binary, until
from harness.backend import RawBackend
from harness.dns import NXDOMAIN, SILENCE, NameServer
from harness.workers import wait_workers
from tls_client import connect, exchange, pair

REFERENCE = os.path.join(os.path.dirname(__file__), "../../reference/plus-api-objects.tsv")

# What the catalogue has and there is nothing to say of: TLS is counted for the whole service, times are moving averages.
NOT_SHOWN = re.compile(r"^(ssl|response_time_hist)(\.|$)|verify_failures.hostname_mismatch$")

SITE = """
    proxy_cache_path cache keys_zone=cached:1m;
    limit_req_zone $uri zone=req:64k rate=1000r/s;
    limit_conn_zone $uri zone=conn:64k;
    upstream dyn { zone dyn 128k; server 127.0.0.1:@PORT1@; }
    upstream fixed { server 127.0.0.1:@PORT1@; }
    upstream hashed { zone hashed 64k; ip_hash; server 127.0.0.1:@PORT1@; }
    server {
        listen 127.0.0.1:@PORT@;
        keepalive_requests 100000;
        status_zone site;
        location /api { api write=on; }
        location /look { api; }
        location / { proxy_pass http://dyn; status_zone place; limit_req zone=req burst=100000 nodelay; limit_conn conn 100; }
        location /cached { proxy_pass http://dyn; proxy_cache cached; proxy_cache_valid 1h; }
        location /gone { return 444; }
        location /hashed { proxy_pass http://hashed; }
    }
    server { listen 127.0.0.1:@PORT1@; return 200 one; }
    server { listen 127.0.0.1:@PORT2@; return 200 two; }
    server { listen 127.0.0.1:@PORT3@; location / { return 503; } }
"""
STREAM = """
    worker_processes 2;
    stream {
        limit_conn_zone $remote_addr zone=sessions:64k;
        upstream s { zone s 64k; server 127.0.0.1:@PORT1@; }
        server { listen 127.0.0.1:@PORT4@; status_zone passed; proxy_pass s; }
        server { listen 127.0.0.1:@PORT5@; status_zone refused; deny all; return x; }
    }
"""
ROOT = "/http/upstreams/dyn/servers"


class Api:
    """Calls of one server's API."""

    def __init__(self, server, root="/api/9"):
        self.server = server
        self.root = root

    def __call__(self, method, path, body=None, *headers):
        text = body if body is None or isinstance(body, (str, bytes)) else json.dumps(body)
        response = self.server.get(self.root + path, *headers, method=method, body=text or "")
        return response.status, (json.loads(response.body) if response.body else None)

    def get(self, path):
        status, shown = self("GET", path)
        assert status == 200, shown
        return shown

    def add(self, address, path=ROOT, **words):
        status, made = self("POST", path, {"server": address, **words})
        assert status == 201, made
        return made

    def servers(self, path=ROOT):
        return [entry["server"] for entry in self.get(path)]

    def address(self, port):
        return "127.0.0.1:%d" % self.server.port_of(port)


def refusal(result):
    error = result[1]["error"]
    assert error["status"] == result[0] and error["text"] and len(result[1]["request_id"]) == 32
    return result[0], error["code"]


@pytest.fixture(name="api")
def one_server(serve):
    server = serve(SITE, main=STREAM)
    wait_workers(server, 2)
    return Api(server)


def catalogue():
    objects = {}
    with open(REFERENCE, encoding="utf-8") as rows:
        for row in csv.DictReader(rows, delimiter="\t"):
            objects.setdefault(row["object"], set()).add(row["field"])
    return objects


def names_in(value, prefix=""):
    """Paths of all members, as the catalogue has them."""
    found = set()
    for name, inner in value.items():
        found.add(prefix + name)
        if isinstance(inner, dict) and name not in ("codes", "slots"):
            found |= names_in(inner, prefix + name + ".")
    return found


# ---- figures

OBJECTS = [
    ("/nginx", "NginxObject"), ("/processes", "NginxProcesses"), ("/connections", "NginxConnections"),
    ("/ssl", "NginxSSLObject"), ("/slabs/dyn", "NginxSlabZone"), ("/http/requests", "NginxHTTPRequests"),
    ("/http/server_zones/site", "NginxHTTPServerZone"), ("/http/location_zones/place", "NginxHTTPLocationZone"),
    ("/http/caches/cached", "NginxHTTPCache"), ("/http/limit_conns/conn", "NginxHTTPLimitConnZone"),
    ("/http/limit_reqs/req", "NginxHTTPLimitReqZone"), ("/http/upstreams/dyn", "NginxHTTPUpstream"),
    ("/stream/server_zones/passed", "NginxStreamServerZone"), ("/stream/limit_conns/sessions", "NginxStreamLimitConnZone"),
    ("/stream/upstreams/s", "NginxStreamUpstream"), ("/workers/0", "NginxWorker"),
    ("/license", "NginxLicenseObject"), ("/stream/zone_sync", "NginxStreamZoneSync"),
]
# Members that are there when there is something to say.
SOMETIMES = {"max_size", "queue", "queue.size", "queue.max_size", "queue.overflows", "service", "max_conns", "downstart",
             "selected", "health_checks.last_passed", "responses.codes.codeNumber"}


def test_objects_have_the_fields_of_the_catalogue(api):
    known = catalogue()
    for path, name in OBJECTS:
        shown = api.get(path)
        wanted = {field for field in known[name] if not NOT_SHOWN.search(field)}
        assert names_in(shown) <= known[name], path
        assert wanted - SOMETIMES <= names_in(shown), path
    for path, name in (("/http/upstreams/dyn", "NginxHTTPUpstreamPeer"), ("/stream/upstreams/s", "NginxStreamUpstreamPeer")):
        for peer in api.get(path)["peers"]:
            wanted = {field for field in known[name] if not NOT_SHOWN.search(field)}
            assert names_in(peer) <= known[name] and wanted - SOMETIMES <= names_in(peer)


def test_lists_and_fields(api):
    assert api.get("/") == ["nginx", "processes", "connections", "slabs", "http", "stream", "resolvers", "ssl", "license", "workers",
                            "explain"]
    assert api.get("/http") == ["requests", "server_zones", "location_zones", "caches", "limit_conns", "limit_reqs",
                                "keyvals", "upstreams"]
    assert api.get("/stream/") == ["server_zones", "limit_conns", "keyvals", "upstreams", "zone_sync"]
    assert api.get("/http/server_zones?fields=") == ["site"] and api.get("/http/upstreams/?fields=") == ["dyn", "hashed"]
    assert api.get("/stream/server_zones?fields=connections,sent") == {
        "passed": {"connections": 0, "sent": 0}, "refused": {"connections": 0, "sent": 0}}
    assert list(api.get("/http/requests?fields=total")) == ["total"] and api.get("/nginx?fields=nosuch") == {}
    assert [worker["id"] for worker in api.get("/workers/")] == [0, 1] and api.get("/workers?fields=") == ["0", "1"]
    assert api.get("/workers?fields=id") == [{"id": 0}, {"id": 1}]
    for path in ("/nginx", "/http/upstreams/dyn", ROOT):
        response = api.server.get("/api/9" + path, method="HEAD")
        assert response.status == 200 and response.body == b""


def test_there_is_no_licence_that_could_expire(api):
    shown = api.get("/license")
    assert shown["active_till"] > 10 ** 11 and shown["eval"] is False and shown["reporting"]["healthy"] is True
    for path in ("/license", "/stream/zone_sync"):
        assert refusal(api("DELETE", path)) == (405, "MethodNotSupported")
        assert refusal(api("GET", path + "/more")) == (404, "PathNotFound")
    assert api.get("/stream/zone_sync") == {
        "zones": {}, "status": {"bytes_in": 0, "msgs_in": 0, "msgs_out": 0, "bytes_out": 0, "nodes_online": 0}}


def test_zones_count_what_was_asked(api):
    server = api.server
    for path in ("/", "/", "/cached", "/cached"):
        assert server.get(path).status == 200
    with server.client() as client:
        client.send("GET /gone HTTP/1.1\r\nHost: x\r\n\r\n").expect_closed()
    until(lambda: api.get("/http/server_zones/site")["discarded"] == 1, "a request without a response")
    zone = until(lambda: (shown := api.get("/http/server_zones/site"))["processing"] == 1 and shown["requests"] == shown["responses"]["total"] + 2 and shown,
                 "no request but this one, and the one without a response")
    place = api.get("/http/location_zones/place")
    assert zone["responses"]["codes"]["200"] >= 5
    assert place["requests"] == 2 and place["responses"]["2xx"] == 2 and place["responses"]["codes"] == {"200": 2}
    assert place["sent"] > place["received"] > 0 and place["discarded"] == 0
    cache = api.get("/http/caches/cached")
    assert (cache["miss"]["responses"], cache["miss"]["bytes"], cache["miss"]["responses_written"]) == (1, 3, 1)
    assert (cache["hit"]["responses"], cache["hit"]["bytes"]) == (1, 3) and cache["miss"]["bytes_written"] == 3
    peer = api.get("/http/upstreams/dyn")["peers"][0]
    assert peer["requests"] == 3 and peer["responses"]["2xx"] == 3 and peer["state"] == "up" and peer["selected"]
    assert api.get("/http/limit_reqs/req")["passed"] == 2 and api.get("/http/limit_conns/conn")["passed"] == 2
    for name in ("processing", "requests"):
        assert api.get("/http/server_zones?fields=" + name)["site"][name] > 0


def test_requests_in_progress(api):
    server = api.server
    with server.client() as client:
        client.send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n")
        until(lambda: (zone := api.get("/http/server_zones/site"))["processing"] == 2 and zone["requests"] == zone["responses"]["total"] + 2, "a request in progress")
        client.send("12345")
        assert client.response().status in (200, 405)
    until(lambda: api.get("/http/server_zones/site")["processing"] == 1, "none but the one that asks")


def test_sessions_of_stream(api):
    server = api.server
    for _ in range(3):
        with server.client(port=server.port_of("PORT4")) as client:
            assert client.request("/", close=True).body == b"one"
    with server.client(port=server.port_of("PORT5")) as client:
        client.expect_closed()
    zone = until(lambda: (shown := api.get("/stream/server_zones/passed"))["sessions"]["total"] == 3 and shown, "sessions that ended")
    assert zone["connections"] == 3
    assert zone["processing"] == 0 and zone["sessions"] == {"2xx": 3, "4xx": 0, "5xx": 0, "total": 3} and zone["sent"] > 100
    assert api.get("/stream/server_zones/refused")["sessions"]["4xx"] == 1
    peer = api.get("/stream/upstreams/s")["peers"][0]
    assert peer["connections"] == 3 and peer["received"] > 100 and "responses" not in peer
    assert api("DELETE", "/stream/server_zones/passed") == (204, None)
    assert api.get("/stream/server_zones/passed")["connections"] == 0
    assert api("DELETE", "/stream/upstreams/s") == (204, None)
    assert api.get("/stream/upstreams/s")["peers"][0]["connections"] == 0


def test_sessions_and_requests_are_counted_when_they_begin(serve):
    backend = socket.create_server(("127.0.0.1", 0))  # connections come to be, and hear nothing
    port = backend.getsockname()[1]
    server = serve("upstream u { zone u 64k; server 127.0.0.1:%d; } server { listen 127.0.0.1:@PORT@; location /api { api; } location / { proxy_pass http://u; } }"
                   % port, main="""stream { upstream s { zone s 64k; server 127.0.0.1:%d; }
                       server { listen 127.0.0.1:@PORT1@; status_zone passed; proxy_pass s; } }""" % port)
    api = Api(server)
    with server.client(port=server.port_of("PORT1")) as session, server.client() as request:
        session.send("x")
        request.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        until(lambda: api.get("/stream/upstreams/s")["peers"][0]["connections"] == api.get("/http/upstreams/u")["peers"][0]["requests"] == 1, "both at the backend")
        zone = api.get("/stream/server_zones/passed")
        assert (zone["connections"], zone["processing"], zone["sessions"]["total"]) == (1, 1, 0)
        assert api.get("/stream/upstreams/s")["peers"][0]["active"] == api.get("/http/upstreams/u")["peers"][0]["active"] == 1
        assert api.get("/http/upstreams/u")["peers"][0]["responses"]["total"] == 0
    until(lambda: api.get("/stream/server_zones/passed")["processing"] == 0, "the session's end")
    assert api.get("/stream/server_zones/passed")["connections"] == 1
    backend.close()


UPSTREAM_ZONES = """
    upstream fixed { status_zone shown; server 127.0.0.1:@PORT1@; }
    upstream moving { status_zone shown_too; zone moving 64k; }
    upstream silent { server 127.0.0.1:@PORT1@; }
    server {
        listen 127.0.0.1:@PORT@;
        location /api { api write=on; }
        location /metrics { metrics; }
        location / { proxy_pass http://fixed; }
        location /moving { proxy_pass http://moving; }
        location /silent { proxy_pass http://silent; }
    }
    server { listen 127.0.0.1:@PORT1@; return 204; }
"""


def test_upstreams_with_a_status_zone(serve):
    server = serve(UPSTREAM_ZONES, main="""stream { upstream s { status_zone t; server 127.0.0.1:@PORT1@; }
        server { listen 127.0.0.1:@PORT2@; proxy_pass s; } }""")
    api = Api(server)
    assert (server.get("/").status, server.get("/moving").status) == (204, 502)
    assert list(api.get("/http/upstreams")) == ["shown", "shown_too"] and list(api.get("/stream/upstreams")) == ["t"]
    until(lambda: api.get("/http/upstreams/shown")["peers"][0]["responses"]["2xx"] == 1, "the request's end")
    assert api.get("/http/upstreams/shown")["zone"] == "shown" and api.get("/http/upstreams/shown_too")["zone"] == "moving"
    assert 'upstream="shown",peer="127.0.0.1:%d",code="204"} 1' % server.port_of("PORT1") in server.get("/metrics").text
    assert api("DELETE", "/http/upstreams/shown") == (204, None)
    assert api.get("/http/upstreams/shown")["peers"][0]["requests"] == 0
    assert refusal(api("GET", "/http/upstreams/shown/servers")) == (400, "UpstreamStatic")
    assert refusal(api("GET", "/http/upstreams/fixed")) == refusal(api("GET", "/http/upstreams/moving/servers")) == (404, "UpstreamNotFound")
    assert refusal(api("GET", "/http/upstreams/silent")) == (400, "UpstreamStatic")
    api.add(api.address("PORT1"), "/http/upstreams/shown_too/servers")  # an upstream that has a zone may begin without a server
    assert server.get("/moving").status == 204
    assert api.get("/slabs/moving?fields=pages")["pages"]["used"] > 0


@pytest.mark.parametrize("path, name", [
    ("/connections", "accepted"), ("/http/requests", "total"), ("/http/server_zones/site", "requests"),
    ("/http/location_zones/place", "requests"), ("/http/limit_reqs/req", "passed"), ("/processes", "respawned"),
])
def test_counters_begin_again(api, path, name):
    for _ in range(20):
        api.server.get("/")
    assert api("DELETE", path) == (204, None)
    assert api.get(path)[name] < 5
    assert refusal(Api(api.server, "/look/9")("DELETE", path)) == (405, "MethodDisabled")


def test_resets_leave_metrics_alone(serve):
    server = serve(SITE.replace("location /gone", "location /metrics { metrics; } location /gone"), main=STREAM)
    api = Api(server)
    for _ in range(5):
        server.get("/")
    until(lambda: api.get("/http/location_zones/place")["requests"] == 5, "five requests that have ended")
    assert api("DELETE", "/http/location_zones/place") == (204, None)
    assert api("DELETE", "/http/upstreams/dyn") == (204, None)
    assert api("DELETE", "/http/caches/cached") == (204, None) and api("DELETE", "/slabs/dyn") == (204, None)
    assert api("DELETE", "/workers") == (204, None) and api("DELETE", "/ssl") == (204, None)
    assert api.get("/http/upstreams/dyn")["peers"][0]["requests"] == 0
    server.get("/")
    until(lambda: api.get("/http/location_zones/place")["requests"] == 1, "one more")
    assert 'portunus_zone_requests_total{zone="place",code="200"} 6' in server.get("/metrics").text


def test_failures_of_peers(serve):
    server = serve("""upstream u { zone u 64k; server 127.0.0.1:@PORT1@; server 127.0.0.1:1 max_fails=1 fail_timeout=1h; }
                      server { listen 127.0.0.1:@PORT@; location /api { api; } location / { proxy_pass http://u; } }
                      server { listen 127.0.0.1:@PORT1@; return 200 x; }""")
    assert {server.get("/").status for _ in range(4)} == {200}
    until(lambda: sum(peer["requests"] for peer in Api(server).get("/http/upstreams/u")["peers"]) == 5, "attempts that have ended")
    good, bad = Api(server).get("/http/upstreams/u")["peers"]
    assert good["state"] == "up" and good["fails"] == 0 and "downstart" not in good
    assert (bad["state"], bad["fails"], bad["unavail"]) == ("unavail", 1, 1)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", bad["downstart"])
    assert bad["requests"] == 1 and bad["responses"]["codes"] == {"502": 1}


def test_handshakes(serve):
    server = serve("""server { listen 127.0.0.1:@PORT@; location /api { api; } }
                      server { listen 127.0.0.1:@PORT1@ ssl; ssl_protocols TLSv1.2; %s return 200 x; }"""
                   % pair(certificates.own("api")))
    assert exchange(connect(server.port_of("PORT1")))[0] == 200
    with pytest.raises(OSError):
        connect(server.port_of("PORT1"), version=ssl.TLSVersion.TLSv1_3)
    until(lambda: Api(server).get("/ssl")["handshakes_failed"] == 1, "a handshake that failed")
    shown = Api(server).get("/ssl")
    assert shown["handshakes"] == 1 and shown["no_common_protocol"] == 1 and shown["no_common_cipher"] == 0


def test_resolvers(serve):
    dns = NameServer({"one.test": ["127.0.0.1"], "gone.test": NXDOMAIN})
    try:
        server = serve("""resolver 127.0.0.1:%d status_zone=names ipv6=off;
                          server { listen 127.0.0.1:@PORT@; location /api { api write=on; }
                                   location / { proxy_pass http://$arg_host:@PORT1@; } }
                          server { listen 127.0.0.1:@PORT1@; return 200 x; }""" % dns.port)
        api = Api(server)
        assert server.get("/?host=one.test").status == 200 and server.get("/?host=gone.test").status == 502
        assert api.get("/resolvers/") == {"names": {
            "requests": {"name": 2, "srv": 0, "addr": 0},
            "responses": {"noerror": 1, "formerr": 0, "servfail": 0, "nxdomain": 1, "notimp": 0, "refused": 0, "timedout": 0,
                          "unknown": 0}}}
        assert api("DELETE", "/resolvers/names") == (204, None)
        assert api.get("/resolvers/names")["requests"]["name"] == 0
        assert refusal(api("GET", "/resolvers/x")) == (404, "ResolverZoneNotFound")
    finally:
        dns.close()


def test_names_in_json_are_escaped(serve):
    server = serve("""server { listen 127.0.0.1:@PORT@; status_zone 'a"<b>\\\\'; location /api { api; } }""")
    assert list(Api(server).get("/http/server_zones")) == ['a"<b>\\']


# ---- servers of upstreams

def test_servers_come_change_and_go(api):
    assert api.get(ROOT) == [{"id": 0, "server": api.address("PORT1"), "weight": 1, "max_conns": 0, "max_fails": 1,
                              "fail_timeout": "10s", "slow_start": "0s", "route": "", "backup": False, "down": False}]
    made = api.add(api.address("PORT2"), weight=2, fail_timeout="500ms", slow_start="1m", route="r", max_conns=7, max_fails=0)
    assert made == {"id": 1, "server": api.address("PORT2"), "weight": 2, "max_conns": 7, "max_fails": 0, "route": "r",
                    "fail_timeout": "500ms", "slow_start": "60s", "backup": False, "down": False}
    assert api.get(ROOT + "/1") == made
    assert {api.server.get("/").text for _ in range(8)} == {"one", "two"}
    assert api("PATCH", ROOT + "/0", {"down": True})[1]["down"] is True
    assert {api.server.get("/").text for _ in range(8)} == {"two"}
    assert api.get("/http/upstreams/dyn")["peers"][0]["state"] == "down"
    assert api("PATCH", ROOT + "/0", {"down": False, "weight": 5, "drain": True})[1]["weight"] == 5
    assert api.get("/http/upstreams/dyn")["peers"][0]["state"] == "draining"
    assert api("PATCH", ROOT + "/1", {"server": api.address("PORT3")})[0] == 200
    assert api.server.get("/").status == 503
    status, left = api("DELETE", ROOT + "/1")
    assert status == 200 and [entry["id"] for entry in left] == [0]
    assert api.add(api.address("PORT2"))["id"] == 2
    assert api.server.get("/").text == "two"


def test_location_of_what_was_made(api):
    body = json.dumps({"server": "127.0.0.2:80"})
    assert api.server.get("/api/9" + ROOT, method="POST", body=body).header("Location").endswith("/api/9" + ROOT + "/1")


def test_a_group_may_be_empty(api):
    assert api("DELETE", ROOT + "/0") == (200, [])
    assert api.server.get("/").status == 502
    assert api.get("/http/upstreams/dyn")["peers"] == []
    api.add(api.address("PORT2"))
    assert api.server.get("/").text == "two"


def test_requests_wait_for_the_first_server(serve):
    """... of a group that has none and a queue."""
    api = Api(serve("""upstream late { zone late 64k; queue 5 timeout=60s; } upstream never { zone never 64k; queue 5 timeout=50ms; }
        server { listen 127.0.0.1:@PORT@; location /api { api write=on; } location / { proxy_pass http://late; } location /never { proxy_pass http://never; } }
        server { listen 127.0.0.1:@PORT1@; location / { return 200 here; } }"""))
    server = api.server
    assert server.get("/never").status == 502
    server.wait_log("no live upstreams, waited in the queue for")
    with server.client() as one, server.client() as two:
        for client in one, two:
            client.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        until(lambda: api.get("/http/upstreams/late")["queue"]["size"] == 2, "the queue")
        api.add(api.address("PORT1"), path="/http/upstreams/late/servers")
        assert [client.response().text for client in (one, two)] == ["here", "here"]


def test_sessions_see_changes_too(api):
    path = "/stream/upstreams/s/servers"
    made = api.add(api.address("PORT2"), path=path)
    assert "route" not in made
    assert api("DELETE", path + "/0")[0] == 200
    with api.server.client(port=api.server.port_of("PORT4")) as client:
        assert client.request("/").body == b"two"
    assert refusal(api("POST", path, {"server": "127.0.0.1"})) == (400, "UpstreamBadAddress")
    assert refusal(api("POST", path, {"server": "127.0.0.1:1", "route": "x"})) == (400, "UpstreamConfFormatError")


BAD_BODIES = [
    ("", 415, "JsonError"), ("{", 415, "JsonError"), ('{"server":"a:1"} x', 415, "JsonError"), ("[]", 400, "UpstreamConfFormatError"),
    ("{}", 400, "UpstreamConfFormatError"), ('{"weight":1}', 400, "UpstreamConfFormatError"), ("null", 400, "UpstreamConfFormatError"),
    ('{"server":"127.0.0.1:1","nosuch":1}', 400, "UpstreamConfFormatError"), ('{"server":"127.0.0.1:1","id":7}', 400, "UpstreamConfFormatError"),
    ('{"server":"127.0.0.1:1","down":1}', 400, "UpstreamConfFormatError"), ('{"server":1}', 400, "UpstreamBadAddress"),
    ('{"server":""}', 400, "UpstreamBadAddress"), ('{"server":"127.0.0.1:99999"}', 400, "UpstreamBadAddress"),
    ('{"server":"127.0.0.1:1\\n"}', 400, "UpstreamBadAddress"), ('{"server":"127.0.0.1:1;"}', 400, "UpstreamBadAddress"),
    ('{"server":"%s"}' % ("a" * 300), 400, "UpstreamBadAddress"), ('{"server":"127.0.0.1:1","weight":0}', 400, "UpstreamBadWeight"),
    ('{"server":"127.0.0.1:1","weight":"1"}', 400, "UpstreamBadWeight"), ('{"server":"127.0.0.1:1","weight":65536}', 400, "UpstreamBadWeight"),
    ('{"server":"127.0.0.1:1","weight":-1}', 400, "UpstreamBadWeight"), ('{"server":"127.0.0.1:1","max_conns":1.5}', 400, "UpstreamBadMaxConns"),
    ('{"server":"127.0.0.1:1","max_fails":99999999999999999999}', 400, "UpstreamBadMaxFails"),
    ('{"server":"127.0.0.1:1","fail_timeout":"x"}', 400, "UpstreamBadFailTimeout"), ('{"server":"127.0.0.1:1","slow_start":-1}', 400, "UpstreamBadSlowStart"),
    ('{"server":"127.0.0.1:1","route":null}', 400, "UpstreamBadRoute"), ('{"server":"127.0.0.1:1","service":"http"}', 400, "UpstreamBadService"),
    ('{"server":"name.test:80"}', 400, "UpstreamConfNoResolver"),
]


@pytest.mark.one_server
@pytest.mark.parametrize("body, status, code", BAD_BODIES)
def test_what_is_no_server_changes_nothing(api, body, status, code):
    before = api.get(ROOT)
    assert refusal(api("POST", ROOT, body)) == (status, code)
    assert api.get(ROOT) == before


def test_errors(api):
    assert refusal(api("POST", ROOT, {"server": api.address("PORT1")})) == (409, "EntryExists")
    assert refusal(api("GET", ROOT + "/5")) == (404, "UpstreamServerNotFound")
    assert refusal(api("PATCH", ROOT + "/5", {"down": True})) == (404, "UpstreamServerNotFound")
    assert refusal(api("DELETE", ROOT + "/x")) == (400, "UpstreamBadServerId")
    assert refusal(api("PATCH", ROOT + "/0", {"weight": 0})) == (400, "UpstreamBadWeight")
    assert refusal(api("PATCH", ROOT + "/0", '{"weight":')) == (415, "JsonError")
    assert api("PATCH", ROOT + "/0", {"weight": 2, "wait\"": 1})[1]["error"]["text"] == 'unknown parameter "wait""'
    assert api("PATCH", ROOT + "/0", {"down": 1})[1]["error"]["text"] == 'invalid "down"' and api.get(ROOT + "/0")["weight"] == 1
    assert refusal(api("POST", ROOT + "/0", {"server": "127.0.0.1:1"})) == (405, "MethodNotSupported")
    assert refusal(api("PATCH", ROOT, {"down": True})) == (405, "MethodNotSupported")
    assert refusal(api("GET", "/http/upstreams/nosuch/servers")) == (404, "UpstreamNotFound")
    assert refusal(api("GET", "/http/upstreams/nosuch")) == (404, "UpstreamNotFound")
    assert refusal(api("GET", "/http/upstreams/fixed")) == (400, "UpstreamStatic")
    assert refusal(api("POST", "/http/upstreams/fixed/servers", {"server": "127.0.0.1:1"})) == (400, "UpstreamStatic")
    assert refusal(api("POST", "/http/upstreams/hashed/servers", {"server": "127.0.0.1:1", "backup": True})) == (400, "UpstreamNoBackup")
    assert refusal(api("GET", "/http/upstreams/dyn/nosuch")) == (404, "PathNotFound")
    assert refusal(api("GET", ROOT + "/0/x")) == (404, "PathNotFound")
    assert refusal(api("GET", "/slabs/x")) == (404, "SlabNotFound") and refusal(api("GET", "/workers/9")) == (404, "WorkerNotFound")
    assert refusal(api("GET", "/http/server_zones/x")) == (404, "ServerZoneNotFound")
    assert refusal(api("GET", "/http/location_zones/x")) == (404, "LocationZoneNotFound")
    assert refusal(api("GET", "/http/caches/x")) == (404, "CacheNotFound")
    assert refusal(api("DELETE", "/nginx")) == (405, "MethodNotSupported")
    assert refusal(api("GET", "/nosuch")) == (404, "PathNotFound")


def test_who_may_write(api):
    look = Api(api.server, "/look/9")
    for method in ("POST", "PATCH", "DELETE"):
        assert refusal(look(method, ROOT + "/0", {"down": True})) == (405, "MethodDisabled")
    for origin in ("https://evil.test", "null", "http://localhost.evil.test"):
        assert refusal(api("POST", ROOT, {"server": "127.0.0.1:1"}, "Origin: " + origin)) == (403, "CrossOrigin")
    assert api("POST", ROOT, {"server": "127.0.0.1:1"}, "Origin: http://localhost")[0] == 201
    assert len(api.get(ROOT)) == 2
    for path, methods in (("/api/9/nginx", "GET, HEAD, POST, PATCH, DELETE, OPTIONS"), ("/look", "GET, HEAD, OPTIONS")):
        answer = api.server.get(path, method="OPTIONS")
        assert (answer.status, answer.header("Allow"), answer.body) == (204, methods, b"")
        assert not any(name.startswith("Access-Control") for name, _ in answer.headers)


def test_which_pages_may_write(serve):
    server = serve("""server { listen 127.0.0.1:@PORT@; server_name ops.test *.wide.test ~^r\\d+\\.test$ ""; location /api { api write=on; } }""")

    def refused(host, *headers):
        client = server.client()
        client.send(("DELETE /api/9/connections HTTP/1.1\r\nHost: %s\r\n%s\r\n" % (host, "".join(field + "\r\n" for field in headers))).encode())
        status = client.response("DELETE").status
        assert status in (204, 403)
        return status == 403

    # clients that are no browsers say nothing of an origin, whatever name they use
    assert not refused("evil.test") and not refused("10.0.0.1:8080")
    for host in ("ops.test", "OPS.test:8080", "x.wide.test", "r12.test", "127.0.0.1:8080", "[::1]:80", "[::1]", "localhost:8080", "app.localhost"):
        assert not refused(host, "Origin: http://" + host), host
    # a page whose name somebody else gives this address (DNS rebinding) has the origin that it asks for
    for host in ("evil.test", "evil.test:8080", "wide.test", "r.test", "127.0.0.1.evil.test", "localhost.evil.test", "notlocalhost"):
        assert refused(host, "Origin: http://" + host), host
    for origin in ("null", "http://", "http://ops.test:81", "http://ops.test/", "https://ops.test@evil.test", "ops.test", "file://", ""):
        assert refused("ops.test", "Origin: " + origin) == (origin != ""), origin
    assert refused("ops.test", "Origin: http://ops.test", "Origin: http://evil.test")
    for site, is_refused in (("same-origin", False), ("none", False), ("cross-site", True), ("same-site", True)):
        assert refused("ops.test", "Sec-Fetch-Site: " + site) == is_refused
    assert len([line for line in server.lines("error.log") if "is no \"server_name\" of this server" in line]) == 7


def test_a_page_without_tls_may_not_write_to_one_with(serve):
    server = serve("server { listen 127.0.0.1:@PORT@ ssl; server_name ops.test; %s location /api { api write=on; } }" % pair(certificates.own("ops.test")))
    for scheme, status in (("http", 403), ("https", 204)):
        with connect(server.port) as secure:
            secure.sendall(("DELETE /api/9/connections HTTP/1.1\r\nHost: ops.test\r\nOrigin: %s://ops.test\r\n\r\n" % scheme).encode())
            assert secure.recv(4096).startswith(b"HTTP/1.1 %d " % status)


def test_bodies_that_are_deep_or_large(api):
    deep = '{"server":' + "[" * 20000 + "]" * 20000 + "}"
    assert refusal(api("POST", ROOT, deep)) == (415, "JsonError")
    assert refusal(api("POST", ROOT, '{"server":"' + "a" * 70000 + '"}')) == (413, "RequestBodyTooLarge")
    assert api.servers() == [api.address("PORT1")]


def test_names_are_resolved(serve):
    dns = NameServer({"pool.test": ["127.0.0.1", "127.0.0.2"], "other.test": ["127.0.0.1"]})
    try:
        server = serve("""upstream dyn { zone dyn 128k; resolver 127.0.0.1:%d ipv6=off valid=1s; server 127.0.0.1:1 down; }
                          server { listen 127.0.0.1:@PORT@; location /api { api write=on; } location / { proxy_pass http://dyn; } }
                          server { listen 127.0.0.1:@PORT1@; listen 127.0.0.2:@PORT1@; return 200 $server_addr; }""" % dns.port)
        api, port = Api(server), server.port_of("PORT1")
        assert api.add("pool.test:%d" % port)["host"] == "pool.test:%d" % port
        until(lambda: len(api.get(ROOT)) == 4, "the addresses of the name")
        children = [entry for entry in api.get(ROOT) if "parent" in entry]
        assert {entry["server"] for entry in children} == {"127.0.0.1:%d" % port, "127.0.0.2:%d" % port}
        assert {entry["parent"] for entry in children} == {"1"} and len({entry["id"] for entry in children}) == 2
        assert {server.get("/").text for _ in range(8)} == {"127.0.0.1", "127.0.0.2"}
        assert refusal(api("DELETE", ROOT + "/%d" % children[0]["id"])) == (400, "UpstreamServerImmutable")
        assert api("PATCH", ROOT + "/1", {"server": "other.test:%d" % port})[0] == 200
        until(lambda: server.get("/").status == 200, "the other name")
        assert {server.get("/").text for _ in range(8)} == {"127.0.0.1"}
        assert api("DELETE", ROOT + "/1")[0] == 200
        assert server.get("/").status == 502
    finally:
        dns.close()


def test_all_workers_see_a_change_at_once(serve):
    server = serve(SITE, main=STREAM.replace("worker_processes 2", "worker_processes 4"))
    api = Api(server)
    clients = [server.client() for _ in range(16)]
    try:
        for turn in range(20):
            made = api.add(api.address("PORT2" if turn % 2 else "PORT1"), backup=False) if turn else api.get(ROOT)[0]
            for entry in api.get(ROOT):
                if entry["id"] != made["id"]:
                    assert api("DELETE", ROOT + "/%d" % entry["id"])[0] == 200
            wanted = b"two" if turn and turn % 2 else b"one"
            assert {client.request("/").body for client in clients} == {wanted}
    finally:
        for client in clients:
            client.socket.close()


def test_no_request_is_lost_while_servers_come_and_go(serve):
    server = serve(SITE.replace("server { listen 127.0.0.1:@PORT1@;", "server { listen 127.0.0.1:@PORT1@; %s" % "".join(
        "listen 127.0.1.%d:@PORT1@; " % n for n in range(1, 101))), main=STREAM)
    api = Api(server)
    statuses, done = [], threading.Event()

    def ask():
        with server.client() as client:
            for _ in range(50):
                client.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" * 50)
                for _ in range(50):
                    statuses.append(client.response().status)  # one operation, unlike a count

    def watch(threads):
        for thread in threads:
            thread.join()
        done.set()

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    threading.Thread(target=watch, args=(threads,)).start()
    changes, made = 0, []
    while changes < 100 or not done.is_set():
        made.append(api.add("127.0.1.%d:%d" % (changes % 100 + 1, server.port_of("PORT1")))["id"])
        changes += 1
        if len(made) > 20:
            assert api("DELETE", ROOT + "/%d" % made.pop(0))[0] == 200
    assert Counter(statuses) == {200: 10000} and changes >= 100
    until(lambda: api.get("/http/upstreams/dyn")["zombies"] == 0, "the end of all requests")


def test_active_requests_are_counted_over_changes(api):
    """A server that changes keeps its address, its connections and its count of requests in progress."""
    with api.server.client() as client:
        client.send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n")
        assert api("PATCH", ROOT + "/0", {"weight": 9})[0] == 200
        client.send("12345")
        client.response()
    until(lambda: api.get("/http/upstreams/dyn")["peers"][0]["responses"]["total"] == 1, "the request's end")
    assert api.get("/http/upstreams/dyn")["peers"][0]["active"] == 0


def test_requests_of_a_killed_worker_wait_no_more(serve):
    """The queue of an upstream is that of the workers that live."""
    backend = RawBackend([b"", b""])  # it reads the request, and waits for more
    api = Api(serve("""upstream busy { zone busy 64k; server 127.0.0.1:%d max_conns=1; queue 5 timeout=60s; }
        server { listen 127.0.0.1:@PORT@; location /api { api; } location / { proxy_pass http://busy; } }""" % backend.port,
                    allow=["exited on signal 9"]))
    size = lambda: api.get("/http/upstreams/busy")["queue"]["size"]  # noqa: E731
    server, clients = api.server, [api.server.client() for _ in range(3)]
    for client in clients:
        client.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    until(lambda: size() == 2, "the queue")
    old = server.children()
    os.kill(old[0], signal.SIGKILL)
    wait_workers(server, 1, without=old)
    assert size() == 0
    backend.close()


# ---- room

SMALL = """upstream small { zone small 64k; server 127.0.0.1:@PORT1@; }
    upstream other { zone other 64k; server 127.0.0.1:@PORT1@; }
    server { listen 127.0.0.1:@PORT@; keepalive_requests 100000; location /api { api write=on; } location / { proxy_pass http://other; } }
    server { listen 127.0.0.1:@PORT1@; return 200 one; }"""


def fill_up(api, path, first):
    """Adds servers with long routes until there is no room; how many there are."""
    count = 0
    while (result := api("POST", path, {"server": "127.%d.%d.%d:80" % (first, *divmod(count, 250)), "route": "r" * 255}))[0] == 201:
        count += 1
    assert refusal(result) == (400, "UpstreamOutOfMemory")
    return count


def test_a_full_group_can_still_be_changed(serve):
    """Neither what another group has nor where lists were before takes the room that a change needs."""
    api = Api(serve(SMALL))
    small, other = ("/http/upstreams/%s/servers" % name for name in ("small", "other"))
    count = fill_up(api, small, 1)
    assert 50 < count < 64 * 1024 // 255  # what a zone of 64k pays for
    assert fill_up(api, other, 2) == count
    for path in (small, other):
        for turn in range(5):
            assert api("PATCH", path + "/0", {"down": turn % 2 == 0, "weight": turn + 1})[0] == 200
            last = api.get(path)[-1]["id"]
            assert api("DELETE", path + "/%d" % last)[0] == 200
            assert api.add("127.9.9.9:80", path=path, route="x" * 255)["id"] > last
    for entry in api.get(small):
        assert api("DELETE", small + "/%d" % entry["id"])[0] == 200
    assert api.get(small) == [] and fill_up(api, small, 3) >= count


def test_a_state_file_larger_than_the_zone_can_still_shrink(serve):
    lines = "".join('server 127.0.%d.%d:80 route=%s;\n' % (n // 250, n % 250 + 1, "r" * 255) for n in range(500))
    server = serve("""upstream dyn { zone dyn 64k; state logs/dyn.state; }
                      server { listen 127.0.0.1:@PORT@; location /api { api write=on; } }""", files={"logs/dyn.state": lines})
    api = Api(server)
    assert refusal(api("POST", ROOT, {"server": "127.0.0.1:1", "route": "r" * 255})) == (400, "UpstreamOutOfMemory")
    assert api("DELETE", ROOT + "/7")[0] == 200 and api("PATCH", ROOT + "/8", {"down": True})[0] == 200
    assert len(api.get(ROOT)) == 499


def test_servers_without_a_cell_in_shared_memory_keep_theirs(serve):
    """What one worker alone counts, and its kept connections, outlive changes of other servers."""
    server = serve("""upstream dyn { zone dyn 64k; keepalive 4; server 127.0.0.1:1 down; }
                      server { listen 127.0.0.1:@PORT@; keepalive_requests 100000; location /api { api write=on; }
                               location / { proxy_pass http://dyn; proxy_http_version 1.1; proxy_set_header Connection ""; } }
                      server { listen 127.0.0.1:@PORT1@; return 200 $connection; }""")
    api, count = Api(server), 0
    while "no room in shared memory" not in server.error_log:
        api.add("127.1.%d.%d:1" % divmod(count, 250), down=True)
        count += 1
    made = api.add(api.address("PORT1"))
    connection = server.get("/").text
    for weight in range(2, 6):
        assert api("PATCH", ROOT + "/1", {"weight": weight})[0] == 200
        assert server.get("/").text == connection
    assert api("PATCH", ROOT + "/%d" % made["id"], {"weight": 2})[0] == 200
    assert server.get("/").text == connection


# ---- names that come and go

NAMES = """upstream dyn { zone dyn 64k; resolver 127.0.0.1:%d ipv6=off; server 127.0.0.1:1 down; }
    server { listen 127.0.0.1:@PORT@; keepalive_requests 100000; location /api { api write=on; } location / { proxy_pass http://dyn; } }
    server { listen 127.0.0.1:@PORT1@; return 200 one; }"""


def test_names_that_went_leave_room(serve):
    """Cells of names that were removed serve the next ones."""
    dns = NameServer({"pool.test": ["127.0.2.%d" % n for n in range(1, 16)]})
    try:
        server = serve(NAMES % dns.port)
        api = Api(server)
        for port in range(1, 31):
            made = api.add("pool.test:%d" % port)
            until(lambda: len(api.get(ROOT)) == 2 + 15, "its addresses")
            assert api("DELETE", ROOT + "/%d" % made["id"])[0] == 200
        assert "no room in shared memory" not in server.error_log
    finally:
        dns.close()


def test_another_name_has_no_addresses_of_the_former(serve):
    dns = NameServer({"old.test": ["127.0.0.1"], "new.test": SILENCE})
    try:
        server = serve(NAMES % dns.port)
        api = Api(server)
        made = api.add("old.test:%d" % server.port_of("PORT1"))
        until(lambda: len(api.get(ROOT)) == 3, "its address")
        assert server.get("/").text == "one"
        assert api("PATCH", ROOT + "/%d" % made["id"], {"server": "new.test:%d" % server.port_of("PORT1")})[0] == 200
        assert [entry["server"] for entry in api.get(ROOT) if "parent" in entry] == []
        assert server.get("/").status == 502
    finally:
        dns.close()


# ---- state files

STATE = """upstream dyn { zone dyn 256k; state %s; }
    server { listen 127.0.0.1:@PORT@; location /api { api write=on; } location / { proxy_pass http://dyn; } }
    server { listen 127.0.0.1:@PORT1@; return 200 one; }
    server { listen 127.0.0.1:@PORT2@; return 200 two; }"""


def test_servers_outlive_restarts_and_reloads(serve):
    server = serve(STATE % "logs/dyn.state", main="worker_processes 2;")
    api = Api(server)
    assert api.get(ROOT) == [] and server.get("/").status == 502
    api.add(api.address("PORT1"), weight=3, route='a"\\b $x;', max_fails=2, fail_timeout="1500ms")
    api.add(api.address("PORT2"), backup=True)
    assert server.read("logs/dyn.state") == (
        '# servers: 2; written by the server at each change\n'
        'server "%s" "route=a\\"\\\\b $x;" weight=3 max_fails=2 fail_timeout=1500ms;\nserver "%s" backup;\n'
        % (api.address("PORT1"), api.address("PORT2")))
    before = api.get(ROOT)
    old = server.children()
    server.reload()
    wait_workers(server, 2, without=old)
    assert api.get(ROOT) == before and server.get("/").text == "one"
    server.stop()
    server.start()
    assert api.get(ROOT) == before and server.get("/").text == "one"
    assert api("DELETE", ROOT + "/0")[0] == 200
    assert server.get("/").text == "two" and server.read("logs/dyn.state").count("\n") == 2
    assert [name for name in os.listdir(server.path("logs")) if name.endswith(".new")] == []


def test_a_state_file_has_what_a_start_accepts(serve):
    """What the configuration refuses in `server` does not come into the file by the API, nor by one change after another."""
    server = serve(STATE % "logs/dyn.state")
    api = Api(server)
    made = api.add(api.address("PORT1"), drain=True, backup=True, weight=65535, max_conns=2**31 - 1, max_fails=2**31 - 1, fail_timeout="24855d", slow_start="24855d")
    api.add("[::1]:81", route='"{}; # \u00e9$x')
    assert refusal(api("POST", ROOT, {"server": "127.0.0.2:1", "down": True, "drain": True})) == (400, "UpstreamConfFormatError")
    assert refusal(api("PATCH", ROOT + "/0", {"drain": True, "down": True})) == (400, "UpstreamConfFormatError")
    down = api("PATCH", ROOT + "/0", {"down": True})[1]
    assert down == {**{name: value for name, value in made.items() if name != "drain"}, "down": True}
    assert api("PATCH", ROOT + "/0", {"drain": True})[1] == made
    assert api("PATCH", ROOT + "/0", {"down": False})[1] == made
    before = api.get(ROOT)
    server.stop()
    server.start()
    assert api.get(ROOT) == before


def test_no_change_is_lost_in_a_reload(serve):
    """What a client was told is made stays, whichever generation made it."""
    server = serve(STATE % "logs/dyn.state", main="worker_processes 2;")
    api = Api(server)
    made, statuses, is_over = [], set(), threading.Event()

    def write(second):
        for n in range(1, 10000):
            address = "127.%d.%d.%d:80" % (second, n // 250, n % 250 + 1)
            try:
                status = api("POST", ROOT, {"server": address})[0]
            except OSError:
                continue
            statuses.add(status)
            if status == 201:
                made.append(address)
            if is_over.is_set():
                return

    threads = [threading.Thread(target=write, args=(second,)) for second in (1, 2)]
    for thread in threads:
        thread.start()
    for _ in range(5):
        old = server.children()
        server.reload()
        wait_workers(server, 2, without=old)
    is_over.set()
    for thread in threads:
        thread.join()
    assert statuses <= {201, 503}
    assert set(made) <= set(api.servers())
    assert server.read("logs/dyn.state").count("\n") == len(api.servers()) + 1


def test_a_reload_that_fails_leaves_servers_that_change(serve):
    server = serve(STATE % "logs/dyn.state", allow=["nonsense"])
    api = Api(server)
    api.add("127.0.0.1:1")
    server.configure(STATE % "logs/dyn.state" + "nonsense on;")
    server.signal("reload")
    server.wait_log("nonsense")
    until(lambda: api("POST", ROOT, {"server": "127.0.0.1:2"})[0] in (201, 409), "the change")
    assert api.servers() == ["127.0.0.1:1", "127.0.0.1:2"] and server.read("logs/dyn.state").count("\n") == 3


def test_a_thousand_writers(serve):
    server = serve(STATE % "logs/dyn.state", main="worker_processes 2;")
    api = Api(server)
    problems = []

    def write(first):
        for n in range(first, first + 50):
            status = api("POST", ROOT, {"server": "127.1.%d.%d:80" % (n // 250, n % 250 + 1)})[0]
            if status != 201:
                problems.append(status)

    threads = [threading.Thread(target=write, args=(n * 50,)) for n in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    shown = api.get(ROOT)
    stored = server.read("logs/dyn.state").split("\n")[1:-1]
    assert problems == [] and len(shown) == len(stored) == len({entry["id"] for entry in shown}) == 1000
    assert {line.split('"')[1] for line in stored} == {entry["server"] for entry in shown}


def test_a_state_file_that_is_cut_is_refused(serve):
    server = serve(STATE % "logs/dyn.state")
    api = Api(server)
    api.add(api.address("PORT1"))
    api.add(api.address("PORT2"))
    whole = server.read("logs/dyn.state")
    for length in range(0, len(whole) - 1, 9):
        server.write("logs/dyn.state", whole[:length])
        result = run_binary("-p", server.dir, "-c", "nginx.conf", "-t")
        lines = whole[:length].count("\n")
        if length == 0 or (lines == 0 and not re.match("# servers: ", whole[:length])):
            continue  # nothing of it is left but a comment
        assert result.returncode == 1 and "[emerg]" in result.stderr, whole[:length]
    server.write("logs/dyn.state", whole)
    assert run_binary("-p", server.dir, "-c", "nginx.conf", "-t").returncode == 0


def test_what_a_killed_writer_left_is_replaced(serve):
    server = serve(STATE % "logs/dyn.state", main="worker_processes 2;")
    server.write("logs/dyn.state.%d.1.new" % server.process.pid, "half a l")
    Api(server).add("127.0.0.1:1")
    assert [name for name in os.listdir(server.path("logs")) if name.startswith("dyn.")] == ["dyn.state"]
    assert server.read("logs/dyn.state").endswith('server "127.0.0.1:1";\n')


def test_a_state_file_that_cannot_be_written(serve):
    server = serve(STATE % "nosuch/dyn.state")
    api = Api(server)
    assert refusal(api("POST", ROOT, {"server": api.address("PORT1")})) == (500, "UpstreamStateError")
    assert server.get("/").text == "one"
    server.wait_log(r'\[error\] .*cannot write "[^"]*nosuch/dyn.state", the state of upstream "dyn"')


@pytest.mark.parametrize("text, block, message", [
    ("server 127.0.0.1:1;", "zone z 64k; server 127.0.0.1:2; state x.state;", '"server" and "state" exclude each other'),
    ("", "state x.state;", '"state" in upstream "u" needs a "zone"'),
    ("listen 80;", "zone z 64k; state x.state;", 'unexpected "listen" in a state file'),
    ("server a {}", "zone z 64k; state x.state;", 'unexpected "server" in a state file'),
    ("server 127.0.0.1:1 nosuch;", "zone z 64k; state x.state;", 'invalid parameter "nosuch"'),
    ("server 127.0.0.1:1", "zone z 64k; state x.state;", 'unexpected end of file'),
    (None, "zone z 64k; state x.state; state y;", '"state" directive is duplicate'),
])
def test_state_in_the_configuration(tmp_path, text, block, message):
    if text is not None:
        (tmp_path / "x.state").write_text(text)
    (tmp_path / "nginx.conf").write_text("error_log e.log; pid p; events {} http { upstream u { %s } }" % block)
    result = run_binary("-p", str(tmp_path), "-c", "nginx.conf", "-t", "-e", "e.log")
    assert result.returncode == 1 and message in result.stderr, result.stderr
