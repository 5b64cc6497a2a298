/* The configuration of active health checks: the checks of a group, the parameters of
 * `health_check`, and the names of `match` blocks. */
#include "base/map.h"
#include "base/parse.h"
#include "upstream/health.h"

bool health_add(struct conf *conf, const struct conf_node *node, struct upstream_group *group,
                struct health_settings *settings)
{
    struct health_settings **last = &group->health;
    unsigned count = 0;

    for (; *last != NULL; last = &(*last)->next) {
        count++;
    }
    if (count == PEER_CHECKS_MAX) {
        return conf_error(conf, node, "upstream \"%.*s\" has more than %d health checks",
                          STR_ARG(group->name), PEER_CHECKS_MAX);
    }
    *last = settings;
    return true;
}

/* ---- parameters ---- */

/* The defaults of nginx Plus; the timeout is that of its stream module, which has a directive for
 * it. */
enum { INTERVAL_MS = 5000, TIMEOUT_MS = 5000 };

void health_settings_init(struct health_settings *settings)
{
    *settings = (struct health_settings){.interval_ms = INTERVAL_MS,
                                         .timeout_ms = TIMEOUT_MS,
                                         .fails = 1,
                                         .passes = 1};
}

static bool read_count(struct str value, uint64_t most, uint64_t *out)
{
    return parse_uint(value, out) && *out != 0 && *out <= most;
}

static bool health_settings_read_value(struct health_settings *settings, struct str name,
                                       struct str value, bool *is_known)
{
    uint64_t number = 0;
    bool is_good;

    if (str_is(name, "interval")) {
        return parse_msec(value, &settings->interval_ms) && settings->interval_ms != 0;
    }
    if (str_is(name, "jitter")) {
        return parse_msec(value, &settings->jitter_ms) && settings->jitter_ms < UINT32_MAX;
    }
    if (str_is(name, "fails")) {
        is_good = read_count(value, INT32_MAX, &number);
        settings->fails = (unsigned) number;
        return is_good;
    }
    if (str_is(name, "passes")) {
        is_good = read_count(value, INT32_MAX, &number);
        settings->passes = (unsigned) number;
        return is_good;
    }
    if (str_is(name, "port")) {
        is_good = read_count(value, UINT16_MAX, &number);
        settings->port = (uint16_t) number;
        return is_good;
    }
    *is_known = false;
    return false;
}

bool health_word_read(struct health_settings *settings, struct str word, bool *is_known)
{
    struct str value = word;
    struct str name = str_cut(&value, '=');

    *is_known = true;
    if (str_is(word, "mandatory")) {
        settings->is_down_at_first = true;
        return true;
    }
    if (str_is(word, "persistent")) {
        settings->is_persistent = true;
        return true;
    }
    if (value.data == NULL) {
        *is_known = false;
        return false;
    }
    return health_settings_read_value(settings, name, value, is_known);
}

bool health_words_check(struct conf *conf, const struct conf_node *node,
                        const struct health_settings *settings)
{
    return !settings->is_persistent || settings->is_down_at_first ||
           conf_error(conf, node, "\"persistent\" needs \"mandatory\"");
}

/* ---- `match` ---- */

static struct map *matches_of(struct conf *conf, const struct health_match_kind *kind)
{
    return conf_state(conf, kind->state, sizeof(struct map));
}

static struct health_match *match_find_or_make(struct conf *conf,
                                               const struct health_match_kind *kind,
                                               struct str name)
{
    struct map *matches = matches_of(conf, kind);
    struct health_match *match = map_get(matches, name);

    if (match == NULL) {
        match = arena_zalloc(conf->arena, kind->size);
        match->name = name;
        map_put(matches, conf->arena, name, match);
    }
    return match;
}

struct health_match *health_match_named(struct conf *conf, const struct health_match_kind *kind,
                                        const struct conf_node *node, struct str name)
{
    struct health_match *match = match_find_or_make(conf, kind, name);

    if (match->used_by == NULL) {
        match->used_by = node;
    }
    return match;
}

bool health_match_apply(struct conf *conf, const struct health_match_kind *kind,
                        struct conf_node *node)
{
    struct health_match *match = match_find_or_make(conf, kind, node->args[1]);
    bool is_ok = true;

    if (match->node != NULL) {
        return conf_error(conf, node, "duplicate match \"%.*s\"", STR_ARG(match->name));
    }
    match->node = node;
    for (const struct conf_node *line = node->children; line != NULL; line = line->next) {
        is_ok &= kind->read_line(conf, line, match);
    }
    return is_ok;
}

bool health_match_check_all(struct conf *conf, const struct health_match_kind *kind)
{
    bool is_ok = true;

    map_each(slot, matches_of(conf, kind)) {
        const struct health_match *match = slot->value;

        if (match->node == NULL) {
            is_ok = conf_error(conf, match->used_by, "match \"%.*s\" is not defined",
                               STR_ARG(match->name));
        }
    }
    return is_ok;
}
