/* Fuzz target: the end of Redis' answers. How they are cut makes no difference, and nothing is
 * taken beyond the end. The first byte is the number of answers. */
#include <stdlib.h>

#include "http/modules/backends/redis2/reply.h"

static enum reply_result take(struct str input, uint64_t count, size_t step, size_t *total)
{
    struct reply reply;
    enum reply_result result = REPLY_MORE;
    size_t used = 1;

    reply_begin(&reply, count);
    for (*total = 0; result == REPLY_MORE && used != 0; *total += used) {
        struct str piece = str_head(str_skip(input, *total), step);
        result = reply_take(&reply, piece, &used);
        if (used > piece.len || (result == REPLY_MORE && used != piece.len)) {
            abort();
        }
    }
    return result;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t whole;
    size_t cut;

    if (size == 0) {
        return 0;
    }
    struct str input = {(const char *) data + 1, size - 1};
    if (take(input, data[0], size, &whole) != take(input, data[0], 1, &cut) || whole != cut) {
        abort();
    }
    return 0;
}
