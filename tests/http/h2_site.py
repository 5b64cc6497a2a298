"""A site that speaks HTTP/2, and backends of it: what the tests of HTTP/2 share."""

import hashlib
import http.server
import threading

import pytest

BIG = bytes(range(256)) * 1200


@pytest.fixture(name="site")
def _site(serve):
    """site(http, server, files) starts it: html/ with small, large and empty files."""
    def start(text="", server="", files=None, **more):
        tree = {"html/a.txt": "hello\n", "html/big": BIG, "html/empty": ""}
        tree.update(files or {})
        return serve("http2 on; %s server { listen 127.0.0.1:@PORT@; %s location / { root html; } }"
                     % (text, server), files=tree, **more)
    return start


class _Echo(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = b""
        if "content-length" in self.headers:
            body = self.rfile.read(int(self.headers["content-length"]))
        else:
            while True:
                size = int(self.rfile.readline(), 16)
                body += self.rfile.read(size)
                self.rfile.readline()
                if size == 0:
                    break
        text = ("%d %s" % (len(body), hashlib.md5(body).hexdigest())).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_):
        pass


class _Server(http.server.ThreadingHTTPServer):
    request_queue_size = 128


@pytest.fixture(name="echo")
def _echo():
    """The port of a backend that answers with the length and a checksum of the body it got."""
    backend = _Server(("127.0.0.1", 0), _Echo)
    threading.Thread(target=backend.serve_forever, args=(0.02,), daemon=True).start()
    yield backend.server_address[1]
    backend.shutdown()
    backend.server_close()
