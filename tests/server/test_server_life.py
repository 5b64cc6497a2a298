"""Master and workers: titles, user, pid file, daemon, signals, deaths."""

import grp
import os
import pwd
import re
import signal
import socket
import stat
import subprocess

import pytest

from harness import Client, Server, binaries, proc, run_binary, until
from harness.daemon import Daemon
from harness.workers import wait_workers

HTTP = 'server { listen 127.0.0.1:@PORT@; location / { return 200 "$pid\\n"; } }'

needs_root = pytest.mark.skipif(os.getuid() != 0, reason="needs root")
ours_alone = pytest.mark.skipif("Portunus" not in binaries.version_text(binaries.under_test()),
                                reason="nginx has other words or does not do it")


@pytest.fixture
def serve_daemon():
    """A function that starts Daemons."""
    servers = []

    def start(http=HTTP, main="", **kwargs):
        server = Daemon(http, main=main, **kwargs)
        server.configure(conf=server.conf.replace("daemon off;", "daemon on;"))
        servers.append(server)
        return server.start()

    yield start
    for server in servers:
        server.close()


# ---- what is seen from outside

def test_titles(serve):
    server = serve(HTTP, main="worker_processes 2;")
    wait_workers(server, 2)
    assert proc.title(server.pid) == "nginx: master process " + " ".join(server.command())


def test_title_of_a_worker_that_shuts_down(serve):
    server = serve(HTTP)
    old, = wait_workers(server, 1)
    client = server.client()
    client.send("GET / HTTP/1.1\r\n")
    # Answered once: the half head above was taken by then.
    server.get("/")
    server.reload()
    until(lambda: proc.title(old) == "nginx: worker process is shutting down", server.evidence)
    client.send("Host: a\r\n\r\n")
    answer = client.response()
    assert int(answer.text) == old
    client.close()
    until(lambda: not proc.is_alive(old), server.evidence)


@needs_root
def test_workers_run_as_the_user(serve):
    entry = pwd.getpwnam("www-data")
    server = serve(conf="""
        daemon off; user www-data; pid nginx.pid; error_log error.log info;
        events { }
        http { access_log off; client_body_temp_path body_temp; %s }
    """ % HTTP)
    worker, = wait_workers(server, 1)
    assert proc.status(worker, "Uid").split() == [str(entry.pw_uid)] * 4
    assert proc.status(worker, "Gid").split() == [str(entry.pw_gid)] * 4
    wanted = {entry.pw_gid} | {group.gr_gid for group in grp.getgrall()
                               if "www-data" in group.gr_mem}
    assert {int(word) for word in proc.status(worker, "Groups").split()} == wanted
    assert int(proc.status(worker, "CapEff"), 16) == 0
    assert proc.user(server.pid) == 0
    assert os.stat(server.path("body_temp")).st_uid == entry.pw_uid


@needs_root
def test_user_without_root_is_a_warning():
    server = Server(conf="user www-data; pid logs/nginx.pid; events { }")
    done = run_binary("--reuid=65534", "--clear-groups", "--", binaries.under_test(), "-t",
                      "-p", server.dir + "/", "-c", "nginx.conf", "-e", "stderr",
                      binary="/usr/bin/setpriv")
    server.close()
    assert re.search(r"\[warn\] .*\"user\" directive makes sense only if the master process runs "
                     r"with super-user privileges, ignored", done.stderr), done.stderr


def test_pid_file(serve):
    server = serve(HTTP)
    assert server.read("nginx.pid") == "%d\n" % server.pid
    assert stat.S_IMODE(os.stat(server.path("nginx.pid")).st_mode) == 0o644
    assert server.quit() == 0
    assert not os.path.exists(server.path("nginx.pid"))


def test_pid_file_moves_at_a_reload(serve):
    server = serve(HTTP)
    server.configure(conf=server.conf.replace("pid nginx.pid;", "pid other.pid;"))
    server.signal("reload")
    until(lambda: server.read("other.pid") == "%d\n" % server.pid, server.evidence)
    until(lambda: not os.path.exists(server.path("nginx.pid")), "the old pid file to go")
    assert server.quit() == 0
    assert not os.path.exists(server.path("other.pid"))


def test_pid_file_gets_another_name_of_the_same_file(serve):
    """As from /var/run/x.pid to /run/x.pid, where one folder is a link to the other. The file stays, and goes at the end."""
    server = serve(HTTP, files={"run/x": ""})
    os.symlink("run", server.path("link"))
    for name in "link/a.pid", "run/a.pid", "link/a.pid":
        server.configure(conf=re.sub(r"pid \S+;", "pid %s;" % name, server.conf, count=1))
        workers = server.children()
        server.reload()
        wait_workers(server, 1, without=workers)
        until(lambda: server.read("run/a.pid") == "%d\n" % server.pid, "the pid file")
    assert not os.path.exists(server.path("nginx.pid"))
    server.quit()
    assert not os.path.exists(server.path("run/a.pid"))


@ours_alone
def test_relative_prefix(tmp_path):
    """Each path is made full once: temporary folders, roots with variables, logs."""
    (tmp_path / "x/html/a").mkdir(parents=True)
    (tmp_path / "x/html/a/file").write_text("hello")
    (tmp_path / "x/n.conf").write_text("""
        daemon off; master_process off; pid n.pid; error_log e.log; events { }
        http {
            access_log a.log; client_body_temp_path body; proxy_temp_path proxy 1 2; proxy_cache_path cache keys_zone=z:1m;
            server { listen unix:%s/s; location / { root html/$host; } location /up { client_body_in_file_only clean; proxy_pass http://unix:%s/s:/file; } }
        }""" % (tmp_path, tmp_path))
    process = subprocess.Popen([binaries.under_test(), "-p", "x/", "-c", "n.conf", "-e", "e.log"], cwd=tmp_path)
    try:
        until((tmp_path / "x/n.pid").exists, "the pid file")
        with Client(str(tmp_path / "s")) as client:
            assert client.request("/file", host="a").text == "hello"
            assert client.request("/up", method="POST", host="localhost", body=b"x").status == 404
    finally:
        process.terminate()
        process.wait()
    assert sorted(name for name in os.listdir(tmp_path / "x") if "temp" not in name) == [
        "a.log", "body", "cache", "e.log", "html", "n.conf", "proxy"]


def test_pid_file_that_cannot_be_written(tmp_path):
    (tmp_path / "nginx.conf").write_text(
        "daemon off; pid none/nginx.pid; events { } http { access_log off; }")
    done = run_binary("-p", "%s/" % tmp_path, "-c", "nginx.conf", "-e", "stderr")
    assert done.returncode == 1
    assert 'open() "%s/none/nginx.pid" failed (2: No such file or directory)' % tmp_path \
        in done.stderr


# ---- daemon and single process

def test_daemon(serve_daemon):
    server = serve_daemon()
    assert server.get("/").status == 200
    assert proc.parent(server.pid) != os.getpid()
    assert os.getsid(server.pid) != os.getsid(0)
    for number in (0, 1):
        assert os.readlink("/proc/%d/fd/%d" % (server.pid, number)) == "/dev/null"
    # Standard error goes where the log goes, so that nothing is lost.
    assert os.readlink("/proc/%d/fd/2" % server.pid) == server.path("error.log")
    assert server.quit() == 0
    assert not os.path.exists(server.path("nginx.pid"))


@ours_alone
def test_daemon_serves_when_the_command_has_ended(serve_daemon):
    """With nginx the sockets listen by then; here the failure of the pid file shows, too."""
    server = serve_daemon()
    with server.client() as client:
        assert client.request("/").status == 200


def test_daemon_that_fails_says_so(tmp_path):
    (tmp_path / "nginx.conf").write_text(
        "daemon on; pid none/nginx.pid; events { } http { access_log off; }")
    done = run_binary("-p", "%s/" % tmp_path, "-c", "nginx.conf", "-e", "stderr")
    assert "none/nginx.pid" in done.stderr
    if "Portunus" in binaries.version_text(binaries.under_test()):
        assert done.returncode == 1


def test_one_process_alone(serve):
    server = serve(HTTP, main="master_process off;")
    assert server.get("/").text == "%d\n" % server.pid
    assert server.children() == []
    with server.client() as kept:
        assert kept.request("/").status == 200
        server.configure(HTTP.replace('"$pid\\n"', "changed"), main="master_process off;")
        server.signal("reload")
        until(lambda: server.get("/").text == "changed", server.evidence)
        assert kept.request("/").text == "changed"
    assert server.quit() == 0
    assert not os.path.exists(server.path("nginx.pid"))


def test_one_process_alone_survives_a_bad_reload(serve):
    server = serve(HTTP, main="master_process off;", allow=["unknown directive"])
    server.configure(HTTP + " nonsense;", main="master_process off;")
    server.signal("reload")
    server.wait_log(r'unknown directive "nonsense"')
    assert server.get("/").text == "%d\n" % server.pid


def test_one_process_alone_reopens_and_stops(serve):
    server = serve(HTTP, main="master_process off;")
    os.rename(server.path("error.log"), server.path("old.log"))
    server.signal("reopen")
    until(lambda: os.path.exists(server.path("error.log")), "the new log")
    assert server.stop() == 0


# ---- the words of -s

def send(server, word, **kwargs):
    return run_binary("-p", server.dir + "/", "-c", "nginx.conf", "-e", "error.log", "-s", word,
                      **kwargs)


@pytest.mark.parametrize("word", ["stop", "quit"])
def test_s_ends_the_server(serve, word):
    server = serve(HTTP)
    done = send(server, word)
    assert (done.returncode, done.stderr) == (0, "")
    assert server.wait_end() == 0
    assert "signal process started" in server.error_log


def test_s_reload(serve):
    server = serve(HTTP)
    old, = wait_workers(server, 1)
    assert send(server, "reload").returncode == 0
    until(lambda: not proc.is_alive(old), server.evidence)
    assert proc.parent(int(server.get("/").text)) == server.pid


def test_s_reopen(serve):
    server = serve(HTTP)
    os.rename(server.path("error.log"), server.path("old.log"))
    assert send(server, "reopen").returncode == 0
    until(lambda: os.path.exists(server.path("error.log")), server.evidence)


def test_s_without_a_server(serve):
    server = serve(HTTP)
    server.quit()
    done = send(server, "stop")
    assert done.returncode == 1
    assert 'open() "%s" failed (2: No such file or directory)' % server.path("nginx.pid") \
        in done.stderr
    server.write("nginx.pid", "nonsense\n")
    done = send(server, "stop")
    assert done.returncode == 1
    assert 'invalid PID number "nonsense" in "%s"' % server.path("nginx.pid") in done.stderr
    server.write("nginx.pid", "4194303\n")
    done = send(server, "stop")
    assert done.returncode == 1
    assert "kill(4194303, 15) failed (3: No such process)" in done.stderr
    server.allow += ["kill", "invalid PID"]


# ---- signals

def test_signals_right_after_the_start(serve):
    """A signal that comes as soon as the pid file is there is obeyed, not deadly."""
    for _ in range(10):
        server = serve(HTTP)
        server.signal("reload")
        server.wait_log("reconfiguring")
        assert server.get("/").status == 200


def test_stop_is_fast_and_quit_is_gentle(serve):
    server = serve(HTTP)
    client = server.client()
    client.send("GET / HTTP/1.1\r\nHo")
    server.get("/")
    server.signal("quit")
    server.wait_log("gracefully shutting down")
    client.send("st: a\r\n\r\n")
    assert client.response().status == 200
    assert server.wait_end() == 0

    server = serve(HTTP)
    client = server.client()
    client.send("GET / HTTP/1.1\r\nHo")
    server.get("/")
    assert server.stop() == 0
    assert client.rest_or_reset() == b""


def test_stop_kills_a_worker_that_does_not_listen(serve):
    server = serve(HTTP, allow=["exited on signal 9"])
    worker, = wait_workers(server, 1)
    os.kill(worker, signal.SIGSTOP)
    assert server.stop() == 0
    assert not proc.is_alive(worker)
    assert "worker process %d exited on signal 9" % worker in server.error_log


def test_winch_ends_workers_and_hup_brings_them_back(serve_daemon):
    server = serve_daemon(main="worker_processes 2;")
    wait_workers(server, 2)
    server.signal("winch")
    until(lambda: server.children() == [], server.evidence)
    assert proc.is_alive(server.pid)
    client = server.client()  # the master still has the sockets: it waits
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
    server.signal("reload")
    assert client.response().status == 200
    wait_workers(server, 2)


def test_winch_without_daemon_does_nothing(serve):
    server = serve(HTTP)
    worker, = wait_workers(server, 1)
    server.signal("winch")
    server.wait_log(r"signal 28 \(SIGWINCH\) received")
    assert server.get("/").text == "%d\n" % worker


def test_hup_to_a_worker_is_ignored(serve):
    server = serve(HTTP)
    worker, = wait_workers(server, 1)
    for number in (signal.SIGHUP, signal.SIGUSR2, signal.SIGIO):
        os.kill(worker, number)
        assert server.get("/").text == "%d\n" % worker


def test_quit_to_a_worker_makes_room_for_another(serve):
    server = serve(HTTP)
    worker, = wait_workers(server, 1)
    os.kill(worker, signal.SIGQUIT)
    until(lambda: not proc.is_alive(worker), server.evidence)
    assert int(server.get("/").text) != worker


def test_every_signal_is_logged_with_its_sender(serve):
    server = serve(HTTP)
    server.signal("reopen")
    server.wait_log(r"signal 10 \(SIGUSR1\) received from %d, reopening logs" % os.getpid())
    server.signal("reload")
    server.wait_log(r"signal 1 \(SIGHUP\) received from %d, reconfiguring" % os.getpid())


# ---- logs

@pytest.mark.parametrize("signalled", ["master", "worker"])
def test_usr1_follows_rotated_files(serve, signalled):
    server = serve("log_format f $uri; access_log logs/access.log f;" + HTTP)
    worker, = wait_workers(server, 1)
    server.get("/before")
    until(lambda: server.lines("logs/access.log") == ["/before"], "the line")
    for name in ("logs/access.log", "error.log"):
        os.rename(server.path(name), server.path(name + ".1"))
    server.get("/between")
    until(lambda: server.lines("logs/access.log.1") == ["/before", "/between"], "the line")
    if signalled == "master":
        server.signal("reopen")
        until(lambda: os.path.exists(server.path("logs/access.log")), server.evidence)
    else:
        # The master still has the old error log; the worker makes its access log by itself.
        os.kill(worker, signal.SIGUSR1)
        until(lambda: os.path.exists(server.path("logs/access.log")), server.evidence)
    if signalled == "master" and os.getuid() == 0:
        until(lambda: os.stat(server.path("logs/access.log")).st_uid == proc.user(worker),
              "the log to be given to the worker")

    def moved():
        server.get("/after")
        return "/after" in server.lines("logs/access.log")
    until(moved, "lines in the new file")
    assert "/after" not in server.lines("logs/access.log.1")[-1:]
    if signalled == "master":
        assert server.children() == [worker]
        assert "reopening logs" in server.read("error.log") + server.read("error.log.1")


# ---- reloads that fail

@pytest.mark.parametrize("change, why", [
    ("nonsense on;", r'\[emerg\] .*unknown directive "nonsense" in .*nginx.conf:'),
    ("server { listen 127.0.0.1:@PORT@ backlog=none; }", r'\[emerg\] .*invalid backlog "backlog=none"'),
    ("server {", r'\[emerg\] .*unexpected end of file, expecting "}" in'),
    ("access_log none/access.log;", r'\[emerg\] .*open\(\) ".*none/access.log" failed \(2:'),
    ("server { listen 127.0.0.1:@PORT1@; }",
     r"\[emerg\] .*bind\(\) to 127.0.0.1:\d+ failed \(98: Address already in use\)"),
    ("server { listen 192.0.2.1:@PORT1@; }",
     r"\[emerg\] .*bind\(\) to 192.0.2.1:\d+ failed \(99: Cannot assign requested address\)"),
])
def test_bad_reload_keeps_the_old_generation(serve, change, why):
    server = serve(HTTP, main="worker_processes 2;", allow=[r"\[emerg\]"])
    before = wait_workers(server, 2)
    with socket.create_server(("127.0.0.1", server.port_of("PORT1"))):
        with server.client() as kept:
            kept.request("/")
            server.configure(HTTP + change, main="worker_processes 4;")
            server.signal("reload")
            server.wait_log(why)
            assert kept.request("/").status == 200
            assert int(server.get("/").text) in before
            assert server.children() == before
    server.configure(HTTP, main="worker_processes 3;")
    server.signal("reload")
    until(lambda: not set(before) & set(server.children()), server.evidence)
    wait_workers(server, 3)


def test_reload_without_the_file(serve):
    server = serve(HTTP, allow=[r"\[emerg\]"])
    before = wait_workers(server, 1)
    os.unlink(server.path("nginx.conf"))
    server.signal("reload")
    server.wait_log(r'open\(\) ".*nginx.conf" failed \(2: No such file or directory\)')
    assert int(server.get("/").text) in before


# ---- deaths

@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM])
def test_worker_that_dies_is_replaced(serve, number):
    if number == signal.SIGSEGV and "sanitize" in binaries.version_text(binaries.under_test()):
        pytest.skip("the sanitizer takes this signal")
    server = serve(HTTP, main="worker_processes 2;", allow=[r"exited on signal", r"crash|signal 11"])
    victim = wait_workers(server, 2)[0]
    os.kill(victim, number)
    until(lambda: not proc.is_alive(victim), server.evidence)
    assert victim not in wait_workers(server, 2)
    for _ in range(20):
        assert server.get("/").status == 200
    if number != signal.SIGTERM:
        server.wait_log(r"\[alert\] .*worker process %d exited on signal %d" % (victim, number))
    else:
        server.wait_log(r"\[notice\] .*worker process %d exited with code 0" % victim)


def test_worker_that_cannot_start_is_not_respawned(serve):
    server = serve(HTTP, main="worker_processes 2; working_directory @DIR@/work;",
                   files={"work": None},
                   allow=[r"chdir", r"exited on signal 9", r"fatal code 2"])
    victim, other = wait_workers(server, 2)
    os.rmdir(server.path("work"))
    os.kill(victim, signal.SIGKILL)
    server.wait_log(r'chdir\(".*work"\) failed \(2: No such file or directory\)')
    server.wait_log(r"\[alert\] .*worker process \d+ exited with fatal code 2 and cannot be "
                    r"respawned")
    assert server.children() == [other]
    for _ in range(40):
        assert int(server.get("/").text) == other
    assert server.error_log.count("cannot be respawned") == 1


def test_master_that_is_killed_leaves_workers_that_serve(serve):
    server = serve(HTTP, exit_code=-9)
    worker, = wait_workers(server, 1)
    os.kill(server.pid, signal.SIGKILL)
    server.process.wait()
    with Client(server.port) as client:
        assert client.request("/").text == "%d\n" % worker
    os.kill(worker, signal.SIGQUIT)
    until(lambda: not proc.is_alive(worker), "the worker's end")
