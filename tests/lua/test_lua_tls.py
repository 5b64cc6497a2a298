"""Scripts in handshakes with clients, and what they leave for the requests that follow."""

import re
import socket
import ssl

import pytest

from harness import Server, until
from harness.certificates import Authority

HTTP = """
ssl_certificate good.crt;
ssl_certificate_key good.key;
server {
    listen @PORT@;
    location /ask { content_by_lua_block {
        local sock = ngx.socket.tcp()
        assert(sock:connect("127.0.0.1", ngx.var.arg_port))
        assert(sock:sslhandshake(nil, "good.example", false))
        for _, target in ipairs {"/", "/inside", "/"} do
            assert(sock:send("GET " .. target .. " HTTP/1.1\\r\\nHost: a\\r\\n\\r\\n"))
            repeat local line = sock:receive() until line == ""
            local size = sock:receive()
            ngx.say(sock:receive(tonumber(size, 16) - 1))
            sock:receive(8)
        end
        sock:close()
    } }
}
server {
    listen @PORT1@ ssl;
    ssl_session_tickets off;
    ssl_session_cache shared:ids:64k;
    ssl_client_hello_by_lua_block { ngx.ctx.names = {"hello"} ngx.ctx.count = 1 }
    ssl_certificate_by_lua_block {
        table.insert(ngx.ctx.names, "certificate")
        ngx.ctx.count = ngx.ctx.count + 1
        ngx.timer.at(0, function () ngx.log(ngx.WARN, "of the timer: ", ngx.ctx.count) end)
    }
    location / { content_by_lua_block {
        ngx.ctx.count = ngx.ctx.count + 1
        table.insert(ngx.ctx.names, "request")
        ngx.say(ngx.ctx.count, " ", table.concat(ngx.ctx.names, " "))
    } }
    location /session { content_by_lua_block {
        ngx.say(require("ngx.ssl.session").get_session_id())
        ngx.say(pcall(function() require("ngx.ssl.clienthello").get_client_hello_ciphers() end))
    } }
    location /inside { rewrite_by_lua_block { ngx.ctx = {count = 10} ngx.exec("/") } }
}
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    authority = Authority(tmp_path_factory.mktemp("authority"))
    authority.issue("good", "DNS:good.example")
    files = {name: authority.read(name) for name in ("good.crt", "good.key")}
    with Server(HTTP, files=files) as made:
        yield made


SLOW = """
worker_processes 3; master_process off;
error_log error.log info; pid nginx.pid;
events {}
http {
    server { listen @PORT@; location / { proxy_pass https://127.0.0.1:@PORT1@; proxy_connect_timeout 50ms;
        proxy_ssl_certificate_by_lua_block { ngx.sleep(60) } } }
    server { listen @PORT1@ ssl; ssl_certificate good.crt; ssl_certificate_key good.key;
        ssl_verify_client optional; ssl_client_certificate good.crt; return 200; }
}
stream {
    lua_max_running_timers 1;
    lua_sa_restart off;
    server { listen @PORT2@; proxy_pass 127.0.0.1:@PORT1@; proxy_ssl on; proxy_connect_timeout 50ms;
        proxy_ssl_verify_by_lua_block { ngx.sleep(60) } }
    server { listen @PORT3@; proxy_pass 127.0.0.1:@PORT1@; proxy_ssl on; proxy_ssl_trusted_certificate evil.crt;
        proxy_ssl_conf_command VerifyMode Peer; }
    server { listen @PORT4@; content_by_lua_block {
        local function wait() ngx.sleep(0.05) end
        ngx.timer.at(0, wait)
        ngx.timer.at(0, wait)
        ngx.say(ngx.worker.count(), " ", select(2, require("ngx.balancer").set_timeouts(1, 1, 1)))
    } }
}
"""


@pytest.fixture(scope="module")
def slow(tmp_path_factory):
    authority = Authority(tmp_path_factory.mktemp("slow"))
    authority.issue("good", "DNS:good.example")
    authority.issue("evil", "DNS:evil.example")
    files = {name: authority.read(name) for name in ("good.crt", "good.key", "evil.crt")}
    with Server(conf=SLOW, files=files, allow=["SSL_do_handshake", "upstream timed out", "lua_max_running"]) as made:
        yield made


def ends(server, port):
    with server.client(server.port_of(port)) as client:
        client.send(b"x")
        client.rest_or_reset()


def test_a_script_that_takes_longer_than_the_handshake_may(slow):
    def is_aborted(ask, line):  # the time may be over before the script begins
        ask()
        return line in slow.error_log
    until(lambda: is_aborted(lambda: slow.get("/"), "proxy_ssl_certificate_by_lua: cert cb aborted"), slow.evidence)
    assert slow.get("/").status == 504
    slow.wait_log(r"\[error\] .*: Connection timed out\) while SSL handshaking to upstream")
    until(lambda: is_aborted(lambda: ends(slow, "PORT2"), "proxy_ssl_verify_by_lua: cert verify callback aborted"), slow.evidence)
    slow.wait_log(r"\[info\] .*upstream timed out in SSL handshake")
    assert "callback failed" not in slow.error_log


def test_a_certificate_that_openssl_refuses_is_critical(slow):
    ends(slow, "PORT3")
    slow.wait_log(r"\[crit\] .*SSL_do_handshake\(\) failed .*certificate verify failed")


def test_texts_of_stream(slow):
    with slow.client(slow.port_of("PORT4")) as client:
        assert client.rest() == b"3 API disabled in the current context\n"
    slow.wait_log(r"\[alert\] .*content_by_lua\(nginx.conf:\d+\):2: stream lua: 1 lua_max_running_timers are not enough")


def test_each_request_has_a_copy_of_the_context_of_its_handshake(server):
    for _ in range(2):
        lines = server.get("/ask?port=%d" % server.port_of("PORT1")).text.splitlines()
        assert lines == ["3 hello certificate request", "3 hello certificate request request",
                         "3 hello certificate request request request"]
    server.wait_log("of the timer: nil")


def test_the_session_of_a_request_and_what_the_hello_alone_has(server):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    with socket.create_connection(("127.0.0.1", server.port_of("PORT1"))) as plain, context.wrap_socket(plain) as client:
        client.sendall(b"GET /session HTTP/1.0\r\n\r\n")
        lines = client.makefile("rb").read().decode().split("\r\n\r\n")[1].splitlines()
    assert re.fullmatch("[0-9a-f]{64}", lines[0])
    assert re.fullmatch(r"falsecontent_by_lua\(nginx\.conf:\d+\):3: API disabled in the current context", lines[1])


STARTTLS = """
error_log error.log info; pid nginx.pid; daemon off;
events {}
stream {
    lua_socket_connect_timeout 10s;
    server { listen @PORT@; @TLS@ content_by_lua_block {
        local sock = ngx.req.socket(true)
        ngx.say("heard ", sock:receive())
        ngx.say(sock:serversslhandshake())
        ngx.say(sock:serversslhandshake(), " ", ngx.var.ssl_protocol ~= nil, " ", ngx.var.ssl_server_name)
        ngx.say("heard ", sock:receive())
    } }
    server { listen @PORT1@; @TLS@ content_by_lua_block {
        local sock = ngx.req.socket(true)
        sock:settimeout(20)
        ngx.log(ngx.WARN, "it was: ", select(2, sock:serversslhandshake()))
    } }
    server { listen @PORT2@; content_by_lua_block { ngx.say(ngx.req.socket():serversslhandshake()) } }
    server { listen @PORT3@; @TLS@
        ssl_client_hello_by_lua_block { ngx.sleep(0.01) ngx.ctx.name = require("ngx.ssl.clienthello").get_client_hello_server_name() }
        ssl_certificate_by_lua_block { ngx.sleep(0.01) ngx.ctx.certified = true }
        preread_by_lua_block { assert(ngx.req.socket():serversslhandshake()) }
        content_by_lua_block { ngx.say(ngx.ctx.name, " ", ngx.ctx.certified, " ", ngx.req.socket():receive()) } }
    server { listen @PORT4@; @TLS@ ssl_verify_client on; ssl_client_certificate good.crt;
        content_by_lua_block { ngx.log(ngx.WARN, "it was: ", select(2, ngx.req.socket():serversslhandshake())) } }
    server { listen @PORT5@; @TLS@ content_by_lua_block {
        local sock = ngx.req.socket(true)
        local reading = ngx.thread.spawn(function () return sock:receive() end)
        ngx.say(sock:serversslhandshake())
        ngx.thread.kill(reading)
    } }
}
""".replace("@TLS@", "ssl_certificate good.crt; ssl_certificate_key good.key;")


@pytest.fixture(scope="module")
def starttls(tmp_path_factory):
    authority = Authority(tmp_path_factory.mktemp("starttls"))
    authority.issue("good", "DNS:good.example")
    files = {name: authority.read(name) for name in ("good.crt", "good.key")}
    with Server(conf=STARTTLS, files=files, allow=["it was: ", "ssl not configured"]) as made:
        yield made


def connect(server, port):
    return socket.create_connection(("127.0.0.1", server.port_of(port)), timeout=10)


def secure(plain):
    trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
    return trusting.wrap_socket(plain, server_hostname="good.example")


def test_a_script_begins_tls_in_the_middle_of_a_session(starttls):
    with connect(starttls, "PORT") as plain:
        plain.sendall(b"STARTTLS\n")
        assert plain.recv(100) == b"heard STARTTLS\n"
        with secure(plain) as secured:
            secured.sendall(b"a secret\n")
            assert secured.makefile().read() == "true\ntrue true good.example\nheard a secret\n"


def test_what_was_said_in_the_clear_after_starttls_is_not_taken_for_secret(starttls):
    with connect(starttls, "PORT") as plain:
        plain.sendall(b"STARTTLS\ninjected\n")
        assert plain.makefile().read() == "heard STARTTLS\n"
    starttls.wait_log(r"SSL_do_handshake\(\) failed \(SSL: .*wrong version number")


def test_a_client_that_does_not_shake_hands_in_time(starttls):
    with connect(starttls, "PORT1") as plain:
        assert plain.recv(1) == b""
    starttls.wait_log("it was: timeout")


def test_a_server_without_a_certificate_cannot_shake_hands(starttls):
    with connect(starttls, "PORT2") as plain:
        assert plain.recv(100) == b"nilssl not configured for this server\n"
    starttls.wait_log(r"\[error\] .*ssl not configured for this server")


def test_scripts_of_a_handshake_that_a_script_began(starttls):
    with connect(starttls, "PORT3") as plain, secure(plain) as secured:
        secured.sendall(b"word\n")
        assert secured.makefile().read() == "good.example true word\n"


def test_a_client_without_the_certificate_that_is_asked_for(starttls):
    with connect(starttls, "PORT4") as plain, secure(plain) as secured:
        assert secured.recv(1) == b""
    starttls.wait_log("client sent no required SSL certificate")
    starttls.wait_log("it was: handshake failed")


def test_no_handshake_while_another_thread_reads(starttls):
    with connect(starttls, "PORT5") as plain:
        assert plain.recv(100) == b"nilsocket busy reading\n"


def test_a_client_certificate_that_is_changed_while_the_handshake_waits(tmp_path):
    """It was freed by the collector while the handshake still needed it."""
    authority = Authority(tmp_path)
    authority.issue("good", "DNS:good.example")
    files = {name: authority.read(name) for name in ("good.crt", "good.key")}
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority.path("good.crt"), authority.path("good.key"))
    context.verify_mode = ssl.CERT_OPTIONAL
    context.load_verify_locations(authority.path("root.crt"))
    with socket.create_server(("127.0.0.1", 0)) as listening, Server("""
        server { listen @PORT@; location / { content_by_lua_block {
            local ssl = require "ngx.ssl"
            local function read(name) local f = io.open("@DIR@/" .. name) local text = f:read("*a") f:close() return text end
            local sock = ngx.socket.tcp()
            assert(sock:connect("127.0.0.1", ngx.var.arg_port))
            assert(sock:setclientcert(ssl.parse_pem_cert(read("good.crt")), ssl.parse_pem_priv_key(read("good.key"))))
            local shaking = ngx.thread.spawn(function() return sock:sslhandshake(nil, "good.example", false) end)
            local changed, why = sock:setclientcert(nil, nil)
            collectgarbage() collectgarbage()
            ngx.say("changed") ngx.flush(true)
            local ok, session = ngx.thread.wait(shaking)
            ngx.say(ok, " ", type(session), " ", (sock:receive("*a"))) } } }""", files=files) as server:
        with server.client() as client:
            client.send(("GET /?port=%d HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n" % listening.getsockname()[1]).encode())
            peer = listening.accept()[0]
            client.head()
            with context.wrap_socket(peer, server_side=True) as secured:
                secured.sendall(b"peer %d" % len(secured.getpeercert(True) or b""))
                secured.unwrap()
            assert b"true cdata peer " in client.rest_or_reset()


VERDICTS = """
error_log error.log info; pid nginx.pid;
events {}
http {
    ssl_certificate good.crt; ssl_certificate_key good.key;
    server { listen 127.0.0.1:@PORT@ ssl;
        ssl_client_hello_by_lua_block {
            local name = require("ngx.ssl.clienthello").get_client_hello_server_name()
            ngx.exit(tonumber(name:match("^h(-?%d+)")))
        } }
    server { listen 127.0.0.1:@PORT1@ ssl;
        ssl_certificate_by_lua_block { ngx.exit(tonumber(require("ngx.ssl").server_name():match("^h(-?%d+)"))) } }
}
stream {
    ssl_certificate good.crt; ssl_certificate_key good.key;
    server { listen 127.0.0.1:@PORT2@ ssl; return x;
        ssl_certificate_by_lua_block { ngx.exit(tonumber(require("ngx.ssl").server_name():match("^h(-?%d+)"))) } }
}
"""


@pytest.fixture(scope="module")
def verdicts(tmp_path_factory):
    authority = Authority(tmp_path_factory.mktemp("verdicts"))
    authority.issue("good", "DNS:good.example")
    files = {name: authority.read(name) for name in ("good.crt", "good.key")}
    with Server(conf=VERDICTS, files=files, allow=("does not accept",)) as made:
        yield made


@pytest.mark.parametrize("port", ["PORT", "PORT1", "PORT2"])
@pytest.mark.parametrize("code, agrees", [(0, True), (-5, True), (200, True), (-1, False), (300, False), (403, False), (500, False)])
def test_a_status_of_300_or_more_fails_the_handshake(verdicts, port, code, agrees):
    context = ssl._create_unverified_context()
    with socket.create_connection(("127.0.0.1", verdicts.port_of(port)), timeout=20) as plain:
        if agrees:
            context.wrap_socket(plain, server_hostname=f"h{code}.example").close()
            return
        with pytest.raises(ssl.SSLError, match="INTERNAL_ERROR"):
            context.wrap_socket(plain, server_hostname=f"h{code}.example")


@pytest.mark.parametrize("port", ["PORT", "PORT1"])
def test_codes_that_mean_nothing_to_a_script_are_refused(verdicts, port):
    with socket.create_connection(("127.0.0.1", verdicts.port_of(port)), timeout=20) as plain:
        with pytest.raises(ssl.SSLError, match="INTERNAL_ERROR"):
            ssl._create_unverified_context().wrap_socket(plain, server_hostname="h-4.example")
    assert verdicts.wait_log("bad argument to 'ngx.exit': does not accept NGX_AGAIN or NGX_DONE")


WHERE = """
ssl_certificate good.crt;
ssl_certificate_key good.key;
init_by_lua_block {
    function show(name, ...)
        local words = {}
        for i = 1, select("#", ...) do words[i] = tostring((select(i, ...))) end
        ngx.log(ngx.WARN, name, " gives ", table.concat(words, "|"))
    end
    function ask(phase)
        local ssl, session, ocsp = require "ngx.ssl", require "ngx.ssl.session", require "ngx.ocsp"
        local balancer = require "ngx.balancer"
        show(phase .. " address", pcall(ssl.raw_client_addr))
        show(phase .. " port", pcall(ssl.server_port))
        show(phase .. " key", pcall(ssl.set_priv_key, nil))
        show(phase .. " session", pcall(session.set_serialized_session, "no session"))
        show(phase .. " status", pcall(ocsp.set_ocsp_status_resp, "x"))
        show(phase .. " failure", pcall(balancer.get_last_failure))
        show(phase .. " timeouts", pcall(balancer.set_timeouts, 1e10))
        show(phase .. " reason", ocsp.validate_ocsp_response("abc", "", 7))
    end
    ask("init")
}
server { listen @PORT@; location / { content_by_lua_block {
    ask("plain")
    ngx.timer.at(0, function () ask("timer") end)
    ngx.say("asked")
} } }
server { listen @PORT1@ ssl;
    ssl_certificate_by_lua_block { ask("certificate") show("id", require("ngx.ssl.session").get_session_id()) }
    location / { content_by_lua_block {
        ask("tls")
        show("kept", #require("ngx.ssl.session").get_serialized_session() > 100)
        ngx.say("asked")
    } } }
"""


def test_functions_of_tls_and_balancers_answer_in_every_phase(tmp_path):
    authority = Authority(tmp_path)
    authority.issue("good", "DNS:good.example")
    files = {name: authority.read(name) for name in ("good.crt", "good.key")}
    with Server(WHERE, files=files) as made:
        assert made.get("/").body == b"asked\n"
        context = ssl.create_default_context(cafile=authority.path("root.crt"))
        plain = socket.create_connection(("127.0.0.1", made.port_of("PORT1")))
        with context.wrap_socket(plain, server_hostname="good.example") as client:
            client.sendall(b"GET / HTTP/1.0\r\n\r\n")
            assert client.recv(4096).startswith(b"HTTP/1.1 200")
        made.wait_log("timer reason gives")
        log, port = made.error_log, made.port_of("PORT1")
    said = dict(re.findall(r"([\w]+ \w+|id|kept) gives ([^,\n]*)", log))
    for name in ("address", "port", "key", "session", "status", "failure", "timeouts"):
        assert said["init " + name].endswith("no request found") and said["init " + name].startswith("false|")
    for phase in ("plain", "timer"):
        assert said[phase + " address"] == "true|nil|nil|bad request"
        assert {said[phase + name] for name in (" port", " key", " session", " status")} == {"true|nil|bad request"}
    for phase in ("certificate", "tls"):
        assert said[phase + " key"] == "true|nil|invalid private key failed"
        assert said[phase + " session"] == "true|nil|failed to de-serialize session"
        assert said[phase + " status"] == "true|true|no status req"
        assert said[phase + " port"] == "true|%d" % port
    for phase in ("plain", "timer", "certificate", "tls"):
        assert said[phase + " failure"] == "true|nil|nil|no upstream found"
        assert said[phase + " timeouts"] == "true|false|no upstream found"
        assert said[phase + " reason"] == "nil|d2i_OCS"
    assert said["id"] == "nil|uninitialized session id len in lua context"
    assert said["kept"] == "true"
