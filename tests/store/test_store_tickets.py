"""Keys of session tickets that nodes share: a key that is in use is not replaced."""

import signal
import socket
import ssl

import pytest

from harness import until
from harness.certificates import Authority
from harness.nodes import store

CONF = """ssl_session_ticket_key auto 1h sync sync_interval=10ms; ssl_certificate %(dir)s/www.crt; ssl_certificate_key %(dir)s/www.key;
    server { listen 127.0.0.1:@PORT@ ssl; ssl_protocols TLSv1.2; return 200 tls; }"""
ITEMS = "portunus:1:ssl_ticket_keys:{ssl_ticket_keys}"

CLIENT = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
CLIENT.check_hostname, CLIENT.verify_mode, CLIENT.maximum_version = False, ssl.CERT_NONE, ssl.TLSVersion.TLSv1_2


def session_of(server, session=None):
    """The session of a handshake, and was it resumed?"""
    with socket.create_connection(("127.0.0.1", server.port)) as raw, CLIENT.wrap_socket(raw, session=session) as conn:
        return conn.session, conn.session_reused


@pytest.fixture(name="start")
def fixture_start(serve, tmp_path):
    (tmp_path / "password").write_text("secret")
    Authority(str(tmp_path)).issue("www")

    def begin(port):
        return serve(CONF % {"dir": tmp_path}, main=store(port, "timeout 20ms; connect_timeout 100ms; password_file %s;" % (tmp_path / "password")))
    return begin


def keys_of(redis):
    words = redis.ask("HGETALL", ITEMS)
    return {name: value for name, value in zip(words[::2], words[1::2]) if "-" in name}


def test_a_node_that_starts_while_the_store_does_not_answer(start, redis):
    """It made a key of its own for the period, which took the place of the one that the others used."""
    one = redis("user default on nopass ~* &* +@all")
    first = start(one.port)
    until(lambda: keys_of(one), "a key in the store")
    until(lambda: session_of(first, session_of(first)[0])[1], "a ticket")
    session, before = session_of(first)[0], keys_of(one)
    one.signal(signal.SIGSTOP)
    second = start(one.port)
    second.wait_log("zones continue locally")
    own = session_of(second)[0]
    one.signal(signal.SIGCONT)
    until(lambda: session_of(second, session_of(first)[0])[1], "the key")
    assert session_of(second, session)[1] and session_of(first, session)[1]
    assert session_of(second, own)[1]                               # what it gave meanwhile is good there
    assert keys_of(one).items() >= before.items()
