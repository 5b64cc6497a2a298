"""Cache files that something else has changed, and purges that race with everything: what is given as whole is right, and a
worker waits for nobody."""

import glob
import os
import random
import shutil
import threading

import pytest

from harness import Client, Closed, ProtocolError, Timeout, until
from harness.workers import wait_workers

SIZE = 300000
HEAD = 64   # bytes of a file's header that are changed: what lies behind it may be the body, whose bytes nobody checks

HTTP = """
    proxy_cache_path @DIR@/cache keys_zone=shop:1m use_temp_path=off %s;
    server {
        listen 127.0.0.1:@PORT@;
        location / {
            proxy_pass http://127.0.0.1:@PORT1@; proxy_cache shop; proxy_cache_valid 1h; proxy_cache_lock on;
            proxy_cache_key $uri; add_header X-Cache $upstream_cache_status;
        }
    }
    server { listen 127.0.0.1:@PORT1@; location / { root html; } }
"""


def text_of(name):
    return (name * SIZE)[:SIZE].encode()


def cache_files(server):
    return [path for path in glob.glob(server.path("cache/**"), recursive=True) if os.path.isfile(path) and os.path.getsize(path) > SIZE]


def replace(path, make):
    os.unlink(path)
    make(path)


def change(path, at, data):
    with open(path, "r+b") as file:
        file.seek(at)
        file.write(data)


def clobber_head(path):
    change(path, 0, bytes(random.Random(1).randrange(256) for _ in range(HEAD)))


# name: what is done to the file of an entry, and whether it can be seen (else the body is what the file says)
HARMS = {
    "empty": lambda path: os.truncate(path, 0),
    "short head": lambda path: os.truncate(path, 40),
    "half": lambda path: os.truncate(path, SIZE // 2),
    "one byte less": lambda path: os.truncate(path, os.path.getsize(path) - 1),
    "longer": lambda path: change(path, os.path.getsize(path), b"more" * 10),
    "head of chance": clobber_head,
    "zeros": lambda path: change(path, 0, bytes(HEAD)),
    "ones": lambda path: change(path, 0, b"\xff" * HEAD),
    "gone": os.unlink,
    "a folder": lambda path: replace(path, os.mkdir),
    "a pipe": lambda path: replace(path, os.mkfifo),
    "a link to elsewhere": lambda path: replace(path, lambda name: os.symlink("/etc/passwd", name)),
    "a device": lambda path: replace(path, lambda name: os.symlink("/dev/zero", name)),
    "no rights": lambda path: os.chmod(path, 0),
}


# Of a file that was cut since it was opened.
CUT = [r"pread\(\) read only \d+ of \d+ from", r"sendfile\(\)"]


def is_whole(server, name):
    """Is the next answer the body? Another one is at least seen to be cut."""
    try:
        answer = server.get("/" + name)
    except (Closed, ProtocolError):
        return False
    assert answer.status == 200 and answer.body == text_of(name), (answer.status, len(answer.body))
    return True


def tidy(server, path):
    """What the server cannot take away itself."""
    if os.path.isdir(path):
        os.rmdir(path)


@pytest.mark.parametrize("when", ["kept", "fresh"])
@pytest.mark.parametrize("harm", HARMS)
def test_a_cache_file_that_was_changed(serve, harm, when):
    """Each answer is the whole body, or is seen to be cut; a second later it is whole in any case. "kept": the worker has it open;
    "fresh": one that knows it by the index alone."""
    server = serve(HTTP % "", main="worker_processes 1;", files={"html/a": text_of("a")}, allow=CUT)
    assert server.get("/a").body == text_of("a")
    until(lambda: server.get("/a").header("X-Cache") == "HIT", "a stored response")
    if when == "fresh":
        before = server.children()
        server.reload()
        wait_workers(server, 1, without=before)
    [path] = cache_files(server)
    HARMS[harm](path)
    until(lambda: is_whole(server, "a"), "a whole answer")
    assert all(is_whole(server, "a") for _ in range(3))
    tidy(server, path)


@pytest.mark.parametrize("harm", HARMS)
def test_a_loader_meets_a_changed_file(serve, harm):
    """At a start with an index that knows nothing."""
    server = serve(HTTP % "", files={"html/a": text_of("a"), "html/b": text_of("b")}, allow=CUT)
    for name in "ab":
        server.get("/" + name)
        until(lambda: server.get("/" + name).header("X-Cache") == "HIT", "a stored response")
    files = cache_files(server)
    server.quit()
    server.wait_end()
    HARMS[harm](files[0])
    for snapshot in glob.glob(server.path("cache/*.*")) + glob.glob(server.path("cache/.*")):
        if os.path.isfile(snapshot):
            os.unlink(snapshot)
    again = serve(conf=server.conf, directory=server.dir, allow=CUT)
    for name in "ab":
        until(lambda: is_whole(server, name), "a whole answer")
        assert is_whole(server, name)
    assert len(again.children()) == 1
    tidy(server, files[0])


def test_files_are_cut_while_slow_clients_read(serve):
    """What was sent as whole is right; who cannot be given the rest is cut off."""
    server = serve(HTTP % "", main="worker_processes 2;", files={"html/%s" % name: text_of(name) for name in "abcdef"}, allow=CUT)
    for name in "abcdef":
        until(lambda: server.get("/" + name).header("X-Cache") == "HIT", "a stored response")
    clients = []
    for name in "abcdef" * 3:
        client = Client(server.port)
        client.socket.setsockopt(6, 10, 4096)  # TCP_WINDOW_CLAMP: the kernel takes little
        client.send("GET /%s HTTP/1.1\r\nHost: a\r\n\r\n" % name)
        clients.append((name, client))
    for path in cache_files(server):
        os.truncate(path, SIZE // 3)
    whole = 0
    for name, client in clients:
        try:
            answer = client.response("GET")
        except (Closed, ProtocolError):
            continue
        assert answer.body == text_of(name)
        whole += 1
    for name in "abcdef":
        until(lambda: is_whole(server, name), "a whole answer")
        assert all(is_whole(server, name) for _ in range(4))
    print("%d of %d were whole" % (whole, len(clients)))


# ---- purges

PURGE = """
    proxy_cache_path @DIR@/cache keys_zone=shop:1m use_temp_path=off levels=1:2 inactive=1h %s;
    map $request_method $purges { PURGE 1; default 0; }
    server {
        listen 127.0.0.1:@PORT@;
        location / {
            proxy_pass http://127.0.0.1:@PORT1@; proxy_cache shop; proxy_cache_valid 1h;
            proxy_cache_key $uri; proxy_cache_purge $purges; add_header X-Cache $upstream_cache_status;
        }
    }
    server { listen 127.0.0.1:@PORT1@; location / { add_header X-Stamp $arg_stamp; return 200 "$uri $arg_stamp"; } }
"""


class Storm:
    """Threads that ask and purge until told; every failure is kept."""

    def __init__(self, server, seed):
        self.server, self.ends, self.failures, self.counts = server, False, [], {"asked": 0, "purged": 0, "cut": 0}
        self.threads = [threading.Thread(target=self._run, args=(kind, seed * 100 + number), daemon=True)
                        for number, kind in enumerate([self.ask] * 3 + [self.purge] * 2)]
        for thread in self.threads:
            thread.start()

    def _run(self, what, seed):
        chance = random.Random(seed)
        client = Client(self.server.port)
        while not self.ends:
            try:
                what(client, chance)
            except (Closed, ProtocolError, OSError):
                self.counts["cut"] += 1     # the worker of before has left
                client = Client(self.server.port)
            except Timeout as failure:
                self.failures.append(repr(failure))
                client = Client(self.server.port)
            except AssertionError as failure:
                self.failures.append(repr(failure))

    def ask(self, client, chance):
        name = "/%d/%d" % (chance.randrange(3), chance.randrange(20))
        answer = client.request(name + "?stamp=1")
        assert answer.status == 200 and answer.text == name + " 1", answer
        self.counts["asked"] += 1

    def purge(self, client, chance):
        name = chance.choice(["/%d/%d" % (chance.randrange(3), chance.randrange(20)), "/%d/*" % chance.randrange(3), "/*"])
        status = client.request(name, method="PURGE").status
        assert status in (204, 404, 412), status
        self.counts["purged"] += 1

    def end(self):
        self.ends = True
        for thread in self.threads:
            thread.join(60)
        assert not self.failures, self.failures[:5]
        assert self.counts["asked"] > 50 and self.counts["purged"] > 20, self.counts


@pytest.mark.parametrize("more", ["", "max_size=100k", "purger=on"])
def test_purges_race_with_fetches_and_reloads(serve, more):
    server = serve(PURGE % more, main="worker_processes 3;")
    storm = Storm(server, 1)
    for turn in range(3):
        until(lambda: storm.counts["purged"] > 30 * (turn + 1), lambda: "purges: %s %s" % (storm.counts, storm.failures[:3]), 60)
        before = server.children()
        server.reload()
        wait_workers(server, 3, without=before)
    storm.end()
    # All is quiet: a purge is seen by every worker, at once.
    server.get("/0/0?stamp=1")
    assert server.client().request("/*", method="PURGE").status in (204, 404)
    answers = {server.get("/0/0?stamp=2").text for _ in range(12)}
    assert answers == {"/0/0 2"}
