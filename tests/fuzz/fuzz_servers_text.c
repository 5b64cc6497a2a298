/* Fuzz target: the servers of a group as another node sent them. What is read is within bounds, and
 * is written so that it reads as the same. */
#include <stdlib.h>

#include "shared/upstream/servers_text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str input = {(const char *) data, size};
    struct servers_list list, again;
    struct arena arena;

    arena_init(&arena);
    if (servers_text_read(input, &arena, &list)) {
        struct str text = servers_text(&list, &arena);
        if (list.entries.count > SERVERS_MOST || !servers_text_read(text, &arena, &again) ||
            !str_equal(servers_text(&again, &arena), text)) {
            abort();
        }
        vec_each(const struct server_entry, entry, &list.entries) {
            if (entry->address.len > SERVER_TEXT_MOST ||
                (entry->label.len != 0 &&
                 (entry->label.data < input.data ||
                  entry->label.data + entry->label.len > input.data + size))) {
                abort();
            }
        }
    }
    arena_free(&arena);
    return 0;
}
