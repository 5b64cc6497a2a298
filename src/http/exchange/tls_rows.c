/* TLS towards backends, when the configuration is read: rows that read their arguments themselves, and
 * contexts, one for all places that say the same. */
#include "base/map.h"
#include "http/exchange/settings.h"
#include "http/settings.h"
#include "http/tls_options.h"

/* ---- rows ---- */

bool exchange_password_file_apply(struct conf_scope *scope, const struct directive *row,
                                  struct conf_node *node, void *settings)
{
    struct exchange_settings *own = settings;

    (void) row;
    return tls_option_passwords(scope->conf, node, &own->tls.passwords);
}

bool exchange_conf_command_apply(struct conf_scope *scope, const struct directive *row,
                                 struct conf_node *node, void *settings)
{
    struct exchange_settings *own = settings;

    (void) row;
    for (unsigned i = 1; i <= 2; i++) {
        *(struct str *) vec_push(&own->tls.commands, scope->conf->arena, sizeof(struct str)) =
            node->args[i];
    }
    return true;
}

bool exchange_certificate_cache_apply(struct conf_scope *scope, const struct directive *row,
                                      struct conf_node *node, void *settings)
{
    struct exchange_settings *own = settings;

    (void) row;
    return tls_option_certificate_cache(scope->conf, node, &own->tls.certificate_cache);
}

bool exchange_key_log_apply(struct conf_scope *scope, const struct directive *row,
                            struct conf_node *node, void *settings)
{
    struct exchange_settings *own = settings;

    (void) row;
    own->tls.key_log = tls_option_key_log(scope->conf, node);
    return true;
}

void exchange_needs_tls(const struct conf_scope *scope, const struct directive_table *family,
                        bool is_needed)
{
    struct exchange_settings *own = conf_settings(scope, family);
    struct http_location *location = scope_location(scope);

    own->tls.is_needed = is_needed;
    if (is_needed) {
        location->pass_tls = &own->tls;
    } else if (location->pass_tls == &own->tls) {
        location->pass_tls = NULL;
    }
}

/* ---- contexts ---- */

/* Contexts of this reading, by all that they are made of. */
struct context_list {
    struct map by_settings; /* struct tls_context * */
};

/* An empty name is none: it takes back what was inherited. */
static bool has_certificate(const struct exchange_tls *own)
{
    return own->certificate != NULL &&
           !(own->certificate->is_constant && own->certificate->constant.len == 0);
}

/* What is constant of our certificate goes into the context. */
static void use_certificate(struct conf *conf, struct exchange_tls *own, struct tls_settings *made)
{
    own->is_certificate_late = false;
    if (!has_certificate(own)) {
        return;
    }
    own->is_certificate_late = !own->certificate->is_constant || !own->certificate_key->is_constant;
    if (!own->is_certificate_late) {
        struct tls_certificate *pair =
            vec_push(&made->certificates, conf->arena, sizeof(struct tls_certificate));
        pair->certificate =
            tls_option_full_name(conf->arena, conf->conf_prefix, own->certificate->constant);
        pair->key =
            tls_option_full_name(conf->arena, conf->conf_prefix, own->certificate_key->constant);
    }
}

static struct tls_settings settings_of(struct conf *conf, struct exchange_tls *own)
{
    struct tls_settings made = {
        .is_client = true,
        .directory = conf->conf_prefix,
        .passwords = own->passwords,
        .protocols = own->protocols,
        .ciphers = own->ciphers,
        .commands = own->commands,
        .verify_depth = (unsigned) own->verify_depth,
        .key_log = own->key_log,
    };

    use_certificate(conf, own, &made);
    if (own->verify) {
        made.verify = TLS_VERIFY_ON;
        made.trusted_certificate = own->trusted_certificate;
        made.crl = own->crl;
    }
    return made;
}

/* One text of all that makes a context. */
static struct str text_of(struct arena *arena, const struct tls_settings *made)
{
    struct str text =
        arena_printf(arena, "%u %u %u", made->protocols, made->verify, made->verify_depth);
    struct vec words = {0};

    *(struct str *) vec_push(&words, arena, sizeof(struct str)) = made->ciphers;
    *(struct str *) vec_push(&words, arena, sizeof(struct str)) = made->trusted_certificate;
    *(struct str *) vec_push(&words, arena, sizeof(struct str)) = made->crl;
    *(struct str *) vec_push(&words, arena, sizeof(struct str)) =
        made->key_log == NULL ? STR("") : made->key_log->path;
    vec_each(const struct tls_certificate, pair, &made->certificates) {
        *(struct str *) vec_push(&words, arena, sizeof(struct str)) = pair->certificate;
        *(struct str *) vec_push(&words, arena, sizeof(struct str)) = pair->key;
    }
    text = arena_printf(arena, "%.*s %zu", STR_ARG(text), made->commands.count);
    vec_each(const struct str, word, &made->commands) {
        *(struct str *) vec_push(&words, arena, sizeof(struct str)) = *word;
    }
    vec_each(const struct str, word, &made->passwords) {
        *(struct str *) vec_push(&words, arena, sizeof(struct str)) = *word;
    }
    vec_each(const struct str, word, &words) {
        text = arena_printf(arena, "%.*s %zu:%.*s", STR_ARG(text), word->len, STR_ARG(*word));
    }
    return text;
}

static bool check(struct conf_scope *scope, const struct exchange_settings *own)
{
    const struct exchange_tls *tls = &own->tls;

    if (has_certificate(tls) && tls->certificate_key == NULL) {
        return conf_error(scope->conf, scope->node,
                          "no \"%s_ssl_certificate_key\" is defined for certificate \"%.*s\"",
                          own->prefix, STR_ARG(tls->certificate->source));
    }
    if (tls->verify && tls->trusted_certificate.len == 0) {
        return conf_error(scope->conf, scope->node,
                          "no %s_ssl_trusted_certificate for %s_ssl_verify", own->prefix,
                          own->prefix);
    }
    return true;
}

bool exchange_tls_finish(struct conf_scope *scope, struct exchange_settings *own)
{
    struct conf *conf = scope->conf;
    struct context_list *list = conf_state(conf, "exchange tls", sizeof(*list));
    struct arena scratch;
    struct str error;

    own->tls.context = NULL;
    if (!own->tls.is_needed || !check(scope, own)) {
        return !own->tls.is_needed;
    }
    struct tls_settings made = settings_of(conf, &own->tls);
    arena_init(&scratch);
    struct str text = text_of(&scratch, &made);
    own->tls.context = map_get(&list->by_settings, text);
    if (own->tls.context == NULL) {
        own->tls.context = tls_context_new(&made, conf->arena, log_main, &error);
        if (own->tls.context == NULL) {
            arena_free(&scratch);
            conf_error(conf, scope->node, "%.*s", STR_ARG(error));
            conf_hint_origin(scope, own->prefix);
            return false;
        }
        map_put(&list->by_settings, conf->arena, arena_dup(conf->arena, text), own->tls.context);
    }
    arena_free(&scratch);
    return true;
}
