"""grpc_pass over HTTP/3: bodies both ways as they come, trailers, failures. The backend is aioquic."""

import pytest

from h2_backend import DATA, END_HEADERS, END_STREAM, HEADERS
from h3_backend import H3Backend
from harness import h3
from test_http_grpc import Caller

pytestmark = pytest.mark.skipif(not h3.HAS_AIOQUIC, reason="without aioquic: see auto/aioquic")


@pytest.fixture(name="start")
def _start(serve):
    made = []

    def start(more="", place="grpc_pass grpcs://u;", **how):
        made.append(H3Backend(**how))
        return serve("upstream u { server 127.0.0.1:%d; } server { listen 127.0.0.1:@PORT@; http2 on; "
                     "location / { grpc_http_version 3; %s %s } }"
                     % (made[-1].port, place.replace("@BACKEND@", str(made[-1].port)), more)), made[-1]

    yield start
    for backend in made:
        backend.close()


def test_unary_call(start):
    server, backend = start(answer=lambda conn, request: conn.answer(
        request, request.body[::-1], [("content-type", "application/grpc")], trailers=[("grpc-status", "0")]))
    caller = Caller(server)
    caller.data(b"\0\0\0\0\3abc", last=True)
    flags, fields = caller.fields()
    assert dict(fields)[":status"] == "200" and not flags & END_STREAM
    assert caller.wait(DATA)[3] == b"cba\3\0\0\0\0"
    flags, fields = caller.fields()
    assert flags & END_STREAM and ("grpc-status", "0") in fields
    request = backend.seen[0]
    assert [request[name] for name in (":method", ":scheme", ":path", ":authority", "te")] == \
        ["POST", "https", "/S/M", "u", "trailers"]
    caller.close()


def test_messages_both_ways(start):
    """Neither body has ended while messages go to and fro."""
    def body(conn, request, data):
        conn.data(request, data.upper())

    def answer(conn, request):
        conn.http.send_headers(request.stream, [(b"grpc-status", b"0")], end_stream=True)

    server, _ = start(head=lambda conn, request: conn.head(request, [("content-type", "application/grpc")]),
                      body=body, answer=answer)
    caller = Caller(server)
    caller.fields()
    for message in (b"one", b"two", b"three"):
        caller.data(message)
        assert caller.wait(DATA)[3] == message.upper()
    caller.data(b"", last=True)
    flags, fields = caller.fields()
    assert flags & END_STREAM and ("grpc-status", "0") in fields
    caller.close()


def test_trailers_only(start):
    server, _ = start(head=lambda conn, request: conn.head(request, [("grpc-status", "12")], end=True))
    caller = Caller(server)
    flags, fields = caller.fields()
    assert flags == END_STREAM | END_HEADERS and ("grpc-status", "12") in fields
    caller.close()


def test_address_by_variable(start):
    server, backend = start(place="set $to grpcs://127.0.0.1:@BACKEND@; grpc_pass $to;",
                            answer=lambda conn, request: conn.answer(request, b"x"))
    assert server.client().request("/").body == b"x"
    assert backend.seen[0][":authority"] == "127.0.0.1:%d" % backend.port


def test_without_tls_by_variable(start):
    """HTTP/3 has no form without TLS."""
    server, _ = start(place="set $to grpc://127.0.0.1:@BACKEND@; grpc_pass $to;")
    assert server.client().request("/").status == 500
    server.wait_log("HTTP/3 to upstream needs TLS")


def test_caller_leaves(start):
    server, backend = start(head=lambda conn, request: conn.head(request))
    caller = Caller(server)
    caller.wait(HEADERS)
    caller.close()
    request = backend.request()
    backend.wait(lambda: request.stopped is not None or request.reset is not None)
