/* Fuzz target: replies of Redis. How they are cut makes no difference, and a whole one has its
 * values within its bytes. */
#include <stdlib.h>

#include "store/resp.h"

enum { SIZE_MAX_OF_REPLY = 65536 };

static enum resp_result scan(struct str input, size_t step, size_t *size)
{
    struct resp_scan state = {.at = 0};
    enum resp_result result = RESP_MORE;

    for (size_t length = 0; result == RESP_MORE && length < input.len;) {
        length = length + step < input.len ? length + step : input.len;
        result = resp_scan(&state, str_head(input, length), SIZE_MAX_OF_REPLY);
        if (result == RESP_WHOLE && state.at > length) {
            abort();
        }
    }
    *size = state.at;
    return result;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str input = {(const char *) data, size};
    struct resp_value value;
    size_t whole, cut;
    enum resp_result result = scan(input, size == 0 ? 1 : size, &whole);

    if (result != scan(input, 1, &cut) || (result == RESP_WHOLE && whole != cut)) {
        abort();
    }
    if (result == RESP_WHOLE) {
        struct str reply = str_head(input, whole), rest = reply;
        if (!resp_skip(&rest, 1)) {
            return 0; /* a number that is none */
        }
        if (rest.len != 0) {
            abort();
        }
        while (resp_next(&reply, &value)) {
            if (value.text.len != 0 && (value.text.data < input.data ||
                                        value.text.data + value.text.len > input.data + whole)) {
                abort();
            }
        }
    }
    return 0;
}
