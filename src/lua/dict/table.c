/* The table of a shared dictionary: heads of hash chains, items in the order of use; repaired after
 * a death inside. */
#include "lua/dict/table.h"

#include <stdlib.h>

#include "base/checksum.h"
#include "base/clock.h"
#include "base/fatal.h"
#include "base/log.h"
#include "lua/dict/dict.h"
#include "lua/dict/lua.h"
#include "lua/vm/function.h"
#include "lua/vm/library.h"
#include "lua/vm/names.h"
#include "lua/vm/thread.h"

enum {
    PAGE = 4096,
    CHUNK_LEAST = 16,
    CHUNK_MOST = PAGE / 2,
    BYTES_PER_HEAD = 128, /* of the zone: one entry a head when entries are small */
    ZONE_PAGES_LEAST = 8,
    PAGE_COST = 48, /* of our allocator, for each page, and for all of them together */
    SLAB_COST = 1024,
    NGINX_PAGE_COST = 24, /* the same of nginx's, and the pages that its dictionary takes at once */
    NGINX_SLAB_COST = 800,
    NGINX_OWN_PAGES = 2,
};

/* ---- layout ---- */

static size_t pages_for(size_t bytes)
{
    return (bytes + PAGE - 1) / PAGE;
}

/* Pages that entries have in nginx where the directive says `size`. */
static size_t wanted_pages(size_t size)
{
    size_t pages = size / PAGE;

    while (pages > 0 &&
           pages_for(NGINX_SLAB_COST + pages * NGINX_PAGE_COST) + pages > size / PAGE) {
        pages--;
    }
    return pages > NGINX_OWN_PAGES + 1 ? pages - NGINX_OWN_PAGES : 1;
}

static size_t head_count(size_t size)
{
    size_t heads = 64;

    while (heads * BYTES_PER_HEAD < size && heads < UINT32_MAX / 2) {
        heads *= 2;
    }
    return heads;
}

static size_t table_pages(size_t size)
{
    return pages_for(sizeof(struct dict_table) + head_count(size) * sizeof(dict_ref));
}

size_t dict_zone_size(size_t size)
{
    size_t pages = wanted_pages(size) + table_pages(size);

    if (pages < ZONE_PAGES_LEAST) {
        pages = ZONE_PAGES_LEAST;
    }
    return (pages + pages_for(SLAB_COST + pages * PAGE_COST)) * PAGE;
}

struct dict_table *dict_table_of(struct zone *zone, size_t size)
{
    struct dict_table *table = zone->root;

    if (table != NULL) {
        return table;
    }
    size_t room = slab_available(zone->slab) / PAGE;
    size_t wanted = wanted_pages(size);

    if (room < wanted + table_pages(size)) {
        return NULL;
    }
    table = slab_alloc(zone->slab, (room - wanted) * PAGE);
    if (table == NULL) {
        return NULL;
    }
    shm_lock_init(&table->lock);
    table->slab = zone->slab;
    table->base = zone->memory;
    table->end = (dict_ref) (zone->size >> 4);
    table->mask = (uint32_t) head_count(size) - 1;
    zone->root = table;
    return table;
}

/* ---- chains ---- */

uint32_t dict_hash(struct str key)
{
    return (uint32_t) keyed_hash(key);
}

struct dict_item *dict_find(const struct dict_table *table, struct str key, uint32_t hash)
{
    dict_ref ref = table->heads[hash & table->mask];

    while (ref != 0) {
        struct dict_item *item = dict_item_at(table, ref);

        if (item->hash == hash && item->key_len == key.len &&
            memcmp(item->data, key.data, key.len) == 0) {
            return item;
        }
        ref = item->next;
    }
    return NULL;
}

static void link_use(struct dict_table *table, struct dict_item *item)
{
    dict_ref ref = dict_ref_of(table, item);

    item->newer = 0;
    item->older = table->newest;
    *(table->newest == 0 ? &table->oldest : &dict_item_at(table, table->newest)->newer) = ref;
    table->newest = ref;
}

static void unlink_use(struct dict_table *table, const struct dict_item *item)
{
    *(item->newer == 0 ? &table->newest : &dict_item_at(table, item->newer)->older) = item->older;
    *(item->older == 0 ? &table->oldest : &dict_item_at(table, item->older)->newer) = item->newer;
}

void dict_touch(struct dict_table *table, struct dict_item *item)
{
    if (item->newer != 0) {
        unlink_use(table, item);
        link_use(table, item);
    }
}

/* ---- items ---- */

/* Bytes of the piece that the allocator gives for so many. */
static size_t piece_size(size_t size)
{
    size_t chunk = CHUNK_LEAST;

    if (size > CHUNK_MOST) {
        return pages_for(size) * PAGE;
    }
    while (chunk < size) {
        chunk *= 2;
    }
    return chunk;
}

static size_t item_size(size_t key_len, size_t value_len)
{
    return offsetof(struct dict_item, data) + key_len + value_len;
}

bool dict_item_fits(const struct dict_item *item, size_t value_len)
{
    return piece_size(item_size(item->key_len, item->value_len)) ==
           piece_size(item_size(item->key_len, value_len));
}

struct dict_item *dict_item_new(struct dict_table *table, struct str key, uint32_t hash,
                                size_t value_len)
{
    struct dict_item *item = slab_alloc(table->slab, item_size(key.len, value_len));

    if (item != NULL) {
        item->hash = hash;
        item->value_len = (uint32_t) value_len;
        item->key_len = (uint16_t) key.len;
        memcpy(item->data, key.data, key.len);
    }
    return item;
}

void dict_item_add(struct dict_table *table, struct dict_item *item)
{
    dict_ref *head = &table->heads[item->hash & table->mask];

    item->next = *head;
    dict_decide(head, dict_ref_of(table, item));
    link_use(table, item);
}

void dict_item_remove(struct dict_table *table, struct dict_item *item)
{
    dict_ref ref = dict_ref_of(table, item);
    dict_ref *place = &table->heads[item->hash & table->mask];

    while (*place != ref) {
        place = &dict_item_at(table, *place)->next;
    }
    dict_decide(place, item->next);
    unlink_use(table, item);
    if (item->type == DICT_LIST) {
        dict_list_clear(table, item);
    }
    slab_free(table->slab, item);
}

void dict_drop_expired(struct dict_table *table, unsigned most)
{
    while (most-- > 0 && table->oldest != 0) {
        struct dict_item *item = dict_item_at(table, table->oldest);

        if (!dict_has_expired(item, clock_now.now_ms)) {
            return;
        }
        dict_item_remove(table, item);
    }
}

bool dict_evict(struct dict_table *table, bool *was_valid)
{
    if (table->oldest == 0) {
        return false;
    }
    struct dict_item *item = dict_item_at(table, table->oldest);
    *was_valid = *was_valid || !dict_has_expired(item, clock_now.now_ms);
    dict_item_remove(table, item);
    return true;
}

/* ---- after a death inside ---- */

/* Is the item as it was meant to be? Lists are repaired; one that has no element yet, or none any
 * more, is nothing. */
static bool is_whole(struct dict_table *table, struct dict_item *item, unsigned char *marks)
{
    return !item->is_torn && (item->type != DICT_LIST || dict_list_mend(table, item, marks));
}

/* What slab_keep is asked with. */
struct reached {
    const struct dict_table *table;
    const unsigned char *marks;
};

static bool was_reached(void *arg, const void *piece)
{
    const struct reached *reached = arg;
    dict_ref ref = dict_ref_of(reached->table, piece);

    return (reached->marks[ref / 8] >> ref % 8 & 1) != 0;
}

/* The order of use is lost: that of the chains takes its place. */
static void mend(struct dict_table *table)
{
    unsigned char *marks = calloc(table->end / 8 + 1, 1);

    if (marks == NULL) {
        fatal_no_memory(table->end / 8 + 1);
    }
    dict_mark(marks, dict_ref_of(table, table));
    table->newest = table->oldest = 0;
    for (uint32_t i = 0; i <= table->mask; i++) {
        dict_ref *place = &table->heads[i];

        while (*place != 0) {
            struct dict_item *item = dict_item_at(table, *place);

            if (is_whole(table, item, marks)) {
                dict_mark(marks, *place);
                link_use(table, item);
                place = &item->next;
            } else {
                dict_decide(place, item->next);
            }
        }
    }
    slab_keep(table->slab, was_reached, &(struct reached){table, marks});
    free(marks);
}

void dict_lock(struct dict_table *table)
{
    if (shm_lock_take(&table->lock)) {
        mend(table);
        log_alert(
            log_main, 0,
            "a process died while it changed a shared dictionary; the dictionary was repaired");
    }
}

void dict_unlock(struct dict_table *table)
{
    shm_lock_release(&table->lock);
}

/* ---- ngx.shared: a table with an object for each dictionary; library/dict/dict.lua has their
 * methods ---- */

/* The dictionary for what an object of ngx.shared has at 1; NULL: there is none. */
static void *udata_to_zone(void *udata)
{
    const struct script_subject *subject = script_running_subject();
    struct script_dict *dict = subject != NULL ? subject->vm->options->dicts : NULL;

    while (dict != NULL && dict != udata) {
        dict = dict->next;
    }
    return dict;
}
SCRIPT_FFI_NAME(udata_to_zone, shdict_udata_to_zone);

SCRIPT_TEXT(script_dict_text, "src/lua/library/dict/dict.lua")

void script_dict_add(struct script_vm *vm, lua_State *L)
{
    script_text_load(L, "dict.dict", SCRIPT_TEXT_OF(script_dict_text));
    lua_newtable(L);
    for (struct script_dict *dict = vm->options->dicts; dict != NULL; dict = dict->next) {
        script_push_str(L, dict->name);
        lua_pushlightuserdata(L, dict);
        lua_rawset(L, -3);
    }
    lua_call(L, 1, 1);
    lua_setfield(L, -2, "shared");
}
