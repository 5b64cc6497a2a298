/* Hooks of modules: collected once, linked to the locations that need them. */
#include "http/routing/hooks.h"

#include <string.h>

#include "server/module.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* The order of our own hooks; one list serves all phases. */
static const char *const phase_names[] = {
    "ssl",        "acme",         "realip",        "keyval",
    "rewrite",    "headers_more", "degradation",   "limit_req",
    "limit_conn", "access",       "auth_basic",    "oidc",
    "auth_jwt",   "auth_request", "proxy_connect", "session_sticky",
    "try_files",  "mirror",       "concat",        "random_index",
    "index",      "fancyindex",   "autoindex",     "dav_ext",
    "dav",        "slowfs",       "static",        "log",
};

/* As nginx documents it; "length" are the trailers of headers_filter, which say that no length is
 * known. */
static const char *const filter_names[] = {
    "keyval",       "not_modified", "session_sticky", "srcache", "headers",
    "userid",       "trim",         "footer",         "gunzip",  "sub",
    "image_filter", "xslt",         "charset",        "ssi",     "addition",
    "zstd",         "brotli",       "gzip",           "range",   "length",
};

/* A hook on its way to its place. */
struct entry {
    const char *name, *after, *before; /* as the hook says */
    const void *hook;
};

/* Hooks of one kind, in order so far. */
struct order {
    const char *const *known; /* names whose order is given */
    size_t known_count;
    struct entry *placed;
    size_t count; /* of placed */
};

/* The place of a name in the list; known_count: it is not there. */
static size_t rank_of(const struct order *order, const char *name)
{
    size_t rank = 0;

    while (rank < order->known_count && strcmp(order->known[rank], name) != 0) {
        rank++;
    }
    return rank;
}

/* Does a placed hook stand where `name` does (0), before it (-1) or after it (1)? 2: nobody can
 * say. */
static int compare_names(const struct order *order, const struct entry *placed, const char *name)
{
    size_t left = rank_of(order, placed->name);
    size_t right = rank_of(order, name);

    if (strcmp(placed->name, name) == 0) {
        return 0;
    }
    return left == order->known_count || right == order->known_count ? 2 : left < right ? -1 : 1;
}

/* Where a hook of another name goes: false while what it names is not there. */
static bool find_place(const struct order *order, const struct entry *entry, size_t *at)
{
    const char *name = entry->after != NULL ? entry->after : entry->before;
    bool is_found = rank_of(order, name) != order->known_count;

    *at = 0;
    for (size_t i = 0; i < order->count; i++) {
        const struct entry *placed = &order->placed[i];
        int side = compare_names(order, placed, name);

        is_found |= side == 0;
        if (side == -1 || (side == 0 && entry->after != NULL) ||
            (entry->after != NULL && placed->after != NULL && strcmp(placed->after, name) == 0)) {
            *at = i + 1;
        }
    }
    return is_found;
}

static void entry_insert(struct order *order, size_t at, const struct entry *entry)
{
    memmove(&order->placed[at + 1], &order->placed[at],
            (order->count - at) * sizeof(*order->placed));
    order->placed[at] = *entry;
    order->count++;
}

/* Those of the list, then hooks that come after or before one that is there. */
static void place_all(struct conf *conf, struct order *order, const struct vec *entries)
{
    size_t left = entries->count;

    for (size_t rank = 0; rank < order->known_count; rank++) {
        vec_each(struct entry, entry, entries) {
            if (strcmp(entry->name, order->known[rank]) == 0) {
                entry_insert(order, order->count, entry);
                entry->hook = NULL;
                left--;
            }
        }
    }
    for (size_t before = left + 1; left < before;) {
        before = left;
        vec_each(struct entry, entry, entries) {
            size_t at;
            if (entry->hook != NULL && (entry->after != NULL || entry->before != NULL) &&
                find_place(order, entry, &at)) {
                entry_insert(order, at, entry);
                entry->hook = NULL;
                left--;
            }
        }
    }
    vec_each(struct entry, entry, entries) {
        const char *name = entry->after != NULL ? entry->after : entry->before;
        if (entry->hook != NULL && name == NULL) {
            conf_error(conf, NULL, "hook \"%s\" says neither \"after\" nor \"before\"",
                       entry->name);
        } else if (entry->hook != NULL) {
            conf_error(conf, NULL, "hook \"%s\" stands beside \"%s\", which there is not",
                       entry->name, name);
        }
    }
}

/* The hooks of one kind in their order. */
static struct vec in_order(struct conf *conf, const struct vec *entries, const char *const *known,
                           size_t known_count)
{
    struct vec hooks = {0};
    struct order order = {
        .known = known,
        .known_count = known_count,
        .placed = arena_array(conf->arena, entries->count + 1, sizeof(struct entry)),
    };

    place_all(conf, &order, entries);
    for (size_t i = 0; i < order.count; i++) {
        *vec_add(&hooks, conf->arena, const void *) = order.placed[i].hook;
    }
    return hooks;
}

/* Puts what a module has to do with a coding among those of the others, by rank. */
static void take_coding(struct conf *conf, struct vec *codings, const struct coding_hook *hook)
{
    if (hook == NULL) {
        return;
    }
    *vec_add(codings, conf->arena, const struct coding_hook *) = hook;
    const struct coding_hook **at = codings->items;
    size_t i = codings->count - 1;
    for (; i > 0 && at[i - 1]->coding->rank > hook->coding->rank; i--) {
        at[i] = at[i - 1];
    }
    at[i] = hook;
}

const char *const phase_words[PHASE_COUNT] = {"post-read", "server-rewrite", "rewrite",
                                              "preaccess", "access",         "precontent",
                                              "directory", "content",        "log"};

const struct phase_hook *phase_hook_find(const struct http_hooks *hooks, request_handler run)
{
    for (unsigned phase = 0; phase < PHASE_COUNT; phase++) {
        vec_each(const struct phase_hook *, hook, &hooks->phases[phase]) {
            if ((*hook)->run == run) {
                return *hook;
            }
        }
    }
    return NULL;
}

const struct value_function *value_function_find(const struct http_hooks *hooks, struct str name)
{
    vec_each(const struct value_function *, function, &hooks->functions) {
        if (str_is(name, (*function)->name)) {
            return *function;
        }
    }
    return NULL;
}

static void take_functions(struct conf *conf, struct http_hooks *hooks,
                           const struct value_function *function)
{
    for (; function != NULL && function->name != NULL; function++) {
        *vec_add(&hooks->functions, conf->arena, const struct value_function *) = function;
    }
}

/* The hooks of one module, in its own order. */
static void take_hooks(struct conf *conf, const struct http_module *http, struct vec *phases,
                       struct vec *filters)
{
    for (const struct phase_hook *hook = http->phases; hook != NULL && hook->run != NULL; hook++) {
        *vec_add(&phases[hook->phase], conf->arena, struct entry) =
            (struct entry){hook->name, hook->after, hook->before, hook};
    }
    for (const struct filter_hook *hook = http->filters; hook != NULL && hook->run != NULL;
         hook++) {
        *vec_add(filters, conf->arena, struct entry) =
            (struct entry){hook->name, hook->after, hook->before, hook};
    }
}

struct http_hooks *hooks_collect(struct conf *conf, const struct module *const *modules)
{
    struct http_hooks *hooks = arena_new(conf->arena, struct http_hooks);
    struct vec phases[PHASE_COUNT] = {0};
    struct vec filters = {0};

    for (; *modules != NULL; modules++) {
        if ((*modules)->kind == MODULE_HTTP && (*modules)->hooks != NULL) {
            const struct http_module *http = (*modules)->hooks;
            take_hooks(conf, http, phases, &filters);
            take_coding(conf, &hooks->encoders, http->encoder);
            take_coding(conf, &hooks->coded_files, http->coded_files);
            take_functions(conf, hooks, http->functions);
        }
    }
    for (unsigned phase = 0; phase < PHASE_COUNT; phase++) {
        hooks->phases[phase] = in_order(conf, &phases[phase], phase_names, COUNT(phase_names));
    }
    hooks->filters = in_order(conf, &filters, filter_names, COUNT(filter_names));
    return hooks;
}

/* Does a location need the hook that has these two? */
static bool is_needed(const struct http_location *location, const struct settings_condition *when,
                      bool (*is_active)(const struct http_location *location))
{
    return setting_is_set(when, location->settings) && (is_active == NULL || is_active(location));
}

/* The handlers of a phase that are active at a location; NULL: all. */
static struct handler_list select_handlers(struct arena *arena, const struct vec *hooks,
                                           const struct http_location *location)
{
    struct handler_list list = {arena_array(arena, hooks->count + 1, sizeof(request_handler)), 0};

    vec_each(const struct phase_hook *, hook, hooks) {
        if (location == NULL || is_needed(location, &(*hook)->when, (*hook)->is_active)) {
            list.items[list.count++] = (*hook)->run;
        }
    }
    return list;
}

static header_filter *select_filters(struct arena *arena, const struct vec *hooks,
                                     const struct http_location *location)
{
    header_filter *list = arena_array(arena, hooks->count + 1, sizeof(header_filter));
    unsigned count = 0;

    vec_each(const struct filter_hook *, hook, hooks) {
        if (is_needed(location, &(*hook)->when, (*hook)->is_active)) {
            list[count++] = (*hook)->run;
        }
    }
    return list;
}

/* Those that are active at a location; NULL: none is. */
static const struct coding_hook **select_codings(struct arena *arena, const struct vec *hooks,
                                                 const struct http_location *location)
{
    const struct coding_hook **list = arena_array(arena, hooks->count + 1, sizeof(*list));
    unsigned count = 0;

    vec_each(const struct coding_hook *, hook, hooks) {
        if (is_needed(location, &(*hook)->when, (*hook)->is_active)) {
            list[count++] = *hook;
        }
    }
    return count == 0 ? NULL : list;
}

static void link_location(const struct http_main *main, struct http_location *location)
{
    struct arena *arena = &main->generation->arena;
    static const struct http_hooks none;
    const struct http_hooks *hooks = location->is_bare ? &none : main->hooks;

    location->rewrite = select_handlers(arena, &hooks->phases[PHASE_REWRITE], location);
    location->preaccess = select_handlers(arena, &hooks->phases[PHASE_PREACCESS], location);
    location->access = select_handlers(arena, &hooks->phases[PHASE_ACCESS], location);
    location->precontent = select_handlers(arena, &hooks->phases[PHASE_PRECONTENT], location);
    location->directory_handlers =
        select_handlers(arena, &hooks->phases[PHASE_DIRECTORY], location);
    location->content_handlers = select_handlers(arena, &hooks->phases[PHASE_CONTENT], location);
    location->log = select_handlers(arena, &hooks->phases[PHASE_LOG], location);
    location->header_filters = select_filters(arena, &hooks->filters, location);
    location->encoders = select_codings(arena, &hooks->encoders, location);
    location->coded_files = select_codings(arena, &hooks->coded_files, location);
    location->has_steps =
        location->limited != NULL || location->rewrite.count + location->preaccess.count +
                                             location->access.count + location->precontent.count !=
                                         0;
}

/* Handlers for every request: those that a server has use for. */
static struct handler_list select_post_read(struct arena *arena, const struct http_main *main)
{
    struct vec wanted = {0};

    vec_each(const struct phase_hook *, hook, &main->hooks->phases[PHASE_POST_READ]) {
        bool is_wanted = false;
        vec_each(struct http_server *, server, &main->servers) {
            is_wanted = is_wanted || is_needed((*server)->root, &(*hook)->when, (*hook)->is_active);
        }
        if (is_wanted) {
            *vec_add(&wanted, arena, const struct phase_hook *) = *hook;
        }
    }
    return select_handlers(arena, &wanted, NULL);
}

void hooks_link_main(struct http_main *main)
{
    struct arena *arena = &main->generation->arena;
    const struct http_hooks *hooks = main->hooks;

    vec_each(struct http_location *, location, &main->locations) {
        link_location(main, *location);
    }
    main->post_read = select_post_read(arena, main);
    vec_each(struct http_server *, server, &main->servers) {
        (*server)->rewrite =
            select_handlers(arena, &hooks->phases[PHASE_SERVER_REWRITE], (*server)->root);
    }
}
