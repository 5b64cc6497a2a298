/* ngx.req.read_body and related functions: the body of a request, read, given and replaced. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "http/modules/lua/lua.h"
#include "http/request/body.h"
#include "http/routing/body_settings.h"
#include "lua/values/args.h"

#define READ_PHASES                                                                                \
    (SCRIPT_SERVER_REWRITE | SCRIPT_REWRITE | SCRIPT_ACCESS | SCRIPT_PRECONTENT | SCRIPT_CONTENT)
#define CHANGE_PHASES (READ_PHASES | SCRIPT_SET | SCRIPT_BALANCER)
#define LOOK_PHASES                                                                                \
    (READ_PHASES | SCRIPT_SET | SCRIPT_LOG | SCRIPT_HEADER_FILTER | SCRIPT_BODY_FILTER |           \
     SCRIPT_BALANCER)

static void check_count(lua_State *L, int least, int most, const char *words)
{
    int count = lua_gettop(L);

    if (count < least || count > most) {
        luaL_error(L, "expecting %s but seen %d", words, count);
    }
}

/* The request ends so, whatever other threads do. */
static _Noreturn void leave(lua_State *L, struct script_thread *thread, enum handler_result result)
{
    struct http_lua_request *lua = http_lua_check_request(L, thread);

    script_demand_leavable(L);
    lua->result = (struct http_lua_result){.kind = LUA_RESULT_DECIDED, .result = result};
    script_leave(thread, SCRIPT_LEFT);
}

static struct request_body *new_body(struct request *request)
{
    struct request_body *body = arena_new(&request->arena, struct request_body);

    body->fd = -1;
    return body;
}

/* ---- reading */

static int read_body(lua_State *L, struct script_thread *thread)
{
    struct http_lua_request *lua = http_lua_check_request(L, thread);

    check_count(L, 0, 0, "0 arguments");
    if (lua->is_reading_body) {
        return luaL_error(L, "the request body is being read by another thread");
    }
    lua->is_reading_body = true;
    enum handler_result result = request_read_body(lua->request);
    lua->is_reading_body = false;
    if (result != HANDLER_NEXT) {
        script_resumed(thread); /* one that was killed decides nothing */
        leave(L, thread, result);
    }
    return 0;
}

/* What has come is dropped now, and the rest when the answer has been given. */
static int discard_body(lua_State *L, struct script_thread *thread)
{
    struct request *request = http_lua_demand(L, thread, LOOK_PHASES);
    struct http_lua_request *lua = http_lua_check_request(L, thread);

    check_count(L, 0, 0, "0 arguments");
    if (request->incoming.is_read || (thread->phase & READ_PHASES) == 0) {
        return 0; /* a body that was read stays, and outside of these phases nothing is read any
                     more */
    }
    if (!lua->is_reading_body && !request_drop_arrived_body(request)) {
        leave(L, thread, HANDLER_FAIL);
    }
    request->incoming.is_taken = true;
    if (request->incoming.body != NULL) {
        request->incoming.body = new_body(request);
        request->incoming.is_lost = true;
    }
    return 0;
}

/* ---- what was read */

static int get_body_data(lua_State *L, struct script_thread *thread)
{
    const struct request_body *body = http_lua_demand(L, thread, LOOK_PHASES)->incoming.body;
    lua_Integer most = luaL_optinteger(L, 1, 0);

    if (body == NULL || body->fd != -1 || body->size == 0) {
        lua_pushnil(L);
        return 1;
    }
    script_push_str(L, most > 0 ? str_head(body->bytes, (size_t) most) : body->bytes);
    return 1;
}

static int get_body_file(lua_State *L, struct script_thread *thread)
{
    const struct request_body *body = http_lua_demand(L, thread, LOOK_PHASES)->incoming.body;

    check_count(L, 0, 0, "0 arguments");
    if (body == NULL || body->fd == -1) {
        lua_pushnil(L);
        return 1;
    }
    script_push_str(L, body->file_name);
    return 1;
}

static int get_post_args(lua_State *L, struct script_thread *thread)
{
    const struct request_body *body = http_lua_demand(L, thread, LOOK_PHASES)->incoming.body;

    check_count(L, 0, 1, "0 or 1 arguments");
    unsigned max = script_args_max(L, 1);
    if (body == NULL) {
        return luaL_error(L,
                          "no request body found; maybe you should turn on lua_need_request_body?");
    }
    if (body->fd != -1) {
        return script_fail(L, "request body in temp file not supported");
    }
    lua_newtable(L);
    return script_args_give(L, body->bytes, max);
}

/* ---- replacing it */

/* The request, whose body was read and may be replaced. */
static struct request *check_read(lua_State *L, struct script_thread *thread)
{
    struct request *request = http_lua_demand(L, thread, LOOK_PHASES);

    if (request->incoming.body == NULL && http_lua_request_of(request)->body_source == NULL) {
        luaL_error(L, "request body not read yet");
    }
    script_demand(L, thread, CHANGE_PHASES);
    return request;
}

/* The file that goes with the body which a script gave, once another one takes its place or the
 * request is gone. */
static void remove_file(void *arg)
{
    struct http_lua_request *lua = arg;

    if (lua->file_to_remove != NULL) {
        unlink(lua->file_to_remove);
        lua->file_to_remove = NULL;
    }
}

static int set_body_data(lua_State *L, struct script_thread *thread)
{
    http_lua_demand(L, thread, LOOK_PHASES);
    check_count(L, 1, 1, "1 arguments");
    struct str text = script_check_str(L, 1);
    struct request *request = check_read(L, thread);
    struct request_body *body = new_body(request);
    remove_file(http_lua_check_request(L, thread));
    arena_allow(&request->arena, text.len);
    body->bytes = arena_dup(&request->arena, text);
    body->size = text.len;
    request->incoming.is_lost = false;
    request_give_body(request, body);
    return 0;
}

static int set_body_file(lua_State *L, struct script_thread *thread)
{
    http_lua_demand(L, thread, LOOK_PHASES);
    struct http_lua_request *lua = http_lua_check_request(L, thread);

    check_count(L, 1, 2, "1 or 2 arguments");
    struct str name = script_check_str(L, 1);
    struct request *request = check_read(L, thread);
    struct request_body *body = new_body(request);
    if (lua_gettop(L) == 2) {
        luaL_checktype(L, 2, LUA_TBOOLEAN);
    }
    char *path = arena_cstr(&request->main->arena, name);
    if (!request_body_from_file(request, (struct str){path, name.len}, body)) {
        return luaL_error(L, "stat() \"%s\" failed", path);
    }
    remove_file(lua);
    if (lua_gettop(L) == 2 && lua_toboolean(L, 2)) {
        lua->file_to_remove = path;
        arena_on_free(&request->arena, remove_file, lua);
    }
    request->incoming.is_lost = false;
    request_give_body(request, body);
    return 0;
}

/* ---- writing one */

static int init_body(lua_State *L, struct script_thread *thread)
{
    struct http_lua_request *lua = http_lua_check_request(L, thread);

    check_count(L, 0, 1, "0 or 1 argument");
    struct request *request = check_read(L, thread);
    uint64_t size = request->location->bodies->client_body_buffer_size;

    if (lua_gettop(L) == 1) {
        lua_Integer wanted = luaL_checkinteger(L, 1);
        if (wanted < 0 || wanted > INT32_MAX) {
            return luaL_error(L, "bad size argument: %d", (int) wanted);
        }
        size = (uint64_t) wanted;
    }
    lua->writer = arena_new(&request->arena, struct body_writer);
    body_writer_begin(request, size == 0 ? 1 : (size_t) size, lua->writer);
    request->incoming.is_lost = false;
    request->incoming.body = lua->writer->body;
    return 0;
}

static struct body_writer *check_writer(lua_State *L, struct script_thread *thread)
{
    struct request *request = http_lua_demand(L, thread, LOOK_PHASES);
    struct http_lua_request *lua = http_lua_check_request(L, thread);

    if (lua->writer == NULL || lua->writer->body != request->incoming.body) {
        luaL_error(L, "request_body not initialized");
    }
    script_demand(L, thread, CHANGE_PHASES);
    return lua->writer;
}

static int append_body(lua_State *L, struct script_thread *thread)
{
    check_count(L, 1, 1, "1 arguments");
    struct str text = script_check_str(L, 1);
    struct body_writer *writer = check_writer(L, thread);

    return body_writer_add(writer, text) ? 0 : luaL_error(L, "fail to write file");
}

static int finish_body(lua_State *L, struct script_thread *thread)
{
    check_count(L, 0, 0, "0 argument");
    struct body_writer *writer = check_writer(L, thread);

    if (!body_writer_flush(writer)) {
        return luaL_error(L, "fail to write file");
    }
    request_give_body(writer->request, writer->body);
    return 0;
}

static const struct script_row rows[] = {
    {"req.read_body", read_body, READ_PHASES, .waits = true},
    {"req.discard_body", discard_body, 0, .waits = true},
    {"req.get_body_data", get_body_data, 0, false},
    {"req.get_body_file", get_body_file, 0, false},
    {"req.get_post_args", get_post_args, 0, false},
    {"req.set_body_data", set_body_data, 0, false},
    {"req.set_body_file", set_body_file, 0, false},
    {"req.init_body", init_body, 0, false},
    {"req.append_body", append_body, 0, false},
    {"req.finish_body", finish_body, 0, false},
    {0},
};

void http_lua_req_body_add(lua_State *L)
{
    script_add(L, rows);
}
