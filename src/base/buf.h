/* Growing byte buffers on the heap, for text that belongs to no arena: log lines, dumps, messages.
   And writing to buffers of fixed size. */
#ifndef BASE_BUF_H
#define BASE_BUF_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/str.h"

/* Bytes that grow at the end. Zero-initialised is empty. */
struct buf {
    char *data;      /* malloc'ed; owned */
    size_t len;      /* bytes used */
    size_t capacity; /* bytes allocated */
};

/* Makes space for at least `more` bytes after len; the caller writes there and adds to len. */
char *buf_reserve(struct buf *buf, size_t more);
void buf_append(struct buf *buf, struct str s);
void buf_append_char(struct buf *buf, char c);
void buf_printf(struct buf *buf, const char *format, ...) __attribute__((format(printf, 2, 3)));
void buf_vprintf(struct buf *buf, const char *format, va_list args);
void buf_free(struct buf *buf);

static inline struct str buf_str(const struct buf *buf)
{
    return (struct str){buf->data, buf->len};
}

/*
 * Writes to a buffer of fixed size: each call writes what fits and never beyond the end. Used for
 * log lines and response heads, whose size was computed or has a hard limit.
 */
struct writer {
    char *at;  /* next byte to write */
    char *end; /* one past the last byte */
};

static inline void writer_put(struct writer *writer, struct str s)
{
    size_t n = (size_t) (writer->end - writer->at);
    if (s.len < n) {
        n = s.len;
    }
    if (n != 0) {
        memcpy(writer->at, s.data, n);
        writer->at += n;
    }
}

/* Formatted text, cut at the end of the buffer; a NUL is not counted. */
void writer_printf(struct writer *writer, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void writer_vprintf(struct writer *writer, const char *format, va_list args);

#endif
