/* A stored response: an HTTP/1.1 header, and the body. */
#include "http/message/stored.h"

#include "base/parse.h"
#include "http/message/parser.h"

#define FIELDS_MAX 1000

/* Takes "HTTP/1.1 200 OK" and its line end. False: malformed. */
static bool take_status(struct str *rest, struct stored *out)
{
    const char *end = str_find_char(str_head(*rest, STORED_HEAD_MAX), '\n');
    uint64_t number;

    if (end == NULL) {
        return false;
    }
    struct str line = str_from(rest->data, end);
    *rest = str_skip(*rest, line.len + 1);
    if (line.len != 0 && line.data[line.len - 1] == '\r') {
        line.len--;
    }
    if (line.len < 12 || !str_starts(line, STR("HTTP/1.")) ||
        !ascii_is_digit((unsigned char) line.data[7]) || line.data[8] != ' ' ||
        (line.len > 12 && line.data[12] != ' ') ||
        !parse_uint((struct str){line.data + 9, 3}, &number) || number < 200 || number > 999) {
        return false;
    }
    out->status = (unsigned) number;
    out->reason = str_trim(str_skip(line, 12));
    return true;
}

const char *stored_parse(struct str bytes, uint64_t size, struct arena *arena, struct stored *out)
{
    static const struct head_limits limits = {.line_max = STORED_HEAD_MAX,
                                              .head_max = STORED_HEAD_MAX,
                                              .headers_max = FIELDS_MAX,
                                              .underscores = true};
    uint64_t elsewhere = size - bytes.len;

    *out = (struct stored){0};
    const struct field_reading reading = {.limits = &limits,
                                          .arena = arena,
                                          .fields = &out->fields};
    struct head head = {0};
    uint32_t used = 0;

    if (!take_status(&bytes, out)) {
        return "status line";
    }
    switch (fields_parse(bytes, &reading, &head, &used)) {
    case PARSE_DONE:
        break;
    case PARSE_MORE:
        return "header, which is cut short";
    case PARSE_BAD:
        return "header";
    }
    out->body = str_skip(bytes, used);
    const struct field *length = fields_get(&out->fields, FIELD_CONTENT_LENGTH);
    uint64_t announced;
    if (length != NULL &&
        (!parse_uint(length->value, &announced) || announced != out->body.len + elsewhere)) {
        return "body, of another length than it announces";
    }
    return NULL;
}
