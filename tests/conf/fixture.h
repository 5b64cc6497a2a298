/* For the tests of src/server: a reading in an arena, and its report as text. */
#ifndef TESTS_CONF_FIXTURE_H
#define TESTS_CONF_FIXTURE_H

#include "base/unit.h"

#include "base/arena.h"
#include "base/buf.h"
#include "base/log.h"
#include "conf/conf.h"
#include "conf/directive.h"

static struct arena arena;
static struct conf conf;
static struct buf report_text;

/* "[emerg] TEXT in F:L" of each line, without the date and process in front. */
static void keep_line(struct log_sink *sink, enum log_level level, struct str line)
{
    const char *mark = str_find(line, STR("#"));
    const char *text = str_find(str_from(mark, line.data + line.len), STR(": "));

    buf_printf(&report_text, "[%s] %.*s\n", log_level_names[level].data,
               (int) (line.data + line.len - text - 2), text + 2);
}

static struct log_sink memory_sink = {.level = LOG_DEBUG, .write = keep_line};
static struct log memory_log = {.sinks = &memory_sink, .level = LOG_DEBUG};

static inline int set_up(void **state)
{
    log_is_starting = false;
    arena_init(&arena);
    memset(&conf, 0, sizeof(conf));
    conf.arena = &arena;
    conf.prefix = STR("/run/");
    conf.conf_prefix = STR("/etc/");
    return 0;
}

static inline int tear_down(void **state)
{
    arena_free(&arena);
    buf_free(&report_text);
    return 0;
}

/* Parses a text as the file "t.conf". */
static inline bool parse(const char *text)
{
    struct conf_file *file = arena_new(&arena, struct conf_file);

    file->name = STR("t.conf");
    /* A copy of its own, so that a byte read too far is seen by the address sanitizer. */
    file->text = arena_dup(&arena, str_of(text));
    return conf_parse_text(&conf, file);
}

/* The messages so far, shown as the log would have them. */
static inline struct str report(void)
{
    report_text.len = 0;
    conf_report(&conf, &memory_log, false);
    return (struct str){report_text.data == NULL ? "" : report_text.data, report_text.len};
}

/* Every test of a program starts with an empty reading. */
#define conf_test(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

#endif
