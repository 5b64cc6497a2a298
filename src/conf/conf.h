/* The configuration language: text to a tree, and what went wrong on the way.
 * Implemented in code_block.c, diff.c, include.c, lexer.c and messages.c. */
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
    struct conf_file *next; /* in the order of reading */
    struct str name;        /* full path, NUL-terminated; empty = command line (-g) */
    struct str text;        /* contents */
};

/* A directive as written: name, arguments, and for a block the nodes inside. */
struct conf_node {
    struct conf_node *next;       /* sibling */
    struct conf_node *children;   /* of a block, in order; includes are expanded in place */
    struct conf_node *last_child; /* of a block: newest child, NULL when there is none */
    struct conf_node *parent;
    struct str *args; /* args[0] is the name; quotes and escapes are decoded */
    const bool
        *quoted; /* by argument: was it quoted (so "" and "$" in map keys can be distinguished) */
    unsigned count; /* of args, the name included */
    bool is_block;
    bool is_code; /* the last argument is the text that stood in braces: Lua */
    const struct conf_file *file;
    unsigned line;        /* where the name stands (caret lines, "in F:L" of duplicates) */
    unsigned end_line;    /* line of the ';' or '{': what messages quote, as nginx does */
    unsigned close_line;  /* of a block: line of its '}' */
    unsigned order;       /* serial number in reading order: diagnostics are sorted by it */
    unsigned close_order; /* of a block: the same for its '}' */
    bool is_closed;     /* of a block: conf_enter is done, messages now have the place of the '}' */
    bool is_dropped;    /* a grammar error struck it: it is in no list and nobody applies it */
    const char *source; /* where the name starts in file->text, for caret lines */
    void *user;         /* of the row's apply, to be seen by its enter */
};

/* One message about a configuration. */
struct conf_message {
    struct conf_message *next;
    enum log_level level;         /* emerg or warn, as a rule */
    struct str text;              /* without the place */
    const struct conf_node *node; /* or NULL */
    const struct conf_file *file; /* or NULL: no " in F:L" is shown */
    unsigned line;
    unsigned order;     /* place in the reading; conf_report sorts by it */
    unsigned sequence;  /* serial number of the message: keeps those of one place in order */
    const char *source; /* in file->text, for the caret line; or NULL */
    struct str hint;    /* "did you mean …", or empty */
    struct str mark; /* the word that the caret stands under; empty: the one that the text quotes */
    int error;       /* errno or 0, shown as " (2: No such file or directory)" */
    int braces; /* of an error that only counts braces: -1 a "}" is missing, 1 one is too many; else
                   0 */
};

struct directive_table;

/* A table as a reading uses it. */
struct conf_table {
    const struct directive_table *table; /* NULL: its module is not there in this reading */
    const char *module;                  /* "ngx_http_core_module"; NULL = not known */
};

/* A reading of a configuration: everything in it is in `arena`, that of the generation. */
struct conf {
    struct arena *arena;
    struct str prefix;      /* run prefix with trailing slash */
    struct str conf_prefix; /* directory of the file, with trailing slash */
    struct str file_name;   /* of the main file, full */
    struct conf_file *files;
    /* Where it is not NULL, files and what matches a glob come from this list, and none from the
     * disk. */
    const struct conf_file *kept;
    struct conf_node *root;        /* a block without name; its children are the main context */
    struct conf_message *messages; /* newest first; sorted by order when printed */
    unsigned error_count;          /* errors so far, those of grammar included */
    unsigned grammar_error_count;  /* errors of conf_read alone */
    unsigned position;          /* order that messages without a node get: where applying stands */
    struct conf_engine *engine; /* of conf_apply; NULL before */
    bool is_later;              /* a text that came when the reading was over: see conf_later */
    unsigned next_order;
    struct map state; /* by name: what modules keep while the configuration is read */
    /* Of all modules, in an order that never changes in one process; set before conf_apply. The
     * first is empty: its number is that of keys whose table nobody has. */
    struct conf_table *tables;
    unsigned table_count;
    void *generation; /* struct generation *, of src/server */
    /* Handed down by src/server, or NULL: what is known of a directive that no table has, put
     * in parentheses after "unknown directive"; empty when nothing is. context: where it stands
     * (enum context). */
    struct str (*explain_unknown)(struct conf *conf, struct str directive, uint32_t context);
};

/*
 * Reads the file with its includes (globs sorted, no match is fine), and before it the text of -g,
 * to the tree conf->root. Grammar errors become messages; reading continues after each. false when
 * there was any. Waits for the disk.
 */
bool conf_read(struct conf *conf, struct str file_name, struct str extra);

/* Is what stands in the braces of this directive Lua, and no directives? */
bool conf_is_code_block(struct str name);

/* The lexer alone, for tests and fuzzing: one text to nodes under conf->root. */
bool conf_parse_text(struct conf *conf, const struct conf_file *file);

/*
 * Reads a file of `types`-like entries for a free-form block that has include of its own; appends
 * its nodes to the parent.
 */
bool conf_include(struct conf *conf, struct conf_node *parent, struct conf_node *include);

/*
 * Messages. node may be NULL (no place is shown). Each gives false, so that `return conf_error(…)`
 * is one line. The place is the line of the directive's ';' or '{', and, once conf_enter was done
 * for a block, of its '}', because that is where nginx stands when it says so.
 */
bool conf_error(struct conf *conf, const struct conf_node *node, const char *format, ...)
    __attribute__((format(printf, 3, 4), cold));
bool conf_errno(struct conf *conf, const struct conf_node *node, int error, const char *format, ...)
    __attribute__((format(printf, 4, 5), cold));
/* A warning that stands at level alert, as nginx has a few. */
void conf_alert(struct conf *conf, const struct conf_node *node, const char *format, ...)
    __attribute__((format(printf, 3, 4), cold));
void conf_warn(struct conf *conf, const struct conf_node *node, const char *format, ...)
    __attribute__((format(printf, 3, 4), cold));
void conf_hint(struct conf *conf, const char *format, ...) /* adds to the newest message */
    __attribute__((format(printf, 2, 3), cold));
/* The caret of the newest message stands under this word of its statement. */
void conf_mark(struct conf *conf, struct str word);

/*
 * Writes the messages in order of the file: the log line `[emerg] TEXT in F:L`; with `is_verbose`
 * (a terminal, or -t twice) each error is followed by the source line, a caret, and the hint.
 * Without it all errors are listed too.
 */
void conf_report(const struct conf *conf, const struct log *log, bool is_verbose);

/* The nearest of the candidates by edit distance, for "did you mean"; empty when none is near. */
struct str conf_nearest(struct str word, const struct str *candidates, size_t count);

/*
 * What differs between two trees, as lines for people: listen addresses, certificates, then
 * directives and blocks by their place. Blocks are the same when their arguments are; a `server`
 * without arguments by its names and addresses. Neither tree was applied. Gives the number of
 * differences. In diff.c.
 */
unsigned conf_diff(const struct conf *old, const struct conf *next, struct buf *out);

/*
 * Full path of a file named in the configuration: relative to the conf prefix (is_conf_relative) or
 * the run prefix.
 */
struct str conf_full_name(struct conf *conf, struct str name, bool is_conf_relative);

/* What a module keeps while reading, by a key of its own. Created cleared on first use. */
void *conf_state(struct conf *conf, const char *key, size_t size);

#endif
