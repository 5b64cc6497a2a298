/* Names that are watched: servers with `resolve`, those whose names were not found at first, and
 * those of a discovery. */
#include <netdb.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/fatal.h"
#include "event/loop.h"
#include "upstream/discovery/discovery.h"
#include "upstream/private.h"

enum {
    LEAST_MS = 1000,       /* between two questions, whatever the answer says */
    RETRY_FIRST_MS = 5000, /* after a failure; it doubles */
    RETRY_MOST_MS = 60000, /* longest pause */
    NO_TTL_MS = 60000,     /* between two questions to getaddrinfo, which tells no TTL */
};

/* A server whose name is watched. */
struct watch {
    struct watch *next; /* of the group */
    struct upstream_group *group;
    const struct upstream_server *server;
    struct server_table *table;      /* that keeps it, or NULL */
    struct fiber *fiber;             /* that asks; NULL before and after */
    struct wait_point wake;          /* it shall ask at once */
    bool is_asking;                  /* or about to: an answer will come */
    bool is_orphan;                  /* its group is gone: the fiber frees it */
    bool waits_for_use;              /* dynamic_resolve: no request has picked from the group yet */
    bool has_no_answer;              /* since then: the first question is not over */
    unsigned failures;               /* in a row */
    uint64_t asked_ms;               /* when it asked last */
    uint64_t quiet_until_ms;         /* fail_timeout: nobody has it ask before */
    struct arena memory;             /* of addresses */
    struct known_address *addresses; /* now; each holds its cell */
    unsigned count;
    struct discovery_listener
        listener;     /* of a server of a discovery: nobody asks, an engine tells */
    uint64_t version; /* of its addresses; 0: nothing is known yet */
};

/* A request that waits for the names of its group; on its fiber's stack. */
struct resolve_waiter {
    struct list node; /* in group_state.resolving */
    struct wait_point wake;
};

/* ---- addresses ---- */

/* Does it watch the name of this server? */
static bool is_watch_of(const struct watch *watch, const struct upstream_server *server)
{
    return watch->server->index == server->index &&
           str_equal(watch->server->written, server->written) &&
           str_equal(watch->server->service, server->service);
}

static const struct watch *find_watch(const struct upstream_group *group,
                                      const struct upstream_server *server)
{
    const struct watch *watch = group->worker_state->watches;

    while (watch != NULL && !is_watch_of(watch, server)) {
        watch = watch->next;
    }
    return watch;
}

const struct known_address *watch_addresses(const struct upstream_group *group,
                                            const struct upstream_server *server, unsigned *count)
{
    const struct watch *watch = find_watch(group, server);

    *count = watch == NULL ? 0 : watch->count;
    return watch == NULL ? NULL : watch->addresses;
}

static void release_all(const struct watch *watch, struct known_address *addresses, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        cell_release(addresses[i].cell, cell_local(watch->group, addresses[i].cell));
    }
}

/* Replaces the addresses by these, which are in `memory`; cells are taken for them. */
static void set_addresses(struct watch *watch, struct arena memory, struct vec *found)
{
    struct arena old_memory = watch->memory;
    struct known_address *old = watch->addresses;
    unsigned old_count = watch->count;

    vec_each(struct known_address, address, found) {
        cell_claim(watch->group, watch->server, address);
    }
    watch->memory = memory;
    watch->addresses = found->items;
    watch->count = (unsigned) found->count;
    release_all(watch, old, old_count);
    arena_free(&old_memory);
}

bool watch_has_failed(const struct upstream_group *group, const struct upstream_server *server)
{
    const struct watch *watch = find_watch(group, server);

    return watch != NULL && watch->failures != 0;
}

static bool peers_watch_is_same(const struct known_address *a, const struct known_address *b)
{
    return addr_equal(&a->addr, &b->addr) && a->priority == b->priority && a->weight == b->weight &&
           str_equal(a->target, b->target);
}

static unsigned count_same(const struct known_address *addresses, size_t count,
                           const struct known_address *wanted)
{
    unsigned found = 0;

    for (size_t i = 0; i < count; i++) {
        found += peers_watch_is_same(&addresses[i], wanted);
    }
    return found;
}

/* Appends an address; one that is there is another peer, as with nginx. */
static void add_address(struct vec *list, struct arena *arena, struct known_address address)
{
    address.nth = 0;
    vec_each(struct known_address, earlier, list) {
        address.nth += addr_equal(&earlier->addr, &address.addr);
    }
    *vec_add(list, arena, struct known_address) = address;
}

/* The answer as addresses of this server. */
static struct vec read_answer(const struct watch *watch, const struct resolved *found,
                              struct arena *arena)
{
    struct vec list = {0};

    for (unsigned i = 0; i < found->count; i++) {
        const struct resolved_address *item = &found->items[i];
        struct known_address address = {.addr = item->addr,
                                        .priority = item->priority,
                                        .weight = item->weight,
                                        .target = arena_dup(arena, item->name)};

        if (watch->server->service.len == 0 && watch->server->discovered == NULL) {
            address.priority = address.weight = 0;
            addr_set_port(&address.addr, watch->server->port);
        }
        add_address(&list, arena, address);
    }
    return list;
}

/* The order in which they come means nothing: name servers turn it round. */
static bool is_changed(const struct watch *watch, const struct vec *list)
{
    if (list->count != watch->count) {
        return true;
    }
    for (unsigned i = 0; i < watch->count; i++) {
        const struct known_address *address = &watch->addresses[i];

        if (count_same(list->items, list->count, address) !=
            count_same(watch->addresses, watch->count, address)) {
            return true;
        }
    }
    return false;
}

static void take_answer(struct watch *watch, const struct resolved *found)
{
    struct arena memory;

    arena_init(&memory);
    struct vec list = read_answer(watch, found, &memory);
    if (!is_changed(watch, &list)) {
        arena_free(&memory);
        return;
    }
    set_addresses(watch, memory, &list);
    cells_remember(watch->group, watch->server, watch->addresses, watch->count);
    peers_renew(watch->group);
}

void watch_answer(struct upstream_group *group, const struct resolved *found)
{
    take_answer(group->worker_state->watches, found);
}

/* There is an answer, or there will be none: who waits for it looks again. */
static void tell_waiters(struct watch *watch)
{
    watch->is_asking = watch->has_no_answer = false;
    if (watch->is_orphan) {
        return;
    }
    list_each(item, &watch->group->worker_state->resolving) {
        wait_signal_later(&container_of(item, struct resolve_waiter, node)->wake);
    }
}

/* ---- servers of a discovery ---- */

static bool is_discovered(const struct watch *watch)
{
    return watch->server->discovered != NULL;
}

/* Its addresses have changed. */
static void discovery_changed(struct discovery_listener *listener)
{
    struct watch *watch = container_of(listener, struct watch, listener);
    struct resolved found;
    struct arena arena;

    arena_init(&arena);
    watch->version = discovery_read(watch->server->discovered, &arena, &found);
    take_answer(watch, &found);
    arena_free(&arena);
    tell_waiters(watch);
}

static struct vec discovered_addresses(struct watch *watch, struct arena *arena)
{
    struct resolved found;

    watch->version = discovery_read(watch->server->discovered, arena, &found);
    return read_answer(watch, &found, arena);
}

/* ---- a watch ---- */

/* What was found when the configuration was read. */
static struct vec start_addresses(const struct upstream_server *server, struct arena *arena)
{
    struct vec found = {0};

    for (size_t i = 0; i < server->addresses.count; i++) {
        add_address(&found, arena, (struct known_address){.addr = server->addresses.items[i]});
    }
    return found;
}

/* The first addresses are those that the name had when it was resolved last, in this generation or
 * the one before; else those of the start, and with dynamic_resolve the first request has the name
 * resolved. Health checks want the addresses before that: they would count as down for the first
 * requests. */
static struct watch *watch_new(struct upstream_group *group, const struct upstream_server *server)
{
    struct watch *watch = calloc(1, sizeof(*watch));
    struct arena memory;

    if (watch == NULL) {
        fatal_no_memory(sizeof(*watch));
    }
    watch->group = group;
    watch->server = server;
    watch->table = group->worker_state->table;
    server_table_pin(watch->table);
    arena_init(&watch->memory);
    arena_init(&memory);
    struct vec known = {0};
    list_init(&watch->listener.node);
    if (is_discovered(watch)) {
        watch->listener.changed = discovery_changed;
        discovery_listen(server->discovered, &watch->listener);
        known = discovered_addresses(watch, &memory);
        set_addresses(watch, memory, &known);
        cells_remember(group, server, watch->addresses, watch->count);
        return watch;
    }
    cells_recall(group, server, &memory, &known);
    if (known.count == 0) {
        watch->waits_for_use = group->fallback != FALLBACK_NONE && group->health == NULL;
        watch->has_no_answer = watch->waits_for_use;
        group->worker_state->has_unused_names |= watch->waits_for_use;
        known = start_addresses(server, &memory);
    }
    set_addresses(watch, memory, &known);
    return watch;
}

static void watch_free_memory(struct watch *watch)
{
    server_table_unpin(watch->table);
    free(watch);
}

/* A fiber that has not ended yet frees the rest. */
static void watch_drop(struct watch *watch)
{
    list_remove(&watch->listener.node);
    release_all(watch, watch->addresses, watch->count);
    arena_free(&watch->memory);
    if (watch->fiber != NULL) {
        watch->is_orphan = true;
        fiber_cancel(watch->fiber);
    } else {
        watch_free_memory(watch);
    }
}

void watch_prepare(struct upstream_group *group)
{
    struct watch **end = &group->worker_state->watches;

    vec_each(struct upstream_server *, server, &group->servers) {
        if ((*server)->resolves) {
            *end = watch_new(group, *server);
            end = &(*end)->next;
        }
    }
}

/* Takes the watch of this server off the list; NULL: there is none. */
static struct watch *take_watch(struct watch **list, const struct upstream_server *server)
{
    while (*list != NULL && !is_watch_of(*list, server)) {
        list = &(*list)->next;
    }
    struct watch *found = *list;
    if (found != NULL) {
        *list = found->next;
        found->next = NULL;
    }
    return found;
}

void watch_renew(struct upstream_group *group)
{
    struct group_state *state = group->worker_state;
    struct watch *former = state->watches;
    struct watch *kept = NULL;
    struct watch **end = &kept;

    state->watches = NULL;
    vec_each(struct upstream_server *, server, &group->servers) {
        struct watch *watch = (*server)->resolves ? take_watch(&former, *server) : NULL;

        if (watch != NULL) {
            *end = watch;
            end = &watch->next;
        }
    }
    while (former !=
           NULL) { /* before there are new ones: a server that changed its name has its number */
        struct watch *next = former->next;

        cells_forget(group, former->addresses, former->count);
        watch_drop(former);
        former = next;
    }
    end = &state->watches;
    vec_each(struct upstream_server *, server, &group->servers) {
        if (!(*server)->resolves) {
            continue;
        }
        struct watch *watch = take_watch(&kept, *server);
        if (watch != NULL && !watch->is_asking) {
            server_table_pin(state->table);
            server_table_unpin(watch->table);
            watch->table = state->table;
            watch->server = *server;
        }
        *end = watch != NULL ? watch : watch_new(group, *server);
        end = &(*end)->next;
    }
    if (group->set->is_running && !group->set->is_quitting && !watch_start(group)) {
        log_error(&group->set->log, 0, "no memory to watch the names of upstream \"%.*s\"",
                  STR_ARG(group->name));
    }
}

void watch_free(struct group_state *state)
{
    struct watch *watch = state->watches;

    state->watches = NULL;
    while (watch != NULL) {
        struct watch *next = watch->next;

        watch_drop(watch);
        watch = next;
    }
}

/* ---- asking without a resolver: getaddrinfo on a thread ---- */

/* Lives until the thread is done with it, even if no fiber waits any more. */
struct lookup {
    struct list node; /* in lookups */
    struct thread_job job;
    struct wait_point done;
    bool is_abandoned; /* nobody waits any more */
    struct addrinfo *found;
    int error; /* of getaddrinfo */
    char host[];
};

/* All there are: those that a thread has not finished when the worker ends are not lost sight of.
 */
static struct list lookups = {&lookups, &lookups};

static void lookup_free(struct lookup *lookup)
{
    list_remove(&lookup->node);
    if (lookup->found != NULL) {
        freeaddrinfo(lookup->found);
    }
    free(lookup);
}

static void lookup_work(struct thread_job *job)
{
    struct lookup *lookup = container_of(job, struct lookup, job);
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_ADDRCONFIG};

    lookup->error = getaddrinfo(lookup->host, NULL, &hints, &lookup->found);
}

static void lookup_done(struct thread_job *job)
{
    struct lookup *lookup = container_of(job, struct lookup, job);

    if (lookup->is_abandoned) {
        lookup_free(lookup);
    } else {
        wait_signal(&lookup->done);
    }
}

static enum resolve_result lookup_result(int error)
{
    switch (error) {
    case 0:
        return RESOLVE_OK;
    case EAI_NONAME:
#ifdef EAI_NODATA
    case EAI_NODATA:
#endif
        return RESOLVE_NOT_FOUND;
    default:
        return RESOLVE_FAILED;
    }
}

static void lookup_read(const struct lookup *lookup, struct arena *arena, struct resolved *out)
{
    struct vec items = {0};

    for (const struct addrinfo *info = lookup->found; info != NULL; info = info->ai_next) {
        if (info->ai_family == AF_INET || info->ai_family == AF_INET6) {
            struct resolved_address *item = vec_add(&items, arena, struct resolved_address);

            item->addr.len = info->ai_addrlen;
            memcpy(&item->addr.any, info->ai_addr, info->ai_addrlen);
        }
    }
    out->items = items.items;
    out->count = (unsigned) items.count;
    out->valid_until_ms = clock_now.now_ms + NO_TTL_MS;
}

static enum resolve_result look_up(struct str host, uint64_t deadline_ms, struct arena *arena,
                                   struct resolved *out)
{
    struct thread_pool *pool = worker_thread_pool(STR("default"));
    struct lookup *lookup = calloc(1, sizeof(*lookup) + host.len + 1);

    if (lookup == NULL) {
        fatal_no_memory(sizeof(*lookup) + host.len + 1);
    }
    list_push_back(&lookups, &lookup->node);
    lookup->job.work = lookup_work;
    lookup->job.done = lookup_done;
    memcpy(lookup->host, host.data, host.len);
    if (pool == NULL || !thread_pool_submit(pool, &lookup->job)) {
        lookup_free(lookup);
        return RESOLVE_FAILED;
    }
    enum wait_result waited = fiber_wait(&lookup->done, deadline_ms);
    if (waited != WAIT_READY) {
        lookup->is_abandoned = true;
        return waited == WAIT_CANCELLED ? RESOLVE_CANCELLED : RESOLVE_TIMED_OUT;
    }
    enum resolve_result result = lookup_result(lookup->error);
    if (result == RESOLVE_OK) {
        lookup_read(lookup, arena, out);
        result = out->count == 0 ? RESOLVE_NOT_FOUND : RESOLVE_OK;
    }
    lookup_free(lookup);
    return result;
}

/* ---- asking ---- */

static enum resolve_result ask_resolver(const struct watch *watch, struct arena *arena,
                                        struct resolved *out)
{
    const struct upstream_group *group = watch->group;
    const struct upstream_server *server = watch->server;
    uint64_t deadline_ms = clock_now.now_ms + group->resolver_timeout_ms;

    if (group->resolver == NULL) {
        return look_up(server->host, deadline_ms, arena, out);
    }
    const struct dns_lookup lookup = {.settings = group->resolver,
                                      .name = server->host,
                                      .deadline_ms = deadline_ms,
                                      .log = &group->set->log,
                                      .arena = arena};
    return server->service.len != 0 ? resolver_services(&lookup, server->service, out)
                                    : resolver_addresses(&lookup, out);
}

/* Logged once; when to ask again. */
static uint64_t note_failure(struct watch *watch, enum resolve_result result)
{
    const struct upstream_group *group = watch->group;
    const char *text = resolve_result_text(result);
    uint64_t delay_ms = RETRY_FIRST_MS;

    if (watch->failures++ == 0) {
        log_error(&group->set->log, 0, "%.*s could not be resolved (%s) in upstream \"%.*s\"",
                  STR_ARG(watch->server->host), text, STR_ARG(group->name));
    }
    if (group->resolve_fail_timeout_ms != 0) {
        watch->quiet_until_ms = clock_now.now_ms + group->resolve_fail_timeout_ms;
        return watch->quiet_until_ms;
    }
    for (unsigned i = 1; i < watch->failures && delay_ms < RETRY_MOST_MS; i++) {
        delay_ms *= 2;
    }
    delay_ms = delay_ms < RETRY_MOST_MS ? delay_ms : RETRY_MOST_MS;
    if (group->resolver != NULL && group->resolver_timeout_ms < delay_ms) {
        delay_ms = group->resolver_timeout_ms;
    }
    return clock_now.now_ms + (delay_ms < LEAST_MS ? LEAST_MS : delay_ms);
}

/* Does the server lose its addresses when its name fails like this? */
static bool loses_addresses(const struct upstream_group *group, enum resolve_result result)
{
    switch (group->fallback) {
    case FALLBACK_NONE:
        return result == RESOLVE_NOT_FOUND;
    case FALLBACK_NEXT:
        return result != RESOLVE_CANCELLED;
    default:
        return false;
    }
}

/* One question, and what follows from its answer; when to ask again. */
static uint64_t ask_and_take(struct watch *watch)
{
    struct resolved found = {0};
    struct arena arena;
    uint64_t again_ms;

    arena_init(&arena);
    watch->asked_ms = clock_now.now_ms;
    watch->is_asking = true;
    enum resolve_result result = ask_resolver(watch, &arena, &found);
    if (watch->is_orphan) {
        result = RESOLVE_CANCELLED;
    }
    if (result == RESOLVE_OK) {
        if (watch->failures != 0) {
            log_notice(&watch->group->set->log, 0, "%.*s is resolved again in upstream \"%.*s\"",
                       STR_ARG(watch->server->host), STR_ARG(watch->group->name));
        }
        watch->failures = 0;
        take_answer(watch, &found);
        again_ms = found.valid_until_ms;
    } else {
        again_ms = result == RESOLVE_CANCELLED ? FIBER_NEVER : note_failure(watch, result);
        if (loses_addresses(watch->group, result)) {
            take_answer(watch, &(struct resolved){0});
        }
    }
    arena_free(&arena);
    return again_ms < clock_now.now_ms + LEAST_MS ? clock_now.now_ms + LEAST_MS : again_ms;
}

static void watch_run(void *arg)
{
    struct watch *watch = arg;
    uint64_t again_ms;

    watch->fiber = fiber_self();
    while (!watch->is_orphan) {
        again_ms = ask_and_take(watch);
        tell_waiters(watch);
        if (fiber_wait(&watch->wake, again_ms) == WAIT_CANCELLED) {
            break;
        }
    }
    watch->fiber = NULL;
    if (watch->is_orphan) {
        watch_free_memory(watch);
    }
}

bool watch_start(struct upstream_group *group)
{
    for (struct watch *watch = group->worker_state->watches; watch != NULL; watch = watch->next) {
        if (watch->fiber == NULL && !watch->waits_for_use && !is_discovered(watch) &&
            fiber_start(watch_run, watch, NULL) == FIBER_NO_STACK) {
            return false;
        }
    }
    return true;
}

void watch_quit(struct upstream_group *group)
{
    if (group->worker_state == NULL) {
        return;
    }
    for (struct watch *watch = group->worker_state->watches; watch != NULL; watch = watch->next) {
        if (watch->fiber != NULL) {
            fiber_cancel(watch->fiber);
        }
    }
}

/* ---- requests that wait for names ---- */

/* Starts what waited for the first request; without a free fiber the next request tries again. */
static void start_unused(const struct upstream_group *group)
{
    for (struct watch *watch = group->worker_state->watches; watch != NULL; watch = watch->next) {
        if (watch->waits_for_use && !group->set->is_quitting) {
            watch->waits_for_use = fiber_start(watch_run, watch, NULL) == FIBER_NO_STACK;
        }
    }
}

/* Is the first answer of a name still to come? */
static bool lacks_answers(const struct group_state *state)
{
    for (const struct watch *watch = state->watches; watch != NULL; watch = watch->next) {
        if (watch->has_no_answer && watch->fiber != NULL) {
            return true;
        }
    }
    return false;
}

static bool has_unused(const struct group_state *state)
{
    for (const struct watch *watch = state->watches; watch != NULL; watch = watch->next) {
        if (watch->waits_for_use) {
            return true;
        }
    }
    return false;
}

enum wait_result watch_first_use(struct upstream_group *group)
{
    struct group_state *state = group->worker_state;
    struct resolve_waiter self = {.wake = {0}};
    uint64_t deadline_ms = clock_now.now_ms + group->resolver_timeout_ms;
    enum wait_result result = WAIT_READY;

    start_unused(group);
    list_push_back(&state->resolving, &self.node);
    while (result == WAIT_READY && lacks_answers(state)) {
        result = fiber_wait(&self.wake, deadline_ms);
    }
    list_remove(&self.node);
    state->has_unused_names = has_unused(state) || lacks_answers(state);
    return result;
}

/* Is there an answer to come? Of a discovery: the first one, unless its engine does not answer. */
static bool is_awaited(const struct watch *watch)
{
    if (is_discovered(watch)) {
        return watch->version == 0 && !discovery_is_failing(watch->server->discovered);
    }
    return watch->is_asking && watch->fiber != NULL;
}

/* Has all of them asked that did not do so just now. Is there anybody to wait for? */
static bool ask_all(const struct group_state *state)
{
    bool is_asking = false;

    for (struct watch *watch = state->watches; watch != NULL; watch = watch->next) {
        if (watch->fiber != NULL && !watch->is_asking &&
            clock_now.now_ms - watch->asked_ms >= LEAST_MS &&
            clock_now.now_ms >= watch->quiet_until_ms) {
            watch->is_asking = true;
            wait_signal_later(&watch->wake);
        }
        is_asking |= is_awaited(watch);
    }
    return is_asking;
}

static bool is_anybody_asking(const struct group_state *state)
{
    for (const struct watch *watch = state->watches; watch != NULL; watch = watch->next) {
        if (is_awaited(watch)) {
            return true;
        }
    }
    return false;
}

enum wait_result watch_wait(struct upstream_group *group)
{
    struct group_state *state = group->worker_state;
    struct resolve_waiter self = {.wake = {0}};
    uint64_t deadline_ms = clock_now.now_ms + group->resolver_timeout_ms;
    enum wait_result result = WAIT_READY;

    if (!ask_all(state)) {
        return WAIT_READY;
    }
    list_push_back(&state->resolving, &self.node);
    while (result == WAIT_READY && group->peers->count == 0 && is_anybody_asking(state)) {
        result = fiber_wait(&self.wake, deadline_ms);
    }
    list_remove(&self.node);
    return result;
}
