/* Shared by the files of ngx_http_auth_jwt_module. */
#ifndef HTTP_MODULES_ACCESS_AUTH_JWT_AUTH_JWT_H
#define HTTP_MODULES_ACCESS_AUTH_JWT_AUTH_JWT_H

#include "http/routing/settings.h"
#include "shared/jose/token.h"

struct request;

/* A source of keys: auth_jwt_key_file or auth_jwt_key_request. */
struct key_source {
    bool is_request;
    struct template *text; /* full path, or URI */
};

/* One auth_jwt_require directive. */
struct jwt_require {
    struct vec values; /* struct template * */
    unsigned status;   /* if one of the values is empty, "0" or "false" */
};

struct jwt_settings {
    struct template *realm; /* "off" = no token is required */
    struct template *token; /* the variable with the token; NULL: the field Authorization */
    struct vec sources;     /* struct key_source */
    struct vec requires;    /* struct jwt_require */
    uint64_t key_cache_ms;
    uint64_t leeway_s;
    unsigned form; /* an enum jose_form */
};

extern struct settings_key auth_jwt_key;

static inline const struct jwt_settings *jwt_settings_at(const struct http_location *location)
{
    return location_settings(location, &auth_jwt_key);
}

/* State of a request's token; kept in the main request. */
struct jwt_state {
    enum { JWT_UNCHECKED, JWT_ACCEPTED, JWT_REFUSED } outcome;
    struct jose_token *token; /* with ACCEPTED; a reference of the request */
    struct jose_token
        *unverified; /* with UNCHECKED: for variables before the access phase; or NULL */
    bool was_read;   /* `unverified` was determined */
};

/* ---- check.c ---- */

struct jwt_state *jwt_state_of(struct request *request);
/* Gets the text of the token. False: there is none. */
bool jwt_text(struct request *request, const struct jwt_settings *settings, struct str *out);
/* The access phase. MAY WAIT. */
enum handler_result jwt_check(struct request *request);

/* ---- keys.c ---- */

#define KEYS_RETRY_MS 1000 /* a failed request for keys is not repeated for this long */
/* Nor is one repeated this soon because a token names an unknown key. */
#define KEYS_RENEW_MS 5000

/* Gets the key set of a source; valid as long as the request. HANDLER_NEXT: *out is set; otherwise
 * the result of the phase, and the reason was logged. MAY WAIT. */
enum handler_result jwt_keys_of(struct request *request, const struct key_source *source,
                                uint64_t cache_ms, const struct jose_keys **out);
/* Called if a token names a key that no set has: requests sets of these sources again if they are
 * old enough. HANDLER_CLOSED: the client is gone. MAY WAIT. */
enum handler_result jwt_keys_renew(struct request *request, const struct vec *sources,
                                   uint64_t cache_ms, bool *is_newer);
/* Frees all cached sets when the worker ends. */
void jwt_keys_forget(void);

/* ---- tokens.c ---- */

#define TOKENS_MAX 8192                    /* verified tokens that a worker caches */
#define TOKENS_BYTES_MAX (8 * 1024 * 1024) /* their total memory */

#define TOKEN_DIGEST_SIZE 32
/* The cache key of a token: SHA-256 of its form, the number of key sets and their numbers, and its
 * text. */
void jwt_digest(const struct jose_check *check, unsigned char digest[TOKEN_DIGEST_SIZE]);
/* Finds a cached token, as a new reference; or NULL. */
struct jose_token *jwt_token_find(const unsigned char digest[TOKEN_DIGEST_SIZE]);
/* Caches a token. `size`: bytes of its text. */
void jwt_token_keep(const unsigned char digest[TOKEN_DIGEST_SIZE], struct jose_token *token,
                    size_t size);
void jwt_tokens_forget(void);

/* ---- variables.c ---- */

extern const struct variable jwt_variables[];
/* Apply functions of auth_jwt_claim_set and auth_jwt_header_set. */
bool jwt_claim_set_apply(struct conf_scope *scope, const struct directive *row,
                         struct conf_node *node, void *settings);
bool jwt_header_set_apply(struct conf_scope *scope, const struct directive *row,
                          struct conf_node *node, void *settings);

#endif
