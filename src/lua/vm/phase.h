/* Where in the life of a request, a session or a worker Lua runs. */
#ifndef LUA_VM_PHASE_H
#define LUA_VM_PHASE_H

#include <stdint.h>

/* A bit for each, so that a function can say where it may be called. */
enum script_phase {
    SCRIPT_INIT = 1 << 0,        /* in the master, when the configuration was read */
    SCRIPT_INIT_WORKER = 1 << 1, /* in each worker before it serves */
    SCRIPT_EXIT_WORKER = 1 << 2, /* in each worker when it ends */
    SCRIPT_SET = 1 << 3,
    SCRIPT_SERVER_REWRITE = 1 << 4,
    SCRIPT_REWRITE = 1 << 5,
    SCRIPT_ACCESS = 1 << 6,
    SCRIPT_PRECONTENT = 1 << 7,
    SCRIPT_CONTENT = 1 << 8,
    SCRIPT_HEADER_FILTER = 1 << 9,
    SCRIPT_BODY_FILTER = 1 << 10,
    SCRIPT_LOG = 1 << 11,
    SCRIPT_TIMER = 1 << 12,
    SCRIPT_BALANCER = 1 << 13,
    SCRIPT_CLIENT_HELLO = 1 << 14,
    SCRIPT_CERTIFICATE = 1 << 15,
    SCRIPT_SESSION_FETCH = 1 << 16,
    SCRIPT_SESSION_STORE = 1 << 17,
    SCRIPT_PREREAD = 1 << 18,
    SCRIPT_PROXY_CERTIFICATE = 1 << 19,
    SCRIPT_PROXY_VERIFY = 1 << 20,

    SCRIPT_ALL = (1 << 21) - 1,
    /* Those in which Lua may wait. */
    SCRIPT_WAITING = SCRIPT_SERVER_REWRITE | SCRIPT_REWRITE | SCRIPT_ACCESS | SCRIPT_PRECONTENT |
                     SCRIPT_CONTENT | SCRIPT_TIMER | SCRIPT_PREREAD | SCRIPT_CLIENT_HELLO |
                     SCRIPT_CERTIFICATE | SCRIPT_SESSION_FETCH | SCRIPT_PROXY_CERTIFICATE |
                     SCRIPT_PROXY_VERIFY,
    /* Those of a request of http. */
    SCRIPT_OF_REQUEST = SCRIPT_SET | SCRIPT_SERVER_REWRITE | SCRIPT_REWRITE | SCRIPT_ACCESS |
                        SCRIPT_PRECONTENT | SCRIPT_CONTENT | SCRIPT_HEADER_FILTER |
                        SCRIPT_BODY_FILTER | SCRIPT_LOG | SCRIPT_BALANCER,
    /* Those in which ngx.exit is noted and returns; the last one counts. Elsewhere it ends the
       script. */
    SCRIPT_EXIT_RETURNS = SCRIPT_HEADER_FILTER | SCRIPT_BALANCER | SCRIPT_SESSION_STORE,
};

/* What the log says before the message of an error there: "lua entry thread aborted: runtime error:
 * ", and so on. */
const char *script_phase_failure(enum script_phase phase);
/* The same of a file, in the phases of a process: "init_by_lua_file error: ". */
const char *script_phase_failure_of_file(enum script_phase phase);
/* "content_by_lua*", as messages say it. */
const char *script_phase_text(enum script_phase phase);
/* "content", as ngx.get_phase gives it. */
const char *script_phase_name(enum script_phase phase);
/* 8, as ngx.get_raw_phase gives it. */
unsigned script_phase_number(enum script_phase phase);

#endif
