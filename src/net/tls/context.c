/* Contexts: builds an SSL_CTX from the settings, step by step. */
#include <openssl/conf.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>

#include "base/clock.h"
#include "net/tls/private.h"

/* ---- steps ---- */

static void apply_protocols(SSL_CTX *ctx, unsigned protocols)
{
    /* clang-format off */
    static const struct {
        unsigned protocol;
        uint64_t option;
    } options[] = {
        {TLS_SSLV3, SSL_OP_NO_SSLv3},
        {TLS_1_0, SSL_OP_NO_TLSv1},
        {TLS_1_1, SSL_OP_NO_TLSv1_1},
        {TLS_1_2, SSL_OP_NO_TLSv1_2},
        {TLS_1_3, SSL_OP_NO_TLSv1_3},
    };
    /* clang-format on */

    /* The protocols are those of the configuration, whatever openssl.cnf says. */
    SSL_CTX_set_min_proto_version(ctx, 0);
    SSL_CTX_set_max_proto_version(ctx, 0);
    for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
        if (protocols & options[i].protocol) {
            SSL_CTX_clear_options(ctx, options[i].option);
        } else {
            SSL_CTX_set_options(ctx, options[i].option);
        }
    }
}

static void apply_modes(SSL_CTX *ctx, const struct tls_settings *settings)
{
    SSL_CTX_set_options(ctx, SSL_OP_NO_COMPRESSION | SSL_OP_SINGLE_DH_USE | SSL_OP_SINGLE_ECDH_USE |
                                 SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_ANTI_REPLAY);
#ifdef SSL_OP_IGNORE_UNEXPECTED_EOF
    SSL_CTX_set_options(ctx, SSL_OP_IGNORE_UNEXPECTED_EOF);
#endif
    if (settings->prefer_server_ciphers) {
        SSL_CTX_set_options(ctx, SSL_OP_CIPHER_SERVER_PREFERENCE);
    }
    SSL_CTX_set_mode(ctx, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE |
                              SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_NO_AUTO_CHAIN);
    SSL_CTX_set_read_ahead(ctx, 1);
}

static bool apply_ciphers(SSL_CTX *ctx, const struct tls_settings *settings, struct arena *arena,
                          struct str *error)
{
    if (settings->ciphers.len == 0) {
        return true;
    }
    if (SSL_CTX_set_cipher_list(ctx, arena_cstr(arena, settings->ciphers)) == 0) {
        *error = tls_reason(arena, "SSL_CTX_set_cipher_list(\"%.*s\") failed",
                            STR_ARG(settings->ciphers));
        return false;
    }
    return true;
}

static bool apply_dhparam(SSL_CTX *ctx, const struct tls_settings *settings, struct arena *arena,
                          struct str *error)
{
    struct str name = settings->dhparam;

    if (name.len == 0) {
        return true;
    }
    BIO *bio = BIO_new_file(arena_cstr(arena, name), "r");
    if (bio == NULL) {
        *error = tls_reason(arena, "BIO_new_file(\"%.*s\") failed", STR_ARG(name));
        return false;
    }
    EVP_PKEY *key = PEM_read_bio_Parameters(bio, NULL);
    BIO_free(bio);
    if (key == NULL) {
        *error = tls_reason(arena, "PEM_read_bio_DHparams(\"%.*s\") failed", STR_ARG(name));
        return false;
    }
    if (SSL_CTX_set0_tmp_dh_pkey(ctx, key) == 0) {
        EVP_PKEY_free(key);
        *error = tls_reason(arena, "SSL_CTX_set0_tmp_dh_pkey(\"%.*s\") failed", STR_ARG(name));
        return false;
    }
    return true;
}

static bool apply_curves(SSL_CTX *ctx, const struct tls_settings *settings, struct arena *arena,
                         struct str *error)
{
    struct str curves = settings->curves;

    if (curves.len == 0 || str_is(curves, "auto")) {
        return true;
    }
    if (SSL_CTX_set1_curves_list(ctx, arena_cstr(arena, curves)) == 0) {
        *error = tls_reason(arena, "SSL_CTX_set1_curves_list(\"%.*s\") failed", STR_ARG(curves));
        return false;
    }
    return true;
}

/* A relative file name made absolute; other values unchanged. */
static const char *command_value(SSL_CONF_CTX *conf, const struct tls_settings *settings,
                                 struct arena *arena, const char *name, struct str value)
{
    int type = SSL_CONF_cmd_value_type(conf, name);

    if ((type == SSL_CONF_TYPE_FILE || type == SSL_CONF_TYPE_DIR) && value.len != 0 &&
        value.data[0] != '/') {
        value = arena_concat(arena, settings->directory, value);
    }
    return arena_cstr(arena, value);
}

static bool run_command(SSL_CONF_CTX *conf, const struct tls_settings *settings,
                        struct arena *arena, const struct str *pair, struct str *error)
{
    const char *name = arena_cstr(arena, pair[0]);
    const char *value = command_value(conf, settings, arena, name, pair[1]);

    if (SSL_CONF_cmd(conf, name, value) <= 0) {
        *error = tls_reason(arena, "SSL_CONF_cmd(\"%s\", \"%s\") failed", name, value);
        return false;
    }
    return true;
}

static bool apply_commands(SSL_CTX *ctx, const struct tls_settings *settings, struct arena *arena,
                           struct str *error)
{
    if (settings->commands.count == 0) {
        return true;
    }
    SSL_CONF_CTX *conf = SSL_CONF_CTX_new();
    bool is_good = conf != NULL;

    if (is_good) {
        SSL_CONF_CTX_set_flags(conf, SSL_CONF_FLAG_FILE | SSL_CONF_FLAG_CERTIFICATE |
                                         SSL_CONF_FLAG_SHOW_ERRORS |
                                         (settings->is_client ? SSL_CONF_FLAG_CLIENT
                                                              : SSL_CONF_FLAG_SERVER));
        SSL_CONF_CTX_set_ssl_ctx(conf, ctx);
    }
    for (size_t i = 0; is_good && i + 1 < settings->commands.count; i += 2) {
        is_good =
            run_command(conf, settings, arena, vec_at(&settings->commands, struct str, i), error);
    }
    if (is_good && SSL_CONF_CTX_finish(conf) != 1) {
        *error = tls_reason(arena, "SSL_CONF_finish() failed");
        is_good = false;
    }
    SSL_CONF_CTX_free(conf);
    return is_good;
}

static void apply_compression(SSL_CTX *ctx, const struct tls_settings *settings)
{
#ifdef SSL_OP_NO_TX_CERTIFICATE_COMPRESSION
    if (!settings->compresses_certificates) {
        SSL_CTX_set_options(ctx, SSL_OP_NO_TX_CERTIFICATE_COMPRESSION |
                                     SSL_OP_NO_RX_CERTIFICATE_COMPRESSION);
    } else {
        SSL_CTX_compress_certs(ctx, 0);
    }
#else
#endif
}

static bool apply_server(struct tls_context *context, SSL_CTX *ctx, struct arena *arena,
                         struct str *error)
{
    const struct tls_settings *settings = &context->settings;

    if (settings->early_data) {
        SSL_CTX_set_max_early_data(ctx, TLS_RECORD_MAX);
    }
    SSL_CTX_set_num_tickets(ctx, 1);
    apply_compression(ctx, settings);
    tls_server_init(context, ctx);
    return tls_apply_ech(ctx, settings, arena, error) &&
           tls_apply_session_id_context(ctx, settings, arena, error) &&
           tls_sessions_init(context, ctx) && tls_tickets_init(context, ctx, arena, error);
}

/* ---- the whole context ---- */

SSL_CTX *tls_ctx_new(struct tls_context *context, struct tls_making *making)
{
    const struct tls_settings *settings = &context->settings;
    struct arena *arena = making->arena;
    struct str *error = making->error;
    SSL_CTX *ctx = SSL_CTX_new(TLS_method());

    if (ctx == NULL) {
        *error = tls_reason(arena, "SSL_CTX_new() failed");
        return NULL;
    }
    making->ctx = ctx;
    SSL_CTX_set_ex_data(ctx, tls_context_index, context);
    apply_protocols(ctx, settings->protocols);
    apply_modes(ctx, settings);
    tls_apply_key_log(ctx, settings);
    bool is_good =
        tls_apply_certificates(making, settings) && apply_ciphers(ctx, settings, arena, error) &&
        tls_apply_verification(making, settings) && apply_dhparam(ctx, settings, arena, error) &&
        apply_curves(ctx, settings, arena, error) &&
        (settings->is_client || apply_server(context, ctx, arena, error)) &&
        apply_commands(ctx, settings, arena, error);
    if (!is_good) {
        SSL_CTX_free(ctx);
        making->ctx = NULL;
        return NULL;
    }
    return ctx;
}

/* Warns of settings that this library does not support and that can be ignored. */
static void warn_of_missing(const struct tls_settings *settings, const struct log *log)
{
#if !TLS_HAS_ECH
    if (settings->ech_files.count != 0) {
        log_warn(log, 0, "\"ssl_ech_file\" is not supported by %s, it takes 4.0: ignored",
                 OpenSSL_version(OPENSSL_VERSION));
    }
#endif
#ifndef SSL_OP_NO_TX_CERTIFICATE_COMPRESSION
    if (settings->compresses_certificates) {
        log_warn(log, 0, "\"ssl_certificate_compression\" is not supported by %s, ignored",
                 OpenSSL_version(OPENSSL_VERSION));
    }
#else
#endif
}

static void context_free(void *arg)
{
    tls_context_free(arg);
}

struct tls_context *tls_context_new(const struct tls_settings *settings, struct arena *arena,
                                    const struct log *log, struct str *error)
{
    struct tls_context *context = arena_new(arena, struct tls_context);
    struct tls_making making = {.cache = arena,
                                .arena = arena,
                                .identities = &context->identities,
                                .error = error};

    *error = STR_NONE;
    tls_library_init();
    ERR_clear_error();
    context->magic = TLS_CONTEXT_MAGIC;
    context->settings = *settings;
    context->arena = arena;
    warn_of_missing(settings, log);
    context->ctx = tls_ctx_new(context, &making);
    if (context->ctx == NULL || !tls_ocsp_init(context, arena, error) ||
        !tls_staples_init(context, &making, log)) {
        SSL_CTX_free(context->ctx);
        tls_identities_free(&context->identities);
        return NULL;
    }
    if (settings->watches_files) {
        tls_watch_init(context);
    }
    context->next = tls_contexts;
    tls_contexts = context;
    arena_on_free(arena, context_free, context);
    return context;
}

void tls_ctx_let_go(SSL_CTX *ctx)
{
    if (ctx != NULL) {
        SSL_CTX_sess_set_remove_cb(ctx, NULL);
        SSL_CTX_free(ctx);
    }
}

void tls_context_free(struct tls_context *context)
{
    if (context == NULL || context->magic != TLS_CONTEXT_MAGIC) {
        return;
    }
    context->magic = 0;
    for (struct tls_context **at = &tls_contexts; *at != NULL; at = &(*at)->next) {
        if (*at == context) {
            *at = context->next;
            break;
        }
    }
    tls_ctx_let_go(context->ctx);
    context->ctx = NULL;
    tls_identities_free(&context->identities);
    if (context->watch != NULL) {
        tls_watch_free(context->watch);
        context->watch = NULL;
    }
}

bool tls_worker_start(const struct log *log)
{
    tls_watch_start(log);
    return true;
}

void tls_worker_end(void)
{
    tls_watch_end();
}

int64_t tls_context_expires(const struct tls_context *context)
{
    int64_t first = 0;

    if (SSL_CTX_set_current_cert(context->ctx, SSL_CERT_SET_FIRST) != 1) {
        return 0;
    }
    do {
        X509 *certificate = SSL_CTX_get0_certificate(context->ctx);
        struct tm tm;

        if (certificate != NULL && ASN1_TIME_to_tm(X509_get0_notAfter(certificate), &tm) == 1) {
            int64_t end = timegm(&tm);
            first = first == 0 || end < first ? end : first;
        }
    } while (SSL_CTX_set_current_cert(context->ctx, SSL_CERT_SET_NEXT) == 1);
    SSL_CTX_set_current_cert(context->ctx, SSL_CERT_SET_FIRST);
    return first;
}
