/* Boxes of ISO base media files (ISO/IEC 14496-12): read from slices, written to a buffer. Pure
 * functions. */
#ifndef HTTP_MODULES_CONTENT_MP4_BOXES_H
#define HTTP_MODULES_CONTENT_MP4_BOXES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/str.h"

/* The type of a box: its four letters as a number. */
#define BOX(a, b, c, d)                                                                            \
    ((uint32_t) (a) << 24 | (uint32_t) (b) << 16 | (uint32_t) (c) << 8 | (uint32_t) (d))

#define BOX_HEAD 8        /* bytes of size and type */
#define BOX_HEAD_LARGE 16 /* bytes of size and type where the size has 64 bits */

/* The head of a box. */
struct box_head {
    uint32_t type;
    unsigned length; /* bytes of the head */
    uint64_t size;   /* bytes of the whole box */
};

/* A box in a slice. */
struct box {
    uint32_t type;
    struct str data;  /* without the head */
    struct str whole; /* with the head; data == NULL: there is no such box */
};

/* The table of a full box: version and flags, a count, and that many items. */
struct box_table {
    const char *items; /* the first */
    uint32_t count;
};

static inline uint32_t box_get32(const char *at)
{
    const unsigned char *byte = (const unsigned char *) at;

    return BOX(byte[0], byte[1], byte[2], byte[3]);
}

static inline uint64_t box_get64(const char *at)
{
    return (uint64_t) box_get32(at) << 32 | box_get32(at + 4);
}

/* Reads the head at the beginning of `bytes`, which are BOX_HEAD_LARGE bytes, or all that `left`
 * (the rest of the file) has. A size of 0 means all that is left. False: it is malformed, or the
 * box is longer than `left`. */
bool box_head_read(struct str bytes, uint64_t left, struct box_head *out);

/* Cuts off the first box; false at the end, and if it is incomplete. */
bool box_next(struct str *rest, struct box *out);
/* Finds the first box of this type; false, and an empty one, if there is none. */
bool box_find(struct str boxes, uint32_t type, struct box *out);

/* Does the full box have at least `small` bytes in version 0, else `large`? */
static inline bool box_has(const struct box *box, size_t small, size_t large)
{
    return box->data.len != 0 && box->data.len >= (*box->data.data == 0 ? small : large);
}

/* Reads the table of a box: `skip` bytes, the count, then items of item_size bytes. False: it is
 * incomplete. */
bool box_table_read(const struct box *box, size_t skip, size_t item_size, struct box_table *out);

/* Writing: box_begin, then the contents, then box_end, which sets the size. */
size_t box_begin(struct buf *out, uint32_t type);
void box_end(struct buf *out, size_t begin);
void box_put32(struct buf *out, uint32_t number);
void box_put64(struct buf *out, uint64_t number);
/* Overwrites the four bytes at this position. */
void box_set32(char *at, uint32_t number);
void box_set64(char *at, uint64_t number);

#endif
