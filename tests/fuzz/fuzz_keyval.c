/* Fuzz target: pairs of keys and values as JSON, and the store they go to: what is shown of it
 * reads back as the same. */
#include <stdlib.h>

#include "base/log.h"
#include "shared/keyval/text.h"

enum { ZONE_SIZE = 64 * 4096 };

static struct zone make_zone(void)
{
    struct zone zone = {.size = ZONE_SIZE, .memory = shm_map(ZONE_SIZE)};

    zone.slab = slab_init(zone.memory, ZONE_SIZE);
    return zone;
}

static void fill(struct keyval_store *store, struct str text, struct arena *arena)
{
    const struct keyval_text_form form = {.expiry = STR("expires")};
    struct vec changes = {0};
    struct str value;

    if (!keyval_text_read(text, &form, arena, &changes)) {
        return;
    }
    if (keyval_make(store, &changes) == KEYVAL_EXISTS) {
        keyval_change(store, &changes);
    }
    vec_each(const struct keyval_change, change, &changes) {
        keyval_find(store, change->pair.key, arena, &value);
    }
}

static void show(struct keyval_store *store, struct buf *out)
{
    struct json json = {.out = out};
    uint32_t cursor = 0;

    json_open(&json, STR_NONE, '{');
    while (keyval_text_put(&json, store, &cursor, true)) {
    }
    json_close(&json, '}');
}

static uint64_t check_shown(struct str shown, enum keyval_type type, struct arena *arena)
{
    struct zone zone = make_zone();
    struct keyval_store *store = keyval_store_of(&zone, type);

    fill(store, shown, arena);
    uint64_t count = keyval_count(store);
    shm_unmap(zone.memory, ZONE_SIZE);
    return count;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena arena;
    struct buf out = {0};

    if (size == 0) {
        return 0;
    }
    enum keyval_type type = data[0] % 3;
    struct zone zone = make_zone();
    struct keyval_store *store = keyval_store_of(&zone, type);
    arena_init(&arena);
    fill(store, (struct str){(const char *) data + 1, size - 1}, &arena);
    show(store, &out);
    if (check_shown(buf_str(&out), type, &arena) != keyval_count(store)) {
        abort();
    }
    keyval_clear(store);
    if (keyval_count(store) != 0) {
        abort();
    }
    buf_free(&out);
    arena_free(&arena);
    shm_unmap(zone.memory, ZONE_SIZE);
    return 0;
}
