/* The protocol of Redis, RESP2 and RESP3. */
#include "store/resp.h"

#include "base/parse.h"

/* The first line of a value. */
struct head {
    char type;
    struct str text; /* after the type */
    size_t size;     /* bytes of the line, with its end */
};

/* Finds the end of the line; looks at each byte only once. False: more bytes are needed; or
 *is_bad. */
static bool find_line(struct str input, size_t *searched, struct head *head, bool *is_bad)
{
    while (*searched < input.len) {
        const char *cr = memchr(input.data + *searched, '\r', input.len - *searched);
        size_t at = cr == NULL ? input.len : (size_t) (cr - input.data);

        *searched = at;
        if (at > RESP_LINE_MAX) {
            *is_bad = true;
            return false;
        }
        if (at + 1 >= input.len) {
            return false;
        }
        if (at == 0 || input.data[at + 1] != '\n') {
            *is_bad = true; /* a line of RESP contains no other CR */
            return false;
        }
        *head = (struct head){*input.data, str_from(input.data + 1, cr), at + 2};
        *searched = 0;
        return true;
    }
    return false;
}

/* The number in the head of a string or an aggregate; *is_null for the -1 of RESP2. */
static bool head_count(const struct head *head, uint64_t *count, bool *is_null)
{
    *is_null = str_is(head->text, "-1") && (head->type == '$' || head->type == '*');
    *count = 0;
    return *is_null || parse_uint(head->text, count);
}

static bool type_is_string(char type)
{
    return type == '$' || type == '=' || type == '!';
}

static bool type_is_line(char type)
{
    return type != '\0' && strchr("+-:_#,(", type) != NULL;
}

/* The number of values for each element that an aggregate announces; 0: not an aggregate. */
static unsigned values_each(char type)
{
    switch (type) {
    case '*':
    case '~':
    case '>':
        return 1;
    case '%':
    case '|':
        return 2;
    default:
        return 0;
    }
}

/* Updates the scan with the head of a value. */
static bool scan_head(struct resp_scan *scan, const struct head *head, size_t size_max)
{
    unsigned each = values_each(head->type);
    uint64_t count;
    bool is_null;

    scan->at += head->size;
    scan->left -= head->type != '|'; /* attributes precede their value */
    if (type_is_line(head->type)) {
        return true;
    }
    if ((each == 0 && !type_is_string(head->type)) || !head_count(head, &count, &is_null)) {
        return false;
    }
    if (is_null) {
        return true;
    }
    if (each != 0) {
        if (count > RESP_VALUES_MAX) {
            return false;
        }
        scan->left += count * each;
        return scan->left <= RESP_VALUES_MAX;
    }
    if (count > size_max || scan->at > size_max) {
        return false;
    }
    scan->at += count + 2;
    scan->ends_string = true;
    return true;
}

enum resp_result resp_scan(struct resp_scan *scan, struct str input, size_t size_max)
{
    struct head head;
    bool is_bad = false;

    if (!scan->has_begun) {
        scan->has_begun = true;
        scan->left = 1;
    }
    for (;;) {
        if (scan->at > size_max) {
            return RESP_BAD;
        }
        if (scan->at > input.len) {
            return RESP_MORE;
        }
        if (scan->ends_string) {
            if (memcmp(input.data + scan->at - 2, "\r\n", 2) != 0) {
                return RESP_BAD;
            }
            scan->ends_string = false;
        }
        if (scan->left == 0) {
            return RESP_WHOLE;
        }
        if (!find_line(str_skip(input, scan->at), &scan->searched, &head, &is_bad)) {
            return is_bad || scan->at + scan->searched > size_max ? RESP_BAD : RESP_MORE;
        }
        if (!scan_head(scan, &head, size_max)) {
            return RESP_BAD;
        }
    }
}

/* ---- values ---- */

/* Takes the value that begins with a head off *reply. */
static bool head_value(struct str *reply, const struct head *head, struct resp_value *value)
{
    unsigned each = values_each(head->type);
    uint64_t count;
    bool is_null;

    *value = (struct resp_value){.type = RESP_STRING, .text = head->text};
    switch (head->type) {
    case '-':
        value->type = RESP_ERROR;
        return true;
    case ':':
        value->type = RESP_INTEGER;
        return parse_int(head->text, &value->number);
    case '_':
        value->type = RESP_NULL;
        return true;
    case '#':
        value->type = RESP_BOOLEAN;
        value->number = str_is(head->text, "t");
        return true;
    default:
        break;
    }
    if (type_is_line(head->type)) {
        return true;
    }
    if (!head_count(head, &count, &is_null)) {
        return false;
    }
    if (is_null) {
        value->type = RESP_NULL;
        return true;
    }
    if (each != 0) {
        value->type = head->type == '>' ? RESP_PUSH : RESP_LIST;
        value->number = (int64_t) (count * each);
        return count <= RESP_VALUES_MAX;
    }
    if (!type_is_string(head->type) || reply->len < 2 || count > reply->len - 2) {
        return false;
    }
    value->type = head->type == '!' ? RESP_ERROR : RESP_STRING;
    value->text = str_head(*reply, count);
    *reply = str_skip(*reply, count + 2);
    if (head->type == '=' && count >= 4) {
        value->text = str_skip(value->text, 4); /* "txt:" */
    }
    return true;
}

bool resp_next(struct str *reply, struct resp_value *value)
{
    uint64_t attributes = 0; /* values to skip before the next one */

    for (;;) {
        struct head head;
        size_t searched = 0;
        bool is_bad = false;

        if (!find_line(*reply, &searched, &head, &is_bad)) {
            return false;
        }
        *reply = str_skip(*reply, head.size);
        if (!head_value(reply, &head, value)) {
            return false;
        }
        if (head.type == '|') {
            attributes += (uint64_t) value->number;
        } else if (attributes == 0) {
            return true;
        } else {
            attributes--;
            attributes +=
                value->type == RESP_LIST || value->type == RESP_PUSH ? (uint64_t) value->number : 0;
        }
    }
}

bool resp_skip(struct str *reply, uint64_t count)
{
    struct resp_value value;

    while (count > 0) {
        if (!resp_next(reply, &value)) {
            return false;
        }
        count--;
        if (value.type == RESP_LIST || value.type == RESP_PUSH) {
            count += (uint64_t) value.number;
        }
    }
    return true;
}

int64_t resp_next_list(struct str *reply)
{
    struct resp_value value;

    return resp_next(reply, &value) && value.type == RESP_LIST ? value.number : -1;
}

bool resp_next_string(struct str *reply, struct str *text)
{
    struct resp_value value;

    if (!resp_next(reply, &value) || value.type != RESP_STRING) {
        return false;
    }
    *text = value.text;
    return true;
}

bool resp_next_integer(struct str *reply, int64_t *number)
{
    struct resp_value value;

    if (!resp_next(reply, &value)) {
        return false;
    }
    if (value.type == RESP_STRING) {
        return parse_int(value.text, number);
    }
    *number = value.number;
    return value.type == RESP_INTEGER;
}

/* ---- commands ---- */

struct str resp_command(struct arena *arena, const struct str *words, size_t count)
{
    size_t size = 24;

    for (size_t i = 0; i < count; i++) {
        size += words[i].len + 26; /* "$", 20 digits and two line ends */
    }
    char *bytes = arena_text(arena, size), *at = bytes;
    at = format_uint(STR_PUT(at, "*"), count);
    at = STR_PUT(at, "\r\n");
    for (size_t i = 0; i < count; i++) {
        at = format_uint(STR_PUT(at, "$"), words[i].len);
        at = STR_PUT(at, "\r\n");
        at = str_put(at, words[i]);
        at = STR_PUT(at, "\r\n");
    }
    return str_from(bytes, at);
}
