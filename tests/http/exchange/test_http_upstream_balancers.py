"""Which server of a group a request goes to: balancers, and what binds clients to servers."""

import re
import select
import socket
import time

import pytest

from harness import binaries, ports, until
from harness.client import Client

# Three servers that say who they are and what they were told.
BACKENDS = "".join("""
    server { listen 127.0.0.1:@PORT%d@; server_name %s; add_header Set-Cookie $arg_set;
             location / { return 200 "%s $http_cookie"; } }
""" % (number, name, name) for number, name in ((1, "a"), (2, "b"), (3, "c")))


def group(text, servers=None, location=""):
    """A group of the three servers, and a server that passes everything to it."""
    lines = servers or ["127.0.0.1:@PORT1@", "127.0.0.1:@PORT2@", "127.0.0.1:@PORT3@"]
    return BACKENDS + """
        upstream u { %s %s }
        server { listen 127.0.0.1:@PORT@; add_header X-Tried $upstream_addr always;
                 location / { proxy_pass http://u; %s } }
    """ % (text, " ".join("server %s;" % line for line in lines), location)


def needs(module):
    return pytest.mark.skipif(module not in binaries.version_text(binaries.under_test()),
                              reason="%s was not built" % module)


def who(server, target="/", *headers):
    return server.get(target, *headers).text.split(" ")[0]


# ---- the same choice as the reference

reference = pytest.mark.skipif("not there" in binaries.version_text(binaries.reference()),
                               reason="no reference")


@pytest.fixture
def dead_ports():
    """Ports where nobody listens."""
    taken = [ports.take() for _ in range(5)]
    yield [port.number for port in taken]
    for port in taken:
        port.close()


@pytest.fixture
def both(serve):
    """Starts the binary under test and the reference with the same text; asks both, gives pairs."""
    def start(text):
        servers = [serve(text, binary=binary)
                   for binary in (binaries.under_test(), binaries.reference())]

        def ask(target, source=None):
            tried = []
            for server in servers:
                with Client(server.port, source=source) as client:
                    tried.append(client.request(target).header("X-Tried"))
            return tried
        return ask
    return start


def dead_group(method, lines):
    """A group where nobody answers, so that X-Tried tells all tries in order."""
    return """
        upstream u { %s %s }
        server { listen 127.0.0.1:@PORT@; add_header X-Tried $upstream_addr always;
                 location / { proxy_pass http://u; } }
    """ % (method, " ".join("server %s max_fails=0;" % line for line in lines))


@reference
@pytest.mark.parametrize("weights", [[1, 1, 1], [1, 2, 3], [1, 1, 1, 1, 1]])
def test_ip_hash_sends_networks_where_nginx_does(both, dead_ports, weights):
    ask = both(dead_group("ip_hash;", ["127.0.0.1:%d weight=%d" % pair
                                       for pair in zip(dead_ports, weights)]))
    for number in range(24):
        source = ("127.%d.%d.%d" % (number * 7 % 250, number * 31 % 250, number + 1), 0)
        ours, theirs = ask("/", source)
        assert ours == theirs, source


@reference
@pytest.mark.parametrize("method", ["hash $arg_k;", "hash $arg_k consistent;",
                                    "hash pre-$arg_k-post consistent;"])
@pytest.mark.parametrize("weights", [[1, 1, 1], [1, 2, 3], [1, 1, 1, 1, 1]])
def test_hash_sends_keys_where_nginx_does(both, dead_ports, method, weights):
    ask = both(dead_group(method, ["127.0.0.1:%d weight=%d" % pair
                                   for pair in zip(dead_ports, weights)]))
    for number in range(24):
        ours, theirs = ask("/?k=key%d" % (number * number))
        assert ours == theirs, number


@reference
def test_the_ring_knows_servers_by_what_was_written(both, dead_ports):
    ask = both(dead_group("hash $arg_k consistent;", [
        "localhost:%d" % dead_ports[0], "127.0.0.1:%d weight=2" % dead_ports[1],
        "unix:/nonexistent/portunus.sock", "127.0.0.1:%d" % dead_ports[2]]))
    for number in range(24):
        ours, theirs = ask("/?k=key%d" % number)
        assert ours == theirs, number


# ---- hashes

@pytest.mark.parametrize("method", ["hash $arg_k;", "hash $arg_k consistent;",
                                    "consistent_hash $arg_k;"])
def test_a_key_stays_with_its_server(serve, method):
    server = serve(group(method))
    seen = {}
    for number in range(20):
        seen[number] = who(server, "/?k=%d" % number)
    assert len(set(seen.values())) > 1
    for number in range(20):
        assert who(server, "/?k=%d" % number) == seen[number]


@pytest.mark.parametrize("method", ["hash $arg_k;", "hash $arg_k consistent;"])
def test_an_empty_key_goes_round(serve, method):
    server = serve(group(method))
    assert [who(server) for _ in range(6)] == ["a", "b", "c"] * 2


def test_ids_keep_keys_when_addresses_change(serve):
    lines = ["127.0.0.1:@PORT%d@ id=%s" % pair for pair in ((1, "x"), (2, "y"), (3, "z"))]
    turned = ["127.0.0.1:@PORT%d@ id=%s" % pair for pair in ((3, "x"), (1, "y"), (2, "z"))]
    one = serve(group("consistent_hash $arg_k;", lines))
    other = serve(group("consistent_hash $arg_k;", turned))
    moved = {"a": "c", "b": "a", "c": "b"}
    for number in range(20):
        target = "/?k=%d" % number
        assert who(other, target) == moved[who(one, target)]


# ---- the least of a load

class Held:
    """A backend that answers when it is told to."""

    def __init__(self, port, name):
        self.name = name
        self.listener = socket.create_server(("127.0.0.1", port))
        self.requests = []

    def fileno(self):
        return self.listener.fileno()

    def take(self):
        connection, _ = self.listener.accept()
        connection.settimeout(10)
        head = b""
        while b"\r\n\r\n" not in head:
            data = connection.recv(4096)
            assert data, "the request ended: %r" % head
            head += data
        self.requests.append(connection)

    def answer(self):
        connection = self.requests.pop(0)
        connection.sendall(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1\r\n\r\n"
                           + self.name.encode())
        connection.close()

    def close(self):
        for connection in self.requests:
            connection.close()
        self.listener.close()


@pytest.fixture
def held():
    taken = [ports.take() for _ in range(2)]
    backends = [Held(port.number, name) for port, name in zip(taken, "ab")]
    yield backends
    for backend in backends:
        backend.close()
    for port in taken:
        port.close()


def held_server(serve, held, method, weights=(1, 1)):
    lines = ["127.0.0.1:%d weight=%d" % (backend.listener.getsockname()[1], weight)
             for backend, weight in zip(held, weights)]
    return serve(group(method, lines))


def send(server, held, target="/"):
    """Sends a request and waits until a backend has it. Gives the client and the backend."""
    client = server.client()
    client.send(("GET %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n" % target).encode())
    ready, _, _ = select.select(held, [], [], 10)
    assert len(ready) == 1, "no backend got the request"
    ready[0].take()
    return client, ready[0]


@pytest.mark.parametrize("method", ["least_conn;", "random two;", "random two least_conn;",
                                    "least_time header;", "least_time last_byte inflight;",
                                    "random two least_time=last_byte;"])
def test_busy_servers_are_avoided(serve, held, method):
    def is_avoided():
        server = held_server(serve, held, method)
        clients = [send(server, held)]
        began = time.monotonic()
        clients.append(send(server, held))
        assert clients[0][1] is not clients[1][1]
        # One of them is free again: it gets the next one.
        client, backend = clients.pop()
        backend.answer()
        assert client.response().text == backend.name
        is_quick = time.monotonic() - began < 0.015
        client.close()
        client, again = send(server, held)
        clients.append((client, again))
        for waiting, its in clients:
            its.answer()
            assert waiting.response().text == its.name
            waiting.close()
        if "time" in method and not is_quick:
            return False  # we made it a slow one, and those are avoided as well: times tell from 20 ms on
        assert again is backend
        return True
    until(is_avoided, "a quick answer", limit=60)


def test_least_conn_knows_weights(serve, held):
    server = held_server(serve, held, "least_conn;", (1, 3))
    clients = [send(server, held) for _ in range(8)]
    assert [backend.name for _, backend in clients].count("b") == 6
    for client, backend in clients:
        backend.answer()
        client.close()


def test_least_conn_goes_round_among_the_idle(serve):
    server = serve(group("least_conn;"))
    assert [who(server) for _ in range(6)] == ["a", "b", "c"] * 2


def test_fair(serve, held):
    server = held_server(serve, held, "fair;", (1, 3))
    clients = [send(server, held) for _ in range(8)]
    assert [backend.name for _, backend in clients].count("b") == 6
    for client, backend in clients:
        backend.answer()
        client.close()


def test_fair_without_turns(serve):
    server = serve(group("fair no_rr;"))
    assert [who(server) for _ in range(6)] == ["a"] * 6


def test_fair_has_a_peak(serve, held):
    server = held_server(serve, held, "fair weight_mode=peak;", (1, 2))
    clients = [send(server, held) for _ in range(3)]
    assert sorted(backend.name for _, backend in clients) == ["a", "b", "b"]
    assert server.get("/").status == 502
    for client, backend in clients:
        backend.answer()
        client.close()


def test_random_reaches_everybody(serve):
    server = serve(group("random;"))
    with server.client() as client:
        seen = {client.request("/").text[0] for _ in range(100)}
    assert seen == {"a", "b", "c"}


@pytest.mark.parametrize("method", ["ip_hash;", "hash $arg_k;", "hash $arg_k consistent;", "random;",
                                    "random two;", "least_conn;", "fair;", "fair no_rr;", "least_time last_byte;",
                                    "consistent_hash $arg_k;"])
def test_down_servers_are_passed_over(serve, method):
    server = serve(group(method, ["127.0.0.1:@PORT1@ down", "127.0.0.1:@PORT2@",
                                  "127.0.0.1:@PORT3@ down"]))
    for number in range(10):
        assert who(server, "/?k=%d" % number) == "b"


@pytest.mark.parametrize("method", ["ip_hash;", "hash $arg_k;", "hash $arg_k consistent;", "random;",
                                    "random two;", "least_conn;", "fair;", "fair weight_mode=idle no_rr;", "least_time header;",
                                    "consistent_hash $arg_k;"])
def test_everybody_is_tried(serve, dead_ports, method):
    server = serve(group(method, ["127.0.0.1:%d" % dead_ports[0], "127.0.0.1:%d" % dead_ports[1],
                                  "127.0.0.1:@PORT3@"]))
    for number in range(10):
        response = server.get("/?k=%d" % number)
        assert response.status == 200
        assert response.text == "c "


@needs("ngx_http_upstream_vnswrr_module")
def test_vnswrr_gives_turns_by_weight(serve):
    server = serve(group("vnswrr;", ["127.0.0.1:@PORT1@ weight=2", "127.0.0.1:@PORT2@"]))
    assert sorted(who(server) for _ in range(9)) == ["a"] * 6 + ["b"] * 3


@needs("ngx_http_upstream_iwrr_module")
def test_iwrr_gives_turns_by_weight(serve):
    server = serve(group("iwrr;", ["127.0.0.1:@PORT1@ weight=2", "127.0.0.1:@PORT2@"]))
    assert sorted(who(server) for _ in range(9)) == ["a"] * 6 + ["b"] * 3


@pytest.mark.parametrize("max_fails, statuses", [(0, {200, 502}), (1, {200})])
def test_consistent_hash_never_leaves_a_server_without_max_fails(serve, dead_ports, max_fails, statuses):
    lines = ["127.0.0.1:@PORT%d@ max_fails=%d" % (i, max_fails) for i in (1, 2)]
    lines += ["127.0.0.1:%d max_fails=%d" % (dead_ports[0], max_fails)]
    server = serve(group("consistent_hash $arg_k;", lines))
    assert {server.get("/?k=%d" % key).status for key in range(20)} == statuses
    assert server.get("/").status == 200


# ---- sticky

def test_sticky_cookie(serve):
    server = serve(group("sticky cookie srv;"))
    first = server.get("/")
    name, value = first.header("Set-Cookie").split("=")
    assert name == "srv" and len(value) == 32
    for _ in range(5):
        again = server.get("/", "Cookie: other=1; srv=" + value)
        assert again.text.split(" ")[0] == first.text.split(" ")[0]
        assert again.all("Set-Cookie") == ["srv=" + value] # its time begins anew
    unknown = server.get("/", "Cookie: srv=none")
    assert unknown.header("Set-Cookie").startswith("srv=")


def test_sticky_cookie_with_attributes(serve):
    server = serve(group("sticky cookie srv expires=1h domain=.$host path=/ httponly secure "
                         "samesite=strict;", ["127.0.0.1:@PORT1@ route=here"]))
    parts = server.get("/", host="x.example").header("Set-Cookie").split("; ")
    assert parts[0] == "srv=here"
    assert re.fullmatch(r"expires=\w{3}, \d\d-\w{3}-\d\d \d\d:\d\d:\d\d GMT", parts[1])
    assert parts[2:] == ["max-age=3600", "domain=.x.example", "path=/", "httponly",
                         "samesite=strict", "secure"]


def test_sticky_cookie_of_a_server_that_left(serve, dead_ports):
    server = serve(group("sticky cookie srv;", ["127.0.0.1:%d route=x" % dead_ports[0],
                                                "127.0.0.1:@PORT2@ route=y"]))
    for _ in range(3):
        response = server.get("/", "Cookie: srv=x")
        assert response.text[0] == "b"
        assert response.header("Set-Cookie") == "srv=y"


def test_sticky_route_of_a_draining_server(serve):
    server = serve(group("sticky route $arg_r;", ["127.0.0.1:@PORT1@ route=x drain",
                                                  "127.0.0.1:@PORT2@"]))
    assert [who(server) for _ in range(3)] == ["b"] * 3
    assert [who(server, "/?r=x") for _ in range(3)] == ["a"] * 3


@pytest.mark.parametrize("header", ["", "header"])
def test_sticky_learn(serve, header):
    server = serve(group("sticky learn create=$upstream_cookie_sid lookup=$cookie_sid "
                         "zone=sessions:256k timeout=1h %s;" % header), main="worker_processes 2;")
    seen = {}
    for number in range(6):
        response = server.get("/?set=sid=s%d" % number)
        assert response.header("Set-Cookie") == "sid=s%d" % number
        seen[number] = response.text[0]
    assert len(set(seen.values())) > 1
    for number in list(range(6)) * 3:
        assert who(server, "/", "Cookie: sid=s%d" % number) == seen[number]
    server.reload()
    server.wait_log("gracefully shutting down")
    for number in range(6):
        assert who(server, "/", "Cookie: sid=s%d" % number) == seen[number]


@pytest.mark.parametrize("cookie", ["sid= s1 ;Path=/", "sid =s1", " sid= s1 "])
def test_cookies_of_answers_are_read_without_blanks(serve, cookie):
    """As clients read them and give them back (RFC 6265, 5.2)."""
    server = serve("""
        server { listen 127.0.0.1:@PORT1@; add_header Set-Cookie "%s"; return 200 x; }
        server { listen 127.0.0.1:@PORT@; add_header X-Seen "[$upstream_cookie_sid]";
                 location / { proxy_pass http://127.0.0.1:@PORT1@; } }
    """ % cookie)
    assert server.get("/").header("X-Seen") == "[s1]"


# ---- session_sticky

def test_session_sticky_inserts_a_cookie(serve):
    server = serve(group("session_sticky cookie=uid path=/p domain=x.example maxage=60;"))
    first = server.get("/")
    parts = first.header("Set-Cookie").split("; ")
    assert parts[0].startswith("uid=") and len(parts[0]) == 4 + 32
    assert parts[1:4] == ["Domain=x.example", "Path=/p", "Max-Age=60"]
    for _ in range(4):
        again = server.get("/", "Cookie: " + parts[0])
        assert again.text == "%s %s" % (first.text[0], parts[0]) # option=direct: it is passed on
        assert again.header("Set-Cookie") is None


def test_session_sticky_cookies_in_plain(serve):
    server = serve(group("session_sticky hash=plain mode=insert;"))
    cookie = server.get("/").header("Set-Cookie").split("; ")[0]
    assert cookie == "route=127.0.0.1:%d" % server.port_of("PORT1")
    assert who(server, "/", "Cookie: route=127.0.0.1:%d" % server.port_of("PORT3")) == "c"


def test_session_sticky_hides_its_cookie(serve):
    server = serve(group("session_sticky option=indirect hash=plain;",
                         location="session_sticky_hide_cookie upstream=u;"))
    ours = "route=127.0.0.1:%d" % server.port_of("PORT2")
    for cookie, seen in ((ours, ""), ("x=1; %s; y=2" % ours, "x=1; y=2"), ("x=1; " + ours, "x=1")):
        response = server.get("/", "Cookie: " + cookie)
        assert response.text == "b " + seen
        assert response.header("Set-Cookie") is None


def test_session_sticky_ends_by_time(serve):
    server = serve(group("session_sticky hash=plain maxidle=100 maxlife=1000;"))
    value, used, begun = server.get("/").header("Set-Cookie").split(";")[0].split("|")
    assert used == begun
    where = "route=127.0.0.1:%d" % server.port_of("PORT3")
    now = int(used)
    for cookie, bound in (("|%d|%d" % (now - 50, now - 500), True),
                          ("|%d|%d" % (now - 150, now - 500), False),
                          ("|%d|%d" % (now - 50, now - 1500), False),
                          ("|%d|%d" % (now + 500, now - 500), True),
                          ("|%d|%d" % (now + 90000, now), False),
                          ("|x|%d" % now, False), ("", False), ("|", False), ("||", False)):
        responses = [server.get("/", "Cookie: " + where + cookie) for _ in range(3)]
        assert all(response.text[0] == "c" for response in responses) == bound, cookie
        if bound: # it was used now; the beginning stays
            used, begun = responses[0].header("Set-Cookie").split(";")[0].split("|")[1:]
            assert int(used) >= now and int(begun) == now - 500


@pytest.mark.parametrize("limit", ["maxidle=40", "maxlife=60"])
def test_session_sticky_cookies_with_times_have_no_age(serve, limit):
    server = serve(group("session_sticky maxage=120 hash=plain %s;" % limit))
    ours = "route=127.0.0.1:%d" % server.port_of("PORT1")
    cookie = server.get("/").header("Set-Cookie")
    assert re.fullmatch(r"%s\|\d+\|\d+; Path=/" % ours, cookie)
    again = server.get("/", "Cookie: " + cookie.split(";")[0])
    assert again.text[0] == "a" and again.header("Set-Cookie").startswith(ours + "|")


@pytest.mark.parametrize("mode", ["rewrite", "prefix"])
def test_session_sticky_takes_times_in_every_mode(serve, mode):
    server = serve(group("session_sticky mode=%s cookie=sid hash=plain maxidle=9 maxlife=9;" % mode))
    server.wait_log('"maxidle" and "maxlife" have no effect without "mode=insert"')
    sid = server.get("/?set=sid=x").header("Set-Cookie")
    assert sid.startswith("sid=127.0.0.1:%d" % server.port_of("PORT1")) and "|" not in sid
    assert [who(server, "/", "Cookie: " + sid) for _ in range(3)] == ["a"] * 3


def test_session_sticky_indirect_takes_the_place_of_the_servers_cookie(serve):
    ours = "route=127.0.0.1:%d; Path=/"
    server = serve(group("session_sticky option=indirect hash=plain;"))
    first = server.get("/?set=route=x")
    assert first.all("Set-Cookie") == [ours % server.port_of("PORT1")]
    cookie = "Cookie: " + first.header("Set-Cookie").split(";")[0]
    assert server.get("/?set=route=x", cookie).all("Set-Cookie") == []
    assert server.get("/?set=routed=x", cookie).all("Set-Cookie") == ["routed=x"]
    server = serve(group("session_sticky option=direct hash=plain;"))
    assert server.get("/?set=route=x").all("Set-Cookie") == ["route=x", ours % server.port_of("PORT1")]


@pytest.mark.parametrize("mode,value", [("insert", "nobody"), ("rewrite", "nobody"),
                                        ("prefix", "nobody~x")])
def test_session_sticky_without_fallback_knows_whom_it_looks_for(serve, mode, value):
    server = serve(group("session_sticky mode=%s fallback=off;" % mode))
    assert server.get("/", "Cookie: route=" + value).status == 502
    assert server.get("/", "Cookie: other=" + value).status == 200
    assert server.get("/").status == 200


def test_session_sticky_rewrites_the_servers_cookie(serve):
    server = serve(group("session_sticky mode=rewrite cookie=sid hash=plain;"))
    response = server.get("/?set=sid=abc%3B%20Path=/x%3B%20HttpOnly".replace("%3B", ";")
                          .replace("%20", ""))
    assert response.header("Set-Cookie") == \
        "sid=127.0.0.1:%d;Path=/x;HttpOnly" % server.port_of("PORT1")
    assert server.get("/").header("Set-Cookie") is None
    assert server.get("/?set=other=abc").header("Set-Cookie") == "other=abc"
    for _ in range(3):
        assert who(server, "/", "Cookie: sid=127.0.0.1:%d" % server.port_of("PORT2")) == "b"


def test_session_sticky_puts_a_prefix_before_the_servers_cookie(serve):
    server = serve(group("session_sticky mode=prefix cookie=sid hash=plain;",
                         location="session_sticky_hide_cookie upstream=u;"))
    assert server.get("/?set=sid=a~c").header("Set-Cookie") == \
        "sid=127.0.0.1:%d~a~c" % server.port_of("PORT1")
    for _ in range(3):
        response = server.get("/", "Cookie: sid=127.0.0.1:%d~a~c; x=1" % server.port_of("PORT3"))
        assert response.text == "c sid=a~c; x=1"


def test_session_sticky_without_fallback(serve, dead_ports):
    lines = ["127.0.0.1:%d" % dead_ports[0], "127.0.0.1:@PORT2@"]
    cookie = "Cookie: route=127.0.0.1:%d" % dead_ports[0]
    server = serve(group("session_sticky hash=plain fallback=off;", lines))
    assert server.get("/", cookie).status == 502
    assert server.get("/", cookie).status == 502
    assert who(server) == "b"
    server = serve(group("session_sticky hash=plain;", lines))
    response = server.get("/", cookie)
    assert response.text[0] == "b"
    assert response.header("Set-Cookie").startswith("route=127.0.0.1:%d" % server.port_of("PORT2"))


def test_session_sticky_ids(serve):
    server = serve(group("session_sticky;", ["127.0.0.1:@PORT1@ id=one", "127.0.0.1:@PORT2@ id=two"]))
    assert server.get("/").header("Set-Cookie") == "route=one; Path=/"
    assert [who(server, "/", "Cookie: route=two") for _ in range(3)] == ["b"] * 3


def test_session_sticky_header_binds_at_other_places(serve):
    server = serve(group("session_sticky hash=plain;", location="""
        location /static { session_sticky_header upstream=u; return 200 "static"; }
    """))
    response = server.get("/static")
    assert response.text == "static"
    cookie = response.header("Set-Cookie").split(";")[0]
    assert server.get("/static", "Cookie: " + cookie).header("Set-Cookie") is None
    again = server.get("/", "Cookie: " + cookie)
    assert again.header("Set-Cookie") is None
    assert "127.0.0.1:%d" % server.port_of("PORT%d" % ("abc".index(again.text[0]) + 1)) in cookie


# ---- what is refused

SERVER = "server 127.0.0.1:1;"


@pytest.fixture
def tell(tmp_path):
    """What -t says of the text of an upstream block."""
    from harness.server import run_binary

    def run(text, binary=None, http=""):
        (tmp_path / "nginx.conf").write_text("events {}\nhttp { upstream u { %s }\n%s }\n"
                                             % (text, http))
        done = run_binary("-t", "-p", str(tmp_path) + "/", "-c", "nginx.conf", "-e", "stderr",
                          "-g", "pid %s/nginx.pid;" % tmp_path, binary=binary)
        return re.findall(r"\[(?:emerg|warn)\] (?:\d+#\d+: )?(.*?)(?: in /|$)", done.stderr, re.M)
    return run


@reference
@pytest.mark.parametrize("text", [
    SERVER + "random foo;", SERVER + "random two foo;", SERVER + "random two least_conn x;",
    SERVER + "hash $arg_x foo;", "hash a consistent x;" + SERVER, "hash;" + SERVER,
    "ip_hash x;" + SERVER, "least_conn; ip_hash;" + SERVER, "ip_hash; ip_hash;" + SERVER,
    "ip_hash; server 127.0.0.1:1 backup;" + SERVER, "hash $uri; server 127.0.0.1:1 backup;" + SERVER,
    "hash $uri consistent; server 127.0.0.1:1 backup;" + SERVER,
    "random; server 127.0.0.1:1 backup;" + SERVER, "least_conn; server 127.0.0.1:1 backup;" + SERVER,
    "server 127.0.0.1:1 backup; ip_hash;" + SERVER, "keepalive 3; ip_hash;" + SERVER,
])
def test_messages_of_nginx(tell, text):
    assert tell(text) == tell(text, binaries.reference())


@pytest.mark.parametrize("text, message", [
    ("fair foo;", "Invalid `fair' parameter `foo'"),
    ("fair weight_mode=idle weight_mode=peak;", "weight_mode= options are mutually exclusive"),
    ("least_time foo;", 'invalid parameter "foo"'),
    ("least_time header foo;", 'invalid parameter "foo"'),
    ("sticky foo bar;", 'invalid parameter "foo"'),
    ("sticky cookie a=b;", 'invalid cookie name "a=b"'),
    ("sticky cookie a expires=x;", 'invalid parameter "expires=x"'),
    ("sticky cookie a samesite=x;", 'invalid parameter "samesite=x"'),
    ("sticky cookie a foo;", 'invalid parameter "foo"'),
    ("sticky route x;", 'invalid variable name "x"'),
    ("sticky route $a; sticky route $b;", '"sticky" directive is duplicate'),
    ("sticky learn create=$arg_a;", '"sticky learn" must have "create", "lookup" and "zone"'),
    ("sticky learn zone=x;", 'invalid zone size "x"'),
    ("sticky learn zone=x:1;", 'zone "x" is too small'),
    ("sticky learn create=x;", 'invalid variable name "x"'),
    ("sticky learn timeout=x;", 'invalid parameter "timeout=x"'),
    ("sticky route $arg_a; session_sticky mode=insert;", "requests are bound to servers already"),
    ("session_sticky mode=x;", 'invalid parameter "mode=x"'),
    ("session_sticky foo;", 'invalid parameter "foo"'),
    ("session_sticky cookie=;", 'invalid parameter "cookie="'),
    ("session_sticky maxage=x;", 'invalid parameter "maxage=x"'),
    ("consistent_hash;", 'invalid number of arguments in "consistent_hash" directive'),
])
def test_messages(tell, text, message):
    assert message in tell(text + SERVER)


@pytest.mark.parametrize("line, message", [
    ("session_sticky_hide_cookie u;", 'invalid parameter "u"'),
    ("session_sticky_hide_cookie upstream=none;", 'upstream "none" not found'),
    ("session_sticky_header upstream=u;", 'upstream "u" has no "session_sticky"'),
])
def test_messages_about_named_groups(tell, line, message):
    assert message in tell(SERVER, http="server { listen 127.0.0.1:1; %s }" % line)
