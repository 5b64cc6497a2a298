/* Compresses with zlib (RFC 1951, RFC 1952). */
#include <stdlib.h>

#include "http/codings/zlib_stream.h"
#include "http/modules/filters/gzip/gzip.h"

static const int flush_modes[] = {
    [CODEC_GO_ON] = Z_NO_FLUSH,
    [CODEC_FLUSH] = Z_SYNC_FLUSH,
    [CODEC_END] = Z_FINISH,
};

static size_t deflate_memory(const struct codec_shape *shape)
{
    return ((size_t) 4 << shape->window_bits) + ((size_t) 1 << (shape->memory_level + 9)) + 8192;
}

static bool deflate_make(struct codec *codec)
{
    const struct codec_shape *shape = &codec->shape;
    z_stream *stream = calloc(1, sizeof(*stream));

    codec->state = stream;
    return stream != NULL &&
           deflateInit2(stream, shape->level, Z_DEFLATED, shape->window_bits + GZIP_WRAPPER,
                        shape->memory_level, Z_DEFAULT_STRATEGY) == Z_OK;
}

static void deflate_begin(struct codec *codec, int64_t length)
{
    deflateReset(codec->state);
}

static enum codec_step deflate_step(struct codec *codec, struct str *in, enum codec_aim aim,
                                    const struct log *log)
{
    z_stream *stream = codec->state;
    bool is_whole = in->len <= UINT32_MAX; /* zlib takes at most 32 bits of length at a time */
    int mode = is_whole ? flush_modes[aim] : Z_NO_FLUSH;

    stream_prepare(stream, codec, *in);
    int result = deflate(stream, mode);
    stream_settle(stream, codec, in);
    if (result != Z_OK && result != Z_STREAM_END && result != Z_BUF_ERROR) {
        log_alert(log, 0, "deflate() failed: %d, %d", mode, result);
        return CODEC_FAILED;
    }
    return result == Z_STREAM_END || (is_whole && stream->avail_out != 0) ? CODEC_DONE : CODEC_FULL;
}

static void deflate_free(struct codec *codec)
{
    deflateEnd(codec->state);
    free(codec->state);
}

const struct codec_kind codec_deflate = {
    .memory = deflate_memory,
    .make = deflate_make,
    .begin = deflate_begin,
    .step = deflate_step,
    .free = deflate_free,
};
