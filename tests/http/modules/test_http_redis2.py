"""redis2: a backend by script, and Redis itself where it is installed."""

import shutil
import subprocess

import pytest

from harness import Closed, ports, run_binary, until
from harness.backend import RawBackend
from harness.h2 import H2


def conf(port, *locations, http="", server="", pass_to=None):
    return """%s upstream u { server 127.0.0.1:%d; keepalive 4; } server { listen 127.0.0.1:@PORT@; default_type text/plain; %s
        location / { %s redis2_pass %s; } %s }""" % (http, port, server, locations[0], pass_to or "u", " ".join(locations[1:]))


def test_queries_and_answers(serve):
    backend = RawBackend([b"$5\r\nhello\r\n"])
    server = serve(conf(backend.port, "redis2_query get $arg_k;"))
    response = server.get("/?k=a%20b")
    assert response.status == 200 and response.text == "$5\r\nhello\r\n" and response.header("Content-Type") == "text/plain"
    assert backend.requests == [b"*2\r\n$3\r\nget\r\n$5\r\na%20b\r\n"]
    backend.close()


def test_values_with_line_ends_are_values(serve):
    backend = RawBackend([b"+OK\r\n+OK\r\n"])
    server = serve(conf(backend.port, "redis2_query set k $request_body; redis2_query set e '';"))
    with server.client() as client:
        assert client.request("/", method="POST", body=b"v\r\n*1\r\n$8\r\nflushall\r\n").text == "+OK\r\n+OK\r\n"
    assert backend.requests == [b"*3\r\n$3\r\nset\r\n$1\r\nk\r\n$21\r\nv\r\n*1\r\n$8\r\nflushall\r\n\r\n*3\r\n$3\r\nset\r\n$1\r\ne\r\n$0\r\n\r\n"]
    backend.close()


def test_answers_in_pieces(serve):
    answer = b"*3\r\n$2\r\nab\r\n$-1\r\n*2\r\n:1\r\n+x\r\n-ERR no\r\n"
    backend = RawBackend([[answer[i:i + 1] for i in range(len(answer))]] * 2)
    server = serve(conf(backend.port, "redis2_query a; redis2_query b;"))
    for _ in range(2):
        assert server.get("/").body == answer
    assert backend.connections == 1
    backend.close()


def test_links_are_kept_behind_known_queries_alone(serve):
    backend = RawBackend([b"+OK\r\n"] * 50)
    server = serve(conf(backend.port, "redis2_query get $arg_k;",
                        "location /command { redis2_query $arg_k x; redis2_pass u; }",
                        "location /select { redis2_query SELECT 1; redis2_pass u; }",
                        "location /asking { redis2_query Asking; redis2_pass u; }",
                        "location /raw { redis2_raw_query $arg_k; redis2_pass u; }",
                        r"location /literal { redis2_literal_raw_query 'ping\r\n'; redis2_pass u; }"))
    for _ in range(3):
        assert server.get("/?k=1").text == "+OK\r\n"
    assert backend.connections == 1
    for target in ("/command?k=get", "/select", "/asking", "/raw?k=ping", "/literal"):
        before = backend.connections
        for _ in range(2):
            assert server.get(target).text == "+OK\r\n"
        assert backend.connections >= before + 1, target
        assert server.get("/?k=1").text == "+OK\r\n"
    assert backend.requests[-1].endswith(b"$1\r\n1\r\n")
    backend.close()


def test_more_than_was_asked_for_is_nobodys(serve):
    backend = RawBackend([b"+OK\r\n+stolen\r\n"], [b"+second\r\n"])
    server = serve(conf(backend.port, "redis2_query get k;"))
    assert server.get("/").text == "+OK\r\n"
    assert server.get("/").text == "+second\r\n"
    backend.close()


@pytest.mark.parametrize("answer", [b"HTTP/1.1 400 x\r\n\r\n", b"\r\n", b"OK\r\n", b"\0"])
def test_what_is_no_answer(serve, answer):
    backend = RawBackend([answer])
    server = serve(conf(backend.port, "redis2_query get k;"))
    assert server.get("/").status == 502
    server.wait_log("redis2 sent invalid response")
    backend.close()


@pytest.mark.parametrize("answer", [b"$3\r\nabcd\r\n", b"*1\r\nx", b"$-5\r\n", b"$10\r\nabc", b"*2\r\n+a\r\n"])
def test_answers_that_break_off_are_not_whole(serve, answer):
    backend = RawBackend([answer])
    server = serve(conf(backend.port, "redis2_query get k;", "location /open { return 200 open; }"))
    with server.client() as client:
        with pytest.raises(Closed):
            client.request("/")
    assert server.get("/open").text == "open"
    backend.close()


def test_head_and_http2(serve):
    backend = RawBackend([b"$5\r\nhello\r\n"] * 9)
    server = serve(conf(backend.port, "redis2_query get k;", server="http2 on;"))
    with server.client() as client:
        assert client.request("/", method="HEAD").status == 200
        assert client.request("/").text == "$5\r\nhello\r\n"
    with H2(server.port) as h2:
        assert h2.get("/").body == b"$5\r\nhello\r\n"
    backend.close()


def test_a_dead_server_and_a_slow_one(serve):
    unused = ports.take()
    server = serve(conf(unused.number, "redis2_query get k;"))
    assert server.get("/").status == 502
    server.wait_log('upstream: "redis2://127.0.0.1:%d' % unused.number)
    backend = RawBackend([[], b""])
    server = serve(conf(backend.port, "redis2_query get k; redis2_read_timeout 100ms;"))
    assert server.get("/").status == 504
    backend.close()


def test_the_number_of_raw_queries(serve):
    backend = RawBackend([b"+a\r\n+b\r\n"] * 9)
    server = serve(conf(backend.port, r"redis2_raw_queries $arg_n 'ping\r\nping\r\n';", "location /none { redis2_pass u; }"))
    assert server.get("/?n=2").text == "+a\r\n+b\r\n"
    for bad in ("", "0", "x", "-1", "99999999"):
        assert server.get("/?n=" + bad).status == 500
    server.wait_log("invalid number of redis2 queries")
    assert server.get("/none").status == 500
    server.wait_log("there is no redis2 query")
    backend.close()


@pytest.fixture(name="redis")
def fixture_redis(tmp_path):
    program = shutil.which("redis-server")
    if program is None:
        pytest.skip("no redis-server")
    port = ports.take()
    process = subprocess.Popen([program, "--port", str(port.number), "--bind", "127.0.0.1", "--save", "", "--dir", str(tmp_path)],
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    until(lambda: b"Ready to accept" in process.stdout.readline(), "redis")
    yield port.number
    process.terminate()
    process.wait(20)


def test_redis_itself(serve, redis):
    server = serve(conf(redis, "redis2_query set k $arg_v; redis2_query get k; redis2_query lpush l 1 2; redis2_query lrange l 0 -1; redis2_query nothing;",
                        "location /get { redis2_query get $arg_k; redis2_pass 127.0.0.1:%d; }" % redis,
                        "location /name { set $to 127.0.0.1:%d; redis2_query ping; redis2_pass $to; }" % redis))
    assert server.get("/?v=hello").text.startswith("+OK\r\n$5\r\nhello\r\n:2\r\n*2\r\n$1\r\n2\r\n$1\r\n1\r\n-ERR unknown command")
    assert server.get("/get?k=k").text == "$5\r\nhello\r\n"
    assert server.get("/get?k=none").text == "$-1\r\n"
    assert server.get("/name").text == "+PONG\r\n"
    assert len(server.get("/?v=" + "x" * 3000).text) > 3000


@pytest.mark.parametrize("line, message", [
    ("redis2_pass;", 'invalid number of arguments in "redis2_pass" directive'),
    ("redis2_query;", 'invalid number of arguments in "redis2_query" directive'),
    ("redis2_raw_queries 1;", 'invalid number of arguments in "redis2_raw_queries" directive'),
    ("redis2_query get k; redis2_raw_query x;", "exclude each other"),
    ("redis2_query get $nosuch;", 'unknown "nosuch" variable'),
    ("redis2_next_upstream foo;", 'invalid value "foo"'),
])
def test_bad_lines(tmp_path, line, message):
    (tmp_path / "logs").mkdir()
    path = tmp_path / "nginx.conf"
    path.write_text("events {} http { server { listen 127.0.0.1:8080; location / { %s } } }" % line)
    done = run_binary("-t", "-p", str(tmp_path), "-c", str(path))
    assert done.returncode == 1 and message in done.stderr
