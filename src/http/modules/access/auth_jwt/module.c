/* ngx_http_auth_jwt_module: access with a JSON Web Token (RFC 7519). */
#include "http/modules/access/auth_jwt/auth_jwt.h"
#include "http/routing/hooks.h"
#include "http/variables/variables.h"
#include "server/module.h"

struct settings_key auth_jwt_key;

/* ---- directives ---- */

/* auth_jwt REALM [token=$variable]; */
static bool auth_jwt_apply(struct conf_scope *scope, const struct directive *row,
                           struct conf_node *node, void *arg)
{
    struct jwt_settings *settings = arg;
    struct conf *conf = scope->conf;
    const struct str prefix = STR("token=");

    settings->realm = template_compile(conf, node, node->args[1]);
    settings->token = NULL;
    if (settings->realm == NULL) {
        return false;
    }
    if (node->count == 3) {
        struct str word = node->args[2];
        if (!str_starts(word, prefix) || word.len == prefix.len) {
            return conf_error(conf, node, "invalid parameter \"%.*s\"", STR_ARG(word));
        }
        settings->token = template_compile(conf, node, str_skip(word, prefix.len));
        return settings->token != NULL;
    }
    return true;
}

/* The first source in a block, of either kind, replaces the inherited ones. */
static bool add_source(struct conf_scope *scope, struct conf_node *node,
                       struct jwt_settings *settings, bool is_request)
{
    bool is_first = !conf_is_set(scope, &auth_jwt_key, "auth_jwt_key_file") &&
                    !conf_is_set(scope, &auth_jwt_key, "auth_jwt_key_request");
    struct template *text = template_compile(scope->conf, node, node->args[1]);

    if (text == NULL) {
        return false;
    }
    if (!is_request) {
        template_make_path(text, scope->conf->arena, scope->conf->conf_prefix);
    }
    settings->sources =
        is_first ? (struct vec){.items = NULL}
                 : vec_copy(&settings->sources, scope->conf->arena, sizeof(struct key_source));
    *vec_add(&settings->sources, scope->conf->arena, struct key_source) =
        (struct key_source){.is_request = is_request, .text = text};
    return true;
}

static bool key_file_apply(struct conf_scope *scope, const struct directive *row,
                           struct conf_node *node, void *settings)
{
    return add_source(scope, node, settings, false);
}

static bool key_request_apply(struct conf_scope *scope, const struct directive *row,
                              struct conf_node *node, void *settings)
{
    return add_source(scope, node, settings, true);
}

/* auth_jwt_require $value ... [error=401|403]; */
static bool require_apply(struct conf_scope *scope, const struct directive *row,
                          struct conf_node *node, void *arg)
{
    struct jwt_settings *settings = arg;
    struct conf *conf = scope->conf;
    struct jwt_require require = {.status = 401};

    for (unsigned i = 1; i < node->count; i++) {
        struct str word = node->args[i];
        if (str_starts(word, STR("error="))) {
            if (!str_is(word, "error=401") && !str_is(word, "error=403")) {
                return conf_error(conf, node, "invalid parameter \"%.*s\"", STR_ARG(word));
            }
            require.status = str_is(word, "error=401") ? 401 : 403;
            continue;
        }
        struct template *value = template_compile(conf, node, word);
        if (value == NULL) {
            return false;
        }
        *vec_add(&require.values, conf->arena, struct template *) = value;
    }
    *vec_add(&settings->requires, conf->arena, struct jwt_require) = require;
    return true;
}

static const struct directive_word forms[] = {
    {"signed", JOSE_SIGNED},
    {"encrypted", JOSE_ENCRYPTED},
    {"nested", JOSE_NESTED},
    {NULL, 0},
};

#define JWT_CONTEXTS (IN_HTTP_ALL | IN_LIMIT_EXCEPT)
#define LEEWAY_MAX (10 * 365 * 86400) /* seconds */

#define S struct jwt_settings
static const struct directive jwt_rows[] = {
    {"auth_jwt", JWT_CONTEXTS, CUSTOM_FIELD(S, realm, auth_jwt_apply), ARGS(1, 2), .initial = "off",
     .syntax = "string [token=$variable] | off",
     .doc = "Enables authentication of clients with a JSON Web Token that is valid and that "
            "was signed or encrypted with a key of `auth_jwt_key_file` or "
            "`auth_jwt_key_request`. Other clients receive 401 with this realm. The token "
            "is taken from the Authorization field, as `Bearer`, or from the variable. "
            "`off` disables authentication. A token may have up to 16k; each worker caches "
            "verified tokens until they expire. RSA decryption is done in threads: "
            "`thread_pool auth_jwt` sets the number of threads (2) and of requests that may "
            "wait (128); further requests receive 503."},
    {"auth_jwt_claim_set", IN_HTTP, CUSTOM(jwt_claim_set_apply), ARGS(2, ARGS_ANY),
     .repeat = REPEAT_CUSTOM, .syntax = "$variable name ...",
     .doc = "Defines a variable whose value is a claim of the token; several names select a "
            "member of nested objects. The elements of an array are separated by commas."},
    {"auth_jwt_header_set", IN_HTTP, CUSTOM(jwt_header_set_apply), ARGS(2, ARGS_ANY),
     .repeat = REPEAT_CUSTOM, .syntax = "$variable name ...",
     .doc = "Defines a variable whose value is a parameter of the token's header, in the "
            "same way as `auth_jwt_claim_set`."},
    {"auth_jwt_key_cache", IN_HTTP_ALL, MSEC(S, key_cache_ms), .initial = "0",
     .doc = "Time for which keys are used before their file is checked, or their request is "
            "made, again. Keys of a request are renewed in the last quarter of this time, "
            "and when a token names a key that is not among them, at most every 5 seconds. "
            "Keys whose file or URI contains variables are not cached. 0: for each request "
            "the file is checked, and read if it has changed, or the request is made."},
    {"auth_jwt_key_file", JWT_CONTEXTS, CUSTOM_FIELD(S, sources, key_file_apply), ARGS(1, 1),
     .repeat = REPEAT_CUSTOM, .syntax = "file",
     .doc = "File with a JSON Web Key Set (RFC 7517) of at most 128 keys and 256k; a "
            "relative path starts at the directory of the configuration. Several lines, and "
            "those of `auth_jwt_key_request`, are combined. If one of them cannot be used, "
            "clients receive 500."},
    {"auth_jwt_key_request", JWT_CONTEXTS, CUSTOM(key_request_apply), ARGS(1, 1),
     .repeat = REPEAT_CUSTOM, .syntax = "uri",
     .doc = "URI for a subrequest that returns a JSON Web Key Set. With "
            "`auth_jwt_key_cache` only one request makes the subrequest, and others wait "
            "for its response; after a failure it is not repeated for one second."},
    {"auth_jwt_leeway", IN_HTTP_ALL, SEC(S, leeway_s), .initial = "0s", .max = LEEWAY_MAX,
     .doc = "Largest difference between clocks: a token is accepted for this time after "
            "`exp`, and for this time before `nbf`."},
    {"auth_jwt_require", JWT_CONTEXTS, CUSTOM_FIELD(S, requires, require_apply), ARGS(1, ARGS_ANY),
     .repeat = REPEAT_APPEND, .syntax = "$value ... [error=401 | 403]",
     .doc = "Accepts a token only if none of the values is empty, `0` or `false`; otherwise "
            "the response has this status (401 by default)."},
    {"auth_jwt_type", JWT_CONTEXTS, ENUM(S, form, forms), .initial = "signed",
     .doc = "Required type of the token: signed (JWS), encrypted (JWE), or nested: "
            "encrypted with a signed token inside."},
    {0},
};
#undef S

static bool is_active(const struct http_location *location)
{
    return realm_may_be_on(jwt_settings_at(location)->realm);
}

/* The next generation of this process must not use anything of this one. */
static void worker_end(struct generation *generation)
{
    jwt_tokens_forget();
    jwt_keys_forget();
}

static const struct phase_hook jwt_phases[] = {
    {.phase = PHASE_ACCESS, .name = "auth_jwt", .run = jwt_check, .is_active = is_active},
    {.run = NULL},
};
static const struct http_module jwt_hooks = {.variables = jwt_variables, .phases = jwt_phases};

const struct module ngx_http_auth_jwt_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_http_auth_jwt_module",
    .kind = MODULE_HTTP,
    .table = {.key = &auth_jwt_key,
              .rows = jwt_rows,
              .contexts = IN_HTTP_LOCATION_SETTINGS,
              .size = sizeof(struct jwt_settings)},
    .hooks = &jwt_hooks,
    .worker_end = worker_end,
};
