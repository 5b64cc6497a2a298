/* PROPPATCH (RFC 4918, 9.2): clients set dead properties of files. */
#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/text.h"
#include "fiber/fiber.h"
#include "http/files/file.h"
#include "http/modules/content/dav_ext/dav_ext.h"
#include "http/modules/content/dav_ext/dead.h"
#include "http/request/request.h"
#include "http/routing/file_settings.h"
#include "server/generation.h"

#define LOCK_WAIT_MS 2000 /* how long to wait for another process that changes the same file */
#define LOCK_PAUSE_MS 5

/* One PROPPATCH. */
struct patch {
    struct vec changes; /* struct dead_change */
    int fd;             /* the open file or directory */
    unsigned status;    /* common status of all changes: 200, 507, 403 */
    bool is_protected;  /* some change is to a live property */
};

int dav_ext_open(struct request *request, struct str path)
{
    bool follows_links = request->location->files->disable_symlinks == SYMLINKS_ALLOWED;
    const char *slash = str_find_last_char(path, '/');
    struct str above = slash == NULL || slash == path.data ? STR("/") : str_from(path.data, slash);
    int directory =
        file_open_directory(request, (struct str){arena_cstr(&request->arena, above), above.len});

    if (directory == -1) {
        return -1;
    }
    int fd = openat(directory, slash == NULL ? path.data : slash + 1,
                    O_RDONLY | O_NONBLOCK | O_CLOEXEC | (follows_links ? 0 : O_NOFOLLOW));
    int error = errno;
    close(directory);
    errno = error;
    return fd;
}

static void close_file(void *arg)
{
    close(((struct patch *) arg)->fd);
}

/* Takes the flock that excludes other processes until it is unlocked; nothing waits while it is
 * held. MAY WAIT. */
static bool lock_file(int fd)
{
    uint64_t until = clock_now.now_ms + LOCK_WAIT_MS;

    while (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        if (errno != EWOULDBLOCK || clock_now.now_ms > until ||
            fiber_sleep(clock_now.now_ms + LOCK_PAUSE_MS) == WAIT_CANCELLED) {
            return false;
        }
    }
    return true;
}

/* Applies the changes to the dead properties of the file, all or none, and sets patch->status. */
static void store_changes(struct request *request, struct patch *patch)
{
    struct arena *arena = &request->arena;
    struct buf text = {0};
    struct vec properties;
    bool is_good = dead_load(patch->fd, &text);

    if (is_good) {
        dead_parse(arena, arena_dup(arena, buf_str(&text)), &properties);
        text.len = 0;
        vec_each(const struct dead_change, one, &patch->changes) {
            dead_apply(&properties, arena, one);
        }
        dead_write(&text, &properties);
        is_good = dead_store(patch->fd, buf_str(&text));
    }
    int error = errno;
    buf_free(&text);
    if (is_good) {
        return;
    }
    bool is_full = error == E2BIG || error == ENOSPC || error == EDQUOT || error == ERANGE;
    patch->status = is_full ? 507 : 403;
    counters_mine->limited += is_full;
    log_error(&request->log, error, "properties of \"%.*s\" cannot be kept", STR_ARG(request->uri));
}

/* ---- the response ---- */

static bool is_live(const struct xml_name *name)
{
    return str_is(name->space, "DAV:");
}

static const char *status_text(unsigned status)
{
    return status == 200   ? "200 OK"
           : status == 403 ? "403 Forbidden"
           : status == 424 ? "424 Failed Dependency"
                           : "507 Insufficient Storage";
}

/* Writes the changes that have this status, if any: those of live properties, or of dead ones. */
static void put_changes(struct buf *out, const struct patch *patch, bool live, unsigned status)
{
    bool has_begun = false;

    vec_each(const struct dead_change, one, &patch->changes) {
        if (is_live(&one->name) != live) {
            continue;
        }
        if (!has_begun) {
            buf_append(out, STR("<D:propstat>\n<D:prop>\n"));
            has_begun = true;
        }
        dead_put_name(out, &one->name);
    }
    if (has_begun) {
        buf_printf(out, "</D:prop>\n<D:status>HTTP/1.1 %s</D:status>\n%s</D:propstat>\n",
                   status_text(status),
                   live ? "<D:error><D:cannot-modify-protected-property/></D:error>\n" : "");
    }
}

static enum handler_result dav_ext_proppatch_answer(struct request *request,
                                                    const struct patch *patch)
{
    struct buf out = {0};

    buf_append(&out, STR("<?xml version=\"1.0\" encoding=\"utf-8\" ?>\n"
                         "<D:multistatus xmlns:D=\"DAV:\">\n<D:response>\n<D:href>"));
    put_xml(&out, escape_str(&request->arena, request->uri, ESCAPE_URI));
    buf_append(&out, STR("</D:href>\n"));
    put_changes(&out, patch, true, 403);
    put_changes(&out, patch, false, patch->is_protected ? 424 : patch->status);
    buf_append(&out, STR("</D:response>\n</D:multistatus>\n"));
    return dav_ext_answer(request, 207, &out);
}

/* ---- the request ---- */

/* Makes all changes, or none. MAY WAIT. */
static enum handler_result change_all(struct request *request, struct patch *patch)
{
    vec_each(const struct dead_change, one, &patch->changes) {
        patch->is_protected |= is_live(&one->name);
    }
    if (patch->is_protected) {
        return HANDLER_NEXT;
    }
    if (!lock_file(patch->fd)) {
        log_error(&request->log, 0, "\"%.*s\" is locked by another process", STR_ARG(request->uri));
        return request_fail(request, 503);
    }
    store_changes(request, patch);
    flock(patch->fd, LOCK_UN);
    return HANDLER_NEXT;
}

enum handler_result dav_proppatch(struct request *request)
{
    struct patch *patch = arena_new(&request->arena, struct patch);
    struct str body;
    struct str path;
    enum handler_result result = dav_ext_read_body(request, &body);

    if (result != HANDLER_NEXT) {
        return result;
    }
    if (!proppatch_parse(&request->arena, body, &patch->changes)) {
        log_error(&request->log, 0, "client sent an invalid PROPPATCH body");
        return request_fail(request, 400);
    }
    if (!dav_ext_path(request, &path)) {
        return HANDLER_FAIL;
    }
    patch->status = 200;
    patch->fd = dav_ext_open(request, path);
    if (patch->fd == -1) {
        int error = errno;
        bool is_missing = error == ENOENT || error == ENOTDIR;
        log_error(&request->log, error, "open() \"%.*s\" failed", STR_ARG(path));
        return request_fail(request, is_missing ? 404 : 403);
    }
    arena_on_free(&request->arena, close_file, patch);
    result = change_all(request, patch);
    return result == HANDLER_NEXT ? dav_ext_proppatch_answer(request, patch) : result;
}
