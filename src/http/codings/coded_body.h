/* The body filter of all codings: pieces go through a codec, and on in others. */
#ifndef HTTP_CODINGS_CODED_BODY_H
#define HTTP_CODINGS_CODED_BODY_H

#include "conf/directive.h"
#include "http/codings/codec.h"
#include "http/routing/hooks.h"

struct field;
struct request;
struct type_set;
struct variable_env;

/* What a module that encodes gets from its directives; the settings of gzip, brotli and zstd. */
struct encoder_settings {
    bool is_on;
    bool passes_at_once; /* gzip_no_buffer */
    bool clears_etag;
    int64_t level;          /* in the library's numbers */
    uint64_t min_length;    /* bytes; shorter bodies stay as they are */
    uint64_t window;        /* bytes: how far back repetitions are found */
    uint64_t hash;          /* of gzip: bytes of the compressor's table */
    uint64_t postpone;      /* bytes of input that are gathered first; 0 = none */
    struct buffers buffers; /* of output; together they bound a piece that is passed on */
    struct type_set *types;
    const void *dictionary; /* of zstd; or NULL */
};

/* Is a response worth it, going by its type and its length? */
bool encoder_fits(const struct encoder_settings *settings, const struct request *request);

/* Bytes of output that are gathered: those of the buffers, within reason. */
unsigned codec_out_size(const struct buffers *buffers);

/* The least b, from `least` on, with 2^b >= size. */
int bits_for(uint64_t size, int least);

/* One that encodes. */
struct encoder {
    const struct content_coding *coding;
    /* The codec for a body of so many bytes; -1: nobody knows. */
    struct codec_shape (*shape_for)(const struct encoder_settings *settings, int64_t length);
    /*
     * Is there one that does it better when it gets the whole body, of so many bytes, at once? Then
     * such a body is gathered, unless a part of it has to leave before. May be NULL: no.
     */
    bool (*whole_shape_for)(const struct encoder_settings *settings, int64_t length,
                            struct codec_shape *shape);
};

/*
 * Of a header filter, when response_coding() gave the coding: the body is encoded, and the head
 * says so. Not when the codecs at work in this worker take compression_memory_limit: this is logged
 * and counted, and the body stays as it is.
 */
void response_encode(struct request *request, const struct encoder *encoder,
                     const struct encoder_settings *settings);

/* How the body is decoded. */
struct decoder {
    struct field *encoding; /* Content-Encoding, which goes */
    struct codec_shape shape;
    uint64_t ratio_max; /* output may be so many times the input; 0 = no limit */
};

/* The same for a body that is encoded: it leaves in clear text. */
void response_decode(struct request *request, const struct decoder *decoder);

/* $gzip_ratio and similar variables: how many times smaller the body became, with two decimal
 * places; false: it was not encoded. */
bool encoded_ratio(struct variable_env *env, const struct content_coding *coding, struct str *out);

#endif
