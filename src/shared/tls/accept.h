/* Handshakes with clients on connections of any protocol: one step at a time, with counters; and
 * the selection of a context. */
#ifndef SHARED_TLS_ACCEPT_H
#define SHARED_TLS_ACCEPT_H

#include "shared/tls/server.h"

/*
 * Continues the handshake as far as possible; the first call begins it. `first` is the context of
 * the address's default server; log is the connection's log during the handshake.
 */
enum tls_progress tls_server_go_on(struct conn *conn, struct tls_context *first,
                                   const struct tls_selector *selector, struct log *log);

/* The context of the chosen server, else of the default one. NULL: the handshake is rejected. */
struct tls_context *tls_server_context(const struct tls_server_settings *chosen,
                                       const struct tls_server_settings *first);
/* The settings whose certificates the client gets: those of the chosen server or, if it has none,
 * of the default one. */
const struct tls_server_settings *tls_server_certified(const struct tls_server_settings *chosen,
                                                       const struct tls_server_settings *first);

/*
 * Is the client's certificate acceptable for the server's ssl_verify_client? False: logged at info,
 * and the session must not be resumed. *has_certificate: there is a certificate, and it is the
 * reason.
 */
bool tls_server_check_client(const struct tls_server_settings *settings, struct conn *conn,
                             const struct log *log, bool *has_certificate);

/*
 * While the configuration is read: checks that `first`, the default server of an address with TLS,
 * has a certificate or rejects handshakes; in the latter case, the same for all servers of the vec.
 * node is the line that enables TLS, with this parameter of `listen`. False after conf_error.
 */
bool tls_server_check_listen(struct conf *conf, const struct conf_node *node, const char *parameter,
                             const struct vec *servers, const void *first,
                             const struct tls_server_settings *(*settings_of)(const void *server));

#endif
