/* Commands of POP3 and SMTP: a name and arguments on one line. */
#include "mail/words/commands.h"

/* Removes the next word, and the spaces before it, from the line. */
static struct str next_word(struct str *line)
{
    while (line->len != 0 && line->data[0] == ' ') {
        *line = str_skip(*line, 1);
    }
    const char *blank = str_find_char(*line, ' ');
    struct str word = blank == NULL ? *line : str_from(line->data, blank);

    *line = str_skip(*line, word.len);
    return word;
}

/* Reads the name, which has to be at the very beginning. */
static bool read_name(struct str *line, struct mail_command *out)
{
    *out = (struct mail_command){.count = 0};
    if (line->len == 0 || line->data[0] == ' ' || str_find_char(*line, '\r') != NULL ||
        memchr(line->data, '\0', line->len) != NULL) {
        return false;
    }
    out->name = next_word(line);
    return true;
}

static bool read_args(struct str line, unsigned most, struct mail_command *out)
{
    for (;;) {
        struct str word = next_word(&line);

        if (word.len == 0) {
            return true;
        }
        if (out->count == most) {
            return false;
        }
        out->args[out->count++] = word;
    }
}

bool smtp_command_read(struct str line, struct mail_command *out)
{
    return read_name(&line, out) && read_args(line, MAIL_ARGS_MAX, out);
}

bool pop3_command_read(struct str line, struct mail_command *out)
{
    if (!read_name(&line, out)) {
        return false;
    }
    if (!mail_command_is(out, "USER") && !mail_command_is(out, "PASS")) {
        return read_args(line, MAIL_FEW_ARGS_MAX, out);
    }
    while (line.len != 0 && line.data[0] == ' ') {
        line = str_skip(line, 1);
    }
    out->args[0] = line;
    out->count = line.len != 0;
    return true;
}
