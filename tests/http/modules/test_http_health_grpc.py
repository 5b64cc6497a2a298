"""health_check type=grpc: what a probe says, and what its answers mean."""

import concurrent.futures
import os

import pytest

os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
import grpc

import certificates
import h2_backend
from harness.wait import until
from h2_backend import DATA, END_HEADERS, END_STREAM, HEADERS, PING, RST, SETTINGS, frame

GRPC = (("content-type", "application/grpc"),)
CONF = """
    upstream group { zone group 64k; server 127.0.0.1:%d; }
    server { listen 127.0.0.1:@PORT@;
             location / { grpc_pass %s://group; health_check %s; } }
"""


def message(status, prefix=b""):
    body = prefix + (bytes([8, status]) if status else b"")
    return b"\0" + h2_backend.u32(len(body)) + body


class Health(h2_backend.H2Backend):
    """`says` is how a call is answered: (conn, request), to be changed at any time."""

    def __init__(self, says=None):
        self.says = says or called(message(1))
        self.calls = []
        super().__init__(self.talk)

    def talk(self, conn):
        request = conn.request()
        body = conn.body(request)
        self.says(conn, request)
        self.calls.append((request, body))
        try:
            while True:
                conn.read()
        except EOFError:
            pass

    def wait_more(self, more=2):
        before = len(self.calls)
        until(lambda: len(self.calls) >= before + more, "%d more probes" % more)


def called(body=b"", grpc="0", fields=GRPC, status="200"):
    def says(conn, request):
        conn.answer(request, body, fields, status, trailers=[("grpc-status", grpc)] if grpc else None)
    return says


@pytest.fixture
def health():
    backend = Health()
    yield backend
    backend.close()


def start(serve, health, parameters="", scheme="grpc", **kwargs):
    return serve(CONF % (health.port, scheme, "interval=20ms type=grpc " + parameters), **kwargs)


def down(server):
    server.wait_log(r"disable check peer: 127\.0\.0\.1")


def test_what_a_probe_says(serve, health):
    start(serve, health, "grpc_service=shop.Cart")
    health.wait_more(1)
    request, body = health.calls[0]
    assert request.fields[:4] == [(":method", "POST"), (":scheme", "http"),
                                  (":path", "/grpc.health.v1.Health/Check"), (":authority", "group")]
    assert request["content-type"] == "application/grpc" and request["te"] == "trailers"
    assert body == b"\0\0\0\0\x0b\x0a\x09shop.Cart"


def test_serving_and_not_serving(serve, health):
    server = start(serve, health, "mandatory")
    server.wait_log(r"enable check peer: 127\.0\.0\.1")
    assert health.calls[0][1] == b"\0\0\0\0\0"
    health.says = called(message(2))
    down(server)
    assert "peer is unhealthy while checking gRPC health NOT_SERVING" in server.error_log
    health.says = called(message(1, b"\x12\x03abc\x19........"))  # with fields that nobody knows
    until(lambda: server.error_log.count("enable check peer") == 2, "the peer to come back")


def only_trailers(status):
    def says(conn, request):
        conn.send(frame(HEADERS, END_HEADERS | END_STREAM, request.stream, h2_backend.block(
            (":status", "200"), *GRPC, ("grpc-status", status))))
    return says


def in_pieces(conn, request):
    """A ping, an interim head, a head in two frames, DATA in two, an empty one."""
    head = h2_backend.block((":status", "200"), *GRPC)
    body = message(1)
    conn.send(frame(PING, 0, 0, b"12345678"), frame(SETTINGS, 0, 0),
              frame(HEADERS, END_HEADERS, request.stream, h2_backend.block((":status", "103"))),
              frame(HEADERS, 0, request.stream, head[:5]), frame(9, END_HEADERS, request.stream, head[5:]),
              frame(DATA, 0, request.stream, body[:3]), frame(DATA, 0, request.stream, b""))
    conn.wait(PING, flags=1)
    conn.send(frame(DATA, 0, request.stream, body[3:]),
              frame(HEADERS, END_HEADERS | END_STREAM, request.stream, h2_backend.block(("grpc-status", "0"))))


@pytest.mark.parametrize("parameters, says", [
    ("grpc_status=12", only_trailers("12")),
    ("grpc_status=12", called(message(1))),
    ("", in_pieces),
], ids=["unimplemented", "serving", "pieces"])
def test_healthy(serve, health, parameters, says):
    health.says = says
    server = start(serve, health, "mandatory " + parameters)
    server.wait_log(r"enable check peer: 127\.0\.0\.1")
    health.wait_more()
    assert "disable check peer" not in server.error_log


@pytest.mark.parametrize("parameters, says, reason", [
    ("", only_trailers("12"), "gRPC status 12"),
    ("grpc_status=12", only_trailers("14"), "gRPC status 14"),
    ("grpc_status=12", called(message(3)), "gRPC health SERVICE_UNKNOWN"),
    ("", called(message(0)), "gRPC health UNKNOWN"),
    ("", called(message(9)), "gRPC health of no known kind"),
    ("", called(message(1)[:-1]), "gRPC message"),
    ("", called(b"\1" + message(1)[1:]), "gRPC message"),
    ("", called(message(1) + bytes(300)), "gRPC message, which is too large"),
    ("", called(message(1), grpc=None), 'trailer "grpc-status", which is not there'),
    ("", called(message(1), grpc="x"), 'trailer "grpc-status"'),
    ("", called(message(1), fields=()), 'header "content-type"'),
    ("", called(b"no", status="503"), "status code 503"),
    ("", lambda conn, request: conn.send(frame(RST, 0, 1, h2_backend.u32(7))), "answer: RST_STREAM"),
    ("", lambda conn, request: conn.send(frame(7, 0, 0, bytes(8))), "answer: GOAWAY"),
    ("", lambda conn, request: conn.send(frame(DATA, 0, 1, b"x")), "HTTP/2 frame"),
    ("", lambda conn, request: conn.send(frame(PING, 0, 0, bytes(8)) * 100), "answer: too many frames"),
    ("", lambda conn, request: conn.send(b"HTTP/1.1 400 Bad\r\n\r\n"), "HTTP/2 frame"),
])
def test_unhealthy(serve, health, parameters, says, reason):
    health.says = says
    server = start(serve, health, parameters)
    down(server)
    assert "peer is unhealthy while checking %s, health check" % reason in server.error_log


class Grpcio(grpc.GenericRpcHandler):
    """The service as grpcio serves it; the last HealthCheckRequest is kept."""

    def __init__(self):
        self.asked = []

    def service(self, details):
        if details.method != "/grpc.health.v1.Health/Check":
            return None

        def check(request, context):
            self.asked.append(request)
            if not request:
                return bytes([8, 1])
            context.abort(grpc.StatusCode.NOT_FOUND, "unknown service")
            return None
        return grpc.unary_unary_rpc_method_handler(check)


@pytest.mark.parametrize("scheme, parameters, has_service, reason", [
    ("grpc", "", True, None),
    ("grpc", "", False, "gRPC status 12"),
    ("grpcs", "", True, None),
    ("grpcs", "grpc_status=12", False, None),
    ("grpcs", "grpc_service=x", True, "gRPC status 5"),
])
def test_a_server_of_grpcio(serve, scheme, parameters, has_service, reason):
    service = Grpcio()
    server = grpc.server(concurrent.futures.ThreadPoolExecutor(2), handlers=[service] if has_service else [])
    made = certificates.own("localhost")
    if scheme == "grpcs":
        credentials = grpc.ssl_server_credentials([(made.key_pem.encode(), made.pem.encode())])
        port = server.add_secure_port("127.0.0.1:0", credentials)
    else:
        port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        ours = serve(CONF %
                     (port, scheme, "type=grpc mandatory interval=50ms " + parameters +
                      "; grpc_ssl_verify on; grpc_ssl_name localhost; grpc_ssl_trusted_certificate " + made.crt))
        if reason is None:
            ours.wait_log(r"enable check peer: 127\.0\.0\.1")
        else:
            ours.wait_log("failed while checking %s" % reason)
        assert not has_service or service.asked[0] == (b"\x0a\x01x" if "grpc_service" in parameters else b"")
    finally:
        server.stop(None)
