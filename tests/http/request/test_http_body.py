"""Request bodies: memory, temporary files, limits, 100-continue.

Nothing that this server has so far reads a body but client_body_early_read (1.31.5), which reads it
before a location is chosen; so these tests use it.
"""

import os

import pytest

from harness import binaries, wait

pytestmark = pytest.mark.skipif(binaries.is_nginx_before(binaries.under_test(), 1, 31),
                                reason="no client_body_early_read there")


EXPECTING = ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n"
             "Expect: 100-continue\r\n\r\n")


def conf(settings, answer='"$request_body|$request_body_file"'):
    return """
        log_format body escape=none '$request_body';
        server {
            listen 127.0.0.1:@PORT@;
            client_body_early_read 1;
            %s
            location / { return 200 %s; }
        }
    """ % (settings, answer)


def chunked(data, size):
    out = b""
    for at in range(0, len(data), size):
        piece = data[at:at + size]
        out += b"%x\r\n%s\r\n" % (len(piece), piece)
    return out + b"0\r\n\r\n"


def post(client, data, *headers, size=None):
    """Sends a POST, chunked when a size is given, and reads the answer."""
    head = ["POST / HTTP/1.1", "Host: a", *headers,
            "Transfer-Encoding: chunked" if size else "Content-Length: %d" % len(data)]
    client.send("\r\n".join(head) + "\r\n\r\n")
    client.send(chunked(data, size) if size else data)
    return client.response("POST")


@pytest.mark.parametrize("size", [None, 1, 3, 1000])
def test_small_body_stays_in_memory(serve, size):
    server = serve(conf(""))
    with server.client() as client:
        assert post(client, b"hello body", size=size).text == "hello body|"
        assert post(client, b"again", size=size).text == "again|"
        assert post(client, b"", size=size).text == "|"


def test_trailers_byte_by_byte(serve):
    server = serve(conf(""))
    with server.client() as client:
        client.send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n")
        for byte in b"a: b\r\n" * 20 + b"\r\n":
            client.send(bytes([byte]))
        assert client.response("POST").text == "|"
        assert post(client, b"next", size=2).text == "next|"


def test_long_trailers_are_waited_for(serve):
    """More of them than the buffer of chunks has room for kept the worker busy for ever."""
    server = serve(conf("large_client_header_buffers 4 64k; client_body_timeout 10s;"))
    with server.client() as client:
        client.send(b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nA: " + b"b" * 45000)
        with server.client() as other:
            assert post(other, b"body", size=2).text == "body|"
        client.send(b"b\r\n\r\n")
        assert client.response("POST").text == "|"


@pytest.mark.parametrize("size", [None, 700])
def test_large_body_goes_to_a_temporary_file(serve, size):
    server = serve(conf("client_body_buffer_size 1k;", '"$request_body_file"'))
    data = bytes(range(256)) * 40
    with server.client() as client:
        path = post(client, data, size=size).text
        assert path.startswith(server.path("body_temp") + "/"), path
        assert post(client, data, size=size).text not in ("", path)
    # A file goes with its request, which may be a moment after the answer was read.
    wait.until(lambda: os.listdir(server.path("body_temp")) == [], "temporary files left behind")


@pytest.mark.parametrize("size", [None, 700])
def test_body_in_file_only_keeps_the_file(serve, size):
    server = serve(conf("client_body_in_file_only on;", '"$request_body_file"'))
    data = os.urandom(5000)
    with server.client() as client:
        path = post(client, data, size=size).text
    with open(path, "rb") as source:
        assert source.read() == data
    assert os.stat(path).st_mode & 0o777 == 0o600


def test_body_in_file_only_clean_removes_it(serve):
    server = serve(conf("client_body_in_file_only clean;", '"$request_body_file"'))
    with server.client() as client:
        path = post(client, b"x" * 100).text
        assert path != ""
        client.request("/", method="GET")
    assert not os.path.exists(path)


def test_empty_body_makes_no_file(serve):
    server = serve(conf("client_body_in_file_only on;", '"[$request_body_file]"'))
    assert server.get("/").text == "[]"
    assert os.listdir(server.path("body_temp")) == []


def test_temporary_path_with_levels(serve):
    server = serve(conf("client_body_in_file_only on; client_body_temp_path levels 1 2;",
                        '"$request_body_file"'))
    with server.client() as client:
        path = post(client, b"x" * 100).text
    parts = os.path.relpath(path, server.path("levels")).split("/")
    assert [len(part) for part in parts] == [1, 2, 10], parts
    assert parts[2].endswith(parts[1] + parts[0]) or parts[2][-1] == parts[0], parts


def test_unwritable_temporary_path_is_500(serve):
    server = serve(conf("client_body_in_file_only on;"), allow=["Permission denied"])
    with server.client() as client:
        assert post(client, b"x").status == 200
    temporary = server.path("body_temp")
    os.rename(temporary, temporary + ".away")
    with server.client() as client:
        assert post(client, b"x").status == 500
    os.rename(temporary + ".away", temporary)
    server.wait_log(r"\[crit\] .* failed \(2: No such file or directory\)")


def test_single_buffer(serve):
    server = serve(conf("client_body_in_single_buffer on; client_body_buffer_size 16k;",
                        '"$request_body"'))
    data = bytes(range(65, 91)) * 300
    with server.client() as client:
        assert post(client, data).body == data
        assert post(client, data, size=100).body == data


def test_100_continue_is_sent_once_and_only_when_needed(serve):
    server = serve(conf(""))
    with server.client() as client:
        client.send(EXPECTING % 4)
        interim = client.head()
        assert (interim.status, interim.headers) == (100, [])
        client.send("abcd")
        response = client.response()
        assert response.text == "abcd|" and response.interim == []
        # The body is there already: nothing to ask for.
        client.send(EXPECTING % 4 + "abcd")
        response = client.response()
        assert response.text == "abcd|" and response.interim == []
        # An empty one is told to come, too, as nginx does.
        client.send(EXPECTING % 0)
        assert [interim.status for interim in client.response().interim] == [100]


def test_100_continue_with_chunked(serve):
    server = serve(conf(""))
    with server.client() as client:
        client.send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n"
                    "Expect: 100-continue\r\n\r\n")
        assert client.head().status == 100
        client.send(chunked(b"abcdef", 4))
        assert client.response().text == "abcdef|"


def test_no_100_continue_in_http_1_0(serve):
    server = serve(conf(""))
    with server.client() as client:
        client.send("POST / HTTP/1.0\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\nabcd")
        response = client.response()
        assert response.interim == [] and response.text == "abcd|"


def test_100_continue_is_not_sent_for_a_body_too_large(serve):
    server = serve(conf("client_max_body_size 3;"))
    with server.client() as client:
        client.send(EXPECTING % 4)
        response = client.response()
        assert response.status == 413 and response.interim == [] and response.closes


@pytest.mark.parametrize("size", [None, 2])
def test_body_limit(serve, size):
    server = serve(conf("client_max_body_size 5;"))
    with server.client() as client:
        assert post(client, b"12345", size=size).text == "12345|"
    with server.client() as client:
        response = post(client, b"123456", size=size)
        assert response.status == 413 and response.closes
    server.wait_log(r"client intended to send too large (chunked )?body")


@pytest.mark.parametrize("sent", [b"6\r\n", b"6\r\nabc", b"3\r\nabc\r\n3\r\n", b"100000000\r\n"])
def test_a_chunk_that_is_too_long_is_refused_when_it_is_announced(serve, sent):
    server = serve(conf("client_max_body_size 5; client_body_timeout 1h;"))
    with server.client() as client:
        client.send(b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" + sent)
        assert client.response("POST").status == 413


def test_chunked_body_limit_holds_for_an_endless_body(serve):
    server = serve(conf("client_max_body_size 10k; lingering_close off;"))
    with server.client() as client:
        client.send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")
        for _ in range(1000):
            client.send(b"400\r\n" + b"x" * 1024 + b"\r\n")
            if client.readable(0):
                break
        data = client.rest_or_reset()
        assert data == b"" or data.startswith(b"HTTP/1.1 413 ")


def test_client_that_leaves_within_its_body(serve):
    server = serve(conf("client_body_in_file_only on;") + "")
    for end in range(0, 10):
        with server.client() as client:
            client.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n" + b"x" * end)
    with server.client() as client:
        assert post(client, b"after").status == 200


def test_pipelined_behind_a_body(serve):
    server = serve(conf("", '"$request_method $request_body\\n"'))
    with server.client() as client:
        client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\none"
                    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
                    "3\r\ntwo\r\n0\r\n\r\n"
                    "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
                    "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nfour")
        assert [client.response().text for _ in range(4)] == [
            "POST one\n", "POST two\n", "GET \n", "POST four\n"]


def test_condition_of_early_read(serve):
    """Empty and 0 are false, as in if=."""
    server = serve("""
        map $arg_read $early { default $arg_read; }
        server { listen 127.0.0.1:@PORT@; client_body_early_read $early;
                 location / { return 200 "$request_body"; } }
    """)
    with server.client() as client:
        assert client.request("/?read=1", method="POST", body="abc").text == "abc"
        assert client.request("/?read=0", method="POST", body="abc").text == ""
        assert client.request("/", method="POST", body="abc").text == ""
