/* ngx_http_gzip_filter_module: compresses responses with gzip (RFC 1952). */
#include "http/modules/filters/gzip/gzip.h"

#include "config.h"
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

    return (level >= 1 && level <= 9) ||
           conf_error(scope->conf, node, "value must be between 1 and 9");
}

static bool is_power_within(uint64_t size, uint64_t most)
{
    return size >= 512 && size <= most && (size & (size - 1)) == 0;
}

static bool check_window(struct conf_scope *scope, const struct directive *row,
                         struct conf_node *node, void *settings)
{
    return is_power_within(((struct encoder_settings *) settings)->window, 32 * 1024) ||
           conf_error(scope->conf, node,
                      "\"gzip_window\" directive must be 512, 1k, 2k, 4k, 8k, 16k, or 32k");
}

static bool check_hash(struct conf_scope *scope, const struct directive *row,
                       struct conf_node *node, void *settings)
{
    return is_power_within(((struct encoder_settings *) settings)->hash, 128 * 1024) ||
           conf_error(scope->conf, node,
                      "\"gzip_hash\" directive must be 512, 1k, 2k, 4k, 8k, 16k, 32k, 64k, "
                      "or 128k");
}

#define S struct encoder_settings
static const struct directive rows[] = {
    {"gzip", IN_HTTP_ALL | IN_LOCATION_IF, FLAG(S, is_on), .initial = "off",
     .doc = "Enables compression of responses for clients that accept gzip."},
    {"gzip_types", IN_HTTP_ALL, CUSTOM_FIELD(S, types, type_set_apply), ARGS(1, ARGS_ANY),
     .initial = "text/html", .repeat = REPEAT_APPEND, .syntax = "type ... | *",
     .doc = "Media types of responses that are compressed, in addition to text/html; * "
            "matches any type."},
    {"gzip_comp_level", IN_HTTP_ALL, NUMBER(S, level), .initial = "1", .apply = check_level,
     .doc = "Compression level, from 1 (fastest) to 9 (smallest output)."},
    {"gzip_min_length", IN_HTTP_ALL, SIZE(S, min_length), .initial = "20",
     .doc = "Minimum size of a body that is compressed. Bodies of unknown size are always "
            "compressed."},
    {"gzip_buffers", IN_HTTP_ALL, BUFFERS(S, buffers), .initial = "32 4k",
     .doc = "Number and size of output buffers. Their total, up to 32k, is the size of the "
            "pieces that are passed on."},
    {"gzip_window", IN_HTTP_ALL, SIZE(S, window), .initial = "32k", .apply = check_window,
     .doc = "Size of the compression window. A smaller one is used for bodies that are "
            "known to be small."},
    {"gzip_hash", IN_HTTP_ALL, SIZE(S, hash), .initial = "128k", .apply = check_hash,
     .doc = "Size of the compressor's hash table. A smaller one is used for bodies that "
            "are known to be small."},
    {"gzip_no_buffer", IN_HTTP_ALL, FLAG(S, passes_at_once), .initial = "off",
     .doc = "Whether compressed data is passed on as soon as it is available instead of "
            "when a buffer is full."},
    {"postpone_gzipping", IN_HTTP_ALL, SIZE(S, postpone), .initial = "0",
     .doc = "Number of bytes of a body that are buffered before compression begins."},
    {"gzip_clear_etag", IN_HTTP_ALL, FLAG(S, clears_etag), .initial = "off",
     .doc = "Whether ETag is removed from compressed responses. Otherwise it becomes a "
            "weak ETag."},
    {0},
};
#undef S

static struct settings_key key;

/* ---- the compressor ---- */

/* Bytes of a window that zlib does not use (MIN_LOOKAHEAD). */
#define WINDOW_LOST 263

#define ISAL_LEVEL_MAX 3 /* ISA-L, where it is built in, compresses levels up to this one */

/* A body whose size is known needs no window larger than itself, and a table to match. */
static struct codec_shape shape_for(const struct encoder_settings *settings, int64_t length)
{
#ifdef HAVE_ISAL
    if (settings->level <= ISAL_LEVEL_MAX) {
        return (struct codec_shape){.kind = &codec_igzip,
                                    .level = (int) settings->level,
                                    .window_bits = bits_for(settings->window, 9),
                                    .out_size = codec_out_size(&settings->buffers)};
    }
#endif
    int window_bits = bits_for(settings->window, 9);
    int memory_level = bits_for(settings->hash, 9) - 9; /* a table of 2^(level + 9) bytes */

    if (length >= 0 && length < (int64_t) settings->window) {
        int surplus = window_bits - bits_for((uint64_t) length + WINDOW_LOST, 9);
        surplus = surplus > 0 ? surplus : 0;
        window_bits -= surplus;
        memory_level -= surplus;
    }
    return (struct codec_shape){.kind = &codec_deflate,
                                .level = (int) settings->level,
                                .window_bits = window_bits,
                                .memory_level = memory_level > 1 ? memory_level : 1,
                                .out_size = codec_out_size(&settings->buffers)};
}

#ifdef HAVE_LIBDEFLATE
/* Sizes of a body that is gathered for libdeflate: a larger one would block the worker for too
 * long, a smaller one libdeflate only stores. */
#define WHOLE_MAX (64 * 1024)
#define WHOLE_LEAST 64
/* Libdeflate has no smaller window. */
#define WINDOW_WHOLE (32 * 1024)

static bool whole_shape_for(const struct encoder_settings *settings, int64_t length,
                            struct codec_shape *shape)
{
#ifdef HAVE_ISAL
    if (settings->level <= ISAL_LEVEL_MAX) {
        return false;
    }
#endif
    if (length < WHOLE_LEAST || length > WHOLE_MAX || settings->passes_at_once ||
        settings->window < WINDOW_WHOLE) {
        return false;
    }
    *shape = (struct codec_shape){.kind = &codec_libdeflate,
                                  .level = (int) settings->level,
                                  .out_size = codec_out_size(&settings->buffers)};
    return true;
}
#endif

static const struct encoder gzip_encoder = {
    .coding = &coding_gzip,
    .shape_for = shape_for,
#ifdef HAVE_LIBDEFLATE
    .whole_shape_for = whole_shape_for,
#endif
};

/* ---- the header ---- */

TYPED_SETTINGS(gzip_settings_at, struct encoder_settings, key, struct http_location)

static void gzip_header(struct request *request)
{
    if (response_coding(request) == &coding_gzip) {
        response_encode(request, &gzip_encoder, gzip_settings_at(request->location));
    }
}

static bool gzip_fits(const struct request *request)
{
    return encoder_fits(gzip_settings_at(request->location), request);
}

static bool get_ratio(struct variable_env *env, const struct variable *variable, struct str *out)
{
    return encoded_ratio(env, &coding_gzip, out);
}

static const struct variable variables[] =
    {{.name = STR_INIT("gzip_ratio"),
      .doc = "Ratio of the original size to the compressed size.",
      .get = get_ratio},
     {.name = {NULL, 0}}};
static const struct filter_hook filters[] = {
    {.name = "gzip", .run = gzip_header, .when = SETTING(key, struct encoder_settings, is_on)},
    {.run = NULL},
};
static const struct coding_hook encoder_hook = {.coding = &coding_gzip,
                                                .when =
                                                    SETTING(key, struct encoder_settings, is_on),
                                                .fits = gzip_fits};
static const struct http_module hooks = {.variables = variables,
                                         .filters = filters,
                                         .encoder = &encoder_hook};

const struct module ngx_http_gzip_filter_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_http_gzip_filter_module",
    .kind = MODULE_HTTP,
    .table = {.key = &key,
              .rows = rows,
              .contexts = IN_HTTP_LOCATION_SETTINGS,
              .size = sizeof(struct encoder_settings)},
    .hooks = &hooks,
    .worker_end = codecs_drop,
};
