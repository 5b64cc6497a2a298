/* The addresses that servers listen on, made when the configuration is read. */
#ifndef HTTP_CLIENT_LISTEN_H
#define HTTP_CLIENT_LISTEN_H

#include "http/routing/settings.h"

/* `listen` of a server block, and the implied one where there is none. */
bool listen_apply(struct conf_scope *scope, const struct directive *row, struct conf_node *node,
                  void *settings);
bool listen_default(struct conf_scope *scope, struct http_server *server);
/* When all servers are read: names to tables for each address. */
bool listens_finish(struct conf *conf, struct http_main *main);
/* When the modules have had their say: what connections of each address begin with. */
void listens_set_stages(struct conf *conf, struct http_main *main);

#endif
