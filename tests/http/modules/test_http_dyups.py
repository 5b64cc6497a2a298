"""Tengine's dyups: groups that are changed while the service runs."""

import os
import re
import signal
import socket
import time

import pytest

from harness import until
from harness.dns import NameServer
from harness.workers import wait_workers

HTTP = """
    %s
    upstream fixed { server 127.0.0.1:@PORT1@; }
    upstream other { server 127.0.0.1:@PORT2@ weight=2 max_fails=3 fail_timeout=7s; server 127.0.0.1:@PORT1@ backup; }
    server { listen 127.0.0.1:@PORT@;
             location / { dyups_interface; }
             location ~ ^/to/(?<name>.*)$ { set $group $name; proxy_pass http://$group/; }
             location /status { check_status json; }
             location /fixed/ { proxy_pass http://fixed/; } }
    server { listen 0.0.0.0:@PORT1@; return 200 one; }
    server { listen 0.0.0.0:@PORT2@; return 200 two; }
    server { listen 0.0.0.0:@PORT3@; return 200 "three $server_addr"; }
"""


def ask(server, method, target, body=""):
    response = server.get(target, method=method, body=server.expand(body))
    return response.status, response.text


@pytest.fixture
def site(serve):
    def start(more="", **kwargs):
        return serve(HTTP % more, **kwargs)
    return start


def post(server, name, body):
    return ask(server, "POST", "/upstream/" + name, body)


def delete(server, name):
    return ask(server, "DELETE", "/upstream/" + name)


def test_what_there_is(site):
    server = site()
    one, two = server.port_of("PORT1"), server.port_of("PORT2")
    assert server.get("/list").text == "fixed\nother\n"
    assert server.get("/upstream/other").text == "server 127.0.0.1:%d\nserver 127.0.0.1:%d\n" % (two, one)
    assert server.get("/detail").text == (
        "fixed\nserver 127.0.0.1:%d weight=1 max_conns=0 max_fails=1 fail_timeout=10 backup=0 down=0\n\n"
        "other\nserver 127.0.0.1:%d weight=2 max_conns=0 max_fails=3 fail_timeout=7 backup=0 down=0\n"
        "server 127.0.0.1:%d weight=1 max_conns=0 max_fails=1 fail_timeout=10 backup=1 down=0\n\n" % (one, two, one))
    response = server.get("/upstream/nosuch")
    assert (response.status, response.text) == (404, "")


def test_a_group_comes_changes_and_goes(site):
    server = site()
    assert server.get("/to/new").status == 502
    assert post(server, "new", "server 127.0.0.1:@PORT1@;") == (200, "success")
    assert server.get("/to/new").text == "one"
    assert post(server, "new", "server 127.0.0.1:@PORT2@;") == (200, "success")
    assert server.get("/to/new").text == "two"
    assert server.get("/to/NEW").text == "two"
    assert server.get("/list").text == "fixed\nother\nnew\n"
    assert delete(server, "new") == (200, "success")
    assert server.get("/to/new").status == 502
    assert delete(server, "new") == (404, "not found uptream")
    assert post(server, "new", "server 127.0.0.1:@PORT1@;") == (200, "success")
    assert server.get("/to/new").text == "one"


def test_what_a_worker_takes_over_is_logged(site):
    server = site("dyups_read_msg_log on; dyups_read_msg_timeout 10ms;", main="worker_processes 2;")
    wait_workers(server, 2)
    post(server, "new", "server 127.0.0.1:@PORT1@;")
    until(lambda: server.error_log.count('dyups: upstream "new" was changed') >= 1)
    delete(server, "new")
    server.wait_log('dyups: upstream "new" was deleted')


def test_nothing_is_logged_unless_asked_for(site):
    server = site()
    post(server, "new", "server 127.0.0.1:@PORT1@;")
    assert server.get("/to/new").text == "one" and "dyups: upstream" not in server.error_log


def test_a_group_of_the_file_is_changed_and_deleted(site):
    server = site()
    assert server.get("/to/fixed").text == "one"
    assert post(server, "fixed", "server 127.0.0.1:@PORT2@;") == (200, "success")
    assert server.get("/to/fixed").text == "two"
    assert server.get("/fixed/").text == "one"     # named without a variable, it stays
    assert delete(server, "fixed") == (200, "success")
    assert server.get("/to/fixed").status == 502
    assert server.get("/list").text == "other\n"
    assert delete(server, "other") == (200, "success")
    assert server.get("/list").status == 204


@pytest.mark.parametrize("body", [
    "", "nonsense;", "server;", "server 127.0.0.1:99999;", "server 127.0.0.1:1 weight=0;", "server 127.0.0.1:1",
    "server 127.0.0.1:1; }", "server 127.0.0.1:1; } upstream x { server 127.0.0.1:1;", "server 127.0.0.1:1 backup;",
    "server 127.0.0.1:1; zone late 64k;", "server 127.0.0.1:1; hash $nosuch;", "server 127.0.0.1:1; proxy_pass http://a;",
    "server 127.0.0.1:1; sticky learn create=$arg_a lookup=$arg_a zone=l:64k;", "server a.example:1 resolve;",
])
def test_what_is_wrong_changes_nothing(site, body):
    server = site()
    assert post(server, "new", "server 127.0.0.1:@PORT1@;") == (200, "success")
    assert post(server, "new", body) == (500, "add server failed")
    assert server.get("/to/new").text == "one"
    assert 'dyups: upstream "new" is not taken: ' in server.error_log


@pytest.mark.one_server
@pytest.mark.parametrize("method, target, status, text", [
    ("GET", "/nosuch", 404, ""), ("POST", "/list", 404, "not support this interface"),
    ("POST", "/upstream/", 404, "not support this interface"), ("DELETE", "/list", 404, ""),
    ("PUT", "/upstream/a", 405, ""), ("OPTIONS", "/list", 405, ""),
    ("POST", "/upstream/" + "a" * 256, 404, "not support this interface"),
])
def test_other_requests(site, method, target, status, text):
    assert ask(site(), method, target) == (status, text)


BODIES = ["least_conn;", "ip_hash;", "hash $request_uri consistent;", "hash $arg_unheard_of;", "random two;", "vnswrr;",
          "iwrr;", "consistent_hash $http_never_named;", "keepalive 4;", "least_time last_byte;",
          "sticky cookie route;", "session_sticky;", "fair;", "queue 5;"]


@pytest.mark.parametrize("words", BODIES)
def test_what_a_block_may_hold(site, words):
    server = site()
    status = post(server, "new", words + " server 127.0.0.1:@PORT1@; server 127.0.0.1:@PORT2@;")
    if words.startswith("sticky") or words.startswith("session") or words.startswith("queue") or words.startswith("keep"):
        status = post(server, "new", "server 127.0.0.1:@PORT1@; server 127.0.0.1:@PORT2@; " + words)
    assert status == (200, "success"), server.error_log
    assert {server.get("/to/new").text for _ in range(8)} <= {"one", "two"}


def test_check_probes_and_takes_out(site):
    server = site()
    assert post(server, "new", "server 127.0.0.1:1; server 127.0.0.1:@PORT2@; "
                               "check interval=50 rise=1 fall=1 type=tcp default_down=false;")[0] == 200
    server.wait_log(r'disable check peer: 127\.0\.0\.1:1$|disable check peer: 127\.0\.0\.1:1\b')
    assert [server.get("/to/new").text for _ in range(4)] == ["two"] * 4
    page = server.get("/status?format=json").text
    assert '"upstream": "new"' in page and '"status": "down"' in page and '"status": "up"' in page


def test_names_are_asked_for(site):
    with NameServer({"app.example": ["127.0.0.7"]}) as dns:
        server = site("resolver %s ipv6=off; resolver_timeout 1s;" % dns.address)
        assert post(server, "new", "dynamic_resolve; server app.example:@PORT3@;") == (200, "success")
        until(lambda: server.get("/to/new").text == "three 127.0.0.7", "the name's address")


def test_all_workers_see_a_change(site):
    server = site(main="worker_processes 4;")
    wait_workers(server, 4)
    for round in range(4):
        port = "@PORT%d@" % (1 + round % 2)
        assert post(server, "new", "server 127.0.0.1:%s;" % port) == (200, "success")
        assert {server.get("/to/new").text for _ in range(24)} == {["one", "two"][round % 2]}


def test_a_worker_that_crashed_and_one_of_a_reload_have_the_groups(site):
    server = site(main="worker_processes 1;", allow=[r"exited on signal 9"])
    assert post(server, "new", "server 127.0.0.1:@PORT2@;") == (200, "success")
    assert delete(server, "fixed") == (200, "success")
    (worker,) = wait_workers(server, 1)
    os.kill(worker, signal.SIGKILL)
    until(lambda: server.children() and server.children() != [worker], "another worker")
    assert server.get("/to/new").text == "two"
    assert server.get("/to/fixed").status == 502
    server.reload()
    assert server.get("/to/new").text == "two"
    assert server.get("/to/fixed").status == 502


def test_a_full_zone(site):
    server = site("dyups_shm_zone_size 64k; client_max_body_size 1m;")
    answers = [post(server, "g%d" % n, "server 127.0.0.1:@PORT1@;" + "#" * 4000 + "\n") for n in range(40)]
    assert answers[0] == (200, "success") and answers[-1] == (500, "add server failed")
    assert server.get("/to/g0").text == "one"
    assert post(server, "big", "server 127.0.0.1:@PORT1@;" + "#" * 70000 + "\n") == (500, "add server failed")
    assert delete(server, "g0")[0] in (200, 500)


def test_many_changes_leave_nothing(site):
    server = site()
    for n in range(60):
        assert post(server, "new", "server 127.0.0.1:@PORT%d@; keepalive 4;" % (1 + n % 2)) == (200, "success")
        assert server.get("/to/new").text == ["one", "two"][n % 2]


def test_a_group_that_is_deleted_before_its_request_is_logged_is_counted_by_its_name(site):
    """What the metrics tell of a group was read from its memory, which had been freed."""
    with socket.create_server(("127.0.0.1", 0)) as later:
        server = site("""server { listen 127.0.0.1:@PORT4@;
            location /metrics { metrics; }
            location / { set $group brief; proxy_pass http://$group; error_page 502 = @later; }
            location @later { proxy_pass http://127.0.0.1:%d; } }""" % later.getsockname()[1])
        assert post(server, "brief", "server 127.0.0.1:1 down;") == (200, "success")
        with server.client(port=server.port_of("PORT4")) as client:
            client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            asked, _ = later.accept()
            with asked:
                assert delete(server, "brief") == (200, "success")
                time.sleep(2.2)     # groups that nobody uses are freed once a second, and nothing tells of it
                asked.recv(4096)
                asked.sendall(b"HTTP/1.0 204 No Content\r\n\r\n")
                assert client.response().status == 204
        assert 'upstream="brief"' in server.get("/metrics", port=server.port_of("PORT4")).text


# ---- what comes in is checked as a configuration file is

# Of the scripts that a service has, none may run in place of one that came later.
LUA = "init_by_lua_block { x = 1 } init_worker_by_lua_block { y = 2 }"
NOT_TAKEN = [
    ("balancer_by_lua_block { local x = 1 }", '"balancer_by_lua_block" is not allowed here'),
    ("balancer_by_lua_block { syntax error }", '"balancer_by_lua_block" is not allowed here'),
    ("balancer_by_lua_file balance.lua;", '"balancer_by_lua_file" is not allowed here'),
    ("hash $nosuch;", 'unknown "nosuch" variable'),
    ("zone z 64k;", ""),
    ("sticky learn create=$upstream_cookie_a lookup=$cookie_a zone=l:64k;", ""),
    ("keepalive 4; keepalive 5;", '"keepalive" directive is duplicate'),
    ("keepalive -1;", 'invalid value "-1" in "keepalive" directive'),
    ("set $a b;", '"set" directive is not allowed here'),
    ("} server { listen 1;", ""),
    ("include /etc/passwd;", ""),
    ("resolver nosuch.invalid;", ""),
    ("server 127.0.0.1:99999;", "invalid port"),
    ("server 127.0.0.1:1 weight=0;", 'invalid parameter "weight=0"'),
]


@pytest.mark.parametrize("lua", ["", LUA])
def test_what_a_group_may_not_have(site, lua):
    server = site(lua)
    for number, (line, reason) in enumerate(NOT_TAKEN):
        status, text = post(server, "g%d" % number, "server 127.0.0.1:@PORT1@; " + line)
        assert (status, text.strip()) == (500, "add server failed"), line
        if reason:
            server.wait_log(re.escape(reason))
        assert server.get("/to/g%d" % number).status == 502
    assert post(server, "good", "server 127.0.0.1:@PORT1@;")[0] == 200
    assert server.get("/to/good").text == "one"
