/* TLS of sockets: rows that read their arguments themselves, and the contexts that they make. */
#include "lua/config/rows.h"
#include "server/generation.h"

#define USUAL_PROTOCOLS (TLS_1_0 | TLS_1_1 | TLS_1_2 | TLS_1_3)

bool script_tls_file_apply(struct conf_scope *scope, const struct directive *row,
                           struct conf_node *node, void *settings)
{
    struct vec *files = (void *) ((char *) settings + row->offset);

    *vec_add(files, scope->conf->arena, struct str) =
        tls_option_full_name(scope->conf->arena, scope->conf->conf_prefix, node->args[1]);
    return true;
}

bool script_tls_key_log_apply(struct conf_scope *scope, const struct directive *row,
                              struct conf_node *node, void *settings)
{
    struct conf *conf = scope->conf;
    struct str name = tls_option_full_name(conf->arena, conf->conf_prefix, node->args[1]);
    struct log_file *file = generation_log_file(conf->generation, name);

    file->is_secret = true;
    *(struct log_file **) (void *) ((char *) settings + row->offset) = file;
    return true;
}

/* Every setting has its default: all such locations share one context, made when it is first used.
 */
static bool is_usual(const struct script_tls_settings *tls)
{
    return tls->certificates.count == 0 && tls->trusted_certificate.len == 0 && tls->crl.len == 0 &&
           tls->commands.count == 0 && tls->key_log == NULL && tls->verify_depth == 1 &&
           tls->protocols == USUAL_PROTOCOLS && str_is(tls->ciphers, "DEFAULT");
}

bool script_tls_finish(struct conf_scope *scope, struct script_tls_settings *tls)
{
    struct conf *conf = scope->conf;
    struct tls_settings made = {
        .is_client = true,
        .directory = conf->conf_prefix,
        .protocols = tls->protocols,
        .ciphers = tls->ciphers,
        .commands = tls->commands,
        .verify_depth = (unsigned) tls->verify_depth,
        .trusted_certificate = tls->trusted_certificate,
        .crl = tls->crl,
        .key_log = tls->key_log,
    };
    struct str error;

    tls->context = NULL;
    if (is_usual(tls)) {
        return true;
    }
    if (tls->keys.count < tls->certificates.count) {
        const struct str *last =
            (const struct str *) tls->certificates.items + tls->certificates.count - 1;

        return conf_error(conf, scope->node,
                          "no \"lua_ssl_certificate_key\" is defined for certificate \"%.*s\"",
                          STR_ARG(*last));
    }
    for (size_t i = 0; i < tls->certificates.count; i++) {
        struct tls_certificate *pair =
            vec_add(&made.certificates, conf->arena, struct tls_certificate);

        pair->certificate = ((const struct str *) tls->certificates.items)[i];
        pair->key = ((const struct str *) tls->keys.items)[i];
    }
    tls->context = tls_client_context(conf, &made, &error);
    if (tls->context == NULL) {
        return conf_error(conf, scope->node, "%.*s", STR_ARG(error));
    }
    return true;
}
