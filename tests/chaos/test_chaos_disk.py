"""A full disk hurts only what needs the disk."""

import os

import pytest

from harness import proc, until
from harness.boxes import needs_root, serve_boxed  # noqa: F401
from harness.workers import wait_workers

# 64 KB of disk in @DIR@/full, for the server alone.
DISK = "mount -t tmpfs -o size=64k,mode=777 none @DIR@/full; mkdir -m 777 @DIR@/full/body"

HTTP = """
    %s
    server {
        listen 127.0.0.1:@PORT@;
        location / { return 200 fine; }
        location /file { root html; }
    }
    server {
        listen 127.0.0.1:@PORT1@;
        client_body_early_read 1;
        client_body_buffer_size 8k;
        client_body_temp_path full/body;
        location / { return 200 "$request_length"; }
    }
"""


def fill(server):
    """Takes what is left of the disk."""
    with open(server.inside("full/rest"), "wb", buffering=0) as rest:
        try:
            while True:
                rest.write(b"x" * 4096)
        except OSError:
            pass


def make_room(server):
    os.unlink(server.inside("full/rest"))


@needs_root
def test_access_log_on_a_full_disk(serve_boxed):  # noqa: F811
    server = serve_boxed(HTTP % "access_log full/access.log;", box=["-m"], setup=DISK,
                         files={"full": None}, allow=[r"No space left on device"])
    fill(server)
    with server.client() as client:
        for _ in range(400):
            assert client.request("/").text == "fine"
    assert "No space left on device" in server.error_log
    # One line about it in a while, not one for each request.
    assert server.error_log.count("No space left on device") < 100, server.error_log[-2000:]
    make_room(server)

    def is_logged():
        assert server.get("/again").text == "fine"
        with open(server.inside("full/access.log"), encoding="ascii") as log:
            return "/again" in log.read()
    until(is_logged, "a line in the access log, now that there is room")


@needs_root
def test_error_log_on_a_full_disk(serve_boxed):  # noqa: F811
    server = serve_boxed(HTTP % "error_log full/error.log info;", box=["-m"], setup=DISK,
                         files={"full": None})
    fill(server)
    for _ in range(50):
        assert server.get("/file/none").status == 404
        assert server.get("/").text == "fine"
    assert proc.is_idle(wait_workers(server, 1)[0])


@needs_root
@pytest.mark.parametrize("framing", ["length", "chunked"])
def test_body_that_does_not_fit_on_the_disk(serve_boxed, framing):  # noqa: F811
    server = serve_boxed(HTTP % "", box=["-m"], setup=DISK, files={"full": None},
                         allow=[r"No space left on device"])
    fill(server)
    other = server.client()
    assert other.request("/").text == "fine"
    head = b"POST / HTTP/1.1\r\nHost: a\r\n"
    body = b"b" * 100000
    with server.client(server.port_of("PORT1")) as client:
        if framing == "length":
            client.send(head + b"Content-Length: 100000\r\n\r\n" + body)
        else:
            client.send(head + b"Transfer-Encoding: chunked\r\n\r\n186a0\r\n" + body +
                        b"\r\n0\r\n\r\n")
        assert client.response("POST").status == 500
    assert "No space left on device" in server.error_log
    assert other.request("/").text == "fine"
    # A body that fits into memory needs no disk.
    assert server.get("/", port=server.port_of("PORT1"), method="POST", body=b"m" * 100).status == 200
    make_room(server)
    assert server.get("/", port=server.port_of("PORT1"), method="POST",
                      body=b"c" * 20000).status == 200
    until(lambda: os.listdir(server.inside("full/body")) == [], "temporary files to go")
