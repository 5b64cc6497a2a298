/* Records of sent packets, from a pool. */
#include <stdlib.h>

#include "base/fatal.h"
#include "net/quic/recovery.h"

#define POOL_AT_ONCE 64u /* records of a block */

/* Memory for records, chained so that it can be freed. */
struct pool_block {
    struct pool_block *next;
};

void quic_sent_pool_init(struct quic_sent_pool *pool)
{
    list_init(&pool->free);
    pool->more = NULL;
    pool->blocks = NULL;
}

void quic_sent_pool_free(struct quic_sent_pool *pool)
{
    struct pool_block *block = pool->blocks;

    while (block != NULL) {
        struct pool_block *next = block->next;
        free(block);
        block = next;
    }
    quic_sent_pool_init(pool);
}

/* A block of memory that the pool keeps, with room for so many bytes after its head. */
static void *pool_grow(struct quic_sent_pool *pool, size_t size)
{
    struct pool_block *block = malloc(sizeof(*block) + size);

    if (block == NULL) {
        fatal_no_memory(size);
    }
    block->next = pool->blocks;
    pool->blocks = block;
    return block + 1;
}

static struct quic_carried_more *pool_more(struct quic_sent_pool *pool)
{
    if (pool->more == NULL) {
        struct quic_carried_more *more = pool_grow(pool, POOL_AT_ONCE * sizeof(*more));
        for (unsigned i = 0; i < POOL_AT_ONCE; i++) {
            more[i].next = pool->more;
            pool->more = &more[i];
        }
    }
    struct quic_carried_more *one = pool->more;
    pool->more = one->next;
    one->next = NULL;
    return one;
}

struct quic_sent *quic_sent_new(struct quic_recovery *r)
{
    struct quic_sent_pool *pool = r->pool;

    if (list_is_empty(&pool->free)) {
        struct quic_sent *sent = pool_grow(pool, POOL_AT_ONCE * sizeof(*sent));
        for (unsigned i = 0; i < POOL_AT_ONCE; i++) {
            list_push_back(&pool->free, &sent[i].link);
        }
    }
    struct quic_sent *one = container_of(list_pop_front(&pool->free), struct quic_sent, link);
    one->count = 0;
    one->size = 0;
    one->more = NULL;
    one->is_mtu_probe = false;
    one->is_ect = false;
    return one;
}

void quic_sent_carry(struct quic_recovery *r, struct quic_sent *sent,
                     const struct quic_carried *frame)
{
    uint32_t place = sent->count % QUIC_CARRIED_FEW;

    if (frame->kind == QUIC_CARRIED_MTU_PROBE) {
        sent->is_mtu_probe = true;
    }
    if (sent->count < QUIC_CARRIED_FEW) {
        sent->frames[sent->count++] = *frame;
        return;
    }
    if (place == 0) { /* the newest of the chain is its first */
        struct quic_carried_more *more = pool_more(r->pool);
        more->next = sent->more;
        sent->more = more;
    }
    sent->more->frames[place] = *frame;
    sent->count++;
}

void quic_sent_drop(struct quic_recovery *r, struct quic_sent *sent)
{
    while (sent->more != NULL) {
        struct quic_carried_more *more = sent->more;
        sent->more = more->next;
        more->next = r->pool->more;
        r->pool->more = more;
    }
    list_remove(&sent->link);
    list_push_front(&r->pool->free, &sent->link);
}
