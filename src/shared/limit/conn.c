/* limit_conn: its zones and directives, and the check of requests. */
#include "shared/limit/conn.h"

#include "base/parse.h"
#include "server/generation.h"

#define CONNECTIONS_MOST 65535

bool conn_zone_read(struct conf *conf, struct conf_node *node, const struct limit_kind *kind)
{
    static const unsigned key = 1;
    struct limit_zone_words words = {.keys = &key, .key_count = 1};
    struct store_sync_words sync = {.is_wanted = false};

    for (unsigned i = 2; i < node->count; i++) {
        bool is_sync = false;
        if (str_starts(node->args[i], STR("zone="))
                ? !limit_zone_read(conf, node, node->args[i], &words.name, &words.size)
                : !store_sync_read(conf, node, node->args[i], false, &sync, &is_sync)) {
            return false;
        }
        if (!is_sync && !str_starts(node->args[i], STR("zone="))) {
            return conf_error(conf, node, "invalid parameter \"%.*s\"", STR_ARG(node->args[i]));
        }
    }
    if (words.name.len == 0) {
        return conf_error(conf, node, "\"limit_conn_zone\" must have \"zone\" parameter");
    }
    struct conn_zone *zone = (struct conn_zone *) limit_zone_declare(conf, node, kind, &words);
    if (zone == NULL || !sync.is_wanted) {
        return zone != NULL && store_sync_check(conf, node, &sync);
    }
    zone->sync = conn_sync_new(conf, node, &zone->limit, &sync);
    return zone->sync != NULL;
}

bool conn_zone_read_old(struct conf *conf, struct conf_node *node, const struct limit_kind *kind)
{
    static const unsigned key = 2;
    struct limit_zone_words words = {.keys = &key, .key_count = 1};
    struct str zone =
        arena_printf(conf->arena, "zone=%.*s:%.*s", STR_ARG(node->args[1]), STR_ARG(node->args[3]));

    if (node->args[2].len < 2 || *node->args[2].data != '$') {
        return conf_error(conf, node, "invalid variable name \"%.*s\"", STR_ARG(node->args[2]));
    }
    return limit_zone_read(conf, node, zone, &words.name, &words.size) &&
           limit_zone_declare(conf, node, kind, &words) != NULL;
}

bool conn_limit_read(struct conf *conf, struct conf_node *node, const struct limit_kind *kind,
                     struct vec *limits)
{
    struct limit_zone *zone = limit_zone_named(conf, node, kind, node->args[1]);
    uint64_t most;

    if (zone == NULL) {
        return false;
    }
    vec_each(const struct conn_limit, limit, limits) {
        if (&limit->zone->limit == zone) {
            return conf_error(conf, node, "\"%.*s\" directive is duplicate",
                              STR_ARG(node->args[0]));
        }
    }
    if (!parse_uint(node->args[2], &most) || most == 0) {
        return conf_error(conf, node, "invalid number of connections \"%.*s\"",
                          STR_ARG(node->args[2]));
    }
    if (most > CONNECTIONS_MOST) {
        return conf_error(conf, node, "connection limit must be less %d", CONNECTIONS_MOST + 1);
    }
    struct conn_limit *limit = vec_add(limits, conf->arena, struct conn_limit);
    limit->zone = (struct conn_zone *) zone;
    limit->most = (uint32_t) most;
    return true;
}

/* ---- for a request, or a session ---- */

static void share_release(void *arg)
{
    count_release(arg);
}

/* Takes the share of one limit; false: the request must not pass. */
static bool limit_take(const struct conn_rules *rules, const struct conn_limit *limit,
                       const struct shm_key *key, struct count_share *share,
                       struct variable_env *env)
{
    const struct conn_zone *zone = limit->zone;
    const struct log *log = env->log;
    enum count_result result = COUNT_TAKEN;
    uint32_t others = zone->sync == NULL ? 0 : conn_sync_others(zone->sync, key, env);
    uint32_t most = others < limit->most ? limit->most - others : 0;

    if (rules->take_over == NULL ||
        !rules->take_over(rules->subject, zone->limit.table, key, share)) {
        result = count_take(zone->limit.table, key, most, zone->holder, share);
    }
    if (result == COUNT_TAKEN) {
        return true;
    }
    if (result == COUNT_FULL) {
        log_crit(log, 0, "no memory in limit_conn_zone \"%.*s\"", STR_ARG(zone->limit.zone->name));
    }
    log_at(log, rules->log_level, 0, "limiting connections%s by zone \"%.*s\"",
           rules->is_dry_run ? ", dry run," : "", STR_ARG(zone->limit.zone->name));
    return false;
}

/* All limits let the request pass: counts this in the zones of the limits that apply, which have a
   share each. */
static void count_passed(const struct vec *limits, const struct conn_outcome *outcome)
{
    vec_each(const struct conn_limit, limit, limits) {
        for (unsigned i = 0; i < outcome->count; i++) {
            if (outcome->shares[i].table == limit->zone->limit.table) {
                limit_count(&limit->zone->limit, LIMIT_PASSED);
            }
        }
    }
}

bool conn_limits_take(const struct conn_rules *rules, struct variable_env *env, struct arena *arena,
                      struct conn_outcome *outcome)
{
    outcome->shares = arena_array(arena, rules->limits->count, sizeof(*outcome->shares));
    vec_each(const struct conn_limit, limit, rules->limits) {
        struct count_share *share = &outcome->shares[outcome->count];
        struct shm_key key;

        if (!limit_zone_key(&limit->zone->limit, env, &key)) {
            continue;
        }
        if (limit_take(rules, limit, &key, share, env)) {
            outcome->count++;
            outcome->status = CONN_PASSED;
            arena_on_free(arena, share_release, share);
            continue;
        }
        limit_count(&limit->zone->limit,
                    rules->is_dry_run ? LIMIT_REJECTED_DRY_RUN : LIMIT_REJECTED);
        while (outcome->count > 0) {
            count_release(&outcome->shares[--outcome->count]);
        }
        outcome->status = rules->is_dry_run ? CONN_REJECTED_DRY_RUN : CONN_REJECTED;
        counters_mine->limited += !rules->is_dry_run;
        return rules->is_dry_run;
    }
    count_passed(rules->limits, outcome);
    return true;
}

bool conn_outcome_text(const struct conn_outcome *outcome, struct str *out)
{
    static const struct str names[] = {[CONN_PASSED] = STR_INIT("PASSED"),
                                       [CONN_REJECTED] = STR_INIT("REJECTED"),
                                       [CONN_REJECTED_DRY_RUN] = STR_INIT("REJECTED_DRY_RUN")};

    if (outcome == NULL || outcome->status == CONN_UNLIMITED) {
        return false;
    }
    *out = names[outcome->status];
    return true;
}

/* ---- the worker ---- */

void conn_zones_join(struct conf *conf, const struct limit_kind *kind)
{
    for (struct limit_zone *zone = limit_zones_of(conf, kind); zone != NULL; zone = zone->next) {
        struct conn_zone *own = (struct conn_zone *) zone;
        own->holder = count_join(zone->table);
        if (own->sync != NULL) {
            conn_sync_prepare(own->sync);
        }
    }
}

void conn_zones_leave(struct conf *conf, const struct limit_kind *kind)
{
    for (struct limit_zone *zone = limit_zones_of(conf, kind); zone != NULL; zone = zone->next) {
        count_leave(zone->table, ((struct conn_zone *) zone)->holder);
    }
}
