/* What the files of messages.h share.
 * Implemented in messages.c, messages_calls.c and messages_records.c. */
#ifndef NET_TLS_MESSAGES_PRIVATE_H
#define NET_TLS_MESSAGES_PRIVATE_H

#include "event/loop.h"
#include "net/tls/messages.h"
#include "net/tls/private.h"

/* Has the library calls for QUIC? */
#if OPENSSL_VERSION_NUMBER >= 0x30500000L && !defined(OPENSSL_NO_QUIC)
#define TLS_HAS_QUIC_CALLS 1
#else
#define TLS_HAS_QUIC_CALLS 0
#endif

/* Bytes on their way into the library, or out of it. */
struct message_bytes {
    unsigned char *at; /* owned */
    size_t used, room;
};

/* One direction of the records that the library reads or writes, and that nobody else ever sees. */
struct record_keys {
    EVP_CIPHER_CTX *aead; /* owned; NULL: records are plain */
    unsigned char iv[12];
    uint64_t sequence;
};

/* Where one is in a row of handshake messages (RFC 8446, 4). */
struct message_walk {
    unsigned char head[4]; /* type and length of the message */
    unsigned head_size;    /* bytes of it that were seen */
    uint32_t left;         /* bytes of the message that were not */
};

/* Secrets with which the library writes. */
struct own_secrets {
    unsigned char bytes[TLS_LEVELS][EVP_MAX_MD_SIZE];
    unsigned char size[TLS_LEVELS];
};

/* Behind struct tls of a connection whose handshake goes in messages. */
struct tls_messages {
    struct tls *tls;
    const struct tls_messages_owner *owner;
    void *arg;
    struct deferred resumed;
    enum tls_level reading; /* the level at which the library expects messages */
    unsigned alert;         /* that the library sent; 0 = none */
    bool is_over;           /* TLS_DONE was given */
    bool has_failed;
    bool has_parameters; /* the peer's were heard */
    struct message_bytes in;
    size_t in_read;            /* bytes of `in` that the library has */
    struct message_walk heard; /* after the handshake */
    /* Of messages_records.c: */
    struct message_bytes out;
    struct record_keys opens, closes;
    unsigned suite;
    enum tls_level writing; /* of the next encrypted record that the library writes */
    struct message_walk written;
    struct own_secrets *own; /* until the handshake of a server is over; owned, or NULL */
};

void message_bytes_add(struct message_bytes *bytes, const void *from, size_t size);
/* Room for `size` more; the caller raises `used`. */
unsigned char *message_bytes_room(struct message_bytes *bytes, size_t size);

/* Takes bytes up to the next beginning or end of a message off *bytes, and gives what was met. */
enum message_met { MESSAGE_MET_NOTHING, MESSAGE_MET_HEAD, MESSAGE_MET_END };
enum message_met message_walk_on(struct message_walk *walk, struct str *bytes);

/* ---- what each of the two ways has ---- */

/* The SSL of the state, which does not know of a socket. NULL: logged. */
SSL *tls_messages_ssl_new(struct tls *tls, SSL_CTX *ctx);
/* A context that an SSL of messages is made with, or goes over to, is made ready for it. */
bool tls_messages_prepare_ctx(SSL_CTX *ctx);
/* Sets again what a change of context has lost. */
void tls_messages_follow(struct tls *tls);
/* An SSL has another context. False: the handshake fails. */
bool tls_messages_went_over(struct tls *tls);
/* Puts messages where the library reads. */
bool tls_messages_put(struct tls_messages *messages, enum tls_level level, struct str bytes);
/* Gives the owner what the library wrote. False: it makes no sense. */
bool tls_messages_collect(struct tls_messages *messages);
/* The handshake of a server is over: frees what only that needed. */
void tls_messages_settle(struct tls_messages *messages);
/* Frees what hangs on it. */
void tls_messages_free(struct tls *tls);

#endif
