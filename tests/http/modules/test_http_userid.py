"""userid: the ids that are made, over workers, addresses, protocols and reloads. What follows from cookies that come is
in tests/oracle/tables/marking.py."""

import base64
import os
import struct
import time

import pytest

from harness import binaries
from harness.h2 import H2
from harness.workers import wait_workers

needs_portunus = pytest.mark.skipif("Portunus" not in binaries.version_text(binaries.under_test()),
                                    reason="not Portunus")


def conf(*locations, server="", http=""):
    return """
        log_format ids 'got=$uid_got set=$uid_set'; access_log logs/access.log ids; %s
        server {
            listen 127.0.0.1:@PORT@; %s
            userid on;
            location / { empty_gif; }
            %s
        }""" % (http, server, "\n".join(locations))


def id_bytes(response, name="uid"):
    """Of the one cookie that was set."""
    cookie, = response.all("Set-Cookie")
    assert cookie.startswith(name + "=")
    value = cookie.split(";")[0].partition("=")[2]
    assert len(value) == 24
    return base64.b64decode(value[:22] + "==")


def shown(name, data):
    """As the variables show it."""
    return name + "=" + "%08X%08X%08X%08X" % struct.unpack("<4I", data)


def test_words_of_an_id(serve):
    server = serve(conf())
    before = int(time.time())
    words = struct.unpack(">4I", id_bytes(server.get("/")))
    assert words[0] == 0x7f000001
    assert before - 1 <= words[1] <= time.time() + 1
    assert words[2] & 0xffff in [pid & 0xffff for pid in server.children()]
    assert words[3] == 0x03030302


def test_version_1_has_the_other_order_of_bytes(serve):
    server = serve(conf("location /v1 { userid v1; empty_gif; }", "location /v1/own { userid v1; userid_service 258; empty_gif; }"))
    words = struct.unpack("<4I", id_bytes(server.get("/v1")))
    assert words[0] == 0 and words[3] == 1
    assert abs(words[1] - time.time()) < 60
    assert struct.unpack("<4I", id_bytes(server.get("/v1/own")))[0::3] == (258, 0x101)


def test_service(serve):
    server = serve(conf("location /own { userid_service 16909060; location /own/in { empty_gif; } empty_gif; }",
                        "location /zero { userid_service 0; empty_gif; }", server="listen [::1]:@PORT1@; listen 127.0.0.2:@PORT2@;"))
    assert id_bytes(server.get("/own"))[:4] == b"\1\2\3\4"
    assert id_bytes(server.get("/own/in"))[:4] == b"\1\2\3\4"
    assert id_bytes(server.get("/zero"))[:4] == bytes(4)
    for address, expected in (("::1", b"\0\0\0\1"), ("127.0.0.2", b"\x7f\0\0\2")):
        with server.client(port=(address, server.port_of("PORT1" if address == "::1" else "PORT2"))) as client:
            assert id_bytes(client.request("/"))[:4] == expected


def test_no_two_are_equal(serve):
    server = serve(conf(), main="worker_processes 4;")
    ids = set()
    for _ in range(100):
        ids.add(id_bytes(server.get("/")))
    assert len(ids) == 100
    old = server.children()
    server.reload()
    wait_workers(server, 4, without=old)
    for _ in range(100):
        ids.add(id_bytes(server.get("/")))
    assert len(ids) == 200


def test_variables_and_cookie_agree(serve):
    server = serve(conf("location /told { add_header X-Set $uid_set; empty_gif; }",
                        "location /passed { proxy_set_header X-Set $uid_set; proxy_pass http://127.0.0.1:@PORT1@; }")
                   + "server { listen 127.0.0.1:@PORT1@; access_log off; return 200 $http_x_set; }")
    told = server.get("/told")
    assert told.header("X-Set") == shown("uid", id_bytes(told))
    passed = server.get("/passed")
    assert passed.text == shown("uid", id_bytes(passed))
    assert server.wait_lines("logs/access.log", 2) == ["got=- set=" + told.header("X-Set"), "got=- set=" + passed.text]


def test_id_that_comes_back_stays(serve):
    server = serve(conf())
    data = id_bytes(server.get("/"))
    with server.client() as client:
        for _ in range(3):
            again = client.request("/", "Cookie: a=b; uid=%s" % base64.b64encode(data).decode())
            assert again.all("Set-Cookie") == []
    assert server.wait_lines("logs/access.log", 4)[1:] == ["got=%s set=-" % shown("uid", data)] * 3


def test_reset(serve):
    server = serve(conf("location /reset { set $uid_reset $arg_how; empty_gif; }",
                        http="map $cookie_uid $known { default 1; '' 0; }"))
    cookie = "Cookie: uid=" + base64.b64encode(bytes(range(16))).decode()
    assert server.get("/reset", cookie).all("Set-Cookie") == []
    assert server.get("/reset?how=0", cookie).all("Set-Cookie") == []
    assert id_bytes(server.get("/reset?how=1", cookie)) != bytes(range(16))
    assert "was reset" not in server.read("error.log")
    assert id_bytes(server.get("/reset?how=log", cookie)) != bytes(range(16))
    server.wait_log('userid cookie "%s" was reset' % shown("uid", bytes(range(16))))


def test_expires(serve):
    server = serve(conf("location /hour { userid_expires 1h; empty_gif; }", "location /far { userid_expires 40y; empty_gif; }"))
    cookie, = server.get("/hour").all("Set-Cookie")
    expires = time.strptime(cookie.split("expires=")[1].split(";")[0], "%a, %d-%b-%y %H:%M:%S GMT")
    assert 3590 <= time.mktime(expires) - time.timezone - time.time() <= 3610
    assert "-%d " % (time.gmtime().tm_year + 40) in server.get("/far").all("Set-Cookie")[0] or \
        "-%d " % (time.gmtime().tm_year + 39) in server.get("/far").all("Set-Cookie")[0]


def test_parts_of_a_page_get_none(serve):
    server = serve(conf("location /page { ssi on; ssi_types *; root html; }", "location /sub { return 200 '$uid_set '; }"),
                   files={"html/page": '<!--#include virtual="/sub" --><!--#include virtual="/sub" -->'})
    page = server.get("/page")
    assert page.text == (shown("uid", id_bytes(page)) + " ") * 2


def test_index_and_errors_set_one(serve):
    server = serve(conf("location /dir/ { add_header X-Set $uid_set always; root html; index a.html; error_page 404 /dir/a.html; }"),
                   files={"html/dir/a.html": "a page"})
    for target, status in (("/dir/", 200), ("/dir/none", 404)):
        response = server.get(target)
        assert response.status == status
        assert response.header("X-Set") == shown("uid", id_bytes(response))


@needs_portunus
def test_http2(serve):
    server = serve(conf(server="http2 on;"))
    with H2(server.port) as h2:
        first = h2.get("/").headers["set-cookie"]
        second = h2.get("/").headers["set-cookie"]
        assert first != second and first.startswith("uid=") and first.endswith("; path=/")
        assert "set-cookie" not in h2.get("/", headers=[("cookie", first.split(";")[0])]).headers


def test_kept_responses_get_each_client_its_own(serve):
    server = serve("proxy_cache_path cache keys_zone=kept:1m;"
                   + conf("location /kept { proxy_cache kept; proxy_cache_valid 1h; proxy_pass http://127.0.0.1:@PORT1@; }")
                   + "server { listen 127.0.0.1:@PORT1@; return 200 kept; }")
    assert len({id_bytes(server.get("/kept")) for _ in range(5)}) == 5


@pytest.mark.skipif(os.getuid() != 0, reason="makes a socket that workers of another user may serve")
def test_unix_socket(serve):
    server = serve(conf(server="listen unix:@DIR@/socket;"))
    with server.client(port=server.path("socket")) as client:
        assert id_bytes(client.request("/"))[:4] == bytes(4)
