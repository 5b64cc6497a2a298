/* TLS towards backends: rows that parse their arguments themselves; contexts, which locations with
 * the same settings share; and the TLS parameters of a connection. */
#include "shared/tls/client.h"

#include "base/map.h"
#include "server/generation.h"

/* ---- rows ---- */

/* The field of the row, in the settings of a module whose struct is not known here. */
static void *field_of(const struct directive *row, void *settings)
{
    return (char *) settings + row->offset;
}

bool tls_client_password_file_apply(struct conf_scope *scope, const struct directive *row,
                                    struct conf_node *node, void *settings)
{
    return tls_option_passwords(scope->conf, node, field_of(row, settings));
}

bool tls_client_conf_command_apply(struct conf_scope *scope, const struct directive *row,
                                   struct conf_node *node, void *settings)
{
    struct vec *commands = field_of(row, settings);

    for (unsigned i = 1; i <= 2; i++) {
        *vec_add(commands, scope->conf->arena, struct str) = node->args[i];
    }
    return true;
}

bool tls_client_certificate_cache_apply(struct conf_scope *scope, const struct directive *row,
                                        struct conf_node *node, void *settings)
{
    return tls_option_certificate_cache(scope->conf, node, field_of(row, settings));
}

bool tls_client_key_log_apply(struct conf_scope *scope, const struct directive *row,
                              struct conf_node *node, void *settings)
{
    struct log_file **log = field_of(row, settings);

    *log = tls_option_key_log(scope->conf, node);
    return true;
}

/* ---- contexts ---- */

/* The contexts of this reading, by all their settings. */
struct context_list {
    struct map by_settings; /* struct tls_context * */
};

/* An empty name removes an inherited certificate. */
static bool has_certificate(const struct tls_client_settings *own)
{
    return own->certificate != NULL &&
           !(own->certificate->is_constant && own->certificate->constant.len == 0);
}

/* A constant certificate is loaded into the context. */
static void use_certificate(struct conf *conf, struct tls_client_settings *own,
                            struct tls_settings *made)
{
    own->is_certificate_late = false;
    if (!has_certificate(own)) {
        return;
    }
    own->is_certificate_late = !own->certificate->is_constant || !own->certificate_key->is_constant;
    if (!own->is_certificate_late) {
        struct tls_certificate *pair =
            vec_add(&made->certificates, conf->arena, struct tls_certificate);
        pair->certificate =
            tls_option_full_name(conf->arena, conf->conf_prefix, own->certificate->constant);
        pair->key =
            tls_option_full_name(conf->arena, conf->conf_prefix, own->certificate_key->constant);
    }
}

static struct tls_settings settings_of(struct conf *conf, struct tls_client_settings *own)
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

/* All settings of a context as one string. */
static struct str text_of(struct arena *arena, const struct tls_settings *made)
{
    struct str text =
        arena_printf(arena, "%u %u %u", made->protocols, made->verify, made->verify_depth);
    struct vec words = {0};

    *vec_add(&words, arena, struct str) = made->ciphers;
    *vec_add(&words, arena, struct str) = made->trusted_certificate;
    *vec_add(&words, arena, struct str) = made->crl;
    *vec_add(&words, arena, struct str) = made->key_log == NULL ? STR("") : made->key_log->path;
    vec_each(const struct tls_certificate, pair, &made->certificates) {
        *vec_add(&words, arena, struct str) = pair->certificate;
        *vec_add(&words, arena, struct str) = pair->key;
    }
    text = arena_printf(arena, "%.*s %zu", STR_ARG(text), made->commands.count);
    vec_each(const struct str, word, &made->commands) {
        *vec_add(&words, arena, struct str) = *word;
    }
    vec_each(const struct str, word, &made->passwords) {
        *vec_add(&words, arena, struct str) = *word;
    }
    vec_each(const struct str, word, &words) {
        text = arena_printf(arena, "%.*s %zu:%.*s", STR_ARG(text), word->len, STR_ARG(*word));
    }
    return text;
}

static bool check_settings(struct conf_scope *scope, const struct tls_client_settings *tls,
                           const char *prefix)
{
    if (has_certificate(tls) && tls->certificate_key == NULL) {
        return conf_error(scope->conf, scope->node,
                          "no \"%s_ssl_certificate_key\" is defined for certificate \"%.*s\"",
                          prefix, STR_ARG(tls->certificate->source));
    }
    if (tls->verify && tls->trusted_certificate.len == 0) {
        return conf_error(scope->conf, scope->node,
                          "no %s_ssl_trusted_certificate for %s_ssl_verify", prefix, prefix);
    }
    return true;
}

struct tls_context *tls_client_context(struct conf *conf, const struct tls_settings *made,
                                       struct str *error)
{
    struct context_list *list = conf_state(conf, "tls client contexts", sizeof(*list));
    struct arena scratch;

    arena_init(&scratch);
    struct str text = text_of(&scratch, made);
    struct tls_context *context = map_get(&list->by_settings, text);
    if (context == NULL) {
        context = tls_context_new(made, conf->arena, log_main, error);
        if (context != NULL) {
            map_put(&list->by_settings, conf->arena, arena_dup(conf->arena, text), context);
        }
    }
    arena_free(&scratch);
    return context;
}

bool tls_client_finish(struct conf_scope *scope, struct tls_client_settings *own,
                       const char *prefix)
{
    struct conf *conf = scope->conf;
    struct str error;

    own->context = NULL;
    if (!own->is_needed || !check_settings(scope, own, prefix)) {
        return !own->is_needed;
    }
    struct tls_settings made = settings_of(conf, own);
    own->context = tls_client_context(conf, &made, &error);
    if (own->context == NULL) {
        conf_error(conf, scope->node, "%.*s", STR_ARG(error));
        conf_hint_origin(scope, prefix);
        return false;
    }
    return true;
}

/* ---- connections ---- */

/* The host of a target. */
static struct str host_of(struct str target)
{
    return str_starts_nocase(target, STR("unix:")) ? STR("localhost") : target;
}

/* Removes the port from a name; an IPv6 address keeps its brackets. */
static struct str without_port(struct str name)
{
    const char *end = name.data;

    if (name.len != 0 && name.data[0] == '[') {
        end = str_find_char(name, ']');
    }
    if (end == NULL) {
        return name;
    }
    struct str rest = str_from(end, name.data + name.len);
    const char *colon = rest.len == 0 ? NULL : str_find_char(rest, ':');
    return colon == NULL ? name : str_from(name.data, colon);
}

const struct upstream_connection_tls *tls_client_group_link(struct arena *arena,
                                                            const struct tls_client_settings *tls,
                                                            const struct upstream_group *group,
                                                            struct str alpn)
{
    bool has_name = tls->name != NULL && tls->name->is_constant;
    struct upstream_connection_tls *made = arena_new(arena, struct upstream_connection_tls);

    made->context = tls->context;
    made->options = (struct tls_client_options){
        .name = without_port(has_name ? tls->name->constant : host_of(group->name)),
        .sends_name = tls->server_name,
        .verifies = tls->verify,
        .reuses_session = tls->session_reuse,
        .alpn = alpn,
    };
    made->options.identity = tls_client_identity(made->context, &made->options);
    return made;
}

void tls_client_link(const struct tls_client_settings *tls, struct variable_env *env,
                     struct str target, struct str alpn, struct upstream_connection_tls *out)
{
    struct str name = tls->name != NULL ? template_text(tls->name, env) : host_of(target);

    *out = (struct upstream_connection_tls){
        .context = tls->context,
        .options =
            {
                .name = without_port(name),
                .sends_name = tls->server_name,
                .verifies = tls->verify,
                .reuses_session = tls->session_reuse,
                .alpn = alpn,
                .passwords = &tls->passwords,
                .certificate_cache = tls->certificate_cache,
            },
    };
    if (tls->is_certificate_late) {
        /* An empty name: this connection has no certificate. */
        struct str directory = generation_now->conf.conf_prefix, certificate, key;

        tls_option_pair(tls->certificate, tls->certificate_key, env, &certificate, &key);
        out->options.certificate = tls_option_full_name(env->arena, directory, certificate);
        out->options.key = tls_option_full_name(env->arena, directory, key);
    }
    out->options.identity = tls_client_identity(tls->context, &out->options);
}
