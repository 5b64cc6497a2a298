"""The cache of a running server: over restarts and reloads, with several workers, when workers die."""

import itertools
import os
import shutil
import signal
import threading

import pytest

from harness import h2, until
from harness.workers import wait_workers

HTTP = """
    proxy_cache_path cache levels=1:2 keys_zone=one:1m %s;
    server {
        listen 127.0.0.1:@PORT@;
        location / {
            proxy_pass http://127.0.0.1:%d;
            proxy_cache one;
            proxy_cache_key $uri;
            proxy_cache_valid 200 1h;
            proxy_cache_lock on;
            proxy_cache_lock_age 1h;
            proxy_cache_lock_timeout 1h;
            proxy_cache_purge PURGE from all;
            add_header X-Cache $upstream_cache_status always;
        }
    }
"""


def answer(conn, request):
    """The body says what was asked for."""
    body = b"body of " + request.split(b" ")[1]
    conn.sendall(b"HTTP/1.0 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))


@pytest.fixture
def fast(backend):
    return backend([answer])


def statuses(server, count, prefix="/k"):
    """How so many keys are answered; each answer must be the key's own."""
    found = []
    for i in range(count):
        response = server.get("%s%d" % (prefix, i))
        assert response.text == "body of %s%d" % (prefix, i)
        found.append(response.header("X-Cache"))
    return found


def file_paths(server):
    return [os.path.join(at, name) for at, _, names in os.walk(server.path("cache"))
            for name in names if not name.startswith(".")]


def cached_files(server):
    return [os.path.basename(path) for path in file_paths(server)]


def reload(server, count):
    """The count-th one, also where there is one process only."""
    if server.children():
        server.reload()
    else:
        server.signal("reload")
        until(lambda: server.error_log.count(": reconfiguring") >= count, "the reload")


def test_responses_outlive_a_restart(serve, fast):
    server = serve(HTTP % ("loader_sleep=1h loader_files=1", fast.port))
    assert statuses(server, 20) == ["MISS"] * 20
    server.quit()
    server.start()
    server.wait_log("20 entries from the index file")
    assert statuses(server, 20) == ["HIT"] * 20
    assert len(fast.requests) == 20


def test_responses_are_found_without_an_index_file(serve, fast):
    server = serve(HTTP % ("", fast.port))
    assert statuses(server, 20) == ["MISS"] * 20
    server.quit()
    os.unlink(server.path("cache/.index"))
    server.start()
    assert statuses(server, 20) == ["HIT"] * 20


@pytest.mark.parametrize("main", ["worker_processes 2;", "master_process off;"])
def test_responses_outlive_reloads(serve, fast, main):
    server = serve(HTTP % ("", fast.port), main=main)
    assert statuses(server, 5) == ["MISS"] * 5
    for count in range(1, 4):
        reload(server, count)
        assert statuses(server, 5) == ["HIT"] * 5
    assert cached_files(server) != []
    server.configure(HTTP % ("max_size=1k manager_sleep=1ms", fast.port), main=main)
    reload(server, 4)
    until(lambda: cached_files(server) == [], "the new manager's work")


def test_a_purge_is_seen_by_all_workers(serve, fast):
    server = serve(HTTP % ("", fast.port), main="worker_processes 2;")
    clients = [server.client() for _ in range(8)]
    for client in clients:
        client.request("/a/1")
        client.request("/b/1")
    before = len(fast.requests)
    assert server.client().request("/a/1", method="PURGE").status == 200
    assert clients[0].request("/a/1").header("X-Cache") == "MISS"
    assert {c.request("/a/1").header("X-Cache") for c in clients} == {"HIT"}
    assert server.client().request("/a/*", method="PURGE").status == 200
    assert clients[1].request("/a/1").header("X-Cache") == "MISS"
    assert {c.request("/a/1").header("X-Cache") for c in clients} == {"HIT"}
    assert {c.request("/b/1").header("X-Cache") for c in clients} == {"HIT"}
    assert len(fast.requests) == before + 2


def counting(size):
    """Answers of this size that tell how many requests there were."""
    count = itertools.count(1)

    def answer(conn, request):
        body = (b"%d " % next(count)).ljust(size, b".")
        conn.sendall(b"HTTP/1.0 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
    return answer


@pytest.mark.parametrize("size", [10, 200000])
def test_deleted_files_are_not_served(serve, backend, size):
    """`rm -rf` is how most people and plugins purge."""
    server = serve(HTTP % ("", backend([counting(size)]).port), main="worker_processes 2;")
    clients = [server.client() for _ in range(8)]

    def bodies():
        return {client.request("/page").text.split(" ")[0] for client in clients}

    assert bodies() == {"1"}
    for name in os.listdir(server.path("cache")):
        if not name.startswith("."):
            shutil.rmtree(server.path("cache", name))
    until(lambda: bodies() == {"2"}, "the deletion to be noticed")
    assert len(cached_files(server)) == 1


@pytest.mark.parametrize("limit", [0, 16384])
def test_a_client_that_does_not_read_holds_up_nobody(serve, backend, limit):
    """What is stored is read to its end, whatever size the file for slow clients may have."""
    body = b"x" * 200000
    back = backend([b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)])
    site = HTTP.replace("location / {", "http2 on; location / { proxy_max_temp_file_size %d;" % limit) % ("", back.port)
    server = serve(site, allow=["is buffered to a temporary file"])
    with h2.H2(server.port_of("PORT"), settings={4: 0}) as client:      # no window for bodies
        client.request("/a")
        back.wait_requests(1)
        response = server.get("/a")
        assert response.header("X-Cache") == "HIT" and response.body == body


def test_a_file_in_the_place_of_another_is_read(serve, backend):
    server = serve(HTTP % ("", backend([counting(10)]).port))
    assert server.get("/page").text.startswith("1")
    [path] = file_paths(server)
    owner = os.stat(path).st_uid

    def replaced():
        """A copy of the file with another body; which file it is is known from the second look on."""
        shutil.copy(path, path + "x")
        with open(path + "x", "r+b") as file:
            file.seek(-10, os.SEEK_END)
            file.write(b"7")
        os.chown(path + "x", owner, -1)
        os.rename(path + "x", path)
        return server.get("/page").text.startswith("7")

    until(replaced, "the new file")


@pytest.mark.parametrize("size", [10, 200000])
def test_files_hold_their_key_on_a_line(serve, backend, size):
    """Tools that purge look for it by `grep -a '^KEY: /page$'`."""
    server = serve(HTTP % ("", backend([counting(size)]).port))
    server.get("/page")
    [path] = file_paths(server)
    with open(path, "rb") as file:
        assert b"KEY: /page" in file.read().split(b"\n")[:8]
    server.quit()
    server.start()
    assert server.get("/page").header("X-Cache") == "HIT"


def test_a_purge_by_prefix_outlives_a_crash(serve, fast):
    server = serve(HTTP % ("", fast.port), allow=["exited on signal 9"])
    statuses(server, 5)
    assert server.client().request("/k*", method="PURGE").status == 200
    for pid in server.children():
        os.kill(pid, signal.SIGKILL)
    wait_workers(server, 1)
    assert statuses(server, 5) == ["MISS"] * 5


def test_a_worker_that_dies_while_it_fetches_holds_up_nobody(serve, backend):
    """The lock would be held for an hour."""
    first = threading.Event()
    answered = threading.Event()

    def slow_then_fast(conn, request):
        if not first.is_set():
            first.set()
            answered.wait(20)
            return
        answer(conn, request)

    slow = backend([slow_then_fast])
    server = serve(HTTP % ("", slow.port), main="worker_processes 2;",
                   allow=["exited on signal 9"])
    workers = wait_workers(server, 2)
    fetching = server.client()
    fetching.send(b"GET /k HTTP/1.1\r\nHost: x\r\n\r\n")
    slow.wait_requests(1)
    waiting = [server.client() for _ in range(8)]
    for client in waiting:
        client.send(b"GET /k HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    owner = next(pid for pid in workers if serves(pid, fetching.port))
    os.kill(owner, signal.SIGKILL)
    answered.set()
    others = [client for client in waiting if not client_was_reset(client)]
    for client in others:
        assert client.response().text == "body of /k"
    wait_workers(server, 2, without=[owner])
    assert server.get("/k").text == "body of /k"


def serves(pid, port):
    """Has this process the server's end of the connection from that port?"""
    inodes = set()
    with open("/proc/net/tcp") as table:
        for line in itertools.islice(table, 1, None):
            words = line.split()
            if int(words[2].split(":")[1], 16) == port:
                inodes.add("socket:[%s]" % words[9])
    for name in os.listdir("/proc/%d/fd" % pid):
        try:
            if os.readlink("/proc/%d/fd/%s" % (pid, name)) in inodes:
                return True
        except OSError:
            pass
    return False


def client_was_reset(client):
    """Its worker died."""
    from harness import Closed
    try:
        client.response_bytes = client.socket.recv(1, 2)  # MSG_PEEK
        return client.response_bytes == b""
    except (ConnectionError, Closed):
        return True


def test_the_cache_stays_right_while_workers_die(serve, fast):
    server = serve(HTTP % ("max_size=100k manager_sleep=1ms", fast.port),
                   main="worker_processes 2;", allow=["exited on signal 9", "was repaired"])
    for round in range(10):
        workers = wait_workers(server, 2)
        done = threading.Event()

        def ask():
            for i in itertools.count():
                if done.is_set():
                    return
                try:
                    response = server.get("/r%d" % (i % 60))
                    if response.status == 200:
                        wrong.extend([response.text] if response.text != "body of /r%d" % (i % 60)
                                     else [])
                        answers.append(i)
                except Exception:
                    pass

        wrong, answers = [], []
        threads = [threading.Thread(target=ask) for _ in range(3)]
        for thread in threads:
            thread.start()
        until(lambda: len(answers) > 20, "some answers")
        os.kill(workers[round % 2], signal.SIGKILL)
        done.set()
        for thread in threads:
            thread.join()
        assert wrong == []
    wait_workers(server, 2)
    assert statuses(server, 10)[0] in ("HIT", "MISS")
    until(lambda: sum(1 for _ in cached_files(server)) <= 25, "the manager's work")
