/* The response of a proxied server: the header, and the body by length, in chunks or until the
 * connection is closed. */
#include "http/exchange/heads/response_head.h"
#include "http/modules/backends/proxy/proxy.h"

#include "base/parse.h"
#include "http/message/parser.h"

/* ---- the header ---- */

void proxy_begin_response(struct exchange *x)
{
    struct proxy_state *state = x->state;

    state->has_status = false;
    state->may_stay_open = false;
    state->is_at_trailers = false;
    state->end = BODY_NONE;
    state->left = 0;
    state->chunked = (struct chunked){0};
}

/* Does the field Connection have this option (RFC 9110, 7.6.1)? */
static bool has_option(const struct fields *fields, struct str wanted)
{
    fields_each(field, fields) {
        struct str rest = field->value;
        while (field->id == FIELD_CONNECTION && rest.data != NULL) {
            if (str_equal_nocase(str_trim(str_cut(&rest, ',')), wanted)) {
                return true;
            }
        }
    }
    return false;
}

/* May the connection carry another request after this response (RFC 9112, 9.3)? */
static bool stays_open(const struct upstream_response *response)
{
    const struct fields *fields = &response->fields;
    const struct field *first = fields_get(fields, FIELD_CONNECTION);

    if (first == NULL) {
        return response->version >= HTTP_1_1;
    }
    if (!fields->has_repeats && str_equal(first->value, STR("keep-alive"))) {
        return true;
    }
    return !has_option(fields, STR("close")) &&
           (response->version >= HTTP_1_1 || has_option(fields, STR("keep-alive")));
}

/* Keep-Alive: timeout=N (RFC 2068, 19.7.1.1): how long the server keeps the connection idle. */
static void note_keep_alive(struct exchange *x)
{
    const struct field *field = fields_get(&x->response.fields, FIELD_KEEP_ALIVE);
    struct str rest = field == NULL ? STR_NONE : field->value;
    uint64_t seconds;

    x->connection->keeps_ms = UINT64_MAX;
    while (rest.data != NULL) {
        struct str value = str_trim(str_cut(&rest, ','));
        struct str name = str_trim(str_cut(&value, '='));

        if (str_equal_nocase(name, STR("timeout")) && parse_uint(str_trim(value), &seconds) &&
            seconds <= UINT32_MAX) {
            x->connection->keeps_ms = seconds * 1000;
        }
    }
}

enum head_result proxy_read_head(struct exchange *x)
{
    struct proxy_state *state = x->state;
    struct upstream_response *response = &x->response;

    if (!state->has_status) {
        enum head_result result = upstream_response_read_status_line(x);
        if (result == HEAD_BAD) {
            exchange_log(x, LOG_ERROR, 0, "upstream sent no valid HTTP/1.0 header");
        }
        if (result != HEAD_DONE) {
            return result;
        }
        state->has_status = true;
    }
    enum head_result result = upstream_response_read_fields(x, false);
    if (result != HEAD_DONE) {
        return result;
    }
    if (response->status == 101) {
        if (fields_get(&x->request->headers, FIELD_UPGRADE) == NULL) {
            exchange_log(x, LOG_ERROR, 0, "upstream switched protocols unasked");
            return HEAD_BAD;
        }
        response->is_upgrade = true;
        return HEAD_DONE;
    }
    response->has_no_body = response->status < 200 || response->status == 204 ||
                            response->status == 304 || str_is(state->method, "HEAD");
    /* RFC 9112, 6.3 */
    state->end = response->has_no_body                                               ? BODY_NONE
                 : (response->fields.seen & FIELD_BIT(FIELD_TRANSFER_ENCODING)) != 0 ? BODY_CHUNKED
                 : response->content_length >= 0                                     ? BODY_COUNTED
                                                 : BODY_UNTIL_CLOSED;
    if (__builtin_expect((response->fields.seen & FIELD_BIT(FIELD_KEEP_ALIVE)) != 0, 0)) {
        note_keep_alive(x);
    }
    state->left = state->end == BODY_COUNTED ? (uint64_t) response->content_length : UINT64_MAX;
    state->may_stay_open = !state->says_close && stays_open(response) &&
                           state->end != BODY_UNTIL_CLOSED &&
                           !(state->end == BODY_CHUNKED && response->version < HTTP_1_1);
    return HEAD_DONE;
}

/* ---- the body ---- */

/* The body is complete. Bytes after it are unexpected, and the connection is not used again. */
static enum body_result body_finish(struct exchange *x)
{
    const struct proxy_settings *settings = x->module_settings;
    const struct proxy_state *state = x->state;
    bool has_more = exchange_input(x).len != 0;

    if (has_more && state->end == BODY_CHUNKED) {
        exchange_log(x, LOG_WARN, 0, "upstream sent data after final chunk");
    } else if (has_more && x->request->method != METHOD_HEAD) {
        exchange_log(x, LOG_WARN, 0,
                     "upstream sent more data than specified in \"Content-Length\" header");
    }
    x->is_reusable = state->may_stay_open && !has_more && !settings->proxy_protocol;
    return BODY_END;
}

/* Moves the bytes of the trailers to the request's arena. */
static void keep_trailers(struct exchange *x, const struct fields *fields, struct str bytes)
{
    struct arena *arena = &x->request->arena;
    struct str copy = exchange_keep(x, bytes);

    x->response.trailers = arena_new(arena, struct fields);
    fields_each(field, fields) {
        struct str name = {copy.data + (field->name.data - bytes.data), field->name.len};
        struct str value = {copy.data + (field->value.data - bytes.data), field->value.len};
        if ((FIELD_BIT(field->id) & FIELDS_NOT_IN_TRAILERS) == 0) {
            fields_add_identified(x->response.trailers, arena, (enum field_id) field->id, name,
                                  value);
        }
    }
}

/* Reads the fields after the last chunk, up to the empty line; usually there are none. */
static enum body_result read_trailers(struct exchange *x)
{
    const struct proxy_settings *settings = x->module_settings;
    struct str input = exchange_input(x);
    uint32_t limit =
        (uint32_t) (x->settings->buffer_size < UINT32_MAX / 2 ? x->settings->buffer_size
                                                              : UINT32_MAX / 2);
    struct head_limits limits = {.line_max = limit,
                                 .head_max = limit,
                                 .headers_max = 1000,
                                 .ignore_invalid = true,
                                 .underscores = true,
                                 .wants_crlf = true};
    struct fields fields = {0};
    const struct field_reading reading = {.limits = &limits,
                                          .arena = &x->request->arena,
                                          .fields = &fields};
    struct head head = {0};
    uint32_t used;

    if (str_starts(input, STR("\r\n"))) {
        exchange_consume(x, 2);
        return body_finish(x);
    }
    switch (fields_parse_parts(&x->response.scan, input, &reading, &head, &used)) {
    case PARSE_MORE:
        if (input.len < limit) {
            return BODY_MORE;
        }
        /* fall through */
    case PARSE_BAD:
        exchange_log(x, LOG_ERROR, 0, "upstream sent invalid trailers");
        return BODY_BAD;
    case PARSE_DONE:
        break;
    }
    if (settings->pass_trailers && fields.count != 0) {
        keep_trailers(x, &fields, str_head(input, used));
    }
    exchange_consume(x, used);
    return body_finish(x);
}

static enum body_result read_chunked(struct exchange *x, struct str *data)
{
    struct proxy_state *state = x->state;

    while (!state->is_at_trailers) {
        struct str input = exchange_input(x);
        size_t before = input.len;
        enum chunked_result result = chunked_decode(&state->chunked, &input, data);

        exchange_consume(x, before - input.len);
        switch (result) {
        case CHUNKED_DATA:
            return BODY_DATA;
        case CHUNKED_MORE:
            if (input.len == 0) {
                return BODY_MORE;
            }
            break;
        case CHUNKED_LAST:
            state->is_at_trailers = true;
            break;
        case CHUNKED_BAD:
            exchange_log(x, LOG_ERROR, 0, "upstream sent invalid chunked response");
            return BODY_BAD;
        }
    }
    return read_trailers(x);
}

enum body_result proxy_read_body(struct exchange *x, struct str *data)
{
    struct proxy_state *state = x->state;

    if (state->end == BODY_CHUNKED) {
        return read_chunked(x, data);
    }
    if (state->end == BODY_NONE || state->left == 0) {
        return body_finish(x);
    }
    *data = str_head(exchange_input(x), state->left);
    if (data->len == 0) {
        return BODY_MORE;
    }
    state->left -= data->len;
    exchange_consume(x, data->len);
    return BODY_DATA;
}

enum body_result proxy_body_ended(struct exchange *x)
{
    const struct proxy_state *state = x->state;
    struct conn *conn = x->connection->conn;

    if (state->end == BODY_UNTIL_CLOSED && !conn->is_broken) {
        return BODY_END;
    }
    if (conn->is_broken) {
        exchange_log(x, LOG_ERROR, conn->error, "recv() failed");
    } else {
        exchange_log(x, LOG_ERROR, 0, "upstream prematurely closed connection");
    }
    return BODY_BAD;
}
