/* TLS towards a store or an engine of discovery: the context that the rows describe. */
#include "upstream/client_tls.h"

enum { VERIFY_DEPTH = 9 };

bool client_tls_finish(struct conf *conf, const struct conf_node *node, const char *block,
                       struct client_tls *own)
{
    struct tls_settings made = {
        .is_client = true,
        .directory = conf->conf_prefix,
        .protocols = TLS_1_2 | TLS_1_3,
        .ciphers = STR("DEFAULT"),
        .verify_depth = VERIFY_DEPTH,
    };
    struct str error;

    if (own->verifies && own->trusted.len == 0) {
        return conf_error(conf, node,
                          "no \"ssl_trusted_certificate\" for \"ssl_verify\" of %s \"%.*s\"", block,
                          STR_ARG(node->args[1]));
    }
    if ((own->certificate.len == 0) != (own->certificate_key.len == 0)) {
        return conf_error(
            conf, node,
            "\"ssl_certificate\" and \"ssl_certificate_key\" of %s \"%.*s\" need each other", block,
            STR_ARG(node->args[1]));
    }
    if (own->verifies) {
        made.verify = TLS_VERIFY_ON;
        made.trusted_certificate = own->trusted;
        made.crl = own->crl;
    }
    if (own->certificate.len != 0) {
        *vec_add(&made.certificates, conf->arena, struct tls_certificate) =
            (struct tls_certificate){own->certificate, own->certificate_key};
    }
    own->context = tls_context_new(&made, conf->arena, log_main, &error);
    return own->context != NULL || conf_error(conf, node, "%.*s", STR_ARG(error));
}
