/* receive, receiveany and receiveuntil. */
#include <errno.h>
#include <string.h>

#include "lua/sockets/socket.h"
#include "server/generation.h"

#define GATHERED_MOST (256u << 20) /* bytes that one receive holds */

/* ---- how a receive ends ---- */

/* Pushes what was received; gives how many. */
static int script_read_give(lua_State *L, struct script_socket *socket)
{
    lua_pushlstring(L, socket->gathered.data, socket->gathered.len);
    buf_free(&socket->gathered);
    return 1;
}

static int give_part(lua_State *L, struct script_socket *socket, const char *reason)
{
    lua_pushnil(L);
    lua_pushstring(L, reason);
    return 2 + script_read_give(L, socket);
}

static int fail_closed(lua_State *L, const struct script_thread *thread,
                       const struct script_socket *socket)
{
    struct socket_log words;

    socket_log_begin(thread, socket != NULL ? socket->name : NULL, &words);
    log_error(&words.log, 0,
              "attempt to receive data on a closed socket: u:" SOCKET_POINTER ", c:" SOCKET_POINTER
              ", ft:0 eof:%d",
              (uintptr_t) socket, socket != NULL ? (uintptr_t) socket->conn : 0,
              socket != NULL && socket->has_read_last);
    return script_fail(L, "closed");
}

static int fail_late(lua_State *L, const struct script_thread *thread, struct script_socket *socket)
{
    struct socket_log words;

    socket_log_begin(thread, socket->name, &words);
    log_error(&words.log, 0, "%slua tcp socket read timed out", socket_log_prefix(thread));
    return give_part(L, socket, "timeout");
}

static int fail_broken(lua_State *L, const struct script_thread *thread,
                       struct script_socket *socket)
{
    struct socket_log words;

    if (socket->conn != NULL && socket->conn->is_broken) {
        socket_log_begin(thread, socket->name, &words);
        /* Clients that leave are no errors of the server. */
        log_at(&words.log, socket->is_borrowed ? LOG_INFO : LOG_ERROR, socket->conn->error,
               "recv() failed");
    }
    socket->has_read_last = !socket->source->fails_again;
    return give_part(L, socket, socket->source->error);
}

static int fail_too_large(lua_State *L, const struct script_thread *thread,
                          struct script_socket *socket)
{
    counters_mine->limited++;
    log_error(thread->subject->log, 0, "lua tcp socket received more than %u bytes at once",
              GATHERED_MOST);
    socket->has_read_last = true;
    buf_free(&socket->gathered);
    return script_fail(L, "too much data");
}

/* ---- the way of the bytes ---- */

enum progress { PROGRESS_DONE, PROGRESS_PUSHED, PROGRESS_MORE, PROGRESS_TOO_LARGE };

/* receiveany gives what is left of a buffer of lua_socket_buffer_size bytes at most, however much
 * has arrived: where such buffers begin and end is counted here, whatever the connection reads at
 * once. */
static void buffer_begin(struct script_socket *socket, struct take *take, size_t available)
{
    if (socket->buffer_rest == 0) {
        socket->buffer_rest = available < socket->buffer_size ? available : socket->buffer_size;
    }
    if (take->kind == TAKE_ANY && take->rest > socket->buffer_rest) {
        take->rest = socket->buffer_rest;
    }
}

static void buffer_use(struct script_socket *socket, size_t used, size_t available)
{
    if (used <= socket->buffer_rest) {
        socket->buffer_rest -= used;
        return;
    }
    size_t last = (used - socket->buffer_rest) % socket->buffer_size;
    size_t left = available - used, rest = last != 0 ? socket->buffer_size - last : 0;
    socket->buffer_rest = rest < left ? rest : left;
}

/* Takes what there is. PROGRESS_PUSHED: all that is wanted lay there in one piece, and is on the
 * stack. */
static enum progress take_input(lua_State *L, struct script_socket *socket, struct take *take)
{
    struct script_source *source = socket->source;
    struct str input;

    while ((input = source->input(source)).len != 0) {
        buffer_begin(socket, take, input.len);
        struct taken taken = take_step(take, input);
        buffer_use(socket, taken.used, input.len);

        if (taken.is_done && socket->gathered.len == 0) {
            lua_pushlstring(L, taken.bytes.data, taken.bytes.len);
            source->consume(source, taken.used);
            return PROGRESS_PUSHED;
        }
        if (taken.bytes.len > GATHERED_MOST - socket->gathered.len) {
            return PROGRESS_TOO_LARGE;
        }
        buf_append(&socket->gathered, taken.bytes);
        source->consume(source, taken.used);
        if (taken.is_done) {
            return PROGRESS_DONE;
        }
    }
    return PROGRESS_MORE;
}

/* The end came before what was wanted. */
static int end_of_input(lua_State *L, struct script_socket *socket, const struct take *take)
{
    if (take->kind == TAKE_ALL) {
        return script_read_give(L, socket);
    }
    socket->has_read_last = true;
    return give_part(L, socket, "closed");
}

/* MAY WAIT. */
static int receive_taking(lua_State *L, struct script_thread *thread, struct script_socket *socket,
                          struct take *take)
{
    size_t hint = take->kind == TAKE_ALL    ? 65536
                  : take->kind == TAKE_SIZE ? (size_t) take->rest
                                            : 0;

    for (;;) {
        switch (take_input(L, socket, take)) {
        case PROGRESS_PUSHED:
            return 1;
        case PROGRESS_DONE:
            return script_read_give(L, socket);
        case PROGRESS_TOO_LARGE:
            return fail_too_large(L, thread, socket);
        case PROGRESS_MORE:
            break;
        }
        /* Another thread may have set it since. */
        uint64_t timeout_ms =
            socket_timeout(L, SOCKET_READ_TIMEOUT, socket_settings(thread)->read_timeout_ms);

        socket->is_reading = true;
        enum script_got got = socket->source->more(socket->source, hint, timeout_ms);
        socket->is_reading = false;
        switch (got) {
        case SCRIPT_GOT_BYTES:
            break;
        case SCRIPT_GOT_END:
            return end_of_input(L, socket, take);
        case SCRIPT_GOT_NOTHING:
            return fail_late(L, thread, socket);
        case SCRIPT_GOT_FAILURE:
            if (socket->has_sent_last) { /* sending has reported why */
                return end_of_input(L, socket, take);
            }
            return fail_broken(L, thread, socket);
        case SCRIPT_GOT_CANCELLED:
            socket_abandon(socket);
            return 0;
        }
    }
}

static bool is_closed(const struct script_socket *socket)
{
    return socket == NULL || (socket->source == NULL && socket->stage != SOCKET_CONNECTING) ||
           socket->has_read_last;
}

/* May the socket at index 1 be read? Else what is to be returned, pushed. */
static int check_readable(lua_State *L, const struct script_thread *thread,
                          const struct script_socket *socket)
{
    if (is_closed(socket)) {
        return fail_closed(L, thread, socket);
    }
    socket_demand_own(L, thread, socket);
    if (socket->stage == SOCKET_CONNECTING || socket_is_shaking(socket)) {
        return script_fail(L, "socket busy connecting");
    }
    return socket_is_read(socket) ? script_fail(L, "socket busy reading") : 0;
}

/* From one that check_readable has seen. MAY WAIT. */
static int receive_from(lua_State *L, struct script_thread *thread, struct script_socket *socket,
                        struct take *take)
{
    socket->is_touched = true;
    socket->buffer_size = socket_settings(thread)->buffer_size;
    socket->buffer_size += socket->buffer_size == 0;
    if (take->rest == 0 && take->kind == TAKE_SIZE) {
        lua_pushliteral(L, "");
        return 1;
    }
    socket_hold(L);
    return receive_taking(L, thread, socket, take);
}

/* ---- the functions ---- */

/* What receive's argument asks for; an error is thrown for nonsense. */
static struct take take_of(lua_State *L, int index)
{
    struct take take = {.kind = TAKE_LINE, .rest = TAKE_NO_LIMIT};

    if (lua_isnone(L, index)) {
        return take;
    }
    if (lua_type(L, index) == LUA_TSTRING && !lua_isnumber(L, index)) {
        const char *pattern = lua_tostring(L, index);

        if (strcmp(pattern, "*a") == 0) {
            take.kind = TAKE_ALL;
        } else if (strcmp(pattern, "*l") != 0) {
            bool is_letter = pattern[0] == '*' && strlen(pattern) == 2;

            luaL_argerror(L, index,
                          is_letter ? "bad pattern argument"
                                    : lua_pushfstring(L, "bad pattern argument: %s", pattern));
        }
        return take;
    }
    lua_Number size = lua_isnumber(L, index) ? lua_tonumber(L, index) : -1;
    if (!(size >= 0)) {
        luaL_argerror(L, index, "bad pattern argument");
    }
    take.kind = TAKE_SIZE;
    take.rest = size > 1e15 ? (uint64_t) 1e15 : (uint64_t) size;
    return take;
}

static int receive(lua_State *L, struct script_thread *thread)
{
    int count = lua_gettop(L);

    if (count != 1 && count != 2) {
        return luaL_error(L, "expecting 1 or 2 arguments (including the object), but got %d",
                          count);
    }
    luaL_checktype(L, 1, LUA_TTABLE);
    struct script_socket *socket = socket_check(L);
    int failed = check_readable(L, thread, socket);
    if (failed != 0) {
        return failed;
    }
    struct take take = take_of(L, 2);
    return receive_from(L, thread, socket, &take);
}

static int receiveany(lua_State *L, struct script_thread *thread)
{
    int count = lua_gettop(L);

    if (count != 2) {
        return luaL_error(L, "expecting 2 arguments (including the object), but got %d", count);
    }
    luaL_checktype(L, 1, LUA_TTABLE);
    struct script_socket *socket = socket_check(L);
    int failed = check_readable(L, thread, socket);
    if (failed != 0) {
        return failed;
    }
    lua_Number most = lua_tonumber(L, 2);
    if (!(most >= 1)) {
        return luaL_argerror(L, 2, "bad max argument");
    }
    struct take take = {.kind = TAKE_ANY, .rest = most > 1e15 ? (uint64_t) 1e15 : (uint64_t) most};
    return receive_from(L, thread, socket, &take);
}

/* What receiveuntil gives: its values are the socket's table and the delimiter. */
static int iterate(lua_State *L, struct script_thread *thread)
{
    struct delimiter *delimiter = lua_touserdata(L, script_value_index(2));
    struct take take = {.kind = TAKE_UNTIL, .rest = TAKE_NO_LIMIT, .delimiter = delimiter};

    if (lua_gettop(L) > 1) {
        return luaL_error(L, "expecting 0 or 1 arguments, but seen %d", lua_gettop(L));
    }
    if (!lua_isnone(L, 1)) {
        lua_Number size = luaL_checknumber(L, 1);

        take.rest = size >= 1 && size < 1e15 ? (uint64_t) size : TAKE_NO_LIMIT;
    }
    lua_settop(L, 0);
    lua_pushvalue(L, script_value_index(1));
    struct script_socket *socket = socket_check(L);
    if (is_closed(socket)) {
        return script_fail(L, "closed"); /* without a line: loops call it until it says so */
    }
    int failed = check_readable(L, thread, socket);
    if (failed != 0) {
        return failed;
    }
    if (delimiter->was_met) {
        delimiter->was_met = false;
        lua_settop(L, 0);
        lua_settop(L, 3);
        return 3;
    }
    if (delimiter->seen == delimiter->text.len) { /* is_apart */
        delimiter->seen = 0;
        delimiter->was_met = take.rest != TAKE_NO_LIMIT;
        lua_pushlstring(L, delimiter->text.data, delimiter->text.len);
        return 1;
    }
    return receive_from(L, thread, socket, &take);
}

static bool is_inclusive(lua_State *L, int index)
{
    if (lua_gettop(L) < index) {
        return false;
    }
    luaL_checktype(L, index, LUA_TTABLE);
    lua_getfield(L, index, "inclusive");
    if (!lua_isnil(L, -1) && !lua_isboolean(L, -1)) {
        luaL_error(L, "bad \"inclusive\" option value type: %s", luaL_typename(L, -1));
    }
    return lua_toboolean(L, -1);
}

static const struct script_row iterator_row = {"iterator", iterate, SCRIPT_WAITING, true};

static int receiveuntil(lua_State *L, struct script_thread *thread)
{
    int count = lua_gettop(L);

    (void) thread;
    if (count != 2 && count != 3) {
        return luaL_error(L, "expecting 2 or 3 arguments (including the object), but got %d",
                          count);
    }
    luaL_checktype(L, 1, LUA_TTABLE);
    struct str text = script_check_str(L, 2);
    if (text.len == 0) {
        return script_fail(L, "pattern is empty");
    }
    if (text.len > 65536) {
        return script_fail(L, "pattern is too long");
    }
    bool inclusive = is_inclusive(L, 3);
    lua_settop(L, 2);
    lua_insert(L, 1); /* the text below the table */

    size_t places = (text.len + 1) * sizeof(uint32_t);
    struct delimiter *delimiter = lua_newuserdata(L, sizeof(*delimiter) + places + text.len);
    uint32_t *shorter = (uint32_t *) (delimiter + 1);
    char *copy = (char *) shorter + places;

    memcpy(copy, text.data, text.len);
    delimiter_init(delimiter, (struct str){copy, text.len}, shorter);
    delimiter->is_included = inclusive;
    delimiter->is_apart = script_vm_is_stream(script_vm_of(L));
    script_push_closure(L, &iterator_row, 2);
    return 1;
}

const struct script_row socket_read_rows[] = {
    {"receive", receive, SCRIPT_WAITING, true},
    {"receiveany", receiveany, SCRIPT_WAITING, true},
    {"receiveuntil", receiveuntil, SCRIPT_WAITING, false},
    {0},
};
