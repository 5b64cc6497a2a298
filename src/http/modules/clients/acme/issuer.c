/* The block `acme_issuer`. */
#include <errno.h>

#include "base/fs.h"
#include "base/text.h"
#include "http/modules/clients/acme/conf.h"
#include "net/addr/addr.h"

#define SYSTEM_CA "/etc/ssl/certs/ca-certificates.crt"

static struct settings_key acme_issuer_key;

/* Does it need no escapes in JSON and header fields? */
static bool is_plain(struct str text)
{
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char) text.data[i];

        if (c <= ' ' || c >= 127 || c == '"' || c == '\\') {
            return false;
        }
    }
    return text.len != 0;
}

/* ---- rows ---- */

static bool uri_apply(struct conf_scope *scope, const struct directive *row, struct conf_node *node,
                      void *settings)
{
    struct acme_issuer *issuer = settings;
    struct acme_url url;

    return acme_url_parse(issuer->uri, false, &url) ||
           conf_error(scope->conf, node, "\"%.*s\" is no URL with https", STR_ARG(issuer->uri));
}

static bool contact_apply(struct conf_scope *scope, const struct directive *row,
                          struct conf_node *node, void *settings)
{
    struct acme_issuer *issuer = settings;
    struct str text = node->args[1];

    if (!is_plain(text)) {
        return conf_error(scope->conf, node, "\"%.*s\" is no URL", STR_ARG(text));
    }
    if (str_find_char(text, ':') == NULL) {
        text = arena_concat(scope->conf->arena, STR("mailto:"), text);
    }
    *vec_add(&issuer->contacts, scope->conf->arena, struct str) = text;
    return true;
}

static bool account_key_apply(struct conf_scope *scope, const struct directive *row,
                              struct conf_node *node, void *settings)
{
    struct acme_issuer *issuer = settings;
    struct str text = node->args[1];

    if (str_is(text, "ecdsa") || str_is(text, "rsa") || str_starts(text, STR("ecdsa:")) ||
        str_starts(text, STR("rsa:"))) {
        return acme_key_type_parse(text, &issuer->account_key) ||
               conf_error(
                   scope->conf, node,
                   "\"%.*s\" is no key: ecdsa:256, ecdsa:384, ecdsa:521, rsa:2048 to rsa:8192",
                   STR_ARG(text));
    }
    issuer->account_key = (struct acme_key_type){.file = conf_full_name(scope->conf, text, true)};
    return true;
}

static bool challenge_apply(struct conf_scope *scope, const struct directive *row,
                            struct conf_node *node, void *settings)
{
    struct acme_issuer *issuer = settings;
    struct str word = node->args[1];

    for (unsigned type = ACME_HTTP_01; type <= ACME_DNS_PERSIST_01; type++) {
        struct str name = str_of(acme_challenge_names[type]);

        /* accepts "http-01" and "http" */
        if (str_equal(word, name) || str_equal(word, str_head(name, name.len - 3))) {
            issuer->challenge = type;
            return true;
        }
    }
    return conf_error(scope->conf, node, "unknown challenge \"%.*s\"", STR_ARG(word));
}

static bool terms_apply(struct conf_scope *scope, const struct directive *row,
                        struct conf_node *node, void *settings)
{
    ((struct acme_issuer *) settings)->accepts_terms = true;
    return true;
}

/* The key is base64url; padding and the standard alphabet are accepted as well. */
static bool decode_key(struct arena *arena, struct str text, struct str *out)
{
    char *made = arena_text(arena, text.len);
    size_t len = 0;

    for (size_t i = 0; i < text.len; i++) {
        char c = text.data[i];

        if (c == '=' || ascii_is_space(c)) {
            continue;
        }
        made[len++] = (char) (c == '+' ? '-' : c == '/' ? '_' : c);
    }
    return base64_decode(arena, (struct str){made, len}, true, out) && out->len >= 16;
}

static bool external_apply(struct conf_scope *scope, const struct directive *row,
                           struct conf_node *node, void *settings)
{
    struct acme_issuer *issuer = settings;
    struct conf *conf = scope->conf;
    struct str text = node->args[2];

    issuer->external_kid = node->args[1];
    if (!is_plain(issuer->external_kid)) {
        return conf_error(conf, node, "invalid key identifier \"%.*s\"",
                          STR_ARG(issuer->external_kid));
    }
    if (str_starts(text, STR("data:"))) {
        text = str_skip(text, 5);
    } else {
        struct str file = conf_full_name(conf, text, true);
        if (!fs_read_all(conf->arena, file.data, 4096, &text)) {
            return conf_errno(conf, node, errno, "cannot read \"%s\"", file.data);
        }
    }
    return decode_key(conf->arena, text, &issuer->external_key) ||
           conf_error(conf, node, "the external account key is no base64url of 16 bytes at least");
}

static bool state_path_apply(struct conf_scope *scope, const struct directive *row,
                             struct conf_node *node, void *settings)
{
    struct acme_issuer *issuer = settings;

    issuer->has_state_path = true;
    issuer->state_path =
        str_is(node->args[1], "off") ? STR("") : conf_full_name(scope->conf, node->args[1], false);
    return true;
}

static bool profile_apply(struct conf_scope *scope, const struct directive *row,
                          struct conf_node *node, void *settings)
{
    struct acme_issuer *issuer = settings;

    issuer->profile = node->args[1];
    issuer->needs_profile = node->count == 3;
    if (!is_plain(issuer->profile)) {
        return conf_error(scope->conf, node, "invalid profile \"%.*s\"", STR_ARG(issuer->profile));
    }
    return node->count == 2 || str_is(node->args[2], "require") ||
           conf_error(scope->conf, node, "invalid parameter \"%.*s\"", STR_ARG(node->args[2]));
}

static bool dns_hook_apply(struct conf_scope *scope, const struct directive *row,
                           struct conf_node *node, void *settings)
{
    struct acme_issuer *issuer = settings;
    struct str text = issuer->dns_hook;
    struct acme_url url;

    if (str_starts(text, STR("http://")) || str_starts(text, STR("https://"))) {
        return acme_url_parse(text, true, &url) ||
               conf_error(scope->conf, node, "\"%.*s\" is no URL", STR_ARG(text));
    }
    issuer->dns_hook = conf_full_name(scope->conf, text, true);
    return true;
}

#define S struct acme_issuer
static const struct directive issuer_rows[] = {
    {"uri", IN_ACME_ISSUER, STRING(S, uri), .apply = uri_apply, .syntax = "URL",
     .doc = "URL of the CA's ACME directory, with https."},
    {"accept_terms_of_service", IN_ACME_ISSUER, CUSTOM(terms_apply), .syntax = " ",
     .doc = "Accepts the terms of service of the CA; most CAs require it for an account."},
    {"account_key", IN_ACME_ISSUER, CUSTOM(account_key_apply), ARGS(1, 1),
     .syntax = "ecdsa[:size] | rsa[:size] | file",
     .doc = "Key of the account: generated (P-256 by default) and stored in state_path, or "
            "read from a PEM file."},
    {"challenge", IN_ACME_ISSUER, CUSTOM(challenge_apply), ARGS(1, 1), .initial = "http-01",
     .syntax = "http-01 | tls-alpn-01 | dns-01 | dns-persist-01",
     .doc = "Challenge with which the CA validates names: a request to port 80 (http-01), "
            "a TLS handshake on port 443 (tls-alpn-01), a TXT record added by dns_hook "
            "(dns-01), or a permanent TXT record (dns-persist-01). Wildcard names require "
            "one of the last two."},
    {"common_name_in_csr", IN_ACME_ISSUER, FLAG(S, has_common_name), .initial = "off",
     .doc = "Whether the certificate request contains the first name as its common name, "
            "for CAs that require it."},
    {"contact", IN_ACME_ISSUER, CUSTOM(contact_apply), ARGS(1, 1), .repeat = REPEAT_APPEND,
     .syntax = "URL",
     .doc = "Contact of the account's owner: mailto:NAME@HOST, or the address without "
            "mailto."},
    {"dns_hook", IN_ACME_ISSUER, STRING(S, dns_hook), .apply = dns_hook_apply,
     .syntax = "program | URL",
     .doc = "Adds and removes TXT records for dns-01. A program is run as \"program add "
            "NAME VALUE\" and \"program remove NAME VALUE\" with the privileges of the "
            "master process; a URL receives them as JSON in a POST request. nginx does not "
            "have this directive."},
    {"dns_wait", IN_ACME_ISSUER, MSEC(S, dns_wait_ms), .initial = "10s",
     .doc = "Time between the addition of the TXT record and the validation by the CA, in "
            "which all name servers receive the record. nginx does not have this directive."},
    {"external_account_key", IN_ACME_ISSUER, CUSTOM(external_apply), ARGS(2, 2),
     .syntax = "kid file | kid data:key",
     .doc = "Binds the account to an existing account at the CA (RFC 8555, section 7.3.4): "
            "the key identifier, and a file with the key in base64url."},
    {"preferred_chain", IN_ACME_ISSUER, STRING(S, preferred_chain), .syntax = "name",
     .doc = "Common name of the authority at which the chain should end, if the CA offers "
            "several chains."},
    {"profile", IN_ACME_ISSUER, CUSTOM(profile_apply), ARGS(1, 2), .syntax = "name [require]",
     .doc = "Profile of certificates, such as \"shortlived\" of Let's Encrypt. If the CA "
            "does not offer it, its default profile is used, unless `require` is given."},
    {"ssl_trusted_certificate", IN_ACME_ISSUER, CONF_PATH(S, trusted), .syntax = "file",
     .doc = "PEM file with the authorities that are trusted for the CA's server; by "
            "default, those of the system."},
    {"ssl_verify", IN_ACME_ISSUER, FLAG(S, verifies), .initial = "on",
     .doc = "Whether the certificate of the CA's server is verified. Disable it for tests "
            "only."},
    {"state_path", IN_ACME_ISSUER, CUSTOM(state_path_apply), ARGS(1, 1), .syntax = "path | off",
     .doc = "Directory for the account and certificates, accessible only to the user of "
            "the master process; by default acme_NAME below the prefix. Several nodes may "
            "share it. With `off`, certificates are ordered again at each start."},
    {0},
};
#undef S

const struct directive_table acme_issuer_table = {
    .key = &acme_issuer_key,
    .rows = issuer_rows,
    .contexts = IN_ACME_ISSUER,
    .size = sizeof(struct acme_issuer),
};

/* ---- the block ---- */

static bool has_name(const struct acme_main *main, struct str name)
{
    vec_each(const struct acme_issuer *, issuer, &main->issuers) {
        if (str_equal((*issuer)->name, name)) {
            return true;
        }
    }
    return false;
}

/* It becomes part of a file name. */
static bool is_good_name(struct str name)
{
    return is_plain(name) && str_find_char(name, '/') == NULL && name.data[0] != '.';
}

bool acme_issuer_enter(struct conf_scope *scope, const struct directive *row,
                       struct conf_node *node, void *settings)
{
    struct conf *conf = scope->conf;
    struct acme_main *main = acme_main_of(conf);
    struct str name = node->args[1];

    if (!is_good_name(name) || has_name(main, name)) {
        return conf_error(conf, node, "%s acme_issuer \"%.*s\"",
                          is_good_name(name) ? "duplicate" : "invalid name of", STR_ARG(name));
    }
    struct conf_scope *inner = conf_enter(scope, node, IN_ACME_ISSUER, NULL, NULL);
    if (inner == NULL) {
        return false;
    }
    struct acme_issuer *issuer = conf_settings(inner, &acme_issuer_key);
    issuer->name = name;
    issuer->node = node;
    issuer->main = main;
    issuer->lock = issuer->asker = -1;
    if (issuer->account_key.bits == 0 && issuer->account_key.file.len == 0) {
        issuer->account_key.bits = 256;
    }
    if (issuer->uri.len == 0) {
        return conf_error(conf, node, "acme_issuer \"%.*s\" has no \"uri\"", STR_ARG(name));
    }
    if (issuer->challenge == ACME_DNS_01 && issuer->dns_hook.len == 0) {
        return conf_error(conf, node, "\"challenge dns-01\" needs a \"dns_hook\"");
    }
    if (!issuer->has_state_path) {
        issuer->state_path =
            conf_full_name(conf, arena_concat(conf->arena, STR("acme_"), name), false);
    }
    main->has_http_01 |= issuer->challenge == ACME_HTTP_01;
    main->has_tls_alpn_01 |= issuer->challenge == ACME_TLS_ALPN_01;
    *vec_add(&main->issuers, conf->arena, struct acme_issuer *) = issuer;
    return true;
}

bool acme_issuer_finish(struct conf *conf, struct acme_issuer *issuer,
                        const struct http_location *root)
{
    const struct tls_settings settings = {
        .is_client = true,
        .directory = conf->conf_prefix,
        .protocols = TLS_1_2 | TLS_1_3,
        .verify = issuer->verifies ? TLS_VERIFY_ON : TLS_VERIFY_OFF,
        .verify_depth = 8,
        .trusted_certificate = !issuer->verifies          ? STR_NONE
                               : issuer->trusted.len != 0 ? issuer->trusted
                                                          : STR(SYSTEM_CA),
    };
    struct str error;

    issuer->resolver = root->resolver;
    issuer->resolver_timeout_ms = root->resolver_timeout_ms;
    issuer->tls = tls_context_new(&settings, conf->arena, log_main, &error);
    return issuer->tls != NULL || conf_error(conf, issuer->node, "%.*s", STR_ARG(error));
}
