"""A protocol towards backends is one file: examples/gopher_module, built as it is and asked."""

import socket
import threading

import pytest

from harness import addons, binaries
from harness.server import run_binary

GOPHER = "examples/gopher_module"


@pytest.fixture(scope="module")
def loadable(tmp_path_factory):
    if "Portunus" not in binaries.version_text(binaries.under_test()):
        pytest.skip("not ours")
    return addons.loadable(tmp_path_factory.mktemp("gopher") / "objs", GOPHER,
                           "ngx_http_gopher_module")


class Hole:
    """A gopher server: answers each selector by what is kept under it, and closes."""

    def __init__(self, files):
        self.files = files
        self.asked = []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % self.listener.getsockname()[1]
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                conn = self.listener.accept()[0]
            except OSError:
                return
            with conn:
                line = b""
                while not line.endswith(b"\r\n"):
                    line += conn.recv(1000)
                self.asked.append(line)
                conn.sendall(self.files.get(line[:-2].decode(), b""))


@pytest.fixture
def hole():
    made = Hole({"/a.txt": b"a story\r\n", "/long": b"x" * 300000})
    yield made
    made.listener.close()


def test_a_protocol_in_one_file(loadable, hole, serve):
    server = serve("""
    gopher_cache_path kept keys_zone=holes:1m;
    server {
        listen @PORT@;
        location / { gopher_pass %s; }
        location /kept/ {
            rewrite ^/kept(/.*) $1 break;
            gopher_pass %s;
            gopher_cache holes;
            gopher_cache_key $uri;
            gopher_cache_valid 1m;
        }
    }
    """ % (hole.address, hole.address), main="load_module %s;" % loadable)
    answer = server.get("/a.txt")
    assert (answer.status, answer.text) == (200, "a story\r\n")
    assert answer.header("Content-Type") == "text/plain"
    assert len(server.get("/long").body) == 300000
    assert server.get("/none").status == 502  # it closes without a word
    assert ('upstream prematurely closed connection while reading response header from upstream, client: 127.0.0.1, '
            'server: , request: "GET /none HTTP/1.1", upstream: "gopher://%s/none"' % hole.address
            ) in server.error_log
    with server.client() as client:
        assert client.request("/a.txt", method="POST", body=b"x").status == 405
    assert [server.get("/kept/a.txt").text for _ in range(2)] == ["a story\r\n"] * 2
    assert hole.asked == [b"/a.txt\r\n", b"/long\r\n", b"/none\r\n", b"/a.txt\r\n"]


def test_its_options_are_those_of_all(loadable, tmp_path):
    conf = tmp_path / "nginx.conf"
    conf.write_text("load_module %s;\npid nginx.pid;\nevents {}\nhttp {\n    server { location / {\n"
                    "        gopher_pass 127.0.0.1:7070;\n        gopher_next_upstream off http_600;\n"
                    "        gopher_cache none;\n    } }\n}\n" % loadable)
    done = run_binary("-t", "-p", str(tmp_path), "-c", str(conf), "-e", "error.log")
    assert done.returncode == 1
    assert 'invalid value "http_600" in %s:7' % conf in done.stderr
