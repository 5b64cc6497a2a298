/* Growing byte buffers on the heap, and formatted output into buffers of fixed size. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/fatal.h"

enum { FIRST_CAPACITY = 256 };

char *buf_reserve(struct buf *buf, size_t more)
{
    if (more <= buf->capacity - buf->len && buf->data != NULL) {
        return buf->data + buf->len;
    }
    size_t wanted;
    if (__builtin_add_overflow(buf->len, more, &wanted)) {
        fatal_no_memory(SIZE_MAX);
    }
    size_t capacity = buf->capacity == 0 ? FIRST_CAPACITY : buf->capacity;
    while (capacity < wanted) {
        if (capacity > SIZE_MAX / 2) {
            capacity = wanted;
            break;
        }
        capacity *= 2;
    }
    char *data = realloc(buf->data, capacity);
    if (data == NULL) {
        fatal_no_memory(capacity);
    }
    buf->data = data;
    buf->capacity = capacity;
    return data + buf->len;
}

void buf_append(struct buf *buf, struct str s)
{
    if (s.len != 0) {
        memcpy(buf_reserve(buf, s.len), s.data, s.len);
        buf->len += s.len;
    }
}

void buf_append_char(struct buf *buf, char c)
{
    *buf_reserve(buf, 1) = c;
    buf->len++;
}

void buf_vprintf(struct buf *buf, const char *format, va_list args)
{
    va_list again;
    va_copy(again, args);
    char *at = buf_reserve(buf, 1);
    size_t free_bytes = buf->capacity - buf->len;
    int n = vsnprintf(at, free_bytes, format, args);
    if (n > 0 && (size_t) n >= free_bytes) {
        at = buf_reserve(buf, (size_t) n + 1);
        n = vsnprintf(at, (size_t) n + 1, format, again);
    }
    va_end(again);
    if (n > 0) {
        buf->len += (size_t) n;
    }
}

void buf_printf(struct buf *buf, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    buf_vprintf(buf, format, args);
    va_end(args);
}

void buf_free(struct buf *buf)
{
    free(buf->data);
    *buf = (struct buf){0};
}

/*
 * vsnprintf uses the last byte of the buffer for its NUL, so text that needs that byte is formatted
 * into a copy and cut. If there is no memory for the copy, the last byte is lost.
 */
void writer_vprintf(struct writer *writer, const char *format, va_list args)
{
    size_t free_bytes = (size_t) (writer->end - writer->at);
    va_list again;
    va_copy(again, args);
    int n = vsnprintf(writer->at, free_bytes, format, args);

    if (n > 0 && (size_t) n < free_bytes) {
        writer->at += n;
    } else if (n > 0 && free_bytes != 0) {
        char *copy = malloc(free_bytes + 1);
        if (copy != NULL) {
            vsnprintf(copy, free_bytes + 1, format, again);
            memcpy(writer->at, copy, free_bytes);
            writer->at = writer->end;
            free(copy);
        } else {
            writer->at = writer->end - 1;
        }
    }
    va_end(again);
}

void writer_printf(struct writer *writer, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    writer_vprintf(writer, format, args);
    va_end(args);
}
