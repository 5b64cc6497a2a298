"""Many requests sent ahead of their answers, by clients that read late."""

import threading


REQUESTS = 20000


def test_thousands_of_requests_ahead_of_a_late_reader(serve):
    """All are answered in order, however often the server has to stop for the client."""
    server = serve("""
        keepalive_requests 1000000;
        server { listen 127.0.0.1:@PORT@ sndbuf=16k; location / { return 200 "$arg_n\\n"; } }
    """)
    batch = b"".join(b"GET /?n=%d HTTP/1.1\r\nHost: a\r\n\r\n" % n for n in range(REQUESTS))
    with server.client(rcvbuf=16384) as client:
        sender = threading.Thread(target=client.socket.sendall, args=(batch,))
        sender.start()
        for n in range(REQUESTS):
            assert client.response().text == "%d\n" % n
        sender.join()


def test_heads_as_long_as_buffers(serve):
    """One byte less, one more, at once, in two pieces, several in a row; buffers are small while heads are, and large after others."""
    server = serve("""
        keepalive_requests 1000000;
        server { listen 127.0.0.1:@PORT@; location / { return 200 "$arg_n $http_x_long\\n"; } }
    """)

    def head(n, size):
        start = b"GET /?n=%d HTTP/1.1\r\nHost: a\r\nX-Long: " % n
        return start + b"x" * (size - len(start) - 4) + b"\r\n\r\n"

    sizes = [size + more for size in (64, 128, 256, 512, 1024, 2048, 4096, 64) for more in (-1, 0, 1)] * 2
    with server.client() as client:
        for n, size in enumerate(sizes):
            client.send(head(n, size))
            assert client.response().text == "%d %s\n" % (n, "x" * (head(n, size).count(b"x")))
            client.send(head(n, size)[:size // 2])
            client.send(head(n, size)[size // 2:] + head(n + 1, size))
            for number in (n, n + 1):
                assert client.response().text == "%d %s\n" % (number, "x" * (head(number, size).count(b"x")))
        client.send(b"".join(head(n, size) for n, size in enumerate(sizes)))
        for n, size in enumerate(sizes):
            assert client.response().text == "%d %s\n" % (n, "x" * (head(n, size).count(b"x")))


def test_a_connection_of_endless_requests_leaves_others_their_turn(serve):
    server = serve("""
        keepalive_requests 1000000;
        server { listen 127.0.0.1:@PORT@; location / { return 200 "x"; } }
    """)
    stop = threading.Event()
    request = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n" * 100

    def hammer():
        with server.client() as client:
            client.socket.settimeout(10)
            while not stop.is_set():
                client.socket.sendall(request)
                client.socket.recv(1 << 16)

    thread = threading.Thread(target=hammer)
    thread.start()
    try:
        for _ in range(50):
            assert server.get("/").text == "x"
    finally:
        stop.set()
        thread.join()


def test_clients_that_leave_are_logged(serve):
    """At level info, as nginx has it: before a request, between two, by a reset."""
    server = serve("server { listen 127.0.0.1:@PORT@; location / { return 200 ok; } }")
    server.client().close()
    server.wait_log(r"(?m)\[info\] \S+ \*\d+ client closed connection while waiting for request, client: 127.0.0.1, server: 127.0.0.1:%d$"
                    % server.port)
    with server.client() as client:
        client.request("/")
    server.wait_log(r"(?m)\[info\] \S+ \*\d+ client 127.0.0.1 closed keepalive connection$")
    client = server.client()
    client.request("/")
    client.reset()
    server.wait_log(r"(?m)client 127.0.0.1 closed keepalive connection \(104: Connection reset by peer\)$")
