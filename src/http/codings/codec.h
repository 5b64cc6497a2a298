/*
 * What encodes and decodes bodies: the state of a library and the room for its output. Not of a
 * request: a worker keeps some of them and uses them again, since making one costs more than a
 * small body.
 */
#ifndef HTTP_CODINGS_CODEC_H
#define HTTP_CODINGS_CODEC_H

#include <stdbool.h>
#include <stdint.h>

#include "base/log.h"
#include "base/str.h"

#define CODEC_PIECE_MAX (32u * 1024) /* bytes of output that are passed on at a time */

struct codec;
struct codec_kind;
struct generation;

/* How one was made: it can only serve what wants the same. */
struct codec_shape {
    const struct codec_kind *kind;
    int level;              /* of compression, in the library's own numbers */
    int window_bits;        /* repetitions are found within 2^window_bits bytes */
    int memory_level;       /* of zlib */
    unsigned out_size;      /* bytes of output that are gathered */
    const void *dictionary; /* of the kind; lives as long as the request; or NULL */
};

/* What a step shall come to. */
enum codec_aim {
    CODEC_GO_ON, /* take the input; output comes when there is enough */
    CODEC_FLUSH, /* take the input, and let all of it be read from the output */
    CODEC_END,   /* take the input; it is the last, so the output is complete */
};

/* What a step came to. */
enum codec_step {
    CODEC_DONE,   /* the input is used up, and the aim is reached */
    CODEC_FULL,   /* the room for output is full: another step is needed when there is some */
    CODEC_CUT,    /* the input ended too early: the output so far is right; this was logged */
    CODEC_FAILED, /* the input is no such stream; this was logged */
};

/* One library at work. Its functions neither wait nor switch fibers. */
struct codec_kind {
    /* Bytes that it takes of memory, about: without the room for output. */
    size_t (*memory)(const struct codec_shape *shape);
    /* Makes codec->state; false: there is no memory. */
    bool (*make)(struct codec *codec);
    /* A new body begins, of so many bytes (-1: nobody knows). */
    void (*begin)(struct codec *codec, int64_t length);
    /* Takes bytes off *in and puts others to the end of out. */
    enum codec_step (*step)(struct codec *codec, struct str *in, enum codec_aim aim,
                            const struct log *log);
    void (*free)(struct codec *codec);
    bool has_deep_stack; /* a step needs more than a fiber should keep: it runs on the worker's own
                            stack */
};

struct codec {
    struct codec_shape shape;
    void *state;        /* of the kind */
    unsigned char *out; /* shape.out_size bytes */
    size_t out_used;    /* of them */
};

/* Bytes of one of this shape, about. */
size_t codec_memory(const struct codec_shape *shape);
/* One that is at the beginning of a body; another of this shape that was given back, if there is
 * one. */
struct codec *codec_take(const struct codec_shape *shape, int64_t length);
/* Back for the next body. A few are kept, of some megabytes at most. */
void codec_give(struct codec *codec);
/* Frees those that are kept: worker_end of the modules that use them. */
void codecs_drop(struct generation *generation);

#endif
