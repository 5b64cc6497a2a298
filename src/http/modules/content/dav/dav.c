/* ngx_http_dav_module: PUT, DELETE and MKCOL; COPY and MOVE are in transfer.c. */
#define _GNU_SOURCE
#include "http/modules/content/dav/dav.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/parse.h"
#include "base/text.h"
#include "http/files/access_mode.h"
#include "http/files/file.h"
#include "http/files/path.h"
#include "http/message/dav_fields.h"
#include "http/request/offload.h"
#include "http/request/body.h"
#include "http/request/temp_file.h"
#include "http/routing/body_settings.h"
#include "http/routing/hooks.h"
#include "server/module.h"

/* Directories may be large and disks slow, so all work on files is done on threads. */
static struct offload_shares dav_shares;
static const struct offload_pool dav_pool = {.name = STR_INIT("dav"),
                                             .waiting = "requests wait for their files",
                                             .threads = 4,
                                             .queue = 256,
                                             .shares = &dav_shares};

struct dav_settings {
    unsigned methods;         /* bits METHOD_PUT and others */
    unsigned access;          /* mode of new files */
    int64_t min_delete_depth; /* a path needs at least this many segments to be deleted */
    bool creates_full_path;   /* PUT creates missing directories */
};

static struct settings_key dav_key;

TYPED_SETTINGS(dav_settings_at, struct dav_settings, dav_key, struct http_location)

/* ---- what the methods share ---- */

static void close_directory(void *arg)
{
    close((int) (intptr_t) arg);
}

enum handler_result dav_target_open(struct request *request, struct dav_target *target,
                                    unsigned missing_status)
{
    struct arena *arena = &request->arena;
    size_t root_length;
    struct str path;

    if (!request_map_path(request, &path, &root_length)) {
        return HANDLER_FAIL;
    }
    while (path.len > 1 && path.data[path.len - 1] == '/') {
        target->is_collection = true;
        path.len--;
    }
    const char *slash = str_find_last_char(path, '/');
    if (slash == NULL || path.len == 1) {
        return dav_fail(request, EACCES, "open", path, missing_status);
    }
    struct str above = str_from(path.data, slash == path.data ? slash + 1 : slash);
    above = (struct str){arena_cstr(arena, above), above.len};
    target->path = (struct str){arena_cstr(arena, path), path.len};
    target->at.name = target->path.data + (slash - path.data) + 1;
    target->is_root = path.len <= root_length;
    target->at.directory = file_open_directory(request, above);
    if (target->at.directory == -1) {
        return dav_fail(request, errno, "open", above, missing_status);
    }
    arena_on_free(arena, close_directory, (void *) (intptr_t) target->at.directory);
    return HANDLER_NEXT;
}

enum handler_result dav_offload(struct request *request, void (*run)(void *arg), void *arg)
{
    return offload_result(request, offload_run(&dav_pool, request, run, arg));
}

enum handler_result dav_fail(struct request *request, int error, const char *call, struct str path,
                             unsigned missing_status)
{
    unsigned status;

    switch (error) {
    case ENOENT:
    case ENOTDIR:
    case ENAMETOOLONG:
        status = missing_status;
        break;
    case EACCES:
    case EPERM:
    case EROFS:
    case ELOOP:
        status = 403;
        break;
    case EEXIST:
    case EISDIR:
    case ENOTEMPTY:
        status = 409;
        break;
    case ENOSPC:
    case EDQUOT:
        status = 507;
        break;
    default:
        status = 500;
    }
    log_at(&request->log, status >= 500 ? LOG_CRIT : LOG_ERROR, error, "%s \"%.*s\" failed", call,
           STR_ARG(path));
    return request_fail(request, status);
}

bool dav_refuses_body(struct request *request, const char *methods)
{
    if (request->incoming.length <= 0 && !request->incoming.is_chunked) {
        return false;
    }
    log_error(&request->log, 0, "%s with body %s unsupported", methods,
              str_find(str_of(methods), STR(" and ")) == NULL ? "is" : "are");
    request_fail(request, 415);
    return true;
}

bool dav_check_depth(struct request *request, bool is_tree)
{
    enum dav_depth depth = dav_depth_of(&request->headers);

    if (depth == DEPTH_ABSENT || depth == DEPTH_INFINITY || (depth == DEPTH_0 && !is_tree)) {
        return true;
    }
    if (depth == DEPTH_INVALID) {
        struct str value = fields_find(&request->headers, STR("Depth"))->value;
        log_error(&request->log, 0, "client sent invalid \"Depth\" header: \"%.*s\"",
                  STR_ARG(value));
    } else {
        log_error(&request->log, 0, "\"Depth\" header must be %s",
                  is_tree ? "infinity" : "0 or infinity");
    }
    request_fail(request, 400);
    return false;
}

enum handler_result dav_answer(struct request *request, unsigned status, bool has_location)
{
    if (has_location) {
        request->response.location = escape_str(&request->arena, request->uri, ESCAPE_URI);
    }
    request->response.content_type = STR_NONE;
    return response_memory(request, status, STR_NONE, STR_NONE);
}

static bool ends_with_slash(struct str uri)
{
    return uri.len != 0 && uri.data[uri.len - 1] == '/';
}

/* ---- PUT ---- */

/* A file that is written under a temporary name and then renamed. In the request's arena. */
struct put {
    struct dav_target *target;
    struct str temporary; /* temporary name */
    int fd;               /* the open file */
    unsigned access;      /* final mode */
    time_t mtime;         /* final mtime; -1 = now */
    bool has_replaced;    /* the rename replaced a file */
    int error;            /* errno of the call that failed; 0 = none */
    const char *failed;   /* name of the call that failed */
};

/* The new file keeps the extended attributes (dead properties) of the file that it replaces. */
static void keep_attributes(struct fs_location former, int fd)
{
    int old = openat(former.directory, former.name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

    if (old != -1) {
        fs_copy_attributes(old, fd);
        close(old);
    }
}

static bool put_now(struct put *put)
{
    struct fs_location to = put->target->at;
    struct timespec times[2] = {{.tv_nsec = UTIME_NOW}, {.tv_nsec = UTIME_NOW}};
    struct stat info;

    if (put->mtime != -1) {
        times[1] = (struct timespec){.tv_sec = put->mtime};
    }
    put->has_replaced = fstatat(to.directory, to.name, &info, AT_SYMLINK_NOFOLLOW) == 0;
    if (put->has_replaced && S_ISREG(info.st_mode)) {
        keep_attributes(to, put->fd);
    }
    put->failed = "fchmod()";
    if (fchmod(put->fd, put->access) != 0) {
        return false;
    }
    put->failed = "futimens()";
    if (futimens(put->fd, times) != 0) {
        return false;
    }
    put->failed = "rename() to";
    if (renameat(AT_FDCWD, put->temporary.data, to.directory, to.name) == 0) {
        return true;
    }
    put->failed = "copy to";
    return errno == EXDEV && lseek(put->fd, 0, SEEK_SET) == 0 && fs_copy_open(put->fd, to) &&
           unlink(put->temporary.data) == 0;
}

static void put_on_thread(void *arg)
{
    struct put *put = arg;

    put->error = put_now(put) ? 0 : errno;
}

static void drop_file(void *arg)
{
    struct put *put = arg;

    close(put->fd);
    if (put->temporary.len != 0) {
        unlink(put->temporary.data);
    }
}

/* Writes a body that is in memory to a temporary file. */
static enum handler_result body_to_file(struct request *request, struct put *put)
{
    put->fd =
        temp_file_open(request, request->location->bodies->client_body_temp_path, &put->temporary);
    if (put->fd == -1) {
        return request_fail(request, 500);
    }
    arena_on_free(&request->arena, drop_file, put);
    if (!fs_write_all(put->fd, request->incoming.body->bytes)) {
        return dav_fail(request, errno, "write()", put->temporary, 500);
    }
    return HANDLER_NEXT;
}

/* Opens the root of the location and creates it if it does not exist, since its name comes from the
 * configuration. -1: errno is set. */
static int open_root(struct request *request, struct str name, unsigned mode)
{
    struct str root = {arena_cstr(&request->arena, name), name.len};
    int fd = file_open_directory(request, root);

    if (fd != -1 || errno != ENOENT) {
        return fd;
    }
    int top = open(*root.data == '/' ? "/" : ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    bool is_made = top != -1 &&
                   fs_make_parents(top, arena_printf(&request->arena, "%.*s/", STR_ARG(root)).data,
                                   mode, dav_follows_links(request));
    if (top != -1) {
        close(top);
    }
    return is_made ? file_open_directory(request, root) : -1;
}

/* Creates the missing directories above the file. */
static bool make_parents(struct request *request)
{
    unsigned mode = access_mode_of_directory(dav_settings_at(request->location)->access);
    size_t root_length;
    struct str path;

    if (!request_map_path(request, &path, &root_length) || root_length == 0) {
        return false;
    }
    int root = open_root(request, str_head(path, root_length), mode);
    if (root == -1) {
        return false;
    }
    bool is_good = fs_make_parents(root, path.data + root_length, mode, dav_follows_links(request));
    close(root);
    return is_good;
}

/* Is the directory above the file missing? */
static bool lacks_parents(struct request *request)
{
    size_t root_length;
    struct str path;

    if (!request_map_path(request, &path, &root_length)) {
        return false;
    }
    const char *slash = str_find_last_char(path, '/');
    struct str above = slash == NULL || slash == path.data ? STR("/") : str_from(path.data, slash);
    int directory =
        file_open_directory(request, (struct str){arena_cstr(&request->arena, above), above.len});
    int error = errno;
    if (directory != -1) {
        close(directory);
    }
    return directory == -1 && error == ENOENT;
}

/* Finds the location of the new file before the body is read, so that a client does not send a body
 * that will be refused. */
static enum handler_result find_target(struct request *request, struct dav_target *target)
{
    struct stat info;

    if (dav_settings_at(request->location)->creates_full_path) {
        make_parents(request); /* a directory that is still missing is reported below */
    }
    enum handler_result result = dav_target_open(request, target, 409);
    if (result != HANDLER_NEXT) {
        return result;
    }
    if (fstatat(target->at.directory, target->at.name, &info, AT_SYMLINK_NOFOLLOW) == 0 &&
        S_ISDIR(info.st_mode)) {
        log_error(&request->log, EISDIR, "\"%.*s\" could not be created", STR_ARG(target->path));
        return request_fail(request, 409);
    }
    return HANDLER_NEXT;
}

static enum handler_result put_body(struct request *request, struct dav_target *target)
{
    const struct field *date = fields_find(&request->headers, STR("Date"));
    struct put *put = arena_new(&request->arena, struct put);

    enum handler_result result = request_read_body(request);
    if (result != HANDLER_NEXT) {
        return result;
    }
    if (request->incoming.is_lost) {
        log_error(&request->log, 0, "PUT request body must be in a file");
        return request_fail(request, 500);
    }
    put->target = target;
    put->access = dav_settings_at(request->location)->access;
    put->mtime = date == NULL ? -1 : http_date_parse(date->value);
    put->fd = request->incoming.body->fd;
    put->temporary = request->incoming.body->file_name;
    if (put->fd == -1) {
        result = body_to_file(request, put);
    }
    result = result != HANDLER_NEXT ? result : dav_offload(request, put_on_thread, put);
    if (result != HANDLER_NEXT) {
        return result;
    }
    if (put->error != 0) {
        return dav_fail(request, put->error, put->failed, target->path, 409);
    }
    put->temporary = STR_NONE;
    if (request->incoming.body->fd != -1) {
        request_body_keep_file(request);
    }
    return dav_answer(request, put->has_replaced ? 204 : 201, !put->has_replaced);
}

static enum handler_result dav_put(struct request *request)
{
    struct dav_target *target = arena_new(&request->arena, struct dav_target);

    if (ends_with_slash(request->uri)) {
        log_error(&request->log, 0, "cannot PUT to a collection");
        return request_fail(request, 409);
    }
    if (fields_find(&request->headers, STR("Content-Range")) != NULL) {
        log_error(&request->log, 0, "PUT with range is unsupported");
        return request_fail(request, 501);
    }
    enum handler_result result = HANDLER_NEXT;
    if (dav_settings_at(request->location)->creates_full_path && lacks_parents(request)) {
        result = request_read_body(
            request); /* directories are created only after the whole body has arrived */
    }
    result = result == HANDLER_NEXT ? find_target(request, target) : result;
    return result == HANDLER_NEXT ? put_body(request, target) : result;
}

/* ---- DELETE ---- */

/* In the request's arena. */
struct removal {
    struct dav_target target;
    int error; /* errno; 0 = removed */
};

static void remove_on_thread(void *arg)
{
    struct removal *removal = arg;

    removal->error = fs_remove_tree(removal->target.at) ? 0 : errno;
}

/* Has the path enough segments (min_delete_depth)? */
static bool is_deep_enough(struct request *request)
{
    int64_t wanted = dav_settings_at(request->location)->min_delete_depth;
    int64_t slashes = 0;

    for (size_t i = 0; i < request->uri.len; i++) {
        slashes += request->uri.data[i] == '/';
    }
    if (slashes - (ends_with_slash(request->uri) ? 1 : 0) >= wanted) {
        return true;
    }
    log_error(&request->log, 0, "insufficient URI depth:%lld to DELETE", (long long) slashes);
    request_fail(request, 409);
    return false;
}

/* Does the trailing slash of the URI match the kind of the file: with one for a directory, without
 * for others? */
static enum handler_result check_kind(struct request *request, const struct dav_target *target)
{
    struct stat info;

    if (fstatat(target->at.directory, target->at.name, &info, AT_SYMLINK_NOFOLLOW) != 0) {
        return dav_fail(request, errno, "lstat()", target->path, 404);
    }
    if (target->is_collection && !S_ISDIR(info.st_mode) && !S_ISLNK(info.st_mode)) {
        return dav_fail(request, ENOTDIR, "lstat()", target->path, 409);
    }
    if (!target->is_collection && S_ISDIR(info.st_mode)) {
        return dav_fail(request, EISDIR, "DELETE", target->path, 409);
    }
    return dav_check_depth(request, S_ISDIR(info.st_mode)) ? HANDLER_NEXT : HANDLER_FAIL;
}

static enum handler_result dav_delete(struct request *request)
{
    struct removal *removal = arena_new(&request->arena, struct removal);

    if (dav_refuses_body(request, "DELETE") || !is_deep_enough(request)) {
        return HANDLER_FAIL;
    }
    enum handler_result result = dav_target_open(request, &removal->target, 404);
    if (result == HANDLER_NEXT && removal->target.is_root) {
        log_error(&request->log, 0, "\"%.*s\" is the root directory, which cannot be deleted",
                  STR_ARG(removal->target.path));
        return request_fail(request, 403);
    }
    result = result != HANDLER_NEXT ? result : check_kind(request, &removal->target);
    result = result != HANDLER_NEXT ? result : dav_offload(request, remove_on_thread, removal);
    if (result != HANDLER_NEXT) {
        return result;
    }
    return removal->error == 0
               ? dav_answer(request, 204, false)
               : dav_fail(request, removal->error, "unlink()", removal->target.path, 404);
}

/* ---- MKCOL ---- */

static enum handler_result dav_mkcol(struct request *request)
{
    struct dav_target target = {.is_root = false};

    if (dav_refuses_body(request, "MKCOL")) {
        return HANDLER_FAIL;
    }
    if (!ends_with_slash(request->uri)) {
        log_error(&request->log, 0, "MKCOL can create a collection only");
        return request_fail(request, 409);
    }
    enum handler_result result = dav_target_open(request, &target, 409);
    if (result != HANDLER_NEXT) {
        return result;
    }
    if (mkdirat(target.at.directory, target.at.name,
                access_mode_of_directory(dav_settings_at(request->location)->access)) == 0) {
        return dav_answer(request, 201, true);
    }
    if (errno == EEXIST) {
        log_error(&request->log, errno, "mkdir() \"%.*s\" failed", STR_ARG(target.path));
        return request_fail(request, 405);
    }
    return dav_fail(request, errno, "mkdir()", target.path, 409);
}

/* ---- all of them ---- */

static enum handler_result dav_handle(struct request *request)
{
    if ((request->method & dav_settings_at(request->location)->methods) == 0) {
        return HANDLER_NEXT;
    }
    switch (request->method) {
    case METHOD_PUT:
        return dav_put(request);
    case METHOD_DELETE:
        return dav_delete(request);
    case METHOD_MKCOL:
        return dav_mkcol(request);
    default:
        return dav_transfer(request);
    }
}

static bool access_apply(struct conf_scope *scope, const struct directive *row,
                         struct conf_node *node, void *settings)
{
    return access_mode_read(scope, node, &((struct dav_settings *) settings)->access);
}

/* clang-format off */
static const struct directive_word method_words[] = {
    {"off", 0},
    {"put", METHOD_PUT},
    {"delete", METHOD_DELETE},
    {"mkcol", METHOD_MKCOL},
    {"copy", METHOD_COPY},
    {"move", METHOD_MOVE},
    {NULL, 0},
};
/* clang-format on */

#define S struct dav_settings
static const struct directive dav_rows[] = {
    {"dav_methods", IN_HTTP_ALL, BITS(S, methods, method_words), ARGS(1, ARGS_ANY),
     .repeat = REPEAT_APPEND, .initial = "off", .syntax = "off | method ...",
     .doc = "Allows WebDAV methods that change files: PUT, DELETE, MKCOL, COPY and MOVE. "
            "The body of PUT is written to client_body_temp_path and then renamed, or "
            "copied if it is on another file system. COPY and MOVE use the settings of the "
            "source's location for both paths; with `alias`, Destination must begin with "
            "the location's prefix."},
    {"create_full_put_path", IN_HTTP_ALL, FLAG(S, creates_full_path), .initial = "off",
     .doc = "Whether PUT creates missing directories of its path."},
    {"min_delete_depth", IN_HTTP_ALL, NUMBER(S, min_delete_depth), .initial = "0",
     .doc = "Minimum number of segments in the path of a file or directory that DELETE "
            "removes."},
    {"dav_access", IN_HTTP_ALL, CUSTOM_FIELD(S, access, access_apply), ARGS(1, 3),
     .initial = "user:rw", .syntax = "users:permissions ...",
     .doc = "Permissions of created files and directories: `user:rw group:r all:r`. Read "
            "permission for a directory includes search permission."},
    {0},
};
#undef S

static const struct phase_hook dav_phases[] = {
    {.phase = PHASE_CONTENT,
     .name = "dav",
     .run = dav_handle,
     .when = SETTING(dav_key, struct dav_settings, methods)},
    {.run = NULL},
};
static const struct http_module dav_hooks = {.phases = dav_phases};

const struct module ngx_http_dav_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_http_dav_module",
    .kind = MODULE_HTTP,
    .table = {.key = &dav_key,
              .rows = dav_rows,
              .contexts = IN_HTTP_LOCATION_SETTINGS,
              .size = sizeof(struct dav_settings)},
    .hooks = &dav_hooks,
};
