/* Fuzzing of `-t --diff`: two texts, with a NUL between them. A text does not differ from itself.
 */
#include <stdlib.h>

#include "conf/conf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct conf_file nothing = {.name = {"/nothing", 8}};

static void parse(struct conf *conf, struct arena *arena, struct conf_file *file)
{
    *conf = (struct conf){.arena = arena,
                          .conf_prefix = STR("/nowhere/"),
                          .prefix = STR("/nowhere/"),
                          .kept = &nothing}; /* nothing is included from the disk */
    conf_parse_text(conf, file);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str rest = {(const char *) data, size};
    struct str first = str_cut(&rest, '\0');
    struct arena arena;
    struct conf old, next;
    struct buf out = {0};

    log_is_starting = false;
    arena_init(&arena);
    struct conf_file old_file = {.name = STR("a"), .text = arena_dup(&arena, first)};
    struct conf_file next_file = {.name = STR("b"), .text = arena_dup(&arena, rest)};

    parse(&old, &arena, &old_file);
    parse(&next, &arena, &next_file);
    if (conf_diff(&old, &old, &out) != 0 || out.len != 0) {
        abort();
    }
    conf_diff(&old, &next, &out);
    buf_free(&out);
    arena_free(&arena);
    return 0;
}
