"""debug_timer, debug_conn and debug_pool (Tengine's): what the worker that answers has open."""

import re

import pytest

from harness import run_binary, until

SITE = "server { listen 127.0.0.1:@PORT@; location /t { debug_timer; } location /c { debug_conn; } location /m { debug_pool; } location / { return 200; } %s }"
CONNECTION = re.compile(r"\*\d+ (client|backend) (\S+)( tls)?( idle)? sent:\d+ queued:\d+ unread:\d+")


def connections(server):
    lines = server.get("/c").text.splitlines()
    assert re.fullmatch(r"pid:\d+", lines[0]) and int(lines[0][4:]) in server.children()
    assert lines[1] == "connections:%d" % (len(lines) - 2)
    return [CONNECTION.fullmatch(line).groups() for line in lines[2:]]


def test_timers(serve):
    server = serve(SITE % "keepalive_timeout 1000s;")
    with server.client() as client:
        client.request("/")
        lines = server.get("/t").text.splitlines()
        assert re.fullmatch(r"pid:\d+", lines[0]) and lines[1] == "timer:%d" % (len(lines) - 2)
        times = [int(re.fullmatch(r"in (\d+) ms", line)[1]) for line in lines[2:]]
        assert any(900000 < time <= 1000000 for time in times)


def test_connections(serve):
    server = serve(SITE % "")
    with server.client() as one, server.client() as two:
        one.request("/")
        two.request("/")
        idle = until(lambda: [row for row in connections(server) if row[3]], "idle connections")
        assert {"127.0.0.1:%d" % client.socket.getsockname()[1] for client in (one, two)} <= {row[1] for row in connections(server)}
        assert all(row[0] == "client" for row in idle)
    until(lambda: len(connections(server)) == 1, "the end of the others")


def test_backends(serve, backend):
    server = serve(SITE % "location /p { proxy_pass http://127.0.0.1:@PORT1@; }" + " server { listen 127.0.0.1:@PORT1@; keepalive_timeout 100s; return 200; }"
                   " upstream k { server 127.0.0.1:@PORT1@; keepalive 4; } server { listen 127.0.0.1:@PORT2@; location / { proxy_pass http://k; proxy_http_version 1.1;"
                   " proxy_set_header Connection ''; } }")
    assert server.get("/", port=server.port_of("PORT2")).status == 200
    assert any(row[0] == "backend" and row[1] == "127.0.0.1:%d" % server.port_of("PORT1") for row in connections(server))


def pools(server):
    lines = server.get("/m").text.splitlines()
    assert re.fullmatch(r"pid:\d+", lines[0]) and int(lines[0][4:]) in server.children()
    rows = {}
    for line in lines[1:]:
        *numbers, name = re.fullmatch(r"size: *(\d+) num: *(\d+) cnum: *(\d+) lnum: *(\d+) (.+)", line).groups()
        rows[name] = list(map(int, numbers))
    assert lines[-1].endswith("[SUMMARY]") and rows["[SUMMARY]"] == [sum(column) for column in zip(*(rows[name] for name in rows if name != "[SUMMARY]"))]
    return rows


def test_pools(serve):
    server = serve(SITE % "location /large { client_body_buffer_size 64k; proxy_pass http://127.0.0.1:@PORT1@; }" + " server { listen 127.0.0.1:@PORT1@; return 200; }")
    before = pools(server)
    assert before["blocks"][0] == 4096 * before["blocks"][2] > 0
    client = server.client()
    client.send(b"POST /large HTTP/1.1\r\nHost: a\r\nContent-Length: 60000\r\n\r\nabc")
    until(lambda: pools(server)["large pieces"][3] > before["large pieces"][3], "the body's buffer")
    client.socket.close()
    until(lambda: pools(server)["large pieces"][3] == before["large pieces"][3], "its end")
    assert pools(server)["blocks"][1] > before["blocks"][1]


@pytest.mark.parametrize("path", ["/t", "/c", "/m"])
@pytest.mark.parametrize("method, status", [("HEAD", 200), ("POST", 405)])
def test_methods(serve, path, method, status):
    with serve(SITE % "").client() as client:
        answer = client.request(path, method=method)
        assert answer.status == status and (method != "HEAD" or answer.body == b"")


def test_many_connections_are_not_all_listed(serve):
    server = serve(SITE % "", events="worker_connections 2000;")
    clients = []
    try:
        for _ in range(1100):
            clients.append(server.client())
            clients[-1].__enter__()
        lines = until(lambda: (lambda seen: seen if int(seen[1][12:]) > 1100 else None)(server.get("/c").text.splitlines()), "all of them")
        assert len(lines) == 1002
    finally:
        for client in clients:
            client.__exit__(None, None, None)


@pytest.mark.parametrize("text", ["debug_timer;", "debug_conn;", "server { debug_conn on; }", "server { debug_timer; debug_timer; }"])
def test_faults(tmp_path, text):
    (tmp_path / "c").write_text("pid p; error_log stderr; events { }\nhttp {\n%s\n}\n" % text)
    assert run_binary("-p", str(tmp_path), "-c", "c", "-t", "-e", "stderr").returncode == 1
