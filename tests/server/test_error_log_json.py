"""error_log … json: one object a line, whatever a peer sends; error_log_tag; syslog in the form of RFC 5424."""

import json
import os
import re
import socket
import tempfile

import pytest

from harness.server import run_binary
from harness.wait import until



class Receiver:
    def __init__(self, sock, path):
        self.recv, self.path = sock.recv, path


@pytest.fixture(name="receiver")
def _receiver():
    """A socket of datagrams that nobody reads until the test does, where workers of another user reach it."""
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        path = os.path.join(folder, "s")
        sock.bind(path)
        sock.settimeout(10)
        os.chmod(folder, 0o755)
        os.chmod(path, 0o777)
        yield Receiver(sock, path)


def objects(server, name="logs/json.log"):
    lines = server.read(name).encode("latin-1").split(b"\n")
    assert lines[-1] == b""
    return [json.loads(line.decode("utf-8")) for line in lines[:-1]]


def wait_object(server, key, value, name="logs/json.log"):
    def found():
        if server.read(name).endswith("\n"):
            return [entry for entry in objects(server, name) if entry.get(key) == value]
        return []
    return until(found, lambda: "%s=%r in %s" % (key, value, server.read(name)))


def test_members_of_a_request(serve):
    """The same text as in the other format, which may stand beside it."""
    server = serve("""
        error_log logs/json.log info json; error_log error.log info;
        server {
            listen 127.0.0.1:@PORT@; server_name site;
            location / { root html; }
            location /up { proxy_pass http://127.0.0.1:@PORT1@/x; }
        }
    """)
    with server.client() as client:
        assert client.request("/none?a=\"b\\c", "Referer: http://r/", host="site").status == 404
        assert client.request("/up").status == 502
    entry = wait_object(server, "host", "site")[0]
    assert entry["level"] == "error" and entry["server"] == "site" and entry["client"] == "127.0.0.1"
    assert entry["request"] == 'GET /none?a="b\\c HTTP/1.1' and entry["referrer"] == "http://r/"
    assert entry["code"] == 2 and isinstance(entry["connection"], int) and isinstance(entry["pid"], int)
    assert entry["message"].startswith("open() ") and entry["message"].endswith("(2: No such file or directory)")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d\d:\d\d", entry["time"])
    refused = wait_object(server, "action", "connecting to upstream")[0]
    assert refused["upstream"] == "http://127.0.0.1:%d/x" % server.port_of("PORT1") and refused["code"] == 111
    assert entry["message"] in server.error_log


def test_lines_of_the_process(serve):
    server = serve("server { listen 127.0.0.1:@PORT@; location / { return 200; } }", main="error_log logs/json.log notice json;")
    entry = wait_object(server, "level", "notice")[0]
    assert "connection" not in entry and "client" not in entry


def test_every_byte_is_escaped(serve):
    """A client makes neither members nor lines of its own."""
    server = serve("""
        error_log logs/json.log info json;
        server { listen 127.0.0.1:@PORT@; location / { root html; } }
    """)
    odd = bytes(range(1, 256)).replace(b"\n", b"").replace(b"\r", b"")
    spoof = b'x", "level": "emerg", host: "evil", client: 1.2.3.4, upstream: "u'
    for value in (odd, spoof, "ü€😀".encode(), b"\xed\xa0\x80\xc0\xaf\xf5\x80\xff\xe2\x82"):
        with server.client() as client:
            client.send(b"GET /none HTTP/1.1\r\nHost: site\r\nReferer: " + value.replace(b"\x00", b"") + b"\r\nConnection: close\r\n\r\n")
            client.rest_or_reset()
    until(lambda: server.read("logs/json.log").count("/none") >= 3)
    entries = objects(server)
    referrers = [entry["referrer"] for entry in entries if "referrer" in entry]
    assert spoof.decode() in referrers and "ü€😀" in referrers
    assert "\\xED\\xA0\\x80\\xC0\\xAF\\xF5\\x80\\xFF\\xE2\\x82" in referrers
    assert all(entry["client"] == "127.0.0.1" and "upstream" not in entry for entry in entries)


@pytest.mark.parametrize("filler", ["a", '"', "\x1f", "\xff"])
def test_long_lines_are_objects_all_the_same(serve, filler):
    """And no longer than others, which is what a pipe takes at once."""
    server = serve("""
        error_log logs/json.log info json; large_client_header_buffers 4 16k; error_log_tag tag "$http_x$http_y";
        server { listen 127.0.0.1:@PORT@; location / { rewrite ^ /$http_x break; root html; } }
    """)
    with server.client() as client:
        for length in (100, 1000, 2000, 3900, 4000, 8000):
            client.send(b"GET /none HTTP/1.1\r\nHost: site\r\nX-Y: 1\r\nY: %s\r\nReferer: %s\r\n\r\n"
                        % (b"t", filler.encode("latin-1") * length))
            try:
                client.response()
            except AssertionError:
                break
    until(lambda: server.read("logs/json.log").endswith("\n") and server.read("logs/json.log"))
    entries = objects(server)
    assert max(len(line) for line in server.lines("logs/json.log")) <= 4096
    if filler == "a":
        errors = [entry for entry in entries if entry["level"] == "error"]  # and the line of its close, perhaps
        assert len(errors) == 6 and sum(entry.get("truncated", False) for entry in errors) >= 2


def test_tags(serve):
    server = serve("""
        error_log logs/json.log info json; error_log error.log info;
        error_log_tag id "$arg_id"; error_log_tag zone outer;
        server {
            listen 127.0.0.1:@PORT@;
            location / { root html; }
            location /own { error_log_tag only "own \\"$request_method\\""; root html; }
        }
    """)
    with server.client() as client:
        client.request("/a?id=7%22")
        client.request("/own/b?id=7")
    entry = wait_object(server, "zone", "outer")[0]
    assert entry["id"] == "7%22"
    own = wait_object(server, "only", 'own "GET"')[0]
    assert "id" not in own and "zone" not in own
    server.wait_log(r', host: "localhost", id: "7%22", zone: "outer"\n')


@pytest.mark.parametrize("line, error", [
    ('error_log_tag "a b" c;', 'invalid name "a b"'), ("error_log_tag level x;", 'invalid name "level"'),
    ("error_log_tag a;", "invalid number of arguments"), ("error_log_tag a $none;", 'unknown "none" variable'),
    ("error_log e.log json error;", 'invalid log level "json"'), ("error_log e.log error jsn;", 'invalid log level "jsn"'),
    ("error_log syslog:server=127.0.0.1,format=x;", 'unknown syslog format "x"'),
])
def test_errors(tmp_path, line, error):
    (tmp_path / "nginx.conf").write_text("events {} http { %s server { listen unix:x; } }" % line)
    result = run_binary("-t", "-p", str(tmp_path), "-c", "nginx.conf", "-e", "stderr")
    assert result.returncode == 1 and error in result.stderr


def test_stderr_and_memory(serve):
    server = serve("server { listen 127.0.0.1:@PORT@; error_log memory:64k info json; location / { root html; } }",
                   main="error_log stderr notice json;")
    with server.client() as client:
        assert client.request("/none").status == 404


@pytest.mark.parametrize("form", ["", ",format=rfc3164", ",format=rfc5424", ",format=rfc5424,nohostname"])
def test_syslog(receiver, serve, form):
    server = serve("""
        error_log syslog:server=unix:%s,tag=web,facility=local0%s info json;
        log_format short "$uri"; access_log syslog:server=unix:%s,tag=acc,severity=notice%s short;
        server { listen 127.0.0.1:@PORT@; location / { root html; } }
    """ % (receiver.path, form, receiver.path, form))
    with server.client() as client:
        client.request("/none")
    lines = sorted([receiver.recv(8192).decode() for _ in range(2)], key=lambda text: "acc" in text)
    host = "-" if "nohostname" in form else re.escape(socket.gethostname())
    if "5424" in form:
        stamp = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d\d:\d\d"
        error = re.fullmatch(r"<131>1 %s %s web (\d+) - - ({.*})" % (stamp, host), lines[0])
        assert re.fullmatch(r"<189>1 %s %s acc \d+ - - /none" % (stamp, host), lines[1])
        assert json.loads(error.group(2))["pid"] == int(error.group(1))
    else:
        assert json.loads(re.fullmatch(r"<131>\w{3} [ \d]\d \d\d:\d\d:\d\d %s web: ({.*})" % host, lines[0]).group(1))["code"] == 2


def test_slow_syslog_receiver_delays_nobody(receiver, serve):
    """It reads nothing: what its socket does not take is lost, and requests do not wait."""
    server = serve("""
        error_log syslog:server=unix:%s,format=rfc5424 info json;
        server { listen 127.0.0.1:@PORT@; keepalive_requests 10000; location / { root html; } }
    """ % receiver.path, allow=["logging to syslog"])
    with server.client() as client:
        for _ in range(400):
            assert client.request("/none").status == 404
    first = receiver.recv(8192).decode()
    assert first.startswith("<187>1 ") and json.loads(first[first.index("{"):])["code"] == 2
