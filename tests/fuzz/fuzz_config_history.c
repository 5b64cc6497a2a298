/* Fuzzing of records of config_history: any bytes; what is read is written the same way. */
#include <stdlib.h>

#include "server/configuration/history.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const struct history_entry *a, const struct history_entry *b)
{
    const struct conf_file *other = b->files;

    for (const struct conf_file *file = a->files; file != NULL; file = file->next) {
        if (other == NULL || !str_equal(file->name, other->name) ||
            !str_equal(file->text, other->text) || file->name.data[file->name.len] != '\0') {
            abort();
        }
        other = other->next;
    }
    if (other != NULL || a->number != b->number || a->before != b->before) {
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str text = {(const char *) data, size};
    struct history_entry entry, again;
    struct arena arena;

    arena_init(&arena);
    if (history_parse(&arena, text, &entry)) {
        struct buf out = {0};

        history_write(&out, &entry);
        struct str written = buf_str(&out);
        if (!history_strip_checksum(&written) || !history_parse(&arena, written, &again)) {
            abort();
        }
        check(&entry, &again);
        buf_free(&out);
    }
    if (history_strip_checksum(&text)) {
        history_parse(&arena, text, &entry);
    }
    arena_free(&arena);
    return 0;
}
