/* Shared by the files of messages.h. Implemented in messages.c, messages_calls.c and
 * messages_records.c. */
#ifndef NET_TLS_MESSAGES_PRIVATE_H
#define NET_TLS_MESSAGES_PRIVATE_H

#include "event/loop.h"
#include "net/tls/messages.h"
#include "net/tls/private.h"

/* Does the library have calls for QUIC? */
#if OPENSSL_VERSION_NUMBER >= 0x30500000L && !defined(OPENSSL_NO_QUIC)
#define TLS_HAS_QUIC_CALLS 1
#else
#define TLS_HAS_QUIC_CALLS 0
#endif

/* Bytes for the library, or from it. */
struct message_bytes {
    unsigned char *at; /* owned */
    size_t used, capacity;
};

/* The keys of one direction of the records between the library and this code; they never leave the
 * process. */
struct record_keys {
    EVP_CIPHER_CTX *aead; /* owned; NULL: records are not encrypted */
    unsigned char iv[12];
    uint64_t sequence;
};

/* A position in a sequence of handshake messages (RFC 8446, 4). */
struct message_walk {
    unsigned char head[4]; /* type and length of the message */
    unsigned head_size;    /* bytes of the head seen so far */
    uint32_t left;         /* bytes of the message not seen yet */
};

/* The secrets of the direction in which the library writes. */
struct own_secrets {
    unsigned char bytes[TLS_LEVELS][EVP_MAX_MD_SIZE];
    unsigned char size[TLS_LEVELS];
};

/* The state of a connection whose handshake uses messages; attached to struct tls. */
struct tls_messages {
    struct tls *tls;
    const struct tls_messages_owner *owner;
    void *arg;
    struct deferred resumed;
    enum tls_level reading; /* the level at which the library expects messages */
    unsigned alert;         /* sent by the library; 0 = none */
    bool is_over;           /* TLS_DONE was returned */
    bool has_failed;
    bool has_parameters; /* the peer's were received */
    struct message_bytes in;
    size_t in_read;            /* bytes of `in` that the library has read */
    struct message_walk heard; /* position in the peer's messages after the handshake */
    /* Used by messages_records.c, `writing` by messages_calls.c as well: */
    struct message_bytes out;
    struct record_keys opens, closes;
    unsigned suite;
    enum tls_level writing; /* the level of what the library writes next */
    struct message_walk written;
    struct own_secrets *own; /* until a server's handshake is over; owned, or NULL */
};

void message_bytes_add(struct message_bytes *bytes, const void *from, size_t size);
/* Makes space for `size` more bytes; the caller increments `used`. */
unsigned char *message_bytes_reserve(struct message_bytes *bytes, size_t size);

/* Removes bytes up to the next beginning or end of a message from *bytes, and gives which it
 * was. */
enum message_met { MESSAGE_MET_NOTHING, MESSAGE_MET_HEAD, MESSAGE_MET_END };
enum message_met message_walk_on(struct message_walk *walk, struct str *bytes);

/* ---- implemented by messages_calls.c or messages_records.c ---- */

/* Makes the SSL of the state, without a socket. NULL: logged. */
SSL *tls_messages_ssl_new(struct tls *tls, SSL_CTX *ctx);
/* Prepares a context for an SSL that uses messages. */
bool tls_messages_prepare_ctx(SSL_CTX *ctx);
/* Sets again what SSL_set_SSL_CTX has reset. */
void tls_messages_follow(struct tls *tls);
/* The SSL has got another context. False: the handshake fails. */
bool tls_messages_went_over(struct tls *tls);
/* Passes messages to the library. */
bool tls_messages_put(struct tls_messages *messages, enum tls_level level, struct str bytes);
/* Passes what the library wrote to the owner. False: it is invalid. */
bool tls_messages_collect(struct tls_messages *messages);
/* The handshake of a server is over: frees what only the handshake needed. */
void tls_messages_settle(struct tls_messages *messages);
/* Frees the messages of the state. */
void tls_messages_free(struct tls *tls);

#endif
