"""HTTP/3: requests, heads, bodies of responses and of requests, as aioquic speaks it."""

import pytest

import tls_client
from h3_site import BIG, _site  # noqa: F401
from harness import h3
from harness.h3 import H3

# what is asked and answered


def test_get_and_variables(site):
    server = site("log_format f '$request|$status|$http3|$quic|$server_protocol|$scheme|$host'; access_log logs/access.log f;")
    with H3(server.port) as client:
        answer = client.get("/a.txt", authority="Example.com:81")
        assert answer.status == 200 and answer.body == b"hello\n"
        assert answer.headers["content-length"] == "6" and answer.headers["content-type"] == "text/plain"
        assert "connection" not in answer.headers and "transfer-encoding" not in answer.headers
        assert [name for name, _ in answer.heads[0]][:3] == [b":status", b"server", b"date"]
    assert server.wait_lines("logs/access.log") == ["GET /a.txt HTTP/3.0|200|h3|quic|HTTP/3.0|https|example.com"]


def test_head_empty_and_missing(site):
    with H3(site().port) as client:
        answer = client.get("/big", "HEAD")
        assert answer.headers["content-length"] == str(len(BIG)) and answer.body == b""
        assert client.get("/empty").status == 200
        assert client.get("/none").status == 404
        etag = client.get("/a.txt").headers["etag"]
        answer = client.get("/a.txt", headers=[("if-none-match", etag)])
        assert answer.status == 304 and answer.body == b""


def test_large_file(site):
    with H3(site().port) as client:
        assert client.get("/big").body == BIG
        answer = client.get("/big", headers=[("range", "bytes=1000-299999")])
        assert answer.status == 206 and answer.body == BIG[1000:300000]


@pytest.mark.parametrize("listen", ["[::1]", "[::]"])
def test_ipv6(site, listen):
    """Also on a wildcard, where the answers have to come from the address that was asked."""
    server = site("", "listen %s:@PORT@ quic; location /who { return 200 $remote_addr; }" % listen)
    with H3(server.port, host="::1") as client:
        assert client.get("/who").body == b"::1"
        assert client.get("/big").body == BIG


def test_many_streams(site):
    with H3(site().port) as client:
        streams = [client.send("/big" if i % 40 == 0 else "/a.txt") for i in range(100)]
        for i, stream in enumerate(streams):
            answer = client.wait(stream)
            assert answer.status == 200 and answer.body == (BIG if i % 40 == 0 else b"hello\n")


def test_requests_of_one_turn_before_an_error(site):
    """Their heads were read before the first of them was answered; then the connection fails."""
    server = site("access_log logs/access.log;")
    with H3(server.port) as client:
        client.get("/a.txt")
        for _ in range(20):
            client.http.send_headers(client.quic.get_next_available_stream_id(), client.head("/big"), end_stream=True)
        client.raw_stream(h3.frame(h3.SETTINGS))
        assert client.wait_closed() == h3.FRAME_UNEXPECTED
        assert len(server.wait_lines("logs/access.log", 21)) == 21


@pytest.mark.parametrize("how", ["stops", "closes"])
def test_a_response_that_is_not_taken_is_not_logged_as_whole(site, how):
    server = site("log_format ends '$request_completion|$status|$uri|$bytes_sent'; access_log logs/access.log ends;", files={"html/some": BIG[:100000]})
    with H3(server.port, max_stream_data=20000) as client:
        client.quic._write_stream_limits = lambda *args, **kwargs: None  # the window stays as it is
        assert client.get("/a.txt").status == 200
        stream = client.send("/some")
        client.turn_until(lambda: client.answer(stream).heads)
        if how == "stops":
            client.raw_packets(bytes([5, stream, 0x41, 0x0c]), 1)  # STOP_SENDING
            server.wait_lines("logs/access.log", 2)
    whole, other = server.wait_lines("logs/access.log", 2)
    assert whole.startswith("OK|200|/a.txt|") and other.startswith("|200|/some|") and int(other.split("|")[3]) <= 20000


def test_fields_come_again_by_the_table(site):
    """The dynamic tables of both sides: what is sent often is not sent in full."""
    with H3(site(server="add_header X-Long aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa;").port) as client:
        for _ in range(20):
            answer = client.get("/a.txt", headers=[("x-mine", "b" * 60), ("user-agent", "test")])
            assert answer.status == 200 and answer.headers["x-long"] == "a" * 60


def test_host_and_authority(site):
    with H3(site().port) as client:
        head = [(b":method", b"GET"), (b":scheme", b"https"), (b":path", b"/a.txt")]
        assert client.wait(client.send_head(head + [(b"host", b"localhost")])).status == 200
        assert client.wait(client.send_head(head)).status == 400
        both = head + [(b":authority", b"localhost")]
        assert client.wait(client.send_head(both + [(b"host", b"other")])).status == 400


@pytest.mark.parametrize("fields", [
    [(b":path", b"/a.txt"), (b":path", b"/a.txt")],
    [(b":path", b"a.txt")],
    [(b":path", b"/a.txt"), (b"x-upper", b"a"), (b":late", b"1")],
    [(b":path", b"/a.txt"), (b"connection", b"close")],
    [(b":path", b"/a.txt"), (b"te", b"gzip")],
    [(b":path", b"/a.txt"), (b"X-Upper", b"a")],
    [(b":path", b"/a.txt"), (b"x-line", b"a\r\nb")],
])
def test_malformed_requests(site, fields):
    """They are answered with 400, and the connection lives on."""
    with H3(site().port) as client:
        head = [(b":method", b"GET"), (b":scheme", b"https"), (b":authority", b"localhost")] + fields
        stream = client.raw_stream(h3.frame(h3.HEADERS, client.section(head)), end=True)
        assert client.wait(stream).status == 400
        assert client.get("/a.txt").status == 200


# bodies of requests

def test_body_that_is_not_read(site):
    """The response is whole without it: the client is told to stop, with H3_NO_ERROR."""
    with H3(site(server="location /no { return 403; }").port) as client:
        stream = client.send("/no", "POST", body=b"x" * 1000, end=False)
        answer = client.wait(stream)
        assert answer.status == 403
        client.turn_until(lambda: answer.stopped is not None)
        assert answer.stopped == h3.NO_ERROR


# connections

def test_keepalive_requests(site):
    server = site("keepalive_requests 3;")
    with H3(server.port) as client:
        for _ in range(3):
            assert client.get("/a.txt").status == 200
        assert client.wait_closed() == h3.NO_ERROR


def test_server_without_http3(site):
    server = site("server { listen 127.0.0.1:@PORT@ quic; server_name other; http3 off; }", "server_name localhost;")
    with H3(server.port) as client:
        assert client.get("/a.txt", authority="other").status == 421
        assert client.get("/a.txt").status == 200


def test_alt_svc(site):
    """Clients on TCP get it, with the port of the server's QUIC; those of HTTP/3 do not."""
    server = site("http3_alt_svc auto;")
    with H3(server.port) as client:
        assert "alt-svc" not in client.get("/a.txt").headers
    with tls_client.connect(server.port) as secure:
        secure.sendall(b"GET /a.txt HTTP/1.0\r\n\r\n")
        assert b'Alt-Svc: h3=":%d"; ma=86400\r\n' % server.port in secure.recv(65536)


def test_http_0_9(site):
    with H3(site("http3_hq on;").port, alpn=["hq-interop"]) as client:
        assert client.wait(client.raw_stream(b"GET /a.txt\r\n", end=True)).body == b"hello\n"


# what no client should send

def _closes(site, code, act):
    with H3(site().port) as client:
        client.get("/a.txt")
        act(client)
        assert client.wait_closed() == code


def _request(client):
    return h3.frame(h3.HEADERS, client.section(client.head("/a.txt")))


@pytest.mark.parametrize("code, data", [
    (h3.FRAME_UNEXPECTED, h3.HAS_AIOQUIC and h3.frame(h3.DATA, b"x")),
    (h3.FRAME_UNEXPECTED, h3.HAS_AIOQUIC and h3.frame(h3.SETTINGS)),
    (h3.FRAME_UNEXPECTED, h3.HAS_AIOQUIC and h3.frame(h3.GOAWAY, b"\0")),
    (h3.FRAME_UNEXPECTED, h3.HAS_AIOQUIC and h3.frame(h3.PUSH_PROMISE, b"\0")),
    (h3.FRAME_UNEXPECTED, h3.HAS_AIOQUIC and h3.frame(2)),
    (h3.QPACK_DECOMPRESSION_FAILED, h3.HAS_AIOQUIC and h3.frame(h3.HEADERS, b"\0\0\x80")),
    (h3.QPACK_DECOMPRESSION_FAILED, h3.HAS_AIOQUIC and h3.frame(h3.HEADERS, b"")),
])
def test_bad_frames_of_requests(site, code, data):
    _closes(site, code, lambda client: client.raw_stream(data))


def test_frames_after_trailers(site):
    def act(client):
        trailers = h3.frame(h3.HEADERS, client.section([(b"x-sum", b"1")]))
        client.raw_stream(_request(client) + h3.frame(h3.DATA, b"x") + trailers + trailers)
    _closes(site, h3.FRAME_UNEXPECTED, act)


def test_stream_that_ends_inside_a_frame(site):
    _closes(site, h3.FRAME_ERROR, lambda client: client.raw_stream(_request(client)[:-1], end=True))


def test_stream_without_a_request(site):
    with H3(site().port) as client:
        stream = client.raw_stream(h3.frame(0x21, b"grease"), end=True)
        assert client.wait(stream).reset == h3.REQUEST_INCOMPLETE
        assert client.get("/a.txt").status == 200


@pytest.mark.parametrize("code, data", [
    (h3.STREAM_CREATION_ERROR, b"\0"),    # a second control stream
    (h3.STREAM_CREATION_ERROR, b"\1\0"),  # a push
    (h3.STREAM_CREATION_ERROR, b"\2"),
    (h3.STREAM_CREATION_ERROR, b"\3"),
])
def test_bad_streams(site, code, data):
    _closes(site, code, lambda client: client.raw_stream(data, one_way=True))


def test_unknown_streams_are_stopped(site):
    with H3(site().port) as client:
        stream = client.raw_stream(b"\x21grease", one_way=True)
        client.turn_until(lambda: client.answer(stream).stopped is not None)
        assert client.answer(stream).stopped == h3.STREAM_CREATION_ERROR
        assert client.get("/a.txt").status == 200


@pytest.mark.parametrize("code, data", [
    (h3.FRAME_UNEXPECTED, h3.HAS_AIOQUIC and h3.frame(h3.SETTINGS)),
    (h3.FRAME_UNEXPECTED, h3.HAS_AIOQUIC and h3.frame(h3.DATA, b"x")),
    (h3.FRAME_ERROR, h3.HAS_AIOQUIC and h3.frame(h3.GOAWAY)),
    (h3.ID_ERROR, h3.HAS_AIOQUIC and h3.frame(h3.CANCEL_PUSH, b"\0")),
    (h3.ID_ERROR, h3.HAS_AIOQUIC and h3.frame(h3.PRIORITY_UPDATE, b"\2u=1")),
])
def test_bad_control_frames(site, code, data):
    _closes(site, code, lambda client: client.raw(client.http._local_control_stream_id, data))


def test_critical_stream_that_ends(site):
    _closes(site, h3.CLOSED_CRITICAL_STREAM,
            lambda client: client.raw(client.http._local_encoder_stream_id, b"", end=True))


def test_settings_of_the_server_that_was_chosen_by_name(site):
    """Those of the default server hold for the others only where they say nothing else."""
    server = site("quic_congestion_control bbr;", server="""
        http3_max_concurrent_streams 7; http3_stream_buffer_size 16k; keepalive_timeout 33s; server_name localhost;
        location / { root html; } }
        server { listen 127.0.0.1:@PORT@ quic; server_name other; http3_max_concurrent_streams 9;
        http3_stream_buffer_size 32k; quic_active_connection_id_limit 5; quic_congestion_control cubic;
        keepalive_timeout 44s; location / { root html; } }
        server { listen 127.0.0.1:@PORT@ quic; server_name plain;""")
    seen = {}
    for name in "localhost", "other", "plain", "unknown":
        with H3(server.port, name=name) as client:
            assert client.get("/big", authority=name).body == BIG
            quic = client.quic
            seen[name] = (quic._remote_max_streams_bidi, quic._remote_max_stream_data_bidi_remote,
                          quic._remote_active_connection_id_limit, quic._remote_max_idle_timeout)
    assert seen == {"localhost": (7, 16384, 2, 33), "other": (9, 32768, 5, 44), "plain": (128, 65536, 2, 75),
                    "unknown": (7, 16384, 2, 33)}


# guards

def test_flood_of_resets(site):
    server = site()
    with H3(server.port) as client:
        for _ in range(1000):
            if client.closed:
                break
            stream = client.quic.get_next_available_stream_id()
            client.turn_until(lambda: client.closed or stream < 4 * client.quic._remote_max_streams_bidi)
            client.quic.send_stream_data(stream, _request(client))
            client.quic.reset_stream(stream, h3.REQUEST_CANCELLED)
            client.turn()
        assert client.wait_closed() == h3.EXCESSIVE_LOAD
    server.wait_log("client sent too many streams that it cancelled")


def test_flood_of_empty_frames(site):
    server = site()
    with H3(server.port) as client:
        client.raw_stream(_request(client) + h3.frame(h3.DATA) * 1000)
        assert client.wait_closed() == h3.EXCESSIVE_LOAD
    server.wait_log("client sent too many empty frames")
