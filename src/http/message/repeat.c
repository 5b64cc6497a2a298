/* Reuses the parse of repeated header blocks. */
#include "http/message/repeat.h"

#include "base/arena.h"
#include "http/message/parser.h"

/* The length of the common prefix. */
static uint32_t common_length(const char *a, const char *b, uint32_t len)
{
    uint32_t i = 0;

    for (; i + 8 <= len; i += 8) {
        uint64_t x;
        uint64_t y;
        memcpy(&x, a + i, 8);
        memcpy(&y, b + i, 8);
        if (x != y) {
            break;
        }
    }
    while (i < len && a[i] == b[i]) {
        i++;
    }
    return i;
}

static inline void restore_field(struct field *field, const struct repeat_field *from,
                                 const char *block)
{
    field->name = (struct str){block + from->name_start, from->name_len};
    field->value = (struct str){block + from->value_start, from->value_len};
    field->id = from->id;
    field->is_removed = false;
}

bool repeat_recall(const struct field_reading *reading, uint32_t space, struct str input,
                   uint32_t *used)
{
    const struct repeated *repeat = reading->repeat;
    const struct head_limits *limits = reading->limits;
    struct fields *fields = reading->fields;
    const struct head_limits *then = &repeat->limits;

    *used = 0;
    if (repeat->len == 0 || repeat->len > space || then->line_max != limits->line_max ||
        then->headers_max != limits->headers_max ||
        then->ignore_invalid != limits->ignore_invalid ||
        then->underscores != limits->underscores) {
        return false;
    }
    if (repeat->len <= input.len && memcmp(repeat->bytes, input.data, repeat->len) == 0) {
        /* The whole block matches: the lists of known fields are complete. */
        *fields = repeat->fields;
        fields->capacity = repeat->count + 4;
        fields->items = arena_alloc(reading->arena, fields->capacity * sizeof(*fields->items));
        for (uint32_t i = 0; i < repeat->count; i++) {
            restore_field(&fields->items[i], &repeat->items[i], input.data);
        }
        *used = repeat->len;
        return true;
    }
    uint32_t len = repeat->len < input.len ? repeat->len : (uint32_t) input.len;
    uint32_t common = common_length(repeat->bytes, input.data, len);
    /* A line is equal if all bytes before the name of the next line are equal. */
    for (uint32_t i = 0; i + 1 < repeat->count && repeat->items[i + 1].name_start <= common; i++) {
        struct field field;
        restore_field(&field, &repeat->items[i], input.data);
        fields_add_identified(fields, reading->arena, (enum field_id) field.id, field.name,
                              field.value);
        *used = repeat->items[i + 1].name_start;
    }
    return false;
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
