/* Parses one SSI directive: the command and its parameters. */
#include "http/modules/filters/ssi/scan.h"

#define VALUE_SHOWN 256 /* bytes of a value that are shown in a message */

/* The remaining text, and where to write an error message. */
struct reader {
    struct str rest;
    struct str command;
    size_t value_max;
    struct writer *error;
};

static void ssi_directive_skip_blanks(struct reader *reader)
{
    while (reader->rest.len != 0 && ascii_is_space(reader->rest.data[0])) {
        reader->rest = str_skip(reader->rest, 1);
    }
}

/* The next byte; after the last one, the first of the closing mark. */
static char next_byte(const struct reader *reader)
{
    return reader->rest.len == 0 ? '-' : reader->rest.data[0];
}

/* Takes bytes up to white space, and up to `stop` if that is not 0. */
static struct str take_word(struct reader *reader, char stop)
{
    size_t n = 0;

    while (n < reader->rest.len && !ascii_is_space(reader->rest.data[n]) &&
           (stop == 0 || reader->rest.data[n] != stop)) {
        n++;
    }
    struct str word = str_head(reader->rest, n);
    reader->rest = str_skip(reader->rest, n);
    return word;
}

/* A name for a message; one that is too long is cut to one byte more than the limit. */
static struct str shown(struct str name)
{
    return str_head(name, SSI_NAME_MAX + 1);
}

/* The length of a quoted value up to its quote, excluding it. False: there is no quote. */
static bool find_end(struct str text, char quote, size_t *length)
{
    for (size_t i = 0; i < text.len; i++) {
        if (text.data[i] == '\\') {
            i++;
        } else if (text.data[i] == quote) {
            *length = i;
            return true;
        }
    }
    return false;
}

static bool ssi_directive_read_value(struct reader *reader, struct ssi_parameter *parameter)
{
    char quote = next_byte(reader);
    size_t length = 0;

    if (reader->rest.len == 0 || (quote != '"' && quote != '\'')) {
        writer_printf(reader->error,
                      "unexpected \"%c\" symbol before value of \"%.*s\" parameter in \"%.*s\" SSI "
                      "command",
                      quote, STR_ARG(parameter->name), STR_ARG(reader->command));
        return false;
    }
    reader->rest = str_skip(reader->rest, 1);
    if (!find_end(reader->rest, quote, &length) || length > reader->value_max) {
        size_t most = reader->value_max < VALUE_SHOWN ? reader->value_max : VALUE_SHOWN;
        struct str value = str_head(reader->rest, most + 1);
        writer_printf(reader->error,
                      "too long \"%.*s...\" value of \"%.*s\" parameter in \"%.*s\" SSI command",
                      STR_ARG(value), STR_ARG(parameter->name), STR_ARG(reader->command));
        return false;
    }
    parameter->value = str_head(reader->rest, length);
    reader->rest = str_skip(reader->rest, length + 1);
    if (reader->rest.len != 0 && !ascii_is_space(reader->rest.data[0])) {
        struct str value = str_head(parameter->value, VALUE_SHOWN);
        writer_printf(reader->error,
                      "unexpected \"%c\" symbol after \"%.*s\" value of \"%.*s\" parameter in "
                      "\"%.*s\" SSI command",
                      next_byte(reader), STR_ARG(value), STR_ARG(parameter->name),
                      STR_ARG(reader->command));
        return false;
    }
    return true;
}

static bool ssi_directive_read_parameter(struct reader *reader, struct ssi_parameter *parameter)
{
    parameter->name = take_word(reader, '=');
    if (parameter->name.len > SSI_NAME_MAX) {
        struct str name = shown(parameter->name);
        writer_printf(reader->error, "too long \"%.*s...\" parameter in \"%.*s\" SSI command",
                      STR_ARG(name), STR_ARG(reader->command));
        return false;
    }
    ssi_directive_skip_blanks(reader);
    if (reader->rest.len == 0 || reader->rest.data[0] != '=') {
        writer_printf(reader->error,
                      "unexpected \"%c\" symbol after \"%.*s\" parameter in \"%.*s\" SSI command",
                      next_byte(reader), STR_ARG(parameter->name), STR_ARG(reader->command));
        return false;
    }
    reader->rest = str_skip(reader->rest, 1);
    ssi_directive_skip_blanks(reader);
    return ssi_directive_read_value(reader, parameter);
}

bool ssi_read_directive(struct str text, size_t value_max, struct ssi_directive *out,
                        struct writer *error)
{
    struct reader reader = {.rest = text, .value_max = value_max, .error = error};

    out->count = 0;
    ssi_directive_skip_blanks(&reader);
    out->command = take_word(&reader, 0);
    if (out->command.len > SSI_NAME_MAX) {
        struct str name = shown(out->command);
        writer_printf(error, "the \"%.*s...\" SSI command is too long", STR_ARG(name));
        return false;
    }
    reader.command = out->command;
    for (ssi_directive_skip_blanks(&reader); reader.rest.len != 0;
         ssi_directive_skip_blanks(&reader)) {
        if (out->count == SSI_PARAMETERS_MAX) {
            writer_printf(error, "too many parameters in \"%.*s\" SSI command",
                          STR_ARG(out->command));
            return false;
        }
        if (!ssi_directive_read_parameter(&reader, &out->parameters[out->count])) {
            return false;
        }
        out->count++;
    }
    return true;
}
