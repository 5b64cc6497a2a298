"""Limits that keep a request from costing more than it should: fields, bytes, chunks, trailers."""

import pytest

from harness import binaries

CONF = """
    server {
        listen 127.0.0.1:@PORT@;
        location / { return 200 "fine $http_x_last\\n"; }
    }
    server {
        listen 127.0.0.1:@PORT1@;
        max_headers 10;
        location / { return 200 "ten\\n"; }
    }
    server {
        listen 127.0.0.1:@PORT2@;
        large_client_header_buffers 100 8k;
        client_header_buffer_size 64k;
        location / { return 200 "wide\\n"; }
    }
"""

needs_max_headers = pytest.mark.skipif(
    binaries.is_nginx_before(binaries.under_test(), 1, 29), reason="no max_headers there")


@pytest.fixture(scope="module")
def server():
    from harness import Server
    conf = CONF
    if binaries.is_nginx_before(binaries.under_test(), 1, 29):
        conf = conf.replace("max_headers 10;", "")
    with Server(conf) as running:
        yield running


def fields(count, size=1):
    return "".join("X-%d: %s\r\n" % (number, "v" * size) for number in range(count))


def ask(server, head, port=None):
    with server.client(port) as client:
        client.send(head)
        response = client.response()
        if response.status != 200:
            assert client.rest_or_reset() == b""
        return response.status


@needs_max_headers
@pytest.mark.parametrize("count, status", [(9, 200), (10, 200), (11, 400), (500, 400)])
def test_max_headers(server, count, status):
    """Host is one of them."""
    head = "GET / HTTP/1.1\r\nHost: a\r\n" + fields(count - 1) + "\r\n"
    assert ask(server, head, server.port_of("PORT1")) == status


@needs_max_headers
@pytest.mark.parametrize("count, status", [(1000, 200), (1001, 400)])
def test_max_headers_default_is_1000(server, count, status):
    head = "GET / HTTP/1.1\r\nHost: a\r\n" + fields(count - 1) + "\r\n"
    assert ask(server, head, server.port_of("PORT2")) == status


def test_header_bytes_are_bounded(server):
    """The default is four buffers of 8k; a megabyte of fields never gets in."""
    assert ask(server, "GET / HTTP/1.1\r\nHost: a\r\n" + fields(900, 1000) + "\r\n") == 400


def test_endless_header_is_cut(server):
    """The refusal comes while the client is still sending."""
    with server.client() as client:
        client.send("GET / HTTP/1.1\r\nHost: a\r\n")
        for _ in range(2000):
            client.send("X: " + "v" * 1000 + "\r\n")
            if client.readable(0):
                break
        else:
            client.readable(5)
        data = client.rest_or_reset()
    assert data.startswith(b"HTTP/1.1 400 ") or data == b""


def test_endless_target_is_cut(server):
    with server.client() as client:
        client.send("GET /")
        for _ in range(2000):
            client.send("u" * 1000)
            if client.readable(0):
                break
        data = client.rest_or_reset()
    assert data.startswith(b"HTTP/1.1 414 ") or data == b""


def closes_without_the_next(server, body):
    """Sends a chunked body and a request behind it; the request behind must not be answered."""
    with server.client() as client:
        client.send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")
        client.send(body)
        client.send("GET /next HTTP/1.1\r\nHost: a\r\nX-Last: next\r\nConnection: close\r\n\r\n")
        data = client.rest_or_reset()
    assert b"fine next" not in data
    assert data.count(b"HTTP/1.1 ") <= 1


def test_one_long_chunk_extension(server):
    closes_without_the_next(server, "4;e=" + "x" * 400000 + "\r\nabcd\r\n0\r\n\r\n")


def test_many_chunk_extensions(server):
    closes_without_the_next(server, ("1;e=" + "x" * 100 + "\r\na\r\n") * 4000 + "0\r\n\r\n")


def test_extension_on_the_last_chunk(server):
    closes_without_the_next(server, "4\r\nabcd\r\n0;" + "x" * 400000 + "\r\n\r\n")


def test_long_size_of_zeros(server):
    closes_without_the_next(server, "0" * 400000 + "4\r\nabcd\r\n0\r\n\r\n")


def test_many_trailers(server):
    closes_without_the_next(server, "4\r\nabcd\r\n0\r\n" + "T: t\r\n" * 2000 + "\r\n")


def test_one_long_trailer(server):
    closes_without_the_next(server, "4\r\nabcd\r\n0\r\nT: " + "t" * 400000 + "\r\n\r\n")


def test_modest_extensions_and_trailers_pass(server):
    with server.client() as client:
        client.send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
                    + '4;name=value;other="quoted; text"\r\nabcd\r\n' * 8
                    + "0;end\r\n" + fields(10, 20) + "\r\n"
                    "GET /next HTTP/1.1\r\nHost: a\r\nX-Last: next\r\n\r\n")
        assert client.response().text == "fine \n"
        assert client.response().text == "fine next\n"


def test_many_small_chunks_pass(server):
    """Chunks of one byte are legal, however many."""
    with server.client() as client:
        client.send(b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
                    + b"1\r\na\r\n" * 20000 + b"0\r\n\r\n")
        assert client.response().status == 200
        assert client.request("/next", "X-Last: next").text == "fine next\n"


def test_empty_lines_before_a_request_are_bounded(server):
    """A few are skipped (RFC 9112 2.2), a megabyte of them is not held or served for ever."""
    with server.client() as client:
        client.send(b"\r\n" * 4 + b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        assert client.response().status == 200
