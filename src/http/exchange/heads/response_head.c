/* Heads of responses: the status line, the fields, and what they say of the body's length. */
#include "http/exchange/heads/response_head.h"

#include <stdio.h>

#include "http/message/fields.h"
#include "http/message/status.h"
#include "http/message/parser.h"
#include "http/message/repeat.h"

/* Blocks of responses that are remembered, for all locations of the worker. */
#define REPEATS 16

/* How much of a line that is refused is shown. */
#define SHOWN_MAX 128

/* Fields that a response has once; another one with the same name is not believed. */
#define SINGLE_IDS                                                                                 \
    (FIELD_BIT(FIELD_CONTENT_TYPE) | FIELD_BIT(FIELD_LAST_MODIFIED) | FIELD_BIT(FIELD_ETAG) |      \
     FIELD_BIT(FIELD_LOCATION) | FIELD_BIT(FIELD_REFRESH) | FIELD_BIT(FIELD_EXPIRES) |             \
     FIELD_BIT(FIELD_ACCEPT_RANGES) | FIELD_BIT(FIELD_CONTENT_ENCODING) |                          \
     FIELD_BIT(FIELD_CONTENT_RANGE) | FIELD_BIT(FIELD_SERVER) | FIELD_BIT(FIELD_DATE) |            \
     FIELD_BIT(FIELD_STATUS) | FIELD_BIT(FIELD_X_ACCEL_REDIRECT) |                                 \
     FIELD_BIT(FIELD_X_ACCEL_EXPIRES) | FIELD_BIT(FIELD_X_ACCEL_LIMIT_RATE) |                      \
     FIELD_BIT(FIELD_X_ACCEL_BUFFERING) | FIELD_BIT(FIELD_X_ACCEL_CHARSET))

/* Fields that say where the response ends: a second one is a reason to refuse it. */
#define FRAMING_IDS (FIELD_BIT(FIELD_CONTENT_LENGTH) | FIELD_BIT(FIELD_TRANSFER_ENCODING))

/* What somebody here has to look at. */
#define LOOKED_AT (SINGLE_IDS | FRAMING_IDS)

/* ---- the status line ---- */

/* Three digits, as they stand before a reason. */
static bool parse_status(const char *at, unsigned *status)
{
    unsigned value = 0;

    for (int i = 0; i < 3; i++) {
        if (!ascii_is_digit((unsigned char) at[i])) {
            return false;
        }
        value = value * 10 + (unsigned) (at[i] - '0');
    }
    *status = value;
    return value >= 100;
}

/* A reason that is the usual one need not be carried along. */
static struct str unusual_reason(unsigned status, struct str reason)
{
    return str_equal(reason, status_phrase(status)) ? STR_NONE : reason;
}

static bool has_control(struct str text)
{
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char) text.data[i];
        if ((c < ' ' && c != '\t') || c == 127) {
            return true;
        }
    }
    return false;
}

enum head_result upstream_response_parse_status_line(struct str input,
                                                     struct upstream_response *response,
                                                     size_t *used)
{
    static const char start[] = "HTTP/1.1 200";
    size_t known = input.len < 5 ? input.len : 5;

    if (known == 0) {
        return HEAD_MORE;
    }
    if (memcmp(input.data, start, known) != 0) {
        return HEAD_BAD;
    }
    uint32_t seen = response->scan.seen < input.len ? response->scan.seen : 0;
    const char *end = memchr(input.data + seen, '\n', input.len - seen);
    response->scan.seen = end == NULL ? (uint32_t) input.len : 0;
    if (end == NULL) {
        return HEAD_MORE;
    }
    struct str line = str_from(input.data, end);
    *used = line.len + 1;
    if (line.len != 0 && line.data[line.len - 1] == '\r') {
        line.len--;
    }
    if (line.len < sizeof(start) - 1 || line.data[5] != '1' || line.data[6] != '.' ||
        !ascii_is_digit((unsigned char) line.data[7]) || line.data[8] != ' ' ||
        !parse_status(line.data + 9, &response->status)) {
        return HEAD_BAD;
    }
    response->version = line.data[7] == '0' ? HTTP_1_0 : HTTP_1_1;
    struct str rest = str_skip(line, sizeof(start) - 1);
    if ((rest.len != 0 && rest.data[0] != ' ') || has_control(rest)) {
        return HEAD_BAD;
    }
    response->reason = unusual_reason(response->status, str_trim(rest));
    return HEAD_DONE;
}

enum head_result upstream_response_read_status_line(struct exchange *x)
{
    static const struct str usual = STR_INIT("HTTP/1.1 200 OK\r\n");
    struct str input = exchange_input(x);
    size_t used;

    if (input.len == 0) {
        return HEAD_MORE;
    }
    if (str_starts(input, usual)) {
        x->response.version = HTTP_1_1;
        x->response.status = 200;
        exchange_consume(x, usual.len);
        return HEAD_DONE;
    }
    enum head_result result = upstream_response_parse_status_line(input, &x->response, &used);
    if (result == HEAD_DONE) {
        x->response.reason = exchange_keep(x, x->response.reason);
        exchange_consume(x, used);
    }
    return result;
}

/* ---- fields ---- */

static enum head_result refuse_line(struct exchange *x, const struct head *head)
{
    if (head->status == 494) {
        log_error(&x->request->log, 0, "upstream sent too big header");
    } else {
        struct str shown = str_head(head->culprit, SHOWN_MAX);
        char more[sizeof("\\xff...")] = "";

        if (head->has_bad_byte) {
            snprintf(more, sizeof(more), "\\x%02x...", head->bad_byte);
        }
        log_error(&x->request->log, 0, "upstream sent invalid header: \"%.*s%s\"", STR_ARG(shown),
                  more);
    }
    return HEAD_BAD;
}

static bool refuse_repeated(struct exchange *x, const struct field *field)
{
    log_error(&x->request->log, 0, "upstream sent duplicate header line: \"%.*s: %.*s\"",
              STR_ARG(field->name), STR_ARG(field->value));
    return false;
}

static void drop_repeated(struct exchange *x, struct field *field)
{
    const struct field *former = fields_get(&x->response.fields, field->id);

    log_warn(&x->request->log, 0,
             "upstream sent duplicate header line: \"%.*s: %.*s\", previous value: \"%.*s: %.*s\", "
             "ignored",
             STR_ARG(field->name), STR_ARG(field->value), STR_ARG(former->name),
             STR_ARG(former->value));
    field->is_removed = true;
}

/* Content-Length and Transfer-Encoding (RFC 9112, 6.1, 6.3). */
static bool read_framing(struct exchange *x, const struct field *field)
{
    if (field->id == FIELD_TRANSFER_ENCODING) {
        if (!str_equal_nocase(field->value, STR("chunked"))) {
            log_error(&x->request->log, 0, "upstream sent unknown \"Transfer-Encoding\": \"%.*s\"",
                      STR_ARG(str_head(field->value, SHOWN_MAX)));
            return false;
        }
        return true;
    }
    if (!content_length_parse(field->value, &x->response.content_length)) {
        log_error(&x->request->log, 0, "upstream sent invalid \"Content-Length\" header: \"%.*s\"",
                  STR_ARG(str_head(field->value, SHOWN_MAX)));
        return false;
    }
    return true;
}

/* `Status: 404 Not Found` (RFC 3875, 6.3.3). */
static bool read_cgi_status(struct exchange *x)
{
    struct upstream_response *response = &x->response;
    const struct field *field = fields_get(&response->fields, FIELD_STATUS);

    if (response->status != 0) {
        return true;
    }
    if (field == NULL) {
        response->status = fields_get(&response->fields, FIELD_LOCATION) != NULL ? 302 : 200;
        return true;
    }
    struct str value = field->value;
    if (value.len < 3 || !parse_status(value.data, &response->status) ||
        (value.len > 3 && value.data[3] != ' ')) {
        log_error(&x->request->log, 0, "upstream sent invalid status \"%.*s\"",
                  STR_ARG(str_head(value, SHOWN_MAX)));
        return false;
    }
    response->reason = unusual_reason(response->status, str_trim(str_skip(value, 3)));
    return true;
}

/* An interim response has no body, and nothing that frames one (RFC 9112, 6.1, 6.2). */
static void drop_framing(struct fields *fields)
{
    if ((fields->seen & FRAMING_IDS) == 0) {
        return;
    }
    fields_each(field, fields) {
        field->is_removed |= (FIELD_BIT(field->id) & FRAMING_IDS) != 0;
    }
}

/* What the fields say together; those that are not believed are dropped. */
bool upstream_response_check_fields(struct exchange *x)
{
    struct fields *fields = &x->response.fields;
    uint64_t seen = 0;

    x->response.content_length = -1;
    if (x->response.status >= 100 && x->response.status < 200) {
        drop_framing(fields);
        return true;
    }
    if (!fields->has_repeats && (fields->seen & FRAMING_IDS) != FRAMING_IDS) {
        enum field_id id = (fields->seen & FIELD_BIT(FIELD_CONTENT_LENGTH)) != 0
                               ? FIELD_CONTENT_LENGTH
                               : FIELD_TRANSFER_ENCODING;
        const struct field *field = fields_get(fields, id);
        return field == NULL || read_framing(x, field);
    }
    fields_each(field, fields) {
        uint64_t bit = FIELD_BIT(field->id);

        if ((bit & LOOKED_AT) == 0) {
            continue;
        }
        if ((seen & bit) != 0) {
            if ((bit & FRAMING_IDS) != 0) {
                return refuse_repeated(x, field);
            }
            drop_repeated(x, field);
        }
        seen |= bit;
        if ((bit & FRAMING_IDS) != 0 && !read_framing(x, field)) {
            return false;
        }
    }
    if ((seen & FRAMING_IDS) == FRAMING_IDS) {
        log_error(
            &x->request->log, 0,
            "upstream sent \"Content-Length\" and \"Transfer-Encoding\" headers at the same time");
        return false;
    }
    return true;
}

enum head_result upstream_response_parse_fields(struct exchange *x, struct str input, bool is_cgi,
                                                size_t *used)
{
    struct fields *fields = &x->response.fields;
    uint64_t buffer_size = x->settings->buffer_size;
    uint32_t most = buffer_size < UINT32_MAX ? (uint32_t) buffer_size : UINT32_MAX;
    const struct head_limits limits = {.line_max = most,
                                       .head_max = most,
                                       .headers_max = UINT32_MAX,
                                       .underscores = true,
                                       .skips_status_lines = true};
    /* The block of an earlier response at this location, which the backend may repeat. */
    static struct repeated repeats[REPEATS];
    struct arena *arena = &x->request->arena;
    const struct field_reading reading = {
        .limits = &limits,
        .arena = arena,
        .fields = fields,
        .repeat = &repeats[(uintptr_t) x->settings / sizeof(*x->settings) % REPEATS],
    };
    struct head head = {0};
    uint32_t size;

    switch (fields_parse_parts(&x->response.scan, input, &reading, &head, &size)) {
    case PARSE_MORE:
        return HEAD_MORE;
    case PARSE_BAD:
        return refuse_line(x, &head);
    case PARSE_DONE:
        break;
    }
    *used = size;
    ptrdiff_t distance = arena_dup(arena, str_head(input, size)).data - input.data;
    fields_each(field, fields) { /* they live as long as the request */
        field->name.data += distance;
        field->value.data += distance;
    }
    return upstream_response_check_fields(x) && (!is_cgi || read_cgi_status(x)) ? HEAD_DONE
                                                                                : HEAD_BAD;
}

enum head_result upstream_response_read_fields(struct exchange *x, bool is_cgi)
{
    size_t used;
    enum head_result result = upstream_response_parse_fields(x, exchange_input(x), is_cgi, &used);

    if (result == HEAD_DONE) {
        exchange_consume(x, used);
    }
    return result;
}
