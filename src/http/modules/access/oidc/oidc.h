/* Shared by the files of ngx_http_oidc_module. */
#ifndef HTTP_MODULES_ACCESS_OIDC_OIDC_H
#define HTTP_MODULES_ACCESS_OIDC_OIDC_H

#include "http/routing/settings.h"
#include "http/request/single_flight.h"
#include "shared/jose/token.h"
#include "shared/keyval/keyval.h"

struct request;

#define OIDC_ANSWER_MAX (256 * 1024) /* bytes of a provider's response */
#define OIDC_SESSION_MAX (64 * 1024) /* bytes of a stored session */
#define OIDC_LOGIN_S 600             /* time limit of a login */
#define OIDC_SKEW_S 10               /* accepted difference between clocks */
#define OIDC_METADATA_S 3600         /* how long the provider's metadata and keys are cached */
/* A failed request to a provider is not repeated for this long. */
#define OIDC_RETRY_MS 1000
#define OIDC_RANDOM 32 /* bytes of random secrets */
#define OIDC_TEXT 43   /* characters of these in base64url */

/* The provider's metadata (OpenID Connect Discovery, 3), and its keys. Reference-counted. */
struct oidc_metadata {
    unsigned references;
    struct arena arena;
    struct str authorization, token, userinfo, logout,
        keys_url;     /* endpoints; empty = not supported */
    bool has_s256;    /* supports PKCE with S256 */
    bool wants_post;  /* the client secret is sent in the body */
    bool says_issuer; /* authorization responses contain `iss` (RFC 9207) */
    struct jose_keys *keys;
    int64_t until; /* seconds since the epoch: requested again after this */
};

/* An oidc_provider block, filled by its rows. */
struct oidc_provider {
    struct str name;
    struct str issuer, client_id, client_secret, config_url, cookie_name, extra_args, redirect_uri;
    struct str logout_uri, post_logout_uri, frontchannel_uri, store_name, trusted, crl;
    struct vec scopes; /* struct str */
    uint64_t session_ms;
    bool hints_token, has_userinfo, pkce;
    bool is_pkce_set;                  /* else the metadata decide on PKCE */
    struct keyval_zone *store;         /* set after the configuration was read */
    unsigned char secret[OIDC_RANDOM]; /* the keys that encrypt states are derived from it */
    const struct conf_node *node;
    /* State of this worker. */
    struct oidc_metadata *metadata; /* or NULL */
    struct single_flight flight;
    uint64_t full_ms; /* when the log last reported that the store is full; clock_now.now_ms time */
    unsigned dropped; /* sessions removed for lack of space since then */
};

extern struct settings_key oidc_provider_key;
extern struct settings_key auth_oidc_key;

struct oidc_settings {
    struct template *provider;   /* name of the provider; "off" */
    const struct vec *providers; /* struct oidc_provider *: of this configuration */
};

/* The session of a request; in the request's arena. */
struct oidc_session {
    json_t *record; /* id_token, access_token, refresh_token, expires, claims, userinfo */
    struct str key; /* in the store */
};

/* The session of a request; NULL: none. */
struct oidc_session *oidc_session_of(struct request *request);

/* ---- generated.c ---- */

/* Generates configuration for oidc_provider blocks: a location in each server, a zone each. */
bool oidc_generate(struct conf *conf, struct http_main *main);
/* Is it a generated block? */
bool oidc_is_generated(const struct conf_node *node);

/* ---- asking.c ---- */

/* One request to a provider. */
struct oidc_question {
    struct str url;
    struct str body;          /* a form; data NULL: GET */
    struct str authorization; /* or empty */
    unsigned status;          /* of the response; 0: none */
    json_t *answer;           /* the JSON object of a response with status 200; else NULL */
};

/* Sends the request. False: the client is gone. Otherwise question->status and answer are set, or
 * the error was logged. The object lives as long as the request. MAY WAIT. */
bool oidc_ask(struct request *request, const struct oidc_provider *provider,
              struct oidc_question *question);
/* Gets the metadata for as long as the request lives; *out NULL: not available; logged.
 * HANDLER_NEXT, or HANDLER_CLOSED: the client is gone. MAY WAIT. */
enum handler_result oidc_metadata_of(struct request *request, struct oidc_provider *provider,
                                     const struct oidc_metadata **out);
/* Parses a provider's metadata, without its keys. NULL: unusable, with *why. The caller releases
 * it. On the worker's own stack. */
struct oidc_metadata *oidc_metadata_read(const struct oidc_provider *provider, const json_t *object,
                                         const char **why);
void oidc_metadata_release(void *metadata);
/* The get function of an internal variable: the URL that a subrequest has to request. */
bool oidc_request_url(struct variable_env *env, const struct variable *variable, struct str *out);

/* ---- session.c ---- */

/* A random string, and the digest by which a store has it. */
struct str oidc_random(struct arena *arena);
struct str oidc_store_key(struct arena *arena, const char *kind, struct str text);
/* Loads the session of the request's cookie; false: none. */
bool oidc_session_load(struct request *request, const struct oidc_provider *provider,
                       struct oidc_session *session);
/* Stores a record under its key: of a new session, or of an existing one. False: it no longer
 * exists, or the store is full, which was logged. */
bool oidc_session_store(struct request *request, struct oidc_provider *provider, struct str key,
                        const json_t *record, bool is_new);
void oidc_store_delete(struct oidc_provider *provider, struct str key);
/* Adds a Set-Cookie field; with Secure if the browser uses TLS. age_s: -1 = until the browser is
 * closed; 0 = delete. */
void oidc_set_cookie(struct request *request, const struct oidc_provider *provider, struct str name,
                     struct str value, int age_s);
/* Claims a key on all nodes that share the store, for this long or until it is released. False: it
 * is claimed. MAY WAIT. */
bool oidc_store_claim(struct oidc_provider *provider, struct str key, uint64_t ms);
void oidc_store_release(const struct oidc_provider *provider, struct str key);
bool oidc_store_get(struct request *request, const struct oidc_provider *provider, struct str key,
                    struct str *out);
/* Fetches what another node has written. False: the store is not shared. MAY WAIT. */
bool oidc_store_refresh(const struct oidc_provider *provider, struct str key);
bool oidc_store_put(struct oidc_provider *provider, struct str key, struct str value, uint64_t ms);

/* ---- eviction.c ---- */

/* Ends some of the sessions that began, or were renewed, longest ago. False: there are none. */
bool oidc_store_make_room(struct oidc_provider *provider);

/* ---- session.c ---- */

/* Parses a text to an object, for as long as the request lives; NULL: it is not one. */
json_t *oidc_object(struct request *request, struct str text);
/* The value of a claim of a record, as text for a variable. */
bool oidc_claim_text(struct variable_env *env, const json_t *record, struct str name,
                     struct str *out);
/* Serializes JSON in the arena. */
struct str oidc_dump(struct request *request, const json_t *value);

/* ---- state.c ---- */
/* Bytes of the URI that a login returns to; a longer one becomes "/". */

#define OIDC_URI_MAX 2048
#define OIDC_SALT_SIZE 16
#define OIDC_ID_SIZE 16 /* hexadecimal digits */

struct oidc_login_state {
    int64_t time; /* seconds since the epoch */
    char salt[OIDC_SALT_SIZE];
};

struct oidc_login {
    struct str id;     /* in the name of the cookie */
    struct str cookie; /* value of the browser's cookie */
    struct oidc_login_state state;
    struct str uri; /* where the browser is redirected after the login */
};

/* Encrypts the login to the argument `state`. */
struct str oidc_state_seal(struct arena *arena, const struct oidc_provider *provider,
                           const struct oidc_login *login);
/* Decrypts it, with the browser's cookie in *login. False: not made by this server for this cookie,
 * or too old. */
bool oidc_state_open(struct arena *arena, const struct oidc_provider *provider, struct str text,
                     struct oidc_login *login);
/* Derives a secret of the login that only this browser and this server can know: its nonce, its
 * PKCE verifier. */
struct str oidc_derive(struct arena *arena, const struct oidc_provider *provider, const char *what,
                       const struct oidc_login *login);
/* The URI, or "/" if it leads to another server. */
struct str oidc_local_uri(struct str uri);

/* ---- login.c ---- */

/* Redirects the browser to the provider. MAY WAIT. */
enum handler_result oidc_login(struct request *request, struct oidc_provider *provider);
/* Handles the browser's return. MAY WAIT. */
enum handler_result oidc_callback(struct request *request, struct oidc_provider *provider);
/* Prefixes a relative URI with http://host:port. */
struct str oidc_absolute(struct request *request, struct str uri);
struct str oidc_escape(struct request *request, struct str text);

/* ---- tokens.c ---- */

/* A request to the token endpoint, and its result. */
struct oidc_token_question {
    struct oidc_provider *provider;
    const struct oidc_metadata *metadata;
    struct str form;
    struct str nonce;     /* of the login; data NULL: renews `former` */
    const json_t *former; /* the current record; or NULL */
    json_t *record;       /* of the session; lives as long as the request. NULL: rejected; logged */
    unsigned status;      /* of the response; 0: none */
};

/* Are these the claims of the requested ID token (OpenID Connect Core, 3.1.3.7)? NULL, or an error
 * message. On the worker's own stack. */
const char *oidc_claims_judge(const struct oidc_token_question *asked,
                              const struct jose_token *token);
/* HANDLER_CLOSED: the client is gone; else HANDLER_NEXT. MAY WAIT. */
enum handler_result oidc_tokens(struct request *request, struct oidc_token_question *asked);

/* ---- logout.c ---- */

enum handler_result oidc_logout(struct request *request, struct oidc_provider *provider);
enum handler_result oidc_frontchannel(struct request *request, struct oidc_provider *provider);
/* Stores under which `sid` of the provider a session can be found. */
void oidc_remember_sid(struct oidc_provider *provider, struct request *request,
                       const json_t *record, struct str key);

/* ---- check.c ---- */

enum handler_result oidc_check(struct request *request);
struct vec *oidc_providers(struct conf *conf); /* struct oidc_provider * */

#endif
