/* Lua of a subsystem from the reading of the configuration to the end of a worker: the hooks that http and stream have in common. */
#ifndef LUA_CONFIG_MAIN_H
#define LUA_CONFIG_MAIN_H

#include "lua/vm/vm.h"

struct conf;
struct conf_scope;
struct generation;

/* What a subsystem has of Lua. The first member of its settings of the main level; lives as long as the generation. */
struct script_main {
    struct script_vm_options options;
    struct script_vm *vm; /* NULL: there is no Lua to run */
};

/* The settings of the subsystem's block are `main`: script_main_of finds them. `key` is the subsystem's own. */
void script_main_set(struct conf_scope *scope, const char *key, struct script_main *main);
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
