/* header_filter_by_lua* and body_filter_by_lua*: Lua that sees responses on their way out. */
#include "http/files/file.h"
#include "http/modules/lua/lua.h"
#include "http/request/body_filter.h"
#include "lua/vm/said.h"

/* A body on its way through Lua. */
struct http_lua_filter {
    struct body_filter filter;
    struct http_lua_request *lua;
    const struct script_code *code;
    struct str chunk; /* ngx.arg[1] */
    int kept;         /* reference to what keeps it, once Lua has assigned it; else LUA_NOREF */
    bool is_changed;  /* Lua has assigned it */
    bool is_last;     /* ngx.arg[2] */
    bool has_ended;   /* the last piece was given: what still comes is dropped */
    uint64_t given;   /* bytes so far */
};

/* ---- heads ---- */

/* A page takes the place of the response: of its fields, those that the script has added stay. */
static void give_page(struct request *request, int code, size_t count_before)
{
    struct fields fields = request->response.fields;

    response_withdraw(request, (unsigned) code, STR_NONE);
    request->response.fields = fields;
    for (size_t i = 0; i < count_before; i++) {
        fields.items[i].is_removed = true;
    }
}

/* ngx.exit has said what to answer with instead; the response had so many fields before the script.
 */
static void http_lua_filters_refuse(struct http_lua_request *lua, int code, size_t count_before)
{
    struct response *response = &lua->request->response;

    if (code == 0) {
        return;
    }
    if (code < 200) {
        response->is_dropped = true;
        return;
    }
    lua->is_refused = true;
    if (code >= 300 && code != 444 && code != 499 && code != 408) {
        give_page(lua->request, code, count_before);
        return;
    }
    response->status = (unsigned) code;
    response->content_type = STR_NONE;
    response->content_length = 0;
    response->whole = STR_NONE;
    response->is_header_only = true;
    response->keeps_head = true;
}

/* Runs the code of header_filter_by_lua*. */
static void run_on_head(struct http_lua_request *lua, const struct script_code *code)
{
    struct script_call call = {.subject = &lua->subject,
                               .phase = SCRIPT_HEADER_FILTER,
                               .code = code};
    struct http_lua_result outer = lua->result;
    size_t count_before = lua->request->response.fields.count;

    lua->result.kind = LUA_RESULT_NONE;
    enum script_end end = script_run(&call);
    if (end == SCRIPT_FAILED) {
        lua->request->response.is_dropped = true;
    } else if (lua->result.kind == LUA_RESULT_EXITED) {
        http_lua_filters_refuse(lua, lua->result.code, count_before);
    }
    lua->result = outer;
}

/* ---- bodies ---- */

static void forget_chunk(struct http_lua_filter *filter)
{
    luaL_unref(filter->lua->subject.vm->state, LUA_REGISTRYINDEX, filter->kept);
    filter->kept = LUA_NOREF;
}

/* `return ngx.ERROR`. */
static void see_result(lua_State *L, void *arg)
{
    bool *has_failed = arg;

    *has_failed = lua_type(L, 1) == LUA_TNUMBER && lua_tonumber(L, 1) < 0;
}

/* Runs the code on a piece. False: it failed. */
static bool run_on_piece(struct http_lua_filter *filter)
{
    struct http_lua_request *lua = filter->lua;
    bool has_failed = false;
    struct script_call call = {.subject = &lua->subject,
                               .phase = SCRIPT_BODY_FILTER,
                               .code = filter->code,
                               .finish = see_result,
                               .arg = &has_failed};
    struct http_lua_filter *outer = lua->filter;

    lua->filter = filter;
    enum script_end end = script_run(&call);
    lua->filter = outer;
    return end == SCRIPT_ENDED && !has_failed;
}

/* Of a body that has become longer than its head says the client gets what was announced. */
static void cut(struct http_lua_filter *filter, struct body_piece *piece)
{
    const struct request *request = filter->lua->request;
    int64_t length = request->response.content_length;

    if (length >= 0 && request->response.progress != RESPONSE_NOT_SENT &&
        filter->given + piece->bytes.len > (uint64_t) length) {
        log_error(&request->log, 0,
                  "body_filter_by_lua* made the body longer than its Content-Length of %lld",
                  (long long) length);
        piece->bytes.len = (size_t) ((uint64_t) length - filter->given);
    }
    filter->given += piece->bytes.len;
}

static bool filter_send(struct body_filter *body_filter, struct request *request,
                        const struct body_piece *piece, bool is_last)
{
    struct http_lua_filter *filter = container_of(body_filter, struct http_lua_filter, filter);

    if (filter->has_ended) {
        response_drop(piece);
        return true;
    }
    if (request->response.is_of_subrequest) {
        return body_filter_next(body_filter, request, piece, is_last);
    }
    /* The end of what a backend gave comes by itself, as in nginx: scripts count on ngx.arg[2] with
     * an empty last piece. */
    if (is_last && piece != NULL && piece->bytes.len != 0 && request->exchange != NULL) {
        return filter_send(body_filter, request, piece, false) &&
               filter_send(body_filter, request, NULL, true);
    }
    filter->chunk = piece != NULL ? piece->bytes : STR("");
    filter->is_changed = false;
    filter->is_last = is_last;
    filter->kept = LUA_NOREF;
    if (!run_on_piece(filter)) {
        forget_chunk(filter);
        request->keepalive = false;
        return response_drop(piece);
    }
    filter->has_ended = filter->is_last;
    request->response.lacks_end = is_last && !filter->is_last;
    if (!filter->is_changed) {
        filter->given += filter->chunk.len;
        return body_filter_next(body_filter, request, piece, filter->has_ended);
    }
    struct body_piece changed = {.bytes = filter->chunk, .fd = -1, .is_volatile = true};
    bool is_sound = true;

    cut(filter, &changed);
    changed.is_flush = piece != NULL && piece->is_flush;
    response_drop(piece);
    if (changed.bytes.len != 0 || changed.is_flush || filter->has_ended) {
        is_sound = body_filter_next(body_filter, request, &changed, filter->has_ended);
    }
    forget_chunk(filter);
    return is_sound;
}

void http_lua_filter_response(struct request *request)
{
    const struct http_lua_settings *settings = http_lua_settings_of(request);
    struct http_lua_request *lua = http_lua_request_of(request);
    struct response *response = &request->response;

    if (settings->header_filter != NULL && !(lua->is_refused && response->is_built_in)) {
        run_on_head(lua, settings->header_filter);
    }
    if (settings->body_filter == NULL || response->is_header_only || response->is_dropped ||
        response->hold.refusal != 0) {
        return;
    }
    struct http_lua_filter *filter = arena_new(&request->arena, struct http_lua_filter);
    filter->filter.send = filter_send;
    filter->lua = lua;
    filter->code = settings->body_filter;
    filter->kept = LUA_NOREF;
    response_append_filter(request, &filter->filter);
    response_needs_memory(request);
}

/* ---- ngx.arg ---- */

/* The piece that Lua works on; an error elsewhere. */
static struct http_lua_filter *demand_filter(lua_State *L, const struct script_thread *thread)
{
    struct http_lua_request *lua = http_lua_check_request(L, thread);

    /* cppcheck-suppress nullPointerRedundantCheck ; the line above has thrown where there is none
     */
    if (thread->phase != SCRIPT_BODY_FILTER || lua->filter == NULL) {
        luaL_error(L, "API disabled in the current context");
    }
    return lua->filter;
}

/* Of set_by_lua: one of those that follow its Lua. */
static int get_set_argument(lua_State *L, const struct http_lua_request *lua)
{
    int number = luaL_checkint(L, 2);

    if (number < 1 || (unsigned) number > lua->argument_count) {
        lua_pushnil(L);
    } else {
        script_push_str(L, lua->arguments[number - 1]);
    }
    return 1;
}

static int get_argument(lua_State *L, struct script_thread *thread)
{
    const struct http_lua_request *lua = http_lua_check_request(L, thread);
    if (thread->phase == SCRIPT_SET) {
        return get_set_argument(L, lua);
    }
    const struct http_lua_filter *filter = demand_filter(L, thread);
    lua_Number index = lua_tonumber(L, 2);

    if (index == 1) {
        script_push_str(L, filter->chunk);
    } else if (index == 2) {
        lua_pushboolean(L, filter->is_last);
    } else {
        lua_pushnil(L);
    }
    return 1;
}

static void set_chunk(lua_State *L, struct http_lua_filter *filter, int index)
{
    struct str text = STR("");

    switch (lua_type(L, index)) {
    case LUA_TNIL:
        break;
    case LUA_TNUMBER:
    case LUA_TSTRING:
    case LUA_TTABLE:
        lua_replace(L, 1);
        lua_settop(L, 1);
        text = script_said(L, false);
        break;
    default:
        luaL_error(L, "bad chunk data type: %s", luaL_typename(L, index));
    }
    forget_chunk(filter);
    filter->kept = luaL_ref(L, LUA_REGISTRYINDEX);
    filter->chunk = text;
    filter->is_changed = true;
}

static int set_argument(lua_State *L, struct script_thread *thread)
{
    if (thread != NULL && thread->phase != SCRIPT_BODY_FILTER) {
        script_demand(L, thread, SCRIPT_BODY_FILTER);
    }
    struct http_lua_filter *filter = demand_filter(L, thread);
    int index = luaL_checkint(L, 2);

    if (index == 1) {
        set_chunk(L, filter, 3);
    } else if (index == 2) {
        filter->is_last = lua_toboolean(L, 3);
    } else {
        return luaL_error(L, "bad index: %d", index);
    }
    return 0;
}

static const struct script_row argument_rows[] = {
    {"__index", get_argument, 0, false},
    {"__newindex", set_argument, 0, false},
    {0},
};

void http_lua_filters_add(lua_State *L)
{
    lua_newtable(L);
    lua_newtable(L);
    script_add(L, argument_rows);
    lua_setmetatable(L, -2);
    lua_setfield(L, -2, "arg");
}
