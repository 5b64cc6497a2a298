"""append_header (Tengine's): values appended to fields of responses."""

import pytest

from harness import run_binary


def fields(serve, text, target="/", files=None, http=""):
    server = serve(http + " server { listen 127.0.0.1:@PORT@; %s server_name x; }" % text, files=files or {})
    return server.get(target)


def test_to_a_field_that_is_there(serve):
    answer = fields(serve, "add_header X-A one; append_header X-A two; append_header x-a $uri; return 200;")
    assert answer.all("X-A") == ["one, two, /"]


def test_a_field_that_is_not_there(serve):
    assert fields(serve, "append_header X-A one; return 200;").all("X-A") == ["one"]


def test_order_is_that_of_the_lines(serve):
    assert fields(serve, "append_header X-A one; add_header X-A two; append_header X-A three; return 200;").all("X-A") == ["one, three", "two"]


def test_a_separator(serve):
    assert fields(serve, 'append_header_separator "; "; add_header X-A a; append_header X-A b; return 200;').all("X-A") == ["a; b"]


def test_an_empty_value_appends_nothing(serve):
    answer = fields(serve, "add_header X-A a; append_header X-A $arg_none; append_header X-B $arg_none; return 200;")
    assert answer.all("X-A") == ["a"] and answer.all("X-B") == []


def test_fields_of_a_backend(serve):
    answer = fields(serve, "location / { append_header X-B ours; append_header Cache-Control public; proxy_pass http://127.0.0.1:@PORT1@; }",
                    http="server { listen 127.0.0.1:@PORT1@; add_header X-B theirs; add_header Cache-Control max-age=1; return 200; }")
    assert answer.all("X-B") == ["theirs, ours"] and answer.all("Cache-Control") == ["max-age=1, public"]


@pytest.mark.parametrize("status, there", [(200, True), (302, True), (304, True), (404, False), (500, False)])
def test_statuses_are_those_of_add_header(serve, status, there):
    assert bool(fields(serve, "append_header X-A a; return %d;" % status).all("X-A")) == there


def test_inheritance_is_that_of_add_header(serve):
    text = "append_header X-A outer; location /in { append_header X-B inner; return 200; } location /same { return 200; } location /if { if ($arg_x) { append_header X-C c; return 200; } return 200; }"
    assert [fields(serve, text, target).all("X-A") for target in ("/in", "/same", "/if")] == [[], ["outer"], ["outer"]]
    assert fields(serve, text, "/if?x=1").all("X-C") == ["c"]


def test_line_ends_are_no_way_to_another_field(serve):
    answer = fields(serve, "add_header X-A a; if ($uri ~ (.*)) { set $v $1; } location / { append_header X-A $v; return 200; } ", "/a%0d%0aX-Evil:1")
    assert answer.header("X-Evil") is None


def test_head(serve):
    server = serve("server { listen 127.0.0.1:@PORT@; add_header X-A a; append_header X-A b; return 200 text; }")
    with server.client() as client:
        assert client.request("/", method="HEAD").all("X-A") == ["a, b"]


@pytest.mark.parametrize("text", ["append_header;", "append_header a;", "append_header a b always;", "append_header a $1x{;", "append_header_separator;"])
def test_faults(tmp_path, text):
    (tmp_path / "c").write_text("pid p; error_log stderr; events { }\nhttp {\n%s\n}\n" % text)
    assert run_binary("-p", str(tmp_path), "-c", "c", "-t", "-e", "stderr").returncode == 1
