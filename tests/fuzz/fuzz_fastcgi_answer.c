/* Fuzz target: what a FastCGI backend sends. However it is cut, and whether the link is shared or
 * not, the same answer comes out. */
#include <stdlib.h>

#include "event/loop.h"
#include "http/fastcgi.h"

#define INPUT_MAX 65536

static void assert_same(const struct told *a, const struct told *b)
{
    if (a->end != b->end || a->status != b->status || a->body.len != b->body.len ||
        (a->body.len != 0 && memcmp(a->body.data, b->body.data, a->body.len) != 0)) {
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct told whole, cut;
    static bool has_begun;

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
    /* The first byte says what is expected, the second how the rest is cut. */
    struct fastcgi_case what = {.asks = data[0] & 1, .keep = (data[0] >> 1) % 3};
    size_t step = 1 + data[1] % 97;
    bool closes = (data[0] & 8) != 0;
    struct str text = {(const char *) data + 2, size - 2};

    fastcgi_tell(&what, text, INPUT_MAX, closes, &whole);
    fastcgi_tell(&what, text, step, closes, &cut);
    assert_same(&whole, &cut);
    if (!what.asks && what.keep == KEEP_CONN_AUTO) {
        what.is_shared = true;
        fastcgi_tell(&what, text, step, closes, &cut);
        fastcgi_tell(&what, text, INPUT_MAX, closes, &whole);
        assert_same(&whole, &cut);
    }
    return 0;
}
