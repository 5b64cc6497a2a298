"""*_allow_upstream: which servers of a group may be asked, and `denied` of *_next_upstream."""

import pytest

from harness import Server

CONF = """
    map $upstream_last_addr $by_text { volatile; default ""; ~^127\\.0\\.0\\.2: yes; }
    upstream one { server 127.0.0.1:@PORT1@; }
    upstream two { server 127.0.0.1:@PORT1@; server 127.0.0.2:@PORT2@; }
    upstream names { server localhost:@PORT1@; }
    map $upstream_last_server_name $by_name { volatile; localhost 1; }
    server { listen 127.0.0.1:@PORT1@; listen 127.0.0.2:@PORT2@; return 200 $server_addr; }
    proxy_allow_upstream $by_text;
    server {
        listen 127.0.0.1:@PORT@;
        add_header X-Tried "$upstream_addr|$upstream_status" always;
        location /denied { proxy_pass http://one; }
        location /next { proxy_next_upstream denied; proxy_pass http://two; }
        location /first { proxy_pass http://two; }
        location /constant { proxy_allow_upstream 1; proxy_pass http://one; }
        location /both { proxy_allow_upstream 1 0; proxy_pass http://one; }
        location /none { proxy_allow_upstream ""; proxy_pass http://one; }
        location /names { proxy_allow_upstream $by_name; proxy_pass http://names; }
        location /page { proxy_pass http://one; error_page 403 = /constant; }
        location /grpc { grpc_allow_upstream $arg_g; grpc_pass one; }
        location /fastcgi { fastcgi_allow_upstream 0; fastcgi_pass one; }
        location /uwsgi { uwsgi_allow_upstream 0; uwsgi_pass one; }
        location /scgi { scgi_allow_upstream 0; scgi_pass one; }
        location /memcached { set $memcached_key a; memcached_allow_upstream 0; memcached_pass one; }
    }
    server { listen 127.0.0.1:@PORT3@; tunnel_pass 127.0.0.1:@PORT1@; tunnel_allow_upstream $arg_no; }
"""


@pytest.fixture(scope="module", name="server")
def _server():
    server = Server(CONF).start()
    yield server
    server.close()


ROWS = {
    "/denied": (403, None), "/both": (403, None), "/none": (403, None),
    "/grpc": (403, None), "/fastcgi": (403, None), "/uwsgi": (403, None), "/scgi": (403, None), "/memcached": (403, None),
    "/constant": (200, "127.0.0.1"), "/names": (200, "127.0.0.1"), "/page": (200, "127.0.0.1"),
}


@pytest.mark.parametrize("path", ROWS)
def test_what_is_let_through(server, path):
    status, text = ROWS[path]
    answer = server.get(path)
    assert answer.status == status
    if text:
        assert answer.text == text
    else:
        assert answer.header("X-Tried").endswith("|403")


def test_denied_servers_are_passed_over_and_are_not_blamed(server):
    for _ in range(4):
        answer = server.get("/next")
        assert (answer.status, answer.text) == (200, "127.0.0.2")
    tried = [server.get("/next").header("X-Tried") for _ in range(2)]
    assert any("403, 200" in line for line in tried)    # the first one is in turn still: it did not fail
    assert {server.get("/first").status for _ in range(4)} == {200, 403}
    server.wait_log('access to upstream server is denied while connecting to upstream, client: 127.0.0.1, .*upstream: "http://127.0.0.1:')


def test_a_tunnel_is_refused(server):
    with server.client(port=server.port_of("PORT3")) as client:
        client.send(b"CONNECT example.org:443 HTTP/1.1\r\nHost: example.org:443\r\n\r\n")
        assert client.response().status == 403
