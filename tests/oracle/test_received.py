"""Cosockets: random sequences of receive, receiveany and receiveuntil give what they give on the reference."""

import random
import socket
import threading

import pytest

from harness import Client, Server, binaries

MODULES = "".join("load_module /usr/lib/nginx/modules/%s.so;" % name
                  for name in ("ndk_http_module", "ngx_http_lua_module"))
BUFFERS = [1, 2, 3, 5, 8, 4096]
SERVER = r"""
    server {
        listen 127.0.0.1:@PORT%d@;
        lua_socket_buffer_size %d;
        default_type text/plain;
        location / { content_by_lua_block {
            ngx.req.read_body()
            local program = assert(loadstring(ngx.req.get_body_data()))
            local function show(...)
                local words = {}
                for i = 1, select("#", ...) do words[i] = string.format("%%q", tostring((select(i, ...)))) end
                ngx.say(table.concat(words, "|"))
            end
            local sock = ngx.socket.tcp()
            assert(sock:connect("127.0.0.1", ngx.var.arg_port))
            assert(sock:send(ngx.var.arg_data .. "\n"))
            local ok, err = pcall(program, sock, show)
            if not ok then show("error", err) end
        } }
    }
"""
HTTP = "lua_socket_log_errors off;" + "".join(SERVER % pair for pair in enumerate(BUFFERS))
SEEDS = range(1200)


class Source:
    """A server that sends in one piece what is asked of it in hexadecimal, and closes."""

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def serve(self):
        while True:
            try:
                connection = self.listener.accept()[0]
            except OSError:
                return
            with connection, connection.makefile("rb") as lines:
                connection.sendall(bytes.fromhex(lines.readline().decode().strip()))

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.thread.join()


def quoted(text):
    return '"%s"' % text.replace("\r", "\\r").replace("\n", "\\n")


def text_of(dice, letters, delimiters):
    """A text with many delimiters and beginnings of delimiters."""
    text, length = "", dice.randint(0, 40)
    while len(text) < length:
        delimiter = dice.choice(delimiters)
        text += dice.choice([delimiter, delimiter[:dice.randint(1, len(delimiter))],
                             "".join(dice.choices(letters, k=3))])
    return text


def program_of(dice, is_small):
    """What the peer sends, and the script that reads it. With a small buffer receiveany is left out: how much it gives
    is as it happens."""
    letters = dice.choice(["ab", "abc", "a-", "ab\n", "ab\r\n"])
    delimiters = ["".join(dice.choices(letters[:2], k=dice.randint(1, 5))) for _ in range(2)]
    lines = ["local sock, show = ..."]
    for index, delimiter in enumerate(delimiters):
        options = dice.choice(["", ", {inclusive = true}", ", {inclusive = false}"])
        lines.append("local until%d = sock:receiveuntil(%s%s)" % (index, quoted(delimiter), options))
    for _ in range(dice.randint(1, 12)):
        iterator = "until%d" % dice.choice([0, 0, 0, 1])
        call = dice.choice(["%s()" % iterator, "%s()" % iterator] + 3 * ["%s(%d)" % (iterator, dice.randint(0, 7))]
                           + ["sock:receive(%d)" % dice.randint(0, 4), "sock:receive()",
                              "sock:receiveany(%d)" % dice.randint(1, 5)][:-1 if is_small else None])
        lines.append("show(%s, %s)" % (quoted(call), call))
    return text_of(dice, letters, delimiters), "\n".join(lines)


def answers(binary, programs):
    source = Source()
    server = Server(HTTP, main=MODULES, binary=binary)
    try:
        server.start()
        out = []
        for seed, (text, program) in enumerate(programs):
            with Client(server.port_of("PORT%d" % (seed % len(BUFFERS)))) as client:
                client.send(("POST /?port=%d&data=%s HTTP/1.0\r\nContent-Length: %d\r\n\r\n%s"
                             % (source.port, text.encode().hex(), len(program), program)).encode())
                out.append(client.response().text)
        return out
    finally:
        server.close(check=False)
        source.close()


def test_sequences_of_receives():
    programs = [program_of(random.Random(seed), BUFFERS[seed % len(BUFFERS)] < 4096) for seed in SEEDS]
    theirs, ours = (answers(binary, programs) for binary in (binaries.reference(), binaries.under_test()))
    for seed, (text, program) in zip(SEEDS, programs):
        if theirs[seed] != ours[seed]:
            pytest.fail("%d: %r\n%s\n\nreference:\n%s\nunder test:\n%s"
                        % (seed, text, program, theirs[seed], ours[seed]))
