/* Fuzz target: the body of POST and PATCH of an upstream's server, and values of JSON that are
 * passed over. */
#include <stdlib.h>

#include "base/json.h"
#include "http/modules/status/api/change.h"

static void demand(bool is_so)
{
    if (!is_so) {
        abort();
    }
}

/* A value is one after blanks, too; two are not one. */
static void check_value(struct str value, struct arena *arena)
{
    struct buf two = {0};

    buf_append(&two, STR(" \t"));
    buf_append(&two, value);
    buf_append(&two, STR("\r\n"));
    buf_append(&two, value);
    struct json_text text = {two.data, two.data + two.len, arena};
    demand(json_skip_value(&text) && !json_is_over(&text) && json_skip_value(&text) &&
           json_is_over(&text));
    buf_free(&two);
}

/* Members that are taken one by one are those that are passed over at once. */
static void check_members(struct json_text text)
{
    struct json_text probe = text;
    bool is_first = true, is_end = false, is_good = json_skip_value(&probe);
    struct str name;

    if (!json_skip(&text, '{')) {
        return;
    }
    while (json_next_member(&text, &is_first, &name, &is_end) && !is_end) {
        if (!json_skip_value(&text)) {
            demand(!is_good);
            return;
        }
    }
    demand(!is_good || (is_end && text.at == probe.at));
}

static void check_text(struct str text)
{
    demand(text.len <= SERVER_TEXT_MOST);
    for (size_t i = 0; i < text.len; i++) {
        demand((unsigned char) text.data[i] >= ' ' && text.data[i] != 0x7f);
    }
}

/* What may go into shared memory and state files. */
static void check_entry(const struct server_entry *entry, bool is_of_stream)
{
    check_text(entry->address);
    check_text(entry->service);
    check_text(entry->route);
    demand(entry->address.len != 0 && entry->weight >= 1 && entry->weight <= SERVER_WEIGHT_MOST);
    demand(entry->max_conns <= INT32_MAX && entry->max_fails <= INT32_MAX);
    demand(entry->fail_timeout_ms <= INT64_MAX / 2 && entry->slow_start_ms <= INT64_MAX / 2);
    demand(!is_of_stream || (entry->route.len == 0 && !entry->is_draining));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct server_entry entry = {.address = STR("a:1"), .weight = 1};
    struct server_change change = {.has_server = false};
    struct arena arena;

    if (size == 0) {
        return 0;
    }
    bool is_of_stream = data[0] % 2;
    const struct server_form form = {.is_stream = is_of_stream, .has_drain = data[0] % 4 < 2};
    struct str body = {(const char *) data + 1, size - 1};
    arena_init(&arena);
    struct json_text text = {body.data, body.data + body.len, &arena};
    check_members(text);
    bool is_value = json_skip_value(&text) && json_is_over(&text);
    if (is_value) {
        check_value(body, &arena);
    }
    if (server_change_read(body, &form, &arena, &change) == NULL) {
        demand(is_value);
        server_change_apply(&change, &entry);
        check_entry(&entry, is_of_stream);
    }
    arena_free(&arena);
    return 0;
}
