/* The command line: options, their values, and errors in them. */
#ifndef SERVER_PROCESS_COMMAND_LINE_H
#define SERVER_PROCESS_COMMAND_LINE_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/str.h"

/* What was asked for. Strings point into argv. */
struct command_line {
    bool is_help;        /* -h -? */
    bool is_version;     /* -v */
    bool is_about;       /* -V */
    bool is_quiet;       /* -q */
    bool is_dump;        /* -T */
    bool is_module_list; /* -m */
    bool is_diff;        /* --diff */
    bool is_lint;        /* --lint */
    bool is_history;     /* --history */
    unsigned history;    /* --history=N: the number of a record; 0 = all */
    struct str lint_off; /* of --lint=, or empty */
    unsigned test;       /* -t: how many times it is given; twice is verbose. -T counts as one */
    unsigned directive_list; /* -l: how many times it is given; twice is Markdown */
    struct str signal;    /* -s: one of stop, quit, reopen, reload, rollback, confirm; or empty */
    struct str prefix;    /* -p, or empty */
    struct str file_name; /* -c, or empty */
    struct str error_log; /* -e, or empty */
    struct str extra;     /* -g, or empty */
};

/* Parses the arguments after argv[0]. False: *error holds the line for the user, without "nginx:
 * ". */
bool command_line_parse(struct command_line *out, int argc, char *const *argv, struct buf *error);

/* The text of -h, without the version lines. */
void command_line_usage(struct buf *out);

#endif
