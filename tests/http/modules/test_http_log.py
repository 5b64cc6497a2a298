"""Access and error logs: buffers, compression, reopening, variables in paths, syslog, levels."""

import glob
import gzip
import os
import re
import socket

import pytest

from harness import Server, until

FORMAT = "log_format f '$status $request_uri';"


@pytest.fixture
def receiver():
    """A function that opens a syslog receiver (UDP, or a unix datagram path)."""
    sockets = []

    def open_socket(path=None):
        if path:
            made = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            made.bind(path)
            os.chmod(path, 0o666)
        else:
            made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            made.bind(("127.0.0.1", 0))
        made.settimeout(10)
        sockets.append(made)
        return made

    yield open_socket
    for made in sockets:
        made.close()


def test_lines_come_at_once_without_a_buffer(serve):
    server = serve(FORMAT + """
        access_log logs/a.log f;
        server { listen 127.0.0.1:@PORT@; return 200 "x"; }
    """)
    for number in range(3):
        server.get("/%d" % number)
        assert server.wait_lines("logs/a.log", number + 1)[-1] == "200 /%d" % number


def test_combined_format(serve):
    server = serve("""
        access_log logs/a.log;
        server { listen 127.0.0.1:@PORT@; return 200 "four"; }
    """)
    server.get("/x?y", "Referer: http://ref", "User-Agent: agent \"q\"",
               "Authorization: Basic dXNlcjpw")
    line = server.wait_lines("logs/a.log")[0]
    assert re.fullmatch(
        r'127\.0\.0\.1 - user \[\d\d/[A-Z][a-z][a-z]/\d{4}:\d\d:\d\d:\d\d [+-]\d{4}\] '
        r'"GET /x\?y HTTP/1\.1" 200 4 "http://ref" "agent \\x22q\\x22"', line), line


def test_buffer_holds_back_until_it_is_full(serve):
    server = serve(FORMAT + """
        access_log logs/a.log f buffer=1k;
        server { listen 127.0.0.1:@PORT@; return 200 "x"; }
    """)
    with server.client() as client:
        for number in range(10):
            client.request("/%d" % number)
        assert server.lines("logs/a.log") == []
        for number in range(10, 200):
            client.request("/%d" % number)
    seen = server.wait_lines("logs/a.log")
    assert seen == ["200 /%d" % number for number in range(len(seen))]
    server.quit()
    assert server.lines("logs/a.log") == ["200 /%d" % number for number in range(200)]


def test_flush_empties_the_buffer(serve):
    server = serve(FORMAT + """
        access_log logs/a.log f buffer=64k flush=150ms;
        server { listen 127.0.0.1:@PORT@; return 200 "x"; }
    """)
    server.get("/one")
    assert server.wait_lines("logs/a.log") == ["200 /one"]
    server.get("/two")
    assert server.wait_lines("logs/a.log", 2) == ["200 /one", "200 /two"]


def test_line_larger_than_the_buffer(serve):
    server = serve(FORMAT + """
        access_log logs/a.log f buffer=1k;
        server { listen 127.0.0.1:@PORT@; return 200 "x"; }
    """)
    long = "/" + "u" * 3000
    for target in ("/first", long, "/last"):
        server.get(target)
    server.quit()
    assert server.lines("logs/a.log") == ["200 /first", "200 " + long, "200 /last"]


def test_buffer_is_written_at_reopen_and_stop(serve):
    server = serve(FORMAT + """
        access_log logs/a.log f buffer=64k;
        server { listen 127.0.0.1:@PORT@; return 200 "x"; }
    """)
    server.get("/one")
    os.rename(server.path("logs/a.log"), server.path("logs/old.log"))
    server.signal("reopen")
    assert server.wait_lines("logs/old.log") == ["200 /one"]
    until(lambda: os.path.exists(server.path("logs/a.log")), "the new file")
    server.get("/two")
    server.stop()
    assert server.lines("logs/a.log") == ["200 /two"]


@pytest.mark.parametrize("level", ["", "=1", "=9"])
def test_gzip(serve, level):
    server = serve(FORMAT + """
        access_log logs/a.gz f gzip%s buffer=4k;
        server { listen 127.0.0.1:@PORT@; return 200 "x"; }
    """ % level)
    with server.client() as client:
        for number in range(1000):
            client.request("/%d" % number)
    server.quit()
    with gzip.open(server.path("logs/a.gz"), "rt") as source:
        assert source.read().split("\n")[:-1] == ["200 /%d" % number for number in range(1000)]


def test_gzip_with_flush(serve):
    server = serve(FORMAT + """
        access_log logs/a.gz f gzip flush=150ms;
        server { listen 127.0.0.1:@PORT@; return 200 "x"; }
    """)
    server.get("/one")
    until(lambda: os.path.getsize(server.path("logs/a.gz")), "something in the file")
    with gzip.open(server.path("logs/a.gz"), "rt") as source:
        assert source.read() == "200 /one\n"


def test_reopen_after_rename(serve):
    server = serve(FORMAT + """
        access_log logs/a.log f;
        error_log logs/e.log info;
        server { listen 127.0.0.1:@PORT@; root html; }
    """)
    server.get("/one")
    server.wait_lines("logs/a.log")
    for name in ("a", "e"):
        os.rename(server.path("logs/%s.log" % name), server.path("logs/%s.old" % name))
    server.signal("reopen")
    until(lambda: len(glob.glob(server.path("logs/*.log"))) == 2, "new files")

    def landed():
        server.get("/two")
        return "404 /two" in server.read("logs/a.log") and "/two" in server.read("logs/e.log")
    until(landed, "lines in the new files")
    assert "404 /one" in server.read("logs/a.old") and "html/one" in server.read("logs/e.old")


def test_lines_of_several_workers_do_not_mix(serve):
    server = serve(FORMAT + """
        access_log logs/a.log f;
        server { listen 127.0.0.1:@PORT@; return 200 "x"; }
    """, main="worker_processes 4;")
    clients = [server.client() for _ in range(20)]
    for number in range(10):
        for which, client in enumerate(clients):
            client.send("GET /%d-%d-%s HTTP/1.1\r\nHost: a\r\n\r\n"
                        % (which, number, "pad" * 100))
    for client in clients:
        for _ in range(10):
            client.response()
        client.close()
    lines = server.wait_lines("logs/a.log", 200)
    assert sorted(lines) == sorted("200 /%d-%d-%s" % (which, number, "pad" * 100)
                                   for which in range(20) for number in range(10))


def test_variables_in_the_path(serve):
    server = serve(FORMAT + """
        server { listen 127.0.0.1:@PORT@; root html; access_log logs/$arg_name.log f;
                 location / { return 200 "x"; } }
    """)
    for name in ("one", "two", "one"):
        server.get("/?name=" + name)
    assert server.wait_lines("logs/one.log", 2) == ["200 /?name=one"] * 2
    assert server.wait_lines("logs/two.log") == ["200 /?name=two"]


def test_variable_path_needs_the_root_directory(serve):
    """As documented: the server's root must exist, else no log is made."""
    server = serve(FORMAT + """
        server { listen 127.0.0.1:@PORT@; root nosuch; access_log logs/$arg_name.log f;
                 location / { return 200 "x"; } }
    """)
    server.get("/?name=one")
    server.wait_log(r"testing .*nosuch. existence failed")
    assert not os.path.exists(server.path("logs/one.log"))


def test_open_log_file_cache_keeps_the_file(serve):
    server = serve(FORMAT + """
        open_log_file_cache max=10 inactive=60s valid=60s min_uses=1;
        server { listen 127.0.0.1:@PORT@; root html; access_log logs/$arg_name.log f;
                 location / { return 200 "x"; } }
        server { listen 127.0.0.1:@PORT1@; root html; access_log logs/$arg_name.log f;
                 open_log_file_cache off; location / { return 200 "x"; } }
    """)
    server.get("/?name=kept")
    server.wait_lines("logs/kept.log")
    os.rename(server.path("logs/kept.log"), server.path("logs/moved.log"))
    server.get("/?name=kept")
    assert len(server.wait_lines("logs/moved.log", 2)) == 2
    server.get("/?name=fresh", port=server.port_of("PORT1"))
    server.wait_lines("logs/fresh.log")
    os.rename(server.path("logs/fresh.log"), server.path("logs/moved2.log"))
    server.get("/?name=fresh", port=server.port_of("PORT1"))
    assert len(server.wait_lines("logs/fresh.log", 1)) == 1


def test_reopen_empties_the_open_log_file_cache(serve):
    server = serve(FORMAT + """
        open_log_file_cache max=10 inactive=1h valid=1h;
        server { listen 127.0.0.1:@PORT@; root html; access_log logs/$arg_name.log f;
                 location / { return 200 "x"; } }
    """, events="")
    server.get("/?name=a")
    server.wait_lines("logs/a.log")
    os.rename(server.path("logs/a.log"), server.path("logs/a.old"))

    # A cached file is looked at again after `valid` at the latest; a reload starts without any.
    server.reload()

    def landed():
        server.get("/?name=a")
        return server.lines("logs/a.log")
    until(landed, "a line in a new file")


def test_syslog_udp(serve, receiver):
    inbox = receiver()
    server = serve(FORMAT + """
        access_log syslog:server=127.0.0.1:%d f;
        server { listen 127.0.0.1:@PORT@; return 200 "x"; }
    """ % inbox.getsockname()[1])
    server.get("/sys")
    line = inbox.recv(4096).decode()
    assert re.fullmatch(r"<190>[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d %s nginx: 200 /sys"
                        % re.escape(socket.gethostname()), line), line


def test_syslog_parameters(serve, receiver):
    inbox = receiver()
    server = serve(FORMAT + """
        access_log syslog:server=127.0.0.1:%d,%s f;
        server { listen 127.0.0.1:@PORT@; return 200 "x"; }
    """ % (inbox.getsockname()[1], "facility=local0,severity=debug,tag=my_tag,nohostname"))
    server.get("/sys")
    line = inbox.recv(4096).decode()
    assert re.fullmatch(r"<135>[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d my_tag: 200 /sys", line), line


def test_syslog_of_tengine(serve, receiver):
    """syslog:facility:level:target:port:ident, of both logs."""
    inbox = receiver()
    port = inbox.getsockname()[1]
    server = serve(FORMAT + """
        access_log syslog:user:warn:127.0.0.1:%d:my-app f;
        server { listen 127.0.0.1:@PORT@; error_log syslog:local0::127.0.0.1:%d error;
                 location / { return 200 "x"; }
                 location /none { access_log off; root html; } }
    """ % (port, port))
    server.get("/sys")
    line = inbox.recv(4096).decode()
    assert re.fullmatch(r"<12>[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d %s my-app: 200 /sys"
                        % re.escape(socket.gethostname()), line), line
    server.get("/none")
    line = inbox.recv(4096).decode()
    assert line.startswith("<131>") and " nginx: " in line and "[error]" in line, line


def test_syslog_unix_socket(serve, receiver, tmp_path):
    os.makedirs("/tmp/portunus-test-syslog", exist_ok=True)
    path = "/tmp/portunus-test-syslog/%d.sock" % os.getpid()
    inbox = receiver(path)
    try:
        server = serve(FORMAT + """
            access_log syslog:server=unix:%s,facility=user,severity=error f;
            server { listen 127.0.0.1:@PORT@; return 200 "x"; }
        """ % path)
        server.get("/sys")
        line = inbox.recv(4096).decode()
        assert line.startswith("<11>") and line.endswith("nginx: 200 /sys")
    finally:
        os.unlink(path)


def test_errors_are_in_the_default_file_too_when_the_main_level_names_syslog_alone(receiver):
    inbox = receiver()
    port = inbox.getsockname()[1]
    with Server(conf="""
        error_log syslog:server=127.0.0.1:%d info;
        pid nginx.pid; events {}
        http { server { listen @PORT@; root /none;
            location /own { error_log memory:64k; } } }
    """ % port, allow=["No such file"]) as server:
        server.get("/own")
        server.get("/main")
        server.wait_log(r"\[error\] .*GET /main")
        assert "/own" not in server.error_log and "[notice] " not in server.error_log.split("[error]")[1]


def test_syslog_error_log(serve, receiver):
    inbox = receiver()
    server = serve("""
        error_log syslog:server=127.0.0.1:%d error;
        server { listen 127.0.0.1:@PORT@; root html; }
    """ % inbox.getsockname()[1])
    server.get("/none")
    line = inbox.recv(4096).decode()
    assert re.match(r"<187>[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \S+ nginx: "
                    r"\d{4}/\d\d/\d\d \d\d:\d\d:\d\d \[error\] \d+#\d+: \*\d+ open\(\) "
                    r'".*/html/none" failed \(2: No such file or directory\), client: 127.0.0.1',
                    line), line


def test_syslog_receiver_that_is_not_there(serve):
    """Nobody listens: requests are served all the same, and lines come once somebody does."""
    server = serve(FORMAT + """
        access_log syslog:server=127.0.0.1:@PORT1@ f;
        server { listen 127.0.0.1:@PORT@; return 200 "x"; }
    """, allow=["syslog", "Connection refused"])
    for _ in range(5):
        assert server.get("/sys").text == "x"
    again = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    again.bind(("127.0.0.1", server.port_of("PORT1")))
    again.settimeout(0.2)

    def arrived():
        server.get("/late")
        try:
            return b"/late" in again.recv(4096)
        except socket.timeout:
            return False
    until(arrived, "a line after all")
    again.close()


def test_several_logs_and_conditions(serve):
    server = serve(FORMAT + """
        map $status $bad { default 0; ~^4 1; }
        access_log logs/all.log f;
        access_log logs/bad.log f if=$bad;
        server { listen 127.0.0.1:@PORT@; root html; location /x { return 200 "x"; } }
    """)
    server.get("/x")
    server.get("/none")
    assert server.wait_lines("logs/all.log", 2) == ["200 /x", "404 /none"]
    assert server.wait_lines("logs/bad.log") == ["404 /none"]


def test_request_time_and_bytes(serve):
    server = serve("""
        log_format f '$request_time|$bytes_sent|$body_bytes_sent|$msec|'
                     '$time_iso8601|$connection_time';
        access_log logs/a.log f;
        server { listen 127.0.0.1:@PORT@; return 200 "four"; }
    """)
    response = server.get("/")
    fields = server.wait_lines("logs/a.log")[0].split("|")
    assert re.fullmatch(r"\d+\.\d{3}", fields[0])
    assert int(fields[1]) == len(response.head) + 4 and fields[2] == "4"
    assert re.fullmatch(r"\d{10}\.\d{3}", fields[3])
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d\d:\d\d", fields[4])
    assert re.fullmatch(r"\d+\.\d{3}", fields[5])


def test_time_local_follows_tz(serve):
    server = serve("""
        log_format f '$time_local|$time_iso8601';
        access_log logs/a.log f;
        server { listen 127.0.0.1:@PORT@; return 200 "x"; }
    """, main="env TZ;", env=dict(os.environ, TZ="XYZ-05:30"))
    server.get("/")
    local, iso = server.wait_lines("logs/a.log")[0].split("|")
    assert local.endswith(" +0530") and iso.endswith("+05:30")


LEVELS = ["emerg", "alert", "crit", "error", "warn", "notice", "info", "debug"]


@pytest.mark.parametrize("level", ["crit", "error", "warn", "info"])
def test_error_log_level(serve, level):
    """An error and a warning of the same request: each log takes what its level allows."""
    server = serve("""
        server { listen 127.0.0.1:@PORT@; root html; error_log logs/e.log %s;
                 location /variable { return 200 "$never"; } location /m { set $never x; } }
    """ % level)
    server.get("/none")
    server.get("/variable")
    server.quit()
    text = server.read("logs/e.log")
    found = set(re.findall(r" \[(\w+)\] ", text))
    assert ("error" in found) == (level != "crit")
    assert all(LEVELS.index(seen) <= LEVELS.index(level) for seen in found), found


def test_error_log_line_format(serve):
    server = serve("""
        server { listen 127.0.0.1:@PORT@; server_name first second; root html; }
    """)
    server.get("/none?a=b", "Referer: http://ref/", host="second:80")
    line = server.wait_log(r".*html/none.*").group(0)
    pid = server.children()[0]
    assert re.fullmatch(
        r'\d{4}/\d\d/\d\d \d\d:\d\d:\d\d \[error\] %d#\d+: \*\d+ open\(\) "%s/html/none" failed '
        r'\(2: No such file or directory\), client: 127\.0\.0\.1, server: first, '
        r'request: "GET /none\?a=b HTTP/1\.1", host: "second:80", referrer: "http://ref/"'
        % (pid, re.escape(server.dir)), line), line


def test_error_log_line_is_bounded(serve):
    server = serve("""
        large_client_header_buffers 4 16k;
        server { listen 127.0.0.1:@PORT@; root html; }
    """)
    server.get("/none" + "x" * 8000)
    server.wait_log(r"File name too long|html/nonexxx")
    assert all(len(line) <= 4096 for line in server.lines("error.log"))


def test_control_bytes_do_not_forge_log_lines(serve):
    server = serve("""
        access_log logs/a.log;
        server { listen 127.0.0.1:@PORT@; root html; }
    """)
    server.get("/a%0A2026/01/01 00:00:00 [alert] forged")
    server.get("/b%0A2026", "User-Agent: x\ty")
    server.wait_lines("logs/a.log", 2)
    assert all(line.startswith("127.0.0.1 ") for line in server.lines("logs/a.log"))


def test_log_subrequest_off_and_internal_redirect(serve):
    """One line a request, with the location where it ended."""
    server = serve("""
        log_format f '$uri $request_uri';
        access_log logs/a.log f;
        server { listen 127.0.0.1:@PORT@; error_page 404 /e; root html;
                 location = /e { return 200 "e"; } }
    """)
    server.get("/none")
    assert server.wait_lines("logs/a.log") == ["/e /none"]


def test_full_disk_hurts_only_the_log(serve):
    server = serve("""
        access_log /dev/full;
        server { listen 127.0.0.1:@PORT@; return 200 "x"; }
    """, allow=["No space left", "/dev/full"])
    for _ in range(5):
        assert server.get("/").text == "x"
