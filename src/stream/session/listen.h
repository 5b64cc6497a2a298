/* The addresses that servers of stream listen on, made when the configuration is read. */
#ifndef STREAM_SESSION_LISTEN_H
#define STREAM_SESSION_LISTEN_H

#include "stream/session/settings.h"

/* `listen` of a server block. */
bool stream_listen_apply(struct conf_scope *scope, const struct directive *row,
                         struct conf_node *node, void *settings);
/* When all servers are read: the names of each address. False after conf_error. */
bool stream_listens_finish(struct conf *conf, struct stream_main *main);

#endif
