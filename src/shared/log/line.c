/* Escapes of values in lines of logs. */
#include "shared/log/line.h"

#include "base/text.h"

/* The slow path of log_make_room: moves the buffer. */
char *log_line_grow(struct log_line *line, char *at, size_t needed)
{
    struct buf *buf = line->buf;
    size_t used = (size_t) (at - buf->data) - buf->len;

    buf_reserve(buf, used + needed);
    line->end = buf->data + buf->capacity;
    return buf->data + buf->len + used;
}

/* ---- escapes ---- */

#define EACH(byte) (UINT64_C(0x0101010101010101) * (byte))

/*
 * Does any of eight bytes need an escape by default? If a byte is zero, subtracting one sets its
 * high bit, which was not set; above the lowest such byte there may be false positives.
 */
static inline bool needs_escape(uint64_t word)
{
    uint64_t below = (word - EACH(0x20)) & ~word;               /* 0x00 to 0x1f */
    uint64_t above = word | ((word & EACH(0x7f)) + EACH(0x01)); /* 0x7f to 0xff */
    uint64_t quote = word ^ EACH('"');                          /* zero where there is a quote */
    uint64_t slash = word ^ EACH('\\');

    quote = (quote - EACH(0x01)) & ~quote;
    slash = (slash - EACH(0x01)) & ~slash;
    return ((below | above | quote | slash) & EACH(0x80)) != 0;
}

/* Sixteen bytes at once, for vector instructions of the compiler. */
typedef signed char bytes16 __attribute__((vector_size(16)));

/* The same for sixteen bytes. Bytes above 127 are negative here, and so below ' '. */
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
    at = log_make_room(line, at, escape_length(value, set));
    return escape_write(at, value, set);
}

/* Up to fifteen bytes: two overlapping words, or one by one. True: all were copied. */
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

/* Tengine's two escapes, which leave some of the default's bytes as they are. */
static char *put_partly(struct log_line *line, char *at, struct str value)
{
    bool is_ascii = line->escape == LOG_ESCAPE_ASCII;

    at = log_make_room(line, at, value.len * 4);
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

/* All escapes except the default. */
static char *put_otherwise(struct log_line *line, char *at, struct str value)
{
    switch (line->escape) {
    case LOG_ESCAPE_DEFAULT:
    case LOG_ESCAPE_UNSET:
        break;
    case LOG_ESCAPE_JSON:
        return put_escaped(line, at, value, ESCAPE_JSON);
    case LOG_ESCAPE_NONE:
        return log_put(line, at, value);
    case LOG_ESCAPE_ASCII:
    case LOG_ESCAPE_UNPRINTABLE:
        return put_partly(line, at, value);
    }
    return put_escaped(line, at, value, ESCAPE_LOG);
}

/* The default: copies, and checks on the way whether there is anything to escape, which is rare. */
char *log_put_value(struct log_line *line, char *at, struct str value)
{
    if (__builtin_expect(line->escape != LOG_ESCAPE_DEFAULT, 0)) {
        return put_otherwise(line, at, value);
    }
    at = log_make_room(line, at, value.len);
    if (__builtin_expect(value.len >= 16 ? put_long(at, value) : put_short(at, value), 1)) {
        return at + value.len;
    }
    return put_escaped(line, at, value, ESCAPE_LOG);
}
