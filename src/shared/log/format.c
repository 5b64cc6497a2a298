/* Formats of access logs: compilation, and the steps that append values to a line. */
#include "shared/log/format.h"

#include "base/clock.h"

#define VALUE_SIZE 64 /* most bytes of a value of bounded size: number, time, address */

/* ---- steps ---- */

#define STEP(name)                                                                                 \
    static char *name(struct log_line *line, char *at, struct variable_env *env,                   \
                      const struct log_step *step)

STEP(append_text_only)
{
    return at;
}

STEP(append_variable)
{
    struct str value;

    if (!variable_get(env, step->variable, &value)) {
        return log_put_nothing(line, at);
    }
    return log_put_value(line, at, value);
}

STEP(append_capture)
{
    if (step->capture >= env->capture_count) {
        return log_put_nothing(line, at);
    }
    return log_put_value(line, at, env->captures[step->capture]);
}

STEP(append_time_local)
{
    memcpy(at, clock_now.log_local, sizeof(clock_now.log_local));
    return at + sizeof(clock_now.log_local);
}

STEP(append_time_iso8601)
{
    memcpy(at, clock_now.iso8601, sizeof(clock_now.iso8601));
    return at + sizeof(clock_now.iso8601);
}

STEP(append_msec)
{
    return log_put_seconds(at, (uint64_t) clock_now.seconds * 1000 + clock_now.milliseconds);
}

/* For subjects of any kind. */
static const struct log_value usual_values[] = {
    {STR_INIT("time_local"), append_time_local},
    {STR_INIT("time_iso8601"), append_time_iso8601},
    {STR_INIT("msec"), append_msec},
    {.name = STR_NONE},
};

static log_append step_for(const struct log_value *values, const struct variable *variable)
{
    const struct log_value *const lists[] = {values, usual_values};

    for (unsigned i = 0; i < 2; i++) {
        for (const struct log_value *value = lists[i]; value->name.len != 0; value++) {
            if (str_equal(value->name, variable->name)) {
                return value->append;
            }
        }
    }
    return append_variable;
}

/* ---- compilation ---- */

/* Refuses a '$' without a name; as in nginx, the message quotes the remainder of the argument. */
static bool check_dollars(struct conf *conf, const struct conf_node *node, struct str text)
{
    for (size_t i = 0; i < text.len; i++) {
        if (text.data[i] != '$') {
            continue;
        }
        unsigned char next = i + 1 < text.len ? (unsigned char) text.data[i + 1] : 0;
        unsigned char letter = ascii_lower(next);
        if (next != '{' && next != '_' && !ascii_is_digit(next) &&
            !(letter >= 'a' && letter <= 'z')) {
            struct str rest = str_skip(text, i);
            return conf_error(conf, node, "invalid parameter \"%.*s\"", STR_ARG(rest));
        }
    }
    return true;
}

/* Adds text to the text before the next value. */
static void format_add_text(struct conf *conf, struct log_format *format, struct str text)
{
    size_t count = format->steps.count;
    struct log_step *last = count == 0 ? NULL : vec_at(&format->steps, struct log_step, count - 1);

    if (last == NULL || last->append != append_text_only) {
        last = vec_add(&format->steps, conf->arena, struct log_step);
        last->append = append_text_only;
    }
    const struct str parts[] = {last->before, text, STR("                ")};
    last->before = arena_join(conf->arena, parts, 3);
    last->before.len -= LOG_WORD;
    format->fixed += text.len;
}

static struct log_step *add_value(struct conf *conf, struct log_format *format, log_append append)
{
    size_t count = format->steps.count;
    struct log_step *last = count == 0 ? NULL : vec_at(&format->steps, struct log_step, count - 1);

    if (last == NULL || last->append != append_text_only) {
        last = vec_add(&format->steps, conf->arena, struct log_step);
    }
    last->append = append;
    format->fixed += VALUE_SIZE;
    return last;
}

bool log_format_compile(struct conf *conf, const struct conf_node *node,
                        const struct log_value *values, struct log_format *format, struct str text)
{
    if (!check_dollars(conf, node, text)) {
        return false;
    }
    const struct template *template = template_compile(conf, node, text);
    if (template == NULL) {
        return false;
    }
    for (unsigned i = 0; i < template->count; i++) {
        const struct template_part *part = &template->parts[i];

        switch (part->kind) {
        case PART_TEXT:
            format_add_text(conf, format, part->text);
            break;
        case PART_VARIABLE:
            add_value(conf, format, step_for(values, part->variable))->variable = part->variable;
            break;
        case PART_CAPTURE:
            add_value(conf, format, append_capture)->capture = part->capture;
            break;
        }
    }
    return true;
}

void log_format_write(const struct log_format *format, struct variable_env *env,
                      enum log_escape escape, struct buf *buf)
{
    const struct log_step *step = format->steps.items;
    const struct log_step *end = step + format->steps.count;
    struct log_line line = {
        .buf = buf,
        .escape = format->escape == LOG_ESCAPE_UNSET ? escape : format->escape,
    };

    /* The newline, and the bytes that a copy in words writes beyond the end. */
    line.fixed = format->fixed + 1 + LOG_WORD;
    char *at = buf->data + buf->len;
    if (buf->capacity - buf->len < line.fixed) {
        at = buf_reserve(buf, line.fixed);
    }
    line.end = buf->data + buf->capacity;
    for (; step != end; step++) {
        for (size_t i = 0; i < step->before.len; i += LOG_WORD) {
            memcpy(at + i, step->before.data + i, LOG_WORD);
        }
        at += step->before.len;
        at = step->append(&line, at, env, step);
    }
    *at++ = '\n';
    buf->len = (size_t) (at - buf->data);
}

/* ---- formats of a family ---- */

/* The formats of one reading. */
struct log_formats {
    struct vec items; /* struct log_format * */
};

static struct log_formats *formats_of(struct conf *conf, const struct log_family *family)
{
    return conf_state(conf, family->state, sizeof(struct log_formats));
}

const struct log_format *log_format_find(struct conf *conf, const struct log_family *family,
                                         struct str name)
{
    vec_each(struct log_format *, format, &formats_of(conf, family)->items) {
        if (str_equal((*format)->name, name)) {
            return *format;
        }
    }
    return NULL;
}

struct log_format *log_format_add(struct conf *conf, const struct log_family *family,
                                  struct str name)
{
    struct log_format *format = arena_new(conf->arena, struct log_format);

    format->name = name;
    format->escape = LOG_ESCAPE_UNSET;
    *vec_add(&formats_of(conf, family)->items, conf->arena, struct log_format *) = format;
    return format;
}

static bool parse_escape(struct conf *conf, const struct conf_node *node, struct str word,
                         struct log_format *format)
{
    if (str_is(word, "default")) {
        format->escape = LOG_ESCAPE_DEFAULT;
    } else if (str_is(word, "json")) {
        format->escape = LOG_ESCAPE_JSON;
    } else if (str_is(word, "none")) {
        format->escape = LOG_ESCAPE_NONE;
    } else {
        return conf_error(conf, node, "unknown log format escaping \"%.*s\"", STR_ARG(word));
    }
    return true;
}

bool log_format_read(struct conf *conf, const struct conf_node *node,
                     const struct log_family *family)
{
    unsigned arg = 2;

    if (log_format_find(conf, family, node->args[1]) != NULL) {
        return conf_error(conf, node, "duplicate \"log_format\" name \"%.*s\"",
                          STR_ARG(node->args[1]));
    }
    struct log_format *format = log_format_add(conf, family, node->args[1]);
    if (str_starts(node->args[2], STR("escape="))) {
        if (!parse_escape(conf, node, str_skip(node->args[2], 7), format)) {
            return false;
        }
        arg++;
    }
    for (; arg < node->count; arg++) {
        if (!log_format_compile(conf, node, family->values, format, node->args[arg])) {
            return false;
        }
    }
    return true;
}
