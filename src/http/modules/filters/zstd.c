/* ngx_http_zstd_filter_module: compresses responses with Zstandard (RFC 8878). */
#include <errno.h>
#include <string.h>
#include <zstd.h>

#include "base/fatal.h"
#include "base/fs.h"
#include "http/codings/choice.h"
#include "http/codings/coded_body.h"
#include "http/message/type_set.h"
#include "http/request/request.h"
#include "http/variables/variables.h"
#include "server/module.h"

/* Content-Encoding allows no larger window (RFC 9659): 8 megabytes. */
#define WINDOW_BITS_MAX 23
#define WINDOW_LEVEL_MAX 19 /* higher levels would use a larger window */
#define WINDOW_BITS_LEAST 12
#define LEVEL_MAX 22

#define DICTIONARY_MAX (16u * 1024 * 1024) /* bytes of zstd_dict_file */

/* A dictionary that clients have as well, prepared for one level; in the generation. */
struct dictionary {
    int level;
    ZSTD_CDict *prepared;
};

/* Settings of the http block. */
struct zstd_main {
    struct str dictionary_path;
    struct conf_node *dictionary_node; /* where zstd_dict_file is */
    struct str contents;               /* contents of the file; data == NULL: no dictionary */
    struct vec dictionaries;           /* struct dictionary *: for the levels in use */
};

static struct settings_key main_key;
static struct settings_key key;

static bool check_level(struct conf_scope *scope, const struct directive *row,
                        struct conf_node *node, void *settings)
{
    int64_t level = ((struct encoder_settings *) settings)->level;

    return (level >= ZSTD_minCLevel() && level <= ZSTD_maxCLevel()) ||
           conf_error(scope->conf, node, "value must be between %d and %d", ZSTD_minCLevel(),
                      ZSTD_maxCLevel());
}

/* ---- the dictionary ---- */

static bool dictionary_apply(struct conf_scope *scope, const struct directive *row,
                             struct conf_node *node, void *settings)
{
    struct zstd_main *main = settings;

    if (!fs_read_all(scope->conf->arena, main->dictionary_path.data, DICTIONARY_MAX,
                     &main->contents)) {
        return conf_error(scope->conf, node, "open() \"%.*s\" failed (%d: %s)",
                          STR_ARG(main->dictionary_path), errno, strerror(errno));
    }
    main->dictionary_node = node;
    return main->contents.len != 0 || conf_error(scope->conf, node, "dictionary \"%.*s\" is empty",
                                                 STR_ARG(main->dictionary_path));
}

static void dictionary_free(void *arg)
{
    ZSTD_freeCDict(arg);
}

/* NULL after conf_error: a file with the magic number of a zstd dictionary is malformed. */
static const ZSTD_CDict *dictionary_for(struct conf *conf, struct zstd_main *main, int level)
{
    vec_each(struct dictionary, dictionary, &main->dictionaries) {
        if (dictionary->level == level) {
            return dictionary->prepared;
        }
    }
    ZSTD_CDict *prepared = ZSTD_createCDict(main->contents.data, main->contents.len, level);
    if (prepared == NULL) {
        conf_error(conf, main->dictionary_node, "dictionary \"%.*s\" is damaged",
                   STR_ARG(main->dictionary_path));
        return NULL;
    }
    arena_on_free(conf->arena, dictionary_free, prepared);
    *vec_add(&main->dictionaries, conf->arena, struct dictionary) =
        (struct dictionary){level, prepared};
    return prepared;
}

static bool zstd_finish(struct conf_scope *scope, void *arg)
{
    struct encoder_settings *settings = arg;
    struct zstd_main *main = conf_settings(scope, &main_key);

    if (settings->is_on && main->contents.data != NULL) {
        settings->dictionary = dictionary_for(scope->conf, main, (int) settings->level);
        return settings->dictionary != NULL;
    }
    return true;
}

/* ---- rows ---- */

static const struct directive main_rows[] = {
    {"zstd_dict_file", IN_HTTP, CONF_PATH(struct zstd_main, dictionary_path),
     .apply = dictionary_apply,
     .doc = "Dictionary with which all responses are compressed; clients must have it, too."},
    {0},
};

#define S struct encoder_settings
static const struct directive rows[] = {
    {"zstd", IN_HTTP_ALL | IN_LOCATION_IF, FLAG(S, is_on), .initial = "off",
     .doc = "Enables compression of responses for clients that accept zstd."},
    {"zstd_types", IN_HTTP_ALL, CUSTOM_FIELD(S, types, type_set_apply), ARGS(1, ARGS_ANY),
     .initial = "text/html", .repeat = REPEAT_APPEND, .syntax = "type ... | *",
     .doc = "Media types of responses that are compressed, in addition to text/html; * "
            "matches any type."},
    {"zstd_comp_level", IN_HTTP_ALL, NUMBER(S, level), .initial = "1", .min = -131072,
     .max = LEVEL_MAX, .apply = check_level,
     .doc = "Compression level, from 1 (fastest of the standard levels) to 22 (smallest "
            "output). Negative levels are faster than 1."},
    {"zstd_min_length", IN_HTTP_ALL, SIZE(S, min_length), .initial = "20",
     .doc = "Minimum size of a body that is compressed. Bodies of unknown size are always "
            "compressed."},
    {"zstd_buffers", IN_HTTP_ALL, BUFFERS(S, buffers), .initial = "32 4k",
     .doc = "Number and size of output buffers. Their total, up to 32k, is the size of the "
            "pieces that are passed on."},
    {0},
};
#undef S

static const struct directive_table main_table = {.key = &main_key,
                                                  .rows = main_rows,
                                                  .contexts = IN_HTTP,
                                                  .size = sizeof(struct zstd_main),
                                                  .module_name = "ngx_http_zstd_filter_module"};
static const struct directive_table table = {.key = &key,
                                             .rows = rows,
                                             .contexts = IN_HTTP_LOCATION_SETTINGS,
                                             .size = sizeof(struct encoder_settings),
                                             .finish = zstd_finish,
                                             .module_name = "ngx_http_zstd_filter_module"};
static const struct directive_table *const tables[] = {&main_table, &table, NULL};

/* ---- the codec ---- */

/* Memory of a compressor in kilobytes, by level from 0 on; measured with a body of unknown
 * length. */
static const unsigned level_memory[LEVEL_MAX + 1] = {
    3577,  1337,  2041,  3577,  4857,  5881,  5881,  8953,  8953,   17145,  29433,  29433,
    54009, 54009, 70393, 70393, 70393, 70393, 91648, 91648, 173568, 665088, 665088,
};

static size_t zstd_memory(const struct codec_shape *shape)
{
    size_t usual = (size_t) level_memory[shape->level < 0 ? 1 : shape->level] << 10;
    size_t of_window = ((size_t) 300 << 10) + ((size_t) 26 << shape->window_bits);

    return shape->window_bits != 0 && of_window < usual ? of_window : usual;
}

static bool zstd_make(struct codec *codec)
{
    codec->state = ZSTD_createCCtx();
    return codec->state != NULL;
}

static void zstd_begin(struct codec *codec, int64_t length)
{
    ZSTD_CCtx *context = codec->state;

    ZSTD_CCtx_reset(context, ZSTD_reset_session_and_parameters);
    ZSTD_CCtx_setParameter(context, ZSTD_c_compressionLevel, codec->shape.level);
    if (codec->shape.level > WINDOW_LEVEL_MAX) {
        ZSTD_CCtx_setParameter(context, ZSTD_c_windowLog, WINDOW_BITS_MAX);
    }
    if (codec->shape.dictionary != NULL) {
        ZSTD_CCtx_refCDict(context, codec->shape.dictionary);
    }
    if (length >= 0) {
        ZSTD_CCtx_setPledgedSrcSize(context, (unsigned long long) length);
    }
}

static enum codec_step zstd_step(struct codec *codec, struct str *in, enum codec_aim aim,
                                 const struct log *log)
{
    static const ZSTD_EndDirective directives[] = {
        [CODEC_GO_ON] = ZSTD_e_continue,
        [CODEC_FLUSH] = ZSTD_e_flush,
        [CODEC_END] = ZSTD_e_end,
    };
    ZSTD_inBuffer input = {in->data, in->len, 0};
    ZSTD_outBuffer output = {codec->out, codec->shape.out_size, codec->out_used};
    size_t left = ZSTD_compressStream2(codec->state, &output, &input, directives[aim]);

    *in = str_skip(*in, input.pos);
    codec->out_used = output.pos;
    if (ZSTD_isError(left)) {
        log_error(log, 0, "ZSTD_compressStream2() failed: %s", ZSTD_getErrorName(left));
        return CODEC_FAILED;
    }
    return in->len != 0 || (aim != CODEC_GO_ON && left != 0) ? CODEC_FULL : CODEC_DONE;
}

static void zstd_free(struct codec *codec)
{
    ZSTD_freeCCtx(codec->state);
}

static const struct codec_kind codec_zstd = {
    .memory = zstd_memory,
    .make = zstd_make,
    .begin = zstd_begin,
    .step = zstd_step,
    .free = zstd_free,
};

/* The library chooses the window by level and length; window_bits only separate codecs for small
 * bodies from others. */
static struct codec_shape shape_for(const struct encoder_settings *settings, int64_t length)
{
    int bits = length >= 0 ? bits_for((uint64_t) length, WINDOW_BITS_LEAST) : 0;

    return (struct codec_shape){.kind = &codec_zstd,
                                .level = (int) settings->level,
                                .window_bits = bits <= WINDOW_BITS_MAX ? bits : 0,
                                .out_size = codec_out_size(&settings->buffers),
                                .dictionary = settings->dictionary};
}

static const struct encoder zstd_encoder = {.coding = &coding_zstd, .shape_for = shape_for};

/* ---- the header ---- */

TYPED_SETTINGS(zstd_settings_at, struct encoder_settings, key, struct http_location)

static void zstd_header(struct request *request)
{
    if (response_coding(request) == &coding_zstd) {
        response_encode(request, &zstd_encoder, zstd_settings_at(request->location));
    }
}

static bool zstd_fits(const struct request *request)
{
    return encoder_fits(zstd_settings_at(request->location), request);
}

static bool get_ratio(struct variable_env *env, const struct variable *variable, struct str *out)
{
    return encoded_ratio(env, &coding_zstd, out);
}

static const struct variable variables[] =
    {{.name = STR_INIT("zstd_ratio"),
      .doc = "Ratio of the original size to the compressed size.",
      .get = get_ratio},
     {.name = {NULL, 0}}};
static const struct filter_hook filters[] = {
    {.name = "zstd", .run = zstd_header, .when = SETTING(key, struct encoder_settings, is_on)},
    {.run = NULL},
};
static const struct coding_hook encoder_hook = {.coding = &coding_zstd,
                                                .when =
                                                    SETTING(key, struct encoder_settings, is_on),
                                                .fits = zstd_fits};
static const struct http_module hooks = {.variables = variables,
                                         .filters = filters,
                                         .encoder = &encoder_hook};

const struct module ngx_http_zstd_filter_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_http_zstd_filter_module",
    .kind = MODULE_HTTP,
    .tables = tables,
    .hooks = &hooks,
    .worker_end = codecs_drop,
};
