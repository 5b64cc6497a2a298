/* HTTP/3 frames, settings and stream types (RFC 9114, 6.2 and 7): parsing and writing. Pure
 * functions on slices. */
#ifndef HTTP_MESSAGE_H3_FRAME_H
#define HTTP_MESSAGE_H3_FRAME_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

enum h3_frame_type {
    H3_DATA = 0x00,
    H3_HEADERS = 0x01,
    H3_CANCEL_PUSH = 0x03,
    H3_SETTINGS = 0x04,
    H3_PUSH_PROMISE = 0x05,
    H3_GOAWAY = 0x07,
    H3_MAX_PUSH_ID = 0x0d,
    H3_PRIORITY_UPDATE = 0xf0700,      /* for a request (RFC 9218, 7.2) */
    H3_PRIORITY_UPDATE_PUSH = 0xf0701, /* for a push */
};

/* Types of unidirectional streams. */
enum h3_stream_type {
    H3_STREAM_CONTROL = 0x00,
    H3_STREAM_PUSH = 0x01,
    H3_STREAM_ENCODER = 0x02,
    H3_STREAM_DECODER = 0x03,
};

enum h3_error {
    H3_NO_ERROR = 0x100,
    H3_GENERAL_PROTOCOL_ERROR = 0x101,
    H3_INTERNAL_ERROR = 0x102,
    H3_STREAM_CREATION_ERROR = 0x103,
    H3_CLOSED_CRITICAL_STREAM = 0x104,
    H3_FRAME_UNEXPECTED = 0x105,
    H3_FRAME_ERROR = 0x106,
    H3_EXCESSIVE_LOAD = 0x107,
    H3_ID_ERROR = 0x108,
    H3_SETTINGS_ERROR = 0x109,
    H3_MISSING_SETTINGS = 0x10a,
    H3_REQUEST_REJECTED = 0x10b,
    H3_REQUEST_CANCELLED = 0x10c,
    H3_REQUEST_INCOMPLETE = 0x10d,
    H3_MESSAGE_ERROR = 0x10e,
    H3_CONNECT_ERROR = 0x10f,
    H3_VERSION_FALLBACK = 0x110,
    QPACK_DECOMPRESSION_FAILED = 0x200,
    QPACK_ENCODER_STREAM_ERROR = 0x201,
    QPACK_DECODER_STREAM_ERROR = 0x202,
};

/* Identifiers of settings. */
enum h3_setting {
    H3_QPACK_MAX_TABLE_CAPACITY = 0x01,
    H3_MAX_FIELD_SECTION_SIZE = 0x06,
    H3_QPACK_BLOCKED_STREAMS = 0x07,
    H3_ENABLE_CONNECT_PROTOCOL = 0x08,
    H3_SETTING_DATAGRAM = 0x33,
};

/* ---- parsing ---- */

/* Bytes of incomplete integers. Initially zero. */
struct h3_reader {
    char bytes[16];
    uint8_t size;
};

/* Takes an integer from *input, which may arrive in pieces. False: the input is used up, and the
 * integer is incomplete. */
bool h3_read_integer(struct h3_reader *reader, struct str *input, uint64_t *out);
/* The same for a frame header: type and length of the payload. */
bool h3_read_frame(struct h3_reader *reader, struct str *input, uint64_t *type, uint64_t *length);

/* May a client send a frame of this type on a request stream? On a control stream? The caller
 * checks for repeated SETTINGS. */
bool h3_frame_is_of_request(uint64_t type);
bool h3_frame_is_of_control(uint64_t type);

/* The peer's SETTINGS; missing ones have their default. */
struct h3_settings {
    uint64_t table_capacity;    /* default 0 */
    uint64_t blocked_streams;   /* default 0 */
    uint64_t field_section_max; /* default UINT64_MAX */
    bool enables_connect;
    bool has_datagrams;
};

#define H3_SETTINGS_MAX 1024 /* most bytes of a SETTINGS frame */

/* Parses a whole payload. H3_NO_ERROR, H3_FRAME_ERROR or H3_SETTINGS_ERROR. */
enum h3_error h3_settings_read(struct str payload, struct h3_settings *out);

/* ---- writing: each function returns the end of what it wrote ---- */

#define H3_INTEGER_ROOM 8
#define H3_FRAME_ROOM (2 * H3_INTEGER_ROOM) /* size of a frame header */

unsigned h3_integer_size(uint64_t value);
char *h3_put_integer(char *at, uint64_t value);
char *h3_put_frame(char *at, uint64_t type, uint64_t length);
char *h3_put_setting(char *at, uint64_t id, uint64_t value);

#endif
