"""Starts a server for one row, and reads from /proc what it uses."""

import contextlib
import http.client
import os
import resource
import signal
import socket
import subprocess
import time

import fetch

START_SECONDS = 60      # valgrind is slow
STOP_SECONDS = 20


class BenchError(Exception):
    """Something that makes a row impossible: said in one line."""


def free_port():
    """A port of 127.0.0.1 that nobody uses now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def descriptor_limit(wanted):
    """The limit on open files that we may set: `wanted`, or as near as the machine allows."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if hard == resource.RLIM_INFINITY or hard >= wanted:
        return wanted
    try:
        with open("/proc/sys/fs/nr_open", encoding="ascii") as file:
            wanted = min(wanted, int(file.read()))
        before = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (before[0], wanted))
        return wanted
    except (OSError, ValueError):
        return hard


def prepare_child(cpus, descriptors):
    """What a child does before it runs a program: pinned, and with enough descriptors."""
    def prepare():
        os.sched_setaffinity(0, cpus)
        hard = max(resource.getrlimit(resource.RLIMIT_NOFILE)[1], descriptors)
        resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, hard))
    return prepare


def children_of(pid):
    """The child processes of a process, whichever of its threads made them."""
    found = []
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/children", encoding="ascii") as file:
            found += [int(word) for word in file.read().split()]
    return found


def cpu_ns_of(pid):
    """CPU time of all threads of a process, in ns: its CPU clock, of which utime and stime of
    /proc/PID/stat are the same in steps of 10 ms."""
    return time.clock_gettime_ns((~pid << 3) | 2)


class Server:
    """A running server; a context manager. `wrapper` is a command to run it under."""

    def __init__(self, binary, prefix, text, port, cpus, descriptors=20000, wrapper=()):
        self.binary, self.prefix, self.port = binary, prefix, port
        self.backend = None     # what stands behind it, for rows that have that
        for name in ("logs", "temp"):
            os.makedirs(f"{prefix}/{name}", exist_ok=True)
        with open(f"{prefix}/nginx.conf", "w", encoding="ascii") as file:
            file.write(text)
        with contextlib.suppress(FileNotFoundError):
            os.remove(f"{prefix}/logs/error.log")
        with open(f"{prefix}/output", "wb") as output:
            self.process = subprocess.Popen(
                [*wrapper, *self.command()], stdin=subprocess.DEVNULL, stdout=output,
                stderr=subprocess.STDOUT, preexec_fn=prepare_child(cpus, descriptors))

    def command(self):
        """What starts it."""
        return [self.binary, "-p", self.prefix, "-e", "logs/error.log", "-c",
                f"{self.prefix}/nginx.conf"]

    def __enter__(self):
        try:
            self.wait_until_ready()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_):
        self.stop()

    def last_words(self):
        """What the server printed and logged last."""
        text = ""
        for name in ("output", "logs/error.log"):
            with contextlib.suppress(OSError):
                with open(f"{self.prefix}/{name}", errors="replace", encoding="utf-8") as file:
                    text += file.read()
        return "; ".join(text.strip().splitlines()[-3:])

    def wait_until_ready(self):
        """Returns when the port answers."""
        end = time.monotonic() + START_SECONDS
        while True:
            if self.process.poll() is not None:
                raise BenchError(f"{self.binary} ended with {self.process.returncode}: "
                                 f"{self.last_words()}")
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            except OSError:
                if time.monotonic() > end:
                    raise BenchError(f"{self.binary} does not listen: {self.last_words()}") \
                        from None
                time.sleep(0.01)

    def workers(self):
        """The process ids of the workers; of the process itself where it has no children."""
        return children_of(self.process.pid) or [self.process.pid]

    def worker(self):
        """The process id of the only worker."""
        found = self.workers()
        if len(found) > 1:
            def is_worker(pid):
                with open(f"/proc/{pid}/cmdline", "rb") as file:
                    return b"worker" in file.read()
            found = [pid for pid in found if is_worker(pid)]
        if len(found) != 1:
            raise BenchError(f"{self.binary}: {len(found)} workers instead of one")
        return found[0]

    def wait_for_workers(self, count):
        """The process ids of so many workers, as soon as they are there."""
        end = time.monotonic() + START_SECONDS
        while len(self.workers()) != count or self.workers() == [self.process.pid]:
            if time.monotonic() > end:
                raise BenchError(f"{self.binary}: {len(self.workers())} of {count} workers")
            time.sleep(0.01)
        return self.workers()

    def cpu_ns(self):
        """CPU time of the server until now: master, workers and what else it started."""
        total, pending = 0, [self.process.pid]
        while pending:
            pid = pending.pop()
            total += cpu_ns_of(pid)
            pending += children_of(pid)
        return total

    def run_delay_ns(self):
        """How long the workers were ready to run but had no CPU."""
        total = 0
        for pid in self.workers():
            with open(f"/proc/{pid}/schedstat", encoding="ascii") as file:
                total += int(file.read().split()[1])
        return total

    def resident_bytes(self):
        """Resident memory of the worker."""
        with open(f"/proc/{self.worker()}/smaps_rollup", encoding="ascii") as file:
            for line in file:
                if line.startswith("Rss:"):
                    return int(line.split()[1]) * 1024
        raise BenchError("no Rss in smaps_rollup")

    def get_by_curl(self, row, uri):
        """The same by curl; and the bytes of the body as it came."""
        try:
            return fetch.by_curl(row, uri, self.port)
        except fetch.FetchError as error:
            raise BenchError(f"{self.binary}, row {row.name}: {error}") from None

    def get(self, row, uri):
        """One request as a row makes it: status and body."""
        if row.tls or row.tls_behind or row.streams or row.coding:
            return Server.get_by_curl(self, row, uri)[:2]
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=START_SECONDS)
        try:
            headers = dict(line.split(": ", 1) for line in row.headers)
            connection.request("GET", uri, headers={"Host": row.host, **headers})
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def stop(self):
        """Ends the server, and waits for its end. The signal is sent again and again: one that
        comes just before a server sleeps may wait for the server's next event."""
        for _ in range(STOP_SECONDS):
            if self.process.poll() is not None:
                return
            self.process.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(1)
        for pid in [*children_of(self.process.pid), self.process.pid]:
            os.kill(pid, signal.SIGKILL)
        self.process.wait()
