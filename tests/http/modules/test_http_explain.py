"""explain: the way of a request that `debug_request` chose, shown by the API to those who have its id."""

import json
import re

import pytest

import certificates
from harness import h3, run_binary, until
from harness.backend import Backend
from harness.h2 import H2
from harness.h3 import H3
from harness.workers import wait_workers

SECRET = "0123456789abcdef"
HEADER = "X-Debug: " + SECRET
HTTP = """
debug_request zone=ways:1m header=X-Debug:%s;
server { listen 127.0.0.1:@PORT@;
    location / { return 200 root; }
    location /api { api write=on; allow 127.0.0.1; deny all; }
    location /look { api; }
    location /locked { api; deny all; }
    location /deny { deny all; error_page 403 /why; }
    location /why { return 200 why; }
    location /p { proxy_pass http://127.0.0.1:@BACK@; }
    location /s.html { ssi on; root html; }
    location /in { return 200 in; }
    location /cut { return 444; }
}
""" % SECRET


@pytest.fixture
def server(serve):
    backend = Backend([b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX-Explain-ID: from-the-backend\r\n\r\nok"])
    server = serve(HTTP.replace("@BACK@", str(backend.port)), files={"html/s.html": '<!--# include virtual="/in" -->'})
    server.backend = backend
    yield server
    backend.close()


def explain(server, number, *headers, method="GET", path="/api", query=""):
    response = server.get("%s/9/explain/%s%s" % (path, number, query), *headers, method=method)
    return response.status, (json.loads(response.body) if response.body else None)


def explanation(server, number):
    """A request ends a moment after its client has the response."""
    return until(lambda: (lambda result: result[1] if result[0] == 200 else None)(explain(server, number)), "the explanation")


def code_of(result):
    return result[0], result[1]["error"]["code"]


def test_the_client_gets_an_id_and_the_api_shows_the_way(server):
    response = server.get("/?token=a", HEADER)
    number = response.header("X-Explain-ID")
    assert re.fullmatch("[0-9a-f]{32}", number)
    way = explanation(server, number)
    assert (way["id"], way["request"], way["status"]) == (number, "GET /?token=a HTTP/1.1", 200)
    assert [step["location"] for step in way["way"] if step["step"] == "location"] == ["/"]
    assert explain(server, number.upper())[0] == 200
    assert server.get("/api/9/explain/" + number).header("Cache-Control") == "no-store"
    assert "explain" in json.loads(server.get("/api/9/").body)


def test_without_the_secret_there_is_no_id(server):
    assert server.get("/").header("X-Explain-ID") is None
    assert server.get("/", HEADER + "x").header("X-Explain-ID") is None


def test_ids_cannot_be_listed_and_each_shows_its_own_request(server):
    first, second = (server.get("/?who=" + who, HEADER).header("X-Explain-ID") for who in ("one", "two"))
    assert first != second
    assert "who=two" not in json.dumps(explanation(server, first)) and "who=one" not in json.dumps(explanation(server, second))
    for path in ("explain", "explain/", "explain?fields="):
        assert code_of((lambda r: (r.status, json.loads(r.body)))(server.get("/api/9/" + path))) == (404, "PathNotFound")
    near = first[:-1] + ("0" if first[-1] != "0" else "1")
    for number in (near, "0" * 32, first[:31], first + "0", "%ff" * 32, "z" * 32, "x" * 3000):
        assert code_of(explain(server, number)) == (404, "ExplanationNotFound")
    assert code_of(explain(server, first + "/more")) == (404, "PathNotFound")


def test_the_rules_of_the_location_hold(server):
    number = server.get("/", HEADER).header("X-Explain-ID")
    explanation(server, number)
    assert server.get("/locked/9/explain/" + number).status == 403
    assert code_of(explain(server, number, path="/look", method="DELETE")) == (405, "MethodDisabled")
    assert code_of(explain(server, number, method="POST")) == (405, "MethodNotSupported")
    assert code_of(explain(server, number, "Origin: http://other.example", method="DELETE")) == (403, "CrossOrigin")
    assert explain(server, number, path="/look")[0] == 200


def test_head_fields_and_removal(server):
    number = server.get("/", HEADER).header("X-Explain-ID")
    explanation(server, number)
    head = server.get("/api/9/explain/" + number, method="HEAD")
    assert head.status == 200 and head.body == b"" and int(head.header("Content-Length")) > 100
    assert explain(server, number, query="?fields=status,id")[1] == {"id": number, "status": 200}
    assert explain(server, number, method="DELETE")[0] == 204
    assert explain(server, number)[0] == 404


def test_a_field_of_a_backend_is_replaced(server):
    assert server.get("/p").header("X-Explain-ID") == "from-the-backend"
    number = server.get("/p", HEADER).header("X-Explain-ID")
    assert [step["attempts"][0]["status"] for step in explanation(server, number)["way"] if step["step"] == "produced"] == [200]


def test_error_pages_and_subrequests_have_one_id(server):
    refused = server.get("/deny", HEADER)
    assert refused.text == "why"
    way = explanation(server, refused.header("X-Explain-ID"))
    assert [step["location"] for step in way["way"] if step["step"] == "location"] == ["/deny", "/why"]
    way = explanation(server, server.get("/s.html", HEADER).header("X-Explain-ID"))
    assert [step["location"] for step in way["way"] if step.get("subrequest") and step["step"] == "location"] == ["/in"]


def test_an_old_client(server):
    response = server.get("/", HEADER, version="1.0")
    assert explanation(server, response.header("X-Explain-ID"))["request"] == "GET / HTTP/1.0"


def test_what_clients_send_is_escaped(server):
    target = "/" + "%22%5c%0a%ff%7f</script>" * 100
    number = server.get(target, HEADER).header("X-Explain-ID")
    way = explanation(server, number)
    assert way["way"][0]["uri"].startswith('/"\\\n\x7f</script>') and len(way["way"][0]["uri"]) <= 1024


def test_reload_and_other_workers(serve):
    server = serve(HTTP.replace("@BACK@", "1"), main="worker_processes 2;")
    old = wait_workers(server, 2)
    number = server.get("/", HEADER).header("X-Explain-ID")
    way = explanation(server, number)
    server.reload()
    wait_workers(server, 2, without=old)
    assert {json.dumps(explain(server, number)[1]) for _ in range(8)} == {json.dumps(way)}


def test_without_a_master(serve):
    server = serve(HTTP.replace("@BACK@", "1"), main="master_process off;")
    assert explanation(server, server.get("/", HEADER).header("X-Explain-ID"))["status"] == 200


def test_a_file_and_a_zone(serve):
    server = serve("""debug_request debug.log zone=ways:256k address=127.0.0.0/8;
        server { listen 127.0.0.1:@PORT@; location / { return 200 x; } location /api { api; } }
        server { listen 127.0.0.1:@PORT1@; debug_request off; location / { return 200 x; } }""")
    number = server.get("/").header("X-Explain-ID")
    assert explanation(server, number) == json.loads(server.wait_lines("debug.log")[0])
    assert server.get("/", port=server.port_of("PORT1")).header("X-Explain-ID") is None


def test_http2(serve):
    server = serve(HTTP.replace("@BACK@", "1").replace("location / {", "http2 on; location / {", 1))
    with H2(server.port) as client:
        answer = client.get("/", headers=[("x-debug", SECRET)])
        way = explanation(server, answer.headers["x-explain-id"])
        shown = client.get("/api/9/explain/" + way["id"])
    assert way["request"] == "GET / HTTP/2.0" and json.loads(shown.body) == way


@pytest.mark.skipif(not h3.HAS_AIOQUIC, reason="without aioquic: see auto/aioquic")
def test_http3(serve):
    made = certificates.own("localhost")
    server = serve(("ssl_certificate %s; ssl_certificate_key %s;" % (made.crt, made.key)
                    + HTTP.replace("@BACK@", "1").replace("location / {", "listen 127.0.0.1:@PORT@ quic; location / {", 1)))
    with H3(server.port) as client:
        answer = client.get("/", headers=[("x-debug", SECRET)])
        way = explanation(server, answer.headers["x-explain-id"])
        shown = client.get("/api/9/explain/" + way["id"])
    assert way["request"] == "GET / HTTP/3.0" and json.loads(shown.body) == way


@pytest.mark.parametrize("words, message", [
    ("zone=z:1m", '"debug_request" wants a "header=" or an "address="'),
    ("zone=z address=::1", 'invalid zone size "z"'),
    ("zone=:1m address=::1", 'invalid zone size ":1m"'),
    ("zone=z:x address=::1", 'invalid zone size "z:x"'),
    ("zone=z:64k address=::1", 'zone "z" is too small: it needs at least 256k'),
])
def test_errors(tmp_path, words, message):
    (tmp_path / "nginx.conf").write_text("pid nginx.pid; events { } http { access_log off; debug_request %s; }" % words)
    done = run_binary("-t", "-p", "%s/" % tmp_path, "-c", "nginx.conf", "-e", "error.log")
    assert done.returncode == 1 and message in done.stderr
