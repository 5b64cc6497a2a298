/* Fuzz target: the decoders of set_misc, and what they give back to their encoders. */
#include <stdlib.h>
#include <string.h>

#include "http/modules/values/set_misc/text.h"

static const struct str alphabet = STR_INIT("0123456789abcdefghijklmnopqrstuv");

static void check(bool is_right)
{
    if (!is_right) {
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str text = {(const char *) data, size};
    struct arena arena;
    struct str bytes;
    struct str again;

    arena_init(&arena);
    for (int is_padded = 0; is_padded < 2; is_padded++) {
        check(base32_decode(&arena, base32_encode(&arena, text, alphabet, is_padded), alphabet,
                            &again));
        check(str_equal(text, again));
    }
    if (base32_decode(&arena, text, alphabet, &bytes)) {
        base32_encode(&arena, bytes, alphabet, true);
    }
    set_misc_hex_decode(&arena, text, &bytes);
    bytes = quote_sql(&arena, text, STR("E"));
    /* The prefix stands before a text that is not empty. */
    check(bytes.len >= text.len + 2 + (text.len != 0) && bytes.data[bytes.len - 1] == '\'');
    quote_json(&arena, text);
    base32_is_alphabet(text);
    arena_free(&arena);
    return 0;
}
