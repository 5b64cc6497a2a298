/*
 * TLS 1.3 without records, as QUIC carries it (RFC 9001): handshake messages go in and out by
 * level, secrets come out. The handshake is that of every other connection: servers are chosen by
 * name, certificates, tickets, scripts and facts are the same.
 *
 * Since OpenSSL 3.5 the library has calls for that (messages_calls.c). Before, it speaks records
 * over memory, and this side opens and closes them with the secrets that the library logs
 * (messages_records.c).
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

/* What a connection hears. Called inside tls_messages_input and tls_messages_step, but for
 * `resume`. */
struct tls_messages_owner {
    /* A secret of packets (not of Initial ones). False: the handshake fails. */
    bool (*secret)(void *arg, enum tls_level level, bool is_for_sending, unsigned suite,
                   struct str secret);
    /* Messages for the peer; in order within a level. Bytes are gone after the call. */
    void (*send)(void *arg, enum tls_level level, struct str bytes);
    /* The peer's transport parameters. False: the handshake fails. */
    bool (*parameters)(void *arg, struct str bytes);
    /* Ours; asked when the handshake begins, or later. They stay valid until it ends. */
    struct str (*own_parameters)(void *arg);
    /* On the loop's stack: something that the handshake waited for has come; call
     * tls_messages_step. */
    void (*resume)(void *arg);
};

/* The server's side, on a conn without a descriptor. False: logged. */
bool tls_messages_accept(struct conn *conn, struct tls_context *context,
                         const struct tls_selector *selector,
                         const struct tls_messages_owner *owner, void *arg);
/* The client's. `options->hooks` live until the handshake has ended, or tls_messages_stop. False:
 * logged. */
bool tls_messages_connect(struct conn *conn, struct tls_context *context,
                          const struct tls_client_options *options,
                          const struct tls_messages_owner *owner, void *arg);

/* Bytes of the peer's messages at a level, in order. Takes all of them. False: see
 * tls_messages_alert. */
bool tls_messages_input(struct conn *conn, enum tls_level level, struct str bytes);
/* Continues with the handshake, or with what comes after it. TLS_FAILED: logged. */
enum tls_progress tls_messages_step(struct conn *conn);
/* Of the client: no hook is called any more, and one that waits has returned. MAY WAIT. */
void tls_messages_stop(struct conn *conn);
/* Of the client, after TLS_DONE: is the peer who it should be? False: logged. */
bool tls_messages_verify(struct conn *conn, const struct tls_client_options *options);
/* The alert that a failure is reported by. */
unsigned tls_messages_alert(const struct conn *conn);
/* Was a session resumed? */
bool tls_messages_is_resumed(const struct conn *conn);

/* "callbacks of OpenSSL" or "records over memory": for -V and the log. */
const char *tls_messages_way(void);

#endif
