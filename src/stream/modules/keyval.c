/* ngx_stream_keyval_module: variables whose values can be changed by requests while the service
 * runs. */
#include "server/generation.h"
#include "server/module.h"
#include "shared/keyval/redis.h"
#include "stream/session/hooks.h"
#include "stream/session/session.h"

/* ---- values fetched from Redis ---- */

static const char stream_fetches_key;

static struct keyval_fetches *stream_fetches_of(struct variable_env *env)
{
    if (env->kind != &session_subject) {
        return NULL;
    }
    struct session *session = variable_session(env);
    struct keyval_fetches *fetches = session_data(session, &stream_fetches_key, sizeof(*fetches));

    fetches->arena = &session->arena;
    return fetches;
}

static const struct vec *stream_variables_of(const struct stream_server *server)
{
    return keyval_redis_variables(&server->main->generation->conf, &keyval_stream);
}

static enum session_step stream_fetch_values(struct session *session)
{
    keyval_redis_fetch(stream_variables_of(session->server), &session->env);
    return SESSION_NEXT;
}

static bool stream_has_values(const struct stream_server *server)
{
    return stream_variables_of(server)->count != 0;
}

static const struct session_hook session_hooks[] = {
    {.phase = STREAM_PREACCESS,
     .is_early = true,
     .run = stream_fetch_values,
     .is_active = stream_has_values},
    {.phase = STREAM_ACCESS,
     .is_early = true,
     .run = stream_fetch_values,
     .is_active = stream_has_values},
    {.phase = STREAM_PREREAD, .run = stream_fetch_values, .is_active = stream_has_values},
    {.run = NULL},
};
static const struct stream_module stream_hooks = {.hooks = session_hooks};

/* ---- the module ---- */

static bool apply(struct conf_scope *scope, const struct directive *row, struct conf_node *node,
                  void *settings)
{
    return keyval_read(scope->conf, node, &keyval_stream);
}

static bool stream_keyval_zone_apply(struct conf_scope *scope, const struct directive *row,
                                     struct conf_node *node, void *settings)
{
    return keyval_zone_read(scope->conf, node, &keyval_stream);
}

static bool stream_keyval_redis_apply(struct conf_scope *scope, const struct directive *row,
                                      struct conf_node *node, void *settings)
{
    return keyval_redis_read(scope->conf, node, &keyval_stream, stream_fetches_of);
}

static bool stream_keyval_worker_start(struct generation *generation)
{
    keyval_worker_start(&generation->conf, &keyval_stream);
    return true;
}

static void stream_keyval_worker_end(struct generation *generation)
{
    keyval_worker_end(&generation->conf, &keyval_stream);
}

static const struct directive rows[] = {KEYVAL_ROWS(IN_STREAM, apply, stream_keyval_zone_apply,
                                                    stream_keyval_redis_apply),
                                        {0}};

const struct module ngx_stream_keyval_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_stream_keyval_module",
    .kind = MODULE_STREAM,
    .table = {.rows = rows, .contexts = IN_STREAM},
    .hooks = &stream_hooks,
    .worker_start = stream_keyval_worker_start,
    .worker_end = stream_keyval_worker_end,
};
