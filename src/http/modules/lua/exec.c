/* ngx.exec and ngx.redirect: the request continues elsewhere. */
#include "base/text.h"
#include "http/message/uri.h"
#include "http/modules/lua/lua.h"

#define PHASES                                                                                     \
    (SCRIPT_SERVER_REWRITE | SCRIPT_REWRITE | SCRIPT_ACCESS | SCRIPT_PRECONTENT | SCRIPT_CONTENT)

/* ngx.exec("@name") */
static enum handler_result go_to_name(struct request *request, struct str name, struct str args)
{
    if (args.len != 0) {
        log_warn(&request->log, 0, "query strings %.*s ignored when exec'ing named location %.*s",
                 STR_ARG(args), STR_ARG(name));
    }
    return request_redirect_named(request, name);
}

static struct str join_args(struct request *request, struct str first, struct str second)
{
    const struct str parts[] = {first, STR("&"), second};

    if (second.len == 0) {
        return first;
    }
    if (first.len == 0) {
        return arena_dup(&request->arena, second);
    }
    return arena_join(&request->arena, parts, 3);
}

/* "/a%20b?c": the path is decoded. False: it is unsafe, which was logged. */
static bool http_lua_split_uri(struct request *request, struct str text, struct str *uri,
                               struct str *args)
{
    if (!request_split_uri(request, text, uri, args)) {
        return false;
    }
    *uri = percent_decode(&request->arena, *uri);
    if (!uri_is_safe(*uri)) {
        log_error(&request->log, 0, "unsafe URI \"%.*s\" was detected", STR_ARG(text));
        return false;
    }
    return true;
}

static int exec(lua_State *L, struct script_thread *thread)
{
    int count = lua_gettop(L);
    struct str uri_args;
    struct str args = STR_NONE;

    if (count != 1 && count != 2) {
        return luaL_error(L, "expecting one or two arguments, but got %d", count);
    }
    struct str uri = script_check_str(L, 1);
    if (uri.len == 0) {
        return luaL_error(L, "The uri argument is empty");
    }
    script_demand(L, thread, PHASES);
    struct request *request = http_lua_check_request(L, thread)->request;

    if (!lua_isnoneornil(L, 2)) {
        http_lua_push_args(L, 2);
        args = lua_type(L, 2) == LUA_TTABLE ? script_check_str(L, -1) : script_check_str(L, 2);
    }
    uri = arena_dup(&request->arena, uri);
    if (uri.data[0] != '@' && !http_lua_split_uri(request, uri, &uri, &uri_args)) {
        return luaL_error(L, "unsafe uri");
    }
    script_demand_abortable(L, thread);
    if (request->response.progress != RESPONSE_NOT_SENT) {
        return luaL_error(L, "attempt to call ngx.exec after sending out response headers");
    }
    if (uri.data[0] == '@') {
        struct str rest = uri;

        uri = str_cut(&rest, '?');
        http_lua_decide(L, thread, go_to_name(request, uri, join_args(request, rest, args)));
    }
    http_lua_decide(L, thread, request_redirect(request, uri, join_args(request, uri_args, args)));
}

static bool is_redirect(lua_Integer status)
{
    return (status >= 301 && status <= 303) || status == 307 || status == 308;
}

static int redirect(lua_State *L, struct script_thread *thread)
{
    if (lua_gettop(L) != 1 && lua_gettop(L) != 2) {
        return luaL_error(L, "expecting one or two arguments");
    }
    struct str uri = script_check_str(L, 1);
    lua_Integer status = lua_gettop(L) == 2 ? luaL_checkinteger(L, 2) : 302;
    if (!is_redirect(status)) {
        return luaL_error(L, "only ngx.HTTP_MOVED_TEMPORARILY, ngx.HTTP_MOVED_PERMANENTLY, "
                             "ngx.HTTP_PERMANENT_REDIRECT, ngx.HTTP_SEE_OTHER, and "
                             "ngx.HTTP_TEMPORARY_REDIRECT are allowed");
    }
    script_demand(L, thread, PHASES);
    struct request *request = http_lua_check_request(L, thread)->request;

    script_demand_abortable(L, thread);
    if (request->response.progress != RESPONSE_NOT_SENT) {
        return luaL_error(L, "attempt to call ngx.redirect after sending out the headers");
    }
    http_lua_check_bytes(L, uri, "redirect uri", "");
    /* As it is: nothing makes it absolute. */
    request->response.location = STR_NONE;
    fields_set(&request->response.fields, &request->arena, FIELD_LOCATION, STR_NONE);
    fields_add_known(&request->response.fields, &request->arena, FIELD_LOCATION,
                     arena_dup(&request->arena, uri));
    http_lua_decide(L, thread, request_fail(request, (unsigned) status));
}

static const struct script_row rows[] = {
    {"exec", exec, PHASES | SCRIPT_ARGUMENTS_FIRST, false},
    {"redirect", redirect, PHASES | SCRIPT_ARGUMENTS_FIRST, false},
    {0},
};

void http_lua_exec_add(lua_State *L)
{
    script_add(L, rows);
}
