/* Fuzz target: ngx.req.set_uri. It refuses what it says it refuses and nothing else; what it takes
 * is the request's URI, byte for byte; and that ends no request line, and is the same again when
 * whoever it goes on to reads it. */
#include <lauxlib.h>
#include <stdint.h>
#include <stdlib.h>

#include "http/exchange/heads/request_head.h"
#include "http/message/uri.h"
#include "http/modules/lua/lua.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool is_unsafe(struct str text)
{
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char) text.data[i];

        if ((c < ' ' && c != '\t') || c == 127) {
            return true;
        }
    }
    return false;
}

static int call(lua_State *L)
{
    const struct str *uri = lua_touserdata(L, 1);
    bool is_binary = lua_toboolean(L, 2);

    lua_newtable(L);
    http_lua_uri_add(L);
    lua_getfield(L, -1, "req");
    lua_getfield(L, -1, "set_uri");
    lua_pushlstring(L, uri->data, uri->len);
    lua_pushboolean(L, false);
    lua_pushboolean(L, is_binary);
    lua_call(L, 3, 0);
    return 0;
}

/* What goes on to a backend, which reads it as we read targets. */
static void check_target(struct request *request)
{
    struct str target = target_assembled(request, STR_NONE, 0);
    struct uri read;

    for (size_t i = 0; i < target.len; i++) {
        if ((unsigned char) target.data[i] <= ' ' || target.data[i] == 127) {
            abort();
        }
    }
    if (uri_normalise(&request->arena, target, false, &read) &&
        str_find(request->uri, STR("/.")) == NULL && !str_equal(read.path, request->uri)) {
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct request request = {0};
    struct http_lua_request lua = {.subject = {.kind = &http_lua_request_kind},
                                   .request = &request};
    lua_State *L = luaL_newstate();

    if (L == NULL || size == 0) {
        if (L != NULL) {
            lua_close(L);
        }
        return 0;
    }
    struct script_thread thread = {.state = L, .subject = &lua.subject, .phase = SCRIPT_REWRITE};
    struct str uri = {(const char *) data + 1, size - 1};
    bool is_binary = data[0] & 1;

    arena_init(&request.arena);
    fiber_word = &thread;
    lua_pushcfunction(L, call);
    lua_pushlightuserdata(L, &uri);
    lua_pushboolean(L, is_binary);
    bool was_taken = lua_pcall(L, 2, 0, 0) == 0;
    fiber_word = NULL;
    if (was_taken != (uri.len != 0 && (is_binary || !is_unsafe(uri)))) {
        abort();
    }
    if (was_taken) {
        if (!str_equal(request.uri, uri) || request.uri_state == URI_KEPT) {
            abort();
        }
        check_target(&request);
    }
    arena_free(&request.arena);
    lua_close(L);
    return 0;
}
