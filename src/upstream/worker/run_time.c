/* Groups for addresses that are known at run time only: made when they are asked for, kept for the
 * next. */
#include <stdlib.h>

#include "base/clock.h"
#include "base/fatal.h"
#include "event/loop.h"
#include "upstream/balancer_decision.h"
#include "upstream/private.h"

enum {
    BUCKETS = 256,
    USUAL_MOST = 1024,   /* more are kept only while they are in use, or were just now */
    HARD_MOST = 8192,    /* more are kept only while they are in use */
    LATELY_MS = 600000,  /* those that were not asked for so long go */
    JUST_NOW_MS = 60000, /* the same where there are more than usual */
    EVICT_AT_A_TIME = 8, /* looked at when one is made */
    REAP_AT_A_TIME = 256,
    REAP_EVERY_MS = 10000,
    REAP_SOON_MS = 20, /* pause while there are more that may be removed */
};

/* A group and all that belongs to it. */
struct run_time_group {
    struct upstream_group group;
    struct upstream_server server;
    struct upstream_server *servers[1]; /* of group.servers */
    struct list in_bucket;
    struct list in_order; /* of use: the one that was asked for last is first */
    const struct resolver_settings *resolver;
    const struct upstream_group
        *director;           /* whose balancer led here (upstream_directed), or NULL */
    uint64_t valid_until_ms; /* of its addresses */
    uint64_t used_ms;        /* when it was asked for last */
    struct arena arena;      /* of texts */
};

static struct list buckets[BUCKETS];
static struct list in_order;
static unsigned count;
static struct timer reap_timer; /* set while there are any */
static unsigned reaped;         /* since their memory went back to the system */

static struct list *run_time_bucket_of(struct str host, uint16_t port)
{
    if (in_order.next == NULL) {
        list_init(&in_order);
        for (unsigned i = 0; i < BUCKETS; i++) {
            list_init(&buckets[i]);
        }
    }
    return &buckets[(str_hash_nocase(host) + port) % BUCKETS];
}

/* Which of them it is. */
struct run_time_key {
    struct upstream_set *set;
    struct str host;
    uint16_t port;
    const struct resolver_settings *resolver;
    const struct upstream_group *director;
};

static struct run_time_group *group_find(const struct run_time_key *key)
{
    list_each(item, run_time_bucket_of(key->host, key->port)) {
        struct run_time_group *made = container_of(item, struct run_time_group, in_bucket);

        if (made->server.port == key->port && made->resolver == key->resolver &&
            made->director == key->director && made->group.set == key->set &&
            str_equal_nocase(made->server.host, key->host)) {
            return made;
        }
    }
    return NULL;
}

/* ---- life ---- */

static void run_time_free(struct run_time_group *made)
{
    group_end(&made->group);
    if (made->group.worker_state != NULL) {
        return; /* somebody uses it still */
    }
    list_remove(&made->in_bucket);
    list_remove(&made->in_order);
    count--;
    arena_free(&made->arena);
    free(made);
}

static bool is_in_use(const struct run_time_group *made)
{
    const struct group_state *state = made->group.worker_state;
    unsigned idle = 0;

    list_each(item, &state->pools) {
        idle += container_of(item, struct idle_pool, in_group)->count;
    }
    return state->users != idle;
}

static void put_first(struct run_time_group *made)
{
    made->used_ms = clock_now.now_ms;
    list_remove(&made->in_order);
    list_push_front(&in_order, &made->in_order);
}

/* Those that nobody asks for any more go, a part of them at a time. */
static void reap(struct timer *timer)
{
    unsigned left = REAP_AT_A_TIME;

    while (left != 0 && count != 0) {
        struct run_time_group *oldest =
            container_of(in_order.prev, struct run_time_group, in_order);
        uint64_t limit_ms = count > USUAL_MOST ? JUST_NOW_MS : LATELY_MS;

        if (clock_now.now_ms - oldest->used_ms < limit_ms) {
            break;
        }
        left--;
        if (is_in_use(oldest)) {
            put_first(oldest);
        } else {
            run_time_free(oldest);
            reaped++;
        }
    }
    if (left != 0 && reaped >= REAP_AT_A_TIME) {
        arena_trim(); /* a worker without connections would not do that */
        arena_trim(); /* again for the blocks that came since the last time */
        reaped = 0;
    }
    if (count != 0) {
        timer_set(timer, clock_now.now_ms + (left == 0 ? REAP_SOON_MS : REAP_EVERY_MS));
    }
}

/* Keeps their number in bounds. */
static void evict(void)
{
    struct list *item = in_order.prev;

    for (unsigned i = 0; i < EVICT_AT_A_TIME && count >= USUAL_MOST && item != &in_order; i++) {
        struct run_time_group *made = container_of(item, struct run_time_group, in_order);

        item = item->prev;
        if (count < HARD_MOST && clock_now.now_ms - made->used_ms < JUST_NOW_MS) {
            return;
        }
        if (!is_in_use(made)) {
            run_time_free(made);
        }
    }
}

static struct run_time_group *run_time_new(const struct run_time_key *key)
{
    struct list *bucket = run_time_bucket_of(key->host, key->port);

    evict();
    struct run_time_group *made = calloc(1, sizeof(*made));
    if (made == NULL) {
        fatal_no_memory(sizeof(*made));
    }
    arena_init(&made->arena);
    struct str host = arena_dup(&made->arena, key->host);
    upstream_group_init(&made->group, key->set,
                        str_starts_nocase(host, STR("unix:"))
                            ? host
                            : arena_printf(&made->arena, "%.*s:%u", STR_ARG(host), key->port));
    upstream_server_init(&made->server, made->group.name);
    made->server.host = host;
    made->server.port = key->port;
    made->server.max_fails = 0; /* nginx forgets such peers with the request */
    made->server.resolves = true;
    made->servers[0] = &made->server;
    made->group.servers = (struct vec){made->servers, 1, 1};
    made->group.default_port = key->port;
    made->group.resolver = key->resolver;
    made->resolver = key->resolver;
    made->director = key->director;
    made->group.is_at_run_time = true;
    group_start(&made->group, made);
    list_push_front(bucket, &made->in_bucket);
    list_push_front(&in_order, &made->in_order);
    if (count++ == 0) {
        timer_init(&reap_timer, reap);
        timer_set(&reap_timer, clock_now.now_ms + REAP_EVERY_MS);
    }
    return made;
}

static struct upstream_group *touch(struct run_time_group *made)
{
    put_first(made);
    return &made->group;
}

void run_time_each(void (*visit)(struct upstream_group *group, void *arg), void *arg)
{
    if (in_order.next == NULL) {
        return;
    }
    list_each(item, &in_order) {
        visit(&container_of(item, struct run_time_group, in_order)->group, arg);
    }
}

void run_time_end(const struct upstream_set *set)
{
    if (in_order.next == NULL) {
        return;
    }
    list_each(item, &in_order) {
        struct run_time_group *made = container_of(item, struct run_time_group, in_order);

        if (made->group.set == set) {
            run_time_free(made);
        }
    }
    if (count == 0 && reap_timer.fire != NULL) {
        timer_remove(&reap_timer);
    }
}

/* ---- asking for one ---- */

/* An address in place of a name. */
static bool read_address(struct str host, struct arena *arena, struct addr *out)
{
    struct addr_list list;

    if (!str_starts_nocase(host, STR("unix:"))) {
        return addr_parse_ip(host, out);
    }
    if (!addr_parse(arena, host, 0, false, &list)) {
        return false;
    }
    *out = list.items[0];
    return true;
}

/* What the name or address stands for. MAY WAIT. */
static enum resolve_result find_addresses(const struct dns_lookup *lookup, struct resolved *out,
                                          const char **reason)
{
    struct resolved_address *item = arena_new(lookup->arena, struct resolved_address);

    if (read_address(lookup->name, lookup->arena, &item->addr)) {
        *out = (struct resolved){.items = item, .count = 1, .valid_until_ms = UINT64_MAX};
        return RESOLVE_OK;
    }
    if (str_starts_nocase(lookup->name, STR("unix:"))) {
        *reason = "invalid path of a unix domain socket";
        return RESOLVE_FAILED;
    }
    if (lookup->settings == NULL) {
        *reason = "no resolver defined";
        return RESOLVE_FAILED;
    }
    enum resolve_result result = resolver_addresses(lookup, out);
    if (result != RESOLVE_OK && result != RESOLVE_CANCELLED) {
        *reason = resolve_result_text(result);
    }
    return result;
}

struct upstream_group *upstream_at_run_time(struct upstream_set *set,
                                            const struct dns_lookup *wanted, uint16_t port,
                                            const char **reason)
{
    struct run_time_key key = {.set = set,
                               .host = wanted->name,
                               .port = port,
                               .resolver = wanted->settings};
    struct run_time_group *made = group_find(&key);
    struct dns_lookup lookup = *wanted;
    struct resolved found = {0};
    struct arena arena;

    *reason = NULL;
    if (made != NULL && clock_now.now_ms < made->valid_until_ms) {
        return touch(made);
    }
    arena_init(&arena);
    lookup.arena = &arena;
    enum resolve_result result = find_addresses(&lookup, &found, reason);
    if (result == RESOLVE_OK) {
        made = group_find(&key); /* it may have been made, or evicted, meanwhile */
        if (made == NULL) {
            made = run_time_new(&key);
        }
        made->valid_until_ms = found.valid_until_ms;
        watch_answer(&made->group, &found);
    }
    arena_free(&arena);
    return result == RESOLVE_OK ? touch(made) : NULL;
}

/* ---- where a balancer that is a program leads ---- */

/* Its connections are kept as those of the director's servers. */
static void keep_as(struct upstream_group *group, const struct upstream_group *director)
{
    group->keepalive = director->keepalive;
    group->keepalive_requests = director->keepalive_requests;
    group->keepalive_time_ms = director->keepalive_time_ms;
    group->keepalive_timeout_ms = director->keepalive_timeout_ms;
    group->is_keepalive_local = false;
    group->keeps_logins = director->keeps_logins;
    group->slices = director->slices;
}

struct upstream_group *upstream_directed(struct upstream_group *director, const struct addr *addr)
{
    char text[ADDR_TEXT_MAX];
    struct run_time_key key = {
        .set = director->set,
        .host = {text, addr_format(addr, false, text)},
        .port = addr->any.sa_family == AF_UNIX ? 0 : addr_port(addr),
        .director = director,
    };
    struct run_time_group *made = group_find(&key);

    if (made == NULL) {
        struct resolved_address item = {.addr = *addr};
        struct resolved found = {.items = &item, .count = 1, .valid_until_ms = UINT64_MAX};

        made = run_time_new(&key);
        keep_as(&made->group, director);
        made->valid_until_ms = UINT64_MAX;
        watch_answer(&made->group, &found);
    }
    return touch(made);
}
