/* The cache of a resolver: a table of names, ordered by use, with limits. */
#include <stdlib.h>

#include "base/clock.h"
#include "base/fatal.h"
#include "net/resolver/private.h"

#define SAY_FULL_EVERY_MS 60000

/* ---- answers ---- */

/* Copies records one after another, and their strings to *text, which advances. */
static struct dns_record *copy_records(struct dns_record *to, const struct vec *list, char **text)
{
    vec_each(const struct dns_record, record, list) {
        *to = *record;
        if (record->target.len != 0) {
            memcpy(*text, record->target.data, record->target.len);
            to->target.data = *text;
            *text += record->target.len;
        }
        to++;
    }
    return to;
}

struct resolver_answer *resolver_answer_new(enum resolve_result result, uint64_t valid_until_ms,
                                            const struct vec *lists, unsigned list_count)
{
    size_t count = 0;
    size_t text_size = 0;

    for (unsigned i = 0; i < list_count; i++) {
        count += lists[i].count;
        vec_each(const struct dns_record, record, &lists[i]) {
            text_size += record->target.len;
        }
    }
    size_t size = sizeof(struct resolver_answer) + count * sizeof(struct dns_record) + text_size;
    struct resolver_answer *answer = malloc(size);

    if (answer == NULL) {
        fatal_no_memory(size);
    }
    *answer = (struct resolver_answer){.references = 1,
                                       .result = result,
                                       .valid_until_ms = valid_until_ms,
                                       .size = size,
                                       .count = (unsigned) count};
    char *text = (char *) (answer->records + count);
    struct dns_record *to = answer->records;

    for (unsigned i = 0; i < list_count; i++) {
        to = copy_records(to, &lists[i], &text);
    }
    return answer;
}

void resolver_answer_release(struct resolver_answer *answer)
{
    if (--answer->references == 0) {
        free(answer);
    }
}

/* ---- entries ---- */

static uint32_t cache_hash_of(const struct dns_name *name)
{
    return str_hash((struct str){(const char *) name->wire, name->len});
}

struct resolver_entry *resolver_find(struct resolver *resolver, const struct dns_name *name,
                                     uint16_t type)
{
    uint32_t hash = cache_hash_of(name);
    struct resolver_entry *entry = resolver->buckets[hash % RESOLVER_BUCKETS];

    while (entry != NULL &&
           !(entry->hash == hash && entry->type == type && dns_name_equal(&entry->name, name))) {
        entry = entry->next;
    }
    if (entry != NULL && entry->answer != NULL) {
        list_remove(&entry->use);
        list_push_front(&resolver->recent, &entry->use);
    }
    return entry;
}

void resolver_entry_unlearn(struct resolver *resolver, struct resolver_entry *entry)
{
    if (entry->answer != NULL) {
        list_remove(&entry->use);
        resolver->bytes -= entry->answer->size;
        resolver_answer_release(entry->answer);
        entry->answer = NULL;
    }
}

void resolver_entry_drop(struct resolver *resolver, struct resolver_entry *entry)
{
    struct resolver_entry **link = &resolver->buckets[entry->hash % RESOLVER_BUCKETS];

    resolver_entry_unlearn(resolver, entry);
    while (*link != entry) {
        link = &(*link)->next;
    }
    *link = entry->next;
    resolver->names--;
    free(entry);
}

/* The cache is too small for the load: logs a warning, at most one a minute. */
static void say_full(struct resolver *resolver)
{
    uint64_t now_ms = clock_now.now_ms;

    if (resolver->said_full_ms == 0 || now_ms - resolver->said_full_ms >= SAY_FULL_EVERY_MS) {
        resolver->said_full_ms = now_ms == 0 ? 1 : now_ms;
        log_warn(
            log_main, 0,
            "the resolver's cache is full with %zu names of %zu bytes, %llu answers were evicted before they expired",
            resolver->names, resolver->bytes, (unsigned long long) resolver->evicted);
    }
}

/* Drops the entry whose answer was unused for longest. False: no entry has an answer. */
static bool evict_one(struct resolver *resolver)
{
    if (list_is_empty(&resolver->recent)) {
        return false;
    }
    struct resolver_entry *entry = container_of(resolver->recent.prev, struct resolver_entry, use);

    if (entry->answer->valid_until_ms > clock_now.now_ms) {
        resolver->evicted++;
        say_full(resolver);
    }
    resolver_entry_drop(resolver, entry);
    return true;
}

struct resolver_entry *resolver_entry_new(struct resolver *resolver, const struct dns_name *name,
                                          uint16_t type)
{
    if (resolver->names >= RESOLVER_NAMES_MAX && !evict_one(resolver)) {
        return NULL;
    }
    struct resolver_entry *entry = calloc(1, sizeof(*entry));

    if (entry == NULL) {
        fatal_no_memory(sizeof(*entry));
    }
    list_init(&entry->use);
    entry->hash = cache_hash_of(name);
    entry->type = type;
    entry->name = *name;
    entry->next = resolver->buckets[entry->hash % RESOLVER_BUCKETS];
    resolver->buckets[entry->hash % RESOLVER_BUCKETS] = entry;
    resolver->names++;
    return entry;
}

void resolver_entry_learn(struct resolver *resolver, struct resolver_entry *entry,
                          struct resolver_answer *answer)
{
    resolver_entry_unlearn(resolver, entry);
    while (resolver->bytes + answer->size > RESOLVER_BYTES_MAX && evict_one(resolver)) {
    }
    answer->references++;
    entry->answer = answer;
    resolver->bytes += answer->size;
    list_push_front(&resolver->recent, &entry->use);
}

void resolver_entries_drop(struct resolver *resolver)
{
    for (unsigned i = 0; i < RESOLVER_BUCKETS; i++) {
        while (resolver->buckets[i] != NULL) {
            resolver_entry_drop(resolver, resolver->buckets[i]);
        }
    }
}
