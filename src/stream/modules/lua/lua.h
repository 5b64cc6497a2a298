/* Inside ngx_stream_lua_module: what its files share. */
#ifndef STREAM_MODULES_LUA_LUA_H
#define STREAM_MODULES_LUA_LUA_H

#include "event/loop.h"
#include "lua/config/main.h"
#include "lua/sockets/sockets.h"
#include "lua/tasks/abort.h"
#include "lua/tls/backend.h"
#include "lua/tls/tls.h"
#include "lua/vm/function.h"
#include "lua/vm/settings.h"
#include "lua/vm/thread.h"
#include "lua/vm/vm.h"
#include "stream/session/session.h"

/* Stream level. */
struct stream_lua_main {
    struct script_main script;
    bool is_early; /* preread_by_lua_no_postpone */
};
extern struct settings_key stream_lua_main_key;

/* A server. */
struct stream_lua_settings {
    struct script_settings script;
    struct script_code *preread, *content, *log;
    struct script_tls_codes tls;         /* of handshakes */
    struct script_backend_codes backend; /* of handshakes with backends */
};
extern struct settings_key stream_lua_key;

/* A session, as Lua sees it. */
struct stream_lua {
    struct script_subject subject; /* its kind: stream_lua_kind */
    struct session *session;
    int exit_code;         /* of ngx.exit */
    bool has_exit;         /* exit_code holds */
    bool has_begun;        /* subject is valid */
    bool has_ended_output; /* ngx.eof was called */
    bool has_failed;       /* the client took no more: timeout, or it is gone */

    struct script_backend backend; /* scripts in a handshake with a backend */

    /* Of the client's input (input.c). */
    struct script_source source;      /* that request sockets read */
    struct script_conn_source origin; /* of the connection, for TCP */
    struct script_abort abort;        /* what ngx.on_abort asked for */
    struct timer
        leaving;     /* the client has left: the next turn of the loop does what is to be done */
    bool has_left;   /* that was done */
    bool has_socket; /* source is valid */
    bool has_raw_socket; /* that socket is raw; a session has one at most */
};

extern const struct script_subject_kind stream_lua_kind;

/* The settings of the session's server. */
static inline const struct stream_lua_settings *stream_lua_settings_of(
    const struct session *session)
{
    return stream_settings(session->server, &stream_lua_key);
}

/* What Lua has of a session; made at its first use. */
struct stream_lua *stream_lua_of(struct session *session);

/* The session that a thread works for; an error is thrown where there is none ("no request found").
 */
struct stream_lua *stream_lua_check(lua_State *L, const struct script_thread *thread);

/* ---- handlers (phases.c) */

enum session_step stream_lua_preread(struct session *session);
enum session_step stream_lua_content(struct session *session);
enum session_step stream_lua_log(struct session *session);

/* ---- handshakes (handshakes.c): when all was read, the addresses whose servers have scripts for
 * them. False after conf_error. */
bool stream_lua_handshakes_end(struct conf *conf, struct stream_main *stream);
/* Scripts of handshakes with backends, for a session. */
const struct tls_client_hooks *stream_lua_backend_hooks(struct session *session);

/* ---- the client's input (input.c) */

void stream_lua_init_input(struct stream_lua *lua);
/* Around a run that may wait: only the script sees what the client sends. */
void stream_lua_begin_input(struct stream_lua *lua);
void stream_lua_end_input(struct stream_lua *lua);
void stream_lua_input_add(lua_State *L); /* req.socket, on_abort */
/* Pushes serversslhandshake of request sockets (secure.c). */
void stream_lua_push_handshake(lua_State *L);
/* Pushes a request socket of UDP (datagrams.c). */
void stream_lua_push_datagrams(lua_State *L, struct stream_lua *lua);

/* ---- called by FFI (session.lua); below 0: as those of lua/values/variables.h */

int stream_lua_ffi_status(void);
int stream_lua_ffi_status_set(int status);
double stream_lua_ffi_start_time(void); /* 0: of no session; below 0: in init_by_lua */

/* ---- what Lua can call; each adds rows to the table ngx, which is on top */

void stream_lua_output_add(lua_State *L);  /* say, print, flush, eof (output.c) */
void stream_lua_session_add(lua_State *L); /* exit, status (session.c) */

#endif
