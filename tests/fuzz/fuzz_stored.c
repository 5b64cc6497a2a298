/* Fuzz target: responses as srcache finds them stored. What is taken lies inside the bytes. */
#include <stdlib.h>

#include "http/message/stored.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str input = {(const char *) data, size};
    struct stored stored;
    struct arena arena;

    arena_init(&arena);
    if (stored_parse(input, input.len, &arena, &stored) == NULL) {
        if (stored.status < 200 || stored.status > 999 || stored.body.len > input.len ||
            (stored.body.len != 0 && stored.body.data + stored.body.len != input.data + size)) {
            abort();
        }
        fields_each(field, &stored.fields) {
            if (field->value.len != 0 &&
                memchr(field->value.data, '\n', field->value.len) != NULL) {
                abort();
            }
        }
    }
    arena_free(&arena);
    return 0;
}
