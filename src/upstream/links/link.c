/* Links: connections to peers in the hands of requests; when they may be opened, and where they go. */
#include "upstream/link.h"

#include <errno.h>
#include <stdlib.h>

#include "base/checksum.h"
#include "base/clock.h"
#include "base/fatal.h"
#include "net/conn/own.h"
#include "upstream/links/links.h"

/* Connections that other workers close are noticed so late at most. */
#define POLL_MS 5
/* Where other workers wait for connections, too, every so many of ours goes to them. */
#define TURNS_OF_OURS 4

/* What a request wants; on its fiber's stack. */
struct link_wish {
    struct upstream_pick *pick;
    const struct link_options *options;
    struct link_kind kind;
    uint64_t deadline_ms;
};

/* A request that waits for a connection to its peer; on its fiber's stack. */
struct link_waiter {
    struct list link; /* in peer_local.waiters */
    struct wait_point wake;
};

#define USE_ADD(member, n)                                                                         \
    atomic_store_explicit(&(member), atomic_load_explicit(&(member), memory_order_relaxed) + (n),  \
                          memory_order_relaxed)

/* ---- life ---- */

static struct list free_links = {&free_links, &free_links}; /* by in_pool; last in, first out */

static struct upstream_link *link_new(const struct link_wish *wish, struct conn *conn)
{
    struct upstream_pick *pick = wish->pick;
    struct list *free_one = list_pop_front(&free_links);
    struct upstream_link *link;

    if (free_one != NULL) {
        link = container_of(free_one, struct upstream_link, in_pool);
    } else {
        link = malloc(sizeof(*link));
        if (link == NULL) {
            fatal_no_memory(sizeof(*link));
        }
    }
    *link = (struct upstream_link){
        .magic = LINK_MAGIC,
        .conn = conn,
        .group = pick->group,
        .cell = pick->peer->cell,
        .local = pick->peer->local,
        .addr = pick->peer->addr,
        .kind = wish->kind,
        .is_doomed = wish->options->is_alone,
        .opened_ms = clock_now.now_ms,
        .keeps_ms = UINT64_MAX,
        .users_max = 1,
    };
    link->kind.key = pool_key_dup(wish->kind.key);
    list_init(&link->in_pool);
    list_init(&link->in_tie);
    conn->owner = &link_owner;
    conn->user = link;
    pick->group->worker_state->users++;
    return link;
}

/* One more connection may be open, or is idle: who waits first looks again. */
static void wake_waiter(struct peer_local *local)
{
    if (!list_is_empty(&local->waiters)) {
        wait_signal_later(&container_of(local->waiters.next, struct link_waiter, link)->wake);
    }
}

void link_destroy(struct upstream_link *link)
{
    struct peer_local *local = link->local;
    struct peer_cell *cell = link->cell;

    if (link->state_free != NULL) {
        link->state_free(link);
    }
    tie_forget(link);
    if (link->is_quiet && link->conn->is_tcp && conn_unsent(link->conn) == 0) {
        conn_reset(link->conn);
    } else {
        conn_close(link->conn);
    }
    USE_ADD(peer_use_mine(cell)->open, -1u);
    link->group->worker_state->users--;
    wake_waiter(local);
    cell_let_go(cell, local);
    free((char *) link->kind.key.data);
    link->magic = 0;
    link->conn = NULL;
    list_push_front(&free_links, &link->in_pool);
}

/* ---- the owner of a connection that carries one request at a time ---- */

static void wake_owner(struct conn *conn)
{
    struct upstream_link *link = conn->user;

    wait_signal(&link->wake);
}

const struct conn_owner link_owner = {.input = wake_owner, .drained = wake_owner};

/* ---- opening ---- */

/* Of one with an address of ours, or TLS. As good as equal: two have the same number by accident once in 2^64. */
static uint64_t identity_of(const struct link_options *options)
{
    const struct addr *local = options->local;
    const struct link_tls *tls = options->tls;

    const uint64_t words[] = {
        local == NULL ? 0 : keyed_hash((struct str){(const char *) &local->any, local->len}),
        local != NULL && options->is_transparent,
        tls == NULL ? 0 : tls->options.identity,
        tls == NULL || tls->preface.len == 0 ? 0 : keyed_hash(tls->preface),
    };

    return keyed_hash((struct str){(const char *) words, sizeof(words)}) | 1;
}

/* One of the connections in use that has room for another request. */
static struct upstream_link *find_shared(const struct peer_local *local,
                                         const struct link_kind *kind)
{
    if (atomic_load_explicit(&local->cell->multiplexes, memory_order_relaxed) == 0) {
        return NULL;
    }
    list_each(item, &local->busy) {
        struct upstream_link *link = container_of(item, struct upstream_link, in_pool);

        if (link->users < link->users_max && link->tie == NULL && !link->is_taken &&
            !link->conn->is_input_paused && link_kind_is(&link->kind, kind) && !link->is_doomed &&
            !link->conn->is_broken && !link->conn->is_peer_closed &&
            (int64_t) link->requests < link->group->keepalive_requests) {
            return link;
        }
    }
    return NULL;
}

/* One that is open already, or NULL. */
static struct upstream_link *reuse(const struct link_wish *wish)
{
    const struct link_options *options = wish->options;
    struct peer_local *local = wish->pick->peer->local;
    struct upstream_link *link = NULL;

    if (options->wants_fresh) {
        pool_drop(wish->pick->group, local, &wish->kind);
    }
    if (options->wants_fresh || options->is_alone) {
        return NULL;
    }
    if (__builtin_expect(options->tie != NULL, 0)) {
        link = tie_take(options->tie, local, &wish->kind);
    }
    if (link == NULL) {
        link = pool_take(wish->pick->group, local, &wish->kind, options);
    }
    if (link == NULL && !options->is_private) {
        link = find_shared(local, &wish->kind);
    }
    if (link != NULL) {
        link->is_reused = true;
    }
    return link;
}

/*
 * Counts one more connection as ours, if the peer allows it; an idle one of ours gives way. Counted
 * first and looked at then, so that workers that do this at one time go below the limit rather than
 * above. False: nothing was counted.
 */
static bool reserve(const struct link_wish *wish)
{
    const struct peer_local *local = wish->pick->peer->local;
    struct peer_use *mine = peer_use_mine(local->cell);
    unsigned open_max = local->open_max;

    if (open_max == 0) {
        USE_ADD(mine->open, 1);
        return true;
    }
    do {
        atomic_fetch_add(&mine->open, 1);
        if (peer_open(local->cell) <= open_max) {
            return true;
        }
        atomic_fetch_sub(&mine->open, 1);
    } while (pool_close_one(wish->pick->group, local));
    return false;
}

/* A fresh one; it was reserved. */
static enum link_result open_fresh(const struct link_wish *wish, struct upstream_link **out,
                                   int *error)
{
    struct upstream_pick *pick = wish->pick;
    struct conn *conn;
    enum link_result result = link_connect(pick, wish->options, wish->deadline_ms, &conn, error);

    if (result != LINK_OK) {
        USE_ADD(peer_use_mine(pick->peer->cell)->open, -1u);
        wake_waiter(pick->peer->local);
        return result;
    }
    *out = link_new(wish, conn);
    return LINK_OK;
}

/* Until it is our turn, and a connection is free or was reserved. *out stays NULL in the latter case. */
static enum link_result wait_for_turn(const struct link_wish *wish, struct link_waiter *self,
                                      struct upstream_link **out)
{
    const struct peer_local *local = wish->pick->peer->local;
    uint64_t deadline_ms = wish->deadline_ms;

    for (;;) {
        bool is_first = local->waiters.next == &self->link;
        uint64_t poll_ms = clock_now.now_ms + POLL_MS;

        if (is_first) {
            *out = reuse(wish);
            if (*out != NULL || reserve(wish)) {
                return LINK_OK;
            }
        }
        if (clock_now.now_ms >= deadline_ms) {
            return LINK_TIMED_OUT;
        }
        if (fiber_wait(&self->wake, is_first && poll_ms < deadline_ms ? poll_ms : deadline_ms) ==
            WAIT_CANCELLED) {
            return LINK_CANCELLED;
        }
    }
}

/* As many connections are open as the peer allows: in the order of coming. */
static enum link_result open_in_turn(const struct link_wish *wish, struct upstream_link **out,
                                     int *error)
{
    struct peer_local *local = wish->pick->peer->local;
    struct peer_use *mine = peer_use_mine(local->cell);
    struct link_waiter self = {.wake = {0}};

    list_push_back(&local->waiters, &self.link);
    USE_ADD(mine->waiting, 1);
    enum link_result result = wait_for_turn(wish, &self, out);
    USE_ADD(mine->waiting, -1u);
    list_remove(&self.link);
    if (result == LINK_OK && *out == NULL) {
        return open_fresh(wish, out, error);
    }
    wake_waiter(local);
    if (result == LINK_TIMED_OUT) {
        *error = ETIMEDOUT;
        if (!wish->options->tells_timeout) {
            log_error(wish->pick->log, ETIMEDOUT, "upstream timed out");
        }
    }
    return result;
}

enum link_result link_open(struct upstream_pick *pick, const struct link_options *options,
                           uint64_t connect_timeout_ms, struct upstream_link **out, int *error)
{
    struct peer_local *local = pick->peer->local;
    struct link_wish wish = {.pick = pick,
                             .options = options,
                             .kind = {.tag = options->tag, .language = options->language},
                             .deadline_ms = clock_now.now_ms + connect_timeout_ms};

    if (options->local != NULL || options->tls != NULL) {
        wish.kind.identity = identity_of(options);
    }
    if (__builtin_expect(options->hops != 0, 0) && own_may_be(&pick->peer->addr)) {
        wish.kind.hops = options->hops;
    }
    if (pick->group->slices != NULL) {
        wish.kind.key = pool_key(pick);
    }
    *out = NULL;
    *error = 0;
    local->open_max = options->open_max;
    enum link_result result = LINK_OK;
    if (__builtin_expect(list_is_empty(&local->waiters), 1)) {
        *out = reuse(&wish);
    }
    if (*out == NULL) {
        result = list_is_empty(&local->waiters) && reserve(&wish) ? open_fresh(&wish, out, error)
                                                                  : open_in_turn(&wish, out, error);
    }
    struct upstream_link *link = *out;
    if (link != NULL) {
        if (link->users++ == 0) {
            list_push_front(&local->busy, &link->in_pool);
            link->wake.is_signalled = false;
        }
        link->requests++;
    }
    return result;
}

/* ---- letting go ---- */

void link_note_end(const struct upstream_pick *pick)
{
    pool_note_end(pick->peer->local, 0);
}

/* Somebody in another worker waits for one of the connections that the peer allows. */
static bool others_wait(struct peer_local *local)
{
    struct peer_cell *cell = local->cell;

    if (peer_open(cell) < local->open_max) {
        return false;
    }
    uint32_t ours = atomic_load_explicit(&peer_use_mine(cell)->waiting, memory_order_relaxed);
    if (peer_waiting(cell) == ours) {
        return false;
    }
    if (ours == 0 || ++local->turns >= TURNS_OF_OURS) {
        local->turns = 0;
        return true;
    }
    return false;
}

void link_keep(struct upstream_link *link)
{
    struct peer_local *local = link->local;

    CHECK_MAGIC(link, LINK_MAGIC);
    if (--link->users != 0) {
        wake_waiter(local);
        return;
    }
    list_remove(&link->in_pool);
    if (link->is_doomed || local->holds == 0 || (local->open_max != 0 && others_wait(local)) ||
        !(link->tie != NULL ? tie_keep(link) : pool_keep(link))) {
        link_destroy(link);
        return;
    }
    wake_waiter(local);
}

void link_close(struct upstream_link *link)
{
    CHECK_MAGIC(link, LINK_MAGIC);
    link->is_doomed = true;
    if (--link->users == 0) {
        list_remove(&link->in_pool);
        link_destroy(link);
    }
}
