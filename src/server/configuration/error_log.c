/* The targets of error_log, for every level of the configuration that has it. */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "base/fs.h"
#include "base/parse.h"
#include "server/configuration/generation_life.h"

/* A ring buffer in memory, for debuggers: the newest bytes, ending before `next`. One per
 * process. */
struct memory_log {
    size_t size; /* size of text */
    size_t next; /* where the next line starts */
    char *text;
};

enum { MEMORY_LOG_LEAST = 4096 };

static void memory_put(struct memory_log *memory, struct str bytes)
{
    while (bytes.len != 0) {
        struct str part = str_head(bytes, memory->size - memory->next);

        memcpy(memory->text + memory->next, part.data, part.len);
        memory->next = (memory->next + part.len) % memory->size;
        bytes = str_skip(bytes, part.len);
    }
}

static void memory_write(struct log_sink *sink, enum log_level level, struct str line)
{
    memory_put(sink->data, line);
    memory_put(sink->data, STR("\n"));
}

static void memory_free(void *arg)
{
    struct memory_log *memory = arg;

    munmap(memory->text, memory->size);
}

static bool apply_memory(struct conf *conf, struct conf_node *node, struct str size_text,
                         struct log_sink *sink)
{
    uint64_t size;

    if (!parse_size(size_text, &size) || size < MEMORY_LOG_LEAST || size > SIZE_MAX / 2) {
        return conf_error(conf, node, "invalid buffer size \"%.*s\"", STR_ARG(size_text));
    }
    struct memory_log *memory = arena_new(conf->arena, struct memory_log);

    memory->size = size;
    memory->text = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory->text == MAP_FAILED) {
        return conf_errno(conf, node, errno, "mmap(%zu) failed", (size_t) size);
    }
    arena_on_free(conf->arena, memory_free, memory);
    sink->write = memory_write;
    sink->data = memory;
    return true;
}

/* Our levels have the order of syslog's severities. */
static void syslog_write(struct log_sink *sink, enum log_level level, struct str line)
{
    syslog_send(sink->data, level == LOG_STDERR ? 0 : (int) level - LOG_EMERG, line);
}

static bool apply_syslog(struct conf *conf, struct conf_node *node, struct str text,
                         struct log_sink *sink)
{
    struct str error = STR_NONE;

    sink->data = syslog_target_parse(conf->arena, text, &error);
    if (sink->data == NULL) {
        return conf_error(conf, node, "%.*s", STR_ARG(error));
    }
    sink->write = syslog_write;
    return true;
}

static void pipe_write(struct log_sink *sink, enum log_level level, struct str line)
{
    log_pipe_write(sink->data, line);
}

bool error_log_is_kept(const struct log_sink *chain)
{
    for (; chain != NULL; chain = chain->next) {
        if (chain->file != NULL || chain->write == pipe_write) {
            return true;
        }
    }
    return false;
}

/* Applies the first argument: the target. */
static bool apply_target(struct conf *conf, struct conf_node *node, struct log_sink *sink)
{
    struct generation *generation = conf->generation;
    struct str target = node->args[1];

    if (str_starts(target, STR("memory:"))) {
        return apply_memory(conf, node, str_skip(target, sizeof("memory:") - 1), sink);
    }
    if (str_starts(target, STR("syslog:"))) {
        return apply_syslog(conf, node, str_skip(target, sizeof("syslog:") - 1), sink);
    }
    if (str_starts(target, STR("pipe:"))) {
        sink->data = generation_log_pipe(conf, node, target);
        sink->write = pipe_write;
        return sink->data != NULL;
    }
    if (str_starts(target, STR("file:"))) {
        target = str_skip(target, sizeof("file:") - 1);
    }
    if (target.len == 0) {
        return conf_error(conf, node, "invalid value \"%.*s\"", STR_ARG(node->args[1]));
    }
    sink->file = generation_log_file(generation, str_is(target, "stderr") ? STR_NONE : target);
    return true;
}

/* Is it a debug level of one subsystem? All subsystems log with level debug. */
static bool is_debug_word(struct str word)
{
    static const struct str words[] = {
        STR_INIT("debug_core"),   STR_INIT("debug_alloc"), STR_INIT("debug_mutex"),
        STR_INIT("debug_event"),  STR_INIT("debug_http"),  STR_INIT("debug_mail"),
        STR_INIT("debug_stream"),
    };

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (str_equal(word, words[i])) {
            return true;
        }
    }
    return false;
}

static bool apply_levels(struct conf *conf, struct conf_node *node, struct log_sink *sink)
{
    bool is_set = false;
    bool is_debug = false;

    sink->level = LOG_ERROR;
    for (unsigned i = 2; i < node->count; i++) {
        struct str word = node->args[i];
        enum log_level level;

        if (str_is(word, "json") && i + 1 == node->count) {
            sink->is_json = true;
        } else if (log_level_parse(word, &level)) {
            if (is_set || is_debug) {
                return conf_error(conf, node, "duplicate log level \"%.*s\"", STR_ARG(word));
            }
            is_set = true;
            sink->level = level;
        } else if (is_debug_word(word) && !is_set) {
            is_debug = true;
            sink->level = LOG_DEBUG;
        } else {
            return conf_error(conf, node, "invalid log level \"%.*s\"", STR_ARG(word));
        }
    }
    return true;
}

bool error_log_apply(struct conf_scope *scope, const struct directive *row, struct conf_node *node,
                     void *settings)
{
    struct conf *conf = scope->conf;
    struct log_sink **link = (struct log_sink **) (void *) ((char *) settings + row->offset);
    struct log_sink *sink = arena_new(conf->arena, struct log_sink);

    if (!apply_target(conf, node, sink) || !apply_levels(conf, node, sink)) {
        return false;
    }
    /* At the first use in a block, REPEAT_APPEND has emptied the inherited chain. */
    while (*link != NULL) {
        link = &(*link)->next;
    }
    *link = sink;
    return true;
}
