"""Listening sockets: who has them, who may not, and what they survive."""

import os
import re
import signal
import socket
import stat
import subprocess
import time

import pytest

from harness import Client, Server, binaries, proc, run_binary, until
from harness.daemon import follow_upgrade
from harness.workers import wait_workers

HTTP = 'server { listen 127.0.0.1:@PORT@ %s; location / { return 200 "$pid\\n"; } }'
PLAIN = HTTP % ""

ours_alone = pytest.mark.skipif("Portunus" not in binaries.version_text(binaries.under_test()),
                                reason="nginx does otherwise")


def reload(server, count, **kwargs):
    old = server.children()
    server.configure(**kwargs)
    server.signal("reload")
    return wait_workers(server, count, without=old)


def wait_sockets(server, count):
    until(lambda: proc.listening(server.port) == count,
          lambda: "%d sockets, not %d\n%s" % (count, proc.listening(server.port),
                                              server.evidence()))


def check(server, *args):
    """-t on the configuration of a server."""
    return run_binary("-t", "-p", server.dir + "/", "-c", "nginx.conf", "-e", "stderr", *args)


# ---- another one is there

@pytest.mark.parametrize("where", ["127.0.0.1:@PORT@", "*:@PORT@", "unix:@DIR@/http.sock"])
def test_t_never_binds(where):
    """A busy address is no error of the configuration."""
    server = Server("server { listen %s; }" % where)
    if where.startswith("unix"):
        other = socket.socket(socket.AF_UNIX)
        other.bind(server.path("http.sock"))
    else:
        other = socket.create_server(("127.0.0.1", server.port))
    with other:
        other.listen()
        done = check(server)
        assert done.returncode == 0, done.stderr
        assert "test is successful" in done.stderr
        if where.startswith("unix"):
            assert os.path.exists(server.path("http.sock"))
    server.close()


def test_t_beside_the_running_server_changes_nothing(serve):
    server = serve(PLAIN, main="worker_processes 2;")
    before = wait_workers(server, 2), server.read("nginx.pid")
    sockets = proc.sockets(server.pid)
    for _ in range(3):
        assert check(server).returncode == 0
    assert (wait_workers(server, 2), server.read("nginx.pid")) == before
    # Workers may work before the master has closed their ends of its channels.
    assert set(proc.sockets(server.pid)) <= set(sockets)
    for _ in range(20):
        assert server.get("/").status == 200


def start_second(server, **kwargs):
    """Another server on the same port: gives its exit code and what it said."""
    second = Server(conf=server.conf.replace("daemon off;", ""), **kwargs)
    second.configure(conf="daemon off;\nerror_log stderr notice;\n" + second.conf.replace(
        "error_log error.log info;", ""))
    done = run_binary("-p", second.dir + "/", "-c", "nginx.conf", "-e", "stderr")
    second.close()
    return done


@pytest.mark.parametrize("events", ["", "reuse_port on;", "reuse_port off;"])
def test_second_server_is_told_that_the_address_is_in_use(serve, events):
    """Although both say SO_REUSEPORT, so that the kernel would let the second one in."""
    server = serve(PLAIN, main="worker_processes 2;", events=events)
    wait_workers(server, 2)
    done = start_second(server)
    assert done.returncode == 1
    assert done.stderr.count("bind() to 127.0.0.1:%d failed (98: Address already in use)"
                             % server.port) == 5
    assert done.stderr.count("try again to bind() after 500ms") == 5
    assert "still could not bind()" in done.stderr
    wait_sockets(server, 1 if events == "reuse_port off;" else 2)
    for _ in range(20):
        assert server.get("/").status == 200


@ours_alone
def test_second_server_with_reuseport_on_the_line(serve):
    server = serve(HTTP % "reuseport", main="worker_processes 2;")
    wait_workers(server, 2)
    done = start_second(server)
    assert done.returncode == 1
    assert "failed (98: Address already in use)" in done.stderr


def test_address_that_becomes_free_in_time_is_taken():
    server = Server(PLAIN, allow=[r"bind\(\).*Address already in use"])
    other = socket.create_server(("127.0.0.1", server.port))
    server.start(wait=False)
    server.wait_log(r"try again to bind\(\) after 500ms")
    other.close()
    with server:
        server.wait_ready()
        assert server.get("/").status == 200


# ---- the addresses

def test_unix_socket(serve):
    server = serve("server { listen unix:@DIR@/http.sock; return 200 $remote_addr; }")
    path = server.path("http.sock")
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o666
    with Client(path) as client:
        assert client.request("/").text == "unix:"
    server.quit()
    assert not os.path.exists(path)


def test_unix_socket_survives_reloads(serve):
    server = serve("server { listen unix:@DIR@/http.sock; return 200 ok; }",
                   main="worker_processes 3;")
    wait_workers(server, 3)
    with Client(server.path("http.sock")) as kept:
        assert kept.request("/").text == "ok"
        for count in (1, 4):
            reload(server, count, http="server { listen unix:@DIR@/http.sock; return 200 ok; }",
                   main="worker_processes %d;" % count)
            assert kept.request("/", method="POST", body="x").text == "ok"
            with Client(server.path("http.sock")) as client:
                assert client.request("/").text == "ok"


def test_unix_socket_that_is_taken_away_by_a_reload(serve):
    server = serve("server { listen unix:@DIR@/http.sock; return 200 ok; }" + PLAIN)
    reload(server, 1, http=PLAIN)
    until(lambda: not os.path.exists(server.path("http.sock")), "the file to go")


def test_stale_unix_socket_is_not_taken():
    server = Server("server { listen unix:@DIR@/http.sock; }")
    with socket.socket(socket.AF_UNIX) as stale:
        stale.bind(server.path("http.sock"))
    done = run_binary("-p", server.dir + "/", "-c", "nginx.conf", "-e", "stderr")
    assert done.returncode == 1
    log = done.stderr + server.error_log
    assert re.search(r"bind\(\) to unix:\S+/http.sock failed \(98: Address already in use\)", log)
    server.close()


def test_ipv6(serve):
    server = serve("server { listen [::1]:@PORT@; return 200 $remote_addr; }",
                   main="worker_processes 2;")
    wait_workers(server, 2)
    for _ in range(10):
        with Client(("::1", server.port)) as client:
            assert client.request("/").text == "::1"


def test_wildcard_and_address_on_one_port(serve):
    server = serve("""
        server { listen @PORT@; return 200 any; }
        server { listen 127.0.0.2:@PORT@; return 200 two; }
        server { listen [::]:@PORT@; return 200 six; }
    """, main="worker_processes 2;")
    wait_workers(server, 2)
    for _ in range(10):
        for host, text in (("127.0.0.1", "any"), ("127.0.0.2", "two"), ("::1", "six")):
            with Client((host, server.port)) as client:
                assert client.request("/").text == text


def test_several_names_for_one_address_share_its_socket(serve):
    server = serve("""
        server { listen 127.0.0.1:@PORT@; server_name a; return 200 a; }
        server { listen 127.0.0.1:@PORT@; server_name b; return 200 b; }
        server { listen localhost:@PORT@; server_name c; return 200 c; }
    """)
    wait_workers(server, 1)
    for name in "abc":
        assert server.get("/", host=name).text == name


@ours_alone
def test_reuseport_on_several_lines_of_one_address(serve):
    server = serve("""
        server { listen 127.0.0.1:@PORT@ reuseport; server_name a; return 200 a; }
        server { listen 127.0.0.1:@PORT@ reuseport; server_name b; return 200 b; }
    """, main="worker_processes 2;", events="reuse_port off;")
    wait_workers(server, 2)
    wait_sockets(server, 2)
    assert server.get("/", host="b").text == "b"


# ---- shards

@ours_alone
def test_sharding_is_on_where_there_is_more_than_one_worker(serve):
    for count in (1, 3):
        server = serve(PLAIN, main="worker_processes %d;" % count)
        wait_workers(server, count)
        wait_sockets(server, count)


@ours_alone
def test_reuse_port_by_reload_in_both_directions(serve):
    server = serve(PLAIN, main="worker_processes 3;", events="reuse_port on;")
    wait_workers(server, 3)
    for events, count in (("reuse_port off;", 1), ("reuse_port on;", 3), ("reuse_port off;", 1),
                          ("", 3)):
        reload(server, 3, http=PLAIN, main="worker_processes 3;", events=events)
        wait_sockets(server, count)
        for _ in range(20):
            assert server.get("/").status == 200


@ours_alone
def test_reuseport_on_the_line_by_reload(serve):
    server = serve(HTTP % "reuseport", main="worker_processes 2;", events="reuse_port off;")
    wait_workers(server, 2)
    wait_sockets(server, 2)
    reload(server, 2, http=PLAIN, main="worker_processes 2;", events="reuse_port off;")
    wait_sockets(server, 1)
    reload(server, 2, http=HTTP % "reuseport", main="worker_processes 2;",
           events="reuse_port off;")
    wait_sockets(server, 2)
    assert server.get("/").status == 200


@ours_alone
def test_a_slot_keeps_its_socket_over_reloads_and_deaths(serve):
    """Rule 1: the sockets of the master stay the same ones."""
    server = serve(PLAIN, main="worker_processes 2;", allow=["exited on signal 9"])
    old = wait_workers(server, 2)
    first = set(proc.sockets(server.pid))
    listening = {inode for inode in first if inode in proc.sockets(old[0]) + proc.sockets(old[1])}
    reload(server, 2, http=PLAIN, main="worker_processes 2;")
    victim = wait_workers(server, 2)[0]
    os.kill(victim, 9)
    until(lambda: not proc.is_alive(victim), "the end of the victim")
    wait_workers(server, 2)
    reload(server, 4, http=PLAIN, main="worker_processes 4;")
    reload(server, 2, http=PLAIN, main="worker_processes 2;")
    wait_sockets(server, 2)
    common = listening & set(proc.sockets(server.pid))
    assert len(common) >= 2, (listening, proc.sockets(server.pid))


@ours_alone
def listening_sockets(port):
    """The sockets that listen on a port of IPv4, as proc.sockets names them."""
    with open("/proc/net/tcp", encoding="ascii") as file:
        rows = [line.split() for line in file.readlines()[1:]]
    return {"socket:[%s]" % row[9] for row in rows if row[3] == "0A" and int(row[1].split(":")[1], 16) == port}


def test_worker_has_the_sockets_that_it_watches_and_no_others(serve):
    """Rule 7: those of its group, of ten workers or of nine."""
    server = serve(PLAIN, main="worker_processes 19;")
    pids = wait_workers(server, 19)
    listening = listening_sockets(server.port)
    assert len(listening) == 19
    sets = [frozenset(set(proc.sockets(pid)) & listening) for pid in pids]
    assert sorted(map(len, sets)) == [9] * 9 + [10] * 10
    first, second = set(sets)
    assert first | second == listening and not first & second


def test_counters_are_summed_over_slots(serve):
    server = serve(PLAIN + "server { listen 127.0.0.1:@PORT1@; stub_status; }",
                   main="worker_processes 3;")
    wait_workers(server, 3)
    kept = [server.client() for _ in range(12)]
    for client in kept:
        client.request("/")
    for _ in range(20):
        server.get("/")
    asked = 0

    def shows(wanted):
        nonlocal asked
        asked += 1
        text = server.get("/", port=server.port_of("PORT1")).text
        counts = [int(word) for word in text.split("\n")[2].split()[:3]]
        assert counts == [32 + asked] * 3, text
        return wanted in text
    # The 20 have closed; the server sees that a little later.
    until(lambda: shows("Active connections: 13 "), "13 connections")
    reload(server, 1, http=PLAIN + "server { listen 127.0.0.1:@PORT1@; stub_status; }",
           main="worker_processes 1;")
    until(lambda: shows("Active connections: 13 "), "13 connections after the reload")


# ---- systemd

def test_listen_fds():
    server = Server(PLAIN)
    with socket.socket() as given:
        given.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        given.bind(("127.0.0.1", server.port))
        given.listen()
        early = Client(server.port)  # waits in the queue before there is a server
        early.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        command = server.command()
        script = 'exec 3<&%d; LISTEN_PID=$$ LISTEN_FDS=1 exec "$@"' % given.fileno()
        server.command = lambda: ["/bin/bash", "-c", script, "sh", *command]
        server._stderr = open(server.path("stderr.txt"), "ab")
        server.process = subprocess.Popen(
            server.command(), stdin=subprocess.DEVNULL, stdout=server._stderr,
            stderr=server._stderr, cwd=server.dir, start_new_session=True,
            pass_fds=[given.fileno()])
        server.wait_ready()
    assert "using 1 sockets from systemd" in server.error_log
    assert early.response().status == 200
    assert server.get("/").status == 200
    server.signal("reload")
    server.wait_log("reconfiguring")
    assert server.get("/").status == 200
    server.close()


class Manager:
    """The other end of NOTIFY_SOCKET."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(path)
        self.socket.settimeout(10)

    def next(self):
        return self.socket.recv(4096).decode()


@ours_alone
def test_notify_socket(tmp_path):
    manager = Manager(str(tmp_path / "notify"))
    server = Server(PLAIN, env=dict(os.environ, NOTIFY_SOCKET=str(tmp_path / "notify")))
    server.start()
    assert "READY=1" in manager.next()
    assert server.get("/").status == 200
    before = time.clock_gettime(time.CLOCK_MONOTONIC)
    server.signal("reload")
    text = manager.next()
    assert "RELOADING=1" in text
    stamp = int(re.search(r"MONOTONIC_USEC=(\d+)", text).group(1)) / 1e6
    assert before <= stamp <= time.clock_gettime(time.CLOCK_MONOTONIC)
    assert "READY=1" in manager.next()
    server.signal("quit")
    assert "STOPPING=1" in manager.next()
    server.wait_end()
    server.close()


@ours_alone
def test_notify_of_a_reload_that_fails(tmp_path):
    """The manager must not wait for ever."""
    manager = Manager(str(tmp_path / "notify"))
    server = Server(PLAIN, env=dict(os.environ, NOTIFY_SOCKET=str(tmp_path / "notify")),
                    allow=["unknown directive"])
    server.start()
    assert "READY=1" in manager.next()
    server.configure(PLAIN + "nonsense;")
    server.signal("reload")
    assert "RELOADING=1" in manager.next()
    assert "READY=1" in manager.next()
    server.close()


@ours_alone
def test_notify_of_an_upgrade(tmp_path):
    """Only the last master says that the service ends."""
    manager = Manager(str(tmp_path / "notify"))
    server = Server(PLAIN, main="worker_processes 1;", env=dict(os.environ, NOTIFY_SOCKET=str(tmp_path / "notify")))
    server.start()
    assert "READY=1" in manager.next()
    server.signal("upgrade")
    text = manager.next()
    new = int(re.search(r"MAINPID=(\d+)", text).group(1))
    assert "READY=1" in text and new != server.pid
    server.signal("quit")
    assert manager.next() == "MAINPID=%d\n" % new
    assert follow_upgrade(server) == new
    assert int(manager.next().split("=")[1]) in server.children()  # so that the next is a change
    assert manager.next() == "MAINPID=%d\n" % new
    server.signal("quit")
    assert manager.next() == "STOPPING=1\n"
    server.wait_end()
    server.close()


@ours_alone
def test_notify_of_an_upgrade_that_is_taken_back(tmp_path):
    manager = Manager(str(tmp_path / "notify"))
    server = Server(PLAIN, env=dict(os.environ, NOTIFY_SOCKET=str(tmp_path / "notify")))
    server.start()
    assert "READY=1" in manager.next()
    server.signal("upgrade")
    new = int(re.search(r"MAINPID=(\d+)", manager.next()).group(1))
    os.kill(new, signal.SIGQUIT)
    assert manager.next() == "READY=1\nMAINPID=%d\n" % server.pid
    server.close()
    assert manager.next() == "STOPPING=1\n"
