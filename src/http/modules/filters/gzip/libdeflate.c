/* Compresses bodies that are in memory as a whole with libdeflate (RFC 1951, RFC 1952). */
#include "config.h"
#include "http/modules/filters/gzip/gzip.h"

#ifdef HAVE_LIBDEFLATE
#include <libdeflate.h>
#include <stdlib.h>
#include <string.h>

#include "base/fatal.h"

/* The state of one codec. */
struct whole {
    struct libdeflate_compressor *compressor;
    unsigned char
        *rest;       /* malloc'ed output that did not surely fit into the codec's buffer; or NULL */
    size_t rest_at;  /* bytes of it that were taken */
    size_t rest_end; /* bytes in it */
    bool is_coded;   /* the body has been compressed */
};

/* Memory of a compressor; measured, levels 2 to 9. */
static size_t whole_memory(const struct codec_shape *shape)
{
    return sizeof(struct whole) + (size_t) 668 * 1024;
}

static bool whole_make(struct codec *codec)
{
    struct whole *whole = calloc(1, sizeof(*whole));

    codec->state = whole;
    if (whole == NULL) {
        return false;
    }
    whole->compressor = libdeflate_alloc_compressor(codec->shape.level);
    return whole->compressor != NULL;
}

static void rest_free(struct whole *whole)
{
    free(whole->rest);
    whole->rest = NULL;
    whole->rest_at = whole->rest_end = 0;
}

static void whole_begin(struct codec *codec, int64_t length)
{
    struct whole *whole = codec->state;

    rest_free(whole);
    whole->is_coded = false;
}

#define OS_AT 9   /* offset in the header of a member (RFC 1952, 2.3) */
#define OS_UNIX 3 /* Unix, as zlib writes it; libdeflate writes "unknown" */

static size_t compress_to(const struct whole *whole, struct str in, char *out, size_t capacity)
{
    size_t size = libdeflate_gzip_compress(whole->compressor, in.data, in.len, out, capacity);

    if (size > OS_AT) {
        out[OS_AT] = OS_UNIX;
    }
    return size;
}

/* Compresses the whole body, directly into the codec's buffer if it is certain to fit. */
static void code_all(struct codec *codec, struct str in)
{
    struct whole *whole = codec->state;
    size_t most = libdeflate_gzip_compress_bound(whole->compressor, in.len);
    size_t capacity = codec->shape.out_size - codec->out_used;

    whole->is_coded = true;
    if (most <= capacity) {
        codec->out_used += compress_to(whole, in, (char *) codec->out + codec->out_used, capacity);
        return;
    }
    whole->rest = malloc(most);
    if (whole->rest == NULL) {
        fatal_no_memory(most);
    }
    whole->rest_end = compress_to(whole, in, (char *) whole->rest, most);
}

static enum codec_step whole_step(struct codec *codec, struct str *in, enum codec_aim aim,
                                  const struct log *log)
{
    struct whole *whole = codec->state;

    if (!whole->is_coded) {
        if (aim != CODEC_END) {
            log_alert(log, 0, "a body in pieces for libdeflate");
            return CODEC_FAILED;
        }
        code_all(codec, in->len == 0 ? STR("") : *in);
        *in = STR_NONE;
    }
    size_t left = whole->rest_end - whole->rest_at;
    size_t capacity = codec->shape.out_size - codec->out_used;
    size_t taken = left < capacity ? left : capacity;
    if (taken != 0) {
        memcpy(codec->out + codec->out_used, whole->rest + whole->rest_at, taken);
        codec->out_used += taken;
        whole->rest_at += taken;
    }
    if (taken < left) {
        return CODEC_FULL;
    }
    rest_free(whole);
    return CODEC_DONE;
}

static void whole_free(struct codec *codec)
{
    struct whole *whole = codec->state;

    rest_free(whole);
    libdeflate_free_compressor(whole->compressor);
    free(whole);
}

const struct codec_kind codec_libdeflate = {
    .memory = whole_memory,
    .make = whole_make,
    .begin = whole_begin,
    .step = whole_step,
    .free = whole_free,
    .has_deep_stack = true,
};
#endif
