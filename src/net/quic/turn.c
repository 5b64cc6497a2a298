/* The end of a turn of the loop, when all connections that changed have their say. */
#include "net/quic/private.h"

/* What the owner has to hear comes first: it writes. */
static void flush_one(struct quic_connection *c)
{
    if (c->send_error != 0) {
        quic_refused_by_socket(c, c->send_error);
        c->send_error = 0;
    }
    quic_call_owner(c);
    quic_flush(c);
    if (c->is_closed_due) {
        quic_call_owner(c);
    }
    if (c->state == QUIC_ENDED) {
        quic_connection_free(c);
    } else {
        quic_arm(c);
    }
}

void quic_close_now(struct quic_connection *c, uint64_t code)
{
    quic_close(c, code, STR_NONE);
    quic_flush(c);
    quic_call_owner(c);
}

static void flush_all(struct deferred *deferred)
{
    struct list *link;

    while ((link = list_pop_front(&quic_worker.dirty)) != NULL) {
        flush_one(container_of(link, struct quic_connection, dirty));
    }
    quic_udp_flush();
}

void quic_worker_begin(void)
{
    if (!quic_worker.is_ready) {
        list_init(&quic_worker.connections);
        list_init(&quic_worker.dirty);
        deferred_init(&quic_worker.flush, flush_all);
        quic_sent_pool_init(&quic_worker.sent);
        quic_worker.recovery_events = &quic_recovery_events;
        quic_udp_begin();
        quic_worker.is_ready = true;
    }
}

void quic_worker_end(void)
{
    if (!quic_worker.is_ready) {
        return;
    }
    list_each(link, &quic_worker.connections) {
        struct quic_connection *c = container_of(link, struct quic_connection, all);

        quic_end(c, QUIC_END_EVICTED);
        quic_call_owner(c);
        quic_connection_free(c);
    }
    loop_undefer(&quic_worker.flush);
    quic_udp_end();
    quic_tokens_drop();
    quic_sent_pool_free(&quic_worker.sent);
    hashed_free(&quic_worker.cids);
    quic_worker = (struct quic_worker){.is_ready = false};
}
