/* Fuzz target: a response as another node gave it. What is read lies inside the text, and is
 * written so that it reads as the same. */
#include <stdlib.h>

#include "http/exchange/cache/shared_text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str input = {(const char *) data, size}, body, body_again;
    struct upstream_response response, again;
    struct shared_times times, times_again;
    struct arena arena;
    struct buf text = {0};

    arena_init(&arena);
    if (shared_text_read(input, &arena, &times, &response, &body)) {
        if (response.status < 200 || response.status > 599 ||
            (body.len != 0 && body.data + body.len != input.data + size)) {
            abort();
        }
        if (shared_text_begin(&text, &times, &response)) {
            buf_append(&text, body);
            if (!shared_text_read(buf_str(&text), &arena, &times_again, &again, &body_again) ||
                !str_equal(body, body_again) || again.status != response.status ||
                !str_equal(again.reason, response.reason) ||
                again.fields.count != response.fields.count ||
                memcmp(&times, &times_again, sizeof(times)) != 0) {
                abort();
            }
        }
    }
    buf_free(&text);
    arena_free(&arena);
    return 0;
}
