/* ngx.socket, and the tables of functions that sockets have. */
#include <string.h>

#include "lua/sockets/pool.h"
#include "lua/sockets/socket.h"
#include "lua/vm/library.h"

/* The metatable of sockets that connect, and of those over somebody else's connection, which may be
 * sent to or not. It has the functions itself: scripts walk over them there, and wrap them. */
static void push_metatable(lua_State *L, bool is_borrowed, bool is_sending)
{
    const char *name = !is_borrowed ? "script tcp" : is_sending ? "script raw" : "script body";

    if (!luaL_newmetatable(L, name)) {
        return;
    }
    lua_pushvalue(L, -1);
    lua_setfield(L, -2, "__index");
    script_add(L, socket_read_rows);
    script_add(L, socket_option_rows);
    if (is_sending) {
        script_add(L, socket_send_rows);
        if (script_vm_is_stream(script_vm_of(L))) {
            script_add(L, socket_shutdown_rows);
        }
    }
    if (!is_borrowed) {
        script_add(L, socket_connect_rows);
        script_add(L, socket_keep_rows);
        socket_tls_add(L);
    }
}

static int tcp(lua_State *L, struct script_thread *thread)
{
    if (lua_gettop(L) != 0) {
        return luaL_error(L, "expecting zero arguments, but got %d", lua_gettop(L));
    }
    script_demand(L, thread, SCRIPT_WAITING);
    lua_createtable(L, 6, 0);
    push_metatable(L, false, true);
    lua_setmetatable(L, -2);
    return 1;
}

/* tcp(), connected: the arguments are connect's. */
static const char connect_text[] = "local tcp = ...\n"
                                   "return function(...)\n"
                                   "    local socket = tcp()\n"
                                   "    local ok, reason = socket:connect(...)\n"
                                   "    if ok then return socket end\n"
                                   "    return nil, reason\n"
                                   "end\n";

static const struct script_row tcp_row = {"tcp", tcp, SCRIPT_WAITING | SCRIPT_ARGUMENTS_FIRST,
                                          false};

void script_socket_push(lua_State *L, struct script_thread *thread, const struct script_face *face)
{
    lua_createtable(L, 6, 0);
    struct script_socket *socket = socket_new(L);

    socket->is_borrowed = true;
    socket->stage = SOCKET_OPEN;
    socket->source = face->source;
    socket->conn = face->conn;
    socket_join(socket, thread->subject);
    lua_rawseti(L, -2, SOCKET_STATE);
    push_metatable(L, true, face->conn != NULL);
    lua_setmetatable(L, -2);
}

void script_sockets_add(lua_State *L)
{
    lua_newtable(L);
    script_push_function(L, &tcp_row);
    lua_pushvalue(L, -1);
    lua_setfield(L, -3, "tcp");
    lua_pushvalue(L, -1);
    lua_setfield(L, -3, "stream");
    script_text_load(L, "ngx.socket.connect", str_of(connect_text));
    lua_insert(L, -2);
    lua_call(L, 1, 1);
    lua_setfield(L, -2, "connect");
    script_udp_add(L);
    lua_setfield(L, -2, "socket");
    pools_begin(L);
}
