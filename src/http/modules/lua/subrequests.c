/* ngx.location.capture and capture_multi: other locations' answers, as tables. */
#include "http/message/uri.h"
#include "http/modules/lua/ffi.h"
#include "http/modules/lua/lua.h"
#include "http/request/body.h"
#include "http/request/subrequest.h"
#include "http/variables/variables.h"
#include "lua/vm/context.h"

#define PHASES                                                                                     \
    (SCRIPT_SERVER_REWRITE | SCRIPT_REWRITE | SCRIPT_ACCESS | SCRIPT_PRECONTENT | SCRIPT_CONTENT)

/* A variable that is assigned before the subrequest begins. */
struct assignment {
    struct str name, value;
};

/* One subrequest; in the main request's arena. */
struct capture {
    struct subrequest sub;
    struct request *parent;
    struct vec assignments; /* struct assignment */
    bool copies_variables;  /* the values that the parent has now are its own then */
    lua_State *L;           /* that waits for it */
    int context;            /* place of its ngx.ctx on the stack of that, or 0 */
};

/* ---- options */

/* The option of this name, on top of the stack; false, and nothing: it is not said. */
static bool push_option(lua_State *L, int options, const char *name)
{
    lua_getfield(L, options, name);
    if (lua_isnil(L, -1)) {
        lua_pop(L, 1);
        return false;
    }
    return true;
}

/* A flag; an error is thrown for what is no boolean, where that is checked. */
static bool read_flag(lua_State *L, int options, const char *name, bool is_checked)
{
    bool is_on = false;

    if (push_option(L, options, name)) {
        if (is_checked && !lua_isboolean(L, -1)) {
            luaL_error(L, "Bad %s option value", name);
        }
        is_on = lua_toboolean(L, -1);
        lua_pop(L, 1);
    }
    return is_on;
}

static void read_args(lua_State *L, int options, struct capture *capture)
{
    struct arena *arena = &capture->parent->main->arena;

    if (!push_option(L, options, "args")) {
        return;
    }
    if (!lua_isstring(L, -1) && !lua_istable(L, -1)) {
        luaL_error(L, "Bad args option value");
    }
    if (lua_istable(L, -1)) {
        http_lua_push_args(L, lua_gettop(L));
        lua_remove(L, -2);
    }
    struct str more = arena_dup(arena, script_check_str(L, -1));
    const struct str parts[] = {capture->sub.args, STR("&"), more};
    if (more.len != 0) {
        capture->sub.args = capture->sub.args.len == 0 ? more : arena_join(arena, parts, 3);
    }
    lua_pop(L, 1);
}

static void read_method(lua_State *L, int options, struct capture *capture)
{
    if (!push_option(L, options, "method")) {
        return;
    }
    if (lua_type(L, -1) != LUA_TNUMBER) {
        luaL_error(L, "Bad http request method");
    }
    capture->sub.method = http_lua_method_name((int) lua_tointeger(L, -1));
    if (capture->sub.method.len == 0) {
        lua_Number number = lua_tonumber(L, -1);
        bool fits = number > -9e18 && number < 9e18;

        log_error(&capture->parent->log, 0, "unsupported HTTP method: %llu",
                  fits ? (unsigned long long) (long long) number : 1ull << 63);
        luaL_error(L, "failed to adjust the subrequest: -1");
    }
    lua_pop(L, 1);
}

static void read_body(lua_State *L, int options, struct capture *capture)
{
    struct arena *arena = &capture->parent->main->arena;

    if (push_option(L, options, "body")) {
        if (!lua_isstring(L, -1)) {
            luaL_error(L, "Bad http request body");
        }
        struct str text = script_check_str(L, -1);
        arena_allow(arena, text.len);
        capture->sub.given = arena_new(arena, struct request_body);
        capture->sub.given->bytes = arena_dup(arena, text);
        capture->sub.given->size = text.len;
        capture->sub.given->fd = -1;
        lua_pop(L, 1);
    }
    capture->sub.passes_body = read_flag(L, options, "always_forward_body", false) ||
                               str_is(capture->sub.method, "POST") ||
                               str_is(capture->sub.method, "PUT");
}

/* Is it a variable that may be assigned? */
static void check_variable(lua_State *L, const struct request *request, struct str name)
{
    const struct variable *variable = map_get_nocase(&request->env.set->by_name, name);

    if (variable == NULL || (variable->flags & VARIABLE_WEAK) != 0) {
        log_error(
            &request->log, 0,
            "variable \"%.*s\" cannot be assigned a value (maybe you forgot to define it first?) ",
            STR_ARG(name));
        luaL_error(L, "failed to adjust the subrequest: -1");
    }
    if ((variable->flags & VARIABLE_CHANGEABLE) == 0) {
        log_error(&request->log, 0, "variable \"%.*s\" not changeable", STR_ARG(name));
        luaL_error(L, "failed to adjust the subrequest: 500");
    }
}

static void read_assignments(lua_State *L, int options, struct capture *capture)
{
    struct arena *arena = &capture->parent->main->arena;

    if (!push_option(L, options, "vars")) {
        return;
    }
    if (!lua_istable(L, -1)) {
        luaL_error(L, "Bad vars option value");
    }
    for (lua_pushnil(L); lua_next(L, -2) != 0; lua_pop(L, 1)) {
        if (lua_type(L, -2) != LUA_TSTRING) {
            luaL_error(L, "attempt to use a non-string key in the \"vars\" option table");
        }
        if (!lua_isstring(L, -1)) {
            luaL_error(L, "attempt to use bad variable value type %s", luaL_typename(L, -1));
        }
        struct assignment *one = vec_add(&capture->assignments, arena, struct assignment);
        one->name = arena_dup(arena, script_check_str(L, -2));
        lua_pushvalue(L, -1);
        one->value = arena_dup(arena, script_check_str(L, -1));
        lua_pop(L, 1);
        check_variable(L, capture->parent, one->name);
    }
    lua_pop(L, 1);
}

static void read_options(lua_State *L, int options, struct capture *capture)
{
    read_args(L, options, capture);
    read_method(L, options, capture);
    read_body(L, options, capture);
    read_assignments(L, options, capture);
    capture->sub.own_variables = !read_flag(L, options, "share_all_vars", true);
    capture->copies_variables =
        read_flag(L, options, "copy_all_vars", true) && capture->sub.own_variables;
    if (push_option(L, options, "ctx")) {
        if (!lua_istable(L, -1)) {
            luaL_error(L, "Bad ctx option value type %s, expected a Lua table",
                       luaL_typename(L, -1));
        }
        capture->context = lua_gettop(L);
    }
}

/* ---- one of them */

/* Tables do not go from one VM to another (lua_code_cache off for the one and not for the other).
 */
static void give_context(const struct capture *capture, struct script_subject *subject)
{
    struct script_vm *vm = script_vm_of(capture->L);

    if (subject->vm == vm) {
        lua_pushvalue(capture->L, capture->context);
        lua_xmove(capture->L, vm->state, 1);
        script_context_set(vm->state, subject);
    }
}

/* Before it begins: its variables and its ngx.ctx. */
static void http_lua_subrequests_prepare(struct subrequest *sub)
{
    struct capture *capture = container_of(sub, struct capture, sub);
    const struct variable_env *from = &capture->parent->env;
    struct request *child = sub->request;

    child->response.is_error_page = true; /* the script sees a failure, error_page is not */
    if (capture->copies_variables && from->values != NULL) {
        size_t count = from->set->used.count;
        child->env.values = arena_array(child->env.arena, count, sizeof(struct variable_value));
        memcpy(child->env.values, from->values, count * sizeof(struct variable_value));
    }
    vec_each(const struct assignment, one, &capture->assignments) {
        http_lua_variable_set(child, one->name, one->value);
    }
    if (capture->context != 0) {
        give_context(capture, &http_lua_request_of(child)->subject);
    }
}

/* The path and the options from index `first` on; its ngx.ctx is left on the stack. `number` is
 * that of the subrequest, for messages. */
static struct capture *read_capture(lua_State *L, struct request *request, int first, int number)
{
    struct arena *arena = &request->main->arena;
    struct capture *capture = arena_new(arena, struct capture);
    struct str text = script_check_str(L, first);

    capture->parent = request;
    capture->L = L;
    capture->sub.output = SUBREQUEST_MEMORY;
    capture->sub.memory_max = http_lua_settings_of(request)->capture_max;
    capture->sub.method = STR("GET");
    capture->sub.own_variables = true;
    capture->sub.own_headers = true;
    capture->sub.prepare = http_lua_subrequests_prepare;
    if (text.len == 0 || !subrequest_aim(request, arena_dup(arena, text), &capture->sub)) {
        luaL_error(L, "unsafe uri in argument #1: %s", text.data);
    }
    if (lua_isnoneornil(L, first + 1)) {
        return capture;
    }
    if (!lua_istable(L, first + 1)) {
        luaL_error(L, "expecting table as the 2nd argument for subrequest %d, but got %s", number,
                   luaL_typename(L, first + 1));
    }
    read_options(L, first + 1, capture);
    return capture;
}

/* ---- results */

/* A field into the table on top; those that come again are a list. */
static void give_field(lua_State *L, struct str name, struct str value)
{
    script_push_str(L, name);
    lua_pushvalue(L, -1);
    lua_rawget(L, -3);
    if (lua_isnil(L, -1)) {
        lua_pop(L, 1);
        script_push_str(L, value);
        lua_rawset(L, -3);
        return;
    }
    if (!lua_istable(L, -1)) {
        lua_createtable(L, 4, 0);
        lua_insert(L, -2);
        lua_rawseti(L, -2, 1);
        lua_pushvalue(L, -2);
        lua_pushvalue(L, -2);
        lua_rawset(L, -5);
    }
    script_push_str(L, value);
    lua_rawseti(L, -2, (int) lua_objlen(L, -2) + 1);
    lua_pop(L, 2);
}

static void give_header(lua_State *L, struct request *child)
{
    static const struct {
        struct str variable, name;
    } made[] = {{STR_INIT("content_type"), STR_INIT("Content-Type")},
                {STR_INIT("content_length"), STR_INIT("Content-Length")},
                {STR_INIT("last_modified"), STR_INIT("Last-Modified")},
                {STR_INIT("location"), STR_INIT("Location")},
                {STR_INIT("etag"), STR_INIT("ETag")}};
    struct str value;

    lua_newtable(L);
    if (child->response.is_built_in && child->response.status != 304) {
        child->response.content_type =
            response_type_of(child, request_extension(child)); /* the page is not seen */
    }
    for (size_t i = 0; i < sizeof(made) / sizeof(made[0]); i++) {
        bool is_of_page = child->response.is_built_in && i == 1;
        bool is_empty =
            i == 1 && child->response.status == 204 && child->response.content_length == 0;
        if (is_of_page || (!is_empty && !response_made_field(child, made[i].variable, &value))) {
            continue;
        }
        if (i == 1) { /* a number, as in OpenResty */
            lua_pushnumber(L, (lua_Number) child->response.content_length);
            lua_setfield(L, -2, "Content-Length");
        } else {
            give_field(L, made[i].name, value);
        }
    }
    fields_each(field, &child->response.fields) {
        if (!field->is_removed) {
            give_field(L, field->name, field->value);
        }
    }
}

/* Has a handler of ours answered with a head alone? The reference calls that cut. */
static bool is_head_alone(struct request *child)
{
    const struct http_lua_request *lua = http_lua_request_begun(child);
    const struct response *response = &child->response;

    if (lua != NULL && lua->output.has_ended) {
        return lua->result.kind == LUA_RESULT_EXITED && lua->result.code == 204;
    }
    return child->exchange == NULL && (response->content_length == 0 || response->status == 204);
}

/* A page of the server's own for a failure is not the location's answer. */
static void give_result(lua_State *L, const struct capture *capture, enum handler_result result)
{
    struct request *child = capture->sub.request;
    const struct response *response = &child->response;
    bool has_page = response->is_built_in || response->is_header_only ||
                    (capture->sub.body.len == 0 && is_head_alone(child));

    lua_createtable(L, 0, 4);
    lua_pushinteger(L, response->status == 0 ? 500 : (lua_Integer) response->status);
    lua_setfield(L, -2, "status");
    script_push_str(L, response->is_built_in ? STR("") : capture->sub.body);
    lua_setfield(L, -2, "body");
    lua_pushboolean(L, has_page || capture->sub.is_cut || result == HANDLER_CUT ||
                           result == HANDLER_CLOSED);
    lua_setfield(L, -2, "truncated");
    give_header(L, child);
    lua_setfield(L, -2, "header");
}

/* ---- running */

static bool has_siblings(const struct script_thread *thread)
{
    const struct list *threads = &thread->subject->threads;

    return threads->next != threads->prev;
}

/*
 * Begins and waits for them all. True: all have run. The other threads of the request run before,
 * until each waits: with the reference, too, subrequests begin when no Lua can run. MAY WAIT.
 */
static bool run_all(struct script_thread *thread, struct capture **captures,
                    enum handler_result *flows, int count)
{
    struct request *request =
        container_of(thread->subject, struct http_lua_request, subject)->request;
    int begun = 0;

    thread->subrequests += (unsigned) count;
    if (has_siblings(thread)) {
        fiber_yield();
    }
    while (begun < count) {
        enum handler_result result = subrequest_begin(request, &captures[begun]->sub);
        if (result != HANDLER_DONE) {
            break;
        }
        begun++;
    }
    for (int i = 0; i < begun; i++) {
        flows[i] = subrequest_wait(&captures[i]->sub);
    }
    thread->subrequests -= (unsigned) count;
    return begun == count;
}

/* ngx.exit(444) and similar statuses, a filter of bodies that failed: not the answer alone is
 * dropped, but the client. */
static bool drops_all(struct request *child, enum handler_result result)
{
    unsigned status = child->response.status;

    if (child->response.is_broken) {
        return true;
    }
    return result == HANDLER_CUT && child->response.progress == RESPONSE_NOT_SENT &&
           (status == 444 || status == 499 || status == 408);
}

static int capture_all(lua_State *L, struct script_thread *thread, struct capture **captures,
                       int count)
{
    struct http_lua_request *lua = http_lua_check_request(L, thread);
    enum handler_result *flows = arena_array(&lua->request->arena, (size_t) count, sizeof(*flows));
    bool is_done = run_all(thread, captures, flows, count);

    script_resumed(thread);
    if (!is_done) {
        log_error(&lua->request->log, 0, "lua subrequests cycle while processing \"%.*s\"",
                  STR_ARG(lua->request->uri));
        return luaL_error(L, "failed to issue subrequest: -1");
    }
    luaL_checkstack(L, count + 8, "too many subrequests");
    for (int i = 0; i < count; i++) {
        if (drops_all(captures[i]->sub.request, flows[i])) {
            http_lua_decide(L, thread, HANDLER_CLOSED);
        }
    }
    for (int i = 0; i < count; i++) {
        give_result(L, captures[i], flows[i]);
    }
    return count;
}

static int capture(lua_State *L, struct script_thread *thread)
{
    struct capture *one;

    if (lua_gettop(L) != 1 && lua_gettop(L) != 2) {
        return luaL_error(L, "expecting one or two arguments");
    }
    if (lua_isnil(L, 1)) { /* as if it were the one query of capture_multi */
        return luaL_error(L, "query argument 0 expecting one or two arguments");
    }
    if (!lua_isstring(L, 1)) {
        return luaL_error(L, "bad argument #3 to '?' (string expected, got %s)",
                          luaL_typename(L, 1));
    }
    one = read_capture(L, http_lua_check_request(L, thread)->request, 1, 0);
    return capture_all(L, thread, &one, 1);
}

static int capture_multi(lua_State *L, struct script_thread *thread)
{
    struct request *request = http_lua_check_request(L, thread)->request;

    if (lua_gettop(L) != 1) {
        return luaL_error(L, "only one argument is expected, but got %d", lua_gettop(L));
    }
    luaL_checktype(L, 1, LUA_TTABLE);
    int count = (int) lua_objlen(L, 1);
    if (count == 0) {
        return luaL_error(L, "at least one subrequest should be specified");
    }
    struct capture **captures = arena_array(&request->arena, (size_t) count, sizeof(*captures));
    for (int i = 0; i < count; i++) {
        luaL_checkstack(L, 8, "too many subrequests");
        lua_rawgeti(L, 1, i + 1);
        if (lua_isnil(L, -1)) {
            return luaL_error(L, "only array-like tables are allowed");
        }
        if (!lua_istable(L, -1)) {
            return luaL_error(L, "the query argument %d is not a table, but a %s", i,
                              luaL_typename(L, -1));
        }
        int query = lua_gettop(L);
        if (lua_objlen(L, query) != 1 && lua_objlen(L, query) != 2) {
            return luaL_error(L, "query argument %d expecting one or two arguments", i);
        }
        lua_rawgeti(L, query, 1);
        lua_rawgeti(L, query, 2);
        captures[i] = read_capture(L, request, query + 1, i);
        if (captures[i]->context != 0) { /* stays, where the query was */
            lua_replace(L, query);
            captures[i]->context = query++;
        }
        lua_settop(L, query - 1);
    }
    return capture_all(L, thread, captures, count);
}

static const struct script_row rows[] = {
    {"location.capture", capture, PHASES, .waits = true},
    {"location.capture_multi", capture_multi, PHASES, .waits = true},
    {0},
};

void http_lua_subrequests_add(lua_State *L)
{
    script_add(L, rows);
}
