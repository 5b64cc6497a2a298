"""HTTP/3 with clients of others: aioquic, quic-go (auto/h3client), Chromium and ngtcp2. Each is skipped where the program is not there."""

import base64
import hashlib
import json
import os
import re
import shutil
import subprocess

import pytest

import certificates
from h3_site import BIG, _site  # noqa: F401
from harness.h3 import H3
from harness.udp_relay import UdpRelay

QUIC_GO = os.path.join(os.path.dirname(__file__), "..", "..", "..", "objs-tools", "h3client")
CHROMIUM = shutil.which("chromium")
NGTCP2 = shutil.which("gtlsclient")  # of the package ngtcp2-client

V1, V2 = 1, 0x6b3343cf
TRANSPORT_PARAMETER_ERROR, VERSION_NEGOTIATION_ERROR = 8, 0x11

needs_quic_go = pytest.mark.skipif(not os.access(QUIC_GO, os.X_OK), reason="without quic-go: see auto/h3client")
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="without Chromium")
needs_ngtcp2 = pytest.mark.skipif(NGTCP2 is None, reason="without ngtcp2-client")


def run(*command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60, check=False,
                          encoding="latin-1")
    return done.stdout, done.stderr


def quic_go(server, mode, *options, path="/big"):
    out, error = run(QUIC_GO, mode, *options, "https://localhost:%d%s" % (server.port, path))
    assert out, error
    result = json.loads(out)
    assert (result["Failed"], result.get("Error")) == (0, None), result
    return result


@pytest.mark.parametrize("retry", ["", "quic_retry on;"])
@pytest.mark.parametrize("first, preferred, used", [(V1, [V2, V1], V2), (V2, [V1, V2], V1), (V1, [V1, V2], V1), (V1, [V1], V1)])
def test_version_that_the_client_prefers(site, retry, first, preferred, used):
    """Compatible version negotiation (RFC 9368): without a round trip, and confirmed by the transport parameters."""
    with H3(site(retry).port, original_version=first, supported_versions=preferred) as client:
        assert client.quic._version == used
        assert client.get("/big").body == BIG


@pytest.mark.parametrize("chosen, available, error", [(V2, [V2, V1], VERSION_NEGOTIATION_ERROR), (V1, [V2], TRANSPORT_PARAMETER_ERROR)])
def test_versions_that_do_not_fit(site, chosen, available, error):
    """What the client says of versions was changed on the way, or makes no sense."""
    with H3(site().port, connect=False) as client:
        serialize = client.quic._serialize_transport_parameters

        def lie():
            settings, version = client.quic._configuration, client.quic._version
            kept, settings.supported_versions, client.quic._version = settings.supported_versions, available, chosen
            bytes_of = serialize()
            settings.supported_versions, client.quic._version = kept, version
            return bytes_of

        client.quic._serialize_transport_parameters = lie
        client.connect()
        assert client.closed[0] == error


@needs_quic_go
@pytest.mark.parametrize("text", ["", "quic_retry on;", "quic_gso on;", "quic_congestion_control bbr;",
                                  "ssl_conf_command Ciphersuites TLS_CHACHA20_POLY1305_SHA256;",
                                  "ssl_ecdh_curve secp384r1;"],
                         ids=["plain", "retry", "gso", "bbr", "chacha20", "hello-retry"])
@pytest.mark.parametrize("version", [1, 2])
def test_quic_go(site, text, version):
    """Large responses on many streams of two connections; quic-go updates its keys after 100 packets."""
    server = site(text)
    result = quic_go(server, "load", "-n", "20", "-c", "2", "-m", "5", *(["-2"] if version == 2 else []))
    assert result["Bytes"] == 20 * len(BIG) and result["Dialled"] == 2
    assert result["Versions"] == {"v%d" % version: 2}


@needs_quic_go
def test_quic_go_resumes(site):
    result = quic_go(site(), "handshakes", "-n", "5", "-c", "1", "-resume", path="/a.txt")
    assert (result["Dialled"], result["Resumed"]) == (5, 4)


@needs_chromium
def test_chromium(site):
    """A page and what it names come by HTTP/3."""
    pair = certificates.own("localhost")
    public = subprocess.run("openssl x509 -in %s -pubkey -noout | openssl pkey -pubin -outform der" % pair.crt,
                            shell=True, stdout=subprocess.PIPE, check=True).stdout
    pin = base64.b64encode(hashlib.sha256(public).digest()).decode()
    server = site('log_format h3 "$request $status"; access_log access.log h3;',
                  files={"html/page.html": "<html><body><script src=/code.js></script></body></html>",
                         "html/code.js": "document.body.append('it ' + 'runs')"})
    out, error = run(CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                     "--user-data-dir=" + server.path("profile"), "--host-resolver-rules=MAP localhost 127.0.0.1",
                     "--origin-to-force-quic-on=localhost:%d" % server.port,
                     "--ignore-certificate-errors-spki-list=" + pin,
                     "--dump-dom", "https://localhost:%d/page.html" % server.port)
    assert "it runs" in out, out + error
    lines = server.lines("access.log")
    assert "GET /page.html HTTP/3.0 200" in lines and "GET /code.js HTTP/3.0 200" in lines


@needs_ngtcp2
@pytest.mark.parametrize("options", [[], ["--key-update=1ms"], ["--change-local-addr=1ms"], ["--rx-loss=0.05"]],
                         ids=["plain", "key-update", "migration", "loss"])
def test_ngtcp2(site, options, tmp_path):
    """Version 0.12 of Debian 12 knows only a draft of QUIC version 2."""
    server = site()
    run(NGTCP2, "-q", "--exit-on-all-streams-close", "--download=%s" % tmp_path, *options, "127.0.0.1",
        str(server.port), "https://localhost:%d/big" % server.port)
    assert (tmp_path / "big").read_bytes() == BIG
    assert "error 0x" not in server.error_log


@needs_ngtcp2
def test_ngtcp2_finds_ecn(site):
    """Both sides mark their packets and report the marks of the other's (RFC 9000, 13.4)."""
    _, log = run(NGTCP2, "--exit-on-all-streams-close", "127.0.0.1", str(site().port), "https://localhost/a.txt")
    assert "path is ECN capable" in log, log
    assert re.search("Received packet.* ecn=0x2 ", log)


@pytest.mark.parametrize("client", ["aioquic", pytest.param("quic-go", marks=needs_quic_go), pytest.param("ngtcp2", marks=needs_ngtcp2)])
def test_transfer_over_a_bad_path(site, tmp_path, client):
    """Datagrams are lost, changed, repeated, turned around: what arrives is whole."""
    server = site(files={"html/some": BIG[:300000]})
    with UdpRelay(server.port, loss=0.03, corrupt=0.03, duplicate=0.05, reorder=0.05) as relay:
        if client == "aioquic":
            with H3(relay.port) as connection:
                assert connection.get("/some").body == BIG[:300000]
        elif client == "quic-go":
            assert quic_go(relay, "load", path="/some")["Bytes"] == 300000
        else:
            run(NGTCP2, "-q", "--exit-on-all-streams-close", "--download=%s" % tmp_path, "127.0.0.1", str(relay.port),
                "https://localhost:%d/some" % relay.port)
            assert (tmp_path / "some").read_bytes() == BIG[:300000]
    assert "error 0x" not in server.error_log


def test_handshake_whose_first_datagrams_are_lost(site):
    """In both directions: both sides send them again."""
    server = site()
    with UdpRelay(server.port, lose=[0]) as relay, H3(relay.port) as client:
        assert client.get("/a.txt").body == b"hello\n"
        assert relay.dropped == 2


def test_path_that_is_dead_for_a_while(site):
    """Nothing passes between two moments of a response; then it continues."""
    server = site()
    with UdpRelay(server.port) as relay, H3(relay.port) as client:
        stream = client.send("/big")
        client.turn_until(lambda: client.answer(stream).body)
        relay.is_dead = True
        client.turn_until(lambda: relay.dropped > 2)  # what was under way, or probes
        relay.is_dead = False
        assert client.wait(stream).body == BIG
