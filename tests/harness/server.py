"""A server process in a directory of its own, with the checks that every test wants at its end."""

import atexit
import grp
import os
import pwd
import re
import shutil
import signal
import subprocess
import tempfile

from . import binaries, ports, proc
from .client import Client
from .wait import until

# Servers that run, so that none outlives this process whatever happens to a test.
_running = set()


@atexit.register
def _end_all():
    for server in list(_running):
        server.close(check=False)


SIGNALS = {"stop": signal.SIGTERM, "quit": signal.SIGQUIT, "reload": signal.SIGHUP,
           "reopen": signal.SIGUSR1, "upgrade": signal.SIGUSR2, "winch": signal.SIGWINCH}

# What the sanitizers write to standard error.
_sanitizer = re.compile(r"ERROR: \w*Sanitizer|WARNING: \w*Sanitizer|:\d+: runtime error:|LeakSanitizer")

# A line of the error log that a healthy server never writes.
_serious = re.compile(r"\d{4}/\d\d/\d\d \d\d:\d\d:\d\d \[(alert|emerg)\] ")

# Every file and directory of a test's tree gets this time, so that answers repeat exactly.
MTIME = 1700000000

MAIN = """\
daemon off;
%(user)s
pid nginx.pid;
error_log error.log info;
%(main)s
events {
    %(events)s
}
http {
    %(access_log)s
    client_body_temp_path body_temp;
    %(http)s
}
"""


def worker_user():
    """The `user` line for the workers: nobody, when we are root; nothing otherwise."""
    if os.getuid() != 0:
        return ""
    entry = pwd.getpwnam("nobody")
    return "user nobody %s;" % grp.getgrgid(entry.pw_gid).gr_name


def run_binary(*args, binary=None, cwd=None, env=None, stdin=subprocess.DEVNULL, timeout=60):
    """Runs the binary to its end. Gives CompletedProcess with stdout and stderr as text."""
    return subprocess.run([binary or binaries.under_test(), *args], cwd=cwd, env=env, stdin=stdin,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=timeout,
                          check=False, encoding="latin-1")


class Server:
    """One server. Start with start(), end with close(), or use it in a `with`.

    http   text inside `http { }`; a usual frame goes around it (see MAIN above), which turns
           the access log off unless the text has an access_log of its own
    conf   instead of http: the whole file, taken as it is (`daemon off;` comes by -g unless the
           text has the word daemon)
    main, events   more text for these levels of the usual frame
    files  {"html/a.txt": text or bytes or None for a directory}; times are set to MTIME
    allow  regular expressions of [alert] and [emerg] lines in error.log that are expected
    args   more command line words; env: the environment; binary: default the one under test
    exit_code  what the process must end with

    Placeholders in the texts: @PORT@, @PORT1@ ... a free port each, @DIR@ the directory.
    """

    def __init__(self, http=None, *, conf=None, main="", events="", files=None, allow=(), args=(),
                 env=None, binary=None, exit_code=0, directory=None):
        self.dir = directory or tempfile.mkdtemp(prefix="portunus-test-")
        self._owns_dir = directory is None
        self.binary = binary or binaries.under_test()
        self.allow = list(allow)
        self.args = list(args)
        self.env = env
        self.exit_code = exit_code
        self.process = None
        self._ports = {}
        self._stderr = None
        os.chmod(self.dir, 0o755)
        self._make_accessible()
        self.write_tree(files or {})
        self.configure(http=http, conf=conf, main=main, events=events)

    # the directory

    def _make_accessible(self):
        """logs/ and html/ that workers, who may be another user, can write and read."""
        for name in ("logs", "html"):
            path = self.path(name)
            os.makedirs(path, exist_ok=True)
            os.chmod(path, 0o777 if name == "logs" else 0o755)

    def path(self, *parts):
        return os.path.join(self.dir, *parts)

    def write(self, name, data, mtime=MTIME):
        """Writes one file below the directory and gives its path."""
        path = self.path(name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        if isinstance(data, str):
            data = data.encode("latin-1")
        with open(path, "wb") as out:
            out.write(data)
        if mtime is not None:
            os.utime(path, (mtime, mtime))
        return path

    def write_tree(self, files):
        for name, data in files.items():
            if data is None:
                os.makedirs(self.path(name), exist_ok=True)
            else:
                self.write(name, data)
        for name in sorted(files, key=len, reverse=True):
            while name:
                os.utime(self.path(name), (MTIME, MTIME))
                name = os.path.dirname(name)

    def read(self, name):
        """The text of a file below the directory, "" when there is none."""
        try:
            with open(self.path(name), encoding="latin-1", newline="") as source:
                return source.read()
        except FileNotFoundError:
            return ""

    def lines(self, name):
        """The whole lines of a log, so far."""
        return self.read(name).split("\n")[:-1]

    def wait_lines(self, name, count=1):
        """Waits until a log holds so many lines and gives all its lines."""
        until(lambda: len(self.lines(name)) >= count,
              lambda: "%d lines in %s, which holds: %r" % (count, name, self.read(name)))
        return self.lines(name)

    def wait_log(self, pattern, name="error.log"):
        """Waits until a log matches the regular expression and gives the match."""
        return until(lambda: re.search(pattern, self.read(name)),
                     lambda: "%r in %s, which holds:\n%s" % (pattern, name, self.read(name)))

    @property
    def error_log(self):
        return self.read("error.log")

    # the configuration

    def port_of(self, name="PORT"):
        """The port number behind a placeholder; a first call reserves it."""
        if name not in self._ports:
            self._ports[name] = ports.take()
        return self._ports[name].number

    port = property(lambda self: self.port_of("PORT"))

    def expand(self, text):
        """Replaces the placeholders."""
        text = re.sub(r"@(PORT\d*)@", lambda found: str(self.port_of(found.group(1))), text)
        return text.replace("@DIR@", self.dir)

    def configure(self, http=None, *, conf=None, main="", events=""):
        """Writes nginx.conf anew (a running server takes it at the next reload)."""
        if conf is None:
            http = http or ""
            conf = MAIN % {"user": worker_user(), "main": main, "events": events, "http": http,
                           "access_log": "" if "access_log" in http else "access_log off;"}
        self.conf = self.expand(conf)
        # In one step: a reload may be reading it.
        os.replace(self.write("nginx.conf.new", self.conf, mtime=None), self.path("nginx.conf"))

    # the process

    def command(self):
        command = [self.binary, "-p", self.dir + "/", "-c", "nginx.conf", "-e", "error.log"]
        if not re.search(r"\bdaemon\b", self.conf):
            command += ["-g", "daemon off;"]
        return command + self.args

    def start(self, wait=True):
        """Starts the server; waits until its pid file says that it listens."""
        self._stderr = open(self.path("stderr.txt"), "ab")
        self.process = subprocess.Popen(self.command(), stdin=subprocess.DEVNULL,
                                        stdout=self._stderr, stderr=self._stderr, env=self.env,
                                        cwd=self.dir, start_new_session=True)
        _running.add(self)
        if wait:
            self.wait_ready()
        return self

    def wait_ready(self):
        def ready():
            if self.process.poll() is not None:
                raise AssertionError("server ended with %d at start\n%s"
                                     % (self.process.returncode, self.evidence()))
            return self.read("nginx.pid").strip() == str(self.process.pid)
        until(ready, lambda: "pid file of the server\n" + self.evidence())

    @property
    def pid(self):
        return self.process.pid

    def children(self):
        """Process ids of the living children (workers), in order."""
        return proc.children(self.process.pid)

    def signal(self, name):
        """Sends a signal to the master: a name of SIGNALS or a number."""
        os.kill(self.process.pid, SIGNALS.get(name, name))

    def reload(self):
        """HUP, and waits until new workers serve, which is when those of before have been told to end: what is asked on a
        connection of its own from now on is answered by the new configuration. Other children may come before them. Gives
        nothing; look at error_log for failures."""
        before = set(self.children())
        self.signal("reload")
        until(lambda: any("worker process" in proc.title(pid) for pid in set(self.children()) - before), "a new worker after a reload")
        until(lambda: all(map(proc.is_leaving, before)), lambda: "the older workers to end\n" + self.evidence())

    def wait_end(self, limit=60):
        """Waits for the process to end by itself and gives its exit code."""
        try:
            return self.process.wait(limit)
        except subprocess.TimeoutExpired:
            raise AssertionError("server does not end\n" + self.evidence()) from None

    def quit(self):
        self.signal("quit")
        return self.wait_end()

    def stop(self):
        self.signal("stop")
        return self.wait_end()

    def is_running(self):
        return self.process is not None and self.process.poll() is None

    # the end

    def evidence(self):
        """What to show when something went wrong."""
        return "--- %s\n--- stderr\n%s\n--- error.log (end)\n%s" % (
            " ".join(self.command()), self.read("stderr.txt")[-4000:], self.error_log[-4000:])

    def problems(self):
        """What the logs say that a healthy server never writes."""
        found = []
        for line in self.error_log.split("\n"):
            if _serious.match(line):
                if not any(re.search(pattern, line) for pattern in self.allow):
                    found.append(line)
        for name in ["stderr.txt", "error.log"]:
            match = _sanitizer.search(self.read(name))
            if match:
                found.append("%s: %s" % (name, self.read(name)[match.start():][:3000]))
        return found

    def close(self, check=True):
        """Ends the server if it runs, checks logs and exit code, removes the directory."""
        problems = []
        if self.process is not None:
            if self.is_running():
                try:
                    self.stop()
                except AssertionError as failure:
                    problems.append(str(failure))
            self._end_group()
            if self.process.returncode != self.exit_code:
                problems.append("exit code %s instead of %d\n%s" % (
                    self.process.returncode, self.exit_code, self.evidence()))
            self._stderr.close()
            problems += self.problems()
            self.process = None
            _running.discard(self)
        for port in self._ports.values():
            port.close()
        self._ports = {}
        if self._owns_dir:
            shutil.rmtree(self.dir, ignore_errors=True)
        if check:
            assert not problems, "\n".join(problems)

    def _end_group(self):
        """Ends what is left of the session that this object started."""
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()

    def __enter__(self):
        return self if self.process is not None else self.start()

    def __exit__(self, kind, *_):
        self.close(check=kind is None)

    # clients

    def client(self, port=None, **kwargs):
        """A Client to @PORT@, or to another port or address."""
        return Client(port or self.port, **kwargs)

    def get(self, target="/", *headers, port=None, **kwargs):
        """One request on a connection of its own."""
        with self.client(port) as client:
            return client.request(target, *headers, **kwargs)
