/* The body filter for all codings: passes pieces through a codec. */
#ifndef HTTP_CODINGS_CODED_BODY_H
#define HTTP_CODINGS_CODED_BODY_H

#include "conf/directive.h"
#include "http/codings/codec.h"
#include "http/routing/hooks.h"

struct field;
struct request;
struct type_set;
struct variable_env;

/* Settings of a module that encodes: gzip, brotli and zstd. */
struct encoder_settings {
    bool is_on;
    bool passes_at_once; /* gzip_no_buffer */
    bool clears_etag;
    int64_t level;       /* in terms of the library */
    uint64_t min_length; /* bytes; shorter bodies are not encoded */
    uint64_t window;     /* bytes of the window */
    uint64_t hash;       /* for gzip: bytes of the hash table */
    uint64_t postpone;   /* bytes of input that are gathered first; 0 = none */
    struct buffers
        buffers; /* output buffers; their total size limits the pieces that are passed on */
    struct type_set *types;
    const void *dictionary; /* for zstd; or NULL */
};

/* Should a response with this type and length be encoded? */
bool encoder_fits(const struct encoder_settings *settings, const struct request *request);

/* Size of the output buffer: that of all `buffers`, up to a limit. */
unsigned codec_out_size(const struct buffers *buffers);

/* The smallest b, at least `least`, with 2^b >= size. */
int bits_for(uint64_t size, int least);

/* An encoding. */
struct encoder {
    const struct content_coding *coding;
    /* The codec for a body of this length; -1: unknown. */
    struct codec_shape (*shape_for)(const struct encoder_settings *settings, int64_t length);
    /* Is there a codec that is better for a whole body of this length? Then such a body is
     * gathered, unless a part of it must be sent earlier. NULL: no. */
    bool (*whole_shape_for)(const struct encoder_settings *settings, int64_t length,
                            struct codec_shape *shape);
};

/* Called in a header filter if response_coding() has chosen the coding: encodes the body, and sets
 * the header. If the codecs in use have reached compression_memory_limit, this is logged and
 * counted, and the body is not encoded. */
void response_encode(struct request *request, const struct encoder *encoder,
                     const struct encoder_settings *settings);

/* A decoding. */
struct decoder {
    struct field *encoding; /* the Content-Encoding field, which is removed */
    struct codec_shape shape;
    uint64_t ratio_max; /* most bytes of output per byte of input; 0 = unlimited */
};

/* Decodes an encoded body, and sets the header. */
void response_decode(struct request *request, const struct decoder *decoder);

/* $gzip_ratio and similar variables: the compression ratio, with two decimals; false: not
 * encoded. */
bool encoded_ratio(struct variable_env *env, const struct content_coding *coding, struct str *out);

#endif
