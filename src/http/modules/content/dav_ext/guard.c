/* Checks of locks and of the field If (RFC 4918, 7 and 10.4). */
#include "base/clock.h"
#include "http/files/file.h"
#include "http/modules/content/dav_ext/dav_ext.h"
#include "http/modules/content/dav_ext/if_header.h"
#include "http/request/request.h"

#define CHANGING                                                                                   \
    (METHOD_PUT | METHOD_DELETE | METHOD_MKCOL | METHOD_COPY | METHOD_MOVE | METHOD_LOCK |         \
     METHOD_PROPPATCH | METHOD_PATCH)

static struct shm_table *table_of(struct request *request)
{
    return dav_ext_settings_at(request->location)->zone->limit.table;
}

/* ---- If ---- */

/* Is this the entity tag of the file? Directories have none. */
static bool has_etag(struct request *request, struct str path, struct str etag)
{
    struct file *file = file_stat(request, path);
    struct str is = STR_NONE;

    if (file->error == 0 && !file->is_directory) {
        is = arena_printf(&request->arena, "\"%llx-%llx\"", (unsigned long long) file->mtime,
                          (unsigned long long) file->size);
    }
    file_release(file);
    return is.len != 0 && str_equal(is, etag);
}

static bool condition_holds(struct request *request, const struct if_reader *reader,
                            struct str path, struct vec *tokens)
{
    struct lock_token token;

    if (path.len == 0) {
        return reader->is_not;
    }
    if (reader->is_etag) {
        return has_etag(request, path, reader->value) != reader->is_not;
    }
    if (!lock_token_parse(reader->value, &token)) {
        return reader->is_not;
    }
    *vec_add(tokens, &request->arena, struct lock_token) = token;
    return lock_holds(table_of(request), &token, path, clock_now.now_ms) != reader->is_not;
}

/* Evaluates If and collects the lock tokens in it. False: status set. */
static bool dav_ext_guard_judge(struct request *request, struct str path, struct vec *tokens)
{
    const struct field *field = fields_find(&request->headers, STR("If"));
    bool is_list_good = false, is_good = false;
    struct str resource = path;
    struct if_reader reader;
    enum if_event event;

    if (field == NULL) {
        return true;
    }
    if_begin(&reader, field->value);
    do {
        event = if_next(&reader);
        if (event == IF_LIST) {
            is_list_good = true;
            resource = reader.is_tagged ? dav_ext_path_of(request, reader.resource) : path;
        } else if (event == IF_CONDITION) {
            is_list_good &= condition_holds(request, &reader, resource, tokens);
        } else if (event == IF_LIST_END) {
            is_good |= is_list_good;
        }
    } while (event != IF_END && event != IF_ERROR);
    if (event == IF_ERROR) {
        log_error(&request->log, 0, "client sent invalid \"If\" header: \"%.*s\"",
                  STR_ARG(field->value));
    }
    request->response.status = event == IF_ERROR ? 400 : 412;
    return event == IF_END && is_good;
}

/* ---- locks ---- */

static bool is_there(struct request *request, struct str path)
{
    struct file *file = file_stat(request, path);
    bool is_there = file->error == 0;

    file_release(file);
    return is_there;
}

/* Do the locks allow what the method does to request->uri? */
static bool allows_source(struct request *request, struct str path, const struct vec *tokens)
{
    const unsigned going = METHOD_DELETE | METHOD_MOVE;
    struct lock_target target = {
        .path = path,
        .is_tree = (request->method & going) != 0,
        .is_member = (request->method & (going | METHOD_MKCOL)) != 0,
    };

    if (request->method == METHOD_COPY) {
        return true; /* COPY only reads the source */
    }
    target.is_member |= !target.is_member && !is_there(request, path);
    if (request->method == METHOD_LOCK && !target.is_member) {
        return true; /* LOCK checks existing resources itself; a new one changes its parent
                        directory */
    }
    return lock_allows(table_of(request), &target, tokens, clock_now.now_ms);
}

static bool allows_destination(struct request *request, const struct vec *tokens)
{
    const struct field *field = fields_find(&request->headers, STR("Destination"));

    if ((request->method & (METHOD_COPY | METHOD_MOVE)) == 0 || field == NULL) {
        return true;
    }
    struct str path = dav_ext_path_of(request, field->value);
    if (path.len == 0) {
        return true; /* outside of this location: the method refuses it */
    }
    const struct lock_target target = {.path = path,
                                       .is_tree = true,
                                       .is_member = !is_there(request, path)};
    return lock_allows(table_of(request), &target, tokens, clock_now.now_ms);
}

enum handler_result dav_guard(struct request *request)
{
    struct vec tokens = {0};
    struct str path;

    if ((request->method & CHANGING) == 0 || request != request->main) {
        return HANDLER_NEXT;
    }
    if (!dav_ext_path(request, &path) || !dav_ext_guard_judge(request, path, &tokens)) {
        return HANDLER_FAIL;
    }
    if (!allows_source(request, path, &tokens) || !allows_destination(request, &tokens)) {
        return request_fail(request, 423);
    }
    return HANDLER_NEXT;
}

enum handler_result dav_forget(struct request *request)
{
    unsigned status = request->response.status;
    struct str path;

    if ((request->method & (METHOD_DELETE | METHOD_MOVE)) != 0 && status >= 200 && status < 300 &&
        dav_ext_path(request, &path)) {
        lock_forget(table_of(request), path);
        request->response.status = status;
    }
    return HANDLER_NEXT;
}
