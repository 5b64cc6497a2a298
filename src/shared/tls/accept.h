/* Handshakes with clients, on any protocol's connections: one step at a time, counted; and whose
 * context is used. */
#ifndef SHARED_TLS_ACCEPT_H
#define SHARED_TLS_ACCEPT_H

#include "shared/tls/server.h"

/*
 * The handshake as far as it goes now; begins it at the first call. `first` is the address's
 * default server's context; log is that of the connection while the handshake works.
 */
enum tls_progress tls_server_go_on(struct conn *conn, struct tls_context *first,
                                   const struct tls_selector *selector, struct log *log);

/* Of the server that a name leads to, and of the default one: NULL, the handshake is rejected. */
struct tls_context *tls_server_context(const struct tls_server_settings *chosen,
                                       const struct tls_server_settings *first);
/* The settings whose certificates a client gets: those of the chosen server, or, where it has none,
 * of the default one. */
const struct tls_server_settings *tls_server_certified(const struct tls_server_settings *chosen,
                                                       const struct tls_server_settings *first);

/*
 * Does the client's certificate do, as ssl_verify_client of the server says? False: logged at info,
 * and the session may not be resumed. *has_certificate: there is one, and it is what is wrong.
 */
bool tls_server_check_client(const struct tls_server_settings *settings, struct conn *conn,
                             const struct log *log, bool *has_certificate);

/*
 * When the configuration is read: has the default server of an address with TLS, first, something
 * to say; and where it only rejects, all others of the vec of servers? node is the line that asks
 * for TLS, by this parameter of `listen`. False after conf_error.
 */
bool tls_server_check_listen(struct conf *conf, const struct conf_node *node, const char *parameter,
                             const struct vec *servers, const void *first,
                             const struct tls_server_settings *(*settings_of)(const void *server));

#endif
