/* Sessions over UDP flows: a client's first datagram begins a session; further ones are queued
 * until content takes them. */
#include <stdatomic.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/fatal.h"
#include "net/conn/conn.h"
#include "net/datagram/flow.h"
#include "net/datagram/list.h"
#include "server/generation.h"
#include "stream/session/story.h"

#define FLOW_KEY_MOST 1024u /* bytes of a key that are used */

/* Queued datagrams, and the one that is being delivered, which is in its reader's buffer. */
struct datagram_queue {
    struct datagram_list list;
    struct str passing;        /* the first, while it is delivered; copied after that */
    struct wait_point arrived; /* a fiber that waits for a datagram */
    bool is_taken;             /* the hook that it was given to has taken passing */
    bool is_begun;             /* the session runs */
    bool is_logged;            /* dropped datagrams were logged */
};

static struct datagram_queue *queue_of(struct session *session)
{
    if (session->waiting == NULL) {
        session->waiting = calloc(1, sizeof(*session->waiting));
        if (session->waiting == NULL) {
            fatal_no_memory(sizeof(*session->waiting));
        }
    }
    return session->waiting;
}

static void queue_free(struct session *session)
{
    struct datagram_queue *queue = session->waiting;

    if (queue == NULL) {
        return;
    }
    datagram_list_free(&queue->list);
    free(queue);
    session->waiting = NULL;
}

/* Queues a datagram. More than a session may keep is dropped, as in a network. */
static void queue_add(struct session *session, struct str datagram)
{
    struct datagram_queue *queue = queue_of(session);

    if (datagram_list_add(&queue->list, datagram)) {
        wait_signal_later(&queue->arrived);
        return;
    }
    if (!queue->is_logged) {
        queue->is_logged = true;
        log_warn(&session->log, 0, "datagrams of the client are dropped: the session is not ready");
    }
    counters_mine->limited++;
}

struct str session_first_datagram(const struct session *session)
{
    const struct datagram_queue *queue = session->waiting;

    if (queue == NULL) {
        return STR_NONE;
    }
    if (queue->passing.data != NULL) {
        return queue->passing;
    }
    return datagram_list_first(&queue->list);
}

enum wait_result session_wait_datagram(struct session *session, uint64_t deadline_ms)
{
    while (session_first_datagram(session).data == NULL) {
        enum wait_result result = fiber_wait(&queue_of(session)->arrived, deadline_ms);

        if (result != WAIT_READY) {
            return result;
        }
    }
    return WAIT_READY;
}

bool session_is_awaited(const struct session *session)
{
    return session->waiting != NULL && session->waiting->arrived.waiter != NULL;
}

void session_drop_datagram(struct session *session)
{
    struct datagram_queue *queue = session->waiting;

    if (queue->passing.data != NULL) {
        queue->passing = STR_NONE;
        queue->is_taken = true;
        return;
    }
    free(datagram_list_take(&queue->list));
}

void session_take_datagrams(struct session *session)
{
    struct datagram_queue *queue = session->waiting;
    void (*received)(struct session *, struct str) = session->holder->received;

    if (queue == NULL || session->flow == NULL) {
        return;
    }
    /* The session may be freed in each of these calls. */
    struct datagram_flow *flow = session->flow;
    uint32_t life = flow->life;
    struct datagram_list list = queue->list;
    struct str passing = queue->passing;
    session->waiting = NULL;
    free(queue);
    if (passing.data != NULL) {
        received(session, passing);
    }
    for (struct datagram_node *one; (one = datagram_list_take(&list)) != NULL; free(one)) {
        if (flow->life == life) {
            received(session, (struct str){one->bytes, one->len});
        }
    }
}

/* ---- callbacks of the flow ---- */

/* Starts the session with its first datagram. */
static void stream_datagram_begin(struct session *session, struct str datagram)
{
    struct datagram_flow *flow = session->flow;
    uint32_t life = flow->life;
    struct datagram_queue *queue = queue_of(session);

    queue->is_begun = true;
    queue->passing = datagram;
    session_enter(session, SESSION_BEGINNING);
    session_go_on(session);
    if (flow->life != life || session->waiting == NULL) {
        return;
    }
    /* The session waits, and the datagram is needed longer than its reader keeps it. */
    session->waiting->passing = STR_NONE;
    if (!session->waiting->is_taken) {
        queue_add(session, datagram);
    }
}

static void flow_received(struct datagram_flow *flow, struct str datagram)
{
    struct session *session = flow->user;

    session->received += datagram.len;
    if (session->stage == SESSION_CARRIED) {
        session->holder->received(session, datagram);
    } else if (session->waiting == NULL || !session->waiting->is_begun) {
        stream_datagram_begin(session, datagram);
    } else {
        queue_add(session, datagram);
    }
}

static void flow_failed(struct datagram_flow *flow, int error)
{
    struct session *session = flow->user;

    log_error(&session->log, error, "sendmsg() failed");
    session_abort(session);
}

static void flow_ended(struct datagram_flow *flow, enum datagram_end why)
{
    struct session *session = flow->user;

    if (why == DATAGRAM_EVICTED) {
        counters_mine->limited++;
        log_info(&session->log, 0, "udp session was closed to free space for others");
    } else {
        log_info(&session->log, 0, "disconnected on shutdown");
    }
    if (!session->has_client) {
        session_set_client(session, &flow->peer);
    }
    session->flow = NULL;
    session_abort(session);
}

/* The client's address has changed: may the new one be used? */
static bool flow_moves(struct datagram_flow *flow)
{
    struct session *session = flow->user;
    char buffer[ADDR_TEXT_MAX];

    if (!session_is_let_in(session)) {
        counters_mine->limited++;
        return false;
    }
    session->is_held_back = false;
    log_info(&session->log, 0, "udp client speaks from %.*s now",
             (int) addr_format(&flow->peer, true, buffer), buffer);
    return true;
}

static const struct datagram_owner flow_owner = {flow_received, flow_failed, flow_ended,
                                                 flow_moves};

/* ---- the key of a client ---- */

struct str stream_flow_key(struct listener *listener, const struct addr *peer)
{
    static char buffer[FLOW_KEY_MOST];
    const struct stream_listen *listen = listener->user;
    struct session *asked = calloc(1, sizeof(*asked));

    if (asked == NULL) {
        fatal_no_memory(sizeof(*asked));
    }
    session_to_ask(asked, listen, peer);
    struct str key =
        str_head(template_text(listen->default_server->udp_flow_key, &asked->env), sizeof(buffer));
    str_put(buffer, key);
    arena_free(&asked->arena);
    free(asked);
    return (struct str){buffer, key.len};
}

void stream_began(struct listener *listener, struct datagram_flow *flow)
{
    struct stream_listen *listen = listener->user;

    counters_mine->accepted++;
    if (flow == NULL) {
        counters_mine->limited++;
        return;
    }
    counters_mine->handled++;
    struct session *session = session_new(listen, NULL);
    session->flow = flow;
    session->log.connection = atomic_fetch_add_explicit(conn_serial, 1, memory_order_relaxed) + 1;
    flow->owner = &flow_owner;
    flow->user = session;
    if (session->log.level >= LOG_INFO) {
        session_log_client(session, &flow->peer);
    }
}

void session_leave_flow(struct session *session)
{
    queue_free(session);
    if (session->flow != NULL) {
        datagram_close(session->flow);
        session->flow = NULL;
    }
}

void session_send_datagram(struct session *session, struct str datagram)
{
    if (session->flow == NULL) {
        return;
    }
    if (datagram_send(session->flow, datagram)) {
        session->sent += datagram.len;
        return;
    }
    counters_mine->limited++;
    if (!session->is_held_back) {
        session->is_held_back = true;
        log_info(&session->log, 0,
                 "udp client gets no more where it speaks from now, until it speaks again");
    }
}
