"""session_log: sessions of requests, their sums and their ends."""

import hashlib
import re

import pytest

from harness import until
from harness.server import run_binary

CONF = """
    session_log_format short '$uri $body_bytes_sent $session_log_id';
    session_log_format twice escape=none '$body_bytes_sent|$arg_x|${body_bytes_sent}|$http_user_agent';
    session_log_format agent '$http_user_agent $body_bytes_sent';
    session_log_zone a.log zone=a:64k format=short timeout=1h id=$cookie_id md5=$arg_who;
    session_log_zone twice.log zone=twice:64k format=twice timeout=1h md5=$arg_who;
    session_log_zone soon.log zone=soon:64k timeout=50ms md5=$binary_remote_addr;
    session_log_zone full.log zone=full:32k format=agent timeout=1h md5=$request_id;
    session_log_zone ids.log zone=ids:64k format=short id=$cookie_id;
    server {
        listen 127.0.0.1:@PORT@; large_client_header_buffers 4 64k; root html; session_log a; http2 on;
        location / { }
        location /show { return 200 $session_log_id; }
        location /raw { add_header X-Length $x always; return 200 $session_log_binary_id; }
        location /off { session_log off; return 200 "[$session_log_id]"; }
        location /twice { session_log twice; return 200 12345; }
        location /soon { session_log soon; return 200 12345; }
        location /full { session_log full; return 200 x; }
        location /ids { session_log ids; return 200 12345; }
        location /sub { ssi on; ssi_types text/plain; return 200 '<!--#include virtual="/show" -->'; }
    }
""".replace("add_header X-Length $x always; ", "")


def md5(text):
    return hashlib.md5(text.encode()).hexdigest()


def test_sums_and_ids(serve):
    """The line is that of the first request, but for the bytes. Sessions outlive a reload, and end with the service.
    As with nginx the framing of chunks counts."""
    server = serve(CONF, files={"html/ten": "0123456789", "html/four": "1234"})
    mine = "0123456789abcdefABCDEF0123456789"
    assert server.get("/show?who=x").text == md5("x")
    assert server.get("/show?who=x", "Cookie: id=" + mine).text == mine.lower()
    for bad in (mine[1:], mine + "0", "g" + mine[1:]):
        assert server.get("/show?who=x", "Cookie: id=" + bad).text == md5("x")
    assert server.get("/raw?who=x").body == hashlib.md5(b"x").digest()
    assert server.get("/off").text == "[]"
    for target in ("/ten?who=1", "/four?who=2", "/ten?who=2", "/none?who=2"):
        server.get(target)
    error = len(server.get("/none?who=2").body)
    server.reload()
    server.get("/four?who=1")
    assert server.get("/four?who=1", method="HEAD").status == 200
    assert server.get("/sub?who=sub").text == md5("sub")
    assert server.get("/ids").text == "12345" and server.get("/ids", "Cookie: id=" + mine).text == "12345"
    server.quit()
    server.wait_end()
    lines = sorted(server.lines("a.log"))
    assert lines == sorted(["/show 144 " + md5("x"), "/show 32 " + mine.lower(), "/ten 14 " + md5("1"),
                            "/four %d %s" % (14 + 2 * error, md5("2")), "/sub 43 " + md5("sub")])
    assert server.lines("ids.log") == ["/ids 5 " + mine.lower()]


def test_a_session_ends_after_its_timeout(serve):
    server = serve(CONF)
    for number in (1, 2):
        assert server.get("/soon?%d" % number).text == "12345"
        line = server.wait_lines("soon.log", number)[number - 1]
        assert re.match(r'127\.0\.0\.1 - - \[.*\] "GET /soon\?%d HTTP/1\.1" 200 5 "-" "-"$' % number, line)


def test_bytes_at_several_places_and_odd_values(serve):
    """Values of a format that escapes nothing may hold NUL and line ends of their own; a long line takes several records."""
    server = serve(CONF)
    agent = "A" * 3000
    for _ in range(3):
        assert server.get("/twice?who=1&x=%00", "User-Agent: " + agent).text == "12345"
    server.quit()
    server.wait_end()
    assert server.lines("twice.log") == ["15|%00|15|" + agent]


def test_a_full_zone_ends_the_oldest(serve):
    """No request is lost: sessions that were idle for longest end early. A line that is larger than the zone is not kept."""
    server = serve(CONF, main="worker_processes 1;", allow=["is too small: a session is not logged"])
    with server.client() as client:
        for number in range(100):
            assert client.request("/full", "User-Agent: %d%s" % (number, "x" * (number % 3 * 400))).text == "x"
        assert client.request("/full", "User-Agent: " + "y" * 50000).text == "x"
    server.wait_log('session_log_zone "full" is too small: a session is not logged')
    early = server.wait_lines("full.log", 2)
    assert early[0] == "0 1" and early[1] == "1" + "x" * 400 + " 1"
    server.quit()
    server.wait_end()
    lines = server.lines("full.log")
    assert [int(re.match(r"\d+", line).group()) for line in lines] == list(range(100)) and all(line.endswith(" 1") for line in lines)


def test_a_fast_shutdown_ends_sessions(serve):
    """The last worker writes the lines; so does a process without a master."""
    for main in ("worker_processes 3;", "master_process off;"):
        server = serve(CONF, main=main)
        assert server.get("/show?who=x").text == md5("x")
        server.stop()
        assert server.lines("a.log") == ["/show 32 " + md5("x")]


def test_without_a_master_a_reload_ends_timers(serve):
    """The timer of the former configuration fired in freed memory."""
    conf = """session_log_zone a.log zone=a:64k timeout=300ms md5=$binary_remote_addr;
              server { listen 127.0.0.1:@PORT@; session_log a; return 200 %s; }"""
    server = serve(conf % "old", main="master_process off;")
    assert server.get("/old").text == "old"
    server.configure(conf % "new", main="master_process off;")
    server.signal("reload")
    until(lambda: server.get("/new").text == "new", server.evidence)
    assert "GET /old HTTP" in server.wait_lines("a.log", 1)[0]
    assert server.get("/new").text == "new" and server.wait_lines("a.log", 2)


@pytest.mark.parametrize("lines, error", [
    ("session_log x;", 'session_log_zone "x" is unknown'),
    ("session_log_zone l zone=a:64k;", 'session_log_zone needs "zone=", and "id=" or "md5="'),
    ("session_log_zone l md5=$uri id=$uri;", 'session_log_zone needs "zone=", and "id=" or "md5="'),
    ("session_log_zone l zone=a:64k md5=$uri; session_log_zone l zone=a:64k md5=$uri;", 'session_log_zone "a" is duplicate'),
    ("session_log_zone l zone=a:4k md5=$uri;", 'zone "a" is too small'),
    ("session_log_zone l zone=a md5=$uri;", 'invalid zone size "a"'),
    ("session_log_zone l zone=a:64k md5=$uri timeout=0;", 'invalid timeout "0"'),
    ("session_log_zone l zone=a:64k md5=$uri timeout=x;", 'invalid timeout "x"'),
    ("session_log_zone l zone=a:64k md5=$uri format=none;", 'unknown session_log_format "none"'),
    ("session_log_zone l zone=a:64k md5=$uri other=1;", 'invalid parameter "other=1"'),
    ("session_log_zone l zone=a:64k md5=$nowhere;", 'unknown "nowhere" variable'),
    ("session_log_format combined x;", 'duplicate "log_format" name "combined"'),
    ("session_log_zone l zone=a:64k id=$uri; session_log a;", None)])
def test_values(tmp_path, lines, error):
    (tmp_path / "nginx.conf").write_text("events {} http { %s server { listen unix:x; } }" % lines)
    result = run_binary("-t", "-p", str(tmp_path), "-c", "nginx.conf", "-e", "stderr")
    assert (error or "syntax is ok") in result.stderr
