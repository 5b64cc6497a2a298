/*
 * For the tests of balancers: a group of peers without configuration, names or sockets, and picks
 * that are made of it one try after the other.
 */
#ifndef TESTS_UPSTREAM_BALANCERS_H
#define TESTS_UPSTREAM_BALANCERS_H

#include "base/unit.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "upstream/peer.h"
#include "upstream/picking/choose.h"

#define PEERS_MAX 64

static struct arena arena;
static struct upstream_group group;
static struct peer_list list;
static struct peer peers[PEERS_MAX]; /* primary ones, then backups */
static struct upstream_server servers[PEERS_MAX];
static struct upstream_pick pick;
static struct variable_env env;
static uint64_t tried[(PEERS_MAX + 63) / 64];

/* One peer more: of the backups when there are such already. Gives its index. */
static inline unsigned add_peer(const char *written, unsigned weight)
{
    unsigned number = list.count++;
    struct peer *peer = &peers[number];
    struct peer_set *set = list.backup.peers != NULL ? &list.backup : &list.primary;

    assert_true(number < PEERS_MAX);
    servers[number] = (struct upstream_server){.written = str_of(written),
                                               .weight = weight,
                                               .fail_timeout_ms = 10000};
    *peer = (struct peer){.name = str_of(written),
                          .server = &servers[number],
                          .number = number,
                          .weight = weight,
                          .effective_weight = weight};
    peer->cell =
        aligned_alloc(64, (sizeof(struct peer_cell) + sizeof(struct peer_use) + 63) / 64 * 64);
    assert_non_null(peer->cell);
    memset((void *) peer->cell, 0, sizeof(struct peer_cell) + sizeof(struct peer_use));
    peer->cell->slots = 1;
    set->peers = set->peers == NULL ? peer : set->peers;
    set->count++;
    set->total_weight += weight;
    return number;
}

/* What comes now are backups. */
static inline void begin_backups(void)
{
    list.backup.peers = &peers[list.count];
}

static inline void use_balancer(const struct balancer *balancer, void *settings)
{
    group.balancer = balancer;
    group.balancer_settings = settings;
    list.is_single = list.count == 1;
    if (balancer->prepare != NULL) {
        balancer->prepare(&group, &list.primary);
        balancer->prepare(&group, &list.backup);
    }
}

/* A fresh request. */
static inline void begin_pick(void)
{
    memset(tried, 0, sizeof(tried));
    pick = (struct upstream_pick){.group = &group,
                                  .list = &list,
                                  .env = &env,
                                  .arena = &arena,
                                  .tried = tried};
}

/* Its next try among the primary peers; -1: nobody. */
static inline int next_pick(void)
{
    struct peer *peer = group.balancer->pick(&pick, &list.primary);

    if (peer == NULL) {
        return -1;
    }
    tried[peer->number / 64] |= (uint64_t) 1 << peer->number % 64;
    return (int) peer->number;
}

/* All tries of a fresh request, as "2 0 1". */
static inline struct str all_picks(void)
{
    static char text[PEERS_MAX * 4];
    size_t len = 0;
    int number;

    begin_pick();
    while ((number = next_pick()) >= 0) {
        len +=
            (size_t) snprintf(text + len, sizeof(text) - len, "%s%d", len == 0 ? "" : " ", number);
    }
    return (struct str){text, len};
}

/* A template that is a plain text. */
static inline struct template *text_template(const char *text)
{
    struct template *template = arena_new(&arena, struct template);

    template->is_constant = true;
    template->constant = template->source = str_of(text);
    return template;
}

static int set_up(void **state)
{
    arena_init(&arena);
    env = (struct variable_env){.arena = &arena};
    group = (struct upstream_group){.name = STR("u"), .peers = &list};
    list = (struct peer_list){.group = &group};
    clock_now.now_ms = 1000000;
    clock_now.seconds = 1700000000;
    return 0;
}

static int tear_down(void **state)
{
    if (group.balancer != NULL && group.balancer->forget != NULL) {
        group.balancer->forget(&list.primary);
        group.balancer->forget(&list.backup);
    }
    for (unsigned i = 0; i < list.count; i++) {
        free(peers[i].cell);
    }
    arena_free(&arena);
    return 0;
}

/* Every test begins without peers. */
#define balancer_test(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

#endif
