/* ngx.balancer. */
#include "lua/balancer/balancer.h"

#include <math.h>
#include <string.h>

#include "base/parse.h"
#include "lua/vm/function.h"
#include "upstream/balancer_decision.h"

#define SECONDS_MOST 4e6                                     /* of a timeout */
#define HAS_REQUEST ((uint32_t) (SCRIPT_ALL & ~SCRIPT_INIT)) /* "no request found" elsewhere */

/* The choice of a peer for which the balancer script runs. Such a script never waits: there is one
 * at a time. */
static struct upstream_pick *asked;

/* ---- the phase ---- */

bool script_balancer_read(struct conf_scope *scope, const struct conf_node *node,
                          const struct balancer *balancer)
{
    struct str name = STR("balancer_by_lua");

    if (scope_group(scope)->balancer == balancer) {
        return conf_error(scope->conf, node, "\"%.*s\" directive is duplicate",
                          STR_ARG(node->args[0]));
    }
    struct script_code *code = script_code_new(scope, node, name, node->args[1]);

    if (code == NULL) {
        return false;
    }
    upstream_set_balancer(scope, node, balancer, code);
    return true;
}

bool script_balancer_keepalive_apply(struct conf_scope *scope, const struct directive *row,
                                     struct conf_node *node, void *settings)
{
    uint64_t count;

    if (!parse_uint(node->args[1], &count) || count == 0 || count > INT32_MAX) {
        return conf_error(scope->conf, node, "invalid value \"%.*s\" in \"%.*s\" directive",
                          STR_ARG(node->args[1]), STR_ARG(node->args[0]));
    }
    scope_group(scope)->keepalive = (unsigned) count;
    return true;
}

/* What ngx.exit comes to: 0 = the peer is asked. There is no answer that a status of success could
 * be of. */
static unsigned status_of_exit(int code)
{
    if (code == 0) {
        return 0;
    }
    return code >= 300 && code <= 999 ? (unsigned) code : 500;
}

void script_balance(struct script_subject *subject, struct upstream_pick *pick)
{
    struct balancer_decision *decision = pick->decision;
    struct upstream_pick *outer = asked;
    struct script_call call = {.subject = subject,
                               .phase = SCRIPT_BALANCER,
                               .code = decision->director->balancer_settings};

    asked = pick;
    subject->exit_code = 0;
    enum script_end end = script_run(&call);
    asked = outer;
    if (end == SCRIPT_LEFT || end == SCRIPT_ENDED) {
        decision->refusal = status_of_exit(subject->exit_code);
    } else {
        decision->refusal = 500;
    }
    if (decision->refusal == 0 && decision->target == NULL &&
        decision->director->servers.count == 0) {
        log_error(subject->log, 0, "lua balancer: no peer set");
        decision->refusal = 500;
    }
}

/* ---- what scripts call ---- */

/* Why a function of ngx.balancer cannot be called here, in OpenResty's words; NULL: it can. */
static const char *why_not(const struct script_thread *thread)
{
    const uint32_t later = SCRIPT_HEADER_FILTER | SCRIPT_BODY_FILTER | SCRIPT_LOG;

    if (thread->phase == SCRIPT_BALANCER && asked != NULL) {
        return NULL;
    }
    const struct script_subject_kind *kind = thread->subject->kind;
    bool has_upstream = kind != NULL && (thread->phase & later) != 0 && kind->group_name != NULL &&
                        kind->group_name(thread->subject).len != 0;
    return has_upstream ? "API disabled in the current context" : "no upstream found";
}

static int succeed(lua_State *L)
{
    lua_pushboolean(L, true);
    return 1;
}

/* "ADDRESS[:PORT]" or "unix:PATH"; NULL, or why not. */
static const char *read_address(struct str text, uint16_t port, struct arena *arena,
                                struct addr *out)
{
    struct addr_list list;

    if (text.len == 0) {
        return "no host";
    }
    if (!str_starts(text, STR("unix:")) && addr_parse_ip(text, out)) {
        if (text.data[0] != '[' && out->any.sa_family == AF_INET6) {
            return "invalid port";
        }
        addr_set_port(out, port);
        return NULL;
    }
    const char *colon = memchr(text.data, ':', text.len);
    struct str host = colon != NULL ? str_from(text.data, colon) : text;
    struct addr probe;

    if (text.data[0] != '[' && !str_starts(text, STR("unix:")) && !addr_parse_ip(host, &probe)) {
        return "no host allowed";
    }
    if (!addr_parse(arena, text, port, false, &list)) {
        return list.error;
    }
    *out = list.items[0];
    return NULL;
}

static int set_current_peer(lua_State *L, struct script_thread *thread)
{
    const char *reason = why_not(thread);
    struct str host = script_check_str(L, 1);
    lua_Number port = luaL_optnumber(L, 2, 0);
    struct addr addr;

    if (reason == NULL) {
        reason = read_address(host, (uint16_t) (int64_t) port, asked->arena, &addr);
    }
    if (reason != NULL) {
        return script_fail(L, reason);
    }
    asked->decision->target = upstream_directed(asked->decision->director, &addr);
    if (lua_isstring(L, 3)) {
        asked->decision->host = arena_dup(asked->arena, script_check_str(L, 3));
    }
    return succeed(L);
}

static int set_more_tries(lua_State *L, struct script_thread *thread)
{
    const char *reason = why_not(thread);
    lua_Number count = luaL_checknumber(L, 1);

    if (reason != NULL) {
        return script_fail(L, reason);
    }
    struct balancer_decision *decision = asked->decision;
    uint64_t taken = (uint64_t) asked->tries + 1 + decision->more_tries;
    uint64_t wanted = count > 0 ? count < 1e9 ? (uint64_t) count : 1000000000u : 0;

    if (decision->tries_most != 0 && taken + wanted > decision->tries_most) {
        decision->more_tries +=
            taken < decision->tries_most ? (unsigned) (decision->tries_most - taken) : 0;
        lua_pushboolean(L, true);
        lua_pushliteral(L, "reduced tries due to limit");
        return 2;
    }
    decision->more_tries += (unsigned) wanted;
    return succeed(L);
}

static int get_last_failure(lua_State *L, struct script_thread *thread)
{
    const char *reason = why_not(thread);

    if (reason != NULL) {
        lua_pushnil(L);
        lua_pushnil(L);
        lua_pushstring(L, reason);
        return 3;
    }
    const struct balancer_decision *decision = asked->decision;
    if (!decision->has_failed) {
        lua_pushnil(L);
        return 1;
    }
    lua_pushstring(L, decision->was_fair ? "next" : "failed");
    lua_pushinteger(L, (lua_Integer) decision->failed_status);
    return 2;
}

/* Milliseconds of an argument in seconds, SECONDS_MOST at most; 0 = nil. An error is thrown for
 * what is none. */
static uint64_t check_seconds(lua_State *L, int index, const char *name)
{
    if (lua_isnoneornil(L, index)) {
        return 0;
    }
    lua_Number seconds = lua_type(L, index) == LUA_TNUMBER ? lua_tonumber(L, index) : 0;
    if (!(seconds > 0)) {
        luaL_error(L, "bad %s timeout", name);
    }
    uint64_t ms = (uint64_t) floor(fmin(seconds, SECONDS_MOST) * 1000 + 1e-6);
    return ms == 0 ? 1 : ms;
}

static int set_timeouts(lua_State *L, struct script_thread *thread)
{
    const char *reason = why_not(thread);
    bool is_stream = script_vm_is_stream(script_vm_of(L));
    uint64_t connect_ms = check_seconds(L, 1, "connect");
    uint64_t send_ms = check_seconds(L, 2, "send");
    uint64_t read_ms = check_seconds(L, 3, "read");

    if (reason != NULL) {
        lua_pushboolean(L, false);
        lua_pushstring(L, is_stream ? "API disabled in the current context" : reason);
        return 2;
    }
    struct balancer_decision *decision = asked->decision;
    decision->connect_timeout_ms = connect_ms != 0 ? connect_ms : decision->connect_timeout_ms;
    decision->send_timeout_ms = send_ms != 0 ? send_ms : decision->send_timeout_ms;
    decision->read_timeout_ms = read_ms != 0 ? read_ms : decision->read_timeout_ms;
    return succeed(L);
}

static int bind_to_local_addr(lua_State *L, struct script_thread *thread)
{
    const char *reason = why_not(thread);
    struct str text = script_check_str(L, 1);
    struct addr addr;

    if (reason == NULL) {
        reason = read_address(text, 0, asked->arena, &addr);
    }
    if (reason != NULL) {
        return script_fail(L, reason);
    }
    asked->decision->local = addr;
    asked->decision->has_local = true;
    return succeed(L);
}

static int set_upstream_tls(lua_State *L, struct script_thread *thread)
{
    const char *reason = why_not(thread);

    if (reason != NULL) {
        return script_fail(L, reason);
    }
    asked->decision->tls = lua_toboolean(L, 1) || lua_tonumber(L, 1) > 0 ? 1 : -1;
    return succeed(L);
}

/* How long idle connections to the peer that was set are kept, and for how many requests. */
static int enable_keepalive(lua_State *L, struct script_thread *thread)
{
    const char *reason = why_not(thread);
    lua_Number idle = luaL_optnumber(L, 1, 60);
    lua_Number requests = luaL_optnumber(L, 2, 100);

    if (reason == NULL && asked->decision->target == NULL) {
        reason = "no current peer set";
    }
    if (reason != NULL) {
        return script_fail(L, reason);
    }
    if (!(idle >= 0) || idle > 4e6) {
        return luaL_error(L, "bad idle timeout");
    }
    if (!(requests >= 0) || requests > 1e9) {
        return luaL_error(L, "bad max requests");
    }
    struct upstream_group *target = asked->decision->target;
    target->keepalive = target->keepalive != 0 ? target->keepalive : 1;
    target->keepalive_timeout_ms = idle == 0 ? UINT32_MAX : (uint64_t) (idle * 1000);
    target->keepalive_requests = requests == 0 ? INT64_MAX : (int64_t) requests;
    return succeed(L);
}

static int recreate_request(lua_State *L, struct script_thread *thread)
{
    const char *reason = why_not(thread);

    if (reason != NULL) {
        return script_fail(L, reason);
    }
    asked->decision->makes_request = true;
    return succeed(L);
}

static const struct script_row rows[] = {
    {"set_current_peer", set_current_peer, HAS_REQUEST, false},
    {"set_more_tries", set_more_tries, HAS_REQUEST, false},
    {"get_last_failure", get_last_failure, HAS_REQUEST, false},
    {"set_timeouts", set_timeouts, HAS_REQUEST, false},
    {"bind_to_local_addr", bind_to_local_addr, HAS_REQUEST, false},
    {"set_upstream_tls", set_upstream_tls, HAS_REQUEST, false},
    {"enable_keepalive", enable_keepalive, HAS_REQUEST, false},
    {"recreate_request", recreate_request, HAS_REQUEST, false},
    {0},
};

static int script_balancer_open(lua_State *L)
{
    lua_newtable(L);
    script_add(L, rows);
    lua_pushliteral(L, "0.1.31");
    lua_setfield(L, -2, "version");
    return 1;
}

void script_balancer_add(lua_State *L)
{
    script_preload(L, "ngx.balancer", script_balancer_open);
}
