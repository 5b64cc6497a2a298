"""ngx.upstream: groups of servers as scripts see them; ngx.dyups: how scripts change them."""

import json
import socket

import pytest

from harness import until
from harness.dns import NameServer
from harness.workers import wait_workers

HTTP = """
    %s
    log_format seen '$uri $seen';
    init_by_lua_block {
        local upstream = require "ngx.upstream"
        at_init = table.concat(upstream.get_upstreams(), " ")
        servers_at_init = upstream.get_servers("app")
        why_at_init = select(2, upstream.get_primary_peers("app"))
    }
    init_worker_by_lua_block {
        local upstream = require "ngx.upstream"
        peers_at_start = upstream.get_primary_peers("app")
        ngx.timer.at(0, function()
            in_timer = #upstream.get_servers("app") .. " " .. tostring(upstream.current_upstream_name())
        end)
    }
    upstream app {
        server 127.0.0.1:@PORT1@ weight=3 max_fails=2 fail_timeout=1500ms;
        server 127.0.0.1:@PORT2@ down;
        server unix:@DIR@/nobody.sock;
        server 127.0.0.1:@PORT3@ backup;
    }
    upstream pair { server 127.0.0.1:@PORT1@; server 127.0.0.1:@PORT2@; }
    upstream spare { server 127.0.0.1:@PORT1@; server 127.0.0.1:@PORT3@ backup; }
    upstream scripted {
        balancer_by_lua_block {
            named_in_balancer = require "ngx.upstream".current_upstream_name()
            assert(require "ngx.balancer".set_current_peer("127.0.0.1", @PORT1@))
        }
    }
    server {
        listen 127.0.0.1:@PORT@;
        set $seen "";
        # What the Lua of the body gives, as JSON.
        location /run { content_by_lua_block {
            ngx.req.read_body()
            upstream = require "ngx.upstream"
            local function text(v)
                if type(v) ~= "table" then
                    return type(v) == "string" and '"' .. v .. '"' or v == nil and "null" or tostring(v)
                end
                local parts = {}
                if #v ~= 0 or next(v) == nil then
                    for _, each in ipairs(v) do parts[#parts + 1] = text(each) end
                    return "[" .. table.concat(parts, ",") .. "]"
                end
                for name, each in pairs(v) do parts[#parts + 1] = text(name) .. ":" .. text(each) end
                return "{" .. table.concat(parts, ",") .. "}"
            end
            local given = {pcall(assert(loadstring(ngx.req.get_body_data())))}
            local n = table.maxn(given)
            for i = 1, n do given[i] = text(given[i]) end
            ngx.print("[", table.concat(given, ",", 2, n), "]")
        } }
        location / {
            access_by_lua_block { before = tostring(require "ngx.upstream".current_upstream_name()) }
            header_filter_by_lua_block { ngx.header.x_group = require "ngx.upstream".current_upstream_name() }
            log_by_lua_block { ngx.var.seen = tostring(before) .. " " .. tostring(require "ngx.upstream".current_upstream_name()) }
            access_log seen.log seen;
            location /pair { proxy_pass http://pair/; }
            location /spare { proxy_pass http://spare/; }
            location /plain { proxy_pass http://127.0.0.1:@PORT1@/; }
            location /scripted { proxy_pass http://scripted/; }
            location /own { return 200 own; }
            location ~ ^/to/(?<name>.*)$ { set $group $name; proxy_pass http://$group/; }
            location /queue/ { proxy_pass http://127.0.0.1:1; error_page 502 = /pair; }
        }
        location = /dyups { internal; %s }
    }
    server { listen 127.0.0.1:@PORT1@; return 200 one; }
    server { listen 127.0.0.1:@PORT2@; return 200 two; }
    server { listen 127.0.0.1:@PORT3@; return 200 spare; }
"""


@pytest.fixture
def site(serve):
    def start(more="", interface="dyups_interface;", **kwargs):
        return serve(HTTP % (more, interface), **kwargs)
    return start


def run(server, code):
    """What the code gives, as a list."""
    response = server.get("/run", method="POST", body=server.expand(code))
    assert response.status == 200, response.text
    return json.loads(response.text)


def test_names_of_groups(site):
    server = site("upstream later { server 127.0.0.1:@PORT1@; }")
    one = server.port_of("PORT1")
    names = ["later", "app", "pair", "spare", "scripted", "127.0.0.1:%d" % one, "127.0.0.1:1"]
    assert run(server, "return upstream.get_upstreams()") == [names]
    assert run(server, "return at_init") == [" ".join(names)]


def test_servers(site):
    server = site()
    one, two, three = (server.port_of("PORT%d" % n) for n in (1, 2, 3))
    unix = "unix:%s/nobody.sock" % server.dir
    expected = [
        {"addr": "127.0.0.1:%d" % one, "name": "127.0.0.1:%d" % one, "weight": 3, "max_fails": 2, "fail_timeout": 1.5},
        {"addr": "127.0.0.1:%d" % two, "name": "127.0.0.1:%d" % two, "weight": 1, "max_fails": 1, "fail_timeout": 10,
         "down": True},
        {"addr": unix, "name": unix, "weight": 1, "max_fails": 1, "fail_timeout": 10},
        {"addr": "127.0.0.1:%d" % three, "name": "127.0.0.1:%d" % three, "weight": 1, "max_fails": 1,
         "fail_timeout": 10, "backup": True}]
    assert run(server, "return upstream.get_servers('app')") == [expected]
    assert run(server, "return servers_at_init") == [expected]
    assert run(server, "return upstream.get_servers('scripted')") == [[]]
    assert run(server, "return upstream.get_servers('127.0.0.1:1')")[0][0]["addr"] == "127.0.0.1:1"


def test_peers(site):
    server = site()
    one, two, three = (server.port_of("PORT%d" % n) for n in (1, 2, 3))
    peers = run(server, "return upstream.get_primary_peers('app')")[0]
    assert peers[0] == {"id": 0, "name": "127.0.0.1:%d" % one, "weight": 3, "current_weight": 0, "effective_weight": 3,
                        "max_fails": 2, "fail_timeout": 1.5, "fails": 0, "conns": 0}
    assert [(peer["id"], peer.get("down")) for peer in peers] == [(0, None), (1, True), (2, None)]
    assert peers[1]["name"] == "127.0.0.1:%d" % two
    backups = run(server, "return upstream.get_backup_peers('app')")[0]
    assert [(peer["id"], peer["name"]) for peer in backups] == [(0, "127.0.0.1:%d" % three)]
    assert run(server, "return upstream.get_backup_peers('pair')") == [[]]
    assert len(run(server, "return peers_at_start")[0]) == 3
    assert run(server, "return why_at_init") == ["no peer data"]


def test_a_name_with_several_addresses(site):
    with NameServer({"many.example": ["127.0.0.2", "127.0.0.3"]}) as names:
        server = site("resolver %s ipv6=off; upstream named { zone named 64k; server many.example:81 resolve; }" % names.address)
        until(lambda: len(run(server, "return upstream.get_primary_peers('named')")[0]) == 2)
        (named,), = run(server, "return upstream.get_servers('named')")
        assert sorted(named["addr"]) == ["127.0.0.2:81", "127.0.0.3:81"] and named["name"] == "many.example:81"


@pytest.mark.parametrize("call, reason", [
    ("get_servers('nosuch')", "upstream not found"), ("get_primary_peers('nosuch')", "upstream not found"),
    ("get_backup_peers('nosuch')", "upstream not found"), ("get_servers('')", "upstream not found"),
    ("set_peer_down('nosuch', false, 0, true)", "upstream not found"),
    ("set_peer_down('app', false, 3, true)", "bad peer id"), ("set_peer_down('app', false, -1, true)", "bad peer id"),
    ("set_peer_down('app', true, 1, true)", "bad peer id"),
    ("set_peer_down('pair', true, 0, true)", "no backup peers"),
    ("set_peer_down('scripted', false, 0, true)", "no peers"),
])
def test_what_is_not_there(site, call, reason):
    assert run(site(), "return upstream." + call) == [None, reason]


@pytest.mark.parametrize("call, reason", [
    ("get_upstreams(1)", "no argument expected"), ("current_upstream_name(1)", "no argument expected"),
    ("get_servers()", "exactly one argument expected"), ("get_primary_peers(1, 2)", "exactly one argument expected"),
    ("get_backup_peers()", "exactly one argument expected"), ("set_peer_down('app', false, 0)", "exactly 4 arguments expected"),
])
def test_counts_of_arguments(site, call, reason):
    assert run(site(), "return pcall(function() return upstream.%s end)" % call) == [False, reason]


def test_a_peer_is_taken_down_and_up_again(site):
    server = site()
    assert {server.get("/pair").text for _ in range(4)} == {"one", "two"}
    assert run(server, "return upstream.set_peer_down('pair', false, 0, true)") == [True]
    assert {server.get("/pair").text for _ in range(4)} == {"two"}
    assert run(server, "return upstream.get_primary_peers('pair')[1].down") == [True]
    assert run(server, "return upstream.set_peer_down('pair', false, 1, true)") == [True]
    assert server.get("/pair").status == 502
    assert run(server, "return upstream.set_peer_down('pair', false, 0, false)") == [True]
    assert {server.get("/pair").text for _ in range(4)} == {"one"}
    server.wait_log("no live upstreams while connecting to upstream")


def test_a_server_that_the_configuration_has_down_comes_up(site):
    server = site("upstream lazy { server 127.0.0.1:@PORT1@ down; server 127.0.0.1:@PORT2@; }")
    assert {server.get("/to/lazy").text for _ in range(4)} == {"two"}
    assert run(server, "return upstream.set_peer_down('lazy', false, 0, false)") == [True]
    assert {server.get("/to/lazy").text for _ in range(4)} == {"one", "two"}
    assert run(server, "return upstream.get_servers('lazy')[1].down") == [True]    # as it is written


def test_backups_serve_and_may_be_down(site):
    server = site()
    assert server.get("/spare").text == "one"
    assert run(server, "return upstream.set_peer_down('spare', false, 0, true)") == [True]
    assert server.get("/spare").text == "spare"
    assert run(server, "return upstream.set_peer_down('spare', true, 0, true)") == [True]
    assert server.get("/spare").status == 502
    assert run(server, "return upstream.get_backup_peers('spare')[1].down") == [True]
    server.wait_log("no live upstreams while connecting to upstream")


def test_all_workers_know_that_a_peer_is_down_and_a_reload_forgets(site):
    server = site(main="worker_processes 2;")
    wait_workers(server, 2)
    pids = set()
    assert run(server, "return upstream.set_peer_down('pair', false, 0, true)") == [True]

    def both_were_asked():
        pid, is_down = run(server, "return ngx.worker.pid(), upstream.get_primary_peers('pair')[1].down")
        assert is_down is True and server.get("/pair").text == "two"
        pids.add(pid)
        return len(pids) == 2
    until(both_were_asked)
    server.reload()
    until(lambda: {server.get("/pair").text for _ in range(4)} == {"one", "two"})


def test_a_peer_that_is_up_by_order_has_not_failed(site):
    server = site("upstream bad { server 127.0.0.1:1 fail_timeout=60s; server 127.0.0.1:@PORT1@ backup; }")
    server.get("/to/bad")
    fails = "return upstream.get_primary_peers('bad')[1].fails"
    assert run(server, fails) == [1]
    assert run(server, "return upstream.set_peer_down('bad', false, 0, true), upstream.get_primary_peers('bad')[1].fails") == [True, 1]
    assert run(server, "return upstream.set_peer_down('bad', false, 0, false), upstream.get_primary_peers('bad')[1].fails") == [True, 0]
    server.get("/to/bad")
    assert run(server, fails) == [1]


def test_failures_are_told(site):
    server = site("upstream bad { server 127.0.0.1:1 max_fails=5; server 127.0.0.1:@PORT1@; }")
    assert {server.get("/to/bad").text for _ in range(3)} == {"one"}
    peer, now = run(server, "return upstream.get_primary_peers('bad')[1], ngx.time()")
    assert peer["fails"] >= 1 and 0 <= now - peer["accessed"] < 60 and peer["effective_weight"] <= 1
    assert run(server, "return upstream.get_primary_peers('bad')[2].fails") == [0]
    server.wait_log("connect\\(\\) failed")


@pytest.mark.parametrize("target, group", [
    ("/pair", "pair"), ("/plain", "127.0.0.1:@PORT1@"), ("/scripted", "scripted"), ("/to/spare", "spare"),
    ("/to/127.0.0.1:@PORT2@", None), ("/own", None), ("/queue/", "pair"),
])
def test_the_group_of_a_request(site, target, group):
    server = site()
    target, group = server.expand(target), group and server.expand(group)
    response = server.get(target)
    assert response.status == 200 and response.header("x-group") == group
    line, = server.wait_lines("seen.log")
    assert line.split()[-1] == (group or "nil")
    assert line.split()[-2] == ("127.0.0.1:1" if target == "/queue/" else "nil")
    if target == "/scripted":
        assert run(server, "return named_in_balancer") == ["scripted"]


def test_in_a_timer(site):
    server = site()
    until(lambda: run(server, "return in_timer") == ["4 nil"])


DYUPS = "local dyups = require 'ngx.dyups' "


def test_a_script_changes_groups(site):
    server = site()
    update = DYUPS + "return dyups.update('%s', 'server 127.0.0.1:@PORT%d@;')"
    delete = DYUPS + "return dyups.delete('%s')"
    assert server.get("/to/new").status == 502
    assert run(server, update % ("new", 1)) == [200, "success"]
    assert server.get("/to/new").text == "one" and server.get("/to/new").header("x-group") == "new"
    assert run(server, update % ("new", 2)) == [200, "success"]
    assert server.get("/to/new").text == "two"
    assert run(server, "return upstream.get_upstreams()")[0][-1] == "new"
    assert run(server, "return upstream.get_servers('NEW')[1].addr") == [server.expand("127.0.0.1:@PORT2@")]
    assert run(server, "return upstream.set_peer_down('new', false, 0, true)") == [True]
    assert server.get("/to/new").status == 502
    assert run(server, delete % "new") == [200, "success"]
    assert run(server, delete % "new") == [404, "not found uptream"]
    assert run(server, "return upstream.get_servers('new')") == [None, "upstream not found"]
    assert run(server, delete % "pair") == [200, "success"]
    assert "pair" not in run(server, "return upstream.get_upstreams()")[0]
    server.wait_log("no live upstreams while connecting to upstream")


@pytest.mark.parametrize("name, text", [("new", "nonsense;"), ("new", ""), ("", "server 127.0.0.1:1;"),
                                        ("n" * 256, "server 127.0.0.1:1;"), ("new", "server 127.0.0.1:1; zone late 64k;")])
def test_what_is_no_group(site, name, text):
    server = site()
    assert run(server, DYUPS + "return dyups.update('%s', '%s')" % (name, text)) == [500, "add server failed"]
    server.wait_log('dyups: upstream "%s" is not taken: ' % name)


def test_without_an_interface_nothing_changes(site):
    server = site(interface="return 404;")
    assert run(server, DYUPS + "return dyups.update('new', 'server 127.0.0.1:1;')") == [503, "no dyups_interface"]
    assert run(server, DYUPS + "return dyups.delete('pair')") == [503, "no dyups_interface"]
    assert run(server, DYUPS + "return pcall(dyups.update, 'new')") == [False, "exactly 2 arguments expected"]
    assert run(server, DYUPS + "return pcall(dyups.delete)") == [False, "exactly one argument expected"]


STREAM = """
pid nginx.pid; error_log error.log info; worker_processes 1; daemon off; events { }
stream {
    upstream pair { server 127.0.0.1:@PORT1@; server 127.0.0.1:@PORT2@; }
    server {
        listen 127.0.0.1:@PORT@;
        preread_by_lua_block {
            local upstream = require "ngx.upstream"
            ngx.log(ngx.WARN, "groups: ", table.concat(upstream.get_upstreams(), " "))
            assert(upstream.set_peer_down("pair", false, 0, true))
        }
        log_by_lua_block { ngx.log(ngx.WARN, "went to: ", (require "ngx.upstream".current_upstream_name())) }
        proxy_pass pair;
    }
    server { listen 127.0.0.1:@PORT1@; return one; }
    server { listen 127.0.0.1:@PORT2@; return two; }
}
"""


def test_in_stream(serve):
    server = serve(conf=STREAM)
    with socket.create_connection(("127.0.0.1", server.port)) as client:
        assert client.makefile("rb").read() == b"two"
    server.wait_log("groups: pair")
    server.wait_log("went to: pair")
