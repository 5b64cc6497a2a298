/* ngx_http_brotli_filter_module: compresses responses with brotli (RFC 7932). */
#include <brotli/encode.h>
#include <stdlib.h>

#include "base/fatal.h"
#include "http/codings/choice.h"
#include "http/codings/coded_body.h"
#include "http/message/type_set.h"
#include "http/request/request.h"
#include "http/variables/variables.h"
#include "server/module.h"

static bool check_level(struct conf_scope *scope, const struct directive *row,
                        struct conf_node *node, void *settings)
{
    int64_t level = ((struct encoder_settings *) settings)->level;

    return (level >= BROTLI_MIN_QUALITY && level <= BROTLI_MAX_QUALITY) ||
           conf_error(scope->conf, node, "value must be between %d and %d", BROTLI_MIN_QUALITY,
                      BROTLI_MAX_QUALITY);
}

static bool check_window(struct conf_scope *scope, const struct directive *row,
                         struct conf_node *node, void *settings)
{
    uint64_t window = ((struct encoder_settings *) settings)->window;

    return (window >= 1024 && window <= 16 * 1024 * 1024 && (window & (window - 1)) == 0) ||
           conf_error(scope->conf, node,
                      "\"brotli_window\" directive must be 1k, 2k, 4k, 8k, 16k, 32k, 64k, 128k, "
                      "256k, 512k, 1m, 2m, 4m, 8m or 16m");
}

static struct settings_key key;

#define S struct encoder_settings
static const struct directive rows[] = {
    {"brotli", IN_HTTP_ALL | IN_LOCATION_IF, FLAG(S, is_on), .initial = "off",
     .doc = "Enables compression of responses for clients that accept brotli."},
    {"brotli_types", IN_HTTP_ALL, CUSTOM_FIELD(S, types, type_set_apply), ARGS(1, ARGS_ANY),
     .initial = "text/html", .repeat = REPEAT_APPEND, .syntax = "type ... | *",
     .doc = "Media types of responses that are compressed, in addition to text/html; * "
            "matches any type."},
    {"brotli_comp_level", IN_HTTP_ALL, NUMBER(S, level), .initial = "6", .apply = check_level,
     .doc = "Compression level, from 0 (fastest) to 11 (smallest output)."},
    {"brotli_min_length", IN_HTTP_ALL, SIZE(S, min_length), .initial = "20",
     .doc = "Minimum size of a body that is compressed. Bodies of unknown size are always "
            "compressed."},
    {"brotli_buffers", IN_HTTP_ALL, BUFFERS(S, buffers), .initial = "32 4k",
     .doc = "Number and size of output buffers. Their total, up to 32k, is the size of the "
            "pieces that are passed on."},
    {"brotli_window", IN_HTTP_ALL, SIZE(S, window), .initial = "512k", .apply = check_window,
     .doc = "Size of the compression window. A smaller one is used for bodies that are "
            "known to be small."},
    {0},
};
#undef S

/* ---- memory ---- */

/* A memory block of an encoder. The next encoder of the same codec requests the same sizes, and
 * gets the same blocks. */
struct block {
    struct block *next; /* next free block */
    size_t size;        /* bytes after this struct */
};

/* The library cannot restart an encoder, so its memory is kept for the next one. */
struct brotli {
    BrotliEncoderState *encoder; /* NULL between bodies */
    struct block *free;          /* blocks that the former encoder has released */
};

static void *block_take(void *opaque, size_t size)
{
    struct brotli *brotli = opaque;
    struct block **at = &brotli->free;

    while (*at != NULL && (*at)->size != size) {
        at = &(*at)->next;
    }
    struct block *block = *at;
    if (block != NULL) {
        *at = block->next;
        return block + 1;
    }
    block = malloc(sizeof(*block) + size);
    if (block == NULL) {
        return NULL;
    }
    block->size = size;
    return block + 1;
}

static void block_give(void *opaque, void *address)
{
    struct brotli *brotli = opaque;

    if (address != NULL) {
        struct block *block = (struct block *) address - 1;
        block->next = brotli->free;
        brotli->free = block;
    }
}

static void blocks_free(struct brotli *brotli)
{
    while (brotli->free != NULL) {
        struct block *block = brotli->free;
        brotli->free = block->next;
        free(block);
    }
}

/* ---- the codec ---- */

/* Memory of an encoder in kilobytes, by level; measured with a body of unknown length. */
static const unsigned level_memory[] = {138,  296,   1598,  1602,  4500,  5523,
                                        7585, 12461, 20653, 39026, 20599, 32042};

static size_t brotli_memory(const struct codec_shape *shape)
{
    size_t usual = (size_t) level_memory[shape->level] << 10;
    size_t of_window = ((size_t) 1400 << 10) + ((size_t) 64 << shape->window_bits);

    return usual < of_window ? usual : of_window;
}

static bool brotli_make(struct codec *codec)
{
    codec->state = calloc(1, sizeof(struct brotli));
    return codec->state != NULL;
}

static void encoder_end(struct brotli *brotli)
{
    if (brotli->encoder != NULL) {
        BrotliEncoderDestroyInstance(brotli->encoder);
        brotli->encoder = NULL;
    }
}

static void brotli_begin(struct codec *codec, int64_t length)
{
    struct brotli *brotli = codec->state;

    encoder_end(brotli);
    brotli->encoder = BrotliEncoderCreateInstance(block_take, block_give, brotli);
    if (brotli->encoder == NULL) {
        fatal_no_memory(brotli_memory(&codec->shape));
    }
    BrotliEncoderSetParameter(brotli->encoder, BROTLI_PARAM_QUALITY, (uint32_t) codec->shape.level);
    BrotliEncoderSetParameter(brotli->encoder, BROTLI_PARAM_LGWIN,
                              (uint32_t) codec->shape.window_bits);
    if (length > 0) {
        BrotliEncoderSetParameter(brotli->encoder, BROTLI_PARAM_SIZE_HINT,
                                  length < UINT32_MAX ? (uint32_t) length : UINT32_MAX);
    }
}

static enum codec_step brotli_step(struct codec *codec, struct str *in, enum codec_aim aim,
                                   const struct log *log)
{
    static const BrotliEncoderOperation operations[] = {
        [CODEC_GO_ON] = BROTLI_OPERATION_PROCESS,
        [CODEC_FLUSH] = BROTLI_OPERATION_FLUSH,
        [CODEC_END] = BROTLI_OPERATION_FINISH,
    };
    struct brotli *brotli = codec->state;
    const uint8_t *next_in = (const uint8_t *) in->data;
    uint8_t *next_out = codec->out + codec->out_used;
    size_t in_left = in->len;
    size_t out_left = codec->shape.out_size - codec->out_used;
    bool is_sound = BrotliEncoderCompressStream(brotli->encoder, operations[aim], &in_left,
                                                &next_in, &out_left, &next_out, NULL);

    *in = (struct str){(const char *) next_in, in_left};
    codec->out_used = codec->shape.out_size - out_left;
    if (!is_sound) {
        log_alert(log, 0, "BrotliEncoderCompressStream() failed: %d", (int) aim);
        return CODEC_FAILED;
    }
    return in_left != 0 || BrotliEncoderHasMoreOutput(brotli->encoder) ? CODEC_FULL : CODEC_DONE;
}

static void brotli_free(struct codec *codec)
{
    struct brotli *brotli = codec->state;

    encoder_end(brotli);
    blocks_free(brotli);
    free(brotli);
}

static const struct codec_kind codec_brotli = {
    .memory = brotli_memory,
    .make = brotli_make,
    .begin = brotli_begin,
    .step = brotli_step,
    .free = brotli_free,
    .has_deep_stack = true,
};

/* A body whose size is known needs no window larger than itself. */
static struct codec_shape shape_for(const struct encoder_settings *settings, int64_t length)
{
    int window_bits = bits_for(settings->window, BROTLI_MIN_WINDOW_BITS);
    int enough = length >= 0 ? bits_for((uint64_t) length, BROTLI_MIN_WINDOW_BITS) : window_bits;

    return (struct codec_shape){.kind = &codec_brotli,
                                .level = (int) settings->level,
                                .window_bits = enough < window_bits ? enough : window_bits,
                                .out_size = codec_out_size(&settings->buffers)};
}

static const struct encoder brotli_encoder = {.coding = &coding_brotli, .shape_for = shape_for};

/* ---- the header ---- */

TYPED_SETTINGS(brotli_settings_at, struct encoder_settings, key, struct http_location)

static void brotli_header(struct request *request)
{
    if (response_coding(request) == &coding_brotli) {
        response_encode(request, &brotli_encoder, brotli_settings_at(request->location));
    }
}

static bool brotli_fits(const struct request *request)
{
    return encoder_fits(brotli_settings_at(request->location), request);
}

static bool get_ratio(struct variable_env *env, const struct variable *variable, struct str *out)
{
    return encoded_ratio(env, &coding_brotli, out);
}

static const struct variable variables[] =
    {{.name = STR_INIT("brotli_ratio"),
      .doc = "Ratio of the original size to the compressed size.",
      .get = get_ratio},
     {.name = {NULL, 0}}};
static const struct filter_hook filters[] = {
    {.name = "brotli", .run = brotli_header, .when = SETTING(key, struct encoder_settings, is_on)},
    {.run = NULL},
};
static const struct coding_hook encoder_hook = {.coding = &coding_brotli,
                                                .when =
                                                    SETTING(key, struct encoder_settings, is_on),
                                                .fits = brotli_fits};
static const struct http_module hooks = {.variables = variables,
                                         .filters = filters,
                                         .encoder = &encoder_hook};

const struct module ngx_http_brotli_filter_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_http_brotli_filter_module",
    .kind = MODULE_HTTP,
    .table = {.key = &key,
              .rows = rows,
              .contexts = IN_HTTP_LOCATION_SETTINGS,
              .size = sizeof(struct encoder_settings)},
    .hooks = &hooks,
    .worker_end = codecs_drop,
};
