/* Shared by the files of this package, private to it. */
#ifndef NET_TLS_PRIVATE_H
#define NET_TLS_PRIVATE_H

#include <openssl/err.h>
#include <openssl/ssl.h>

#include "net/resolver/resolver.h"
#include "net/tls/tls.h"

/* Features of the library that this is built with. */
#define TLS_HAS_SIGNATURE_NAMES (OPENSSL_VERSION_NUMBER >= 0x30500000L)
#if OPENSSL_VERSION_NUMBER >= 0x40000000L && !defined(OPENSSL_NO_ECH)
#define TLS_HAS_ECH 1
#else
#define TLS_HAS_ECH 0
#endif

#define TLS_RECORD_MAX 16384 /* plain bytes of a record */

/* A certificate of a context and what belongs to it. In the arena. */
struct tls_identity {
    struct str name;           /* file name of the certificate, for messages */
    X509 *leaf;                /* counted reference */
    X509 *issuer;              /* counted reference, or NULL: unknown */
    struct tls_staple *staple; /* its OCSP answer, or NULL */
};

/* A key for tickets. */
struct tls_ticket_key {
    unsigned char name[16];
    unsigned char hmac[32];
    unsigned char aes[32];
    uint8_t size; /* bytes of hmac and aes in use: 16 or 32 */
};

#define TLS_CONTEXT_MAGIC 0x715c0817u

struct tls_context {
    uint32_t magic;
    SSL_CTX *ctx; /* owned; replaced when files have changed */
    struct tls_settings settings;
    struct vec identities;              /* struct tls_identity */
    struct tls_ticket_key *ticket_keys; /* from files; or NULL */
    size_t ticket_key_count;
    struct session_store *sessions; /* of the shared zone; or NULL */
    struct ticket_ring *ring;       /* generated keys; or NULL */
    /* The reading of the configuration that made this context; see tls_ring_use. */
    uint32_t ring_reading;
    struct ocsp_target *ocsp_target; /* ssl_ocsp_responder; or NULL */
    struct tls_watch *watch;         /* state of its files when they were loaded; or NULL */
    struct tls_context *next;        /* next of all contexts of this process */
    struct arena *arena;             /* the generation's */
};

struct tls;

/* How handshakes in messages (messages.c) differ from those in records. */
struct tls_way {
    SSL *(*ssl_new)(struct tls *tls, SSL_CTX *ctx); /* NULL: logged */
    bool (*prepare)(SSL_CTX *ctx);                  /* prepares a context for SSL_set_SSL_CTX */
    bool (*follow)(struct tls *tls); /* called after SSL_set_SSL_CTX; false: failure */
    void (*wake)(struct tls *tls);   /* a step can continue; calls the owner later */
    void (*free)(struct tls *tls);
};

/* The state of a connection: its transport_state. On the heap. */
struct tls {
    SSL *ssl; /* NULL until the first bytes have arrived */
    struct conn *conn;
    /* The context that the SSL was made with (the SSL has a reference): that of the address's
     * default server, or the one that a changed file has replaced. Sessions and tickets belong to
     * it (README.md). */
    SSL_CTX *made_with;
    struct tls_context *context;         /* the chosen server's; made_with's before one is chosen */
    const struct tls_selector *selector; /* for a server; or NULL */
    struct str alpn_offer;               /* wire format: protocols of the selected server */
    char *prefix;                        /* raw bytes read before TLS began; pooled; or NULL */
    uint32_t prefix_size, prefix_at, prefix_end;
    char *out;         /* records that the socket did not accept yet; heap; or NULL */
    uint32_t out_at;   /* offset of the first byte left */
    uint32_t out_end;  /* end of these bytes */
    uint32_t out_size; /* capacity */
    uint32_t ahead;    /* bytes at the head of the connection's queue that are in `out` already */
    uint32_t start_ms; /* start of the handshake, monotonic clock, low half */
    uint32_t took_ms;  /* duration of the handshake */
    uint32_t drained_turn;   /* turn of the loop in which the socket was found empty; low half */
    int io_error;            /* errno of the last failed read or write of the socket, or 0 */
    struct tls_ocsp *ocsp;   /* check of the client's certificate in progress; or NULL */
    long ocsp_error;         /* X509_V_ERR_… or X509_V_OK */
    const char *ocsp_reason; /* text of it, static */
    bool ocsp_is_checked;    /* the check was started, or there is nothing to check */
    char early_byte;         /* first byte of early data, until it is read */
    bool has_early_byte;
    bool reads_early; /* early data may come: SSL_read_early_data has to be called first */
    bool is_client;
    bool is_established;           /* the handshake is done, or early data is read */
    bool is_early;                 /* early data was read and the handshake is not finished */
    bool is_failed;                /* nothing may be sent any more, not even close_notify */
    bool is_end_said;              /* close_notify was sent */
    bool is_raw_readable;          /* the socket may have more */
    bool is_raw_closed;            /* the end was read */
    bool uses_ktls;                /* OpenSSL writes to the socket itself */
    bool wants_write;              /* kTLS: the handshake waits until the socket is writable */
    bool is_challenge;             /* acme-tls/1: nothing follows the handshake */
    bool has_selected;             /* the ClientHello has chosen a context */
    bool is_rejected;              /* no context for the ClientHello */
    bool was_looked_at;            /* the first byte was TLS */
    bool is_held_back;             /* `out` is not urgent: it is sent with the first response */
    const struct tls_way *way;     /* for a handshake in messages; NULL: records over the socket */
    struct tls_messages *messages; /* state of such a handshake */
    const struct tls_client_hooks *client_hooks; /* for a client; or NULL */
    uint64_t deadline_ms;                        /* of a client's handshake */
    enum wait_result asked_wait;   /* how the wait for a script of the handshake ended */
    const struct tls_hooks *hooks; /* scripts, or NULL */
    struct fiber_handle asking;    /* fiber of a step of the handshake, with hooks */
    /* Log of a step that has waited, on the fiber's stack: see tls_ask_end. */
    struct log *asking_log;
    struct log *asked_log;   /* the connection's own log in the meantime */
    enum tls_progress asked; /* result of that step, when is_asking is false again */
    bool is_asking;          /* the fiber is inside OpenSSL, which must not be entered */
    bool has_waited;         /* the fiber has waited: the owner is called when it leaves OpenSSL */
    bool has_asked;          /* `asked` has not been used yet */
    /* The connection was closed in the meantime: conn is NULL, and the fiber frees this. */
    bool is_abandoned;
};

static inline struct tls *tls_of(const struct conn *conn)
{
    return conn->transport_state;
}

extern const struct conn_transport tls_transport;
extern const struct conn_transport tls_transport_ktls;

/* A step of the handshake waited for something other than the socket and can continue: calls the
 * owner later. */
void tls_wake_owner(struct tls *tls);

/* ---- ask.c: scripts in a handshake, which may wait ---- */

/*
 * Runs a step of a handshake with hooks on a fiber and gives its result. TLS_MORE also while it
 * waits for a script: the owner's input is called after that.
 */
enum tls_progress tls_ask_step(struct tls *tls, enum tls_progress (*step)(struct tls *));
/*
 * Called before and after a hook that may wait, in a callback of OpenSSL. False: the connection is
 * broken and the hook is not called, or it was closed in the meantime.
 */
bool tls_ask_begin(struct tls *tls);
bool tls_ask_end(struct tls *tls);
/* Closes the connection while a fiber is inside. */
void tls_ask_abandon(struct tls *tls);

/* Frees what tls_attach has made; no connection may refer to it (transport.c). */
void tls_state_free(struct tls *tls);

/* ---- memory.c: OpenSSL as a whole ---- */

/* Indexes of ex_data of OpenSSL's objects: struct tls_context *, struct tls *. Created once. */
extern int tls_context_index;
extern int tls_index;
extern struct tls_context *tls_contexts; /* all of this process */
void tls_library_init(void);

static inline struct tls_context *tls_context_of(const SSL_CTX *ctx)
{
    return SSL_CTX_get_ex_data(ctx, tls_context_index);
}

/*
 * OpenSSL calls the session and ticket callbacks of the context that an SSL was made with, while
 * SSL_get_SSL_CTX gives the context of the chosen server, which may lack a cache or keys.
 * tls_session_context gives the former, tls_chosen_context the latter.
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

/* Replaces OpenSSL's memory functions. Called automatically when the program starts. */
void tls_memory_init(void);

/* ---- error.c ---- */

/* Sets what tls_last_failure gives to TLS_FAILURE_OTHER; tls_log_failure sets it more precisely. */
void tls_forget_failure(void);

/* Empties OpenSSL's error queue. ERR_clear_error on an empty queue costs as much as a record. */
static inline void tls_clear_errors(void)
{
    if (ERR_peek_error() != 0) {
        ERR_clear_error();
    }
}

/* "WHAT (SSL: error:… error:…)" with the errors of OpenSSL's queue; empties the queue. */
struct str tls_reason(struct arena *arena, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Logs "WHAT failed (SSL: …)" for a connection, at a level that depends on the error. */
void tls_log_failure(const struct log *log, const char *what);
/* The level of an OpenSSL error in a handshake with a backend: a peer that we reject is critical,
 * as in nginx. */
enum log_level tls_backend_level(unsigned long code);
/* The same with a given level. */
void tls_log_at(const struct log *log, enum log_level level, const char *what);
/* Logs a failed system call of the connection. */
void tls_log_errno(const struct log *log, int error, const char *what);

/* ---- object.c: objects loaded from files ---- */

/*
 * Each gives an object with a reference for the caller, or NULL with *error. The name is a full
 * path or "data:…", for keys also "engine:…" and "store:…". An object is loaded once for each
 * reading of the configuration (its arena is `cache`; NULL = never cached).
 */
STACK_OF(X509) *
    tls_load_chain(struct arena *cache, struct arena *arena, struct str name, struct str *error);
EVP_PKEY *tls_load_key(struct arena *cache, struct arena *arena, struct str name,
                       const struct vec *passwords, struct str *error);
/* Was the key that was loaded last encrypted? Such keys are not cached by name. */
bool tls_key_was_encrypted(void);
STACK_OF(X509) *
    tls_load_ca(struct arena *cache, struct arena *arena, struct str name, struct str *error);
STACK_OF(X509_CRL) *
    tls_load_crl(struct arena *cache, struct arena *arena, struct str name, struct str *error);

/* ---- parts.c: parts of a context; each false with *error ---- */

/* An SSL_CTX under construction. */
struct tls_making {
    SSL_CTX *ctx;
    /* Arena of this reading of the configuration, for its loaded objects; or NULL. */
    struct arena *cache;
    struct arena *arena;    /* for what the context keeps, and for the error */
    struct vec *identities; /* struct tls_identity: those of its certificates are added */
    struct str *error;      /* set on failure */
};

bool tls_apply_certificates(struct tls_making *making, const struct tls_settings *settings);
/* Is the key of the certificate's type? OpenSSL silently keeps a key of another type for a later
 * certificate. False may come with an error of OpenSSL. */
bool tls_key_fits(X509 *certificate, EVP_PKEY *key);
bool tls_apply_verification(struct tls_making *making, const struct tls_settings *settings);
bool tls_apply_session_id_context(SSL_CTX *ctx, const struct tls_settings *settings,
                                  struct arena *arena, struct str *error);
/* Keys of encrypted ClientHellos (RFC 9849). */
bool tls_apply_ech(SSL_CTX *ctx, const struct tls_settings *settings, struct arena *arena,
                   struct str *error);
/* Has secrets written to the key log of the settings, if they have one. */
void tls_apply_key_log(SSL_CTX *ctx, const struct tls_settings *settings);
/* Writes a line to the key log of the chosen server, if it has one. */
void tls_key_log(const SSL *ssl, const char *line);
void tls_identities_free(struct vec *identities);

/* ---- context.c ---- */

/* Makes an SSL_CTX from the context's settings; sets making->ctx as well. NULL with *error. */
SSL_CTX *tls_ctx_new(struct tls_context *context, struct tls_making *making);
/* Releases an SSL_CTX that is not used for new connections any more. When its last connection ends,
 * OpenSSL empties its own cache, and must not remove these sessions from the shared zone: that is
 * still in use, or already gone. */
void tls_ctx_let_go(SSL_CTX *ctx);

/* ---- session.c, ticket.c ---- */

bool tls_sessions_init(struct tls_context *context, SSL_CTX *ctx);
/* The session may not be resumed: removes it from the zone of the context, if that has one. */
void tls_session_drop(const struct tls_context *context, const SSL_SESSION *session);
/* A context of this reading is used: if it is the latest reading, its period takes effect. */
void tls_ring_use(struct ticket_ring *ring, uint32_t reading);
/* Finds the key to encrypt with (name NULL), or the one with this name. 0 = none, 1 = found, 2 = an
 * old one: the client should get a new ticket. */
int tls_ring_find(struct ticket_ring *ring, const unsigned char *name, uint64_t now,
                  struct tls_ticket_key *out);
bool tls_tickets_init(struct tls_context *context, SSL_CTX *ctx, struct arena *arena,
                      struct str *error);

/* ---- accept.c ---- */

void tls_server_init(struct tls_context *context, SSL_CTX *ctx);

/* ---- bio.c ---- */

#define RECORDS_PER_SEND 4

/* Makes a BIO_METHOD of these functions whose BIOs are ready when created. For the life of the
 * process. */
BIO_METHOD *tls_bio_method_new(const char *name, int (*read)(BIO *, char *, int),
                               int (*write)(BIO *, const char *, int),
                               long (*ctrl)(BIO *, int, long, void *));
/* Makes the SSL of this state, on the connection's socket. NULL: logged. */
SSL *tls_ssl_new(struct tls *tls, SSL_CTX *ctx);
/* Makes the state of a connection that begins TLS, and sets it as its transport. */
struct tls *tls_attach(struct conn *conn, struct tls_context *context);
/* Between these two calls ciphertext is gathered; the second one sends it. False: the connection is
 * broken. */
void tls_gather_begin(struct tls *tls);
bool tls_gather_end(struct tls *tls, bool more_follows);
/* Like tls_gather_end, but sends nothing. */
void tls_gather_drop(struct tls *tls);
/* Between these calls: tls_hold_back holds back what was gathered, tls_take_held_back adds it to
 * what is written now. */
void tls_hold_back(struct tls *tls);
void tls_take_held_back(struct tls *tls);
/* Sends the held ciphertext; true: nothing is left. */
bool tls_send_held(struct tls *tls, bool more_follows);

/* ---- transport.c ---- */

/* Runs SSL_do_handshake or SSL_read_early_data and gives the result. */
enum tls_progress tls_step(struct conn *conn);

/* ---- client.c ---- */

/* Makes the SSL for these options. False: logged. */
bool tls_client_prepare(struct tls *tls, const struct tls_client_options *options);
/* Was the peer's certificate verified, and is it for the name? False: logged. */
bool tls_client_is_right_peer(SSL *ssl, const struct tls_client_options *options,
                              const struct log *log);
/* Is the certificate for this host: a name, or an address in its subjectAltName? */
bool tls_certificate_is_for(X509 *certificate, struct str name);

/* ---- objects.c ---- */

/* Applies the objects before the handshake. False: logged. */
bool tls_use_objects(SSL *ssl, const struct tls_client_objects *objects, const struct log *log);
/* A part of tls_client_identity; the objects are valid as long as the connection. */
uint64_t tls_objects_identity(const struct tls_client_objects *objects);

/* ---- responder.c, status.c: requests to an OCSP responder (RFC 6960) ---- */

/* A responder: http://host[:port][/path]. Strings in the arena. */
struct ocsp_target {
    struct str host, path; /* path without a final slash */
    uint16_t port;
    struct addr_list addresses; /* resolved when the configuration was read; or none */
};

/* False: not such a URL. */
bool ocsp_target_parse(struct arena *arena, struct str url, struct ocsp_target *out);

/* The answer of a responder. */
struct ocsp_response {
    int status;           /* V_OCSP_CERTSTATUS_… */
    uint64_t valid_until; /* seconds of the wall clock */
    struct str der;       /* the whole response; in the arena */
};

/* A request about one certificate. */
struct ocsp_question {
    X509 *certificate; /* borrowed */
    X509 *issuer;      /* borrowed */
    X509_STORE *store; /* trusted authorities */
    bool verifies;     /* the signature of the response */
    const struct ocsp_target *target;
    const struct tls_settings *settings; /* for the resolver */
    const struct log *log;
};

/* The error log of the server with these settings, for work that no client waits for. */
struct log tls_log(const struct tls_settings *settings);
/* Sends a request and reads the response; false: logged. MAY WAIT; on a fiber. */
bool ocsp_ask(const struct ocsp_question *question, struct arena *arena, struct ocsp_response *out);
/* Parses a response to the request; false: logged. */
bool ocsp_response_read(const struct ocsp_question *question, struct str der,
                        struct ocsp_response *out);
/* The OCSPRequest to send; empty on failure. */
struct str ocsp_request_bytes(const struct ocsp_question *question, struct arena *arena);
/* Fetches the response by HTTP. MAY WAIT. */
bool ocsp_fetch(const struct ocsp_question *question, struct str request, struct arena *arena,
                struct str *answer);

/* ---- staple.c, ocsp.c ---- */

/* Sets up stapling for the certificates of the context; false with *error. */
bool tls_staples_init(struct tls_context *context, const struct tls_making *making,
                      const struct log *log);
void tls_staple_free(struct tls_staple *staple);

/* Checks the settings of ssl_ocsp; false with *error. */
bool tls_ocsp_init(struct tls_context *context, struct arena *arena, struct str *error);
/* Checks a client's certificate by OCSP, starting with a request. TLS_DONE: complete, see
 * ocsp_error. TLS_MORE: the owner's input is called when it is. */
enum tls_progress tls_ocsp_check(struct tls *tls);
/* The connection ends while its check is in progress. */
void tls_ocsp_forget(struct tls *tls);

/* ---- watch.c ---- */

void tls_watch_init(struct tls_context *context);
void tls_watch_free(struct tls_watch *watch);
void tls_watch_start(const struct log *log);
void tls_watch_end(void);

#endif
