"""Real programs that a test stands before or behind: databases, mail servers, proxies, brokers, each with files of its own.

    directory = home("redis")                 # which the program's user owns
    with Program([REDIS, "--port", "0"], directory, ready=lambda: os.path.exists(path)) as redis: ...
"""

import atexit
import contextlib
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile

from .wait import until

START = 60  # seconds that a program has to be ready; only decides how soon a failure shows


def find(name, *more):
    """The path of a program, None where it is not installed. more: folders besides the usual ones."""
    return shutil.which(name, path=":".join(more + ("/usr/sbin:/usr/bin:/usr/local/sbin:/usr/local/bin", os.environ.get("PATH", ""))))


def own(path, user="nobody"):
    """Gives a file or a folder with all in it to this user, where we are root. Gives the path."""
    if os.getuid() == 0:
        entry = pwd.getpwnam(user)
        os.chown(path, entry.pw_uid, entry.pw_gid)
        for folder, names, files in os.walk(path):
            for name in names + files:
                os.chown(os.path.join(folder, name), entry.pw_uid, entry.pw_gid)
    return path


def home(name, user="nobody"):
    """A new folder that this user owns and can reach, until this process ends. Not one of pytest's: each run of
    pytest closes the folder above those of all runs to others."""
    path = tempfile.mkdtemp(prefix="portunus-%s-" % name)
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    os.chmod(path, 0o755)
    return own(path, user)


@contextlib.contextmanager
def short_home():
    """A folder of a short name for as long as the with statement, whatever TMPDIR is: programs that keep a unix socket in
    their folders (Chromium in its profile) fail where its path is longer than 107 bytes."""
    with tempfile.TemporaryDirectory(prefix="p-", dir="/tmp", ignore_cleanup_errors=True) as path:
        yield path


def _as_user(user):
    """Words for Popen: this user and no other group, where we are root."""
    if user is None or os.getuid() != 0:
        return {}
    entry = pwd.getpwnam(user)
    return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}


def run(words, directory, user="nobody", text=None, limit=START):
    """Runs a program to its end, as that user where we are root; gives what it wrote. Fails where it fails."""
    done = subprocess.run(words, cwd=directory, input=text, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=limit,
                          check=False, encoding="latin-1", **_as_user(user))
    assert done.returncode == 0, "%s:\n%s" % (" ".join(words), done.stdout)
    return done.stdout


def connects(address):
    """Does anybody listen at this port of 127.0.0.1, or at this unix socket?"""
    family = socket.AF_UNIX if isinstance(address, str) else socket.AF_INET
    with socket.socket(family) as trial:
        trial.settimeout(10)
        return trial.connect_ex(address if family == socket.AF_UNIX else ("127.0.0.1", address)) == 0


class Program:
    """A program in the foreground, as an ordinary user (None: ours), in a session of its own. What it writes is in
    DIRECTORY/program.log. ready(): does it serve?"""

    def __init__(self, words, directory, ready, user="nobody", ends_by=signal.SIGTERM):
        self.words, self.directory, self.ready = words, directory, ready
        self.user, self.ends_by = user, ends_by
        self.process = None

    def start(self):
        with open(os.path.join(self.directory, "program.log"), "ab") as log:
            self.process = subprocess.Popen(self.words, cwd=self.directory, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                            start_new_session=True, **_as_user(self.user))
        until(self._is_ready, lambda: "%s:\n%s" % (self.words[0], self.log()), START)
        return self

    def _is_ready(self):
        assert self.process.poll() is None, "%s ended with %s:\n%s" % (self.words[0], self.process.returncode, self.log())
        return self.ready()

    def log(self):
        with open(os.path.join(self.directory, "program.log"), encoding="latin-1") as log:
            return log.read()

    def signal(self, number):
        """To the program and all that it started."""
        os.killpg(self.process.pid, number)

    def stop(self):
        if self.process is None:
            return
        if self.process.poll() is None:
            self.process.send_signal(self.ends_by)
            try:
                self.process.wait(15)
            except subprocess.TimeoutExpired:
                pass
        try:
            self.signal(signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()
        self.process = None

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.stop()
