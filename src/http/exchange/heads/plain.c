/* Answers that are a CGI head and a body to the end of the connection: SCGI, uwsgi. */
#include "http/exchange/heads/response_head.h"
#include "http/exchange/heads/plain.h"

#include <errno.h>

/* Where reading a response stands; in the request's arena, used for all attempts. */
struct plain_answer {
    bool is_line_read; /* the status line, or that there is none */
    uint64_t left; /* bytes of the body still to come; UINT64_MAX = to the end of the connection */
};

/* ---- the request ---- */

enum handler_result plain_handle(struct request *request, const struct protocol *protocol,
                                 const struct exchange_settings *settings,
                                 const void *module_settings, const struct pass_target *target)
{
    struct exchange *x = exchange_new(request, protocol, settings, module_settings);

    if (request->incoming.is_chunked) {
        sent_body_buffer(x);
    }
    exchange_set_target(x, target);
    return exchange_run(x);
}

/* ---- the response ---- */

void plain_begin_response(struct exchange *x)
{
    struct plain_answer *state = x->state;

    if (state == NULL) {
        state = arena_new(&x->request->arena, struct plain_answer);
        x->state = state;
    }
    *state = (struct plain_answer){.left = UINT64_MAX};
}

enum head_result plain_read_head(struct exchange *x)
{
    struct plain_answer *state = x->state;
    enum head_result result;

    if (!state->is_line_read) {
        result = upstream_response_read_status_line(x);
        if (result == HEAD_MORE) {
            return HEAD_MORE;
        }
        if (result == HEAD_BAD) {
            x->response.status = 0; /* it begins with the fields */
        }
        state->is_line_read = true;
    }
    result = upstream_response_read_fields(x, true);
    if (result == HEAD_DONE) {
        x->response.has_no_body = x->response.status == 204 || x->response.status == 304;
        if (x->response.has_no_body) {
            state->left = 0;
        } else if (x->response.content_length >= 0) {
            state->left = (uint64_t) x->response.content_length;
        }
    }
    return result;
}

enum body_result plain_read_body(struct exchange *x, struct str *data)
{
    struct plain_answer *state = x->state;
    struct str input = exchange_input(x);

    if (state->left == 0) {
        if (input.len != 0 && !x->response.has_no_body) {
            log_warn(&x->request->log, 0,
                     "upstream sent more data than specified in \"Content-Length\" header");
        }
        return BODY_END;
    }
    if (input.len == 0) {
        return BODY_MORE;
    }
    *data = state->left < input.len ? str_head(input, (size_t) state->left) : input;
    exchange_consume(x, data->len);
    if (state->left != UINT64_MAX) {
        state->left -= data->len;
    }
    return BODY_DATA;
}

enum body_result plain_body_ended(struct exchange *x)
{
    const struct plain_answer *state = x->state;
    const struct conn *conn = x->connection->conn;

    if (conn->is_broken) {
        log_error(&x->request->log, conn->error, "recv() failed");
        return BODY_BAD;
    }
    if (state->left != UINT64_MAX && state->left != 0 && !upstream_response_is_head_alone(x)) {
        log_error(&x->request->log, 0, "upstream prematurely closed connection");
        return BODY_BAD;
    }
    return BODY_END;
}
