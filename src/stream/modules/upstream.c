/* ngx_stream_upstream_module: upstream groups of stream, and the variables of attempts. */
#include "net/resolver/resolver.h"
#include "server/module.h"
#include "shared/upstream/attempts.h"
#include "stream/session/hooks.h"
#include "stream/session/session.h"
#include "upstream/upstream.h"

/* Groups without a resolver of their own use that of the stream block. */
static bool hand_resolver_down(struct conf_scope *scope, void *settings)
{
    const struct stream_server *server = scope_stream_server(scope);

    upstream_set_error_log(upstream_set_of(scope->conf, &upstream_stream), &server->error_log);
    upstream_set_resolver(upstream_set_of(scope->conf, &upstream_stream), server->resolver,
                          server->resolver_timeout_ms);
    return true;
}

static const struct directive_table resolver_table = {.contexts = IN_STREAM,
                                                      .finish = hand_resolver_down};

static const struct directive_table *const tables[] = {&upstream_stream_block_table,
                                                       &upstream_stream_group_table,
                                                       &resolver_table, NULL};

/* ---- variables ---- */

static bool get_attempts(struct variable_env *env, const struct variable *variable, struct str *out)
{
    return attempts_text(&variable_session(env)->attempts, (enum attempt_part) variable->data,
                         env->arena, out);
}

static bool get_last_addr(struct variable_env *env, const struct variable *variable,
                          struct str *out)
{
    const struct vec *attempts = &variable_session(env)->attempts;

    if (attempts->count == 0) {
        return false;
    }
    *out = arena_dup(env->arena, vec_at(attempts, struct attempt, attempts->count - 1)->peer);
    return true;
}

#define PART(text, part, words)                                                                    \
    {                                                                                              \
        .name = STR_INIT(text), .doc = words, .get = get_attempts, .data = part,                   \
        .flags = VARIABLE_VOLATILE                                                                 \
    }
static const struct variable variables[] = {
    PART("upstream_addr", PART_PEER,
         "Addresses of the peers that were tried, separated by commas."),
    PART("upstream_bytes_sent", PART_BYTES_SENT, "Number of bytes sent to the backend."),
    PART("upstream_bytes_received", PART_BYTES_RECEIVED,
         "Number of bytes received from the backend."),
    PART("upstream_connect_time", PART_CONNECT_TIME,
         "Time to connect to the backend, in seconds with milliseconds."),
    PART("upstream_first_byte_time", PART_FIRST_BYTE_TIME,
         "Time until the first byte from the backend, in seconds with milliseconds."),
    PART("upstream_session_time", PART_RESPONSE_TIME,
         "Duration of the session with the backend, in seconds with milliseconds."),
    {.name = STR_INIT("upstream_last_addr"),
     .doc = "Address of the last peer that was selected.",
     .get = get_last_addr,
     .flags = VARIABLE_VOLATILE},
    {.name = {NULL, 0}},
};

/* ---- the life of the module ---- */

static bool stream_upstream_configured(struct conf *conf, struct generation *generation)
{
    return generation->stream == NULL || upstream_finish(conf, &upstream_stream);
}

static bool stream_upstream_worker_start(struct generation *generation)
{
    return upstream_worker_start(generation, &upstream_stream);
}

static void stream_upstream_worker_quit(struct generation *generation)
{
    upstream_worker_quit(generation, &upstream_stream);
}

static void stream_upstream_worker_abort(struct generation *generation)
{
    stream_upstream_worker_quit(generation);
    resolver_close_all();
}

static void stream_upstream_worker_end(struct generation *generation)
{
    upstream_worker_end(generation, &upstream_stream);
    resolver_close_all();
}

static const struct stream_module hooks = {.variables = variables};

const struct module ngx_stream_upstream_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_stream_upstream_module",
    .kind = MODULE_STREAM,
    .tables = tables,
    .hooks = &hooks,
    .configured = stream_upstream_configured,
    .worker_start = stream_upstream_worker_start,
    .worker_quit = stream_upstream_worker_quit,
    .worker_abort = stream_upstream_worker_abort,
    .worker_end = stream_upstream_worker_end,
};
