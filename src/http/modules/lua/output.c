/* ngx.say, ngx.print and related functions: a response out of Lua. */
#include <stdlib.h>

#include "http/modules/lua/lua.h"
#include "http/request/body_filter.h"
#include "http/request/response.h"
#include "http/request/wire.h"
#include "http/routing/response_settings.h"
#include "lua/vm/said.h"

#define OUTPUT_PHASES                                                                              \
    (SCRIPT_SERVER_REWRITE | SCRIPT_REWRITE | SCRIPT_ACCESS | SCRIPT_PRECONTENT | SCRIPT_CONTENT)

#define SHORT_MAX 1024 /* bytes of a text that is put together on the stack */
#define REFERENCE_MIN                                                                              \
    (16 * 1024) /* bytes of a text from which it is cheaper to keep it than to copy it */
#define POSTPONE_USUAL 1460 /* bytes: postpone_output, unless it is said */
#define GATHER_MAX                                                                                 \
    (4u << 20) /* bytes that are gathered for a length; with more the response goes out without */

/* ---- turns: a piece waits for the client, and other threads of the request do not come between
 * ---- */

struct turn {
    struct list node;
    struct wait_point point;
};

static void pass_turn(struct http_lua_output *output)
{
    if (!output->is_busy && output->waiters.next != NULL && !list_is_empty(&output->waiters)) {
        wait_signal_later(&container_of(output->waiters.next, struct turn, node)->point);
    }
}

/* False: the thread was asked to end meanwhile. MAY WAIT. */
static bool take_turn(struct http_lua_output *output)
{
    while (output->is_busy) {
        struct turn turn = {.point = {0}};

        if (output->waiters.next == NULL) {
            list_init(&output->waiters);
        }
        list_push_back(&output->waiters, &turn.node);
        enum wait_result result = fiber_wait(&turn.point, FIBER_NEVER);
        list_remove(&turn.node);
        if (result != WAIT_READY) {
            pass_turn(output);
            return false;
        }
    }
    output->is_busy = true;
    return true;
}

static void leave_turn(struct http_lua_output *output)
{
    output->is_busy = false;
    pass_turn(output);
}

/* ---- what goes out ---- */

/* A client of HTTP/1.0 gets the length of all that will be said. */
static bool gathers(const struct http_lua_request *lua)
{
    const struct request *request = lua->request;

    return request->head.version < HTTP_1_1 && request->method != METHOD_HEAD &&
           request->response.content_length < 0 && !lua->output.has_begun &&
           !lua->output.has_ended && http_lua_settings_of(request)->gathers_http10;
}

bool http_lua_has_output(const struct http_lua_request *lua)
{
    return lua->request->response.progress != RESPONSE_NOT_SENT || lua->output.gathered.len != 0;
}

void http_lua_reset_output(struct http_lua_request *lua)
{
    lua->output.has_begun = false;
    lua->output.has_ended = false;
    buf_free(&lua->output.gathered);
}

/* A postpone_output below the usual one wants things to leave as they come. False: the client is
 * gone. */
static bool leave_early(struct request *request)
{
    const struct http_wire *wire = request->main->wire;

    if (request->location->responses->postpone_output < POSTPONE_USUAL &&
        wire->backlog(request->main, 0) >= request->location->responses->postpone_output) {
        request_flush(request);
    }
    return !request_has_lost_client(request);
}

/* Gives the head, if that was not done yet. HANDLER_NEXT: a body may follow. */
static enum handler_result send_head(struct http_lua_request *lua)
{
    struct request *request = lua->request;
    struct response *response = &request->response;
    struct http_lua_output *output = &lua->output;

    if (output->has_begun) {
        return output->head;
    }
    output->has_begun = true;
    if (response->progress != RESPONSE_NOT_SENT) { /* by somebody else */
        output->head = response->is_header_only ? HANDLER_DONE : HANDLER_NEXT;
        return output->head;
    }
    if (response->status == 0) {
        response->status = 200;
    }
    if (response->status == 304 || (response->status == 204 && request == request->main)) {
        response->content_type = STR_NONE;
    } else if (!lua->has_type && http_lua_settings_of(request)->has_default_type) {
        response_set_type(request);
    }
    request->incoming.is_streamed |=
        !request->incoming.is_read; /* scripts may read it after the head (req_socket.c) */
    output->head = response_start(request);
    leave_early(request);
    return output->head;
}

/* What is kept until a piece was sent: a value in the registry. */
struct kept_value {
    struct script_vm *vm;
    int reference;
};

static void release_kept(void *arg)
{
    struct kept_value *kept = arg;

    luaL_unref(kept->vm->state, LUA_REGISTRYINDEX, kept->reference);
    free(kept);
}

/* A text that the value on top of the stack keeps, as a piece; a long one is not copied. */
static struct body_piece make_piece(lua_State *L, struct http_lua_request *lua, struct str text)
{
    struct body_piece piece = {.bytes = text, .fd = -1, .is_volatile = true};
    struct kept_value *kept;

    if (text.len < REFERENCE_MIN || lua->subject.vm->is_private ||
        (kept = malloc(sizeof(*kept))) == NULL) {
        return piece;
    }
    lua_pushvalue(L, -1);
    kept->vm = lua->subject.vm;
    kept->reference = luaL_ref(L, LUA_REGISTRYINDEX);
    piece.is_volatile = false;
    piece.release = release_kept;
    piece.release_arg = kept;
    return piece;
}

/* Head and piece. NULL, or what to say to the script. MAY WAIT. */
static const char *http_lua_output_give(struct http_lua_request *lua,
                                        const struct body_piece *piece)
{
    if (!take_turn(&lua->output)) {
        response_drop(piece);
        return "aborted";
    }
    bool is_first = !lua->output.has_begun;
    enum handler_result result = send_head(lua);
    const char *failure = NULL;

    if (result == HANDLER_DONE && !lua->is_refused) {
        response_drop(piece);
        failure = is_first ? NULL : "header only";
    } else if (result != HANDLER_NEXT) {
        response_drop(piece);
        failure = "nginx output filter error";
    } else if (piece->bytes.len == 0 && !piece->is_flush) {
        response_drop(piece);
    } else if (!response_send(lua->request, piece, false) || !leave_early(lua->request)) {
        failure = "nginx output filter error";
    }
    leave_turn(&lua->output);
    return failure;
}

/* Lets go what was gathered: with its length if that is all. */
static const char *give_gathered(struct http_lua_request *lua, bool is_all)
{
    struct http_lua_output *output = &lua->output;
    struct body_piece piece = {.bytes = buf_str(&output->gathered), .fd = -1, .is_volatile = true};

    if (is_all && lua->request->response.content_length < 0) {
        lua->request->response.content_length = (int64_t) output->gathered.len;
    }
    const char *failure = http_lua_output_give(lua, &piece);
    buf_free(&output->gathered);
    return failure;
}

static const char *http_lua_output_gather(struct http_lua_request *lua, struct str text)
{
    buf_append(&lua->output.gathered, text);
    return lua->output.gathered.len > GATHER_MAX ? give_gathered(lua, false) : NULL;
}

enum handler_result http_lua_finish_output(struct http_lua_request *lua)
{
    struct http_lua_output *output = &lua->output;

    if (lua->has_raw_socket) {
        return HANDLER_CUT; /* the script has answered */
    }
    if (output->has_ended) {
        return HANDLER_DONE;
    }
    if (gathers(lua)) {
        output->has_ended = true;
        give_gathered(lua, true);
    }
    output->has_ended = true;
    if (!take_turn(output)) {
        return HANDLER_CLOSED;
    }
    enum handler_result result = send_head(lua);
    if (result == HANDLER_NEXT) {
        bool tells_length = lua->request->response.content_length >=
                            0; /* then it was a wrong one: what there is, goes */
        result = !response_send(lua->request, NULL, true)
                     ? (tells_length ? HANDLER_CUT : HANDLER_CLOSED)
                 : leave_early(lua->request) ? HANDLER_DONE
                                             : HANDLER_CLOSED;
    }
    leave_turn(output);
    return result;
}

/* ---- functions ---- */

static int http_lua_output_answer(lua_State *L, const char *failure)
{
    if (failure != NULL) {
        return script_fail(L, failure);
    }
    lua_pushinteger(L, 1);
    return 1;
}

static int give_said(lua_State *L, struct script_thread *thread, bool ends_line)
{
    struct http_lua_request *lua = http_lua_check_request(L, thread);
    char room[SHORT_MAX];
    struct str text = script_said_in(L, ends_line, room, sizeof(room));

    if (lua->has_raw_socket) {
        return script_fail(L, "raw request socket acquired");
    }
    if (lua->output.has_begun && lua->output.head == HANDLER_DONE && !lua->is_refused) {
        return script_fail(L, "header only");
    }
    if (lua->output.has_ended) {
        return script_fail(L, "seen eof");
    }
    if (gathers(lua)) {
        return http_lua_output_answer(L, http_lua_output_gather(lua, text));
    }
    struct body_piece piece = make_piece(L, lua, text);
    return http_lua_output_answer(L, http_lua_output_give(lua, &piece));
}

static int http_lua_output_say(lua_State *L, struct script_thread *thread)
{
    return give_said(L, thread, true);
}

static int print(lua_State *L, struct script_thread *thread)
{
    return give_said(L, thread, false);
}

/* Waits until the client has taken all. MAY WAIT. */
static const char *drain(struct http_lua_request *lua)
{
    struct request *request = lua->request;
    const char *failure = NULL;

    if (request->wire->drain == NULL) {
        return NULL;
    }
    if (!take_turn(&lua->output)) {
        return "aborted";
    }
    if (!request->wire->drain(request)) {
        failure = request->is_timed_out ? "timeout" : "nginx output filter error";
    }
    leave_turn(&lua->output);
    return failure;
}

static int http_lua_output_flush(lua_State *L, struct script_thread *thread)
{
    int count = lua_gettop(L);

    if (count > 1) {
        return luaL_error(L, "attempt to pass %d arguments, but accepted 0 or 1", count);
    }
    if (count == 1) {
        luaL_checktype(L, 1, LUA_TBOOLEAN);
    }
    script_demand(L, thread, OUTPUT_PHASES);
    struct http_lua_request *lua = http_lua_check_request(L, thread);
    struct http_lua_output *output = &lua->output;
    if (lua->has_raw_socket) {
        return script_fail(L, "raw request socket acquired");
    }
    if (output->has_begun && output->head == HANDLER_DONE) {
        return script_fail(L, "header only");
    }
    if (output->has_ended) {
        return script_fail(L, "seen eof");
    }
    if (output->gathered.len != 0) {
        return script_fail(L, "buffering");
    }
    if (!output->has_begun) {
        return script_fail(L, "nothing to flush");
    }
    struct body_piece piece = {.bytes = STR(""), .fd = -1, .is_flush = true};
    const char *failure = http_lua_output_give(lua, &piece);
    if (failure == NULL && lua_toboolean(L, 1)) {
        failure = drain(lua);
    }
    return http_lua_output_answer(L, failure);
}

static int eof(lua_State *L, struct script_thread *thread)
{
    if (lua_gettop(L) != 0) {
        return luaL_error(L, "no argument is expected");
    }
    script_demand(L, thread, OUTPUT_PHASES);
    struct http_lua_request *lua = http_lua_check_request(L, thread);
    if (lua->has_raw_socket) {
        return script_fail(L, "raw request socket acquired");
    }
    if (lua->output.has_ended || (lua->output.has_begun && lua->output.head == HANDLER_DONE)) {
        return script_fail(L, "seen eof");
    }
    return http_lua_output_answer(L, http_lua_finish_output(lua) == HANDLER_DONE
                                         ? NULL
                                         : "nginx output filter error");
}

static int send_headers(lua_State *L, struct script_thread *thread)
{
    struct http_lua_request *lua = http_lua_check_request(L, thread);

    if (lua->output.has_begun || lua->output.has_ended) {
        return http_lua_output_answer(L, NULL);
    }
    if (!take_turn(&lua->output)) {
        return http_lua_output_answer(L, "aborted");
    }
    enum handler_result result = send_head(lua);
    leave_turn(&lua->output);
    return http_lua_output_answer(L, result == HANDLER_NEXT ||
                                             (result == HANDLER_DONE && !lua->is_refused)
                                         ? NULL
                                         : "nginx output filter error");
}

static const struct script_row output_rows[] = {
    {"say", http_lua_output_say, OUTPUT_PHASES, .waits = true},
    {"print", print, OUTPUT_PHASES, .waits = true},
    {"flush", http_lua_output_flush, 0, .waits = true},
    {"eof", eof, 0, .waits = true},
    {"send_headers", send_headers, OUTPUT_PHASES, .waits = true},
    {0},
};

void http_lua_output_add(lua_State *L)
{
    script_add(L, output_rows);
}
