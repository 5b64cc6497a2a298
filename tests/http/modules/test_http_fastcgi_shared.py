"""FastCGI connections that many requests share: none of them waits for another's client, nor for its words."""

import pytest

from fastcgi_backends import END, HEAD, STDERR, STDOUT, Responder, Scripted, answer, end, record, values
from harness import until
from harness.h2 import H2

PLACE = """access_log access.log; upstream u { server 127.0.0.1:%d; keepalive 8; }
    server { listen 127.0.0.1:@PORT@ sndbuf=64k; http2 on; fastcgi_param QUERY_STRING $query_string;
        location / { fastcgi_pass u; %s } location /other { fastcgi_pass u; } location /here { return 204; } }
"""
SIZE = 12_000_000


@pytest.mark.parametrize("more", [
    "", "fastcgi_buffering off;", "fastcgi_max_temp_file_size 0;", "fastcgi_limit_rate 1k;", "limit_rate 1k;",
    "fastcgi_buffers 64 64k;", "fastcgi_max_temp_file_size 1m;"])
@pytest.mark.parametrize("client", ["http1", "http2"])
def test_nobody_waits_for_the_client_of_another(serve, client, more):
    """A client asks for much and reads nothing."""
    with Responder("-m", "1", "-r", "100") as backend:
        server = serve(PLACE % (backend.port, more), allow=["max_temp_file_size"])
        assert server.get("/other").status == 200
        until(backend.is_known, "the answer to the question")
        if client == "http1":
            with server.client() as slow:
                slow.send("GET /?size=%d HTTP/1.1\r\nHost: a\r\n\r\n" % SIZE)
                look_around(server, backend)
        else:
            with H2(server.port, settings={4: 0 if more else 1000}) as slow:
                slow.request("/?size=%d" % SIZE)
                look_around(server, backend)


def look_around(server, backend):
    until(lambda: backend.counts()["requests"] >= 2, "the request")
    with server.client() as other:
        for _ in range(20):
            assert other.request("/other").status == 200


@pytest.mark.parametrize("more", ["", "fastcgi_buffering off;", "fastcgi_max_temp_file_size 0;"])
def test_who_reads_late_gets_all(serve, more):
    with Responder("-m", "1", "-r", "100") as backend:
        server = serve(PLACE % (backend.port, more))
        assert server.get("/other").status == 200
        until(backend.is_known, "the answer to the question")
        with server.client() as slow:
            slow.send("GET /?size=4000000 HTTP/1.1\r\nHost: a\r\n\r\n")
            look_around(server, backend)
            assert len(slow.response().body) == 4000000 + len("size=4000000 0\n")


# ---- words without end

def flood(part, before=b""):
    """An application that says this for ever."""
    def reply(request, conn):
        if "flood" not in request.params["QUERY_STRING"]:
            return answer(request=request.id)
        conn.sendall(before)
        while True:
            conn.sendall(part)
    return reply


@pytest.mark.parametrize("says", [values(max_conns=20), values(mpxs_conns=1)], ids=["own", "shared"])
@pytest.mark.parametrize("part", [record(STDERR, b"words\n" * 5000) * 8, record(STDERR, b"w") * 9999, record(STDERR) * 9999],
                         ids=["long", "short", "empty"])
@pytest.mark.parametrize("before", [b"", record(STDOUT, HEAD + b"x")], ids=["head", "body"])
def test_words_without_end(serve, says, part, before):
    """Others are served meanwhile, and there is an end."""
    with Scripted(flood(part, before), says) as backend:
        server = serve(PLACE % (backend.port, ""), main="error_log error.log info; error_log stderr crit;")
        assert server.get("/").status == 200
        until(backend.is_known, "the answer to the question")
        with server.client() as noisy, server.client() as other:
            noisy.send("GET /?flood HTTP/1.1\r\nHost: a\r\n\r\n")
            for _ in range(3):
                assert other.request("/here").status == 204
            if before:
                server.wait_log("upstream sent too much to FastCGI stderr")
            else:
                assert noisy.response().status == 502
