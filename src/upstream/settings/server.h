/* `server` of a group, and what its parser shares with other rows of the block.
 * Implemented in server.c and state.c. */
#ifndef UPSTREAM_SETTINGS_SERVER_H
#define UPSTREAM_SETTINGS_SERVER_H

#include "upstream/upstream.h"

/* A server with the defaults of `server`, at the end of the group. */
struct upstream_server *upstream_server_add(struct conf *conf, struct upstream_group *group,
                                            const struct conf_node *node, struct str written);

/* Reads server->written; a name is looked up later. False after conf_error. */
bool upstream_server_read(struct conf *conf, const struct conf_node *node, uint16_t default_port,
                          struct upstream_server *server);

/* The row `server`; its settings are the group. */
bool upstream_server_apply(struct conf_scope *scope, const struct directive *row,
                           struct conf_node *node, void *settings);

/* `state`: reads the servers that the file has. */
bool upstream_state_apply(struct conf_scope *scope, const struct directive *row,
                          struct conf_node *node, void *settings);
/* Does it go with the rest of the block? False after conf_error. */
bool upstream_state_check(struct conf *conf, const struct upstream_group *group);

#endif
