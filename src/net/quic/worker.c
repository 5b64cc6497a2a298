/* What a worker has of QUIC: its connections and their ids. */
#include "net/quic/private.h"

#include "base/checksum.h"

struct quic_worker quic_worker;

void quic_wake(struct quic_connection *c)
{
    if (list_is_empty(&c->dirty)) {
        list_push_back(&quic_worker.dirty, &c->dirty);
    }
    loop_defer(&quic_worker.flush);
}

struct quic_connection *quic_find(struct str cid)
{
    uint64_t hash = keyed_hash(cid);

    for (struct hashed *at = hashed_first(&quic_worker.cids, hash); at != NULL; at = at->next) {
        struct quic_own_cid *own = container_of(at, struct quic_own_cid, entry);

        if (at->hash == hash && quic_cid_is(&own->cid, cid)) {
            return own->connection;
        }
    }
    return NULL;
}

size_t quic_connections(void)
{
    size_t n = 0;

    if (quic_worker.is_ready) {
        list_each(link, &quic_worker.connections) {
            n++;
        }
    }
    return n;
}

void quic_worker_counts(struct quic_worker_counts *out)
{
    *out = quic_worker.counts;
}
