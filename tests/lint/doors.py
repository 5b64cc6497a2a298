#!/usr/bin/env python3
"""Counts the doors that a reader goes through: the functions that one kept request enters.

doors.py BUILD          the numbers: a report, nothing fails by it
doors.py BUILD --list   and the functions by file, with the depth and the callers of each

BUILD holds nginx, compiled as usual but with -finstrument-functions, and doors_trace.so, which writes the
trace. What the compiler inlines counts: a reader goes there all the same. The second numbers leave out the inline
functions of headers. Counting begins when the bytes of the request wake the worker, and ends when it waits again after the
log line. Depth is the number of frames from the turn of the loop on, which is 1; the frames of a fiber are above those of
the loop that runs it.
"""

import os
import re
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))

from harness.server import Server  # noqa: E402

TARGETS = {"proxied": "/b/x", "static": "/page.html"}

HTTP = """
    access_log access.log combined;
    upstream backend { server 127.0.0.1:%d; keepalive 4; }
    server {
        listen 127.0.0.1:@PORT@;
        location / { root html; }
        location /b/ {
            proxy_pass http://backend;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
        }
    }
"""

ANSWER = (b"HTTP/1.1 200 OK\r\nServer: backend\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n"
          b"Content-Type: text/plain\r\nContent-Length: 12\r\nConnection: keep-alive\r\n\r\nhello world\n")

FUNCTION_ENTERED, FUNCTION_LEFT, WAIT_ENTERED, WAIT_LEFT = range(4)
# Fiber stacks are further apart than this, and no frame is as far from the first of its stack.
STACK_REACH = 64 * 1024
WARM_REQUESTS = 20
# On a busy machine a second may pass within a round, or the worker finds half an answer.
ROUNDS = 3
# A server whose peers were slow once goes another way for as long as it remembers: the next one may not.


def serve_backend(listener):
    """Answers each request on each connection with ANSWER, in one piece."""
    def serve(client):
        head = b""
        while data := client.recv(65536):
            head += data
            while b"\r\n\r\n" in head:
                head = head.split(b"\r\n\r\n", 1)[1]
                client.sendall(ANSWER)
    while True:
        try:
            client, _ = listener.accept()
        except OSError:
            return
        threading.Thread(target=serve, args=(client,), daemon=True).start()


class Trace:
    """The file that one process writes: a count, then its events."""

    HEADER = 16
    EVENT = struct.Struct("<QQ")

    def __init__(self, path):
        self.file = open(path, "rb", buffering=0)

    def count(self):
        return struct.unpack("<Q", os.pread(self.file.fileno(), 8, 0))[0]

    def events(self, count):
        """(kind, address, frame) of the first `count` ones."""
        data = os.pread(self.file.fileno(), count * self.EVENT.size, self.HEADER)
        return [(word >> 48, word & (1 << 48) - 1, frame) for word, frame in self.EVENT.iter_unpack(data)]

    def wait_idle(self):
        """Waits until the process waits for events, and gives the count there."""
        while True:
            before = self.count()
            time.sleep(0.03)
            if self.count() == before and self.events(before)[-1][0] == WAIT_ENTERED:
                return before


class Stacks:
    """The frames that live while a trace is read: of the loop, and of fibers on stacks of their own."""

    def __init__(self):
        self.stacks = []    # [first frame, [(function, frame), ...]]
        self.chain = []     # the loop's stack, then that which it runs, and so on

    def turn_to(self, frame):
        """The stack of a frame; what it was switched to from lies below it in the chain."""
        for stack in self.stacks:
            if stack[0] - STACK_REACH < frame <= stack[0]:
                break
        else:
            # The first frame of a fiber is not the highest of the stack for ever.
            stack = next((stack for stack in self.stacks if 0 < frame - stack[0] < 4096), None)
            if stack:
                stack[0] = frame
            else:
                stack = [frame, []]
                self.stacks.append(stack)
        if stack in self.chain:
            del self.chain[self.chain.index(stack) + 1:]
        else:
            self.chain.append(stack)
        return stack

    def enter(self, function, frame):
        """Gives the depth and the caller of what is entered."""
        frames = self.turn_to(frame)[1]
        while frames and frames[-1][1] < frame:
            frames.pop()        # a fiber ended there without returning
        callers = [entry[0] for stack in self.chain for entry in stack[1]]
        frames.append((function, frame))
        return len(callers) + 1, callers[-1] if callers else None

    def leave(self, function, frame):
        frames = self.turn_to(frame)[1]
        if any(entry[0] == function for entry in frames):
            while frames.pop()[0] != function:
                pass


class Entered:
    """One function that was entered: how deep at least and at most, how often, and by whom."""

    def __init__(self):
        self.depths = set()
        self.callers = set()
        self.times = 0


def entered_between(events, first, unseen=()):
    """address -> Entered, from the events after index `first` on; as if the functions `unseen` were not there."""
    stacks, entered = Stacks(), {}
    for index, (kind, function, frame) in enumerate(events):
        if function in unseen:
            continue
        if kind == FUNCTION_ENTERED:
            depth, caller = stacks.enter(function, frame)
            if index >= first:
                record = entered.setdefault(function, Entered())
                record.depths.add(depth)
                record.callers.add(caller)
                record.times += 1
        elif kind == FUNCTION_LEFT:
            stacks.leave(function, frame)
    below = min(min(record.depths) for record in entered.values()) - 1
    for record in entered.values():
        record.depths = {depth - below for depth in record.depths}
    return entered


def inline_functions(top):
    """The inline functions of headers: name -> header below src/."""
    found = {}
    for folder, _, files in os.walk(top):
        for file in files:
            if file.endswith(".h"):
                path = os.path.join(folder, file)
                with open(path, encoding="utf-8") as text:
                    for name in re.findall(r"^static inline [^;{}()=]*?(\w+)\(", text.read(), re.M):
                        found[name] = os.path.relpath(path, top)
    return found


def defines(path, name):
    """Whether a file has a function of this name for itself."""
    if not os.path.isfile(path):
        return False
    with open(path, encoding="utf-8") as text:
        return re.search(r"^(?!return)\w[^;{}()=]*\b%s\([^;]*\n\{" % name, text.read(), re.M) is not None


def names_of(binary, offsets):
    """offset in the program -> (file below src/, function), by its symbols and debug lines.

    A copy of an inline function has lines of the file that it was copied into: headers know better.
    """
    top = os.path.join(HERE, "../../src")
    inline = inline_functions(top)
    offsets = sorted(offsets)
    lines = subprocess.run(["addr2line", "-f", "-e", binary], check=True, capture_output=True, text=True,
                           input="".join("%x\n" % offset for offset in offsets)).stdout.splitlines()
    names = {}
    for offset, name, place in zip(offsets, lines[0::2], lines[1::2]):
        file = place.rsplit(":", 1)[0].split("/src/")[-1].removeprefix("src/")
        name = name.split(".")[0]
        names[offset] = (file if defines(os.path.join(top, file), name) else inline.get(name, file), name)
    return names


def base_of(pid, binary):
    with open("/proc/%d/maps" % pid, encoding="ascii") as maps:
        for line in maps:
            if line.rstrip().endswith(binary):
                return int(line.split("-")[0], 16)
    raise RuntimeError("%s is not in the maps of %d" % (binary, pid))


def exchange(client, target):
    """One kept request, and its answer read to the end."""
    client.sendall(b"GET %s HTTP/1.1\r\nHost: localhost\r\nUser-Agent: doors\r\nAccept: */*\r\n\r\n"
                   % target.encode())
    answer = b""
    while b"\r\n\r\n" not in answer:
        answer += client.recv(65536)
    length = int(re.search(rb"\r\nContent-Length: (\d+)", answer).group(1))
    while len(answer.split(b"\r\n\r\n", 1)[1]) < length:
        answer += client.recv(65536)
    if not answer.startswith(b"HTTP/1.1 200 "):
        raise RuntimeError("%s answered %r" % (target, answer))


def measure(server, trace, target):
    """The events of a request when the same one came before it in the same second: (events, index of its first)."""
    with socket.create_connection(("127.0.0.1", server.port)) as client:
        for _ in range(WARM_REQUESTS):
            exchange(client, target)
            trace.wait_idle()
        # The clock formats its strings once a second: the warm request does that.
        time.sleep((1.15 - time.time() % 1) % 1)
        exchange(client, target)
        first = trace.wait_idle()
        exchange(client, target)
        events = trace.events(trace.wait_idle())
    trace.wait_idle()
    return events, first


def measure_least(server, trace, request):
    """The events of the round in which a request entered the fewest functions: a turn of the loop that sees to
    something else as well (a timer, a clock that moved on) enters more, and none enters less."""
    least = None
    for _ in range(ROUNDS):
        events, first = measure(server, trace, TARGETS[request])
        entered = len({event[1] for event in events[first:] if event[0] == FUNCTION_ENTERED})
        if least is None or entered < least[0]:
            least = (entered, events, first)
    return least[1:]


def counts(entered, names):
    places = {names[function] for function in entered}
    return (len(places), len({file for file, _ in places}),
            max(max(record.depths) for record in entered.values()))


def listing(entered, names):
    """The functions by file, with how often, at which depths and from where they are entered."""
    files = {}
    for function, record in entered.items():
        file, name = names[function]
        callers = ", ".join(sorted({names[caller][1] for caller in record.callers if caller}))
        files.setdefault(file, []).append((min(record.depths), max(record.depths), name, record.times, callers))
    lines = []
    for file in sorted(files):
        lines.append("src/%s: %d" % (file, len(files[file])))
        lines += ["    %-7s %-32s %3d of %s" % ("%d" % least if least == most else "%d-%d" % (least, most),
                                                name, times, callers or "-")
                  for least, most, name, times, callers in sorted(files[file])]
    return lines


def run(build):
    """request -> (functions, files, depth), the same without inline functions of headers, a listing."""
    binary = os.path.realpath(os.path.join(build, "nginx"))
    listener = socket.create_server(("127.0.0.1", 0))
    threading.Thread(target=serve_backend, args=(listener,), daemon=True).start()
    with tempfile.TemporaryDirectory(prefix="doors-") as folder:
        environment = dict(os.environ, DOORS=folder,
                           LD_PRELOAD=os.path.realpath(os.path.join(build, "doors_trace.so")))
        with Server(HTTP % listener.getsockname()[1], binary=binary, env=environment,
                    main="worker_processes 1;", files={"html/page.html": "hello world\n"}) as server:
            server.get(TARGETS["static"])
            [worker] = server.children()
            trace = Trace(os.path.join(folder, "%d" % worker))
            base = base_of(worker, binary)
            found = {}
            for request in TARGETS:
                events, first = measure_least(server, trace, request)
                functions = {event[1] for event in events if event[0] == FUNCTION_ENTERED}
                offsets = names_of(binary, {function - base for function in functions})
                names = {function: offsets[function - base] for function in functions}
                inline = {function for function in functions if names[function][0].endswith(".h")}
                entered = entered_between(events, first)
                found[request] = (counts(entered, names),
                                  counts(entered_between(events, first, inline), names),
                                  listing(entered, names))
    listener.close()
    return found


def main():
    if len(sys.argv) < 2 or sys.argv[2:] not in ([], ["--list"]):
        print(__doc__, file=sys.stderr)
        return 2
    for request, (numbers, sources, lines) in run(sys.argv[1]).items():
        print("%s: %d functions in %d files, %d deep (without those of headers %d, %d, %d)"
              % ((request,) + numbers + sources))
        if len(sys.argv) > 2:
            print("\n".join(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
