"""The example of docs/writing-a-module.md: linked in and loaded, from the same source."""

import pytest

from harness import addons, binaries
from harness.server import run_binary

HELLO = "examples/hello_module"

SERVER = """
    server {
        listen @PORT@;
        location / { return 200 none; }
        location /hello { hello "Hello, $hello_name!"; location /hello/ { return 200 inner; } }
        location /plain { hello plain; hello_header on; }
    }
"""


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    if "Portunus" not in binaries.version_text(binaries.under_test()):
        pytest.skip("not ours")
    return lambda: tmp_path_factory.mktemp("hello") / "objs"


def check(server):
    assert server.get("/hello").text == "Hello, world!\n"
    assert server.get("/hello?name=you").text == "Hello, you!\n"
    assert server.get("/hello").header("X-Hello") is None
    answer = server.get("/plain")
    assert (answer.status, answer.text) == (200, "plain\n")
    assert answer.header("Content-Type") == "text/plain"
    assert answer.header("X-Hello") == "world"
    assert server.get("/hello/").text == "inner"
    assert server.get("/").header("X-Hello") is None
    with server.client() as client:
        assert client.request("/hello", method="POST", body=b"x").status == 405


@pytest.fixture(scope="module")
def loadable(directory):
    return addons.loadable(directory(), HELLO, "ngx_http_hello_module")


def test_linked_in(directory, serve):
    objs = addons.configure(directory(), "--add-module=%s" % HELLO)
    addons.run("make", "BUILD=%s" % objs, "%s/nginx" % objs)
    binary = str(objs / "nginx")
    assert "ngx_http_hello_module (static)" in run_binary("-V", binary=binary).stderr
    check(serve(SERVER, binary=binary))


def test_loaded(loadable, serve):
    check(serve(SERVER, main="load_module %s;" % loadable))


def test_what_it_refuses(loadable, tmp_path):
    conf = tmp_path / "nginx.conf"
    conf.write_text('load_module %s;\npid nginx.pid;\nevents {}\nhttp {\n'
                    '    hello_header maybe;\n    server { location / { hello ""; } }\n}\n' % loadable)
    done = run_binary("-t", "-p", str(tmp_path), "-c", str(conf), "-e", "error.log")
    assert done.returncode == 1
    assert ('nginx: [emerg] invalid value "maybe" in "hello_header" directive, it must be "on" or "off" '
            "in %s:5" % conf) in done.stderr
    assert "nginx: [emerg] there is nothing to say in %s:6" % conf in done.stderr
