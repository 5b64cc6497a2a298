"""systemd as a user's manager, in namespaces of its own: what units do, without a machine that runs systemd.

Never a system manager: that one empties /tmp, mounts file systems and more. systemd makes itself one when it is
process 1, so there is no namespace of processes here. It gathers the processes of the control group that it finds
itself in, so it gets one of its own, and starts only where nobody else is in it."""

import os
import shutil
import signal
import subprocess
import time

import pytest

from .wait import until

PROGRAM = "/lib/systemd/systemd"

# In the namespaces: the hierarchies of control groups that systemd uses, seen from our group on.
BOX = """
set -e
mount --make-rprivate /
mount -t tmpfs none /run
mkdir -p /run/systemd/system
mount -t tmpfs none /sys/fs/cgroup
%(mounts)s
for file in %(files)s; do
    others=$(grep -vx -e $$ -e 0 $file || true)
    # The second process is the grep that looks.
    for pid in $others; do
        if [ -d /proc/$pid ]; then echo "others are in the group: $others" >&2; exit 1; fi
    done
done
[ $$ != 1 ]
exec %(program)s --user --unit=default.target
"""

TARGET = "[Unit]\nDescription=%s\n"


def hierarchies():
    """Mount point, type and our path of those that systemd needs: its own of version 1, and version 2."""
    paths = {}
    with open("/proc/self/cgroup", encoding="ascii") as rows:
        for row in rows:
            number, name, path = row.rstrip("\n").split(":", 2)
            paths["name=systemd" if name == "name=systemd" else number if number == "0" else name] = path
    found = []
    with open("/proc/self/mounts", encoding="ascii") as rows:
        for row in rows:
            _, where, kind, options = row.split()[:4]
            if kind == "cgroup" and "name=systemd" in options.split(","):
                found.append((where, "cgroup", paths.get("name=systemd", "/")))
            elif kind == "cgroup2":
                found.append((where, "cgroup2", paths.get("0", "/")))
    return found


class UserManager:
    """A manager with units in a directory. Raises pytest's skip where it cannot run."""

    def __init__(self, directory, units):
        self.dir = str(directory)
        for name in ("units", "run", "home"):
            os.makedirs(os.path.join(self.dir, name), mode=0o700)
        for name in ("default", "basic", "shutdown", "exit", "network-online", "sysinit"):
            self._unit(name + ".target", TARGET % name)
        for name, text in units.items():
            self._unit(name, text)
        self.env = {"PATH": os.environ["PATH"], "HOME": os.path.join(self.dir, "home"),
                    "XDG_RUNTIME_DIR": os.path.join(self.dir, "run"),
                    "SYSTEMD_UNIT_PATH": os.path.join(self.dir, "units"), "SYSTEMD_LOG_TARGET": "console"}
        for name in os.environ:
            if name.startswith(("ASAN_", "UBSAN_", "LSAN_")):
                self.env[name] = os.environ[name]
        self.groups = []
        self.process = None
        self._start()

    def _unit(self, name, text):
        with open(os.path.join(self.dir, "units", name), "w", encoding="utf-8") as target:
            target.write(text)

    def _start(self):
        if os.getuid() != 0 or not os.path.exists(PROGRAM) or shutil.which("unshare") is None:
            pytest.skip("needs root, systemd and unshare")
        found = hierarchies()
        if not found:
            pytest.skip("no hierarchy of control groups for systemd")
        mounts, files, enter = "", [], ""
        try:
            for where, kind, path in found:
                group = os.path.join(where, path.lstrip("/"), "portunus-test-%d" % os.getpid())
                os.mkdir(group)
                self.groups.append(group)
                inside = "/sys/fs/cgroup" + ("/" + ("systemd" if kind == "cgroup" else "unified") if len(found) > 1
                                             else "")
                mounts += "mkdir -p %s; mount -t %s %s none %s\n" % (
                    inside, kind, "-o none,name=systemd" if kind == "cgroup" else "", inside)
                files.append(inside + "/cgroup.procs")
                enter += "echo $$ > %s/cgroup.procs && " % group
        except OSError as error:
            self.close()
            pytest.skip("no control group: %s" % error)
        script = BOX % {"mounts": mounts, "files": " ".join(files), "program": PROGRAM}
        with open(os.path.join(self.dir, "log"), "wb") as log:
            self.process = subprocess.Popen(
                ["sh", "-c", enter + 'exec unshare -m -C sh -c "$1"', "sh", script], env=self.env,
                stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        end = time.monotonic() + 15
        while self.ask("is-active", "default.target")[1] != "active":
            if self.process.poll() is not None or time.monotonic() > end:
                why = self.log()
                self.close()
                pytest.skip("systemd --user does not run here: " + why[-300:])
            time.sleep(0.02)

    def log(self):
        with open(os.path.join(self.dir, "log"), encoding="utf-8") as source:
            return source.read()

    def ask(self, *words):
        """systemctl: exit code, what it said."""
        done = subprocess.run(["systemctl", "--user", "--no-pager", *words], env=self.env, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60, check=False,
                              encoding="utf-8")
        return done.returncode, done.stdout.strip()

    def tell(self, *words):
        code, text = self.ask(*words)
        assert code == 0, text + self.log()

    def value(self, unit, name):
        return self.ask("show", "--value", "-p", name, unit)[1]

    def state(self, unit):
        """ActiveState/SubState."""
        return "/".join(self.ask("show", "--value", "-p", "ActiveState", "-p", "SubState", unit)[1].split())

    def processes(self):
        """All in our groups."""
        found = set()
        for group in self.groups:
            for where, _, _ in os.walk(group):
                try:
                    with open(os.path.join(where, "cgroup.procs"), encoding="ascii") as rows:
                        found.update(int(row) for row in rows)
                except OSError:
                    pass
        return found

    def close(self):
        """Ends whatever is in the groups, and removes them."""
        def is_empty():
            left = self.processes()
            for pid in left:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            return not left
        until(is_empty, "the end of systemd")
        if self.process is not None:
            self.process.wait(15)
        for group in self.groups:
            for where, _, _ in sorted(os.walk(group), reverse=True):
                until(lambda where=where: _removed(where), "the end of its control group")
        self.groups = []


def _removed(path):
    try:
        os.rmdir(path)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True
