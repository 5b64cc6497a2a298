/* The directives of the cache that read their arguments themselves: *_cache, *_cache_valid, *_cache_purge. */
#include "http/exchange/cache/rows.h"

#include "base/parse.h"
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

static void add_valid(struct conf_scope *scope, struct exchange_settings *own, unsigned status,
                      uint64_t seconds)
{
    struct cache_valid *valid = vec_add(&own->cache_valid, scope->conf->arena, struct cache_valid);

    *valid = (struct cache_valid){.status = status, .seconds = seconds};
}

bool exchange_cache_valid_apply(struct conf_scope *scope, const struct directive *row,
                                struct conf_node *node, void *settings)
{
    struct exchange_settings *own = settings;
    struct str time = node->args[node->count - 1];
    uint64_t seconds;

    if (!parse_sec(time, &seconds)) {
        return conf_error(scope->conf, node, "invalid time value \"%.*s\"", STR_ARG(time));
    }
    if (node->count == 2) {
        add_valid(scope, own, 200, seconds);
        add_valid(scope, own, 301, seconds);
        add_valid(scope, own, 302, seconds);
        return true;
    }
    for (unsigned i = 1; i + 1 < node->count; i++) {
        uint64_t status = 0;
        if (!str_is(node->args[i], "any") &&
            (!parse_uint(node->args[i], &status) || status < 100 || status > 599)) {
            return conf_error(scope->conf, node, "invalid status \"%.*s\"", STR_ARG(node->args[i]));
        }
        add_valid(scope, own, (unsigned) status, seconds);
    }
    return true;
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

/* "zone key": what this place is for. */
static bool read_purge_place(struct conf_scope *scope, struct conf_node *node,
                             struct purge_settings *purge)
{
    if (scope->context != IN_LOCATION) {
        return conf_error(scope->conf, node,
                          "\"%.*s\" with a zone and a key is for a location of its own",
                          STR_ARG(node->args[0]));
    }
    purge->cache = cache_use(scope->conf, node, node->args[1]);
    if (purge->cache == NULL || !conf_value_template(scope, node, 2, &purge->key)) {
        return false;
    }
    purge_place_set(scope_location(scope), purge);
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
        return read_purge_place(scope, node, purge);
    }
    return read_purge_predicates(scope, node, purge);
}
