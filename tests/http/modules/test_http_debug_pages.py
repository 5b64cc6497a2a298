"""debug_timer, debug_conn and debug_pool (Tengine's): what the worker that answers has open."""

import re

import pytest

from harness import run_binary, until

SITE = "server { listen 127.0.0.1:@PORT@; location /t { debug_timer; } location /c { debug_conn; } location /m { debug_pool; } location / { return 200; } %s }"
BLOCK = re.compile(r"""--------- \[(\d+)\] --------
conns\[i\]: \d+
      fd: (\d+)
    addr: (\S+)
    sent: \d+
  action: (.+)
 handler: r:[0-9A-F]{16} w:[0-9A-F]{16}
requests: (\d+)
poolsize: \d+
(\*{9} request \*{6}
     uri: (.*)
 handler: r:[0-9A-F]{16} w:[0-9A-F]{16}
startsec: \d+
poolsize: \d+
)?""")


TIMER = re.compile(r"""--------- \[(\d+)\] --------
timers\[i\]: [0-9A-F]{16}
    timer: (\d+)
       ev: [0-9A-F]{16}
     data: [0-9A-F]{16}
  handler: [0-9A-F]{16}
   action: .*
""")


def connections(server):
    """(address, action, requests, URI) of each but the listening ones."""
    head, rest = re.fullmatch(r"(pid:\d+\nconnections:\d+\n)(.*)", server.get("/c").text, re.S).groups()
    blocks = [match.groups() for match in BLOCK.finditer(rest)]
    assert "".join(match.group() for match in BLOCK.finditer(rest)) == rest and [int(block[0]) for block in blocks] == list(range(1, len(blocks) + 1))
    assert int(head.split("\n")[0][4:]) in server.children() and head.split("\n")[1] == "connections:%d" % len(blocks)
    listening = [block for block in blocks if block[3] == "(null: listening)"]
    assert ("127.0.0.1:%d" % server.port) in {block[2] for block in listening}
    return [(block[2], block[3], int(block[4]), block[6]) for block in blocks if block not in listening]


def test_timers(serve):
    server = serve(SITE % "keepalive_timeout 1000s;")
    with server.client() as client:
        client.request("/")
        head, rest = re.fullmatch(r"(pid:\d+\ntimer:\d+\n)(.*)", server.get("/t").text, re.S).groups()
        blocks = list(TIMER.finditer(rest))
        assert "".join(block.group() for block in blocks) == rest and [int(block[1]) for block in blocks] == list(range(len(blocks)))
        assert head.endswith("timer:%d\n" % len(blocks))
        times = [int(block[2]) for block in blocks]
        assert any(900000 < time <= 1000000 for time in times)


def test_connections(serve):
    server = serve(SITE % "")
    with server.client() as one, server.client() as two:
        one.request("/")
        two.request("/")
        two.request("/")
        idle = until(lambda: [row for row in connections(server) if row[1] == "keepalive"], "idle connections")
        assert {("127.0.0.1", "keepalive", 1), ("127.0.0.1", "keepalive", 2)} <= {row[:3] for row in connections(server)} and idle
    until(lambda: not any(row[1] == "keepalive" for row in connections(server)), "the end of the others")
    assert any(row[2] == 1 and re.fullmatch("http://[^/]+/c", row[3] or "") for row in connections(server))


def test_backends(serve, backend):
    server = serve(SITE % "location /p { proxy_pass http://127.0.0.1:@PORT1@; }" + " server { listen 127.0.0.1:@PORT1@; keepalive_timeout 100s; return 200; }"
                   " upstream k { server 127.0.0.1:@PORT1@; keepalive 4; } server { listen 127.0.0.1:@PORT2@; location / { proxy_pass http://k; proxy_http_version 1.1;"
                   " proxy_set_header Connection ''; } }")
    assert server.get("/", port=server.port_of("PORT2")).status == 200
    assert any(row[1] == "(null: backend)" and row[0] == "127.0.0.1:%d" % server.port_of("PORT1") for row in connections(server))


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


@pytest.mark.one_server
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
        assert sum(line.startswith("-----") for line in lines) == 1000
    finally:
        for client in clients:
            client.__exit__(None, None, None)


@pytest.mark.parametrize("text", ["debug_timer;", "debug_conn;", "server { debug_conn on; }", "server { debug_timer; debug_timer; }"])
def test_faults(tmp_path, text):
    (tmp_path / "c").write_text("pid p; error_log stderr; events { }\nhttp {\n%s\n}\n" % text)
    assert run_binary("-p", str(tmp_path), "-c", "c", "-t", "-e", "stderr").returncode == 1
