"""memc: a backend by script, and memcached itself where it is installed."""

import shutil
import socket
import subprocess

import pytest

from harness import Closed, ports, run_binary, until
from harness.backend import RawBackend
from harness.h2 import H2


LINES = "set $memc_cmd $arg_c; set $memc_key $arg_k;"


def conf(port, *locations, lines=LINES, server=""):
    return """upstream u { server 127.0.0.1:%d; keepalive 4; } server { listen 127.0.0.1:@PORT@; default_type text/plain; %s
        location / { %s memc_pass u; } location /open { return 200 open; } %s }""" % (port, server, lines, " ".join(locations))


@pytest.mark.parametrize("query, lines, sent, answer, status, body", [
    ("c=set&k=a&v=hi", "set $memc_value $arg_v;", b"set a 0 0 2\r\nhi\r\n", b"STORED\r\n", 201, "STORED\r\n"),
    ("c=add&k=a%20b", "set $memc_value ''; set $memc_flags 7; set $memc_exptime 9;", b"add a%2520b 7 9 0\r\n\r\n", b"NOT_STORED\r\n", 200, "NOT_STORED\r\n"),
    ("c=delete&k=a", "", b"delete a\r\n", b"DELETED\r\n", 200, "DELETED\r\n"),
    ("c=delete&k=a", "", b"delete a\r\n", b"NOT_FOUND\r\n", 404, None),
    ("c=incr&k=a", "set $memc_value 5;", b"incr a 5\r\n", b"12\r\n", 201, "12\r\n"),
    ("c=decr&k=a", "set $memc_value 5;", b"decr a 5\r\n", b"NOT_FOUND\r\n", 404, None),
    ("c=flush_all", "set $memc_exptime 3;", b"flush_all 3\r\n", b"OK\r\n", 200, "OK\r\n"),
    ("c=version", "", b"version\r\n", b"VERSION 1.6\r\n", 200, "VERSION 1.6\r\n"),
    ("c=stats", "", b"stats\r\n", b"STAT a 1\r\nSTAT b 2\r\nEND\r\n", 200, "STAT a 1\r\nSTAT b 2\r\nEND\r\n"),
    ("c=get&k=a", "", b"get a\r\n", b"VALUE a 0 5\r\nhello\r\nEND\r\n", 200, "hello"),
    ("k=a", "", b"get a\r\n", b"END\r\n", 404, None),
    ("c=set&k=a", "set $memc_value x;", b"set a 0 0 1\r\nx\r\n", b"SERVER_ERROR out of memory\r\n", 502, "SERVER_ERROR out of memory\r\n"),
])
def test_commands(serve, query, lines, sent, answer, status, body):
    backend = RawBackend([answer, [answer[i:i + 1] for i in range(len(answer))]])
    server = serve(conf(backend.port, lines=LINES + lines))
    for _ in range(2):
        response = server.get("/?" + query)
        assert response.status == status and (body is None or response.text == body)
    assert backend.requests == [sent] * 2 and backend.connections == 1
    backend.close()


@pytest.mark.parametrize("answer", [b"ERROR\r\n", b"CLIENT_ERROR bad command line format\r\n"])
def test_a_link_on_which_a_command_was_not_understood_is_not_used_again(serve, answer):
    backend = RawBackend([answer], [b"STORED\r\n"])
    server = serve(conf(backend.port, lines=LINES + "set $memc_value x;"))
    assert server.get("/?c=set&k=a").status == 502
    assert server.get("/?c=set&k=a").status == 201
    assert backend.connections == 2
    backend.close()


@pytest.mark.parametrize("key", ["k" * 251, "%20" * 84, "k" * 3000])
def test_a_key_that_memcached_refuses_makes_no_commands_of_the_body(serve, key):
    backend = RawBackend([b"CLIENT_ERROR bad command line format\r\n"])
    server = serve(conf(backend.port, lines="set $memc_key $arg_k; memc_cmds_allowed get set;"))
    with server.client() as client:
        assert client.request("/?k=" + key, method="PUT", body=b"x\r\nflush_all\r\n").status == 400
    assert backend.requests == [] and server.get("/open").text == "open"
    server.wait_log("the \"\\$memc_key\" variable is too long: [0-9]+ bytes")
    backend.close()


def test_the_longest_key(serve):
    backend = RawBackend([b"STORED\r\n"])
    server = serve(conf(backend.port, lines=LINES + "set $memc_value x;"))
    assert server.get("/?c=set&k=" + "k" * 250).status == 201
    backend.close()


def test_methods(serve):
    backend = RawBackend([b"VALUE a 0 1\r\nx\r\nEND\r\n", b"STORED\r\n", b"STORED\r\n", b"DELETED\r\n"])
    server = serve(conf(backend.port, lines="set $memc_key a;"))
    with server.client() as client:
        for method, body in (("GET", None), ("PUT", b"one\r\nget b\r\n"), ("POST", b""), ("DELETE", None)):
            assert client.request("/", method=method, body=body).status < 300
        assert client.request("/", method="COPY").status == 400
    assert backend.requests == [b"get a\r\n", b"set a 0 0 12\r\none\r\nget b\r\n\r\n", b"add a 0 0 0\r\n\r\n", b"delete a\r\n"]
    server.wait_log(r"ngx_memc: \$memc_cmd variable not found for HTTP COPY requests")
    backend.close()


def test_what_is_refused(serve):
    server = serve(conf(1, "location /some { memc_cmds_allowed get set; set $memc_cmd $arg_c; set $memc_key a; memc_pass u; }",
                        "location /numbers { set $memc_cmd set; set $memc_key a; set $memc_value x; set $memc_flags $arg_f; set $memc_exptime $arg_e; memc_pass u; }",
                        "location /count { set $memc_cmd incr; set $memc_key a; set $memc_value $arg_v; memc_pass u; }"))
    assert server.get("/?c=GET&k=a").status == 400
    assert server.get("/?c=get").status == 400
    assert server.get("/some?c=version").status == 403
    for query in ("f=x", "f=-1", "e=x", "e=1%20noreply", "f=99999999999999999999"):
        assert server.get("/numbers?" + query).status == 400
    for query in ("f=4294967296", "e=9223372036854775808"):
        assert server.get("/numbers?" + query).status == 400
    for query in ("", "v=x", "v=-5"):
        assert server.get("/count?" + query).status == 400
    server.wait_log('variable "\\$memc_value" is invalid for incr/decr: -5')
    server.wait_log('ngx_memc: unknown \\$memc_cmd "GET"')
    server.wait_log('ngx_memc: memcached command "version" not allowed')


@pytest.mark.parametrize("answer", [b"VALUE b 0 1\r\nx\r\nEND\r\n", b"VALUE a x 1\r\n", b"VALUE a 0 -1\r\n", b"VALUE a 0 99999999999999999999\r\n",
                                    b"STORED\r\n", b"ERROR\r\n", b"END\n", b"\r\n", b"x" * 5000])
def test_what_is_no_answer(serve, answer):
    backend = RawBackend([answer])
    server = serve(conf(backend.port))
    assert server.get("/?k=a").status == 502
    server.wait_log("memcached sent invalid" if len(answer) < 4096 else "upstream sent too big header")
    backend.close()


@pytest.mark.parametrize("command, answer", [("get", b"VALUE a 0 5\r\nhe"), ("stats", b"STAT a 1\r\nSTAT"),
                                             ("stats", b"STAT a 1\r\n" + b"x" * 5000)])
def test_answers_that_break_off_are_not_whole(serve, command, answer):
    backend = RawBackend([answer])
    server = serve(conf(backend.port))
    with server.client() as client:
        with pytest.raises(Closed):
            client.request("/?k=a&c=" + command)
    assert server.get("/open").text == "open"
    backend.close()


def test_a_value_without_its_end_ends_the_link(serve):
    backend = RawBackend([b"VALUE a 0 5\r\nhelloEND\r\n", b"never"], [b"VALUE a 0 5\r\nworld\r\nEND\r\n"])
    server = serve(conf(backend.port))
    assert [server.get("/?k=a").text for _ in range(2)] == ["hello", "world"]
    server.wait_log("memcached sent invalid trailer")
    backend.close()


def test_flags(serve):
    backend = RawBackend([b"VALUE a 1264680563 1\r\nx\r\nEND\r\n"] * 3)
    server = serve(conf(backend.port, "location /flags { set $memc_key a; memc_flags_to_last_modified on; memc_pass u;"
                        " add_header X-F '$memc_flags $memc_flags_as_http_time'; }"))
    response = server.get("/flags")
    assert response.header("Last-Modified") == "Thu, 28 Jan 2010 12:09:23 GMT"
    assert response.header("X-F") == "1264680563 Thu, 28 Jan 2010 12:09:23 GMT"
    backend.close()


def test_bodies_in_files_and_too_large_ones(serve):
    backend = RawBackend([b"STORED\r\n"])
    server = serve(conf(backend.port, lines="set $memc_key a; client_body_buffer_size 1k; client_max_body_size 0;"))
    with server.client() as client:
        assert client.request("/", method="PUT", body=b"y" * 5000).status == 201
        assert backend.requests[0] == b"set a 0 0 5000\r\n" + b"y" * 5000 + b"\r\n"
        assert client.request("/", method="PUT", body=b"y" * (16 * 1024 * 1024 + 1)).status == 413
    backend.close()


def test_head_and_http2(serve):
    backend = RawBackend([b"VALUE a 0 5\r\nhello\r\nEND\r\n"] * 9)
    server = serve(conf(backend.port, server="http2 on;"))
    with server.client() as client:
        assert client.request("/?k=a", method="HEAD").header("Content-Length") == "5"
        assert client.request("/?k=a").text == "hello"
    with H2(server.port) as h2:
        assert h2.get("/?k=a").body == b"hello"
    backend.close()


def test_memcached_itself(serve):
    program = shutil.which("memcached")
    if program is None:
        pytest.skip("no memcached")
    port = ports.take()
    process = subprocess.Popen([program, "-l", "127.0.0.1", "-p", str(port.number), "-U", "0", "-u", "nobody"])

    def listens():
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port.number)) == 0
    until(listens, "memcached")
    server = serve(conf(port.number))
    with server.client() as client:
        assert client.request("/?k=key", method="PUT", body=b"one").text == "STORED\r\n"
        assert client.request("/?k=key", method="POST", body=b"two").text == "NOT_STORED\r\n"
        assert client.request("/?k=key&c=append", method="POST", body=b"+").status == 201
        assert client.request("/?k=key").text == "one+"
        assert client.request("/?k=key", method="DELETE").status == 200
        assert client.request("/?k=key").status == 404
        assert "STAT pid %d\r\n" % process.pid in client.request("/?c=stats").text
    process.terminate()
    process.wait(20)


@pytest.mark.parametrize("line, message", [
    ("memc_pass;", 'invalid number of arguments in "memc_pass" directive'),
    ("memc_cmds_allowed get blah;", 'memcached command "blah" not supported'),
    ("memc_flags_to_last_modified x;", 'invalid value "x" in "memc_flags_to_last_modified" directive'),
    ("memc_next_upstream foo;", 'invalid value "foo"'),
])
def test_bad_lines(tmp_path, line, message):
    (tmp_path / "logs").mkdir()
    path = tmp_path / "nginx.conf"
    path.write_text("events {} http { server { listen 127.0.0.1:8080; location / { %s } } }" % line)
    done = run_binary("-t", "-p", str(tmp_path), "-c", str(path))
    assert done.returncode == 1 and message in done.stderr
