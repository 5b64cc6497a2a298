/* The parser of HTTP/1 request heads. */
#include "http/v1/parser.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "base/arena.h"
#include "base/parse.h"
#include "http/fields.h"

/* Classes of bytes, one bit each. */
enum {
    IS_METHOD = 1,  /* of a method name, as nginx takes them: A-Z, '_' and '-' */
    IS_NAME = 2,    /* usual in a header name: letters, digits, '-' */
    IS_CONTROL = 4, /* below 32 and 127 */
    IS_HOST = 8,    /* of a host name: what no delimiter or control is */
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
    [128 ... 255] = IS_HOST,
};

static bool is(unsigned char c, unsigned class)
{
    return (classes[c] & class) != 0;
}

static enum parse_result bad(struct head *head, unsigned status, const char *reason,
                             struct str culprit)
{
    head->status = status;
    head->reason = reason;
    head->culprit = culprit;
    return PARSE_BAD;
}

/* The first byte below 32 or equal to 127; end when there is none. Sixteen or eight at a time. */
static inline const char *find_control(const char *at, const char *end)
{
#if defined(__SSE2__)
    const __m128i space = _mm_set1_epi8(32);
    const __m128i delete = _mm_set1_epi8(127);

    while (end - at >= 16) {
        __m128i bytes = _mm_loadu_si128((const __m128i *) (const void *) at);
        /* Unsigned: the greater of a byte and 32 is the byte itself unless it is below. */
        __m128i text = _mm_cmpeq_epi8(_mm_max_epu8(bytes, space), bytes);
        __m128i control =
            _mm_or_si128(_mm_cmpeq_epi8(text, _mm_setzero_si128()), _mm_cmpeq_epi8(bytes, delete));
        unsigned found = (unsigned) _mm_movemask_epi8(control);
        if (found != 0) {
            return at + __builtin_ctz(found);
        }
        at += 16;
    }
#elif __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    const uint64_t ones = 0x0101010101010101u;

    while (end - at >= 8) {
        uint64_t word;
        memcpy(&word, at, sizeof(word));
        uint64_t below = (word - ones * 32) & ~word;
        uint64_t delete = word ^ (ones * 127);
        uint64_t found = (below | ((delete - ones) & ~delete)) & (ones * 128);
        if (found != 0) {
            return at + (__builtin_ctzll(found) >> 3);
        }
        at += 8;
    }
#endif
    while (at < end && !is((unsigned char) *at, IS_CONTROL)) {
        at++;
    }
    return at;
}

/* How the text of a line ended. */
enum line_end { LINE_ENDED, LINE_OPEN, LINE_BROKEN };

/*
 * Finds the end of a line: LF, or CR and LF. *text_end gets the end of the text, *next the start of
 * the next line. Tabs are text. LINE_BROKEN at any other control byte, a bare CR among them
 * (*text_end is there).
 */
static inline enum line_end find_line_end(const char *at, const char *end, const char **text_end,
                                          const char **next)
{
    for (;;) {
        at = find_control(at, end);
        *text_end = at;
        if (at == end) {
            return LINE_OPEN;
        }
        if (*at == '\t') {
            at++;
            continue;
        }
        if (*at == '\n') {
            *next = at + 1;
            return LINE_ENDED;
        }
        if (*at != '\r') {
            return LINE_BROKEN;
        }
        if (at + 1 == end) {
            return LINE_OPEN;
        }
        if (at[1] != '\n') {
            return LINE_BROKEN;
        }
        *next = at + 2;
        return LINE_ENDED;
    }
}

/* "HTTP/1.1" at the end of the request line. */
static enum parse_result parse_version(struct head *head, struct str text)
{
    unsigned major = 0;
    unsigned minor = 0;
    size_t i = 5;

    if (text.len == 8 && memcmp(text.data, "HTTP/1.1", 8) == 0) {
        head->version = 11;
        return PARSE_DONE;
    }
    if (!str_starts(text, STR("HTTP/")) || text.len < 8 || text.data[5] == '0') {
        return bad(head, 400, "client sent invalid request", STR_NONE);
    }
    for (; i < text.len && ascii_is_digit((unsigned char) text.data[i]) && major < 100; i++) {
        major = major * 10 + (unsigned) (text.data[i] - '0');
    }
    if (i == 5 || i == text.len || text.data[i] != '.') {
        return bad(head, 400, "client sent invalid version", STR_NONE);
    }
    size_t minor_start = ++i;
    for (; i < text.len && ascii_is_digit((unsigned char) text.data[i]) && minor < 100; i++) {
        minor = minor * 10 + (unsigned) (text.data[i] - '0');
    }
    if (i == minor_start || i != text.len || minor > 99) {
        return bad(head, 400, "client sent invalid request", STR_NONE);
    }
    if (major > 1) {
        return bad(head, 505, "client sent invalid version", STR_NONE);
    }
    head->version = minor == 0 ? 10 : 11;
    return PARSE_DONE;
}

/* "http://host:port/path": cuts scheme and authority off the target. */
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
        return bad(head, 400, "client sent invalid request", STR_NONE);
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
        return bad(head, 400, "client sent invalid request", STR_NONE);
    }
    return PARSE_DONE;
}

static struct str skip_spaces(struct str s)
{
    while (s.len != 0 && s.data[0] == ' ') {
        s = str_skip(s, 1);
    }
    return s;
}

/* The request line: method, target, version (RFC 9112, 3). */
static enum parse_result parse_request_line(struct head *head)
{
    struct str rest = head->line;
    size_t i = 0;

    if (rest.len > 4 && memcmp(rest.data, "GET ", 4) == 0) {
        i = 3;
    }
    while (i < rest.len && is((unsigned char) rest.data[i], IS_METHOD)) {
        i++;
    }
    if (i == 0 || i == rest.len || rest.data[i] != ' ') {
        return bad(head, 400, "client sent invalid method", STR_NONE);
    }
    head->method = str_head(rest, i);
    rest = skip_spaces(str_skip(rest, i));

    for (i = 0; i < rest.len && rest.data[i] != ' ';) {
        if (rest.data[i++] == '\t') {
            return bad(head, 400, "client sent invalid request", STR_NONE);
        }
    }
    head->target = str_head(rest, i);
    rest = skip_spaces(str_skip(rest, head->target.len));
    while (rest.len != 0 && rest.data[rest.len - 1] == ' ') {
        rest.len--;
    }
    if (parse_target(head) == PARSE_BAD) {
        return PARSE_BAD;
    }
    if (rest.len == 0) {
        head->version = 9;
        if (!str_equal(head->method, STR("GET"))) {
            return bad(head, 400, "client sent invalid method in HTTP/0.9 request", STR_NONE);
        }
        return PARSE_DONE;
    }
    return parse_version(head, rest);
}

/* What a header name is made of. */
enum name_kind { NAME_USUAL, NAME_ODD, NAME_BAD };

/* The length of the name at the start of a line, up to its colon, and what it is made of. */
static size_t scan_name(struct str line, const struct head_limits *limits, enum name_kind *kind)
{
    size_t i = 0;

    *kind = NAME_USUAL;
    for (; i < line.len; i++) {
        unsigned char c = (unsigned char) line.data[i];
        if (is(c, IS_NAME)) {
            continue;
        }
        if (c == ':') {
            break;
        }
        if (c == '_' && limits->underscores) {
            continue;
        }
        *kind = c <= ' ' || c == 127 || *kind == NAME_BAD ? NAME_BAD : NAME_ODD;
    }
    if (i == 0 || i == line.len) {
        *kind = NAME_BAD;
    }
    return i;
}

static inline bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

static inline struct str trim(struct str s)
{
    while (s.len != 0 && is_blank(s.data[0])) {
        s = str_skip(s, 1);
    }
    while (s.len != 0 && is_blank(s.data[s.len - 1])) {
        s.len--;
    }
    return s;
}

/* One header line, "Name: value" (RFC 9112, 5). */
static enum parse_result parse_field(struct str line, const struct head_limits *limits,
                                     struct arena *arena, struct fields *fields, struct head *head)
{
    enum name_kind kind;
    size_t length = scan_name(line, limits, &kind);

    if (kind == NAME_BAD) {
        return bad(head, 400, "client sent invalid header line", line);
    }
    if (head->headers++ == limits->headers_max) {
        return bad(head, 400, "client sent too many header lines", STR_NONE);
    }
    if (kind == NAME_ODD && limits->ignore_invalid) {
        head->dropped++;
        head->culprit = line;
        return PARSE_DONE;
    }
    struct str name = str_head(line, length);
    fields_add_identified(fields, arena, kind == NAME_ODD ? FIELD_OTHER : field_identify(name),
                          name, trim(str_skip(line, length + 1)));
    return PARSE_DONE;
}

enum parse_result fields_parse(struct str input, const struct head_limits *limits,
                               struct arena *arena, struct fields *fields, struct head *head,
                               uint32_t *used)
{
    const char *at = input.data;
    const char *end = input.data + input.len;

    for (;;) {
        const char *text_end;
        const char *next = NULL;
        enum line_end how = find_line_end(at, end, &text_end, &next);

        *used = (uint32_t) (at - input.data);
        if ((size_t) ((next != NULL ? next : text_end) - at) > limits->line_max) {
            return bad(head, 494, "client sent too long header line", str_from(at, at + 64));
        }
        if ((size_t) (text_end - input.data) > limits->head_max) {
            return bad(head, 494, "client sent too large request", STR_NONE);
        }
        if (how == LINE_BROKEN || (text_end > at && (*at == ' ' || *at == '\t'))) {
            return bad(head, 400, "client sent invalid header line", str_from(at, text_end));
        }
        if (how == LINE_OPEN) {
            return PARSE_MORE;
        }
        if (text_end == at) {
            *used = (uint32_t) (next - input.data);
            return PARSE_DONE;
        }
        if (parse_field(str_from(at, text_end), limits, arena, fields, head) == PARSE_BAD) {
            return PARSE_BAD;
        }
        at = next;
    }
}

/* What is wrong with a request line that has not ended yet, if anything: so that garbage is
 * answered at once. */
static enum parse_result check_open_line(struct str line, struct head *head)
{
    size_t i = 0;

    while (i < line.len && is((unsigned char) line.data[i], IS_METHOD)) {
        i++;
    }
    if (i < line.len && line.data[i] != '\r' && (i == 0 || line.data[i] != ' ')) {
        return bad(head, 400, "client sent invalid method", STR_NONE);
    }
    return PARSE_MORE;
}

enum parse_result head_parse(struct str input, const struct head_limits *limits,
                             struct arena *arena, struct fields *fields, struct head *head)
{
    const char *at = input.data;
    const char *end = input.data + input.len;
    const char *text_end;
    const char *next = NULL;
    uint32_t used;

    *head = (struct head){0};
    while (at < end && (*at == '\r' || *at == '\n')) {
        at++; /* empty lines before a request are skipped (RFC 9112, 2.2) */
    }
    if ((size_t) (at - input.data) > limits->line_max) {
        return bad(head, 400, "client sent only empty lines", STR_NONE);
    }
    enum line_end how = find_line_end(at, end, &text_end, &next);
    head->line = str_from(at, text_end);
    if ((size_t) ((next != NULL ? next : text_end) - at) > limits->line_max) {
        head->line = str_head(head->line, limits->line_max);
        return bad(head, 414, "client sent too long URI", STR_NONE);
    }
    if (how == LINE_BROKEN) {
        const char *line_end = memchr(text_end, '\n', (size_t) (end - text_end));
        head->line = str_from(at, line_end == NULL ? end : line_end);
        if (str_ends(head->line, STR("\r"))) {
            head->line.len--;
        }
        return check_open_line(str_from(at, text_end), head) == PARSE_BAD
                   ? PARSE_BAD
                   : bad(head, 400, "client sent invalid request", STR_NONE);
    }
    if (how == LINE_OPEN) {
        return check_open_line(str_from(at, text_end), head);
    }
    if (parse_request_line(head) == PARSE_BAD) {
        return PARSE_BAD;
    }
    head->is_line_done = true;
    if (head->version == 9) {
        head->size = (uint32_t) (next - at);
        head->end = (uint32_t) (next - input.data);
        return PARSE_DONE;
    }
    struct head_limits rest = *limits;
    size_t line_size = (size_t) (next - input.data);
    rest.head_max = limits->head_max > line_size ? limits->head_max - (uint32_t) line_size : 0;
    enum parse_result result = fields_parse(str_from(next, end), &rest, arena, fields, head, &used);
    head->size = (uint32_t) (next - at) + used;
    head->end = (uint32_t) line_size + used;
    return result;
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
        if (!is(c, IS_HOST) && c != ':') {
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
