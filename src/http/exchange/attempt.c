/* One try with one peer: connect, send the request, read the head of the answer. */
#include <errno.h>

#include "base/clock.h"
#include "http/connection.h"
#include "http/exchange/internal.h"
#include "net/own.h"
#include "upstream/peer.h"
#include "server/generation.h"

/* Pieces of a body up to this size are copied behind the head, to leave with it. */
#define COPY_MAX 4096
/* So many bytes leave at once on a connection that has nothing else to send. */
#define ONE_WRITE (16 * 1024)
/* Reads in a row that find something before others of the worker get their turn. */
#define AT_ONCE_MAX 16
/* Interim answers (1xx) of one try; a backend that sends more is at fault. */
#define INTERIM_MAX 32

/* ---- notes for the $upstream_ variables ---- */

void attempt_begin(struct exchange *x, struct str name)
{
    struct request *request = x->request;
    bool is_first = x->try_ms == 0;

    x->attempt = vec_push(&x->attempts, &request->arena, sizeof(struct attempt));
    *x->attempt = (struct attempt){
        .peer = arena_dup(&request->arena, name), /* the log may come after the peer is gone */
        .connect_ms = UINT64_MAX,
        .header_ms = UINT64_MAX,
        .response_ms = UINT64_MAX,
        .queue_ms = UINT64_MAX,
        .send_ms = UINT64_MAX,
        .sent_ms = UINT64_MAX,
        .first_byte_ms = UINT64_MAX,
        .began_ms = clock_now.now_ms,
        .is_after_redirect = is_first && x->attempts.count > 1,
    };
    if (x->pick.queued_ms != 0) {
        x->attempt->queue_ms = x->pick.queued_ms;
    }
    x->try_ms = clock_now.now_ms;
}

void attempt_end(struct exchange *x, unsigned status)
{
    struct attempt *attempt = x->attempt;

    if (attempt == NULL || attempt->response_ms != UINT64_MAX) {
        return;
    }
    if (status != 0 && attempt->status == 0) {
        attempt->status = status;
    }
    attempt->response_ms = clock_now.now_ms - x->try_ms;
}

/* Bytes of this exchange that the socket took, from some number on. */
static uint64_t sent_so_far(const struct exchange *x)
{
    const struct channel *channel = x->protocol->channel;

    return channel->sent != NULL ? channel->sent(x) : x->link->conn->sent;
}

void exchange_leave_link(struct exchange *x, bool is_reusable)
{
    upload_stop(x);
    if (x->link != NULL) {
        x->attempt->bytes_sent += sent_so_far(x) - x->sent_before;
        if (x->link->conn->log == &x->request->log) {
            x->link->conn->log = log_main;
        }
        x->protocol->channel->end(x, is_reusable && sent_body_is_whole(x));
    }
}

/* ---- waiting ---- */

void patience_begin(struct exchange *x, struct patience *patience)
{
    patience->since_ms = clock_now.now_ms;
    patience->sent = sent_so_far(x);
    patience->at_once = 0;
}

bool patience_goes_on(struct exchange *x, struct patience *patience)
{
    unsigned at_once = patience->at_once + 1;

    patience_begin(x, patience);
    if (at_once == AT_ONCE_MAX) {
        return fiber_yield() == WAIT_READY;
    }
    patience->at_once = at_once;
    return true;
}

static void note_progress(struct exchange *x, struct patience *patience)
{
    if (sent_so_far(x) != patience->sent) {
        patience_begin(x, patience);
    }
}

enum wait_result patience_wait(struct exchange *x, struct patience *patience)
{
    const struct exchange_settings *settings = x->settings;
    const struct channel *channel = x->protocol->channel;
    uint64_t timeout_ms = settings->read_timeout_ms;

    if (channel->unsent(x) != 0 && settings->send_timeout_ms < timeout_ms) {
        timeout_ms = settings->send_timeout_ms; /* what is queued may be sent when this turn ends */
    }
    for (;;) {
        enum wait_result result = channel->wait(x, patience->since_ms + timeout_ms);

        if (result != WAIT_TIMED_OUT) {
            note_progress(x, patience);
            return result;
        }
        bool is_sending = channel->unsent(x) != 0;
        if (is_sending) {
            note_progress(x, patience);
        }
        timeout_ms = is_sending ? settings->send_timeout_ms : settings->read_timeout_ms;
        if (clock_now.now_ms - patience->since_ms >= timeout_ms) {
            log_error(&x->request->log, ETIMEDOUT, "upstream timed out");
            return result;
        }
    }
}

/* ---- connecting ---- */

static enum try_result fail_try(struct exchange *x, struct failure *failure, unsigned kind,
                                unsigned status)
{
    *failure = (struct failure){.kind = kind, .status = status};
    x->attempt->status = status;
    exchange_leave_link(x, false);
    return TRY_FAILED;
}

/* *_bind, with its variables, as an address. False: it is no address; logged. */
static bool local_address(struct exchange *x, struct addr *out)
{
    const struct bind_settings *bind = x->settings->bind;
    struct str text = template_text(bind->address, &x->request->env);
    struct str host;
    uint16_t port = 0;

    if (text.len == 0) {
        out->len = 0;
        return true;
    }
    if (addr_parse_ip(text, out)) {
        return true;
    }
    if (!addr_split_port(text, &host, &port) || !addr_parse_ip(host, out)) {
        log_error(&x->request->log, 0, "invalid local address \"%.*s\"", STR_ARG(text));
        return false;
    }
    addr_set_port(out, port);
    return true;
}

static enum try_result connect_peer(struct exchange *x, struct failure *failure)
{
    const struct exchange_settings *settings = x->settings;
    const struct protocol *protocol = x->protocol;
    struct addr local = {.len = 0};
    struct link_tls tls;
    struct link_options options = {
        .keepalive = settings->socket_keepalive,
        .send_buffer = settings->socket_sndbuf,
        .receive_buffer = settings->socket_rcvbuf,
        .send_lowat = settings->send_lowat,
        .tag = x->group->is_keepalive_local ? settings : NULL,
        .language = protocol,
        .wants_fresh = x->wants_fresh,
        .hops = connection_hops(x->request->http),
        .tells_timeout = protocol->timed_out != NULL,
        .is_unrepeatable = x->goes_once,
        .open_max = protocol->open_max != NULL ? protocol->open_max(x) : 0,
    };
    int error = 0;

    bool is_login = protocol->has_logins && logins_choose_link(x, &options);
    options.is_private =
        is_login || (protocol->wants_whole_link != NULL && protocol->wants_whole_link(x));
    x->was_reused = false;
    if (__builtin_expect(options.hops > x->request->server->max_self_hops, 0) &&
        own_may_be(&x->pick.peer->addr)) {
        return fail_try(x, failure, 0, 508); /* an error_page, a post_action: told before */
    }
    if (settings->bind != NULL && local_address(x, &local) && local.len != 0) {
        options.local = &local;
        options.is_transparent = settings->bind->is_transparent;
    }
    if (x->is_secure) {
        exchange_secure(x, &tls);
        options.tls = &tls;
        options.is_alone = settings->tls.is_certificate_late && x->group->is_implicit;
    }
    switch (link_open(&x->pick, &options, settings->connect_timeout_ms, &x->link, &error)) {
    case LINK_OK:
        break;
    case LINK_FAILED:
        return fail_try(x, failure, NEXT_ERROR, 502);
    case LINK_TIMED_OUT:
        if (protocol->timed_out != NULL) {
            protocol->timed_out(x, false);
        }
        return fail_try(x, failure, NEXT_TIMEOUT, 504);
    case LINK_ERROR:
        return fail_try(x, failure, 0, 500);
    case LINK_CANCELLED:
        return TRY_CANCELLED;
    }
    x->was_reused = x->link->is_reused;
    x->sent_before = protocol->channel->sent != NULL ? 0 : x->link->conn->sent;
    x->attempt->connect_ms = clock_now.now_ms - x->try_ms;
    if (__builtin_expect(is_login, 0)) {
        logins_bind(x);
    }
    if (!protocol->channel->begin(x)) {
        if (x->sent.is_cut) {
            return TRY_CANCELLED;
        }
        return fail_try(x, failure, NEXT_ERROR, 502);
    }
    if (x->is_secure && x->link->users_max == 1) {
        x->link->conn->log = &x->request->log; /* TLS has more to say than errno */
    }
    return TRY_ANSWERED;
}

/* ---- sending ---- */

void exchange_send_piece(struct exchange *x, const struct body_piece *piece)
{
    struct conn *conn = x->link->conn;

    if (piece->bytes.data == NULL) {
        if (piece->size != 0) {
            conn_set_nodelay(conn, true); /* sendfile() leaves in parts of any size */
            conn_write_file(conn, piece->fd, piece->offset, piece->size, piece->release,
                            piece->release_arg);
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

/* The body that was read before. */
static void send_body(struct exchange *x)
{
    const struct request_body *body = x->request->body;
    struct body_piece piece = {.fd = -1};

    if (x->body_override.data != NULL) {
        piece.bytes = x->body_override;
    } else if (!x->sends_body || body == NULL || body->size == 0) {
        sent_body_give(x, NULL, true);
        return;
    } else if (body->fd != -1) {
        piece.fd = body->fd;
        piece.size = body->size;
    } else {
        piece.bytes = body->bytes;
    }
    sent_body_give(x, &piece, true);
}

/* Queues the request and lets it go. False: no fiber is left for its body. */
static bool send_request(struct exchange *x)
{
    struct conn *conn = x->link->conn;

    x->request->log.action = "sending request to upstream";
    x->attempt->send_ms = clock_now.now_ms - x->try_ms;
    if (x->protocol->send_head != NULL) {
        x->protocol->send_head(x);
    } else {
        conn_write(conn, x->head);
    }
    sent_body_begin(x);
    x->has_sent = true;
    bool is_sound = true;
    if (x->streams_body) {
        is_sound = upload_start(x);
    } else {
        send_body(x);
        x->attempt->sent_ms = x->attempt->send_ms;
    }
    conn_flush_later(conn); /* on a shared one together with what others send in this turn */
    if (conn_unsent(conn) > ONE_WRITE || x->link->users_max > 1) {
        conn_set_nodelay(conn, true); /* the next write does not wait for an acknowledgement */
    }
    return is_sound;
}

/* ---- reading the head ---- */

/* 103 goes to clients that want it (`early_hints`); others are nobody's business. */
static void pass_interim(struct exchange *x)
{
    struct request *request = x->request;

    if (x->answer.status == 103 && request->location->early_hints.count != 0 &&
        templates_any_true(&request->location->early_hints, &request->env)) {
        request->log.action = "sending early hints to client";
        request->wire->send_interim(request, 103, answer_interim_fields(x));
    }
}

static void forget_answer(struct exchange *x)
{
    x->answer = (struct answer){.content_length = -1};
    x->body_received = 0;
    x->is_reusable = false;
    if (x->protocol->begin_answer != NULL) {
        x->protocol->begin_answer(x);
    }
}

/* The backend closed or broke off before a head was there. */
void exchange_log_early_end(struct exchange *x)
{
    const struct conn *conn = x->link->conn;

    if (conn->is_broken) {
        log_error(&x->request->log, conn->error, "recv() failed");
    } else {
        log_error(&x->request->log, 0, "upstream prematurely closed connection");
    }
}

static enum try_result read_head(struct exchange *x, struct failure *failure)
{
    const struct channel *channel = x->protocol->channel;
    struct patience patience;
    unsigned interim = 0;

    patience_begin(x, &patience);
    x->request->log.action = "reading response header from upstream";
    for (;;) {
        switch (x->protocol->read_head(x)) {
        case HEAD_DONE:
            if (x->answer.status >= 200 || x->answer.is_upgrade) {
                return TRY_ANSWERED;
            }
            if (++interim > INTERIM_MAX) {
                counters_mine->limited++;
                log_error(&x->request->log, 0, "upstream sent too many interim responses");
                return fail_try(x, failure, NEXT_INVALID_HEADER, 502);
            }
            pass_interim(x);
            forget_answer(x);
            continue;
        case HEAD_BAD:
            return fail_try(x, failure, NEXT_INVALID_HEADER, 502);
        case HEAD_MORE:
            break;
        }
        if (x->sent.is_cut) {
            return TRY_CANCELLED;
        }
        if (channel->input(x).len >= x->settings->buffer_size) {
            log_error(&x->request->log, 0, "upstream sent too big header");
            return fail_try(x, failure, NEXT_INVALID_HEADER, 502);
        }
        if (channel->fill(x)) {
            if (x->attempt->first_byte_ms == UINT64_MAX) {
                x->attempt->first_byte_ms = clock_now.now_ms - x->try_ms;
            }
            if (!patience_goes_on(x, &patience)) {
                return TRY_CANCELLED;
            }
            continue;
        }
        if (channel->has_ended(x)) {
            exchange_log_early_end(x);
            return fail_try(x, failure, NEXT_ERROR, 502);
        }
        enum wait_result result = patience_wait(x, &patience);
        if (result == WAIT_TIMED_OUT) {
            return fail_try(x, failure, NEXT_TIMEOUT, 504);
        }
        if (result == WAIT_CANCELLED) {
            return TRY_CANCELLED;
        }
    }
}

enum try_result exchange_try(struct exchange *x, struct failure *failure)
{
    enum try_result result = connect_peer(x, failure);

    if (result != TRY_ANSWERED) {
        return result;
    }
    forget_answer(x);
    if (!send_request(x)) {
        return fail_try(x, failure, NEXT_ERROR, 500);
    }
    result = read_head(x, failure);
    if (result == TRY_ANSWERED) {
        if (x->protocol->has_logins && (x->answer.status == 401 || x->answer.status == 407)) {
            logins_note_answer(x);
        }
        x->attempt->status = x->answer.status;
        x->attempt->header_ms = clock_now.now_ms - x->try_ms;
    }
    return result;
}
