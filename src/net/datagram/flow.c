/* The flows of this worker: found by one look into a table, begun, ended, and those that give way. */
#include "net/datagram/private.h"

#include <stdlib.h>
#include <string.h>

#include "base/checksum.h"
#include "base/clock.h"
#include "base/fatal.h"
#include "net/conn/conn.h"

#define BUCKETS_LEAST 256u
#define POOL_MOST 1024u /* closed ones that are kept */
#define LOG_EVERY_MS 1000

struct datagram_counts datagram_counts;
bool datagrams_have_stopped;

static struct {
    struct datagram_flow **buckets;
    size_t size; /* a power of two; 0 = none yet */
    size_t count;
} table;

/* Those whose client has not come back after an answer, oldest first, and the others. */
static struct list fresh = {&fresh, &fresh};
static struct list settled = {&settled, &settled};
static struct datagram_flow *pool;
static uint64_t logged_ms; /* when running short was logged last */

size_t datagram_flows(void)
{
    return table.count;
}

struct listener *datagram_flow_listener(const struct datagram_flow *flow)
{
    return flow->port->listener;
}

void datagram_flow_local(const struct datagram_flow *flow, struct addr *local)
{
    *local = flow->port->addr;
    if (!flow->port->is_wildcard) {
        return;
    }
    if (local->any.sa_family == AF_INET) {
        memcpy(&local->v4.sin_addr, flow->key.local, sizeof(local->v4.sin_addr));
    } else if (local->any.sa_family == AF_INET6) {
        memcpy(&local->v6.sin6_addr, flow->key.local, sizeof(local->v6.sin6_addr));
    }
}

/* ---- the table ---- */

static void table_grow(void)
{
    size_t size = table.size == 0 ? BUCKETS_LEAST : table.size * 2;
    struct datagram_flow **buckets = calloc(size, sizeof(struct datagram_flow *));

    if (buckets == NULL) {
        fatal_no_memory(size * sizeof(struct datagram_flow *));
    }
    for (size_t i = 0; i < table.size; i++) {
        for (struct datagram_flow *flow = table.buckets[i], *next; flow != NULL; flow = next) {
            struct datagram_flow **bucket = &buckets[flow->hash >> 16 & (size - 1)];

            next = flow->next;
            flow->next = *bucket;
            *bucket = flow;
        }
    }
    free(table.buckets);
    table.buckets = buckets;
    table.size = size;
}

static struct datagram_flow **bucket_of(uint64_t hash)
{
    return &table.buckets[hash >> 16 & (table.size - 1)];
}

static struct datagram_flow *flow_find(const struct datagram_key *key, uint64_t hash)
{
    if (table.size == 0) {
        return NULL;
    }
    struct datagram_flow *flow = *bucket_of(hash);
    while (flow != NULL &&
           (flow->hash != hash || memcmp(&flow->key, key, sizeof(flow->key)) != 0)) {
        flow = flow->next;
    }
    return flow;
}

/* ---- beginning and ending ---- */

static struct datagram_flow *flow_new(struct datagram_port *port, const struct datagram *datagram,
                                      uint64_t hash)
{
    struct datagram_flow *flow = pool;

    if (table.count >= table.size) {
        table_grow();
    }
    if (flow != NULL) {
        pool = flow->next;
    } else if ((flow = calloc(1, sizeof(*flow))) == NULL) {
        fatal_no_memory(sizeof(*flow));
    }
    flow->magic = DATAGRAM_FLOW_MAGIC;
    flow->owner = NULL;
    flow->user = NULL;
    flow->port = port;
    flow->hash = hash;
    flow->key = datagram->key;
    flow->peer = datagram->peer;
    flow->was_answered = flow->is_settled = flow->is_unbound = false;
    flow->next = *bucket_of(hash);
    *bucket_of(hash) = flow;
    list_push_back(&fresh, &flow->link);
    table.count++;
    datagram_counts.begun++;
    return flow;
}

void datagram_unbind(struct datagram_flow *flow)
{
    struct datagram_flow **link = bucket_of(flow->hash);

    if (flow->is_unbound) {
        return;
    }
    while (*link != flow) {
        link = &(*link)->next;
    }
    *link = flow->next;
    flow->is_unbound = true;
    directory_leave(flow->hash, mailbox_own);
}

void datagram_close(struct datagram_flow *flow)
{
    CHECK_MAGIC(flow, DATAGRAM_FLOW_MAGIC);
    datagram_unbind(flow);
    table.count--;
    list_remove(&flow->link);
    flow->magic = 0;
    flow->life++;
    flow->next = pool;
    pool = flow;
}

/* Tells the owner, and closes it if that did not. */
static void flow_end(struct datagram_flow *flow, enum datagram_end why)
{
    uint32_t life = flow->life;

    flow->owner->ended(flow, why);
    if (flow->life == life) {
        datagram_close(flow);
    }
}

static void end_list(struct list *list, const struct datagram_port *port, enum datagram_end why)
{
    struct list todo;

    /* Whoever is told may end others. */
    list_init(&todo);
    list_splice_back(&todo, list);
    for (struct list *item; (item = list_pop_front(&todo)) != NULL;) {
        struct datagram_flow *flow = container_of(item, struct datagram_flow, link);

        list_push_back(list, item);
        if (port == NULL || flow->port == port) {
            flow_end(flow, why);
        }
    }
}

void datagram_flows_end(const struct datagram_port *port, enum datagram_end why)
{
    end_list(&fresh, port, why);
    end_list(&settled, port, why);
}

void datagram_flows_free(void)
{
    while (pool != NULL) {
        struct datagram_flow *next = pool->next;

        free(pool);
        pool = next;
    }
    free(table.buckets);
    memset(&table, 0, sizeof(table));
}

/* ---- room ---- */

static bool is_full(void)
{
    return table.count + conn_pool.used >= conn_pool.limit;
}

/*
 * Is there a place for one more client? Whoever says to be somebody else never hears our answer, and so never comes back
 * after it: of those the oldest gives way. Clients that did come back keep their places.
 */
static bool room_for_one(const struct listener *listener)
{
    if (!is_full()) {
        return true;
    }
    bool has_room = !list_is_empty(&fresh);
    if (clock_now.now_ms - logged_ms >= LOG_EVERY_MS || logged_ms == 0) {
        logged_ms = clock_now.now_ms;
        log_at(listener->log, has_room ? LOG_WARN : LOG_ALERT, 0,
               "%u worker_connections are not enough%s", conn_pool.limit,
               has_room ? ", the oldest unproved udp clients give way" : "");
    }
    if (has_room) {
        datagram_counts.evicted++;
        flow_end(container_of(fresh.next, struct datagram_flow, link), DATAGRAM_EVICTED);
    }
    return !is_full();
}

/* ---- delivering ---- */

/* The flow is another worker's, who takes the datagram. */
static bool pass_to_owner(const struct datagram *datagram, uint64_t hash)
{
    uint32_t owner = directory_claim(hash, mailbox_own);

    if (owner == mailbox_own) {
        return false;
    }
    if (mailbox_pass(owner, datagram)) {
        return true;
    }
    directory_seize(hash, owner, mailbox_own);
    return false;
}

/* NULL: there is no place for it, or its owner closed it. */
static struct datagram_flow *begin(struct datagram_port *port, const struct datagram *datagram,
                                   uint64_t hash)
{
    struct listener *listener = port->listener;

    if (!room_for_one(listener)) {
        datagram_counts.refused++;
        directory_leave(hash, mailbox_own);
        listener->began(listener, NULL);
        return NULL;
    }
    struct datagram_flow *flow = flow_new(port, datagram, hash);
    uint32_t life = flow->life;
    listener->began(listener, flow);
    if (flow->life == life && flow->owner == NULL) {
        datagram_close(flow);
    }
    return flow->life == life ? flow : NULL;
}

void datagram_deliver(struct datagram_port *port, const struct datagram *datagram, bool was_passed)
{
    const struct str key = {(const char *) &datagram->key, sizeof(datagram->key)};
    uint64_t hash = keyed_hash(key);
    struct datagram_flow *flow = flow_find(&datagram->key, hash);

    if (flow == NULL) {
        if (!was_passed && pass_to_owner(datagram, hash)) {
            return;
        }
        if (datagrams_have_stopped) {
            datagram_counts.dropped++;
            return;
        }
        flow = begin(port, datagram, hash);
    } else if (flow->was_answered && !flow->is_settled) {
        flow->is_settled = true;
        list_remove(&flow->link);
        list_push_back(&settled, &flow->link);
    }
    if (flow != NULL) {
        flow->owner->received(flow, datagram->bytes);
    }
}
