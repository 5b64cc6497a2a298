/* The parser for HTTP/1 request headers. */
#include "http/message/parser.h"

#include "base/arena.h"
#include "base/parse.h"
#include "http/message/fields.h"
#include "http/message/repeat.h"
#include "http/message/scan.h"

/* Classes of bytes, one bit each. */
enum {
    IS_METHOD = 1,  /* in method names, as in nginx: A-Z, '_' and '-' */
    IS_NAME = 2,    /* usual in field names: letters, digits, '-' */
    IS_CONTROL = 4, /* below 32, and 127 */
    IS_HOST = 8,    /* in host names: neither a delimiter nor a control character */
    IS_UPPER = 16,
};

#define UPPER IS_METHOD | IS_NAME | IS_HOST | IS_UPPER
#define LOWER IS_NAME | IS_HOST
#define DIGIT IS_NAME | IS_HOST

static const uint8_t classes[256] = {
    [0 ... 31] = IS_CONTROL,
    [127] = IS_CONTROL,
    ['A' ... 'Z'] = UPPER,
    ['a' ... 'z'] = LOWER,
    ['0' ... '9'] = DIGIT,
    ['-'] = IS_METHOD | IS_NAME | IS_HOST,
    ['_'] = IS_METHOD | IS_HOST,
    ['.'] = IS_HOST,
    ['~'] = IS_HOST,
    ['!'] = IS_HOST,
    ['$'] = IS_HOST,
    ['&'] = IS_HOST,
    ['\''] = IS_HOST,
    ['('] = IS_HOST,
    [')'] = IS_HOST,
    ['*'] = IS_HOST,
    ['+'] = IS_HOST,
    [','] = IS_HOST,
    [';'] = IS_HOST,
    ['='] = IS_HOST,
    ['%'] = IS_HOST,
};

static bool is(unsigned char c, unsigned class)
{
    return (classes[c] & class) != 0;
}

static enum parse_result bad_head(struct head *head, unsigned status, const char *reason,
                                  struct str culprit)
{
    head->status = status;
    head->reason = reason;
    head->culprit = culprit;
    return PARSE_BAD;
}

/* Reports a malformed header line: the valid part is shown, up to the byte at which parsing failed.
 * The input ends at `limit`. */
static enum parse_result bad_line(struct head *head, struct str line, const char *limit)
{
    const char *at = line.data;
    const char *end = line.data + line.len;

    while (at < end && *at != ':' && (unsigned char) *at > ' ' && *at != 0x7f) {
        at++;
    }
    if (at < end && *at == ':' && at != line.data) {
        at = end; /* the name is valid, but not what follows the value */
    }
    if (at != limit && *at != '\n' && !(*at == '\r' && at + 1 != limit && at[1] == '\n')) {
        head->has_bad_byte = true;
        head->bad_byte = (unsigned char) *at;
    }
    return bad_head(head, 400, "client sent invalid header line", str_from(line.data, at));
}

/* How the text of a line ends. */
enum line_end { LINE_ENDED, LINE_OPEN, LINE_BROKEN };

/* Finds the end of a line, from `at` on: LF, or CR LF. *text_end: the end of the text; *next: the
 * start of the next line. Tabs are part of the text. LINE_BROKEN at any other control character,
 * such as a bare CR (at *text_end). */
static inline enum line_end find_line_end(const struct scan *scan, const char *at,
                                          const char **text_end, const char **next)
{
    for (;;) {
        at = scan_control(scan, at);
        *text_end = at;
        if (at == scan->end) {
            return LINE_OPEN;
        }
        if (*at == '\r') {
            if (at + 1 == scan->end) {
                return LINE_OPEN;
            }
            if (at[1] != '\n') {
                return LINE_BROKEN;
            }
            *next = at + 2;
            return LINE_ENDED;
        }
        if (*at == '\n') {
            *next = at + 1;
            return LINE_ENDED;
        }
        if (*at != '\t') {
            return LINE_BROKEN;
        }
        at++;
    }
}

/* Parses "HTTP/1.1" at the end of the request line. */
static enum parse_result parse_version(struct head *head, struct str text)
{
    unsigned major = 0;
    unsigned minor = 0;
    size_t i = 5;

    if (text.len == 8 && memcmp(text.data, "HTTP/1.1", 8) == 0) {
        head->version = 11;
        return PARSE_DONE;
    }
    if (!str_starts(text, STR("HTTP/")) || text.len < 6 || text.data[5] == '0') {
        return bad_head(head, 400, "client sent invalid request", STR_NONE);
    }
    for (; i < text.len && ascii_is_digit((unsigned char) text.data[i]) && major < 100; i++) {
        major = major * 10 + (unsigned) (text.data[i] - '0');
    }
    if (i > 5 && major > 1) {
        return bad_head(head, 505, "client sent invalid version", STR_NONE);
    }
    if (i == 5 || i == text.len || text.data[i] != '.') {
        return bad_head(head, 400, "client sent invalid version", STR_NONE);
    }
    size_t minor_start = ++i;
    for (; i < text.len && ascii_is_digit((unsigned char) text.data[i]) && minor < 100; i++) {
        minor = minor * 10 + (unsigned) (text.data[i] - '0');
    }
    if (i == minor_start || i != text.len || minor > 99) {
        return bad_head(head, 400, "client sent invalid request", STR_NONE);
    }
    head->version = minor == 0 ? 10 : 11;
    return PARSE_DONE;
}

/* "http://host:port/path": splits scheme and authority off the target. */
static bool parse_absolute_form(struct head *head)
{
    struct str target = head->target;
    size_t i = 0;

    while (i < target.len && (is((unsigned char) target.data[i], IS_NAME) ||
                              target.data[i] == '+' || target.data[i] == '.')) {
        i++;
    }
    if (i == 0 || !str_starts(str_skip(target, i), STR("://"))) {
        return false;
    }
    head->scheme = str_head(target, i);
    struct str rest = str_skip(target, i + 3);
    for (i = 0;
         i < rest.len && rest.data[i] != '/' && rest.data[i] != '?' && rest.data[i] != '#';) {
        i++;
    }
    head->authority = str_head(rest, i);
    head->path = str_skip(rest, i);
    return i != 0;
}

static bool has_letter_first(struct str s)
{
    unsigned char c = s.len == 0 ? 0 : (unsigned char) s.data[0] | 0x20;
    return c >= 'a' && c <= 'z';
}

static enum parse_result parse_target(struct head *head)
{
    if (head->target.len == 0) {
        return bad_head(head, 400, "client sent invalid request", STR_NONE);
    }
    if (str_equal(head->method, STR("CONNECT"))) {
        head->authority = head->target; /* authority-form (RFC 9112, 3.2.3) */
        return PARSE_DONE;
    }
    if (head->target.data[0] == '/') {
        head->path = head->target;
        return PARSE_DONE;
    }
    if (!has_letter_first(head->target) || !parse_absolute_form(head)) {
        return bad_head(head, 400, "client sent invalid request", STR_NONE);
    }
    return PARSE_DONE;
}

static struct str parser_skip_spaces(struct str s)
{
    while (s.len != 0 && s.data[0] == ' ') {
        s = str_skip(s, 1);
    }
    return s;
}

/* The fast path for "GET /path HTTP/1.1". False: use the general parser. */
static bool parse_usual_line(struct head *head)
{
    struct str line = head->line;

    if (line.len < 14 || memcmp(line.data, "GET /", 5) != 0 ||
        memcmp(line.data + line.len - 9, " HTTP/1.1", 9) != 0) {
        return false;
    }
    struct str target = {line.data + 4, line.len - 13};
    const struct scan scan = {line.data, line.data + line.len - 9};
    if (scan_blank(&scan, target.data) != scan.end) {
        return false;
    }
    head->method = str_head(line, 3);
    head->target = target;
    head->path = target;
    head->version = 11;
    return true;
}

/* The request line: method, target, version (RFC 9112, 3). */
static enum parse_result parse_request_line(struct head *head)
{
    struct str rest = head->line;
    size_t i = 0;

    while (i < rest.len && is((unsigned char) rest.data[i], IS_METHOD)) {
        i++;
    }
    if (i == 0 || i == rest.len || rest.data[i] != ' ') {
        return bad_head(head, 400, "client sent invalid method", STR_NONE);
    }
    head->method = str_head(rest, i);
    rest = parser_skip_spaces(str_skip(rest, i));

    const struct scan scan = {rest.data, rest.data + rest.len};
    head->target = str_from(rest.data, scan_blank(&scan, rest.data));
    rest = str_skip(rest, head->target.len);
    if (rest.len != 0 && rest.data[0] == '\t') {
        return bad_head(head, 400, "client sent invalid request", STR_NONE);
    }
    rest = parser_skip_spaces(rest);
    while (rest.len != 0 && rest.data[rest.len - 1] == ' ') {
        rest.len--;
    }
    if (parse_target(head) == PARSE_BAD) {
        return PARSE_BAD;
    }
    if (rest.len == 0) {
        head->version = 9;
        if (!str_equal(head->method, STR("GET"))) {
            return bad_head(head, 400, "client sent invalid method in HTTP/0.9 request", STR_NONE);
        }
        return PARSE_DONE;
    }
    return parse_version(head, rest);
}

/* The characters of a field name. */
enum name_kind { NAME_USUAL, NAME_ODD, NAME_BAD };

/* Finds the colon after the name at the start of a line, and classifies the name. Most names
 * contain only usual characters; others are examined byte by byte. */
static inline const char *find_colon(const struct scan *scan, const char *at, const char *text_end,
                                     const struct head_limits *limits, enum name_kind *kind)
{
    const char *colon = scan_name_end(scan, at);

    *kind = NAME_USUAL;
    while (colon < text_end && *colon != ':') {
        unsigned char c = (unsigned char) *colon;
        if (!is(c, IS_NAME) && !(c == '_' && limits->underscores)) {
            *kind = c <= ' ' || c == 127 || *kind == NAME_BAD ? NAME_BAD : NAME_ODD;
        }
        colon++;
    }
    if (colon >= text_end || colon == at) {
        *kind = NAME_BAD; /* no colon, or no name */
    }
    return colon;
}

static inline struct str trimmed(const char *start, const char *end)
{
    while (start < end && ascii_is_blank(*start)) {
        start++;
    }
    while (start < end && ascii_is_blank(end[-1])) {
        end--;
    }
    return str_from(start, end);
}

/* Remaining bytes of the header limit. */
static inline uint32_t room_left(const struct field_reading *reading)
{
    uint32_t most = reading->limits->head_max;

    return most > reading->taken ? most - reading->taken : 0;
}

/* Parses a header line, "Name: value" (RFC 9112, 5); without reading->fields it is only checked. */
static inline enum parse_result parse_field(const struct scan *scan, struct str line,
                                            const struct field_reading *reading, struct head *head)
{
    const struct head_limits *limits = reading->limits;
    enum name_kind kind;
    const char *text_end = line.data + line.len;
    const char *colon = find_colon(scan, line.data, text_end, limits, &kind);

    if (kind != NAME_USUAL && limits->skips_status_lines && str_starts(line, STR("HTTP/"))) {
        head->dropped++;
        return PARSE_DONE;
    }
    if (kind == NAME_BAD) {
        return bad_line(head, line, scan->end);
    }
    if (head->headers++ == limits->headers_max) {
        return bad_head(head, 400, "client sent too many header lines", STR_NONE);
    }
    if (reading->fields == NULL) {
        return PARSE_DONE;
    }
    struct str name = str_from(line.data, colon);
    enum field_id id = FIELD_OTHER;
    if (kind == NAME_USUAL) {
        id = field_identify(name);
    } else if (limits->ignore_invalid) {
        if (head->dropped < DROPPED_LINES_MAX) {
            head->dropped_lines[head->dropped] = line;
        }
        head->dropped++;
        return PARSE_DONE;
    }
    fields_add_identified(reading->fields, reading->arena, id, name, trimmed(colon + 1, text_end));
    return PARSE_DONE;
}

/* Reads header lines from lines->line on; up to lines->seen there is no line end. lines->line
 * becomes the start of the incomplete line, or the end of all lines. */
static inline __attribute__((always_inline)) enum parse_result read_lines(
    struct fields_scan *lines, struct str input, const struct field_reading *reading,
    struct head *head)
{
    const struct head_limits *limits = reading->limits;
    const struct scan scan = {input.data, input.data + input.len};
    const char *at = input.data + lines->line;
    const char *from = input.data + lines->seen;
    const uint32_t space = room_left(reading);

    for (;;) {
        const char *text_end;
        const char *next = NULL;
        enum line_end how = find_line_end(&scan, from, &text_end, &next);
        struct str line = str_from(at, text_end);

        lines->line = (uint32_t) (at - input.data);
        if ((size_t) ((next != NULL ? next : text_end) - at) > limits->line_max) {
            return bad_head(head, 494, "client sent too long header line", str_head(line, 64));
        }
        if ((size_t) (text_end - input.data) > space) {
            return bad_head(head, 494, "client sent too large request", STR_NONE);
        }
        if (how == LINE_BROKEN || (line.len != 0 && ascii_is_blank(*at)) ||
            (limits->wants_crlf && how == LINE_ENDED && *text_end == '\n')) {
            return bad_line(head, line, scan.end);
        }
        if (how == LINE_OPEN) {
            lines->seen = (uint32_t) (text_end - input.data);
            return PARSE_MORE;
        }
        if (line.len == 0) {
            lines->line = (uint32_t) (next - input.data);
            return PARSE_DONE;
        }
        if (parse_field(&scan, line, reading, head) == PARSE_BAD) {
            return PARSE_BAD;
        }
        at = from = next;
    }
}

enum parse_result fields_parse(struct str input, const struct field_reading *reading,
                               struct head *head, uint32_t *used)
{
    uint32_t recalled = 0;

    if (reading->repeat != NULL && repeat_recall(reading, room_left(reading), input, &recalled)) {
        *used = recalled;
        return PARSE_DONE;
    }
    struct fields_scan lines = {.line = recalled, .seen = recalled};
    head->headers = reading->fields->count;
    enum parse_result result = read_lines(&lines, input, reading, head);
    *used = lines.line;
    if (reading->repeat != NULL && result == PARSE_DONE && head->dropped == 0) {
        repeat_keep(reading->repeat, str_head(input, *used), reading->limits, reading->fields);
    }
    return result;
}

/* ---- incomplete lines ---- */

/* The state after an incomplete parse; `used` is the offset of the incomplete line. */
static struct fields_scan scan_begin(const struct head *head, uint32_t used)
{
    return (
        struct fields_scan){.line = used, .seen = used, .headers = head->headers, .is_begun = true};
}

/* Examines new bytes, with `taken` as in struct field_reading. False: the lines are still
 * incomplete, and valid. */
static bool scan_on(struct fields_scan *scan, struct str input, const struct head_limits *limits,
                    uint32_t taken)
{
    const struct field_reading reading = {.limits = limits, .taken = taken};
    struct head found = {.headers = scan->headers};
    enum parse_result result = read_lines(scan, input, &reading, &found);

    scan->headers = found.headers;
    return result != PARSE_MORE;
}

enum parse_result fields_parse_parts(struct fields_scan *scan, struct str input,
                                     const struct field_reading *reading, struct head *head,
                                     uint32_t *used)
{
    struct fields *fields = reading->fields;

    if (input.len == 0 ||
        (scan->is_begun && !scan_on(scan, input, reading->limits, reading->taken))) {
        return PARSE_MORE;
    }
    *fields = (struct fields){.items = fields->items, .capacity = fields->capacity};
    enum parse_result result = fields_parse(input, reading, head, used);
    *scan = result == PARSE_MORE ? scan_begin(head, *used) : (struct fields_scan){0};
    return result;
}

/* Checks an incomplete request line, so that garbage is rejected at once. */
static enum parse_result check_open_line(struct str line, struct head *head)
{
    size_t i = 0;

    while (i < line.len && is((unsigned char) line.data[i], IS_METHOD)) {
        i++;
    }
    if (i < line.len && line.data[i] != '\r' && (i == 0 || line.data[i] != ' ')) {
        return bad_head(head, 400, "client sent invalid method", STR_NONE);
    }
    return PARSE_MORE;
}

enum parse_result head_parse(struct str input, const struct field_reading *reading,
                             struct head *head)
{
    const struct head_limits *limits = reading->limits;
    const char *at = input.data;
    const char *end = input.data + input.len;
    const char *text_end;
    const char *next = NULL;
    uint32_t used;

    *head = (struct head){0};
    while (at < end && (*at == '\r' || *at == '\n')) {
        at++; /* empty lines before a request are skipped (RFC 9112, 2.2) */
    }
    if ((size_t) (at - input.data) > limits->head_max) {
        return bad_head(head, 400, "client sent only empty lines", STR_NONE);
    }
    const struct scan scan = {input.data, end};
    enum line_end how = find_line_end(&scan, at, &text_end, &next);
    head->line = str_from(at, text_end);
    if ((size_t) ((next != NULL ? next : text_end) - at) > limits->line_max) {
        head->line = str_head(head->line, limits->line_max);
        return bad_head(head, 414, "client sent too long URI", STR_NONE);
    }
    if (how == LINE_BROKEN) {
        const char *line_end = memchr(text_end, '\n', (size_t) (end - text_end));
        head->line = str_from(at, line_end == NULL ? end : line_end);
        if (str_ends(head->line, STR("\r"))) {
            head->line.len--;
        }
        return check_open_line(str_from(at, text_end), head) == PARSE_BAD
                   ? PARSE_BAD
                   : bad_head(head, 400, "client sent invalid request", STR_NONE);
    }
    if (how == LINE_OPEN) {
        head->scan.open.line = (uint32_t) (at - input.data);
        head->scan.open.seen = (uint32_t) (text_end - input.data);
        head->scan.has_method = memchr(at, ' ', (size_t) (text_end - at)) != NULL;
        return check_open_line(str_from(at, text_end), head);
    }
    if (!parse_usual_line(head) && parse_request_line(head) == PARSE_BAD) {
        return PARSE_BAD;
    }
    head->is_line_done = true;
    if (head->version == 9) {
        head->size = (uint32_t) (next - at);
        head->end = (uint32_t) (next - input.data);
        return PARSE_DONE;
    }
    struct field_reading lines = *reading;
    lines.taken = (uint32_t) (next - input.data);
    enum parse_result result = fields_parse(str_from(next, end), &lines, head, &used);
    head->size = (uint32_t) (next - at) + used;
    head->end = lines.taken + used;
    if (result == PARSE_MORE) {
        head->scan = (struct head_scan){.lines = lines.taken, .open = scan_begin(head, used)};
    }
    return result;
}

/* An incomplete request line with more bytes: must it be parsed? */
static bool scan_request_line(struct head_scan *state, struct str input,
                              const struct head_limits *limits)
{
    const struct scan scan = {input.data, input.data + input.len};
    struct fields_scan *open = &state->open;
    const char *text_end;
    const char *next;

    while (open->seen == open->line && open->line < input.len &&
           (input.data[open->line] == '\r' || input.data[open->line] == '\n')) {
        open->seen = ++open->line; /* empty lines before it */
    }
    const char *line = input.data + open->line;
    const char *at = input.data + open->seen;
    if (open->line > limits->head_max || find_line_end(&scan, at, &text_end, &next) != LINE_OPEN ||
        (size_t) (text_end - line) > limits->line_max) {
        return true;
    }
    while (!state->has_method && at < text_end) {
        state->has_method = *at == ' ' && at != line;
        if (!state->has_method && !is((unsigned char) *at++, IS_METHOD)) {
            return true;
        }
    }
    open->seen = (uint32_t) (text_end - input.data);
    return false;
}

bool head_wants_parsing(struct head_scan *scan, struct str input, const struct head_limits *limits)
{
    if (scan->lines == 0) {
        return scan_request_line(scan, input, limits);
    }
    return scan_on(&scan->open, str_skip(input, scan->lines), limits, scan->lines);
}

bool content_length_parse(struct str value, int64_t *out)
{
    uint64_t number;

    if (!parse_uint(value, &number) || number > INT64_MAX) {
        return false;
    }
    *out = (int64_t) number;
    return true;
}

/* The length of "[…]" at the start, or 0. */
static size_t bracket_length(struct str s)
{
    if (s.len < 2 || s.data[0] != '[') {
        return 0;
    }
    for (size_t i = 1; i < s.len; i++) {
        unsigned char c = (unsigned char) s.data[i];
        if (c == ']') {
            return i + 1;
        }
        if ((!is(c, IS_HOST) && c != ':') || (c == '.' && s.data[i - 1] == '.')) {
            return 0;
        }
    }
    return 0;
}

static struct str lower_copy(struct arena *arena, struct str s)
{
    char *copy = arena_text(arena, s.len);

    for (size_t i = 0; i < s.len; i++) {
        copy[i] = (char) ascii_lower((unsigned char) s.data[i]);
    }
    return (struct str){copy, s.len};
}

bool authority_parse(struct arena *arena, struct str authority, struct str *host, struct str *port)
{
    size_t i = bracket_length(authority);
    bool has_upper = false;

    if (i == 0) {
        for (; i < authority.len; i++) {
            unsigned char c = (unsigned char) authority.data[i];
            if (c == ':') {
                break;
            }
            if (!is(c, IS_HOST) ||
                (c == '.' && i + 1 < authority.len && authority.data[i + 1] == '.')) {
                return false;
            }
            has_upper |= is(c, IS_UPPER);
        }
    } else {
        has_upper = true;
    }
    *host = str_head(authority, i);
    *port = STR_NONE;
    if (i < authority.len) {
        struct str digits = str_skip(authority, i + 1);
        uint64_t number;

        if (authority.data[i] != ':') {
            return false;
        }
        if (digits.len != 0 && (!parse_uint(digits, &number) || number > 65535)) {
            return false;
        }
        *port = digits;
    }
    if (host->len != 0 && host->data[host->len - 1] == '.') {
        host->len--;
    }
    if (host->len == 0) {
        return false;
    }
    if (has_upper) {
        *host = lower_copy(arena, *host);
    }
    return true;
}
