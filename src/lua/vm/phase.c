/* The names of phases. */
#include "lua/vm/phase.h"

#include <stddef.h>

static const struct {
    enum script_phase phase;
    const char *text; /* in messages */
    const char *name; /* of ngx.get_phase */
} phases[] = {
    {SCRIPT_INIT, "init_by_lua*", "init"},
    {SCRIPT_INIT_WORKER, "init_worker_by_lua*", "init_worker"},
    {SCRIPT_EXIT_WORKER, "exit_worker_by_lua*", "exit_worker"},
    {SCRIPT_SET, "set_by_lua*", "set"},
    {SCRIPT_SERVER_REWRITE, "server_rewrite_by_lua*", "server_rewrite"},
    {SCRIPT_REWRITE, "rewrite_by_lua*", "rewrite"},
    {SCRIPT_ACCESS, "access_by_lua*", "access"},
    {SCRIPT_PRECONTENT, "precontent_by_lua*", "precontent"},
    {SCRIPT_CONTENT, "content_by_lua*", "content"},
    {SCRIPT_HEADER_FILTER, "header_filter_by_lua*", "header_filter"},
    {SCRIPT_BODY_FILTER, "body_filter_by_lua*", "body_filter"},
    {SCRIPT_LOG, "log_by_lua*", "log"},
    {SCRIPT_TIMER, "ngx.timer", "timer"},
    {SCRIPT_BALANCER, "balancer_by_lua*", "balancer"},
    {SCRIPT_CLIENT_HELLO, "ssl_client_hello_by_lua*", "ssl_client_hello"},
    {SCRIPT_CERTIFICATE, "ssl_certificate_by_lua*", "ssl_cert"},
    {SCRIPT_SESSION_FETCH, "ssl_session_fetch_by_lua*", "ssl_session_fetch"},
    {SCRIPT_SESSION_STORE, "ssl_session_store_by_lua*", "ssl_session_store"},
    {SCRIPT_PREREAD, "preread_by_lua*", "preread"},
    {SCRIPT_PROXY_CERTIFICATE, "proxy_ssl_certificate_by_lua*", "proxy_ssl_cert"},
    {SCRIPT_PROXY_VERIFY, "proxy_ssl_verify_by_lua*", "proxy_ssl_verify"},
    {SCRIPT_WORKER_THREAD, "worker_thread", "worker_thread"},
};

const char *script_phase_text(enum script_phase phase)
{
    for (size_t i = 0; i < sizeof(phases) / sizeof(phases[0]); i++) {
        if (phases[i].phase == phase) {
            return phases[i].text;
        }
    }
    return "(unknown)";
}

const char *script_phase_name(enum script_phase phase)
{
    for (size_t i = 0; i < sizeof(phases) / sizeof(phases[0]); i++) {
        if (phases[i].phase == phase) {
            return phases[i].name;
        }
    }
    return "(unknown)";
}
