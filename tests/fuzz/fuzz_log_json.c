/* Fuzz target: error log lines as JSON are one object of valid UTF-8 on one line, whatever is in
 * them, and no longer than others. */
#include <stdlib.h>

#include "base/json.h"
#include "base/log.h"
#include "base/text.h"

/* Parts of the input, separated by zero bytes. */
struct parts {
    struct str items[4];
};

static void describe_parts(const struct log *log, struct writer *out)
{
    const struct parts *parts = log->subject;

    log_member(out, "client");
    writer_put(out, parts->items[1]);
    log_member(out, "request");
    writer_put(out, STR("\""));
    writer_put(out, parts->items[2]);
    writer_put(out, STR("\""));
    log_member(out, "host");
    writer_put(out, parts->items[3]);
}

static void check_line(struct log_sink *sink, enum log_level level, struct str line)
{
    struct arena arena;
    struct str rest = line;

    if (line.len >= LOG_LINE_MAX) {
        abort();
    }
    while (rest.len != 0) {
        uint32_t point = utf8_next(&rest);
        if (point == UINT32_MAX || point < ' ') {
            abort();
        }
    }
    arena_init(&arena);
    struct json_text text = {line.data, line.data + line.len, &arena};
    if (json_peek(&text) != '{' || !json_skip_value(&text) || !json_is_over(&text)) {
        abort();
    }
    arena_free(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct parts parts = {.items = {STR_NONE}};
    struct str rest = {(const char *) data, size};
    struct log_sink sink = {.level = LOG_INFO, .is_json = true, .write = check_line};
    struct log log = {.sinks = &sink,
                      .level = LOG_INFO,
                      .connection = size,
                      .describe = describe_parts,
                      .subject = &parts};

    if (size == 0) {
        return 0;
    }
    log_is_starting = false;
    for (size_t i = 0; i < 4 && rest.data != NULL; i++) {
        parts.items[i] = str_cut(&rest, '\0');
    }
    log_info(&log, (int) (data[0] & 127), "%.*s", STR_ARG(parts.items[0]));
    log_write_text(&log, LOG_INFO, parts.items[0]);
    return 0;
}
