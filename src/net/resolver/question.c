/* Questions under way: queueing, rounds, and combining the results. */
#include <stdlib.h>

#include "base/checksum.h"
#include "base/clock.h"
#include "base/fatal.h"
#include "net/resolver/private.h"

enum {
    ROUND_MS = 1000,      /* timeout of a server in the first rounds */
    ROUND_MOST_MS = 5000, /* longest timeout */
    ROUND_LEAST_MS = 20,  /* shortest timeout, when little time is left */
    RCODE_UNIMPLEMENTED = 4,
    RCODE_REFUSED = 5,
    ROUNDS_EACH = 2, /* each server is asked so often before a question may be abandoned */
};

/* ---- the end ---- */

static struct question *question_at(struct list *node)
{
    return container_of(node, struct question, node);
}

/* Removes it from its list and frees all that it holds. */
static void question_free(struct question *question)
{
    struct resolver *resolver = question->resolver;

    question_close(question);
    timer_remove(&question->timer);
    list_remove(&question->node);
    if (question->is_on_wire) {
        resolver->on_wire_count--;
    } else {
        resolver->queued_count--;
    }
    arena_free(&question->arena);
    free(question);
}

static void tell_waiters(struct question *question, enum resolve_result result,
                         struct resolver_answer *answer)
{
    struct list *node;

    while ((node = list_pop_front(&question->waiters)) != NULL) {
        struct resolver_waiter *waiter = container_of(node, struct resolver_waiter, node);

        waiter->question = NULL;
        waiter->is_answered = true;
        waiter->result = result;
        waiter->answer = answer;
        if (answer != NULL) {
            answer->references++;
        }
        wait_signal_later(&waiter->answered);
    }
}

static bool has_records(const struct question *question)
{
    for (unsigned i = 0; i < question->query_count; i++) {
        if (question->queries[i].records.count != 0) {
            return true;
        }
    }
    return false;
}

/* The result for a query that failed. */
static enum resolve_result failure_of(const struct query *query)
{
    if (query->verdict != DNS_REFUSAL) {
        return RESOLVE_FAILED;
    }
    return query->rcode == RCODE_REFUSED         ? RESOLVE_REFUSED
           : query->rcode == RCODE_UNIMPLEMENTED ? RESOLVE_UNIMPLEMENTED
                                                 : RESOLVE_FAILED;
}

/* Combines the results of the queries. *is_half: at least one query failed or is still open. */
static enum resolve_result combined_result(const struct question *question, bool *is_half)
{
    bool is_missing = false;
    enum resolve_result failure = RESOLVE_OK;

    *is_half = false;
    for (unsigned i = 0; i < question->query_count; i++) {
        const struct query *query = &question->queries[i];

        if (query->is_open) {
            *is_half = true;
        } else if (query->verdict == DNS_NO_NAME) {
            is_missing = true;
        } else if (query->verdict != DNS_FOUND && query->verdict != DNS_NO_DATA) {
            *is_half = true;
            failure = failure_of(query);
        }
    }
    if (has_records(question)) {
        return RESOLVE_OK;
    }
    if (is_missing || !*is_half) {
        return RESOLVE_NOT_FOUND;
    }
    return failure != RESOLVE_OK ? failure : RESOLVE_TIMED_OUT;
}

/* How long an answer is cached. */
static uint64_t time_to_live_ms(const struct question *question, enum resolve_result result,
                                bool is_half)
{
    uint64_t live_ms = UINT64_MAX;

    if (question->resolver->has_valid) {
        uint64_t valid_s = question->resolver->valid_s;

        live_ms = (valid_s < UINT32_MAX ? valid_s : UINT32_MAX) * 1000;
    } else {
        for (unsigned i = 0; i < question->query_count; i++) {
            const struct query *query = &question->queries[i];
            bool counts = result != RESOLVE_OK || query->records.count != 0;

            if (counts && query->has_ttl && query->ttl_s * (uint64_t) 1000 < live_ms) {
                live_ms = query->ttl_s * (uint64_t) 1000;
            }
        }
    }
    bool is_doubtful = is_half || result != RESOLVE_OK;

    return is_doubtful && live_ms > RESOLVER_NEGATIVE_MS ? RESOLVER_NEGATIVE_MS : live_ms;
}

/* The addresses of an alias's target were queried by its own name: caches them under that name as
 * well. */
static void learn_target(const struct question *question, struct resolver_answer *answer)
{
    struct resolver *resolver = question->resolver;
    const struct dns_name *name = &question->queries[0].name;

    for (unsigned i = 0; i < question->query_count; i++) {
        const struct query *query = &question->queries[i];

        if (!query->is_followed || !query->is_of_name || !dns_name_equal(&query->name, name)) {
            return;
        }
    }
    struct resolver_entry *entry = resolver_find(resolver, name, RESOLVER_ADDRESSES);
    if (entry == NULL) {
        entry = resolver_entry_new(resolver, name, RESOLVER_ADDRESSES);
    }
    if (entry != NULL && entry->question == NULL) {
        resolver_entry_learn(resolver, entry, answer);
    }
}

static void start_queued(struct resolver *resolver);

/* Caches the result, wakes all waiters with it, and frees the question. */
static void question_finish(struct question *question)
{
    struct resolver *resolver = question->resolver;
    struct resolver_entry *entry = question->entry;
    struct resolver_answer *answer = NULL;
    bool is_half;
    enum resolve_result result = combined_result(question, &is_half);

    entry->question = NULL;
    if (result == RESOLVE_OK || result == RESOLVE_NOT_FOUND) {
        struct vec lists[2] = {question->queries[0].records, question->queries[1].records};
        uint64_t until_ms = clock_now.now_ms + time_to_live_ms(question, result, is_half);

        answer = resolver_answer_new(result, until_ms, lists, question->query_count);
        resolver_entry_learn(resolver, entry, answer);
        if (result == RESOLVE_OK && !is_half && entry->type == RESOLVER_ADDRESSES) {
            learn_target(question, answer);
        }
    } else {
        resolver_entry_drop(resolver, entry);
    }
    tell_waiters(question, result, answer);
    if (answer != NULL) {
        resolver_answer_release(answer);
    }
    question_free(question);
    start_queued(resolver);
}

void question_abort(struct question *question)
{
    question->entry->question = NULL;
    tell_waiters(question, RESOLVE_FAILED, NULL);
    question_free(question);
}

void question_hurry(struct question *question)
{
    if (has_records(question)) {
        question_finish(question);
    }
}

bool query_done(struct query *query, enum dns_verdict verdict)
{
    struct question *question = query->question;

    query_close_tcp(query);
    query->is_open = false;
    query->verdict = verdict;
    for (unsigned i = 0; i < question->query_count; i++) {
        if (question->queries[i].is_open) {
            return false;
        }
    }
    question_finish(question);
    return true;
}

/* ---- rounds ---- */

/*
 * The timeout of this round: longer with each turn around the servers, but short enough that each
 * server is asked twice before the waiters' deadline.
 */
static uint64_t round_ms(const struct question *question)
{
    unsigned servers = question->resolver->server_count;
    unsigned wanted = servers * ROUNDS_EACH;
    unsigned turn = (question->rounds - 1) / servers;
    uint64_t wait_ms = turn < 3 ? (uint64_t) ROUND_MS << turn : ROUND_MOST_MS;

    if (question->rounds <= wanted && question->deadline_ms > clock_now.now_ms) {
        uint64_t left_ms = question->deadline_ms - clock_now.now_ms;
        uint64_t share_ms = left_ms / (wanted - question->rounds + 1);

        wait_ms = share_ms < wait_ms ? share_ms : wait_ms;
    }
    return wait_ms < ROUND_LEAST_MS ? ROUND_LEAST_MS : wait_ms;
}

/* True when no fiber waits for the answer, or one family is known and the other does not come,
 * after each server was asked twice. */
static bool is_hopeless(const struct question *question)
{
    return question->rounds >= question->resolver->server_count * ROUNDS_EACH &&
           (list_is_empty(&question->waiters) || has_records(question));
}

static void next_round(struct question *question)
{
    question->rounds++;
    timer_set(&question->timer, clock_now.now_ms + round_ms(question));
    for (unsigned i = 0; i < question->query_count; i++) {
        if (question->queries[i].is_open) {
            question->queries[i].skips = 0;
            query_send(&question->queries[i]);
        }
    }
}

static void round_is_over(struct timer *timer)
{
    struct question *question = container_of(timer, struct question, timer);

    if (is_hopeless(question)) {
        question_finish(question);
        return;
    }
    for (unsigned i = 0; i < question->query_count; i++) {
        struct query *query = &question->queries[i];

        query_close_tcp(query);
        query->server = (query->server + 1) % question->resolver->server_count;
    }
    next_round(question);
}

/* ---- the beginning ---- */

static void question_ask(struct question *question)
{
    struct resolver *resolver = question->resolver;

    for (unsigned i = 0; i < question->query_count; i++) {
        question->queries[i].server = resolver->good;
    }
    question->is_on_wire = true;
    list_push_back(&resolver->on_wire, &question->node);
    resolver->on_wire_count++;
    next_round(question);
}

/* A position on the wire is free: sends queued questions that still have waiters, and drops the
 * others. */
static void start_queued(struct resolver *resolver)
{
    while (resolver->on_wire_count < RESOLVER_AT_ONCE_MAX && !list_is_empty(&resolver->queued)) {
        struct question *question = question_at(resolver->queued.next);

        if (list_is_empty(&question->waiters)) {
            struct resolver_entry *entry = question->entry;

            question_abort(question);
            resolver_entry_drop(resolver, entry);
        } else {
            list_remove(&question->node);
            resolver->queued_count--;
            question_ask(question);
        }
    }
}

void query_draw_id(struct query *query)
{
    const struct query *queries = query->question->queries;

    do {
        query->id = (uint16_t) random_uint32();
    } while (query->question->query_count == 2 && queries[0].id == queries[1].id);
}

static void add_query(struct question *question, uint16_t type)
{
    struct query *query = &question->queries[question->query_count++];

    query->question = question;
    query->name = question->entry->name;
    query->type = type;
    query->is_open = true;
    query_draw_id(query);
}

static struct question *question_new(struct resolver *resolver, struct resolver_entry *entry)
{
    size_t size = sizeof(struct question) + resolver->server_count * sizeof(struct resolver_line);
    struct question *question = calloc(1, size);

    if (question == NULL) {
        fatal_no_memory(size);
    }
    question->resolver = resolver;
    question->entry = entry;
    list_init(&question->node);
    list_init(&question->waiters);
    timer_init(&question->timer, round_is_over);
    arena_init(&question->arena);
    for (unsigned i = 0; i < resolver->server_count; i++) {
        question->lines[i].source.fd = -1;
        question->lines[i].question = question;
        question->lines[i].server = i;
    }
    if (entry->type != RESOLVER_ADDRESSES) {
        add_query(question, entry->type);
        return question;
    }
    if (resolver->uses_ipv4) {
        add_query(question, DNS_A);
    }
    if (resolver->uses_ipv6) {
        add_query(question, DNS_AAAA);
    }
    return question;
}

void question_start(struct resolver *resolver, struct resolver_entry *entry)
{
    resolver_entry_unlearn(resolver, entry);
    entry->question = question_new(resolver, entry);
}

void question_join(struct question *question, struct resolver_waiter *waiter, uint64_t deadline_ms)
{
    struct resolver *resolver = question->resolver;

    waiter->question = question;
    list_push_back(&question->waiters, &waiter->node);
    if (deadline_ms > question->deadline_ms) {
        question->deadline_ms = deadline_ms;
    }
    if (question->rounds != 0 || !list_is_empty(&question->node)) {
        return;
    }
    if (resolver->on_wire_count < RESOLVER_AT_ONCE_MAX) {
        question_ask(question);
    } else {
        list_push_back(&resolver->queued, &question->node);
        resolver->queued_count++;
    }
}
