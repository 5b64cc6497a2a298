"""The example of docs/writing-a-module.md: linked in and loaded, from the same source."""

import os
import re
import shlex
import shutil
import subprocess

import pytest

from harness import binaries
from harness.server import run_binary

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "../.."))
HELLO = "examples/hello_module"

SERVER = """
    server {
        listen @PORT@;
        location / { return 200 none; }
        location /hello { hello "Hello, $hello_name!"; location /hello/ { return 200 inner; } }
        location /plain { hello plain; hello_header on; }
    }
"""


def run(*command):
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, check=False)
    assert done.returncode == 0, done.stdout
    return done.stdout


def arguments_of_build():
    """What the binary under test was configured with, its build directory left out."""
    line = re.search(r"^configure arguments:(.*)$", binaries.version_text(binaries.under_test()),
                     re.M).group(1)
    return [word for word in shlex.split(line) if not word.startswith("--builddir=")]


@pytest.fixture(scope="module")
def build(tmp_path_factory):
    """A function that configures with one more argument, on a copy of the objects that are there."""

    def configure(argument):
        directory = tmp_path_factory.mktemp("hello") / "objs"
        theirs = os.path.dirname(binaries.under_test())
        shutil.copytree(theirs, directory, symlinks=True, ignore=shutil.ignore_patterns(
            "tests", "bench", "serve", "nginx", "*.a", "*.so"))
        # What knows the arguments of configure is compiled anew.
        for folder, _, names in os.walk(directory):
            for name in names:
                path = os.path.join(folder, name)
                if name.endswith(".d") and "config.h" in open(path, encoding="utf-8").read():
                    if os.path.exists(path[:-2] + ".o"):
                        os.unlink(path[:-2] + ".o")
        run("./configure", "--builddir=%s" % directory, argument, *arguments_of_build())
        return directory

    if "Portunus" not in binaries.version_text(binaries.under_test()):
        pytest.skip("not ours")
    return configure


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
def loadable(build):
    objs = build("--add-dynamic-module=%s" % HELLO)
    run("make", "BUILD=%s" % objs, "%s/ngx_http_hello_module.so" % objs)
    return objs / "ngx_http_hello_module.so"


def test_linked_in(build, serve):
    objs = build("--add-module=%s" % HELLO)
    run("make", "BUILD=%s" % objs, "%s/nginx" % objs)
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
