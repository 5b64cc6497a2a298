/* Shared by the files of src/conf only. */
#ifndef CONF_INTERNAL_H
#define CONF_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/map.h"
#include "base/str.h"
#include "conf/conf.h"
#include "conf/directive.h"

#define TOKEN_MAX 4096   /* bytes of one word as written */
#define BLOCK_DEPTH 200  /* blocks inside blocks */
#define INCLUDE_DEPTH 64 /* files inside files */

/* ---- lexer.c */

/* The files that are being read, innermost first: detects an include cycle. */
struct conf_reading {
    const struct conf_reading *outer;
    const struct conf_file *file;
    unsigned depth;
};

/* Appends the nodes of one text to a block. False when there was a grammar error. */
bool conf_parse_into(struct conf *conf, const struct conf_reading *reading,
                     struct conf_node *block);

/* ---- code_block.c */

/* How a block of Lua ends. */
enum code_end {
    CODE_CLOSED,       /* at its brace */
    CODE_OPEN,         /* the text ends before */
    CODE_LONG_BRACKET, /* the text ends inside a long bracket */
    CODE_QUOTE,        /* the text ends inside a quoted string */
};

/* `at` is after the opening brace. *close: the closing brace, or the start of the long bracket (of
 * *level) or string. */
enum code_end conf_code_block(const char *at, const char *end, const char **close, int *level);

/* ---- include.c */

/* Reads what an include names and appends its nodes to the block. False after an error. */
bool conf_include_into(struct conf *conf, const struct conf_reading *reading,
                       struct conf_node *block, const struct conf_node *include);

/* ---- messages.c */

/* A grammar error, where there is no node yet. source may be NULL. */
bool conf_error_at(struct conf *conf, const struct conf_file *file, unsigned line,
                   const char *source, const char *format, ...)
    __attribute__((format(printf, 5, 6), cold));
/*
 * A "{" of this file that is missing, or is too many, was found: drops the first error after it
 * that reports the same about braces (conf_message.braces), since that is its consequence.
 */
void conf_drop_brace_error(struct conf *conf, const struct conf_node *node, int braces);
/* An error of any level and errno, with a location or (node NULL) without. */
bool conf_failure(struct conf *conf, const struct conf_node *node, enum log_level level, int error,
                  const char *format, ...) __attribute__((format(printf, 5, 6), cold));

/* ---- apply.c */

/*
 * One row of a table, in the lookup by name. Rows with the same name are chained in the order of
 * the tables.
 */
struct row_entry {
    struct row_entry *next;
    const struct directive *row;
    const struct directive_table *table;
    unsigned number;    /* of the table in conf->tables */
    unsigned row_index; /* in table->rows: its presence bit */
};

/* The variables of a row with is_late: servers that inherit it need them. */
struct late_use {
    const struct row_entry *entry;
    struct vec variables; /* struct variable * */
};

/* The state of conf_apply. */
struct conf_engine {
    struct map rows;         /* by name: struct row_entry *, the first of its chain */
    struct conf_scope *main; /* scope of the main context */
    bool *needs_copy;        /* by table: settings may change without a row, so copy them at once */
    void **defaults;         /* by table: settings made of all .initial values; NULL = not yet */
    bool is_finishing; /* a finish hook runs: messages have the location of the end of the block */
    struct late_use *late;         /* of the row that is being read, if that is_late; or NULL */
    const struct conf_scope *mute; /* messages of this scope's finish hooks are dropped, or NULL */
};

/* The settings of a table with all its .initial values, in this reading. */
const void *conf_defaults(struct conf *conf, unsigned number);

/* ---- values.c */

/*
 * Stores the arguments in the field of a row that is neither CUSTOM nor BLOCK. False after an
 * error.
 */
bool conf_store_value(struct conf_scope *scope, const struct directive *row, struct conf_node *node,
                      void *settings, bool is_first);
/* The numbers of arguments that the row and its type allow. */
void conf_row_arity(const struct directive *row, unsigned *least, unsigned *most);

/* ---- list.c */

/* "http, server, location" of a set of context bits. */
struct str conf_context_names(struct arena *arena, uint32_t contexts);

#endif
