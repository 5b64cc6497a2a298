/* Format and size of an image from its first bytes, before it is decoded. A pure function on a
 * slice. */
#ifndef HTTP_MESSAGE_IMAGE_HEAD_H
#define HTTP_MESSAGE_IMAGE_HEAD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

enum image_kind { IMAGE_NONE, IMAGE_JPEG, IMAGE_GIF, IMAGE_PNG, IMAGE_WEBP };

#define IMAGE_KIND_BYTES 16 /* bytes that are needed to determine the format */

/* By the signature only; IMAGE_NONE: another format, or too short. */
enum image_kind image_kind_of(struct str bytes);
/* "jpeg" and others, and its media type. */
struct str image_kind_name(enum image_kind kind);
struct str image_media_type(enum image_kind kind);

struct image_head {
    enum image_kind kind;
    uint32_t width; /* pixels; not 0 */
    uint32_t height;
};

/* False: not an image, or truncated before its size. */
bool image_head_parse(struct str bytes, struct image_head *out);

/* How many times a decoder may have to pass over all pixels of a JPEG: once per scan. 0 for other
 * formats. */
unsigned image_scans(enum image_kind kind, struct str bytes);

#endif
