/* Hooks of modules: collected once, linked to the places that need them. */
#include "http/hooks.h"

#include <stdlib.h>

#include "http/request.h"
#include "server/module.h"

static int by_order(const void *a, const void *b)
{
    const struct phase_hook *left = *(const struct phase_hook *const *) a;
    const struct phase_hook *right = *(const struct phase_hook *const *) b;

    return (left->order > right->order) - (left->order < right->order);
}

static int filters_by_order(const void *a, const void *b)
{
    const struct filter_hook *left = *(const struct filter_hook *const *) a;
    const struct filter_hook *right = *(const struct filter_hook *const *) b;

    return (left->order > right->order) - (left->order < right->order);
}

struct http_hooks *hooks_collect(struct arena *arena, const struct module *const *modules)
{
    struct http_hooks *hooks = arena_new(arena, struct http_hooks);

    for (; *modules != NULL; modules++) {
        const struct http_module *http = (*modules)->hooks;

        if ((*modules)->kind != MODULE_HTTP || http == NULL) {
            continue;
        }
        for (const struct phase_hook *hook = http->phases; hook != NULL && hook->run != NULL;
             hook++) {
            struct vec *list = &hooks->phases[hook->phase];
            *(const struct phase_hook **) vec_push(list, arena, sizeof(hook)) = hook;
        }
        for (const struct filter_hook *hook = http->filters; hook != NULL && hook->run != NULL;
             hook++) {
            *(const struct filter_hook **) vec_push(&hooks->filters, arena, sizeof(hook)) = hook;
        }
    }
    for (unsigned phase = 0; phase < PHASE_COUNT; phase++) {
        struct vec *list = &hooks->phases[phase];
        if (list->count > 1) {
            qsort(list->items, list->count, sizeof(void *), by_order);
        }
    }
    if (hooks->filters.count > 1) {
        qsort(hooks->filters.items, hooks->filters.count, sizeof(void *), filters_by_order);
    }
    return hooks;
}

/* The handlers of a phase that are active at a place; NULL place: all. */
static struct handler_list select_handlers(struct arena *arena, const struct vec *hooks,
                                           const struct http_location *location)
{
    struct handler_list list = {arena_array(arena, hooks->count + 1, sizeof(request_handler)), 0};

    vec_each(const struct phase_hook *, hook, hooks) {
        if ((*hook)->is_active == NULL || location == NULL || (*hook)->is_active(location)) {
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
        if ((*hook)->is_active == NULL || (*hook)->is_active(location)) {
            list[count++] = (*hook)->run;
        }
    }
    return list;
}

void hooks_link_location(struct http_main *main, struct http_location *location)
{
    struct arena *arena = &main->generation->arena;
    const struct http_hooks *hooks = main->hooks;

    location->rewrite = select_handlers(arena, &hooks->phases[PHASE_REWRITE], location);
    location->preaccess = select_handlers(arena, &hooks->phases[PHASE_PREACCESS], location);
    location->access = select_handlers(arena, &hooks->phases[PHASE_ACCESS], location);
    location->precontent = select_handlers(arena, &hooks->phases[PHASE_PRECONTENT], location);
    location->log = select_handlers(arena, &hooks->phases[PHASE_LOG], location);
    location->header_filters = select_filters(arena, &hooks->filters, location);
    location->has_steps = location->rewrite.count + location->preaccess.count +
                              location->access.count + location->precontent.count !=
                          0;
}

/* Handlers for every request: those that a server has use for. */
static struct handler_list select_post_read(struct arena *arena, const struct http_main *main)
{
    struct vec wanted = {0};

    vec_each(const struct phase_hook *, hook, &main->hooks->phases[PHASE_POST_READ]) {
        bool is_wanted = (*hook)->is_active == NULL;
        vec_each(struct http_server *, server, &main->servers) {
            is_wanted = is_wanted || (*hook)->is_active((*server)->root);
        }
        if (is_wanted) {
            *(const struct phase_hook **) vec_push(&wanted, arena, sizeof(*hook)) = *hook;
        }
    }
    return select_handlers(arena, &wanted, NULL);
}

void hooks_link_main(struct http_main *main)
{
    struct arena *arena = &main->generation->arena;
    const struct http_hooks *hooks = main->hooks;

    main->post_read = select_post_read(arena, main);
    main->content = select_handlers(arena, &hooks->phases[PHASE_CONTENT], NULL);
    vec_each(struct http_server *, server, &main->servers) {
        (*server)->rewrite =
            select_handlers(arena, &hooks->phases[PHASE_SERVER_REWRITE], (*server)->root);
    }
}
