"""proxy_pass in front of real programs: a WSGI application behind gunicorn, streams of events, WebSocket."""

import asyncio
import hashlib
import os
import re
import signal

import pytest

import cgi_backends
from harness import until
from harness.workers import wait_workers

websockets = pytest.importorskip("websockets")

PYTHON = "/usr/bin/python3"  # Debian's, which has the libraries

# ---- an application behind gunicorn: threads of one process, which keeps connections

APPLICATION = r'''
import hashlib
import threading

gates = {}  # by name: what a stream waits for before its next part


def gate(name):
    return gates.setdefault(name, threading.Event())


def parts(name, text):
    yield text % 1
    assert gate(name).wait(30)
    yield text % 2


def application(environ, start_response):
    path, query = environ["PATH_INFO"], environ.get("QUERY_STRING", "")
    plain = [("Content-Type", "text/plain")]
    if path == "/environ":
        start_response("200 OK", plain)
        return ["".join("%s=%s\n" % pair for pair in sorted(environ.items())
                        if isinstance(pair[1], str)).encode("latin-1")]
    if path == "/connection":
        start_response("200 OK", plain)
        return [environ["REMOTE_PORT"].encode()]
    if path == "/upload":
        digest, size = hashlib.sha256(), 0
        for piece in iter(lambda: environ["wsgi.input"].read(65536), b""):
            digest.update(piece)
            size += len(piece)
        start_response("200 OK", plain + [("X-Sum", digest.hexdigest())])
        return [b"%d" % size]
    if path == "/large":
        start_response("200 OK", plain + [("Content-Length", "3000000")])
        if environ["REQUEST_METHOD"] == "HEAD":
            return []  # gunicorn sends what it gets, and the next response would follow it
        return (b"0123456789" * 30000 for _ in range(10))
    if path == "/open":
        gate(query).set()
        start_response("204 No Content", [])
        return []
    if path == "/stream":
        start_response("200 OK", plain + ([("X-Accel-Buffering", "no")] if query == "told" else []))
        return parts(query, b"part %d\n")
    if path == "/events":
        start_response("200 OK", [("Content-Type", "text/event-stream; charset=utf-8"),
                                  ("Cache-Control", "no-cache")])
        return parts(query, b"id: %d\ndata: thing\n\n")
    if path == "/cookies":
        start_response("418 Teapot", [("Set-Cookie", "a=1"), ("Set-Cookie", "b=2; Path=/")])
        return [b""]
    if path == "/tag":
        changed = environ.get("HTTP_IF_NONE_MATCH") != '"v1"'
        start_response("200 OK" if changed else "304 Not Modified", [("ETag", '"v1"')])
        return [b"thing"] if changed else []
    if path == "/crash":
        raise RuntimeError("asked for")
    start_response("404 Not Found", plain)
    return [b"no such thing"]
'''


def gunicorn(*args):
    return cgi_backends.Program(
        "gunicorn", "--workers", "1", "--worker-class", "gthread", "--threads", "8",
        "--bind", "127.0.0.1:@PORT@", "--worker-tmp-dir", "/dev/shm", *args, "app:application",
        files={"app.py": APPLICATION})


@pytest.fixture(scope="module")
def application():
    backend = gunicorn("--keep-alive", "75")
    yield backend
    backend.close()


PLACE = """
    server { listen 127.0.0.1:@PORT@; client_max_body_size 10m; client_body_buffer_size 16k;
        location / { proxy_pass http://127.0.0.1:@BACKEND@; }
        location /direct/ { proxy_pass http://127.0.0.1:@BACKEND@/;
                            proxy_request_buffering off; proxy_buffering off; }
        location /short/ { proxy_pass http://short/; }
    }
    upstream short { server 127.0.0.1:@BACKEND@; keepalive 0; }
"""


def front(serve, backend, text=PLACE, **kwargs):
    return serve(text.replace("@BACKEND@", str(backend.port)), **kwargs)


def chunked(body, size):
    pieces = [body[at:at + size] for at in range(0, len(body), size)]
    return b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"


def test_wsgi(serve, application):
    server = front(serve, application)
    with server.client() as client:
        response = client.request("/environ?q=1%20", "X-Some: thing", host="name:99")
        assert response.status == 200
        environ = dict(line.split("=", 1) for line in response.text.splitlines())
        assert environ["QUERY_STRING"] == "q=1%20" and environ["PATH_INFO"] == "/environ"
        assert environ["HTTP_X_SOME"] == "thing" and environ["REQUEST_METHOD"] == "GET"
        assert environ["HTTP_HOST"] == "127.0.0.1:%d" % application.port
        assert environ["SERVER_PROTOCOL"] == "HTTP/1.1"
        response = client.request("/cookies")
        assert response.status == 418 and response.all("Set-Cookie") == ["a=1", "b=2; Path=/"]
        assert client.request("/nowhere").text == "no such thing"
        assert client.request("/large").body == b"0123456789" * 300000
        assert client.request("/large", method="HEAD").header("Content-Length") == "3000000"
        response = client.request("/tag", 'If-None-Match: "v1"')
        assert response.status == 304 and response.header("ETag") == '"v1"'
        assert client.request("/tag").text == "thing"
        assert client.request("/crash").status == 500
        assert client.request("/tag").text == "thing"


@pytest.mark.parametrize("prefix", ["", "/direct"])
def test_uploads(serve, application, prefix):
    server = front(serve, application)
    body = os.urandom(1 << 16) * 32  # 2 MB
    with server.client() as client:
        for part in (b"", body[:10], body[:100001], body):
            wanted = (str(len(part)), hashlib.sha256(part).hexdigest())
            response = client.request(prefix + "/upload", method="POST", body=part)
            assert (response.text, response.header("X-Sum")) == wanted
            client.send(b"POST %s/upload HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
                        % prefix.encode() + chunked(part, 30011))
            response = client.response("POST")
            assert (response.text, response.header("X-Sum")) == wanted


def receive(client, wanted):
    """Reads until these bytes have come, framing and all."""
    text = b""
    while wanted not in text:
        text += client.socket.recv(65536)
    return text


@pytest.mark.parametrize("target,kind", [
    ("/direct/stream?a", "text/plain"),
    ("/stream?told", "text/plain"),  # X-Accel-Buffering: no
    ("/events?b", "text/event-stream; charset=utf-8"),
    ("/direct/events?c", "text/event-stream; charset=utf-8"),
])
def test_parts_are_passed_on_as_they_come(serve, application, target, kind):
    server = front(serve, application)
    first, second = (b"id: 1\n", b"id: 2\n") if "events" in target else (b"part 1\n", b"part 2\n")
    with server.client() as client:
        client.send("GET %s HTTP/1.1\r\nHost: x\r\n\r\n" % target)
        came = receive(client, first)  # the backend says no more before it is told to
        assert second not in came and b"Content-Type: %s\r\n" % kind.encode() in came
        assert server.get("/open?" + target.split("?")[1]).status == 204
        assert receive(client, b"\r\n0\r\n\r\n").count(second) == 1
        assert client.request("/tag").status == 200


def test_a_reader_of_events_who_leaves(serve, application):
    """The backend's connection does not outlive him."""
    server = front(serve, application, PLACE + """
        server { listen 127.0.0.1:@PORT2@; location / { stub_status; } }""")

    def active():
        return int(server.get("/", port=server.port_of("PORT2")).text.split()[2])

    with server.client() as client:
        client.send("GET /events?left HTTP/1.1\r\nHost: x\r\n\r\n")
        receive(client, b"id: 1\n")
    until(lambda: active() == 1, "the one that asks")
    server.get("/open?left")


def test_connections_are_kept(serve, application):
    server = front(serve, application)
    kept = {server.get("/connection").text for _ in range(6)}
    assert len(kept) == 1
    assert len({server.get("/short/connection").text for _ in range(6)}) == 6
    with server.client() as client:
        # A POST would take a connection only that was used half a second ago.
        client.request("/upload", method="PUT", body=b"x" * 300000)
        client.request("/cookies")
        assert {client.request("/connection").text} == kept


def test_a_backend_that_renews_its_processes(serve):
    """Kept connections end with their process; no request is lost by that."""
    backend = gunicorn("--keep-alive", "75", "--max-requests", "3")
    try:
        server = front(serve, backend)
        assert [server.get("/tag").text for _ in range(20)] == ["thing"] * 20
        assert server.read("error.log").count("[error]") == 0
    finally:
        backend.close()


# ---- WebSocket

ECHO = r'''
import asyncio
import http
import os
import sys

import websockets


async def echo(socket, path):
    try:
        async for message in socket:
            if message == "close":
                await socket.close(4001, "as you wish")
            elif message == "ping":
                await (await socket.ping(b"from the server"))
                await socket.send("pong")
            elif message == "flood":
                for number in range(2000):
                    await socket.send("%d " % number + "x" * 500)
            else:
                await socket.send(message)
    finally:
        print("closed", socket.close_code, path, flush=True)


async def refuse(path, headers):
    if path.startswith("/refused"):
        return http.HTTPStatus.FORBIDDEN, [("X-Why", "because")], b"not for you\n"


async def main():
    print("pid", os.getpid(), flush=True)
    async with websockets.serve(echo, "127.0.0.1", int(sys.argv[1]), process_request=refuse,
                                max_size=None, ping_interval=None, subprotocols=["chat", "other"]):
        await asyncio.Future()

asyncio.run(main())
'''


@pytest.fixture(scope="module")
def echo():
    backend = cgi_backends.Program(PYTHON, "echo.py", "@PORT@", files={"echo.py": ECHO})
    yield backend
    backend.close()


SOCKETS = """
    map $http_upgrade $connection_upgrade { default upgrade; "" close; }
    server { listen 127.0.0.1:@PORT@; access_log @DIR@/sockets.log;
        proxy_http_version 1.1;
        proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection "upgrade";
        location / { proxy_pass http://127.0.0.1:@BACKEND@; }
        location /idle { proxy_pass http://127.0.0.1:@BACKEND@; proxy_read_timeout 1s; }
        location /mapped { proxy_pass http://127.0.0.1:@BACKEND@;
            proxy_set_header Upgrade $http_upgrade;
            proxy_set_header Connection $connection_upgrade; }
    }
"""


def talk(server, conversation, path="/", **options):
    """Runs conversation(socket) on a connection through the server; gives the socket, closed."""
    async def run():
        async with websockets.connect("ws://127.0.0.1:%d%s" % (server.port, path), max_size=None,
                                      ping_interval=None, open_timeout=15, close_timeout=15,
                                      **options) as socket:
            await asyncio.wait_for(conversation(socket), 30)
        return socket

    return asyncio.run(run())


async def say(socket, message):
    await socket.send(message)
    return await socket.recv()


@pytest.mark.parametrize("path", ["/", "/mapped"])
def test_messages(serve, echo, path):
    server = front(serve, echo, SOCKETS)

    async def conversation(socket):
        assert socket.subprotocol == "chat"
        assert await say(socket, "hello") == "hello"
        assert await say(socket, "") == ""
        assert await say(socket, "gr\u00fc\u00dfe") == "gr\u00fc\u00dfe"
        assert await say(socket, b"\0\xff") == b"\0\xff"
        assert await say(socket, ["in ", "three ", "frames"]) == "in three frames"
        for number in range(50):
            await socket.send(str(number))
        assert [await socket.recv() for _ in range(50)] == [str(n) for n in range(50)]

    assert talk(server, conversation, path, subprotocols=["chat"]).close_code == 1000


@pytest.mark.parametrize("compression", [None, "deflate"])
def test_large_messages(serve, echo, compression):
    server = front(serve, echo, SOCKETS)
    data = os.urandom(1 << 20)

    async def conversation(socket):
        assert await say(socket, data) == data
        assert await say(socket, data.hex()) == data.hex()

    talk(server, conversation, compression=compression)


def test_both_ways_at_once(serve, echo):
    """A client that does not read while it writes: neither side stops the other."""
    server = front(serve, echo, SOCKETS)
    data = os.urandom(200000)

    async def conversation(socket):
        await socket.send("flood")
        senders = [asyncio.ensure_future(socket.send(data)) for _ in range(10)]
        for number in range(2000):
            assert (await socket.recv()).startswith("%d " % number)
        for _ in senders:
            assert await socket.recv() == data
        await asyncio.gather(*senders)

    talk(server, conversation)


def test_pings(serve, echo):
    server = front(serve, echo, SOCKETS)

    async def conversation(socket):
        await (await socket.ping(b"from the client"))
        assert await say(socket, "ping") == "pong"  # the server's was answered by then

    talk(server, conversation)


def test_close_by_the_client(serve, echo):
    server = front(serve, echo, SOCKETS)

    async def conversation(socket):
        assert await say(socket, "x") == "x"
        await socket.close(4002, "enough")

    assert talk(server, conversation, "/by-client").close_code == 4002
    until(lambda: "closed 4002 /by-client" in echo.log(), "the backend heard it")
    line = server.wait_lines("sockets.log", 1)[0]
    assert re.search(r'"GET /by-client HTTP/1.1" 101 [1-9]', line), line


def test_close_by_the_backend(serve, echo):
    server = front(serve, echo, SOCKETS)

    async def conversation(socket):
        await socket.send("close")
        with pytest.raises(websockets.ConnectionClosed):
            await socket.recv()

    socket = talk(server, conversation)
    assert (socket.close_code, socket.close_reason) == (4001, "as you wish")


def test_a_client_that_vanishes(serve, echo):
    server = front(serve, echo, SOCKETS)

    async def conversation(socket):
        assert await say(socket, "x") == "x"
        socket.transport.abort()

    talk(server, conversation, "/vanished")
    until(lambda: "closed 1006 /vanished" in echo.log(), "the backend is told")


def test_a_backend_that_dies(serve):
    backend = cgi_backends.Program(PYTHON, "echo.py", "@PORT@", files={"echo.py": ECHO})
    try:
        server = front(serve, backend, SOCKETS)

        async def conversation(socket):
            assert await say(socket, "x") == "x"
            os.kill(int(re.search(r"pid (\d+)", backend.log())[1]), signal.SIGKILL)
            with pytest.raises(websockets.ConnectionClosedError):
                await socket.recv()

        assert talk(server, conversation).close_code == 1006
    finally:
        backend.close()


def test_idle(serve, echo):
    """proxy_read_timeout ends a connection on which nothing is said."""
    server = front(serve, echo, SOCKETS)

    async def conversation(socket):
        assert await say(socket, "x") == "x"
        with pytest.raises(websockets.ConnectionClosedError):
            await socket.recv()

    assert talk(server, conversation, "/idle").close_code == 1006
    server.wait_log(r"upstream timed out \(110: .* while proxying upgraded connection")
    until(lambda: "closed 1006 /idle" in echo.log(), "the backend is told")


def test_a_handshake_that_is_refused(serve, echo):
    server = front(serve, echo, SOCKETS)

    async def conversation(socket):
        raise AssertionError("it is open")

    with pytest.raises(websockets.InvalidStatusCode) as refusal:
        talk(server, conversation, "/refused")
    assert refusal.value.status_code == 403 and refusal.value.headers["X-Why"] == "because"
    with server.client() as client:  # no WebSocket at all
        response = client.request("/mapped")
        assert response.status == 426 and response.header("Upgrade") == "websocket"


def test_a_reload_while_it_is_open(serve, echo):
    """The old worker keeps it, and ends with it."""
    server = front(serve, echo, SOCKETS)

    async def conversation(socket):
        assert await say(socket, "before") == "before"
        old = server.children()
        server.reload()
        await asyncio.get_event_loop().run_in_executor(None, until, is_replaced(old))
        assert await say(socket, "after") == "after"
        assert await say(socket, b"x" * 300000) == b"x" * 300000
        assert set(old) & set(server.children())

    def is_replaced(old):
        return lambda: (set(server.children()) - set(old) and
                        "gracefully shutting down" in server.read("error.log"))

    before = server.children()
    assert talk(server, conversation).close_code == 1000
    wait_workers(server, 1, without=before)
    talk(server, lambda socket: say(socket, "new"))


def test_quit_while_it_is_open(serve, echo):
    """The service ends when the conversation does, or worker_shutdown_timeout is over."""
    server = front(serve, echo, SOCKETS, main="worker_shutdown_timeout 1s;")

    async def conversation(socket):
        assert await say(socket, "x") == "x"
        server.signal("quit")
        with pytest.raises(websockets.ConnectionClosedError):
            await socket.recv()

    talk(server, conversation, "/quit")
    server.wait_end()
    until(lambda: "closed 1006 /quit" in echo.log(), "the backend is told")
