/* Tables that several nodes share. docs/scaling-out.md describes keys and values. */
#include "store/table.h"

#include <stdio.h>

#include "base/checksum.h"
#include "base/clock.h"
#include "server/generation.h"
#include "store/table_private.h"

enum {
    EXCHANGE_MS = 500,  /* for a reply for which no request waits */
    INTERVAL_MS = 20,   /* between two exchanges, without `sync_interval` */
    SHAPE = 1,          /* version of the values */
    RENEW_MS = 3600000, /* how often a node extends the TTL of its keys */
    LOG_EVERY_MS = 60000,
};

static const char memory_tag;

/* ---- the tables of a reading ---- */

static struct store_table **tables_of(struct conf *conf)
{
    return conf_state(conf, "store tables", sizeof(struct store_table *));
}

const struct store_table *store_table_first(struct conf *conf)
{
    return *tables_of(conf);
}

const struct store_table *store_table_after(const struct store_table *table)
{
    return table->next;
}

struct str store_table_name(const struct store_table *table)
{
    return table->name;
}

const struct store *store_table_store(const struct store_table *table)
{
    return table->store;
}

uint64_t store_table_count(const struct store_table *table, enum store_table_counter counter)
{
    return atomic_load_explicit(&table->owed->counts[counter], memory_order_relaxed);
}

uint64_t store_table_waiting(const struct store_table *table)
{
    return atomic_load_explicit(&table->owed->count, memory_order_relaxed);
}

uint64_t store_table_node(const struct store_table *table)
{
    return table->owed->node;
}

bool store_table_total(const struct store_table *table, uint64_t *total)
{
    *total = table->kind->count == NULL ? 0 : table->kind->count(table->owner);
    return table->kind->count != NULL;
}

struct store_table *store_table_new(struct conf *conf, struct conf_node *node,
                                    const struct store_table_wanted *wanted)
{
    struct store_table *table = arena_new(conf->arena, struct store_table);
    struct store_table **last = tables_of(conf);

    table->kind = wanted->kind;
    table->owner = wanted->owner;
    table->name = wanted->name;
    table->node = node;
    table->interval_ms = wanted->words->interval_ms != 0 ? wanted->words->interval_ms
                         : wanted->interval_ms != 0      ? wanted->interval_ms
                                                         : INTERVAL_MS;
    table->store = store_named(conf, node, wanted->words->store);
    if (table->store == NULL) {
        return NULL;
    }
    table->memory = generation_zone(conf->generation, node,
                                    arena_printf(conf->arena, "%.*s sync", STR_ARG(wanted->name)),
                                    wanted->size, &memory_tag);
    if (table->memory == NULL) {
        return NULL;
    }
    table->owed = owed_of(table->memory);
    if (table->owed == NULL) {
        conf_error(conf, node, "zone \"%.*s\" is too small", STR_ARG(wanted->name));
        return NULL;
    }
    while (*last != NULL) {
        last = &(*last)->next;
    }
    *last = table;
    return table;
}

/* ---- for table_send.c and table_read.c ---- */

void table_count(const struct store_table *table, enum store_table_counter counter, uint64_t number)
{
    atomic_fetch_add_explicit(&table->owed->counts[counter], number, memory_order_relaxed);
}

struct str table_bound(const struct store_table *table, struct str name, struct arena *arena)
{
    return arena_concat(arena, table->items, name);
}

void table_log_item(struct store_table *table, struct str name, const char *what)
{
    if (table->logged_ms == 0 || clock_now.now_ms - table->logged_ms > LOG_EVERY_MS) {
        table->logged_ms = clock_now.now_ms;
        log_error(log_main, 0, "zone \"%.*s\": the item \"%.*s\" %s", STR_ARG(table->name),
                  (int) (name.len < 64 ? name.len : 64), name.data, what);
    }
}

struct store_call table_call(const struct store_table *table, struct arena *arena)
{
    return (struct store_call){.store = table->store,
                               .arena = arena,
                               .deadline_ms = clock_now.now_ms + EXCHANGE_MS};
}

struct str table_number(struct arena *arena, int64_t number)
{
    return arena_printf(arena, "%lld", (long long) number);
}

struct str table_epoch(struct arena *arena, char why)
{
    uint64_t random;

    random_bytes(&random, sizeof(random));
    return arena_printf(arena, "%c:%016llx", why, (unsigned long long) random);
}

enum store_result table_run(const struct store_table *table, const struct store_call *call,
                            struct store_script *script, const struct store_words *args,
                            struct str *reply)
{
    const struct str keys[] = {table->items, table->expiry, table->changes, table->fence};

    return store_run(call, script, &(const struct store_words){keys, 4}, args, reply);
}

bool table_next_cursor(struct str *reply, struct store_cursor *cursor)
{
    struct str text;

    if (!resp_next_string(reply, &text) || text.len == 0 || text.len >= sizeof(cursor->text)) {
        return false;
    }
    *str_put(cursor->text, text) = '\0';
    return true;
}

/* ---- the exchange ---- */

static void renew(struct store_table *table)
{
    struct arena arena;
    struct vec none = {0};

    if (clock_now.now_ms - table->renewed_ms > RENEW_MS) {
        table->renewed_ms = clock_now.now_ms;
        arena_init(&arena);
        struct store_call call = table_call(table, &arena);
        table_send_names(table, &call, &none);
        arena_free(&arena);
    }
}

static void exchange_run(void *arg)
{
    struct store_table *table = arg;

    table->fiber = fiber_self();
    table->renewed_ms = clock_now.now_ms;
    uint64_t pause_ms = 1; /* after all modules have started */
    while (fiber_sleep(clock_now.now_ms + pause_ms) != WAIT_CANCELLED) {
        pause_ms = table->interval_ms;
        fiber_shield_begin(); /* a reload does not interrupt an exchange */
        /* Changes that were made before a name is sent are read first, so that they do not
         * overwrite it with older values later. */
        bool is_read = table->owed->is_clear || table_read(table) == STORE_OK;
        if (table->kind->exchanged != NULL) {
            table->kind->exchanged(table->owner, table, is_read);
        }
        if (is_read) {
            table_send(table, 0);
            renew(table);
        }
        fiber_shield_end();
    }
    table->fiber = NULL;
}

bool store_tables_check(struct conf *conf)
{
    bool is_good = true;

    for (const struct store_table *table = *tables_of(conf); table != NULL; table = table->next) {
        if (table->kind->is_secret && table->store->is_declared &&
            table->store->settings->password.len == 0) {
            is_good = conf_error(conf, table->node,
                                 "\"sync\" needs a \"password_file\" in redis_store \"%.*s\", by "
                                 "which keys are encrypted",
                                 STR_ARG(table->store->name));
        }
    }
    return is_good;
}

/* ---- in a worker ---- */

void store_table_note(struct store_table *table, struct str name)
{
    owed_note(table->owed, name);
}

void store_table_note_clear(struct store_table *table)
{
    owed_note_clear(table->owed);
}

void store_table_reread(struct store_table *table)
{
    owed_set_sign(table->owed, &table->owed->is_stale);
}

/* Does the store lack any of these items? */
static bool table_owes(const struct store_table *table, const struct vec *names)
{
    if (names != NULL) {
        vec_each(const struct str, name, names) {
            if (owed_has(table->owed, *name)) {
                return true;
            }
        }
    }
    return false;
}

void store_table_flush(struct store_table *table, const struct vec *names)
{
    uint64_t deadline_ms = clock_now.now_ms + table->store->settings->timeout_ms;

    if (!table->store->is_running) {
        return;
    }
    while (table_send(table, deadline_ms) == STORE_OK && table_owes(table, names) &&
           clock_now.now_ms < deadline_ms && fiber_sleep(clock_now.now_ms + 1) != WAIT_CANCELLED) {
    }
}

void store_table_fetch(struct store_table *table, struct str name)
{
    struct arena arena;

    if (!table->store->is_running || name.len == 0 || name.len > STORE_TABLE_NAME_MAX) {
        return;
    }
    arena_init(&arena);
    struct store_call call = {.store = table->store, .arena = &arena};
    table_fetch(table, &call, &name, 1);
    arena_free(&arena);
}

static struct str claim_key(const struct store_table *table, struct arena *arena, struct str name)
{
    return arena_printf(arena, "%.*s:claim:%.*s", STR_ARG(table->items), STR_ARG(name));
}

bool store_table_claim(struct store_table *table, struct str name, uint64_t ttl_ms)
{
    enum store_result result = STORE_GONE;
    struct arena arena;

    arena_init(&arena);
    if (table->store->is_running) {
        const struct store_call call = {.store = table->store, .arena = &arena};
        result =
            store_swap(&call, claim_key(table, &arena, name), NULL, str_of(table->origin), ttl_ms);
    }
    arena_free(&arena);
    return result != STORE_ABSENT;
}

void store_table_release(struct store_table *table, struct str name)
{
    struct arena arena;

    arena_init(&arena);
    if (table->store->is_running) {
        const struct store_call call = {.store = table->store, .arena = &arena};
        store_unlock(&call, claim_key(table, &arena, name), str_of(table->origin));
    }
    arena_free(&arena);
}

/* The name of this node: the same in all its processes, as long as its zone exists. */
static struct str node_text(const struct store_table *table, struct arena *arena)
{
    return arena_printf(arena, "node-%016llx", (unsigned long long) table->owed->node);
}

enum store_result store_table_lease(struct store_table *table, struct str name, uint64_t ttl_ms)
{
    enum store_result result = STORE_GONE;
    struct arena arena;

    arena_init(&arena);
    if (table->store->is_running) {
        const struct store_call call = table_call(table, &arena);
        struct str key = claim_key(table, &arena, name), node = node_text(table, &arena);

        result = store_lock_renew(&call, key, node, ttl_ms);
        if (result == STORE_ABSENT) {
            result = store_lock(&call, key, node, ttl_ms);
        }
    }
    arena_free(&arena);
    return result;
}

void store_table_lease_end(struct store_table *table, struct str name)
{
    struct arena arena;

    arena_init(&arena);
    if (table->store->is_running) {
        const struct store_call call = table_call(table, &arena);
        store_unlock(&call, claim_key(table, &arena, name), node_text(table, &arena));
    }
    arena_free(&arena);
}

static void table_prepare(struct store_table *table, struct arena *arena)
{
    struct store_key key = {.version = SHAPE, .purpose = table->kind->purpose, .zone = table->name};
    uint64_t secret[4], origin;

    table->items = store_key_text(table->store, arena, &key);
    key.item = STR("expiry");
    table->expiry = store_key_text(table->store, arena, &key);
    key.item = STR("changes");
    table->changes = store_key_text(table->store, arena, &key);
    key.item = arena_printf(arena, "fence:%016llx", (unsigned long long) table->owed->node);
    table->fence = store_key_text(table->store, arena, &key);
    store_secret(table->store, str_of(table->kind->purpose), table->name, secret);
    memcpy(table->secret, secret, sizeof(table->secret));
    random_bytes(&origin, sizeof(origin));
    snprintf(table->origin, sizeof(table->origin), "%016llx", (unsigned long long) origin);
}

void store_tables_start(struct conf *conf, bool exchanges)
{
    for (struct store_table *table = *tables_of(conf); table != NULL; table = table->next) {
        table_prepare(table, conf->arena);
        if (exchanges && table->store->is_running &&
            fiber_start(exchange_run, table, NULL) == FIBER_NO_STACK) {
            log_alert(log_main, 0, "zone \"%.*s\" is not synchronized", STR_ARG(table->name));
        }
    }
}

void store_tables_end(struct conf *conf)
{
    for (struct store_table *table = *tables_of(conf); table != NULL; table = table->next) {
        if (table->fiber != NULL) {
            fiber_cancel(table->fiber);
        }
    }
}
