/* Between a codec and a stream of zlib: input, and room for output. */
#ifndef HTTP_CODINGS_ZLIB_STREAM_H
#define HTTP_CODINGS_ZLIB_STREAM_H

#include <zlib.h>

#include "http/codings/codec.h"

#define GZIP_WRAPPER 16 /* added to the bits of a window: a gzip header and trailer */

/* Gives the stream what there is of input and room. */
static inline void stream_prepare(z_stream *stream, const struct codec *codec, struct str in)
{
    stream->next_in = (unsigned char *) (uintptr_t) in.data;
    stream->avail_in = in.len < UINT32_MAX ? (unsigned) in.len : UINT32_MAX;
    stream->next_out = codec->out + codec->out_used;
    stream->avail_out = codec->shape.out_size - (unsigned) codec->out_used;
}

/* What was taken and laid out. */
static inline void stream_settle(const z_stream *stream, struct codec *codec, struct str *in)
{
    *in = str_from((const char *) stream->next_in, in->data + in->len);
    codec->out_used = codec->shape.out_size - stream->avail_out;
}

#endif
