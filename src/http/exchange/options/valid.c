/* How long what is kept is fresh, by status: `*_cache_valid`. */
#include "http/exchange/options/valid.h"

#include "base/parse.h"

static void add_valid(struct conf_scope *scope, struct vec *list, unsigned status, uint64_t seconds)
{
    struct cache_valid *valid = vec_add(list, scope->conf->arena, struct cache_valid);

    *valid = (struct cache_valid){.status = status, .seconds = seconds};
}

bool cache_valid_read(struct conf_scope *scope, struct conf_node *node, struct vec *valid)
{
    struct str time = node->args[node->count - 1];
    uint64_t seconds;

    if (!parse_sec(time, &seconds)) {
        return conf_error(scope->conf, node, "invalid time value \"%.*s\"", STR_ARG(time));
    }
    if (node->count == 2) {
        add_valid(scope, valid, 200, seconds);
        add_valid(scope, valid, 301, seconds);
        add_valid(scope, valid, 302, seconds);
        return true;
    }
    for (unsigned i = 1; i + 1 < node->count; i++) {
        uint64_t status = 0;
        if (!str_is(node->args[i], "any") &&
            (!parse_uint(node->args[i], &status) || status < 100 || status > 599)) {
            return conf_error(scope->conf, node, "invalid status \"%.*s\"", STR_ARG(node->args[i]));
        }
        add_valid(scope, valid, (unsigned) status, seconds);
    }
    return true;
}

uint64_t cache_valid_seconds(const struct vec *list, unsigned status)
{
    vec_each(const struct cache_valid, valid, list) {
        if (valid->status == 0 || valid->status == status) {
            return valid->seconds;
        }
    }
    return 0;
}
