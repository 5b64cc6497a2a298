/* Fuzz target: the chunked decoder. However the input is cut, the same bytes come out. */
#include <stdlib.h>

#include "base/chunked.h"

#define OUT_MAX 65536

/* What decoding gave. */
struct outcome {
    char bytes[OUT_MAX];
    size_t len;
    enum chunked_result result;
    size_t used;
};

static void decode(struct str input, size_t step, struct outcome *outcome)
{
    struct chunked chunked = {0};
    size_t at = 0;

    outcome->len = 0;
    outcome->result = CHUNKED_MORE;
    while (at < input.len) {
        struct str part = str_head(str_skip(input, at), step);
        size_t before = part.len;

        while (part.len != 0) {
            struct str data;
            outcome->result = chunked_decode(&chunked, &part, &data);
            if (outcome->result == CHUNKED_DATA) {
                if (outcome->len + data.len > OUT_MAX) {
                    return;
                }
                memcpy(outcome->bytes + outcome->len, data.data, data.len);
                outcome->len += data.len;
            } else if (outcome->result != CHUNKED_MORE) {
                outcome->used = at + before - part.len;
                return;
            }
        }
        at += before;
    }
    outcome->result = CHUNKED_MORE;
    outcome->used = at;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct outcome whole;
    static struct outcome cut;
    struct str input = {(const char *) data, size};

    if (size == 0 || size > OUT_MAX) {
        return 0;
    }
    decode(input, size, &whole);
    decode(input, 1 + data[0] % 7, &cut);
    if (whole.result != cut.result || whole.used != cut.used || whole.len != cut.len ||
        memcmp(whole.bytes, cut.bytes, whole.len) != 0) {
        abort();
    }
    return 0;
}
