/* Responses as nodes give them to each other. docs/scaling-out.md describes the form. */
#include "http/exchange/cache/shared_text.h"

#include <stdio.h>
#include <string.h>

#include "base/parse.h"
#include "base/text.h"
#include "http/message/stored.h"

#define SECONDS_MAX (100u * 366 * 86400) /* of a time that is believed */
#define LINE_MAX 160

bool shared_text_begin(struct buf *text, const struct shared_times *times,
                       const struct upstream_response *response)
{
    char variant[2 * CACHE_KEY_SIZE], line[LINE_MAX];

    hex_encode(variant, times->variant, CACHE_KEY_SIZE);
    int length =
        snprintf(line, sizeof(line), "%llu %llu %llu %llu %.*s\nHTTP/1.1 %03u ",
                 (unsigned long long) times->valid_s,
                 (unsigned long long) times->stale_while_updating_s,
                 (unsigned long long) times->stale_if_error_s, (unsigned long long) times->age_s,
                 (int) sizeof(variant), variant, response->status);
    size_t before = text->len;
    buf_append(text, (struct str){line, (size_t) length});
    buf_append(text, response->reason);
    buf_append(text, STR("\r\n"));
    fields_each(field, &response->fields) {
        if (!field->is_removed) {
            buf_append(text, field->name);
            buf_append(text, STR(": "));
            buf_append(text, field->value);
            buf_append(text, STR("\r\n"));
        }
    }
    buf_append(text, STR("\r\n"));
    return text->len - before <= STORED_HEAD_MAX;
}

static bool take_seconds(struct str *line, uint64_t *seconds)
{
    return parse_uint(str_cut(line, ' '), seconds) && *seconds <= SECONDS_MAX;
}

bool shared_text_read(struct str text, struct arena *arena, struct shared_times *times,
                      struct upstream_response *response, struct str *body)
{
    const char *end = str_find_char(str_head(text, LINE_MAX), '\n');
    struct stored stored;

    if (end == NULL) {
        return false;
    }
    struct str line = str_from(text.data, end), rest = str_skip(text, line.len + 1);
    if (!take_seconds(&line, &times->valid_s) ||
        !take_seconds(&line, &times->stale_while_updating_s) ||
        !take_seconds(&line, &times->stale_if_error_s) || !take_seconds(&line, &times->age_s) ||
        line.len != 2 * CACHE_KEY_SIZE || !hex_decode(line, times->variant) ||
        stored_parse(rest, rest.len, arena, &stored) != NULL || stored.status > 599) {
        return false;
    }
    *response = (struct upstream_response){.status = stored.status,
                                           .reason = stored.reason,
                                           .version = HTTP_1_1,
                                           .fields = stored.fields,
                                           .content_length = -1};
    *body = stored.body;
    return true;
}
