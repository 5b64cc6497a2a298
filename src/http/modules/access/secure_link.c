/* ngx_http_secure_link_module: links that are signed with a shared secret, and may expire. */

#include "base/checksum.h"
#include "base/clock.h"
#include "base/parse.h"
#include "base/text.h"
#include "http/request/request.h"
#include "http/routing/hooks.h"
#include "http/variables/variables.h"
#include "server/module.h"

#define MD5_SIZE 16
#define MD5_HEX 32        /* in hex digits */
#define MD5_BASE64_MAX 24 /* in base64, with padding */

/* Either the first two are set, or the third, or none. */
struct secure_link_settings {
    struct template *link;        /* of secure_link: "md5" or "md5,expires" */
    struct template *signed_text; /* of secure_link_md5: the signed text */
    struct str secret;            /* of secure_link_secret; or empty */
};

static struct settings_key secure_link_key;

static const struct secure_link_settings *secure_link_settings_at(const struct request *request)
{
    return location_settings(request->location, &secure_link_key);
}

/* ---- per request ---- */

/* Is it the digest of the text? Compares in constant time. */
static bool is_digest(struct str digest, struct str text)
{
    unsigned char expected[MD5_SIZE];

    md5_of(text, expected);
    return secret_equal(digest, (struct str){(char *) expected, MD5_SIZE});
}

/* Splits off what follows the first comma of the link. False: it is not a time. Without a comma
 * `expires` is empty. */
static bool cut_expires(struct str *link, struct str *expires, int64_t *moment)
{
    struct str rest = *link;

    *link = str_cut(&rest, ',');
    *expires = rest;
    return rest.data == NULL || (parse_int(rest, moment) && *moment > 0 && *rest.data != '-');
}

/* With secure_link: "1" valid, "0" expired; false = not signed. */
static bool check_connection(struct request *request, const struct secure_link_settings *settings,
                             struct str *out)
{
    struct str digest = template_text(settings->link, &request->env);
    struct str expires;
    int64_t moment = 0;

    if (!cut_expires(&digest, &expires, &moment) || digest.len > MD5_BASE64_MAX) {
        return false;
    }
    digest = str_cut(&digest, '=');
    if (!base64_decode(&request->arena, digest, true, &digest) ||
        !is_digest(digest, template_text(settings->signed_text, &request->env))) {
        return false;
    }
    return variable_give(out, moment != 0 && moment < clock_now.seconds ? STR("0") : STR("1"));
}

/* With secure_link_secret: for a request target "/prefix/md5/link", as received, the link. */
static bool check_word(struct request *request, struct str secret, struct str *out)
{
    struct str rest = request_origin_form(request);
    char bytes[MD5_SIZE];

    str_cut(&rest, '/');
    str_cut(&rest, '/');
    struct str digest = str_cut(&rest, '/');
    return rest.len != 0 && digest.len == MD5_HEX && hex_decode(digest, bytes) &&
           is_digest((struct str){bytes, MD5_SIZE}, arena_concat(&request->arena, rest, secret)) &&
           variable_give(out, rest);
}

static bool get_secure_link(struct variable_env *env, const struct variable *variable,
                            struct str *out)
{
    struct request *request = variable_request(env);
    const struct secure_link_settings *settings = secure_link_settings_at(request);

    if (settings->secret.len != 0) {
        return check_word(request, settings->secret, out);
    }
    return settings->link != NULL && settings->signed_text != NULL &&
           check_connection(request, settings, out);
}

/* Set even for links that are not valid. */
static bool get_secure_link_expires(struct variable_env *env, const struct variable *variable,
                                    struct str *out)
{
    struct request *request = variable_request(env);
    const struct secure_link_settings *settings = secure_link_settings_at(request);
    int64_t moment;

    if (settings->link == NULL || settings->signed_text == NULL) {
        return false;
    }
    struct str link = template_text(settings->link, env);
    return cut_expires(&link, out, &moment) && out->len != 0;
}

static const struct variable secure_link_variables[] = {
    {.name = STR_INIT("secure_link"),
     .doc = "Empty if the link is invalid, 0 if it has expired, 1 if it is valid; with "
            "`secure_link_secret` the link itself.",
     .get = get_secure_link},
    {.name = STR_INIT("secure_link_expires"),
     .doc = "Expiration time of the link.",
     .get = get_secure_link_expires},
    {.name = {NULL, 0}},
};

/* ---- directives ---- */

/* The form that is set in a block replaces an inherited one of the other form. */
static bool secure_link_finish(struct conf_scope *scope, void *arg)
{
    struct secure_link_settings *settings = arg;
    bool has_link = conf_is_set(scope, &secure_link_key, "secure_link") ||
                    conf_is_set(scope, &secure_link_key, "secure_link_md5");
    bool has_secret = conf_is_set(scope, &secure_link_key, "secure_link_secret");

    if (has_link && has_secret) {
        return conf_error(scope->conf, scope->node,
                          "\"secure_link_secret\" cannot be mixed with \"secure_link\" and "
                          "\"secure_link_md5\"");
    }
    if (has_link) {
        settings->secret = STR_NONE;
    } else if (has_secret) {
        settings->link = settings->signed_text = NULL;
    }
    return true;
}

#define S struct secure_link_settings
static const struct directive secure_link_rows[] = {
    {"secure_link", IN_HTTP_ALL, TEMPLATE(S, link), .syntax = "expression",
     .doc = "Expression for the MD5 of a request, in base64url, and optionally, after a "
            "comma, its expiration time in seconds since the Epoch: "
            "`$arg_md5,$arg_expires`. `$secure_link` is 1 if the MD5 is that of "
            "`secure_link_md5`, 0 if it is but the time has passed, and empty otherwise."},
    {"secure_link_md5", IN_HTTP_ALL, TEMPLATE(S, signed_text), .syntax = "expression",
     .doc = "Text whose MD5 is compared: it should contain what the link protects, the "
            "expiration time and a secret."},
    {"secure_link_secret", IN_HTTP_ALL, STRING(S, secret), .syntax = "word",
     .doc = "Secret for links of the form /prefix/md5/link, where md5 is the MD5 of the "
            "link and the secret, in hexadecimal. `$secure_link` is the link, as written by "
            "the client, if the MD5 is correct, and empty otherwise."},
    {0},
};
#undef S

static const struct http_module secure_link_hooks = {.variables = secure_link_variables};

const struct module ngx_http_secure_link_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_http_secure_link_module",
    .kind = MODULE_HTTP,
    .table = {.key = &secure_link_key,
              .rows = secure_link_rows,
              .contexts = IN_HTTP_LOCATION_SETTINGS,
              .size = sizeof(struct secure_link_settings),
              .finish = secure_link_finish},
    .hooks = &secure_link_hooks,
};
