/* Collects the hooks of all stream modules, and selects those that run in each server. */
#include "stream/session/hooks.h"

#include "server/module.h"

void stream_hooks_collect(struct conf *conf, struct stream_main *main)
{
    const struct generation *generation = conf->generation;

    for (const struct module *const *module = generation->modules; *module != NULL; module++) {
        const struct stream_module *stream = (*module)->hooks;

        if ((*module)->kind != MODULE_STREAM || stream == NULL) {
            continue;
        }
        *vec_add(&main->hooks, conf->arena, const struct stream_module *) = stream;
        if (stream->variables != NULL) {
            variable_add_all(conf, &main->variables, stream->variables);
        }
        if (stream->handshake != NULL) {
            main->handshake = stream->handshake;
        }
    }
}

/* Adds the handlers of a phase that are early, or those that are not. */
static void link_some(struct conf *conf, struct stream_server *server, enum stream_phase phase,
                      bool is_early, struct vec *handlers)
{
    const struct vec *modules = &server->main->hooks;

    for (size_t i = modules->count; i > 0; i--) {
        const struct stream_module *module = *vec_at(modules, const struct stream_module *, i - 1);
        const struct session_hook *hook = module->hooks;

        for (; hook != NULL && hook->run != NULL; hook++) {
            if (hook->phase == phase && hook->is_early == is_early &&
                setting_is_set(&hook->when, server->settings) &&
                (hook->is_active == NULL || hook->is_active(server))) {
                *vec_add(handlers, conf->arena, session_handler) = hook->run;
            }
        }
    }
}

static void link_phase(struct conf *conf, struct stream_server *server, enum stream_phase phase)
{
    struct vec handlers = {0};

    link_some(conf, server, phase, true, &handlers);
    link_some(conf, server, phase, false, &handlers);
    server->phases[phase].items = handlers.items;
    server->phases[phase].count = (unsigned) handlers.count;
}

void stream_hooks_link(struct conf *conf, struct stream_main *main)
{
    vec_each(struct stream_server *, server, &main->servers) {
        for (unsigned phase = 0; phase < STREAM_PHASE_COUNT; phase++) {
            link_phase(conf, *server, (enum stream_phase) phase);
        }
    }
}
