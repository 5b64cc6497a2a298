/* LOCK and UNLOCK (RFC 4918, 9.10 and 9.11). */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/parse.h"
#include "http/files/file.h"
#include "http/message/dav_fields.h"
#include "http/modules/content/dav_ext/dav_ext.h"
#include "http/modules/content/dav_ext/if_header.h"
#include "http/request/request.h"
#include "server/generation.h"

static struct lock_zone *zone_of(struct request *request)
{
    return dav_ext_settings_at(request->location)->zone;
}

/* Timeout (10.7): the first valid value of its list, limited to that of the zone. */
static uint64_t read_timeout(struct request *request)
{
    const struct field *field = fields_find(&request->headers, STR("Timeout"));
    uint64_t most = zone_of(request)->timeout_ms;
    struct str rest = field == NULL ? STR_NONE : field->value;

    while (rest.data != NULL) {
        struct str word = str_trim(str_cut(&rest, ','));
        uint64_t seconds;
        if (str_equal_nocase(word, STR("Infinite"))) {
            return most;
        }
        if (str_starts_nocase(word, STR("Second-")) && parse_uint(str_skip(word, 7), &seconds)) {
            return seconds != 0 && seconds < most / 1000 ? seconds * 1000 : most;
        }
    }
    return most;
}

static enum handler_result fail_lock(struct request *request, enum lock_result result)
{
    switch (result) {
    case LOCK_CONFLICT:
        return request_fail(request, 423);
    case LOCK_FULL:
        counters_mine->limited++;
        log_error(&request->log, 0, "no room for a lock in dav_ext zone \"%.*s\"",
                  STR_ARG(zone_of(request)->limit.zone->name));
        return request_fail(request, 507);
    default:
        return request_fail(request, 412);
    }
}

static enum handler_result answer_lock(struct request *request, const struct lock *lock,
                                       unsigned status)
{
    struct arena *arena = &request->arena;
    struct vec locks = {0};
    struct buf out = {0};
    const struct str token[] = {STR("<"), lock_token_text(arena, &lock->token), STR(">")};

    *vec_add(&locks, arena, struct lock) = *lock;
    buf_append(&out, STR("<?xml version=\"1.0\" encoding=\"utf-8\" ?>\n<D:prop xmlns:D=\"DAV:\">\n"
                         "<D:lockdiscovery>\n"));
    put_active_locks(&out, arena, &locks);
    buf_append(&out, STR("</D:lockdiscovery>\n</D:prop>\n"));
    fields_add(&request->response.fields, arena, STR("Lock-Token"), arena_join(arena, token, 3));
    return dav_ext_answer(request, status, &out);
}

/* The lock token of the first condition of If. */
static bool first_token(struct request *request, struct lock_token *token)
{
    const struct field *field = fields_find(&request->headers, STR("If"));
    struct if_reader reader;
    enum if_event event;

    if (field == NULL) {
        return false;
    }
    if_begin(&reader, field->value);
    do {
        event = if_next(&reader);
        if (event == IF_CONDITION && !reader.is_etag && !reader.is_not &&
            lock_token_parse(reader.value, token)) {
            return true;
        }
    } while (event != IF_END && event != IF_ERROR);
    return false;
}

/* A LOCK without a body: refreshes the lock that If names. */
static enum handler_result refresh(struct request *request, struct lock *lock)
{
    if (!first_token(request, &lock->token)) {
        log_error(&request->log, 0, "client sent a LOCK with neither a body nor a token in \"If\"");
        return request_fail(request, 400);
    }
    enum lock_result result =
        lock_refresh(zone_of(request)->limit.table, &request->arena, lock, clock_now.now_ms);
    return result == LOCK_DONE ? answer_lock(request, lock, 200) : fail_lock(request, result);
}

/* The locked resource must exist: creates an empty file if there is none. HANDLER_NEXT: it
 * exists. */
static enum handler_result make_resource(struct request *request, struct str path, unsigned *status)
{
    struct file *file = file_stat(request, path);
    int error = file->error;

    *status = 200;
    if (error != 0 && error != ENOENT) {
        return request_fail_file(request, file);
    }
    file_release(file);
    if (error == 0) {
        return HANDLER_NEXT;
    }
    const char *slash = str_find_last_char(path, '/');
    if (str_ends(request->uri, STR("/")) || slash == NULL) {
        return request_fail(request, 409);
    }
    struct str above = str_from(path.data, slash);
    int directory =
        file_open_directory(request, (struct str){arena_cstr(&request->arena, above), above.len});
    int fd = directory == -1
                 ? -1
                 : openat(directory, slash + 1,
                          O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
    error = errno;
    if (directory != -1) {
        close(directory);
    }
    if (fd == -1) {
        log_error(&request->log, error, "open() \"%.*s\" failed", STR_ARG(path));
        return request_fail(request, error == ENOENT || error == ENOTDIR ? 409 : 403);
    }
    close(fd);
    *status = 201;
    return HANDLER_NEXT;
}

enum handler_result dav_lock(struct request *request)
{
    struct shm_table *table = zone_of(request)->limit.table;
    enum dav_depth depth = dav_depth_of(&request->headers);
    struct lock lock = {.uri = request->uri, .timeout_ms = read_timeout(request)};
    struct lock_info info;
    struct str body;
    unsigned status;

    if (depth == DEPTH_INVALID || depth == DEPTH_1) {
        log_error(&request->log, 0, "client sent invalid \"Depth\" header: \"%.*s\"",
                  STR_ARG(fields_find(&request->headers, STR("Depth"))->value));
        return request_fail(request, 400);
    }
    enum handler_result handled = dav_ext_read_body(request, &body);
    if (handled != HANDLER_NEXT) {
        return handled;
    }
    if (!dav_ext_path(request, &lock.path)) {
        return HANDLER_FAIL;
    }
    if (body.len == 0) {
        return refresh(request, &lock);
    }
    if (!lockinfo_parse(&request->arena, body, &info)) {
        log_error(&request->log, 0, "client sent an invalid LOCK body");
        return request_fail(request, 400);
    }
    lock.is_shared = info.is_shared;
    lock.owner = info.owner;
    lock.is_deep = depth != DEPTH_0;
    enum lock_result result = lock_add(table, &lock, clock_now.now_ms);
    if (result != LOCK_DONE) {
        return fail_lock(request, result);
    }
    handled = make_resource(request, lock.path, &status);
    if (handled != HANDLER_NEXT) {
        lock_remove(table, &lock.token, lock.path, clock_now.now_ms);
        return handled;
    }
    return answer_lock(request, &lock, status);
}

enum handler_result dav_unlock(struct request *request)
{
    const struct field *field = fields_find(&request->headers, STR("Lock-Token"));
    struct str text = field == NULL ? STR_NONE : field->value;
    struct lock_token token;
    struct str path;

    if (text.len < 2 || text.data[0] != '<' || text.data[text.len - 1] != '>') {
        log_error(&request->log, 0, "client sent no \"Lock-Token\" header, or an invalid one");
        return request_fail(request, 400);
    }
    if (!dav_ext_path(request, &path)) {
        return HANDLER_FAIL;
    }
    if (!lock_token_parse((struct str){text.data + 1, text.len - 2}, &token) ||
        lock_remove(zone_of(request)->limit.table, &token, path, clock_now.now_ms) != LOCK_DONE) {
        return request_fail(request, 409);
    }
    return response_memory(request, 204, STR_NONE, STR_NONE);
}
