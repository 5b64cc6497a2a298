/* Header blocks that come again. */
#include "http/v1/repeat.h"

#include "base/arena.h"

static inline bool is_same_limits(const struct head_limits *a, const struct head_limits *b)
{
    return a->line_max == b->line_max && a->headers_max == b->headers_max &&
           a->ignore_invalid == b->ignore_invalid && a->underscores == b->underscores;
}

bool repeat_recall(const struct repeated *repeat, struct str input,
                   const struct head_limits *limits, struct arena *arena, struct fields *fields,
                   uint32_t *used)
{
    if (repeat->len == 0 || repeat->len > input.len || repeat->len > limits->head_max ||
        memcmp(repeat->bytes, input.data, repeat->len) != 0 ||
        !is_same_limits(&repeat->limits, limits)) {
        return false;
    }
    *fields = repeat->fields;
    fields->capacity = repeat->count + 4;
    fields->items = arena_alloc(arena, fields->capacity * sizeof(*fields->items));
    for (uint32_t i = 0; i < repeat->count; i++) {
        const struct repeat_field *from = &repeat->items[i];
        struct field *field = &fields->items[i];

        field->name = (struct str){input.data + from->name_start, from->name_len};
        field->value = (struct str){input.data + from->value_start, from->value_len};
        field->id = from->id;
        field->is_removed = false;
    }
    *used = repeat->len;
    return true;
}

void repeat_keep(struct repeated *repeat, struct str block, const struct head_limits *limits,
                 const struct fields *fields)
{
    repeat->len = 0;
    if (block.len > REPEAT_BYTES || fields->count > REPEAT_FIELDS) {
        return;
    }
    for (uint32_t i = 0; i < fields->count; i++) {
        const struct field *field = &fields->items[i];

        repeat->items[i] = (struct repeat_field){
            .name_start = (uint16_t) (field->name.data - block.data),
            .name_len = (uint16_t) field->name.len,
            .value_start = (uint16_t) (field->value.data - block.data),
            .value_len = (uint16_t) field->value.len,
            .id = field->id,
        };
    }
    memcpy(repeat->bytes, block.data, block.len);
    repeat->fields = *fields;
    repeat->limits = *limits;
    repeat->count = fields->count;
    repeat->len = (uint32_t) block.len;
}
