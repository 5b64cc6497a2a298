/* Sends changes of a table: the items that the store does not have yet. */
#include "store/table_private.h"

#include "base/clock.h"

enum {
    STREAM_MOST = 10000,     /* names of changed items that the stream keeps */
    SEND_BYTES = 256 * 1024, /* bytes of the values of one call, not counting the last value */
    PRUNED_MOST = 100,       /* expired items that one call removes */
};

/* ARGV[2]: number of failures before this command. A command with a lower number than that of an
 * earlier one of this node changes nothing, and gives ''. */
#define FENCE                                                                                      \
    "local fence = tonumber(redis.call('GET', KEYS[4]) or 0) or 0\n"                               \
    "if tonumber(ARGV[2]) < fence then return '' end\n"                                            \
    "if tonumber(ARGV[2]) > fence then redis.call('SET', KEYS[4], ARGV[2]) end\n"

/*
 * KEYS: hash, sorted set of expiry times, stream, fence. ARGV: TTL, failures, most names in the
 * stream, origin, an epoch if the items have none, most expired items that are removed; then for
 * each item its name, its lifetime (0: it does not expire, -1: it is removed) and the text. Gives
 * the end of the stream.
 */
static struct store_script write_script = {
    .text = FENCE STORE_NOW_MS
    "redis.call('HSETNX', KEYS[1], '', ARGV[5])\n"
    "local old = redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', now, 'LIMIT', 0, ARGV[6])\n"
    "for _, name in ipairs(old) do\n"
    "  redis.call('HDEL', KEYS[1], name)\n"
    "  redis.call('ZREM', KEYS[2], name)\n"
    "end\n"
    "local place = '0-0'\n"
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
    "  place = redis.call('XADD', KEYS[3], 'MAXLEN', '~', ARGV[3], '*', ARGV[4], name)\n"
    "end\n" TABLE_EXTEND "return place"};

/* KEYS: as above. ARGV: TTL, failures, an epoch that marks that items were removed, origin. An
 * empty name in the stream means: read all. The result is as above. */
static struct store_script clear_script = {
    .text = FENCE "redis.call('DEL', KEYS[1], KEYS[2])\n"
                  "redis.call('HSET', KEYS[1], '', ARGV[3])\n"
                  "redis.call('XTRIM', KEYS[3], 'MAXLEN', 0)\n"
                  "local place = redis.call('XADD', KEYS[3], '*', ARGV[4], '')\n" TABLE_EXTEND
                  "return place"};

static struct str failures_text(const struct store_table *table, struct arena *arena)
{
    return table_number(arena, (int64_t) atomic_load(&table->owed->failures));
}

/* Runs a script with a fence. STORE_REFUSED: other commands of this node have failed since it was
 * prepared. MAY WAIT. */
static enum store_result run_fenced(const struct store_table *table, const struct store_call *call,
                                    struct store_script *script, const struct store_words *args)
{
    struct str reply;
    struct store_cursor cursor;
    enum store_result result = table_run(table, call, script, args, &reply);

    if (result == STORE_OK) {
        if (!table_next_cursor(&reply, &cursor)) {
            return STORE_REFUSED;
        }
        owed_see(table->owed, &cursor);
        return STORE_OK;
    }
    if (result != STORE_REFUSED) {
        atomic_fetch_add(&table->owed->failures, 1);
    }
    return result;
}

/* The three arguments of an item in its present state. Gives their bytes. */
static size_t put_words(struct store_table *table, struct arena *arena, struct str name,
                        struct str *words)
{
    struct store_item item = {.name = name};
    size_t most = table->store->settings->reply_max / 4;
    bool is_there = table->kind->get(table->owner, name, arena, &item);

    if (is_there && item.value.len > most - TLS_SEAL_EXTRA) {
        table_count(table, STORE_TABLE_TOO_LARGE, 1);
        table_log_item(table, name,
                       "is too large for other nodes: more than a quarter of \"reply_max\"");
        is_there = false;
    }
    words[0] = name;
    words[1] = table_number(arena, is_there ? (int64_t) item.ttl_ms : -1);
    words[2] = is_there
                   ? tls_seal(table->secret, table_bound(table, name, arena), item.value, arena)
                   : STR_NONE;
    return name.len + words[2].len;
}

/* Makes one call. MAY WAIT. */
enum store_result table_send_names(struct store_table *table, const struct store_call *call,
                                   struct vec *names)
{
    struct arena *arena = call->arena;
    struct vec args = {0}, rest = *names;
    size_t bytes = 0;

    *vec_add(&args, arena, struct str) = table_number(arena, TABLE_TTL_MS);
    *vec_add(&args, arena, struct str) = failures_text(table, arena);
    *vec_add(&args, arena, struct str) = table_number(arena, STREAM_MOST);
    *vec_add(&args, arena, struct str) = str_of(table->origin);
    *vec_add(&args, arena, struct str) = table_epoch(arena, 'n');
    *vec_add(&args, arena, struct str) = table_number(arena, PRUNED_MOST);
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
    const struct str args[] = {table_number(call->arena, TABLE_TTL_MS),
                               failures_text(table, call->arena), table_epoch(call->arena, 'c'),
                               str_of(table->origin)};

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

/* Sends until nothing waits, the store fails, or the deadline passes (0: none). MAY WAIT. */
enum store_result table_send(struct store_table *table, uint64_t deadline_ms)
{
    enum store_result result = STORE_OK;
    size_t count = 1;

    while (result == STORE_OK && count != 0 &&
           (deadline_ms == 0 || clock_now.now_ms < deadline_ms)) {
        struct arena arena;
        struct vec names = {0};

        arena_init(&arena);
        struct store_call call = table_call(table, &arena);
        call.deadline_ms = deadline_ms == 0 ? call.deadline_ms : deadline_ms;
        result = send_clear(table, &call);
        if (result == STORE_OK) {
            owed_take(table->owed, TABLE_PAGE_MOST, call.deadline_ms + 1, &arena, &names);
        }
        count = names.count;
        if (count != 0) {
            result = table_send_names(table, &call, &names);
        }
        arena_free(&arena);
    }
    return result;
}
