/* Fuzz target: reading of Protocol Buffers. Fields lie in the message, and what is read is used up.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/protobuf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *copy = malloc(size + 1); /* of its own, so that a read beyond it is seen */
    struct str rest = {copy, size};
    struct protobuf_field field;
    struct buf out = {0};
    bool is_bad;

    memcpy(copy, data, size);
    for (size_t before = rest.len; protobuf_next(&rest, &field, &is_bad); before = rest.len) {
        if (rest.len >= before || field.number == 0 ||
            (field.bytes.len != 0 && field.bytes.data + field.bytes.len > copy + size)) {
            abort();
        }
        protobuf_put_text(&out, field.number, field.bytes, 100);
    }
    buf_free(&out);
    free(copy);
    return 0;
}
