/* Fuzzing of the check for slow regular expressions: any bytes. */
#include <stdlib.h>

#include "http/config/lint.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *copy = malloc(size + 1); /* so that a byte too far is seen */

    if (copy != NULL && size != 0) {
        memcpy(copy, data, size);
        char *exact = realloc(copy, size);

        copy = exact == NULL ? copy : exact;
        lint_is_slow_regex((struct str){copy, size});
    }
    free(copy);
    return 0;
}
