"""auth_pam: PAM is asked by a configuration of the test's own, which runs a script (pam_exec)."""

import base64
import os

import pytest

from harness import binaries, run_binary
from harness.h2 import H2

MODULE = os.path.join(os.path.dirname(binaries.under_test()), "ngx_http_auth_pam_module.so")
EXEC = "/lib/x86_64-linux-gnu/security/pam_exec.so"

pytestmark = [pytest.mark.skipif("Portunus" not in binaries.version_text(binaries.under_test()), reason="not Portunus"),
              pytest.mark.skipif(not os.path.exists(MODULE), reason="built without PAM"),
              pytest.mark.skipif(not os.path.exists(EXEC), reason="no pam_exec")]

SCRIPT = """#!/bin/sh
read -r password
[ "$PAM_USER" != slow ] || read -r nothing < %(dir)s/gate
printf '%%s|%%s|%%s|%%s\\n' "$PAM_USER" "$PAM_RHOST" "$HOST" "$REQUEST" >> %(dir)s/asked
[ "$password" = "secret of $PAM_USER" ]
"""


def basic(user, password):
    return "Authorization: Basic " + base64.b64encode(("%s:%s" % (user, password)).encode()).decode()


def serving(serve, open_path, *locations, server="", main="", **more):
    os.chmod(open_path, 0o777)
    (open_path / "pam").mkdir()
    script = open_path / "check"
    script.write_text(SCRIPT % {"dir": open_path})
    script.chmod(0o755)
    (open_path / "asked").write_text("")
    (open_path / "asked").chmod(0o666)
    (open_path / "pam/nginx").write_text("auth required pam_exec.so quiet expose_authtok %s\naccount required pam_permit.so\n" % script)
    (open_path / "pam/closed").write_text("auth required pam_permit.so\naccount required pam_deny.so\n")
    (open_path / "pam/odd").write_text("auth required pam_nothing_of_this_name.so\naccount required pam_permit.so\n")
    return serve("""auth_pam_config_directory %s/pam; server { listen 127.0.0.1:@PORT@; root html; %s
        location / { auth_pam "The realm"; try_files /none @shown; }
        location @shown { auth_pam off; return 200 "hello $remote_user"; }
        location /open { auth_pam off; return 200 open; }
        %s }""" % (open_path, server, "\n".join(locations)), main="load_module %s; %s" % (MODULE, main), **more)


def test_right_and_wrong_passwords(serve, open_path):
    server = serving(serve, open_path)
    response = server.get("/", basic("ann", "secret of ann"))
    assert response.status == 200 and response.text == "hello ann"
    for header in ([], [basic("ann", "wrong")], [basic("ann", "")], [basic("bob", "secret of ann")], ["Authorization: Bearer x"],
                   ["Authorization: Basic !"]):
        response = server.get("/", *header)
        assert response.status == 401 and response.header("WWW-Authenticate") == 'Basic realm="The realm"'
    server.wait_log("PAM: user 'ann' - not authenticated: ")
    assert server.get("/open/x").status == 200


def test_who_asks_is_told(serve, open_path):
    server = serving(serve, open_path, "location /env { auth_pam x; auth_pam_set_pam_env on; try_files /none @shown; }")
    assert server.get("/", basic("ann", "secret of ann")).status == 200
    assert server.get("/env?a", basic("bob", "secret of bob")).status == 200
    assert (open_path / "asked").read_text().splitlines() == ["ann|127.0.0.1||", "bob|127.0.0.1|localhost|GET /env?a HTTP/1.1"]


def test_an_account_that_is_closed(serve, open_path):
    server = serving(serve, open_path, "location /closed { auth_pam x; auth_pam_service_name closed; }")
    assert server.get("/closed", basic("ann", "x")).status == 401
    server.wait_log("PAM: user 'ann' - invalid account: ")


def test_services_that_do_not_work(serve, open_path):
    server = serving(serve, open_path, "location /odd { auth_pam x; auth_pam_service_name odd; }")
    assert server.get("/odd", basic("ann", "x")).status == 401
    assert server.get("/open/x").status == 200


@pytest.mark.skipif("--with-sanitizer" in binaries.version_text(binaries.under_test()), reason="libpam 1.5 itself leaks 96 bytes then")
def test_a_service_that_is_not_there(serve, open_path):
    server = serving(serve, open_path, "location /none { auth_pam x; auth_pam_service_name nothing-of-this-name; }")
    assert server.get("/none", basic("ann", "x")).status == 500
    server.wait_log("PAM: Could not start pam service: ")


def test_odd_names(serve, open_path):
    server = serving(serve, open_path)
    for user in ("a" * 3000, "a\nb", "$(id)", "-x", "..", "ä", "%s%n"):
        assert server.get("/", basic(user, "wrong" * 100)).status == 401


def test_nobody_waits_for_a_slow_answer(serve, open_path):
    server = serving(serve, open_path, main="thread_pool auth_pam threads=1 max_queue=2;")
    os.mkfifo(open_path / "gate")
    os.chmod(open_path / "gate", 0o666)
    slow = [server.client() for _ in range(8)]
    for client in slow:
        client.send(("GET / HTTP/1.1\r\nHost: x\r\n%s\r\n\r\n" % basic("slow", "secret of slow")).encode())
    server.wait_log("too many passwords wait for PAM")
    assert server.get("/open/x").status == 200
    slow[0].reset()
    with open(open_path / "gate", "w", encoding="ascii") as gate:
        gate.write("\n" * 100)
        gate.flush()
        statuses = []
        for client in slow[1:]:
            statuses.append(client.response().status)
            client.close()
    assert 503 in statuses and set(statuses) <= {200, 503}


def test_one_client_leaves_threads_to_others(serve, open_path):
    server = serving(serve, open_path, server="set_real_ip_from 127.0.0.1; real_ip_header X-Real-IP;",
                     main="worker_processes 1; thread_pool auth_pam threads=2 max_queue=10;")
    os.mkfifo(open_path / "gate")
    os.chmod(open_path / "gate", 0o666)
    question = "GET / HTTP/1.1\r\nHost: x\r\nX-Real-IP: %s\r\n%s\r\n\r\n"
    slow = [server.client() for _ in range(8)]
    for client in slow:
        client.send((question % ("192.0.2.1", basic("slow", "secret of slow"))).encode())
    for _ in range(3):
        assert server.get("/", basic("ann", "secret of ann"), "X-Real-IP: 192.0.2.2").status == 200
    slow.pop(5).reset()
    with open(open_path / "gate", "w", encoding="ascii") as gate:
        gate.write("\n" * 100)
        gate.flush()
        assert [client.response().status for client in slow] == [200] * 7
    for client in slow:
        client.close()
    assert "too many passwords" not in server.error_log


def test_satisfy_any(serve, open_path):
    server = serving(serve, open_path, "location /any { satisfy any; allow 127.0.0.1; deny all; auth_pam x; try_files /none @shown; }",
                     "location /none { satisfy any; deny all; auth_pam x; try_files /none @shown; }")
    assert server.get("/any").status == 200
    assert server.get("/none").status == 401
    assert server.get("/none", basic("ann", "secret of ann")).status == 200


def test_http2(serve, open_path):
    server = serving(serve, open_path, server="http2 on;")
    name, value = basic("ann", "secret of ann").split(": ")
    with H2(server.port) as h2:
        assert h2.get("/").status == 401
        assert h2.get("/", headers=[(name.lower(), value)]).status == 200


def test_reload_and_inheritance(serve, open_path):
    server = serving(serve, open_path, "location /out { auth_pam a; location /out/in { try_files /none @shown; } }",
                     "location /limit { limit_except GET { auth_pam x; } try_files /none @shown; }")
    assert server.get("/out/in").header("WWW-Authenticate") == 'Basic realm="a"'
    assert server.get("/limit").status == 200
    with server.client() as client:
        assert client.request("/limit", method="DELETE").status == 401
    old = server.children()
    server.reload()
    server.wait_log("gracefully shutting down|reconfiguring")
    assert server.get("/", basic("ann", "secret of ann")).status == 200 and old


@pytest.mark.parametrize("line, message", [
    ("auth_pam;", 'invalid number of arguments in "auth_pam" directive'),
    ("auth_pam_service_name a/b;", '"auth_pam_service_name" directive invalid value'),
    ("auth_pam_set_pam_env x;", 'invalid value "x" in "auth_pam_set_pam_env" directive'),
    ("auth_pam $nosuch;", 'unknown "nosuch" variable'),
])
def test_bad_lines(open_path, line, message):
    (open_path / "logs").mkdir()
    path = open_path / "nginx.conf"
    path.write_text("load_module %s; events {} http { server { listen 127.0.0.1:8080; location / { %s } } }" % (MODULE, line))
    done = run_binary("-t", "-p", str(open_path), "-c", str(path))
    assert done.returncode == 1 and message in done.stderr
