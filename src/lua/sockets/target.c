/* Whom a socket is to reach. */
#include "lua/sockets/target.h"

#include <string.h>

#include "base/clock.h"
#include "lua/sockets/socket.h"
#include "net/resolver/resolver.h"

static const char *not_parsed(lua_State *L, struct str host, const char *why)
{
    lua_pushlstring(L, host.data, host.len);
    return lua_pushfstring(L, "failed to parse host name \"%s\": %s", lua_tostring(L, -1), why);
}

static const char *find_path(lua_State *L, struct str host, struct addr *out)
{
    struct str path = str_skip(host, strlen("unix:"));

    if (path.len == 0) {
        return not_parsed(L, host, "no path in the unix domain socket");
    }
    if (path.len >= sizeof(out->un.sun_path)) {
        return not_parsed(L, host, "too long path in the unix domain socket");
    }
    memset(out, 0, sizeof(*out));
    out->un.sun_family = AF_UNIX;
    memcpy(out->un.sun_path, path.data, path.len);
    out->len = sizeof(out->un);
    return NULL;
}

/* MAY WAIT. */
static const char *resolve(lua_State *L, struct script_thread *thread, struct str name,
                           struct addr *out)
{
    const struct script_settings *settings = socket_settings(thread);
    struct resolved resolved = {.count = 0};
    struct arena arena;
    const struct dns_lookup lookup = {
        .settings = settings->resolver,
        .name = name,
        .deadline_ms = clock_now.now_ms + settings->resolver_timeout_ms,
        .log = thread->subject->log,
        .arena = &arena,
    };

    lua_pushlstring(L, name.data, name.len);
    if (settings->resolver == NULL) {
        return lua_pushfstring(L, "no resolver defined to resolve \"%s\"", lua_tostring(L, -1));
    }
    arena_init(&arena);
    enum resolve_result result = resolver_addresses(&lookup, &resolved);
    if (result == RESOLVE_OK) {
        static unsigned turn;

        *out = resolved.items[turn++ % resolved.count].addr;
    }
    arena_free(&arena);
    if (result == RESOLVE_OK) {
        return NULL;
    }
    return lua_pushfstring(L, "%s could not be resolved (%s)", lua_tostring(L, -1),
                           resolve_result_text(result));
}

const char *socket_target_find(lua_State *L, struct script_thread *thread,
                               const struct socket_target *target, struct addr *out)
{
    uint16_t port = (uint16_t) target->port;
    struct str host = target->host;

    memset(out, 0, sizeof(*out));
    if (target->is_unix) {
        return find_path(L, host, out);
    }
    if (host.len == 0) {
        return not_parsed(L, host, "no host");
    }
    if (str_find_char(host, '/') != NULL || memchr(host.data, '\0', host.len) != NULL) {
        return not_parsed(L, host, "invalid host");
    }
    bool has_brackets = host.data[0] == '[';
    if (!addr_split_port(host, &host, &port) ||
        (!has_brackets && str_find_char(host, ':') != NULL)) {
        return not_parsed(L, target->host, "invalid port");
    }
    if (!addr_parse_ip(host, out)) {
        if (has_brackets) {
            return not_parsed(L, target->host, "invalid IPv6 address");
        }
        const char *reason = resolve(L, thread, host, out);
        if (reason != NULL) {
            return reason;
        }
    }
    addr_set_port(out, port);
    return NULL;
}
