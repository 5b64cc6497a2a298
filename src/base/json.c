/* JSON (RFC 8259): writes a document, and reads a text value by value. */
#include "base/json.h"

#include "base/parse.h"
#include "base/text.h"

/* ---- writing ---- */

static void put_escaped(struct buf *out, struct str text)
{
    char *at = buf_reserve(out, escape_length(text, ESCAPE_JSON));

    out->len += (size_t) (escape_write(at, text, ESCAPE_JSON) - at);
}

/* Takes the UTF-8 up to the first invalid bytes, which are dropped. */
static struct str take_utf8(struct str *text)
{
    struct str rest = *text;

    while (rest.len != 0) {
        struct str good = rest;

        if (utf8_next(&rest) == UINT32_MAX) {
            struct str run = str_from(text->data, good.data);
            *text = rest;
            return run;
        }
    }
    struct str run = *text;
    *text = rest;
    return run;
}

void json_put_text(struct json *json, struct str text)
{
    buf_append_char(json->out, '"');
    while (text.len != 0) {
        put_escaped(json->out, take_utf8(&text));
    }
    buf_append_char(json->out, '"');
}

void json_put_name(struct json *json, struct str name)
{
    if (json->has_member) {
        buf_append_char(json->out, ',');
    }
    json->has_member = true;
    if (name.len != 0) {
        json_put_text(json, name);
        buf_append_char(json->out, ':');
    }
}

void json_put_number(struct json *json, const char *name, uint64_t number)
{
    json_put_name(json, str_of(name));
    buf_printf(json->out, "%llu", (unsigned long long) number);
}

void json_put_string(struct json *json, const char *name, struct str text)
{
    json_put_name(json, str_of(name));
    json_put_text(json, text);
}

void json_put_flag(struct json *json, const char *name, bool flag)
{
    json_put_name(json, str_of(name));
    buf_append(json->out, flag ? STR("true") : STR("false"));
}

void json_open(struct json *json, struct str name, char bracket)
{
    json_put_name(json, name);
    buf_append_char(json->out, bracket);
    json->has_member = false;
}

void json_close(struct json *json, char bracket)
{
    buf_append_char(json->out, bracket);
    json->has_member = true;
}

/* ---- reading ---- */

static void json_skip_blanks(struct json_text *text)
{
    while (text->at < text->end && ascii_is_space(*text->at)) {
        text->at++;
    }
}

static struct str rest_of(const struct json_text *text)
{
    return str_from(text->at, text->end);
}

char json_peek(struct json_text *text)
{
    json_skip_blanks(text);
    if (text->at == text->end) {
        return 0;
    }
    char next = *text->at;
    if (next == '-' || ascii_is_digit((unsigned char) next)) {
        return '0';
    }
    return memchr("{[\"tfn", next, 6) != NULL ? next : 0;
}

bool json_skip(struct json_text *text, char byte)
{
    json_skip_blanks(text);
    if (text->at == text->end || *text->at != byte) {
        return false;
    }
    text->at++;
    return true;
}

bool json_take_word(struct json_text *text, struct str word)
{
    json_skip_blanks(text);
    if (!str_starts(rest_of(text), word)) {
        return false;
    }
    text->at += word.len;
    return true;
}

bool json_take_number(struct json_text *text, uint64_t *out)
{
    json_skip_blanks(text);
    const char *start = text->at;
    while (text->at < text->end && ascii_is_digit((unsigned char) *text->at)) {
        text->at++;
    }
    struct str digits = str_from(start, text->at);
    bool is_padded = digits.len > 1 && *digits.data == '0';
    bool is_fraction = text->at < text->end && memchr(".eE", *text->at, 3) != NULL;
    return !is_padded && !is_fraction && parse_uint(digits, out);
}

/* The four hex digits after "\u". */
static bool take_unit(struct json_text *text, uint32_t *unit)
{
    uint64_t value;

    if (text->end - text->at < 4 || !parse_hex((struct str){text->at, 4}, &value)) {
        return false;
    }
    text->at += 4;
    *unit = (uint32_t) value;
    return true;
}

static bool take_point(struct json_text *text, uint32_t *point)
{
    uint32_t low;

    if (!take_unit(text, point)) {
        return false;
    }
    if (*point < 0xd800 || *point > 0xdfff) {
        return true;
    }
    if (*point > 0xdbff || !str_starts(rest_of(text), STR("\\u"))) {
        return false;
    }
    text->at += 2;
    if (!take_unit(text, &low) || low < 0xdc00 || low > 0xdfff) {
        return false;
    }
    *point = 0x10000 + ((*point - 0xd800) << 10) + (low - 0xdc00);
    return true;
}

static char *put_point(char *at, uint32_t point)
{
    if (point < 0x80) {
        *at++ = (char) point;
        return at;
    }
    unsigned tail = point < 0x800 ? 1 : point < 0x10000 ? 2 : 3;
    static const unsigned char heads[] = {0, 0xc0, 0xe0, 0xf0};
    *at++ = (char) (heads[tail] | point >> (6 * tail));
    while (tail-- > 0) {
        *at++ = (char) (0x80 | (point >> (6 * tail) & 0x3f));
    }
    return at;
}

/* The part of an escape after the backslash. */
static bool take_escape(struct json_text *text, char **at)
{
    static const char names[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
    uint32_t point;

    if (text->at == text->end) {
        return false;
    }
    char next = *text->at++;
    if (next == 'u') {
        if (!take_point(text, &point)) {
            return false;
        }
        *at = put_point(*at, point);
        return true;
    }
    const char *name = memchr(names, next, sizeof(names) - 1);
    if (name == NULL) {
        return false;
    }
    *(*at)++ = values[name - names];
    return true;
}

/* The closing quote of the string that text->at is in; NULL if there is none. */
static const char *find_quote(const struct json_text *text, bool *has_escapes)
{
    *has_escapes = false;
    for (const char *at = text->at; at < text->end; at++) {
        if (*at == '"') {
            return at;
        }
        if (*at == '\\') {
            *has_escapes = true;
            at++;
        }
    }
    return NULL;
}

/* Is it UTF-8 without control characters? */
static bool is_clean(struct str bytes)
{
    while (bytes.len != 0) {
        uint32_t point = utf8_next(&bytes);

        if (point == UINT32_MAX || point < ' ') {
            return false;
        }
    }
    return true;
}

bool json_take_string(struct json_text *text, struct str *out)
{
    bool has_escapes;

    if (!json_skip(text, '"')) {
        return false;
    }
    const char *quote = find_quote(text, &has_escapes);
    if (quote == NULL || !is_clean(str_from(text->at, quote))) {
        return false;
    }
    if (!has_escapes) {
        *out = str_from(text->at, quote);
        text->at = quote + 1;
        return true;
    }
    char *start = arena_text(text->arena, (size_t) (quote - text->at)), *at = start;
    struct json_text inside = {text->at, quote, text->arena};
    while (inside.at < quote) {
        if (*inside.at != '\\') {
            *at++ = *inside.at++;
            continue;
        }
        inside.at++;
        if (!take_escape(&inside, &at)) {
            return false;
        }
    }
    *out = str_from(start, at);
    text->at = quote + 1;
    return true;
}

bool json_next_member(struct json_text *text, bool *is_first, struct str *name, bool *is_end)
{
    bool was_first = *is_first;

    *is_first = false;
    *is_end = json_skip(text, '}');
    if (*is_end) {
        return true;
    }
    return (was_first || json_skip(text, ',')) && json_take_string(text, name) &&
           json_skip(text, ':');
}

bool json_next_item(struct json_text *text, bool *is_first, bool *is_end)
{
    bool was_first = *is_first;

    *is_first = false;
    *is_end = json_skip(text, ']');
    return *is_end || was_first || json_skip(text, ',');
}

static bool skip_number(struct json_text *text)
{
    const char *start = text->at;

    while (text->at < text->end && memchr("+-.eE0123456789", *text->at, 15) != NULL) {
        text->at++;
    }
    return text->at != start;
}

static bool skip_scalar(struct json_text *text)
{
    struct str ignored;

    switch (json_peek(text)) {
    case '"':
        return json_take_string(text, &ignored);
    case '0':
        return skip_number(text);
    case 't':
        return json_take_word(text, STR("true"));
    case 'f':
        return json_take_word(text, STR("false"));
    case 'n':
        return json_take_word(text, STR("null"));
    default:
        return false;
    }
}

/* After a value: closes the objects and lists that end there, up to the comma before the next
   value. False: malformed. */
static bool skip_ends(struct json_text *text, const char *open, unsigned *depth)
{
    while (*depth != 0 && json_skip(text, open[*depth - 1] == '{' ? '}' : ']')) {
        --*depth;
    }
    return *depth == 0 || json_skip(text, ',');
}

bool json_skip_value(struct json_text *text)
{
    char open[JSON_DEPTH_MOST];
    unsigned depth = 0;

    do {
        struct str ignored;

        if (depth != 0 && open[depth - 1] == '{' &&
            !(json_take_string(text, &ignored) && json_skip(text, ':'))) {
            return false;
        }
        char kind = json_peek(text);
        if (kind != '{' && kind != '[') {
            if (!skip_scalar(text) || !skip_ends(text, open, &depth)) {
                return false;
            }
            continue;
        }
        if (depth == JSON_DEPTH_MOST) {
            return false;
        }
        open[depth++] = kind;
        text->at++;
        if (json_skip(text, kind == '{' ? '}' : ']')) {
            depth--;
            if (!skip_ends(text, open, &depth)) {
                return false;
            }
        }
    } while (depth != 0);
    return true;
}

bool json_is_over(struct json_text *text)
{
    json_skip_blanks(text);
    return text->at == text->end;
}
