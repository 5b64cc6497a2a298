"""The load generator: compiled, started, and its answers read."""

import contextlib
import json
import os
import subprocess

from h2load import H2load
from servers import BenchError, prepare_child

WAITING_SECONDS = 60    # longer than anybody needs that waits for waiting requests
SOURCES = ("load.c", "response.c", "chunks.c", "latency.c", "options.c", "requests.c", "tls.c")
LIBRARIES = ("-lssl", "-lcrypto")


def compile_program(directory, name, sources, libraries=()):
    """Compiles a program of ours into a directory, unless it is newer than its sources."""
    here = os.path.dirname(os.path.abspath(__file__))
    program = os.path.join(directory, name)
    sources = [os.path.join(here, source) for source in sources]
    headers = [os.path.join(here, header) for header in os.listdir(here) if header.endswith(".h")]
    os.makedirs(directory, exist_ok=True)
    if not os.path.exists(program) or any(os.path.getmtime(source) > os.path.getmtime(program)
                                          for source in sources + headers):
        fresh = f"{program}.{os.getpid()}"      # nobody runs what is still being written
        subprocess.run([os.environ.get("CC", "cc"), "-std=gnu17", "-O2", "-o", fresh,
                        *sources, *libraries], check=True)
        os.replace(fresh, program)
    return program


def build(directory):
    """The load generator, compiled."""
    return compile_program(directory, "load", SOURCES, LIBRARIES)


class Client:
    """The load generator, pinned; one process on each of `cpus`, which are sets of CPUs."""

    def __init__(self, program, cpus, directory, connections=32, descriptors=20000,
                 is_busy=False):
        self.program, self.cpus, self.directory = program, cpus, directory
        self.connections, self.descriptors = connections, descriptors
        self.timed_options = ("-b",) if is_busy else ()
        self.h2load = H2load(cpus[0], directory, connections, descriptors)

    def command(self, server, row, options):
        """The command line for a row."""
        command = [self.program, "-p", str(server.port), "-h", row.host,
                   "-c", str(self.connections), *options]
        for line in row.headers:
            command += ["-H", line]
        if len(row.uris) == 1:
            return [*command, row.uris[0]]
        name = f"{self.directory}/{row.name}.uris"
        if not os.path.exists(name):
            with open(name, "w", encoding="ascii") as file:
                file.write("\n".join(row.uris) + "\n")
        return [*command, "-f", name]

    def start(self, server, row, options, cpus, **streams):
        """Starts one process of it on a set of CPUs."""
        return subprocess.Popen(self.command(server, row, options), stdout=subprocess.PIPE,
                                preexec_fn=prepare_child(cpus, self.descriptors), text=True,
                                **streams)

    @contextlib.contextmanager
    def waiting(self, server, row, count):
        """A block during which so many requests are out, one on each connection."""
        process = self.start(server, row, ("-c", str(count), "-t", str(WAITING_SECONDS)),
                             self.cpus[0])
        try:
            yield
        finally:
            process.kill()
            process.communicate()

    def run(self, server, row, seconds=None, requests=None, may_fail=False):
        """Makes load for some seconds or requests. Gives the sum of what the processes say."""
        if row.streams:
            return self.h2load.run(server, row, seconds, requests)
        amount = ("-t", str(seconds), *self.timed_options) if seconds else ("-n", str(requests))
        cpus = self.cpus if seconds else self.cpus[:1]
        started = [self.start(server, row, (*row.options, *amount), one) for one in cpus]
        answers = [json.loads(process.communicate()[0] or "null") for process in started]
        if None in answers:
            raise BenchError("the load generator failed")
        errors = {}
        for answer in answers:
            for kind, count in answer["errors"].items():
                if count:
                    errors[kind] = errors.get(kind, 0) + count
        if errors and not may_fail:
            raise BenchError(f"{server.binary}, row {row.name}: errors {errors}")
        for answer in answers:
            full = answer["handshakes"] - answer["resumed"]
            if "-R" in row.options and full > 1 and not may_fail:
                raise BenchError(f"{server.binary}, row {row.name}: {full} full handshakes")
        total = answers[0]
        for answer in answers[1:]:
            for name in ("requests", "rps", "client_cpu"):
                total[name] += answer[name]
        return total


class Holder:
    """Idle connections, held until the end of the block."""

    def __init__(self, client, server, row, count):
        self.process = client.start(server, row, (*row.options, "-i", str(count)), client.cpus[0],
                                    stdin=subprocess.PIPE)
        line = self.process.stdout.readline()
        self.count = json.loads(line)["held"] if line else 0
        if self.count != count:
            self.process.stdin.close()
            raise BenchError(f"{server.binary}: {self.count} of {count} idle connections: "
                             f"{self.process.stdout.read()} {server.last_words()}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.release()

    def release(self):
        """Closes them. Gives the number that the server had closed before."""
        if self.process.stdin.closed:
            return 0
        self.process.stdin.close()
        text = self.process.stdout.read()
        self.process.wait()
        return json.loads(text)["errors"]["lost"] if text else 0
