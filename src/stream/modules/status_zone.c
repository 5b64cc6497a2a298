/* ngx_stream_status_zone_module: counts sessions, by `status_zone` and by peer, for `metrics` and
 * `api`. */
#include "base/clock.h"
#include "server/generation.h"
#include "server/module.h"
#include "shared/metrics/zones.h"
#include "shared/upstream/attempts.h"
#include "stream/session/hooks.h"
#include "stream/session/session.h"

struct zone_settings {
    struct str zone; /* empty = none */
};

static struct settings_key zone_key;

static bool is_counting; /* this worker counts */

/* The series of a session's server, found by name once for each session; recent results are
 * cached. */
static unsigned series_of(const struct session *session)
{
    const struct zone_settings *settings = stream_settings(session->server, &zone_key);

    return settings->zone.len == 0 ? SERIES_NONE
                                   : metrics_series(SERIES_STREAM_SERVER, settings->zone);
}

static enum session_step count_begin(struct session *session)
{
    if (is_counting && !session->is_counted) {
        session->is_counted = true;
        session->counted_by = (uint16_t) series_of(session);
        metrics_begin(session->counted_by);
    }
    return SESSION_NEXT;
}

static void count_attempts(const struct session *session)
{
    vec_each(const struct attempt, attempt, &session->attempts) {
        const struct metrics_sample sample = {
            .status = session->status,
            .time_ms = attempt->response_ms == UINT64_MAX ? 0 : attempt->response_ms,
            .received = attempt->bytes_received,
            .sent = attempt->bytes_sent,
            .has_begun = true,
        };
        if (attempt->series != 0) {
            metrics_count(attempt->series - 1, &sample);
        }
    }
}

static enum session_step count_end(struct session *session)
{
    if (!is_counting) {
        return SESSION_NEXT;
    }
    struct metrics_sample sample = {
        .status = session->status,
        .time_ms = clock_now.now_ms - session->start_ms,
        .has_begun = session->is_counted,
    };
    session_count(session, &sample.received, &sample.sent);
    metrics_count(session->is_counted ? session->counted_by : series_of(session), &sample);
    count_attempts(session);
    return SESSION_NEXT;
}

/* The http block, which decides whether anything is counted, may come after this one. */
static bool is_active(const struct stream_server *server)
{
    return true;
}

static bool zone_apply(struct conf_scope *scope, const struct directive *row,
                       struct conf_node *node, void *settings)
{
    const struct zone_settings *zone = settings;

    if (zone->zone.len == 0) {
        return conf_error(scope->conf, node, "invalid zone name \"\"");
    }
    status_zone_add(scope->conf, SERIES_STREAM_SERVER, zone->zone);
    return true;
}

static bool worker_start(struct generation *generation)
{
    is_counting = status_zones_start(&generation->conf);
    return true;
}

static const struct directive zone_rows[] = {
    {"status_zone", IN_STREAM_SERVER, STRING(struct zone_settings, zone), .apply = zone_apply,
     .syntax = "zone",
     .doc = "Counts the sessions of this server under this name, for `api` and `metrics`. "
            "Servers with the same name are counted together."},
    {0},
};

static const struct directive_table zone_table = {.key = &zone_key,
                                                  .rows = zone_rows,
                                                  .contexts = IN_STREAM | IN_STREAM_SERVER,
                                                  .size = sizeof(struct zone_settings)};
static const struct directive_table *const zone_tables[] = {&zone_table, NULL};

static const struct session_hook session_hooks[] = {
    {.phase = STREAM_POST_ACCEPT, .run = count_begin, .is_active = is_active},
    {.phase = STREAM_LOG, .run = count_end, .is_active = is_active},
    {.run = NULL},
};
static const struct stream_module zone_hooks = {.hooks = session_hooks};

const struct module ngx_stream_status_zone_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_stream_status_zone_module",
    .kind = MODULE_STREAM,
    .tables = zone_tables,
    .hooks = &zone_hooks,
    .worker_start = worker_start,
};
