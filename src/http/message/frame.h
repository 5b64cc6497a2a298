/* HTTP/2 frames (RFC 9113, 4 and 6): parses headers, checks sizes, writes frames. Pure
 * functions. */
#ifndef HTTP_MESSAGE_FRAME_H
#define HTTP_MESSAGE_FRAME_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

#define FRAME_HEAD_SIZE 9
#define V2_PREFACE "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
#define FRAME_SIZE_DEFAULT 16384
#define FRAME_SIZE_MAX 16777215 /* maximum of the length field */
#define WINDOW_DEFAULT 65535
#define WINDOW_MAX 0x7fffffff

enum frame_type {
    FRAME_DATA,
    FRAME_HEADERS,
    FRAME_PRIORITY,
    FRAME_RST_STREAM,
    FRAME_SETTINGS,
    FRAME_PUSH_PROMISE,
    FRAME_PING,
    FRAME_GOAWAY,
    FRAME_WINDOW_UPDATE,
    FRAME_CONTINUATION,
    FRAME_PRIORITY_UPDATE = 0x10, /* RFC 9218 */
};
enum frame_flags {
    FLAG_END_STREAM = 1,
    FLAG_ACK = 1,
    FLAG_END_HEADERS = 4,
    FLAG_PADDED = 8,
    FLAG_PRIORITY = 0x20,
};
enum v2_error {
    V2_NO_ERROR,
    V2_PROTOCOL_ERROR,
    V2_INTERNAL_ERROR,
    V2_FLOW_CONTROL_ERROR,
    V2_SETTINGS_TIMEOUT,
    V2_STREAM_CLOSED,
    V2_FRAME_SIZE_ERROR,
    V2_REFUSED_STREAM,
    V2_CANCEL,
    V2_COMPRESSION_ERROR,
    V2_CONNECT_ERROR,
    V2_ENHANCE_YOUR_CALM,
    V2_INADEQUATE_SECURITY,
    V2_HTTP_1_1_REQUIRED,
};
enum v2_setting {
    SETTING_HEADER_TABLE_SIZE = 1,
    SETTING_ENABLE_PUSH,
    SETTING_MAX_CONCURRENT_STREAMS,
    SETTING_INITIAL_WINDOW_SIZE,
    SETTING_MAX_FRAME_SIZE,
    SETTING_MAX_HEADER_LIST_SIZE,
    SETTING_ENABLE_CONNECT_PROTOCOL = 8,
    SETTING_NO_RFC7540_PRIORITIES = 9,
};

struct frame_head {
    uint32_t length;
    uint8_t type; /* an enum frame_type, or a type to be ignored */
    uint8_t flags;
    uint32_t stream; /* 31 bits */
};
/* Parses FRAME_HEAD_SIZE bytes. */
struct frame_head frame_read(const char *at);
/* "DATA" and so on, for logs. */
const char *frame_name(uint8_t type);
char *frame_put(char *at, uint32_t length, uint8_t type, uint8_t flags, uint32_t stream);

/* The checks that need only the header (RFC 9113, 6.x): size, stream id zero or not. V2_NO_ERROR or
 * the error; *is_stream_error: it affects only the stream. */
enum v2_error frame_check(const struct frame_head *head, uint32_t max_size, bool *is_stream_error);

/* Removes padding (and the priority fields of HEADERS) from a whole payload. False:
 * PROTOCOL_ERROR. */
struct frame_priority {
    uint32_t depends_on; /* a stream id; 0 = none */
    uint16_t weight;     /* 1 to 256 */
    bool is_exclusive;   /* streams that depended on that stream depend on this one from now on */
    bool is_there;
};
/* Parses the five bytes of PRIORITY, or of HEADERS (RFC 7540, 6.3). */
struct frame_priority frame_priority_read(const char *at);
bool frame_unpad(const struct frame_head *head, struct str *payload,
                 struct frame_priority *priority);

/* Parses "u=3, i" (RFC 9218, 4): urgency 0 to 7, incremental. Unknown members are ignored. A
 * missing one gets its default, or stays unchanged. */
void priority_parse(struct str value, uint8_t *urgency, bool *is_incremental);
void priority_merge(struct str value, uint8_t *urgency, bool *is_incremental);

static inline uint32_t get_u32(const char *at)
{
    const unsigned char *b = (const unsigned char *) at;
    return (uint32_t) b[0] << 24 | (uint32_t) b[1] << 16 | (uint32_t) b[2] << 8 | b[3];
}
char *put_u32(char *at, uint32_t value);
char *put_u16(char *at, uint16_t value);

#endif
