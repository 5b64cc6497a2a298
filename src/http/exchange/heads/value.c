/* Answers of memcached that are a value: a line before it, the bytes, and what follows them. */
#include "http/exchange/heads/value.h"

#define SHOWN_MAX 256 /* bytes of a line that the log shows */

void value_begin(struct value_reading *reading)
{
    reading->left = 0;
    reading->end_at = 0;
}

enum head_result value_refuse(struct exchange *x, struct str line)
{
    log_error(&x->request->log, 0, "memcached sent invalid response: \"%.*s\"",
              STR_ARG(str_head(line, SHOWN_MAX)));
    return HEAD_BAD;
}

enum head_result value_line(struct exchange *x, struct str *line)
{
    struct str input = exchange_input(x);
    const char *end = input.len == 0 ? NULL : memchr(input.data, '\n', input.len);

    if (end == NULL) {
        return HEAD_MORE;
    }
    *line = str_from(input.data, end);
    if (line->len == 0 || line->data[line->len - 1] != '\r') {
        return value_refuse(x, *line);
    }
    line->len--;
    return HEAD_DONE;
}

bool value_announced(struct exchange *x, struct value_reading *reading, struct str line,
                     struct memcached_value *value)
{
    const char *wrong = memcached_value_parse(line, value);

    if (!str_equal(value->key, reading->key)) {
        wrong = "key";
    }
    if (wrong != NULL) {
        log_error(&x->request->log, 0,
                  "memcached sent invalid %s in response \"%.*s\" for key \"%.*s\"", wrong,
                  STR_ARG(str_head(line, SHOWN_MAX)), STR_ARG(reading->key));
        return false;
    }
    x->response.status = 200;
    x->response.content_length = (int64_t) value->length;
    reading->left = value->length;
    response_set_type(x->request);
    return true;
}

enum head_result value_not_found(struct exchange *x)
{
    x->response.status = 404;
    x->response.content_length = 0;
    x->response.has_no_body = true;
    x->response.has_no_page = true;
    x->is_reusable = true;
    return HEAD_DONE;
}

/* What has to stand after the value. */
static enum body_result read_end(struct exchange *x, struct value_reading *reading)
{
    while (reading->end_at < sizeof(MEMCACHED_VALUE_END) - 1) {
        size_t used;

        if (!memcached_value_ends(exchange_input(x), &reading->end_at, &used)) {
            log_error(&x->request->log, 0, "memcached sent invalid trailer");
            return BODY_BAD;
        }
        if (used == 0) {
            return BODY_MORE;
        }
        exchange_consume(x, used);
    }
    x->is_reusable = true;
    return BODY_END;
}

enum body_result value_read(struct exchange *x, struct value_reading *reading, struct str *data)
{
    if (reading->left == 0) {
        return read_end(x, reading);
    }
    struct str input = exchange_input(x);
    if (input.len == 0) {
        return BODY_MORE;
    }
    *data = reading->left < input.len ? str_head(input, (size_t) reading->left) : input;
    exchange_consume(x, data->len);
    reading->left -= data->len;
    return BODY_DATA;
}
