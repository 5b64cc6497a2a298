/* What Lua does with a shared dictionary: get, set, incr, ttl, flush. */
#include "lua/dict/values.h"

#include "base/clock.h"

enum {
    EVICTED_MOST = 30, /* entries that go for one that comes */
    EXPIRED_MOST = 2,  /* that are removed on the way, by each call that may add */
};

struct dict_item *dict_item_make(struct dict_table *table, struct str key, uint32_t hash,
                                 size_t value_len, bool *is_forcible)
{
    struct dict_item *item = dict_item_new(table, key, hash, value_len);

    for (int i = 0;
         item == NULL && is_forcible != NULL && i < EVICTED_MOST && dict_evict(table, is_forcible);
         i++) {
        item = dict_item_new(table, key, hash, value_len);
    }
    return item;
}

bool dict_copy_out(struct script_dict_value *out, unsigned type, const char *data, size_t len)
{
    out->type = (int) type;
    if (type == DICT_STRING) {
        out->len = (double) len;
        if (len > out->room_size) {
            return false;
        }
        memcpy(out->room, data, len);
    } else if (type == DICT_NUMBER) {
        memcpy(&out->number, data, sizeof(out->number));
    } else {
        out->number = *data;
    }
    return true;
}

/* Seconds of Lua to a moment; 0 = never. */
static uint64_t moment(double seconds)
{
    double ms = seconds * 1000;

    return ms < 1 ? 0 : ms > 1e15 ? UINT64_MAX : clock_now.now_ms + (uint64_t) ms;
}

int script_ffi_dict_get(struct script_dict *dict, const char *key, size_t key_len, int wants_stale,
                        struct script_dict_value *out)
{
    struct dict_table *table = dict->table;
    struct str name = {key, key_len};
    uint32_t hash = dict_hash(name);

    out->type = DICT_NONE;
    dict_lock(table);
    struct dict_item *item = dict_find(table, name, hash);
    if (item != NULL) {
        out->is_stale = dict_has_expired(item, clock_now.now_ms);
        if (!out->is_stale || wants_stale) {
            dict_touch(table, item);
            out->flags = item->flags;
            if (item->type == DICT_LIST) {
                out->type = DICT_LIST;
            } else {
                dict_copy_out(out, item->type, dict_value_of(item), item->value_len);
            }
        }
    }
    dict_unlock(table);
    return out->type;
}

/* ---- set ---- */

/* A value as it is kept; *is_true is the place of a boolean. */
static struct str bytes_of(const struct script_dict_value *value, char *is_true)
{
    switch (value->type) {
    case DICT_NUMBER:
        return (struct str){(const char *) &value->number, sizeof(value->number)};
    case DICT_BOOLEAN:
        *is_true = value->number != 0;
        return (struct str){is_true, 1};
    default:
        return (struct str){value->data, (size_t) value->len};
    }
}

static void fill(struct dict_item *item, const struct script_dict_value *value, struct str bytes)
{
    if (bytes.len != 0) {
        memcpy(dict_value_of(item), bytes.data, bytes.len);
    }
    item->value_len = (uint32_t) bytes.len;
    item->type = (uint8_t) value->type;
    item->flags = value->flags;
    item->expires_ms = moment(value->seconds);
}

/* Writes a value into an item that has room for it, so that nothing is allocated. */
static void refill(struct dict_table *table, struct dict_item *item,
                   const struct script_dict_value *value, struct str bytes)
{
    item->is_torn = true;
    atomic_signal_fence(memory_order_seq_cst);
    fill(item, value, bytes);
    atomic_signal_fence(memory_order_seq_cst);
    item->is_torn = false;
    dict_touch(table, item);
}

/* May this be set, where there is an item that is valid, or none? */
static int script_values_check(int how, bool is_there)
{
    if (how == DICT_REPLACE && !is_there) {
        return DICT_NOT_FOUND;
    }
    return (how == DICT_ADD || how == DICT_SAFE_ADD) && is_there ? DICT_EXISTS : DICT_OK;
}

/* how: DICT_SET, or add, replace and safe_*, of which the safe ones evict nothing.
 * value->is_forcible: something valid was evicted. */
static int set(struct dict_table *table, struct str key, int how, struct script_dict_value *value)
{
    bool is_forcible = false, is_safe = how == DICT_SAFE_SET || how == DICT_SAFE_ADD;
    uint32_t hash = dict_hash(key);
    char is_true;
    struct str bytes = bytes_of(value, &is_true);
    struct dict_item *item = dict_find(table, key, hash);
    int result =
        script_values_check(how, item != NULL && !dict_has_expired(item, clock_now.now_ms));

    if (result != DICT_OK) {
        return result;
    }
    if (item != NULL && value->type != DICT_NONE && item->type != DICT_LIST &&
        dict_item_fits(item, bytes.len)) {
        refill(table, item, value, bytes);
        return DICT_OK;
    }
    if (item != NULL) {
        dict_item_remove(table, item);
    }
    if (value->type == DICT_NONE) {
        return DICT_OK;
    }
    item = dict_item_make(table, key, hash, bytes.len, is_safe ? NULL : &is_forcible);
    value->is_forcible = is_forcible;
    if (item == NULL) {
        return DICT_NO_MEMORY;
    }
    fill(item, value, bytes);
    dict_item_add(table, item);
    return DICT_OK;
}

int script_ffi_dict_set(struct script_dict *dict, const char *key, size_t key_len, int how,
                        struct script_dict_value *value)
{
    value->is_forcible = false;
    dict_lock(dict->table);
    dict_drop_expired(dict->table, EXPIRED_MOST);
    int result = set(dict->table, (struct str){key, key_len}, how, value);
    dict_unlock(dict->table);
    return result;
}

/* ---- incr ---- */

static int incr(struct dict_table *table, struct str key, bool has_init,
                struct script_dict_value *value)
{
    uint32_t hash = dict_hash(key);
    struct dict_item *item = dict_find(table, key, hash);

    if (item != NULL && !dict_has_expired(item, clock_now.now_ms)) {
        double sum;

        if (item->type != DICT_NUMBER) {
            return DICT_NOT_NUMBER;
        }
        memcpy(&sum, dict_value_of(item), sizeof(sum));
        sum += value->number;
        memcpy(dict_value_of(item), &sum, sizeof(sum));
        value->number = sum;
        dict_touch(table, item);
        return DICT_OK;
    }
    if (!has_init) {
        return DICT_NOT_FOUND;
    }
    value->type = DICT_NUMBER;
    value->number += value->init;
    value->flags = 0;
    return set(table, key, DICT_SET, value);
}

int script_ffi_dict_incr(struct script_dict *dict, const char *key, size_t key_len, int has_init,
                         struct script_dict_value *value)
{
    value->is_forcible = false;
    dict_lock(dict->table);
    dict_drop_expired(dict->table, EXPIRED_MOST);
    int result = incr(dict->table, (struct str){key, key_len}, has_init != 0, value);
    dict_unlock(dict->table);
    return result;
}

/* ---- ttl, expire ---- */

int script_ffi_dict_ttl(struct script_dict *dict, const char *key, size_t key_len,
                        struct script_dict_value *out)
{
    struct str name = {key, key_len};

    dict_lock(dict->table);
    const struct dict_item *item = dict_find(dict->table, name, dict_hash(name));
    if (item != NULL) {
        out->seconds = item->expires_ms == 0
                           ? 0
                           : ((double) item->expires_ms - (double) clock_now.now_ms) / 1000;
    }
    dict_unlock(dict->table);
    return item != NULL ? DICT_OK : DICT_NOT_FOUND;
}

int script_ffi_dict_expire(struct script_dict *dict, const char *key, size_t key_len,
                           double seconds)
{
    struct str name = {key, key_len};
    int result = DICT_NOT_FOUND;

    dict_lock(dict->table);
    struct dict_item *item = dict_find(dict->table, name, dict_hash(name));
    if (item != NULL) { /* also one that has expired and is still there: it lives again */
        item->expires_ms = moment(seconds);
        dict_touch(dict->table, item);
        result = DICT_OK;
    }
    dict_unlock(dict->table);
    return result;
}

/* ---- all entries ---- */

void script_ffi_dict_flush_all(struct script_dict *dict)
{
    struct dict_table *table = dict->table;

    dict_lock(table);
    for (dict_ref ref = table->oldest; ref != 0; ref = dict_item_at(table, ref)->newer) {
        dict_item_at(table, ref)->expires_ms = 1;
    }
    dict_drop_expired(table, EXPIRED_MOST + 1);
    dict_unlock(table);
}

double script_ffi_dict_flush_expired(struct script_dict *dict, double most)
{
    struct dict_table *table = dict->table;
    double count = 0;

    dict_lock(table);
    for (dict_ref ref = table->oldest; ref != 0 && (most <= 0 || count < most);) {
        struct dict_item *item = dict_item_at(table, ref);

        ref = item->newer;
        if (dict_has_expired(item, clock_now.now_ms)) {
            dict_item_remove(table, item);
            count++;
        }
    }
    dict_unlock(table);
    return count;
}

/* Writes the keys of items that have not expired to `out`, or to nowhere when it is NULL; gives
 * their bytes. */
static size_t each_key(struct dict_table *table, double most, char *out)
{
    size_t bytes = 0;
    double count = 0;

    for (dict_ref ref = table->oldest; ref != 0 && (most <= 0 || count < most);) {
        struct dict_item *item = dict_item_at(table, ref);

        ref = item->newer;
        if (dict_has_expired(item, clock_now.now_ms)) {
            continue;
        }
        if (out != NULL) {
            memcpy(out + bytes, &item->key_len, sizeof(item->key_len));
            memcpy(out + bytes + sizeof(item->key_len), item->data, item->key_len);
        }
        bytes += sizeof(item->key_len) + item->key_len;
        count++;
    }
    return bytes;
}

void script_ffi_dict_keys(struct script_dict *dict, double most, struct script_dict_value *out)
{
    dict_lock(dict->table);
    size_t len = each_key(dict->table, most, NULL);
    if (len <= out->room_size) {
        each_key(dict->table, most, out->room);
    }
    dict_unlock(dict->table);
    out->type = DICT_STRING;
    out->len = (double) len;
}

double script_ffi_dict_capacity(const struct script_dict *dict)
{
    return (double) dict->size;
}

double script_ffi_dict_free_space(const struct script_dict *dict)
{
    return (double) slab_available(dict->zone->slab);
}
