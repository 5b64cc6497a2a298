/* Directive tables: a row is a directive; parsing, defaults, inheritance and the manual come from
 * it. Implemented in apply.c, inherit.c, list.c, messages.c and values.c. */
#ifndef CONF_DIRECTIVE_H
#define CONF_DIRECTIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/buf.h"
#include "base/str.h"
#include "conf/conf.h"
#include "conf/template.h"

/* Where a directive is allowed: a bit for each kind of block. */
enum context {
    IN_MAIN = 1 << 0,
    IN_EVENTS = 1 << 1,
    IN_DSO = 1 << 2,
    IN_HTTP = 1 << 3,
    IN_SERVER = 1 << 4,
    IN_LOCATION = 1 << 5,
    IN_SERVER_IF = 1 << 6,
    IN_LOCATION_IF = 1 << 7,
    IN_LIMIT_EXCEPT = 1 << 8,
    IN_UPSTREAM = 1 << 9,
    IN_STREAM = 1 << 10,
    IN_STREAM_SERVER = 1 << 11,
    IN_STREAM_UPSTREAM = 1 << 12,
    IN_MAIL = 1 << 13,
    IN_MAIL_SERVER = 1 << 14,
    IN_PROCESSES = 1 << 15,
    IN_PROCESS = 1 << 16,
    IN_OIDC_PROVIDER = 1 << 17,
    IN_REDIS_STORE = 1 << 18,
    IN_ACME_ISSUER = 1 << 19,
    IN_OTEL_EXPORTER = 1 << 20,
    IN_DISCOVERY = 1 << 21,
    IN_ANY = 0x7fffffff,
    IN_HTTP_ALL = IN_HTTP | IN_SERVER | IN_LOCATION, /* the usual "http, server, location" */
    IN_HTTP_LOCATION_SETTINGS = /* blocks that have settings of the location level */
    IN_HTTP | IN_SERVER | IN_LOCATION | IN_SERVER_IF | IN_LOCATION_IF | IN_LIMIT_EXCEPT,
};

/* How a value is parsed, and how it is stored. */
enum value_type {
    TYPE_FLAG,          /* bool: on, off */
    TYPE_ENUM,          /* unsigned: one of .words */
    TYPE_BITS,          /* unsigned: any of .words, or-ed */
    TYPE_NUMBER,        /* int64_t within [.min, .max] */
    TYPE_SIZE,          /* uint64_t bytes */
    TYPE_OFFSET,        /* int64_t bytes, with g */
    TYPE_MSEC,          /* uint64_t milliseconds */
    TYPE_SEC,           /* uint64_t seconds */
    TYPE_STRING,        /* struct str */
    TYPE_PATH,          /* struct str: full path, relative to the run prefix, NUL-terminated */
    TYPE_CONF_PATH,     /* struct str: the same, relative to the configuration's directory */
    TYPE_TEMPLATE,      /* struct template *: text with variables */
    TYPE_TEMPLATE_SIZE, /* struct template *: a size when evaluated; constant ones are checked at
                           once */
    TYPE_STRINGS,       /* struct vec of struct str: all arguments appended */
    TYPE_TEMPLATES,     /* struct vec of struct template *: all arguments appended (predicates) */
    TYPE_KEY_TEMPLATE,  /* struct vec of struct key_template: name and text, appended */
    TYPE_BUFFERS,       /* struct buffers: number and size */
    TYPE_CUSTOM,        /* the row's apply parses it */
    TYPE_BLOCK,         /* a block: apply is called in order, enter applies its contents */
    TYPE_OBSOLETE, /* nginx or Tengine ignores it, too; .doc says since when; a warning is logged */
};

/*
 * What a second use at one level does. For BLOCK and CUSTOM rows, too: server, location, map … need
 * REPEAT_CUSTOM.
 */
enum repeat {
    REPEAT_ERROR,  /* "x" directive is duplicate */
    REPEAT_APPEND, /* a list: the first use at a level replaces the inherited list, further uses
                      append */
    REPEAT_MERGE,  /* a list or bits: appended to the inherited one; a CUSTOM row calls vec_copy */
    REPEAT_CUSTOM, /* apply decides */
};

enum inherit {
    INHERIT_VALUE, /* the parent's value, which is copied */
    INHERIT_NEVER, /* starts from the default in each block */
};

struct directive_word {
    const char *word;
    unsigned value;
};

struct buffers {
    uint64_t number;
    uint64_t size; /* bytes each */
};

struct key_template {
    struct str key;
    struct template *text;
};

struct conf_scope;

struct directive {
    const char *name;
    uint32_t contexts; /* enum context */
    enum value_type type;
    uint16_t min_args; /* without the name; 0,0 = those of the type */
    uint16_t max_args; /* ARGS_ANY = no limit */
    uint32_t offset;   /* of the field in the table's settings */
    uint32_t size;     /* of the field; 0 = none */
    enum repeat repeat;
    enum inherit inherit;
    /*
     * The default as a user writes it, "\"\"" for an empty argument, ';' between several uses; NULL
     * = all bits zero.
     */
    const char *initial;
    const struct directive_word *words; /* for ENUM and BITS; ended by a NULL word */
    int64_t min, max; /* for NUMBER, SIZE, OFFSET, MSEC; 0,0 = any that is not negative */
    /*
     * CUSTOM: parses the node into settings. conf_is_set() is true from the second use on. For a
     * default, scope has no parent and no context. BLOCK: called for the block in the order of the
     * rows (may be NULL). Other types: checks after the value was stored (may be NULL). False after
     * conf_error.
     */
    bool (*apply)(struct conf_scope *scope, const struct directive *row, struct conf_node *node,
                  void *settings);
    /*
     * BLOCK: called after all other rows and the finish hooks of the enclosing block; calls
     * conf_enter.
     */
    bool (*enter)(struct conf_scope *scope, const struct directive *row, struct conf_node *node,
                  void *settings);
    const char *doc;    /* one or two sentences for the manual */
    const char *syntax; /* arguments for the manual where the type does not define them */
    /* Deprecated: warns `the "x" directive is deprecated, use the "y" directive instead`. */
    const char *replaced_by;
    bool is_free_form;  /* BLOCK whose lines are entries, not directives (types, map, …) */
    const char *source; /* "file:line" of the row, or of the macro that defines it; `nginx -ll` */
    bool is_late; /* variables that are used in `http` must be defined only if a server has no such
                     row of its own, as for lists that nginx compiles for each server */
};

#define ARGS_ANY UINT16_MAX

/* Where a row is in the sources. Part of the macros below; each row uses one of them. */
#define ROW_SOURCE .source = __FILE__ ":" ROW_LINE(__LINE__)
#define ROW_LINE(line) ROW_LINE_TEXT(line)
#define ROW_LINE_TEXT(line) #line

/* A member as a typed field: a wrong type does not compile. */
#define FIELD_OF(settings, member, wanted)                                                         \
    .offset =                                                                                      \
        offsetof(settings, member) + 0 * sizeof(_Generic(((settings *) 0)->member, wanted : 0)),   \
    .size = sizeof(((settings *) 0)->member), ROW_SOURCE

#define FLAG(settings, member) .type = TYPE_FLAG, FIELD_OF(settings, member, bool)
#define ENUM(settings, member, list)                                                               \
    .type = TYPE_ENUM, .words = list, FIELD_OF(settings, member, unsigned)
#define BITS(settings, member, list)                                                               \
    .type = TYPE_BITS, .words = list, FIELD_OF(settings, member, unsigned)
#define NUMBER(settings, member) .type = TYPE_NUMBER, FIELD_OF(settings, member, int64_t)
#define SIZE(settings, member) .type = TYPE_SIZE, FIELD_OF(settings, member, uint64_t)
#define OFFSET(settings, member) .type = TYPE_OFFSET, FIELD_OF(settings, member, int64_t)
#define MSEC(settings, member) .type = TYPE_MSEC, FIELD_OF(settings, member, uint64_t)
#define SEC(settings, member) .type = TYPE_SEC, FIELD_OF(settings, member, uint64_t)
#define STRING(settings, member) .type = TYPE_STRING, FIELD_OF(settings, member, struct str)
#define PATH(settings, member) .type = TYPE_PATH, FIELD_OF(settings, member, struct str)
#define CONF_PATH(settings, member) .type = TYPE_CONF_PATH, FIELD_OF(settings, member, struct str)
#define TEMPLATE(settings, member)                                                                 \
    .type = TYPE_TEMPLATE, FIELD_OF(settings, member, struct template *)
#define TEMPLATE_SIZE(settings, member)                                                            \
    .type = TYPE_TEMPLATE_SIZE, FIELD_OF(settings, member, struct template *)
#define STRINGS(settings, member) .type = TYPE_STRINGS, FIELD_OF(settings, member, struct vec)
#define TEMPLATES(settings, member) .type = TYPE_TEMPLATES, FIELD_OF(settings, member, struct vec)
#define KEY_TEMPLATE(settings, member)                                                             \
    .type = TYPE_KEY_TEMPLATE, FIELD_OF(settings, member, struct vec)
#define BUFFERS(settings, member) .type = TYPE_BUFFERS, FIELD_OF(settings, member, struct buffers)
#define CUSTOM(function) .type = TYPE_CUSTOM, .apply = function, ROW_SOURCE
/* A custom row with a field of any type, so that inheritance and defaults apply to it. */
#define CUSTOM_FIELD(settings, member, function)                                                   \
    .type = TYPE_CUSTOM, .apply = function, .offset = offsetof(settings, member),                  \
    .size = sizeof(((settings *) 0)->member), ROW_SOURCE
#define BLOCK(function) .type = TYPE_BLOCK, .enter = function, ROW_SOURCE
#define FREE_FORM(function) .type = TYPE_BLOCK, .apply = function, .is_free_form = true, ROW_SOURCE
#define OBSOLETE .type = TYPE_OBSOLETE, ROW_SOURCE
#define ARGS(least, most) .min_args = least, .max_args = most

/*
 * Identifies the settings of a table. It is defined beside their struct, so that code which reads
 * settings does not depend on the rows that fill them. The number is the same in every reading of
 * one process.
 */
struct settings_key {
    unsigned
        number; /* index in conf_scope.settings; set by conf_apply; 0 = no reading had its table */
};

/*
 * Defines `const TYPE *NAME(const OWNER *owner)`: the settings of a table in a struct that has
 * those of all tables, such as a location of http or a server of stream.
 */
#define TYPED_SETTINGS(NAME, TYPE, KEY, OWNER)                                                     \
    static inline const TYPE *NAME(const OWNER *owner)                                             \
    {                                                                                              \
        return owner->settings[(KEY).number];                                                      \
    }

/* A condition on one member of settings: it is on, set or not 0; a list is not empty. */
struct settings_condition {
    const struct settings_key *key; /* NULL: always true */
    uint32_t offset;
    uint32_t size;
};

/* `.when = SETTING(gzip_key, struct gzip_settings, is_on)`; for a list, its member `count`. */
#define SETTING(settings_key, settings, member)                                                    \
    {                                                                                              \
        &(settings_key), offsetof(settings, member),                                               \
            sizeof(char[sizeof(((settings *) 0)->member) <= sizeof(uint64_t) ? 1 : -1]) *          \
                sizeof(((settings *) 0)->member)                                                   \
    }

/* Is the condition true in the settings of a block (conf_scope.settings)? */
static inline bool setting_is_set(const struct settings_condition *when, void *const *settings)
{
    static const char zeros[sizeof(uint64_t)];

    if (when->key == NULL) {
        return true;
    }
    const char *found = settings[when->key->number];
    return found != NULL && memcmp(found + when->offset, zeros, when->size) != 0;
}

/*
 * A table: the rows of one module at one level, and the settings struct that they fill. Each block
 * whose context is in `contexts` has settings: a copy of the parent's when the parent has them,
 * else the defaults. A table without hooks whose rows are all plain (no CUSTOM, BLOCK or
 * INHERIT_NEVER) shares the parent's settings until a row is set: only the engine writes to them.
 */
struct directive_table {
    struct settings_key *key;     /* identifies the settings; NULL when no code reads them */
    const struct directive *rows; /* ended by a NULL name; may be NULL */
    uint32_t contexts;            /* blocks that have settings of this table */
    size_t size;                  /* of the settings; 0 = none */
    /*
     * Optional. Computes derived values and checks rows against each other, after the block's own
     * rows and before its nested blocks. As with nginx, its messages about the block have the line
     * of the outermost block's '}'; they are left out when a row of this block had an error.
     */
    bool (*finish)(struct conf_scope *scope, void *settings);
    /* Optional. Resets fields without a row that must not be inherited; called after the copy. */
    void (*fresh)(void *settings);
    const char *module_name; /* for headings of -l and of the manual; NULL = the module that has the
                                table */
};

/* A block that is being applied. */
struct conf_scope {
    struct conf *conf;
    struct conf_scope *parent; /* NULL for main */
    struct conf_node *node;    /* the block */
    uint32_t context;          /* one bit */
    void **settings;     /* by table; for tables that this context lacks, the parent's pointer */
    uint64_t **presence; /* by table: bit n = row n was set here; NULL if none was */
    struct vec late;     /* struct late_use: rows with is_late */
};

/*
 * Gives the keys of conf->tables their numbers, builds the lookup of names, and applies conf->root.
 * False when there were errors.
 */
bool conf_apply(struct conf *conf);
/*
 * The apply function of rows such as types_hash_max_size, whose numbers have no effect. 0 is an
 * error nevertheless, as with nginx, which cannot build such a table. Below a server it is
 * accepted.
 */
bool conf_hash_size_check(struct conf_scope *scope, const struct directive *row,
                          struct conf_node *node, void *settings);

/*
 * Makes the scope of a nested block, applies its rows, calls the finish hooks, then enters its
 * nested blocks. `prepare` (may be NULL) is called after the settings were copied and before any
 * row is applied. Called by rows' enter.
 */
struct conf_scope *conf_enter(struct conf_scope *parent, struct conf_node *node, uint32_t context,
                              void (*prepare)(struct conf_scope *scope, void *arg), void *arg);

struct variable_set;

/*
 * For configuration text that comes at run time: *out reads it into `arena`, and changes nothing of
 * `conf`, which must live as long. Variables are those of `set`; new ones, and new zones, cannot be
 * defined.
 */
void conf_later(const struct conf *conf, struct arena *arena, struct variable_set *set,
                struct conf *out);

/* For such text: a copy of the scope `outer`, to be given to conf_enter with a node whose children
 * conf_parse_text made. Errors are in later->messages. Not on a fiber's stack: see
 * fiber_call_on_main. */
struct conf_scope *conf_scope_later(struct conf *later, const struct conf_scope *outer);

/* The settings of a table in this scope. */
static inline void *conf_settings(const struct conf_scope *scope, const struct settings_key *key)
{
    return scope->settings[key->number];
}

/* Is a default being applied, not a line of the configuration? */
static inline bool conf_is_default(const struct conf_scope *scope)
{
    return scope->context == 0;
}

/* Was the row (by name) set in this block itself? */
bool conf_is_set(const struct conf_scope *scope, const struct settings_key *key, const char *name);

/* How a block combines its own lines with those of the enclosing block: rows `LIST_inherit`. */
enum list_inherit { LIST_INHERIT_OFF, LIST_INHERIT_ON, LIST_INHERIT_MERGE };
extern const struct directive_word list_inherit_words[];

/* A list with such a row. Its items begin with a struct str: the name by which the block's own
 * lines override others. */
struct inherited_list {
    const struct settings_key *key;
    const char *row; /* REPEAT_APPEND: the list, whose inherited lines are replaced by the first one
                        of the block */
    size_t offset;   /* of its struct vec in the settings */
    size_t item_size;  /* bytes */
    bool ignores_case; /* for names */
};

/*
 * For a finish hook: computes the list that is in effect in this block. With "merge", the lines of
 * the outer block whose names the block itself does not have come first, then its own; with "off",
 * only its own. A block that cannot have such lines (`if`, limit_except) has those of the enclosing
 * block.
 */
void conf_list_inherit(const struct conf_scope *scope, const struct inherited_list *list,
                       enum list_inherit inherit);

/*
 * A hint for the newest message, which is about a file or a word that some directive of this block
 * or of the enclosing ones names: the location of that directive. Only directives whose names begin
 * with `prefix` are searched ("ssl_").
 */
void conf_hint_origin(const struct conf_scope *scope, const char *prefix);

/* The name of the module of a table, for lists; "?" when it is not known. */
const char *conf_table_module(const struct conf_table *use);

/* The scope of the main level, for modules without a nested scope. */
struct conf_scope *conf_main_scope(struct conf *conf);

/*
 * Value parsers, for rows that parse some of their arguments themselves. Each gives false after a
 * conf_error.
 */
bool conf_value_flag(struct conf_scope *scope, const struct conf_node *node, unsigned arg,
                     bool *out);
bool conf_value_template(struct conf_scope *scope, const struct conf_node *node, unsigned arg,
                         struct template **out);

/* Writes the rows of all tables by module: in the format of `-l`, or as Markdown for `make
 * docs`. */
void conf_list_directives(const struct conf_table *tables, unsigned count, struct buf *out,
                          bool as_markdown);

#endif
