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
