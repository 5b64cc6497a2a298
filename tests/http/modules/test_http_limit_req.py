"""limit_req: who passes, who waits, who is refused. Rates are so low or so high that time does not matter."""

import re

import pytest

from harness import binaries, run_binary
from harness.h2 import H2

needs_portunus = pytest.mark.skipif("Portunus" not in binaries.version_text(binaries.under_test()),
                                    reason="not Portunus")

FRAME = """
    limit_req_zone $arg_k zone=slow:1m rate=1r/m;
    limit_req_zone $arg_k zone=other:1m rate=2r/m;
    limit_req_zone $arg_k zone=fast:1m rate=50r/s;
    add_header X-Status $limit_req_status always;
    %(http)s
    server { listen 127.0.0.1:@PORT@; listen 127.0.0.1:@PORT1@ %(h2)s; %(server)s
        location / { limit_req zone=slow; root html; }
        location /burst { limit_req zone=slow burst=2; root html; }
        location /nodelay { limit_req zone=slow burst=2 nodelay; root html; }
        location /fast { limit_req zone=fast burst=1000; root html; }
        location /free { root html; }
    }
"""
FILES = {"html/" + name: name for name in ("a", "burst", "nodelay", "fast", "free", "both", "dry", "in/a", "inside")}


@pytest.fixture(name="site")
def _site(serve):
    def start(server="", http="", h2="", **more):
        return serve(FRAME % {"server": server, "http": http, "h2": h2}, files=FILES, **more)
    return start


def ask(server, target):
    """Status and $limit_req_status."""
    response = server.get(target)
    return response.status, response.header("X-Status")


PASSED, REJECTED, NONE = (200, "PASSED"), (503, "REJECTED"), (200, None)


def test_one_a_minute(site):
    server = site()
    assert [ask(server, "/a?k=a") for _ in range(3)] == [PASSED, REJECTED, REJECTED]
    assert [ask(server, "/a?k=b") for _ in range(2)] == [PASSED, REJECTED]
    assert [ask(server, "/free?k=a") for _ in range(2)] == [NONE] * 2
    server.wait_log(r'\[error\] \S+ \*\d+ limiting requests, excess: (1\.000|0\.9\d\d) by zone "slow", '
                    r'client: 127\.0\.0\.1, server: , request: "GET /a\?k=a HTTP/1\.1", host: "localhost')


def test_empty_keys_are_not_counted(site):
    server = site()
    assert [ask(server, target) for target in ("/a", "/a", "/a?k=", "/a?k=")] == [NONE] * 4


@needs_portunus
def test_long_keys_are_counted(site):
    """With nginx the longest key has 65535 bytes."""
    server = site(http="large_client_header_buffers 4 80k;")
    key = "/a?k=" + "k" * 70000
    assert [ask(server, key), ask(server, key), ask(server, key + "1")] == [PASSED, REJECTED, PASSED]


def test_burst_without_delay(site):
    server = site()
    assert [ask(server, "/nodelay?k=a") for _ in range(5)] == [PASSED] * 3 + [REJECTED] * 2
    assert ask(server, "/a?k=a") == REJECTED
    server.wait_log(r"limiting requests, excess: (3\.000|2\.9\d\d) by zone")


def test_delay_spares_the_first(site):
    server = site("location /spared { limit_req zone=slow burst=5 delay=3; empty_gif; }")
    assert [ask(server, "/spared?k=a") for _ in range(4)] == [PASSED] * 4
    with server.client() as client:
        client.send("GET /spared?k=a HTTP/1.1\r\nHost: a\r\n\r\n")
        server.wait_log(r"\[warn\] .*delaying request, excess: (4\.000|3\.9\d\d), by zone \"slow\"")


def test_delayed_requests_pass_in_the_end(site):
    server = site()
    clients = [server.client() for _ in range(20)]
    try:
        for client in clients:
            client.send("GET /fast?k=a HTTP/1.1\r\nHost: a\r\n\r\n")
        answers = [client.response() for client in clients]
    finally:
        for client in clients:
            client.close()
    assert [answer.status for answer in answers] == [200] * 20
    told = [answer.header("X-Status") for answer in answers]
    assert set(told) <= {"PASSED", "DELAYED"} and "PASSED" in told


def test_others_are_served_while_one_waits(site):
    server = site(http='log_format l "$request_uri $status $limit_req_status"; access_log logs/l.log l;')
    assert ask(server, "/burst?k=a") == PASSED
    with server.client() as client:
        client.send("GET /burst?k=a HTTP/1.1\r\nHost: a\r\n\r\n")
        server.wait_log("delaying request")
        assert ask(server, "/burst?k=b") == PASSED
        assert ask(server, "/free?k=a") == NONE
    # The client is gone: nobody waits a minute for it.
    lines = server.wait_lines("logs/l.log", 4)
    assert "/burst?k=a 499 DELAYED" in lines


def test_stream_that_is_cancelled_while_it_waits(site):
    server = site(http='log_format l "$request_uri $status $limit_req_status"; access_log logs/l.log l;',
                  h2="http2")
    with H2(server.port_of("PORT1")) as client:
        assert client.get("/burst?k=a").status == 200
        client.request("/burst?k=a")
        server.wait_log("delaying request")
        assert client.get("/burst?k=b").status == 200
    assert "/burst?k=a 499 DELAYED" in server.wait_lines("logs/l.log", 3)


def test_pipelined_requests_wait_one_after_the_other(site):
    server = site()
    with server.client() as client:
        client.send("GET /fast?k=a HTTP/1.1\r\nHost: a\r\n\r\n" * 10)
        assert [client.response().status for _ in range(10)] == [200] * 10


# several limits, places inside places

BOTH = """
    location /both { limit_req zone=slow burst=9 nodelay; limit_req zone=other; root html; }
    location /htob { limit_req zone=other; limit_req zone=slow burst=9 nodelay; alias html/both; }
"""


@pytest.mark.parametrize("place", ["/both", "/htob"])
def test_each_limit_must_let_pass(site, place):
    server = site(BOTH)
    assert [ask(server, place + "?k=a") for _ in range(4)] == [PASSED] + [REJECTED] * 3
    # What one refused, the other has not counted.
    assert [ask(server, "/nodelay?k=a") for _ in range(3)] == [PASSED] * 2 + [REJECTED]
    told = [re.search('by zone "(.*?)"', line)[1] for line in server.lines("error.log") if "limiting" in line]
    assert told == ["other"] * 3 + ["slow"]


def test_longest_delay_counts(site):
    server = site("location /two { limit_req zone=fast burst=9; limit_req zone=slow burst=9; empty_gif; }")
    assert ask(server, "/two?k=a") == PASSED
    with server.client() as client:
        client.send("GET /two?k=a HTTP/1.1\r\nHost: a\r\n\r\n")
        server.wait_log('delaying request, .* by zone "slow"')


def test_inheritance(site):
    server = site("""
        limit_req zone=slow; limit_req_status 429;
        location /in { root html; }
        location /in/own { limit_req zone=other; empty_gif; }
    """)
    assert [ask(server, "/in/a?k=a") for _ in range(2)] == [PASSED, (429, "REJECTED")]
    assert [ask(server, "/in/own?k=a") for _ in range(2)] == [PASSED, (429, "REJECTED")]


REDIRECTS = """
    location /page { limit_req zone=slow; error_page 503 =503 /inside; empty_gif; }
    location /inside { limit_req zone=port; root html; }
    location /subs { limit_req zone=slow burst=1 nodelay; addition_types *; add_before_body /inside;
                     add_after_body /inside; alias html/a; }
"""


def test_a_request_is_counted_once(site):
    """Redirects and subrequests inside are part of it."""
    server = site(REDIRECTS, http="limit_req_zone $server_port zone=port:1m rate=1r/m;")
    assert [server.get("/subs?k=a").text for _ in range(2)] == ["insideainside"] * 2
    assert ask(server, "/subs?k=a")[1] == "REJECTED"
    assert ask(server, "/page?k=b") == PASSED
    response = server.get("/page?k=b")
    assert (response.status, response.text, response.header("X-Status")) == (503, "inside", "REJECTED")
    assert [ask(server, "/inside") for _ in range(2)] == [PASSED, REJECTED]


def test_dry_run(site):
    server = site("""
        location /dry { limit_req_dry_run on; limit_req zone=slow burst=1; root html; }
    """)
    assert [ask(server, "/dry?k=a")[1] for _ in range(4)] == \
        ["PASSED", "DELAYED_DRY_RUN", "REJECTED_DRY_RUN", "REJECTED_DRY_RUN"]
    server.wait_log(r"\[warn\] .*delaying request, dry run, excess: (1\.000|0\.9\d\d), by zone \"slow\"")
    server.wait_log(r"\[error\] .*limiting requests, dry run, excess: (2\.000|1\.9\d\d) by zone \"slow\"")


@pytest.mark.parametrize("level, less", [("info", "info"), ("notice", "info"), ("warn", "notice"), ("error", "warn")])
def test_levels(site, level, less):
    server = site("limit_req_log_level %s;" % level)
    assert [ask(server, "/a?k=a") for _ in range(2)] == [PASSED, REJECTED]
    server.wait_log(r"\[%s\] .*limiting requests" % level)
    with server.client() as client:
        client.send("GET /burst?k=a HTTP/1.1\r\nHost: a\r\n\r\n")
        server.wait_log(r"\[%s\] .*delaying request" % less)


# memory, processes

@needs_portunus
def test_full_zone_forgets_the_oldest(site):
    server = site("location /small { limit_req zone=small; empty_gif; }",
                  http="keepalive_requests 5000; limit_req_zone $arg_k zone=small:32k rate=1r/m;")
    with server.client() as client:
        for number in range(2000):
            assert client.request("/small?k=%d" % number).status == 200
        assert client.request("/small?k=1999").status == 503
        assert client.request("/small?k=1900").status == 503
        assert client.request("/small?k=0").status == 200


def test_workers_count_together(site):
    server = site(main="worker_processes 3;")
    assert [ask(server, "/nodelay?k=a") for _ in range(20)] == [PASSED] * 3 + [REJECTED] * 17


def test_reload_keeps_the_counts(site):
    server = site()
    assert ask(server, "/a?k=a") == PASSED
    server.reload()
    assert ask(server, "/a?k=a") == REJECTED
    assert ask(server, "/a?k=b") == PASSED


def test_reload_with_another_key_is_refused(serve):
    text = FRAME % {"server": "", "http": "", "h2": ""}
    server = serve(text, files=FILES, allow=["uses the"])
    assert ask(server, "/a?k=a") == PASSED
    server.configure(text.replace("limit_req_zone $arg_k zone=slow", "limit_req_zone $uri zone=slow"))
    server.signal("reload")
    server.wait_log(r'\[emerg\] .*limit_req "slow" uses the "\$uri" key while previously it used the "\$arg_k" key')
    assert ask(server, "/a?k=a") == REJECTED


# what Tengine has

@needs_portunus
def test_several_variables(site):
    server = site("location /vars { limit_req zone=vars; empty_gif; }",
                  http="limit_req_zone $arg_a $arg_b $arg_c zone=vars:1m rate=1r/m;")
    for target in ("a=1&b=2", "a=12", "b=12", "a=1&c=2", "b=1&c=2", "c=12", "a=1", "b=1"):
        assert [ask(server, "/vars?" + target) for _ in range(2)] == [PASSED, REJECTED], target
    assert [ask(server, "/vars?d=1") for _ in range(2)] == [NONE] * 2


@needs_portunus
def test_rate_of_a_variable(site):
    server = site("location /rate { limit_req zone=rate burst=1 nodelay; empty_gif; }",
                  http="limit_req_zone $arg_k zone=rate:1m rate=$arg_r;")
    assert [ask(server, "/rate?k=a&r=1r/m") for _ in range(3)] == [PASSED] * 2 + [REJECTED]
    assert [ask(server, "/rate?k=b") for _ in range(3)] == [NONE] * 3
    assert ask(server, "/rate?k=b&r=junk") == NONE
    server.wait_log(r'\[error\] .*invalid rate "junk" of zone "rate", client: ')


@needs_portunus
def test_off(site):
    server = site("limit_req zone=slow; location /in { root html; } location /in/off { limit_req off; empty_gif; }")
    assert [ask(server, "/in/a?k=a") for _ in range(2)] == [PASSED, REJECTED]
    assert [ask(server, "/in/off?k=a") for _ in range(2)] == [NONE] * 2


@needs_portunus
def test_forbid_action(site):
    server = site("""
        location /uri { limit_req zone=slow forbid_action=/free?from=limit; empty_gif; }
        location /named { limit_req zone=slow burst=1 nodelay forbid_action=@full; empty_gif; }
        location /dry { limit_req zone=slow forbid_action=@full; limit_req_dry_run on; root html; }
        location @full { limit_req zone=slow; return 200 "full $args"; }
    """)
    assert ask(server, "/uri?k=a") == PASSED
    response = server.get("/uri?k=a")
    assert (response.status, response.text, response.header("X-Status")) == (200, "free", "REJECTED")
    assert [server.get("/named?k=b").header("Content-Type") for _ in range(2)] == ["image/gif"] * 2
    assert server.get("/named?k=b").text == "full k=b"
    assert ask(server, "/dry?k=a") == (200, "REJECTED_DRY_RUN")


@needs_portunus
def test_whitelist(site):
    server = site("""
        limit_req_whitelist geo_var_name=staff geo_var_value=1;
        location /own { limit_req zone=slow; empty_gif;
            limit_req_whitelist geo_var_name=staff geo_var_value=2;
            limit_req_whitelist geo_var_name=$arg_pass geo_var_value=yes; }
    """, http="map $arg_who $staff { default 0; boss 1; clerk 2; }")
    assert [ask(server, "/a?k=a&who=boss") for _ in range(3)] == [NONE] * 3
    assert [ask(server, "/a?k=a&who=clerk") for _ in range(2)] == [PASSED, REJECTED]
    assert [ask(server, "/own?k=b&who=clerk") for _ in range(2)] == [NONE] * 2
    assert [ask(server, "/own?k=b&pass=yes") for _ in range(2)] == [NONE] * 2
    assert [ask(server, "/own?k=b&who=boss") for _ in range(2)] == [PASSED, REJECTED]


@needs_portunus
@pytest.mark.parametrize("line, words", [
    ("limit_req_zone $uri zone=one:1m rate=1r/s sync;", '"sync" needs a "redis_store"'),
    ("limit_req_zone $uri zone=one:1m rate=$unknown_one;", 'unknown "unknown_one" variable'),
    ("limit_req_zone $uri $unknown_one zone=one:1m rate=1r/s;", 'unknown "unknown_one" variable'),
    ("limit_req_zone $uri zone=one:1m $;", 'invalid parameter "$"'),
    ("limit_req_zone $uri zone=one:1m rate=1r/s; limit_req off; limit_req zone=one;", "is duplicate"),
    ("limit_req_zone $uri zone=one:1m rate=1r/s; limit_req zone=one; limit_req off;", "is duplicate"),
    ("limit_req_zone $uri zone=one:1m rate=1r/s; limit_req zone=one off;", 'invalid parameter "off"'),
    ("limit_req_zone $uri zone=one:1m rate=1r/s; limit_req zone=one forbid_action=;", 'invalid parameter "forbid_'),
    ("limit_req_zone $uri zone=one:1m rate=1r/s; limit_req zone=one forbid_action=x;", 'invalid parameter "forbid_'),
    ("limit_req_whitelist geo_var_name=uri;", "invalid number of arguments"),
    ("limit_req_whitelist geo_var_name= geo_var_value=1;", 'invalid parameter "geo_var_name="'),
    ("limit_req_whitelist geo_var_name=uri geo_var_name=uri;", "must have"),
    ("limit_req_whitelist geo_var_name=uri other=1;", 'invalid parameter "other=1"'),
    ("server { limit_req_status 600; }", "between 400 and 599"),
])
def test_bad_configurations(tmp_path, line, words):
    (tmp_path / "c.conf").write_text("events { }\nhttp { %s }\n" % line)
    result = run_binary("-t", "-p", str(tmp_path), "-c", "c.conf", "-e", "stderr")
    assert result.returncode == 1 and words in result.stderr, result.stderr
