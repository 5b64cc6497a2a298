/* What the files of TLS share among themselves; private to this package. */
#ifndef NET_TLS_PRIVATE_H
#define NET_TLS_PRIVATE_H

#include <openssl/err.h>
#include <openssl/ssl.h>

#include "net/resolver/resolver.h"
#include "net/tls/tls.h"

/* Is there this, in the library that we are built with? */
#define TLS_HAS_SIGNATURE_NAMES (OPENSSL_VERSION_NUMBER >= 0x30500000L)
#if OPENSSL_VERSION_NUMBER >= 0x40000000L && !defined(OPENSSL_NO_ECH)
#define TLS_HAS_ECH 1
#else
#define TLS_HAS_ECH 0
#endif

#define TLS_RECORD_MAX 16384 /* plain bytes of a record */

/* A certificate of a context with what belongs to it. In the arena. */
struct tls_identity {
    struct str name;           /* of the certificate's file, for messages */
    X509 *leaf;                /* counted reference */
    X509 *issuer;              /* counted reference, or NULL: not known */
    struct tls_staple *staple; /* its OCSP answer, or NULL */
};

/* A key that tickets are made with. */
struct tls_ticket_key {
    unsigned char name[16];
    unsigned char hmac[32];
    unsigned char aes[32];
    uint8_t size; /* bytes of hmac and of aes that count: 16 or 32 */
};

#define TLS_CONTEXT_MAGIC 0x715c0817u

struct tls_context {
    uint32_t magic;
    SSL_CTX *ctx; /* owned; another one takes its place when files have changed */
    struct tls_settings settings;
    struct vec identities;              /* struct tls_identity */
    struct tls_ticket_key *ticket_keys; /* from files; or NULL */
    size_t ticket_key_count;
    struct session_store *sessions;  /* of the shared zone; or NULL */
    struct ticket_ring *ring;        /* keys that make themselves; or NULL */
    uint32_t ring_reading;           /* in which the context was made; see tls_ring_use */
    struct ocsp_target *ocsp_target; /* ssl_ocsp_responder; or NULL */
    struct tls_watch *watch;         /* files as they were loaded; or NULL */
    struct tls_context *next;        /* of all contexts of this process */
    struct arena *arena;             /* of the generation */
};

struct tls;

/* What is otherwise where the handshake goes in messages instead of records (messages.c). */
struct tls_way {
    SSL *(*ssl_new)(struct tls *tls, SSL_CTX *ctx); /* NULL: logged */
    bool (*prepare)(SSL_CTX *ctx);                  /* a context that it may go over to */
    bool (*follow)(struct tls *tls); /* it went over to another context; false: that failed */
    void (*wake)(struct tls *tls);   /* a step can go on; calls the owner later */
    void (*free)(struct tls *tls);
};

/* What a connection has: its transport_state. On the heap. */
struct tls {
    SSL *ssl; /* NULL until the first bytes were seen */
    struct conn *conn;
    SSL_CTX *made_with; /* what the SSL was made with, by a reference of its own: that of the
                           address's default server, or of a server that is gone, when files have
                           changed. Sessions and tickets are its own (README.md) */
    struct tls_context *context; /* the chosen server's, or made_with's before one is chosen */
    const struct tls_selector *selector; /* of a server; or NULL */
    struct str alpn_offer;               /* wire form: what the selected server speaks */
    char *prefix; /* raw bytes that were read before TLS began; pooled; or NULL */
    uint32_t prefix_size, prefix_at, prefix_end;
    char *out;         /* records that the socket has not taken; heap; or NULL */
    uint32_t out_at;   /* the first byte of it that is left */
    uint32_t out_end;  /* end of these bytes */
    uint32_t out_size; /* room of it */
    uint32_t ahead;    /* bytes at the head of the connection's queue that are in `out` already */
    uint32_t start_ms; /* of the handshake, of the monotonic clock, low half */
    uint32_t took_ms;  /* the handshake */
    uint32_t drained_turn;   /* of the loop in which the socket was found empty; low half */
    int io_error;            /* errno of the last failed read or write of the socket, or 0 */
    struct tls_ocsp *ocsp;   /* asking about the client's certificate; or NULL */
    long ocsp_error;         /* X509_V_ERR_… or X509_V_OK */
    const char *ocsp_reason; /* text of it, static */
    bool ocsp_is_checked;    /* asked about, or nothing to ask */
    char early_byte;         /* the first byte of early data, until it is read */
    bool has_early_byte;
    bool reads_early; /* early data may come: SSL_read_early_data is to be asked first */
    bool is_client;
    bool is_established;       /* the handshake is done, or early data is read */
    bool is_early;             /* early data is read: the handshake is still open */
    bool is_failed;            /* nothing may be said any more, not even close_notify */
    bool is_end_said;          /* close_notify was sent */
    bool is_raw_readable;      /* the socket may have more */
    bool is_raw_closed;        /* its end was read */
    bool uses_ktls;            /* OpenSSL writes to the socket itself */
    bool wants_write;          /* kTLS: the handshake waits for the socket to be writable */
    bool is_challenge;         /* acme-tls/1: nothing comes after the handshake */
    bool has_selected;         /* the ClientHello has chosen a context */
    bool is_rejected;          /* there is no context for the ClientHello */
    bool was_looked_at;        /* the first byte is of TLS */
    bool is_held_back;         /* what `out` has is in no hurry: it leaves with the first answer */
    const struct tls_way *way; /* of a handshake in messages; NULL: records over the socket */
    struct tls_messages *messages;               /* state of such a handshake */
    const struct tls_client_hooks *client_hooks; /* of a client; or NULL */
    uint64_t deadline_ms;                        /* of the handshake as a client */
    enum wait_result asked_wait;   /* how the wait for a script of the handshake ended */
    const struct tls_hooks *hooks; /* scripts that are asked, or NULL */
    struct fiber_handle asking;    /* the fiber of a step of the handshake, with hooks */
    struct log *asking_log;  /* of a step that has waited, on the fiber's stack: see tls_ask_end */
    struct log *asked_log;   /* the connection's own log meanwhile */
    enum tls_progress asked; /* what that step has come to, once it is not is_asking any more */
    bool is_asking;          /* the fiber is inside OpenSSL: nobody else may go there */
    bool has_waited;         /* that fiber has waited: the owner is called when it leaves OpenSSL */
    bool has_asked;          /* `asked` is to be taken up */
    bool is_abandoned; /* the connection was closed meanwhile: conn is NULL, and the fiber frees
                          this */
};

static inline struct tls *tls_of(const struct conn *conn)
{
    return conn->transport_state;
}

extern const struct conn_transport tls_transport;
extern const struct conn_transport tls_transport_ktls;

/* A step of the handshake has waited for something other than the socket, and can go on: the owner
 * is called, later. */
void tls_wake_owner(struct tls *tls);

/* ---- ask.c: scripts in a handshake, who may wait ---- */

/*
 * A step of a handshake with hooks, on a fiber: what it has come to. TLS_MORE also while it waits
 * for a script: the owner's input is called when that is over.
 */
enum tls_progress tls_ask_step(struct tls *tls, enum tls_progress (*step)(struct tls *));
/*
 * Around the call of a hook that may wait, in a callback of OpenSSL. False: the connection is
 * broken, and nobody is asked, or it was closed meanwhile.
 */
bool tls_ask_begin(struct tls *tls);
bool tls_ask_end(struct tls *tls);
/* The connection is closed while a fiber is inside. */
void tls_ask_abandon(struct tls *tls);

/* Frees what tls_attach has made, when no connection knows of it any more (transport.c). */
void tls_state_free(struct tls *tls);

/* ---- memory.c: OpenSSL as a whole ---- */

/* Indexes of what hangs on OpenSSL's objects: struct tls_context *, struct tls *. Made once. */
extern int tls_context_index;
extern int tls_index;
extern struct tls_context *tls_contexts; /* all of this process */
void tls_library_init(void);

static inline struct tls_context *tls_context_of(const SSL_CTX *ctx)
{
    return SSL_CTX_get_ex_data(ctx, tls_context_index);
}

/*
 * OpenSSL asks the callbacks of sessions and tickets that belong to the context that an SSL was
 * made with, while SSL_get_SSL_CTX gives the one that the name chose: which need not have a cache,
 * keys, or anything. These give the one whose callback it is, and the one that the chosen server is
 * served with.
 */
static inline const struct tls_context *tls_session_context(const SSL *ssl)
{
    const struct tls *tls = SSL_get_ex_data(ssl, tls_index);
    return tls_context_of(tls->made_with);
}

static inline const struct tls_context *tls_chosen_context(const SSL *ssl)
{
    return tls_context_of(SSL_get_SSL_CTX(ssl));
}

/* OpenSSL's memory comes from us. Done by itself when the program begins. */
void tls_memory_init(void);

/* ---- error.c ---- */

/* What was left in OpenSSL's queue is forgotten. It costs as much as a record to do that when there
 * is nothing. */
/* What tls_last_failure gives is TLS_FAILURE_OTHER, unless tls_log_failure knows better. */
void tls_forget_failure(void);

static inline void tls_clear_errors(void)
{
    if (ERR_peek_error() != 0) {
        ERR_clear_error();
    }
}

/* "WHAT (SSL: error:… error:…)" of what is in OpenSSL's queue, which is empty then. */
struct str tls_reason(struct arena *arena, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Logs "WHAT failed (SSL: …)" of a connection, with the level that its fault has. */
void tls_log_failure(const struct log *log, const char *what);
/* How grave an error of OpenSSL is in a handshake with a backend: what we refuse ourselves is
 * critical, as with nginx. */
enum log_level tls_backend_level(unsigned long code);
/* The same with a level of its own. */
void tls_log_at(const struct log *log, enum log_level level, const char *what);
/* A failed system call of the connection. */
void tls_log_errno(const struct log *log, int error, const char *what);

/* ---- object.c: what is loaded from files ---- */

/*
 * Each gives a reference of the caller's own, or NULL with *error. The name is a full path, or
 * "data:…", for keys "engine:…" and "store:…", too. Of one reading each is loaded once (arena; NULL
 * = always again).
 */
STACK_OF(X509) *
    tls_load_chain(struct arena *cache, struct arena *arena, struct str name, struct str *error);
EVP_PKEY *tls_load_key(struct arena *cache, struct arena *arena, struct str name,
                       const struct vec *passwords, struct str *error);
/* Did the key that was loaded last want a password? Such are for those who know it. */
bool tls_key_was_encrypted(void);
STACK_OF(X509) *
    tls_load_ca(struct arena *cache, struct arena *arena, struct str name, struct str *error);
STACK_OF(X509_CRL) *
    tls_load_crl(struct arena *cache, struct arena *arena, struct str name, struct str *error);

/* ---- parts.c: parts of a context, each false with *error ---- */

/* An SSL_CTX that is being made of a context's settings. */
struct tls_making {
    SSL_CTX *ctx;
    struct arena *cache;    /* of what was loaded in this reading of the configuration; or NULL */
    struct arena *arena;    /* for what the context keeps, and for the error */
    struct vec *identities; /* struct tls_identity: gets those of its certificates */
    struct str *error;      /* gets why it could not be made */
};

bool tls_apply_certificates(struct tls_making *making, const struct tls_settings *settings);
/* Is the key of the certificate's kind? One of another kind the library keeps for a certificate to
 * come, and says nothing. Else false with an error of OpenSSL. */
bool tls_key_fits(X509 *certificate, EVP_PKEY *key);
bool tls_apply_verification(struct tls_making *making, const struct tls_settings *settings);
bool tls_apply_session_id_context(SSL_CTX *ctx, const struct tls_settings *settings,
                                  struct arena *arena, struct str *error);
/* Keys of encrypted ClientHellos (RFC 9849). */
bool tls_apply_ech(SSL_CTX *ctx, const struct tls_settings *settings, struct arena *arena,
                   struct str *error);
/* Secrets of connections go to the file that the settings name, if they do. */
void tls_apply_key_log(SSL_CTX *ctx, const struct tls_settings *settings);
/* Writes a line of the key log of the server that was chosen, if it has one. */
void tls_key_log(const SSL *ssl, const char *line);
void tls_identities_free(struct vec *identities);

/* ---- context.c ---- */

/* A whole SSL_CTX of the context's settings, which making->ctx gets, too; NULL with *error. */
SSL_CTX *tls_ctx_new(struct tls_context *context, struct tls_making *making);
/* The context is no longer used for new connections. OpenSSL, which empties its own cache when the
 * last connection has gone, no longer takes sessions out of the shared zone: that lives on, or is
 * gone already. */
void tls_ctx_let_go(SSL_CTX *ctx);

/* ---- session.c, ticket.c ---- */

bool tls_sessions_init(struct tls_context *context, SSL_CTX *ctx);
/* The session may not be resumed: it leaves the zone of the context, if that has one. */
void tls_session_drop(const struct tls_context *context, const SSL_SESSION *session);
/* A context of this reading is used: where it is the last one its period counts. */
void tls_ring_use(struct ticket_ring *ring, uint32_t reading);
/* The key to encrypt with (name NULL), or the one of this name. 0 = none, 1 = found, 2 = an old
 * one: the client should get a new ticket. */
int tls_ring_find(struct ticket_ring *ring, const unsigned char *name, uint64_t now,
                  struct tls_ticket_key *out);
bool tls_tickets_init(struct tls_context *context, SSL_CTX *ctx, struct arena *arena,
                      struct str *error);

/* ---- accept.c ---- */

void tls_server_init(struct tls_context *context, SSL_CTX *ctx);

/* ---- bio.c ---- */

#define RECORDS_PER_SEND 4

/* A kind of BIO, of these functions, that is ready as soon as it is made. For the life of the
 * process. */
BIO_METHOD *tls_bio_method_new(const char *name, int (*read)(BIO *, char *, int),
                               int (*write)(BIO *, const char *, int),
                               long (*ctrl)(BIO *, int, long, void *));
/* An SSL for this state, whose bytes go over the connection's socket. NULL: logged. */
SSL *tls_ssl_new(struct tls *tls, SSL_CTX *ctx);
/* The state of a connection that begins to speak TLS; is its transport from now on. */
struct tls *tls_attach(struct conn *conn, struct tls_context *context);
/* Ciphertext gathers between these two, and leaves with the second; false: the connection is
 * broken. */
void tls_gather_begin(struct tls *tls);
bool tls_gather_end(struct tls *tls, bool more_follows);
/* The same without sending anything. */
void tls_gather_drop(struct tls *tls);
/* Between them: what has gathered is in no hurry; and it joins what is written now. */
void tls_hold_back(struct tls *tls);
void tls_take_held_back(struct tls *tls);
/* Sends what is held; true: nothing is left. */
bool tls_send_held(struct tls *tls, bool more_follows);

/* ---- transport.c ---- */

/* SSL_do_handshake or SSL_read_early_data, and what became of it. */
enum tls_progress tls_step(struct conn *conn);

/* ---- client.c ---- */

/* An SSL for what the options ask for. False: logged. */
bool tls_client_prepare(struct tls *tls, const struct tls_client_options *options);
/* The peer's certificate was verified, and is for the name. False: logged. */
bool tls_client_is_right_peer(SSL *ssl, const struct tls_client_options *options,
                              const struct log *log);
/* The certificate is for this host: a name, or an address in its subjectAltName. */
bool tls_certificate_is_for(X509 *certificate, struct str name);

/* ---- objects.c ---- */

/* Before the handshake. False: logged. */
bool tls_use_objects(SSL *ssl, const struct tls_client_objects *objects, const struct log *log);
/* A part of tls_client_identity; what it was made of lives as long as the connection. */
uint64_t tls_objects_identity(const struct tls_client_objects *objects);

/* ---- responder.c, status.c: asking an authority about a certificate (RFC 6960) ---- */

/* A responder: http://host[:port][/path]. Strings in the arena. */
struct ocsp_target {
    struct str host, path; /* path without a slash at its end */
    uint16_t port;
    struct addr_list addresses; /* known since the configuration was read; or none */
};

/* False: it is no such URL. */
bool ocsp_target_parse(struct arena *arena, struct str url, struct ocsp_target *out);

/* What the authority says. */
struct ocsp_response {
    int status;           /* V_OCSP_CERTSTATUS_… */
    uint64_t valid_until; /* seconds of the wall clock */
    struct str der;       /* the whole answer; in the arena */
};

/* Who is asked, about what. */
struct ocsp_question {
    X509 *certificate; /* borrowed */
    X509 *issuer;      /* borrowed */
    X509_STORE *store; /* whom we trust */
    bool verifies;     /* the answer's signature */
    const struct ocsp_target *target;
    const struct tls_settings *settings; /* for the resolver */
    const struct log *log;
};

/* The log of the server whose settings these are, for what no client waits for. */
struct log tls_log(const struct tls_settings *settings);
/* Asks; false: logged. MAY WAIT; on a fiber. */
bool ocsp_ask(const struct ocsp_question *question, struct arena *arena, struct ocsp_response *out);
/* Reads an answer to the question; false: logged. */
bool ocsp_response_read(const struct ocsp_question *question, struct str der,
                        struct ocsp_response *out);
/* The bytes that the responder is sent: an OCSPRequest; empty on failure. */
struct str ocsp_request_bytes(const struct ocsp_question *question, struct arena *arena);
/* The HTTP part of it. MAY WAIT. */
bool ocsp_fetch(const struct ocsp_question *question, struct str request, struct arena *arena,
                struct str *answer);

/* ---- staple.c, ocsp.c ---- */

/* Sets up the staples of what was made for the context; false with *error. */
bool tls_staples_init(struct tls_context *context, const struct tls_making *making,
                      const struct log *log);
void tls_staple_free(struct tls_staple *staple);

/* Checks the settings of ssl_ocsp; false with *error. */
bool tls_ocsp_init(struct tls_context *context, struct arena *arena, struct str *error);
/* Is the client's certificate still good? Begins to ask its authority. TLS_DONE: known, see
 * ocsp_error. TLS_MORE: the owner's input is called when it is. */
enum tls_progress tls_ocsp_check(struct tls *tls);
/* The connection ends while its question is open. */
void tls_ocsp_forget(struct tls *tls);

/* ---- watch.c ---- */

void tls_watch_init(struct tls_context *context);
void tls_watch_free(struct tls_watch *watch);
void tls_watch_start(const struct log *log);
void tls_watch_end(void);

#endif
