/* Modules: tables and hooks. The same source whether it is linked in or loaded.
 * Implemented in configuration/registry.c. */
#ifndef SERVER_MODULE_H
#define SERVER_MODULE_H

#include <stdbool.h>

#include "conf/directive.h"
#include "conf/lint.h"
#include "server/generation.h"

enum module_kind { MODULE_CORE, MODULE_EVENT, MODULE_HTTP, MODULE_STREAM, MODULE_MAIL };

#define MODULE_MAGIC 0x90427506u

/*
 * The version and a hash of all headers, in the program and in each loadable object. An object with
 * another one is refused: its structs may differ from ours. Implemented in interface.c of the build
 * directory, which auto/interface writes.
 */
extern const char module_interface[];

struct module {
    unsigned magic;
    const char *name; /* "ngx_http_empty_gif_module" */
    enum module_kind kind;
    struct directive_table table; /* of a module that has one; else no rows and no key */
    const struct directive_table *const
        *tables;       /* in place of it, if there are several; NULL-ended */
    const void *hooks; /* of its kind: struct http_module for MODULE_HTTP */

    /* In the master (and with -t), after all directives were applied; may add to the generation.
     * False after conf_error. */
    bool (*configured)(struct conf *conf, struct generation *generation);
    /* In the master (and with -t, as generation->is_test says), when logs and zones are open. False
     * = the start, the reload or the test fails; the reason was logged. */
    bool (*opened)(struct generation *generation);
    /* In each worker before it serves. False = the worker exits with code 2. */
    bool (*worker_start)(struct generation *generation);
    /* The generation in this worker is going to end (reload or quit): idle things are let go. */
    void (*worker_quit)(struct generation *generation);
    /* The worker ends though something is open still (TERM, worker_shutdown_timeout): breaks it
     * off. A few turns of the loop follow. Optional. */
    void (*worker_abort)(struct generation *generation);
    /* Nothing is open any more; last words. */
    void (*worker_end)(struct generation *generation);

    /*
     * Of the module that has the block of a protocol: the rows of variables of a module of that
     * protocol, for the manual. Lists are numbered from 0; NULL: the module has no more, or belongs
     * to another protocol.
     */
    const struct variable *(*variables_of)(const struct module *module, unsigned list);
    /* Of `-t --lint`, ended by a NULL name; or NULL. */
    const struct lint_rule *lint_rules;
};

/* The tables of a module, numbered from 0; NULL after the last one. */
const struct directive_table *module_table(const struct module *module, unsigned number);

/* Made by configure, NULL-ended, in order of `-V`. */
extern const struct module *const linked_modules[];

/* Made by configure, NULL-ended: names of modules that were built as loadable objects beside it. */
extern const char *const loadable_modules[];

/* The same of those that a build can have and this one has not. */
extern const char *const omitted_modules[];

/* All modules of a reading: linked ones, then loaded ones. */
struct loaded_module {
    struct loaded_module *next;
    const struct module *module;
    void *handle; /* dlopen */
    struct str path;
};

/*
 * load_module and `load` of dso: opens the object (its symbol is named as the file without .so, or
 * found by the symbol `module_exported`), checks the interface and the magic, and adds it. Where
 * the file is not there, or is a module of nginx's, the one of that name in the folder of
 * --modules-path is opened. One that is linked in already is skipped with a notice; one that is not
 * there, or that dlopen(3) refuses since it is nginx's, with a warning. False after conf_error.
 */
bool module_load(struct conf *conf, const struct conf_node *node, struct str path);

/* "loaded modules:" lines of -V and -m: those of the reading, then those that load_module would
 * find beside it. */
void modules_list(struct generation *generation, struct buf *out);

#endif
