"""The cache in front of backends: what is stored, when it is given, and who fetches it anew."""

import os
import threading

import pytest

import fastcgi_backends

from harness import Closed, Server, run_binary, until


def answer(body, *fields, status=b"200 OK"):
    head = b"".join(field + b"\r\n" for field in fields)
    return b"HTTP/1.1 %s\r\nContent-Length: %d\r\n%s\r\n%s" % (status, len(body), head, body)


class Counter:
    """Answers with a number that grows: who was asked can be told from who was not."""

    def __init__(self, *fields, status=b"200 OK"):
        self.fields, self.status, self.count = fields, status, 0
        self.lock = threading.Lock()

    def __call__(self, conn, request):
        with self.lock:
            self.count += 1
            number = self.count
        conn.sendall(answer(b"%d" % number, *self.fields, status=self.status))


def cached(port, settings="", more=""):
    return ("access_log access.log; proxy_cache_path cache keys_zone=one:1m inactive=1h; %s "
            "server { listen 127.0.0.1:@PORT@; add_header X-Cache $upstream_cache_status always; "
            "location / { proxy_pass http://127.0.0.1:%d; proxy_cache one; %s } }"
            % (more, port, settings))


def got(server, target="/", *headers):
    response = server.get(target, *headers)
    return response.header("X-Cache"), response.text


def test_miss_then_hit(serve, backend):
    back = backend([Counter(b"Cache-Control: max-age=60", b"X-Own: a", b"Set-Thing: b", b"Accept-Ranges: bytes")] * 9)
    server = serve(cached(back.port))
    first = server.get("/")
    second = server.get("/")
    assert (first.header("X-Cache"), second.header("X-Cache")) == ("MISS", "HIT")
    assert first.text == second.text == "1"
    assert second.header("X-Own") == "a" and second.header("Content-Length") == "1"
    assert second.all("Accept-Ranges") == ["bytes"]
    assert server.get("/", "Range: bytes=0-0").status == 206
    assert server.get("/other").text == "2"


@pytest.mark.parametrize("fields, state", [
    ([b"Expires: sAT, 01 jAN 2050 00:00:00 gmt"], "HIT"),
    ([b"expires: Sat, 01 Jan 2000 00:00:00 gmt"], "MISS"),
    ([b"Cache-Control: max-age=60, max-age=0"], "MISS"),
    ([b"Cache-Control: max-age=0", b"Cache-Control: max-age=60"], "MISS"),
    ([b"Cache-Control: s-maxage=60, max-age=0, s-maxage=90"], "HIT"),
    ([b"Cache-Control: max-age=60, s-maxage=0"], "MISS"),
    # Each name is looked for among the request's fields: there is a limit.
    ([b"Cache-Control: max-age=60"] + [b"Vary: x-%d" % i for i in range(64)], "HIT"),
    ([b"Cache-Control: max-age=60"] + [b"Vary: x-%d" % i for i in range(65)], "MISS"),
    # The name is longer than a stored one may be.
    ([b"Cache-Control: max-age=60", b"n" * 65535 + b": v"], "HIT"),
    ([b"Cache-Control: max-age=60", b"n" * 65536 + b": v"], "MISS"),
])
def test_what_the_head_says(serve, backend, fields, state):
    back = backend([Counter(*fields)] * 9)
    server = serve(cached(back.port, "proxy_buffer_size 128k; proxy_buffers 8 128k;"))
    asked = "/", "Accept-Encoding: x"
    assert got(server, *asked)[0] == "MISS"
    assert got(server, *asked)[0] == state
    assert got(server, *asked)[1] == ("1" if state == "HIT" else "3")


def test_configured_lifetimes(serve, backend):
    back = backend([Counter(status=b"404 No")] * 9)
    server = serve(cached(back.port, "proxy_cache_valid 404 1h; proxy_cache_valid 200 1s;"))
    assert [got(server) for _ in range(2)] == [("MISS", "1"), ("HIT", "1")]
    server = serve(cached(back.port, "proxy_cache_valid 200 1h;"))
    assert [got(server)[0] for _ in range(2)] == ["MISS", "MISS"]


@pytest.mark.parametrize("value", ["max-age=x", "max-age=", "max-age=-5", "max-age=1.5", "max-age=5x", "s-maxage=x, max-age=60", "max-age=60, max-age=x"])
def test_a_lifetime_that_is_no_number_is_stale(serve, backend, value):
    """The configured lifetime does not take its place."""
    back = backend([Counter(b"Cache-Control: " + value.encode())] * 9)
    server = serve(cached(back.port, "proxy_cache_valid 1h;"))
    assert [got(server)[0] for _ in range(2)] == ["MISS", "MISS"]


def test_methods_and_switches(serve, backend):
    back = backend([Counter()] * 9)
    server = serve(cached(back.port, """proxy_cache_valid 1h; proxy_cache_bypass $arg_fresh;
        proxy_no_cache $arg_keepnot; proxy_cache_key $uri;"""))
    with server.client() as client:
        assert client.request("/", method="POST", body=b"x").header("X-Cache") is None
    assert got(server, "/?keepnot=1") == ("MISS", "2")
    assert got(server) == ("MISS", "3")
    assert got(server) == ("HIT", "3")
    assert got(server, "/?fresh=1") == ("BYPASS", "4")
    assert got(server) == ("HIT", "4")


def test_min_uses(serve, backend):
    back = backend([Counter()] * 9)
    server = serve(cached(back.port, "proxy_cache_valid 1h; proxy_cache_min_uses 3;"))
    assert [got(server) for _ in range(4)] == [("MISS", "1"), ("MISS", "2"), ("MISS", "3"), ("HIT", "3")]


def test_head_is_stored_as_get(serve, backend):
    back = backend([Counter()] * 9)
    server = serve(cached(back.port, "proxy_cache_valid 1h;"))
    with server.client() as client:
        head = client.request("/", method="HEAD")
        assert (head.header("X-Cache"), head.body) == ("MISS", b"")
        assert client.request("/").text == "1"
    assert back.requests[0].startswith(b"GET ")


def test_conditions_of_clients_are_not_passed_on(serve, backend):
    back = backend([answer(b"x", b'ETag: "t"')] * 3)
    server = serve(cached(back.port, "proxy_cache_valid 1h;"))
    response = server.get("/", 'If-None-Match: "t"', "Range: bytes=0-0")
    assert response.status == 304
    assert b"If-None-Match" not in back.requests[0] and b"Range" not in back.requests[0]
    assert got(server) == ("HIT", "x")


def test_ranges_beyond_the_offset(serve):
    """They go to the backend only where nothing stored can be given, and what it sends is not stored."""
    server = serve("""
        proxy_cache_path cache keys_zone=z:1m; proxy_cache z; proxy_cache_valid 1h; proxy_cache_max_range_offset 2;
        add_header X-Cache $upstream_cache_status;
        server { listen 127.0.0.1:@PORT@;
            location /bypass { proxy_cache_bypass 1; proxy_pass http://127.0.0.1:@PORT1@/; }
            location / { proxy_cache_lock on; proxy_pass http://127.0.0.1:@PORT1@/; } }
        server { listen 127.0.0.1:@PORT1@; proxy_cache off; max_ranges 0; root html;
            add_header Accept-Ranges bytes; add_header X-Asked "$http_range."; }""",
                   files={"html/f": "0123456789"})

    def part(target, *fields):
        response = server.get(target, *fields)
        return response.header("X-Cache"), response.header("X-Asked"), response.status

    for wanted in ("bytes=2-", "bytes= 3-4", "bytes=-1"):
        assert [part("/f", "Range: " + wanted) for _ in range(2)] == [("MISS", wanted + ".", 200)] * 2
    assert part("/f", "Range: bytes=1-") == ("MISS", ".", 206)
    assert part("/f", "Range: bytes=5-") == ("HIT", ".", 206)
    assert part("/bypass/f", "Range: bytes=5-") == ("BYPASS", ".", 206)


def test_ranges_beyond_the_offset_while_stale(serve, backend):
    """Also where the backend allows stale responses while they are renewed: the client does not wait for the whole."""
    back = backend([answer(b"0123456789", b"Cache-Control: max-age=1, stale-while-revalidate=60")] * 9)
    server = serve(cached(back.port, "proxy_cache_max_range_offset 2;"))
    assert got(server)[0] == "MISS"
    until(lambda: got(server, "/", "Range: bytes=5-")[0] == "EXPIRED")
    assert b"bytes=5-" in back.wait_requests(2)[1]


def test_ranges_with_keys_of_their_own(serve):
    """A part is stored where the key holds the range of the client, and only there."""
    server = serve("""
        proxy_cache_path cache keys_zone=z:1m;
        proxy_cache z; proxy_cache_valid 200 206 1h; proxy_set_header Range $http_range; add_header X-Cache $upstream_cache_status;
        server { listen 127.0.0.1:@PORT@;
            location /own/ { proxy_cache_key $uri$http_range; proxy_pass http://127.0.0.1:@PORT1@/; }
            location /shared/ { proxy_cache_key $uri; proxy_pass http://127.0.0.1:@PORT1@/; } }
        server { listen 127.0.0.1:@PORT1@; proxy_cache off; root html; }""", files={"html/f": "0123456789"})

    def part(target, *fields):
        response = server.get(target, *fields)
        return response.header("X-Cache"), response.status, response.text, response.header("Content-Range")

    first, last = (state + (206, "12", "bytes 1-2/10") for state in (("MISS",), ("HIT",)))
    assert [part("/own/f", "Range: bytes=1-2") for _ in range(2)] == [first, last]
    assert [part("/own/f", "Range: bytes=-1")[:3] for _ in range(2)] == [("MISS", 206, "9"), ("HIT", 206, "9")]
    assert part("/own/f") == ("MISS", 200, "0123456789", None)
    assert [part("/shared/f", "Range: bytes=1-2") for _ in range(2)] == [first, first]
    assert [part("/shared/f")[:3] for _ in range(2)] == [("MISS", 200, "0123456789"), ("HIT", 200, "0123456789")]
    assert part("/shared/f", "Range: bytes=1-2") == last


def test_stale_when_the_backend_fails(serve, backend):
    back = backend([answer(b"old", b"X-Accel-Expires: @1")], [lambda conn, _: None])
    server = serve(cached(back.port, "proxy_cache_use_stale error; proxy_set_header Connection close;"))
    assert got(server) == ("MISS", "old")
    assert got(server) == ("STALE", "old")
    back = backend([answer(b"old", b"X-Accel-Expires: @1"), answer(b"no", status=b"500 No")])
    server = serve(cached(back.port, "proxy_cache_use_stale http_500;"))
    assert got(server) == ("MISS", "old")
    assert got(server) == ("STALE", "old")
    back = backend([answer(b"old", b"X-Accel-Expires: @1"), answer(b"no", status=b"500 No")])
    server = serve(cached(back.port))
    assert got(server) == ("MISS", "old")
    assert got(server) == ("EXPIRED", "no")


def test_revalidation(serve, backend):
    back = backend([answer(b"kept", b"X-Accel-Expires: @1", b'ETag: "t"',
                           b"Last-Modified: Wed, 01 Jan 2020 00:00:00 GMT"),
                    b"HTTP/1.1 304 Not Modified\r\nCache-Control: max-age=60\r\n\r\n"])
    server = serve(cached(back.port, "proxy_cache_revalidate on;"))
    assert got(server) == ("MISS", "kept")
    assert got(server) == ("REVALIDATED", "kept")
    assert got(server) == ("HIT", "kept")
    assert b'If-None-Match: "t"' in back.requests[1]
    assert b"If-Modified-Since: Wed, 01 Jan 2020 00:00:00 GMT" in back.requests[1]
    assert back.connections == 1


def test_one_fetches_while_others_wait(serve, backend):
    gate = threading.Event()

    def slowly(conn, _):
        assert gate.wait(10)
        conn.sendall(answer(b"once"))
    back = backend([slowly] * 9)
    server = serve(cached(back.port, "proxy_cache_valid 1h; proxy_cache_lock on;"))
    clients = [server.client() for _ in range(5)]
    for client in clients:
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
    back.wait_requests(1)
    gate.set()
    assert sorted(client.response().header("X-Cache") for client in clients) == ["HIT"] * 4 + ["MISS"]
    assert len(back.requests) == 1
    for client in clients:
        client.close()


def test_others_go_on_when_the_fetch_fails(serve, backend):
    back = backend([lambda conn, _: None], [answer(b"good")])
    server = serve(cached(back.port, """proxy_cache_valid 200 1h; proxy_cache_lock on;
        proxy_set_header Connection close;"""))
    assert server.get("/").status == 502
    assert got(server) == ("MISS", "good")
    assert got(server) == ("HIT", "good")


def test_lock_timeout(serve, backend):
    gate = threading.Event()

    def slowly(conn, _):
        assert gate.wait(10)
        conn.sendall(answer(b"late"))
    back = backend([slowly], [answer(b"mine")])
    server = serve(cached(back.port, """proxy_cache_valid 1h; proxy_cache_lock on;
        proxy_cache_lock_timeout 50ms;"""))
    with server.client() as first:
        first.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        back.wait_requests(1)
        assert got(server) == ("MISS", "mine")
        gate.set()
        assert first.response().text == "late"
    assert got(server) == ("HIT", "late")


def test_updating_in_the_background(serve, backend):
    gate = threading.Event()

    def slowly(conn, _):
        assert gate.wait(10)
        conn.sendall(answer(b"new", b"Cache-Control: max-age=60"))
    back = backend([answer(b"old", b"X-Accel-Expires: @1"), slowly])
    server = serve(cached(back.port, "proxy_cache_use_stale updating; proxy_cache_background_update on;"))
    assert got(server) == ("MISS", "old")
    with server.client() as client:
        assert client.request("/").header("X-Cache") == "STALE"     # at once
        back.wait_requests(2)
        assert got(server) == ("UPDATING", "old")
        gate.set()
        until(lambda: got(server) == ("HIT", "new"), "the new answer")
        assert client.request("/").text == "new"
    assert len(back.requests) == 2


def test_stored_although_the_client_left(serve, backend):
    gate = threading.Event()

    def slowly(conn, _):
        conn.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nfir")
        assert gate.wait(10)
        conn.sendall(b"sty")
    back = backend([slowly])
    server = serve(cached(back.port, "proxy_cache_valid 1h;"))
    with server.client() as client:
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        back.wait_requests(1)
    gate.set()
    until(lambda: server.read("access.log"), "the end of the first request")
    assert got(server) == ("HIT", "firsty")
    assert len(back.requests) == 1


def test_answer_cut_short_is_not_stored(serve, backend):
    back = backend([lambda conn, _: conn.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nfir")],
                   [answer(b"whole")])
    server = serve(cached(back.port, "proxy_cache_valid 1h;"))
    with server.client() as client:
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        with pytest.raises(Closed):
            client.response()
    assert got(server) == ("MISS", "whole")
    assert got(server) == ("HIT", "whole")


def test_long_bodies_are_given_from_the_file(serve, backend):
    body = os.urandom(300000)
    back = backend([answer(body, b"Accept-Ranges: bytes")])
    server = serve(cached(back.port, "proxy_cache_valid 1h;"))
    assert server.get("/").body == body
    hit = server.get("/")
    assert (hit.header("X-Cache"), hit.body) == ("HIT", body)
    assert server.get("/", "Range: bytes=1000-200000").body == body[1000:200001]


def test_vary(serve, backend):
    def by_language(conn, request):
        word = [line for line in request.split(b"\r\n") if line.startswith(b"Accept-Language")]
        conn.sendall(answer(word[0] if word else b"none", b"Vary: Accept-Language"))
    back = backend([by_language] * 9)
    server = serve(cached(back.port, "proxy_cache_valid 1h;"))
    assert got(server, "/", "Accept-Language: de")[0] == "MISS"
    assert got(server, "/", "Accept-Language: de") == ("HIT", "Accept-Language: de")
    assert got(server, "/", "Accept-Language: en")[0] == "MISS"
    assert got(server, "/", "Accept-Language: en") == ("HIT", "Accept-Language: en")
    assert got(server, "/", "Accept-Language: de") == ("HIT", "Accept-Language: de")


def test_intercepted_errors_are_remembered(serve, backend):
    back = backend([Counter(status=b"404 No")] * 9)
    server = serve(cached(back.port, "proxy_cache_valid 404 1h; proxy_intercept_errors on; "
                          "error_page 404 /ours;").replace("} }", "} location /ours { return 200 ours; } }"))
    assert [server.get("/").text for _ in range(3)] == ["ours"] * 3
    assert len(back.requests) == 1


def test_cache_survives_a_restart(serve, backend):
    back = backend([Counter()] * 9)
    server = serve(cached(back.port, "proxy_cache_valid 1h;"))
    assert got(server) == ("MISS", "1")
    server.reload()
    assert got(server) == ("HIT", "1")


@pytest.mark.parametrize("protocol, place, warns", [
    *[(protocol, "%(p)s_cache z; %(p)s_pass 127.0.0.1:1;", True)
      for protocol in ("fastcgi", "scgi", "uwsgi")],
    ("fastcgi", "%(p)s_cache $host; %(p)s_pass 127.0.0.1:1;", True),
    ("fastcgi", "%(p)s_cache z; %(p)s_cache_key $uri; %(p)s_pass 127.0.0.1:1;", False),
    ("fastcgi", "%(p)s_cache off; %(p)s_pass 127.0.0.1:1;", False),
    ("proxy", "%(p)s_cache z; %(p)s_pass http://127.0.0.1:1;", False),  # has a key of its own
])
def test_cache_without_a_key(protocol, place, warns):
    server = Server("%s_cache_path cache keys_zone=z:1m; "
                    "server { listen 127.0.0.1:@PORT@; location / { %s } }"
                    % (protocol, place % {"p": protocol}))
    done = run_binary("-t", "-p", server.dir + "/", "-c", "nginx.conf", "-e", "stderr")
    server.close(check=False)
    assert done.returncode == 0, done.stderr
    assert ('[warn]' in done.stderr and 'no "%s_cache_key" for "%s_cache" in ' % (protocol, protocol)
            in done.stderr) == warns, done.stderr


# ---- conditions, HEAD ----

OLD = "Tue, 01 Jan 2019 00:00:00 GMT"
NOW = "Wed, 01 Jan 2020 00:00:00 GMT"
CONDITIONS = ['If-None-Match: "x"', "If-Modified-Since: " + NOW, 'If-Match: "y"', "If-Unmodified-Since: " + OLD]


@pytest.mark.parametrize("place, method, statuses", [
    ("", "GET", [200] * 4), ("", "HEAD", [200] * 4), ("", "PUT", [200] * 4), ("", "POST", [200] * 4),
    ("proxy_cache one; proxy_cache_valid 1h;", "GET", [304, 304, 412, 412]),
    ("proxy_cache one; proxy_cache_valid 1h;", "HEAD", [304, 304, 412, 412]),
    ("proxy_cache one; proxy_cache_valid 1h;", "PUT", [200] * 4),
    ("proxy_cache one; proxy_cache_valid 1h; proxy_cache_methods POST;", "POST", [200] * 4),
])
def test_backends_judge_conditions_themselves(serve, backend, place, method, statuses):
    """What they have done is not refused afterwards: only what they were not asked is judged here."""
    one = answer(b"ok", b'ETag: "x"', b"Last-Modified: " + NOW.encode())
    back = backend([lambda conn, request: conn.sendall(one[:-2] if request.startswith(b"HEAD") else one)] * 4)
    server = serve("proxy_cache_path cache keys_zone=one:1m; server { listen 127.0.0.1:@PORT@;"
                   "location / { proxy_pass http://127.0.0.1:%d; %s } }" % (back.port, place))
    with server.client() as client:
        assert statuses == [client.request("/", condition, method=method, body=b"x" if method[0] == "P" else None).status
                            for condition in CONDITIONS]


@pytest.mark.parametrize("length", [b"Content-Length: 5\r\n", b""])
@pytest.mark.parametrize("protocol", ["proxy", "fastcgi"])
def test_head_leaves_no_page(serve, backend, protocol, length):
    """What HEAD was answered is given to HEAD, as it was, and to nobody else."""
    def page(is_head):
        return b"" if is_head else b"hello"

    if protocol == "proxy":
        def http(conn, request):
            is_head = request.startswith(b"HEAD")
            conn.sendall(b"HTTP/1.1 200 OK\r\n" + (length or b"Connection: close\r\n") + b"\r\n" + page(is_head))
            if not length:
                conn.close()
        port = backend([http, http], [http]).port
        more = "proxy_cache_convert_head off;"
    else:
        fastcgi = fastcgi_backends.Scripted(lambda request, conn: fastcgi_backends.answer(
            page(request.params["REQUEST_METHOD"] == "HEAD"), length + b"X: y\r\n\r\n"))
        port, more = fastcgi.port, "fastcgi_param REQUEST_METHOD $request_method;"
    server = serve("{0}_cache_path cache keys_zone=one:1m; add_header X-Cache $upstream_cache_status;"
                   "server {{ listen 127.0.0.1:@PORT@; location / {{ {0}_pass {1}127.0.0.1:{2}; {0}_cache one;"
                   "{0}_cache_key $uri; {0}_cache_valid 1h; {3} }} }}"
                   .format(protocol, "http://" if protocol == "proxy" else "", port, more))

    def ask(method):
        with server.client() as client:
            response = client.request("/", method=method)
            return response.header("X-Cache"), response.header("Content-Length"), response.text
    told = "5" if length else None
    assert [ask("HEAD"), ask("HEAD")] == [("MISS", told, ""), ("HIT", told, "")]
    assert [ask("GET")[::2], ask("GET")] == [("MISS", "hello"), ("HIT", "5", "hello")]
    assert ask("HEAD") == ("HIT", "5", "")
    if protocol == "fastcgi":
        fastcgi.__exit__()
