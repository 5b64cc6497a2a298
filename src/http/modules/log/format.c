/* Formats of access logs: their compilation, and the steps that append values to a line. */
#include "http/modules/log/format.h"

#include "base/clock.h"
#include "base/parse.h"
#include "base/text.h"
#include "http/connection.h"
#include "http/variables.h"

#define VALUE_ROOM 64 /* most bytes of a value of known size: number, time, address */

/* ---- room ---- */

/* The slow path of make_room: the buffer moves. */
static __attribute__((noinline)) char *grow(struct log_line *line, char *at, size_t needed)
{
    struct buf *buf = line->buf;
    size_t used = (size_t) (at - buf->data) - buf->len;

    buf_reserve(buf, used + needed);
    line->end = buf->data + buf->capacity;
    return buf->data + buf->len + used;
}

/* Room for a value of this length and for all that has a known size: only such values have to ask. */
static inline char *make_room(struct log_line *line, char *at, size_t needed)
{
    needed += line->fixed;
    return (size_t) (line->end - at) >= needed ? at : grow(line, at, needed);
}

static char *put(struct log_line *line, char *at, struct str text)
{
    at = make_room(line, at, text.len);
    if (text.len != 0) {
        memcpy(at, text.data, text.len);
    }
    return at + text.len;
}

/* A text of a step, in words. */
static inline char *put_text(char *at, struct str text)
{
    for (size_t i = 0; i < text.len; i += LOG_WORD) {
        memcpy(at + i, text.data + i, LOG_WORD);
    }
    return at + text.len;
}

static inline char *put_three_digits(char *at, unsigned number)
{
    at[0] = (char) ('0' + number / 100);
    at[1] = (char) ('0' + number / 10 % 10);
    at[2] = (char) ('0' + number % 10);
    return at + 3;
}

/* "seconds.milliseconds" */
static char *put_seconds(char *at, uint64_t ms)
{
    at = format_uint(at, ms / 1000);
    *at++ = '.';
    return put_three_digits(at, (unsigned) (ms % 1000));
}

/* ---- escapes ---- */

#define EACH(byte) (UINT64_C(0x0101010101010101) * (byte))

/* The high bit of each byte that is zero; above the lowest of them there may be false ones. */
static inline uint64_t zero_bytes(uint64_t word)
{
    return (word - EACH(0x01)) & ~word & EACH(0x80);
}

/* Is any of eight bytes one that the default escapes? */
static inline bool needs_escape(uint64_t word)
{
    uint64_t below = (word - EACH(0x20)) & ~word;               /* 0x00 to 0x1f */
    uint64_t above = word | ((word & EACH(0x7f)) + EACH(0x01)); /* 0x7f to 0xff */

    return (((below | above) & EACH(0x80)) | zero_bytes(word ^ EACH('"')) |
            zero_bytes(word ^ EACH('\\'))) != 0;
}

/* Sixteen bytes at once, as the compiler finds instructions for it. */
typedef signed char bytes16 __attribute__((vector_size(16)));

/* The same for sixteen. Bytes above 127 are negative here, and so below the blank. */
static inline bool needs_escape_16(bytes16 bytes)
{
    bytes16 bad = (bytes < ' ') | (bytes == 127) | (bytes == '"') | (bytes == '\\');
    uint64_t halves[2];

    memcpy(halves, &bad, sizeof(halves));
    return (halves[0] | halves[1]) != 0;
}

static __attribute__((noinline)) char *put_escaped(struct log_line *line, char *at,
                                                   struct str value, enum escape_set set)
{
    at = make_room(line, at, escape_length(value, set));
    return escape_write(at, value, set);
}

/* Up to fifteen bytes: two words that overlap, or one by one. True: all were copied. */
static inline bool put_short(char *at, struct str value)
{
    uint64_t first;
    uint64_t last;

    if (value.len >= 8) {
        memcpy(&first, value.data, 8);
        memcpy(&last, value.data + value.len - 8, 8);
        memcpy(at, &first, 8);
        memcpy(at + value.len - 8, &last, 8);
        return !needs_escape(first) && !needs_escape(last);
    }
    last = EACH(' ');
    for (size_t i = 0; i < value.len; i++) {
        at[i] = value.data[i];
        last = last << 8 | (unsigned char) value.data[i];
    }
    return !needs_escape(last);
}

/* Sixteen bytes at a time; the last sixteen overlap. */
static inline bool put_long(char *at, struct str value)
{
    const char *last = value.data + value.len - 16;
    char *to = at;
    bytes16 bytes;

    for (const char *from = value.data; from < last; from += 16, to += 16) {
        memcpy(&bytes, from, 16);
        if (needs_escape_16(bytes)) {
            return false;
        }
        memcpy(to, &bytes, 16);
    }
    memcpy(&bytes, last, 16);
    memcpy(at + value.len - 16, &bytes, 16);
    return !needs_escape_16(bytes);
}

/* Copies, and looks for something to be escaped on the way: as a rule there is nothing. */
static inline char *put_default(struct log_line *line, char *at, struct str value)
{
    at = make_room(line, at, value.len);
    if (__builtin_expect(value.len >= 16 ? put_long(at, value) : put_short(at, value), 1)) {
        return at + value.len;
    }
    return put_escaped(line, at, value, ESCAPE_LOG);
}

/* The two of Tengine, which leave a part of the default's bytes alone. */
static char *put_partly(struct log_line *line, char *at, struct str value)
{
    bool is_ascii = line->escape == LOG_ESCAPE_ASCII;

    at = make_room(line, at, value.len * 4);
    for (size_t i = 0; i < value.len; i++) {
        unsigned char c = (unsigned char) value.data[i];
        bool is_control = c < 32 || c == 127;
        if (is_control || (is_ascii ? c == '"' || c == '\\' : c > 127)) {
            at = escape_write(at, (struct str){value.data + i, 1}, ESCAPE_LOG);
        } else {
            *at++ = (char) c;
        }
    }
    return at;
}

static inline char *put_nothing(struct log_line *line, char *at)
{
    *at = '-';
    return line->escape == LOG_ESCAPE_JSON || line->escape == LOG_ESCAPE_NONE ? at : at + 1;
}

/* All but the default. */
static __attribute__((noinline)) char *put_otherwise(struct log_line *line, char *at,
                                                     struct str value)
{
    switch (line->escape) {
    case LOG_ESCAPE_DEFAULT:
    case LOG_ESCAPE_UNSET:
        break;
    case LOG_ESCAPE_JSON:
        return put_escaped(line, at, value, ESCAPE_JSON);
    case LOG_ESCAPE_NONE:
        return put(line, at, value);
    case LOG_ESCAPE_ASCII:
    case LOG_ESCAPE_UNPRINTABLE:
        return put_partly(line, at, value);
    }
    return put_default(line, at, value);
}

char *log_put_value(struct log_line *line, char *at, struct str value)
{
    return line->escape == LOG_ESCAPE_DEFAULT ? put_default(line, at, value)
                                              : put_otherwise(line, at, value);
}

/* ---- steps ---- */

#define STEP(name)                                                                                 \
    static char *name(struct log_line *line, char *at, struct request *request,                    \
                      const struct log_step *step)

STEP(append_text_only)
{
    (void) line;
    (void) request;
    (void) step;
    return at;
}

STEP(append_variable)
{
    struct str value;

    if (!variable_get(&request->env, step->variable, &value)) {
        return put_nothing(line, at);
    }
    return log_put_value(line, at, value);
}

STEP(append_capture)
{
    if (step->capture >= request->env.capture_count) {
        return put_nothing(line, at);
    }
    return log_put_value(line, at, request->env.captures[step->capture]);
}

/* Usual clients are laid out here: the connection would have to keep the text. */
STEP(append_remote_addr)
{
    const struct conn *conn = request->conn;

    (void) step;
    if (conn->address_length == sizeof(conn->peer.v4) && request->http->details == NULL &&
        request->main->client == NULL) {
        return addr_put_v4(at, (const unsigned char *) &conn->peer.v4.sin_addr);
    }
    return put(line, at, request_client_text(request));
}

STEP(append_remote_user)
{
    struct str user;

    (void) step;
    if (fields_get(&request->headers, FIELD_AUTHORIZATION) == NULL ||
        !request_remote_user(request, &user)) {
        return put_nothing(line, at);
    }
    return log_put_value(line, at, user);
}

STEP(append_request)
{
    (void) step;
    return request->line.data == NULL ? put_nothing(line, at)
                                      : log_put_value(line, at, request->line);
}

/* Does a second field of this number stand behind the first? */
static inline bool is_repeated(const struct fields *headers, enum field_id id)
{
    for (uint32_t i = headers->first[id]; i < headers->count; i++) {
        if (headers->items[i].id == id) {
            return true;
        }
    }
    return false;
}

/* A field that as a rule stands in the request once. */
static inline char *append_header(struct log_line *line, char *at, struct request *request,
                                  enum field_id id)
{
    const struct fields *headers = &request->headers;
    unsigned first = headers->first[id];
    struct str value;

    if (first == 0 && headers->count <= UINT8_MAX) {
        return put_nothing(line, at);
    }
    if (first != 0 && !headers->items[first - 1].is_removed && !is_repeated(headers, id)) {
        return log_put_value(line, at, headers->items[first - 1].value);
    }
    return fields_joined(headers, &request->arena, id, &value) ? log_put_value(line, at, value)
                                                               : put_nothing(line, at);
}

STEP(append_referer)
{
    (void) step;
    return append_header(line, at, request, FIELD_REFERER);
}

STEP(append_user_agent)
{
    (void) step;
    return append_header(line, at, request, FIELD_USER_AGENT);
}

STEP(append_forwarded_for)
{
    (void) step;
    return append_header(line, at, request, FIELD_X_FORWARDED_FOR);
}

STEP(append_time_local)
{
    (void) line;
    (void) request;
    (void) step;
    memcpy(at, clock_now.log_local, sizeof(clock_now.log_local));
    return at + sizeof(clock_now.log_local);
}

STEP(append_time_iso8601)
{
    (void) line;
    (void) request;
    (void) step;
    memcpy(at, clock_now.iso8601, sizeof(clock_now.iso8601));
    return at + sizeof(clock_now.iso8601);
}

STEP(append_msec)
{
    (void) line;
    (void) request;
    (void) step;
    return put_seconds(at, (uint64_t) clock_now.seconds * 1000 + clock_now.milliseconds);
}

STEP(append_request_time)
{
    (void) line;
    (void) step;
    return put_seconds(at, request_age_ms(request));
}

STEP(append_status)
{
    unsigned status = request_status(request);

    (void) line;
    (void) step;
    if (status == 0 && request->version < HTTP_1_0) {
        status = 9;
    }
    return status < 1000 ? put_three_digits(at, status) : format_uint(at, status);
}

STEP(append_bytes_sent)
{
    (void) line;
    (void) step;
    return format_uint(at, request_bytes_sent(request));
}

STEP(append_body_bytes_sent)
{
    (void) line;
    (void) step;
    return format_uint(at, request_body_bytes_sent(request));
}

STEP(append_request_length)
{
    (void) line;
    (void) step;
    return format_uint(at, request->head_size + request->body_received);
}

STEP(append_pipe)
{
    (void) line;
    (void) step;
    *at = request->is_pipelined ? 'p' : '.';
    return at + 1;
}

/* Values that need no look at the variables: the ones of usual formats, and those of the moment of writing. */
static const struct known_step {
    struct str name;
    log_append append;
} known_steps[] = {
    {STR_INIT("remote_addr"), append_remote_addr},
    {STR_INIT("remote_user"), append_remote_user},
    {STR_INIT("request"), append_request},
    {STR_INIT("http_referer"), append_referer},
    {STR_INIT("http_user_agent"), append_user_agent},
    {STR_INIT("http_x_forwarded_for"), append_forwarded_for},
    {STR_INIT("time_local"), append_time_local},
    {STR_INIT("time_iso8601"), append_time_iso8601},
    {STR_INIT("msec"), append_msec},
    {STR_INIT("request_time"), append_request_time},
    {STR_INIT("status"), append_status},
    {STR_INIT("bytes_sent"), append_bytes_sent},
    {STR_INIT("body_bytes_sent"), append_body_bytes_sent},
    {STR_INIT("request_length"), append_request_length},
    {STR_INIT("pipe"), append_pipe},
};

static log_append step_for(const struct variable *variable)
{
    for (size_t i = 0; i < sizeof(known_steps) / sizeof(known_steps[0]); i++) {
        if (str_equal(known_steps[i].name, variable->name)) {
            return known_steps[i].append;
        }
    }
    return append_variable;
}

/* ---- compilation ---- */

/* A '$' that no name follows; nginx quotes the rest of the argument then. */
static bool check_dollars(struct conf *conf, const struct conf_node *node, struct str text)
{
    for (size_t i = 0; i < text.len; i++) {
        if (text.data[i] != '$') {
            continue;
        }
        unsigned char next = i + 1 < text.len ? (unsigned char) text.data[i + 1] : 0;
        unsigned char letter = ascii_lower(next);
        if (next != '{' && next != '_' && !ascii_is_digit(next) &&
            !(letter >= 'a' && letter <= 'z')) {
            struct str rest = str_skip(text, i);
            return conf_error(conf, node, "invalid parameter \"%.*s\"", STR_ARG(rest));
        }
    }
    return true;
}

/* Texts are gathered before the value that follows them. */
static void add_text(struct conf *conf, struct log_format *format, struct str text)
{
    size_t count = format->steps.count;
    struct log_step *last = count == 0 ? NULL : vec_at(&format->steps, struct log_step, count - 1);

    if (last == NULL || last->append != append_text_only) {
        last = vec_push(&format->steps, conf->arena, sizeof(*last));
        last->append = append_text_only;
    }
    const struct str parts[] = {last->before, text, STR("                ")};
    last->before = arena_join(conf->arena, parts, 3);
    last->before.len -= LOG_WORD;
    format->fixed += text.len;
}

static struct log_step *add_value(struct conf *conf, struct log_format *format, log_append append)
{
    size_t count = format->steps.count;
    struct log_step *last = count == 0 ? NULL : vec_at(&format->steps, struct log_step, count - 1);

    if (last == NULL || last->append != append_text_only) {
        last = vec_push(&format->steps, conf->arena, sizeof(*last));
    }
    last->append = append;
    format->fixed += VALUE_ROOM;
    return last;
}

bool log_format_compile(struct conf *conf, const struct conf_node *node, struct log_format *format,
                        struct str text)
{
    if (!check_dollars(conf, node, text)) {
        return false;
    }
    const struct template *template = template_compile(conf, node, text);
    if (template == NULL) {
        return false;
    }
    for (unsigned i = 0; i < template->count; i++) {
        const struct template_part *part = &template->parts[i];

        switch (part->kind) {
        case PART_TEXT:
            add_text(conf, format, part->text);
            break;
        case PART_VARIABLE:
            add_value(conf, format, step_for(part->variable))->variable = part->variable;
            break;
        case PART_CAPTURE:
            add_value(conf, format, append_capture)->capture = part->capture;
            break;
        }
    }
    return true;
}

void log_format_write(const struct log_format *format, struct request *request,
                      enum log_escape escape, struct buf *buf)
{
    const struct log_step *step = format->steps.items;
    const struct log_step *end = step + format->steps.count;
    struct log_line line = {
        .buf = buf,
        .escape = format->escape == LOG_ESCAPE_UNSET ? escape : format->escape,
    };

    /* The newline, and what a word writes behind the end. */
    line.fixed = format->fixed + 1 + LOG_WORD;
    char *at = buf_reserve(buf, line.fixed);
    line.end = buf->data + buf->capacity;
    for (; step != end; step++) {
        at = put_text(at, step->before);
        at = step->append(&line, at, request, step);
    }
    *at++ = '\n';
    buf->len = (size_t) (at - buf->data);
}
