/* The names of phases. */
#include "lua/vm/phase.h"

#include <stddef.h>

struct row {
    enum script_phase phase;
    const char *text;    /* in messages */
    const char *name;    /* of ngx.get_phase */
    unsigned number;     /* of ngx.get_raw_phase, as OpenResty counts them; 0: it has none */
    const char *failure; /* before the message of an error; NULL: as of a thread */
};
static const struct row unknown = {.text = "(unknown)", .name = "(unknown)"};
static const struct row phases[] = {
    {SCRIPT_INIT, "init_by_lua*", "init", 0, "init_by_lua error: "},
    {SCRIPT_INIT_WORKER, "init_worker_by_lua*", "init_worker", 256, "init_worker_by_lua error: "},
    {SCRIPT_EXIT_WORKER, "exit_worker_by_lua*", "exit_worker", 8192, "exit_worker_by_lua error: "},
    {SCRIPT_SET, "set_by_lua*", "set", 1, "failed to run set_by_lua*: "},
    {SCRIPT_SERVER_REWRITE, "server_rewrite_by_lua*", "server_rewrite", 32768, NULL},
    {SCRIPT_REWRITE, "rewrite_by_lua*", "rewrite", 2, NULL},
    {SCRIPT_ACCESS, "access_by_lua*", "access", 4, NULL},
    {SCRIPT_PRECONTENT, "precontent_by_lua*", "precontent", 1 << 16, NULL},
    {SCRIPT_CONTENT, "content_by_lua*", "content", 8, NULL},
    {SCRIPT_HEADER_FILTER, "header_filter_by_lua*", "header_filter", 32,
     "failed to run header_filter_by_lua*: "},
    {SCRIPT_BODY_FILTER, "body_filter_by_lua*", "body_filter", 64,
     "failed to run body_filter_by_lua*: "},
    {SCRIPT_LOG, "log_by_lua*", "log", 16, "failed to run log_by_lua*: "},
    {SCRIPT_TIMER, "ngx.timer", "timer", 128, NULL},
    {SCRIPT_BALANCER, "balancer_by_lua*", "balancer", 512, "failed to run balancer_by_lua*: "},
    {SCRIPT_CLIENT_HELLO, "ssl_client_hello_by_lua*", "ssl_client_hello", 16384, NULL},
    {SCRIPT_CERTIFICATE, "ssl_certificate_by_lua*", "ssl_cert", 1024, NULL},
    {SCRIPT_SESSION_FETCH, "ssl_session_fetch_by_lua*", "ssl_session_fetch", 4096, NULL},
    {SCRIPT_SESSION_STORE, "ssl_session_store_by_lua*", "ssl_session_store", 2048,
     "failed to run session_store_by_lua*: "},
    {SCRIPT_PREREAD, "preread_by_lua*", "preread", 2, NULL},
    {SCRIPT_PROXY_CERTIFICATE, "proxy_ssl_certificate_by_lua*", "proxy_ssl_cert", 1 << 17, NULL},
    {SCRIPT_PROXY_VERIFY, "proxy_ssl_verify_by_lua*", "proxy_ssl_verify", 1 << 18, NULL},
};

static const struct row *row_of(enum script_phase phase)
{
    for (size_t i = 0; i < sizeof(phases) / sizeof(phases[0]); i++) {
        if (phases[i].phase == phase) {
            return &phases[i];
        }
    }
    return &unknown;
}

const char *script_phase_text(enum script_phase phase)
{
    return row_of(phase)->text;
}

const char *script_phase_name(enum script_phase phase)
{
    return row_of(phase)->name;
}

const char *script_phase_failure_of_file(enum script_phase phase)
{
    switch (phase) {
    case SCRIPT_INIT:
        return "init_by_lua_file error: ";
    case SCRIPT_INIT_WORKER:
        return "init_worker_by_lua_file error: ";
    case SCRIPT_EXIT_WORKER:
        return "exit_worker_by_lua_file error: ";
    default:
        return script_phase_failure(phase);
    }
}

const char *script_phase_failure(enum script_phase phase)
{
    const char *failure = row_of(phase)->failure;

    return failure != NULL ? failure : "lua entry thread aborted: runtime error: ";
}

unsigned script_phase_number(enum script_phase phase)
{
    return row_of(phase)->number;
}
