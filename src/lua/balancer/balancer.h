/* balancer_by_lua: a script selects the peer before each attempt of a request or a session
 * (upstream/balancer_decision.h). */
#ifndef LUA_BALANCER_BALANCER_H
#define LUA_BALANCER_BALANCER_H

#include "conf/directive.h"
#include "lua/config/rows.h"
#include "lua/vm/thread.h"
#include "upstream/peer.h"

/* The rows of balancer_by_lua in an `upstream` block; APPLY calls script_balancer_read. */
#define SCRIPT_BALANCER_ROWS(CONTEXT, APPLY)                                                       \
    {"balancer_by_lua_block",                                                                      \
     CONTEXT,                                                                                      \
     CUSTOM(APPLY),                                                                                \
     ARGS(1, 1),                                                                                   \
     .repeat = REPEAT_CUSTOM,                                                                      \
     .syntax = "{ Lua }",                                                                          \
     .doc = "Runs Lua code that selects the peer before each attempt."},                           \
    {                                                                                              \
        "balancer_by_lua_file", CONTEXT, CUSTOM(APPLY), ARGS(1, 1),                                \
            .repeat = REPEAT_CUSTOM, .syntax = "path",                                             \
            .doc = "Runs Lua code that selects the peer before each attempt."                      \
    }

/* The group that is being read has this balancer, whose `direct` calls script_balance. False after
 * conf_error. */
bool script_balancer_read(struct conf_scope *scope, const struct conf_node *node,
                          const struct balancer *balancer);

/* Reads balancer_keepalive: the limit of idle connections kept by ngx.balancer.enable_keepalive. */
bool script_balancer_keepalive_apply(struct conf_scope *scope, const struct directive *row,
                                     struct conf_node *node, void *settings);

/* Runs the script of the group for the next attempt. */
void script_balance(struct script_subject *subject, struct upstream_pick *pick);

/* Makes `require "ngx.balancer"` find it. */
void script_balancer_add(lua_State *L);

#endif
