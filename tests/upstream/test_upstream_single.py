"""One process without a master: the groups of former generations end while those of the new one work."""

import socket
import threading

import pytest

from harness import until
from harness.client import Client
from harness.dns import SILENCE, NameServer

MAIN = "master_process off;"


@pytest.fixture
def mute():
    """A port that takes connections and never says anything; gives (port, connections)."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=64)
    taken = []

    def accept():
        while True:
            try:
                taken.append(listener.accept()[0])
            except OSError:
                return

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    yield listener.getsockname()[1], taken
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    thread.join()
    for connection in taken:
        connection.close()


def reload(server, times):
    """Reloads so often, one after the other has been obeyed."""
    for _ in range(times):
        before = server.read("error.log").count(": reconfiguring")
        server.signal("reload")
        until(lambda: server.read("error.log").count(": reconfiguring") > before, "a reload")


def works(server):
    """Turns of the loop, so that whatever was left behind comes to an end."""
    for _ in range(3):
        assert server.get("/").text == "ok"


FRAME = """
    server { listen 127.0.0.1:@PORT@; location / { proxy_pass http://u; } }
    server { listen 127.0.0.1:@PORT1@; return 200 ok; }
"""


def test_checks_that_rest(serve):
    server = serve("""upstream u { zone u 256k; server 127.0.0.1:@PORT1@;
                                   check interval=3600000 type=tcp default_down=false; }""" + FRAME,
                   main=MAIN)
    works(server)
    reload(server, 20)  # more than the generations that may be in use at one time
    works(server)
    assert "too many older configurations" not in server.read("error.log")


def test_checks_under_way(serve, mute):
    """A probe waits for an answer while its generation ends."""
    port, taken = mute
    server = serve("""upstream u { server 127.0.0.1:@PORT1@; }
        upstream v { server 127.0.0.1:%d; server 127.0.0.1:@PORT1@;
                     check interval=100 timeout=3600000 type=http default_down=false; }
        server { listen 127.0.0.1:@PORT2@; location / { proxy_pass http://v; } }
        """ % port + FRAME, main=MAIN)
    for times in range(3):
        until(lambda: len(taken) > times, "a probe asks")
        reload(server, 1)
    works(server)


NAMES = """resolver %s ipv6=off; resolver_timeout 3600s;
    upstream u { server 127.0.0.1:@PORT1@; }
    upstream v { zone v 256k; server %s:1 resolve; }
    upstream w { zone w 256k; server other.example:1 resolve; }
    server { listen 127.0.0.1:@PORT2@; location / { proxy_pass http://v; }
             location /w { proxy_pass http://w; } }"""


def test_names_that_are_asked_for(serve):
    """One that is silent is asked for by each generation while the one before it ends: a new name, then the same again,
    which joins the question that is under way."""
    names = ["app%d.example" % n for n in range(3)]
    with NameServer({**dict.fromkeys(names, SILENCE), "other.example": ["127.0.0.1"]}) as dns:
        server = serve(NAMES % (dns.address, names[0]) + FRAME, main=MAIN)
        for name in names:
            server.configure(http=NAMES % (dns.address, name) + FRAME, main=MAIN)
            reload(server, 1)
            until(lambda: dns.count(name) > 0, "the new generation asks")
            reload(server, 1)
        works(server)


def test_a_request_of_a_former_generation(serve, mute):
    """Its generation stays until it has been answered."""
    port, taken = mute
    server = serve("""upstream u { server 127.0.0.1:@PORT1@; }
        upstream v { server 127.0.0.1:%d; }
        server { listen 127.0.0.1:@PORT2@; location / { proxy_pass http://v; } }
        """ % port + FRAME, main=MAIN)
    with Client(server.port_of("PORT2")) as client:
        client.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        until(lambda: taken, "the backend has it")
        reload(server, 2)
        works(server)
        taken[0].sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nlate")
        assert client.response().text == "late"
    reload(server, 1)
    works(server)


def test_signals_that_come_together(serve):
    """The process ends in the very turn in which it reloaded."""
    server = serve("""upstream u { server 127.0.0.1:@PORT1@;
                                   check interval=3600000 type=tcp default_down=false; }""" + FRAME,
                   main=MAIN)
    works(server)
    server.signal("reload")
    server.signal("quit")
    server.wait_end()
