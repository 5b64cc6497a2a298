"""UDP through stream's proxy, side by side with the reference: who gets what, which lines the logs have."""

import os
import re
import socket
import sys

import pytest

from harness import binaries, until
from harness.server import Server
from harness.workers import wait_workers

sys.path.insert(0, os.path.dirname(__file__))
from test_udp_flows import Backend, client_of  # noqa: E402

MODULE = "/usr/lib/nginx/modules/ngx_stream_module.so"
HEAD = """
daemon off; pid nginx.pid; error_log error.log info; %(user)s events {}
http { server { listen 127.0.0.1:@PORT99@; } }
stream {
    proxy_timeout 1500ms;
    log_format f "$status $protocol $bytes_received/$bytes_sent $upstream_bytes_sent/$upstream_bytes_received";
    server { listen 127.0.0.1:@PORT98@; return x; }
"""


class Talk:
    """A client and the backend of one server block; `seen` is what is compared."""

    def __init__(self, port, backend):
        self.client = client_of(port)
        self.backend = backend
        self.ends = []
        self.seen = []
        self.last = None

    def ask(self, data):
        """The client speaks; noted: what the backend got, and which session (by number) it came from."""
        self.client.send(data)
        got, self.last = self.backend.take()
        if self.last not in self.ends:
            self.ends.append(self.last)
        got = re.sub(rb" \d+ \d+\r\n", b" P P\r\n", got)
        self.seen.append(("asked", len(got) if len(got) > 200 else got, self.ends.index(self.last)))

    def answer(self, data, session=None):
        self.backend.answer(data, self.last if session is None else self.ends[session])
        got = self.client.recv(65536)
        self.seen.append(("answered", len(got) if len(got) > 200 else got))


def echo(talk):
    talk.ask(b"one")
    talk.answer(b"ONE!")
    talk.ask(b"two")
    talk.answer(b"two")


def silent(talk):
    talk.ask(b"one")


def crossed(talk):
    talk.ask(b"one")
    talk.ask(b"two")
    talk.answer(b"ONE", 0)
    talk.answer(b"TWO!", len(talk.ends) - 1)


def empty(talk):
    talk.ask(b"")
    talk.answer(b"")
    talk.ask(b"x")
    talk.answer(b"")


def large(talk):
    talk.ask(b"x" * 65507)
    talk.answer(b"y" * 9000)


def thrice(talk):
    for number in range(3):
        talk.ask(b"ask %d" % number)
        talk.answer(b"answer %d" % number)


def several(talk):
    talk.ask(b"one")
    for number in range(3):
        talk.answer(b"answer %d" % number)


SCENARIOS = {
    "nothing said": ("", echo),
    "nothing said, silent": ("", silent),
    "one response": ("proxy_responses 1;", echo),
    "one response, silent": ("proxy_responses 1;", silent),
    "one response, crossed": ("proxy_responses 1;", crossed),
    "no response": ("proxy_responses 0;", silent),
    "two responses": ("proxy_responses 3;", several),
    "several responses": ("", several),
    "two requests, one response": ("proxy_requests 2; proxy_responses 1;", thrice),
    "two requests, crossed": ("proxy_requests 2; proxy_responses 1;", crossed),
    "two requests": ("proxy_requests 2;", thrice),
    "one request": ("proxy_requests 1;", crossed),
    "one request, one response": ("proxy_requests 1; proxy_responses 1;", crossed),
    "two requests, no response": ("proxy_requests 2; proxy_responses 0;", silent),
    "empty": ("proxy_responses 1;", empty),
    "empty, nothing said": ("", empty),
    "large": ("", large),
    "PROXY header": ("proxy_protocol on;", echo),
    "PROXY header, one response": ("proxy_protocol on; proxy_responses 1;", echo),
    "bound": ("proxy_bind 127.0.0.77; proxy_responses 1;", echo),
    "too little for preread": ("ssl_preread on; proxy_responses 1;", echo),
    "rates that are not met": ("proxy_upload_rate 100k; proxy_download_rate 100k; proxy_responses 1;", echo),
}


def log_of(server, port, backend):
    """The lines of the log about one server block, without what differs from run to run."""
    lines, numbers = [], {}
    for line in server.lines("error.log"):
        found = re.search(r"\[(\w+)\] \d+#\d+: \*(\d+) (.*)", line)
        if found is None:
            continue
        level, number, text = found.groups()
        if "connected to 127.0.0.1:%d" % port in text:
            numbers[number] = len(numbers)
        if number in numbers:
            text = text.replace(":%d" % port, ":LISTEN").replace(":%d" % backend, ":BACKEND")
            lines.append((numbers[number], level, re.sub(r"(127\.0\.0\.\d+):\d+ connected", r"\1:P connected", text)))
    return sorted(lines, key=lambda line: line[0])


def run(binary):
    """What each scenario showed, by name."""
    is_reference = binary == binaries.reference()
    backends = [Backend() for _ in SCENARIOS]
    text = "load_module %s;" % MODULE if is_reference else ""
    text += HEAD % {"user": "user root;" if os.getuid() == 0 else ""}
    for number, (options, _) in enumerate(SCENARIOS.values()):
        text += ("server { listen 127.0.0.1:@PORT%d@ udp; proxy_pass 127.0.0.1:%d; access_log a%d.log f; %s }\n"
                 % (number, backends[number].port, number, options))
    shown = {}
    with Server(conf=text + "}", binary=binary) as server:
        wait_workers(server, 1)
        talks = []
        for number, (name, (_, scenario)) in enumerate(SCENARIOS.items()):
            talk = Talk(server.port_of("PORT%d" % number), backends[number])
            scenario(talk)
            talks.append(talk)
        for number, (name, talk) in enumerate(zip(SCENARIOS, talks)):
            server.wait_lines("a%d.log" % number, len(talk.ends))
            shown[name] = {"seen": talk.seen, "access": sorted(server.lines("a%d.log" % number)),
                           "log": log_of(server, server.port_of("PORT%d" % number), backends[number].port)}
            talk.client.close()
            talk.backend.socket.close()
    return shown


@pytest.fixture(scope="module")
def both():
    if not os.path.exists(MODULE) or not os.path.exists(binaries.reference()):
        pytest.skip("the reference has no stream here")
    return run(binaries.under_test()), run(binaries.reference())


@pytest.mark.parametrize("name", SCENARIOS)
def test_as_the_reference(both, name):
    ours, theirs = both
    assert ours[name] == theirs[name]


# ---- what is better than the reference's

CONF = """
daemon off; pid nginx.pid; error_log error.log info; %s master_process %s;
events {} stream {
    proxy_timeout 1h;
    upstream two { server 127.0.0.1:%d; server 127.0.0.1:%d; }
    server { listen 127.0.0.1:@PORT@ udp; proxy_pass two; }
    server { listen 127.0.0.1:@PORT1@ udp; proxy_pass 127.0.0.1:%d; proxy_responses 1; }
    server { listen 127.0.0.1:@PORT2@ udp; proxy_pass two; proxy_next_upstream off; proxy_responses 1; }
}
"""
USER = "user root;" if os.getuid() == 0 else ""


def nobody():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


@pytest.mark.parametrize("master", ["on", "off"])
def test_another_peer_is_asked_when_the_first_is_not_there(serve, master):
    backend = Backend()
    server = serve(conf=CONF % (USER, master, nobody(), backend.port, nobody()))
    with client_of(server.port) as client:
        client.send(b"hello")
        data, address = backend.take()
        assert data == b"hello"
        backend.answer(b"there", address)
        assert client.recv(100) == b"there"
        client.send(b"again")
        assert backend.take() == (b"again", address)
    server.wait_log(r"recv\(\) failed \(111: Connection refused\) while proxying and reading from upstream, "
                    "udp client: 127.0.0.1")
    backend.socket.close()


@pytest.mark.parametrize("port", ["PORT1", "PORT2"])
def test_a_session_ends_when_nobody_is_left_to_ask(serve, port):
    backend = Backend()
    server = serve(conf=CONF % (USER, "on", nobody(), backend.port, nobody()))
    with client_of(server.port_of(port)) as client:
        client.send(b"hello")
        server.wait_log("Connection refused")
        until(lambda: server.read("error.log").count("udp client") > 1, server.evidence)
    backend.socket.close()


def test_sessions_outlive_a_reload_in_one_process(serve):
    backend = Backend()
    text = CONF % (USER, "off", backend.port, backend.port, nobody())
    server = serve(conf=text)
    with client_of(server.port) as client:
        client.send(b"one")
        data, address = backend.take()
        server.signal("reload")
        server.wait_log(", reconfiguring")
        for number in range(3):
            client.send(b"%d" % number)
            assert backend.take() == (b"%d" % number, address)
            backend.answer(b"answer", address)
            assert client.recv(100) == b"answer"
    backend.socket.close()


@pytest.mark.parametrize("options", ["", "proxy_responses 1;"])
def test_a_datagram_that_fits_no_peer_is_no_fault_of_theirs(serve, options):
    """With its header it was too long to be sent: all peers were taken for broken, by one datagram."""
    backend = Backend()
    server = serve(conf="daemon off; pid nginx.pid; error_log error.log info; %s events {} stream {"
                   "upstream two { server 127.0.0.1:%d; server 127.0.0.1:%d backup; }"
                   "server { listen 127.0.0.1:@PORT@ udp; proxy_pass two; proxy_protocol on; proxy_timeout 1h; %s } }"
                   % (USER, backend.port, backend.port, options))
    with client_of(server.port) as giant, client_of(server.port) as other:
        giant.send(b"x" * 65507)
        server.wait_log("a datagram of 65507 bytes is dropped")
        other.send(b"hello")
        assert backend.take()[0].endswith(b"\r\nhello")
        giant.send(b"less")
        assert backend.take()[0].endswith(b"\r\nless")
    assert "disabled" not in server.error_log
    backend.socket.close()
