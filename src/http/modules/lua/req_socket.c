/* ngx.req.socket: the body of a request as it comes, or the client's connection itself. */
#include "http/modules/lua/lua.h"
#include "http/request/body.h"
#include "http/request/wire.h"
#include "lua/sockets/sockets.h"

#define SOCKET_PHASES                                                                              \
    (SCRIPT_SERVER_REWRITE | SCRIPT_REWRITE | SCRIPT_ACCESS | SCRIPT_PRECONTENT | SCRIPT_CONTENT)
#define ROOM_SIZE 16384

/* ---- the body as a source; in the request's arena */

struct body_source {
    struct script_source source;
    struct request *request;
    char *room;     /* ROOM_SIZE bytes, of which */
    size_t at, end; /* start and end of the bytes in `room` that came and were not taken */
};

static struct body_source *source_of(struct script_source *source)
{
    return container_of(source, struct body_source, source);
}

static struct str body_input(struct script_source *source)
{
    const struct body_source *body = source_of(source);

    return (struct str){body->room + body->at, body->end - body->at};
}

static void body_consume(struct script_source *source, size_t count)
{
    source_of(source)->at += count;
}

static enum script_got body_more(struct script_source *source, size_t wanted, uint64_t timeout_ms)
{
    struct body_source *body = source_of(source);
    struct request *request = body->request;

    (void) wanted;
    if (request->incoming.is_read) {
        return SCRIPT_GOT_END;
    }
    request->incoming.timeout_ms = timeout_ms;
    request->incoming.is_late = false;
    ssize_t n = request_read_some(request, body->room, ROOM_SIZE);
    request->incoming.timeout_ms = 0;
    if (n > 0) {
        body->at = 0;
        body->end = (size_t) n;
        return SCRIPT_GOT_BYTES;
    }
    if (n == 0) {
        return SCRIPT_GOT_END;
    }
    if (request->incoming.is_late) {
        return SCRIPT_GOT_NOTHING;
    }
    if (fiber_is_cancelled()) {
        return SCRIPT_GOT_CANCELLED;
    }
    source->error = request->incoming.refusal == 413 ? "too large" : "client aborted";
    request->incoming.refusal = 0;
    return SCRIPT_GOT_FAILURE;
}

static int push_body(lua_State *L, struct script_thread *thread, struct http_lua_request *lua)
{
    struct request *request = lua->request;

    if (request->incoming.body != NULL || lua->body_source != NULL || lua->has_raw_socket) {
        return script_fail(L, "request body already exists");
    }
    if (lua->is_reading_body) {
        return script_fail(L, "pending request body reading in some other thread");
    }
    if (request->incoming.is_chunked && !request->wire->is_multiplexed) {
        return script_fail(L, "chunked request bodies not supported yet");
    }
    if (request->incoming.is_read || request_body_is_gone(request)) {
        return script_fail(L, "no body");
    }
    if (request_body_exceeds(request)) {
        http_lua_decide(L, thread, HANDLER_FAIL);
    }
    struct body_source *body = arena_new(&request->arena, struct body_source);
    body->source = (struct script_source){.input = body_input,
                                          .consume = body_consume,
                                          .more = body_more,
                                          .conn = connection_carrier(request->connection)};
    body->request = request;
    body->room = arena_text(&request->arena, ROOM_SIZE);
    lua->body_source = body;
    request->incoming.is_streamed = true; /* it may go on while the answer is given */
    if (request->incoming.expects_continue && request->response.progress == RESPONSE_NOT_SENT) {
        request->incoming.expects_continue = false;
        request->wire->send_interim(request, 100, NULL);
    }
    script_socket_push(L, thread, &(struct script_face){.source = &body->source});
    return 1;
}

/* ---- the connection itself */

struct raw_source {
    struct script_conn_source reads;
    struct http_lua_request *lua;
    enum script_got (*more)(struct script_source *source, size_t wanted,
                            uint64_t timeout_ms); /* of a conn */
};

/* As that of a conn; but a client that leaves is an abort, where the script wants to know. */
static enum script_got raw_more(struct script_source *source, size_t wanted, uint64_t timeout_ms)
{
    struct raw_source *raw = container_of(source, struct raw_source, reads.source);
    enum script_got got = raw->more(source, wanted, timeout_ms);

    if ((got == SCRIPT_GOT_END || got == SCRIPT_GOT_FAILURE) &&
        raw->lua->subject.settings->check_client_abort) {
        source->error = "client aborted";
        return SCRIPT_GOT_FAILURE;
    }
    return got;
}

static int push_raw(lua_State *L, struct script_thread *thread, struct http_lua_request *lua)
{
    struct request *request = lua->request;
    const struct script_settings *settings = lua->subject.settings;

    if (request->wire->bare == NULL) {
        return luaL_error(L, "http v2 not supported yet");
    }
    if (lua->has_raw_socket) {
        return script_fail(L, "duplicate call");
    }
    if (lua->is_reading_body || (lua->body_source != NULL && !request->incoming.is_read)) {
        return script_fail(L, "pending request body reading in some other thread");
    }
    if (lua->output.gathered.len != 0) {
        return script_fail(L, "http 1.0 buffering");
    }
    struct conn *conn = request->wire->bare(request);
    request_keep_head(request);
    if (connection_wait_sent(request->connection, settings->send_timeout_ms) != WAIT_READY) {
        return script_fail(L, "pending data to write");
    }
    struct raw_source *raw = arena_new(&request->arena, struct raw_source);
    script_conn_source_init(&raw->reads, conn, settings->buffer_size);
    raw->more = raw->reads.source.more;
    raw->reads.source.more = raw_more;
    raw->lua = lua;
    lua->has_raw_socket = true;
    request->keepalive = false;
    request->incoming.is_read = true;
    request->response.progress = RESPONSE_HEAD_SENT; /* the script gives its own */
    connection_send_at_once(request->connection);
    script_socket_push(L, thread,
                       &(struct script_face){.source = &raw->reads.source, .conn = conn});
    return 1;
}

static int req_socket(lua_State *L, struct script_thread *thread)
{
    if (lua_gettop(L) > 1) {
        return luaL_error(L, "expecting zero arguments, but got %d", lua_gettop(L));
    }
    script_demand(L, thread, SOCKET_PHASES);
    struct http_lua_request *lua = http_lua_check_request(L, thread);
    bool is_raw = lua_toboolean(L, 1);

    if (lua->request != lua->request->main) {
        return luaL_error(L, "attempt to read the request body in a subrequest");
    }
    return is_raw ? push_raw(L, thread, lua) : push_body(L, thread, lua);
}

static const struct script_row rows[] = {
    {"req.socket", req_socket, SOCKET_PHASES | SCRIPT_ARGUMENTS_FIRST, true},
    {0},
};

void http_lua_req_socket_add(lua_State *L)
{
    script_add(L, rows);
}
