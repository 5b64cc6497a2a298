/* Inside ngx_http_acme_module: what its files share.
 * Implemented in answer.c, duty.c, fetch.c, generated.c, hook.c, jws.c, keys.c, module.c,
 * monitor.c, objects.c, order.c, renewal.c, session.c, state.c, sync.c, url.c and zone.c. */
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

#define ACME_ANSWER_MAX (256 * 1024)  /* bytes of an answer's body */
#define ACME_WAIT_MOST_S (30 * 86400) /* a longer Retry-After counts as this */
#define ACME_PEM_MAX (128 * 1024)     /* bytes of a key with its chain */
#define ACME_CHAIN_MAX 10             /* certificates of a chain */
#define ACME_CHAIN_SIZE (112 * 1024)  /* bytes of it; the rest of ACME_PEM_MAX is for the key */
#define ACME_IDENTIFIERS_MAX 100      /* of one certificate */
#define ACME_CHALLENGES_MAX 128       /* that are open at one time in a zone */
#define ACME_CHALLENGE_NAME_MAX 256   /* bytes of a token, or of a name that TLS asks for */
#define ACME_URL_MAX 2048             /* bytes of a URL that the CA names */
#define ACME_CALL_MS 30000            /* one request to the CA */

enum acme_challenge_type { ACME_HTTP_01, ACME_TLS_ALPN_01, ACME_DNS_01, ACME_DNS_PERSIST_01 };
extern const char *const acme_challenge_names[]; /* by enum acme_challenge_type */

/* What a key is made of, or where it is. */
struct acme_key_type {
    bool is_rsa;
    unsigned bits;   /* of the modulus, or of the curve */
    struct str file; /* full name of a PEM file in place of both; or empty */
};

/* What a certificate is for: a name in lower case, perhaps "*.NAME", or an address (RFC 8738). */
struct acme_identifier {
    struct str value;
    bool is_ip;
};

struct acme_entry;
struct acme_issuer;

/* One certificate that is to be had. */
struct acme_certificate {
    struct acme_issuer *issuer;
    struct str issuer_name; /* as written, until the blocks are known */
    struct vec identifiers; /* struct acme_identifier: sorted */
    struct acme_key_type key;
    struct str name;          /* of its file, without its folder and suffix */
    struct acme_entry *entry; /* in the zone; the same address in all processes */
    const struct conf_node *node;
    /* Of the process that orders. */
    int64_t ari_due_s;   /* when the CA suggests to renew; 0: it has not said */
    int64_t ari_asked_s; /* when it was asked last */
    int64_t ari_next_s;  /* when to ask it again */
    int64_t refused_ns;  /* time of the file that was read last and not used */
};

/* The open challenge of the process that has the lock: it is in the zone of this one as well. */
struct acme_foreign_challenge {
    unsigned type; /* enum acme_challenge_type */
    size_t size;   /* of the name; 0: there is none */
    char name[ACME_CHALLENGE_NAME_MAX];
};

/* A block `acme_issuer`. */
struct acme_issuer {
    /* Rows. */
    struct str uri;
    struct vec contacts; /* struct str: URLs */
    struct acme_key_type account_key;
    unsigned challenge; /* enum acme_challenge_type */
    bool accepts_terms;
    bool has_common_name;
    bool verifies;
    struct str trusted;
    struct str state_path; /* a folder, full; empty: nothing is kept */
    bool has_state_path;   /* it was written */
    struct str preferred_chain;
    struct str profile;
    bool needs_profile;
    struct str external_kid, external_key; /* the key decoded; empty: none */
    struct str dns_hook;                   /* a program, or a URL */
    uint64_t dns_wait_ms;
    /* Derived. */
    struct str name;
    const struct conf_node *node;
    struct vec certificates; /* struct acme_certificate * */
    const struct resolver_settings *resolver;
    uint64_t resolver_timeout_ms;
    struct tls_context *tls;
    struct acme_entry *account; /* in the zone: its key, and its URL */
    /* Of the process that orders. */
    struct acme_main *main;
    struct fiber *fiber;    /* that keeps its certificates; valid while is_running */
    struct wait_point wake; /* it has to look */
    bool is_running;        /* the fiber lives */
    bool must_end;          /* it returns when the order under way is done */
    bool has_logged_wait;   /* the log says already why the lock is not ours */
    bool has_logged_store;  /* the same of the lock in the store */
    uint64_t leased_ms;     /* when the lock in the store was had last; clock_now.now_ms time */
    struct monitor monitor; /* that has the master's rights for it */
    struct acme_foreign_challenge foreign; /* as it was read last */
    _Atomic bool is_asking;                /* it has something to do */
    _Atomic bool is_alone;                 /* it has died, and this process ends */
    _Atomic bool is_stopping;              /* programs are to end; of the process that runs them */
    int asker; /* of the monitor: the socket of the process that asks; -1: it is no monitor */
    int lock;  /* descriptor of the lock's file; -1: it is not open; of the monitor */
};

/* Settings of the http block. */
struct acme_http {
    struct str zone_name;
    uint64_t zone_size;
    struct conf_node *zone_node; /* NULL: the default */
    struct store_sync_words sync;
};

/* Of one reading. */
struct acme_main {
    struct vec issuers;      /* struct acme_issuer * */
    struct vec certificates; /* struct acme_certificate *: no two for the same */
    const struct acme_http *http;
    struct zone *zone;
    struct store_table *table; /* of what nodes share; NULL: nothing */
    bool has_http_01, has_tls_alpn_01;
    struct generation *generation;
};

struct acme_main *acme_main_of(struct conf *conf);

/* ---- zone.c: what all processes know ---- */

/* A pair in the zone: key and certificates; of an account, its key and its URL. */
struct acme_pair {
    struct str key;   /* PEM */
    struct str value; /* PEM of the chain; or the URL */
};

/* What is known of a certificate besides. */
struct acme_facts {
    int64_t not_before, not_after; /* seconds since the epoch; 0: there is none */
    bool is_self_signed;           /* made here, or for other names, until the CA issues one */
    unsigned failures;             /* orders that failed since the last that did not */
    int64_t not_until_s;           /* no order before that time */
    int64_t noted_s; /* when that was decided: a clock that shows an earlier time has gone back, and
                        it does not count */
    int64_t file_time_ns;  /* of the file that has this certificate; 0: none is known */
    int64_t file_begins_s; /* not_before of what it has; 0: nothing */
};

/* The root of the zone, made where there is none. False: no room. */
bool acme_zone_open(struct zone *zone);
/* The entry of this name, made where there is none; the current reading has it. NULL: no room. */
struct acme_entry *acme_entry_of(struct zone *zone, struct str name, uint32_t generation);
/* Copies of what the entry has, in the arena; false: nothing yet. */
bool acme_entry_get(struct zone *zone, struct acme_entry *entry, struct arena *arena,
                    struct acme_pair *out);
/* False: no room; the old pair stays. */
bool acme_entry_put(struct zone *zone, struct acme_entry *entry, const struct acme_pair *pair,
                    uint32_t generation);
/* The next entry, in no order, whose name begins so and that has a certificate of the CA; *last is
 * NULL at first. False: there is none. */
bool acme_entry_next(struct zone *zone, struct str prefix, struct acme_entry **last,
                     struct arena *arena, struct acme_pair *out);
/* Of an issuer: those of its account's entry. */
struct order_counts *acme_entry_counts(struct acme_entry *entry);
struct acme_facts acme_facts_get(struct zone *zone, struct acme_entry *entry);
void acme_facts_put(struct zone *zone, struct acme_entry *entry, const struct acme_facts *facts);

/* What answers a challenge for an hour: under its token the key authorization, or under a name key
 * and certificate. False: no room. */
bool acme_challenge_put(struct zone *zone, enum acme_challenge_type type, struct str name,
                        const struct acme_pair *pair);
void acme_challenge_remove(struct zone *zone, enum acme_challenge_type type, struct str name);
bool acme_challenge_find(struct zone *zone, enum acme_challenge_type type, struct str name,
                         struct arena *arena, struct acme_pair *out);
/* Those that are open: struct acme_open_challenge in the arena. */
struct acme_open_challenge {
    enum acme_challenge_type type;
    struct str name;
};
void acme_challenge_list(struct zone *zone, struct arena *arena, struct vec *out);

/* ---- keys.c: keys, requests, certificates. On the worker's own stack, but for acme_random. ----
 */

/* A new key, owned by the caller; NULL: OpenSSL could not. */
EVP_PKEY *acme_key_new(const struct acme_key_type *type);
EVP_PKEY *acme_key_read(struct str pem); /* NULL: it is none that fits */
bool acme_key_write(EVP_PKEY *key, struct arena *arena, struct str *pem);

/* A certificate signed by its own key, until the CA issues one. False: OpenSSL could not. */
bool acme_self_signed(struct arena *arena, const struct vec *identifiers, struct acme_pair *out);
/* For how many of these is the first certificate of the chain, which has not expired? */
unsigned acme_names_covered(struct arena *arena, struct str chain, const struct vec *identifiers);
/* The certificate of RFC 8737, 3 for this identifier, with the digest of the key authorization. */
bool acme_alpn_certificate(struct arena *arena, const struct acme_identifier *identifier,
                           struct str authorization, struct acme_pair *out);
/* A request for a certificate (RFC 2986), as base64url of DER. */
bool acme_request(struct arena *arena, const struct acme_certificate *certificate, EVP_PKEY *key,
                  struct str *out);

/* What is found in a chain. */
struct acme_chain {
    struct str pem;                /* written again from what was understood */
    int64_t not_before, not_after; /* of the leaf */
    struct str top_issuer;         /* the common name that issued the last one */
    struct str id;                 /* of the leaf for the CA (RFC 9773, 4.1); empty: it has none */
};
/*
 * Reads a chain of the CA, or of a file: is the first certificate for this key and these
 * identifiers? False with *why.
 */
bool acme_chain_read(struct arena *arena, struct str text, EVP_PKEY *key,
                     const struct acme_certificate *certificate, struct acme_chain *out,
                     const char **why);

/* ---- jws.c: signed requests (RFC 7515). On the worker's own stack. ---- */

/* Does the key have an algorithm of ACME's? */
bool acme_key_fits(EVP_PKEY *key);
/* The public key as JWK (RFC 7517), members in the order of RFC 7638. */
bool acme_jwk(struct arena *arena, EVP_PKEY *key, struct str *out);
struct str acme_thumbprint(struct arena *arena, struct str jwk);

/* What is signed. */
struct acme_jws {
    EVP_PKEY *key; /* NULL: HMAC with secret */
    struct str secret;
    struct str url;
    struct str nonce; /* empty: none */
    struct str kid;   /* empty: jwk is sent */
    struct str jwk;
    struct str payload; /* empty: POST-as-GET */
};
bool acme_jws_make(struct arena *arena, const struct acme_jws *jws, struct str *out);
struct str acme_digest_text(struct arena *arena, struct str text); /* SHA-256 as base64url */

/* ---- duty.c: what needs the master's rights ---- */

enum acme_duty_kind {
    ACME_FILE_READ,
    ACME_FILE_TIME,
    ACME_FILE_WRITE,
    ACME_LOCK,
    ACME_UNLOCK,
    ACME_STOP, /* of a monitor: a program that runs now or later has to end, and this duty has no
                  reply */
    ACME_RUN_HOOK
};

/* How the program of a hook ended. */
enum acme_hook_end { ACME_HOOK_BY_ITSELF, ACME_HOOK_LATE, ACME_HOOK_STOPPED };

#define ACME_DUTY_TEXTS 3

/* One thing to do, and how it went. */
struct acme_duty {
    enum acme_duty_kind kind;
    struct str
        texts[ACME_DUTY_TEXTS]; /* of FILE_*: a name, a content; of RUN_HOOK: action, name, value */
    int error;                  /* errno; 0: it was done */
    struct str text;            /* of FILE_READ, in the arena */
    int64_t time_ns; /* of FILE_READ and FILE_TIME: when it was written; 0: it is not there */
    int status;      /* of RUN_HOOK: of waitpid(2) */
    enum acme_hook_end end; /* of RUN_HOOK */
};

/* Is it something that this issuer needs: a file of its folder, a record of its names? Pure. */
bool acme_duty_is_allowed(const struct acme_issuer *issuer, const struct acme_duty *duty);
/* Does it here, with the rights that this process has. Waits for the disk; RUN_HOOK for the
 * program. */
void acme_duty_perform(struct acme_issuer *issuer, struct acme_duty *duty, struct arena *arena);

/* ---- monitor.c: the process that has the master's rights, of the one that orders ---- */

/* Starts one for the issuer. False: logged. */
bool acme_monitor_start(struct acme_issuer *issuer);
void acme_monitor_end(struct acme_issuer *issuer);
/* A program that runs, or is run from now on, ends soon, so that this process can. */
void acme_monitor_stop(struct acme_issuer *issuer);
/* Has the monitor do it, or does it here where there is none. The arena may be NULL except with
 * FILE_READ. May be called on a thread, by one at a time. */
void acme_duty_run(struct acme_issuer *issuer, struct acme_duty *duty, struct arena *arena);
/* The monitor: does what comes from this socket, until its end or something malformed. */
void acme_monitor_serve(int fd, void *issuer);

/* ---- state.c: files. They wait for the disk: of the process that orders, and of the master at
 * start. ---- */

/* The folder, made where it is not there. False: logged. */
bool acme_state_open(const struct acme_issuer *issuer, const struct log *log);
/* Reads a file of it; false: it is not there, or cannot be read, which was logged. *time_ns may be
 * NULL. */
bool acme_state_read(struct acme_issuer *issuer, struct str name, struct arena *arena,
                     struct str *out, int64_t *time_ns);
/* When it was written; 0: it is not there. */
int64_t acme_state_time(struct acme_issuer *issuer, struct str name);
/* Replaces it in one step; false: logged. Nothing to do without a folder. */
bool acme_state_write(struct acme_issuer *issuer, struct str name, struct str text,
                      const struct log *log);
/* The lock of the folder. False: another process has it, or it cannot be had (logged). */
bool acme_state_lock(struct acme_issuer *issuer, const struct log *log);
void acme_state_unlock(struct acme_issuer *issuer);
/*
 * Text with a key and a chain goes to the zone. Where nodes share it, an older certificate does not
 * replace a newer one. False: it does not; *why is NULL where nothing is wrong with the text. On
 * the worker's own stack.
 */
bool acme_state_take(struct acme_certificate *certificate, struct arena *arena, struct str text,
                     const char **why);
/* What came from other nodes goes to the files. */
void acme_state_save_shared(struct acme_certificate *certificate, const struct log *log);
/*
 * What answers the challenge that is open; pair NULL: none is any more. Processes with another zone
 * that use the folder, those of the next binary above all, answer it, too.
 */
void acme_state_keep_challenge(struct acme_issuer *issuer, enum acme_challenge_type type,
                               struct str name, const struct acme_pair *pair);
/* That of another process goes to the zone, in place of the one that was read before. */
void acme_state_load_challenge(struct acme_issuer *issuer);
/* No other process has one any more. */
void acme_state_drop_challenge(struct acme_issuer *issuer);
bool acme_state_keep_account(struct acme_issuer *issuer, const struct acme_pair *pair,
                             const struct log *log);
void acme_state_save_account(struct acme_issuer *issuer, const struct log *log);
/* What the file of a certificate has goes to the zone, when it is newer. False: there is no file
 * that can be used. */
bool acme_state_load(struct acme_certificate *certificate, const struct log *log);
/* The account's key and URL go there, where there are any. False: they cannot be used; logged. */
bool acme_state_load_account(struct acme_issuer *issuer, const struct log *log);

/* ---- sync.c: what nodes share in a redis_store. Without one nothing is done, and the lock is had.
 * ---- */

/* False after conf_error. */
bool acme_sync_open(struct conf *conf, struct acme_main *main);
/* This node has made these: other nodes get them. */
void acme_sync_certificate(const struct acme_certificate *certificate);
void acme_sync_failure(const struct acme_certificate *certificate);
void acme_sync_account(const struct acme_issuer *issuer);
void acme_sync_challenge(const struct acme_main *main, enum acme_challenge_type type,
                         struct str name);
/* Waits until the store has them all. False: it does not. MAY WAIT. */
bool acme_sync_flush(const struct acme_main *main);
/* The same, and until the other nodes have read them. MAY WAIT. */
bool acme_sync_spread(const struct acme_main *main);
/* Of all nodes one orders at an issuer. Called again, it has the lock for longer. False: logged
 * once. MAY WAIT. */
bool acme_sync_lock(struct acme_issuer *issuer);
void acme_sync_unlock(struct acme_issuer *issuer);
/* Reads what the node that had the lock may have changed. MAY WAIT. */
void acme_sync_fetch(struct acme_issuer *issuer);

/* ---- url.c ---- */

struct acme_url {
    bool is_secure;
    struct str authority, host, target; /* target: path and query, "/" at least */
    uint16_t port;
};
/* https://…, or http:// where that is allowed; without user, fragment and odd bytes. False: it is
 * no such URL. */
bool acme_url_parse(struct str text, bool allows_plain, struct acme_url *out);

/* ---- answer.c: what a CA sends. Pure functions. ---- */

/* The fields of an answer that count. Slices of what was read. */
struct acme_answer {
    unsigned status;
    struct str location, nonce, retry_after, content_type;
    struct str alternates[ACME_CHAIN_MAX]; /* of Link with rel="alternate" */
    unsigned alternate_count;
    struct str body;
    size_t missing;  /* ACME_MORE: so many bytes at least have to come; 0: it is not known */
    bool is_chunked; /* ACME_MORE: the input has to end with a line */
};
enum acme_read { ACME_MORE, ACME_WHOLE, ACME_BAD };
/* One answer of HTTP/1.1 (RFC 9112), from its first byte; the body may be chunked. is_end: nothing
 * follows the input. */
enum acme_read acme_answer_read(struct arena *arena, struct str input, bool is_end, bool is_head,
                                struct acme_answer *out);
/* Letters, digits, "-" and "_", one at least: nonces, tokens, digests. */
bool acme_is_base64url(struct str text);
/* Retry-After (RFC 9110, 10.2.3) in seconds from now; 0: there is none. */
int64_t acme_retry_after(struct str value, int64_t now);
/* A time of RFC 3339, in seconds since the epoch. */
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
    const char *why; /* it failed */
};
/* Asks, over a connection of its own. False: there is no answer; logged. MAY WAIT. */
bool acme_fetch(const struct acme_issuer *issuer, struct arena *arena, struct acme_call *call);

/* ---- session.c: an account, and signed requests ---- */

/* What the CA refused. */
struct acme_problem {
    unsigned status;
    struct str type; /* without urn:ietf:params:acme:error: */
    struct str detail;
    int64_t retry_after_s; /* 0: it has not said */
};

/* Some orders in a row, with one account. */
struct acme_session {
    struct acme_issuer *issuer;
    const struct log *log;
    struct arena arena;      /* not for what the CA may send again and again */
    struct arena call_arena; /* of the last request and its answer: the next call frees it */
    struct str new_nonce, new_account, new_order, renewal_info; /* the directory's URLs */
    struct str terms;
    bool needs_external; /* externalAccountRequired */
    json_t *profiles;    /* borrowed of directory */
    json_t *directory;
    struct str nonce;
    EVP_PKEY *key; /* of the account */
    struct str key_pem;
    struct str jwk, thumbprint, kid;
    json_t *answer;              /* of the last call, or NULL */
    struct acme_answer got;      /* of the last call, in call_arena */
    struct acme_problem problem; /* of the last call that failed */
};

void acme_session_begin(struct acme_session *session, struct acme_issuer *issuer,
                        const struct log *log);
void acme_session_end(struct acme_session *session);
/* The directory and the account. False: logged; problem says when to try again. MAY WAIT. */
bool acme_session_open(struct acme_session *session);
/*
 * A signed request; nonces that the CA does not take are replaced. Empty payload: POST-as-GET.
 * False: logged, problem is filled. MAY WAIT.
 */
bool acme_post(struct acme_session *session, struct str url, struct str payload,
               const char *accept);
/* An unsigned GET of JSON. */
bool acme_get(struct acme_session *session, struct str url);
/* Runs a step on the worker's own stack, with its argument. */
bool acme_on_main(bool (*step)(void *arg), void *arg);
/* The account is not known any more: the next session makes one. */
void acme_forget_account(struct acme_session *session);

/* What the object `directory` of the session names. False: it is no directory of an ACME server. */
bool acme_directory_read(struct acme_session *session);

/* ---- objects.c: orders and authorizations of a CA (RFC 8555, 7.1) ---- */

/* A URL that the CA names, in the arena; empty: it is none that may be asked. */
struct str acme_url_of(struct arena *arena, const json_t *object, const char *name);

/* URLs of an order, in the arena. */
struct acme_order_urls {
    struct str order, finalize;
    struct vec authorizations; /* struct str */
};
/* location: where the CA has the order. False: the CA sent a malformed order. */
bool acme_order_read(struct arena *arena, const json_t *object, struct str location,
                     struct acme_order_urls *out);

/* What the CA wants to see for one identifier, in the arena. */
struct acme_authorization {
    struct acme_identifier identifier; /* without "*." */
    bool is_wildcard;
    struct str challenge_url, token; /* token empty: dns-persist-01 */
    struct str domain;               /* of dns-persist-01: of the CA */
};
/* Is it about a name of this certificate, with a challenge of this type? NULL, or why it cannot be
 * used. */
const char *acme_authorization_read(struct arena *arena, const json_t *object,
                                    const struct acme_certificate *certificate,
                                    enum acme_challenge_type type, struct acme_authorization *out);
/* The challenge of this type; NULL: there is none. */
const json_t *acme_find_challenge(const json_t *authorization, enum acme_challenge_type type);
/* A window that the CA suggests (RFC 9773, 4.2), in seconds since the epoch. False: there is none.
 */
bool acme_window_read(const json_t *object, int64_t *start, int64_t *end);

/* ---- order.c ---- */

/* Orders the certificate, and puts it where all find it. False: logged; session->problem. MAY WAIT.
 */
bool acme_order(struct acme_session *session, struct acme_certificate *certificate);
/* Asks when to renew (RFC 9773). MAY WAIT. */
void acme_ask_renewal(struct acme_session *session, struct acme_certificate *certificate);

/* ---- hook.c ---- */

/* One TXT record of dns-01. */
struct acme_record {
    struct str name;
    struct str value;
};
/* Has the hook add or remove it. False: logged. MAY WAIT. */
bool acme_hook_run(struct acme_issuer *issuer, struct arena *arena, const char *action,
                   const struct acme_record *record, const struct log *log);
/* Runs the program of this duty; gives an errno, or 0 with the duty's status and end. Waits for it,
 * two minutes at most. On a thread, or in a process of its own. */
int acme_hook_program(struct acme_issuer *issuer, struct acme_duty *duty);

/* ---- renewal.c: the process that orders ---- */

/* When a certificate is to be renewed, in seconds since the epoch. */
int64_t acme_due(const struct acme_certificate *certificate, const struct acme_facts *facts);
/* has_monitors: this process will give up the master's rights, and has monitors that keep them. */
bool acme_renewals_start(struct acme_main *main, bool has_monitors);
void acme_renewals_quit(struct acme_main *main, bool may_finish);
void acme_renewals_end(struct acme_main *main);

/* ---- generated.c ---- */

/* `ssl_certificate auto` stands for other lines. False after conf_error. */
bool acme_generate(struct conf *conf, struct http_main *main);

#endif
