/* ngx_http_upstream_dynamic_module: the names of a group are followed while the service runs. */
#include "base/parse.h"
#include "server/module.h"
#include "upstream/private.h"

static const struct {
    const char *word;
    enum resolve_fallback fallback;
} fallbacks[] = {
    {"fallback=stale", FALLBACK_STALE},
    {"fallback=next", FALLBACK_NEXT},
    {"fallback=shutdown", FALLBACK_SHUTDOWN},
};

static bool read_fallback(struct str parameter, struct upstream_group *group)
{
    for (unsigned i = 0; i < sizeof(fallbacks) / sizeof(fallbacks[0]); i++) {
        if (str_is(parameter, fallbacks[i].word)) {
            group->fallback = fallbacks[i].fallback;
            return true;
        }
    }
    return false;
}

static bool dynamic_resolve_apply(struct conf_scope *scope, const struct directive *row,
                                  struct conf_node *node, void *settings)
{
    const struct str timeout = STR("fail_timeout=");
    struct upstream_group *group = scope_group(scope);

    group->fallback = FALLBACK_STALE;
    for (unsigned i = 1; i < node->count; i++) {
        struct str parameter = node->args[i];

        if (!read_fallback(parameter, group) &&
            !(str_starts(parameter, timeout) &&
              parse_msec(str_skip(parameter, timeout.len), &group->resolve_fail_timeout_ms))) {
            return conf_error(scope->conf, node, "invalid parameter \"%.*s\"", STR_ARG(parameter));
        }
    }
    return true;
}

static const struct directive dynamic_rows[] = {
    {"dynamic_resolve", IN_UPSTREAM, CUSTOM(dynamic_resolve_apply), ARGS(0, 2),
     .syntax = "[fallback=stale|next|shutdown] [fail_timeout=time]",
     .doc = "Resolves the names of the group's servers at run time, by the configured resolver "
            "or else by the system. A name is resolved when a request first uses the group, "
            "which waits for the result, and again whenever the answer has expired. When a name "
            "cannot be resolved, its server keeps its previous addresses, initially those found "
            "at startup (`stale`), is skipped (`next`), or its requests fail (`shutdown`). The "
            "name is resolved again after fail_timeout."},
    {0},
};

extern const struct module ngx_http_upstream_dynamic_module;
const struct module ngx_http_upstream_dynamic_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_http_upstream_dynamic_module",
    .kind = MODULE_HTTP,
    .table = {.rows = dynamic_rows, .contexts = IN_UPSTREAM},
};
