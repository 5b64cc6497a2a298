/* What the files of this layer share with each other: cells, peer lists, idle pools, watched names.
 * Implemented in cells/cells.c, connections/pinned.c, connections/pool.c, peers/peers.c,
 * peers/servers.c, peers/servers_file.c, peers/watch.c, picking/direct.c, picking/pick.c,
 * picking/queue.c, picking/round_robin.c, settings/block.c, settings/finish.c, settings/group.c,
 * worker/group_state.c, worker/run_time.c and worker/worker.c. */
#ifndef UPSTREAM_PRIVATE_H
#define UPSTREAM_PRIVATE_H

#include "base/list.h"
#include "upstream/connection.h"
#include "upstream/peer.h"
#include "upstream/upstream.h"

/* ---- what a worker knows ---- */

/* What this worker has to do with one cell. */
struct server_table;
struct server_saving;

struct peer_local {
    struct list
        busy; /* connections in use, by in_pool: where a shared one with room is looked for */
    struct list waiters; /* struct upstream_connection_waiter: who waits for a connection, in the
                            order of coming */
    struct peer_cell *cell;
    unsigned idle;     /* connections in idle pools that lead here */
    unsigned holds;    /* peer lists of this worker that name the cell */
    unsigned open_max; /* as the last caller said; 0 = no limit */
    /* The peer has ended idle connections: the youngest had been idle for so long. Believed until
     * then; 0 = it has not. */
    uint64_t ends_after_ms;
    uint64_t ends_until_ms;
    unsigned turns; /* connections that our own waiters got since other workers had theirs */
};

/* Tengine's slices of `keepalive`: requests with the same key share a pool of their own. */
struct keepalive_slices {
    const struct template *key;
    const struct template *switch_on; /* only where it is neither empty nor "0"; NULL: always */
    unsigned connections;             /* kept for one key */
    unsigned keys_max;       /* pools with a key; 0: connections that have one are not kept */
    unsigned key_length_max; /* what follows does not count */
};

/* Idle connections that may be exchanged with each other. */
struct idle_pool {
    struct list in_group; /* in group_state.pools */
    struct list
        connections; /* struct upstream_connection by in_pool: the one that came last is first */
    struct upstream_connection_kind
        kind;       /* tag is NULL unless the group's pools are local; the key is the pool's own */
    unsigned count; /* of connections */
};

/* What a worker keeps for a group. */
struct group_state {
    struct list pools;    /* struct idle_pool; of those with a key, the one used last comes first */
    struct list in_pools; /* of pool.c: among all of this worker */
    unsigned keys;        /* of the pools: those with a key */
    struct list queue;    /* struct queued: requests that wait for a peer */
    struct list resolving; /* struct resolve_waiter: requests that wait for names */
    struct watch *watches; /* servers whose names are watched */
    bool has_unused_names; /* of dynamic_resolve: some were not resolved yet, see watch_first_use */
    unsigned users; /* picks under way, connections, and who holds it: a run-time group with users
                       stays */
    struct run_time_group *run_time; /* the whole of a run-time group; else NULL */
    struct group_state *left;        /* the next one that was left behind: see group_end */
    struct server_table *table;   /* the group's servers since they changed; NULL: they did not */
    struct vec configured;        /* the servers before they changed */
    uint64_t servers_version;     /* of the servers that are used now */
    struct server_saving *saving; /* a thread writes the state file, or will; NULL: none does */
};

/* ---- picking (pick.c, direct.c) ---- */

/* The pick takes a reference on the group's peers, and counts as its user. */
void pick_hold(struct upstream_pick *pick, struct upstream_group *group);
/* The group's balancer is a program: there is room for what it says. */
void balancer_decision_begin(struct upstream_pick *pick);
/* Asks it about the attempt that comes, and has the pick look where it says. False: it refuses. */
bool balancer_decision_leads(struct upstream_pick *pick);

/* ---- groups (group.c) ---- */

/* An implicit group with all defaults; not in the set's lists yet. */
void upstream_group_init(struct upstream_group *group, struct upstream_set *set, struct str name);
/* What holds for groups of both kinds unless a directive says otherwise. */
void upstream_group_defaults(struct upstream_group *group,
                             const struct upstream_subsystem *subsystem);
/* Gives the group its number and puts it into the set. */
void upstream_set_add(struct conf *conf, struct upstream_set *set, struct upstream_group *group);
/* A server with the defaults of `server`. */
void upstream_server_init(struct upstream_server *server, struct str written);

/* Reads the inside of an `upstream` block, which is in a scope of the outer block; the group has
 * its name and its set. */
bool upstream_block_read(struct conf_scope *scope, struct conf_node *node,
                         struct upstream_group *group);
/* What upstream_finish does with a set. */
bool upstream_finish_set(struct conf *conf, struct upstream_set *set);

/* ---- cells (cells.c) ---- */

/* One address that a watched name had when it was asked last. */
struct known_address {
    struct addr addr;
    uint16_t priority; /* of an SRV record: what is above the lowest is a backup */
    uint16_t weight;   /* of an SRV record; 0 = none */
    uint16_t nth;      /* how often the address stands before it: each time is a peer of its own */
    struct str target; /* of an SRV record, in memory of the cell; else empty */
    struct peer_cell *cell;
};

/* Makes the shared memory for all groups of the set, and takes over what the former generation
 * knew. False after conf_error. */
bool cells_lay_out(struct conf *conf, struct upstream_set *set);

/* Workers of the reading. */
unsigned cells_slots(const struct conf *conf);

/* A worker begins: its own entries are cleared, for its predecessor may have died. */
void cells_worker_start(struct upstream_set *set);
void cells_worker_end(struct upstream_set *set);

/* The cell of an address that the configuration gave: `index` among the server's. */
struct peer_cell *cell_of_server(const struct upstream_group *group,
                                 const struct upstream_server *server, size_t index);

/*
 * The cell of an address that was found at run time, filled in; held until cell_release. When the
 * shared memory is full, or the group is a run-time one: a private cell.
 */
void cell_claim(struct upstream_group *group, const struct upstream_server *server,
                struct known_address *address);

/* Notes which addresses the name of a server has now, for the next worker and the next generation.
 */
void cells_remember(struct upstream_group *group, const struct upstream_server *server,
                    const struct known_address *addresses, unsigned count);
/* These are no longer of a name: their server has gone, or has another name. */
void cells_forget(const struct upstream_group *group, const struct known_address *addresses,
                  unsigned count);
/* What was noted: appends struct known_address to the list, with their cells, not held. */
void cells_recall(struct upstream_group *group, const struct upstream_server *server,
                  struct arena *arena, struct vec *out);

void cell_hold(struct peer_cell *cell, struct peer_local *local);
/* A private cell goes with its last hold or its last connection. */
void cell_release(struct peer_cell *cell, struct peer_local *local);
/* A private cell that nobody needs any more is freed. */
void cell_let_go(struct peer_cell *cell, struct peer_local *local);
struct peer_local *cell_local(const struct upstream_group *group, struct peer_cell *cell);

/* ---- servers that change (servers.c, servers_file.c) ---- */

/* Some servers of a group: kept while something names them; a pin keeps the servers alone, a hold
 * their cells, too. NULL is fine for the others than hold. */
void server_table_pin(struct server_table *table);
void server_table_unpin(struct server_table *table);
void server_table_hold(struct server_table *table);
void server_table_release(struct server_table *table);

/* Reads the address of a server that has its `written` and `service`. NULL, or what is wrong with
 * it. */
const char *upstream_server_parse(struct arena *arena, uint16_t default_port,
                                  struct upstream_server *server);

/* Shared memory for the servers of all groups that may change. False after conf_error. */
bool servers_lay_out(struct conf *conf, struct upstream_set *set);

/* A worker begins: none of its requests waits in a queue. */
void servers_worker_start(const struct upstream_set *set);

/* The beginning of a state file; the number of its servers follows. */
#define SERVERS_FILE_HEAD "# servers: "

/* What holds of the group's servers, by what servers_read gives, and whether the file says so. For
 * the thread that writes. */
struct shm_lock *servers_file_lock(const struct upstream_group *group);
uint64_t servers_version(const struct upstream_group *group);
_Atomic uint64_t *servers_file_version(const struct upstream_group *group);
/* The version that a thread has tried to write, with or without success. */
_Atomic uint64_t *servers_tried_version(const struct upstream_group *group);

/* From now on the group does not change, or does so again. Gives the last version of the group. */
uint64_t servers_set_handed_over(const struct upstream_group *group, bool is_handed_over);

/* ---- from one generation to the next (hand_over.c) ---- */

/* The set of this reading has groups that can change. */
void servers_may_be_handed_over(struct conf *conf, struct upstream_set *set);
/*
 * The state file of this name is read for the next generation: groups of the generation in force
 * that write it change no more, and what they have changed is in the file. That ends if the reading
 * fails. Blocks for the time that their threads write, a second at most.
 */
void servers_hand_over(struct conf *conf, const struct upstream_set *set, struct str file);

/* A worker ends: files that threads write are whole. */
void servers_files_end(const struct upstream_set *set);

/* Has the group other servers than this worker uses? */
bool servers_have_changed(const struct upstream_group *group);

/* ---- peer lists (peers.c) ---- */

/* Makes group->peers again out of the servers and of what the watched names have now. */
void peers_renew(struct upstream_group *group);
/* One reference less: the last one frees it. */
void peer_list_release(struct peer_list *list);

/* ---- picking (pick.c) ---- */

/* The list of peers of now, if nobody of the former was tried. */
void pick_renew(struct upstream_pick *pick);

/* A peer for the request out of those that may serve now, taken into use; NULL: nobody may. */
struct peer *pick_now(struct upstream_pick *pick);

/* The peer of pick->list that the client's own connections lead to, or NULL (pinned.c). */
struct peer *pinned_peer(const struct pinned_connections *pinned, const struct upstream_pick *pick);

/* Is there somebody whom a request may wait for in the queue? */
bool pick_may_wait(const struct upstream_pick *pick);

/* Waits in the group's queue until pick_now finds somebody. MAY WAIT. */
enum pick_result queue_wait(struct upstream_pick *pick);
/* A peer of the group was given back: the request that waits longest looks again. */
void queue_wake(struct group_state *state);

/* Passes over a random number of turns, as the set of groups wants it. */
void round_robin_discard(const struct upstream_set *set, struct peer_set *peers);

/* ---- names (watch.c) ---- */

struct watch;

/* Makes what is needed to watch the names of a group; their addresses are those remembered. */
void watch_prepare(struct upstream_group *group);
/* The group has other servers: names that came are watched, those that are gone are not any more.
 */
void watch_renew(struct upstream_group *group);
/* Starts asking. False when there are no fibers left. */
bool watch_start(struct upstream_group *group);
/* Ends the fibers, when they run next. */
void watch_quit(struct upstream_group *group);
/* Frees what watch_prepare made. A fiber that was asked to end and did not run since frees the
 * rest. */
void watch_free(struct group_state *state);

/* The addresses that the name of this server has now. */
const struct known_address *watch_addresses(const struct upstream_group *group,
                                            const struct upstream_server *server, unsigned *count);
/* Is the name of this server one that could not be resolved when it was asked last? */
bool watch_has_failed(const struct upstream_group *group, const struct upstream_server *server);
/* The only watched name of a group has these addresses from now on. */
void watch_answer(struct upstream_group *group, const struct resolved *found);

/* For the first requests of a group with dynamic_resolve: has its names resolved and waits until
 * each was answered, at most for resolver_timeout. MAY WAIT. */
enum wait_result watch_first_use(struct upstream_group *group);
/* Asks for the names of a group without addresses, and waits until all were answered. MAY WAIT. */
enum wait_result watch_wait(struct upstream_group *group);

/* ---- connections (connection.c, pool.c) ---- */

/* The group has no pools yet. */
void pools_start(struct group_state *state);
/* Closes all idle connections of the group. */
void pools_close(struct group_state *state);
/* Closes the idle connections that lead to this cell. */
void pools_close_peer(struct group_state *state, const struct peer_local *local);
/* Closes all idle ones, frees the pools. */
void pools_free(struct group_state *state);
/* The group's pools are not looked at for any that could give way; its end may be near without
 * pools_free. */
void pools_forget(struct group_state *state);

/* From now on idle connections to peers give way when connections run out, after those of clients.
 */
void pools_worker_start(void);
void pools_worker_end(void);

/* ---- run time (run_time.c) ---- */

/* Groups made at run time. */
void run_time_each(void (*visit)(struct upstream_group *group, void *arg), void *arg);
/* Frees those of this set that have no users: when it ends. */
void run_time_end(const struct upstream_set *set);

/* ---- sets in a worker (worker.c) ---- */

/* False: no memory, no fibers; logged. */
bool set_start(struct upstream_set *set);
/* Nothing is kept, watched or probed any more; may be called again. */
void set_quit(struct upstream_set *set);
/* After set_quit and some turns of the loop; groups with users are left behind. */
void set_end(struct upstream_set *set);

/* ---- what a worker has of a group (group_state.c) ---- */

/* Gives a group its state and its peers; run_time is NULL for those of the configuration. */
void group_start(struct upstream_group *group, struct run_time_group *run_time);
/* Takes them away, and the idle connections; not while there are users. */
void group_end(struct upstream_group *group);

#endif
