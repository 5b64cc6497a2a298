/* random: a peer at random, or the better one of two. */
#include "base/checksum.h"
#include "server/module.h"
#include "upstream/cells/peer_time.h"
#include "upstream/picking/choose.h"
#include "upstream/upstream.h"

/* Of one group. */
struct random_settings {
    bool is_two;     /* the better one of two */
    bool is_by_time; /* the faster one; else the one with fewer requests */
    struct peer_time_kind time;
};

/* Any place on the line is as good as another. */
static uint64_t draw(struct upstream_pick *pick, struct str key)
{
    return (uint64_t) random_uint32() << 32 | random_uint32();
}

static uint64_t load_of(const struct random_settings *settings, const struct peer *peer)
{
    return settings->is_by_time ? peer_time_load(peer, &settings->time) : peer_active(peer->cell);
}

static struct peer *random_pick(struct upstream_pick *pick, struct peer_set *set)
{
    const struct random_settings *settings = pick->group->balancer_settings;
    struct peer *one = choose_on_line(pick, set, draw, STR_NONE, NULL);
    struct peer *other;

    if (one == NULL) {
        return round_robin_pick(pick, set);
    }
    if (!settings->is_two || set->count == 1) {
        return one;
    }
    other = choose_on_line(pick, set, draw, STR_NONE, one);
    if (other == NULL || load_is_less(load_of(settings, one), one->weight, load_of(settings, other),
                                      other->weight)) {
        return one;
    }
    return other;
}

static const struct balancer balancer_random = {
    .name = "random",
    .prepare = weight_table_prepare,
    .forget = weight_table_forget,
    .pick = random_pick,
    .refuses_backup = true,
};

/* ---- by time ---- */

static void random_connected(struct upstream_pick *pick)
{
    const struct random_settings *settings = pick->group->balancer_settings;

    peer_time_connected(pick, &settings->time);
}

static void random_responded(struct upstream_pick *pick)
{
    const struct random_settings *settings = pick->group->balancer_settings;

    peer_time_responded(pick, &settings->time);
}

static void random_done(struct upstream_pick *pick, struct peer *peer, enum peer_outcome outcome)
{
    peer_time_done(pick, outcome);
}

static const struct balancer balancer_random_by_time = {
    .name = "random two least_time",
    .prepare = weight_table_prepare,
    .forget = weight_table_forget,
    .pick = random_pick,
    .picked = peer_time_picked,
    .connected = random_connected,
    .responded = random_responded,
    .done = random_done,
    .refuses_backup = true,
};

/* ---- the directive ---- */

/* How the better of two is chosen. */
static bool read_method(struct str word, bool is_stream, struct random_settings *settings)
{
    const struct str by_time = STR("least_time=");

    settings->is_by_time = str_starts(word, by_time);
    return settings->is_by_time
               ? peer_time_read(str_skip(word, by_time.len), is_stream, &settings->time)
               : str_is(word, "least_conn");
}

static bool random_apply(struct conf_scope *scope, const struct directive *row,
                         struct conf_node *node, void *unused)
{
    struct random_settings *settings = arena_new(scope->conf->arena, struct random_settings);
    const struct str *bad = NULL;

    settings->is_two = node->count > 1;
    if (settings->is_two && !str_is(node->args[1], "two")) {
        bad = &node->args[1];
    } else if (node->count == 3 &&
               !read_method(node->args[2], scope_subsystem(scope) == &upstream_stream, settings)) {
        bad = &node->args[2];
    }
    upstream_set_balancer(scope, node,
                          settings->is_by_time ? &balancer_random_by_time : &balancer_random,
                          settings);
    return bad == NULL ||
           conf_error(scope->conf, node, "invalid parameter \"%.*s\"", STR_ARG(*bad));
}

/* ---- the modules of http and stream ---- */

#define RANDOM_ROW(CONTEXT, WORDS)                                                                 \
    {                                                                                              \
        "random", CONTEXT, CUSTOM(random_apply), ARGS(0, 2),                                       \
            .repeat = REPEAT_CUSTOM, .syntax = "[two [least_conn | " WORDS "]]",                   \
            .doc = "Selects a random server, by weight. With `two`, two servers are selected "     \
                   "at random and the better one is used: the one with fewer active requests "     \
                   "or, with `least_time`, the faster one."                                        \
    }

static const struct directive http_random_rows[] =
    {RANDOM_ROW(IN_UPSTREAM, "least_time=header | least_time=last_byte"), {0}};

const struct module ngx_http_upstream_random_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_http_upstream_random_module",
    .kind = MODULE_HTTP,
    .table = {.rows = http_random_rows},
};

static const struct directive stream_random_rows[] =
    {RANDOM_ROW(IN_STREAM_UPSTREAM,
                "least_time=connect | least_time=first_byte | least_time=last_byte"),
     {0}};

const struct module ngx_stream_upstream_random_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_stream_upstream_random_module",
    .kind = MODULE_STREAM,
    .table = {.rows = stream_random_rows},
};
