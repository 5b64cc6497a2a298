/* balancer_by_lua: where a request or a session goes, as a script says before each attempt
 * (upstream/balancer_decision.h). */
#ifndef LUA_BALANCER_BALANCER_H
#define LUA_BALANCER_BALANCER_H

#include "conf/directive.h"
#include "lua/config/rows.h"
#include "lua/vm/thread.h"
#include "upstream/peer.h"

/* Rows of it inside an `upstream` block; APPLY calls script_balancer_read. */
#define SCRIPT_BALANCER_ROWS(CONTEXT, APPLY)                                                       \
    {"balancer_by_lua_block",                                                                      \
     CONTEXT,                                                                                      \
     CUSTOM(APPLY),                                                                                \
     ARGS(1, 1),                                                                                   \
     .repeat = REPEAT_CUSTOM,                                                                      \
     .syntax = "{ Lua }",                                                                          \
     .doc = "Lua that selects the peer before each attempt."},                                     \
    {                                                                                              \
        "balancer_by_lua_file", CONTEXT, CUSTOM(APPLY), ARGS(1, 1),                                \
            .repeat = REPEAT_CUSTOM, .syntax = "path",                                             \
            .doc = "Lua that selects the peer before each attempt."                                \
    }

/* The group that is being read has this balancer, whose `direct` calls script_balance. False after
 * conf_error. */
bool script_balancer_read(struct conf_scope *scope, const struct conf_node *node,
                          const struct balancer *balancer);

/* Reads balancer_keepalive: how many connections rest that ngx.balancer.enable_keepalive lets rest.
 */
bool script_balancer_keepalive_apply(struct conf_scope *scope, const struct directive *row,
                                     struct conf_node *node, void *settings);

/* Runs the script of the group for the attempt that comes. */
void script_balance(struct script_subject *subject, struct upstream_pick *pick);

/* Makes `require "ngx.balancer"` find it. */
void script_balancer_add(lua_State *L);

#endif
