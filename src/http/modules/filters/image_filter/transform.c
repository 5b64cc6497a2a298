/* Transforms images with libgd. */
#include "http/modules/filters/image_filter/transform.h"

#include <gd.h>
#include <limits.h>

static void say_nothing(int priority, const char *format, va_list args)
{
}

void image_quiet(void)
{
    gdSetErrorMethod(say_nothing);
}

void image_free(void *data)
{
    gdFree(data);
}

/* ---- sizes ---- */

struct size {
    uint32_t width, height;
};

static uint32_t scaled(uint32_t side, uint32_t to, uint32_t from)
{
    uint64_t result = (uint64_t) side * to / from;

    return result == 0 ? 1 : (uint32_t) result;
}

/* The largest size with the same aspect ratio that fits. */
static struct size fit(struct size size, uint32_t width, uint32_t height)
{
    if (size.width > width) {
        size.height = scaled(size.height, width, size.width);
        size.width = width;
    }
    if (size.height > height) {
        size.width = scaled(size.width, height, size.height);
        size.height = height;
    }
    return size;
}

/* The smallest size with the same aspect ratio that covers as much of the requested size as the
 * image does. */
static struct size cover(struct size size, uint32_t width, uint32_t height)
{
    if (size.width <= width || size.height <= height) {
        return size;
    }
    if ((uint64_t) size.width * height > (uint64_t) size.height * width) {
        return (struct size){scaled(size.width, height, size.height), height};
    }
    return (struct size){width, scaled(size.height, width, size.width)};
}

/* Scales one side down to the requested length if it is longer; the other follows by the aspect
 * ratio. */
static struct size fit_side(struct size size, const struct image_options *options)
{
    return options->way == WAY_CROP_KEEP_X ? fit(size, options->width, IMAGE_UNBOUNDED)
                                           : fit(size, IMAGE_UNBOUNDED, options->height);
}

static struct size wanted_size(const struct image_options *options, struct size size)
{
    return options->way == WAY_RESIZE ? fit(size, options->width, options->height)
           : options->way == WAY_CROP ? cover(size, options->width, options->height)
           : way_crops(options->way)  ? fit_side(size, options)
                                      : size;
}

bool image_changes(const struct image_options *options, const struct image_head *head)
{
    return options->angle != 0 || (options->way != WAY_ROTATE && (head->width > options->width ||
                                                                  head->height > options->height));
}

/* ---- libgd's functions by format ---- */

static const char *decoder_name(enum image_kind kind)
{
    return kind == IMAGE_JPEG  ? "gdImageCreateFromJpegPtr"
           : kind == IMAGE_PNG ? "gdImageCreateFromPngPtr"
           : kind == IMAGE_GIF ? "gdImageCreateFromGifPtr"
                               : "gdImageCreateFromWebpPtr";
}

static const char *encoder_name(enum image_kind kind)
{
    return kind == IMAGE_JPEG  ? "gdImageJpegPtr"
           : kind == IMAGE_PNG ? "gdImagePngPtr"
           : kind == IMAGE_GIF ? "gdImageGifPtr"
                               : "gdImageWebpPtrEx";
}

/* ---- steps: each takes over the image and returns another, or NULL ---- */

static gdImagePtr image_filter_transform_decode(enum image_kind kind, struct str bytes)
{
    void *data = (void *) (uintptr_t) bytes.data; /* not modified */
    int size = (int) bytes.len;

    switch (kind) {
    case IMAGE_JPEG:
        return gdImageCreateFromJpegPtr(size, data);
    case IMAGE_PNG:
        return gdImageCreateFromPngPtr(size, data);
    case IMAGE_GIF:
        return gdImageCreateFromGifPtr(size, data);
    case IMAGE_WEBP:
        return gdImageCreateFromWebpPtr(size, data);
    default:
        return NULL;
    }
}

static gdImagePtr canvas(struct size size)
{
    gdImagePtr image = gdImageCreateTrueColor((int) size.width, (int) size.height);

    if (image != NULL) {
        gdImageAlphaBlending(image, 0);
        gdImageSaveAlpha(image, 1);
    }
    return image;
}

/* Converts an image with a palette to true colour. Transparent pixels stay so if
 * keeps_transparency, else they become opaque. */
static gdImagePtr to_colours(gdImagePtr image, bool keeps_transparency)
{
    if (gdImageTrueColor(image)) {
        return image;
    }
    if (!keeps_transparency) {
        gdImageColorTransparent(image, -1);
        for (int i = 0; i < gdImageColorsTotal(image); i++) {
            image->alpha[i] = gdAlphaOpaque;
        }
    }
    if (!gdImagePaletteToTrueColor(image)) {
        gdImageDestroy(image);
        return NULL;
    }
    gdImageAlphaBlending(image, 0);
    gdImageSaveAlpha(image, 1);
    return image;
}

static gdImagePtr scale(gdImagePtr image, struct size to)
{
    if (image == NULL ||
        (gdImageSX(image) == (int) to.width && gdImageSY(image) == (int) to.height)) {
        return image;
    }
    gdImagePtr result = canvas(to);
    if (result != NULL) {
        gdImageCopyResampled(result, image, 0, 0, 0, 0, (int) to.width, (int) to.height,
                             gdImageSX(image), gdImageSY(image));
    }
    gdImageDestroy(image);
    return result;
}

static int offset_of(int offset, int surplus)
{
    return offset == OFFSET_CENTER  ? surplus / 2
           : offset == OFFSET_BEGIN ? 0
           : offset == OFFSET_END   ? surplus
                                    : (offset < surplus ? offset : surplus);
}

static gdImagePtr crop(gdImagePtr image, const struct image_options *options)
{
    if (image == NULL || !way_crops(options->way)) {
        return image;
    }
    int width = gdImageSX(image), height = gdImageSY(image);
    int surplus_x = (uint32_t) width > options->width ? width - (int) options->width : 0;
    int surplus_y = (uint32_t) height > options->height ? height - (int) options->height : 0;
    if (surplus_x == 0 && surplus_y == 0) {
        return image;
    }
    gdImagePtr result =
        canvas((struct size){(uint32_t) (width - surplus_x), (uint32_t) (height - surplus_y)});
    if (result != NULL) {
        gdImageCopy(result, image, 0, 0, offset_of(options->offset_x, surplus_x),
                    offset_of(options->offset_y, surplus_y), width - surplus_x, height - surplus_y);
    }
    gdImageDestroy(image);
    return result;
}

static gdImagePtr turn(gdImagePtr image, unsigned angle)
{
    if (image == NULL || angle == 0) {
        return image;
    }
    int width = gdImageSX(image), height = gdImageSY(image);
    uint32_t w = (uint32_t) width, h = (uint32_t) height;
    gdImagePtr result = canvas(angle == 180 ? (struct size){w, h} : (struct size){h, w});
    for (int y = 0; result != NULL && y < height; y++) {
        for (int x = 0; x < width; x++) {
            int to_x = angle == 90 ? y : angle == 180 ? width - 1 - x : height - 1 - y;
            int to_y = angle == 90 ? width - 1 - x : angle == 180 ? height - 1 - y : x;
            gdImageTrueColorPixel(result, to_x, to_y) = gdImageTrueColorPixel(image, x, y);
        }
    }
    gdImageDestroy(image);
    return result;
}

/* The index of a colour in the palette. All fully transparent colours share one entry, because
 * libgd does not find it again by its colour. */
static int palette_index(gdImagePtr image, int colour)
{
    int alpha = gdTrueColorGetAlpha(colour);

    if (alpha == gdAlphaTransparent && gdImageGetTransparent(image) != -1) {
        return gdImageGetTransparent(image);
    }
    int index =
        gdImageColorResolveAlpha(image, gdTrueColorGetRed(colour), gdTrueColorGetGreen(colour),
                                 gdTrueColorGetBlue(colour), alpha);
    if (alpha == gdAlphaTransparent) {
        gdImageColorTransparent(image, index);
    }
    return index;
}

/* Converts an image back to a palette of exactly its own colours; its pixels come from an image
 * with a palette. */
static gdImagePtr to_same_palette(gdImagePtr image)
{
    gdImagePtr result = gdImageCreate(gdImageSX(image), gdImageSY(image));
    int colour = -1, index = 0; /* of the previous pixel */

    for (int y = 0; result != NULL && y < gdImageSY(image); y++) {
        for (int x = 0; x < gdImageSX(image); x++) {
            if (gdImageTrueColorPixel(image, x, y) != colour) {
                colour = gdImageTrueColorPixel(image, x, y);
                index = palette_index(result, colour);
            }
            gdImagePalettePixel(result, x, y) = (unsigned char) index;
        }
    }
    gdImageDestroy(image);
    return result;
}

/* GIF has one transparent colour, and no partial transparency. */
static gdImagePtr to_palette(gdImagePtr image)
{
    gdImagePtr colours = gdImageClone(image);

    if (colours == NULL || !gdImageTrueColorToPalette(image, 1, 255)) {
        if (colours != NULL) {
            gdImageDestroy(colours);
        }
        gdImageDestroy(image);
        return NULL;
    }
    int transparent = -1;
    for (int y = 0; y < gdImageSY(image); y++) {
        for (int x = 0; x < gdImageSX(image); x++) {
            if (gdTrueColorGetAlpha(gdImageTrueColorPixel(colours, x, y)) <= gdAlphaMax / 2) {
                continue;
            }
            if (transparent == -1) {
                transparent = gdImageColorAllocate(image, 0, 0, 0);
                gdImageColorTransparent(image, transparent);
            }
            gdImagePalettePixel(image, x, y) = (unsigned char) transparent;
        }
    }
    gdImageDestroy(colours);
    return image;
}

static struct image_result encode(gdImagePtr image, enum image_kind kind,
                                  const struct image_options *options)
{
    struct image_result result = {.failed = encoder_name(kind)};
    int size = 0;

    gdImageInterlace(image, options->is_interlaced);
    switch (kind) {
    case IMAGE_JPEG:
        result.data = gdImageJpegPtr(image, &size, (int) options->jpeg_quality);
        break;
    case IMAGE_PNG:
        result.data = gdImagePngPtr(image, &size);
        break;
    case IMAGE_GIF:
        result.data = gdImageGifPtr(image, &size);
        break;
    default:
        result.data = gdImageWebpPtrEx(image, &size, (int) options->webp_quality);
    }
    result.size = size > 0 ? (size_t) size : 0;
    if (result.size == 0 && result.data != NULL) {
        gdFree(result.data);
        result.data = NULL;
    }
    return result;
}

struct image_result image_transform(const struct image_options *options,
                                    const struct image_head *head, struct str bytes)
{
    struct image_result result = {.failed = decoder_name(head->kind)};
    gdImagePtr image =
        bytes.len > INT_MAX ? NULL : image_filter_transform_decode(head->kind, bytes);

    if (image == NULL) {
        return result;
    }
    bool had_palette = !gdImageTrueColor(image);
    const struct size size = {(uint32_t) gdImageSX(image), (uint32_t) gdImageSY(image)};
    const struct size to = wanted_size(options, size);
    bool is_blended = to.width != size.width || to.height != size.height || options->sharpen != 0;
    result.failed = "gdImageCreateTrueColor";
    image = to_colours(image, options->keeps_transparency);
    image = scale(image, to);
    image = crop(turn(image, options->angle), options); /* same order as nginx */
    if (image != NULL && options->sharpen != 0) {
        gdImageSharpen(image, (int) options->sharpen);
    }
    if (image != NULL && (head->kind == IMAGE_GIF || (had_palette && head->kind == IMAGE_PNG))) {
        image = had_palette && !is_blended ? to_same_palette(image) : to_palette(image);
    }
    if (image != NULL) {
        result = encode(image, head->kind, options);
        gdImageDestroy(image);
    }
    return result;
}
