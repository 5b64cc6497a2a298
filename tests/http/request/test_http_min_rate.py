"""Clients that are too slow over a window: client_body_min_rate, client_body_total_timeout, send_min_rate."""

import pytest

import certificates
from harness import h3
from harness.h2 import H2
from harness.h3 import H3
from harness.server import run_binary

SITE = """
    ssl_certificate %s; ssl_certificate_key %s; http2 on;
    server {
        listen 127.0.0.1:@PORT@;
        listen 127.0.0.1:@PORT2@ quic;
        listen 127.0.0.1:@PORT2@ ssl;
        client_body_timeout 20s; send_timeout 20s; lingering_timeout 50ms; output_buffers 1 8k;
        location /rate/ { client_body_min_rate 1k window=200ms; proxy_pass http://127.0.0.1:@PORT1@; }
        location /rate/passed {
            client_body_min_rate 1k window=200ms; proxy_request_buffering off; proxy_http_version 1.1; proxy_pass http://127.0.0.1:@PORT1@; }
        location /rate/off { client_body_min_rate 0; proxy_pass http://127.0.0.1:@PORT1@; }
        location /shared/ { client_body_min_rate 1k window=1s; proxy_pass http://127.0.0.1:@PORT1@; }
        location /low { client_body_min_rate 10 window=1s; proxy_pass http://127.0.0.1:@PORT1@; }
        location /total { client_body_total_timeout 300ms; proxy_pass http://127.0.0.1:@PORT1@; }
        location /limits { return 200 $limits_reached; }
        location /files/ { alias html/; send_min_rate 100k window=300ms; }
        location /fast/ { alias html/; send_min_rate 1k window=2s; }
        location /limited/ { alias html/; send_min_rate 100k window=300ms; limit_rate 20k; }
    }
    server { listen 127.0.0.1:@PORT1@; client_body_early_read 1; location / { return 200 "got $request_length"; } }
"""
BIG = b"0123456789abcdef" * (1 << 20)


@pytest.fixture(name="slow")
def _slow(serve):
    pair = certificates.own("localhost")

    def start(**more):
        if not h3.HAS_AIOQUIC:
            pytest.skip("without aioquic: see auto/aioquic")
        return serve(SITE % (pair.crt, pair.key),
                     files={"html/big": BIG, "html/small": b"x" * 9000}, **more)
    return start


def drip(client, piece=b"x", pause=0.02, most=1000):
    """Sends pieces until something comes, which is the answer to a client that is too slow."""
    for _ in range(most):
        client.send(piece)
        if client.readable(pause):
            return
    raise AssertionError("no answer to %d pieces" % most)


@pytest.mark.parametrize("path", ["/rate/buffered", "/rate/passed"])
@pytest.mark.parametrize("framing, piece", [("Content-Length: 100000", b"x"), ("Transfer-Encoding: chunked", b"1\r\nx\r\n")])
def test_dripping_body(slow, path, framing, piece):
    server = slow()
    with server.client() as client:
        client.send("POST %s HTTP/1.1\r\nHost: a\r\n%s\r\n\r\n" % (path, framing))
        drip(client, piece)
        response = client.response("POST")
        assert response.status == 408 and response.closes
    server.wait_log(r"\[error\] .*client is too slow: bytes of the body in a window of client_body_min_rate: \d+ while reading client request body")
    assert int(server.get("/limits").text) == 1


def test_silent_client_is_as_slow(slow):
    """The window ends the wait: client_body_timeout is far away."""
    server = slow()
    with server.client() as client:
        client.send("POST /rate/ HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n")
        assert client.response("POST").status == 408


def test_fast_enough_body(slow):
    """Over more than one window, with pauses that are shorter than one."""
    server = slow()
    with server.client() as client:
        client.send("POST /low HTTP/1.1\r\nHost: a\r\nContent-Length: 80\r\n\r\n")
        for _ in range(80):
            assert not client.readable(0.02)
            client.send("x")
        assert client.response("POST").status == 200
    assert "too slow" not in server.error_log


def test_rule_is_off_below(slow):
    server = slow()
    with server.client() as client:
        client.send("POST /rate/off HTTP/1.1\r\nHost: a\r\nContent-Length: 40\r\n\r\n")
        for _ in range(40):
            assert not client.readable(0.02)
            client.send("x")
        assert client.response("POST").status == 200


def test_total_timeout(slow):
    """However often something comes."""
    server = slow()
    with server.client() as client:
        client.send("POST /total HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n")
        drip(client)
        assert client.response("POST").status == 408
    server.wait_log("client_body_total_timeout are over after [0-9]+ while reading client request body")


def test_pipelined_body_is_in_time(slow):
    server = slow()
    with server.client() as client:
        client.send("POST /total HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc" * 3)
        assert [client.response("POST").status for _ in range(3)] == [200] * 3


@pytest.mark.parametrize("path", ["/rate/buffered", "/rate/passed", "/total"])
def test_dripping_body_h2(slow, path):
    server = slow()
    with H2(server.port) as client:
        stream = client.request(path, "POST", body=b"x", ends=False)
        for _ in range(1000):
            client.ping()
            client.data(stream, b"x", ends=False)
            client.socket.settimeout(0.02)
            try:
                client.until(lambda _: client.answers.get(stream) and client.answers[stream].heads)
                break
            except TimeoutError:
                pass
        assert client.answers[stream].status == 408


def test_streams_share_the_rate_h2(slow):
    """Each of eight uploads is slower than the rule, but not all of them together."""
    server = slow()
    with H2(server.port) as client:
        streams = [client.request("/shared/", "POST", body=b"x", ends=False) for _ in range(8)]
        for _ in range(50):
            for stream in streams:
                client.data(stream, b"x" * 30, ends=False)
            client.socket.settimeout(0.03)
            with pytest.raises(TimeoutError):
                client.until(lambda _: any(answer.heads or answer.reset is not None for answer in client.answers.values()))
        client.socket.settimeout(20)
        for stream in streams:
            client.data(stream, b"")
            assert client.answer(stream).status == 200


@pytest.mark.parametrize("path", ["/rate/buffered", "/total"])
def test_dripping_body_h3(slow, path):
    server = slow()
    with H3(server.port_of("PORT2")) as client:
        stream = client.send(path, "POST", body=b"x", end=False)
        for _ in range(1000):
            client.send_body(stream, b"x")
            client.turn(0.02)
            if client.answer(stream).heads:
                break
        assert client.answer(stream).status == 408


def test_client_that_reads_slowly(slow):
    server = slow()
    with server.client(rcvbuf=4096) as client:
        client.send("GET /files/big HTTP/1.1\r\nHost: a\r\n\r\n")
        server.wait_log("client is too slow: bytes of the response taken in a window of send_min_rate: [0-9]+ while sending to client")
        assert len(client.rest_or_reset()) < len(BIG)
    assert int(server.get("/limits").text) == 1


def test_limit_rate_is_not_the_clients_fault(slow):
    """limit_rate is below send_min_rate; the client takes all at once."""
    server = slow()
    with server.client() as client:
        assert len(client.request("/limited/small").text) == 9000
        assert len(client.request("/fast/big").text) == len(BIG)
    assert "too slow" not in server.error_log


@pytest.mark.parametrize("window", [100, 1 << 30])
def test_client_that_reads_slowly_h2(slow, window):
    """By its window, or by its socket."""
    server = slow()
    with H2(server.port, {4: window}) as client:
        if window != 100:
            client.window(1 << 30)
        stream = client.request("/files/big")
        server.wait_log("client is too slow: bytes of the response taken in a window of send_min_rate")
        with server.client() as other:
            assert len(other.request("/files/small").text) == 9000
        if window == 100:
            assert client.answer(stream).reset is not None
            assert client.get("/files/small", headers=[("range", "bytes=0-9")]).body == b"x" * 10


def test_client_that_reads_slowly_h3(slow):
    server = slow()
    with H3(server.port_of("PORT2"), max_stream_data=20000) as client:
        client.send("/files/big")
        client.turn(0.1)
        server.wait_log("client is too slow: bytes of the response taken in a window of send_min_rate")


@pytest.mark.parametrize("line, error", [
    ("client_body_min_rate x;", '"client_body_min_rate" directive invalid value'),
    ("send_min_rate 1k window=1ms;", 'invalid parameter "window=1ms"'),
    ("send_min_rate 1k wind=1s;", 'invalid parameter "wind=1s"'),
    ("send_min_rate 1k; send_min_rate 2k;", '"send_min_rate" directive is duplicate'),
])
def test_errors(tmp_path, line, error):
    (tmp_path / "nginx.conf").write_text("events {} http { server { listen unix:x; %s } }" % line)
    result = run_binary("-t", "-p", str(tmp_path), "-c", "nginx.conf", "-e", "stderr")
    assert result.returncode == 1 and error in result.stderr
