/* Fuzzes the HPACK decoder: blocks one after another against one table, and each field back and
 * forth. */
#include <stdlib.h>

#include "http/message/hpack.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What was decoded must come back the same from our own encoder. */
static void check_field(struct hpack_table *encoder, struct hpack_table *mirror,
                        const struct coded_field *field, struct arena *arena)
{
    char *room = malloc(hpack_field_room(field->name, field->value));
    struct coded_field again;

    if (room == NULL) {
        return;
    }
    char *end =
        hpack_put_field(room, encoder, (struct hpack_form){.stays_out = field->never_indexed},
                        field->name, field->value);
    struct str block = str_from(room, end);
    if (hpack_decode(mirror, &block, arena, 65536, &again) != HPACK_FIELD ||
        !str_equal_nocase(again.name, field->name) || !str_equal(again.value, field->value) ||
        mirror->size != encoder->size || mirror->count != encoder->count) {
        abort();
    }
    hpack_decode(mirror, &block, arena, 65536, &again);
    free(room);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct hpack_table decoder, encoder, mirror;
    size_t at = 0;

    hpack_table_init(&decoder, HPACK_TABLE_DEFAULT);
    hpack_table_init(&encoder, HPACK_TABLE_DEFAULT);
    hpack_table_init(&mirror, HPACK_TABLE_DEFAULT);
    /* A byte tells the length of each block. */
    for (bool is_sound = true; is_sound && at < size;) {
        size_t length = data[at++];
        length = length < size - at ? length : size - at;
        char *copy = malloc(length + 1);
        struct arena arena;
        struct coded_field field;

        if (copy == NULL) {
            break;
        }
        arena_init(&arena);
        memcpy(copy, data + at, length);
        char *input = realloc(copy, length == 0 ? 1 : length);
        struct str block = {input, length};
        enum hpack_result result;
        while ((result = hpack_decode(&decoder, &block, &arena, 4096, &field)) == HPACK_FIELD) {
            if (field.value.len > 4096 || decoder.size > decoder.max_size) {
                abort();
            }
            check_field(&encoder, &mirror, &field, &arena);
        }
        is_sound = result == HPACK_END;
        free(input);
        arena_free(&arena);
        at += length;
    }
    hpack_table_free(&decoder);
    hpack_table_free(&encoder);
    hpack_table_free(&mirror);
    return 0;
}
