"""reqstat: requests counted by a key, and the page that shows it."""

import os
import signal

import pytest

from harness import run_binary, until

FIELDS = ("bytes_in bytes_out conn_total req_total http_2xx http_3xx http_4xx http_5xx http_other_status rt ups_req ups_rt ups_tries http_200 http_206 "
          "http_302 http_304 http_403 http_404 http_416 http_499 http_500 http_502 http_503 http_504 http_508 http_other_detail_status http_ups_4xx "
          "http_ups_5xx").split()


def table(server, path="/us", port=None):
    """{key: {field: number}}; more columns are indicators 0, 1 ..."""
    rows = {}
    for line in server.get(path, port=port or server.port).text.splitlines():
        key, *numbers = line.split(",")
        names = FIELDS + list(range(len(numbers) - len(FIELDS)))
        assert len(numbers) == len(names) and key not in rows
        rows[key] = dict(zip(names, map(int, numbers)))
    return rows


SHOW = " location = /us { req_status_show; }"


def test_lines(serve):
    server = serve("""req_status_zone server "$host" 1M; server { listen 127.0.0.1:@PORT@; %s
                      location / { req_status server; return 200 hello; } location /no { req_status server; return 404; }
                      location /to { req_status server; return 302 /; } location /out { return 200 x; } }""" % SHOW)
    with server.client() as client:
        for path in ("/", "/", "/no", "/to", "/out"):
            client.request(path, host="a.test")
    with server.client() as client:
        client.request("/", host="b.test")
    rows = table(server)
    assert set(rows) == {"a.test", "b.test"}
    one = rows["a.test"]
    assert (one["req_total"], one["conn_total"], one["http_2xx"], one["http_200"], one["http_4xx"], one["http_404"], one["http_3xx"], one["http_302"]) \
        == (4, 1, 2, 2, 1, 1, 1, 1)
    assert one["bytes_in"] > 100 and one["bytes_out"] > 400 and one["ups_req"] == 0
    assert rows["b.test"]["req_total"] == 1


def test_backends(serve):
    server = serve("""req_status_zone z "$server_name" 1M; upstream u { server 127.0.0.1:@PORT2@; server 127.0.0.1:@PORT1@; }
                      server { listen 127.0.0.1:@PORT@; server_name s; %s
                        location / { req_status z; proxy_pass http://u; proxy_next_upstream error http_500; } }
                      server { listen 127.0.0.1:@PORT1@; return 403; } server { listen 127.0.0.1:@PORT2@; return 500; }""" % SHOW)
    assert server.get("/").status == 403
    row = table(server)["s"]
    assert (row["ups_req"], row["ups_tries"], row["http_ups_4xx"], row["http_ups_5xx"], row["http_403"], row["http_4xx"]) == (1, 2, 1, 1, 1, 1)


def test_several_zones_and_which_are_shown(serve):
    server = serve("""req_status_zone one "$uri" 1M; req_status_zone two "$host,$request_method" 1M; req_status one two;
                      server { listen 127.0.0.1:@PORT@; location /us1 { req_status_show one; } location /us2 { req_status_show two; } location /us { req_status_show; }
                      location / { return 200 x; } }""")
    server.get("/a")
    assert [line.split(",")[0] for line in server.get("/us1").text.splitlines()] == ["/a"]
    assert server.get("/us2").text.startswith("localhost,GET,")
    assert {line.split(",")[0] for line in server.get("/us").text.splitlines()} >= {"/a", "localhost", "/us1", "/us2"}


def test_fields_in_another_order(serve):
    server = serve("""req_status_zone z "$uri" 1M; req_status_zone_add_indicator z $arg_a $arg_b; server { listen 127.0.0.1:@PORT@;
                      location /us { req_status_show z; req_status_show_field http_200 req_total $arg_b $arg_a $arg_c; } location / { req_status z; return 200; } }""")
    server.get("/x?a=5&b=7")
    server.get("/x?a=6&b=nothing")
    assert server.get("/us").text == "/x,2,2,7,11,0\n"


def test_indicators(serve):
    server = serve("""req_status_zone z "$uri" 1M; req_status_zone_add_indicator z $arg_a; server { listen 127.0.0.1:@PORT@; %s
                      location / { req_status z; return 200; } }""" % SHOW)
    for value in (1, 20, 300):
        server.get("/x?a=%d" % value)
    assert table(server)["/x"][0] == 321


@pytest.mark.parametrize("text, counted", [("2.001,%200.5", 2001), ("1.5", 1500), ("0.0049", 4), ("7:8", 7), (".25", 250), ("-", 0), ("1.2.3", 1200),
                                           ("9" * 40, None)])
def test_indicators_of_times(serve, text, counted):
    """Seconds with a point, as $upstream_response_time has them, count in milliseconds; of a list the first."""
    server = serve("""req_status_zone z "$uri" 1M; req_status_zone_add_indicator z $value; server { listen 127.0.0.1:@PORT@; %s
                      location / { req_status z; set_unescape_uri $value $arg_a; return 200; } }""" % SHOW)
    server.get("/x?a=" + text)
    assert table(server)["/x"][0] == counted or counted is None


def test_answers_of_the_servers_own_rewrites_count(serve):
    server = serve("""req_status_zone z "$uri" 1M; server { listen 127.0.0.1:@PORT@; %s } server { listen 127.0.0.1:@PORT1@; req_status z; rewrite ^/a http://b.test/; }
                   """ % SHOW)
    assert [server.get("/a", port=server.port_of("PORT1")).status for _ in range(2)] == [302, 302]
    assert table(server)["/a"]["http_3xx"] == 2


def test_the_newest_key_comes_first_and_no_length_is_announced(serve):
    server = serve("""req_status_zone z "$uri" 1M; server { listen 127.0.0.1:@PORT@; %s location / { req_status z; return 200; } }""" % SHOW)
    for path in ("/a", "/b", "/c", "/a"):
        server.get(path)
    answer = server.get("/us")
    assert [line.split(",")[0] for line in answer.text.splitlines()] == ["/c", "/b", "/a"]
    assert answer.header("Content-Length") is None and answer.header("Transfer-Encoding") == "chunked"


@pytest.mark.parametrize("lazy, key", [("off", "first"), ("on", "second")])
def test_when_the_key_is_made(serve, lazy, key):
    server = serve("""req_status_zone z "$a" 1M; server { listen 127.0.0.1:@PORT@; %s set $a first;
                      location / { req_status z; req_status_lazy %s; set $a second; return 200; } }""" % (SHOW, lazy))
    server.get("/")
    assert set(table(server)) == {key}


def test_internal_redirects_change_nothing(serve):
    server = serve("""req_status_zone one "one-$uri" 1M; req_status_zone two "two-$uri" 1M; server { listen 127.0.0.1:@PORT@; %s
                      location /a { req_status one; error_page 404 /b; root nowhere; } location /b { req_status two; return 200 x; }
                      location /c { error_page 404 /b; root nowhere; } }""" % SHOW)
    server.get("/a")
    assert set(table(server)) == {"one-/a"}
    server.get("/b")
    assert set(table(server)) == {"one-/a", "two-/b"}


def test_bypass(serve):
    server = serve("""req_status_zone z "$uri" 1M; server { listen 127.0.0.1:@PORT@; %s
                      location / { req_status z; req_status_bypass $arg_no $http_x_no; return 200; } }""" % SHOW)
    for target, *fields in (("/a?no=0",), ("/b?no=1",), ("/c", "X-No: yes"), ("/d",)):
        server.get(target, *fields)
    assert set(table(server)) == {"/a", "/d"}


def test_keys_without_a_connection_of_their_own_are_not_shown(serve):
    server = serve("""req_status_zone z "$uri" 1M; server { listen 127.0.0.1:@PORT@; %s location / { req_status z; return 200; } }""" % SHOW)
    with server.client() as client:
        for path in ("/a", "/b", "/a"):
            client.request(path)
    rows = table(server)
    assert set(rows) == {"/a"} and rows["/a"]["req_total"] == 2


def test_long_keys_are_cut_and_line_ends_are_escaped(serve):
    server = serve("""req_status_zone z "$arg_a$uri" 1M; req_status_zone_key_length z 10; server { listen 127.0.0.1:@PORT@; %s
                      location / { req_status z; return 200; } }""" % SHOW)
    server.get("/?a=" + "x" * 50)
    server.get("/a%0Ab%0Dc")
    assert set(table(server)) == {"x" * 10, "/a%0Ab%0Dc"}
    server.get("/?a=" + "x" * 51)
    lines = server.get("/us").text.splitlines()
    assert len(lines) == 3 and len(set(lines) - {lines[0]}) == 2    # keys that differ behind the cut are two


def test_a_full_zone(serve):
    """Keys that were asked for often stay, others give way; memory does not grow."""
    server = serve("""req_status_zone z "$uri" 32k; req_status_zone_recycle z 5 60; server { listen 127.0.0.1:@PORT@; %s location / { req_status z; return 200; } }
                   """ % SHOW)
    for number in range(300):
        server.get("/%d" % number)
    rows = table(server)
    assert 0 < len(rows) < 200 and "/299" in rows
    kept = [key for key in rows if key != "/us"]
    for key in kept:
        for _ in range(6):
            server.get(key)
    before = set(table(server))
    for number in range(1000, 1030):
        server.get("/%d" % number)
    assert set(table(server)) == before
    assert "is full" in server.read("error.log")


def test_numbers_survive_a_reload_and_a_worker(serve):
    http = """req_status_zone z "$uri" 1M; %s server { listen 127.0.0.1:@PORT@; """ + SHOW + """ location / { req_status z; return 200; } }"""
    server = serve(http % "", allow=["exited on signal 9", "changed", "previously it had"])
    server.get("/a")
    old = set(server.children())
    server.configure(http % "# again\n")
    server.reload()
    until(lambda: not old & set(server.children()), "the end of the old worker")
    server.get("/a")
    assert table(server)["/a"]["req_total"] == 2
    os.kill(server.children()[0], signal.SIGKILL)
    server.wait_log("exited on signal 9")
    until(lambda: answers(server), "a new worker")
    assert table(server)["/a"]["req_total"] == 3
    server.configure(http % "req_status_zone_key_length z 20;")
    server.signal("reload")
    server.wait_log("previously it had 152 and 29")
    assert table(server)["/a"]["req_total"] == 3


def answers(server):
    try:
        return server.get("/a").status == 200
    except OSError:
        return False


def test_subrequests_head_and_methods(serve):
    server = serve("""req_status_zone z "$uri" 1M; server { listen 127.0.0.1:@PORT@; %s
                      location / { req_status z; auth_request /sub; root html; } location /sub { req_status z; return 204; } }""" % SHOW,
                   files={"html/a": "x"})
    server.get("/a")
    with server.client() as client:
        assert client.request("/a", method="HEAD").status == 200
    assert {key: row["req_total"] for key, row in table(server).items()} == {"/a": 2}
    with server.client() as client:
        assert client.request("/us", method="POST").status == 405
        assert client.request("/us", method="HEAD").body == b""


@pytest.mark.parametrize("text, message", [
    ("req_status_zone z $uri 1k;", "is too small"), ("req_status_zone z const 1M;", "does not contain variables"), ("req_status_zone z $uri huge;", "invalid size"),
    ("req_status_zone z $uri 1M; req_status_zone z $uri 1M;", "is duplicate"), ("req_status nope;", 'req_status_zone "nope" is unknown'),
    ("req_status_zone z $uri 1M; req_status_zone_key_length z x;", "invalid key length"), ("req_status_zone z $uri 1M; req_status_zone_recycle z 0 1;", "invalid numbers"),
    ("req_status_zone z $uri 1M; req_status_zone_add_indicator z x;", "invalid variable name"),
    ("req_status_zone z $uri 1M; req_status_zone_add_indicator z %s;" % " ".join("$arg_%d" % number for number in range(30)), "more than 21 indicators"),
    ("req_status_zone z $uri 1M; server { location / { req_status_show; req_status_show_field nope; } }", "invalid field"),
    ("req_status_zone z $uri 1M; server { req_status_show; }", "not allowed here"), ("req_status_zone z;", "invalid number of arguments")])
def test_faults(tmp_path, text, message):
    (tmp_path / "c").write_text("pid p; error_log stderr; events { }\nhttp {\n%s\n}\n" % text)
    done = run_binary("-p", str(tmp_path), "-c", "c", "-t", "-e", "stderr")
    assert done.returncode == 1 and message in done.stderr
