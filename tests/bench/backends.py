"""The applications behind the server, in rows that pass requests on: compiled, started, ended."""

import contextlib
import glob
import json
import os
import signal
import socket
import subprocess
import time

import loads
from servers import STOP_SECONDS, BenchError, free_port, prepare_child

START_SECONDS = 10
PROCESSES = 4           # of libfcgi's application and of php-fpm: each has one request at a time
HELLO = b"Hello, world\n"
REDIS = "/usr/bin/redis-server"

PHP_SCRIPT = "<?php header('Content-Type: text/plain'); header('Content-Length: 13');\n" \
    "echo \"Hello, world\\n\";\n"
# Neither of those who are compared is behind the other; the reference's handshakes are its own affair.
TLS_BEHIND = """\
{user}daemon off; master_process off; pid {directory}/tls-backend.pid; error_log {directory}/tls-backend.log;
events {{ worker_connections 4096; }}
http {{
    access_log off;
    server {{
        listen {address} ssl backlog=4096;
        ssl_protocols TLSv1.2 TLSv1.3;
        ssl_certificate {directory}/tls/ecdsa.crt;
        ssl_certificate_key {directory}/tls/ecdsa.key;
        location / {{ return 200 "Hello, world\\n"; }}
    }}
}}
"""
PHP_FPM = """\
[global]
error_log = {directory}/php-fpm.log
daemonize = no
[bench]
{user}listen = {address}
listen.backlog = 4096
pm = static
pm.max_children = {processes}
"""


def build(directory):
    """Compiles what the rows need."""
    loads.compile_program(directory, "http_backend", ("http_backend.c", "service.c"))
    loads.compile_program(directory, "grpc_backend", ("grpc_backend.c", "service.c"))
    loads.compile_program(directory, "fastcgi_responder",
                          ("fastcgi_responder.c", "service.c"))
    loads.compile_program(directory, "fastcgi_libfcgi", ("fastcgi_libfcgi.c",), ("-lfcgi",))
    loads.compile_program(directory, "fastcgi_chain", ("fastcgi_chain.c", "response.c"), ("-lfcgi",))


class Backend:
    """Some processes that serve an address. `address` is as a server line takes it."""

    def __init__(self, address, processes):
        self.address, self.processes = address, processes
        self.port = None if address.startswith("unix:") else int(address.split(":")[1])

    def counts(self):
        """What the application counted since its start; nothing where it does not count."""
        process = self.processes[0]
        if process.stdout is None:
            return {}
        process.send_signal(signal.SIGUSR1)
        return json.loads(process.stdout.readline() or "{}")

    def stop(self):
        """Ends all processes, and waits for their end."""
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            if process.stdout is not None:
                process.stdout.close()
        if self.address.startswith("unix:"):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self.address[5:])


@contextlib.contextmanager
def started(kind, directory, programs, cpus, descriptors):
    """A backend of a kind (first word: which; the others: its options), pinned to CPUs."""
    word, *options = kind
    address = f"127.0.0.1:{free_port()}"
    if options[:1] == ["unix"]:
        options.pop(0)
        address = f"unix:{directory}/backend-{free_port()}.sock"
    prepare = prepare_child(cpus, descriptors)
    backend = STARTERS[word](address, options, directory, programs, prepare)
    try:
        yield backend
    finally:
        backend.stop()


def start_counting(program):
    """Gives what starts one of our own programs: it says "ready", and counts."""
    def start(address, options, _directory, programs, prepare):
        process = subprocess.Popen([f"{programs}/{program}", *options, address], text=True,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   preexec_fn=prepare)
        backend = Backend(address, [process])
        if process.stdout.readline() != "ready\n":
            backend.stop()
            raise BenchError(f"{program} does not start")
        return backend
    return start


def spawn(address, command, prepare):
    """Processes of an application on libfcgi. They have the listener as descriptor 0, which is all
    that spawn-fcgi does; so they are our children, and end with us."""
    host, port = address.split(":")
    with socket.create_server((host, int(port)), backlog=4096) as listener:
        return [subprocess.Popen(command, stdin=listener, stdout=subprocess.DEVNULL,
                                 preexec_fn=prepare) for _ in range(PROCESSES)]


def start_libfcgi(address, _options, _directory, programs, prepare):
    """libfcgi's application, which answers by itself."""
    return Backend(address, spawn(address, [f"{programs}/fastcgi_libfcgi"], prepare))


def start_chain(address, options, directory, programs, prepare):
    """An application on libfcgi that asks a second service, and that service."""
    service = start_counting("http_backend")(f"127.0.0.1:{free_port()}", options, directory,
                                             programs, prepare)
    processes = spawn(address, [f"{programs}/fastcgi_chain", str(service.port)], prepare)
    return Backend(address, [*service.processes, *processes])


def start_php(address, _options, directory, _programs, prepare):
    """php-fpm with one pool. The script is directory/html/hello.php."""
    found = sorted(glob.glob("/usr/sbin/php-fpm*"))
    if not found:
        raise BenchError("php-fpm is not there")
    with open(f"{directory}/html/hello.php", "w", encoding="ascii") as file:
        file.write(PHP_SCRIPT)
    is_root = os.geteuid() == 0
    name = f"{directory}/php-fpm.{address.split(':')[1]}.conf"
    with open(name, "w", encoding="ascii") as file:
        file.write(PHP_FPM.format(directory=directory, address=address, processes=PROCESSES,
                                  user="user = root\ngroup = root\n" if is_root else ""))
    process = subprocess.Popen([found[-1], "-y", name, *(["-R"] if is_root else [])],
                               stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL, preexec_fn=prepare)
    backend = Backend(address, [process])
    try:
        wait_until_ready(backend)
    except BaseException:
        backend.stop()
        raise
    return backend


def start_redis(address, _options, directory, _programs, prepare):
    """redis, which keeps nothing on disk, with the word that rows ask for."""
    host, port = address.split(":")
    process = subprocess.Popen([REDIS, "--bind", host, "--port", port, "--save", "", "--dir", directory],
                               stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL, preexec_fn=prepare)
    backend = Backend(address, [process])
    try:
        wait_until_ready(backend)
        with socket.create_connection((host, int(port)), START_SECONDS) as sock:
            sock.sendall(b'SET greeting "hello\\n"\r\n')
            if sock.recv(100) != b"+OK\r\n":
                raise BenchError("redis does not take a word")
    except BaseException:
        backend.stop()
        raise
    return backend


def start_tls(address, _options, directory, _programs, prepare):
    """Debian's nginx, which ends TLS."""
    name = f"{directory}/tls-backend.conf"
    with open(name, "w", encoding="ascii") as file:
        file.write(TLS_BEHIND.format(directory=directory, address=address,
                                     user="user root; " if os.geteuid() == 0 else ""))
    process = subprocess.Popen(["/usr/sbin/nginx", "-c", name, "-e", f"{directory}/tls-backend.log"],
                               stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL, preexec_fn=prepare)
    backend = Backend(address, [process])
    try:
        wait_until_ready(backend)
    except BaseException:
        backend.stop()
        raise
    return backend


def wait_until_ready(backend):
    """Returns when something listens on the port of a backend that does not say so itself."""
    host, port = backend.address.split(":")
    end = time.monotonic() + START_SECONDS
    while True:
        try:
            socket.create_connection((host, int(port)), 1).close()
            return
        except OSError:
            process = backend.processes[0]
            if process.poll() is not None or time.monotonic() > end:
                raise BenchError(f"{process.args[0]} does not listen") from None
            time.sleep(0.01)


STARTERS = {"http": start_counting("http_backend"),
            "grpc": start_counting("grpc_backend"),
            "responder": start_counting("fastcgi_responder"),
            "libfcgi": start_libfcgi, "chain": start_chain, "php": start_php, "tls": start_tls,
            "redis": start_redis}
