/* COPY and MOVE (RFC 4918, 9.8 and 9.9). */
#include <errno.h>
#include <fcntl.h>

#include "http/files/path.h"
#include "http/message/dav_fields.h"
#include "http/modules/content/dav/dav.h"
#include "http/routing/file_settings.h"

/* How a COPY or MOVE ended; the client's status follows from it. */
enum verdict {
    TRANSFER_DONE,
    TRANSFER_NO_SOURCE,     /* see `error` */
    TRANSFER_IS_COLLECTION, /* the source is a directory, but its URI has no trailing slash */
    TRANSFER_TO_COLLECTION, /* the target is a directory, but its URI has no trailing slash */
    TRANSFER_EXISTS,        /* the target exists, and Overwrite is F */
    TRANSFER_ONTO_ITSELF,   /* source and target are the same, or one is inside the other */
    TRANSFER_FAILED         /* see `error` and `failed` */
};

/* In the request's arena. */
struct transfer {
    struct dav_target from;
    struct dav_target to;
    struct fs_tree_rules rules;
    struct str destination; /* the field Destination */
    bool is_move;
    bool overwrites;
    enum verdict verdict;
    int error;          /* errno of the call that failed */
    const char *failed; /* its name, for the log */
};

/* ---- on a thread of the pool: no log, no arena, no request ---- */

static enum verdict dav_transfer_give_up(struct transfer *transfer, enum verdict verdict,
                                         const char *failed)
{
    transfer->error = errno;
    transfer->failed = failed;
    return verdict;
}

static bool dav_transfer_look(const struct transfer *transfer, const struct dav_target *target,
                              struct stat *info)
{
    bool follows = transfer->rules.follows_links && target->is_collection;

    return fstatat(target->at.directory, target->at.name, info,
                   follows ? 0 : AT_SYMLINK_NOFOLLOW) == 0;
}

/* Would the tree be copied into itself, or would the target that is replaced contain the source? */
static bool is_onto_itself(const struct transfer *transfer, const struct stat *from,
                           const struct stat *to, bool exists)
{
    if (exists && from->st_dev == to->st_dev && from->st_ino == to->st_ino) {
        return true;
    }
    return (S_ISDIR(from->st_mode) && fs_is_inside(transfer->to.at.directory, from)) ||
           (exists && S_ISDIR(to->st_mode) && fs_is_inside(transfer->from.at.directory, to));
}

static enum verdict dav_transfer_run(struct transfer *transfer, bool exists)
{
    bool is_good;

    /* rename() replaces a file by a file in one step; directories must be removed first. */
    if (exists && transfer->from.is_collection && !fs_remove_tree(transfer->to.at)) {
        return dav_transfer_give_up(transfer, TRANSFER_FAILED, "unlink()");
    }
    is_good = transfer->is_move
                  ? fs_move_tree(transfer->from.at, transfer->to.at, &transfer->rules)
                  : fs_copy_tree(transfer->from.at, transfer->to.at, &transfer->rules);
    return is_good ? TRANSFER_DONE
                   : dav_transfer_give_up(transfer, TRANSFER_FAILED,
                                          transfer->is_move ? "rename() to" : "open()");
}

static enum verdict decide(struct transfer *transfer)
{
    struct stat from;
    struct stat to;

    if (!dav_transfer_look(transfer, &transfer->from, &from)) {
        return dav_transfer_give_up(transfer, TRANSFER_NO_SOURCE, "lstat()");
    }
    if (transfer->from.is_collection && !S_ISDIR(from.st_mode)) {
        errno = ENOTDIR;
        return dav_transfer_give_up(transfer, TRANSFER_NO_SOURCE, "lstat()");
    }
    if (!transfer->from.is_collection && S_ISDIR(from.st_mode)) {
        return TRANSFER_IS_COLLECTION;
    }
    bool exists = dav_transfer_look(transfer, &transfer->to, &to);
    if (!exists && errno != ENOENT) {
        return dav_transfer_give_up(transfer, TRANSFER_FAILED, "lstat()");
    }
    if (exists && S_ISDIR(to.st_mode) && !transfer->to.is_collection) {
        return TRANSFER_TO_COLLECTION;
    }
    if (exists && !transfer->overwrites) {
        return TRANSFER_EXISTS;
    }
    if (transfer->from.is_root || transfer->to.is_root ||
        is_onto_itself(transfer, &from, &to, exists)) {
        return TRANSFER_ONTO_ITSELF;
    }
    return dav_transfer_run(transfer, exists);
}

static void transfer_on_thread(void *arg)
{
    struct transfer *transfer = arg;

    transfer->verdict = decide(transfer);
}

/* ---- the request ---- */

/* Maps Destination to a path. */
static enum handler_result read_destination(struct request *request, struct transfer *transfer,
                                            struct str *path)
{
    const struct field *field = fields_find(&request->headers, STR("Destination"));
    const struct dav_origin origin = {
        .scheme = request_is_encrypted(request) ? STR("https") : STR("http"),
        .host = request->head.host,
        .merge_slashes = request->server->merge_slashes,
    };

    if (field == NULL) {
        log_error(&request->log, 0, "client sent no \"Destination\" header");
        return request_fail(request, 400);
    }
    transfer->destination = field->value;
    switch (dav_destination_parse(&request->arena, field->value, &origin, path)) {
    case DESTINATION_GOOD:
        break;
    case DESTINATION_FOREIGN:
        log_error(&request->log, 0,
                  "\"Destination\" URI \"%.*s\" is handled by different repository than the source "
                  "URI",
                  STR_ARG(field->value));
        return request_fail(request, 400);
    default:
        log_error(&request->log, 0, "client sent invalid \"Destination\" header: \"%.*s\"",
                  STR_ARG(field->value));
        return request_fail(request, 400);
    }
    return HANDLER_NEXT;
}

/* Below an alias, can this target be reached? The alias replaces the location's prefix, so a URI
 * without the prefix is in another location. */
static bool is_reachable(struct request *request, struct str path)
{
    size_t length;

    return !request->location->files->is_alias || !request_alias_prefix(request, &length) ||
           str_starts(path, str_head(request->uri, length));
}

static enum handler_result open_ends(struct request *request, struct transfer *transfer,
                                     struct str path)
{
    struct str uri = request->uri;

    if (!is_reachable(request, path)) {
        log_error(&request->log, 0, "client sent invalid \"Destination\" header: \"%.*s\"",
                  STR_ARG(transfer->destination));
        return request_fail(request, 400);
    }
    enum handler_result result = dav_target_open(request, &transfer->from, 404);
    if (result != HANDLER_NEXT) {
        return result;
    }
    request_swap_uri(request, path);
    result = dav_target_open(request, &transfer->to, 409);
    request_swap_uri(request, uri);
    return result;
}

/* Reads Overwrite and Depth. False: logged, 400. */
static bool read_headers(struct request *request, struct transfer *transfer)
{
    enum dav_overwrite overwrite = dav_overwrite_of(&request->headers);

    if (!dav_check_depth(request, transfer->is_move)) {
        return false;
    }
    if (overwrite == OVERWRITE_INVALID) {
        struct str value = fields_find(&request->headers, STR("Overwrite"))->value;
        log_error(&request->log, 0, "client sent invalid \"Overwrite\" header: \"%.*s\"",
                  STR_ARG(value));
        request_fail(request, 400);
        return false;
    }
    transfer->overwrites = overwrite == OVERWRITE_YES;
    transfer->rules.is_shallow = dav_depth_of(&request->headers) == DEPTH_0;
    return true;
}

static enum handler_result dav_transfer_refuse(struct request *request,
                                               const struct transfer *transfer)
{
    const char *verb = transfer->is_move ? "MOVE" : "COPY";

    switch (transfer->verdict) {
    case TRANSFER_NO_SOURCE:
        return dav_fail(request, transfer->error, transfer->failed, transfer->from.path, 404);
    case TRANSFER_IS_COLLECTION:
        log_error(&request->log, 0, "\"%.*s\" is collection", STR_ARG(request->uri));
        return request_fail(request, 400);
    case TRANSFER_TO_COLLECTION:
        log_error(&request->log, 0, "\"%.*s\" could not be %sed to collection \"%.*s\"",
                  STR_ARG(request->uri), verb, STR_ARG(transfer->destination));
        return request_fail(request, 409);
    case TRANSFER_EXISTS:
        log_error(&request->log, EEXIST, "\"%.*s\" could not be created",
                  STR_ARG(transfer->to.path));
        return request_fail(request, 412);
    case TRANSFER_ONTO_ITSELF:
        log_error(&request->log, 0, "\"%.*s\" and \"%.*s\" are one, or one is inside the other",
                  STR_ARG(transfer->from.path), STR_ARG(transfer->to.path));
        return request_fail(request, 403);
    default:
        return dav_fail(request, transfer->error, transfer->failed, transfer->to.path, 409);
    }
}

enum handler_result dav_transfer(struct request *request)
{
    struct transfer *transfer = arena_new(&request->arena, struct transfer);
    struct str path;

    if (dav_refuses_body(request, "COPY and MOVE")) {
        return HANDLER_FAIL;
    }
    transfer->is_move = request->method == METHOD_MOVE;
    transfer->rules.follows_links = dav_follows_links(request);
    enum handler_result result = read_destination(request, transfer, &path);
    if (result != HANDLER_NEXT) {
        return result;
    }
    if (str_ends(request->uri, STR("/")) != str_ends(path, STR("/"))) {
        log_error(&request->log, 0,
                  "both URI \"%.*s\" and \"Destination\" URI \"%.*s\" should be either collections "
                  "or non-collections",
                  STR_ARG(request->uri), STR_ARG(transfer->destination));
        return request_fail(request, 409);
    }
    if (!read_headers(request, transfer)) {
        return HANDLER_FAIL;
    }
    result = open_ends(request, transfer, path);
    result = result != HANDLER_NEXT ? result : dav_offload(request, transfer_on_thread, transfer);
    if (result != HANDLER_NEXT) {
        return result;
    }
    if (transfer->verdict != TRANSFER_DONE) {
        return dav_transfer_refuse(request, transfer);
    }
    return dav_answer(request, transfer->from.is_collection ? 201 : 204, false);
}
