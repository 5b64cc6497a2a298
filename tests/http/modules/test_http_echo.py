"""echo beyond what tests/oracle/tables/echoing.py compares: what beside runs, limits, HTTP/2, clients that leave, bad lines."""

import pytest

from harness import Closed, run_binary
from harness.backend import Backend
from harness.h2 import H2


def conf(*locations, server=""):
    return "server { listen 127.0.0.1:@PORT@; root html; %s\n %s }" % (server, "\n".join(locations))


def test_headers_of_the_client(serve):
    server = serve(conf('location / { echo -n "$echo_client_request_headers"; }', server="http2 on;"))
    with server.client() as client:
        assert client.request("/x?y", "X-A: b").text == "GET /x?y HTTP/1.1\r\nHost: localhost\r\nX-A: b\r\n\r\n"
    with H2(server.port) as h2:
        text = h2.get("/x?y", headers=[("x-a", "b")]).body
        assert text.startswith(b"GET /x?y HTTP/2.0\r\n") and b"x-a: b\r\n" in text and text.endswith(b"\r\n\r\n")


def test_http2(serve):
    server = serve(conf('location / { echo_before_body b; echo_location_async /in; echo x; echo_location /in; echo_after_body a; }',
                        'location /in { echo_sleep 0.001; echo "in"; }', server="http2 on;"))
    with H2(server.port) as h2:
        for _ in range(2):
            answer = h2.get("/")
            assert answer.status == 200 and answer.body == b"b\nin\nx\nin\na\n"


def test_sleeps_beside_each_other_take_as_long_as_one(serve):
    server = serve(conf('location / { %s echo "$echo_timer_elapsed"; }' % ("echo_location_async /in;" * 20 + "echo_location /in;"),
                        'location /in { echo_sleep 0.2; }'))
    assert float(server.get("/").text) < 2


def test_a_blocking_sleep_blocks_nobody(serve):
    server = serve(conf('location / { echo_blocking_sleep 60; }', 'location /other { echo x; }'))
    with server.client() as slow:
        slow.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert server.get("/other").text == "x\n"


def test_what_was_said_leaves_before_a_sleep(serve):
    server = serve(conf('location / { echo first; echo_sleep 60; echo second; }'))
    with server.client() as client:
        client.send(b"GET / HTTP/1.0\r\n\r\n")
        client.head()
        assert client.readable(10)


def test_a_client_that_leaves_ends_what_runs(serve):
    server = serve(conf('location / { echo_location_async /in; echo_location_async /in; echo first; echo_sleep 60; }',
                        'location /in { echo x; echo_sleep 60; echo y; }', 'location /other { echo x; }'))
    with server.client() as client:
        client.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        client.head()
    assert server.get("/other").text == "x\n"


def test_output_after_which_nothing_can_be_refused_is_cut(serve):
    server = serve(conf('location / { echo first; echo_sleep x; }', 'location /exec { echo first; echo_exec /; }'))
    for target in ("/", "/exec"):
        with server.client() as client:
            with pytest.raises(Closed):
                client.request(target)


def test_duplicate(serve):
    server = serve(conf('location / { echo_duplicate $arg_n $arg_t; }'))
    assert server.get("/?n=100000&t=0123456789").text == "0123456789" * 100000
    assert server.get("/?n=100000").text == ""
    for bad in ("x", "-1", "", "99999999999999999999", "9223372036854775807"):
        assert server.get("/?n=%s&t=ab" % bad).status == 500
    server.wait_log("invalid size specified: \"-1\"")
    server.wait_log("too much is asked for")


def test_a_location_that_asks_itself_comes_to_an_end(serve):
    server = serve(conf('location / { echo x; echo_location /; }', 'location /many { echo_foreach_split , $arg_a; echo_location_async /many?$args; echo_end; }'))
    assert server.get("/").text.count("x") > 10
    server.wait_log("subrequests cycle while processing")
    server.get("/many?a=" + ",".join("abcdefgh"))
    server.wait_log("too many subrequests|subrequests cycle")


def test_bodies_of_subrequests_reach_backends(serve):
    backend = Backend([b"HTTP/1.1 200 x\r\nContent-Length: 1\r\n\r\ny"])
    server = serve(conf("location / { echo_read_request_body; echo_subrequest POST /up -b 'a $request_body'; echo_subrequest PUT /up -f html/file;"
                        " echo_subrequest POST /up; }",
                        "location /up { proxy_pass http://127.0.0.1:%d; }" % backend.port), files={"html/file": "from a file"})
    with server.client() as client:
        client.send(b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n")
        assert client.response().text == "yyy"
    first, second, third = backend.wait_requests(3)
    assert first.endswith(b"\r\n\r\na hi") and b"Content-Length: 4\r\n" in first and b"Transfer-" not in first
    assert second.startswith(b"PUT /up ") and second.endswith(b"\r\n\r\nfrom a file")
    assert third.endswith(b"\r\n\r\nhi")
    backend.close()


def test_a_file_that_is_not_there(serve):
    server = serve(conf("location / { echo_subrequest POST /in -f html/$arg_f; }", "location /in { echo_request_body; }"), files={"html/dir/x": ""})
    assert server.get("/?f=none").status == 500
    assert server.get("/?f=dir").status == 500
    server.wait_log(r'open\(\) ".*none" failed')


def test_a_body_that_is_too_large_is_refused(serve):
    server = serve(conf("location / { client_max_body_size 3; echo x; echo_read_request_body; echo_request_body; }"))
    with server.client() as client:
        client.send(b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n")
        assert client.response().status == 413


def test_files_of_locations(serve):
    server = serve(conf("location / { echo a; echo_location /html/f; echo_location_async /html/f; echo b; sub_filter file words; sub_filter_types *; }",
                        "location /html/ { alias html/; }"), files={"html/f": "file" * 10000})
    assert server.get("/").text == "a\n" + "words" + "file" * 9999 + "file" * 10000 + "b\n"


def test_a_dash_alone_is_a_text(serve):
    server = serve(conf("location /a { echo - a; } location /b { echo -n -; } location /c { echo_foreach_split - a-b; echo $echo_it; echo_end; }"))
    assert [server.get(path).text for path in ("/a", "/b", "/c")] == ["- a\n", "-", "a\nb\n"]


@pytest.mark.parametrize("line, name, word", [
    ("echo_foreach_split -- a;", "echo_foreach", "delimiter"), ("echo_foreach_split -x a;", "echo_foreach", "delimiter"),
    ("echo_duplicate -1 a;", "echo_duplicate", "count")])
def test_words_that_look_like_options(serve, line, name, word):
    """The configuration was refused; the reference fails the requests."""
    server = serve(conf("location / { %s echo $echo_it; }" % line))
    assert server.get("/").status == 500
    server.wait_log(r'%s should take at least two arguments\. \(if your %s starts with "-", preceding it with a "--"\.\)' % (name, word))


BAD = [
    ("echo_status abc;", '"echo_status" directive invalid number'),
    ("echo_duplicate 3;", 'invalid number of arguments in "echo_duplicate" directive'),
    ("echo_sleep;", 'invalid number of arguments in "echo_sleep" directive'),
    ("echo_flush x;", 'invalid number of arguments in "echo_flush" directive'),
    ("echo_subrequest GET;", 'invalid number of arguments in "echo_subrequest" directive'),
    ("echo_subrequest GET /x -z 1;", "unknown option for echo_subrequest*: -z"),
    ("echo $nosuch;", 'unknown "nosuch" variable'),
    ("limit_except GET { echo x; }", '"echo" directive is not allowed here'),
]


@pytest.mark.parametrize("line, message", BAD, ids=[line for line, _ in BAD])
def test_bad_lines(tmp_path, line, message):
    (tmp_path / "logs").mkdir()
    path = tmp_path / "nginx.conf"
    path.write_text("events {} http { server { listen 127.0.0.1:8080; location / { %s } } }" % line)
    done = run_binary("-t", "-p", str(tmp_path), "-c", str(path))
    assert done.returncode == 1 and message in done.stderr


def test_a_text_has_one_value_of_each_variable(serve):
    """As the reference says it; each text counts anew."""
    server = serve("""server { listen 127.0.0.1:@PORT@; location / { echo "$echo_incr $echo_incr"; echo "$echo_incr"; echo "$echo_incr-$echo_incr-$echo_incr"; }
        location /words { echo $echo_incr $echo_incr; } }""")
    assert server.get("/").text == "1 1\n2\n3-3-3\n" and server.get("/words").text == "1 2\n"
