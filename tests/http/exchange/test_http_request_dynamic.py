"""*_request_dynamic: the request is made for each server that is asked, when it was chosen."""

import re

import pytest

import cgi_backends
import fastcgi_backends
from harness.backend import Backend

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
FAILS = b"HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n"


@pytest.mark.parametrize("more, is_dynamic", [
    ("", False), ("proxy_request_dynamic on;", True), ("proxy_request_dynamic on; proxy_bind_dynamic on; proxy_bind 127.0.0.1;", True)])
@pytest.mark.parametrize("body", [None, b"body"])
def test_second_server_gets_a_request_of_its_own(serve, more, is_dynamic, body):
    fails, good = Backend([FAILS]), Backend([OK])
    server = serve("""
        upstream u { server 127.0.0.1:%d; server localhost:%d backup; }
        server {
            listen 127.0.0.1:@PORT@;
            location / {
                proxy_pass http://u; proxy_set_header Host $upstream_last_server_name; proxy_next_upstream http_500; %s
            }
        }
    """ % (fails.port, good.port, more))
    with server.client() as client:
        assert client.request("/", method="PUT" if body else "GET", body=body).text == "ok"
    hosts = [re.findall(rb"^Host: (.*)\r$", back.requests[0], re.M) for back in (fails, good)]
    assert hosts == [[b"127.0.0.1"], [b"localhost"]] if is_dynamic else hosts[0] == hosts[1] != [b"127.0.0.1"]
    assert body is None or all(back.requests[0].endswith(b"\r\n\r\nbody") for back in (fails, good))


@pytest.mark.parametrize("protocol", ["scgi", "uwsgi", "fastcgi"])
def test_params(serve, protocol):
    if protocol == "fastcgi":
        back = fastcgi_backends.Scripted(fastcgi_backends.answer())
    else:
        read = cgi_backends.read_scgi if protocol == "scgi" else cgi_backends.read_uwsgi
        back = cgi_backends.Scripted(lambda *_: b"Content-Type: text/plain\r\n\r\nhello", read=read)
    server = serve("""
        upstream u { server 127.0.0.1:BACK; }
        server {
            listen 127.0.0.1:@PORT@;
            location / { PROTO_param NAME $upstream_last_server_name; PROTO_request_dynamic on; PROTO_pass u; }
        }
    """.replace("PROTO", protocol).replace("BACK", str(back.port)))
    assert server.get("/").text == "hello"
    pairs = back.requests[-1].pairs if protocol == "fastcgi" else back.requests[-1][0]
    assert ("NAME", "127.0.0.1") in pairs
