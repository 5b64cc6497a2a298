/* The addresses that stream servers listen on, set up when the configuration is read. */
#ifndef STREAM_SESSION_LISTEN_H
#define STREAM_SESSION_LISTEN_H

#include "stream/session/settings.h"

/* `listen` of a server block. */
bool stream_listen_apply(struct conf_scope *scope, const struct directive *row,
                         struct conf_node *node, void *settings);
/* After all servers were read: builds the server names of each address. False after conf_error. */
bool stream_listens_finish(struct conf *conf, struct stream_main *main);

#endif
