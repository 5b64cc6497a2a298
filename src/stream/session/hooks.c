/* The hooks of all stream modules, and who of them runs at a server. */
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

static void link_phase(struct conf *conf, struct stream_server *server, enum stream_phase phase)
{
    const struct vec *modules = &server->main->hooks;
    struct vec handlers = {0};

    for (size_t i = modules->count; i > 0; i--) {
        const struct stream_module *module = *vec_at(modules, const struct stream_module *, i - 1);
        const struct session_hook *hook = module->hooks;

        for (; hook != NULL && hook->run != NULL; hook++) {
            if (hook->phase == phase && (hook->is_active == NULL || hook->is_active(server))) {
                *vec_add(&handlers, conf->arena, session_handler) = hook->run;
            }
        }
    }
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
