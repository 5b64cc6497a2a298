"""balancer_by_lua: a script says where requests and sessions go."""

import socket

import pytest

from harness import Client, Server

CONF = """
pid nginx.pid; error_log error.log info; worker_processes 1; daemon off; events { }
http {
    access_log off;
    upstream scripted {
        balancer_by_lua_block {
            local balancer = require "ngx.balancer"
            local uri = ngx.var.uri
            if uri == "/nobody" then return end
            if uri == "/refused" then ngx.exit(403) end
            if uri == "/broken" then error("on purpose") end
            if uri == "/name" then ngx.log(6, select(2, balancer.set_current_peer("localhost", 1))) end
            local state, status = balancer.get_last_failure()
            if uri == "/again" and not state then
                assert(balancer.set_more_tries(1))
                assert(balancer.set_current_peer("127.0.0.1", 1))
                return
            end
            ngx.log(6, "failure: ", tostring(state), " ", tostring(status))
            ngx.var.seen = "in balancer"
            assert(balancer.recreate_request())
            assert(balancer.set_current_peer("127.0.0.1", @PORT1@))
        }
        keepalive 4;
    }
    server { listen 127.0.0.1:@PORT@; set $seen "before";
             location / { proxy_set_header X-Seen $seen; proxy_pass http://scripted; proxy_http_version 1.1;
                          proxy_set_header Connection ""; } }
    server { listen 127.0.0.1:@PORT1@; location / { return 200 "$http_x_seen $connection_requests"; } }
    upstream left { server 127.0.0.1:@PORT1@; balancer_by_lua_block {
        require("ngx.balancer").set_current_peer("127.0.0.1", @PORT1@)
        ngx.exit(tonumber(ngx.var.arg_code))
    } }
    server { listen 127.0.0.1:@PORT4@; location / { proxy_pass http://left; } }
}
stream {
    upstream scripted {
        server 127.0.0.1:1 down;
        balancer_by_lua_block {
            local balancer = require "ngx.balancer"
            assert(balancer.bind_to_local_addr("127.0.0.9"))
            assert(balancer.set_current_peer("127.0.0.1:@PORT3@"))
        }
    }
    server { listen 127.0.0.1:@PORT2@; proxy_pass scripted; }
    server { listen 127.0.0.1:@PORT3@; return "$remote_addr"; }
    log_format status $status;
    upstream left { server 127.0.0.1:@PORT3@; balancer_by_lua_block {
        require("ngx.balancer").set_current_peer("127.0.0.1", @PORT3@)
        ngx.exit(200)
    } }
    server { listen 127.0.0.1:@PORT5@; proxy_pass left; access_log left.log status; }
    upstream own { server 127.0.0.1:@PORT3@; balancer_by_lua_block {
        if ngx.ctx.has_tried then return end
        ngx.ctx.has_tried = true
        assert(require("ngx.balancer").set_more_tries(1))
        assert(require("ngx.balancer").set_current_peer("127.0.0.1", 1))
    } }
    server { listen 127.0.0.1:@PORT6@; proxy_pass own; }
}
"""


@pytest.fixture(scope="module")
def server():
    with Server(conf=CONF) as made:
        yield made


def ask(server, uri):
    with Client(("127.0.0.1", server.port)) as client:
        response = client.request(uri)
        return response.status, response.text


def test_an_address_that_no_server_line_has(server):
    """The request is made anew after the script, and connections to the address are kept."""
    assert ask(server, "/") == (200, "in balancer 1")
    assert ask(server, "/") == (200, "in balancer 2")


def test_another_try(server):
    assert ask(server, "/again")[0] == 200
    server.wait_log("failure: failed 502")


def test_a_script_that_refuses(server):
    assert ask(server, "/refused")[0] == 403
    assert ask(server, "/broken")[0] == 500
    server.wait_log(r"failed to run balancer_by_lua\*: .*on purpose")


def test_a_group_without_servers(server):
    assert ask(server, "/nobody")[0] == 500
    server.wait_log("lua balancer: no peer set")


def test_names_are_refused(server):
    assert ask(server, "/name")[0] == 200
    server.wait_log("no host allowed while connecting to upstream")


def test_a_session(server):
    with socket.create_connection(("127.0.0.1", server.port_of("PORT2")), timeout=10) as client:
        assert client.recv(100) == b"127.0.0.9"


@pytest.mark.parametrize("code, status", [(0, 200), (1, 500), (200, 500), (299, 500), (403, 403), (-1, 500)])
def test_a_script_that_exits(server, code, status):
    """There is no answer that a status of success could be of."""
    with Client(("127.0.0.1", server.port_of("PORT4"))) as client:
        assert client.request("/?code=%d" % code).status == status


def test_a_script_of_a_session_that_exits(server):
    with socket.create_connection(("127.0.0.1", server.port_of("PORT5")), timeout=10) as client:
        assert client.recv(100) == b""
    assert server.wait_lines("left.log") == ["500"]


def test_after_an_address_of_the_script_the_servers_of_the_group_have_their_attempts(server):
    """The address was counted as the first one of them."""
    with socket.create_connection(("127.0.0.1", server.port_of("PORT6")), timeout=10) as client:
        assert client.recv(100) == b"127.0.0.1"
