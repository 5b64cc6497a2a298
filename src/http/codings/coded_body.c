/* Passes bodies through a codec. */
#include "http/codings/coded_body.h"

#include "base/buf.h"
#include "http/codings/rules.h"
#include "http/files/file.h"
#include "http/message/type_set.h"
#include "http/request/body_filter.h"
#include "http/request/request.h"
#include "http/request/wire.h"
#include "server/generation.h"

/* The expansion ratio is checked only beyond this much output, since it means little for short
 * bodies. */
#define EXPANSION_FREE (1024u * 1024)

static uint64_t memory_in_use; /* approximate bytes of all codecs that are in use in this worker */

/* A body that is encoded or decoded; in the request's arena. */
struct coded_body {
    struct body_filter filter;
    const struct encoder *encoder; /* NULL: it is decoded */
    const struct encoder_settings *settings;
    struct codec_shape shape; /* as far as the header determines it */
    struct codec *codec;      /* from the first byte to the last */
    int64_t length;           /* of the whole body; -1 = unknown */
    uint64_t in;              /* bytes of input so far */
    uint64_t out;             /* bytes of output so far */
    uint64_t ratio_max;       /* for a decoder; 0 = unlimited */
    uint64_t reserved;        /* its part of memory_in_use */
    struct buf held;          /* for postpone_gzipping, or a body that is gathered */
    bool is_gathered;         /* until the last piece arrives, or one that must not be delayed */
    bool is_finished;         /* the last piece was passed on, or the client is gone */
};

static void coded_finish(struct coded_body *body)
{
    body->is_finished = true;
    buf_free(&body->held);
    memory_in_use -= body->reserved;
    body->reserved = 0;
    if (body->codec != NULL) {
        codec_give(body->codec);
        body->codec = NULL;
    }
}

/* Frees resources if the request ends before its body. */
static void coded_abandon(void *arg)
{
    coded_finish(arg);
}

/* The codec for a body of this length; one for whole bodies if *is_whole and there is one. */
static struct codec_shape shape_of(const struct encoder *encoder,
                                   const struct encoder_settings *settings, int64_t length,
                                   bool *is_whole)
{
    struct codec_shape shape;

    *is_whole = *is_whole && encoder->whole_shape_for != NULL &&
                encoder->whole_shape_for(settings, length, &shape);
    return *is_whole ? shape : encoder->shape_for(settings, length);
}

static struct codec *codec_of(struct coded_body *body, enum codec_aim aim)
{
    if (body->codec == NULL) {
        bool is_whole = aim == CODEC_END; /* this is also the first piece */

        if (body->encoder != NULL) {
            body->shape = shape_of(body->encoder, body->settings, body->length, &is_whole);
        }
        body->codec = codec_take(&body->shape, body->length);
    }
    return body->codec;
}

/* Limits decompression bombs, by which a backend or a file could overload clients. */
static bool is_within_ratio(struct coded_body *body, struct request *request)
{
    if (body->ratio_max == 0 || body->out <= EXPANSION_FREE ||
        body->out / body->ratio_max <= body->in) {
        return true;
    }
    counters_mine->limited++;
    log_error(&request->log, 0,
              "response expands more than gunzip_max_ratio allows: %llu bytes of %llu",
              (unsigned long long) body->out, (unsigned long long) body->in);
    return false;
}

/* Passes on the output of the codec. MAY WAIT. */
static bool pass_output(struct coded_body *body, struct request *request, bool is_flush,
                        bool is_last)
{
    struct codec *codec = body->codec;
    struct body_piece piece = {.bytes = {(char *) codec->out, codec->out_used},
                               .fd = -1,
                               .is_volatile = true,
                               .is_flush = is_flush};

    body->out += codec->out_used;
    if (!is_within_ratio(body, request) ||
        !body_filter_next(&body->filter, request, &piece, is_last)) {
        return false;
    }
    codec->out_used = 0;
    return true;
}

/* A step on the worker's own stack. */
struct step_call {
    struct codec *codec;
    struct str *in;
    enum codec_aim aim;
    const struct log *log;
    enum codec_step result;
};

static void run_step(void *arg)
{
    struct step_call *call = arg;

    call->result = call->codec->shape.kind->step(call->codec, call->in, call->aim, call->log);
}

static enum codec_step codec_step(struct step_call *call)
{
    if (call->codec->shape.kind->has_deep_stack) {
        fiber_call_on_main(run_step, call);
    } else {
        run_step(call);
    }
    return call->result;
}

/* The input was truncated: passes on the output so far, before the connection is closed. MAY WAIT.
 * Returns false. */
static bool pass_rest(struct coded_body *body, struct request *request)
{
    struct request *main = request->main;

    if (body->codec->out_used != 0 && pass_output(body, request, true, false) &&
        main->wire->drain != NULL) {
        main->wire->drain(main);
    }
    return false;
}

/* Encodes or decodes, and passes on full output buffers. MAY WAIT. */
static bool code_bytes(struct coded_body *body, struct request *request, struct str bytes,
                       enum codec_aim aim)
{
    struct codec *codec = codec_of(body, aim);
    struct step_call call = {.codec = codec, .in = &bytes, .aim = aim, .log = &request->log};
    enum codec_step step;

    body->in += bytes.len;
    if (request->log.action == NULL) {
        request->log.action = "sending response to client";
    }
    do {
        if (codec->out_used == codec->shape.out_size && !pass_output(body, request, false, false)) {
            return false;
        }
        step = codec_step(&call);
    } while (step == CODEC_FULL);
    return step == CODEC_CUT ? pass_rest(body, request) : step == CODEC_DONE;
}

/* With postpone_gzipping, or a body that is gathered: is the piece only stored? */
static bool is_held(struct coded_body *body, struct str bytes, enum codec_aim aim)
{
    uint64_t limit = body->settings == NULL ? 0 : body->settings->postpone;

    if (body->is_gathered && (int64_t) limit <= body->length) {
        limit = (uint64_t) body->length + 1;
    }
    if (aim != CODEC_GO_ON || body->in != 0 || body->held.len + bytes.len >= limit) {
        return false;
    }
    buf_append(&body->held, bytes);
    return true;
}

/* Passes a piece of the body through the codec. MAY WAIT. */
static bool code_piece(struct coded_body *body, struct request *request, struct str bytes,
                       enum codec_aim aim, bool is_flush)
{
    body->is_gathered = body->is_gathered && !is_flush;
    if (is_held(body, bytes, aim)) {
        return true;
    }
    if (aim == CODEC_END && body->codec == NULL) {
        body->length = (int64_t) (body->held.len + bytes.len);
    }
    if (body->held.len != 0) {
        buf_append(&body->held, bytes);
        bytes = buf_str(&body->held);
    }
    if (!code_bytes(body, request, bytes, aim)) {
        return false;
    }
    buf_free(&body->held);
    if (aim == CODEC_END) {
        return pass_output(body, request, false, true);
    }
    bool passes_at_once = body->settings != NULL && body->settings->passes_at_once;
    bool has_output = body->codec->out_used != 0;
    return !(aim == CODEC_FLUSH || (has_output && (is_flush || passes_at_once))) ||
           pass_output(body, request, is_flush, false);
}

/* A flush by a handler that waits for more has no bytes: then all pending output is written, at the
 * cost of some bytes (an empty block in RFC 1951). */
static enum codec_aim aim_of(const struct body_piece *piece, bool is_last)
{
    return is_last                                                     ? CODEC_END
           : piece != NULL && piece->is_flush && piece->bytes.len == 0 ? CODEC_FLUSH
                                                                       : CODEC_GO_ON;
}

static bool coded_send(struct body_filter *filter, struct request *request,
                       const struct body_piece *piece, bool is_last)
{
    struct coded_body *body = container_of(filter, struct coded_body, filter);
    bool is_sound = body->is_finished;

    if (!body->is_finished) {
        struct str bytes = piece == NULL ? STR_NONE : piece->bytes;
        is_sound = code_piece(body, request, bytes, aim_of(piece, is_last),
                              piece != NULL && piece->is_flush);
        if (is_last || !is_sound) {
            coded_finish(body);
        }
    }
    if (piece != NULL && piece->release != NULL) {
        piece->release(piece->release_arg);
    }
    return is_sound;
}

/* ---- the header ---- */

unsigned codec_out_size(const struct buffers *buffers)
{
    uint64_t size = buffers->number * buffers->size;

    return size < 512 ? 512 : size < CODEC_PIECE_MAX ? (unsigned) size : CODEC_PIECE_MAX;
}

int bits_for(uint64_t size, int least)
{
    int bits = least;

    while (((uint64_t) 1 << bits) < size) {
        bits++;
    }
    return bits;
}

bool encoder_fits(const struct encoder_settings *settings, const struct request *request)
{
    const struct response *response = &request->response;

    return (response->content_length < 0 ||
            (uint64_t) response->content_length >= settings->min_length) &&
           type_set_has(settings->types, response->content_type);
}

/* Does the limit allow one more codec? */
static bool has_memory(struct request *request, uint64_t bytes)
{
    uint64_t limit = compression_memory_limit(request);

    if (limit == 0 || memory_in_use + bytes <= limit) {
        return true;
    }
    counters_mine->limited++;
    log_warn(&request->log, 0,
             "response is not compressed: the compressors at work take %llu bytes, "
             "compression_memory_limit is %llu",
             (unsigned long long) memory_in_use, (unsigned long long) limit);
    return false;
}

/* The state of a body; a response that an error page replaces may have left one. */
static struct coded_body *body_at(struct request *request, const void *key)
{
    struct coded_body *body = request_data(request, key, sizeof(*body));

    coded_finish(body);
    *body =
        (struct coded_body){.filter.send = coded_send, .length = request->response.content_length};
    return body;
}

static void body_install(struct request *request, struct coded_body *body)
{
    response_change_body(request, true);
    if (request->response.is_header_only) {
        return;
    }
    body->reserved = codec_memory(&body->shape);
    memory_in_use += body->reserved;
    response_needs_memory(request);
    response_append_filter(request, &body->filter);
    arena_on_free(&request->arena, coded_abandon, body);
}

void response_encode(struct request *request, const struct encoder *encoder,
                     const struct encoder_settings *settings)
{
    struct response *response = &request->response;
    bool is_gathered = true;
    struct codec_shape shape = shape_of(encoder, settings, response->content_length, &is_gathered);

    if (!has_memory(request, codec_memory(&shape))) {
        return;
    }
    struct coded_body *body = body_at(request, encoder->coding);
    body->encoder = encoder;
    body->settings = settings;
    body->shape = shape;
    body->is_gathered = is_gathered;
    fields_set(&response->fields, &request->arena, FIELD_CONTENT_ENCODING, encoder->coding->token);
    body_install(request, body);
    if (settings->clears_etag) {
        response->etag = STR_NONE;
    }
}

void response_decode(struct request *request, const struct decoder *decoder)
{
    struct coded_body *body = body_at(request, decoder->shape.kind);

    body->shape = decoder->shape;
    body->ratio_max = decoder->ratio_max;
    body->length = -1;
    decoder->encoding->is_removed = true;
    body_install(request, body);
}

bool encoded_ratio(struct variable_env *env, const struct content_coding *coding, struct str *out)
{
    const struct coded_body *body = request_data(variable_request(env), coding, 0);

    if (body == NULL || body->out == 0) {
        return false;
    }
    uint64_t hundredths = (body->in * 1000 / body->out + 5) / 10;
    *out = arena_printf(env->arena, "%llu.%02llu", (unsigned long long) (hundredths / 100),
                        (unsigned long long) (hundredths % 100));
    return true;
}
