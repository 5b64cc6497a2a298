"""fastcgi_pass: records as the protocol has them, broken ones, kept and shared connections, and real applications behind
php-fpm, php-cgi and libfcgi."""

import contextlib
import hashlib
import os
import select
import socket
import threading

import pytest

import fastcgi_backends
from cgi_backends import Program
from fastcgi_backends import (HEAD, STDERR, STDOUT, UNKNOWN_TYPE, Scripted, Responder, answer, end,
                              hang_up, record, values)
from harness.wait import until

PLACE = """
    server { listen 127.0.0.1:@PORT@;
        location / { fastcgi_pass 127.0.0.1:%d; fastcgi_param QUERY_STRING $query_string; %s }
    }
"""


def place(backend, more=""):
    return PLACE % (backend.port, more)


def test_pass_header_of_what_was_not_hidden_takes_nothing_away(serve):
    """Server and Date of a FastCGI backend are passed on anyway; without them the server has its own."""
    heads = [HEAD, b"Server: its own\r\n" + HEAD]
    with Scripted(lambda request, conn: answer(head=heads.pop(0))) as backend:
        server = serve(place(backend, "fastcgi_pass_header Server; fastcgi_pass_header Date;"))
        response = server.get("/")
        assert response.header("Date") and response.header("Server") != "its own"
        assert server.get("/").header("Server") == "its own"


# ---- what is sent

def test_request(serve):
    with Scripted(answer()) as backend:
        server = serve(place(backend, """
            fastcgi_keep_conn off;
            fastcgi_param FIXED fixed; fastcgi_param EMPTY ""; fastcgi_param GONE "" if_not_empty;
            fastcgi_param A $arg_a; fastcgi_param B $arg_b if_not_empty;
            fastcgi_param C "<$arg_a-$arg_b>"; fastcgi_param D "$arg_b$arg_b" if_not_empty;
            fastcgi_param HTTP_X_OWN own; fastcgi_param HTTP_PROXY ""; fastcgi_param HTTP_X_B $arg_b;"""))
        response = server.get("/?a=1&b=", "X-Own: theirs", "Proxy: p", "X-B: b", "X-Twice: 1", "x-twice: 2",
                              "Cookie: c=1", "Cookie: d=2")
        assert response.status == 200 and response.text == "hello"
        assert response.header("Content-Type") == "text/plain"
        request = backend.requests[0]
        assert (request.id, request.role, request.flags, request.asks) == (1, 1, 0, False)
        configured, fields = request.pairs[:7], request.pairs[7:]
        assert configured == [("QUERY_STRING", "a=1&b="), ("FIXED", "fixed"), ("EMPTY", ""),
                              ("A", "1"), ("C", "<1->"), ("HTTP_X_OWN", "own"), ("HTTP_X_B", "")]
        assert sorted(fields) == [("HTTP_COOKIE", "c=1; d=2"), ("HTTP_HOST", "localhost"),
                                  ("HTTP_X_TWICE", "1, 2")]
        assert request.body == b""


def test_values_of_any_length(serve):
    """127 and 128 bytes have lengths of different sizes; 65,535 bytes fit one record."""
    with Scripted(answer()) as backend:
        name = "N" * 200
        server = serve(place(backend, """
            fastcgi_param A $arg_a; fastcgi_param B "<$arg_a>"; fastcgi_param %s $arg_a;
            fastcgi_param C $arg_a$arg_a$arg_a$arg_a$arg_a$arg_a$arg_a$arg_a$arg_a$arg_a;
            fastcgi_param Z z;""" % name))
        for size in (0, 1, 3, 4, 7, 8, 15, 16, 31, 32, 33, 124, 125, 126, 127, 128, 129, 7000):
            text = ("abcdefghij" * 700)[:size]
            assert server.get("/?a=" + text).status == 200
            params = backend.requests[-1].params
            assert params["A"] == text and params["B"] == "<%s>" % text and params[name] == text
            assert params["C"] == text * 10 and params["Z"] == "z"
        assert sum(kind == 4 for kind, _, _ in backend.requests[-1].records) == 3
        assert sum(kind == 4 for kind, _, _ in backend.requests[0].records) == 2


def test_parameters_are_inherited_as_a_whole(serve):
    with Scripted(answer()) as backend:
        server = serve("""
            fastcgi_param OUTER 1;
            server { listen 127.0.0.1:@PORT@; fastcgi_pass_request_headers off;
                location / { fastcgi_pass 127.0.0.1:%d; }
                location /own { fastcgi_pass 127.0.0.1:%d; fastcgi_param INNER 2;
                                fastcgi_param HTTP_HOST mine; }
                location /none { fastcgi_pass 127.0.0.1:%d; fastcgi_param X "" if_not_empty; }
            }
        """ % (backend.port, backend.port, backend.port))
        for uri, wanted in (("/", [("OUTER", "1"), ("HTTP_HOST", "localhost")]),
                            ("/own", [("INNER", "2"), ("HTTP_HOST", "mine")]),
                            ("/none", [("HTTP_HOST", "localhost")])):
            assert server.get(uri).status == 200
            assert backend.requests[-1].pairs == wanted


@pytest.mark.parametrize("uri, script, path_info", [
    ("/a/x.php/b/c", "/a/x.php", "/b/c"), ("/a/x.php", "/a/x.php", ""), ("/a/", "/a/ix.php", ""),
    ("/a/x", "/a/x", "")])
def test_script_name_and_path_info(serve, uri, script, path_info):
    with Scripted(answer()) as backend:
        server = serve("""
            server { listen 127.0.0.1:@PORT@; root /r;
                location ~ ^/(a)/ { fastcgi_split_path_info ^(.+?\\.php)(.*)$; fastcgi_index ix.php;
                    fastcgi_pass 127.0.0.1:%d;
                    fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name;
                    fastcgi_param PATH_INFO $fastcgi_path_info;
                    fastcgi_param PATH_TRANSLATED $document_root$fastcgi_path_info;
                    fastcgi_param CAPTURE $1; }
            }
        """ % backend.port)
        assert server.get(uri).status == 200
        params = backend.requests[0].params
        assert params["SCRIPT_FILENAME"] == "/r" + script and params["PATH_INFO"] == path_info
        assert params["PATH_TRANSLATED"] == "/r" + path_info and params["CAPTURE"] == "a"


@pytest.mark.parametrize("buffering", ["on", "off"])
@pytest.mark.parametrize("in_file", ["off", "on"])
def test_bodies(serve, buffering, in_file):
    """In memory, in a file, streamed: STDIN holds all of it in records that keep the limit."""
    with Scripted(lambda request, conn: answer(hashlib.sha256(request.body).hexdigest().encode())) \
            as backend:
        server = serve(place(backend, """fastcgi_request_buffering %s; client_max_body_size 10m;
            client_body_in_file_only %s; fastcgi_param CONTENT_LENGTH $content_length;"""
                             % (buffering, in_file)))
        with server.client() as client:
            for size in (0, 1, 4096, 32768, 32769, 70000, 1000000):
                body = bytes(n * 7 & 255 for n in range(997)) * (size // 997 + 1)
                response = client.request(method="POST", body=body[:size])
                assert response.text == hashlib.sha256(body[:size]).hexdigest()
                request = backend.requests[-1]
                assert request.params["CONTENT_LENGTH"] == str(size)
                assert request.body == body[:size]
                assert all(len(content) <= 65535 for _, _, content in request.records)
            client.send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
                        "3\r\nabc\r\n4\r\ndefg\r\n0\r\n\r\n")
            assert client.response().text == hashlib.sha256(b"abcdefg").hexdigest()
            is_streamed = buffering == "off" and in_file == "on"    # nothing is read before it goes
            assert backend.requests[-1].params["CONTENT_LENGTH"] == ("" if is_streamed else "7")


def test_body_is_not_passed(serve):
    with Scripted(answer()) as backend:
        server = serve(place(backend, "fastcgi_pass_request_body off;"))
        with server.client() as client:
            assert client.request(method="POST", body="abc").status == 200
        assert backend.requests[0].body == b""


# ---- what comes back

def test_records_cut_anywhere(serve):
    """The same answer, byte by byte and in two parts at each place."""
    data = record(STDERR, b"words\n", padding=2) + record(STDOUT, b"Status: 404 Gone Aw", padding=1) \
        + record(STDOUT, b"ay\r\nX-A: b\r\n") + record(STDOUT, b"\r") + record(STDOUT, b"\nbo") \
        + record(STDERR, b"more") + record(STDOUT, b"dy", padding=255) + record(STDOUT) + end()
    state = {"at": 0}

    def reply(request, conn):
        at = state["at"]
        parts = [data[:at], data[at:]] if at else [data[n:n + 1] for n in range(len(data))]
        for part in parts:
            conn.sendall(part)
            # Nothing says when a part was read; a look at the unsent bytes is enough of a pause.
            with contextlib.suppress(OSError):
                conn.getpeername()

    with Scripted(reply) as backend:
        server = serve(place(backend))
        with server.client() as client:
            for at in range(0, len(data) - 1, 7):
                state["at"] = at
                response = client.request()
                assert response.status == 404 and response.reason == "Gone Away"
                assert response.header("X-A") == "b" and response.body == b"body"
        server.wait_log('FastCGI sent in stderr: "words" while reading response header from upstream')


BROKEN = [
    ("version", record(STDOUT, HEAD, version=2), "upstream sent unsupported FastCGI protocol version: 2"),
    ("id", record(STDOUT, HEAD, request=2), "upstream sent unexpected FastCGI request id low byte: 2"),
    ("id 0", record(STDOUT, HEAD, request=0), "upstream sent unexpected FastCGI request id low byte: 0"),
    ("type", record(99, b"x"), "upstream sent invalid FastCGI record type: 99"),
    ("begin", record(1, b"x" * 8), "upstream sent invalid FastCGI record type: 1"),
    ("end first", end(), "upstream sent unexpected FastCGI record: 3"),
    ("refused", end(protocol_status=2), "upstream sent unexpected FastCGI record: 3"),
    ("stdout ends first", record(STDOUT, b"A: b\r\n") + record(STDOUT) + end(),
     "upstream prematurely closed FastCGI stdout"),
    ("nothing", b"", "upstream prematurely closed connection"),
    ("half a header", b"\1\6\0", "upstream prematurely closed connection"),
    ("half a head", record(STDOUT, b"A: b\r\n"), "upstream prematurely closed connection"),
    ("no head", record(STDOUT, b"hello\r\n\r\n") + end(), 'upstream sent invalid header: "hello'),
    ("big head", record(STDOUT, b"A: " + b"b" * 9000 + b"\r\n\r\n") + end(),
     "upstream sent too big header"),
    ("two lengths", record(STDOUT, b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nab") + end(),
     "upstream sent duplicate header line"),
    ("status", record(STDOUT, b"Status: 2x0\r\n\r\n") + end(), "upstream sent invalid status"),
]


@pytest.mark.parametrize("data, message", [row[1:] for row in BROKEN], ids=[row[0] for row in BROKEN])
def test_broken_before_the_head(serve, data, message):
    def reply(request, conn):
        conn.sendall(data)
        hang_up(conn)

    with Scripted(reply) as backend:
        server = serve(place(backend, "fastcgi_buffer_size 4k; fastcgi_keep_conn on;"))
        assert server.get("/").status == 502
        server.wait_log(message + '.* while reading response header from upstream, .*upstream: '
                        '"fastcgi://127.0.0.1:%d"' % backend.port)


CUT = [
    ("version", record(STDOUT, b"x", version=2), "unsupported FastCGI protocol version: 2"),
    ("id", record(STDOUT, b"x", request=258), "unexpected FastCGI request id high byte: 1"),
    ("type", record(77, b"x"), "invalid FastCGI record type: 77"),
    ("end of the connection", b"", "upstream prematurely closed connection"),
    ("half a record", record(STDOUT, b"abcdef")[:-2], "upstream prematurely closed connection"),
]


@pytest.mark.parametrize("buffering", ["on", "off"])
@pytest.mark.parametrize("data, message", [row[1:] for row in CUT], ids=[row[0] for row in CUT])
def test_broken_in_the_body(serve, data, message, buffering):
    """The client sees that its answer is not whole, and the connection is not used again."""
    broken = {"is": True}

    def reply(request, conn):
        if not broken["is"]:
            return answer()
        conn.sendall(record(STDOUT, HEAD + b"part") + data)
        hang_up(conn)
        return None

    with Scripted(reply) as backend:
        server = serve(place(backend, "fastcgi_keep_conn on; fastcgi_buffering %s;" % buffering))
        with server.client() as client:
            client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            assert b"\r\n0\r\n" not in client.rest_or_reset()
        server.wait_log(message)
        broken["is"] = False
        assert server.get("/").text == "hello"


def test_ends_without_end_request(serve):
    """Where the connection is not to be kept its end is an end."""
    def reply(request, conn):
        conn.sendall(record(STDOUT, HEAD + b"whole"))
        hang_up(conn)

    with Scripted(reply) as backend:
        server = serve(place(backend, "fastcgi_keep_conn off;"))
        assert server.get("/").text == "whole"


def test_lengths(serve):
    replies = {"/long": record(STDOUT, b"Content-Length: 2\r\n\r\nabcdef") + end(),
               "/short": record(STDOUT, b"Content-Length: 9\r\n\r\nabc") + record(STDOUT) + end(),
               "/right": record(STDOUT, b"Content-Length: 3\r\n\r\nabc") + end(),
               "/nothing": record(STDOUT, b"Status: 204\r\n\r\nabc") + end()}
    with Scripted(lambda request, conn: replies[request.params["URI"]]) as backend:
        server = serve(place(backend, "fastcgi_keep_conn on; fastcgi_param URI $uri;"))
        assert server.get("/long").text == "ab"
        server.wait_log('upstream sent more data than specified in "Content-Length" header')
        with server.client() as client:
            client.send("GET /short HTTP/1.1\r\nHost: a\r\n\r\n")
            assert client.rest_or_reset().endswith(b"\r\n\r\nabc")
        server.wait_log("upstream prematurely closed FastCGI stdout while reading upstream")
        assert server.get("/right").text == "abc"
        assert server.get("/nothing").status == 204
        with server.client() as client:
            head = client.request("/right", method="HEAD")
            assert head.header("Content-Length") == "3"
            assert client.request("/right").text == "abc"


def test_nothing_of_one_answer_reaches_another(serve):
    """What a backend sends behind END_REQUEST is not the next answer."""
    def reply(request, conn):
        conn.sendall(answer(b"mine") + record(STDOUT, HEAD + b"yours"))

    with Scripted(reply) as backend:
        server = serve(place(backend, "fastcgi_keep_conn on;"))
        for _ in range(3):
            assert server.get("/").text == "mine"
        assert backend.connections == 3


def test_stderr(serve):
    replies = {"/bad": record(STDERR, b"so bad\n") + answer(), "/late":
               record(STDOUT, HEAD + b"x") + record(STDERR, b"so bad") + end()}
    with Scripted(lambda request, conn: replies[request.params["URI"]]) as backend:
        server = serve(place(backend, "fastcgi_catch_stderr bad; fastcgi_param URI $uri;"))
        assert server.get("/bad").status == 502
        server.wait_log('FastCGI sent in stderr: "so bad" while reading response header from upstream')
        assert server.get("/late").status == 200


def test_next_peer(serve):
    """A peer that breaks the rules, one that refuses, and one that answers."""
    with Scripted(record(STDOUT, HEAD, version=7)) as bad, Scripted(answer(b"good")) as good:
        server = serve("""
            upstream u { server 127.0.0.1:%d; server 127.0.0.1:@PORT1@; server 127.0.0.1:%d; }
            server { listen 127.0.0.1:@PORT@; add_header X-Upstream $upstream_addr always;
                location / { fastcgi_pass u; fastcgi_next_upstream error invalid_header; } }
        """ % (bad.port, good.port))
        response = server.get("/")
        assert response.text == "good"
        assert response.header("X-Upstream") == "127.0.0.1:%d, 127.0.0.1:%d, 127.0.0.1:%d" % (
            bad.port, server.port_of("PORT1"), good.port)


# ---- connections

def first(server, backend):
    """The first request, and the question behind it."""
    assert server.get("/").status == 200
    until(backend.is_known, "the end of the connection that asks")


def test_kept_as_written(serve):
    with Scripted(answer()) as backend:
        for keep, connections in (("on", 1), ("off", 3)):
            before = backend.connections
            server = serve(place(backend, "fastcgi_keep_conn %s;" % keep))
            for _ in range(3):
                assert server.get("/").text == "hello"
            assert backend.connections - before == connections
            assert backend.requests[-1].keeps == (keep == "on")
            assert not any(request.asks for request in backend.requests)


@pytest.mark.parametrize("says, keeps", [
    (values(max_conns=5, max_reqs=5), True), (values(mpxs_conns=1), True),
    (values(mpxs_conns=0), False), (values(), False), (None, False),
    (record(UNKNOWN_TYPE, b"\11" + bytes(7), 0), False)],
    ids=["connections", "multiplexing", "nothing of use", "empty", "silent", "unknown"])
def test_facts_decide(serve, says, keeps):
    """auto: it is asked behind the first request, on its connection; the others go by what was said."""
    with Scripted(lambda request, conn: answer(request=request.id), says=says) as backend:
        server = serve(place(backend))
        first(server, backend)
        for _ in range(3):
            assert server.get("/").text == "hello"
        assert set(backend.questions) == {1}
        assert not any(request.asks for request in backend.requests)
        assert [request.keeps for request in backend.requests] == [True] + [keeps] * 3
        assert (backend.connections < 4) == keeps


def test_facts_that_break_the_rules(serve):
    with Scripted(answer(), says=record(10, b"\377\377\377\377FCGI_MAX_CONNS", 0)) as backend:
        server = serve(place(backend))
        first(server, backend)
        assert server.get("/").text == "hello"
        assert [request.keeps for request in backend.requests] == [True, False]


def test_the_first_record_is_no_question(serve):
    with fastcgi_backends.OfFirstRecord(None) as backend:
        server = serve(place(backend))
        first(server, backend)
        for _ in range(2):
            assert server.get("/").text == "hello"
        assert backend.connections == 3


def test_nobody_waits_for_the_answer(serve):
    """Nor for the first request: others go on connections of their own; and the server may end meanwhile."""
    def reply(request, conn):
        if request.params["QUERY_STRING"] == "slow":
            told.wait(10)
        return answer()

    told = threading.Event()
    with Scripted(reply) as backend:
        server = serve(place(backend))
        with server.client() as slow:
            slow.send("GET /?slow HTTP/1.1\r\nHost: a\r\n\r\n")
            until(lambda: backend.requests, "the first request")
            assert server.get("/").text == "hello"
            assert server.get("/").text == "hello"
            told.set()
            assert slow.response().text == "hello"
        assert [request.keeps for request in backend.requests[:2]] == [True, True]
        until(lambda: backend.questions, "the question")
        assert len(set(backend.questions)) == 1
        assert backend.connections == 3


def test_the_asking_request_fails(serve):
    """Somebody else asks."""
    state = {"fails": True}

    def reply(request, conn):
        if state["fails"]:
            hang_up(conn)
            return None
        return answer()

    with Scripted(reply, says=b"") as backend:
        server = serve(place(backend))
        assert server.get("/").status == 502
        state["fails"], backend.says = False, values(max_conns=2)
        first(server, backend)
        assert server.get("/").text == "hello"
        assert server.get("/").text == "hello"
        assert set(backend.questions) == {2}
        assert [request.keeps for request in backend.requests] == [True] * 4
        assert backend.connections == 3


def load(server, clients, each, uri=lambda client, n: "/"):
    """Requests from several clients at a time; gives the texts that came back, by client and number."""
    found, problems = {}, []

    def run(client_number):
        try:
            with server.client() as client:
                for n in range(each):
                    found[client_number, n] = client.request(uri(client_number, n))
        except (AssertionError, OSError) as problem:
            problems.append(problem)

    threads = [threading.Thread(target=run, args=(n,)) for n in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems, problems
    return found


def test_many_requests_share_a_connection(serve):
    with Responder("-m", "1", "-r", "100") as backend:
        server = serve("log_format n '$upstream_response_length $upstream_bytes_received'; access_log access.log n;"
                       + place(backend))
        first(server, backend)
        found = load(server, 16, 10, lambda client, n:
                     "/?c%d-%d&delay=%d&size=%d" % (client, n, (client * 7 + n) % 20,
                                                    client * n * 1111))
        for (client, n), response in found.items():
            text = "c%d-%d&delay=%d&size=%d 0\n" % (client, n, (client * 7 + n) % 20,
                                                    client * n * 1111)
            assert response.body[:len(text)].decode() == text
            assert len(response.body) == len(text) + client * n * 1111
        counts = backend.counts()
        assert counts["requests"] == 161 and counts["most_running"] > 1
        assert counts["most_open"] <= 2 and counts["connections"] <= 3
        sizes = [[int(size) for size in line.split()] for line in server.wait_lines("access.log", 161)]
        assert {received - length for length, received in sizes} <= {50, 51}  # the head, and the header of its record
        bodies = sum(len(response.body) for response in found.values())
        assert sum(length for length, _ in sizes) >= bodies + 161 * 24  # a response has two more records, at least


def test_requests_at_one_time_are_limited(serve):
    """FCGI_MAX_REQS on a shared connection: a further one is opened beside it."""
    with Responder("-m", "1", "-r", "4") as backend:
        server = serve(place(backend))
        first(server, backend)
        load(server, 12, 3, lambda client, n: "/?delay=20")
        assert 1 < backend.counts()["most_running"] <= 4


def test_a_client_leaves_a_shared_connection(serve):
    """Its request is aborted, the others go on on the same connection."""
    with Responder("-m", "1", "-r", "100") as backend:
        server = serve(place(backend))
        first(server, backend)
        stays = server.client()
        stays.send("GET /?delay=1500 HTTP/1.1\r\nHost: a\r\n\r\n")
        until(lambda: backend.counts()["requests"] == 2, "a request under way")
        leaves = server.client()
        leaves.send("GET /?hang HTTP/1.1\r\nHost: a\r\n\r\n")
        until(lambda: backend.counts()["requests"] == 3, "another one")
        leaves.reset()
        until(lambda: backend.counts()["aborts"] == 1, "FCGI_ABORT_REQUEST")
        assert server.get("/?after").status == 200
        assert stays.response().text == "delay=1500 0\n"
        stays.socket.close()
        assert backend.counts()["connections"] == 2


def test_an_upload_that_breaks_off_leaves_others_alone(serve):
    """Its body was being read before it had a number on the shared connection: nobody else's request is aborted."""
    with Responder("-m", "1", "-r", "100") as backend:
        server = serve(place(backend, "fastcgi_request_buffering off;"))
        first(server, backend)
        with server.client() as stays, server.client() as leaves:
            stays.send("GET /?delay=500 HTTP/1.1\r\nHost: a\r\n\r\n")
            until(lambda: backend.counts()["requests"] == 2, "a request under way")
            leaves.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nhalf")
            leaves.half_close()
            assert leaves.response().status == 400
            assert stays.response().text == "delay=500 0\n"
        counts = backend.counts()
        assert counts["aborts"] == 0 and counts["requests"] == 2 and counts["connections"] == 2


def test_patience_looks_at_one_request(serve):
    """Others that use the same connection all the while do not lengthen fastcgi_read_timeout."""
    body = b"x" * 4_000_000  # the socket drinks it in parts
    with Responder("-m", "1", "-r", "100") as backend:
        server = serve(place(backend, "fastcgi_read_timeout 3s; client_max_body_size 8m;"))
        first(server, backend)
        silent = server.client()
        with server.client() as busy:
            silent.send("GET /?hang HTTP/1.1\r\nHost: a\r\n\r\n")
            for _ in range(300):
                assert busy.request("/?delay=50", method="POST", body=body).status == 200
                if select.select([silent.socket], [], [], 0)[0]:
                    break
            else:
                pytest.fail("the silent request waits for ever")
        assert silent.response().status == 504
        silent.socket.close()
        server.wait_log("upstream timed out")
        # They shared it. Later there may be another: who is given up while nobody else is on it takes it along.
        assert backend.counts()["most_running"] == 2


def test_bodies_on_a_shared_connection(serve):
    """From memory, from files and streamed, at the same time."""
    with Responder("-m", "1") as backend:
        server = serve("""
            server { listen 127.0.0.1:@PORT@; client_max_body_size 10m; client_body_buffer_size 8k;
                location / { fastcgi_pass 127.0.0.1:%d; fastcgi_param QUERY_STRING $query_string; }
                location /stream { fastcgi_pass 127.0.0.1:%d; fastcgi_request_buffering off;
                                   fastcgi_param QUERY_STRING $query_string; }
            }
        """ % (backend.port, backend.port))
        first(server, backend)
        problems = []

        def upload(number):
            with server.client() as client:
                for size in (0, 5, 30000, 600000):
                    uri = "%s?n%d" % ("/stream" if number % 2 else "/", number)
                    response = client.request(uri, method="POST", body=b"x" * size)
                    if response.text != "n%d %d\n" % (number, size):
                        problems.append((number, size, response))

        threads = [threading.Thread(target=upload, args=(n,)) for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not problems
        server.wait_log("is buffered to a temporary file")


def test_connections_are_never_more_than_told(serve):
    """FCGI_MAX_CONNS over two workers; requests wait for their turn."""
    with Responder("-c", "3", "-m", "0") as backend:
        server = serve(place(backend), main="worker_processes 2;")
        first(server, backend)
        found = load(server, 12, 10, lambda client, n: "/?c%d-%d&delay=2" % (client, n))
        for (client, n), response in found.items():
            assert response.text == "c%d-%d&delay=2 0\n" % (client, n)
        # What is closed here may still be open there, for a moment, but does no work.
        assert backend.counts()["most_at_once"] <= 3
        assert backend.counts()["connections"] < 60


@pytest.mark.parametrize("lines, fails", [
    ("server 127.0.0.1:1; server 127.0.0.1:2;", True), ("server 127.0.0.1:1 max_conns=1; server 127.0.0.1:2;", True),
    ("server 127.0.0.1:1; server 127.0.0.1:2; check interval=1000000 default_down=true type=tcp;", False)])
def test_nobody_waits_for_servers_that_are_dead(serve, lines, fails):
    """As with nginx: requests wait only above max_conns."""
    server = serve("""access_log access.log; log_format t $request_time;
        upstream u { %s } server { listen 127.0.0.1:@PORT@; location / { fastcgi_pass u; } }""" % lines)
    with server.client() as client:
        for n in range(3):
            assert client.request("/").status == 502
            assert not fails or n == 0 or "no live upstreams while connecting" in server.read("error.log")


def test_max_conns_weighs_more(serve):
    with Responder("-c", "8", "-m", "0") as backend:
        server = serve("""
            upstream u { server 127.0.0.1:%d max_conns=2; queue 100; }
            server { listen 127.0.0.1:@PORT@;
                location / { fastcgi_pass u; fastcgi_param QUERY_STRING $query_string; } }
        """ % backend.port)
        load(server, 8, 5, lambda client, n: "/?delay=2")
        assert backend.counts()["most_at_once"] <= 2


def test_a_slow_reader_does_not_fill_our_memory(serve):
    """On a shared connection: what one client does not take holds the backend back."""
    with Responder("-m", "1") as backend:
        server = serve(place(backend, "fastcgi_buffering off; send_timeout 10s;"))
        first(server, backend)
        slow = server.client()
        slow.send("GET /?size=30000000 HTTP/1.1\r\nHost: a\r\n\r\n")
        until(lambda: backend.counts()["requests"] == 2, "the request")
        response = slow.response()
        assert len(response.body) == 30000000 + len("size=30000000 0\n")
        assert server.get("/").status == 200
        slow.socket.close()


# ---- real applications

@pytest.fixture(scope="module")
def fpm():
    backend = fastcgi_backends.Fpm({
        "index.php": "<?php echo 'index ', $_SERVER['PATH_INFO'] ?? '', ' ', $_SERVER['QUERY_STRING'];",
        "upload.php": "<?php $f = $_FILES['file']; header('X-Sum: ' . hash_file('sha256', "
                      "$f['tmp_name'])); echo $f['name'], ' ', $f['size'], ' ', $_POST['field'];",
        "session.php": "<?php session_start(); $_SESSION['n'] = ($_SESSION['n'] ?? 0) + 1; "
                       "echo $_SESSION['n'];",
        "large.php": "<?php for ($i = 0; $i < 300000; $i++) { echo \"line $i\\n\"; }",
        "error.php": "<?php error_log('a word to stderr'); http_response_code(418); echo 'teapot';",
        "redirect.php": "<?php header('Location: /elsewhere'); header('X-Powered-By: nobody');",
        "stdin.php": "<?php echo hash('sha256', file_get_contents('php://input'));",
        "server.php": "<?php ksort($_SERVER); foreach ($_SERVER as $k => $v) "
                      "if (is_string($v)) echo \"$k=$v\\n\";",
        "note.php": "<?php $n = strlen(file_get_contents('php://input')) . ' of ' . $_SERVER['CONTENT_LENGTH']; "
                    "file_put_contents(__DIR__ . '/noted', \"$n\\n\", FILE_APPEND); echo $n;",
        "flush.php": "<?php for ($i = 0; $i < 3; $i++) { echo \"part $i\\n\"; flush(); }",
    })
    yield backend
    backend.close()


def fpm_site(fpm, more=""):
    return """
        include %s/conf/fastcgi_params;
        server { listen 127.0.0.1:@PORT@; root %s; client_max_body_size 64m;
            location ~ ^(.+\\.php)(/.*)?$ {
                fastcgi_split_path_info ^(.+?\\.php)(/.*)?$;
                fastcgi_pass unix:%s; %s
                include %s/conf/fastcgi_params;
                fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name;
                fastcgi_param PATH_INFO $fastcgi_path_info;
            }
        }
    """ % (fastcgi_backends.TOP, fpm.root, fpm.address, more, fastcgi_backends.TOP)


def test_php_site(serve, fpm):
    server = serve(fpm_site(fpm))
    with server.client() as client:
        assert client.request("/index.php/a/b?q=1").text == "index /a/b q=1"
        response = client.request("/error.php")
        assert response.status == 418 and response.text == "teapot"
        response = client.request("/redirect.php")
        assert response.status == 302 and response.header("Location") == "/elsewhere"
        assert client.request("/missing.php").status == 404
        assert client.request("/large.php").body == b"".join(b"line %d\n" % n for n in range(300000))
        assert client.request("/flush.php").text == "part 0\npart 1\npart 2\n"
        seen = dict(line.split("=", 1) for line in client.request("/server.php", "X-A: b").text.splitlines())
        assert seen["HTTP_X_A"] == "b" and seen["REQUEST_METHOD"] == "GET"
        assert seen["SERVER_PORT"] == str(server.port) and seen["REMOTE_ADDR"] == "127.0.0.1"
    server.wait_log('FastCGI sent in stderr: ".*a word to stderr" while reading response header')


def test_php_session(serve, fpm):
    server = serve(fpm_site(fpm))
    with server.client() as client:
        response = client.request("/session.php")
        cookie = response.header("Set-Cookie").split(";")[0]
        assert response.text == "1"
        assert [client.request("/session.php", "Cookie: " + cookie).text for _ in range(3)] \
            == ["2", "3", "4"]


@pytest.mark.parametrize("buffering", ["on", "off"])
def test_php_upload(serve, fpm, buffering):
    server = serve(fpm_site(fpm, "fastcgi_request_buffering %s;" % buffering))
    content = os.urandom(3000000)
    body = b"--xyz\r\nContent-Disposition: form-data; name=\"field\"\r\n\r\nvalue\r\n" \
           b"--xyz\r\nContent-Disposition: form-data; name=\"file\"; filename=\"f.bin\"\r\n" \
           b"Content-Type: application/octet-stream\r\n\r\n" + content + b"\r\n--xyz--\r\n"
    with server.client() as client:
        response = client.request("/upload.php", "Content-Type: multipart/form-data; boundary=xyz",
                                  method="POST", body=body)
        assert response.text == "f.bin 3000000 value"
        assert response.header("X-Sum") == hashlib.sha256(content).hexdigest()
        response = client.request("/stdin.php", method="POST", body=content)
        assert response.text == hashlib.sha256(content).hexdigest()


@pytest.mark.parametrize("keeps", ["on", "off"])
def test_php_does_not_run_where_nothing_came_of_a_body(serve, fpm, keeps):
    """The end of the parameters waits for the first bytes; a script that has begun takes what came before the end for the body."""
    server = serve(fpm_site(fpm, "fastcgi_request_buffering off; fastcgi_keep_conn %s;" % keeps))
    noted = os.path.join(fpm.root, "noted")
    if os.path.exists(noted):
        os.unlink(noted)
    for framing in "Content-Length: 200", "Transfer-Encoding: chunked":
        with server.client() as client:
            client.send("POST /note.php HTTP/1.1\r\nHost: a\r\n%s\r\n\r\n" % framing)
            client.half_close()
            assert client.response().status == 400
    with server.client() as client:
        client.send("POST /note.php HTTP/1.1\r\nHost: a\r\nContent-Length: 200\r\nExpect: 100-continue\r\n\r\n")
        assert client.head().status == 100
        client.send(b"x" * 200)
        assert client.response().text == "200 of 200"
    with open(noted, encoding="ascii") as lines:
        assert lines.read() == "200 of 200\n"


@pytest.mark.parametrize("sent", [0, 50])
def test_half_a_body_is_not_given_as_a_whole_one(serve, sent):
    """Neither is its end said, nor does the connection carry another request."""
    received, ended = [], threading.Event()

    def take(conn):
        conn.settimeout(15)
        while True:
            data = conn.recv(65536)
            if not data:
                ended.set()
                return
            received.append(data)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=lambda: take(listener.accept()[0]), daemon=True).start()
        server = serve("""server { listen 127.0.0.1:@PORT@; fastcgi_request_buffering off; fastcgi_keep_conn on;
            location / { fastcgi_pass 127.0.0.1:%d; } }""" % listener.getsockname()[1])
        with server.client() as client:
            client.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 200\r\n\r\n" + b"x" * sent)
            until(lambda: b"".join(received).endswith(b"x" * sent) if sent else received, "the request")
            client.half_close()
            assert client.response().status == 400
        assert ended.wait(15)
    kinds, rest = [], b"".join(received)
    while rest:
        size = int.from_bytes(rest[4:6], "big")
        kinds.append((rest[1], size != 0))
        rest = rest[8 + size + rest[6]:]
    # 5 is STDIN, 4 is PARAMS; empty ones end them.
    assert (5, False) not in kinds
    assert ((4, False) in kinds) == bool(sent)


def test_php_children_are_not_pinned(serve, fpm):
    """php-fpm does not say how many connections it takes: each request has its own, and idle clients of ours keep
    nobody from being served."""
    server = serve(fpm_site(fpm))
    clients = [server.client() for _ in range(8)]
    for _ in range(3):
        for client in clients:
            assert client.request("/index.php").status == 200
    for client in clients:
        client.socket.close()


def test_php_cgi_is_kept_within_its_children(serve):
    os.environ["PHP_FCGI_CHILDREN"], os.environ["PHP_FCGI_MAX_REQUESTS"] = "2", "1000"
    try:
        backend = Program("php-cgi", "-n", "-b", "127.0.0.1:@PORT@", files={
            "a.php": "<?php echo getmypid(), ' ', $_SERVER['QUERY_STRING'];"})
    finally:
        del os.environ["PHP_FCGI_CHILDREN"], os.environ["PHP_FCGI_MAX_REQUESTS"]
    with contextlib.closing(backend):
        server = serve("""
            server { listen 127.0.0.1:@PORT@; location / { fastcgi_pass 127.0.0.1:%d;
                fastcgi_param SCRIPT_FILENAME %s/a.php; fastcgi_param REQUEST_METHOD GET;
                fastcgi_param QUERY_STRING $query_string; fastcgi_param REDIRECT_STATUS 200; } }
        """ % (backend.port, backend.directory), main="worker_processes 2;")
        found = load(server, 8, 20, lambda client, n: "/?c%d-%d" % (client, n))
        children = set()
        for (client, n), response in found.items():
            child, text = response.text.split()
            children.add(child)
            assert text == "c%d-%d" % (client, n)
        assert len(children) <= 2


def test_libfcgi(serve):
    with contextlib.closing(fastcgi_backends.libfcgi()) as backend:
        server = serve("""
            server { listen 127.0.0.1:@PORT@; location / { fastcgi_pass 127.0.0.1:%d;
                fastcgi_param REQUEST_URI $request_uri;
                fastcgi_param CONTENT_LENGTH $content_length; } }
        """ % backend.port, main="worker_processes 2;")
        with server.client() as client:
            response = client.request("/stderr")
            assert response.status == 201 and response.reason == "Made"
            assert response.text == "/stderr 0\n"
            assert client.request("/", method="POST", body=b"x" * 100000).text == "/ 100000\n"
            assert client.request("/large").text.endswith("line 19999\n")
        server.wait_log('FastCGI sent in stderr: "words on stderr"')
        found = load(server, 6, 10, lambda client, n: "/c%d-%d" % (client, n))
        for (client, n), response in found.items():
            assert response.text == "/c%d-%d 0\n" % (client, n)


def test_processes_of_libfcgi_are_found(serve):
    """Each says that it takes one connection; under load all of them work."""
    with contextlib.closing(fastcgi_backends.libfcgi(3)) as backend:
        server = serve("""
            server { listen 127.0.0.1:@PORT@; location / { fastcgi_pass 127.0.0.1:%d;
                fastcgi_param REQUEST_URI $request_uri; } }
        """ % backend.port)
        assert server.get("/").status == 201
        seen = set()

        def all_seen():
            found = load(server, 6, 4, lambda client, n: "/slow/c%d-%d" % (client, n))
            for (client, n), response in found.items():
                assert response.text == "/slow/c%d-%d 0\n" % (client, n)
                seen.add(response.header("X-Pid"))
            return len(seen) == 3

        until(all_seen, "three processes at work")


def test_two_groups_of_one_process(serve):
    """A backend with one connection is not held by an idle one of another group."""
    with contextlib.closing(fastcgi_backends.libfcgi()) as backend:
        server = serve("""
            upstream one { server 127.0.0.1:%d; } upstream two { server 127.0.0.1:%d; }
            fastcgi_param REQUEST_URI $request_uri;
            server { listen 127.0.0.1:@PORT@;
                location /one { fastcgi_pass one; } location /two { fastcgi_pass two; } }
        """ % (backend.port, backend.port))
        with server.client() as client:
            for _ in range(3):
                assert client.request("/one").text == "/one 0\n"
                assert client.request("/two").text == "/two 0\n"


# ---- configuration

@pytest.mark.parametrize("line, message", [
    ("fastcgi_pass 127.0.0.1;", 'no port in upstream "127.0.0.1"'),
    ("fastcgi_split_path_info ^(.+)$;", 'pattern "^(.+)$" must have 2 captures'),
    ("fastcgi_param A b c;", 'invalid parameter "c"'),
    ("fastcgi_keep_conn maybe;", 'invalid value "maybe"'),
    ("fastcgi_pass a:1; fastcgi_pass a:1;", "is duplicate"),
])
def test_configuration_errors(line, message):
    from harness import Server
    from harness.server import run_binary
    server = Server("server { listen 127.0.0.1:@PORT@; location / { %s } }" % line)
    try:
        done = run_binary("-t", "-p", server.dir, "-c", "nginx.conf", "-e", "error.log")
        assert done.returncode == 1 and message in done.stderr
    finally:
        server.close(check=False)
