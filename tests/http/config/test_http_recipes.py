"""docs/recipes: each configuration is read, and asked, with stand-ins for the applications behind it."""

import glob
import os
import re
import socket
import ssl

import pytest
import recipes
from cgi_backends import Scripted as CgiBackend
from cgi_backends import read_uwsgi
from fastcgi_backends import Scripted as FastcgiBackend
from fastcgi_backends import answer as fastcgi_answer

from harness.backend import Backend
from harness.dns import NameServer
from harness.h2 import H2

FOLDER = os.path.join(recipes.ROOT, "docs/recipes")
NAMES = sorted(os.path.basename(path)[:-5] for path in glob.glob(FOLDER + "/*.conf"))


class Application:
    """What stands behind a recipe: tells what it was asked, in one line each."""

    def __init__(self):
        def http(conn, request):
            if b"upgrade: websocket" in request.lower():
                conn.sendall(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n")
                conn.sendall(conn.recv(100).upper())
                conn.shutdown(socket.SHUT_WR)
            else:
                conn.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(request), request))

        def fastcgi(request, _):
            rows = "".join("%s=%s\n" % row for row in sorted(request.pairs))
            return fastcgi_answer(rows.encode() + request.body[-20:])

        def uwsgi(pairs, body, _):
            return b"HTTP/1.1 200 OK\r\n\r\n" + "".join("%s=%s\n" % row for row in pairs).encode() + body

        self.http = Backend([http] * 20)
        self.fastcgi = FastcgiBackend(fastcgi)
        self.uwsgi = CgiBackend(uwsgi, read_uwsgi)
        self.names = NameServer({"radio": ["127.0.0.1"]})

    def close(self):
        self.http.close()
        self.fastcgi.__exit__()
        self.uwsgi.close()
        self.names.close()


@pytest.fixture(scope="module", name="application")
def _application():
    found = Application()
    yield found
    found.close()


@pytest.fixture(name="recipe")
def _recipe(serve, application):
    """recipe(name, files) starts a server with that file alone, its places and backends changed to those of the test."""
    backends = {"fastcgi": "127.0.0.1:%d" % application.fastcgi.port, "uwsgi": application.uwsgi.port,
                "http": application.http.port, "names": application.names.port}
    return lambda name, files=None: recipes.start(serve, name, backends, files)


class Answer:
    def __init__(self, data):
        head, _, self.body = data.decode("latin-1").partition("\r\n\r\n")
        self.status = int(head.split()[1])
        self.head = head.lower()


def ask(server, target, *headers, host="a", tls=False, method="GET", body=b""):
    """One request, to the end of the connection."""
    plain = socket.create_connection(("127.0.0.1", server.port_of("PORT1") if tls else server.port), 10)
    sock = plain
    if tls:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        sock = context.wrap_socket(plain, server_hostname=host)
    with sock:
        lines = ["%s %s HTTP/1.1" % (method, target), "Host: " + host, "Connection: close", *headers]
        if body:
            lines.append("Content-Length: %d" % len(body))
        sock.sendall(("\r\n".join(lines) + "\r\n\r\n").encode() + body)
        data = b""
        while more := sock.recv(65536):
            data += more
    return Answer(data)


def websocket(server, host):
    with server.client() as client:
        client.send("GET /ws HTTP/1.1\r\nHost: %s\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n" % host)
        assert client.head().status == 101
        client.send("hello")
        assert client.rest() == b"HELLO"


@pytest.mark.parametrize("name", NAMES)
def test_page_and_files_agree(name):
    """Each file is in the page, and tested below."""
    assert "(recipes/%s.conf)" % name in recipes.read("docs/recipes.md")
    assert 'recipe("%s"' % name in recipes.read("tests/http/config/test_http_recipes.py")


def test_wordpress(recipe):
    server = recipe("wordpress", {"wordpress/index.php": "source", "wordpress/a.css": "style",
                                  "wordpress/wp-content/uploads/evil.php": "source", "wordpress/.env": "secret",
                                  "wordpress/.well-known/acme-challenge/token": "answer"})
    page = ask(server, "/2026/some-post/?a=1")
    assert page.status == 200 and "QUERY_STRING=a=1\n" in page.body
    assert "SCRIPT_FILENAME=%s/www/wordpress/index.php\n" % server.dir in page.body
    assert ask(server, "/a.css").body == "style" and "expires: " in ask(server, "/a.css").head
    assert ask(server, "/wp-content/uploads/evil.php").status == 403
    assert ask(server, "/.env").status == 403
    assert ask(server, "/.well-known/acme-challenge/token").body == "answer"
    assert "REQUEST_URI=/.well-known/webfinger\n" in ask(server, "/.well-known/webfinger").body
    assert ask(server, "/absent.php").status == 404


def test_nextcloud(recipe):
    server = recipe("nextcloud", {"nextcloud/index.php": "source", "nextcloud/remote.php": "source",
                                  "nextcloud/data/file": "secret", "nextcloud/core/a.css": "style"})
    page = ask(server, "/remote.php/dav/files/a%20b", tls=True, method="PUT", body=b"content")
    assert page.status == 200 and "content\r\n" in page.body
    assert "PATH_INFO=/dav/files/a b\n" in page.body and "HTTPS=on\n" in page.body
    assert "REQUEST_METHOD=PUT\n" in page.body and "strict-transport-security" in page.head
    assert "PATH_INFO=/apps/files\n" in ask(server, "/apps/files", tls=True).body
    assert ask(server, "/data/file", tls=True).status == 404
    assert "location: https://" in ask(server, "/.well-known/carddav", tls=True).head
    assert ask(server, "/core/a.css", tls=True).body == "style"


def test_django(recipe):
    files = {"app/static/a.css": "style"}
    server = recipe("django-gunicorn", files)
    assert ask(server, "/static/a.css").body == "style"
    page = ask(server, "/admin/", "X-Forwarded-For: 1.2.3.4", host="app.example.com")
    assert page.body.startswith("GET /admin/ HTTP/1.1\r\n") and "Host: app.example.com\r\n" in page.body
    assert "X-Forwarded-For: 1.2.3.4, 127.0.0.1\r\n" in page.body and "X-Forwarded-Proto: http\r\n" in page.body
    server = recipe("django-uwsgi", files)
    assert ask(server, "/static/a.css").body == "style"
    page = ask(server, "/admin/?a=b")
    assert "REQUEST_URI=/admin/?a=b\n" in page.body and "PATH_INFO=/admin/\n" in page.body


def test_mediawiki(recipe):
    server = recipe("mediawiki", {"mediawiki/w/index.php": "source", "mediawiki/w/LocalSettings.php": "secret",
                                  "mediawiki/w/images/x.php": "text", "mediawiki/w/resources/lib/a.css": "style"})
    page = ask(server, "/wiki/Main_Page?action=raw")
    assert "SCRIPT_FILENAME=%s/www/mediawiki/w/index.php\n" % server.dir in page.body
    assert "REQUEST_URI=/wiki/Main_Page?action=raw\n" in page.body
    assert ask(server, "/w/rest.php/v1/page").body.count("PATH_INFO=/v1/page\n") == 1
    assert ask(server, "/w/LocalSettings.php").status == 403
    upload = ask(server, "/w/images/x.php")
    assert upload.body == "text" and "application/octet-stream" in upload.head
    assert ask(server, "/w/resources/lib/a.css").body == "style"


def test_phpmyadmin(recipe):
    server = recipe("phpmyadmin", {"phpmyadmin/index.php": "source", "phpmyadmin/setup/index.php": "source",
                                   "phpmyadmin/a.css": "style"})
    for target in ("/phpmyadmin/", "/phpmyadmin/index.php?route=/"):
        assert "SCRIPT_FILENAME=%s/www/phpmyadmin/index.php\n" % server.dir in ask(server, target).body
    assert ask(server, "/phpmyadmin/a.css").body == "style"
    assert ask(server, "/phpmyadmin/setup/index.php").status == 403


def test_git(recipe):
    server = recipe("git", {"git.htpasswd": "alice:{PLAIN}secret\n"})
    page = ask(server, "/a.git/info/refs?service=git-upload-pack")
    assert "PATH_INFO=/a.git/info/refs\n" in page.body and "GIT_PROJECT_ROOT=/srv/git\n" in page.body
    for target, method in (("/a.git/git-receive-pack", "POST"), ("/a.git/git%2Dreceive-pack", "POST"),
                           ("/a.git/info/refs?service=git-receive-pack", "GET")):
        assert ask(server, target, "Authorization: Basic YTpi", method=method, body=b"p" * 3000000).status == 401
    page = ask(server, "/a.git/git-receive-pack", "Authorization: Basic YWxpY2U6c2VjcmV0", method="POST", body=b"p" * 3000000)
    assert "REMOTE_USER=alice\n" in page.body and page.body.count("p" * 20 + "\r\n") == 1


@pytest.mark.parametrize("name", ["jupyter", "vite"])
def test_pages_and_websockets(recipe, name):
    server = recipe("jupyter") if name == "jupyter" else recipe("vite")
    page = ask(server, "/tree", host="lab.example.com")
    assert "Host: lab.example.com\r\n" in page.body and "Upgrade" not in page.body
    websocket(server, "lab.example.com")


def test_docker_registry(recipe):
    server = recipe("docker-registry")
    layer = ask(server, "/v2/a/blobs/uploads/1", tls=True, method="PATCH", body=b"l" * 3000000)
    assert layer.status == 200 and layer.body.endswith("ll") and "X-Forwarded-Proto: https" in layer.body
    assert ask(server, "/v2/", "User-Agent: docker/1.3.0", tls=True).status == 404


def test_grpc(recipe, application):
    """The stand-in speaks no HTTP/2: the error is one of gRPC."""
    server = recipe("grpc")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    plain = socket.create_connection(("127.0.0.1", server.port_of("PORT1")), 10)
    with H2(None, sock=context.wrap_socket(plain)) as client:
        answer = client.get("/pkg.Service/Call", method="POST", body=b"\0\0\0\0\0",
                            headers=[("te", "trailers"), ("content-type", "application/grpc")])
        assert answer.status == 200 and answer.headers["grpc-status"] == "14"
        assert answer.headers["content-type"] == "application/grpc"


def test_certbot(recipe):
    server = recipe("certbot", {"acme/.well-known/acme-challenge/token": "answer", "site/index.html": "site"})
    challenge = ask(server, "/.well-known/acme-challenge/token", host="www.example.com")
    assert challenge.body == "answer" and "text/plain" in challenge.head
    assert "location: https://www.example.com/a?b" in ask(server, "/a?b", host="www.example.com").head
    assert ask(server, "/", host="www.example.com", tls=True).body == "site"


def test_status(recipe):
    server = recipe("status")
    for target in ("/stub_status", "/nginx_status"):
        assert re.search(r"^Active connections: \d+ \nserver accepts handled requests\n \d+ \d+ \d+ \nReading: ",
                         ask(server, target).body)
    assert ask(server, "/").status == 404


def test_container(recipe, application):
    server = recipe("container")
    page = ask(server, "/a?b", host="radio.example.com")
    assert page.body.startswith("GET /a?b HTTP/1.1") and "X-Real-IP: 127.0.0.1" in page.body
