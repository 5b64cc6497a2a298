/* Decompresses gzip with zlib (RFC 1951, RFC 1952). */
#include <stdlib.h>

#include "http/codings/zlib_stream.h"
#include "http/modules/filters/gunzip/gunzip.h"

#define WINDOW_BITS_MAX 15

struct inflater {
    z_stream stream;
    bool is_at_end; /* of a member: the body ends here, or another member follows */
};

static const int flush_modes[] = {
    [CODEC_GO_ON] = Z_NO_FLUSH,
    [CODEC_FLUSH] = Z_SYNC_FLUSH,
    [CODEC_END] = Z_FINISH,
};

static size_t inflate_memory(const struct codec_shape *shape)
{
    return ((size_t) 1 << WINDOW_BITS_MAX) + 8192;
}

static bool inflate_make(struct codec *codec)
{
    struct inflater *inflater = calloc(1, sizeof(*inflater));

    codec->state = inflater;
    return inflater != NULL &&
           inflateInit2(&inflater->stream, WINDOW_BITS_MAX + GZIP_WRAPPER) == Z_OK;
}

static void inflate_begin(struct codec *codec, int64_t length)
{
    struct inflater *inflater = codec->state;

    inflateReset(&inflater->stream);
    inflater->is_at_end = false;
}

/* A body may have several consecutive members (RFC 1952, 2.2). */
static enum codec_step inflate_step(struct codec *codec, struct str *in, enum codec_aim aim,
                                    const struct log *log)
{
    struct inflater *inflater = codec->state;
    z_stream *stream = &inflater->stream;
    int result = Z_OK;

    while (in->len != 0 || !inflater->is_at_end) {
        if (inflater->is_at_end) {
            inflateReset(stream);
            inflater->is_at_end = false;
        }
        stream_prepare(stream, codec, *in);
        result = inflate(stream, aim == CODEC_GO_ON ? Z_NO_FLUSH : Z_SYNC_FLUSH);
        stream_settle(stream, codec, in);
        if (result != Z_OK && result != Z_STREAM_END && (result != Z_BUF_ERROR || in->len != 0)) {
            log_error(log, 0, "inflate() failed: %d, %d", flush_modes[aim], result);
            return CODEC_FAILED;
        }
        inflater->is_at_end = result == Z_STREAM_END;
        if (stream->avail_out == 0) {
            return CODEC_FULL;
        }
        if (in->len == 0) {
            break;
        }
    }
    if (aim == CODEC_END && !inflater->is_at_end) {
        log_error(log, 0, "inflate() returned %d on response end", Z_BUF_ERROR);
        return CODEC_CUT;
    }
    return CODEC_DONE;
}

static void inflate_free(struct codec *codec)
{
    struct inflater *inflater = codec->state;

    inflateEnd(&inflater->stream);
    free(inflater);
}

const struct codec_kind codec_inflate = {
    .memory = inflate_memory,
    .make = inflate_make,
    .begin = inflate_begin,
    .step = inflate_step,
    .free = inflate_free,
};
