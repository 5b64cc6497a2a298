/* Connects a codec with a zlib stream: input, and space for output. */
#ifndef HTTP_CODINGS_ZLIB_STREAM_H
#define HTTP_CODINGS_ZLIB_STREAM_H

#include <zlib.h>

#include "http/codings/codec.h"

#define GZIP_WRAPPER 16 /* added to the window bits: gzip header and trailer */

/* Gives the stream the available input and output space. */
static inline void stream_prepare(z_stream *stream, const struct codec *codec, struct str in)
{
    stream->next_in = (unsigned char *) (uintptr_t) in.data;
    stream->avail_in = in.len < UINT32_MAX ? (unsigned) in.len : UINT32_MAX;
    stream->next_out = codec->out + codec->out_used;
    stream->avail_out = codec->shape.out_size - (unsigned) codec->out_used;
}

/* Accounts for consumed input and written output. */
static inline void stream_settle(const z_stream *stream, struct codec *codec, struct str *in)
{
    *in = str_from((const char *) stream->next_in, in->data + in->len);
    codec->out_used = codec->shape.out_size - stream->avail_out;
}

#endif
