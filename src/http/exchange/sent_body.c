/* The one owner of what is announced of a request's body to a backend, and of how much of it was
 * sent. */
#include "http/exchange/internal.h"
#include "http/request/body.h"
#include "http/request/wire.h"
#include "http/routing/body_settings.h"

/* ---- what there is to send ---- */

int64_t sent_body_length(const struct exchange *x)
{
    const struct request *request = x->request;

    if (x->body_override.data != NULL) {
        return (int64_t) x->body_override.len;
    }
    if (x->body_mode == SENT_BODY_NONE) {
        return 0;
    }
    if (x->body_mode == SENT_BODY_STREAMED) {
        return request->incoming.length;
    }
    const struct request_body *body = request_passed_body(x->request);

    return body == NULL ? 0 : (int64_t) body->size;
}

/*
 * One of unknown length that came together with the head has a length, which applications want to
 * know. HTTP/2 brings it in frames of its own, which are looked at when the fiber lets go of the
 * loop. MAY WAIT, for a turn.
 */
static bool may_be_announced(const struct exchange *x)
{
    const struct request *request = x->request;
    bool (*is_whole)(const struct request *, uint64_t) = request->wire->has_whole_body;
    uint64_t buffer_size = request->location->bodies->client_body_buffer_size;
    uint64_t most = buffer_size == 0 ? 0 : buffer_size - 1; /* one that is full goes to a file */

    if (request->incoming.length >= 0 || request->incoming.is_read || is_whole == NULL ||
        request->location->bodies->client_body_in_file_only != BODY_IN_FILE_OFF) {
        return false; /* in a file only what is buffered is kept */
    }
    return is_whole(request, most) ||
           (x->protocol->wants_length && fiber_yield() == WAIT_READY && is_whole(request, most));
}

enum handler_result sent_body_prepare(struct exchange *x)
{
    /* Of one that is to be cut the rest has to be read as well. */
    if (x->body_mode == SENT_BODY_STREAMED &&
        (x->request->incoming.is_length_given || may_be_announced(x))) {
        sent_body_buffer(x);
    }
    if (x->body_mode == SENT_BODY_STREAMED) {
        return request_body_exceeds(x->request) ? HANDLER_FAIL : HANDLER_NEXT;
    }
    enum handler_result result = request_have_body(x->request);
    if (result == HANDLER_NEXT && x->set_body != NULL) { /* it may speak of the client's */
        struct str text = template_text(x->set_body, &x->request->env);
        x->body_override = text.data != NULL ? text : STR("");
    }
    return result;
}

enum handler_result sent_body_hold(struct exchange *x)
{
    sent_body_buffer(x);
    enum handler_result result = sent_body_prepare(x);
    if (result != HANDLER_NEXT) {
        sent_body_cut(x, result == HANDLER_FAIL ? x->request->response.status : 0);
    }
    return result;
}

/* ---- one attempt ---- */

/* Pieces of a body up to this size are copied after the head, to leave with it. */
#define COPY_MAX 4096

void exchange_send_piece(struct exchange *x, const struct body_piece *piece)
{
    struct conn *conn = x->connection->conn;

    if (piece->bytes.data == NULL) {
        if (piece->size != 0) {
            conn_set_nodelay(conn, true); /* sendfile() leaves in parts of any size */
            conn_write_file(conn, piece->fd, (struct file_range){piece->offset, piece->size},
                            piece->release, piece->release_arg);
        }
    } else if (piece->is_volatile || piece->bytes.len <= COPY_MAX) {
        conn_write(conn, piece->bytes);
        if (piece->release != NULL) {
            piece->release(piece->release_arg);
        }
    } else {
        conn_write_reference(conn, piece->bytes, piece->release, piece->release_arg);
    }
}

bool sent_body_give(struct exchange *x, const struct body_piece *piece, bool is_last)
{
    struct sent_body *sent = &x->sent;
    uint64_t size = piece == NULL ? 0 : piece->bytes.data != NULL ? piece->bytes.len : piece->size;
    uint64_t given = sent->given + size;

    if (sent->announced != SENT_BODY_UNKNOWN &&
        (given > sent->announced || (is_last && given != sent->announced))) {
        log_crit(&x->request->log, 0, "request body of %llu bytes was announced with %llu",
                 (unsigned long long) given, (unsigned long long) sent->announced);
        sent_body_cut(x, 500);
        return false;
    }
    sent->given = given;
    sent->is_ended = is_last;
    if (x->protocol->send_body != NULL) {
        x->protocol->send_body(x, piece, is_last);
    } else if (piece != NULL) {
        exchange_send_piece(x, piece);
    }
    return true;
}

void sent_body_cut(struct exchange *x, unsigned refusal)
{
    x->sent.is_cut = true;
    x->sent.refusal = refusal;
}
