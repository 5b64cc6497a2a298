/* ssl_session_ticket_key auto sync: keys of tickets that several nodes have in common. */
#ifndef SHARED_TLS_TICKETS_H
#define SHARED_TLS_TICKETS_H

#include "base/shm.h"
#include "store/table.h"

/* Where the keys are that make themselves (server.c). NULL after conf_error. */
struct zone *tls_ticket_zone(struct conf *conf);

/* All servers that have no files for these keys take them from the store, and one node makes them.
 * False after conf_error. */
bool tls_tickets_sync(struct conf *conf, struct conf_node *node,
                      const struct store_sync_words *words);

#endif
