"""Backends by HTTP/3 that break rules, flood, or stall; clients that leave. No crash, a bounded memory, an answer to each client."""

import re
import socket

import pytest

from h3_backend import H3Backend, frame, section
from harness import h3
from harness.h3 import (CLOSED_CRITICAL_STREAM, DATA, EXCESSIVE_LOAD, FRAME_ERROR, FRAME_UNEXPECTED, GOAWAY, HEADERS, ID_ERROR,
                        MISSING_SETTINGS, PUSH_PROMISE, QPACK_DECOMPRESSION_FAILED, QPACK_ENCODER_STREAM_ERROR,
                        REQUEST_CANCELLED, SETTINGS, SETTINGS_ERROR, STREAM_CREATION_ERROR)

pytestmark = pytest.mark.skipif(not h3.HAS_AIOQUIC, reason="without aioquic: see auto/aioquic")


@pytest.fixture(name="site")
def _site(serve):
    """site(answer, more, **how): a server in front of a backend that answers so. Gives both."""
    made = []

    def start(answer=None, more="", http="", **how):
        made.append(H3Backend(answer, **how))
        server = serve("%s upstream u { server 127.0.0.1:%d; } server { listen 127.0.0.1:@PORT@; client_max_body_size 0; "
                       "location / { proxy_pass https://u; proxy_http_version 3; %s } location /after { return 204; } }"
                       % (http, made[-1].port, more))
        return server, made[-1]

    yield start
    for backend in made:
        backend.close()


def head(*fields, status=b"200"):
    return frame(HEADERS, section((b":status", status), *fields))


def setting(identifier, value):
    return h3.encode_uint_var(identifier) + h3.encode_uint_var(value)


# ---- responses that are malformed: 502 for the client, the stream or the connection ends

STREAM_FAULTS = {
    "no status": (frame(HEADERS, section((b"a", b"b"))), "upstream sent no :status header"),
    "two statuses": (frame(HEADERS, section((b":status", b"200"), (b":status", b"200"))), "duplicate :status"),
    "status after fields": (frame(HEADERS, section((b"a", b"b"), (b":status", b"200"))), "invalid header"),
    "another pseudo-field": (head((b":path", b"/")), "invalid header"),
    "status of letters": (head(status=b"2x0"), "invalid :status"),
    "101": (head(status=b"101"), "invalid :status"),
    "upper case": (head((b"X-A", b"b")), "invalid header"),
    "line end in a value": (head((b"a", b"b\r\nc: d")), "invalid header"),
    "zero in a value": (head((b"a", b"b\0c")), r'invalid header: "a: b\\x00\.\.\." while reading'),
    "zero in a name": (head((b"a\0b", b"c")), r'invalid header: "a\\x00\.\.\.: c" while reading'),
    "large head": (head((b"a", b"b" * 5000)), "too big header"),
    "larger head": (head((b"a", b"b" * 20000)), "too big header"),
    "two lengths": (head((b"content-length", b"1"), (b"content-length", b"2")), "content-length|Content-Length"),
    "too many interim heads": (head(status=b"102") * 100, "too many interim responses"),
}


@pytest.mark.parametrize("fault", STREAM_FAULTS)
def test_stream_faults(site, fault):
    data, line = STREAM_FAULTS[fault]
    server, backend = site(lambda conn, request: conn.raw(request.stream, data) if request[":path"] == "/bad"
                           else conn.answer(request, b"good"))
    client = server.client()
    assert client.request("/").body == b"good"
    assert client.request("/bad").status == 502
    server.wait_log(line)
    assert client.request("/").body == b"good"
    assert len(backend.connections) == 1


def one_way(data):
    return lambda conn, request: conn.one_way(data)


def on_request(data, end=False):
    return lambda conn, request: conn.raw(request.stream, data, end)


def on_control(data):
    return lambda conn, request: conn.control(data)


def flood(data, count):
    return lambda conn, request: [conn.raw(request.stream, data) for _ in range(count)]


class NoEncoder:
    """In place of aioquic's, which closes the connection when it gets feedback on entries that it has not made."""

    def feed_decoder(self, data):
        pass


def duplicates(conn, request):
    conn.http._encoder = NoEncoder()
    conn.raw(conn.http._local_encoder_stream_id, b"\x3f\xe1\x1f\x41a\1b" + b"\0" * 2500)


CONNECTION_FAULTS = {
    "DATA first": (on_request(frame(DATA, b"x")), FRAME_UNEXPECTED),
    "DATA after an interim head": (on_request(head(status=b"103") + frame(DATA, b"x")), FRAME_UNEXPECTED),
    "a frame after trailers": (on_request(head() + frame(HEADERS, section((b"a", b"b"))) + frame(DATA, b"x")),
                               FRAME_UNEXPECTED),
    "SETTINGS on a request": (on_request(frame(SETTINGS)), FRAME_UNEXPECTED),
    "PUSH_PROMISE": (on_request(frame(PUSH_PROMISE, b"\0\0\0")), FRAME_UNEXPECTED),
    "a frame of HTTP/2": (on_request(frame(6, b"12345678")), FRAME_UNEXPECTED),
    "ended inside a frame": (on_request(head() + b"\0\5ab", end=True), FRAME_ERROR),
    "a section of nothing": (on_request(frame(HEADERS)), QPACK_DECOMPRESSION_FAILED),
    "a field that is not there": (on_request(frame(HEADERS, b"\0\0\xff\xff\xff\xff\x0f")), QPACK_DECOMPRESSION_FAILED),
    "a blocked section": (on_request(frame(HEADERS, b"\5\0\x80")), QPACK_DECOMPRESSION_FAILED),
    "an endless integer": (on_request(frame(HEADERS, b"\0\0\x27" + b"\xff" * 30)), QPACK_DECOMPRESSION_FAILED),
    "a push stream": (one_way(b"\1\0"), ID_ERROR),
    "a second control stream": (one_way(b"\0\4\0"), STREAM_CREATION_ERROR),
    "encoder: capacity above the limit": (lambda conn, request: conn.raw(conn.http._local_encoder_stream_id, b"\x3f\xff\xff\x0f"),
                                          QPACK_ENCODER_STREAM_ERROR),
    "encoder: duplicate of nothing": (lambda conn, request: conn.raw(conn.http._local_encoder_stream_id, b"\x05"),
                                      QPACK_ENCODER_STREAM_ERROR),
    "SETTINGS twice": (on_control(frame(SETTINGS)), FRAME_UNEXPECTED),
    "DATA on the control stream": (on_control(frame(DATA, b"x")), FRAME_UNEXPECTED),
    "MAX_PUSH_ID": (on_control(frame(13, b"\1")), FRAME_UNEXPECTED),
    "CANCEL_PUSH": (on_control(frame(3, b"\1")), ID_ERROR),
    "GOAWAY of no request": (on_control(frame(GOAWAY, b"\1")), ID_ERROR),
    "GOAWAY that grows": (on_control(frame(GOAWAY, b"\4") + frame(GOAWAY, b"\x08")), ID_ERROR),
    "a long GOAWAY": (on_control(frame(GOAWAY, b"\4\4")), FRAME_ERROR),
    "a control frame too long": (on_control(b"\7\x80\1\0\0"), EXCESSIVE_LOAD),
    "the control stream ends": (lambda conn, request: conn.raw(conn.http._local_control_stream_id, b"", end=True),
                                CLOSED_CRITICAL_STREAM),
    "control frames": (on_control(frame(GOAWAY, b"\4") * 200), EXCESSIVE_LOAD),
    "unknown frames": (on_control(frame(0x21, b"x") * 1200), EXCESSIVE_LOAD),
    "unknown frames of a request": (on_request(frame(0x21, b"x") * 1200), EXCESSIVE_LOAD),
    "empty DATA": (on_request(head() + frame(DATA) * 1200), EXCESSIVE_LOAD),
    "duplicates": (duplicates, EXCESSIVE_LOAD),
}


@pytest.mark.parametrize("fault", CONNECTION_FAULTS)
def test_connection_faults(site, fault):
    """The backend hears of its fault; a request that has no answer is not left waiting, and the next connection is fine."""
    act, code = CONNECTION_FAULTS[fault]
    server, backend = site(lambda conn, request: act(conn, request) if conn.number == 1
                           else conn.answer(request, b"good"), more="proxy_next_upstream off;")
    client = server.client()
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
    backend.wait(lambda: backend.connections and backend.connections[0].closed)
    assert backend.connections[0].closed[0] == code
    client.close()
    assert server.client().request("/").body == b"good"


@pytest.mark.parametrize("settings, code", [
    (frame(GOAWAY, b"\0"), MISSING_SETTINGS),
    (frame(SETTINGS, setting(2, 1)), SETTINGS_ERROR),
    (frame(SETTINGS, setting(1, 0) + setting(1, 0)), SETTINGS_ERROR),
    (frame(SETTINGS, b"\1"), FRAME_ERROR),
])
def test_first_frame(site, settings, code):
    """In place of aioquic's settings."""
    server, backend = site(control=settings)
    client = server.client()
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
    backend.wait(lambda: backend.connections and backend.connections[0].closed)
    assert backend.connections[0].closed[0] == code


def test_server_opens_a_request_stream(site):
    """Our parameters allow none: aioquic may not even open it. The limit is what is tested."""
    seen = []
    server, backend = site(lambda conn, request: (seen.append(conn.quic._remote_max_streams_bidi), conn.answer(request, b"x")))
    assert server.client().request("/").body == b"x" and seen == [0]


def test_flow_control_violation(site):
    """More bytes than the window of the stream allows."""
    def answer(conn, request):
        stream = conn.quic._streams[request.stream]
        conn.raw(request.stream, head())
        stream.max_stream_data_remote = 1 << 40
        conn.quic._remote_max_data = 1 << 40
        conn.raw(request.stream, frame(DATA, bytes(8 << 20)))

    server, backend = site(answer, more="proxy_buffering off;")
    client = server.client(rcvbuf=4096)
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
    backend.wait(lambda: backend.connections and backend.connections[0].closed)
    assert backend.connections[0].closed[0] == 3  # FLOW_CONTROL_ERROR
    client.close()
    assert server.client().request("/after").status == 204


def resident(server):
    """KB of the worker."""
    return int(re.search(r"VmRSS:\s+(\d+)", open("/proc/%d/status" % server.children()[0], encoding="ascii").read()).group(1))


def test_memory_of_slow_clients(site):
    """Clients that do not read, without buffering: of each response no more than its window waits."""
    size = 16 << 20
    server, backend = site(lambda conn, request: conn.answer(request, bytes(size)), more="proxy_buffering off;")
    server.client().request("/after")
    before, clients = resident(server), []
    for _ in range(20):
        clients.append(server.client(rcvbuf=4096).send("GET / HTTP/1.1\r\nHost: a\r\n\r\n"))
    backend.wait(lambda: len(backend.seen) == 20)
    assert all(client.readable(20) for client in clients)
    assert resident(server) - before < 20 * 2048
    for client in clients:
        client.close()
    backend.wait(lambda: all(request.stopped == REQUEST_CANCELLED for request in backend.seen))


def test_length_is_cut_short(site):
    server, _ = site(lambda conn, request: (conn.head(request, [("content-length", "10")]),
                                            conn.data(request, b"12345", end=True)))
    client = server.client()
    with pytest.raises(AssertionError):
        client.request("/")
    server.wait_log("upstream prematurely closed stream")


def test_length_is_exceeded(site):
    server, _ = site(lambda conn, request: (conn.head(request, [("content-length", "3")]), conn.data(request, b"12345")))
    client = server.client()
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
    client.head()
    server.wait_log("upstream sent response body larger than indicated content length")


def test_connection_ends_in_a_body(site):
    """What had come is passed on; the response is cut."""
    def answer(conn, request):
        conn.head(request)
        conn.data(request, b"12345")
        conn.quic.close(error_code=0x102, reason_phrase="bye")

    server, _ = site(answer)
    client = server.client()
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
    server.wait_log('upstream closed connection with error 258 "bye"')


def test_whole_response_and_the_end_at_once(site):
    """The end of the connection comes right after the response: nothing of it is lost."""
    def answer(conn, request):
        conn.answer(request, b"x" * 500)
        conn.ends = True

    server, _ = site(answer)
    client = server.client()
    for _ in range(5):
        assert client.request("/").body == b"x" * 500


@pytest.mark.parametrize("when", ["handshake", "head", "body", "upload", "interim"])
def test_client_leaves(site, when):
    """In every state; the connection carries other requests afterwards."""
    def begun(conn, request):
        if request[":path"] != "/leave":
            return
        if when in ("body", "interim"):
            conn.head(request, status="200" if when == "body" else "103")
        if when == "body":
            conn.data(request, bytes(100000))

    server, backend = site(lambda conn, request: conn.answer(request, b"good") if request[":path"] != "/leave" else None,
                           head=begun, more="proxy_request_buffering off;")
    for _ in range(5):
        client = server.client()
        if when == "upload":
            client.send("POST /leave HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n" + "x" * 1000)
        else:
            client.send("GET /leave HTTP/1.1\r\nHost: a\r\n\r\n")
        if when != "handshake":
            backend.request()
        if when == "body":
            client.readable(20)
        client.socket.shutdown(socket.SHUT_RDWR)
        client.close()
    assert server.client().request("/").body == b"good"
    backend.wait(lambda: all(request.stopped or request.reset or request[":path"] == "/" for request in backend.seen))


def test_stop_of_uploads(site):
    """STOP_SENDING with an error, then no answer: the read timeout counts."""
    server, backend = site(head=lambda conn, request: conn.quic.stop_stream(request.stream, 0x102),
                           more="proxy_request_buffering off; proxy_read_timeout 300ms; proxy_send_timeout 300ms;")
    client = server.client()
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n" + "x" * 100000)
    assert client.response().status == 504


def test_backend_takes_nothing(site):
    """Nothing is acknowledged any more: proxy_send_timeout."""
    server, backend = site(more="proxy_request_buffering off; proxy_send_timeout 300ms;")
    backend.head = lambda conn, request: setattr(backend, "is_deaf", True)
    client = server.client()
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n" + "x" * 1000000)
    assert client.response().status == 504
    server.wait_log("upstream timed out .*while sending request to upstream")
