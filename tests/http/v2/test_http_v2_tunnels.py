"""HTTP/2: streams that are tunnels: CONNECT, and extended CONNECT for WebSocket (RFC 8441)."""

import asyncio
import struct
import threading

import pytest

from h2_site import _site  # noqa: F401
from harness import h2
from harness.backend import send_back_in_capitals, talk_to_each
from harness.h2 import CANCEL, DATA, END_STREAM, H2, RST_STREAM


def websocket_backend():
    """Accepts an upgrade, then sends back what it gets in capitals. Gives port and the heads it got."""
    heads = []

    def talk(conn):
        got = b""
        while b"\r\n\r\n" not in got:
            got += conn.recv(65536)
        heads.append(got)
        if b"refuse" in got:
            conn.sendall(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno")
            return
        conn.sendall(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: upgrade\r\n"
                     b"Sec-WebSocket-Accept: x\r\n\r\nwelcome")
        send_back_in_capitals(conn)

    return talk_to_each(talk), heads


def extended(path, protocol="websocket"):
    return [(":method", "CONNECT"), (":protocol", protocol), (":scheme", "http"), (":path", path),
            (":authority", "localhost")]


def test_websocket(site):
    """Extended CONNECT (RFC 8441)."""
    listener, heads = websocket_backend()
    server = site(server="""location /ws { proxy_pass http://127.0.0.1:%d; proxy_http_version 1.1;
        proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection "upgrade"; }""" % listener.getsockname()[1])
    with H2(server.port) as client:
        assert client.is_alive() and client.settings[8] == 1
        stream = client.request(pseudo=extended("/ws"), headers=[("sec-websocket-version", "13")], ends=False)
        while client.answers.get(stream, h2.Answer()).body != b"welcome":
            client.read()
        answer = client.answers[stream]
        assert answer.status == 200 and "upgrade" not in answer.headers and "connection" not in answer.headers
        assert client.get("/a.txt").body == b"hello\n"
        client.data(stream, b"hello", ends=False)
        while answer.body != b"welcomeHELLO":
            client.read()
        big = b"x" * 40000
        client.data(stream, big, ends=False)
        while len(answer.body) < 12 + len(big):
            client.read()
        client.send(DATA, END_STREAM, stream)
        assert client.answer(stream).is_whole
        assert b"GET /ws HTTP/1.1" in heads[0] and b"sec-websocket-key: " in heads[0].lower()
        stream = client.request(pseudo=extended("/ws/refuse"), ends=False)
        assert client.answer(stream).status == 403
        assert client.answer(client.request(pseudo=extended("/a.txt"), ends=False)).status == 501
        assert client.answer(client.request(pseudo=extended("/ws", "foo"), ends=False)).status == 501
    listener.close()


def test_websocket_that_the_client_drops(site):
    """What was answered is logged, whoever ends it, and 501 where no tunnel was made."""
    listener, _ = websocket_backend()
    server = site("log_format f '$status $upstream_status'; access_log logs/access.log f;",
                  """location /ws { proxy_pass http://127.0.0.1:%d; proxy_http_version 1.1;
        proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection "upgrade"; }""" % listener.getsockname()[1])
    with H2(server.port) as client:
        for end in (lambda: client.send(RST_STREAM, 0, stream, struct.pack("!I", CANCEL)), client.socket.close):
            stream = client.request(pseudo=extended("/ws"), ends=False)
            while client.answers.get(stream, h2.Answer()).body != b"welcome":
                client.read()
            if stream > 1:
                assert client.answer(client.request(pseudo=extended("/a.txt"), ends=False)).status == 501
            end()
    assert server.wait_lines("logs/access.log", 3) == ["200 101", "501 -", "200 101"]
    listener.close()


def test_connect(serve):
    listener, _ = websocket_backend()
    server = serve("http2 on; server { listen 127.0.0.1:@PORT@; location / { tunnel_pass; } }")
    with H2(server.port) as client:
        target = "127.0.0.1:%d" % listener.getsockname()[1]
        stream = client.request(pseudo=[(":method", "CONNECT"), (":authority", target)], ends=False)
        while not client.answers.get(stream, h2.Answer()).heads:
            client.read()
        assert client.answers[stream].status == 200
        client.data(stream, b"GET / HTTP/1.1\r\n\r\n", ends=False)
        while not client.answers[stream].body.endswith(b"welcome"):
            client.read()
        client.send(RST_STREAM, 0, stream, struct.pack("!I", CANCEL))
        assert client.is_alive()
    listener.close()


# other people's code: frames of WebSocket by python3-websockets

@pytest.fixture(name="real")
def _real():
    """The port of a WebSocket server that sends back what it gets, twice."""
    websockets = pytest.importorskip("websockets")
    ready, loop = threading.Event(), asyncio.new_event_loop()
    port = []

    async def talk(connection, *_):
        async for message in connection:
            await connection.send(message + message)

    async def serve():
        server = await websockets.serve(talk, "127.0.0.1", 0, subprotocols=["chat"])
        port.append(server.sockets[0].getsockname()[1])
        ready.set()

    def run():
        asyncio.set_event_loop(loop)
        loop.run_until_complete(serve())
        loop.run_forever()
        for task in asyncio.all_tasks(loop):
            task.cancel()
            loop.run_until_complete(asyncio.wait([task]))
    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    ready.wait(10)
    yield port[0]
    loop.call_soon_threadsafe(loop.stop)
    thread.join(10)


def masked(payload, opcode=1):
    """A frame of WebSocket as clients send it (RFC 6455, 5.2)."""
    size = len(payload)
    length = bytes([0x80 | size]) if size < 126 else bytes([0x80 | 126]) + struct.pack("!H", size)
    return bytes([0x80 | opcode]) + length + bytes(4) + payload


def unmasked(data):
    """The payload of a frame as servers send it, and what is behind it; None: it is not whole."""
    if len(data) < 4 or (data[1] == 126 and len(data) < 4):
        return None
    size, at = (data[1], 2) if data[1] < 126 else (struct.unpack("!H", data[2:4])[0], 4)
    return (data[at:at + size], data[at + size:]) if len(data) >= at + size else None


def read_message(client, stream, at):
    while True:
        got = unmasked(client.answers[stream].body[at:]) if stream in client.answers else None
        if got is not None:
            return got[0]
        assert client.read() is not None


def test_real_websocket(site, real):
    """Through proxy_pass, in HTTP/2 in front and HTTP/1.1 behind; several at a time on one connection."""
    server = site(server="""location /ws { proxy_pass http://127.0.0.1:%d; proxy_http_version 1.1;
        proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection "upgrade"; }""" % real)
    with H2(server.port) as client:
        assert client.is_alive() and client.settings[8] == 1
        client.window(2 ** 20)
        streams = [client.request(pseudo=extended("/ws"), ends=False, headers=[
            ("sec-websocket-version", "13"), ("sec-websocket-protocol", "chat")]) for _ in range(5)]
        for stream in streams:
            while not client.answers.get(stream, h2.Answer()).heads:
                client.read()
            assert client.answers[stream].status == 200
            assert client.answers[stream].headers["sec-websocket-protocol"] == "chat"
        for text in (b"hello", b"x" * 20000):
            for stream in streams:
                at = len(client.answers[stream].body)
                client.data(stream, masked(text), ends=False)
                assert read_message(client, stream, at) == text * 2
        for stream in streams:
            at = len(client.answers[stream].body)
            client.data(stream, masked(struct.pack("!H", 1000), 8), ends=False)
            assert read_message(client, stream, at)[:2] == struct.pack("!H", 1000)
            client.send(DATA, END_STREAM, stream)
            assert client.answer(stream).is_whole
        assert client.get("/a.txt").status == 200


def test_real_websocket_through_connect(serve, real):
    """Plain CONNECT through tunnel_pass; the client speaks HTTP/1.1 and WebSocket inside."""
    server = serve("http2 on; server { listen 127.0.0.1:@PORT@; location / { tunnel_pass; } }")
    with H2(server.port) as client:
        target = "127.0.0.1:%d" % real
        stream = client.request(pseudo=[(":method", "CONNECT"), (":authority", target)], ends=False)
        while not client.answers.get(stream, h2.Answer()).heads:
            client.read()
        answer = client.answers[stream]
        client.data(stream, b"GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                            b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==\r\n\r\n",
                    ends=False)
        while b"\r\n\r\n" not in answer.body:
            client.read()
        assert answer.body.startswith(b"HTTP/1.1 101 ")
        at = len(answer.body)
        client.data(stream, masked(b"hello"), ends=False)
        assert read_message(client, stream, at) == b"hellohello"


@pytest.mark.parametrize("pseudo, status", [
    ([(":method", "CONNECT"), (":authority", "127.0.0.1")], 400),
    ([(":method", "CONNECT"), (":authority", "127.0.0.1:1"), (":path", "/")], 400),
    ([(":method", "CONNECT"), (":authority", "127.0.0.1:1"), (":scheme", "http")], 400),
    ([(":method", "CONNECT"), (":authority", "127.0.0.1:1")], 502),
    ([(":method", "GET"), (":protocol", "websocket"), (":scheme", "http"), (":path", "/"), (":authority", "a")], 400),
    ([(":method", "CONNECT"), (":protocol", "websocket"), (":path", "/"), (":authority", "a")], 400),
    ([(":method", "CONNECT"), (":protocol", "websocket"), (":scheme", "http"), (":authority", "a")], 400),
])
def test_wrong_connects(serve, pseudo, status):
    server = serve("http2 on; server { listen 127.0.0.1:@PORT@; location / { tunnel_pass; } }")
    with H2(server.port) as client:
        assert client.answer(client.request(pseudo=pseudo, ends=False)).status == status


def test_connect_where_nobody_tunnels(site):
    with H2(site().port) as client:
        pseudo = [(":method", "CONNECT"), (":authority", "127.0.0.1:1")]
        assert client.answer(client.request(pseudo=pseudo, ends=False)).status == 405
