"""Modules that ask others: PAM whose answers stay away, databases of addresses that are changed while they are used, dictionaries of zstd that
are none, guards of the system that send requests to each other, and pipes in the place of files."""

import base64
import os
import random
import re
import shutil
import socket
import subprocess
import threading

import pytest

from harness import Client, Closed, ProtocolError, binaries, geo_files, run_binary, until
from harness.workers import wait_workers

# ---- PAM

MODULE = os.path.join(os.path.dirname(binaries.under_test()), "ngx_http_auth_pam_module.so")
EXEC = "/lib/x86_64-linux-gnu/security/pam_exec.so"

SCRIPT = """#!/bin/sh
read -r password
[ "$PAM_USER" != slow ] || read -r nothing < %(dir)s/gate
[ "$password" = "secret of $PAM_USER" ]
"""


def basic(user, password):
    return "Authorization: Basic " + base64.b64encode(("%s:%s" % (user, password)).encode("latin-1")).decode()


@pytest.fixture(name="pam")
def _pam(serve, open_path):
    if not os.path.exists(MODULE) or not os.path.exists(EXEC):
        pytest.skip("built without PAM, or no pam_exec")
    os.chmod(open_path, 0o777)
    (open_path / "pam").mkdir()
    (open_path / "check").write_text(SCRIPT % {"dir": open_path})
    (open_path / "check").chmod(0o755)
    (open_path / "pam/nginx").write_text("auth required pam_exec.so quiet expose_authtok %s/check\naccount required pam_permit.so\n" % open_path)
    os.mkfifo(open_path / "gate")
    os.chmod(open_path / "gate", 0o666)
    return serve("""auth_pam_config_directory %s/pam; client_header_buffer_size 32k; large_client_header_buffers 4 32k; server { listen 127.0.0.1:@PORT@;
        location / { auth_pam "The realm"; auth_pam_set_pam_env on; try_files /none @shown; }
        location @shown { auth_pam off; return 200 "hello $remote_user"; } location /open { auth_pam off; return 200 open; } }""" % open_path,
                 main="load_module %s; worker_processes 1; thread_pool auth_pam threads=2 max_queue=6;" % MODULE, allow=[r"thread pool \"auth_pam\" queue overflow"])


def open_gate(open_path, ends):
    """Whoever waits at the gate goes on, until told."""
    while not ends.is_set():
        try:
            gate = os.open(open_path / "gate", os.O_WRONLY | os.O_NONBLOCK)
        except OSError:
            ends.wait(0.005)
            continue
        os.write(gate, b"\n" * 20)
        os.close(gate)
        ends.wait(0.005)


def test_pam_that_does_not_answer(pam, open_path):
    """Threads that wait for PAM are few; clients leave, more are turned away, the service reloads, and others are served all the while."""
    clients = []
    for _ in range(30):
        client = Client(pam.port)
        client.send("GET / HTTP/1.1\r\nHost: a\r\n%s\r\n\r\n" % basic("slow", "x"))
        clients.append(client)
    assert pam.get("/open").text == "open"
    for client in clients[::2]:
        client.reset()
    assert pam.get("/open").text == "open"
    before = wait_workers(pam, 1)
    pam.reload()
    until(lambda: pam.get("/open").text == "open" and set(pam.children()) - set(before), "a new worker")
    ends = threading.Event()
    opener = threading.Thread(target=open_gate, args=(open_path, ends), daemon=True)
    opener.start()
    for client in clients[1::2]:
        try:
            assert client.response("GET").status in (401, 503)
        except (Closed, ProtocolError):
            pass
    wait_workers(pam, 1, without=before)
    assert pam.get("/", basic("ann", "secret of ann")).text == "hello ann"
    ends.set()
    opener.join(10)


def test_pam_gets_odd_names_and_passwords(pam):
    chance = random.Random(7)
    for _ in range(40):
        user = "".join(chr(chance.randrange(1, 256)) for _ in range(chance.choice((0, 1, 20, 300, 1000))))
        password = "".join(chr(chance.randrange(0, 256)) for _ in range(chance.choice((0, 1, 20, 511, 512, 513, 5000))))
        assert pam.get("/", basic(user, password)).status in (401, 403, 500)
    assert pam.get("/", basic("ann", "secret of ann\0more")).status == 401
    assert pam.get("/", basic("ann", "secret of ann")).text == "hello ann"


# ---- geoip2

def test_a_database_is_changed_while_it_is_used(serve):
    """In place, by files of chance, cut and whole: what is found is of a whole one, or nothing."""
    whole = [geo_files.mmdb([("10.0.0.0/8", {"country": {"iso_code": code}})]) for code in ("AA", "BB")]
    server = serve("""geoip2_proxy 127.0.0.1; geoip2 d.mmdb { auto_reload 1s; $code default=none country iso_code; }
                      server { listen 127.0.0.1:@PORT@; return 200 "$code"; }""", files={"d.mmdb": whole[0]}, main="worker_processes 2;")
    workers, chance, seen = wait_workers(server, 2), random.Random(8), set()

    def ask():
        seen.add(server.get("/", "X-Forwarded-For: 10.%d.0.1" % chance.randrange(256)).text)
    for turn in range(60):
        data = bytearray(whole[turn % 2])
        for _ in range(chance.randrange(6)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        data = bytes(data[:chance.choice((len(data), len(data), 0, 10, len(data) // 2))])
        if chance.randrange(2):
            server.write("d.mmdb", data, mtime=None)
        else:
            os.replace(server.write("new.mmdb", data, mtime=None), server.path("d.mmdb"))
        for _ in range(10):
            ask()
    server.write("d.mmdb", whole[1], mtime=None)
    until(lambda: server.get("/", "X-Forwarded-For: 10.0.0.1").text == "BB", "the whole file")
    assert server.children() == workers and seen & {"AA", "BB", "none"}
    for odd in ("10.0.0.1, " * 500, "::ffff:10.0.0.1", "10.0.0.256", "[::1]:80", "unknown", "10.0.0.1:99999", "\xff" * 100, "1" * 7000):
        assert server.get("/", "X-Forwarded-For: " + odd).status in (200, 400)


# ---- sysguard

def test_guards_that_send_requests_to_each_other(serve):
    """An action leads to a place that is guarded, too: the request ends, whatever it asks for."""
    server = serve("""server { listen 127.0.0.1:@PORT@; root html; sysguard on; sysguard_mem free=1000000g action=/one;
        location /one { sysguard on; sysguard_mem free=1000000g action=/two; }
        location /two { sysguard on; sysguard_mem free=1000000g action=@three; }
        location @three { sysguard on; sysguard_mem free=1000000g action=/one; }
        location /off { sysguard off; return 200 off; } }""", allow=["rewrite or internal redirection cycle"])
    for _ in range(20):
        with server.client() as client:
            assert client.request("/x").status in (404, 500, 503)
            assert client.request("/x", method="POST", body="x" * 100000).status in (404, 405, 500, 503)
    assert server.get("/off").text == "off"


def test_guards_under_load(serve):
    """The time of answers is counted while workers come and go; nobody is turned away for what is over."""
    server = serve("""server { listen 127.0.0.1:@PORT@; sysguard on; sysguard_rt rt=0.05 period=1s method=WMA:10; location /slow { sysguard off; echo_sleep 0.2; echo slow; }
                      location / { echo fine; } }""", main="worker_processes 2;")
    statuses, ends = set(), threading.Event()

    def ask(target):
        while not ends.is_set():
            try:
                statuses.add(server.get(target).status)
            except (Closed, ProtocolError, OSError):
                pass
    threads = [threading.Thread(target=ask, args=(target,), daemon=True) for target in ("/slow", "/slow", "/fast", "/fast", "/fast")]
    for thread in threads:
        thread.start()
    for _ in range(3):
        before = wait_workers(server, 2)
        server.reload()
        wait_workers(server, 2, without=before)
    ends.set()
    for thread in threads:
        thread.join(30)
    assert statuses <= {200, 503}
    until(lambda: server.get("/fast").status == 200, "what is over to be over")


# ---- zstd dictionaries

@pytest.mark.parametrize("words", ["none", "one", "random", "magic", "cut"])
def test_dictionaries_that_are_none(serve, words, tmp_path):
    """Whatever the file holds is taken as contents, or refused when it is read; what is sent can be read with it."""
    if shutil.which("zstd") is None or "ngx_http_zstd_filter_module" not in binaries.version_text(binaries.under_test()):
        pytest.skip("built without zstd, or no zstd program")
    chance = random.Random(9)
    data = {"none": b"", "one": b"x", "random": bytes(chance.randrange(256) for _ in range(20000)),
            "magic": b"\x37\xa4\x30\xec" + bytes(chance.randrange(256) for _ in range(5000)), "cut": b"\x37\xa4\x30\xec\1\0"}[words]
    page = b"hello world " * 3000
    text = "zstd_dict_file @DIR@/words; server { listen 127.0.0.1:@PORT@; root html; zstd on; zstd_types *; zstd_min_length 0; }"
    server = serve(text, files={"words": b"hello", "html/a": page}, allow=["dictionary"])
    server.write("words", data)
    done = run_binary("-t", "-p", server.dir + "/", "-c", "nginx.conf", "-e", "stderr")
    if done.returncode != 0:    # a reload does it no harm
        assert re.search(r'\[emerg\] .*dictionary ".*words" is (empty|damaged) in ', done.stderr), done.stderr
        server.signal("reload")
        server.wait_log("dictionary .* is (empty|damaged)")
        data = b"hello"
    else:
        before = server.children()
        server.reload()
        wait_workers(server, 1, without=before)
    with server.client() as client:
        for _ in range(3):
            answer = client.request("/a", "Accept-Encoding: zstd")
            assert answer.status == 200
            if answer.header("Content-Encoding") == "zstd":
                (tmp_path / "words").write_bytes(data)
                more = ["-D", str(tmp_path / "words")] if data else []
                assert subprocess.run(["zstd", "-dqc", *more], input=answer.body, capture_output=True, check=True).stdout == page
            else:
                assert answer.body == page


# ---- pipes, sockets and folders in the place of files

FILES = """
    server { listen 127.0.0.1:@PORT@; root html;
        %s
        location /try/ { alias html/; try_files /d/pipe /d/file =404; }     location /index/ { alias html/d/; index pipe; }
        location /random/ { alias html/d/; random_index on; }               location /auto/ { alias html/d/; autoindex on; }
        location /fancy/ { alias html/d/; fancyindex on; }                  location /concat/ { alias html/d/; concat on; concat_types text/plain; }
        location /auth/ { alias html/d/; auth_basic x; auth_basic_user_file html/d/pipe; }
        location /error/ { error_page 404 /plain/pipe; return 404; }
        location /dav/ { alias html/d/; dav_methods PUT DELETE MKCOL COPY MOVE; dav_ext_methods PROPFIND OPTIONS LOCK UNLOCK PROPPATCH; }
    }
"""
READERS = {"plain": "", "threads": "aio threads;", "direct": "directio 1;", "static": "gzip_static always; brotli_static on; zstd_static on;",
           "kept": "open_file_cache max=10;", "mp4": "mp4;", "flv": "flv;", "ssi": "ssi on; ssi_types *;", "sub": "sub_filter a b; sub_filter_types *;",
           "add": "add_before_body /plain/pipe; addition_types *;"}


def test_nobody_waits_at_a_pipe(serve):
    readers = "\n".join("location /%s/ { alias html/d/; %s }" % item for item in READERS.items())
    server = serve(FILES % readers, main="worker_processes 1;", files={"html/d/file": "text", "html/d/p.txt": "text"})
    os.chmod(server.path("html/d"), 0o777)
    for name in ("pipe", "p.txt.gz", "p.txt.br", "p.txt.zst", "pipe.mp4", "pipe.flv"):
        os.mkfifo(server.path("html/d/" + name))
        os.chmod(server.path("html/d/" + name), 0o666)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(server.path("html/d/socket"))
        for reader in READERS:
            for name in ("pipe", "socket", "pipe.mp4", "pipe.flv?start=3"):
                assert server.get("/%s/%s" % (reader, name)).status in (404, 500)
            assert server.get("/%s/p.txt" % reader, "Accept-Encoding: gzip, br, zstd").text.endswith("text")
        for target in ("/try/x", "/index/", "/random/", "/auto/", "/fancy/", "/concat/??pipe,file", "/error/x"):
            assert server.get(target).status in (200, 400, 404)
        assert server.get("/auth/file", basic("a", "b")).status == 500
        for method in ("PROPFIND", "LOCK", "PROPPATCH", "COPY", "PUT", "MOVE", "DELETE"):
            with server.client() as client:
                client.request("/dav/pipe", "Destination: /dav/copy", "Depth: 0", method=method, body="x" if method == "PUT" else "")
            with server.client() as client:
                assert client.request("/dav/", "Depth: 1", method="PROPFIND").status == 207
