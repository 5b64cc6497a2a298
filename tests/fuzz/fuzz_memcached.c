/* Fuzz target: memcached's answers, whole and byte by byte. The value is never longer than announced, and a
 * connection is kept only behind a whole one. */
#include <stdlib.h>

#include "base/buf.h"
#include "http/exchange.h"
#include "http/modules/memcached.c"

/* How an answer was taken. */
struct outcome {
    enum head_result head;
    enum body_result end;
    bool is_reusable;
    struct buf body;
};

static void take(struct str input, size_t at_first, struct outcome *out)
{
    static const struct exchange_settings settings = {.buffer_size = 4096};
    static const struct memcached_settings own = {.gzip_flag = 2};
    static const struct http_location location;
    struct protocol protocol = memcached_protocol;
    struct log log = {.level = LOG_STDERR};
    struct request *request = calloc(1, sizeof(*request));
    struct exchange x = {.magic = EXCHANGE_MAGIC,
                         .request = request,
                         .protocol = &protocol,
                         .settings = &settings,
                         .module_settings = &own};

    arena_init(&request->arena);
    request->log = log;
    request->location = &location;
    protocol.channel = &text_channel;
    struct value_reading *state = arena_new(&request->arena, struct value_reading);
    state->key = STR("k");
    x.state = state;
    x.answer.content_length = -1;
    protocol.begin_answer(&x);
    backend_sends(input, at_first);
    *out = (struct outcome){.head = read_whole_head(&x)};
    if (out->head == HEAD_DONE) {
        out->end = read_whole_body(&x, &out->body);
        out->is_reusable = x.is_reusable;
        if ((int64_t) out->body.len > x.answer.content_length ||
            (out->is_reusable &&
             (out->end != BODY_END || (int64_t) out->body.len != x.answer.content_length))) {
            abort();
        }
    }
    arena_free(&request->arena);
    free(request);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str input = {(const char *) data, size};
    struct outcome whole;
    struct outcome pieces;

    take(input, size, &whole);
    take(input, 0, &pieces);
    if (whole.head != pieces.head || whole.end != pieces.end ||
        whole.is_reusable != pieces.is_reusable ||
        !str_equal(buf_str(&whole.body), buf_str(&pieces.body))) {
        abort();
    }
    buf_free(&whole.body);
    buf_free(&pieces.body);
    return 0;
}
