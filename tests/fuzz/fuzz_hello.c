/* Fuzzes the reader of ClientHellos: any bytes, given at once and in growing pieces; both must say
 * the same. */
#include <stdlib.h>

#include "stream/modules/ssl_preread/hello.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool is_equal(const struct hello *a, const struct hello *b)
{
    return a->version == b->version && str_equal(a->name, b->name) &&
           str_equal(a->protocols, b->protocols);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct hello whole = {0}, pieces = {0};
    enum hello_result one, other = HELLO_MORE;
    struct arena arena;

    arena_init(&arena);
    char *copy = malloc(size == 0 ? 1 : size);
    if (copy == NULL) {
        return 0;
    }
    if (size != 0) {
        memcpy(copy, data, size);
    }
    one = hello_read(&whole, (struct str){copy, size}, &arena);
    for (size_t seen = 0; seen <= size && other == HELLO_MORE; seen++) {
        char *piece = malloc(seen == 0 ? 1 : seen); /* so that a byte read too far is seen */

        if (piece == NULL) {
            break;
        }
        if (seen != 0) {
            memcpy(piece, copy, seen);
        }
        other = hello_read(&pieces, (struct str){piece, seen}, &arena);
        free(piece);
    }
    if (one == HELLO_DONE &&
        (other == HELLO_MORE || (other == HELLO_DONE && !is_equal(&whole, &pieces)))) {
        abort();
    }
    if (whole.name.len > size || whole.protocols.len > size) {
        abort();
    }
    hello_version_name(whole.version);
    arena_free(&arena);
    free(copy);
    return 0;
}
