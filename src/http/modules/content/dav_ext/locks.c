/* Write locks in shared memory. A zone has as many records as fit, and searches look at all of
 * them: for a thousand records that takes less time than one system call on the file. */
#include "http/modules/content/dav_ext/locks.h"

#include "base/checksum.h"
#include "base/text.h"

/* ---- tokens ---- */

#define TOKEN_PREFIX "urn:uuid:"

struct str lock_token_text(struct arena *arena, const struct lock_token *token)
{
    static const unsigned groups[] = {4, 2, 2, 2, 6};
    const unsigned char *bytes = token->bytes;
    char *start = arena_text(arena, sizeof(TOKEN_PREFIX) - 1 + 36);
    char *at = STR_PUT(start, TOKEN_PREFIX);

    for (unsigned i = 0; i < 5; i++) {
        if (i != 0) {
            *at++ = '-';
        }
        at = hex_encode(at, bytes, groups[i]);
        bytes += groups[i];
    }
    return str_from(start, at);
}

bool lock_token_parse(struct str text, struct lock_token *out)
{
    unsigned digits = 0;

    if (!str_starts(text, STR(TOKEN_PREFIX))) {
        return false;
    }
    text = str_skip(text, sizeof(TOKEN_PREFIX) - 1);
    for (size_t i = 0; i < text.len; i++) {
        bool is_dash = i == 8 || i == 13 || i == 18 || i == 23;
        int value = hex_value[(unsigned char) text.data[i]];
        if (is_dash ? text.data[i] != '-' : value < 0 || digits == 2 * LOCK_TOKEN_SIZE) {
            return false;
        }
        if (!is_dash) {
            unsigned char *byte = &out->bytes[digits / 2];
            *byte = (unsigned char) (digits++ % 2 == 0 ? value << 4 : *byte | value);
        }
    }
    return digits == 2 * LOCK_TOKEN_SIZE;
}

static bool same_token(const struct lock_token *a, const struct lock_token *b)
{
    return memcmp(a->bytes, b->bytes, LOCK_TOKEN_SIZE) == 0;
}

static struct shm_key key_of(const struct shm_table *table, const struct lock_token *token)
{
    return shm_table_key(table, (struct str){(const char *) token->bytes, LOCK_TOKEN_SIZE});
}

/* ---- records ---- */

static struct str path_of(const struct lock_record *record)
{
    return (struct str){record->text, record->path_length};
}

/* Is it the directory that holds the path, or one above that? */
static bool is_above(struct str directory, struct str path)
{
    return str_starts(path, directory) && path.len > directory.len &&
           path.data[directory.len] == '/';
}

static struct str directory_of(struct str path)
{
    const char *slash = str_find_last_char(path, '/');

    return slash == NULL ? STR_NONE : str_from(path.data, slash);
}

/* The record if it holds a valid lock; an expired one is removed. Called with the table locked. */
static struct lock_record *live_at(struct shm_table *table, uint32_t number, uint64_t now_ms)
{
    struct lock_record *record = shm_table_at(table, number);

    if (record->record.kind != SHM_KEYED) {
        return NULL;
    }
    if (record->expires_ms <= now_ms) {
        shm_table_drop(table, record);
        return NULL;
    }
    return record;
}

static bool covers(const struct lock_record *record, struct str path)
{
    return str_equal(path_of(record), path) || (record->is_deep && is_above(path_of(record), path));
}

bool lock_covers(const struct lock *lock, struct str path)
{
    return str_equal(lock->path, path) || (lock->is_deep && is_above(lock->path, path));
}

/* The valid lock with this token that covers the path, or NULL. */
static struct lock_record *find(struct shm_table *table, const struct lock_token *token,
                                struct str path, uint64_t now_ms)
{
    struct shm_key key = key_of(table, token);
    struct lock_record *record = shm_table_find(table, &key);

    return record != NULL && record->expires_ms > now_ms && covers(record, path) ? record : NULL;
}

static void copy_out(struct arena *arena, const struct lock_record *record, uint64_t now_ms,
                     struct lock *lock)
{
    struct str text = {record->text,
                       (size_t) record->path_length + record->uri_length + record->owner_length};

    text = arena_dup(arena, text);
    lock->token = record->token;
    lock->path = str_head(text, record->path_length);
    text = str_skip(text, record->path_length);
    lock->uri = str_head(text, record->uri_length);
    lock->owner = str_skip(text, record->uri_length);
    lock->timeout_ms = record->expires_ms - now_ms;
    lock->is_deep = record->is_deep;
    lock->is_shared = record->is_shared;
}

enum { RECORDS_AT_ONCE = 256 }; /* records that are searched while the table is locked */

/* ---- operations ---- */

static bool conflicts(const struct lock_record *record, const struct lock *lock)
{
    bool meet =
        covers(record, lock->path) || (lock->is_deep && is_above(lock->path, path_of(record)));

    return meet && !(record->is_shared && lock->is_shared);
}

static void fill(struct lock_record *record, const struct lock *lock, uint64_t now_ms)
{
    char *at = str_put(record->text, lock->path);

    str_put(str_put(at, lock->uri), lock->owner);
    record->path_length = (uint16_t) lock->path.len;
    record->uri_length = (uint16_t) lock->uri.len;
    record->owner_length = (uint16_t) lock->owner.len;
    record->token = lock->token;
    record->expires_ms = now_ms + lock->timeout_ms;
    record->is_deep = lock->is_deep;
    record->is_shared = lock->is_shared;
}

enum lock_result lock_add(struct shm_table *table, struct lock *lock, uint64_t now_ms)
{
    enum lock_result result = LOCK_DONE;

    if (lock->path.len + lock->uri.len + lock->owner.len > LOCK_TEXT_MAX) {
        return LOCK_FULL;
    }
    random_bytes(lock->token.bytes, LOCK_TOKEN_SIZE);
    lock->token.bytes[6] =
        (unsigned char) ((lock->token.bytes[6] & 0x0f) | 0x40); /* the version, RFC 9562, 5.4 */
    lock->token.bytes[8] = (unsigned char) ((lock->token.bytes[8] & 0x3f) | 0x80);
    struct shm_key key = key_of(table, &lock->token);
    unsigned count = 0;
    shm_table_lock(table);
    for (uint32_t i = 0; i < shm_table_count(table) && result == LOCK_DONE; i++) {
        const struct lock_record *record = live_at(table, i, now_ms);
        if (record != NULL && conflicts(record, lock)) {
            result = LOCK_CONFLICT;
        } else if (record != NULL && covers(record, lock->path) && ++count == LOCKS_OF_ONE_MAX) {
            result = LOCK_FULL;
        }
    }
    struct lock_record *record = result == LOCK_DONE ? shm_table_add(table, &key) : NULL;
    if (record != NULL) {
        fill(record, lock, now_ms);
    } else if (result == LOCK_DONE) {
        result = LOCK_FULL;
    }
    shm_table_unlock(table);
    return result;
}

enum lock_result lock_refresh(struct shm_table *table, struct arena *arena, struct lock *lock,
                              uint64_t now_ms)
{
    shm_table_lock(table);
    struct lock_record *record = find(table, &lock->token, lock->path, now_ms);
    if (record != NULL) {
        record->expires_ms = now_ms + lock->timeout_ms;
        copy_out(arena, record, now_ms, lock);
    }
    shm_table_unlock(table);
    return record != NULL ? LOCK_DONE : LOCK_UNKNOWN;
}

enum lock_result lock_remove(struct shm_table *table, const struct lock_token *token,
                             struct str path, uint64_t now_ms)
{
    shm_table_lock(table);
    struct lock_record *record = find(table, token, path, now_ms);
    if (record != NULL) {
        shm_table_drop(table, record);
    }
    shm_table_unlock(table);
    return record != NULL ? LOCK_DONE : LOCK_UNKNOWN;
}

void lock_forget(struct shm_table *table, struct str path)
{
    shm_table_lock(table);
    for (uint32_t i = 0; i < shm_table_count(table); i++) {
        struct lock_record *record = shm_table_at(table, i);
        if (record->record.kind == SHM_KEYED &&
            (str_equal(path_of(record), path) || is_above(path, path_of(record)))) {
            shm_table_drop(table, record);
        }
    }
    shm_table_unlock(table);
}

bool lock_holds(struct shm_table *table, const struct lock_token *token, struct str path,
                uint64_t now_ms)
{
    shm_table_lock(table);
    bool holds = find(table, token, path, now_ms) != NULL;
    shm_table_unlock(table);
    return holds;
}

static bool is_known(const struct vec *tokens, const struct lock_token *token)
{
    vec_each(const struct lock_token, known, tokens) {
        if (same_token(known, token)) {
            return true;
        }
    }
    return false;
}

static bool concerns(const struct lock_record *record, const struct lock_target *target)
{
    return covers(record, target->path) ||
           (target->is_tree && is_above(target->path, path_of(record))) ||
           (target->is_member && str_equal(path_of(record), directory_of(target->path)));
}

bool lock_allows(struct shm_table *table, const struct lock_target *target,
                 const struct vec *tokens, uint64_t now_ms)
{
    bool is_shared_locked = false, has_shared = false, is_allowed = true;

    shm_table_lock(table);
    for (uint32_t i = 0; i < shm_table_count(table) && is_allowed; i++) {
        const struct lock_record *record = live_at(table, i, now_ms);
        if (record == NULL || !concerns(record, target)) {
            continue;
        }
        bool has_token = is_known(tokens, &record->token);
        if (record->is_shared) {
            is_shared_locked = true;
            has_shared |= has_token;
        } else {
            is_allowed = has_token;
        }
    }
    shm_table_unlock(table);
    return is_allowed && (!is_shared_locked || has_shared);
}

/* Adds the locks among some records, from `first` on. */
static void list_some(struct shm_table *table, const struct lock_view *view, uint32_t first,
                      struct vec *out)
{
    uint32_t count = shm_table_count(table);
    uint32_t end = count - first < RECORDS_AT_ONCE ? count : first + RECORDS_AT_ONCE;

    shm_table_lock(table);
    for (uint32_t i = first; i < end; i++) {
        const struct lock_record *record = live_at(table, i, view->now_ms);

        if (record != NULL &&
            (covers(record, view->path) || str_equal(directory_of(path_of(record)), view->path))) {
            copy_out(view->arena, record, view->now_ms, vec_add(out, view->arena, struct lock));
        }
    }
    shm_table_unlock(table);
}

void lock_list(struct shm_table *table, const struct lock_view *view, bool (*share)(void),
               struct vec *out)
{
    for (uint32_t i = 0; i < shm_table_count(table); i += RECORDS_AT_ONCE) {
        list_some(table, view, i, out);
        if (share != NULL && !share()) {
            break;
        }
    }
}
