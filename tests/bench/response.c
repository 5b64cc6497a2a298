/* Reads the head of an HTTP/1.1 response. */

#define _GNU_SOURCE
#include "response.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

static bool name_is(const char *line, const char *end, const char *name, size_t size)
{
    return (size_t) (end - line) > size && line[size] == ':' && strncasecmp(line, name, size) == 0;
}

/* One header line, without its CRLF. False: framing that we do not know. */
static bool header_read(const char *line, const char *end, struct head *head)
{
    const char *value;
    uint64_t length = 0;

    if (name_is(line, end, "content-length", 14)) {
        value = line + 15;
        while (value < end && *value == ' ')
            value++;
        if (value == end)
            return false;
        for (; value < end; value++) {
            if (*value < '0' || *value > '9' || length > UINT64_C(1) << 52)
                return false;
            length = length * 10 + (uint64_t) (*value - '0');
        }
        head->length = (int64_t) length;
    } else if (name_is(line, end, "connection", 10)) {
        head->closes = end - line >= 16 && strncasecmp(end - 5, "close", 5) == 0;
    } else if (name_is(line, end, "transfer-encoding", 17)) {
        if (end - line < 26 || strncasecmp(end - 7, "chunked", 7) != 0)
            return false;
        head->length = CHUNKED;
    }
    return true;
}

static bool head_parse(const char *data, size_t size, struct head *head)
{
    const char *line, *line_end, *end = data + size - 2;

    *head = (struct head){.size = size, .length = UNTIL_EOF};
    if (size < 16 || memcmp(data, "HTTP/1.", 7) != 0 || data[8] != ' ')
        return false;
    head->status = atoi(data + 9);
    line = (const char *) memchr(data, '\n', size) + 1;
    while (line < end) {
        line_end = memchr(line, '\r', (size_t) (end - line) + 1);
        if (line_end == NULL || !header_read(line, line_end, head))
            return false;
        line = line_end + 2;
    }
    if (head->status < 200 || head->status == 204 || head->status == 304)
        head->length = 0;
    return true;
}

/* Most answers of a run differ in nothing until the second of Date does. */
int head_find(const char *data, size_t size, struct head *head)
{
    static char last_bytes[512];
    static struct head last;
    const char *end;

    if (last.size > 0 && size >= last.size && memcmp(data, last_bytes, last.size) == 0) {
        *head = last;
        return 1;
    }
    end = memmem(data, size, "\r\n\r\n", 4);
    if (end == NULL)
        return size < HEAD_MAX ? 0 : -1;
    if (!head_parse(data, (size_t) (end - data) + 4, head))
        return -1;
    if (head->size <= sizeof last_bytes) {
        memcpy(last_bytes, data, head->size);
        last = *head;
    }
    return 1;
}
