/* Fuzz target: the proxy's parser of answers. However the input is cut, the same head, body and end
 * come out, and a connection is kept only when all of the input was used. */
#include <stdlib.h>

#include "http/modules/backends/proxy/proxy.h"

#define OUT_MAX 65536

/* What parsing gave. */
struct outcome {
    enum head_result head;
    unsigned status;
    uint32_t fields;
    enum body_result end;
    bool is_reusable;
    size_t used;
    char body[OUT_MAX];
    size_t body_len;
};

static struct str input;
static size_t arrived;

static struct str text_input(struct exchange *x)
{
    return str_head(input, arrived);
}

static void text_consume(struct exchange *x, size_t n)
{
    if (n > arrived) {
        abort();
    }
    input = str_skip(input, n);
    arrived -= n;
}

static const struct channel text_channel = {.input = text_input, .consume = text_consume};
static const struct protocol protocol = {.channel = &text_channel};

/* More of the input. False: there is none. */
static bool fill(size_t step)
{
    size_t left = input.len - arrived;

    arrived += step < left ? step : left;
    return left != 0;
}

static void read_body(struct exchange *x, size_t step, struct outcome *outcome)
{
    struct str data;

    for (;;) {
        outcome->end = proxy_read_body(x, &data);
        if (outcome->end == BODY_DATA) {
            if (outcome->body_len + data.len > OUT_MAX || data.len == 0) {
                abort();
            }
            memcpy(outcome->body + outcome->body_len, data.data, data.len);
            outcome->body_len += data.len;
        } else if (outcome->end == BODY_MORE) {
            if (!fill(step)) {
                outcome->end = proxy_body_ended(x);
                return;
            }
        } else {
            return;
        }
    }
}

static void parse(struct str text, const char *method, size_t step, struct outcome *outcome)
{
    static struct request request;
    static const struct exchange_settings family = {.buffer_size = 1024};
    static const struct proxy_settings settings = {.pass_trailers = true};
    static struct conn conn;
    static struct upstream_connection connection = {.conn = &conn};
    struct proxy_state state = {.method = str_of(method)};
    struct exchange x = {.request = &request,
                         .settings = &family,
                         .module_settings = &settings,
                         .state = &state,
                         .protocol = &protocol,
                         .connection = &connection,
                         .response.content_length = -1};

    input = text;
    arrived = 0;
    *outcome = (struct outcome){0};
    request = (struct request){.log.level = LOG_STDERR};
    arena_init(&request.arena);
    proxy_begin_response(&x);
    while ((outcome->head = proxy_read_head(&x)) == HEAD_MORE && arrived <= family.buffer_size &&
           fill(step)) {
    }
    if (outcome->head == HEAD_DONE) {
        outcome->status = x.response.status;
        outcome->fields = x.response.fields.count;
        if (!x.response.is_upgrade && x.response.status >= 200) {
            read_body(&x, step, outcome);
        }
        outcome->is_reusable = x.is_reusable;
        outcome->used = text.len - input.len;
    }
    arena_free(&request.arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct outcome whole;
    static struct outcome cut;

    if (size < 2 || size > OUT_MAX) {
        return 0;
    }
    struct str text = {(const char *) data + 1, size - 1};
    const char *method = data[0] % 8 == 0 ? "HEAD" : "GET";
    parse(text, method, size, &whole);
    parse(text, method, 1 + data[0] % 7, &cut);
    if (whole.head == HEAD_DONE && cut.head == HEAD_DONE &&
        (whole.status != cut.status || whole.fields != cut.fields || whole.end != cut.end ||
         whole.used != cut.used || whole.body_len != cut.body_len ||
         memcmp(whole.body, cut.body, whole.body_len) != 0)) {
        abort();
    }
    if (whole.is_reusable && (whole.used != text.len || whole.end != BODY_END)) {
        abort();
    }
    return 0;
}
