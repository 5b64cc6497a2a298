/* ngx_stream_limit_conn_module: limits the number of simultaneous sessions of a key. */
#include "server/module.h"
#include "shared/limit/conn.h"
#include "stream/session/hooks.h"
#include "stream/session/session.h"

struct conn_settings {
    struct vec limits; /* struct conn_limit: a session has to pass all of them */
    unsigned log_level;
    bool is_dry_run;
};

static struct settings_key conn_key;

static const struct limit_kind conn_zones = CONN_ZONES("stream");

static enum session_step limit_sessions(struct session *session)
{
    const struct conn_settings *settings = stream_settings(session->server, &conn_key);
    const struct conn_rules rules = {
        .limits = &settings->limits,
        .log_level = settings->log_level,
        .is_dry_run = settings->is_dry_run,
    };

    return conn_limits_take(&rules, &session->env, &session->arena,
                            session_data(session, &conn_key, sizeof(struct conn_outcome)))
               ? SESSION_NEXT
               : session_fail(session, SESSION_UNAVAILABLE);
}

static bool stream_limit_conn_get_status(struct variable_env *env, const struct variable *variable,
                                         struct str *out)
{
    return conn_outcome_text(session_data(variable_session(env), &conn_key, 0), out);
}

/* ---- directives ---- */

static bool stream_limit_conn_zone_apply(struct conf_scope *scope, const struct directive *row,
                                         struct conf_node *node, void *settings)
{
    return conn_zone_read(scope->conf, node, &conn_zones);
}

static bool limit_apply(struct conf_scope *scope, const struct directive *row,
                        struct conf_node *node, void *settings)
{
    return conn_limit_read(scope->conf, node, &conn_zones,
                           &((struct conn_settings *) settings)->limits);
}

static const struct directive conn_rows[] = {
    {"limit_conn_zone", IN_STREAM, CUSTOM(stream_limit_conn_zone_apply), ARGS(2, 4),
     .repeat = REPEAT_CUSTOM, .syntax = "key zone=name:size [sync[=store]] [sync_interval=time]",
     .doc = "Defines a shared memory zone that counts the sessions for each value of a key, such "
            "as `$binary_remote_addr`. Sessions with an empty key are not counted. With `sync`, "
            "all nodes that share a `redis_store` count together."},
    CONN_LIMIT_ROWS(IN_STREAM | IN_STREAM_SERVER, struct conn_settings, limit_apply),
    {0},
};

static const struct variable conn_variables[] = {
    {.name = STR_INIT("limit_conn_status"),
     .doc = "Result of limiting connections: PASSED, REJECTED or REJECTED_DRY_RUN.",
     .get = stream_limit_conn_get_status,
     .flags = VARIABLE_VOLATILE},
    {.name = {NULL, 0}},
};

static const struct session_hook session_hooks[] = {
    {.phase = STREAM_PREACCESS,
     .run = limit_sessions,
     .when = SETTING(conn_key, struct conn_settings, limits.count)},
    {.run = NULL},
};
static const struct stream_module conn_hooks = {.variables = conn_variables,
                                                .hooks = session_hooks};

/* ---- the worker ---- */

static bool stream_limit_conn_worker_start(struct generation *generation)
{
    conn_zones_join(&generation->conf, &conn_zones);
    return true;
}

static void stream_limit_conn_worker_end(struct generation *generation)
{
    conn_zones_leave(&generation->conf, &conn_zones);
}

const struct module ngx_stream_limit_conn_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_stream_limit_conn_module",
    .kind = MODULE_STREAM,
    .table = {.key = &conn_key,
              .rows = conn_rows,
              .contexts = IN_STREAM | IN_STREAM_SERVER,
              .size = sizeof(struct conn_settings)},
    .hooks = &conn_hooks,
    .worker_start = stream_limit_conn_worker_start,
    .worker_end = stream_limit_conn_worker_end,
};
