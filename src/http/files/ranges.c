/* Responds to range requests (RFC 9110, 14): one or more ranges, cut from the pieces of any
 * body. */
#include "http/message/ranges_parse.h"

#include <stdlib.h>

#include "base/fatal.h"
#include "base/parse.h"
#include "http/request/body_filter.h"
#include "http/routing/hooks.h"
#include "http/request/request.h"
#include "http/routing/response_settings.h"
#include "server/module.h"

#define BOUNDARY_DIGITS 20

/* A body from which ranges are cut; in the request's arena. */
struct range_filter {
    struct body_filter filter;
    struct vec ranges; /* struct byte_range, in the order of the request */
    uint64_t size;     /* of the whole body */
    uint64_t given;    /* bytes received so far, from response.body_offset on */
    /* struct body_piece: gathered if there are several ranges. */
    struct vec pieces;
    struct str boundary;  /* "\r\n--N" of a multipart response */
    struct str part_type; /* "\r\nContent-Type: T\r\n", or "\r\n" */
    bool is_finished;     /* the last piece was passed on: further ones are dropped */
};

/* ---- the header ---- */

/* If-Range (RFC 9110, 13.1.5): do the ranges apply? A weak tag never matches. */
static bool if_range_holds(const struct request *request)
{
    const struct field *field = fields_get(&request->headers, FIELD_IF_RANGE);
    const struct response *response = &request->response;

    if (field == NULL) {
        return true;
    }
    struct str value = field->value;
    if (value.len >= 2 && value.data[value.len - 1] == '"') {
        return response->etag.len != 0 && value.data[0] == '"' && str_equal(value, response->etag);
    }
    time_t shown = response->last_modified;
    const struct field *added = fields_get(&response->fields, FIELD_LAST_MODIFIED);
    if (added != NULL) {
        shown = http_date_parse(added->value); /* set by add_header: the date that clients know */
    }
    return shown != -1 && http_date_parse(value) == shown;
}

static void set_content_range(struct request *request, struct str value)
{
    struct fields *fields = &request->response.fields;

    fields_set(fields, &request->arena, FIELD_CONTENT_RANGE,
               STR_NONE); /* that of an earlier range filter */
    if (value.len != 0) {
        fields_add_known(fields, &request->arena, FIELD_CONTENT_RANGE, value);
    }
}

static void refuse_ranges(struct request *request)
{
    struct response *response = &request->response;

    set_content_range(request, arena_printf(&request->arena, "bytes */%lld",
                                            (long long) response->content_length));
    response->status = 416;
}

static struct str range_text(struct request *request, const struct byte_range *range, uint64_t size)
{
    return arena_printf(&request->arena, "bytes %llu-%llu/%llu", (unsigned long long) range->start,
                        (unsigned long long) range->end - 1, (unsigned long long) size);
}

/* The header of a part, including its boundary and the empty line. */
static struct str part_head(struct request *request, const struct range_filter *state,
                            const struct byte_range *range)
{
    const struct str parts[] = {state->boundary, state->part_type, STR("Content-Range: "),
                                range_text(request, range, state->size), STR("\r\n\r\n")};

    return arena_join(&request->arena, parts, 5);
}

static struct str last_boundary(struct request *request, const struct range_filter *state)
{
    return arena_concat(&request->arena, state->boundary, STR("--\r\n"));
}

/* Several ranges: multipart/byteranges (RFC 9110, 14.6). */
static void describe_multipart(struct request *request, struct range_filter *state)
{
    static uint64_t serial;
    struct response *response = &request->response;
    struct arena *arena = &request->arena;

    struct str number =
        arena_printf(arena, "%0*llu", BOUNDARY_DIGITS, (unsigned long long) ++serial);
    const bool has_charset = response->charset.len != 0;
    const struct str type[] = {
        response->content_type.len == 0 ? STR("\r\n") : STR("\r\nContent-Type: "),
        response->content_type,
        has_charset ? STR("; charset=") : STR_NONE,
        response->charset,
        response->content_type.len == 0 ? STR_NONE : STR("\r\n"),
    };
    state->boundary = arena_concat(arena, STR("\r\n--"), number);
    state->part_type = arena_join(arena, type, 5);
    uint64_t length = last_boundary(request, state).len;
    vec_each(const struct byte_range, range, &state->ranges) {
        length += part_head(request, state, range).len + range->end - range->start;
    }
    response->content_type = arena_concat(arena, STR("multipart/byteranges; boundary="), number);
    response->charset = STR_NONE;
    response->content_length = (int64_t) length;
}

static bool range_send(struct body_filter *filter, struct request *request,
                       const struct body_piece *piece, bool is_last);

static void answer_partially(struct request *request, struct vec ranges)
{
    struct response *response = &request->response;
    struct range_filter *state = arena_new(&request->arena, struct range_filter);

    state->ranges = ranges;
    state->size = (uint64_t) response->content_length;
    state->filter.send = range_send;
    state->filter.takes_files = true;
    response->status = 206;
    response->reason = STR_NONE;
    if (ranges.count == 1) {
        const struct byte_range *range = vec_at(&ranges, struct byte_range, 0);
        set_content_range(request, range_text(request, range, state->size));
        response->content_length = (int64_t) (range->end - range->start);
        response->range.start = range->start;
        response->range.end = range->end;
    } else {
        set_content_range(request, STR_NONE);
        describe_multipart(request, state);
    }
    response_add_filter(request, &state->filter);
}

static void range_header(struct request *request)
{
    struct response *response = &request->response;
    struct vec ranges;

    if (!response->range.is_allowed || response->status != 200 || response->content_length < 0 ||
        request->head.version < HTTP_1_0 || request != request->main) {
        return;
    }
    uint64_t most = request->location->responses->max_ranges < 0
                        ? UINT64_MAX
                        : (uint64_t) request->location->responses->max_ranges;
    if (most == 0) {
        return;
    }
    const struct field *field = fields_get(&request->headers, FIELD_RANGE);
    if (field != NULL && field->value.len > 6 && str_starts_nocase(field->value, STR("bytes=")) &&
        if_range_holds(request)) {
        switch (ranges_parse(str_skip(field->value, 6), (uint64_t) response->content_length, most,
                             &request->arena, &ranges)) {
        case RANGES_SOME:
            if (response->range.is_single && ranges.count > 1) {
                break;
            }
            answer_partially(request, ranges);
            return;
        case RANGES_NONE:
            refuse_ranges(request);
            return;
        case RANGES_WHOLE:
            break;
        }
    }
    const struct field *sent = fields_get(&response->fields, FIELD_ACCEPT_RANGES);
    if (sent != NULL && !sent->is_added) {
        fields_set(&response->fields, &request->arena, FIELD_ACCEPT_RANGES, STR("bytes"));
    } else {
        fields_add_known(&response->fields, &request->arena, FIELD_ACCEPT_RANGES, STR("bytes"));
    }
}

/* ---- the body ---- */

/* A piece that is passed on in several parts; released after the last of them was sent. May outlive
 * the request's arena. */
struct shared_piece {
    unsigned references;
    void (*release)(void *arg);
    void *arg;
};

static void shared_release(void *arg)
{
    struct shared_piece *shared = arg;

    if (--shared->references == 0) {
        shared->release(shared->arg);
        free(shared);
    }
}

/* Makes the piece shareable, so that it can be passed on in parts: the caller has one reference. */
static struct shared_piece *piece_share(struct body_piece *piece)
{
    if (piece->release == NULL) {
        return NULL;
    }
    struct shared_piece *shared = malloc(sizeof(*shared));
    if (shared == NULL) {
        fatal_no_memory(sizeof(*shared));
    }
    *shared = (struct shared_piece){1, piece->release, piece->release_arg};
    piece->release = shared_release;
    piece->release_arg = shared;
    return shared;
}

static uint64_t piece_size(const struct body_piece *piece)
{
    return piece->bytes.data != NULL ? piece->bytes.len : piece->size;
}

static void piece_drop(const struct body_piece *piece)
{
    if (piece != NULL && piece->release != NULL) {
        piece->release(piece->release_arg);
    }
}

/* Bytes [from, to) of the piece. */
static struct body_piece piece_cut(const struct body_piece *piece, uint64_t from, uint64_t to)
{
    struct body_piece part = *piece;

    if (piece->bytes.data != NULL) {
        part.bytes = (struct str){piece->bytes.data + from, (size_t) (to - from)};
    } else {
        part.offset += (off_t) from;
        part.size = to - from;
    }
    return part;
}

/* One range: passes on the part of each piece that is in it. */
static bool send_single(struct range_filter *state, struct request *request,
                        const struct body_piece *piece, bool is_last)
{
    const struct byte_range *range = vec_at(&state->ranges, struct byte_range, 0);
    uint64_t start = request->response.range.body_offset + state->given;
    uint64_t end = start + (piece == NULL ? 0 : piece_size(piece));

    state->given += end - start;
    if (piece == NULL || end <= range->start) {
        piece_drop(piece);
        return !is_last || body_filter_next(&state->filter, request, NULL, true);
    }
    uint64_t from = range->start > start ? range->start - start : 0;
    uint64_t to = (range->end < end ? range->end : end) - start;
    struct body_piece part = piece_cut(piece, from, to);
    state->is_finished = end >= range->end || is_last;
    return body_filter_next(&state->filter, request, &part, state->is_finished);
}

static bool send_text(struct range_filter *state, struct request *request, struct str text,
                      bool is_last)
{
    struct body_piece piece = {.bytes = text, .fd = -1};

    return body_filter_next(&state->filter, request, &piece, is_last);
}

/* Passes on the parts of the gathered pieces that are in this range, in order. */
static bool send_range(struct range_filter *state, struct request *request,
                       const struct byte_range *range)
{
    uint64_t start = 0;

    vec_each(const struct body_piece, piece, &state->pieces) {
        uint64_t end = start + piece_size(piece);
        if (range->start < end && range->end > start) {
            uint64_t from = range->start > start ? range->start - start : 0;
            uint64_t to = (range->end < end ? range->end : end) - start;
            struct body_piece part = piece_cut(piece, from, to);
            if (part.release != NULL) {
                ((struct shared_piece *) part.release_arg)->references++;
            }
            if (!body_filter_next(&state->filter, request, &part, false)) {
                return false;
            }
        }
        start = end;
    }
    return true;
}

static bool send_multipart(struct range_filter *state, struct request *request)
{
    bool is_sound = true;

    vec_each(const struct byte_range, range, &state->ranges) {
        is_sound = is_sound && send_text(state, request, part_head(request, state, range), false) &&
                   send_range(state, request, range);
    }
    vec_each(const struct body_piece, piece, &state->pieces) {
        piece_drop(piece);
    }
    return is_sound && send_text(state, request, last_boundary(request, state), true);
}

/* Frees gathered pieces if the request ends before its body. */
static void drop_gathered(void *arg)
{
    struct range_filter *state = arg;

    if (state->is_finished) {
        return;
    }
    vec_each(const struct body_piece, piece, &state->pieces) {
        piece_drop(piece);
    }
}

/* Several ranges may be in any order and overlap: they are cut when all pieces have arrived. */
static bool files_ranges_gather(struct range_filter *state, struct request *request,
                                const struct body_piece *piece, bool is_last)
{
    if (piece != NULL) {
        struct body_piece *kept = vec_add(&state->pieces, &request->arena, struct body_piece);

        *kept = *piece;
        kept->is_flush = false;
        if (kept->is_volatile) {
            kept->bytes = arena_dup(&request->arena, piece->bytes);
            kept->is_volatile = false;
            piece_drop(piece);
            kept->release = NULL;
        }
        piece_share(kept);
    }
    if (!is_last) {
        if (state->pieces.count == 1) {
            arena_on_free(&request->arena, drop_gathered, state);
        }
        return true;
    }
    state->is_finished = true;
    return send_multipart(state, request);
}

static bool range_send(struct body_filter *filter, struct request *request,
                       const struct body_piece *piece, bool is_last)
{
    struct range_filter *state = container_of(filter, struct range_filter, filter);

    if (state->is_finished) {
        piece_drop(piece);
        return true;
    }
    return state->ranges.count == 1 ? send_single(state, request, piece, is_last)
                                    : files_ranges_gather(state, request, piece, is_last);
}

static const struct filter_hook filters[] = {
    {.name = "range", .run = range_header},
    {.run = NULL},
};
static const struct http_module hooks = {.filters = filters};

const struct module ngx_http_range_header_filter_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_http_range_header_filter_module",
    .kind = MODULE_HTTP,
    .hooks = &hooks,
};

/* The body filter is installed by the header filter. */
const struct module ngx_http_range_body_filter_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_http_range_body_filter_module",
    .kind = MODULE_HTTP,
};
