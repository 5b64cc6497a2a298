/* Fuzz target: answers of the CGI kinds and status lines, in pieces of any size. What is kept lies
 * in the request's memory, a body is never longer than announced, and how the bytes arrive makes no
 * difference. */
#include <stdlib.h>

#include "base/buf.h"
#include "http/exchange.h"
#include "http/exchange/heads/plain.h"

static const struct protocol protocol = {.name = STR_INIT("fuzz"),
                                         .channel = &text_channel,
                                         .begin_response = plain_begin_response,
                                         .read_head = plain_read_head,
                                         .read_body = plain_read_body,
                                         .body_ended = plain_body_ended};

/* How an answer was taken. */
struct outcome {
    enum head_result head;
    enum body_result end;
    unsigned status;
    uint32_t fields;
    int64_t length;
    struct buf body;
};

static void check_fields(const struct exchange *x)
{
    fields_each(field, &x->response.fields) {
        for (size_t i = 0; i < field->name.len; i++) {
            unsigned char c = (unsigned char) field->name.data[i];
            if (c <= ' ' || c == ':' || c == 127) {
                abort();
            }
        }
        for (size_t i = 0; i < field->value.len; i++) {
            unsigned char c = (unsigned char) field->value.data[i];
            if (c == '\r' || c == '\n' || c == '\0') {
                abort();
            }
        }
    }
    if (x->response.status < 100 || x->response.status > 999) {
        abort();
    }
}

static void take(struct str input, size_t at_first, struct outcome *out)
{
    static const struct exchange_settings settings = {.buffer_size = 4096};
    static struct conn backend = {.magic = CONN_MAGIC};
    struct upstream_connection connection = {.conn = &backend};
    struct log log = {.level = LOG_STDERR};
    struct request *request = calloc(1, sizeof(*request));
    struct exchange x = {.magic = EXCHANGE_MAGIC,
                         .request = request,
                         .protocol = &protocol,
                         .settings = &settings,
                         .connection = &connection};

    arena_init(&request->arena);
    request->log = log;
    x.response.content_length = -1;
    protocol.begin_response(&x);
    backend_sends(input, at_first);
    *out = (struct outcome){.head = read_whole_head(&x)};
    if (out->head == HEAD_DONE) {
        check_fields(&x);
        out->status = x.response.status;
        out->fields = x.response.fields.count;
        out->length = x.response.content_length;
        out->end = read_whole_body(&x, &out->body);
        if (out->length >= 0 && out->body.len > (uint64_t) out->length) {
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
    if (whole.head != pieces.head || whole.status != pieces.status ||
        whole.fields != pieces.fields || whole.end != pieces.end ||
        !str_equal(buf_str(&whole.body), buf_str(&pieces.body))) {
        abort();
    }
    buf_free(&whole.body);
    buf_free(&pieces.body);
    return 0;
}
