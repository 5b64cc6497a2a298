"""limit_conn: what counts as under way, for how long, and over which processes."""

import os
import re
import signal
import struct

import pytest

from harness import binaries, run_binary, until
from harness.h2 import CANCEL, H2, HEADERS, RST_STREAM
from harness.workers import wait_workers

needs_portunus = pytest.mark.skipif("Portunus" not in binaries.version_text(binaries.under_test()),
                                    reason="not Portunus")

SERVER = """
    limit_conn_zone $binary_remote_addr zone=address:1m;
    limit_conn_zone $arg_k zone=key:%(size)s;
    add_header X-Status $limit_conn_status always;
    %(http)s
    server { listen 127.0.0.1:@PORT@; listen 127.0.0.1:@PORT1@ %(h2)s; %(server)s
        location / { limit_conn key 1; proxy_pass http://127.0.0.1:@PORT2@; }
        location /two { limit_conn key 2; proxy_pass http://127.0.0.1:@PORT2@; }
        location /eight { limit_conn key 8; proxy_pass http://127.0.0.1:@PORT2@; }
        location /file { limit_conn key 1; root html; }
        location /free { return 200 free; }
    }
    server { listen 127.0.0.1:@PORT2@; return 200 done; }
"""


def conf(server="", http="", size="1m", h2=""):
    return SERVER % {"server": server, "http": http, "size": size, "h2": h2}


class Held:
    """A request whose body is not whole yet, so that it is under way until finish() or close()."""

    def __init__(self, server, target="/?k=a"):
        self.client = server.client()
        self.client.send("POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nExpect: 100-continue\r\n\r\n"
                         % target)
        self.status = self.client.head().status  # 100 comes when all limits were asked

    def finish(self):
        self.client.send("x")
        response = self.client.response("POST")
        assert (response.status, response.text) == (200, "done")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.client.close()


def status(server, target="/?k=a"):
    return server.get(target).status


def wait_free(server, target="/?k=a"):
    until(lambda: status(server, target) == 200, "the count to go down")


# what is counted

def test_one_at_a_time(serve):
    server = serve(conf())
    with Held(server) as held:
        assert held.status == 100
        response = server.get("/?k=a")
        assert (response.status, response.header("X-Status")) == (503, "REJECTED")
        response = server.get("/?k=b")
        assert (response.status, response.header("X-Status")) == (200, "PASSED")
        assert server.get("/free").header("X-Status") is None
        held.finish()
        wait_free(server)
    server.wait_log(r'\[error\] \S+ \*\d+ limiting connections by zone "key", client: 127.0.0.1, server: , '
                    r'request: "GET /\?k=a HTTP/1.1", host: "localhost')


def test_number_is_of_the_place(serve):
    server = serve(conf())
    with Held(server, "/two?k=a"), Held(server, "/two?k=a") as second:
        assert (second.status, status(server, "/two?k=a"), status(server)) == (100, 503, 503)
        second.finish()
        wait_free(server, "/two?k=a")
        assert status(server) == 503


def test_empty_keys_are_not_counted(serve):
    server = serve(conf())
    with Held(server, "/"), Held(server, "/?k="):
        assert status(server, "/") == 200
        assert server.get("/?k=").header("X-Status") is None


@needs_portunus
def test_long_keys_are_counted(serve):
    """With nginx a client is free from the limit whose key has more than 255 bytes."""
    server = serve(conf())
    key = "/?k=" + "k" * 3000
    with Held(server, key):
        assert status(server, key) == 503
        assert status(server, key + "1") == 200


def test_idle_connections_are_not_counted(serve):
    server = serve(conf())
    with server.client() as client:
        assert client.request("/?k=a").status == 200
        wait_free(server)
        assert client.request("/?k=a").status == 200


def test_pipelined_requests_are_one_at_a_time(serve):
    server = serve(conf(), files={"html/file": "f" * 100})
    with server.client() as client:
        client.send("GET /file?k=a HTTP/1.1\r\nHost: a\r\n\r\n" * 20)
        assert [client.response().status for _ in range(20)] == [200] * 20
    wait_free(server)


def test_pipelined_behind_a_large_answer(serve):
    """The second request takes over what the first holds, and both are over at the end."""
    server = serve(conf(), files={"html/file": b"f" * 20000000})
    with server.client(rcvbuf=4096) as client:
        client.send("GET /file?k=a HTTP/1.1\r\nHost: a\r\n\r\nGET /?k=a HTTP/1.1\r\nHost: a\r\n\r\n")
        client.head()
        assert status(server) == 503
    wait_free(server)


@pytest.mark.parametrize("how", ["close", "reset"])
def test_client_that_goes_away(serve, how):
    server = serve(conf())
    held = Held(server)
    assert status(server) == 503
    getattr(held.client, how)()
    wait_free(server)


def test_answer_that_is_not_read(serve):
    """It is under way until its last byte was sent, and no longer when the client has gone."""
    server = serve(conf(), files={"html/file": b"f" * 20000000})
    with server.client(rcvbuf=4096) as client:
        client.send("GET /file?k=a HTTP/1.1\r\nHost: a\r\n\r\n")
        client.head()
        assert status(server) == 503
    wait_free(server)


def test_refused_bodies_give_back(serve):
    server = serve(conf("client_max_body_size 10;"))
    with server.client() as client:
        client.send("POST /?k=a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nff\r\n" + "x" * 255 + "\r\n")
        assert client.response("POST").status == 413
    wait_free(server)


# several limits, places inside places

SEVERAL = """
        location /both { limit_conn key 2; limit_conn address 1; proxy_pass http://127.0.0.1:@PORT2@;
            location /both/none { proxy_pass http://127.0.0.1:@PORT2@; }
            location /both/own { limit_conn key 2; proxy_pass http://127.0.0.1:@PORT2@; } }
"""


def test_each_limit_must_let_pass(serve):
    server = serve(conf(SEVERAL))
    with Held(server, "/both?k=a"):
        for _ in range(3):  # what was counted by the first limit is given back
            assert status(server, "/both?k=a") == 503
        assert status(server, "/both?k=b") == 503
        assert status(server, "/both/none?k=b") == 503
        assert status(server, "/both/own?k=a") == 200
        assert status(server, "/two?k=a") == 200
    wait_free(server, "/both?k=a")
    told = [re.search('by zone "(.*?)"', line)[1] for line in server.lines("error.log") if "limiting" in line]
    assert len(told) >= 5 and set(told) == {"address"}


REDIRECTS = """
        location /page { limit_conn key 1; error_page 503 =503 /inside; proxy_pass http://127.0.0.1:@PORT2@; }
        location /inside { limit_conn key 1; limit_conn address 1; proxy_pass http://127.0.0.1:@PORT2@; }
        location /missing { limit_conn key 1; error_page 404 /inside; root html; }
        location /sub { limit_conn address 1; addition_types *; add_before_body /inside; add_after_body /inside;
                        root html; }
        location /named { limit_conn key 1; error_page 503 @named; root html; }
        location @named { limit_conn key 1; return 200 named; }
"""


def test_a_request_is_counted_once(serve):
    """Redirects and subrequests inside are part of it."""
    server = serve(conf(REDIRECTS), files={"html/sub": "|", "html/named": ""})
    for _ in range(3):
        assert server.get("/missing?k=a").text == "done"
        assert server.get("/sub?k=a").text == "done|done"
    with Held(server):
        response = server.get("/page?k=a")
        assert (response.status, response.text, response.header("X-Status")) == (503, "done", "REJECTED")
        assert server.get("/named?k=a").text == "named"
    wait_free(server)


def test_dry_run(serve):
    server = serve(conf("location /dry { limit_conn_dry_run on; limit_conn key 1; limit_conn address 9;"
                        " proxy_pass http://127.0.0.1:@PORT2@; }"))
    with Held(server):
        response = server.get("/dry?k=a")
        assert (response.status, response.header("X-Status")) == (200, "REJECTED_DRY_RUN")
        response = server.get("/dry?k=b")
        assert (response.status, response.header("X-Status")) == (200, "PASSED")
    wait_free(server)
    server.wait_log(r'\[error\] .*limiting connections, dry run, by zone "key"')


@pytest.mark.parametrize("level", ["info", "notice", "warn", "error"])
def test_status_and_level(serve, level):
    server = serve(conf("limit_conn_status 429; limit_conn_log_level %s;" % level))
    with Held(server):
        assert status(server) == 429
    server.wait_log(r"\[%s\] .*limiting connections by zone" % level)


def test_variable_in_the_log(serve):
    server = serve(conf(http='log_format l "$request_uri $status $limit_conn_status"; access_log logs/l.log l;'))
    with Held(server) as held:
        assert status(server) == 503
        held.finish()
    wait_free(server)
    lines = server.wait_lines("logs/l.log", 3)
    assert "/?k=a 503 REJECTED" in lines and "/?k=a 200 PASSED" in lines


# HTTP/2

def stream_head(client, path):
    """Asks, and reads the head of the answer."""
    stream = client.request(path)
    client.until(lambda frame: frame.kind == HEADERS and frame.stream == stream)
    return stream, client.answers[stream].status


def test_streams_count_one_by_one(serve):
    server = serve(conf(h2="http2"), files={"html/file": "f" * 100})
    with H2(server.port_of("PORT1"), {4: 1}) as client:
        first, code = stream_head(client, "/file?k=a")
        assert code == 200
        assert stream_head(client, "/file?k=a")[1] == 503
        assert stream_head(client, "/file?k=b")[1] == 200
        client.send(RST_STREAM, 0, first, struct.pack("!I", CANCEL))
        third, code = stream_head(client, "/file?k=a")
        assert code == 200
        client.window(1000, third)
        assert client.answer(third).is_whole
        assert stream_head(client, "/file?k=a")[1] == 200
        assert status(server, "/file?k=a") == 503
    wait_free(server, "/file?k=a")


@needs_portunus
def test_full_zone(serve):
    """It refuses new keys, says so, and is of use again."""
    server = serve(conf(size="32k", h2="http2"), files={"html/file": "f" * 100})
    clients = [H2(server.port_of("PORT1"), {4: 0}) for _ in range(10)]
    try:
        answers = [stream_head(client, "/file?k=%d.%d" % (number, turn))[1]
                   for number, client in enumerate(clients) for turn in range(100)]
        taken = answers.index(503)
        assert taken >= 256 and set(answers[:taken]) == {200}
        assert status(server, "/file?k=new") == 503
        assert status(server, "/eight?k=0.0") == 200  # a key that is there needs no room
    finally:
        for client in clients:
            client.socket.close()
    wait_free(server, "/file?k=new")
    server.wait_log(r'\[crit\] .*no memory in limit_conn_zone "key", client: ')


# processes

def test_workers_count_together(serve):
    server = serve(conf(), main="worker_processes 3;")
    held = [Held(server, "/eight?k=a") for _ in range(8)]
    assert [one.status for one in held] == [100] * 8
    assert [Held(server, "/eight?k=a").status for _ in range(5)] == [503] * 5
    for one in held:
        one.finish()
    wait_free(server)


def test_reload_keeps_the_counts(serve):
    server = serve(conf())
    with Held(server) as held:
        server.reload()
        assert status(server) == 503
        held.finish()
        wait_free(server)


def test_reload_with_another_key_is_refused(serve):
    server = serve(conf(), allow=["uses the"])
    text = conf().replace("limit_conn_zone $arg_k", "limit_conn_zone $arg_other")
    with Held(server):
        server.configure(text)
        server.signal("reload")
        server.wait_log(r'\[emerg\] .*limit_conn_zone "key" uses the "\$arg_other" key '
                        r'while previously it used the "\$arg_k" key')
        assert status(server) == 503
        # Another size is another zone.
        server.configure(text.replace("zone=key:1m", "zone=key:2m"))
        server.reload()
        until(lambda: status(server, "/?other=1") == 200 and status(server) == 200, "the new zone")


@needs_portunus
def test_worker_that_dies_gives_back(serve):
    server = serve(conf(), allow=["exited on signal 9", "died while it changed"])
    held = [Held(server, "/two?k=a"), Held(server, "/two?k=a"), Held(server, "/?k=b")]
    assert [one.status for one in held] == [100] * 3
    worker = server.children()
    os.kill(worker[0], signal.SIGKILL)
    wait_workers(server, 1, without=worker)
    assert status(server, "/two?k=a") == 200
    with Held(server, "/two?k=a"), Held(server, "/two?k=a") as second:
        assert (second.status, status(server, "/two?k=a")) == (100, 503)
    assert status(server, "/?k=b") == 200


# configurations

@needs_portunus
def test_old_spelling(serve):
    server = serve("""
        limit_zone old $arg_k 1m;
        server { listen 127.0.0.1:@PORT@;
            location / { limit_conn old 1; proxy_pass http://127.0.0.1:@PORT2@; } }
        server { listen 127.0.0.1:@PORT2@; return 200 done; }
    """)
    with Held(server):
        assert (status(server), status(server, "/?k=b")) == (503, 200)


@needs_portunus
@pytest.mark.parametrize("line, words", [
    ("limit_zone one text 1m;", 'invalid variable name "text"'),
    ("limit_zone one $uri 1;", 'zone "zone=one:1" is too small'),
    ("limit_conn_zone $uri zone=one:1m; server { limit_conn_status 399; }", "between 400 and 599"),
])
def test_bad_configurations(tmp_path, line, words):
    (tmp_path / "c.conf").write_text("events { }\nhttp { %s }\n" % line)
    result = run_binary("-t", "-p", str(tmp_path), "-c", "c.conf", "-e", "stderr")
    assert result.returncode == 1 and words in result.stderr
