/* Fuzz target: memcached's answers, whole and byte by byte. The value is never longer than
 * announced, and a connection is kept only behind a whole one. */
#include <stdlib.h>

#include "http/exchange.h"
#include "http/modules/backends/memcached.c"
#include "http/routing/file_settings.h"

static void take(struct str input, size_t at_first, struct taken_answer *out)
{
    static const struct exchange_settings settings = {.buffer_size = 4096};
    static const struct memcached_settings own = {.gzip_flag = 2};
    static const struct file_settings files;
    static const struct http_location location = {.files = &files};
    struct protocol protocol = memcached_protocol;
    struct log log = {.level = LOG_STDERR};
    struct request *request = calloc(1, sizeof(*request));
    struct exchange x = {.magic = EXCHANGE_MAGIC,
                         .request = request,
                         .protocol = &protocol,
                         .settings = &settings,
                         .module_settings = &own};

    arena_init(&request->arena);
    request->log = log;
    request->location = &location;
    protocol.channel = &text_channel;
    struct value_reading *state = arena_new(&request->arena, struct value_reading);
    state->key = STR("k");
    x.state = state;
    take_answer(&x, input, at_first, out);
    arena_free(&request->arena);
    free(request);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str input = {(const char *) data, size};
    struct taken_answer whole;
    struct taken_answer pieces;

    take(input, size, &whole);
    take(input, 0, &pieces);
    compare_taken(&whole, &pieces);
    return 0;
}
