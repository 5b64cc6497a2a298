/* TLS as the transport of a struct conn: contexts, handshakes, and what a connection has
 * negotiated. All use of OpenSSL is in this package. Implemented in accept.c, certificate.c,
 * client.c, context.c, error.c, facts.c, memory.c, object.c, objects.c, staple.c, ticket.c,
 * transport.c and variable.c. */
#ifndef NET_TLS_TLS_H
#define NET_TLS_TLS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/log.h"
#include "base/shm.h"
#include "base/str.h"
#include "net/conn/conn.h"

enum tls_protocol {
    TLS_SSLV2 = 1, /* accepted in lists, never used */
    TLS_SSLV3 = 2,
    TLS_1_0 = 4,
    TLS_1_1 = 8,
    TLS_1_2 = 16,
    TLS_1_3 = 32,
};

enum tls_verify { TLS_VERIFY_OFF, TLS_VERIFY_ON, TLS_VERIFY_OPTIONAL, TLS_VERIFY_OPTIONAL_NO_CA };

/* A certificate and its key as configured: files (full paths), "data:PEM", "engine:…",
 * "store:…". */
struct tls_certificate {
    struct str certificate;
    struct str key;
};

struct tls_session_sharing;

/* The settings of a context. Strings are valid as long as the generation. Members for one side only
 * are ignored by the other. */
struct tls_settings {
    bool is_client;       /* for connections to upstreams */
    struct str directory; /* ends with a slash; for relative files in `commands` */
    /* Struct tls_certificate; none: a client without one, a server that rejects, or one whose
     * certificates come from variables. */
    struct vec certificates;
    /* Struct str: names of certificates with variables, as written; only servers with the same ones
     * resume their sessions. */
    struct vec variable_names;
    struct vec passwords; /* struct str: tried in turn for encrypted keys */
    unsigned protocols;   /* enum tls_protocol bits */
    struct str ciphers;   /* for TLS 1.2 and below */
    struct str curves;    /* "auto" or a list */
    struct str dhparam;   /* file or empty */
    bool prefer_server_ciphers;
    struct vec commands;            /* struct str pairs, name and value: ssl_conf_command */
    struct str client_certificate;  /* CA file for clients, whose names are sent; or empty */
    struct str trusted_certificate; /* CA file whose names are not sent; or empty */
    struct str crl;
    unsigned verify; /* enum tls_verify; a client: OFF or ON */
    unsigned verify_depth;
    bool rejects_handshake; /* ssl_reject_handshake */
    bool early_data;
    bool compresses_certificates;
    bool tickets;
    /* For generated ticket keys that all workers share; NULL: the library generates keys for this
     * context alone. */
    struct zone *ticket_zone;
    /* For which each of these encrypts, at least; session_timeout_s if that is longer. */
    uint64_t ticket_period_s;
    struct vec ticket_keys;    /* struct str: files of 48 or 80 bytes; the first encrypts */
    bool has_session_cache;    /* sessions are resumed by identifier: shared zone or builtin */
    struct zone *session_zone; /* shared:…; or NULL */
    /* Passes its sessions to other nodes (sessions.h); NULL: it does not. */
    const struct tls_session_sharing *session_sharing;
    unsigned builtin_sessions; /* 0 = none */
    uint64_t session_timeout_s;
    bool stapling, stapling_verify;
    struct str stapling_file, stapling_responder;
    struct vec ech_files; /* struct str: keys of encrypted ClientHellos, PEM */
    /* Check of clients' certificates: 0 none, 1 the whole chain, 2 the client's own. */
    unsigned ocsp;
    struct str ocsp_responder; /* URL used instead of the one in the certificate; or empty */
    struct zone *ocsp_zone;    /* cache of answers; or NULL */
    const struct resolver_settings *resolver; /* for the addresses of responders; or NULL */
    uint64_t resolver_timeout_ms;
    struct log_sink *const
        *error_log; /* of the server, for requests that no client waits for; NULL: the main log's */
    uint64_t buffer_size;     /* ssl_buffer_size: largest record */
    bool watches_files;       /* ssl_certificate_watch: changed files are loaded */
    struct log_file *key_log; /* for the secrets of connections, in NSS's format; or NULL */
};

struct tls_context; /* an SSL_CTX and what belongs to it */

/* Makes a context. NULL: *error has the file and the reason in nginx's words, e.g. `cannot load
 * certificate "x": BIO_new_file() failed (SSL: error:…)`, in the arena. */
struct tls_context *tls_context_new(const struct tls_settings *settings, struct arena *arena,
                                    const struct log *log, struct str *error);
void tls_context_free(struct tls_context *context);
/* When the first of its certificates expires, in seconds since the epoch; 0 = it has none. */
int64_t tls_context_expires(const struct tls_context *context);

struct ssl_st;
struct ssl_session_st;

/*
 * Scripts of a handshake, which may wait; its steps run on a fiber then. Each may be NULL. `ssl` is
 * OpenSSL's object; neither it nor conn may be used after the fiber was cancelled, since the
 * connection is gone. MAY WAIT.
 */
struct tls_hooks {
    /* The ClientHello has arrived and no server is chosen yet. False: the handshake ends with an
     * alert. */
    bool (*hello)(struct conn *conn, struct ssl_st *ssl, void *arg);
    /* The server is chosen and a certificate is needed. False: the handshake fails. */
    bool (*certify)(struct conn *conn, struct ssl_st *ssl, void *arg);
    /* A client asks to resume a session: gives the session with this identifier and its reference,
     * or NULL: unknown. */
    struct ssl_session_st *(*fetch)(struct conn *conn, struct ssl_st *ssl, struct str id,
                                    void *arg);
    /* A new session that can be resumed by its identifier. Never waits. */
    void (*store)(struct conn *conn, struct ssl_st *ssl, struct ssl_session_st *session, void *arg);
    void *arg;
};

/*
 * Chooses the server, and so the certificate, of a handshake. select is called with the SNI name
 * (lower case, empty without SNI). It gives the context to continue with, or NULL: the handshake is
 * rejected (unrecognized_name). *protocols gets the offered ALPN list in wire format
 * ("\x02h2\x08http/1.1"); empty = no ALPN.
 */
struct tls_selector {
    struct tls_context *(*select)(struct conn *conn, struct str name, struct str *protocols,
                                  void *arg);
    /* Called later, when the certificate is needed; may call tls_use_certificate. False: the
     * handshake fails (logged). May be NULL. */
    bool (*certify)(struct conn *conn, void *arg);
    /* The scripts of the servers of this connection's address. NULL, or gives NULL: there are
     * none. */
    const struct tls_hooks *(*hooks)(struct conn *conn, void *arg);
    /* Fills the log for errors after the handshake; NULL: the connection's log is used. */
    void (*log)(struct conn *conn, struct log *out);
    void *arg;
    bool knows_plain; /* a client that sends no TLS is answered in plain HTTP: TLS_PLAIN */
};
/* The cache of certificates whose names contain variables: ssl_certificate_cache. */
struct tls_certificate_cache;
struct tls_certificate_cache *tls_certificate_cache_new(struct arena *arena, unsigned max,
                                                        uint64_t inactive_s, uint64_t valid_s);
/* During certify: loads this connection's certificate from full file names or data that were made
 * of variables. cache may be NULL. passwords: struct str. False: logged; the handshake fails. */
bool tls_use_certificate(struct conn *conn, struct str certificate, struct str key,
                         const struct vec *passwords, struct tls_certificate_cache *cache);

/*
 * Sets what answers handshakes of a CA that offer only acme-tls/1 (RFC 8737): gives, in the arena,
 * the challenge's certificate for this name and its key, in the form of tls_use_certificate. False:
 * there is none, and the handshake is handled like others. For all connections of TLS over TCP of
 * this process.
 */
typedef bool tls_challenge_find(struct str name, struct arena *arena, struct str *certificate,
                                struct str *key);
void tls_answer_challenges(tls_challenge_find *find);
/* Was it such a handshake? The connection has to be closed then. */
bool tls_is_challenge(const struct conn *conn);

enum tls_progress {
    TLS_DONE,   /* established */
    TLS_MORE,   /* waits for the peer; call conn_watch and try again at the next event */
    TLS_FAILED, /* logged as by nginx, at a level by the error; the connection has to be closed */
    TLS_PLAIN,  /* server that knows_plain: the client sends plain HTTP: its bytes are the conn's
                   input, and the conn has no TLS any more */
};

/* Why the handshake of the last TLS_FAILED failed. */
enum tls_failure { TLS_FAILURE_OTHER, TLS_NO_PROTOCOL, TLS_NO_CIPHER, TLS_REJECTED_CERTIFICATE };
enum tls_failure tls_last_failure(void);

/* Starts the server's side on an accepted connection, whose input may hold bytes already (after a
 * PROXY header). */
bool tls_accept(struct conn *conn, struct tls_context *context,
                const struct tls_selector *selector);
/* Runs the handshake, on either side, as far as possible now. */
enum tls_progress tls_handshake(struct conn *conn);

/* OpenSSL objects of a script for one handshake; borrowed. */
struct tls_client_objects {
    void *session;    /* SSL_SESSION to resume, or NULL */
    void *chain;      /* STACK_OF(X509), our own certificate first; NULL: the context's */
    void *key;        /* EVP_PKEY for it */
    void *store;      /* X509_STORE: trusted authorities instead of the context's; or NULL */
    bool asks_status; /* asks for a stapled OCSP response (RFC 6066, 8) */
};

struct x509_store_ctx_st;

/*
 * Scripts of a handshake with a backend; each may be NULL, and gives false to let the handshake
 * fail. They run on a fiber of their own, which is cancelled at the handshake's deadline. MAY WAIT.
 */
struct tls_client_hooks {
    bool (*certify)(struct ssl_st *ssl, void *arg); /* the backend requests a certificate */
    /* The backend's certificate was verified (unless skips_default); the script may decide
     * otherwise. */
    bool (*verify)(struct ssl_st *ssl, struct x509_store_ctx_st *chain, void *arg);
    bool skips_default; /* OpenSSL's own verification is skipped */
    void *arg;
};

/* Options of the client's side. Strings are valid at least until the call returns. */
struct tls_client_options {
    struct str name; /* for SNI and verification; a host without port */
    bool sends_name; /* sends it as SNI, unless it is empty or an address (RFC 6066, 3) */
    bool verifies;   /* verifies chain and name; needs a context made for it */
    bool reuses_session;
    struct str alpn;        /* wire format, or empty */
    struct str certificate; /* full file name or data, made of variables; empty: the context's */
    struct str key;
    const struct vec *passwords;                     /* struct str: of that key; or NULL */
    struct tls_certificate_cache *certificate_cache; /* or NULL */
    const struct tls_client_hooks *hooks;            /* scripts; or NULL */
    /* Result of tls_client_identity; sessions are cached by it and the peer's address. */
    uint64_t identity;
    const struct tls_client_objects *objects; /* or NULL */
};

/*
 * A number, never 0, that two connections share only if their contexts and all options about names,
 * certificates and protocols are the same, so that one can be used for the other. Constant for the
 * life of the process, except for contexts whose files have changed. Two different ones are equal
 * with a probability of 1 in 2^64.
 */
uint64_t tls_client_identity(struct tls_context *context, const struct tls_client_options *options);

enum tls_connected {
    TLS_CONNECTED,
    TLS_CONNECT_FAILED, /* by the peer: handshake, certificate or its name */
    TLS_CONNECT_TIMED_OUT,
    TLS_CONNECT_CANCELLED,
    TLS_CONNECT_ERROR, /* an error on our side: a certificate cannot be loaded, a name is too long
                        */
};

/* The parameters of tls_connect. */
struct tls_connecting {
    struct tls_context *context;
    const struct tls_client_options *options;
    uint64_t deadline_ms;  /* monotonic */
    const struct log *log; /* of the request that needs the connection */
    const char *action;    /* for the log; or NULL */
    bool tells_timeout;    /* the caller logs a timeout itself */
};

/*
 * Runs the whole handshake on a connected conn, whose owner is replaced meanwhile. Failures are
 * logged, those of the handshake itself with the action; *error gets the errno or 0. The caller
 * closes the connection after a failure. MAY WAIT.
 */
enum tls_connected tls_connect(struct conn *conn, const struct tls_connecting *connecting,
                               int *error);

static inline bool conn_is_tls(const struct conn *conn)
{
    return conn->transport != NULL;
}

/* Checks the peer of an established connection, if tls_connect did not: is its chain trusted
 * (otherwise *code and *reason are set), and, unless the name is empty, is its certificate for that
 * name? */
enum tls_trust { TLS_TRUSTED, TLS_UNTRUSTED, TLS_OTHER_NAME };
enum tls_trust tls_peer_trust(const struct conn *conn, struct str name, long *code,
                              const char **reason);
/* SSL_CTX of the connection, borrowed; NULL: no TLS. */
void *tls_ssl_context(const struct conn *conn);
/* SSL_SESSION with a reference for the caller, to be freed by tls_session_free; or NULL. */
void *tls_session(const struct conn *conn);
bool tls_session_is_resumable(const void *session);
void tls_session_free(void *session);
/* X509_STORE: takes or releases a reference; NULL is allowed. */
void *tls_store_hold(void *store);
void tls_store_free(void *store);

/* OpenSSL's object of a connection, or NULL: for scripts that need more than this interface. */
struct ssl_st *tls_ssl(const struct conn *conn);

/* What was negotiated. Strings are in the arena. False or empty: unknown. */
struct str tls_alpn(const struct conn *conn); /* valid as long as the connection */
struct str tls_server_name(const struct conn *conn);
bool tls_is_early(const struct conn *conn); /* early data, and the handshake is not finished */
/* The result of verifying the client: 0 = verified; else X509_V_ERR_…, as text in *reason.
 * has_certificate: was one sent? */
long tls_verify_result(const struct conn *conn, bool *has_certificate, const char **reason);
/* Does the result only mean that the authority is unknown, which TLS_VERIFY_OPTIONAL_NO_CA
 * accepts? */
bool tls_verify_may_be_foreign(long result);
/* The kind of error, for counters. */
enum tls_certificate_fault {
    TLS_CERTIFICATE_EXPIRED,
    TLS_CERTIFICATE_REVOKED,
    TLS_CERTIFICATE_OTHER
};
enum tls_certificate_fault tls_verify_kind(long result);
/* The session of this connection may not be resumed. */
void tls_forget_session(struct conn *conn);
/* The value of a variable of ngx_http_ssl_module; name is the part after "ssl_": "protocol",
 * "cipher", "ciphers", "curve", "curves", "session_id", "session_reused", "client_cert", … */
bool tls_variable(const struct conn *conn, struct str name, struct arena *arena, struct str *out);

/* Sends ciphertext that was held back, between the end of the handshake and the first write. */
void tls_flush(struct conn *conn);

/* Starts a reading of the configuration: it loads each file or data once, and with `inherits` uses
 * objects of the current reading whose files have not changed. To be called before the first
 * context of that arena. */
void tls_objects_begin(struct arena *arena, bool inherits);

/* ssl_engine: lets an engine of the library do its work from now on. False with *error in the
 * arena. */
bool tls_use_engine(struct str name, struct arena *arena, struct str *error);

/* ---- ticket keys that several nodes share ---- */

/*
 * One key for each period since the epoch. The current one encrypts; those of the previous and the
 * next period decrypt as well. Without it the node uses keys that it generates. In the zone of
 * ticket keys, for all workers.
 */
struct ticket_ring;
#define TLS_RING_KEY 80 /* bytes, as in a key file */

/* The ring in this zone; its keys encrypt for at least this period. NULL: no memory. */
struct ticket_ring *tls_ring_of(struct zone *zone, uint64_t period_s);
/* The period of the keys, after all contexts were made. */
uint64_t tls_ring_period_s(const struct ticket_ring *ring);
/* Does a key have to be made now? The one of the current period, or in its second half the one of
 * the next. */
bool tls_ring_wants(struct ticket_ring *ring, uint64_t now_s, uint64_t *number);
bool tls_ring_make(struct ticket_ring *ring, uint64_t number);
bool tls_ring_get(struct ticket_ring *ring, uint64_t number, unsigned char out[TLS_RING_KEY]);
/* NULL removes the key. */
void tls_ring_put(struct ticket_ring *ring, uint64_t number, const unsigned char key[TLS_RING_KEY]);

/* In a worker: starts to watch the files of contexts (ssl_certificate_watch). Always true. */
bool tls_worker_start(const struct log *log);
/* The worker is about to end: cancels OCSP requests for staples. */
void tls_worker_quit(void);
void tls_worker_end(void);

/* The library and its version for -V: "OpenSSL 3.0.17 1 Jul 2025". */
const char *tls_version_built(void);
const char *tls_version_running(void);

#endif
