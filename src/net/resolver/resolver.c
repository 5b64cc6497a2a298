/* The interface of the DNS resolver: names in, addresses out. */
#include "net/resolver/resolver.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/fatal.h"
#include "net/resolver/private.h"

enum {
    ITEMS_MAX = 1024, /* addresses of one service, of all its targets together */
    AGAIN_MS = 1000,  /* least time until a name is resolved again */
};

static struct list resolvers = {&resolvers, &resolvers}; /* of this worker */

/* ---- the resolvers of this worker ---- */

static bool says_the_same(const struct resolver *resolver, const struct resolver_settings *settings)
{
    if (resolver->server_count != settings->servers.count ||
        resolver->has_valid != settings->has_valid ||
        (resolver->has_valid && resolver->valid_s != settings->valid_s) ||
        resolver->uses_ipv4 != settings->uses_ipv4 || resolver->uses_ipv6 != settings->uses_ipv6) {
        return false;
    }
    for (unsigned i = 0; i < resolver->server_count; i++) {
        const struct addr *server = vec_at(&settings->servers, struct addr, i);

        if (!addr_equal(&resolver->servers[i], server) ||
            (server->any.sa_family == AF_INET6 &&
             server->v6.sin6_scope_id != resolver->servers[i].v6.sin6_scope_id)) {
            return false;
        }
    }
    return true;
}

static struct resolver *resolver_new(const struct resolver_settings *settings)
{
    size_t servers_size = settings->servers.count * sizeof(struct addr);
    struct resolver *resolver = calloc(1, sizeof(*resolver));

    if (resolver == NULL) {
        fatal_no_memory(sizeof(*resolver));
    }
    resolver->servers = malloc(servers_size);
    if (resolver->servers == NULL) {
        fatal_no_memory(servers_size);
    }
    memcpy(resolver->servers, settings->servers.items, servers_size);
    resolver->server_count = (unsigned) settings->servers.count;
    resolver->valid_s = settings->valid_s;
    resolver->has_valid = settings->has_valid;
    resolver->uses_ipv4 = settings->uses_ipv4;
    resolver->uses_ipv6 = settings->uses_ipv6;
    list_init(&resolver->recent);
    list_init(&resolver->on_wire);
    list_init(&resolver->queued);
    list_push_back(&resolvers, &resolver->node);
    return resolver;
}

static struct resolver *resolver_of(const struct resolver_settings *settings)
{
    list_each(node, &resolvers) {
        struct resolver *resolver = container_of(node, struct resolver, node);

        if (says_the_same(resolver, settings)) {
            return resolver;
        }
    }
    return resolver_new(settings);
}

static void abort_questions(struct list *questions)
{
    while (!list_is_empty(questions)) {
        question_abort(container_of(questions->next, struct question, node));
    }
}

void resolver_close_all(void)
{
    struct list *node;

    while ((node = list_pop_front(&resolvers)) != NULL) {
        struct resolver *resolver = container_of(node, struct resolver, node);

        abort_questions(&resolver->queued);
        abort_questions(&resolver->on_wire);
        resolver_entries_drop(resolver);
        free(resolver->servers);
        free(resolver);
    }
}

void resolver_stats(struct resolver_stats *out)
{
    *out = (struct resolver_stats){0};
    list_each(node, &resolvers) {
        const struct resolver *resolver = container_of(node, struct resolver, node);

        out->names += resolver->names;
        out->bytes += resolver->bytes;
        out->questions += resolver->on_wire_count + resolver->queued_count;
        out->sent += resolver->sent;
        out->evicted += resolver->evicted;
    }
}

const char *resolve_result_text(enum resolve_result result)
{
    switch (result) {
    case RESOLVE_OK:
        return "0: Success";
    case RESOLVE_NOT_FOUND:
        return "3: Host not found";
    case RESOLVE_FAILED:
        return "2: Server failure";
    case RESOLVE_REFUSED:
        return "5: Operation refused";
    case RESOLVE_UNIMPLEMENTED:
        return "4: Unimplemented";
    case RESOLVE_TIMED_OUT:
        return "110: Operation timed out";
    case RESOLVE_CANCELLED:
        return "125: Operation canceled";
    }
    return "Unknown error";
}

/* ---- waiting ---- */

static void tell_at_once(struct resolver_waiter *waiter, enum resolve_result result,
                         struct resolver_answer *answer)
{
    waiter->is_answered = true;
    waiter->result = result;
    waiter->answer = answer;
    if (answer != NULL) {
        answer->references++;
    }
}

/*
 * Starts to look up a name: answers at once from the cache, or adds the waiter to the question.
 * wait_end must follow.
 */
static void wait_begin(struct resolver_waiter *waiter, const struct dns_lookup *lookup,
                       const struct dns_name *name, uint16_t type)
{
    struct resolver *resolver = resolver_of(lookup->settings);
    struct resolver_entry *entry = resolver_find(resolver, name, type);

    *waiter = (struct resolver_waiter){0};
    list_init(&waiter->node);
    if (entry != NULL && entry->answer != NULL &&
        entry->answer->valid_until_ms > clock_now.now_ms) {
        tell_at_once(waiter, entry->answer->result, entry->answer);
        return;
    }
    if (entry == NULL) {
        entry = resolver_entry_new(resolver, name, type);
        if (entry == NULL) {
            log_error(lookup->log, 0, "too many names are being resolved");
            tell_at_once(waiter, RESOLVE_FAILED, NULL);
            return;
        }
    }
    if (entry->question == NULL) {
        question_start(resolver, entry);
    }
    question_join(entry->question, waiter, lookup->deadline_ms);
}

/* Waits for the answer. MAY WAIT. The caller copies waiter->answer, if there is one, and releases
 * it. */
static enum resolve_result wait_end(struct resolver_waiter *waiter, uint64_t deadline_ms)
{
    enum wait_result wait = WAIT_READY;

    if (!waiter->is_answered) {
        wait = fiber_wait(&waiter->answered, deadline_ms);
    }
    if (!waiter->is_answered && wait == WAIT_TIMED_OUT) {
        question_hurry(waiter->question);
    }
    if (!waiter->is_answered) {
        list_remove(&waiter->node);
        return wait == WAIT_CANCELLED ? RESOLVE_CANCELLED : RESOLVE_TIMED_OUT;
    }
    return wait == WAIT_CANCELLED ? RESOLVE_CANCELLED : waiter->result;
}

static void wait_release(struct resolver_waiter *waiter)
{
    if (waiter->answer != NULL) {
        resolver_answer_release(waiter->answer);
        waiter->answer = NULL;
    }
}

/* ---- answers for callers ---- */

static void record_address(const struct dns_record *record, uint16_t port, struct addr *out)
{
    memset(out, 0, sizeof(*out));
    if (record->type == DNS_A) {
        out->len = sizeof(out->v4);
        out->v4.sin_family = AF_INET;
        memcpy(&out->v4.sin_addr, record->address, 4);
        out->v4.sin_port = htons(port);
    } else {
        out->len = sizeof(out->v6);
        out->v6.sin6_family = AF_INET6;
        memcpy(&out->v6.sin6_addr, record->address, 16);
        out->v6.sin6_port = htons(port);
    }
}

static void shorten_valid(struct resolved *out, uint64_t valid_until_ms)
{
    uint64_t soonest_ms = clock_now.now_ms + AGAIN_MS;

    if (valid_until_ms < soonest_ms) {
        valid_until_ms = soonest_ms;
    }
    if (valid_until_ms < out->valid_until_ms) {
        out->valid_until_ms = valid_until_ms;
    }
}

/* Copies from an answer, or the lack of one, when to resolve again. */
static void take_validity(struct resolved *out, const struct resolver_waiter *waiter)
{
    shorten_valid(out, waiter->answer == NULL ? 0 : waiter->answer->valid_until_ms);
}

static void count(const struct dns_lookup *lookup, enum resolver_question question,
                  enum resolve_result result)
{
    struct resolver_counts *counts = lookup->settings->counts;

    if (counts != NULL) {
        atomic_fetch_add_explicit(&counts->requests[question], 1, memory_order_relaxed);
        atomic_fetch_add_explicit(&counts->results[result], 1, memory_order_relaxed);
    }
}

enum resolve_result resolver_addresses(const struct dns_lookup *lookup, struct resolved *out)
{
    struct resolver_waiter waiter;
    struct dns_name asked;
    struct addr literal;

    *out = (struct resolved){.valid_until_ms = UINT64_MAX};
    if (addr_parse_ip(lookup->name, &literal)) {
        out->items = arena_new(lookup->arena, struct resolved_address);
        out->items->addr = literal;
        out->count = 1;
        return RESOLVE_OK;
    }
    if (!dns_name_parse(lookup->name, &asked)) {
        return RESOLVE_NOT_FOUND;
    }
    wait_begin(&waiter, lookup, &asked, RESOLVER_ADDRESSES);
    enum resolve_result result = wait_end(&waiter, lookup->deadline_ms);
    count(lookup, RESOLVER_NAMES, result);

    take_validity(out, &waiter);
    if (result == RESOLVE_OK) {
        const struct resolver_answer *answer = waiter.answer;

        out->items = arena_array(lookup->arena, answer->count, sizeof(*out->items));
        for (; out->count < answer->count; out->count++) {
            record_address(&answer->records[out->count], 0, &out->items[out->count].addr);
        }
    }
    wait_release(&waiter);
    return result;
}

/* ---- services ---- */

/* The name to query: see resolver_services. False: it is not a valid name. */
static bool service_name(struct str service, struct str name, struct arena *arena,
                         struct dns_name *out)
{
    bool is_whole = str_starts(service, STR("_")) || str_find_char(service, '.') != NULL;
    struct str text = is_whole
                          ? arena_printf(arena, "%.*s.%.*s", STR_ARG(service), STR_ARG(name))
                          : arena_printf(arena, "_%.*s._tcp.%.*s", STR_ARG(service), STR_ARG(name));

    return dns_name_parse(text, out);
}

/* Appends the addresses of one target. */
static void add_target(const struct dns_record *service, const struct resolver_answer *addresses,
                       struct arena *arena, struct vec *items)
{
    struct str name = arena_dup(arena, service->target);

    for (unsigned i = 0; i < addresses->count && items->count < ITEMS_MAX; i++) {
        struct resolved_address *item = vec_add(items, arena, struct resolved_address);

        record_address(&addresses->records[i], service->port, &item->addr);
        item->name = name;
        item->priority = service->priority;
        item->weight = service->weight;
    }
}

/*
 * Resolves all targets in parallel. MAY WAIT. One resolved target is enough; if there is none,
 * gives the most severe failure.
 */
static enum resolve_result resolve_targets(const struct dns_lookup *lookup,
                                           const struct resolver_answer *services,
                                           struct resolved *out)
{
    struct resolver_waiter *waiters = arena_array(lookup->arena, services->count, sizeof(*waiters));
    enum resolve_result worst = RESOLVE_NOT_FOUND;
    struct vec items = {0};

    for (unsigned i = 0; i < services->count; i++) {
        struct dns_name name;

        if (dns_name_parse(services->records[i].target, &name)) {
            wait_begin(&waiters[i], lookup, &name, RESOLVER_ADDRESSES);
        } else {
            tell_at_once(&waiters[i], RESOLVE_NOT_FOUND, NULL);
        }
    }
    for (unsigned i = 0; i < services->count; i++) {
        enum resolve_result result = wait_end(&waiters[i], lookup->deadline_ms);

        take_validity(out, &waiters[i]);
        if (result == RESOLVE_OK) {
            add_target(&services->records[i], waiters[i].answer, lookup->arena, &items);
        } else if (result > worst) {
            worst = result;
        }
        wait_release(&waiters[i]);
    }
    out->items = items.items;
    out->count = (unsigned) items.count;
    return out->count == 0 || worst == RESOLVE_CANCELLED ? worst : RESOLVE_OK;
}

enum resolve_result resolver_services(const struct dns_lookup *lookup, struct str service,
                                      struct resolved *out)
{
    struct resolver_waiter waiter;
    struct dns_name asked;

    *out = (struct resolved){.valid_until_ms = UINT64_MAX};
    if (!service_name(service, lookup->name, lookup->arena, &asked)) {
        return RESOLVE_NOT_FOUND;
    }
    wait_begin(&waiter, lookup, &asked, DNS_SRV);
    enum resolve_result result = wait_end(&waiter, lookup->deadline_ms);
    count(lookup, RESOLVER_SERVICES, result);

    take_validity(out, &waiter);
    if (result == RESOLVE_OK) {
        result = resolve_targets(lookup, waiter.answer, out);
    }
    wait_release(&waiter);
    return result;
}

/* ---- names of addresses ---- */

/* RFC 1035, 3.5; RFC 3596, 2.5. False: neither IPv4 nor IPv6. */
static bool reverse_name(const struct addr *addr, struct arena *arena, struct dns_name *out)
{
    char text[sizeof("0.1.2.3.4.5.6.7.8.9.a.b.c.d.e.f.0.1.2.3.4.5.6.7.8.9.a.b.c.d.e.f.ip6.arpa")];
    static const char digits[] = "0123456789abcdef";
    char *at = text;

    if (addr->any.sa_family == AF_INET) {
        const unsigned char *bytes = (const unsigned char *) &addr->v4.sin_addr;

        return dns_name_parse(arena_printf(arena, "%u.%u.%u.%u.in-addr.arpa", bytes[3], bytes[2],
                                           bytes[1], bytes[0]),
                              out);
    }
    if (addr->any.sa_family != AF_INET6) {
        return false;
    }
    for (unsigned i = 16; i-- > 0;) {
        unsigned char byte = addr->v6.sin6_addr.s6_addr[i];

        *at++ = digits[byte & 15];
        *at++ = '.';
        *at++ = digits[byte >> 4];
        *at++ = '.';
    }
    at = STR_PUT(at, "ip6.arpa");
    return dns_name_parse(str_from(text, at), out);
}

enum resolve_result resolver_name_of(const struct dns_lookup *lookup, const struct addr *addr,
                                     struct str *out)
{
    struct resolver_waiter waiter;
    struct dns_name asked;

    if (!reverse_name(addr, lookup->arena, &asked)) {
        return RESOLVE_NOT_FOUND;
    }
    wait_begin(&waiter, lookup, &asked, DNS_PTR);
    enum resolve_result result = wait_end(&waiter, lookup->deadline_ms);
    count(lookup, RESOLVER_NAMES_OF, result);

    if (result == RESOLVE_OK) {
        *out = arena_dup(lookup->arena, waiter.answer->records[0].target);
    }
    wait_release(&waiter);
    return result;
}
