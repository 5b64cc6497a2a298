/* TLS after struct conn: contexts made when the configuration is read, handshakes, what a
 * connection negotiated. All of OpenSSL is behind this header. Implemented in accept.c,
 * certificate.c, client.c, context.c, error.c, facts.c, memory.c, object.c, objects.c, staple.c,
 * ticket.c, transport.c and variable.c. */
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
    TLS_SSLV2 = 1, /* accepted in lists, never spoken */
    TLS_SSLV3 = 2,
    TLS_1_0 = 4,
    TLS_1_1 = 8,
    TLS_1_2 = 16,
    TLS_1_3 = 32,
};

enum tls_verify { TLS_VERIFY_OFF, TLS_VERIFY_ON, TLS_VERIFY_OPTIONAL, TLS_VERIFY_OPTIONAL_NO_CA };

/* One certificate with its key, as the configuration names them: files (full paths), "data:PEM",
 * "engine:…", "store:…". */
struct tls_certificate {
    struct str certificate;
    struct str key;
};

struct tls_session_sharing;

/* What a context is made of. Strings live as long as the generation. Members that only one side has
 * are ignored by the other. */
struct tls_settings {
    bool is_client;            /* towards upstreams */
    struct str directory;      /* with a slash at its end: of relative files in `commands` */
    struct vec certificates;   /* struct tls_certificate; none: a client without, or a server that
                                    rejects, or whose certificates come from variables */
    struct vec variable_names; /* struct str: certificates whose names have variables, as written;
                                    sessions of others are not resumed */
    struct vec passwords;      /* struct str: tried in turn for encrypted keys */
    unsigned protocols;        /* enum tls_protocol bits */
    struct str ciphers;        /* of TLS 1.2 and below */
    struct str curves;         /* "auto" or a list */
    struct str dhparam;        /* file or empty */
    bool prefer_server_ciphers;
    struct vec commands;            /* struct str pairs, name and value: ssl_conf_command */
    struct str client_certificate;  /* CA file for clients, names are sent; or empty */
    struct str trusted_certificate; /* CA file, names are not sent; or empty */
    struct str crl;
    unsigned verify; /* enum tls_verify; a client: OFF or ON */
    unsigned verify_depth;
    bool rejects_handshake; /* ssl_reject_handshake */
    bool early_data;
    bool compresses_certificates;
    bool tickets;
    struct zone *ticket_zone; /* where keys of tickets live that are made by themselves, shared by
                                    all workers; NULL: the library's own, of this context alone */
    uint64_t ticket_period_s; /* that each of these encrypts, at least; session_timeout_s where that
                                 is longer */
    struct vec ticket_keys;   /* struct str: files of 48 or 80 bytes; the first encrypts */
    bool has_session_cache;   /* sessions are resumed by identifier: shared zone or builtin */
    struct zone *session_zone; /* shared:…; or NULL */
    const struct tls_session_sharing
        *session_sharing;      /* other nodes get its sessions (sessions.h); NULL: they do not */
    unsigned builtin_sessions; /* 0 = none */
    uint64_t session_timeout_s;
    bool stapling, stapling_verify;
    struct str stapling_file, stapling_responder;
    struct vec ech_files; /* struct str: keys of encrypted ClientHellos, PEM */
    unsigned ocsp;        /* clients' certificates: 0 not asked about, 1 all of the chain, 2 the
                                    client's own */
    struct str ocsp_responder; /* URL in place of the one in the certificate; or empty */
    struct zone *ocsp_zone;    /* where answers are kept; or NULL */
    const struct resolver_settings *resolver; /* finds the addresses of responders; or NULL */
    uint64_t resolver_timeout_ms;
    struct log_sink *const
        *error_log; /* of the server: of questions that no client waits for; NULL: the main log's */
    uint64_t buffer_size;     /* ssl_buffer_size: bytes of a record at most */
    bool watches_files;       /* ssl_certificate_watch: changed files are taken up */
    struct log_file *key_log; /* gets the secrets of connections, in NSS's format; or NULL */
};

struct tls_context; /* an SSL_CTX and what belongs to it */

/* What a context says when it cannot be made: file and reason, in nginx's words, e.g.
 * `cannot load certificate "x": BIO_new_file() failed (SSL: error:…)`. Text in the arena. */
struct tls_context *tls_context_new(const struct tls_settings *settings, struct arena *arena,
                                    const struct log *log, struct str *error);
void tls_context_free(struct tls_context *context);
/* When the first of its certificates ends, in seconds since the epoch; 0 = it has none. */
int64_t tls_context_expires(const struct tls_context *context);

/*
 * Whose certificate a client gets: asked in the handshake with the SNI name (lower case, empty when
 * there is none). Gives the context to go on with, or NULL: the handshake is rejected
 * (unrecognized_name). *protocols gets the ALPN list on offer in wire form ("\x02h2\x08http/1.1"),
 * empty = no ALPN. Certificates from variables: the owner calls tls_use_certificate inside it.
 */
struct ssl_st;
struct ssl_session_st;

/*
 * What scripts are asked in a handshake, who may wait: then its steps run on a fiber. Each may be
 * NULL. `ssl` is OpenSSL's object; neither it nor conn may be touched when the fiber was cancelled:
 * the connection is gone. MAY WAIT.
 */
struct tls_hooks {
    /* The ClientHello is there, and no server was chosen. False: the handshake ends with an alert.
     */
    bool (*hello)(struct conn *conn, struct ssl_st *ssl, void *arg);
    /* The server is chosen, and a certificate is needed. False: the handshake fails. */
    bool (*certify)(struct conn *conn, struct ssl_st *ssl, void *arg);
    /* A client would resume a session: the session of this identifier, which is given away, or
     * NULL: it is not known. */
    struct ssl_session_st *(*fetch)(struct conn *conn, struct ssl_st *ssl, struct str id,
                                    void *arg);
    /* There is a new one, which may be resumed by its identifier. Never waits. */
    void (*store)(struct conn *conn, struct ssl_st *ssl, struct ssl_session_st *session, void *arg);
    void *arg;
};

struct tls_selector {
    struct tls_context *(*select)(struct conn *conn, struct str name, struct str *protocols,
                                  void *arg);
    /* Later, when the certificate is needed; NULL, or gives false: the handshake fails (logged). */
    bool (*certify)(struct conn *conn, void *arg);
    /* The scripts of the servers of this connection's address; NULL, or gives NULL: there are none.
     */
    const struct tls_hooks *(*hooks)(struct conn *conn, void *arg);
    /* Fills the log that tells of what goes wrong after the handshake; NULL: the connection's. */
    void (*log)(struct conn *conn, struct log *out);
    void *arg;
};
/* Certificates by variable that were loaded, and how long they are kept: ssl_certificate_cache. */
struct tls_certificate_cache;
struct tls_certificate_cache *tls_certificate_cache_new(struct arena *arena, unsigned max,
                                                        uint64_t inactive_s, uint64_t valid_s);
/* During certify: this connection's certificate, loaded from full file names or data made of
 * variables. cache may be NULL. passwords: struct str. False: logged; the handshake fails. */
bool tls_use_certificate(struct conn *conn, struct str certificate, struct str key,
                         const struct vec *passwords, struct tls_certificate_cache *cache);

/*
 * Answers handshakes of a CA that offer acme-tls/1 alone (RFC 8737): gives, in the arena, the
 * certificate of the challenge for this name and its key, as tls_use_certificate takes them. False:
 * there is none, and the handshake is one like others. For all connections of TLS over TCP of this
 * process.
 */
typedef bool tls_challenge_find(struct str name, struct arena *arena, struct str *certificate,
                                struct str *key);
void tls_answer_challenges(tls_challenge_find *find);
/* Was it such a handshake? Then the connection is to be closed. */
bool tls_is_challenge(const struct conn *conn);

enum tls_progress {
    TLS_DONE,   /* established */
    TLS_MORE,   /* waits for the peer; conn_watch and try again when something happened */
    TLS_FAILED, /* logged as nginx does, with its level by fault; the connection is to be closed */
    TLS_PLAIN,  /* server: the client speaks plain HTTP: its bytes are the conn's input, TLS is gone
                 */
};

/* Why the handshake failed that tls_handshake gave TLS_FAILED for last. */
enum tls_failure { TLS_FAILURE_OTHER, TLS_NO_PROTOCOL, TLS_NO_CIPHER, TLS_REJECTED_CERTIFICATE };
enum tls_failure tls_last_failure(void);

/* The server's side on an accepted connection whose input may hold bytes already (after a PROXY
 * header). */
bool tls_accept(struct conn *conn, struct tls_context *context,
                const struct tls_selector *selector);
/* Steps of the handshake, on either side, as far as it goes now. */
enum tls_progress tls_handshake(struct conn *conn);

/* Objects of OpenSSL that a script has made, for one handshake; borrowed. */
struct tls_client_objects {
    void *session;    /* SSL_SESSION that is to be resumed, or NULL */
    void *chain;      /* STACK_OF(X509), our own certificate first; NULL: what the context has */
    void *key;        /* EVP_PKEY of it */
    void *store;      /* X509_STORE: who is trusted, in place of the context's; or NULL */
    bool asks_status; /* for the answer of the authority (RFC 6066, 8) */
};

struct x509_store_ctx_st;

/*
 * Scripts that are asked in a handshake of ours with a backend; each may be NULL, and gives false
 * to let the handshake fail. They run on a fiber of their own, which is cancelled when the
 * handshake's time is over. MAY WAIT.
 */
struct tls_client_hooks {
    bool (*certify)(struct ssl_st *ssl, void *arg); /* the backend asks for a certificate */
    /* Its own was verified (but with skips_default), and may be judged otherwise. */
    bool (*verify)(struct ssl_st *ssl, struct x509_store_ctx_st *chain, void *arg);
    bool skips_default; /* OpenSSL does not verify */
    void *arg;
};

/* The client's side. Strings live at least as long as the call. */
struct tls_client_options {
    struct str
        name; /* SNI and, with verify, what the certificate must be for; a host without port */
    bool sends_name; /* as SNI, unless it is empty or an address (RFC 6066, 3) */
    bool verifies;   /* chain and name; the context was made for it, too */
    bool reuses_session;
    struct str alpn; /* wire form or empty */
    struct str
        certificate; /* full file name or data, made of variables; empty: what the context has */
    struct str key;
    const struct vec *passwords;                     /* struct str: of that key; or NULL */
    struct tls_certificate_cache *certificate_cache; /* or NULL */
    const struct tls_client_hooks *hooks;            /* scripts that are asked; or NULL */
    uint64_t identity; /* of tls_client_identity; sessions are kept by it and the peer's address */
    const struct tls_client_objects *objects; /* or NULL */
};

/*
 * A number, never 0, that two connections share only when their contexts and all that their options
 * say of names, certificates and protocols are the same: one may then stand for the other. It is
 * the same as long as the process lives, but for contexts whose files have changed. False alarms: 1
 * in 2^64.
 */
uint64_t tls_client_identity(struct tls_context *context, const struct tls_client_options *options);

enum tls_connected {
    TLS_CONNECTED,
    TLS_CONNECT_FAILED, /* the peer: handshake, certificate or its name */
    TLS_CONNECT_TIMED_OUT,
    TLS_CONNECT_CANCELLED,
    TLS_CONNECT_ERROR, /* our own trouble: a certificate that does not load, a name too long */
};

/* How a connection of ours begins. */
struct tls_connecting {
    struct tls_context *context;
    const struct tls_client_options *options;
    uint64_t deadline_ms;  /* monotonic */
    const struct log *log; /* of the request that it is for */
    const char *action;    /* for the log: what is being done; or NULL */
    bool tells_timeout;    /* who asks tells of a timeout himself */
};

/*
 * The whole handshake on a connected conn, whose owner is set aside meanwhile. What goes wrong is
 * logged, in the handshake itself with the action; *error gets the errno or 0. The caller closes
 * the connection then. MAY WAIT.
 */
enum tls_connected tls_connect(struct conn *conn, const struct tls_connecting *connecting,
                               int *error);

static inline bool conn_is_tls(const struct conn *conn)
{
    return conn->transport != NULL;
}

/* The peer of an established connection, for callers that did not have tls_connect look: is its
 * chain trusted (else *code and *reason say why not), and, unless the name is empty, is its
 * certificate for it? */
enum tls_trust { TLS_TRUSTED, TLS_UNTRUSTED, TLS_OTHER_NAME };
enum tls_trust tls_peer_trust(const struct conn *conn, struct str name, long *code,
                              const char **reason);
/* SSL_CTX of the connection, borrowed; NULL: no TLS. */
void *tls_ssl_context(const struct conn *conn);
/* SSL_SESSION with a reference of the caller's own, for tls_session_free; or NULL. */
void *tls_session(const struct conn *conn);
bool tls_session_is_resumable(const void *session);
void tls_session_free(void *session);
/* X509_STORE: one more reference, or one less; NULL is none. */
void *tls_store_hold(void *store);
void tls_store_free(void *store);

/* OpenSSL's object of a connection, or NULL: for scripts, who ask it for what the face does not
 * have. */
struct ssl_st *tls_ssl(const struct conn *conn);

/* What was negotiated. Texts are in the arena; false or empty: not known. */
struct str tls_alpn(const struct conn *conn); /* as long as the connection */
struct str tls_server_name(const struct conn *conn);
bool tls_is_early(const struct conn *conn); /* early data, and the handshake is not finished */
/* The result of verifying the client: 0 = good; else X509_V_ERR_…, text in *reason. has_certificate
 * tells whether one was sent. */
long tls_verify_result(const struct conn *conn, bool *has_certificate, const char **reason);
/* Does the result only say that the authority is not known: what TLS_VERIFY_OPTIONAL_NO_CA lets
 * through? */
bool tls_verify_may_be_foreign(long result);
/* What is wrong with it, for counters. */
enum tls_certificate_fault {
    TLS_CERTIFICATE_EXPIRED,
    TLS_CERTIFICATE_REVOKED,
    TLS_CERTIFICATE_OTHER
};
enum tls_certificate_fault tls_verify_kind(long result);
/* The session of this connection may not be resumed. */
void tls_forget_session(struct conn *conn);
bool tls_variable(const struct conn *conn, struct str name, struct arena *arena, struct str *out);
/* name: "protocol", "cipher", "ciphers", "curve", "curves", "session_id", "session_reused",
 * "client_cert", … : the part after "ssl_" of the variables of ngx_http_ssl_module. */

/* Between the end of the handshake and the first write: ciphertext that is held back for company
 * leaves. */
void tls_flush(struct conn *conn);

/* Files and data that one reading has loaded are not read again by it; with `inherits` those of the
 * reading in force, too, when they did not change. Before the first context of that arena. */
void tls_objects_begin(struct arena *arena, bool inherits);

/* ssl_engine: an engine of the library does its work from now on. False with *error in the arena.
 */
bool tls_use_engine(struct str name, struct arena *arena, struct str *error);

/* ---- keys of tickets that several nodes have in common ---- */

/*
 * One key for each period since the epoch. This one's encrypts, those of the last and the next
 * period decrypt as well; without it the keys that this node makes for itself do. In the zone of
 * ticket keys, for all workers.
 */
struct ticket_ring;
#define TLS_RING_KEY 80 /* bytes: as in a file */

/* The ring in this zone, whose keys encrypt for so long at least. NULL: no room. */
struct ticket_ring *tls_ring_of(struct zone *zone, uint64_t period_s);
/* Of the keys, when all contexts were made. */
uint64_t tls_ring_period_s(const struct ticket_ring *ring);
/* Is a key to be made now? The one of this period, or in its second half the one of the next. */
bool tls_ring_wants(struct ticket_ring *ring, uint64_t now_s, uint64_t *number);
bool tls_ring_make(struct ticket_ring *ring, uint64_t number);
bool tls_ring_get(struct ticket_ring *ring, uint64_t number, unsigned char out[TLS_RING_KEY]);
/* NULL: the key goes. */
void tls_ring_put(struct ticket_ring *ring, uint64_t number, const unsigned char key[TLS_RING_KEY]);

/* In a worker: ticket keys rotate, certificate watches run, staples are fetched (through this
 * function, which the layer above hands down: an HTTP POST that MAY WAIT). */
bool tls_worker_start(const struct log *log);
/* It is going to end: no staple is waited for. */
void tls_worker_quit(void);
void tls_worker_end(void);

/* Library and its version for -V: "OpenSSL 3.0.17 1 Jul 2025". */
const char *tls_version_built(void);
const char *tls_version_running(void);

#endif
