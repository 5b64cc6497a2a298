/* Lists of peers: made of servers and of the addresses that watched names have, replaced as a
 * whole. */
#include <stdlib.h>

#include "base/fatal.h"
#include "upstream/private.h"

/* A list with its memory. */
struct list_block {
    struct peer_list list;
    struct arena arena;         /* the peers, their names */
    struct server_table *table; /* whose servers they are of, or NULL */
};

/* What a peer will be made of. */
struct draft {
    const struct upstream_server *server;
    struct known_address address;
    bool is_backup;
};

static void add_draft(struct vec *drafts, struct arena *arena, const struct upstream_server *server,
                      const struct known_address *address, bool is_backup)
{
    struct draft *draft = vec_add(drafts, arena, struct draft);

    draft->server = server;
    draft->address = *address;
    draft->is_backup = is_backup;
}

/* Targets of the lowest priority are asked first; the others are their backups (RFC 2782). */
static void draft_watched(struct vec *drafts, struct arena *arena,
                          const struct upstream_group *group, const struct upstream_server *server)
{
    unsigned count;
    const struct known_address *addresses = watch_addresses(group, server, &count);
    uint16_t lowest = UINT16_MAX;

    for (unsigned i = 0; i < count; i++) {
        lowest = addresses[i].priority < lowest ? addresses[i].priority : lowest;
    }
    for (unsigned i = 0; i < count; i++) {
        add_draft(drafts, arena, server, &addresses[i],
                  server->is_backup || addresses[i].priority > lowest);
    }
}

static void draft_fixed(struct vec *drafts, struct arena *arena, const struct upstream_group *group,
                        const struct upstream_server *server)
{
    for (size_t i = 0; i < server->addresses.count; i++) {
        const struct known_address address = {.addr = server->addresses.items[i],
                                              .cell = cell_of_server(group, server, i)};

        add_draft(drafts, arena, server, &address, server->is_backup);
    }
}

static void fill_peer(struct list_block *block, struct peer *peer, const struct draft *draft)
{
    char text[ADDR_TEXT_MAX];
    size_t length = addr_format(&draft->address.addr, true, text);

    peer->name = arena_dup(&block->arena, (struct str){text, length});
    peer->addr = draft->address.addr;
    peer->server = draft->server;
    peer->target = arena_dup(&block->arena, draft->address.target);
    peer->cell = draft->address.cell;
    peer->local = cell_local(block->list.group, peer->cell);
    peer->weight = draft->server->weight;
    if (draft->address.weight != 0 && peer->weight == 1) {
        peer->weight = draft->address.weight; /* as nginx has it: `weight` has the last word */
    }
    peer->effective_weight = peer->weight;
    peer->number = block->list.count++;
    cell_hold(peer->cell, peer->local);
}

static void fill_set(struct list_block *block, struct peer_set *set, const struct vec *drafts,
                     bool is_backup)
{
    vec_each(struct draft, draft, drafts) {
        set->count += draft->is_backup == is_backup;
    }
    set->peers = arena_array(&block->arena, set->count, sizeof(struct peer));
    struct peer *peer = set->peers;
    vec_each(struct draft, draft, drafts) {
        if (draft->is_backup == is_backup) {
            fill_peer(block, peer, draft);
            set->total_weight += peer->weight;
            peer++;
        }
    }
}

/* Peers that stay keep their state. */
static void carry_over(struct peer_set *set, const struct peer_set *old)
{
    for (unsigned i = 0; i < set->count; i++) {
        struct peer *peer = &set->peers[i];

        for (unsigned j = 0; j < old->count; j++) {
            const struct peer *former = &old->peers[(i + j) % old->count];

            if (former->cell == peer->cell && former->weight == peer->weight) {
                peer->current_weight = former->current_weight;
                peer->effective_weight = former->effective_weight;
                break;
            }
        }
    }
}

static void forget_set(const struct upstream_group *group, struct peer_set *set)
{
    if (set->count != 0 && group->balancer->forget != NULL) {
        group->balancer->forget(set);
    }
    for (unsigned i = 0; i < set->count; i++) {
        struct peer *peer = &set->peers[i];

        if (peer->local->holds == 1) {
            pools_close_peer(group->worker_state, peer->local);
        }
        cell_release(peer->cell, peer->local);
    }
}

void peer_list_release(struct peer_list *list)
{
    struct list_block *block = container_of(list, struct list_block, list);

    if (--list->references != 0) {
        return;
    }
    forget_set(list->group, &list->primary);
    forget_set(list->group, &list->backup);
    server_table_release(block->table);
    arena_free(&block->arena);
    free(block);
}

static void prepare_set(struct upstream_group *group, struct peer_set *set)
{
    if (set->count != 0 && group->balancer->prepare != NULL) {
        group->balancer->prepare(group, set);
    }
}

void peers_renew(struct upstream_group *group)
{
    struct list_block *block = calloc(1, sizeof(*block));
    struct peer_list *former = group->peers;
    struct vec drafts = {0};
    struct arena scratch;

    if (block == NULL) {
        fatal_no_memory(sizeof(*block));
    }
    arena_init(&block->arena);
    arena_init(&scratch);
    struct peer_list *list = &block->list;
    list->references = 1;
    list->group = group;
    block->table = group->worker_state->table;
    if (block->table != NULL) {
        server_table_hold(block->table);
    }
    list->number = former == NULL ? 1 : former->number + 1;
    vec_each(struct upstream_server *, server, &group->servers) {
        if ((*server)->resolves) {
            draft_watched(&drafts, &scratch, group, *server);
        } else {
            draft_fixed(&drafts, &scratch, group, *server);
        }
    }
    fill_set(block, &list->primary, &drafts, false);
    fill_set(block, &list->backup, &drafts, true);
    list->is_single = list->count == 1;
    arena_free(&scratch);
    if (former != NULL) {
        carry_over(&list->primary, &former->primary);
        carry_over(&list->backup, &former->backup);
    }
    prepare_set(group, &list->primary);
    prepare_set(group, &list->backup);
    group->peers = list;
    if (former != NULL) {
        peer_list_release(former);
    }
}
