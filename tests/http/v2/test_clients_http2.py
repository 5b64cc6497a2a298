"""Real clients over HTTP/2 and TLS: curl, nghttp, h2load, Python's h2."""

import hashlib
import json
import os
import re
import subprocess

import h2.config
import h2.connection
import h2.events
import pytest

import certificates
import tls_client
from h2_site import BIG, _echo  # noqa: F401

CONF = """
    log_format how '$server_protocol $ssl_protocol $ssl_session_reused $status $request_uri';
    access_log logs/access.log how; http2 on; ssl_session_cache shared:S:1m; client_max_body_size 0;
    keepalive_requests 100000;
    server {
        listen 127.0.0.1:@PORT@; listen 127.0.0.1:@PORT1@ ssl; server_name localhost; %(pair)s
        location / { root html; }
        location /how {
            add_trailer X-Sum $request_id; return 200 "$server_protocol $ssl_protocol $ssl_alpn_protocol\n";
        }
        location /reused { return 200 $ssl_session_reused; }
        location /p { proxy_pass http://127.0.0.1:%(echo)d; }
    }
    server {
        listen 127.0.0.1:@PORT2@ ssl; %(pair)s ssl_verify_client on; ssl_client_certificate %(authority)s;
        return 200 "$ssl_client_verify $ssl_client_s_dn";
    }
"""


@pytest.fixture(name="server")
def _server(serve, echo):
    return serve(CONF % {"pair": tls_client.pair(certificates.own("localhost")), "echo": echo,
                         "authority": certificates.own("ca").crt},
                 files={"html/a.txt": "hello\n", "html/big": BIG})


def run(*words, limit=60, fails=False):
    """Runs a client to its end; gives what it wrote to standard output."""
    done = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          timeout=limit, check=False)
    assert (done.returncode != 0) == fails, (words, done.returncode, done.stderr, done.stdout[-2000:])
    return done.stdout


def url(server, place, scheme="https"):
    return "%s://localhost:%d%s" % (scheme, server.port_of("PORT1") if scheme == "https" else server.port, place)


def summed(body):
    """What the backend says of a body."""
    return b"%d %s" % (len(body), hashlib.md5(body).hexdigest().encode())


# curl: it verifies the certificate and its name

def curl(*words, **more):
    return run("curl", "-sS", "-q", "--max-time", "50", "--noproxy", "*", "-4", "--cacert",
               certificates.own("localhost").crt, *words, **more)


@pytest.mark.parametrize("words, place, scheme, answer", [
    (["--http2"], "/how", "https", b"HTTP/2.0 TLSv1.3 h2\n"),
    (["--http2", "--tls-max", "1.2"], "/how", "https", b"HTTP/2.0 TLSv1.2 h2\n"),
    (["--http1.1"], "/how", "https", b"HTTP/1.1 TLSv1.3 http/1.1\n"),
    (["--http1.0"], "/how", "https", b"HTTP/1.0 TLSv1.3 http/1.0\n"),
    (["--http2", "--no-alpn"], "/how", "https", b"HTTP/1.1 TLSv1.3 \n"),
    (["--http2-prior-knowledge"], "/how", "http", b"HTTP/2.0  \n"),
    (["--http2"], "/how", "http", b"HTTP/1.1  \n"),     # asks for an upgrade, which is not taken
    (["--http1.1"], "/how", "http", b"HTTP/1.1  \n"),
    (["--http2"], "/big", "https", BIG),
    (["--http2", "-r", "100-4999"], "/big", "https", BIG[100:5000]),
    (["--http2-prior-knowledge"], "/big", "http", BIG),
    (["--http1.1"], "/big", "https", BIG),
])
def test_curl(server, words, place, scheme, answer):
    assert curl(*words, url(server, place, scheme)) == answer


@pytest.mark.parametrize("words", [["--http2"], ["--http1.1"], ["--http2", "-H", "Expect: 100-continue"]])
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_curl_uploads(server, tmp_path, words, scheme):
    body = os.urandom(1500000)
    (tmp_path / "body").write_bytes(body)
    if scheme == "http":
        words = ["--http2-prior-knowledge" if word == "--http2" else word for word in words]
    assert curl(*words, "--data-binary", "@%s" % (tmp_path / "body"), url(server, "/p", scheme)) == summed(body)


def test_curl_many_files_on_one_connection(server):
    got = curl("--http2", "--parallel", "--parallel-max", "20", "-w", "%{http_version} %{http_code} %{size_download}\n",
               *[word for _ in range(40) for word in ("-o", "/dev/null", url(server, "/big"))])
    assert got.split(b"\n")[:-1] == [b"2 200 %d" % len(BIG)] * 40


@pytest.mark.parametrize("most", ["1.2", "1.3"])
def test_curl_resumes(server, most):
    """The second connection of one curl takes up the session of the first: by the cache (curl asks for no ticket
    below TLS 1.3), or by a ticket."""
    one = ["--http1.1", "--tls-max", most, "-H", "Connection: close", url(server, "/reused")]
    assert curl(*one, "--next", "-sS", "--cacert", certificates.own("localhost").crt, *one) == b".r"


def test_curl_shows_its_certificate(server):
    client = certificates.signed("client", "ca")
    place = "https://localhost:%d/" % server.port_of("PORT2")
    for words in (["--http2"], ["--http1.1"], ["--http2", "--tls-max", "1.2"]):
        assert curl(*words, "--cert", client.crt, "--key", client.key, place) == b"SUCCESS CN=client"
        assert b"No required SSL certificate was sent" in curl(*words, place)


def test_curl_refuses_what_it_does_not_know(server):
    run("curl", "-sS", "-q", "--noproxy", "*", "-4", url(server, "/how"), fails=True)
    server.wait_log(r"\[info\].*SSL_do_handshake\(\) failed .*unknown ca:")
    assert curl("--http2", url(server, "/how")).startswith(b"HTTP/2.0")


# nghttp: its library is strict about what the server sends

@pytest.mark.parametrize("scheme", ["http", "https"])
def test_nghttp(server, scheme):
    assert run("nghttp", url(server, "/big", scheme)) == BIG                  # by old priorities
    assert run("nghttp", "--no-dep", "-w", "12", "-W", "13", url(server, "/big", scheme)) == BIG
    assert run("nghttp", "--no-dep", "-m", "30", url(server, "/a.txt", scheme)) == b"hello\n" * 30
    shown = run("nghttp", "-v", "-n", "-H", "te: trailers", url(server, "/how", scheme)).decode("latin-1")
    shown = re.sub(r"\x1b\[[0-9;]*m", "", shown)
    assert re.search(r"recv \(stream_id=\d+\) :status: 200", shown)
    assert re.search(r"recv \(stream_id=\d+\) x-sum: [0-9a-f]{32}", shown)
    assert "recv GOAWAY" not in shown or "NO_ERROR" in shown


@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize("words", [[], ["--no-content-length"], ["--trailer", "x-t: 1"], ["-b", "255"]])
def test_nghttp_uploads(server, tmp_path, scheme, words):
    body = os.urandom(400000)
    (tmp_path / "body").write_bytes(body)
    assert run("nghttp", "--no-dep", *words, "-d", str(tmp_path / "body"), url(server, "/p", scheme)) == summed(body)


# h2load: every answer is there and good

@pytest.mark.parametrize("scheme, words", [
    ("http", []), ("https", []), ("http", ["--h1"]), ("https", ["--h1"]),
    ("https", ["--ciphers", "ECDHE-ECDSA-AES128-GCM-SHA256"]), ("http", ["-w", "14", "-W", "15"])])
def test_h2load(server, scheme, words):
    count = 1000
    streams = "1" if "--h1" in words else "32"
    for place, size in (("/a.txt", 6), ("/big", len(BIG))):
        count = 1000 if size < 100 else 60
        got = run("h2load", "-n", str(count), "-c", "4", "-m", streams, "-t", "1", *words, url(server, place, scheme))
        assert b"%d total, %d started, %d done, %d succeeded, 0 failed, 0 errored, 0 timeout" % ((count,) * 4) in got
        assert b"status codes: %d 2xx, 0 3xx, 0 4xx, 0 5xx" % count in got
        assert b"(%d) data" % (count * size) in got


def test_h2load_uploads(server, tmp_path):
    (tmp_path / "body").write_bytes(os.urandom(100000))
    got = run("h2load", "-n", "50", "-c", "2", "-m", "8", "-d", str(tmp_path / "body"), url(server, "/p"))
    assert b"status codes: 50 2xx, 0 3xx, 0 4xx, 0 5xx" in got, (got, server.error_log)


# Python's h2: it checks frames, states and fields of the server

class Peer:
    """An h2 connection over TLS."""

    def __init__(self, server):
        self.socket = tls_client.connect(server.port_of("PORT1"), "localhost", alpn=["h2"])
        assert self.socket.selected_alpn_protocol() == "h2"
        self.h2 = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True, header_encoding="utf-8"))
        self.h2.initiate_connection()
        self.bodies, self.heads, self.trailers, self.ended = {}, {}, {}, set()
        self.flush()

    def flush(self):
        self.socket.sendall(self.h2.data_to_send())

    def ask(self, method, path, *fields, ends=True):
        stream = self.h2.get_next_available_stream_id()
        self.h2.send_headers(stream, [(":method", method), (":scheme", "https"), (":authority", "localhost"),
                                      (":path", path), *fields], end_stream=ends)
        self.flush()
        return stream

    def turn(self):
        """Takes what comes."""
        got = self.socket.recv(65536)
        assert got, "the connection ended"
        for event in self.h2.receive_data(got):
            assert not isinstance(event, (h2.events.StreamReset, h2.events.ConnectionTerminated)), event
            if isinstance(event, h2.events.ResponseReceived):
                self.heads[event.stream_id] = dict(event.headers)
            elif isinstance(event, h2.events.DataReceived):
                self.bodies[event.stream_id] = self.bodies.get(event.stream_id, b"") + event.data
                self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            elif isinstance(event, h2.events.TrailersReceived):
                self.trailers[event.stream_id] = dict(event.headers)
            elif isinstance(event, h2.events.StreamEnded):
                self.ended.add(event.stream_id)
        self.flush()

    def upload(self, stream, body, trailers=()):
        """By as much as the windows let go at a time."""
        while body:
            room = min(self.h2.local_flow_control_window(stream), self.h2.max_outbound_frame_size, len(body))
            if room == 0:
                self.turn()
                continue
            self.h2.send_data(stream, body[:room], end_stream=room == len(body) and not trailers)
            body = body[room:]
            self.flush()
        if trailers:
            self.h2.send_headers(stream, trailers, end_stream=True)
            self.flush()

    def wait(self, *streams):
        while not self.ended.issuperset(streams):
            self.turn()


def test_python_h2(server):
    peer = Peer(server)
    with peer.socket:
        streams = [peer.ask("GET", "/big" if number % 3 == 0 else "/how", ("te", "trailers")) for number in range(45)]
        peer.wait(*streams)
        for number, stream in enumerate(streams):
            assert peer.heads[stream][":status"] == "200"
            if number % 3 == 0:
                assert peer.bodies[stream] == BIG
            else:
                assert peer.bodies[stream] == b"HTTP/2.0 TLSv1.3 h2\n"
                assert len(peer.trailers[stream]["x-sum"]) == 32
        peer.h2.ping(b"12345678")
        peer.flush()
        peer.turn()
    assert server.wait_lines("logs/access.log", 45)[0].startswith("HTTP/2.0 TLSv1.3 . 200 ")


def test_python_h2_uploads(server):
    peer = Peer(server)
    body = os.urandom(700000)
    with peer.socket:
        first, second = (peer.ask("POST", "/p", ends=False) for _ in range(2))
        peer.upload(first, body)
        peer.upload(second, body[:1000], [("x-t", json.dumps("t"))])
        peer.wait(first, second)
        assert peer.bodies[first] == summed(body) and peer.bodies[second] == summed(body[:1000])
