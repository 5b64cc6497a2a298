/* Fuzz target: what engines of discovery send. The first byte says which answer it is; addresses
 * that come out can be kept and written. */
#include <stdlib.h>

#include "upstream/discovery/private.h"

enum { MOST = 64 };

static void check_list(const struct vec *endpoints)
{
    if (endpoints->count > MOST + 1) {
        abort();
    }
    vec_each(struct resolved_address, endpoint, endpoints) {
        char text[ADDR_TEXT_MAX];

        if (endpoint->addr.len == 0 || addr_format(&endpoint->addr, true, text) > sizeof(text)) {
            abort();
        }
    }
}

static void take_slices(const struct discovery_slices *slices)
{
    struct discovery_items items = {.most = MOST};

    vec_each(struct discovery_slice, slice, &slices->slices) {
        check_list(&slice->endpoints);
        discovery_items_put(&items, slice->name, &slice->endpoints);
        if (items.endpoints > MOST || items.count > MOST) {
            abort();
        }
    }
    vec_each(struct discovery_slice, slice, &slices->slices) {
        discovery_items_drop(&items, slice->name);
    }
    if (items.endpoints != 0 || items.count != 0) {
        abort();
    }
    discovery_items_clear(&items);
}

static void read_answer(char kind, struct json_text text)
{
    struct discovery_answer consul = {.most = MOST};
    struct discovery_etcd_answer etcd = {.most = MOST};
    struct discovery_slices slices = {.port = STR("http"), .most = MOST};
    struct resolved_address endpoint;
    enum discovery_event event;

    switch (kind) {
    case 'c':
        discovery_consul_read(&text, &consul);
        check_list(&consul.endpoints);
        break;
    case 'r':
        discovery_etcd_range_read(&text, &etcd);
        break;
    case 'w':
        discovery_etcd_watch_read(&text, &etcd);
        break;
    case 'v':
        if (discovery_etcd_value_read(&text, &endpoint) && endpoint.weight == 0) {
            abort();
        }
        break;
    case 'l':
        if (discovery_slices_read(&text, &slices)) {
            take_slices(&slices);
        }
        break;
    case 'e':
        if (discovery_event_read(&text, &slices, &event) && event != DISCOVERY_BOOKMARK) {
            take_slices(&slices);
        }
        break;
    default:
        break;
    }
}

static void read_head(struct str input)
{
    struct discovery_link link = {.status = 0};
    ssize_t size = discovery_head_read(input, &link);

    if (size > (ssize_t) input.len || (size > 0 && link.status < 100)) {
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena arena;

    if (size == 0) {
        return 0;
    }
    /* In memory of its own size, so that a byte beyond is noticed. */
    char *copy = malloc(size);
    memcpy(copy, data, size);
    struct str input = {copy + 1, size - 1};
    arena_init(&arena);
    if (copy[0] == 'h') {
        read_head(input);
    } else {
        read_answer(copy[0], (struct json_text){input.data, input.data + input.len, &arena});
    }
    arena_free(&arena);
    free(copy);
    return 0;
}
