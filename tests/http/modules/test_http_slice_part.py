"""Tengine's slice: parts of files between two arguments."""

import pytest

from harness import Server, run_binary

TEXT = "0123456789"
HTTP = """
    server { listen 127.0.0.1:@PORT@; root html;
             location / { slice; }
             location /around/ { alias html/; slice; slice_header "<<"; slice_footer ">>"; }
             location /inner/ { alias html/; slice; slice_header "<<"; slice_footer ">>"; slice_header_first off; slice_footer_last off; }
             location /named/ { alias html/; slice; slice_arg_begin from; slice_arg_end to; }
             location /sized/ { alias html/; slice 1m; } }
"""


@pytest.fixture(scope="module", name="server")
def one_server():
    with Server(HTTP, files={"html/a.txt": TEXT, "html/empty.txt": "", "html/dir/x": "x"}) as server:
        yield server


@pytest.mark.parametrize("args, begin, end", [
    ("", 0, 10), ("?begin=3", 3, 10), ("?end=4", 0, 4), ("?begin=2&end=5", 2, 5), ("?begin=5&end=2", 5, 10), ("?begin=4&end=4", 4, 4),
    ("?begin=10", 10, 10), ("?begin=11", 0, 10), ("?end=11", 0, 10), ("?begin=x&end=-1", 0, 10), ("?begin=&end=", 0, 10), ("?begin=0&end=10", 0, 10),
    ("?begin=99999999999999999999999&end=3", 0, 3),
])
def test_parts(server, args, begin, end):
    plain = server.get("/a.txt" + args)
    assert (plain.status, plain.text) == (200, TEXT[begin:end]) and plain.header("Last-Modified")
    assert server.get("/named/a.txt" + args.replace("begin", "from").replace("end", "to")).text == TEXT[begin:end]
    around = "<<%s>>" % TEXT[begin:end] if begin != end else ""
    assert server.get("/around/a.txt" + args).text == around
    inner = ("<<" if begin else "") + TEXT[begin:end] + (">>" if end < 10 else "") if begin != end else ""
    assert server.get("/inner/a.txt" + args).text == inner
    head = server.get("/around/a.txt" + args, method="HEAD")
    assert head.header("Content-Length") == str(len(around))


def test_other_requests(server):
    assert server.get("/a.txt", method="POST").status == 405
    assert server.get("/none.txt").status == 404
    assert server.get("/dir").status == 301
    assert server.get("/dir/").status == 403
    assert server.get("/empty.txt?begin=0").text == "" and server.get("/around/empty.txt").text == ""


def test_ranges_and_keepalive(server):
    with server.client() as client:
        part = client.request("/around/a.txt?begin=2&end=5", "Range: bytes=1-3")
        assert (part.status, part.text) == (206, "<23")
        assert client.request("/around/a.txt?begin=2&end=5").text == "<<234>>"
        tag = client.request("/a.txt?begin=2").header("ETag")
        assert client.request("/a.txt?begin=2", "If-None-Match: " + tag).status == 304


def test_with_a_size_it_is_the_other(server):
    assert server.get("/sized/a.txt?begin=3").text == TEXT


@pytest.mark.parametrize("line, message", [
    ("location / { slice 1 2; }", 'invalid number of arguments in "slice" directive'),
    ("slice;", 'invalid number of arguments in "slice" directive'),
    ("location / { slice x; }", 'invalid value'),
    ("location / { slice_header a; slice_header b; }", '"slice_header" directive is duplicate'),
])
def test_wrong_lines(tmp_path, line, message):
    (tmp_path / "c").write_text("pid pid; error_log stderr; events { } http { server { listen 127.0.0.1:1; %s } }" % line)
    done = run_binary("-t", "-p", str(tmp_path), "-c", "c", "-e", "stderr")
    assert done.returncode == 1 and message in done.stderr, done.stderr
