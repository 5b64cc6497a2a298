"""What sessions of TCP do that the reference is not asked about: passing on, servers by name, bounds, reloads."""

import socket
import ssl

import pytest

from harness import Server, until
from harness.certificates import Authority
from peers import Peer

MAIN = "pid nginx.pid; error_log error.log info; worker_processes 1; daemon off; events { }\n"


def say(port, data=b"", half=False):
    """What the server at this port says to a client, until it closes."""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as client:
        client.sendall(data)
        if half:
            client.shutdown(socket.SHUT_WR)
        got = b""
        while True:
            try:
                more = client.recv(65536)
            except ConnectionError:
                break
            if not more:
                break
            got += more
        return got


@pytest.fixture(scope="module")
def server():
    text = MAIN + """
    stream {
        log_format line '$status $session_time';
        access_log off;
        server { listen 127.0.0.1:@PORT@; pass 127.0.0.1:@PORT1@; }
        server { listen 127.0.0.1:@PORT1@; return "passed on"; }
        server { listen 127.0.0.1:@PORT2@; pass 127.0.0.1:@PORT2@; access_log loop.log line; }
        server { listen 127.0.0.1:@PORT3@; pass 127.0.0.1:@PORT4@; }
        server { listen 127.0.0.1:@PORT5@; pass 127.0.0.1:1; access_log nobody.log line; }
        server { listen 127.0.0.1:@PORT6@; session_memory_limit 1k; access_log full.log line;
                 return "%s"; }
        server { listen 127.0.0.1:@PORT7@; proxy_pass 127.0.0.1:@PORT7@; access_log round.log line; }
        server { listen unix:@DIR@/round.sock; proxy_pass unix:@DIR@/round.sock; max_self_hops 3; }
        server { listen 127.0.0.1:@PORT8@; proxy_pass unix:@DIR@/round.sock; }
        server { listen 127.0.0.1:@PORT9@; proxy_pass 127.0.0.1:@PORT4@; }
        server { listen 127.0.0.1:@PORT10@ udp; proxy_pass 127.0.0.1:@PORT10@; access_log udp.log line; }
        server { listen @PORT11@ udp; proxy_pass 127.0.0.2:@PORT11@; max_self_hops 2; access_log wild.log line; }
        server { listen 127.0.0.1:@PORT12@ udp; proxy_pass 127.0.0.1:@PORT13@; max_self_hops 0; proxy_responses 1; }
        server { listen 127.0.0.1:@PORT13@ udp; proxy_pass 127.0.0.1:@PORT14@; max_self_hops 1; proxy_responses 1; }
        server { listen 127.0.0.1:@PORT14@ udp; return "by udp"; }
    }
    http { access_log off; server { listen 127.0.0.1:@PORT4@; location / { return 200 "by http"; }
                                    location /round { proxy_pass http://127.0.0.1:@PORT9@; } } }
    """ % ("$remote_addr$hostname$time_local" * 100)
    with Server(conf=text) as made:
        yield made


def test_pass_to_stream(server):
    assert say(server.port) == b"passed on"


@pytest.mark.parametrize("options, before", [("", b""), ("proxy_protocol on;", b"PROXY TCP4 127.0.0.1 127.0.0.1 %d %d\r\n")])
def test_what_the_client_said_first_reaches_the_peer_that_is_there(serve, options, before):
    """One peer refuses, the next one gets all, once: words that come with the connection, and those that come later."""
    nobody = Peer(listens=False)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        server = serve(conf=MAIN + """
        stream {
            log_format line "$bytes_received $bytes_sent $upstream_bytes_sent";
            upstream u { server 127.0.0.1:%d; server 127.0.0.1:%d backup; }
            server { listen 127.0.0.1:@PORT@; proxy_pass u; access_log access.log line; %s }
        }""" % (nobody.port, port, options), allow=["Connection refused"])
        sent = 0
        for words in (b"first", b"x" * 3000, b"y" * 9000):
            with socket.create_connection(("127.0.0.1", server.port), timeout=10) as client:
                client.sendall(words)
                link = listener.accept()[0]
                client.sendall(b" and more")
                header = before and before % (client.getsockname()[1], server.port)
                expected, heard = header + words + b" and more", b""
                with link:
                    link.settimeout(10)
                    while len(heard) < len(expected):
                        heard += link.recv(65536)
                    assert heard == expected
                    link.sendall(b"heard")
                    assert client.recv(100) == b"heard"
            sent += 1
            line = server.wait_lines("access.log", sent)[-1]
            assert line.split()[:2] == ["%d" % len(words + b" and more"), "5"]
            assert line.split()[-1] == "%d" % len(expected)


def test_bytes_that_were_read_ahead_count(serve):
    """What came in one segment with the PROXY protocol's header, which does not count, and what ssl_preread looked at."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = serve(conf=MAIN + """
        stream {
            log_format line "$bytes_received $upstream_bytes_sent"; access_log access.log line;
            server { listen 127.0.0.1:@PORT@ proxy_protocol; proxy_pass 127.0.0.1:%d; }
            server { listen 127.0.0.1:@PORT1@ proxy_protocol; ssl_preread on; proxy_pass 127.0.0.1:%d; }
            server { listen 127.0.0.1:@PORT2@; ssl_preread on; proxy_pass 127.0.0.1:%d; }
        }""" % ((listener.getsockname()[1],) * 3))
        for number, (port, header) in enumerate((("PORT", b"PROXY TCP4 1.2.3.4 5.6.7.8 1 2\r\n"), ("PORT1", b"PROXY UNKNOWN\r\n"),
                                                 ("PORT2", b""))):
            with socket.create_connection(("127.0.0.1", server.port_of(port)), timeout=10) as client:
                client.sendall(header + b"no TLS at all")
                with listener.accept()[0] as link:
                    assert link.recv(100) == b"no TLS at all"
            assert server.wait_lines("access.log", number + 1)[-1] == "13 13"


def test_pass_to_http(server):
    assert say(server.port_of("PORT3"), b"GET / HTTP/1.0\r\n\r\n").endswith(b"by http")


def test_a_circle_of_passes_ends(server):
    assert say(server.port_of("PORT2")) == b""
    assert server.wait_lines("loop.log")[0].startswith("500 ")
    assert "was passed on 10 times" in server.error_log


def test_a_circle_of_connections_ends(server):
    """It went on after its client had left, as long as there were connections."""
    assert say(server.port_of("PORT7")) == b""
    assert len(server.wait_lines("round.log", 12)) == 12  # one from outside, ten, and one too many
    server.wait_log(r"the session has passed through this server 11 times.*max_self_hops")
    assert say(server.port_of("PORT8")) == b""
    server.wait_log(r"the session has passed through this server 4 times")


def test_a_circle_of_datagrams_ends(server):
    """One datagram made as many sessions as there could be."""
    for port, log, rounds in (("PORT10", "udp.log", 11), ("PORT11", "wild.log", 3)):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
            client.connect(("127.0.0.1", server.port_of(port)))
            client.send(b"round")
            server.wait_log(r"the session has passed through this server %d times.*max_self_hops.* udp client" % rounds)
            assert server.wait_lines(log)[0].startswith("500 ")  # of the last one; the others wait for an answer


def test_datagrams_through_servers_of_our_own(server):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.settimeout(15)
        client.connect(("127.0.0.1", server.port_of("PORT12")))
        for _ in range(20):
            client.send(b"x")
            assert client.recv(100) == b"by udp"


def test_a_circle_through_http_ends(server):
    """Each way through stream had begun the count anew."""
    assert say(server.port_of("PORT9"), b"GET /round HTTP/1.0\r\n\r\n").startswith(b"HTTP/1.1 508 ")


def test_pass_to_nobody(server):
    assert say(server.port_of("PORT5")) == b""
    assert server.wait_lines("nobody.log")[0].startswith("500 ")


def test_a_server_without_a_handler_shakes_hands_and_closes(tmp_path):
    """As nginx 1.31 does; the configuration is accepted, with a warning of ours."""
    authority = Authority(str(tmp_path))
    authority.issue("localhost")
    text = MAIN + """stream { log_format line '$status $ssl_protocol'; access_log handshakes.log line;
        server { listen 127.0.0.1:@PORT@; listen 127.0.0.1:@PORT1@ ssl; ssl_certificate %s; ssl_certificate_key %s; } }
    """ % (authority.path("localhost.crt"), authority.path("localhost.key"))
    with Server(conf=text, allow=["no handler for server"]) as made:
        assert say(made.port, b"x") == b""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        with socket.create_connection(("127.0.0.1", made.port_of("PORT1")), timeout=10) as tcp:
            with context.wrap_socket(tcp) as client:
                assert client.version() is not None and client.recv(1) == b""
        assert made.wait_lines("handshakes.log", 2) == ["500 -", "500 TLSv1.3"]
        assert "[warn]" in made.read("stderr.txt") and "no handler for server in " in made.read("stderr.txt")


def test_ssl_sni_force(tmp_path):
    """A name that no server has is refused; the one server of an address has names, too."""
    authority = Authority(str(tmp_path))
    authority.issue("localhost")
    text = MAIN + """stream { ssl_certificate %s; ssl_certificate_key %s; ssl_sni_force on;
        server { listen 127.0.0.1:@PORT@ ssl default_server; server_name a.test ~^r(?<n>[0-9]+)\\.test$; return "a$n"; }
        server { listen 127.0.0.1:@PORT@ ssl; server_name *.b.test; ssl_sni_force off; return b; }
        server { listen 127.0.0.1:@PORT1@ ssl; server_name alone.test; return alone; }
        server { listen 127.0.0.1:@PORT2@ ssl; ssl_sni_force off; server_name alone.test; return off; }
        server { listen 127.0.0.1:@PORT3@ ssl; return nameless; } }
    """ % (authority.path("localhost.crt"), authority.path("localhost.key"))
    with Server(conf=text) as made:
        for port, name, expected in (("PORT", "a.test", b"a"), ("PORT", "A.TEST", b"a"), ("PORT", "r42.test", b"a42"), ("PORT", "x.b.test", b"b"),
                                     ("PORT", "other.test", None), ("PORT", "b.test", None), ("PORT", None, b"a"),
                                     ("PORT1", "alone.test", b"alone"), ("PORT1", "other.test", None),
                                     ("PORT2", "other.test", b"off"), ("PORT3", "other.test", None), ("PORT3", None, b"nameless")):
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            with socket.create_connection(("127.0.0.1", made.port if port == "PORT" else made.port_of(port)), timeout=10) as tcp:
                try:
                    with context.wrap_socket(tcp, server_hostname=name) as client:
                        got = client.recv(100)
                except ssl.SSLError as error:
                    got = None
                    assert "unrecognized name" in str(error).lower().replace("_", " ")
            assert got == expected, (port, name)


def test_clients_that_speak_no_tls_are_logged(tmp_path):
    """As nginx logs them: what the first bytes are told nobody, since there was no answer to them."""
    authority = Authority(str(tmp_path))
    authority.issue("localhost")
    text = MAIN + """stream { ssl_certificate %s; ssl_certificate_key %s; server { listen 127.0.0.1:@PORT@ ssl; return x; } }
    """ % (authority.path("localhost.crt"), authority.path("localhost.key"))
    with Server(conf=text) as made:
        for data, reason in ((b"", "peer closed connection in SSL handshake while SSL handshaking, client: 127.0.0.1"),
                             (b"GET / HTTP/1.0\r\n\r\n", "SSL_do_handshake() failed (SSL: error:0A00009C:SSL routines::http request)"),
                             (b"abc and more\r\n", "SSL_do_handshake() failed (SSL: error:0A00010B:SSL routines::wrong version number)")):
            say(made.port, data, half=True)
            until(lambda text=reason: text in made.error_log, lambda text=reason: text + " in\n" + made.error_log)
        assert "client closed connection" not in made.error_log


def test_a_session_has_a_bound(server):
    assert say(server.port_of("PORT6")) != b"x"
    assert server.wait_lines("full.log")[0].startswith("500 ")
    server.wait_log("the session exceeds session_memory_limit")


def test_one_address_in_two_blocks():
    text = MAIN + """
    http { server { listen 127.0.0.1:@PORT@; } }
    stream { server { listen 127.0.0.1:@PORT@; return x; } }
    """
    made = Server(conf=text, exit_code=1, allow=["Address already in use"])
    made.start(wait=False)
    made.wait_end()
    assert "failed (98: Address already in use)" in made.read("stderr.txt")
    made.close()


class Echo(Peer):
    def answer(self, conn, data):
        conn.sendall(data)


def test_a_reload_touches_no_session():
    echo = Echo(holds=True)
    text = MAIN + "stream { server { listen 127.0.0.1:@PORT@; proxy_pass 127.0.0.1:%d; } }\n" % echo.port
    with Server(conf=text) as made, socket.create_connection(("127.0.0.1", made.port), timeout=10) as client:
        client.sendall(b"one")
        assert client.recv(10) == b"one"
        old = made.children()
        made.reload()
        until(lambda: set(made.children()) - set(old), "a new worker")
        client.sendall(b"two")
        assert client.recv(10) == b"two"
        assert set(old) <= set(made.children())
        client.close()
        until(lambda: not set(old) & set(made.children()), "the end of the old worker")
    echo.close()


def test_many_sessions_and_large_answers():
    data = bytes(range(256)) * 4096
    backend = Peer(data)
    text = MAIN + "stream { server { listen 127.0.0.1:@PORT@; proxy_pass 127.0.0.1:%d; } }\n" % backend.port
    with Server(conf=text) as made:
        for _ in range(20):
            assert say(made.port) == data
    backend.close()
