"""udp_flow_key: sessions of UDP that their clients keep when their address changes, or share; one server for all."""

import os
import socket

import pytest

from harness import until
from harness.server import Server, run_binary
from harness.workers import is_working, wait_workers
from stream.test_udp_flows import Backend

CONF = """
daemon off; pid nginx.pid; error_log error.log info; worker_processes 2; %(user)s
events { worker_connections 2000; }
stream {
    proxy_timeout 1h;
    udp_flow_key quic;
    server { listen 127.0.0.1:@PORT@; return ""; }
    server { listen 127.0.0.1:@PORT1@ udp; %(pass)s }
    server { listen 127.0.0.1:@PORT2@ udp; %(pass)s udp_flow_key dtls; }
    server { listen 127.0.0.1:@PORT3@ udp; %(pass)s udp_flow_key $remote_addr; }
    server { listen 127.0.0.1:@PORT4@ udp; %(pass)s deny 127.0.0.9; allow all; }
    server { listen 127.0.0.1:@PORT5@ udp; %(pass)s udp_flow_key $nothing_$who; }
    server { listen 127.0.0.1:@PORT6@ udp; %(pass)s udp_flow_key address; }
    map $remote_addr $who { 127.0.0.3 one; 127.0.0.4 one; default ""; }
    map $remote_port $nothing_ { default ""; }
}
"""
USER = "user root;" if os.getuid() == 0 else ""


@pytest.fixture(scope="module")
def backend():
    one = Backend()
    yield one
    one.socket.close()


@pytest.fixture(scope="module")
def server(backend):
    text = CONF % {"user": USER, "pass": "proxy_pass 127.0.0.1:%d;" % backend.port}
    with Server(conf=text, allow=["access forbidden by rule"]) as one:
        wait_workers(one, 2)
        yield one


_met = set()


def at(host, port):
    """A client at an address of this machine, whose port nobody had before: sessions stay where they were."""
    while True:
        client = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        client.bind((host, 0))
        if client.getsockname() not in _met:
            break
        client.close()
    _met.add(client.getsockname())
    client.settimeout(15)
    client.connect(("127.0.0.1", port))
    return client


def quic_first(number):
    """A long header: the client's first one."""
    return b"\xc0\0\0\0\1\x08initial%d\x04clnt" % number + b"c" * 100


def quic_answer(ident):
    return b"\xe0\0\0\0\1\x04clnt" + bytes([len(ident)]) + ident + b"s" * 30


def quic_later(ident, text=b""):
    return b"\x41" + ident + b"%20s" % text


def exchange(backend, client, question, answer):
    """There and back. Gives the address of the session's link, by which the backend knows it."""
    client.send(question)
    data, link = backend.take()
    assert data == question
    if answer:
        backend.answer(answer, link)
        assert client.recv(2000) == answer
    return link


def begin(server, backend, port, ident, number=1):
    client = at("127.0.0.1", port)
    return client, exchange(backend, client, quic_first(number), quic_answer(ident))


def test_a_client_of_quic_keeps_its_session(server, backend):
    port = server.port_of("PORT1")
    first, link = begin(server, backend, port, b"server-one")
    other, other_link = begin(server, backend, port, b"another", 2)
    for number in range(12):        # both workers meet it
        with at("127.0.0.%d" % (2 + number), port) as moved:
            assert exchange(backend, moved, quic_later(b"server-one"), b"ok %d" % number) == link
            assert exchange(backend, moved, quic_later(b"server-one"), b"ok, again") == link
    with at("127.0.0.2", port) as moved:
        assert exchange(backend, moved, b"\xe0\0\0\0\1\x0aserver-one\x04clnt long", b"ok") == link
    assert exchange(backend, other, quic_later(b"another"), b"yes") == other_link
    # where it was before it finds its session, too
    assert exchange(backend, first, quic_later(b"server-one"), b"back") == link
    server.wait_log("udp client speaks from 127.0.0.2:")
    first.close()
    other.close()


def test_who_bears_no_id_that_is_known_begins_a_session(server, backend):
    port = server.port_of("PORT1")
    client, link = begin(server, backend, port, b"mine-mine")
    for text in (quic_later(b"mine-min."), b"\x41mine", b"\x41", b"", b"\xc0\0\0\0\1\x08mine-min\0"):
        with at("127.0.0.2", port) as other:
            assert exchange(backend, other, text, b"hm") != link
    assert exchange(backend, client, quic_later(b"mine-mine"), b"ok") == link
    client.close()


def test_an_id_that_is_given_anew_is_the_last_ones(server, backend):
    port = server.port_of("PORT1")
    client, link = begin(server, backend, port, b"given twice")
    later, later_link = begin(server, backend, port, b"given twice")
    with at("127.0.0.2", port) as moved:
        assert exchange(backend, moved, quic_later(b"given twice"), b"ok") == later_link
    assert exchange(backend, client, b"A by address", b"ok") == link
    client.close()
    later.close()


def test_of_many_ids_the_newest_count(server, backend):
    port = server.port_of("PORT1")
    client, link = begin(server, backend, port, b"number 0")
    for number in range(1, 6):
        exchange(backend, client, b"next?", quic_answer(b"number %d" % number))
    with at("127.0.0.2", port) as moved:
        assert exchange(backend, moved, quic_later(b"number 1"), b"no") != link
    for number in (2, 5):
        with at("127.0.0.2", port) as moved:
            assert exchange(backend, moved, quic_later(b"number %d" % number), b"ok") == link
    client.close()


def test_one_who_moved_gets_little_until_it_speaks_again(server, backend):
    port = server.port_of("PORT1")
    client, link = begin(server, backend, port, b"much is asked")
    with at("127.0.0.7", port) as moved:
        question = quic_later(b"much is asked")
        moved.send(question)
        assert backend.take()[0] == question
        backend.answer(b"x" * (3 * len(question) + 1), link)        # nobody gets this
        server.wait_log("udp client gets no more where it speaks from now, until it speaks again")
        backend.answer(b"y" * 2 * len(question), link)
        assert moved.recv(2000) == b"y" * 2 * len(question)
        exchange(backend, moved, question, b"z" * 1500)             # it has heard us
        backend.answer(b"z" * 1400, link)
        assert moved.recv(2000) == b"z" * 1400
    client.close()


def test_who_may_not_come_may_not_move_there(server, backend):
    port = server.port_of("PORT4")
    client, link = begin(server, backend, port, b"let me in")
    with at("127.0.0.9", port) as denied, at("127.0.0.8", port) as moved:
        denied.send(quic_later(b"let me in", b"dropped"))
        server.wait_log("access forbidden by rule")
        assert exchange(backend, moved, quic_later(b"let me in"), b"ok") == link
    client.close()


def dtls_hello(ident):
    extension = b"\0\x36" + (len(ident) + 1).to_bytes(2, "big") + bytes([len(ident)]) + ident
    hello = b"\xfe\xfd" + b"r" * 32 + b"\0\xc0\x2b\0" + len(extension).to_bytes(2, "big") + extension
    size = len(hello).to_bytes(3, "big")
    message = b"\2" + size + b"\0\0" + b"\0\0\0" + size + hello
    return b"\x16\xfe\xfd" + bytes(8) + len(message).to_bytes(2, "big") + message


def test_a_client_of_dtls_keeps_its_session(server, backend):
    port = server.port_of("PORT2")
    client = at("127.0.0.1", port)
    link = exchange(backend, client, b"\x16\xfe\xfd hello", dtls_hello(b"device-7"))
    for number in range(6):
        with at("127.0.0.2", port) as moved:        # DTLS 1.2, then 1.3
            record = b"\x19\xfe\xfd\0\1" + bytes(6) + b"device-7" + b"\0\5hello"
            assert exchange(backend, moved, record, b"ok %d" % number) == link
            assert exchange(backend, moved, b"\x3fdevice-7" + b"\0" * 20, b"ok") == link
    with at("127.0.0.2", port) as other:
        assert exchange(backend, other, b"\x17\xfe\xfddevice-7device-7", b"ok") != link
    client.close()


def test_one_session_for_all_that_an_address_says(server, backend):
    port = server.port_of("PORT3")
    clients = [at("127.0.0.5", port) for _ in range(8)]
    with at("127.0.0.6", port) as other:
        links = {exchange(backend, client, b"%d" % number, b"answer %d" % number)
                 for number, client in enumerate(clients)}
        assert len(links) == 1
        assert exchange(backend, other, b"?", b"other") not in links
        # whoever spoke last is answered, and not held back: it is the same host
        assert exchange(backend, clients[3], b"3", b"x" * 1000) in links
    for client in clients:
        client.close()


def test_a_key_of_what_is_known_of_addresses(server, backend):
    port = server.port_of("PORT5")
    with at("127.0.0.3", port) as one, at("127.0.0.4", port) as same, at("127.0.0.2", port) as other, \
            at("127.0.0.2", port) as more:
        link = exchange(backend, one, b"1", b"ok")
        assert exchange(backend, same, b"2", b"ok") == link
        # an empty key: the address after all
        assert len({link, exchange(backend, other, b"3", b"ok"), exchange(backend, more, b"4", b"ok")}) == 3


def test_addresses_are_the_rule(server, backend):
    port = server.port_of("PORT6")
    client, link = begin(server, backend, port, b"server-six")
    with at("127.0.0.2", port) as moved:
        assert exchange(backend, moved, quic_later(b"server-six"), b"ok") != link
    client.close()


def test_sessions_of_older_workers_are_found(server, backend):
    port = server.port_of("PORT1")
    client, link = begin(server, backend, port, b"before reload")
    old = server.children()
    server.reload()
    until(lambda: len([pid for pid in server.children() if pid not in old and is_working(pid)]) == 2,
          server.evidence)
    for _ in range(4):
        with at("127.0.0.2", port) as moved:
            assert exchange(backend, moved, quic_later(b"before reload"), b"ok") == link
            assert exchange(backend, moved, quic_later(b"before reload"), b"ok") == link
    client.close()


@pytest.mark.parametrize("value", ["qiuc", "''"])
def test_what_is_refused(tmp_path, value):
    (tmp_path / "nginx.conf").write_text(
        "events { } stream { server { listen 127.0.0.1:1 udp; return x; udp_flow_key %s; } }" % value)
    done = run_binary("-t", "-p", "%s/" % tmp_path, "-c", "nginx.conf", "-e", "stderr")
    assert done.returncode == 1
    assert 'in "udp_flow_key"' in done.stderr


def test_dtls_is_refused_with_a_reason(tmp_path):
    (tmp_path / "c").write_text("pid p; error_log stderr; events { } stream { server { listen 127.0.0.1:1 udp dtls; return x; } }")
    done = run_binary("-t", "-p", str(tmp_path), "-c", "c", "-e", "stderr")
    assert done.returncode == 1 and 'the "dtls" parameter is not supported: datagrams of DTLS are passed on as they are' in done.stderr
