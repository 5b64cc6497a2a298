/* Fuzz target: traceparent and tracestate. A context that was read comes back as it was; a state
 * that is one ends where it says. */
#include <stdlib.h>
#include <string.h>

#include "http/message/trace_context.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *copy = malloc(size + 1); /* of its own, so that a read beyond it is seen */
    struct str text = {copy, size};
    struct traceparent context, again;
    char out[TRACEPARENT_SIZE];

    memcpy(copy, data, size);
    if (traceparent_parse(text, &context)) {
        if (traceparent_put(out, &context) != out + sizeof(out) ||
            !traceparent_parse((struct str){out, sizeof(out)}, &again) ||
            memcmp(out + 3, copy + 3, TRACEPARENT_SIZE - 5) != 0 ||
            memcmp(again.trace_id, context.trace_id, TRACE_ID_SIZE) != 0) {
            abort();
        }
    }
    if (tracestate_is_valid(text) && (size > TRACESTATE_MOST || memchr(copy, '=', size) == NULL)) {
        abort();
    }
    free(copy);
    return 0;
}
