/* ssl_session_ticket_key auto sync: ticket keys that several nodes share. */
#ifndef SHARED_TLS_TICKETS_H
#define SHARED_TLS_TICKETS_H

#include "base/shm.h"
#include "store/table.h"

/* The zone of automatic keys (server.c). NULL after conf_error. */
struct zone *tls_ticket_zone(struct conf *conf);

/* All servers without files for these keys use those of the store, which one node makes. False
 * after conf_error. */
bool tls_tickets_sync(struct conf *conf, struct conf_node *node,
                      const struct store_sync_words *words);

#endif
