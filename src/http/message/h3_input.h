/* Frames of HTTP/3 as their bytes come on a stream: where a reader is in them, and what it collects
 * of a payload. */
#ifndef HTTP_MESSAGE_H3_INPUT_H
#define HTTP_MESSAGE_H3_INPUT_H

#include <stdbool.h>
#include <stddef.h>

#include "http/message/h3_frame.h"

/* What the bytes of a stream are at this place. */
enum h3_part {
    H3_PART_FRAME,   /* the head of a frame */
    H3_PART_HEADERS, /* a payload that is collected */
    H3_PART_DATA,
    H3_PART_SKIPPED, /* a frame that means nothing here */
    H3_PART_BLOCKED, /* a field section waits for entries; nothing is read meanwhile */
};

/* A frame that is read. All zero: none has begun. */
struct h3_input {
    struct h3_reader reader;
    uint64_t type;
    uint64_t left; /* bytes of payload to come */
    char *block;   /* payload that is collected, from malloc; or NULL */
    size_t block_size;
    enum h3_part part;
};

/* Frees what was collected of a frame. */
void h3_input_free(struct h3_input *input);
/* Keeps the next bytes of a payload, at most `left`. The caller has checked that the whole is not
 * too long. */
void h3_input_collect(struct h3_input *input, struct str bytes);

/* ---- control streams ---- */

#define H3_CONTROL_FRAME_MAX H3_SETTINGS_MAX /* bytes of a frame that is read */

/* Is it a frame of control streams that RFC 9114 or 9218 defines? Others are skipped. */
bool h3_frame_is_known_control(uint64_t type);

/*
 * Reads bytes of a control stream. may_follow: the head of a frame was read; whole: a known one is
 * in block. After either, nothing more is read where it gives false.
 */
struct h3_control_reader {
    bool (*may_follow)(void *arg, const struct h3_input *input);
    bool (*whole)(void *arg, const struct h3_input *input);
    void *arg;
};
void h3_control_read(struct h3_input *input, struct str bytes,
                     const struct h3_control_reader *reader);

#endif
