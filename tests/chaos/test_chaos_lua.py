"""Scripts at work while everything around them ends: programs of ngx.pipe are killed, handshakes are broken off, the service reloads."""

import contextlib
import os
import random
import signal
import socket
import ssl
import threading

import pytest

from harness import Client, Closed, ProtocolError, Timeout, binaries, until
from harness.certificates import Authority
from harness.workers import wait_workers

pytestmark = pytest.mark.skipif("ngx_http_lua_module" not in binaries.version_text(binaries.under_test()), reason="built without Lua")

# ---- programs

PIPES = """
lua_socket_log_errors off;
server {
    listen 127.0.0.1:@PORT@;
    location = /alive { content_by_lua_block { collectgarbage() ngx.print("alive") } }
    location = /talks { content_by_lua_block {
        local program = assert(require("ngx.pipe").spawn({"/bin/cat"}, {buffer_size = 64}))
        program:set_timeouts(5000, 5000, 5000, 5000)
        ngx.header.x_pid = program:pid()
        for i = 1, 20 do
            local bytes, why = program:write(("line " .. i):rep(30) .. "\\n")
            if not bytes then break end
            local line, why = program:stdout_read_line()
            if not line then break end
            ngx.say(line)
            ngx.flush(true)
        end
        program:shutdown("stdin")
        ngx.say("end ", tostring(program:wait()))
    } }
    location = /waits { content_by_lua_block {
        local program = assert(require("ngx.pipe").spawn({"/bin/sh", "-c", "read line; echo $line"}, {merge_stderr = true}))
        program:set_timeouts(20000, 20000, 20000, 20000)
        ngx.header.x_pid = program:pid()
        ngx.say(program:pid())
        ngx.flush(true)
        local reader = ngx.thread.spawn(function() return program:stdout_read_all() end)
        local waiter = ngx.thread.spawn(function() return program:wait() end)
        ngx.thread.wait(reader, waiter)
    } }
    location = /leaves { content_by_lua_block {
        local program = assert(require("ngx.pipe").spawn({"/bin/sleep", "3600"}))
        ngx.say(program:pid())
    } }
}
"""


def asks(port, target, failures, ends):
    while not ends.is_set():
        try:
            with Client(port) as client:
                client.request(target)
        except Timeout as failure:
            failures.append(repr(failure))
        except (Closed, ProtocolError, OSError):
            pass


def descendants(server):
    """Programs that workers have started, of all ages. Not what is about to become one, nor what a sanitizer starts at the end."""
    found = []
    workers = server.children()
    for number in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open("/proc/%s/stat" % number, encoding="latin-1") as stat:
                name, rest = stat.read().split("(", 1)[1].rsplit(")", 1)
        except (OSError, IndexError):
            continue
        if int(rest.split()[1]) in workers and name in ("cat", "sh", "sleep", "dash"):
            found.append(int(number))
    return found


def kill_all(server):
    for pid in descendants(server):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def test_programs_are_killed_and_the_service_reloads(serve):
    """Programs end in the middle of what is said, clients leave, workers are replaced: no process stays, and nobody hangs."""
    server = serve(PIPES, main="worker_processes 2;")
    chance, failures, ends = random.Random(5), [], threading.Event()
    threads = [threading.Thread(target=asks, args=(server.port, target, failures, ends), daemon=True)
               for target in ("/talks", "/talks", "/waits", "/waits", "/leaves")]
    for thread in threads:
        thread.start()
    for _ in range(4):
        before = wait_workers(server, 2)
        for _ in range(30):
            for pid in descendants(server):
                if chance.randrange(2):
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, chance.choice((signal.SIGKILL, signal.SIGTERM, signal.SIGSTOP, signal.SIGCONT)))
            assert server.get("/alive").text == "alive"
        server.reload()
        assert server.get("/alive").text == "alive"
        # Workers of before wait for their programs, which come to an end now.
        until(lambda: kill_all(server) or not set(before) & set(server.children()), server.evidence)
    ends.set()
    until(lambda: kill_all(server) or not any(thread.is_alive() for thread in threads), "the last answers", 60)
    assert not failures, failures[:3]
    # One that nobody has waited for is seen to have ended when its object goes.
    until(lambda: server.get("/alive").text == "alive" and not descendants(server), lambda: "the programs to end: %s" % descendants(server))


def test_a_client_that_leaves_ends_what_its_script_waits_for(serve):
    """lua_check_client_abort: the program, its pipes and both threads go with the request."""
    server = serve(PIPES.replace("location = /alive", "lua_check_client_abort on; location = /alive"), main="worker_processes 1;")
    for _ in range(20):
        client = Client(server.port)
        client.send("GET /waits HTTP/1.1\r\nHost: a\r\n\r\n")
        client.head()
        client.reset()
    # Programs go with the objects of the scripts.
    until(lambda: server.get("/alive").text == "alive" and not descendants(server), lambda: "the programs to end: %s" % descendants(server))


# ---- handshakes

HANDSHAKES = """
server {
    listen 127.0.0.1:@PORT@; location / { return 200 alive; }
}
server {
    listen 127.0.0.1:@PORT1@ ssl; ssl_certificate %(crt)s; ssl_certificate_key %(key)s; ssl_session_cache off; ssl_session_tickets off;
    ssl_client_hello_by_lua_block { ngx.sleep(0.002) }
    ssl_certificate_by_lua_block { ngx.sleep(math.random() / 100) if math.random(8) == 1 then error("on purpose") end }
    location / { proxy_ssl_session_reuse off; proxy_ssl_trusted_certificate %(root)s; proxy_ssl_verify on; proxy_ssl_name shop;
                 proxy_ssl_certificate_by_lua_block { ngx.sleep(math.random() / 100) if math.random(8) == 1 then return ngx.exit(ngx.ERROR) end }
                 proxy_ssl_verify_by_lua_block { ngx.sleep(math.random() / 100) if math.random(8) == 1 then error("on purpose") end }
                 proxy_pass https://127.0.0.1:@PORT2@; }
}
server { listen 127.0.0.1:@PORT2@ ssl; ssl_certificate %(crt)s; ssl_certificate_key %(key)s; location / { return 200 backend; } }
"""

STREAM = """
stream {
    server {
        listen 127.0.0.1:@PORT3@ ssl; ssl_certificate %(crt)s; ssl_certificate_key %(key)s;
        ssl_client_hello_by_lua_block { ngx.sleep(math.random() / 100) }
        ssl_certificate_by_lua_block { ngx.sleep(math.random() / 100) if math.random(8) == 1 then error("on purpose") end }
        preread_by_lua_block { ngx.sleep(math.random() / 100) }
        proxy_ssl on; proxy_ssl_trusted_certificate %(root)s; proxy_ssl_verify on; proxy_ssl_name shop;
        proxy_ssl_certificate_by_lua_block { ngx.sleep(math.random() / 100) if math.random(8) == 1 then return ngx.exit(ngx.ERROR) end }
        proxy_ssl_verify_by_lua_block { ngx.sleep(math.random() / 100) if math.random(8) == 1 then error("on purpose") end }
        proxy_pass 127.0.0.1:@PORT2@;
    }
}
"""


def shake(port, chance, failures):
    """A handshake that is broken off somewhere, or a whole question. What takes too long is a failure."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    into, out = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = context.wrap_bio(into, out, server_hostname="shop")
    with socket.create_connection(("127.0.0.1", port), 20) as sock:
        steps, done = chance.randrange(12), False
        while steps and not done:
            steps -= 1
            try:
                tls.do_handshake()
                done = True
            except ssl.SSLWantReadError:
                pass
            data = out.read()
            breaks = chance.randrange(6) == 0
            if data:
                sock.sendall(data[:chance.randrange(1, len(data) + 1)] if breaks else data)
            if breaks:
                done = False
                break
            if not done:
                into.write(sock.recv(chance.choice((1, 50, 100000))) or b"")
        if done and chance.randrange(3):
            tls.write(b"GET / HTTP/1.1\r\nHost: shop\r\nConnection: close\r\n\r\n")
            sock.sendall(out.read())
            while sock.recv(65536):
                pass
        elif chance.randrange(2):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")


def test_handshakes_are_broken_off(serve, open_path):
    """Scripts of handshakes, of clients and of backends, http and stream, wait while their connections end and the service reloads."""
    authority = Authority(open_path)
    authority.issue("shop", "DNS:shop")
    paths = {"crt": authority.path("shop.crt"), "key": authority.path("shop.key"), "root": authority.path("root.crt")}
    has_stream = "ngx_stream_lua_module" in binaries.version_text(binaries.under_test())
    server = serve(HANDSHAKES % paths, main="worker_processes 2;" + (STREAM % paths if has_stream else ""))
    ports = [server.port_of("PORT1")] + ([server.port_of("PORT3")] if has_stream else [])
    failures, ends, counts = [], threading.Event(), [0] * 6

    def run(number):
        chance = random.Random(number)
        while not ends.is_set():
            try:
                shake(chance.choice(ports), chance, failures)
            except socket.timeout as failure:
                failures.append(repr(failure))
            except (OSError, ssl.SSLError):
                pass
            counts[number] += 1
    threads = [threading.Thread(target=run, args=(number,), daemon=True) for number in range(6)]
    for thread in threads:
        thread.start()
    for _ in range(4):
        before, count = wait_workers(server, 2), sum(counts)
        until(lambda: sum(counts) > count + 80 or failures, "handshakes", 60)
        assert server.get("/").text == "alive"
        server.reload()
        wait_workers(server, 2, without=before)
    ends.set()
    for thread in threads:
        thread.join(60)
    assert not failures, failures[:3]
    assert server.get("/").text == "alive"


# ---- the privileged agent

AGENT = """
lua_shared_dict notes 100k;
init_by_lua_block { assert(require("ngx.process").enable_privileged_agent(10)) }
init_worker_by_lua_block {
    if require("ngx.process").type() == "privileged agent" then
        ngx.shared.notes:set("agent", ngx.worker.pid())
        ngx.shared.notes:incr("agents", 1, 0)
        ngx.timer.at(0, function ()
            if ngx.shared.notes:get("hangs") then while true do end end
        end)
    end
}
server { listen 127.0.0.1:@PORT@;
    location / { content_by_lua_block { ngx.print(ngx.shared.notes:get("agents") or 0, " ", ngx.shared.notes:get("agent") or 0) } }
    location /hang { content_by_lua_block { ngx.shared.notes:set("hangs", true) ngx.print("set") } }
}
"""


def test_agents_are_killed_and_hang(serve):
    """There is always one again; one that does not come back from its script holds up neither requests, reloads nor the end."""
    server = serve(AGENT, main="worker_processes 2;", allow=[r"exited on signal 9"])

    def agents(count):
        until(lambda: int(server.get("/").text.split()[0]) >= count, lambda: "agent %d: %s" % (count, server.get("/").text))
        return int(server.get("/").text.split()[1])
    pid = agents(1)
    for count in range(2, 7):
        os.kill(pid, signal.SIGKILL)
        if count % 2:
            server.reload()
        pid = agents(count)
    assert server.get("/hang").text == "set"
    count = int(server.get("/").text.split()[0])
    os.kill(pid, signal.SIGKILL)
    agents(count + 1)
    for turn in range(2):
        server.reload()
        agents(count + 2 + turn)
        assert server.get("/hang").text == "set"
    server.stop()
