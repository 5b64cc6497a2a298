/* The options that all protocols towards backends share: their words, and the rows that read their arguments
 * themselves. */
#include "http/exchange/settings.h"

#include "base/parse.h"
#include "http/exchange/purge.h"
#include "http/settings.h"
#include "http/temp_file.h"

/* ---- words ---- */

#define TRY_WORDS                                                                                  \
    {"error", NEXT_ERROR}, {"timeout", NEXT_TIMEOUT}, {"invalid_header", NEXT_INVALID_HEADER},     \
        {"non_idempotent", NEXT_NON_IDEMPOTENT}, {"http_500", NEXT_500}, {"http_503", NEXT_503},   \
        {"http_403", NEXT_403}, {"http_404", NEXT_404}, {"http_429", NEXT_429},                    \
        {"updating", NEXT_UPDATING},                                                               \
    {                                                                                              \
        "off", NEXT_OFF                                                                            \
    }
#define GATEWAY_WORDS                                                                              \
    {"http_502", NEXT_502},                                                                        \
    {                                                                                              \
        "http_504", NEXT_504                                                                       \
    }

const struct directive_word next_upstream_words[] = {TRY_WORDS,
                                                     GATEWAY_WORDS,
                                                     {"denied", NEXT_DENIED},
                                                     {NULL, 0}};
const struct directive_word fastcgi_next_upstream_words[] = {TRY_WORDS,
                                                             {"denied", NEXT_DENIED},
                                                             {NULL, 0}};
const struct directive_word cache_use_stale_words[] = {TRY_WORDS, GATEWAY_WORDS, {NULL, 0}};
const struct directive_word fastcgi_cache_use_stale_words[] = {TRY_WORDS, {NULL, 0}};
const struct directive_word tunnel_next_upstream_words[] = {{"error", NEXT_ERROR},
                                                            {"timeout", NEXT_TIMEOUT},
                                                            {"denied", NEXT_DENIED},
                                                            {"off", NEXT_OFF},
                                                            {NULL, 0}};
const struct directive_word memcached_next_upstream_words[] = {{"error", NEXT_ERROR},
                                                               {"timeout", NEXT_TIMEOUT},
                                                               {"invalid_response",
                                                                NEXT_INVALID_HEADER},
                                                               {"not_found", NEXT_NOT_FOUND},
                                                               {"denied", NEXT_DENIED},
                                                               {"off", NEXT_OFF},
                                                               {NULL, 0}};
const struct directive_word ignore_headers_words[] = {{"X-Accel-Redirect", IGNORE_X_ACCEL_REDIRECT},
                                                      {"X-Accel-Expires", IGNORE_X_ACCEL_EXPIRES},
                                                      {"X-Accel-Limit-Rate",
                                                       IGNORE_X_ACCEL_LIMIT_RATE},
                                                      {"X-Accel-Buffering",
                                                       IGNORE_X_ACCEL_BUFFERING},
                                                      {"X-Accel-Charset", IGNORE_X_ACCEL_CHARSET},
                                                      {"Expires", IGNORE_EXPIRES},
                                                      {"Cache-Control", IGNORE_CACHE_CONTROL},
                                                      {"Set-Cookie", IGNORE_SET_COOKIE},
                                                      {"Vary", IGNORE_VARY},
                                                      {NULL, 0}};
const struct directive_word cache_methods_words[] = {{"GET", METHOD_GET},
                                                     {"HEAD", METHOD_HEAD},
                                                     {"POST", METHOD_POST},
                                                     {NULL, 0}};

/* ---- the family's table of a module ---- */

/* "proxy" of "proxy_bind". */
static struct str row_prefix(const struct directive *row)
{
    struct str name = str_of(row->name);

    return str_from(name.data, str_find_char(name, '_'));
}

const struct directive_table *exchange_table_of(const struct conf_scope *scope,
                                                const void *settings)
{
    for (unsigned i = 0; i < scope->conf->table_count; i++) {
        if (scope->settings[scope->conf->tables[i]->index] == settings) {
            return scope->conf->tables[i];
        }
    }
    return NULL;
}

/* Was the row set in this very block? */
static bool is_set(const struct conf_scope *scope, const void *settings, const char *name)
{
    const struct directive_table *table =
        scope->node == NULL ? NULL : exchange_table_of(scope, settings);

    return table != NULL && conf_is_set(scope, table, name);
}

/* The name of another row of the same prefix; `suffix` begins with '_'. NUL-terminated. */
static const char *sibling_name(struct conf_scope *scope, const struct directive *row,
                                const char *suffix)
{
    return arena_printf(scope->conf->arena, "%.*s%s", STR_ARG(row_prefix(row)), suffix).data;
}

static bool invalid_value(struct conf_scope *scope, const struct conf_node *node)
{
    return conf_error(scope->conf, node, "\"%.*s\" directive invalid value",
                      STR_ARG(node->args[0]));
}

/* ---- *_bind ---- */

/* IP, or IP:port. */
static bool is_address(struct str text)
{
    struct addr address;
    struct str host;
    uint16_t port;

    return addr_parse_ip(text, &address) ||
           (addr_split_port(text, &host, &port) && addr_parse_ip(host, &address));
}

bool exchange_bind_apply(struct conf_scope *scope, const struct directive *row,
                         struct conf_node *node, void *settings)
{
    struct exchange_settings *own = settings;
    struct template *address = NULL;

    (void) row;
    if (node->count == 2 && str_is(node->args[1], "off")) {
        own->bind = NULL;
        return true;
    }
    if (!conf_value_template(scope, node, 1, &address)) {
        return false;
    }
    if (address->is_constant && !is_address(address->constant)) {
        return conf_error(scope->conf, node, "invalid address \"%.*s\"", STR_ARG(node->args[1]));
    }
    if (node->count == 3 && !str_is(node->args[2], "transparent")) {
        return conf_error(scope->conf, node, "invalid parameter \"%.*s\"", STR_ARG(node->args[2]));
    }
    struct bind_settings *bind = arena_new(scope->conf->arena, struct bind_settings);
    bind->address = address;
    bind->is_transparent = node->count == 3;
    own->bind = bind;
    if (bind->is_transparent) {
        struct generation *generation = scope->conf->generation;
        generation->binds_transparently = true;
    }
    return true;
}

/* ---- temporary files ---- */

bool exchange_temp_path_apply(struct conf_scope *scope, const struct directive *row,
                              struct conf_node *node, void *settings)
{
    struct exchange_settings *own = settings;

    (void) row;
    return temp_path_read(scope, node, &own->temp_path);
}

bool exchange_max_temp_file_size_apply(struct conf_scope *scope, const struct directive *row,
                                       struct conf_node *node, void *settings)
{
    int64_t size;

    (void) row;
    if (!parse_offset(node->args[1], &size) || size < 0) {
        return invalid_value(scope, node);
    }
    ((struct exchange_settings *) settings)->max_temp_file_size = (uint64_t) size;
    return true;
}

/* ---- *_store ---- */

bool exchange_store_apply(struct conf_scope *scope, const struct directive *row,
                          struct conf_node *node, void *settings)
{
    struct exchange_settings *own = settings;

    own->store_path = NULL;
    own->stores = !str_is(node->args[1], "off");
    if (!own->stores) {
        return true;
    }
    if ((own->cache != NULL || own->cache_name != NULL) &&
        is_set(scope, settings, sibling_name(scope, row, "_cache"))) {
        return conf_error(scope->conf, node, "\"%s\" directive is incompatible with \"%.*s_cache\"",
                          row->name, STR_ARG(row_prefix(row)));
    }
    own->cache = NULL;
    own->cache_name = NULL;
    if (str_is(node->args[1], "on")) {
        return true;
    }
    struct str path = node->args[1];
    if (path.len == 0 || path.data[0] != '$') {
        path = conf_full_name(scope->conf, path, false);
    }
    own->store_path = template_compile(scope->conf, node, path);
    return own->store_path != NULL;
}

bool exchange_store_access_apply(struct conf_scope *scope, const struct directive *row,
                                 struct conf_node *node, void *settings)
{
    static const struct {
        struct str users;
        unsigned shift;
    } groups[] = {{STR_INIT("user:"), 6}, {STR_INIT("group:"), 3}, {STR_INIT("all:"), 0}};
    unsigned access = 0600; /* who wrote the file may always do so */

    (void) row;
    for (unsigned i = 1; i < node->count; i++) {
        struct str value = node->args[i];
        unsigned g = 0;

        while (g < 3 && !str_starts(value, groups[g].users)) {
            g++;
        }
        struct str rights = g < 3 ? str_skip(value, groups[g].users.len) : STR_NONE;
        if (str_is(rights, "rw")) {
            access |= 6u << groups[g].shift;
        } else if (str_is(rights, "r")) {
            access |= 4u << groups[g].shift;
        } else {
            return conf_error(scope->conf, node, "invalid value \"%.*s\"", STR_ARG(value));
        }
    }
    ((struct exchange_settings *) settings)->store_access = access;
    return true;
}

/* ---- the cache ---- */

bool exchange_cache_apply(struct conf_scope *scope, const struct directive *row,
                          struct conf_node *node, void *settings)
{
    struct exchange_settings *own = settings;

    own->cache = NULL;
    own->cache_name = NULL;
    if (str_is(node->args[1], "off")) {
        return true;
    }
    if (own->stores && is_set(scope, settings, sibling_name(scope, row, "_store"))) {
        return conf_error(scope->conf, node, "\"%s\" directive is incompatible with \"%.*s_store\"",
                          row->name, STR_ARG(row_prefix(row)));
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
    struct cache_valid *valid = vec_push(&own->cache_valid, scope->conf->arena, sizeof(*valid));

    *valid = (struct cache_valid){.status = status, .seconds = seconds};
}

bool exchange_cache_valid_apply(struct conf_scope *scope, const struct directive *row,
                                struct conf_node *node, void *settings)
{
    struct exchange_settings *own = settings;
    struct str time = node->args[node->count - 1];
    uint64_t seconds;

    (void) row;
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
        *(struct cidr *) vec_push(&purge->allowed, scope->conf->arena, sizeof(cidr)) = cidr;
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
        *(struct template **) vec_push(&purge->predicates, scope->conf->arena, sizeof(text)) = text;
    }
    return true;
}

bool exchange_cache_purge_apply(struct conf_scope *scope, const struct directive *row,
                                struct conf_node *node, void *settings)
{
    struct exchange_settings *own = settings;
    bool is_word = template_variable_count(node->args[1]) == 0;

    (void) row;
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
