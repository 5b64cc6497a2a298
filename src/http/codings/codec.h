/* An encoder or decoder of bodies: the state of a library and a buffer for its output. It does not
 * belong to a request: a worker keeps some for further requests, since making one costs more than
 * encoding a small body. */
#ifndef HTTP_CODINGS_CODEC_H
#define HTTP_CODINGS_CODEC_H

#include <stdbool.h>
#include <stdint.h>

#include "base/log.h"
#include "base/str.h"

#define CODEC_PIECE_MAX (32u * 1024) /* most bytes of output that are passed on at once */

struct codec;
struct codec_kind;
struct generation;

/* The parameters of a codec, which can only be used for requests with the same ones. */
struct codec_shape {
    const struct codec_kind *kind;
    int level;              /* of compression, in terms of the library */
    int window_bits;        /* the window has 2^window_bits bytes */
    int memory_level;       /* for zlib */
    unsigned out_size;      /* size of the output buffer */
    const void *dictionary; /* in terms of the kind; lives as long as the request; or NULL */
};

/* The purpose of a step. */
enum codec_aim {
    CODEC_GO_ON, /* consume the input; output only when there is enough */
    CODEC_FLUSH, /* consume the input, and write out all of it */
    CODEC_END,   /* consume the last input, and complete the output */
};

/* The result of a step. */
enum codec_step {
    CODEC_DONE,   /* the input was consumed, and the purpose is fulfilled */
    CODEC_FULL,   /* the output buffer is full: call again after it was emptied */
    CODEC_CUT,    /* the input is truncated: the output so far is valid; logged */
    CODEC_FAILED, /* the input is malformed; logged */
};

/* The functions of a library. They neither wait nor switch fibers. */
struct codec_kind {
    /* Approximate memory in bytes, without the output buffer. */
    size_t (*memory)(const struct codec_shape *shape);
    /* Makes codec->state; false: out of memory. */
    bool (*make)(struct codec *codec);
    /* Begins a body of this length (-1: unknown). */
    void (*begin)(struct codec *codec, int64_t length);
    /* Consumes bytes of *in and appends to the output. */
    enum codec_step (*step)(struct codec *codec, struct str *in, enum codec_aim aim,
                            const struct log *log);
    void (*free)(struct codec *codec);
    bool has_deep_stack; /* a step needs more stack than a fiber should have: it runs on the
                            worker's own stack */
};

struct codec {
    struct codec_shape shape;
    void *state;        /* in terms of the kind */
    unsigned char *out; /* shape.out_size bytes */
    size_t out_used;    /* bytes in `out` */
};

/* Approximate memory of a codec with these parameters. */
size_t codec_memory(const struct codec_shape *shape);
/* A codec at the beginning of a body; a cached one with these parameters, if there is one. */
struct codec *codec_take(const struct codec_shape *shape, int64_t length);
/* Returns a codec for further requests. A few are cached, with limited memory. */
void codec_give(struct codec *codec);
/* Frees the cached codecs: the worker_end of the modules that use them. */
void codecs_drop(struct generation *generation);

#endif
