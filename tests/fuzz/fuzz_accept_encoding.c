/* Fuzz target: Accept-Encoding, and Accept. A weight is one; what a coding has hangs on no other
 * coding's name; a type that is chosen was named. */
#include <stdlib.h>
#include <string.h>

#include "http/message/accept.h"
#include "http/message/accept_encoding.h"

static const struct str codings[] = {STR_INIT("gzip"), STR_INIT("br"), STR_INIT("zstd"),
                                     STR_INIT("identity"), STR_INIT("*")};

static const struct str types[] = {STR_INIT("text/plain; version=0.0.4"), STR_INIT("a/b")};

/* Does the text hold the word at all? */
static bool holds(struct str text, struct str word)
{
    for (size_t i = 0; i + word.len <= text.len; i++) {
        if (str_equal_nocase(str_head(str_skip(text, i), word.len), word)) {
            return true;
        }
    }
    return false;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *copy = malloc(size + 1); /* of its own, so that a read beyond it is seen */
    struct str text = {copy, size};

    memcpy(copy, data, size);
    for (size_t i = 0; i < sizeof(codings) / sizeof(codings[0]); i++) {
        int weight = accept_encoding_weight(text, codings[i]);

        if (weight < WEIGHT_NONE || weight > 1000 ||
            (weight != WEIGHT_NONE && !holds(text, codings[i]))) {
            abort();
        }
    }
    unsigned chosen = accept_choose(text, types, 2);
    if (chosen > 2 || (chosen != 2 && !holds(text, STR("*")) && !holds(text, STR("/")))) {
        abort();
    }
    free(copy);
    return 0;
}
