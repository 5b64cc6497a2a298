/* Compresses with ISA-L (RFC 1951, RFC 1952): the lower levels, for CPUs with wide vector
 * instructions. */
#include "config.h"
#include "http/modules/filters/gzip/gzip.h"

#ifdef HAVE_ISAL
#include <isa-l/igzip_lib.h>
#include <stdlib.h>

/* Working memory of the library besides its stream, by level. */
static const uint32_t level_sizes[] = {ISAL_DEF_LVL0_DEFAULT, ISAL_DEF_LVL1_DEFAULT,
                                       ISAL_DEF_LVL2_DEFAULT, ISAL_DEF_LVL3_DEFAULT};

/* The state of one codec. */
struct igzip {
    struct isal_zstream stream;
    uint8_t *level_memory; /* level_sizes[level] bytes */
};

static size_t igzip_memory(const struct codec_shape *shape)
{
    return sizeof(struct igzip) + level_sizes[shape->level];
}

static bool igzip_make(struct codec *codec)
{
    struct igzip *igzip = calloc(1, sizeof(*igzip));

    codec->state = igzip;
    if (igzip == NULL) {
        return false;
    }
    igzip->level_memory = malloc(level_sizes[codec->shape.level]);
    isal_deflate_init(&igzip->stream);
    return igzip->level_memory != NULL;
}

static void igzip_begin(struct codec *codec, int64_t length)
{
    struct igzip *igzip = codec->state;
    struct isal_zstream *stream = &igzip->stream;

    isal_deflate_reset(stream);
    stream->level = (uint32_t) codec->shape.level;
    stream->level_buf = igzip->level_memory;
    stream->level_buf_size = level_sizes[codec->shape.level];
    stream->gzip_flag = IGZIP_GZIP;
    stream->hist_bits = (uint16_t) codec->shape.window_bits;
    stream->end_of_stream = 0;
    stream->flush = NO_FLUSH;
}

static enum codec_step igzip_step(struct codec *codec, struct str *in, enum codec_aim aim,
                                  const struct log *log)
{
    struct isal_zstream *stream = &((struct igzip *) codec->state)->stream;
    bool is_whole = in->len <= UINT32_MAX;

    stream->next_in = (uint8_t *) (uintptr_t) in->data;
    stream->avail_in = is_whole ? (uint32_t) in->len : UINT32_MAX;
    stream->next_out = codec->out + codec->out_used;
    stream->avail_out = codec->shape.out_size - (uint32_t) codec->out_used;
    stream->flush = is_whole && aim == CODEC_FLUSH ? SYNC_FLUSH : NO_FLUSH;
    stream->end_of_stream = is_whole && aim == CODEC_END;
    int result = isal_deflate(stream);
    *in = str_from((const char *) stream->next_in, in->data + in->len);
    codec->out_used = codec->shape.out_size - stream->avail_out;
    if (result != COMP_OK) {
        log_alert(log, 0, "isal_deflate() failed: %d", result);
        return CODEC_FAILED;
    }
    return is_whole && stream->avail_out != 0 ? CODEC_DONE : CODEC_FULL;
}

static void igzip_free(struct codec *codec)
{
    struct igzip *igzip = codec->state;

    free(igzip->level_memory);
    free(igzip);
}

const struct codec_kind codec_igzip = {
    .memory = igzip_memory,
    .make = igzip_make,
    .begin = igzip_begin,
    .step = igzip_step,
    .free = igzip_free,
    .has_deep_stack = true,
};
#endif
