/* Fuzz target: frames that an HTTP/2 backend sends. Nothing breaks, and an answer that is whole
 * when it comes at once is the same however it is cut. */
#include <stdlib.h>

#include "event/loop.h"
#include "http/h2_client.h"

#define INPUT_MAX 65536

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct h2_seen whole, cut;
    static bool has_begun;
    static char body[100000];

    if (!has_begun) {
        const struct loop_options options = {.events_per_turn = 8, .log = log_main};

        log_is_starting = false;
        if (!loop_init(&options)) {
            abort();
        }
        has_begun = true;
    }
    if (size < 2 || size > INPUT_MAX) {
        return 0;
    }
    /* The first byte says how long the request's body is, the second how the rest is cut. */
    struct str sent = {body, (size_t) data[0] * 390};
    struct str text = {(const char *) data + 2, size - 2};

    h2_tell(sent, text, INPUT_MAX, &whole);
    h2_tell(sent, text, 1 + data[1] % 97, &cut);
    /* What breaks the rules behind the end is seen only when it comes with it. */
    if (whole.end == H2_WHOLE &&
        (cut.end != H2_WHOLE || cut.status != whole.status || cut.trailers != whole.trailers ||
         cut.body.len != whole.body.len ||
         (cut.body.len != 0 && memcmp(cut.body.data, whole.body.data, cut.body.len) != 0))) {
        abort();
    }
    return 0;
}
