/* The command line: options, their values, and errors in them. */
#include "server/process/command_line.h"

#include "base/parse.h"
#include "config.h"

/* An option with a value: where the value goes, and what the message calls it. */
struct valued_letter {
    char letter;
    const char *wanted;
};

/* clang-format off */
static const struct valued_letter valued_letters[] = {
    {'p', "directory name"},
    {'e', "file name"},
    {'c', "file name"},
    {'g', "parameter"},
    {'s', "parameter"},
};
/* clang-format on */

static const char *wanted_value(char letter)
{
    for (size_t i = 0; i < sizeof(valued_letters) / sizeof(valued_letters[0]); i++) {
        if (valued_letters[i].letter == letter) {
            return valued_letters[i].wanted;
        }
    }
    return NULL;
}

static bool take_signal(struct command_line *out, struct str word, struct buf *error)
{
    static const struct str words[] = {STR_INIT("stop"),     STR_INIT("quit"),
                                       STR_INIT("reopen"),   STR_INIT("reload"),
                                       STR_INIT("rollback"), STR_INIT("confirm")};

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (str_equal(words[i], word)) {
            out->signal = word;
            return true;
        }
    }
    buf_printf(error, "invalid option: \"-s %.*s\"", STR_ARG(word));
    return false;
}

static bool take_value(struct command_line *out, char letter, struct str value, struct buf *error)
{
    switch (letter) {
    case 'p':
        out->prefix = value;
        return true;
    case 'e':
        out->error_log = value;
        return true;
    case 'c':
        out->file_name = value;
        return true;
    case 'g':
        out->extra = value;
        return true;
    default:
        return take_signal(out, value, error);
    }
}

/* An option without a value; false when there is no such option. */
static bool take_flag(struct command_line *out, char letter)
{
    switch (letter) {
    case '?':
    case 'h':
        out->is_help = true;
        return true;
    case 'v':
        out->is_version = true;
        return true;
    case 'V':
        out->is_about = true;
        return true;
    case 't':
        out->test++;
        return true;
    case 'T':
        out->test++;
        out->is_dump = true;
        return true;
    case 'q':
        out->is_quiet = true;
        return true;
    case 'm':
        out->is_module_list = true;
        return true;
    case 'l':
        out->directive_list++;
        return true;
    default:
        return false;
    }
}

/* An argument that begins with "--"; false when it is unknown. */
static bool take_long(struct command_line *out, struct str word)
{
    struct str value = word;
    struct str name = str_cut(&value, '=');
    uint64_t number = 0;

    if (str_is(name, "diff") && value.data == NULL) {
        out->is_diff = true;
        out->test += out->test == 0;
        return true;
    }
    if (str_is(name, "lint")) {
        out->is_lint = true;
        out->lint_off = value;
        out->test += out->test == 0;
        return true;
    }
    if (str_is(name, "history") && (value.data == NULL || (parse_uint(value, &number) &&
                                                           number != 0 && number <= UINT32_MAX))) {
        out->is_history = true;
        out->history = (unsigned) number;
        return true;
    }
    return false;
}

bool command_line_parse(struct command_line *out, int argc, char *const *argv, struct buf *error)
{
    *out = (struct command_line){0};
    for (int i = 1; i < argc; i++) {
        const char *word = argv[i];

        if (*word != '-') {
            buf_printf(error, "invalid option: \"%s\"", word);
            return false;
        }
        if (word[1] == '-' && take_long(out, str_of(word + 2))) {
            continue;
        }
        for (word++; *word != '\0'; word++) {
            char letter = *word;
            const char *wanted = wanted_value(letter);

            if (wanted == NULL) {
                if (!take_flag(out, letter)) {
                    buf_printf(error, "invalid option: \"%c\"", letter);
                    return false;
                }
                continue;
            }
            const char *value = word[1] != '\0' ? word + 1 : i + 1 < argc ? argv[++i] : NULL;

            if (value == NULL || (*value == '\0' && letter != 'g')) {
                buf_printf(error, "option \"-%c\" requires %s", letter, wanted);
                return false;
            }
            if (!take_value(out, letter, str_of(value), error)) {
                return false;
            }
            break;
        }
    }
    return true;
}

void command_line_usage(struct buf *out)
{
    buf_printf(
        out,
        "Usage: nginx [-?hvVtTq] [-s signal] [-p prefix]\n"
        "             [-e filename] [-c filename] [-g directives]\n"
        "\n"
        "Options:\n"
        "  -?,-h         : show this help and exit\n"
        "  -v            : show the version and exit\n"
        "  -V            : show version, build, configure arguments and modules, and exit\n"
        "  -m            : list the modules and exit\n"
        "  -l            : list the directives and exit; twice: the reference, with variables\n"
        "  -t            : test the configuration and exit; twice: show the wrong lines\n"
        "  -T            : test the configuration, print it and exit\n"
        "  --diff        : with -t: show what a reload would change\n"
        "  --lint        : with -t: warn of traps; --lint=-RULE,-RULE switches rules off\n"
        "  --history     : list the configurations that were kept; with -t or -T,\n"
        "                  --history=N tests or prints one of them\n"
        "  -q            : with -t or -T: show only errors\n"
        "  -s signal     : send a signal to the master: stop, quit, reopen, reload,\n"
        "                  rollback, confirm\n"
        "  -p prefix     : run-time directory (default: %s)\n"
        "  -e filename   : first error log (default: %s)\n"
        "  -c filename   : configuration file (default: %s)\n"
        "  -g directives : main-level directives, read before the file\n\n",
        DEFAULT_PREFIX[0] == '\0' ? "the current one" : DEFAULT_PREFIX, DEFAULT_ERROR_LOG,
        DEFAULT_CONF_PATH);
}
