/* The calls of a store: keys and values, scripts, locks, streams. */
#include "base/checksum.h"
#include "base/parse.h"
#include "store/private.h"

/* Bytes of a reply to SCAN for each key: twice the longest key of a zone. */
#define SCANNED_SIZE 8192

/* A number as an argument. */
struct number_word {
    char text[20];
};

static struct str word_of(uint64_t number, struct number_word *word)
{
    return str_from(word->text, format_uint(word->text, number));
}

struct str store_key_text(const struct store *store, struct arena *arena,
                          const struct store_key *key)
{
    return arena_printf(arena, "%.*s%u:%s:{%.*s}%s%.*s", STR_ARG(store->settings->prefix),
                        key->version, key->purpose, STR_ARG(key->zone),
                        key->item.len == 0 ? "" : ":", STR_ARG(key->item));
}

void store_secret(const struct store *store, struct str purpose, struct str zone, uint64_t out[4])
{
    const struct store_settings *settings = store->settings;
    struct arena arena;
    unsigned char hash[32];

    arena_init(&arena);
    struct str text = arena_printf(&arena, "%.*s\n%.*s\n%.*s", STR_ARG(settings->prefix),
                                   STR_ARG(purpose), STR_ARG(zone));
    hmac_sha256_of(&arena, settings->password, text, hash);
    memcpy(out, hash, sizeof(hash));
    arena_free(&arena);
}

/* Takes the first value of a reply. */
static enum store_result reply_value(enum store_result result, struct str *reply,
                                     struct resp_value *value)
{
    if (result != STORE_OK) {
        return result;
    }
    if (!resp_next(reply, value) || value->type == RESP_ERROR) {
        return STORE_REFUSED;
    }
    return value->type == RESP_NULL ? STORE_ABSENT : STORE_OK;
}

static enum store_result ask_value(const struct store_call *call, struct str key,
                                   const struct store_words *words, struct resp_value *value)
{
    struct str reply;

    return reply_value(store_ask(call, key, words->items, words->count, &reply), &reply, value);
}

#define WORDS(...)                                                                                 \
    (&(const struct store_words){(const struct str[]){__VA_ARGS__},                                \
                                 sizeof((const struct str[]){__VA_ARGS__}) / sizeof(struct str)})

/* ---- keys and values ---- */

enum store_result store_get(const struct store_call *call, struct str key, struct str *value)
{
    struct resp_value found;
    enum store_result result = ask_value(call, key, WORDS(STR("GET"), key), &found);

    *value = found.text;
    return result == STORE_OK && found.type != RESP_STRING ? STORE_REFUSED : result;
}

void store_get_all(const struct store_call *call, const struct str *keys, size_t count,
                   struct store_found *found)
{
    struct store_asked *asked = arena_array(call->arena, count, sizeof(*asked));
    struct str *words = arena_array(call->arena, 2 * count, sizeof(*words));

    for (size_t i = 0; i < count; i++) {
        words[2 * i] = STR("GET");
        words[2 * i + 1] = keys[i];
        asked[i].key = keys[i];
        asked[i].words = (struct store_words){words + 2 * i, 2};
    }
    store_ask_all(call, asked, count);
    for (size_t i = 0; i < count; i++) {
        struct resp_value value = {.type = RESP_NULL};

        found[i].result = reply_value(asked[i].result, &asked[i].reply, &value);
        found[i].value = value.text;
        if (found[i].result == STORE_OK && value.type != RESP_STRING) {
            found[i].result = STORE_REFUSED;
        }
    }
}

enum store_result store_scan(const struct store_call *call, struct str pattern, struct str *cursor,
                             struct vec *keys)
{
    struct str reply, key;
    struct number_word count;
    const struct store_words *words =
        WORDS(STR("SCAN"), *cursor, STR("MATCH"), pattern, STR("COUNT"),
              word_of(store_reply_max(call->store) / SCANNED_SIZE, &count));
    enum store_result result = store_ask(call, pattern, words->items, words->count, &reply);

    if (result != STORE_OK) {
        return result;
    }
    if (resp_next_list(&reply) != 2 || !resp_next_string(&reply, cursor)) {
        return STORE_REFUSED;
    }
    for (int64_t left = resp_next_list(&reply); left > 0; left--) {
        if (!resp_next_string(&reply, &key)) {
            return STORE_REFUSED;
        }
        *vec_add(keys, call->arena, struct str) = key;
    }
    return STORE_OK;
}

enum store_result store_set(const struct store_call *call, struct str key, struct str value,
                            uint64_t ttl_ms)
{
    struct number_word ttl;
    struct resp_value done;

    return ask_value(call, key, WORDS(STR("SET"), key, value, STR("PX"), word_of(ttl_ms, &ttl)),
                     &done);
}

enum store_result store_delete(const struct store_call *call, struct str key)
{
    struct resp_value done;
    enum store_result result = ask_value(call, key, WORDS(STR("DEL"), key), &done);

    return result == STORE_OK && done.number == 0 ? STORE_ABSENT : result;
}

/* ---- scripts ---- */

static void hash_script(struct store_script *script)
{
    static const char digits[] = "0123456789abcdef";
    unsigned char hash[20];

    sha1_of(str_of(script->text), hash);
    for (unsigned i = 0; i < sizeof(hash); i++) {
        script->hash[2 * i] = digits[hash[i] >> 4];
        script->hash[2 * i + 1] = digits[hash[i] & 15];
    }
}

enum store_result store_run(const struct store_call *call, struct store_script *script,
                            const struct store_words *keys, const struct store_words *args,
                            struct str *reply)
{
    size_t count = 3 + keys->count + args->count;
    struct str *words = arena_array(call->arena, count, sizeof(*words)), rest;
    struct number_word number;
    struct resp_value value;

    if (*script->hash == '\0') {
        hash_script(script);
    }
    words[0] = STR("EVALSHA");
    words[1] = str_of(script->hash);
    words[2] = word_of(keys->count, &number);
    memcpy(words + 3, keys->items, keys->count * sizeof(*words));
    if (args->count != 0) {
        memcpy(words + 3 + keys->count, args->items, args->count * sizeof(*words));
    }
    enum store_result result = store_ask(call, words[3], words, count, reply);
    rest = *reply;
    if (result == STORE_OK && resp_next(&rest, &value) && value.type == RESP_ERROR) {
        words[0] = STR("EVAL"); /* NOSCRIPT; all other errors were returned above */
        words[1] = str_of(script->text);
        result = store_ask(call, words[3], words, count, reply);
    }
    return result;
}

/* A script with one key that gives one value. */
static enum store_result run_value(const struct store_call *call, struct store_script *script,
                                   struct str key, const struct store_words *args,
                                   struct resp_value *value)
{
    const struct store_words keys = {&key, 1};
    struct str reply;

    return reply_value(store_run(call, script, &keys, args, &reply), &reply, value);
}

enum store_result store_swap(const struct store_call *call, struct str key,
                             const struct str *expected, struct str value, uint64_t ttl_ms)
{
    static struct store_script script = {
        .text = "if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end\n"
                "redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])\n"
                "return 1"};
    struct number_word ttl;
    struct resp_value done;

    if (expected == NULL) {
        return ask_value(call, key,
                         WORDS(STR("SET"), key, value, STR("NX"), STR("PX"), word_of(ttl_ms, &ttl)),
                         &done);
    }
    enum store_result result =
        run_value(call, &script, key, WORDS(*expected, value, word_of(ttl_ms, &ttl)), &done);
    return result == STORE_OK && done.number != 1 ? STORE_ABSENT : result;
}

enum store_result store_add(const struct store_call *call, struct str key, int64_t delta,
                            uint64_t ttl_ms, int64_t *sum)
{
    static struct store_script script = {.text =
                                             "local sum = redis.call('INCRBY', KEYS[1], ARGV[1])\n"
                                             "if redis.call('PTTL', KEYS[1]) < 0 then\n"
                                             "  redis.call('PEXPIRE', KEYS[1], ARGV[2])\n"
                                             "end\n"
                                             "return sum"};
    struct number_word ttl;
    struct resp_value value;
    struct str text = arena_printf(call->arena, "%lld", (long long) delta);
    enum store_result result =
        run_value(call, &script, key, WORDS(text, word_of(ttl_ms, &ttl)), &value);

    if (sum != NULL) {
        *sum = value.number;
    }
    return result == STORE_OK && value.type != RESP_INTEGER ? STORE_REFUSED : result;
}

/* ---- locks ---- */

enum store_result store_lock(const struct store_call *call, struct str key, struct str token,
                             uint64_t lease_ms)
{
    return store_swap(call, key, NULL, token, lease_ms);
}

enum store_result store_lock_renew(const struct store_call *call, struct str key, struct str token,
                                   uint64_t lease_ms)
{
    return store_swap(call, key, &token, token, lease_ms);
}

enum store_result store_unlock(const struct store_call *call, struct str key, struct str token)
{
    static struct store_script script = {
        .text = "if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end\n"
                "return redis.call('DEL', KEYS[1])"};
    struct resp_value done;
    enum store_result result = run_value(call, &script, key, WORDS(token), &done);

    return result == STORE_OK && done.number != 1 ? STORE_ABSENT : result;
}

/* ---- streams ---- */

enum store_result store_stream_add(const struct store_call *call, const struct store_stream *stream,
                                   const struct store_entry *entry)
{
    static struct store_script script = {
        .text = "local at = redis.call('XADD', KEYS[1], 'MAXLEN', '~', ARGV[1], '*', ARGV[3], "
                "ARGV[4])\n"
                "redis.call('PEXPIRE', KEYS[1], ARGV[2])\n"
                "return at"};
    struct number_word most, ttl;
    struct resp_value at;

    return run_value(call, &script, stream->key,
                     WORDS(word_of(stream->most, &most), word_of(stream->ttl_ms, &ttl),
                           entry->field, entry->value),
                     &at);
}

static bool cursor_set(struct store_cursor *cursor, struct str text)
{
    if (text.len >= sizeof(cursor->text) || text.len == 0) {
        return false;
    }
    *str_put(cursor->text, text) = '\0';
    return true;
}

/*
 * Gives {is_whole, the end of the stream, entries}. A cursor is not in the stream any more if
 * entries after it were trimmed, or if the stream ends before it.
 */
static struct store_script read_script = {
    .text = "local after, most = ARGV[1], tonumber(ARGV[2])\n"
            "local tail = redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1)\n"
            "local ends = tail[1] and tail[1][1] or '0-0'\n"
            "if most == 0 or ends == after then return {1, ends, {}} end\n"
            "local here = after == '0-0'\n"
            "if not here then\n"
            "  here = #redis.call('XRANGE', KEYS[1], after, after) == 1\n"
            "end\n"
            "if not here then return {0, ends, {}} end\n"
            "local found = redis.call('XRANGE', KEYS[1], '(' .. after, '+', 'COUNT', most)\n"
            "local flat = {}\n"
            "for i, entry in ipairs(found) do\n"
            "  flat[#flat + 1] = entry[1]\n"
            "  flat[#flat + 1] = entry[2][1]\n"
            "  flat[#flat + 1] = entry[2][2]\n"
            "end\n"
            "return {1, ends, flat}"};

/* Reads entries of three strings each. */
static bool take_entries(const struct store_call *call, struct str *reply, int64_t words,
                         struct store_cursor *cursor, struct vec *entries)
{
    for (; words >= 3; words -= 3) {
        struct store_entry entry;
        struct str at;

        if (!resp_next_string(reply, &at) || !resp_next_string(reply, &entry.field) ||
            !resp_next_string(reply, &entry.value) || !cursor_set(cursor, at)) {
            return false;
        }
        *vec_add(entries, call->arena, struct store_entry) = entry;
    }
    return words == 0;
}

enum store_result store_stream_read(const struct store_call *call, struct str key,
                                    struct store_cursor *cursor, unsigned most, struct vec *entries)
{
    const struct store_words keys = {&key, 1};
    struct number_word number;
    struct str reply, ends;
    int64_t is_whole;
    enum store_result result =
        store_run(call, &read_script, &keys, WORDS(str_of(cursor->text), word_of(most, &number)),
                  &reply);

    if (result != STORE_OK) {
        return result;
    }
    if (resp_next_list(&reply) != 3 || !resp_next_integer(&reply, &is_whole) ||
        !resp_next_string(&reply, &ends)) {
        return STORE_REFUSED;
    }
    if (is_whole == 0 || most == 0) {
        return !cursor_set(cursor, ends) ? STORE_REFUSED : most == 0 ? STORE_OK : STORE_ABSENT;
    }
    return take_entries(call, &reply, resp_next_list(&reply), cursor, entries) ? STORE_OK
                                                                               : STORE_REFUSED;
}

enum store_result store_stream_end(const struct store_call *call, struct str key,
                                   struct store_cursor *cursor)
{
    strcpy(cursor->text, "0-0");
    return store_stream_read(call, key, cursor, 0, NULL);
}
