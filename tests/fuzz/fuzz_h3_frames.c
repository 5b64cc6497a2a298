/* Fuzzes HTTP/3's frame heads in pieces, and its settings. */
#include <stdlib.h>

#include "http/message/h3_frame.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* In one piece, or byte by byte: the same heads. */
static void check_heads(struct str input)
{
    struct h3_reader whole = {.size = 0}, slow = {.size = 0};
    struct str rest = input, bytes = input;
    uint64_t type, length, slow_type, slow_length;

    while (h3_read_frame(&whole, &rest, &type, &length)) {
        bool is_whole = false;
        while (!is_whole) {
            struct str byte = str_head(bytes, 1);
            if (byte.len == 0) {
                abort();
            }
            is_whole = h3_read_frame(&slow, &byte, &slow_type, &slow_length);
            bytes = str_skip(bytes, 1 - byte.len);
        }
        if (type != slow_type || length != slow_length || bytes.len != rest.len) {
            abort();
        }
        size_t payload = length < rest.len ? (size_t) length : rest.len;
        rest = bytes = str_skip(rest, payload);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct h3_settings settings;
    char *copy = malloc(size == 0 ? 1 : size);

    if (copy == NULL) {
        return 0;
    }
    memcpy(copy, data, size);
    struct str input = {copy, size};
    check_heads(input);
    h3_settings_read(input, &settings);
    free(copy);
    return 0;
}
