"""USR2: another binary takes over beside the running one, and back again."""

import os
import re
import signal
import subprocess
import threading

import pytest

from harness import Client, binaries, proc, until
from harness.daemon import Adopted, Daemon, children, follow_upgrade, swap_binary, upgrade, workers_of

HTTP = 'server { listen 127.0.0.1:@PORT@; location / { return 200 "$pid\\n"; } }'
REFERENCE = "/usr/sbin/nginx"

ours_alone = pytest.mark.skipif("Portunus" not in binaries.version_text(binaries.under_test()),
                                reason="is about Portunus and nginx")


@pytest.fixture
def daemon():
    """A function that starts a Daemon of so many workers with a binary in its own directory, so
    that it can be replaced: server.binary."""
    servers = []

    def start(count=2, binary=None, http=HTTP, **kwargs):
        server = Daemon(http, main="worker_processes %d;" % count, **kwargs)
        server.configure(conf=server.conf.replace("daemon off;", "daemon on;"))
        swap_binary(server.path("nginx"), binary or server.binary)
        server.binary = server.path("nginx")
        servers.append(server)
        server.start()
        # nginx may lose a signal that comes before its workers.
        until(lambda: len(workers_of(server.pid)) == count, server.evidence)
        return server

    yield start
    for server in servers:
        left = Adopted(int(server.read("nginx.pid") or 0) or server.pid)
        server.close()
        if proc.is_alive(left.pid):  # of an upgrade that the test did not see to its end
            os.kill(left.pid, signal.SIGTERM)
            left.wait()


def answering(server, times=24):
    """The workers that answer."""
    return {int(server.get("/").text) for _ in range(times)}


def test_new_binary_serves_and_the_old_one_leaves(daemon):
    server = daemon()
    old = server.pid
    new = upgrade(server)
    assert proc.parent(new) == old
    assert proc.title(new) == proc.title(old)
    assert "changing binary" in server.error_log
    assert re.search(r"start new binary process %d" % new, server.error_log)
    assert re.search(r'using inherited sockets from "(\d+;)+"', server.error_log)
    os.kill(old, signal.SIGQUIT)
    assert follow_upgrade(server) == new
    assert not os.path.exists(server.path("nginx.pid.oldbin"))
    assert answering(server) <= set(workers_of(new))
    assert proc.listening(server.port) == 2


class Busy(threading.Thread):
    """A client that asks again and again on one connection, and opens another one only where it was told that this one closes."""

    def __init__(self, server):
        super().__init__(daemon=True)
        self.server, self.is_over, self.asked, self.workers, self.reconnects, self.failure = server, False, 0, set(), 0, None

    def run(self):
        client = None
        try:
            while not self.is_over:
                if client is None:
                    client = Client(("127.0.0.1", self.server.port))
                answer = client.request("/")
                self.workers.add(int(answer.text))
                self.asked += 1
                if answer.closes:
                    client.close()
                    client = None
                    self.reconnects += 1
        except (AssertionError, OSError) as failure:
            self.failure = failure


def busy_clients(server, count):
    clients = [Busy(server) for _ in range(count)]
    for client in clients:
        client.start()
    until(lambda: all(client.asked > 3 or client.failure for client in clients), "requests of all clients")
    return clients


def all_are_served(clients, workers):
    """Until each was answered by these workers alone; then they end."""
    for client in clients:
        client.workers = set()
    before = [client.asked for client in clients]
    until(lambda: all(client.asked > n + 3 or client.failure for client, n in zip(clients, before)), "requests of all clients")
    for client in clients:
        client.is_over = True
    for client in clients:
        client.join()
    assert [client.failure for client in clients if client.failure] == []
    for client in clients:
        assert client.workers <= set(workers)


@ours_alone
@pytest.mark.parametrize("signals", [[signal.SIGQUIT], [signal.SIGWINCH, signal.SIGQUIT]], ids=["quit", "winch"])
def test_an_upgrade_loses_no_request_of_busy_clients(daemon, signals):
    server = daemon()
    idle = [Client(("127.0.0.1", server.port)) for _ in range(8)]
    old = {int(client.request("/").text) for client in idle}
    clients = busy_clients(server, 30)
    new = upgrade(server)
    until(lambda: set(workers_of(new)) <= answering(server), server.evidence)
    for number in signals:
        os.kill(server.pid, number)
        until(lambda: not workers_of(server.pid), server.evidence)
    assert follow_upgrade(server) == new
    all_are_served(clients, workers_of(new))
    for client in idle:  # the same connection, another worker
        answer = client.request("/")
        assert int(answer.text) not in old and not answer.closes


@ours_alone
def test_connections_go_back_when_the_new_binary_leaves(daemon):
    server = daemon()
    clients = busy_clients(server, 10)
    new = upgrade(server)
    os.kill(server.pid, signal.SIGWINCH)
    until(lambda: not workers_of(server.pid), server.evidence)
    os.kill(server.pid, signal.SIGHUP)
    until(lambda: len(workers_of(server.pid)) == 2, server.evidence)
    os.kill(new, signal.SIGQUIT)
    until(lambda: not proc.is_alive(new), server.evidence)
    all_are_served(clients, workers_of(server.pid))


@ours_alone
def test_upgrades_and_reloads_one_after_another_lose_no_request(daemon):
    server = daemon()
    clients = busy_clients(server, 20)
    for turn in range(4):
        new = upgrade(server)
        if turn & 1:
            before = set(workers_of(new))
            os.kill(new, signal.SIGHUP)
            until(lambda: len(set(workers_of(new)) - before) == 2, server.evidence)
        if turn & 2:
            os.kill(server.pid, signal.SIGWINCH)
        os.kill(server.pid, signal.SIGQUIT)
        assert follow_upgrade(server) == new
        until(lambda: len(workers_of(new)) == 2, server.evidence)
    all_are_served(clients, workers_of(new))


@ours_alone
def test_a_winch_does_not_take_back_a_quit_that_waits_for_the_new_workers(daemon):
    server = daemon()
    os.kill(server.pid, signal.SIGUSR2)
    server.wait_log("start new binary process")
    for number in (signal.SIGQUIT, signal.SIGWINCH):
        os.kill(server.pid, number)
    new = follow_upgrade(server)
    assert answering(server) <= set(workers_of(new))


@ours_alone
def test_connections_of_a_listener_that_is_gone_are_answered_first(daemon):
    server = daemon(http=HTTP + 'server { listen 127.0.0.1:@PORT1@; location / { return 200 "$pid"; } }')
    other = re.findall(r"listen 127.0.0.1:(\d+)", server.conf)[-1]
    client = Client(("127.0.0.1", int(other)))
    old = client.request("/").text
    server.configure(conf=re.sub(r"server \{ listen 127.0.0.1:%s;.*?\} \}" % other, "", server.conf))
    upgrade(server)
    os.kill(server.pid, signal.SIGQUIT)
    server.wait_log(r"%s#\d+: gracefully shutting down" % old)
    answer = client.request("/")
    assert answer.text == old and answer.closes
    follow_upgrade(server)


def test_both_serve_while_both_live(daemon):
    server = daemon()
    new = upgrade(server)
    both = set(workers_of(server.pid)) | set(workers_of(new))
    assert answering(server) <= both
    os.kill(server.pid, signal.SIGQUIT)
    follow_upgrade(server)


def test_back_again_before_the_old_one_has_left(daemon):
    """USR2, WINCH to the old one; it does not please: HUP to the old one, QUIT to the new one."""
    server = daemon()
    old = server.pid
    new = upgrade(server)
    os.kill(old, signal.SIGWINCH)
    until(lambda: not workers_of(old), server.evidence)
    assert answering(server) <= set(workers_of(new))
    os.kill(old, signal.SIGHUP)
    until(lambda: len(workers_of(old)) == 2, server.evidence)
    os.kill(new, signal.SIGQUIT)
    until(lambda: not proc.is_alive(new), server.evidence)
    until(lambda: server.read("nginx.pid") == "%d\n" % old, server.evidence)
    assert not os.path.exists(server.path("nginx.pid.oldbin"))
    assert answering(server) <= set(workers_of(old))
    assert proc.listening(server.port) == 2
    # It can do so again, and reloads as before.
    new = upgrade(server)
    os.kill(old, signal.SIGQUIT)
    assert follow_upgrade(server) == new


def test_resting_old_binary_wakes_when_the_new_one_dies(daemon):
    server = daemon(allow=["exited on signal 9"])
    old = server.pid
    new = upgrade(server)
    os.kill(old, signal.SIGWINCH)
    until(lambda: not workers_of(old), server.evidence)
    orphans = workers_of(new)
    os.kill(new, signal.SIGKILL)
    until(lambda: len(workers_of(old)) == 2, server.evidence)
    until(lambda: server.read("nginx.pid") == "%d\n" % old, server.evidence)
    for orphan in orphans:
        os.kill(orphan, signal.SIGTERM)
    until(lambda: not any(map(proc.is_alive, orphans)), "the end of the orphans")
    assert answering(server) <= set(workers_of(old))


def test_upgrade_to_another_number_of_workers(daemon):
    server = daemon(count=1)
    conf = server.conf
    server.configure(conf=conf.replace("worker_processes 1;", "worker_processes 3;"))
    new = upgrade(server, 3)
    os.kill(server.pid, signal.SIGQUIT)
    follow_upgrade(server)
    until(lambda: proc.listening(server.port) == 3, server.evidence)
    until(lambda: answering(server, 40) == set(workers_of(new)), server.evidence)
    server.configure(conf=conf)
    upgrade(server, 1)
    os.kill(new, signal.SIGQUIT)
    follow_upgrade(server)
    until(lambda: proc.listening(server.port) == 1, server.evidence)
    assert server.get("/").status == 200


def test_upgrade_with_a_bad_configuration_is_taken_back(daemon):
    server = daemon(allow=["unknown directive"])
    old = server.pid
    server.configure(conf=server.conf + "nonsense;")
    server.signal("upgrade")
    server.wait_log(r"new binary process \d+ exited with code 1")
    until(lambda: server.read("nginx.pid") == "%d\n" % old, server.evidence)
    assert not os.path.exists(server.path("nginx.pid.oldbin"))
    assert answering(server) <= set(workers_of(old))


def test_upgrade_to_a_binary_that_is_not_there(daemon):
    server = daemon(allow=["execve"])
    old = server.pid
    os.rename(server.binary, server.binary + ".away")
    server.signal("upgrade")
    server.wait_log(r'execve\(\) failed while executing new binary process "\S+" '
                    r"\(2: No such file or directory\)")
    until(lambda: server.read("nginx.pid") == "%d\n" % old, server.evidence)
    assert server.get("/").status == 200


def test_third_binary_is_refused(daemon):
    server = daemon()
    new = upgrade(server)
    refusal = "the changing binary signal is ignored: you should shutdown or terminate before " \
        "either old or new binary's process"
    os.kill(server.pid, signal.SIGUSR2)
    until(lambda: server.error_log.count(refusal) == 1, server.evidence)
    os.kill(new, signal.SIGUSR2)
    until(lambda: server.error_log.count(refusal) == 2, server.evidence)
    os.kill(server.pid, signal.SIGQUIT)
    follow_upgrade(server)


def test_hup_to_the_old_one_starts_workers_with_the_old_configuration(daemon):
    server = daemon()
    old = server.pid
    new = upgrade(server)
    os.kill(old, signal.SIGWINCH)
    until(lambda: not workers_of(old), server.evidence)
    server.configure(conf=server.conf.replace("worker_processes 2;", "worker_processes 4;"))
    os.kill(old, signal.SIGHUP)
    until(lambda: workers_of(old), server.evidence)
    until(lambda: len(workers_of(old)) == 2, server.evidence)
    os.kill(old, signal.SIGQUIT)
    follow_upgrade(server)
    assert answering(server) <= set(workers_of(new))


def test_unix_socket_survives_an_upgrade(daemon):
    server = daemon(http="server { listen unix:@DIR@/http.sock; return 200 ok; }")
    upgrade(server)
    os.kill(server.pid, signal.SIGQUIT)
    follow_upgrade(server)
    with Client(server.path("http.sock")) as client:
        assert client.request("/").text == "ok"
    server.quit()
    until(lambda: not os.path.exists(server.path("http.sock")), "the file to go")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGQUIT])
def test_unix_socket_survives_the_end_of_the_new_binary(daemon, number):
    """That did not please, be it that it has no use for the socket."""
    for kept in (True, False):
        server = daemon(http="server { listen unix:@DIR@/http.sock; return 200 ok; }")
        if not kept:
            server.configure(conf=re.sub("listen unix:[^;]*;", "listen 127.0.0.1:%d;" % server.port,
                                         server.conf))
        new = upgrade(server)
        os.kill(new, number)
        until(lambda: not proc.is_alive(new), server.evidence)
        with Client(server.path("http.sock")) as client:
            assert client.request("/").text == "ok"
        server.quit()


def test_unix_socket_that_only_the_old_binary_wanted_goes_with_it(daemon):
    server = daemon(http="server { listen unix:@DIR@/http.sock; return 200 ok; }")
    server.configure(conf=re.sub("listen unix:[^;]*;", "listen 127.0.0.1:%d;" % server.port,
                                 server.conf))
    upgrade(server)
    os.kill(server.pid, signal.SIGQUIT)
    follow_upgrade(server)
    assert server.get("/").text == "ok"
    until(lambda: not os.path.exists(server.path("http.sock")), "the file to go")


def test_signal_to_the_path_of_the_pid_file_reaches_the_new_one(daemon):
    """-s goes by the pid file, which is the new binary's while both live."""
    server = daemon()
    new = upgrade(server)
    done = subprocess.run([server.binary, "-p", server.dir + "/", "-c", "nginx.conf", "-e",
                           "error.log", "-s", "quit"], check=False)
    assert done.returncode == 0
    until(lambda: not proc.is_alive(new), server.evidence)
    until(lambda: server.read("nginx.pid") == "%d\n" % server.pid, server.evidence)
    assert server.get("/").status == 200


# ---- from nginx and back

@ours_alone
@pytest.mark.skipif(not os.path.exists(REFERENCE), reason="needs Debian's nginx")
@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("listen", ["127.0.0.1:@PORT@", "127.0.0.1:@PORT@ reuseport",
                                    "unix:@DIR@/http.sock"])
def test_from_nginx_to_portunus_and_back(daemon, count, listen):
    http = 'server { listen %s; location / { return 200 "$pid $nginx_version\\n"; } }' % listen
    server = daemon(count, binary=REFERENCE, http=http)

    def ask():
        with Client(server.path("http.sock") if "unix" in listen else server.port) as client:
            pid, version = client.request("/").text.split()
            return int(pid), version
    theirs = ask()[1]
    for binary, wanted in ((binaries.under_test(), "1.31.5"), (REFERENCE, theirs),
                           (binaries.under_test(), "1.31.5")):
        old = server.pid
        swap_binary(server.binary, binary)
        new = upgrade(server, count)
        os.kill(old, signal.SIGQUIT)
        assert follow_upgrade(server) == new
        for _ in range(10):
            pid, version = ask()
            assert pid in workers_of(new)
            assert version == wanted
    assert server.quit() == 0


@ours_alone
@pytest.mark.skipif(not os.path.exists(REFERENCE), reason="needs Debian's nginx")
def test_portunus_does_not_please_and_nginx_goes_on(daemon):
    server = daemon(2, binary=REFERENCE)
    old = server.pid
    swap_binary(server.binary, binaries.under_test())
    new = upgrade(server)
    os.kill(old, signal.SIGWINCH)
    until(lambda: not workers_of(old), server.evidence)
    assert answering(server) <= set(workers_of(new))
    os.kill(old, signal.SIGHUP)
    until(lambda: len(workers_of(old)) == 2, server.evidence)
    os.kill(new, signal.SIGQUIT)
    until(lambda: not proc.is_alive(new), server.evidence)
    until(lambda: server.read("nginx.pid") == "%d\n" % old, server.evidence)
    assert answering(server) <= set(workers_of(old))
    assert proc.listening(server.port) == 1
