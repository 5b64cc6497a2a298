/* Tables that several nodes have in common. docs/scaling-out.md describes keys and values. */
#include "store/table.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/checksum.h"
#include "base/clock.h"
#include "net/tls/seal.h"
#include "server/generation.h"
#include "store/owed.h"
#include "store/private.h"

enum {
    EXCHANGE_MS = 500,       /* for a reply for which no request waits */
    INTERVAL_MS = 20,        /* between two exchanges, where `sync_interval` is not written */
    SHAPE = 1,               /* version of the values */
    TTL_MS = 24 * 3600000,   /* of a table that no node uses any more */
    RENEW_MS = 3600000,      /* between two times that a node extends that */
    STREAM_MOST = 10000,     /* names of changed items that are kept */
    PAGE_MOST = 128,         /* items of one call */
    SEND_BYTES = 256 * 1024, /* of the values of one call, and one value more */
    PRUNED_MOST = 100,       /* expired items that one call removes */
    LOG_EVERY_MS = 60000,
    CURSOR_DIGITS = 24,
};

struct store_table {
    struct store_table *next;
    const struct store_table_kind *kind;
    void *owner;
    const struct conf_node *node;
    struct store *store;
    struct str name;
    struct zone *memory;
    struct owed *owed;
    uint64_t interval_ms;

    /* In a worker. */
    struct str items, expiry, changes; /* keys of the store: a hash, a sorted set, a stream */
    struct str fence;                  /* a key: what the last command's ARGV[2] was */
    unsigned char secret[TLS_SEAL_KEY];
    char origin[17];     /* of this process, in the stream */
    struct fiber *fiber; /* of the exchange, in one worker; NULL: it is not running */
    bool has_started;    /* all items were read by this worker */
    uint64_t renewed_ms;
    uint64_t logged_ms; /* 0: never */
};

static const char memory_tag;

/* ---- tables of a reading ---- */

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

/* ---- values ---- */

static void table_count(const struct store_table *table, enum store_table_counter counter,
                        uint64_t number)
{
    atomic_fetch_add_explicit(&table->owed->counts[counter], number, memory_order_relaxed);
}

/* What an item's value is bound to, so that nobody can put it in another's place. */
static struct str bound_of(const struct store_table *table, struct str name, struct arena *arena)
{
    return arena_concat(arena, table->items, name);
}

/* The first of a minute. */
static void log_item(struct store_table *table, struct str name, const char *what)
{
    if (table->logged_ms == 0 || clock_now.now_ms - table->logged_ms > LOG_EVERY_MS) {
        table->logged_ms = clock_now.now_ms;
        log_error(log_main, 0, "zone \"%.*s\": the item \"%.*s\" %s", STR_ARG(table->name),
                  (int) (name.len < 64 ? name.len : 64), name.data, what);
    }
}

/* An item as the store has it: its value encrypted. */
struct sealed_item {
    struct str name, value;
    int64_t lasts_ms; /* 0: it stays; -1: there is none; -2: it is too large for a reply */
};

static void take_item(struct store_table *table, struct arena *arena,
                      const struct sealed_item *sealed)
{
    struct store_item item = {.name = sealed->name, .ttl_ms = (uint64_t) sealed->lasts_ms};

    if (owed_has(table->owed, sealed->name)) {
        return; /* ours comes after it */
    }
    table_count(table, STORE_TABLE_RECEIVED, 1);
    if (sealed->lasts_ms == -2) {
        table_count(table, STORE_TABLE_TOO_LARGE, 1);
        log_item(table, sealed->name, "of another node is larger than half of \"reply_max\"");
    }
    if (sealed->lasts_ms < 0) {
        table->kind->drop(table->owner, sealed->name);
        return;
    }
    if (!tls_unseal(table->secret, bound_of(table, sealed->name, arena), sealed->value, arena,
                    &item.value)) {
        table_count(table, STORE_TABLE_UNREADABLE, 1);
        log_item(table, sealed->name, "in the store was not written by a node with this password");
    } else if (!table->kind->put(table->owner, &item)) {
        table_count(table, STORE_TABLE_NO_ROOM, 1);
        log_item(table, sealed->name, "of another node has no room");
    }
}

static struct store_call call_of(const struct store_table *table, struct arena *arena)
{
    return (struct store_call){.store = table->store,
                               .arena = arena,
                               .deadline_ms = clock_now.now_ms + EXCHANGE_MS};
}

/* Names of one call: half of the largest reply at most. */
static unsigned page_of(const struct store_table *table)
{
    uint64_t most = table->store->settings->reply_max / (2 * (STORE_TABLE_NAME_MAX + 64));

    return most < PAGE_MOST ? (unsigned) most : PAGE_MOST;
}

#define NOW_MS                                                                                     \
    "local time = redis.call('TIME')\n"                                                            \
    "local now = time[1] * 1000 + (time[2] - time[2] % 1000) / 1000\n"
#define EXTEND "for _, key in ipairs(KEYS) do redis.call('PEXPIRE', key, ARGV[1]) end\n"

/*
 * A value in the hash is the time in milliseconds at which it ends, 0 for none, a space, and the encrypted text. KEYS: the hash.
 * ARGV: most bytes of the reply; names. Gives for each, as far as they have room, how long it lasts and the text.
 */
static struct store_script values_script = {
    .text =
        NOW_MS "local most = tonumber(ARGV[1])\n"
               "local room = most\n"
               "local found = redis.call('HMGET', KEYS[1], unpack(ARGV, 2))\n"
               "local flat = {}\n"
               "for i = 1, #ARGV - 1 do\n"
               "  local ends, text = string.match(found[i] or '', '^(%d+) (.*)$')\n"
               "  local lasts = -1\n"
               "  if ends then\n"
               "    lasts = ends == '0' and 0 or math.min(ends - now, 1e15)\n"
               "    if lasts < 0 or (lasts == 0 and ends ~= '0') then lasts, text = -1, '' end\n"
               "    if #text > most then lasts, text = -2, '' end\n"
               "    room = room - #text\n"
               "    if room < 0 and #flat > 0 then break end\n"
               "  end\n"
               "  flat[#flat + 1] = string.format('%.0f', lasts)\n"
               "  flat[#flat + 1] = text or ''\n"
               "end\n"
               "return flat"};

/* Reads those items, and takes them. MAY WAIT. */
static enum store_result fetch(struct store_table *table, const struct store_call *call,
                               const struct str *names, size_t count)
{
    const struct store_words keys = {&table->items, 1};
    struct str *args = arena_array(call->arena, 1 + count, sizeof(*args)), reply;

    while (count > 0) {
        const struct store_words words = {args, 1 + count};
        args[0] = arena_printf(call->arena, "%llu",
                               (unsigned long long) table->store->settings->reply_max / 2);
        memcpy(args + 1, names, count * sizeof(*args));
        enum store_result result = store_run(call, &values_script, &keys, &words, &reply);
        if (result != STORE_OK) {
            return result;
        }
        int64_t values = resp_next_list(&reply) / 2;
        if (values < 1 || (uint64_t) values > count) {
            return STORE_REFUSED;
        }
        for (int64_t i = 0; i < values; i++) {
            struct sealed_item item = {.name = names[i]};
            if (!resp_next_integer(&reply, &item.lasts_ms) ||
                !resp_next_string(&reply, &item.value)) {
                return STORE_REFUSED;
            }
            take_item(table, call->arena, &item);
        }
        names += values;
        count -= (size_t) values;
    }
    return STORE_OK;
}

/* ---- sending ---- */

/* ARGV[2]: failures before this command. One that comes after a later one of this node changes nothing, and gives 0. */
#define FENCE                                                                                      \
    "local fence = tonumber(redis.call('GET', KEYS[4]) or 0) or 0\n"                               \
    "if tonumber(ARGV[2]) < fence then return 0 end\n"                                             \
    "if tonumber(ARGV[2]) > fence then redis.call('SET', KEYS[4], ARGV[2]) end\n"

/*
 * KEYS: hash, sorted set of what expires, stream, fence. ARGV: TTL, failures, most names in the stream, origin, an epoch for items that
 * have none, most expired items that go; then for each item its name, how long it lasts (0: it stays, -1: it goes) and the text.
 */
static struct store_script write_script = {
    .text = FENCE NOW_MS
    "redis.call('HSETNX', KEYS[1], '', ARGV[5])\n"
    "local old = redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', now, 'LIMIT', 0, ARGV[6])\n"
    "for _, name in ipairs(old) do\n"
    "  redis.call('HDEL', KEYS[1], name)\n"
    "  redis.call('ZREM', KEYS[2], name)\n"
    "end\n"
    "for i = 7, #ARGV, 3 do\n"
    "  local name, lasts = ARGV[i], tonumber(ARGV[i + 1])\n"
    "  if lasts < 0 then\n"
    "    redis.call('HDEL', KEYS[1], name)\n"
    "  else\n"
    "    local ends = string.format('%.0f', lasts == 0 and 0 or now + lasts)\n"
    "    redis.call('HSET', KEYS[1], name, ends .. ' ' .. ARGV[i + 2])\n"
    "    if lasts > 0 then redis.call('ZADD', KEYS[2], ends, name) end\n"
    "  end\n"
    "  if lasts <= 0 then redis.call('ZREM', KEYS[2], name) end\n"
    "  redis.call('XADD', KEYS[3], 'MAXLEN', '~', ARGV[3], '*', ARGV[4], name)\n"
    "end\n" EXTEND "return 1"};

/* KEYS as above. ARGV: TTL, failures, an epoch that says that items were dropped, origin. An empty name in the stream: read all. */
static struct store_script clear_script = {
    .text = FENCE "redis.call('DEL', KEYS[1], KEYS[2])\n"
                  "redis.call('HSET', KEYS[1], '', ARGV[3])\n"
                  "redis.call('XTRIM', KEYS[3], 'MAXLEN', 0)\n"
                  "redis.call('XADD', KEYS[3], '*', ARGV[4], '')\n" EXTEND "return 1"};

static struct str number_text(struct arena *arena, int64_t number)
{
    return arena_printf(arena, "%lld", (long long) number);
}

/* "n:…": items begin here, as there were none; "c:…": as this node dropped all. */
static struct str new_epoch(struct arena *arena, char why)
{
    uint64_t random;

    random_bytes(&random, sizeof(random));
    return arena_printf(arena, "%c:%016llx", why, (unsigned long long) random);
}

static enum store_result run(const struct store_table *table, const struct store_call *call,
                             struct store_script *script, const struct store_words *args,
                             struct str *reply)
{
    const struct str keys[] = {table->items, table->expiry, table->changes, table->fence};

    return store_run(call, script, &(const struct store_words){keys, 4}, args, reply);
}

static struct str failures_text(const struct store_table *table, struct arena *arena)
{
    return number_text(arena, (int64_t) atomic_load(&table->owed->failures));
}

/* Runs a script with a fence. STORE_REFUSED: others of this node have failed since it was made. MAY WAIT. */
static enum store_result run_fenced(const struct store_table *table, const struct store_call *call,
                                    struct store_script *script, const struct store_words *args)
{
    struct str reply;
    int64_t is_done;
    enum store_result result = run(table, call, script, args, &reply);

    if (result == STORE_OK) {
        return resp_next_integer(&reply, &is_done) && is_done == 1 ? STORE_OK : STORE_REFUSED;
    }
    if (result != STORE_REFUSED) {
        atomic_fetch_add(&table->owed->failures, 1);
    }
    return result;
}

/* The three words of an item as this node has it now. Gives their bytes. */
static size_t put_words(struct store_table *table, struct arena *arena, struct str name,
                        struct str *words)
{
    struct store_item item = {.name = name};
    size_t most = table->store->settings->reply_max / 4;
    bool is_there = table->kind->get(table->owner, name, arena, &item);

    if (is_there && item.value.len > most - TLS_SEAL_EXTRA) {
        table_count(table, STORE_TABLE_TOO_LARGE, 1);
        log_item(table, name, "is too large for other nodes: more than a quarter of \"reply_max\"");
        is_there = false;
    }
    words[0] = name;
    words[1] = number_text(arena, is_there ? (int64_t) item.ttl_ms : -1);
    words[2] = is_there ? tls_seal(table->secret, bound_of(table, name, arena), item.value, arena)
                        : STR_NONE;
    return name.len + words[2].len;
}

/* One call. MAY WAIT. */
static enum store_result send_names(struct store_table *table, const struct store_call *call,
                                    struct vec *names)
{
    struct arena *arena = call->arena;
    struct vec args = {0}, rest = *names;
    size_t bytes = 0;

    *vec_add(&args, arena, struct str) = number_text(arena, TTL_MS);
    *vec_add(&args, arena, struct str) = failures_text(table, arena);
    *vec_add(&args, arena, struct str) = number_text(arena, STREAM_MOST);
    *vec_add(&args, arena, struct str) = str_of(table->origin);
    *vec_add(&args, arena, struct str) = new_epoch(arena, 'n');
    *vec_add(&args, arena, struct str) = number_text(arena, PRUNED_MOST);
    names->count = 0;
    vec_each(const struct owed_name, name, &rest) {
        struct str words[3];
        if (bytes < SEND_BYTES) {
            bytes += put_words(table, arena, name->name, words);
            for (unsigned i = 0; i < 3; i++) {
                *vec_add(&args, arena, struct str) = words[i];
            }
            names->count++;
        }
    }
    enum store_result result =
        run_fenced(table, call, &write_script, &(const struct store_words){args.items, args.count});
    if (result == STORE_OK) {
        table_count(table, STORE_TABLE_SENT, names->count);
        owed_done(table->owed, names);
        rest.items = vec_at(&rest, struct owed_name, names->count);
        rest.count -= names->count;
    }
    owed_back(table->owed, &rest);
    return result;
}

static enum store_result send_clear(struct store_table *table, const struct store_call *call)
{
    const struct str args[] = {number_text(call->arena, TTL_MS), failures_text(table, call->arena),
                               new_epoch(call->arena, 'c'), str_of(table->origin)};

    if (!owed_take_sign(table->owed, &table->owed->is_clear)) {
        return STORE_OK;
    }
    enum store_result result =
        run_fenced(table, call, &clear_script, &(const struct store_words){args, 4});
    if (result != STORE_OK) {
        owed_set_sign(table->owed, &table->owed->is_clear);
    }
    return result;
}

/* Until nothing waits, or the store fails, or the deadline (0: none). MAY WAIT. */
static enum store_result send_all(struct store_table *table, uint64_t deadline_ms)
{
    enum store_result result = STORE_OK;
    size_t count = 1;

    while (result == STORE_OK && count != 0 &&
           (deadline_ms == 0 || clock_now.now_ms < deadline_ms)) {
        struct arena arena;
        struct vec names = {0};

        arena_init(&arena);
        struct store_call call = call_of(table, &arena);
        call.deadline_ms = deadline_ms == 0 ? call.deadline_ms : deadline_ms;
        result = send_clear(table, &call);
        if (result == STORE_OK) {
            owed_take(table->owed, PAGE_MOST, call.deadline_ms + 1, &arena, &names);
        }
        count = names.count;
        if (count != 0) {
            result = send_names(table, &call, &names);
        }
        arena_free(&arena);
    }
    return result;
}

/* ---- reading all ---- */

/*
 * KEYS: as above. ARGV: TTL, an epoch for items that have none, origin. Gives {the epoch, 1: it is new, the end of the stream}. An empty
 * stream gets an entry, so that a node that reads from its end on notices when entries after it were trimmed.
 */
static struct store_script open_script = {
    .text =
        "local is_new = redis.call('HSETNX', KEYS[1], '', ARGV[2])\n"
        "local tail = redis.call('XREVRANGE', KEYS[3], '+', '-', 'COUNT', 1)\n"
        "local ends = tail[1] and tail[1][1] or redis.call('XADD', KEYS[3], '*', ARGV[3], '')\n" EXTEND
        "return {redis.call('HGET', KEYS[1], ''), is_new, ends}"};

/* KEYS: the hash. ARGV: cursor, about how many. Gives {the next cursor, names}. */
static struct store_script scan_script = {
    .text = "local page = redis.call('HSCAN', KEYS[1], ARGV[1], 'COUNT', ARGV[2])\n"
            "local names = {}\n"
            "for i = 1, #page[2], 2 do\n"
            "  if page[2][i] ~= '' then names[#names + 1] = page[2][i] end\n"
            "end\n"
            "return {page[1], names}"};

/* KEYS: the hash. ARGV: names. Gives 1 for each that is there. */
static struct store_script exist_script = {
    .text = "local found = {}\n"
            "for i, name in ipairs(ARGV) do found[i] = redis.call('HEXISTS', KEYS[1], name) end\n"
            "return found"};

/* One page of the hash. MAY WAIT. */
static enum store_result scan_page(struct store_table *table, const struct store_call *call,
                                   char cursor[CURSOR_DIGITS])
{
    const struct store_words keys = {&table->items, 1};
    const struct str args[] = {str_of(cursor), number_text(call->arena, page_of(table))};
    struct vec names = {0};
    struct str reply, next;
    enum store_result result =
        store_run(call, &scan_script, &keys, &(const struct store_words){args, 2}, &reply);

    if (result != STORE_OK) {
        return result;
    }
    if (resp_next_list(&reply) != 2 || !resp_next_string(&reply, &next) ||
        next.len >= CURSOR_DIGITS) {
        return STORE_REFUSED;
    }
    *str_put(cursor, next) = '\0';
    for (int64_t left = resp_next_list(&reply); left > 0; left--) {
        if (!resp_next_string(&reply, vec_add(&names, call->arena, struct str))) {
            return STORE_REFUSED;
        }
    }
    return fetch(table, call, names.items, names.count);
}

static enum store_result read_items(struct store_table *table)
{
    char cursor[CURSOR_DIGITS] = "0";
    enum store_result result;

    do {
        struct arena arena;

        arena_init(&arena);
        struct store_call call = call_of(table, &arena);
        result = scan_page(table, &call, cursor);
        arena_free(&arena);
    } while (result == STORE_OK && strcmp(cursor, "0") != 0);
    return result;
}

/* Items of this node that the store lacks are sent, or dropped. MAY WAIT. */
static enum store_result compare_names(struct store_table *table, const struct store_call *call,
                                       const struct vec *names, bool sends)
{
    const struct store_words keys = {&table->items, 1};
    struct str reply;
    int64_t is_there;

    for (size_t first = 0; first < names->count; first += PAGE_MOST) {
        size_t count = names->count - first < PAGE_MOST ? names->count - first : PAGE_MOST;
        const struct str *page = vec_at(names, struct str, first);
        enum store_result result =
            store_run(call, &exist_script, &keys, &(const struct store_words){page, count}, &reply);
        if (result != STORE_OK) {
            return result;
        }
        if (resp_next_list(&reply) != (int64_t) count) {
            return STORE_REFUSED;
        }
        for (size_t i = 0; i < count; i++) {
            if (!resp_next_integer(&reply, &is_there)) {
                return STORE_REFUSED;
            }
            if (is_there == 0 && sends) {
                owed_note(table->owed, page[i]);
            } else if (is_there == 0 && !owed_has(table->owed, page[i])) {
                table->kind->drop(table->owner, page[i]);
            }
        }
    }
    return STORE_OK;
}

static enum store_result compare_items(struct store_table *table, bool sends)
{
    enum store_result result = STORE_OK;
    uint32_t cursor = 0;
    bool has_more = true;

    while (has_more && result == STORE_OK) {
        struct arena arena;
        struct vec names = {0};

        arena_init(&arena);
        struct store_call call = call_of(table, &arena);
        has_more = table->kind->list(table->owner, &cursor, &arena, &names);
        result = compare_names(table, &call, &names, sends);
        arena_free(&arena);
    }
    return result;
}

/* Is the first place of a stream after the second? */
static bool is_after(const struct store_cursor *one, const struct store_cursor *other)
{
    char *one_rest, *other_rest;
    unsigned long long a = strtoull(one->text, &one_rest, 10);
    unsigned long long b = strtoull(other->text, &other_rest, 10);

    if (a != b || *one_rest != '-' || *other_rest != '-') {
        return a > b;
    }
    return strtoull(one_rest + 1, NULL, 10) > strtoull(other_rest + 1, NULL, 10);
}

/*
 * Reads all items, and compares. What this node has beyond them counts only where the store has lost something: it is empty, began
 * again since this node read it, or ends before what this node read (the replica that took over was behind). Otherwise others have
 * dropped it. MAY WAIT.
 */
static enum store_result read_all(struct store_table *table)
{
    struct arena arena;
    struct owed_place now = {.epoch = ""}, former;
    struct str reply, epoch, ends;
    int64_t is_new = 0;

    arena_init(&arena);
    struct store_call call = call_of(table, &arena);
    const struct str args[] = {number_text(&arena, TTL_MS), new_epoch(&arena, 'n'),
                               str_of(table->origin)};
    enum store_result result =
        run(table, &call, &open_script, &(const struct store_words){args, 3}, &reply);
    if (result == STORE_OK &&
        (resp_next_list(&reply) != 3 || !resp_next_string(&reply, &epoch) ||
         !resp_next_integer(&reply, &is_new) || !resp_next_string(&reply, &ends) ||
         ends.len >= sizeof(now.cursor.text))) {
        result = STORE_REFUSED;
    }
    if (result != STORE_OK) {
        arena_free(&arena);
        return result;
    }
    *str_put(now.epoch, str_head(epoch, sizeof(now.epoch) - 1)) = '\0';
    *str_put(now.cursor.text, ends) = '\0';
    arena_free(&arena);
    owed_place_get(table->owed, &former);
    bool is_other = *former.epoch != '\0' && strcmp(former.epoch, now.epoch) != 0;
    bool is_lossy = owed_take_sign(table->owed, &table->owed->is_lossy);
    bool sends = is_new == 1 || is_lossy || (is_other && *now.epoch == 'n') ||
                 (!is_other && is_after(&former.cursor, &now.cursor));

    table_count(table, STORE_TABLE_READS, 1);
    result = read_items(table);
    if (result == STORE_OK) {
        result = compare_items(table, sends);
    }
    if (result == STORE_OK) {
        owed_place_set(table->owed, &now);
    } else if (is_lossy) {
        owed_set_sign(table->owed, &table->owed->is_lossy);
    }
    return result;
}

/* ---- reading changes ---- */

/* Each name once. False: the empty one is among them, and all items have to be read. */
static bool names_of(const struct vec *entries, struct arena *arena, struct vec *names)
{
    vec_each(const struct store_entry, entry, entries) {
        bool is_known = false;

        if (entry->value.len == 0) {
            return false;
        }
        vec_each(const struct str, name, names) {
            is_known |= str_equal(*name, entry->value);
        }
        if (!is_known) {
            *vec_add(names, arena, struct str) = entry->value;
        }
    }
    return true;
}

/* A page of the stream. *count: entries that came. STORE_ABSENT: all items have to be read. MAY WAIT. */
static enum store_result read_changes(struct store_table *table, struct owed_place *place,
                                      size_t *count)
{
    struct arena arena;
    struct vec entries = {0}, names = {0};

    arena_init(&arena);
    struct store_call call = call_of(table, &arena);
    struct store_cursor cursor = place->cursor;
    enum store_result result =
        store_stream_read(&call, table->changes, &cursor, page_of(table), &entries);
    if (result == STORE_OK && !names_of(&entries, &arena, &names)) {
        result = STORE_ABSENT;
    }
    if (result == STORE_OK && names.count != 0) {
        result = fetch(table, &call, names.items, names.count);
    }
    *count = entries.count;
    if (result == STORE_OK && entries.count != 0) {
        place->cursor = cursor;
        owed_place_set(table->owed, place);
    }
    arena_free(&arena);
    return result;
}

/* ---- the exchange ---- */

static enum store_result read_new(struct store_table *table)
{
    struct owed_place place;
    size_t count = 1;
    enum store_result result = STORE_OK;

    owed_place_get(table->owed, &place);
    if (*place.cursor.text == '\0' || table->owed->is_lossy ||
        (table->kind->starts_again && !table->has_started)) {
        result = read_all(table);
        table->has_started |= result == STORE_OK;
        return result;
    }
    while (result == STORE_OK && count != 0) {
        result = read_changes(table, &place, &count);
    }
    return result == STORE_ABSENT ? read_all(table) : result;
}

static void renew(struct store_table *table)
{
    struct arena arena;
    struct vec none = {0};

    if (clock_now.now_ms - table->renewed_ms > RENEW_MS) {
        table->renewed_ms = clock_now.now_ms;
        arena_init(&arena);
        struct store_call call = call_of(table, &arena);
        send_names(table, &call, &none);
        arena_free(&arena);
    }
}

static void exchange_run(void *arg)
{
    struct store_table *table = arg;

    table->fiber = fiber_self();
    table->renewed_ms = clock_now.now_ms;
    uint64_t pause_ms = 1; /* all modules have started then */
    while (fiber_sleep(clock_now.now_ms + pause_ms) != WAIT_CANCELLED) {
        pause_ms = table->interval_ms;
        fiber_shield_begin(); /* a reload does not interrupt what has been sent */
        /* Changes that come before a name was sent are read first, so that a page of them does not show older values. */
        bool is_read = table->owed->is_clear || read_new(table) == STORE_OK;
        if (table->kind->exchanged != NULL) {
            table->kind->exchanged(table->owner, table, is_read);
        }
        if (is_read) {
            send_all(table, 0);
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

/* Are any of these not in the store yet? */
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
    while (send_all(table, deadline_ms) == STORE_OK && table_owes(table, names) &&
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
    fetch(table, &call, &name, 1);
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
