"""The example of docs/writing-a-module.md: linked in and loaded, from the same source."""

import os
import re
import shutil
import subprocess

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


def relinked(loadable, folder, interface):
    """The object of the same source with another interface.c, or without one."""
    build = os.path.dirname(loadable)
    objects = ["%s/addon/ngx_http_hello_module/hello.pic.o" % build]
    if interface is not None:
        (folder / "interface.c").write_text('const char loaded_interface[] = "%s";\n' % interface)
        objects.append(str(folder / "interface.c"))
    path = str(folder / "ngx_http_hello_module.so")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", path, *objects], check=True)
    return path


def test_built_with_other_headers(loadable, tmp_path):
    """It is refused, with both interfaces named; it used to be loaded, and to crash."""
    other = relinked(loadable, tmp_path, "0.0.9-0123456789abcdef")
    done = check_loading(tmp_path, other)
    assert done.returncode == 1
    assert re.search(r'\[emerg\] module "%s" is not binary compatible: it was compiled with the headers of 0\.0\.9-0123456789abcdef, '
                     r"the program with those of [0-9.]+-[0-9a-f]{16} in \S+:1\n" % re.escape(other), done.stderr), done.stderr


def test_built_without_an_interface(loadable, tmp_path):
    other = relinked(loadable, tmp_path, None)
    done = check_loading(tmp_path, other)
    assert done.returncode == 1
    assert '[emerg] module "%s" is not binary compatible in ' % other in done.stderr


def check_loading(tmp_path, path):
    conf = tmp_path / "nginx.conf"
    conf.write_text("load_module %s;\npid nginx.pid;\nevents {}\n" % path)
    return run_binary("-t", "-p", str(tmp_path), "-c", str(conf), "-e", "error.log")


def interface_of(folder, build):
    return subprocess.run([addons.ROOT + "/auto/interface", build], cwd=folder, check=True, capture_output=True, text=True).stdout


def test_every_header_counts(directory, tmp_path):
    """Also one in which two members change places, and no size."""
    build = os.path.dirname(os.path.abspath(binaries.under_test()))
    shutil.copytree(addons.ROOT + "/src", tmp_path / "src", ignore=lambda folder, names: [
        name for name in names if "." in name and not name.endswith(".h")])
    before = interface_of(tmp_path, build)
    assert before == interface_of(addons.ROOT, build)
    header = tmp_path / "src/base/str.h"
    text = header.read_text()
    members = re.search(r"struct str \{\n(.*;.*\n)(.*;.*\n)\};", text)
    header.write_text(text.replace(members.group(), "struct str {\n%s%s};" % (members.group(2), members.group(1))))
    assert interface_of(tmp_path, build) != before
