/* Images made of images, by libgd. It blocks and takes much memory: for threads. */
#ifndef HTTP_MODULES_FILTERS_IMAGE_FILTER_TRANSFORM_H
#define HTTP_MODULES_FILTERS_IMAGE_FILTER_TRANSFORM_H

#include "http/message/image_head.h"

enum image_way {
    WAY_OFF,
    WAY_TEST,
    WAY_SIZE,
    WAY_RESIZE,
    WAY_CROP,
    WAY_CROP_KEEP_X, /* nothing of the width is cut off */
    WAY_CROP_KEEP_Y, /* nothing of the height is cut off */
    WAY_ROTATE
};

static inline bool way_crops(unsigned way)
{
    return way >= WAY_CROP && way <= WAY_CROP_KEEP_Y;
}

/* Has it a width and a height? */
static inline bool way_has_sides(unsigned way)
{
    return way == WAY_RESIZE || way_crops(way);
}

#define IMAGE_UNBOUNDED UINT32_MAX /* "-": the other side decides */

/* What is wanted; all numbers are checked. */
struct image_options {
    enum image_way way; /* that makes an image: RESIZE and beyond */
    uint32_t width;     /* that it has at most, before it is turned; or IMAGE_UNBOUNDED */
    uint32_t height;
    unsigned angle; /* 0, 90, 180, 270: counter-clockwise */
    unsigned jpeg_quality, webp_quality;
    unsigned sharpen; /* per cent */
    bool is_interlaced;
    bool keeps_transparency; /* of palettes */
    int offset_x, offset_y;  /* of a crop: see image_offset */
};

/* A place in what is too much of a side: these, or pixels from its beginning. */
#define OFFSET_CENTER (-1)
#define OFFSET_BEGIN (-2)
#define OFFSET_END (-3)

/* Does an image of this size change at all? */
bool image_changes(const struct image_options *options, const struct image_head *head);

struct image_result {
    void *data; /* to be given to image_free; NULL = it could not be made */
    size_t size;
    const char *failed; /* the function of libgd that could not; only where data is NULL */
};

/* The image in `bytes`, whose head was parsed and whose size is bearable. */
struct image_result image_transform(const struct image_options *options,
                                    const struct image_head *head, struct str bytes);
void image_free(void *data);
/* Once for a process: what the libraries have to say goes nowhere. */
void image_quiet(void);

#endif
