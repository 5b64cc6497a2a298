/* Shared by the files of ngx_http_acme_module. Implemented in answer.c, duty.c, fetch.c,
 * generated.c, hook.c, jws.c, keys.c, module.c, monitor.c, objects.c, order.c, renewal.c,
 * session.c, state.c, sync.c, url.c and zone.c. */
#ifndef HTTP_MODULES_CLIENTS_ACME_ACME_H
#define HTTP_MODULES_CLIENTS_ACME_ACME_H

#include <openssl/evp.h>

#include "conf/directive.h"
#include "fiber/fiber.h"
#include "http/routing/settings.h"
#include "net/tls/tls.h"
#include "server/monitor.h"
#include "shared/jose/document.h"
#include "shared/metrics/orders.h"
#include "store/table.h"

#define ACME_ANSWER_MAX (256 * 1024)  /* bytes of a response body */
#define ACME_WAIT_MOST_S (30 * 86400) /* limit for Retry-After */
#define ACME_PEM_MAX (128 * 1024)     /* bytes of a key with its chain */
#define ACME_CHAIN_MAX 10             /* certificates in a chain */
/* Bytes of a chain; the remainder of ACME_PEM_MAX is for the key. */
#define ACME_CHAIN_SIZE (112 * 1024)
#define ACME_IDENTIFIERS_MAX 100    /* identifiers of one certificate */
#define ACME_CHALLENGES_MAX 128     /* open challenges in a zone */
#define ACME_CHALLENGE_NAME_MAX 256 /* bytes of a token, or of a server name in TLS */
#define ACME_URL_MAX 2048           /* bytes of a URL from the CA */
#define ACME_CALL_MS 30000          /* timeout of one request to the CA */

enum acme_challenge_type { ACME_HTTP_01, ACME_TLS_ALPN_01, ACME_DNS_01, ACME_DNS_PERSIST_01 };
extern const char *const acme_challenge_names[]; /* indexed by enum acme_challenge_type */

/* How to make a key, or where to read it. */
struct acme_key_type {
    bool is_rsa;
    unsigned bits;   /* of an RSA modulus, or of a curve */
    struct str file; /* full path of a PEM file, used instead of both; or empty */
};

/* An identifier of a certificate: a name in lower case, also "*.NAME", or an address (RFC 8738). */
struct acme_identifier {
    struct str value;
    bool is_ip;
};

struct acme_entry;
struct acme_issuer;

/* A certificate to obtain. */
struct acme_certificate {
    struct acme_issuer *issuer;
    struct str issuer_name; /* as configured; resolved after the blocks were read */
    struct vec identifiers; /* struct acme_identifier: sorted */
    struct acme_key_type key;
    struct str name;          /* of its file, without directory and suffix */
    struct acme_entry *entry; /* in the zone; the same address in all processes */
    const struct conf_node *node;
    /* Used by the process that orders. */
    int64_t ari_due_s;   /* when the CA suggests to renew; 0: no suggestion */
    int64_t ari_asked_s; /* when the CA was last asked for it */
    int64_t ari_next_s;  /* when to ask again */
    int64_t refused_ns;  /* time of the last file that was read and rejected */
};

/* The open challenge of the process that has the lock; it is copied to this process's zone. */
struct acme_foreign_challenge {
    unsigned type; /* an enum acme_challenge_type */
    size_t size;   /* length of the name; 0: none */
    char name[ACME_CHALLENGE_NAME_MAX];
};

/* An `acme_issuer` block. */
struct acme_issuer {
    /* Set by its rows. */
    struct str uri;
    struct vec contacts; /* struct str: URLs */
    struct acme_key_type account_key;
    unsigned challenge; /* an enum acme_challenge_type */
    bool accepts_terms;
    bool has_common_name;
    bool verifies;
    struct str trusted;
    struct str state_path; /* full path of a directory; empty: nothing is stored */
    bool has_state_path;   /* state_path was configured */
    struct str preferred_chain;
    struct str profile;
    bool needs_profile;
    struct str external_kid, external_key; /* the key is decoded; empty: none */
    struct str dns_hook;                   /* path of a program, or a URL */
    uint64_t dns_wait_ms;
    /* Derived. */
    struct str name;
    const struct conf_node *node;
    struct vec certificates; /* struct acme_certificate * */
    const struct resolver_settings *resolver;
    uint64_t resolver_timeout_ms;
    struct tls_context *tls;
    struct acme_entry *account; /* in the zone: its key and its URL */
    /* Used by the process that orders. */
    struct acme_main *main;
    struct fiber *fiber;    /* renews its certificates; valid while is_running */
    struct wait_point wake; /* wakes the fiber for a check */
    bool is_running;        /* the fiber exists */
    bool must_end;          /* the fiber must end after the current order */
    bool has_logged_wait;   /* the reason for not having the lock was logged */
    bool has_logged_store;  /* the same for the lock in the store */
    uint64_t leased_ms; /* when the lock in the store was last obtained; clock_now.now_ms time */
    struct monitor monitor;                /* the process that has the master's rights */
    struct acme_foreign_challenge foreign; /* as last read */
    _Atomic bool is_asking;                /* a duty is in progress */
    _Atomic bool is_alone;                 /* the monitor has died, and this process must end */
    _Atomic bool is_stopping; /* programs must end; used by the process that runs them */
    int asker; /* in the monitor: the socket to the process that orders; -1: this is not a monitor
                */
    int lock;  /* in the monitor: descriptor of the lock file; -1: not open */
};

/* Settings of the http block. */
struct acme_http {
    struct str zone_name;
    uint64_t zone_size;
    struct conf_node *zone_node; /* NULL: the default */
    struct store_sync_words sync;
};

/* State of one configuration. */
struct acme_main {
    struct vec issuers;      /* struct acme_issuer * */
    struct vec certificates; /* struct acme_certificate *: all different */
    const struct acme_http *http;
    struct zone *zone;
    struct store_table *table; /* data that nodes share; NULL: none */
    bool has_http_01, has_tls_alpn_01;
    struct generation *generation;
};

struct acme_main *acme_main_of(struct conf *conf);

/* ---- zone.c: state shared by all processes ---- */

/* A pair in the zone: a key and certificates; for an account, its key and its URL. */
struct acme_pair {
    struct str key;   /* PEM */
    struct str value; /* PEM of the chain; or the URL */
};

/* Further state of a certificate. */
struct acme_facts {
    int64_t not_before, not_after; /* seconds since the epoch; 0: no certificate */
    bool is_self_signed; /* made here, or issued for other names; used until the CA issues one */
    unsigned failures;   /* orders that failed since the last successful one */
    int64_t not_until_s; /* no order before this time */
    int64_t noted_s; /* when not_until_s was set: if the clock is before that, it was set back, and
                        not_until_s is ignored */
    int64_t file_time_ns;  /* mtime of the file with this certificate; 0: unknown */
    int64_t file_begins_s; /* not_before of the certificate in the file; 0: none */
};

/* Makes the root of the zone if it does not exist. False: the zone is too small. */
bool acme_zone_open(struct zone *zone);
/* Finds or makes the entry with this name, and marks it as used by this generation. NULL: the zone
 * is full. */
struct acme_entry *acme_entry_of(struct zone *zone, struct str name, uint32_t generation);
/* Copies the pair of the entry to the arena; false: it has none. */
bool acme_entry_get(struct zone *zone, struct acme_entry *entry, struct arena *arena,
                    struct acme_pair *out);
/* Replaces the pair. False: the zone is full; the old pair stays. */
bool acme_entry_put(struct zone *zone, struct acme_entry *entry, const struct acme_pair *pair,
                    uint32_t generation);
/* Iterates, in any order, over entries whose name has this prefix and that have a certificate of
 * the CA; *last is NULL at first. False: no more. */
bool acme_entry_next(struct zone *zone, struct str prefix, struct acme_entry **last,
                     struct arena *arena, struct acme_pair *out);
/* The counters of an issuer, which are in its account's entry. */
struct order_counts *acme_entry_counts(struct acme_entry *entry);
struct acme_facts acme_facts_get(struct zone *zone, struct acme_entry *entry);
void acme_facts_put(struct zone *zone, struct acme_entry *entry, const struct acme_facts *facts);

/* Stores the answer to a challenge, for an hour at least unless it is removed: under its token the
 * key authorization, or under a name key and certificate. False: the zone is full. */
bool acme_challenge_put(struct zone *zone, enum acme_challenge_type type, struct str name,
                        const struct acme_pair *pair);
void acme_challenge_remove(struct zone *zone, enum acme_challenge_type type, struct str name);
bool acme_challenge_find(struct zone *zone, enum acme_challenge_type type, struct str name,
                         struct arena *arena, struct acme_pair *out);
/* Lists the open challenges: struct acme_open_challenge in the arena. */
struct acme_open_challenge {
    enum acme_challenge_type type;
    struct str name;
};
void acme_challenge_list(struct zone *zone, struct arena *arena, struct vec *out);

/* ---- keys.c: keys, certificate requests, certificates. On the worker's own stack, except for
 * acme_random. ---- */

/* A new key, owned by the caller; NULL: OpenSSL failed. */
EVP_PKEY *acme_key_new(const struct acme_key_type *type);
EVP_PKEY *acme_key_read(struct str pem); /* NULL: it is not a suitable key */
bool acme_key_write(EVP_PKEY *key, struct arena *arena, struct str *pem);

/* Makes a self-signed certificate, to be used until the CA issues one. False: OpenSSL failed. */
bool acme_self_signed(struct arena *arena, const struct vec *identifiers, struct acme_pair *out);
/* How many of the identifiers does the first certificate of the chain have? 0 if it has expired. */
unsigned acme_names_covered(struct arena *arena, struct str chain, const struct vec *identifiers);
/* Makes the certificate of RFC 8737, 3 for this identifier, with the digest of the key
 * authorization. */
bool acme_alpn_certificate(struct arena *arena, const struct acme_identifier *identifier,
                           struct str authorization, struct acme_pair *out);
/* Makes a certificate signing request (RFC 2986), as base64url of DER. */
bool acme_request(struct arena *arena, const struct acme_certificate *certificate, EVP_PKEY *key,
                  struct str *out);

/* A parsed chain. */
struct acme_chain {
    struct str pem;                /* written again from the parsed certificates */
    int64_t not_before, not_after; /* of the leaf certificate */
    struct str top_issuer;         /* common name of the issuer of the last certificate */
    struct str id; /* identifies the leaf to the CA (RFC 9773, 4.1); empty: not available */
};
/* Parses a chain from the CA, or from a file, and checks that the first certificate is for this key
 * and these identifiers. False with *why. */
bool acme_chain_read(struct arena *arena, struct str text, EVP_PKEY *key,
                     const struct acme_certificate *certificate, struct acme_chain *out,
                     const char **why);

/* ---- jws.c: signed requests (RFC 7515). On the worker's own stack. ---- */

/* Does ACME have an algorithm for the key? */
bool acme_key_fits(EVP_PKEY *key);
/* The public key as JWK (RFC 7517), with members in the order of RFC 7638. */
bool acme_jwk(struct arena *arena, EVP_PKEY *key, struct str *out);
struct str acme_thumbprint(struct arena *arena, struct str jwk);

/* The input of a signature. */
struct acme_jws {
    EVP_PKEY *key; /* NULL: HMAC with `secret` */
    struct str secret;
    struct str url;
    struct str nonce; /* empty: none */
    struct str kid;   /* empty: the jwk is sent instead */
    struct str jwk;
    struct str payload; /* empty: POST-as-GET */
};
bool acme_jws_make(struct arena *arena, const struct acme_jws *jws, struct str *out);
struct str acme_digest_text(struct arena *arena, struct str text); /* SHA-256 in base64url */

/* ---- duty.c: operations that need the master's rights ---- */

enum acme_duty_kind {
    ACME_FILE_READ,
    ACME_FILE_TIME,
    ACME_FILE_WRITE,
    ACME_LOCK,
    ACME_UNLOCK,
    ACME_STOP, /* to a monitor: a running or later program must end; this duty has no reply */
    ACME_RUN_HOOK
};

/* How the program of a hook ended. */
enum acme_hook_end { ACME_HOOK_BY_ITSELF, ACME_HOOK_LATE, ACME_HOOK_STOPPED };

#define ACME_DUTY_TEXTS 3

/* One operation, and its result. */
struct acme_duty {
    enum acme_duty_kind kind;
    struct str
        texts[ACME_DUTY_TEXTS]; /* FILE_*: a name and contents; RUN_HOOK: action, name, value */
    int error;                  /* errno; 0: success */
    struct str text;            /* FILE_READ: in the arena */
    int64_t time_ns;            /* FILE_READ and FILE_TIME: mtime; 0: it does not exist */
    int status;                 /* RUN_HOOK: from waitpid(2) */
    enum acme_hook_end end;     /* RUN_HOOK */
};

/* May this issuer need the operation: on a file of its directory, on a record of its names?
 * Pure. */
bool acme_duty_is_allowed(const struct acme_issuer *issuer, const struct acme_duty *duty);
/* Performs it with the rights of this process. Blocks on the disk; RUN_HOOK until the program
 * ends. */
void acme_duty_perform(struct acme_issuer *issuer, struct acme_duty *duty, struct arena *arena);

/* ---- monitor.c: the process with the master's rights, for the one that orders ---- */

/* Starts a monitor for the issuer. False: logged. */
bool acme_monitor_start(struct acme_issuer *issuer);
void acme_monitor_end(struct acme_issuer *issuer);
/* Makes a program that runs, or will be run, end soon, so that this process can end. */
void acme_monitor_stop(struct acme_issuer *issuer);
/* Has the monitor perform the operation, or performs it here if there is no monitor. The arena may
 * be NULL except for FILE_READ. May be called on a thread, but not concurrently. */
void acme_duty_run(struct acme_issuer *issuer, struct acme_duty *duty, struct arena *arena);
/* The main function of the monitor: performs operations from this socket until it is closed or a
 * malformed one arrives. */
void acme_monitor_serve(int fd, void *issuer);

/* ---- state.c: files. Block on the disk: for the process that orders, and the master at start ----
 */

/* Makes the directory if it does not exist, and checks it. False: logged. */
bool acme_state_open(const struct acme_issuer *issuer, const struct log *log);
/* Reads a file of the directory; false: it does not exist, or cannot be read, which was logged.
 * *time_ns may be NULL. */
bool acme_state_read(struct acme_issuer *issuer, struct str name, struct arena *arena,
                     struct str *out, int64_t *time_ns);
/* The mtime of a file; 0: it does not exist. */
int64_t acme_state_time(struct acme_issuer *issuer, struct str name);
/* Replaces a file atomically; false: logged. Without a directory it does nothing. */
bool acme_state_write(struct acme_issuer *issuer, struct str name, struct str text,
                      const struct log *log);
/* Takes the lock of the directory. False: another process has it, or it failed (logged). */
bool acme_state_lock(struct acme_issuer *issuer, const struct log *log);
void acme_state_unlock(struct acme_issuer *issuer);
/* Stores a text with a key and a chain in the zone. If nodes share the zone, an older certificate
 * does not replace a newer one. False: not stored; *why is NULL if the text is valid. On the
 * worker's own stack. */
bool acme_state_take(struct acme_certificate *certificate, struct arena *arena, struct str text,
                     const char **why);
/* Writes a certificate that came from another node to its file. */
void acme_state_save_shared(struct acme_certificate *certificate, const struct log *log);
/* Writes the answer to the open challenge to a file; pair NULL: there is none any more. Processes
 * with another zone that use the directory, mainly those of the next binary, answer it, too. */
void acme_state_keep_challenge(struct acme_issuer *issuer, enum acme_challenge_type type,
                               struct str name, const struct acme_pair *pair);
/* Copies the open challenge of another process to the zone, in place of the one that was read
 * before. */
void acme_state_load_challenge(struct acme_issuer *issuer);
/* Removes it: no other process has an open challenge. */
void acme_state_drop_challenge(struct acme_issuer *issuer);
bool acme_state_keep_account(struct acme_issuer *issuer, const struct acme_pair *pair,
                             const struct log *log);
void acme_state_save_account(struct acme_issuer *issuer, const struct log *log);
/* Copies the certificate from its file to the zone, if it is newer. False: there is no usable
 * file. */
bool acme_state_load(struct acme_certificate *certificate, const struct log *log);
/* Copies the account's key and URL to the zone, if there are any. False: unusable; logged. */
bool acme_state_load_account(struct acme_issuer *issuer, const struct log *log);

/* ---- sync.c: data that nodes share in a redis_store. Without one these do nothing, and the lock
 * is always granted ---- */

/* False after conf_error. */
bool acme_sync_open(struct conf *conf, struct acme_main *main);
/* Send changes of this node to other nodes. */
void acme_sync_certificate(const struct acme_certificate *certificate);
void acme_sync_failure(const struct acme_certificate *certificate);
void acme_sync_account(const struct acme_issuer *issuer);
void acme_sync_challenge(const struct acme_main *main, enum acme_challenge_type type,
                         struct str name);
/* Waits until the store has all changes. False: it does not. MAY WAIT. */
bool acme_sync_flush(const struct acme_main *main);
/* The same, and then until the other nodes have read them. MAY WAIT. */
bool acme_sync_spread(const struct acme_main *main);
/* Takes the lock of an issuer, so that only one node orders; called again, extends it. False:
 * logged once. MAY WAIT. */
bool acme_sync_lock(struct acme_issuer *issuer);
void acme_sync_unlock(struct acme_issuer *issuer);
/* Reads data that the previous owner of the lock may have changed. MAY WAIT. */
void acme_sync_fetch(struct acme_issuer *issuer);

/* ---- url.c ---- */

struct acme_url {
    bool is_secure;
    struct str authority, host, target; /* target: path and query, at least "/" */
    uint16_t port;
};
/* Parses https://…, or http:// if allowed; without user, fragment and characters that need escapes.
 * False: not such a URL. */
bool acme_url_parse(struct str text, bool allows_plain, struct acme_url *out);

/* ---- answer.c: responses of a CA. Pure functions ---- */

/* The relevant parts of a response. Slices of the input. */
struct acme_answer {
    unsigned status;
    struct str location, nonce, retry_after, content_type;
    struct str alternates[ACME_CHAIN_MAX]; /* from Link with rel="alternate" */
    unsigned alternate_count;
    struct str body;
    size_t missing;  /* ACME_MORE: at least this many bytes are missing; 0: unknown */
    bool is_chunked; /* ACME_MORE: continue when the input ends with a line */
};
enum acme_read { ACME_MORE, ACME_WHOLE, ACME_BAD };
/* Parses an HTTP/1.1 response (RFC 9112) from its first byte; the body may be chunked. is_end:
 * nothing follows the input. */
enum acme_read acme_answer_read(struct arena *arena, struct str input, bool is_end, bool is_head,
                                struct acme_answer *out);
/* Letters, digits, "-" and "_", at least one: nonces, tokens, digests. */
bool acme_is_base64url(struct str text);
/* Retry-After (RFC 9110, 10.2.3) in seconds from now; 0: absent. */
int64_t acme_retry_after(struct str value, int64_t now);
/* Parses a time of RFC 3339 to seconds since the epoch. */
bool acme_time_parse(struct str text, int64_t *out);

/* ---- fetch.c ---- */

/* One request. */
struct acme_call {
    struct str url;
    const char *method;
    struct str body;          /* empty: none */
    const char *content_type; /* of it */
    const char *accept;       /* or NULL */
    bool allows_plain;
    struct acme_answer answer;
    const char *why; /* why it failed */
};
/* Sends the request on a separate connection. False: there is no response; logged. MAY WAIT. */
bool acme_fetch(const struct acme_issuer *issuer, struct arena *arena, struct acme_call *call);

/* ---- session.c: an account, and signed requests ---- */

/* An error of the CA. */
struct acme_problem {
    unsigned status;
    struct str type; /* without urn:ietf:params:acme:error: */
    struct str detail;
    int64_t retry_after_s; /* 0: not given */
};

/* A series of orders with one account. */
struct acme_session {
    struct acme_issuer *issuer;
    const struct log *log;
    struct arena arena;      /* not for data that the CA may send repeatedly */
    struct arena call_arena; /* of the last request and its response: freed by the next one */
    struct str new_nonce, new_account, new_order, renewal_info; /* URLs of the directory */
    struct str terms;
    bool needs_external; /* externalAccountRequired */
    json_t *profiles;    /* borrowed from the directory */
    json_t *directory;
    struct str nonce;
    EVP_PKEY *key; /* of the account */
    struct str key_pem;
    struct str jwk, thumbprint, kid;
    json_t *answer;              /* JSON of the last response, or NULL */
    struct acme_answer got;      /* the last response, in call_arena */
    struct acme_problem problem; /* of the last failed request */
};

void acme_session_begin(struct acme_session *session, struct acme_issuer *issuer,
                        const struct log *log);
void acme_session_end(struct acme_session *session);
/* Gets the directory and the account. False: logged; `problem` has the time for the next attempt.
 * MAY WAIT. */
bool acme_session_open(struct acme_session *session);
/* Sends a signed request; if the CA rejects the nonce, repeats it with another. Empty payload:
 * POST-as-GET. False: logged, and `problem` is set. MAY WAIT. */
bool acme_post(struct acme_session *session, struct str url, struct str payload,
               const char *accept);
/* An unsigned GET of JSON. */
bool acme_get(struct acme_session *session, struct str url);
/* Runs a function on the worker's own stack, with its argument. */
bool acme_on_main(bool (*step)(void *arg), void *arg);
/* The CA no longer knows the account: the next session makes a new one. */
void acme_forget_account(struct acme_session *session);

/* Parses the object `directory` of the session. False: it is not a directory of an ACME server. */
bool acme_directory_read(struct acme_session *session);

/* ---- objects.c: orders and authorizations of a CA (RFC 8555, 7.1) ---- */

/* A URL in the CA's data, copied to the arena; empty: missing, or not acceptable. */
struct str acme_url_of(struct arena *arena, const json_t *object, const char *name);

/* URLs of an order, in the arena. */
struct acme_order_urls {
    struct str order, finalize;
    struct vec authorizations; /* struct str */
};
/* location: the URL of the order. False: the order is malformed. */
bool acme_order_read(struct arena *arena, const json_t *object, struct str location,
                     struct acme_order_urls *out);

/* An authorization of one identifier, in the arena. */
struct acme_authorization {
    struct acme_identifier identifier; /* without "*." */
    bool is_wildcard;
    struct str challenge_url, token; /* empty token: dns-persist-01 */
    struct str domain;               /* dns-persist-01: domain name of the CA */
};
/* Parses an authorization for an identifier of this certificate, with a challenge of this type.
 * NULL, or an error message. */
const char *acme_authorization_read(struct arena *arena, const json_t *object,
                                    const struct acme_certificate *certificate,
                                    enum acme_challenge_type type, struct acme_authorization *out);
/* Finds the challenge of this type; NULL: there is none. */
const json_t *acme_find_challenge(const json_t *authorization, enum acme_challenge_type type);
/* The renewal window that the CA suggests (RFC 9773, 4.2), in seconds since the epoch. False:
 * none. */
bool acme_window_read(const json_t *object, int64_t *start, int64_t *end);

/* ---- order.c ---- */

/* Orders the certificate, and stores it in file and zone. False: logged; see session->problem. MAY
 * WAIT. */
bool acme_order(struct acme_session *session, struct acme_certificate *certificate);
/* Asks the CA when to renew (RFC 9773). MAY WAIT. */
void acme_ask_renewal(struct acme_session *session, struct acme_certificate *certificate);

/* ---- hook.c ---- */

/* A TXT record of dns-01. */
struct acme_record {
    struct str name;
    struct str value;
};
/* Runs the hook to add or remove the record. False: logged. MAY WAIT. */
bool acme_hook_run(struct acme_issuer *issuer, struct arena *arena, const char *action,
                   const struct acme_record *record, const struct log *log);
/* Runs the program of this duty, for two minutes at most; returns an errno, or 0 with the duty's
 * status and end. Blocks: on a thread, or in a separate process. */
int acme_hook_program(struct acme_issuer *issuer, struct acme_duty *duty);

/* ---- renewal.c: the process that orders ---- */

/* When the certificate is due for renewal, in seconds since the epoch. */
int64_t acme_due(const struct acme_certificate *certificate, const struct acme_facts *facts);
/* has_monitors: this process will drop the master's rights, and has monitors that keep them. */
bool acme_renewals_start(struct acme_main *main, bool has_monitors);
void acme_renewals_quit(struct acme_main *main, bool may_finish);
void acme_renewals_end(struct acme_main *main);

/* ---- generated.c ---- */

/* Replaces `ssl_certificate auto` by other directives. False after conf_error. */
bool acme_generate(struct conf *conf, struct http_main *main);

#endif
