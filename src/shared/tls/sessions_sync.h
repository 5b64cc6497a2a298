/* `ssl_session_cache shared:… sync`: sessions of TLS 1.2 that clients can resume at any node.
 * Implemented in sessions_sync.c. */
#ifndef SHARED_TLS_SESSIONS_SYNC_H
#define SHARED_TLS_SESSIONS_SYNC_H

#include "net/tls/sessions.h"
#include "store/store.h"

/* While the configuration is read. Directives with the same zone get the same result. NULL after
 * conf_error. */
const struct tls_session_sharing *tls_sessions_sync(struct conf *conf, struct conf_node *node,
                                                    struct zone *zone,
                                                    const struct store_sync_words *words);

#endif
