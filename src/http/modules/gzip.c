/* ngx_http_gzip_filter_module: responses compressed on their way (RFC 1952). */
#include "http/gzip.h"

#include <stdlib.h>
#include <zlib.h>

#include "base/buf.h"
#include "base/fatal.h"
#include "http/file.h"
#include "http/hooks.h"
#include "http/request.h"
#include "http/type_set.h"
#include "http/variables.h"
#include "server/module.h"

/* Settings of one place. */
struct gzip_settings {
    bool is_on;
    bool passes_at_once; /* gzip_no_buffer */
    bool clears_etag;
    int64_t level;          /* 1 to 9 */
    uint64_t min_length;    /* bytes; shorter bodies stay as they are */
    uint64_t window;        /* bytes: how far back repetitions are found */
    uint64_t hash;          /* bytes of the compressor's table */
    uint64_t postpone;      /* bytes of input that are gathered first; 0 = none */
    struct buffers buffers; /* of output; together they bound a piece that is passed on */
    struct type_set *types;
};

static bool check_level(struct conf_scope *scope, const struct directive *row,
                        struct conf_node *node, void *settings)
{
    int64_t level = ((struct gzip_settings *) settings)->level;

    (void) row;
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
    (void) row;
    return is_power_within(((struct gzip_settings *) settings)->window, 32 * 1024) ||
           conf_error(scope->conf, node,
                      "\"gzip_window\" directive must be 512, 1k, 2k, 4k, 8k, 16k, or 32k");
}

static bool check_hash(struct conf_scope *scope, const struct directive *row,
                       struct conf_node *node, void *settings)
{
    (void) row;
    return is_power_within(((struct gzip_settings *) settings)->hash, 128 * 1024) ||
           conf_error(scope->conf, node,
                      "\"gzip_hash\" directive must be 512, 1k, 2k, 4k, 8k, 16k, 32k, 64k, "
                      "or 128k");
}

#define S struct gzip_settings
static const struct directive rows[] = {
    {"gzip", IN_HTTP_ALL | IN_LOCATION_IF, FLAG(S, is_on), .initial = "off",
     .doc = "Compresses responses for clients that take gzip."},
    {"gzip_types", IN_HTTP_ALL, CUSTOM_FIELD(S, types, type_set_apply), ARGS(1, ARGS_ANY),
     .initial = "text/html", .repeat = REPEAT_APPEND, .syntax = "type ... | *",
     .doc = "Media types that are compressed besides text/html."},
    {"gzip_comp_level", IN_HTTP_ALL, NUMBER(S, level), .initial = "1", .apply = check_level,
     .doc = "From 1, the fastest, to 9, the smallest."},
    {"gzip_min_length", IN_HTTP_ALL, SIZE(S, min_length), .initial = "20",
     .doc = "Bodies that are known to be shorter are not compressed."},
    {"gzip_buffers", IN_HTTP_ALL, BUFFERS(S, buffers), .initial = "32 4k",
     .doc = "Number and size of output buffers; together, up to 32k, they make the pieces that are "
            "passed on."},
    {"gzip_window", IN_HTTP_ALL, SIZE(S, window), .initial = "32k", .apply = check_window,
     .doc = "How far back repetitions are looked for; less for bodies that are known to be small."},
    {"gzip_hash", IN_HTTP_ALL, SIZE(S, hash), .initial = "128k", .apply = check_hash,
     .doc = "Size of the compressor's table; less for bodies that are known to be small."},
    {"gzip_no_buffer", IN_HTTP_ALL, FLAG(S, passes_at_once), .initial = "off",
     .doc = "Passes compressed bytes on as soon as there are any, and not when a buffer is full."},
    {"postpone_gzipping", IN_HTTP_ALL, SIZE(S, postpone), .initial = "0",
     .doc = "Bytes of a body that are gathered before compression begins."},
    {"gzip_clear_etag", IN_HTTP_ALL, FLAG(S, clears_etag), .initial = "off",
     .doc = "Leaves ETag out of compressed responses, where it is weakened else."},
    {0},
};
#undef S

static struct directive_table table = {.rows = rows,
                                       .contexts = IN_HTTP_LOCATION_SETTINGS,
                                       .size = sizeof(struct gzip_settings),
                                       .module_name = "ngx_http_gzip_filter_module"};
static struct directive_table *const tables[] = {&table, NULL};

/* ---- compressors ---- */

#define PIECE_MAX (32u * 1024) /* bytes of output that are passed on at a time */
#define FREE_MAX 8             /* compressors that are kept for the next responses of a worker */

/* How a compressor was made: it can only serve what wants the same. */
struct shape {
    int level;
    int window_bits;
    int memory_level;
    unsigned out_size; /* bytes */
};

/* zlib's state and the room for its output. Not of a request: the memory is used again and again. */
struct compressor {
    struct shape shape;
    z_stream stream;
    unsigned char *out; /* shape.out_size bytes */
};

static struct compressor *free_compressors[FREE_MAX]; /* of this worker; the newest is the last */
static unsigned free_count;

static bool is_same_shape(const struct shape *a, const struct shape *b)
{
    return a->level == b->level && a->window_bits == b->window_bits &&
           a->memory_level == b->memory_level && a->out_size == b->out_size;
}

static void free_compressor(struct compressor *compressor)
{
    deflateEnd(&compressor->stream);
    free(compressor->out);
    free(compressor);
}

static struct compressor *make_compressor(const struct shape *shape)
{
    struct compressor *compressor = calloc(1, sizeof(*compressor));
    unsigned char *out = malloc(shape->out_size);

    if (compressor == NULL || out == NULL ||
        deflateInit2(&compressor->stream, shape->level, Z_DEFLATED, shape->window_bits + 16,
                     shape->memory_level, Z_DEFAULT_STRATEGY) != Z_OK) {
        fatal_no_memory(sizeof(*compressor) + shape->out_size);
    }
    compressor->shape = *shape;
    compressor->out = out;
    return compressor;
}

/* One that was used before costs a reset, not the making of its tables. */
static struct compressor *take_compressor(const struct shape *shape)
{
    struct compressor *compressor = NULL;

    for (unsigned i = free_count; i > 0 && compressor == NULL; i--) {
        if (is_same_shape(&free_compressors[i - 1]->shape, shape)) {
            compressor = free_compressors[i - 1];
            free_count--;
            memmove(&free_compressors[i - 1], &free_compressors[i],
                    (free_count - (i - 1)) * sizeof(compressor));
        }
    }
    if (compressor == NULL) {
        compressor = make_compressor(shape);
    } else {
        deflateReset(&compressor->stream);
    }
    compressor->stream.next_out = compressor->out;
    compressor->stream.avail_out = shape->out_size;
    return compressor;
}

static void give_compressor(struct compressor *compressor)
{
    if (free_count == FREE_MAX) {
        free_compressor(free_compressors[0]);
        free_count--;
        memmove(&free_compressors[0], &free_compressors[1], free_count * sizeof(compressor));
    }
    free_compressors[free_count++] = compressor;
}

static void drop_compressors(struct generation *generation)
{
    (void) generation;
    while (free_count > 0) {
        free_compressor(free_compressors[--free_count]);
    }
}

/* The least b, from 9 on, with 2^b >= size. */
static int bits_for(uint64_t size)
{
    int bits = 9;

    while (((uint64_t) 1 << bits) < size) {
        bits++;
    }
    return bits;
}

/* Of a window, zlib leaves so much unused (MIN_LOOKAHEAD). */
#define WINDOW_LOST 263

/* A body that is known to be small needs no window beyond itself, and a table that fits it. */
static struct shape shape_for(const struct gzip_settings *settings, int64_t length)
{
    int window_bits = bits_for(settings->window);
    int memory_level = bits_for(settings->hash) - 9; /* a table of 2^(level + 9) bytes */
    uint64_t out = settings->buffers.number * settings->buffers.size;

    if (length >= 0 && length < (int64_t) settings->window) {
        int surplus = window_bits - bits_for((uint64_t) length + WINDOW_LOST);
        surplus = surplus > 0 ? surplus : 0;
        window_bits -= surplus;
        memory_level -= surplus;
    }
    return (struct shape){.level = (int) settings->level,
                          .window_bits = window_bits,
                          .memory_level = memory_level > 1 ? memory_level : 1,
                          .out_size = out < 512         ? 512
                                      : out < PIECE_MAX ? (unsigned) out
                                                        : PIECE_MAX};
}

/* ---- the body ---- */

/* A response that is compressed; in the request's arena. */
struct gzip_filter {
    struct body_filter filter;
    const struct gzip_settings *settings;
    struct compressor *compressor; /* from the first byte to the last */
    int64_t length;                /* of the whole body; -1 = not known */
    uint64_t in;                   /* bytes that were given to it so far */
    uint64_t out;                  /* bytes that it gave */
    struct buf held;               /* postpone_gzipping */
    bool is_finished;              /* the last piece was passed on, or the client is gone */
};

static void finish(struct gzip_filter *gzip)
{
    gzip->is_finished = true;
    buf_free(&gzip->held);
    if (gzip->compressor != NULL) {
        give_compressor(gzip->compressor);
        gzip->compressor = NULL;
    }
}

/* The request ended before its body did. */
static void abandon(void *arg)
{
    finish(arg);
}

static z_stream *stream_of(struct gzip_filter *gzip)
{
    if (gzip->compressor == NULL) {
        struct shape shape = shape_for(gzip->settings, gzip->length);
        gzip->compressor = take_compressor(&shape);
    }
    return &gzip->compressor->stream;
}

/* What the compressor has laid out goes on. MAY WAIT. */
static bool pass_output(struct gzip_filter *gzip, struct request *request, bool is_flush,
                        bool is_last)
{
    struct compressor *compressor = gzip->compressor;
    size_t size = compressor->shape.out_size - compressor->stream.avail_out;
    struct body_piece piece = {.bytes = {(char *) compressor->out, size},
                               .fd = -1,
                               .is_volatile = true,
                               .is_flush = is_flush};

    gzip->out += size;
    if (!body_filter_next(&gzip->filter, request, &piece, is_last)) {
        return false;
    }
    compressor->stream.next_out = compressor->out;
    compressor->stream.avail_out = compressor->shape.out_size;
    return true;
}

/* Compresses; full rooms of output go on. mode: Z_NO_FLUSH, Z_SYNC_FLUSH, Z_FINISH. MAY WAIT. */
static bool compress_bytes(struct gzip_filter *gzip, struct request *request, struct str bytes,
                           int mode)
{
    z_stream *stream = stream_of(gzip);

    gzip->in += bytes.len;
    do {
        unsigned part = bytes.len < UINT32_MAX ? (unsigned) bytes.len : UINT32_MAX;
        int result;

        stream->next_in = (unsigned char *) (uintptr_t) bytes.data;
        stream->avail_in = part;
        bytes = part < bytes.len ? str_skip(bytes, part) : STR_NONE;
        do {
            if (stream->avail_out == 0 && !pass_output(gzip, request, false, false)) {
                return false;
            }
            result = deflate(stream, bytes.len == 0 ? mode : Z_NO_FLUSH);
            if (result != Z_OK && result != Z_STREAM_END && result != Z_BUF_ERROR) {
                log_alert(&request->log, 0, "deflate() failed: %d, %d", mode, result);
                return false;
            }
        } while (stream->avail_out == 0 && result != Z_STREAM_END);
    } while (bytes.len != 0);
    return true;
}

/* postpone_gzipping: is the piece only put aside? */
static bool hold(struct gzip_filter *gzip, struct str bytes, int mode)
{
    uint64_t limit = gzip->settings->postpone;

    if (mode != Z_NO_FLUSH || gzip->in != 0 || gzip->held.len + bytes.len >= limit) {
        return false;
    }
    buf_append(&gzip->held, bytes);
    return true;
}

/* A piece of the body through the compressor. MAY WAIT. */
static bool compress_piece(struct gzip_filter *gzip, struct request *request, struct str bytes,
                           int mode, bool is_flush)
{
    if (hold(gzip, bytes, mode)) {
        return true;
    }
    if (mode == Z_FINISH && gzip->compressor == NULL) {
        gzip->length = (int64_t) (gzip->held.len + bytes.len);
    }
    if (gzip->held.len != 0) {
        if (!compress_bytes(gzip, request, buf_str(&gzip->held), Z_NO_FLUSH)) {
            return false;
        }
        buf_free(&gzip->held);
    }
    if (!compress_bytes(gzip, request, bytes, mode)) {
        return false;
    }
    if (mode == Z_FINISH) {
        return pass_output(gzip, request, false, true);
    }
    bool has_output = gzip->compressor->stream.avail_out != gzip->compressor->shape.out_size;
    return !(mode == Z_SYNC_FLUSH ||
             (has_output && (is_flush || gzip->settings->passes_at_once))) ||
           pass_output(gzip, request, is_flush, false);
}

/*
 * The flush of a handler that waits for more has no bytes of its own: then all that came so far leaves, at the
 * cost of some bytes (RFC 1951 has an empty block for it).
 */
static int mode_for(const struct body_piece *piece, bool is_last)
{
    return is_last                                                     ? Z_FINISH
           : piece != NULL && piece->is_flush && piece->bytes.len == 0 ? Z_SYNC_FLUSH
                                                                       : Z_NO_FLUSH;
}

static bool gzip_send(struct body_filter *filter, struct request *request,
                      const struct body_piece *piece, bool is_last)
{
    struct gzip_filter *gzip = container_of(filter, struct gzip_filter, filter);
    bool is_sound = gzip->is_finished;

    if (!gzip->is_finished) {
        struct str bytes = piece == NULL ? STR_NONE : piece->bytes;
        is_sound = compress_piece(gzip, request, bytes, mode_for(piece, is_last),
                                  piece != NULL && piece->is_flush);
        if (is_last || !is_sound) {
            finish(gzip);
        }
    }
    if (piece != NULL && piece->release != NULL) {
        piece->release(piece->release_arg);
    }
    return is_sound;
}

/* ---- the head ---- */

static const struct gzip_settings *settings_at(const struct http_location *location)
{
    return location_settings(location, &table);
}

/* Is it worth it, whoever the client is? */
static bool is_compressible(const struct request *request, const struct gzip_settings *settings)
{
    const struct response *response = &request->response;
    const struct field *encoding = fields_get(&response->fields, FIELD_CONTENT_ENCODING);

    return (response->status == 200 || response->status == 403 || response->status == 404) &&
           (encoding == NULL || encoding->value.len == 0) && !response->is_tunnel &&
           (response->content_length < 0 ||
            (uint64_t) response->content_length >= settings->min_length) &&
           type_set_has(settings->types, response->content_type);
}

static void gzip_header(struct request *request)
{
    struct response *response = &request->response;
    const struct gzip_settings *settings = settings_at(request->location);

    if (request != request->main || !is_compressible(request, settings)) {
        return;
    }
    response_varies_by_encoding(request);
    if (!request_accepts_gzip(request)) {
        return;
    }
    struct gzip_filter *gzip = request_data(request, &table, sizeof(*gzip));
    finish(gzip); /* of a response that an error page takes the place of */
    *gzip = (struct gzip_filter){.filter.send = gzip_send,
                                 .settings = settings,
                                 .length = response->content_length};
    fields_set(&response->fields, &request->arena, FIELD_CONTENT_ENCODING, STR("gzip"));
    response_change_body(request, true);
    if (settings->clears_etag) {
        response->etag = STR_NONE;
    }
    if (!response->is_header_only) {
        response_needs_memory(request);
        response_append_filter(request, &gzip->filter);
        arena_on_free(&request->arena, abandon, gzip);
    }
}

static bool is_on(const struct http_location *location)
{
    return settings_at(location)->is_on;
}

/* ---- $gzip_ratio ---- */

/* How many times smaller the body became, with two decimal places. */
static bool get_ratio(struct variable_env *env, const struct variable *variable, struct str *out)
{
    const struct gzip_filter *gzip = request_data(variable_request(env), &table, 0);

    (void) variable;
    if (gzip == NULL || gzip->out == 0) {
        return false;
    }
    uint64_t hundredths = (gzip->in * 1000 / gzip->out + 5) / 10;
    *out = arena_printf(env->arena, "%llu.%02llu", (unsigned long long) (hundredths / 100),
                        (unsigned long long) (hundredths % 100));
    return true;
}

static const struct variable variables[] = {{.name = STR_INIT("gzip_ratio"), .get = get_ratio},
                                            {.name = {NULL, 0}}};
static const struct filter_hook filters[] = {{80, gzip_header, is_on}, {0}};
static const struct http_module hooks = {.variables = variables, .filters = filters};

const struct module ngx_http_gzip_filter_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_http_gzip_filter_module",
    .kind = MODULE_HTTP,
    .tables = tables,
    .hooks = &hooks,
    .worker_end = drop_compressors,
};
