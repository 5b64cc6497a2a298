/* Inside ngx_http_auth_jwt_module: what its files share. */
#ifndef HTTP_MODULES_ACCESS_AUTH_JWT_AUTH_JWT_H
#define HTTP_MODULES_ACCESS_AUTH_JWT_AUTH_JWT_H

#include "http/request/request.h"
#include "shared/jose/token.h"

/* Where keys are from: a line of auth_jwt_key_file or auth_jwt_key_request. */
struct key_source {
    bool is_request;
    struct template *text; /* full path, or URI */
};

/* An auth_jwt_require line. */
struct jwt_require {
    struct vec values; /* struct template * */
    unsigned status;   /* where one of them is empty, "0" or "false" */
};

struct jwt_settings {
    struct template *realm; /* "off" = no token is asked for */
    struct template *token; /* where the token is; NULL: in the field Authorization */
    struct vec sources;     /* struct key_source */
    struct vec requires;    /* struct jwt_require */
    uint64_t key_cache_ms;
    uint64_t leeway_s;
    unsigned form; /* enum jose_form */
};

extern struct settings_key auth_jwt_key;

static inline const struct jwt_settings *jwt_settings_at(const struct http_location *location)
{
    return location_settings(location, &auth_jwt_key);
}

/* What is known of a request's token; of the main request. */
struct jwt_state {
    enum { JWT_UNCHECKED, JWT_ACCEPTED, JWT_REFUSED } outcome;
    struct jose_token *token;      /* ACCEPTED; the request's reference */
    struct jose_token *unverified; /* UNCHECKED: for variables before the access phase; or NULL */
    bool was_read;                 /* `unverified` was looked for */
};

/* ---- check.c ---- */

struct jwt_state *jwt_state_of(struct request *request);
/* The text of the token. False: there is none. */
bool jwt_text(struct request *request, const struct jwt_settings *settings, struct str *out);
/* The access phase. MAY WAIT. */
enum handler_result jwt_check(struct request *request);

/* ---- keys.c ---- */

#define KEYS_RETRY_MS 1000 /* a key server that failed is not asked again for so long */
#define KEYS_RENEW_MS                                                                              \
    5000 /* nor is one asked so soon again for a token with a key that its set lacks */

/*
 * The key set of a source, for as long as the request lives. HANDLER_NEXT: here it is; else what
 * the phase returns; the reason was logged. MAY WAIT.
 */
enum handler_result jwt_keys_of(struct request *request, const struct key_source *source,
                                uint64_t cache_ms, const struct jose_keys **out);
/* A token names a key that no set has: kept sets of these sources that are old enough are asked for
 * again. HANDLER_CLOSED: the client is gone. MAY WAIT. */
enum handler_result jwt_keys_renew(struct request *request, const struct vec *sources,
                                   uint64_t cache_ms, bool *is_newer);
/* This worker ends: nothing is kept any more. */
void jwt_keys_forget(void);

/* ---- tokens.c ---- */

#define TOKENS_MAX 8192                    /* verified tokens that a worker keeps */
#define TOKENS_BYTES_MAX (8 * 1024 * 1024) /* memory that these take together */

#define TOKEN_DIGEST_SIZE 32
/* By what a token is found: SHA-256 of its form, of the numbers of the sets and how many
 * they are, and of it. */
void jwt_digest(const struct jose_check *check, unsigned char digest[TOKEN_DIGEST_SIZE]);
/* The token that was kept under it, as a new reference; or NULL. */
struct jose_token *jwt_token_find(const unsigned char digest[TOKEN_DIGEST_SIZE]);
/* `size`: bytes of its text. */
void jwt_token_keep(const unsigned char digest[TOKEN_DIGEST_SIZE], struct jose_token *token,
                    size_t size);
void jwt_tokens_forget(void);

/* ---- variables.c ---- */

extern const struct variable jwt_variables[];
/* auth_jwt_claim_set and auth_jwt_header_set. */
bool jwt_claim_set_apply(struct conf_scope *scope, const struct directive *row,
                         struct conf_node *node, void *settings);
bool jwt_header_set_apply(struct conf_scope *scope, const struct directive *row,
                          struct conf_node *node, void *settings);

#endif
