/* The directives of the cache that read their arguments themselves: *_cache, *_cache_valid,
 * *_cache_purge. */
#include "http/exchange/cache/rows.h"

#include "base/parse.h"
#include "cache/shared_fetch.h"
#include "http/exchange/cache/purge.h"
#include "http/routing/settings.h"

const struct directive_word cache_use_stale_words[] = {EXCHANGE_TRY_WORDS,
                                                       EXCHANGE_GATEWAY_WORDS,
                                                       {NULL, 0}};
const struct directive_word cgi_cache_use_stale_words[] = {EXCHANGE_TRY_WORDS, {NULL, 0}};
const struct directive_word cache_methods_words[] = {{"GET", METHOD_GET},
                                                     {"HEAD", METHOD_HEAD},
                                                     {"POST", METHOD_POST},
                                                     {NULL, 0}};

bool exchange_cache_apply(struct conf_scope *scope, const struct directive *row,
                          struct conf_node *node, void *settings)
{
    struct exchange_settings *own = settings;

    own->cache = NULL;
    own->cache_name = NULL;
    if (str_is(node->args[1], "off")) {
        return true;
    }
    if (own->stores && exchange_is_set(scope, settings, row, "_store")) {
        return conf_error(scope->conf, node, "\"%s\" directive is incompatible with \"%.*s_store\"",
                          row->name, STR_ARG(exchange_row_prefix(row)));
    }
    own->stores = false;
    if (template_variable_count(node->args[1]) != 0) {
        return conf_value_template(scope, node, 1, &own->cache_name);
    }
    own->cache = cache_use(scope->conf, node, node->args[1]);
    return own->cache != NULL;
}

bool exchange_cache_valid_apply(struct conf_scope *scope, const struct directive *row,
                                struct conf_node *node, void *settings)
{
    return cache_valid_read(scope, node, &((struct exchange_settings *) settings)->cache_valid);
}

bool exchange_cache_lock_apply(struct conf_scope *scope, const struct directive *row,
                               struct conf_node *node, void *settings)
{
    struct exchange_settings *own = settings;

    own->cache_lock_share = NULL;
    if (!conf_value_flag(scope, node, 1, &own->cache_lock)) {
        return false;
    }
    if (node->count > 2 && !own->cache_lock) {
        return conf_error(scope->conf, node, "invalid parameter \"%.*s\"", STR_ARG(node->args[2]));
    }
    return fetch_share_read(scope->conf, node, &own->cache_lock_share);
}

/* "METHOD from all", "METHOD from address ...". */
static bool read_purge_sources(struct conf_scope *scope, struct conf_node *node,
                               struct purge_settings *purge)
{
    for (unsigned i = 3; i < node->count; i++) {
        struct cidr cidr;

        if (str_is(node->args[i], "all")) {
            purge->allowed = (struct vec){0};
            return true;
        }
        if (!cidr_parse(node->args[i], &cidr)) {
            return conf_error(scope->conf, node, "invalid parameter \"%.*s\"",
                              STR_ARG(node->args[i]));
        }
        if (cidr.has_low_bits) {
            conf_warn(scope->conf, node, "low address bits of %.*s are meaningless",
                      STR_ARG(node->args[i]));
        }
        *vec_add(&purge->allowed, scope->conf->arena, struct cidr) = cidr;
    }
    return true;
}

static bool read_purge_predicates(struct conf_scope *scope, struct conf_node *node,
                                  struct purge_settings *purge)
{
    for (unsigned i = 1; i < node->count; i++) {
        struct template *text = NULL;
        if (!conf_value_template(scope, node, i, &text)) {
            return false;
        }
        *vec_add(&purge->predicates, scope->conf->arena, struct template *) = text;
    }
    return true;
}

bool exchange_cache_purge_apply(struct conf_scope *scope, const struct directive *row,
                                struct conf_node *node, void *settings)
{
    struct exchange_settings *own = settings;
    bool is_word = template_variable_count(node->args[1]) == 0;

    own->cache_purge = NULL;
    if (node->count == 2 && str_is(node->args[1], "off")) {
        return true;
    }
    struct purge_settings *purge = arena_new(scope->conf->arena, struct purge_settings);
    own->cache_purge = purge;
    if (is_word && (node->count == 2 || (node->count > 3 && str_is(node->args[2], "from")))) {
        purge->method = str_is(node->args[1], "on") ? STR("PURGE") : node->args[1];
        return read_purge_sources(scope, node, purge);
    }
    if (is_word && node->count == 3) {
        own->cache_purge = NULL;
        return purge_place_read(scope, node, NULL);
    }
    return read_purge_predicates(scope, node, purge);
}
