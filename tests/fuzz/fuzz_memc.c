/* Fuzz target: memcached's answers to all commands of memc, whole and byte by byte. A body is never
 * longer than announced, and a connection is kept only behind a whole answer. The first byte says
 * which command it is. */
#include <stdlib.h>

#include "http/exchange.h"
#include "http/modules/backends/memc.c"
#include "http/routing/file_settings.h"

static void take(struct str input, size_t at_first, const struct memc_command *command,
                 struct taken_answer *out)
{
    static const struct exchange_settings settings = {.buffer_size = 8192};
    static const struct file_settings files;
    static const struct http_location location = {.files = &files};
    static struct variable flags = {.flags = VARIABLE_INDEXED, .index = 0};
    static struct variable_value values[1];
    const struct memc_settings own = {.flags = &flags, .tells_modification = true};
    struct protocol protocol = memc_protocol;
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
    request->env.arena = &request->arena;
    request->env.values = values;
    protocol.channel = &text_channel;
    struct memc_state *state = arena_new(&request->arena, struct memc_state);
    state->value.key = STR("k");
    state->command = command;
    x.state = state;
    take_answer(&x, input, at_first, out);
    arena_free(&request->arena);
    free(request);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct taken_answer whole;
    struct taken_answer pieces;

    if (size == 0 || size > 4000) {
        return 0;
    }
    struct str input = {(const char *) data + 1, size - 1};
    const struct memc_command *command = &commands[data[0] % COMMANDS];
    take(input, input.len, command, &whole);
    take(input, 0, command, &pieces);
    compare_taken(&whole, &pieces);
    return 0;
}
