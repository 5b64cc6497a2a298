/* TLS towards a backend, for one request: whom it must be, and who we are. */
#include "http/exchange/internal.h"
#include "http/tls_options.h"
#include "server/generation.h"

/* The host that the target of *_pass names. */
static struct str host_of(struct str target)
{
    return str_starts_nocase(target, STR("unix:")) ? STR("localhost") : target;
}

/* A host is not told apart by a port; an IPv6 address keeps its brackets. */
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

const struct link_tls *exchange_secure_group(struct arena *arena, const struct exchange_tls *tls,
                                             const struct upstream_group *group, struct str alpn)
{
    bool has_name = tls->name != NULL && tls->name->is_constant;
    struct link_tls *made = arena_new(arena, struct link_tls);

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

void exchange_secure(struct exchange *x, struct link_tls *out)
{
    const struct exchange_tls *tls = &x->settings->tls;
    struct variable_env *env = &x->request->env;
    struct str target = x->target_text.len != 0 ? x->target_text : x->group->name;
    struct str name = tls->name != NULL ? template_text(tls->name, env) : host_of(target);

    *out = (struct link_tls){
        .context = tls->context,
        .preface = x->preface,
        .options =
            {
                .name = without_port(name),
                .sends_name = tls->server_name,
                .verifies = tls->verify,
                .reuses_session = tls->session_reuse,
                .alpn = x->protocol->alpn,
                .passwords = &tls->passwords,
                .certificate_cache = tls->certificate_cache,
            },
    };
    if (tls->is_certificate_late) {
        /* An empty name is none: this connection has no certificate. */
        struct arena *arena = &x->request->arena;
        struct str directory = generation_now->conf.conf_prefix;
        out->options.certificate =
            tls_option_full_name(arena, directory, template_text(tls->certificate, env));
        out->options.key =
            tls_option_full_name(arena, directory, template_text(tls->certificate_key, env));
    }
    out->options.identity = tls_client_identity(tls->context, &out->options);
}
