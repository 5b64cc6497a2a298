/* ngx_http_oidc_module: a login with an OpenID provider (OpenID Connect Core 1.0). */
#include "base/checksum.h"
#include "http/modules/access/oidc/oidc.h"
#include "http/routing/hooks.h"
#include "http/variables/variables.h"
#include "server/module.h"

struct settings_key oidc_provider_key;
struct settings_key auth_oidc_key;

/* ---- blocks of providers ---- */

static struct oidc_provider *find_provider(struct conf *conf, struct str name)
{
    vec_each(struct oidc_provider *, provider, oidc_providers(conf)) {
        if (str_equal((*provider)->name, name)) {
            return *provider;
        }
    }
    return NULL;
}

/* Derives a secret that is the same in all workers, after a reload, and on other nodes, so that a
 * login may end on another one than it began; without client_secret it is valid only in this
 * process and its workers. */
static void make_secret(struct conf *conf, struct oidc_provider *provider)
{
    static unsigned char own[OIDC_RANDOM];
    static bool is_made;
    struct str key = provider->client_secret;
    const struct str parts[] = {STR("portunus oidc state"), STR("\n"), provider->issuer, STR("\n"),
                                provider->client_id};

    if (!is_made) {
        random_bytes(own, sizeof(own));
        is_made = true;
    }
    if (key.len == 0) {
        key = (struct str){(const char *) own, sizeof(own)};
    }
    hmac_sha256_of(conf->arena, key, arena_join(conf->arena, parts, 5), provider->secret);
}

static bool provider_enter(struct conf_scope *scope, const struct directive *row,
                           struct conf_node *node, void *settings)
{
    struct conf *conf = scope->conf;
    struct str name = node->args[1];

    for (size_t i = 0; i < name.len; i++) {
        if ((unsigned char) name.data[i] <= ' ' || strchr("\"\\$\177", name.data[i]) != NULL) {
            return conf_error(conf, node, "invalid name of oidc_provider \"%.*s\"", STR_ARG(name));
        }
    }
    if (name.len == 0 || find_provider(conf, name) != NULL) {
        return conf_error(conf, node, "duplicate oidc_provider \"%.*s\"", STR_ARG(name));
    }
    struct conf_scope *inner = conf_enter(scope, node, IN_OIDC_PROVIDER, NULL, NULL);
    if (inner == NULL) {
        return false;
    }
    struct oidc_provider *provider = conf_settings(inner, &oidc_provider_key);
    provider->name = name;
    provider->node = node;
    if (provider->issuer.len == 0 || provider->client_id.len == 0) {
        return conf_error(conf, node, "oidc_provider \"%.*s\" has no \"%s\"", STR_ARG(name),
                          provider->issuer.len == 0 ? "issuer" : "client_id");
    }
    if (provider->config_url.len == 0) {
        struct str issuer = provider->issuer;
        issuer.len -= str_ends(issuer, STR("/"));
        provider->config_url =
            arena_concat(conf->arena, issuer, STR("/.well-known/openid-configuration"));
    }
    provider->is_pkce_set = conf_is_set(inner, &oidc_provider_key, "pkce");
    make_secret(conf, provider);
    single_flight_init(&provider->flight);
    *vec_add(oidc_providers(conf), conf->arena, struct oidc_provider *) = provider;
    return true;
}

#define S struct oidc_provider
static const struct directive provider_rows[] = {
    {"issuer", IN_OIDC_PROVIDER, STRING(S, issuer), .syntax = "URL",
     .doc = "Issuer identifier of the provider. It must be exactly the issuer of the "
            "provider's metadata and of ID tokens."},
    {"client_id", IN_OIDC_PROVIDER, STRING(S, client_id), .syntax = "string",
     .doc = "Client ID with which this server is registered at the provider."},
    {"client_secret", IN_OIDC_PROVIDER, STRING(S, client_secret), .syntax = "string",
     .doc = "Client secret that belongs to `client_id`; without one the client is a public "
            "client."},
    {"config_url", IN_OIDC_PROVIDER, STRING(S, config_url), .syntax = "URL",
     .doc = "URL of the provider's metadata; by default `/.well-known/openid-configuration` "
            "below the issuer. The metadata and the keys are cached for an hour."},
    {"cookie_name", IN_OIDC_PROVIDER, STRING(S, cookie_name), .initial = "NGX_OIDC_SESSION",
     .syntax = "name",
     .doc = "Name of the session cookie; the name of the cookie of a login has `_LOGIN_` "
            "and a random number appended."},
    {"extra_auth_args", IN_OIDC_PROVIDER, STRING(S, extra_args), .syntax = "string",
     .doc = "Additional arguments of the authentication request, used as they are: "
            "`display=page&prompt=login`."},
    {"frontchannel_logout_uri", IN_OIDC_PROVIDER, STRING(S, frontchannel_uri), .syntax = "uri",
     .doc = "URI that pages of the provider load when a user logs out there: with the "
            "arguments `iss` and `sid` that session ends, otherwise the session of the "
            "cookie."},
    {"logout_token_hint", IN_OIDC_PROVIDER, FLAG(S, hints_token), .initial = "off",
     .doc = "Whether the ID token is sent to the provider at logout (id_token_hint)."},
    {"logout_uri", IN_OIDC_PROVIDER, STRING(S, logout_uri), .syntax = "uri",
     .doc = "URI that ends the session when it is requested, on this server and, if the "
            "provider supports it, at the provider."},
    {"pkce", IN_OIDC_PROVIDER, FLAG(S, pkce),
     .doc = "Whether PKCE (RFC 7636) is used; by default it is if the provider's metadata "
            "contain S256."},
    {"post_logout_uri", IN_OIDC_PROVIDER, STRING(S, post_logout_uri), .syntax = "uri",
     .doc = "URI to which browsers are redirected after logout; it must be registered at "
            "the provider."},
    {"redirect_uri", IN_OIDC_PROVIDER, STRING(S, redirect_uri), .initial = "/oidc_callback",
     .syntax = "uri",
     .doc = "URI to which the provider redirects browsers after login: a path of the "
            "server, or a complete URL."},
    {"scope", IN_OIDC_PROVIDER, STRINGS(S, scopes), .initial = "openid", .syntax = "scope ...",
     .doc = "Requested scopes; they must include `openid`."},
    {"session_store", IN_OIDC_PROVIDER, STRING(S, store_name), .syntax = "name",
     .doc = "Name of the `keyval_zone` that stores sessions; by default a separate zone of "
            "8m, `oidc_default_store_NAME`."},
    {"session_timeout", IN_OIDC_PROVIDER, MSEC(S, session_ms), .initial = "8h",
     .doc = "Lifetime of a session; it starts again when tokens are refreshed."},
    {"ssl_crl", IN_OIDC_PROVIDER, STRING(S, crl), .syntax = "file",
     .doc = "PEM file with certificate revocation lists (CRLs) for the provider's "
            "certificate."},
    {"ssl_trusted_certificate", IN_OIDC_PROVIDER, STRING(S, trusted), .syntax = "file",
     .doc = "PEM file with the trusted CA certificates that the provider's certificate is "
            "verified with; by default those of the system."},
    {"userinfo", IN_OIDC_PROVIDER, FLAG(S, has_userinfo), .initial = "off",
     .doc = "Whether the userinfo endpoint is queried, for `$oidc_userinfo` and for claims "
            "that the ID token does not contain."},
    {0},
};
#undef S

static const struct directive_table provider_table = {
    .key = &oidc_provider_key,
    .rows = provider_rows,
    .contexts = IN_OIDC_PROVIDER,
    .size = sizeof(struct oidc_provider),
};

/* ---- auth_oidc ---- */

/* A constant provider name in a directive: resolved after the configuration was read. */
struct used_name {
    struct str name;
    const struct conf_node *node;
};

static struct vec *used_names(struct conf *conf)
{
    return conf_state(conf, "auth_oidc", sizeof(struct vec));
}

static bool auth_oidc_apply(struct conf_scope *scope, const struct directive *row,
                            struct conf_node *node, void *arg)
{
    struct oidc_settings *settings = arg;
    struct conf *conf = scope->conf;

    settings->providers = oidc_providers(conf);
    if (settings->provider->is_constant && !str_is(settings->provider->constant, "off")) {
        *vec_add(used_names(conf), conf->arena, struct used_name) =
            (struct used_name){settings->provider->constant, node};
    }
    return true;
}

static const struct directive oidc_rows[] = {
    {"auth_oidc", IN_HTTP_ALL, TEMPLATE(struct oidc_settings, provider), .apply = auth_oidc_apply,
     .initial = "off", .syntax = "name | off",
     .doc = "Allows browsers that are logged in with this provider, and redirects others to "
            "it. The URIs of the provider's block, such as `redirect_uri`, are handled "
            "wherever this is set."},
    {"oidc_provider", IN_HTTP, BLOCK(provider_enter), ARGS(1, 1), .repeat = REPEAT_CUSTOM,
     .syntax = "name", .doc = "Defines an OpenID provider and this server's registration at it."},
    {0},
};

static bool oidc_finish(struct conf_scope *scope, void *settings)
{
    if (scope->context == IN_LOCATION) {
        scope_location(scope)->is_bare = oidc_is_generated(scope->node);
    }
    return true;
}

static const struct directive_table oidc_table = {
    .key = &auth_oidc_key,
    .rows = oidc_rows,
    .contexts = IN_HTTP_LOCATION_SETTINGS,
    .size = sizeof(struct oidc_settings),
    .finish = oidc_finish,
};
static const struct directive_table *const oidc_tables[] = {&oidc_table, &provider_table, NULL};

static bool find_store(struct conf *conf, struct oidc_provider *provider)
{
    struct str name = provider->store_name.len != 0
                          ? provider->store_name
                          : arena_concat(conf->arena, STR("oidc_default_store_"), provider->name);

    for (struct keyval_zone *zone = keyval_zones_of(conf, &keyval_http); zone != NULL;
         zone = zone->next) {
        if (zone->store != NULL && str_equal(zone->zone->name, name)) {
            provider->store = zone;
        }
    }
    return provider->store != NULL ||
           conf_error(conf, provider->node, "there is no \"keyval_zone\" \"%.*s\"", STR_ARG(name));
}

static bool oidc_end(struct conf *conf, struct http_main *main)
{
    bool is_sound = true;

    vec_each(struct oidc_provider *, provider, oidc_providers(conf)) {
        is_sound = find_store(conf, *provider) && is_sound;
    }
    vec_each(const struct used_name, used, used_names(conf)) {
        if (find_provider(conf, used->name) == NULL) {
            is_sound = conf_error(conf, used->node, "there is no oidc_provider \"%.*s\"",
                                  STR_ARG(used->name));
        }
    }
    return is_sound;
}

static bool is_active(const struct http_location *location)
{
    const struct oidc_settings *settings = location_settings(location, &auth_oidc_key);

    return realm_may_be_on(settings->provider);
}

static void worker_end(struct generation *generation)
{
    vec_each(struct oidc_provider *, provider, oidc_providers(&generation->conf)) {
        oidc_metadata_release((*provider)->metadata);
        (*provider)->metadata = NULL;
    }
}

/* ---- variables ---- */

static bool get_claim(struct variable_env *env, const struct variable *variable, struct str *out)
{
    const struct oidc_session *session = oidc_session_of(variable_request(env));

    return oidc_claim_text(env, session->record, variable->rest, out);
}

static bool get_token(struct variable_env *env, const struct variable *variable, struct str *out)
{
    const struct oidc_session *session = oidc_session_of(variable_request(env));

    *out = jose_string(session->record, (const char *) variable->data);
    return out->len != 0;
}

static bool get_userinfo(struct variable_env *env, const struct variable *variable, struct str *out)
{
    struct request *request = variable_request(env);
    const json_t *userinfo = json_object_get(oidc_session_of(request)->record, "userinfo");

    if (userinfo == NULL) {
        return false;
    }
    *out = oidc_dump(request, userinfo);
    return true;
}

static const struct variable oidc_variables[] = {
    {.name = STR_INIT("oidc_claim_"),
     .doc = "Claim of the user who is logged in: from the ID token or, if it does not "
            "contain the claim, from userinfo.",
     .get = get_claim,
     .flags = VARIABLE_PREFIX | VARIABLE_VOLATILE},
    {.name = STR_INIT("oidc_id_token"),
     .doc = "The ID token.",
     .get = get_token,
     .data = (uintptr_t) "id_token",
     .flags = VARIABLE_VOLATILE},
    {.name = STR_INIT("oidc_access_token"),
     .doc = "The access token.",
     .get = get_token,
     .data = (uintptr_t) "access_token",
     .flags = VARIABLE_VOLATILE},
    {.name = STR_INIT("oidc_userinfo"),
     .doc = "Response of the userinfo endpoint, as JSON.",
     .get = get_userinfo,
     .flags = VARIABLE_VOLATILE},
    {.name = STR_INIT("oidc_request_url"),
     .doc = "URL of the provider that a subrequest is sent to; internal.",
     .get = oidc_request_url,
     .flags = VARIABLE_VOLATILE},
    {.name = {NULL, 0}},
};

static const struct phase_hook oidc_phases[] = {
    {.phase = PHASE_ACCESS, .name = "oidc", .run = oidc_check, .is_active = is_active},
    {.run = NULL},
};
static const struct http_module oidc_hooks = {
    .variables = oidc_variables,
    .phases = oidc_phases,
    .begin = oidc_generate,
    .end = oidc_end,
};

const struct module ngx_http_oidc_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_http_oidc_module",
    .kind = MODULE_HTTP,
    .tables = oidc_tables,
    .hooks = &oidc_hooks,
    .worker_end = worker_end,
};
