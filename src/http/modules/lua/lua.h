/* Inside ngx_http_lua_module: what its files share.
 * Implemented in abort.c, exec.c, exit.c, filters.c, handshakes.c, output.c, phases.c, req_body.c,
 * req_headers.c, req_line.c, req_socket.c, request.c, resp_headers.c, set.c, subrequests.c and
 * uri.c. */
#ifndef HTTP_MODULES_LUA_LUA_H
#define HTTP_MODULES_LUA_LUA_H

#include "base/buf.h"
#include "base/text.h"
#include "http/request/request.h"
#include "lua/config/main.h"
#include "lua/tasks/abort.h"
#include "lua/tls/backend.h"
#include "lua/tls/tls.h"
#include "lua/vm/function.h"
#include "lua/vm/settings.h"
#include "lua/vm/thread.h"
#include "lua/vm/vm.h"

/* Main level. */
struct http_lua_main {
    struct script_main script;
    bool rewrite_is_early;    /* rewrite_by_lua_no_postpone */
    bool access_is_early;     /* access_by_lua_no_postpone */
    bool precontent_is_early; /* precontent_by_lua_no_postpone */
    bool has_if_rewrite; /* an `if` block has rewrite_by_lua: which one holds shows while the lines
                            before it run */
};
extern struct settings_key http_lua_main_key;

/* A place. */
struct http_lua_settings {
    struct script_settings script;
    struct script_code *server_rewrite; /* of a server alone */
    struct script_code *rewrite, *access, *precontent, *content;
    struct script_code *header_filter, *body_filter, *log;
    uint64_t capture_max;                /* lua_capture_max_size: bytes of a captured body */
    bool needs_body;                     /* lua_need_request_body */
    bool gathers_http10;                 /* lua_http10_buffering */
    bool has_default_type;               /* lua_use_default_type */
    struct script_tls_codes tls;         /* of handshakes, of a server */
    struct script_backend_codes backend; /* of handshakes with backends */
    bool transforms_names;               /* lua_transform_underscores_in_response_headers */
};
extern struct settings_key http_lua_key;

/* What Lua gives of a response (output.c). */
struct http_lua_output {
    struct buf
        gathered; /* lua_http10_buffering: what was said so far, whose length the head will tell */
    struct list waiters; /* struct turn: threads that wait until another's output was taken; empty
                            before the first */
    enum handler_result head; /* how the head went, once has_begun */
    bool has_begun;           /* the head was given, or tried */
    bool has_ended;           /* the last piece was given */
    bool is_busy;             /* a thread gives something */
};

struct http_lua_filter;

/* What a script has said becomes of the request. */
struct http_lua_result {
    enum lua_result_kind {
        LUA_RESULT_NONE,    /* nothing: it ran to its end */
        LUA_RESULT_DECIDED, /* `result`: ngx.exec, ngx.redirect … */
        LUA_RESULT_EXITED,  /* ngx.exit, with `code` */
    } kind;
    union {
        enum handler_result result;
        int code;
    };
};

/* A request, as Lua sees it. */
struct http_lua_request {
    struct script_subject subject; /* magic of its kind: http_lua_request_kind */
    struct request *request;
    struct http_lua_result result; /* of the script that runs, or ran last */
    bool has_begun;                /* subject is valid */
    unsigned exit_status; /* of a failure that it asked for: Lua that makes the page for it answers
                             with this; else 0 */
    struct http_lua_output output;
    struct script_backend backend;  /* scripts in a handshake with a backend */
    struct http_lua_filter *filter; /* whose piece is ngx.arg now; else NULL (filters.c) */
    unsigned is_refused : 1; /* by ngx.exit in header_filter_by_lua*: that is not run for the page
                                that follows */
    struct abort_watcher aborts; /* set while Lua runs that may wait (abort.c) */
    struct script_abort abort;   /* what ngx.on_abort asked for */
    bool has_left;               /* the client has, during this run; the script continues */
    bool knows_of_leaving;       /* a script with lua_check_client_abort had its chance to react */
    struct deferred leaving;     /* looks again whether it has, when the run is over */
    unsigned redirects;          /* of the request, when ngx.ctx was made */
    bool has_type;               /* a script has set Content-Type, or removed it */
    bool is_reading_body;        /* ngx.req.read_body waits */
    bool has_raw_socket; /* ngx.req.socket(true): what is sent there is the answer (req_socket.c) */
    struct body_source *body_source; /* of ngx.req.socket(); or NULL */
    struct body_writer *writer;      /* of ngx.req.init_body; or NULL */
    char *file_to_remove;            /* path of the body that a script gave; or NULL */
    struct str *arguments;           /* ngx.arg of set_by_lua, while that runs */
    unsigned argument_count;         /* number of ngx.arg's members */
    unsigned captures;               /* ngx.location.capture and similar functions that wait */
};

extern const struct script_subject_kind http_lua_request_kind;

/* The settings at the place of the request. */
static inline const struct http_lua_settings *http_lua_settings_of(const struct request *request)
{
    return location_settings(request->location, &http_lua_key);
}

/* What Lua has of a request; made at its first use. */
struct http_lua_request *http_lua_request_of(struct request *request);
/* The same, or NULL: no Lua has run for it. */
struct http_lua_request *http_lua_request_begun(struct request *request);

/* The request that a thread works for; an error is thrown where there is none ("no request found").
 */
struct http_lua_request *http_lua_check_request(lua_State *L, const struct script_thread *thread);
/* The same, for a function that these phases (enum script_phase) alone have; an error else ("API
 * disabled in the current context"). */
struct request *http_lua_demand(lua_State *L, const struct script_thread *thread, uint32_t phases);
/*
 * The running thread decides what becomes of the request, and no Lua of this run continues. An
 * error is thrown while another thread waits for a subrequest.
 */
_Noreturn void http_lua_decide(lua_State *L, struct script_thread *thread,
                               enum handler_result result);

/* ---- handlers of phases (phases.c) */

enum handler_result http_lua_server_rewrite(struct request *request);
enum handler_result http_lua_rewrite(struct request *request);
enum handler_result http_lua_access(struct request *request);
enum handler_result http_lua_precontent(struct request *request);
enum handler_result http_lua_content(struct request *request);
enum handler_result http_lua_log(struct request *request);
void http_lua_filter_response(struct request *request); /* header_filter_by_lua*, and installs
                                                           body_filter_by_lua* (filters.c) */

/* ---- handshakes (handshakes.c): when all was read, the addresses whose servers have scripts for
 * them */

/* Scripts of handshakes with backends, for a request. */
const struct tls_client_hooks *http_lua_backend_hooks(struct request *request);

struct http_main;
void http_lua_handshakes_end(struct http_main *http);
struct conf_scope;
struct directive;
/* Reads a line of set_by_lua* (set.c). */
bool http_lua_set_apply(struct conf_scope *scope, const struct directive *row,
                        struct conf_node *node, void *settings);

/* ---- what Lua can call; each adds rows to the table ngx, which is on top */

void http_lua_req_socket_add(lua_State *L); /* req.socket (req_socket.c) */
void http_lua_output_add(lua_State *L);     /* say, print, … (output.c) */
void http_lua_exit_add(lua_State *L);       /* exit, HTTP_OK and so on (exit.c) */
void http_lua_filters_add(lua_State *L);    /* arg (filters.c) */
void http_lua_abort_add(lua_State *L);      /* on_abort (abort.c) */
void http_lua_req_line_add(lua_State *L); /* ngx.req.http_version, ngx.HTTP_GET, … (req_line.c) */

void http_lua_uri_add(lua_State *L);      /* ngx.req.set_uri and related functions (uri.c) */
void http_lua_req_body_add(lua_State *L); /* ngx.req.read_body and related functions (req_body.c) */
void http_lua_subrequests_add(
    lua_State *L);                    /* ngx.location.capture and capture_multi (subrequests.c) */
void http_lua_exec_add(lua_State *L); /* ngx.exec, ngx.redirect (exec.c) */

/* ---- what they share */

/* For functions that FFI calls: the request that the running thread works for, in one of these
 * phases. Else a negative LUA_FFI_*. */
int http_lua_ffi_request(uint32_t phases, struct request **out);
/* The request of http_lua_ffi_request, after that has found it. */
struct request *http_lua_running_request(void);

struct http_lua_ffi_pair;
/* A field by number; LUA_FFI_OK, or LUA_FFI_NONE. */
int http_lua_field_at(const struct fields *fields, int number, struct http_lua_ffi_pair *out);
struct str http_lua_escaped(struct arena *arena, struct str text, enum escape_set set);
/* Set one, or put it beside those that there are; an empty value removes them. LUA_FFI_OK, or
 * LUA_FFI_BAD_VALUE. */
int http_lua_request_field_set(struct request *request, struct str name, struct str value,
                               bool appends);
int http_lua_response_field_set(struct request *request, struct str name, struct str value,
                                bool appends);
/* Assigns a variable; of a value without data it has none from here on. LUA_FFI_OK, _NONE: there is
 * no such variable, or _FIXED. */
int http_lua_variable_set(struct request *request, struct str name, struct str value);
/* An error is thrown where the text holds control characters: "unsafe byte "0x0d" in WHAT "…"HINT".
 */
void http_lua_check_bytes(lua_State *L, struct str text, const char *what, const char *hint);
/* Pushes the arguments ("a=1&b") that a table, a text or a number at an index says; an error is
 * thrown for anything else. */
void http_lua_push_args(lua_State *L, int index);
/* "GET" of ngx.HTTP_GET; empty: it is no number of a method. */
struct str http_lua_method_name(int number);

/* ---- output (output.c) */

/* Has anything of the response been given, or gathered? Then no other can take its place. */
bool http_lua_has_output(const struct http_lua_request *lua);
/* Gives all that is left to give: the head, what was gathered, the end. HANDLER_DONE, or how it
 * failed. MAY WAIT. */
enum handler_result http_lua_finish_output(struct http_lua_request *lua);
/* The request is answered again (an error page, another location): what was said before is
 * forgotten. */
void http_lua_reset_output(struct http_lua_request *lua);

/* ---- exits (exit.c) */

/* What a handler of the phase returns after ngx.exit. MAY WAIT. */
enum handler_result lua_exit_result(struct http_lua_request *lua, enum script_phase phase);

/* ---- clients that leave (abort.c) */

/* Around Lua that may wait: what becomes of it when the client leaves. Gives what to hand to
 * http_lua_abort_end. */
struct abort_watcher *http_lua_abort_begin(struct http_lua_request *lua);
void http_lua_abort_end(struct http_lua_request *lua, struct abort_watcher *outer);
/* The request is freed. */
void http_lua_abort_forget(struct http_lua_request *lua);

#endif
