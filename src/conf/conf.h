/* The configuration language: text to a tree, and error messages. Implemented in code_block.c,
 * diff.c, include.c, lexer.c and messages.c. */
#ifndef CONF_CONF_H
#define CONF_CONF_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/list.h"
#include "base/log.h"
#include "base/map.h"
#include "base/str.h"

/* A file that was read; -T prints each once. */
struct conf_file {
    struct conf_file *next; /* in the order in which they were read */
    struct str name;        /* full path, NUL-terminated; empty = command line (-g) */
    struct str text;        /* contents */
};

/* A directive as written: name, arguments, and for a block the nodes inside. */
struct conf_node {
    struct conf_node *next;       /* sibling */
    struct conf_node *children;   /* of a block, in order; includes are expanded in place */
    struct conf_node *last_child; /* of a block: newest child, NULL when there is none */
    struct conf_node *parent;
    struct str *args;   /* args[0] is the name; quotes and escapes are decoded */
    const bool *quoted; /* by argument: was it quoted (distinguishes "" and "$" in keys of map) */
    unsigned count;     /* of args, the name included */
    bool is_block;
    bool is_code; /* the last argument is the text between braces: Lua */
    const struct conf_file *file;
    unsigned line;        /* of the name (caret lines, "in F:L" of duplicates) */
    unsigned end_line;    /* line of the ';' or '{': what messages quote, as nginx does */
    unsigned close_line;  /* of a block: line of its '}' */
    unsigned order;       /* serial number in reading order: diagnostics are sorted by it */
    unsigned close_order; /* of a block: the same for its '}' */
    bool is_closed;     /* of a block: conf_enter is done, messages now have the line of the '}' */
    bool is_dropped;    /* has a grammar error: it is in no list and is not applied */
    const char *source; /* where the name starts in file->text, for caret lines */
    void *user;         /* for the row's apply and enter */
};

/* One message about a configuration. */
struct conf_message {
    struct conf_message *next;
    enum log_level level;         /* usually emerg or warn */
    struct str text;              /* without file and line */
    const struct conf_node *node; /* or NULL */
    const struct conf_file *file; /* or NULL: no " in F:L" is shown */
    unsigned line;
    unsigned order;     /* position in reading order; conf_report sorts by it */
    unsigned sequence;  /* serial number of the message: keeps the order of messages with the same
                           position */
    const char *source; /* in file->text, for the caret line; or NULL */
    struct str hint;    /* "did you mean …", or empty */
    struct str mark;    /* the word under the caret; empty: the word that the text quotes */
    int error;          /* errno or 0, shown as " (2: No such file or directory)" */
    int braces; /* of an error that only counts braces: -1 a "}" is missing, 1 one is too many; else
                   0 */
};

struct directive_table;

/* A table of one reading. */
struct conf_table {
    const struct directive_table *table; /* NULL: this reading does not have its module */
    const char *module;                  /* "ngx_http_core_module"; NULL = not known */
};

/* One reading of a configuration; all of it is in `arena`, which is the generation's. */
struct conf {
    struct arena *arena;
    struct str prefix;      /* run prefix with trailing slash */
    struct str conf_prefix; /* directory of the file, with trailing slash */
    struct str file_name;   /* of the main file, full */
    struct conf_file *files;
    /* Unless it is NULL, files, and the matches of a glob, come from this list and none from the
     * disk. */
    const struct conf_file *kept;
    struct conf_node *root;        /* a block without name; its children are the main context */
    struct conf_message *messages; /* newest first; sorted by order when printed */
    unsigned error_count;          /* errors so far, those of grammar included */
    unsigned grammar_error_count;  /* errors of conf_read only */
    unsigned position;             /* order of messages without a node: the current position */
    struct conf_engine *engine;    /* of conf_apply; NULL before it */
    bool is_later;                 /* for configuration text at run time: see conf_later */
    unsigned next_order;
    struct map state; /* by name: data of modules while the configuration is read */
    /* The tables of all modules, in an order that never changes in one process; set before
     * conf_apply. The first one is empty: its number is that of keys without a table. */
    struct conf_table *tables;
    unsigned table_count;
    void *generation; /* struct generation *, of src/server */
    /* Set by src/server, or NULL: explains a directive that no table has; the explanation follows
     * "unknown directive" in parentheses. Empty when there is none. context: the block of the
     * directive (enum context). */
    struct str (*explain_unknown)(struct conf *conf, struct str directive, uint32_t context);
};

/*
 * Reads the text of -g, then the file with its includes (globs are sorted, a glob without a match
 * is no error), to the tree conf->root. Grammar errors become messages; reading continues after
 * each. False when there was any. Waits for the disk.
 */
bool conf_read(struct conf *conf, struct str file_name, struct str extra);

/* Do the braces of this directive contain Lua instead of directives? */
bool conf_is_code_block(struct str name);

/* The lexer alone, for tests and fuzzing: one text to nodes under conf->root. */
bool conf_parse_text(struct conf *conf, const struct conf_file *file);

/*
 * For a free-form block that handles include itself: reads a file of entries, as those of `types`,
 * and appends its nodes to the parent.
 */
bool conf_include(struct conf *conf, struct conf_node *parent, struct conf_node *include);

/*
 * Messages. With node NULL no location is shown. Each gives false, so that `return conf_error(…)`
 * is one line. The location is the line of the directive's ';' or '{' or, after conf_enter of a
 * block, of its '}', because nginx's reader is there when it reports.
 */
bool conf_error(struct conf *conf, const struct conf_node *node, const char *format, ...)
    __attribute__((format(printf, 3, 4), cold));
bool conf_errno(struct conf *conf, const struct conf_node *node, int error, const char *format, ...)
    __attribute__((format(printf, 4, 5), cold));
/* A warning with level alert; nginx has a few. */
void conf_alert(struct conf *conf, const struct conf_node *node, const char *format, ...)
    __attribute__((format(printf, 3, 4), cold));
void conf_warn(struct conf *conf, const struct conf_node *node, const char *format, ...)
    __attribute__((format(printf, 3, 4), cold));
void conf_hint(struct conf *conf, const char *format, ...) /* adds to the newest message */
    __attribute__((format(printf, 2, 3), cold));
/* Puts the caret of the newest message under this word of its statement. */
void conf_mark(struct conf *conf, struct str word);

/*
 * Writes the messages in the order of the file: the log line `[emerg] TEXT in F:L`. With
 * `is_verbose` (a terminal, or -t twice) each error is followed by the source line, a caret, and
 * the hint. All errors are listed in both cases.
 */
void conf_report(const struct conf *conf, const struct log *log, bool is_verbose);

/* The candidate with the least edit distance, for "did you mean"; empty when none is close. */
struct str conf_nearest(struct str word, const struct str *candidates, size_t count);

/*
 * The differences between two trees, as lines for users: listen addresses, certificates, then
 * directives and blocks in file order. Two blocks correspond when their arguments are equal; a
 * `server` without arguments when its names and addresses are. Neither tree was applied. Gives the
 * number of differences. In diff.c.
 */
unsigned conf_diff(const struct conf *old, const struct conf *next, struct buf *out);

/*
 * The full path of a file that the configuration names: relative to the conf prefix
 * (is_conf_relative) or to the run prefix.
 */
struct str conf_full_name(struct conf *conf, struct str name, bool is_conf_relative);

/* Data of a module while the configuration is read, by a key of its own. Allocated and cleared at
   first use. */
void *conf_state(struct conf *conf, const char *key, size_t size);

#endif
