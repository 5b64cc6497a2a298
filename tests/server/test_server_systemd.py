"""The shipped unit, under a manager of systemd: start, reload, upgrade and back, a death, stop."""

import os
import re
import shutil
import signal

import pytest

from harness import Client, binaries, ports, proc, until
from harness.systemd import UserManager

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "../.."))
PREFIX = "/usr/local/nginx"
UNIT = "portunus.service"

CONF = """env ASAN_OPTIONS;
worker_processes 1;
%(user)s
error_log %(dir)s/logs/error.log notice;
pid %(dir)s/logs/nginx.pid;
events { }
http { access_log off; server { listen 127.0.0.1:%(port)d; location / { return 200 fine; } %(more)s } }
"""

# What needs more of the system than a short answer: files, threads, signals, programs, timers, code that is compiled.
BUSY = """
    location /file/ { alias %(dir)s/; aio threads; directio 1; }
    location /put/ { alias %(dir)s/put/; dav_methods PUT; create_full_put_path on; }
    location ~ ^/regex(.*)$ { return 200 $1; }
    location /lua { content_by_lua_block {
        local pipe = require("ngx.pipe").spawn({"/bin/echo", "said"})
        local sum = 0
        for i = 1, 1e5 do sum = sum + i %% 7 end
        ngx.sleep(0.001)
        ngx.say(pipe:stdout_read_line(), " ", sum, " ", pipe:wait())
    } }
"""

# What a manager of a user may not do.
NOT_HERE = ("PrivateTmp", "PrivateDevices", "Protect", "ReadWritePaths", "LimitNOFILE", "After", "Wants")


class Service:
    """An installation in a directory, as the unit finds it."""

    def __init__(self, directory):
        self.dir = str(directory / "web")
        self._port = ports.take()
        self.port = self._port.number
        for name in ("sbin", "conf", "logs"):
            os.makedirs(os.path.join(self.dir, name))
        shutil.copy(binaries.under_test(), self.path("sbin/nginx"))
        self.configure()
        with open(os.path.join(ROOT, "conf/nginx.service"), encoding="utf-8") as source:
            text = source.read().replace(PREFIX, self.dir)
        text = re.sub(r"(?m)^(%s)\w*=.*\n" % "|".join(NOT_HERE), "", text)
        text = text.replace("sbin/nginx -", "sbin/nginx -p %s -c conf/nginx.conf -" % self.dir)
        # The unit forbids ptrace, without which a sanitized program cannot look for leaks at its end.
        text = text.replace("[Service]\n", "[Service]\nStandardError=append:%s\nEnvironment=ASAN_OPTIONS=detect_leaks=0\n"
                            % self.path("logs/stderr"))
        self.manager = UserManager(directory / "systemd", {UNIT: text})

    def close(self):
        self.manager.close()
        self._port.close()

    def path(self, name):
        return os.path.join(self.dir, name)

    def configure(self, more=""):
        with open(self.path("conf/nginx.conf"), "w", encoding="utf-8") as target:
            busy = BUSY % {"dir": self.dir} if "ngx_http_lua_module" in binaries.version_text(binaries.under_test()) else ""
            target.write(CONF % {"dir": self.dir, "port": self.port, "more": busy,
                                 "user": "user root;" if os.getuid() == 0 else ""} + more)

    def read(self, name):
        with open(self.path(name), encoding="utf-8") as source:
            return source.read()

    @property
    def master(self):
        return int(self.manager.value(UNIT, "MainPID"))

    def since(self):
        """When systemd learnt who the main process is."""
        return self.manager.value(UNIT, "ExecMainStartTimestampMonotonic")

    def is_fine(self):
        with Client(self.port) as client:
            return client.request("/").text == "fine"

    def settled(self):
        """It runs, and the main process is the one that the pid file names."""
        until(lambda: self.manager.state(UNIT) == "active/running" and
              self.master == int(self.read("logs/nginx.pid") or 0), self.evidence)
        assert self.is_fine()
        return self.master

    def evidence(self):
        return "%s, %s\n%s%s" % (self.manager.state(UNIT), self.manager.ask("show", UNIT)[1][:1500], self.manager.log(),
                                 self.read("logs/error.log"))

    def upgrade(self):
        """USR2; gives the new master when it is the main process."""
        old = self.master
        os.kill(old, signal.SIGUSR2)
        until(lambda: self.master != old, self.evidence)
        return self.settled()


@pytest.fixture
def service(tmp_path):
    found = Service(tmp_path)
    try:
        code, text = found.manager.ask("start", UNIT)
        assert code == 0, text + found.read("logs/stderr")
        yield found
        found.manager.tell("stop", UNIT)
        assert found.manager.state(UNIT) == "inactive/dead", found.evidence()
        assert not any("nginx" in proc.title(pid) for pid in found.manager.processes())
    finally:
        found.close()


def test_reload_upgrade_and_back(service):
    old = service.settled()

    service.configure()
    service.manager.tell("reload", UNIT)
    until(lambda: service.read("logs/error.log").count("gracefully shutting down") == 1, service.evidence)
    service.configure("nonsense;")
    code, _ = service.manager.ask("reload", UNIT)
    assert code != 0
    assert 'unknown directive "nonsense"' in service.read("logs/stderr")
    assert service.settled() == old
    service.configure()
    service.manager.tell("reload", UNIT)

    # The new one does not please: it ends, and the old one is the master again.
    new = service.upgrade()
    os.kill(new, signal.SIGQUIT)
    until(lambda: not proc.is_alive(new), service.evidence)
    assert service.settled() == old

    # It pleases. The old one leaves, and nobody ends the service for that.
    new = service.upgrade()
    started = service.since()
    os.kill(old, signal.SIGQUIT)
    until(lambda: not proc.is_alive(old), service.evidence)
    # systemd is its parent now, and has been told: else it kills the main process where it should stop it.
    until(lambda: service.since() != started, service.evidence)
    assert service.settled() == new
    service.manager.tell("reload", UNIT)
    assert service.settled() == new


def test_a_master_that_dies_is_started_again(service):
    old = service.settled()
    os.kill(old, signal.SIGKILL)
    until(lambda: service.master not in (0, old), service.evidence)
    assert service.settled() != old
    assert service.manager.value(UNIT, "NRestarts") == "1"


def test_it_serves_with_what_the_unit_leaves_it(service):
    """The lines of the unit hold for it, and nothing of what it does needs more."""
    master = service.settled()
    assert proc.status(master, "NoNewPrivs") == "1" and proc.status(master, "Seccomp") == "2"
    if os.getuid() == 0:
        bounds = int(proc.status(master, "CapBnd"), 16)
        assert bounds & (1 << 10) and not bounds & (1 << 21), "CAP_NET_BIND_SERVICE without CAP_SYS_ADMIN"
    with Client(service.port) as client:
        if client.request("/regex/a").text != "/a":
            return
        assert "worker_processes" in client.request("/file/conf/nginx.conf").text
        assert client.request("/put/new/a.txt", method="PUT", body="content").status == 201
        assert client.request("/lua").text.startswith("said 300000")
