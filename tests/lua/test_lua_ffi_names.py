"""C names that scripts find by FFI: those that the manual lists, and what they do."""

import os
import re
import subprocess

import pytest

from harness import Client, Server, binaries
from harness.certificates import Authority

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

DECLARATIONS = """
local ffi = require "ffi"
pcall(ffi.cdef, [[
uintptr_t ngx_escape_uri(unsigned char *dst, const unsigned char *src, size_t size, uintptr_t kind);
intptr_t ngx_hextoi(const unsigned char *line, size_t n);
intptr_t ngx_parse_time(ngx_str_t *line, uintptr_t is_sec);
uint64_t *ngx_stat_accepted; uint64_t *ngx_stat_handled; uint64_t *ngx_stat_requests; uint64_t *ngx_stat_active;
uint64_t *ngx_stat_reading; uint64_t *ngx_stat_writing; uint64_t *ngx_stat_waiting;
int ngx_http_lua_ffi_raw_log(void *r, int level, const unsigned char *s, size_t s_len);
int ngx_stream_lua_ffi_raw_log(void *r, int level, const unsigned char *s, size_t s_len);
int ngx_http_lua_ffi_get_ctx_ref(void *r, int *in_ssl_phase, int *ssl_ctx_ref);
int ngx_stream_lua_ffi_get_ctx_ref(void *r, int *in_ssl_phase, int *ssl_ctx_ref);
void *ngx_http_lua_ffi_shdict_udata_to_zone(void *zone_udata);
int ngx_lua_ffi_disable_listening_unix_socket(ngx_str_t *name);
int ngx_http_lua_resty_openssl_aux_get_request_ssl(void *r, void **ssl);
int ngx_http_lua_resty_openssl_aux_get_request_ssl_ctx(void *r, void **context);
int ngx_http_lua_resty_openssl_aux_get_socket_ssl(void *u, void **ssl);
int ngx_http_lua_resty_openssl_aux_get_socket_ssl_ctx(void *u, void **context);
int ngx_stream_lua_resty_openssl_aux_get_request_ssl(void *r, void **ssl);
int ngx_stream_lua_resty_openssl_aux_get_socket_ssl(void *u, void **ssl);
const char *SSL_get_version(const void *ssl);
void *SSL_get_SSL_CTX(const void *ssl);
]])
local C = ffi.C
local function text(s)
    local out = ffi.new("ngx_str_t[1]")
    out[0].len, out[0].data = #s, s
    return out
end
"""

CONF = """
pid nginx.pid; error_log error.log info; worker_processes 2; events {}
http {
    access_log off;
    lua_shared_dict d 100k;
    init_worker_by_lua_block { DECLARE
        if ngx.worker.id() == 1 then
            unknown = C.ngx_lua_ffi_disable_listening_unix_socket(text("/nowhere"))
            disabled = C.ngx_lua_ffi_disable_listening_unix_socket(text("@DIR@/own.sock"))
            ngx.log(ngx.WARN, "disabled: ", unknown, " ", disabled)
        end
    }
    server { listen unix:@DIR@/own.sock; location / { content_by_lua_block { ngx.say(ngx.worker.id()) } } }
    server {
        listen 127.0.0.1:@PORT@;
        location /texts { content_by_lua_block { DECLARE
            local out = ffi.new("unsigned char[30]")
            local from = "a b/%?\\195\\169"
            local count = tonumber(C.ngx_escape_uri(nil, from, #from, 2))
            local last = C.ngx_escape_uri(out, from, #from, 2)
            ngx.say(count, " ", ffi.string(out, #from + 2 * count), " ", last - ffi.cast("uintptr_t", out) == #from + 2 * count)
            ngx.say(tonumber(C.ngx_hextoi("fF1", 3)), " ", tonumber(C.ngx_hextoi("g", 1)), " ", tonumber(C.ngx_hextoi("", 0)))
            ngx.say(tonumber(C.ngx_parse_time(text("1m30s"), 1)), " ", tonumber(C.ngx_parse_time(text("1m30s5ms"), 0)), " ",
                    tonumber(C.ngx_parse_time(text("x"), 0)))
        } }
        location /stat { content_by_lua_block { DECLARE
            local before = tonumber(C.ngx_stat_requests[0])
            ngx.sleep(0.02)
            ngx.say(tonumber(C.ngx_stat_accepted[0]) >= 1, " ", C.ngx_stat_accepted[0] == C.ngx_stat_handled[0], " ",
                    tonumber(C.ngx_stat_active[0]) >= 1, " ", tonumber(C.ngx_stat_writing[0]) >= 1, " ",
                    tonumber(C.ngx_stat_reading[0]), " ", tonumber(C.ngx_stat_waiting[0]) >= 0, " ",
                    tonumber(C.ngx_stat_requests[0]) >= before + (before == 0 and 1 or 0))
        } }
        location /tls { content_by_lua_block { DECLARE
            local out, context = ffi.new("void *[1]"), ffi.new("void *[1]")
            local sock = ngx.socket.tcp()
            ngx.say(C.ngx_http_lua_resty_openssl_aux_get_request_ssl(nil, out), " ",
                    C.ngx_http_lua_resty_openssl_aux_get_request_ssl_ctx(nil, out), " ",
                    C.ngx_http_lua_resty_openssl_aux_get_socket_ssl(nil, out))
            assert(sock:connect("127.0.0.1", @PORT2@))
            ngx.say(C.ngx_http_lua_resty_openssl_aux_get_socket_ssl(sock[1], out))
            assert(sock:sslhandshake(nil, "a.test", false))
            ngx.say(C.ngx_http_lua_resty_openssl_aux_get_socket_ssl(sock[1], out), " ", ffi.string(C.SSL_get_version(out[0])), " ",
                    C.ngx_http_lua_resty_openssl_aux_get_socket_ssl_ctx(sock[1], context), " ", C.SSL_get_SSL_CTX(out[0]) == context[0])
            ngx.say(sock:receive("*a"))
            sock:close()
            ngx.say(C.ngx_http_lua_resty_openssl_aux_get_socket_ssl(sock[1], out), " ",
                    C.ngx_http_lua_resty_openssl_aux_get_socket_ssl_ctx(sock[1], out))
        } }
        location /more { content_by_lua_block { DECLARE
            local request = require("resty.core.base").get_request()
            local in_ssl = ffi.new("int[1]", 7)
            ngx.say(C.ngx_http_lua_ffi_get_ctx_ref(request, in_ssl, nil), " ", in_ssl[0])
            ngx.ctx.mine = "here"
            local place = C.ngx_http_lua_ffi_get_ctx_ref(request, in_ssl, nil)
            ngx.say(debug.getregistry().ngx_lua_ctx_tables[place].mine, " ", C.ngx_http_lua_ffi_get_ctx_ref(nil, in_ssl, nil))
            ngx.say(C.ngx_http_lua_ffi_raw_log(request, ngx.WARN, "raw line", 8), " ", C.ngx_http_lua_ffi_raw_log(request, 9, "x", 1))
            ngx.say(C.ngx_http_lua_ffi_shdict_udata_to_zone(ngx.shared.d[1]) == ngx.shared.d[1], " ",
                    C.ngx_http_lua_ffi_shdict_udata_to_zone(nil) == nil)
            ngx.say(ffi.sizeof("ngx_str_t"), " ", ffi.sizeof("ngx_http_lua_ffi_str_t"))
        } }
    }
}
stream { server { listen 127.0.0.1:@PORT2@ ssl; ssl_certificate tls.crt; ssl_certificate_key tls.key; ssl_protocols TLSv1.2;
    content_by_lua_block { DECLARE
        local out = ffi.new("void *[1]")
        ngx.print(C.ngx_stream_lua_resty_openssl_aux_get_request_ssl(nil, out), " ", ffi.string(C.SSL_get_version(out[0])))
    } }
server { listen 127.0.0.1:@PORT1@; content_by_lua_block { DECLARE
    local request = require("resty.core.base").get_request()
    ngx.say(C.ngx_stream_lua_ffi_get_ctx_ref(request, nil, nil), " ", C.ngx_stream_lua_ffi_raw_log(request, ngx.WARN, "raw session", 11))
} } }
""".replace("DECLARE", DECLARATIONS)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    authority = Authority(str(tmp_path_factory.mktemp("tls")))
    authority.issue("tls", "DNS:a.test")
    with Server(conf=CONF, files={name: authority.read(name) for name in ("tls.crt", "tls.key")}) as made:
        yield made


def test_texts_and_numbers(server):
    assert server.get("/texts").text == "6 a%20b%2F%25%3F%C3%A9 true\n4081 -1 -1\n90 90005 -1\n"


def test_counters(server):
    assert server.get("/stat").text == "true true true true 0 true true\n"


def test_context_log_and_dictionaries(server):
    assert server.get("/more").text == "-2 0\nhere -100\n0 -1\ntrue true\n16 16\n"
    line = server.wait_log(r".*raw line.*").group()
    assert "[warn]" in line and "[lua]" not in line and "request: " in line
    with Client(server.port_of("PORT1")) as client:
        assert client.rest() == b"-2 0\n"
    server.wait_log("raw session, client: ")


def test_what_is_behind_tls_for_lua_resty_openssl(server):
    assert server.get("/tls").text == "-1 -1 -1\n-1\n0 TLSv1.2 0 true\n0 TLSv1.2\n-1 -1\n"


def test_a_worker_that_does_not_listen_on_a_unix_socket(server):
    server.wait_log("disabled: -1 0")
    answers = set()
    for _ in range(40):
        with Client(server.path("own.sock")) as client:
            answers.add(client.request("/").text)
    assert answers == {"0\n"}


def listed():
    """The names of the manual."""
    with open(os.path.join(ROOT, "docs", "lua.md"), encoding="utf-8") as manual:
        section = manual.read().split("## C names for FFI")[1].split("\n## ")[0]
    table, both = section.split("The following have the prefix")
    names = set(re.findall(r"`(ngx_\w+)`", table.split("| types |")[1].split("\n", 1)[1]))
    for name in re.findall(r"`(\w+)`", both.split("\n\n", 2)[1]):
        names.add("ngx_http_lua_ffi_" + name)
        if name != "socket_tcp_settrustedstore":
            names.add("ngx_stream_lua_ffi_" + name)
    return names


def test_the_manual_lists_what_the_executable_has():
    symbols = subprocess.run(["nm", "-D", "--defined-only", binaries.under_test()], capture_output=True, text=True, check=True)
    names = {line.split()[-1] for line in symbols.stdout.splitlines()}
    assert listed() == {name for name in names if name.startswith("ngx_") and not re.search(r"_module(_\w+)?$", name)}


def test_the_manual_lists_no_name_as_missing_that_is_there():
    with open(os.path.join(ROOT, "docs", "lua.md"), encoding="utf-8") as manual:
        section = manual.read().split("have no names, since")[1].split("\n## ")[0]
    both, http, stream = (set(re.findall(r"`(\w+)`", part.split(":\n", 1)[1])) for part in (
        section.split("With `")[0], section.split("With `")[1], section.split("With `")[2]))
    symbols = subprocess.run(["nm", "-D", "--defined-only", binaries.under_test()], capture_output=True, text=True, check=True).stdout.split()
    missing = {"ngx_http_lua_ffi_" + name for name in both | http} | {"ngx_stream_lua_ffi_" + name for name in both | stream}
    assert len(missing) > 200 and not missing & set(symbols)
