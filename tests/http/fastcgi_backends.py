"""FastCGI backends: by a script, record by record, and real ones (php-fpm, php-cgi, libfcgi, the benchmark's responder),
for test_http_fastcgi.py."""

import atexit
import contextlib
import functools
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import threading

import pytest

from cgi_backends import Program
from harness import ports
from harness.wait import until

BEGIN, ABORT, END, PARAMS, STDIN, STDOUT, STDERR = 1, 2, 3, 4, 5, 6, 7
GET_VALUES, GET_VALUES_RESULT, UNKNOWN_TYPE = 9, 10, 11

HEAD = b"Content-Type: text/plain\r\n\r\n"

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def record(kind, content=b"", request=1, padding=0, version=1):
    return struct.pack(">BBHHBB", version, kind, request, len(content), padding, 0) \
        + content + bytes(padding)


def end(request=1, protocol_status=0, application_status=0):
    return record(END, struct.pack(">IB3x", application_status, protocol_status), request)


def answer(body=b"hello", head=HEAD, request=1):
    return record(STDOUT, head + body, request) + record(STDOUT, b"", request) + end(request)


def hang_up(conn):
    """The end of a connection, whoever else holds its descriptor."""
    with contextlib.suppress(OSError):
        conn.shutdown(socket.SHUT_RDWR)


def pair(name, value):
    def length(text):
        return bytes([len(text)]) if len(text) < 128 else struct.pack(">I", len(text) | 1 << 31)
    return length(name) + length(value) + name + value


def values(**facts):
    """What a backend says to FCGI_GET_VALUES."""
    content = b"".join(pair(b"FCGI_" + name.upper().encode(), str(value).encode())
                       for name, value in facts.items())
    return record(GET_VALUES_RESULT, content, 0)


def pairs(data):
    """Decodes PARAMS: [(name, value)] in order."""
    found, at = [], 0
    while at < len(data):
        lengths = []
        for _ in range(2):
            if data[at] < 128:
                lengths.append(data[at])
                at += 1
            else:
                lengths.append(struct.unpack_from(">I", data, at)[0] & 0x7fffffff)
                at += 4
        name, value = data[at:at + lengths[0]], data[at + lengths[0]:at + sum(lengths)]
        found.append((name.decode("latin-1"), value.decode("latin-1")))
        at += sum(lengths)
    assert at == len(data)
    return found


class Request:
    """A request as a backend reads it: its records, parameters and body."""

    def __init__(self, records):
        self.records = records
        self.asks = any(kind == GET_VALUES for kind, _, _ in records)
        begin = next(record for record in records if record[0] == BEGIN)
        self.id = begin[1]
        self.role, self.flags = struct.unpack_from(">HB", begin[2])
        self.pairs = pairs(b"".join(body for kind, _, body in records if kind == PARAMS))
        self.params = dict(self.pairs)
        self.body = b"".join(body for kind, _, body in records if kind == STDIN)

    @property
    def keeps(self):
        return self.flags & 1 == 1


def read_record(stream):
    """(type, id, content), or None at the end."""
    head = stream.read(8)
    if len(head) < 8:
        return None
    version, kind, number, size, padding, _ = struct.unpack(">BBHHBB", head)
    assert version == 1
    content = stream.read(size)
    stream.read(padding)
    return kind, number, content


def read_request(stream, knows_first=False):
    """A whole Request, to the end of STDIN, or False for the question between two of them; None at the end."""
    records = []
    while True:
        found = read_record(stream)
        if found is None:
            return None
        if found[0] == GET_VALUES and not records and knows_first:
            return False
        records.append(found)
        if found[0] == STDIN and not found[2]:
            return Request(records)


class Scripted:
    """A backend that answers each request with answer(request, connection): bytes, or None when it has sent them itself.
    The connection goes on when the request said so. `says`: the answer to FCGI_GET_VALUES, which comes between requests:
    `questions` are the numbers of requests before."""

    def __init__(self, reply, says=None):
        self.reply = reply if callable(reply) else lambda request, conn: reply
        self.says = says
        self.requests = []
        self.questions = []
        self.connections = self.closed = 0
        self.listener = socket.socket()
        self.listener.bind(("127.0.0.1", 0))
        self.listener.listen(64)
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        while True:
            try:
                conn = self.listener.accept()[0]
            except OSError:
                return
            self.connections += 1
            conn.settimeout(10)
            threading.Thread(target=self._talk, args=(conn,), daemon=True).start()

    def _talk(self, conn):
        with conn, conn.makefile("rb") as stream:
            try:
                while True:
                    request = read_request(stream, True)
                    if request is None:
                        return
                    if request is False:
                        self.questions.append(len(self.requests))
                        if self.says is not None:
                            conn.sendall(self.says)
                        continue
                    self.requests.append(request)
                    data = self.reply(request, conn)
                    if data is not None:
                        conn.sendall(data)
                    if not request.keeps:
                        return
            except (OSError, ValueError):
                pass
            finally:
                self.closed += 1

    def is_known(self):
        """The connection of the question ends when the answer was understood; nothing else may be going on."""
        return self.closed != 0 and self.closed == self.connections

    def __enter__(self):
        return self

    def __exit__(self, *what):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()


class OfFirstRecord(Scripted):
    """A backend that answers with the id of the first record that came, and ends when it sees one it does not know."""

    def _talk(self, conn):
        with conn, conn.makefile("rb") as stream:
            first = found = read_record(stream)
            while found and found[0] in (BEGIN, PARAMS, STDIN, GET_VALUES):
                if found[0] == GET_VALUES and found is not first:
                    break
                if found[0] == STDIN and not found[2]:
                    conn.sendall(answer(request=first[1]))
                found = read_record(stream)
        self.closed += 1


# ---- real ones

class Responder:
    """tests/bench/fastcgi_responder on a free port; counts() tells what it saw."""

    def __init__(self, *options):
        program = compiled("fastcgi_responder", *[
            os.path.join(TOP, "tests", "bench", name)
            for name in ("fastcgi_responder.c", "service.c")])
        self._port = ports.take()
        self.port = self._port.number
        self.process = subprocess.Popen(
            [program, "-s", *options, "127.0.0.1:%d" % self.port],
            stdout=subprocess.PIPE, text=True)
        assert self.process.stdout.readline() == "ready\n"

    def counts(self):
        self.process.send_signal(signal.SIGUSR1)
        return json.loads(self.process.stdout.readline())

    def is_known(self):
        """As that of Scripted."""
        return self.counts()["open"] == 0

    def __enter__(self):
        return self

    def __exit__(self, *what):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        self._port.close()


FPM_CONF = """
[global]
error_log = %(dir)s/fpm.log
daemonize = no
[www]
listen = %(dir)s/fpm.sock
listen.mode = 0666
%(user)s
pm = static
pm.max_children = 3
catch_workers_output = no
php_admin_value[session.save_path] = %(dir)s/sessions
php_admin_value[upload_tmp_dir] = %(dir)s/uploads
php_admin_value[sys_temp_dir] = %(dir)s/uploads
php_admin_value[upload_max_filesize] = 64m
php_admin_value[post_max_size] = 64m
php_admin_flag[log_errors] = on
php_admin_value[error_log] =
"""


class Fpm:
    """php-fpm with a pool of three children, on the unix socket `address`; scripts lie in `root`."""

    def __init__(self, scripts):
        name = next((found for found in map(shutil.which, (
            "php-fpm", "php-fpm8.2", "/usr/sbin/php-fpm8.2", "/usr/sbin/php-fpm8.3",
            "/usr/sbin/php-fpm8.4")) if found), None)
        if name is None:
            pytest.skip("php-fpm is not installed")
        self.directory = tempfile.mkdtemp(prefix="portunus-fpm-")
        os.chmod(self.directory, 0o755)
        for part in ("sessions", "uploads", "root"):
            os.mkdir(os.path.join(self.directory, part))
            os.chmod(os.path.join(self.directory, part), 0o777)
        self.root = os.path.join(self.directory, "root")
        for script, text in scripts.items():
            path = os.path.join(self.root, script)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="ascii") as file:
                file.write(text)
        user = "user = nobody\ngroup = nogroup" if os.getuid() == 0 else ""
        conf = os.path.join(self.directory, "fpm.conf")
        with open(conf, "w", encoding="ascii") as file:
            file.write(FPM_CONF % {"dir": self.directory, "user": user})
        self.address = os.path.join(self.directory, "fpm.sock")
        self.log = open(os.path.join(self.directory, "output"), "wb")
        self.process = subprocess.Popen([name, "-F", "-y", conf, "-n"], stdout=self.log,
                                        stderr=self.log, start_new_session=True)
        until(self._listens, "php-fpm to listen")

    def _listens(self):
        assert self.process.poll() is None, "php-fpm ended"
        with socket.socket(socket.AF_UNIX) as trial:
            return trial.connect_ex(self.address) == 0

    def close(self):
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.log.close()
        shutil.rmtree(self.directory)


LIBFCGI = r"""
#include <fcgi_stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int main(void)
{
    static char buffer[4096];
    int count = 0;
    while (FCGI_Accept() >= 0) {
        const char *uri = getenv("REQUEST_URI");
        size_t n, size = 0;
        while ((n = fread(buffer, 1, sizeof(buffer), stdin)) > 0)
            size += n;
        count++;
        if (strstr(uri, "stderr"))
            fprintf(stderr, "words on stderr");
        if (strstr(uri, "slow"))
            usleep(100000);
        printf("Status: 201 Made\r\nContent-Type: text/plain\r\nX-Pid: %d\r\nX-Count: %d\r\n\r\n%s %d\n",
               (int) getpid(), count, uri, (int) size);
        for (int i = 0; strstr(uri, "large") && i < 20000; i++)
            printf("line %d\n", i);
    }
    return 0;
}
"""


@functools.lru_cache(maxsize=None)
def compiled(name, *arguments, source=None):
    """A C program, compiled once of files or of a text; its file goes when the tests end."""
    directory = tempfile.mkdtemp(prefix="portunus-programs-")
    atexit.register(shutil.rmtree, directory, True)
    program = os.path.join(directory, name)
    text = () if source is None else ("-x", "c", "-")
    subprocess.run([os.environ.get("CC", "cc"), "-std=gnu17", "-O1", "-o", program, *text,
                    *arguments], check=True, input=source, text=True)
    return program


def libfcgi(processes=1):
    """A program on libfcgi, started by spawn-fcgi: `processes` of them on one port."""
    if shutil.which("spawn-fcgi") is None or not os.path.exists("/usr/include/fcgi_stdio.h"):
        pytest.skip("libfcgi or spawn-fcgi is not installed")
    command = [compiled("application", "-lfcgi", source=LIBFCGI)]
    if processes != 1:
        # Each of them inherits the socket, as spawn-fcgi -F has it; these end with their group.
        script = "exec 3<&0; for i in $(seq %d); do %s <&3 & done; wait" % (processes, command[0])
        command = ["/bin/sh", "-c", script]
    return Program("spawn-fcgi", "-n", "-a", "127.0.0.1", "-p", "@PORT@", "--", *command)
