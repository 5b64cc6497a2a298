"""request_memory_limit: a request that takes too much is answered with 500, its connection closed, others are not harmed."""

import pytest

from harness.h2 import H2
from harness.workers import wait_workers

DOUBLE = "".join("set $%s $%s$%s;" % (new, old, old) for old, new in zip("abcdefghijk", "bcdefghijkl"))
START = "set $a %s;" % ("x" * 1000)  # a thousand, doubled eleven times: two million


@pytest.fixture(name="site")
def _site(serve):
    def start(limit="request_memory_limit 256k;"):
        return serve("http2 on; ssi on; ssi_types *; access_log logs/access.log; server { listen 127.0.0.1:@PORT@; %s"
                     "location = /large { %s %s return 200 $l; }"
                     "location = /page { root html; }"
                     "location = /part { %s set $c $a$a$a$a$a$a$a$a; return 200 part; }"
                     "location = /none { request_memory_limit 0; %s %s return 200 $l; }"
                     "location = /body { client_body_buffer_size 1m; client_max_body_size 2m; proxy_pass http://127.0.0.1:@PORT@/ok; }"
                     "location = /ok { return 200 ok; }"
                     "location = /memory { return 200 $request_memory; }"
                     "location = /limits { return 200 $limits_reached; } }"
                     % (limit, START, DOUBLE, START, START, DOUBLE),
                     files={"html/page": '<!--# include virtual="/part" -->' * 40})
    return start


def test_request_over_its_limit(site):
    server = site()
    with server.client() as client:
        assert client.request("/ok").text == "ok"
        response = client.request("/large")
        assert response.status == 500 and response.closes and "500 Internal" in response.text
        client.expect_closed()
    with H2(server.port) as client:
        assert client.get("/large").status == 500
        assert client.get("/ok").body == b"ok"
    assert server.wait_log("takes more memory than request_memory_limit allows: .*GET /large")
    assert server.get("/limits").text == "2"
    assert server.get("/none").text == "x" * 1000 * 2 ** 11
    assert 4096 <= int(server.get("/memory").text) <= 16384


def test_subrequests_count_for_their_request(site):
    server = site()
    with server.client() as client:
        client.send("GET /page HTTP/1.1\r\nHost: a\r\n\r\n")
        assert client.rest_or_reset().count(b"part") < 40
    with H2(server.port) as client:
        answer = client.get("/page")
        assert answer.reset is not None and answer.body.count(b"part") < 40
    assert server.wait_log("request_memory_limit allows")
    assert server.get("/limits").text == "2"


def test_what_is_enough_and_what_does_not_count(site):
    server = site("")
    assert server.get("/page").text == "part" * 40
    assert server.get("/large").text == "x" * 1000 * 2 ** 11
    server = site()
    assert server.client().request("/body", method="POST", body=b"b" * 900000).text == "ok"
    assert server.get("/limits").text == "0"


@pytest.mark.parametrize("name", ["doubled", "many"])
def test_ssi_values_that_grow(serve, name):
    """Directives that never wait end with their request, not with the worker."""
    double = '<!--#set var="a" value="$a$a" -->'
    start = '<!--#set var="a" value="%s" -->' % ("x" * 128)
    server = serve("ssi on; ssi_types *; ssi_value_length 4k; server { listen 127.0.0.1:@PORT@; request_memory_limit 256k;"
                   "root html; location = /limits { ssi off; return 200 $limits_reached; } }",
                   files={"html/doubled": start.replace("x", "x" * 7) + double * 60,
                          "html/many": start + double * 8 + '<!--#set var="b" value="%s" -->' % ("$a" * 1000)})
    workers = wait_workers(server, 1)
    with server.client() as client:
        client.send("GET /%s HTTP/1.1\r\nHost: a\r\n\r\n" % name)
        if name == "doubled":
            client.rest_or_reset()
        else:
            assert "an error occurred" in client.response().text
    assert server.get("/limits").text == ("1" if name == "doubled" else "0")
    assert server.children() == workers
    server.wait_log("takes more memory than request_memory_limit" if name == "doubled"
                    else "an SSI value is longer than request_memory_limit")


def test_worker_without_memory_is_followed_by_another(serve):
    """However it came to that: here by values of the configuration, in a place that no limit looks at."""
    server = serve("server { listen 127.0.0.1:@PORT@; location = /large { request_memory_limit 4k; %s %s return 200 $l; }"
                   "location = /ok { return 200 ok; } }" % (START, DOUBLE), allow=[r"malloc\(\d+\) failed"])
    workers = wait_workers(server, 1)
    with server.client() as client:
        client.send("GET /large HTTP/1.1\r\nHost: a\r\n\r\n")
        assert client.rest_or_reset() == b""
    server.wait_log(r"worker process %d exited with code 1" % workers[0])
    wait_workers(server, 1, without=workers)
    assert server.get("/ok").text == "ok"
