/* What the first bytes of an image say: its kind and size, before anybody decodes it. A pure
 * function on a slice. */
#ifndef HTTP_MESSAGE_IMAGE_HEAD_H
#define HTTP_MESSAGE_IMAGE_HEAD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

enum image_kind { IMAGE_NONE, IMAGE_JPEG, IMAGE_GIF, IMAGE_PNG, IMAGE_WEBP };

#define IMAGE_KIND_BYTES 16 /* bytes of a beginning that tell the kind */

/* By the signature alone; IMAGE_NONE: it is none of them, or too short. */
enum image_kind image_kind_of(struct str bytes);
/* "jpeg", and its media type. */
struct str image_kind_name(enum image_kind kind);
struct str image_media_type(enum image_kind kind);

struct image_head {
    enum image_kind kind;
    uint32_t width; /* pixels; not 0 */
    uint32_t height;
};

/* False: it is no image, or one that is cut off before its size. */
bool image_head_parse(struct str bytes, struct image_head *out);

/* How often a decoder may have to go over all pixels of a JPEG: once for each scan. 0 for other
 * kinds. */
unsigned image_scans(enum image_kind kind, struct str bytes);

#endif
