/* Request bodies as handlers see them: whole, in memory or in a temporary file, or dropped. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fatal.h"
#include "base/fs.h"
#include "base/parse.h"
#include "http/request/body.h"
#include "http/request/pace.h"
#include "http/request/request.h"
#include "http/request/temp_file.h"
#include "http/request/wire.h"
#include "http/routing/body_settings.h"
#include "http/routing/connection_settings.h"
#include "server/generation.h"

#define READ_SIZE (16 * 1024)

struct request_body request_body_none = {.fd = -1};

static void close_file(void *arg)
{
    struct request_body *body = arg;

    close(body->fd);
}

static void close_and_unlink(void *arg)
{
    struct request_body *body = arg;

    close(body->fd);
    if (body->file_name.len != 0) {
        unlink(body->file_name.data);
    }
}

void request_body_keep_file(struct request *request)
{
    if (request->incoming.body->fd != -1) {
        request->incoming.body->file_name = STR_NONE;
    }
}

static bool open_file(struct body_writer *writer)
{
    struct request *request = writer->request;
    const struct http_location *location = request->location;
    struct request_body *body = writer->body;

    body->fd = temp_file_open(request, location->bodies->client_body_temp_path, &body->file_name);
    if (body->fd == -1) {
        return false;
    }
    switch (location->bodies->client_body_in_file_only) {
    case BODY_IN_FILE_ON:
        arena_on_free(&request->arena, close_file, body);
        break;
    default:
        arena_on_free(&request->arena, close_and_unlink, body);
        break;
    }
    if (!writer->always_file) {
        log_warn(&request->log, 0, "a client request body is buffered to a temporary file %.*s",
                 STR_ARG(body->file_name));
    }
    return true;
}

/* What is in memory goes to the file. A full disk hurts this request only. */
static bool spill(struct body_writer *writer)
{
    struct request *request = writer->request;

    if (writer->body->fd == -1 && !open_file(writer)) {
        return false;
    }
    if (!fs_write_all(writer->body->fd, (struct str){writer->room, writer->used})) {
        log_crit(&request->log, errno, "write() to \"%.*s\" failed",
                 STR_ARG(writer->body->file_name));
        return false;
    }
    writer->used = 0;
    return true;
}

bool request_body_is_too_large(struct request *request, uint64_t size)
{
    int64_t limit = request->location->bodies->client_max_body_size;

    if (limit == 0 || size <= (uint64_t) limit) {
        return false;
    }
    counters_mine->limited++;
    log_error(&request->log, 0, "client intended to send too large chunked body: %llu bytes",
              (unsigned long long) size);
    request->keepalive = false;
    request->is_lingering_forced = true;
    return true;
}

/* Room for a body of known length in one piece when it fits the buffer. */
static size_t first_capacity(const struct request *request)
{
    uint64_t buffer = request->location->bodies->client_body_buffer_size;

    if (request->incoming.length >= 0 && (uint64_t) request->incoming.length < buffer) {
        return (size_t) request->incoming.length + 1;
    }
    return buffer < 1024 ? 1024 : (size_t) buffer;
}

void body_writer_begin(struct request *request, size_t capacity, struct body_writer *writer)
{
    *writer = (struct body_writer){.request = request, .capacity = capacity};
    writer->body = arena_new(&request->arena, struct request_body);
    writer->body->fd = -1;
    arena_allow(&request->arena, capacity);
    writer->room = arena_text(&request->arena, capacity);
}

bool body_writer_add(struct body_writer *writer, struct str text)
{
    while (text.len != 0) {
        if (writer->used == writer->capacity && !spill(writer)) {
            return false;
        }
        struct str part = str_head(text, writer->capacity - writer->used);
        str_put(writer->room + writer->used, part);
        writer->used += part.len;
        writer->body->size += part.len;
        text = str_skip(text, part.len);
    }
    if (writer->body->fd != -1) {
        return true;
    }
    writer->body->bytes = (struct str){writer->room, writer->used};
    return true;
}

bool body_writer_flush(struct body_writer *writer)
{
    if (writer->body->fd == -1) {
        return true;
    }
    writer->body->bytes = STR_NONE;
    return spill(writer);
}

static void close_given(void *arg)
{
    close(((struct request_body *) arg)->fd);
}

bool request_body_from_file(struct request *request, struct str path, struct request_body *body)
{
    struct stat status;
    int fd = open(path.data, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

    if (fd == -1) {
        log_error(&request->log, errno, "open() \"%.*s\" failed", STR_ARG(path));
        return false;
    }
    body->fd = fd;
    arena_on_free(&request->main->arena, close_given, body);
    if (fstat(fd, &status) == -1 || !S_ISREG(status.st_mode)) {
        log_error(&request->log, 0, "\"%.*s\" is not a file", STR_ARG(path));
        return false;
    }
    body->size = (uint64_t) status.st_size;
    body->file_name = path;
    return true;
}

void request_give_body(struct request *request, struct request_body *body)
{
    struct fields *fields = &request->headers;
    struct arena *arena = &request->arena;
    char digits[20];
    struct str length = arena_dup(arena, str_from(digits, format_uint(digits, body->size)));
    struct field *items = arena_array(arena, fields->count + 1, sizeof(*items));

    if (fields->count != 0) {
        memcpy(items, fields->items, fields->count * sizeof(*items));
    }
    fields->items = items;
    fields->capacity = fields->count + 1;
    fields_set(fields, arena, FIELD_CONTENT_LENGTH, length);
    fields_set(fields, arena, FIELD_TRANSFER_ENCODING, STR_NONE);
    request->incoming.body = body;
    request->incoming.length = (int64_t) body->size;
    request->incoming.is_length_given = false;
}

struct request_body *request_body_part(struct request *request)
{
    struct request_body *body = request->incoming.body;

    if (request->incoming.passed_length >= body->size) {
        return body;
    }
    struct request_body *part = arena_new(&request->arena, struct request_body);

    *part = *body;
    part->size = request->incoming.passed_length;
    part->bytes.len = part->fd == -1 ? part->size : 0;
    return part;
}

static enum handler_result collect_body(struct body_writer *writer)
{
    struct request *request = writer->request;

    for (;;) {
        if (writer->used == writer->capacity && !spill(writer)) {
            return request_fail(request, 500);
        }
        ssize_t n = request_read_some(request, writer->room + writer->used,
                                      writer->capacity - writer->used);
        if (n < 0) {
            return request->incoming.refusal == 0
                       ? HANDLER_CLOSED
                       : request_fail(request, request->incoming.refusal);
        }
        if (n == 0) {
            return HANDLER_NEXT;
        }
        writer->used += (size_t) n;
        writer->body->size += (uint64_t) n;
        if (request_body_is_too_large(request, writer->body->size)) {
            return request_fail(request, 413);
        }
    }
}

bool request_body_exceeds(struct request *request)
{
    int64_t limit = request->location->bodies->client_max_body_size;

    if (limit == 0 || request->incoming.is_read || request->incoming.length <= limit) {
        return false;
    }
    counters_mine->limited++;
    log_error(&request->log, 0, "client intended to send too large body: %lld bytes",
              (long long) request->incoming.length);
    request->keepalive = false;
    request->incoming.refusal = 413;
    request->incoming.expects_continue =
        false; /* whatever the status of its page: the body is not wanted */
    request_fail(request, 413);
    return true;
}

uint64_t request_body_deadline(struct request *request)
{
    uint64_t timeout_ms = request->incoming.timeout_ms != 0
                              ? request->incoming.timeout_ms
                              : request->location->bodies->client_body_timeout_ms;

    return pace_body_begins(request, clock_now.now_ms + timeout_ms);
}

bool request_body_waited(struct request *request, enum wait_result result)
{
    bool is_continued = false;

    if (result != WAIT_CANCELLED &&
        !pace_body_ended(request, result == WAIT_TIMED_OUT, &is_continued)) {
        request->incoming.refusal = 408;
        request->incoming.is_too_slow = true;
        return false;
    }
    if (is_continued) {
        return true;
    }
    if (result == WAIT_READY) {
        return true;
    }
    if (result == WAIT_TIMED_OUT && request->incoming.timeout_ms != 0) {
        request->incoming.is_late = true;
    } else if (result == WAIT_TIMED_OUT) {
        request->log.action = "reading client request body";
        log_info(&request->log, ETIMEDOUT, "client timed out");
        request->incoming.refusal = 408;
    }
    return false;
}

bool request_body_wait(struct request *request, struct wait_point *input)
{
    if (request->incoming.reads_no_further) {
        return false;
    }
    uint64_t deadline =
        request->response.framing == FRAMING_TUNNEL ? FIBER_NEVER : request_body_deadline(request);
    input->is_signalled = false;
    return request_body_waited(request, fiber_wait(input, deadline));
}

ssize_t request_body_refuse(struct request *request, unsigned status)
{
    request->incoming.refusal = status;
    request->incoming.is_read = true;
    return -1;
}

void request_body_invite(struct request *request)
{
    if (request->incoming.expects_continue && request->response.progress == RESPONSE_NOT_SENT) {
        request->incoming.expects_continue = false;
        request->wire->send_interim(request, 100, NULL);
    }
}

bool request_body_is_gone(const struct request *request)
{
    return request->incoming.body == NULL &&
           (request->incoming.is_taken || request->incoming.refusal != 0);
}

enum handler_result request_read_body(struct request *request)
{
    CHECK_MAGIC(request, REQUEST_MAGIC);
    if (request->incoming.body != NULL) {
        return HANDLER_NEXT;
    }
    struct request_body *body = arena_new(&request->arena, struct request_body);
    body->fd = -1;
    if (request->incoming.is_read || request_body_is_gone(request)) {
        request->incoming.is_lost = request_body_is_gone(request);
        if (request->incoming.expects_continue) { /* an empty one is awaited, too */
            request->incoming.expects_continue = false;
            request->wire->send_interim(request, 100, NULL);
        }
        request->incoming.body = body;
        return HANDLER_NEXT;
    }
    if (request_body_exceeds(request)) {
        return HANDLER_FAIL;
    }
    struct body_writer writer = {
        .request = request,
        .capacity = first_capacity(request),
        .body = body,
        .always_file = request->location->bodies->client_body_in_file_only != BODY_IN_FILE_OFF,
    };
    arena_allow(&request->arena, writer.capacity);
    request->incoming.is_limited = true;
    writer.room = arena_text(&request->arena, writer.capacity);
    enum handler_result result = collect_body(&writer);
    request->received_ms = clock_now.now_ms;
    if (result != HANDLER_NEXT) {
        return result;
    }
    if ((body->fd != -1 || writer.always_file) && !spill(&writer)) {
        return request_fail(request, 500);
    }
    if (body->fd == -1) {
        body->bytes = (struct str){writer.room, writer.used};
    }
    request->incoming.body = body;
    return HANDLER_NEXT;
}

ssize_t request_read_some(struct request *request, void *at, size_t size)
{
    if (request->incoming.refusal != 0) {
        return -1; /* it was refused, which was logged: where it ends is not known any more */
    }
    ssize_t n = request->wire->read_body(request, at, size);

    request->incoming.is_taken |= n > 0;
    if (n > 0 && request->incoming.watcher != NULL) {
        request->incoming.watcher->received(request->incoming.watcher, (size_t) n);
    }
    request->received_ms = clock_now.now_ms;
    return n;
}

bool request_drop_body(struct request *request)
{
    uint64_t until = clock_now.now_ms + request->location->connections->lingering_time_ms;
    int64_t limit = request->location->bodies->client_max_body_size;
    uint64_t received = request->incoming.received;
    uint64_t dropped = 0;
    bool is_whole = true;
    char *room = arena_text(&request->arena, READ_SIZE);

    while (!request->incoming.is_read) {
        ssize_t n = request_read_some(request, room, READ_SIZE);
        dropped += n > 0 ? (uint64_t) n : 0;
        if (n < 0 || clock_now.now_ms > until || (limit != 0 && dropped > (uint64_t) limit)) {
            is_whole = false;
            break;
        }
    }
    request->incoming.received =
        received; /* nobody asked for it: it does not count in $request_length */
    return is_whole;
}

#define ARRIVED_MAX                                                                                \
    (256 * 1024) /* bytes dropped before the answer; a sender that keeps up waits for it */

bool request_drop_arrived_body(struct request *request)
{
    uint64_t received = request->incoming.received;
    char *room = arena_text(&request->arena, READ_SIZE);
    ssize_t n = 1;

    request->incoming.reads_no_further = true;
    for (size_t dropped = 0; !request->incoming.is_read && n > 0 && dropped < ARRIVED_MAX;) {
        n = request_read_some(request, room, READ_SIZE);
        dropped += n > 0 ? (size_t) n : 0;
    }
    request->incoming.reads_no_further = false;
    request->incoming.received = received;
    if (request->incoming.refusal != 0) {
        request->response.status = request->incoming.refusal;
        return false;
    }
    return true;
}

bool request_body_text(struct request *request, struct str *out)
{
    const struct request_body *body = request->incoming.body;

    *out = body->bytes;
    if (body->fd != -1 && body->size != 0) {
        arena_allow(&request->arena, body->size);
        char *text = arena_text(&request->arena, body->size);

        *out = (struct str){text, body->size};
        return pread(body->fd, text, body->size, 0) == (ssize_t) body->size;
    }
    return true;
}
