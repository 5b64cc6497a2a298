/* Parses responses of a CA: HTTP/1.1 (RFC 9112), and values of fields. */
#include <time.h>

#include "base/buf.h"
#include "base/parse.h"
#include "base/chunked.h"
#include "http/message/fields.h"
#include "http/message/parser.h"
#include "http/modules/clients/acme/acme.h"

#define HEAD_MAX 32768
/* A longer nonce is ignored, like one that is not base64url (RFC 8555, 6.5.1). */
#define NONCE_MAX 512

/* ---- fields ---- */

int64_t acme_retry_after(struct str value, int64_t now)
{
    uint64_t seconds;

    if (value.len == 0) {
        return 0;
    }
    if (parse_uint(value, &seconds)) {
        return seconds < ACME_WAIT_MOST_S ? (int64_t) seconds : ACME_WAIT_MOST_S;
    }
    time_t when = http_date_parse_loosely(value);
    if (when == (time_t) -1 || (int64_t) when <= now) {
        return 0;
    }
    return (int64_t) when - now < ACME_WAIT_MOST_S ? (int64_t) when - now : ACME_WAIT_MOST_S;
}

static bool take_digits(struct str *text, size_t count, int *out)
{
    uint64_t number;

    if (text->len < count || !parse_uint(str_head(*text, count), &number)) {
        return false;
    }
    *text = str_skip(*text, count);
    *out = (int) number;
    return true;
}

static bool take_byte(struct str *text, const char *bytes)
{
    if (text->len == 0 || strchr(bytes, text->data[0]) == NULL || text->data[0] == '\0') {
        return false;
    }
    *text = str_skip(*text, 1);
    return true;
}

/* Parses "Z" or "+01:00" to seconds that are to be subtracted. */
static bool take_zone(struct str *text, int64_t *out)
{
    int hours, minutes;

    *out = 0;
    if (take_byte(text, "Zz")) {
        return true;
    }
    bool is_east = text->len != 0 && text->data[0] == '+';
    if (!take_byte(text, "+-") || !take_digits(text, 2, &hours) || !take_byte(text, ":") ||
        !take_digits(text, 2, &minutes) || hours > 23 || minutes > 59) {
        return false;
    }
    *out = (is_east ? 1 : -1) * (hours * 3600 + minutes * 60);
    return true;
}

bool acme_time_parse(struct str text, int64_t *out)
{
    struct tm parts = {.tm_isdst = 0};
    int64_t offset;

    if (!take_digits(&text, 4, &parts.tm_year) || !take_byte(&text, "-") ||
        !take_digits(&text, 2, &parts.tm_mon) || !take_byte(&text, "-") ||
        !take_digits(&text, 2, &parts.tm_mday) || !take_byte(&text, "Tt ") ||
        !take_digits(&text, 2, &parts.tm_hour) || !take_byte(&text, ":") ||
        !take_digits(&text, 2, &parts.tm_min) || !take_byte(&text, ":") ||
        !take_digits(&text, 2, &parts.tm_sec)) {
        return false;
    }
    if (take_byte(&text, ".")) {
        while (text.len != 0 && ascii_is_digit((unsigned char) text.data[0])) {
            text = str_skip(text, 1);
        }
    }
    if (!take_zone(&text, &offset) || text.len != 0 || parts.tm_year < 1970 || parts.tm_mon < 1 ||
        parts.tm_mon > 12 || parts.tm_mday < 1 || parts.tm_mday > 31 || parts.tm_hour > 23 ||
        parts.tm_min > 59 || parts.tm_sec > 60) {
        return false;
    }
    parts.tm_year -= 1900;
    parts.tm_mon--;
    *out = (int64_t) timegm(&parts) - offset;
    return true;
}

/* <URL>;rel="alternate" */
static void take_link(struct str value, struct acme_answer *out)
{
    const char *end = value.len != 0 && value.data[0] == '<' ? str_find_char(value, '>') : NULL;

    if (end == NULL || out->alternate_count == ACME_CHAIN_MAX) {
        return;
    }
    struct str rest = str_from(end + 1, value.data + value.len);
    if (str_find(rest, STR("rel=\"alternate\"")) != NULL ||
        str_find(rest, STR("rel=alternate")) != NULL) {
        out->alternates[out->alternate_count++] = str_from(value.data + 1, end);
    }
}

bool acme_is_base64url(struct str text)
{
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char) text.data[i];

        if (!ascii_is_digit(c) && (unsigned char) (ascii_lower(c) - 'a') >= 26 && c != '-' &&
            c != '_') {
            return false;
        }
    }
    return text.len != 0;
}

static bool take_fields(const struct fields *fields, struct acme_answer *out, int64_t *length,
                        bool *is_chunked)
{
    *length = -1;
    *is_chunked = false;
    for (uint32_t i = 0; i < fields->count; i++) {
        const struct field *field = &fields->items[i];

        if (field->id == FIELD_LOCATION) {
            out->location = field->value;
        } else if (field->id == FIELD_LINK) {
            take_link(field->value, out);
        } else if (field->id == FIELD_CONTENT_TYPE) {
            out->content_type = field->value;
        } else if (field->id == FIELD_TRANSFER_ENCODING) {
            *is_chunked = true;
            if (!str_equal_nocase(field->value, STR("chunked"))) {
                return false;
            }
        } else if (field->id == FIELD_CONTENT_LENGTH) {
            if (*length != -1 || !content_length_parse(field->value, length)) {
                return false;
            }
        } else if (str_equal_nocase(field->name, STR("Replay-Nonce")) &&
                   acme_is_base64url(field->value) && field->value.len <= NONCE_MAX) {
            out->nonce = field->value;
        } else if (str_equal_nocase(field->name, STR("Retry-After"))) {
            out->retry_after = field->value;
        }
    }
    return *length <= ACME_ANSWER_MAX;
}

/* ---- the response ---- */

static enum acme_read read_chunks(struct arena *arena, struct str input, struct str *body)
{
    struct chunked chunked = {.state = 0};
    struct buf out = {0};
    enum chunked_result result;
    struct str data;

    while ((result = chunked_decode(&chunked, &input, &data)) == CHUNKED_DATA &&
           out.len + data.len <= ACME_ANSWER_MAX) {
        buf_append(&out, data);
    }
    if (result == CHUNKED_LAST) {
        *body = arena_dup(arena, buf_str(&out));
    }
    buf_free(&out);
    return result == CHUNKED_LAST ? ACME_WHOLE : result == CHUNKED_MORE ? ACME_MORE : ACME_BAD;
}

/* "HTTP/1.1 200 OK" */
static bool read_status(struct str line, unsigned *status)
{
    uint64_t number;

    if (line.len < 12 || !str_starts(line, STR("HTTP/1.")) || line.data[8] != ' ' ||
        !parse_uint(str_head(str_skip(line, 9), 3), &number) || number < 100) {
        return false;
    }
    *status = (unsigned) number;
    return true;
}

static enum acme_read read_one(struct arena *arena, struct str *input, bool is_end, bool is_head,
                               struct acme_answer *out)
{
    static const struct head_limits limits = {.line_max = 8192,
                                              .head_max = HEAD_MAX,
                                              .headers_max = 100,
                                              .ignore_invalid = true};
    struct fields fields = {.items = NULL};
    const struct field_reading reading = {.limits = &limits, .arena = arena, .fields = &fields};
    struct head head = {.status = 0};
    const char *end = str_find_char(*input, '\n');
    uint32_t used = 0;
    int64_t length;
    bool is_chunked;

    if (end == NULL) {
        return is_end || input->len > HEAD_MAX ? ACME_BAD : ACME_MORE;
    }
    if (!read_status(str_from(input->data, end), &out->status)) {
        return ACME_BAD;
    }
    *input = str_from(end + 1, input->data + input->len);
    enum parse_result parsed = fields_parse(*input, &reading, &head, &used);
    if (parsed != PARSE_DONE) {
        return parsed == PARSE_BAD || is_end ? ACME_BAD : ACME_MORE;
    }
    if (!take_fields(&fields, out, &length, &is_chunked)) {
        return ACME_BAD;
    }
    *input = str_skip(*input, used);
    if (is_head || out->status / 100 == 1 || out->status == 204 || out->status == 304) {
        return ACME_WHOLE;
    }
    out->is_chunked = is_chunked;
    if (is_chunked) {
        enum acme_read result = read_chunks(arena, *input, &out->body);
        return result == ACME_MORE && is_end ? ACME_BAD : result;
    }
    if (length >= 0 && input->len >= (size_t) length) {
        out->body = str_head(*input, (size_t) length);
        return ACME_WHOLE;
    }
    if (length >= 0 || !is_end) {
        out->missing = length >= 0 ? (size_t) length - input->len : 0;
        return is_end ? ACME_BAD : ACME_MORE;
    }
    out->body = *input;
    return ACME_WHOLE;
}

enum acme_read acme_answer_read(struct arena *arena, struct str input, bool is_end, bool is_head,
                                struct acme_answer *out)
{
    /* Interim responses (RFC 9110, 15.2) may precede the final one. */
    for (unsigned i = 0; i < 4; i++) {
        *out = (struct acme_answer){.body = STR("")};
        enum acme_read result = read_one(arena, &input, is_end, is_head, out);
        if (result != ACME_WHOLE || out->status / 100 != 1) {
            return result;
        }
    }
    return ACME_BAD;
}
