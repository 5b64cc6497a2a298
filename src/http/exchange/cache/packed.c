/* Heads of responses as the cache keeps them: reason and fields, ready to be used without parsing.
 */
#include <string.h>

#include "http/exchange/cache/caching.h"

/*
 * The layout, in the machine's byte order (the cache's files do not travel): length of the reason
 * and OF_HEAD, the reason, number of fields; for each its number, lengths of name and value, name,
 * value.
 */
struct packed_field {
    uint32_t value_len;
    uint16_t name_len;
    uint16_t id;
};

/* In the number before the reason: older files have none. */
#define OF_HEAD 0x80000000u

void packed_response_set_of_head(struct str packed)
{
    uint32_t first;

    memcpy(&first, packed.data, sizeof(first));
    first |= OF_HEAD;
    memcpy((char *) packed.data, &first, sizeof(first));
}

bool packed_response_is_of_head(struct str packed)
{
    uint32_t first = 0;

    memcpy(&first, packed.data, packed.len < sizeof(first) ? 0 : sizeof(first));
    return (first & OF_HEAD) != 0;
}

struct str upstream_response_pack(const struct upstream_response *response, struct arena *arena)
{
    uint32_t reason_len = (uint32_t) response->reason.len;
    uint32_t count = 0;
    size_t size = 2 * sizeof(uint32_t) + reason_len;

    fields_each(field, &response->fields) {
        if (!field->is_removed) {
            if (field->name.len > UINT16_MAX || field->value.len > UINT32_MAX) {
                return STR_NONE;
            }
            size += sizeof(struct packed_field) + field->name.len + field->value.len;
            count++;
        }
    }
    char *bytes = arena_text(arena, size);
    char *at = bytes;
    memcpy(at, &reason_len, sizeof(reason_len));
    at += sizeof(reason_len);
    at = str_put(at, response->reason);
    memcpy(at, &count, sizeof(count));
    at += sizeof(count);
    fields_each(field, &response->fields) {
        if (field->is_removed) {
            continue;
        }
        struct packed_field head = {.value_len = (uint32_t) field->value.len,
                                    .name_len = (uint16_t) field->name.len,
                                    .id = field->id};
        memcpy(at, &head, sizeof(head));
        at += sizeof(head);
        at = str_put(at, field->name);
        at = str_put(at, field->value);
    }
    return (struct str){bytes, (size_t) (at - bytes)};
}

static bool take_bytes(struct str *rest, void *out, size_t size)
{
    if (rest->len < size) {
        return false;
    }
    memcpy(out, rest->data, size);
    *rest = str_skip(*rest, size);
    return true;
}

static bool packed_take_text(struct str *rest, struct str *out, size_t size)
{
    if (rest->len < size) {
        return false;
    }
    *out = str_head(*rest, size);
    *rest = str_skip(*rest, size);
    return true;
}

bool upstream_response_unpack(struct str packed, struct arena *arena, struct upstream_response *out)
{
    uint32_t reason_len;
    uint32_t count;

    out->is_of_head = packed_response_is_of_head(packed);
    if (!take_bytes(&packed, &reason_len, sizeof(reason_len)) ||
        !packed_take_text(&packed, &out->reason, reason_len & ~OF_HEAD) ||
        !take_bytes(&packed, &count, sizeof(count))) {
        return false;
    }
    for (uint32_t i = 0; i < count; i++) {
        struct packed_field head;
        struct str name;
        struct str value;

        if (!take_bytes(&packed, &head, sizeof(head)) || head.id >= FIELD_COUNT ||
            !packed_take_text(&packed, &name, head.name_len) ||
            !packed_take_text(&packed, &value, head.value_len)) {
            return false;
        }
        fields_add_identified(&out->fields, arena, (enum field_id) head.id, name, value);
    }
    return packed.len == 0;
}
