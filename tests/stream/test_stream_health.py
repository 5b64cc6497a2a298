"""Active health checks of stream: health_check, match, health_check_timeout."""

import pytest

from harness import run_binary, until
from harness.certificates import Authority

from peers import DatagramPeer, Peer, ask, hold

PLUS = """stream {
    upstream group { zone group 64k; server 127.0.0.1:%d; }
    %s
    server { listen 127.0.0.1:@PORT@; proxy_pass group; health_check interval=50ms %s; %s }
}"""


@pytest.fixture
def made():
    peers = []

    def make(peer):
        peers.append(peer)
        return peer

    yield make
    for peer in peers:
        peer.close()


def plus(serve, port, parameters="", match="", more="", **kwargs):
    return serve("", main=PLUS % (port, match, parameters, more), **kwargs)


def wait_unhealthy(server, why=""):
    server.wait_log("peer is unhealthy while checking " + why)


def wait_healthy(server):
    server.wait_log("peer is healthy, health check")


def test_a_peer_that_is_gone_and_comes_back(serve, made):
    peer = made(Peer(b"here"))
    server = plus(serve, peer.port)
    peer.wait_more()
    assert ask(server.port_of("PORT")) == b"here"
    peer.down()
    wait_unhealthy(server, r"connection, health check \"\" of peer 127\.0\.0\.1:\d+ in upstream \"group\"")
    assert ask(server.port_of("PORT")) == b""
    assert "no live upstreams" in server.error_log
    peer.up()
    wait_healthy(server)
    assert ask(server.port_of("PORT")) == b"here"


def test_what_is_sent_and_what_must_come(serve, made):
    class Asked(Peer):
        says = b"+PONG\r\n"

        def answer(self, conn, data):
            conn.sendall(self.says)

    peer = made(Asked(b"hello\r\n", holds=True))
    server = plus(serve, peer.port, "match=ping",
                  r'match ping { send "PING\x0d\x0a"; expect "PON\x47"; }')
    peer.wait_more()
    assert peer.received[0] == b"PING\r\n"
    sock, said = hold(server.port_of("PORT"))
    assert said == b"hello\r\n"
    sock.close()
    peer.says = b"-LOADING\r\n"
    # It waits for more: the answer is not there in time.
    assert "unhealthy" not in server.error_log
    peer.holds = False
    wait_unhealthy(server, r"(answer, which is not the expected one|connection, while \w+), health check \"ping\"")
    peer.holds, peer.says = True, b"+PONG\r\n"
    wait_healthy(server)


@pytest.mark.parametrize("line, text, is_good", [
    ("expect 220", b"220 ready\r\n", True),
    ("expect ready", b"220 ready\r\n", True),
    ("expect 221", b"220 ready\r\n", False),
    ("expect ~ ^220", b"220 ready\r\n", True),
    ("expect ~ READY", b"220 ready\r\n", False),
    ("expect ~* READY", b"220 ready\r\n", True),
    (r"expect \x00\xff", b"a\0\xffb", True),
    (r"expect ~ \xff$", b"a\0\xff", True),
    ("expect x", b"", False),
    ("", b"", True),
])
def test_answers(serve, made, line, text, is_good):
    peer = made(Peer(text))
    server = plus(serve, peer.port, "match=m mandatory", "match m { %s%s }" % (line, ";" if line else ""))
    if is_good:
        wait_healthy(server)
        assert ask(server.port_of("PORT")) == text
    else:
        server.wait_log(r'\[info\].* health check "m" of peer .* failed while checking answer')
        assert ask(server.port_of("PORT")) == b""


def test_an_answer_has_a_time(serve, made):
    peer = made(Peer(b"", holds=True))
    server = plus(serve, peer.port, "match=m", "match m { expect x; }", "health_check_timeout 100ms;")
    wait_unhealthy(server, "answer, .*110: Connection timed out|answer, health check")


def test_an_answer_has_a_size(serve, made):
    peer = made(Peer(b"a" * 200000, holds=True))
    server = plus(serve, peer.port, "match=m", "match m { expect x; }")
    wait_unhealthy(server, "answer, which is too large")


def test_another_port_and_several_checks(serve, made):
    peer, other = made(Peer(b"here")), made(Peer(b"220"))
    server = plus(serve, peer.port, "port=%d match=m fails=2 passes=2" % other.port,
                  "match m { expect 220; }", "health_check interval=50ms;")
    other.wait_more()
    peer.wait_more()
    assert ask(server.port_of("PORT")) == b"here"
    other.text = b"500"
    wait_unhealthy(server, "answer")
    assert ask(server.port_of("PORT")) == b""
    other.text = b"220"
    wait_healthy(server)
    assert ask(server.port_of("PORT")) == b"here"


def test_a_state_that_is_persistent_survives_a_reload(serve, made):
    peer = made(Peer(b"here"))
    server = plus(serve, peer.port, "mandatory persistent")
    wait_healthy(server)
    peer.text = b"again"
    server.reload()
    assert ask(server.port_of("PORT")) == b"again"


def test_over_tls(serve, made, tmp_path):
    authority = Authority(str(tmp_path))
    authority.issue("localhost")
    server = serve("""server { listen 127.0.0.1:@PORT1@ ssl; ssl_certificate %s; ssl_certificate_key %s;
                              return 200 hello; }""" % (authority.path("localhost.crt"), authority.path("localhost.key")),
                   main="""stream {
        upstream group { zone group 64k; server 127.0.0.1:@PORT1@; }
        match m { send "GET / HTTP/1.0\\x0d\\x0a\\x0d\\x0a"; expect hello; }
        server { listen 127.0.0.1:@PORT@; proxy_pass group; proxy_ssl on; health_check interval=50ms match=m mandatory; }
    }""")
    wait_healthy(server)
    assert ask(server.port_of("PORT"), send=b"GET / HTTP/1.0\r\n\r\n").endswith(b"hello")


def test_over_udp(serve, made):
    peer = made(DatagramPeer(lambda data: b"pong" if data == b"ping" else b"what?"))
    server = plus(serve, peer.port, "udp match=m mandatory", "match m { send ping; expect ~ ^pong$; }")
    wait_healthy(server)
    peer.answer = lambda data: None
    peer.down()
    wait_unhealthy(server, r"(connection|answer).*")


def test_a_datagram_that_is_not_refused(serve, made):
    peer = made(DatagramPeer())
    server = plus(serve, peer.port, "udp mandatory")
    wait_healthy(server)
    assert peer.received[0] == b"nginx health check"
    peer.down()
    wait_unhealthy(server, r"connection, while (reading|sending).*111: Connection refused")


# ---- configurations

WRONG = [
    ("health_check interval=0;", 'invalid parameter "interval=0"'),
    ("health_check fails=0;", 'invalid parameter "fails=0"'),
    ("health_check port=0;", 'invalid parameter "port=0"'),
    ("health_check port=65536;", 'invalid parameter "port=65536"'),
    ("health_check uri=/;", 'invalid parameter "uri=/"'),
    ("health_check match=;", 'invalid parameter "match="'),
    ("health_check persistent;", '"persistent" needs "mandatory"'),
    ("health_check match=nosuch;", 'match "nosuch" is not defined'),
    ("health_check udp match=silent;", 'match "silent" for "udp" needs "send"'),
    ("health_check_timeout x;", 'invalid value'),
    ("health_check_timeout 1s; health_check_timeout 1s;", '"health_check_timeout" directive is duplicate'),
    ("health_check; health_check; health_check; health_check; health_check;", "has more than 4 health checks"),
]
LINES = [
    ("send", 'invalid number of arguments in "send"'),
    ("send a; send b", '"send" is duplicate'),
    (r"send \x4", 'invalid parameter "\\x4" of "send"'),
    ("expect a; expect b", '"expect" is duplicate'),
    ('expect ""', 'invalid parameter "" of "expect"'),
    ("expect ! a", 'invalid parameter "!" of "expect"'),
    ("expect ~ (", "pcre2_compile() failed"),
    ("status 200", 'unknown directive "status"'),
]


def said(tmp_path, text):
    (tmp_path / "nginx.conf").write_text("pid p; events { }\nstream {\n%s\n}\n" % text)
    return run_binary("-t", "-p", str(tmp_path), "-c", "nginx.conf", "-e", "stderr").stderr


@pytest.mark.parametrize("line, message", WRONG)
def test_wrong_checks(tmp_path, line, message):
    assert message in said(tmp_path, "upstream u { server 127.0.0.1:1; } match silent { expect a; } "
                                     "server { listen 127.0.0.1:9; proxy_pass u; %s }" % line)


@pytest.mark.parametrize("lines, message", LINES)
def test_wrong_matches(tmp_path, lines, message):
    assert message in said(tmp_path, "match m { %s; }" % lines)


def test_a_check_without_a_group(tmp_path):
    message = '"health_check" needs "proxy_pass" to a group of servers'
    assert message in said(tmp_path, "server { listen 127.0.0.1:9; return x; health_check; }")
    assert message in said(tmp_path, "server { listen 127.0.0.1:9; proxy_pass $server_addr:1; health_check; }")


def test_two_matches_of_one_name(tmp_path):
    assert 'duplicate match "m"' in said(tmp_path, "match m { } match m { }")


def test_matches_of_http_are_others(tmp_path):
    assert 'match "m" is not defined' in said(
        tmp_path, "upstream u { server 127.0.0.1:1; } server { listen 127.0.0.1:9; proxy_pass u; health_check match=m; } "
                  "}\nhttp { match m { status 200; }")
