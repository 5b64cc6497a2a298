/* Fuzzing of the configuration lexer: any bytes, as a file and as the text of -g. */
#include <stdint.h>
#include <stdlib.h>

#include "conf/conf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The invariants of a tree that whoever applies it relies on. */
static void check_nodes(const struct conf_node *block, const struct conf_file *file)
{
    const struct conf_node *last = NULL;

    for (const struct conf_node *node = block->children; node != NULL; node = node->next) {
        if (node->count == 0 || node->is_dropped || node->parent != block ||
            node->line > node->end_line || node->end_line > node->close_line ||
            node->order > node->close_order || node->file != file ||
            node->source < file->text.data || node->source >= file->text.data + file->text.len ||
            (!node->is_block && node->children != NULL)) {
            abort();
        }
        for (unsigned i = 0; i < node->count; i++) {
            if (node->args[i].data[node->args[i].len] != '\0') {
                abort();
            }
        }
        check_nodes(node, file);
        last = node;
    }
    if (block->last_child != last) {
        abort();
    }
}

static void parse(struct str text, struct str name)
{
    struct arena arena;
    struct log_sink silent = {.level = LOG_STDERR};
    struct log log = {.sinks = &silent, .level = LOG_STDERR};

    arena_init(&arena);
    struct conf conf = {.arena = &arena,
                        .conf_prefix = STR("/nowhere/"),
                        .prefix = STR("/nowhere/")};
    struct conf_file file = {.name = name, .text = text};
    bool is_good = conf_parse_text(&conf, &file);
    if (is_good != (conf.error_count == 0)) {
        abort();
    }
    /* Included files, if any were found, are not ours. */
    if (conf.files == NULL) {
        check_nodes(conf.root, &file);
    }
    conf_report(&conf, &log, false);
    arena_free(&arena);
}

/* What it includes must not exist: a device or a pipe of this machine would hold us up. */
static void keep_from_the_disk(char *text, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        if (text[i] == '/' || text[i] == '*' || text[i] == '?' || text[i] == '[') {
            text[i] = '_';
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *copy = malloc(size + 1);
    struct str text = {copy, size};

    log_is_starting = false;
    if (copy == NULL) {
        return 0;
    }
    memcpy(copy, data, size);
    if (str_find(text, STR("include")) != NULL) {
        keep_from_the_disk(copy, size);
    }
    parse(text, STR("fuzz.conf"));
    parse(text, STR(""));
    free(copy);
    return 0;
}
