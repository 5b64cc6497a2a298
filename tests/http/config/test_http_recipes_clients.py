"""docs/recipes between real programs: git, curl, gRPC and WebSocket clients, and php-fpm, fcgiwrap, gunicorn, uwsgi behind."""

import asyncio
import concurrent.futures
import os
import shutil
import subprocess

import pytest
import recipes
from cgi_backends import Program as Backend
from fastcgi_backends import Fpm

from harness.programs import Program, connects, find, home

def curl(server, target, *words, tls=False, host="a"):
    """What curl prints of the body; fails where the status is an error."""
    port = server.port_of("PORT1") if tls else server.port
    done = subprocess.run(["curl", "-sS", "-k", "--fail-with-body", "--noproxy", "*", "--max-time", "60", "--resolve", "%s:%d:127.0.0.1" % (host, port),
                           *words, "http%s://%s:%d%s" % ("s" if tls else "", host, port, target)],
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(name="php")
def _php():
    """php(scripts): a php-fpm with these below its root."""
    started = []

    def start(scripts):
        started.append(Fpm(scripts))
        return started[-1]
    yield start
    for fpm in started:
        fpm.close()


def php_site(serve, name, fpm):
    return recipes.start(serve, name, {"fastcgi": "unix:" + fpm.address}, root=fpm.root)


ECHO = "<?php echo $_SERVER['REQUEST_URI'], ' ', $_SERVER['PATH_INFO'] ?? '', ' ', strlen(file_get_contents('php://input'));"


def test_wordpress(serve, php):
    token = ".well-known/acme-challenge/t0ken"
    server = php_site(serve, "wordpress", php({"wordpress/index.php": ECHO, "wordpress/wp-login.php": "<?php echo 'login';",
                                               "wordpress/" + token: "answer", "wordpress/wp-content/uploads/x.php": ECHO}))
    assert curl(server, "/2026/post/?a=1") == "/2026/post/?a=1  0"
    assert curl(server, "/wp-login.php") == "login"
    assert curl(server, "/" + token) == "answer"
    assert curl(server, "/xmlrpc/", "-H", "Transfer-Encoding: chunked", "--data-binary", "@" + __file__).endswith(" %d" % os.path.getsize(__file__))


def test_nextcloud(serve, php):
    server = php_site(serve, "nextcloud", php({"nextcloud/index.php": ECHO, "nextcloud/remote.php": ECHO,
                                               "nextcloud/.well-known/acme-challenge/t0ken": "answer"}))
    assert curl(server, "/remote.php/dav/files/a", "-T", __file__, tls=True) == "/remote.php/dav/files/a /dav/files/a %d" % os.path.getsize(__file__)
    assert curl(server, "/.well-known/acme-challenge/t0ken", tls=True) == "answer"


def test_mediawiki(serve, php):
    server = php_site(serve, "mediawiki", php({"mediawiki/w/index.php": ECHO, "mediawiki/.well-known/acme-challenge/t0ken": "answer"}))
    assert curl(server, "/wiki/Main_Page").startswith("/wiki/Main_Page")
    assert curl(server, "/.well-known/acme-challenge/t0ken") == "answer"


def test_phpmyadmin(serve, php):
    server = php_site(serve, "phpmyadmin", php({"phpmyadmin/index.php": ECHO}))
    assert curl(server, "/phpmyadmin/?route=/") == "/phpmyadmin/?route=/  0"


def test_certbot(serve):
    server = recipes.start(serve, "certbot", {}, {"acme/.well-known/acme-challenge/t0ken": "answer", "site/index.html": "site"})
    assert curl(server, "/.well-known/acme-challenge/t0ken", host="www.example.com") == "answer"
    assert curl(server, "/", host="www.example.com", tls=True) == "site"


APPLICATION = """
def application(environ, start_response):
    body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [("%s %s %d" % (environ["wsgi.url_scheme"], environ["PATH_INFO"], len(body))).encode()]
"""


def test_django_by_gunicorn(serve):
    backend = Backend("gunicorn", "-b", "127.0.0.1:@PORT@", "--forwarded-allow-ips", "127.0.0.1", "app:application", files={"app.py": APPLICATION})
    try:
        server = recipes.start(serve, "django-gunicorn", {"http": backend.port}, {"app/static/a.css": "style"})
        assert curl(server, "/admin/", "--data-binary", "@" + __file__) == "http /admin/ %d" % os.path.getsize(__file__)
        assert curl(server, "/static/a.css") == "style"
    finally:
        backend.close()


def test_django_by_uwsgi(serve):
    backend = Backend("uwsgi", "--plugin", "python3", "--socket", "127.0.0.1:@PORT@", "--wsgi-file", "app.py", files={"app.py": APPLICATION})
    try:
        server = recipes.start(serve, "django-uwsgi", {"uwsgi": backend.port})
        assert curl(server, "/admin/", "--data-binary", "@" + __file__) == "http /admin/ %d" % os.path.getsize(__file__)
    finally:
        backend.close()


# ---- git

GIT = {"HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1", "GIT_TERMINAL_PROMPT": "0", "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b",
       "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@b", "PATH": os.environ.get("PATH", "/usr/bin:/bin"), "no_proxy": "*"}


def git(folder, *words, fails=False):
    done = subprocess.run(["git", *words], cwd=folder, env=GIT, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode != 0) == fails, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.fixture(name="wrapped")
def _wrapped():
    """A folder for git, and fcgiwrap on a socket in it, both of the user that the workers have, too."""
    wrap = find("fcgiwrap")
    if wrap is None or not shutil.which("git") or not os.path.exists("/usr/lib/git-core/git-http-backend"):
        pytest.skip("git or fcgiwrap is not installed")
    folder = home("git")
    path = os.path.join(folder, "socket")
    os.mkdir(os.path.join(folder, "git"))
    with Program([wrap, "-c", "2", "-s", "unix:" + path], folder, ready=lambda: connects(path), user=None):
        os.chmod(path, 0o777)
        yield folder


def test_git(serve, wrapped, tmp_path):
    """Anybody clones, a push wants a name and its password, and the size of a push has no limit."""
    git(wrapped, "init", "-q", "--bare", "git/shop.git")
    (tmp_path / "work").mkdir()
    server = recipes.start(serve, "git", {"fastcgi": "unix:%s/socket" % wrapped}, {"git.htpasswd": "alice:{PLAIN}secret\n"}, root=wrapped)
    server.write("www/git.htpasswd", "alice:{PLAIN}secret\n")
    url = "http://%s127.0.0.1:" + "%d/shop.git" % server.port
    work = str(tmp_path / "work")
    git(work, "init", "-q", "-b", "main")
    with open(os.path.join(work, "large"), "wb") as large:
        large.write(os.urandom(3000000))
    git(work, "add", "large")
    git(work, "commit", "-qm", "first")
    git(work, "push", "-q", url % "alice:wrong@", "main", fails=True)
    git(work, "push", "-q", url % "", "main", fails=True)
    assert git(wrapped + "/git/shop.git", "branch", "--list").strip() == ""
    git(work, "push", "-q", url % "alice:secret@", "main")
    git(str(tmp_path), "clone", "-q", "-b", "main", url % "", "copy")
    assert (tmp_path / "copy/large").stat().st_size == 3000000


# ---- gRPC, WebSockets

def test_grpc(serve):
    grpc = pytest.importorskip("grpc")
    import certificates

    class Service(grpc.GenericRpcHandler):
        def service(self, details):
            return grpc.unary_unary_rpc_method_handler(lambda request, _: details.method.encode() + request)
    backend = grpc.server(concurrent.futures.ThreadPoolExecutor(2), handlers=[Service()])
    port = backend.add_insecure_port("127.0.0.1:0")
    backend.start()
    server = recipes.start(serve, "grpc", {"http": port})
    with open(certificates.own("localhost").crt, "rb") as file:
        trust = grpc.ssl_channel_credentials(file.read())
    options = [("grpc.ssl_target_name_override", "localhost"), ("grpc.enable_http_proxy", 0)]
    try:
        with grpc.secure_channel("127.0.0.1:%d" % server.port_of("PORT1"), trust, options) as channel:
            call = channel.unary_unary("/shop.Cart/Add")
            assert call(b" one", timeout=30) == b"/shop.Cart/Add one"
            backend.stop(None).wait()
            with pytest.raises(grpc.RpcError) as failed:
                call(b"", timeout=30)
            assert failed.value.code() == grpc.StatusCode.UNAVAILABLE
    finally:
        backend.stop(None)


@pytest.mark.parametrize("name", ["jupyter", "vite"])
def test_websockets(serve, name):
    websockets = pytest.importorskip("websockets")

    async def echo(socket):
        async for message in socket:
            await socket.send(message.upper())

    async def talk():
        async with websockets.serve(echo, "127.0.0.1", 0) as backend:
            server = recipes.start(serve, name, {"http": backend.sockets[0].getsockname()[1]})
            async with websockets.connect("ws://127.0.0.1:%d/api/kernels/1/channels" % server.port) as socket:
                for text in "hello", "x" * 200000:
                    await socket.send(text)
                    assert await asyncio.wait_for(socket.recv(), 30) == text.upper()
    asyncio.run(talk())


REGISTRY = """
import hashlib

blobs = {}


def application(environ, start_response):
    digest, size = hashlib.sha256(), 0
    for piece in iter(lambda: environ["wsgi.input"].read(65536), b""):
        digest.update(piece)
        size += len(piece)
    where = "%s://%s%s" % (environ["wsgi.url_scheme"], environ["HTTP_HOST"], environ["PATH_INFO"])
    start_response("202 Accepted", [("Content-Type", "text/plain"), ("Location", where)])
    return [("%d %s" % (size, where)).encode()]
"""


def test_docker_registry(serve, tmp_path):
    """A layer in chunks, as docker pushes them; the registry's own addresses are https."""
    backend = Backend("gunicorn", "-b", "127.0.0.1:@PORT@", "--forwarded-allow-ips", "127.0.0.1", "app:application", files={"app.py": REGISTRY})
    try:
        server = recipes.start(serve, "docker-registry", {"http": backend.port})
        layer = tmp_path / "layer"
        layer.write_bytes(bytes(5000000))
        said = curl(server, "/v2/shop/blobs/uploads/1", "-X", "PATCH", "-H", "Transfer-Encoding: chunked", "--data-binary", "@%s" % layer, tls=True)
        assert said == "5000000 https://a:%d/v2/shop/blobs/uploads/1" % server.port_of("PORT1")
    finally:
        backend.close()


def test_status(serve):
    server = recipes.start(serve, "status", {})
    assert curl(server, "/stub_status").startswith("Active connections: ")
