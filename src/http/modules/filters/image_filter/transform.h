/* Transforms images with libgd. Blocks and uses much memory: for threads. */
#ifndef HTTP_MODULES_FILTERS_IMAGE_FILTER_TRANSFORM_H
#define HTTP_MODULES_FILTERS_IMAGE_FILTER_TRANSFORM_H

#include "http/message/image_head.h"

enum image_way {
    WAY_OFF,
    WAY_TEST,
    WAY_SIZE,
    WAY_RESIZE,
    WAY_CROP,
    WAY_CROP_KEEP_X, /* the width is not cropped */
    WAY_CROP_KEEP_Y, /* the height is not cropped */
    WAY_ROTATE
};

static inline bool way_crops(unsigned way)
{
    return way >= WAY_CROP && way <= WAY_CROP_KEEP_Y;
}

/* Does this kind have a width and a height? */
static inline bool way_has_sides(unsigned way)
{
    return way == WAY_RESIZE || way_crops(way);
}

#define IMAGE_UNBOUNDED UINT32_MAX /* "-": the other side determines it */

/* A requested transformation; all numbers have been checked. */
struct image_options {
    enum image_way way; /* a kind that makes an image: RESIZE and later ones */
    uint32_t width;     /* maximum, before rotation; or IMAGE_UNBOUNDED */
    uint32_t height;
    unsigned angle; /* 0, 90, 180, 270: counter-clockwise */
    unsigned jpeg_quality, webp_quality;
    unsigned sharpen; /* percent */
    bool is_interlaced;
    bool keeps_transparency; /* of images with a palette */
    int offset_x, offset_y;  /* where to crop: see image_offset */
};

/* Where to cut an excess length: one of these, or pixels from the beginning. */
#define OFFSET_CENTER (-1)
#define OFFSET_BEGIN (-2)
#define OFFSET_END (-3)

/* Would an image of this size be changed at all? */
bool image_changes(const struct image_options *options, const struct image_head *head);

struct image_result {
    void *data; /* the caller passes it to image_free; NULL = failed */
    size_t size;
    const char *failed; /* the libgd function that failed; only if data is NULL */
};

/* Transforms the image in `bytes`, whose header was parsed and whose size was checked. */
struct image_result image_transform(const struct image_options *options,
                                    const struct image_head *head, struct str bytes);
void image_free(void *data);
/* Suppresses messages of the libraries. Called once per process. */
void image_quiet(void);

#endif
