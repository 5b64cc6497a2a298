/* Inside ngx_http_oidc_module: what its files share. */
#ifndef HTTP_MODULES_ACCESS_OIDC_OIDC_H
#define HTTP_MODULES_ACCESS_OIDC_OIDC_H

#include "http/request/request.h"
#include "http/request/single_flight.h"
#include "shared/jose/token.h"
#include "shared/keyval/keyval.h"

#define OIDC_ANSWER_MAX (256 * 1024) /* bytes of a provider's answer */
#define OIDC_SESSION_MAX (64 * 1024) /* bytes of a session in the store */
#define OIDC_LOGIN_S 600             /* how long a login may take */
#define OIDC_SKEW_S 10               /* how far clocks may differ */
#define OIDC_METADATA_S 3600         /* the provider's metadata and keys are kept for so long */
#define OIDC_RETRY_MS 1000           /* a provider that failed is not asked again for so long */
#define OIDC_RANDOM 32               /* bytes of what nobody may guess */
#define OIDC_TEXT 43                 /* characters of the same as base64url */

/* The provider's metadata (OpenID Connect Discovery, 3), and its keys. Counted references. */
struct oidc_metadata {
    unsigned references;
    struct arena arena;
    struct str authorization, token, userinfo, logout, keys_url; /* endpoints; empty: none */
    bool has_s256;                                               /* PKCE with S256 */
    bool wants_post;  /* the client's secret goes into the body */
    bool says_issuer; /* authorization responses have `iss` (RFC 9207) */
    struct jose_keys *keys;
    int64_t until; /* seconds since the epoch: it is asked for again then */
};

/* An oidc_provider block, filled by its rows. */
struct oidc_provider {
    struct str name;
    struct str issuer, client_id, client_secret, config_url, cookie_name, extra_args, redirect_uri;
    struct str logout_uri, post_logout_uri, frontchannel_uri, store_name, trusted, crl;
    struct vec scopes; /* struct str */
    uint64_t session_ms;
    bool hints_token, has_userinfo, pkce;
    bool is_pkce_set;                  /* else the metadata say whether there is PKCE */
    struct keyval_zone *store;         /* when all is read */
    unsigned char secret[OIDC_RANDOM]; /* states are encrypted with what follows from it */
    const struct conf_node *node;
    /* Of this worker. */
    struct oidc_metadata *metadata; /* or NULL */
    struct single_flight flight;
    uint64_t full_ms; /* when the log said last that the store is full; clock_now.now_ms time */
    unsigned dropped; /* sessions for want of room since then */
};

extern struct settings_key oidc_provider_key;
extern struct settings_key auth_oidc_key;

struct oidc_settings {
    struct template *provider;   /* its name; "off" */
    const struct vec *providers; /* struct oidc_provider *: of this reading */
};

/* Who is logged in; in the request's arena. */
struct oidc_session {
    json_t *record; /* id_token, access_token, refresh_token, expires, claims, userinfo */
    struct str key; /* in the store */
};

/* The session of a request, NULL: there is none. */
struct oidc_session *oidc_session_of(struct request *request);

/* ---- generated.c ---- */

/* What blocks of providers need of the configuration: a location in each server, a zone each. */
bool oidc_generate(struct conf *conf, struct http_main *main);
/* Is it a block of this configuration? */
bool oidc_is_generated(const struct conf_node *node);

/* ---- asking.c ---- */

/* One question to a provider. */
struct oidc_question {
    struct str url;
    struct str body;          /* a form; data NULL: GET */
    struct str authorization; /* or empty */
    unsigned status;          /* of the answer; 0: there is none */
    json_t *answer;           /* the object that came with status 200; else NULL */
};

/* Asks. False: the client is gone; the question is answered else, or what went wrong was logged.
 * The object lives as long as the request. MAY WAIT. */
bool oidc_ask(struct request *request, const struct oidc_provider *provider,
              struct oidc_question *question);
/* The metadata for as long as the request lives; NULL: they cannot be had; logged. HANDLER_NEXT, or
 * HANDLER_CLOSED: the client is gone. MAY WAIT. */
enum handler_result oidc_metadata_of(struct request *request, struct oidc_provider *provider,
                                     const struct oidc_metadata **out);
/* What a provider says of itself, without its keys. NULL: it cannot be used, with *why. The caller
 * releases it. On the worker's own stack. */
struct oidc_metadata *oidc_metadata_read(const struct oidc_provider *provider, const json_t *object,
                                         const char **why);
void oidc_metadata_release(void *metadata);
/* Its value of a variable inside: the URL of the question that a subrequest asks. */
bool oidc_request_url(struct variable_env *env, const struct variable *variable, struct str *out);

/* ---- session.c ---- */

/* A random text, and the digest under which a store has it. */
struct str oidc_random(struct arena *arena);
struct str oidc_store_key(struct arena *arena, const char *kind, struct str text);
/* The session that the request's cookie names; false: none. */
bool oidc_session_load(struct request *request, const struct oidc_provider *provider,
                       struct oidc_session *session);
/* Writes a record under its key: of a session that begins, or of one that is there. False: it is
 * there no more, or there is no room, which was logged. */
bool oidc_session_store(struct request *request, struct oidc_provider *provider, struct str key,
                        const json_t *record, bool is_new);
void oidc_store_delete(struct oidc_provider *provider, struct str key);
/* Adds a cookie of this browser; for TLS alone where the browser uses it. age_s: -1 = until it
 * closes; 0 = it goes. */
void oidc_set_cookie(struct request *request, const struct oidc_provider *provider, struct str name,
                     struct str value, int age_s);
/* Is the key free, on all nodes that share the store? Then it is taken for so long, or until it is
 * released. MAY WAIT. */
bool oidc_store_claim(struct oidc_provider *provider, struct str key, uint64_t ms);
void oidc_store_release(const struct oidc_provider *provider, struct str key);
bool oidc_store_get(struct request *request, const struct oidc_provider *provider, struct str key,
                    struct str *out);
/* What another node has written comes here now. False: no other node has the store. MAY WAIT. */
bool oidc_store_refresh(const struct oidc_provider *provider, struct str key);
bool oidc_store_put(struct oidc_provider *provider, struct str key, struct str value, uint64_t ms);

/* ---- room.c ---- */

/* Some of the sessions that began, or were renewed, longest ago end. False: there are none. */
bool oidc_store_make_room(struct oidc_provider *provider);

/* ---- session.c ---- */

/* The object that a text is, for as long as the request lives; NULL: none. */
json_t *oidc_object(struct request *request, struct str text);
/* A claim of a record by its name, as the text of a variable. */
bool oidc_claim_text(struct variable_env *env, const json_t *record, struct str name,
                     struct str *out);
/* JSON as text in the arena. */
struct str oidc_dump(struct request *request, const json_t *value);

/* ---- state.c ---- */

#define OIDC_URI_MAX 2048 /* bytes of a URI that a login leads back to; a longer one: "/" */
#define OIDC_SALT_SIZE 16
#define OIDC_ID_SIZE 16 /* hexadecimal digits */

struct oidc_login_state {
    int64_t time; /* seconds since the epoch */
    char salt[OIDC_SALT_SIZE];
};

struct oidc_login {
    struct str id;     /* of the cookie */
    struct str cookie; /* of the browser */
    struct oidc_login_state state;
    struct str uri; /* where the browser is sent afterwards */
};

/* The login as the argument `state`. */
struct str oidc_state_seal(struct arena *arena, const struct oidc_provider *provider,
                           const struct oidc_login *login);
/* The same back, with the cookie of the browser in *login. False: this server has not made it for
 * this cookie, or too long ago. */
bool oidc_state_open(struct arena *arena, const struct oidc_provider *provider, struct str text,
                     struct oidc_login *login);
/* What only this browser and this server can know of a login: its nonce, its verifier of PKCE. */
struct str oidc_derive(struct arena *arena, const struct oidc_provider *provider, const char *what,
                       const struct oidc_login *login);
/* The URI, or "/" where it leads to another server. */
struct str oidc_local_uri(struct str uri);

/* ---- login.c ---- */

/* Sends the browser to the provider. MAY WAIT. */
enum handler_result oidc_login(struct request *request, struct oidc_provider *provider);
/* The browser comes back. MAY WAIT. */
enum handler_result oidc_callback(struct request *request, struct oidc_provider *provider);
/* http://host:port + uri, where it is not absolute. */
struct str oidc_absolute(struct request *request, struct str uri);
struct str oidc_escape(struct request *request, struct str text);

/* ---- tokens.c ---- */

/* A question to the token endpoint, and what came of it. */
struct oidc_token_question {
    struct oidc_provider *provider;
    const struct oidc_metadata *metadata;
    struct str form;
    struct str nonce;     /* of the login; data NULL: a renewal of `former` */
    const json_t *former; /* the record that there was; or NULL */
    json_t *record; /* of the session; lives as long as the request. NULL: it was refused; logged */
    unsigned status; /* of the answer; 0: there was none */
};

/* Are these the claims of an ID token that was asked for (OpenID Connect Core, 3.1.3.7)? NULL, or
 * why not. On the worker's own stack. */
const char *oidc_claims_judge(const struct oidc_token_question *asked,
                              const struct jose_token *token);
/* HANDLER_CLOSED: the client is gone; else HANDLER_NEXT. MAY WAIT. */
enum handler_result oidc_tokens(struct request *request, struct oidc_token_question *asked);

/* ---- logout.c ---- */

enum handler_result oidc_logout(struct request *request, struct oidc_provider *provider);
enum handler_result oidc_frontchannel(struct request *request, struct oidc_provider *provider);
/* A session can be found by what the provider calls it. */
void oidc_remember_sid(struct oidc_provider *provider, struct request *request,
                       const json_t *record, struct str key);

/* ---- check.c ---- */

enum handler_result oidc_check(struct request *request);
struct vec *oidc_providers(struct conf *conf); /* struct oidc_provider * */

#endif
