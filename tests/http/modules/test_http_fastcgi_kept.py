"""Many requests to a FastCGI backend that allows kept connections leave next to no connection in
TIME_WAIT; `make bench` has the row with 100,000."""

import pytest

from fastcgi_backends import Responder

REQUESTS = 5000
# Connections live for a while only (keepalive_requests, the life of one to a backend with few), and a
# machine that is busy takes longer for the requests: tens of them, where it would be thousands.
MOST_CONNECTIONS = REQUESTS // 20


def time_wait_count(port):
    """Connections of this host in TIME_WAIT that have the port at one end."""
    text = ":%04X" % port
    with open("/proc/net/tcp", encoding="ascii") as file:
        lines = [line.split() for line in file]
    return sum(1 for words in lines
               if words[3] == "06" and text in (words[1][-5:], words[2][-5:]))


@pytest.mark.parametrize("facts", [("-c", "64", "-m", "0"), ("-m", "1")],
                         ids=["connections", "multiplexing"])
def test_time_wait_does_not_grow(serve, facts):
    with Responder("-l", *facts) as backend:
        server = serve("server { listen 127.0.0.1:@PORT@; keepalive_requests 100000; location / {"
                       " fastcgi_pass 127.0.0.1:%d; } }" % backend.port)
        client = server.client()
        for _ in range(REQUESTS):
            assert client.request("/").status == 200
        counts = backend.counts()
        assert counts["requests"] == REQUESTS
        assert counts["connections"] < MOST_CONNECTIONS
        assert time_wait_count(backend.port) < MOST_CONNECTIONS
