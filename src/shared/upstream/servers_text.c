/* The servers of a group as bytes: the next id and the number of servers; for each its numbers, and
 * its strings with their lengths. */
#include "shared/upstream/servers_text.h"

#include "base/buf.h"
#include "base/parse.h"

enum { IS_BACKUP = 1, IS_DOWN = 2, IS_DRAINING = 4, WANTS_RESOLVE = 8, FLAGS = 15 };

static void put_string(struct buf *out, struct str string)
{
    buf_printf(out, " %zu:", string.len);
    buf_append(out, string);
}

struct str servers_text(const struct servers_list *list, struct arena *arena)
{
    struct buf out = {0};

    buf_printf(&out, "%u %zu", list->next_id, list->entries.count);
    vec_each(const struct server_entry, entry, &list->entries) {
        unsigned flags = (entry->is_backup ? IS_BACKUP : 0) | (entry->is_down ? IS_DOWN : 0) |
                         (entry->is_draining ? IS_DRAINING : 0) |
                         (entry->wants_resolve ? WANTS_RESOLVE : 0);
        buf_printf(&out, " %u %u %u %u %llu %llu %u", entry->id, entry->weight, entry->max_conns,
                   entry->max_fails, (unsigned long long) entry->fail_timeout_ms,
                   (unsigned long long) entry->slow_start_ms, flags);
        put_string(&out, entry->address);
        put_string(&out, entry->service);
        put_string(&out, entry->route);
        put_string(&out, entry->label);
    }
    struct str text = arena_dup(arena, buf_str(&out));
    buf_free(&out);
    return text;
}

/* A number, up to a space or the end. */
static bool take_number(struct str *rest, uint64_t most, uint64_t *out)
{
    struct str word = str_cut(rest, ' ');

    return word.len != 0 && parse_uint(word, out) && *out <= most;
}

static bool take_u32(struct str *rest, uint32_t most, uint32_t *out)
{
    uint64_t number;

    if (!take_number(rest, most, &number)) {
        return false;
    }
    *out = (uint32_t) number;
    return true;
}

static bool take_string(struct str *rest, struct str *out)
{
    struct str word = str_cut(rest, ':');
    uint64_t length;

    if (rest->data == NULL || !parse_uint(word, &length) || length > SERVER_TEXT_MOST ||
        length > rest->len) {
        return false;
    }
    *out = str_head(*rest, (size_t) length);
    *rest = str_skip(*rest, (size_t) length);
    if (rest->len == 0) {
        return true;
    }
    bool is_followed = rest->data[0] == ' ';
    *rest = str_skip(*rest, 1);
    return is_followed;
}

static bool take_entry(struct str *rest, struct server_entry *entry)
{
    uint32_t flags = 0;

    if (!take_u32(rest, UINT32_MAX, &entry->id) ||
        !take_u32(rest, SERVER_WEIGHT_MOST, &entry->weight) ||
        !take_u32(rest, UINT32_MAX, &entry->max_conns) ||
        !take_u32(rest, UINT32_MAX, &entry->max_fails) ||
        !take_number(rest, INT64_MAX / 2, &entry->fail_timeout_ms) ||
        !take_number(rest, INT64_MAX / 2, &entry->slow_start_ms) ||
        !take_u32(rest, FLAGS, &flags) || !take_string(rest, &entry->address) ||
        !take_string(rest, &entry->service) || !take_string(rest, &entry->route) ||
        !take_string(rest, &entry->label)) {
        return false;
    }
    entry->is_backup = (flags & IS_BACKUP) != 0;
    entry->is_down = (flags & IS_DOWN) != 0;
    entry->is_draining = (flags & IS_DRAINING) != 0;
    entry->wants_resolve = (flags & WANTS_RESOLVE) != 0;
    return entry->weight != 0 && entry->address.len != 0;
}

bool servers_text_read(struct str text, struct arena *arena, struct servers_list *list)
{
    uint32_t count, last_id = 0;

    list->entries = (struct vec){0};
    if (!take_u32(&text, UINT32_MAX, &list->next_id) || !take_u32(&text, SERVERS_MOST, &count)) {
        return false;
    }
    for (uint32_t i = 0; i < count; i++) {
        struct server_entry entry = {0};
        /* Ids must ascend, and be lower than the next id. */
        if (!take_entry(&text, &entry) || entry.id >= list->next_id ||
            (i != 0 && entry.id <= last_id)) {
            return false;
        }
        last_id = entry.id;
        *vec_add(&list->entries, arena, struct server_entry) = entry;
    }
    return text.len == 0;
}
