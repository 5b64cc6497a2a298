/* ngx_http_keyval_module: variables whose values can be changed by requests while the service
 * runs. */
#include "http/request/request.h"
#include "http/routing/hooks.h"
#include "http/variables/variables.h"
#include "server/generation.h"
#include "server/module.h"
#include "shared/keyval/redis.h"

/* ---- values that are fetched from Redis ---- */

static const char fetches_key;

static struct keyval_fetches *fetches_of(struct variable_env *env)
{
    if (env->kind != &request_subject) {
        return NULL;
    }
    struct request *main = variable_request(env)->main;
    struct keyval_fetches *fetches = request_data(main, &fetches_key, sizeof(*fetches));

    fetches->arena = &main->arena;
    return fetches;
}

static const struct vec *variables_of(const struct request *request)
{
    return keyval_redis_variables(&request->server->main->generation->conf, &keyval_http);
}

static enum handler_result fetch_values(struct request *request)
{
    keyval_redis_fetch(variables_of(request), &request->env);
    return request->is_cancelled ? HANDLER_CLOSED : HANDLER_NEXT;
}

/* The key may depend on the response of a backend, for example. */
static void filter_values(struct request *request)
{
    keyval_redis_fetch(variables_of(request), &request->env);
}

/* Must requests of this location wait for values? Then the hook below is active. */
static bool location_waits(const struct http_location *location)
{
    const struct handler_list *handlers = &location->preaccess;
    bool waits = false;

    for (unsigned i = 0; i < handlers->count; i++) {
        waits = waits || handlers->items[i] == fetch_values;
    }
    return waits;
}

static bool are_due(struct request *request)
{
    return location_waits(request->location) &&
           keyval_redis_is_due(variables_of(request), &request->env);
}

static void fetch_again(struct request *request)
{
    if (location_waits(request->location)) {
        keyval_redis_fetch(variables_of(request), &request->env);
    }
}

static const struct fetched_values fetched_values = {are_due, fetch_again};

/* ---- locations that may use such values ---- */

/* State of one configuration. */
struct uses {
    bool are_known;
    struct vec
        names; /* struct str: variables whose values come from Redis, or depend on such variables */
    struct vec scopes; /* const struct conf_node *: http, server and location blocks that use such a
                          name */
};

static bool has_variable(struct str text, struct str name)
{
    for (const char *at; (at = str_find_char(text, '$')) != NULL;) {
        text = str_from(at + 1, text.data + text.len);
        struct str rest = text.len != 0 && *text.data == '{' ? str_skip(text, 1) : text;
        if (str_starts_nocase(rest, name)) {
            unsigned char next = rest.len == name.len ? ' ' : (unsigned char) rest.data[name.len];
            unsigned char letter = ascii_lower(next);
            if (!(letter >= 'a' && letter <= 'z') && !ascii_is_digit(next) && next != '_') {
                return true;
            }
        }
    }
    return false;
}

/* Scripts and pages may use variables without naming them in the configuration. */
static bool names_any(const struct conf_node *node)
{
    return node->is_code || str_find(node->args[0], STR("_by_lua")) != NULL ||
           str_is(node->args[0], "ssi");
}

static bool node_uses(const struct conf_node *node, const struct vec *names)
{
    if (names_any(node)) {
        return true;
    }
    for (unsigned i = 1; i < node->count; i++) {
        vec_each(const struct str, name, names) {
            if (has_variable(node->args[i], *name)) {
                return true;
            }
        }
    }
    return false;
}

/* The directive, or the block around it, that defines a variable by others: "map TEXT $NAME". NULL:
 * the directive uses them itself. */
static const struct conf_node *node_makes(const struct conf_node *node)
{
    static const char *const makers[] = {"map", "num_map", "split_clients", "keyval", "geo"};

    for (unsigned up = 0; up < 2 && node != NULL; up++, node = node->parent) {
        for (unsigned i = 0; i < sizeof(makers) / sizeof(*makers); i++) {
            if (node->count >= 3 && str_is(node->args[0], makers[i])) {
                return node;
            }
        }
    }
    return NULL;
}

static bool has_name(const struct vec *names, struct str name)
{
    vec_each(const struct str, known, names) {
        if (str_equal_nocase(*known, name)) {
            return true;
        }
    }
    return false;
}

static bool is_scope(const struct conf_node *node)
{
    return str_is(node->args[0], "http") || str_is(node->args[0], "server") ||
           str_is(node->args[0], "location");
}

/* Searches a block. True: another name was found, so the whole configuration must be searched
 * again. */
static bool find_uses(struct conf *conf, struct uses *uses, const struct conf_node *block,
                      const struct conf_node *scope)
{
    bool is_new = false;

    for (const struct conf_node *node = block->children; node != NULL; node = node->next) {
        const struct conf_node *own = is_scope(node) ? node : scope;

        if (node_uses(node, &uses->names)) {
            const struct conf_node *maker = node_makes(node);
            if (maker == NULL) {
                *vec_add(&uses->scopes, conf->arena, const struct conf_node *) = own;
            } else if (!has_name(&uses->names, str_skip(maker->args[2], 1))) {
                *vec_add(&uses->names, conf->arena, struct str) = str_skip(maker->args[2], 1);
                is_new = true;
            }
        }
        is_new = find_uses(conf, uses, node, own) || is_new;
    }
    return is_new;
}

static const struct uses *uses_of(struct conf *conf, const struct conf_node *node)
{
    struct uses *uses = conf_state(conf, "uses of values from redis", sizeof(*uses));

    if (uses->are_known) {
        return uses;
    }
    while (node->parent != NULL && !str_is(node->args[0], "http")) {
        node = node->parent;
    }
    uses->are_known = true;
    vec_each(struct keyval_variable *, keyval, keyval_redis_variables(conf, &keyval_http)) {
        *vec_add(&uses->names, conf->arena, struct str) = (*keyval)->variable->name;
    }
    while (find_uses(conf, uses, node, node)) {
        uses->scopes.count = 0;
    }
    return uses;
}

/* May a request with these settings need a value: is a variable used in the location, or in a block
 * around it? */
static bool uses_values(const struct http_location *location)
{
    if (location->server == NULL) {
        return false; /* the settings of the http block */
    }
    struct conf *conf = &location->server->main->generation->conf;
    const struct conf_node *inner =
        location->node != NULL ? location->node : location->server->node;
    if (keyval_redis_variables(conf, &keyval_http)->count == 0) {
        return false;
    }
    const struct uses *uses = uses_of(conf, inner);
    for (const struct conf_node *node = inner; node != NULL; node = node->parent) {
        vec_each(const struct conf_node *, scope, &uses->scopes) {
            if (*scope == node) {
                return true;
            }
        }
    }
    return false;
}

static const struct phase_hook phases[] = {
    {.phase = PHASE_SERVER_REWRITE,
     .name = "keyval",
     .run = fetch_values,
     .is_active = uses_values},
    {.phase = PHASE_REWRITE, .name = "keyval", .run = fetch_values, .is_active = uses_values},
    {.phase = PHASE_PREACCESS, .name = "keyval", .run = fetch_values, .is_active = uses_values},
    {.phase = PHASE_ACCESS, .name = "keyval", .run = fetch_values, .is_active = uses_values},
    {.phase = PHASE_PRECONTENT, .name = "keyval", .run = fetch_values, .is_active = uses_values},
    {.run = NULL},
};

static const struct filter_hook filters[] = {
    {.name = "keyval", .run = filter_values, .is_active = uses_values},
    {.run = NULL},
};

static bool keyval_end(struct conf *conf, struct http_main *main)
{
    if (keyval_redis_variables(conf, &keyval_http)->count != 0) {
        main->hooks->fetched_values = &fetched_values;
    }
    return true;
}

static const struct http_module http_hooks = {.phases = phases,
                                              .filters = filters,
                                              .end = keyval_end};

/* ---- the module ---- */

static bool apply(struct conf_scope *scope, const struct directive *row, struct conf_node *node,
                  void *settings)
{
    return keyval_read(scope->conf, node, &keyval_http);
}

static bool keyval_zone_apply(struct conf_scope *scope, const struct directive *row,
                              struct conf_node *node, void *settings)
{
    return keyval_zone_read(scope->conf, node, &keyval_http);
}

static bool keyval_zone_redis_apply(struct conf_scope *scope, const struct directive *row,
                                    struct conf_node *node, void *settings)
{
    return keyval_redis_read(scope->conf, node, &keyval_http, fetches_of);
}

static bool worker_start(struct generation *generation)
{
    keyval_worker_start(&generation->conf, &keyval_http);
    return true;
}

static void worker_end(struct generation *generation)
{
    keyval_worker_end(&generation->conf, &keyval_http);
}

static const struct directive rows[] = {KEYVAL_ROWS(IN_HTTP, apply, keyval_zone_apply,
                                                    keyval_zone_redis_apply),
                                        {0}};

const struct module ngx_http_keyval_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_http_keyval_module",
    .kind = MODULE_HTTP,
    .table = {.rows = rows, .contexts = IN_HTTP},
    .hooks = &http_hooks,
    .worker_start = worker_start,
    .worker_end = worker_end,
};
