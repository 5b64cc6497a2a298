/* *_store: whole responses become files below root, or at the given path. */
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fs.h"
#include "http/exchange/cache/caching.h"
#include "http/files/access_mode.h"
#include "http/files/path.h"
#include "http/request/temp_file.h"

/* A file being written; in the request's arena. */
struct store {
    struct str path;      /* where it goes */
    struct str temporary; /* its name now; empty once it was moved */
    int fd;               /* -1 = writing failed */
};

static void store_drop(void *arg)
{
    struct store *store = arg;

    if (store->fd != -1) {
        close(store->fd);
    }
    if (store->temporary.len != 0) {
        unlink(store->temporary.data);
    }
}

static bool find_path(struct exchange *x, struct str *path)
{
    struct request *request = x->request;
    size_t root_length;

    if (x->settings->store_path != NULL) {
        *path = template_text(x->settings->store_path, &request->env);
        return path->len != 0;
    }
    return request_map_path(request, path, &root_length);
}

void store_begin(struct exchange *x)
{
    struct request *request = x->request;
    unsigned status = request->response.status;
    struct str path;

    if (x->response.status != 200 || !x->relay.is_buffered ||
        (request->method & METHOD_HEAD) != 0 || !find_path(x, &path) ||
        path.data[path.len - 1] == '/') {
        request->response.status = status;
        return;
    }
    struct store *store = arena_new(&request->arena, struct store);
    store->path = path;
    store->fd = temp_file_open(request, x->settings->temp_path, &store->temporary);
    if (store->fd == -1) {
        return;
    }
    arena_on_free(&request->arena, store_drop, store);
    x->cache.state->store = store;
    x->cache.is_kept = true;
}

void store_write(struct exchange *x, struct str bytes)
{
    struct store *store = x->cache.state->store;

    if (store->fd != -1 && !fs_write_all(store->fd, bytes)) {
        log_crit(&x->request->log, errno, "write() to \"%.*s\" failed", STR_ARG(store->temporary));
        close(store->fd);
        store->fd = -1;
    }
}

static bool set_properties(const struct exchange *x, const struct store *store)
{
    struct timespec times[2] = {{.tv_nsec = UTIME_NOW}, {.tv_nsec = UTIME_NOW}};

    if (x->request->response.last_modified != -1) {
        times[1] = (struct timespec){.tv_sec = x->request->response.last_modified};
    }
    return fchmod(store->fd, x->settings->store_access) == 0 && futimens(store->fd, times) == 0;
}

void store_end(struct exchange *x, bool is_whole)
{
    struct store *store = x->cache.state->store;

    if (is_whole && store->fd != -1 && set_properties(x, store) &&
        fs_move(store->temporary.data, store->path.data,
                access_mode_of_directory(x->settings->store_access))) {
        store->temporary = STR_NONE;
    } else if (is_whole) {
        log_crit(&x->request->log, errno, "rename() \"%.*s\" to \"%.*s\" failed",
                 STR_ARG(store->temporary), STR_ARG(store->path));
    }
    x->cache.state->store = NULL;
    x->cache.is_kept = false;
}
