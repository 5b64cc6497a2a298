"""keyval and keyval_zone, in http and stream, and api, by which their zones are changed."""

import json
import os
import signal

import pytest

from harness import Server, run_binary, until
from harness.workers import wait_workers

HTTP = """
    keyval_zone zone=plain:64k state=logs/plain.json;
    keyval_zone zone=brief:64k timeout=1h;
    keyval_zone zone=net:64k type=ip;
    keyval_zone zone=path:64k type=prefix;
    keyval $arg_k $plain zone=plain;
    keyval "a $arg_k" $brief zone=brief;
    keyval $arg_k $net zone=net;
    keyval $uri $path zone=path;
    server { listen 127.0.0.1:@PORT@;
             location /api { api write=on; }
             location /slash/ { api write=off; }
             location /look { api; }
             location /ask { limit_except GET { allow 127.0.0.1; deny all; } api write=on; }
             location /told { limit_except GET { deny all; } api write=on; }
             location ~ ^/re/ { api write=on; }
             location / { return 200 "$plain|$brief|$net|$path"; } }
"""
STREAM = """
    worker_processes 2;
    stream {
        keyval_zone zone=s:64k;
        keyval $server_port $said zone=s;
        keyval $said $twice zone=s;
        server { listen 127.0.0.1:@PORT1@; return "$said|$twice"; }
    }
"""
ZONES = {"http": ("plain", "brief", "net", "path"), "stream": ("s",)}


@pytest.fixture(scope="module", name="server")
def one_server():
    server = Server(HTTP, main=STREAM)
    server.start()
    yield server
    server.close()


@pytest.fixture(name="site")
def empty_zones(server):
    for protocol, names in ZONES.items():
        for name in names:
            assert api(server, "DELETE", "/%s/keyvals/%s" % (protocol, name)) == (204, None)
    return server


def api(server, method, path, body=None, root="/api/9"):
    text = body if body is None or isinstance(body, str) else json.dumps(body)
    response = server.get(root + path, method=method, body=text or "")
    return response.status, (json.loads(response.body) if response.body else None)


def post(server, zone, pairs):
    return api(server, "POST", "/http/keyvals/" + zone, pairs)


def patch(server, zone, pairs):
    return api(server, "PATCH", "/http/keyvals/" + zone, pairs)


def pairs_of(server, zone):
    return api(server, "GET", "/http/keyvals/" + zone)[1]


def refusal(result):
    error = result[1]["error"]
    assert error["status"] == result[0] and error["text"] and len(result[1]["request_id"]) == 32
    return result[0], error["code"]


def values(server, target):
    return server.get(target).text.split("|")


def test_a_pair_comes_changes_and_goes(site):
    assert values(site, "/?k=one")[0] == ""
    assert post(site, "plain", {"one": "1", "two": "zwei"}) == (201, None)
    assert values(site, "/?k=one")[0] == "1"
    assert values(site, "/?k=on")[0] == values(site, "/?k=ones")[0] == values(site, "/")[0] == ""
    assert patch(site, "plain", {"one": "eins"}) == (204, None)
    assert values(site, "/?k=one")[0] == "eins"
    assert pairs_of(site, "plain") == {"one": "eins", "two": "zwei"}
    assert patch(site, "plain", {"one": None}) == (204, None)
    assert pairs_of(site, "plain") == {"two": "zwei"}
    assert api(site, "DELETE", "/http/keyvals/plain") == (204, None)
    assert pairs_of(site, "plain") == {}


def test_all_changes_of_a_request_or_none(site):
    assert post(site, "plain", {"one": "1"}) == (201, None)
    assert refusal(post(site, "plain", {"two": "2", "one": "x"})) == (409, "KeyvalKeyExists")
    assert refusal(patch(site, "plain", {"one": "x", "two": "y"})) == (404, "KeyvalKeyNotFound")
    assert pairs_of(site, "plain") == {"one": "1"}


def test_what_clients_see(site):
    assert post(site, "plain", {"a": "1", "b c": "2"})[0] == 201
    assert api(site, "GET", "/http/keyvals/plain?key=b%20c") == (200, {"b c": "2"})
    assert refusal(api(site, "GET", "/http/keyvals/plain?key=z")) == (404, "KeyvalKeyNotFound")
    assert api(site, "GET", "/http/keyvals")[1] == {
        "plain": {"a": "1", "b c": "2"}, "brief": {}, "net": {}, "path": {}}
    assert api(site, "GET", "/http/keyvals/?fields=")[1] == ["plain", "brief", "net", "path"]
    assert api(site, "GET", "/stream/keyvals/")[1] == {"s": {}}
    response = site.get("/api/9/http/keyvals/plain")
    assert response.header("Content-Type") == "application/json"
    assert response.header("Cache-Control") == "no-store"
    assert site.get("/api/9/http/keyvals/plain", method="HEAD").status == 200


@pytest.mark.parametrize("path, found", [
    ("/", [1, 2, 3, 4, 5, 6, 7, 8, 9]),
    ("/9/http/limit_reqs", {}), ("/9/http/limit_conns/", {}), ("/9/stream/limit_conns", {}),
    ("/9/stream/limit_reqs", "PathNotFound"), ("/9/http/limit_reqs/x", "LimitReqNotFound"),
    ("/9/stream/limit_conns/x", "LimitConnNotFound"), ("/9/http/nosuch/x", "PathNotFound"),
    ("/0/", "UnknownVersion"), ("/10", "UnknownVersion"), ("/a", "UnknownVersion"), ("/9/mail", "PathNotFound"),
    ("/9/http/nosuch", "PathNotFound"), ("/9/http/keyvals/plain/more", "PathNotFound"),
    ("/9/http/keyvals/nosuch", "KeyvalNotFound"), ("/9/http/keyvals/s", "KeyvalNotFound"),
])
def test_paths(site, path, found):
    for root in ("/api", "/look", "/slash", "/re"):
        status, answer = api(site, "GET", path, root=root)
        if isinstance(found, str):
            assert refusal((status, answer)) == (404, found)
        else:
            assert (status, answer) == (200, found)


def test_who_may_write(site):
    path = "/9/http/keyvals/plain"
    for root in ("/look", "/slash"):
        for method in ("POST", "PATCH", "DELETE", "PUT"):
            assert refusal(api(site, method, path, {"k": "v"}, root=root)) == (405, "MethodDisabled")
    assert pairs_of(site, "plain") == {}
    assert api(site, "POST", path, {"k": "v"}, root="/re") == (201, None)
    assert pairs_of(site, "plain") == {"k": "v"}
    assert api(site, "PATCH", path, {"k": "w"}, root="/ask") == (204, None)
    assert site.get("/told" + path, method="PATCH", body="{}").status == 403
    assert api(site, "GET", path, root="/told") == (200, {"k": "w"})
    assert refusal(api(site, "PUT", "/http/keyvals/plain", {})) == (405, "MethodDisabled")
    assert refusal(api(site, "POST", "/http/keyvals", {"k": "v"})) == (405, "MethodNotSupported")


@pytest.mark.parametrize("body", [
    "", "{}", "[]", "null", '"a"', "{", '{"a"}', '{"a":}', '{"a":1}', '{"a":true}', '{"a":"b",}', '{"a":"b"} x',
    '{"a":"b" "c":"d"}', '{a:"b"}', '{"a":"b}', '{"a":"\\x"}', '{"a":"\\ud800"}', '{"a":"\x01"}', '{"":"b"}',
    '{"a":{}}', '{"a":{"value":1}}', '{"a":{"other":"b"}}', '{"a":{"value":"b","expire":-1}}',
    '{"a":{"value":"b","expire":1.5}}', '{"a":{"value":"b","expires":1}}', '{"a":null}', '{"a":{"expire":1}}',
])
def test_what_is_no_pair_changes_nothing(site, body):
    try:
        expected = (400, "KeyvalFormatError") if json.loads(body) != "" else None
    except ValueError:
        expected = (415, "JsonError")
    if body == '{"a":"\\ud800"}':
        expected = (415, "JsonError")  # half of a pair of surrogates is no character
    assert refusal(post(site, "plain", body)) == expected
    assert pairs_of(site, "plain") == {}


def test_texts(site):
    pairs = {"\u00e4\U0001f600\"\\/": "\n\t\u2028", "e": "", " ": "  "}
    assert post(site, "plain", json.dumps(pairs)) == (201, None)
    assert pairs_of(site, "plain") == pairs
    assert api(site, "DELETE", "/http/keyvals/plain")[0] == 204
    assert post(site, "plain", ' { "k" : "\\u0041\\ud83d\\ude00" } ')[0] == 201
    assert pairs_of(site, "plain") == {"k": "A\U0001f600"}
    assert site.get("/?k=k").body.startswith("A\U0001f600|".encode())


def test_times(site):
    assert post(site, "brief", {"a gone": {"value": "x", "expire": 0}, "a here": {"value": "y", "expire": 600000},
                                "a usual": "z"})[0] == 201
    assert pairs_of(site, "brief") == {"a here": "y", "a usual": "z"}
    assert values(site, "/?k=here")[1] == "y" and values(site, "/?k=gone")[1] == ""
    assert post(site, "brief", {"a gone": "again"})[0] == 201
    assert patch(site, "brief", {"a here": {"expire": 0}})[0] == 204
    assert pairs_of(site, "brief") == {"a gone": "again", "a usual": "z"}
    assert post(site, "plain", {"soon": {"value": "x", "expire": 50}})[0] == 201
    until(lambda: values(site, "/?k=soon")[0] == "", "a pair that expires")


def test_networks(site):
    assert post(site, "net", {"10.0.0.0/8": "ten", "10.1.0.0/16": "one", "10.1.2.3": "host", "2001:db8::/32": "six",
                              "::1": "self", "192.168.0.0/31": "pair"})[0] == 201
    for address, value in (("10.9.9.9", "ten"), ("10.1.9.9", "one"), ("10.1.2.3", "host"), ("11.0.0.1", ""),
                           ("2001:db8:1::5", "six"), ("2001:db9::", ""), ("::1", "self"), ("0:0::0:1", "self"),
                           ("192.168.0.1", "pair"), ("192.168.0.2", ""), ("name", ""), ("", "")):
        assert values(site, "/?k=" + address)[2] == value, address
    assert refusal(post(site, "net", {"host.example": "x"})) == (400, "KeyvalFormatError")
    assert refusal(post(site, "net", {"10.1.2.3/32": "x"})) == (409, "KeyvalKeyExists")
    assert patch(site, "net", {"10.1.0.0/16": None})[0] == 204
    assert values(site, "/?k=10.1.9.9")[2] == "ten"
    assert post(site, "net", {"0.0.0.0/0": "any", "::/0": "any6"})[0] == 201
    assert values(site, "/?k=11.0.0.1")[2] == "any" and values(site, "/?k=2001:db9::")[2] == "any6"


def test_beginnings(site):
    assert post(site, "path", {"/a/": "short", "/a/b/c": "long", "/a/b": "middle"})[0] == 201
    for uri, value in (("/a/", "short"), ("/a", ""), ("/a/x", "short"), ("/a/b", "middle"), ("/a/bx", "middle"),
                       ("/a/b/c/d", "long"), ("/b/a/", "")):
        assert values(site, uri)[3] == value, uri
    assert patch(site, "path", {"/a/b": None})[0] == 204
    assert values(site, "/a/bx")[3] == "short"


def test_sessions(site):
    port = site.port_of("PORT1")
    assert api(site, "POST", "/stream/keyvals/s", {str(port): "door", "door": "open"}) == (201, None)
    assert site.client(port=port).rest() == b"door|open"
    assert api(site, "GET", "/stream/keyvals/s")[1] == {str(port): "door", "door": "open"}


def test_a_full_zone_and_long_bodies(site):
    filler = {"k%d" % number: "v" * 900 for number in range(30)}
    assert post(site, "plain", filler)[0] == 201
    assert refusal(post(site, "plain", {"x%d" % number: "v" * 900 for number in range(60)})) == (507, "KeyvalZoneFull")
    assert pairs_of(site, "plain") == filler
    assert refusal(post(site, "plain", " " * 70000)) == (413, "RequestBodyTooLarge")
    assert refusal(post(site, "plain", {"k" * 4097: "v"})) == (400, "KeyvalFormatError")
    assert 'keyval_zone "plain" has no room' in site.error_log
    assert api(site, "DELETE", "/http/keyvals/plain")[0] == 204
    assert post(site, "plain", filler)[0] == 201


def test_numbers_of_zones(serve):
    server = serve("keyval_zone zone=z:64k; server { listen 127.0.0.1:@PORT@; location /api { api write=on; }"
                   " location /m { metrics; } }")
    assert post(server, "z", {"a": "1", "b": "2"})[0] == 201
    assert 'portunus_keyval_pairs{zone="z"} 2\n' in server.get("/m").text


def stored(server):
    try:
        with open(server.path("logs/plain.json"), encoding="utf-8") as file:
            return json.load(file)
    except FileNotFoundError:
        return None


def test_a_zone_outlives_reload_and_restart(serve):
    server = serve(HTTP, main=STREAM)
    assert post(server, "plain", {"a": "1", "b": {"value": "2", "expire": 3600000}})[0] == 201
    assert post(server, "net", {"10.0.0.1": "x"})[0] == 201
    until(lambda: stored(server) is not None and len(stored(server)) == 2, "the file")
    kept = stored(server)
    assert kept["a"] == "1" and kept["b"]["value"] == "2" and kept["b"]["expires"] > 1700000000000
    old = server.children()
    server.reload()
    wait_workers(server, 2, without=old)
    assert pairs_of(server, "plain") == {"a": "1", "b": "2"} and pairs_of(server, "net") == {"10.0.0.1": "x"}
    assert patch(server, "plain", {"a": "3"})[0] == 204
    server.quit()
    server.wait_end()
    assert stored(server)["a"] == "3"
    server.start()
    assert pairs_of(server, "plain") == {"a": "3", "b": "2"} and pairs_of(server, "net") == {}
    assert not [name for name in os.listdir(server.path("logs")) if name.endswith(".new")]


def test_what_another_service_writes_of_the_same_file_is_left_alone(serve):
    """While the program is upgraded two services write the file. Both did under one name: what came of it could be no JSON."""
    server = serve(HTTP, main=STREAM, files={"logs/plain.json.new": '{"half": "of anoth'})
    before = os.stat(server.path("logs/plain.json.new")).st_ino
    assert post(server, "plain", {"a": "1"})[0] == 201
    until(lambda: stored(server) == {"a": "1"}, "the file")
    assert os.stat(server.path("logs/plain.json.new")).st_ino == before != os.stat(server.path("logs/plain.json")).st_ino
    with open(server.path("logs/plain.json.new"), encoding="utf-8") as file:
        assert file.read() == '{"half": "of anoth'


def test_a_file_that_a_reload_renames_has_all_pairs(serve):
    """The new file was not written before the next change: a restart lost all pairs."""
    server = serve(HTTP, main=STREAM)
    assert post(server, "plain", {"a": "1"})[0] == 201
    until(lambda: stored(server) == {"a": "1"}, "the file")
    server.configure(http=HTTP.replace("logs/plain.json", "logs/renamed.json"), main=STREAM)
    server.reload()
    until(lambda: os.path.exists(server.path("logs/renamed.json")), "the file under its new name")
    server.quit()
    server.wait_end()
    server.start()
    assert pairs_of(server, "plain") == {"a": "1"}


def test_another_type_is_refused_by_a_reload(serve):
    text = "keyval_zone zone=z:64k%s; keyval $arg_k $v zone=z; server { listen 127.0.0.1:@PORT@; location /api { api write=on; } location / { return 200 $v; } }"
    server = serve(text % "", allow=["has another type than before"])
    assert post(server, "z", {"10.0.0.1": "x"})[0] == 201
    server.configure(http=text % " type=ip")
    server.signal("reload")
    server.wait_log("has another type than before")
    assert server.get("/?k=10.0.0.1").text == "x"


def test_a_large_zone_is_shown_and_written_in_pieces(serve):
    """More than request_memory_limit: an answer was 500. While the file was written changes that came were missing for ten seconds."""
    server = serve("keyval_zone zone=big:48m state=logs/plain.json; keyval_zone zone=small:64k; client_max_body_size 8m;"
                   " server { listen 127.0.0.1:@PORT@; location /api { api write=on; } }")
    pairs = {}
    for part in range(5):
        more = {"k%d-%d" % (part, number): "\n%d" % number * 60 for number in range(10000)}
        assert post(server, "big", more)[0] == 201
        pairs.update(more)
    assert post(server, "small", {"a": "1"})[0] == 201
    assert pairs_of(server, "big") == pairs
    response = server.get("/api/9/http/keyvals/big", version="1.0")
    assert json.loads(response.body) == pairs and response.header("Content-Length") is None
    assert server.get("/api/9/http/keyvals/small").header("Content-Length") == "9"
    assert api(server, "GET", "/http/keyvals")[1] == {"big": pairs, "small": {"a": "1"}}
    assert server.get("/api/9/http/keyvals/big", method="HEAD").body == b""
    assert api(server, "GET", "/http/keyvals/big?key=k4-9999") == (200, {"k4-9999": pairs["k4-9999"]})
    for number in range(40):
        assert patch(server, "big", {"k0-0": "last%d" % number})[0] == 204
    pairs["k0-0"] = "last39"
    until(lambda: stored(server) == pairs, "the file", 8)
    assert api(server, "DELETE", "/http/keyvals/big")[0] == 204
    assert pairs_of(server, "big") == {}
    assert post(server, "big", dict(list(pairs.items())[:20000]))[0] == 201


def test_what_was_cleared_comes_back_in_no_way(serve):
    server = serve(HTTP, main=STREAM)
    for zone, key, target, place in (("net", "10.0.0.0/8", "/?k=10.1.1.1", 2), ("path", "/a", "/ab", 3)):
        assert post(server, zone, {key: "x"})[0] == 201
        assert api(server, "DELETE", "/http/keyvals/" + zone)[0] == 204
        assert values(server, target)[place] == ""
        assert refusal(patch(server, zone, {key: "y"})) == (404, "KeyvalKeyNotFound")
        assert post(server, zone, {key: "z"})[0] == 201
        assert values(server, target)[place] == "z"
        assert api(server, "GET", "/http/keyvals/%s?key=%s" % (zone, key)) == (200, {key: "z"})


@pytest.mark.parametrize("kind, key, target", [("string", "/abc", "/abc"), ("prefix", "/ab", "/abc"), ("ip", "127.0.0.0/8", "/"),
                                               ("prefix", "/" + "a" * 1500, "/" + "a" * 1501)])
def test_the_smallest_zone_holds_pairs(serve, kind, key, target):
    server = serve("keyval_zone zone=z:32k type=%s; keyval %s $v zone=z; server { listen 127.0.0.1:@PORT@;"
                   " location /api { api write=on; } location / { return 200 $v; } }"
                   % (kind, "$remote_addr" if kind == "ip" else "$uri"))
    assert post(server, "z", {key: "found"})[0] == 201
    more = ["%d.1.1.1" % number if kind == "ip" else "/%s%d" % ("x" * number, number) for number in range(1, 21)]
    assert post(server, "z", dict.fromkeys(more, "v"))[0] == 201
    assert server.get(target).text == "found"


def test_a_zone_outlives_its_workers(serve):
    server = serve(HTTP, main=STREAM, allow=[r"exited on signal 9"])
    assert post(server, "path", {"/a": "1"})[0] == 201
    old = server.children()
    for pid in old:
        os.kill(pid, signal.SIGKILL)
    wait_workers(server, 2, without=old)
    assert values(server, "/a")[3] == "1"


def test_a_file_by_hand(serve):
    server = serve(HTTP, main=STREAM, files={
        "logs/plain.json": '{"a": "1",\n "old": {"value": "x", "expires": 1000},\n "b": {"value": "2"}}\n'})
    assert pairs_of(server, "plain") == {"a": "1", "b": "2"}


@pytest.mark.parametrize("text, message", [
    ("keyval_zone zone=a;", 'invalid zone size "zone=a"'),
    ("keyval_zone zone=a:x;", 'invalid zone size "zone=a:x"'),
    ("keyval_zone zone=:64k;", 'invalid zone size "zone=:64k"'),
    ("keyval_zone zone=a:4k;", 'zone "zone=a:4k" is too small'),
    ("keyval_zone state=x;", '"keyval_zone" must have "zone" parameter'),
    ("keyval_zone zone=a:64k timeout=0;", 'invalid parameter "timeout=0"'),
    ("keyval_zone zone=a:64k timeout=x;", 'invalid parameter "timeout=x"'),
    ("keyval_zone zone=a:64k type=x;", 'invalid parameter "type=x"'),
    ("keyval_zone zone=a:64k state=;", 'invalid parameter "state="'),
    ("keyval_zone zone=a:64k sync;", '"sync" needs a "redis_store"'),
    ("keyval_zone zone=a:64k; keyval_zone zone=a:64k;", 'duplicate zone "a"'),
    ("keyval_zone zone=a:64k; limit_req_zone $uri zone=a:64k rate=1r/s;", "already declared for a different use"),
    ("keyval $uri $x zone=a;", 'zero size shared memory zone "a"'),
    ("keyval $uri $x a;", 'invalid parameter "a"'),
    ("keyval $uri x zone=a;", 'invalid variable name "x"'),
    ("keyval $uri $uri zone=a;", 'the duplicate "uri" variable'),
    ("keyval_zone zone=a:64k state=logs/bad.json;", "is no object of JSON"),
    ("keyval_zone zone=a:64k state=logs/null.json;", "has no value"),
    ("keyval_zone zone=a:64k state=logs/good.json type=ip;", "is none for this type of zone"),
    ("keyval_zone zone=a:64k state=logs;", "cannot read"),
    ("server { location / { api write=maybe; } }", 'invalid parameter "write=maybe"'),
    ("api;", '"api" directive is not allowed here'),
])
def test_configurations_that_are_wrong(text, message, tmp_path):
    (tmp_path / "logs").mkdir()
    for name, data in (("bad", "{"), ("null", '{"a":null}'), ("good", '{"a":"b"}')):
        (tmp_path / "logs" / (name + ".json")).write_text(data)
    (tmp_path / "c").write_text("pid pid; error_log stderr; events { } http { %s server { listen 127.0.0.1:1; } }" % text)
    done = run_binary("-t", "-p", str(tmp_path), "-c", "c", "-e", "stderr")
    assert done.returncode == 1 and message in done.stderr, done.stderr
