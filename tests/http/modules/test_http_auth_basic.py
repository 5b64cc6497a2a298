"""auth_basic and auth_delay: what the tables of the oracle cannot show: threads, changes of the file, leaving clients."""

import base64
import os
import shutil
import subprocess
import time

import pytest

from harness import Closed, binaries, run_binary
from harness.h2 import CANCEL, H2, RST_STREAM
from harness.workers import wait_workers

needs_portunus = pytest.mark.skipif("Portunus" not in binaries.version_text(binaries.under_test()),
                                    reason="not Portunus")

# Of "secret"; computing it takes a good part of a second.
SLOW = "$2b$13$saltsaltsaltsaltsaltseewwRcX3ytpXODxjRX4NoaIOVvt0vbAu"
QUICK = "$apr1$saltsalt$LrttParrLPdxvgutaSXWJ0"
HTPASSWD = shutil.which("htpasswd")
USERS = "plain:{PLAIN}secret\nquick:%s\nslow:%s\n" % (QUICK, SLOW)


def authorization(user, password="secret"):
    return "Basic " + base64.b64encode(("%s:%s" % (user, password)).encode()).decode()


def credentials(user, password="secret"):
    return "Authorization: " + authorization(user, password)


def conf(*locations, server="", http=""):
    return """
        log_format users '$status $remote_user $uri'; access_log logs/access.log users; %s
        server {
            listen 127.0.0.1:@PORT@; %s
            auth_basic area; auth_basic_user_file users;
            location / { return 404; }
            location /gif { empty_gif; }
            location /free { auth_basic off; return 200 free; }
            %s
        }""" % (http, server, "\n".join(locations))


def replace(server, name, text):
    """Another file in the place of one, in one step."""
    server.write(name + ".new", text)
    os.rename(server.path(name + ".new"), server.path(name))


def send_slow(server, count=1, user="slow", target="/gif"):
    """Clients whose requests are being verified."""
    clients = [server.client() for _ in range(count)]
    for client in clients:
        client.send("GET %s HTTP/1.1\r\nHost: a\r\n%s\r\n\r\n" % (target, credentials(user)))
    return clients


def test_changes_of_the_file_are_seen_at_once(serve):
    server = serve(conf(), files={"users": USERS})
    for n in range(20):
        replace(server, "users", "plain:{PLAIN}%02d\n" % n)
        assert server.get("/gif", credentials("plain", "%02d" % n)).status == 200
        assert server.get("/gif", credentials("plain", "%02d" % (n - 1))).status == 401
    os.unlink(server.path("users"))
    assert server.get("/gif", credentials("plain", "19")).status == 403
    replace(server, "users", "")
    assert server.get("/gif", credentials("plain", "19")).status == 401


def test_refused_and_let_in_on_one_connection(serve):
    server = serve(conf(), files={"users": USERS})
    with server.client() as client:
        refused = client.request("/gif")
        assert refused.status == 401
        assert refused.header("WWW-Authenticate") == 'Basic realm="area"'
        for user in ("plain", "quick", "slow", "quick"):
            assert client.request("/gif", credentials(user)).status == 200
            assert client.request("/gif", credentials(user, "wrong")).status == 401
    assert server.wait_lines("logs/access.log", 9)[:3] == ["401 - /gif", "200 plain /gif", "401 plain /gif"]


@needs_portunus
def test_others_are_served_while_a_password_is_verified(serve):
    server = serve(conf(), files={"users": USERS})
    clients = send_slow(server, 5)
    assert server.get("/free").text == "free"
    assert server.get("/gif", credentials("plain")).status == 200
    for client in clients:
        assert client.response().status == 200
        client.close()
    lines = server.wait_lines("logs/access.log", 7)
    assert lines[-1] == "200 slow /gif"
    assert lines.index("200 - /free") < 6


@needs_portunus
def test_so_many_wait_and_no_more(serve):
    server = serve(conf(), main="thread_pool auth_basic threads=1 max_queue=1;", files={"users": USERS})
    clients = send_slow(server, 8)
    statuses = [client.response().status for client in clients]
    for client in clients:
        client.close()
    assert set(statuses) == {200, 503}
    assert statuses.count(503) == server.read("error.log").count("too many passwords wait to be verified")
    assert server.get("/gif", credentials("plain")).status == 200
    assert server.get("/gif", credentials("quick")).status == 200


@needs_portunus
def test_clients_that_leave_are_not_verified(serve):
    server = serve(conf(), main="thread_pool auth_basic threads=1 max_queue=64;", files={"users": USERS})
    clients = send_slow(server, 40)
    for client in clients:
        client.reset()
    assert server.get("/gif", credentials("quick")).status == 200  # it waits for one of them, not for all
    lines = server.wait_lines("logs/access.log", 41)
    assert "499 slow /gif" in lines and "200 quick /gif" in lines


def test_quit_waits_for_who_is_being_verified(serve):
    server = serve(conf(), files={"users": USERS})
    clients = send_slow(server, 3)
    assert server.get("/free").text == "free"
    server.quit()
    for client in clients:
        assert client.response().status == 200
        client.close()


@needs_portunus
def test_stop_while_passwords_are_verified(serve):
    """A hash that is being computed cannot be broken off: where it takes longer than the master waits, the worker is killed."""
    server = serve(conf(), files={"users": USERS}, allow=["worker process \\d+ exited on signal 9"])
    clients = send_slow(server, 4)
    assert server.get("/free").text == "free"
    server.stop()
    for client in clients:
        client.close()


def test_http2(serve):
    server = serve(conf(server="http2 on;"), files={"users": USERS})
    with H2(server.port) as h2:
        refused = h2.get("/gif")
        assert refused.status == 401
        assert refused.headers["www-authenticate"] == 'Basic realm="area"'
        streams = [h2.request("/gif", headers=[("authorization", authorization(user))])
                   for user in ("slow", "plain", "quick", "nobody")]
        assert [h2.answer(stream).status for stream in streams] == [200, 200, 200, 401]


@needs_portunus
def test_http2_stream_that_is_reset(serve):
    server = serve(conf(server="http2 on;"), files={"users": USERS})
    with H2(server.port) as h2:
        stream = h2.request("/gif", headers=[("authorization", authorization("slow"))])
        h2.send(RST_STREAM, stream=stream, payload=CANCEL.to_bytes(4, "big"))
        assert h2.get("/gif", headers=[("authorization", authorization("plain"))]).status == 200
    assert "499 slow /gif" in server.wait_lines("logs/access.log", 2)


def test_body_is_not_asked_for_in_vain(serve, backend):
    back = backend([b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"])
    server = serve(conf("location /up { proxy_set_header X-User $remote_user; proxy_pass http://127.0.0.1:%d; }" % back.port),
                   files={"users": USERS})
    with server.client() as client:
        client.send("POST /up HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n")
        response = client.response()
        assert response.status == 401 and not response.interim
    with server.client() as client:
        client.send("POST /up HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 4\r\n%s\r\n\r\n" % credentials("slow"))
        assert client.head().status == 100
        client.send("body")
        assert client.response().text == "ok"
    assert len(back.requests) == 1
    assert b"X-User: slow" in back.requests[0] and back.requests[0].endswith(b"body")


@pytest.mark.parametrize("proxy", ["tunnel_pass", "proxy_connect"])
@needs_portunus
def test_tunnels_are_for_those_who_may(serve, backend, proxy):
    back = backend([b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"])
    place = {"tunnel_pass": "location /t { } tunnel_pass;", "proxy_connect": "proxy_connect; proxy_connect_allow all;"}[proxy]
    server = serve("access_log off; server { listen 127.0.0.1:@PORT@; auth_basic area; auth_basic_user_file users; %s }" % place,
                   files={"users": USERS})
    line = "CONNECT 127.0.0.1:%d HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n" % (back.port, back.port)
    with server.client() as client:
        client.send(line + credentials("plain") + "\r\n\r\n")
        refused = client.response()
        assert refused.status == 407
        assert refused.header("Proxy-Authenticate") == 'Basic realm="area"'
        assert refused.header("WWW-Authenticate") is None
    with server.client() as client:
        client.send(line + "Proxy-" + credentials("plain") + "\r\n\r\n")
        assert client.head().status == 200
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        assert client.response().text == "ok"


@pytest.mark.skipif(os.getuid() != 0, reason="who is not root reads what is its own")
def test_file_that_may_not_be_read(serve):
    server = serve(conf(), files={"users": USERS})
    os.chmod(server.path("users"), 0o600)
    os.chown(server.path("users"), 0, 0)
    assert server.get("/gif").status == 401
    assert server.get("/gif", credentials("plain")).status == 500
    server.wait_log(r"\[crit\] .*open.*users. failed .13: Permission denied")


@needs_portunus
def test_file_that_is_none(serve):
    server = serve(conf(), files={"users": USERS})
    os.unlink(server.path("users"))
    os.mkfifo(server.path("users"))
    os.chmod(server.path("users"), 0o666)
    assert server.get("/gif", credentials("plain")).status == 500  # without waiting for a writer
    assert server.get("/free").status == 200


def test_delay_is_for_the_refused_alone(serve):
    server = serve(conf("location /allowed { satisfy any; allow all; empty_gif; }",
                        "location /denied { deny all; empty_gif; }",
                        "location /page { error_page 401 = /free; empty_gif; }", server="auth_delay 600ms;"),
                   files={"users": USERS})
    begun = time.monotonic()
    assert server.get("/gif", credentials("plain")).status == 200
    assert server.get("/allowed").status == 200
    assert server.get("/denied", credentials("plain")).status == 403
    for target, status, more in (("/gif", 401, credentials("plain", "wrong")), ("/page", 200, "X: y")):
        begun = time.monotonic()
        assert server.get(target, more).status == status
        assert time.monotonic() - begun >= 0.59


def test_delay_holds_nobody_else(serve):
    server = serve(conf(server="auth_delay 60s;"), files={"users": USERS})
    with server.client() as refused, server.client() as leaving:
        refused.send("GET /gif HTTP/1.1\r\nHost: a\r\n\r\n")
        leaving.send("GET /gif HTTP/1.1\r\nHost: a\r\n\r\n")
        server.wait_log("no user/password was provided.*(\n.*)*no user/password was provided")
        assert server.get("/gif", credentials("plain")).status == 200
        leaving.reset()
        assert server.wait_lines("logs/access.log", 2)[1] == "499 - /gif"
        server.stop()
        with pytest.raises(Closed):
            refused.response()


def test_reload_changes_realm_and_file(serve):
    server = serve(conf(), files={"users": USERS, "others": "other:{PLAIN}word\n"})
    assert server.get("/gif", credentials("plain")).status == 200
    server.configure(conf().replace("auth_basic area; auth_basic_user_file users", "auth_basic new; auth_basic_user_file others"))
    old = server.children()
    server.reload()
    wait_workers(server, len(old), without=old)
    assert server.get("/gif").header("WWW-Authenticate") == 'Basic realm="new"'
    assert server.get("/gif", credentials("plain")).status == 401
    assert server.get("/gif", credentials("other", "word")).status == 200


@pytest.mark.parametrize("line, said", [
    ("auth_basic;", 'invalid number of arguments in "auth_basic" directive'),
    ("auth_basic a b;", 'invalid number of arguments in "auth_basic" directive'),
    ("auth_basic a; auth_basic b;", '"auth_basic" directive is duplicate'),
    ("auth_basic_user_file a; auth_basic_user_file b;", '"auth_basic_user_file" directive is duplicate'),
    ("if ($uri) { auth_basic a; }", '"auth_basic" directive is not allowed here'),
    ("auth_basic_user_file $nope;", 'unknown "nope" variable'),
])
def test_wrong_lines(tmp_path, line, said):
    path = tmp_path / "nginx.conf"
    path.write_text("events { } http { access_log off; server { listen 127.0.0.1:1; location / { %s } } }" % line)
    result = run_binary("-t", "-c", str(path), "-e", str(tmp_path / "log"), "-g", "pid %s/pid;" % tmp_path)
    assert result.returncode != 0
    assert said in result.stderr


def test_satisfy_any_in_its_old_form(serve):
    server = serve(conf("location /either { satisfy_any on; allow 10.0.0.0/8; deny all; empty_gif; }"
                        "location /both { satisfy_any off; deny all; empty_gif; }"), files={"users": USERS})
    assert 'the "satisfy_any" directive is deprecated, use the "satisfy" directive instead' in server.error_log
    assert server.get("/either").status == 401
    assert server.get("/either", credentials("plain")).status == 200
    assert server.get("/both", credentials("plain")).status == 403


@pytest.mark.skipif(HTPASSWD is None, reason="no htpasswd of Apache's")
@pytest.mark.parametrize("option, begins", [("-m", "$apr1$"), ("-s", "{SHA}"), ("-B", "$2y$"), ("-d", ""), ("-2", "$5$"), ("-5", "$6$")])
def test_lines_of_apaches_htpasswd(serve, option, begins):
    """Each hash that it makes, where the system's crypt has it; a new password takes the old one's place."""
    server = serve(conf(), files={"users": ""})

    def write(password):
        subprocess.run([HTPASSWD, "-b", option, server.path("users"), "someone", password], check=True, stderr=subprocess.DEVNULL)
        assert server.read("users").startswith("someone:" + begins)
    write("first")
    assert server.get("/gif", credentials("someone", "first")).status == 200
    assert server.get("/gif", credentials("someone", "second")).status == 401
    write("second!")
    assert server.get("/gif", credentials("someone", "second!")).status == 200
    assert server.get("/gif", credentials("someone", "first")).status == 401
    assert server.get("/gif", credentials("other", "second!")).status == 401
