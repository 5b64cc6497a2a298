/* What FFI code of users asks of listening sockets. */
#include "base/str.h"
#include "lua/vm/thread.h"
#include "net/shards/listener.h"
#include "server/generation.h"

/* A text as nginx has it. */
struct name {
    size_t len;
    const unsigned char *data;
};

int ngx_lua_ffi_disable_listening_unix_socket(const struct name *name);

static bool is_path(const struct listener *listener, struct str path)
{
    struct str text = listener->text;

    if (str_starts(text, STR("unix:"))) {
        text = str_skip(text, strlen("unix:"));
    }
    return str_equal(text, path);
}

/*
 * In init_worker_by_lua: this process does not accept on the unix socket of that path (with or
 * without "unix:"), which others go on to do. 0: so it is; -1: there is no such socket, or the
 * process accepts already.
 */
int ngx_lua_ffi_disable_listening_unix_socket(const struct name *name)
{
    struct str path = {(const char *) name->data, name->len};
    int result = -1;

    if (!script_runs_in(SCRIPT_INIT_WORKER)) {
        return -1;
    }
    if (str_starts(path, STR("unix:"))) {
        path = str_skip(path, strlen("unix:"));
    }
    struct listener **place = &generation_now->listeners;
    while (*place != NULL) {
        if ((*place)->addr.any.sa_family == AF_UNIX && is_path(*place, path)) {
            *place = (*place)->next; /* the acceptors of this process are made afterwards */
            result = 0;
        } else {
            place = &(*place)->next;
        }
    }
    return result;
}
