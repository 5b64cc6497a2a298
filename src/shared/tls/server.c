/* TLS on the side of clients: the context of a server, from its settings, and certificates that are
 * loaded in a handshake. */
#include "net/tls/ring.h"
#include "shared/tls/server.h"
#include "shared/tls/tickets.h"

#include "server/generation.h"
#include "shared/tls/options.h"

const struct directive_word tls_verify_words[] = {
    {"off", TLS_VERIFY_OFF},
    {"on", TLS_VERIFY_ON},
    {"optional", TLS_VERIFY_OPTIONAL},
    {"optional_no_ca", TLS_VERIFY_OPTIONAL_NO_CA},
    {NULL, 0},
};

const struct directive_word tls_ocsp_words[] = {
    {"off", 0},
    {"on", 1},
    {"leaf", 2},
    {NULL, 0},
};

/* Size of the zone for automatic ticket keys; more than they need, the minimum of a zone. */
#define TICKET_ZONE_SIZE (64 * 1024)

static char ticket_zone_tag; /* its address identifies the user of the zone of ticket keys */

/* Checks that each certificate has a key, and whether any of them has variables. */
static bool check_pairs(struct conf *conf, struct tls_server_settings *settings)
{
    settings->has_variables = false;
    if (settings->certificates.count > settings->keys.count) {
        const struct template *last =
            *vec_at(&settings->certificates, struct template *, settings->certificates.count - 1);
        return conf_error(conf, NULL,
                          "no \"ssl_certificate_key\" is defined for certificate \"%.*s\"",
                          STR_ARG(last->source));
    }
    for (size_t i = 0; i < settings->certificates.count; i++) {
        const struct template *certificate = *vec_at(&settings->certificates, struct template *, i);
        const struct template *key = *vec_at(&settings->keys, struct template *, i);
        settings->has_variables |= !certificate->is_constant || !key->is_constant;
    }
    return true;
}

static void list_pairs(struct conf *conf, const struct tls_server_settings *settings,
                       struct vec *certificates)
{
    for (size_t i = 0; i < settings->certificates.count; i++) {
        struct tls_certificate *pair = vec_add(certificates, conf->arena, struct tls_certificate);

        pair->certificate =
            tls_option_full_name(conf->arena, conf->conf_prefix,
                                 (*vec_at(&settings->certificates, struct template *, i))
                                     ->constant);
        pair->key =
            tls_option_full_name(conf->arena, conf->conf_prefix,
                                 (*vec_at(&settings->keys, struct template *, i))->constant);
    }
}

struct zone *tls_ticket_zone(struct conf *conf)
{
    bool *is_begun = conf_state(conf, "tls ticket ring", sizeof(*is_begun));
    struct zone *zone = generation_zone(conf->generation, NULL, STR("ssl_ticket_keys"),
                                        TICKET_ZONE_SIZE, &ticket_zone_tag);

    *is_begun = *is_begun || (zone != NULL && tls_ring_begin(zone));
    return zone;
}

static struct tls_settings settings_of(struct conf *conf, const struct tls_server_settings *from)
{
    struct tls_settings settings = {
        .directory = conf->conf_prefix,
        .passwords = from->passwords,
        .protocols = from->protocols,
        .ciphers = from->ciphers,
        .curves = from->curves,
        .dhparam = from->dhparam,
        .prefer_server_ciphers = from->prefer_server_ciphers,
        .commands = from->commands,
        .verify = from->verify,
        .verify_depth = (unsigned) from->verify_depth,
        .rejects_handshake = from->rejects_handshake,
        .early_data = from->early_data,
        .compresses_certificates = from->compresses_certificates,
        .ech_files = from->ech_files,
        .tickets = from->tickets,
        .ticket_keys = from->ticket_keys,
        .ticket_period_s = from->ticket_period_s,
        .has_session_cache = from->has_session_cache,
        .session_zone = from->session_zone,
        .session_sharing = from->session_sharing,
        .builtin_sessions = from->builtin_sessions,
        .session_timeout_s = from->session_timeout_s,
        .stapling = from->stapling,
        .stapling_verify = from->stapling_verify,
        .stapling_file = from->stapling_file,
        .stapling_responder = from->stapling_responder,
        .ocsp = from->ocsp,
        .ocsp_responder = from->ocsp_responder,
        .ocsp_zone = from->ocsp_zone,
        .buffer_size = from->buffer_size,
        .watches_files = from->watches_files,
        .key_log = from->key_log,
    };

    if (from->tickets && from->ticket_keys.count == 0) {
        settings.ticket_zone = tls_ticket_zone(conf);
    }
    settings.trusted_certificate = from->trusted_certificate;
    if (from->verify != TLS_VERIFY_OFF) {
        settings.client_certificate = from->client_certificate;
        settings.crl = from->crl;
    }
    return settings;
}

static bool check_verification(struct conf *conf, const struct tls_server_settings *settings)
{
    if (settings->verify != TLS_VERIFY_OFF && settings->verify != TLS_VERIFY_OPTIONAL_NO_CA &&
        settings->client_certificate.len == 0 && settings->trusted_certificate.len == 0) {
        return conf_error(
            conf, NULL,
            "no ssl_client_certificate or ssl_trusted_certificate for ssl_verify_client");
    }
    if (settings->ocsp != 0 && settings->verify == TLS_VERIFY_OPTIONAL_NO_CA) {
        return conf_error(conf, NULL,
                          "\"ssl_ocsp\" is incompatible with \"ssl_verify_client optional_no_ca\"");
    }
    return true;
}

bool tls_server_finish(struct conf_scope *scope, struct tls_server_settings *settings,
                       const struct resolver_settings *resolver, uint64_t resolver_timeout_ms,
                       struct log_sink *const *error_log)
{
    struct conf *conf = scope->conf;
    struct str error;

    settings->context = NULL;
    if (settings->certificates.count == 0 && !settings->rejects_handshake) {
        return true;
    }
    if (!check_pairs(conf, settings) || !check_verification(conf, settings)) {
        return false;
    }
    struct tls_settings made = settings_of(conf, settings);
    made.resolver = resolver;
    made.resolver_timeout_ms = resolver_timeout_ms;
    made.error_log = error_log;
    if (!settings->has_variables) {
        list_pairs(conf, settings, &made.certificates);
    } else {
        vec_each(struct template *, certificate, &settings->certificates) {
            *vec_add(&made.variable_names, conf->arena, struct str) = (*certificate)->source;
        }
    }
    settings->context = tls_context_new(&made, conf->arena, log_main, &error);
    if (settings->context == NULL) {
        conf_error(conf, NULL, "%.*s", STR_ARG(error));
        conf_hint_origin(scope, "ssl_");
        return false;
    }
    return true;
}

bool tls_server_certify(const struct tls_server_settings *settings, struct conn *conn,
                        struct variable_env *env)
{
    struct str directory = generation_now->conf.conf_prefix;
    bool is_good = true;

    for (size_t i = 0; is_good && i < settings->certificates.count; i++) {
        struct str certificate, key;

        tls_option_pair(*vec_at(&settings->certificates, struct template *, i),
                        *vec_at(&settings->keys, struct template *, i), env, &certificate, &key);
        is_good =
            tls_use_certificate(conn, tls_option_full_name(env->arena, directory, certificate),
                                tls_option_full_name(env->arena, directory, key),
                                &settings->passwords, settings->certificate_cache);
    }
    return is_good;
}
