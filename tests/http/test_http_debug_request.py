"""debug_request: the way of a request as JSON, for those who may ask for it and nobody else."""

import json
import os
import stat

import pytest

from harness import binaries, run_binary
from harness.backend import Backend

pytestmark = pytest.mark.skipif("Portunus" not in binaries.version_text(binaries.under_test()),
                                reason="nginx has no such directive")

SECRET = "0123456789abcdef"
HEADER = "X-Debug: " + SECRET
HTTP = """
debug_request debug.log header=X-Debug:%s;
proxy_cache_path cache keys_zone=c:1m;
upstream backs { server 127.0.0.1:@PORT1@; server @BACK@ backup; }
server { listen 127.0.0.1:@PORT@; server_name a.example;
    location / { return 200 root; }
    location ~ \\.no$ { return 200 no; }
    location ~ ^/re { rewrite ^ /in/x last; }
    location /in/ { allow 127.0.0.1; deny all; location /in/x { return 200 $http_x_debug; } }
    location /deny { deny all; }
    location = /exact { return 200 e; }
    location /p { proxy_pass http://backs; proxy_cache c; proxy_cache_valid 1h; add_header A b; }
    location /s.html { ssi on; ssi_types *; root html; }
}
server { listen 127.0.0.1:@PORT@; server_name b.example; debug_request off; location / { return 200 off; } }
""" % SECRET


OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


@pytest.fixture
def server(serve):
    backend = Backend([OK])
    server = serve(HTTP.replace("@BACK@", "127.0.0.1:%d" % backend.port),
                   files={"html/s.html": '<!--# include virtual="/in/x" -->'})
    server.backend = backend
    yield server
    backend.close()


def ways(server, count=1):
    return [json.loads(line) for line in server.wait_lines("debug.log", count)]


def steps(way, name):
    return [step for step in way["way"] if step["step"] == name]


def test_nothing_is_written_without_the_secret(server):
    for lines in ([], ["X-Debug: x"], ["X-Debug: " + SECRET[:-1]], ["X-Debug: " + SECRET * 2],
                  ["X-Debug:"], ["X-Other: " + SECRET]):
        assert server.get("/", *lines, host="a.example").text == "root"
    server.get("/exact", HEADER, host="a.example")
    way, = ways(server)
    assert way["request"] == "GET /exact HTTP/1.1"
    assert server.get("/", HEADER, host="b.example").text == "off"
    assert len(ways(server)) == 1


def test_why_this_server(server):
    server.get("/", HEADER, host="a.example")
    server.get("/", HEADER, host="other.example")
    named, default = ways(server, 2)
    assert named["server"]["why"] == "server_name" and named["server"]["matched"] == "a.example"
    assert default["server"]["why"] == "default server of the address"
    assert default["server"]["host"] == "other.example" and default["server"]["name"] == "a.example"
    assert named["server"]["file"] == server.path("nginx.conf") and named["server"]["line"] > 1


def test_locations_in_order(server):
    server.get("/exact", HEADER, host="a.example")
    server.get("/other", HEADER, host="a.example")
    exact, other = (steps(way, "location")[0] for way in ways(server, 2))
    assert [(one["location"], one["result"]) for one in exact["tried"]] == [
        ("/", "a longer one matched"), ("/exact", "taken")]
    assert [(one["modifier"] + one["location"], one["result"]) for one in other["tried"]] == [
        ("/", "taken"), ("~\\.no$", "no match"), ("~^/re", "no match")]


def test_rewrite_and_access(server):
    assert server.get("/re", HEADER, host="a.example").text == "", "the secret stays here"
    way, = ways(server)
    assert [step["location"] for step in steps(way, "location")] == ["^/re", "/in/x"]
    assert steps(way, "rewrite")[0]["uri"] == "/in/x"
    assert [one["location"] for one in steps(way, "location")[1]["tried"]
            if one["result"] == "taken"] == ["/in/", "/in/x"]
    assert way["status"] == 200


def test_a_refusal_is_named(server):
    assert server.get("/deny", HEADER, host="a.example").status == 403
    way, = ways(server)
    access, = steps(way, "access")
    assert (access["module"], access["result"], access["status"]) == ("access", "fail", 403)
    assert way["status"] == 403


def test_peers_and_the_cache(server):
    for _ in range(2):
        assert server.get("/p", HEADER, host="a.example").text == "ok"
    miss, hit = ways(server, 2)
    produced, = steps(miss, "produced")
    assert produced["cache"] == {"status": "MISS", "key": "http://backs/p"}
    assert [(one["peer"], one["result"]) for one in produced["attempts"]] == [
        ("127.0.0.1:%d" % server.port_of("PORT1"), "not connected"),
        ("127.0.0.1:%d" % server.backend.port, "response")]
    assert produced["attempts"][1]["status"] == 200 and produced["attempts"][1]["group"] == "backs"
    assert "headers" in miss["filters"]
    assert steps(hit, "produced")[0]["cache"]["status"] == "HIT"
    assert hit["response_bytes"] > 2 and hit["request_bytes"] > 2


def test_subrequests_belong_to_their_request(server):
    assert server.get("/s.html", HEADER, host="a.example").status == 200
    way, = ways(server)
    assert [step["location"] for step in way["way"] if step.get("subrequest")
            and step["step"] == "location"] == ["/in/x"]


def test_the_log_is_secret(server):
    assert stat.S_IMODE(os.stat(server.path("debug.log")).st_mode) == 0o600


def test_what_clients_send_is_escaped_and_cut(server):
    server.get("/" + "%22%0a%ff" * 900, HEADER, host="a.example")
    way, = ways(server)
    assert steps(way, "location")[0]["uri"].startswith('/"\n"\n')
    assert len(steps(way, "location")[0]["uri"]) <= 1024


@pytest.mark.parametrize("before", ["X-Debug: other", HEADER])
def test_the_secret_is_found_and_removed_wherever_it_is(server, before):
    server.get("/p", before, HEADER, host="a.example")
    assert SECRET.encode() not in server.backend.requests[0]
    assert len(ways(server)) == 1


def test_memory_of_a_way_is_bounded(serve):
    server = serve("""
        debug_request debug.log address=127.0.0.0/8;
        server { listen 127.0.0.1:@PORT@; location / { ssi on; root html; } }
    """, files={"html/index.html": '<!--# include virtual="/a.html" -->' * 150, "html/a.html": "a" * 10})
    assert server.get("/index.html", host="a.example").text.count("a" * 10) == 150
    way, = ways(server)
    assert way["is_cut"] is True and len(json.dumps(way)) < 64 * 1024


@pytest.mark.parametrize("words", ["debug.log", "debug.log header=X:short", "debug.log header=" + SECRET,
                                   "debug.log address=nowhere", "debug.log other=1"])
def test_errors(tmp_path, words):
    (tmp_path / "nginx.conf").write_text("pid nginx.pid; events { } http { access_log off; debug_request %s; }" % words)
    done = run_binary("-t", "-p", "%s/" % tmp_path, "-c", "nginx.conf", "-e", "error.log")
    assert done.returncode == 1 and '"debug_request"' in done.stderr
