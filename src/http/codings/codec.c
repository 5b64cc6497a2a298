/* A cache of codecs in a worker. */
#include "http/codings/codec.h"

#include <stdlib.h>
#include <string.h>

#include "base/fatal.h"

#define KEPT_MAX 8                     /* codecs that a worker keeps */
#define KEPT_BYTES (16u * 1024 * 1024) /* their total memory */

static struct codec *kept[KEPT_MAX]; /* per worker; the newest is the last */
static unsigned kept_count;
static size_t kept_bytes;

static bool is_same_shape(const struct codec_shape *a, const struct codec_shape *b)
{
    return a->kind == b->kind && a->level == b->level && a->window_bits == b->window_bits &&
           a->memory_level == b->memory_level && a->out_size == b->out_size;
}

static void codec_free(struct codec *codec)
{
    codec->shape.kind->free(codec);
    free(codec->out);
    free(codec);
}

static struct codec *codec_make(const struct codec_shape *shape)
{
    struct codec *codec = calloc(1, sizeof(*codec));
    unsigned char *out = malloc(shape->out_size);

    if (codec == NULL || out == NULL) {
        fatal_no_memory(sizeof(*codec) + shape->out_size);
    }
    codec->shape = *shape;
    codec->out = out;
    if (!shape->kind->make(codec)) {
        fatal_no_memory(shape->kind->memory(shape));
    }
    return codec;
}

size_t codec_memory(const struct codec_shape *shape)
{
    return sizeof(struct codec) + shape->out_size + shape->kind->memory(shape);
}

/* Removes an entry from the cache. */
static struct codec *unkeep(unsigned at)
{
    struct codec *codec = kept[at];

    kept_count--;
    kept_bytes -= codec_memory(&codec->shape);
    memmove(&kept[at], &kept[at + 1], (kept_count - at) * sizeof(codec));
    return codec;
}

struct codec *codec_take(const struct codec_shape *shape, int64_t length)
{
    struct codec *codec = NULL;

    for (unsigned i = kept_count; i > 0 && codec == NULL; i--) {
        if (is_same_shape(&kept[i - 1]->shape, shape)) {
            codec = unkeep(i - 1);
        }
    }
    if (codec == NULL) {
        codec = codec_make(shape);
    }
    codec->shape.dictionary = shape->dictionary;
    codec->out_used = 0;
    codec->shape.kind->begin(codec, length);
    return codec;
}

void codec_give(struct codec *codec)
{
    size_t bytes = codec_memory(&codec->shape);

    if (bytes > KEPT_BYTES) {
        codec_free(codec);
        return;
    }
    while (kept_count == KEPT_MAX || kept_bytes + bytes > KEPT_BYTES) {
        codec_free(unkeep(0));
    }
    kept[kept_count++] = codec;
    kept_bytes += bytes;
}

void codecs_drop(struct generation *generation)
{
    while (kept_count > 0) {
        codec_free(unkeep(kept_count - 1));
    }
}
