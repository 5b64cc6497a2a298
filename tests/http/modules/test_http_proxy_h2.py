"""proxy_pass over HTTP/2: heads and bodies both ways, windows, shared connections, broken backends."""

import threading

import pytest

from h2_backend import (ACK, CONTINUATION, DATA, END_HEADERS, END_STREAM, GOAWAY, H2Backend, HEADERS, PING,
                        PUSH, RST, SETTINGS, WINDOW, block, each, frame, u32)

OK = block((":status", "200"))


@pytest.fixture
def h2():
    made = []

    def make(script, **how):
        made.append(H2Backend(script, **how))
        return made[-1]

    yield make
    for backend in made:
        backend.close()


def conf(backend, more="", upstream=""):
    return ("upstream u { server 127.0.0.1:%d; %s }"
            " server { listen 127.0.0.1:@PORT@; http2 on; location / { proxy_pass http://u;"
            " proxy_http_version 2; %s } }" % (backend.port, upstream, more))


def test_request_head(serve, h2):
    seen = []

    def answer(conn, request):
        seen.append((request, conn.body(request)))
        conn.answer(request, b"hello", [("x-a", "b"), ("connection", "close")])

    backend = h2(each(answer))
    server = serve(conf(backend, 'proxy_set_header X-Own "$arg_a"; proxy_set_header X-Not "";'))
    response = server.client().request(
        "/p?a=1", "User-Agent: ua", "Connection: keep-alive, x-hop", "TE: trailers", "X-Not: 1",
        "Upgrade: foo", "X-UPPER: Value", method="POST", body=b"abc")
    assert (response.status, response.body, response.header("x-a")) == (200, b"hello", "b")
    request, body = seen[0]
    assert body == b"abc"
    names = [name for name, _ in request.fields]
    assert names[:4] == [":method", ":scheme", ":path", ":authority"]
    assert (request[":method"], request[":scheme"], request[":path"], request[":authority"]) == \
        ("POST", "http", "/p?a=1", "u")
    assert request["content-length"] == "3"
    assert (request["x-own"], request["x-upper"], request["user-agent"]) == ("1", "Value", "ua")
    for name in ("connection", "te", "upgrade", "x-not", "host", "transfer-encoding"):
        assert request[name] is None, name


def test_own_host(serve, h2):
    seen = []

    def answer(conn, request):
        seen.append(request)
        conn.answer(request)

    backend = h2(each(answer))
    server = serve(conf(backend, "proxy_set_header Host $http_host;"))
    assert server.client().request("/", host="front.example").status == 200
    assert seen[0]["host"] == "front.example" and seen[0][":authority"] is None


def test_long_head_is_continued(serve, h2):
    def answer(conn, request):
        conn.answer(request, str(len(request["x-long"])).encode())

    backend = h2(each(answer))
    server = serve(conf(backend, 'proxy_set_header X-Long "%s";' % ("~" * 4000)))
    assert server.client().request("/").body == b"4000"
    server = serve(conf(backend, "".join('proxy_set_header X-L%d "%s";' % (i, "Z" * 3000)
                                         for i in range(12)) + "proxy_set_header X-Long z;"))
    assert server.client().request("/").body == b"1"
    kinds = [got[0] for got in backend.connections[-1].frames]
    assert kinds.count(CONTINUATION) == 2


def test_connection_is_kept(serve, h2):
    """While it rests, control frames are answered."""
    answered = threading.Semaphore(0)

    def answer(conn, request):
        conn.answer(request, b"%d" % conn.number)
        conn.send(frame(SETTINGS, 0, 0, b"\0\3\0\0\0\7"), frame(PING, 0, 0, b"12345678"))
        assert conn.wait(PING, flags=ACK)[3] == b"12345678"
        answered.release()

    backend = h2(each(answer))
    client = serve(conf(backend)).client()
    for _ in range(5):
        assert client.request("/").body == b"1"
        assert answered.acquire(timeout=10)
    assert len(backend.connections) == 1


def test_requests_share_a_connection(serve, h2):
    """The third request comes while the first two are not answered."""
    answers = {}

    def script(conn):
        requests = [conn.request()]
        conn.answer(requests[0], b"first")
        conn.wait_settled()
        requests = [conn.request() for _ in range(3)]
        assert len({request.stream for request in requests}) == 3
        for request in reversed(requests):
            conn.answer(request, request[":path"].encode() * 1000)
        conn.request()

    backend = h2(script, settings=b"\0\3\0\0\0\x10")
    server = serve(conf(backend))
    assert server.client().request("/").body == b"first"

    def ask(path):
        answers[path] = server.client().request(path).body

    threads = [threading.Thread(target=ask, args=("/%d" % i,)) for i in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == {"/%d" % i: b"/%d" % i * 1000 for i in range(3)}
    assert len(backend.connections) == 1


def test_windows_of_the_backend(serve, h2):
    """A body goes out as the windows of stream and connection open."""
    size = 200000
    sizes = []

    def answer(conn, request):
        data = conn.body(request, 10)
        sizes.append(len(data))
        conn.settings(b"\0\4" + u32(1000))
        conn.wait_settled()
        data += conn.body(request, 1000 - len(data))
        sizes.append(len(data))
        conn.send(frame(WINDOW, 0, 0, u32(size)), frame(WINDOW, 0, request.stream, u32(size)))
        data += conn.body(request)
        conn.answer(request, b"%d %s" % (len(data), data[-3:]))

    backend = h2(each(answer), settings=b"\0\4\0\0\0\x0a")
    server = serve(conf(backend, "client_max_body_size 1m;"))
    body = b"x" * (size - 3) + b"end"
    # The window of the first request may be the one from before the settings came: a short one goes first.
    assert server.client().request("/", method="POST", body=b"y" * 2000).status == 200
    sizes.clear()
    response = server.client().request("/", method="POST", body=body)
    assert response.body == b"%d end" % size
    assert sizes == [1000, 1000] or sizes == [10, 1000]


def test_send_timeout_begins_anew_with_what_the_backend_takes(serve, h2):
    """The window opens by a little at a time; what waits for room in it waits longer than the timeout in all."""
    begun, taken = threading.Event(), threading.Event()

    def answer(conn, request):
        data = b""
        begun.set()
        for _ in range(0 if request.ended else 5):
            threading.Event().wait(0.3)
            conn.send(frame(WINDOW, 0, request.stream, u32(10)))
            data += conn.body(request, 10)
            taken.set()
        conn.answer(request, data)

    backend = h2(each(answer), settings=b"\0\4\0\0\0\0")
    server = serve(conf(backend, "proxy_request_buffering off; proxy_send_timeout 1s;"))
    # The first request may go by the windows of before the settings: one without a body has them come.
    server.get("/settled")
    begun.clear()
    body = b"0123456789" * 5
    with server.client() as client:
        client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % len(body))
        assert begun.wait(10)
        client.send(body[:49])
        assert taken.wait(10)
        client.send(body[49:])
        assert client.response().body == body
    assert "timed out" not in server.error_log


def test_windows_of_ours(serve, h2):
    """An answer that is longer than our windows comes as they are opened."""
    size = 3000000

    def answer(conn, request):
        left, window = size, 256 * 1024
        conn.send(frame(HEADERS, END_HEADERS, request.stream, OK))
        while left != 0:
            n = min(left, 16384, window)
            if n == 0:
                got = conn.wait(WINDOW, request.stream)
                window += int.from_bytes(got[3], "big")
                continue
            left -= n
            window -= n
            conn.send(frame(DATA, END_STREAM if left == 0 else 0, request.stream, b"z" * n))

    backend = h2(each(answer))
    server = serve(conf(backend))
    assert server.client().request("/").body == b"z" * size


def test_padding_and_priority(serve, h2):
    def answer(conn, request):
        conn.send(frame(HEADERS, END_HEADERS | 0x28, request.stream, b"\3" + u32(0) + b"\x10" + OK + b"\0\0\0"),
                  frame(DATA, END_STREAM | 8, request.stream, b"\5hello\0\0\0\0\0"))

    server = serve(conf(h2(each(answer))))
    assert server.client().request("/").body == b"hello"


def test_head_has_no_body(serve, h2):
    def answer(conn, request):
        conn.send(frame(HEADERS, END_HEADERS | END_STREAM, request.stream,
                        block((":status", "200"), ("content-length", "77"))))

    server = serve(conf(h2(each(answer))))
    client = server.client()
    for _ in range(2):
        response = client.request("/", method="HEAD")
        assert (response.status, response.header("Content-Length")) == (200, "77")


def test_trailers(serve, h2):
    def answer(conn, request):
        conn.answer(request, b"x", trailers=[("x-t", "1"), ("content-length", "5")])

    backend = h2(each(answer))
    server = serve(conf(backend, "proxy_pass_trailers on;"))
    response = server.client().request("/", "TE: trailers")
    assert response.trailers == [("x-t", "1")]
    assert serve(conf(backend)).client().request("/").trailers == []


def test_interim(serve, h2):
    def answer(conn, request):
        conn.send(frame(HEADERS, END_HEADERS, request.stream, block((":status", "103"), ("link", "<a>"))))
        conn.answer(request, b"x")

    server = serve(conf(h2(each(answer)), "early_hints 1;"))
    response = server.client().request("/")
    assert response.body == b"x" and response.interim[0].status == 103
    assert response.interim[0].header("link") == "<a>"


def test_goaway_is_obeyed(serve, h2):
    """Those above its number are asked again, even POST: nobody looked at them."""
    def script(conn):
        while True:
            request = conn.request()
            conn.body(request)
            if conn.number == 1 and request.stream == 3:
                conn.send(frame(GOAWAY, 0, 0, u32(1) + u32(0)))
                continue
            conn.answer(request, b"%d" % conn.number)

    backend = h2(script)
    server = serve(conf(backend))
    client = server.client()
    assert client.request("/").body == b"1"
    assert client.request("/", method="POST", body=b"abc").body == b"2"
    assert client.request("/").body == b"2"


@pytest.mark.parametrize("last, answers", [(5, [b"1", b"1"]), (3, [b"1", b"2"])])
def test_goaway_with_an_error(serve, h2, last, answers):
    """Streams up to its number may still be answered; those above were not looked at, and are asked again."""
    came = threading.Event()

    def script(conn):
        conn.answer(conn.request(), b"%d" % conn.number)
        if conn.number == 1:
            first = conn.request()
            came.set()
            second = conn.request()
            conn.send(frame(GOAWAY, 0, 0, u32(last) + u32(11)))
            conn.answer(first, b"1")
            if last == 5:
                conn.answer(second, b"1")

    server = serve(conf(h2(script)))
    with server.client() as client, server.client() as other:
        assert client.request("/").body == b"1"
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        assert came.wait(10)
        other.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        assert [client.response().body, other.response().body] == answers


def test_refused_stream_is_asked_again(serve, h2):
    def script(conn):
        while True:
            request = conn.request()
            if conn.number == 1 and request.stream == 3:
                conn.send(frame(RST, 0, 3, u32(7)))
                continue
            conn.answer(request, b"%d" % conn.number)

    server = serve(conf(h2(script)))
    client = server.client()
    assert client.request("/").body == b"1"
    assert client.request("/", method="POST", body=b"abc").body == b"2"


def test_answer_before_the_body(serve, h2):
    """NO_ERROR behind a whole answer: the rest of the body is not wanted, and nothing is wrong."""
    def answer(conn, request):
        conn.answer(request, b"enough")
        conn.send(frame(RST, 0, request.stream, u32(0)))

    backend = h2(each(answer), settings=b"\0\4\0\0\0\x0a")
    server = serve(conf(backend, "client_max_body_size 1m;"))
    client = server.client()
    for _ in range(2):
        assert client.request("/", method="POST", body=b"x" * 100000).body == b"enough"


def test_cancelled_request_leaves_the_connection(serve, h2):
    got = []
    gone = threading.Event()

    def script(conn):
        request = conn.request()
        conn.answer(request, b"1")
        request = conn.request()
        conn.send(frame(HEADERS, END_HEADERS, request.stream, OK), frame(DATA, 0, request.stream, b"part"))
        got.append(conn.wait(RST, request.stream)[3])
        gone.set()
        conn.answer(conn.request(), b"after")
        conn.request()

    backend = h2(script)
    server = serve(conf(backend, "proxy_buffering off;"))
    assert server.client().request("/").body == b"1"
    client = server.client()
    client.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
    assert b"200" in client.socket.recv(100)
    client.close()
    assert gone.wait(10)
    assert got == [u32(8)]
    assert server.client().request("/").body == b"after"
    assert len(backend.connections) == 1


BAD = [
    # what is sent to the request on stream 1, what the log says
    (frame(DATA, 1, 1, b"abc"), "unexpected http2 frame: 0"),
    (frame(HEADERS, 4, 3, OK), "frame for unknown stream 3"),
    (frame(HEADERS, 4, 2, OK), "frame for unknown stream 2"),
    (frame(HEADERS, 4, 1, b"\xff\xff\xff\xff\xff\xff"), "invalid header"),
    (frame(HEADERS, 4, 1, b"\xbe"), "invalid header"),
    (frame(RST, 0, 1, u32(2)), "rejected request with error 2"),
    (frame(GOAWAY, 0, 0, u32(0) + u32(1)), "goaway with error 1"),
    (frame(SETTINGS, 0, 1), "settings frame with non-zero stream id: 1"),
    (frame(SETTINGS, 0, 0, b"abc"), "settings frame with invalid length: 3"),
    (frame(SETTINGS, 0, 0, b"\0\4\xff\xff\xff\xff"), "too large initial window size: 4294967295"),
    (frame(PING, 0, 0, b"abc"), "ping frame with invalid length: 3"),
    (frame(PUSH, 4, 1, u32(2)), "unexpected push promise frame"),
    (frame(WINDOW, 0, 0, u32(0x7fffffff)), "too large window update"),
    (frame(WINDOW, 0, 1, u32(0x7fffffff)), "too large window update"),
    (frame(WINDOW, 0, 1, u32(0)), "window update of zero"),
    (frame(HEADERS, 4, 1, block(("abc", "d"))), "no :status header"),
    (frame(HEADERS, 4, 1, OK + OK), "duplicate :status header"),
    (frame(HEADERS, 4, 1, block((":status", "abc"))), 'invalid :status "abc"'),
    (frame(HEADERS, 4, 1, block((":status", "101"))), 'invalid :status "101"'),
    (frame(HEADERS, 4, 1, OK + block(("ABC", "d"))), 'invalid header: "ABC: d"'),
    (frame(HEADERS, 4, 1, OK + block(("abc", "d\n"))), "invalid header"),
    (frame(HEADERS, 4, 1, OK + block(("", "d"))), "invalid header"),
    (frame(HEADERS, 4, 1, block((":ab", "c"))), 'invalid header ":ab: c"'),
    (frame(HEADERS, 4, 1, OK + block(("a" * 5000, "c"))), "too big header"),
    (frame(HEADERS, 0, 1, OK + block(("a", "c"))) + frame(CONTINUATION, 0, 1, block(("b", "c" * 16000))) * 2,
     "too big header"),
    (frame(HEADERS, 0, 1, OK) + frame(CONTINUATION, 0, 1) * 1001, "too many continuation frames"),
    (frame(HEADERS, 12, 1, b"\x09" + OK[:1]), "http2 frame with too long padding: 9 in frame 2"),
    (frame(CONTINUATION, 4, 1, OK), "unexpected http2 frame: 9"),
    (frame(HEADERS, 0, 1, OK) + frame(DATA, 0, 1, b"a"), "unexpected http2 frame: 0"),
    (frame(DATA, 0, 1, b"a" * 16385), "too large http2 frame: 16385"),
    (frame(HEADERS, 5, 1, block((":status", "103"))), "prematurely closed stream"),
    (b"HTTP/1.1 400 Bad Request\r\n\r\n", "too large http2 frame"),
]


@pytest.mark.parametrize("sent,told", BAD, ids=[told for _, told in BAD])
def test_broken_heads(serve, h2, sent, told):
    def script(conn):
        conn.request()
        conn.send(sent)
        conn.request()

    server = serve(conf(h2(script)))
    assert server.client().request("/").status == 502
    assert told in server.error_log


def test_first_frame_has_to_be_settings(serve, h2):
    def script(conn):
        conn.request()
        conn.send(frame(HEADERS, 5, 1, OK))
        conn.request()

    server = serve(conf(h2(script, settings=None)))
    assert server.client().request("/").status == 502
    assert "unexpected http2 frame: 1" in server.error_log


CUT = [
    (frame(DATA, 0, 1, b"a") + frame(RST, 0, 1, u32(2)), "rejected request with error 2"),
    (frame(DATA, 1, 1, b"a"), "prematurely closed stream"),
    (frame(DATA, 1, 1, b"a" * 11), "response body larger than indicated content length"),
    (frame(HEADERS, 4, 1, block(("a", "b"))), "trailer without end stream flag"),
    (frame(HEADERS, 5, 1, OK), 'invalid header ":status: 200"'),
    (frame(DATA, 0, 1, b"a") + frame(DATA, 9, 1, b"\xff"), "too long padding: 255 in frame 1"),
]


@pytest.mark.parametrize("sent,told", CUT, ids=[told for _, told in CUT])
def test_broken_bodies(serve, h2, sent, told):
    def script(conn):
        conn.request()
        conn.send(frame(HEADERS, 4, 1, block((":status", "200"), ("content-length", "10"))))
        conn.wait_settled()
        conn.send(sent)
        conn.request()

    server = serve(conf(h2(script)))
    client = server.client()
    client.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
    whole = b""
    while True:
        more = client.socket.recv(65536)
        if not more:
            break
        whole += more
    assert b"a" * 10 not in whole.partition(b"\r\n\r\n")[2]
    assert told in server.error_log


def test_too_much_for_the_window(serve, h2):
    """A backend that goes on although a slow client has not read: not more than a window is kept."""
    def script(conn):
        request = conn.request()
        conn.send(frame(HEADERS, 4, 1, OK), frame(DATA, 0, 1, b"x" * 16384) * 1000)
        conn.wait(RST, request.stream)

    server = serve(conf(h2(script), "proxy_buffering off;"))
    client = server.client(rcvbuf=4096)
    client.send(b"GET / HTTP/1.0\r\nHost: a\r\n\r\n")
    server.wait_log("violated stream flow control")
