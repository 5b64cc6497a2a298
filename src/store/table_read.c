/* Reads a table from the store: changes from the cursor on, or all items. */
#include "store/table_private.h"

#include <stdlib.h>

#include "base/clock.h"

#define CURSOR_DIGITS 24
#define FETCH_ATTEMPTS 16 /* if other workers process newer replies meanwhile */

/* ---- values ---- */

/* An item in the store: its value is encrypted. */
struct sealed_item {
    struct str name, value;
    int64_t lasts_ms; /* 0: it does not expire; -1: it does not exist; -2: it is too large for a
                         reply */
};

static void use_item(struct store_table *table, struct arena *arena,
                     const struct sealed_item *sealed)
{
    struct store_item item = {.name = sealed->name, .ttl_ms = (uint64_t) sealed->lasts_ms};

    if (sealed->lasts_ms == -2) {
        table_count(table, STORE_TABLE_TOO_LARGE, 1);
        table_log_item(table, sealed->name, "of another node is larger than half of \"reply_max\"");
    }
    if (sealed->lasts_ms < 0) {
        table->kind->drop(table->owner, sealed->name);
        return;
    }
    if (!tls_unseal(table->secret, table_bound(table, sealed->name, arena), sealed->value, arena,
                    &item.value)) {
        table_count(table, STORE_TABLE_UNREADABLE, 1);
        table_log_item(table, sealed->name,
                       "in the store was not written by a node with this password");
    } else if (!table->kind->put(table->owner, &item)) {
        table_count(table, STORE_TABLE_NO_ROOM, 1);
        table_log_item(table, sealed->name, "of another node has no room");
    }
}

static void take_item(struct store_table *table, struct arena *arena,
                      const struct sealed_item *sealed)
{
    if (!owed_has(table->owed, sealed->name)) { /* otherwise this node's change is newer */
        use_item(table, arena, sealed);
        table_count(table, STORE_TABLE_RECEIVED, 1); /* means that the item is in use */
    }
}

/* Most names of one call: half of the largest reply. */
static unsigned table_page(const struct store_table *table)
{
    uint64_t most = table->store->settings->reply_max / (2 * (STORE_TABLE_NAME_MAX + 64));

    return most < TABLE_PAGE_MOST ? (unsigned) most : TABLE_PAGE_MOST;
}

/*
 * A value in the hash is its expiry time in milliseconds (0: none), a space, and the encrypted
 * text. KEYS: the hash, the stream. ARGV: most bytes of the reply; names. Gives {the end of the
 * stream, for each name as far as they fit: the remaining time and the text}.
 */
static struct store_script values_script = {
    .text = STORE_NOW_MS
    "local most = tonumber(ARGV[1])\n"
    "local room = most\n"
    "local tail = redis.call('XREVRANGE', KEYS[2], '+', '-', 'COUNT', 1)\n"
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
    "return {tail[1] and tail[1][1] or '0-0', flat}"};

/* A parsed reply of this script. */
struct table_page {
    struct store_cursor cursor; /* the end of the stream at that time */
    struct str values;
    size_t count;
};

/* Reads as many of these items as fit into a reply. MAY WAIT. */
static enum store_result ask_values(struct store_table *table, const struct store_call *call,
                                    const struct str *names, size_t count, struct table_page *page)
{
    const struct str keys[] = {table->items, table->changes};
    struct str *args = arena_array(call->arena, 1 + count, sizeof(*args));

    args[0] = table_number(call->arena, (int64_t) table->store->settings->reply_max / 2);
    memcpy(args + 1, names, count * sizeof(*args));
    enum store_result result =
        store_run(call, &values_script, &(const struct store_words){keys, 2},
                  &(const struct store_words){args, 1 + count}, &page->values);
    if (result != STORE_OK) {
        return result;
    }
    if (resp_next_list(&page->values) != 2 || !table_next_cursor(&page->values, &page->cursor)) {
        return STORE_REFUSED;
    }
    int64_t values = resp_next_list(&page->values) / 2;
    page->count = (size_t) values;
    return values < 1 || (uint64_t) values > count ? STORE_REFUSED : STORE_OK;
}

static enum store_result take_values(struct store_table *table, struct arena *arena,
                                     const struct str *names, const struct table_page *page)
{
    struct str values = page->values;

    for (size_t i = 0; i < page->count; i++) {
        struct sealed_item item = {.name = names[i]};
        if (!resp_next_integer(&values, &item.lasts_ms) ||
            !resp_next_string(&values, &item.value)) {
            return STORE_REFUSED;
        }
        take_item(table, arena, &item);
    }
    return STORE_OK;
}

/*
 * If another worker has processed a newer reply meanwhile, whose items this one would overwrite,
 * the items are read again. If that happens each time, all items are read again later. MAY WAIT.
 */
enum store_result table_fetch(struct store_table *table, const struct store_call *call,
                              const struct str *names, size_t count)
{
    struct table_page page;

    for (unsigned attempts = 1; count > 0; attempts++) {
        enum store_result result = ask_values(table, call, names, count, &page);
        if (result != STORE_OK) {
            return result;
        }
        bool is_newest = owed_see(table->owed, &page.cursor);
        if (is_newest || attempts == FETCH_ATTEMPTS) {
            result = take_values(table, call->arena, names, &page);
            is_newest = is_newest && owed_see(table->owed, &page.cursor);
        }
        if (result != STORE_OK) {
            return result;
        }
        if (is_newest || attempts == FETCH_ATTEMPTS) {
            names += page.count;
            count -= page.count;
            attempts = 0;
        }
        if (!is_newest && attempts == 0) {
            owed_set_sign(table->owed, &table->owed->is_stale);
        }
    }
    return STORE_OK;
}

/* ---- reading all items ---- */

/*
 * KEYS: as above. ARGV: TTL, an epoch if the items have none, origin. Gives {the epoch, 1: it is
 * new, the end of the stream}. An entry is added to an empty stream, so that a node that reads from
 * its end on notices when later entries are trimmed.
 */
static struct store_script open_script = {
    .text =
        "local is_new = redis.call('HSETNX', KEYS[1], '', ARGV[2])\n"
        "local tail = redis.call('XREVRANGE', KEYS[3], '+', '-', 'COUNT', 1)\n"
        "local ends = tail[1] and tail[1][1] or redis.call('XADD', KEYS[3], '*', ARGV[3], '')\n" TABLE_EXTEND
        "return {redis.call('HGET', KEYS[1], ''), is_new, ends}"};

/* KEYS: the hash. ARGV: cursor, approximate count. Gives {the next cursor, names}. */
static struct store_script scan_script = {
    .text = "local page = redis.call('HSCAN', KEYS[1], ARGV[1], 'COUNT', ARGV[2])\n"
            "local names = {}\n"
            "for i = 1, #page[2], 2 do\n"
            "  if page[2][i] ~= '' then names[#names + 1] = page[2][i] end\n"
            "end\n"
            "return {page[1], names}"};

/* KEYS: the hash. ARGV: names. Gives 1 for each that exists. */
static struct store_script exist_script = {
    .text = "local found = {}\n"
            "for i, name in ipairs(ARGV) do found[i] = redis.call('HEXISTS', KEYS[1], name) end\n"
            "return found"};

/* Reads one page of the hash. MAY WAIT. */
static enum store_result scan_page(struct store_table *table, const struct store_call *call,
                                   char cursor[CURSOR_DIGITS])
{
    const struct store_words keys = {&table->items, 1};
    const struct str args[] = {str_of(cursor), table_number(call->arena, table_page(table))};
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
    return table_fetch(table, call, names.items, names.count);
}

static enum store_result read_items(struct store_table *table)
{
    char cursor[CURSOR_DIGITS] = "0";
    enum store_result result;

    do {
        struct arena arena;

        arena_init(&arena);
        struct store_call call = table_call(table, &arena);
        result = scan_page(table, &call, cursor);
        arena_free(&arena);
    } while (result == STORE_OK && strcmp(cursor, "0") != 0);
    return result;
}

/* Items of this node that the store lacks are sent, or removed here. MAY WAIT. */
static enum store_result compare_names(struct store_table *table, const struct store_call *call,
                                       const struct vec *names, bool sends)
{
    const struct store_words keys = {&table->items, 1};
    struct str reply;
    int64_t is_there;

    for (size_t first = 0; first < names->count; first += TABLE_PAGE_MOST) {
        size_t count =
            names->count - first < TABLE_PAGE_MOST ? names->count - first : TABLE_PAGE_MOST;
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
        struct store_call call = table_call(table, &arena);
        has_more = table->kind->list(table->owner, &cursor, &arena, &names);
        result = compare_names(table, &call, &names, sends);
        arena_free(&arena);
    }
    return result;
}

/*
 * Reads all items, and compares them with this node's. Items that only this node has are sent only
 * if the store has lost data: it is empty, has begun again since this node read it, or ends before
 * the position that this node had read (a replica that took over was behind). Otherwise other nodes
 * have removed them. MAY WAIT.
 */
static enum store_result read_all(struct store_table *table)
{
    struct arena arena;
    struct owed_position now = {.epoch = ""}, former;
    struct str reply, epoch;
    int64_t is_new = 0;

    arena_init(&arena);
    struct store_call call = table_call(table, &arena);
    const struct str args[] = {table_number(&arena, TABLE_TTL_MS), table_epoch(&arena, 'n'),
                               str_of(table->origin)};
    enum store_result result =
        table_run(table, &call, &open_script, &(const struct store_words){args, 3}, &reply);
    if (result == STORE_OK &&
        (resp_next_list(&reply) != 3 || !resp_next_string(&reply, &epoch) ||
         !resp_next_integer(&reply, &is_new) || !table_next_cursor(&reply, &now.cursor))) {
        result = STORE_REFUSED;
    }
    if (result != STORE_OK) {
        arena_free(&arena);
        return result;
    }
    *str_put(now.epoch, str_head(epoch, sizeof(now.epoch) - 1)) = '\0';
    arena_free(&arena);
    owed_position_get(table->owed, &former);
    bool is_other = *former.epoch != '\0' && strcmp(former.epoch, now.epoch) != 0;
    bool is_lossy = owed_take_sign(table->owed, &table->owed->is_lossy);
    bool sends = is_new == 1 || is_lossy || (is_other && *now.epoch == 'n') ||
                 (!is_other && owed_is_after(&former.cursor, &now.cursor));
    if (sends || is_other || *former.cursor.text == '\0') {
        owed_see_end(table->owed, &now.cursor); /* the store may be behind its earlier state */
    }

    table_count(table, STORE_TABLE_READS, 1);
    result = read_items(table);
    if (result == STORE_OK) {
        result = compare_items(table, sends);
    }
    if (result == STORE_OK) {
        owed_position_set(table->owed, &now);
    } else if (is_lossy) {
        owed_set_sign(table->owed, &table->owed->is_lossy);
    }
    return result;
}

/* ---- reading changes ---- */

/* Lists each name only once. False: an empty name is among them, and all items must be read. */
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

/* Reads a page of the stream. *count: number of entries. STORE_ABSENT: all items must be read. MAY
 * WAIT. */
static enum store_result read_changes(struct store_table *table, struct owed_position *position,
                                      size_t *count)
{
    struct arena arena;
    struct vec entries = {0}, names = {0};

    arena_init(&arena);
    struct store_call call = table_call(table, &arena);
    struct store_cursor cursor = position->cursor;
    enum store_result result =
        store_stream_read(&call, table->changes, &cursor, table_page(table), &entries);
    if (result == STORE_OK && !names_of(&entries, &arena, &names)) {
        result = STORE_ABSENT;
    }
    if (result == STORE_OK && names.count != 0) {
        result = table_fetch(table, &call, names.items, names.count);
    }
    *count = entries.count;
    if (result == STORE_OK && entries.count != 0) {
        position->cursor = cursor;
        owed_position_set(table->owed, position);
    }
    arena_free(&arena);
    return result;
}

enum store_result table_read(struct store_table *table)
{
    struct owed_position position;
    size_t count = 1;
    enum store_result result = STORE_OK;

    if (owed_take_sign(table->owed, &table->owed->is_stale)) {
        owed_forget_position(table->owed);
    }
    owed_position_get(table->owed, &position);
    if (*position.cursor.text == '\0' || table->owed->is_lossy ||
        (table->kind->starts_again && !table->has_started)) {
        result = read_all(table);
        table->has_started |= result == STORE_OK;
        return result;
    }
    while (result == STORE_OK && count != 0) {
        result = read_changes(table, &position, &count);
    }
    return result == STORE_ABSENT ? read_all(table) : result;
}
