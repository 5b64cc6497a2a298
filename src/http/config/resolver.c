/* `resolver` and `resolver_file` of http, server and location. */
#include "http/config/resolver.h"

#include "http/routing/settings.h"

/* The two rows exclude each other at one level. */
static bool check_other(struct conf_scope *scope, const struct conf_node *node, const char *other)
{
    return !conf_is_set(scope, &http_location_key, other) ||
           conf_error(scope->conf, node,
                      "\"%.*s\" directive is duplicate, \"%s\" directive was specified earlier",
                      STR_ARG(node->args[0]), other);
}

bool resolver_apply(struct conf_scope *scope, const struct directive *row, struct conf_node *node,
                    void *settings)
{
    return check_other(scope, node, "resolver_file") &&
           resolver_row_apply(scope, row, node, settings);
}

bool resolver_file_apply(struct conf_scope *scope, const struct directive *row,
                         struct conf_node *node, void *settings)
{
    struct resolver_settings *resolver;

    if (!check_other(scope, node, "resolver") ||
        !resolver_settings_read_file(scope->conf, node, &resolver)) {
        return false;
    }
    ((struct http_location *) settings)->resolver = resolver;
    return true;
}
