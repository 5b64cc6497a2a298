/* Inside ngx_http_lua_module: what its files share. */
#ifndef HTTP_MODULES_LUA_LUA_H
#define HTTP_MODULES_LUA_LUA_H

#include "http/request/request.h"
#include "lua/tls/tls.h"
#include "lua/vm/function.h"
#include "lua/vm/settings.h"
#include "lua/vm/thread.h"
#include "lua/vm/vm.h"

/* Main level. */
struct lua_main {
    struct script_vm_options options;
    struct script_vm *vm;
};
extern struct settings_key lua_main_key;

/* A place. */
struct lua_settings {
    struct script_settings script;
    struct script_code *rewrite, *access, *content, *log;
    struct script_tls_codes tls; /* of handshakes, of a server */
};
extern struct settings_key lua_key;

/* A request, as Lua sees it. */
struct lua_request {
    struct script_subject subject; /* magic of its kind: lua_request_kind */
    struct request *request;
    enum flow flow;    /* what a handler returns, once Lua has decided: ngx.exit, ngx.exec … */
    bool has_decided;  /* flow holds */
    bool has_begun;    /* subject is valid */
};

extern const struct script_subject_kind lua_request_kind;

/* The settings at the place of the request. */
static inline const struct lua_settings *lua_settings_of(const struct request *request)
{
    return location_settings(request->location, &lua_key);
}

/* What Lua has of a request; made at its first use. */
struct lua_request *lua_request_of(struct request *request);

/* The request that a thread works for; an error is thrown where there is none ("no request found"). */
struct lua_request *lua_check_request(lua_State *L, const struct script_thread *thread);

/* ---- handlers of phases (phases.c) */

enum flow lua_rewrite(struct request *request);
enum flow lua_access(struct request *request);
enum flow lua_content(struct request *request);
enum flow lua_log(struct request *request);

/* ---- handshakes (handshakes.c): when all was read, the addresses whose servers have scripts for them */

struct http_main;
void lua_handshakes_end(struct http_main *http);

/* ---- what Lua can call; each adds rows to the table ngx, which is on top */

void lua_output_add(lua_State *L); /* say, print, … (output.c) */

/* Gives the head, if it was not given yet: FLOW_NEXT: a body may follow. */
enum flow lua_send_head(struct lua_request *lua);

#endif
