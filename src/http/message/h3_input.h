/* HTTP/3 frames that arrive in pieces on a stream: the state of parsing, and the collected
 * payload. */
#ifndef HTTP_MESSAGE_H3_INPUT_H
#define HTTP_MESSAGE_H3_INPUT_H

#include <stdbool.h>
#include <stddef.h>

#include "http/message/h3_frame.h"

/* What the next bytes of a stream are. */
enum h3_part {
    H3_PART_FRAME,   /* a frame header */
    H3_PART_HEADERS, /* a payload to be collected */
    H3_PART_DATA,
    H3_PART_SKIPPED, /* the payload of a frame that is ignored */
    H3_PART_BLOCKED, /* nothing is read: a field section waits for table entries */
};

/* The current frame. Initially zero. */
struct h3_input {
    struct h3_reader reader;
    uint64_t type;
    uint64_t left; /* remaining bytes of payload */
    char *block;   /* collected payload, from malloc; or NULL */
    size_t block_size;
    enum h3_part part;
};

/* Frees the collected payload. */
void h3_input_free(struct h3_input *input);
/* Collects bytes of the payload, at most `left`. The caller has checked the total size. */
void h3_input_collect(struct h3_input *input, struct str bytes);

/* ---- control streams ---- */

#define H3_CONTROL_FRAME_MAX H3_SETTINGS_MAX /* most bytes of a control frame */

/* Is it a frame type for control streams that RFC 9114 or 9218 defines? Others are skipped. */
bool h3_frame_is_known_control(uint64_t type);

/* Reads bytes of a control stream. may_follow is called after the header of a frame was read;
 * whole, after a known frame is in `block`. If either returns false, reading stops. */
struct h3_control_reader {
    bool (*may_follow)(void *arg, const struct h3_input *input);
    bool (*whole)(void *arg, const struct h3_input *input);
    void *arg;
};
void h3_control_read(struct h3_input *input, struct str bytes,
                     const struct h3_control_reader *reader);

#endif
