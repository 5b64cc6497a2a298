/*
 * TLS 1.3 without records, as used by QUIC (RFC 9001): handshake messages are passed in and out by
 * level, and secrets come out. Otherwise the handshake is the same as on TCP: choice of the server
 * by name, certificates, tickets, scripts, variables.
 *
 * OpenSSL 3.5 and later has calls for this (messages_calls.c). Older versions read and write
 * records in memory, and this code opens and closes these with the secrets from the library's key
 * log (messages_records.c).
 */
#ifndef NET_TLS_MESSAGES_H
#define NET_TLS_MESSAGES_H

#include <stdbool.h>

#include "base/str.h"
#include "net/tls/tls.h"

enum tls_level {
    TLS_LEVEL_INITIAL,
    TLS_LEVEL_EARLY,
    TLS_LEVEL_HANDSHAKE,
    TLS_LEVEL_APPLICATION,
    TLS_LEVELS
};

#define TLS_ALERT_UNEXPECTED_MESSAGE 10u
#define TLS_ALERT_INTERNAL_ERROR 80u
#define TLS_ALERT_MISSING_EXTENSION 109u
#define TLS_ALERT_NO_APPLICATION_PROTOCOL 120u

/* Callbacks of a connection. Called inside tls_messages_input and tls_messages_step, except
 * `resume`. */
struct tls_messages_owner {
    /* A secret for packets (not for Initial ones). False: the handshake fails. */
    bool (*secret)(void *arg, enum tls_level level, bool is_for_sending, unsigned suite,
                   struct str secret);
    /* Messages for the peer, in order within a level. The bytes are valid during the call only. */
    void (*send)(void *arg, enum tls_level level, struct str bytes);
    /* The peer's transport parameters. False: the handshake fails. */
    bool (*parameters)(void *arg, struct str bytes);
    /* Our transport parameters; called when the handshake begins, or later. They stay valid until
     * it ends. */
    struct str (*own_parameters)(void *arg);
    /* Runs on the loop's stack: the handshake can continue; call tls_messages_step. */
    void (*resume)(void *arg);
};

/* Starts the server's side, on a conn without a descriptor. False: logged. */
bool tls_messages_accept(struct conn *conn, struct tls_context *context,
                         const struct tls_selector *selector,
                         const struct tls_messages_owner *owner, void *arg);
/* Starts the client's side. `options->hooks` must be valid until the handshake has ended, or until
 * tls_messages_stop. False: logged. */
bool tls_messages_connect(struct conn *conn, struct tls_context *context,
                          const struct tls_client_options *options,
                          const struct tls_messages_owner *owner, void *arg);

/* Passes in bytes of the peer's messages at a level, in order; always all of them. False: see
 * tls_messages_alert. */
bool tls_messages_input(struct conn *conn, enum tls_level level, struct str bytes);
/* Continues the handshake, or what comes after it. TLS_FAILED: logged. */
enum tls_progress tls_messages_step(struct conn *conn);
/* For a client: no hook is called after this, and one that waits has returned. MAY WAIT. */
void tls_messages_stop(struct conn *conn);
/* For a client, after TLS_DONE: is the peer the right one? False: logged. */
bool tls_messages_verify(struct conn *conn, const struct tls_client_options *options);
/* The alert to report a failure with. */
unsigned tls_messages_alert(const struct conn *conn);
/* Was a session resumed? */
bool tls_messages_is_resumed(const struct conn *conn);

/* "callbacks of OpenSSL" or "records over memory": for -V and the log. */
const char *tls_messages_way(void);

#endif
