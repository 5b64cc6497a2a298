/* Lua of a subsystem from the reading of the configuration to the end of a worker: the hooks that
 * http and stream have in common. */
#ifndef LUA_CONFIG_MAIN_H
#define LUA_CONFIG_MAIN_H

#include "lua/vm/vm.h"

struct conf;
struct conf_scope;
struct generation;

struct log_sink;
struct script_settings;

/* What the subsystem's outermost block says, for code that runs without a request. */
struct script_location {
    const struct script_settings *settings;
    struct log_sink *const *error_log; /* its chain; NULL after it: that of the main level */
};

/* What a subsystem has of Lua. The first member of its settings of the main level; lives as long as
 * the generation. */
struct script_main {
    struct script_vm_options options;
    const struct script_location *location;
    struct script_vm *vm; /* NULL: there is no Lua to run */
};

/*
 * The settings of the subsystem's block are `main`: script_main_of finds them. `key` is the
 * subsystem's own. What the block says of code without a request is copied.
 */
void script_main_set(struct conf_scope *scope, const char *key, struct script_main *main,
                     const struct script_location *location);
/* NULL: there is no such block. */
struct script_main *script_main_of(struct conf *conf, const char *key);

/* All was read. True where there is any Lua. */
bool script_main_end(struct conf *conf, const char *key, const struct script_subsystem *subsystem);

/* ---- the hooks of a module (server/module.h) */

bool script_main_opened(struct generation *generation, const char *key);
void script_main_worker_start(struct generation *generation, const char *key);
void script_main_worker_quit(struct generation *generation);
void script_main_worker_end(struct generation *generation, const char *key);

/* Adds to `ngx`, on top of L, what every subsystem has. */
void script_add_common(struct script_vm *vm, lua_State *L);

#endif
