/* The flows of this worker: found by one look into a table, begun, ended, and those that give way.
 */
#include "net/datagram/packet.h"
#include "net/datagram/private.h"

#include <stdlib.h>
#include <string.h>

#include "base/checksum.h"
#include "base/clock.h"
#include "base/fatal.h"
#include "net/conn/conn.h"
#include "net/datagram/ids.h"

#define LOG_EVERY_MS 1000
#define CREDIT 3u /* times what a client sent from where it moved to */

struct datagram_counts datagram_counts;
bool datagrams_have_stopped;

static struct hashed_table table; /* of those that are bound */
static size_t flow_count;         /* of all */

/* Those whose client has not come back after an answer, oldest first, and the others. */
static struct list fresh = {&fresh, &fresh};
static struct list settled = {&settled, &settled};
static struct hashed *pool;
static uint64_t logged_ms; /* when running short was logged last */

size_t datagram_flows(void)
{
    return flow_count;
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

static struct datagram_flow *flow_of(struct hashed *entry)
{
    return container_of(entry, struct datagram_flow, entry);
}

static struct datagram_flow *flow_find(const struct datagram_key *key, uint64_t hash)
{
    struct hashed *entry = hashed_first(&table, hash);

    while (entry != NULL &&
           (entry->hash != hash || memcmp(&flow_of(entry)->key, key, sizeof(*key)) != 0)) {
        entry = entry->next;
    }
    return entry == NULL ? NULL : flow_of(entry);
}

static struct datagram_flow *pool_take(void)
{
    struct hashed *first = pool;

    if (first == NULL) {
        return NULL;
    }
    pool = first->next;
    return flow_of(first);
}

/* ---- beginning and ending ---- */

static struct datagram_flow *flow_new(struct datagram_port *port, const struct datagram *datagram,
                                      uint64_t hash)
{
    struct datagram_flow *flow = pool_take();

    if (flow == NULL && (flow = calloc(1, sizeof(*flow))) == NULL) {
        fatal_no_memory(sizeof(*flow));
    }
    flow->magic = DATAGRAM_FLOW_MAGIC;
    flow->owner = NULL;
    flow->user = NULL;
    flow->port = port;
    flow->key = datagram->key;
    flow->peer = datagram->peer;
    flow->was_answered = flow->is_settled = flow->is_unbound = flow->is_unproved = false;
    hashed_add(&table, &flow->entry, hash);
    list_push_back(&fresh, &flow->node);
    flow_count++;
    datagram_counts.begun++;
    return flow;
}

void datagram_unbind(struct datagram_flow *flow)
{
    if (flow->is_unbound) {
        return;
    }
    hashed_remove(&table, &flow->entry);
    flow->is_unbound = true;
    directory_leave(flow->entry.hash, mailbox_own);
    identity_forget(flow);
}

void datagram_close(struct datagram_flow *flow)
{
    CHECK_MAGIC(flow, DATAGRAM_FLOW_MAGIC);
    datagram_unbind(flow);
    flow_count--;
    list_remove(&flow->node);
    flow->magic = 0;
    flow->life++;
    flow->entry.next = pool;
    pool = &flow->entry;
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

    /* The owner that is called may end others. */
    list_init(&todo);
    list_splice_back(&todo, list);
    for (struct list *item; (item = list_pop_front(&todo)) != NULL;) {
        struct datagram_flow *flow = container_of(item, struct datagram_flow, node);

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
        free(pool_take());
    }
    hashed_free(&table);
    identities_free();
}

/* ---- room ---- */

static bool is_full(void)
{
    return flow_count + conn_pool.used >= conn_pool.limit;
}

/*
 * Is there a place for one more client? A sender that uses another's address never gets our answer,
 * and so never comes back after it: of those the oldest gives way. Clients that did come back keep
 * their places.
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
        flow_end(container_of(fresh.next, struct datagram_flow, node), DATAGRAM_EVICTED);
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
static struct datagram_flow *datagram_flow_begin(struct datagram_port *port,
                                                 const struct datagram *datagram, uint64_t hash)
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

/* ---- clients that come from another address ---- */

static bool is_same_host(const struct addr *a, const struct addr *b)
{
    struct addr other = *b;

    if (a->any.sa_family != AF_UNIX) {
        addr_set_port(&other, addr_port(a));
    }
    return addr_equal(a, &other);
}

/* The client is where the datagram comes from. False: its owner does not want it there. */
static bool go_along(struct datagram_flow *flow, const struct datagram *datagram)
{
    struct addr former = flow->peer;

    flow->peer = datagram->peer;
    datagram_counts.moved++;
    if (is_same_host(&former, &flow->peer)) {
        return true;
    }
    if (flow->owner->moves != NULL && !flow->owner->moves(flow)) {
        flow->peer = former;
        datagram_counts.dropped++;
        return false;
    }
    flow->was_answered = false;
    flow->is_unproved = true;
    flow->credit = 0;
    return true;
}

/* The flow is found at this address from now on. */
static void bind_again(struct datagram_flow *flow, const struct datagram *datagram, uint64_t hash)
{
    hashed_remove(&table, &flow->entry);
    directory_leave(flow->entry.hash, mailbox_own);
    flow->key = datagram->key;
    hashed_add(&table, &flow->entry, hash);
    directory_take(hash, mailbox_own);
}

/*
 * Nobody has a flow at this address: does the datagram bear the id of one? Gives whether it was
 * dealt with: *flow gets it, or another worker, or it was dropped.
 */
static bool follow_id(struct datagram_port *port, const struct datagram *datagram, uint64_t hash,
                      bool was_passed, struct datagram_flow **flow)
{
    uint32_t elsewhere;

    *flow = identity_find(port, datagram->bytes, &elsewhere);
    if (*flow != NULL) {
        if (go_along(*flow, datagram)) {
            bind_again(*flow, datagram, hash);
        } else {
            directory_leave(hash, mailbox_own);
            *flow = NULL;
        }
        return true;
    }
    if (was_passed || elsewhere == 0) {
        return false;
    }
    directory_leave(hash, mailbox_own); /* it will be the other's */
    if (mailbox_pass(elsewhere, datagram)) {
        return true;
    }
    directory_claim(hash, mailbox_own);
    return false;
}

/* ---- delivering, in full ---- */

/* What the datagram says of its client. */
static void note_heard(struct datagram_flow *flow, size_t len)
{
    if (flow->was_answered) {
        flow->is_unproved = false;
        if (!flow->is_settled) {
            flow->is_settled = true;
            list_remove(&flow->node);
            list_push_back(&settled, &flow->node);
        }
    }
    if (flow->is_unproved) {
        flow->credit += CREDIT * len;
    }
}

void datagram_deliver(struct datagram_port *port, const struct datagram *datagram, bool was_passed)
{
    if (port->listener->taker != NULL) {
        datagram_take(port, datagram, was_passed);
        return;
    }
    const struct str key = {(const char *) &datagram->key, sizeof(datagram->key)};
    uint64_t hash = keyed_hash(key);
    struct datagram_flow *flow = flow_find(&datagram->key, hash);

    if (flow == NULL) {
        if (!was_passed && pass_to_owner(datagram, hash)) {
            return;
        }
        if (port->listener->flow_ids == DATAGRAM_IDS_NONE ||
            !follow_id(port, datagram, hash, was_passed, &flow)) {
            if (datagrams_have_stopped) {
                datagram_counts.dropped++;
                return;
            }
            flow = datagram_flow_begin(port, datagram, hash);
        }
    } else if (__builtin_expect(port->listener->flow_key != NULL, 0) &&
               !addr_equal(&flow->peer, &datagram->peer) && !go_along(flow, datagram)) {
        return;
    }
    if (flow != NULL) {
        note_heard(flow, datagram->bytes.len);
        flow->owner->received(flow, datagram->bytes);
    }
}

bool datagram_has_stopped(void)
{
    return datagrams_have_stopped;
}
