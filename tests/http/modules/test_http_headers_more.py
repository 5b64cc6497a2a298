"""headers_more beyond what tests/oracle/tables/more_headers.py compares: framing that stays the server's own, subrequests, HTTP/2,
bad lines."""

import pytest

from harness import run_binary
from harness.backend import Backend
from harness.h2 import H2
from harness.workers import wait_workers


def conf(*locations, http="", server=""):
    return """%s server { listen 127.0.0.1:@PORT@; root html; %s
        %s }""" % (http, server, "\n".join(locations))


def test_a_length_that_is_set_shortens_the_body(serve):
    """No byte of the body is taken for the next response."""
    server = serve(conf("location / { more_set_headers 'Content-Length: 3' 'Transfer-Encoding: gzip'; return 200 hello; }"))
    with server.client() as client:
        for _ in range(2):
            response = client.request("/")
            assert response.text == "hel"
            assert response.all("Content-Length") == ["3"]
            assert response.all("Transfer-Encoding") == []
        head = client.request("/", method="HEAD")
        assert head.all("Content-Length") == ["3"]
        assert client.request("/").text == "hel"


def test_a_length_that_is_cleared_makes_chunks(serve):
    server = serve(conf("location / { more_clear_headers Content-Length; alias html/; }"), files={"html/a": "hello"})
    with server.client() as client:
        assert client.request("/a").text == "hello"
        response = client.request("/a", "Range: bytes=1-2")
        assert response.status == 200 and response.text == "hello"
        assert response.all("Transfer-Encoding") == ["chunked"]
    with server.client() as client:
        client.send(b"GET /a HTTP/1.0\r\n\r\n")
        assert client.response().text == "hello"


def test_connection_close_closes(serve):
    server = serve(conf("location / { more_set_headers 'Connection: close'; return 200 x; }",
                        "location /other { more_set_headers 'Connection: x-thing'; return 200 x; }"))
    with server.client() as client:
        assert client.request("/other").all("Connection") == ["keep-alive", "x-thing"]
        assert client.request("/").all("Connection") == ["close"]
        client.expect_closed()


def test_append(serve):
    server = serve(conf("location / { more_set_headers 'Set-Cookie: a=b'; more_set_headers -a 'Set-Cookie: c=d' 'X-New: 1'; return 200 x; }"))
    response = server.get("/")
    assert response.all("Set-Cookie") == ["a=b", "c=d"]
    assert response.all("X-New") == ["1"]


def test_a_value_ends_no_line(serve):
    server = serve(conf("location ~ (?s)^/(.*) { more_set_headers 'X-V: $1' 'Location: $1' 'ETag: $1' 'Content-Type: text/$1'; return 200 x; }"))
    response = server.get("/a%0d%0aX-Evil:%201")
    assert response.all("X-Evil") == []
    assert response.header("X-V") == "a  X-Evil: 1"


def test_a_length_that_is_set_cuts_the_body(serve):
    backend = Backend([b"HTTP/1.1 204 x\r\n\r\n"])
    server = serve(conf("location / { more_set_input_headers 'Content-Length: 2' 'Transfer-Encoding: x'; proxy_pass http://127.0.0.1:%d; }"
                        % backend.port))
    with server.client() as client:
        for _ in range(2):
            assert client.request("/", method="POST", body=b"12345").status == 204
    for request in backend.wait_requests(2):
        assert request.endswith(b"\r\n\r\n12") and b"Content-Length: 2\r\n" in request and b"Transfer-" not in request
    backend.close()


def test_a_host_that_is_none_is_left_out(serve):
    server = serve(conf("location / { more_set_input_headers 'Host: $arg_h'; try_files /none @shown; }",
                        "location @shown { add_header X-Host '$host $http_host' always; return 204; }"))
    assert server.get("/?h=a.example:1").header("X-Host") == "a.example a.example:1"
    assert server.get("/?h=a/b").header("X-Host") == "localhost localhost"
    server.wait_log('invalid host "a/b" in more_set_input_headers')
    assert server.get("/?h=").header("X-Host").strip() in ("", "localhost")


def test_what_a_subrequest_changes_the_parent_sees(serve):
    server = serve(conf("location / { ssi on; ssi_types *; }",
                        "location /sub { ssi on; ssi_types *; more_set_input_headers 'User-Agent: sub' 'X-New-$arg_n: 1' 'X-New: $arg_n'; alias html/in; }"),
                   files={"html/p": '<!--# include virtual="/sub?n=1" wait="yes" --> <!--# include virtual="/sub?n=2" wait="yes" -->'
                                    '<!--# echo var="http_user_agent" --> <!--# echo var="http_x_new" -->',
                          "html/in": '<!--# echo var="http_x_new" -->'})
    with server.client() as client:
        assert client.request("/p", "User-Agent: me").text == "1 2sub 2"


def test_http2(serve):
    server = serve(conf("location / { more_set_input_headers 'Host: b.example' 'X-N: n'; more_clear_headers Server Content-Length; "
                        "more_set_headers 'Connection: x' 'X-Up: 1' 'X-Host: $host' 'Content-Type: a/b'; }", server="http2 on;"),
                   files={"html/a": "hello"})
    with H2(server.port) as h2:
        answer = h2.get("/a")
        fields = dict(answer.headers)
        assert answer.status == 200 and answer.body == b"hello"
        assert not {"connection", "server", "content-length"} & set(fields)
        assert fields["x-host"] == "b.example" and fields["content-type"] == "a/b"


def test_reload(serve):
    server = serve(conf("location / { more_set_headers 'X-A: 1'; return 200 x; }"))
    assert server.get("/").all("X-A") == ["1"]
    server.configure(conf("location / { if ($arg_x) { more_set_input_headers 'X-A: 2'; } add_header X-A \"$http_x_a\"; empty_gif; }"))
    old = server.children()
    server.reload()
    wait_workers(server, 1, without=old)
    assert server.get("/").all("X-A") == []
    assert server.get("/?x=1").all("X-A") == ["2"]


BAD = [
    ("more_set_headers -x 'a: b';", 'more_set_headers: invalid option name: "-x"'),
    ("more_set_headers -t;", "more_set_headers: option -t takes an argument."),
    ("more_set_headers -s;", "more_set_headers: option -s takes an argument."),
    ("more_set_headers -s '200 2x0' 'X: y';", 'invalid digit "x" found in the status code list "200 2x0"'),
    ("more_clear_headers '*';", "more_clear_headers: wildcard key too short: *"),
    ("more_clear_headers -a X;", 'invalid option name: "-a"'),
    ("more_set_input_headers -s 200 'X: y';", 'more_set_input_headers: invalid option name: "-s"'),
    ("more_set_headers -r 'X: y';", 'more_set_headers: invalid option name: "-r"'),
    ("more_set_headers -a 'Server: me';", "can not append builtin headers"),
    ("more_set_headers 'X: $nosuch';", 'unknown "nosuch" variable'),
    ("more_set_headers;", 'invalid number of arguments in "more_set_headers" directive'),
    ("limit_except GET { more_set_headers 'X: y'; }", '"more_set_headers" directive is not allowed here'),
]


@pytest.mark.parametrize("line, message", BAD, ids=[line for line, _ in BAD])
def test_bad_lines(tmp_path, line, message):
    (tmp_path / "logs").mkdir()
    path = tmp_path / "nginx.conf"
    path.write_text("events {} http { server { listen 127.0.0.1:8080; location / { %s } } }" % line)
    done = run_binary("-t", "-p", str(tmp_path), "-c", str(path))
    assert done.returncode == 1 and message in done.stderr
