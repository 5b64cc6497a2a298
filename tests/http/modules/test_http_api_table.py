"""api: each row of the catalogue of nginx Plus' interface (version 9): answers, types of members, errors; and what earlier versions had."""

import csv
import json
import os
import re

import pytest

import certificates
from harness import until
from harness.dns import NameServer
from harness.server import Server
from test_http_api import NOT_SHOWN
from tls_client import connect, exchange, pair

REFERENCE = os.path.join(os.path.dirname(__file__), "../../reference")

SITE = """
    proxy_cache_path cache keys_zone=cached:1m max_size=1m;
    limit_req_zone $uri zone=req:64k rate=1000r/s;
    limit_conn_zone $uri zone=conn:64k;
    keyval_zone zone=pairs:64k; keyval $arg_key $pair zone=pairs;
    match ok { status 200; }
    upstream dyn { zone dyn 128k; resolver 127.0.0.1:%d status_zone=names ipv6=off; server 127.0.0.1:@PORT1@ max_conns=100; server pool.test:@PORT1@ resolve; server 127.0.0.1:1 down; queue 5; }
    upstream fixed { server 127.0.0.1:@PORT1@; }
    upstream hashed { zone hashed 64k; ip_hash; server 127.0.0.1:@PORT1@; }
    upstream small { zone small 64k; server 127.0.0.1:@PORT1@; }
    upstream nameless { zone nameless 64k; server 127.0.0.1:1 down; }
    server {
        listen 127.0.0.1:@PORT@;
        keepalive_requests 100000;
        status_zone site;
        location /api { api write=on; }
        location /look { api; }
        location / { proxy_pass http://dyn; health_check match=ok interval=1h; status_zone place; limit_req zone=req burst=1000 nodelay; limit_conn conn 100; proxy_cache cached; proxy_cache_valid 1h; }
    }
    server { listen 127.0.0.1:@PORT1@; location / { return 200 one; } }
    server { listen 127.0.0.1:@PORT3@ ssl; %s return 200 tls; }
"""
STREAM = """
    worker_processes 1;
    stream {
        limit_conn_zone $remote_addr zone=sessions:64k;
        keyval_zone zone=flows:64k; keyval $remote_addr $flow zone=flows;
        upstream s { zone s 64k; resolver 127.0.0.1:%d ipv6=off; server 127.0.0.1:@PORT1@; server pool.test:@PORT1@ resolve; }
        upstream fixed { server 127.0.0.1:@PORT1@; }
        upstream hashed { zone hashed_flows 64k; hash $remote_addr; server 127.0.0.1:@PORT1@; }
        upstream nameless { zone nameless_flows 64k; server 127.0.0.1:1 down; }
        server { listen 127.0.0.1:@PORT4@; status_zone passed; limit_conn sessions 10; proxy_pass s; health_check interval=1h; }
    }
"""

# What stands for the words in braces, and what is there under no such name.
NAMES = {"slabZoneName": "dyn", "httpServerZoneName": "site", "httpLocationZoneName": "place", "httpCacheZoneName": "cached",
         "httpLimitConnZoneName": "conn", "httpLimitReqZoneName": "req", "httpUpstreamName": "dyn", "httpUpstreamServerId": "0",
         "httpKeyvalZoneName": "pairs", "streamServerZoneName": "passed", "streamLimitConnZoneName": "sessions", "streamUpstreamName": "s",
         "streamUpstreamServerId": "0", "streamKeyvalZoneName": "flows", "resolverZoneName": "names", "workerId": "0"}

# Members that are there when there is something to say.
SOMETIMES = {"max_size", "queue", "queue.size", "queue.max_size", "queue.overflows", "service", "max_conns", "downstart", "name",
             "selected", "health_checks.last_passed", "responses.codes.codeNumber", "header_time", "response_time",
             "connect_time", "first_byte_time", "drain", "parent", "host", "route"}
# The catalogue has an object by id, clients of nginx Plus read a list.
ARRAYS = {"NginxWorkersMap"}
# Errors of the catalogue that cannot be had here: the weight of a server that SRV records name may change, and "ID" is a slip of the catalogue.
UNKNOWN = {"UpstreamServerWeightImmutable", "ID", "BodyReadError"}
# A server that is there keeps its room: see test_a_full_group_can_still_be_changed. Groups of stream are written by the same code.
FILLED = {"/http/upstreams/{httpUpstreamName}/servers/"}
SERVER = {"server": "127.0.0.9:9"}
BODIES = {"UpstreamConfFormatError": {"nosuch": 1}, "UpstreamBadAddress": {"server": "127.0.0.1:99999"}, "UpstreamBadWeight": {**SERVER, "weight": 0},
          "UpstreamBadMaxConns": {**SERVER, "max_conns": -1}, "UpstreamBadMaxFails": {**SERVER, "max_fails": "x"},
          "UpstreamBadFailTimeout": {**SERVER, "fail_timeout": "x"}, "UpstreamBadSlowStart": {**SERVER, "slow_start": -1},
          "UpstreamBadRoute": {**SERVER, "route": 1}, "UpstreamBadService": {**SERVER, "service": "http"}, "JsonError": "{",
          "KeyvalFormatError": {"k": 1}}


def read(name):
    with open(os.path.join(REFERENCE, name), encoding="utf-8") as rows:
        return list(csv.DictReader(rows, delimiter="\t"))


ROWS = read("plus-api.tsv")
OBJECTS = {}
for each in read("plus-api-objects.tsv"):
    OBJECTS.setdefault(each["object"], {})[each["field"]] = (each["type"], (each["format or values"] or "").strip())


class Api:
    """The server of all rows: nothing that one of them does is in the way of another one."""

    def __init__(self, server):
        self.server = server

    def __call__(self, method, path, body=None, root="/api/9"):
        text = body if body is None or isinstance(body, (str, bytes)) else json.dumps(body)
        answer = self.server.get(root + path, method=method, body=text or "")
        return answer.status, (json.loads(answer.body) if answer.body else None)

    def code(self, *args, **words):
        status, shown = self(*args, **words)
        return status, shown["error"]["code"] if shown and "error" in shown else None


@pytest.fixture(scope="module", name="api")
def service():
    dns = NameServer({"pool.test": ["127.0.0.2"]})
    with Server(http=SITE % (dns.port, pair(certificates.own("api"))), main=STREAM % dns.port) as server:
        api = Api(server)
        until(lambda: len(api("GET", "/http/upstreams/dyn/servers")[1]) == 4, "the address of the name")
        until(lambda: len(api("GET", "/stream/upstreams/s/servers")[1]) == 3, "the address of the name")
        until(lambda: api("GET", "/http/upstreams/dyn")[1]["peers"][0]["health_checks"]["checks"] == 1, "the first check")
        for _ in range(3):
            assert server.get("/").status == 200
        assert exchange(connect(server.port_of("PORT3")))[0] == 200
        with server.client(port=server.port_of("PORT4")) as client:
            assert client.request("/", close=True).status == 200
        yield api
    dns.close()


def path_of(row, **others):
    """The path of a row, with what is there for the words in braces."""
    return re.sub(r"\{(\w+)\}", lambda word: others.get(word.group(1), NAMES[word.group(1)]), row["path"])


# ---- types

SIMPLE = {"integer": int, "string": str, "boolean": bool}


def check_value(value, kind, form, where):
    if kind in SIMPLE:
        assert type(value) is SIMPLE[kind], (where, value)
        assert kind != "integer" or value >= 0, (where, value)
        if form == "date-time":
            assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", value), (where, value)
        elif "|" in form:
            assert value in form.split("|"), (where, value)
    elif kind == "object":
        assert isinstance(value, dict), where
    else:
        check_object(value, kind, where)


def check_members(value, fields, prefix, where):
    """The members of one object, those in it by dotted names."""
    names = {prefix + name for name in value}
    wanted = {name for name in fields if name.startswith(prefix) and "." not in name[len(prefix):] and not NOT_SHOWN.search(name)}
    assert not wanted - names - SOMETIMES, (where, wanted - names)
    for name, inner in value.items():
        full = prefix + name
        if prefix == "responses.codes.":
            assert re.fullmatch(r"\d{3}", name) and type(inner) is int, (where, name)
            continue
        if where.endswith(("NginxSlabZone", "NginxStreamZoneSync")) and prefix in ("slots.", "zones."):
            check_members(inner, OBJECTS["NginxSlabZoneSlot" if prefix == "slots." else "NginxStreamZoneSyncZone"], "", where + "." + prefix)
            continue
        assert full in fields, (where, full)
        kind, form = fields[full]
        check_value(inner, kind, form, where + "." + full)
        if kind == "object":
            check_members(inner, fields, full + ".", where)


def check_object(value, kind, where):
    fields = OBJECTS.get(kind)
    if kind == "ArrayOfStrings":
        assert value and all(isinstance(item, str) for item in value), where
    elif fields is None:  # pairs: any names, texts
        assert all(isinstance(item, str) for item in value.values()), where
    elif kind in ARRAYS:
        assert isinstance(value, list) and value, where
        for inner in value:
            check_object(inner, fields["{name}"][0], where + "[]:" + fields["{name}"][0])
    elif "{name}" in fields:
        assert isinstance(value, dict) and value, where
        for name, inner in value.items():
            check_object(inner, fields["{name}"][0], "%s[%s]:%s" % (where, name, fields["{name}"][0]))
    elif "[]" in fields:
        assert isinstance(value, list) and value, where
        for inner in value:
            check_object(inner, fields["[]"][0], where + "[]:" + fields["[]"][0])
    else:
        check_members(value, fields, "", where)


def answers_of(row):
    """status -> object, or codes."""
    found = {}
    for part in row["answers (status, object, error codes)"].split("; "):
        status, _, rest = part.partition(" ")
        found[int(status)] = rest
    return found


def rows_of(*methods):
    rows = [row for row in ROWS if row["method"] in methods]
    return pytest.mark.parametrize("row", rows, ids=["%s %s" % (row["method"], row["path"]) for row in rows])


# ---- reading

@rows_of("GET")
def test_what_is_shown(api, row):
    path, kind = path_of(row), answers_of(row)[200]
    status, shown = api("GET", path)
    assert status == 200
    check_object(shown, kind, kind)
    assert api("GET", path.rstrip("/"))[1].__class__ is shown.__class__
    head = api.server.get("/api/9" + path, method="HEAD")
    assert (head.status, head.body, head.header("Content-Type")) == (200, b"", "application/json")
    if "fields(query)" not in row["parameters"]:
        return
    if kind in ARRAYS:
        assert api("GET", path + "?fields=id") == (200, [{"id": 0}])
    elif "{name}" in OBJECTS.get(kind, {}) and "keyvals" not in path:
        assert api("GET", path + "?fields=") == (200, list(shown))
        member = next(iter(next(iter(shown.values()))))
        assert all(list(inner) == [member] for inner in api("GET", path + "?fields=" + member)[1].values())
    elif "keyvals" in path:
        assert api("GET", path + "?fields=") == (200, list(shown))
    else:
        for member in shown:
            assert list(api("GET", path + "?fields=" + member)[1]) == [member]
        assert list(api("GET", path + "?fields=nosuch," + next(iter(shown)))[1]) == [next(iter(shown))]


def test_errors_have_the_members_of_the_catalogue(api):
    _, shown = api("GET", "/nosuch")
    check_object(shown, "NginxError", "NginxError")


# ---- errors

def provoke(api, row, code):
    """A request that gets this error, as status and code."""
    method = row["method"]
    body = {"key": "v"} if "keyvals" in row["path"] else {**SERVER} if method in ("POST", "PATCH") else None
    if code == "UnknownVersion":
        return api.code(method, path_of(row), body, root="/api/10")
    if code == "MethodDisabled":
        return api.code(method, path_of(row), body, root="/look/9")
    if code == "KeyvalKeyNotFound":
        return api.code(method, path_of(row) + ("?key=nosuch" if method == "GET" else ""), {"nosuch": "v"} if method == "PATCH" else None)
    if code in ("KeyvalKeyExists", "EntryExists") and "keyvals" in row["path"]:
        api("POST", path_of(row), {"twice": "v"})
        status, shown = api.code("POST", path_of(row), {"twice": "v"})
        return status, code if shown == "KeyvalKeyExists" else shown
    if code == "EntryExists":
        entry = api("GET", path_of(row))[1][0]["server"]
        return api.code("POST", path_of(row), {"server": entry})
    if code == "UpstreamStatic":
        return api.code(method, path_of(row, httpUpstreamName="fixed", streamUpstreamName="fixed"), body)
    if code == "UpstreamBadServerId":
        return api.code(method, path_of(row, httpUpstreamServerId="x", streamUpstreamServerId="x"), body)
    if code == "UpstreamServerNotFound":
        return api.code(method, path_of(row, httpUpstreamServerId="77", streamUpstreamServerId="77"), body)
    if code == "UpstreamServerImmutable":
        child = [entry["id"] for entry in api("GET", path_of(row).rpartition("/")[0])[1] if "parent" in entry][0]
        return api.code(method, path_of(row, httpUpstreamServerId=str(child), streamUpstreamServerId=str(child)), {"weight": 2} if body else None)
    if code == "UpstreamNoBackup":
        return api.code(method, path_of(row, httpUpstreamName="hashed", streamUpstreamName="hashed"), {**SERVER, "backup": True})
    if code == "UpstreamConfNoResolver":
        return api.code(method, path_of(row, httpUpstreamName="nameless", streamUpstreamName="nameless"), {"server": "name.test:80"})
    if code == "UpstreamOutOfMemory":
        path, count = path_of(row, httpUpstreamName="small"), 0
        while (result := api.code("POST", path, {"server": "127.0.1.%d:80" % count, "route": "r" * 255}))[0] == 201:
            count += 1
        return result
    if code in BODIES:
        return api.code(method, path_of(row), BODIES[code])
    if code.endswith("NotFound"):  # a zone, an upstream, a worker
        word = re.findall(r"\{(\w+)\}", row["path"])
        if not word:
            return 404, code  # of a list: there is always one
        return api.code(method, path_of(row, **{word[0]: "77"}), body)
    raise AssertionError(code)


@pytest.mark.parametrize("row", ROWS, ids=["%s %s" % (row["method"], row["path"]) for row in ROWS])
def test_what_is_refused(api, row):
    for status, codes in answers_of(row).items():
        for code in codes.split("|"):
            if status >= 400 and code and code not in UNKNOWN and (code != "UpstreamOutOfMemory" or row["path"] in FILLED):
                assert provoke(api, row, code) == (status, code), code
    if 413 in answers_of(row):
        assert api(row["method"], path_of(row), '{"k":"%s"}' % ("v" * 70000))[0] == 413


# ---- changing

@rows_of("DELETE")
def test_what_is_reset(api, row):
    """Servers have rows of their own: see test_changes."""
    if "ServerId" not in row["path"]:
        assert api("DELETE", path_of(row)) == (204, None)
        assert api("GET", path_of(row))[0] == 200


@pytest.mark.parametrize("path", ["/http/upstreams/hashed/servers", "/stream/upstreams/hashed/servers"])
def test_changes(api, path):
    kind = "Nginx%sUpstreamConfServer" % ("HTTP" if path.startswith("/http") else "Stream")
    status, made = api("POST", path + "/", {"server": "127.0.0.7:7", "weight": 3})
    assert status == 201 and made["weight"] == 3
    check_object(made, kind, kind)
    status, shown = api("PATCH", path + "/%d" % made["id"], {"down": True})
    assert status == 200 and shown == {**made, "down": True}
    status, left = api("DELETE", path + "/%d" % made["id"])
    assert status == 200 and made["id"] not in [entry["id"] for entry in left]
    check_object(left, kind + "Map", kind)


@pytest.mark.parametrize("path", ["/http/keyvals/pairs", "/stream/keyvals/flows"])
def test_pairs(api, path):
    assert api("POST", path, {"10.0.0.1": "v"}) == (201, None)
    assert api("GET", path + "?key=10.0.0.1") == (200, {"10.0.0.1": "v"})
    assert api("PATCH", path, {"10.0.0.1": None}) == (204, None) and "10.0.0.1" not in api("GET", path)[1]


# ---- earlier versions

SINCE = {"/workers/": 9, "/license": 9, "/http/limit_conns/": 6, "/http/limit_reqs/": 6, "/stream/limit_conns/": 6, "/http/location_zones/": 5,
         "/resolvers/": 5, "/stream/zone_sync/": 3, "/stream/keyvals/": 2}


@pytest.mark.parametrize("version", range(1, 10))
def test_versions_have_what_they_had(api, version):
    """As the compatibility notes of nginx Plus' manual say."""
    root = "/api/%d" % version
    for row in ROWS:
        if row["method"] == "GET" and "{" not in row["path"]:
            expected = (200, None) if version >= SINCE.get(row["path"], 1) else (404, "PathNotFound")
            assert api.code("GET", row["path"], root=root) == expected, row["path"]
    for parent in ("/", "/http/", "/stream/"):
        words = api("GET", parent, root=root)[1]
        newer = {path[len(parent):].rstrip("/") for path, since in SINCE.items() if path.startswith(parent) and since > version}
        assert not newer & set(words) and all(api("GET", parent + word, root=root)[0] == 200 for word in words if word != "explain")
    has_codes = version >= 7
    for path in ("/http/server_zones/site", "/http/upstreams/dyn"):
        assert ("codes" in api.server.get(root + path).text) == has_codes
    assert ("codes" in json.dumps(api("GET", "/http/server_zones?fields=responses", root=root)[1])) == has_codes
    assert ("verify_failures" in api("GET", "/ssl", root=root)[1]) == (version >= 8) and "handshakes" in api("GET", "/ssl", root=root)[1]
    error = api("GET", "/nosuch", root=root)[1]
    assert (error.get("path"), error.get("method")) == (("", "") if version < 4 else (None, None))
    made = api("POST", "/http/upstreams/dyn/servers", {"server": "127.0.0.%d:1" % (20 + version), "down": True}, root=root)[1]
    place = "/http/upstreams/dyn/servers/%d" % made["id"]
    assert api.code("PATCH", place, {"drain": True}, root=root) == ((200, None) if version >= 2 else (400, "UpstreamConfFormatError"))
    assert ("drain" in api("GET", place, root=root)[1]) == (version >= 2)
    assert api("DELETE", place, root=root)[0] == 200
    pair_of = {"v%d" % version: {"value": "x", "expire": 60000}}
    assert api.code("POST", "/http/keyvals/pairs", pair_of, root=root) == ((201, None) if version >= 5 else (400, "KeyvalFormatError"))
