/* The request's body on its way to a backend as the client sends it (*_request_buffering off): a
 * fiber of its own, so that an early response is noticed. */
#include <errno.h>

#include "base/clock.h"
#include "base/fatal.h"
#include "http/client/connection.h"
#include "http/exchange/internal.h"
#include "http/request/body.h"
#include "http/request/engine.h"
#include "http/routing/body_settings.h"

#define PIECE_SIZE (16 * 1024)
/* More bytes than this on their way to the backend, and the client is not asked for more. */
#define UNSENT_MAX (64 * 1024)

/* One upload; in the request's arena. */
struct upload {
    struct exchange *exchange;
    struct fiber_handle fiber; /* of upload_run */
    char *room;                /* PIECE_SIZE bytes */
    struct buf kept;           /* the body so far, while it is short: for $request_body, for who
                                  answers instead, and for a peer after one that refused to look */
    bool is_kept;              /* kept holds all of it */
    bool is_done;              /* the fiber has ended, or was never needed */
};

static void upload_keep(struct upload *upload, struct str bytes)
{
    if (upload->is_kept &&
        upload->kept.len + bytes.len <=
            upload->exchange->request->location->bodies->client_body_buffer_size) {
        buf_append(&upload->kept, bytes);
    } else {
        upload->is_kept = false;
        buf_free(&upload->kept);
    }
}

/* The body went by and was short: it is the request's from now on. */
static void keep_body(struct upload *upload)
{
    struct request *request = upload->exchange->request;

    if (upload->is_kept && request->incoming.body == NULL) {
        struct request_body *body = arena_new(&request->arena, struct request_body);
        body->fd = -1;
        body->bytes = arena_dup(&request->arena, buf_str(&upload->kept));
        body->size = upload->kept.len;
        request->incoming.body = body;
    }
}

/*
 * What the client has sent by now, at least a byte: chunks that came together leave together. MAY
 * WAIT for the first. -1: it broke off; 0: the end, when nothing came before it.
 */
static ssize_t upload_gather(struct upload *upload)
{
    struct request *request = upload->exchange->request;
    ssize_t n = request_read_some(request, upload->room, PIECE_SIZE);

    for (ssize_t more = n; more > 0 && n < PIECE_SIZE && !request->incoming.is_read;) {
        request->incoming.reads_no_further = true;
        more = request_read_some(request, upload->room + n, (size_t) (PIECE_SIZE - n));
        request->incoming.reads_no_further = false;
        if (more < 0 && (request->incoming.refusal != 0 || request->incoming.is_read)) {
            return -1; /* not that there is nothing now: there will be nothing more */
        }
        n += more > 0 ? more : 0;
    }
    return n;
}

/* What went to a peer that has not looked at it, for this one. False: as of send_pieces. MAY WAIT.
 */
static bool give_kept(struct upload *upload)
{
    struct exchange *x = upload->exchange;
    struct body_piece piece = {.bytes = buf_str(&upload->kept), .fd = -1, .is_volatile = true};

    return (piece.bytes.len == 0 && !x->request->incoming.is_read) ||
           sent_body_give(x, piece.bytes.len == 0 ? NULL : &piece, x->request->incoming.is_read);
}

static enum wait_result wait_for_room(struct exchange *x)
{
    uint64_t timeout_ms = x->settings->send_timeout_ms;

    return x->protocol->channel->wait_room != NULL
               ? x->protocol->channel->wait_room(x, timeout_ms)
               : conn_wait_sent(x->connection->conn, UNSENT_MAX, timeout_ms);
}

/* Piece after piece. False: the client's or the backend's part broke off. */
static bool send_pieces(struct upload *upload)
{
    struct exchange *x = upload->exchange;
    struct request *request = x->request;
    uint64_t size = upload->kept.len;

    if (!give_kept(upload)) {
        return false;
    }
    while (!x->sent.is_ended) {
        ssize_t n = upload_gather(upload);
        if (n < 0 || request_body_is_too_large(request, size += (uint64_t) n)) {
            sent_body_cut(x, n < 0 ? request->incoming.refusal : 413);
            return false;
        }
        upload_keep(upload, (struct str){upload->room, (size_t) n});
        struct body_piece piece = {.bytes = {upload->room, (size_t) n},
                                   .fd = -1,
                                   .is_volatile = true};
        bool is_last = n == 0 || request->incoming.is_read;
        if (exchange_unsent(x) == 0) {
            x->sent.begun_ms = clock_now.now_ms;
        }
        if (!sent_body_give(x, n == 0 ? NULL : &piece, is_last)) {
            return false;
        }
        x->attempt->sent_ms = is_last ? clock_now.now_ms - x->attempt_start_ms : UINT64_MAX;
        if (wait_for_room(x) != WAIT_READY) {
            return false;
        }
    }
    keep_body(upload);
    return true;
}

static void upload_run(void *arg)
{
    struct upload *upload = arg;
    struct exchange *x = upload->exchange;

    CHECK_MAGIC(x, EXCHANGE_MAGIC);
    send_pieces(upload);
    upload->is_done = true;
    if (x->connection != NULL) {
        /* The response is awaited there, and deadlines change. */
        if (x->protocol->channel->nudge != NULL) {
            x->protocol->channel->nudge(x);
        } else {
            wait_signal(&x->connection->wake);
        }
    }
}

static void upload_free(void *arg)
{
    struct upload *upload = arg;

    buf_free(&upload->kept);
}

bool upload_is_kept(const struct exchange *x)
{
    return x->upload == NULL || x->upload->is_kept;
}

bool upload_start(struct exchange *x)
{
    struct upload *upload = x->upload;

    if (upload == NULL) {
        upload = arena_new(&x->request->arena, struct upload);
        upload->exchange = x;
        upload->room = arena_text(&x->request->arena, PIECE_SIZE);
        upload->is_kept = true;
        arena_on_free(&x->request->arena, upload_free, upload);
        x->upload = upload;
    }
    conn_set_nodelay(x->connection->conn, true); /* there will be several writes */
    x->request->incoming.is_limited = true;
    upload->is_done = false;
    if (request_fiber_start(upload_run, upload, &upload->fiber) == FIBER_NO_STACK) {
        log_crit(&x->request->log, 0, "no stack for a request's body");
        upload->is_done = true;
        return false;
    }
    return true;
}

void upload_stop(struct exchange *x)
{
    if (x->upload != NULL && !x->upload->fiber.has_ended) {
        fiber_cancel_and_join(&x->upload->fiber);
        x->sent.is_cut = false; /* it was we who broke it off */
    }
}

bool upload_is_under_way(const struct exchange *x)
{
    return x->upload != NULL && !x->upload->is_done;
}

bool upload_join(struct exchange *x)
{
    return x->upload == NULL ||
           (fiber_join(&x->upload->fiber, FIBER_NEVER) == WAIT_READY && x->sent.is_ended);
}
