/* Records of FastCGI 1.0 and the names and values inside them: bytes to numbers and back, nothing
 * else. For the module and for health probes. */
#ifndef HTTP_EXCHANGE_PROBE_RECORDS_H
#define HTTP_EXCHANGE_PROBE_RECORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

/* Types of records (FastCGI 1.0, 8). */
enum record_type {
    RECORD_BEGIN_REQUEST = 1,
    RECORD_ABORT_REQUEST = 2,
    RECORD_END_REQUEST = 3,
    RECORD_PARAMS = 4,
    RECORD_STDIN = 5,
    RECORD_STDOUT = 6,
    RECORD_STDERR = 7,
    RECORD_DATA = 8,
    RECORD_GET_VALUES = 9,
    RECORD_GET_VALUES_RESULT = 10,
    RECORD_UNKNOWN_TYPE = 11,
};

enum {
    RECORD_VERSION = 1,
    RECORD_HEADER_SIZE = 8,
    RECORD_CONTENT_MAX = 65535,
    RECORD_BEGIN_SIZE = 16,     /* of a whole BEGIN_REQUEST */
    RECORD_BEGIN_FLAGS_AT = 10, /* where its flags stand */
    RECORD_END_SIZE = 8,        /* content of END_REQUEST */
};

#define RECORD_KEEP_CONN 1 /* in the flags of BEGIN_REQUEST */

/* protocolStatus of END_REQUEST (5.5). */
enum record_end {
    RECORD_REQUEST_COMPLETE = 0,
    RECORD_CANT_MPX_CONN = 1,
    RECORD_OVERLOADED = 2,
    RECORD_UNKNOWN_ROLE = 3,
};

/* A header, in the order of its bytes. */
struct record {
    uint8_t version;  /* RECORD_VERSION, or the backend is wrong */
    uint8_t type;     /* enum record_type, or what the backend made up */
    uint16_t id;      /* of the request; 0 = of the connection */
    uint16_t content; /* bytes that follow */
    uint8_t padding;  /* bytes that follow them */
};

/* Reads a header from RECORD_HEADER_SIZE bytes. */
static inline struct record record_read(const char *at)
{
    const unsigned char *byte = (const unsigned char *) at;

    return (struct record){
        .version = byte[0],
        .type = byte[1],
        .id = (uint16_t) (byte[2] << 8 | byte[3]),
        .content = (uint16_t) (byte[4] << 8 | byte[5]),
        .padding = byte[6],
    };
}

/* Writes a header without padding; gives the place after it. */
static inline char *record_write(char *at, enum record_type type, uint16_t id, uint16_t content)
{
    at[0] = RECORD_VERSION;
    at[1] = (char) type;
    at[2] = (char) (id >> 8);
    at[3] = (char) id;
    at[4] = (char) (content >> 8);
    at[5] = (char) content;
    at[6] = at[7] = 0;
    return at + RECORD_HEADER_SIZE;
}

/* Writes a whole BEGIN_REQUEST for a responder: RECORD_BEGIN_SIZE bytes. */
char *record_write_begin(char *at, uint16_t id, bool keeps);

/* Bytes that records_write_params writes at most for pairs of this size. */
static inline size_t records_params_room(size_t size)
{
    return size + (size / RECORD_CONTENT_MAX + 2) * RECORD_HEADER_SIZE;
}

/* Frames names and values: as many PARAMS records as it takes, and the empty one. */
char *records_write_params(char *at, uint16_t id, struct str pairs);

/* Gives another request id to all records of a text that holds whole records. */
void records_set_id(char *text, size_t size, uint16_t id);

/* Most bytes that a length takes. */
#define PAIR_LENGTH_SIZE 4

/* A length before a name or a value: one byte, or four from 128 on (3.4). Below 2^31. */
static inline char *pair_write_length(char *at, size_t length)
{
    if (length < 128) {
        *at = (char) length;
        return at + 1;
    }
    at[0] = (char) (length >> 24 | 0x80);
    at[1] = (char) (length >> 16);
    at[2] = (char) (length >> 8);
    at[3] = (char) length;
    return at + 4;
}

/* A name and its value; at most 8 bytes more than both. */
char *pair_write(char *at, struct str name, struct str value);

/* Takes the next pair off *rest. False: there is none, or it is cut short. */
bool pair_read(struct str *rest, struct str *name, struct str *value);

/* GET_VALUES for the three that matter, ready to be sent. */
extern const struct str get_values_record;

/* What a backend said of itself (4.1). */
struct backend_facts {
    uint32_t connections_max; /* FCGI_MAX_CONNS; 0 = it did not say */
    uint32_t requests_max;    /* FCGI_MAX_REQS; 0 = it did not say */
    bool multiplexes;         /* FCGI_MPXS_CONNS=1 */
};

/* Reads the content of GET_VALUES_RESULT; what is malformed there counts as not said. */
struct backend_facts facts_read(struct str content);

#endif
