"""realip: whose the request is, and who sees it."""

import socket
import struct

import pytest

from harness import Client

FRAME = """
    log_format client '$remote_addr|$remote_port|$realip_remote_addr|$request_uri';
    access_log logs/a.log client;
"""

LOCATION = """
    server { listen 127.0.0.1:@PORT@ %s; listen unix:@DIR@/u.sock %s; server_name a;
        set_real_ip_from 127.0.0.1; set_real_ip_from unix:; %s
        location / { add_header X-Client "$remote_addr $remote_port" always;
                     add_header X-Peer $realip_remote_addr always; empty_gif; }
        location /deny { deny 192.0.2.1; empty_gif; }
        location /late { real_ip_header X-Late; add_header X-Client $remote_addr always; empty_gif; }
        location /missing { root html; }
        location /log { empty_gif; }
    }
"""


def conf(settings="", listen=""):
    return FRAME + LOCATION % (listen, listen, settings)


def client_of(server, *headers, target="/"):
    return server.get(target, *headers).header("X-Client")


def test_field_names_the_client(serve):
    server = serve(conf())
    assert client_of(server, "X-Real-IP: 192.0.2.1") == "192.0.2.1 "
    assert client_of(server, "X-Real-IP: 192.0.2.1:77") == "192.0.2.1 77"
    assert client_of(server, "X-Real-IP: [2001:db8::1]:77") == "2001:db8::1 77"


@pytest.mark.parametrize("value", ["", "junk", "192.0.2.256", "[::1]", "192.0.2.1:0", "1" * 4000, "unix:", "::1::2",
                                   ",", " , ,", "[", "]", ":", "[]:1", "192.0.2.1:65536"])
def test_what_is_no_address_is_not_taken(serve, value):
    server = serve(conf())
    with server.client() as client:
        response = client.request("/", "X-Real-IP: " + value)
        assert response.header("X-Client") == "127.0.0.1 %d" % client.socket.getsockname()[1]
        assert response.header("X-Peer") == "127.0.0.1"


def test_it_holds_for_one_request(serve):
    """Each request of a connection is judged by itself."""
    server = serve(conf())
    with server.client() as client:
        own = "127.0.0.1 %d" % client.socket.getsockname()[1]
        for field, expected in (("X-Real-IP: 192.0.2.1", "192.0.2.1 "), ("X: y", own),
                                ("X-Real-IP: 192.0.2.2", "192.0.2.2 "), ("X: y", own)):
            assert client.request("/", field).header("X-Client") == expected


def test_pipelined_requests_have_clients_of_their_own(serve):
    server = serve(conf())
    with server.client() as client:
        client.send("".join("GET /log?%d HTTP/1.1\r\nHost: a\r\nX-Real-IP: 192.0.2.%d\r\n\r\n" % (n, n)
                            for n in range(20)))
        for _ in range(20):
            assert client.response().status == 200
    lines = server.wait_lines("logs/a.log", 20)
    assert lines == ["192.0.2.%d||127.0.0.1|/log?%d" % (n, n) for n in range(20)]


def test_unix_socket(serve):
    server = serve(conf())
    with Client(server.path("u.sock")) as client:
        response = client.request("/", "X-Real-IP: 192.0.2.1:5")
        assert (response.header("X-Client"), response.header("X-Peer")) == ("192.0.2.1 5", "unix:")
        assert client.request("/").header("X-Client") == "unix: "


def test_access_rules_and_logs_see_the_client(serve):
    server = serve(conf())
    assert server.get("/deny", "X-Real-IP: 192.0.2.1").status == 403
    assert server.get("/deny", "X-Real-IP: 192.0.2.2").status == 200
    assert server.get("/missing", "X-Real-IP: 192.0.2.3").status == 404
    assert [line.split("|")[0] for line in server.wait_lines("logs/a.log", 3)] == [
        "192.0.2.1", "192.0.2.2", "192.0.2.3"]
    errors = server.read("error.log")
    assert "access forbidden by rule, client: 192.0.2.1, server: a" in errors
    assert "(2: No such file or directory), client: 192.0.2.3, server: a" in errors


def test_place_is_asked_when_the_server_found_nothing(serve):
    server = serve(conf())
    assert client_of(server, "X-Late: 192.0.2.1", target="/late") == "192.0.2.1"
    assert client_of(server, "X-Late: 192.0.2.1", "X-Real-IP: 192.0.2.2", target="/late") == "192.0.2.2"


def test_untrusted_peer_is_not_believed(serve):
    server = serve("""server { listen 127.0.0.1:@PORT@; set_real_ip_from 192.0.2.0/24; add_header X-Client $remote_addr; empty_gif; }
                      server { listen 127.0.0.1:@PORT1@; add_header X-Client $remote_addr; empty_gif; }"""
                   .replace("empty_gif;", "location / { empty_gif; }"))
    assert client_of(server, "X-Real-IP: 192.0.2.1") == "127.0.0.1"
    assert server.get("/", "X-Real-IP: 192.0.2.1", port=server.port_of("PORT1")).header("X-Client") == "127.0.0.1"


def test_recursion_stops_at_the_first_stranger(serve):
    server = serve(conf("set_real_ip_from 10.0.0.0/8; real_ip_header X-Forwarded-For; real_ip_recursive on;"))
    assert client_of(server, "X-Forwarded-For: 192.0.2.9, 192.0.2.1, 10.1.1.1, 10.2.2.2") == "192.0.2.1 "
    assert client_of(server, "X-Forwarded-For: 192.0.2.9", "X-Forwarded-For: 192.0.2.1, 10.1.1.1",
                     "X-Forwarded-For: 10.2.2.2") == "192.0.2.1 "
    assert client_of(server, "X-Forwarded-For: 10.3.3.3, 10.2.2.2") == "10.3.3.3 "
    long = ", ".join(["192.0.2.1"] + ["10.0.%d.%d" % (n // 200, n % 200) for n in range(400)])
    assert client_of(server, "X-Forwarded-For: " + long) == "192.0.2.1 "


HEADERS = {
    "v1": b"PROXY TCP4 192.0.2.1 192.0.2.2 123 5678\r\n",
    "v1 ip6": b"PROXY TCP6 2001:db8::1 2001:db8::2 123 5678\r\n",
    "v2": b"\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\x0c" + socket.inet_aton("192.0.2.1")
          + socket.inet_aton("192.0.2.2") + struct.pack("!HH", 123, 5678),
}


@pytest.mark.parametrize("name", HEADERS)
def test_proxy_protocol(serve, name):
    server = serve(conf("real_ip_header proxy_protocol;", "proxy_protocol"))
    for address in (server.port, server.path("u.sock")):
        with Client(address) as client:
            client.send(HEADERS[name])
            for _ in range(2):
                response = client.request("/")
                assert response.header("X-Client") == ("2001:db8::1 123" if "ip6" in name else "192.0.2.1 123")
                assert response.header("X-Peer") == ("127.0.0.1" if address == server.port else "unix:")


@pytest.mark.parametrize("header", [b"PROXY UNKNOWN\r\n", b"\r\n\r\n\x00\r\nQUIT\n\x20\x00\x00\x00",
                                    b"\r\n\r\n\x00\r\nQUIT\n\x21\x41\x00\x04abcd"])
def test_proxy_protocol_that_tells_nobody(serve, header):
    server = serve(conf("real_ip_header proxy_protocol;", "proxy_protocol"))
    with server.client() as client:
        client.send(header)
        assert client.request("/").header("X-Client").startswith("127.0.0.1 ")


def test_backends_are_told_the_client(serve):
    server = serve("""
        server { listen 127.0.0.1:@PORT@; set_real_ip_from 127.0.0.1;
            location / { proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
                         proxy_set_header X-Real-IP ""; proxy_pass http://127.0.0.1:@PORT1@; } }
        server { listen 127.0.0.1:@PORT1@; return 200 "$http_x_forwarded_for"; }
    """)
    assert server.get("/", "X-Real-IP: 192.0.2.1").text == "192.0.2.1"
    assert server.get("/", "X-Real-IP: 192.0.2.1", "X-Forwarded-For: 192.0.2.7").text == "192.0.2.7, 192.0.2.1"


def test_host_name_stands_for_its_addresses(serve):
    server = serve(conf().replace("set_real_ip_from 127.0.0.1;", "set_real_ip_from localhost;"))
    assert client_of(server, "X-Real-IP: 192.0.2.1") == "192.0.2.1 "
